// SPDX-License-Identifier: MIT
/*
 * The static checker. A valid layer passes, and each single fault in it is named. A stream that
 * passes gives the same bytes at any speed of memory and array.
 */
#include <errno.h>
#include <time.h>

#include "npu/isa_check.h"
#include "npu/isa_words.h"
#include "npu_rig.h"
#include "rivulet_footprint.h"
#include "suite.h"

static struct rig rig;
static struct rvl_isa_report report;
static struct rvl_isa_slot slots[RIVULET_SLOTS];

static void setup(void)
{
	rig_open(&rig, rig_board(16, 16, 4));
	memset(slots, 0, sizeof(slots));
	slots[1] = (struct rvl_isa_slot){ .size = RIG_MEM, .write = true };
}

static void teardown(void)
{
	rig_close(&rig);
}

static int check(void)
{
	return rvl_isa_check(&rig.board, rig.code, rig.count, slots, &report);
}

static void expect(enum rvl_isa_problem p, uint32_t first, uint32_t second)
{
	int r = check();

	if (report.problem != p)
		ck_abort_msg("found %s: %s", rvl_isa_problem_name(report.problem), report.text);
	ck_assert_int_eq(r, p ? -EINVAL : 0);
	ck_assert_uint_eq(report.first, first);
	ck_assert_uint_eq(report.second, second);
}

#define NO RVL_ISA_NO_INSN

/*
 * Two tiles through a double-buffered input and one accumulator: 20 instructions with every kind of
 * dependency. The indices in the comments are those of the tables below.
 */
static const char *const layer[] = {
	"load l_dst row_pitch=8 blk_pitch=64", /* 0 */
	"load l_src row_pitch=128 blk_pitch=1024",
	"conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1",
	"conv c_input row_pitch=8 rows=8 cols=8",
	"conv c_out row_pitch=8",
	"alu a_src a_row=8", /* 5 */
	"alu a_dst row=8",
	"alu a_rq lo=-128 hi=127",
	"store s_src row_pitch=8",
	"store s_dst row_pitch=128",
	"load load mem=1 slot=1 rows=1 cols=16 blks=1", /* 10 weights */
	"load load mem=1 addr=16 slot=1 offset=4096 rows=1 cols=8 blks=1 push=alu",
	"load load slot=1 offset=8192 rows=8 cols=8 blks=1 push=conv",
	"conv conv rows=8 cols=8 icb=1 ocb=1 pop=load push=alu",
	"alu sync pop=load",
	"alu alu src=1 d=1000 prm=16 rows=8 cols=8 blks=1 rq=1 pop=conv push=conv,store", /* 15 */
	"load load addr=100 slot=1 offset=16384 rows=8 cols=8 blks=1 push=conv",
	"store store addr=1000 slot=1 offset=65536 rows=8 cols=8 blks=1 pop=alu push=alu",
	"conv sync pop=load",
	"conv conv inp=100 rows=8 cols=8 icb=1 ocb=1 pop=alu push=alu",
	"alu sync pop=conv", /* 20 */
	"alu alu src=1 d=1000 prm=16 rows=8 cols=8 blks=1 rq=1 pop=store push=store",
	"store store addr=1000 slot=1 offset=73728 rows=8 cols=8 blks=1 pop=alu",
};
#define LAYER ((int)(sizeof(layer) / sizeof(layer[0])))

static void put_layer(int skip)
{
	rig_reset(&rig);
	for (int i = 0; i < LAYER; i++)
		if (i != skip)
			rig_asm(&rig, layer[i]);
	rig_end(&rig);
}

START_TEST(sound_layer)
{
	put_layer(-1);
	expect(RVL_ISA_NONE, NO, NO);
	ck_assert_int_eq(rig_run(&rig), RIVULET_FAULT_NONE);
}
END_TEST

/* Removing the token between two instructions reports the hazard that it prevents. */
static const struct {
	int pusher, popper;
	const char *without_push, *without_pop;
	enum rvl_isa_problem problem;
	uint32_t first, second;
} cuts[] = {
	{ 12, 13, "load load slot=1 offset=8192 rows=8 cols=8 blks=1",
	  "conv conv rows=8 cols=8 icb=1 ocb=1 push=alu", RVL_ISA_RAW, 12, 13 },
	{ 13, 15, "conv conv rows=8 cols=8 icb=1 ocb=1 pop=load",
	  "alu alu src=1 d=1000 prm=16 rows=8 cols=8 blks=1 rq=1 push=conv,store", RVL_ISA_RAW, 13,
	  15 },
	{ 15, 19, "alu alu src=1 d=1000 prm=16 rows=8 cols=8 blks=1 rq=1 pop=conv push=store",
	  "conv conv inp=100 rows=8 cols=8 icb=1 ocb=1 push=alu", RVL_ISA_WAR, 15, 19 },
	{ 17, 21, "store store addr=1000 slot=1 offset=65536 rows=8 cols=8 blks=1 pop=alu",
	  "alu alu src=1 d=1000 prm=16 rows=8 cols=8 blks=1 rq=1 push=store", RVL_ISA_WAR, 17, 21 },
	{ 11, 14, "load load mem=1 addr=16 slot=1 offset=4096 rows=1 cols=8 blks=1", "alu sync",
	  RVL_ISA_NONE, NO, NO }, /* implied by the CONV's token and in-order retirement */
};

START_TEST(missing_order)
{
	rig_reset(&rig);
	for (int i = 0; i < LAYER; i++)
		rig_asm(&rig, i == cuts[_i].pusher ? cuts[_i].without_push :
			      i == cuts[_i].popper ? cuts[_i].without_pop :
						     layer[i]);
	rig_end(&rig);
	expect(cuts[_i].problem, cuts[_i].first, cuts[_i].second);
}
END_TEST

/* Without one of the instructions that carry tokens, the counts do not balance. */
START_TEST(unbalanced)
{
	static const int skip[] = { 11, 13, 14, 15, 17, 18, 20, 21, 22 };

	put_layer(skip[_i]);
	ck_assert_int_eq(check(), -EINVAL);
	ck_assert_int_ne(report.problem, RVL_ISA_NONE);
}
END_TEST

START_TEST(two_writers)
{
	rig_asm(&rig, "load load slot=1 rows=1 cols=8 blks=1");
	rig_asm(&rig, "load load slot=1 rows=1 cols=1 addr=200 blks=1 push=alu");
	rig_asm(&rig, "alu alu a=200 d=7 rows=1 cols=1 blks=1 pop=load");
	rig_asm(&rig, "load load slot=1 rows=1 cols=8 blks=1");
	rig_end(&rig);
	expect(RVL_ISA_WAW, 2, 3);
	ck_assert_int_eq(report.mem, RIVULET_MEM_INP);
	ck_assert_uint_eq(report.word, 7);
	ck_assert_ptr_nonnull(strstr(report.text, "#2 alu alu a=200 d=7"));
	ck_assert_ptr_nonnull(strstr(report.text, "#3 load load"));
}
END_TEST

START_TEST(never_written)
{
	rig_asm(&rig, "load load slot=1 rows=1 cols=8 blks=1 push=store");
	rig_asm(&rig, "store store slot=1 addr=1 rows=1 cols=8 blks=1 pop=load");
	rig_end(&rig);
	expect(RVL_ISA_UNWRITTEN, 1, NO);
	ck_assert_uint_eq(report.word, 8);
}
END_TEST

START_TEST(outside)
{
	rig_asm(&rig, "load load slot=1 rows=1 cols=8 addr=4089 blks=1");
	rig_end(&rig);
	expect(RVL_ISA_SPAD, 0, NO);
	rig_reset(&rig);
	rig_asm(&rig, "load load slot=1 offset=1048561 rows=1 cols=1 blks=1");
	rig_end(&rig);
	expect(RVL_ISA_SLOT, 0, NO);
	rig_reset(&rig);
	rig_asm(&rig, "load load slot=2 rows=1 cols=1 blks=1");
	rig_end(&rig);
	expect(RVL_ISA_SLOT, 0, NO);
	rig_reset(&rig);
	slots[1].write = false;
	rig_asm(&rig, "load load slot=1 rows=1 cols=1 blks=1 push=store");
	rig_asm(&rig, "store store slot=1 rows=1 cols=1 blks=1 pop=load");
	rig_end(&rig);
	expect(RVL_ISA_SLOT, 1, NO);
	rig_reset(&rig);
	rig_asm(&rig, "load q_prof slot=1 limit=1");
	rig_end(&rig);
	expect(RVL_ISA_SLOT, 0, NO);
}
END_TEST

/*
 * One instruction stores a result that another one loads, from overlapping and from disjoint bytes.
 */
static void put_through_memory(const char *store_push, const char *load_pop, int offset)
{
	char line[128];

	rig_reset(&rig);
	rig_asm(&rig, "load load slot=1 rows=1 cols=4 blks=1 push=store");
	snprintf(line, sizeof(line),
		 "store store slot=1 offset=4096 rows=1 cols=4 blks=1 pop=load %s", store_push);
	rig_asm(&rig, line);
	snprintf(line, sizeof(line), "load load slot=1 offset=%d addr=100 rows=1 cols=2 blks=1 %s",
		 offset, load_pop);
	rig_asm(&rig, line);
	rig_end(&rig);
}

START_TEST(through_memory)
{
	put_through_memory("push=load", "pop=store", 4128);
	expect(RVL_ISA_NONE, NO, NO);
	put_through_memory("", "", 4096 + 64);
	expect(RVL_ISA_NONE, NO, NO);
	put_through_memory("", "", 4096 - 32);
	expect(RVL_ISA_NONE, NO, NO);
	put_through_memory("", "", 4096 + 48);
	expect(RVL_ISA_RAW, 1, 2);
	ck_assert_int_eq(report.mem, RIVULET_MEMS);
	ck_assert_uint_eq(report.word, 4096 + 48);
	ck_assert_ptr_nonnull(strstr(report.text, "slot 1"));
	rig_reset(&rig);
	rig_asm(&rig, "load load slot=1 rows=1 cols=4 blks=1 push=store");
	rig_asm(&rig, "load load slot=1 addr=10 offset=4096 rows=1 cols=4 blks=1");
	rig_asm(&rig, "store store slot=1 offset=4096 rows=1 cols=4 blks=1 pop=load");
	rig_end(&rig);
	expect(RVL_ISA_WAR, 1, 2);
}
END_TEST

/* The bytes that each layout accesses, tested just inside and just outside of them. */
static const struct {
	const char *cfg, *load;
	int inside, outside; /* byte offsets that a STORE of one word hits */
} shapes[] = {
	{ "load l_src row_pitch=100 blk_pitch=1000",
	  "load load slot=1 offset=64 addr=64 rows=2 cols=1 blks=2", 1152, 192 },
	{ "load l_src row_pitch=64 ch_pitch=640",
	  "load load kind=1 slot=1 offset=64 addr=64 rows=2 cols=16 blks=1", 768, 80 },
	{ "load l_src row_pitch=640 ch_pitch=64",
	  "load load kind=2 slot=1 offset=64 addr=64 rows=2 cols=3 blks=1", 832, 80 },
	{ "load l_src row_pitch=64 ch_pitch=640",
	  "load load kind=3 slot=1 offset=64 addr=64 rows=2 cols=15 blks=1", 1472, 80 },
};

START_TEST(shapes_in_memory)
{
	for (int hit = 0; hit < 2; hit++) {
		char line[128];

		rig_reset(&rig);
		rig_asm(&rig, "load l_chan channels=3");
		rig_asm(&rig, "load l_gather kh=2 kw=2 sy=1 sx=1 dy=1 dx=1 ch=3");
		rig_asm(&rig, "load l_bounds rows=3 cols=16");
		rig_asm(&rig, "load l_dst row_pitch=20 blk_pitch=100");
		rig_asm(&rig, "load load slot=1 offset=65536 rows=1 cols=1 blks=1 push=store");
		rig_asm(&rig, shapes[_i].cfg);
		rig_asm(&rig, shapes[_i].load);
		snprintf(line, sizeof(line),
			 "store store slot=1 offset=%d rows=1 cols=1 blks=1 pop=load",
			 hit ? shapes[_i].inside : shapes[_i].outside);
		rig_asm(&rig, line);
		rig_end(&rig);
		expect(hit ? RVL_ISA_WAR : RVL_ISA_NONE, hit ? 6 : NO, hit ? 7 : NO);
	}
}
END_TEST

START_TEST(illegal)
{
	rig_asm(&rig, "conv conv rows=1 cols=1 icb=1 ocb=1");
	rig_end(&rig);
	expect(RVL_ISA_ILLEGAL, 0, NO);
	rig_reset(&rig);
	rig_asm(&rig, ".insn 0 0");
	rig_end(&rig);
	expect(RVL_ISA_ILLEGAL, 0, NO);
	rig_reset(&rig);
	rig_asm(&rig, "alu sync kind=1 pop=load");
	expect(RVL_ISA_ILLEGAL, 0, NO);
}
END_TEST

START_TEST(end_of_stream)
{
	expect(RVL_ISA_NO_END, NO, NO);
	rig_asm(&rig, "load sync");
	expect(RVL_ISA_NO_END, 0, NO);
	rig_reset(&rig);
	rig_end(&rig);
	rig_end(&rig);
	expect(RVL_ISA_NO_END, 0, NO);
}
END_TEST

START_TEST(tokens)
{
	rig_asm(&rig, "load sync push=conv");
	rig_end(&rig);
	expect(RVL_ISA_TOKEN_LEFT, 0, NO);
	rig_reset(&rig);
	rig_asm(&rig, "conv sync pop=load");
	rig_end(&rig);
	expect(RVL_ISA_TOKEN_MISSING, 0, NO);
	rig_reset(&rig);
	rig_asm(&rig, "conv sync pop=alu push=alu");
	rig_asm(&rig, "alu sync pop=conv push=conv");
	rig_end(&rig);
	expect(RVL_ISA_DEADLOCK, 0, 1);
}
END_TEST

/*
 * 16 instructions fit the queue. With 17, the instruction behind them that pushes the token is
 * never fetched.
 */
START_TEST(depth)
{
	for (int i = 0; i < 16; i++)
		rig_asm(&rig, i ? "conv sync" : "conv sync pop=load");
	rig_asm(&rig, "load sync push=conv");
	rig_end(&rig);
	expect(RVL_ISA_NONE, NO, NO);
	rig.board.queue_depth = 15;
	expect(RVL_ISA_DEADLOCK, 0, 16);
}
END_TEST

/* 300 tokens overflow if they can all be pending, but not if the depth of the queue limits them. */
START_TEST(overflow)
{
	rig_asm(&rig, "alu sync push=conv");
	for (int i = 0; i < 300; i++)
		rig_asm(&rig, "load sync push=conv");
	for (int i = 0; i < 300; i++)
		rig_asm(&rig, i ? "conv sync pop=load" : "conv sync pop=load,alu");
	rig_end(&rig);
	expect(RVL_ISA_TOKEN_OVERFLOW, 256, NO);
	rig_reset(&rig);
	for (int i = 0; i < 300; i++) {
		rig_asm(&rig, "load sync push=conv");
		rig_asm(&rig, "conv sync pop=load");
	}
	rig_end(&rig);
	expect(RVL_ISA_NONE, NO, NO);
}
END_TEST

/* ---- soundness against the model ---- */

/* A small random program on a few buffers, with random tokens. */
static void random_program(void)
{
	int pending[4][4] = { 0 };
	int n = rig_pick(&rig, 3, 14);

	rig_reset(&rig);
	for (int i = 0; i < n; i++) {
		struct rivulet_decoded d = { 0 };
		int q = rig_pick(&rig, 0, 2), words = rig_pick(&rig, 1, 3),
		    b = rig_pick(&rig, 0, 3) * 4;

		if (q == 0) {
			d.form = RIVULET_FORM_load;
			d.load = (struct rivulet_insn_load){ .addr = b,
							     .slot = 1,
							     .rows = 1,
							     .cols = words,
							     .offset = rig_pick(&rig, 0, 80) * 16 +
								       32768,
							     .blks = 1 };
		} else if (q == 1) {
			q = RIVULET_Q_ALU;
			d.form = RIVULET_FORM_alu;
			d.alu = (struct rivulet_insn_alu){ .a = rig_pick(&rig, 0, 3) * 4,
							   .d = b,
							   .rows = 1,
							   .cols = words,
							   .blks = 1,
							   .bin = 1,
							   .b = rig_pick(&rig, 0, 3) * 4 };
		} else {
			q = RIVULET_Q_STORE;
			d.form = RIVULET_FORM_store;
			d.store = (struct rivulet_insn_store){ .addr = b,
							       .slot = 1,
							       .rows = 1,
							       .cols = words,
							       .offset = rig_pick(&rig, 0, 9) * 64 +
									 32768,
							       .blks = 1 };
		}
		for (int o = 0; o < 4; o++) {
			if (o == q || o == RIVULET_Q_CONV)
				continue;
			if (pending[o][q] && rig_pick(&rig, 0, 3)) {
				d.h.pop |= 1 << o;
				pending[o][q]--;
			}
			if (rig_pick(&rig, 0, 1)) {
				d.h.push |= 1 << o;
				pending[q][o]++;
			}
		}
		rig_put(&rig, d);
	}
	for (int q = 0; q < 4; q++)
		for (int o = 0; o < 4; o++)
			for (; pending[o][q]; pending[o][q]--)
				PUT(&rig, sync, .queue = q, .pop = 1 << o);
	rig_end(&rig);
}

static void result_of(uint32_t latency, uint32_t port, uint8_t *out)
{
	rig.board.mem_latency = latency;
	rig.board.port_bytes = port;
	rvl_core_clear(rig.core);
	for (int i = 0; i < 4096; i++)
		rig.mem[32768 + i] = i * 37 + i / 256;
	ck_assert_int_eq(rig_run(&rig), RIVULET_FAULT_NONE);
	memcpy(out, rig.mem + 32768, 4096);
}

/* The model acts in the order of starts, so a hazard changes the result when the timing changes. */
START_TEST(result_is_independent_of_timing)
{
	uint8_t a[4096], b[4096];
	int sound = 0, refused = 0, differ = 0;

	rig.seed = 5;
	for (int n = 0; n < 20000; n++) {
		bool ok;

		random_program();
		ok = !check();
		result_of(0, 64, a);
		result_of(900, 1, b);
		if (ok && memcmp(a, b, sizeof(a)))
			ck_abort_msg("program %d was called sound but depends on time", n);
		sound += ok;
		refused += !ok;
		differ += memcmp(a, b, sizeof(a)) != 0;
	}
	ck_assert_int_gt(sound, 100);
	ck_assert_int_gt(refused, 100);
	ck_assert_int_gt(differ, 0);
}
END_TEST

/* ---- the checker against the definition ---- */

#define LONGEST 64

/* A program by definition: for every instruction its queue, its tokens and what it touches. */
struct described {
	int n;
	struct {
		int queue, pop, push;
		struct rivulet_footprint f;
	} insn[LONGEST];
	/* the instruction that takes the token that instruction i pushes to queue q */
	int popper_of[LONGEST][4];
};

static void describe(struct described *p)
{
	struct rivulet_config config = { 0 };
	int token[4][4][LONGEST], given[4][4] = { { 0 } }, taken[4][4] = { { 0 } };

	p->n = (int)rig.count - 1;
	ck_assert_int_le(p->n, LONGEST);
	for (int i = 0; i < p->n; i++) {
		struct rivulet_decoded d;

		ck_assert_int_eq(rivulet_decode(&rig.code[i], &d), 0);
		rivulet_config_set(&config, &d);
		p->insn[i].queue = d.h.queue;
		p->insn[i].pop = d.h.pop;
		p->insn[i].push = d.h.push;
		ck_assert_int_eq(rivulet_footprint_of(&rig.board, &config, &d, &p->insn[i].f), 0);
		for (int q = 0; q < 4; q++)
			if (d.h.push >> q & 1)
				token[d.h.queue][q][given[d.h.queue][q]++] = i;
	}
	for (int i = 0; i < p->n; i++)
		for (int q = 0; q < 4; q++)
			if (p->insn[i].pop >> q & 1)
				p->popper_of[token[q][p->insn[i].queue]
						  [taken[q][p->insn[i].queue]++]]
					    [p->insn[i].queue] = i;
}

/* Whether instruction @a has ended whenever @b starts: in its queue, or by a chain of tokens. */
static bool ended(const struct described *p, int a, int b)
{
	if (p->insn[a].queue == p->insn[b].queue)
		return a < b;
	/* a push of its own or of a later instruction of its queue proves that it has ended */
	for (int i = a; i < p->n; i++) {
		if (p->insn[i].queue != p->insn[a].queue)
			continue;
		for (int q = 0; q < 4; q++) {
			int k = p->popper_of[i][q];

			if (p->insn[i].push >> q & 1 &&
			    (k == b || (p->insn[k].queue == p->insn[b].queue && k < b) ||
			     (p->insn[k].queue != p->insn[a].queue && ended(p, k, b))))
				return true;
		}
	}
	return false;
}

static bool touches(const struct rivulet_access *a, uint64_t word)
{
	for (uint64_t g = 0; g < a->grps; g++)
		for (uint64_t b = 0; b < a->blks; b++)
			for (uint64_t y = 0; y < a->rows; y++) {
				uint64_t at = a->addr + g * a->grp_pitch + b * a->blk_pitch +
					      y * a->row_pitch;

				if (word >= at && word < at + a->cols)
					return true;
			}
	return false;
}

static void uses(const struct rivulet_footprint *f, uint64_t word, bool *read, bool *write)
{
	*read = *write = false;
	for (int k = 0; k < f->count; k++) {
		if (!touches(&f->access[k], word))
			continue;
		*read |= f->access[k].read;
		*write |= f->access[k].write;
	}
}

/*
 * Whether every two instructions that access a word, one of them writing, are ordered, and every
 * word that is read was written.
 */
static bool word_is_sound(const struct described *p, uint64_t word)
{
	for (int i = 0; i < p->n; i++) {
		bool ri, wi, made = false;

		uses(&p->insn[i].f, word, &ri, &wi);
		for (int j = 0; j < p->n && (ri || wi); j++) {
			bool rj, wj;

			uses(&p->insn[j].f, word, &rj, &wj);
			if (i == j || (!rj && !wj) || (!wi && !wj))
				continue;
			if (!ended(p, i, j) && !ended(p, j, i))
				return false;
			made |= wj && ended(p, j, i);
		}
		if (ri && !made)
			return false;
	}
	return true;
}

/* The programs below move whole words of 16 bytes in one run. */
static bool memory_is_sound(const struct described *p)
{
	for (int i = 0; i < p->n; i++) {
		const struct rivulet_extent *a = &p->insn[i].f.dma;

		for (int j = 0; j < p->n; j++) {
			const struct rivulet_extent *b = &p->insn[j].f.dma;

			if (a->used && b->used && a->write && !b->write && a->first < b->end &&
			    b->first < a->end && !ended(p, i, j) && !ended(p, j, i))
				return false;
		}
	}
	return true;
}

static bool sound_by_definition(const struct described *p)
{
	for (uint64_t word = 0; word < 32; word++)
		if (!word_is_sound(p, word))
			return false;
	return memory_is_sound(p);
}

START_TEST(verdicts_follow_the_definition)
{
	static struct described p;
	int sound = 0;

	rig.seed = 77;
	for (int n = 0; n < 6000; n++) {
		bool ok;

		random_program();
		describe(&p);
		ok = !check();
		ck_assert_msg(ok == sound_by_definition(&p), "program %d: %s", n,
			      ok ? "called sound" : report.text);
		sound += ok;
	}
	ck_assert_int_ge(sound, 20);
}
END_TEST

static bool same_history(const struct rvl_history *a, const struct rvl_history *b)
{
	return a->writer.at == b->writer.at && a->writer.queue == b->writer.queue &&
	       !memcmp(a->reader, b->reader, sizeof(a->reader));
}

/*
 * Words of a scratchpad with a history by interval, against one history for each word. The result
 * of an interval is asserted at once, because check writes a message to /tmp for every assertion.
 */
START_TEST(histories_by_interval)
{
	static const uint32_t counts[] = { 1, 2, 63, 64, 65, 200 };

	rig.seed = 3;
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		struct rvl_history plain[200] = { 0 };
		struct rvl_words w = { 0 };

		ck_assert_int_eq(rvl_words_init(&w, counts[c]), 0);
		for (uint32_t turn = 1; turn < 3000; turn++) {
			uint32_t lo = rig_pick(&rig, 0, counts[c] - 1),
				 hi = rig_pick(&rig, lo + 1, counts[c]);
			int q = rig_pick(&rig, 0, 3);
			bool write = rig_pick(&rig, 0, 1);

			ck_assert(!rvl_words_cut(&w, lo) && !rvl_words_cut(&w, hi));
			for (uint32_t at = lo, past; at < hi; at = past) {
				bool same = true;

				past = rvl_words_next(&w, at);
				ck_assert(past > at && past <= hi);
				for (uint32_t i = at; i < past; i++) {
					same &= same_history(rvl_words_at(&w, at), &plain[i]);
					if (!write)
						plain[i].reader[q] = turn;
				}
				ck_assert(same);
				if (!write)
					rvl_words_at(&w, at)->reader[q] = turn;
			}
			if (write)
				rvl_words_write(&w, lo, hi, (struct rvl_touch){ turn, q });
			for (uint32_t i = lo; write && i < hi; i++)
				plain[i] = (struct rvl_history){ .writer = { turn, q } };
		}
		/* Entries of intervals that ended are used again. */
		ck_assert_uint_le(w.used, counts[c]);
		rvl_words_done(&w);
		ck_assert_ptr_null(w.pool);
	}
}
END_TEST

/* Asserts that the stream is refused with this report. */
static void reports(const char *text)
{
	ck_assert_int_eq(check(), -EINVAL);
	ck_assert_str_eq(report.text, text);
	rig_reset(&rig);
}

START_TEST(reports_say_what_and_where)
{
	reports("the last instruction is not END, or END stands elsewhere: the stream is empty");
	rig_asm(&rig, "load sync");
	reports("the last instruction is not END, or END stands elsewhere: of 1 instructions; #0 "
		"load sync");
	rig_asm(&rig, "load sync push=conv");
	rig_asm(&rig, "load sync push=conv");
	rig_asm(&rig, "conv sync pop=load");
	rig_end(&rig);
	reports("a push that no pop takes: 1 of 2 from LOAD to CONV; #1 load sync push=conv");
	rig_asm(&rig, "alu sync push=store");
	rig_asm(&rig, "store sync pop=alu");
	rig_asm(&rig, "store sync pop=alu");
	rig_end(&rig);
	reports("a pop that no push serves: token 2 from ALU, which pushes 1; #2 store sync "
		"pop=alu");
	rig_asm(&rig, "conv sync pop=alu push=alu");
	rig_asm(&rig, "alu sync pop=conv push=conv");
	rig_end(&rig);
	reports("queues that wait for each other, or a queue too short for the order of the "
		"stream: queue depth 16; "
		"the first waits for a token of the second; #0 conv sync pop=alu push=alu; #1 alu "
		"sync pop=conv push=conv");
	slots[1].size = 4096;
	rig_asm(&rig, "load load slot=1 offset=4080 rows=1 cols=1 blks=1");
	rig_end(&rig);
	ck_assert_int_eq(check(), 0);
	rig_reset(&rig);
	rig_asm(&rig, "load load slot=1 offset=4081 rows=1 cols=1 blks=1");
	rig_end(&rig);
	ck_assert_int_eq(check(), -EINVAL);
	ck_assert_ptr_nonnull(
		strstr(report.text, ": bytes 4081..4096 of slot 1, which has 4096; #0 load load"));
	rig_reset(&rig);
	rig_asm(&rig, "load q_prof slot=1 offset=4080 limit=1");
	rig_end(&rig);
	ck_assert_int_eq(check(), -EINVAL);
	ck_assert_ptr_nonnull(strstr(report.text, " of slot 1, which has 4096; #0 load q_prof"));
	rig_reset(&rig);
	slots[1].write = false;
	rig_asm(&rig, "load q_prof slot=1 limit=0");
	rig_end(&rig);
	ck_assert_int_eq(check(), 0);
	rig_reset(&rig);
	rig_asm(&rig, "load q_prof slot=1 limit=1");
	rig_end(&rig);
	ck_assert_int_eq(check(), -EINVAL);
	ck_assert_ptr_nonnull(strstr(report.text, ": slot 1 is read only; #0 load q_prof"));
	ck_assert_str_eq(rvl_isa_problem_name(RVL_ISA_UNWRITTEN), "UNWRITTEN");
	ck_assert_str_eq(rvl_isa_problem_name((enum rvl_isa_problem)(RVL_ISA_UNWRITTEN + 1)), "?");
}
END_TEST

/* Without slots the checker reports nothing about memory. */
START_TEST(slots_may_be_unknown)
{
	rig_asm(&rig, "load load slot=7 offset=4096 rows=1 cols=1 blks=1");
	rig_end(&rig);
	ck_assert_int_eq(rvl_isa_check(&rig.board, rig.code, rig.count, slots, &report), -EINVAL);
	ck_assert_int_eq(rvl_isa_check(&rig.board, rig.code, rig.count, NULL, &report), 0);
	ck_assert_int_eq(report.problem, RVL_ISA_NONE);
}
END_TEST

/* At most 255 tokens may be pending. */
START_TEST(tokens_have_a_counter)
{
	for (int n = 255; n <= 256; n++) {
		rig_reset(&rig);
		rig.board.queue_depth = 1024;
		rig_asm(&rig, "alu sync push=conv");
		for (int i = 0; i < n; i++)
			rig_asm(&rig, "load sync push=conv");
		for (int i = 0; i < n; i++)
			rig_asm(&rig, i ? "conv sync pop=load" : "conv sync pop=load,alu");
		rig_end(&rig);
		expect(n == 255 ? RVL_ISA_NONE : RVL_ISA_TOKEN_OVERFLOW, n == 255 ? NO : 256, NO);
	}
	ck_assert_ptr_nonnull(strstr(
		report.text, "token 256 from LOAD to CONV, of which only 0 must have been taken"));
}
END_TEST

/* Any random stream ends with a report. */
START_TEST(any_stream)
{
	rig.seed = 8;
	for (int n = 0; n < 20000; n++) {
		put_layer(-1);
		for (int i = rig_pick(&rig, 1, 4); i; i--)
			rig.code[rig_pick(&rig, 0, rig.count - 1)].w[rig_pick(&rig, 0, 1)] ^=
				UINT64_C(1) << rig_pick(&rig, 0, 63);
		if (check())
			ck_assert_int_ne(report.problem, RVL_ISA_NONE);
	}
}
END_TEST

/* Checks a stream as long as a large network's within seconds. */
START_TEST(quick)
{
	struct rivulet_insn *code = calloc(110000, sizeof(*code));
	uint32_t n = 0;
	clock_t begin;

	put_layer(-1);
	for (int k = 0; k < 4500; k++) {
		memcpy(code + n, rig.code, LAYER * sizeof(*code));
		n += LAYER;
		/* the next layer's writers wait for this layer's readers */
		rig_reset(&rig);
		PUT(&rig, sync, .queue = RIVULET_Q_STORE, .push = 7);
		rig_asm(&rig, "load sync pop=store");
		rig_asm(&rig, "conv sync pop=store");
		rig_asm(&rig, "alu sync pop=store");
		if (n + 40 > 110000)
			break;
		memcpy(code + n, rig.code, 4 * sizeof(*code));
		n += 4;
		put_layer(-1);
	}
	code[n++] = rig.code[LAYER];
	begin = clock();
	ck_assert_msg(!rvl_isa_check(&rig.board, code, n, slots, &report), "%s", report.text);
	printf("figure isa.check.speed %.0f insn/s\n",
	       n / ((double)(clock() - begin + 1) / CLOCKS_PER_SEC));
	free(code);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("isa_check");
	TCase *t = tcase_create("checker");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 300);
	tcase_add_test(t, sound_layer);
	tcase_add_loop_test(t, missing_order, 0, sizeof(cuts) / sizeof(cuts[0]));
	tcase_add_loop_test(t, unbalanced, 0, 9);
	tcase_add_test(t, two_writers);
	tcase_add_test(t, never_written);
	tcase_add_test(t, outside);
	tcase_add_test(t, through_memory);
	tcase_add_loop_test(t, shapes_in_memory, 0, sizeof(shapes) / sizeof(shapes[0]));
	tcase_add_test(t, illegal);
	tcase_add_test(t, end_of_stream);
	tcase_add_test(t, tokens);
	tcase_add_test(t, depth);
	tcase_add_test(t, overflow);
	tcase_add_test(t, result_is_independent_of_timing);
	tcase_add_test(t, verdicts_follow_the_definition);
	tcase_add_test(t, histories_by_interval);
	tcase_add_test(t, reports_say_what_and_where);
	tcase_add_test(t, slots_may_be_unknown);
	tcase_add_test(t, tokens_have_a_counter);
	tcase_add_test(t, any_stream);
	tcase_add_test(t, quick);
	suite_add_tcase(s, t);
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
/*
 * Time: the cost of each instruction by hand, and the timeline compared with a simulation that
 * steps cycle by cycle.
 */
#include "npu_rig.h"
#include "suite.h"

static struct rig rig;

static void setup(void)
{
	rig_open(&rig, rig_board(16, 16, 4));
}

static void teardown(void)
{
	rig_close(&rig);
}

static int fetch(void *ctx, uint32_t index, struct rivulet_insn *out)
{
	struct rig *g = ctx;

	if (index >= g->count)
		return 1;
	*out = g->code[index];
	return 0;
}

/* The cost of the last instruction, with the configuration before it. */
static struct rivulet_cost cost(void)
{
	struct rivulet_cost c;
	struct rivulet_decoded d;

	ck_assert_int_eq(rivulet_decode(&rig.code[rig.count - 1], &d), 0);
	ck_assert_int_eq(rivulet_insn_check(&rig.board, &rig.config, &d), 0);
	rivulet_cost_of(&rig.board, &rig.config, &d, &c);
	return c;
}

static void expect_dma(uint64_t beats, uint64_t read, uint64_t written)
{
	struct rivulet_cost c = cost();

	ck_assert_uint_eq(c.beats, beats);
	ck_assert_uint_eq(c.read_bytes, read);
	ck_assert_uint_eq(c.write_bytes, written);
}

START_TEST(cost_of_block)
{
	rig.board.port_bytes = 64;
	PUT(&rig, l_src, .row_pitch = 1000, .blk_pitch = 10000);
	PUT(&rig, load, .slot = 1, .rows = 3, .cols = 5, .blks = 2);
	expect_dma(6 * 2, 480, 0); /* 80 bytes a row */
	PUT(&rig, l_src, .row_pitch = 80, .blk_pitch = 10000);
	PUT(&rig, load, .slot = 1, .rows = 3, .cols = 5, .blks = 2);
	expect_dma(2 * 4, 480, 0); /* rows are contiguous: 240 bytes per block */
	PUT(&rig, l_src, .row_pitch = 80, .blk_pitch = 240);
	PUT(&rig, load, .slot = 1, .rows = 3, .cols = 5, .blks = 2);
	expect_dma(8, 480, 0); /* all rows are contiguous */
	PUT(&rig, l_pad, .top = 9, .left = 9);
	PUT(&rig, l_chan, .rep_x = 1);
	PUT(&rig, load, .slot = 1, .rows = 3, .cols = 5, .blks = 2);
	expect_dma(8, 480, 0); /* fill and copies cost nothing */
	PUT(&rig, l_chan, .count = 3);
	PUT(&rig, load, .slot = 1, .rows = 3, .cols = 5, .blks = 2);
	expect_dma(30, 90, 0); /* a run per word */
	PUT(&rig, load, .mem = RIVULET_MEM_ACC, .slot = 1, .rows = 1, .cols = 5, .blks = 1);
	expect_dma(5, 320, 0); /* no mask on ACC */
}
END_TEST

START_TEST(cost_of_other_layouts)
{
	PUT(&rig, l_chan, .channels = 5);
	PUT(&rig, l_src, .row_pitch = 100, .ch_pitch = 5);
	PUT(&rig, load, .kind = RIVULET_XFER_PLANAR, .slot = 1, .rows = 3, .cols = 17, .blks = 1);
	expect_dma(5 * 3 * 2, 5 * 3 * 17, 0);
	PUT(&rig, load, .kind = RIVULET_XFER_INTERLEAVED, .slot = 1, .rows = 3, .cols = 17,
	    .blks = 1);
	expect_dma(3 * 6, 5 * 3 * 17, 0); /* 85 bytes a row */
	PUT(&rig, l_src, .row_pitch = 100, .ch_pitch = 6);
	PUT(&rig, load, .kind = RIVULET_XFER_INTERLEAVED, .slot = 1, .rows = 3, .cols = 17,
	    .blks = 1);
	expect_dma(3 * 17, 5 * 3 * 17, 0);
	PUT(&rig, s_chan, .channels = 5);
	PUT(&rig, s_dst, .ch_pitch = 20);
	PUT(&rig, store, .mem = RIVULET_MEM_ACC, .kind = RIVULET_XFER_INTERLEAVED, .slot = 1,
	    .rows = 1, .cols = 2, .blks = 1);
	expect_dma(3, 0, 40);
	PUT(&rig, store, .mem = RIVULET_MEM_ACC, .kind = RIVULET_XFER_PLANAR, .slot = 1, .rows = 2,
	    .cols = 5, .blks = 1);
	expect_dma(5 * 2 * 2, 0, 200);
}
END_TEST

START_TEST(cost_of_gather)
{
	PUT(&rig, l_gather, .kh = 3, .kw = 3, .sy = 2, .sx = 2, .dy = 1, .dx = 1, .ch = 3);
	PUT(&rig, l_bounds, .org_y = -1, .org_x = -1, .rows = 28, .cols = 28);
	PUT(&rig, load, .kind = RIVULET_XFER_GATHER, .slot = 1, .rows = 4, .cols = 4, .blks = 2);
	expect_dma(3 * 8, 3 * 8 * 8, 0); /* rows and columns 0..7 of three planes */
	PUT(&rig, l_gather, .kh = 2, .kw = 1, .sy = 5, .sx = 1, .dy = 2, .dx = 1, .ch = 1);
	PUT(&rig, load, .kind = RIVULET_XFER_GATHER, .slot = 1, .rows = 2, .cols = 20, .blks = 1);
	expect_dma(3 * 2, 3 * 19, 0); /* rows 1, 4, 6; -1 is outside */
	PUT(&rig, l_bounds, .org_y = 100, .rows = 28, .cols = 28);
	PUT(&rig, load, .kind = RIVULET_XFER_GATHER, .slot = 1, .rows = 2, .cols = 20, .blks = 1);
	expect_dma(1, 0, 0); /* an instruction that only fills still takes one beat */
}
END_TEST

START_TEST(cost_of_compute)
{
	PUT(&rig, c_kernel, .kh = 3, .kw = 2, .sy = 1, .sx = 1, .dy = 1, .dx = 1);
	PUT(&rig, conv, .rows = 4, .cols = 5, .icb = 6, .ocb = 7);
	ck_assert_uint_eq(cost().engine, 4 * 5 * 3 * 2 * 6 * 7 * 4 + RIVULET_CONV_FILL);
	ck_assert_uint_eq(cost().macs, 4 * 5 * 3 * 2 * 6 * 7 * 256);
	PUT(&rig, conv, .rows = 4095, .cols = 4095, .icb = 4095, .ocb = 1023);
	/* The product needs more than 32 bits in every order of its factors. */
	ck_assert_uint_eq(cost().engine, UINT64_C(4095) * 4095 * 3 * 2 * 4095 * 1023 * 4 +
					 RIVULET_CONV_FILL);
	PUT(&rig, alu, .src = 1, .rq = 1, .rows = 4, .cols = 5, .blks = 6);
	ck_assert_uint_eq(cost().engine, 4 * 5 * 6 + RIVULET_ALU_FILL);
	PUT(&rig, a_pool, .kh = 3, .kw = 2, .sy = 1, .sx = 1);
	PUT(&rig, alu, .rows = 4, .cols = 5, .blks = 6, .pool = RIVULET_POOL_MAX);
	ck_assert_uint_eq(cost().engine, 4 * 5 * 6 * 6 + RIVULET_ALU_FILL);
	ck_assert_uint_eq(cost().beats, 0);
	rig_asm(&rig, "alu sync");
	ck_assert_uint_eq(cost().engine, 1);
}
END_TEST

/* ---- the timeline by hand ---- */

struct walk {
	struct rivulet_timeline *t;
	struct rivulet_event e;
};

static void expect_event(struct walk *w, uint32_t index, uint64_t start, uint64_t end)
{
	ck_assert_int_eq(rivulet_timeline_next(w->t, &w->e), 1);
	ck_assert_uint_eq(w->e.index, index);
	ck_assert_uint_eq(w->e.start, start);
	ck_assert_uint_eq(w->e.end, end);
}

/*
 * The first instruction is dispatched at 64, loads share the port, and tokens are available when
 * the data is.
 */
START_TEST(overlap_by_hand)
{
	struct walk w = { .t = rivulet_timeline_new(&rig.board, fetch, &rig) };
	const struct rivulet_timeline_stats *s = rivulet_timeline_stats(w.t);

	rig_asm(&rig, "load load slot=1 rows=1 cols=10 blks=1 push=store");
	rig_asm(&rig, "load load slot=1 rows=1 cols=10 blks=1");
	rig_asm(&rig, "store store slot=1 rows=1 cols=3 blks=1 pop=load");
	rig_asm(&rig, "load sync push=alu");
	rig_asm(&rig, "alu sync pop=load");
	rig_end(&rig);
	expect_event(&w, 0, 64, 64 + 10 + 64);
	expect_event(&w, 1, 74, 74 + 10 + 64);
	expect_event(&w, 3, 84, 148);		/* retires after the load before it */
	expect_event(&w, 2, 138, 138 + 3 + 64); /* its token is available at 138 */
	expect_event(&w, 4, 148, 149);
	expect_event(&w, 5, 205, 206);
	ck_assert_int_eq(rivulet_timeline_next(w.t, &w.e), 0);
	ck_assert_uint_eq(s->cycles, 206);
	ck_assert_uint_eq(s->busy[RIVULET_Q_LOAD], 21 + 1); /* END is in this queue */
	ck_assert_uint_eq(s->busy[RIVULET_Q_STORE], 3);
	ck_assert_uint_eq(s->stalls[RIVULET_Q_STORE], 138 - 66);
	ck_assert_uint_eq(s->stalls[RIVULET_Q_ALU], 148 - 68);
	ck_assert_uint_eq(s->port_busy, 23);
	ck_assert_uint_eq(s->retired, 6);
	w.t = rivulet_timeline_free(w.t);
	ck_assert_ptr_null(w.t);
}
END_TEST

/* ---- a simulation that steps cycle by cycle ---- */

struct slow_queue {
	uint32_t fifo[64];
	int count;
	uint64_t free, retired;
};

struct slow {
	struct slow_queue q[4];
	uint64_t tokens[4][4][512]; /* times at which they become available */
	int given[4][4], taken[4][4];
	uint64_t port_free;
	uint32_t next;
	struct rivulet_config config;
	uint64_t start[4096], end[4096];
	int left;
};

static bool slow_dispatch(struct slow *s)
{
	struct rivulet_decoded d;
	struct slow_queue *q;

	if (s->next >= rig.count - 1)
		return false;
	rivulet_decode(&rig.code[s->next], &d);
	q = &s->q[d.h.queue];
	if (q->count == (int)rig.board.queue_depth)
		return false;
	q->fifo[q->count++] = s->next++;
	return true;
}

static bool slow_tokens(struct slow *s, int to, int64_t pop, uint64_t now)
{
	for (int from = 0; from < 4; from++) {
		int k = s->taken[from][to];

		if (pop >> from & 1 && (k >= s->given[from][to] || s->tokens[from][to][k] > now))
			return false;
	}
	for (int from = 0; from < 4; from++)
		s->taken[from][to] += pop >> from & 1;
	return true;
}

static void slow_start(struct slow *s, int queue, uint64_t now)
{
	struct slow_queue *q = &s->q[queue];
	uint32_t i = q->fifo[0];
	struct rivulet_decoded d;
	struct rivulet_cost c;
	uint64_t begin = now;

	rivulet_decode(&rig.code[i], &d);
	if (q->free > now || !slow_tokens(s, queue, d.h.pop, now))
		return;
	memmove(q->fifo, q->fifo + 1, --q->count * sizeof(q->fifo[0]));
	rivulet_config_set(&s->config, &d);
	rivulet_cost_of(&rig.board, &s->config, &d, &c);
	while (c.beats && begin < s->port_free)
		begin++;
	q->free = begin + c.engine + c.beats;
	if (c.beats)
		s->port_free = q->free;
	s->start[i] = now;
	s->end[i] = q->free + (c.beats ? rig.board.mem_latency : 0);
	s->end[i] = s->end[i] < q->retired ? q->retired : s->end[i];
	q->retired = s->end[i];
	for (int to = 0; to < 4; to++)
		if (d.h.push >> to & 1)
			s->tokens[queue][to][s->given[queue][to]++] = s->end[i];
	s->left--;
}

static void slow_run(struct slow *s)
{
	memset(s, 0, sizeof(*s));
	s->left = rig.count - 1;
	for (uint64_t now = rig.board.mem_latency; s->left && now < 1000000; now++) {
		bool sent = slow_dispatch(s);

		for (int q = 0; q < 4; q++)
			if (s->q[q].count)
				slow_start(s, q, now);
		if (!sent)
			slow_dispatch(s);
	}
	ck_assert_int_eq(s->left, 0);
}

static void random_insn(int pending[4][4])
{
	struct rivulet_decoded d = { 0 };
	int q = rig_pick(&rig, 0, 3), o = rig_pick(&rig, 0, 3);

	d.form = RIVULET_FORM_sync;
	if (q == RIVULET_Q_LOAD && rig_pick(&rig, 0, 1)) {
		d.form = RIVULET_FORM_load;
		d.load = (struct rivulet_insn_load){
			.slot = 1, .rows = 1, .blks = 1, .cols = rig_pick(&rig, 1, 30)
		};
	} else if (q == RIVULET_Q_STORE && rig_pick(&rig, 0, 1)) {
		d.form = RIVULET_FORM_store;
		d.store = (struct rivulet_insn_store){
			.slot = 1, .rows = 1, .blks = 1, .cols = rig_pick(&rig, 1, 30)
		};
	} else if (q == RIVULET_Q_ALU && rig_pick(&rig, 0, 1)) {
		d.form = RIVULET_FORM_alu;
		d.alu = (struct rivulet_insn_alu){ .rows = rig_pick(&rig, 1, 9),
						   .cols = 5,
						   .blks = 1 };
	} else if (q == RIVULET_Q_CONV && rig_pick(&rig, 0, 1)) {
		d.form = RIVULET_FORM_conv;
		d.conv = (struct rivulet_insn_conv){
			.rows = rig_pick(&rig, 1, 9), .cols = 1, .icb = 1, .ocb = 1
		};
	}
	d.h.queue = q;
	if (pending[o][q]) {
		d.h.pop = 1 << o;
		pending[o][q]--;
	}
	o = rig_pick(&rig, 0, 3);
	if (o != q && pending[q][o] < 200) {
		d.h.push = 1 << o;
		pending[q][o]++;
	}
	rig_put(&rig, d);
}

START_TEST(equals_stepped_simulation)
{
	static struct slow slow;

	rig.seed = 3;
	for (int n = 0; n < 400; n++) {
		int pending[4][4] = { 0 }, len = rig_pick(&rig, 1, 300);
		struct walk w;
		uint64_t last = 0;

		rig_reset(&rig);
		rig.board.mem_latency = rig_pick(&rig, 0, 2) * 37;
		rig.board.queue_depth = rig_pick(&rig, 2, 20);
		PUT(&rig, c_kernel, .kh = 1, .kw = 1, .sy = 1, .sx = 1, .dy = 1, .dx = 1);
		for (int i = 0; i < len; i++)
			random_insn(pending);
		rig_end(&rig);
		slow_run(&slow);
		w.t = rivulet_timeline_new(&rig.board, fetch, &rig);
		for (uint32_t i = 0; i < rig.count - 1; i++) {
			ck_assert_int_eq(rivulet_timeline_next(w.t, &w.e), 1);
			ck_assert_uint_eq(w.e.start, slow.start[w.e.index]);
			ck_assert_uint_eq(w.e.end, slow.end[w.e.index]);
			ck_assert_uint_ge(w.e.start, last);
			last = w.e.start;
		}
		ck_assert_int_eq(rivulet_timeline_next(w.t, &w.e), 1);
		ck_assert_int_eq(rivulet_timeline_next(w.t, &w.e), 0);
		rivulet_timeline_free(w.t);
	}
}
END_TEST

/*
 * 255 tokens may be pending while others are in flight, because a token counts when it becomes
 * available.
 */
START_TEST(overflow_counts_arrivals)
{
	rig.board.mem_latency = 5000;
	rig_asm(&rig, "load load slot=1 rows=1 cols=10 blks=1");
	for (int i = 0; i < 300; i++)
		rig_asm(&rig, "load sync push=conv"); /* all become available when the load ends */
	rig_end(&rig);
	ck_assert_int_eq(rig_run(&rig), RIVULET_FAULT_TOKEN_OVERFLOW);
	ck_assert_uint_eq(rig.status.insn, 256);
}
END_TEST

START_TEST(latency_moves_everything)
{
	uint64_t cycles[2];

	rig_asm(&rig, "load load slot=1 rows=1 cols=10 blks=1 push=store");
	rig_asm(&rig, "store store slot=1 rows=1 cols=3 blks=1 pop=load");
	rig_end(&rig);
	for (int i = 0; i < 2; i++) {
		rig.board.mem_latency = 64 << i;
		ck_assert_int_eq(rig_run(&rig), RIVULET_FAULT_NONE);
		cycles[i] = rig.status.cycles;
	}
	ck_assert_uint_eq(cycles[0], 64 + 10 + 64 + 3 + 64 + 1);
	ck_assert_uint_eq(cycles[1], 128 + 10 + 128 + 3 + 128 + 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("timeline");
	TCase *t = tcase_create("time");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, cost_of_block);
	tcase_add_test(t, cost_of_other_layouts);
	tcase_add_test(t, cost_of_gather);
	tcase_add_test(t, cost_of_compute);
	tcase_add_test(t, overlap_by_hand);
	tcase_add_test(t, equals_stepped_simulation);
	tcase_add_test(t, overflow_counts_arrivals);
	tcase_add_test(t, latency_moves_everything);
	suite_add_tcase(s, t);
	return run_suite(s);
}

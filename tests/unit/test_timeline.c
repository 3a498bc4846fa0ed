// SPDX-License-Identifier: MIT
/*
 * Time: the cost of each instruction, and each rule of docs/isa.md 3, with values computed by hand.
 */
#include "dma.h"
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

static void expect_dma(uint64_t bursts, uint64_t beats, uint64_t read, uint64_t written)
{
	struct rivulet_cost c = cost();

	ck_assert_uint_eq(c.bursts, bursts);
	ck_assert_uint_eq(c.beats, beats);
	ck_assert_uint_eq(c.port, beats + 2 * bursts);
	ck_assert_uint_eq(c.read_bytes, read);
	ck_assert_uint_eq(c.write_bytes, written);
}

static void expect_words(uint64_t pad, uint64_t spad, uint64_t strips)
{
	struct rivulet_cost c = cost();

	ck_assert_uint_eq(c.pad, pad);
	ck_assert_uint_eq(c.spad, spad);
	ck_assert_uint_eq(c.strips, strips);
}

START_TEST(cost_of_block)
{
	rig.board.port_bytes = 64;
	PUT(&rig, l_src, .row_pitch = 1024, .blk_pitch = 10240);
	PUT(&rig, load, .slot = 1, .rows = 3, .cols = 5, .blks = 2);
	expect_dma(6, 6 * 2, 480, 0); /* 80 bytes a row */
	expect_words(0, 30, 0);
	PUT(&rig, l_src, .row_pitch = 80, .blk_pitch = 10240);
	PUT(&rig, load, .slot = 1, .rows = 3, .cols = 5, .blks = 2);
	expect_dma(2, 2 * 4, 480, 0); /* rows abut: 240 bytes a block */
	PUT(&rig, l_src, .row_pitch = 80, .blk_pitch = 240);
	PUT(&rig, load, .slot = 1, .rows = 3, .cols = 5, .blks = 2);
	expect_dma(2, 8, 480, 0); /* all abut: 8 beats, 4 of them a burst */
	PUT(&rig, l_pad, .top = 9, .left = 9);
	PUT(&rig, l_chan, .rep_x = 1);
	PUT(&rig, load, .slot = 1, .rows = 3, .cols = 5, .blks = 2);
	expect_dma(2, 8, 480, 0); /* fill and copies take the scratchpad, not the port */
	expect_words(2 * ((3 + 9) * (10 + 9) - 30), 60, 0);
	PUT(&rig, l_chan, .count = 3);
	PUT(&rig, load, .slot = 1, .rows = 3, .cols = 5, .blks = 2);
	expect_dma(30, 30, 90, 0); /* a run per word */
	PUT(&rig, load, .mem = RIVULET_MEM_ACC, .slot = 1, .rows = 1, .cols = 5, .blks = 1);
	expect_dma(2, 5, 320, 0); /* no mask on ACC */
	expect_words(0, 5, 0);
	rig.board.tm = 32;
	expect_words(0, 10, 0); /* an ACC word of 128 bytes is two accesses */
}
END_TEST

/*
 * The beats of a run depend on the words of the port that it touches, and no burst crosses a
 * multiple of 4096 bytes.
 */
START_TEST(cost_of_alignment)
{
	PUT(&rig, load, .slot = 1, .rows = 1, .cols = 16, .blks = 1);
	expect_dma(1, 16, 256, 0);
	PUT(&rig, load, .slot = 1, .offset = 8, .rows = 1, .cols = 16, .blks = 1);
	expect_dma(2, 17, 256, 0);
	PUT(&rig, load, .slot = 1, .offset = 4096 - 48, .rows = 1, .cols = 16, .blks = 1);
	expect_dma(2, 16, 256, 0); /* 3 beats and 13 */
	PUT(&rig, load, .slot = 1, .offset = 4096 - 40, .rows = 1, .cols = 16, .blks = 1);
	expect_dma(2, 3 + 14, 256, 0);
	PUT(&rig, load, .slot = 1, .offset = 0, .rows = 1, .cols = 600, .blks = 1);
	expect_dma(16 + 16 + 6, 600, 9600, 0); /* two pages and 88 beats */
	rig.config.base[1] = 4096 - 64;
	expect_dma(1 + 16 + 16 + 6, 600, 9600, 0); /* 4 beats, two pages, 84 beats */
}
END_TEST

START_TEST(cost_of_other_layouts)
{
	PUT(&rig, l_chan, .channels = 5);
	PUT(&rig, l_src, .row_pitch = 112, .ch_pitch = 1120);
	PUT(&rig, load, .kind = RIVULET_XFER_PLANAR, .slot = 1, .rows = 3, .cols = 17, .blks = 2);
	expect_dma(5 * 3, 5 * 3 * 2, 5 * 3 * 17, 0);
	expect_words(0, 2 * 3 * 17, 2 * 3); /* the block without channels is written, too */
	rig.board.row_bytes = 16 * 2 * 8;   /* strips of 8 columns */
	expect_dma(5 * 3 * 3, 5 * 3 * 3, 5 * 3 * 17, 0);
	expect_words(0, 2 * 3 * 17, 2 * 3 * 3);
	rig.board.row_bytes = 16384;
	PUT(&rig, l_src, .row_pitch = 112, .ch_pitch = 5);
	PUT(&rig, load, .kind = RIVULET_XFER_INTERLEAVED, .slot = 1, .rows = 3, .cols = 17,
	    .blks = 1);
	expect_dma(3, 3 * 6, 5 * 3 * 17, 0); /* 85 bytes a row */
	PUT(&rig, l_src, .row_pitch = 112, .ch_pitch = 16);
	PUT(&rig, load, .kind = RIVULET_XFER_INTERLEAVED, .slot = 1, .rows = 3, .cols = 17,
	    .blks = 1);
	expect_dma(3 * 17, 3 * 17, 5 * 3 * 17, 0);
	PUT(&rig, s_chan, .channels = 5);
	PUT(&rig, s_dst, .ch_pitch = 20);
	PUT(&rig, store, .mem = RIVULET_MEM_ACC, .kind = RIVULET_XFER_INTERLEAVED, .slot = 1,
	    .rows = 1, .cols = 2, .blks = 1);
	expect_dma(1, 3, 0, 40);
	expect_words(0, 2 * 4, 0); /* 64 bytes at tn a cycle */
	PUT(&rig, s_dst, .row_pitch = 32, .ch_pitch = 64);
	PUT(&rig, store, .mem = RIVULET_MEM_ACC, .kind = RIVULET_XFER_PLANAR, .slot = 1, .rows = 2,
	    .cols = 5, .blks = 3);
	expect_dma(5 * 2, 5 * 2 * 2, 0, 200);
	expect_words(0, 10 * 4, 2); /* blocks without channels are not read */
}
END_TEST

START_TEST(cost_of_gather)
{
	PUT(&rig, l_src, .row_pitch = 32, .ch_pitch = 1024);
	PUT(&rig, l_gather, .kh = 3, .kw = 3, .sy = 2, .sx = 2, .dy = 1, .dx = 1, .ch = 3);
	PUT(&rig, l_bounds, .org_y = -1, .org_x = -1, .rows = 28, .cols = 28);
	PUT(&rig, load, .kind = RIVULET_XFER_GATHER, .slot = 1, .rows = 4, .cols = 4, .blks = 2);
	/* rows 0, 1; 1..3; 3..5; 5..7 and columns 0..7 of three planes: rows are read again */
	expect_dma(3 * 11, 3 * 11, 3 * 11 * 8, 0);
	expect_words(0, 2 * 4 * 4, 4);
	rig.board.row_bytes = 16 * 2 * 2 * 5; /* two blocks of 5 columns a lane: 2 results a strip */
	expect_dma(2 * 3 * 11, 2 * 3 * 11, 3 * 11 * (4 + 5), 0); /* columns 0..3 and 3..7 */
	expect_words(0, 2 * 4 * 4, 8);
	rig.board.row_bytes = 16384;
	PUT(&rig, l_gather, .kh = 2, .kw = 1, .sy = 5, .sx = 1, .dy = 2, .dx = 1, .ch = 1);
	PUT(&rig, load, .kind = RIVULET_XFER_GATHER, .slot = 1, .rows = 2, .cols = 20, .blks = 1);
	expect_dma(3, 3 * 2, 3 * 19, 0); /* rows 1, 4, 6; -1 is outside */
	PUT(&rig, l_bounds, .org_y = 100, .rows = 28, .cols = 28);
	PUT(&rig, load, .kind = RIVULET_XFER_GATHER, .slot = 1, .rows = 2, .cols = 20, .blks = 1);
	expect_dma(0, 0, 0, 0); /* nothing but fill */
	expect_words(0, 40, 2);
	PUT(&rig, l_gather, .kh = 1, .kw = 3, .sy = 1, .sx = 2, .dy = 1, .dx = 2, .ch = 1);
	PUT(&rig, l_bounds, .org_x = -1, .rows = 1, .cols = 9);
	PUT(&rig, load, .kind = RIVULET_XFER_GATHER, .slot = 1, .offset = 15, .rows = 1, .cols = 3,
	    .blks = 1);
	expect_dma(1, 1, 7, 0); /* columns 1, 3, 5, 7: no tap needs column 0 or 8 */
}
END_TEST

/* One column of taps must fit a lane of the row buffer. */
START_TEST(gather_needs_row_buffer)
{
	struct rivulet_decoded d;

	PUT(&rig, l_gather, .kh = 1, .kw = 5, .sy = 1, .sx = 1, .dy = 1, .dx = 9, .ch = 4);
	PUT(&rig, l_bounds, .rows = 28, .cols = 90);
	PUT(&rig, load, .kind = RIVULET_XFER_GATHER, .slot = 1, .rows = 1, .cols = 20, .blks = 2);
	ck_assert_int_eq(rivulet_decode(&rig.code[rig.count - 1], &d), 0);
	rig.board.row_bytes = 2 * 16 * 2 * 37; /* 20 channels are 2 blocks; 4 x 9 + 1 columns */
	ck_assert_int_eq(rivulet_insn_check(&rig.board, &rig.config, &d), 0);
	rig.board.row_bytes--;
	ck_assert_int_eq(rivulet_insn_check(&rig.board, &rig.config, &d), RIVULET_FAULT_FIELD);
}
END_TEST

/* Nests of more runs than are summed one by one, against each run by itself. */
START_TEST(many_runs)
{
	rig.seed = 11;
	for (int n = 0; n < 60; n++) {
		uint64_t count = rig_pick(&rig, 1, 3), bytes = rig_pick(&rig, 1, 16);
		uint64_t rows = rig_pick(&rig, 30, 90), cols = rig_pick(&rig, 30, 90);
		uint64_t row = rig_pick(&rig, 0, 5000), blk = rig_pick(&rig, 0, 70000);
		uint64_t at = rig_pick(&rig, 0, 9000), bursts = 0, beats = 0;

		rig_reset(&rig);
		PUT(&rig, s_chan, .count = bytes % 16);
		PUT(&rig, s_dst, .row_pitch = row, .blk_pitch = blk);
		PUT(&rig, store, .slot = 1, .offset = at, .rows = rows, .cols = cols, .blks = count);
		if (!(bytes % 16))
			continue;
		for (uint64_t i = 0; i < count * rows * cols; i++) {
			uint64_t from = at + i / (rows * cols) * blk + i / cols % rows * row +
					i % cols * 16;
			uint64_t to = from + bytes - 1;

			beats += to / 16 - from / 16 + 1;
			bursts += to / 4096 - from / 4096 + 1;
		}
		expect_dma(bursts, beats, 0, count * rows * cols * bytes);
	}
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
	ck_assert_uint_eq(cost().engine, 6 * (16 + 4 * 5 * 2) + RIVULET_ALU_FILL);
	ck_assert_uint_eq(cost().port, 0);
	rig_asm(&rig, "alu sync");
	ck_assert_uint_eq(cost().engine, 1);
}
END_TEST

/* 16 values on 8 lanes: 2 cycles for each turn through the lanes. */
START_TEST(cost_of_alu)
{
	PUT(&rig, alu, .lut = 1, .rows = 4, .cols = 5, .blks = 6);
	ck_assert_uint_eq(cost().engine, 16 + 6 * 4 * 5 * 2 + RIVULET_ALU_FILL);
	PUT(&rig, alu, .bin = RIVULET_BIN_ADD, .rows = 4, .cols = 5, .blks = 6);
	ck_assert_uint_eq(cost().engine, 6 * 4 * 5 * 4 + RIVULET_ALU_FILL);
	PUT(&rig, a_pool, .kh = 3, .kw = 2, .sy = 1, .sx = 1);
	PUT(&rig, alu, .rows = 4, .cols = 5, .blks = 6, .pool = RIVULET_POOL_MAX);
	ck_assert_uint_eq(cost().engine, 4 * 5 * 6 * 6 * 2 + RIVULET_ALU_FILL);
	PUT(&rig, alu, .rows = 4, .cols = 5, .blks = 6, .pool = RIVULET_POOL_AVG_FIXED);
	ck_assert_uint_eq(cost().engine, 4 * 5 * 6 * 7 * 2 + RIVULET_ALU_FILL);
	rig.board.alu_lanes = 5; /* 4 turns of the lanes for 16 values */
	ck_assert_uint_eq(cost().engine, 4 * 5 * 6 * 7 * 4 + RIVULET_ALU_FILL);
	rig.board.alu_lanes = 64; /* one cycle, but two reads for A and B */
	PUT(&rig, alu, .bin = RIVULET_BIN_ADD, .rows = 4, .cols = 5, .blks = 6);
	ck_assert_uint_eq(cost().engine, 6 * 4 * 5 * 2 + RIVULET_ALU_FILL);
	rig.board.tm = 64; /* four words of INP are written for one of ACC */
	PUT(&rig, alu, .src = 1, .rq = 1, .rows = 4, .cols = 5, .blks = 6);
	ck_assert_uint_eq(cost().engine, 6 * (32 + 4 * 5 * 4) + RIVULET_ALU_FILL);
}
END_TEST

/* ---- the timeline by hand ---- */

struct walk {
	struct rivulet_timeline *t;
	uint64_t start[64], end[64]; /* by instruction */
};

static void walk(struct walk *w)
{
	const struct rivulet_event *e;
	uint64_t last = 0;
	int r;

	memset(w, 0, sizeof(*w));
	w->t = rivulet_timeline_new(&rig.board, fetch, &rig);
	while ((r = rivulet_timeline_next(w->t, &e)) == 1) {
		uint64_t now = e->done && e->insn.form != RIVULET_FORM_sync ? e->end : e->start;

		if (e->insn.form != RIVULET_FORM_sync) {
			ck_assert_uint_ge(now, last);
			last = now;
		}
		ck_assert_uint_lt(e->index, 64);
		w->start[e->index] = e->start;
		if (e->done)
			w->end[e->index] = e->end;
	}
	ck_assert_int_eq(r, 0);
}

static void expect_time(struct walk *w, uint32_t index, uint64_t start, uint64_t end)
{
	ck_assert_uint_eq(w->start[index], start);
	ck_assert_uint_eq(w->end[index], end);
}

/*
 * Six instructions come in one burst of 6 beats, the first at 64. LOAD's bursts of 10 beats hold the
 * port for 12; the data follow after 64; a STORE's write begins when its word has been read.
 */
START_TEST(overlap_by_hand)
{
	struct walk w;
	const struct rivulet_timeline_stats *s;

	rig_asm(&rig, "load load slot=1 rows=1 cols=10 blks=1 push=store");
	rig_asm(&rig, "load load slot=1 rows=1 cols=10 blks=1");
	rig_asm(&rig, "store store slot=1 rows=1 cols=3 blks=1 pop=load");
	rig_asm(&rig, "load sync push=alu");
	rig_asm(&rig, "alu sync pop=load");
	rig_end(&rig);
	walk(&w);
	expect_time(&w, 0, 64, 64 + 64 + 10);
	expect_time(&w, 1, 76, 76 + 64 + 10);
	expect_time(&w, 3, 88, 150);			 /* retires behind the load before it */
	expect_time(&w, 2, 138, 138 + 3 + 3 + 64);	 /* its token came at 138 */
	expect_time(&w, 4, 150, 151);
	expect_time(&w, 5, 208, 209);
	s = rivulet_timeline_stats(w.t);
	ck_assert_uint_eq(s->cycles, 209);
	ck_assert_uint_eq(s->busy[RIVULET_Q_LOAD], 24 + 1 + 1); /* END is in this queue */
	ck_assert_uint_eq(s->busy[RIVULET_Q_STORE], 5);
	ck_assert_uint_eq(s->stalls[RIVULET_Q_STORE], 138 - 66);
	ck_assert_uint_eq(s->stalls[RIVULET_Q_ALU], 150 - 68);
	ck_assert_uint_eq(s->port_busy, 8 + 24 + 5);
	ck_assert_uint_eq(s->read_bytes, 320 + 6 * 16);
	ck_assert_uint_eq(s->retired, 6);
	w.t = rivulet_timeline_free(w.t);
	ck_assert_ptr_null(w.t);
}
END_TEST

/* Runs of one beat: 8 in flight for 64 cycles each, so that the ninth comes after 64. */
START_TEST(outstanding_by_hand)
{
	struct walk w;

	rig_asm(&rig, "load l_chan count=4");
	rig_asm(&rig, "load load slot=1 rows=1 cols=20 blks=1");
	rig_end(&rig);
	walk(&w);
	/* the fetch at 0 has come; 65, 68, ... 86; 129, ... 150; 193 ... 202 */
	expect_time(&w, 1, 65, 202 + 64 + 1);
	rivulet_timeline_free(w.t);
	rig.board.bursts = 20;
	walk(&w);
	expect_time(&w, 1, 65, 65 + 19 * 3 + 64 + 1);
	rivulet_timeline_free(w.t);
}
END_TEST

/* LOAD and STORE use the port alternately. Each takes as long as both together. */
START_TEST(turns_by_hand)
{
	struct walk w;

	rig_asm(&rig, "load load slot=1 rows=1 cols=160 blks=1");
	rig_asm(&rig, "store store slot=1 offset=8192 rows=1 cols=160 blks=1");
	rig_end(&rig);
	walk(&w);
	/*
	 * LOAD at 64. STORE reads from 65 and requests its burst at 81, so the next grant is STORE's; 18
	 * cycles each
	 */
	expect_time(&w, 0, 64, 64 + 18 * 18 + 64 + 16);
	expect_time(&w, 1, 65, 64 + 19 * 18 + 16 + 64);
	rivulet_timeline_free(w.t);
}
END_TEST

/* Padding is written while the data are on their way, copies one by one after they came. */
START_TEST(fill_by_hand)
{
	struct walk w;

	rig_asm(&rig, "load l_pad top=4");
	rig_asm(&rig, "load load slot=1 rows=1 cols=10 blks=1");
	rig_asm(&rig, "load l_pad top=20");
	rig_asm(&rig, "load l_chan rep_x=9");
	rig_asm(&rig, "load load slot=1 rows=1 cols=10 blks=1");
	rig_end(&rig);
	walk(&w);
	expect_time(&w, 1, 65, 65 + 64 + 10); /* 40 words of padding until 105 */
	/* CFG at 77, 78; then 20 rows of 100 words from 139 on, and 100 words */
	expect_time(&w, 4, 79, 139 + 2000 + 100);
	rivulet_timeline_free(w.t);
}
END_TEST

/* Strips of 4 columns in two halves: a strip is written when all its channels are there. */
START_TEST(strips_by_hand)
{
	struct walk w;

	rig.board.row_bytes = 16 * 2 * 4;
	rig.board.mem_latency = 10;
	rig_asm(&rig, "load l_chan channels=2");
	rig_asm(&rig, "load l_src ch_pitch=64");
	rig_asm(&rig, "load load kind=1 slot=1 rows=1 cols=12 blks=1");
	rig_asm(&rig, "store s_chan channels=2");
	rig_asm(&rig, "store s_dst ch_pitch=64");
	rig_asm(&rig, "store store kind=1 slot=1 offset=4096 rows=1 cols=12 blks=1");
	rig_end(&rig);
	walk(&w);
	/*
	 * LOAD: bursts at 12 15 | 18 21, 31. The first strip has arrived at 26 and is written at
	 * 30, so the third may be requested then. STORE reads strips at 19 and 23, and the third
	 * after the first has left. The order of grants is below.
	 */
	ck_assert_uint_eq(w.start[2], 12);
	ck_assert_uint_eq(w.start[5], 15);
	ck_assert_uint_ge(w.end[2], 30 + 3 + 10 + 1 + 4);
	ck_assert_uint_le(w.end[2], 30 + 9 + 10 + 1 + 4);
	rivulet_timeline_free(w.t);
}
END_TEST

/* CONV and ALU use the same half of ACC: for each word that the ALU reads, CONV waits a cycle. */
START_TEST(halves_by_hand)
{
	uint64_t same, apart;
	struct walk w;

	for (int i = 0; i < 2; i++) {
		rig_reset(&rig);
		rig_asm(&rig, "conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
		rig_asm(&rig, "conv conv rows=1 cols=100 icb=10 ocb=1");
		rig_asm(&rig, i ? "alu alu src=1 rq=1 a=1500 rows=1 cols=100 blks=1" :
				  "alu alu src=1 rq=1 a=200 rows=1 cols=100 blks=1");
		rig_end(&rig);
		walk(&w);
		*(i ? &apart : &same) = w.end[1] - w.start[1];
		/* 16 cycles of parameters, one in 100 of which CONV reads weights; 100 words of 2 */
		ck_assert_uint_ge(w.end[2] - w.start[2], 16 + 200 + 8);
		ck_assert_uint_le(w.end[2] - w.start[2], 17 + 200 + 8);
		rivulet_timeline_free(w.t);
	}
	ck_assert_uint_eq(apart, 4000 + 8);
	ck_assert_uint_ge(same, apart + 99);
	ck_assert_uint_le(same, apart + 101);
}
END_TEST

/*
 * Parameters are read from WGT when CONV does not read it. With one pixel, CONV reads WGT in every
 * cycle.
 */
START_TEST(weights_before_parameters)
{
	struct walk w;

	rig_asm(&rig, "conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
	rig_asm(&rig, "conv conv rows=1 cols=1 icb=100 ocb=1");
	rig_asm(&rig, "alu alu src=1 rq=1 a=1500 rows=1 cols=1 blks=1");
	rig_end(&rig);
	walk(&w);
	expect_time(&w, 1, 65, 65 + 400 + 8);
	ck_assert_uint_eq(w.start[2], 66);
	ck_assert_uint_ge(w.end[2], 65 + 400 + 16 + 2 + 8);
	ck_assert_uint_le(w.end[2], 65 + 408 + 16 + 2 + 8);
	rivulet_timeline_free(w.t);
}
END_TEST

/* A buffer of 32 instructions, bursts of 16: the third burst, of 9, waits for 9 free places. */
START_TEST(fetch_by_hand)
{
	struct walk w;

	rig.board.queue_depth = 64;
	for (int i = 0; i < 40; i++)
		rig_asm(&rig, "load sync");
	rig_end(&rig);
	walk(&w);
	expect_time(&w, 0, 64, 65);
	expect_time(&w, 15, 79, 80);
	expect_time(&w, 16, 82, 83); /* granted at 18 */
	/* the ninth place is free after the dispatch at 72 */
	expect_time(&w, 32, 72 + 64, 72 + 65);
	expect_time(&w, 39, 72 + 64 + 7, 72 + 64 + 8);
	rivulet_timeline_free(w.t);
}
END_TEST

/* Sixteen of a queue may have started and not ended; all of them end behind the load. */
START_TEST(flight_by_hand)
{
	struct walk w;

	rig.board.mem_latency = 500;
	rig.board.queue_depth = 64;
	rig_asm(&rig, "load load slot=1 rows=1 cols=10 blks=1");
	for (int i = 0; i < 15; i++)
		rig_asm(&rig, "load sync");
	rig_asm(&rig, "load sync");
	rig_end(&rig);
	walk(&w);
	expect_time(&w, 0, 500, 500 + 500 + 10);
	expect_time(&w, 15, 500 + 12 + 14, 1010);
	/* the second burst comes at 518; the seventeenth starts when the load has ended */
	expect_time(&w, 16, 1010, 1011);
	rivulet_timeline_free(w.t);
}
END_TEST

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
	ck_assert_uint_eq(cycles[0], 64 + 64 + 10 + 3 + 3 + 64 + 1);
	ck_assert_uint_eq(cycles[1], 128 + 128 + 10 + 3 + 3 + 128 + 1);
}
END_TEST

/* An instruction whose steps are equal, or, in one case of three, of any size. */
static struct rivulet_cost random_transfer(bool store)
{
	uint64_t steps = 1 + random() % (random() % 2 ? 3000 : 40), each = 1 + random() % 16;
	struct rivulet_cost c = { .bursts = steps,
				  .beats = steps * each,
				  .write_bytes = store ? steps * each * (1 + random() % 16) : 0,
				  .spad = steps * (random() % 40),
				  .pad = random() % 5 };

	if (random() % 3)
		return c;
	c.beats += random() % steps;
	c.write_bytes += store ? random() % steps : 0;
	c.spad += random() % steps;
	c.strips = random() % 2 ? random() % steps : 0;
	return c;
}

/* Grants all steps of @who one by one before cycle @until, as dma_run() does. */
static struct dma_run grant_each(struct dma *d, enum dma_user who, uint64_t at, uint64_t until,
				 uint32_t slow)
{
	struct dma_run r = { .last = at, .next = at };

	while (at < until && d->transfer[who].step + 1 < d->transfer[who].steps) {
		struct dma_grant g = dma_serve(d, who, at, slow);

		r.last = at;
		r.busy += g.free - at;
		r.next = at = dma_next(d, &who);
	}
	return r;
}

/* Steps that repeat are skipped: whatever is granted behind them has the same times. */
START_TEST(runs_of_grants)
{
	static struct dma run, each;
	int cases = random_cases(3000);

	srandom(_i + 1);
	rig.board.bursts = 1 + random() % 40;
	rig.board.burst_gap = random() % 4;
	rig.board.mem_latency = 1 + random() % 400;
	dma_init(&run, &rig.board);
	dma_init(&each, &rig.board);
	for (uint64_t n = 0, now = 0; n < (uint64_t)cases / 10; n++) {
		enum dma_user who = random() % 2 ? DMA_LOAD : DMA_STORE, found = who;
		struct rivulet_cost c = random_transfer(who == DMA_STORE);
		uint32_t slow = random() % 2 ? random() % 500 : 0;

		dma_start(&run, who, &c, now);
		dma_start(&each, who, &c, now);
		for (now = dma_next(&run, &found); run.transfer[who].on;
		     now = dma_next(&run, &found)) {
			uint64_t until = now + random() % 60000;
			struct dma_run a = dma_run(&run, who, now, until, slow);
			struct dma_run b = grant_each(&each, who, now, until, slow);

			ck_assert_uint_eq(a.next, b.next);
			ck_assert_uint_eq(a.last, b.last);
			ck_assert_uint_eq(a.busy, b.busy);
			ck_assert_uint_eq(dma_serve(&run, who, a.next, slow).end,
					  dma_serve(&each, who, a.next, slow).end);
			ck_assert_uint_eq(dma_next(&run, &found), dma_next(&each, &found));
		}
		now = run.free;
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("timeline");
	TCase *t = tcase_create("time");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, cost_of_block);
	tcase_add_test(t, cost_of_alignment);
	tcase_add_test(t, cost_of_other_layouts);
	tcase_add_test(t, cost_of_gather);
	tcase_add_test(t, gather_needs_row_buffer);
	tcase_add_test(t, many_runs);
	tcase_add_test(t, cost_of_compute);
	tcase_add_test(t, cost_of_alu);
	tcase_add_test(t, overlap_by_hand);
	tcase_add_test(t, outstanding_by_hand);
	tcase_add_test(t, turns_by_hand);
	tcase_add_test(t, fill_by_hand);
	tcase_add_test(t, strips_by_hand);
	tcase_add_test(t, halves_by_hand);
	tcase_add_test(t, weights_before_parameters);
	tcase_add_test(t, fetch_by_hand);
	tcase_add_test(t, flight_by_hand);
	tcase_add_test(t, overflow_counts_arrivals);
	tcase_add_test(t, latency_moves_everything);
	tcase_add_loop_test(t, runs_of_grants, 0, 10);
	suite_add_tcase(s, t);
	return run_suite(s);
}

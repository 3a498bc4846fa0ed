// SPDX-License-Identifier: MIT
/* The cycle-stepped model of tests/cycle on streams whose times were counted by hand. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "cycle.h"
#include "rivulet_binary_conv.h"
#include "suite.h"

#define MOST 64

static struct rivulet_board board;
static struct rivulet_insn code[MOST];
static uint32_t count;
static struct cyc_result result;
static struct cyc_times times[MOST];

static void setup(void)
{
	board = (struct rivulet_board){ .tm = 16,
					.tn = 16,
					.dn = 4,
					.inp_bytes = 98304,
					.wgt_bytes = 98304,
					.acc_bytes = 65536,
					.port_bytes = 16,
					.mem_latency = 64,
					.queue_depth = 64,
					RIVULET_BOARD_COST_KEYS(RIVULET_BOARD_COST_INIT) };
	count = 0;
}

static void put(const char *line)
{
	char err[128];

	ck_assert_uint_lt(count, MOST);
	ck_assert_msg(rivulet_assemble(line, &code[count++], err, sizeof(err)) == 1, "%s: %s", line,
		      err);
}

/* Adds END and runs the stream. */
static void run(void)
{
	put("load sync kind=1");
	ck_assert_int_eq(cyc_run(&board, code, count, 0, &result, times), 0);
}

static void expect(uint32_t index, uint64_t start, uint64_t end)
{
	ck_assert_uint_eq(times[index].start, start);
	ck_assert_uint_eq(times[index].end, end);
}

START_TEST(end_alone)
{
	run(); /* requested in cycle 0, arrives in cycle 64 */
	ck_assert_uint_eq(result.cycles, 65);
}
END_TEST

START_TEST(one_word_in_and_out)
{
	put("load load slot=1 rows=1 cols=1 blks=1 push=store");
	put("store store slot=1 rows=1 cols=1 blks=1 pop=load");
	run();
	expect(0, 64, 64 + 64 + 1);
	expect(1, 129, 129 + 1 + 1 + 64); /* drained, sent, acknowledged */
	ck_assert_uint_eq(result.cycles, 196);
	ck_assert_uint_eq(result.busy[RIVULET_Q_LOAD], 1 + 2 + 1); /* END too */
	ck_assert_uint_eq(result.busy[RIVULET_Q_STORE], 1 + 2);
	ck_assert_uint_eq(result.span[RIVULET_Q_STORE], 66);
}
END_TEST

/* The third burst of instructions needs nine places, and the ninth is free in cycle 72. */
START_TEST(fetch_buffer)
{
	for (int i = 0; i < 40; i++)
		put("load sync");
	run();
	expect(0, 64, 65);
	expect(16, 18 + 64, 83);
	expect(32, 72 + 64, 137);
	ck_assert_uint_eq(result.cycles, 145);
}
END_TEST

START_TEST(outstanding_bursts)
{
	put("load l_src row_pitch=64");
	put("load load slot=1 rows=2 cols=1 blks=1");
	run();
	expect(1, 65, 68 + 64 + 1); /* the second burst three cycles after the first */
	count = 0;
	board.bursts = 1;
	put("load l_src row_pitch=64");
	put("load load slot=1 rows=2 cols=1 blks=1");
	run();
	expect(1, 65, 65 + 64 + 64 + 1);
}
END_TEST

/* LOAD has one run for each channel; the bytes are in two pages. */
START_TEST(strips)
{
	put("load l_chan channels=2");
	put("load l_src ch_pitch=4096");
	put("load load kind=1 slot=1 offset=4095 rows=1 cols=2 blks=1");
	run();
	/* four bursts of one beat; two words after the last beat */
	expect(2, 66, 66 + 3 * 3 + 64 + 2);
	ck_assert_uint_eq(result.busy[RIVULET_Q_LOAD], 4 * 3 + 3);
}
END_TEST

/* Three columns of patches with stride and dilation 2: columns -1, 1, 3, 5 and 7; 1 to 7 are read.
 */
START_TEST(gather_reads_what_taps_need)
{
	board.port_bytes = 4;
	put("load l_gather kh=1 kw=3 sy=1 sx=2 dy=1 dx=2 ch=1");
	put("load l_bounds org_x=-1 rows=1 cols=9");
	put("load load kind=3 slot=1 offset=3 rows=1 cols=3 blks=1");
	run();
	/* bytes 4 to 10 are two beats, 3 to 11 would be three */
	ck_assert_uint_eq(result.busy[RIVULET_Q_LOAD], 2 + 2 + 3);
}
END_TEST

START_TEST(padding_and_copies)
{
	put("load l_pad top=1 left=2");
	put("load l_chan rep_x=1");
	put("load load slot=1 rows=1 cols=3 blks=1");
	run();
	/* padding while the bytes are on their way; then beats 130 to 132, two copies of each */
	expect(2, 66, 130 + 6);
	count = 0;
	put("load l_pad top=20 left=2");
	put("load l_chan rep_x=1");
	put("load load slot=1 rows=1 cols=3 blks=1");
	run();
	expect(2, 66, 66 + 20 * 8 + 2 + 6);
}
END_TEST

START_TEST(conv_alone)
{
	put("conv c_kernel kh=3 kw=2 sy=1 sx=1 dy=1 dx=1");
	put("conv conv rows=2 cols=3 icb=2 ocb=2");
	run();
	expect(1, 65, 65 + 2 * 3 * 3 * 2 * 2 * 2 * 4 + 8);
	ck_assert_uint_eq(result.busy[RIVULET_Q_CONV], 1 + 576 + 8);
}
END_TEST

/* Two passes for 5 pairs; an inner loop of one pixel takes two cycles. */
START_TEST(sparse_alone)
{
	put("conv c_kernel kh=3 kw=2 sy=1 sx=1 dy=1 dx=1");
	put("conv c_mode dn=5");
	put("conv conv mode=1 rows=2 cols=3 icb=2 ocb=2");
	run();
	expect(2, 66, 66 + 2 * 3 * 3 * 2 * 2 * 2 * 2 + 8);
	count = 0;
	put("conv c_kernel kh=3 kw=2 sy=1 sx=1 dy=1 dx=1");
	put("conv c_mode dn=4");
	put("conv conv mode=1 rows=1 cols=1 icb=2 ocb=2");
	run();
	expect(2, 66, 66 + 2 * 3 * 2 * 2 * 2 + 8);
}
END_TEST

/*
 * CONV reads WGT in the first two of the four cycles of each inner loop, so that the 16 reads of the
 * table take the other two.
 */
START_TEST(sparse_reads_weights_twice)
{
	put("conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
	put("conv c_mode dn=16");
	put("conv conv mode=1 rows=2 cols=2 icb=16 ocb=1");
	put("load sync");
	put("alu alu lut=1 rows=1 cols=1 blks=1");
	run();
	expect(2, 66, 66 + 4 * 4 * 16 + 8);
	/* from cycle 68 on, the third of a loop: two reads in 4 cycles, then a word of 2 */
	expect(4, 68, 68 + 7 * 4 + 2 + 2 + 8);
}
END_TEST

/*
 * LOAD writes four words of ACC while CONV works. Each delays CONV by a cycle if CONV uses the same
 * half.
 */
static void acc_beside_conv(const char *load, uint64_t delay)
{
	count = 0;
	put("conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
	put(load);
	put("conv conv rows=8 cols=8 icb=1 ocb=1");
	run();
	expect(1, 65, 65 + 64 + 15 + 1);
	expect(2, 66, 66 + 256 + delay + 8);
}

/*
 * With two taps in a pass, 9 taps take 5 passes. At a pitch of 1 modulo the 16 banks, the last tap
 * of a kernel row and the first of the next one share a bank, and the pass takes two cycles.
 */
START_TEST(binary_alone)
{
	board.dn = 16;
	put("conv c_kernel kh=3 kw=3 sy=1 sx=1 dy=1 dx=1");
	put("conv c_input rows=10 cols=10 row_pitch=6");
	put("conv c_out row_pitch=8");
	put("conv c_mode lanes=1");
	put("conv conv mode=2 rows=8 cols=8 icb=1 ocb=2");
	run();
	expect(4, 68, 68 + 2 * 5 * 64 + 8);
	count = 0;
	put("conv c_kernel kh=2 kw=3 sy=1 sx=2 dy=1 dx=1");
	put("conv c_input rows=10 cols=40 row_pitch=17");
	put("conv c_mode lanes=1");
	put("conv conv mode=2 rows=4 cols=8 icb=1 ocb=1");
	run();
	expect(3, 67, 67 + (3 + 1) * 32 + 8);
}
END_TEST

/* With 4 multipliers of 16 columns, the weights of a pass take 4 cycles. */
START_TEST(binary_reads_weights)
{
	put("conv c_kernel kh=1 kw=3 sy=1 sx=1 dy=1 dx=1");
	put("conv c_input rows=10 cols=10 row_pitch=10");
	put("conv conv mode=2 rows=1 cols=3 icb=1 ocb=1");
	put("alu alu lut=1 rows=1 cols=1 blks=1");
	run();
	expect(2, 66, 66 + 3 * 4 + 8);
	expect(3, 67, 66 + 3 * 4 + 16 + 2 + 8);
}
END_TEST

/* The largest kernel on a ring, whose words conflict in other places in every row. */
START_TEST(binary_time_is_found_soon)
{
	struct rivulet_insn_c_kernel k = { .kh = 31, .kw = 31, .sy = 1, .sx = 1, .dy = 1, .dx = 1 };
	struct rivulet_insn_c_input in = { .row_pitch = 1, .rows = 5000, .cols = 60, .wrap = 37 };
	struct rivulet_binary n = rivulet_binary_of(&board, 2, &k);
	clock_t start = clock();

	for (int i = 0; i < 100; i++)
		ck_assert_uint_ge(rivulet_binary_time(&board, &n, &k, &in, 4095, 30).cycles,
				  (uint64_t)n.passes * 4095 * 30);
	ck_assert_int_lt(clock() - start, 5 * CLOCKS_PER_SEC);
}
END_TEST

/*
 * 8 slices of 64 engines: 8 pixels at once. 9 taps of 16 rows, a fold of 518 cycles and 2 parts of each
 * pixel; of the last group of two pixels, too.
 */
START_TEST(planes_alone)
{
	put("conv c_kernel kh=3 kw=3 sy=1 sx=1 dy=1 dx=1");
	put("conv c_input rows=10 cols=12 row_pitch=12");
	put("conv c_mode planes=4 group=8 dn=16");
	put("conv conv mode=3 rows=2 cols=10 icb=1 ocb=3");
	run();
	expect(3, 67, 67 + 3 * 2 * ((9 * 16 + 518 + 8 * 2) + (9 * 16 + 518 + 2 * 2)) + 8);
}
END_TEST

/*
 * A tap of three rows takes four cycles with its indices, or one for each of 16 pixels. The parts of
 * 8 bits are four slices, and one pixel has all engines.
 */
START_TEST(planes_few_rows)
{
	put("conv c_kernel kh=1 kw=2 sy=1 sx=1 dy=1 dx=1");
	put("conv c_input rows=1 cols=40 row_pitch=40");
	put("conv c_mode planes=1 group=4 dn=3");
	put("conv conv mode=3 rows=1 cols=18 icb=1 ocb=1");
	run();
	expect(3, 67, 67 + (2 * 16 + 34 + 16 * 4) + (2 * 4 + 34 + 2 * 4) + 8);
	count = 0;
	put("conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
	put("conv c_mode planes=8 group=2 dn=16");
	put("conv conv mode=3 rows=1 cols=3 icb=1 ocb=1");
	run();
	expect(2, 66, 66 + 3 * (16 + 8 + 4) + 8);
}
END_TEST

/* Pieces of 64 bytes hold 8 rows of 4 bits: the ALU's table waits for two reads of WGT. */
START_TEST(planes_read_weights)
{
	put("conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
	put("conv c_mode planes=4 group=8 dn=16");
	put("conv conv mode=3 rows=1 cols=1 icb=1 ocb=1");
	put("alu alu lut=1 rows=1 cols=1 blks=1");
	run();
	expect(2, 66, 66 + 16 + 518 + 2 + 8);
	expect(3, 67, 67 + 16 + 1 + 2 + 8); /* the first of the reads was in cycle 66 */
}
END_TEST

/* ACC is used while results leave the engines only, and then by turns. */
START_TEST(planes_share_acc)
{
	put("conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
	put("conv c_mode planes=8 group=8 dn=16");
	put("conv conv mode=3 rows=1 cols=1 icb=1 ocb=1");
	put("load load mem=2 slot=1 rows=1 cols=16 blks=1");
	run();
	expect(2, 66, 66 + 16 + 518 + 1 + 8);
}
END_TEST

START_TEST(halves)
{
	acc_beside_conv("load load mem=2 addr=508 slot=1 rows=1 cols=4 blks=1", 4);
	acc_beside_conv("load load mem=2 addr=510 slot=1 rows=1 cols=4 blks=1", 2);
	acc_beside_conv("load load mem=2 addr=512 slot=1 rows=1 cols=4 blks=1", 0);
}
END_TEST

START_TEST(banks)
{
	for (int bank = 0; bank < 2; bank++) {
		count = 0;
		put("conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
		put("conv c_input rows=1 cols=1");
		put("conv conv rows=1 cols=1 icb=64 ocb=1"); /* word 0 in every cycle */
		put(bank ? "store store addr=1 slot=1 rows=1 cols=1 blks=1" :
			   "store store addr=4 slot=1 rows=1 cols=1 blks=1");
		run();
		expect(2, 66, 66 + 256 + 8);
		expect(3, 67, (bank ? 67 : 66 + 256) + 1 + 1 + 64);
	}
}
END_TEST

START_TEST(alu_alone)
{
	put("alu alu src=1 rq=1 lut=1 rows=4 cols=5 blks=6");
	run();
	expect(0, 64, 64 + 16 + 6 * (16 + 20 * 2) + 8);
}
END_TEST

START_TEST(alu_reads_weights_after_conv)
{
	put("conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
	put("conv conv rows=1 cols=1 icb=8 ocb=1"); /* reads weights in each of 32 cycles from 65 */
	put("alu alu lut=1 rows=1 cols=1 blks=1");
	run();
	expect(2, 66, 65 + 32 + 16 + 2 + 8);
}
END_TEST

START_TEST(tokens_and_deadlock)
{
	put("conv sync pop=load");
	put("load load slot=1 rows=1 cols=1 blks=1 push=conv");
	run();
	expect(1, 65, 130);
	expect(0, 130, 131);
	count = 0;
	put("conv sync pop=load");
	put("load sync kind=1");
	ck_assert_int_eq(cyc_run(&board, code, count, 0, &result, times), -EDEADLK);
	ck_assert_int_eq(cyc_run(&board, code, 1, 0, &result, times), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cycle");
	TCase *t = add_case(s, "by hand", 30, setup, NULL);

	tcase_add_test(t, end_alone);
	tcase_add_test(t, one_word_in_and_out);
	tcase_add_test(t, fetch_buffer);
	tcase_add_test(t, outstanding_bursts);
	tcase_add_test(t, strips);
	tcase_add_test(t, gather_reads_what_taps_need);
	tcase_add_test(t, padding_and_copies);
	tcase_add_test(t, conv_alone);
	tcase_add_test(t, sparse_alone);
	tcase_add_test(t, sparse_reads_weights_twice);
	tcase_add_test(t, binary_alone);
	tcase_add_test(t, binary_reads_weights);
	tcase_add_test(t, binary_time_is_found_soon);
	tcase_add_test(t, planes_alone);
	tcase_add_test(t, planes_few_rows);
	tcase_add_test(t, planes_read_weights);
	tcase_add_test(t, planes_share_acc);
	tcase_add_test(t, halves);
	tcase_add_test(t, banks);
	tcase_add_test(t, alu_alone);
	tcase_add_test(t, alu_reads_weights_after_conv);
	tcase_add_test(t, tokens_and_deadlock);
	return run_suite(s);
}

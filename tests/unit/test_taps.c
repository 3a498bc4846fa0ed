/* SPDX-License-Identifier: MIT */
/*
 * The taps mode: depthwise layers take several taps of a channel at once, with the results of the
 * interpreter bit for bit, in as few passes as the board's banks allow.
 */
#include <check.h>

#include "mode_rig.h"
#include "rivulet_isa.h"
#include "rivulet_lanes.h"
#include "suite.h"

static const char *const names[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256", "dense-16x16" };

#define BOARDS 4

static const struct rivulet_compile_options off = { .without_modes = 1u << RIVULET_MODE_TAPS };
static struct rivulet_board board;

static bool has_lanes(const struct rivulet_explain *e)
{
	return reason_has(e, "conv", "tap lanes");
}

/* A depthwise layer of any kernel, stride, dilation, padding and multiplier between two others. */
static void random_layers(struct qg *q, uint64_t seed)
{
	struct rvl_tensor *x = NULL;
	struct qg_conv c;
	int64_t channels;

	qg_open(q, seed);
	channels = qg_range(q, 1, 80);
	x = qg_tensor(q, "x", RVL_TYPE_U8,
		      (struct rvl_shape){ 4, { qg_range(q, 1, 2), channels, qg_range(q, 5, 20),
					       qg_range(q, 5, 40) } }, 0.02f, qg_range(q, 0, 255));
	qg_input(q, x);
	if (qg_range(q, 0, 1)) {
		c = plain_conv(channels, 1);
		x = qg_conv(q, "before", x, &c);
	}
	c = plain_conv(channels * qg_range(q, 1, 3), qg_range(q, 1, 5));
	c.kw = qg_range(q, 1, 5);
	c.group = channels;
	c.sy = qg_range(q, 1, 3);
	c.sx = qg_range(q, 1, 3);
	c.dy = c.kh < 3 ? qg_range(q, 1, 2) : 1;
	c.dx = c.kw < 3 ? qg_range(q, 1, 2) : 1;
	c.wtype = qg_range(q, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
	c.wzp = qg_range(q, 0, 1) ? qg_zp(q, c.wtype) : 0;
	c.relu = qg_range(q, 0, 1);
	c.per_channel = !c.wzp && qg_range(q, 0, 1);
	for (int i = 0; i < 4; i++)
		c.pad[i] = qg_range(q, 0, 2);
	x = qg_conv(q, "depthwise", x, &c);
	c = plain_conv(20, 1);
	qg_output(q, qg_conv(q, "after", x, &c));
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

START_TEST(random_layers_equal_the_interpreter)
{
	load_board(&board, names[_i]);
	ck_assert_uint_ge(check_random(&board, NULL, random_layers, 2000, 60, "depthwise", "tap lanes"),
			  random_cases(30));
}
END_TEST

/* Passes of square kernels on boards with 4, 8 and 16 banks: those of docs/isa.md 5. */
static const struct {
	int64_t k;
	uint32_t passes[3];
} kernels[] = { { 2, { 2, 1, 1 } }, { 3, { 3, 2, 1 } }, { 5, { 7, 4, 2 } }, { 7, { 13, 7, 4 } } };

#define KERNELS ((int)(sizeof(kernels) / sizeof(kernels[0])))

START_TEST(passes_of_square_kernels)
{
	static const uint32_t banks[] = { 4, 8, 16 };

	for (int i = 0; i < 3; i++) {
		struct rivulet_insn_c_kernel k = { .kh = kernels[_i].k, .kw = kernels[_i].k,
						   .sy = 1, .sx = 1, .dy = 1, .dx = 1 };
		struct rivulet_insn_c_input in = { .rows = 20, .cols = 20 };
		struct rivulet_lanes_time time;
		struct rivulet_lanes l;

		board.tm = board.tn = 32;
		board.dn = banks[i];
		rivulet_lanes_of(&board, &k, &l);
		ck_assert_uint_eq(l.passes, kernels[_i].passes[i]);
		in.row_pitch = rivulet_lanes_pitch(&board, 20);
		ck_assert_int_ge(in.row_pitch, 20);
		ck_assert_int_lt(in.row_pitch, 20 + banks[i]);
		time = rivulet_lanes_time(&board, &l, &k, &in, 10);
		ck_assert_uint_eq(time.cycles, 10 * l.passes);
		in.row_pitch += banks[i] == 4 ? 1 : 5; /* taps of neighbouring rows share banks */
		time = rivulet_lanes_time(&board, &l, &k, &in, 10);
		ck_assert_uint_ge(time.cycles, 10 * l.passes);
		if (kernels[_i].k == 3)
			ck_assert_uint_gt(time.cycles, 10 * l.passes);
	}
}
END_TEST

/* In a ring whose end is no multiple of dn away, the rows before and behind it may conflict. */
START_TEST(rings_conflict_where_rows_meet)
{
	struct rivulet_insn_c_kernel k = { .kh = 3, .kw = 3, .sy = 1, .sx = 1, .dy = 1, .dx = 1 };
	struct rivulet_insn_c_input in = { .rows = 20, .cols = 7, .row_pitch = 7 };
	uint32_t conflicts = 0;
	struct rivulet_lanes l;

	load_board(&board, "zu3eg-64");
	rivulet_lanes_of(&board, &k, &l);
	for (in.wrap = 4; in.wrap < 12; in.wrap++) {
		uint64_t cycles = rivulet_lanes_time(&board, &l, &k, &in, 18).cycles;

		ck_assert(in.wrap % 4 || cycles == 18 * 3);
		conflicts += cycles > 18 * 3;
		ck_assert_uint_lt(cycles, 18 * 6);
	}
	ck_assert_uint_ge(conflicts, 1);
}
END_TEST

/*
 * MobileNet's kind of layer, between two others so that the array bounds it and not the port: the
 * products of the array are those of the passes.
 */
START_TEST(lanes_save_the_zeros_of_diagonal_blocks)
{
	struct qg_conv c = plain_conv(96, 3), around = plain_conv(96, 1);
	struct rivulet_explain lanes, without;
	struct rvl_tensor *x;
	uint64_t passes;
	struct qg q;

	load_board(&board, names[_i]);
	passes = board.dn == 4 ? 3 : board.dn == 8 ? 2 : 1;
	c.group = 96;
	x = qg_conv(&q, "before", open_image(&q, 6, 96, 28, 28), &around);
	x = qg_conv(&q, "conv", x, &c);
	qg_output(&q, qg_conv(&q, "after", x, &around));
	check(&q, &board, NULL, &lanes);
	check(&q, &board, &off, &without);
	ck_assert(has_lanes(&lanes) && !has_lanes(&without));
	ck_assert_uint_eq(9 * row_of(&lanes, "conv")->array_macs,
			  row_of(&lanes, "conv")->macs * passes * board.dn * (board.tm / board.tn));
	ck_assert_uint_ge(row_of(&without, "conv")->cycles, 2 * row_of(&lanes, "conv")->cycles);
	ck_assert_uint_gt(without.segments[0].cycles, lanes.segments[0].cycles);
	rivulet_explain_free(&lanes);
	rivulet_explain_free(&without);
	rvl_graph_free(q.g);
}
END_TEST

/* An image of one channel is depthwise too: all outputs belong to its channel. */
START_TEST(one_input_channel)
{
	struct qg_conv c = plain_conv(70, 5);
	struct rivulet_explain e;
	struct qg q;

	load_board(&board, names[_i]);
	qg_output(&q, qg_conv(&q, "conv", open_image(&q, 9, 1, 28, 28), &c));
	check(&q, &board, NULL, &e);
	rivulet_explain_free(&e);
	rvl_graph_free(q.g);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("taps");
	TCase *t = add_case(s, "taps", 300, NULL, NULL);

	tcase_add_loop_test(t, random_layers_equal_the_interpreter, 0, BOARDS);
	tcase_add_loop_test(t, passes_of_square_kernels, 0, KERNELS);
	tcase_add_test(t, rings_conflict_where_rows_meet);
	tcase_add_loop_test(t, lanes_save_the_zeros_of_diagonal_blocks, 0, BOARDS);
	tcase_add_loop_test(t, one_input_channel, 0, BOARDS);
	return run_suite(s);
}

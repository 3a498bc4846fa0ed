// SPDX-License-Identifier: MIT
/*
 * The bit-plane mode: layers of weights of 1 to 8 bits have the results of the interpreter bit for
 * bit on a board that has no other mode, with the bits and slices that take the fewest cycles.
 */
#include <check.h>

#include "mode_rig.h"
#include "rivulet_isa.h"
#include "rivulet_planes.h"
#include "suite.h"

static struct rivulet_board board;

/* A layer of any kernel, stride, dilation, padding and groups between two others. */
static void random_layers(struct qg *q, uint64_t seed)
{
	struct rvl_tensor *x;
	struct qg_conv c;
	int64_t channels, groups;

	qg_open(q, seed);
	groups = qg_range(q, 0, 3) ? 1 : qg_range(q, 1, 4);
	channels = groups * qg_range(q, 1, 20);
	x = qg_tensor(q, "x", RVL_TYPE_U8,
		      (struct rvl_shape){ 4,
					  { qg_range(q, 1, 2), channels, qg_range(q, 5, 20),
					    qg_range(q, 5, 40) } },
		      0.02f, qg_range(q, 0, 255));
	qg_input(q, x);
	c = plain_conv(groups * qg_range(q, 1, 20), qg_range(q, 1, 4));
	c.kw = qg_range(q, 1, 4);
	c.group = groups;
	c.sy = qg_range(q, 1, 3);
	c.sx = qg_range(q, 1, 3);
	c.dy = c.kh < 3 ? qg_range(q, 1, 2) : 1;
	c.dx = c.kw < 3 ? qg_range(q, 1, 2) : 1;
	c.wtype = qg_range(q, 0, 3) ? RVL_TYPE_S8 : RVL_TYPE_U8;
	c.wzp = qg_range(q, 0, 3) ? 0 : qg_zp(q, c.wtype);
	c.relu = qg_range(q, 0, 1);
	for (int i = 0; i < 4; i++)
		c.pad[i] = qg_range(q, 0, 2);
	x = qg_conv(q, "conv", x, &c);
	c = plain_conv(20, 1);
	qg_output(q, qg_conv(q, "after", x, &c));
	ck_assert_msg(!q->rc, "%s", q->err.msg);
	qg_narrow(q, 1 + seed % 8);
}

START_TEST(random_layers_equal_the_interpreter)
{
	load_board(&board, "cyclonev-64-nodsp");
	ck_assert_uint_eq(check_random(&board, NULL, random_layers, 3000, 60, "conv", "bit planes"),
			  60);
}
END_TEST

/* The widest weight decides: one of 2 bits makes all others of 2 bits. */
START_TEST(bits_of_the_widest_weight)
{
	struct rivulet_explain e;
	struct qg_conv c = plain_conv(16, 3);
	struct qg q;
	char text[40];
	struct rvl_tensor *x = open_image(&q, 7, 64, 16, 16);

	load_board(&board, "cyclonev-64-nodsp");
	x = qg_conv(&q, "conv", x, &c);
	qg_output(&q, x);
	qg_narrow(&q, _i);
	check(&q, &board, NULL, &e);
	snprintf(text, sizeof(text), "bit planes: %d bits", _i);
	ck_assert_msg(reason_has(&e, "conv", text), "%s", row_of(&e, "conv")->reason);
	rivulet_explain_free(&e);
	rvl_graph_free(q.g);
}
END_TEST

/* @by_planes: whether the mode is chosen; NULL: of no concern. */
static uint64_t layer_cycles(uint32_t bits, const struct rivulet_compile_options *opt, bool *by_planes)
{
	struct rivulet_explain e;
	struct qg_conv c = plain_conv(64, 3);
	struct qg q;
	uint64_t cycles;

	qg_output(&q, qg_conv(&q, "conv", open_image(&q, 7, 128, 16, 16), &c));
	qg_narrow(&q, bits);
	check(&q, &board, opt, &e);
	cycles = e.segments[0].cycles;
	if (by_planes)
		*by_planes = reason_has(&e, "conv", "bit planes");
	rivulet_explain_free(&e);
	rvl_graph_free(q.g);
	return cycles;
}

/* 4 bits take less than 0.6 times the cycles of 8: twice as many pixels at once, a longer fold. */
START_TEST(fewer_bits_take_fewer_cycles)
{
	uint64_t cycles[9];

	load_board(&board, "cyclonev-64-nodsp");
	for (uint32_t bits = 2; bits <= 8; bits *= 2)
		cycles[bits] = layer_cycles(bits, NULL, NULL);
	ck_assert_uint_lt(cycles[4] * 10, cycles[8] * 7);
	ck_assert_uint_lt(cycles[2] * 10, cycles[4] * 9);
}
END_TEST

/* Beside multipliers the mode is chosen for narrow weights, which it makes faster, and never a loss. */
START_TEST(chosen_beside_multipliers)
{
	const struct rivulet_compile_options off = { .without_modes = 1u << RIVULET_MODE_BITPLANE };
	bool by_planes, without;
	uint64_t with, alone;

	load_board(&board, "zu3eg-64-planes");
	with = layer_cycles(_i, NULL, &by_planes);
	alone = layer_cycles(_i, &off, &without);
	ck_assert(!without);
	ck_assert(by_planes == (with < alone));
	ck_assert_uint_le(with, alone);
	if (_i <= 4)
		ck_assert_uint_lt(with * 10, alone * 9);
}
END_TEST

/* A board that has no other mode, and one that has no bucket engines. */
START_TEST(without_the_mode)
{
	const struct rivulet_compile_options off = { .without_modes = 1u << RIVULET_MODE_BITPLANE };
	struct rivulet_explain e;
	struct qg_conv c = plain_conv(16, 3);
	struct qg q;

	load_board(&board, _i ? "cyclonev-64" : "cyclonev-64-nodsp");
	qg_output(&q, qg_conv(&q, "conv", open_image(&q, 7, 64, 16, 16), &c));
	check(&q, &board, _i ? NULL : &off, &e);
	ck_assert_str_eq(row_of(&e, "conv")->where, _i ? "npu" : "cpu");
	ck_assert(!reason_has(&e, "conv", "bit planes"));
	rivulet_explain_free(&e);
	rvl_graph_free(q.g);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("planes");
	TCase *t = add_case(s, "planes", 300, NULL, NULL);

	tcase_add_test(t, random_layers_equal_the_interpreter);
	tcase_add_loop_test(t, bits_of_the_widest_weight, 2, 9);
	tcase_add_test(t, fewer_bits_take_fewer_cycles);
	tcase_add_loop_test(t, chosen_beside_multipliers, 1, 9);
	tcase_add_loop_test(t, without_the_mode, 0, 2);
	return run_suite(s);
}

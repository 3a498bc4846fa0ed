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
			  random_cases(60));
}
END_TEST

static void random_network(struct qg *q, uint64_t seed)
{
	struct rvl_tensor *x = open_image(q, seed, 3 + seed % 30, 8 + seed % 9, 8 + seed % 7);
	int64_t layers = qg_range(q, 3, 6);

	for (int64_t i = 0; i < layers; i++) {
		struct qg_conv c = plain_conv(qg_range(q, 4, 48), qg_range(q, 0, 1) ? 3 : 1);

		x = qg_conv(q, (char[]){ 'l', (char)('0' + i), 0 }, x, &c);
	}
	qg_output(q, x);
	qg_narrow(q, 1 + seed % 4);
}

/* A layer of a board that has no other mode is not tried without it. */
START_TEST(networks_of_the_only_mode)
{
	struct rivulet_explain e;
	struct qg q;

	load_board(&board, "cyclonev-64-nodsp");
	random_network(&q, _i);
	check(&q, &board, NULL, &e);
	rivulet_explain_free(&e);
	rvl_graph_free(q.g);
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

/* A layer of @channels by @kernels with weights of @bits bits, and its cost by a measure. */
static struct rivulet_explain measured(enum rivulet_measure measure, int64_t channels, int64_t kernels,
				       int64_t k, uint32_t bits)
{
	const struct rivulet_compile_options opt = { .measure = measure };
	struct qg_conv c = plain_conv(kernels, k);
	struct rivulet_explain e;
	struct qg q;

	qg_output(&q, qg_conv(&q, "conv", open_image(&q, 7, channels, 16, 16), &c));
	qg_narrow(&q, bits);
	check(&q, &board, &opt, &e);
	rvl_graph_free(q.g);
	return e;
}

static double joule_of(const struct rivulet_explain *e)
{
	return e->level[e->n_levels - 1].joule;
}

/* The measure decides between modes of which one is faster and the other needs less energy. */
START_TEST(chosen_by_cycles_or_by_energy)
{
	static const struct {
		int64_t channels, k;
		uint32_t bits;
		bool differ;
	} cases[] = { { 32, 1, 2, true }, { 16, 3, 3, true }, { 64, 3, 2, false }, { 64, 3, 8, false } };
	struct rivulet_explain c, e;

	load_board(&board, "zu3eg-64-planes");
	c = measured(RIVULET_BY_CYCLES, cases[_i].channels, 64, cases[_i].k, cases[_i].bits);
	e = measured(RIVULET_BY_ENERGY, cases[_i].channels, 64, cases[_i].k, cases[_i].bits);
	ck_assert_uint_le(c.segments[0].cycles, e.segments[0].cycles);
	ck_assert(joule_of(&e) <= joule_of(&c));
	ck_assert((reason_has(&c, "conv", "bit planes") != reason_has(&e, "conv", "bit planes")) ==
		  cases[_i].differ);
	if (cases[_i].differ) {
		const struct rivulet_explain_contest *k = &row_of(&c, "conv")->contest;

		ck_assert_str_eq(k->measure, "cycles");
		ck_assert_str_eq(k->chosen, "dense");
		ck_assert_str_eq(k->other, "planes");
		ck_assert_uint_lt(k->chosen_cycles, k->other_cycles);
		ck_assert(k->chosen_joule > k->other_joule);
		ck_assert_str_eq(row_of(&e, "conv")->contest.measure, "energy");
		ck_assert_str_eq(row_of(&e, "conv")->contest.other, "dense");
	}
	rivulet_explain_free(&c);
	rivulet_explain_free(&e);
}
END_TEST

static uint64_t network_cycles(uint64_t seed, const struct rivulet_compile_options *opt)
{
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	uint64_t cycles = 0;
	struct qg q;

	random_network(&q, seed);
	ck_assert_msg(!q.rc && !rvl_compile_graph(q.g, &board, opt, NULL, &e, &err), "%s", err.msg);
	for (uint32_t i = 0; i < e.n_segments; i++)
		cycles += e.segments[i].cycles;
	rivulet_explain_free(&e);
	return cycles;
}

/* Layers that are faster by planes alone must not cost their step a better cascade. */
START_TEST(no_network_is_slower_for_the_mode)
{
	const struct rivulet_compile_options off = { .without_modes = 1u << RIVULET_MODE_BITPLANE };
	/* Modes chosen for layers alone made all but the last two slower. */
	static const uint64_t seeds[] = { 2, 38, 54, 57, 62, 65, 72, 110, 129, 0, 1 };
	uint32_t faster = 0;

	load_board(&board, "zu3eg-64-planes");
	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		uint64_t with = network_cycles(seeds[i], &(struct rivulet_compile_options){ 0 });
		uint64_t without = network_cycles(seeds[i], &off);

		ck_assert_uint_le(with, without);
		faster += with < without;
	}
	ck_assert_uint_gt(faster, 0);
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

	tcase_add_loop_test(t, chosen_by_cycles_or_by_energy, 0, 4);
	tcase_add_test(t, no_network_is_slower_for_the_mode);
	tcase_add_test(t, random_layers_equal_the_interpreter);
	tcase_add_loop_test(t, networks_of_the_only_mode, 0, 4);
	tcase_add_loop_test(t, bits_of_the_widest_weight, 2, 9);
	tcase_add_test(t, fewer_bits_take_fewer_cycles);
	tcase_add_loop_test(t, chosen_beside_multipliers, 1, 9);
	tcase_add_loop_test(t, without_the_mode, 0, 2);
	return run_suite(s);
}

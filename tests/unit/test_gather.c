/* SPDX-License-Identifier: MIT */
/*
 * First layers: the patches of few input channels are gathered into full words where that is faster,
 * with the results of the interpreter bit for bit.
 */
#include <check.h>

#include "mode_rig.h"
#include "suite.h"

static const char *const names[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256", "dense-16x16" };

#define BOARDS 4
#define GATHERED "patches gathered"

static const struct rivulet_compile_options off = { .no_gather = true };
static struct rivulet_board board;

/* A layer of 1 to 4 channels with any kernel, stride, dilation and padding. */
static void first_layer(struct qg *q, uint64_t seed)
{
	struct qg_conv c;

	open_image(q, seed, 1 + seed % 4, 12 + seed % 23, 12 + seed * 7 % 31);
	c = plain_conv(qg_range(q, 1, 40), qg_range(q, 2, 7));
	c.kw = qg_range(q, 2, 7);
	c.sy = qg_range(q, 1, 3);
	c.sx = qg_range(q, 1, 3);
	c.dy = c.kh < 4 ? qg_range(q, 1, 2) : 1;
	c.dx = c.kw < 4 ? qg_range(q, 1, 2) : 1;
	for (int i = 0; i < 4; i++)
		c.pad[i] = qg_range(q, 0, 3);
	qg_output(q, qg_conv(q, "first", q->g->inputs[0], &c));
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

START_TEST(random_first_layers_equal_the_interpreter)
{
	load_board(&board, names[_i]);
	ck_assert_uint_ge(check_random(&board, NULL, first_layer, 0, 40, "first", GATHERED), random_cases(10));
	ck_assert_uint_eq(check_random(&board, &off, first_layer, 0, 40, "first", GATHERED), 0);
}
END_TEST

/* 147 products of an output take 10 blocks of 16 in place of 49: 4.9 times fewer. */
START_TEST(seven_by_seven_of_three_channels)
{
	struct qg_conv c = plain_conv(64, 7);
	struct rivulet_explain on, without;
	struct qg q;

	load_board(&board, "dense-16x16");
	c.sy = c.sx = 2;
	qg_output(&q, qg_conv(&q, "first", open_image(&q, 3, 3, 112, 112), &c));
	check(&q, &board, NULL, &on);
	check(&q, &board, &off, &without);
	ck_assert(reason_has(&on, "first", GATHERED));
	ck_assert_uint_eq(49 * row_of(&on, "first")->array_macs,
			  10 * row_of(&without, "first")->array_macs);
	ck_assert_uint_ge(10 * without.segments[0].cycles, 45 * on.segments[0].cycles);
	rivulet_explain_free(&on);
	rivulet_explain_free(&without);
	rvl_graph_free(q.g);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gather");
	TCase *t = add_case(s, "gather", 300, NULL, NULL);

	tcase_add_loop_test(t, random_first_layers_equal_the_interpreter, 0, BOARDS);
	tcase_add_test(t, seven_by_seven_of_three_channels);
	return run_suite(s);
}

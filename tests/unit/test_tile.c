/* SPDX-License-Identifier: MIT */
/* Which cuts of a layer the search for them finds. */
#include <check.h>
#include <string.h>

#include "npu/layer.h"
#include "qgraph.h"
#include "rivulet_board.h"
#include "suite.h"

#define LAYERS 400

/* A board whose scratchpads many layers do not fit. */
static struct rivulet_board small_board(struct qg *q)
{
	int64_t tn = 4 << qg_range(q, 0, 2), tm = tn << qg_range(q, 0, 1);

	return (struct rivulet_board){ .name = "small",
				       .tm = tm,
				       .tn = tn,
				       .dn = tn,
				       .inp_bytes = 32 << qg_range(q, 0, 6),
				       .wgt_bytes = 64 << qg_range(q, 0, 6),
				       .acc_bytes = 32 << qg_range(q, 0, 6),
				       .port_bytes = 16,
				       .mem_latency = 64,
				       RIVULET_BOARD_COST_KEYS(RIVULET_BOARD_COST_INIT)
				       .queue_depth = 64,
				       .modes = 1,
				       .cycle_cap = 16384,
				       .levels = 1,
				       .level = { { .hz = 100000000, .microvolt = 850000 } } };
}

static struct rvl_tensor *random_conv(struct qg *q)
{
	struct rvl_shape shape = { 4, { 1, qg_range(q, 1, 64), qg_range(q, 8, 40), qg_range(q, 8, 40) } };
	struct qg_conv c = { .m = qg_range(q, 1, 64), .kh = qg_range(q, 1, 7), .kw = qg_range(q, 1, 7),
			     .sy = qg_range(q, 1, 2), .sx = qg_range(q, 1, 2), .wtype = RVL_TYPE_S8,
			     .ytype = RVL_TYPE_U8, .wscale = 0.002f, .yscale = 0.03f };

	if (!qg_range(q, 0, 3)) /* depthwise */
		c.group = c.m = shape.dim[1];
	return qg_conv(q, "conv", qg_tensor(q, "x", RVL_TYPE_U8, shape, 0.05f, 0), &c);
}

/* Exactly where the search for the best cut finds one, the short search finds one. */
START_TEST(short_search)
{
	int found = 0, all = random_cases(LAYERS);

	for (int i = 0; i < all; i++) {
		struct rvl_layer *l, copy;
		struct rivulet_board b;
		const char *why = "";
		struct qg q;
		bool fits;

		qg_open(&q, i);
		b = small_board(&q);
		qg_output(&q, random_conv(&q));
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		l = rvl_layer_build(q.g, q.g->nodes[0], false, &why);
		ck_assert_msg(l != NULL, "%s", why);
		copy = *l;
		fits = rvl_tile(&b, l);
		ck_assert_msg(rvl_fits(&b, &copy) == fits, "layer %d: %s", i,
			      fits ? "only the full search finds a cut" : "a cut that does not exist");
		found += fits;
		rvl_graph_free(q.g);
	}
	ck_assert_msg(found > all / 4 && found < all * 3 / 4, "%d of %d layers fit", found, all);
}
END_TEST

/* The short search ends at the first cut, which the estimate need not prefer. */
START_TEST(best_cut)
{
	int worse = 0;

	for (int i = 0; i < random_cases(LAYERS); i++) {
		struct rvl_layer *l, copy;
		struct rivulet_board b;
		const char *why = "";
		struct qg q;

		qg_open(&q, i);
		b = small_board(&q);
		qg_output(&q, random_conv(&q));
		l = rvl_layer_build(q.g, q.g->nodes[0], false, &why);
		ck_assert_msg(l != NULL, "%s", why);
		copy = *l;
		if (rvl_tile(&b, l) && rvl_fits(&b, &copy)) {
			ck_assert_uint_le(l->t.cost, copy.t.cost);
			worse += l->t.cost < copy.t.cost;
		}
		rvl_graph_free(q.g);
	}
	ck_assert_int_gt(worse, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tile");
	TCase *t = add_case(s, "search", 60, NULL, NULL);

	tcase_add_test(t, short_search);
	tcase_add_test(t, best_cut);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/*
 * A third mode is one file: tests/modes/mode_cropped.c goes through lowering, tiling, packing,
 * emission, explain and the CPU without another file that names it. Of several modes that compute a
 * layer, the one of the least cost is chosen.
 */
#include <check.h>
#include <stdio.h>

#include "mode_rig.h"
#include "modes/mode_cropped.h"
#include "npu/mode.h"
#include "suite.h"

static struct rivulet_board board;

static void setup(void)
{
	char err[256];

	mode_cropped_margin = 0;
	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", err, sizeof(err)), "%s", err);
}

/* Sets the weights of rows below @lo and from @hi on to zero, and likewise those of columns. */
static void clear_taps(struct rvl_tensor *y, int64_t lo, int64_t hi)
{
	struct rvl_tensor *w = y->producer->in[1];
	int64_t kh = w->shape.dim[2], kw = w->shape.dim[3], n = rvl_shape_count(&w->shape);

	for (int64_t i = 0; i < n; i++)
		if (i % kw < lo || i % kw >= hi || i / kw % kh < lo || i / kw % kh >= hi)
			((uint8_t *)w->data)[i] = w->quant.zp[0];
}

static struct qg_conv any_conv(struct qg *q, const struct rvl_tensor *x, int64_t k)
{
	bool depthwise = !qg_range(q, 0, 3);
	struct qg_conv c = {
		.m = depthwise ? x->shape.dim[1] : qg_range(q, 1, 40), .kh = k, .kw = k,
		.sy = qg_range(q, 1, 2), .sx = qg_range(q, 1, 2), .dy = qg_range(q, 1, 2),
		.group = depthwise ? x->shape.dim[1] : 1, .bias = true, .relu = qg_range(q, 0, 1),
		.wtype = qg_range(q, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8, .ytype = RVL_TYPE_U8,
		.wscale = 0.002f, .yscale = 0.05f,
	};

	c.wzp = qg_range(q, 0, 1) ? qg_zp(q, c.wtype) : 0;
	for (int i = 0; i < 4; i++)
		c.pad[i] = qg_range(q, 0, k - 1);
	return c;
}

/* Two convolutions; the taps outside [lo, hi) of the first are zero. */
static void make(struct qg *q, uint64_t seed, int64_t k, int64_t lo, int64_t hi)
{
	struct rvl_tensor *x, *y;
	struct qg_conv c;

	qg_open(q, seed);
	x = qg_tensor(q, "x", RVL_TYPE_U8,
		      (struct rvl_shape){ 4, { 1, qg_range(q, 1, 40), qg_range(q, 14, 24),
					       qg_range(q, 14, 24) } }, 0.02f, 100);
	qg_input(q, x);
	c = any_conv(q, x, k);
	y = qg_conv(q, "first", x, &c);
	ck_assert_msg(!q->rc, "%s", q->err.msg);
	clear_taps(y, lo, hi);
	c = (struct qg_conv){ .m = 20, .wtype = RVL_TYPE_S8, .ytype = RVL_TYPE_U8, .wscale = 0.002f,
			      .yscale = 0.05f };
	qg_output(q, qg_conv(q, "second", y, &c));
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

/* On the device and on the CPU; returns whether the first convolution was cropped. */
static bool cropped(uint64_t seed, int64_t k, int64_t lo, int64_t hi, double *share)
{
	const struct rivulet_compile_options cpu = { .cpu_only = true };
	struct rivulet_explain e;
	uint8_t *in, *want;
	struct qg q;
	bool is;

	make(&q, seed, k, lo, hi);
	in = bytes_of(q.g->inputs[0]);
	want = bytes_of(q.g->outputs[0]);
	fill(&q, in);
	interpret(&q, in, want);
	run(&q, &board, &cpu, in, want, &e);
	rivulet_explain_free(&e);
	run(&q, &board, NULL, in, want, &e);
	is = strstr(row_of(&e, "first")->reason, "kernel cropped");
	*share = row_of(&e, "first")->utilisation;
	ck_assert_ptr_null(strstr(row_of(&e, "second")->reason, "kernel cropped"));
	rivulet_explain_free(&e);
	rvl_graph_free(q.g);
	free(in);
	free(want);
	return is;
}

START_TEST(third_mode_is_taken_where_it_is_cheaper)
{
	uint32_t taken = 0, beyond_peak = 0;

	for (uint64_t seed = 0; seed < 30; seed++) {
		double share;
		bool is = cropped(seed, 5, 2, 3, &share);

		taken += is;
		beyond_peak += share > 1; /* no dense mode reaches that */
	}
	ck_assert_uint_ge(taken, 25); /* of a layer with one block of taps, the port is the bound */
	ck_assert_uint_ge(beyond_peak, 1);
}
END_TEST

START_TEST(no_mode_is_taken_where_it_cannot_compute_the_layer)
{
	double share;

	for (uint64_t seed = 0; seed < 10; seed++)
		ck_assert(!cropped(seed, 3, 0, 3, &share));
}
END_TEST

/* Two rows and columns more: correct, but slower or with more energy. The dense mode is kept. */
START_TEST(third_mode_is_not_taken_where_it_costs_more)
{
	double share;

	mode_cropped_margin = 1;
	for (uint64_t seed = 0; seed < 10; seed++)
		ck_assert(!cropped(seed, 3, 0, 3, &share));
}
END_TEST

/* The estimate's energy is the modes', and equals what the device accounts. */
START_TEST(energy_is_the_modes)
{
	const struct rvl_mode *mode;
	struct rivulet_work w = { .macs = 1000000, .bytes = 500, .cycles = 200 };

	ck_assert(!rivulet_board_load(&board, "sc-edge", (char[256]){ 0 }, 256));
	for (uint32_t i = 0; (mode = rvl_mode_number(i)); i++)
		ck_assert_ptr_nonnull(mode->energy);
	for (uint32_t l = 0; l < board.levels; l++) {
		struct rivulet_estimate_row row;

		w.stream_macs = 10;
		w.stream_fj = 4000000000;
		ck_assert(rvl_modes_energy(&board, l, &w) ==
			  rivulet_dense_fj(&board, l, &w) + rivulet_stream_fj(&board, l, &w));
		rvl_estimate_level(&board, l, &w, &row);
		ck_assert_double_eq_tol(row.joule, 1e-12 * rivulet_board_energy_pj(&board, l, &w), 1e-18);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("modes");
	TCase *t = add_case(s, "modes", 120, setup, NULL);

	tcase_add_test(t, third_mode_is_taken_where_it_is_cheaper);
	tcase_add_test(t, no_mode_is_taken_where_it_cannot_compute_the_layer);
	tcase_add_test(t, third_mode_is_not_taken_where_it_costs_more);
	tcase_add_test(t, energy_is_the_modes);
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
/*
 * Additions behind float convolutions of one tap: which become part of the convolution, and that the
 * results are those of two steps.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph_rig.h"
#include "suite.h"

#define CHANNELS 12
#define SIDE 9
#define ELEMENTS (CHANNELS * SIDE * SIDE)

static struct qg q;
static int taps, group;
static bool read_twice;

static struct rvl_tensor *floats(int64_t n, int64_t c, int64_t h, int64_t w, const float *data)
{
	struct rvl_shape s = { 4, { n, c, h, w } };
	struct rvl_tensor *t;

	if (data) {
		ck_assert(!rvl_tensor_const(q.g, NULL, RVL_TYPE_F32, &s, data, &t, &q.err));
		return t;
	}
	ck_assert(!rvl_tensor_new(q.g, NULL, &t, &q.err));
	t->type = RVL_TYPE_F32;
	t->shape = s;
	t->shaped = true;
	return t;
}

/* Bytes to floats of magnitude 1, a convolution, and a sum with what the convolution read. */
static void build(void)
{
	static float w[CHANNELS * CHANNELS * 9];
	struct rvl_tensor *x = floats(1, CHANNELS, SIDE, SIDE, NULL), *in[2], *y, *sum;
	struct rvl_node *conv;

	for (size_t i = 0; i < sizeof(w) / sizeof(*w); i++)
		w[i] = (float)(i * 37 % 101) / 101 - 0.5f;
	qg_input(&q, x);
	in[0] = x;
	in[1] = floats(CHANNELS, CHANNELS / group, taps, taps, w);
	y = floats(1, CHANNELS, SIDE, SIDE, NULL);
	conv = qg_node(&q, RVL_OP_CONV, NULL, 2, in, y);
	conv->attr.group = group;
	for (int i = 0; i < 2; i++) {
		conv->attr.kernel[i] = taps;
		conv->attr.pad[i] = conv->attr.pad[i + 2] = taps / 2;
	}
	sum = floats(1, CHANNELS, SIDE, SIDE, NULL);
	in[0] = x;
	in[1] = y;
	qg_node(&q, RVL_OP_ADD, NULL, 2, in, sum)->attr.f_lo = 0;
	qg_output(&q, sum);
	if (read_twice)
		qg_output(&q, y);
}

struct result {
	float out[2][ELEMENTS];
	uint32_t steps;
};

static void compile(int k, int g, bool twice, struct result *r)
{
	const struct rivulet_compile_options opt = { .cpu_only = true };
	struct graph_result run = { .out = (uint8_t *)r->out, .size = sizeof(r->out[0]) };
	struct rivulet_explain e;

	taps = k;
	group = g;
	read_twice = twice;
	memset(r, 0, sizeof(*r));
	run_graph(&q, build, &opt, 3, &e, &run);
	r->steps = run.steps;
	rivulet_explain_free(&e);
}

static bool is_close(float a, float b)
{
	return a == b || !isfinite(a) || !isfinite(b) || fabsf(a - b) <= 1e-5f * fmaxf(fabsf(a), fabsf(b)) + 1e-30f;
}

START_TEST(sums_join_convolutions_of_one_tap)
{
	static const struct {
		int taps, group;
		bool twice;
		uint32_t steps;
	} want[] = { { 1, 1, false, 1 }, { 1, 3, false, 1 }, { 1, 1, true, 2 }, { 3, 1, false, 2 },
		     { 1, CHANNELS, false, 2 } };
	static struct result joined, apart;

	compile(want[_i].taps, want[_i].group, want[_i].twice, &joined);
	compile(want[_i].taps, want[_i].group, true, &apart);
	ck_assert_uint_eq(joined.steps, want[_i].steps);
	ck_assert_uint_eq(apart.steps, 2);
	for (int i = 0; i < ELEMENTS; i++)
		ck_assert_msg(is_close(joined.out[0][i], apart.out[0][i]), "%g is not %g",
			      (double)joined.out[0][i], (double)apart.out[0][i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("residual");
	TCase *t = add_case(s, "all", 60, NULL, NULL);

	tcase_add_loop_test(t, sums_join_convolutions_of_one_tap, 0, 5);
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
/*
 * The pass of chains: which steps of the CPU become one, what memory that saves, and that the results
 * are those of single steps.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_rig.h"
#include "suite.h"

static struct qg q;

static struct rvl_tensor *input(int64_t channels, int64_t side)
{
	struct rvl_tensor *t = qg_tensor(&q, "x", RVL_TYPE_U8,
					 (struct rvl_shape){ 4, { 1, channels, side, side } }, 0.03f, 3);

	qg_input(&q, t);
	return t;
}

static struct rvl_tensor *conv(struct rvl_tensor *x, int64_t m, int64_t k, int64_t stride, int64_t group)
{
	struct qg_conv c = {
		.m = m, .kh = k, .kw = k, .sy = stride, .sx = stride, .group = group,
		.pad = { k / 2, k / 2, k / 2, k / 2 }, .wtype = RVL_TYPE_S8, .per_channel = true,
		.bias = true, .ytype = RVL_TYPE_U8, .wscale = 1 / 512.0f, .yscale = 0.05f,
	};

	return qg_conv(&q, NULL, x, &c);
}

static struct rvl_tensor *add(struct rvl_tensor *a, struct rvl_tensor *b)
{
	struct rvl_tensor *in[] = { a, b };
	struct rvl_tensor *y = qg_tensor(&q, NULL, RVL_TYPE_U8, a->shape, 0.06f, 100);

	qg_node(&q, RVL_OP_Q_ADD, NULL, 2, in, y);
	return y;
}

/* The first operator and the last one work on a small image, so that no edge of the model is large. */
static struct rvl_tensor *begin(void)
{
	return conv(input(3, 104), 24, 3, 1, 1);
}

/* 1 x 1 to more channels, depthwise, 1 x 1 to fewer, and the sum with what came in. */
static void inverted_residual(void)
{
	struct rvl_tensor *x = begin(), *t = conv(x, 144, 1, 1, 1);

	t = conv(t, 144, 3, 1, 144);
	qg_output(&q, conv(add(conv(t, 24, 1, 1, 1), x), 4, 1, 4, 1));
}

static void conv_and_pool(void)
{
	struct rvl_tensor *t = conv(input(3, 208), 64, 3, 2, 1);

	qg_output(&q, conv(qg_max_pool(&q, NULL, conv(t, 160, 1, 1, 1), 3, 2, 1), 4, 1, 4, 1));
}

/* The large image is read on two ways, of which one is longer. */
static void shortcut(void)
{
	struct rvl_tensor *x = conv(begin(), 160, 1, 1, 1), *t = conv(x, 160, 3, 1, 160);

	qg_output(&q, conv(add(t, x), 4, 1, 4, 1));
}

/* A result that the caller reads, too, needs memory of its own, and is copied to PLAIN. */
static void read_outside(void)
{
	struct rvl_tensor *t = conv(begin(), 144, 1, 1, 1);

	qg_output(&q, conv(conv(t, 144, 3, 1, 144), 4, 1, 4, 1));
	qg_output(&q, t);
}

/* Images of 260 kB stay in the cache. */
static void small(void)
{
	qg_output(&q, conv(conv(begin(), 24, 3, 1, 24), 4, 1, 4, 1));
}

static struct rvl_tensor *floats(int64_t n)
{
	return qg_float_tensor(&q, (struct rvl_shape){ 2, { 64, n } });
}

static struct rvl_tensor *bytes_of(struct rvl_tensor *x)
{
	struct rvl_tensor *y = qg_tensor(&q, NULL, RVL_TYPE_U8, x->shape, 0.03f, 3);

	return qg_convert(&q, RVL_OP_QUANTIZE, x, y, 0.03f, 3);
}

static struct rvl_tensor *float_input(int64_t channels, int64_t side)
{
	struct rvl_tensor *x = qg_float_tensor(&q, (struct rvl_shape){ 4, { 1, channels, side, side } });

	qg_input(&q, x);
	return x;
}

/* An image of floats that the caller has, as bytes. */
static struct rvl_tensor *quantised(int64_t channels, int64_t side)
{
	return bytes_of(float_input(channels, side));
}

/* The floats would have memory until the convolution runs. */
static void front_of_result(void)
{
	struct rvl_tensor *x = float_input(3, 40), *in[] = { x, x }, *t = qg_float_tensor(&q, x->shape);

	qg_node(&q, RVL_OP_MUL, NULL, 2, in, t);
	qg_output(&q, conv(bytes_of(t), 24, 3, 2, 1));
}

static void front_of_many_channels(void)
{
	qg_output(&q, conv(quantised(17, 40), 24, 3, 2, 1));
}

static void front(void)
{
	qg_output(&q, conv(quantised(3, 40), 24, 3, 2, 1));
}

static void front_of_one_channel(void)
{
	qg_output(&q, conv(quantised(1, 40), 24, 3, 1, 1));
}

/* The next operator has no window, and its operand stays in the cache. */
static void front_and_sum(void)
{
	struct rvl_tensor *t = conv(quantised(3, 40), 24, 3, 2, 1);

	qg_output(&q, conv(add(t, t), 4, 1, 4, 1));
}

static void front_of_two(void)
{
	struct rvl_tensor *t = quantised(3, 40);

	qg_output(&q, conv(t, 24, 3, 2, 1));
	qg_output(&q, conv(t, 8, 3, 2, 1));
}

static void front_that_is_output(void)
{
	struct rvl_tensor *t = quantised(3, 40);

	qg_output(&q, conv(t, 24, 3, 2, 1));
	qg_output(&q, t);
}

/* The quantisation, and two operators in stripes. */
static void front_of_stripes(void)
{
	struct rvl_tensor *t = conv(quantised(3, 208), 144, 3, 2, 1);

	qg_output(&q, conv(conv(t, 144, 3, 1, 144), 4, 1, 4, 1));
}

static struct rvl_tensor *element_step(enum rvl_op op, struct rvl_tensor *a, struct rvl_tensor *b)
{
	struct rvl_tensor *in[] = { a, b }, *y = floats(a->shape.dim[1]);

	qg_node(&q, op, NULL, 2, in, y);
	return y;
}

/* Three operators on floats, between values that the caller has. Of 256 KiB, or of 4. */
static void elements_of(int64_t n)
{
	struct rvl_tensor *x = floats(n), *t;

	qg_input(&q, x);
	t = element_step(RVL_OP_MUL, x, x);
	t = element_step(RVL_OP_ADD, t, x);
	qg_output(&q, element_step(RVL_OP_MUL, t, x));
}

static void elements(void)
{
	elements_of(1024);
}

static void few_elements(void)
{
	elements_of(16);
}

struct result {
	uint8_t out[2][160 * 104 * 104];
	uint32_t steps, rows;
	uint64_t arena;
	char note[256];	/* of the last row in a chain */
	char first[256];
};

static void compile(void (*build)(void), bool chains, struct result *r)
{
	const struct rivulet_compile_options opt = { .cpu_only = true, .no_chains = !chains };
	struct graph_result run = { .out = r->out[0], .size = sizeof(r->out[0]) };
	struct rivulet_explain e;

	memset(r->out, 0, sizeof(r->out));
	run_graph(&q, build, &opt, 9, &e, &run);
	r->rows = e.n_rows;
	r->note[0] = 0;
	snprintf(r->first, sizeof(r->first), "%s", e.rows[0].reason);
	for (uint32_t i = 0; i < e.n_rows; i++)
		if (strstr(e.rows[i].reason, "with the operators of step"))
			snprintf(r->note, sizeof(r->note), "%s", e.rows[i].reason);
	r->steps = run.steps;
	r->arena = run.arena;
	rivulet_explain_free(&e);
}

START_TEST(what_is_joined)
{
	static const struct {
		void (*build)(void);
		uint32_t steps, nodes;
		uint64_t saved;		/* bytes of the arena, at least */
	} want[] = {
		{ inverted_residual, 3, 6, 2000 << 10 },
		{ conv_and_pool, 3, 4, 1200 << 10 },
		{ shortcut, 3, 5, 2800 << 10 },
		{ read_outside, 5, 5, 0 },
		{ small, 3, 3, 0 },
		{ elements, 1, 3, 256 << 10 },
		{ few_elements, 3, 3, 0 },
		{ front, 1, 2, 0 },
		{ front_of_one_channel, 1, 2, 0 },
		{ front_and_sum, 3, 4, 0 },
		{ front_of_two, 4, 4, 0 },
		{ front_that_is_output, 2, 2, 0 },
		{ front_of_stripes, 2, 4, 1400 << 10 },
		{ front_of_result, 3, 3, 0 },
		{ front_of_many_channels, 2, 2, 0 },
	};
	static struct result on, off;

	compile(want[_i].build, true, &on);
	compile(want[_i].build, false, &off);
	ck_assert(!memcmp(on.out, off.out, sizeof(on.out)));
	ck_assert_uint_eq(off.steps, want[_i].nodes);
	ck_assert_uint_eq(on.steps, want[_i].steps);
	ck_assert_uint_eq(on.rows, want[_i].nodes);
	ck_assert_uint_le(on.arena + want[_i].saved, off.arena);
}
END_TEST

/* The report says how the kernel divides what it computes. */
START_TEST(a_row_has_how_its_chain_is_divided)
{
	static struct result r;

	compile(conv_and_pool, true, &r);
	ck_assert_msg(strstr(r.note, "in stripes of rows"), "%s", r.note);
	compile(elements, true, &r);
	ck_assert_msg(strstr(r.note, "in blocks of elements"), "%s", r.note);
	compile(few_elements, true, &r);
	ck_assert_str_eq(r.note, "");
	compile(front, true, &r);
	ck_assert_str_eq(r.note, "");
	ck_assert_msg(strstr(r.first, "by the convolution of step 0"), "%s", r.first);
	compile(front_of_stripes, true, &r);
	ck_assert_msg(strstr(r.note, "in stripes of rows"), "%s", r.note);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("chain_pass");
	TCase *t = add_case(s, "all", 60, NULL, NULL);

	tcase_add_loop_test(t, what_is_joined, 0, 15);
	tcase_add_test(t, a_row_has_how_its_chain_is_divided);
	return run_suite(s);
}

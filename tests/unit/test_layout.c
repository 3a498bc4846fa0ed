/* SPDX-License-Identifier: MIT */
/*
 * Layouts: every kernel that takes images in NHWC gives the same results in each layout, and what
 * refuses a layout says so. Minimum cuts against all cuts.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "base/mincut.h"
#include "suite.h"
#include "unit/operator.h"

/* ---- kernels ---- */

static uint8_t kept[MOST * 8], moved[MOST * 8];

/* The elements of an image in the other layout. */
static void reorder(const struct rvl_shape *s, size_t size, bool to_nhwc, const uint8_t *x, uint8_t *y)
{
	int64_t c = s->dim[1], plane = s->dim[2] * s->dim[3];

	for (int64_t n = 0; n < s->dim[0]; n++)
		for (int64_t i = 0; i < c; i++)
			for (int64_t p = 0; p < plane; p++) {
				int64_t plain = (n * c + i) * plane + p, nhwc = (n * plane + p) * c + i;

				memcpy(y + (size_t)(to_nhwc ? nhwc : plain) * size,
				       x + (size_t)(to_nhwc ? plain : nhwc) * size, size);
			}
}

static size_t bytes_of(const struct rvl_kernel_arg *a)
{
	return (size_t)rvl_shape_count(&a->shape) * rvl_type_size(a->type);
}

/* Brings an operand into a layout, with its bytes in @bytes. */
static void set_layout(struct rvl_kernel_arg *a, enum rivulet_layout layout, uint8_t *bytes)
{
	if (!rvl_layout_matters(&a->shape) || a->layout == layout)
		return;
	reorder(&a->shape, rvl_type_size(a->type), layout == RIVULET_LAYOUT_NHWC, bytes, moved);
	memcpy(bytes, moved, bytes_of(a));
	a->layout = layout;
}

static void set_layouts(uint32_t nhwc)
{
	for (uint32_t i = 0; i < d.n_in; i++)
		if (rvl_kernel_image(d.op, d.def, i))
			set_layout(&d.in[i], nhwc & 1 ? RIVULET_LAYOUT_NHWC : RIVULET_LAYOUT_PLAIN, memory[i]);
	set_layout(&d.out[0], nhwc & 2 ? RIVULET_LAYOUT_NHWC : RIVULET_LAYOUT_PLAIN, memory[OUT]);
}

/* Runs PLAIN by the reference, then in the layouts @nhwc, and compares the images. */
static void compare_layouts(uint32_t nhwc)
{
	size_t n = bytes_of(&d.out[0]);

	run(true);
	memcpy(kept, memory[OUT], n);
	set_layouts(nhwc);
	for (int reference = 0; reference < 2; reference++) {
		memset(memory[OUT], 0x5a, n);
		run(reference);
		set_layouts(nhwc & 1);
		ck_assert_msg(!memcmp(kept, memory[OUT], n),
			      "%s of %lldx%lldx%lldx%lld in layouts %u differs",
			      rvl_op_name(d.op), (long long)d.in[0].shape.dim[0],
			      (long long)d.in[0].shape.dim[1], (long long)d.in[0].shape.dim[2],
			      (long long)d.in[0].shape.dim[3], nhwc);
		set_layouts(nhwc);
	}
}

static enum rvl_type byte_type(void)
{
	return rnd(0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
}

static void quantise_all(void)
{
	for (uint32_t i = 0; i < d.n_in; i++)
		quant(&d.in[i], (int)i, 1, 0);
	quant(&d.out[0], OUT, 1, 0);
}

static int64_t out_size(int i, int64_t n)
{
	struct rvl_attr *a = &d.attr;
	int64_t room = n + a->pad[i] + a->pad[i + 2] - a->dilation[i] * (a->kernel[i] - 1) - 1;

	return room < 0 ? 0 : room / a->stride[i] + 1;
}

/* A window that is not larger than the padded image, and that begins before the padding behind it. */
static void random_window(const int64_t hw[2], int64_t out[2])
{
	for (int i = 0; i < 2; i++)
		do {
			d.attr.kernel[i] = (int32_t)rnd(1, 4);
			d.attr.stride[i] = (int32_t)rnd(1, 3);
			d.attr.dilation[i] = (int32_t)rnd(1, 2);
			d.attr.pad[i] = (int32_t)rnd(0, 3);
			d.attr.pad[i + 2] = (int32_t)rnd(0, 3);
			out[i] = out_size(i, hw[i]);
		} while (!out[i] || (out[i] - 1) * d.attr.stride[i] >= hw[i] + d.attr.pad[i]);
}

static struct rvl_shape random_image(void)
{
	return SHAPE(rnd(1, 2), rnd(1, 40), rnd(1, 7), rnd(1, 7));
}

static void random_conv(void)
{
	int64_t group = rnd(0, 1) ? rnd(1, 3) : 1, out[2], hw[2] = { rnd(1, 9), rnd(1, 9) };
	int64_t c = group * rnd(1, 9), m = group * rnd(1, 9), n = rnd(1, 2);

	if (rnd(0, 2) == 0)
		group = m = c = rnd(1, 40);
	start(RVL_OP_Q_CONV);
	d.attr.group = (int32_t)group;
	random_window(hw, out);
	in(byte_type(), SHAPE(n, c, hw[0], hw[1]));
	in(RVL_TYPE_S8, SHAPE(m, c / group, d.attr.kernel[0], d.attr.kernel[1]));
	d.in[1].data = memory[1];
	d.n_out = 0;
	put(&d.out[0], OUT, byte_type(), SHAPE(n, m, out[0], out[1]));
	d.n_out = 1;
	quantise_all();
}

START_TEST(convolutions)
{
	for (int i = 0; i < 600; i++) {
		random_conv();
		compare_layouts((uint32_t)i % 4);
	}
}
END_TEST

START_TEST(pools)
{
	static const enum rvl_type types[] = { RVL_TYPE_F32, RVL_TYPE_U8, RVL_TYPE_S8 };

	for (int i = 0; i < 600; i++) {
		bool mean = i % 2;
		struct rvl_shape x = random_image();
		int64_t out[2];
		enum rvl_type t = mean ? byte_type() : types[i / 2 % 3];

		start(mean ? RVL_OP_Q_AVERAGE_POOL : RVL_OP_MAX_POOL);
		random_window(x.dim + 2, out);
		d.attr.count_include_pad = i / 6 % 2;
		in(t, x);
		put(&d.out[0], OUT, mean ? byte_type() : t, SHAPE(x.dim[0], x.dim[1], out[0], out[1]));
		d.n_out = 1;
		if (mean)
			quantise_all();
		/* An image of which only one side has an order of its own has that of the other. */
		compare_layouts(3);
	}
}
END_TEST

START_TEST(global_pools)
{
	for (int i = 0; i < 300; i++) {
		bool mean = i % 2;
		enum rvl_type t = mean ? byte_type() : i / 2 % 3 ? byte_type() : RVL_TYPE_F32;
		struct rvl_shape x = SHAPE(rnd(1, 2), rnd(1, 150), rnd(1, 5), rnd(1, 5));

		start(mean ? RVL_OP_Q_GLOBAL_AVERAGE_POOL : RVL_OP_GLOBAL_MAX_POOL);
		in(t, x);
		put(&d.out[0], OUT, mean ? byte_type() : t, SHAPE(x.dim[0], x.dim[1], 1, 1));
		d.n_out = 1;
		if (mean)
			quantise_all();
		compare_layouts(3);
	}
}
END_TEST

/* The second operand has all the elements, or one for each channel, pixel, row or image. */
static struct rvl_shape random_part(const struct rvl_shape *s)
{
	struct rvl_shape p = *s;
	uint32_t drop = (uint32_t)rnd(0, 15);

	for (int i = 0; i < 4; i++)
		if (drop >> i & 1)
			p.dim[i] = 1;
	if (drop == 15 && rnd(0, 1))
		p = SHAPE(s->dim[1], 1, 1);
	return p;
}

START_TEST(sums_and_products)
{
	for (int i = 0; i < 900; i++) {
		struct rvl_shape x = random_image(), p = random_part(&x);
		bool first = rnd(0, 1);

		start(i % 2 ? RVL_OP_Q_ADD : RVL_OP_Q_MUL);
		in(byte_type(), first ? x : p);
		in(byte_type(), first ? p : x);
		out(byte_type(), x);
		quantise_all();
		if (d.in[0].shape.rank == 4)
			compare_layouts(3);
	}
}
END_TEST

START_TEST(element_by_element)
{
	static const enum rvl_op ops[] = { RVL_OP_Q_RESCALE, RVL_OP_IDENTITY, RVL_OP_QUANTIZE,
					   RVL_OP_DEQUANTIZE };

	for (int i = 0; i < 400; i++) {
		enum rvl_op op = ops[i % 4];
		enum rvl_type q = byte_type(), x = op == RVL_OP_QUANTIZE ? RVL_TYPE_F32 : q;
		struct rvl_shape s = random_image();
		int64_t scales_of = 1;

		start(op);
		d.attr.axis = (int32_t)rnd(0, 3);
		if (i / 4 % 2)
			scales_of = s.dim[d.attr.axis];
		in(x, s);
		if (op == RVL_OP_QUANTIZE || op == RVL_OP_DEQUANTIZE) {
			in(RVL_TYPE_F32, SHAPE(scales_of));
			in(q, SHAPE(scales_of));
			for (int64_t k = 0; k < scales_of; k++)
				F(1)[k] = (float)rnd(1, 64) / 64;
		}
		out(op == RVL_OP_DEQUANTIZE ? RVL_TYPE_F32 : q, s);
		if (op == RVL_OP_Q_RESCALE)
			quantise_all();
		compare_layouts(3);
	}
}
END_TEST

/* One table, and one for each index of an axis. */
START_TEST(tables)
{
	for (int i = 0; i < 200; i++) {
		int axis = i % 5;
		struct rvl_shape x = SHAPE(axis ? 1 : 3, rnd(2, 12), rnd(8, 12), rnd(8, 12));
		struct rvl_shape c = SHAPE(1);

		if (axis < 4) {
			c = SHAPE(1, 1, 1, 1);
			c.dim[axis] = x.dim[axis];
		}
		start(RVL_OP_Q_TABLE);
		d.def = rvl_op_find(NULL, "PRelu", 16);
		in(byte_type(), x);
		in(RVL_TYPE_F32, c);
		d.in[1].data = memory[1];
		out(byte_type(), x);
		quantise_all();
		d.in[1].quant.n = 0;
		compare_layouts(3);
	}
}
END_TEST

START_TEST(transpositions)
{
	static const enum rvl_type types[] = { RVL_TYPE_U8, RVL_TYPE_F32, RVL_TYPE_S64 };

	for (int i = 0; i < 300; i++) {
		struct rvl_shape x = random_image(), y = x;

		start(RVL_OP_TRANSPOSE);
		d.attr.perm_rank = 4;
		for (int k = 0; k < 4; k++)
			d.attr.perm[k] = k;
		for (int k = 3; k > 0; k--) {
			int32_t j = (int32_t)rnd(0, k), t = d.attr.perm[k];

			d.attr.perm[k] = d.attr.perm[j];
			d.attr.perm[j] = t;
		}
		for (int k = 0; k < 4; k++)
			y.dim[k] = x.dim[d.attr.perm[k]];
		in(types[i % 3], x);
		out(types[i % 3], y);
		compare_layouts((uint32_t)rnd(0, 3));
	}
}
END_TEST

START_TEST(reorders)
{
	static const enum rvl_type types[] = { RVL_TYPE_U8, RVL_TYPE_S16, RVL_TYPE_F32, RVL_TYPE_S64 };

	for (int i = 0; i < 100; i++) {
		struct rvl_shape x = i % 2 ? random_image() : SHAPE(1, rnd(30, 70), rnd(1, 11), rnd(1, 10));

		start(RVL_OP_REORDER);
		in(types[i / 2 % 4], x);
		out(types[i / 2 % 4], x);
		compare_layouts((uint32_t)rnd(0, 3));
	}
}
END_TEST

/* ---- refusals ---- */

static void refused(const char *want)
{
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;

	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, why), -EINVAL);
	ck_assert_msg(strstr(why, want), "\"%s\" does not say \"%s\"", why, want);
}

static const char *const NOT_TAKEN = "is not an image whose layout the kernel takes";

START_TEST(layouts_refused)
{
	random_conv();
	d.in[1].layout = RIVULET_LAYOUT_NHWC;
	refused(NOT_TAKEN);
	random_conv();
	d.in[0].layout = RIVULET_LAYOUT_BLOCKED;
	refused(NOT_TAKEN);
	start(RVL_OP_Q_CONV);
	in(RVL_TYPE_U8, SHAPE(1, 1, 4, 4));
	in(RVL_TYPE_S8, SHAPE(1, 1, 1, 1));
	out(RVL_TYPE_U8, SHAPE(1, 1, 4, 4));
	quantise_all();
	d.in[0].layout = RIVULET_LAYOUT_NHWC; /* one channel: PLAIN is the same */
	refused(NOT_TAKEN);
	start(RVL_OP_SOFTMAX);
	in(RVL_TYPE_F32, SHAPE(1, 2, 3, 4));
	out(RVL_TYPE_F32, SHAPE(1, 2, 3, 4));
	d.in[0].layout = d.out[0].layout = RIVULET_LAYOUT_NHWC;
	refused(NOT_TAKEN);
	start(RVL_OP_Q_ADD);
	in(RVL_TYPE_U8, SHAPE(1, 2, 3, 4));
	in(RVL_TYPE_U8, SHAPE(1, 2, 3, 4));
	out(RVL_TYPE_U8, SHAPE(1, 2, 3, 4));
	quantise_all();
	d.in[0].layout = d.out[0].layout = RIVULET_LAYOUT_NHWC;
	refused("different layouts");
	start(RVL_OP_MAX_POOL);
	in(RVL_TYPE_U8, SHAPE(1, 2, 3, 4));
	out(RVL_TYPE_U8, SHAPE(1, 2, 3, 4));
	out(RVL_TYPE_S64, SHAPE(1, 2, 3, 4));
	d.in[0].layout = d.out[0].layout = RIVULET_LAYOUT_NHWC; /* with indices */
	refused(NOT_TAKEN);
	start(RVL_OP_IDENTITY);
	in(RVL_TYPE_U8, SHAPE(1, 2, 3, 4));
	out(RVL_TYPE_U8, SHAPE(1, 2, 4, 3));
	d.in[0].layout = d.out[0].layout = RIVULET_LAYOUT_NHWC;
	refused("not the same image");
}
END_TEST

/* ---- minimum cuts ---- */

struct edge {
	uint32_t from, to;
	int64_t capacity;
};

static int64_t cost_of(const struct edge *e, uint32_t n, uint32_t sink)
{
	int64_t cost = 0;

	for (uint32_t i = 0; i < n; i++)
		if (!(sink >> e[i].from & 1) && sink >> e[i].to & 1)
			cost += e[i].capacity;
	return cost;
}

/* The cheapest set with the sink and without the source; of equal ones the smallest. */
static uint32_t best_of_all(const struct edge *e, uint32_t n, uint32_t vertices, int64_t *least)
{
	uint32_t best = 0;

	*least = INT64_MAX;
	for (uint32_t sink = 0; sink < 1u << vertices; sink++) {
		int64_t cost = cost_of(e, n, sink);

		if (sink & 1u << RVL_CUT_SOURCE || !(sink >> RVL_CUT_SINK & 1))
			continue;
		if (cost > *least || (cost == *least && __builtin_popcount(sink) > __builtin_popcount(best)))
			continue;
		*least = cost;
		best = sink;
	}
	return best;
}

START_TEST(cuts_are_minimal)
{
	for (int turn = 0; turn < 400; turn++) {
		uint32_t vertices = (uint32_t)rnd(2, 9), n = (uint32_t)rnd(0, 20), sink = 0, best;
		struct rvl_mincut *m = rvl_mincut_new(vertices);
		struct edge e[20];
		int64_t least, cost;

		ck_assert_ptr_nonnull(m);
		for (uint32_t i = 0; i < n; i++) {
			e[i] = (struct edge){ (uint32_t)rnd(0, vertices - 1), (uint32_t)rnd(0, vertices - 1),
					      rnd(0, 5) };
			ck_assert_int_eq(rvl_mincut_edge(m, e[i].from, e[i].to, e[i].capacity), 0);
		}
		best = best_of_all(e, n, vertices, &least);
		ck_assert_int_eq(rvl_mincut_solve(m, 100000, &cost), 0);
		for (uint32_t v = 0; v < vertices; v++)
			sink |= (uint32_t)rvl_mincut_at_sink(m, v) << v;
		ck_assert_int_eq(cost, least);
		ck_assert_uint_eq(sink, best);
		rvl_mincut_free(m);
	}
}
END_TEST

START_TEST(cuts_end_after_their_steps)
{
	struct rvl_mincut *m = rvl_mincut_new(1000);

	ck_assert_ptr_nonnull(m);
	for (uint32_t v = 2; v < 999; v++)
		ck_assert_int_eq(rvl_mincut_edge(m, v, v + 1, 1), 0);
	ck_assert_int_eq(rvl_mincut_edge(m, RVL_CUT_SOURCE, 2, 1), 0);
	ck_assert_int_eq(rvl_mincut_edge(m, 999, RVL_CUT_SINK, 1), 0);
	ck_assert_int_eq(rvl_mincut_solve(m, 500, NULL), -E2BIG);
	rvl_mincut_free(m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("layout");
	TCase *t = add_case(s, "kernels", 60, NULL, NULL);

	tcase_add_test(t, convolutions);
	tcase_add_test(t, pools);
	tcase_add_test(t, global_pools);
	tcase_add_test(t, sums_and_products);
	tcase_add_test(t, element_by_element);
	tcase_add_test(t, tables);
	tcase_add_test(t, transpositions);
	tcase_add_test(t, reorders);
	tcase_add_test(t, layouts_refused);
	t = add_case(s, "cuts", 60, NULL, NULL);
	tcase_add_test(t, cuts_are_minimal);
	tcase_add_test(t, cuts_end_after_their_steps);
	return run_suite(s);
}

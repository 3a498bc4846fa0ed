/* SPDX-License-Identifier: MIT */
/*
 * CPU kernels. The fast ones are compared with the scalar references over random shapes. The
 * references are compared with onnxruntime's recorded convolutions and with a second implementation
 * of docs/numerics.md. Descriptors are tested as bytes.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "conv/conv_cases.h"
#include "rivulet_kernels.h"
#include "suite.h"

static uint64_t seed = 0x2545f4914f6cdd1du;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)(xorshift(&seed) >> 32) % n;
}

static float rnd_float(float lo, float hi)
{
	return lo + (hi - lo) * (float)rnd(1 << 20) / (float)(1 << 20);
}

static void fill_bytes(void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)rnd(256);
}

static void fill_floats(float *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = rnd_float(-2, 2);
}

/* An operand with memory for per-channel parameters. */
struct param {
	float scale[256];
	int32_t zp[256];
};

static struct rvl_kernel_arg arg(enum rvl_type t, int rank, const int64_t *dim)
{
	struct rvl_kernel_arg a = { .type = t, .shape = { .rank = rank } };

	for (int i = 0; i < rank; i++)
		a.shape.dim[i] = dim[i];
	return a;
}

#define ARG(t, ...) arg(RVL_TYPE_##t, sizeof((int64_t[]) { __VA_ARGS__ }) / 8, \
			(int64_t[]) { __VA_ARGS__ })

static struct rvl_kernel_arg with_quant(struct rvl_kernel_arg a, struct param *p, uint32_t n,
					int32_t axis)
{
	for (uint32_t i = 0; i < n; i++) {
		p->scale[i] = rnd_float(0.002f, 0.05f);
		p->zp[i] = a.type == RVL_TYPE_U8 ? (int32_t)rnd(256) : (int32_t)rnd(256) - 128;
	}
	a.quant = (struct rvl_kernel_quant) { .n = n, .axis = axis, .scale = p->scale,
					      .zp = p->zp };
	return a;
}

static size_t bytes_of(const struct rvl_kernel_arg *a)
{
	return (size_t)rvl_shape_count(&a->shape) * rvl_type_size(a->type);
}

/* A pool that runs the loop backwards, because results must not depend on the order. */
static void backwards(void *ctx, uint32_t lanes, uint32_t n, rvl_part_fn fn, void *arg)
{
	(void)ctx;
	while (n-- > 0)
		fn(arg, n % lanes, n);
}

static const struct rvl_pool pool = { .parallel = backwards, .threads = 2 };

static void run_kernel(const struct rvl_kernel_desc *d, bool reference, const void *const *in,
		       void *const *out, const struct rvl_pool *p)
{
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;
	void *scratch;
	int rc = rvl_kernel_new(d, reference, &k, why);

	ck_assert_msg(rc == 0, "new: %d %s", rc, why);
	scratch = aligned_alloc(64, (rvl_kernel_scratch(k) + 127) / 64 * 64);
	rc = rvl_kernel_run(k, in, out, scratch, p);
	ck_assert_int_eq(rc, 0);
	free(scratch);
	rvl_kernel_free(k);
}

/* ---- quantised products ---- */

struct conv_case {
	struct rvl_kernel_desc d;
	struct param px, pw, py;
	uint8_t *x, *w;
	int32_t *b;
};

/* @pool: every window covers part of the input, as onnxruntime requires. */
static void random_window(struct rvl_attr *a, bool pool, int64_t h, int64_t w, int64_t *oh,
			  int64_t *ow)
{
	int64_t in[2] = { h, w }, *out[2] = { oh, ow };

	for (int i = 0; i < 2; i++) {
		int64_t reach;

		do {
			a->kernel[i] = 1 + (int32_t)rnd(5);
			a->stride[i] = 1 + (int32_t)rnd(3);
			a->dilation[i] = 1 + (int32_t)rnd(2);
			a->pad[i] = (int32_t)rnd(pool && a->kernel[i] < 3 ? (uint32_t)a->kernel[i] :
						 3);
			a->pad[i + 2] = (int32_t)rnd((uint32_t)a->pad[i] + 1);
			reach = a->dilation[i] * (a->kernel[i] - 1) + 1;
		} while (in[i] + a->pad[i] + a->pad[i + 2] < reach);
		*out[i] = (in[i] + a->pad[i] + a->pad[i + 2] - reach) / a->stride[i] + 1;
	}
}

static void random_conv(struct conv_case *c)
{
	int64_t group = rnd(3) ? 1 : 1 + rnd(4);
	int64_t cg = 1 + rnd(9), mg = 1 + rnd(20), h = 1 + rnd(12), w = 1 + rnd(12), oh, ow;
	struct rvl_kernel_desc *d = &c->d;
	bool depthwise = rnd(4) == 0;

	if (depthwise) {
		group = 1 + rnd(40);
		cg = mg = 1;
	}
	memset(c, 0, sizeof(*c));
	d->op = RVL_OP_Q_CONV;
	d->n_in = 2 + rnd(2);
	d->n_out = 1;
	rvl_attr_init(&d->attr);
	d->attr.group = (int32_t)group;
	random_window(&d->attr, false, h, w, &oh, &ow);
	d->in[0] = with_quant(arg(rnd(2) ? RVL_TYPE_U8 : RVL_TYPE_S8, 4,
				  (int64_t[]) { 1 + rnd(2), cg * group, h, w }), &c->px, 1, 0);
	d->in[1] = with_quant(arg(rnd(4) ? RVL_TYPE_S8 : RVL_TYPE_U8, 4,
				  (int64_t[]) { mg * group, cg, d->attr.kernel[0],
						d->attr.kernel[1] }),
			      &c->pw, rnd(2) ? 1 : (uint32_t)(mg * group), 0);
	d->out[0] = with_quant(arg(rnd(2) ? RVL_TYPE_U8 : RVL_TYPE_S8, 4,
				   (int64_t[]) { d->in[0].shape.dim[0], mg * group, oh, ow }),
			       &c->py, 1, 0);
	if (rnd(3) == 0)
		d->attr.q_lo = c->py.zp[0];
	c->x = malloc(bytes_of(&d->in[0]));
	c->w = malloc(bytes_of(&d->in[1]));
	c->b = malloc((size_t)(mg * group) * 4);
	fill_bytes(c->x, bytes_of(&d->in[0]));
	fill_bytes(c->w, bytes_of(&d->in[1]));
	for (int64_t i = 0; i < mg * group; i++)
		c->b[i] = (int32_t)rnd(20000) - 10000;
	d->in[1].data = c->w;
	d->in[2] = d->n_in > 2 ? ARG(S32, mg * group) : (struct rvl_kernel_arg) { .data = NULL };
	d->in[2].data = d->n_in > 2 ? c->b : NULL;
}

static void free_conv(struct conv_case *c)
{
	free(c->x);
	free(c->w);
	free(c->b);
}

START_TEST(fast_convolutions_equal_the_reference)
{
	for (int i = 0; i < 600; i++) {
		struct conv_case c;
		const void *in[3];
		uint8_t *fast, *ref;
		size_t n;

		random_conv(&c);
		n = bytes_of(&c.d.out[0]);
		fast = malloc(n);
		ref = malloc(n);
		in[0] = c.x;
		in[1] = c.w;
		in[2] = c.b;
		run_kernel(&c.d, false, in, (void *[]) { fast }, i % 2 ? &pool : NULL);
		run_kernel(&c.d, true, in, (void *[]) { ref }, NULL);
		ck_assert_msg(!memcmp(fast, ref, n), "case %d", i);
		memset(fast, 0, n);
		ck_assert_int_eq(rvl_cpu_force("scalar", NULL), 0);
		run_kernel(&c.d, false, in, (void *[]) { fast }, NULL);
		ck_assert_int_eq(rvl_cpu_force(NULL, NULL), 0);
		ck_assert_msg(!memcmp(fast, ref, n), "case %d without vectors", i);
		free(fast);
		free(ref);
		free_conv(&c);
	}
}
END_TEST

/* ---- operators whose parameters are operands ---- */

struct row_lists {
	int64_t kernel[2], stride[2], dilation[2], pad[4];
};

/* Makes the descriptor of a QLinear operator one of its row, with the attributes of @d->attr. */
static void as_row(struct rvl_kernel_desc *d, struct row_lists *l)
{
	const struct rvl_attr *a = &d->attr;
	const struct {
		const char *name;
		struct rvl_attr_value v;
	} given[] = {
		{ "kernel_shape", { .given = true, .n = 2, .data = l->kernel } },
		{ "strides", { .given = true, .n = 2, .data = l->stride } },
		{ "dilations", { .given = true, .n = 2, .data = l->dilation } },
		{ "pads", { .given = true, .n = 4, .data = l->pad } },
		{ "group", { .given = true, .i = a->group } },
		{ "alpha", { .given = true, .f = a->alpha } },
	};

	for (int i = 0; i < 4; i++) {
		l->kernel[i % 2] = a->kernel[i % 2];
		l->stride[i % 2] = a->stride[i % 2];
		l->dilation[i % 2] = a->dilation[i % 2];
		l->pad[i] = a->pad[i];
	}
	d->def = rvl_op_of_kernel(d->op);
	d->op = RVL_OP_GENERAL;
	for (uint32_t i = 0; i < rvl_op_attrs(d->def); i++)
		for (size_t k = 0; k < sizeof(given) / sizeof(given[0]); k++)
			if (!strcmp(d->def->attrs[i].name, given[k].name))
				d->value[i] = given[k].v;
}

/* The same convolution with its parameters as operands. */
START_TEST(qlinear_conv_equals_qconv)
{
	for (int i = 0; i < 100; i++) {
		struct conv_case c;
		struct rvl_kernel_desc d = { .op = RVL_OP_QLINEAR_CONV, .n_out = 1 };
		uint8_t xz, wz[256], yz, *a, *b;
		const void *in[9], *qin[3];
		struct row_lists lists;
		size_t n;

		random_conv(&c);
		c.d.attr.q_lo = INT32_MIN;
		n = bytes_of(&c.d.out[0]);
		xz = (uint8_t)c.px.zp[0];
		yz = (uint8_t)c.py.zp[0];
		for (uint32_t k = 0; k < c.d.in[1].quant.n; k++)
			wz[k] = (uint8_t)c.pw.zp[k];
		d.attr = c.d.attr;
		d.n_in = c.d.n_in > 2 ? 9 : 8;
		d.in[0] = arg(c.d.in[0].type, 4, c.d.in[0].shape.dim);
		d.in[1] = ARG(F32, 1);
		d.in[2] = arg(c.d.in[0].type, 0, NULL);
		d.in[3] = arg(c.d.in[1].type, 4, c.d.in[1].shape.dim);
		d.in[4] = ARG(F32, c.d.in[1].quant.n);
		d.in[5] = arg(c.d.in[1].type, 1, (int64_t[]) { c.d.in[1].quant.n });
		d.in[6] = ARG(F32, 1);
		d.in[7] = arg(c.d.out[0].type, 0, NULL);
		d.in[8] = c.d.in[2];
		d.in[8].data = NULL;
		d.out[0] = arg(c.d.out[0].type, 4, c.d.out[0].shape.dim);
		memcpy(in, (const void *[]) { c.x, c.px.scale, &xz, c.w, c.pw.scale, wz,
					      c.py.scale, &yz, c.b }, sizeof(in));
		memcpy(qin, (const void *[]) { c.x, c.w, c.b }, sizeof(qin));
		a = malloc(n);
		b = malloc(n);
		as_row(&d, &lists);
		run_kernel(&d, false, in, (void *[]) { a }, NULL);
		run_kernel(&c.d, false, qin, (void *[]) { b }, NULL);
		ck_assert_msg(!memcmp(a, b, n), "case %d", i);
		free(a);
		free(b);
		free_conv(&c);
	}
}
END_TEST

/*
 * The operands of a QLinear operator: value, scale and zero point of each, indexed by the number of
 * the input.
 */
struct qlinear {
	struct rvl_kernel_desc d;
	const void *in[RVL_MAX_IN];
	uint8_t zp[3];
};

static void qlinear_value(struct qlinear *q, uint32_t at, const struct rvl_kernel_arg *a,
			  const void *data)
{
	q->d.in[at] = *a;
	q->d.in[at].quant.n = 0;
	q->d.in[at].data = NULL;
	q->in[at] = data;
	if (q->d.n_in <= at)
		q->d.n_in = at + 1;
}

static void qlinear_params(struct qlinear *q, uint32_t at, const struct rvl_kernel_arg *a, int k)
{
	q->zp[k] = (uint8_t)a->quant.zp[0];
	q->d.in[at] = ARG(F32, 1);
	q->in[at] = a->quant.scale;
	q->d.in[at + 1] = arg(a->type, 0, NULL);
	q->in[at + 1] = &q->zp[k];
	if (q->d.n_in <= at + 1)
		q->d.n_in = at + 2;
}

/* Runs the Q_* operator and its QLinear form on the same operands; the results must be equal. */
static void both_forms(const struct rvl_kernel_desc *d, enum rvl_op op, const void *const *in)
{
	struct qlinear q = { .d = { .op = op, .n_out = 1, .attr = d->attr } };
	bool two = d->n_in > 1, gemm = op == RVL_OP_QGEMM;
	struct row_lists lists;
	uint8_t a[256], b[256];

	q.d.out[0] = d->out[0];
	q.d.out[0].quant.n = 0;
	qlinear_value(&q, 0, &d->in[0], in[0]);
	qlinear_params(&q, 1, &d->in[0], 0);
	if (two) {
		qlinear_value(&q, 3, &d->in[1], in[1]);
		qlinear_params(&q, 4, &d->in[1], 1);
	}
	if (gemm && d->n_in > 2)
		qlinear_value(&q, 6, &d->in[2], in[2]);
	qlinear_params(&q, gemm ? 7 : two ? 6 : 3, &d->out[0], 2);
	ck_assert_uint_le(bytes_of(&d->out[0]), sizeof(a));
	as_row(&q.d, &lists);
	run_kernel(d, false, in, (void *[]) { a }, NULL);
	run_kernel(&q.d, false, q.in, (void *[]) { b }, NULL);
	ck_assert_msg(!memcmp(a, b, bytes_of(&d->out[0])), "%s", rvl_op_name(op));
}

START_TEST(qlinear_forms_equal_the_quantised_operators)
{
	static struct param pa, pb, py;
	uint8_t x[256], w[256];
	int32_t c[8];
	const void *in[3] = { x, w, c };

	for (int i = 0; i < 60; i++) {
		struct rvl_kernel_desc d = { .n_in = 2, .n_out = 1 };

		fill_bytes(x, sizeof(x));
		fill_bytes(w, sizeof(w));
		for (int k = 0; k < 8; k++)
			c[k] = (int32_t)rnd(2000) - 1000;
		rvl_attr_init(&d.attr);
		d.in[0] = with_quant(i % 2 ? ARG(U8, 1, 1, 3, 8) : ARG(U8, 2, 4, 3, 8), &pa, 1, 0);
		d.in[1] = with_quant(i % 3 ? ARG(U8, 2, 4, 3, 8) : ARG(U8, 4, 1, 1), &pb, 1, 0);
		d.out[0] = with_quant(i % 2 && i % 3 == 0 ? ARG(S8, 1, 4, 3, 8) :
				      ARG(S8, 2, 4, 3, 8), &py, 1, 0);
		d.op = RVL_OP_Q_ADD;
		both_forms(&d, RVL_OP_QLINEAR_ADD, in);
		d.op = RVL_OP_Q_MUL;
		both_forms(&d, RVL_OP_QLINEAR_MUL, in);
		d.op = RVL_OP_Q_MATMUL;
		d.in[0] = with_quant(ARG(U8, 5, 9), &pa, 1, 0);
		d.in[1] = with_quant(ARG(S8, 9, 8), &pb, 1, 0);
		d.out[0] = with_quant(ARG(U8, 5, 8), &py, 1, 0);
		both_forms(&d, RVL_OP_QLINEAR_MATMUL, in);
		d.n_in = 3;
		d.in[2] = ARG(S32, 8);
		both_forms(&d, RVL_OP_QGEMM, in);
		d.n_in = 1;
		d.in[0] = with_quant(ARG(U8, 1, 4, 5, 6), &pa, 1, 0);
		d.out[0] = with_quant(ARG(U8, 1, 4, 1, 1), &py, 1, 0);
		d.op = RVL_OP_Q_GLOBAL_AVERAGE_POOL;
		both_forms(&d, RVL_OP_QLINEAR_GLOBAL_AVERAGE_POOL, in);
		memcpy(d.attr.kernel, (int32_t[]) { 2, 3 }, 8);
		d.out[0] = with_quant(ARG(U8, 1, 4, 4, 4), &py, 1, 0);
		d.op = RVL_OP_Q_AVERAGE_POOL;
		both_forms(&d, RVL_OP_QLINEAR_AVERAGE_POOL, in);
	}
}
END_TEST

START_TEST(scales_computed_at_run_time_are_checked_then)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_QLINEAR_MUL, .n_in = 8, .n_out = 1 };
	const uint8_t v = 3;
	float scale[3] = { 1, 1, 1 };
	const void *in[8] = { &v, &scale[0], &v, &v, &scale[1], &v, &scale[2], &v };
	struct row_lists lists;
	struct rvl_kernel *k;
	uint8_t y;

	rvl_attr_init(&d.attr);
	for (int i = 0; i < 8; i++)
		d.in[i] = i == 1 || i == 4 || i == 6 ? ARG(F32, 1) : ARG(U8, 1);
	d.out[0] = ARG(U8, 1);
	as_row(&d, &lists);
	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, NULL), 0);
	ck_assert_int_eq(rvl_kernel_run(k, in, (void *[]) { &y }, NULL, NULL), 0);
	ck_assert_uint_eq(y, 3);
	for (int i = 0; i < 3; i++) {
		scale[i] = i ? NAN : 0;
		ck_assert_int_eq(rvl_kernel_run(k, in, (void *[]) { &y }, NULL, NULL), -EINVAL);
		scale[i] = 1;
	}
	rvl_kernel_free(k);
}
END_TEST

/* Add, Mul, Relu and Clip on every type they take. */
START_TEST(integers_wrap_and_clip)
{
	static const enum rvl_type types[] = { RVL_TYPE_U8, RVL_TYPE_S8, RVL_TYPE_S32,
					       RVL_TYPE_S64 };

	for (int i = 0; i < 4; i++) {
		enum rvl_type t = types[i];
		struct rvl_kernel_desc d = { .op = RVL_OP_ADD, .n_in = 2, .n_out = 1 };
		int64_t a = 100, b = 3, y = 0, lo = 2, hi = 50;
		const void *in[3] = { &a, &b, NULL };

		rvl_attr_init(&d.attr);
		d.in[0] = d.in[1] = d.in[2] = d.out[0] = arg(t, 0, NULL);
		run_kernel(&d, false, in, (void *[]) { &y }, NULL);
		ck_assert_int_eq(y, 103);
		d.op = RVL_OP_MUL;
		run_kernel(&d, false, in, (void *[]) { &y }, NULL);
		ck_assert_int_eq((int8_t)y, (int8_t)300);
		d.op = RVL_OP_CLIP;
		d.n_in = 3;
		memcpy(in, (const void *[]) { &a, &lo, &hi }, sizeof(in));
		y = 0;
		run_kernel(&d, false, in, (void *[]) { &y }, NULL);
		ck_assert_int_eq(y, 50);
		d.op = RVL_OP_RELU;
		d.n_in = 1;
		a = t == RVL_TYPE_U8 ? 7 : -7;
		y = 0;
		run_kernel(&d, false, in, (void *[]) { &y }, NULL);
		ck_assert_int_eq(y, t == RVL_TYPE_U8 ? 7 : 0);
	}
}
END_TEST

static void recorded_case(const struct rvl_conv *c, bool reference)
{
	const struct rvl_conv_case *p = &c->p;
	enum rvl_type xt = p->x_type == RVL_CONV_U8 ? RVL_TYPE_U8 : RVL_TYPE_S8;
	uint32_t channels = c->ws_count > 1 ? p->m : 1;
	int32_t xz = p->x_zp, yz = p->y_zp, wz[65536];
	struct rvl_kernel_desc d = { .op = RVL_OP_Q_CONV, .n_in = c->bias ? 3 : 2, .n_out = 1 };
	const void *in[3] = { c->x, c->w, c->bias };
	uint8_t *y = malloc(c->y_bytes + 1);

	for (uint32_t i = 0; i < channels; i++)
		wz[i] = p->w_zp;
	rvl_attr_init(&d.attr);
	memcpy(d.attr.kernel, (int32_t[]) { p->kh, p->kw }, 8);
	memcpy(d.attr.stride, (int32_t[]) { p->stride_h, p->stride_w }, 8);
	memcpy(d.attr.dilation, (int32_t[]) { p->dilation_h, p->dilation_w }, 8);
	memcpy(d.attr.pad, (int32_t[]) { p->pad_top, p->pad_left, p->pad_bottom, p->pad_right },
	       16);
	d.attr.group = p->group;
	d.in[0] = arg(xt, 4, (int64_t[]) { p->n, p->c, p->h, p->w });
	d.in[0].quant = (struct rvl_kernel_quant) { 1, 0, &p->x_scale, &xz };
	d.in[1] = arg(p->w_type == RVL_CONV_U8 ? RVL_TYPE_U8 : RVL_TYPE_S8, 4,
		      (int64_t[]) { p->m, p->c / p->group, p->kh, p->kw });
	d.in[1].quant = (struct rvl_kernel_quant) { channels, 0, c->ws, wz };
	d.in[1].data = c->w;
	d.in[2] = c->bias ? ARG(S32, p->m) : (struct rvl_kernel_arg) { .data = NULL };
	d.in[2].data = c->bias;
	d.out[0] = arg(xt, 4, (int64_t[]) { p->n, p->m, p->oh, p->ow });
	d.out[0].quant = (struct rvl_kernel_quant) { 1, 0, &p->y_scale, &yz };
	run_kernel(&d, reference, in, (void *[]) { y }, NULL);
	ck_assert_msg(rvl_conv_match(c, y), "recorded case %u", p->index);
	free(y);
}

START_TEST(recorded_convolutions_equal_onnxruntime)
{
	struct rvl_conv_reader *r;
	struct rvl_conv c;
	int cases = rvl_conv_open("tests/data/conv_500.bin", &r), seen = 0, rc;

	ck_assert_int_ge(cases, 500);
	while ((rc = rvl_conv_next(r, &c)) > 0) {
		recorded_case(&c, false);
		if (seen++ % 10 == 0)
			recorded_case(&c, true);
	}
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(seen, cases);
	rvl_conv_close(r);
}
END_TEST

START_TEST(fast_matrix_products_equal_the_reference)
{
	for (int i = 0; i < 400; i++) {
		int64_t m = 1 + rnd(11), n = 1 + rnd(40), k = 1 + rnd(70), batch = 1 + rnd(3);
		struct rvl_kernel_desc d = { .op = RVL_OP_Q_MATMUL, .n_in = 2 + rnd(2),
					     .n_out = 1 };
		static struct param pa, pb, py;
		uint8_t *a = malloc((size_t)(batch * m * k)), *b = malloc((size_t)(k * n));
		uint8_t *fast = malloc((size_t)(batch * m * n)), *ref =
			malloc((size_t)(batch * m * n));
		int32_t *bias = malloc((size_t)n * 4);
		const void *in[3] = { a, b, bias };

		rvl_attr_init(&d.attr);
		d.attr.trans_b = (int32_t)rnd(2);
		d.attr.alpha = rnd(2) ? 1.0f : 0.37f;
		d.in[0] = with_quant(ARG(U8, batch, m, k), &pa, 1, 0);
		d.in[1] = d.attr.trans_b ? ARG(S8, n, k) : ARG(S8, k, n);
		d.in[1] = with_quant(d.in[1], &pb, rnd(2) ? 1 : (uint32_t)n, !d.attr.trans_b);
		d.in[1].data = b;
		d.in[2] = ARG(S32, n);
		d.in[2].data = bias;
		d.out[0] = with_quant(ARG(S8, batch, m, n), &py, 1, 0);
		fill_bytes(a, (size_t)(batch * m * k));
		fill_bytes(b, (size_t)(k * n));
		for (int64_t j = 0; j < n; j++)
			bias[j] = (int32_t)rnd(60000) - 30000;
		run_kernel(&d, false, in, (void *[]) { fast }, &pool);
		run_kernel(&d, true, in, (void *[]) { ref }, NULL);
		ck_assert_msg(!memcmp(fast, ref, (size_t)(batch * m * n)), "case %d", i);
		free(a);
		free(b);
		free(fast);
		free(ref);
		free(bias);
	}
}
END_TEST

/* ---- addition ---- */

/* A second implementation of docs/numerics.md 2. With @exchanged, the operands are exchanged. */
static uint8_t add_oracle(const struct rvl_kernel_desc *d, int a, int b, bool exchanged)
{
	const struct rvl_kernel_quant *qa = &d->in[exchanged].quant, *qb = &d->in[!exchanged].quant;
	const struct rvl_kernel_quant *qy = &d->out[0].quant;
	float ra = qa->scale[0] / qy->scale[0], rb = qb->scale[0] / qy->scale[0];
	float c = (float)qy->zp[0] - fmaf(ra, (float)qa->zp[0], rb * (float)qb->zp[0]);
	float v = fmaf((float)(exchanged ? b : a), ra, fmaf((float)(exchanged ? a : b), rb, c));
	float r = rintf(v);

	return (uint8_t)(r < 0 ? 0 : r > 255 ? 255 : r);
}

static void addition_case(const struct rvl_shape *sa, const struct rvl_shape *sb, bool exchanged)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_Q_ADD, .n_in = 2, .n_out = 1 };
	static struct param pa, pb, py;
	uint8_t a[512], b[512], fast[512], ref[512];
	struct rvl_shape out;
	const void *in[2] = { a, b };
	int64_t na = rvl_shape_count(sa), nb = rvl_shape_count(sb), n;

	ck_assert_int_eq(rvl_shape_broadcast(sa, sb, &out), 0);
	n = rvl_shape_count(&out);
	rvl_attr_init(&d.attr);
	d.in[0] = with_quant(arg(RVL_TYPE_U8, sa->rank, sa->dim), &pa, 1, 0);
	d.in[1] = with_quant(arg(RVL_TYPE_U8, sb->rank, sb->dim), &pb, 1, 0);
	d.out[0] = with_quant(arg(RVL_TYPE_U8, out.rank, out.dim), &py, 1, 0);
	py.scale[0] = pa.scale[0] * 1.5f;
	pb.scale[0] = py.scale[0] / (float)(1 + rnd(7));	/* causes near ties often */
	fill_bytes(a, (size_t)na);
	fill_bytes(b, (size_t)nb);
	run_kernel(&d, false, in, (void *[]) { fast }, NULL);
	run_kernel(&d, true, in, (void *[]) { ref }, NULL);
	ck_assert_int_eq(memcmp(fast, ref, (size_t)n), 0);
	/* An operand of the full shape or of one value is indexed without broadcasting. */
	if (na == n || na == 1)
		for (int64_t i = 0; i < n && (nb == n || nb == 1); i++)
			ck_assert_uint_eq(ref[i], add_oracle(&d, a[na == 1 ? 0 : i],
							     b[nb == 1 ? 0 : i], exchanged));
}

START_TEST(additions_follow_onnxruntime)
{
	static const struct { struct rvl_shape a, b; bool exchanged; } cases[] = {
		{ { 3, { 2, 3, 7 } }, { 3, { 2, 3, 7 } }, false },
		{ { 3, { 2, 3, 7 } }, { 0, { 0 } }, false },
		{ { 0, { 0 } }, { 3, { 2, 3, 7 } }, true },
		{ { 1, { 1 } }, { 2, { 5, 9 } }, true },
		{ { 3, { 4, 1, 1 } }, { 4, { 2, 4, 3, 3 } }, true },
		{ { 4, { 2, 4, 3, 3 } }, { 3, { 4, 1, 1 } }, false },
		{ { 1, { 6 } }, { 2, { 4, 6 } }, false },
		{ { 1, { 1 } }, { 1, { 1 } }, false },
	};

	for (int i = 0; i < 300; i++)
		addition_case(&cases[i % 8].a, &cases[i % 8].b, cases[i % 8].exchanged);
}
END_TEST

START_TEST(multiplications_add_the_zero_point_before_rounding)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_Q_MUL, .n_in = 2, .n_out = 1 };
	const float one = 1.0f, two = 2.0f;
	const int32_t zero = 0, three = 3;
	const int8_t a[4] = { 1, 3, 5, -1 }, b[4] = { 1, 1, 1, 1 };
	int8_t y[4];
	const void *in[2] = { a, b };

	rvl_attr_init(&d.attr);
	d.in[0] = d.in[1] = d.out[0] = ARG(S8, 4);
	d.in[0].quant = d.in[1].quant = (struct rvl_kernel_quant) { 1, 0, &one, &zero };
	d.out[0].quant = (struct rvl_kernel_quant) { 1, 0, &two, &three };
	run_kernel(&d, false, in, (void *[]) { y }, NULL);
	/*
	 * 3.5 -> 4, 4.5 -> 4, 5.5 -> 6, 2.5 -> 2: the sum is rounded, ties to even, not the product
	 */
	ck_assert_int_eq(y[0], 4);
	ck_assert_int_eq(y[1], 4);
	ck_assert_int_eq(y[2], 6);
	ck_assert_int_eq(y[3], 2);
}
END_TEST

/* ---- pools ---- */

START_TEST(max_pools_of_every_type_agree)
{
	for (int i = 0; i < 200; i++) {
		int64_t h = 1 + rnd(9), w = 1 + rnd(9), oh, ow, n;
		struct rvl_kernel_desc d = { .op = RVL_OP_MAX_POOL, .n_in = 1, .n_out = 2 };
		uint8_t x[2 * 81], y[2 * 144];
		float fx[2 * 81], fy[2 * 144];
		int64_t index[2 * 144];
		const void *in[1] = { x };

		rvl_attr_init(&d.attr);
		random_window(&d.attr, true, h, w, &oh, &ow);
		n = 2 * oh * ow;
		ck_assert_int_le(n, 288);
		fill_bytes(x, sizeof(x));
		for (int64_t j = 0; j < 2 * h * w; j++)
			fx[j] = x[j];
		d.in[0] = ARG(U8, 1, 2, h, w);
		d.out[0] = ARG(U8, 1, 2, oh, ow);
		d.out[1] = ARG(S64, 1, 2, oh, ow);
		run_kernel(&d, false, in, (void *[]) { y, index }, &pool);
		d.in[0].type = d.out[0].type = RVL_TYPE_F32;
		d.n_out = 1;
		in[0] = fx;
		run_kernel(&d, false, in, (void *[]) { fy }, NULL);
		for (int64_t j = 0; j < n; j++) {
			ck_assert_float_eq(fy[j], (float)y[j]);
			if (y[j])
				ck_assert_uint_eq(x[index[j]], y[j]);
		}
	}
}
END_TEST

START_TEST(average_pools_divide_by_what_they_cover)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_AVERAGE_POOL, .n_in = 1, .n_out = 1 };
	const float x[4] = { 1, 2, 3, 4 };
	float y[9];

	rvl_attr_init(&d.attr);
	memcpy(d.attr.kernel, (int32_t[]) { 2, 2 }, 8);
	memcpy(d.attr.pad, (int32_t[]) { 1, 1, 1, 1 }, 16);
	d.in[0] = ARG(F32, 1, 1, 2, 2);
	d.out[0] = ARG(F32, 1, 1, 3, 3);
	for (int pad = 0; pad < 2; pad++) {
		d.attr.count_include_pad = pad;
		run_kernel(&d, false, (const void *[]) { x }, (void *[]) { y }, NULL);
		ck_assert_float_eq(y[0], pad ? 0.25f : 1);
		ck_assert_float_eq(y[1], pad ? 0.75f : 1.5f);
		ck_assert_float_eq(y[4], 2.5f);
	}
}
END_TEST

/* Rows of more windows than are summed side by side, with borders, at any stride and dilation. */
START_TEST(long_rows_are_averaged)
{
	enum { H = 3, W = 1500 };
	struct rvl_kernel_desc d = { .op = RVL_OP_AVERAGE_POOL, .n_in = 1, .n_out = 1 };
	int stride = 1 + _i % 3, step = 1 + _i / 3, out = (W + 4 - 2 * step - 1) / stride + 1;
	static float x[H * W], y[H * (W + 4)];
	const void *in[1] = { x };

	for (int i = 0; i < H * W; i++)
		x[i] = (float)(i * 37 % 101);
	rvl_attr_init(&d.attr);
	memcpy(d.attr.kernel, (int32_t[]) { 3, 3 }, 8);
	memcpy(d.attr.stride, (int32_t[]) { 1, stride }, 8);
	memcpy(d.attr.dilation, (int32_t[]) { 1, step }, 8);
	memcpy(d.attr.pad, (int32_t[]) { 1, 2, 1, 2 }, 16);
	d.in[0] = ARG(F32, 1, 1, H, W);
	d.out[0] = ARG(F32, 1, 1, H, out);
	run_kernel(&d, false, in, (void *[]) { y }, NULL);
	for (int i = 0; i < H * out; i++) {
		float sum = 0;
		int n = 0;

		for (int k = 0; k < 9; k++) {
			int iy = i / out - 1 + k / 3, ix = i % out * stride - 2 + k % 3 * step;

			if (iy < 0 || iy >= H || ix < 0 || ix >= W)
				continue;
			sum += x[iy * W + ix];
			n++;
		}
		ck_assert_float_eq(y[i], sum / (float)n);
	}
}
END_TEST

/* Small planes, also with one more window on each axis, as ceil_mode adds. */
START_TEST(means_equal_the_reference)
{
	for (int i = 0; i < random_cases(400); i++) {
		struct rvl_kernel_desc d = { .op = RVL_OP_AVERAGE_POOL, .n_in = 1, .n_out = 1 };
		int64_t side[2] = { 1 + rnd(20), 1 + rnd(20) }, out[2];
		static float x[3 * 400], y[3 * 700], expected[3 * 700];

		rvl_attr_init(&d.attr);
		random_window(&d.attr, true, side[0], side[1], &out[0], &out[1]);
		for (int a = 0; a < 2; a++) {
			int64_t at = out[a] * d.attr.stride[a], n = side[a] + d.attr.pad[a];
			int64_t past = at + d.attr.dilation[a] * (d.attr.kernel[a] - 1) + 1;

			out[a] += at < n && past < n + d.attr.pad[a + 2] + d.attr.stride[a];
		}
		d.attr.count_include_pad = i % 2;
		fill_floats(x, 3 * 400);
		d.in[0] = ARG(F32, 1, 3, side[0], side[1]);
		d.out[0] = ARG(F32, 1, 3, out[0], out[1]);
		run_kernel(&d, true, (const void *[]) { x }, (void *[]) { expected }, NULL);
		run_kernel(&d, false, (const void *[]) { x }, (void *[]) { y }, i % 3 ? &pool : NULL);
		ck_assert_mem_eq(y, expected, (size_t)(3 * out[0] * out[1]) * sizeof(*y));
	}
}
END_TEST

START_TEST(global_pools)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_Q_GLOBAL_AVERAGE_POOL, .n_in = 1, .n_out = 1 };
	const float s = 0.5f;
	const int32_t xz = 10, yz = 3;
	const uint8_t x[6] = { 10, 11, 14, 0, 10, 20 };
	const float fx[6] = { 1, 2, 6, -1, -2, -9 };
	uint8_t y[2];
	float fy[2];
	const void *in[1] = { x };

	rvl_attr_init(&d.attr);
	d.in[0] = ARG(U8, 1, 2, 1, 3);
	d.out[0] = ARG(U8, 1, 2, 1, 1);
	d.in[0].quant = (struct rvl_kernel_quant) { 1, 0, &s, &xz };
	d.out[0].quant = (struct rvl_kernel_quant) { 1, 0, &s, &yz };
	run_kernel(&d, false, in, (void *[]) { y }, NULL);
	ck_assert_uint_eq(y[0], 5);	/* 5/3 = 1.67 -> 2, + 3 */
	ck_assert_uint_eq(y[1], 3);
	d.op = RVL_OP_GLOBAL_MAX_POOL;
	run_kernel(&d, false, in, (void *[]) { y }, NULL);
	ck_assert_uint_eq(y[0], 14);
	d.in[0] = ARG(F32, 1, 2, 1, 3);
	d.out[0] = ARG(F32, 1, 2, 1, 1);
	in[0] = fx;
	run_kernel(&d, false, in, (void *[]) { fy }, NULL);
	ck_assert_float_eq(fy[1], -1);
	d.op = RVL_OP_GLOBAL_AVERAGE_POOL;
	run_kernel(&d, false, in, (void *[]) { fy }, NULL);
	ck_assert_float_eq(fy[0], 3);
	ck_assert_float_eq(fy[1], -4);
}
END_TEST

/* ---- float ---- */

static void close_to(const float *a, const float *b, size_t n, int i)
{
	for (size_t k = 0; k < n; k++)
		ck_assert_msg(fabsf(a[k] - b[k]) <= 1e-4f * (1 + fabsf(b[k])),
			      "case %d: %g, not %g", i, (double)a[k], (double)b[k]);
}

START_TEST(float_convolutions_agree)
{
	for (int i = 0; i < 200; i++) {
		int64_t group = 1 + rnd(3), cg = 1 + rnd(4), mg = 1 + rnd(4);
		int64_t h = 1 + rnd(9), w = 1 + rnd(9), oh, ow;
		struct rvl_kernel_desc d = { .op = RVL_OP_CONV, .n_in = 2 + rnd(2), .n_out = 1 };
		float *x, *wt, b[16], *fast, *ref;
		const void *in[3];

		rvl_attr_init(&d.attr);
		d.attr.group = (int32_t)group;
		random_window(&d.attr, false, h, w, &oh, &ow);
		if (rnd(2))
			d.attr.f_lo = 0;
		d.in[0] = ARG(F32, 1, group * cg, h, w);
		d.in[1] = ARG(F32, group * mg, cg, d.attr.kernel[0], d.attr.kernel[1]);
		d.in[2] = ARG(F32, group * mg);
		d.out[0] = ARG(F32, 1, group * mg, oh, ow);
		x = malloc(bytes_of(&d.in[0]));
		wt = malloc(bytes_of(&d.in[1]));
		fast = malloc(bytes_of(&d.out[0]));
		ref = malloc(bytes_of(&d.out[0]));
		fill_floats(x, bytes_of(&d.in[0]) / 4);
		fill_floats(wt, bytes_of(&d.in[1]) / 4);
		fill_floats(b, 16);
		memcpy(in, (const void *[]) { x, wt, b }, sizeof(in));
		run_kernel(&d, false, in, (void *[]) { fast }, &pool);
		run_kernel(&d, true, in, (void *[]) { ref }, NULL);
		close_to(fast, ref, bytes_of(&d.out[0]) / 4, i);
		free(x);
		free(wt);
		free(fast);
		free(ref);
	}
}
END_TEST

START_TEST(float_products_agree)
{
	for (int i = 0; i < 200; i++) {
		int64_t m = 1 + rnd(6), n = 1 + rnd(9), k = 1 + rnd(20);
		struct rvl_kernel_desc d = { .op = RVL_OP_GEMM, .n_in = 2 + rnd(2), .n_out = 1 };
		float a[6 * 20], b[20 * 9], c[9], fast[54], ref[54];
		const void *in[3] = { a, b, c };

		rvl_attr_init(&d.attr);
		d.attr.trans_a = (int32_t)rnd(2);
		d.attr.trans_b = (int32_t)rnd(2);
		d.attr.alpha = 0.5f;
		d.attr.beta = 2;
		d.in[0] = d.attr.trans_a ? ARG(F32, k, m) : ARG(F32, m, k);
		d.in[1] = d.attr.trans_b ? ARG(F32, n, k) : ARG(F32, k, n);
		d.in[2] = ARG(F32, n);
		d.out[0] = ARG(F32, m, n);
		fill_floats(a, 120);
		fill_floats(b, 180);
		fill_floats(c, 9);
		run_kernel(&d, false, in, (void *[]) { fast }, &pool);
		run_kernel(&d, true, in, (void *[]) { ref }, NULL);
		close_to(fast, ref, (size_t)(m * n), i);
	}
}
END_TEST

START_TEST(matmul_broadcasts_batches)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_MATMUL, .n_in = 2, .n_out = 1 };
	const float a[4] = { 1, 2, 3, 4 }, b[6] = { 1, 0, 0, 1, 5, 6 };
	float y[8];
	const void *in[2] = { a, b };

	rvl_attr_init(&d.attr);
	d.in[0] = ARG(F32, 2, 1, 2);
	d.in[1] = ARG(F32, 2, 2);
	d.out[0] = ARG(F32, 2, 1, 2);
	run_kernel(&d, false, in, (void *[]) { y }, NULL);
	ck_assert_int_eq(memcmp(y, a, sizeof(a)), 0);
	/* a vector on the left and on the right */
	d.in[0] = ARG(F32, 2);
	d.out[0] = ARG(F32, 2);
	run_kernel(&d, false, in, (void *[]) { y }, NULL);
	ck_assert_float_eq(y[1], 2);
	d.in[0] = ARG(F32, 2, 2);
	d.in[1] = ARG(F32, 2);
	run_kernel(&d, false, (const void *[]) { a, b + 4 }, (void *[]) { y }, NULL);
	ck_assert_float_eq(y[0], 17);
	ck_assert_float_eq(y[1], 39);
}
END_TEST

/* Proves that a kernel for fixed shapes names the input whose shape differs, and says nothing otherwise. */
START_TEST(a_shape_of_another_compilation_is_named)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_MATMUL, .n_in = 2, .n_out = 1 };
	float a[4] = { 1, 2, 3, 4 }, y[4];
	struct rvl_value in[2], out[1];
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;
	void *scratch;

	rvl_attr_init(&d.attr);
	d.in[0] = d.in[1] = d.out[0] = ARG(F32, 2, 2);
	ck_assert_msg(!rvl_kernel_new(&d, false, &k, why), "%s", why);
	scratch = aligned_alloc(64, (rvl_kernel_scratch(k) + 63) / 64 * 64 + 64);
	in[0] = in[1] = (struct rvl_value) { .type = RVL_TYPE_F32, .shape = d.in[0].shape, .data = a };
	out[0] = (struct rvl_value) { .type = RVL_TYPE_F32, .shape = d.out[0].shape, .data = y };
	ck_assert_int_eq(rvl_kernel_run_values(k, in, out, scratch, NULL, why), 0);
	ck_assert_str_eq(why, "");
	in[1].shape = ARG(F32, 4).shape;
	ck_assert_int_eq(rvl_kernel_run_values(k, in, out, scratch, NULL, why), -EINVAL);
	ck_assert_str_eq(why, "input 1 has another shape than when it was compiled");
	rvl_kernel_free(k);
	free(scratch);
}
END_TEST

START_TEST(softmax_survives_large_numbers)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_SOFTMAX, .n_in = 1, .n_out = 1 };
	const float x[4] = { 10000, 10001, -10000, 10001 };
	float y[4];
	const void *in[1] = { x };

	rvl_attr_init(&d.attr);
	d.in[0] = d.out[0] = ARG(F32, 2, 2);
	d.attr.axis = 1;
	run_kernel(&d, false, in, (void *[]) { y }, NULL);
	ck_assert_float_eq_tol(y[0], 0.26894143f, 1e-6f);
	ck_assert_float_eq_tol(y[2], 0, 1e-6f);
	d.attr.axis = 0;
	run_kernel(&d, false, in, (void *[]) { y }, NULL);
	ck_assert_float_eq_tol(y[0], 1, 1e-6f);
	ck_assert_float_eq_tol(y[1], 0.5f, 1e-6f);
	d.attr.flat_softmax = 1;
	run_kernel(&d, false, in, (void *[]) { y }, NULL);
	ck_assert_float_eq_tol(y[0] + y[1] + y[2] + y[3], 1, 1e-6f);
}
END_TEST

/* ---- quantisation ---- */

START_TEST(quantisation_rounds_ties_to_even_and_saturates)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_QUANTIZE, .n_in = 3, .n_out = 1 };
	const float x[8] = { 1, 3, 5, -1, 1e30f, -1e30f, NAN, -0.0f }, s = 2;
	const uint8_t zp = 1, want[8] = { 1, 3, 3, 1, 255, 0, 0, 1 };
	uint8_t y[8];
	const void *in[3] = { x, &s, &zp };

	rvl_attr_init(&d.attr);
	d.in[0] = ARG(F32, 8);
	d.in[1] = arg(RVL_TYPE_F32, 0, NULL);
	d.in[2] = arg(RVL_TYPE_U8, 0, NULL);
	d.out[0] = ARG(U8, 8);
	run_kernel(&d, false, in, (void *[]) { y }, NULL);
	ck_assert_int_eq(memcmp(y, want, 8), 0);
}
END_TEST

START_TEST(rescaling_is_quantising_what_was_dequantised)
{
	for (int i = 0; i < 50; i++) {
		struct rvl_kernel_desc d = { .op = RVL_OP_Q_RESCALE, .n_in = 1, .n_out = 1 };
		struct rvl_kernel_desc dq = { .op = RVL_OP_DEQUANTIZE, .n_in = 3, .n_out = 1 };
		struct rvl_kernel_desc q = { .op = RVL_OP_QUANTIZE, .n_in = 3, .n_out = 1 };
		static struct param px, py;
		uint8_t x[256], y[256], z[256], zp[2];
		float f[256];

		for (int k = 0; k < 256; k++)
			x[k] = (uint8_t)k;
		rvl_attr_init(&d.attr);
		rvl_attr_init(&dq.attr);
		rvl_attr_init(&q.attr);
		d.in[0] = with_quant(ARG(U8, 256), &px, 1, 0);
		d.out[0] = with_quant(ARG(S8, 256), &py, 1, 0);
		dq.in[0] = ARG(U8, 256);
		dq.in[1] = q.in[1] = ARG(F32, 1);
		dq.in[2] = ARG(U8, 1);
		dq.out[0] = q.in[0] = ARG(F32, 256);
		q.in[2] = ARG(S8, 1);
		q.out[0] = ARG(S8, 256);
		zp[0] = (uint8_t)px.zp[0];
		zp[1] = (uint8_t)py.zp[0];
		run_kernel(&d, false, (const void *[]) { x }, (void *[]) { y }, NULL);
		run_kernel(&dq, false, (const void *[]) { x, px.scale, zp }, (void *[]) { f },
			   NULL);
		run_kernel(&q, false, (const void *[]) { f, py.scale, zp + 1 }, (void *[]) { z },
			   NULL);
		ck_assert_int_eq(memcmp(y, z, 256), 0);
	}
}
END_TEST

/* ---- moving data ---- */

START_TEST(transposing_back_and_forth_changes_nothing)
{
	static const enum rvl_type types[] = { RVL_TYPE_U8, RVL_TYPE_F32, RVL_TYPE_S64 };

	for (int i = 0; i < 60; i++) {
		enum rvl_type t = types[i % 3];
		struct rvl_kernel_desc d = { .op = RVL_OP_TRANSPOSE, .n_in = 1, .n_out = 1 }, back;
		int64_t dim[4] = { 1 + rnd(4), 1 + rnd(4), 1 + rnd(4), 1 + rnd(4) };
		uint8_t x[256 * 8], y[256 * 8], z[256 * 8];

		fill_bytes(x, sizeof(x));
		rvl_attr_init(&d.attr);
		d.attr.perm_rank = 4;
		for (int k = 0; k < 4; k++)
			d.attr.perm[k] = k;
		for (int k = 3; k > 0; k--) {
			int j = (int)rnd((uint32_t)k + 1), p = d.attr.perm[k];

			d.attr.perm[k] = d.attr.perm[j];
			d.attr.perm[j] = p;
		}
		d.in[0] = arg(t, 4, dim);
		d.out[0] = d.in[0];
		for (int k = 0; k < 4; k++)
			d.out[0].shape.dim[k] = dim[d.attr.perm[k]];
		back = d;
		back.in[0] = d.out[0];
		back.out[0] = d.in[0];
		for (int k = 0; k < 4; k++)
			back.attr.perm[d.attr.perm[k]] = k;
		run_kernel(&d, false, (const void *[]) { x }, (void *[]) { y }, NULL);
		run_kernel(&back, false, (const void *[]) { y }, (void *[]) { z }, NULL);
		ck_assert_int_eq(memcmp(x, z, bytes_of(&d.in[0])), 0);
	}
}
END_TEST

START_TEST(blocked_layout_and_back)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_PACK_BLOCKED, .n_in = 1, .n_out = 1 };
	static struct param p;
	uint8_t x[5 * 6], packed[8 * 6], y[5 * 6];

	fill_bytes(x, sizeof(x));
	rvl_attr_init(&d.attr);
	d.attr.block = 4;
	d.in[0] = with_quant(ARG(U8, 1, 5, 2, 3), &p, 1, 0);
	d.out[0] = ARG(S8, 1, 2, 2, 3, 4);
	run_kernel(&d, false, (const void *[]) { x }, (void *[]) { packed }, NULL);
	ck_assert_uint_eq(packed[1], x[6] ^ 0x80);		/* channel 1 of pixel 0 */
	ck_assert_uint_eq(packed[4], x[1] ^ 0x80);		/* channel 0 of pixel 1 */
	ck_assert_uint_eq(packed[24], x[24] ^ 0x80);		/* channel 4 */
	ck_assert_uint_eq(packed[25], (uint8_t)p.zp[0] ^ 0x80);	/* padding */
	d.op = RVL_OP_UNPACK_BLOCKED;
	d.out[0] = d.in[0];
	d.in[0] = ARG(S8, 1, 2, 2, 3, 4);
	run_kernel(&d, false, (const void *[]) { packed }, (void *[]) { y }, NULL);
	ck_assert_int_eq(memcmp(x, y, sizeof(x)), 0);
}
END_TEST

/* ---- descriptors ---- */

START_TEST(descriptors_survive_their_bytes)
{
	for (int i = 0; i < 50; i++) {
		struct conv_case c;
		struct rvl_kernel_desc d;
		uint8_t *a, *b;
		const void *in[3];
		int64_t size, n;
		void *buf;

		random_conv(&c);
		size = rvl_desc_pack(&c.d, NULL, 0);
		ck_assert_int_gt(size, 0);
		buf = malloc((size_t)size);
		ck_assert_int_eq(rvl_desc_pack(&c.d, buf, (size_t)size), size);
		ck_assert_int_eq(rvl_desc_unpack(buf, (size_t)size, &d), 0);
		ck_assert_ptr_null(d.in[1].data);
		d.in[1].data = c.w;
		d.in[2].data = d.n_in > 2 ? c.b : NULL;
		n = (int64_t)bytes_of(&c.d.out[0]);
		a = malloc((size_t)n);
		b = malloc((size_t)n);
		memcpy(in, (const void *[]) { c.x, c.w, c.b }, sizeof(in));
		run_kernel(&c.d, false, in, (void *[]) { a }, NULL);
		run_kernel(&d, false, in, (void *[]) { b }, NULL);
		ck_assert_int_eq(memcmp(a, b, (size_t)n), 0);
		free(a);
		free(b);
		free(buf);
		free_conv(&c);
	}
}
END_TEST

START_TEST(damaged_descriptors_are_refused_or_harmless)
{
	struct conv_case c;
	int64_t size;
	uint32_t *buf, *copy;

	random_conv(&c);
	size = rvl_desc_pack(&c.d, NULL, 0);
	buf = malloc((size_t)size);
	rvl_desc_pack(&c.d, buf, (size_t)size);
	for (int64_t n = 0; n < size; n++) {
		struct rvl_kernel_desc d;

		copy = malloc((size_t)n + 1);
		memcpy(copy, buf, (size_t)n);
		ck_assert_int_eq(rvl_desc_unpack(copy, (size_t)n, &d), -EBADMSG);
		free(copy);
	}
	for (int i = 0; i < 20000; i++) {
		struct rvl_kernel_desc d;
		struct rvl_kernel *k;

		copy = malloc((size_t)size);
		memcpy(copy, buf, (size_t)size);
		((uint8_t *)copy)[rnd((uint32_t)size)] ^= (uint8_t)(1 + rnd(255));
		if (!rvl_desc_unpack(copy, (size_t)size, &d) && !rvl_kernel_new(&d, true, &k, NULL))
			rvl_kernel_free(k);
		free(copy);
	}
	free(buf);
	free_conv(&c);
}
END_TEST

START_TEST(operands_that_do_not_fit_are_named)
{
	struct conv_case c;
	struct rvl_kernel *k;
	char why[RVL_WHY_MAX] = "";

	random_conv(&c);
	c.d.out[0].shape.dim[1]++;
	ck_assert_int_eq(rvl_kernel_new(&c.d, false, &k, why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "weights do not fit"));
	c.d.out[0].shape.dim[1]--;
	c.d.out[0].shape.dim[2] += 100;
	ck_assert_int_eq(rvl_kernel_new(&c.d, false, &k, why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "larger"));
	c.d.out[0].shape.dim[2] -= 100;
	c.px.zp[0] = 300;
	ck_assert_int_eq(rvl_kernel_new(&c.d, false, &k, why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "zero point 300"));
	c.px.zp[0] = 0;
	c.py.scale[0] = 0;
	ck_assert_int_eq(rvl_kernel_new(&c.d, false, &k, why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "scale"));
	c.py.scale[0] = 1;
	c.d.in[0].quant.n = 0;
	ck_assert_int_eq(rvl_kernel_new(&c.d, false, &k, why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "not quantised"));
	c.d.op = RVL_OP_UNSUPPORTED;
	ck_assert_int_eq(rvl_kernel_new(&c.d, false, &k, why), -EOPNOTSUPP);
	free_conv(&c);
}
END_TEST

static void add_tests(Suite *s)
{
	TCase *q = tcase_create("quantised"), *f = tcase_create("float"), *d = tcase_create("rest");

	tcase_set_timeout(q, 240);
	tcase_add_test(q, fast_convolutions_equal_the_reference);
	tcase_add_test(q, qlinear_conv_equals_qconv);
	tcase_add_test(q, qlinear_forms_equal_the_quantised_operators);
	tcase_add_test(q, scales_computed_at_run_time_are_checked_then);
	tcase_add_test(q, recorded_convolutions_equal_onnxruntime);
	tcase_add_test(q, fast_matrix_products_equal_the_reference);
	tcase_add_test(q, additions_follow_onnxruntime);
	tcase_add_test(q, multiplications_add_the_zero_point_before_rounding);
	tcase_add_test(q, max_pools_of_every_type_agree);
	tcase_add_test(q, global_pools);
	tcase_add_test(q, quantisation_rounds_ties_to_even_and_saturates);
	tcase_add_test(q, rescaling_is_quantising_what_was_dequantised);
	tcase_add_test(f, integers_wrap_and_clip);
	tcase_add_test(f, average_pools_divide_by_what_they_cover);
	tcase_add_loop_test(f, long_rows_are_averaged, 0, 6);
	tcase_add_test(f, means_equal_the_reference);
	tcase_add_test(f, float_convolutions_agree);
	tcase_add_test(f, float_products_agree);
	tcase_add_test(f, matmul_broadcasts_batches);
	tcase_add_test(f, a_shape_of_another_compilation_is_named);
	tcase_add_test(f, softmax_survives_large_numbers);
	tcase_add_test(d, transposing_back_and_forth_changes_nothing);
	tcase_add_test(d, blocked_layout_and_back);
	tcase_add_test(d, descriptors_survive_their_bytes);
	tcase_add_test(d, damaged_descriptors_are_refused_or_harmless);
	tcase_add_test(d, operands_that_do_not_fit_are_named);
	suite_add_tcase(s, q);
	suite_add_tcase(s, f);
	suite_add_tcase(s, d);
}

int main(void)
{
	Suite *s = suite_create("kernels");

	add_tests(s);
	return run_suite(s);
}

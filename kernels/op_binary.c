/* SPDX-License-Identifier: MIT */
/* Add and Mul with broadcasting: plain, and quantised with a scale for each operand. */
#include <string.h>

#include "internal.h"
#include "isa.h"
#include "qmath.h"
#include "ref.h"
#include "rows.h"

struct span_ctx {
	const struct rvl_kernel *k;
	const void *a, *b;
	void *y;
};

/*
 * One span of a plain operation; the unsigned casts make integers wrap instead of overflow. Spans of
 * dense elements, with one value or as many, have loops of their own, which compilers vectorise.
 */
#define SPAN(name, type, result) \
static inline void name##_by(const struct rvl_kernel *k, int64_t n, const type *a, int64_t ia, \
			     const type *b, int64_t ib, type *y, int64_t iy) \
{ \
	bool mul = k->d.op == RVL_OP_MUL; \
	float lo = k->d.attr.f_lo, hi = k->d.attr.f_hi; \
	(void)lo; \
	(void)hi; \
	for (int64_t i = 0; i < n; i++) { \
		type va = a[i * ia], vb = b[i * ib]; \
		y[i * iy] = (type)(result); \
	} \
} \
static void name(const struct rvl_kernel *k, int64_t n, const type *a, const type *b, type *y) \
{ \
	const struct rvl_bcast *bc = &k->bc; \
	if (bc->ia == 1 && bc->ib == 1 && bc->iy == 1) \
		name##_by(k, n, a, 1, b, 1, y, 1); \
	else if (bc->ia == 1 && bc->ib == 0 && bc->iy == 1) \
		name##_by(k, n, a, 1, b, 0, y, 1); \
	else if (bc->ia == 0 && bc->ib == 1 && bc->iy == 1) \
		name##_by(k, n, a, 0, b, 1, y, 1); \
	else \
		name##_by(k, n, a, bc->ia, b, bc->ib, y, bc->iy); \
}

#define WRAP(wide) (mul ? (wide)va * (wide)vb : (wide)va + (wide)vb)

static inline float clamped(float v, float lo, float hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

SPAN(span_u8, uint8_t, WRAP(uint32_t))
SPAN(span_s8, int8_t, WRAP(uint32_t))
SPAN(span_s32, int32_t, WRAP(uint32_t))
SPAN(span_s64, int64_t, WRAP(uint64_t))
SPAN(span_f32, float, clamped(mul ? va * vb : va + vb, lo, hi))

/* Dense elements, or one value and as many, by the instruction set. */
static void float_span(const struct rvl_kernel *k, int64_t n, const float *a, const float *b, float *y)
{
	const struct rvl_f32_math *f = rvl_f32_kernels()->math;
	const struct rvl_bcast *bc = &k->bc;
	struct rvl_f32_binary_call c = {
		.a = a, .b = b, .one_a = bc->ia == 0, .one_b = bc->ib == 0, .n = n, .y = y,
		.lo = k->d.attr.f_lo, .hi = k->d.attr.f_hi,
	};

	if (bc->iy != 1 || bc->ia < 0 || bc->ia > 1 || bc->ib < 0 || bc->ib > 1 || (c.one_a && c.one_b))
		span_f32(k, n, a, b, y);
	else
		(k->d.op == RVL_OP_MUL ? f->mul : f->add)(&c);
}

static void span(void *ctx, int64_t n, int64_t a, int64_t b, int64_t y)
{
	const struct span_ctx *s = ctx;

	switch (s->k->d.out[0].type) {
	case RVL_TYPE_F32:
		float_span(s->k, n, (const float *)s->a + a, (const float *)s->b + b, (float *)s->y + y);
		break;
	case RVL_TYPE_U8:
		span_u8(s->k, n, (const uint8_t *)s->a + a, (const uint8_t *)s->b + b,
			(uint8_t *)s->y + y);
		break;
	case RVL_TYPE_S8:
		span_s8(s->k, n, (const int8_t *)s->a + a, (const int8_t *)s->b + b,
			(int8_t *)s->y + y);
		break;
	case RVL_TYPE_S32:
		span_s32(s->k, n, (const int32_t *)s->a + a, (const int32_t *)s->b + b,
			 (int32_t *)s->y + y);
		break;
	default:
		span_s64(s->k, n, (const int64_t *)s->a + a, (const int64_t *)s->b + b,
			 (int64_t *)s->y + y);
		break;
	}
}

static int run_plain(const struct rvl_kernel *k, const void *const *in, void *const *out,
		     void *scratch, const struct rvl_pool *pool)
{
	struct span_ctx s = { .k = k, .a = in[0], .b = in[1], .y = out[0] };

	(void)scratch;
	rvl_bcast_run(&k->bc, pool, span, &s);
	return 0;
}

int rvl_setup_binary(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	enum rvl_type t = d->out[0].type;

	(void)reference;
	if (d->in[0].type != t || d->in[1].type != t)
		return rvl_why(why, "operands have different types");
	if (t == RVL_TYPE_BOOL)
		return rvl_why(why, "no arithmetic on bool");
	if (rvl_bcast_args(&k->bc, &d->in[0], &d->in[1], &d->out[0]))
		return rvl_why(why, "operands do not broadcast to the output");
	k->run = run_plain;
	return 0;
}

/* ---- quantised ---- */

struct qspan_ctx {
	const struct rvl_qbinary *p;
	const struct rvl_bcast *bc;
	const uint8_t *a, *b;
	uint8_t *y;
	rvl_i8_binary_fn *fn;
};

static void qspan(void *ctx, int64_t n, int64_t a, int64_t b, int64_t y)
{
	const struct qspan_ctx *s = ctx;

	s->fn(s->p, n, s->a + a, s->bc->ia, s->b + b, s->bc->ib, s->y + y);
}

static rvl_i8_binary_fn *qbinary_fn(bool mul, bool reference)
{
	const struct rvl_i8_convert *f = rvl_i8_kernels()->convert;

	if (reference)
		return mul ? rvl_ref_qmul : rvl_ref_qadd;
	return mul ? f->mul : f->add;
}

void rvl_qbinary_run(const struct rvl_qbinary *p, bool mul, bool reference,
		     const struct rvl_bcast *bc, const void *a, const void *b, void *y,
		     const struct rvl_pool *pool)
{
	struct qspan_ctx s = {
		.p = p, .bc = bc, .a = a, .b = b, .y = y, .fn = qbinary_fn(mul, reference),
	};

	rvl_bcast_run(bc, pool, qspan, &s);
}

/* Rows of dense operands of the same shape. */
static void quant_rows(const struct rvl_kernel *k, const struct rvl_rows *r)
{
	const int64_t *dim = k->d.out[0].shape.dim;
	int64_t row = dim[1] * dim[3], at = r->first * row;
	struct qspan_ctx s = {
		.p = &k->qb, .bc = &k->bc, .a = r->in[k->swapped], .b = r->in[!k->swapped], .y = r->out,
		.fn = qbinary_fn(k->d.op == RVL_OP_Q_MUL, k->reference),
	};

	qspan(&s, r->past * row - at, at, at, at);
}

const struct rvl_row_kernel rvl_rows_qbinary = { .images = 2, .run = quant_rows };

/* Images in NHWC whose elements follow one another in one span. */
static bool has_rows(const struct rvl_kernel *k)
{
	const struct rvl_bcast *bc = &k->bc;

	return rvl_in_nhwc(&k->d) && bc->rank == 0 && bc->ia == 1 && bc->ib == 1 && bc->iy == 1;
}

static int run_quant(const struct rvl_kernel *k, const void *const *in, void *const *out,
		     void *scratch, const struct rvl_pool *pool)
{
	bool swap = k->swapped;

	(void)scratch;
	rvl_qbinary_run(&k->qb, k->d.op == RVL_OP_Q_MUL, k->reference, &k->bc, in[swap], in[!swap],
			out[0], pool);
	return 0;
}

static void binary_params(struct rvl_kernel *k, const struct rvl_kernel_arg *a,
			  const struct rvl_kernel_arg *b)
{
	const struct rvl_kernel_arg *y = &k->d.out[0];
	bool u8 = y->type == RVL_TYPE_U8;

	k->qb = (struct rvl_qbinary) {
		.a_u8 = a->type == RVL_TYPE_U8, .b_u8 = b->type == RVL_TYPE_U8, .y_u8 = u8,
		.sa = a->quant.scale[0], .sb = b->quant.scale[0], .sy = y->quant.scale[0],
		.az = a->quant.zp[0], .bz = b->quant.zp[0], .yz = y->quant.zp[0],
		.lo = rvl_clamp(k->d.attr.q_lo, rvl_qmin(u8), rvl_qmax(u8)),
		.hi = rvl_clamp(k->d.attr.q_hi, rvl_qmin(u8), rvl_qmax(u8)),
	};
}

/* The operand in the order of memory, with pitches only where its pixels are apart. */
static struct rvl_strided in_memory(const struct rvl_kernel_arg *a, bool nhwc)
{
	struct rvl_strided s = { .shape = rvl_memory_shape(&a->shape, nhwc) };
	struct rvl_pitch p;

	rvl_strides(&s.shape, s.stride);
	if (a->pitched) {
		p = rvl_pitch_of(a);
		memcpy(s.stride, (const int64_t[4]) { p.n, p.y, p.x, p.c }, 4 * sizeof(*s.stride));
	}
	return s;
}

/* Broadcasting in the order of memory, of operands that broadcast. */
static void broadcast(struct rvl_kernel *k, const struct rvl_kernel_arg *a,
		     const struct rvl_kernel_arg *b)
{
	bool nhwc = rvl_in_nhwc(&k->d);
	struct rvl_strided sa = in_memory(a, nhwc), sb = in_memory(b, nhwc);
	struct rvl_strided sy = in_memory(&k->d.out[0], nhwc);

	rvl_bcast_strided(&k->bc, &sa, &sb, &sy);
}

/*
 * A broadcast operand is always b (docs/numerics.md 2). Which one is broadcast follows from the order
 * of the dimensions in the model, whatever the layout is.
 */
int rvl_setup_qbinary(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_arg *a = &k->d.in[0], *b = &k->d.in[1];

	if (!rvl_is_bytes(a) || !rvl_is_bytes(b) || !rvl_is_bytes(&k->d.out[0]))
		return rvl_why(why, "operands are not quantised to 8 bits per tensor");
	if (rvl_bcast_init(&k->bc, &a->shape, &b->shape, &k->d.out[0].shape))
		return rvl_why(why, "operands do not broadcast to the output");
	if (!k->bc.ia && k->bc.ib && k->d.op == RVL_OP_Q_ADD) {
		const struct rvl_kernel_arg *t = a;

		a = b;
		b = t;
		k->swapped = true;
	}
	broadcast(k, a, b);
	k->reference = reference;
	binary_params(k, a, b);
	k->run = run_quant;
	k->rows = has_rows(k) ? &rvl_rows_qbinary : NULL;
	return 0;
}

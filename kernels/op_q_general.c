/* SPDX-License-Identifier: MIT */
/*
 * QGeneral: an operator of the table of descriptors between bytes. The kernel dequantises the
 * operands that are bytes, runs the operator on floats, and quantises the result, so that only bytes
 * lie between the steps of a program. Its bits are those of DequantizeLinear, the operator and
 * QuantizeLinear.
 */
#include <string.h>

#include "internal.h"
#include "isa.h"
#include "qmath.h"

#define GRAIN 4096

/* Bytes of workspace for @a as floats; the next piece stays aligned for vectors. */
static int64_t float_bytes(const struct rvl_kernel_arg *a)
{
	return (rvl_shape_count(&a->shape) * (int64_t)sizeof(float) + 63) / 64 * 64;
}

/* Bytes of workspace for a dense copy of @a, which the conversions need; 0: it is dense. */
static int64_t dense_bytes(const struct rvl_kernel_arg *a)
{
	return a->pitched ? (rvl_shape_count(&a->shape) + 63) / 64 * 64 : 0;
}

/* Copies between the elements of @a, as they lie, and dense ones. */
static void copy_dense(const struct rvl_kernel_arg *a, const void *x, void *y, bool to_dense,
		       const struct rvl_pool *pool)
{
	struct rvl_copy c = { .x = x, .y = y, .size = 1 };
	int64_t own[RVL_MAX_RANK], dense[RVL_MAX_RANK];

	rvl_arg_strides(a, own);
	rvl_strides(&a->shape, dense);
	for (int d = 0; d < a->shape.rank; d++)
		rvl_copy_dim(&c, a->shape.dim[d], to_dense ? own[d] : dense[d],
			     to_dense ? dense[d] : own[d]);
	rvl_copy_run(&c, pool);
}

/* The operator on floats, as a kernel of RVL_OP_GENERAL. */
static int make_inner(struct rvl_kernel *k, bool reference, char *why)
{
	struct rvl_kernel_desc d = k->d;
	int rc;

	d.op = RVL_OP_GENERAL;
	for (uint32_t i = 0; i < d.n_in; i++) {
		if (rvl_is_bytes(&d.in[i])) {
			d.in[i].type = RVL_TYPE_F32;
			d.in[i].data = NULL;	/* a constant has its bytes, not floats */
			d.in[i].pitched = false;
		}
		d.in[i].quant = (struct rvl_kernel_quant) { .n = 0 };
	}
	d.out[0].type = RVL_TYPE_F32;
	d.out[0].pitched = false;
	d.out[0].quant = (struct rvl_kernel_quant) { .n = 0 };
	rc = rvl_kernel_new(&d, reference, &k->inner, why);
	return !rc && k->inner->moving ? rvl_why(why, "the shape of its result is known at run time only") : rc;
}

struct to_floats {
	const struct rvl_kernel_arg *a;
	const uint8_t *x;
	float *y;
	int64_t n;
};

static void to_floats(void *arg, uint32_t i)
{
	const struct to_floats *t = arg;
	const struct rvl_i8_convert *f = rvl_i8_kernels()->convert;
	int64_t first = (int64_t)i * GRAIN, n = t->n - first > GRAIN ? GRAIN : t->n - first;

	(t->a->type == RVL_TYPE_U8 ? f->dequantize_u8 : f->dequantize_s8)
		(t->x + first, n, t->a->quant.scale[0], t->a->quant.zp[0], t->y + first);
}

struct to_bytes {
	const struct rvl_kernel *k;
	const float *x;
	uint8_t *y;
	int64_t n;
};

static void to_bytes(void *arg, uint32_t i)
{
	const struct to_bytes *t = arg;
	const struct rvl_kernel_quant *q = &t->k->d.out[0].quant;
	const struct rvl_i8_quantize to = { .scale = q->scale[0], .zp = q->zp[0], .lo = t->k->q.lo,
					    .hi = t->k->q.hi };
	int64_t first = (int64_t)i * GRAIN, n = t->n - first > GRAIN ? GRAIN : t->n - first;

	rvl_i8_kernels()->convert->quantize(&to, t->x + first, n, t->y + first);
}

static uint32_t pieces(int64_t n)
{
	return (uint32_t)((n + GRAIN - 1) / GRAIN);
}

/* Operand @i as floats at *at, which moves behind them and behind its dense bytes. */
static void take_floats(const struct rvl_kernel *k, uint32_t i, const void *x, char **at,
			const struct rvl_pool *pool)
{
	const struct rvl_kernel_arg *a = &k->d.in[i];
	struct to_floats t = { .a = a, .x = x, .y = (float *)(void *)*at,
			       .n = rvl_shape_count(&a->shape) };

	*at += float_bytes(a);
	if (a->pitched) {
		copy_dense(a, x, *at, true, pool);
		t.x = (const uint8_t *)*at;
		*at += dense_bytes(a);
	}
	rvl_parallel(pool, pieces(t.n), to_floats, &t);
}

/* Behind the workspace of the operator lie its operands as floats, then its result. */
static int run_q_general(const struct rvl_kernel *k, const void *const *in, void *const *out,
			 void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_kernel_arg *y = &k->d.out[0];
	char *at = (char *)scratch + (k->inner->scratch + 63) / 64 * 64;
	const void *src[RVL_MAX_IN];
	struct to_bytes b = { .k = k, .n = rvl_shape_count(&y->shape) };
	void *dst[1];
	int rc;

	for (uint32_t i = 0; i < k->d.n_in; i++) {
		src[i] = in[i];
		if (!rvl_is_bytes(&k->d.in[i]))
			continue;
		src[i] = at;
		take_floats(k, i, in[i], &at, pool);
	}
	dst[0] = at;
	rc = rvl_kernel_run(k->inner, src, dst, scratch, pool);
	if (rc)
		return rc;
	b.x = (const float *)(const void *)at;
	b.y = y->pitched ? (uint8_t *)at + float_bytes(y) : out[0];
	rvl_parallel(pool, pieces(b.n), to_bytes, &b);
	if (y->pitched)
		copy_dense(y, b.y, out[0], false, pool);
	return 0;
}

static int set_scratch(struct rvl_kernel *k, char *why)
{
	const struct rvl_kernel_arg *y = &k->d.out[0];
	int64_t bytes = (int64_t)(k->inner->scratch + 63) / 64 * 64 + float_bytes(y) + dense_bytes(y);

	for (uint32_t i = 0; i < k->d.n_in; i++)
		if (rvl_is_bytes(&k->d.in[i]))
			bytes += float_bytes(&k->d.in[i]) + dense_bytes(&k->d.in[i]);
	if (bytes > RVL_MAX_SCRATCH)
		return rvl_why(why, "it needs %lld MiB of workspace, at most %lld MiB are allowed",
			       (long long)(bytes >> 20), (long long)(RVL_MAX_SCRATCH >> 20));
	k->scratch = (size_t)bytes;
	return 0;
}

int rvl_setup_q_general(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_arg *y = &k->d.out[0];
	bool u8 = y->type == RVL_TYPE_U8;
	int rc;

	if (!k->d.def)
		return rvl_why(why, "it has no descriptor");
	if (!rvl_is_bytes(y))
		return rvl_why(why, "its result is not quantised to 8 bits per tensor");
	for (uint32_t i = 0; i < k->d.n_in; i++)
		if (k->d.in[i].quant.n > 1)
			return rvl_why(why, "its input %u has scales for each channel", i);
	k->q.lo = rvl_clamp(k->d.attr.q_lo, rvl_qmin(u8), rvl_qmax(u8));
	k->q.hi = rvl_clamp(k->d.attr.q_hi, rvl_qmin(u8), rvl_qmax(u8));
	rc = make_inner(k, reference, why);
	if (!rc)
		rc = set_scratch(k, why);
	k->run = run_q_general;
	return rc;
}

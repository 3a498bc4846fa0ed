/* SPDX-License-Identifier: MIT */
/*
 * The QLinear operators as ONNX has them: scales and zero points are inputs, known only at run
 * time. They run on the references; where the parameters are constant the compiler turns them into
 * the Q_* operators instead.
 */
#include <string.h>

#include "internal.h"
#include "pool.h"
#include "qmath.h"
#include "ref.h"

static bool present(const struct rvl_kernel *k, uint32_t i)
{
	return i < k->d.n_in && k->d.in[i].type != RVL_TYPE_NONE;
}

static bool is_u8(const struct rvl_kernel *k, uint32_t i)
{
	return k->d.in[i].type == RVL_TYPE_U8;
}

static int64_t count(const struct rvl_kernel *k, uint32_t i)
{
	return rvl_shape_count(&k->d.in[i].shape);
}

static float scale_at(const void *const *in, uint32_t i, int64_t c)
{
	return ((const float *)in[i])[c];
}

static int32_t zp_at(const struct rvl_kernel *k, const void *const *in, uint32_t i, int64_t c)
{
	return present(k, i) ? rvl_ld8(in[i], c, is_u8(k, i)) : 0;
}

static bool bad_scales(const struct rvl_kernel *k, const void *const *in, uint32_t i)
{
	for (int64_t c = 0; c < count(k, i); c++)
		if (!isfinite(scale_at(in, i, c)) || scale_at(in, i, c) == 0.0f)
			return true;
	return false;
}

/* Position of x, x_scale, x_zp, w, w_scale, w_zp, y_scale, y_zp, bias among the inputs. */
struct layout {
	uint32_t x, xs, xz, w, ws, wz, ys, yz, b;
};

static const struct layout conv_layout = { 0, 1, 2, 3, 4, 5, 6, 7, 8 };
static const struct layout gemm_layout = { 0, 1, 2, 3, 4, 5, 7, 8, 6 };

/* Fills the per-channel arrays, which live in the scratch, from this run's operands. */
static int channel_arrays(const struct rvl_kernel *k, const struct layout *l,
			  const void *const *in, int64_t channels, void *scratch,
			  struct rvl_qparams *q)
{
	float *scale = scratch;
	int32_t *wz = (int32_t *)(scale + channels);
	float xs = k->d.attr.alpha * scale_at(in, l->xs, 0);

	if (bad_scales(k, in, l->xs) || bad_scales(k, in, l->ws) || bad_scales(k, in, l->ys))
		return -EINVAL;
	for (int64_t c = 0; c < channels; c++) {
		scale[c] = rvl_requant_scale(xs, scale_at(in, l->ws, count(k, l->ws) > 1 ? c : 0),
					     scale_at(in, l->ys, 0));
		wz[c] = zp_at(k, in, l->wz, present(k, l->wz) && count(k, l->wz) > 1 ? c : 0);
	}
	*q = (struct rvl_qparams) {
		.x_u8 = is_u8(k, l->x), .w_u8 = is_u8(k, l->w),
		.y_u8 = k->d.out[0].type == RVL_TYPE_U8,
		.xz = zp_at(k, in, l->xz, 0), .yz = zp_at(k, in, l->yz, 0),
		.wz = wz, .scale = scale, .bias = present(k, l->b) ? in[l->b] : NULL,
	};
	q->lo = rvl_qmin(q->y_u8);
	q->hi = rvl_qmax(q->y_u8);
	return 0;
}

static int run_conv(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	struct rvl_qparams q;
	int rc = channel_arrays(k, &conv_layout, in, k->g.m, scratch, &q);

	(void)pool;
	if (!rc)
		rvl_ref_qconv(&k->g, &q, in[0], in[3], out[0]);
	return rc;
}

static int run_matmul(const struct rvl_kernel *k, const void *const *in, void *const *out,
		      void *scratch, const struct rvl_pool *pool)
{
	const struct layout *l = k->d.op == RVL_OP_QGEMM ? &gemm_layout : &conv_layout;
	int64_t batches = rvl_shape_count(&k->mm.batch);
	struct rvl_qparams q;
	int rc = channel_arrays(k, l, in, k->mm.n, scratch, &q);

	(void)pool;
	for (int64_t i = 0; i < batches && !rc; i++) {
		int64_t a, b;

		rvl_matmul_batch(&k->mm, i, &a, &b);
		rvl_ref_qmatmul(&k->mm, &q, (const uint8_t *)in[0] + a,
				(const uint8_t *)in[3] + b,
				(uint8_t *)out[0] + i * k->mm.m * k->mm.n);
	}
	return rc;
}

struct span_ctx {
	struct rvl_qbinary p;
	struct rvl_bcast bc;
	const uint8_t *a, *b;
	uint8_t *y;
	bool mul;
};

static void binary_span(void *ctx, int64_t a, int64_t b, int64_t y)
{
	const struct span_ctx *s = ctx;
	void (*fn)(const struct rvl_qbinary *, int64_t, const void *, int64_t, const void *,
		   int64_t, void *) = s->mul ? rvl_ref_qmul : rvl_ref_qadd;

	fn(&s->p, s->bc.span, s->a + a, s->bc.ia, s->b + b, s->bc.ib, s->y + y);
}

/* A broadcast operand is always b (docs/numerics.md 2). */
static void exchange(struct span_ctx *s)
{
	struct rvl_qbinary p = s->p;
	struct rvl_bcast old = s->bc;
	const uint8_t *a = s->a;

	s->p.a_u8 = p.b_u8;
	s->p.sa = p.sb;
	s->p.az = p.bz;
	s->p.b_u8 = p.a_u8;
	s->p.sb = p.sa;
	s->p.bz = p.az;
	s->a = s->b;
	s->b = a;
	memcpy(s->bc.sa, old.sb, sizeof(s->bc.sa));
	memcpy(s->bc.sb, old.sa, sizeof(s->bc.sb));
	s->bc.ia = old.ib;
	s->bc.ib = old.ia;
}

void rvl_ref_qbinary(const struct rvl_qbinary *p, bool mul, const struct rvl_bcast *bc,
		     const void *a, const void *b, void *y)
{
	struct span_ctx s = { .p = *p, .bc = *bc, .a = a, .b = b, .y = y, .mul = mul };

	if (!mul && !bc->ia && bc->ib)
		exchange(&s);
	rvl_bcast_walk(&s.bc, binary_span, &s);
}

static int run_binary(const struct rvl_kernel *k, const void *const *in, void *const *out,
		      void *scratch, const struct rvl_pool *pool)
{
	struct rvl_qbinary p = {
		.a_u8 = is_u8(k, 0), .b_u8 = is_u8(k, 3), .y_u8 = k->d.out[0].type == RVL_TYPE_U8,
		.sa = scale_at(in, 1, 0), .az = zp_at(k, in, 2, 0),
		.sb = scale_at(in, 4, 0), .bz = zp_at(k, in, 5, 0),
		.sy = scale_at(in, 6, 0), .yz = zp_at(k, in, 7, 0),
	};

	(void)scratch;
	(void)pool;
	if (bad_scales(k, in, 1) || bad_scales(k, in, 4) || bad_scales(k, in, 6))
		return -EINVAL;
	p.lo = rvl_qmin(p.y_u8);
	p.hi = rvl_qmax(p.y_u8);
	rvl_ref_qbinary(&p, k->d.op == RVL_OP_QLINEAR_MUL, &k->bc, in[0], in[3], out[0]);
	return 0;
}

static int run_mean(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	int64_t n = count(k, 0) / rvl_shape_count(&k->d.out[0].shape);
	bool y_u8 = k->d.out[0].type == RVL_TYPE_U8;
	float ys = scale_at(in, 3, 0);
	float scale = scale_at(in, 1, 0) / (ys * (float)n);
	uint8_t *y = out[0];

	(void)scratch;
	(void)pool;
	if (bad_scales(k, in, 1) || bad_scales(k, in, 3))
		return -EINVAL;
	for (int64_t i = 0; i < rvl_shape_count(&k->d.out[0].shape); i++)
		rvl_st8(y, i, rvl_ref_qmean((const uint8_t *)in[0] + i * n, n, is_u8(k, 0),
					    zp_at(k, in, 2, 0), scale, zp_at(k, in, 4, 0),
					    rvl_qmin(y_u8), rvl_qmax(y_u8)));
	return 0;
}

static int run_average(const struct rvl_kernel *k, const void *const *in, void *const *out,
		       void *scratch, const struct rvl_pool *pool)
{
	struct rvl_qaverage p = {
		.x_u8 = is_u8(k, 0), .y_u8 = k->d.out[0].type == RVL_TYPE_U8,
		.xs = scale_at(in, 1, 0), .xz = zp_at(k, in, 2, 0),
		.ys = scale_at(in, 3, 0), .yz = zp_at(k, in, 4, 0),
	};

	(void)scratch;
	(void)pool;
	if (bad_scales(k, in, 1) || bad_scales(k, in, 3))
		return -EINVAL;
	p.lo = rvl_qmin(p.y_u8);
	p.hi = rvl_qmax(p.y_u8);
	rvl_ref_qaverage_pool(&k->g, k->d.attr.pad, k->d.attr.count_include_pad, &p, in[0],
			      out[0]);
	return 0;
}

static bool byte_type(enum rvl_type t)
{
	return t == RVL_TYPE_U8 || t == RVL_TYPE_S8;
}

/* @mask_f: inputs that must be one float; weights' scales are checked apart. */
static int check_types(struct rvl_kernel *k, const char *kinds, char *why)
{
	for (uint32_t i = 0; kinds[i]; i++) {
		const struct rvl_kernel_arg *a = &k->d.in[i];
		bool ok;

		if (!present(k, i)) {
			if (kinds[i] == 'z' || kinds[i] == 'Z' || kinds[i] == 'b')
				continue;
			return rvl_why(why, "input %u is missing", i);
		}
		if (kinds[i] == 's' || kinds[i] == 'S')
			ok = a->type == RVL_TYPE_F32 && (kinds[i] == 'S' || count(k, i) == 1);
		else if (kinds[i] == 'b')
			ok = a->type == RVL_TYPE_S32;
		else
			ok = byte_type(a->type) && (kinds[i] != 'z' || count(k, i) == 1);
		if (!ok)
			return rvl_why(why, "input %u has another type or size than it must", i);
	}
	return byte_type(k->d.out[0].type) ? 0 : rvl_why(why, "output is not an 8-bit type");
}

static int check_channels(struct rvl_kernel *k, uint32_t i, int64_t channels, char *why)
{
	if (!present(k, i) || count(k, i) == 1 || count(k, i) == channels)
		return 0;
	return rvl_why(why, "input %u has %lld values for %lld channels", i,
		       (long long)count(k, i), (long long)channels);
}

static int setup_product(struct rvl_kernel *k, const struct layout *l, int64_t channels, char *why)
{
	int rc = check_channels(k, l->ws, channels, why);

	if (!rc)
		rc = check_channels(k, l->wz, channels, why);
	if (!rc && present(k, l->b) && count(k, l->b) != channels)
		rc = rvl_why(why, "bias has not one value per channel");
	k->scratch = (size_t)channels * 8 + 64;
	return rc;
}

static int setup_conv(struct rvl_kernel *k, char *why)
{
	int rc = check_types(k, "xszxSZszb", why);

	if (!rc)
		rc = rvl_conv_geometry(&k->d, &k->d.in[3], &k->g, why);
	k->run = run_conv;
	return rc ? rc : setup_product(k, &conv_layout, k->g.m, why);
}

static int setup_matmul(struct rvl_kernel *k, char *why)
{
	bool gemm = k->d.op == RVL_OP_QGEMM;
	int rc = check_types(k, gemm ? "xszxSZbsz" : "xszxSZsz", why);

	if (!rc)
		rc = rvl_matmul_geometry(&k->d, &k->d.in[0], &k->d.in[3], &k->d.out[0], &k->mm,
					 why);
	k->run = run_matmul;
	return rc ? rc : setup_product(k, gemm ? &gemm_layout : &conv_layout, k->mm.n, why);
}

static int setup_binary(struct rvl_kernel *k, char *why)
{
	int rc = check_types(k, "xszxszsz", why);

	if (!rc && rvl_bcast_init(&k->bc, &k->d.in[0].shape, &k->d.in[3].shape,
				  &k->d.out[0].shape))
		rc = rvl_why(why, "operands do not broadcast to the output");
	k->run = run_binary;
	return rc;
}

static int setup_pool(struct rvl_kernel *k, char *why)
{
	int rc = check_types(k, "xszsz", why);

	if (rc)
		return rc;
	if (k->d.op == RVL_OP_QLINEAR_AVERAGE_POOL) {
		k->run = run_average;
		return rvl_conv_geometry(&k->d, NULL, &k->g, why);
	}
	k->run = run_mean;
	if (k->d.in[0].shape.rank < 3 || rvl_shape_count(&k->d.out[0].shape) !=
	    k->d.in[0].shape.dim[0] * k->d.in[0].shape.dim[1])
		return rvl_why(why, "output is not one value per channel");
	return 0;
}

int rvl_setup_qlinear(struct rvl_kernel *k, bool reference, char *why)
{
	(void)reference;
	switch (k->d.op) {
	case RVL_OP_QLINEAR_CONV:
		return setup_conv(k, why);
	case RVL_OP_QLINEAR_MATMUL:
	case RVL_OP_QGEMM:
		return setup_matmul(k, why);
	case RVL_OP_QLINEAR_ADD:
	case RVL_OP_QLINEAR_MUL:
		return setup_binary(k, why);
	default:
		return setup_pool(k, why);
	}
}

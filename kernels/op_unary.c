/* SPDX-License-Identifier: MIT */
/* Relu and Clip. */
#include "internal.h"

#include <limits.h>

struct clamp {
	const struct rvl_kernel *k;
	const void *const *in;
	void *y;
};

/* Bounds of a run: Clip's second and third operand, or the attributes, or none. */
#define CLAMP(name, type, least, most) \
static inline void name##_by(const type *x, int64_t ix, type *y, int64_t iy, int64_t n, type lo, type hi) \
{ \
	for (int64_t i = 0; i < n; i++) { \
		type v = x[i * ix] < lo ? lo : x[i * ix]; \
		y[i * iy] = v > hi ? hi : v; \
	} \
} \
static void name(const struct rvl_kernel *k, int64_t n, const void *const *in, int64_t x_at, \
		 void *out, int64_t y_at) \
{ \
	const struct rvl_bcast *bc = &k->bc; \
	const type *x = (const type *)in[0] + x_at; \
	const type *plo = k->d.n_in > 1 ? in[1] : NULL; \
	const type *phi = k->d.n_in > 2 ? in[2] : NULL; \
	type lo = k->d.op == RVL_OP_RELU ? 0 : plo ? *plo : (type)(least); \
	type hi = phi ? *phi : (type)(most); \
	type *y = (type *)out + y_at; \
	if (bc->ia == 1 && bc->iy == 1) \
		name##_by(x, 1, y, 1, n, lo, hi); \
	else \
		name##_by(x, bc->ia, y, bc->iy, n, lo, hi); \
}

CLAMP(clamp_f32, float, k->d.attr.f_lo, k->d.attr.f_hi)
CLAMP(clamp_u8, uint8_t, 0, UINT8_MAX)
CLAMP(clamp_s8, int8_t, INT8_MIN, INT8_MAX)
CLAMP(clamp_s32, int32_t, INT32_MIN, INT32_MAX)
CLAMP(clamp_s64, int64_t, INT64_MIN, INT64_MAX)

static void clamp_span(void *ctx, int64_t n, int64_t x, int64_t none, int64_t y)
{
	const struct clamp *c = ctx;

	(void)none;
	switch (c->k->d.out[0].type) {
	case RVL_TYPE_F32:
		clamp_f32(c->k, n, c->in, x, c->y, y);
		break;
	case RVL_TYPE_U8:
		clamp_u8(c->k, n, c->in, x, c->y, y);
		break;
	case RVL_TYPE_S8:
		clamp_s8(c->k, n, c->in, x, c->y, y);
		break;
	case RVL_TYPE_S32:
		clamp_s32(c->k, n, c->in, x, c->y, y);
		break;
	default:
		clamp_s64(c->k, n, c->in, x, c->y, y);
		break;
	}
}

static int run(const struct rvl_kernel *k, const void *const *in, void *const *out, void *scratch,
	       const struct rvl_pool *pool)
{
	struct clamp c = { .k = k, .in = in, .y = out[0] };

	(void)scratch;
	rvl_bcast_run(&k->bc, pool, clamp_span, &c);
	return 0;
}

int rvl_setup_unary(struct rvl_kernel *k, bool reference, char *why)
{
	static const struct rvl_kernel_arg none;	/* the bounds are one element each */
	const struct rvl_kernel_desc *d = &k->d;

	(void)reference;
	if (d->in[0].type != d->out[0].type || !rvl_shape_equal(&d->in[0].shape, &d->out[0].shape))
		return rvl_why(why, "input and output differ in type or shape");
	if (d->in[0].type == RVL_TYPE_BOOL)
		return rvl_why(why, "no bounds on bool");
	for (uint32_t i = 1; i < d->n_in; i++)
		if (d->in[i].type != RVL_TYPE_NONE &&
		    (d->in[i].type != d->in[0].type || rvl_shape_count(&d->in[i].shape) != 1))
			return rvl_why(why, "a bound is not one value of the input's type");
	k->run = run;
	return rvl_bcast_args(&k->bc, &d->in[0], &none, &d->out[0]);
}

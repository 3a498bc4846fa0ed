/* SPDX-License-Identifier: MIT */
/* Relu and Clip. */
#include "internal.h"

#include <limits.h>

/* Bounds of a run: Clip's second and third operand, or the attributes, or none. */
#define CLAMP(name, type, least, most) \
static void name(const struct rvl_kernel *k, const void *const *in, void *out) \
{ \
	bool relu = k->d.op == RVL_OP_RELU; \
	const type *x = in[0]; \
	const type *plo = k->d.n_in > 1 ? in[1] : NULL; \
	const type *phi = k->d.n_in > 2 ? in[2] : NULL; \
	type lo = relu ? 0 : plo ? *plo : (type)(least); \
	type hi = phi ? *phi : (type)(most); \
	int64_t n = rvl_shape_count(&k->d.out[0].shape); \
	type *y = out; \
	for (int64_t i = 0; i < n; i++) { \
		type v = x[i] < lo ? lo : x[i]; \
		y[i] = v > hi ? hi : v; \
	} \
}

CLAMP(clamp_f32, float, k->d.attr.f_lo, k->d.attr.f_hi)
CLAMP(clamp_u8, uint8_t, 0, UINT8_MAX)
CLAMP(clamp_s8, int8_t, INT8_MIN, INT8_MAX)
CLAMP(clamp_s32, int32_t, INT32_MIN, INT32_MAX)
CLAMP(clamp_s64, int64_t, INT64_MIN, INT64_MAX)

static int run(const struct rvl_kernel *k, const void *const *in, void *const *out, void *scratch,
	       const struct rvl_pool *pool)
{
	(void)scratch;
	(void)pool;
	switch (k->d.out[0].type) {
	case RVL_TYPE_F32:
		clamp_f32(k, in, out[0]);
		break;
	case RVL_TYPE_U8:
		clamp_u8(k, in, out[0]);
		break;
	case RVL_TYPE_S8:
		clamp_s8(k, in, out[0]);
		break;
	case RVL_TYPE_S32:
		clamp_s32(k, in, out[0]);
		break;
	default:
		clamp_s64(k, in, out[0]);
		break;
	}
	return 0;
}

int rvl_setup_unary(struct rvl_kernel *k, bool reference, char *why)
{
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
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* Softmax and batch normalisation, in float. */
#include <string.h>

#include "float/softmax.h"
#include "internal.h"
#include "qmath.h"
#include "sizes.h"

/* The extents of the operand as [outer, n, inner], normalised along n. */
static void softmax_extent(const struct rvl_kernel *k, int64_t *outer, int64_t *n, int64_t *inner)
{
	const struct rvl_shape *s = &k->d.in[0].shape;
	int axis = k->d.attr.axis;

	*outer = *n = *inner = 1;
	for (int i = 0; i < s->rank; i++) {
		if (i < axis)
			*outer *= s->dim[i];
		else if (i == axis || k->d.attr.flat_softmax)
			*n *= s->dim[i];
		else
			*inner *= s->dim[i];
	}
}

#define GRAIN 4096	/* elements that a thread computes at least */

struct run {
	const struct rvl_kernel *k;
	const void *const *in;
	float *y;
};

static void softmax_lines(void *arg, int64_t first, int64_t past)
{
	const struct run *r = arg;
	const float *x = r->in[0];
	int64_t outer, n, inner;

	softmax_extent(r->k, &outer, &n, &inner);
	if (inner == 1) {
		rvl_f32_softmax_rows(x + first * n, past - first, n, r->y + first * n);
		return;
	}
	for (int64_t i = first, some; i < past; i += some) {
		int64_t at = i / inner * n * inner + i % inner;

		some = rvl_least(inner - i % inner, past - i);
		rvl_f32_softmax_columns(x + at, n, some, inner, r->y + at);
	}
}

static int run_softmax(const struct rvl_kernel *k, const void *const *in, void *const *out,
		       void *scratch, const struct rvl_pool *pool)
{
	struct run r = { .k = k, .in = in, .y = out[0] };
	int64_t outer, n, inner;

	(void)scratch;
	softmax_extent(k, &outer, &n, &inner);
	if (n)
		rvl_parallel_range(pool, outer * inner, 1 + GRAIN / n, softmax_lines, &r);
	return 0;
}

int rvl_setup_softmax(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	int32_t rank = d->in[0].shape.rank;

	(void)reference;
	if (d->in[0].type != RVL_TYPE_F32 || d->out[0].type != RVL_TYPE_F32 ||
	    !rvl_shape_equal(&d->in[0].shape, &d->out[0].shape))
		return rvl_why(why, "input and output are not float of one shape");
	if (d->attr.axis < 0 || d->attr.axis > rank || (d->attr.axis == rank && rank &&
						       !d->attr.flat_softmax))
		return rvl_why(why, "axis %d of a tensor of rank %d", d->attr.axis, rank);
	k->run = run_softmax;
	return 0;
}

/* Images, channels and elements of a plane. */
static int64_t planes_of(const struct rvl_shape *s, int64_t *channels, int64_t *plane)
{
	int64_t n = rvl_shape_count(s);

	*channels = s->rank > 1 ? s->dim[1] : 1;
	*plane = n ? n / (s->dim[0] * *channels) : 0;
	return n ? s->dim[0] * *channels : 0;
}

/* Operands 1 to 4 are scale, bias, mean and variance. */
static void bn_planes(void *arg, int64_t first, int64_t past)
{
	const struct run *r = arg;
	const struct rvl_attr *attr = &r->k->d.attr;
	const float lo = attr->f_lo, hi = attr->f_hi;
	const float *scale = r->in[1], *bias = r->in[2], *mean = r->in[3], *var = r->in[4];
	int64_t channels, plane;

	planes_of(&r->k->d.in[0].shape, &channels, &plane);
	for (int64_t i = first; i < past; i++) {
		int64_t c = i % channels;
		float a = scale[c] / sqrtf(var[c] + attr->epsilon);
		float b = bias[c] - mean[c] * a;
		const float *x = (const float *)r->in[0] + i * plane;
		float *y = r->y + i * plane;

		for (int64_t p = 0; p < plane; p++)
			y[p] = rvl_clip(x[p] * a + b, lo, hi);
	}
}

static int run_bn(const struct rvl_kernel *k, const void *const *in, void *const *out,
		  void *scratch, const struct rvl_pool *pool)
{
	struct run r = { .k = k, .in = in, .y = out[0] };
	int64_t channels, plane, n = planes_of(&k->d.in[0].shape, &channels, &plane);

	(void)scratch;
	if (plane)
		rvl_parallel_range(pool, n, 1 + GRAIN / plane, bn_planes, &r);
	return 0;
}

int rvl_setup_bn(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_shape *s = &d->in[0].shape;

	(void)reference;
	if (d->in[0].type != RVL_TYPE_F32 || d->out[0].type != RVL_TYPE_F32 ||
	    !rvl_shape_equal(s, &d->out[0].shape) || s->rank < 1)
		return rvl_why(why, "input and output are not float of one shape");
	for (uint32_t i = 1; i < 5; i++)
		if (d->in[i].type != RVL_TYPE_F32 ||
		    rvl_shape_count(&d->in[i].shape) != (s->rank > 1 ? s->dim[1] : 1))
			return rvl_why(why, "operand %u has not one float per channel", i);
	k->run = run_bn;
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* Softmax and batch normalisation, in float. */
#include <string.h>

#include "float/softmax.h"
#include "internal.h"

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

static void softmax_line(const float *x, int64_t n, int64_t step, float *y)
{
	float top = x[0];
	double sum;

	for (int64_t i = 1; i < n; i++)
		top = x[i * step] > top ? x[i * step] : top;
	sum = rvl_f32_exp_line(x, n, step, top, y);
	for (int64_t i = 0; i < n; i++)
		y[i * step] = (float)((double)y[i * step] / sum);
}

static int run_softmax(const struct rvl_kernel *k, const void *const *in, void *const *out,
		       void *scratch, const struct rvl_pool *pool)
{
	int64_t outer, n, inner;

	(void)scratch;
	(void)pool;
	softmax_extent(k, &outer, &n, &inner);
	for (int64_t i = 0; i < outer * inner; i++) {
		int64_t at = i / inner * n * inner + i % inner;

		softmax_line((const float *)in[0] + at, n, inner, (float *)out[0] + at);
	}
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

/* Operands 1 to 4 are scale, bias, mean and variance. */
static int run_bn(const struct rvl_kernel *k, const void *const *in, void *const *out,
		  void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_shape *s = &k->d.in[0].shape;
	const float *scale = in[1], *bias = in[2], *mean = in[3], *var = in[4];
	int64_t channels = s->rank > 1 ? s->dim[1] : 1;
	int64_t plane = rvl_shape_count(s) / (s->dim[0] * channels);

	(void)scratch;
	(void)pool;
	for (int64_t i = 0; i < s->dim[0] * channels; i++) {
		int64_t c = i % channels;
		float a = scale[c] / sqrtf(var[c] + k->d.attr.epsilon);
		float b = bias[c] - mean[c] * a;
		const float *x = (const float *)in[0] + i * plane;
		float *y = (float *)out[0] + i * plane;

		for (int64_t p = 0; p < plane; p++) {
			float v = x[p] * a + b;

			y[p] = v < k->d.attr.f_lo ? k->d.attr.f_lo :
			       v > k->d.attr.f_hi ? k->d.attr.f_hi : v;
		}
	}
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

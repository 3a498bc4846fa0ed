/* SPDX-License-Identifier: MIT */
/*
 * A transposed convolution is a product of the weights [channels * taps, input channels] by the image
 * [input channels, elements], of which each row is added to the result where its tap puts it. The
 * product is computed for as many output channels at a time as fit CHUNK_FLOATS.
 */
#include "float/conv_transpose.h"

#include <math.h>

#include "internal.h"
#include "isa.h"
#include "sizes.h"

/* Floats of a product, which stays in the second-level cache, unless one channel has more. */
#define CHUNK_FLOATS ((int64_t)160 << 10)

struct chunk {
	const struct rvl_f32_conv *v;
	const float *product;	/* [channel][tap][in] */
	const float *bias;	/* of the first channel, or NULL */
	float *y;		/* its plane */
};

static struct rvl_f32_job job_of(const struct rvl_f32_conv *v, int64_t channels)
{
	int64_t rows = v->m_group * v->taps;

	return (struct rvl_f32_job) {
		.f = rvl_f32_kernels(), .batches = 1, .m = channels * v->taps, .n = v->in,
		.k = v->c_group, .a = { .k_step = rows, .step = 1 }, .b = { .k_step = v->in, .step = 1 },
		.scale = 1, .added_scale = 1, .lo = -INFINITY, .hi = INFINITY, .y_row = v->in,
	};
}

/* The row of the image that the outer axes of tap @tap add to the row of a plane at @pos; -1: none. */
static int64_t row_under(const struct rvl_window *w, const int64_t *pos, const int64_t *tap)
{
	int64_t row = 0;

	for (int d = 0; d < w->rank - 1; d++) {
		const struct rvl_window_axis *a = &w->axis[d];
		int64_t at = pos[d] + a->pad[0] - tap[d] * a->dilation;

		if (at < 0 || at % a->stride || at / a->stride >= a->n)
			return -1;
		row = row * a->n + at / a->stride;
	}
	return row;
}

/* Elements of a row of the image that a tap of the last axis adds to a row of the result, and whereto. */
struct added {
	int64_t from;		/* of element 0 */
	int64_t first, past;
};

static struct added added_by(const struct rvl_window_axis *a, int64_t tap)
{
	struct added r = { .from = tap * a->dilation - a->pad[0] };

	r.first = r.from < 0 ? rvl_ceil_div(-r.from, a->stride) : 0;
	r.past = r.from < a->out ? rvl_least(rvl_ceil_div(a->out - r.from, a->stride), a->n) : 0;
	return r;
}

static void add_row(int64_t stride, const struct added *r, int64_t first, int64_t past, const float *x,
		    float *y)
{
	y += r->from;
	if (stride == 1)
		for (int64_t i = first; i < past; i++)
			y[i] += x[i];
	else
		for (int64_t i = first; i < past; i++)
			y[i * stride] += x[i];
}

/* Four floats of any alignment. */
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

/* Rows @x0 and @x1 of two adjacent taps, which a stride of 2 interleaves. */
static void add_pair(const struct added *r0, const struct added *r1, const float *x0, const float *x1,
		     float *y)
{
	int64_t first = r0->first > r1->first ? r0->first : r1->first, i = first;
	int64_t past = rvl_least(r0->past, r1->past);

	for (; i + 4 <= past; i += 4) {
		quad a = *(const quad *)(x0 + i), b = *(const quad *)(x1 + i);
		float *to = y + r0->from + 2 * i;

		*(quad *)to += __builtin_shufflevector(a, b, 0, 4, 1, 5);
		*(quad *)(to + 4) += __builtin_shufflevector(a, b, 2, 6, 3, 7);
	}
	add_row(2, r0, r0->first, rvl_least(first, r0->past), x0, y);
	add_row(2, r1, r1->first, rvl_least(first, r1->past), x1, y);
	add_row(2, r0, i, r0->past, x0, y);
	add_row(2, r1, i, r1->past, x1, y);
}

/* The taps of the last axis, whose rows of the image lie @in apart. */
static void add_taps(const struct rvl_window_axis *a, const float *x, int64_t in, float *y)
{
	bool pairs = a->stride == 2 && a->dilation == 1;

	for (int64_t t = 0; t < a->k; t++, x += in) {
		struct added r0 = added_by(a, t), r1;

		if (!pairs || t + 1 == a->k) {
			add_row(a->stride, &r0, r0.first, r0.past, x, y);
			continue;
		}
		r1 = added_by(a, ++t);
		add_pair(&r0, &r1, x, x + in, y);
		x += in;
	}
}

/* A row of a plane at @pos: the taps in their order, then the bias. @x: the products of the channel. */
static void sum_row(const struct rvl_f32_conv *v, const int64_t *pos, const float *x, float bias,
		    float *y)
{
	int last = v->w.rank - 1;
	const struct rvl_window_axis *a = &v->w.axis[last];
	int64_t tap[RVL_MAX_RANK] = { 0 };

	for (int64_t i = 0; i < a->out; i++)
		y[i] = 0;
	for (int64_t t = 0; t < v->taps; t += a->k, x += a->k * v->in) {
		int64_t row = row_under(&v->w, pos, tap);

		if (row >= 0)
			add_taps(a, x + row * a->n, v->in, y);
		for (int d = last - 1; d >= 0 && ++tap[d] == v->w.axis[d].k; d--)
			tap[d] = 0;
	}
	for (int64_t i = 0; i < a->out; i++)
		y[i] += bias;
}

/* Planes [first, past) of a chunk. */
static void sum_planes(void *arg, int64_t first, int64_t past)
{
	const struct chunk *c = arg;
	const struct rvl_f32_conv *v = c->v;
	int64_t width = v->w.axis[v->w.rank - 1].out;

	for (int64_t m = first; m < past; m++) {
		int64_t pos[RVL_MAX_RANK] = { 0 };
		float *y = c->y + m * v->out;

		for (int64_t at = 0; at < v->out; at += width) {
			sum_row(v, pos, c->product + m * v->taps * v->in, c->bias ? c->bias[m] : 0, y + at);
			for (int d = v->w.rank - 2; d >= 0 && ++pos[d] == v->w.axis[d].out; d--)
				pos[d] = 0;
		}
	}
}

static void locate(const void *ctx, int64_t batch, struct rvl_f32_place *at)
{
	(void)ctx;
	(void)batch;
	*at = (struct rvl_f32_place) { 0 };
}

/* Output channels of a chunk; a channel has v->taps * v->in floats. */
static int64_t channels_of(const struct rvl_f32_conv *v)
{
	int64_t one = v->taps * v->in, n = one ? CHUNK_FLOATS / one : v->m_group;

	return n < 1 ? 1 : rvl_least(n, v->m_group);
}

/* Where the weights of chunk @first of group @g begin, and where they are packed. */
static int64_t weights_at(const struct rvl_f32_conv *v, int64_t g, int64_t first)
{
	return (g * v->c_group * v->m_group + first) * v->taps;
}

static int64_t packed_at(const struct rvl_f32_conv *v, int64_t g, int64_t first)
{
	int64_t step = channels_of(v), chunks = rvl_ceil_div(v->m_group, step);

	return (g * chunks + first / step) *
	       rvl_f32_packed(step * v->taps, v->c_group, rvl_f32_kernels()->mr);
}

/* The input channels of a group in panels. */
struct image {
	const struct rvl_f32_conv *v;
	const float *x;
	float *panels;
};

static void pack_panels(void *arg, int64_t first, int64_t past)
{
	const struct image *m = arg;
	struct rvl_f32_job j = job_of(m->v, 1);
	int64_t at = first * j.f->nr;

	j.b.data = m->x;
	rvl_f32_pack(&j.b, at, rvl_least(past * j.f->nr, m->v->in) - at, j.k, j.f->nr, m->panels + at * j.k);
}

static int64_t image_floats(const struct rvl_f32_conv *v)
{
	return rvl_f32_packed(v->in, v->c_group, rvl_f32_kernels()->nr);
}

/* Output channels [first, first + n) of group @g of image @image, whose panels are at @scratch. */
static void run_chunk(const struct rvl_f32_conv *v, int64_t image, int64_t g, int64_t first, int64_t n,
		      float *scratch, const struct rvl_pool *pool)
{
	int64_t floats = n * v->taps * v->in, group = image * v->group + g;
	float *product = scratch + rvl_round_up(image_floats(v), 16);
	struct rvl_f32_job j = job_of(v, n);
	struct chunk c = {
		.v = v, .product = product, .y = v->y + (group * v->m_group + first) * v->out,
		.bias = v->bias ? v->bias + g * v->m_group + first : NULL,
	};

	j.locate = locate;
	j.a.data = v->weights + weights_at(v, g, first);
	if (v->packed)
		j.a.packed = v->packed + packed_at(v, g, first);
	j.b.packed = scratch;
	j.y = product;
	rvl_f32_run(&j, product + rvl_round_up(floats, 16), pool);
	rvl_parallel_range(pool, n, 1, sum_planes, &c);
}

static bool is_empty(const struct rvl_f32_conv *v)
{
	return v->images * v->group * v->m_group * v->out == 0;
}

int64_t rvl_f32_conv_transpose_packed(const struct rvl_f32_conv *v)
{
	return is_empty(v) ? 0 : packed_at(v, v->group, 0);
}

void rvl_f32_pack_conv_transpose(const struct rvl_f32_conv *v, float *dst)
{
	struct rvl_f32_job j = job_of(v, v->m_group);
	int64_t step = channels_of(v);

	j.a.data = v->weights;
	for (int64_t g = 0; g < v->group; g++)
		for (int64_t m = 0; m < v->m_group; m += step)
			rvl_f32_pack(&j.a, weights_at(v, g, m), rvl_least(step, v->m_group - m) * v->taps, j.k,
				     j.f->mr, dst + packed_at(v, g, m));
}

/* An upper bound that does not grow where a dimension becomes smaller. */
int64_t rvl_f32_conv_transpose_scratch(const struct rvl_f32_conv *v)
{
	struct rvl_f32_job j = job_of(v, v->m_group);
	int64_t one, all, floats;

	if (__builtin_mul_overflow(v->taps, v->in, &one) ||
	    __builtin_mul_overflow(one, v->m_group, &all) || one > RVL_MAX_SCRATCH)
		return INT64_MAX;
	floats = rvl_least(all, one > CHUNK_FLOATS ? one : CHUNK_FLOATS);
	floats = rvl_round_up(image_floats(v), 16) + rvl_round_up(floats, 16);
	return floats * (int64_t)sizeof(float) + rvl_f32_scratch(&j);
}

void rvl_f32_conv_transpose_run(const struct rvl_f32_conv *v, float *scratch,
				const struct rvl_pool *pool)
{
	int64_t step = channels_of(v);

	if (is_empty(v))
		return;
	for (int64_t i = 0; i < v->images * v->group; i++) {
		struct image m = { .v = v, .x = v->x + i * v->c_group * v->in, .panels = scratch };

		rvl_parallel_range(pool, rvl_ceil_div(v->in, rvl_f32_kernels()->nr), 4, pack_panels, &m);
		for (int64_t c = 0; c < v->m_group; c += step)
			run_chunk(v, i / v->group, i % v->group, c, rvl_least(step, v->m_group - c), scratch,
				  pool);
	}
}

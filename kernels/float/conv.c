/* SPDX-License-Identifier: MIT */
/*
 * A convolution is a product of the weights [channels, c * taps] by a matrix of the elements under
 * each tap, [c * taps, results]. Panels of that matrix are gathered in the run, for a few results
 * and a block of channels and taps at a time. A depthwise convolution sums shifted rows.
 */
#include "float/conv.h"

#include <string.h>

#include "internal.h"
#include "isa.h"

#define STRIP_FLOATS (12 << 10)	/* of copied input rows of a depthwise convolution */
#define MAX_ITEMS 8		/* parts into which a depthwise convolution is divided */
#define MAX_ROWS ((int64_t)1 << 22)	/* floats of the input rows under one row of results */
#define MAX_TAPS 1024		/* of a depthwise convolution */

static int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---- gathering ---- */

/* Results that are adjacent in a row of a plane. */
struct piece {
	const struct rvl_f32_conv *v;
	const float *x;			/* channel 0 of the group */
	int64_t pos[RVL_MAX_RANK];	/* of the first result */
	int64_t n;
	int64_t k0, k1;			/* elements of the kernels, channel by channel */
	float *dst;
	int64_t width;
};

static inline void copy(float *dst, const float *src, int64_t n)
{
	int64_t i = 0;

	for (; i + 8 <= n; i += 8)
		memcpy(dst + i, src + i, 8 * sizeof(*dst));
	if (i + 4 <= n) {
		memcpy(dst + i, src + i, 4 * sizeof(*dst));
		i += 4;
	}
	for (; i < n; i++)
		dst[i] = src[i];
}

static inline void copy_apart(float *dst, const float *src, int64_t n, int64_t step)
{
	for (int64_t i = 0; i < n; i++)
		dst[i] = src[i * step];
}

/* Channels [c0, c1) under tap @t. Results [lead, past) have it at @at of the plane and behind. */
static void put_tap(const struct piece *p, int64_t t, int64_t c0, int64_t c1, int64_t at,
		    int64_t lead, int64_t past)
{
	const struct rvl_f32_conv *v = p->v;
	int64_t step = v->w.axis[v->w.rank - 1].stride;
	const float *x = p->x + c0 * v->in + at;
	float *dst = p->dst + (c0 * v->taps + t - p->k0) * p->width;

	for (int64_t c = c0; c < c1; c++, x += v->in, dst += v->taps * p->width) {
		if (lead)
			memset(dst, 0, (size_t)lead * sizeof(*dst));
		if (step == 1)
			copy(dst + lead, x, past - lead);
		else
			copy_apart(dst + lead, x, past - lead, step);
		if (past < p->n)
			memset(dst + past, 0, (size_t)(p->n - past) * sizeof(*dst));
	}
}

/* The row of the plane under a tap at @tap of each axis but the last; false: outside of the image. */
static bool row_of(const struct piece *p, const int64_t *tap, int64_t *row)
{
	const struct rvl_window *w = &p->v->w;

	*row = 0;
	for (int i = 0; i < w->rank - 1; i++) {
		const struct rvl_window_axis *a = &w->axis[i];
		int64_t at = p->pos[i] * a->stride + tap[i] * a->dilation - a->pad[0];

		if (at < 0 || at >= a->n)
			return false;
		*row = *row * a->n + at;
	}
	return true;
}

/* Results [*lead, *past) of the piece have the element at @x0 + i * stride inside the row. */
static void inside(const struct rvl_window_axis *a, int64_t x0, int64_t n, int64_t *lead,
		   int64_t *past)
{
	*lead = 0;
	*past = n;
	if (x0 >= 0 && x0 + (n - 1) * a->stride < a->n)
		return;
	*past = x0 < a->n ? least(ceil_div(a->n - x0, a->stride), n) : 0;
	*lead = x0 < 0 ? least(ceil_div(-x0, a->stride), *past) : 0;
}

static void next_tap(const struct rvl_window *w, int64_t *tap)
{
	for (int i = w->rank - 1; i >= 0 && ++tap[i] == w->axis[i].k; i--)
		tap[i] = 0;
}

static void gather_piece(const struct piece *p)
{
	const struct rvl_f32_conv *v = p->v;
	const struct rvl_window_axis *a = &v->w.axis[v->w.rank - 1];
	int64_t tap[RVL_MAX_RANK] = { 0 }, first = p->pos[v->w.rank - 1] * a->stride - a->pad[0];
	int64_t q0 = p->k0 / v->taps, r0 = p->k0 % v->taps;
	int64_t q1 = p->k1 / v->taps, r1 = p->k1 % v->taps;

	for (int64_t t = 0; t < v->taps; t++, next_tap(&v->w, tap)) {
		int64_t c0 = q0 + (t < r0), c1 = q1 + (t < r1);
		int64_t row, lead = 0, past = 0, x0 = first + tap[v->w.rank - 1] * a->dilation;

		if (c0 >= c1)
			continue;
		if (row_of(p, tap, &row))
			inside(a, x0, p->n, &lead, &past);
		put_tap(p, t, c0, c1, past ? row * a->n + x0 + lead * a->stride : 0, lead, past);
	}
}

static void position(const struct rvl_window *w, int64_t at, int64_t *pos)
{
	for (int i = w->rank - 1; i >= 0; i--) {
		pos[i] = at % w->axis[i].out;
		at /= w->axis[i].out;
	}
}

static void gather(const struct rvl_f32_source *s, int64_t at, int64_t first, int64_t n, int64_t k0,
		   int64_t kc, int width, float *dst)
{
	const struct rvl_f32_conv *v = s->ctx;
	struct piece p = { .v = v, .x = v->x + at, .k0 = k0, .k1 = k0 + kc, .width = width };
	int last = v->w.rank - 1;

	for (int64_t k = 0; n < width && k < kc; k++)
		memset(dst + k * width + n, 0, (size_t)(width - n) * sizeof(*dst));
	for (int64_t i = 0; i < n; i += p.n) {
		position(&v->w, first + i, p.pos);
		p.n = least(v->w.axis[last].out - p.pos[last], n - i);
		p.dst = dst + i;
		gather_piece(&p);
	}
}

/* ---- dense and grouped ---- */

static void locate(const void *ctx, int64_t batch, struct rvl_f32_place *at)
{
	const struct rvl_f32_conv *v = ctx;
	int64_t g = batch % v->group;

	*at = (struct rvl_f32_place) {
		.a = g * v->m_group * v->c_group * v->taps, .b = batch * v->c_group * v->in,
		.y = batch * v->m_group * v->out, .added = batch * v->m_group * v->out,
		.bias = g * v->m_group,
	};
}

static struct rvl_f32_job job_of(const struct rvl_f32_conv *v)
{
	const struct rvl_f32_kernels *f = rvl_f32_kernels();
	int64_t k = v->c_group * v->taps;

	return (struct rvl_f32_job) {
		.f = f, .batches = v->images * v->group, .m = v->m_group, .n = v->out, .k = k,
		.a = { .data = v->weights, .k_step = 1, .step = k, .scale = 1, .packed = v->packed,
		       .matrix = rvl_f32_packed(v->m_group, k, f->mr),
		       .elements = v->m_group * k },
		.b = { .fill = gather, .ctx = v },
		.locate = locate, .ctx = v, .added = v->added, .added_row = v->out, .added_col = 1,
		.added_scale = 1, .bias = v->bias, .lo = v->lo, .hi = v->hi, .y = v->y,
		.y_row = v->out,
	};
}

/* ---- depthwise ---- */

/*
 * The input rows under a strip of output rows are copied with their padding. A row is divided into
 * as many parts as the stride, each with every stride-th element, so that all taps read adjacent
 * elements.
 */
struct strip {
	int64_t rows;		/* of results */
	int64_t part;		/* floats of a part of a row */
	int64_t copied;		/* input rows */
	int64_t floats;
	int64_t strips, items;
};

struct depthwise {
	const struct rvl_f32_conv *v;
	struct strip s;
	float *scratch;
};

/* The axes of a plane: those of one dimension have a first one of one row. */
static struct rvl_window_axis axis_y(const struct rvl_f32_conv *v)
{
	static const struct rvl_window_axis one = { .n = 1, .out = 1, .k = 1, .stride = 1, .dilation = 1 };

	return v->w.rank == 2 ? v->w.axis[0] : one;
}

static const struct rvl_window_axis *axis_x(const struct rvl_f32_conv *v)
{
	return &v->w.axis[v->w.rank - 1];
}

static int64_t rows_under(const struct rvl_window_axis *a, int64_t rows)
{
	return (rows - 1) * a->stride + (a->k - 1) * a->dilation + 1;
}

/* Whether the copy of the input rows under one row of results has a reasonable size. */
static bool rows_fit(const struct rvl_f32_conv *v)
{
	const struct rvl_window_axis *x = axis_x(v), y = axis_y(v);
	int64_t n = x->out + (x->k - 1) * x->dilation;

	return !__builtin_mul_overflow(n, x->stride, &n) &&
	       !__builtin_mul_overflow(n, rows_under(&y, 1), &n) && n <= MAX_ROWS;
}

/* What a product of few rows would do worse. */
static bool is_depthwise(const struct rvl_f32_conv *v)
{
	return v->c_group == 1 && v->m_group < 4 && v->w.rank <= 2 && v->taps <= MAX_TAPS &&
	       !v->added && rows_fit(v);
}

static struct strip strip_of(const struct rvl_f32_conv *v)
{
	const struct rvl_window_axis *x = axis_x(v), y = axis_y(v);
	int64_t last = (x->out - 1) + (x->k - 1) * x->dilation / x->stride;
	struct strip s = { .part = ceil_div(last + 1, RVL_F32_VL) * RVL_F32_VL + RVL_F32_VL };
	int64_t row = s.part * x->stride;

	s.rows = (STRIP_FLOATS / row - (y.k - 1) * y.dilation - 1) / y.stride + 1;
	s.rows = s.rows < 1 ? 1 : least(s.rows, y.out);
	s.copied = rows_under(&y, s.rows);
	s.floats = s.copied * row;
	s.strips = ceil_div(y.out, s.rows);
	s.items = least(v->images * v->group * v->m_group * s.strips, MAX_ITEMS);
	return s;
}

/* Part @phase of input row @row, NULL where that is in the padding. */
static void copy_part(const struct rvl_window_axis *a, const float *row, int64_t phase, int64_t n,
		      float *dst)
{
	int64_t lead, past, x0 = phase - a->pad[0];

	inside(a, x0, n, &lead, &past);
	if (!row)
		past = lead = 0;
	memset(dst, 0, (size_t)lead * sizeof(*dst));
	if (past > lead && a->stride == 1)
		memcpy(dst + lead, row + x0 + lead, (size_t)(past - lead) * sizeof(*dst));
	else if (past > lead)
		copy_apart(dst + lead, row + x0 + lead * a->stride, past - lead, a->stride);
	memset(dst + past, 0, (size_t)(n - past) * sizeof(*dst));
}

static void copy_rows(const struct depthwise *d, const float *plane, int64_t oy, int64_t rows,
		      float *dst)
{
	const struct rvl_window_axis *x = axis_x(d->v), y = axis_y(d->v);
	int64_t first = oy * y.stride - y.pad[0], copied = rows_under(&y, rows);

	for (int64_t i = 0; i < copied; i++) {
		int64_t at = first + i;
		const float *row = at >= 0 && at < y.n ? plane + at * x->n : NULL;

		for (int64_t phase = 0; phase < x->stride; phase++, dst += d->s.part)
			copy_part(x, row, phase, d->s.part, dst);
	}
}

/* Pointers to the elements under each tap of the first result of row @row of a strip. */
static void point(const struct depthwise *d, const float *mem, int64_t row, const float **p)
{
	const struct rvl_window_axis *x = axis_x(d->v), y = axis_y(d->v);

	for (int64_t ky = 0; ky < y.k; ky++) {
		const float *at = mem + (row * y.stride + ky * y.dilation) * x->stride * d->s.part;

		for (int64_t kx = 0; kx < x->k; kx++) {
			int64_t shift = kx * x->dilation;

			*p++ = at + shift % x->stride * d->s.part + shift / x->stride;
		}
	}
}

/* Strip @i of all planes of the result. */
static void run_strip(const struct depthwise *d, int64_t i, float *mem)
{
	const struct rvl_f32_conv *v = d->v;
	int64_t plane = i / d->s.strips, oy = i % d->s.strips * d->s.rows;
	int64_t rows = least(d->s.rows, axis_y(v).out - oy), width = axis_x(v)->out;
	int64_t m = plane % (v->group * v->m_group);
	const float *p[MAX_TAPS];
	struct rvl_f32_taps_call c = {
		.p = p, .w = v->weights + m * v->taps, .taps = v->taps, .n = width,
		.bias = v->bias ? v->bias[m] : 0, .lo = v->lo, .hi = v->hi,
		.y = v->y + plane * v->out + oy * width,
	};

	copy_rows(d, v->x + plane / v->m_group * v->in, oy, rows, mem);
	for (int64_t row = 0; row < rows; row++, c.y += width) {
		point(d, mem, row, p);
		rvl_f32_kernels()->taps(&c);
	}
}

static void depthwise_item(void *arg, uint32_t i)
{
	const struct depthwise *d = arg;
	const struct rvl_f32_conv *v = d->v;
	int64_t strips = v->images * v->group * v->m_group * d->s.strips;

	for (int64_t n = i * strips / d->s.items; n < (i + 1) * strips / d->s.items; n++)
		run_strip(d, n, d->scratch + i * d->s.floats);
}

/* ---- all ---- */

static bool is_empty(const struct rvl_f32_conv *v)
{
	return v->images * v->m_group * v->out == 0;
}

void rvl_f32_conv_init(struct rvl_f32_conv *v)
{
	v->in = rvl_window_in(&v->w);
	v->out = rvl_window_out(&v->w);
	v->taps = 1;
	for (int i = 0; i < v->w.rank; i++)
		v->taps *= v->w.axis[i].k;
}

int64_t rvl_f32_conv_packed(const struct rvl_f32_conv *v)
{
	if (is_empty(v) || is_depthwise(v))
		return 0;
	return v->group * rvl_f32_packed(v->m_group, v->c_group * v->taps, rvl_f32_kernels()->mr);
}

void rvl_f32_pack_conv(const struct rvl_f32_conv *v, float *dst)
{
	struct rvl_f32_job j = job_of(v);

	for (int64_t g = 0; g < v->group; g++)
		rvl_f32_pack(&j.a, g * j.a.elements, j.m, j.k, j.f->mr, dst + g * j.a.matrix);
}

int64_t rvl_f32_conv_scratch(const struct rvl_f32_conv *v)
{
	struct rvl_f32_job j;
	struct strip s;

	if (is_empty(v))
		return 0;
	if (is_depthwise(v)) {
		s = strip_of(v);
		return s.items * s.floats * (int64_t)sizeof(float);
	}
	j = job_of(v);
	return rvl_f32_scratch(&j);
}

void rvl_f32_conv_run(const struct rvl_f32_conv *v, void *scratch, const struct rvl_pool *pool)
{
	struct depthwise d = { .v = v, .scratch = scratch };
	struct rvl_f32_job j;

	if (is_empty(v))
		return;
	if (is_depthwise(v)) {
		d.s = strip_of(v);
		rvl_parallel(pool, (uint32_t)d.s.items, depthwise_item, &d);
		return;
	}
	j = job_of(v);
	rvl_f32_run(&j, scratch, pool);
}

/* SPDX-License-Identifier: MIT */
/*
 * A convolution is a product of the weights [channels, c * taps] by a matrix of the elements under
 * each tap, [c * taps, results]. Panels of that matrix are gathered in the run, for a few results
 * and a block of channels and taps at a time. A depthwise convolution sums shifted rows.
 */
#include "float/conv.h"

#include <math.h>

#include "float/gather.h"
#include "float/plane.h"
#include "float/rows.h"
#include "float/winograd.h"
#include "internal.h"
#include "isa.h"

#define STRIP_FLOATS (12 << 10)	/* of copied input rows of a depthwise convolution */
#define MAX_ROWS (32 << 10)	/* floats under one row of results; longer rows are divided */
#define LEAST_COLS 64		/* results of a divided row */
#define GRAIN 65536		/* products of small planes that a thread sums at least */
#define MAX_TAPS 1024		/* of a depthwise convolution */

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
		.a = { .data = v->weights, .k_step = 1, .step = k, .packed = v->packed,
		       .matrix = rvl_f32_packed(v->m_group, k, f->mr),
		       .elements = v->m_group * k },
		.b = { .fill = rvl_f32_gather, .fill_floats = RVL_F32_PATCH,
		       .fill_cost = rvl_f32_gather_cost(v), .ctx = v },
		.locate = locate, .ctx = v, .scale = 1, .added = v->added, .added_row = v->out, .added_col = 1,
		.added_scale = 1, .bias = v->bias, .lo = v->lo, .hi = v->hi, .y = v->y,
		.y_row = v->out, .exact = v->exact, .sums = v->sums,
	};
}

/* ---- one result for each channel ---- */

/*
 * Whether the only window is the whole image, which is then a row of a product by the weights, packed by
 * columns. As a matrix of one column it would leave most of a vector empty.
 */
static bool is_row(const struct rvl_f32_conv *v)
{
	bool whole = v->fixed && !v->exact && v->out == 1;

	for (int i = 0; i < v->w.rank && whole; i++) {
		const struct rvl_window_axis *a = &v->w.axis[i];

		whole = a->k == a->n && !a->pad[0] && (a->dilation == 1 || a->k == 1);
	}
	return whole;
}

static void locate_row(const void *ctx, int64_t batch, struct rvl_f32_place *at)
{
	const struct rvl_f32_conv *v = ctx;
	int64_t k = v->c_group * v->taps;

	*at = (struct rvl_f32_place) {
		.a = batch * k, .b = batch % v->group * v->m_group * k, .y = batch * v->m_group,
	};
}

static struct rvl_f32_job row_job(const struct rvl_f32_conv *v)
{
	const struct rvl_f32_kernels *f = rvl_f32_kernels();
	int64_t k = v->c_group * v->taps;
	struct rvl_f32_job j = {
		.f = f, .batches = v->images * v->group, .m = 1, .n = v->m_group, .k = k,
		.a = { .data = v->x, .k_step = 1, .step = k },
		.b = { .data = v->weights, .k_step = 1, .step = k, .packed = v->packed,
		       .matrix = rvl_f32_packed(v->m_group, k, f->nr), .elements = v->m_group * k },
		.locate = locate_row, .ctx = v, .scale = 1, .lo = -INFINITY, .hi = INFINITY, .y = v->y,
		.y_row = v->m_group,
	};

	rvl_f32_merge(&j, v->images * v->group * k, v->group * v->m_group * k);
	return j;
}

/* What a product adds to rows, and the clamp. */
static void finish_rows(const struct rvl_f32_conv *v)
{
	int64_t all = v->group * v->m_group;

	for (int64_t i = 0; i < v->images * all; i++) {
		float y = v->y[i] + (v->added ? v->added[i] : 0) + (v->bias ? v->bias[i % all] : 0);

		y = y < v->lo ? v->lo : y;
		v->y[i] = y > v->hi ? v->hi : y;
	}
}

/* ---- depthwise ---- */

/*
 * The input under a strip of results is copied with its padding, so that all taps read adjacent
 * elements. On each axis either everything under the strip is copied once, or, where that is less,
 * what each tap reads is copied apart. A row copied once is divided by the stride: a segment has
 * every stride-th element from the position of a tap on. Only segments that a tap reads are copied.
 */
struct strip {
	int64_t rows, cols;		/* of results */
	int64_t segments, part;		/* of a copied row; floats of a segment */
	bool cols_apart, rows_apart;	/* a copy for each tap */
	int64_t copied;			/* input rows for each tap, or for all */
	int64_t floats;
	int64_t down, across;		/* strips of a plane */
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

/* What a product of few rows would do worse. */
static bool may_be_depthwise(const struct rvl_f32_conv *v)
{
	return v->c_group == 1 && v->m_group < 4 && v->w.rank <= 2 && v->taps <= MAX_TAPS;
}

static bool is_depthwise(const struct rvl_f32_conv *v)
{
	return may_be_depthwise(v) && !v->added && !v->exact;
}

/* Taps whose distance is a multiple of the stride share a segment. */
static int64_t shared_segments(const struct rvl_window_axis *x)
{
	int64_t a = x->stride, b = x->dilation % x->stride;

	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return rvl_least(x->stride / a, x->k);
}

/* Divides a copied row under @cols results into segments. Returns its floats. */
static int64_t divide_row(const struct rvl_window_axis *x, int64_t cols, struct strip *s)
{
	int64_t part = cols + (x->k - 1) * x->dilation / x->stride, shared = shared_segments(x);

	s->cols = cols;
	s->cols_apart = x->k * cols < shared * part;
	s->segments = s->cols_apart ? x->k : shared;
	s->part = s->cols_apart ? cols : part;
	return s->segments * s->part;
}

static void divide_rows(const struct rvl_window_axis *y, int64_t row, struct strip *s)
{
	int64_t rows = (STRIP_FLOATS / row - (y->k - 1) * y->dilation - 1) / y->stride + 1;

	rows = rows < 1 ? 1 : rvl_least(rows, y->out);
	s->copied = rows_under(y, rows);
	s->rows_apart = y->k * rows < s->copied;
	if (s->rows_apart) {
		rows = STRIP_FLOATS / (row * y->k);
		rows = rows < 1 ? 1 : rvl_least(rows, y->out);
		s->copied = rows;
	}
	s->rows = rows;
}

/* Floats of a strip: an upper bound, which does not grow where an image becomes smaller. */
static int64_t most_floats(const struct rvl_f32_conv *v)
{
	const struct rvl_window_axis *x = axis_x(v), y = axis_y(v);
	struct strip s;
	int64_t n = y.k * divide_row(x, rvl_least(x->out, LEAST_COLS), &s);

	return (n > MAX_ROWS ? n : MAX_ROWS) + 2 * RVL_F32_VL;
}

static struct strip strip_of(const struct rvl_f32_conv *v)
{
	const struct rvl_window_axis *x = axis_x(v), y = axis_y(v);
	struct strip s = { 0 };
	int64_t row = divide_row(x, x->out, &s);

	while (s.cols > LEAST_COLS && y.k * row > MAX_ROWS)
		row = divide_row(x, rvl_ceil_div(s.cols, 2), &s);
	divide_rows(&y, row, &s);
	s.floats = (s.rows_apart ? y.k : 1) * s.copied * row;
	s.floats = rvl_ceil_div(s.floats, RVL_F32_VL) * RVL_F32_VL + RVL_F32_VL;
	s.down = rvl_ceil_div(y.out, s.rows);
	s.across = rvl_ceil_div(x->out, s.cols);
	return s;
}

/* The segments of row @i of a plane; the first result is at @ox. */
static void copy_row(const struct depthwise *d, const float *plane, int64_t i, int64_t ox, float *dst)
{
	const struct rvl_window_axis *x = axis_x(d->v), y = axis_y(d->v);
	const struct strip *s = &d->s;
	int64_t first = ox * x->stride - x->pad[0];

	if (i < 0 || i >= y.n) {
		rvl_f32_zero(dst, s->segments * s->part);
		return;
	}
	for (int64_t g = 0; g < s->segments; g++, dst += s->part) {
		int64_t at = g * x->dilation;

		rvl_f32_copy_row(x, plane + i * x->n, first + (s->cols_apart ? at : at % x->stride),
			     s->part, dst);
	}
}

/* The input under @rows rows of results from row @oy and column @ox on. */
static void copy_rows(const struct depthwise *d, const float *plane, int64_t oy, int64_t ox,
		      int64_t rows, float *dst)
{
	const struct rvl_window_axis y = axis_y(d->v);
	const struct strip *s = &d->s;
	int64_t first = oy * y.stride - y.pad[0], row = s->segments * s->part;
	int64_t groups = s->rows_apart ? y.k : 1, step = s->rows_apart ? y.stride : 1;
	int64_t n = s->rows_apart ? rows : rows_under(&y, rows);

	for (int64_t g = 0; g < groups; g++)
		for (int64_t i = 0; i < n; i++)
			copy_row(d, plane, first + g * y.dilation + i * step, ox,
				 dst + (g * s->copied + i) * row);
}

/* Pointers to the elements under each tap of the first result of a strip. */
static void point(const struct depthwise *d, const float *mem, const float **p)
{
	const struct rvl_window_axis *x = axis_x(d->v), y = axis_y(d->v);
	const struct strip *s = &d->s;
	int64_t tap_rows = s->rows_apart ? s->copied : y.dilation;

	for (int64_t ky = 0; ky < y.k; ky++) {
		const float *at = mem + ky * tap_rows * s->segments * s->part;

		for (int64_t kx = 0; kx < x->k; kx++)
			*p++ = at + kx % s->segments * s->part +
			       (s->cols_apart ? 0 : kx * x->dilation / x->stride);
	}
}

/* Strip @i of all planes of the result. */
static void run_strip(void *arg, uint32_t lane, uint32_t i)
{
	const struct depthwise *d = arg;
	const struct rvl_f32_conv *v = d->v;
	const struct strip *s = &d->s;
	int64_t plane = i / s->across / s->down, m = plane % (v->group * v->m_group);
	int64_t oy = i / s->across % s->down * s->rows, ox = i % s->across * s->cols;
	int64_t width = axis_x(v)->out, step = s->rows_apart ? 1 : axis_y(v).stride;
	float *mem = d->scratch + lane * s->floats;
	const float *p[MAX_TAPS];
	struct rvl_f32_taps_call c = {
		.p = p, .p_row = step * s->segments * s->part,
		.w = v->weights + m * v->taps, .taps = v->taps,
		.n = rvl_least(s->cols, width - ox), .rows = rvl_least(s->rows, axis_y(v).out - oy),
		.bias = v->bias ? v->bias[m] : 0, .lo = v->lo, .hi = v->hi,
		.y = v->y + plane * v->out + oy * width + ox, .y_row = width,
	};

	copy_rows(d, v->x + plane / v->m_group * v->in, oy, ox, c.rows, mem);
	point(d, mem, p);
	rvl_f32_kernels()->taps(&c);
}

/* ---- depthwise, of small planes ---- */

struct planes {
	const struct rvl_f32_conv *v;
	struct rvl_f32_plane p;
};

static void small_planes(void *arg, int64_t first, int64_t past)
{
	const struct planes *d = arg;
	const struct rvl_f32_conv *v = d->v;
	float mem[RVL_F32_PLANE_MEMORY], run[RVL_F32_PLANE_MEMORY];

	rvl_f32_plane_border(&d->p, 0, mem);
	for (int64_t i = first; i < past; i++) {
		int64_t m = i % (v->group * v->m_group);

		if (i == first || i % v->m_group == 0)
			rvl_f32_plane_copy(&d->p, v->x + i / v->m_group * v->in, mem);
		rvl_f32_plane_sum(&d->p, mem, v->weights + m * v->taps, v->bias ? v->bias[m] : 0, v->lo,
				  v->hi, run);
		rvl_f32_plane_rows(&d->p, run, v->y + i * v->out);
	}
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
	if (rvl_f32_is_winograd(v))
		return rvl_f32_winograd_packed(v);
	if (is_row(v))
		return v->group * row_job(v).b.matrix;
	return v->group * rvl_f32_packed(v->m_group, v->c_group * v->taps, rvl_f32_kernels()->mr);
}

void rvl_f32_pack_conv(const struct rvl_f32_conv *v, float *dst)
{
	struct rvl_f32_job j = job_of(v);

	if (rvl_f32_is_winograd(v)) {
		rvl_f32_pack_winograd(v, dst);
		return;
	}
	if (is_row(v)) {
		j = row_job(v);
		for (int64_t g = 0; g < v->group; g++)
			rvl_f32_pack(&j.b, g * j.b.elements, j.n, j.k, j.f->nr, dst + g * j.b.matrix);
		return;
	}
	for (int64_t g = 0; g < v->group; g++)
		rvl_f32_pack(&j.a, g * j.a.elements, j.m, j.k, j.f->mr, dst + g * j.a.matrix);
}

void rvl_f32_pack_conv_by(const struct rvl_f32_conv *v, float (*weight)(const void *ctx, int64_t at),
			  const void *ctx, float *dst)
{
	int64_t mr = rvl_f32_kernels()->mr, n = v->c_group * v->taps;

	for (int64_t g = 0; g < v->group; g++)
		for (int64_t row = 0; row < v->m_group; row += mr)
			for (int64_t k = 0; k < n; k++)
				for (int64_t i = row; i < row + mr; i++)
					*dst++ = i < v->m_group ?
						 weight(ctx, (g * v->m_group + i) * n + k) : 0;
}

int64_t rvl_f32_conv_scratch(const struct rvl_f32_conv *v)
{
	struct rvl_f32_job j = v->packed && is_row(v) ? row_job(v) : job_of(v);
	int64_t dense = rvl_f32_scratch(&j), strips;

	if (!is_empty(v) && rvl_f32_is_winograd(v))
		return rvl_f32_winograd_scratch(v);
	if (is_empty(v) || !may_be_depthwise(v))
		return dense;
	strips = RVL_LANES * most_floats(v) * (int64_t)sizeof(float);
	return dense > strips ? dense : strips;
}

void rvl_f32_conv_run(const struct rvl_f32_conv *v, void *scratch, const struct rvl_pool *pool)
{
	struct depthwise d = { .v = v, .scratch = scratch };
	struct planes small = { .v = v };
	struct rvl_f32_job j;

	if (is_empty(v))
		return;
	if (is_depthwise(v) && rvl_f32_plane_of(&v->w, &small.p)) {
		rvl_parallel_range(pool, v->images * v->group * v->m_group, 1 + GRAIN / (v->out * v->taps),
				   small_planes, &small);
		return;
	}
	if (is_depthwise(v)) {
		d.s = strip_of(v);
		rvl_parallel_lanes(pool, rvl_lanes(pool),
				   v->images * v->group * v->m_group * d.s.down * d.s.across, run_strip, &d);
		return;
	}
	if (rvl_f32_is_winograd(v)) {
		rvl_f32_winograd_run(v, scratch, pool);
		return;
	}
	if (v->packed && is_row(v)) {
		j = row_job(v);
		rvl_f32_run(&j, scratch, pool);
		finish_rows(v);
		return;
	}
	j = job_of(v);
	rvl_f32_run(&j, scratch, pool);
}

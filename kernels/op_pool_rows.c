/* SPDX-License-Identifier: MIT */
/*
 * Maxima and means of bytes and float32 in NCHW, a strip of adjacent results at a time. The
 * taps of a window are visited in the order of the reference, so sums have the same bits.
 */
#include <math.h>

#include "float/plane.h"
#include "int8/round.h"
#include "isa.h"
#include "pool.h"

#define GRAIN 16384	/* elements that a thread pools at least */
#define COLUMNS 1024	/* most elements of a row of the input under a strip */

/* Results [ox, ox + n) of a row, and the part of a row of the input under their windows. */
struct strip {
	int64_t ox, n;
	int64_t x0, width;	/* the first column, which may be negative, and the number of columns */
	int64_t lead, past;	/* columns x0 + lead to x0 + past lie inside the image */
};

static int64_t reach(const struct rvl_conv_geom *g)
{
	return (g->k[1] - 1) * g->d[1] + 1;
}

bool rvl_pool_has_rows(const struct rvl_conv_geom *g)
{
	return reach(g) <= COLUMNS;
}

static struct strip strip_at(const struct rvl_conv_geom *g, int64_t ox)
{
	int64_t most = (COLUMNS - reach(g)) / g->s[1] + 1;
	struct strip s = { .ox = ox, .n = g->ow - ox < most ? g->ow - ox : most };

	s.x0 = ox * g->s[1] - g->pad[1];
	s.width = (s.n - 1) * g->s[1] + reach(g);
	s.past = g->w - s.x0 < s.width ? g->w - s.x0 : s.width;
	s.past = s.past < 0 ? 0 : s.past;
	s.lead = s.x0 < 0 ? -s.x0 : 0;
	s.lead = s.lead < s.past ? s.lead : s.past;
	return s;
}

struct rows_run {
	const struct rvl_kernel *k;
	const uint8_t *x;
	uint8_t *y;
	const struct rvl_qaverage *average;	/* of bytes; NULL: floats */
};

/* ---- maxima ---- */

/*
 * Maxima of up to three taps side by side; those that a window lacks are copies of another. For vectors
 * of strides 1 and 2 the loop has constant steps.
 */
#define MAX_STRIP(name, type, least) \
INLINE type name##_of(type v, type best) \
{ \
	return v > best ? v : best; \
} \
INLINE void name##_taps(const type *const t[3], const int64_t step, int64_t n, type *y) \
{ \
	const type *a = t[0], *b = t[1], *c = t[2]; \
	for (int64_t i = 0; i < n; i++) \
		y[i] = name##_of(c[i * step], name##_of(b[i * step], name##_of(a[i * step], y[i]))); \
} \
INLINE void name##_first(const type *const t[3], const int64_t step, int64_t n, type *y) \
{ \
	const type *a = t[0], *b = t[1], *c = t[2]; \
	for (int64_t i = 0; i < n; i++) \
		y[i] = name##_of(c[i * step], name##_of(b[i * step], name##_of(a[i * step], (least)))); \
} \
INLINE void name##_step(const type *const t[3], bool first, const int64_t step, int64_t n, type *y) \
{ \
	if (first) \
		name##_first(t, step, n, y); \
	else \
		name##_taps(t, step, n, y); \
} \
/* The maxima of the taps @at + i * @d, first <= i < past; the least value if there are none. */ \
INLINE void name##_axis(const type *at, int64_t d, int64_t first, int64_t past, const int64_t step, \
			int64_t n, type *y) \
{ \
	if (first >= past) \
		for (int64_t i = 0; i < n; i++) \
			y[i] = (least); \
	for (int64_t k = first; k < past; k += 3) { \
		const type *t[3] = { at + k * d, at + (k + 1 < past ? k + 1 : k) * d, \
				     at + (k + 2 < past ? k + 2 : k) * d }; \
		name##_step(t, k == first, step, n, y); \
	} \
} \
static void name(const struct rvl_conv_geom *g, const struct rvl_pool_taps *v, const struct strip *s, \
		 const type *plane, type *y) \
{ \
	type column[COLUMNS]; \
	for (int64_t i = 0; i < s->lead; i++) \
		column[i] = (least); \
	for (int64_t i = s->past; i < s->width; i++) \
		column[i] = (least); \
	name##_axis(plane + v->at * g->w + s->x0 + s->lead, g->d[0] * g->w, v->first, v->last, 1, \
		    s->past - s->lead, column + s->lead); \
	if (g->s[1] == 1) \
		name##_axis(column, g->d[1], 0, g->k[1], 1, s->n, y); \
	else if (g->s[1] == 2) \
		name##_axis(column, g->d[1], 0, g->k[1], 2, s->n, y); \
	else \
		name##_axis(column, g->d[1], 0, g->k[1], g->s[1], s->n, y); \
}

MAX_STRIP(max_u8, uint8_t, 0)
MAX_STRIP(max_s8, int8_t, INT8_MIN)
MAX_STRIP(max_f32, float, -FLT_MAX)

static void max_strip(enum rvl_type t, const struct rvl_conv_geom *g, const struct rvl_pool_taps *v,
		      const struct strip *s, const void *plane, void *y)
{
	if (t == RVL_TYPE_F32)
		max_f32(g, v, s, plane, y);
	else if (t == RVL_TYPE_U8)
		max_u8(g, v, s, plane, y);
	else
		max_s8(g, v, s, plane, y);
}

static void max_plane(void *arg, uint32_t i)
{
	const struct rows_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	enum rvl_type t = r->k->d.in[0].type;
	int64_t size = (int64_t)rvl_type_size(t);
	const uint8_t *x = r->x + i * g->h * g->w * size;

	for (int64_t oy = 0; oy < g->oh; oy++) {
		struct rvl_pool_taps v = rvl_pool_taps(g, r->k->d.attr.pad, 0, oy);
		uint8_t *y = r->y + (i * g->oh + oy) * g->ow * size;
		struct strip s = { 0 };

		for (int64_t ox = 0; ox < g->ow; ox += s.n) {
			s = strip_at(g, ox);
			max_strip(t, g, &v, &s, x, y + ox * size);
		}
	}
}

/* ---- small planes of floats ---- */

struct planes_run {
	const struct rvl_kernel *k;
	struct rvl_f32_plane p;
	const float *x;
	float *y;
};

static struct rvl_window_axis axis_of(const struct rvl_conv_geom *g, int axis)
{
	return (struct rvl_window_axis) {
		.n = axis ? g->w : g->h, .out = axis ? g->ow : g->oh, .k = g->k[axis],
		.stride = g->s[axis], .dilation = g->d[axis], .pad = { g->pad[axis], 0 },
	};
}

static bool has_small_planes(const struct rvl_kernel *k, struct planes_run *r)
{
	struct rvl_window w = { .rank = 2, .axis = { axis_of(&k->g, 0), axis_of(&k->g, 1) } };

	r->k = k;
	return k->d.in[0].type == RVL_TYPE_F32 && rvl_f32_plane_of(&w, &r->p);
}

static void max_small_planes(void *arg, int64_t first, int64_t past)
{
	const struct planes_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	float mem[RVL_F32_PLANE_MEMORY], run[RVL_F32_PLANE_MEMORY];

	rvl_f32_plane_border(&r->p, -FLT_MAX, mem);
	for (int64_t i = first; i < past; i++) {
		rvl_f32_plane_copy(&r->p, r->x + i * g->h * g->w, mem);
		rvl_f32_plane_max(&r->p, mem, run);
		rvl_f32_plane_rows(&r->p, run, r->y + i * g->oh * g->ow);
	}
}

void rvl_pool_max_rows(const struct rvl_kernel *k, const void *x, void *y,
		       const struct rvl_pool *pool)
{
	struct rows_run r = { .k = k, .x = x, .y = y };
	struct planes_run small = { .x = x, .y = y };

	if (has_small_planes(k, &small))
		rvl_parallel_range(pool, k->g.n * k->g.c, 1 + GRAIN / (1 + k->g.h * k->g.w),
				   max_small_planes, &small);
	else
		rvl_parallel(pool, (uint32_t)(k->g.n * k->g.c), max_plane, &r);
}

/* ---- means ---- */

INLINE void add_tap(const float *t, const int64_t step, int64_t n, float *sum)
{
	for (int64_t i = 0; i < n; i++)
		sum[i] += t[i * step];
}

/* The elements under a strip of @row as floats, of which those outside of the image are 0. */
static const float *values(const struct rows_run *r, const struct strip *s, const uint8_t *row,
			   float *value)
{
	const struct rvl_qaverage *p = r->average;
	const struct rvl_i8_convert *f = rvl_i8_kernels()->convert;
	const float *x = (const float *)row;
	int64_t n = s->past - s->lead;

	if (!p && n == s->width)
		return x + s->x0;
	for (int64_t i = 0; i < s->lead; i++)
		value[i] = 0;
	if (p)
		(p->x_u8 ? f->dequantize_u8 : f->dequantize_s8)(row + (s->x0 + s->lead), n, p->xs, p->xz,
								value + s->lead);
	for (int64_t i = s->lead; !p && i < s->past; i++)
		value[i] = x[s->x0 + i];
	for (int64_t i = s->past; i < s->width; i++)
		value[i] = 0;
	return value;
}

/* Adds the elements under row @row of the windows. */
static void add_row(const struct rows_run *r, const struct strip *s, const uint8_t *row, float *sum)
{
	const struct rvl_conv_geom *g = &r->k->g;
	float memory[COLUMNS];
	const float *value = values(r, s, row, memory);

	if (s->n == 1) {
		for (int64_t kx = 0; kx < g->k[1]; kx++)
			*sum += value[kx * g->d[1]];
		return;
	}
	for (int64_t kx = 0; kx < g->k[1]; kx++) {
		if (g->s[1] == 1)
			add_tap(value + kx * g->d[1], 1, s->n, sum);
		else if (g->s[1] == 2)
			add_tap(value + kx * g->d[1], 2, s->n, sum);
		else
			add_tap(value + kx * g->d[1], g->s[1], s->n, sum);
	}
}

/* The means of sums over @rows * count[i] elements; those of no element are 0. */
static void divide(const float *sum, const float *count, float rows, int64_t n, float *y)
{
	for (int64_t i = 0; i < n; i++) {
		float elements = count[i] * rows, mean = sum[i] / (elements > 0 ? elements : 1);

		y[i] = elements > 0 ? mean : 0;
	}
}

static void quantise(const struct rvl_qaverage *p, const float *mean, int64_t n, uint8_t *y)
{
	const float lo = (float)p->lo, hi = (float)p->hi, ys = p->ys, yz = (float)p->yz;

	for (int64_t i = 0; i < n; i++)
		y[i] = rvl_cvt_to_byte(mean[i] / ys + yz, lo, hi);
}

/*
 * The elements that count along an axis: those inside the image, or all. Of a window that extends
 * beyond the padding (ceil_mode), bytes count all positions, floats those inside the padded image.
 */
static int64_t counted(const struct rows_run *r, int axis, const struct rvl_pool_taps *t)
{
	if (!r->k->d.attr.count_include_pad)
		return t->last - t->first;
	return r->average ? r->k->g.k[axis] : t->padded;
}

static void count_columns(const struct rows_run *r, const struct strip *s, float *count)
{
	for (int64_t i = 0; i < s->n; i++) {
		struct rvl_pool_taps h = rvl_pool_taps(&r->k->g, r->k->d.attr.pad, 1, s->ox + i);

		count[i] = (float)counted(r, 1, &h);
	}
}

static void average_strip(const struct rows_run *r, const struct strip *s, const float *count,
			  const uint8_t *plane, uint8_t *y)
{
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t size = r->average ? 1 : (int64_t)sizeof(float);
	float sum[COLUMNS];

	for (int64_t oy = 0; oy < g->oh; oy++) {
		struct rvl_pool_taps v = rvl_pool_taps(g, r->k->d.attr.pad, 0, oy);
		uint8_t *row = y + (oy * g->ow + s->ox) * size;

		for (int64_t i = 0; i < s->n; i++)
			sum[i] = 0;
		for (int64_t ky = v.first; ky < v.last; ky++)
			add_row(r, s, plane + (v.at + ky * g->d[0]) * g->w * size, sum);
		divide(sum, count, (float)counted(r, 0, &v), s->n, r->average ? sum : (float *)row);
		if (r->average)
			quantise(r->average, sum, s->n, row);
	}
}

/* Some planes, strip by strip. */
static void average_planes(void *arg, int64_t first, int64_t past)
{
	const struct rows_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t size = r->average ? 1 : (int64_t)sizeof(float);
	struct strip s = { 0 };

	for (int64_t ox = 0; ox < g->ow; ox += s.n) {
		float count[COLUMNS];

		s = strip_at(g, ox);
		count_columns(r, &s, count);
		for (int64_t i = first; i < past; i++)
			average_strip(r, &s, count, r->x + i * g->h * g->w * size,
				      r->y + i * g->oh * g->ow * size);
	}
}

/* How many elements each result is the mean of, in the places of a run of results. */
static void count_elements(const struct rows_run *r, const struct rvl_f32_plane *p, float *count)
{
	const struct rvl_conv_geom *g = &r->k->g;

	for (int64_t i = 0; i < p->run; i++)
		count[i] = 1;
	for (int64_t oy = 0; oy < g->oh; oy++) {
		struct rvl_pool_taps v = rvl_pool_taps(g, r->k->d.attr.pad, 0, oy);

		for (int64_t ox = 0; ox < g->ow; ox++) {
			struct rvl_pool_taps h = rvl_pool_taps(g, r->k->d.attr.pad, 1, ox);

			count[oy * p->pitch + ox] = (float)(counted(r, 0, &v) * counted(r, 1, &h));
		}
	}
}

/* A sum of products by 1 has the bits of a sum. */
static void average_small_planes(void *arg, int64_t first, int64_t past)
{
	const struct planes_run *s = arg;
	const struct rows_run r = { .k = s->k };
	const struct rvl_conv_geom *g = &s->k->g;
	float mem[RVL_F32_PLANE_MEMORY], run[RVL_F32_PLANE_MEMORY], count[RVL_F32_PLANE_MEMORY];
	float ones[RVL_F32_PLANE_TAPS];

	for (int64_t i = 0; i < g->k[0] * g->k[1]; i++)
		ones[i] = 1;
	count_elements(&r, &s->p, count);
	rvl_f32_plane_border(&s->p, 0, mem);
	for (int64_t i = first; i < past; i++) {
		rvl_f32_plane_copy(&s->p, s->x + i * g->h * g->w, mem);
		rvl_f32_plane_sum(&s->p, mem, ones, 0, -INFINITY, INFINITY, run);
		divide(run, count, 1, s->p.run, run);
		rvl_f32_plane_rows(&s->p, run, s->y + i * g->oh * g->ow);
	}
}

void rvl_pool_average_rows(const struct rvl_kernel *k, const struct rvl_qaverage *p, const void *x,
			   void *y, const struct rvl_pool *pool)
{
	struct rows_run r = { .k = k, .x = x, .y = y, .average = p };
	struct planes_run small = { .x = x, .y = y };

	if (k->g.oh * k->g.ow > 1 && has_small_planes(k, &small)) {
		rvl_parallel_range(pool, k->g.n * k->g.c, 1 + GRAIN / (1 + k->g.h * k->g.w),
				   average_small_planes, &small);
		return;
	}
	rvl_parallel_range(pool, k->g.n * k->g.c, 1 + GRAIN / (1 + k->g.h * k->g.w), average_planes, &r);
}

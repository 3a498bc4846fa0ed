/* SPDX-License-Identifier: MIT */
/*
 * Maxima of bytes and float32 in NCHW, and means of bytes, a strip of adjacent results at a time. The
 * taps of a window are visited in the order of the reference, so sums have the same bits.
 */
#include "int8/round.h"
#include "isa.h"
#include "pool.h"

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
	const struct rvl_qaverage *average;
};

/* ---- maxima ---- */

/* For vectors of strides 1 and 2 the loop has constant steps. */
#define MAX_STRIP(name, type, least) \
INLINE void name##_tap(const type *t, const int64_t step, int64_t n, type *y) \
{ \
	for (int64_t i = 0; i < n; i++) \
		y[i] = t[i * step] > y[i] ? t[i * step] : y[i]; \
} \
static void name(const struct rvl_conv_geom *g, const struct rvl_pool_taps *v, const struct strip *s, \
		 const type *plane, type *y) \
{ \
	type column[COLUMNS]; \
	for (int64_t i = 0; i < s->width; i++) \
		column[i] = (least); \
	for (int64_t i = 0; i < s->n; i++) \
		y[i] = (least); \
	for (int64_t ky = v->first; ky < v->last; ky++) { \
		const type *row = plane + (v->at + ky * g->d[0]) * g->w + (s->x0 + s->lead); \
		name##_tap(row, 1, s->past - s->lead, column + s->lead); \
	} \
	for (int64_t kx = 0; kx < g->k[1]; kx++) { \
		const type *t = column + kx * g->d[1]; \
		if (g->s[1] == 1) \
			name##_tap(t, 1, s->n, y); \
		else if (g->s[1] == 2) \
			name##_tap(t, 2, s->n, y); \
		else \
			name##_tap(t, g->s[1], s->n, y); \
	} \
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

void rvl_pool_max_rows(const struct rvl_kernel *k, const void *x, void *y,
		       const struct rvl_pool *pool)
{
	struct rows_run r = { .k = k, .x = x, .y = y };

	rvl_parallel(pool, (uint32_t)(k->g.n * k->g.c), max_plane, &r);
}

/* ---- means ---- */

INLINE void add_tap(const float *t, const int64_t step, int64_t n, float *sum)
{
	for (int64_t i = 0; i < n; i++)
		sum[i] += t[i * step];
}

/* Adds the dequantised elements under row @row of the windows, of which those outside are 0. */
static void add_row(const struct rows_run *r, const struct strip *s, const uint8_t *row, float *sum)
{
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_qaverage *p = r->average;
	const struct rvl_i8_convert *f = rvl_i8_kernels()->convert;
	float value[COLUMNS];

	for (int64_t i = 0; i < s->lead; i++)
		value[i] = 0;
	(p->x_u8 ? f->dequantize_u8 : f->dequantize_s8)(row + (s->x0 + s->lead), s->past - s->lead, p->xs,
							p->xz, value + s->lead);
	for (int64_t i = s->past; i < s->width; i++)
		value[i] = 0;
	for (int64_t kx = 0; kx < g->k[1]; kx++) {
		if (g->s[1] == 1)
			add_tap(value + kx * g->d[1], 1, s->n, sum);
		else
			add_tap(value + kx * g->d[1], g->s[1], s->n, sum);
	}
}

/* The means of sums over @rows * count[i] elements; those of no element are 0. */
static void divide(const struct rvl_qaverage *p, const float *sum, const float *count, float rows,
		   int64_t n, uint8_t *y)
{
	const float lo = (float)p->lo, hi = (float)p->hi, ys = p->ys, yz = (float)p->yz;

	for (int64_t i = 0; i < n; i++) {
		float elements = count[i] * rows, mean = sum[i] / (elements > 0 ? elements : 1);

		y[i] = rvl_cvt_to_byte(mean / ys + yz, lo, hi);
	}
}

/* The columns of each window of a strip: all, or those inside the image. */
static void count_columns(const struct rows_run *r, const struct strip *s, float *count)
{
	const struct rvl_attr *a = &r->k->d.attr;

	for (int64_t i = 0; i < s->n; i++) {
		struct rvl_pool_taps h = rvl_pool_taps(&r->k->g, a->pad, 1, s->ox + i);

		count[i] = (float)(a->count_include_pad ? r->k->g.k[1] : h.last - h.first);
	}
}

static void average_strip(const struct rows_run *r, const struct strip *s, const uint8_t *plane,
			  uint8_t *y)
{
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_attr *a = &r->k->d.attr;
	float count[COLUMNS], sum[COLUMNS];

	count_columns(r, s, count);
	for (int64_t oy = 0; oy < g->oh; oy++) {
		struct rvl_pool_taps v = rvl_pool_taps(g, a->pad, 0, oy);
		int64_t rows = a->count_include_pad ? g->k[0] : v.last - v.first;

		for (int64_t i = 0; i < s->n; i++)
			sum[i] = 0;
		for (int64_t ky = v.first; ky < v.last; ky++)
			add_row(r, s, plane + (v.at + ky * g->d[0]) * g->w, sum);
		divide(r->average, sum, count, (float)rows, s->n, y + oy * g->ow + s->ox);
	}
}

static void average_plane(void *arg, uint32_t i)
{
	const struct rows_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	struct strip s = { 0 };

	for (int64_t ox = 0; ox < g->ow; ox += s.n) {
		s = strip_at(g, ox);
		average_strip(r, &s, r->x + i * g->h * g->w, r->y + i * g->oh * g->ow);
	}
}

void rvl_pool_average_rows(const struct rvl_kernel *k, const struct rvl_qaverage *p, const void *x,
			   void *y, const struct rvl_pool *pool)
{
	struct rows_run r = { .k = k, .x = x, .y = y, .average = p };

	rvl_parallel(pool, (uint32_t)(k->g.n * k->g.c), average_plane, &r);
}

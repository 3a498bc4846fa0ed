/* SPDX-License-Identifier: MIT */
/*
 * Max and average pools over 2-D windows and over whole channels. Of an image in NHWC, a row of
 * results is computed pixel by pixel, RUN channels at a time, with the taps in the same order.
 */
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "internal.h"
#include "isa.h"
#include "pool.h"
#include "rows.h"
#include "qmath.h"
#include "ref.h"

struct rvl_pool_taps rvl_pool_taps(const struct rvl_conv_geom *g, const int32_t pad[4], int axis,
				   int64_t out)
{
	int64_t n = axis ? g->w : g->h;
	struct rvl_pool_taps t = { .at = out * g->s[axis] - pad[axis] };

	t.last = g->k[axis];
	t.padded = g->k[axis];
	if (t.at >= 0 && t.at + (g->k[axis] - 1) * g->d[axis] < n)
		return t;	/* without a division */
	if (t.at < 0)
		t.first = (-t.at + g->d[axis] - 1) / g->d[axis];
	if (t.at + (t.last - 1) * g->d[axis] >= n)
		t.last = t.at < n ? (n - 1 - t.at) / g->d[axis] + 1 : 0;
	if (t.at + (t.padded - 1) * g->d[axis] >= n + pad[axis + 2])
		t.padded = (n + pad[axis + 2] - 1 - t.at) / g->d[axis] + 1;
	if (t.first > t.last)
		t.first = t.last;
	return t;
}

struct window {
	const struct rvl_conv_geom *g;
	struct rvl_pool_taps v, h;
};

/* Index in the plane of the largest element under a window, -1 if the window covers no element. */
#define LARGEST(name, type) \
static int64_t name(const struct window *w, const void *plane) \
{ \
	const type *x = plane; \
	int64_t best = -1; \
	for (int64_t ky = w->v.first; ky < w->v.last; ky++) { \
		int64_t row = (w->v.at + ky * w->g->d[0]) * w->g->w; \
		for (int64_t kx = w->h.first; kx < w->h.last; kx++) { \
			int64_t i = row + w->h.at + kx * w->g->d[1]; \
			if (best < 0 || x[i] > x[best]) \
				best = i; \
		} \
	} \
	return best; \
}

LARGEST(largest_f32, float)
LARGEST(largest_u8, uint8_t)
LARGEST(largest_s8, int8_t)

static int64_t largest(enum rvl_type t, const struct window *w, const void *plane)
{
	if (t == RVL_TYPE_F32)
		return largest_f32(w, plane);
	return t == RVL_TYPE_U8 ? largest_u8(w, plane) : largest_s8(w, plane);
}

struct pool_run {
	const struct rvl_kernel *k;
	const char *x;
	char *y;
	int64_t *indices;	/* MaxPool's second output, or NULL */
};

static void put_max(const struct pool_run *r, int64_t plane, int64_t out, int64_t best)
{
	const struct rvl_conv_geom *g = &r->k->g;
	size_t size = rvl_type_size(r->k->d.in[0].type);
	int64_t at = plane * g->oh * g->ow + out;
	int64_t pos = best;

	if (best < 0) {		/* the window lies entirely in the padding */
		rvl_put_least(r->k->d.in[0].type, r->y, at);
		pos = 0;
	} else {
		memcpy(r->y + (size_t)at * size,
		       r->x + (size_t)(plane * g->h * g->w + best) * size, size);
	}
	if (!r->indices)
		return;
	if (r->k->d.attr.storage_order)
		pos = pos % g->w * g->h + pos / g->w;
	r->indices[at] = plane * g->h * g->w + pos;
}

static void max_plane(void *arg, uint32_t i)
{
	const struct pool_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	enum rvl_type t = r->k->d.in[0].type;
	const char *plane = r->x + (size_t)(i * g->h * g->w) * rvl_type_size(t);
	struct window w = { .g = g };

	for (int64_t oy = 0; oy < g->oh; oy++) {
		w.v = rvl_pool_taps(g, r->k->d.attr.pad, 0, oy);
		for (int64_t ox = 0; ox < g->ow; ox++) {
			w.h = rvl_pool_taps(g, r->k->d.attr.pad, 1, ox);
			put_max(r, i, oy * g->ow + ox, largest(t, &w, plane));
		}
	}
}

static int64_t inside(const struct window *w)
{
	return (w->v.last - w->v.first) * (w->h.last - w->h.first);
}

static float mean_f32(const struct window *w, const float *x, bool include_pad)
{
	float sum = 0;
	int64_t n = include_pad ? w->v.padded * w->h.padded : inside(w);

	for (int64_t ky = w->v.first; ky < w->v.last; ky++) {
		const float *row = x + (w->v.at + ky * w->g->d[0]) * w->g->w + w->h.at;

		for (int64_t kx = w->h.first; kx < w->h.last; kx++)
			sum += row[kx * w->g->d[1]];
	}
	return n ? sum / (float)n : 0;
}

static void average_plane(void *arg, uint32_t i)
{
	const struct pool_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_attr *a = &r->k->d.attr;
	const float *plane = (const float *)r->x + i * g->h * g->w;
	float *y = (float *)r->y + i * g->oh * g->ow;
	struct window w = { .g = g };

	for (int64_t oy = 0; oy < g->oh; oy++) {
		w.v = rvl_pool_taps(g, a->pad, 0, oy);
		for (int64_t ox = 0; ox < g->ow; ox++) {
			w.h = rvl_pool_taps(g, a->pad, 1, ox);
			*y++ = mean_f32(&w, plane, a->count_include_pad);
		}
	}
}

int32_t rvl_qaverage(float sum, int64_t n, const struct rvl_qaverage *p)
{
	float v = n ? sum / (float)n : 0;

	v = v / p->ys;
	v = v + (float)p->yz;
	return rvl_clamp(rvl_cvt(v), p->lo, p->hi);
}

/*
 * Under a window that extends beyond the padding (ceil_mode), the float operator counts the
 * positions inside the padded input, and the quantised one counts all positions, as onnxruntime
 * does.
 */
static int32_t qmean_window(const struct window *w, const uint8_t *x, const float *value,
			    bool include_pad, const struct rvl_qaverage *p)
{
	float sum = 0;

	for (int64_t ky = w->v.first; ky < w->v.last; ky++) {
		const uint8_t *row = x + (w->v.at + ky * w->g->d[0]) * w->g->w;

		for (int64_t kx = w->h.first; kx < w->h.last; kx++)
			sum += value[row[w->h.at + kx * w->g->d[1]]];
	}
	return rvl_qaverage(sum, include_pad ? w->g->k[0] * w->g->k[1] : inside(w), p);
}

void rvl_qaverage_values(const struct rvl_qaverage *p, float value[256])
{
	for (int i = 0; i < 256; i++)
		value[i] = p->xs * (float)((p->x_u8 ? i : (int8_t)i) - p->xz);
}

void rvl_ref_qaverage_pool(const struct rvl_conv_geom *g, const int32_t pad[4],
			   bool include_pad, const struct rvl_qaverage *p, const void *x, void *y)
{
	struct window w = { .g = g };
	uint8_t *out = y;
	float value[256];

	rvl_qaverage_values(p, value);
	for (int64_t plane = 0; plane < g->n * g->c; plane++) {
		const uint8_t *in = (const uint8_t *)x + plane * g->h * g->w;

		for (int64_t o = 0; o < g->oh * g->ow; o++) {
			w.v = rvl_pool_taps(g, pad, 0, o / g->ow);
			w.h = rvl_pool_taps(g, pad, 1, o % g->ow);
			rvl_st8(out++, 0, qmean_window(&w, in, value, include_pad, p));
		}
	}
}

/* ---- images in NHWC ---- */

#define GRAIN 16384	/* elements that a thread pools at least */
#define RUN 64	/* channels whose intermediate results are on the stack */

/* Channels [c, c + n) under a window. x: the image from channel c on; y: the pixel's. */
struct pixel {
	const struct rvl_kernel *k;
	const char *x;
	char *y;
	int64_t c, n;
};

#define MAX_TAP(name, type) \
static void name(const void *from, int64_t n, void *to) \
{ \
	const type *x = from; \
	type *best = to; \
	for (int64_t i = 0; i < n; i++) \
		best[i] = x[i] > best[i] ? x[i] : best[i]; \
}

MAX_TAP(max_tap_f32, float)
MAX_TAP(max_tap_u8, uint8_t)
MAX_TAP(max_tap_s8, int8_t)

static void max_tap(enum rvl_type t, const void *x, int64_t n, void *best)
{
	if (t == RVL_TYPE_F32)
		max_tap_f32(x, n, best);
	else if (t == RVL_TYPE_U8)
		max_tap_u8(x, n, best);
	else
		max_tap_s8(x, n, best);
}

#define MAX_TAPS 64

/* The largest bytes under a window of at most MAX_TAPS elements, at least one. */
static void max_bytes(const struct pixel *p, const struct window *w)
{
	const struct rvl_conv_geom *g = w->g;
	const uint8_t *tap[MAX_TAPS];
	int64_t taps = 0;

	for (int64_t ky = w->v.first; ky < w->v.last; ky++) {
		const char *row = p->x + (w->v.at + ky * g->d[0]) * g->xp.y + w->h.at * g->xp.x;

		for (int64_t kx = w->h.first; kx < w->h.last; kx++)
			tap[taps++] = (const uint8_t *)row + kx * g->d[1] * g->xp.x;
	}
	rvl_i8_kernels()->convert->largest(tap, taps, p->k->d.in[0].type == RVL_TYPE_S8 ? 0x80 : 0, p->n,
					   (uint8_t *)p->y);
}

static void max_pixel(const struct pixel *p, const struct window *w)
{
	const struct rvl_conv_geom *g = w->g;
	enum rvl_type t = p->k->d.in[0].type;
	size_t size = rvl_type_size(t), bytes = (size_t)p->n * size;
	bool none = true;

	if (size == 1 && inside(w) > 0 && inside(w) <= MAX_TAPS) {
		max_bytes(p, w);
		return;
	}
	for (int64_t ky = w->v.first; ky < w->v.last; ky++) {
		for (int64_t kx = w->h.first; kx < w->h.last; kx++) {
			int64_t at = (w->v.at + ky * g->d[0]) * g->xp.y +
				     (w->h.at + kx * g->d[1]) * g->xp.x;

			if (none)
				memcpy(p->y, p->x + (size_t)at * size, bytes);
			else
				max_tap(t, p->x + (size_t)at * size, p->n, p->y);
			none = false;
		}
	}
	/* The result of a window that lies in the padding alone. */
	for (int64_t i = 0; none && i < p->n; i++)
		rvl_put_least(t, p->y, i);
}

struct pixels_run {
	const struct rvl_kernel *k;
	const char *x;
	char *y;
	const struct rvl_qaverage *average;
	const float *value;	/* of the 256 bytes */
	int64_t run;		/* channels that pixel() computes at a time */
	void (*pixel)(const struct pixels_run *r, const struct pixel *p, const struct window *w);
};

static void max_of(const struct pixels_run *r, const struct pixel *p, const struct window *w)
{
	(void)r;
	max_pixel(p, w);
}

static void add_values(const uint8_t *x, const float *value, int64_t n, float *sum)
{
	for (int64_t i = 0; i < n; i++)
		sum[i] += value[x[i]];
}

static void mean_of(const struct pixels_run *r, const struct pixel *p, const struct window *w)
{
	const struct rvl_conv_geom *g = w->g;
	int64_t count = r->k->d.attr.count_include_pad ? g->k[0] * g->k[1] : inside(w);
	float sum[RUN] = { 0 };

	for (int64_t ky = w->v.first; ky < w->v.last; ky++)
		for (int64_t kx = w->h.first; kx < w->h.last; kx++)
			add_values((const uint8_t *)p->x + (w->v.at + ky * g->d[0]) * g->xp.y +
				   (w->h.at + kx * g->d[1]) * g->xp.x, r->value, p->n, sum);
	for (int64_t i = 0; i < p->n; i++)
		rvl_st8(p->y, i, rvl_qaverage(sum[i], count, r->average));
}

/* Row @i of the results of all images. */
static void pixel_row(void *arg, uint32_t i)
{
	const struct pixels_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	size_t size = rvl_type_size(r->k->d.in[0].type);
	const char *image = r->x + (size_t)(i / g->oh * g->xp.n) * size;
	char *row = r->y + (size_t)(i / g->oh * g->yp.n + i % g->oh * g->yp.y) * size;
	struct window w = { .g = g, .v = rvl_pool_taps(g, r->k->d.attr.pad, 0, i % g->oh) };

	for (int64_t ox = 0; ox < g->ow; ox++) {
		struct pixel p = { .k = r->k };

		w.h = rvl_pool_taps(g, r->k->d.attr.pad, 1, ox);
		for (; p.c < g->c; p.c += r->run) {
			p.n = g->c - p.c < r->run ? g->c - p.c : r->run;
			p.x = image + (size_t)p.c * size;
			p.y = row + (size_t)(ox * g->yp.x + p.c) * size;
			r->pixel(r, &p, &w);
		}
	}
}

static int run_max_nhwc(const struct rvl_kernel *k, const void *const *in, void *const *out,
			void *scratch, const struct rvl_pool *pool)
{
	struct pixels_run r = { .k = k, .x = in[0], .y = out[0], .pixel = max_of, .run = k->g.c };

	(void)scratch;
	rvl_parallel(pool, (uint32_t)(k->g.n * k->g.oh), pixel_row, &r);
	return 0;
}

/* Rows of the results of one image. */
static void pixel_rows(struct pixels_run *r, const struct rvl_rows *c)
{
	r->x = (const char *)c->in[0];
	r->y = (char *)c->out;
	for (int64_t oy = c->first; oy < c->past; oy++)
		pixel_row(r, (uint32_t)oy);
}

static void max_rows(const struct rvl_kernel *k, const struct rvl_rows *c)
{
	struct pixels_run r = { .k = k, .pixel = max_of, .run = k->g.c };

	pixel_rows(&r, c);
}

const struct rvl_row_kernel rvl_rows_max_pool = { .images = 1, .window = true, .run = max_rows };

static int run_max(const struct rvl_kernel *k, const void *const *in, void *const *out,
		   void *scratch, const struct rvl_pool *pool)
{
	struct pool_run r = { .k = k, .x = in[0], .y = out[0] };

	(void)scratch;
	r.indices = k->d.n_out > 1 ? out[1] : NULL;
	if (!r.indices && !k->reference && rvl_pool_has_rows(&k->g))
		rvl_pool_max_rows(k, in[0], out[0], pool);
	else
		rvl_parallel(pool, (uint32_t)(k->g.n * k->g.c), max_plane, &r);
	return 0;
}

static int run_average(const struct rvl_kernel *k, const void *const *in, void *const *out,
		       void *scratch, const struct rvl_pool *pool)
{
	struct pool_run r = { .k = k, .x = in[0], .y = out[0] };

	(void)scratch;
	if (!k->reference && rvl_pool_has_rows(&k->g))
		rvl_pool_average_rows(k, NULL, in[0], out[0], pool);
	else
		rvl_parallel(pool, (uint32_t)(k->g.n * k->g.c), average_plane, &r);
	return 0;
}

static struct rvl_qaverage average_params(const struct rvl_kernel *k)
{
	const struct rvl_kernel_arg *x = &k->d.in[0], *y = &k->d.out[0];
	bool u8 = y->type == RVL_TYPE_U8;

	return (struct rvl_qaverage) {
		.x_u8 = x->type == RVL_TYPE_U8, .y_u8 = u8,
		.xs = x->quant.scale[0], .xz = x->quant.zp[0],
		.ys = y->quant.scale[0], .yz = y->quant.zp[0],
		.lo = rvl_clamp(k->d.attr.q_lo, rvl_qmin(u8), rvl_qmax(u8)),
		.hi = rvl_clamp(k->d.attr.q_hi, rvl_qmin(u8), rvl_qmax(u8)),
	};
}

static void average_rows(const struct rvl_kernel *k, const struct rvl_rows *c)
{
	struct rvl_qaverage p = average_params(k);
	float value[256];
	struct pixels_run r = { .k = k, .average = &p, .value = value, .pixel = mean_of, .run = RUN };

	rvl_qaverage_values(&p, value);
	pixel_rows(&r, c);
}

const struct rvl_row_kernel rvl_rows_qaverage = { .images = 1, .window = true, .run = average_rows };

static int run_qaverage(const struct rvl_kernel *k, const void *const *in, void *const *out,
			void *scratch, const struct rvl_pool *pool)
{
	struct rvl_qaverage p = average_params(k);

	(void)scratch;
	if (rvl_in_nhwc(&k->d)) {
		float value[256];
		struct pixels_run r = { .k = k, .x = in[0], .y = out[0], .average = &p,
					.value = value, .pixel = mean_of, .run = RUN };

		rvl_qaverage_values(&p, value);
		rvl_parallel(pool, (uint32_t)(k->g.n * k->g.oh), pixel_row, &r);
		return 0;
	}
	if (!k->reference && rvl_pool_has_rows(&k->g))
		rvl_pool_average_rows(k, &p, in[0], out[0], pool);
	else
		rvl_ref_qaverage_pool(&k->g, k->d.attr.pad, k->d.attr.count_include_pad, &p, in[0],
				      out[0]);
	return 0;
}

int rvl_setup_pool(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	enum rvl_type t = d->in[0].type;
	int rc = rvl_conv_geometry(d, NULL, &k->g, why);

	k->reference = reference;
	if (rc)
		return rc;
	if (d->op == RVL_OP_Q_AVERAGE_POOL) {
		k->run = run_qaverage;
		k->rows = rvl_in_nhwc(d) ? &rvl_rows_qaverage : NULL;
		return rvl_is_bytes(&d->in[0]) && rvl_is_bytes(&d->out[0]) ? 0 :
		       rvl_why(why, "operands are not quantised to 8 bits per tensor");
	}
	if (d->out[0].type != t || (t != RVL_TYPE_F32 && (d->op == RVL_OP_AVERAGE_POOL ||
						       (t != RVL_TYPE_U8 && t != RVL_TYPE_S8))))
		return rvl_why(why, "no pool on %s", rvl_type_name(t));
	if (d->n_out > 1 && (d->out[1].type != RVL_TYPE_S64 ||
			     !rvl_shape_equal(&d->out[1].shape, &d->out[0].shape)))
		return rvl_why(why, "indices are not one int64 for each result");
	k->run = d->op != RVL_OP_MAX_POOL ? run_average : rvl_in_nhwc(d) ? run_max_nhwc : run_max;
	k->rows = k->run == run_max_nhwc && t != RVL_TYPE_F32 ? &rvl_rows_max_pool : NULL;
	return 0;
}

/* ---- whole channels ---- */

static int64_t plane_size(const struct rvl_kernel *k)
{
	return rvl_shape_count(&k->d.in[0].shape) / rvl_shape_count(&k->d.out[0].shape);
}

static void global_max(enum rvl_type t, const void *x, int64_t n, void *y)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++) {
		bool more;

		if (t == RVL_TYPE_F32)
			more = ((const float *)x)[i] > ((const float *)x)[best];
		else
			more = rvl_ld8(x, i, t == RVL_TYPE_U8) > rvl_ld8(x, best, t == RVL_TYPE_U8);
		if (more)
			best = i;
	}
	memcpy(y, (const char *)x + (size_t)best * rvl_type_size(t), rvl_type_size(t));
}

/* In four parts, which do not wait for one another. */
static float global_mean(const float *x, int64_t n)
{
	double sum[4] = { 0 };
	int64_t i = 0;

	for (; i + 4 <= n; i += 4)
		for (int j = 0; j < 4; j++)
			sum[j] += (double)x[i + j];
	for (; i < n; i++)
		sum[0] += (double)x[i];
	return (float)((sum[0] + sum[1] + sum[2] + sum[3]) / (double)n);
}

static int32_t global_qmean(const struct rvl_kernel *k, int32_t sum, int64_t n)
{
	const struct rvl_kernel_arg *a = &k->d.in[0], *y = &k->d.out[0];
	bool u8 = y->type == RVL_TYPE_U8;
	float scale = a->quant.scale[0] / (y->quant.scale[0] * (float)n);

	sum = rvl_wrap_add(sum, rvl_wrap_mul(-a->quant.zp[0], (int32_t)n));
	return rvl_requant(sum, scale, y->quant.zp[0],
			   rvl_clamp(k->d.attr.q_lo, rvl_qmin(u8), rvl_qmax(u8)),
			   rvl_clamp(k->d.attr.q_hi, rvl_qmin(u8), rvl_qmax(u8)));
}

#ifdef __SSE2__
/* The sum of @n bytes, a multiple of 64, each with the bits of @flip inverted. */
static uint32_t sum_lines(const uint8_t *x, uint8_t flip, int64_t n)
{
	const __m128i zero = _mm_setzero_si128(), flips = _mm_set1_epi8((char)flip);
	__m128i sum[4] = { zero, zero, zero, zero };

	for (int64_t i = 0; i < n; i += 64) {
		for (int j = 0; j < 4; j++) {
			__m128i v = _mm_loadu_si128((const __m128i *)(x + i + 16 * j));

			sum[j] = _mm_add_epi64(sum[j], _mm_sad_epu8(_mm_xor_si128(v, flips), zero));
		}
	}
	sum[0] = _mm_add_epi64(_mm_add_epi64(sum[0], sum[1]), _mm_add_epi64(sum[2], sum[3]));
	return (uint32_t)(_mm_cvtsi128_si64(sum[0]) + _mm_cvtsi128_si64(_mm_srli_si128(sum[0], 8)));
}
#else
static uint32_t sum_lines(const uint8_t *x, uint8_t flip, int64_t n)
{
	uint32_t sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (uint8_t)(x[i] ^ flip);
	return sum;
}
#endif

/* int8 becomes uint8 by adding 128. */
static int32_t plane_sum(const uint8_t *x, bool u8, int64_t n)
{
	uint8_t flip = u8 ? 0 : 0x80;
	int64_t lines = n / 64 * 64;
	uint32_t sum = sum_lines(x, flip, lines) - (u8 ? 0 : 128 * (uint32_t)n);

	for (int64_t i = lines; i < n; i++)
		sum += (uint8_t)(x[i] ^ flip);
	return (int32_t)sum;
}

/* The largest elements of @n channels, @plane pixels @stride apart. */
static void global_max_run(enum rvl_type t, const char *x, int64_t stride, int64_t plane, int64_t n,
			   char *y)
{
	size_t size = rvl_type_size(t);

	memcpy(y, x, (size_t)n * size);
	for (int64_t i = 1; i < plane; i++)
		max_tap(t, x + (size_t)(i * stride) * size, n, y);
}

/* Modulo 2^32. */
static void add_bytes(const uint8_t *x, bool u8, int64_t n, uint32_t *sum)
{
	if (u8)
		for (int64_t i = 0; i < n; i++)
			sum[i] += x[i];
	else
		for (int64_t i = 0; i < n; i++)
			sum[i] += (uint32_t)(int8_t)x[i];
}

static void global_mean_run(const struct rvl_kernel *k, const uint8_t *x, int64_t stride,
			    int64_t plane, int64_t n, uint8_t *y)
{
	uint32_t sum[RUN] = { 0 };

	for (int64_t i = 0; i < plane; i++)
		add_bytes(x + i * stride, k->d.in[0].type == RVL_TYPE_U8, n, sum);
	for (int64_t i = 0; i < n; i++)
		rvl_st8(y, i, global_qmean(k, (int32_t)sum[i], plane));
}

struct global_run {
	const struct rvl_kernel *k;
	const char *x;
	char *y;
};

/* Runs of channels of images in NHWC. */
static void global_runs(void *arg, int64_t first, int64_t past)
{
	const struct global_run *r = arg;
	const struct rvl_kernel_arg *x = &r->k->d.in[0];
	int64_t channels = x->shape.dim[1], plane = plane_size(r->k);
	int64_t runs = (channels + RUN - 1) / RUN;
	size_t size = rvl_type_size(x->type);
	struct rvl_pitch p = rvl_pitch_of(x);

	for (int64_t i = first; i < past; i++) {
		int64_t image = i / runs, c = i % runs * RUN;
		int64_t n = channels - c < RUN ? channels - c : RUN;
		const char *from = r->x + (size_t)(image * p.n + c) * size;
		char *to = r->y + (size_t)(image * channels + c) * size;

		if (r->k->d.op == RVL_OP_GLOBAL_MAX_POOL)
			global_max_run(x->type, from, p.x, plane, n, to);
		else
			global_mean_run(r->k, (const uint8_t *)from, p.x, plane, n, (uint8_t *)to);
	}
}

static int run_global_nhwc(const struct rvl_kernel *k, const void *const *in, void *const *out,
			   void *scratch, const struct rvl_pool *pool)
{
	struct global_run r = { .k = k, .x = in[0], .y = out[0] };
	const int64_t *dim = k->d.in[0].shape.dim;

	(void)scratch;
	rvl_parallel_range(pool, dim[0] * ((dim[1] + RUN - 1) / RUN), 1 + GRAIN / (plane_size(k) * RUN),
			   global_runs, &r);
	return 0;
}

static void global_planes(void *arg, int64_t first, int64_t past)
{
	const struct global_run *r = arg;
	enum rvl_type t = r->k->d.in[0].type;
	int64_t n = plane_size(r->k);

	for (int64_t i = first; i < past; i++) {
		const char *x = r->x + (size_t)(i * n) * rvl_type_size(t);

		if (r->k->d.op == RVL_OP_GLOBAL_MAX_POOL)
			global_max(t, x, n, r->y + (size_t)i * rvl_type_size(t));
		else if (r->k->d.op == RVL_OP_GLOBAL_AVERAGE_POOL)
			((float *)r->y)[i] = global_mean((const float *)x, n);
		else
			rvl_st8(r->y, i, global_qmean(r->k, plane_sum((const uint8_t *)x,
								       t == RVL_TYPE_U8, n), n));
	}
}

static int run_global(const struct rvl_kernel *k, const void *const *in, void *const *out,
		      void *scratch, const struct rvl_pool *pool)
{
	struct global_run r = { .k = k, .x = in[0], .y = out[0] };

	(void)scratch;
	rvl_parallel_range(pool, rvl_shape_count(&k->d.out[0].shape), 1 + GRAIN / plane_size(k),
			   global_planes, &r);
	return 0;
}

int rvl_setup_global_pool(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_shape *x = &d->in[0].shape;
	enum rvl_type t = d->in[0].type;

	(void)reference;
	if (x->rank < 3 || rvl_shape_count(&d->out[0].shape) != x->dim[0] * x->dim[1] ||
	    rvl_shape_count(x) == 0)
		return rvl_why(why, "output is not one value per channel");
	if (d->op == RVL_OP_Q_GLOBAL_AVERAGE_POOL) {
		if (!rvl_is_bytes(&d->in[0]) || !rvl_is_bytes(&d->out[0]))
			return rvl_why(why, "operands are not quantised to 8 bits per tensor");
	} else if (d->out[0].type != t || (t != RVL_TYPE_F32 &&
		   (d->op == RVL_OP_GLOBAL_AVERAGE_POOL ||
		    (t != RVL_TYPE_U8 && t != RVL_TYPE_S8)))) {
		return rvl_why(why, "no pool on %s", rvl_type_name(t));
	}
	k->run = rvl_in_nhwc(d) ? run_global_nhwc : run_global;
	return 0;
}

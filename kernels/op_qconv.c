/* SPDX-License-Identifier: MIT */
/*
 * Quantised convolution. The micro-kernels of int8/ read images channels last,
 * through pointers to the pixels under each kernel position; a position in the padding points to
 * pixels with the value of the zero point. PLAIN images are reordered in scratch memory, those of float32
 * are quantised on that way, and images in NHWC are read and written where they lie.
 */
#include <string.h>

#include "int8/product.h"
#include "int8/winograd.h"
#include "internal.h"
#include "isa.h"
#include "qproduct.h"
#include "ref.h"
#include "rows.h"
#include "sizes.h"

/* Bytes of an image, and of the channels of a window. The reference kernel does larger ones. */
#define MAX_IMAGE ((int64_t)1 << 28)
#define MAX_WINDOW ((int64_t)1 << 20)

struct conv_run {
	const struct rvl_kernel *k;
	const uint8_t *x;	/* one image, of floats where the kernel quantises it */
	uint8_t *y;
	uint8_t *ordered;	/* scratch for @pixels, unless they are the image */
	const uint8_t *pixels;	/* [h][w][c], @x_step bytes from pixel to pixel */
	uint8_t *results;	/* [oh][ow][m], likewise @y_step; scratch, or the output */
	float *floats;		/* the output, where it is of floats */
	const float *added;	/* ... to which this is added */
	int64_t x_step, y_step;
	const uint8_t *zeros;	/* the pixels under a tap in the padding */
	uint8_t *prepared;	/* memory of rvl_i8_run(), or for these pixels */
	/* Outputs [from, past) by axis have windows inside the image whose rows are adjacent bytes. */
	int64_t from[2], past[2];
};

/* Whether the operand or the result is in the order of the micro-kernels. */
static bool is_ordered(const struct rvl_pitch *p, int64_t channels)
{
	return p->c == 1 || channels == 1;
}

/* Whether the micro-kernels read the operand where it lies. */
static bool reads_in_place(const struct rvl_kernel *k)
{
	return !k->d.quantise && is_ordered(&k->g.xp, k->g.c);
}

#define PIXELS 256	/* that one call reorders */
#define PLANES 16	/* of floats that are quantised at a time */

static int64_t parts(int64_t pixels)
{
	return (pixels + PIXELS - 1) / PIXELS;
}

static int64_t part_of(int64_t pixels, uint32_t i)
{
	int64_t left = pixels - (int64_t)i * PIXELS;

	return left < PIXELS ? left : PIXELS;
}

/* @n pixels of @channels of the channels: from planes, @pitch bytes apart, to channels last. */
static void interleave(const struct conv_run *r, const uint8_t *x, int64_t pitch, int64_t channels, int64_t n,
		       uint8_t *y)
{
	int64_t c = r->k->g.c;

	if (c == 3)
		r->k->i8->f->convert->interleave3(x, pitch, n, y);
	else if (c == 1)
		memcpy(y, x, (size_t)n);
	else
		rvl_i8_transpose(x, pitch, channels, n, y, c);
}

/* The same for all channels of floats, some planes at a time. */
static void quantise_pixels(const struct conv_run *r, int64_t at, int64_t n)
{
	const struct rvl_conv_geom *g = &r->k->g;
	const float *x = (const float *)(const void *)r->x + at;
	uint8_t planes[PLANES][PIXELS], *y = r->ordered + at * g->c;

	for (int64_t c = 0; c < g->c; c += PLANES) {
		int64_t some = rvl_least(PLANES, g->c - c);

		for (int64_t i = 0; i < some; i++)
			r->k->i8->f->convert->quantize(r->k->d.quantise, x + (c + i) * g->xp.c, n, planes[i]);
		interleave(r, planes[0], PIXELS, some, n, y + c);
	}
}

/* @n pixels of the image, at most PIXELS, from PLAIN to channels last. */
static void order_pixels(const struct conv_run *r, int64_t at, int64_t n)
{
	const struct rvl_conv_geom *g = &r->k->g;

	if (r->k->d.quantise)
		quantise_pixels(r, at, n);
	else
		interleave(r, r->x + at, g->xp.c, g->c, n, r->ordered + at * g->c);
}

static void order_part(void *arg, uint32_t i)
{
	const struct conv_run *r = arg;

	order_pixels(r, (int64_t)i * PIXELS, part_of(r->k->g.h * r->k->g.w, i));
}

/* Part @i of the results, from channels last to PLAIN. */
static void restore_part(void *arg, uint32_t i)
{
	const struct conv_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t n = part_of(g->oh * g->ow, i), at = (int64_t)i * PIXELS;

	rvl_i8_transpose(r->results + at * g->m, g->m, n, g->m, r->y + at, g->yp.c);
}

/* ---- dense and grouped ---- */

/* Kernel positions [*k0, *k1) along an axis lie inside an input of @n for the output @o. */
static void inside(const struct rvl_conv_geom *g, int axis, int64_t o, int64_t n, int64_t *k0,
		   int64_t *k1)
{
	int64_t at = o * g->s[axis] - g->pad[axis], d = g->d[axis];

	if (d == 1) {	/* a division would take as long as the copy of a window */
		*k0 = at < 0 ? -at : 0;
		*k1 = at < n ? n - at : 0;
	} else {
		*k0 = at < 0 ? (-at + d - 1) / d : 0;
		*k1 = at < n ? (n - at + d - 1) / d : 0;
	}
	*k1 = *k1 < g->k[axis] ? *k1 : g->k[axis];
	*k0 = *k0 < *k1 ? *k0 : *k1;
}

/*
 * Pointers to the pixels under every position of the window of output (@oy, @ox), @step apart. This
 * runs for every output, so it divides nothing.
 */
static void point(const struct conv_run *r, int64_t oy, int64_t ox, int64_t channel, int64_t step,
		  const uint8_t **p)
{
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t iy = oy * g->s[0] - g->pad[0], x0 = ox * g->s[1] - g->pad[1];

	for (int64_t ky = 0; ky < g->k[0]; ky++, iy += g->d[0]) {
		const uint8_t *row = r->pixels + iy * g->w * r->x_step + channel;
		bool in = iy >= 0 && iy < g->h;

		for (int64_t kx = 0, ix = x0; kx < g->k[1]; kx++, p += step, ix += g->d[1])
			*p = in && ix >= 0 && ix < g->w ? row + ix * r->x_step : r->zeros;
	}
}

/* As memcpy(), for few bytes. The last eight overlap those before them. */
static uint8_t *copy(uint8_t *dst, const uint8_t *src, int64_t n)
{
	if (n >= 64) {
		memcpy(dst, src, (size_t)n);
	} else if (n >= 8) {
		for (int64_t i = 0; i + 8 < n; i += 8)
			memcpy(dst + i, src + i, 8);
		memcpy(dst + n - 8, src + n - 8, 8);
	} else {
		for (int64_t i = 0; i < n; i++)
			dst[i] = src[i];
	}
	return dst + n;
}

/*
 * The window of one output as adjacent bytes. Where the channels are those of whole pixels, adjacent
 * pixels are copied together.
 */
static uint8_t *gather(const struct conv_run *r, int64_t oy, int64_t ox, int64_t channel,
		       uint8_t *dst)
{
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t c = r->k->i8->channels, y0, y1, x0, x1;
	int64_t ix = ox * g->s[1] - g->pad[1];
	bool joined = g->d[1] == 1 && c == r->x_step;

	inside(g, 0, oy, g->h, &y0, &y1);
	inside(g, 1, ox, g->w, &x0, &x1);
	for (int64_t ky = 0; ky < g->k[0]; ky++) {
		int64_t iy = oy * g->s[0] + ky * g->d[0] - g->pad[0];
		bool row = ky >= y0 && ky < y1;

		for (int64_t kx = 0, n; kx < g->k[1]; kx += n) {
			bool in = row && kx >= x0 && kx < x1;
			int64_t at = (iy * g->w + ix + kx * g->d[1]) * r->x_step + channel;

			n = joined && in ? x1 - kx : 1;
			dst = copy(dst, in ? r->pixels + at : r->zeros, n * c);
		}
	}
	return dst;
}

/* As memcpy() for at least 8 bytes, without a call. */
static inline void copy_row(uint8_t *dst, const uint8_t *src, int64_t n)
{
	for (int64_t i = 0; i + 8 < n; i += 8)
		memcpy(dst + i, src + i, 8);
	memcpy(dst + n - 8, src + n - 8, 8);
}

/* The first byte of a window inside the image, whose pixels are adjacent. */
static const uint8_t *window_of(const struct conv_run *r, int64_t oy, int64_t ox)
{
	const struct rvl_conv_geom *g = &r->k->g;

	return r->pixels + ((oy * g->s[0] - g->pad[0]) * g->w + ox * g->s[1] - g->pad[1]) * g->c;
}

/* gather() of a window whose rows have adjacent bytes, at least 8. */
static uint8_t *gather_rows(const struct conv_run *r, int64_t oy, int64_t ox, uint8_t *dst)
{
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t n = g->k[1] * g->c, pitch = g->d[0] * g->w * g->c;
	const uint8_t *src = window_of(r, oy, ox);

	for (int64_t ky = 0; ky < g->k[0]; ky++, src += pitch, dst += n)
		copy_row(dst, src, n);
	return dst;
}

/* The outputs along an axis whose windows do not pass the ends of the image. */
static void find_inside(struct conv_run *r, int axis, int64_t outputs, int64_t n)
{
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t s = g->s[axis], last = n - 1 - g->d[axis] * (g->k[axis] - 1) + g->pad[axis];

	r->from[axis] = g->pad[axis] > 0 ? (g->pad[axis] + s - 1) / s : 0;
	r->past[axis] = last < 0 ? 0 : last / s + 1;
	r->past[axis] = r->past[axis] < outputs ? r->past[axis] : outputs;
}

static void find_rows(struct conv_run *r)
{
	const struct rvl_conv_geom *g = &r->k->g;

	r->past[0] = r->past[1] = 0;
	if (g->d[1] != 1 || r->k->i8->channels != g->c || r->x_step != g->c || g->k[1] * g->c < 8)
		return;
	find_inside(r, 0, g->oh, g->h);
	find_inside(r, 1, g->ow, g->w);
}

static bool has_rows(const struct conv_run *r, int64_t oy, int64_t ox)
{
	return oy >= r->from[0] && oy < r->past[0] && ox >= r->from[1] && ox < r->past[1];
}

/* Whether output i reads pixel i and no other. */
static bool is_pointwise(const struct rvl_conv_geom *g)
{
	return g->k[0] * g->k[1] == 1 && g->s[0] == 1 && g->s[1] == 1 && !g->pad[0] && !g->pad[1] &&
	       g->oh == g->h && g->ow == g->w;
}

static void fill_conv(const struct rvl_i8_job *j, int64_t group, int64_t row, int n, void *dst)
{
	const struct conv_run *r = j->ctx;
	const struct rvl_i8_mat *m = j->m;
	int64_t channel = group * m->channels, bytes = m->positions * m->channels;
	int64_t ow = r->k->g.ow, oy = row / ow, ox = row % ow;

	if (!m->gathers && is_pointwise(&r->k->g)) {
		for (int i = 0; i < n; i++)
			((const uint8_t **)dst)[i] = r->pixels + (row + i) * r->x_step + channel;
		return;
	}
	for (int i = 0; i < n; i++, ox++) {
		uint8_t *to = (uint8_t *)dst + i * m->kc, *end;

		if (ox == ow) {
			ox = 0;
			oy++;
		}
		if (!m->gathers) {
			point(r, oy, ox, channel, m->f->mr, (const uint8_t **)dst + i);
			continue;
		}
		end = has_rows(r, oy, ox) ? gather_rows(r, oy, ox, to) : gather(r, oy, ox, channel, to);
		for (int64_t plane = 1; plane < m->planes; plane++)
			end = copy(end, to, bytes);
		while (end < to + m->kc)
			*end++ = 0;
	}
}

/* The windows as int16. Those that pass the end of the image are gathered in the rear half of their place. */
static void fill_wide(const struct rvl_i8_job *j, int64_t row, int n, int16_t *dst)
{
	const struct conv_run *r = j->ctx;
	const struct rvl_i8_mat *m = j->m;
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t oy = row / g->ow, ox = row % g->ow, bytes = m->positions * m->channels;

	for (int i = 0; i < n; i++, ox++, dst += m->kc) {
		uint8_t *rear = (uint8_t *)dst + m->kc;

		if (ox == g->ow) {
			ox = 0;
			oy++;
		}
		if (has_rows(r, oy, ox)) {
			m->f->widen_window(window_of(r, oy, ox), g->d[0] * g->w * g->c, g->k[0],
					   g->k[1] * g->c, m->x_u8, dst);
			continue;
		}
		gather(r, oy, ox, 0, rear);
		m->f->widen(&(const uint8_t *) { rear }, 1, 0, bytes, m->x_u8, dst);
	}
}

/* Whether the windows are widened where they lie: only scratch may be read beyond its end. */
static bool widens_windows(const struct conv_run *r)
{
	const struct rvl_i8_mat *m = r->k->i8;

	return m->widens && m->gathers && !m->bits && m->planes == 1 && m->groups == 1 && m->f->widen_window &&
	       r->past[0] && !reads_in_place(r->k);
}

/* Whether the windows are those of int8/winograd.h. */
static bool has_tiles(const struct rvl_conv_geom *g)
{
	return g->k[0] == 3 && g->k[1] == 3 && g->s[0] == 1 && g->s[1] == 1 && g->d[0] == 1 && g->d[1] == 1;
}

static void point_at_tile(const void *ctx, int64_t oy, int64_t ox, int64_t channel, const uint8_t **p)
{
	const struct conv_run *r = ctx;
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t y0 = oy - g->pad[0], x0 = ox - g->pad[1], side = r->k->i8->filter->side;

	for (int64_t iy = y0; iy < y0 + side; iy++)
		for (int64_t ix = x0; ix < x0 + side; ix++) {
			bool in = iy >= 0 && iy < g->h && ix >= 0 && ix < g->w;

			*p++ = (in ? r->pixels + (iy * g->w + ix) * r->x_step : r->zeros) + channel;
		}
}

static struct rvl_i8_wino_shape shape_of(const struct rvl_conv_geom *g)
{
	return (struct rvl_i8_wino_shape) { .oh = g->oh, .ow = g->ow, .pixels = g->h * g->w };
}

static void run_winograd(const struct conv_run *r, const struct rvl_pool *pool)
{
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_i8_wino_job j = {
		.m = r->k->i8, .shape = shape_of(g), .pixels = point_at_tile, .ctx = r, .y = r->results,
		.y_stride = r->y_step, .scratch = r->prepared,
	};

	rvl_i8_wino_run(&j, pool);
}

/* The pixels where each one is a row of the product. */
static const uint8_t *dense_rows(const struct conv_run *r)
{
	const struct rvl_conv_geom *g = &r->k->g;

	return is_pointwise(g) && g->group == 1 && r->x_step == g->c ? r->pixels : NULL;
}

static void run_dense(const struct conv_run *r, const struct rvl_pool *pool)
{
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_qparams *q = &r->k->q;
	struct rvl_i8_job j = {
		.m = r->k->i8, .rows = g->oh * g->ow, .fill = fill_conv, .ctx = r, .y = r->results,
		.y_stride = r->y_step, .scratch = r->prepared, .dense = dense_rows(r),
		.wide = widens_windows(r) ? fill_wide : NULL,
		.f32 = {
			.y = r->floats, .added = r->added, .lo = q->f_lo, .hi = q->f_hi,
			.row_step = g->yp.c == 1 ? r->y_step : 1, .column_step = g->yp.c,
		},
	};

	rvl_i8_run(&j, pool);
}

/* ---- depthwise ---- */

/* Whether windows are those of struct rvl_i8_slide. */
static bool slides(const struct rvl_conv_geom *g)
{
	return g->k[0] == 3 && g->k[1] == 3 && g->d[1] == 1 && g->s[1] <= 2;
}

/* A row of results from windows that slide over it. */
static void slide(const struct conv_run *r, int64_t oy, struct rvl_i8_dw_call *c)
{
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t iy = oy * g->s[0] - g->pad[0];
	const uint8_t *p[3];

	for (int i = 0; i < 3; i++, iy += g->d[0])
		p[i] = (iy >= 0 && iy < g->h ? r->pixels + iy * g->w * r->x_step : r->zeros) -
		       g->pad[1] * r->x_step;
	c->p = p;
	c->column = r->x_step;
	c->first = g->pad[1];
	c->past = g->pad[1] + g->w;
	c->pad = (uint8_t)r->k->q.xz;
	c->pixels = g->ow;
	r->k->i8->dw->run(c);
}

/* @n adjacent outputs from output @ox on. If windows pass the left or right end of the image, @n
 * is 1. */
static void other_windows(const struct conv_run *r, int64_t oy, int64_t ox, int64_t n,
			  struct rvl_i8_dw_call *c)
{
	const struct rvl_i8_mat *m = r->k->i8;
	const uint8_t *p[RVL_I8_DW_TAPS];

	point(r, oy, ox, 0, 1, p);
	for (int64_t t = m->positions; t < m->taps; t++)
		p[t] = p[t - m->positions];
	c->p = p;
	c->pixels = n;
	m->dw->run(c);
	c->y += n * c->y_stride;
}

static void depthwise_row(void *arg, uint32_t oy)
{
	const struct conv_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_i8_mat *m = r->k->i8;
	struct rvl_i8_dw_call c = {
		.taps = m->taps,
		.x_step = g->s[1] * r->x_step,
		.channels = g->c,
		.w = m->w,
		.bias = m->bias,
		.scale = m->scale,
		.y_stride = r->y_step,
		.y = r->results + oy * g->ow * r->y_step,
		.x_u8 = m->x_u8,
		.post = &m->post,
	};

	if (m->slide) {
		slide(r, oy, &c);
		return;
	}
	for (int64_t ox = 0, n; ox < g->ow; ox += n) {
		int64_t k0, k1, ix = ox * g->s[1] - g->pad[1];

		n = 1;
		inside(g, 1, ox, g->w, &k0, &k1);
		if (k0 == 0 && k1 == g->k[1])
			n = (g->w - 1 - ix - g->d[1] * (g->k[1] - 1)) / g->s[1] + 1;
		n = n < g->ow - ox ? n : g->ow - ox;
		other_windows(r, oy, ox, n, &c);
	}
}

/* ---- all ---- */

/* Bytes between pixels where the micro-kernels read or write them. */
static int64_t pixel_step(const struct rvl_pitch *p, int64_t channels)
{
	return p->c == 1 && p->x > channels ? p->x : channels;
}

/* Scratch of a depthwise kernel for a row of pixels in the padding, where at least one pixel is. */
static int64_t zeros_bytes(const struct rvl_conv_geom *g)
{
	return rvl_round_up((g->w ? g->w : 1) * pixel_step(&g->xp, g->c), 64);
}

/* The pixels in the padding: of a depthwise kernel in @mem, else those that setup_fast() made. */
static const uint8_t *find_zeros(const struct rvl_kernel *k, uint8_t *mem)
{
	if (!k->i8->dw)
		return k->zeros;
	memset(mem, k->q.xz, (size_t)zeros_bytes(&k->g));
	return mem;
}

/* Scratch for the image, and for the results, in the order of the micro-kernels; 0: none. */
static int64_t ordered_bytes(const struct rvl_kernel *k)
{
	const struct rvl_conv_geom *g = &k->g;

	return reads_in_place(k) ? 0 : rvl_round_up(g->h * g->w * g->c + RVL_I8_BEYOND, 64);
}

static int64_t result_bytes(const struct rvl_kernel *k)
{
	const struct rvl_conv_geom *g = &k->g;

	return k->q.floats || is_ordered(&g->yp, g->m) ? 0 : rvl_round_up(g->oh * g->ow * g->m, 64);
}

static int run_fast(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_conv_geom *g = &k->g;
	struct conv_run r = { .k = k, .ordered = scratch };
	int64_t size = k->d.quantise ? (int64_t)sizeof(float) : 1, ordered = ordered_bytes(k);
	uint8_t *results = r.ordered + ordered;

	r.prepared = results + result_bytes(k);
	r.zeros = find_zeros(k, r.prepared);
	r.x_step = pixel_step(&g->xp, g->c);
	r.y_step = pixel_step(&g->yp, g->m);
	r.added = rvl_q_with_bias(k, in).added;
	for (int64_t n = 0; n < g->n; n++) {
		r.x = (const uint8_t *)in[0] + n * g->xp.n * size;
		r.y = (uint8_t *)out[0] + n * g->yp.n;
		r.floats = k->q.floats ? (float *)out[0] + n * g->yp.n : NULL;
		r.pixels = ordered ? r.ordered : r.x;
		r.results = result_bytes(k) ? results : r.y;
		if (ordered)
			rvl_parallel(pool, (uint32_t)parts(g->h * g->w), order_part, &r);
		find_rows(&r);
		if (k->i8->dw)
			rvl_parallel(pool, (uint32_t)g->oh, depthwise_row, &r);
		else if (k->i8->filter)
			run_winograd(&r, pool);
		else
			run_dense(&r, pool);
		if (result_bytes(k))
			rvl_parallel(pool, (uint32_t)parts(g->oh * g->ow), restore_part, &r);
	}
	return 0;
}

/* ---- some rows ---- */

/* Scratch for the rows of the image that @rows rows of the results read. */
static int64_t ordered_rows_bytes(const struct rvl_kernel *k, int64_t rows)
{
	const struct rvl_conv_geom *g = &k->g;
	int64_t most = (rows - 1) * g->s[0] + (g->k[0] - 1) * g->d[0] + 1;

	if (reads_in_place(k))
		return 0;
	return rvl_round_up(rvl_least(most, g->h) * g->w * g->c + RVL_I8_BEYOND, 64);
}

/* The place where row 0 of the image would be if its rows lay in @mem from the first one read on. */
static const uint8_t *order_rows(const struct conv_run *r, const struct rvl_rows *c)
{
	const struct rvl_conv_geom *g = &r->k->g;
	struct rvl_row_range x = rvl_rows_under(r->k, (struct rvl_row_range) { c->first, c->past });
	struct conv_run moved = *r;

	moved.ordered = c->scratch - x.first * g->w * g->c;
	for (int64_t at = x.first * g->w, past = x.past * g->w; at < past; at += PIXELS)
		order_pixels(&moved, at, rvl_least(PIXELS, past - at));
	return moved.ordered;
}

static void run_rows(const struct rvl_kernel *k, const struct rvl_rows *c)
{
	const struct rvl_conv_geom *g = &k->g;
	struct conv_run r = {
		.k = k, .x = c->in[0], .pixels = c->in[0], .results = c->out,
		.x_step = pixel_step(&g->xp, g->c), .y_step = pixel_step(&g->yp, g->m),
	};
	struct rvl_i8_job j = {
		.m = k->i8, .first = c->first * g->ow, .rows = (c->past - c->first) * g->ow,
		.fill = fill_conv, .ctx = &r, .y = c->out, .y_stride = r.y_step,
		.scratch = c->scratch + ordered_rows_bytes(k, c->past - c->first),
	};

	if (!reads_in_place(k))
		r.pixels = order_rows(&r, c);
	r.zeros = find_zeros(k, j.scratch);
	find_rows(&r);
	if (!k->i8->dw) {
		j.dense = dense_rows(&r);
		j.wide = widens_windows(&r) ? fill_wide : NULL;
		rvl_i8_run_rows(&j);
		return;
	}
	for (int64_t oy = c->first; oy < c->past; oy++)
		depthwise_row(&r, (uint32_t)oy);
}

static int64_t rows_scratch(const struct rvl_kernel *k, int64_t rows)
{
	return ordered_rows_bytes(k, rows) + (k->i8->dw ? zeros_bytes(&k->g) : rvl_i8_rows_scratch(k->i8));
}

const struct rvl_row_kernel rvl_rows_qconv = {
	.images = 1, .window = true, .run = run_rows, .scratch = rows_scratch,
};

static int run_ref(const struct rvl_kernel *k, const void *const *in, void *const *out,
		   void *scratch, const struct rvl_pool *pool)
{
	struct rvl_qparams q = rvl_q_with_bias(k, in);

	(void)scratch;
	(void)pool;
	rvl_ref_qconv(&k->g, &q, in[0], in[1], out[0]);
	return 0;
}

/* Groups that are computed as one have weights of zero between one another. */
static int32_t merged_weight_at(const void *ctx, int64_t n, int64_t tap, int64_t c)
{
	const struct rvl_q_weights *x = ctx;
	const struct rvl_conv_geom *g = &x->k->g;
	int64_t group = n / (g->m / g->group), cg = g->c / g->group;

	return c / cg == group % x->merged ? rvl_q_weight(ctx, n, tap, c % cg) : 0;
}

/*
 * How many groups are computed as one: as many as fill a block of columns. Their weights take no more
 * products than the columns that a group alone would leave empty.
 */
static int64_t groups_merged(const struct rvl_conv_geom *g)
{
	int64_t merged = 1, most = rvl_i8_kernels()->nr / (g->m / g->group);

	for (int64_t n = 2; n <= most && n <= g->group; n++)
		merged = g->group % n ? merged : n;
	return merged;
}

static int setup_dense(struct rvl_kernel *k)
{
	const struct rvl_conv_geom *g = &k->g;
	int64_t taps = g->k[0] * g->k[1], cg = g->c / g->group, merged = groups_merged(g);
	const struct rvl_i8_wino_shape shape = shape_of(g);
	struct rvl_q_weights ctx = {
		.k = k, .w = k->d.in[1].data, .row = cg * taps, .tap = 1, .col = taps,
		.merged = merged,
	};
	struct rvl_i8_source s = {
		.weight = merged > 1 ? merged_weight_at : rvl_q_weight, .ctx = &ctx,
		.groups = g->group / merged,
		.n = merged * (g->m / g->group), .rows = g->oh * g->ow, .taps = taps, .kc = merged * cg,
		.tiled = has_tiles(g) && !k->q.floats,
	};

	k->i8 = rvl_i8_pack(k, &s, &k->q);
	if (!k->i8)
		return -ENOMEM;
	k->i8->filter = s.tiled ? rvl_i8_wino_choose(k->i8, &shape) : NULL;
	k->scratch += (size_t)(k->i8->filter ? rvl_i8_wino_scratch(k->i8, k->i8->filter, &shape) :
			       rvl_i8_scratch(k->i8, s.rows));
	return 0;
}

/* Whether pointers and copies of the image fit the memory of a kernel. */
static bool fits(const struct rvl_conv_geom *g)
{
	int64_t in, out, window;

	return !__builtin_mul_overflow(g->h * g->w, g->c, &in) && in <= MAX_IMAGE &&
	       !__builtin_mul_overflow(g->oh * g->ow, g->m, &out) && out <= MAX_IMAGE &&
	       !__builtin_mul_overflow(g->k[0] * g->k[1], g->c, &window) &&
	       window <= MAX_WINDOW;
}

static int setup_depthwise(struct rvl_kernel *k)
{
	const struct rvl_conv_geom *g = &k->g;
	int64_t taps = g->k[0] * g->k[1];
	bool fits_taps;
	struct rvl_q_weights ctx = { .k = k, .w = k->d.in[1].data, .row = taps, .tap = 1, .col = taps };
	struct rvl_i8_source s = {
		.weight = rvl_q_weight, .ctx = &ctx, .groups = 1, .n = g->m, .taps = taps, .kc = 1,
		.slides = slides(g),
	};

	k->i8 = rvl_i8_pack_dw(k, &s, &k->q, &fits_taps);
	if (!fits_taps)
		return setup_dense(k);
	return k->i8 ? 0 : -ENOMEM;
}

/* The pixel under a tap in the padding. A depthwise kernel reads a row of them, from its workspace. */
static int make_zeros(struct rvl_kernel *k)
{
	int64_t bytes = pixel_step(&k->g.xp, k->g.c);

	if (is_pointwise(&k->g))
		return 0;
	k->zeros = rvl_kernel_mem(k, bytes, 1);
	if (!k->zeros)
		return -ENOMEM;
	memset(k->zeros, k->q.xz, (size_t)bytes);
	return 0;
}

static int setup_fast(struct rvl_kernel *k)
{
	const struct rvl_conv_geom *g = &k->g;
	bool depthwise = g->group > 1 && g->group == g->c && g->group == g->m && !k->q.floats;
	int rc;

	if (!g->m || !fits(g))
		return 0;	/* the reference needs no copies */
	k->scratch = (size_t)(ordered_bytes(k) + result_bytes(k));
	k->run = run_fast;
	k->rows = result_bytes(k) || k->q.floats ? NULL : &rvl_rows_qconv;
	rc = depthwise ? setup_depthwise(k) : setup_dense(k);
	if (rc)
		return rc;
	rvl_q_drop_params(k, g->m);
	if (!k->i8->dw)
		return make_zeros(k);
	k->scratch += (size_t)zeros_bytes(g);
	return 0;
}

static int setup_any(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	int rc = rvl_conv_geometry(d, &d->in[1], &k->g, why);

	if (rc)
		return rc;
	if (!rvl_q_fits(d))
		return rvl_why(why, "operands are not quantised to 8 bits");
	rc = rvl_q_params(k, k->g.m, 1.0f, why);
	if (rc)
		return rc;
	if (d->attr.sc_length)
		return rvl_setup_sc(k, reference, why);
	k->run = run_ref;
	if (reference || !d->in[1].data || (d->n_in > 2 && !d->in[2].data && !k->q.floats))
		return 0;
	return setup_fast(k);
}

int rvl_setup_qconv(struct rvl_kernel *k, bool reference, char *why)
{
	int rc = setup_any(k, reference, why);

	if (!rc && k->d.quantise && k->run != run_fast)
		return rvl_why(why, "the kernel does not quantise its operand");
	return rc;
}

/* SPDX-License-Identifier: MIT */
/*
 * The elements under the taps of a convolution, as panels of a product. The part of the image under
 * a few channels is copied with its padding, each row divided by the stride, so that the elements
 * under a tap of adjacent results are adjacent. An image without padding and of stride 1 is read in
 * place. Where the part does not fit in the memory, the taps are visited one by one.
 */
#include "float/gather.h"

#include "float/conv.h"
#include "float/rows.h"
#include "isa.h"

#define MOST_K	    512 /* elements of the kernels that are gathered together */
#define MOST_PHASES 16

/* ---- tap by tap ---- */

/* Results that are adjacent in a row of a plane. */
struct piece {
	const struct rvl_f32_conv *v;
	const float *x;		   /* channel 0 of the group */
	int64_t pos[RVL_MAX_RANK]; /* of the first result */
	int64_t n;
	int64_t k0, k1; /* elements of the kernels, channel by channel */
	float *dst;
	int64_t width;
};

/* Channels [c0, c1) under tap @t. Results [lead, past) have it at @at of the plane and behind. */
static void put_tap(const struct piece *p, int64_t t, int64_t c0, int64_t c1, int64_t at,
		    int64_t lead, int64_t past)
{
	const struct rvl_f32_conv *v = p->v;
	int64_t step = v->w.axis[v->w.rank - 1].stride;
	const float *x = p->x + c0 * v->in + at;
	float *dst = p->dst + (c0 * v->taps + t - p->k0) * p->width;

	for (int64_t c = c0; c < c1; c++, x += v->in, dst += v->taps * p->width) {
		rvl_f32_zero(dst, lead);
		if (step == 1)
			rvl_f32_copy(dst + lead, x, past - lead);
		else
			rvl_f32_copy_apart(dst + lead, x, past - lead, step);
		rvl_f32_zero(dst + past, p->n - past);
	}
}

/* The row of the plane under a tap at @tap of each axis but the last; false: outside of the image.
 */
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

/* A tap of which the elements [k0, k1) of the kernels have channels [c0, c1). */
struct tap {
	int64_t index, left;	  /* taps that follow, with this one */
	int64_t at[RVL_MAX_RANK]; /* of each axis */
	int64_t c0, c1;
};

static void find_channels(const struct piece *p, struct tap *t)
{
	int64_t taps = p->v->taps;

	t->c0 = p->k0 / taps + (t->index < p->k0 % taps);
	t->c1 = p->k1 / taps + (t->index < p->k1 % taps);
}

/* The tap of element k0. Only taps that have an element of the block are visited. */
static struct tap first_tap(const struct piece *p)
{
	const struct rvl_window *w = &p->v->w;
	struct tap t = { .index = p->k0 % p->v->taps,
			 .left = rvl_least(p->v->taps, p->k1 - p->k0) };

	for (int64_t i = w->rank - 1, at = t.index; i >= 0; i--) {
		t.at[i] = at % w->axis[i].k;
		at /= w->axis[i].k;
	}
	find_channels(p, &t);
	return t;
}

/* The first tap follows the last one. */
static void next_tap(const struct piece *p, struct tap *t)
{
	const struct rvl_window *w = &p->v->w;

	t->left--;
	t->index = t->index + 1 == p->v->taps ? 0 : t->index + 1;
	for (int i = w->rank - 1; i >= 0 && ++t->at[i] == w->axis[i].k; i--)
		t->at[i] = 0;
	find_channels(p, t);
}

static void gather_piece(const struct piece *p)
{
	const struct rvl_f32_conv *v = p->v;
	const struct rvl_window_axis *a = &v->w.axis[v->w.rank - 1];
	int64_t first = p->pos[v->w.rank - 1] * a->stride - a->pad[0];

	for (struct tap t = first_tap(p); t.left > 0; next_tap(p, &t)) {
		int64_t row, lead = 0, past = 0, x0 = first + t.at[v->w.rank - 1] * a->dilation;

		if (row_of(p, t.at, &row))
			rvl_f32_inside(a, x0, p->n, &lead, &past);
		put_tap(p, t.index, t.c0, t.c1, past ? row * a->n + x0 + lead * a->stride : 0, lead,
			past);
	}
}

static void position(const struct rvl_window *w, int64_t at, int64_t *pos)
{
	for (int i = w->rank - 1; i >= 0; i--) {
		pos[i] = at % w->axis[i].out;
		at /= w->axis[i].out;
	}
}

/* Results [@first, @first + n) of a panel. */
static void gather_taps(const struct rvl_f32_conv *v, const float *x, int64_t first, int64_t n,
			int64_t k0, int64_t kc, int width, float *dst)
{
	struct piece p = { .v = v, .x = x, .k0 = k0, .k1 = k0 + kc, .width = width };
	int last = v->w.rank - 1;

	for (int64_t i = 0; i < n; i += p.n) {
		position(&v->w, first + i, p.pos);
		p.n = rvl_least(v->w.axis[last].out - p.pos[last], n - i);
		p.dst = dst + i;
		gather_piece(&p);
	}
}

/* ---- from a view ---- */

/* An image in which the elements under a tap of adjacent results of a row are adjacent. */
struct view {
	const float *x; /* of result (oy, ox) under the first tap of channel c */
	int64_t oy, ox, c;
	int64_t width;	 /* results of a row */
	int64_t channel; /* floats between channels, */
	int64_t row;	 /* rows of results, */
	int64_t tap_row; /* rows of taps, */
	int64_t phase;	 /* and the elements of adjacent columns, where the stride divides them */
};

/* The axes of a plane: those of one dimension have a first one of one row. */
static struct rvl_window_axis axis_y(const struct rvl_f32_conv *v)
{
	static const struct rvl_window_axis one = {
		.n = 1, .out = 1, .k = 1, .stride = 1, .dilation = 1
	};

	return v->w.rank == 2 ? v->w.axis[0] : one;
}

static const struct rvl_window_axis *axis_x(const struct rvl_f32_conv *v)
{
	return &v->w.axis[v->w.rank - 1];
}

/* Where elements [k0, k0 + n) of the kernels lie. */
static void find_offsets(const struct rvl_f32_conv *v, const struct view *w, int64_t k0, int64_t n,
			 int64_t *off)
{
	const struct rvl_window_axis *x = axis_x(v);
	int64_t c = k0 / v->taps - w->c, ky = k0 % v->taps / x->k, kx = k0 % x->k,
		rows = axis_y(v).k;

	for (int64_t i = 0; i < n; i++) {
		int64_t at = kx * x->dilation;

		off[i] = c * w->channel + ky * w->tap_row + at % x->stride * w->phase +
			 at / x->stride;
		if (++kx < x->k)
			continue;
		kx = 0;
		if (++ky < rows)
			continue;
		ky = 0;
		c++;
	}
}

/* @n floats of each element, @width apart. The last quad of a number that is no multiple overlaps.
 */
static inline __attribute__((always_inline)) void put(const float *x, const int64_t *off,
						      int64_t kc, int64_t n, int width, float *dst)
{
	for (int64_t k = 0; k < kc; k++, dst += width) {
		const float *from = x + off[k];

		for (int64_t i = 0; i + 4 <= n; i += 4)
			*(rvl_quad *)(dst + i) = *(const rvl_quad *)(from + i);
		if (n % 4)
			*(rvl_quad *)(dst + n - 4) = *(const rvl_quad *)(from + n - 4);
	}
}

static void put_piece(const float *x, const int64_t *off, int64_t kc, int64_t n, int width,
		      float *dst)
{
	const struct rvl_f32_kernels *f = rvl_f32_kernels();

	if (f->put && n >= f->vl && width == f->nr)
		f->put(x, off, kc, n, dst);
	else if (n == 4)
		put(x, off, kc, 4, width, dst);
	else if (n > 4)
		put(x, off, kc, n, width, dst);
	else
		for (int64_t k = 0; k < kc; k++)
			for (int64_t i = 0; i < n; i++)
				dst[k * width + i] = x[off[k] + i];
}

/* Elements [k, k + kc) of results [first, first + n); the panels are @panel floats apart. */
static void put_panels(const struct rvl_f32_conv *v, const struct view *w, int64_t first, int64_t n,
		       int64_t k, int64_t kc, int width, int64_t panel, float *dst)
{
	int64_t off[MOST_K];

	find_offsets(v, w, k, kc, off);
	for (int64_t i = 0, some; i < n; i += some) {
		int64_t oy = (first + i) / w->width, ox = (first + i) % w->width,
			column = i % width;

		some = rvl_least(rvl_least(w->width - ox, width - column), n - i);
		put_piece(w->x + (oy - w->oy) * w->row + ox - w->ox, off, kc, some, width,
			  dst + i / width * panel + column);
	}
}

/* ---- in place ---- */

static bool has_all(const struct rvl_window_axis *a)
{
	return !a->pad[0] && (a->out - 1) * a->stride + (a->k - 1) * a->dilation < a->n;
}

static bool is_in_place(const struct rvl_f32_conv *v)
{
	const struct rvl_window_axis y = axis_y(v);

	return axis_x(v)->stride == 1 && has_all(axis_x(v)) && has_all(&y);
}

static struct view view_in_place(const struct rvl_f32_conv *v, const float *x)
{
	const struct rvl_window_axis y = axis_y(v), *a = axis_x(v);
	/* Rows of which all results have the same taps follow one another. */
	bool joined = a->k == 1 && y.stride == 1 && a->n == a->out;

	return (struct view){
		.x = x,
		.width = joined ? v->out : a->out,
		.channel = v->in,
		.row = y.stride * a->n,
		.tap_row = y.dilation * a->n,
	};
}

/* ---- copied ---- */

/* The part of the image under some results. */
struct patch {
	int64_t oy, ox, cols; /* the first result; results of a row */
	int64_t rows;	      /* of the input */
	int64_t part, pitch;  /* floats of what one phase of a row has, and of a row */
	int64_t floats;	      /* of a channel */
};

static struct patch patch_of(const struct rvl_f32_conv *v, int64_t first, int64_t n)
{
	const struct rvl_window_axis y = axis_y(v), *x = axis_x(v);
	struct patch p = { .oy = first / x->out, .ox = first % x->out, .cols = n };
	int64_t down = (first + n - 1) / x->out - p.oy;

	if (down) {
		p.ox = 0;
		p.cols = x->out;
	}
	p.rows = down * y.stride + (y.k - 1) * y.dilation + 1;
	p.part = p.cols + (x->k - 1) * x->dilation / x->stride;
	p.pitch = x->stride * p.part;
	p.floats = p.rows * p.pitch;
	return p;
}

/* Whether a tap reads position @at of those from the first one on. */
static bool is_read(const struct rvl_window_axis *a, int64_t at)
{
	for (int64_t k = 0; k < a->k && k * a->dilation <= at; k++)
		if ((at - k * a->dilation) % a->stride == 0)
			return true;
	return false;
}

static uint32_t phases_of(const struct rvl_window_axis *x)
{
	uint32_t phases = 0;

	for (int64_t k = 0; k < x->k; k++)
		phases |= 1u << (k * x->dilation % x->stride);
	return phases;
}

static void copy_channel(const struct rvl_f32_conv *v, const struct patch *p, const float *plane,
			 uint32_t phases, float *dst)
{
	const struct rvl_window_axis y = axis_y(v), *x = axis_x(v);
	int64_t y0 = p->oy * y.stride - y.pad[0], x0 = p->ox * x->stride - x->pad[0];

	for (int64_t r = 0; r < p->rows; r++, dst += p->pitch) {
		if (y.stride > 1 && !is_read(&y, r))
			continue;
		if (y0 + r < 0 || y0 + r >= y.n) {
			rvl_f32_zero(dst, p->pitch);
			continue;
		}
		for (int64_t i = 0; i < x->stride; i++)
			if (phases >> i & 1)
				rvl_f32_copy_row(x, plane + (y0 + r) * x->n, x0 + i, p->part,
						 dst + i * p->part);
	}
}

/* Copies as many channels at a time as fit. @mem: RVL_F32_PATCH floats. */
static void gather_patches(const struct rvl_f32_conv *v, const struct patch *p, const float *x,
			   int64_t first, int64_t n, int64_t k0, int64_t kc, int width, float *mem,
			   float *dst)
{
	int64_t most = RVL_F32_PATCH / p->floats, past;
	uint32_t phases = phases_of(axis_x(v));
	struct view w = {
		.x = mem,
		.oy = p->oy,
		.ox = p->ox,
		.width = axis_x(v)->out,
		.channel = p->floats,
		.row = axis_y(v).stride * p->pitch,
		.tap_row = axis_y(v).dilation * p->pitch,
		.phase = p->part,
	};

	for (int64_t k = k0; k < k0 + kc; k = past) {
		w.c = k / v->taps;
		past = rvl_least((w.c + most) * v->taps, k0 + kc);
		for (int64_t c = w.c; c * v->taps < past; c++)
			copy_channel(v, p, x + c * v->in, phases, mem + (c - w.c) * p->floats);
		put_panels(v, &w, first, n, k, past - k, width, kc * width, dst + (k - k0) * width);
	}
}

/* ---- all ---- */

/* Results [first, first + n), which begin a panel. */
static void gather_some(const struct rvl_f32_conv *v, const float *x, int64_t first, int64_t n,
			int64_t k0, int64_t kc, int width, float *mem, float *dst)
{
	struct patch p = patch_of(v, first, n);

	if (p.floats <= RVL_F32_PATCH) {
		gather_patches(v, &p, x, first, n, k0, kc, width, mem, dst);
		return;
	}
	for (int64_t i = 0; i < n; i += width) {
		int64_t some = rvl_least(width, n - i);

		p = patch_of(v, first + i, some);
		if (p.floats <= RVL_F32_PATCH)
			gather_patches(v, &p, x, first + i, some, k0, kc, width, mem,
				       dst + i / width * kc * width);
		else
			gather_taps(v, x, first + i, some, k0, kc, width,
				    dst + i / width * kc * width);
	}
}

/* Whether rows of the image can be read or copied; else its elements are visited tap by tap. */
static bool is_planar(const struct rvl_f32_conv *v)
{
	return v->w.rank <= 2 && axis_x(v)->stride <= MOST_PHASES;
}

void rvl_f32_gather(const struct rvl_f32_source *s, int64_t at, int64_t first, int64_t n,
		    int64_t k0, int64_t kc, int width, float *mem, float *dst)
{
	const struct rvl_f32_conv *v = s->ctx;
	const float *x = v->x + at;
	int64_t last = n % width;
	bool planar = is_planar(v) && kc <= MOST_K;

	if (kc == 0)
		return;
	for (int64_t k = 0; last && k < kc; k++)
		rvl_f32_zero(dst + (n / width * kc + k) * width + last, width - last);
	if (planar && is_in_place(v)) {
		struct view w = view_in_place(v, x);

		put_panels(v, &w, first, n, k0, kc, width, kc * width, dst);
	} else if (planar) {
		gather_some(v, x, first, n, k0, kc, width, mem, dst);
	} else {
		for (int64_t i = 0; i < n; i += width)
			gather_taps(v, x, first + i, rvl_least(width, n - i), k0, kc, width,
				    dst + i / width * kc * width);
	}
}

/* Whether the part of the image under a panel of results fits the memory for its copy. */
static bool fits_copy(const struct rvl_f32_conv *v)
{
	return patch_of(v, 0, rvl_least(rvl_f32_kernels()->nr, v->out)).floats <= RVL_F32_PATCH;
}

/*
 * The factors were measured with AVX2, for rows of 7 to 112 results, kernels of 1 to 49 taps, and strides up
 * to 16.
 */
int64_t rvl_f32_gather_cost(const struct rvl_f32_conv *v)
{
	const struct rvl_window_axis y = axis_y(v), *x = axis_x(v);
	int64_t copied, width = x->out;

	if (v->out == 0)
		return RVL_F32_FILL_COST;
	if (is_planar(v) && is_in_place(v))
		return RVL_F32_FILL_COST + 100 / view_in_place(v, NULL).width;
	if (!is_planar(v) || !fits_copy(v))
		return 8 * RVL_F32_FILL_COST;
	copied = rvl_least(y.stride, y.k) * rvl_least(x->stride, x->k);
	return RVL_F32_FILL_COST + 100 / width + copied * (8 + 4 * x->stride + 250 / width) / v->taps;
}

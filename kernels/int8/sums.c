/* SPDX-License-Identifier: MIT */
/* Sums of products of bytes: packed weights, and convolutions by them. */
#include <string.h>

#include "int8/product.h"
#include "int8/sums.h"
#include "isa.h"
#include "qmath.h"
#include "sizes.h"

#define MOST_TAPS 64
#define MOST_ROWS 32	/* of a tile */
#define LEAST_COLUMNS 8	/* of a group; other columns of a block have weights of zero */
#define PIXELS 1024	/* that are reordered at a time */
#define SIDE 4		/* of the blocks in which results are transposed */

/* ---- weights ---- */

bool rvl_i8_has_sums(void)
{
	const struct rvl_i8_kernels *f = rvl_i8_kernels();

	return f->widened <= 1 && f->kr > 1;
}

int64_t rvl_i8_sums_channels(int64_t channels)
{
	return rvl_round_up(channels, rvl_i8_kernels()->kr);
}

int64_t rvl_i8_sums_nr(void)
{
	return rvl_i8_kernels()->nr;
}

int64_t rvl_i8_sums_mr(void)
{
	return rvl_i8_kernels()->mr;
}

static int64_t columns_bytes(int64_t n)
{
	return rvl_round_up(rvl_round_up(n, rvl_i8_kernels()->nr) * (int64_t)sizeof(int32_t), 64);
}

int64_t rvl_i8_sums_bytes(const struct rvl_i8_weights *w)
{
	int64_t k = w->taps * rvl_i8_sums_channels(w->channels);

	return columns_bytes(w->n) + rvl_round_up(rvl_round_up(w->n, rvl_i8_kernels()->nr) * k, 64);
}

void rvl_i8_sums_pack(const struct rvl_i8_weights *w, void *dst)
{
	const struct rvl_i8_kernels *f = rvl_i8_kernels();
	int64_t kc = rvl_i8_sums_channels(w->channels), block = w->taps * kc * f->nr;
	int8_t *to = (int8_t *)dst + columns_bytes(w->n);
	int32_t *sum = dst;

	memset(dst, 0, (size_t)rvl_i8_sums_bytes(w));
	for (int64_t k = 0; k < w->taps * w->channels; k++) {
		int64_t tap = k / w->channels, c = k % w->channels, at = tap * kc + c;
		int8_t *row = to + at / f->kr * f->nr * f->kr + at % f->kr;

		for (int64_t n = 0; n < w->n; n++) {
			int64_t from = n * w->n_step + tap * w->tap_step + c * w->channel_step;
			int32_t v = rvl_ld8(w->data, from, w->u8) - (w->u8 ? 128 : 0);

			row[n / f->nr * block + n % f->nr * f->kr] = (int8_t)v;
			sum[n] += v;
		}
	}
}

void rvl_i8_sums_tile(const struct rvl_i8_sums *s, int64_t b, const uint8_t *const *a, int64_t taps, int rows,
		      int32_t *y)
{
	const struct rvl_i8_kernels *f = rvl_i8_kernels();
	const int32_t *columns = rvl_i8_sums_columns(s) + b * f->nr;
	int32_t bias[RVL_I8_TILE] __attribute__((aligned(64)));
	const struct rvl_i8_gemm_call c = {
		.a = a, .taps = taps, .kc = s->k / taps, .bias = bias, .sums = y, .rows = rows,
		.w = (const int8_t *)s->packed + columns_bytes(s->n) + b * f->nr * s->k,
		.cols = (int)rvl_least(f->nr, s->n - b * f->nr), .x_u8 = s->x_u8,
	};

	for (int j = 0; j < f->nr; j++)
		bias[j] = rvl_wrap_mul(-(s->zero + f->offset[s->x_u8]), columns[j]);
	f->gemm(&c);
}

/* ---- convolutions ---- */

/* Weights of one group. */
static struct rvl_i8_weights weights_of(const struct rvl_i8_sums_conv *v)
{
	return (struct rvl_i8_weights) {
		.n = v->m_group, .taps = v->taps, .channels = v->c_group,
		.n_step = v->c_group * v->taps, .tap_step = 1, .channel_step = v->taps,
	};
}

bool rvl_i8_sums_conv_fits(const struct rvl_i8_sums_conv *v)
{
	return rvl_i8_has_sums() && rvl_i8_kernels()->mr <= MOST_ROWS && v->taps <= MOST_TAPS &&
	       v->m_group >= LEAST_COLUMNS && 2 * v->c_group > rvl_i8_sums_channels(v->c_group);
}

int64_t rvl_i8_sums_conv_bytes(const struct rvl_i8_sums_conv *v)
{
	struct rvl_i8_weights w = weights_of(v);

	return v->group * rvl_i8_sums_bytes(&w);
}

void rvl_i8_sums_conv_pack(const struct rvl_i8_sums_conv *v, const void *weights, bool u8, void *dst)
{
	struct rvl_i8_weights w = weights_of(v);

	w.u8 = u8;
	for (int64_t g = 0; g < v->group; g++) {
		w.data = (const uint8_t *)weights + g * v->m_group * v->c_group * v->taps;
		rvl_i8_sums_pack(&w, (char *)dst + g * rvl_i8_sums_bytes(&w));
	}
}

/* The workspace: an image with channels last, a pixel of padding, and the sums of the channels of each pixel. */
struct room {
	const struct rvl_i8_sums_conv *v;
	int64_t kc;
	const uint8_t *x;	/* of the image */
	int32_t *y;
	uint8_t *image;		/* [group][in][kc] */
	uint8_t *pad;		/* [kc] */
	uint32_t *total;	/* [group][in], less the zero point */
};

static int64_t image_bytes(const struct rvl_i8_sums_conv *v)
{
	return rvl_round_up(v->group * v->in * rvl_i8_sums_channels(v->c_group), 64);
}

int64_t rvl_i8_sums_conv_scratch(const struct rvl_i8_sums_conv *v)
{
	return image_bytes(v) + rvl_round_up(rvl_i8_sums_channels(v->c_group), 64) +
	       v->group * v->in * (int64_t)sizeof(uint32_t);
}

/* Adds @n bytes, of either sign, to @total. */
static void add_bytes(const uint8_t *x, int64_t n, bool u8, uint32_t *total)
{
	if (u8)
		for (int64_t i = 0; i < n; i++)
			total[i] += x[i];
	else
		for (int64_t i = 0; i < n; i++)
			total[i] += (uint32_t)(int32_t)(int8_t)x[i];
}

static void order_pixels(const struct room *r, int64_t g, int64_t first, int64_t n)
{
	const struct rvl_i8_sums_conv *v = r->v;
	const uint8_t *x = r->x + g * v->c_group * v->in + first;
	uint8_t *image = r->image + (g * v->in + first) * r->kc;
	uint32_t *total = r->total + g * v->in + first;

	rvl_i8_transpose(x, v->in, v->c_group, n, image, r->kc);
	for (int64_t i = 0; i < n && v->c_group < r->kc; i++)
		memset(image + i * r->kc + v->c_group, 0, (size_t)(r->kc - v->c_group));
	if (!v->zeros)
		return;
	for (int64_t i = 0; i < n; i++)
		total[i] = 0 - (uint32_t)v->c_group * (uint32_t)v->zero;
	for (int64_t c = 0; c < v->c_group; c++)
		add_bytes(x + c * v->in, n, v->x_u8, total);
}

static void order_range(void *arg, int64_t first, int64_t past)
{
	const struct room *r = arg;
	int64_t parts = rvl_ceil_div(r->v->in, PIXELS);

	for (int64_t i = first; i < past; i++) {
		int64_t at = i % parts * PIXELS;

		order_pixels(r, i / parts, at, rvl_least(PIXELS, r->v->in - at));
	}
}

/* Rows of a product: windows that follow one another. */
struct windows {
	const uint8_t *at[MOST_TAPS * MOST_ROWS];
	uint32_t total[MOST_ROWS];	/* of the pixels in each window */
};

/*
 * Writes the taps of the last axis at position @pos to every rvl_i8_sums_mr()th of @at. @line: of the image; negative:
 * in the padding. Returns the sum of the totals of the pixels.
 */
static uint32_t point_line(const struct room *r, int64_t g, int64_t line, int64_t pos, const uint8_t **at)
{
	const struct rvl_window_axis *a = &r->v->w.axis[r->v->w.rank - 1];
	int64_t x = pos * a->stride - a->pad[0], first = g * r->v->in + line * a->n, mr = rvl_i8_sums_mr();
	const uint32_t *totals = r->v->zeros ? r->total : NULL;
	uint32_t total = 0;

	for (int64_t k = 0; k < a->k; k++, at += mr, x += a->dilation) {
		bool inside = line >= 0 && x >= 0 && x < a->n;

		*at = inside ? r->image + (first + x) * r->kc : r->pad;
		if (inside && totals)
			total += totals[first + x];
	}
	return total;
}

/* The line of the image under tap @t of the outer axes at position @pos; negative: in the padding. */
static int64_t line_of(const struct rvl_window *w, const int64_t *pos, int64_t t)
{
	int64_t line = 0, step = 1;

	for (int d = w->rank - 2; d >= 0; d--) {
		const struct rvl_window_axis *a = &w->axis[d];
		int64_t x = pos[d] * a->stride + t % a->k * a->dilation - a->pad[0];

		if (x < 0 || x >= a->n)
			return -1;
		line += x * step;
		step *= a->n;
		t /= a->k;
	}
	return line;
}

/* Windows [@first, @first + @rows) of the results of group @g. */
static void point_windows(const struct room *r, int64_t g, int64_t first, int rows, struct windows *to)
{
	const struct rvl_window *w = &r->v->w;
	int64_t mr = rvl_i8_sums_mr(), side = w->axis[w->rank - 1].k, pos[RVL_MAX_RANK];

	for (int i = 0; i < rows; i++) {
		int64_t at = first + i;

		for (int d = w->rank - 1; d >= 0; d--) {
			pos[d] = at % w->axis[d].out;
			at /= w->axis[d].out;
		}
		to->total[i] = 0;
		for (int64_t t = 0; t < r->v->taps; t += side)
			to->total[i] += point_line(r, g, line_of(w, pos, t / side), pos[w->rank - 1],
						   to->at + t * mr + i);
	}
	for (int64_t t = 0; t < r->v->taps; t++)
		for (int64_t i = rows; i < mr; i++)
			to->at[t * mr + i] = to->at[t * mr];
}

typedef uint32_t words __attribute__((vector_size(SIDE * sizeof(int32_t)), aligned(4)));

static inline void transpose(words a[SIDE])
{
	words b[SIDE] = {
		__builtin_shufflevector(a[0], a[2], 0, 4, 1, 5),
		__builtin_shufflevector(a[0], a[2], 2, 6, 3, 7),
		__builtin_shufflevector(a[1], a[3], 0, 4, 1, 5),
		__builtin_shufflevector(a[1], a[3], 2, 6, 3, 7),
	};

	a[0] = __builtin_shufflevector(b[0], b[2], 0, 4, 1, 5);
	a[1] = __builtin_shufflevector(b[0], b[2], 2, 6, 3, 7);
	a[2] = __builtin_shufflevector(b[1], b[3], 0, 4, 1, 5);
	a[3] = __builtin_shufflevector(b[1], b[3], 2, 6, 3, 7);
}

/* @y[col * @y_step + row] = @sums[row * @nr + col] - zero[col] * total[row]; @zero may be NULL. */
static void store(const int32_t *sums, int64_t nr, int rows, int cols, const int32_t *zero, const uint32_t *total,
		  int32_t *y, int64_t y_step)
{
	int whole_rows = rows - rows % SIDE, whole_cols = cols - cols % SIDE;

	for (int c = 0; c < whole_cols; c += SIDE)
		for (int r = 0; r < whole_rows; r += SIDE) {
			words a[SIDE], t;

			memcpy(&t, total + r, sizeof(t));
			for (int i = 0; i < SIDE; i++)
				memcpy(&a[i], sums + (r + i) * nr + c, sizeof(a[i]));
			transpose(a);
			for (int i = 0; i < SIDE; i++) {
				if (zero)
					a[i] -= t * (uint32_t)zero[c + i];
				memcpy(y + (c + i) * y_step + r, &a[i], sizeof(a[i]));
			}
		}
	for (int c = 0; c < cols; c++)
		for (int r = c < whole_cols ? whole_rows : 0; r < rows; r++)
			y[c * y_step + r] = (int32_t)((uint32_t)sums[r * nr + c] -
						      (zero ? (uint32_t)zero[c] * total[r] : 0));
}

static void tile(const struct room *r, int64_t g, int64_t first, int rows)
{
	const struct rvl_i8_sums_conv *v = r->v;
	const struct rvl_i8_sums s = {
		.packed = (const char *)v->packed + g * (rvl_i8_sums_conv_bytes(v) / v->group),
		.n = v->m_group, .k = v->taps * r->kc, .zero = v->zero, .x_u8 = v->x_u8,
	};
	int32_t sums[RVL_I8_TILE] __attribute__((aligned(64)));
	int64_t nr = rvl_i8_sums_nr();
	struct windows to;

	point_windows(r, g, first, rows, &to);
	for (int64_t n = 0; n < v->m_group; n += nr) {
		int64_t m = g * v->m_group + n;

		rvl_i8_sums_tile(&s, n / nr, to.at, v->taps, rows, sums);
		store(sums, nr, rows, (int)rvl_least(nr, v->m_group - n), v->zeros ? v->zeros + m : NULL,
		      to.total, r->y + m * v->out + first, v->out);
	}
}

static void tile_range(void *arg, int64_t first, int64_t past)
{
	const struct room *r = arg;
	int64_t mr = rvl_i8_sums_mr(), tiles = rvl_ceil_div(r->v->out, mr);

	for (int64_t i = first; i < past; i++) {
		int64_t at = i % tiles * mr;

		tile(r, i / tiles, at, (int)rvl_least(mr, r->v->out - at));
	}
}

/* Tiles that are worth a thread. */
static int64_t tiles_of_part(const struct room *r)
{
	return 1 + 262144 / (1 + rvl_work(rvl_i8_sums_mr() * r->v->taps, r->kc * r->v->m_group));
}

void rvl_i8_sums_conv_run(const struct rvl_i8_sums_conv *v, void *scratch)
{
	struct room r = { .v = v, .kc = rvl_i8_sums_channels(v->c_group), .image = scratch };
	int64_t tiles = rvl_ceil_div(v->out, rvl_i8_sums_mr());

	r.pad = r.image + image_bytes(v);
	r.total = (uint32_t *)(void *)(r.pad + rvl_round_up(r.kc, 64));
	memset(r.pad, v->zero, (size_t)r.kc);
	for (int64_t n = 0; n < v->images; n++) {
		r.x = (const uint8_t *)v->x + n * v->group * v->c_group * v->in;
		r.y = v->y + n * v->group * v->m_group * v->out;
		rvl_for_range(v->c, v->group * rvl_ceil_div(v->in, PIXELS), 1, order_range, &r);
		rvl_for_range(v->c, v->group * tiles, tiles_of_part(&r), tile_range, &r);
	}
}

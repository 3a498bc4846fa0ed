/* SPDX-License-Identifier: MIT */
/*
 * BinaryConv by tiles: windows of a few pixels against a panel of channels. A sum is the number of
 * products minus twice the number of different bits. The image is copied where it is padded or has
 * groups. Where the padding contributes nothing, its bits are 0, and what they would contribute is
 * taken off by the sums of the weights of its taps.
 */
#include <string.h>

#include "binary/binary.h"

struct fast_run {
	const struct rvl_kernel *k;
	const uint64_t *x;	/* input */
	uint64_t *image;	/* padded, [n][group][h][w][words], or NULL */
	const char *shortcut;
	char *y;
	uint8_t *bits;
};

/* ---- preparation ---- */

static int64_t reach(const struct rvl_conv_geom *g, int i, int64_t out)
{
	return (out - 1) * g->s[i] + (g->k[i] - 1) * g->d[i] + 1;
}

static void pack_weights(const struct rvl_kernel *k, struct rvl_b_conv *b)
{
	const struct rvl_conv_geom *g = &k->g;
	const uint64_t *w = k->d.in[RVL_B_W].data;
	int64_t words = g->k[0] * g->k[1] * b->group_words, mg = g->m / g->group;
	int nr = b->kernels->nr;

	for (int64_t m = 0; m < g->m; m++) {
		uint64_t *to = b->w + (m / mg * b->panels + m % mg / nr) * words * nr + m % mg % nr;

		for (int64_t i = 0; i < words; i++)
			to[i * nr] = w[m * words + i];
	}
}

/* The sum of the weights of a tap: twice the ones minus the channels. Bits behind the last one are 0. */
static int32_t tap_sum(const uint64_t *w, int64_t channels)
{
	int32_t sum = -(int32_t)channels;

	for (int64_t c = 0; c < channels; c += 64) {
		uint64_t left = channels - c < 64 ? w[c / 64] & ((1ull << (channels - c)) - 1) : w[c / 64];

		sum += 2 * rvl_b_ones(left);
	}
	return sum;
}

/* Of row (or column) @at of the result: the first tap inside the image, and the one behind the last. */
static void taps_inside(const struct rvl_conv_geom *g, int axis, int64_t at, int64_t tap[2])
{
	int64_t size = axis ? g->w : g->h, first = at * g->s[axis] - g->pad[axis], d = g->d[axis];

	tap[0] = first < 0 ? (-first + d - 1) / d : 0;
	tap[1] = first < size ? (size - first + d - 1) / d : 0;
	if (tap[0] > g->k[axis])
		tap[0] = g->k[axis];
	if (tap[1] > g->k[axis])
		tap[1] = g->k[axis];
	if (tap[1] < tap[0])
		tap[1] = tap[0];
}

/* Neither end of the taps inside rises from one row to the next, so that a class is a run of rows. */
static int make_classes(struct rvl_kernel *k, struct rvl_b_conv *b, int axis)
{
	const struct rvl_conv_geom *g = &k->g;
	int64_t n = axis ? g->ow : g->oh, tap[2], last[2] = { -1, -1 };
	int32_t class = -1;

	b->classes[axis] = rvl_kernel_mem(k, n, sizeof(*b->classes[axis]));
	if (!b->classes[axis])
		return -ENOMEM;
	for (int64_t i = 0; i < n; i++) {
		taps_inside(g, axis, i, tap);
		class += !i || (!b->padding && memcmp(tap, last, sizeof(tap)));
		memcpy(last, tap, sizeof(tap));
		b->classes[axis][i] = class;
	}
	b->n_classes[axis] = class + 1;
	return 0;
}

/* sum[y][x] of @w, [kh + 1][kw + 1]: the sums of all taps of lesser rows and columns. */
static void sum_taps(const struct rvl_conv_geom *g, const uint64_t *w, int64_t words, int32_t *sum)
{
	int64_t kw = g->k[1], row = kw + 1, channels = g->c / g->group;

	for (int64_t y = 0; y < g->k[0]; y++)
		for (int64_t x = 0; x < kw; x++)
			sum[(y + 1) * row + x + 1] = tap_sum(w + (y * kw + x) * words, channels) +
						     sum[y * row + x + 1] + sum[(y + 1) * row + x] -
						     sum[y * row + x];
}

/* The bases of row @y and column @x of the result, for channel @m of which @sum are the taps. */
static int32_t base_of(const struct rvl_kernel *k, int64_t y, int64_t x, const int32_t *sum)
{
	const struct rvl_conv_geom *g = &k->g;
	int64_t row = g->k[1] + 1, r[2], c[2];
	int32_t products = (int32_t)(g->k[0] * g->k[1] * (g->c / g->group));

	if (k->bin->padding)
		return products;
	taps_inside(g, 0, y, r);
	taps_inside(g, 1, x, c);
	return products + sum[g->k[0] * row + g->k[1]] - sum[r[1] * row + c[1]] + sum[r[0] * row + c[1]] +
	       sum[r[1] * row + c[0]] - sum[r[0] * row + c[0]];
}

/* Where the bases of a pixel of the result begin. */
static int64_t base_at(const struct rvl_b_conv *b, const struct rvl_conv_geom *g, int64_t y, int64_t x)
{
	return (b->classes[0][y] * (int64_t)b->n_classes[1] + b->classes[1][x]) * (g->m + RVL_B_NR);
}

static bool begins_class(const struct rvl_b_conv *b, int axis, int64_t i)
{
	return !i || b->classes[axis][i] != b->classes[axis][i - 1];
}

static int make_bases(struct rvl_kernel *k, struct rvl_b_conv *b)
{
	const struct rvl_conv_geom *g = &k->g;
	int64_t taps = g->k[0] * g->k[1], row = g->m + RVL_B_NR;
	const uint64_t *w = k->d.in[RVL_B_W].data;
	int32_t *sum = rvl_kernel_mem(k, (g->k[0] + 1) * (g->k[1] + 1), sizeof(*sum));

	b->base = rvl_kernel_mem(k, b->n_classes[0] * (int64_t)b->n_classes[1] * row, sizeof(*b->base));
	if (!b->base || !sum)
		return -ENOMEM;
	for (int64_t m = 0; m < g->m; m++) {
		sum_taps(g, w + m * taps * b->group_words, b->group_words, sum);
		for (int64_t y = 0; y < g->oh; y++)
			for (int64_t x = 0; begins_class(b, 0, y) && x < g->ow; x++)
				if (begins_class(b, 1, x))
					b->base[base_at(b, g, y, x) + m] = base_of(k, y, x, sum);
	}
	return 0;
}

/* Taps that are adjacent in a row of the image form one run. */
static void make_runs(const struct rvl_conv_geom *g, struct rvl_b_conv *b)
{
	bool joined = g->d[1] == 1;

	b->run = joined ? g->k[1] * b->group_words : b->group_words;
	for (int64_t r = 0; r < b->runs; r++) {
		int64_t ky = joined ? r : r / g->k[1], kx = joined ? 0 : r % g->k[1];

		b->off[r] = (ky * g->d[0] * b->padded.w + kx * g->d[1]) * b->group_words;
	}
}

static void make_padded(const struct rvl_conv_geom *g, struct rvl_b_conv *b)
{
	int64_t h = reach(g, 0, g->oh), w = reach(g, 1, g->ow);
	bool inside = (!g->pad[0] && !g->pad[1] && h <= g->h && w <= g->w) || !g->oh || !g->ow;

	b->padded = (struct rvl_b_padded) { .h = h, .w = w, .copied = !inside || g->group > 1 };
	if (inside) {
		b->padded.h = g->h;
		b->padded.w = g->w;
	}
	b->padded.words = b->padded.h * b->padded.w * b->group_words;
}

int rvl_b_conv_pack(struct rvl_kernel *k)
{
	const struct rvl_conv_geom *g = &k->g;
	struct rvl_b_conv *b = k->bin;
	int64_t taps = g->k[0] * g->k[1], bytes;

	b->kernels = rvl_b_kernels();
	b->panels = (g->m / g->group + b->kernels->nr - 1) / b->kernels->nr;
	b->runs = g->d[1] == 1 ? g->k[0] : taps;
	make_padded(g, b);
	if (__builtin_mul_overflow(b->padded.words, g->n * g->group * 8, &bytes) || bytes > RVL_MAX_SCRATCH)
		return -E2BIG;
	b->w = rvl_kernel_mem(k, g->group * b->panels * b->kernels->nr * taps * b->group_words, 8);
	b->off = rvl_kernel_mem(k, b->runs, sizeof(*b->off));
	if (!b->w || !b->off || make_classes(k, b, 0) || make_classes(k, b, 1) || make_bases(k, b))
		return -ENOMEM;
	pack_weights(k, b);
	make_runs(g, b);
	b->y_size = (int64_t)rvl_type_size(b->post.y);
	b->s_size = (int64_t)rvl_type_size(b->post.shortcut);
	k->scratch = b->padded.copied ? (size_t)bytes : 0;
	return 0;
}

/* ---- the padded image ---- */

/* @n words of bits from bit @first of @x on, of @channels bits. */
static void cut_bits(const uint64_t *x, int64_t first, int64_t channels, uint64_t *y)
{
	int shift = (int)(first % 64);

	x += first / 64;
	for (int64_t c = 0; c < channels; c += 64, x++) {
		int64_t left = channels - c;
		uint64_t v = *x >> shift;

		if (shift && left > 64 - shift)
			v |= x[1] << (64 - shift);
		*y++ = left < 64 ? v & ((1ull << left) - 1) : v;
	}
}

static void fill_padding(uint64_t *y, int64_t pixels, int64_t channels, bool ones)
{
	for (int64_t i = 0; i < pixels; i++)
		for (int64_t c = 0; c < channels; c += 64) {
			uint64_t mask = channels - c < 64 ? (1ull << (channels - c)) - 1 : ~0ull;

			*y++ = ones ? mask : 0;
		}
}

/* One row of the image of one group. */
static void copy_row(const struct fast_run *r, int64_t n, int64_t group, int64_t row, uint64_t *y)
{
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_b_conv *b = r->k->bin;
	int64_t channels = g->c / g->group, iy = row - g->pad[0];
	int64_t left = g->pad[1] < b->padded.w ? g->pad[1] : b->padded.w;
	int64_t most = b->padded.w - left, pixels = g->w < most ? g->w : most;
	const uint64_t *x = r->x + (n * g->h + iy) * g->w * b->words;

	if (iy < 0 || iy >= g->h) {
		fill_padding(y, b->padded.w, channels, b->padding > 0);
		return;
	}
	fill_padding(y, left, channels, b->padding > 0);
	y += left * b->group_words;
	if (g->group == 1)
		memcpy(y, x, (size_t)(pixels * b->words) * sizeof(*y));
	for (int64_t i = 0; g->group > 1 && i < pixels; i++)
		cut_bits(x + i * b->words, group * channels, channels, y + i * b->group_words);
	fill_padding(y + pixels * b->group_words, b->padded.w - left - pixels, channels, b->padding > 0);
}

static void copy_rows(void *arg, int64_t first, int64_t past)
{
	const struct fast_run *r = arg;
	const struct rvl_b_padded *p = &r->k->bin->padded;
	int64_t groups = r->k->g.group;

	for (int64_t i = first; i < past; i++)
		copy_row(r, i / p->h / groups, i / p->h % groups, i % p->h,
			 r->image + i * p->w * r->k->bin->group_words);
}

/* ---- tiles ---- */

#define BLOCK 48	/* pixels that share the cost of their places; a multiple of each set's mr */

struct place {
	int64_t n, y, x;
};

/* Pixels of the result: where their windows, shortcuts, values and bits begin. */
struct block {
	int n;
	const uint64_t *x[BLOCK];	/* in the first group's image */
	const char *shortcut[BLOCK];
	char *y[BLOCK];
	uint8_t *bits[BLOCK];
	const int32_t *base[BLOCK];
};

/* A panel of channels. */
struct panel {
	int64_t column, m;	/* the first channel: of the group, and of all */
	int n;			/* channels */
	const uint64_t *w;
	bool dense, whole;	/* results and shortcut lie side by side and fill the panel */
};

/* The first pixel of a run of pixels of one row. */
static void enter(const struct fast_run *r, struct block *bl, int i, struct place p)
{
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_b_conv *b = r->k->bin;
	int64_t at = ((p.n * g->group) * b->padded.h + p.y * g->s[0]) * b->padded.w + p.x * g->s[1];

	bl->x[i] = (r->image ? r->image : r->x) + at * b->group_words;
	bl->shortcut[i] = r->shortcut ? r->shortcut + (p.n * b->sp.n + p.y * b->sp.y + p.x * b->sp.x) * b->s_size :
			  NULL;
	bl->y[i] = r->y ? r->y + (p.n * g->yp.n + p.y * g->yp.y + p.x * g->yp.x) * b->y_size : NULL;
	bl->bits[i] = r->bits ? r->bits + ((p.n * g->oh + p.y) * g->ow + p.x) * b->out_words * 8 : NULL;
}

/* @n pixels of one row from @p on. */
static void fill_row(const struct fast_run *r, struct block *bl, int first, struct place p, int n)
{
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_b_conv *b = r->k->bin;
	int64_t x_step = g->s[1] * b->group_words, s_step = b->sp.x * b->s_size;
	int64_t y_step = g->yp.x * b->y_size, bits_step = b->out_words * 8;

	enter(r, bl, first, p);
	for (int i = first; i < first + n; i++) {
		bl->base[i] = b->base + base_at(b, g, p.y, p.x + i - first);
		if (i == first)
			continue;
		bl->x[i] = bl->x[i - 1] + x_step;
		bl->shortcut[i] = r->shortcut ? bl->shortcut[i - 1] + s_step : NULL;
		bl->y[i] = r->y ? bl->y[i - 1] + y_step : NULL;
		bl->bits[i] = r->bits ? bl->bits[i - 1] + bits_step : NULL;
	}
}

/* The pixels from @first on, the last one repeated up to a whole tile. */
static void fill_block(const struct fast_run *r, struct block *bl, int64_t first, int n)
{
	const struct rvl_conv_geom *g = &r->k->g;

	bl->n = n;
	for (int i = 0; i < n;) {
		int64_t at = first + i, left = g->ow - at % g->ow;
		struct place p = { at / (g->oh * g->ow), at / g->ow % g->oh, at % g->ow };
		int row = left < n - i ? (int)left : n - i;

		fill_row(r, bl, i, p, row);
		i += row;
	}
	for (int i = n; i < BLOCK; i++)
		bl->x[i] = bl->x[n - 1];
}

/* Copies @n elements of @size bytes; @from and @to: bytes between them. */
static void spread(const char *x, int64_t from, char *y, int64_t to, int n, size_t size)
{
	for (int i = 0; i < n; i++)
		memcpy(y + i * to, x + i * from, size);
}

/* @n bits of channels from @m on, of a pixel. @last: the rest of the word is 0. */
static void put_bits(uint8_t *pixel, int64_t m, int n, bool last, uint64_t bits)
{
	uint8_t *p = pixel + m / 8;
	uint64_t v = bits & ((1ull << n) - 1);
	int at = (int)(m % 8), bytes = (at + n + 7) / 8;

	if (at)
		v = v << at | (*p & ((1u << at) - 1));
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
	for (int64_t i = m / 8 + bytes; last && i % 8; i++)
		pixel[i] = 0;
}

/* The bits of @p's channels of the pixels of a tile, which begin at @pixel. */
static void put_tile(const struct rvl_b_tile *t, uint8_t *const *pixel, const struct panel *p, int64_t channels)
{
	bool last = p->m + p->n == channels, whole = !(p->m % 8) && !(last && channels % 64);
	int64_t at = p->m / 8;

	for (int i = 0; i < t->rows; i++)
		if (whole && p->n == 32)
			memcpy(pixel[i] + at, &t->bits[i], 4);
		else if (whole && p->n == 8)
			pixel[i][at] = (uint8_t)t->bits[i];
		else
			put_bits(pixel[i], p->m, p->n, last, t->bits[i]);
}

/* The results of one row of a tile by way of memory of a panel: they are not dense or do not fill it. */
static void finish_apart(const struct fast_run *r, const struct panel *p, struct rvl_b_tile *t, int row)
{
	const struct rvl_b_conv *b = r->k->bin;
	int64_t ys = b->y_size, ss = b->s_size, y_step = r->k->g.yp.c * ys, s_step = b->sp.c * ss;
	_Alignas(64) char y[RVL_B_NR * 4], shortcut[RVL_B_NR * 4] = { 0 };
	const char *own_shortcut = shortcut;
	struct rvl_b_tile one = *t;
	char *own_y = y;

	one.rows = 1;
	one.pop += row * t->n;
	one.base += row;
	one.shortcut += row;
	one.y += row;
	if (!p->whole) {
		one.shortcut = &own_shortcut;
		one.shortcut_at = 0;
		if (r->shortcut)
			spread(t->shortcut[row] + p->m * s_step, s_step, shortcut, ss, p->n, (size_t)ss);
	}
	if (!p->dense) {
		one.y = &own_y;
		one.y_at = 0;
	}
	b->kernels->post(&b->post, &one);
	if (!p->dense && r->y)
		spread(y, ys, t->y[row] + p->m * y_step, y_step, p->n, (size_t)ys);
	t->bits[row] = one.bits[0];
}

/* The results of the tile that begins with pixel @at of the block. */
static void finish(const struct fast_run *r, const struct block *bl, int at, const struct panel *p,
		   const int32_t *pop)
{
	const struct rvl_b_conv *b = r->k->bin;
	int mr = b->kernels->mr;
	struct rvl_b_tile t;

	t.m = p->m;
	t.n = b->kernels->nr;
	t.rows = bl->n - at < mr ? bl->n - at : mr;
	t.pop = pop;
	t.base = bl->base + at;
	t.shortcut = bl->shortcut + at;
	t.y = bl->y + at;
	t.shortcut_at = p->m * b->s_size;
	t.y_at = p->m * b->y_size;
	if (p->dense && p->whole)
		b->kernels->post(&b->post, &t);
	for (int i = 0; !(p->dense && p->whole) && i < t.rows; i++)
		finish_apart(r, p, &t, i);
	if (r->bits)
		put_tile(&t, bl->bits + at, p, r->k->g.m);
}

static struct panel panel_of(const struct rvl_kernel *k, const struct fast_run *r, int64_t i)
{
	const struct rvl_b_conv *b = k->bin;
	int nr = b->kernels->nr;
	int64_t mg = k->g.m / k->g.group, at = i % b->panels * nr;
	bool full = mg - at >= nr;

	return (struct panel) {
		.column = at, .m = i / b->panels * mg + at, .n = full ? nr : (int)(mg - at),
		.w = b->w + i * b->runs * b->run * nr, .dense = full && (!r->y || k->g.yp.c == 1),
		.whole = full && (!r->shortcut || b->sp.c == 1),
	};
}

static void run_panel(const struct fast_run *r, const struct block *bl, const struct panel *p)
{
	const struct rvl_b_conv *b = r->k->bin;
	const struct rvl_b_kernels *ks = b->kernels;
	_Alignas(64) int32_t pop[RVL_B_MR * RVL_B_NR];
	struct rvl_b_call c = {
		.off = b->off, .runs = b->runs, .run = b->run, .pop = pop, .w = p->w,
	};

	for (int at = 0; at < bl->n; at += ks->mr) {
		c.x = bl->x + at;
		ks->count(&c);
		finish(r, bl, at, p, pop);
	}
}

/* The block's windows in the image of the next group. */
static void next_group(const struct fast_run *r, struct block *bl)
{
	for (int i = 0; i < BLOCK; i++)
		bl->x[i] += r->k->bin->padded.words;
}

/* Pixels [first, past), a block at a time, for which each panel of weights stays in the cache. */
static void run_pixels(void *arg, int64_t first, int64_t past)
{
	const struct fast_run *r = arg;
	struct block bl;

	for (int64_t at = first; at < past; at += BLOCK) {
		fill_block(r, &bl, at, past - at < BLOCK ? (int)(past - at) : BLOCK);
		for (int64_t i = 0; i < r->k->g.group * r->k->bin->panels; i++) {
			struct panel p = panel_of(r->k, r, i);

			if (i && !p.column)
				next_group(r, &bl);
			run_panel(r, &bl, &p);
		}
	}
}

#define LEAST_PIXELS 24	/* that a thread takes */

int rvl_b_conv_fast(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_b_conv *b = k->bin;
	bool values = d->out[0].type != RVL_TYPE_U64;
	struct fast_run r = {
		.k = k, .x = in[RVL_B_X], .image = b->padded.copied ? scratch : NULL,
		.shortcut = d->n_in > RVL_B_SHORTCUT ? in[RVL_B_SHORTCUT] : NULL,
		.y = values ? out[0] : NULL,
		.bits = !values ? out[0] : d->n_out > 1 ? out[1] : NULL,
	};

	if (r.image)
		rvl_parallel_range(pool, k->g.n * k->g.group * b->padded.h, 16, copy_rows, &r);
	rvl_parallel_range(pool, k->g.n * k->g.oh * k->g.ow, LEAST_PIXELS, run_pixels, &r);
	return 0;
}

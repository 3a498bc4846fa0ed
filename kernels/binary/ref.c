/* SPDX-License-Identifier: MIT */
/* The scalar reference of BinaryConv: every product by itself, in the order of docs/numerics.md 13. */
#include "binary/binary.h"
#include "qmath.h"

struct conv_run {
	const struct rvl_kernel *k;
	const uint64_t *x, *w;
	const void *shortcut;
	void *y;
	uint64_t *bits;
};

static int product(uint64_t a, uint64_t b)
{
	return (a & 1) == (b & 1) ? 1 : -1;
}

/* The products of one tap. @x: the pixel, or NULL in the padding. */
static int32_t sum_tap(const struct rvl_kernel *k, const uint64_t *x, const uint64_t *w, int64_t first)
{
	int64_t channels = k->g.c / k->g.group;
	uint64_t pad = k->bin->padding > 0;
	int32_t sum = 0;

	if (!x && !k->bin->padding)
		return 0;
	for (int64_t c = 0; c < channels; c++) {
		int64_t at = first + c;

		sum += product(x ? x[at / 64] >> at % 64 : pad, w[c / 64] >> c % 64);
	}
	return sum;
}

static int32_t sum_of(const struct conv_run *r, int64_t n, int64_t oy, int64_t ox, int64_t m)
{
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_b_conv *b = r->k->bin;
	int64_t group = m / (g->m / g->group), first = group * (g->c / g->group);
	int32_t sum = 0;

	for (int64_t ky = 0; ky < g->k[0]; ky++)
		for (int64_t kx = 0; kx < g->k[1]; kx++) {
			int64_t y = oy * g->s[0] + ky * g->d[0] - g->pad[0];
			int64_t x = ox * g->s[1] + kx * g->d[1] - g->pad[1];
			bool inside = y >= 0 && y < g->h && x >= 0 && x < g->w;
			const uint64_t *px = r->x + ((n * g->h + y) * g->w + x) * b->words;

			sum += sum_tap(r->k, inside ? px : NULL,
				       r->w + ((m * g->k[0] + ky) * g->k[1] + kx) * b->group_words, first);
		}
	return sum;
}

static float shortcut_at(const struct rvl_b_post *p, const void *data, int64_t at)
{
	if (p->shortcut == RVL_TYPE_F32)
		return ((const float *)data)[at];
	return (float)(rvl_b_integer(p->shortcut, data, at) - p->shortcut_zero);
}

static float scaled(const struct conv_run *r, float sum, int64_t m, int64_t s)
{
	const struct rvl_b_post *p = &r->k->bin->post;
	float u = fmaf(sum, p->scale[m], p->bias[m]);

	if (p->shortcut_scale)
		u = fmaf(shortcut_at(p, r->shortcut, s), p->shortcut_scale[m], u);
	if (p->slope)
		u = (u < 0 ? u * p->slope[m] : u) + p->after[m];
	return u;
}

/* Rounds and stores; returns the stored integer. */
static int32_t store(const struct rvl_b_post *p, void *y, int64_t at, float u)
{
	float v = rvl_clampf(u, (float)(p->q_lo - p->y_zero), (float)(p->q_hi - p->y_zero));
	int32_t q = (int32_t)rintf(v) + p->y_zero;

	if (p->y == RVL_TYPE_S16)
		((int16_t *)y)[at] = (int16_t)q;
	else
		rvl_st8(y, at, q);
	return q;
}

/* Everything behind the sum of channel @m. Returns its bit. */
static bool finish(const struct conv_run *r, int32_t sum, int64_t m, int64_t s, int64_t y)
{
	const struct rvl_b_post *p = &r->k->bin->post;
	float u, a = rvl_clampf((float)sum, p->lo, p->hi);
	int32_t q;

	if (!p->scale)
		return (int32_t)a >= p->t_int[m];
	u = scaled(r, a, m, s);
	if (p->y == RVL_TYPE_F32) {
		((float *)r->y)[y] = u;
		return p->t_float && u >= p->t_float[m];
	}
	q = store(p, r->y, y, u);
	return p->t_int && q >= p->t_int[m];
}

static void conv_pixel(const struct conv_run *r, int64_t n, int64_t oy, int64_t ox)
{
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_b_conv *b = r->k->bin;
	uint64_t *bits = r->bits ? r->bits + ((n * g->oh + oy) * g->ow + ox) * b->out_words : NULL;
	int64_t s = n * b->sp.n + oy * b->sp.y + ox * b->sp.x;
	int64_t y = n * g->yp.n + oy * g->yp.y + ox * g->yp.x;

	for (int64_t i = 0; bits && i < b->out_words; i++)
		bits[i] = 0;
	for (int64_t m = 0; m < g->m; m++) {
		uint64_t bit = finish(r, sum_of(r, n, oy, ox, m), m, s + m * b->sp.c, y + m * g->yp.c);

		if (bits)
			bits[m / 64] |= bit << m % 64;
	}
}

static void conv_rows(void *arg, int64_t first, int64_t past)
{
	const struct conv_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;

	for (int64_t i = first; i < past; i++)
		for (int64_t ox = 0; ox < g->ow; ox++)
			conv_pixel(r, i / g->oh, i % g->oh, ox);
}

int rvl_b_conv_ref(const struct rvl_kernel *k, const void *const *in, void *const *out,
		   void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_kernel_desc *d = &k->d;
	bool values = d->out[0].type != RVL_TYPE_U64;
	struct conv_run r = {
		.k = k, .x = in[RVL_B_X], .w = in[RVL_B_W],
		.shortcut = d->n_in > RVL_B_SHORTCUT ? in[RVL_B_SHORTCUT] : NULL,
		.y = values ? out[0] : NULL,
		.bits = !values ? out[0] : d->n_out > 1 ? out[1] : NULL,
	};

	(void)scratch;
	rvl_parallel_range(pool, k->g.n * k->g.oh, 1, conv_rows, &r);
	return 0;
}

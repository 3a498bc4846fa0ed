// SPDX-License-Identifier: MIT
/*
 * The ALU engine: requantise, table, pool, add or multiply, one A word at a time. Float arithmetic
 * is IEEE single precision in exactly this order; this file is built without contraction.
 */
#include "engine.h"
#include "rivulet_sc.h"

#include <math.h>
#include <string.h>

#define LANES 64 /* tm and tn at most */

struct param {
	uint32_t bias; /* added modulo 2^32 */
	float mult;
};

/* One ALU instruction with its configuration in the types of the arithmetic. */
struct alu {
	struct rvl_core *c;
	const struct rivulet_config *cfg;
	const struct rivulet_insn_alu *a;
	uint32_t lanes; /* channels of an A word */
	uint32_t tn;
	const uint8_t *lut; /* NULL: no stage 2 */
	float ra, rb, bias; /* A_SCALE */
	float mult;	    /* A_DIV */
};

static float as_float(int64_t bits)
{
	uint32_t u = bits;
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

/* rint(clamp(v, lo - zp, hi - zp)) + zp; the upper bound is applied last. */
static int8_t quantise(float v, int64_t zp, int64_t lo, int64_t hi)
{
	float low = lo - zp, high = hi - zp;

	if (isnan(v))
		return zp;
	if (v < low)
		v = low;
	if (v > high)
		v = high;
	return (int8_t)((int64_t)rintf(v) + zp);
}

/* Parameters of int8 products for sums of product bits. */
static void to_streams(struct param *p, uint32_t length)
{
	p->bias = rivulet_sc_bias((int32_t)p->bias, length);
	p->mult = rivulet_sc_mult(p->mult, length);
}

/* Stages 1 and 2 of the A word at @word of block @blk. */
static void stage_a(const struct alu *u, uint64_t word, uint64_t blk, int8_t *out)
{
	const int32_t *acc = u->c->acc + word * u->lanes;
	const int8_t *inp = (const int8_t *)u->c->inp + word * u->tn;
	const uint8_t *prm = u->c->wgt + (u->a->prm + blk * u->lanes / 2) * RIVULET_WGT_WORD;
	const struct rivulet_insn_a_rq *q = &u->cfg->a_rq;

	for (uint32_t m = 0; m < u->lanes; m++) {
		uint32_t v = u->a->src ? acc[m] : inp[m];

		if (u->a->rq) {
			struct param p;

			memcpy(&p, prm + m * sizeof(p), sizeof(p));
			if (q->length)
				to_streams(&p, (uint32_t)q->length);
			out[m] = quantise((float)(int32_t)(v + p.bias) * p.mult, q->zp, q->lo,
					  q->hi);
		} else {
			out[m] = v;
		}
		if (u->lut)
			out[m] = u->lut[(uint8_t)(out[m] + 128)];
	}
}

static uint64_t a_word(const struct alu *u, uint64_t blk, int64_t y, int64_t x)
{
	return u->a->a + blk * u->cfg->a_src.a_blk + y * u->cfg->a_src.a_row + x;
}

struct window {
	int32_t value[LANES]; /* maximum or sum */
	int64_t counted;      /* positions inside the divisor rectangle */
};

static void pool_position(const struct alu *u, uint64_t blk, int64_t y, int64_t x, struct window *w)
{
	const struct rivulet_insn_a_rect *r = &u->cfg->a_rect;
	const struct rivulet_insn_a_pool *p = &u->cfg->a_pool;
	int8_t v[LANES];

	w->counted += y >= r->y_lo && y < r->y_hi && x >= r->x_lo && x < r->x_hi;
	if (y < 0 || y >= p->rows || x < 0 || x >= p->cols)
		return;
	stage_a(u, a_word(u, blk, y, x), blk, v);
	for (uint32_t m = 0; m < u->lanes; m++) {
		if (u->a->pool != RIVULET_POOL_MAX)
			w->value[m] += v[m] - (int32_t)u->cfg->a_div.zp;
		else if (v[m] > w->value[m])
			w->value[m] = v[m];
	}
}

static void finish_average(const struct alu *u, const struct window *w, int8_t *out)
{
	const struct rivulet_insn_a_out *o = &u->cfg->a_out;
	bool border = u->a->pool == RIVULET_POOL_AVG_BORDER;
	float m = border && w->counted ? u->mult / (float)w->counted : u->mult;

	for (uint32_t i = 0; i < u->lanes; i++) {
		if (border && !w->counted)
			out[i] = o->zp;
		else
			out[i] = quantise((float)w->value[i] * m, o->zp, o->lo, o->hi);
	}
}

static void stage_pool(const struct alu *u, uint64_t blk, int64_t y, int64_t x, int8_t *out)
{
	const struct rivulet_insn_a_pool *p = &u->cfg->a_pool;
	int64_t dy = u->cfg->a_div.dy ? u->cfg->a_div.dy : 1;
	int64_t dx = u->cfg->a_div.dx ? u->cfg->a_div.dx : 1;
	struct window w = { .counted = 0 };

	for (uint32_t m = 0; u->a->pool == RIVULET_POOL_MAX && m < u->lanes; m++)
		w.value[m] = -128;
	for (int64_t ky = 0; ky < p->kh; ky++)
		for (int64_t kx = 0; kx < p->kw; kx++)
			pool_position(u, blk, y * p->sy + ky * dy + p->org_y,
				      x * p->sx + kx * dx + p->org_x, &w);
	if (u->a->pool != RIVULET_POOL_MAX) {
		finish_average(u, &w, out);
		return;
	}
	for (uint32_t m = 0; m < u->lanes; m++)
		out[m] = w.value[m];
}

static void stage_bin(const struct alu *u, const int8_t *b, int8_t *v)
{
	const struct rivulet_insn_a_out *o = &u->cfg->a_out;

	for (uint32_t m = 0; m < u->tn; m++) {
		int32_t x = v[m] - (int32_t)o->az, y = b[m] - (int32_t)o->bz;
		float t;

		if (u->a->bin == RIVULET_BIN_ADD)
			t = fmaf((float)x, u->ra, fmaf((float)y, u->rb, u->bias));
		else if (u->a->bin == RIVULET_BIN_ADD_REV)
			t = fmaf((float)y, u->rb, fmaf((float)x, u->ra, u->bias));
		else
			t = (float)(x * y) * u->ra + u->bias;
		v[m] = quantise(t, o->zp, o->lo, o->hi);
	}
}

/* Stage 4 and the write of one destination word; @dblk counts tn-blocks. */
static void finish_word(const struct alu *u, uint64_t dblk, int64_t y, int64_t x, int8_t *v)
{
	const struct rivulet_insn_alu *a = u->a;
	uint64_t d = a->d + dblk * u->cfg->a_dst.blk + y * u->cfg->a_dst.row + x;
	uint64_t b = a->b + dblk * u->cfg->a_src.b_blk + y * u->cfg->a_src.b_row + x;

	if (a->bin)
		stage_bin(u, (const int8_t *)u->c->inp + b * u->tn, v);
	if (!a->dst) {
		memcpy(u->c->inp + d * u->tn, v, u->tn);
		return;
	}
	for (uint32_t m = 0; m < u->tn; m++)
		u->c->acc[d * u->tn + m] = v[m];
}

static void position(const struct alu *u, uint64_t blk, int64_t y, int64_t x)
{
	uint32_t parts = u->lanes / u->tn;
	int8_t v[LANES];

	if (u->a->pool)
		stage_pool(u, blk, y, x, v);
	else
		stage_a(u, a_word(u, blk, y, x), blk, v);
	for (uint32_t j = 0; j < parts; j++)
		finish_word(u, blk * parts + j, y, x, v + j * u->tn);
}

int rvl_alu(struct rvl_core *c, const struct rivulet_config *cfg, const struct rivulet_insn_alu *a)
{
	struct alu u = {
		.c = c,
		.cfg = cfg,
		.a = a,
		.tn = c->board->tn,
		.lanes = a->src ? c->board->tm : c->board->tn,
		.lut = a->lut ? c->wgt + cfg->a_lut.addr * RIVULET_WGT_WORD : NULL,
		.ra = as_float(cfg->a_scale.ra),
		.rb = as_float(cfg->a_scale.rb),
		.bias = as_float(cfg->a_scale.c),
		.mult = as_float(cfg->a_div.mult),
	};

	for (int64_t b = 0; b < a->blks; b++) {
		for (int64_t y = 0; y < a->rows; y++) {
			for (int64_t x = 0; x < a->cols; x++) {
				if (rvl_core_aborted(c))
					return RVL_ABORTED;
				position(&u, b, y, x);
			}
		}
	}
	return 0;
}

// SPDX-License-Identifier: MIT
/*
 * The ALU engine: requantise, table, pool, add or multiply, one A word at a time; alu_real.c
 * has what binary networks need. Float arithmetic is IEEE single precision in exactly this order;
 * both files are built without contraction.
 */
#include "alu.h"
#include "rivulet_sc.h"

#include <math.h>
#include <string.h>

#define LANES RVL_ALU_LANES

struct param {
	uint32_t bias; /* added modulo 2^32 */
	float mult;
};

static float as_float(int64_t bits)
{
	uint32_t u = bits;
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

int32_t rvl_alu_quantise(float v, int64_t zp, int64_t lo, int64_t hi)
{
	float low = lo - zp, high = hi - zp;

	if (isnan(v))
		return zp;
	if (v < low)
		v = low;
	if (v > high)
		v = high;
	return (int32_t)((int64_t)rintf(v) + zp);
}

/* Parameters of int8 products for sums of product bits. */
static void to_streams(struct param *p, uint32_t length)
{
	p->bias = rivulet_sc_bias((int32_t)p->bias, length);
	p->mult = rivulet_sc_mult(p->mult, length);
}

/* The factors below and above the zero point of A_SLOPE, by the sign of each value. */
static void apply_slopes(const struct rvl_alu_unit *u, uint64_t blk, int32_t *v)
{
	const uint8_t *factor = rvl_alu_param(u, u->cfg->a_ext.addr, u->words.ext, blk, 0);
	const struct rivulet_insn_a_slope *s = &u->cfg->a_slope;

	for (uint32_t m = 0; m < u->lanes; m++) {
		int32_t x = v[m] - (int32_t)s->zp;
		float f;

		memcpy(&f, factor + (x < 0 ? m : u->lanes + m) * sizeof(f), sizeof(f));
		v[m] = rvl_alu_quantise((float)x * f, s->out, s->lo, s->hi);
	}
}

/* Stages 1 and 2 of A at (@y, @x) of block @blk. */
static void stage_a(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x, int32_t *v)
{
	const uint8_t *prm = u->c->wgt + (u->a->prm + blk * u->lanes / 2) * RIVULET_WGT_WORD;
	const struct rivulet_insn_a_rq *q = &u->cfg->a_rq;

	rvl_alu_operand(u, blk, y, x, v);
	for (uint32_t m = 0; m < u->lanes && u->a->rq; m++) {
		struct param p;

		memcpy(&p, prm + m * sizeof(p), sizeof(p));
		if (q->length)
			to_streams(&p, (uint32_t)q->length);
		v[m] = rvl_alu_quantise((float)(int32_t)((uint32_t)v[m] + p.bias) * p.mult, q->zp,
					q->lo, q->hi);
	}
	if (u->a->slope)
		apply_slopes(u, blk, v);
	for (uint32_t m = 0; m < u->lanes && u->lut; m++)
		v[m] = (int8_t)u->lut[(uint8_t)(v[m] + 128)];
}

struct window {
	int32_t value[LANES]; /* maximum or sum */
	int64_t counted;      /* positions inside the divisor rectangle */
};

static void pool_position(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x, struct window *w)
{
	const struct rivulet_insn_a_rect *r = &u->cfg->a_rect;
	const struct rivulet_insn_a_pool *p = &u->cfg->a_pool;
	int32_t v[LANES];

	w->counted += y >= r->y_lo && y < r->y_hi && x >= r->x_lo && x < r->x_hi;
	if (y < 0 || y >= p->rows || x < 0 || x >= p->cols)
		return;
	stage_a(u, blk, y, x, v);
	for (uint32_t m = 0; m < u->lanes; m++) {
		if (u->a->pool != RIVULET_POOL_MAX)
			w->value[m] += v[m] - (int32_t)u->cfg->a_div.zp;
		else if (v[m] > w->value[m])
			w->value[m] = v[m];
	}
}

static void finish_average(const struct rvl_alu_unit *u, const struct window *w, int32_t *out)
{
	const struct rivulet_insn_a_out *o = &u->cfg->a_out;
	bool border = u->a->pool == RIVULET_POOL_AVG_BORDER;
	float m = border && w->counted ? u->mult / (float)w->counted : u->mult;

	for (uint32_t i = 0; i < u->lanes; i++) {
		if (border && !w->counted)
			out[i] = o->zp;
		else
			out[i] = rvl_alu_quantise((float)w->value[i] * m, o->zp, o->lo, o->hi);
	}
}

static void stage_pool(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x, int32_t *out)
{
	const struct rivulet_insn_a_pool *p = &u->cfg->a_pool;
	int64_t dy = u->cfg->a_div.dy ? u->cfg->a_div.dy : 1;
	int64_t dx = u->cfg->a_div.dx ? u->cfg->a_div.dx : 1;
	struct window w = { .counted = 0 };

	for (uint32_t m = 0; u->a->pool == RIVULET_POOL_MAX && m < u->lanes; m++)
		w.value[m] = u->words.a == 2 ? INT16_MIN : INT8_MIN;
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

/* Stage 4 of the tn channels @v of block @dblk. */
static void stage_bin(const struct rvl_alu_unit *u, uint64_t dblk, int64_t y, int64_t x, int32_t *v)
{
	const struct rivulet_insn_a_out *o = &u->cfg->a_out;
	const struct rivulet_insn_a_src *s = &u->cfg->a_src;
	const int8_t *b = (const int8_t *)u->c->inp +
			  (u->a->b + dblk * s->b_blk + y * s->b_row + x) * u->tn;

	for (uint32_t m = 0; m < u->tn; m++) {
		int32_t xv = v[m] - (int32_t)o->az, yv = b[m] - (int32_t)o->bz;
		float t;

		if (u->a->bin == RIVULET_BIN_ADD)
			t = fmaf((float)xv, u->ra, fmaf((float)yv, u->rb, u->bias));
		else if (u->a->bin == RIVULET_BIN_ADD_REV)
			t = fmaf((float)yv, u->rb, fmaf((float)xv, u->ra, u->bias));
		else
			t = (float)(xv * yv) * u->ra + u->bias;
		v[m] = rvl_alu_quantise(t, o->zp, o->lo, o->hi);
	}
}

/* The tn channels @v of block @dblk as words of the destination. */
static void write_word(const struct rvl_alu_unit *u, uint64_t dblk, int64_t y, int64_t x,
		       const int32_t *v)
{
	const struct rivulet_insn_a_dst *dst = &u->cfg->a_dst;
	uint64_t d = u->a->d + dblk * dst->blk + y * dst->row + x;

	for (uint32_t m = 0; m < u->tn; m++) {
		if (u->a->dst)
			u->c->acc[d * u->tn + m] = v[m];
		else
			u->c->inp[d * u->tn + m] = (uint8_t)v[m];
	}
}

static void position(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x)
{
	uint32_t parts = u->lanes / u->tn;
	int32_t v[LANES];

	if (u->a->pool)
		stage_pool(u, blk, y, x, v);
	else
		stage_a(u, blk, y, x, v);
	for (uint32_t j = 0; j < parts; j++) {
		if (u->a->bin)
			stage_bin(u, blk * parts + j, y, x, v + j * u->tn);
		if (u->words.d)
			write_word(u, blk * parts + j, y, x, v + j * u->tn);
	}
	if (u->words.bits)
		rvl_alu_bits(u, blk, y, x, v);
}

int rvl_alu(struct rvl_core *c, const struct rivulet_config *cfg, const struct rivulet_insn_alu *a)
{
	struct rvl_alu_unit u = {
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
		.words = rivulet_alu_words(c->board, cfg, a),
		.lo = as_float(cfg->a_sum.lo),
		.hi = as_float(cfg->a_sum.hi),
	};

	for (int64_t b = 0; b < a->blks; b++) {
		for (int64_t y = 0; y < a->rows; y++) {
			for (int64_t x = 0; x < a->cols; x++) {
				if (rvl_core_aborted(c))
					return RVL_ABORTED;
				(a->real ? rvl_alu_real : position)(&u, b, y, x);
			}
		}
	}
	return 0;
}

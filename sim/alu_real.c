// SPDX-License-Identifier: MIT
/*
 * The ALU engine for binary networks: operands and results of int16, scale and bias in float32 with
 * one rounding at the end, and bits of the results. Built without contraction, as alu.c.
 */
#include "alu.h"

#include <math.h>
#include <string.h>

/* The channels of a tn-block in one int8 word, or in two int16 words @pitch apart. */
static void load_words(const struct rvl_alu_unit *u, uint64_t word, uint64_t pitch, bool wide,
		       int32_t *v)
{
	const uint8_t *p = u->c->inp + word * u->tn;
	uint32_t half = u->tn / 2;
	int16_t e;

	for (uint32_t m = 0; m < u->tn; m++) {
		if (!wide) {
			v[m] = (int8_t)p[m];
			continue;
		}
		memcpy(&e, p + m / half * pitch * u->tn + m % half * 2, sizeof(e));
		v[m] = e;
	}
}

static void store_words(const struct rvl_alu_unit *u, uint64_t word, uint64_t pitch, bool wide,
			const int32_t *v)
{
	uint8_t *p = u->c->inp + word * u->tn;
	uint32_t half = u->tn / 2;

	for (uint32_t m = 0; m < u->tn; m++) {
		int16_t e = (int16_t)v[m];

		if (wide)
			memcpy(p + m / half * pitch * u->tn + m % half * 2, &e, sizeof(e));
		else
			p[m] = (uint8_t)v[m];
	}
}

void rvl_alu_operand(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x, int32_t *v)
{
	const struct rivulet_insn_a_src *s = &u->cfg->a_src;
	uint64_t word = u->a->a + blk * u->words.a * s->a_blk + y * s->a_row + x;

	if (u->a->src)
		memcpy(v, u->c->acc + word * u->lanes, u->lanes * sizeof(*v));
	else
		load_words(u, word, s->a_blk, u->words.a == 2, v);
}

const uint8_t *rvl_alu_param(const struct rvl_alu_unit *u, uint64_t addr, uint64_t per, uint64_t blk,
			     uint32_t field)
{
	return u->c->wgt + (addr + blk * per) * RIVULET_WGT_WORD + field * u->lanes * 4;
}

static float real_at(const uint8_t *p, uint32_t i)
{
	float f;

	memcpy(&f, p + i * sizeof(f), sizeof(f));
	return f;
}

static float clamp_sum(const struct rvl_alu_unit *u, int32_t v)
{
	float a = (float)v;

	if (a < u->lo)
		a = u->lo;
	if (a > u->hi)
		a = u->hi;
	return a;
}

static void add_second(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x,
		       const uint8_t *factor, float *t)
{
	const struct rivulet_insn_a_src *s = &u->cfg->a_src;
	uint64_t word = u->a->b + blk * u->words.b * s->b_blk + y * s->b_row + x;
	uint32_t parts = u->lanes / u->tn, per = u->words.b / parts;
	int32_t b[RVL_ALU_LANES];

	for (uint32_t j = 0; j < parts; j++)
		load_words(u, word + j * per * s->b_blk, s->b_blk, per == 2, b + j * u->tn);
	for (uint32_t m = 0; m < u->lanes; m++)
		t[m] = fmaf((float)(b[m] - (int32_t)u->cfg->a_type.bz), real_at(factor, m), t[m]);
}

static void add_prelu(const struct rvl_alu_unit *u, const uint8_t *p, float *t)
{
	for (uint32_t m = 0; m < u->lanes; m++) {
		float v = t[m] < 0 ? t[m] * real_at(p, m) : t[m];

		t[m] = v + real_at(p, u->lanes + m);
	}
}

/* Towards zero, at the ends of the range if outside it; 0 for a NaN. */
static int32_t as_int(float v)
{
	if (!(v > -0x1p31f))
		return isnan(v) ? 0 : INT32_MIN;
	return v < 0x1p31f ? (int32_t)v : INT32_MAX;
}

/* The values of the result in float32, before rounding; of bits alone, the sums. */
static void compute(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x, float *t)
{
	const uint8_t *p = rvl_alu_param(u, u->a->prm, u->words.params, blk, 0);
	const uint8_t *ext = rvl_alu_param(u, u->cfg->a_ext.addr, u->words.ext, blk, 0);
	int32_t v[RVL_ALU_LANES];

	rvl_alu_operand(u, blk, y, x, v);
	for (uint32_t m = 0; m < u->lanes; m++) {
		t[m] = clamp_sum(u, v[m]);
		if (u->words.params)
			t[m] = fmaf(t[m], real_at(p, 2 * m + 1), real_at(p, 2 * m));
	}
	if (u->a->bin)
		add_second(u, blk, y, x, ext, t);
	if (u->cfg->a_type.prelu)
		add_prelu(u, ext + (u->a->bin ? u->lanes * 4 : 0), t);
}

static void store(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x, const int32_t *v)
{
	const struct rivulet_insn_a_dst *d = &u->cfg->a_dst;
	uint64_t word = u->a->d + blk * u->words.d * d->blk + y * d->row + x;
	uint32_t parts = u->lanes / u->tn, per = u->words.d / parts;

	for (uint32_t j = 0; j < parts; j++)
		store_words(u, word + j * per * d->blk, d->blk, per == 2, v + j * u->tn);
}

void rvl_alu_real(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x)
{
	const struct rivulet_insn_a_type *k = &u->cfg->a_type;
	float t[RVL_ALU_LANES];
	int32_t v[RVL_ALU_LANES];

	compute(u, blk, y, x, t);
	for (uint32_t m = 0; m < u->lanes; m++)
		v[m] = u->words.d ? rvl_alu_quantise(t[m], k->zp, k->lo, k->hi) : as_int(t[m]);
	if (u->words.d)
		store(u, blk, y, x, v);
	if (u->words.bits)
		rvl_alu_bits(u, blk, y, x, v);
}

/* The thresholds are the last of the parameters at A_EXT. */
void rvl_alu_bits(const struct rvl_alu_unit *u, uint64_t blk, int64_t y, int64_t x, const int32_t *v)
{
	const struct rivulet_insn_a_pack *p = &u->cfg->a_pack;
	uint32_t pixels = 1u << p->lanes, bytes = u->tn / pixels;
	uint64_t channel = p->first + blk * u->lanes, block = channel / (8 * bytes);
	uint64_t word = p->d + block * p->blk + y * p->row + x / pixels;
	uint8_t *out = u->c->inp + word * u->tn + x % pixels * bytes + channel % (8 * bytes) / 8;
	const uint8_t *thresholds = rvl_alu_param(u, u->cfg->a_ext.addr, u->words.ext, blk,
						  u->words.ext * RIVULET_WGT_WORD / 4 / u->lanes - 1);

	memset(out, 0, p->fill && blk + 1 == (uint64_t)u->a->blks ?
			       bytes - channel % (8 * bytes) / 8 : u->lanes / 8);
	for (uint32_t m = 0; m < u->lanes; m++) {
		int32_t t;

		memcpy(&t, thresholds + m * sizeof(t), sizeof(t));
		out[m / 8] |= (v[m] >= t) << m % 8;
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * The reference that the engines are compared with: docs/isa.md implemented element by element. It
 * shares no code with sim/.
 */
#ifndef RVL_TEST_NPU_REF_H
#define RVL_TEST_NPU_REF_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_board.h"
#include "rivulet_cost.h"
#include "rivulet_sc.h"

struct ref {
	const struct rivulet_board *b;
	const struct rivulet_config *c;
	int8_t *inp;
	uint8_t *wgt;
	int32_t *acc;
	uint8_t *mem;
};

/* ---- LOAD ---- */

/* Channel @n of source pixel (y, x) of block @blk, or the fill value outside the source */
static inline int8_t ref_load_value(const struct ref *r, const struct rivulet_insn_load *l, int blk,
				    int n, int64_t y, int64_t x)
{
	const struct rivulet_insn_l_src *s = &r->c->l_src;
	const struct rivulet_insn_l_gather *g = &r->c->l_gather;
	const struct rivulet_insn_l_bounds *o = &r->c->l_bounds;
	int64_t k = (int64_t)blk * r->b->tn + n, at, row, col;

	switch (l->kind) {
	case RIVULET_XFER_BLOCK:
		at = blk * s->blk_pitch + y * s->row_pitch + x * r->b->tn + n;
		break;
	case RIVULET_XFER_PLANAR:
		if (k >= r->c->l_chan.channels)
			return r->c->l_chan.fill;
		at = k * s->ch_pitch + y * s->row_pitch + x;
		break;
	case RIVULET_XFER_INTERLEAVED:
		if (k >= r->c->l_chan.channels)
			return r->c->l_chan.fill;
		at = y * s->row_pitch + x * s->ch_pitch + k;
		break;
	default:
		row = o->org_y + y * g->sy + k / g->kw % g->kh * g->dy;
		col = o->org_x + x * g->sx + k % g->kw * g->dx;
		if (k >= g->ch * g->kh * g->kw || row < 0 || row >= o->rows || col < 0 ||
		    col >= o->cols)
			return r->c->l_chan.fill;
		at = row * s->row_pitch + (g->pixel ? col * g->pixel : col) +
		     k / (g->kh * g->kw) * (g->pixel ? 1 : s->ch_pitch);
	}
	return (int8_t)(r->mem[l->offset + at] ^ (l->flip ? 0x80 : 0));
}

static inline void ref_load_word(const struct ref *r, const struct rivulet_insn_load *l, int blk,
				 int64_t y, int64_t x)
{
	const struct rivulet_insn_l_chan *ch = &r->c->l_chan;
	const struct rivulet_insn_l_pad *p = &r->c->l_pad;
	int64_t w = l->addr + blk * r->c->l_dst.blk_pitch + y * r->c->l_dst.row_pitch + x;
	int64_t sy = (y - p->top + 512 * (ch->rep_y + 1)) / (ch->rep_y + 1) - 512;
	int64_t sx = (x - p->left + 512 * (ch->rep_x + 1)) / (ch->rep_x + 1) - 512;
	bool inside = sy >= 0 && sy < l->rows && sx >= 0 && sx < l->cols;
	bool mask = l->kind == RIVULET_XFER_BLOCK && ch->count;

	for (int n = 0; n < (int)r->b->tn; n++) {
		int from = mask ? n - ch->dst_ch + ch->src_ch : n;

		if (mask && (n < ch->dst_ch || n >= ch->dst_ch + ch->count))
			continue;
		r->inp[w * r->b->tn + n] = inside ? ref_load_value(r, l, blk, from, sy, sx) :
						    ch->fill;
	}
}

static inline void ref_load_plain(const struct ref *r, const struct rivulet_insn_load *l)
{
	bool wgt = l->mem == RIVULET_MEM_WGT;
	int64_t bytes = wgt ? 16 : 4 * r->b->tm;
	uint8_t *base = wgt ? r->wgt : (uint8_t *)r->acc;

	for (int64_t b = 0; b < l->blks; b++)
		for (int64_t y = 0; y < l->rows; y++)
			for (int64_t i = 0; i < l->cols * bytes; i++)
				base[(l->addr + b * r->c->l_dst.blk_pitch +
				      y * r->c->l_dst.row_pitch) *
					     bytes +
				     i] = r->mem[l->offset + b * r->c->l_src.blk_pitch +
						 y * r->c->l_src.row_pitch + i];
}

static inline void ref_load(const struct ref *r, const struct rivulet_insn_load *l)
{
	const struct rivulet_insn_l_pad *p = &r->c->l_pad;
	int64_t rows = l->rows * (r->c->l_chan.rep_y + 1) + p->top + p->bottom;
	int64_t cols = l->cols * (r->c->l_chan.rep_x + 1) + p->left + p->right;

	if (l->mem != RIVULET_MEM_INP) {
		ref_load_plain(r, l);
		return;
	}
	for (int b = 0; b < l->blks; b++)
		for (int64_t y = 0; y < rows; y++)
			for (int64_t x = 0; x < cols; x++)
				ref_load_word(r, l, b, y, x);
}

/* ---- STORE ---- */

static inline void ref_store_channel(const struct ref *r, const struct rivulet_insn_store *s,
				     int64_t b, int64_t y, int64_t x, int n)
{
	const struct rivulet_insn_s_dst *d = &r->c->s_dst;
	const struct rivulet_insn_s_chan *ch = &r->c->s_chan;
	bool acc = s->mem == RIVULET_MEM_ACC;
	int64_t lanes = acc ? r->b->tm : r->b->tn, elem = acc ? 4 : 1, k = b * lanes + n, to = n,
		at;
	int64_t w = s->addr + b * r->c->s_src.blk_pitch + y * r->c->s_src.row_pitch + x;
	const uint8_t *from =
		(acc ? (uint8_t *)r->acc : (uint8_t *)r->inp) + (w * lanes + n) * elem;

	if (s->kind == RIVULET_XFER_BLOCK && !acc && ch->count) {
		if (n < ch->src_ch || n >= ch->src_ch + ch->count)
			return;
		to = n - ch->src_ch + ch->dst_ch;
	}
	if (s->kind != RIVULET_XFER_BLOCK && k >= ch->channels)
		return;
	if (s->kind == RIVULET_XFER_BLOCK)
		at = b * d->blk_pitch + y * d->row_pitch + (x * lanes + to) * elem;
	else if (s->kind == RIVULET_XFER_PLANAR)
		at = k * d->ch_pitch + y * d->row_pitch + x * elem;
	else
		at = y * d->row_pitch + x * d->ch_pitch + k * elem;
	for (int64_t i = 0; i < elem; i++)
		r->mem[s->offset + at + i] = from[i] ^ (s->flip ? 0x80 : 0);
}

static inline void ref_store(const struct ref *r, const struct rivulet_insn_store *s)
{
	int lanes = s->mem == RIVULET_MEM_ACC ? r->b->tm : r->b->tn;

	for (int64_t b = 0; b < s->blks; b++)
		for (int64_t y = 0; y < s->rows; y++)
			for (int64_t x = 0; x < s->cols; x++)
				for (int n = 0; n < lanes; n++)
					ref_store_channel(r, s, b, y, x, n);
}

/* ---- CONV ---- */

static inline int64_t ref_conv_x(const struct ref *r, const struct rivulet_insn_conv *v, int64_t o,
				 int64_t i, int64_t ty, int64_t tx, int n)
{
	const struct rivulet_insn_c_input *in = &r->c->c_input;
	int64_t ring = in->wrap ? (in->phase + ty) % in->wrap : ty;

	if (ty < 0 || ty >= in->rows || tx < 0 || tx >= in->cols)
		return r->c->c_pad.value;
	return r->inp[(v->inp + o * r->c->c_out.inp_oc_pitch + i * in->blk_pitch +
		       ring * in->row_pitch + tx) *
			      r->b->tn +
		      n];
}

/* Passes the codes of all valid products, in order, to the circuit of docs/isa.md 5. */
static inline int64_t ref_stream_sum(const struct ref *r, const struct rivulet_insn_conv *v,
				     int64_t o, int64_t y, int64_t x, int m)
{
	const struct rivulet_insn_c_kernel *k = &r->c->c_kernel;
	const struct rivulet_insn_c_mode *mode = &r->c->c_mode;
	int64_t tn = r->b->tn, valid = mode->valid ? mode->valid : v->icb * tn, n = 0;
	struct rivulet_sc_adder a = { mode->circuit, r->b->sc_blocks, 1u << mode->scale };
	static struct rivulet_sc s;
	static uint16_t cx[65536];
	static int16_t cw[65536];

	if (mode->out && o * r->b->tm + m >= mode->out)
		return 0;
	if (s.length != mode->length)
		rivulet_sc_init(&s, 8, mode->length);
	for (int64_t i = 0; i < v->icb; i++) {
		int64_t at = v->wgt + o * r->c->c_out.wgt_oc_pitch + i * r->c->c_out.wgt_ic_pitch;
		const int8_t *w = (const int8_t *)r->wgt + 16 * at;

		for (int64_t t = 0; t < k->kh * k->kw; t++) {
			int64_t ty = y * k->sy + t / k->kw * k->dy + k->org_y;
			int64_t tx = x * k->sx + t % k->kw * k->dx + k->org_x;

			for (int64_t c = 0; c < tn && i * tn + c < valid; c++, n++) {
				cx[n] = rivulet_sc_x(mode->circuit,
						     ref_conv_x(r, v, o, i, ty, tx, c) + 128);
				cw[n] = rivulet_sc_w(mode->circuit,
						     w[t * r->b->tm * tn + m * tn + c]);
			}
		}
	}
	return rivulet_sc_sum(&s, &a, cx, cw, n);
}

/* Bytes of @n, padded to 16 and to tn. */
static inline int64_t ref_padded(const struct ref *r, int64_t n)
{
	while (n % 16 || n % r->b->tn)
		n++;
	return n;
}

static inline int64_t ref_index_bits(const struct ref *r)
{
	int64_t bits = 0;

	while (r->b->tn > 1u << bits)
		bits++;
	return bits;
}

/* Bytes of the channels of a bit-plane tap's rows. */
static inline int64_t ref_plane_indices(const struct ref *r)
{
	return r->c->c_mode.dn < r->b->tn ? ref_padded(r, r->c->c_mode.dn) : 0;
}

/* Bytes of the weights of one tap. */
static inline int64_t ref_block(const struct ref *r, const struct rivulet_insn_conv *v)
{
	int64_t pairs = r->b->tm * r->b->dn;
	int64_t passes = (r->c->c_mode.dn + r->b->dn - 1) / r->b->dn;

	if (v->mode == RIVULET_MODE_BITPLANE)
		return ref_plane_indices(r) +
		       ref_padded(r, (r->c->c_mode.dn * r->b->tm * r->c->c_mode.planes + 7) / 8);
	if (v->mode != RIVULET_MODE_SPARSE)
		return r->b->tm * r->b->tn;
	return passes * (ref_padded(r, pairs) + ref_padded(r, (pairs * ref_index_bits(r) + 7) / 8));
}

static inline int64_t ref_index(const struct ref *r, const int8_t *indices, int64_t p)
{
	int64_t bits = ref_index_bits(r), index = 0;

	for (int64_t i = 0; i < bits; i++)
		index |= (int64_t)(indices[(p * bits + i) / 8] >> (p * bits + i) % 8 & 1) << i;
	return index;
}

/* The weights of a bit-plane tap: bit by bit, the highest negative; rows of equal channel are added. */
static inline void ref_planes(const struct ref *r, const int8_t *w, int64_t *dense)
{
	int64_t tm = r->b->tm, tn = r->b->tn, p = r->c->c_mode.planes, rows = r->c->c_mode.dn;
	const uint8_t *indices = (const uint8_t *)w, *codes = indices + ref_plane_indices(r);

	for (int64_t k = 0; k < tm * tn; k++)
		dense[k] = 0;
	for (int64_t bit = 0; bit < rows * tm * p; bit++) {
		int64_t row = bit / (tm * p), n = rows < tn ? indices[row] : row;
		int64_t value = bit % p == p - 1 ? -((int64_t)1 << (p - 1)) : (int64_t)1 << bit % p;

		if (n < tn && codes[bit / 8] >> bit % 8 & 1)
			dense[bit / p % tm * tn + n] += value;
	}
}

/* The weights of a block as a dense matrix: pairs of equal index are added. */
static inline void ref_weights(const struct ref *r, const struct rivulet_insn_conv *v, const int8_t *w,
			       int64_t *dense)
{
	int64_t dn = r->b->dn, tm = r->b->tm, tn = r->b->tn, values = ref_padded(r, tm * dn);
	int64_t pass = values + ref_padded(r, (tm * dn * ref_index_bits(r) + 7) / 8);
	int64_t end = ref_block(r, v);

	if (v->mode == RIVULET_MODE_BITPLANE) {
		ref_planes(r, w, dense);
		return;
	}
	for (int64_t k = 0; k < tm * tn; k++)
		dense[k] = v->mode == RIVULET_MODE_SPARSE ? 0 : w[k];
	for (int64_t at = 0; v->mode == RIVULET_MODE_SPARSE && at < end; at += pass) {
		for (int64_t p = 0; p < tm * dn; p++) {
			int64_t n = ref_index(r, w + at + values, p);

			if (n < tn)
				dense[p / dn * tn + n] += w[at + p];
		}
	}
}

/* The sum of row @m over all taps of input block @i, whose weights begin at @w. */
static inline int64_t ref_taps_sum(const struct ref *r, const struct rivulet_insn_conv *v,
				   int64_t o, int64_t i, int64_t y, int64_t x, int m,
				   const int8_t *w)
{
	const struct rivulet_insn_c_kernel *k = &r->c->c_kernel;
	const struct rivulet_insn_c_mode *mode = &r->c->c_mode;
	int64_t channel = (mode->first + o * r->b->tm + m) / (mode->mult ? mode->mult : 1) % r->b->tn;
	int64_t dn = r->b->dn, count[64] = { 0 }, passes = 0, number = 0, sum = 0;

	for (int64_t t = 0; t < k->kh * k->kw; t++) {
		int64_t *lane = &count[(3 * (t / k->kw) * k->dy + t % k->kw * k->dx) % dn];

		passes = ++*lane > passes ? *lane : passes;
	}
	for (int64_t lane = 0; lane < dn; lane++) {
		for (int64_t t = 0; t < k->kh * k->kw; t++) {
			int64_t ky = t / k->kw, kx = t % k->kw, at;

			if ((3 * ky * k->dy + kx * k->dx) % dn != lane)
				continue;
			at = number++ % passes * ref_padded(r, r->b->tm * dn) + m * dn + lane;
			sum += w[at] * ref_conv_x(r, v, o, i, y * k->sy + ky * k->dy + k->org_y,
						  x * k->sx + kx * k->dx + k->org_x, channel);
		}
	}
	return sum;
}

/* Adds the sums of all taps of input block @i, whose weights begin at @w, at all places. */
static inline void ref_add_taps(const struct ref *r, const struct rivulet_insn_conv *v, int64_t o,
				int64_t i, const int8_t *w, int64_t *sum)
{
	int64_t tm = r->b->tm;

	for (int64_t k = 0; k < v->rows * (int64_t)v->cols * tm; k++)
		sum[k] += ref_taps_sum(r, v, o, i, k / tm / v->cols, k / tm % v->cols, (int)(k % tm), w);
}

/*
 * The bit of channel @n at (@ty, @tx) as +1 or -1, or 0 where it takes no part: a channel that is
 * not valid, or with C_MODE.border a place outside the bounds.
 */
static inline int64_t ref_bit(const struct ref *r, const struct rivulet_insn_conv *v, int64_t o,
			      int64_t i, int64_t ty, int64_t tx, int64_t n)
{
	const struct rivulet_insn_c_mode *m = &r->c->c_mode;
	const struct rivulet_insn_c_input *in = &r->c->c_input;
	int64_t pixels = (int64_t)1 << m->lanes, bytes = r->b->tn / pixels, part = 0;
	int64_t channel = i * 8 * bytes + n, byte;

	if (channel < m->first || (m->valid && channel >= m->first + m->valid))
		return 0;
	if (ty < 0 || ty >= in->rows || tx < 0 || tx >= in->cols) {
		if (m->border)
			return 0;
	} else {
		part = tx % pixels;
		tx /= pixels;
	}
	byte = ref_conv_x(r, v, o, i, ty, tx, (int)(part * bytes + n / 8));
	return byte >> n % 8 & 1 ? 1 : -1;
}

/* The sum of row @m over all taps of input block @i, whose weights begin at @w. */
static inline int64_t ref_binary_sum(const struct ref *r, const struct rivulet_insn_conv *v,
				     int64_t o, int64_t i, int64_t y, int64_t x, int64_t m,
				     const int8_t *w)
{
	const struct rivulet_insn_c_kernel *k = &r->c->c_kernel;
	int64_t pixels = (int64_t)1 << r->c->c_mode.lanes, bytes = r->b->tn / pixels, sum = 0;

	for (int64_t t = 0; t < k->kh * k->kw; t++) {
		const int8_t *row = w + (t / pixels * r->b->tm + m) * r->b->tn + t % pixels * bytes;

		for (int64_t n = 0; n < 8 * bytes; n++) {
			int64_t bit = ref_bit(r, v, o, i, y * k->sy + t / k->kw * k->dy + k->org_y,
					      x * k->sx + t % k->kw * k->dx + k->org_x, n);

			sum += row[n / 8] >> n % 8 & 1 ? bit : -bit;
		}
	}
	return sum;
}

static inline void ref_add_binary(const struct ref *r, const struct rivulet_insn_conv *v, int64_t o,
				  int64_t i, const int8_t *w, int64_t *sum)
{
	int64_t tm = r->b->tm;

	for (int64_t k = 0; k < v->rows * (int64_t)v->cols * tm; k++)
		sum[k] += ref_binary_sum(r, v, o, i, k / tm / v->cols, k / tm % v->cols, k % tm, w);
}

/* Adds the products of tap @t of input block @i to the sums of all places. */
static inline void ref_add_tap(const struct ref *r, const struct rivulet_insn_conv *v, int64_t o,
			       int64_t i, int64_t t, const int64_t *dense, int64_t *sum)
{
	const struct rivulet_insn_c_kernel *k = &r->c->c_kernel;
	int64_t tm = r->b->tm, tn = r->b->tn;

	for (int64_t place = 0; place < v->rows * (int64_t)v->cols; place++, sum += tm) {
		int64_t ty = place / v->cols * k->sy + t / k->kw * k->dy + k->org_y;
		int64_t tx = place % v->cols * k->sx + t % k->kw * k->dx + k->org_x;
		int64_t word[64];

		for (int64_t n = 0; n < tn; n++)
			word[n] = ref_conv_x(r, v, o, i, ty, tx, (int)n);
		for (int64_t m = 0; m < tm; m++)
			for (int64_t n = 0; n < tn; n++)
				sum[m] += dense[m * tn + n] * word[n];
	}
}

/* The sums of output block @o: tm at each place. */
static inline void ref_conv_sums(const struct ref *r, const struct rivulet_insn_conv *v, int64_t o,
				 int64_t *sum)
{
	const struct rivulet_insn_c_out *out = &r->c->c_out;
	int64_t area = ref_block(r, v), dense[64 * 64];

	for (int64_t i = 0; i < v->icb; i++) {
		int64_t at = v->wgt + o * out->wgt_oc_pitch + i * out->wgt_ic_pitch;

		if (v->mode == RIVULET_MODE_TAPS) {
			ref_add_taps(r, v, o, i, (const int8_t *)r->wgt + 16 * at, sum);
			continue;
		}
		if (v->mode == RIVULET_MODE_BINARY) {
			ref_add_binary(r, v, o, i, (const int8_t *)r->wgt + 16 * at, sum);
			continue;
		}
		for (int64_t t = 0; t < r->c->c_kernel.kh * r->c->c_kernel.kw; t++) {
			ref_weights(r, v, (const int8_t *)r->wgt + 16 * at + t * area, dense);
			ref_add_tap(r, v, o, i, t, dense, sum);
		}
	}
}

static inline void ref_stream_sums(const struct ref *r, const struct rivulet_insn_conv *v, int64_t o,
				   int64_t *sum)
{
	int64_t tm = r->b->tm;

	for (int64_t k = 0; k < v->rows * v->cols * tm; k++)
		sum[k] = ref_stream_sum(r, v, o, k / tm / v->cols, k / tm % v->cols, (int)(k % tm));
}

static inline void ref_conv(const struct ref *r, const struct rivulet_insn_conv *v)
{
	int64_t tm = r->b->tm, places = v->rows * (int64_t)v->cols;

	for (int64_t o = 0; o < v->ocb; o++) {
		int64_t *sum = calloc((size_t)(places * tm), sizeof(*sum));

		if (!sum)
			abort();
		(v->mode == RIVULET_MODE_STOCHASTIC ? ref_stream_sums : ref_conv_sums)(r, v, o, sum);
		for (int64_t k = 0; k < places * tm; k++) {
			int64_t w = v->acc + o * r->c->c_out.blk_pitch +
				    k / tm / v->cols * r->c->c_out.row_pitch + k / tm % v->cols;
			int32_t *a = r->acc + w * tm + k % tm;

			*a = (int32_t)(uint32_t)((v->keep ? *a : 0) + sum[k]);
		}
		free(sum);
	}
}

/* ---- ALU ---- */

static inline float ref_float(int64_t bits)
{
	uint32_t u = (uint32_t)bits;
	float f;

	memcpy(&f, &u, 4);
	return f;
}

static inline int ref_round(float v, int zp, int lo, int hi)
{
	if (v != v)
		return zp;
	v = v < (float)(lo - zp) ? (float)(lo - zp) : v;
	v = v > (float)(hi - zp) ? (float)(hi - zp) : v;
	return (int)nearbyintf(v) + zp;
}

/*
 * Channel @m of a tn-block number @block at INP word @word, which is that of block 0: int8 in one
 * word, or int16 in two with half of the channels each.
 */
static inline int ref_value(const struct ref *r, int64_t word, int64_t block, int64_t pitch,
			    bool wide, int m)
{
	int tn = r->b->tn, half = tn / 2;
	const int8_t *at;

	if (!wide)
		return r->inp[(word + block * pitch) * tn + m];
	at = r->inp + (word + (2 * block + m / half) * pitch) * tn + m % half * 2;
	return (uint8_t)at[0] | at[1] * 256;
}

/* Four bytes of channel @m: number @field of block @blk, whose parameters at A_EXT are @fields. */
static inline uint32_t ref_ext(const struct ref *r, const struct rivulet_insn_alu *a, int64_t blk,
			       int fields, int field, int m)
{
	int lanes = a->src ? r->b->tm : r->b->tn;
	uint32_t v;

	memcpy(&v, r->wgt + r->c->a_ext.addr * 16 + ((blk * fields + field) * lanes + m) * 4, 4);
	return v;
}

static inline int ref_fields(const struct ref *r, const struct rivulet_insn_alu *a)
{
	return (a->real && a->bin) + (a->slope || (a->real && r->c->a_type.prelu) ? 2 : 0) + !!a->pack;
}

/* Channel m of A at (y, x) after stages 1 and 2. */
static inline int ref_alu_a(const struct ref *r, const struct rivulet_insn_alu *a, int64_t blk,
			    int64_t y, int64_t x, int m)
{
	int lanes = a->src ? r->b->tm : r->b->tn;
	int64_t w = a->a + y * r->c->a_src.a_row + x;
	int64_t v = a->src ? r->acc[(w + blk * r->c->a_src.a_blk) * lanes + m] :
			     ref_value(r, w, blk, r->c->a_src.a_blk, r->c->a_type.a, m);
	int32_t bias;
	float mult;

	if (a->rq) {
		memcpy(&bias, r->wgt + a->prm * 16 + (blk * lanes + m) * 8, 4);
		memcpy(&mult, r->wgt + a->prm * 16 + (blk * lanes + m) * 8 + 4, 4);
		if (r->c->a_rq.length) { /* floor(bias L / 2^15 + 1/2), and two roundings */
			float k = 32768.0f / (float)r->c->a_rq.length;

			bias = (int32_t)floor((double)bias * r->c->a_rq.length / 32768 + 0.5);
			mult = mult * k;
		}
		v = ref_round((float)(int32_t)(uint32_t)(v + bias) * mult, r->c->a_rq.zp,
			      r->c->a_rq.lo, r->c->a_rq.hi);
	}
	if (a->slope) {
		const struct rivulet_insn_a_slope *s = &r->c->a_slope;
		bool above = v >= s->zp;
		float f = ref_float(ref_ext(r, a, blk, ref_fields(r, a), above, m));

		v = ref_round((float)(v - s->zp) * f, s->out, s->lo, s->hi);
	}
	if (a->lut)
		v = (int8_t)r->wgt[r->c->a_lut.addr * 16 + v + 128];
	return v;
}

static inline int ref_alu_pool(const struct ref *r, const struct rivulet_insn_alu *a, int64_t blk,
			       int64_t y, int64_t x, int m)
{
	const struct rivulet_insn_a_pool *p = &r->c->a_pool;
	const struct rivulet_insn_a_rect *e = &r->c->a_rect;
	const struct rivulet_insn_a_out *o = &r->c->a_out;
	int64_t dy = r->c->a_div.dy ? r->c->a_div.dy : 1, dx = r->c->a_div.dx ? r->c->a_div.dx : 1;
	int max = r->c->a_type.a && !a->src ? -32768 : -128, sum = 0, n = 0;
	float mult = ref_float(r->c->a_div.mult);

	for (int64_t k = 0; k < p->kh * p->kw; k++) {
		int64_t row = y * p->sy + k / p->kw * dy + p->org_y;
		int64_t col = x * p->sx + k % p->kw * dx + p->org_x;
		int v;

		n += row >= e->y_lo && row < e->y_hi && col >= e->x_lo && col < e->x_hi;
		if (row < 0 || row >= p->rows || col < 0 || col >= p->cols)
			continue;
		v = ref_alu_a(r, a, blk, row, col, m);
		max = v > max ? v : max;
		sum += v - (int)r->c->a_div.zp;
	}
	if (a->pool == RIVULET_POOL_MAX)
		return max;
	if (a->pool == RIVULET_POOL_AVG_BORDER && !n)
		return o->zp;
	if (a->pool == RIVULET_POOL_AVG_BORDER)
		mult = mult / (float)n;
	return ref_round((float)sum * mult, o->zp, o->lo, o->hi);
}

static inline int ref_alu_bin(const struct ref *r, const struct rivulet_insn_alu *a, int64_t dblk,
			      int64_t y, int64_t x, int n, int v)
{
	const struct rivulet_insn_a_out *o = &r->c->a_out;
	const struct rivulet_insn_a_scale *s = &r->c->a_scale;
	int64_t w = a->b + dblk * r->c->a_src.b_blk + y * r->c->a_src.b_row + x;
	int b = r->inp[w * r->b->tn + n] - (int)o->bz;
	float t;

	v -= (int)o->az;
	if (a->bin == RIVULET_BIN_ADD) {
		t = fmaf((float)v, ref_float(s->ra),
			 fmaf((float)b, ref_float(s->rb), ref_float(s->c)));
	} else if (a->bin == RIVULET_BIN_ADD_REV) {
		t = fmaf((float)b, ref_float(s->rb),
			 fmaf((float)v, ref_float(s->ra), ref_float(s->c)));
	} else {
		t = (float)(v * b) * ref_float(s->ra);
		t = t + ref_float(s->c);
	}
	return ref_round(t, o->zp, o->lo, o->hi);
}

static inline int ref_alu_real(const struct ref *r, const struct rivulet_insn_alu *a, int64_t blk,
			       int64_t y, int64_t x, int m)
{
	const struct rivulet_insn_a_type *t = &r->c->a_type;
	int tn = r->b->tn, lanes = a->src ? (int)r->b->tm : tn, n = ref_fields(r, a);
	float u = (float)ref_alu_a(r, a, blk, y, x, m), mult, bias;

	u = u < ref_float(r->c->a_sum.lo) ? ref_float(r->c->a_sum.lo) : u;
	u = u > ref_float(r->c->a_sum.hi) ? ref_float(r->c->a_sum.hi) : u;
	if (a->pack && r->c->a_pack.only) {
		double whole = trunc(u);

		return u != u ? 0 : whole < INT32_MIN ? INT32_MIN : whole > INT32_MAX ? INT32_MAX : (int)whole;
	}
	memcpy(&bias, r->wgt + a->prm * 16 + (blk * lanes + m) * 8, 4);
	memcpy(&mult, r->wgt + a->prm * 16 + (blk * lanes + m) * 8 + 4, 4);
	u = fmaf(u, mult, bias);
	if (a->bin) {
		int b = ref_value(r, a->b + y * r->c->a_src.b_row + x, blk * (lanes / tn) + m / tn,
				  r->c->a_src.b_blk, t->b, m % tn);

		u = fmaf((float)(b - (int)t->bz), ref_float(ref_ext(r, a, blk, n, 0, m)), u);
	}
	if (t->prelu) {
		if (u < 0)
			u = u * ref_float(ref_ext(r, a, blk, n, !!a->bin, m));
		u = u + ref_float(ref_ext(r, a, blk, n, !!a->bin + 1, m));
	}
	return ref_round(u, t->zp, t->lo, t->hi);
}

/* The bit of a result. */
static inline void ref_alu_bit(const struct ref *r, const struct rivulet_insn_alu *a, int64_t blk,
			       int64_t y, int64_t x, int m, int v)
{
	const struct rivulet_insn_a_pack *p = &r->c->a_pack;
	int64_t pixels = (int64_t)1 << p->lanes, bytes = r->b->tn / pixels;
	int64_t channel = p->first + blk * (a->src ? r->b->tm : r->b->tn) + m;
	int64_t word = p->d + channel / (8 * bytes) * p->blk + y * p->row + x / pixels;
	int8_t *at = r->inp + word * r->b->tn + x % pixels * bytes + channel % (8 * bytes) / 8;
	int n = ref_fields(r, a), threshold = (int)ref_ext(r, a, blk, n, n - 1, m);

	*at = (int8_t)((*at & ~(1 << channel % 8)) | (v >= threshold) << channel % 8);
	if (!p->fill || blk + 1 < a->blks || (channel + 1) % (a->src ? r->b->tm : r->b->tn))
		return;
	for (int64_t rest = channel % (8 * bytes) / 8 + 1; rest < bytes; rest++)
		*++at = 0;
}

static inline void ref_alu_channel(const struct ref *r, const struct rivulet_insn_alu *a,
				   int64_t blk, int64_t y, int64_t x, int m, int8_t *old)
{
	int tn = r->b->tn, lanes = a->src ? (int)r->b->tm : tn;
	int64_t dblk = blk * (lanes / tn) + m / tn;
	int64_t d = a->d + dblk * r->c->a_dst.blk + y * r->c->a_dst.row + x;
	struct ref before = *r;
	int v;

	before.inp = old;
	if (a->real)
		v = ref_alu_real(&before, a, blk, y, x, m);
	else
		v = a->pool ? ref_alu_pool(&before, a, blk, y, x, m) :
			      ref_alu_a(&before, a, blk, y, x, m);
	if (a->bin && !a->real)
		v = ref_alu_bin(&before, a, dblk, y, x, m % tn, v);
	if (a->pack)
		ref_alu_bit(r, a, blk, y, x, m, v);
	if (a->pack && r->c->a_pack.only)
		return;
	if (a->dst) {
		r->acc[d * tn + m] = v;
	} else if (a->real && r->c->a_type.d) {
		d += (dblk + m % tn / (tn / 2)) * r->c->a_dst.blk;
		r->inp[d * tn + m % (tn / 2) * 2] = v;
		r->inp[d * tn + m % (tn / 2) * 2 + 1] = v >> 8;
	} else {
		r->inp[d * tn + m % tn] = v;
	}
}

/** ref_alu() - @old: INP before the instruction; A and B do not overlap the destination */
static inline void ref_alu(const struct ref *r, const struct rivulet_insn_alu *a, int8_t *old)
{
	int lanes = a->src ? r->b->tm : r->b->tn;

	for (int64_t b = 0; b < a->blks; b++)
		for (int64_t y = 0; y < a->rows; y++)
			for (int64_t x = 0; x < a->cols; x++)
				for (int m = 0; m < lanes; m++)
					ref_alu_channel(r, a, b, y, x, m, old);
}

#endif

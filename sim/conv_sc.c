// SPDX-License-Identifier: MIT
/*
 * The stochastic lanes of the CONV engine. AND-BIN is a dot product with a table of signed
 * products; the other circuits pass the codes of a whole sum to rivulet_sc_sum(). Channels beyond
 * the valid ones do not count.
 */
#include "engine.h"
#include "rivulet_sc.h"

#include <stdlib.h>
#include <string.h>

#define POSITIONS_MAX RIVULET_SC_TERMS_MAX

/* Tables of the last stochastic CONV. They are computed again when length or circuit change. */
struct rvl_sc {
	uint32_t length; /* of @table; 0: not made yet */
	struct rivulet_sc_table table;
	uint32_t stream_length; /* of @streams */
	struct rivulet_sc streams;
	uint16_t x[POSITIONS_MAX]; /* codes of one sum */
	int16_t w[POSITIONS_MAX];
};

struct lanes {
	struct rvl_core *c;
	const struct rivulet_config *cfg;
	const struct rivulet_insn_conv *v;
	uint64_t in, out; /* valid channels */
	uint8_t pad[64];
	int64_t o, y, x; /* output word being made */
};

/* The INP word of one tap, or the padding. */
static const uint8_t *input_word(const struct lanes *l, int64_t i, int64_t ky, int64_t kx)
{
	const struct rivulet_insn_c_kernel *k = &l->cfg->c_kernel;
	const struct rivulet_insn_c_input *in = &l->cfg->c_input;
	int64_t ty = l->y * k->sy + ky * k->dy + k->org_y,
		tx = l->x * k->sx + kx * k->dx + k->org_x;
	int64_t word = l->v->inp + l->o * l->cfg->c_out.inp_oc_pitch + i * in->blk_pitch;

	if (ty < 0 || ty >= in->rows || tx < 0 || tx >= in->cols)
		return l->pad;
	if (in->wrap)
		ty = (in->phase + ty) % in->wrap;
	return l->c->inp + (word + ty * in->row_pitch + tx) * l->c->board->tn;
}

static const int8_t *weight_block(const struct lanes *l, int64_t i, int64_t ky, int64_t kx)
{
	const struct rivulet_insn_c_out *out = &l->cfg->c_out;
	uint64_t word = l->v->wgt + l->o * out->wgt_oc_pitch + i * out->wgt_ic_pitch;

	return (const int8_t *)l->c->wgt + RIVULET_WGT_WORD * word +
	       (ky * l->cfg->c_kernel.kw + kx) * l->c->board->tm * l->c->board->tn;
}

/* Valid channels of block @i, of @per each. */
static uint32_t channels(uint64_t valid, int64_t i, uint32_t per)
{
	uint64_t before = (uint64_t)i * per;

	return valid <= before ? 0 : valid - before < per ? valid - before : per;
}

/* An output channel's products of one word: rows of the table, one for each input. */
static uint32_t dot(const int16_t *const *row, const int8_t *w, uint32_t n)
{
	int32_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += row[i][(uint8_t)w[i]];
	return sum;
}

static void add_tap(const struct lanes *l, const uint8_t *x, const int8_t *w, uint32_t n,
		    uint32_t m, uint32_t *sum)
{
	const int16_t *row[64];
	uint32_t any = 0, tn = l->c->board->tn;

	for (uint32_t i = 0; i < n; i++) {
		row[i] = l->c->sc->table.t[x[i] ^ 0x80];
		any |= x[i] ^ 0x80;
	}
	for (uint32_t j = 0; any && j < m; j++)
		sum[j] += dot(row, w + j * tn, n);
}

/* AND-BIN: the sums of all outputs of a word together. */
static void sum_table(const struct lanes *l, uint32_t m, uint32_t *sum)
{
	for (int64_t i = 0; i < l->v->icb; i++) {
		uint32_t n = channels(l->in, i, l->c->board->tn);

		for (int64_t ky = 0; n && ky < l->cfg->c_kernel.kh; ky++)
			for (int64_t kx = 0; kx < l->cfg->c_kernel.kw; kx++)
				add_tap(l, input_word(l, i, ky, kx), weight_block(l, i, ky, kx), n,
					m, sum);
	}
}

/* The codes of output channel @j, in the order block, tap, channel. */
static size_t collect(const struct lanes *l, uint32_t j)
{
	uint32_t circuit = l->cfg->c_mode.circuit, tn = l->c->board->tn;
	int64_t taps = l->cfg->c_kernel.kh * l->cfg->c_kernel.kw;
	struct rvl_sc *sc = l->c->sc;
	size_t n = 0;

	for (int64_t i = 0; i < l->v->icb; i++) {
		uint32_t some = channels(l->in, i, tn);

		for (int64_t tap = 0; some && tap < taps; tap++) {
			int64_t ky = tap / l->cfg->c_kernel.kw, kx = tap % l->cfg->c_kernel.kw;
			const uint8_t *x = input_word(l, i, ky, kx);
			const int8_t *w = weight_block(l, i, ky, kx) + j * tn;

			for (uint32_t k = 0; k < some; k++, n++) {
				sc->x[n] = rivulet_sc_x(circuit, x[k] ^ 0x80);
				sc->w[n] = rivulet_sc_w(circuit, w[k]);
			}
		}
	}
	return n;
}

static void sum_streams(const struct lanes *l, uint32_t m, uint32_t *sum)
{
	const struct rivulet_insn_c_mode *mode = &l->cfg->c_mode;
	struct rivulet_sc_adder a = { .circuit = mode->circuit,
				      .blocks = l->c->board->sc_blocks,
				      .scale = UINT32_C(1) << mode->scale };
	struct rvl_sc *sc = l->c->sc;

	for (uint32_t j = 0; j < m; j++) {
		size_t n = collect(l, j);

		sum[j] = rivulet_sc_sum(&sc->streams, &a, sc->x, sc->w, n);
	}
}

static void output_word(const struct lanes *l)
{
	uint32_t tm = l->c->board->tm, sum[64] = { 0 }, m = channels(l->out, l->o, tm);
	const struct rivulet_insn_c_out *out = &l->cfg->c_out;
	uint64_t at = l->v->acc + l->o * out->blk_pitch + l->y * out->row_pitch + l->x;
	uint32_t *acc = (uint32_t *)l->c->acc + at * tm;

	if (l->cfg->c_mode.circuit == RIVULET_SC_AND_BIN)
		sum_table(l, m, sum);
	else
		sum_streams(l, m, sum);
	for (uint32_t j = 0; j < tm; j++)
		acc[j] = l->v->keep ? acc[j] + sum[j] : sum[j];
}

static int prepare(struct rvl_core *c, const struct rivulet_insn_c_mode *m)
{
	uint32_t length = (uint32_t)m->length;

	if (!c->sc)
		c->sc = calloc(1, sizeof(*c->sc));
	if (!c->sc)
		return RIVULET_FAULT_INTERNAL;
	if (m->circuit == RIVULET_SC_AND_BIN && c->sc->length != length) {
		rivulet_sc_table_fill(&c->sc->table, length);
		c->sc->length = length;
	}
	if (m->circuit != RIVULET_SC_AND_BIN && c->sc->stream_length != length) {
		rivulet_sc_init(&c->sc->streams, RIVULET_SC_BITS, length);
		c->sc->stream_length = length;
	}
	return 0;
}

int rvl_conv_stochastic(struct rvl_core *c, const struct rivulet_config *cfg,
			const struct rivulet_insn_conv *v)
{
	struct lanes l = { .c = c, .cfg = cfg, .v = v };
	int r = prepare(c, &cfg->c_mode);

	if (r)
		return r;
	rivulet_conv_channels(c->board, &cfg->c_mode, v, &l.in, &l.out);
	memset(l.pad, (int)cfg->c_pad.value, sizeof(l.pad));
	for (l.o = 0; l.o < v->ocb; l.o++) {
		for (l.y = 0; l.y < v->rows; l.y++) {
			for (l.x = 0; l.x < v->cols; l.x++) {
				if (rvl_core_aborted(c))
					return RVL_ABORTED;
				output_word(&l);
			}
		}
	}
	return 0;
}

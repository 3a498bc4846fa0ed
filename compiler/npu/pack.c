/* SPDX-License-Identifier: MIT */
/*
 * Constants of the layers as the device reads them: weight blocks in the order the stream loads
 * them, {bias, factor} of each output channel, tables. Their places are given first, because
 * commands name them; they are written straight into the file.
 */
#include "npu/backend.h"
#include "npu/epilogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t rvl_reserve(struct rvl_backend *be, uint64_t bytes, uint64_t align)
{
	uint64_t at = (be->const_size + align - 1) / align * align;

	be->const_size = at + bytes;
	return be->const_off + at;
}

/* Groups and chunks of a layer in the order in which the stream loads their weights. */
struct walk {
	const struct rivulet_board *b;
	const struct rvl_layer *l;
	struct rvl_nest nest;
	struct rvl_ocgroup *group;
	struct rvl_chunk *chunk;
	int64_t groups;
};

static void walk_done(struct walk *w)
{
	free(w->group);
	free(w->chunk);
}

static int walk_init(struct walk *w, const struct rivulet_board *b, const struct rvl_layer *l)
{
	int64_t most = 0;

	*w = (struct walk){ .b = b, .l = l };
	l->mode->nest(b, l, &w->nest);
	w->groups = rvl_ocgroups(b, l, l->t.og, NULL);
	w->group = calloc(w->groups, sizeof(*w->group));
	if (!w->group)
		return -ENOMEM;
	rvl_ocgroups(b, l, l->t.og, w->group);
	for (int64_t i = 0; i < w->groups; i++)
		most = rvl_max(most, rvl_chunks(l, &w->nest, &l->t, &w->group[i], NULL));
	w->chunk = calloc(most, sizeof(*w->chunk));
	return w->chunk ? 0 : -ENOMEM;
}

static uint64_t chunk_bytes(const struct walk *w, const struct rvl_ocgroup *g,
			    const struct rvl_chunk *c)
{
	return rvl_chunk_words(&w->nest, c, g->on) * RIVULET_WGT_WORD;
}

static int64_t block_bytes(const struct walk *w, int64_t ib)
{
	int64_t words = rvl_tap_words(&w->nest, 1);

	return (w->nest.tail && ib == w->nest.tail ? w->nest.tail_words : words) * RIVULET_WGT_WORD;
}

static void pack_chunk(const struct walk *w, const struct rvl_ocgroup *g, const struct rvl_chunk *c,
		       uint8_t *out)
{
	int64_t pieces = w->nest.lane_words ? 1 : c->kh * c->kw;

	for (int64_t o = 0; o < g->on; o++) {
		for (int64_t i = 0; i < c->in; i++) {
			for (int64_t tap = 0; tap < pieces; tap++) {
				struct rvl_block k = { .oc = g->o0 + o,
						       .ib = g->ib0 + o * g->step + c->i0 + i,
						       .ky = c->ky + tap / c->kw,
						       .kx = c->kx + tap % c->kw,
						       .term = c->term };

				w->l->mode->pack(w->b, w->l, &k, (int8_t *)out);
				out += block_bytes(w, k.ib);
			}
		}
	}
}

/* Size of the layer's weights; with @out, also the weights. */
static uint64_t pack_weights(struct walk *w, uint8_t *out)
{
	uint64_t bytes = 0;

	for (int64_t g = 0; g < w->groups; g++) {
		int64_t n = rvl_chunks(w->l, &w->nest, &w->l->t, &w->group[g], w->chunk);

		for (int64_t i = 0; i < n; i++) {
			if (out)
				pack_chunk(w, &w->group[g], &w->chunk[i], out + bytes);
			bytes += chunk_bytes(w, &w->group[g], &w->chunk[i]);
		}
	}
	return bytes;
}

/* One set of parameters serves all lengths: the ALU turns it into that of streams. */
static void place_params(struct rvl_backend *be, struct rvl_layer *l)
{
	const struct rvl_mode *mode[] = { l->mode, l->mode->int8 };
	int64_t tm = be->board->tm, bytes = rvl_div_up(l->p.m, tm) * tm * 8;

	for (int i = 0; i < 2; i++)
		if (rvl_mode_used(be, l, mode[i]))
			l->p.prm_off[mode[i]->isa] = rvl_reserve(be, bytes, RIVULET_PROGRAM_ALIGN);
}

/* {bias, factor} of each channel in the modes that the variants use. */
static void pack_params(const struct rvl_backend *be, const struct rvl_layer *l, uint8_t *file)
{
	const struct rvl_mode *mode[] = { l->mode, l->mode->int8 };

	for (int i = 0; i < 2; i++) {
		const int32_t *bias;
		uint8_t *p;

		if (!rvl_mode_used(be, l, mode[i]))
			continue;
		bias = mode[i]->bias ? mode[i]->bias(l) : l->p.bias;
		p = file + l->p.prm_off[mode[i]->isa];
		for (int64_t m = 0; m < l->p.m; m++) {
			memcpy(p + m * 8, &bias[m], 4);
			memcpy(p + m * 8 + 4, &l->p.mult[m], 4);
		}
	}
}

int rvl_place_layer(struct rvl_backend *be, struct rvl_layer *l)
{
	uint64_t bytes;
	struct walk w;
	int rc;

	if (rvl_epilogue_has(l, &rvl_stage_table))
		l->e.lut_off = rvl_reserve(be, sizeof(l->e.lut), RIVULET_PROGRAM_ALIGN);
	if (l->e.ext_words)
		l->e.ext_off = rvl_reserve(be, l->e.ext_words * RIVULET_WGT_WORD, RIVULET_PROGRAM_ALIGN);
	if (!l->mode)
		return 0;
	place_params(be, l);
	rc = walk_init(&w, be->board, l);
	if (!rc) {
		bytes = pack_weights(&w, NULL);
		l->p.wgt_off = rvl_reserve(be, bytes, RIVULET_PROGRAM_ALIGN);
		be->weight_bytes += bytes;
	}
	walk_done(&w);
	return rc;
}

int rvl_pack_layer(const struct rvl_backend *be, const struct rvl_layer *l, uint8_t *file)
{
	struct walk w;
	int rc;

	if (rvl_epilogue_has(l, &rvl_stage_table))
		memcpy(file + l->e.lut_off, l->e.lut, sizeof(l->e.lut));
	if (l->e.ext_words)
		memcpy(file + l->e.ext_off, l->e.ext, l->e.ext_words * RIVULET_WGT_WORD);
	if (!l->mode)
		return 0;
	pack_params(be, l, file);
	rc = walk_init(&w, be->board, l);
	if (!rc)
		pack_weights(&w, file + l->p.wgt_off);
	walk_done(&w);
	return rc;
}

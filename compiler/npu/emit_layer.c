/* SPDX-License-Identifier: MIT */
/* The emission of any layer, with a product or without. */
#include "npu/epilogue.h"

#include <errno.h>

struct rvl_words3 rvl_layer_words(const struct rivulet_board *b, const struct rvl_layer *l)
{
	struct rvl_words3 w = l->mode ? rvl_product_words(l) : rvl_plain_words(l);

	w.mem[RIVULET_MEM_WGT] = rvl_wgt_round(b, w.mem[RIVULET_MEM_WGT]);
	return w;
}

int64_t rvl_layer_more_words(const struct rivulet_board *b, const struct rvl_layer *l)
{
	return l->mode ? rvl_product_more_words(b, l) : 0;
}

struct rvl_emission *rvl_emission_open(struct rvl_stream *s, const struct rvl_layer *l, uint32_t layer,
				       const struct rvl_words3 *at, int64_t more)
{
	struct rvl_emission *e = l->mode ? rvl_product_open(s, l, at, more) : rvl_plain_open(s, l, at);

	if (!e) {
		s->rc = -ENOMEM;
		return NULL;
	}
	e->s = s;
	e->l = l;
	e->layer = layer;
	return e;
}

void rvl_emission_next(struct rvl_emission *e)
{
	e->s->layer = e->layer;
	if (!e->l->mode)
		rvl_emission_constants(e);
	rvl_epilogue_config(e->s, e->l, e->table);
	e->next(e);
	e->at++;
}

int64_t rvl_emission_preload(struct rvl_emission *e, int64_t words, bool first)
{
	int64_t loaded;

	e->s->layer = e->layer;
	loaded = e->preload && !e->at ? e->preload(e, words, first ? 1 : INT64_MAX) : 0;
	if (loaded)
		rvl_emission_constants(e);
	e->s->preloads += loaded && !e->preloaded;
	e->preloaded |= loaded > 0;
	return loaded;
}

void rvl_emission_close(struct rvl_emission *e)
{
	if (e)
		e->close(e);
}

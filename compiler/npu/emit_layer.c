/* SPDX-License-Identifier: MIT */
/* The emission of any layer, with a product or without. */
#include "npu/epilogue.h"

#include <errno.h>

struct rvl_words3 rvl_layer_words(const struct rvl_layer *l)
{
	return l->mode ? rvl_product_words(l) : rvl_plain_words(l);
}

struct rvl_emission *rvl_emission_open(struct rvl_stream *s, const struct rvl_layer *l,
				       uint32_t layer, const struct rvl_words3 *at)
{
	struct rvl_emission *e = l->mode ? rvl_product_open(s, l, at) : rvl_plain_open(s, l, at);

	if (!e) {
		s->rc = -ENOMEM;
		return NULL;
	}
	e->s = s;
	e->l = l;
	e->layer = layer;
	s->layer = layer;
	rvl_epilogue_load(s, l, e->table);
	return e;
}

void rvl_emission_next(struct rvl_emission *e)
{
	e->s->layer = e->layer;
	rvl_epilogue_config(e->s, e->l, e->table);
	e->next(e);
	e->at++;
}

void rvl_emission_preload(struct rvl_emission *e)
{
	uint32_t before = e->s->n;

	e->s->layer = e->layer;
	if (e->preload)
		e->preload(e);
	e->s->preloads += e->s->n > before;
}

void rvl_emission_close(struct rvl_emission *e)
{
	if (e)
		e->close(e);
}

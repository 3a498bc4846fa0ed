/* SPDX-License-Identifier: MIT */
#include "graph/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void fill_arg(const struct rvl_tensor *t, struct rvl_kernel_arg *a)
{
	*a = (struct rvl_kernel_arg) { .type = RVL_TYPE_NONE };
	if (!t)
		return;
	a->type = t->type;
	a->shape = t->shape;
	a->quant = (struct rvl_kernel_quant) {
		.n = t->quant.n, .axis = t->quant.axis, .scale = t->quant.scale, .zp = t->quant.zp,
	};
	a->data = t->data;
	a->layout = t->layout;
	a->pitched = t->pitched;
	memcpy(a->pitch, t->pitch, sizeof(a->pitch));
}

void rvl_node_desc(const struct rvl_node *n, struct rvl_kernel_desc *d)
{
	*d = (struct rvl_kernel_desc) {
		.op = n->op, .attr = n->attr, .n_in = n->n_in, .n_out = n->n_out,
	};
	if (n->def && rvl_op_traits(n->op) & RVL_TRAIT_ROW)
		d->op = RVL_OP_GENERAL;
	if (rvl_op_names_def(d->op)) {
		d->def = n->def;
		memcpy(d->value, n->value, rvl_op_attrs(n->def) * sizeof(*d->value));
	}
	for (uint32_t i = 0; i < n->n_in; i++)
		fill_arg(n->in[i], &d->in[i]);
	for (uint32_t i = 0; i < n->n_out; i++)
		fill_arg(n->out[i], &d->out[i]);
}

/* ---- chains ---- */

/* The operators of a chain while its descriptor is made. */
struct parts {
	const struct rvl_node_chain *chain;
	struct rvl_kernel_desc *desc;	/* of each node */
	struct rvl_chain_part part[RVL_CHAIN_MAX];
	struct rvl_tensor **in;		/* inputs of the chain */
	uint32_t n_in;
};

/* The number of an operand: of the node that makes it, or of an input of the chain. */
static uint32_t operand_of(struct parts *p, uint32_t node, struct rvl_tensor *t)
{
	for (uint32_t i = 0; i < node; i++)
		if (p->chain->node[i]->out[0] == t)
			return RVL_CHAIN_MADE + i;
	for (uint32_t i = 0; i < p->n_in; i++)
		if (p->in[i] == t)
			return i;
	if (p->n_in < RVL_MAX_IN)
		p->in[p->n_in++] = t;
	return p->n_in - 1;
}

static int pack_chain(struct rvl_graph *g, struct parts *p, struct rvl_kernel_desc *d)
{
	const struct rvl_node *last = p->chain->node[p->chain->n - 1];
	int64_t size = rvl_chain_pack(p->part, p->chain->n, NULL, 0);
	void *bytes = size < 0 ? NULL : rvl_arena_alloc(g->arena, (size_t)size);

	if (!bytes)
		return size < 0 ? (int)size : -ENOMEM;
	rvl_chain_pack(p->part, p->chain->n, bytes, (size_t)size);
	*d = (struct rvl_kernel_desc) {
		.op = RVL_OP_CHAIN, .n_in = p->n_in, .n_out = 1, .parts = bytes,
		.parts_size = (uint32_t)size,
	};
	rvl_attr_init(&d->attr);
	for (uint32_t i = 0; i < p->n_in; i++)
		fill_arg(p->in[i], &d->in[i]);
	fill_arg(last->out[0], &d->out[0]);
	return 0;
}

int rvl_chain_desc(struct rvl_graph *g, const struct rvl_node_chain *chain, struct rvl_kernel_desc *d,
		   struct rvl_tensor **in)
{
	struct parts p = { .chain = chain, .in = in, .desc = calloc(chain->n, sizeof(*p.desc)) };
	int rc;

	if (!p.desc)
		return -ENOMEM;
	for (uint32_t i = 0; i < chain->n; i++) {
		const struct rvl_node *n = chain->node[i];

		rvl_node_desc(n, &p.desc[i]);
		p.part[i].d = &p.desc[i];
		for (uint32_t j = 0; j < n->n_in; j++)
			if (n->in[j])
				p.part[i].in[j] = operand_of(&p, i, n->in[j]);
	}
	rc = pack_chain(g, &p, d);
	free(p.desc);
	return rc;
}

bool rvl_ends_chain(const struct rvl_node *n)
{
	return n->chain && n->chain->node[n->chain->n - 1] == n;
}

bool rvl_has_front(const struct rvl_node_chain *c)
{
	return c->node[0]->op == RVL_OP_QUANTIZE;
}

void rvl_node_call(const struct rvl_node *n, struct rvl_call *c)
{
	memset(c, 0, sizeof(*c));
	c->def = n->def;
	c->attr = n->value;
	c->n_in = n->n_in;
	c->n_out = n->n_out;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i])
			c->in[i] = (struct rvl_value) {
				.type = n->in[i]->type, .shape = n->in[i]->shape,
				.data = (void *)(uintptr_t)n->in[i]->data,
			};
}

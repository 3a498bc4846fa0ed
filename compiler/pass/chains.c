/* SPDX-License-Identifier: MIT */
/*
 * Chains of steps of the CPU. A value between two operators that compute images row by row, larger
 * than its share of the second-level cache, is written to memory and read back. The kernel of a
 * chain computes such operators together, in stripes of rows (kernels/chain.c), so that the value has
 * no memory but a few rows. Element-wise operators on float32 are joined in the same way and computed in
 * blocks (kernels/chain_elements.c). All results but the last one are read inside the chain only. A
 * convolution and the quantisation in front of it are a chain, too, however small the image is.
 */
#include "base/math.h"
#include "pass/pass.h"
#include "pass/passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a value from which on stripes measured faster than single steps (docs/compiler.md). */
#define SHARE (1280 << 10)
#define ELEMENTS_SHARE (128 << 10)	/* of a value between element-wise operators */
#define MOST_WEIGHTS (128 << 10) /* of a chain: each stripe reads them again */
#define FRONT_CHANNELS 16 /* most channels of an image that a convolution quantises itself */

/* By node id: what a node is alone. */
enum joins { UNKNOWN, ROWS, ELEMENTS, APART };

struct chains {
	struct rvl_graph *g;
	struct rvl_kernel_desc *desc; /* memory for one */
	uint8_t *joins;
	struct rvl_err *err;
};

/* ---- one node ---- */

static enum joins joins_alone(struct chains *c, const struct rvl_node *n)
{
	struct rvl_kernel *k;
	bool can;

	if (n->place != RVL_PLACE_CPU || n->free || n->stochastic || n->n_out != 1 ||
	    n->n_in > RVL_CHAIN_IN || n->out[0]->bounded)
		return APART;
	rvl_node_desc(n, c->desc);
	if (n->out[0]->layout != RIVULET_LAYOUT_NHWC)
		return rvl_desc_joins_elements(c->desc) ? ELEMENTS : APART;
	if (rvl_kernel_new(c->desc, false, &k, NULL))
		return APART;	/* its own step has the error */
	can = rvl_kernel_joins(k);
	rvl_kernel_free(k);
	return can ? ROWS : APART;
}

static enum joins joins(struct chains *c, const struct rvl_node *n)
{
	if (c->joins[n->id] == UNKNOWN)
		c->joins[n->id] = joins_alone(c, n);
	return c->joins[n->id];
}

/* Whether the chain's kernel may keep this value for itself. */
static bool is_private(const struct rvl_tensor *t)
{
	return t->producer && !t->is_output && !t->holds_output && !t->base && !t->pitched;
}

/* ---- two chains ---- */

/* A node that is in no chain yet is one alone. */
static struct rvl_node_chain of(struct rvl_node *n)
{
	return n->chain ? *n->chain : (struct rvl_node_chain) { .n = 1, .node = { n } };
}

static bool has(const struct rvl_node_chain *c, const struct rvl_node *n)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->node[i] == n)
			return true;
	return false;
}

/* The nodes of both; those of @a come first, and only the last of @b is read outside. */
static bool append(struct rvl_node_chain *a, const struct rvl_node_chain *b)
{
	if (a->n + b->n > RVL_CHAIN_MAX || rvl_has_front(b))
		return false;
	memcpy(a->node + a->n, b->node, b->n * sizeof(*b->node));
	a->n += b->n;
	return true;
}

static bool read_inside(const struct rvl_tensor *t, const struct rvl_node_chain *c)
{
	for (uint32_t i = 0; i < t->n_users; i++)
		if (!has(c, t->users[i]))
			return false;
	return t->n_users > 0;
}

/* Bytes of the rows between the operators that one row of the last result needs. */
static int64_t row_bytes(const struct rvl_node_chain *c)
{
	int64_t rows[RVL_CHAIN_MAX] = { 0 }, bytes = 0;

	rows[c->n - 1] = 1;
	for (uint32_t i = c->n; i-- > 0;) {
		const struct rvl_attr *a = &c->node[i]->attr;
		int64_t need = (rows[i] - 1) * a->stride[0] + (a->kernel[0] - 1) * (int64_t)a->dilation[0] + 1;

		for (uint32_t j = 0; j < i; j++)
			if (c->node[i]->in[0] == c->node[j]->out[0] || (c->node[i]->n_in > 1 &&
			    c->node[i]->in[1] == c->node[j]->out[0]))
				rows[j] = rvl_max(rows[j], rvl_min(need, c->node[j]->out[0]->shape.dim[2]));
		if (i < c->n - 1 && c->node[i]->op != RVL_OP_QUANTIZE)
			bytes += rows[i] * c->node[i]->out[0]->shape.dim[1] * c->node[i]->out[0]->shape.dim[3];
	}
	return bytes;
}

static bool fits(const struct rvl_node_chain *c, enum joins kind)
{
	int64_t weights = 0;
	uint32_t operands = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		for (uint32_t j = 0; j < c->node[i]->n_in; j++)
			if (c->node[i]->in[j] && c->node[i]->in[j]->data)
				weights += rvl_tensor_bytes(c->node[i]->in[j]);
		operands += c->node[i]->n_in;
	}
	if (kind == ELEMENTS)
		return operands <= RVL_MAX_IN;
	return operands <= RVL_MAX_IN && weights <= MOST_WEIGHTS && row_bytes(c) <= RVL_CHAIN_BYTES;
}

/* Whether the node is in a chain that is computed in stripes. */
static bool in_stripes(const struct rvl_node *n)
{
	return n->chain && n->chain->n > 1U + rvl_has_front(n->chain);
}

/* An operator without a window that follows a chain reads its rows from the cache, however many. */
static bool worth(const struct rvl_tensor *t, const struct rvl_node *n, enum joins kind)
{
	const struct rvl_attr *a = &n->attr;
	bool window = a->kernel[0] > 1 || a->stride[0] > 1 || n->op == RVL_OP_Q_CONV;

	if (kind == ELEMENTS)
		return rvl_tensor_bytes(t) > ELEMENTS_SHARE;
	return rvl_tensor_bytes(t) > SHARE || (in_stripes(t->producer) && !window);
}

/* Writes what is a chain now into all its nodes. */
static int settle(struct chains *c, const struct rvl_node_chain *chain)
{
	struct rvl_node_chain *p = rvl_arena_alloc(c->g->arena, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = *chain;
	for (uint32_t i = 0; i < p->n; i++)
		p->node[i]->chain = p;
	return 0;
}

/* Joins the chains of the maker of @t and of @n. Returns 1 if done, 0 if they stay apart. */
static int join(struct chains *c, struct rvl_tensor *t, struct rvl_node *n)
{
	struct rvl_node_chain a, b = of(n);
	enum joins kind = t && t->layout == RIVULET_LAYOUT_NHWC ? ROWS : ELEMENTS;
	int rc;

	if (!t || !is_private(t) || has(&b, t->producer) || !worth(t, n, kind) || joins(c, n) != kind ||
	    joins(c, t->producer) != kind)
		return 0;
	a = of(t->producer);
	if (a.node[a.n - 1] != t->producer || !read_inside(t, &b) || !append(&a, &b) || !fits(&a, kind))
		return 0;
	rc = settle(c, &a);
	return rc ? rc : 1;
}

/*
 * Whether a convolution can quantise the floats that @q reads. Those that the network computes would have
 * memory for longer, and planes of many channels are read slower where pixels are copied than alone.
 */
static bool is_front(const struct rvl_node *q)
{
	const struct rvl_tensor *x = q->in[0], *root = x && x->base ? x->base : x;

	return q->op == RVL_OP_QUANTIZE && q->place == RVL_PLACE_CPU && !q->free && root && root->is_input &&
	       x->type == RVL_TYPE_F32 && x->layout == RIVULET_LAYOUT_PLAIN && !x->pitched &&
	       x->shape.rank == 4 && x->shape.dim[1] <= FRONT_CHANNELS && rvl_scale_is_constant(q);
}

/* A convolution copies an image in PLAIN before it multiplies it, and quantises it then. */
static int take_front(struct chains *c, struct rvl_node *n)
{
	struct rvl_tensor *t = n->in[0];
	struct rvl_node_chain both = { .n = 2 };

	if (n->op != RVL_OP_Q_CONV || n->stochastic || n->out[0]->bounded || !t || !is_private(t) ||
	    t->bounded || t->n_users != 1 || t->layout != RIVULET_LAYOUT_PLAIN || !is_front(t->producer))
		return 0;
	both.node[0] = t->producer;
	both.node[1] = n;
	return settle(c, &both);
}

/* A value that a shortcut reads joins when what the other way makes of it has joined. */
static int join_operands(struct chains *c, struct rvl_node *n)
{
	int rc = 1;

	for (int again = 0; again < 2 && rc >= 0; again++)
		for (uint32_t i = 0; i < n->n_in && rc >= 0; i++)
			rc = join(c, n->in[i], n);
	return rc < 0 ? rc : 0;
}

/* ---- all ---- */

/*
 * Whether the kernel takes the chain: rows that are read at two paces cannot be known before, nor whether
 * the convolution behind a quantisation has a kernel that does both.
 */
static int prove(struct chains *c, const struct rvl_node_chain *chain)
{
	struct rvl_tensor *in[RVL_MAX_IN];
	struct rvl_kernel *k;
	int rc = rvl_chain_desc(c->g, chain, c->desc, in);

	if (!rc)
		rc = rvl_kernel_new(c->desc, false, &k, NULL);
	if (!rc)
		rvl_kernel_free(k);
	if (rc == -ENOMEM || !rc)
		return rc;
	for (uint32_t i = 0; i < chain->n; i++)
		chain->node[i]->chain = NULL;
	return 0;
}

static int make_chains(struct chains *c)
{
	struct rvl_graph *g = c->g;
	int rc = 0;

	for (uint32_t i = 0; i < g->n_nodes && !rc; i++) {
		if (g->nodes[i]->place != RVL_PLACE_CPU || g->nodes[i]->free)
			continue;
		rc = take_front(c, g->nodes[i]);
		if (!rc)
			rc = join_operands(c, g->nodes[i]);
	}
	for (uint32_t i = 0; i < g->n_nodes && !rc; i++)
		if (rvl_ends_chain(g->nodes[i]))
			rc = prove(c, g->nodes[i]->chain);
	return rc;
}

int rvl_pass_chains(struct rvl_graph *g, struct rvl_err *err)
{
	struct chains c = { .g = g, .desc = malloc(sizeof(*c.desc)), .err = err };
	uint32_t ids = 0;
	int rc = -ENOMEM;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		ids = rvl_max(ids, g->nodes[i]->id + 1);
	c.joins = calloc(ids + 1, 1);
	if (c.desc && c.joins)
		rc = make_chains(&c);
	free(c.desc);
	free(c.joins);
	return rc;
}

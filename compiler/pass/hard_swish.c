/* SPDX-License-Identifier: MIT */
/*
 * HardSwish of float32 as exporters write it for operator sets below 14 becomes one operator:
 *
 *	x * clip(x + 3, 0, 6) / 6,  x * (clip(x + 3, 0, 6) / 6),  x * HardSigmoid(x)
 *
 * A product with 1 / 6 may take the place of the quotient. The results differ from those of the
 * operators one by one by rounding, which is below 1e-7 of the largest number in them, and x * 6 does
 * not overflow. Operators between bytes are tables by now: rvl_pass_fuse() runs before.
 */
#include "pass/binary.h"
#include "pass/pass.h"
#include "pass/passes.h"

#include <math.h>

#define OPSET 14	/* the first one with HardSwish */
#define MOST 2		/* operators in front of the last one */

/* The operators in front of the last one, which nothing else reads. */
struct match {
	struct rvl_node *node[MOST];
	uint32_t n;
};

/* The node that makes @t for one reader, or NULL. It becomes part of the match. */
static struct rvl_node *maker(struct match *m, const struct rvl_tensor *t)
{
	struct rvl_node *n = t ? t->producer : NULL;

	if (!n || t->type != RVL_TYPE_F32 || !rvl_only_user(t) || m->n == MOST)
		return NULL;
	m->node[m->n++] = n;
	return n;
}

/* Of two operands of which one is a constant of one value: the other one, or NULL. */
static struct rvl_tensor *beside(const struct rvl_node *n, float *value)
{
	for (uint32_t i = 0; i < 2 && n->n_in == 2; i++)
		if (rvl_const_f32(n->in[1 - i], value))
			return n->in[i];
	return NULL;
}

static bool is_sixth(float v)
{
	return fabsf(v * 6.0f - 1.0f) < 1e-6f;
}

/* The dividend of a division by six, or NULL. */
static struct rvl_tensor *sixth(const struct rvl_node *n)
{
	float v;

	if (n->op == RVL_OP_MUL && rvl_is_unclamped(&n->attr)) {
		struct rvl_tensor *t = beside(n, &v);

		return t && is_sixth(v) ? t : NULL;
	}
	return rvl_is_general(n, "Div") && rvl_const_f32(n->in[1], &v) && v == 6.0f ? n->in[0] : NULL;
}

/* The x of clip(x + 3, 0, 6), or NULL. */
static struct rvl_tensor *clipped(const struct rvl_node *n)
{
	struct rvl_tensor *x;
	float v;

	if (!n || n->op != RVL_OP_ADD || n->attr.f_lo != 0.0f || n->attr.f_hi != 6.0f)
		return NULL;
	x = beside(n, &v);
	return x && v == 3.0f ? x : NULL;
}

static struct rvl_tensor *hard_sigmoid(const struct rvl_node *n)
{
	struct rvl_call c;

	if (!rvl_is_general(n, "HardSigmoid"))
		return NULL;
	rvl_node_call(n, &c);
	return is_sixth(rvl_attr_float(&c, "alpha")) && rvl_attr_float(&c, "beta") == 0.5f ? n->in[0] : NULL;
}

/* The x of HardSigmoid(x) by one or two operators. */
static struct rvl_tensor *weight(struct match *m, const struct rvl_tensor *t)
{
	struct rvl_node *n = maker(m, t);
	struct rvl_tensor *inner = n ? sixth(n) : NULL;

	if (inner)
		return clipped(maker(m, inner));
	return n ? hard_sigmoid(n) : NULL;
}

/* The x of x * f(x) where @factor says of the other operand that it is f(x), or NULL. */
static struct rvl_tensor *times(struct match *m, const struct rvl_node *n,
				struct rvl_tensor *(*factor)(struct match *m, const struct rvl_tensor *t))
{
	const uint32_t n_before = m->n;

	if (n->op != RVL_OP_MUL || n->n_in != 2 || !rvl_is_unclamped(&n->attr))
		return NULL;
	for (uint32_t i = 0; i < 2; i++) {
		m->n = n_before;
		if (factor(m, n->in[1 - i]) == n->in[i])
			return n->in[i];
	}
	return NULL;
}

static struct rvl_tensor *clipped_by(struct match *m, const struct rvl_tensor *t)
{
	return clipped(maker(m, t));
}

/* The x of which @n makes HardSwish, or NULL. */
static struct rvl_tensor *operand(struct match *m, const struct rvl_node *n)
{
	const struct rvl_tensor *product = sixth(n);
	const struct rvl_node *before;

	m->n = 0;
	if (!product)
		return times(m, n, weight);
	before = maker(m, product);
	return before ? times(m, before, clipped_by) : NULL;
}

static int replace(struct rvl_graph *g, const struct match *m, struct rvl_node *last, struct rvl_tensor *x,
		   struct rvl_err *err)
{
	struct rvl_node *n;
	int rc = rvl_node_of_role(g, rvl_op_find(NULL, "HardSwish", OPSET), NULL, 0, last->out[0], &n, err);

	if (!rc)
		rc = rvl_node_set_in(g, n, 0, x, err);
	if (rc)
		return rc;
	n->name = last->name;
	n->fused = last->fused;
	for (uint32_t i = m->n; i-- > 0;)
		rvl_note_fused(g, n, m->node[i]);
	rvl_node_remove(g, last);
	return 0;
}

int rvl_pass_hard_swish(struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_node **list;
	uint32_t n;
	int rc = rvl_graph_nodes(g, &list, &n, err);

	for (uint32_t i = 0; !rc && i < n; i++) {
		struct match m;
		struct rvl_tensor *x = list[i]->n_out == 1 ? operand(&m, list[i]) : NULL;

		if (x && x->type == RVL_TYPE_F32 && rvl_shape_equal(&x->shape, &list[i]->out[0]->shape))
			rc = replace(g, &m, list[i], x, err);
	}
	return rc ? rc : rvl_graph_sort(g, err);
}

/* SPDX-License-Identifier: MIT */
#include "quant/wide.h"

#include "pass/binary.h"

#include <math.h>

static bool makes_floats(const struct rvl_node *n)
{
	return n->op == RVL_OP_B_CONV && n->out[0]->type == RVL_TYPE_F32;
}

static int read_integers(struct rvl_graph *g, struct rvl_tensor *t, struct rvl_tensor *q, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < t->n_users && !rc;) {
		uint32_t before = t->n_users;

		if (rvl_binary_reads(t->users[i], t))
			rc = rvl_binary_read(g, t->users[i], q, err);
		if (t->n_users == before)
			i++;
	}
	return rc;
}

static int dequantise(struct rvl_graph *g, struct rvl_tensor *q, struct rvl_tensor *t, struct rvl_err *err)
{
	struct rvl_shape one = { .rank = 0 };
	struct rvl_tensor *scale;
	struct rvl_node *n;
	int rc = rvl_node_new(g, RVL_OP_DEQUANTIZE, NULL, &n, err);

	if (!rc)
		rc = rvl_tensor_const(g, NULL, RVL_TYPE_F32, &one, q->quant.scale, &scale, err);
	if (!rc)
		rc = rvl_node_set_in(g, n, 0, q, err);
	if (!rc)
		rc = rvl_node_set_in(g, n, 1, scale, err);
	if (!rc)
		rvl_node_set_out(n, 0, t);
	return rc;
}

/* The tensor that the examples were counted for: behind the pair for 8 bits, if there is one. */
static struct rvl_tensor *counted(struct rvl_tensor *t, uint32_t tensors)
{
	const struct rvl_node *q = t->n_users == 1 ? t->users[0] : NULL, *dq;

	if (t->id < tensors)
		return t;
	dq = q && q->op == RVL_OP_QUANTIZE && q->out[0]->n_users ? q->out[0]->users[0] : NULL;
	return dq && dq->op == RVL_OP_DEQUANTIZE && dq->out[0]->id < tensors ? dq->out[0] : NULL;
}

/* Both signs in equal steps: the zero point is 0. */
static float scale_of(const struct rvl_seen *s)
{
	float scale = fmaxf(-s->lo, s->hi) / 32767;

	return scale >= 0x1p-100f && isfinite(scale) ? scale : 1.0f / 32767;
}

static int widen(struct rvl_graph *g, struct rvl_node *n, struct rvl_tensor *t, float scale,
		 struct rvl_err *err)
{
	struct rvl_tensor *made = n->out[0], *q;
	const int32_t zero = 0;
	int rc = rvl_tensor_like(g, t, &q, err);

	if (rc)
		return rc;
	q->type = RVL_TYPE_S16;
	rc = rvl_tensor_set_quant(g, q, 1, 0, &scale, &zero, err);
	if (!rc)
		rc = rvl_binary_make(g, n, q, err);
	if (!rc)
		rc = read_integers(g, t, q, err);
	return rc || (!made->n_users && !made->is_output) ? rc : dequantise(g, q, made, err);
}

bool rvl_may_widen(const struct rvl_graph *g, const struct rvl_seen *seen)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (makes_floats(g->nodes[i]) && seen[g->nodes[i]->out[0]->id].wanted)
			return true;
	return false;
}

int rvl_widen(struct rvl_graph *g, const struct rvl_seen *seen, uint32_t tensors, struct rvl_err *err)
{
	uint32_t nodes = g->n_nodes;
	int rc = 0;

	for (uint32_t i = 0; i < nodes && !rc; i++) {
		struct rvl_node *n = g->nodes[i];
		struct rvl_tensor *t = makes_floats(n) ? counted(n->out[0], tensors) : NULL;

		if (t && seen[t->id].wanted)
			rc = widen(g, n, t, scale_of(&seen[t->id]), err);
	}
	return rc ? rc : rvl_graph_sort(g, err);
}

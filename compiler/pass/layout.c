/* SPDX-License-Identifier: MIT */
/*
 * Layouts of images: which lie in NHWC, by one decision over the whole graph.
 *
 * Every node has a layout for its images, or one for each of them (rvl_kernel_layouts()); what makes
 * and reads a tensor may disagree, and then one Reorder makes the tensor in the other layout for all
 * readers that need it. The cost is the number of bytes that are reordered, by a Reorder, inside a
 * kernel or by a Transpose that is no view. Each term depends on one layout or on two, so the
 * cheapest assignment is a minimum cut of a graph whose vertices are
 *
 *   the layout of a node's images (at the sink: NHWC),
 *   for each tensor "it is needed in NHWC" (at the sink) and "it is needed PLAIN" (at the source).
 *
 * LOAD and STORE of the NPU convert as they move. A layer reads images as they lie, unless it reads
 * them faster from planes, and the layout of its result costs nothing.
 *
 * Of equally cheap assignments the one with the fewest NHWC images is taken. A Transpose between NCHW
 * and NHWC whose image is in NHWC becomes a view. On the NPU that is an image between the Transpose
 * and layers: it is in NHWC for that reason alone, so that the choice for the CPU is made before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mincut.h"
#include "pass/inserted.h"
#include "pass/passes.h"

#define ANY UINT32_MAX	/* in place of a vertex: LOAD takes either layout */
#define MOST_STEPS ((uint64_t)1 << 28)	/* of the search for the cut; beyond them all stay PLAIN */

/* Vertices of a node's images. */
struct sides {
	uint32_t in, out;
};

struct layouts {
	struct rvl_graph *g;
	rvl_nhwc_fn reads;
	void *arg;
	struct rvl_mincut *cut;
	struct sides *side;		/* by node id */
	bool *has_views;		/* by tensor id: it shares its store */
	struct rvl_inserted_list insert;
	uint32_t *pos;			/* by node id, in g->nodes */
	uint32_t n_nodes, n_tensors;
	struct rvl_err *err;
};

static int64_t cost_of(const struct rvl_tensor *t)
{
	return rvl_tensor_bytes(t);
}

static bool matters(const struct rvl_tensor *t)
{
	return t && t->shaped && t->type && !t->data && !t->bounded && !t->bad &&
	       rvl_layout_matters(&t->shape);
}

/* Whether operand @i of the node is one whose layout its kernel takes. */
static bool is_image(const struct rvl_node *n, uint32_t i)
{
	return rvl_kernel_image(n->op, n->def, i) && matters(n->in[i]);
}

/* ---- transpositions between NCHW and NHWC ---- */

static bool permutes(const struct rvl_node *n, const int32_t perm[4])
{
	return n->op == RVL_OP_TRANSPOSE && n->attr.perm_rank == 4 &&
	       !memcmp(n->attr.perm, perm, 4 * sizeof(*perm));
}

/* The result is the operand read as an image in NHWC. */
static bool takes_nhwc(const struct rvl_node *n)
{
	static const int32_t perm[4] = { 0, 3, 1, 2 };

	return permutes(n, perm);
}

/* The operand, in NHWC, is the result. */
static bool gives_nhwc(const struct rvl_node *n)
{
	static const int32_t perm[4] = { 0, 2, 3, 1 };

	return permutes(n, perm);
}

/* ---- the cut ---- */

static enum rvl_layouts layouts_of(const struct rvl_node *n, struct rvl_kernel_desc *d)
{
	if (n->place != RVL_PLACE_CPU || n->free || n->stochastic)
		return RVL_LAYOUTS_PLAIN;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i] && (n->in[i]->bounded || n->in[i]->bad))
			return RVL_LAYOUTS_PLAIN;
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && n->out[i]->bounded)
			return RVL_LAYOUTS_PLAIN;
	rvl_node_desc(n, d);
	return rvl_kernel_layouts(d);
}

/* Vertex @v costs the bytes of @t where it is PLAIN. */
static int plain_costs(struct layouts *l, uint32_t v, const struct rvl_tensor *t)
{
	return matters(t) ? rvl_mincut_edge(l->cut, v, RVL_CUT_SINK, cost_of(t)) : 0;
}

static int add_node(struct layouts *l, const struct rvl_node *n, uint32_t v, struct rvl_kernel_desc *d)
{
	struct sides *s = &l->side[n->id];
	enum rvl_layouts can = layouts_of(n, d);
	int rc;

	*s = (struct sides) { RVL_CUT_SOURCE, RVL_CUT_SOURCE };
	if (n->place == RVL_PLACE_NPU && rvl_layer_of_images(n))
		*s = (struct sides) { l->reads && l->reads(n, l->arg) ? ANY : RVL_CUT_SOURCE, v };
	if (can == RVL_LAYOUTS_SAME)
		*s = (struct sides) { v, v };
	if (can != RVL_LAYOUTS_EACH)
		return 0;
	*s = (struct sides) { v, v + 1 };
	if (n->op == RVL_OP_TRANSPOSE && !gives_nhwc(n))
		s->in = RVL_CUT_SOURCE;
	if (n->op == RVL_OP_TRANSPOSE && !takes_nhwc(n))
		s->out = RVL_CUT_SOURCE;
	rc = s->in == RVL_CUT_SOURCE ? 0 : plain_costs(l, s->in, n->in[0]);
	return rc || s->out == RVL_CUT_SOURCE ? rc : plain_costs(l, s->out, n->out[0]);
}

static bool on_cpu(const struct rvl_node *n)
{
	return n && n->place == RVL_PLACE_CPU;
}

/*
 * An image of int16 that not only the NPU touches: its LOAD and STORE address it in NHWC alone. It is
 * no view, input or output: those are on the CPU.
 */
static bool npu_needs_nhwc(const struct rvl_tensor *t)
{
	bool meets = on_cpu(t->producer);

	if (t->type != RVL_TYPE_S16 || !matters(t))
		return false;
	for (uint32_t u = 0; u < t->n_users && !meets; u++)
		meets = on_cpu(t->users[u]);
	return meets;
}

static uint32_t made_at(const struct layouts *l, const struct rvl_tensor *t)
{
	if (t->producer && t->producer->place == RVL_PLACE_NPU && npu_needs_nhwc(t))
		return RVL_CUT_SINK;
	return t->producer ? l->side[t->producer->id].out : RVL_CUT_SOURCE;
}

static uint32_t used_at(const struct layouts *l, const struct rvl_node *n, uint32_t i)
{
	if (n->place == RVL_PLACE_NPU && n->in[i] && npu_needs_nhwc(n->in[i]))
		return RVL_CUT_SINK;
	return is_image(n, i) ? l->side[n->id].in : RVL_CUT_SOURCE;
}

/* The caller, or a view, reads the bytes of the tensor in the order of the model. */
static bool stays_plain(const struct layouts *l, const struct rvl_tensor *t)
{
	return t->is_output || t->is_input || t->base || t->holds_output || l->has_views[t->id];
}

static int add_use(struct layouts *l, uint32_t nhwc, uint32_t plain, uint32_t use)
{
	int rc;

	if (use == ANY)
		return 0;
	rc = rvl_mincut_edge(l->cut, nhwc, use, RVL_CUT_NEVER);
	return rc ? rc : rvl_mincut_edge(l->cut, use, plain, RVL_CUT_NEVER);
}

static int add_tensor(struct layouts *l, const struct rvl_tensor *t, uint32_t nhwc, uint32_t plain)
{
	uint32_t made = made_at(l, t);
	int rc;

	if (!matters(t))
		return 0;
	rc = rvl_mincut_edge(l->cut, made, nhwc, cost_of(t));
	if (!rc)
		rc = rvl_mincut_edge(l->cut, plain, made, cost_of(t));
	if (!rc && stays_plain(l, t))
		rc = rvl_mincut_edge(l->cut, RVL_CUT_SOURCE, plain, RVL_CUT_NEVER);
	for (uint32_t u = 0; u < t->n_users && !rc; u++) {
		const struct rvl_node *n = t->users[u];

		for (uint32_t i = 0; i < n->n_in && !rc; i++)
			if (n->in[i] == t)
				rc = add_use(l, nhwc, plain, used_at(l, n, i));
	}
	return rc;
}

static int build_cut(struct layouts *l, struct rvl_kernel_desc *d)
{
	uint32_t v = 2;
	int rc = 0;

	for (uint32_t i = 0; i < l->n_nodes && !rc; i++, v += 2)
		rc = add_node(l, l->g->nodes[i], v, d);
	for (uint32_t i = 0; i < l->n_tensors && !rc; i++, v += 2)
		rc = add_tensor(l, l->g->tensors[i], v, v + 1);
	return rc;
}

/* ---- what follows from it ---- */

static bool nhwc_at(const struct layouts *l, uint32_t v)
{
	return v != RVL_CUT_SOURCE && rvl_mincut_at_sink(l->cut, v);
}

static bool uses(const struct layouts *l, const struct rvl_node *n, uint32_t i, bool nhwc)
{
	uint32_t use = used_at(l, n, i);

	return use != ANY && nhwc_at(l, use) == nhwc;
}

/* Whether some reader, or the store itself, has @t in that layout. */
static bool wanted(const struct layouts *l, const struct rvl_tensor *t, bool nhwc)
{
	if (!nhwc && stays_plain(l, t))
		return true;
	for (uint32_t u = 0; u < t->n_users; u++)
		for (uint32_t i = 0; i < t->users[u]->n_in; i++)
			if (t->users[u]->in[i] == t && uses(l, t->users[u], i, nhwc))
				return true;
	return false;
}

/* The readers of @from in one layout read @to, which is @from in that layout. *first: the first of them. */
static int move_readers(struct layouts *l, struct rvl_tensor *from, struct rvl_tensor *to,
			bool nhwc, uint32_t *first)
{
	uint32_t n = l->n_nodes;
	int rc = 0;

	for (uint32_t u = 0; u < from->n_users && !rc;) {
		struct rvl_node *user = from->users[u];
		uint32_t before = from->n_users;

		for (uint32_t i = 0; i < user->n_in && !rc; i++)
			if (user->in[i] == from && uses(l, user, i, nhwc)) {
				n = l->pos[user->id] < n ? l->pos[user->id] : n;
				rc = rvl_node_set_in(l->g, user, i, to, l->err);
			}
		if (from->n_users == before)
			u++;
	}
	*first = n;
	return rc;
}

/* A Reorder, placed in the segment of the node at @pos. */
static int insert_reorder(struct layouts *l, struct rvl_tensor *from, struct rvl_tensor *to,
			  uint32_t pos, bool behind)
{
	struct rvl_node *n;
	int rc = rvl_node_new(l->g, RVL_OP_REORDER, NULL, &n, l->err);

	if (rc)
		return rc;
	n->reason = "the steps that make and read the image work in different layouts";
	rvl_node_set_out(n, 0, to);
	rc = rvl_inserted_add(&l->insert, l->g, n, pos, behind, l->err);
	return rc ? rc : rvl_node_set_in(l->g, n, 0, from, l->err);
}

static uint32_t output_of(const struct rvl_node *n, const struct rvl_tensor *t)
{
	uint32_t i = 0;

	while (n->out[i] != t)
		i++;
	return i;
}

static bool on_npu(const struct rvl_node *n)
{
	return n && n->place == RVL_PLACE_NPU;
}

/* The PLAIN readers of @t, which a layer of the NPU makes in NHWC, read a Reorder of it beside them. */
static int plain_beside_readers(struct layouts *l, struct rvl_tensor *t, struct rvl_tensor *plain)
{
	uint32_t first;
	int rc = move_readers(l, t, plain, false, &first);

	t->layout = RIVULET_LAYOUT_NHWC;
	return rc ? rc : insert_reorder(l, t, plain, first, false);
}

/* The readers in NHWC read a Reorder of the PLAIN @t, which is no part of a segment of the NPU. */
static int nhwc_beside_readers(struct layouts *l, struct rvl_tensor *t, struct rvl_tensor *nhwc)
{
	uint32_t first;
	int rc = move_readers(l, t, nhwc, true, &first);

	if (rc)
		return rc;
	if (on_npu(l->g->nodes[first]))
		return insert_reorder(l, t, nhwc, l->pos[t->producer->id], true);
	return insert_reorder(l, t, nhwc, first, false);
}

/* Makes @t in the layouts that its readers want. */
static int settle_tensor(struct layouts *l, struct rvl_tensor *t)
{
	bool made = nhwc_at(l, made_at(l, t)), plain = wanted(l, t, false);
	struct rvl_node *producer = t->producer;
	struct rvl_tensor *other;
	uint32_t first;
	int rc;

	if (made && !plain)
		t->layout = RIVULET_LAYOUT_NHWC;
	if ((made && !plain) || (!made && !wanted(l, t, true)))
		return 0;
	rc = rvl_tensor_like(l->g, t, &other, l->err);
	if (rc)
		return rc;
	if (made && on_npu(producer) && npu_needs_nhwc(t))
		return plain_beside_readers(l, t, other);
	other->layout = RIVULET_LAYOUT_NHWC;
	if (!made)
		return nhwc_beside_readers(l, t, other);
	rc = move_readers(l, t, other, true, &first);
	if (rc)
		return rc;
	rvl_node_set_out(producer, output_of(producer, t), other);
	return insert_reorder(l, other, t, l->pos[producer->id], true);
}

/* Whether only images of the NPU's layers, which LOAD and STORE move in either layout, are behind @t. */
static bool layers_read(const struct layouts *l, const struct rvl_tensor *t)
{
	for (uint32_t u = 0; u < t->n_users; u++) {
		const struct rvl_node *n = t->users[u];

		for (uint32_t i = 0; i < n->n_in; i++)
			if (n->in[i] == t && (!on_npu(n) || l->side[n->id].in != ANY || !is_image(n, i) ||
					      n->stochastic))
				return false;
	}
	return t->n_users > 0;
}

#define STAGES 4 /* of the ALU behind a product */

/*
 * Whether a layer makes the result of @n as the image that its shape says. A matrix product whose epilogue
 * computes @n makes its rows as pixels.
 */
static bool makes_image(const struct rvl_node *n, int stages)
{
	if (!n || !on_npu(n) || !stages)
		return true;
	if (n->op == RVL_OP_Q_MATMUL)
		return false;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i] && !makes_image(n->in[i]->producer, stages - 1))
			return false;
	return true;
}

/*
 * Whether the image of a Transpose that the NPU executes can lie in NHWC: a layer makes it for the
 * Transpose alone, or layers alone read what the Transpose makes.
 */
static bool image_moves(const struct layouts *l, const struct rvl_node *n, const struct rvl_tensor *image)
{
	const struct rvl_node *p = image->producer;

	if (!matters(image) || image->type == RVL_TYPE_S16 || image->id >= l->n_tensors ||
	    stays_plain(l, image) || image->layout != RIVULET_LAYOUT_PLAIN)
		return false;
	if (takes_nhwc(n))
		return layers_read(l, image);
	return image->n_users == 1 && on_npu(p) && rvl_layer_of_images(p) && !p->stochastic && makes_image(p, STAGES);
}

/* A Transpose whose operand and result have the same bytes is not executed where it can be a view. */
static void join_transposes(struct layouts *l)
{
	for (uint32_t i = 0; i < l->g->n_nodes; i++) {
		struct rvl_node *n = l->g->nodes[i];
		struct rvl_tensor *image = takes_nhwc(n) ? n->out[0] : n->in[0];

		if (n->free || (!takes_nhwc(n) && !gives_nhwc(n)))
			continue;
		if (on_cpu(n) ? image->layout != RIVULET_LAYOUT_NHWC : !image_moves(l, n, image))
			continue;
		n->free = rvl_view_whole(l->g, n->out[0], n->in[0]);
		if (n->free)
			image->layout = RIVULET_LAYOUT_NHWC;
	}
	rvl_views_settle(l->g);
}

static int apply(struct layouts *l)
{
	int rc = 0;

	for (uint32_t i = 0; i < l->n_tensors && !rc; i++)
		if (matters(l->g->tensors[i]))
			rc = settle_tensor(l, l->g->tensors[i]);
	if (!rc)
		rc = rvl_inserted_place(&l->insert, l->g, l->n_nodes, l->err);
	if (!rc)
		join_transposes(l);
	return rc;
}

static void note_views(struct layouts *l)
{
	for (uint32_t i = 0; i < l->n_tensors; i++)
		if (l->g->tensors[i]->base)
			l->has_views[l->g->tensors[i]->base->id] = true;
	for (uint32_t i = 0; i < l->n_nodes; i++)
		l->pos[l->g->nodes[i]->id] = i;
}

static int choose(struct layouts *l)
{
	struct rvl_kernel_desc *d = malloc(sizeof(*d));
	int rc = -ENOMEM;

	if (d && l->cut && l->side && l->has_views && l->pos) {
		note_views(l);
		rc = build_cut(l, d);
	}
	free(d);
	if (!rc)
		rc = rvl_mincut_solve(l->cut, MOST_STEPS, NULL);
	if (rc == -ENOMEM)
		return rvl_fail(l->err, rc, "no memory for layouts");
	return rc == -E2BIG ? 0 : apply(l);
}

int rvl_pass_layout(struct rvl_graph *g, rvl_nhwc_fn reads, void *arg, struct rvl_err *err)
{
	struct layouts l = {
		.g = g, .reads = reads, .arg = arg, .n_nodes = g->n_nodes, .n_tensors = g->n_tensors, .err = err,
		.cut = rvl_mincut_new(2 + 2 * g->n_nodes + 2 * g->n_tensors),
		.side = calloc(g->next_node_id + 1u, sizeof(*l.side)),
		.has_views = calloc(g->n_tensors + 1u, sizeof(*l.has_views)),
		.pos = calloc(g->next_node_id + 1u, sizeof(*l.pos)),
	};
	int rc = choose(&l);

	rvl_mincut_free(l.cut);
	free(l.side);
	free(l.has_views);
	free(l.insert.list);
	free(l.pos);
	return rc;
}

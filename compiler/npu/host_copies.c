/* SPDX-License-Identifier: MIT */
/*
 * Copies for the CPU. A value that the CPU accesses is PLAIN, in which LOAD and STORE move each row
 * of each channel in a burst of its own. Where layers of the NPU read the value, too, this can take
 * many times the cycles of the port that BLOCKED takes. Then the value is left to the NPU, and
 * layers copy what the CPU reads of it: the whole value, or channels of it that begin a block.
 */
#include "npu/backend.h"
#include "pass/inserted.h"
#include "pass/passes.h"
#include "rivulet_cost.h"

#include <errno.h>
#include <stdlib.h>

struct copies {
	struct rvl_graph *g;
	const struct rivulet_board *b;
	struct rvl_inserted_list insert;
	uint32_t *pos; /* by node id, in g->nodes */
	uint32_t n_nodes, n_tensors;
	struct rvl_err *err;
};

/* Who reads a value, through views of it, too. */
struct readers {
	bool cpu, npu;
};

static struct readers readers_of(const struct rvl_tensor *t);

static struct readers readers_behind(const struct rvl_node *n)
{
	struct readers r = { .cpu = n->place == RVL_PLACE_CPU, .npu = n->place == RVL_PLACE_NPU };

	if (!n->free)
		return r;
	r = (struct readers){ false, false };
	for (uint32_t o = 0; o < n->n_out; o++) {
		struct readers below = n->out[o] ? readers_of(n->out[o]) : r;

		r.cpu |= below.cpu;
		r.npu |= below.npu;
	}
	return r;
}

/* An output is read by the caller. */
static struct readers readers_of(const struct rvl_tensor *t)
{
	struct readers r = { .cpu = t->is_output };

	for (uint32_t u = 0; u < t->n_users; u++) {
		struct readers below = readers_behind(t->users[u]);

		r.cpu |= below.cpu;
		r.npu |= below.npu;
	}
	return r;
}

/* ---- which values ---- */

static int64_t plane_of(const struct rvl_tensor *t)
{
	return t->shape.dim[2] * t->shape.dim[3];
}

static bool is_image(const struct copies *c, const struct rvl_tensor *t)
{
	const struct rvl_node *p = t->producer;

	return p && p->place == RVL_PLACE_NPU && rvl_layer_of_images(p) && !t->base &&
	       !t->is_output && !t->holds_output && t->layout == RIVULET_LAYOUT_PLAIN &&
	       rvl_is_quant8_tensor(t) && rvl_layout_matters(&t->shape) &&
	       t->shape.dim[1] >= c->b->tn;
}

/* Whether view @n of @t has channels of one image that begin a block. */
static bool begins_block(const struct copies *c, const struct rvl_node *n,
			 const struct rvl_tensor *t)
{
	const struct rvl_tensor *v = n->out[0];

	return n->free && n->n_out == 1 && v->base == t && v->shape.rank == 4 &&
	       t->shape.dim[0] == 1 && v->shape.dim[0] == 1 && v->shape.dim[2] == t->shape.dim[2] &&
	       v->shape.dim[3] == t->shape.dim[3] && v->base_at % (plane_of(t) * c->b->tn) == 0;
}

/* Cycles of the port for the first @channels of @t. */
static int64_t port_cycles(const struct copies *c, const struct rvl_tensor *t, int64_t channels,
			   bool blocked)
{
	int64_t rows = t->shape.dim[0] * t->shape.dim[2], cols = t->shape.dim[3];
	int64_t blocks = rvl_div_up(channels, c->b->tn);

	if (!blocked)
		return rivulet_port_cycles(c->b, rows * channels, cols, false);
	return rivulet_port_cycles(c->b, blocks, rows * cols * c->b->tn, true);
}

/* A copy reads BLOCKED and writes PLAIN; it waits once for each. */
static int64_t copy_cycles(const struct copies *c, const struct rvl_tensor *t, int64_t channels)
{
	return port_cycles(c, t, channels, true) + port_cycles(c, t, channels, false) +
	       2 * c->b->mem_latency;
}

/*
 * Whether @t costs fewer cycles of the port in BLOCKED, with copies for the CPU. A view that both
 * sides read, or an operator of the NPU that reads no image, keeps it PLAIN. The layer that makes
 * the value takes signs of it on its way out, so that they load nothing.
 */
static bool gains(const struct copies *c, const struct rvl_tensor *t)
{
	int64_t all = t->shape.dim[1],
		saved = port_cycles(c, t, all, false) - port_cycles(c, t, all, true);
	int64_t layers = 0, parts = 0, whole = 0;

	for (uint32_t u = 0; u < t->n_users; u++) {
		const struct rvl_node *n = t->users[u];
		struct readers r = readers_behind(n);

		if (r.npu && (r.cpu || !rvl_layer_of_images(n)))
			return false;
		layers += r.npu && n->op != RVL_OP_B_SIGN;
		if (r.cpu && begins_block(c, n, t))
			parts += copy_cycles(c, t, n->out[0]->shape.dim[1]);
		else if (r.cpu)
			whole = copy_cycles(c, t, all);
	}
	return layers && parts + whole > 0 && (1 + layers) * saved > parts + whole;
}

/* ---- copies ---- */

/* Behind the node at @pos, in its segment. */
static int add_copy(struct copies *c, struct rvl_tensor *from, struct rvl_tensor *to, uint32_t pos)
{
	struct rvl_node *n;
	int rc = rvl_node_new(c->g, RVL_OP_IDENTITY, NULL, &n, c->err);

	if (!rc)
		rc = rvl_inserted_add(&c->insert, c->g, n, pos, true, c->err);
	if (rc)
		return rc;
	n->op_type = "Identity";
	n->copies = true;
	n->place = RVL_PLACE_NPU;
	rvl_node_set_out(n, 0, to);
	return rvl_node_set_in(c->g, n, 0, from, c->err);
}

/* Views that @n makes of the value in @from are views of the one in @to, which begins at byte @at
 * of it. */
static void move_views(const struct rvl_node *n, const struct rvl_tensor *from,
		       struct rvl_tensor *to, uint64_t at)
{
	for (uint32_t o = 0; n->free && o < n->n_out; o++) {
		struct rvl_tensor *v = n->out[o];

		if (!v || v->base != from)
			continue;
		v->base = to;
		v->base_at -= at;
		for (uint32_t u = 0; u < v->n_users; u++)
			move_views(v->users[u], from, to, at);
	}
}

/* @n, which reads @from, reads @to, whose bytes are those of @root from @at on. */
static int move_reader(struct copies *c, struct rvl_node *n, struct rvl_tensor *from,
		       struct rvl_tensor *to, const struct rvl_tensor *root, uint64_t at)
{
	int rc = 0;

	move_views(n, root, to, at);
	for (uint32_t i = 0; i < n->n_in && !rc; i++)
		if (n->in[i] == from)
			rc = rvl_node_set_in(c->g, n, i, to, c->err);
	return rc;
}

/* The readers of view @v of @t read a copy of the view. */
static int copy_part(struct copies *c, struct rvl_tensor *t, struct rvl_tensor *v)
{
	uint32_t pos = c->pos[v->producer->id];
	struct rvl_tensor *copy;
	int rc = rvl_tensor_like(c->g, v, &copy, c->err);

	while (!rc && v->n_users)
		rc = move_reader(c, v->users[0], v, copy, t, v->base_at);
	return rc ? rc : add_copy(c, v, copy, pos);
}

/* The next reader of @t that only the CPU is behind, or NULL. */
static struct rvl_node *next_host(const struct copies *c, const struct rvl_tensor *t, bool part)
{
	for (uint32_t u = 0; u < t->n_users; u++) {
		struct rvl_node *n = t->users[u];

		if (readers_behind(n).cpu && begins_block(c, n, t) == part)
			return n;
	}
	return NULL;
}

static int copy_value(struct copies *c, struct rvl_tensor *t)
{
	uint32_t pos = c->pos[t->producer->id];
	struct rvl_tensor *copy;
	struct rvl_node *n;
	int rc = 0;

	while (!rc && (n = next_host(c, t, true)))
		rc = copy_part(c, t, n->out[0]);
	n = next_host(c, t, false);
	if (rc || !n)
		return rc;
	rc = rvl_tensor_like(c->g, t, &copy, c->err);
	for (; !rc && n; n = next_host(c, t, false))
		rc = move_reader(c, n, t, copy, t, 0);
	return rc ? rc : add_copy(c, t, copy, pos);
}

static int make_copies(struct copies *c)
{
	int rc = 0;

	for (uint32_t i = 0; i < c->n_nodes; i++)
		c->pos[c->g->nodes[i]->id] = i;
	for (uint32_t i = 0; i < c->n_tensors && !rc; i++) {
		struct rvl_tensor *t = c->g->tensors[i];

		if (is_image(c, t) && gains(c, t))
			rc = copy_value(c, t);
	}
	return rc || !c->insert.n ? rc : rvl_inserted_place(&c->insert, c->g, c->n_nodes, c->err);
}

int rvl_copy_for_cpu(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_err *err)
{
	struct copies c = { .g = g,
			    .b = b,
			    .n_nodes = g->n_nodes,
			    .n_tensors = g->n_tensors,
			    .err = err,
			    .pos = calloc(g->next_node_id + 1u, sizeof(*c.pos)) };
	int rc = c.pos ? make_copies(&c) : rvl_fail(err, -ENOMEM, "no memory for copies");

	free(c.pos);
	free(c.insert.list);
	return rc;
}

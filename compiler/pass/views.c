/* SPDX-License-Identifier: MIT */
/*
 * Which tensors are views: elements of another tensor's store, so that the operator between the two
 * moves nothing and no step executes it. Operators of RVL_OP_BOXES say which elements they copy.
 *
 * Forward, a result that is a run of the operand's elements lies in the operand: reshapes, and slices
 * and splits of the outermost axis that is longer than 1. Backward, operands that fill runs of the
 * result are written there by the operators that make them: Concat along such an axis. If operands
 * are the parts of one tensor in its order, that tensor is written there. An operand that cannot be
 * written there (it lies elsewhere already, or is an input, output or constant) is copied by an
 * Identity; if none can, the operator stays what it was, one copy of everything.
 *
 * Every tensor is written once, so a store needs no order between its parts.
 *
 * Views do not keep stores that are idle otherwise (lives.h). An operand may begin a joined value's
 * life early, because at the join operands and result would both be live.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graph/view.h"
#include "pass/boxes.h"
#include "pass/lives.h"
#include "pass/passes.h"
#include "rivulet_program.h"

struct views {
	struct rvl_graph *g;
	struct rvl_op_boxes *boxes;	/* of the node at hand */
	struct rvl_lives lives;
	bool images;
	struct rvl_err *err;
};

/* ---- what a node copies ---- */

/* Whether one side of a box is a run of elements. @pitch: b->from or b->to. */
static bool is_run(const struct rvl_op_box *b, int64_t at, const int64_t *pitch)
{
	struct rvl_tview t = { .origin = at, .rank = b->rank };

	memcpy(t.dim, b->dim, sizeof(t.dim));
	memcpy(t.pitch, pitch, sizeof(t.pitch));
	return rvl_tview_is_dense(&t);
}

/* The box that fills all of output @o with a run of an operand; NULL if there is none. */
static const struct rvl_op_box *run_of_input(const struct views *v, const struct rvl_node *n, uint32_t o)
{
	for (uint32_t i = 0; i < v->boxes->n; i++) {
		const struct rvl_op_box *b = &v->boxes->box[i];

		if (b->out == o && rvl_box_count(b) == rvl_shape_count(&n->out[o]->shape) &&
		    is_run(b, b->from_at, b->from) && is_run(b, b->to_at, b->to))
			return b;
	}
	return NULL;
}

/* Whether every operand, whole, is a run of output 0. */
static bool runs_of_output(const struct views *v, const struct rvl_node *n)
{
	for (uint32_t i = 0; i < v->boxes->n; i++) {
		const struct rvl_op_box *b = &v->boxes->box[i];

		if (n->in[b->in]->type != n->out[0]->type || !rvl_box_count(b) ||
		    rvl_box_count(b) != rvl_shape_count(&n->in[b->in]->shape) ||
		    !is_run(b, b->from_at, b->from) || !is_run(b, b->to_at, b->to))
			return false;
	}
	return n->n_out == 1 && v->boxes->n > 1;
}

/* ---- where tensors lie ---- */

/* The tensor whose store @t lies in; *at: bytes from its start. */
static struct rvl_tensor *root_of(struct rvl_tensor *t, uint64_t *at)
{
	struct rvl_tensor *root = t;
	uint64_t left = 0;

	while (root->base) {
		left += root->base_at;
		root = root->base;
	}
	*at = left;
	while (t != root) { /* those on the path need not follow it again */
		struct rvl_tensor *next = t->base;
		uint64_t step = t->base_at;

		t->base = root;
		t->base_at = left;
		left -= step;
		t = next;
	}
	return root;
}

static void lies_in(struct rvl_tensor *t, struct rvl_tensor *base, int64_t element)
{
	t->base = base;
	t->base_at = (uint64_t)element * rvl_type_size(t->type);
}

/*
 * An input or output that the device does not reach. A view of it would keep the nodes that touch the
 * view from the NPU; a copy does not.
 */
static bool out_of_reach(const struct rvl_graph *g, const struct rvl_tensor *t)
{
	for (uint32_t i = RIVULET_MAX_IO; t->is_input && i < g->n_inputs; i++)
		if (g->inputs[i] == t)
			return true;
	for (uint32_t i = 0; t->is_output && i < g->n_outputs; i++)
		if (g->outputs[i] == t)
			return g->n_inputs + i >= RIVULET_MAX_IO;
	return false;
}

/* Whether the memory that the caller binds for an output can be that of @x, all of it. */
static bool takes_output(const struct rvl_tensor *y, struct rvl_tensor *x)
{
	uint64_t at;
	const struct rvl_tensor *root = root_of(x, &at);

	return !at && root->producer && !root->is_output && !root->holds_output &&
	       rvl_tensor_bytes(root) == rvl_tensor_bytes(y);
}

/* Bytes of those results in @set that lie in the same operand as @o and are used as long. */
static uint64_t used_as_long(const struct views *v, const struct rvl_node *n, uint32_t set,
			     uint32_t o)
{
	uint32_t in = run_of_input(v, n, o)->in;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n->n_out; i++)
		if (set >> i & 1 && run_of_input(v, n, i)->in == in &&
		    v->lives.last_use[n->out[i]->id] >= v->lives.last_use[n->out[o]->id])
			bytes += (uint64_t)rvl_tensor_bytes(n->out[i]);
	return bytes;
}

/* Whether result @o, a view with the others of @set, keeps no more than half of a store idle. */
static bool fits_life(const struct views *v, const struct rvl_node *n, uint32_t set, uint32_t o)
{
	uint64_t at;
	const struct rvl_tensor *root = root_of(n->in[run_of_input(v, n, o)->in], &at);

	return rvl_life_fits(&v->lives, root, used_as_long(v, n, set, o),
			     v->lives.last_use[n->out[o]->id]);
}

static void extend_life(struct views *v, const struct rvl_node *n, uint32_t set, uint32_t o)
{
	uint64_t at;
	const struct rvl_tensor *root = root_of(n->in[run_of_input(v, n, o)->in], &at);

	rvl_life_extend(&v->lives, root, used_as_long(v, n, set, o),
			v->lives.last_use[n->out[o]->id]);
}

static bool can_lie_in(const struct rvl_graph *g, const struct rvl_tensor *y, struct rvl_tensor *x)
{
	uint64_t at;
	const struct rvl_tensor *root = root_of(x, &at);

	return !root->data && !out_of_reach(g, root) && !out_of_reach(g, y) &&
	       (!y->is_output || takes_output(y, x));
}

static int add_copy(struct views *v, struct rvl_tensor *from, struct rvl_tensor *to)
{
	struct rvl_node *copy;
	int rc = rvl_node_new(v->g, RVL_OP_IDENTITY, NULL, &copy, v->err);

	if (rc)
		return rc;
	copy->op_type = "Identity";
	copy->copies = true;
	rvl_node_set_out(copy, 0, to);
	return rvl_node_set_in(v->g, copy, 0, from, v->err);
}

/* A result that cannot lie in its operand becomes a copy of one that can. */
static int copy_result(struct views *v, struct rvl_node *n, uint32_t o)
{
	struct rvl_tensor *y = n->out[o], *made;
	int rc = rvl_tensor_like(v->g, y, &made, v->err);

	if (rc)
		return rc;
	rvl_node_set_out(n, o, made);
	return add_copy(v, made, y);
}

static void forward_one(struct views *v, struct rvl_node *n, uint32_t o)
{
	const struct rvl_op_box *b = run_of_input(v, n, o);
	struct rvl_tensor *y = n->out[o];
	uint64_t at;

	lies_in(y, n->in[b->in], b->from_at);
	if (y->is_output)
		root_of(y, &at)->holds_output = true;
}

/* The results of @n that become views, a bit each; 0 if not every result is a run of an operand. */
static uint32_t choose_results(const struct views *v, const struct rvl_node *n)
{
	uint32_t set = 0, before;

	for (uint32_t o = 0; o < n->n_out; o++) {
		const struct rvl_op_box *b = n->out[o] ? run_of_input(v, n, o) : NULL;

		if (n->out[o] && !b)
			return 0;
		if (b && can_lie_in(v->g, n->out[o], n->in[b->in]))
			set |= 1u << o;
	}
	do {
		before = set;
		for (uint32_t o = 0; o < n->n_out; o++)
			if (set >> o & 1 && !fits_life(v, n, set, o))
				set &= ~(1u << o);
	} while (set != before);
	return set;
}

/* Makes the results of @n views of its operand, if that saves anything. */
static int forward(struct views *v, struct rvl_node *n)
{
	uint32_t set = choose_results(v, n);
	int rc = 0;

	if (!set)
		return 0;
	for (uint32_t o = 0; o < n->n_out; o++)
		if (set >> o & 1)
			extend_life(v, n, set, o);
	for (uint32_t o = 0; o < n->n_out && !rc; o++) {
		if (n->out[o] && !(set >> o & 1))
			rc = copy_result(v, n, o);
		if (n->out[o] && !rc)
			forward_one(v, n, o);
	}
	n->free = !rc;
	return rc;
}

/* Whether the operator that makes @x can write it into another store. */
static bool can_move_into(const struct rvl_tensor *x)
{
	return x->producer && !x->base && !x->is_output && !x->holds_output;
}

/* Bytes of the result at which a box begins and ends. */
static void result_bytes(const struct rvl_node *n, const struct rvl_op_box *b, uint64_t *lo, uint64_t *hi)
{
	uint64_t size = rvl_type_size(n->out[0]->type);

	*lo = (uint64_t)b->to_at * size;
	*hi = *lo + (uint64_t)rvl_box_count(b) * size;
}

/* Whether the operand of a box lies already where the result has it, if @root is at byte @place of it. */
static bool lies_right(const struct rvl_node *n, const struct rvl_op_box *b,
		       const struct rvl_tensor *root, uint64_t place)
{
	uint64_t at, lo, hi;

	result_bytes(n, b, &lo, &hi);
	return root_of(n->in[b->in], &at) == root && place + at == lo;
}

/*
 * The tensor that has to move into the result for the operand of @own to be there: the operand, or
 * the one of which it is a part, if each operand among whose bytes it would come is a part of it at
 * the same place. NULL if neither can.
 */
static struct rvl_tensor *mover(const struct views *v, const struct rvl_node *n,
				const struct rvl_op_box *own, uint64_t *place)
{
	uint64_t at, lo, hi, past;
	struct rvl_tensor *root = root_of(n->in[own->in], &at);

	result_bytes(n, own, &lo, &hi);
	if (!can_move_into(root) || root == n->out[0] || at > lo ||
	    !rvl_life_fits_joined(&v->lives, root, n->out[0]))
		return NULL;
	*place = lo - at;
	past = *place + (uint64_t)rvl_tensor_bytes(root);
	if (past > (uint64_t)rvl_tensor_bytes(n->out[0]))
		return NULL;
	for (uint32_t i = 0; i < v->boxes->n; i++) {
		result_bytes(n, &v->boxes->box[i], &lo, &hi);
		if (lo < past && *place < hi && !lies_right(n, &v->boxes->box[i], root, *place))
			return NULL;
	}
	return root;
}

static int copy_operand(struct views *v, struct rvl_node *n, uint32_t i)
{
	struct rvl_tensor *made;
	int rc = rvl_tensor_like(v->g, n->in[i], &made, v->err);

	if (!rc)
		rc = add_copy(v, n->in[i], made);
	return rc ? rc : rvl_node_set_in(v->g, n, i, made, v->err);
}

/* Makes operands of @n views of its result; those that cannot be are copied there. */
static int backward(struct views *v, struct rvl_node *n)
{
	struct rvl_tensor *y = n->out[0];
	uint64_t size = rvl_type_size(y->type), place;
	uint32_t can = 0;
	int rc = 0;

	for (uint32_t i = 0; i < v->boxes->n; i++)
		can += mover(v, n, &v->boxes->box[i], &place) != NULL;
	if (!can || out_of_reach(v->g, y))
		return 0;
	for (uint32_t i = 0; i < v->boxes->n && !rc; i++) {
		const struct rvl_op_box *b = &v->boxes->box[i];
		struct rvl_tensor *moves;

		if (lies_right(n, b, y, 0))
			continue; /* with the operand of an earlier box */
		moves = mover(v, n, b, &place);
		if (!moves)
			rc = copy_operand(v, n, b->in);
		if (moves)
			rvl_life_extend_joined(&v->lives, moves, y);
		if (!rc)
			lies_in(moves ? moves : n->in[b->in], y, moves ? (int64_t)(place / size) : b->to_at);
	}
	n->free = !rc;
	return rc;
}

static bool has_images(const struct rvl_node *n)
{
	bool image = false;

	for (uint32_t i = 0; i < n->n_in; i++)
		image |= n->in[i] && rvl_layout_matters(&n->in[i]->shape);
	for (uint32_t i = 0; i < n->n_out; i++)
		image |= n->out[i] && rvl_layout_matters(&n->out[i]->shape);
	return image;
}

static int view_node(struct views *v, struct rvl_node *n)
{
	int rc = n->copies || (!v->images && has_images(n)) ? 0 : rvl_node_boxes(n, v->boxes, v->err);

	if (rc <= 0)
		return rc;
	return runs_of_output(v, n) ? backward(v, n) : forward(v, n);
}

void rvl_views_settle(struct rvl_graph *g)
{
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		struct rvl_tensor *t = g->tensors[i], *root;
		uint64_t at;

		root = root_of(t, &at);
		t->base = root == t ? NULL : root;
		t->base_at = at;
	}
}

static int make_views(struct views *v)
{
	uint32_t n = v->g->n_nodes;
	int rc = 0;

	if (!v->boxes)
		return rvl_fail(v->err, -ENOMEM, "no memory for views");
	rc = rvl_lives_new(&v->lives, v->g, v->err);
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = view_node(v, v->g->nodes[i]);
	if (!rc)
		rvl_views_settle(v->g);
	return rc;
}

bool rvl_view_whole(struct rvl_graph *g, struct rvl_tensor *y, struct rvl_tensor *x)
{
	bool output = y->is_output || y->holds_output;
	uint64_t at;
	struct rvl_tensor *root = root_of(x, &at);

	if (y->base || y->data || (output && !takes_output(y, x)) || !can_lie_in(g, y, x))
		return false;
	y->base = root;
	y->base_at = at;
	root->holds_output |= output;
	y->holds_output = false;
	return true;
}

int rvl_pass_views(struct rvl_graph *g, bool images, struct rvl_err *err)
{
	struct views v = { .g = g, .boxes = malloc(sizeof(*v.boxes)), .images = images, .err = err };
	int rc = make_views(&v);

	free(v.boxes);
	rvl_lives_free(&v.lives);
	return rc ? rc : rvl_graph_sort(g, err);
}

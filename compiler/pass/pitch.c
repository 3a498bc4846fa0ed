/* SPDX-License-Identifier: MIT */
/*
 * Views whose elements lie apart. rvl_pass_views() makes those whose elements follow one another;
 * this pass makes the others, after the layouts are known, where every step that makes or reads such
 * a tensor runs on the CPU and addresses pitches (rvl_kernel_check_pitches()).
 *
 * Forward, a result whose elements are at regular places of the operand lies in the operand. A chain
 * of such operators is composed by the algebra of graph/view.h: reshapes, transpositions, slices in
 * steps, splits of inner axes. Backward, the operands of a join along any axis are written into the
 * result by the steps that make them. What cannot be a view is copied once: a result behind its
 * operator, an operand before it. If nothing can, the operator stays what it was, one copy.
 *
 * Reading elements that are each apart costs about as much as copying them. So a tensor whose
 * neighbours are less than RUN bytes together is a view only if one step reads it: a second reader
 * would pay again for what a copy pays once. So would a step that repeats the operand in its
 * result, as Tile and broadcasts do, if the neighbours in the order of the operand are apart.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "graph/tensor_view.h"
#include "pass/boxes.h"
#include "pass/inserted.h"
#include "pass/lives.h"
#include "pass/passes.h"

#define RUN 16

struct pitches {
	struct rvl_graph *g;
	struct rvl_op_boxes *boxes;	/* of the node at hand */
	struct rvl_kernel_desc *desc;
	struct rvl_lives lives;
	struct rvl_inserted_list insert;
	/* By tensor id: tensors that lie in one store are a list. NO_TENSOR ends it. */
	uint32_t *first, *next;
	uint32_t n_lists;
	uint32_t n_tensors, n_nodes, pos;	/* tensors and nodes before the pass; the node at hand */
	struct rvl_err *err;
};

#define NO_TENSOR UINT32_MAX

/* ---- where tensors lie ---- */

static struct rvl_tensor *root_of(struct rvl_tensor *t)
{
	return t->base ? t->base : t;
}

/* Whether the view is @t in its layout; axes of one element do not count. */
static bool is_dense(const struct rvl_tensor *t, const struct rvl_tview *v)
{
	struct rvl_tview own;

	rvl_tensor_dense_view(t, &own);
	for (int d = 0; d < t->shape.rank; d++)
		if (own.dim[d] > 1 && own.pitch[d] != v->pitch[d])
			return false;
	return true;
}

/* The pitches in which an operand of a step that is @t would lie. */
static void fill_pitches(const struct rvl_tensor *t, const struct rvl_tview *v, bool *pitched,
			 int64_t *pitch)
{
	int64_t size = (int64_t)rvl_type_size(t->type);

	*pitched = !is_dense(t, v);
	memset(pitch, 0, RVL_MAX_RANK * sizeof(*pitch));
	for (int d = 0; *pitched && d < t->shape.rank; d++)
		pitch[d] = t->shape.dim[d] > 1 ? v->pitch[d] * size : 0;
}

static void lies_in(struct pitches *p, struct rvl_tensor *t, struct rvl_tensor *root,
		    const struct rvl_tview *v)
{
	int64_t least, greatest;

	rvl_tview_bounds(v, &least, &greatest);
	fill_pitches(t, v, &t->pitched, t->pitch);
	t->base = root;
	t->base_at = (uint64_t)least * rvl_type_size(t->type);
	p->next[t->id] = p->first[root->id];
	p->first[root->id] = t->id;
}

/* ---- which steps address a view ---- */

/* The shapes that a step with a bounded operand computes are not those of any pitches. */
static bool has_bounded(const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i] && n->in[i]->bounded)
			return true;
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && n->out[i]->bounded)
			return true;
	return false;
}

static bool takes(struct pitches *p, const struct rvl_node *n, const struct rvl_tensor *t,
		  const struct rvl_tview *v)
{
	struct rvl_kernel_desc *d = p->desc;

	if (n->place != RVL_PLACE_CPU || n->stochastic || has_bounded(n))
		return false;
	rvl_node_desc(n, d);
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i] == t)
			fill_pitches(t, v, &d->in[i].pitched, d->in[i].pitch);
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] == t)
			fill_pitches(t, v, &d->out[i].pitched, d->out[i].pitch);
	return !rvl_kernel_check_pitches(d, NULL);
}

/* Whether less than RUN bytes along axis @d, -1 for none, are together. */
static bool is_short(const struct rvl_tensor *t, const struct rvl_tview *v, int d)
{
	int64_t run = d >= 0 && v->pitch[d] == 1 ? v->dim[d] : 1;

	return run * (int64_t)rvl_type_size(t->type) < RUN && rvl_tview_count(v) > 1;
}

/* Whether neighbours in memory are few, along whatever axis they are. */
static bool are_apart(const struct rvl_tensor *t, const struct rvl_tview *v)
{
	int axis = -1;

	for (int d = 0; d < v->rank; d++)
		if (v->dim[d] > 1 && v->pitch[d] == 1)
			axis = d;
	return is_short(t, v, axis);
}

/* The same of the axis along which elements of the tensor follow one another if it is dense. */
static bool are_apart_in_order(const struct rvl_tensor *t, const struct rvl_tview *v)
{
	int axis = t->layout == RIVULET_LAYOUT_NHWC ? 1 : v->rank - 1;

	while (t->layout != RIVULET_LAYOUT_NHWC && axis > 0 && v->dim[axis] == 1)
		axis--;
	return is_short(t, v, axis);
}

/* How often the step reads each element of its operand @t, by the elements of its results. */
static int64_t reads_of(const struct rvl_node *n, const struct rvl_tensor *t)
{
	int64_t most = 1, of = rvl_shape_count(&t->shape);

	for (uint32_t i = 0; i < n->n_out; i++) {
		int64_t times = n->out[i] ? rvl_shape_count(&n->out[i]->shape) / of : 0;

		most = times > most ? times : most;
	}
	return most;
}

/* Whether the steps that read @t take it as the view. */
static bool readers_take(struct pitches *p, const struct rvl_tensor *t, const struct rvl_tview *v)
{
	uint32_t reads = 0;

	for (uint32_t i = 0; i < t->n_users; i++) {
		if (t->users[i]->free)
			continue;
		reads++;
		if (reads_of(t->users[i], t) > 1 && are_apart_in_order(t, v))
			return false;
		if (!takes(p, t->users[i], t, v))
			return false;
	}
	return reads < 2 || !are_apart(t, v);
}

static bool can_be_view(const struct rvl_tensor *t)
{
	return !t->base && !t->is_output && !t->holds_output && !t->is_input && !t->data &&
	       !t->bounded && !t->bad && rvl_tensor_bytes(t) > 0;
}

/* ---- boxes as views ---- */

static void swap(int64_t *a, int64_t *b)
{
	int64_t old = *a;

	*a = *b;
	*b = old;
}

/* The axes of both by the pitches of @by, the greatest first. */
static void sort_axes(struct rvl_tview *by, struct rvl_tview *v)
{
	for (int d = 1; d < by->rank; d++)
		for (int k = d; k && by->pitch[k - 1] < by->pitch[k]; k--) {
			swap(&by->pitch[k], &by->pitch[k - 1]);
			swap(&by->dim[k], &by->dim[k - 1]);
			swap(&v->pitch[k], &v->pitch[k - 1]);
			swap(&v->dim[k], &v->dim[k - 1]);
		}
}

/*
 * One side of a box as a view in the dimensions of @t, which the other side fills in row-major
 * order. False if it does not, or the places are not regular.
 */
static bool view_of_box(const struct rvl_op_box *b, const struct rvl_tensor *t, int64_t at,
			const int64_t *pitch, const int64_t *order, struct rvl_tview *v)
{
	struct rvl_tview filled = { .rank = b->rank };

	if (rvl_box_count(b) != rvl_shape_count(&t->shape))
		return false;
	*v = (struct rvl_tview) { .origin = at, .rank = b->rank };
	memcpy(v->dim, b->dim, sizeof(v->dim));
	memcpy(v->pitch, pitch, sizeof(v->pitch));
	memcpy(filled.dim, b->dim, sizeof(filled.dim));
	memcpy(filled.pitch, order, sizeof(filled.pitch));
	sort_axes(&filled, v);
	return rvl_tview_is_dense(&filled) && rvl_tview_reshape(v, t->shape.dim, t->shape.rank);
}

/* ---- moving a tensor with what lies in it ---- */

/*
 * Where @t lies, which is a view of @x or @x itself, if @x lies at @place. The elements of @x follow
 * one another in the order of its memory.
 */
static bool moved(const struct rvl_tensor *t, const struct rvl_tensor *x, const struct rvl_tview *place,
		  struct rvl_tview *v)
{
	static const int32_t to_nhwc[4] = { 0, 2, 3, 1 };
	struct rvl_tview of = *place;

	if (t == x) {
		*v = *place;
		return true;
	}
	if (x->layout == RIVULET_LAYOUT_NHWC && !rvl_tview_permute(&of, to_nhwc))
		return false;
	rvl_tensor_view(t, v);
	return rvl_tview_compose(v, &of);
}

static bool uses_take(struct pitches *p, const struct rvl_tensor *t, const struct rvl_tview *v)
{
	if (!t->producer || (!t->producer->free && !takes(p, t->producer, t, v)))
		return false;
	return readers_take(p, t, v);
}

/* Whether the steps that make and read what lies in @x take it where it is if @x lies at @place. */
static bool content_fits(struct pitches *p, const struct rvl_tensor *x, const struct rvl_tview *place)
{
	struct rvl_tview v;

	for (uint32_t i = p->first[x->id]; i != NO_TENSOR; i = p->next[i])
		if (!moved(p->g->tensors[i], x, place, &v) || !uses_take(p, p->g->tensors[i], &v))
			return false;
	return true;
}

/* @x, with all that lies in it, lies at @place of @root. */
static void move(struct pitches *p, struct rvl_tensor *x, struct rvl_tensor *root,
		 const struct rvl_tview *place)
{
	uint32_t list = p->first[x->id];
	struct rvl_tview v;

	p->first[x->id] = NO_TENSOR;
	for (uint32_t i = list, next; i != NO_TENSOR; i = next) {
		next = p->next[i];
		moved(p->g->tensors[i], x, place, &v);
		lies_in(p, p->g->tensors[i], root, &v);
	}
	lies_in(p, x, root, place);
}

/* ---- forward: results in the operand ---- */

/* Where result @o lies in the store of the operand; NULL if it is no regular part of it. */
static const struct rvl_op_box *place_result(struct pitches *p, const struct rvl_node *n, uint32_t o,
					     struct rvl_tview *v)
{
	for (uint32_t i = 0; i < p->boxes->n; i++) {
		const struct rvl_op_box *b = &p->boxes->box[i];
		struct rvl_tview of;

		if (b->out != o || b->to_at ||
		    !view_of_box(b, n->out[o], b->from_at, b->from, b->to, v))
			continue;
		rvl_tensor_view(n->in[b->in], &of);
		if (rvl_tview_compose(v, &of))
			return b;
	}
	return NULL;
}

/* Bytes of the results of @n that are used as long as result @o. */
static uint64_t used_as_long(const struct pitches *p, const struct rvl_node *n, uint32_t o)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && p->lives.last_use[n->out[i]->id] >= p->lives.last_use[n->out[o]->id])
			bytes += (uint64_t)rvl_tensor_bytes(n->out[i]);
	return bytes;
}

static bool result_can_lie(struct pitches *p, const struct rvl_node *n, uint32_t o)
{
	const struct rvl_tensor *y = n->out[o];
	const struct rvl_op_box *b;
	struct rvl_tview v;

	if (!can_be_view(y))
		return false;
	b = place_result(p, n, o, &v);
	return b && !root_of(n->in[b->in])->data && readers_take(p, y, &v) && content_fits(p, y, &v) &&
	       rvl_life_fits(&p->lives, root_of(n->in[b->in]), used_as_long(p, n, o),
			     p->lives.last_use[y->id]);
}

static int add_copy(struct pitches *p, struct rvl_tensor *from, struct rvl_tensor *to, bool behind)
{
	struct rvl_node *copy;
	int rc = rvl_node_new(p->g, RVL_OP_IDENTITY, NULL, &copy, p->err);

	if (rc)
		return rc;
	copy->op_type = "Identity";
	copy->copies = true;
	copy->reason = "a value that cannot lie in the memory of another";
	rvl_node_set_out(copy, 0, to);
	rc = rvl_inserted_add(&p->insert, p->g, copy, p->pos, behind, p->err);
	return rc ? rc : rvl_node_set_in(p->g, copy, 0, from, p->err);
}

/* Lists of the tensors that are new, in which nothing lies. */
static int grow_lists(struct pitches *p)
{
	uint32_t n = p->g->n_tensors;
	uint32_t *first = realloc(p->first, (n + 1u) * sizeof(*first));
	uint32_t *next = realloc(p->next, (n + 1u) * sizeof(*next));

	p->first = first ? first : p->first;
	p->next = next ? next : p->next;
	if (!first || !next)
		return rvl_fail(p->err, -ENOMEM, "no memory for views");
	for (; p->n_lists < n; p->n_lists++)
		first[p->n_lists] = next[p->n_lists] = NO_TENSOR;
	return 0;
}

/* A tensor that is @t elsewhere, in the same layout. */
static int new_like(struct pitches *p, const struct rvl_tensor *t, struct rvl_tensor **out)
{
	int rc = rvl_tensor_like(p->g, t, out, p->err);

	if (rc)
		return rc;
	(*out)->layout = t->layout;
	return grow_lists(p);
}

/* @bytes: used_as_long() of a result that can lie there; 0: it is copied from there. */
static int place_one(struct pitches *p, struct rvl_node *n, uint32_t o, uint64_t bytes)
{
	struct rvl_tensor *y = n->out[o], *made = y;
	const struct rvl_op_box *b;
	struct rvl_tview v;
	int rc = bytes ? 0 : new_like(p, y, &made);

	if (rc)
		return rc;
	b = place_result(p, n, o, &v);
	if (bytes)
		rvl_life_extend(&p->lives, root_of(n->in[b->in]), bytes, p->lives.last_use[y->id]);
	move(p, made, root_of(n->in[b->in]), &v);
	if (bytes)
		return 0;
	rvl_node_set_out(n, o, made);
	return add_copy(p, made, y, true);
}

/* Whether a copy of result @o could be made from its place in the operand. */
static bool result_can_be_copied(struct pitches *p, const struct rvl_node *n, uint32_t o)
{
	struct rvl_tview v;
	const struct rvl_op_box *b = place_result(p, n, o, &v);

	return b && !root_of(n->in[b->in])->data;
}

static int forward(struct pitches *p, struct rvl_node *n)
{
	uint64_t bytes[RVL_MAX_OUT] = { 0 };	/* before any result is replaced by one without a life */
	bool can = false;
	int rc = 0;

	for (uint32_t o = 0; o < n->n_out; o++) {
		if (n->out[o] && !result_can_be_copied(p, n, o))
			return 0;
		if (n->out[o] && result_can_lie(p, n, o))
			bytes[o] = used_as_long(p, n, o);
		can |= bytes[o] > 0;
	}
	if (!can)
		return 0;
	for (uint32_t o = 0; o < n->n_out && !rc; o++)
		if (n->out[o])
			rc = place_one(p, n, o, bytes[o]);
	n->free = true;
	return rc;
}

/* ---- backward: operands in the result ---- */

/* Where the operand of a box lies in the store of the result. */
static bool place_operand(const struct rvl_node *n, const struct rvl_op_box *b, struct rvl_tview *v)
{
	struct rvl_tview of;

	if (b->from_at || !view_of_box(b, n->in[b->in], b->to_at, b->to, b->from, v))
		return false;
	rvl_tensor_view(n->out[0], &of);
	return rvl_tview_compose(v, &of);
}

/* Whether the steps that make and read @x, and all that lies in it, take it at @place of the result. */
static bool can_move(struct pitches *p, const struct rvl_node *n, const struct rvl_tensor *x,
		     const struct rvl_tview *place)
{
	if (!can_be_view(x) || !x->producer || x->producer->free || !uses_take(p, x, place) ||
	    x->id >= p->n_tensors || root_of(n->out[0])->id >= p->n_tensors ||
	    !rvl_life_fits_joined(&p->lives, x, root_of(n->out[0])))
		return false;
	return content_fits(p, x, place);
}

/* Whether two views have the same elements at the same places; axes of one element do not count. */
static bool same_places(const struct rvl_tview *a, const struct rvl_tview *b)
{
	if (a->origin != b->origin || a->rank != b->rank)
		return false;
	for (int d = 0; d < a->rank; d++)
		if (a->dim[d] != b->dim[d] || (a->dim[d] > 1 && a->pitch[d] != b->pitch[d]))
			return false;
	return true;
}

static bool lies_at(const struct rvl_tensor *t, const struct rvl_tensor *root, const struct rvl_tview *v)
{
	struct rvl_tview own;

	rvl_tensor_view(t, &own);
	return t->base == root && same_places(&own, v);
}

/*
 * Where @whole would lie for its part @t to lie at @v. False if @t is no box of @whole that keeps its
 * axes, or has one index of an axis that is longer in @whole.
 */
static bool place_whole(const struct rvl_tensor *t, const struct rvl_tensor *whole,
			const struct rvl_tview *v, struct rvl_tview *place)
{
	struct rvl_tview part, dense;
	int64_t at;

	rvl_tensor_view(t, &part);
	rvl_tensor_dense_view(whole, &dense);
	if (t->shape.rank != whole->shape.rank || t->type != whole->type)
		return false;
	*place = *v;
	for (int d = 0; d < t->shape.rank; d++) {
		if (part.dim[d] > 1 ? part.pitch[d] != dense.pitch[d] : dense.dim[d] > 1)
			return false;
		place->dim[d] = dense.dim[d];
	}
	sort_axes(&dense, place);
	at = part.origin;
	for (int d = 0; d < dense.rank; d++) {
		place->origin -= at / dense.pitch[d] * place->pitch[d];
		at %= dense.pitch[d];
	}
	rvl_tensor_dense_view(whole, &dense);
	for (int d = 0; d < dense.rank; d++) {
		place->dim[d] = dense.dim[d];
		place->pitch[d] = v->pitch[d];
	}
	return true;
}

/*
 * Whether operands of the join that are parts of @whole fill @place, each where the result has it, and
 * no other operand lies there.
 */
static bool parts_fill(const struct pitches *p, const struct rvl_node *n,
		       const struct rvl_tensor *whole, const struct rvl_tview *place)
{
	int64_t filled = 0;

	for (uint32_t i = 0; i < p->boxes->n; i++) {
		const struct rvl_tensor *t = n->in[p->boxes->box[i].in];
		struct rvl_tview v, w;

		if (!place_operand(n, &p->boxes->box[i], &v))
			return false;
		if (t->base == whole && moved(t, whole, place, &w) && same_places(&v, &w))
			filled += rvl_tview_count(&v);
		else if (rvl_tview_overlap(place, &v))
			return false;
	}
	return filled == rvl_shape_count(&whole->shape);
}

/*
 * The tensor that has to move into the result for the operand of @b to lie at @v, and its place: the
 * operand, or the one of which it is a part, as the halves of a Split are. NULL if neither can.
 */
static struct rvl_tensor *mover(struct pitches *p, const struct rvl_node *n,
				const struct rvl_op_box *b, const struct rvl_tview *v,
				struct rvl_tview *place)
{
	struct rvl_tensor *x = n->in[b->in], *whole = root_of(x);

	*place = *v;
	if (whole != x && (whole == root_of(n->out[0]) || !place_whole(x, whole, v, place) ||
			   !parts_fill(p, n, whole, place)))
		return NULL;
	return can_move(p, n, whole, place) ? whole : NULL;
}

static int copy_operand(struct pitches *p, struct rvl_node *n, uint32_t i, struct rvl_tensor *root,
			const struct rvl_tview *v)
{
	struct rvl_tensor *made;
	int rc = new_like(p, n->in[i], &made);

	if (!rc)
		rc = add_copy(p, n->in[i], made, false);
	if (rc)
		return rc;
	lies_in(p, made, root, v);
	return rvl_node_set_in(p->g, n, i, made, p->err);
}

/*
 * Whether every operand, whole, has a regular place in the result, apart from all others, and how many
 * can be made there.
 */
static bool operands_fit(struct pitches *p, const struct rvl_node *n, uint32_t *can)
{
	struct rvl_tview v, other, place;

	*can = 0;
	for (uint32_t i = 0; i < p->boxes->n; i++) {
		const struct rvl_op_box *b = &p->boxes->box[i];

		if (n->in[b->in]->type != n->out[0]->type || !place_operand(n, b, &v))
			return false;
		for (uint32_t j = 0; j < i; j++)
			if (place_operand(n, &p->boxes->box[j], &other) && rvl_tview_overlap(&v, &other))
				return false;
		*can += mover(p, n, b, &v, &place) != NULL;
	}
	return true;
}

static int backward(struct pitches *p, struct rvl_node *n)
{
	struct rvl_tensor *root = root_of(n->out[0]);
	uint32_t can;
	int rc = 0;

	n->free = true;	/* so that it is no reader of its operands */
	if (!operands_fit(p, n, &can) || !can) {
		n->free = false;
		return 0;
	}
	for (uint32_t i = 0; i < p->boxes->n && !rc; i++) {
		const struct rvl_op_box *b = &p->boxes->box[i];
		struct rvl_tensor *moves;
		struct rvl_tview v, place;

		place_operand(n, b, &v);
		if (lies_at(n->in[b->in], root, &v))
			continue; /* with the operand of an earlier box */
		moves = mover(p, n, b, &v, &place);
		if (!moves) {
			rc = copy_operand(p, n, b->in, root, &v);
			continue;
		}
		rvl_life_extend_joined(&p->lives, moves, root);
		move(p, moves, root, &place);
	}
	return rc;
}

/* ---- all ---- */

/* The memory of an output can be that of all of a value, so that the value is made there. */
static bool is_output_by_name(const struct pitches *p, const struct rvl_node *n)
{
	return rvl_op_renames(n->op) && n->out[0]->is_output && !n->in[0]->pitched &&
	       p->first[n->out[0]->id] == NO_TENSOR &&
	       n->in[0]->layout == n->out[0]->layout;
}

static int pitch_node(struct pitches *p, struct rvl_node *n)
{
	int rc;

	if (n->free || n->copies || n->place != RVL_PLACE_CPU)
		return 0;
	rc = rvl_node_boxes(n, p->boxes, p->err);
	if (rc <= 0)
		return rc;
	if (n->n_out == 1 && p->boxes->n > 1)
		return backward(p, n);
	if (is_output_by_name(p, n) && rvl_view_whole(p->g, n->out[0], n->in[0])) {
		n->free = true;
		return 0;
	}
	return forward(p, n);
}

static void list_views(struct pitches *p)
{
	for (uint32_t i = 0; i < p->n_tensors; i++) {
		const struct rvl_tensor *t = p->g->tensors[i];

		if (!t->base)
			continue;
		p->next[i] = p->first[t->base->id];
		p->first[t->base->id] = i;
	}
}

static int make_pitches(struct pitches *p)
{
	int rc;

	if (!p->boxes || !p->desc)
		return rvl_fail(p->err, -ENOMEM, "no memory for views");
	rc = grow_lists(p);
	if (rc)
		return rc;
	list_views(p);
	rc = rvl_lives_new(&p->lives, p->g, p->err);
	for (p->pos = 0; p->pos < p->n_nodes && !rc; p->pos++)
		rc = pitch_node(p, p->g->nodes[p->pos]);
	return rc ? rc : rvl_inserted_place(&p->insert, p->g, p->n_nodes, p->err);
}

int rvl_pass_pitches(struct rvl_graph *g, struct rvl_err *err)
{
	struct pitches p = {
		.g = g, .boxes = malloc(sizeof(*p.boxes)), .desc = malloc(sizeof(*p.desc)),
		.n_tensors = g->n_tensors, .n_nodes = g->n_nodes, .err = err,
	};
	int rc = make_pitches(&p);

	free(p.boxes);
	free(p.desc);
	free(p.first);
	free(p.next);
	free(p.insert.list);
	rvl_lives_free(&p.lives);
	return rc;
}

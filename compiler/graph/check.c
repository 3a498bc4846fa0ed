/* SPDX-License-Identifier: MIT */
/* Order, invariants and copies of a graph. */
#include "graph/graph.h"
#include "graph/tensor_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct rvl_err *err)
{
	return rvl_fail(err, -ENOMEM, "no memory to walk the graph");
}

/* pending[id] is the number of inputs of the node that are produced and not yet placed. */
static uint32_t count_pending(const struct rvl_node *n)
{
	uint32_t c = 0;

	for (uint32_t i = 0; i < n->n_in; i++)
		c += n->in[i] && n->in[i]->producer;
	return c;
}

struct sorter {
	uint32_t *pending;
	struct rvl_node **sorted;
	uint32_t n_sorted;
	uint32_t *heap;			/* old positions of placeable nodes, smallest first */
	uint32_t n_heap;
	uint32_t *pos;			/* id -> old position */
};

static void heap_push(struct sorter *s, uint32_t v)
{
	uint32_t i = s->n_heap++;

	for (; i && s->heap[(i - 1) / 2] > v; i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = v;
}

static uint32_t heap_pop(struct sorter *s)
{
	uint32_t top = s->heap[0];
	uint32_t v = s->heap[--s->n_heap];
	uint32_t i = 0;

	for (;;) {
		uint32_t c = 2 * i + 1;

		if (c >= s->n_heap)
			break;
		if (c + 1 < s->n_heap && s->heap[c + 1] < s->heap[c])
			c++;
		if (s->heap[c] >= v)
			break;
		s->heap[i] = s->heap[c];
		i = c;
	}
	s->heap[i] = v;
	return top;
}

static void release_users(struct sorter *s, const struct rvl_node *n)
{
	for (uint32_t o = 0; o < n->n_out; o++) {
		const struct rvl_tensor *t = n->out[o];

		for (uint32_t u = 0; t && u < t->n_users; u++)
			if (--s->pending[t->users[u]->id] == 0)
				heap_push(s, s->pos[t->users[u]->id]);
	}
}

static int sort_nodes(struct rvl_graph *g, struct sorter *s, struct rvl_err *err)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct rvl_node *n = g->nodes[i];

		s->pos[n->id] = i;
		s->pending[n->id] = count_pending(n);
		if (!s->pending[n->id])
			heap_push(s, i);
	}
	while (s->n_heap) {
		struct rvl_node *n = g->nodes[heap_pop(s)];

		s->sorted[s->n_sorted++] = n;
		release_users(s, n);
	}
	for (uint32_t i = 0; s->n_sorted < g->n_nodes && i < g->n_nodes; i++)
		if (s->pending[g->nodes[i]->id])
			return rvl_fail(err, -ELOOP, "node '%s' (%s) needs its own result",
					g->nodes[i]->name, g->nodes[i]->op_type);
	if (g->n_nodes)
		memcpy(g->nodes, s->sorted, g->n_nodes * sizeof(*g->nodes));
	return 0;
}

int rvl_graph_nodes(struct rvl_graph *g, struct rvl_node ***list, uint32_t *n, struct rvl_err *err)
{
	*n = g->n_nodes;
	*list = rvl_arena_array(g->arena, *n + 1, sizeof(**list));
	if (!*list)
		return rvl_fail(err, -ENOMEM, "no memory for a list of %u nodes", *n);
	if (*n)
		memcpy(*list, g->nodes, *n * sizeof(**list));
	return 0;
}

int rvl_graph_sort(struct rvl_graph *g, struct rvl_err *err)
{
	struct sorter s = {
		.pending = calloc(g->next_node_id + 1, sizeof(uint32_t)),
		.pos = calloc(g->next_node_id + 1, sizeof(uint32_t)),
		.heap = calloc(g->n_nodes + 1, sizeof(uint32_t)),
		.sorted = calloc(g->n_nodes + 1, sizeof(struct rvl_node *)),
	};
	int rc = s.pending && s.pos && s.heap && s.sorted ? sort_nodes(g, &s, err) : no_memory(err);

	free(s.pending);
	free(s.pos);
	free(s.heap);
	free(s.sorted);
	return rc;
}

static uint32_t uses_of(const struct rvl_node *n, const struct rvl_tensor *t)
{
	uint32_t c = 0;

	for (uint32_t i = 0; i < n->n_in; i++)
		c += n->in[i] == t;
	return c;
}

static uint32_t listed_as_user(const struct rvl_tensor *t, const struct rvl_node *n)
{
	uint32_t c = 0;

	for (uint32_t i = 0; i < t->n_users; i++)
		c += t->users[i] == n;
	return c;
}

/* By the numbers of tensors and nodes. */
struct verifier {
	unsigned char *made; /* 1 for tensors that exist before this node runs */
	uint32_t *reads;     /* operands of nodes that are the tensor */
	uint32_t *listed;    /* how often the node is among the users of one tensor; else 0 */
	struct rvl_kernel_desc *d;
};

static int verify_node(const struct rvl_node *n, struct verifier *v, struct rvl_err *err)
{
	unsigned char *made = v->made;

	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct rvl_tensor *t = n->in[i];

		if (!t)
			continue;
		if (!made[t->id])
			return rvl_fail(err, -EINVAL, "node '%s' (%s) reads '%s' before it is produced",
					n->name, n->op_type, t->name);
		v->reads[t->id]++;
	}
	for (uint32_t i = 0; i < n->n_out; i++) {
		const struct rvl_tensor *t = n->out[i];

		if (!t)
			continue;
		if (t->producer != n || made[t->id])
			return rvl_fail(err, -EINVAL, "tensor '%s' has two sources, one is '%s'",
					t->name, n->name);
		made[t->id] = 1;
	}
	if (!n->n_out || !n->out[0])
		return rvl_fail(err, -EINVAL, "node '%s' (%s) has no output", n->name, n->op_type);
	return 0;
}

/* A layer that sees its operands as bytes in order reads and makes none in NHWC; a Transpose can be a view. */
static int verify_layer(const struct rvl_node *n, struct rvl_err *err)
{
	bool nhwc = false;

	for (uint32_t i = 0; i < n->n_in; i++)
		nhwc |= n->in[i] && n->in[i]->layout;
	for (uint32_t i = 0; i < n->n_out; i++)
		nhwc |= n->out[i] && n->out[i]->layout;
	if (nhwc && !rvl_layer_of_images(n) && !(n->free && n->op == RVL_OP_TRANSPOSE))
		return rvl_fail(err, -EINVAL, "node '%s' (%s), which the NPU executes, takes no NHWC",
				n->name, n->op_type);
	return 0;
}

/* Only images that steps make and read are in NHWC, and on the CPU only where the kernels take it. */
static int verify_layouts(const struct rvl_node *n, struct rvl_kernel_desc *d, struct rvl_err *err)
{
	char why[RVL_WHY_MAX];

	rvl_node_desc(n, d);
	if (n->place == RVL_PLACE_NPU)
		return verify_layer(n, err);
	if (rvl_kernel_check_layouts(d, why))
		return rvl_fail(err, -EINVAL, "node '%s' (%s): %s", n->name, n->op_type, why);
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && n->out[i]->layout && (n->out[i]->is_output || n->out[i]->data))
			return rvl_fail(err, -EINVAL, "'%s' is an output or constant in NHWC",
					n->out[i]->name);
	return 0;
}

/* Pitches part the elements of tensors that lie in another's store, and only steps of the CPU see them. */
static int verify_pitches(const struct rvl_node *n, struct rvl_kernel_desc *d, struct rvl_err *err)
{
	char why[RVL_WHY_MAX] = "a layer of the NPU addresses no pitches";
	bool pitched = false;

	if (n->free)
		return 0;
	rvl_node_desc(n, d);
	for (uint32_t i = 0; i < n->n_in; i++)
		pitched |= d->in[i].pitched;
	for (uint32_t i = 0; i < n->n_out; i++)
		pitched |= d->out[i].pitched;
	if (pitched && (n->place == RVL_PLACE_NPU || rvl_kernel_check_pitches(d, why)))
		return rvl_fail(err, -EINVAL, "node '%s' (%s): %s", n->name, n->op_type, why);
	return 0;
}

static int verify_store(const struct rvl_tensor *t, struct rvl_err *err)
{
	if (t->pitched && (!t->base || t->is_input || t->is_output || t->data || t->bounded))
		return rvl_fail(err, -EINVAL, "'%s' has pitches, but is no view", t->name);
	if (t->pitched && t->producer && !t->producer->free) {
		struct rvl_tview v;

		rvl_tensor_view(t, &v);
		if (rvl_tview_repeats(&v))
			return rvl_fail(err, -EINVAL, "elements of '%s' are written twice", t->name);
	}
	if (t->base && (t->base->base ||
			(int64_t)t->base_at + rvl_tensor_span(t) > rvl_tensor_bytes(t->base)))
		return rvl_fail(err, -EINVAL, "'%s' is not inside '%s'", t->name, t->base->name);
	return 0;
}

/* Whether each operand that is the tensor is listed once. */
static bool lists_its_users(const struct rvl_tensor *t, const struct verifier *v)
{
	bool ok = v->reads[t->id] == t->n_users;

	for (uint32_t i = 0; i < t->n_users; i++)
		v->listed[t->users[i]->id]++;
	for (uint32_t i = 0; i < t->n_users; i++) {
		uint32_t *listed = &v->listed[t->users[i]->id];

		ok &= !*listed || *listed == uses_of(t->users[i], t);
		*listed = 0;
	}
	return ok;
}

static int verify_users(const struct rvl_graph *g, const struct rvl_tensor *t, const struct verifier *v,
			struct rvl_err *err)
{
	if (lists_its_users(t, v))
		return 0;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (uses_of(g->nodes[i], t) && listed_as_user(t, g->nodes[i]) != uses_of(g->nodes[i], t))
			return rvl_fail(err, -EINVAL, "tensor '%s' does not list its user '%s'",
					t->name, g->nodes[i]->name);
	for (uint32_t i = 0; i < t->n_users; i++)
		if (!uses_of(t->users[i], t))
			return rvl_fail(err, -EINVAL,
					"node '%s' is among the users of '%s' but does not read it",
					t->users[i]->name, t->name);
	return 0;
}

static int verify_all(const struct rvl_graph *g, struct verifier *v, struct rvl_err *err)
{
	unsigned char *made = v->made;
	int rc = 0;

	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct rvl_tensor *t = g->tensors[i];

		made[i] = t->is_input || t->data;
		if (t->is_input && t->data)
			return rvl_fail(err, -EINVAL, "input '%s' is a constant too", t->name);
	}
	for (uint32_t i = 0; i < g->n_nodes && !rc; i++) {
		rc = verify_node(g->nodes[i], v, err);
		if (!rc)
			rc = verify_layouts(g->nodes[i], v->d, err);
		if (!rc)
			rc = verify_pitches(g->nodes[i], v->d, err);
	}
	for (uint32_t i = 0; i < g->n_tensors && !rc; i++)
		rc = verify_users(g, g->tensors[i], v, err);
	for (uint32_t i = 0; i < g->n_tensors && !rc; i++)
		rc = verify_store(g->tensors[i], err);
	for (uint32_t i = 0; i < g->n_outputs && !rc; i++)
		if (!made[g->outputs[i]->id])
			rc = rvl_fail(err, -EINVAL, "no node produces the output '%s'",
				      g->outputs[i]->name);
	return rc;
}

int rvl_graph_verify(const struct rvl_graph *g, struct rvl_err *err)
{
	struct verifier v = { .made = calloc(g->n_tensors + 1u, 1),
			      .reads = calloc(g->n_tensors + 1u, sizeof(*v.reads)),
			      .listed = calloc(g->next_node_id + 1u, sizeof(*v.listed)),
			      .d = malloc(sizeof(*v.d)) };
	int rc = v.made && v.reads && v.listed && v.d ? verify_all(g, &v, err) : no_memory(err);

	free(v.made);
	free(v.reads);
	free(v.listed);
	free(v.d);
	return rc;
}

static int clone_tensors(const struct rvl_graph *g, struct rvl_graph *c, struct rvl_err *err)
{
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct rvl_tensor *t = g->tensors[i];
		struct rvl_tensor *copy;
		int rc = rvl_tensor_new(c, t->name, &copy, err);

		if (rc)
			return rc;
		copy->type = t->type;
		copy->shaped = t->shaped;
		copy->shape = t->shape;
		copy->declared = t->declared;
		copy->quant = t->quant;
		copy->data = t->data;
		copy->bad = t->bad;
		copy->nibbles = t->nibbles;
		copy->layout = t->layout;
	}
	return 0;
}

static int clone_node(const struct rvl_node *n, struct rvl_graph *c, struct rvl_err *err)
{
	struct rvl_node *copy;
	int rc = rvl_node_like(c, n, n->name, &copy, err);

	if (rc)
		return rc;
	copy->place = n->place;
	copy->segment = n->segment;
	copy->reason = n->reason;
	for (uint32_t i = 0; i < n->n_in && !rc; i++)
		if (n->in[i])
			rc = rvl_node_set_in(c, copy, i, c->tensors[n->in[i]->id], err);
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i])
			rvl_node_set_out(copy, i, c->tensors[n->out[i]->id]);
	return rc;
}

static int clone_rest(const struct rvl_graph *g, struct rvl_graph *c, struct rvl_err *err)
{
	int rc = 0;

	c->name = g->name;
	c->producer = g->producer;
	c->ir_version = g->ir_version;
	c->opset = g->opset;
	c->next_name = g->next_name;
	c->reconstruct = g->reconstruct;
	c->word = g->word;
	c->no_binary = g->no_binary;
	c->calibrated = g->calibrated;
	c->keeps_int8 = g->keeps_int8;
	c->target = g->target;
	c->npu_bits = g->npu_bits;
	c->from_files = g->from_files;
	memcpy(c->files_hash, g->files_hash, sizeof(c->files_hash));
	for (uint32_t i = 0; i < g->n_nodes && !rc; i++)
		rc = clone_node(g->nodes[i], c, err);
	for (uint32_t i = 0; i < g->n_inputs && !rc; i++)
		rc = rvl_graph_add_input(c, c->tensors[g->inputs[i]->id], err);
	for (uint32_t i = 0; i < g->n_outputs && !rc; i++)
		rc = rvl_graph_add_output(c, c->tensors[g->outputs[i]->id], err);
	if (!rc && g->n_segs) {
		c->segs = rvl_arena_array(c->arena, g->n_segs, sizeof(*c->segs));
		if (!c->segs)
			return no_memory(err);
		memcpy(c->segs, g->segs, g->n_segs * sizeof(*c->segs));
		c->n_segs = g->n_segs;
	}
	return rc;
}

int rvl_graph_clone(const struct rvl_graph *g, struct rvl_graph **out, struct rvl_err *err)
{
	struct rvl_graph *c;
	int rc = rvl_graph_beside(g, &c, err);

	if (rc)
		return rc;
	rc = clone_tensors(g, c, err);
	if (!rc)
		rc = clone_rest(g, c, err);
	if (rc) {
		rc = rvl_arena_report(c->arena, rc, err);
		rvl_graph_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* Runs a graph node by node with the CPU kernels. Tests compare every pass and back end with it. */
#include "graph/interp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct rvl_interp {
	const struct rvl_graph *g;
	struct rvl_kernel **kernel;	/* by position in g->nodes */
	void **buf;			/* by tensor id; NULL for constants */
	void **own;			/* by tensor id; the memory of those that are no views */
	struct rvl_shape *shape;	/* by tensor id; the shape that the run found */
	void *scratch;
	uint32_t n_tensors;
	uint32_t n_nodes;
};

static int no_memory(struct rvl_err *err)
{
	return rvl_fail(err, -ENOMEM, "no memory to run the graph");
}

static void *aligned(size_t bytes)
{
	size_t size = (bytes + 63) / 64 * 64 + 64;
	void *p = aligned_alloc(64, size);

	return p ? memset(p, 0, size) : NULL;
}

static int make_kernel(struct rvl_interp *it, uint32_t i, bool reference, size_t *scratch,
		       struct rvl_err *err)
{
	const struct rvl_node *n = it->g->nodes[i];
	struct rvl_kernel_desc d;
	char why[RVL_WHY_MAX] = "out of memory";
	int rc;

	rvl_node_desc(n, &d);
	rc = rvl_kernel_new(&d, reference, &it->kernel[i], why);
	if (rc)
		return rvl_fail(err, rc, "node '%s' (%s): %s", n->name, n->op_type, why);
	if (rvl_kernel_scratch(it->kernel[i]) > *scratch)
		*scratch = rvl_kernel_scratch(it->kernel[i]);
	return 0;
}

static int make_buffers(struct rvl_interp *it, struct rvl_err *err)
{
	for (uint32_t i = 0; i < it->n_tensors; i++) {
		const struct rvl_tensor *t = it->g->tensors[i];
		int64_t bytes = rvl_tensor_bytes(t);

		if (t->data || t->base || (!t->producer && !t->is_input))
			continue;
		if (bytes < 0)
			return rvl_fail(err, -EINVAL, "tensor '%s' has no static shape", t->name);
		it->buf[i] = it->own[i] = aligned((size_t)bytes);
		if (!it->buf[i])
			return no_memory(err);
	}
	return 0;
}

/* The first element of a tensor that lies in the store of another. */
static void *place_in(void *store, const struct rvl_tensor *t)
{
	char *at = (char *)store + t->base_at;

	for (int d = 0; t->pitched && d < t->shape.rank; d++)
		if (t->pitch[d] < 0)
			at -= (t->shape.dim[d] - 1) * t->pitch[d];
	return at;
}

static void place_views(struct rvl_interp *it)
{
	for (uint32_t i = 0; i < it->n_tensors; i++) {
		const struct rvl_tensor *t = it->g->tensors[i];

		if (t->base && it->buf[t->base->id])
			it->buf[i] = place_in(it->buf[t->base->id], t);
	}
}

static int prepare(struct rvl_interp *it, bool reference, struct rvl_err *err)
{
	size_t scratch = 0;
	int rc = rvl_graph_check_supported(it->g, err);

	it->kernel = calloc(it->n_nodes + 1u, sizeof(*it->kernel));
	it->buf = calloc(it->n_tensors + 1u, sizeof(*it->buf));
	it->own = calloc(it->n_tensors + 1u, sizeof(*it->own));
	it->shape = calloc(it->n_tensors + 1u, sizeof(*it->shape));
	if (!it->kernel || !it->buf || !it->own || !it->shape)
		return no_memory(err);
	for (uint32_t i = 0; i < it->n_tensors; i++)
		it->shape[i] = it->g->tensors[i]->shape;
	if (!rc)
		rc = make_buffers(it, err);
	if (!rc)
		place_views(it);
	for (uint32_t i = 0; i < it->n_nodes && !rc; i++)
		rc = make_kernel(it, i, reference, &scratch, err);
	if (rc)
		return rc;
	it->scratch = aligned(scratch);
	return it->scratch ? 0 : no_memory(err);
}

int rvl_interp_new(const struct rvl_graph *g, bool reference, struct rvl_interp **out,
		   struct rvl_err *err)
{
	struct rvl_interp *it = calloc(1, sizeof(*it));
	int rc;

	if (!it)
		return no_memory(err);
	it->g = g;
	it->n_tensors = g->n_tensors;
	it->n_nodes = g->n_nodes;
	rc = prepare(it, reference, err);
	if (rc) {
		rvl_interp_free(it);
		return rc;
	}
	*out = it;
	return 0;
}

void rvl_interp_free(struct rvl_interp *it)
{
	if (!it)
		return;
	for (uint32_t i = 0; it->kernel && i < it->n_nodes; i++)
		rvl_kernel_free(it->kernel[i]);
	for (uint32_t i = 0; it->own && i < it->n_tensors; i++)
		free(it->own[i]);
	free(it->kernel);
	free(it->buf);
	free(it->own);
	free(it->shape);
	free(it->scratch);
	free(it);
}

int rvl_interp_set(struct rvl_interp *it, uint32_t i, const void *data, size_t bytes,
		   struct rvl_err *err)
{
	const struct rvl_tensor *t;

	if (i >= it->g->n_inputs)
		return rvl_fail(err, -EINVAL, "the model has no input %u", i);
	t = it->g->inputs[i];
	if (rvl_tensor_bytes(t) != (int64_t)bytes)
		return rvl_fail(err, -EINVAL, "input '%s' takes %lld bytes, not %zu", t->name,
				(long long)rvl_tensor_bytes(t), bytes);
	if (bytes)
		memcpy(it->buf[t->id], data, bytes);
	return 0;
}

const void *rvl_interp_data(const struct rvl_interp *it, const struct rvl_tensor *t)
{
	if (t->id >= it->n_tensors)
		return NULL;
	return t->data ? t->data : it->buf[t->id];
}

const struct rvl_shape *rvl_interp_shape(const struct rvl_interp *it, const struct rvl_tensor *t)
{
	return t->id < it->n_tensors ? &it->shape[t->id] : NULL;
}

static struct rvl_value value_of(const struct rvl_interp *it, const struct rvl_tensor *t)
{
	if (!t)
		return (struct rvl_value) { .type = RVL_TYPE_NONE };
	return (struct rvl_value) {
		.type = t->type, .shape = it->shape[t->id],
		.data = (void *)(uintptr_t)rvl_interp_data(it, t),
	};
}

static int run_node(struct rvl_interp *it, uint32_t i, struct rvl_err *err)
{
	const struct rvl_node *n = it->g->nodes[i];
	struct rvl_value in[RVL_MAX_IN], out[RVL_MAX_OUT];
	char why[RVL_WHY_MAX] = "";
	int rc;

	for (uint32_t k = 0; k < n->n_in; k++)
		in[k] = value_of(it, n->in[k]);
	for (uint32_t k = 0; k < n->n_out; k++)
		out[k] = value_of(it, n->out[k]);
	rc = rvl_kernel_run_values(it->kernel[i], in, out, it->scratch, NULL, why);
	if (rc)
		return rvl_fail(err, rc, "node '%s' (%s): %s", n->name, n->op_type, why);
	for (uint32_t k = 0; k < n->n_out; k++)
		if (n->out[k])
			it->shape[n->out[k]->id] = out[k].shape;
	return 0;
}

int rvl_interp_run(struct rvl_interp *it, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < it->n_nodes && !rc; i++)
		if (!it->g->nodes[i]->free)
			rc = run_node(it, i, err);
	return rc;
}

#define MAX_FOLD_GROWTH 4
#define MAX_FOLD_SMALL (1 << 20)
#define MAX_FOLDED (32u << 20)
#define MAX_FOLD_WORK ((int64_t)1 << 26)	/* multiply-accumulates of all that folding computes */
#define MAX_FOLD_SCRATCH (32u << 20)
/* Bytes of operands and results of all that folding computes, also of those that were released. */
#define MAX_FOLD_MOVED (256u << 20)
#define MAX_FOLD_MOVED_GROWTH 128	/* and for each byte of the constants of the model */

static bool known(const struct rvl_node *n, const struct rvl_tensor *t)
{
	bool shape_only = n->op == RVL_OP_GENERAL && n->def->flags & RVL_OP_NEEDS_NO_DATA;

	return !t->bad && (t->data || (shape_only && t->shaped && !t->bounded));
}

/* Whether the time is not in proportion to operands and results: the operator's row states it. */
static bool is_costly(const struct rvl_node *n)
{
	return n->def && n->def->work;
}

/* Bytes of the operands that are constants, and of the results; *out: those of the results, or negative. */
static int64_t bytes_of(const struct rvl_node *n, int64_t *out)
{
	int64_t in = 0;

	*out = 0;
	for (uint32_t i = 0; i < n->n_in; i++)
		in += n->in[i] && n->in[i]->data ? rvl_tensor_bytes(n->in[i]) : 0;
	for (uint32_t i = 0; i < n->n_out; i++)
		*out += n->out[i] ? rvl_tensor_bytes(n->out[i]) : 0;
	return in;
}

/*
 * Adds an operator whose time is in proportion to operands and results to those of the graph; false where
 * they would be too many.
 */
static bool may_move(struct rvl_graph *g, const struct rvl_node *n)
{
	int64_t out, in = bytes_of(n, &out);
	uint64_t sum = g->moved + (uint64_t)in + (uint64_t)out;

	if (sum > MAX_FOLD_MOVED + MAX_FOLD_MOVED_GROWTH * g->given)
		return false;
	g->moved = sum;
	return true;
}

/* Adds the work of an operator to that of the graph; false where that would be too much. */
static bool may_work(struct rvl_graph *g, const struct rvl_node *n)
{
	int64_t work, left = MAX_FOLD_WORK - (int64_t)g->worked;
	struct rvl_call c;

	if (!is_costly(n))
		return may_move(g, n);
	rvl_node_call(n, &c);
	work = rvl_op_infer(&c) ? INT64_MAX : n->def->work(&c);
	if (work > left)
		return false;
	g->worked += (uint64_t)work;
	return true;
}

/*
 * Folding is limited in proportion to the operands, and all of it in proportion to the constants of
 * the model, so that the size of a model bounds the cost of reading it.
 */
static bool foldable(const struct rvl_graph *g, const struct rvl_node *n)
{
	int64_t in, out;

	if (!(rvl_op_traits(n->op) & RVL_TRAIT_LINEAR) && !is_costly(n))
		return false;
	if (n->op == RVL_OP_GENERAL && n->def->flags & RVL_OP_RANDOM)
		return false;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i] && !known(n, n->in[i]))
			return false;
	in = bytes_of(n, &out);
	if (out < 0 || g->folded + (uint64_t)out > MAX_FOLDED + MAX_FOLD_GROWTH * g->given)
		return false;
	return out <= MAX_FOLD_GROWTH * in || out <= MAX_FOLD_SMALL;
}

/* Computes the kernel's results directly into the arena, where constants are stored. */
static int evaluate(struct rvl_graph *g, struct rvl_node *n, struct rvl_kernel *k, void *scratch,
		    struct rvl_err *err)
{
	struct rvl_value in[RVL_MAX_IN] = { { .type = RVL_TYPE_NONE } };
	struct rvl_value out[RVL_MAX_OUT] = { { .type = RVL_TYPE_NONE } };
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i])
			in[i] = (struct rvl_value) { .type = n->in[i]->type, .shape = n->in[i]->shape,
						     .data = (void *)(uintptr_t)n->in[i]->data };
	for (uint32_t i = 0; i < n->n_out; i++) {
		struct rvl_tensor *t = n->out[i];

		if (!t)
			continue;
		out[i] = (struct rvl_value) { .type = t->type, .shape = t->shape };
		out[i].data = rvl_arena_alloc(g->arena, (size_t)rvl_tensor_bytes(t));
		if (!out[i].data)
			return no_memory(err);
		g->folded += (uint64_t)rvl_tensor_bytes(t);
	}
	if (rvl_kernel_run_values(k, in, out, scratch, NULL, NULL))
		/* The operands are not valid. A run of the model reports the error. */
		return 0;
	for (uint32_t i = 0; i < n->n_out; i++) {
		if (!n->out[i])
			continue;
		n->out[i]->data = out[i].data;
		n->out[i]->shape = out[i].shape;
		n->out[i]->bounded = false;
	}
	rvl_node_remove(g, n);
	return 1;
}

/*
 * The constant of another shape has the same bytes, which both tensors then refer to. Passes never
 * write to the data of a constant, so that the shapes of large weights cost no memory.
 */
static bool rename_constant(struct rvl_graph *g, struct rvl_node *n)
{
	const struct rvl_tensor *x = n->in[0];
	struct rvl_tensor *y = n->out[0];

	if (!rvl_op_renames(n->op) || n->n_out != 1 || !x || !x->data || !y->shaped || y->bounded ||
	    x->type != y->type || rvl_tensor_bytes(x) != rvl_tensor_bytes(y))
		return false;
	y->data = x->data;
	rvl_node_remove(g, n);
	return true;
}

int rvl_node_evaluate(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_kernel_desc d;
	struct rvl_kernel *k;
	void *scratch = NULL;
	int rc;

	if (!foldable(g, n))
		return 0;
	if (rename_constant(g, n))
		return 1;
	if (!may_work(g, n))
		return 0;
	rvl_node_desc(n, &d);
	rc = rvl_kernel_new(&d, true, &k, NULL);
	if (rc)
		return rc == -ENOMEM ? no_memory(err) : 0;
	if (!is_costly(n) || rvl_kernel_scratch(k) <= MAX_FOLD_SCRATCH) {
		scratch = aligned(rvl_kernel_scratch(k));
		rc = scratch ? evaluate(g, n, k, scratch, err) : no_memory(err);
	}
	rvl_kernel_free(k);
	free(scratch);
	return rc;
}

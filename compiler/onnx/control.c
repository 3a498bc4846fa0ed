/* SPDX-License-Identifier: MIT */
/*
 * If, Loop and Scan. Shape inference asks to expand such a node when everything before it is known:
 *
 * - If takes the nodes of the branch that a constant condition names. Where the condition is known
 *   at run time only, both branches are computed and their results are selected.
 * - Loop takes the nodes of one iteration and becomes the Loop of the iterations that are left, so
 *   that each condition is known, or not, when the Loop is expanded again.
 * - Scan takes the nodes of all iterations, whose number is a dimension.
 *
 * A trip count or a condition of Loop that is known at run time only, and more nodes than the limit
 * of a model, are refused.
 */
#include "onnx/model.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum kind { IF, LOOP, SCAN, KINDS };

static const char *const names[KINDS] = { "If", "Loop", "Scan" };

/* The values of one scan output, in the order of the iterations. */
struct values {
	struct rvl_tensor **t;
	uint32_t n, cap;
};

struct control {
	struct rvl_control base;
	enum kind kind;
	const char *name;
	struct rvl_onnx_model m;	/* with the scope of the node */
	struct rvl_onnx_subgraph *body[2];	/* If: then, else */
	const struct rvl_onnx_scope *constants[2];	/* of the bodies; NULL: not entered yet */
	uint32_t n_state;
	uint32_t n_scan_in, n_scan_out;
	bool batched;			/* Scan of opset 8: axis 0 of every operand is the batch */
	int64_t trip;			/* Loop: iterations done */
	struct values *made;		/* by scan output */
	int64_t in_axis[RVL_MAX_IN], out_axis[RVL_MAX_OUT];
	bool in_back[RVL_MAX_IN], out_back[RVL_MAX_OUT];
};

static enum kind kind_of(const struct rvl_onnx_node *on)
{
	int k = 0;

	while (k < KINDS && !rvl_span_is(on->op_type, names[k]))
		k++;
	return (enum kind)k;
}

bool rvl_onnx_is_control(const struct rvl_onnx_node *on)
{
	return (!on->domain.len || rvl_span_is(on->domain, "ai.onnx")) && kind_of(on) != KINDS;
}

static int no_memory(struct rvl_err *err)
{
	return rvl_fail(err, -ENOMEM, "no memory to expand a subgraph");
}

/* ---- nodes ---- */

/* A node of the table with one attribute, an integer or a list of one, and one output. */
struct maker {
	const char *op;
	int64_t opset;
	const char *attr;	/* NULL: none */
	int64_t value;
};

static int set_value(struct rvl_graph *g, const struct maker *k, const struct rvl_op_def *def,
		     struct rvl_attr_value *v)
{
	int64_t *one = rvl_arena_alloc(g->arena, sizeof(*one));
	uint32_t i = 0;

	if (!one)
		return -ENOMEM;
	*one = k->value;
	while (strcmp(def->attrs[i].name, k->attr))
		i++;
	v[i] = (struct rvl_attr_value) { .given = true, .i = k->value, .n = 1, .data = one };
	return 0;
}

/* *out: the tensor to make, or NULL for a new one. */
static int make_node(struct rvl_graph *g, const struct control *c, const struct maker *k,
		     struct rvl_tensor *const *in, uint32_t n_in, struct rvl_tensor **out,
		     struct rvl_err *err)
{
	const char *domain = strcmp(k->op, "Select") ? NULL : "rivulet";
	const struct rvl_op_def *def = rvl_op_find(domain, k->op, k->opset);
	struct rvl_attr_value *v = rvl_arena_array(g->arena, rvl_op_attrs(def) + 1, sizeof(*v));
	const char *name = rvl_graph_printf(g, "%.900s/%s", c->name, k->op);
	struct rvl_node *n;
	int rc;

	if (!v || !name || (k->attr && set_value(g, k, def, v)))
		return no_memory(err);
	rc = rvl_node_general(g, def, v, name, &n, err);
	for (uint32_t i = 0; i < n_in && !rc; i++)
		rc = rvl_node_set_in(g, n, i, in[i], err);
	if (!rc && !*out)
		rc = rvl_tensor_new(g, NULL, out, err);
	if (!rc)
		rvl_node_set_out(n, 0, *out);
	return rc;
}

static int int_const(struct rvl_graph *g, int64_t v, bool list, struct rvl_tensor **out,
		     struct rvl_err *err)
{
	struct rvl_shape s = { .rank = list, .dim = { 1 } };

	return rvl_tensor_const(g, NULL, RVL_TYPE_S64, &s, &v, out, err);
}

/* Element @at of axis @axis of @x, without that axis. */
static int take(struct rvl_graph *g, const struct control *c, struct rvl_tensor *x, int64_t axis,
		int64_t at, struct rvl_tensor **out, struct rvl_err *err)
{
	const struct maker gather = { "Gather", 13, "axis", axis };
	struct rvl_tensor *in[2] = { x };
	int rc = int_const(g, at, false, &in[1], err);

	*out = NULL;
	return rc ? rc : make_node(g, c, &gather, in, 2, out, err);
}

static int add_value(struct rvl_graph *g, struct values *v, struct rvl_tensor *t,
		     struct rvl_err *err)
{
	if (v->n == v->cap) {
		uint32_t cap = v->cap ? 2 * v->cap : 8;
		struct rvl_tensor **list = rvl_arena_array(g->arena, cap, sizeof(*list));

		if (!list)
			return no_memory(err);
		if (v->n)
			memcpy(list, v->t, v->n * sizeof(*list));
		v->t = list;
		v->cap = cap;
	}
	v->t[v->n++] = t;
	return 0;
}

/* Joins @n tensors along @axis, RVL_MAX_IN at a time; the last node makes *out. */
static int join(struct rvl_graph *g, const struct control *c, struct rvl_tensor **t, uint32_t n,
		int64_t axis, struct rvl_tensor **out, struct rvl_err *err)
{
	const struct maker concat = { "Concat", 13, "axis", axis };
	int rc = 0;

	while (n > RVL_MAX_IN && !rc) {
		uint32_t made = 0;

		for (uint32_t i = 0; i < n && !rc; i += RVL_MAX_IN) {
			uint32_t part = n - i < RVL_MAX_IN ? n - i : RVL_MAX_IN;
			struct rvl_tensor *y = NULL;

			rc = make_node(g, c, &concat, t + i, part, &y, err);
			t[made++] = y;
		}
		n = made;
	}
	return rc ? rc : make_node(g, c, &concat, t, n, out, err);
}

/* The values side by side along a new axis, in reversed order where @back. */
static int stack(struct rvl_graph *g, const struct control *c, struct values *v, int64_t axis,
		 bool back, struct rvl_tensor **out, struct rvl_err *err)
{
	const struct maker unsqueeze = { "Unsqueeze", 11, "axes", axis };
	struct rvl_tensor **t = rvl_arena_array(g->arena, v->n, sizeof(*t));
	int rc = t ? 0 : no_memory(err);

	for (uint32_t i = 0; i < v->n && !rc; i++)
		rc = make_node(g, c, &unsqueeze, &v->t[back ? v->n - 1 - i : i], 1, &t[i], err);
	return rc ? rc : join(g, c, t, v->n, axis, out, err);
}

/* ---- bodies ---- */

static bool too_many(const struct rvl_graph *g, const struct control *c, int64_t bodies)
{
	return bodies > RVL_MAX_NODES ||
	       g->expanded + bodies * (c->body[0]->nodes.n + 1) > RVL_MAX_NODES;
}

static const char *too_many_why(struct rvl_graph *g, int64_t bodies)
{
	return rvl_graph_printf(g, "its %lld iterations have more than %d nodes", (long long)bodies,
				RVL_MAX_NODES);
}

/* The scope of an iteration: the operands by the names that the body gives them. */
static int enter_body(struct rvl_graph *g, struct control *c, int which, int64_t at,
		      struct rvl_tensor *const *in, struct rvl_onnx_scope **out,
		      struct rvl_err *err)
{
	const char *name = rvl_graph_printf(g, "%lld", (long long)at);
	const struct rvl_onnx_names *formal = &c->body[which]->inputs;
	struct rvl_onnx_model m = c->m;
	struct rvl_onnx_scope *s = NULL;
	int rc = name ? 0 : no_memory(err);

	m.file.err = err;
	if (!rc && !c->constants[which])
		rc = rvl_onnx_enter_subgraph(g, &m, c->name, c->body[which], &s, err);
	if (rc)
		return rc;
	if (s)
		c->constants[which] = s;
	m.scope = c->constants[which];
	rc = rvl_onnx_enter(g, &m, name, formal->n, out, err);
	for (uint32_t i = 0; i < formal->n && !rc; i++)
		(*out)->alias[(*out)->n_alias++] = (struct rvl_onnx_alias) { formal->name[i], in[i] };
	return rc;
}

/* The nodes of a body with these operands; @out receives its outputs. */
static int run_body(struct rvl_graph *g, struct control *c, int which, int64_t at,
		    struct rvl_tensor *const *in, struct rvl_tensor **out, struct rvl_err *err)
{
	const struct rvl_onnx_subgraph *body = c->body[which];
	struct rvl_onnx_model m = c->m;
	struct rvl_onnx_scope *s;
	int rc = enter_body(g, c, which, at, in, &s, err);

	g->expanded++;
	if (rc)
		return rc;
	m.scope = s;
	m.file.err = err;
	rc = rvl_onnx_nodes(g, &m, &body->nodes, err);
	for (uint32_t i = 0; i < body->outputs.n && !rc; i++) {
		rc = rvl_onnx_reads(g, &m, body->outputs.name[i], &out[i], err);
		if (!rc && !out[i])
			rc = rvl_fail(err, -EBADMSG, "a subgraph of '%.60s' returns an absent operand",
				      c->name);
	}
	return rc;
}

/* Removes the node; @out receives its outputs. */
static void remove_node(struct rvl_graph *g, struct rvl_node *n, struct rvl_tensor **out)
{
	for (uint32_t i = 0; i < RVL_MAX_OUT; i++)
		out[i] = i < n->n_out ? n->out[i] : NULL;
	rvl_node_remove(g, n);
}

static struct control *control_of(struct rvl_node *n)
{
	return (struct control *)(uintptr_t)((const char *)n->control - offsetof(struct control, base));
}

/* ---- If ---- */

static int select_results(struct rvl_graph *g, const struct control *c, struct rvl_tensor *cond,
			  struct rvl_tensor **a, struct rvl_tensor **b, struct rvl_tensor **out,
			  struct rvl_err *err)
{
	const struct maker select = { "Select", 1, NULL, 0 };
	int rc = 0;

	for (uint32_t i = 0; i < RVL_MAX_OUT && !rc; i++) {
		struct rvl_tensor *in[] = { cond, a[i], b[i] };

		if (out[i])
			rc = make_node(g, c, &select, in, 3, &out[i], err);
	}
	return rc;
}

static int expand_if(struct rvl_graph *g, struct rvl_node *n, const char **why,
		     struct rvl_err *err)
{
	struct control *c = control_of(n);
	struct rvl_tensor *cond = n->in[0], *out[RVL_MAX_OUT];
	struct rvl_tensor *made[2][RVL_MAX_OUT] = { { NULL } };
	int64_t first = 0, past = 2;
	int rc = 0;

	if (!cond || cond->type != RVL_TYPE_BOOL || rvl_shape_count(&cond->shape) != 1) {
		*why = "its condition is not one bool";
		return 0;
	}
	if (cond->data) {
		first = *(const uint8_t *)cond->data ? 0 : 1;
		past = first + 1;
	}
	remove_node(g, n, out);
	for (int64_t i = first; i < past && !rc; i++)
		rc = run_body(g, c, (int)i, i, NULL, made[i], err);
	if (!rc && past - first == 2)
		return select_results(g, c, cond, made[0], made[1], out, err);
	for (uint32_t i = 0; i < RVL_MAX_OUT && !rc; i++)
		if (out[i])
			rc = rvl_onnx_copy(g, made[first][i], out[i], err);
	return rc;
}

/* ---- Loop ---- */

static const char *unknown(struct rvl_graph *g, const char *what, const struct rvl_tensor *t)
{
	return rvl_graph_printf(g, "its %s is known at run time only: freeze the input that '%.40s' comes from",
				what, t->name);
}

/* Whether another iteration runs; *why where it is known at run time only. */
static bool goes_on(struct rvl_graph *g, const struct control *c, const struct rvl_node *n,
		    const char **why)
{
	const struct rvl_tensor *most = n->in[0], *cond = n->in[1];

	if (most && (most->type != RVL_TYPE_S64 || rvl_shape_count(&most->shape) != 1))
		*why = "its trip count is not one int64";
	else if (cond && (cond->type != RVL_TYPE_BOOL || rvl_shape_count(&cond->shape) != 1))
		*why = "its condition is not one bool";
	else if (most && !most->data)
		*why = unknown(g, "trip count", most);
	else if (cond && !cond->data)
		*why = unknown(g, "condition", cond);
	if (*why)
		return false;
	if (cond && !*(const uint8_t *)cond->data)
		return false;
	return !most || c->trip < *(const int64_t *)most->data;
}

/* The node for the iterations that are left. */
static int next_loop(struct rvl_graph *g, struct control *c, struct rvl_tensor *const *in,
		     uint32_t n_in, struct rvl_tensor *const *out, struct rvl_err *err)
{
	struct rvl_node *n;
	int rc = rvl_node_new(g, RVL_OP_UNSUPPORTED, c->name, &n, err);

	for (uint32_t i = 0; i < n_in && !rc; i++)
		if (in[i])
			rc = rvl_node_set_in(g, n, i, in[i], err);
	for (uint32_t i = 0; i < RVL_MAX_OUT && !rc; i++)
		if (out[i])
			rvl_node_set_out(n, i, out[i]);
	if (rc)
		return rc;
	n->op_type = names[c->kind];
	n->reason = "its subgraphs were not expanded";
	n->control = &c->base;
	return 0;
}

/* Operands of the body: the number of the iteration, the condition, the state. */
static int one_iteration(struct rvl_graph *g, struct control *c, struct rvl_node *n,
			 struct rvl_err *err)
{
	struct rvl_tensor *in[RVL_MAX_IN] = { NULL }, *out[RVL_MAX_OUT];
	struct rvl_tensor *made[RVL_MAX_IN + RVL_MAX_OUT] = { NULL };
	struct rvl_tensor *most = n->in[0];
	struct rvl_shape scalar = { .rank = 0 };
	bool conditional = n->in[1];
	const uint8_t yes = 1;
	int rc = int_const(g, c->trip, false, &in[0], err);

	memcpy(in + 1, n->in + 1, (RVL_MAX_IN - 1) * sizeof(*in));
	if (!rc && !in[1])
		rc = rvl_tensor_const(g, NULL, RVL_TYPE_BOOL, &scalar, &yes, &in[1], err);
	remove_node(g, n, out);
	if (!rc)
		rc = run_body(g, c, 0, c->trip, in, made, err);
	for (uint32_t i = 0; i < c->n_scan_out && !rc; i++)
		rc = add_value(g, &c->made[i], made[1 + c->n_state + i], err);
	if (rc)
		return rc;
	c->trip++;
	in[0] = most;
	in[1] = conditional ? made[0] : NULL;	/* ONNX: without the input the condition is ignored */
	memcpy(in + 2, made + 1, c->n_state * sizeof(*in));
	return next_loop(g, c, in, 2 + c->n_state, out, err);
}

static int finish_loop(struct rvl_graph *g, struct control *c, struct rvl_node *n,
		       struct rvl_err *err)
{
	struct rvl_tensor *state[RVL_MAX_IN], *out[RVL_MAX_OUT];
	int rc = 0;

	memcpy(state, n->in + 2, c->n_state * sizeof(*state));
	remove_node(g, n, out);
	for (uint32_t i = 0; i < c->n_state && !rc; i++)
		if (out[i])
			rc = rvl_onnx_copy(g, state[i], out[i], err);
	for (uint32_t i = 0; i < c->n_scan_out && !rc; i++)
		if (out[c->n_state + i])
			rc = stack(g, c, &c->made[i], 0, false, &out[c->n_state + i], err);
	return rc;
}

static bool wants_scans(const struct control *c, const struct rvl_node *n)
{
	for (uint32_t i = c->n_state; i < n->n_out; i++)
		if (n->out[i])
			return true;
	return false;
}

static int expand_loop(struct rvl_graph *g, struct rvl_node *n, const char **why,
		       struct rvl_err *err)
{
	struct control *c = control_of(n);
	bool more = goes_on(g, c, n, why);

	if (more && too_many(g, c, 1))
		*why = too_many_why(g, c->trip + 1);
	else if (!*why && !more && !c->trip && wants_scans(c, n))
		*why = "it runs no iteration, so that the shapes of its scan outputs are not known";
	for (uint32_t i = 0; i < c->n_state && !*why; i++)
		if (!n->in[2 + i])
			*why = "it lacks an initial value";
	if (*why)
		return 0;
	return more ? one_iteration(g, c, n, err) : finish_loop(g, c, n, err);
}

/* ---- Scan ---- */

/* Iterations over the operands; @state receives the last state, @made the scan outputs of each. */
static int scan_all(struct rvl_graph *g, struct control *c, int64_t trips,
		    struct rvl_tensor **state, struct rvl_tensor *const *x, const int64_t *axis,
		    struct values *made, struct rvl_err *err)
{
	struct rvl_tensor *in[RVL_MAX_IN], *out[RVL_MAX_IN + RVL_MAX_OUT];
	int rc = 0;

	for (int64_t k = 0; k < trips && !rc; k++) {
		memcpy(in, state, c->n_state * sizeof(*in));
		for (uint32_t i = 0; i < c->n_scan_in && !rc; i++)
			rc = take(g, c, x[i], axis[i], c->in_back[i] ? trips - 1 - k : k,
				  &in[c->n_state + i], err);
		if (!rc)
			rc = run_body(g, c, 0, k, in, out, err);
		if (rc)
			return rc;
		memcpy(state, out, c->n_state * sizeof(*state));
		for (uint32_t i = 0; i < c->n_scan_out && !rc; i++)
			rc = add_value(g, &made[i], out[c->n_state + i], err);
	}
	return rc;
}

/* The scan outputs of one element of the batch (opset 8), or of the whole operand. */
static int stack_scans(struct rvl_graph *g, struct control *c, struct values *made,
		       struct rvl_tensor **out, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < c->n_scan_out && !rc; i++)
		rc = stack(g, c, &made[i], c->out_axis[i], c->out_back[i], &out[i], err);
	return rc;
}

static int scan_plain(struct rvl_graph *g, struct control *c, int64_t trips,
		      struct rvl_tensor **in, struct rvl_tensor **out, struct rvl_err *err)
{
	struct values made[RVL_MAX_OUT] = { { NULL } };
	struct rvl_tensor *scans[RVL_MAX_OUT] = { NULL };
	int rc = scan_all(g, c, trips, in, in + c->n_state, c->in_axis, made, err);

	for (uint32_t i = 0; i < c->n_scan_out; i++)
		scans[i] = out[c->n_state + i];
	if (!rc)
		rc = stack_scans(g, c, made, scans, err);
	for (uint32_t i = 0; i < c->n_state && !rc; i++)
		if (out[i])
			rc = rvl_onnx_copy(g, in[i], out[i], err);
	return rc;
}

/* Opset 8: each element of the batch is scanned alone. */
static int scan_batch(struct rvl_graph *g, struct control *c, int64_t trips, int64_t batch,
		      struct rvl_tensor **in, struct rvl_tensor **out, struct rvl_err *err)
{
	struct values result[RVL_MAX_OUT] = { { NULL } };
	int rc = 0;

	for (int64_t b = 0; b < batch && !rc; b++) {
		struct values made[RVL_MAX_OUT] = { { NULL } };
		struct rvl_tensor *part[RVL_MAX_IN] = { NULL }, *scans[RVL_MAX_OUT] = { NULL };

		for (uint32_t i = 0; i < c->n_state + c->n_scan_in && !rc; i++)
			rc = take(g, c, in[i], 0, b, &part[i], err);
		if (!rc)
			rc = scan_all(g, c, trips, part, part + c->n_state, c->in_axis, made, err);
		if (!rc)
			rc = stack_scans(g, c, made, scans, err);
		for (uint32_t i = 0; i < c->n_state + c->n_scan_out && !rc; i++)
			rc = add_value(g, &result[i],
				       i < c->n_state ? part[i] : scans[i - c->n_state], err);
	}
	for (uint32_t i = 0; i < c->n_state + c->n_scan_out && !rc; i++)
		if (out[i])
			rc = stack(g, c, &result[i], 0, false, &out[i], err);
	return rc;
}

/* Iterations: the size of the scanned axis, which is the same in every operand; -1 if not. */
static int64_t trips_of(struct rvl_graph *g, struct control *c, struct rvl_tensor *const *x,
			const char **why)
{
	int64_t trips = -1;

	for (uint32_t i = 0; i < c->n_scan_in; i++) {
		int64_t rank = x[i]->shape.rank, axis = c->in_axis[i] + c->batched, n;

		if (axis < 0)
			axis += rank;
		if (axis < 0 || axis >= rank) {
			*why = rvl_graph_printf(g, "it scans an axis that '%.60s' lacks", x[i]->name);
			return -1;
		}
		n = x[i]->shape.dim[axis];
		if (trips >= 0 && n != trips)
			*why = "its scan inputs have different lengths";
		trips = n;
	}
	return trips;
}

static int expand_scan(struct rvl_graph *g, struct rvl_node *n, const char **why,
		       struct rvl_err *err)
{
	struct control *c = control_of(n);
	struct rvl_tensor *in[RVL_MAX_IN], *out[RVL_MAX_OUT];
	uint32_t count = c->n_state + c->n_scan_in;
	int64_t trips, batch;

	memcpy(in, n->in + c->batched, count * sizeof(*in));
	for (uint32_t i = 0; i < count; i++)
		if (!in[i] || in[i]->bounded)
			*why = in[i] ? "the length of what it scans is known at run time only" :
				       "it lacks an operand";
	trips = *why ? -1 : trips_of(g, c, in + c->n_state, why);
	batch = c->batched && trips >= 0 ? in[c->n_state]->shape.dim[0] : 1;
	if (!*why && (!trips || !batch))
		*why = "it runs no iteration, so that the shapes of its scan outputs are not known";
	if (!*why && (trips > RVL_MAX_NODES || batch > RVL_MAX_NODES || too_many(g, c, trips * batch)))
		*why = too_many_why(g, trips * batch);
	if (*why)
		return 0;
	remove_node(g, n, out);
	return c->batched ? scan_batch(g, c, trips, batch, in, out, err) :
			    scan_plain(g, c, trips, in, out, err);
}

/* ---- the node ---- */

static int read_body(struct rvl_graph *g, struct control *c, const struct rvl_onnx_node *on,
		     const char *attr, int which, const char **why, struct rvl_err *err)
{
	const struct rvl_onnx_attr *a = rvl_onnx_attr(on, attr);

	if (!a || !a->has_graph) {
		*why = rvl_graph_printf(g, "it lacks the subgraph %s", attr);
		return 0;
	}
	return rvl_onnx_subgraph(g, &c->m, &a->graph, &c->body[which], err);
}

static const char *check_if(const struct control *c, const struct rvl_onnx_node *on)
{
	for (int i = 0; i < 2; i++)
		if (c->body[i]->inputs.n || c->body[i]->outputs.n < on->n_out ||
		    c->body[i]->outputs.n > RVL_MAX_OUT)
			return "a branch does not have its number of outputs, or has inputs";
	return on->n_in == 1 ? NULL : "it does not have one input";
}

static const char *check_loop(struct control *c, const struct rvl_onnx_node *on)
{
	uint32_t outputs = c->body[0]->outputs.n;

	c->n_state = on->n_in > 2 ? on->n_in - 2 : 0;
	if (c->body[0]->inputs.n != 2 + c->n_state || outputs < 1 + c->n_state ||
	    outputs > 1 + RVL_MAX_OUT || on->n_out > outputs - 1)
		return "its body does not fit its inputs and outputs";
	c->n_scan_out = outputs - 1 - c->n_state;
	return NULL;
}

/* A list of axes or directions. An attribute that is absent leaves the zeros. */
static const char *read_ints(const struct rvl_onnx_node *on, const char *name, uint32_t n,
			     int64_t *axis, bool *back)
{
	const struct rvl_onnx_attr *a = rvl_onnx_attr(on, name);

	if (a && a->n_ints != n)
		return "an attribute does not have a value for each scan input or output";
	for (uint32_t i = 0; a && i < n; i++) {
		if (axis)
			axis[i] = a->ints[i];
		else
			back[i] = a->ints[i];
	}
	return NULL;
}

static const char *check_scan(struct control *c, const struct rvl_onnx_node *on)
{
	const struct rvl_onnx_attr *scans = rvl_onnx_attr(on, "num_scan_inputs");
	uint32_t outputs = c->body[0]->outputs.n, first;
	const char *why;

	c->batched = c->m.opset < 9;
	first = c->batched;
	if (on->n_in < first || !scans || scans->i < 1 || scans->i > on->n_in - first)
		return "num_scan_inputs is not one of its numbers of inputs";
	if (c->batched && on->in[0].len)
		return "lengths of the sequences are not supported";
	c->n_scan_in = (uint32_t)scans->i;
	c->n_state = on->n_in - first - c->n_scan_in;
	if (c->body[0]->inputs.n != c->n_state + c->n_scan_in || outputs < c->n_state ||
	    outputs > RVL_MAX_OUT || on->n_out > outputs)
		return "its body does not fit its inputs and outputs";
	c->n_scan_out = outputs - c->n_state;
	if (c->batched)
		return read_ints(on, "directions", c->n_scan_in, NULL, c->in_back);
	why = read_ints(on, "scan_input_axes", c->n_scan_in, c->in_axis, NULL);
	if (!why)
		why = read_ints(on, "scan_input_directions", c->n_scan_in, NULL, c->in_back);
	if (!why)
		why = read_ints(on, "scan_output_axes", c->n_scan_out, c->out_axis, NULL);
	return why ? why : read_ints(on, "scan_output_directions", c->n_scan_out, NULL, c->out_back);
}

static int describe(struct rvl_graph *g, struct control *c, const struct rvl_onnx_node *on,
		    const char **why, struct rvl_err *err)
{
	int rc = 0;

	if (on->n_in > RVL_MAX_IN || on->n_out > RVL_MAX_OUT)
		*why = rvl_graph_printf(g, "it has %u inputs and %u outputs, more than %d and %d",
					on->n_in, on->n_out, RVL_MAX_IN, RVL_MAX_OUT);
	else if (c->kind == IF)
		rc = read_body(g, c, on, "then_branch", 0, why, err);
	else
		rc = read_body(g, c, on, "body", 0, why, err);
	if (!rc && !*why && c->kind == IF)
		rc = read_body(g, c, on, "else_branch", 1, why, err);
	if (rc || *why)
		return rc;
	if (c->kind == IF)
		*why = check_if(c, on);
	else
		*why = c->kind == LOOP ? check_loop(c, on) : check_scan(c, on);
	c->made = rvl_arena_array(g->arena, c->n_scan_out, sizeof(*c->made));
	return c->made ? 0 : no_memory(err);
}

int rvl_onnx_control(struct rvl_graph *g, const struct rvl_onnx_model *m,
		     const struct rvl_onnx_node *on, struct rvl_node *n, struct rvl_err *err)
{
	static int (*const expand[])(struct rvl_graph *, struct rvl_node *, const char **,
				     struct rvl_err *) = {
		[IF] = expand_if, [LOOP] = expand_loop, [SCAN] = expand_scan,
	};
	struct control *c = rvl_arena_alloc(g->arena, sizeof(*c));
	const char *why = NULL;
	int rc;

	if (!c)
		return no_memory(err);
	c->kind = kind_of(on);
	c->name = n->name;
	c->m = *m;
	c->base.expand = expand[c->kind];
	rc = describe(g, c, on, &why, err);
	n->reason = why ? why : "its subgraphs were not expanded";
	n->control = why ? NULL : &c->base;
	return rc;
}

/* SPDX-License-Identifier: MIT */
/*
 * Types and shapes. Every operator has one function that derives the type and shape of its result
 * from the operands. Whether the operands fit together in every other respect is checked only by
 * the kernel that will run the node.
 */
#include "graph/extreme.h"
#include "graph/interp.h"

#include <errno.h>
#include <string.h>

struct infer {
	struct rvl_graph *g;
	struct rvl_node *n;
	const char *why;		/* set: the node is not supported */
	enum rvl_type type;		/* of output 0 */
	struct rvl_shape shape;
};

/* Stores the reason why the node cannot be run. The calling function must return. */
#define reject(inf, ...) ((inf)->why = rvl_graph_printf((inf)->g, __VA_ARGS__))

static const struct rvl_shape *shape_of(const struct infer *in, uint32_t i)
{
	return &in->n->in[i]->shape;
}

static bool has(const struct infer *in, uint32_t i)
{
	return i < in->n->n_in && in->n->in[i];
}

static void infer_same(struct infer *in)
{
	in->type = in->n->in[0]->type;
	in->shape = *shape_of(in, 0);
}

/* An axis in [-rank, rank) (or rank itself where @end) made non-negative. */
static bool fix_axis(struct infer *in, int32_t rank, bool end)
{
	int32_t *axis = &in->n->attr.axis;

	if (*axis < -rank || *axis > rank || (*axis == rank && !end && rank)) {
		reject(in, "axis %d does not exist in a tensor of rank %d", *axis, rank);
		return false;
	}
	if (*axis < 0)
		*axis += rank;
	return true;
}

static void infer_quantize(struct infer *in)
{
	in->shape = *shape_of(in, 0);
	in->type = in->n->op == RVL_OP_QUANTIZE ? in->n->in[2]->type : RVL_TYPE_F32;
	if (rvl_shape_count(shape_of(in, 1)) != 1)
		fix_axis(in, in->shape.rank, false);
}

/* Computes the padding of one axis and returns the result's size; -1 if the window does not fit. */
static int64_t window_size(struct rvl_attr *a, int axis, int64_t n, bool pool)
{
	int64_t reach = (int64_t)a->dilation[axis] * (a->kernel[axis] - 1) + 1;
	int64_t s = a->stride[axis];
	int64_t room, out;

	if (a->auto_pad == RVL_PAD_SAME_UPPER || a->auto_pad == RVL_PAD_SAME_LOWER) {
		int64_t total = ((n + s - 1) / s - 1) * s + reach - n;
		int64_t less = total > 0 ? total / 2 : 0;
		int64_t more = total > 0 ? total - less : 0;

		a->pad[axis] = (int32_t)(a->auto_pad == RVL_PAD_SAME_UPPER ? less : more);
		a->pad[axis + 2] = (int32_t)(a->auto_pad == RVL_PAD_SAME_UPPER ? more : less);
		return (n + s - 1) / s;
	}
	if (a->auto_pad == RVL_PAD_VALID)
		a->pad[axis] = a->pad[axis + 2] = 0;
	room = n + a->pad[axis] + a->pad[axis + 2] - reach;
	if (pool && a->ceil_mode)
		/* the last window may exceed the input, even if it is the first */
		room += s - 1;
	if (room < 0)
		return -1;
	out = room / s + 1;
	if (pool && a->ceil_mode) {
		if ((out - 1) * s >= n + a->pad[axis])
			out--;	/* no window may begin behind the input */
	}
	return out;
}

static bool window(struct infer *in, const struct rvl_shape *x, int64_t channels, bool pool)
{
	struct rvl_attr *a = &in->n->attr;

	if (x->rank != 4) {
		reject(in, "its input has %d dimensions: only 2-D images [N, C, H, W] are supported",
		       x->rank);
		return false;
	}
	in->shape = (struct rvl_shape) { .rank = 4, .dim = { x->dim[0], channels } };
	for (int i = 0; i < 2; i++) {
		in->shape.dim[2 + i] = window_size(a, i, x->dim[2 + i], pool);
		if (in->shape.dim[2 + i] < 0) {
			reject(in, "its %dx%d window is larger than the padded %lldx%lld input",
			       a->kernel[0], a->kernel[1], (long long)x->dim[2],
			       (long long)x->dim[3]);
			return false;
		}
	}
	a->auto_pad = RVL_PAD_EXPLICIT;
	return true;
}

static void conv_like(struct infer *in, uint32_t weights)
{
	const struct rvl_shape *w = shape_of(in, weights);
	int32_t *k = in->n->attr.kernel;

	if (w->rank != 4) {
		reject(in, "its weights have %d dimensions: only 2-D kernels are supported",
		       w->rank);
		return;
	}
	for (int i = 0; i < 2; i++) {
		if (w->dim[2 + i] < 1 || w->dim[2 + i] > 65535 ||
		    (k[i] && k[i] != w->dim[2 + i])) {
			reject(in, "kernel_shape and the weights' shape disagree");
			return;
		}
		k[i] = (int32_t)w->dim[2 + i];
	}
	window(in, shape_of(in, 0), w->dim[0], false);
}

static void infer_conv(struct infer *in)
{
	in->type = RVL_TYPE_F32;
	conv_like(in, 1);
}

static void infer_qlinear_conv(struct infer *in)
{
	in->type = in->n->in[7]->type;
	conv_like(in, 3);
}

static void infer_pool(struct infer *in)
{
	in->type = in->n->in[0]->type;
	if (in->n->op == RVL_OP_QLINEAR_AVERAGE_POOL && has(in, 4))
		in->type = in->n->in[4]->type;
	window(in, shape_of(in, 0), shape_of(in, 0)->rank > 1 ? shape_of(in, 0)->dim[1] : 0, true);
}

static void infer_global(struct infer *in)
{
	infer_same(in);
	if (in->n->op == RVL_OP_QLINEAR_GLOBAL_AVERAGE_POOL && has(in, 4))
		in->type = in->n->in[4]->type;
	if (in->shape.rank < 3)
		reject(in, "its input has no spatial dimensions");
	for (int i = 2; i < in->shape.rank; i++)
		in->shape.dim[i] = 1;
}

static void gemm_like(struct infer *in, uint32_t b)
{
	const struct rvl_shape *sa = shape_of(in, 0), *sb = shape_of(in, b);
	const struct rvl_attr *a = &in->n->attr;

	if (sa->rank != 2 || sb->rank != 2) {
		reject(in, "its operands are not matrices (rank %d and %d)", sa->rank, sb->rank);
		return;
	}
	in->shape = (struct rvl_shape) {
		.rank = 2, .dim = { sa->dim[a->trans_a ? 1 : 0], sb->dim[a->trans_b ? 0 : 1] },
	};
}

static void infer_gemm(struct infer *in)
{
	in->type = RVL_TYPE_F32;
	gemm_like(in, 1);
}

static void infer_qgemm(struct infer *in)
{
	if (!has(in, 7)) {
		reject(in, "without y_scale its result would be float");
		return;
	}
	in->type = in->n->in[has(in, 8) ? 8 : 0]->type;
	gemm_like(in, 3);
}

static void matmul_like(struct infer *in, uint32_t b)
{
	struct rvl_shape sa = *shape_of(in, 0), sb = *shape_of(in, b);
	struct rvl_shape ba = sa, bb = sb;
	int64_t m = sa.rank > 1 ? sa.dim[sa.rank - 2] : 1;
	int64_t n = sb.rank > 1 ? sb.dim[sb.rank - 1] : 1;

	ba.rank = sa.rank > 2 ? sa.rank - 2 : 0;
	bb.rank = sb.rank > 2 ? sb.rank - 2 : 0;
	if (sa.rank < 1 || sb.rank < 1 || rvl_shape_broadcast(&ba, &bb, &in->shape)) {
		reject(in, "its operands' shapes do not fit together");
		return;
	}
	if (sa.rank > 1)
		in->shape.dim[in->shape.rank++] = m;
	if (sb.rank > 1)
		in->shape.dim[in->shape.rank++] = n;
}

static void infer_matmul(struct infer *in)
{
	in->type = RVL_TYPE_F32;
	matmul_like(in, 1);
}

static void infer_qlinear_matmul(struct infer *in)
{
	in->type = in->n->in[7]->type;
	matmul_like(in, 3);
}

static void infer_binary(struct infer *in)
{
	bool q = in->n->op == RVL_OP_QLINEAR_ADD || in->n->op == RVL_OP_QLINEAR_MUL;

	in->type = in->n->in[q && has(in, 7) ? 7 : 0]->type;
	if (rvl_shape_broadcast(shape_of(in, 0), shape_of(in, q ? 3 : 1), &in->shape))
		reject(in, "its operands' shapes do not broadcast");
}

static void infer_flatten(struct infer *in)
{
	const struct rvl_shape *x = shape_of(in, 0);
	int64_t left = 1, right = 1;

	in->type = in->n->in[0]->type;
	if (!fix_axis(in, x->rank, true))
		return;
	for (int i = 0; i < x->rank; i++)
		*(i < in->n->attr.axis ? &left : &right) *= x->dim[i];
	in->shape = (struct rvl_shape) { .rank = 2, .dim = { left, right } };
}

/* Sets the one dimension that is -1 to the number of elements that remain for it. */
static void fill_unknown(struct infer *in, int unknown, int64_t count)
{
	int64_t known = 1;

	for (int i = 0; i < in->shape.rank; i++)
		if (i != unknown && __builtin_mul_overflow(known, in->shape.dim[i], &known))
			known = 0;
	if (known <= 0 || count % known) {
		reject(in, "its -1 dimension cannot be computed");
		return;
	}
	in->shape.dim[unknown] = count / known;
}

static void reshape_by(struct infer *in, const int64_t *want, int64_t n)
{
	const struct rvl_shape *x = shape_of(in, 0);
	int unknown = -1;

	if (n > RVL_MAX_RANK) {
		reject(in, "its shape has %lld dimensions, more than %d", (long long)n,
		       RVL_MAX_RANK);
		return;
	}
	in->shape.rank = (int32_t)n;
	for (int i = 0; i < n; i++) {
		int64_t d = want[i];

		if (d == 0 && !in->n->attr.allowzero)
			d = i < x->rank ? x->dim[i] : -2;
		if (d < -1 || d > RVL_MAX_DIM || (d == -1 && unknown >= 0)) {
			reject(in, "its shape is not valid");
			return;
		}
		if (d == -1)
			unknown = i;
		in->shape.dim[i] = d;
	}
	if (unknown >= 0)
		fill_unknown(in, unknown, rvl_shape_count(x));
}

static void infer_reshape(struct infer *in)
{
	const struct rvl_tensor *s = has(in, 1) ? in->n->in[1] : NULL;
	const struct rvl_tensor *y = in->n->out[0];

	in->type = in->n->in[0]->type;
	if (s && s->data && s->type == RVL_TYPE_S64 && s->shape.rank == 1)
		reshape_by(in, s->data, s->shape.dim[0]);
	else if (y->shaped)
		in->shape = y->shape;
	else
		reject(in, "its shape is computed at run time and the model declares none");
	if (!in->why && rvl_shape_count(&in->shape) != rvl_shape_count(shape_of(in, 0)))
		reject(in, "its shape has another number of elements than its input");
}

static void infer_transpose(struct infer *in)
{
	const struct rvl_shape *x = shape_of(in, 0);
	struct rvl_attr *a = &in->n->attr;

	in->type = in->n->in[0]->type;
	if (!a->perm_rank) {
		for (int i = 0; i < x->rank; i++)
			a->perm[i] = x->rank - 1 - i;
		a->perm_rank = x->rank;
	}
	if (a->perm_rank != x->rank) {
		reject(in, "perm has %d axes for an input of rank %d", a->perm_rank, x->rank);
		return;
	}
	in->shape.rank = x->rank;
	for (int i = 0; i < x->rank; i++)
		in->shape.dim[i] = x->dim[a->perm[i]];
}

static void infer_softmax(struct infer *in)
{
	infer_same(in);
	fix_axis(in, in->shape.rank, in->n->attr.flat_softmax);
}

#define infer_none NULL
static void (*const table[])(struct infer *) = {
#define RULE(id, num, name, inputs, kernel, rule, ...) [RVL_OP_##id] = infer_##rule,
	RVL_OPS(RULE)
#undef RULE
};
#undef infer_none

static bool dequantises(const struct rvl_node *n)
{
	return n->op == RVL_OP_DEQUANTIZE || (n->def && n->def->kernel == RVL_OP_DEQUANTIZE);
}

/* Inputs that no kernel can take: a bad type, or no static shape. */
static const char *bad_input(struct rvl_graph *g, const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct rvl_tensor *t = n->in[i];

		if (!t)
			continue;
		if (t->bad)
			return rvl_graph_printf(g, "its input '%.100s': %s", t->name, t->bad);
		if (t->nibbles && !dequantises(n))
			return rvl_graph_printf(g, "its input '%.100s' has 4 bits, which only DequantizeLinear takes",
						t->name);
		if (!t->shaped || !t->type)
			return rvl_graph_printf(g, "its input '%.100s' has no static shape", t->name);
		if (rvl_tensor_bytes(t) < 0)
			return rvl_graph_printf(g, "its input '%.100s' is too large", t->name);
	}
	return NULL;
}

/*
 * Asks the kernel whether all operands fit. A refusal is the reason of the node; only -ENOMEM is an
 * error.
 */
static int ask_kernel(struct infer *in)
{
	struct rvl_kernel_desc d;
	struct rvl_kernel *k;
	char why[RVL_WHY_MAX] = "";
	int rc;

	rvl_node_desc(in->n, &d);
	rc = rvl_kernel_new(&d, true, &k, why);
	if (!rc)
		rvl_kernel_free(k);
	else if (rc != -ENOMEM)
		reject(in, "%s", why);
	return rc == -ENOMEM ? rc : 0;
}

static void refuse(struct rvl_node *n, const char *why)
{
	if (n->op != RVL_OP_UNSUPPORTED) {
		n->op = RVL_OP_UNSUPPORTED;
		n->reason = why ? why : "out of memory";
	}
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && (!n->out[i]->shaped || !n->out[i]->type))
			n->out[i]->bad = "a result of an unsupported operator";
}

static void set_output(struct rvl_tensor *t, enum rvl_type type, const struct rvl_shape *shape)
{
	t->type = type;
	t->shape = *shape;
	t->shaped = true;
}

static const char *too_large(struct rvl_graph *g, const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_out; i++) {
		const struct rvl_tensor *t = n->out[i];

		if (!t)
			continue;
		if (rvl_tensor_bytes(t) < 0)
			return rvl_graph_printf(g, "its output '%.100s' is too large", t->name);
		for (int k = 0; k < t->shape.rank; k++)
			if (t->shape.dim[k] > RVL_MAX_DIM)
				return rvl_graph_printf(g, "a dimension of '%.100s' is beyond %d",
							t->name, RVL_MAX_DIM);
	}
	return NULL;
}

/* ---- operators of the table of descriptors ---- */

static bool outputs_declared(const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && (!n->out[i]->declared || !n->out[i]->type))
			return false;
	return true;
}

static bool reads_bounded(const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i] && n->in[i]->bounded)
			return true;
	return false;
}

static bool makes_bounded(const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && n->out[i]->bounded)
			return true;
	return false;
}

static void infer_general(struct infer *in)
{
	struct rvl_node *n = in->n;
	struct rvl_call c;
	int rc;

	rvl_node_call(n, &c);
	rc = rvl_op_infer(&c);
	if ((c.unknown || c.bounded) && rvl_extreme_reads(n))
		rc = rvl_extreme_infer(n, &c, rc);
	if (rc) {
		/* The run compares the shapes that only it knows with the declared ones. */
		if (!c.unknown || !outputs_declared(n))
			reject(in, "%s", c.why);
		return;
	}
	for (uint32_t i = 0; i < n->n_out; i++) {
		if (!n->out[i])
			continue;
		set_output(n->out[i], c.out[i].type, &c.out[i].shape);
		n->out[i]->bounded = c.bounded || reads_bounded(n);
	}
	in->why = too_large(in->g, n);
}

/*
 * Operators that the compiler adds are created with their shapes, so only operators of models have
 * a rule.
 */
static bool has_rule(enum rvl_op op)
{
	return (size_t)op < sizeof(table) / sizeof(table[0]) && table[op];
}

/* Applies the operator's own rule and asks whether its kernel takes the operands. */
static int infer_special(struct infer *in)
{
	struct rvl_node *n = in->n;

	if (reads_bounded(n)) {
		reject(in, "the shape of its input is known at run time only");
		return 0;
	}
	table[n->op](in);
	if (in->why)
		return 0;
	set_output(n->out[0], in->type, &in->shape);
	if (n->n_out > 1 && n->out[1])
		set_output(n->out[1], RVL_TYPE_S64, &in->shape);
	in->why = too_large(in->g, n);
	return in->why ? 0 : ask_kernel(in);
}

static int infer_node(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct infer in = { .g = g, .n = n };
	int rc = 0;

	if (n->op == RVL_OP_UNSUPPORTED) {
		refuse(n, NULL);
		return 0;
	}
	if (n->op != RVL_OP_GENERAL && !has_rule(n->op))
		return 0;
	in.why = bad_input(g, n);
	if (!in.why && n->op != RVL_OP_GENERAL)
		rc = infer_special(&in);
	/* A node that no special kernel takes is checked by its descriptor. */
	if (in.why && n->def && !bad_input(g, n)) {
		n->op = RVL_OP_GENERAL;
		in.why = NULL;
	}
	if (!in.why && n->op == RVL_OP_GENERAL)
		infer_general(&in);
	if (in.why)
		refuse(n, in.why);
	else if (!rc && n->def && (rvl_extreme_reads(n) || makes_bounded(n)))
		rc = rvl_extreme_note(g, n);
	return rc ? rvl_fail(err, rc, "no memory to check node '%s'", n->name) : 0;
}

/*
 * Nodes compute shapes, so everything that follows from shapes, and every small result of
 * constants, is evaluated at once. Dequantised weights stay, because fusion reads their scales.
 */
#define FOLD_WHILE_INFERRING 4096	/* elements */

static int fold_node(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	if (n->op == RVL_OP_UNSUPPORTED || n->op == RVL_OP_DEQUANTIZE || !n->n_out || !n->out[0] ||
	    rvl_shape_count(&n->out[0]->shape) > FOLD_WHILE_INFERRING)
		return 0;
	return rvl_node_evaluate(g, n, err);
}

static void reverse(struct rvl_node **n, uint32_t first, uint32_t past)
{
	while (first + 1 < past) {
		struct rvl_node *t = n[first];

		n[first++] = n[--past];
		n[past] = t;
	}
}

/*
 * Replaces a node of control flow by the nodes that it stands for. Returns 1 if that was done, 0 if
 * the node stays with a reason.
 */
static int expand(struct rvl_graph *g, uint32_t at, struct rvl_err *err)
{
	struct rvl_node *n = g->nodes[at];
	const char *why = bad_input(g, n);
	uint32_t rest = g->n_nodes - 1;	/* the nodes without @n; the new nodes begin there */
	int rc = why ? 0 : n->control->expand(g, n, &why, err);

	if (rc)
		return rc;
	if (why) {
		n->reason = why;
		refuse(n, why);
		return 0;
	}
	/*
	 * Moves the new nodes in front of those that followed @n: reverses each part, then both
	 * together.
	 */
	reverse(g->nodes, at, rest);
	reverse(g->nodes, rest, g->n_nodes);
	reverse(g->nodes, at, g->n_nodes);
	return 1;
}

static int check_input(const struct rvl_tensor *t, struct rvl_err *err)
{
	if (t->bad)
		return 0;	/* the nodes that use it are refused with a reason */
	if (t->shaped && rvl_tensor_bytes(t) < 0)
		return rvl_fail(err, -E2BIG, "input '%s' is larger than %lld bytes", t->name,
				(long long)RVL_MAX_TENSOR_BYTES);
	if (t->shaped)
		return 0;
	return rvl_fail(err, -EINVAL,
			"input '%s' has a symbolic or unknown dimension; give it a value (symbol, shape)", t->name);
}

int rvl_shape_infer(struct rvl_graph *g, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < g->n_inputs && !rc; i++)
		rc = check_input(g->inputs[i], err);
	for (uint32_t i = 0; i < g->n_nodes && !rc;) {
		struct rvl_node *n = g->nodes[i];

		if (n->control) {
			rc = expand(g, i, err);
			i += !rc;
			rc = rc > 0 ? 0 : rc;
			continue;
		}
		rc = infer_node(g, n, err);
		if (!rc)
			rc = fold_node(g, n, err);
		i += !rc;	/* the next node has taken the place of an evaluated one */
		rc = rc > 0 ? 0 : rc;
	}
	return rc;
}

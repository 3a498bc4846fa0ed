/* SPDX-License-Identifier: MIT */
/*
 * Transposed convolutions between bytes. With strides (s, t) the result consists of s x t images, its
 * phases: those of the pixels (s * j + p, t * i + q) for each p < s and q < t. Each phase is a convolution
 * of the operand by every s-th row and every t-th column of the kernel, without a product by a zero
 * between pixels:
 *
 *	x -> DQ -> ConvTranspose -> Q -> y	becomes	x -> DQ -> Conv, Q for each phase -> Concat -> DepthToSpace -> y
 *
 * Row o of the result adds x[i] * w[k] for all i * s + k = o + pad. For o = s * j + p let
 * p + pad = s * shift + first: then k = first + s * u and i = j + shift - u, u = 0, 1, ...
 */
#include "base/math.h"
#include "pass/pass.h"
#include "pass/passes.h"
#include "rivulet_op.h"

#include <errno.h>

#define MOST_STRIDE 4	 /* phases: its square */
#define MOST_TAPS 255	 /* of the kernel along an axis, and of padding */
#define MOST_ZEROS 2	 /* taps that a phase has beside the kernel's, along an axis */
#define OPSET 13	 /* whose Concat, DepthToSpace and Slice are used, if the model's is older */

/* The convolution of one phase along one axis. */
struct taps {
	int64_t first;		/* of the kernel */
	int64_t own;		/* taps that are the kernel's */
	int64_t n;		/* of the convolution, with taps of zeros at its ends */
	int64_t last;		/* tap of the convolution with the first one of the kernel; the others are before it */
	int64_t before, behind; /* padding */
};

struct transposed {
	struct rvl_graph *g;
	struct rvl_node *n, *relu, *q; /* @relu: between the two, or NULL */
	const struct rvl_node *dq;     /* of the weights */
	int64_t stride, group, outputs; /* outputs of a group */
	int64_t size[2];		/* of a phase */
	struct rvl_tensor *phase[MOST_STRIDE * MOST_STRIDE];
	struct rvl_err *err;
};

/* ---- what is rewritten ---- */

static int64_t attr_at(const struct rvl_call *c, const char *name, uint32_t i, int64_t other)
{
	uint32_t n;
	const int64_t *v = rvl_attr_ints(c, name, &n);

	return i < n ? v[i] : other;
}

static bool is_image(const struct rvl_tensor *t)
{
	return t->shaped && !t->bounded && t->shape.rank == 4 && rvl_shape_count(&t->shape) > 0;
}

/* Whether the weights have one scale for each output, or one for all. */
static bool weights_fit(const struct transposed *t)
{
	const struct rvl_tensor *w = t->dq && t->dq->op == RVL_OP_DEQUANTIZE ? t->dq->in[0] : NULL;
	int64_t scales;

	if (!w || !w->data || !t->dq->in[1]->data || (w->type != RVL_TYPE_U8 && w->type != RVL_TYPE_S8) ||
	    (t->dq->n_in > 2 && t->dq->in[2] && !t->dq->in[2]->data))
		return false;
	scales = rvl_shape_count(&t->dq->in[1]->shape);
	return scales == 1 || (t->dq->attr.axis == 1 && t->group == 1) ||
	       (t->dq->attr.axis == 0 && t->outputs == 1 && t->group == w->shape.dim[0]);
}

static bool attributes_fit(struct transposed *t)
{
	struct rvl_call c;
	uint32_t given;

	rvl_node_call(t->n, &c);
	rvl_attr_ints(&c, "output_shape", &given);
	if (given || (!rvl_attr_is(&c, "auto_pad", "NOTSET") && !rvl_attr_is(&c, "auto_pad", "")))
		return false;
	t->group = rvl_attr_int(&c, "group");
	t->stride = attr_at(&c, "strides", 0, 1);
	t->outputs = t->n->in[1]->shape.dim[1];
	for (uint32_t i = 0; i < 2; i++) {
		int64_t pad = attr_at(&c, "pads", i, 0);

		if (attr_at(&c, "dilations", i, 1) != 1 || attr_at(&c, "strides", i, 1) != t->stride ||
		    pad < 0 || pad > MOST_TAPS || t->n->in[1]->shape.dim[2 + i] > MOST_TAPS)
			return false;
	}
	return t->stride >= 1 && t->stride <= MOST_STRIDE;
}

static struct taps taps_of(const struct transposed *t, uint32_t axis, int64_t p)
{
	int64_t in = t->n->in[0]->shape.dim[2 + axis], kernel = t->n->in[1]->shape.dim[2 + axis];
	int64_t s = t->stride, pad, shift;
	struct rvl_call c;
	struct taps k;

	rvl_node_call(t->n, &c);
	pad = attr_at(&c, "pads", axis, 0);
	shift = (p + pad) / s;
	k.first = (p + pad) % s;
	k.own = k.first < kernel ? rvl_div_up(kernel - k.first, s) : 0;
	k.before = rvl_max(k.own - 1 - shift, 0);
	k.last = k.before + shift;
	k.n = k.last + 1;
	k.behind = t->size[axis] - 1 - k.before + k.last - (in - 1);
	if (k.behind < 0) { /* the phase does not read the end of the operand */
		k.n -= k.behind;
		k.behind = 0;
	}
	return k;
}

static bool phases_fit(struct transposed *t)
{
	for (uint32_t i = 0; i < 2; i++) {
		t->size[i] = rvl_div_up(t->n->out[0]->shape.dim[2 + i], t->stride);
		for (int64_t p = 0; p < t->stride; p++) {
			struct taps k = taps_of(t, i, p);

			if (k.n > k.own + MOST_ZEROS || k.before > MOST_TAPS || k.behind > MOST_TAPS)
				return false;
		}
	}
	return true;
}

static struct rvl_node *quantise_behind(const struct rvl_tensor *t)
{
	struct rvl_node *q = rvl_only_user(t);

	return q && q->op == RVL_OP_QUANTIZE && rvl_scale_is_constant(q) ? q : NULL;
}

/* Whether the node is the operator between bytes; finds what is around it. */
static bool find(struct transposed *t)
{
	const struct rvl_node *n = t->n;
	struct rvl_node *next;

	if (n->op != RVL_OP_GENERAL || n->def->role != RVL_ROLE_TRANSPOSED_CONV || !n->in[0]->producer ||
	    n->in[0]->producer->op != RVL_OP_DEQUANTIZE)
		return false;
	t->dq = n->in[1]->producer;
	next = rvl_only_user(n->out[0]);
	t->relu = next && next->op == RVL_OP_RELU ? next : NULL;
	t->q = quantise_behind(t->relu ? next->out[0] : n->out[0]);
	return t->q != NULL;
}

/* What the pass lacks of a node that find() accepts; NULL: nothing. */
static const char *lack(struct transposed *t)
{
	if (!is_image(t->n->in[0]) || !is_image(t->n->out[0]))
		return "only transposed convolutions of images";
	if (!attributes_fit(t))
		return "only transposed convolutions with equal strides up to 4, explicit pads and no dilation";
	if (!phases_fit(t))
		return "its padding takes away whole pixels of the operand";
	return weights_fit(t) ? NULL :
		"its weights are not constant bytes with one scale, or with one for each output";
}

const char *rvl_transposed_lack(const struct rvl_node *n)
{
	struct transposed t = { .n = (struct rvl_node *)n };

	return find(&t) ? lack(&t) : NULL;
}

/* ---- one phase ---- */

/* Row or column of the kernel at tap @a of the convolution, or -1: a zero. */
static int64_t kernel_at(const struct transposed *t, const struct taps *k, uint32_t axis, int64_t a)
{
	int64_t at = k->first + (k->last - a) * t->stride;

	return a <= k->last && at < t->n->in[1]->shape.dim[2 + axis] ? at : -1;
}

static uint8_t zero_of(const struct transposed *t, int64_t m)
{
	const struct rvl_tensor *z = t->dq->n_in > 2 ? t->dq->in[2] : NULL;

	return z ? ((const uint8_t *)z->data)[rvl_shape_count(&z->shape) > 1 ? m : 0] : 0;
}

/* The bytes of the weights of output @m. */
static void fill_weights(const struct transposed *t, const struct taps k[2], int64_t m, uint8_t *w)
{
	const struct rvl_tensor *old = t->dq->in[0];
	const int64_t *dim = old->shape.dim;
	int64_t channels = dim[0] / t->group, first = m / t->outputs * channels;

	for (int64_t c = 0; c < channels; c++)
		for (int64_t a = 0; a < k[0].n; a++)
			for (int64_t b = 0; b < k[1].n; b++, w++) {
				int64_t y = kernel_at(t, &k[0], 0, a), x = kernel_at(t, &k[1], 1, b);
				int64_t at = (first + c) * t->outputs + m % t->outputs;

				*w = y < 0 || x < 0 ? zero_of(t, m) :
						      ((const uint8_t *)old->data)[(at * dim[2] + y) * dim[3] + x];
			}
}

static int phase_weights(const struct transposed *t, const struct taps k[2], struct rvl_tensor **out)
{
	int64_t outputs = t->group * t->outputs;
	struct rvl_shape s = { .rank = 4, .dim = { outputs, t->n->in[1]->shape.dim[0] / t->group,
						   k[0].n, k[1].n } };
	int64_t row = rvl_shape_count(&s) / outputs;
	uint8_t *w = rvl_arena_array(t->g->arena, (size_t)outputs, (size_t)row);
	struct rvl_tensor *bytes;
	int rc = w ? 0 : rvl_fail(t->err, -ENOMEM, "no memory for weights");

	for (int64_t m = 0; m < outputs && !rc; m++)
		fill_weights(t, k, m, w + m * row);
	if (!rc)
		rc = rvl_tensor_new(t->g, NULL, &bytes, t->err);
	if (rc)
		return rc;
	bytes->type = t->dq->in[0]->type;
	bytes->shape = s;
	bytes->shaped = true;
	bytes->data = w;
	rc = rvl_tensor_like(t->g, bytes, out, t->err);
	if (rc)
		return rc;
	(*out)->type = RVL_TYPE_F32;
	return rvl_dequantise_as(t->g, t->dq, bytes, 0, *out, t->err);
}

/* A tensor like @like with the channels and the size of a phase. */
static int phase_tensor(const struct transposed *t, const struct rvl_tensor *like, struct rvl_tensor **out)
{
	int rc = rvl_tensor_like(t->g, like, out, t->err);

	if (rc)
		return rc;
	(*out)->shape.dim[2] = t->size[0];
	(*out)->shape.dim[3] = t->size[1];
	return 0;
}

static int phase_conv(const struct transposed *t, const struct taps k[2], struct rvl_tensor *y)
{
	struct rvl_tensor *in[3] = { t->n->in[0], NULL, t->n->n_in > 2 ? t->n->in[2] : NULL };
	struct rvl_node *conv;
	int rc = phase_weights(t, k, &in[1]);

	if (!rc)
		rc = rvl_node_new(t->g, RVL_OP_CONV, NULL, &conv, t->err);
	for (uint32_t i = 0; i < 3 && !rc; i++)
		if (in[i])
			rc = rvl_node_set_in(t->g, conv, i, in[i], t->err);
	if (rc)
		return rc;
	conv->op_type = rvl_op_name(RVL_OP_CONV);
	conv->attr.group = (int32_t)t->group;
	for (int i = 0; i < 2; i++) {
		conv->attr.kernel[i] = (int32_t)k[i].n;
		conv->attr.pad[i] = (int32_t)k[i].before;
		conv->attr.pad[2 + i] = (int32_t)k[i].behind;
	}
	if (t->relu)
		conv->attr.f_lo = 0;
	rvl_note_fused(t->g, conv, t->n);
	rvl_node_set_out(conv, 0, y);
	return 0;
}

static int make_phase(struct transposed *t, int64_t p, int64_t r)
{
	const struct taps k[2] = { taps_of(t, 0, p), taps_of(t, 1, r) };
	struct rvl_tensor *y, **bytes = &t->phase[p * t->stride + r];
	int rc = phase_tensor(t, t->n->out[0], &y);

	if (!rc)
		rc = phase_conv(t, k, y);
	*bytes = t->q->out[0];
	if (!rc && t->stride > 1)
		rc = phase_tensor(t, t->q->out[0], bytes);
	return rc ? rc : rvl_quantise(t->g, y, t->q->in[1], t->q->n_in > 2 ? t->q->in[2] : NULL, *bytes, t->err);
}

/* ---- their result ---- */

static int join_phases(const struct transposed *t, struct rvl_tensor *all)
{
	const struct rvl_op_def *def = rvl_op_of_role(RVL_ROLE_JOIN, rvl_max(t->g->opset, OPSET));
	const struct rvl_named_value channels = { "axis", { .given = true, .i = 1 } };
	struct rvl_node *n;
	int rc = rvl_node_of_role(t->g, def, &channels, 1, all, &n, t->err);

	for (int64_t i = 0; i < t->stride * t->stride && !rc; i++)
		rc = rvl_node_set_in(t->g, n, (uint32_t)i, t->phase[i], t->err);
	return rc;
}

static int to_pixels(const struct transposed *t, struct rvl_tensor *all, struct rvl_tensor *y)
{
	const struct rvl_op_def *def =
		rvl_op_of_role(RVL_ROLE_CHANNELS_TO_PIXELS, rvl_max(t->g->opset, OPSET));
	const struct rvl_named_value size = { "blocksize", { .given = true, .i = t->stride } };
	struct rvl_node *n;
	int rc = rvl_node_of_role(t->g, def, &size, 1, y, &n, t->err);

	return rc ? rc : rvl_node_set_in(t->g, n, 0, all, t->err);
}

/* The first rows and columns of @x are @y. */
static int cut(const struct transposed *t, struct rvl_tensor *x, struct rvl_tensor *y)
{
	const struct rvl_op_def *def = rvl_op_of_role(RVL_ROLE_CUT, rvl_max(t->g->opset, OPSET));
	const struct rvl_shape two = { .rank = 1, .dim = { 2 } };
	const int64_t list[3][2] = { { 0, 0 }, { y->shape.dim[2], y->shape.dim[3] }, { 2, 3 } };
	struct rvl_tensor *in;
	struct rvl_node *n;
	int rc = rvl_node_of_role(t->g, def, NULL, 0, y, &n, t->err);

	if (!rc)
		rc = rvl_node_set_in(t->g, n, 0, x, t->err);
	for (uint32_t i = 0; i < 3 && !rc; i++) {
		rc = rvl_tensor_const(t->g, NULL, RVL_TYPE_S64, &two, list[i], &in, t->err);
		if (!rc)
			rc = rvl_node_set_in(t->g, n, 1 + i, in, t->err);
	}
	return rc;
}

static int assemble(const struct transposed *t, struct rvl_tensor *y)
{
	struct rvl_tensor *all, *wide = y;
	int64_t s = t->stride;
	int rc = 0;

	if (y->shape.dim[2] != t->size[0] * s || y->shape.dim[3] != t->size[1] * s) {
		rc = phase_tensor(t, y, &wide);
		if (rc)
			return rc;
		wide->shape.dim[2] *= s;
		wide->shape.dim[3] *= s;
	}
	rc = phase_tensor(t, y, &all);
	if (rc)
		return rc;
	all->shape.dim[1] *= s * s;
	rc = join_phases(t, all);
	if (!rc)
		rc = to_pixels(t, all, wide);
	return rc || wide == y ? rc : cut(t, wide, y);
}

static int rewrite(struct transposed *t)
{
	struct rvl_tensor *y = t->q->out[0];
	int rc = 0;

	for (int64_t p = 0; p < t->stride; p++)
		for (int64_t r = 0; r < t->stride && !rc; r++)
			rc = make_phase(t, p, r);
	if (!rc && t->stride > 1)
		rc = assemble(t, y);
	if (rc)
		return rc;
	rvl_node_remove(t->g, t->q);
	if (t->relu)
		rvl_node_remove(t->g, t->relu);
	rvl_node_remove(t->g, t->n);
	return 0;
}

int rvl_pass_transposed(struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_node **list;
	uint32_t n;
	int rc = rvl_graph_nodes(g, &list, &n, err);

	for (uint32_t i = 0; !rc && i < n; i++) {
		struct transposed t = { .g = g, .n = list[i], .err = err };

		if (find(&t) && !lack(&t))
			rc = rewrite(&t);
	}
	return rc ? rc : rvl_graph_sort(g, err);
}

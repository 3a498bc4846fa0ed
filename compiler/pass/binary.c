/* SPDX-License-Identifier: MIT */
/*
 * Finds layers whose inputs and weights have two values and makes BinarySign and BinaryConv of them.
 * A layer that lacks one of the two conditions stays as it is, and its note says why.
 */
#include "pass/binary.h"
#include "pass/pass.h"
#include "pass/passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bits that the pass has made of a tensor. */
struct made {
	struct rvl_tensor *bits;	/* NULL: not tried, or none */
	struct rvl_signs signs;
	bool tried;
	const char *why;
};

struct search {
	struct rvl_graph *g;
	struct made *made;	/* by tensor id, of those that were there at the beginning */
	uint32_t n_tensors;
	struct rvl_err *err;
};

/* A product as a convolution: what it reads, through Pad and MaxPool, and its weights. */
struct layer {
	struct rvl_node *n;
	struct rvl_tensor *source;	/* the tensor of two values */
	const struct rvl_node *pad, *pool;
	float pad_value;
	int64_t pads[8];
	const int64_t *pad_list;
	struct rvl_binary_weights w;
	int64_t group;
	const float *bias;	/* or NULL */
	int64_t bias_step;
	const struct made *made;
};

/* ---- the product ---- */

static bool plain_bias(struct layer *l)
{
	const struct rvl_node *n = l->n;

	if (n->n_in < 3 || !n->in[2])
		return true;
	if (n->in[2]->type == RVL_TYPE_F32 && n->in[2]->data && n->op == RVL_OP_CONV &&
	    rvl_shape_count(&n->in[2]->shape) == l->w.m) {
		l->bias = n->in[2]->data;
		l->bias_step = 1;
	} else {
		l->bias = rvl_channel_constant(n->in[2], &n->out[0]->shape, &l->bias_step);
	}
	return l->bias && (n->op == RVL_OP_CONV || n->attr.beta == 1);
}

static bool read_conv(struct layer *l)
{
	const struct rvl_shape *s = &l->n->in[1]->shape;

	if (s->rank != 4 || l->n->out[0]->shape.rank != 4)
		return false;
	l->group = l->n->attr.group;
	l->w = (struct rvl_binary_weights) {
		.m = s->dim[0], .channels = s->dim[1], .kh = s->dim[2], .kw = s->dim[3],
		.data = l->n->in[1]->data, .at_m = s->dim[1] * s->dim[2] * s->dim[3],
		.at_c = s->dim[2] * s->dim[3], .at_tap = 1,
	};
	return true;
}

static bool read_matrix(struct layer *l)
{
	const struct rvl_attr *a = &l->n->attr;
	const struct rvl_shape *s = &l->n->in[1]->shape;
	bool rows = l->n->op == RVL_OP_GEMM && a->trans_b;

	if (s->rank != 2 || l->n->out[0]->shape.rank != 2 ||
	    (l->n->op == RVL_OP_GEMM && (a->trans_a || a->alpha != 1)))
		return false;
	l->group = 1;
	l->w = (struct rvl_binary_weights) {
		.m = s->dim[rows ? 0 : 1], .channels = s->dim[rows ? 1 : 0], .kh = 1, .kw = 1,
		.data = l->n->in[1]->data, .at_m = rows ? s->dim[1] : 1,
		.at_c = rows ? 1 : s->dim[1], .at_tap = 1,
	};
	return true;
}

static bool read_product(struct layer *l)
{
	const struct rvl_node *n = l->n;
	const struct rvl_tensor *w = n->n_in > 1 ? n->in[1] : NULL;

	if (!w || !w->data || w->type != RVL_TYPE_F32 || !n->out[0]->shaped || n->out[0]->bounded ||
	    !rvl_is_unclamped(&n->attr) || n->in[0]->data || rvl_shape_count(&w->shape) < 1 ||
	    rvl_shape_count(&n->out[0]->shape) < 1)
		return false;
	if (!(n->op == RVL_OP_CONV ? read_conv(l) : read_matrix(l)))
		return false;
	return l->w.channels * l->w.kh * l->w.kw <= RVL_B_MOST_PRODUCTS && plain_bias(l);
}

/* A matrix whose columns are the channels and pixels of an image: a window of the image's size. */
static void read_flatten(struct layer *l)
{
	const struct rvl_node *n = l->source->producer;
	const struct rvl_shape *x = n && n->in[0] ? &n->in[0]->shape : NULL;
	int64_t plane;

	if (!n || (n->op != RVL_OP_FLATTEN && n->op != RVL_OP_RESHAPE) || l->source->shape.rank != 2 ||
	    x->rank != 4 || x->dim[0] != l->source->shape.dim[0])
		return;
	plane = x->dim[2] * x->dim[3];
	l->source = n->in[0];
	l->w.kh = x->dim[2];
	l->w.kw = x->dim[3];
	l->w.channels = x->dim[1];
	l->w.at_tap = l->w.at_c;
	l->w.at_c *= plane;
}

static void read_source(struct layer *l)
{
	const struct rvl_node *n;

	l->source = l->n->in[0];
	if (l->n->op != RVL_OP_CONV)
		read_flatten(l);
	n = l->source->producer;
	if (n && l->n->op == RVL_OP_CONV && rvl_op_pads(n, &l->pad_value)) {
		l->pad_list = rvl_pixel_pads(n, l->pads);
		l->pad = n;
		if (!l->pad_list)
			return;
		l->source = n->in[0];
		n = l->source->producer;
	}
	if (n && n->op == RVL_OP_MAX_POOL && n->n_out == 1 && n->in[0]->type == RVL_TYPE_F32) {
		l->pool = n;
		l->source = n->in[0];
	}
}

/* ---- bits ---- */

/* The node that makes bits of @y's shape from @x. */
static int new_bits(struct rvl_graph *g, struct rvl_node *n, const struct rvl_shape *image,
		    struct rvl_tensor **out, struct rvl_err *err)
{
	int64_t words = rvl_b_words(image->dim[1]);
	bool pixels = image->rank == 4;
	int rc = rvl_tensor_new(g, NULL, out, err);

	if (rc)
		return rc;
	(*out)->type = RVL_TYPE_U64;
	(*out)->shaped = true;
	(*out)->shape = (struct rvl_shape) {
		.rank = 3, .dim = { image->dim[0], pixels ? image->dim[2] : 1,
				    (pixels ? image->dim[3] : 1) * words },
	};
	rvl_node_set_out(n, 0, *out);
	return 0;
}

static int new_sign(struct search *s, const struct rvl_signs *signs, const struct rvl_tensor *t,
		    struct rvl_tensor **bits)
{
	struct rvl_graph *g = s->g;
	struct rvl_shape row = { .rank = 1, .dim = { signs->channels } };
	struct rvl_tensor *threshold;
	struct rvl_node *n;
	int rc = rvl_node_new(g, RVL_OP_B_SIGN, t->producer->name, &n, s->err);

	if (rc)
		return rc;
	n->op_type = "BinarySign";
	if (signs->sign_of_zero)
		n->note = "Sign(0) is 0 in ONNX and 1 here";
	rc = rvl_node_set_in(g, n, 0, signs->x, s->err);
	if (!rc)
		rc = rvl_tensor_const(g, NULL, RVL_TYPE_F32, &row, signs->threshold, &threshold, s->err);
	if (!rc)
		rc = rvl_node_set_in(g, n, 1, threshold, s->err);
	return rc ? rc : new_bits(g, n, &t->shape, bits, s->err);
}

/* The bits of @t, made once. *out has none where @t is no tensor of two values. */
static int bits_of(struct search *s, struct rvl_tensor *t, const struct made **out)
{
	static const struct made none;
	struct made *m;
	int rc = 0;

	*out = &none;
	if (t->id >= s->n_tensors)
		return 0;
	m = &s->made[t->id];
	*out = m;
	if (m->tried)
		return 0;
	m->tried = true;
	rc = rvl_binary_signs(s->g, t, &m->signs, &m->why, s->err);
	return rc == -ENOENT ? 0 : rc;
}

static bool any_inverted(const struct rvl_signs *s, bool value)
{
	for (int64_t c = 0; c < s->channels; c++)
		if (s->inverted[c] == value)
			return true;
	return false;
}

/* What a position of the padding counts as; false where it is none of 0, 1 and -1 in all channels. */
static bool padding_of(const struct layer *l, int32_t *padding)
{
	const struct rvl_signs *s = &l->made->signs;
	bool own = false;

	for (int i = 0; i < 4; i++)
		own |= l->n->op == RVL_OP_CONV && l->n->attr.pad[i];
	*padding = 0;
	if (!l->pad || l->pad_value == 0)
		return true;
	if (own || fabsf(l->pad_value) != s->size || (any_inverted(s, true) && any_inverted(s, false)))
		return false;
	*padding = (l->pad_value > 0) != s->inverted[0] ? 1 : -1;
	return true;
}

/* ---- the layer ---- */

static void set_attributes(struct rvl_node *b, const struct layer *l, int32_t padding)
{
	b->attr.kernel[0] = (int32_t)l->w.kh;
	b->attr.kernel[1] = (int32_t)l->w.kw;
	b->attr.group = (int32_t)l->group;
	b->attr.block = (int32_t)l->made->signs.channels;
	b->attr.count_include_pad = padding;
	if (l->n->op != RVL_OP_CONV)
		return;
	memcpy(b->attr.stride, l->n->attr.stride, sizeof(b->attr.stride));
	memcpy(b->attr.dilation, l->n->attr.dilation, sizeof(b->attr.dilation));
	memcpy(b->attr.pad, l->n->attr.pad, sizeof(b->attr.pad));
	if (l->pad)
		rvl_add_padding(b, l->pad_list);
}

static int set_operands(struct search *s, struct rvl_node *b, const struct layer *l,
			struct rvl_tensor *bits)
{
	float *scale = rvl_arena_array(s->g->arena, (size_t)l->w.m * 2, sizeof(*scale));
	float *bias = scale ? scale + l->w.m : NULL;
	struct rvl_tensor *w;
	int rc;

	if (!scale)
		return rvl_fail(s->err, -ENOMEM, "no memory for a binary layer");
	for (int64_t m = 0; m < l->w.m; m++) {
		scale[m] = l->w.size[m] * l->made->signs.size;
		bias[m] = l->bias ? l->bias[m * l->bias_step] : 0;
	}
	rc = rvl_binary_pack(s->g, &l->w, l->group, l->made->signs.inverted, &w, s->err);
	if (!rc)
		rc = rvl_node_set_in(s->g, b, RVL_B_X, bits, s->err);
	if (!rc)
		rc = rvl_node_set_in(s->g, b, RVL_B_W, w, s->err);
	if (!rc)
		rc = rvl_binary_floats(s->g, b, RVL_B_SCALE, scale, 1, l->w.m, s->err);
	return rc ? rc : rvl_binary_floats(s->g, b, RVL_B_BIAS, bias, 1, l->w.m, s->err);
}

static int pooled(struct search *s, const struct layer *l, struct rvl_tensor **bits)
{
	struct rvl_node *n;
	int rc = rvl_node_new(s->g, RVL_OP_B_MAX_POOL, l->pool->name, &n, s->err);

	if (rc)
		return rc;
	n->op_type = "BinaryMaxPool";
	n->attr = l->pool->attr;
	n->attr.block = (int32_t)l->made->signs.channels;
	rc = rvl_node_set_in(s->g, n, 0, *bits, s->err);
	return rc ? rc : new_bits(s->g, n, &l->pool->out[0]->shape, bits, s->err);
}

/* Replaces the product. */
static int make_layer(struct search *s, struct layer *l, int32_t padding)
{
	struct made *made = &s->made[l->source->id];
	struct rvl_tensor *y = l->n->out[0], *bits = made->bits;
	struct rvl_node *b;
	int rc = 0;

	if (!bits) {
		rc = new_sign(s, &made->signs, l->source, &bits);
		made->bits = bits;
	}
	if (!rc && l->pool)
		rc = pooled(s, l, &bits);
	if (!rc)
		rc = rvl_node_new(s->g, RVL_OP_B_CONV, l->n->name, &b, s->err);
	if (!rc)
		rc = set_operands(s, b, l, bits);
	if (rc)
		return rc;
	b->op_type = "BinaryConv";
	set_attributes(b, l, padding);
	rvl_node_remove(s->g, l->n);
	rvl_node_set_out(b, 0, y);
	return 1;
}

/* Whether the kernel takes scales and biases. */
static bool has_parameters(const struct layer *l)
{
	for (int64_t m = 0; m < l->w.m; m++)
		if (!(l->w.size[m] * l->made->signs.size < RVL_B_MOST_PARAMETER) ||
		    !(fabsf(l->bias ? l->bias[m * l->bias_step] : 0) < RVL_B_MOST_PARAMETER))
			return false;
	return true;
}

static int keep(struct layer *l, const char *why)
{
	l->n->note = why;
	return 0;
}

/* 1: the product became a layer. 0: it stays. */
static int try_product(struct search *s, struct rvl_node *n)
{
	struct layer l = { .n = n };
	const char *why = NULL;
	bool binary_weights;
	int32_t padding;
	int rc;

	if (!read_product(&l))
		return 0;
	read_source(&l);
	rc = bits_of(s, l.source, &l.made);
	if (rc)
		return rc;
	binary_weights = rvl_binary_sizes(s->g, &l.w, &why);
	if (!l.made->signs.x)
		return keep(&l, l.made->why ? l.made->why : binary_weights && l.w.both ?
			    "not binary: its weights have two values, but its input is no sign" : NULL);
	if (!binary_weights)
		return keep(&l, why);
	if (l.made->signs.channels != l.w.channels * l.group)
		return keep(&l, "not binary: the signs are not those of its channels");
	if (l.pool && any_inverted(&l.made->signs, true))
		return keep(&l, "not binary: a MaxPool of signs that fall with their operand");
	if ((l.pad && !l.pad_list) || !padding_of(&l, &padding))
		return keep(&l, "not binary: its padding is neither 0 nor one of the two values");
	if (!has_parameters(&l))
		return keep(&l, "not binary: its weights or biases are no numbers below 2^60");
	why = s->g->keeps_int8 ? s->g->keeps_int8(s->g->target, l.w.m, l.group) : NULL;
	if (why)
		return keep(&l, why);
	return make_layer(s, &l, padding);
}

static bool is_product(const struct rvl_node *n)
{
	return n->op == RVL_OP_CONV || n->op == RVL_OP_GEMM || n->op == RVL_OP_MATMUL;
}

static int find_layers(struct search *s, uint32_t *found)
{
	uint32_t i = 0;

	while (i < s->g->n_nodes) {
		int rc = is_product(s->g->nodes[i]) ? try_product(s, s->g->nodes[i]) : 0;

		if (rc < 0)
			return rc;
		*found += rc > 0;
		i += !rc;
	}
	return 0;
}

int rvl_pass_binary(struct rvl_graph *g, struct rvl_err *err)
{
	struct search s = { .g = g, .n_tensors = g->n_tensors, .err = err };
	uint32_t found = 0;
	int rc;

	if (g->no_binary)
		return 0;
	s.made = calloc(s.n_tensors + 1u, sizeof(*s.made));
	rc = s.made ? find_layers(&s, &found) : rvl_fail(err, -ENOMEM, "no memory for binary layers");
	free(s.made);
	if (!rc && found)
		rc = rvl_graph_sort(g, err);
	if (!rc && found)
		rc = rvl_pass_clean(g, err);
	if (!rc)
		rc = rvl_binary_fold(g, err);
	if (!rc)
		rc = rvl_binary_concat(g, err);
	return rc ? rc : rvl_binary_join(g, err);
}

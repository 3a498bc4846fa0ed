/* SPDX-License-Identifier: MIT */
#include "quant/equalise.h"

#include "pass/pass.h"
#include "quant/choose.h"

#include <errno.h>
#include <string.h>

#define MAX_FACTOR 1024.0f /* either way, so that no channel vanishes */

/* Weights by channels: element i of part o of channel c is at o * step + c * inner + i. */
struct side {
	const struct rvl_node *n;
	float *w; /* a copy that replaces the weights */
	int64_t channels, outer, step, inner;
};

/* The weights that compute each channel: their rows. */
static struct side maker_of(const struct rvl_node *n)
{
	const struct rvl_shape *s = &n->in[1]->shape;

	return (struct side) { .n = n, .channels = s->dim[0], .outer = 1,
			       .inner = rvl_shape_count(s) / s->dim[0] };
}

/* The weights that read each channel: their columns, or the rows of a depthwise convolution. */
static struct side taker_of(const struct rvl_node *n)
{
	const struct rvl_shape *s = &n->in[1]->shape;
	int64_t window = s->dim[2] * s->dim[3];

	if (n->attr.group > 1)
		return maker_of(n);
	return (struct side) { .n = n, .channels = s->dim[1], .outer = s->dim[0],
			       .step = s->dim[1] * window, .inner = window };
}

static float *element(const struct side *s, int64_t channel, int64_t outer)
{
	return s->w + outer * s->step + channel * s->inner;
}

static float range_of(const struct side *s, int64_t channel)
{
	float top = 0;

	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t i = 0; i < s->inner; i++)
			top = fmaxf(top, fabsf(element(s, channel, o)[i]));
	return top;
}

static void scale(const struct side *s, int64_t channel, float factor)
{
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t i = 0; i < s->inner; i++)
			element(s, channel, o)[i] *= factor;
}

static bool is_conv(const struct rvl_node *n)
{
	const struct rvl_tensor *b = n->n_in > 2 ? n->in[2] : NULL;

	return n->op == RVL_OP_CONV && rvl_is_product(n) && n->in[1]->shape.rank == 4 &&
	       (!b || rvl_shape_count(&b->shape) == n->in[1]->shape.dim[0]);
}

/*
 * A grouped convolution is supported only where each group is one channel, because a row of weights
 * then belongs to one channel.
 */
static bool takes_channels(const struct rvl_node *n, int64_t channels)
{
	const struct rvl_shape *s;

	if (!is_conv(n))
		return false;
	s = &n->in[1]->shape;
	return n->attr.group == 1 ? s->dim[1] == channels :
	       n->attr.group == channels && s->dim[0] == channels && s->dim[1] == 1;
}

static bool keeps_channels(const struct rvl_node *n)
{
	return rvl_op_traits(n->op) & RVL_TRAIT_CHANNELS;
}

static bool homogeneous(const struct rvl_node *n)
{
	return rvl_is_relu_clamp(&n->attr) || rvl_is_unclamped(&n->attr);
}

/* The convolution that alone reads what @n makes, or NULL. */
static struct rvl_node *next_conv(const struct rvl_node *n)
{
	struct rvl_node *user = rvl_only_user(n->out[0]);

	while (user && keeps_channels(user) && user->n_out == 1)
		user = rvl_only_user(user->out[0]);
	return user && takes_channels(user, n->out[0]->shape.dim[1]) ? user : NULL;
}

static int own(struct rvl_graph *g, struct rvl_node *n, uint32_t i, float **v, struct rvl_err *err)
{
	struct rvl_tensor *t = n->in[i], *copy;
	int rc = rvl_tensor_const(g, NULL, RVL_TYPE_F32, &t->shape, t->data, &copy, err);

	if (rc)
		return rc;
	*v = (float *)(uintptr_t)copy->data;
	return rvl_node_set_in(g, n, i, copy, err);
}

static int equalise_pair(struct rvl_graph *g, struct rvl_node *a, struct rvl_node *b, struct rvl_err *err)
{
	struct side from = maker_of(a), to = taker_of(b);
	float *bias = NULL;
	int rc = own(g, a, 1, &from.w, err);

	if (!rc)
		rc = own(g, b, 1, &to.w, err);
	if (!rc && a->n_in > 2 && a->in[2])
		rc = own(g, a, 2, &bias, err);
	for (int64_t c = 0; c < from.channels && !rc; c++) {
		float r1 = range_of(&from, c), r2 = range_of(&to, c), s = sqrtf(r1 / r2);

		if (!(r1 > 0) || !(r2 > 0) || !isfinite(s))
			continue;
		s = fminf(fmaxf(s, 1 / MAX_FACTOR), MAX_FACTOR);
		scale(&from, c, 1 / s);
		scale(&to, c, s);
		if (bias)
			bias[c] /= s;
	}
	return rc;
}

int rvl_equalise(struct rvl_graph *g, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < g->n_nodes && !rc; i++) {
		struct rvl_node *n = g->nodes[i];
		struct rvl_node *next = is_conv(n) && homogeneous(n) ? next_conv(n) : NULL;

		if (next)
			rc = equalise_pair(g, n, next, err);
	}
	return rc;
}

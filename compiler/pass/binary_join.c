/* SPDX-License-Identifier: MIT */
/*
 * A BinarySign behind a BinaryConv becomes a result of it. Where nothing else reads the values, the
 * layer compares its integer sums: the threshold of a channel is the least sum whose value, computed
 * as the layer computes it, reaches the threshold of the sign.
 */
#include "pass/binary.h"
#include "pass/pass.h"

#include <errno.h>
#include <string.h>

/* The parameters of channel m. */
struct channel {
	float lo, hi, scale, bias, slope, after;
	bool prelu;
};

static struct channel channel_of(const struct rvl_node *n, int64_t m)
{
	const float *prelu = rvl_binary_input(n, RVL_B_PRELU);
	int64_t count = n->in[RVL_B_W]->shape.dim[0];

	return (struct channel) {
		.lo = n->attr.f_lo, .hi = n->attr.f_hi,
		.scale = rvl_binary_input(n, RVL_B_SCALE)[m],
		.bias = rvl_binary_input(n, RVL_B_BIAS)[m], .prelu = prelu,
		.slope = prelu ? prelu[m] : 1, .after = prelu ? prelu[count + m] : 0,
	};
}

/* docs/numerics.md 13. */
static float value_of(const struct channel *c, int64_t sum)
{
	float a = fminf(fmaxf((float)sum, c->lo), c->hi), u = fmaf(a, c->scale, c->bias);

	if (c->prelu)
		u = (u < 0 ? u * c->slope : u) + c->after;
	return u;
}

/* The least sum from -@most to @most that reaches @threshold; the value does not fall with it. */
static int32_t least_sum(const struct channel *c, int64_t most, float threshold)
{
	int64_t lo = -most - 1, hi = most + 1;

	while (hi - lo > 1) {
		int64_t middle = (lo + hi) >> 1;

		if (value_of(c, middle) >= threshold)
			hi = middle;
		else
			lo = middle;
	}
	return hi == most + 1 ? INT32_MAX : hi == -most ? INT32_MIN : (int32_t)hi;
}

/* Whether the values rise with the sum in each channel, or do with the weights inverted. */
static bool can_compare_sums(const struct rvl_node *n)
{
	int64_t channels = n->in[RVL_B_W]->shape.dim[0];

	if (n->n_out > 1 || (n->n_in > RVL_B_SHORTCUT && n->in[RVL_B_SHORTCUT]))
		return false;
	for (int64_t m = 0; m < channels; m++) {
		struct channel c = channel_of(n, m);

		if (c.slope < 0 || (c.scale < 0 && !rvl_is_unclamped(&n->attr)))
			return false;
	}
	return true;
}

/* Inverts the weights of channels whose scale is negative: their sums and scales change signs. */
static int make_rising(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	const struct rvl_tensor *old = n->in[RVL_B_W];
	int64_t m = old->shape.dim[0], taps = old->shape.dim[1] * old->shape.dim[2];
	int64_t words = old->shape.dim[3], channels = n->attr.block / n->attr.group;
	float *scale = rvl_arena_array(g->arena, (size_t)m, sizeof(*scale));
	struct rvl_tensor *t;
	uint64_t *w;
	int rc = scale ? rvl_tensor_const(g, NULL, RVL_TYPE_U64, &old->shape, old->data, &t, err) :
			 rvl_fail(err, -ENOMEM, "no memory for weights");

	if (rc)
		return rc;
	w = (uint64_t *)(uintptr_t)t->data;
	memcpy(scale, rvl_binary_input(n, RVL_B_SCALE), (size_t)m * sizeof(*scale));
	for (int64_t i = 0; i < m; i++) {
		for (int64_t k = 0; scale[i] < 0 && k < taps * channels; k++) {
			int64_t word = (i * taps + k / channels) * words + k % channels / 64;

			w[word] ^= 1ull << k % channels % 64;
		}
		scale[i] = fabsf(scale[i]);
	}
	rc = rvl_node_set_in(g, n, RVL_B_W, t, err);
	return rc ? rc : rvl_binary_floats(g, n, RVL_B_SCALE, scale, 1, m, err);
}

static int compare_sums(struct rvl_graph *g, struct rvl_node *n, const float *threshold,
			struct rvl_err *err)
{
	const struct rvl_shape *w = &n->in[RVL_B_W]->shape;
	struct rvl_shape row = { .rank = 1, .dim = { w->dim[0] } };
	int64_t most = w->dim[1] * w->dim[2] * (n->attr.block / n->attr.group);
	int32_t *least = rvl_arena_array(g->arena, (size_t)w->dim[0], sizeof(*least));
	struct rvl_tensor *t;
	int rc = least ? make_rising(g, n, err) : rvl_fail(err, -ENOMEM, "no memory for thresholds");

	for (int64_t m = 0; !rc && m < row.dim[0]; m++) {
		struct channel c = channel_of(n, m);

		least[m] = least_sum(&c, most, threshold[m]);
	}
	if (!rc)
		rc = rvl_tensor_const(g, NULL, RVL_TYPE_S32, &row, least, &t, err);
	if (!rc)
		rc = rvl_node_set_in(g, n, RVL_B_THRESHOLD, t, err);
	for (uint32_t i = RVL_B_PRELU; i >= RVL_B_SCALE && !rc; i--)
		if (i != RVL_B_THRESHOLD && i < n->n_in)
			rc = rvl_node_set_in(g, n, i, NULL, err);
	return rc;
}

/* @sign reads the result of @n. */
static int join(struct rvl_graph *g, struct rvl_node *n, struct rvl_node *sign, struct rvl_err *err)
{
	struct rvl_tensor *bits = sign->out[0], *threshold = sign->in[1];
	bool only = rvl_only_user(n->out[0]) == sign && can_compare_sums(n);
	int rc = only ? compare_sums(g, n, threshold->data, err) :
			rvl_node_set_in(g, n, RVL_B_THRESHOLD, threshold, err);

	if (rc)
		return rc;
	rvl_note_fused(g, n, sign);
	n->note = n->note ? n->note : sign->note;
	rvl_node_remove(g, sign);
	rvl_node_set_out(n, only ? 0 : 1, bits);
	return 1;
}

static struct rvl_node *sign_behind(const struct rvl_node *n)
{
	const struct rvl_tensor *y = n->out[0];

	for (uint32_t i = 0; n->op == RVL_OP_B_CONV && n->n_out == 1 && i < y->n_users; i++)
		if (y->users[i]->op == RVL_OP_B_SIGN && y->type == RVL_TYPE_F32)
			return y->users[i];
	return NULL;
}

int rvl_binary_join(struct rvl_graph *g, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < g->n_nodes && rc >= 0; i++) {
		struct rvl_node *sign = sign_behind(g->nodes[i]);

		if (sign)
			rc = join(g, g->nodes[i], sign, err);
	}
	return rc < 0 ? rc : rvl_graph_sort(g, err);
}

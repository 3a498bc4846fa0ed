/* SPDX-License-Identifier: MIT */
/* Operators on sequences of tokens: rotary positions, causal convolution, linear attention. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "rivulet_op.h"

static int need_shape(struct rvl_call *c, uint32_t input, const struct rvl_shape *s)
{
	if (!rvl_has(c, input))
		return 0;
	if (!rvl_shape_equal(&c->in[input].shape, s))
		return rvl_op_fail(c, "its input %u does not have the shape that input 0 asks for",
				   input);
	return 0;
}

#define NEED(c, input, ...) \
	need_shape(c, input, &(const struct rvl_shape) { \
		.rank = (int32_t)(sizeof((int64_t[]) { __VA_ARGS__ }) / sizeof(int64_t)), \
		.dim = { __VA_ARGS__ } })

/* ---- RotaryEmbedding ---- */

/* Heads of @size values, of which the first 2 * half are rotated. */
struct rotary {
	const struct rvl_call *c;
	bool packed, interleaved;
	int64_t batch, heads, length, size, half;
};

static int rotary_heads(struct rvl_call *c, struct rotary *r)
{
	const struct rvl_shape *x = &c->in[0].shape;

	if (x->rank != 3 && x->rank != 4)
		return rvl_op_fail(c, "its input 0 has rank %d, not 3 or 4", x->rank);
	*r = (struct rotary) { .c = c, .packed = x->rank == 3, .batch = x->dim[0],
			       .length = x->dim[x->rank - 2] };
	r->heads = r->packed ? rvl_attr_int(c, "num_heads") : x->dim[1];
	r->size = x->dim[x->rank - 1];
	if (!r->packed)
		return 0;
	if (r->heads < 1 || r->size % r->heads)
		return rvl_op_fail(c, "attribute num_heads is %lld, its input has %lld values",
				   (long long)r->heads, (long long)r->size);
	r->size /= r->heads;
	return 0;
}

static int rotary_extent(struct rvl_call *c, struct rotary *r)
{
	int64_t part = rvl_attr_int(c, "rotary_embedding_dim");
	const struct rvl_shape *cache = &c->in[1].shape;

	if (rotary_heads(c, r))
		return -EINVAL;
	r->interleaved = rvl_attr_int(c, "interleaved") != 0;
	part = part ? part : r->size;
	if (part < 0 || part > r->size || part % 2)
		return rvl_op_fail(c, "it rotates %lld of %lld values", (long long)part,
				   (long long)r->size);
	r->half = part / 2;
	if (!rvl_has(c, 3))
		return NEED(c, 1, r->batch, r->length, r->half) ||
		       NEED(c, 2, r->batch, r->length, r->half) ? -EINVAL : 0;
	if (NEED(c, 1, cache->dim[0], r->half) || NEED(c, 2, cache->dim[0], r->half) ||
	    NEED(c, 3, r->batch, r->length))
		return -EINVAL;
	return 0;
}

static int infer_rotary(struct rvl_call *c)
{
	struct rotary r;

	return rotary_extent(c, &r) ? -EINVAL : rvl_infer_same(c);
}

static void rotate_head(const struct rotary *r, int64_t token, int64_t at)
{
	const int64_t *id = rvl_has(r->c, 3) ? r->c->in[3].data : NULL;
	int64_t row = (id ? id[token] : token) * r->half;
	const float *x = (const float *)r->c->in[0].data + at;
	const float *cosine = (const float *)r->c->in[1].data + row;
	const float *sine = (const float *)r->c->in[2].data + row;
	float *y = (float *)r->c->out[0].data + at;

	for (int64_t i = 0; i < r->half; i++) {
		int64_t a = r->interleaved ? 2 * i : i, b = r->interleaved ? a + 1 : i + r->half;

		y[a] = cosine[i] * x[a] - sine[i] * x[b];
		y[b] = sine[i] * x[a] + cosine[i] * x[b];
	}
	for (int64_t i = 2 * r->half; i < r->size; i++)
		y[i] = x[i];
}

static void rotate_range(void *arg, int64_t first, int64_t past)
{
	const struct rotary *r = arg;

	for (int64_t i = first; i < past; i++) {
		int64_t b = i / r->heads / r->length, h = i / r->length % r->heads;
		int64_t l = i % r->length, row = r->packed ? (b * r->length + l) * r->heads + h : i;

		rotate_head(r, b * r->length + l, row * r->size);
	}
}

static int run_rotary(struct rvl_call *c)
{
	struct rotary r;

	if (rotary_extent(c, &r))
		return -EINVAL;
	for (int64_t i = 0; rvl_has(c, 3) && i < r.batch * r.length; i++) {
		int64_t id = ((const int64_t *)c->in[3].data)[i];

		if (id < 0 || id >= c->in[1].shape.dim[0])
			return rvl_op_fail(c, "position %lld is %lld, the caches have %lld",
					   (long long)i, (long long)id,
					   (long long)c->in[1].shape.dim[0]);
	}
	rvl_for_range(c, r.batch * r.heads * r.length, 1 + 4096 / (1 + r.size), rotate_range, &r);
	return 0;
}

/* ---- CausalConvWithState ---- */

static int infer_causal(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape, *w = &c->in[1].shape;
	struct rvl_shape state = *x;

	if (x->rank != 3 || w->rank != 3 || w->dim[2] < 1)
		return rvl_op_fail(c, "its input or weight is not of rank 3, or the kernel is empty");
	state.dim[2] = w->dim[2] - 1;
	if (NEED(c, 1, x->dim[1], 1, w->dim[2]) || NEED(c, 2, x->dim[1]) ||
	    need_shape(c, 3, &state))
		return -EINVAL;
	rvl_set_out(c, 0, RVL_TYPE_F32, x);
	rvl_set_out(c, 1, RVL_TYPE_F32, &state);
	return 0;
}

static int64_t work_causal(const struct rvl_call *c)
{
	return rvl_work(rvl_count(&c->in[0]), c->in[1].shape.dim[2] + RVL_WORK_EXP);
}

/* Element @i of the state followed by the input. */
static float padded(const struct rvl_call *c, int64_t line, int64_t i)
{
	int64_t before = c->in[1].shape.dim[2] - 1;

	if (i >= before)
		return ((const float *)c->in[0].data)[line * c->in[0].shape.dim[2] + i - before];
	return rvl_has(c, 3) ? ((const float *)c->in[3].data)[line * before + i] : 0.0f;
}

static void causal_range(void *arg, int64_t first, int64_t past)
{
	const struct rvl_call *c = arg;
	int64_t channels = c->in[0].shape.dim[1], length = c->in[0].shape.dim[2];
	int64_t kernel = c->in[1].shape.dim[2];
	bool silu = !rvl_attr_is(c, "activation", "none");

	for (int64_t line = first; line < past; line++) {
		int64_t k = line % channels;
		const float *w = (const float *)c->in[1].data + k * kernel;
		float *y = (float *)c->out[0].data + line * length;

		for (int64_t i = 0; i < length; i++) {
			double sum = rvl_has(c, 2) ? (double)((const float *)c->in[2].data)[k] : 0.0;

			for (int64_t t = 0; t < kernel; t++)
				sum += (double)w[t] * (double)padded(c, line, i + t);
			y[i] = (float)(silu ? sum / (1.0 + exp(-sum)) : sum);
		}
		for (int64_t i = 0; rvl_wants(c, 1) && i < kernel - 1; i++)
			((float *)c->out[1].data)[line * (kernel - 1) + i] =
				padded(c, line, length + i);
	}
}

static int run_causal(struct rvl_call *c)
{
	rvl_for_range(c, c->in[0].shape.dim[0] * c->in[0].shape.dim[1], 1, causal_range, c);
	return 0;
}

/* ---- descriptors ---- */

const struct rvl_op_def rvl_ops_sequence[] = {
	{ .name = "RotaryEmbedding", .since = 23, .least_in = 3, .most_in = 4,
	  .types = { RVL_T_FLOAT, RVL_T_FLOAT, RVL_T_FLOAT, RVL_T(S64) },
	  .attrs = RVL_ATTRS(RVL_INT("interleaved", 0), RVL_INT("num_heads", 0),
			     RVL_INT("rotary_embedding_dim", 0)),
	  .infer = infer_rotary, .run = run_rotary,
	  .doc = "pairs of values rotated by an angle of their position" },
	{ .name = "CausalConvWithState", .since = 27, .work = work_causal,
	  .least_in = 2, .most_in = 4, .most_out = 2,
	  .types = { RVL_T_FLOAT },
	  .attrs = RVL_ATTRS(RVL_STRING("activation", "none", "none|silu|swish")),
	  .infer = infer_causal, .run = run_causal,
	  .doc = "convolution of each channel with its present and earlier elements" },
	RVL_OPS_END
};

/* SPDX-License-Identifier: MIT */
/* Linear attention: a recurrent matrix of state for each head, read by the queries of each token. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "rivulet_op.h"

enum { Q, K, V, PAST, DECAY, BETA };
enum { Y, PRESENT };

struct linear {
	struct rvl_call *c;
	int64_t batch, tokens, q_heads, heads, size, v_size;
	bool gated, delta;
	int64_t decay_step;	/* values of the decay for each head: one, or one for each row */
	bool one_beta;		/* one update rate for all heads */
	float scale;
};

static int check_operand(struct linear *a, uint32_t i, bool wanted, const char *name)
{
	struct rvl_call *c = a->c;

	if (rvl_has(c, i) != wanted)
		return rvl_op_fail(c, "update_rule '%s' %s input %u, %s",
				   rvl_attr_string(c, "update_rule"), wanted ? "needs" : "takes no", i,
				   name);
	if (wanted && (c->in[i].shape.rank != 3 || c->in[i].shape.dim[0] != a->batch ||
		       c->in[i].shape.dim[1] != a->tokens))
		return rvl_op_fail(c, "the shape of input %u, %s, does not fit input 0", i, name);
	return 0;
}

static int check_gates(struct linear *a)
{
	struct rvl_call *c = a->c;
	int64_t decay, beta;

	if (check_operand(a, DECAY, a->gated, "the decay") ||
	    check_operand(a, BETA, a->delta, "the update rate"))
		return -EINVAL;
	decay = a->gated ? c->in[DECAY].shape.dim[2] : a->heads;
	beta = a->delta ? c->in[BETA].shape.dim[2] : 1;
	if (decay != a->heads && decay != a->heads * a->size)
		return rvl_op_fail(c, "its decay has %lld values for a token of %lld heads",
				   (long long)decay, (long long)a->heads);
	if (beta != a->heads && beta != 1)
		return rvl_op_fail(c, "its update rate has %lld values for a token of %lld heads",
				   (long long)beta, (long long)a->heads);
	a->decay_step = decay == a->heads ? 1 : a->size;
	a->one_beta = beta == 1 && a->heads != 1;
	return 0;
}

static int check_past(struct linear *a)
{
	struct rvl_shape want = { .rank = 4, .dim = { a->batch, a->heads, a->size, a->v_size } };

	if (rvl_has(a->c, PAST) && !rvl_shape_equal(&a->c->in[PAST].shape, &want))
		return rvl_op_fail(a->c, "the shape of input 3, the state, does not fit the heads");
	return 0;
}

static int divide(struct linear *a, uint32_t i, int64_t heads, int64_t *size)
{
	const struct rvl_shape *s = &a->c->in[i].shape;

	if (s->rank != 3 || s->dim[0] != a->batch || s->dim[1] != a->tokens || s->dim[2] % heads)
		return rvl_op_fail(a->c, "input %u is not of shape [batch, tokens, %lld heads * size]", i,
				   (long long)heads);
	*size = s->dim[2] / heads;
	return 0;
}

static int extent(struct rvl_call *c, struct linear *a)
{
	const char *rule = rvl_attr_string(c, "update_rule");
	int64_t k_size;

	*a = (struct linear) {
		.c = c, .q_heads = rvl_attr_int(c, "q_num_heads"),
		.heads = rvl_attr_int(c, "kv_num_heads"), .gated = !strncmp(rule, "gated", 5),
		.delta = strstr(rule, "delta"), .scale = rvl_attr_float(c, "scale"),
	};
	if (a->heads < 1 || a->q_heads < 1 || a->q_heads % a->heads)
		return rvl_op_fail(c, "%lld heads of queries are no multiple of %lld of keys",
				   (long long)a->q_heads, (long long)a->heads);
	if (c->in[Q].shape.rank != 3)
		return rvl_op_fail(c, "its input 0 has rank %d, not 3", c->in[Q].shape.rank);
	a->batch = c->in[Q].shape.dim[0];
	a->tokens = c->in[Q].shape.dim[1];
	if (divide(a, Q, a->q_heads, &a->size) || divide(a, K, a->heads, &k_size) ||
	    divide(a, V, a->heads, &a->v_size))
		return -EINVAL;
	if (k_size != a->size)
		return rvl_op_fail(c, "its queries have %lld values a head, its keys %lld",
				   (long long)a->size, (long long)k_size);
	if (a->scale == 0.0f)
		a->scale = 1.0f / sqrtf((float)a->size);
	return check_gates(a) ? -EINVAL : check_past(a);
}

static int infer_linear(struct rvl_call *c)
{
	struct rvl_shape y, state;
	struct linear a;

	if (extent(c, &a))
		return -EINVAL;
	y = (struct rvl_shape) { .rank = 3, .dim = { a.batch, a.tokens, a.q_heads * a.v_size } };
	state = (struct rvl_shape) { .rank = 4, .dim = { a.batch, a.heads, a.size, a.v_size } };
	if (rvl_shape_count(&y) < 0 || rvl_shape_count(&state) < 0)
		return rvl_op_fail(c, "its result is too large");
	rvl_set_out(c, Y, RVL_TYPE_F32, &y);
	rvl_set_out(c, PRESENT, RVL_TYPE_F32, &state);
	return 0;
}

/* Decay, correction, update and product with the query are a pass over the state each. */
static int64_t work_linear(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct linear a;

	if (extent(&copy, &a))
		return INT64_MAX;
	return rvl_work(rvl_work(rvl_work(a.batch, a.tokens), rvl_work(a.heads > a.q_heads ? a.heads : a.q_heads, 4)),
			rvl_work(a.size, a.v_size));
}

/* A head's state and one row, which is what a token adds to it. */
static int64_t scratch_linear(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct linear a;

	if (extent(&copy, &a))
		return 0;
	return a.batch * a.heads * (a.size + 1) * a.v_size * (int64_t)sizeof(float);
}

/* The values of token @t of head @h in input @i, @size of @heads heads. */
static const float *packed(const struct linear *a, uint32_t i, int64_t b, int64_t t, int64_t h,
			   int64_t heads, int64_t size)
{
	return (const float *)a->c->in[i].data + ((b * a->tokens + t) * heads + h) * size;
}

static void decay_state(const struct linear *a, int64_t b, int64_t t, int64_t h, float *s)
{
	const float *g = packed(a, DECAY, b, t, h, a->heads, a->decay_step);

	for (int64_t d = 0; d < a->size; d++) {
		float f = expf(g[a->decay_step == 1 ? 0 : d]);

		for (int64_t m = 0; m < a->v_size; m++)
			s[d * a->v_size + m] *= f;
	}
}

/* What the token adds for each key value: v, or beta * (v - state^T k). */
static void make_update(const struct linear *a, int64_t b, int64_t t, int64_t h, const float *s,
			float *row)
{
	const float *k = packed(a, K, b, t, h, a->heads, a->size);
	const float *v = packed(a, V, b, t, h, a->heads, a->v_size);
	float beta;

	memcpy(row, v, (size_t)a->v_size * sizeof(*row));
	if (!a->delta)
		return;
	beta = *packed(a, BETA, b, t, a->one_beta ? 0 : h, a->one_beta ? 1 : a->heads, 1);
	for (int64_t d = 0; d < a->size; d++)
		for (int64_t m = 0; m < a->v_size; m++)
			row[m] -= k[d] * s[d * a->v_size + m];
	for (int64_t m = 0; m < a->v_size; m++)
		row[m] *= beta;
}

static void read_state(const struct linear *a, int64_t b, int64_t t, int64_t h, const float *s)
{
	int64_t group = a->q_heads / a->heads;

	for (int64_t g = h * group; g < (h + 1) * group; g++) {
		const float *q = packed(a, Q, b, t, g, a->q_heads, a->size);
		float *y = (float *)a->c->out[Y].data +
			   ((b * a->tokens + t) * a->q_heads + g) * a->v_size;

		memset(y, 0, (size_t)a->v_size * sizeof(*y));
		for (int64_t d = 0; d < a->size; d++)
			for (int64_t m = 0; m < a->v_size; m++)
				y[m] += a->scale * q[d] * s[d * a->v_size + m];
	}
}

static void one_token(const struct linear *a, int64_t b, int64_t t, int64_t h, float *s)
{
	const float *k = packed(a, K, b, t, h, a->heads, a->size);
	float *row = s + a->size * a->v_size;

	if (a->gated)
		decay_state(a, b, t, h, s);
	make_update(a, b, t, h, s, row);
	for (int64_t d = 0; d < a->size; d++)
		for (int64_t m = 0; m < a->v_size; m++)
			s[d * a->v_size + m] += k[d] * row[m];
	if (rvl_wants(a->c, Y))
		read_state(a, b, t, h, s);
}

static void run_heads(void *arg, int64_t first, int64_t past)
{
	const struct linear *a = arg;
	size_t bytes = (size_t)(a->size * a->v_size) * sizeof(float);

	for (int64_t i = first; i < past; i++) {
		int64_t at = i * a->size * a->v_size;
		float *s = (float *)a->c->scratch + i * (a->size + 1) * a->v_size;

		if (rvl_has(a->c, PAST))
			memcpy(s, (const float *)a->c->in[PAST].data + at, bytes);
		else
			memset(s, 0, bytes);
		for (int64_t t = 0; t < a->tokens; t++)
			one_token(a, i / a->heads, t, i % a->heads, s);
		if (rvl_wants(a->c, PRESENT))
			memcpy((float *)a->c->out[PRESENT].data + at, s, bytes);
	}
}

static int run_linear(struct rvl_call *c)
{
	struct linear a;

	if (extent(c, &a))
		return -EINVAL;
	if (a.v_size)
		rvl_for_range(c, a.batch * a.heads, 1, run_heads, &a);
	return 0;
}

const struct rvl_op_def rvl_ops_linear_attention[] = {
	{ .name = "LinearAttention", .since = 27, .work = work_linear,
	  .least_in = 3, .most_in = 6, .most_out = 2,
	  .types = { RVL_T_FLOAT },
	  .attrs = RVL_ATTRS(RVL_INT_REQUIRED("q_num_heads"), RVL_INT_REQUIRED("kv_num_heads"),
			     RVL_FLOAT("scale", 0.0f), RVL_IGNORED("chunk_size"),
			     RVL_STRING("update_rule", "gated_delta",
					"linear|gated|delta|gated_delta")),
	  .infer = infer_linear, .run = run_linear, .scratch = scratch_linear,
	  .doc = "attention by a state that each token updates: linear, gated, delta or both" },
	RVL_OPS_END
};

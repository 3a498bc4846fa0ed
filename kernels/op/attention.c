/* SPDX-License-Identifier: MIT */
/* Attention: softmax(Q K^T * scale + bias) V for each head. Products are summed in double. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "float/softmax.h"
#include "rivulet_op.h"

#define ROW 256			/* elements of a head at a time */
#define FAR ((int64_t)1 << 41)	/* a position beyond every sequence */

enum input { Q, K, V, MASK, PAST_KEY, PAST_VALUE, VALID };
enum output { Y, PRESENT_KEY, PRESENT_VALUE, SCORES };
enum mode { RAW, CAPPED, BIASED, PROBABILITIES };

struct attention {
	const struct rvl_call *c;
	bool packed;		/* [batch, length, heads * size] instead of [batch, heads, length, size] */
	int64_t batch, heads, kv_heads;
	int64_t queries, fresh, past, total;	/* positions; total = past + fresh */
	int64_t size, v_size;			/* of a head */
	int64_t mask_stride[RVL_MAX_RANK];	/* of batch, head, query */
	int64_t mask_length;
	int64_t left, right;			/* window; -1: unbounded */
	float scale, cap;
	enum mode mode;
	bool causal;
};

/* ---- shape ---- */

static int packed_heads(struct rvl_call *c, const char *attr, uint32_t input, int64_t *heads,
			int64_t *size)
{
	int64_t hidden = c->in[input].shape.dim[2];

	*heads = rvl_attr_int(c, attr);
	if (*heads < 1 || hidden % *heads)
		return rvl_op_fail(c, "attribute %s is %lld, its input %u has %lld values", attr,
				   (long long)*heads, input, (long long)hidden);
	*size = hidden / *heads;
	return 0;
}

/* Heads, positions and size of Q, K or V. */
static int operand_extent(struct rvl_call *c, uint32_t input, int64_t *heads, int64_t *length,
			  int64_t *size)
{
	const struct rvl_shape *s = &c->in[input].shape;

	if (s->rank != c->in[Q].shape.rank || s->rank < 3 || s->rank > 4)
		return rvl_op_fail(c, "its input %u has rank %d", input, s->rank);
	if (s->dim[0] != c->in[Q].shape.dim[0])
		return rvl_op_fail(c, "its input %u has %lld batches, input 0 %lld", input,
				   (long long)s->dim[0], (long long)c->in[Q].shape.dim[0]);
	*length = s->dim[s->rank - 2];
	if (s->rank == 3)
		return packed_heads(c, input == Q ? "q_num_heads" : "kv_num_heads", input, heads,
				    size);
	*heads = s->dim[1];
	*size = s->dim[3];
	return 0;
}

static int check_sizes(struct rvl_call *c, const struct attention *a, int64_t k_size,
		       int64_t v_heads, int64_t v_length)
{
	if (k_size != a->size)
		return rvl_op_fail(c, "a head of its keys has %lld values, of its queries %lld",
				   (long long)k_size, (long long)a->size);
	if (v_heads != a->kv_heads || v_length != a->fresh)
		return rvl_op_fail(c, "its values have other heads or positions than its keys");
	if (a->kv_heads < 1 || a->heads % a->kv_heads)
		return rvl_op_fail(c, "its %lld query heads do not share %lld key heads",
				   (long long)a->heads, (long long)a->kv_heads);
	return 0;
}

static int check_cache(struct rvl_call *c, uint32_t input, const struct attention *a, int64_t size)
{
	const struct rvl_shape want = { .rank = 4,
					.dim = { a->batch, a->kv_heads, a->past, size } };

	if (c->in[input].type != RVL_TYPE_F32 || !rvl_shape_equal(&c->in[input].shape, &want))
		return rvl_op_fail(c, "its input %u, a cache, does not fit its keys", input);
	return 0;
}

static int cache_extent(struct rvl_call *c, struct attention *a)
{
	if (rvl_has(c, PAST_KEY) != rvl_has(c, PAST_VALUE))
		return rvl_op_fail(c, "it has one of the caches of keys and values, not both");
	if (rvl_has(c, PAST_KEY)) {
		a->past = c->in[PAST_KEY].shape.rank == 4 ? c->in[PAST_KEY].shape.dim[2] : 0;
		if (check_cache(c, PAST_KEY, a, a->size) || check_cache(c, PAST_VALUE, a, a->v_size))
			return -EINVAL;
	}
	a->total = a->past + a->fresh;
	if (!rvl_has(c, VALID))
		return 0;
	if (rvl_has(c, PAST_KEY))
		return rvl_op_fail(c, "it has caches and the lengths of padded keys");
	if (c->in[VALID].type != RVL_TYPE_S64 || c->in[VALID].shape.rank != 1 ||
	    c->in[VALID].shape.dim[0] != a->batch)
		return rvl_op_fail(c, "its input 6 is not one int64 for each batch");
	return 0;
}

/* The mask broadcasts. Positions beyond its end are masked. */
static int mask_extent(struct rvl_call *c, struct attention *a)
{
	const struct rvl_shape *m = &c->in[MASK].shape;
	struct rvl_shape s, t = { .rank = 4, .dim = { a->batch, a->heads, a->queries } };

	if (!rvl_has(c, MASK))
		return 0;
	a->mask_length = m->rank ? m->dim[m->rank - 1] : a->total + 1;
	t.dim[3] = a->mask_length;
	if (a->mask_length > a->total || rvl_shape_broadcast(m, &t, &s) || !rvl_shape_equal(&s, &t))
		return rvl_op_fail(c, "its mask does not broadcast to its scores");
	rvl_broadcast_strides(m, &t, a->mask_stride);
	return 0;
}

static int read_attrs(struct rvl_call *c, struct attention *a)
{
	int64_t mode = rvl_attr_int(c, "qk_matmul_output_mode");

	if (mode < RAW || mode > PROBABILITIES)
		return rvl_op_fail(c, "attribute qk_matmul_output_mode is %lld", (long long)mode);
	a->mode = (enum mode)mode;
	a->causal = rvl_attr_int(c, "is_causal") != 0;
	a->cap = rvl_attr_float(c, "softcap");
	a->scale = rvl_attr_given(c, "scale") ? rvl_attr_float(c, "scale") :
		   (float)(1.0 / sqrt((double)a->size));
	a->left = a->right = -1;
	if (c->def->since < 25)
		return 0;
	a->left = rvl_attr_int(c, "left_window_size");
	a->right = rvl_attr_int(c, "right_window_size");
	if (a->left < -1 || a->right < -1)
		return rvl_op_fail(c, "the size of its window is below -1");
	return 0;
}

static int extent(struct rvl_call *c, struct attention *a)
{
	int64_t k_size, v_heads, v_length;

	memset(a, 0, sizeof(*a));
	a->c = c;
	a->packed = c->in[Q].shape.rank == 3;
	if (operand_extent(c, Q, &a->heads, &a->queries, &a->size) ||
	    operand_extent(c, K, &a->kv_heads, &a->fresh, &k_size) ||
	    operand_extent(c, V, &v_heads, &v_length, &a->v_size))
		return -EINVAL;
	a->batch = c->in[Q].shape.dim[0];
	if (check_sizes(c, a, k_size, v_heads, v_length) || cache_extent(c, a) ||
	    mask_extent(c, a))
		return -EINVAL;
	return read_attrs(c, a);
}

static void set_out4(struct rvl_call *c, uint32_t i, int64_t a, int64_t b, int64_t d, int64_t e)
{
	rvl_set_out(c, i, RVL_TYPE_F32,
		    &(const struct rvl_shape) { .rank = 4, .dim = { a, b, d, e } });
}

static int infer_attention(struct rvl_call *c)
{
	struct attention a;

	if (extent(c, &a))
		return -EINVAL;
	set_out4(c, Y, a.batch, a.heads, a.queries, a.v_size);
	if (a.packed)
		rvl_set_out(c, Y, RVL_TYPE_F32,
			    &(const struct rvl_shape) {
				.rank = 3, .dim = { a.batch, a.queries, a.heads * a.v_size } });
	set_out4(c, PRESENT_KEY, a.batch, a.kv_heads, a.total, a.size);
	set_out4(c, PRESENT_VALUE, a.batch, a.kv_heads, a.total, a.v_size);
	set_out4(c, SCORES, a.batch, a.heads, a.queries, a.total);
	return 0;
}

static int64_t work_attention(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct attention a;

	if (extent(&copy, &a))
		return INT64_MAX;
	return rvl_work(rvl_work(rvl_work(a.batch, a.heads), rvl_work(a.queries, a.total)),
			a.size + a.v_size + RVL_WORK_EXP);
}

/* The scores of every query and head. */
static int64_t scratch_attention(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct attention a;

	if (extent(&copy, &a))
		return 0;
	return rvl_shape_count(&(const struct rvl_shape) {
		.rank = 4, .dim = { a.batch, a.heads, a.queries, a.total } }) * (int64_t)sizeof(float);
}

/* ---- computation ---- */

/* Element 0 of head @h at position @i, of @heads heads with @length positions of @size values. */
static int64_t place(const struct attention *a, int64_t b, int64_t h, int64_t i, int64_t heads,
		     int64_t length, int64_t size)
{
	return (a->packed ? (b * length + i) * heads + h : (b * heads + h) * length + i) * size;
}

/* Key or value @j: from the cache, then from the fresh ones. */
static const float *cached(const struct attention *a, uint32_t fresh, uint32_t past, int64_t b,
			   int64_t h, int64_t j, int64_t size)
{
	if (j < a->past)
		return (const float *)a->c->in[past].data +
		       ((b * a->kv_heads + h) * a->past + j) * size;
	return (const float *)a->c->in[fresh].data +
	       place(a, b, h, j - a->past, a->kv_heads, a->fresh, size);
}

/* What the mask adds to a score: 0 or -infinity where it is bool. */
static float masked(const struct attention *a, int64_t row, int64_t j)
{
	const struct rvl_value *m = &a->c->in[MASK];

	if (!rvl_has(a->c, MASK))
		return 0.0f;
	if (j >= a->mask_length)
		return -INFINITY;
	if (m->type == RVL_TYPE_BOOL)
		return rvl_element_int(m->type, m->data, row + j) ? 0.0f : -INFINITY;
	return (float)rvl_element(m->type, m->data, row + j);
}

/* One row of scores. */
struct line {
	int64_t b, h, i;
	int64_t mask;		/* where its mask begins */
	int64_t valid;		/* keys from here on are padding */
	int64_t position;	/* of the query among the keys */
};

static struct line line_of(const struct attention *a, int64_t row)
{
	struct line l = { .i = row % a->queries, .h = row / a->queries % a->heads,
			  .b = row / a->queries / a->heads, .valid = FAR };

	l.mask = l.b * a->mask_stride[0] + l.h * a->mask_stride[1] + l.i * a->mask_stride[2];
	l.position = l.i + a->past;
	if (rvl_has(a->c, VALID)) {
		int64_t n = ((const int64_t *)a->c->in[VALID].data)[l.b];

		l.valid = n < -FAR ? -FAR : n > FAR ? FAR : n;
		l.position = l.i + l.valid - a->queries;
	}
	return l;
}

static float bias_of(const struct attention *a, const struct line *l, int64_t j)
{
	int64_t back = l->position - j;

	if (j >= l->valid || (a->causal && back < 0) || (a->left >= 0 && back > a->left) ||
	    (a->right >= 0 && -back > a->right))
		return -INFINITY;
	return masked(a, l->mask, j);
}

/* The scores of a row; returns whether a key may be attended. */
static bool score_row(const struct attention *a, const struct line *l, float *s, float *shown)
{
	int64_t g = l->h / (a->heads / a->kv_heads);
	const float *q = (const float *)a->c->in[Q].data +
			 place(a, l->b, l->h, l->i, a->heads, a->queries, a->size);
	bool open = false;

	for (int64_t j = 0; j < a->total; j++) {
		const float *k = cached(a, K, PAST_KEY, l->b, g, j, a->size);
		float bias = bias_of(a, l, j);
		double sum = 0.0;

		for (int64_t d = 0; d < a->size; d++)
			sum += (double)q[d] * (double)k[d];
		s[j] = (float)(sum * (double)a->scale);
		if (shown && a->mode == RAW)
			shown[j] = s[j];
		if (a->cap > 0.0f)
			s[j] = a->cap * tanhf(s[j] / a->cap);
		if (shown && a->mode == CAPPED)
			shown[j] = s[j];
		s[j] += bias;
		if (shown && a->mode == BIASED)
			shown[j] = s[j];
		open |= bias != -INFINITY;
	}
	return open;
}

/* Softmax in place; a row without a key to attend becomes 0. */
static void softmax(float *s, int64_t n, bool open)
{
	float top = -INFINITY;
	double sum = 0.0;

	for (int64_t j = 0; j < n; j++)
		top = s[j] > top || isnan(s[j]) ? s[j] : top;
	open &= top != -INFINITY;
	if (open)
		sum = rvl_f32_exp_line(s, n, 1, top, s);
	else
		memset(s, 0, (size_t)n * sizeof(*s));
	for (int64_t j = 0; j < n && open; j++)
		s[j] = (float)((double)s[j] / sum);
}

static void mix_values(const struct attention *a, const struct line *l, const float *s)
{
	int64_t g = l->h / (a->heads / a->kv_heads);
	float *y = (float *)a->c->out[Y].data +
		   place(a, l->b, l->h, l->i, a->heads, a->queries, a->v_size);

	for (int64_t at = 0; at < a->v_size; at += ROW) {
		int64_t n = a->v_size - at < ROW ? a->v_size - at : ROW;
		double sum[ROW] = { 0.0 };

		for (int64_t j = 0; j < a->total; j++) {
			const float *v = cached(a, V, PAST_VALUE, l->b, g, j, a->v_size) + at;

			for (int64_t d = 0; d < n; d++)
				sum[d] += (double)s[j] * (double)v[d];
		}
		for (int64_t d = 0; d < n; d++)
			y[at + d] = (float)sum[d];
	}
}

static void row_range(void *arg, int64_t first, int64_t past)
{
	const struct attention *a = arg;

	for (int64_t row = first; row < past; row++) {
		struct line l = line_of(a, row);
		float *s = (float *)a->c->scratch + row * a->total;
		float *shown = rvl_wants(a->c, SCORES) ?
			       (float *)a->c->out[SCORES].data + row * a->total : NULL;

		softmax(s, a->total, score_row(a, &l, s, shown));
		if (shown && a->mode == PROBABILITIES)
			memcpy(shown, s, (size_t)a->total * sizeof(*s));
		if (rvl_wants(a->c, Y))
			mix_values(a, &l, s);
	}
}

static void put_cache(const struct attention *a, uint32_t out, uint32_t fresh, uint32_t past,
		      int64_t size)
{
	float *to = a->c->out[out].data;

	for (int64_t i = 0; rvl_wants(a->c, out) && i < a->batch * a->kv_heads * a->total; i++) {
		int64_t head = i / a->total;

		memcpy(to + i * size, cached(a, fresh, past, head / a->kv_heads, head % a->kv_heads,
					     i % a->total, size), (size_t)size * sizeof(*to));
	}
}

static int run_attention(struct rvl_call *c)
{
	struct attention a;

	if (extent(c, &a))
		return -EINVAL;
	put_cache(&a, PRESENT_KEY, K, PAST_KEY, a.size);
	put_cache(&a, PRESENT_VALUE, V, PAST_VALUE, a.v_size);
	rvl_for_range(c, a.batch * a.heads * a.queries,
		      1 + 4096 / (1 + a.total * (1 + a.size + a.v_size)), row_range, &a);
	return 0;
}

#define ATTENTION(opset, in, ...) { \
	.name = "Attention", .since = (opset), .work = work_attention, \
	.least_in = 3, .most_in = (in), .most_out = 4, \
	.types = { RVL_T_FLOAT, RVL_T_FLOAT, RVL_T_FLOAT, RVL_T_ANY }, \
	.attrs = RVL_ATTRS(RVL_INT("is_causal", 0), RVL_INT("kv_num_heads", 0), \
			   RVL_INT("q_num_heads", 0), RVL_INT("qk_matmul_output_mode", 0), \
			   RVL_FLOAT("scale", 0.0f), RVL_FLOAT("softcap", 0.0f), \
			   RVL_IGNORED("softmax_precision"), ##__VA_ARGS__), \
	.infer = infer_attention, .run = run_attention, .scratch = scratch_attention, \
	.doc = "softmax(Q K^T * scale + bias) V of each head" }

const struct rvl_op_def rvl_ops_attention[] = {
	ATTENTION(23, 6),
	ATTENTION(24, 7),
	ATTENTION(25, 7, RVL_INT("left_window_size", -1), RVL_INT("right_window_size", -1)),
	RVL_OPS_END
};

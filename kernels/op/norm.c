/* SPDX-License-Identifier: MIT */
/* Normalisation by mean and variance. Moments are computed in double. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "rivulet_op.h"

static int64_t product(const struct rvl_shape *s, int64_t first, int64_t past)
{
	int64_t n = 1;

	for (int64_t i = first; i < past; i++)
		n *= s->dim[i];
	return n;
}

/* Input @i is a list of @n floats. */
static int check_list(struct rvl_call *c, uint32_t i, int64_t n)
{
	if (rvl_count(&c->in[i]) != n)
		return rvl_op_fail(c, "its input %u has %lld values, not %lld", i,
				   (long long)rvl_count(&c->in[i]), (long long)n);
	return 0;
}

/* ---- BatchNormalization ---- */

/* The operand as [batch, channels, plane]. */
struct batch {
	const struct rvl_call *c;
	int64_t batch, channels, plane;
	bool train;
};

static void batch_extent(const struct rvl_call *c, struct batch *b)
{
	const struct rvl_shape *s = &c->in[0].shape;
	bool per_element = c->def->since < 9 && !rvl_attr_int(c, "spatial");

	b->c = c;
	b->train = c->def->since >= 14 && rvl_attr_int(c, "training_mode");
	b->batch = s->rank ? s->dim[0] : 1;
	b->channels = s->rank > 1 ? s->dim[1] : 1;
	b->plane = product(s, 2, s->rank);
	if (per_element) {
		b->channels *= b->plane;
		b->plane = 1;
	}
}

static int infer_batch(struct rvl_call *c)
{
	struct batch b;
	int rc = 0;

	batch_extent(c, &b);
	for (uint32_t i = 1; i < 5 && !rc; i++)
		rc = check_list(c, i, b.channels);
	if (rc)
		return rc;
	if (b.train && (b.batch == 0 || b.plane == 0))
		return rvl_op_fail(c, "it trains on no elements");
	rvl_set_out(c, 0, c->in[0].type, &c->in[0].shape);
	for (uint32_t i = 1; i < c->n_out; i++)
		rvl_set_out(c, i, RVL_TYPE_F32, &c->in[3].shape);
	return 0;
}

static void channel_moments(const struct batch *b, int64_t channel, double *mean, double *var)
{
	double n = (double)(b->batch * b->plane);

	*mean = *var = 0.0;
	for (int pass = 0; pass < 2; pass++) {
		double sum = 0.0;

		for (int64_t i = 0; i < b->batch; i++) {
			const float *x = (const float *)b->c->in[0].data +
					 (i * b->channels + channel) * b->plane;

			for (int64_t p = 0; p < b->plane; p++) {
				double d = (double)x[p] - *mean;

				sum += pass ? d * d : d;
			}
		}
		*(pass ? var : mean) = sum / n;
	}
}

/*
 * Odd outputs are means, even ones variances. They are the given ones, in training moved towards
 * those of the batch.
 */
static void put_moments(const struct batch *b, int64_t channel, const double *used)
{
	float momentum = rvl_attr_float(b->c, "momentum");

	for (uint32_t o = 1; o < b->c->n_out; o++) {
		uint32_t which = o & 1 ? 0 : 1;
		float given = ((const float *)b->c->in[3 + which].data)[channel];
		float moved = given * momentum + (float)used[which] * (1.0f - momentum);

		if (rvl_wants(b->c, o))
			((float *)b->c->out[o].data)[channel] = b->train ? moved : given;
	}
}

static void batch_range(void *arg, int64_t first, int64_t past)
{
	const struct batch *b = arg;
	const struct rvl_value *in = b->c->in;

	for (int64_t k = first; k < past; k++) {
		double used[2] = { (double)((const float *)in[3].data)[k],
				   (double)((const float *)in[4].data)[k] };
		double scale, bias = (double)((const float *)in[2].data)[k];

		if (b->train)
			channel_moments(b, k, &used[0], &used[1]);
		scale = (double)((const float *)in[1].data)[k] /
			sqrt(used[1] + (double)rvl_attr_float(b->c, "epsilon"));
		for (int64_t i = 0; i < b->batch; i++) {
			int64_t at = (i * b->channels + k) * b->plane;
			const float *x = (const float *)in[0].data + at;
			float *y = (float *)b->c->out[0].data + at;

			for (int64_t p = 0; p < b->plane; p++)
				y[p] = (float)(((double)x[p] - used[0]) * scale + bias);
		}
		put_moments(b, k, used);
	}
}

static int run_batch(struct rvl_call *c)
{
	struct batch b;

	batch_extent(c, &b);
	rvl_for_range(c, b.channels, 1 + 4096 / (1 + b.batch * b.plane), batch_range, &b);
	return 0;
}

/* ---- normalisation of contiguous blocks, then scale and bias ---- */

struct blocks {
	const struct rvl_call *c;
	int64_t n, length;
	bool centre;		/* subtracts the mean */
};

static void block(const struct blocks *b, int64_t i)
{
	const float *x = (const float *)b->c->in[0].data + i * b->length;
	float *y = (float *)b->c->out[0].data + i * b->length;
	double n = (double)b->length, mean = 0.0, var = 0.0, inverse;

	for (int64_t k = 0; k < b->length && b->centre; k++)
		mean += (double)x[k];
	mean /= n;
	for (int64_t k = 0; k < b->length; k++)
		var += ((double)x[k] - mean) * ((double)x[k] - mean);
	inverse = 1.0 / sqrt(var / n + (double)rvl_attr_float(b->c, "epsilon"));
	for (int64_t k = 0; k < b->length; k++)
		y[k] = (float)(((double)x[k] - mean) * inverse);
	if (rvl_wants(b->c, 1))
		((float *)b->c->out[1].data)[i] = (float)mean;
	if (rvl_wants(b->c, 2))
		((float *)b->c->out[2].data)[i] = (float)inverse;
}

static void block_range(void *arg, int64_t first, int64_t past)
{
	for (int64_t i = first; i < past; i++)
		block(arg, i);
}

static void scale_row(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	for (int64_t i = 0; i < n; i++)
		y.f[i] = x[0].f[i] * x[1].f[i] + (rvl_has(c, 2) ? x[2].f[i] : 0.0f);
}

/* Normalises the blocks, then scales with inputs 1 and 2 broadcast to @view of the result. */
static int run_blocks(struct rvl_call *c, const struct blocks *b, const struct rvl_shape *view,
		      const struct rvl_shape *scale, const struct rvl_shape *bias)
{
	struct rvl_call then = *c;

	rvl_for_range(c, b->n, 1 + 4096 / (1 + b->length), block_range, (void *)(uintptr_t)b);
	then.in[0] = c->out[0];
	then.in[0].shape = *view;
	then.out[0].shape = *view;
	then.in[1].shape = *scale;
	then.in[2].shape = *bias;
	return rvl_rows(&then, RVL_CLASS_F32, RVL_CLASS_F32, scale_row);
}

/* ---- InstanceNormalization, GroupNormalization ---- */

/* The number of groups; scale and bias have one value for each group before opset 21. */
static int group_extent(struct rvl_call *c, int64_t *groups, int64_t *values)
{
	const struct rvl_shape *s = &c->in[0].shape;

	if (s->rank < 2)
		return rvl_op_fail(c, "its input has rank %d, which has no channels", s->rank);
	*groups = *values = s->dim[1];
	if (c->def->name[0] == 'I')
		return 0;
	*groups = rvl_attr_int(c, "num_groups");
	if (*groups < 1 || s->dim[1] % *groups)
		return rvl_op_fail(c, "attribute num_groups is %lld, of %lld channels",
				   (long long)*groups, (long long)s->dim[1]);
	if (c->def->since < 21)
		*values = *groups;
	return 0;
}

static int infer_group(struct rvl_call *c)
{
	int64_t groups = 0, values = 0;
	int rc = group_extent(c, &groups, &values);

	for (uint32_t i = 1; i < 3 && !rc; i++)
		rc = check_list(c, i, values);
	return rc ? rc : rvl_infer_same(c);
}

static int run_group(struct rvl_call *c)
{
	const struct rvl_shape *s = &c->in[0].shape;
	struct blocks b = { .c = c, .centre = true };
	int64_t groups = 0, values = 0;

	if (group_extent(c, &groups, &values))
		return -EINVAL;
	if (!rvl_count(&c->in[0]))
		return 0;
	b.n = s->dim[0] * groups;
	b.length = rvl_count(&c->in[0]) / b.n;
	return run_blocks(c, &b,
			  &(const struct rvl_shape) {
				.rank = 3, .dim = { s->dim[0], values, b.n * b.length / s->dim[0] / values } },
			  &(const struct rvl_shape) { .rank = 2, .dim = { values, 1 } },
			  &(const struct rvl_shape) { .rank = 2, .dim = { values, 1 } });
}

/* ---- LayerNormalization, RMSNormalization ---- */

static int first_axis(struct rvl_call *c, int64_t *axis)
{
	*axis = rvl_attr_int(c, "axis");
	return rvl_fix_axis(c, axis, c->in[0].shape.rank);
}

static int infer_layer(struct rvl_call *c)
{
	struct rvl_shape s = c->in[0].shape;
	int64_t axis;
	int rc = first_axis(c, &axis);

	for (uint32_t i = 1; i < c->n_in && !rc; i++)
		if (rvl_has(c, i) && (rvl_shape_broadcast(&c->in[i].shape, &c->in[0].shape, &s) ||
				      !rvl_shape_equal(&s, &c->in[0].shape)))
			rc = rvl_op_fail(c, "its input %u does not broadcast to input 0", i);
	if (rc)
		return rc;
	rvl_set_out(c, 0, c->in[0].type, &c->in[0].shape);
	s = c->in[0].shape;
	for (int64_t i = axis; i < s.rank; i++)
		s.dim[i] = 1;
	rvl_set_out(c, 1, RVL_TYPE_F32, &s);
	rvl_set_out(c, 2, RVL_TYPE_F32, &s);
	return 0;
}

static int run_layers(struct rvl_call *c, bool centre)
{
	struct blocks b = { .c = c, .centre = centre };
	int64_t axis;

	if (first_axis(c, &axis))
		return -EINVAL;
	b.n = product(&c->in[0].shape, 0, axis);
	b.length = product(&c->in[0].shape, axis, c->in[0].shape.rank);
	return run_blocks(c, &b, &c->in[0].shape, &c->in[1].shape, &c->in[2].shape);
}

static int run_layer(struct rvl_call *c)
{
	return run_layers(c, true);
}

static int run_rms(struct rvl_call *c)
{
	return run_layers(c, false);
}

/* ---- MeanVarianceNormalization ---- */

/* Axes of one kind with neighbours merged: their sizes and the distance of their elements. */
struct axes {
	int rank;
	int64_t dim[RVL_MAX_RANK], stride[RVL_MAX_RANK], count;
};

struct mvn {
	const struct rvl_call *c;
	struct axes kept, gone;
};

static void add_axis(struct axes *a, int64_t dim, int64_t stride)
{
	int last = a->rank - 1;

	a->count *= dim;
	if (a->rank && a->stride[last] == dim * stride) {
		a->dim[last] *= dim;
		a->stride[last] = stride;
		return;
	}
	a->dim[a->rank] = dim;
	a->stride[a->rank++] = stride;
}

/* The place of element @at of the first @rank axes. */
static int64_t place_of(const struct axes *a, int rank, int64_t at)
{
	int64_t pos = 0;

	for (int i = rank - 1; i >= 0; i--) {
		pos += at % a->dim[i] * a->stride[i];
		at /= a->dim[i];
	}
	return pos;
}

/* Calls for the runs of one result: what == 0 sums, 1 sums squares about @mean, 2 writes. */
static double mvn_pass(const struct mvn *m, int64_t base, int what, double mean, double deviation)
{
	const struct axes *g = &m->gone;
	int last = g->rank - 1;
	int64_t n = g->rank ? g->dim[last] : 1, step = g->rank ? g->stride[last] : 1;
	double sum = 0.0;

	for (int64_t i = 0; i < g->count / n; i++) {
		int64_t at = base + place_of(g, last, i);
		const float *x = (const float *)m->c->in[0].data + at;
		float *y = (float *)m->c->out[0].data + at;

		for (int64_t k = 0; k < n; k++) {
			double d = (double)x[k * step] - mean;

			sum += what ? d * d : d;
			if (what == 2)
				y[k * step] = (float)(d / deviation);
		}
	}
	return sum;
}

/* The function's body in ONNX adds this to the standard deviation. */
#define MVN_EPSILON 1e-9

static void mvn_range(void *arg, int64_t first, int64_t past)
{
	const struct mvn *m = arg;
	double n = (double)m->gone.count;

	for (int64_t i = first; i < past; i++) {
		int64_t base = place_of(&m->kept, m->kept.rank, i);
		double mean = mvn_pass(m, base, 0, 0.0, 0.0) / n;
		double var = mvn_pass(m, base, 1, mean, 0.0) / n;

		mvn_pass(m, base, 2, mean, sqrt(var) + MVN_EPSILON);
	}
}

static int mvn_axes(struct rvl_call *c, uint32_t *set)
{
	int64_t rank = c->in[0].shape.rank;
	bool given;

	if (!rvl_attr_given(c, "axes") && rank < 4)
		return rvl_op_fail(c, "its input has rank %lld, less than the default axes need",
				   (long long)rank);
	if (rvl_axes(c, "axes", 1, rank, set, &given))
		return -EINVAL;
	if (!given)
		*set = 1u << 0 | 1u << 2 | 1u << 3;
	return 0;
}

static int infer_mvn(struct rvl_call *c)
{
	uint32_t set;

	return mvn_axes(c, &set) ? -EINVAL : rvl_infer_same(c);
}

static int run_mvn(struct rvl_call *c)
{
	const struct rvl_shape *s = &c->in[0].shape;
	struct mvn m = { .c = c, .kept.count = 1, .gone.count = 1 };
	int64_t stride[RVL_MAX_RANK];
	uint32_t set;

	if (mvn_axes(c, &set))
		return -EINVAL;
	if (!rvl_count(&c->in[0]))
		return 0;
	rvl_strides(s, stride);
	for (int i = 0; i < s->rank; i++)
		add_axis(set >> i & 1 ? &m.gone : &m.kept, s->dim[i], stride[i]);
	rvl_for_range(c, m.kept.count, 1 + 4096 / m.gone.count, mvn_range, &m);
	return 0;
}

/* ---- LRN ---- */

#define ROW 256		/* places of a channel at a time */

/* The operand as [batch, channels, plane]; the window reaches below and above a channel. */
struct lrn {
	const struct rvl_call *c;
	int64_t channels, plane, below, above;
	float alpha, beta, bias;
};

static int64_t work_lrn(const struct rvl_call *c)
{
	/* Squares of the neighbours, and a power. */
	return rvl_work(rvl_work(rvl_count(&c->in[0]), RVL_WORK_EXP), rvl_attr_int(c, "size"));
}

static int infer_lrn(struct rvl_call *c)
{
	int64_t size = rvl_attr_int(c, "size");

	if (size < 1)
		return rvl_op_fail(c, "attribute size is %lld", (long long)size);
	if (c->in[0].shape.rank < 2)
		return rvl_op_fail(c, "its input has rank %d, which has no channels",
				   c->in[0].shape.rank);
	return rvl_infer_same(c);
}

static void lrn_piece(const struct lrn *l, int64_t plane, int64_t from, int64_t n)
{
	int64_t k = plane % l->channels, first = k - l->below, last = k + l->above;
	const float *x = (const float *)l->c->in[0].data + plane * l->plane + from;
	float *y = (float *)l->c->out[0].data + plane * l->plane + from;
	double sum[ROW] = { 0.0 };

	first = first < 0 ? 0 : first;
	last = last >= l->channels ? l->channels - 1 : last;
	for (int64_t j = first; j <= last; j++)
		for (int64_t i = 0; i < n; i++) {
			double v = (double)x[(j - k) * l->plane + i];

			sum[i] += v * v;
		}
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] / powf(l->bias + l->alpha * (float)sum[i], l->beta);
}

static void lrn_range(void *arg, int64_t first, int64_t past)
{
	const struct lrn *l = arg;

	for (int64_t plane = first; plane < past; plane++)
		for (int64_t i = 0; i < l->plane; i += ROW)
			lrn_piece(l, plane, i, l->plane - i < ROW ? l->plane - i : ROW);
}

static int run_lrn(struct rvl_call *c)
{
	const struct rvl_shape *s = &c->in[0].shape;
	int64_t size = rvl_attr_int(c, "size"), channels = s->dim[1];
	struct lrn l = {
		.c = c, .channels = channels, .plane = product(s, 2, s->rank),
		.below = (size - 1) / 2, .above = size / 2,
		.alpha = rvl_attr_float(c, "alpha") / (float)size,
		.beta = rvl_attr_float(c, "beta"), .bias = rvl_attr_float(c, "bias"),
	};

	/* A window beyond all channels is cut, so that sums of places do not overflow. */
	l.below = l.below > channels ? channels : l.below;
	l.above = l.above > channels ? channels : l.above;
	rvl_for_range(c, s->dim[0] * channels, 1 + 1024 / (1 + l.plane), lrn_range, &l);
	return 0;
}

/* ---- descriptors ---- */

#define EPSILON RVL_FLOAT("epsilon", 1e-5f)

#define BATCH(opset, out, ...) { \
	.name = "BatchNormalization", .since = (opset), .least_in = 5, .most_in = 5, \
	.most_out = (out), .types = { RVL_T_FLOAT }, \
	.attrs = RVL_ATTRS(EPSILON, RVL_FLOAT("momentum", 0.9f), ##__VA_ARGS__), \
	.infer = infer_batch, .run = run_batch, .kernel = RVL_OP_BATCH_NORM, \
	.doc = "(x - mean) / sqrt(var + epsilon) * scale + bias per channel" }

#define GROUP(op, opset, text, ...) { \
	.name = op, .since = (opset), .least_in = 3, .most_in = 3, .types = { RVL_T_FLOAT }, \
	.attrs = RVL_ATTRS(EPSILON, ##__VA_ARGS__), \
	.infer = infer_group, .run = run_group, .doc = text }

const struct rvl_op_def rvl_ops_norm[] = {
	BATCH(1, 5, RVL_CONSUMED, RVL_IGNORED_UNTIL("is_test", 7), RVL_INT("spatial", 1)),
	BATCH(9, 5),
	BATCH(14, 3, RVL_INT("training_mode", 0)),
	GROUP("InstanceNormalization", 1, "each channel of each image to mean 0 and variance 1",
	      RVL_CONSUMED),
	GROUP("GroupNormalization", 18, "each group of channels to mean 0 and variance 1",
	      RVL_INT_REQUIRED("num_groups")),
	GROUP("GroupNormalization", 21, "each group of channels to mean 0 and variance 1",
	      RVL_IGNORED("stash_type"), RVL_INT_REQUIRED("num_groups")),
	{ .name = "LayerNormalization", .since = 17, .least_in = 2, .most_in = 3, .most_out = 3,
	  .types = { RVL_T_FLOAT },
	  .attrs = RVL_ATTRS(EPSILON, RVL_INT("axis", -1), RVL_IGNORED("stash_type")),
	  .infer = infer_layer, .run = run_layer,
	  .doc = "the last axes to mean 0 and variance 1, then scale and bias" },
	{ .name = "RMSNormalization", .since = 23, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_FLOAT },
	  .attrs = RVL_ATTRS(EPSILON, RVL_INT("axis", -1), RVL_IGNORED("stash_type")),
	  .infer = infer_layer, .run = run_rms,
	  .doc = "the last axes to mean square 1, then scale" },
	{ .name = "MeanVarianceNormalization", .since = 9, .least_in = 1, .most_in = 1,
	  .types = { RVL_T_FLOAT }, .attrs = RVL_ATTRS(RVL_INTS("axes")), .infer = infer_mvn,
	  .run = run_mvn, .doc = "axes to mean 0 and variance 1" },
	{ .name = "LRN", .since = 1, .work = work_lrn,
	  .least_in = 1, .most_in = 1, .types = { RVL_T_FLOAT },
	  .attrs = RVL_ATTRS(RVL_FLOAT("alpha", 0.0001f), RVL_FLOAT("beta", 0.75f),
			     RVL_FLOAT("bias", 1.0f), RVL_INT_REQUIRED("size")),
	  .infer = infer_lrn, .run = run_lrn,
	  .doc = "x / (bias + alpha * mean square of neighbouring channels) ^ beta" },
	RVL_OPS_END
};

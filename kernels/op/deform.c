/* SPDX-License-Identifier: MIT */
/* Convolution whose taps are displaced by offsets of their own at each position. */
#include <math.h>
#include <string.h>

#include "window.h"

struct deform {
	struct rvl_call *c;
	struct rvl_window w;
	int64_t channels, m;
	int64_t group, offset_group;
	int64_t in, out, taps;	/* elements of a plane and of a kernel */
};

static bool divides(int64_t part, int64_t whole)
{
	return part >= 1 && whole % part == 0;
}

/* Input @i has @per_tap planes of the result's size for each tap of each group of offsets. */
static int check_planes(struct rvl_call *c, const struct deform *d, uint32_t i, int64_t per_tap)
{
	const struct rvl_shape *s = &c->in[i].shape;
	bool ok = s->rank == d->w.rank + 2 && s->dim[0] == c->in[0].shape.dim[0] &&
		  divides(d->taps * per_tap, s->dim[1]) &&
		  s->dim[1] / (d->taps * per_tap) == d->offset_group;

	for (int a = 0; a < d->w.rank && ok; a++)
		ok = s->dim[a + 2] == d->w.axis[a].out;
	return ok ? 0 : rvl_op_fail(c, "the shape of its input %u does not fit window and groups", i);
}

static int start(struct rvl_call *c, struct deform *d)
{
	struct rvl_conv_parts p;
	int rc = rvl_conv_parts_read(c, 0, 1, false, &p);

	if (!rc)
		rc = rvl_conv_bias_check(c, 3, p.m);
	if (rc)
		return rc;
	*d = (struct deform) {
		.c = c, .w = p.w, .channels = c->in[0].shape.dim[1], .m = p.m,
		.group = rvl_attr_int(c, "group"), .offset_group = rvl_attr_int(c, "offset_group"),
		.in = p.in, .out = p.out, .taps = p.taps,
	};
	if (!divides(d->offset_group, d->channels))
		return rvl_op_fail(c, "%lld channels are not divided by %lld groups of offsets",
				   (long long)d->channels, (long long)d->offset_group);
	rc = check_planes(c, d, 2, d->w.rank);
	return rc || !rvl_has(c, 4) ? rc : check_planes(c, d, 4, 1);
}

static int infer_deform(struct rvl_call *c)
{
	struct rvl_conv_parts p;
	struct deform d;
	int rc = start(c, &d);

	if (rc)
		return rc;
	p = (struct rvl_conv_parts) { .w = d.w, .m = d.m };
	rvl_conv_set_result(c, 0, &p, c->in[0].type);
	return 0;
}

/* Each tap is a mean of four elements. */
static int64_t work_deform(const struct rvl_call *c)
{
	return rvl_work(rvl_conv_work(c, 0, 1, false), 8);
}

/* The elements between which a displaced tap lies, and their weights. */
struct corners {
	int n;
	int64_t at[1 << (RVL_MAX_RANK - 2)];
	double weight[1 << (RVL_MAX_RANK - 2)];
};

/* Adds one more axis to the list. Elements outside the image are left out, because they are 0. */
static void add_axis(struct corners *k, double at, int64_t n)
{
	double low = floor(at), part = at - low;
	int before = k->n;

	k->n = 0;
	if (!(at > -1 && at < (double)n))
		return;
	for (int i = before - 1; i >= 0; i--) {
		/*
		 * The list doubles in place. It is filled from its end, so that unread entries are
		 * not overwritten.
		 */
		int64_t base = k->at[i] * n;
		double w = k->weight[i];

		k->at[2 * i + 1] = low + 1 < (double)n ? base + (int64_t)low + 1 : 0;
		k->weight[2 * i + 1] = low + 1 < (double)n ? w * part : 0;
		k->at[2 * i] = low >= 0 ? base + (int64_t)low : 0;
		k->weight[2 * i] = low >= 0 ? w * (1 - part) : 0;
	}
	k->n = 2 * before;
}

/* A position of the result: image, position, and its index in a plane. */
struct place {
	int64_t image, pos[RVL_MAX_RANK], at;
};

static void find_corners(const struct deform *d, const struct place *p, int64_t og, int64_t tap,
			 struct corners *k)
{
	const float *offset = (const float *)d->c->in[2].data;
	int64_t plane = ((p->image * d->offset_group + og) * d->taps + tap) * d->w.rank;
	int64_t rest = tap, t[RVL_MAX_RANK];

	for (int a = d->w.rank - 1; a >= 0; a--) {
		t[a] = rest % d->w.axis[a].k;
		rest /= d->w.axis[a].k;
	}
	*k = (struct corners) { .n = 1, .weight = { 1 } };
	for (int a = 0; a < d->w.rank; a++) {
		const struct rvl_window_axis *x = &d->w.axis[a];
		int64_t at = p->pos[a] * x->stride + t[a] * x->dilation - x->pad[0];

		add_axis(k, (double)at + (double)offset[(plane + a) * d->out + p->at], x->n);
	}
	if (!rvl_has(d->c, 4))
		return;
	plane = (p->image * d->offset_group + og) * d->taps + tap;
	for (int i = 0; i < k->n; i++)
		k->weight[i] *= (double)((const float *)d->c->in[4].data)[plane * d->out + p->at];
}

static double sample(const struct corners *k, const float *x)
{
	double v = 0;

	for (int i = 0; i < k->n; i++)
		v += k->weight[i] * (double)x[k->at[i]];
	return v;
}

#define MANY 64		/* output channels summed at a time */

/* Adds one tap of an input channel to those of the output channels @m0 to @m1 that are of its group. */
static void add_tap(const struct deform *d, int64_t channel, int64_t tap, double v, int64_t m0,
		    int64_t m1, double *sum)
{
	int64_t per_m = d->m / d->group, per_c = d->channels / d->group, g = channel / per_c;
	const float *w = d->c->in[1].data;

	for (int64_t m = m0 > g * per_m ? m0 : g * per_m; m < m1 && m < (g + 1) * per_m; m++)
		sum[m - m0] += v * (double)w[(m * per_c + channel % per_c) * d->taps + tap];
}

static void sum_channels(const struct deform *d, const struct place *p, int64_t m0, int64_t m1)
{
	int64_t per_group = d->channels / d->offset_group;
	const float *x = (const float *)d->c->in[0].data + p->image * d->channels * d->in;
	float *y = (float *)d->c->out[0].data + p->image * d->m * d->out + p->at;
	double sum[MANY] = { 0 };
	struct corners k;

	for (int64_t og = 0; og < d->offset_group; og++) {
		for (int64_t tap = 0; tap < d->taps; tap++) {
			find_corners(d, p, og, tap, &k);
			for (int64_t c = og * per_group; c < (og + 1) * per_group && k.n; c++)
				add_tap(d, c, tap, sample(&k, x + c * d->in), m0, m1, sum);
		}
	}
	for (int64_t m = m0; m < m1; m++)
		y[m * d->out] = (float)(sum[m - m0] + (rvl_has(d->c, 3) ?
				(double)((const float *)d->c->in[3].data)[m] : 0));
}

static void run_places(void *arg, int64_t first, int64_t past)
{
	const struct deform *d = arg;

	for (int64_t i = first; i < past; i++) {
		struct place p = { .image = i / d->out, .at = i % d->out };
		int64_t rest = p.at;

		for (int a = d->w.rank - 1; a >= 0; a--) {
			p.pos[a] = rest % d->w.axis[a].out;
			rest /= d->w.axis[a].out;
		}
		for (int64_t m = 0; m < d->m; m += MANY)
			sum_channels(d, &p, m, m + MANY < d->m ? m + MANY : d->m);
	}
}

static int run_deform(struct rvl_call *c)
{
	struct deform d;
	int rc = start(c, &d);

	if (!rc)
		rvl_for_range(c, c->in[0].shape.dim[0] * d.out, 16, run_places, &d);
	return rc;
}

const struct rvl_op_def rvl_ops_deform[] = {
	{ .name = "DeformConv", .since = 19, .work = work_deform,
	  .least_in = 3, .most_in = 5, .types = { RVL_T_FLOAT },
	  .same = RVL_SAME_ALL,
	  .attrs = RVL_ATTRS(RVL_INTS("kernel_shape"), RVL_INTS("pads"), RVL_INTS("strides"),
			     RVL_INTS("dilations"), RVL_INT("group", 1),
			     RVL_INT("offset_group", 1)),
	  .infer = infer_deform, .run = run_deform,
	  .doc = "convolution whose taps are displaced by offsets and weighted by a mask" },
	RVL_OPS_END
};

/* SPDX-License-Identifier: MIT */
/* Pools under windows of any number of dimensions, over whole channels, and over regions. */
#include <math.h>
#include <string.h>

#include "pool.h"
#include "window.h"

struct pool {
	struct rvl_call *c;
	struct rvl_window w;
	int64_t in, out;	/* elements of a plane */
	double p;		/* the power of LpPool */
	bool include_pad, column_major;
};

static int infer_pool(struct rvl_call *c)
{
	struct rvl_shape y = c->in[0].shape;
	struct rvl_window w;
	int rc = rvl_window_read(c, &c->in[0].shape, NULL, &w);

	if (rc)
		return rc;
	for (int i = 0; i < w.rank; i++)
		y.dim[i + 2] = w.axis[i].out;
	rvl_set_out(c, 0, c->in[0].type, &y);
	rvl_set_out(c, 1, RVL_TYPE_S64, &y);
	return 0;
}

static int start_pool(struct rvl_call *c, struct pool *p)
{
	int rc = rvl_window_read(c, &c->in[0].shape, NULL, &p->w);

	p->c = c;
	p->in = rvl_window_in(&p->w);
	p->out = rvl_window_out(&p->w);
	return rc;
}

static int64_t planes(const struct rvl_call *c)
{
	return c->in[0].shape.dim[0] * c->in[0].shape.dim[1];
}

/* ---- MaxPool: a row's sums hold the index of the largest element so far, plus 1 ---- */

#define LARGEST(name, type) \
	static void name(void *arg, const struct rvl_window_row *row, \
			 const struct rvl_window_tap *t, union rvl_window_sum *sum) \
	{ \
		const struct pool *p = arg; \
		const type *x = (const type *)p->c->in[0].data + row->plane * p->in; \
		for (int64_t i = 0; i < t->n; i++) { \
			int64_t *best = &sum->s[t->y + i], at = t->x + i * t->x_step; \
			if (!*best || x[at] > x[*best - 1]) \
				*best = at + 1; \
		} \
	}

LARGEST(largest_f32, float)
LARGEST(largest_u8, uint8_t)
LARGEST(largest_s8, int8_t)

/* The index as if the image was stored with its first dimension innermost. */
static int64_t column_major(const struct rvl_window *w, int64_t at)
{
	int64_t pos[RVL_MAX_RANK], index = 0;

	for (int d = w->rank - 1; d >= 0; d--) {
		pos[d] = at % w->axis[d].n;
		at /= w->axis[d].n;
	}
	for (int d = w->rank - 1; d >= 0; d--)
		index = index * w->axis[d].n + pos[d];
	return index;
}

/* A window that lies entirely in the padding gives the least value, as in onnxruntime. */
static void end_largest(void *arg, const struct rvl_window_row *row, union rvl_window_sum *sum)
{
	const struct pool *p = arg;
	size_t size = rvl_type_size(p->c->in[0].type);
	const char *x = (const char *)p->c->in[0].data + (size_t)(row->plane * p->in) * size;
	int64_t first = row->plane * p->out + row->at;
	char *y = (char *)p->c->out[0].data + (size_t)first * size;

	for (int64_t i = 0; i < row->n; i++) {
		int64_t at = sum->s[i] ? sum->s[i] - 1 : 0;

		if (sum->s[i])
			memcpy(y + (size_t)i * size, x + (size_t)at * size, size);
		else
			rvl_put_least(p->c->in[0].type, y, i);
		if (rvl_wants(p->c, 1))
			((int64_t *)p->c->out[1].data)[first + i] = row->plane * p->in +
				(p->column_major ? column_major(&p->w, at) : at);
	}
}

static int run_max_pool(struct rvl_call *c)
{
	enum rvl_type t = c->in[0].type;
	struct pool p = { .column_major = rvl_window_flag(c, "storage_order") };
	struct rvl_window_work work = {
		.tap = t == RVL_TYPE_F32 ? largest_f32 : t == RVL_TYPE_U8 ? largest_u8 : largest_s8,
		.end = end_largest, .arg = &p,
	};
	int rc = start_pool(c, &p);

	if (!rc)
		rvl_window_run(c, &p.w, planes(c), &work);
	return rc;
}

/* ---- AveragePool, LpPool ---- */

static void add_row(void *arg, const struct rvl_window_row *row, const struct rvl_window_tap *t,
		    union rvl_window_sum *sum)
{
	const struct pool *p = arg;
	const float *x = (const float *)p->c->in[0].data + row->plane * p->in + t->x;

	for (int64_t i = 0; i < t->n; i++)
		sum->f[t->y + i] += (double)x[i * t->x_step];
}

static int64_t taps_on_axis(const struct pool *p, int d, int64_t o)
{
	int64_t first, past;

	if (p->include_pad)
		return rvl_window_padded(&p->w.axis[d], o);
	rvl_window_taps(&p->w.axis[d], o, &first, &past);
	return past - first;
}

static void end_average(void *arg, const struct rvl_window_row *row, union rvl_window_sum *sum)
{
	const struct pool *p = arg;
	float *y = (float *)p->c->out[0].data + row->plane * p->out + row->at;
	int last = p->w.rank - 1;
	double outer = 1;

	for (int d = 0; d < last; d++)
		outer *= (double)taps_on_axis(p, d, row->pos[d]);
	for (int64_t i = 0; i < row->n; i++) {
		double n = outer * (double)taps_on_axis(p, last, row->pos[last] + i);

		y[i] = n > 0 ? (float)(sum->f[i] / n) : 0.0f;
	}
}

static int run_average_pool(struct rvl_call *c)
{
	struct pool p = {
		.include_pad = rvl_window_flag(c, "count_include_pad"),
	};
	struct rvl_window_work work = { .tap = add_row, .end = end_average, .arg = &p };
	int rc = start_pool(c, &p);

	if (!rc)
		rvl_window_run(c, &p.w, planes(c), &work);
	return rc;
}

static double power(double x, double p)
{
	x = fabs(x);
	return p == 2 ? x * x : p == 1 ? x : pow(x, p);
}

static double root(double sum, double p)
{
	return p == 2 ? sqrt(sum) : p == 1 ? sum : pow(sum, 1 / p);
}

static void add_powers(void *arg, const struct rvl_window_row *row,
		       const struct rvl_window_tap *t, union rvl_window_sum *sum)
{
	const struct pool *p = arg;
	const float *x = (const float *)p->c->in[0].data + row->plane * p->in + t->x;

	for (int64_t i = 0; i < t->n; i++)
		sum->f[t->y + i] += power((double)x[i * t->x_step], p->p);
}

static void end_root(void *arg, const struct rvl_window_row *row, union rvl_window_sum *sum)
{
	const struct pool *p = arg;
	float *y = (float *)p->c->out[0].data + row->plane * p->out + row->at;

	for (int64_t i = 0; i < row->n; i++)
		y[i] = (float)root(sum->f[i], p->p);
}

/* The power is a float in opset 1 and an integer from opset 2 on. */
static double power_of(const struct rvl_call *c)
{
	return c->def->since < 2 ? (double)rvl_attr_float(c, "p") : (double)rvl_attr_int(c, "p");
}

static int infer_lp_pool(struct rvl_call *c)
{
	if (!(power_of(c) > 0))
		return rvl_op_fail(c, "attribute p is %g, not positive", power_of(c));
	return infer_pool(c);
}

static int run_lp_pool(struct rvl_call *c)
{
	struct pool p = { .p = power_of(c) };
	struct rvl_window_work work = { .tap = add_powers, .end = end_root, .arg = &p };
	int rc = start_pool(c, &p);

	if (!rc)
		rvl_window_run(c, &p.w, planes(c), &work);
	return rc;
}

/* ---- whole channels ---- */

static int infer_global(struct rvl_call *c)
{
	struct rvl_shape y = c->in[0].shape;

	if (y.rank < 3)
		return rvl_op_fail(c, "its input has no spatial dimensions");
	for (int i = 2; i < y.rank; i++)
		y.dim[i] = 1;
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

static int64_t work_pool(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct rvl_window w;

	if (rvl_window_read(&copy, &c->in[0].shape, NULL, &w))
		return INT64_MAX;
	return rvl_work(rvl_count(&c->out[0]), rvl_work(rvl_window_size(&w), RVL_WORK_EXP));
}

static int64_t work_global(const struct rvl_call *c)
{
	return rvl_work(rvl_count(&c->in[0]), RVL_WORK_EXP);
}

/* Each part of a region is at most the image. */
static int64_t work_max_roi(const struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;

	return rvl_work(rvl_count(&c->out[0]), rvl_work(x->dim[2], x->dim[3]));
}

static int infer_global_lp(struct rvl_call *c)
{
	if (!(power_of(c) > 0))
		return rvl_op_fail(c, "attribute p is %g, not positive", power_of(c));
	return infer_global(c);
}

static float mean_of(const struct pool *p, const float *x)
{
	double sum = 0;

	for (int64_t i = 0; i < p->in; i++)
		sum += (double)x[i];
	return (float)(sum / (double)p->in);
}

static float largest_of(const struct pool *p, const float *x)
{
	float best = -INFINITY;

	for (int64_t i = 0; i < p->in; i++)
		best = x[i] > best || isnan(x[i]) ? x[i] : best;
	return best;
}

static float norm_of(const struct pool *p, const float *x)
{
	double sum = 0;

	for (int64_t i = 0; i < p->in; i++)
		sum += power((double)x[i], p->p);
	return (float)root(sum, p->p);
}

struct global {
	struct pool p;
	float (*of)(const struct pool *p, const float *x);
};

static void global_planes(void *arg, int64_t first, int64_t past)
{
	const struct global *g = arg;

	for (int64_t i = first; i < past; i++)
		((float *)g->p.c->out[0].data)[i] =
			g->of(&g->p, (const float *)g->p.c->in[0].data + i * g->p.in);
}

static int run_global(struct rvl_call *c, float (*of)(const struct pool *p, const float *x),
		      double power)
{
	struct global g = { .p = { .c = c, .in = 1, .p = power }, .of = of };

	for (int i = 2; i < c->in[0].shape.rank; i++)
		g.p.in *= c->in[0].shape.dim[i];
	rvl_for_range(c, planes(c), 1, global_planes, &g);
	return 0;
}

static int run_global_average(struct rvl_call *c)
{
	return run_global(c, mean_of, 0);
}

static int run_global_max(struct rvl_call *c)
{
	return run_global(c, largest_of, 0);
}

static int run_global_lp(struct rvl_call *c)
{
	return run_global(c, norm_of, power_of(c));
}

/* ---- MaxRoiPool ---- */

/* Regions: rows of [batch index, x1, y1, x2, y2] in pixels of the unscaled image. */
static int infer_max_roi(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape, *roi = &c->in[1].shape;
	uint32_t n;
	const int64_t *size = rvl_attr_ints(c, "pooled_shape", &n);

	if (x->rank != 4)
		return rvl_op_fail(c, "its input has %d dimensions, not 4", x->rank);
	if (roi->rank != 2 || roi->dim[1] != 5)
		return rvl_op_fail(c, "its regions are not rows of 5 numbers");
	if (n != 2 || size[0] < 1 || size[1] < 1)
		return rvl_op_fail(c, "attribute pooled_shape is not two positive numbers");
	rvl_set_out(c, 0, c->in[0].type,
		    &(const struct rvl_shape) {
			    .rank = 4, .dim = { roi->dim[0], x->dim[1], size[0], size[1] } });
	return 0;
}

/* One axis of a region: its bins divide [from, from + length). */
struct bins {
	int64_t from, length, bins, n;
};

static int64_t within(int64_t v, int64_t n)
{
	return v < 0 ? 0 : v > n ? n : v;
}

static void bin_range(const struct bins *b, int64_t i, int64_t *first, int64_t *past)
{
	float size = (float)b->length / (float)b->bins;

	*first = within((int64_t)floorf((float)i * size) + b->from, b->n);
	*past = within((int64_t)ceilf((float)(i + 1) * size) + b->from, b->n);
}

/* A coordinate in pixels of the image; one that is far outside or NaN comes out at a limit. */
static int64_t pixel(float v, float scale)
{
	return (int64_t)fminf(fmaxf(roundf(v * scale), -0x1p30f), 0x1p30f);
}

static struct bins bins_of(float low, float high, float scale, int64_t bins, int64_t n)
{
	struct bins b = { .from = pixel(low, scale), .bins = bins, .n = n };

	b.length = pixel(high, scale) - b.from + 1;
	b.length = b.length < 1 ? 1 : b.length;
	return b;
}

static float max_in_bin(const float *x, int64_t width, const int64_t v[2], const int64_t h[2])
{
	float best = v[0] < v[1] && h[0] < h[1] ? -INFINITY : 0.0f;

	for (int64_t y = v[0]; y < v[1]; y++)
		for (int64_t i = h[0]; i < h[1]; i++)
			best = x[y * width + i] > best ? x[y * width + i] : best;
	return best;
}

static void max_roi_planes(void *arg, int64_t first, int64_t past)
{
	const struct rvl_call *c = arg;
	const int64_t *xd = c->in[0].shape.dim, *yd = c->out[0].shape.dim;
	float scale = rvl_attr_float(c, "spatial_scale");

	for (int64_t i = first; i < past; i++) {
		const float *roi = (const float *)c->in[1].data + i / xd[1] * 5;
		const float *x = (const float *)c->in[0].data +
				 ((int64_t)roi[0] * xd[1] + i % xd[1]) * xd[2] * xd[3];
		float *y = (float *)c->out[0].data + i * yd[2] * yd[3];
		struct bins v = bins_of(roi[2], roi[4], scale, yd[2], xd[2]);
		struct bins h = bins_of(roi[1], roi[3], scale, yd[3], xd[3]);
		int64_t vr[2], hr[2];

		for (int64_t k = 0; k < yd[2] * yd[3]; k++) {
			bin_range(&v, k / yd[3], &vr[0], &vr[1]);
			bin_range(&h, k % yd[3], &hr[0], &hr[1]);
			y[k] = max_in_bin(x, xd[3], vr, hr);
		}
	}
}

static int run_max_roi(struct rvl_call *c)
{
	const float *roi = c->in[1].data;
	int64_t batch = c->in[0].shape.dim[0];

	for (int64_t i = 0; i < c->in[1].shape.dim[0]; i++)
		if (!(roi[5 * i] >= 0.0f && roi[5 * i] < (float)batch))
			return rvl_op_fail(c, "region %lld is of image %g, there are %lld",
					   (long long)i, (double)roi[5 * i], (long long)batch);
	rvl_for_range(c, rvl_count(&c->out[0]) / (c->out[0].shape.dim[2] * c->out[0].shape.dim[3]),
		      1, max_roi_planes, c);
	return 0;
}

#define AUTO_PAD RVL_STRING("auto_pad", "NOTSET", "NOTSET|SAME_UPPER|SAME_LOWER|VALID")
#define WINDOW AUTO_PAD, RVL_INTS_REQUIRED("kernel_shape"), RVL_INTS("pads"), RVL_INTS("strides")
#define CEIL RVL_FLAG("ceil_mode", 0)
#define INCLUDE RVL_FLAG("count_include_pad", 0)

#define POOL(op, which, opset, outputs, set, rule, fn, cost, text, ...) { \
	.name = op, .since = (opset), .work = cost, \
	.least_in = 1, .most_in = 1, .most_out = (outputs), \
	.types = { set }, .attrs = RVL_ATTRS(__VA_ARGS__), .infer = rule, .run = fn, \
	.kernel = which, .doc = text }
#define MAX_POOL(opset, outputs, set, ...) \
	POOL("MaxPool", RVL_OP_MAX_POOL, opset, outputs, set, infer_pool, run_max_pool, \
	     work_pool, 	     "largest element under a window, and its index", __VA_ARGS__)
#define AVERAGE_POOL(opset, ...) \
	POOL("AveragePool", RVL_OP_AVERAGE_POOL, opset, 1, RVL_T_FLOAT, infer_pool, run_average_pool, \
	     work_pool, 	     "mean under a window", __VA_ARGS__)
#define LP_POOL(opset, ...) \
	POOL("LpPool", RVL_OP_UNSUPPORTED, opset, 1, RVL_T_FLOAT, infer_lp_pool, run_lp_pool, \
	     work_pool, 	     "p-norm of the elements under a window", __VA_ARGS__)
#define GLOBAL(op, opset, rule, fn, text, ...) \
	POOL(op, RVL_OP_UNSUPPORTED, opset, 1, RVL_T_FLOAT, rule, fn, work_global, text, \
	     __VA_ARGS__)

const struct rvl_op_def rvl_ops_pool[] = {
	MAX_POOL(1, 1, RVL_T_FLOAT, WINDOW),
	MAX_POOL(8, 2, RVL_T_FLOAT, WINDOW, RVL_FLAG("storage_order", 0)),
	MAX_POOL(10, 2, RVL_T_FLOAT, WINDOW, RVL_FLAG("storage_order", 0), CEIL,
		 RVL_INTS("dilations")),
	MAX_POOL(12, 2, RVL_T_FLOAT | RVL_T(U8) | RVL_T(S8), WINDOW, RVL_FLAG("storage_order", 0),
		 CEIL, RVL_INTS("dilations")),
	AVERAGE_POOL(1, WINDOW),
	AVERAGE_POOL(7, WINDOW, INCLUDE),
	AVERAGE_POOL(10, WINDOW, INCLUDE, CEIL),
	AVERAGE_POOL(19, WINDOW, INCLUDE, CEIL, RVL_INTS("dilations")),
	LP_POOL(1, WINDOW, RVL_FLOAT("p", 2.0f)),
	LP_POOL(2, WINDOW, RVL_INT("p", 2)),
	LP_POOL(18, WINDOW, RVL_INT("p", 2), CEIL, RVL_INTS("dilations")),
	{ .name = "GlobalAveragePool", .since = 1, .least_in = 1, .most_in = 1,
	  .types = { RVL_T_FLOAT }, .infer = infer_global, .run = run_global_average,
	  .kernel = RVL_OP_GLOBAL_AVERAGE_POOL,
	  .doc = "mean of every channel" },
	{ .name = "GlobalMaxPool", .since = 1, .least_in = 1, .most_in = 1,
	  .types = { RVL_T_FLOAT }, .infer = infer_global, .run = run_global_max,
	  .kernel = RVL_OP_GLOBAL_MAX_POOL,
	  .doc = "largest element of every channel" },
	GLOBAL("GlobalLpPool", 1, infer_global_lp, run_global_lp, "p-norm of every channel",
	       RVL_FLOAT("p", 2.0f)),
	GLOBAL("GlobalLpPool", 2, infer_global_lp, run_global_lp, "p-norm of every channel",
	       RVL_INT("p", 2)),
	{ .name = "MaxRoiPool", .since = 1, .work = work_max_roi,
	  .least_in = 2, .most_in = 2, .types = { RVL_T_FLOAT },
	  .same = RVL_SAME_ALL,
	  .attrs = RVL_ATTRS(RVL_INTS_REQUIRED("pooled_shape"), RVL_FLOAT("spatial_scale", 1.0f)),
	  .infer = infer_max_roi, .run = run_max_roi,
	  .doc = "largest element of each part of a region of an image" },
	RVL_OPS_END
};

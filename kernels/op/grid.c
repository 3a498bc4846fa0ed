/* SPDX-License-Identifier: MIT */
/* Images sampled at computed places: GridSample, AffineGrid, RoiAlign. */
#include <math.h>
#include <string.h>

#include "rivulet_op.h"

#define SPATIAL 3	/* dimensions of an image, at most */
#define TAPS 4		/* elements along an axis that make a sample, at most */

/* ---- GridSample ---- */

enum padding { ZEROS, BORDER, REFLECTION };

struct grid_sample {
	struct rvl_call *c;
	int rank;
	int64_t dim[SPATIAL];
	int64_t in, out;	/* elements of a plane, samples of an image */
	int taps;		/* 1 nearest, 2 linear, 4 cubic */
	bool align;
	enum padding padding;
};

static int infer_grid_sample(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape, *g = &c->in[1].shape;
	struct rvl_shape y = *g;

	if (x->rank < 3 || x->rank > SPATIAL + 2)
		return rvl_op_fail(c, "its input has %d dimensions, not 3 to %d", x->rank, SPATIAL + 2);
	if (g->rank != x->rank || g->dim[g->rank - 1] != x->rank - 2 || g->dim[0] != x->dim[0])
		return rvl_op_fail(c, "the shape of its grid does not fit its input");
	for (int i = 2; i < x->rank; i++) {
		y.dim[i] = g->dim[i - 1];
		if (!x->dim[i] && rvl_count(&c->in[1]))
			return rvl_op_fail(c, "it samples an image without elements");
	}
	y.dim[1] = x->dim[1];
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

/* A coordinate of the grid, -1 to 1, in elements. One that is NaN lies outside. */
static double place(const struct grid_sample *s, float v, int64_t n)
{
	float x = s->align ? (v + 1) / 2 * (float)(n - 1) : ((v + 1) * (float)n - 1) / 2;

	x = s->taps == 1 ? rintf(x) : x;
	return fmin(fmax((double)x, -0x1p40), 0x1p40);
}

/* Mirrors @x at the borders of an axis until it lies between them. */
static double reflect(const struct grid_sample *s, double x, int64_t n)
{
	double low = s->align ? 0 : -0.5, range = s->align ? (double)(n - 1) : (double)n;
	double far;

	if (range <= 0)
		return 0;
	far = fmod(fabs(x - low), 2 * range);
	return low + (far > range ? 2 * range - far : far);
}

/*
 * A sample by cubic convolution outside of the image keeps its coordinate, and its taps are clamped
 * to the border, as in onnxruntime and PyTorch.
 */
static double pad_place(const struct grid_sample *s, double x, int64_t n)
{
	if (s->padding == BORDER && s->taps < 4)
		return fmin(fmax(x, 0), (double)(n - 1));
	return s->padding == REFLECTION ? reflect(s, x, n) : x;
}

/* The index of the element used for index @i; -1: zero. */
static int64_t pad_index(const struct grid_sample *s, double i, int64_t n)
{
	if (s->padding == ZEROS)
		return i >= 0 && i < (double)n ? (int64_t)i : -1;
	if (s->padding == REFLECTION)
		i = trunc(reflect(s, i, n));
	return (int64_t)fmin(fmax(i, 0), (double)(n - 1));
}

/* Cubic convolution with a = -0.75. */
static double cubic(double x)
{
	const double a = -0.75;

	x = fabs(x);
	if (x <= 1)
		return ((a + 2) * x - (a + 3)) * x * x + 1;
	return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* The elements that contribute to a sample, and their weights. */
struct sample {
	int n;
	int64_t at[TAPS * TAPS * TAPS];
	double weight[TAPS * TAPS * TAPS];
};

/* Adds an axis: each entry of @s is replaced by one for each tap along the axis. */
static void join_axis(const struct grid_sample *s, double x, int64_t n, struct sample *k)
{
	struct sample old = *k;
	double first = floor(x) - (s->taps == 4);

	k->n = 0;
	for (int t = 0; t < s->taps; t++) {
		double distance = x - (first + t);
		double w = s->taps == 4 ? cubic(distance) : s->taps == 2 ? 1 - fabs(distance) : 1;
		int64_t i = pad_index(s, first + t, n);

		for (int j = 0; j < old.n && i >= 0; j++) {
			k->at[k->n] = old.at[j] * n + i;
			k->weight[k->n++] = old.weight[j] * w;
		}
	}
}

static void sample_at(const struct grid_sample *s, const float *grid, struct sample *k)
{
	k->n = 1;
	k->at[0] = 0;
	k->weight[0] = 1;
	/* The last coordinate is that of the first axis. */
	for (int d = 0; d < s->rank; d++) {
		double x = place(s, grid[s->rank - 1 - d], s->dim[d]);

		join_axis(s, pad_place(s, x, s->dim[d]), s->dim[d], k);
	}
}

static float gather(const struct sample *k, const float *x)
{
	double sum = 0;

	for (int i = 0; i < k->n; i++)
		sum += k->weight[i] * (double)x[k->at[i]];
	return (float)sum;
}

static void sample_range(void *arg, int64_t first, int64_t past)
{
	const struct grid_sample *s = arg;
	int64_t channels = s->c->in[0].shape.dim[1];
	struct sample k;

	for (int64_t i = first; i < past; i++) {
		int64_t image = i / s->out * channels;
		const float *x = (const float *)s->c->in[0].data + image * s->in;
		float *y = (float *)s->c->out[0].data + image * s->out + i % s->out;

		sample_at(s, (const float *)s->c->in[1].data + i * s->rank, &k);
		for (int64_t c = 0; c < channels; c++)
			y[c * s->out] = gather(&k, x + c * s->in);
	}
}

static int run_grid_sample(struct rvl_call *c)
{
	const char *mode = rvl_attr_string(c, "mode");
	struct grid_sample s = {
		.c = c, .rank = c->in[0].shape.rank - 2, .in = 1, .out = 1,
		.taps = !strcmp(mode, "nearest") ? 1 : strstr(mode, "cubic") ? 4 : 2,
		.align = rvl_attr_int(c, "align_corners") != 0,
		.padding = rvl_attr_is(c, "padding_mode", "zeros") ? ZEROS :
			   rvl_attr_is(c, "padding_mode", "border") ? BORDER : REFLECTION,
	};

	for (int i = 0; i < s.rank; i++) {
		s.dim[i] = c->in[0].shape.dim[i + 2];
		s.in *= s.dim[i];
		s.out *= c->out[0].shape.dim[i + 2];
	}
	rvl_for_range(c, c->in[0].shape.dim[0] * s.out, 16, sample_range, &s);
	return 0;
}

/* ---- AffineGrid ---- */

static int infer_affine(struct rvl_call *c)
{
	const struct rvl_shape *t = &c->in[0].shape;
	int64_t size[SPATIAL + 2];
	struct rvl_shape y = { .rank = 0 };
	uint32_t n;
	int rc = rvl_int_input(c, 1, size, SPATIAL + 2, &n);

	if (rc)
		return rc;
	if (n < 4)
		return rvl_op_fail(c, "its size has %u values, not 4 or 5", n);
	if (t->rank != 3 || t->dim[0] != size[0] || t->dim[1] != n - 2 || t->dim[2] != n - 1)
		return rvl_op_fail(c, "the shape of its transform does not fit its size");
	y.rank = (int32_t)n;
	y.dim[0] = size[0];
	for (uint32_t i = 2; i < n; i++) {
		if (size[i] < 0)
			return rvl_op_fail(c, "size %u is %lld", i, (long long)size[i]);
		y.dim[i - 1] = size[i];
	}
	y.dim[n - 1] = n - 2;
	if (rvl_shape_count(&y) < 0)
		return rvl_op_fail(c, "its result is too large");
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

/* Coordinate @i of @n, -1 to 1. */
static double affine_step(bool align, int64_t i, int64_t n)
{
	if (!align)
		return (2 * (double)i + 1) / (double)n - 1;
	return n > 1 ? 2 * (double)i / (double)(n - 1) - 1 : -1;
}

static void affine_range(void *arg, int64_t first, int64_t past)
{
	const struct rvl_call *c = arg;
	const struct rvl_shape *y = &c->out[0].shape;
	int rank = y->rank - 2;
	bool align = rvl_attr_int(c, "align_corners") != 0;

	for (int64_t i = first; i < past; i++) {
		double at[SPATIAL];
		int64_t rest = i;
		float *to = (float *)c->out[0].data + i * rank;
		const float *t;

		/* The coordinates are those of the axes from the last to the first. */
		for (int d = 0; d < rank; d++) {
			int64_t n = y->dim[rank - d];

			at[d] = affine_step(align, rest % n, n);
			rest /= n;
		}
		t = (const float *)c->in[0].data + rest * rank * (rank + 1);
		for (int r = 0; r < rank; r++, t += rank + 1) {
			double sum = (double)t[rank];

			for (int d = 0; d < rank; d++)
				sum += (double)t[d] * at[d];
			to[r] = (float)sum;
		}
	}
}

static int run_affine(struct rvl_call *c)
{
	int64_t n = rvl_count(&c->out[0]) / (c->out[0].shape.rank - 2);

	rvl_for_range(c, n, 256, affine_range, c);
	return 0;
}

/* ---- RoiAlign ---- */

#define MOST_SAMPLES 1024	/* along an axis of a bin */

struct roi_align {
	struct rvl_call *c;
	double scale, offset;
	int64_t ratio;
	bool max;
	int64_t channels, h, w, ph, pw;
};

/* Four elements for each sample. Where the regions decide the number of samples, shapes do not bound it. */
static int64_t work_roi_align(const struct rvl_call *c)
{
	int64_t ratio = rvl_attr_int(c, "sampling_ratio");

	if (ratio < 1)
		return INT64_MAX;
	return rvl_work(rvl_count(&c->out[0]), rvl_work(8, rvl_work(ratio, ratio)));
}

static int infer_roi_align(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape, *roi = &c->in[1].shape, *b = &c->in[2].shape;
	int64_t h = rvl_attr_int(c, "output_height"), w = rvl_attr_int(c, "output_width");
	int64_t ratio = rvl_attr_int(c, "sampling_ratio");

	if (x->rank != 4)
		return rvl_op_fail(c, "its input has %d dimensions, not 4", x->rank);
	if (roi->rank != 2 || roi->dim[1] != 4)
		return rvl_op_fail(c, "its regions are not rows of 4 numbers");
	if (b->rank != 1 || b->dim[0] != roi->dim[0])
		return rvl_op_fail(c, "it has not one image index for each region");
	if (h < 1 || w < 1 || h > INT32_MAX || w > INT32_MAX)
		return rvl_op_fail(c, "its result of %lld by %lld is out of range", (long long)h,
				   (long long)w);
	if (ratio < 0 || ratio > MOST_SAMPLES)
		return rvl_op_fail(c, "attribute sampling_ratio is %lld, not 0 to %d",
				   (long long)ratio, MOST_SAMPLES);
	if (rvl_count(&c->in[1]) && (!x->dim[2] || !x->dim[3]))
		return rvl_op_fail(c, "its images have no elements");
	rvl_set_out(c, 0, c->in[0].type,
		    &(const struct rvl_shape) { .rank = 4, .dim = { roi->dim[0], x->dim[1], h, w } });
	return 0;
}

/* One axis of a region: the bins and the samples in each. */
struct bins {
	double from, size;
	int64_t samples;
};

static struct bins bins_of(const struct roi_align *a, float low, float high, int64_t n)
{
	struct bins b = { .from = (double)low * a->scale - a->offset };
	double length = (double)high * a->scale - a->offset - b.from, samples;

	/* Without the offset a region is at least one element long. */
	if (a->offset == 0)
		length = fmax(length, 1);
	b.size = length / (double)n;
	samples = a->ratio ? (double)a->ratio : ceil(b.size);
	b.samples = samples <= MOST_SAMPLES ? (int64_t)fmax(samples, 0) : -1;
	if (isnan(length))
		b.samples = -1;
	return b;
}

static void bins_of_region(const struct roi_align *a, int64_t i, struct bins *v, struct bins *h)
{
	const float *roi = (const float *)a->c->in[1].data + 4 * i;

	*v = bins_of(a, roi[1], roi[3], a->ph);
	*h = bins_of(a, roi[0], roi[2], a->pw);
}

/* The two elements along an axis next to a sample. Returns false if the sample lies outside. */
static bool neighbours(const struct bins *b, int64_t bin, int64_t i, int64_t n, int64_t at[2],
		       double w[2])
{
	double x = b->from + (double)bin * b->size +
		   ((double)i + 0.5) * b->size / (double)b->samples;

	if (!(x >= -1 && x <= (double)n))
		return false;
	x = fmin(fmax(x, 0), (double)(n - 1));
	at[0] = (int64_t)x;
	at[1] = at[0] + 1 < n ? at[0] + 1 : at[0];
	w[1] = x - (double)at[0];
	w[0] = 1 - w[1];
	return true;
}

/* Adds a sample, or for the largest keeps the larger one. @first: it is the first sample. */
static void take(const struct roi_align *a, const float *x, const int64_t v[2], const double vw[2],
		 const int64_t h[2], const double hw[2], bool first, double *y)
{
	double part[4];

	for (int k = 0; k < 4; k++)
		part[k] = vw[k / 2] * hw[k % 2] * (double)x[v[k / 2] * a->w + h[k % 2]];
	if (a->max) {
		double m = fmax(fmax(part[0], part[1]), fmax(part[2], part[3]));

		*y = first ? m : fmax(*y, m);
	} else {
		*y += part[0] + part[1] + part[2] + part[3];
	}
}

static double pool_bin(const struct roi_align *a, const float *x, const struct bins *v,
		       const struct bins *h, int64_t by, int64_t bx)
{
	double y = 0, vw[2], hw[2], count = (double)(v->samples * h->samples);
	int64_t at[2], across[2];

	for (int64_t i = 0; i < v->samples; i++) {
		bool row = neighbours(v, by, i, a->h, at, vw);

		for (int64_t k = 0; k < h->samples; k++) {
			bool first = !i && !k;

			if (row && neighbours(h, bx, k, a->w, across, hw))
				take(a, x, at, vw, across, hw, first, &y);
			else if (a->max)
				y = first ? 0 : fmax(y, 0);
		}
	}
	return a->max || count < 1 ? y : y / count;
}

static void align_planes(void *arg, int64_t first, int64_t past)
{
	const struct roi_align *a = arg;

	for (int64_t i = first; i < past; i++) {
		int64_t roi = i / a->channels;
		int64_t image = rvl_element_int(a->c->in[2].type, a->c->in[2].data, roi);
		const float *x = (const float *)a->c->in[0].data +
				 (image * a->channels + i % a->channels) * a->h * a->w;
		float *y = (float *)a->c->out[0].data + i * a->ph * a->pw;
		struct bins v, h;

		bins_of_region(a, roi, &v, &h);
		for (int64_t by = 0; by < a->ph; by++)
			for (int64_t bx = 0; bx < a->pw; bx++)
				*y++ = (float)pool_bin(a, x, &v, &h, by, bx);
	}
}

static int check_regions(const struct roi_align *a)
{
	struct rvl_call *c = a->c;
	struct bins v, h;

	for (int64_t i = 0; i < c->in[1].shape.dim[0]; i++) {
		int64_t image = rvl_element_int(c->in[2].type, c->in[2].data, i);

		if (image < 0 || image >= c->in[0].shape.dim[0])
			return rvl_op_fail(c, "region %lld is of image %lld, there are %lld",
					   (long long)i, (long long)image,
					   (long long)c->in[0].shape.dim[0]);
		bins_of_region(a, i, &v, &h);
		if (v.samples < 0 || h.samples < 0)
			return rvl_op_fail(c, "region %lld has more than %d samples along a side of a bin",
					   (long long)i, MOST_SAMPLES);
	}
	return 0;
}

/* Opset 16 moves the regions by half an element unless a model asks for the older result. */
static int run_roi_align(struct rvl_call *c)
{
	const int64_t *x = c->in[0].shape.dim, *y = c->out[0].shape.dim;
	struct roi_align a = {
		.c = c, .scale = (double)rvl_attr_float(c, "spatial_scale"),
		.ratio = rvl_attr_int(c, "sampling_ratio"), .max = rvl_attr_is(c, "mode", "max"),
		.channels = x[1], .h = x[2], .w = x[3], .ph = y[2], .pw = y[3],
	};
	int rc;

	if (c->def->since >= 16 && rvl_attr_is(c, "coordinate_transformation_mode", "half_pixel"))
		a.offset = 0.5;
	rc = check_regions(&a);
	if (!rc)
		rvl_for_range(c, y[0] * y[1], 1, align_planes, &a);
	return rc;
}

#define SAMPLE(opset, first, list) { \
	.name = "GridSample", .since = (opset), .least_in = 2, .most_in = 2, \
	.types = { RVL_T_FLOAT }, .same = RVL_SAME_ALL, \
	.attrs = RVL_ATTRS(RVL_INT("align_corners", 0), RVL_STRING("mode", first, list), \
			   RVL_STRING("padding_mode", "zeros", "zeros|border|reflection")), \
	.infer = infer_grid_sample, .run = run_grid_sample, \
	.doc = "an image of 1 to 3 dimensions, sampled at the coordinates of a grid" }
#define ROI \
	RVL_STRING("mode", "avg", "avg|max"), RVL_INT("output_height", 1), \
	RVL_INT("output_width", 1), RVL_INT("sampling_ratio", 0), RVL_FLOAT("spatial_scale", 1.0f)
#define ALIGN(opset, ...) { \
	.name = "RoiAlign", .since = (opset), .work = work_roi_align, .least_in = 3, .most_in = 3, \
	.types = { RVL_T_FLOAT, RVL_T_FLOAT, RVL_T_INDEX }, .attrs = RVL_ATTRS(__VA_ARGS__), \
	.infer = infer_roi_align, .run = run_roi_align, \
	.doc = "mean or largest sample of each part of a region of an image" }

const struct rvl_op_def rvl_ops_grid[] = {
	SAMPLE(16, "bilinear", "bilinear|nearest|bicubic"),
	SAMPLE(20, "linear", "linear|nearest|cubic"),
	{ .name = "AffineGrid", .since = 20, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_FLOAT, RVL_T_INDEX }, .attrs = RVL_ATTRS(RVL_INT("align_corners", 0)),
	  .infer = infer_affine, .run = run_affine,
	  .doc = "the coordinates at which an affine transform samples an image" },
	ALIGN(10, ROI),
	ALIGN(16, ROI, RVL_STRING("coordinate_transformation_mode", "half_pixel",
				  "half_pixel|output_half_pixel")),
	RVL_OPS_END
};

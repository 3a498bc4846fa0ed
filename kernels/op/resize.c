/* SPDX-License-Identifier: MIT */
/*
 * Resize and Upsample: one pass over the tensor for each axis that changes, or one over two
 * neighbouring axes that are interpolated linearly.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "rivulet_op.h"
#include "sizes.h"

struct axis {
	int64_t in, out;
	double scale;
	double from, to;	/* the part of the input to resize, as fractions */
};

struct resize {
	struct rvl_call *c;
	int rank;
	struct axis axis[RVL_MAX_RANK];
	const char *mode, *transform, *nearest;
	double cubic, outside;
	bool antialias, exclude, crop;
};

/* ---- what the attributes and inputs ask for ---- */

static bool has_values(const struct rvl_call *c, uint32_t i)
{
	return rvl_has(c, i) && rvl_count(&c->in[i]) > 0;
}

/* Axis number @k of those that are resized. */
static int fix_axes(struct rvl_call *c, int rank, int64_t *axes, uint32_t *n)
{
	const int64_t *list = NULL;
	uint32_t set = 0;

	*n = 0;
	if (c->def->since >= 18)
		list = rvl_attr_ints(c, "axes", n);
	if (*n > (uint32_t)rank)
		return rvl_op_fail(c, "attribute axes has %u values for a tensor of rank %d", *n, rank);
	for (uint32_t i = 0; i < *n; i++) {
		axes[i] = list[i];
		if (rvl_fix_axis(c, &axes[i], rank))
			return -EINVAL;
		if (set >> axes[i] & 1)
			return rvl_op_fail(c, "axis %lld is named twice", (long long)axes[i]);
		set |= 1u << axes[i];
	}
	if (*n)
		return 0;
	*n = (uint32_t)rank;
	for (int i = 0; i < rank; i++)
		axes[i] = i;
	return 0;
}

/* The numbers of input @i, which must be known, one for each of @n axes. */
static int float_input(struct rvl_call *c, uint32_t i, uint32_t n, double *list)
{
	const struct rvl_value *v = &c->in[i];

	if (v->type != RVL_TYPE_F32)
		return rvl_op_fail(c, "its input %u is %s, not float32", i, rvl_type_name(v->type));
	if (rvl_count(v) != n)
		return rvl_op_fail(c, "its input %u has %lld values for %u axes", i,
				   (long long)rvl_count(v), n);
	if (!v->data) {
		c->unknown = true;
		return rvl_op_fail(c, "its input %u must be a constant", i);
	}
	for (uint32_t k = 0; k < n; k++)
		list[k] = rvl_element(v->type, v->data, k);
	return 0;
}

#define MOST 0x1p40	/* elements along an axis */

static int set_scale(struct rvl_call *c, struct axis *a, double scale)
{
	double size = (double)((float)scale * (float)a->in);

	if (!(scale > 0 && scale < MOST && size < MOST))
		return rvl_op_fail(c, "scale %g is not a positive number that the result can have",
				   scale);
	a->scale = scale;
	a->out = (int64_t)size;
	return 0;
}

static int set_size(struct rvl_call *c, struct axis *a, int64_t size)
{
	if (size < 0 || (double)size > MOST)
		return rvl_op_fail(c, "size %lld is out of range", (long long)size);
	if (size && !a->in)
		return rvl_op_fail(c, "a dimension of 0 cannot become %lld", (long long)size);
	a->out = size;
	a->scale = a->in ? (double)size / (double)a->in : 1;
	return 0;
}

/* One scale for all axes: the smallest or the largest of them. */
static void keep_ratio(struct resize *r, const int64_t *axes, uint32_t n)
{
	bool smaller = rvl_attr_is(r->c, "keep_aspect_ratio_policy", "not_larger");
	double scale = r->axis[axes[0]].scale;

	for (uint32_t i = 1; i < n; i++) {
		double s = r->axis[axes[i]].scale;

		scale = smaller ? fmin(scale, s) : fmax(scale, s);
	}
	for (uint32_t i = 0; i < n; i++) {
		struct axis *a = &r->axis[axes[i]];

		a->scale = scale;
		a->out = (int64_t)fmin(scale * (double)a->in + 0.5, MOST);
	}
}

static int read_sizes(struct rvl_call *c, uint32_t input, struct resize *r, const int64_t *axes,
		      uint32_t n)
{
	int64_t size[RVL_MAX_RANK];
	uint32_t given;
	int rc = rvl_int_input(c, input, size, RVL_MAX_RANK, &given);

	if (!rc && given != n)
		return rvl_op_fail(c, "its input %u has %u values for %u axes", input, given, n);
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = set_size(c, &r->axis[axes[i]], size[i]);
	if (!rc && n && c->def->since >= 18 &&
	    !rvl_attr_is(c, "keep_aspect_ratio_policy", "stretch"))
		keep_ratio(r, axes, n);
	return rc;
}

static int read_scales(struct rvl_call *c, uint32_t input, struct resize *r, const int64_t *axes,
		       uint32_t n)
{
	double scale[RVL_MAX_RANK];
	int rc = float_input(c, input, n, scale);

	for (uint32_t i = 0; i < n && !rc; i++)
		rc = set_scale(c, &r->axis[axes[i]], scale[i]);
	return rc;
}

static void start(struct rvl_call *c, struct resize *r)
{
	*r = (struct resize) {
		.c = c, .rank = c->in[0].shape.rank, .transform = "asymmetric",
		.nearest = "floor", .mode = rvl_attr_string(c, "mode"),
	};
	for (int i = 0; i < r->rank; i++)
		r->axis[i] = (struct axis) { .in = c->in[0].shape.dim[i],
					     .out = c->in[0].shape.dim[i], .scale = 1, .to = 1 };
}

static bool is_antialiased(const struct rvl_call *c, const char *mode)
{
	return c->def->since >= 18 && rvl_attr_int(c, "antialias") && strcmp(mode, "nearest") != 0;
}

/* Resize of opset 11 and later has inputs x, roi, scales and sizes. */
static int read_resize(struct rvl_call *c, struct resize *r, int64_t *axes, uint32_t *n)
{
	int rc;

	start(c, r);
	r->transform = rvl_attr_string(c, "coordinate_transformation_mode");
	r->nearest = rvl_attr_string(c, "nearest_mode");
	r->cubic = (double)rvl_attr_float(c, "cubic_coeff_a");
	r->outside = (double)rvl_attr_float(c, "extrapolation_value");
	r->exclude = rvl_attr_int(c, "exclude_outside") != 0;
	r->crop = !strcmp(r->transform, "tf_crop_and_resize");
	r->antialias = is_antialiased(c, r->mode);
	rc = fix_axes(c, r->rank, axes, n);
	if (rc)
		return rc;
	if (has_values(c, 2) == has_values(c, 3))
		return rvl_op_fail(c, "it needs either scales or sizes");
	if (has_values(c, 3))
		return read_sizes(c, 3, r, axes, *n);
	return read_scales(c, 2, r, axes, *n);
}

static int read_roi(struct resize *r, const int64_t *axes, uint32_t n)
{
	struct rvl_call *c = r->c;

	if (!r->crop)
		return 0;
	if (!rvl_has(c, 1) || rvl_count(&c->in[1]) != 2 * (int64_t)n)
		return rvl_op_fail(c, "its input 1, the region, does not have %u values", 2 * n);
	for (uint32_t i = 0; i < n; i++) {
		r->axis[axes[i]].from = rvl_element(c->in[1].type, c->in[1].data, i);
		r->axis[axes[i]].to = rvl_element(c->in[1].type, c->in[1].data, n + i);
	}
	return 0;
}

static int set_shape(struct rvl_call *c, const struct resize *r)
{
	struct rvl_shape y = { .rank = r->rank };

	for (int i = 0; i < r->rank; i++)
		y.dim[i] = r->axis[i].out;
	if (rvl_shape_count(&y) < 0)
		return rvl_op_fail(c, "its result is too large");
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

/* ---- one axis ---- */

/* The coordinate in the input of result @i. */
static double coordinate(const struct resize *r, const struct axis *a, int64_t i)
{
	double x = (double)i, n = (double)a->in, m = a->scale * n;
	const char *t = r->transform;

	if (!strcmp(t, "asymmetric"))
		return x / a->scale;
	if (!strcmp(t, "align_corners"))
		return m == 1 ? 0 : x * (n - 1) / (m - 1);
	if (!strcmp(t, "tf_half_pixel_for_nn"))
		return (x + 0.5) / a->scale;
	if (!strcmp(t, "pytorch_half_pixel") && a->out <= 1)
		return 0;
	if (!strcmp(t, "half_pixel_symmetric"))
		return n / 2 * (1 - (double)a->out / m) + (x + 0.5) / a->scale - 0.5;
	if (!r->crop)
		return (x + 0.5) / a->scale - 0.5;
	if (m == 1)
		return (a->from + a->to) * (n - 1) / 2;
	return a->from * (n - 1) + x * (a->to - a->from) * (n - 1) / (m - 1);
}

static double round_to(const char *mode, double x)
{
	if (!strcmp(mode, "floor"))
		return floor(x);
	if (!strcmp(mode, "ceil"))
		return ceil(x);
	return strcmp(mode, "round_prefer_ceil") ? ceil(x - 0.5) : floor(x + 0.5);
}

/* The weight of an element at distance @x from the coordinate. */
static double weight(const struct resize *r, double x)
{
	double a = r->cubic;

	x = fabs(x);
	if (!strcmp(r->mode, "nearest"))
		return 1;
	if (strcmp(r->mode, "cubic"))
		return x < 1 ? 1 - x : 0;
	if (x <= 1)
		return ((a + 2) * x - (a + 3)) * x * x + 1;
	return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* The elements that contribute to each result of an axis, and their weights. */
struct table {
	int64_t taps;
	int64_t *at;		/* [out][taps]; -1 in the first: the result lies outside */
	double *weight;
};

/* Number of elements on each side that may have a weight. */
static double support(const struct resize *r, const struct axis *a, double *squeeze)
{
	*squeeze = r->antialias && a->scale < 1 ? a->scale : 1;
	return (strcmp(r->mode, "cubic") ? 1 : 2) / *squeeze;
}

static int64_t inside(double v, int64_t n)
{
	return (int64_t)fmin(fmax(v, 0), (double)(n - 1));
}

static void weigh(const struct resize *r, const struct axis *a, double x, struct table *t, int64_t i)
{
	double squeeze, reach = support(r, a, &squeeze), first = floor(x - reach) + 1, sum = 0;
	int64_t *at = t->at + i * t->taps;
	double *w = t->weight + i * t->taps;

	for (int64_t k = 0; k < t->taps; k++) {
		double place = first + (double)k;

		w[k] = weight(r, (place - x) * squeeze);
		if (r->exclude && (place < 0 || place >= (double)a->in))
			w[k] = 0;
		at[k] = inside(place, a->in);
		sum += w[k];
	}
	for (int64_t k = 0; k < t->taps && sum != 0 && (r->exclude || r->antialias); k++)
		w[k] /= sum;
}

static void fill(const struct resize *r, const struct axis *a, struct table *t)
{
	for (int64_t i = 0; i < a->out; i++) {
		double x = coordinate(r, a, i);

		if (r->crop && !(x >= 0 && x <= (double)(a->in - 1))) {
			t->at[i * t->taps] = -1;
		} else if (t->taps == 1) {
			t->at[i] = inside(round_to(r->nearest, x), a->in);
		} else {
			weigh(r, a, x, t, i);
		}
	}
}

/* Fills the table of an axis. Fails where it would need more than @room elements. */
static int make_table(const struct resize *r, const struct axis *a, int64_t room, struct table *t)
{
	double squeeze;

	t->taps = 1;
	if (strcmp(r->mode, "nearest"))
		t->taps = (int64_t)ceil(2 * support(r, a, &squeeze)) + 1;
	if (a->out > room / t->taps)
		return rvl_op_fail(r->c, "its scale %g does not fit its shapes", a->scale);
	fill(r, a, t);
	return 0;
}

/* A pass: @x is [outer, in, inner], @y is [outer, out, inner]. */
struct pass {
	const struct axis *a;
	struct table t;
	const char *x;
	char *y;
	int64_t inner;
	size_t size;		/* bytes of an element; float where there are weights */
	uint64_t outside;	/* value of elements outside of the input */
	int factor;		/* of pick() */
};

static void sum_row(const struct pass *p, int64_t i, const float *x, float *y)
{
	const int64_t *at = p->t.at + i * p->t.taps;
	const double *w = p->t.weight + i * p->t.taps;

	for (int64_t k = 0; k < p->inner; k++) {
		double sum = 0;

		for (int64_t t = 0; t < p->t.taps; t++)
			sum += w[t] * (double)x[at[t] * p->inner + k];
		y[k] = (float)sum;
	}
}

#define LINES 4096	/* least elements that a thread picks */

#define PICK(type) do { \
	const type *from = x; \
	type *to = y; \
	if (factor == 2) \
		for (int64_t i = 0; i < n / 2; i++) \
			to[2 * i] = to[2 * i + 1] = from[i]; \
	else \
		for (int64_t i = 0; i < n; i++) \
			to[i] = from[at[i]]; \
} while (0)

/* y[i] = x[at[i]]; @factor is 2 if that is x[i / 2]. */
static void pick(const void *x, const int64_t *at, int64_t n, int factor, size_t size, void *y)
{
	if (size == 1)
		PICK(uint8_t);
	else if (size == 2)
		PICK(uint16_t);
	else if (size == 4)
		PICK(uint32_t);
	else
		PICK(uint64_t);
}

static bool is_doubled(const struct pass *p)
{
	if (p->a->out % 2)
		return false;
	for (int64_t i = 0; i < p->a->out; i++)
		if (p->t.at[i] != i / 2)
			return false;
	return true;
}

/* Lines of the innermost axis whose results are single elements. */
static void pick_lines(void *arg, int64_t first, int64_t past)
{
	const struct pass *p = arg;
	size_t in = (size_t)p->a->in * p->size, out = (size_t)p->a->out * p->size;

	for (int64_t n = first; n < past; n++)
		pick(p->x + (size_t)n * in, p->t.at, p->a->out, p->factor, p->size, p->y + (size_t)n * out);
}

static void pass_rows(void *arg, int64_t first, int64_t past)
{
	const struct pass *p = arg;
	size_t row = (size_t)p->inner * p->size;

	for (int64_t n = first; n < past; n++) {
		int64_t i = n % p->a->out, at = p->t.at[i * p->t.taps];
		const char *x = p->x + (size_t)(n / p->a->out * p->a->in) * row;
		char *y = p->y + (size_t)n * row;

		if (at < 0) {
			for (int64_t k = 0; k < p->inner; k++)
				memcpy(y + (size_t)k * p->size, &p->outside, p->size);
		} else if (p->t.taps == 1) {
			memcpy(y, x + (size_t)at * row, row);
		} else {
			sum_row(p, i, (const float *)x, (float *)y);
		}
	}
}

/* ---- all axes ---- */

static bool changes(const struct resize *r, const struct axis *a)
{
	return a->scale != 1 || a->out != a->in || r->crop;
}

/* Elements between two passes, at most: the axes before a pass have the result's size. */
static int64_t most_elements(const struct rvl_call *c)
{
	int64_t most = rvl_count(&c->in[0]);
	struct rvl_shape s = c->in[0].shape;

	for (int i = 0; i < s.rank; i++) {
		int64_t n;

		s.dim[i] = c->out[0].shape.dim[i];
		n = rvl_shape_count(&s);
		if (n < 0)
			return -1;
		most = n > most ? n : most;
	}
	return most;
}

/*
 * Elements of the largest table of an axis, at any scale that leads to these shapes. With antialias
 * a result has 2 * support / scale + 2 taps where the scale is below 1, and the number of results is
 * at most 2 * scale * in, because it is rounded.
 */
static int64_t most_taps(const struct rvl_call *c)
{
	const char *mode = rvl_attr_string(c, "mode");
	int64_t sides = strcmp(mode, "cubic") ? 2 : 4, most = 0;

	for (int i = 0; i < c->in[0].shape.rank; i++) {
		int64_t in = c->in[0].shape.dim[i], out = c->out[0].shape.dim[i], n;

		if (!strcmp(mode, "nearest"))
			n = out;
		else if (is_antialiased(c, mode))
			n = sides * (out + 2 * in) + 2 * out;
		else
			n = (sides + 1) * out;
		most = n > most ? n : most;
	}
	return most;
}

/* Bytes of an element between two passes. */
static int64_t element_size(const struct rvl_call *c)
{
	bool nearest = !strcmp(rvl_attr_string(c, "mode"), "nearest");

	return nearest ? (int64_t)rvl_type_size(c->in[0].type) : (int64_t)sizeof(float);
}

/* Bytes of the two buffers, of which a pass reads one and writes the other. */
static int64_t buffer_bytes(const struct rvl_call *c)
{
	return 2 * rvl_round_up(most_elements(c) * element_size(c), 64);
}

static struct table table_at(void *memory, int64_t most)
{
	int64_t *at = memory;

	return (struct table) { .at = at, .weight = (double *)(at + most) };
}

/* Runs a pass along axis @d from @x, whose axes before @d have their new sizes. */
static int run_pass(const struct resize *r, int d, const void *x, void *y, enum rvl_type type)
{
	struct pass p = { .a = &r->axis[d], .t = table_at((char *)r->c->scratch + buffer_bytes(r->c), most_taps(r->c)),
			  .x = x, .y = y, .inner = 1,
			  .size = rvl_type_size(type) };
	const float outside = (float)r->outside;
	int64_t outer = 1;
	int rc = make_table(r, p.a, most_taps(r->c), &p.t);

	if (rc)
		return rc;
	for (int i = 0; i < d; i++)
		outer *= r->axis[i].out;
	for (int i = d + 1; i < r->rank; i++)
		p.inner *= r->axis[i].in;
	rvl_convert(type, &p.outside, RVL_TYPE_F32, &outside, 1);
	if (p.inner == 1 && p.t.taps == 1 && !r->crop) {
		p.factor = is_doubled(&p) ? 2 : 1;
		rvl_for_range(r->c, outer, 1 + LINES / p.a->out, pick_lines, &p);
	} else {
		rvl_for_range(r->c, outer * p.a->out, 1, pass_rows, &p);
	}
	return 0;
}

/* ---- two axes by linear interpolation ---- */

/*
 * The two elements of an axis between which a result lies, and their weights. All numbers are
 * float32, and the sums of blend_rows() have onnxruntime's order, so that the results have the same
 * bits as onnxruntime's and round to the same byte where they are quantised.
 */
struct pair {
	int32_t at[2];
	float weight[2];
};

static float float_coordinate(const struct resize *r, const struct axis *a, int64_t i)
{
	float x = (float)i, n = (float)a->in, scale = (float)a->scale;
	float m = (float)(a->scale * (double)a->in);	/* the result's size before it is cut */
	const char *t = r->transform;

	if (a->scale == 1)
		return x;
	if (!strcmp(t, "asymmetric"))
		return x / scale;
	if (!strcmp(t, "align_corners"))
		return m == 1 ? 0 : x * (n - 1) / (m - 1);
	if (!strcmp(t, "tf_half_pixel_for_nn"))
		return (x + 0.5f) / scale;
	if (!strcmp(t, "pytorch_half_pixel") && a->out <= 1)
		return 0;
	if (!strcmp(t, "half_pixel_symmetric"))
		return n / 2 * (1 - (float)a->out / (scale * n)) + (x + 0.5f) / scale - 0.5f;
	return (x + 0.5f) / scale - 0.5f;
}

static void make_pairs(const struct resize *r, const struct axis *a, struct pair *p)
{
	for (int64_t i = 0; i < a->out; i++) {
		float x = fmaxf(0, fminf(float_coordinate(r, a, i), (float)(a->in - 1)));
		int64_t low = (int64_t)x < a->in ? (int64_t)x : a->in - 1;
		int64_t high = low + 1 < a->in ? low + 1 : a->in - 1;

		p[i] = (struct pair) { .at = { (int32_t)low, (int32_t)high },
				       .weight = { fabsf(x - (float)high), fabsf(x - (float)low) } };
		if (low == high)
			p[i].weight[0] = p[i].weight[1] = 0.5f;
	}
}

/* @x is [outer, in rows, in columns, inner], @y is [outer, rows, columns, inner]. */
struct blend {
	const struct axis *rows, *columns;
	const struct pair *row, *column;
	const float *x;
	float *y;
	int64_t inner;
};

static void blend_rows(void *arg, int64_t first, int64_t past)
{
	const struct blend *b = arg;
	int64_t n_in = b->columns->in * b->inner;

	for (int64_t n = first; n < past; n++) {
		const struct pair *r = &b->row[n % b->rows->out];
		const float *x = b->x + n / b->rows->out * b->rows->in * n_in;
		const float *top = x + r->at[0] * n_in, *bottom = x + r->at[1] * n_in;
		float *y = b->y + n * b->columns->out * b->inner;

		for (int64_t i = 0; i < b->columns->out; i++, y += b->inner) {
			const struct pair *c = &b->column[i];
			int64_t left = c->at[0] * b->inner, right = c->at[1] * b->inner;
			float w[4] = { c->weight[0] * r->weight[0], c->weight[1] * r->weight[0],
				       c->weight[0] * r->weight[1], c->weight[1] * r->weight[1] };

			for (int64_t k = 0; k < b->inner; k++)
				y[k] = w[0] * top[left + k] + w[1] * top[right + k] +
				       w[2] * bottom[left + k] + w[3] * bottom[right + k];
		}
	}
}

/*
 * With adjacent columns, the elements under a row of results are first copied side by side. Two rows
 * of the input are kept, by the last bit of their index, because adjacent rows of results share them.
 */
#define PART 256	/* columns of results that are computed together */

struct under {
	int64_t row[2];		/* of all planes; -1: none */
	float left[2][PART], right[2][PART];
};

static int copy_under(struct under *u, const struct blend *b, int64_t row, int64_t first, int64_t n)
{
	const float *x = b->x + row * b->columns->in;
	int slot = (int)(row & 1);

	if (u->row[slot] == row)
		return slot;
	u->row[slot] = row;
	for (int64_t i = 0; i < n; i++) {
		u->left[slot][i] = x[b->column[first + i].at[0]];
		u->right[slot][i] = x[b->column[first + i].at[1]];
	}
	return slot;
}

/* Columns [@c0, @c0 + @n) of the results' rows [first, past). */
static void blend_part(const struct blend *b, int64_t c0, int64_t n, int64_t first, int64_t past)
{
	struct under u = { .row = { -1, -1 } };
	float left[PART], right[PART];

	for (int64_t i = 0; i < n; i++) {
		left[i] = b->column[c0 + i].weight[0];
		right[i] = b->column[c0 + i].weight[1];
	}
	for (int64_t k = first; k < past; k++) {
		const struct pair *r = &b->row[k % b->rows->out];
		int64_t plane = k / b->rows->out * b->rows->in;
		int top = copy_under(&u, b, plane + r->at[0], c0, n);
		int bottom = copy_under(&u, b, plane + r->at[1], c0, n);
		const float *tl = u.left[top], *tr = u.right[top], *bl = u.left[bottom], *br = u.right[bottom];
		float *y = b->y + k * b->columns->out + c0;

		for (int64_t i = 0; i < n; i++)
			y[i] = left[i] * r->weight[0] * tl[i] + right[i] * r->weight[0] * tr[i] +
			       left[i] * r->weight[1] * bl[i] + right[i] * r->weight[1] * br[i];
	}
}

static void blend_columns(void *arg, int64_t first, int64_t past)
{
	const struct blend *b = arg;

	for (int64_t c = 0, n; c < b->columns->out; c += n) {
		n = b->columns->out - c < PART ? b->columns->out - c : PART;
		blend_part(b, c, n, first, past);
	}
}

/* The first of two adjacent axes, if these are the only ones that change; otherwise -1. */
static int two_axes(const struct resize *r)
{
	int first = 0, last = r->rank - 1;

	while (first < r->rank && !changes(r, &r->axis[first]))
		first++;
	while (last > first && !changes(r, &r->axis[last]))
		last--;
	return last == first + 1 && r->axis[first].in <= INT32_MAX && r->axis[last].in <= INT32_MAX ?
		       first : -1;
}

static int axes_to_blend(const struct resize *r)
{
	bool linear = !strcmp(r->mode, "linear") || !strcmp(r->mode, "bilinear");

	return linear && !r->antialias && !r->exclude && !r->crop ? two_axes(r) : -1;
}

/* @memory: for the pairs of both axes. */
static void run_blend(const struct resize *r, int d, void *memory, const float *x, float *y)
{
	struct pair *pairs = memory;
	struct blend b = { .rows = &r->axis[d], .columns = &r->axis[d + 1], .row = pairs,
			   .column = pairs + r->axis[d].out, .x = x, .y = y, .inner = 1 };
	int64_t outer = 1;

	make_pairs(r, b.rows, pairs);
	make_pairs(r, b.columns, pairs + b.rows->out);
	for (int i = 0; i < d; i++)
		outer *= r->axis[i].out;
	for (int i = d + 2; i < r->rank; i++)
		b.inner *= r->axis[i].in;
	rvl_for_range(r->c, outer * b.rows->out, 1, b.inner == 1 ? blend_columns : blend_rows, &b);
}

/* ---- two axes of single elements, the last ones ---- */

static bool is_picked(const struct resize *r)
{
	return !strcmp(r->mode, "nearest") && !r->crop && r->rank > 1 && two_axes(r) == r->rank - 2;
}

/* @x is [outer, in rows, in columns], @y is [outer, rows, columns]; the columns are the last axis. */
struct picked {
	struct pass rows, columns;
};

#ifdef __SSE2__
#include <emmintrin.h>

#define PIECE 16	/* elements that double_piece() takes */

static inline void double_piece(const uint8_t *x, uint8_t *y, uint8_t *next)
{
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)x);
	__m128i low = _mm_unpacklo_epi8(v, v), high = _mm_unpackhi_epi8(v, v);

	_mm_storeu_si128((__m128i *)(void *)y, low);
	_mm_storeu_si128((__m128i *)(void *)(y + PIECE), high);
	_mm_storeu_si128((__m128i *)(void *)next, low);
	_mm_storeu_si128((__m128i *)(void *)(next + PIECE), high);
}
#else
#define PIECE 8

static inline void double_piece(const uint8_t *x, uint8_t *y, uint8_t *next)
{
	for (int i = 0; i < 2 * PIECE; i++)
		next[i] = y[i] = x[i / 2];
}
#endif

/* Rows [first, past) of the input, each byte of which becomes two in each of two rows. */
static void double_rows(void *arg, int64_t first, int64_t past)
{
	const struct picked *p = arg;
	int64_t n = p->columns.a->in;

	for (int64_t r = first; r < past; r++) {
		const uint8_t *x = (const uint8_t *)p->columns.x + r * n;
		uint8_t *y = (uint8_t *)p->columns.y + 4 * r * n, *next = y + 2 * n;
		int64_t i = 0;

		for (; i + PIECE <= n; i += PIECE)
			double_piece(x + i, y + 2 * i, next + 2 * i);
		if (i < n && n >= PIECE) {	/* the last piece overlaps the one before */
			double_piece(x + n - PIECE, y + 2 * (n - PIECE), next + 2 * (n - PIECE));
			i = n;
		}
		for (; i < n; i++)
			y[2 * i] = y[2 * i + 1] = next[2 * i] = next[2 * i + 1] = x[i];
	}
}

static void pick_rows(void *arg, int64_t first, int64_t past)
{
	const struct picked *p = arg;
	const struct axis *rows = p->rows.a, *columns = p->columns.a;
	size_t size = p->columns.size, row = (size_t)columns->out * size;

	for (int64_t n = first; n < past; n++) {
		int64_t i = n % rows->out, at = p->rows.t.at[i];
		char *y = p->columns.y + (size_t)n * row;

		if (n > first && i && at == p->rows.t.at[i - 1])
			memcpy(y, y - row, row);
		else
			pick(p->columns.x + (size_t)((n / rows->out * rows->in + at) * columns->in) * size,
			     p->columns.t.at, columns->out, p->columns.factor, size, y);
	}
}

/* Whether every element of the axis becomes two. */
static bool is_all_doubled(const struct pass *p)
{
	return p->a->out == 2 * p->a->in && is_doubled(p);
}

/* The table of the columns takes the memory of weights. */
static int run_picked(const struct resize *r, const void *x, void *y, enum rvl_type type)
{
	int d = r->rank - 2;
	struct picked p = {
		.rows = { .a = &r->axis[d], .t = table_at(r->c->scratch, most_taps(r->c)) },
		.columns = { .a = &r->axis[d + 1], .x = x, .y = y, .size = rvl_type_size(type) },
	};
	int64_t outer = 1;
	int rc;

	p.columns.t.at = (int64_t *)(void *)p.rows.t.weight;
	rc = make_table(r, p.rows.a, most_taps(r->c), &p.rows.t);
	if (!rc)
		rc = make_table(r, p.columns.a, most_taps(r->c), &p.columns.t);
	if (rc)
		return rc;
	p.columns.factor = is_doubled(&p.columns) ? 2 : 1;
	for (int i = 0; i < d; i++)
		outer *= r->axis[i].out;
	if (p.columns.size == 1 && is_all_doubled(&p.columns) && is_all_doubled(&p.rows))
		rvl_for_range(r->c, outer * p.rows.a->in, 1 + LINES / p.columns.a->out, double_rows, &p);
	else
		rvl_for_range(r->c, outer * p.rows.a->out, 1 + LINES / p.columns.a->out, pick_rows, &p);
	return 0;
}

/* Integers are rounded, and kept within the range of their type. */
static void store(const struct rvl_value *y, const float *x)
{
	int64_t n = rvl_count(y);
	size_t size = rvl_type_size(y->type);
	bool is_unsigned = 1u << y->type & (RVL_T_UNSIGNED | RVL_T(BOOL));
	int bits = y->type == RVL_TYPE_BOOL ? 1 : 8 * (int)size - !is_unsigned;
	float low = is_unsigned ? 0 : -ldexpf(1, bits), high = ldexpf(1, bits) - 1;

	for (int64_t i = 0; i < n; i++) {
		float v = rintf(fminf(fmaxf(x[i], low), high));

		rvl_convert(y->type, (char *)y->data + (size_t)i * size, RVL_TYPE_F32, &v, 1);
	}
}

/* Whether one pass from the input writes the result. Scratch memory then has its tables alone. */
static bool is_one_pass(const struct resize *r)
{
	return is_picked(r) || (axes_to_blend(r) >= 0 && r->c->in[0].type == RVL_TYPE_F32);
}

static int run_one_pass(const struct resize *r)
{
	struct rvl_call *c = r->c;

	if (is_picked(r))
		return run_picked(r, c->in[0].data, c->out[0].data, c->in[0].type);
	run_blend(r, axes_to_blend(r), r->c->scratch, c->in[0].data, c->out[0].data);
	return 0;
}

static int run_passes(const struct resize *r)
{
	struct rvl_call *c = r->c;
	bool nearest = !strcmp(r->mode, "nearest");
	enum rvl_type type = nearest ? c->in[0].type : RVL_TYPE_F32;
	char *buf[2] = { c->scratch, (char *)c->scratch + buffer_bytes(c) / 2 };
	const void *x = c->in[0].data;
	bool direct = nearest || type == c->in[0].type;	/* the last pass writes the result */
	int rc = 0, next = 0, blended = axes_to_blend(r), last = -1;

	if (!rvl_count(&c->out[0]))
		return 0;
	if (is_one_pass(r))
		return run_one_pass(r);
	if (type != c->in[0].type) {
		rvl_convert(type, buf[1], c->in[0].type, x, rvl_count(&c->in[0]));
		x = buf[1];
	}
	if (blended >= 0) {
		run_blend(r, blended, (char *)c->scratch + buffer_bytes(c), x, (float *)(void *)buf[0]);
		x = buf[0];
	}
	for (int d = 0; d < r->rank && blended < 0; d++)
		last = changes(r, &r->axis[d]) ? d : last;
	for (int d = 0; d <= last && !rc; d++) {
		char *y = d == last && direct ? c->out[0].data : buf[next];

		if (!changes(r, &r->axis[d]))
			continue;
		rc = run_pass(r, d, x, y, type);
		x = y;
		next = !next;
	}
	if (!rc && x == c->out[0].data)
		return 0;
	if (!rc && direct)
		memcpy(c->out[0].data, x, (size_t)rvl_count(&c->out[0]) * rvl_type_size(type));
	else if (!rc)
		store(&c->out[0], x);
	return rc;
}

/* ---- Upsample, and Resize of opset 10: asymmetric coordinates ---- */

/* The scales are two attributes, then a list, then an input. */
static int read_upsample(struct rvl_call *c, struct resize *r)
{
	static const int64_t axes[RVL_MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	const float *list;
	uint32_t n;
	int rc = 0;

	start(c, r);
	r->cubic = -0.75;
	if (c->def->since >= 9)
		return read_scales(c, 1, r, axes, (uint32_t)r->rank);
	if (c->def->since < 7) {
		if (r->rank != 4)
			return rvl_op_fail(c, "its input has %d dimensions, not 4", r->rank);
		rc = set_scale(c, &r->axis[2], (double)rvl_attr_float(c, "height_scale"));
		return rc ? rc : set_scale(c, &r->axis[3], (double)rvl_attr_float(c, "width_scale"));
	}
	list = rvl_attr_floats(c, "scales", &n);
	if (n != (uint32_t)r->rank)
		return rvl_op_fail(c, "attribute scales has %u values for %d axes", n, r->rank);
	for (int i = 0; i < r->rank && !rc; i++)
		rc = set_scale(c, &r->axis[i], (double)list[i]);
	return rc;
}

/* ---- all ---- */

/* What decides the shape. @axes: those that are resized, of an opset from 11 on. */
static int read_shape(struct rvl_call *c, struct resize *r, int64_t *axes, uint32_t *n)
{
	return c->def->since < 11 ? read_upsample(c, r) : read_resize(c, r, axes, n);
}

static int infer_resize(struct rvl_call *c)
{
	struct resize r;
	int64_t axes[RVL_MAX_RANK];
	uint32_t n;
	int rc = read_shape(c, &r, axes, &n);

	return rc ? rc : set_shape(c, &r);
}

/*
 * The tables of an axis, or of both axes of one pass. Where the attributes, or scales that are known
 * before the run, leave several passes possible, the buffers too.
 */
static int64_t scratch_resize(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	int64_t tables = 2 * most_taps(c) * (int64_t)sizeof(int64_t);
	int64_t axes[RVL_MAX_RANK];
	struct resize r;
	uint32_t n;

	if (most_elements(c) < 0)
		return INT64_MAX;
	if (!read_shape(&copy, &r, axes, &n) && is_one_pass(&r))
		return tables;
	return buffer_bytes(c) + tables;
}

static int run_resize(struct rvl_call *c)
{
	int64_t axes[RVL_MAX_RANK];
	struct resize r;
	uint32_t n;
	int rc = read_shape(c, &r, axes, &n);

	if (!rc && r.crop)
		rc = read_roi(&r, axes, n);
	return rc ? rc : run_passes(&r);
}

#define TRANSFORMS \
	"half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|" \
	"tf_half_pixel_for_nn|tf_crop_and_resize"
#define RESIZE \
	RVL_STRING("mode", "nearest", "nearest|linear|cubic"), \
	RVL_STRING("coordinate_transformation_mode", "half_pixel", TRANSFORMS), \
	RVL_STRING("nearest_mode", "round_prefer_floor", \
		   "round_prefer_floor|round_prefer_ceil|floor|ceil"), \
	RVL_FLOAT("cubic_coeff_a", -0.75f), RVL_FLOAT("extrapolation_value", 0.0f), \
	RVL_INT("exclude_outside", 0)
#define FLAGS RVL_OP_MOVES_IF_NEAREST | RVL_OP_BLENDS_IF_LINEAR
#define KERNELS .flags = FLAGS, .infer = infer_resize, .run = run_resize, .scratch = scratch_resize
#define MODE(list) RVL_STRING("mode", "nearest", list)

const struct rvl_op_def rvl_ops_resize[] = {
	{ .name = "Resize", .since = 10, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_ANY, RVL_T_FLOAT }, .attrs = RVL_ATTRS(MODE("nearest|linear")),
	  KERNELS, .doc = "an image in another size" },
	{ .name = "Resize", .since = 11, .least_in = 1, .most_in = 4,
	  .types = { RVL_T_ANY, RVL_T_FLOAT, RVL_T_FLOAT, RVL_T_INDEX },
	  .attrs = RVL_ATTRS(RESIZE), KERNELS, .doc = "an image in another size" },
	{ .name = "Resize", .since = 18, .least_in = 1, .most_in = 4,
	  .types = { RVL_T_ANY, RVL_T_FLOAT, RVL_T_FLOAT, RVL_T_INDEX },
	  .attrs = RVL_ATTRS(RESIZE, RVL_INT("antialias", 0), RVL_INTS("axes"),
			     RVL_STRING("keep_aspect_ratio_policy", "stretch",
					"stretch|not_larger|not_smaller")),
	  KERNELS, .doc = "an image in another size" },
	{ .name = "Upsample", .since = 1, .least_in = 1, .most_in = 1, .types = { RVL_T_ANY },
	  .attrs = RVL_ATTRS(MODE("nearest|bilinear"), { .name = "height_scale", .kind = RVL_ATTR_FLOAT, .required = true },
			     { .name = "width_scale", .kind = RVL_ATTR_FLOAT, .required = true }),
	  KERNELS, .doc = "a larger image" },
	{ .name = "Upsample", .since = 7, .least_in = 1, .most_in = 1, .types = { RVL_T_ANY },
	  .attrs = RVL_ATTRS(MODE("nearest|linear"), RVL_FLOATS("scales")),
	  KERNELS, .doc = "a larger image" },
	{ .name = "Upsample", .since = 9, .until = 10, .least_in = 2, .most_in = 2,
	  .types = { RVL_T_ANY, RVL_T_FLOAT }, .attrs = RVL_ATTRS(MODE("nearest|linear")),
	  KERNELS, .doc = "a larger image" },
	RVL_OPS_END
};

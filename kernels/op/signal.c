/* SPDX-License-Identifier: MIT */
/* Fourier transforms and the windows for them. */
#include <string.h>

#include "rivulet_op.h"

#define MOST_POINTS ((int64_t)1 << 24)	/* of a transform or a window */

/* The number of input @i, which the shape of the result depends on, or @missing where it is absent. */
static int number_input(struct rvl_call *c, uint32_t i, int64_t missing, int64_t *v)
{
	uint32_t n = 1;
	int rc = 0;

	*v = missing;
	if (rvl_has(c, i))
		rc = rvl_int_input(c, i, v, 1, &n);
	return rc || n == 1 ? rc : rvl_op_fail(c, "its input %u is empty", i);
}

/* ---- windows ---- */

static int infer_window(struct rvl_call *c)
{
	enum rvl_type type = rvl_type_of_onnx(rvl_attr_int(c, "output_datatype"));
	int64_t n;
	int rc = number_input(c, 0, 0, &n);

	if (rc)
		return rc;
	if (!type)
		return rvl_op_fail(c, "element type %lld of ONNX is not supported",
				   (long long)rvl_attr_int(c, "output_datatype"));
	if (n < 0 || n > MOST_POINTS)
		return rvl_op_fail(c, "its size is %lld", (long long)n);
	rvl_set_out(c, 0, type, &(const struct rvl_shape) { .rank = 1, .dim = { n } });
	return 0;
}

/* a - b cos(x) + d cos(2x) over one period. */
static int cosine_window(struct rvl_call *c, double a, double b, double d)
{
	const struct rvl_value *y = &c->out[0];
	int64_t n = rvl_count(y), period = rvl_attr_int(c, "periodic") ? n : n - 1;

	for (int64_t i = 0; i < n; i++) {
		double x = period ? 2.0 * M_PI * (double)i / (double)period : M_PI;
		double v = a - b * cos(x) + d * cos(2.0 * x);

		rvl_convert(y->type, (char *)y->data + (size_t)i * rvl_type_size(y->type),
			    RVL_TYPE_F64, &v, 1);
	}
	return 0;
}

static int run_hann(struct rvl_call *c)
{
	return cosine_window(c, 0.5, 0.5, 0.0);
}

static int run_hamming(struct rvl_call *c)
{
	return cosine_window(c, 25.0 / 46.0, 21.0 / 46.0, 0.0);
}

static int run_blackman(struct rvl_call *c)
{
	return cosine_window(c, 0.42, 0.5, 0.08);
}

/* ---- the transform ---- */

struct complex {
	double re, im;
};

static struct complex product(struct complex a, struct complex b)
{
	return (struct complex) { a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}

static struct complex turned(double angle)
{
	return (struct complex) { cos(angle), sin(angle) };
}

/*
 * A transform of n points. Where n is no power of two it is a convolution with a chirp (Bluestein),
 * done by transforms of m points.
 */
struct transform {
	int64_t n, m;
	struct complex *root;	/* m / 2: powers of exp(-2 pi i / m) */
	struct complex *x;	/* m: data */
	struct complex *chirp;	/* n: exp(-pi i k^2 / n) */
	struct complex *filter;	/* m: transform of the conjugate chirp */
};

static int64_t work_points(int64_t n)
{
	int64_t m = 1;

	while (m < n)
		m *= 2;
	return m == n ? n : m >= 2 * n - 1 ? m : 2 * m;
}

static int64_t transform_bytes(int64_t n)
{
	return (3 * work_points(n) + n) * (int64_t)sizeof(struct complex);
}

/* The transform of @m points, a power of two, in place. */
static void transform_two(const struct transform *t, struct complex *x)
{
	for (int64_t i = 1, j = 0; i < t->m; i++) {
		int64_t bit = t->m >> 1;

		for (; j & bit; bit >>= 1)
			j ^= bit;
		j ^= bit;
		if (i < j) {
			struct complex swap = x[i];

			x[i] = x[j];
			x[j] = swap;
		}
	}
	for (int64_t half = 1; half < t->m; half *= 2)
		for (int64_t i = 0; i < t->m; i += 2 * half)
			for (int64_t k = 0; k < half; k++) {
				struct complex a = x[i + k];
				struct complex b = product(x[i + k + half],
							   t->root[k * (t->m / 2 / half)]);

				x[i + k] = (struct complex) { a.re + b.re, a.im + b.im };
				x[i + k + half] = (struct complex) { a.re - b.re, a.im - b.im };
			}
}

static void make_transform(struct transform *t, int64_t n, void *memory)
{
	*t = (struct transform) { .n = n, .m = work_points(n), .root = memory };
	t->x = t->root + t->m;
	t->filter = t->x + t->m;
	t->chirp = t->filter + t->m;
	for (int64_t i = 0; i < t->m / 2; i++)
		t->root[i] = turned(-2.0 * M_PI * (double)i / (double)t->m);
	if (t->m == n)
		return;
	memset(t->filter, 0, (size_t)t->m * sizeof(*t->filter));
	for (int64_t k = 0; k < n; k++) {
		t->chirp[k] = turned(-M_PI * (double)(k * k % (2 * n)) / (double)n);
		t->filter[k] = (struct complex) { t->chirp[k].re, -t->chirp[k].im };
		t->filter[k ? t->m - k : 0] = t->filter[k];
	}
	transform_two(t, t->filter);
}

/* Transforms the first n elements of t->x. */
static void transform(struct transform *t)
{
	double scale = 1.0 / (double)t->m;

	if (t->m == t->n) {
		transform_two(t, t->x);
		return;
	}
	for (int64_t k = 0; k < t->m; k++)
		t->x[k] = k < t->n ? product(t->x[k], t->chirp[k]) : (struct complex) { 0.0, 0.0 };
	transform_two(t, t->x);
	for (int64_t k = 0; k < t->m; k++) {
		t->x[k] = product(t->x[k], t->filter[k]);
		t->x[k].im = -t->x[k].im;	/* conjugate: the next transform is the inverse */
	}
	transform_two(t, t->x);
	for (int64_t k = 0; k < t->n; k++) {
		struct complex v = { t->x[k].re * scale, -t->x[k].im * scale };

		t->x[k] = product(v, t->chirp[k]);
	}
}

/* ---- DFT ---- */

struct dft {
	int64_t axis, have, n, give;	/* points of the input, the transform and the output */
	int64_t inner;			/* elements between points, in points */
	int parts, out_parts;		/* 1: real, 2: complex */
	bool inverse, half;
};

static int dft_axis(struct rvl_call *c, int64_t *axis)
{
	int rank = c->in[0].shape.rank, rc = 0;

	if (c->def->since < 20)
		*axis = rvl_attr_int(c, "axis");
	else
		rc = number_input(c, 2, -2, axis);
	if (!rc)
		rc = rvl_fix_axis(c, axis, rank);
	if (!rc && *axis == rank - 1)
		return rvl_op_fail(c, "its axis is that of the real and imaginary parts");
	return rc;
}

static int dft_plan(struct rvl_call *c, struct dft *d)
{
	const struct rvl_shape *x = &c->in[0].shape;
	int64_t parts = x->rank ? x->dim[x->rank - 1] : 0;
	int rc = dft_axis(c, &d->axis);

	if (rc)
		return rc;
	if (parts != 1 && parts != 2)
		return rvl_op_fail(c, "its last dimension is %lld, not 1 or 2", (long long)parts);
	d->parts = (int)parts;
	d->inverse = rvl_attr_int(c, "inverse");
	d->half = rvl_attr_int(c, "onesided");
	d->out_parts = d->inverse && d->half ? 1 : 2;
	d->have = x->dim[d->axis];
	rc = number_input(c, 1, d->inverse && d->half ? 2 * (d->have - 1) : d->have, &d->n);
	if (!rc && (d->n < 1 || d->n > MOST_POINTS))
		return rvl_op_fail(c, "its length is %lld", (long long)d->n);
	d->give = d->half && !d->inverse ? d->n / 2 + 1 : d->n;
	d->inner = 1;
	for (int k = (int)d->axis + 1; k < x->rank - 1; k++)
		d->inner *= x->dim[k];
	return rc;
}

static int infer_dft(struct rvl_call *c)
{
	struct rvl_shape y = c->in[0].shape;
	struct dft d;
	int rc = dft_plan(c, &d);

	if (rc)
		return rc;
	y.dim[d.axis] = d.give;
	y.dim[y.rank - 1] = d.out_parts;
	rvl_set_out(c, 0, RVL_TYPE_F32, &y);
	return 0;
}

/* Enough for every transform of at most @n points, which take 4 * n points of work at most. */
static int64_t bound_bytes(int64_t n)
{
	return 13 * n * (int64_t)sizeof(struct complex);
}

/*
 * Where the length is known at run time only, the output's length bounds it. A one-sided output has
 * half of it.
 */
static int64_t scratch_dft(const struct rvl_call *c)
{
	const struct rvl_shape *y = &c->out[0].shape;
	struct rvl_call copy = *c;
	int64_t most = 1;
	struct dft d;

	if (!dft_plan(&copy, &d))
		return transform_bytes(d.n);
	for (int k = 0; k < y->rank; k++)
		most = y->dim[k] > most ? y->dim[k] : most;
	return bound_bytes(2 * most);
}

static struct complex point(const struct dft *d, const float *x, int64_t k)
{
	struct complex v = { 0.0, 0.0 };

	if (k < d->have) {
		v.re = (double)x[k * d->inner * d->parts];
		v.im = d->parts == 2 ? (double)x[k * d->inner * d->parts + 1] : 0.0;
	}
	return v;
}

/*
 * A one-sided spectrum is that of a real signal, so that its other half is the mirrored conjugate.
 */
static void load_points(const struct dft *d, const float *x, struct complex *to)
{
	for (int64_t k = 0; k < d->n; k++) {
		bool mirror = d->inverse && d->half && 2 * k > d->n;

		to[k] = point(d, x, mirror ? d->n - k : k);
		if (d->inverse && d->half && (!k || 2 * k == d->n))
			to[k].im = 0.0;
		/* the inverse is the conjugate of the transform of the conjugate */
		if (d->inverse && !mirror)
			to[k].im = -to[k].im;
	}
}

static void store_points(const struct dft *d, const struct complex *from, float *y)
{
	double scale = d->inverse ? 1.0 / (double)d->n : 1.0;

	for (int64_t k = 0; k < d->give; k++) {
		float *to = y + k * d->inner * d->out_parts;

		to[0] = (float)(from[k].re * scale);
		if (d->out_parts == 2)
			to[1] = (float)(from[k].im * (d->inverse ? -scale : scale));
	}
}

/* A transform of n points takes three of a power of 2 below 4 n, each with log2(4 n) steps for a point. */
static int64_t transform_work(int64_t n)
{
	int64_t steps = 2;

	while (n >> (steps - 2))
		steps++;
	return 48 * steps * n;
}

static int64_t work_dft(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct dft d;

	if (dft_plan(&copy, &d))
		return INT64_MAX;
	return rvl_work(rvl_count(&c->out[0]) / d.give / d.out_parts, transform_work(d.n));
}

static int run_dft(struct rvl_call *c)
{
	int64_t count = rvl_count(&c->out[0]), rows;
	struct transform t;
	struct dft d;
	int rc = dft_plan(c, &d);

	if (rc || !count)
		return rc;
	make_transform(&t, d.n, c->scratch);
	rows = count / d.give / d.out_parts;
	for (int64_t i = 0; i < rows; i++) {
		int64_t outer = i / d.inner, k = i % d.inner;

		load_points(&d, (const float *)c->in[0].data +
			    (outer * d.have * d.inner + k) * d.parts, t.x);
		transform(&t);
		store_points(&d, t.x, (float *)c->out[0].data +
			     (outer * d.give * d.inner + k) * d.out_parts);
	}
	return 0;
}

/* ---- STFT ---- */

struct stft {
	struct dft d;		/* of a frame */
	int64_t step, frames;
};

static int stft_plan(struct rvl_call *c, struct stft *s)
{
	const struct rvl_shape *x = &c->in[0].shape, *w = &c->in[2].shape;
	int64_t window;
	int rc;

	if (x->rank != 3 || x->dim[2] < 1 || x->dim[2] > 2)
		return rvl_op_fail(c, "its signal does not have three dimensions, the last of 1 or 2");
	if (rvl_has(c, 2) && w->rank != 1)
		return rvl_op_fail(c, "its window has %d dimensions, not 1", w->rank);
	window = rvl_has(c, 2) ? w->dim[0] : x->dim[1];
	*s = (struct stft) { .d = { .inner = 1, .parts = (int)x->dim[2], .out_parts = 2 } };
	rc = number_input(c, 3, window, &s->d.n);
	if (!rc)
		rc = number_input(c, 1, 1, &s->step);
	if (rc)
		return rc;
	if (s->d.n < 1 || s->d.n > MOST_POINTS || s->d.n > x->dim[1] || s->step < 1)
		return rvl_op_fail(c, "its frames have %lld points in steps of %lld", (long long)s->d.n,
				   (long long)s->step);
	if (rvl_has(c, 2) && w->dim[0] != s->d.n)
		return rvl_op_fail(c, "its window has %lld points, its frames %lld",
				   (long long)w->dim[0], (long long)s->d.n);
	s->d.have = s->d.n;
	s->d.give = rvl_attr_int(c, "onesided") ? s->d.n / 2 + 1 : s->d.n;
	s->frames = (x->dim[1] - s->d.n) / s->step + 1;
	return 0;
}

static int64_t work_stft(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct stft s;

	if (stft_plan(&copy, &s))
		return INT64_MAX;
	return rvl_work(rvl_work(c->in[0].shape.dim[0], s.frames), transform_work(s.d.n));
}

static int infer_stft(struct rvl_call *c)
{
	struct rvl_shape y = { .rank = 4 };
	struct stft s;
	int rc = stft_plan(c, &s);

	if (rc)
		return rc;
	y.dim[0] = c->in[0].shape.dim[0];
	y.dim[1] = s.frames;
	y.dim[2] = s.d.give;
	y.dim[3] = 2;
	rvl_set_out(c, 0, RVL_TYPE_F32, &y);
	return 0;
}

static int64_t scratch_stft(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct stft s;

	return stft_plan(&copy, &s) ? bound_bytes(2 * c->out[0].shape.dim[2]) :
				      transform_bytes(s.d.n);
}

static int run_stft(struct rvl_call *c)
{
	const struct rvl_shape *x = &c->in[0].shape;
	const float *window = rvl_has(c, 2) ? c->in[2].data : NULL, *signal = c->in[0].data;
	float *y = c->out[0].data;
	struct transform t;
	struct stft s;
	int rc = stft_plan(c, &s);

	if (rc || !rvl_count(&c->out[0]))
		return rc;
	make_transform(&t, s.d.n, c->scratch);
	for (int64_t i = 0; i < x->dim[0] * s.frames; i++) {
		int64_t at = i / s.frames * x->dim[1] + i % s.frames * s.step;

		load_points(&s.d, signal + at * s.d.parts, t.x);
		for (int64_t k = 0; window && k < s.d.n; k++) {
			t.x[k].re *= (double)window[k];
			t.x[k].im *= (double)window[k];
		}
		transform(&t);
		store_points(&s.d, t.x, y + i * s.d.give * 2);
	}
	return 0;
}

/* ---- MelWeightMatrix ---- */

/* Bins, length of the transform, samples per second. */
static int mel_numbers(struct rvl_call *c, int64_t *n)
{
	int rc = 0;

	for (uint32_t i = 0; i < 3 && !rc; i++) {
		rc = number_input(c, i, 0, &n[i]);
		if (!rc && (n[i] < 1 || n[i] > MOST_POINTS))
			rc = rvl_op_fail(c, "its input %u is %lld", i, (long long)n[i]);
	}
	return rc;
}

static int infer_mel(struct rvl_call *c)
{
	enum rvl_type type = rvl_type_of_onnx(rvl_attr_int(c, "output_datatype"));
	struct rvl_shape y = { .rank = 2 };
	int64_t n[3];
	int rc = mel_numbers(c, n);

	if (rc)
		return rc;
	if (!type)
		return rvl_op_fail(c, "element type %lld of ONNX is not supported",
				   (long long)rvl_attr_int(c, "output_datatype"));
	if (rvl_count(&c->in[3]) != 1 || rvl_count(&c->in[4]) != 1)
		return rvl_op_fail(c, "its edges are not one number each");
	y.dim[0] = n[1] / 2 + 1;
	y.dim[1] = n[0];
	rvl_set_out(c, 0, type, &y);
	return 0;
}

/* The line of the spectrum at step @i of the mel scale, -1 where there is none. */
static int64_t mel_line(const struct rvl_call *c, const int64_t *n, int64_t i)
{
	double low = log1p((double)*(const float *)c->in[3].data / 700.0);
	double high = log1p((double)*(const float *)c->in[4].data / 700.0);
	double hertz = 700.0 * expm1(low + (double)i * (high - low) / (double)(n[0] + 2));
	double line = floor((double)(n[1] + 1) * hertz / (double)n[2]);

	return line >= 0.0 && line <= (double)(n[1] / 2) ? (int64_t)line : -1;
}

static void put_weight(const struct rvl_call *c, int64_t line, int64_t bin, double v)
{
	const struct rvl_value *y = &c->out[0];

	rvl_convert(y->type, (char *)y->data + (size_t)(line * y->shape.dim[1] + bin) *
		    rvl_type_size(y->type), RVL_TYPE_F64, &v, 1);
}

/* A triangle from line @left over @center to @right. */
static void put_triangle(const struct rvl_call *c, int64_t bin, int64_t left, int64_t center,
			 int64_t right)
{
	if (left == center)
		put_weight(c, center, bin, 1.0);
	for (int64_t k = left; left < center && k <= center; k++)
		put_weight(c, k, bin, (double)(k - left) / (double)(center - left));
	for (int64_t k = center; k < right; k++)
		put_weight(c, k, bin, (double)(right - k) / (double)(right - center));
}

static int run_mel(struct rvl_call *c)
{
	size_t size = rvl_type_size(c->out[0].type);
	int64_t n[3], line[3];
	int rc = mel_numbers(c, n);

	if (rc)
		return rc;
	memset(c->out[0].data, 0, (size_t)rvl_count(&c->out[0]) * size);
	for (int64_t bin = 0; bin < n[0]; bin++) {
		for (int i = 0; i < 3; i++) {
			line[i] = mel_line(c, n, bin + i);
			if (line[i] < 0)
				return rvl_op_fail(c, "bin %lld lies outside the %lld lines of the spectrum",
						   (long long)bin, (long long)(n[1] / 2 + 1));
		}
		put_triangle(c, bin, line[0], line[1], line[2]);
	}
	return 0;
}

/* ---- the table ---- */

#define WINDOW(op, work, text) { \
	.name = op, .since = 17, .least_in = 1, .most_in = 1, .types = { RVL_T_INDEX }, \
	.attrs = RVL_ATTRS(RVL_INT("periodic", 1), RVL_INT("output_datatype", 1)), \
	.infer = infer_window, .run = work, .doc = text }

const struct rvl_op_def rvl_ops_signal[] = {
	WINDOW("HannWindow", run_hann, "a Hann window"),
	WINDOW("HammingWindow", run_hamming, "a Hamming window"),
	WINDOW("BlackmanWindow", run_blackman, "a Blackman window"),
	{ .name = "DFT", .since = 17, .work = work_dft, .least_in = 1, .most_in = 2,
	  .types = { RVL_T_FLOAT, RVL_T_INDEX },
	  .attrs = RVL_ATTRS(RVL_INT("axis", 1), RVL_INT("inverse", 0), RVL_INT("onesided", 0)),
	  .infer = infer_dft, .run = run_dft, .scratch = scratch_dft,
	  .doc = "the discrete Fourier transform along an axis" },
	{ .name = "DFT", .since = 20, .work = work_dft, .least_in = 1, .most_in = 3,
	  .types = { RVL_T_FLOAT, RVL_T_INDEX, RVL_T(S64) },
	  .attrs = RVL_ATTRS(RVL_INT("inverse", 0), RVL_INT("onesided", 0)),
	  .infer = infer_dft, .run = run_dft, .scratch = scratch_dft,
	  .doc = "the discrete Fourier transform along an axis" },
	{ .name = "STFT", .since = 17, .work = work_stft, .least_in = 2, .most_in = 4,
	  .types = { RVL_T_FLOAT, RVL_T_INDEX, RVL_T_FLOAT, RVL_T_INDEX },
	  .attrs = RVL_ATTRS(RVL_INT("onesided", 1)), .infer = infer_stft, .run = run_stft,
	  .scratch = scratch_stft, .doc = "Fourier transforms of overlapping frames" },
	{ .name = "MelWeightMatrix", .since = 17, .least_in = 5, .most_in = 5,
	  .types = { RVL_T_INDEX, RVL_T_INDEX, RVL_T_INDEX, RVL_T_FLOAT },
	  .attrs = RVL_ATTRS(RVL_INT("output_datatype", 1)), .infer = infer_mel, .run = run_mel,
	  .doc = "weights that turn a spectrum into bins of the mel scale" },
	RVL_OPS_END
};

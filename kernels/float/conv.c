/* SPDX-License-Identifier: MIT */
/*
 * A convolution is a product of the weights [channels, c * taps] by a matrix of the elements under
 * each tap, [c * taps, results]. Panels of that matrix are gathered in the run, for a few results
 * and a block of channels and taps at a time. A depthwise convolution sums shifted rows.
 */
#include "float/conv.h"

#include <string.h>

#include "internal.h"
#include "isa.h"

#define STRIP_FLOATS (12 << 10)	/* of copied input rows of a depthwise convolution */
#define MAX_ITEMS 8		/* parts into which a depthwise convolution is divided */
#define MAX_ROWS ((int64_t)1 << 18)	/* floats of the input rows under one row of results */
#define MAX_TAPS 1024		/* of a depthwise convolution */

static int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---- gathering ---- */

/* Results that are adjacent in a row of a plane. */
struct piece {
	const struct rvl_f32_conv *v;
	const float *x;			/* channel 0 of the group */
	int64_t pos[RVL_MAX_RANK];	/* of the first result */
	int64_t n;
	int64_t k0, k1;			/* elements of the kernels, channel by channel */
	float *dst;
	int64_t width;
};

/* Four floats of any alignment. */
typedef uint32_t quad __attribute__((vector_size(16), aligned(4), may_alias));

static inline void copy(float *dst, const float *src, int64_t n)
{
	int64_t i = 0;

	for (; i + 4 <= n; i += 4)
		*(quad *)(dst + i) = *(const quad *)(src + i);
	for (; i < n; i++)
		dst[i] = src[i];
}

static inline void copy_apart(float *dst, const float *src, int64_t n, int64_t step)
{
	int64_t i = 0;

	/* The second vector has one element more than the results need, so the last ones are left. */
	for (; step == 2 && i + 4 < n; i += 4)
		*(quad *)(dst + i) = __builtin_shuffle(*(const quad *)(src + 2 * i),
						       *(const quad *)(src + 2 * i + 4),
						       (quad) { 0, 2, 4, 6 });
	for (; i < n; i++)
		dst[i] = src[i * step];
}

static inline void zero(float *dst, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		dst[i] = 0;
}

/* Channels [c0, c1) under tap @t. Results [lead, past) have it at @at of the plane and behind. */
static void put_tap(const struct piece *p, int64_t t, int64_t c0, int64_t c1, int64_t at,
		    int64_t lead, int64_t past)
{
	const struct rvl_f32_conv *v = p->v;
	int64_t step = v->w.axis[v->w.rank - 1].stride;
	const float *x = p->x + c0 * v->in + at;
	float *dst = p->dst + (c0 * v->taps + t - p->k0) * p->width;

	for (int64_t c = c0; c < c1; c++, x += v->in, dst += v->taps * p->width) {
		zero(dst, lead);
		if (step == 1)
			copy(dst + lead, x, past - lead);
		else
			copy_apart(dst + lead, x, past - lead, step);
		zero(dst + past, p->n - past);
	}
}

/* The row of the plane under a tap at @tap of each axis but the last; false: outside of the image. */
static bool row_of(const struct piece *p, const int64_t *tap, int64_t *row)
{
	const struct rvl_window *w = &p->v->w;

	*row = 0;
	for (int i = 0; i < w->rank - 1; i++) {
		const struct rvl_window_axis *a = &w->axis[i];
		int64_t at = p->pos[i] * a->stride + tap[i] * a->dilation - a->pad[0];

		if (at < 0 || at >= a->n)
			return false;
		*row = *row * a->n + at;
	}
	return true;
}

/* Results [*lead, *past) of the piece have the element at @x0 + i * stride inside the row. */
static void inside(const struct rvl_window_axis *a, int64_t x0, int64_t n, int64_t *lead,
		   int64_t *past)
{
	*lead = 0;
	*past = n;
	if (x0 >= 0 && x0 + (n - 1) * a->stride < a->n)
		return;
	*past = x0 < a->n ? least(ceil_div(a->n - x0, a->stride), n) : 0;
	*lead = x0 < 0 ? least(ceil_div(-x0, a->stride), *past) : 0;
}

static void next_tap(const struct rvl_window *w, int64_t *tap)
{
	for (int i = w->rank - 1; i >= 0 && ++tap[i] == w->axis[i].k; i--)
		tap[i] = 0;
}

static void gather_piece(const struct piece *p)
{
	const struct rvl_f32_conv *v = p->v;
	const struct rvl_window_axis *a = &v->w.axis[v->w.rank - 1];
	int64_t tap[RVL_MAX_RANK] = { 0 }, first = p->pos[v->w.rank - 1] * a->stride - a->pad[0];
	int64_t q0 = p->k0 / v->taps, r0 = p->k0 % v->taps;
	int64_t q1 = p->k1 / v->taps, r1 = p->k1 % v->taps;

	for (int64_t t = 0; t < v->taps; t++, next_tap(&v->w, tap)) {
		int64_t c0 = q0 + (t < r0), c1 = q1 + (t < r1);
		int64_t row, lead = 0, past = 0, x0 = first + tap[v->w.rank - 1] * a->dilation;

		if (c0 >= c1)
			continue;
		if (row_of(p, tap, &row))
			inside(a, x0, p->n, &lead, &past);
		put_tap(p, t, c0, c1, past ? row * a->n + x0 + lead * a->stride : 0, lead, past);
	}
}

static void position(const struct rvl_window *w, int64_t at, int64_t *pos)
{
	for (int i = w->rank - 1; i >= 0; i--) {
		pos[i] = at % w->axis[i].out;
		at /= w->axis[i].out;
	}
}

/*
 * Where the image and the result have rows of the same length and the stride is 1, the elements under
 * a tap of all results of a panel are adjacent. Those that belong to another row are masked.
 */
#define FLAT_TAPS 32	/* most taps of all axes together */

struct flat {
	struct piece p;
	int64_t first;			/* index of the first result in its plane */
	uint32_t valid[FLAT_TAPS];	/* results with the tap inside the image: axis by axis, tap by tap */
};

static bool is_flat(const struct rvl_window *w)
{
	int64_t taps = 0;

	for (int i = 0; i < w->rank; i++) {
		if (w->axis[i].stride != 1 || (i && w->axis[i].out != w->axis[i].n))
			return false;
		taps += w->axis[i].k;
	}
	return taps <= FLAT_TAPS;
}

static void find_valid(struct flat *f)
{
	const struct rvl_window *w = &f->p.v->w;
	int64_t pos[RVL_MAX_RANK];

	memset(f->valid, 0, sizeof(f->valid));
	memcpy(pos, f->p.pos, sizeof(pos));
	for (int64_t i = 0; i < f->p.n; i++) {
		uint32_t *valid = f->valid;

		for (int r = 0; r < w->rank; r++) {
			const struct rvl_window_axis *a = &w->axis[r];

			for (int64_t k = 0, at = pos[r] - a->pad[0]; k < a->k; k++, at += a->dilation)
				*valid++ |= (uint32_t)(at >= 0 && at < a->n) << i;
		}
		for (int r = w->rank - 1; r >= 0 && ++pos[r] == w->axis[r].out; r--)
			pos[r] = 0;
	}
}

/* The valid results of a tap, and the distance from a result's index to that of the element. */
static uint32_t valid_at(const struct flat *f, const int64_t *tap, int64_t *shift)
{
	const struct rvl_window *w = &f->p.v->w;
	const uint32_t *valid = f->valid;
	uint32_t bits = 0xffffffffu;

	*shift = 0;
	for (int i = 0; i < w->rank; i++) {
		const struct rvl_window_axis *a = &w->axis[i];

		bits &= valid[tap[i]];
		valid += a->k;
		*shift = *shift * a->n + tap[i] * a->dilation - a->pad[0];
	}
	return bits;
}

/* Results [lead, past) of each channel, of which those in @mask are not zero. */
static void put_flat(const struct piece *p, int64_t t, int64_t c0, int64_t c1, const float *x,
		     int64_t lead, int64_t past, const uint32_t *mask)
{
	const struct rvl_f32_conv *v = p->v;
	float *dst = p->dst + (c0 * v->taps + t - p->k0) * p->width;

	x += c0 * v->in;
	for (int64_t c = c0; c < c1; c++, x += v->in, dst += v->taps * p->width) {
		int64_t i = lead;

		zero(dst, lead);
		for (; i + 4 <= past; i += 4)
			*(quad *)(dst + i) = *(const quad *)(x + i) & *(const quad *)(mask + i);
		for (; i < past; i++)
			dst[i] = mask[i] ? x[i] : 0;
		zero(dst + past, p->n - past);
	}
}

static void gather_flat(const struct flat *f)
{
	const struct piece *p = &f->p;
	const struct rvl_f32_conv *v = p->v;
	int64_t tap[RVL_MAX_RANK] = { 0 };
	int64_t q0 = p->k0 / v->taps, r0 = p->k0 % v->taps;
	int64_t q1 = p->k1 / v->taps, r1 = p->k1 % v->taps;

	for (int64_t t = 0; t < v->taps; t++, next_tap(&v->w, tap)) {
		int64_t c0 = q0 + (t < r0), c1 = q1 + (t < r1), shift, lead, past;
		uint32_t mask[RVL_F32_NR], bits;

		if (c0 >= c1)
			continue;
		bits = valid_at(f, tap, &shift);
		shift += f->first;
		lead = shift < 0 ? least(-shift, p->n) : 0;
		past = least(v->in - shift, p->n);
		past = past < lead ? lead : past;
		for (int64_t i = 0; i < p->n; i++)
			mask[i] = bits >> i & 1 ? 0xffffffffu : 0;
		put_flat(p, t, c0, c1, past > lead ? p->x + shift : p->x, lead, past, mask);
	}
}

static void gather(const struct rvl_f32_source *s, int64_t at, int64_t first, int64_t n, int64_t k0,
		   int64_t kc, int width, float *dst)
{
	const struct rvl_f32_conv *v = s->ctx;
	struct flat f = {
		.p = { .v = v, .x = v->x + at, .k0 = k0, .k1 = k0 + kc, .width = width, .n = n,
		       .dst = dst },
		.first = first,
	};
	struct piece *p = &f.p;
	int last = v->w.rank - 1;

	for (int64_t k = 0; n < width && k < kc; k++)
		zero(dst + k * width + n, width - n);
	position(&v->w, first, p->pos);
	if (is_flat(&v->w)) {
		find_valid(&f);
		gather_flat(&f);
		return;
	}
	for (int64_t i = 0; i < n; i += p->n) {
		position(&v->w, first + i, p->pos);
		p->n = least(v->w.axis[last].out - p->pos[last], n - i);
		p->dst = dst + i;
		gather_piece(p);
	}
}

/* ---- dense and grouped ---- */

static void locate(const void *ctx, int64_t batch, struct rvl_f32_place *at)
{
	const struct rvl_f32_conv *v = ctx;
	int64_t g = batch % v->group;

	*at = (struct rvl_f32_place) {
		.a = g * v->m_group * v->c_group * v->taps, .b = batch * v->c_group * v->in,
		.y = batch * v->m_group * v->out, .added = batch * v->m_group * v->out,
		.bias = g * v->m_group,
	};
}

static struct rvl_f32_job job_of(const struct rvl_f32_conv *v)
{
	const struct rvl_f32_kernels *f = rvl_f32_kernels();
	int64_t k = v->c_group * v->taps;

	return (struct rvl_f32_job) {
		.f = f, .batches = v->images * v->group, .m = v->m_group, .n = v->out, .k = k,
		.a = { .data = v->weights, .k_step = 1, .step = k, .scale = 1, .packed = v->packed,
		       .matrix = rvl_f32_packed(v->m_group, k, f->mr),
		       .elements = v->m_group * k },
		.b = { .fill = gather, .ctx = v },
		.locate = locate, .ctx = v, .added = v->added, .added_row = v->out, .added_col = 1,
		.added_scale = 1, .bias = v->bias, .lo = v->lo, .hi = v->hi, .y = v->y,
		.y_row = v->out,
	};
}

/* ---- depthwise ---- */

/*
 * The input rows under a strip of output rows are copied with their padding. A row is divided into
 * as many parts as the stride, each with every stride-th element, so that all taps read adjacent
 * elements.
 */
struct strip {
	int64_t rows;		/* of results */
	int64_t part;		/* floats of a part of a row */
	int64_t copied;		/* input rows */
	int64_t floats;
	int64_t strips, items;
};

struct depthwise {
	const struct rvl_f32_conv *v;
	struct strip s;
	float *scratch;
};

/* The axes of a plane: those of one dimension have a first one of one row. */
static struct rvl_window_axis axis_y(const struct rvl_f32_conv *v)
{
	static const struct rvl_window_axis one = { .n = 1, .out = 1, .k = 1, .stride = 1, .dilation = 1 };

	return v->w.rank == 2 ? v->w.axis[0] : one;
}

static const struct rvl_window_axis *axis_x(const struct rvl_f32_conv *v)
{
	return &v->w.axis[v->w.rank - 1];
}

static int64_t rows_under(const struct rvl_window_axis *a, int64_t rows)
{
	return (rows - 1) * a->stride + (a->k - 1) * a->dilation + 1;
}

/* Whether the copy of the input rows under one row of results has a reasonable size. */
static bool rows_fit(const struct rvl_f32_conv *v)
{
	const struct rvl_window_axis *x = axis_x(v), y = axis_y(v);
	int64_t n = x->out + (x->k - 1) * x->dilation;

	return !__builtin_mul_overflow(n, x->stride, &n) &&
	       !__builtin_mul_overflow(n, rows_under(&y, 1), &n) && n <= MAX_ROWS;
}

/* What a product of few rows would do worse. */
static bool may_be_depthwise(const struct rvl_f32_conv *v)
{
	return v->c_group == 1 && v->m_group < 4 && v->w.rank <= 2 && v->taps <= MAX_TAPS;
}

static bool is_depthwise(const struct rvl_f32_conv *v)
{
	return may_be_depthwise(v) && !v->added && rows_fit(v);
}

/* Floats of a strip: an upper bound, which does not grow where an image becomes smaller. */
static int64_t most_floats(const struct rvl_f32_conv *v)
{
	const struct rvl_window_axis *x = axis_x(v), y = axis_y(v);
	int64_t n = MAX_ROWS;

	if (rows_fit(v))
		n = (x->out + (x->k - 1) * x->dilation) * x->stride * rows_under(&y, 1);
	return (n > STRIP_FLOATS ? n : STRIP_FLOATS) + 2 * RVL_F32_VL;
}

static struct strip strip_of(const struct rvl_f32_conv *v)
{
	const struct rvl_window_axis *x = axis_x(v), y = axis_y(v);
	int64_t last = (x->out - 1) + (x->k - 1) * x->dilation / x->stride;
	struct strip s = { .part = last + 1 };
	int64_t row = s.part * x->stride;

	s.rows = (STRIP_FLOATS / row - (y.k - 1) * y.dilation - 1) / y.stride + 1;
	s.rows = s.rows < 1 ? 1 : least(s.rows, y.out);
	s.copied = rows_under(&y, s.rows);
	s.floats = ceil_div(s.copied * row, RVL_F32_VL) * RVL_F32_VL + RVL_F32_VL;
	s.strips = ceil_div(y.out, s.rows);
	s.items = least(v->images * v->group * v->m_group * s.strips, MAX_ITEMS);
	return s;
}

/* Part @phase of the input rows under @rows rows of results from @oy on. */
static void copy_part(const struct depthwise *d, const float *plane, int64_t phase, int64_t oy,
		      int64_t rows, float *dst)
{
	const struct rvl_window_axis *x = axis_x(d->v), y = axis_y(d->v);
	int64_t first = oy * y.stride - y.pad[0], copied = rows_under(&y, rows), part = d->s.part;
	int64_t lead, past, x0 = phase - x->pad[0];

	inside(x, x0, part, &lead, &past);
	for (int64_t i = first; i < first + copied; i++, dst += x->stride * part) {
		const float *row = plane + i * x->n + x0;

		if (i < 0 || i >= y.n || past <= lead) {
			zero(dst, part);
			continue;
		}
		zero(dst, lead);
		if (x->stride == 1)
			copy(dst + lead, row + lead, past - lead);
		else
			copy_apart(dst + lead, row + lead * x->stride, past - lead, x->stride);
		zero(dst + past, part - past);
	}
}

/* Pointers to the elements under each tap of the first result of a strip. */
static void point(const struct depthwise *d, const float *mem, const float **p)
{
	const struct rvl_window_axis *x = axis_x(d->v), y = axis_y(d->v);

	for (int64_t ky = 0; ky < y.k; ky++) {
		const float *at = mem + ky * y.dilation * x->stride * d->s.part;

		for (int64_t kx = 0; kx < x->k; kx++) {
			int64_t shift = kx * x->dilation;

			*p++ = at + shift % x->stride * d->s.part + shift / x->stride;
		}
	}
}

/* Strip @i of all planes of the result. */
static void run_strip(const struct depthwise *d, int64_t i, float *mem)
{
	const struct rvl_f32_conv *v = d->v;
	int64_t plane = i / d->s.strips, oy = i % d->s.strips * d->s.rows;
	int64_t rows = least(d->s.rows, axis_y(v).out - oy), width = axis_x(v)->out;
	int64_t m = plane % (v->group * v->m_group);
	const float *p[MAX_TAPS];
	struct rvl_f32_taps_call c = {
		.p = p, .p_row = axis_y(v).stride * axis_x(v)->stride * d->s.part,
		.w = v->weights + m * v->taps, .taps = v->taps, .n = width, .rows = rows,
		.bias = v->bias ? v->bias[m] : 0, .lo = v->lo, .hi = v->hi,
		.y = v->y + plane * v->out + oy * width, .y_row = width,
	};

	for (int64_t phase = 0; phase < axis_x(v)->stride; phase++)
		copy_part(d, v->x + plane / v->m_group * v->in, phase, oy, rows,
			  mem + phase * d->s.part);
	point(d, mem, p);
	rvl_f32_kernels()->taps(&c);
}

static void depthwise_item(void *arg, uint32_t i)
{
	const struct depthwise *d = arg;
	const struct rvl_f32_conv *v = d->v;
	int64_t strips = v->images * v->group * v->m_group * d->s.strips;

	for (int64_t n = i * strips / d->s.items; n < (i + 1) * strips / d->s.items; n++)
		run_strip(d, n, d->scratch + i * d->s.floats);
}

/* ---- all ---- */

static bool is_empty(const struct rvl_f32_conv *v)
{
	return v->images * v->m_group * v->out == 0;
}

void rvl_f32_conv_init(struct rvl_f32_conv *v)
{
	v->in = rvl_window_in(&v->w);
	v->out = rvl_window_out(&v->w);
	v->taps = 1;
	for (int i = 0; i < v->w.rank; i++)
		v->taps *= v->w.axis[i].k;
}

int64_t rvl_f32_conv_packed(const struct rvl_f32_conv *v)
{
	if (is_empty(v) || is_depthwise(v))
		return 0;
	return v->group * rvl_f32_packed(v->m_group, v->c_group * v->taps, rvl_f32_kernels()->mr);
}

void rvl_f32_pack_conv(const struct rvl_f32_conv *v, float *dst)
{
	struct rvl_f32_job j = job_of(v);

	for (int64_t g = 0; g < v->group; g++)
		rvl_f32_pack(&j.a, g * j.a.elements, j.m, j.k, j.f->mr, dst + g * j.a.matrix);
}

int64_t rvl_f32_conv_scratch(const struct rvl_f32_conv *v)
{
	struct rvl_f32_job j = job_of(v);
	int64_t dense = rvl_f32_scratch(&j), strips;

	if (is_empty(v) || !may_be_depthwise(v))
		return dense;
	strips = MAX_ITEMS * most_floats(v) * (int64_t)sizeof(float);
	return dense > strips ? dense : strips;
}

void rvl_f32_conv_run(const struct rvl_f32_conv *v, void *scratch, const struct rvl_pool *pool)
{
	struct depthwise d = { .v = v, .scratch = scratch };
	struct rvl_f32_job j;

	if (is_empty(v))
		return;
	if (is_depthwise(v)) {
		d.s = strip_of(v);
		rvl_parallel(pool, (uint32_t)d.s.items, depthwise_item, &d);
		return;
	}
	j = job_of(v);
	rvl_f32_run(&j, scratch, pool);
}

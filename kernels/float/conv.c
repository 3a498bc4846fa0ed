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
#include "sizes.h"

#define STRIP_FLOATS (12 << 10)	/* of copied input rows of a depthwise convolution */
#define MAX_ITEMS 16		/* parts into which a depthwise convolution is divided */
#define MAX_ROWS (32 << 10)	/* floats under one row of results; longer rows are divided */
#define LEAST_COLS 64		/* results of a divided row */
#define MAX_TAPS 1024		/* of a depthwise convolution */

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
		*(quad *)(dst + i) = __builtin_shufflevector(*(const quad *)(src + 2 * i),
							     *(const quad *)(src + 2 * i + 4),
							     0, 2, 4, 6);
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
	*past = x0 < a->n ? rvl_least(rvl_ceil_div(a->n - x0, a->stride), n) : 0;
	*lead = x0 < 0 ? rvl_least(rvl_ceil_div(-x0, a->stride), *past) : 0;
}

/* A tap of which the elements [k0, k1) of the kernels have channels [c0, c1). */
struct tap {
	int64_t index, left;		/* taps that follow, with this one */
	int64_t at[RVL_MAX_RANK];	/* of each axis */
	int64_t c0, c1;
};

static void find_channels(const struct piece *p, struct tap *t)
{
	int64_t taps = p->v->taps;

	t->c0 = p->k0 / taps + (t->index < p->k0 % taps);
	t->c1 = p->k1 / taps + (t->index < p->k1 % taps);
}

/* The tap of element k0. Only taps that have an element of the block are visited. */
static struct tap first_tap(const struct piece *p)
{
	const struct rvl_window *w = &p->v->w;
	struct tap t = { .index = p->k0 % p->v->taps, .left = rvl_least(p->v->taps, p->k1 - p->k0) };

	for (int64_t i = w->rank - 1, at = t.index; i >= 0; i--) {
		t.at[i] = at % w->axis[i].k;
		at /= w->axis[i].k;
	}
	find_channels(p, &t);
	return t;
}

/* The first tap follows the last one. */
static void next_tap(const struct piece *p, struct tap *t)
{
	const struct rvl_window *w = &p->v->w;

	t->left--;
	t->index = t->index + 1 == p->v->taps ? 0 : t->index + 1;
	for (int i = w->rank - 1; i >= 0 && ++t->at[i] == w->axis[i].k; i--)
		t->at[i] = 0;
	find_channels(p, t);
}

static void gather_piece(const struct piece *p)
{
	const struct rvl_f32_conv *v = p->v;
	const struct rvl_window_axis *a = &v->w.axis[v->w.rank - 1];
	int64_t first = p->pos[v->w.rank - 1] * a->stride - a->pad[0];

	for (struct tap t = first_tap(p); t.left > 0; next_tap(p, &t)) {
		int64_t row, lead = 0, past = 0, x0 = first + t.at[v->w.rank - 1] * a->dilation;

		if (row_of(p, t.at, &row))
			inside(a, x0, p->n, &lead, &past);
		put_tap(p, t.index, t.c0, t.c1, past ? row * a->n + x0 + lead * a->stride : 0, lead,
			past);
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

	for (struct tap t = first_tap(p); t.left > 0; next_tap(p, &t)) {
		int64_t shift, lead, past;
		uint32_t mask[RVL_F32_NR], bits = valid_at(f, t.at, &shift);

		shift += f->first;
		lead = shift < 0 ? rvl_least(-shift, p->n) : 0;
		past = rvl_least(v->in - shift, p->n);
		past = past < lead ? lead : past;
		for (int64_t i = 0; i < p->n; i++)
			mask[i] = bits >> i & 1 ? 0xffffffffu : 0;
		put_flat(p, t.index, t.c0, t.c1, past > lead ? p->x + shift : p->x, lead, past,
			 mask);
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

	if (kc == 0)
		return;
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
		p->n = rvl_least(v->w.axis[last].out - p->pos[last], n - i);
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
		.a = { .data = v->weights, .k_step = 1, .step = k, .packed = v->packed,
		       .matrix = rvl_f32_packed(v->m_group, k, f->mr),
		       .elements = v->m_group * k },
		.b = { .fill = gather, .ctx = v },
		.locate = locate, .ctx = v, .scale = 1, .added = v->added, .added_row = v->out, .added_col = 1,
		.added_scale = 1, .bias = v->bias, .lo = v->lo, .hi = v->hi, .y = v->y,
		.y_row = v->out,
	};
}

/* ---- depthwise ---- */

/*
 * The input under a strip of results is copied with its padding, so that all taps read adjacent
 * elements. On each axis either everything under the strip is copied once, or, where that is less,
 * what each tap reads is copied apart. A row copied once is divided by the stride: a segment has
 * every stride-th element from the position of a tap on. Only segments that a tap reads are copied.
 */
struct strip {
	int64_t rows, cols;		/* of results */
	int64_t segments, part;		/* of a copied row; floats of a segment */
	bool cols_apart, rows_apart;	/* a copy for each tap */
	int64_t copied;			/* input rows for each tap, or for all */
	int64_t floats;
	int64_t down, across;		/* strips of a plane */
	int64_t items;
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

/* What a product of few rows would do worse. */
static bool may_be_depthwise(const struct rvl_f32_conv *v)
{
	return v->c_group == 1 && v->m_group < 4 && v->w.rank <= 2 && v->taps <= MAX_TAPS;
}

static bool is_depthwise(const struct rvl_f32_conv *v)
{
	return may_be_depthwise(v) && !v->added;
}

/* Taps whose distance is a multiple of the stride share a segment. */
static int64_t shared_segments(const struct rvl_window_axis *x)
{
	int64_t a = x->stride, b = x->dilation % x->stride;

	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return rvl_least(x->stride / a, x->k);
}

/* Divides a copied row under @cols results into segments. Returns its floats. */
static int64_t divide_row(const struct rvl_window_axis *x, int64_t cols, struct strip *s)
{
	int64_t part = cols + (x->k - 1) * x->dilation / x->stride, shared = shared_segments(x);

	s->cols = cols;
	s->cols_apart = x->k * cols < shared * part;
	s->segments = s->cols_apart ? x->k : shared;
	s->part = s->cols_apart ? cols : part;
	return s->segments * s->part;
}

static void divide_rows(const struct rvl_window_axis *y, int64_t row, struct strip *s)
{
	int64_t rows = (STRIP_FLOATS / row - (y->k - 1) * y->dilation - 1) / y->stride + 1;

	rows = rows < 1 ? 1 : rvl_least(rows, y->out);
	s->copied = rows_under(y, rows);
	s->rows_apart = y->k * rows < s->copied;
	if (s->rows_apart) {
		rows = STRIP_FLOATS / (row * y->k);
		rows = rows < 1 ? 1 : rvl_least(rows, y->out);
		s->copied = rows;
	}
	s->rows = rows;
}

/* Floats of a strip: an upper bound, which does not grow where an image becomes smaller. */
static int64_t most_floats(const struct rvl_f32_conv *v)
{
	const struct rvl_window_axis *x = axis_x(v), y = axis_y(v);
	struct strip s;
	int64_t n = y.k * divide_row(x, rvl_least(x->out, LEAST_COLS), &s);

	return (n > MAX_ROWS ? n : MAX_ROWS) + 2 * RVL_F32_VL;
}

static struct strip strip_of(const struct rvl_f32_conv *v)
{
	const struct rvl_window_axis *x = axis_x(v), y = axis_y(v);
	struct strip s = { 0 };
	int64_t row = divide_row(x, x->out, &s);

	while (s.cols > LEAST_COLS && y.k * row > MAX_ROWS)
		row = divide_row(x, rvl_ceil_div(s.cols, 2), &s);
	divide_rows(&y, row, &s);
	s.floats = (s.rows_apart ? y.k : 1) * s.copied * row;
	s.floats = rvl_ceil_div(s.floats, RVL_F32_VL) * RVL_F32_VL + RVL_F32_VL;
	s.down = rvl_ceil_div(y.out, s.rows);
	s.across = rvl_ceil_div(x->out, s.cols);
	s.items = rvl_least(v->images * v->group * v->m_group * s.down * s.across, MAX_ITEMS);
	return s;
}

/* Elements of a row at @x0, @x0 + stride, ...; zeros where the row has none. */
static void copy_segment(const struct rvl_window_axis *x, const float *row, int64_t x0, int64_t n,
			 float *dst)
{
	int64_t lead, past;

	inside(x, x0, n, &lead, &past);
	zero(dst, lead);
	if (past <= lead)
		past = lead;
	else if (x->stride == 1)
		copy(dst + lead, row + x0 + lead, past - lead);
	else
		copy_apart(dst + lead, row + x0 + lead * x->stride, past - lead, x->stride);
	zero(dst + past, n - past);
}

/* The segments of row @i of a plane; the first result is at @ox. */
static void copy_row(const struct depthwise *d, const float *plane, int64_t i, int64_t ox, float *dst)
{
	const struct rvl_window_axis *x = axis_x(d->v), y = axis_y(d->v);
	const struct strip *s = &d->s;
	int64_t first = ox * x->stride - x->pad[0];

	if (i < 0 || i >= y.n) {
		zero(dst, s->segments * s->part);
		return;
	}
	for (int64_t g = 0; g < s->segments; g++, dst += s->part) {
		int64_t at = g * x->dilation;

		copy_segment(x, plane + i * x->n, first + (s->cols_apart ? at : at % x->stride),
			     s->part, dst);
	}
}

/* The input under @rows rows of results from row @oy and column @ox on. */
static void copy_rows(const struct depthwise *d, const float *plane, int64_t oy, int64_t ox,
		      int64_t rows, float *dst)
{
	const struct rvl_window_axis y = axis_y(d->v);
	const struct strip *s = &d->s;
	int64_t first = oy * y.stride - y.pad[0], row = s->segments * s->part;
	int64_t groups = s->rows_apart ? y.k : 1, step = s->rows_apart ? y.stride : 1;
	int64_t n = s->rows_apart ? rows : rows_under(&y, rows);

	for (int64_t g = 0; g < groups; g++)
		for (int64_t i = 0; i < n; i++)
			copy_row(d, plane, first + g * y.dilation + i * step, ox,
				 dst + (g * s->copied + i) * row);
}

/* Pointers to the elements under each tap of the first result of a strip. */
static void point(const struct depthwise *d, const float *mem, const float **p)
{
	const struct rvl_window_axis *x = axis_x(d->v), y = axis_y(d->v);
	const struct strip *s = &d->s;
	int64_t tap_rows = s->rows_apart ? s->copied : y.dilation;

	for (int64_t ky = 0; ky < y.k; ky++) {
		const float *at = mem + ky * tap_rows * s->segments * s->part;

		for (int64_t kx = 0; kx < x->k; kx++)
			*p++ = at + kx % s->segments * s->part +
			       (s->cols_apart ? 0 : kx * x->dilation / x->stride);
	}
}

/* Strip @i of all planes of the result. */
static void run_strip(const struct depthwise *d, int64_t i, float *mem)
{
	const struct rvl_f32_conv *v = d->v;
	const struct strip *s = &d->s;
	int64_t plane = i / s->across / s->down, m = plane % (v->group * v->m_group);
	int64_t oy = i / s->across % s->down * s->rows, ox = i % s->across * s->cols;
	int64_t width = axis_x(v)->out, step = s->rows_apart ? 1 : axis_y(v).stride;
	const float *p[MAX_TAPS];
	struct rvl_f32_taps_call c = {
		.p = p, .p_row = step * s->segments * s->part,
		.w = v->weights + m * v->taps, .taps = v->taps,
		.n = rvl_least(s->cols, width - ox), .rows = rvl_least(s->rows, axis_y(v).out - oy),
		.bias = v->bias ? v->bias[m] : 0, .lo = v->lo, .hi = v->hi,
		.y = v->y + plane * v->out + oy * width + ox, .y_row = width,
	};

	copy_rows(d, v->x + plane / v->m_group * v->in, oy, ox, c.rows, mem);
	point(d, mem, p);
	rvl_f32_kernels()->taps(&c);
}

static void depthwise_item(void *arg, uint32_t i)
{
	const struct depthwise *d = arg;
	const struct rvl_f32_conv *v = d->v;
	int64_t strips = v->images * v->group * v->m_group * d->s.down * d->s.across;

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

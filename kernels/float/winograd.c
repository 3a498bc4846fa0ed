/* SPDX-License-Identifier: MIT */
/*
 * Convolutions by tiles of 4x4 results. For a strip of tiles the 6x6 patch under each tile of each
 * channel is transformed, which gives 36 matrices [channels, tiles]. Each is multiplied by the matrix
 * of the weights that were transformed in the same way, by the tiles of float/product.c, and what the
 * 36 products have for a tile is transformed to its 16 results.
 *
 * A patch that has an infinity or NaN would spread it over all results of its tile, and large numbers
 * may overflow between the transforms only. Every element of a patch and every product has a factor
 * other than 0 in a result of its tile, so such a tile has a result that is not finite, and is computed
 * tap by tap. So is a tile with a result beyond 2^40, because the numbers beside one that stands for an
 * infinity, as the largest float, would be lost.
 */
#include "float/winograd.h"

#include <math.h>

#include "float/conv.h"
#include "float/rows.h"
#include "internal.h"
#include "isa.h"

#define IN RVL_WINOGRAD_IN
#define OUT RVL_WINOGRAD_OUT
#define MATRICES (IN * IN)
#define RESULTS (OUT * OUT)
#define TAPS 3			/* of a row or column of the weights */
#define UNITS 2			/* parts of the work for each thread where threads share strips */
#define MAX_STRIP 128		/* most tiles of a strip */
#define CACHED (64 << 10)	/* floats that stay in the second level cache */
#define BLOCK 256		/* most channels that are summed before the sum is added to the result */
#define MOST_SCRATCH (10 << 20)	/* floats of shared strips and all lanes, unless one takes more */
#define MOST_PACKED (10 << 20)	/* floats of transformed weights, which are four times as many */

/* ---- division ---- */

struct plan {
	const struct rvl_f32_kernels *f;
	int64_t across, tiles;		/* tiles of a row, and of a plane */
	int64_t strip, strips;		/* tiles of a strip, a multiple of nr; strips of a plane */
	int64_t all;			/* strips of all planes */
	/*
	 * Where there are fewer strips than threads, and memory for all, the threads transform them in parts
	 * of the input channels, and then multiply them in parts of the output channels. Their matrices
	 * lie before the memory of the lanes.
	 */
	bool shared;
	int64_t fills, parts;		/* parts of a strip in either step; 1 unless shared */
	int64_t rows;			/* output channels that are multiplied by all matrices in turn */
	int64_t lanes;
	int64_t weights;		/* floats of a matrix of weights */
	int64_t v_row;			/* floats between the matrices of a strip */
	int64_t v_floats, m_floats, d_row, lane_floats;
};

static int64_t largest(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* More tiles for each strip read the weights less often, fewer keep its matrices in the cache. */
static int64_t strip_of(const struct rvl_f32_conv *v, int64_t tiles, int nr)
{
	int64_t sum = v->c_group + v->m_group;
	int64_t most = largest(v->c_group * v->m_group / (2 * sum), CACHED / (MATRICES * sum));

	most = largest(rvl_least(most, MAX_STRIP) / nr * nr, nr);
	return rvl_round_up(rvl_ceil_div(tiles, rvl_ceil_div(tiles, most)), nr);
}

static int64_t shared_floats(const struct plan *p)
{
	return p->shared ? p->all * p->v_floats : 0;
}

static struct plan plan_of(const struct rvl_f32_conv *v, int64_t threads)
{
	const struct rvl_f32_kernels *f = rvl_f32_kernels();
	int64_t panels = rvl_ceil_div(v->m_group, f->mr), part, most;
	struct plan p = { .f = f, .across = rvl_ceil_div(v->w.axis[1].out, OUT) };

	p.tiles = p.across * rvl_ceil_div(v->w.axis[0].out, OUT);
	p.strip = strip_of(v, p.tiles, f->nr);
	p.strips = rvl_ceil_div(p.tiles, p.strip);
	p.all = v->images * v->group * p.strips;
	/* The rows of a patch would all lie in one set of the cache without the last floats. */
	p.v_row = p.strip * v->c_group + RVL_F32_VL;
	p.v_floats = rvl_round_up(MATRICES * p.v_row, RVL_F32_VL);
	p.fills = p.parts = 1;
	p.shared = p.all < threads && p.all * p.v_floats <= MOST_SCRATCH / 2;
	if (p.shared) {
		p.fills = rvl_least(rvl_ceil_div(UNITS * threads, p.all), v->c_group);
		p.parts = rvl_least(rvl_ceil_div(UNITS * threads, p.all), panels);
	}

	part = rvl_ceil_div(panels, p.parts) * f->mr;
	p.weights = rvl_f32_packed(v->m_group, v->c_group, f->mr);
	p.rows = part;
	if (p.v_floats <= CACHED)
		p.rows = rvl_least(part, largest(CACHED / 2 / (MATRICES * p.strip) / f->mr, 1) * f->mr);
	p.m_floats = rvl_round_up(p.rows * MATRICES * p.strip, RVL_F32_VL);
	p.d_row = p.strip + 4;		/* quads may pass the last tile */
	p.lane_floats = (p.shared ? 0 : p.v_floats) + p.m_floats +
			rvl_round_up(MATRICES * p.d_row + 4 * (p.strip + 4) + 4, RVL_F32_VL);
	most = (MOST_SCRATCH - shared_floats(&p)) / p.lane_floats;
	p.lanes = rvl_least(rvl_least(threads, p.all * largest(p.fills, p.parts)), largest(most, 1));
	return p;
}

/* Rows and columns of the padding: a result has at least four taps inside the image. */
static bool is_padded_by_one(const struct rvl_window_axis *a)
{
	return a->pad[0] <= 1 && a->out + TAPS - 1 - a->n - a->pad[0] <= 1;
}

static bool is_possible(const struct rvl_f32_conv *v)
{
	if (!v->fixed || v->exact || v->added || v->w.rank != 2)
		return false;
	for (int i = 0; i < 2; i++) {
		const struct rvl_window_axis *a = &v->w.axis[i];

		if (a->k != TAPS || a->stride != 1 || a->dilation != 1 || !is_padded_by_one(a))
			return false;
	}
	return v->c_group >= 4 && v->m_group >= 4 && v->out >= RESULTS &&
	       v->group * v->m_group <= MOST_PACKED / MATRICES / v->c_group;
}

/*
 * Times in products of the direct kernels. The factors were measured with AVX2: a product of matrices
 * reaches four fifths of the peak, and the transforms of a patch and of a tile take as long as 480
 * and 400 products. Weights that no cache holds are read from memory.
 */
bool rvl_f32_is_winograd(const struct rvl_f32_conv *v)
{
	int64_t c = v->c_group, m = v->m_group, tiles, read, direct, by_tiles;

	if (!is_possible(v))
		return false;
	tiles = rvl_ceil_div(v->w.axis[0].out, OUT) * rvl_ceil_div(v->w.axis[1].out, OUT);
	read = MATRICES * c * m > (1 << 18) ? 20 : 4;
	direct = TAPS * TAPS * (v->out * 13 / 10 + read);
	by_tiles = MATRICES * (rvl_round_up(tiles, rvl_f32_kernels()->vl) * 5 / 4 + read) +
		   tiles * 480 / m + tiles * 400 / c;
	return by_tiles < direct - direct / 10;
}

/* ---- weights ---- */

/* r[i * step] = G g of three elements. */
static void transform_weights(const double *g, int64_t g_step, double *r, int64_t step)
{
	const double a = RVL_WINOGRAD_A, b = RVL_WINOGRAD_B, a2 = a * a, b2 = b * b;
	double x = g[0], y = g[g_step], z = g[2 * g_step];
	double by_a = 1 / (2 * a2 * (a2 - b2)), by_b = 1 / (2 * b2 * (b2 - a2));

	r[0] = x / (a2 * b2);
	r[step] = (x + a2 * z + a * y) * by_a;
	r[2 * step] = (x + a2 * z - a * y) * by_a;
	r[3 * step] = (x + b2 * z + b * y) * by_b;
	r[4 * step] = (x + b2 * z - b * y) * by_b;
	r[5 * step] = z;
}

static void transform_kernel(const float *w, double *u)
{
	double g[TAPS * TAPS], t[IN * TAPS];

	for (int i = 0; i < TAPS * TAPS; i++)
		g[i] = (double)w[i];
	for (int j = 0; j < TAPS; j++)
		transform_weights(g + j, TAPS, t + j, TAPS);
	for (int i = 0; i < IN; i++)
		transform_weights(t + i * TAPS, 1, u + i * IN, 1);
}

int64_t rvl_f32_winograd_packed(const struct rvl_f32_conv *v)
{
	return v->group * MATRICES * rvl_f32_packed(v->m_group, v->c_group, rvl_f32_kernels()->mr);
}

/* [group][matrix][panel of rows][channel][row] */
void rvl_f32_pack_winograd(const struct rvl_f32_conv *v, float *dst)
{
	int64_t mr = rvl_f32_kernels()->mr, matrix = rvl_f32_packed(v->m_group, v->c_group, (int)mr);
	double u[MATRICES];

	for (int64_t m = 0; m < v->group * v->m_group; m++) {
		int64_t g = m / v->m_group, row = m % v->m_group;
		float *to = dst + g * MATRICES * matrix + row / mr * mr * v->c_group + row % mr;

		for (int64_t c = 0; c < v->c_group; c++, to += mr) {
			transform_kernel(v->weights + (m * v->c_group + c) * TAPS * TAPS, u);
			for (int64_t i = 0; i < MATRICES; i++)
				to[i * matrix] = (float)u[i];
		}
	}
}

/* ---- patches ---- */

/* Tiles of a strip that are adjacent in a row of tiles. */
struct span {
	int64_t at, n;			/* in the strip */
	int64_t y, x;			/* of the first result */
};

/* What one part of the work is about. */
struct strip {
	const struct rvl_f32_conv *v;
	const struct plan *p;
	int64_t image, group;
	int64_t first, n;		/* tiles */
	struct span span;		/* the first ones */
	float *vm, *mm, *d;		/* transformed patches, their products, and patches or results */
	float *y, *bounded;		/* results of a channel; 0 for each tile whose results need no mending */
};

static struct span first_span(const struct plan *p, int64_t first, int64_t n)
{
	int64_t column = first % p->across;

	return (struct span) {
		.n = rvl_least(p->across - column, n), .y = first / p->across * OUT, .x = column * OUT,
	};
}

/* The tiles of the strip in the next row of tiles. */
static void next_span(const struct strip *s, struct span *t)
{
	t->at += t->n;
	t->n = rvl_least(s->p->across, s->n - t->at);
	t->y += OUT;
	t->x = 0;
}

/* Columns of the quads a, b, c and d; @high: the last two. */
#define COLUMN(a, b, c, d, first, second) \
	__builtin_shufflevector(__builtin_shufflevector(a, b, first, 4 + (first), second, 4 + (second)), \
				__builtin_shufflevector(c, d, first, 4 + (first), second, 4 + (second)), \
				0, 1, 4, 5)
#define NEXT(a, b, c, d, first, second) \
	__builtin_shufflevector(__builtin_shufflevector(a, b, first, 4 + (first), second, 4 + (second)), \
				__builtin_shufflevector(c, d, first, 4 + (first), second, 4 + (second)), \
				2, 3, 6, 7)

/* Writes element j of patch t, which is row[4 * t + j], to d[j * d_row + t], four tiles at a time. */
static void divide_row(const float *row, int64_t n, float *d, int64_t d_row)
{
	for (int64_t t = 0; t < n; t += 4, row += 4 * OUT, d += 4) {
		rvl_quad q[5];

		for (int i = 0; i < 5; i++)
			q[i] = *(const rvl_quad *)(row + i * OUT);
		*(rvl_quad *)d = COLUMN(q[0], q[1], q[2], q[3], 0, 1);
		*(rvl_quad *)(d + d_row) = NEXT(q[0], q[1], q[2], q[3], 0, 1);
		*(rvl_quad *)(d + 2 * d_row) = COLUMN(q[0], q[1], q[2], q[3], 2, 3);
		*(rvl_quad *)(d + 3 * d_row) = NEXT(q[0], q[1], q[2], q[3], 2, 3);
		*(rvl_quad *)(d + 4 * d_row) = COLUMN(q[1], q[2], q[3], q[4], 0, 1);
		*(rvl_quad *)(d + 5 * d_row) = NEXT(q[1], q[2], q[3], q[4], 0, 1);
	}
}

/* The patches under a span of tiles: element i of each, in row i of s->d. */
static void gather_span(const struct strip *s, const float *plane, const struct span *t)
{
	const struct rvl_window_axis *y = &s->v->w.axis[0], *x = &s->v->w.axis[1];
	float copy[OUT * (MAX_STRIP + 2 * 4)];
	int64_t n = OUT * (rvl_round_up(t->n, 4) + 1), x0 = t->x - x->pad[0];

	for (int64_t i = 0; i < IN; i++) {
		int64_t at = t->y + i - y->pad[0];
		const float *row = copy;

		if (at < 0 || at >= y->n)
			rvl_f32_zero(copy, n);
		else if (x0 >= 0 && x0 + n <= x->n)
			row = plane + at * x->n + x0;
		else
			rvl_f32_copy_row(x, plane + at * x->n, x0, n, copy);
		divide_row(row, t->n, s->d + i * IN * s->p->d_row + t->at, s->p->d_row);
	}
}

/* Channels [c, past) of the 36 matrices of the strip, each in panels of columns: [panel][channel][nr]. */
static void transform_strip(const struct strip *s, int64_t c, int64_t past)
{
	const struct rvl_f32_conv *v = s->v;
	const struct plan *p = s->p;
	const float *plane = v->x + ((s->image * v->group + s->group) * v->c_group + c) * v->in;
	int64_t nr = p->f->nr;

	for (; c < past; c++, plane += v->in) {
		for (struct span t = s->span; t.at < s->n; next_span(s, &t))
			gather_span(s, plane, &t);
		for (int64_t i = 0; i < s->n; i += nr)
			p->f->winograd_in(s->d + i, p->d_row, s->vm + i * v->c_group + c * nr, p->v_row);
	}
}

/* ---- products ---- */

/* Output channels [row, row + rows) of matrix @i by channels [k, k + kc). */
static void multiply_block(const struct strip *s, const float *weights, int64_t i, int64_t row,
			   int64_t rows, int64_t k, int64_t kc)
{
	const struct plan *p = s->p;
	int64_t c = s->v->c_group, m_row = MATRICES * p->strip;
	const float *a = weights + i * p->weights + row * c + k * p->f->mr;
	struct rvl_f32_gemm_call g = {
		.b_row = p->f->nr, .k = kc, .scale = 1, .c_row = m_row, .y_row = m_row,
		.lo = -INFINITY, .hi = INFINITY,
	};

	for (int64_t col = 0; col < s->n; col += p->f->nr) {
		g.b = s->vm + i * p->v_row + col * c + k * p->f->nr;
		g.cols = s->n - col <= p->f->vl ? p->f->vl : p->f->nr;
		g.far = !col && MATRICES * p->weights > CACHED;
		for (int64_t r = 0; r < rows; r += p->f->mr) {
			g.a = a + r * c;
			g.y = s->mm + r * m_row + i * p->strip + col;
			g.c = k ? g.y : NULL;
			g.rows = (int)rvl_least(rows - r, p->f->mr);
			p->f->gemm(&g);
		}
	}
}

static void multiply(const struct strip *s, int64_t row, int64_t rows)
{
	const float *weights = s->v->packed + s->group * MATRICES * s->p->weights;
	int64_t c = s->v->c_group, kc = rvl_ceil_div(c, rvl_ceil_div(c, BLOCK));

	for (int64_t i = 0; i < MATRICES; i++)
		for (int64_t k = 0; k < c; k += kc)
			multiply_block(s, weights, i, row, rows, k, rvl_least(kc, c - k));
}

/* ---- results ---- */

/* The result at (@y, @x) of output channel @m of the group, tap by tap. */
static float sum_taps(const struct strip *s, int64_t m, int64_t y, int64_t x)
{
	const struct rvl_f32_conv *v = s->v;
	const struct rvl_window_axis *ay = &v->w.axis[0], *ax = &v->w.axis[1];
	const float *w = v->weights + (s->group * v->m_group + m) * v->c_group * TAPS * TAPS;
	const float *plane = v->x + (s->image * v->group + s->group) * v->c_group * v->in;
	float sum = 0;

	for (int64_t c = 0; c < v->c_group; c++, plane += v->in)
		for (int64_t i = 0; i < TAPS * TAPS; i++) {
			int64_t iy = y + i / TAPS - ay->pad[0], ix = x + i % TAPS - ax->pad[0];

			if (iy >= 0 && iy < ay->n && ix >= 0 && ix < ax->n)
				sum += w[c * TAPS * TAPS + i] * plane[iy * ax->n + ix];
		}
	sum += v->bias ? v->bias[s->group * v->m_group + m] : 0;
	return sum < v->lo ? v->lo : sum > v->hi ? v->hi : sum;
}

/* Computes tiles again that have a result that is not finite, or large. */
static void mend(const struct strip *s, int64_t m)
{
	for (int64_t t = 0; t < s->n; t++) {
		int64_t tile = s->first + t, y = tile / s->p->across * OUT, x = tile % s->p->across * OUT;

		if (s->bounded[t] == 0)
			continue;
		for (int64_t i = 0; i < RESULTS; i++)
			s->y[i * s->p->strip + t] = sum_taps(s, m, y + i / OUT, x + i % OUT);
	}
}

/* Writes row[4 * t + j] = y[j * step + t], four tiles at a time. */
static void join_row(const float *y, int64_t step, int64_t n, float *row)
{
	for (int64_t t = 0; t < n; t += 4, row += 4 * OUT, y += 4) {
		rvl_quad a = *(const rvl_quad *)y, b = *(const rvl_quad *)(y + step);
		rvl_quad c = *(const rvl_quad *)(y + 2 * step), d = *(const rvl_quad *)(y + 3 * step);

		*(rvl_quad *)row = COLUMN(a, b, c, d, 0, 1);
		*(rvl_quad *)(row + OUT) = NEXT(a, b, c, d, 0, 1);
		*(rvl_quad *)(row + 2 * OUT) = COLUMN(a, b, c, d, 2, 3);
		*(rvl_quad *)(row + 3 * OUT) = NEXT(a, b, c, d, 2, 3);
	}
}

static void store_span(const struct strip *s, const struct span *t, float *plane)
{
	const struct rvl_window_axis *y = &s->v->w.axis[0], *x = &s->v->w.axis[1];
	float copy[OUT * (MAX_STRIP + 4)];
	int64_t n = rvl_least(t->n * OUT, x->out - t->x);

	for (int64_t i = 0; i < OUT && t->y + i < y->out; i++) {
		const float *from = s->y + i * OUT * s->p->strip + t->at;
		float *to = plane + (t->y + i) * x->out + t->x;

		if (n % (4 * OUT) == 0) {
			join_row(from, s->p->strip, t->n, to);
			continue;
		}
		join_row(from, s->p->strip, t->n, copy);
		rvl_f32_copy(to, copy, n);
	}
}

static void store_channel(const struct strip *s, const float *products, int64_t m)
{
	const struct rvl_f32_conv *v = s->v;
	int64_t at = s->group * v->m_group + m;
	float *plane = v->y + (s->image * v->group * v->m_group + at) * v->out, bad = 0;

	s->p->f->winograd_out(products, s->p->strip, v->bias ? v->bias[at] : 0, v->lo, v->hi, s->y,
			      s->bounded);
	for (int64_t t = 0; t < s->n; t++)
		bad += s->bounded[t];
	if (bad != 0)
		mend(s, m);
	for (struct span t = s->span; t.at < s->n; next_span(s, &t))
		store_span(s, &t, plane);
}

/* ---- all ---- */

struct run {
	const struct rvl_f32_conv *v;
	struct plan p;
	float *scratch;
};

/* Strip @i of all planes, in the memory of a lane. */
static struct strip strip_at(const struct run *r, uint32_t lane, int64_t i)
{
	const struct rvl_f32_conv *v = r->v;
	const struct plan *p = &r->p;
	float *mem = r->scratch + shared_floats(p) + lane * p->lane_floats;
	int64_t plane = i / p->strips, first = i % p->strips * p->strip;
	struct strip s = {
		.v = v, .p = p, .image = plane / v->group, .group = plane % v->group,
		.first = first, .n = rvl_least(p->strip, p->tiles - first),
		.vm = p->shared ? r->scratch + i * p->v_floats : mem,
		.mm = mem + (p->shared ? 0 : p->v_floats),
	};

	s.span = first_span(p, s.first, s.n);
	s.d = s.y = s.mm + p->m_floats;
	s.bounded = s.d + RESULTS * p->strip + 4;
	return s;
}

/* Part @i of the input channels of all strips. */
static void fill(void *arg, uint32_t lane, uint32_t i)
{
	const struct run *r = arg;
	struct strip s = strip_at(r, lane, i / r->p.fills);
	int64_t c = r->v->c_group, part = i % r->p.fills;

	transform_strip(&s, part * c / r->p.fills, (part + 1) * c / r->p.fills);
}

/* Part @i of the output channels of all strips. */
static void unit(void *arg, uint32_t lane, uint32_t i)
{
	const struct run *r = arg;
	const struct plan *p = &r->p;
	struct strip s = strip_at(r, lane, i / p->parts);
	int64_t panels = rvl_ceil_div(r->v->m_group, p->f->mr), part = i % p->parts;
	int64_t row = part * panels / p->parts * p->f->mr;
	int64_t past = rvl_least((part + 1) * panels / p->parts * p->f->mr, r->v->m_group);

	if (!p->shared)
		transform_strip(&s, 0, r->v->c_group);
	for (; row < past; row += p->rows) {
		int64_t rows = rvl_least(p->rows, past - row);

		multiply(&s, row, rows);
		for (int64_t m = 0; m < rows; m++)
			store_channel(&s, s.mm + m * MATRICES * p->strip, row + m);
	}
}

int64_t rvl_f32_winograd_scratch(const struct rvl_f32_conv *v)
{
	int64_t most = 0;

	for (int64_t threads = 1; threads <= RVL_LANES; threads++) {
		struct plan p = plan_of(v, threads);

		most = largest(most, shared_floats(&p) + p.lanes * p.lane_floats);
	}
	return most * (int64_t)sizeof(float);
}

void rvl_f32_winograd_run(const struct rvl_f32_conv *v, float *scratch, const struct rvl_pool *pool)
{
	struct run r = { .v = v, .scratch = scratch };

	r.p = plan_of(v, rvl_lanes(pool));
	if (r.p.shared)
		rvl_parallel_lanes(pool, r.p.lanes, r.p.all * r.p.fills, fill, &r);
	rvl_parallel_lanes(pool, r.p.lanes, r.p.all * r.p.parts, unit, &r);
}

/* SPDX-License-Identifier: MIT */
#include "float/plane.h"

#include <float.h>

#include "isa.h"

#define PIECES 4	/* of a run, which the micro-kernel sums side by side */
#define MOST_STRIDE 4	/* its square: RVL_F32_PLANE_PHASES */

/* The axes of a plane: those of one dimension have a first one of one row. */
static struct rvl_window_axis axis_y(const struct rvl_window *w)
{
	static const struct rvl_window_axis one = { .n = 1, .out = 1, .k = 1, .stride = 1, .dilation = 1 };

	return w->rank == 2 ? w->axis[0] : one;
}

/* Elements of a phase under all results of an axis. */
static int64_t phase_of(const struct rvl_window_axis *a)
{
	return a->out + (a->k - 1) * a->dilation / a->stride;
}

static void find_taps(struct rvl_f32_plane *p)
{
	int64_t *off = p->off;

	for (int64_t ky = 0; ky < p->y.k; ky++) {
		int64_t y = ky * p->y.dilation, row = y % p->y.stride * p->x.stride;

		for (int64_t kx = 0; kx < p->x.k; kx++) {
			int64_t x = kx * p->x.dilation;

			*off++ = (row + x % p->x.stride) * p->phase + y / p->y.stride * p->pitch +
				 x / p->x.stride;
		}
	}
}

/* Whether a tap reads phase @i of an axis. */
static bool is_read(const struct rvl_window_axis *a, int64_t i)
{
	for (int64_t k = 0; k < a->k; k++)
		if (k * a->dilation % a->stride == i)
			return true;
	return false;
}

/* Phase (@i, @j), of the rows and columns from i and j on. */
static void add_phase(struct rvl_f32_plane *p, int64_t i, int64_t j)
{
	int64_t y0 = i - p->y.pad[0], x0 = j - p->x.pad[0], top, bottom, lead, past;

	rvl_f32_inside(&p->y, y0, p->phase / p->pitch, &top, &bottom);
	rvl_f32_inside(&p->x, x0, p->pitch, &lead, &past);
	if (top >= bottom || lead >= past)
		return;
	p->in[p->phases++] = (struct rvl_f32_phase) {
		.from = (y0 + top * p->y.stride) * p->x.n + x0 + lead * p->x.stride,
		.to = (i * p->x.stride + j) * p->phase + top * p->pitch + lead,
		.rows = bottom - top, .cols = past - lead,
	};
}

static void find_phases(struct rvl_f32_plane *p)
{
	p->phases = 0;
	for (int64_t i = 0; i < p->y.stride; i++)
		for (int64_t j = 0; j < p->x.stride; j++)
			if (is_read(&p->y, i) && is_read(&p->x, j))
				add_phase(p, i, j);
}

bool rvl_f32_plane_of(const struct rvl_window *w, struct rvl_f32_plane *p)
{
	int64_t vl = rvl_f32_kernels()->vl, rows;

	if (w->rank > 2)
		return false;
	p->y = axis_y(w);
	p->x = w->axis[w->rank - 1];
	if (p->x.stride > MOST_STRIDE || p->y.stride > MOST_STRIDE || p->x.k > RVL_F32_PLANE_TAPS ||
	    p->y.k > RVL_F32_PLANE_TAPS || p->x.k * p->y.k > RVL_F32_PLANE_TAPS ||
	    p->x.out > RVL_F32_PLANE || p->y.out > RVL_F32_PLANE || p->x.dilation > RVL_F32_PLANE ||
	    p->y.dilation > RVL_F32_PLANE)
		return false;
	p->pitch = phase_of(&p->x);
	rows = phase_of(&p->y);
	p->phase = rows * p->pitch;
	if (p->pitch > 2 * p->x.out || rows > 2 * p->y.out + 2 ||
	    p->phase * p->y.stride * p->x.stride > RVL_F32_PLANE)
		return false;
	p->run = (p->y.out - 1) * p->pitch + p->x.out;
	p->piece = rvl_round_up(rvl_ceil_div(p->run, PIECES), vl);
	find_taps(p);
	find_phases(p);
	return true;
}

static void fill(float *dst, float v, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		dst[i] = v;
}

void rvl_f32_plane_border(const struct rvl_f32_plane *p, float border, float *mem)
{
	int64_t floats = p->y.stride * p->x.stride * p->phase;

	fill(mem, border, floats);
	/* The pieces extend beyond the run. */
	fill(mem + floats, 0, RVL_F32_PLANE_MEMORY - RVL_F32_PLANE);
}

void rvl_f32_plane_copy(const struct rvl_f32_plane *p, const float *x, float *mem)
{
	int64_t step = p->y.stride * p->x.n;

	for (int i = 0; i < p->phases; i++) {
		const struct rvl_f32_phase *in = &p->in[i];
		const float *from = x + in->from;
		float *to = mem + in->to;

		for (int64_t r = 0; r < in->rows; r++, from += step, to += p->pitch)
			if (p->x.stride == 1)
				rvl_f32_copy(to, from, in->cols);
			else
				rvl_f32_copy_apart(to, from, in->cols, p->x.stride);
	}
}

void rvl_f32_plane_sum(const struct rvl_f32_plane *p, const float *mem, const float *weights,
		       float bias, float lo, float hi, float *run)
{
	const float *at[RVL_F32_PLANE_TAPS];
	struct rvl_f32_taps_call c = {
		.p = at, .p_row = p->piece, .w = weights, .taps = p->y.k * p->x.k, .n = p->piece,
		.rows = PIECES, .y = run, .y_row = p->piece, .bias = bias, .lo = lo, .hi = hi,
	};

	for (int64_t t = 0; t < c.taps; t++)
		at[t] = mem + p->off[t];
	rvl_f32_kernels()->taps(&c);
}

static inline float larger(float v, float best)
{
	return v > best ? v : best;
}

/* The largest of three taps, of which some may be the same, and of what the run holds. */
static void max_of_three(const float *a, const float *b, const float *c, int64_t n, float *run)
{
	for (int64_t i = 0; i < n; i++)
		run[i] = larger(c[i], larger(b[i], larger(a[i], run[i])));
}

void rvl_f32_plane_max(const struct rvl_f32_plane *p, const float *mem, float *run)
{
	int64_t taps = p->y.k * p->x.k;

	fill(run, -FLT_MAX, p->run);
	for (int64_t t = 0; t < taps; t += 3)
		max_of_three(mem + p->off[t], mem + p->off[rvl_least(t + 1, taps - 1)],
			     mem + p->off[rvl_least(t + 2, taps - 1)], p->run, run);
}

void rvl_f32_plane_rows(const struct rvl_f32_plane *p, const float *run, float *y)
{
	for (int64_t i = 0; i < p->y.out; i++)
		rvl_f32_copy(y + i * p->x.out, run + i * p->pitch, p->x.out);
}

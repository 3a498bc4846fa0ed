/* SPDX-License-Identifier: MIT */
/*
 * Runs products in chunks of rows and columns whose panels stay in the second-level cache. The
 * result does not depend on the division, because every element is summed in blocks along k whose
 * bounds depend on k alone.
 */
#include "float/product.h"

#include <math.h>
#include <string.h>

#include "internal.h"

#define BLOCK 384	/* most products that are summed before the sum is added to the result */
#define CHUNK_COLS 192
#define CHUNK_ROWS 192	/* where rows are packed in the run */
#define PACKED_ROWS 480
#define MAX_ITEMS 8	/* parts into which the work is divided */
#define FEW_CHUNKS 4	/* fewer are divided further */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

/* ---- packing ---- */

int64_t rvl_f32_packed(int64_t n, int64_t k, int width)
{
	return ceil_div(n, width) * width * k;
}

/* Four floats of any alignment. */
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

/* dst[k * width + i] = x[i * step + k] for four rows i and four k. */
static inline void transpose_quad(const float *x, int64_t step, int width, float *dst)
{
	quad a = *(const quad *)x, b = *(const quad *)(x + step);
	quad c = *(const quad *)(x + 2 * step), d = *(const quad *)(x + 3 * step);
	quad ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
	quad ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
	quad cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5);
	quad cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);

	*(quad *)dst = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
	*(quad *)(dst + width) = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
	*(quad *)(dst + 2 * width) = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
	*(quad *)(dst + 3 * width) = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
}

static void fill_each(const float *x, int64_t step, int64_t k_step, int64_t n, int64_t kc, int width,
		      float *dst)
{
	for (int64_t i = 0; i < n; i++)
		for (int64_t k = 0; k < kc; k++)
			dst[k * width + i] = x[i * step + k * k_step];
}

/* Elements along k are adjacent. */
static void fill_along(const float *x, int64_t step, int64_t n, int64_t kc, int width, float *dst)
{
	int64_t i = 0;

	for (; i + 4 <= n; i += 4, x += 4 * step) {
		int64_t k = 0;

		for (; k + 4 <= kc; k += 4)
			transpose_quad(x + k, step, width, dst + k * width + i);
		fill_each(x + k, step, 1, 4, kc - k, width, dst + k * width + i);
	}
	fill_each(x, step, 1, n - i, kc, width, dst + i);
}

/* Rows, or columns, are adjacent. */
static void fill_across(const float *x, int64_t k_step, int64_t n, int64_t kc, int width, float *dst)
{
	for (int64_t k = 0; k < kc; k++, x += k_step, dst += width) {
		int64_t i = 0;

		for (; i + 4 <= n; i += 4)
			*(quad *)(dst + i) = *(const quad *)(x + i);
		for (; i < n; i++)
			dst[i] = x[i];
	}
}

static void scale_panel(float scale, int64_t n, float *dst)
{
	for (int64_t i = 0; i < n; i++)
		dst[i] *= scale;
}

static void fill_matrix(const struct rvl_f32_source *s, int64_t at, int64_t first, int64_t n,
			int64_t k0, int64_t kc, int width, float *dst)
{
	const float *x = s->data + at + first * s->step + k0 * s->k_step;

	if (s->step == 1)
		fill_across(x, s->k_step, n, kc, width, dst);
	else if (s->k_step == 1)
		fill_along(x, s->step, n, kc, width, dst);
	else
		fill_each(x, s->step, s->k_step, n, kc, width, dst);
	for (int64_t k = 0; n < width && k < kc; k++)
		memset(dst + k * width + n, 0, (size_t)(width - n) * sizeof(*dst));
	if (s->scale != 1.0f)
		scale_panel(s->scale, kc * width, dst);
}

static void fill(const struct rvl_f32_source *s, int64_t at, int64_t first, int64_t n, int64_t k0,
		 int64_t kc, int width, float *dst)
{
	(s->fill ? s->fill : fill_matrix)(s, at, first, n, k0, kc, width, dst);
}

void rvl_f32_pack(const struct rvl_f32_source *s, int64_t at, int64_t n, int64_t k, int width,
		  float *dst)
{
	for (int64_t i = 0; i < n; i += width, dst += k * width)
		fill(s, at, i, least(width, n - i), 0, k, width, dst);
}

/* ---- division ---- */

struct split {
	int64_t rows, cols;		/* of a chunk */
	int64_t row_chunks, col_chunks, chunks;
	int64_t block;			/* products of a block along k */
	int64_t a_floats, b_floats;	/* of packed panels, of each item */
	int64_t items;
};

static int64_t half(int64_t n, int width)
{
	return ceil_div(ceil_div(n, width), 2) * width;
}

static void count_chunks(const struct rvl_f32_job *j, struct split *s)
{
	s->row_chunks = ceil_div(j->m, s->rows);
	s->col_chunks = ceil_div(j->n, s->cols);
	s->chunks = j->batches * s->row_chunks * s->col_chunks;
}

static int64_t aligned(int64_t floats)
{
	return ceil_div(floats, 16) * 16;
}

static struct split split_of(const struct rvl_f32_job *j)
{
	const struct rvl_f32_kernels *f = j->f;
	int64_t rows = j->a.packed ? PACKED_ROWS : CHUNK_ROWS;
	struct split s = {
		.rows = least(rows, ceil_div(j->m, f->mr) * f->mr),
		.cols = least(CHUNK_COLS, ceil_div(j->n, f->nr) * f->nr),
		.block = ceil_div(j->k, ceil_div(j->k ? j->k : 1, BLOCK)),
	};

	count_chunks(j, &s);
	while (s.chunks < FEW_CHUNKS && (s.cols > f->nr || s.rows > 4 * f->mr)) {
		if (s.cols > f->nr && s.cols >= s.rows)
			s.cols = half(s.cols, f->nr);
		else if (s.rows > 4 * f->mr)
			s.rows = half(s.rows, f->mr);
		else
			s.cols = half(s.cols, f->nr);
		count_chunks(j, &s);
	}
	s.a_floats = j->a.packed ? 0 : aligned(s.block * s.rows);
	s.b_floats = j->b.packed ? 0 : aligned(s.block * s.cols);
	s.items = least(s.chunks, MAX_ITEMS);
	return s;
}

static bool is_empty(const struct rvl_f32_job *j)
{
	return j->batches <= 0 || j->m <= 0 || j->n <= 0;
}

/*
 * An upper bound, not the sum of what split_of() finds: it does not grow where a dimension becomes
 * smaller, as an operator needs whose shapes are known at run time only.
 */
int64_t rvl_f32_scratch(const struct rvl_f32_job *j)
{
	const struct rvl_f32_kernels *f = j->f;
	int64_t block = least(j->k, BLOCK), rows = ceil_div(j->m, f->mr), cols = ceil_div(j->n, f->nr);
	int64_t items, floats = 0;

	if (is_empty(j))
		return 0;
	items = rows >= MAX_ITEMS || cols >= MAX_ITEMS ? MAX_ITEMS : rows * cols;
	items = j->batches >= MAX_ITEMS ? MAX_ITEMS : least(items * j->batches, MAX_ITEMS);
	if (!j->a.packed)
		floats += aligned(block * least(CHUNK_ROWS, rows * f->mr));
	if (!j->b.packed)
		floats += aligned(block * least(CHUNK_COLS, cols * f->nr));
	return items * floats * (int64_t)sizeof(float);
}

/* ---- tiles ---- */

struct run {
	const struct rvl_f32_job *j;
	struct split s;
	float *scratch;
};

/* One chunk: its rows and columns, the block along k, and the panels. */
struct chunk {
	struct rvl_f32_place at;
	int64_t row, rows, col, cols;
	int64_t k, kc;
	const float *a, *b;		/* panels */
	int64_t a_panel, b_panel;	/* floats between panels */
};

/* What a tile of the first block adds, where the micro-kernel cannot read it in place. */
static void spread(const struct rvl_f32_job *j, const float *from, const struct rvl_f32_gemm_call *g,
		   float *to)
{
	for (int64_t i = 0; i < g->rows; i++)
		for (int64_t k = 0; k < g->cols; k++)
			to[i * RVL_F32_NR + k] =
				j->added_scale * from[i * j->added_row + k * j->added_col];
}

/* A tile with fewer columns than the micro-kernel writes. */
static void edge(const struct rvl_f32_kernels *f, struct rvl_f32_gemm_call *g)
{
	float c[RVL_F32_MR * RVL_F32_NR], y[RVL_F32_MR * RVL_F32_NR], *dst = g->y;
	size_t bytes = (size_t)g->cols * sizeof(*c);
	int64_t y_row = g->y_row;

	if (g->cols == f->nr || g->cols == f->vl) {
		f->gemm(g);
		return;
	}
	for (int i = 0; g->c && i < g->rows; i++)
		memcpy(c + i * RVL_F32_NR, g->c + i * g->c_row, bytes);
	g->c = g->c ? c : NULL;
	g->c_row = g->y_row = RVL_F32_NR;
	g->y = y;
	g->cols = g->cols < f->vl ? f->vl : f->nr;
	f->gemm(g);
	for (int i = 0; i < g->rows; i++)
		memcpy(dst + i * y_row, y + i * RVL_F32_NR, bytes);
}

/* The tile of panels @i of rows and @k of columns. */
static void compute(const struct rvl_f32_job *j, const struct chunk *c, int64_t i, int64_t k)
{
	const struct rvl_f32_kernels *f = j->f;
	int64_t row = c->row + i * f->mr, col = c->col + k * f->nr;
	bool last = c->k + c->kc == j->k;
	float added[RVL_F32_MR * RVL_F32_NR];
	struct rvl_f32_gemm_call g = {
		.a = c->a + i * c->a_panel, .b = c->b + k * c->b_panel, .k = c->kc,
		.y = j->y + c->at.y + row * j->y_row + col, .y_row = j->y_row,
		.rows = (int)least(f->mr, c->row + c->rows - row),
		.cols = (int)least(f->nr, c->col + c->cols - col),
		.lo = last ? j->lo : -INFINITY, .hi = last ? j->hi : INFINITY,
	};

	if (c->k) {
		g.c = g.y;
		g.c_row = g.y_row;
	} else {
		g.bias = j->bias ? j->bias + c->at.bias + row : NULL;
		if (j->added) {
			g.c = j->added + c->at.added + row * j->added_row + col * j->added_col;
			g.c_row = j->added_row;
		}
	}
	if (g.c && !c->k && (j->added_col != 1 || j->added_scale != 1.0f)) {
		spread(j, g.c, &g, added);
		g.c = added;
		g.c_row = RVL_F32_NR;
	}
	edge(f, &g);
}

/* The panels of an operand for the rows or columns of a chunk: packed before, or in @mem. */
static const float *panels(const struct rvl_f32_source *s, int64_t at, int64_t first, int64_t n,
			   const struct chunk *c, int64_t k, int width, float *mem, int64_t *panel)
{
	if (s->packed) {
		*panel = k * width;
		return s->packed + (s->elements ? at / s->elements * s->matrix : 0) +
		       first / width * *panel + c->k * width;
	}
	*panel = c->kc * width;
	for (int64_t i = 0; i < n; i += width)
		fill(s, at, first + i, least(width, n - i), c->k, c->kc, width,
		     mem + i / width * *panel);
	return mem;
}

static void block(const struct run *r, struct chunk *c, float *mem)
{
	const struct rvl_f32_job *j = r->j;
	const struct rvl_f32_kernels *f = j->f;

	c->a = panels(&j->a, c->at.a, c->row, c->rows, c, j->k, f->mr, mem, &c->a_panel);
	c->b = panels(&j->b, c->at.b, c->col, c->cols, c, j->k, f->nr, mem + r->s.a_floats,
		      &c->b_panel);
	for (int64_t i = 0; i * f->mr < c->rows; i++)
		for (int64_t k = 0; k * f->nr < c->cols; k++)
			compute(j, c, i, k);
}

static void chunk(const struct run *r, int64_t i, float *mem)
{
	const struct rvl_f32_job *j = r->j;
	const struct split *s = &r->s;
	int64_t batch = i / (s->row_chunks * s->col_chunks);
	struct chunk c = {
		.row = i % s->row_chunks * s->rows,
		.col = i / s->row_chunks % s->col_chunks * s->cols,
	};

	j->locate(j->ctx, batch, &c.at);
	c.rows = least(s->rows, j->m - c.row);
	c.cols = least(s->cols, j->n - c.col);
	do {
		c.kc = least(s->block, j->k - c.k);
		block(r, &c, mem);
		c.k += c.kc;
	} while (c.k < j->k);
}

static void item(void *arg, uint32_t i)
{
	const struct run *r = arg;
	const struct split *s = &r->s;
	float *mem = r->scratch + i * (s->a_floats + s->b_floats);

	for (int64_t n = i * s->chunks / s->items; n < (i + 1) * s->chunks / s->items; n++)
		chunk(r, n, mem);
}

void rvl_f32_run(const struct rvl_f32_job *j, float *scratch, const struct rvl_pool *pool)
{
	struct run r = { .j = j, .scratch = scratch };

	if (is_empty(j))
		return;
	r.s = split_of(j);
	rvl_parallel(pool, (uint32_t)r.s.items, item, &r);
}

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
#include "sizes.h"

#define BLOCK 384	/* most products that are summed before the sum is added to the result */
#define CHUNK_COLS 224	/* most columns and rows of a chunk */
#define CHUNK_ROWS 192	/* where rows are packed in the run */
#define PACKED_ROWS 2048
#define INNER_ROWS 96	/* of a chunk, whose panels stay in the cache while columns pass by */
#define LEAST_PANELS 4	/* of rows, into which a chunk is not divided further */
#define LEAST_FILLED 2	/* panels of columns that are filled at once */
#define MOST_ROUNDS 8	/* of chunks that are divided further, for each thread */
#define MAX_FILLS 16	/* parts in which threads fill panels, unless there are more chunks */
#define IN_PLACE_ROWS 4	/* most rows that do not pack b */
/* Of an element that a chunk packs, or reads from the second-level cache, in products. */
#define PACK_COST 8
#define READ_COST 2
#define SHARED_COST 3	/* of an element that another thread packed or gathered */
#define SYNC_COST 400000	/* of a loop over threads */
#define CACHED (128 << 10)	/* floats that stay in that cache; others are read like packed */
#define FAR (32 << 10)		/* floats of packed weights that are no more in it when a network's next run reads them */

/* ---- packing ---- */

int64_t rvl_f32_packed(int64_t n, int64_t k, int width)
{
	return rvl_ceil_div(n, width) * width * k;
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
}

void rvl_f32_pack(const struct rvl_f32_source *s, int64_t at, int64_t n, int64_t k, int width,
		  float *dst)
{
	for (int64_t i = 0; i < n; i += width, dst += k * width)
		fill_matrix(s, at, i, rvl_least(width, n - i), 0, k, width, dst);
}

void rvl_f32_pack_pairs(const uint8_t *x, int64_t k, int64_t n, uint8_t *dst)
{
	for (int64_t i = 0; i < n; i += RVL_F32_PAIR_COLS)
		for (int64_t r = 0; r < k; r += 2)
			for (int64_t j = i; j < i + RVL_F32_PAIR_COLS; j++) {
				*dst++ = j < n ? x[r * n + j] : 0;
				*dst++ = j < n && r + 1 < k ? x[(r + 1) * n + j] : 0;
			}
}

/* ---- division ---- */

struct split {
	int64_t row_panels, col_panels;		/* of a matrix */
	int64_t row_chunks, col_chunks, chunks;
	int64_t block;				/* products of a block along k */
	int64_t a_floats, b_floats;		/* of packed panels, of each lane */
	int64_t fill_floats;			/* memory of what fills panels of b, of each lane */
	int64_t lanes;
	/*
	 * The threads fill all panels of b before the products, which then read them: [batch][block of k]
	 * [panel][k][nr].
	 */
	bool shared;
	int64_t blocks, fills;			/* along k; parts of the columns, that are filled apart */
};

/* Few rows use an element of b too seldom to pack it, if the elements of a row are adjacent. */
static bool is_in_place(const struct rvl_f32_job *j)
{
	return !j->b.packed && !j->b.fill && j->b.step == 1 && j->m <= IN_PLACE_ROWS;
}

/* Rows and columns of the largest chunk. */
static int64_t chunk_rows(const struct rvl_f32_job *j, const struct split *s)
{
	return rvl_least(rvl_ceil_div(s->row_panels, s->row_chunks) * j->f->mr, j->m);
}

static int64_t chunk_cols(const struct rvl_f32_job *j, const struct split *s)
{
	return rvl_least(rvl_ceil_div(s->col_panels, s->col_chunks) * j->f->nr, j->n);
}

static bool fills_b(const struct rvl_f32_job *j)
{
	return !j->b.packed && !is_in_place(j);
}

/* An estimate of the time until the last thread is done. The last chunks do not end together. */
static int64_t time_of(const struct rvl_f32_job *j, const struct split *s, int64_t threads)
{
	int64_t rows = chunk_rows(j, s), cols = chunk_cols(j, s), rounds = rvl_ceil_div(s->chunks, threads);
	int64_t chunk = rows * (cols + (j->a.packed && j->m * j->k <= CACHED ? READ_COST : PACK_COST));
	int64_t fill = j->b.fill ? j->b.fill_cost : PACK_COST, before = 0;

	if (s->shared)
		before = j->batches * j->n * fill / threads + SYNC_COST / (j->k + 1);
	if (fills_b(j))
		chunk += cols * (s->shared ? SHARED_COST : fill);
	return before + rounds * chunk + chunk / 4;
}

/* Divides rows and columns further, into few parts, while every thread has less to do. */
static int64_t divide(const struct rvl_f32_job *j, int64_t threads, struct split *s)
{
	int64_t most = MOST_ROUNDS * threads, most_rows = s->row_panels / LEAST_PANELS;
	int64_t best = INT64_MAX, rows = s->row_chunks, cols = s->col_chunks;
	struct split t = *s;

	for (t.row_chunks = rows; t.row_chunks == rows || t.row_chunks <= most_rows; t.row_chunks++)
		for (t.col_chunks = cols; t.col_chunks <= s->col_panels; t.col_chunks++) {
			int64_t time;

			t.chunks = j->batches * t.row_chunks * t.col_chunks;
			if (best < INT64_MAX && t.chunks > most)
				break;
			time = time_of(j, &t, threads);
			if (time < best)
				*s = t;
			best = rvl_least(time, best);
		}
	return best;
}

/* The memory of each lane. */
static void place(const struct rvl_f32_job *j, struct split *s)
{
	const struct rvl_f32_kernels *f = j->f;

	if (!j->a.packed)
		s->a_floats = rvl_round_up(s->block * rvl_ceil_div(s->row_panels, s->row_chunks) * f->mr, 16);
	if (is_in_place(j))
		s->b_floats = rvl_round_up(s->block * f->nr, 16);
	else if (!j->b.packed && !s->shared)
		s->b_floats = rvl_round_up(s->block * rvl_ceil_div(s->col_panels, s->col_chunks) * f->nr, 16);
	s->fill_floats = j->k ? j->b.fill_floats : 0;
}

static int64_t lane_floats(const struct split *s)
{
	return s->a_floats + s->b_floats + s->fill_floats;
}

/* Where the panels of b that all threads fill begin in the scratch memory. */
static int64_t shared_at(const struct split *s)
{
	return RVL_LANES * lane_floats(s);
}

/* Whether there is memory for all panels of b behind that of the lanes. */
static bool may_share(const struct rvl_f32_job *j, const struct split *s)
{
	int64_t floats = j->batches * j->k * s->col_panels * j->f->nr;

	return shared_at(s) + floats <= rvl_f32_scratch(j) / (int64_t)sizeof(float);
}

/* Shares the panels of b if that takes less time than @s, which takes @time. */
static void share(const struct rvl_f32_job *j, int64_t threads, int64_t time, struct split *s)
{
	int64_t rows = j->a.packed ? PACKED_ROWS : CHUNK_ROWS, least, most;
	struct split t = *s;

	if (!fills_b(j) || !j->k)
		return;
	t.shared = true;
	t.row_chunks = rvl_ceil_div(t.row_panels, rows / j->f->mr);
	t.col_chunks = least = rvl_ceil_div(t.col_panels, CHUNK_COLS / j->f->nr);
	if (divide(j, threads, &t) >= time)
		return;
	place(j, &t);
	if (!may_share(j, &t))
		return;
	t.blocks = rvl_ceil_div(j->k, t.block);
	most = rvl_least(rvl_ceil_div(MAX_FILLS, j->batches * t.blocks), t.col_panels / LEAST_FILLED);
	t.fills = most > least ? most : least;
	*s = t;
}

static struct split split_of(const struct rvl_f32_job *j, int64_t threads)
{
	const struct rvl_f32_kernels *f = j->f;
	int64_t rows = j->a.packed ? PACKED_ROWS : CHUNK_ROWS;
	struct split s = {
		.row_panels = rvl_ceil_div(j->m, f->mr), .col_panels = rvl_ceil_div(j->n, f->nr),
		.block = rvl_ceil_div(j->k, rvl_ceil_div(j->k ? j->k : 1, BLOCK)),
	};

	s.row_chunks = rvl_ceil_div(s.row_panels, rows / f->mr);
	s.col_chunks = rvl_ceil_div(s.col_panels, CHUNK_COLS / f->nr);
	s.chunks = j->batches * s.row_chunks * s.col_chunks;
	if (threads > 1)
		share(j, threads, divide(j, threads, &s), &s);
	place(j, &s);
	s.lanes = rvl_least(s.chunks, threads);
	return s;
}

void rvl_f32_merge(struct rvl_f32_job *j, int64_t count_a, int64_t count_b)
{
	if (count_b != j->n * j->k || count_a != j->batches * j->m * j->k || j->a.k_step != 1 ||
	    j->a.step != j->k || j->added)
		return;
	j->m *= j->batches;
	j->batches = 1;
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
	int64_t block = rvl_least(j->k, BLOCK), cols = rvl_ceil_div(j->n, f->nr), rows, lanes, floats = 0;

	if (is_empty(j))
		return 0;
	/* Smaller dimensions may let a batch be merged. */
	rows = j->batches * rvl_ceil_div(j->m, f->mr);
	lanes = rows >= RVL_LANES || cols >= RVL_LANES ? RVL_LANES : rvl_least(rows * cols, RVL_LANES);
	if (!j->a.packed)
		floats += rvl_round_up(block * rvl_least(CHUNK_ROWS, rows * f->mr), 16);
	if (!j->b.packed)
		floats += rvl_round_up(block * rvl_least(CHUNK_COLS, cols * f->nr), 16) +
			  (j->k ? j->b.fill_floats : 0);
	return lanes * floats * (int64_t)sizeof(float);
}

/* ---- tiles ---- */

struct run {
	const struct rvl_f32_job *j;
	struct split s;
	float *scratch, *shared;
};

/* One chunk: its rows and columns, the block along k, and the panels. */
struct chunk {
	struct rvl_f32_place at;
	int64_t row, rows, col, cols;
	int64_t k, kc;
	int64_t batch;
	const float *a, *b;		/* panels */
	int64_t a_panel, b_panel;	/* floats between panels */
	int64_t b_row;			/* floats between rows of a panel */
	const float *rest;		/* packed, of fewer columns than a panel, or NULL */
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
static void edge(const struct rvl_f32_kernels *f, const struct rvl_f32_gemm_call *tile)
{
	float c[RVL_F32_MR * RVL_F32_NR], y[RVL_F32_MR * RVL_F32_NR];
	size_t bytes = (size_t)tile->cols * sizeof(*c);
	struct rvl_f32_gemm_call g = *tile;

	for (int i = 0; g.c && i < g.rows; i++)
		memcpy(c + i * RVL_F32_NR, g.c + i * g.c_row, bytes);
	g.c = g.c ? c : NULL;
	g.c_row = g.y_row = RVL_F32_NR;
	g.y = y;
	g.cols = g.cols < f->vl ? f->vl : f->nr;
	f->gemm(&g);
	for (int i = 0; i < g.rows; i++)
		memcpy(tile->y + i * tile->y_row, y + i * RVL_F32_NR, bytes);
}

/* A tile of integers. */
static void add_exact(const struct rvl_f32_job *j, const struct chunk *c, const struct rvl_f32_gemm_call *g,
		      int64_t at)
{
	uint32_t y[RVL_F32_MR * RVL_F32_NR], *to = (uint32_t *)j->sums + at;
	struct rvl_f32_pairs_call p = {
		.a = g->a, .b = g->b, .k = g->k, .add = c->k > 0, .y = to, .y_row = j->y_row,
		.rows = g->rows, .cols = g->cols,
	};

	if (g->cols == j->f->nr || g->cols == j->f->vl) {
		j->f->pairs(&p);
		return;
	}
	p.y = y;
	p.y_row = RVL_F32_NR;
	p.add = false;
	p.cols = g->cols < j->f->vl ? j->f->vl : j->f->nr;
	j->f->pairs(&p);
	for (int i = 0; i < g->rows; i++)
		for (int k = 0; k < g->cols; k++)
			to[i * j->y_row + k] = (c->k ? to[i * j->y_row + k] : 0) + y[i * RVL_F32_NR + k];
}

/* What the calls of all tiles of a block of a chunk have in common; they add nothing yet. */
static struct rvl_f32_gemm_call call_of(const struct rvl_f32_job *j, const struct chunk *c)
{
	bool last = c->k + c->kc == j->k;

	return (struct rvl_f32_gemm_call) {
		.k = c->kc, .scale = j->scale, .c_row = c->k ? j->y_row : j->added_row, .y_row = j->y_row,
		.lo = last ? j->lo : -INFINITY, .hi = last ? j->hi : INFINITY,
	};
}

/* Completes call_of() for at most @rows rows from panel @i on and @cols columns of one panel, from column @at on. */
static void place_call(const struct rvl_f32_job *j, const struct chunk *c, int64_t i, int64_t rows, int64_t at,
		       int64_t cols, struct rvl_f32_gemm_call *g)
{
	const struct rvl_f32_kernels *f = j->f;
	int64_t row = c->row + i * f->mr, col = c->col + at, panel = at / f->nr;
	bool rest = c->rest && (panel + 1) * f->nr > c->cols;

	g->rows = (int)rvl_least(rows, c->row + c->rows - row);
	g->cols = (int)cols;
	g->a = c->a + i * c->a_panel;
	g->b = (rest ? c->rest : c->b + panel * c->b_panel) + at % f->nr;
	g->b_row = rest ? f->nr : c->b_row;
	g->y = j->y ? j->y + c->at.y + row * j->y_row + col : NULL;
	if (c->k) {
		g->c = g->y;
		return;
	}
	g->bias = j->bias ? j->bias + c->at.bias + row : NULL;
	if (j->added)
		g->c = j->added + c->at.added + row * j->added_row + col * j->added_col;
}

/* Whether gemm adds what is added to the product as it lies. */
static bool adds_as_is(const struct rvl_f32_job *j)
{
	return !j->added || (j->added_col == 1 && j->added_scale == 1.0f);
}

/* The tile of panel @i of rows and @cols columns from @at on. @g is of call_of(), and serves all tiles in turn. */
static void compute(const struct rvl_f32_job *j, const struct chunk *c, int64_t i, int64_t at, int64_t cols,
		    struct rvl_f32_gemm_call *g)
{
	float added[RVL_F32_MR * RVL_F32_NR];
	struct rvl_f32_gemm_call alone;

	place_call(j, c, i, j->f->mr, at, cols, g);
	if (j->exact) {
		add_exact(j, c, g, c->at.y + (c->row + i * j->f->mr) * j->y_row + c->col + at);
		return;
	}
	if (!c->k && !adds_as_is(j)) {
		spread(j, g->c, g, added);
		alone = *g;
		alone.c = added;
		alone.c_row = RVL_F32_NR;
		g = &alone;
	}
	if (g->cols == j->f->nr || g->cols == j->f->vl)
		j->f->gemm(g);
	else
		edge(j->f, g);
}

/*
 * The columns behind the last whole vector that few() takes; 0: tiles take all. Beside a vector of the same panel it
 * pays for few columns only, and not with few rows, because both then wait for their sums.
 */
static int64_t left_to_few(const struct rvl_f32_job *j, const struct chunk *c)
{
	const struct rvl_f32_kernels *f = j->f;
	int64_t left = c->cols % f->vl, most = RVL_F32_FEW;

	if (c->cols % f->nr >= f->vl)
		most = c->rows > f->mr / 2 ? f->few_beside : 0;
	return f->few && left <= most && adds_as_is(j) && !j->exact ? left : 0;
}

/* The panels of an operand for the rows or columns of a chunk: packed before, or in @mem. */
static const float *panels(const struct rvl_f32_source *s, int64_t at, int64_t first, int64_t n,
			   const struct chunk *c, int64_t k, int width, float *fill_mem, float *mem,
			   int64_t *panel)
{
	if (s->packed) {
		*panel = k * width;
		return s->packed + (s->elements ? at / s->elements * s->matrix : 0) +
		       first / width * *panel + c->k * width;
	}
	*panel = c->kc * width;
	if (s->fill) {
		s->fill(s, at, first, n, c->k, c->kc, width, fill_mem, mem);
		return mem;
	}
	for (int64_t i = 0; i < n; i += width)
		fill_matrix(s, at, first + i, rvl_least(width, n - i), c->k, c->kc, width,
		     mem + i / width * *panel);
	return mem;
}

/* The panels of b where it lies, but for the columns that fill no panel. */
static void point(const struct rvl_f32_job *j, struct chunk *c, float *mem)
{
	int64_t whole = c->cols / j->f->nr * j->f->nr;

	c->b = j->b.data + c->at.b + c->col + c->k * j->b.k_step;
	c->b_panel = j->f->nr;
	c->b_row = j->b.k_step;
	c->rest = mem;
	if (whole < c->cols)
		fill_matrix(&j->b, c->at.b, c->col + whole, c->cols - whole, c->k, c->kc, j->f->nr,
			    mem);
}

/* The panels that all threads have filled, from the first column of the chunk on. */
static float *shared_panels(const struct run *r, const struct chunk *c, int64_t *panel)
{
	int64_t cols = r->s.col_panels * r->j->f->nr;

	*panel = c->kc * r->j->f->nr;
	return r->shared + (c->batch * r->j->k + c->k) * cols + c->col * c->kc;
}

/* Whether panels of a come from farther away than the second-level cache, for the first columns. */
static bool is_far(const struct rvl_f32_job *j)
{
	return j->a.packed && j->m * j->k > FAR;
}

/* Panels [first, past) of rows by all columns of a chunk. */
static void compute_rows(const struct rvl_f32_job *j, const struct chunk *c, int64_t first, int64_t past)
{
	int64_t few = left_to_few(j, c), n = c->cols - few;
	struct rvl_f32_gemm_call g = call_of(j, c);

	for (int64_t at = 0; at < n; at += j->f->nr) {
		g.far = !at && is_far(j);
		for (int64_t i = first; i < past && i * j->f->mr < c->rows; i++)
			compute(j, c, i, at, rvl_least(j->f->nr, n - at), &g);
	}
	if (!few)
		return;
	place_call(j, c, first, (past - first) * j->f->mr, n, few, &g);
	j->f->few(&g, c->a_panel);
}

static void block(const struct run *r, struct chunk *c, float *mem)
{
	const struct rvl_f32_job *j = r->j;
	const struct rvl_f32_kernels *f = j->f;

	c->a = panels(&j->a, c->at.a, c->row, c->rows, c, j->k, f->mr, NULL, mem, &c->a_panel);
	mem += r->s.a_floats;
	c->b_row = f->nr;
	if (is_in_place(j))
		point(j, c, mem);
	else if (r->s.shared)
		c->b = shared_panels(r, c, &c->b_panel);
	else
		c->b = panels(&j->b, c->at.b, c->col, c->cols, c, j->k, f->nr, mem + r->s.b_floats, mem,
			      &c->b_panel);
	for (int64_t first = 0, past; first * f->mr < c->rows; first = past) {
		past = first + INNER_ROWS / f->mr;
		compute_rows(j, c, first, past);
	}
}

/* The panels of part @i of @n; each has @width rows or columns, the last of @size maybe fewer. */
static void part(int64_t panels, int64_t i, int64_t n, int width, int64_t size, int64_t *first,
		 int64_t *count)
{
	*first = i * panels / n * width;
	*count = rvl_least((i + 1) * panels / n * width, size) - *first;
}

static float *lane_memory(const struct run *r, uint32_t lane)
{
	return r->scratch + lane * lane_floats(&r->s);
}

static void chunk(void *arg, uint32_t lane, uint32_t i)
{
	const struct run *r = arg;
	const struct rvl_f32_job *j = r->j;
	const struct split *s = &r->s;
	struct chunk c = { 0 };

	part(s->row_panels, i % s->row_chunks, s->row_chunks, j->f->mr, j->m, &c.row, &c.rows);
	i /= s->row_chunks;
	part(s->col_panels, i % s->col_chunks, s->col_chunks, j->f->nr, j->n, &c.col, &c.cols);
	c.batch = i / s->col_chunks;
	j->locate(j->ctx, c.batch, &c.at);
	do {
		c.kc = rvl_least(s->block, j->k - c.k);
		block(r, &c, lane_memory(r, lane));
		c.k += c.kc;
	} while (c.k < j->k);
}

/* Part @i of the columns of all blocks. */
static void fill(void *arg, uint32_t lane, uint32_t i)
{
	const struct run *r = arg;
	const struct rvl_f32_job *j = r->j;
	const struct split *s = &r->s;
	struct chunk c = { .batch = i / s->fills / s->blocks, .k = i / s->fills % s->blocks * s->block };
	int64_t panel;

	c.kc = rvl_least(s->block, j->k - c.k);
	part(s->col_panels, i % s->fills, s->fills, j->f->nr, j->n, &c.col, &c.cols);
	j->locate(j->ctx, c.batch, &c.at);
	panels(&j->b, c.at.b, c.col, c.cols, &c, j->k, j->f->nr, lane_memory(r, lane),
	       shared_panels(r, &c, &panel), &panel);
}

void rvl_f32_run(const struct rvl_f32_job *j, float *scratch, const struct rvl_pool *pool)
{
	struct run r = { .j = j, .scratch = scratch };

	if (is_empty(j))
		return;
	r.s = split_of(j, rvl_lanes(pool));
	r.shared = scratch + shared_at(&r.s);
	if (r.s.shared)
		rvl_parallel_lanes(pool, rvl_lanes(pool), j->batches * r.s.blocks * r.s.fills, fill, &r);
	rvl_parallel_lanes(pool, r.s.lanes, r.s.chunks, chunk, &r);
}

/* SPDX-License-Identifier: MIT */
/*
 * Runs a product tile by tile. The work is divided by rows, or by columns where there are few rows.
 * The result does not depend on the division, because every output is computed by one call.
 */
#include "int8/product.h"
#include "sizes.h"

#define MAX_ITEMS 16	/* parts into which the work is divided */
#define FEW_TILES 4	/* parts of columns where each part gathers all rows, or copies them as more bytes */
#define MAX_TILES 16	/* tiles of rows that are prepared together */
#define TILE_MEMORY (16 << 10)	/* bytes of these tiles */
#define WIDE_MEMORY (192 << 10)	/* and if they hold widened copies */
#define AHEAD_MEMORY (512 << 10)	/* bytes of the tiles of all parts where these have several */
#define MEMORY (4 << 20)	/* bytes of the tiles of all parts, unless one tile is larger */
#define TABLE_MEMORY (640 << 10)	/* likewise where they are tables */
#define CACHED_WEIGHTS (256 << 10)	/* bytes that stay in the second-level cache */
#define FAR_WEIGHTS (32 << 10)	/* bytes that are no more in it when a network's next run reads them */
#define AHEAD 8192	/* bytes that weights are brought into it ahead */

/* How the rows and columns are divided, and the memory of each part. */
struct split {
	int64_t step;		/* rows of a tile */
	int64_t tiles;
	int64_t taps, kc;	/* as the kernel sees them */
	int64_t row_bytes;	/* of the copy of a row, behind the pointers; 0: no copies */
	int64_t tile_bytes;	/* pointers, copies, and places of quads */
	int64_t ahead;		/* tiles that are prepared together */
	int64_t narrow_bytes;	/* of a tile before it is widened; 0: tiles are not */
	int64_t part_bytes;
	int64_t items;
	bool by_columns;
};

static int64_t pointer_bytes(const struct rvl_i8_mat *m, int64_t taps)
{
	return rvl_round_up(taps * m->f->mr * (int64_t)sizeof(void *), 64);
}

/* Of the places of the quads of a tile. */
static int64_t quad_bytes(const struct rvl_i8_mat *m, int64_t kc)
{
	int64_t places = 2 * rvl_i8_places(kc) * (int64_t)sizeof(struct rvl_i8_place);

	return m->f->sort ? rvl_round_up((int64_t)sizeof(struct rvl_i8_quads) + places, 64) : 0;
}

static int64_t tile_memory(const struct rvl_i8_mat *m)
{
	return m->widens ? WIDE_MEMORY : TILE_MEMORY;
}

/*
 * How many tiles of rows each of @parts parts prepares together: several if its weights do not stay in
 * the cache, which are then read once for all of them, but no more than the part computes.
 */
static int64_t tiles_ahead(const struct rvl_i8_mat *m, const struct split *s, int64_t parts)
{
	int64_t memory = rvl_least(tile_memory(m), AHEAD_MEMORY / parts);
	int64_t most = rvl_least(s->by_columns ? s->tiles : rvl_ceil_div(s->tiles, parts), MAX_TILES);
	int64_t blocks = s->by_columns ? rvl_ceil_div(m->blocks, parts) : m->blocks;

	if (blocks * rvl_i8_block_bytes(m) <= CACHED_WEIGHTS || s->tile_bytes > memory)
		return 1;
	return rvl_least(memory / s->tile_bytes, most);
}

/*
 * Parts of columns, each of which gathers all rows, or copies them: a few if that is @slow. Otherwise a part has two
 * blocks of columns at least where it copies several tiles, unless these are a few parts only.
 */
static int64_t most_by_columns(const struct rvl_i8_mat *m, const struct split *s, bool slow)
{
	int64_t few = rvl_least(m->blocks, FEW_TILES);

	if (slow)
		return few;
	if (s->row_bytes && s->tiles > 1)
		return m->blocks / 2 > few ? m->blocks / 2 : few;
	return m->blocks;
}

/* Rows are spread evenly over the tiles, in pairs, and tiles over at most @most parts. */
static struct split split_of(const struct rvl_i8_mat *m, int64_t rows, int64_t most)
{
	struct split s = { 0 };
	int64_t parts;
	bool slow;	/* to prepare */

	s.step = rvl_ceil_div(rvl_ceil_div(rows, rvl_ceil_div(rows, m->f->mr)), 2) * 2;
	s.step = rvl_least(s.step, rvl_least(m->f->mr, rows));
	s.tiles = rvl_ceil_div(rows, s.step);
	s.taps = m->taps;
	s.kc = m->kc;
	s.row_bytes = m->gathers ? m->kc : 0;
	if (m->widens) {
		s.narrow_bytes = rvl_round_up(m->gathers ? s.step * m->kc : pointer_bytes(m, m->taps), 64);
		s.taps = 1;
		s.kc = m->taps * m->kc;
		s.row_bytes = s.kc * m->f->widened;
	}
	s.tile_bytes = pointer_bytes(m, s.taps) + rvl_round_up(s.step * s.row_bytes, 64) + quad_bytes(m, s.kc);
	slow = s.row_bytes && (!m->widens || m->f->widened > 1);
	s.by_columns = m->blocks > 1 && s.tiles < (slow ? FEW_TILES : 2 * MAX_ITEMS);
	parts = rvl_least(s.by_columns ? most_by_columns(m, &s, slow) : s.tiles, rvl_least(MAX_ITEMS, most));
	s.ahead = tiles_ahead(m, &s, parts);
	s.part_bytes = s.ahead * s.tile_bytes + s.narrow_bytes;
	s.items = rvl_least(parts, (m->bits ? TABLE_MEMORY : MEMORY) / s.part_bytes);
	s.items = s.items < 1 ? 1 : s.items;
	return s;
}

/* One thread prepares all tiles in the same memory, which stays in its cache. */
static int64_t most_parts(int64_t threads)
{
	return threads > 1 ? MAX_ITEMS : 1;
}

int64_t rvl_i8_scratch(const struct rvl_i8_mat *m, int64_t rows)
{
	int64_t most = 0;

	for (int64_t threads = 1; rows && threads <= 2; threads++) {
		struct split s = split_of(m, rows, most_parts(threads));

		most = s.items * s.part_bytes > most ? s.items * s.part_bytes : most;
	}
	return most;
}

/*
 * Two smaller tiles may be prepared together where one full tile fills the memory. With so many rows, all
 * tiles but the last one are full.
 */
int64_t rvl_i8_rows_scratch(const struct rvl_i8_mat *m)
{
	int64_t most = 0;

	for (int64_t rows = 1; rows <= (int64_t)MAX_TILES * m->f->mr; rows++) {
		int64_t bytes = split_of(m, rows, 1).part_bytes;

		most = bytes > most ? bytes : most;
	}
	return most;
}

struct run {
	const struct rvl_i8_job *j;
	struct split s;
};

/* Pointers of rows that do not exist, and of the other planes, repeat those of the first. */
static void complete(const struct rvl_i8_mat *m, const uint8_t **p, int rows)
{
	int mr = m->f->mr;

	for (int64_t t = 0; t < m->positions; t++)
		for (int i = rows; i < mr; i++)
			p[t * mr + i] = p[t * mr];
	for (int64_t i = m->positions * mr; i < m->taps * mr; i++)
		p[i] = p[i - m->positions * mr];
}

static int rows_of(const struct run *r, int64_t tile)
{
	return (int)rvl_least(r->s.step, r->j->rows - tile * r->s.step);
}

/* @runs runs of @n bytes, as widen() takes them. */
static void widen(const struct rvl_i8_mat *m, const uint8_t *const *p, int64_t runs, int64_t n, uint8_t *dst)
{
	int64_t step = m->f->mr;

	if (!m->f->sort) {
		m->f->widen(p, runs, step, n, m->x_u8, dst);
		return;
	}
	for (int64_t i = 0; i < runs; i++)
		m->f->widen_less(p[i * step], n, m->x_u8, m->less, dst + i * n * m->f->widened);
}

static void widen_tile(const struct rvl_i8_mat *m, const uint8_t *narrow, int rows, uint8_t *dst)
{
	const uint8_t *const *p = (const uint8_t *const *)(const void *)narrow;

	if (m->gathers) {
		widen(m, &narrow, 1, rows * m->kc, dst);
		return;
	}
	for (int i = 0; i < rows; i++, dst += m->taps * m->kc * m->f->widened)
		widen(m, p + i, m->taps, m->kc, dst);
}

/* Pointers to rows @step bytes apart; those of rows that do not exist repeat the first. */
static void point_at_rows(const struct rvl_i8_mat *m, const uint8_t *first, int64_t step, int rows, const uint8_t **p)
{
	for (int i = 0; i < m->f->mr; i++)
		p[i] = first + (i < rows ? i : 0) * step;
}

/* Whether the rows of the only tap lie one behind the other. */
static bool is_plain(const struct rvl_i8_job *j)
{
	return j->dense && j->m->taps == 1 && !j->m->gathers;
}

/* The copies of rows, from where they lie or from what fill() writes. */
static void widen_rows(const struct run *r, int64_t group, int64_t first, int rows, uint8_t *narrow,
		       uint8_t *copies)
{
	const struct rvl_i8_job *j = r->j;
	const struct rvl_i8_mat *m = j->m;

	if (is_plain(j)) {
		widen(m, &(const uint8_t *) { j->dense + first * m->kc }, 1, rows * m->kc, copies);
		return;
	}
	if (j->wide) {	/* what it writes behind the copies is the next tile, or @narrow */
		j->wide(j, first, rows, (int16_t *)(void *)copies);
		return;
	}
	j->fill(j, group, first, rows, narrow);
	if (!m->gathers)
		complete(m, (const uint8_t **)(void *)narrow, rows);
	widen_tile(m, narrow, rows, copies);
}

/* The places of the quads of a tile, which are its last bytes. */
static struct rvl_i8_quads *quads_of(const struct run *r, const uint8_t *tile)
{
	return (struct rvl_i8_quads *)(uintptr_t)(tile + r->s.tile_bytes - quad_bytes(r->j->m, r->s.kc));
}

static void prepare(const struct run *r, int64_t group, int64_t tile, uint8_t *dst, uint8_t *narrow)
{
	const struct rvl_i8_job *j = r->j;
	const struct rvl_i8_mat *m = j->m;
	uint8_t *copies = dst + pointer_bytes(m, r->s.taps);
	int64_t first = j->first + tile * r->s.step;
	int rows = rows_of(r, tile);

	if (m->widens) {
		widen_rows(r, group, first, rows, narrow, copies);
		if (m->f->sort)
			m->f->sort(copies, r->s.row_bytes, rows, r->s.kc, quads_of(r, dst));
	} else if (is_plain(j)) {
		point_at_rows(m, j->dense + first * m->kc, m->kc, rows, (const uint8_t **)(void *)dst);
	} else {
		j->fill(j, group, first, rows, m->gathers ? copies : dst);
		if (!m->gathers)
			complete(m, (const uint8_t **)(void *)dst, rows);
	}
	if (r->s.row_bytes)
		point_at_rows(m, copies, r->s.row_bytes, rows, (const uint8_t **)(void *)dst);
}

/* Computes a tile as floats, whose first column is @column of all groups. */
static void compute_floats(const struct run *r, const struct rvl_i8_gemm_call *tile, int64_t row,
			   int64_t column)
{
	const struct rvl_i8_job *j = r->j;
	const struct rvl_i8_kernels *f = j->m->f;
	struct rvl_i8_gemm_call c = *tile;
	const struct rvl_i8_floats to = {
		.scale = c.scale, .added = j->f32.added ? j->f32.added + column : NULL,
		.lo = j->f32.lo, .hi = j->f32.hi,
	};
	float *y = j->f32.y + row * j->f32.row_step + column * j->f32.column_step;
	int32_t sums[RVL_I8_TILE] __attribute__((aligned(64)));
	float part[RVL_I8_TILE];

	c.sums = sums;
	f->gemm(&c);
	if (j->f32.column_step == 1) {
		for (int i = 0; i < c.rows; i++)
			f->convert->scale(&to, sums + i * f->nr, c.cols, y + i * j->f32.row_step);
		return;
	}
	for (int i = 0; i < c.rows; i++)
		f->convert->scale(&to, sums + i * f->nr, c.cols, part + i * f->nr);
	for (int n = 0; n < c.cols; n++)
		for (int i = 0; i < c.rows; i++)
			y[i * j->f32.row_step + n * j->f32.column_step] = part[i * f->nr + n];
}

/*
 * Whether weights are worth bringing into the cache ahead. A tile of few rows reads them so fast that asking for them
 * takes longer.
 */
static bool is_far(const struct run *r)
{
	const struct rvl_i8_mat *m = r->j->m;

	return r->s.step > m->f->mr / 4 && m->groups * m->blocks * rvl_i8_block_bytes(m) > FAR_WEIGHTS;
}

/* What the calls of all tiles have in common. */
static struct rvl_i8_gemm_call call_of(const struct run *r)
{
	const struct rvl_i8_mat *m = r->j->m;

	return (struct rvl_i8_gemm_call) {
		.taps = r->s.taps, .kc = r->s.kc, .y_stride = r->j->y_stride, .planes = m->bits,
		.is_signed = m->is_signed, .x_u8 = m->x_u8, .widened = m->widens, .post = &m->post,
		.ahead = is_far(r) ? AHEAD : 0,
	};
}

static void compute(const struct run *r, struct rvl_i8_gemm_call *c, int64_t group, int64_t block,
		    int64_t tile, const uint8_t *prepared)
{
	const struct rvl_i8_job *j = r->j;
	const struct rvl_i8_mat *m = j->m;
	int64_t nr = m->f->nr, at = group * m->blocks + block, row = j->first + tile * r->s.step;

	c->a = (const uint8_t *const *)(const void *)prepared;
	c->w = (const uint8_t *)m->w + at * rvl_i8_block_bytes(m);
	c->quads = m->f->sort ? quads_of(r, prepared) : NULL;
	c->rest = m->rest ? m->rest + at : NULL;
	c->bias = m->bias + at * nr;
	c->scale = m->scale + at * nr;
	c->rows = rows_of(r, tile);
	c->cols = (int)rvl_least(nr, m->n - block * nr);
	if (m->floats) {
		compute_floats(r, c, row, group * m->n + block * nr);
		return;
	}
	c->y = j->y + row * j->y_stride + group * m->n + block * nr;
	m->f->gemm(c);
}

/* Tiles [t0, t1) of rows and blocks [b0, b1) of columns. */
static void part(const struct run *r, uint8_t *mem, int64_t t0, int64_t t1, int64_t b0, int64_t b1)
{
	const struct split *s = &r->s;
	uint8_t *narrow = mem + s->ahead * s->tile_bytes;
	struct rvl_i8_gemm_call c = call_of(r);

	for (int64_t group = 0; group < r->j->m->groups; group++) {
		for (int64_t t = t0; t < t1; t += s->ahead) {
			int64_t past = rvl_least(t + s->ahead, t1);

			for (int64_t i = t; i < past; i++)
				prepare(r, group, i, mem + (i - t) * s->tile_bytes, narrow);
			for (int64_t b = b0; b < b1; b++)
				for (int64_t i = t; i < past; i++)
					compute(r, &c, group, b, i, mem + (i - t) * s->tile_bytes);
		}
	}
}

static void item(void *arg, uint32_t i)
{
	const struct run *r = arg;
	const struct split *s = &r->s;
	int64_t blocks = r->j->m->blocks;
	uint8_t *mem = r->j->scratch + i * s->part_bytes;

	if (s->by_columns)
		part(r, mem, 0, s->tiles, i * blocks / s->items, (i + 1) * blocks / s->items);
	else
		part(r, mem, i * s->tiles / s->items, (i + 1) * s->tiles / s->items, 0, blocks);
}

void rvl_i8_run(const struct rvl_i8_job *j, const struct rvl_pool *pool)
{
	struct run r = { .j = j };

	if (!j->rows)
		return;
	r.s = split_of(j->m, j->rows, most_parts(rvl_lanes(pool)));
	rvl_parallel(pool, (uint32_t)r.s.items, item, &r);
}

void rvl_i8_run_rows(const struct rvl_i8_job *j)
{
	struct run r = { .j = j };

	if (!j->rows)
		return;
	r.s = split_of(j->m, j->rows, 1);
	part(&r, j->scratch, 0, r.s.tiles, 0, j->m->blocks);
}

/* SPDX-License-Identifier: MIT */
/*
 * Runs a product tile by tile. The work is divided by rows, or by columns where there are few rows.
 * The result does not depend on the division, because every output is computed by one call.
 */
#include "int8/product.h"

#define MAX_ITEMS 16	/* parts into which the work is divided */
#define FEW_TILES 4	/* parts of columns where each part gathers all rows */
#define MAX_TILES 16	/* tiles of rows that are prepared together */
#define TILE_MEMORY (16 << 10)	/* bytes of these tiles */
#define MEMORY (4 << 20)	/* bytes of the tiles of all parts, unless one tile is larger */
#define CACHED_WEIGHTS (256 << 10)	/* bytes that stay in the second-level cache */

/* How the rows and columns are divided. */
struct split {
	int64_t step;		/* rows of a tile */
	int64_t tiles;
	int64_t tile_bytes;	/* of what fill() prepares for one tile */
	int64_t ahead;		/* tiles that are prepared together */
	int64_t items;
	bool by_columns;
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static int64_t weight_bytes(const struct rvl_i8_mat *m)
{
	return m->taps * m->kc * m->f->nr;	/* of a block of columns */
}

/*
 * Rows are spread evenly over the tiles, in pairs. Weights that do not stay in the cache are read
 * once for several tiles.
 */
static struct split split_of(const struct rvl_i8_mat *m, int64_t rows)
{
	struct split s = { .ahead = 1 };

	s.step = ceil_div(ceil_div(rows, ceil_div(rows, m->f->mr)), 2) * 2;
	s.step = least(s.step, least(m->f->mr, rows));
	s.tiles = ceil_div(rows, s.step);
	s.tile_bytes = m->gathers ? s.step * m->kc :
			m->taps * m->f->mr * (int64_t)sizeof(void *);
	s.tile_bytes = ceil_div(s.tile_bytes, 64) * 64;
	if (m->blocks * weight_bytes(m) > CACHED_WEIGHTS && s.tile_bytes < TILE_MEMORY)
		s.ahead = least(least(TILE_MEMORY / s.tile_bytes, MAX_TILES), s.tiles);
	s.by_columns = m->blocks > 1 && s.tiles < (m->gathers ? FEW_TILES : 2 * MAX_ITEMS);
	s.items = least(s.by_columns ? m->blocks : s.tiles, m->gathers && s.by_columns ? FEW_TILES : MAX_ITEMS);
	s.items = least(s.items, MEMORY / (s.ahead * s.tile_bytes));
	s.items = s.items < 1 ? 1 : s.items;
	return s;
}

int64_t rvl_i8_scratch(const struct rvl_i8_mat *m, int64_t rows)
{
	struct split s;

	if (!rows)
		return 0;
	s = split_of(m, rows);
	return s.items * s.ahead * s.tile_bytes;
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
	return (int)least(r->s.step, r->j->rows - tile * r->s.step);
}

static void prepare(const struct run *r, int64_t group, int64_t tile, uint8_t *dst)
{
	const struct rvl_i8_job *j = r->j;
	int rows = rows_of(r, tile);

	j->fill(j, group, tile * r->s.step, rows, dst);
	if (!j->m->gathers)
		complete(j->m, (const uint8_t **)(void *)dst, rows);
}

static void compute(const struct run *r, int64_t group, int64_t block, int64_t tile,
		    const uint8_t *prepared)
{
	const struct rvl_i8_job *j = r->j;
	const struct rvl_i8_mat *m = j->m;
	int64_t nr = m->f->nr, at = group * m->blocks + block;
	const uint8_t *row[RVL_I8_MR];
	struct rvl_i8_gemm_call c = {
		.a = (const uint8_t *const *)(const void *)prepared, .taps = m->taps, .kc = m->kc,
		.w = m->w + at * weight_bytes(m), .bias = m->bias + at * nr,
		.scale = m->scale + at * nr, .y_stride = j->y_stride,
		.y = j->y + tile * r->s.step * j->y_stride + group * m->n + block * nr,
		.rows = rows_of(r, tile), .cols = (int)least(nr, m->n - block * nr),
		.x_u8 = m->x_u8, .post = &m->post,
	};

	if (m->gathers) {
		for (int i = 0; i < m->f->mr; i++)
			row[i] = prepared + (i < c.rows ? i : 0) * m->kc;
		c.a = row;
	}
	m->f->gemm(&c);
}

/* Tiles [t0, t1) of rows and blocks [b0, b1) of columns. */
static void part(const struct run *r, uint8_t *mem, int64_t t0, int64_t t1, int64_t b0, int64_t b1)
{
	const struct split *s = &r->s;

	for (int64_t group = 0; group < r->j->m->groups; group++) {
		for (int64_t t = t0; t < t1; t += s->ahead) {
			int64_t past = least(t + s->ahead, t1);

			for (int64_t i = t; i < past; i++)
				prepare(r, group, i, mem + (i - t) * s->tile_bytes);
			for (int64_t b = b0; b < b1; b++)
				for (int64_t i = t; i < past; i++)
					compute(r, group, b, i, mem + (i - t) * s->tile_bytes);
		}
	}
}

static void item(void *arg, uint32_t i)
{
	const struct run *r = arg;
	const struct split *s = &r->s;
	int64_t blocks = r->j->m->blocks;
	uint8_t *mem = r->j->scratch + i * s->ahead * s->tile_bytes;

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
	r.s = split_of(j->m, j->rows);
	rvl_parallel(pool, (uint32_t)r.s.items, item, &r);
}

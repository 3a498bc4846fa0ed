/* SPDX-License-Identifier: MIT */
/*
 * Runs a convolution of 3 x 3 tile by tile, divided in one of two ways. Either the pixels of a strip of
 * tiles are transformed once, for all columns, and the weights of a block of columns once for each strip.
 * Or the weights of several blocks are transformed together and kept for all tiles, and the pixels of a
 * group of tiles once for each time. Transformed weights take almost four times the memory of the packed
 * ones, so that they are not kept between runs.
 */
#include "int8/winograd.h"

#include "sizes.h"

#define TAPS 9
#define MOST_CHANNELS 1024	/* four times a sum of 9 * so many products of bytes is below 2^31 */
#define LEAST_CHANNELS 16	/* fewer: the transforms take longer than the products they save */
#define LEAST_TILES 12
#define GROUP 12		/* tiles whose products are kept, a multiple of the rows of every set */
#define MEMORY (144 << 10)	/* bytes of workspace, besides a share of the operands */
#define SHARE 2
#define PARTS 4			/* of the work, for each thread where there are several */
#define APART 32		/* int16 between values, which else have few places of the cache in common */
#define SHARED_COST 2		/* of a value that another thread transformed, in transforms */

/* How a convolution is divided. */
struct plan {
	int64_t tiles_w, tiles;
	int64_t v_step;		/* int16 of a tile's value */
	int64_t u_step;		/* int16 of a value of the transformed weights */
	int64_t u_bytes, m_bytes;	/* of a block: transformed weights, and products of a group */
	bool keeps_weights;	/* for all tiles; else it keeps pixels for all columns */
	int64_t strip;		/* tiles whose pixels are kept: all, or a multiple of the kernel's rows */
	int64_t v_bytes;	/* of these pixels */
	int64_t blocks;		/* whose weights are kept */
	int64_t lanes, parts;
};

static int64_t halves(int64_t n)
{
	return rvl_ceil_div(n, 2);
}

/* What the workspace may take, so that it adds little to the memory of the operands. */
static int64_t memory_of(const struct rvl_i8_mat *m, int64_t oh, int64_t ow)
{
	int64_t columns = m->blocks * m->f->nr;
	int64_t operands = TAPS * m->kc * columns + oh * ow * (m->kc + columns);

	return operands > MEMORY + operands / SHARE ? operands : MEMORY + operands / SHARE;
}

static int64_t pixel_bytes(const struct plan *p, int64_t tiles)
{
	return tiles * RVL_I8_WINO * p->v_step * (int64_t)sizeof(int16_t);
}

/* One lane for each thread, unless these need too much memory, but two at least for several threads. */
static void divide(int64_t threads, int64_t lane_bytes, int64_t memory, struct plan *p)
{
	int64_t most = memory / 2 / lane_bytes;

	p->lanes = rvl_least(threads, most < 2 ? 2 : most);
	p->parts = p->lanes > 1 ? PARTS * p->lanes : 1;
}

/*
 * Pixels are kept in strips of equal length. These fit @memory unless two lanes, or the tiles of two calls of
 * the kernel, take more.
 */
static void plan_strips(int64_t mr, int64_t threads, int64_t memory, struct plan *p)
{
	int64_t lane = p->u_bytes + p->m_bytes, most;

	divide(threads, lane, memory, p);
	most = (memory - p->lanes * lane) / pixel_bytes(p, 1);
	most = most < 2 * mr ? 2 * mr : most;
	p->strip = rvl_round_up(rvl_ceil_div(p->tiles, rvl_ceil_div(p->tiles, most)), mr);
	p->strip = rvl_least(p->tiles, p->strip);
	p->v_bytes = pixel_bytes(p, p->strip);
}

/* Weights are kept in equal numbers of blocks that fit @memory. */
static bool plan_weights(int64_t blocks, int64_t threads, int64_t memory, struct plan *p)
{
	int64_t lane;

	p->keeps_weights = true;
	p->strip = rvl_least(p->tiles, GROUP);
	p->v_bytes = pixel_bytes(p, p->strip);
	lane = p->v_bytes + p->m_bytes;
	divide(threads, lane, memory, p);
	p->blocks = rvl_least(blocks, (memory - p->lanes * lane) / p->u_bytes);
	if (p->blocks < 1)
		return false;
	p->blocks = rvl_ceil_div(blocks, rvl_ceil_div(blocks, p->blocks));
	return true;
}

/* Whether the parts of a strip are groups of tiles, because there are few blocks. */
static bool divides_tiles(const struct plan *p, int64_t blocks)
{
	return blocks % p->parts && blocks < 2 * p->parts;
}

/* The transforms of all threads, in bytes that they write. */
static int64_t cost(const struct plan *p, int64_t blocks, int64_t threads)
{
	int64_t pixels = pixel_bytes(p, p->tiles), weights = blocks * p->u_bytes;
	int64_t shared = threads > 1 ? SHARED_COST : 0, times;

	if (p->keeps_weights)
		return pixels * rvl_ceil_div(blocks, p->blocks) + weights * (1 + shared);
	times = rvl_ceil_div(p->tiles, p->strip);
	if (divides_tiles(p, blocks))
		times *= rvl_least(p->parts, rvl_ceil_div(p->strip, GROUP));
	return pixels * (1 + shared) + weights * times;
}

static struct plan plan_of(const struct rvl_i8_mat *m, int64_t oh, int64_t ow, int64_t threads)
{
	int64_t nr = m->f->nr, memory = memory_of(m, oh, ow);
	struct plan p = {
		.tiles_w = halves(ow), .tiles = halves(oh) * halves(ow), .v_step = rvl_round_up(m->kc, nr),
		.u_step = m->kc * nr + APART,
		.m_bytes = RVL_I8_WINO * GROUP * nr * (int64_t)sizeof(int32_t),
	}, other;

	p.u_bytes = RVL_I8_WINO * p.u_step * (int64_t)sizeof(int16_t);
	other = p;
	plan_strips(m->f->mr, threads, memory, &p);
	if (plan_weights(m->blocks, threads, memory, &other) &&
	    cost(&other, m->blocks, threads) < cost(&p, m->blocks, threads))
		return other;
	return p;
}

static int64_t bytes_of(const struct plan *p)
{
	if (p->keeps_weights)
		return p->blocks * p->u_bytes + p->lanes * (p->v_bytes + p->m_bytes);
	return p->v_bytes + p->lanes * (p->u_bytes + p->m_bytes);
}

int64_t rvl_i8_wino_scratch(const struct rvl_i8_mat *m, int64_t oh, int64_t ow)
{
	int64_t most = 0;

	if (!m->f->winograd || m->gathers || m->bits || m->planes > 1 || m->groups > 1 || m->positions != TAPS ||
	    m->kc > MOST_CHANNELS || m->kc < LEAST_CHANNELS || halves(oh) * halves(ow) < LEAST_TILES)
		return 0;
	for (int64_t threads = 1; threads <= RVL_LANES; threads++) {
		struct plan p = plan_of(m, oh, ow, threads);

		most = bytes_of(&p) > most ? bytes_of(&p) : most;
	}
	return most;
}

/* A strip of tiles, or the blocks whose weights are kept. */
struct run {
	const struct rvl_i8_wino_job *j;
	struct plan p;
	int64_t first, past;	/* tiles or blocks */
	uint8_t *memory;	/* of the lanes */
};

/* Transformed pixels of some tiles. */
struct pixels {
	int64_t first;		/* tile */
	int16_t *v;		/* [value][strip][v_step] */
};

/* Tiles [t, past), counted from the first one of @x. */
static void transform(const struct run *r, const struct pixels *x, int64_t t, int64_t past)
{
	const struct rvl_i8_mat *m = r->j->m;

	for (; t < past; t++) {
		const uint8_t *p[RVL_I8_WINO];
		int64_t at = x->first + t;

		r->j->pixels(r->j->ctx, at / r->p.tiles_w * 2, at % r->p.tiles_w * 2, p);
		m->f->winograd->input(p, m->kc, m->x_u8, x->v + t * r->p.v_step, r->p.strip * r->p.v_step);
	}
}

static void transform_weights(const struct run *r, int64_t block, int16_t *u)
{
	const struct rvl_i8_mat *m = r->j->m;

	m->f->winograd->weights((const int8_t *)m->w + block * rvl_i8_block_bytes(m), m->kc, u, r->p.u_step);
}

/* Results of a block of columns for tile @at, which is tile @in of the group. */
static void output_tile(const struct run *r, int64_t block, int64_t at, int64_t in, const int32_t *products)
{
	const struct rvl_i8_wino_job *j = r->j;
	const struct rvl_i8_mat *m = j->m;
	int64_t nr = m->f->nr, oy = at / r->p.tiles_w * 2, ox = at % r->p.tiles_w * 2;
	struct rvl_i8_wino_out o = {
		.m = products + in * nr, .step = GROUP * nr, .bias = m->bias + block * nr,
		.scale = m->scale + block * nr, .cols = (int)rvl_least(nr, m->n - block * nr), .post = &m->post,
	};

	for (int i = 0; i < RVL_I8_WINO_RESULTS; i++) {
		int64_t y = oy + i / 2, x = ox + i % 2;

		o.y[i] = y < j->oh && x < j->ow ? j->y + (y * j->ow + x) * j->y_stride + block * nr : NULL;
	}
	m->f->winograd->output(&o);
}

/* Tiles [t, past) of @x, at most GROUP of them, by a block of columns whose transformed weights are @u. */
static void compute_group(const struct run *r, const struct pixels *x, int64_t block, int64_t t, int64_t past,
			  const int16_t *u, int32_t *products)
{
	const struct rvl_i8_mat *m = r->j->m;
	int64_t nr = m->f->nr, mr = m->f->mr, step = r->p.v_step;

	for (int64_t value = 0; value < RVL_I8_WINO; value++)
		for (int64_t i = t; i < past; i += mr)
			m->f->winograd->multiply(x->v + (value * r->p.strip + i) * step, step,
						 u + value * r->p.u_step, m->kc, (int)rvl_least(mr, past - i),
						 products + (value * GROUP + i - t) * nr);
	for (int64_t i = t; i < past; i++)
		output_tile(r, block, x->first + i, i - t, products);
}

/* ---- pixels for all columns ---- */

static struct pixels strip_of(const struct run *r)
{
	return (struct pixels) { r->first, (int16_t *)(void *)r->j->scratch };
}

static void transform_part(void *arg, uint32_t lane, uint32_t i)
{
	const struct run *r = arg;
	const struct pixels x = strip_of(r);
	int64_t tiles = r->past - r->first;

	(void)lane;
	transform(r, &x, i * tiles / r->p.parts, (i + 1) * tiles / r->p.parts);
}

/* Parts are blocks of columns, or groups of tiles. */
static void multiply_part(void *arg, uint32_t lane, uint32_t i)
{
	const struct run *r = arg;
	const struct rvl_i8_mat *m = r->j->m;
	const struct pixels x = strip_of(r);
	int64_t parts = r->p.parts, tiles = r->past - r->first, groups = rvl_ceil_div(tiles, GROUP);
	int64_t b = i * m->blocks / parts, past = (i + 1) * m->blocks / parts, first = 0, end = tiles;
	uint8_t *mem = r->memory + lane * (r->p.u_bytes + r->p.m_bytes);
	int16_t *u = (int16_t *)(void *)mem;

	if (divides_tiles(&r->p, m->blocks)) {
		b = 0;
		past = m->blocks;
		first = i * groups / parts * GROUP;
		end = rvl_least((i + 1) * groups / parts * GROUP, tiles);
	}
	for (; b < past && first < end; b++) {
		transform_weights(r, b, u);
		for (int64_t t = first; t < end; t += GROUP)
			compute_group(r, &x, b, t, rvl_least(t + GROUP, end), u,
				      (int32_t *)(void *)(mem + r->p.u_bytes));
	}
}

static void run_strips(struct run *r, const struct rvl_pool *pool)
{
	r->memory = r->j->scratch + r->p.v_bytes;
	for (; r->first < r->p.tiles; r->first = r->past) {
		r->past = rvl_least(r->first + r->p.strip, r->p.tiles);
		rvl_parallel_lanes(pool, r->p.lanes, r->p.parts, transform_part, r);
		rvl_parallel_lanes(pool, r->p.lanes, r->p.parts, multiply_part, r);
	}
}

/* ---- weights for all tiles ---- */

/* Transformed weights of @block, one of those that are kept. */
static int16_t *kept(const struct run *r, int64_t block)
{
	return (int16_t *)(void *)(r->j->scratch + (block - r->first) * r->p.u_bytes);
}

static void weights_item(void *arg, uint32_t i)
{
	const struct run *r = arg;

	transform_weights(r, r->first + i, kept(r, r->first + i));
}

/* Parts begin with the rows of a kernel. */
static void tiles_part(void *arg, uint32_t lane, uint32_t i)
{
	const struct run *r = arg;
	int64_t mr = r->j->m->f->mr, rows = rvl_ceil_div(r->p.tiles, mr);
	int64_t t = i * rows / r->p.parts * mr, end = rvl_least((i + 1) * rows / r->p.parts * mr, r->p.tiles);
	uint8_t *mem = r->memory + lane * (r->p.v_bytes + r->p.m_bytes);

	for (; t < end; t += GROUP) {
		const struct pixels x = { t, (int16_t *)(void *)mem };
		int64_t n = rvl_least(GROUP, end - t);

		transform(r, &x, 0, n);
		for (int64_t b = r->first; b < r->past; b++)
			compute_group(r, &x, b, 0, n, kept(r, b), (int32_t *)(void *)(mem + r->p.v_bytes));
	}
}

static void run_tiles(struct run *r, const struct rvl_pool *pool)
{
	int64_t blocks = r->j->m->blocks;

	r->memory = r->j->scratch + r->p.blocks * r->p.u_bytes;
	for (; r->first < blocks; r->first = r->past) {
		r->past = rvl_least(r->first + r->p.blocks, blocks);
		rvl_parallel(pool, (uint32_t)(r->past - r->first), weights_item, r);
		rvl_parallel_lanes(pool, r->p.lanes, r->p.parts, tiles_part, r);
	}
}

void rvl_i8_wino_run(const struct rvl_i8_wino_job *j, const struct rvl_pool *pool)
{
	struct run r = { .j = j, .p = plan_of(j->m, j->oh, j->ow, rvl_lanes(pool)) };

	if (r.p.keeps_weights)
		run_tiles(&r, pool);
	else
		run_strips(&r, pool);
}

/* SPDX-License-Identifier: MIT */
/*
 * Runs a convolution of 3 x 3 tile by tile, divided in one of two ways. Either the pixels of a strip of
 * tiles are transformed once, for all columns, and the weights of a block of columns once for each strip.
 * Or the weights of several blocks are transformed together and kept for all tiles, and the pixels of a
 * group of tiles once for each time. Transformed weights take four to eight times the memory of the
 * packed ones, so that they are not kept between runs. Where an image has few tiles, those of some
 * channels at a time serve all of it, and the products are added up. Groups are computed one by one.
 */
#include "int8/winograd.h"

#include "sizes.h"

#define TAPS 9
#define LEAST_CHANNELS 16	/* fewer: the transforms take longer than the products they save */
#define MOST_CHANNELS 2048	/* more: the transformed pixels of two calls of the kernel leave the cache */
#define MOST_COLUMNS 64		/* of a block of any set */
#define GROUP 12		/* tiles of a batch or a part, a multiple of the rows of every set */
#define MOST_BATCH 24		/* tiles of an image that are one batch */
#define MOST_CHUNK 128		/* channels, whose transformed weights then stay in the second-level cache */
#define LEAST_CHUNK 32
#define MEMORY (144 << 10)	/* bytes of workspace, besides a share of the operands */
#define SHARE 2
#define BEYOND 2		/* times as much memory is the most that a filter may need */
#define PARTS 4			/* of the work, for each thread where there are several */
#define APART 32		/* int16 between values, which else have few places of the cache in common */
#define WEIGHT_COST 5		/* time of a transformed weight, in products */
#define SHARED_COST 2		/* of a value that another thread transformed, in transforms */
#define GAIN 10			/* percent that a filter saves at least */

/* How a convolution is divided. */
struct plan {
	const struct rvl_i8_winograd *f;
	int64_t values;		/* of a transformed tile */
	int64_t tiles_w, tiles;
	int64_t batch;		/* tiles whose products are kept */
	int64_t chunk;		/* channels whose weights are transformed at a time: all, unless a batch is a strip */
	int64_t v_step;		/* int16 of a tile's value */
	int64_t u_step;		/* int16 of a value of the transformed weights */
	int64_t u_bytes, m_bytes;	/* of a block: transformed weights, and products of a batch */
	bool keeps_weights;	/* for all tiles; else it keeps pixels for all columns */
	int64_t strip;		/* tiles whose pixels are kept: all, or a multiple of the kernel's rows */
	int64_t v_bytes;	/* of these pixels */
	int64_t blocks;		/* whose weights are kept */
	int64_t lanes, parts;
};

/* What the workspace of all groups may take, so that it adds little to the memory of the operands. */
static int64_t memory_of(const struct rvl_i8_mat *m, const struct rvl_i8_wino_shape *s)
{
	int64_t columns = m->blocks * m->f->nr;
	int64_t operands = m->groups * (TAPS * m->kc * columns + s->pixels * m->kc + s->oh * s->ow * columns);

	return operands > MEMORY + operands / SHARE ? operands : MEMORY + operands / SHARE;
}

static int64_t pixel_bytes(const struct plan *p, int64_t tiles)
{
	return tiles * p->values * p->v_step * (int64_t)sizeof(int16_t);
}

/* One lane for each thread, unless these need too much memory, but two at least for several threads. */
static void divide(int64_t threads, int64_t lane_bytes, int64_t memory, struct plan *p)
{
	int64_t most = memory / 2 / lane_bytes;

	p->lanes = rvl_least(threads, most < 2 ? 2 : most);
	p->parts = p->lanes > 1 ? PARTS * p->lanes : 1;
}

/* Sizes that depend on the tiles of a batch and the channels of a chunk. */
static void set_batch(const struct rvl_i8_mat *m, int64_t batch, int64_t chunk, struct plan *p)
{
	int64_t nr = m->f->nr;

	p->batch = batch;
	p->chunk = chunk;
	p->u_step = chunk * nr + APART;
	p->u_bytes = p->values * p->u_step * (int64_t)sizeof(int16_t);
	p->m_bytes = p->values * batch * nr * (int64_t)sizeof(int32_t);
}

static int64_t bytes_of(const struct plan *p)
{
	if (p->keeps_weights)
		return p->blocks * p->u_bytes + p->lanes * (p->v_bytes + p->m_bytes);
	return p->v_bytes + p->lanes * (p->u_bytes + p->m_bytes);
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

/* Strips of few tiles are batches. The weights are transformed in chunks, the largest ones that fit @memory. */
static void plan_few(const struct rvl_i8_mat *m, int64_t threads, int64_t memory, struct plan *p)
{
	int64_t chunk = MOST_CHUNK;

	do {
		set_batch(m, p->tiles, rvl_least(chunk, m->kc), p);
		plan_strips(m->f->mr, threads, memory, p);
		set_batch(m, p->strip, p->chunk, p);
		chunk /= 2;
	} while (bytes_of(p) > memory && chunk >= LEAST_CHUNK);
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

/* Whether the parts of a strip are parts of its tiles, because there are few blocks. */
static bool divides_tiles(const struct plan *p, int64_t blocks)
{
	return blocks % p->parts && blocks < 2 * p->parts && rvl_ceil_div(p->strip, GROUP) > blocks;
}

/* The transforms of all threads for a group of channels, in bytes that they write. */
static int64_t cost(const struct rvl_i8_mat *m, const struct plan *p, int64_t threads)
{
	int64_t blocks = m->blocks, pixels = pixel_bytes(p, p->tiles);
	int64_t weights = blocks * p->values * m->kc * m->f->nr * (int64_t)sizeof(int16_t);
	int64_t shared = threads > 1 ? SHARED_COST : 0, times;

	if (p->keeps_weights)
		return pixels * rvl_ceil_div(blocks, p->blocks) + weights * (1 + shared);
	times = rvl_ceil_div(p->tiles, p->strip);
	if (divides_tiles(p, blocks))
		times *= rvl_least(p->parts, rvl_ceil_div(p->strip, GROUP));
	return pixels * (1 + shared) + weights * times;
}

static struct plan plan_of(const struct rvl_i8_mat *m, const struct rvl_i8_winograd *f,
			   const struct rvl_i8_wino_shape *s, int64_t threads)
{
	int64_t memory = memory_of(m, s), values = f->side * f->side;
	struct plan p = {
		.f = f, .values = values, .tiles_w = rvl_ceil_div(s->ow, f->results),
		.tiles = rvl_ceil_div(s->oh, f->results) * rvl_ceil_div(s->ow, f->results),
		.v_step = rvl_round_up(m->kc, m->f->nr),
	}, other;

	set_batch(m, GROUP, m->kc, &p);
	other = p;
	if (p.tiles <= MOST_BATCH)
		plan_few(m, threads, memory, &p);
	else
		plan_strips(m->f->mr, threads, memory, &p);
	if (plan_weights(m->blocks, threads, memory, &other) &&
	    cost(m, &other, threads) < cost(m, &p, threads))
		return other;
	return p;
}

int64_t rvl_i8_wino_scratch(const struct rvl_i8_mat *m, const struct rvl_i8_winograd *f,
			    const struct rvl_i8_wino_shape *s)
{
	int64_t most = 0;

	for (int64_t threads = 1; threads <= RVL_LANES; threads++) {
		struct plan p = plan_of(m, f, s, threads);

		most = bytes_of(&p) > most ? bytes_of(&p) : most;
	}
	return most;
}

/* ---- choice ---- */

/* The largest result of any pixels in a block of columns without the bias, or its negative. */
static int64_t largest_of(const struct rvl_i8_mat *m, const int8_t *w)
{
	int64_t above[MOST_COLUMNS] = { 0 }, below[MOST_COLUMNS] = { 0 }, largest = 0;

	for (int64_t k = 0; k < TAPS * m->kc; k += m->f->kr)
		for (int column = 0; column < m->f->nr; column++)
			for (int i = 0; i < m->f->kr; i++, w++) {
				above[column] += *w > 0 ? *w : 0;
				below[column] -= *w < 0 ? *w : 0;
			}
	for (int i = 0; i < m->f->nr; i++) {
		int64_t most = above[i] > below[i] ? above[i] : below[i];
		int64_t sum = m->x_u8 ? UINT8_MAX * most : -INT8_MIN * (above[i] + below[i]);

		largest = sum > largest ? sum : largest;
	}
	return largest;
}

static int64_t largest_sum(const struct rvl_i8_mat *m)
{
	int64_t largest = 0;

	for (int64_t b = 0; b < m->groups * m->blocks; b++) {
		int64_t sum = largest_of(m, (const int8_t *)m->w + b * rvl_i8_block_bytes(m));

		largest = sum > largest ? sum : largest;
	}
	return largest;
}

/* Products of a group of channels for @rows rows, and a row more for each call of the kernel, which begins and ends. */
static int64_t products_of(const struct rvl_i8_mat *m, int64_t rows)
{
	return (rows + rvl_ceil_div(rows, m->f->mr)) * m->kc * m->blocks * m->f->nr;
}

/* An estimate of the time of one thread for a group of channels by a filter, in products of the kernel. */
static int64_t time_of(const struct rvl_i8_mat *m, const struct rvl_i8_winograd *f,
		       const struct rvl_i8_wino_shape *s)
{
	struct plan p = plan_of(m, f, s, 1);
	int64_t columns = m->blocks * m->f->nr, pixels = p.tiles * m->kc, weights = m->kc * columns;

	if (p.keeps_weights)
		pixels *= rvl_ceil_div(m->blocks, p.blocks);
	else
		weights *= rvl_ceil_div(p.tiles, p.strip);
	return p.values * (products_of(m, p.tiles) + f->pixel_cost * pixels + WEIGHT_COST * weights +
			   f->result_cost * p.tiles * columns);
}

const struct rvl_i8_winograd *rvl_i8_wino_choose(const struct rvl_i8_mat *m, const struct rvl_i8_wino_shape *s)
{
	const struct rvl_i8_winograd *best = NULL, *f = m->f->winograd;
	int64_t sum, least;

	if (!s->oh || !s->ow || !f || m->gathers || m->bits || m->planes > 1 || m->positions != TAPS ||
	    m->kc < LEAST_CHANNELS || m->kc > MOST_CHANNELS)
		return NULL;
	least = TAPS * products_of(m, s->oh * s->ow) * (100 - GAIN) / 100;
	sum = largest_sum(m);
	for (int i = 0; i < RVL_I8_FILTERS; i++, f++) {
		int64_t time = time_of(m, f, s);

		if (time >= least || sum >> f->bits || rvl_i8_wino_scratch(m, f, s) > BEYOND * memory_of(m, s))
			continue;
		best = f;
		least = time;
	}
	return best;
}

/* ---- tiles ---- */

/* A strip of tiles, or the blocks whose weights are kept, of a group of channels. */
struct run {
	const struct rvl_i8_wino_job *j;
	struct plan p;
	int64_t group;
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
		const uint8_t *p[RVL_I8_WINO_VALUES];
		int64_t at = x->first + t, results = r->p.f->results;

		r->j->pixels(r->j->ctx, at / r->p.tiles_w * results, at % r->p.tiles_w * results, r->group * m->kc, p);
		r->p.f->input(p, m->kc, m->x_u8, x->v + t * r->p.v_step, r->p.strip * r->p.v_step);
	}
}

/* The weights of a block of the group, for @n channels from @first on. */
static void transform_weights(const struct run *r, int64_t block, int64_t first, int64_t n, int16_t *u)
{
	const struct rvl_i8_mat *m = r->j->m;
	int64_t nr = m->f->nr, at = r->group * m->blocks + block;

	r->p.f->weights((const int8_t *)m->w + at * rvl_i8_block_bytes(m) + first * nr, m->kc * nr, n, u, r->p.u_step);
}

/* Results of a block of columns for tile @at, which is tile @in of the batch. */
static void output_tile(const struct run *r, int64_t block, int64_t at, int64_t in, const int32_t *products)
{
	const struct rvl_i8_wino_job *j = r->j;
	const struct rvl_i8_mat *m = j->m;
	int64_t nr = m->f->nr, results = r->p.f->results;
	int64_t oy = at / r->p.tiles_w * results, ox = at % r->p.tiles_w * results;
	int64_t column = (r->group * m->blocks + block) * nr;
	struct rvl_i8_wino_out o = {
		.m = products + in * nr, .step = r->p.batch * nr, .bias = m->bias + column,
		.scale = m->scale + column, .cols = (int)rvl_least(nr, m->n - block * nr), .post = &m->post,
	};

	for (int64_t i = 0; i < results * results; i++) {
		int64_t y = oy + i / results, x = ox + i % results;

		o.y[i] = y < j->shape.oh && x < j->shape.ow ?
				 j->y + (y * j->shape.ow + x) * j->y_stride + r->group * m->n + block * nr : NULL;
	}
	r->p.f->output(&o);
}

/* Tiles of a strip whose products with a block are kept, and the memory of these. */
struct batch {
	const struct pixels *x;
	int64_t block, first, past;
	int32_t *products;
};

/* Products of @n channels from @channel on, whose transformed weights are @u, added to those before. */
static void multiply(const struct run *r, const struct batch *b, int64_t channel, int64_t n, const int16_t *u)
{
	const struct rvl_i8_mat *m = r->j->m;
	int64_t nr = m->f->nr, mr = m->f->mr, step = r->p.v_step;

	for (int64_t value = 0; value < r->p.values; value++) {
		const int16_t *v = b->x->v + value * r->p.strip * step + channel;
		int32_t *products = b->products + value * r->p.batch * nr;

		for (int64_t i = b->first; i < b->past; i += mr)
			r->p.f->multiply(v + i * step, step, u + value * r->p.u_step, n,
					 (int)rvl_least(mr, b->past - i), channel > 0, products + (i - b->first) * nr);
	}
}

static void output(const struct run *r, const struct batch *b)
{
	for (int64_t i = b->first; i < b->past; i++)
		output_tile(r, b->block, b->x->first + i, i - b->first, b->products);
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

/* @begins: @u does not hold the transformed weights of the block yet, as for each batch that is a strip. */
static void multiply_batch(const struct run *r, const struct batch *b, bool begins, int16_t *u)
{
	int64_t kc = r->j->m->kc;

	for (int64_t c = 0, n; c < kc; c += n) {
		n = rvl_least(r->p.chunk, kc - c);
		if (begins)
			transform_weights(r, b->block, c, n, u);
		multiply(r, b, c, n, u);
	}
	output(r, b);
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
	struct batch batch = { .x = &x, .products = (int32_t *)(void *)(mem + r->p.u_bytes) };
	int16_t *u = (int16_t *)(void *)mem;

	if (divides_tiles(&r->p, m->blocks)) {
		b = 0;
		past = m->blocks;
		first = i * groups / parts * GROUP;
		end = rvl_least((i + 1) * groups / parts * GROUP, tiles);
	}
	for (batch.block = b; batch.block < past; batch.block++)
		for (batch.first = first; batch.first < end; batch.first = batch.past) {
			batch.past = rvl_least(batch.first + r->p.batch, end);
			multiply_batch(r, &batch, batch.first == first, u);
		}
}

static void run_strips(struct run *r, const struct rvl_pool *pool)
{
	r->memory = r->j->scratch + r->p.v_bytes;
	for (r->first = 0; r->first < r->p.tiles; r->first = r->past) {
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

	transform_weights(r, r->first + i, 0, r->j->m->kc, kept(r, r->first + i));
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
		struct batch b = {
			.x = &x, .block = r->first, .past = rvl_least(GROUP, end - t),
			.products = (int32_t *)(void *)(mem + r->p.v_bytes),
		};

		transform(r, &x, 0, b.past);
		for (; b.block < r->past; b.block++) {
			multiply(r, &b, 0, r->j->m->kc, kept(r, b.block));
			output(r, &b);
		}
	}
}

static void run_tiles(struct run *r, const struct rvl_pool *pool)
{
	int64_t blocks = r->j->m->blocks;

	r->memory = r->j->scratch + r->p.blocks * r->p.u_bytes;
	for (r->first = 0; r->first < blocks; r->first = r->past) {
		r->past = rvl_least(r->first + r->p.blocks, blocks);
		rvl_parallel(pool, (uint32_t)(r->past - r->first), weights_item, r);
		rvl_parallel_lanes(pool, r->p.lanes, r->p.parts, tiles_part, r);
	}
}

void rvl_i8_wino_run(const struct rvl_i8_wino_job *j, const struct rvl_pool *pool)
{
	struct run r = { .j = j, .p = plan_of(j->m, j->m->filter, &j->shape, rvl_lanes(pool)) };

	for (; r.group < j->m->groups; r.group++) {
		if (r.p.keeps_weights)
			run_tiles(&r, pool);
		else
			run_strips(&r, pool);
	}
}

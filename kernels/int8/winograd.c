/* SPDX-License-Identifier: MIT */
/*
 * Runs a convolution of 3 x 3 in strips of tiles. The pixels of a strip are transformed once, for all
 * columns; the weights of a block of columns once for each strip, because their transform takes four
 * times the memory of the packed weights.
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
#define MAX_PARTS 8
#define APART 32		/* int16 between values, which else have few places of the cache in common */

/* How a convolution is divided. */
struct plan {
	int64_t tiles_w, tiles;
	int64_t strip;		/* tiles of a strip, a multiple of the kernel's rows unless all are one */
	int64_t v_step;		/* int16 of a tile's value */
	int64_t v_bytes;	/* of the transformed pixels of a strip */
	int64_t u_step;		/* int16 of a value of the transformed weights */
	int64_t u_bytes, m_bytes;	/* of a part: transformed weights, and products */
	int64_t parts;
};

static int64_t halves(int64_t n)
{
	return rvl_ceil_div(n, 2);
}

/* Strips of equal length that fit @memory, of at least the rows of the kernel. */
static int64_t strip_of(const struct plan *p, int64_t mr, int64_t memory)
{
	int64_t tile = RVL_I8_WINO * p->v_step * (int64_t)sizeof(int16_t), most = memory / tile;

	most = most < 2 * mr ? 2 * mr : most;
	return rvl_least(p->tiles, rvl_round_up(rvl_ceil_div(p->tiles, rvl_ceil_div(p->tiles, most)), mr));
}

/* The workspace is bounded by the sizes of the operands, so that it adds little to their memory. */
static struct plan plan_of(const struct rvl_i8_mat *m, int64_t oh, int64_t ow)
{
	int64_t nr = m->f->nr, columns = m->blocks * nr, part;
	int64_t memory = MEMORY + (TAPS * m->kc * columns + oh * ow * (m->kc + columns)) / SHARE;
	struct plan p = {
		.tiles_w = halves(ow), .tiles = halves(oh) * halves(ow), .v_step = rvl_round_up(m->kc, nr),
		.u_step = m->kc * nr + APART,
		.m_bytes = RVL_I8_WINO * GROUP * nr * (int64_t)sizeof(int32_t),
	};

	p.u_bytes = RVL_I8_WINO * p.u_step * (int64_t)sizeof(int16_t);
	part = p.u_bytes + p.m_bytes;
	for (p.parts = MAX_PARTS; p.parts > 2 && p.parts * part > memory / 2;)
		p.parts /= 2;
	p.strip = strip_of(&p, m->f->mr, memory - p.parts * part);
	p.v_bytes = p.strip * RVL_I8_WINO * p.v_step * (int64_t)sizeof(int16_t);
	return p;
}

int64_t rvl_i8_wino_scratch(const struct rvl_i8_mat *m, int64_t oh, int64_t ow)
{
	struct plan p;

	if (!m->f->winograd || m->gathers || m->bits || m->planes > 1 || m->groups > 1 || m->positions != TAPS ||
	    m->kc > MOST_CHANNELS || m->kc < LEAST_CHANNELS || halves(oh) * halves(ow) < LEAST_TILES)
		return 0;
	p = plan_of(m, oh, ow);
	return p.v_bytes + p.parts * (p.u_bytes + p.m_bytes);
}

/* A strip of a convolution. */
struct run {
	const struct rvl_i8_wino_job *j;
	struct plan p;
	int64_t first, tiles;	/* tiles of the strip */
	int16_t *v;		/* [value][strip][v_step] */
};

static void transform_part(void *arg, uint32_t i)
{
	const struct run *r = arg;
	const struct rvl_i8_mat *m = r->j->m;
	int64_t t = i * r->tiles / r->p.parts, past = (i + 1) * r->tiles / r->p.parts;

	for (; t < past; t++) {
		const uint8_t *p[RVL_I8_WINO];
		int64_t at = r->first + t;

		r->j->pixels(r->j->ctx, at / r->p.tiles_w * 2, at % r->p.tiles_w * 2, p);
		m->f->winograd->input(p, m->kc, m->x_u8, r->v + t * r->p.v_step, r->p.strip * r->p.v_step);
	}
}

/* Results of a block of columns for tile @t of the strip, which is tile @in of the group. */
static void output_tile(const struct run *r, int64_t block, int64_t t, int64_t in, const int32_t *products)
{
	const struct rvl_i8_wino_job *j = r->j;
	const struct rvl_i8_mat *m = j->m;
	int64_t nr = m->f->nr, at = r->first + t, oy = at / r->p.tiles_w * 2, ox = at % r->p.tiles_w * 2;
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

/* Tiles [t, past), at most GROUP of them, by a block of columns whose transformed weights are @u. */
static void compute_group(const struct run *r, int64_t block, int64_t t, int64_t past, const int16_t *u,
			  int32_t *products)
{
	const struct rvl_i8_mat *m = r->j->m;
	int64_t nr = m->f->nr, mr = m->f->mr, step = r->p.v_step;

	for (int64_t value = 0; value < RVL_I8_WINO; value++)
		for (int64_t i = t; i < past; i += mr)
			m->f->winograd->multiply(r->v + (value * r->p.strip + i) * step, step,
						 u + value * r->p.u_step, m->kc, (int)rvl_least(mr, past - i),
						 products + (value * GROUP + i - t) * nr);
	for (int64_t i = t; i < past; i++)
		output_tile(r, block, i, i - t, products);
}

/* Parts are blocks of columns, or tiles where there are few blocks. */
static void multiply_part(void *arg, uint32_t i)
{
	const struct run *r = arg;
	const struct rvl_i8_mat *m = r->j->m;
	int64_t parts = r->p.parts, groups = rvl_ceil_div(r->tiles, GROUP);
	bool by_tiles = m->blocks % parts && m->blocks < 2 * parts;
	int64_t b = by_tiles ? 0 : i * m->blocks / parts, past = by_tiles ? m->blocks : (i + 1) * m->blocks / parts;
	int64_t first = by_tiles ? i * groups / parts * GROUP : 0;
	int64_t end = by_tiles ? (i + 1) * groups / parts * GROUP : r->tiles;
	uint8_t *mem = (uint8_t *)r->v + r->p.v_bytes + i * (r->p.u_bytes + r->p.m_bytes);
	int16_t *u = (int16_t *)(void *)mem;

	end = rvl_least(end, r->tiles);
	for (; b < past && first < end; b++) {
		m->f->winograd->weights((const int8_t *)m->w + b * rvl_i8_block_bytes(m), m->kc, u, r->p.u_step);
		for (int64_t t = first; t < end; t += GROUP)
			compute_group(r, b, t, rvl_least(t + GROUP, end), u,
				      (int32_t *)(void *)(mem + r->p.u_bytes));
	}
}

void rvl_i8_wino_run(const struct rvl_i8_wino_job *j, const struct rvl_pool *pool)
{
	struct run r = { .j = j, .p = plan_of(j->m, j->oh, j->ow), .v = (int16_t *)(void *)j->scratch };

	for (; r.first < r.p.tiles; r.first += r.tiles) {
		r.tiles = rvl_least(r.p.strip, r.p.tiles - r.first);
		rvl_parallel(pool, (uint32_t)r.p.parts, transform_part, &r);
		rvl_parallel(pool, (uint32_t)r.p.parts, multiply_part, &r);
	}
}

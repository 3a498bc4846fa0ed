// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
#include "rivulet_planes.h"
#include "rivulet_sparse.h"

static uint32_t div_up(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t mul(uint64_t a, uint64_t b)
{
	uint64_t r;

	return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* Whether a slice is 1, 2, 4 or 8 kernels, or a kernel 2 or 4 slices. */
static bool aligned(uint32_t planes, uint32_t group)
{
	if (group >= planes)
		return group == planes || group == 2 * planes || group == 4 * planes ||
		       group == 8 * planes;
	return planes == 2 * group || planes == 4 * group;
}

bool rivulet_planes_valid(const struct rivulet_board *b, const struct rivulet_insn_c_mode *m)
{
	return m->planes >= 1 && m->planes <= RIVULET_PLANES_BITS && m->group >= 1 &&
	       m->group <= RIVULET_PLANES_WIDEST && aligned(m->planes, m->group) && m->dn >= 1 &&
	       m->dn <= b->tn && div_up(b->tm * m->planes, m->group) <= b->tm * b->dn;
}

/* The engines compute as many pixels as have engines for all slices: a power of two. */
static uint32_t pixels_of(const struct rivulet_board *b, uint32_t slices)
{
	uint32_t pixels = 1;

	while (2 * pixels * slices <= b->tm * b->dn && 2 * pixels <= RIVULET_PLANES_MORE * b->dn)
		pixels *= 2;
	return pixels;
}

struct rivulet_planes rivulet_planes_of(const struct rivulet_board *b,
					const struct rivulet_insn_c_mode *m)
{
	uint32_t align = rivulet_sparse_of(b, 1).align, unit = align * RIVULET_WGT_WORD;
	struct rivulet_planes p = { .planes = m->planes, .group = m->group, .rows = m->dn };

	if (!m->planes || !m->group || !m->dn)
		return (struct rivulet_planes){ 0 };
	p.slices = div_up(b->tm * p.planes, p.group);
	p.pixels = pixels_of(b, p.slices);
	p.parts = p.group > p.planes ? p.group / p.planes : p.planes / p.group;
	p.fold = 2 * ((1u << p.group) - 1) + p.group;
	p.indices = p.rows < b->tn ? div_up(p.rows, unit) * align : 0;
	p.codes = div_up(p.rows * b->tm * p.planes, 8 * unit) * align;
	return p;
}

/* Of a group of @n pixels. */
static struct rivulet_planes_time group_time(const struct rivulet_board *b,
					     const struct rivulet_planes *p, uint64_t blocks,
					     uint64_t n)
{
	uint64_t tap = most(p->rows + !!p->indices, n);

	return (struct rivulet_planes_time){
		.cycles = mul(blocks, tap) + p->fold + n * p->parts,
		.weights = mul(blocks, !!p->indices + div_up(p->rows * p->planes, 8 * b->dn)),
		.acc = n * p->parts,
	};
}

struct rivulet_planes_time rivulet_planes_time(const struct rivulet_board *b,
					       const struct rivulet_planes *p, uint64_t blocks,
					       uint64_t rows, uint64_t cols)
{
	uint64_t whole = mul(rows, cols / p->pixels), rest = cols % p->pixels;
	struct rivulet_planes_time g = group_time(b, p, blocks, p->pixels), r = { 0 };

	if (rest)
		r = group_time(b, p, blocks, rest);
	return (struct rivulet_planes_time){
		.cycles = mul(g.cycles, whole) + mul(r.cycles, rows),
		.weights = mul(g.weights, whole) + mul(r.weights, rows),
		.acc = mul(g.acc, whole) + mul(r.acc, rows),
	};
}

uint64_t rivulet_planes_adds(const struct rivulet_board *b, const struct rivulet_planes *p,
			     uint64_t blocks)
{
	return mul(mul(blocks, p->rows) + p->fold, p->slices) + (uint64_t)p->parts * b->tm;
}

/* A weight lies in one byte or in two. */
int32_t rivulet_planes_weight(const struct rivulet_board *b, const struct rivulet_planes *p,
			      const uint8_t *codes, uint32_t r, uint32_t m)
{
	uint32_t bit = (r * b->tm + m) * p->planes, shift = bit % 8, v = codes[bit / 8];

	if (shift + p->planes > 8)
		v |= (uint32_t)codes[bit / 8 + 1] << 8;
	v = v >> shift & ((1u << p->planes) - 1);
	return (int32_t)v - (int32_t)(v >> (p->planes - 1) << p->planes);
}

void rivulet_planes_put(const struct rivulet_board *b, const struct rivulet_planes *p,
			uint8_t *codes, uint32_t r, uint32_t m, int32_t value)
{
	uint32_t bit = (r * b->tm + m) * p->planes, shift = bit % 8;
	uint32_t v = ((uint32_t)value & ((1u << p->planes) - 1)) << shift;

	codes[bit / 8] |= v;
	if (shift + p->planes > 8)
		codes[bit / 8 + 1] |= v >> 8;
}

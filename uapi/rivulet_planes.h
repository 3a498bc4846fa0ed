/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Bit-plane CONV: weights of few bits, each a column of bits for every plane; inputs are added into
 * buckets by their bits of several columns (docs/isa.md 5).
 */
#ifndef RIVULET_PLANES_H
#define RIVULET_PLANES_H

#include "rivulet_board.h"
#include "rivulet_isa.h"

#define RIVULET_PLANES_BITS   8 /* of a weight */
#define RIVULET_PLANES_WIDEST 8 /* columns of a slice */
#define RIVULET_PLANES_MORE   4 /* times dn: pixels at most that are computed at once */

/** struct rivulet_planes - how the engines compute, and what is in WGT */
struct rivulet_planes {
	uint32_t planes, group;	 /* bits of a weight, columns of a slice */
	uint32_t slices;	 /* of the columns of an output block */
	uint32_t pixels;	 /* of a row that are computed at once */
	uint32_t parts;		 /* accesses to ACC for a pixel */
	uint32_t fold;		 /* cycles */
	uint32_t rows;		 /* kept of a block */
	uint32_t indices, codes; /* WGT words of a tap */
};

/** struct rivulet_planes_time - of one output block */
struct rivulet_planes_time {
	uint64_t cycles;
	uint64_t weights, acc; /* of these, the cycles that read WGT, and those that access ACC */
};

/** rivulet_planes_valid() - whether the fields of C_MODE are those of a bit-plane CONV */
bool rivulet_planes_valid(const struct rivulet_board *b, const struct rivulet_insn_c_mode *m);
/** rivulet_planes_of() - @m is valid, or one of its fields is 0 and the result is too */
struct rivulet_planes rivulet_planes_of(const struct rivulet_board *b,
					const struct rivulet_insn_c_mode *m);
/** rivulet_planes_time() - @blocks pairs of an input block and a tap, over @rows rows of @cols
 * pixels */
struct rivulet_planes_time rivulet_planes_time(const struct rivulet_board *b,
					       const struct rivulet_planes *p, uint64_t blocks,
					       uint64_t rows, uint64_t cols);
/** rivulet_planes_adds() - additions of a pixel over @blocks blocks */
uint64_t rivulet_planes_adds(const struct rivulet_board *b, const struct rivulet_planes *p,
			     uint64_t blocks);

/** rivulet_planes_words() - WGT words of a tap */
static inline uint32_t rivulet_planes_words(const struct rivulet_planes *p)
{
	return p->indices + p->codes;
}

/** rivulet_planes_weight() - of kernel @m in row @r; @codes: behind the indices */
int32_t rivulet_planes_weight(const struct rivulet_board *b, const struct rivulet_planes *p,
			      const uint8_t *codes, uint32_t r, uint32_t m);
/** rivulet_planes_put() - sets that weight, in zeroed memory */
void rivulet_planes_put(const struct rivulet_board *b, const struct rivulet_planes *p,
			uint8_t *codes, uint32_t r, uint32_t m, int32_t value);

#endif

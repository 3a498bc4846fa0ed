/* SPDX-License-Identifier: MIT */
/*
 * Products of several pixels at once by buckets of vectors. A bucket is a sum of 16 bits for each
 * pixel, which overflows with no more than MOST inputs: a slice is folded where one of its buckets
 * has had so many, which dense codes hardly ever do.
 *
 * Each file that includes this one compiles it for other registers: the compiler splits the vectors
 * into those of the target before it inlines anything.
 */
#ifndef RVL_IBTF_LANES_H
#define RVL_IBTF_LANES_H

#include "rivulet_ibtf.h"

#include <string.h>

#define LANES RIVULET_IBTF_LANES
#define MOST  128 /* inputs of -256 to 255 that a sum of 16 bits holds */

/* Unsigned where they add: sums are modulo 2^32, and bucket 0, which nothing reads, may overflow.
 */
typedef uint16_t v16 __attribute__((vector_size(2 * LANES), aligned(64), may_alias));
typedef int16_t v16s __attribute__((vector_size(2 * LANES), aligned(64), may_alias));
typedef uint32_t v32 __attribute__((vector_size(4 * LANES), aligned(64), may_alias));
typedef int32_t v32s __attribute__((vector_size(4 * LANES), aligned(64), may_alias));

#define INLINE static inline

/* Adds the sums of the columns of a slice, whose buckets become 0, to @sum, one vector a column. */
INLINE void fold(v16 *bucket, uint32_t a, v32 *wide, v32 *sum)
{
	uint32_t n = 1u << a;

	for (uint32_t v = 1; v < n; v++) {
		wide[v] = (v32) __builtin_convertvector((v16s)bucket[v], v32s);
		bucket[v] = (v16){ 0 };
	}
	wide[0] = (v32){ 0 };
	for (uint32_t j = a; j-- > 0;) {
		uint32_t half = 1u << j;
		v32 t = wide[half];

		for (uint32_t v = 1; v < half; v++) {
			t += wide[v + half];
			wide[v] += wide[v + half];
		}
		sum[j] += t;
	}
}

/* Whether no bucket gets more inputs than its sums hold. */
INLINE bool fits(const struct rivulet_ibtf_shape *s, uint32_t a, const uint16_t *code,
		 uint16_t *count)
{
	uint32_t most = 0;

	if (s->n <= MOST)
		return true;
	memset(count, 0, sizeof(*count) << a);
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t n = code[i] ? ++count[code[i]] : 0u;

		most = n > most ? n : most;
	}
	return most <= MOST;
}

/* Folds wherever a bucket is full. */
INLINE void slice_in_parts(const struct rivulet_ibtf_shape *s, uint32_t a, const uint16_t *code,
			   const v16 *x, struct rivulet_ibtf_lanes *l, v32 *sum)
{
	v16 *bucket = (v16 *)l->bucket;

	memset(l->count, 0, sizeof(l->count[0]) << a);
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t v = code[i];

		if (!v)
			continue;
		if (++l->count[v] > MOST) {
			fold(bucket, a, (v32 *)l->wide, sum);
			memset(l->count, 0, sizeof(l->count[0]) << a);
			l->count[v] = 1;
		}
		bucket[v] += x[i];
	}
}

/* One slice over all inputs. What bucket 0 holds is of no concern. */
INLINE void slice(const struct rivulet_ibtf_shape *s, uint32_t a, const uint16_t *code,
		  const v16 *x, struct rivulet_ibtf_lanes *l, v32 *sum)
{
	v16 *bucket = (v16 *)l->bucket;

	if (fits(s, a, code, l->count))
		for (uint32_t i = 0; i < s->n; i++)
			bucket[code[i]] += x[i];
	else
		slice_in_parts(s, a, code, x, l, sum);
	fold(bucket, a, (v32 *)l->wide, sum);
}

/* Adds column @c, shifted, to the result of its kernel. */
INLINE void add_column(const struct rivulet_ibtf_shape *s, uint32_t c, const v32 *sum, int32_t *y)
{
	uint32_t bit = c % s->p;
	v32 *out = (v32 *)(y + (size_t)(c / s->p) * LANES), t = *sum << bit;

	*out = s->is_signed && bit == s->p - 1 ? *out - t : *out + t;
}

INLINE void run(const struct rivulet_ibtf_shape *s, const struct rivulet_ibtf_slices *cut,
		const uint16_t *codes, const int16_t *x, struct rivulet_ibtf_lanes *l, int32_t *y)
{
	uint32_t c = 0;

	memset(y, 0, (size_t)s->m * LANES * sizeof(*y));
	memset(l->bucket, 0, sizeof(l->bucket));
	for (uint32_t i = 0; i < cut->n; i++) {
		v32 sum[RIVULET_IBTF_LANES_WIDEST] = { { 0 } };

		slice(s, cut->width[i], codes + (size_t)i * s->n, (const v16 *)x, l, sum);
		for (uint32_t j = 0; j < cut->width[i]; j++)
			add_column(s, c++, &sum[j], y);
	}
}

#ifdef __x86_64__
void rvl_ibtf_lanes_avx2(const struct rivulet_ibtf_shape *s, const struct rivulet_ibtf_slices *cut,
			 const uint16_t *codes, const int16_t *x, struct rivulet_ibtf_lanes *l,
			 int32_t *y);
void rvl_ibtf_lanes_avx512(const struct rivulet_ibtf_shape *s,
			   const struct rivulet_ibtf_slices *cut, const uint16_t *codes,
			   const int16_t *x, struct rivulet_ibtf_lanes *l, int32_t *y);
#endif

#endif

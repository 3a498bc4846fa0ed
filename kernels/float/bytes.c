/* SPDX-License-Identifier: MIT */
/* Loops over bytes, which the compiler vectorises for each instruction set. */
#include "float/float.h"

#define INLINE static inline __attribute__((always_inline))

#define LOOPS(name, type)                                                                          \
	INLINE void convert_##name(const struct rvl_f32_bytes_call *c, const type *x, int64_t n)   \
	{                                                                                          \
		for (int64_t r = 0; r < c->rows; r++) {                                            \
			const type *from = x + r * c->x_row;                                       \
			float *y = c->y + r * c->y_row;                                            \
			for (int64_t i = 0; i < n; i++)                                            \
				y[i] = (float)(from[i] - c->zero);                                 \
		}                                                                                  \
	}                                                                                          \
	INLINE void sum_##name(const int16_t *v, int64_t k, const type *restrict w, int64_t n,     \
			       uint32_t *restrict y)                                               \
	{                                                                                          \
		for (; k >= 4; k -= 4, v += 4, w += 4 * n) {                                       \
			int32_t a = v[0], b = v[1], c = v[2], d = v[3];                            \
			for (int64_t i = 0; i < n; i++)                                            \
				y[i] += (uint32_t)(a * w[i] + b * w[n + i] + c * w[2 * n + i] +    \
						   d * w[3 * n + i]);                              \
		}                                                                                  \
		for (; k > 0; k--, v++, w += n)                                                    \
			for (int64_t i = 0; i < n; i++)                                            \
				y[i] += (uint32_t)(*v * w[i]);                                     \
	}

LOOPS(u8, uint8_t)
LOOPS(s8, int8_t)

#define SET(set, target)                                                                           \
	static target void convert_##set(const struct rvl_f32_bytes_call *c)                       \
	{                                                                                          \
		if (c->u8 && c->n == 16)                                                           \
			convert_u8(c, c->x, 16);                                                   \
		else if (c->u8)                                                                    \
			convert_u8(c, c->x, c->n);                                                 \
		else if (c->n == 16)                                                               \
			convert_s8(c, c->x, 16);                                                   \
		else                                                                               \
			convert_s8(c, c->x, c->n);                                                 \
	}                                                                                          \
	static target void sum_##set(const int16_t *v, int64_t k, const void *w, bool u8,          \
				     int64_t n, uint32_t *y)                                       \
	{                                                                                          \
		if (u8)                                                                            \
			sum_u8(v, k, w, n, y);                                                     \
		else                                                                               \
			sum_s8(v, k, w, n, y);                                                     \
	}                                                                                          \
	const struct rvl_f32_bytes rvl_f32_bytes_##set = { .convert = convert_##set,               \
							   .sum = sum_##set };

SET(base, )
#ifdef __x86_64__
SET(avx2, __attribute__((target("avx2"))))
SET(avx512, __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512"))))
#endif

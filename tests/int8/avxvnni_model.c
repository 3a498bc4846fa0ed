// SPDX-License-Identifier: MIT
/* The kernels for AVX-VNNI with a model of VPDPBUSD, for processors that lack the instruction. */
#ifdef __x86_64__
#include <immintrin.h>

#include "int8/shapes.h"

#define RVL_AVXVNNI_MODEL
#define TARGET __attribute__((target("avx2,fma")))
#define V_DPBUSD dpbusd
#define KERNELS int8_avxvnni_model

/* Each dword of @sum gets four products of unsigned bytes of @a by signed bytes of @b, modulo 2^32. */
static __attribute__((target("avx2"))) __m256i dpbusd(__m256i sum, __m256i a, __m256i b)
{
	uint32_t s[8];
	uint8_t x[32];
	int8_t y[32];

	_mm256_storeu_si256((__m256i *)s, sum);
	_mm256_storeu_si256((__m256i *)x, a);
	_mm256_storeu_si256((__m256i *)y, b);
	for (int i = 0; i < 32; i++)
		s[i / 4] += (uint32_t)(x[i] * y[i]);
	return _mm256_loadu_si256((const __m256i *)s);
}

#include "../../kernels/int8/avxvnni.c"
#endif

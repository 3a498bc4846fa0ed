/* SPDX-License-Identifier: MIT */
/* Quantised sums and products of two tensors with AVX2, as rvl_ref_qadd() and rvl_ref_qmul(). */
#ifndef RVL_INT8_BINARY_H
#define RVL_INT8_BINARY_H

#include <stdint.h>

struct rvl_qbinary;

#ifdef __x86_64__
void rvl_i8_add_avx2(const struct rvl_qbinary *p, int64_t n, const void *a, int64_t ia,
		     const void *b, int64_t ib, void *y);
void rvl_i8_mul_avx2(const struct rvl_qbinary *p, int64_t n, const void *a, int64_t ia,
		     const void *b, int64_t ib, void *y);
#endif

#endif

/* SPDX-License-Identifier: MIT */
/* Chooses the binary kernels of the instruction set in use. */
#include "binary/binary.h"
#include "isa.h"

const struct rvl_b_kernels *rvl_b_kernels(void)
{
#ifdef __x86_64__
	if (rvl_isa() >= RVL_ISA_AVX512VNNI)
		return __builtin_cpu_supports("avx512vpopcntdq") ? &rvl_b_vpopcnt : &rvl_b_avx512;
	if (rvl_isa() >= RVL_ISA_AVX2)
		return &rvl_b_avx2;
#endif
#ifdef __aarch64__
	if (rvl_isa() >= RVL_ISA_NEON)
		return &rvl_b_neon;
#endif
	return &rvl_b_scalar;
}

/* SPDX-License-Identifier: MIT */
/* Detects the instruction sets of the processor. */
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "isa.h"

bool rvl_isa_available(enum rvl_isa isa)
{
	switch (isa) {
#ifdef __x86_64__
	case RVL_ISA_SSE41:
		return __builtin_cpu_supports("sse4.1");
	case RVL_ISA_AVX2:
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	case RVL_ISA_AVX512VNNI:
		return rvl_isa_available(RVL_ISA_AVX2) && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#endif
#ifdef __aarch64__
	case RVL_ISA_NEON:
		return true;
	case RVL_ISA_DOTPROD:
		return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
	case RVL_ISA_I8MM:
		return rvl_isa_available(RVL_ISA_DOTPROD) && getauxval(AT_HWCAP2) & HWCAP2_I8MM;
#endif
	default:
		return isa == RVL_ISA_SCALAR;
	}
}

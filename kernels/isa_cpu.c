/* SPDX-License-Identifier: MIT */
/* Detects the instruction sets of the processor. */
#ifdef __aarch64__
#include <sys/auxv.h>
#endif
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "isa.h"

#ifdef __x86_64__
/* Leaf 7.1 of CPUID. __builtin_cpu_supports() of older compilers does not know the feature. */
static bool has_avxvnni(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && eax & 1 << 4;
}

#define AMX_FEATURES (3u << 24)	/* AMX-TILE and AMX-INT8, in EDX of leaf 7 of CPUID */
#define REQUEST_PERMISSION 0x1023	/* ARCH_REQ_XCOMP_PERM of arch_prctl() */
#define TILE_DATA 18		/* the state component that needs it */

/*
 * Linux keeps the state of tiles, which has 8 KiB, only for processes that request it. The permission
 * holds for all threads. A kernel that does not know the request, or a filter of system calls, refuses.
 */
static bool has_amx(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & AMX_FEATURES) == AMX_FEATURES &&
	       !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
}
#endif

bool rvl_isa_available(enum rvl_isa isa)
{
	switch (isa) {
#ifdef __x86_64__
	case RVL_ISA_SSE41:
		return __builtin_cpu_supports("sse4.1");
	case RVL_ISA_AVX2:
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	case RVL_ISA_AVXVNNI:
		return rvl_isa_available(RVL_ISA_AVX2) && has_avxvnni();
	case RVL_ISA_AVX512VNNI:
		return rvl_isa_available(RVL_ISA_AVX2) && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
	case RVL_ISA_AMX:
		return rvl_isa_available(RVL_ISA_AVX512VNNI) && has_amx();
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

bool rvl_have_vbmi(void)
{
#ifdef __x86_64__
	return rvl_isa() >= RVL_ISA_AVX512VNNI && __builtin_cpu_supports("avx512vbmi");
#else
	return false;
#endif
}

/* SPDX-License-Identifier: MIT */
/*
 * Hides from a program what x86 processors have beyond AVX2 and FMA, so that a library that chooses its
 * kernels by CPUID chooses those of AVX2. To be loaded by LD_PRELOAD. The kernel makes CPUID raise SIGSEGV
 * (arch_prctl(2), ARCH_SET_CPUID); the handler executes it and clears bits of the result. The C library has
 * chosen its own functions before, and a program that blocks or handles SIGSEGV itself ends at CPUID.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012
#define FEATURES 7	/* the leaf of CPUID that names the extensions */

struct leaf {
	uint32_t a, b, c, d;
};

/* The bits that are cleared in leaf 7, by subleaf. */
static const struct leaf hidden[] = {
	{
		/* AVX-512: F, DQ, IFMA, PF, ER, CD, BW, VL */
		.b = 1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31,
		/* VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ */
		.c = 1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14,
		/* 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, FP16, AMX-TILE, AMX-INT8 */
		.d = 1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25,
	},
	{
		/* AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA */
		.a = 1u << 4 | 1u << 5 | 1u << 21 | 1u << 23,
		/* AVX-VNNI-INT8, AVX-NE-CONVERT, AMX-COMPLEX, AVX-VNNI-INT16, AVX10 */
		.d = 1u << 4 | 1u << 5 | 1u << 8 | 1u << 10 | 1u << 19,
	},
};

static int trap(int on)
{
	return (int)syscall(SYS_arch_prctl, ARCH_SET_CPUID, !on);
}

static struct leaf cpuid(uint32_t a, uint32_t c)
{
	struct leaf l;
	const struct leaf *hide = a == FEATURES && c < sizeof(hidden) / sizeof(hidden[0]) ? &hidden[c] : NULL;

	trap(0);
	__asm__ volatile("cpuid" : "=a"(l.a), "=b"(l.b), "=c"(l.c), "=d"(l.d) : "a"(a), "c"(c));
	trap(1);
	if (hide) {
		/* Of subleaf 0, a is the number of the last subleaf. */
		l.a = c ? l.a & ~hide->a : 1;
		l.b &= ~hide->b;
		l.c &= ~hide->c;
		l.d &= ~hide->d;
	}
	return l;
}

static void handle(int signal_number, siginfo_t *info, void *context)
{
	static const uint8_t opcode[] = { 0x0f, 0xa2 };
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	struct leaf l;

	(void)info;
	if (memcmp((const void *)r[REG_RIP], opcode, sizeof(opcode))) {
		signal(signal_number, SIG_DFL);	/* the fault is repeated */
		return;
	}
	l = cpuid((uint32_t)r[REG_RAX], (uint32_t)r[REG_RCX]);
	r[REG_RAX] = l.a;
	r[REG_RBX] = l.b;
	r[REG_RCX] = l.c;
	r[REG_RDX] = l.d;
	r[REG_RIP] += (greg_t)sizeof(opcode);
}

static __attribute__((constructor)) void start(void)
{
	static const char message[] = "avx2_only: neither this processor nor its hypervisor can trap CPUID\n";
	const struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER };

	if (!sigaction(SIGSEGV, &action, NULL) && !trap(1))
		return;
	_exit(write(STDERR_FILENO, message, sizeof(message) - 1) < 0 ? 2 : 1);
}

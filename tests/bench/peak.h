/* SPDX-License-Identifier: MIT */
/* The rate at which a core executes the multiplication on which the kernels of a set are built. */
#ifndef RVL_BENCH_PEAK_H
#define RVL_BENCH_PEAK_H

#include <stddef.h>
#include <string.h>

#include "rivulet_kernels.h"

#define PEAK_STEPS 100000	/* of the loop */
#define PEAK_SUMS 12		/* independent sums, which hide the latency of the instruction */

struct peak {
	const char *set, *instruction;
	void (*loop)(void);	/* PEAK_STEPS * PEAK_SUMS instructions */
	int macs;		/* of one instruction */
};

/* The body of a loop. @one(i) is the text of an instruction that adds to register i. */
#ifdef __x86_64__
#define PEAK_LOOP(one) { \
	long n = PEAK_STEPS; \
	__asm__ volatile("1:\n" one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) \
			 one(10) one(11) "dec %0\njnz 1b\n" : "+r"(n) : : "cc", "xmm0", "xmm1", "xmm2", \
			 "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11"); \
}
#endif

/* The row of the set, or NULL. */
static inline const struct peak *peak_of(const struct peak *peaks, size_t n, const char *set)
{
	for (size_t i = 0; i < n; i++)
		if (peaks[i].set && !strcmp(peaks[i].set, set))
			return &peaks[i];
	return NULL;
}

static inline double peak_macs(const struct peak *p)
{
	return (double)PEAK_STEPS * PEAK_SUMS * p->macs;
}

/* The name of the instruction set in use. */
static inline const char *peak_set(void)
{
	struct rvl_cpu_set s;

	for (uint32_t i = 0; rvl_cpu_set(i, &s); i++)
		if (s.used)
			return s.name;
	return "";
}

#endif

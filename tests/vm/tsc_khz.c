// SPDX-License-Identifier: MIT
/*
 * tsc_khz: prints the frequency of the processor's time-stamp counter in kHz, or nothing where
 * there is none. It is measured against CLOCK_MONOTONIC_RAW. Time for which this process waits for
 * a processor does not matter, because counter and clock are read together.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#ifdef __x86_64__
#include <x86intrin.h>

/* number of reads; the one with the least delay between counter and clock counts */
#define TRIES	100

struct moment {
	uint64_t ticks;
	int64_t ns;
};

static int64_t clock_raw(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static struct moment now(void)
{
	struct moment best = { 0, 0 };
	int64_t least = INT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		int64_t before = clock_raw();
		uint64_t ticks = __rdtsc();
		int64_t after = clock_raw();

		if (after - before >= least)
			continue;
		least = after - before;
		best = (struct moment){ ticks, before + (after - before) / 2 };
	}
	return best;
}

int main(void)
{
	struct timespec pause = { 0, 200000000 };
	struct moment start = now(), end;

	nanosleep(&pause, NULL);
	end = now();
	printf("%.0f\n", (double)(end.ticks - start.ticks) * 1e6 / (double)(end.ns - start.ns));
	return 0;
}
#else
int main(void)
{
	return 0;
}
#endif

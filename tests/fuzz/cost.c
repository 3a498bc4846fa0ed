/* SPDX-License-Identifier: MIT */
/* Counts the memory and the time that an input costs. */
#include <stdatomic.h>

#include "fuzz.h"

/* Of the sanitizers' allocator; absent in other builds. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
					      void (*on_free)(const volatile void *))
	__attribute__((weak));
size_t __sanitizer_get_allocated_size(const volatile void *p) __attribute__((weak));

/* Memory that was allocated before the hooks are installed makes these numbers negative. */
static _Atomic int64_t held, peak;

static void on_malloc(const volatile void *p, size_t size)
{
	int64_t now = atomic_fetch_add(&held, (int64_t)size) + (int64_t)size;
	int64_t most = atomic_load(&peak);

	(void)p;
	while (now > most && !atomic_compare_exchange_weak(&peak, &most, now))
		;
}

static void on_free(const volatile void *p)
{
	if (p)
		atomic_fetch_sub(&held, (int64_t)__sanitizer_get_allocated_size(p));
}

struct fuzz_cost fuzz_begin(void)
{
	static bool installed;
	struct fuzz_cost c;

	if (!installed && __sanitizer_install_malloc_and_free_hooks)
		__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
	installed = true;
	c.held = atomic_load(&held);
	atomic_store(&peak, c.held);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &c.start);
	return c;
}

void fuzz_end(const struct fuzz_cost *c, uint64_t bytes)
{
	uint64_t most = (uint64_t)(atomic_load(&peak) - c->held);
	struct timespec now;
	double seconds;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	seconds = (double)(now.tv_sec - c->start.tv_sec) + (double)(now.tv_nsec - c->start.tv_nsec) / 1e9;
	if (most > bytes)
		fprintf(stderr, "%llu bytes allocated, more than %llu\n", (unsigned long long)most,
			(unsigned long long)bytes);
	if (seconds > FUZZ_SECONDS)
		fprintf(stderr, "%.1f s of processor time\n", seconds);
	fuzz_expect(most <= bytes);
	fuzz_expect(seconds <= FUZZ_SECONDS);
}

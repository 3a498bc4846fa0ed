/* SPDX-License-Identifier: MIT */
/* Random shapes for kernels, and memory between pages that cannot be accessed. */
#ifndef RVL_TEST_GUARDED_H
#define RVL_TEST_GUARDED_H

#include "rivulet_kernels.h"

__attribute__((noreturn)) void test_die(const char *why);

/** Begins the numbers of shape @i. */
void test_seed(long i);
/** A random number below @n. */
uint32_t test_rnd(uint32_t n);

struct test_guarded {
	uint8_t *map, *p;
	size_t mapped, size;
};

/** @size random bytes aligned to @align between two guard pages, next to one of them. */
struct test_guarded test_guarded(size_t size, size_t align);
void test_drop(struct test_guarded *g);

size_t test_bytes(const struct rvl_kernel_arg *a);
void test_image(struct rvl_kernel_arg *a, enum rvl_type t, int64_t n, int64_t c, int64_t h, int64_t w);
void test_matrix(struct rvl_kernel_arg *a, enum rvl_type t, int64_t rows, int64_t cols, bool trans);

/** One axis of a window over @n positions, of at most @most taps; returns the number of results. */
int64_t test_axis(struct rvl_attr *a, int i, int64_t n, uint32_t most);

/**
 * Prepares a kernel and runs it with guarded scratch memory: without a pool, or with one of @threads
 * that runs the items in reverse order. Two items that write the same scratch memory end the program.
 */
void test_run(const struct rvl_kernel_desc *d, bool reference, const void *const *in,
	      const struct test_guarded *y, uint32_t threads);

/** The same with several results. */
void test_run_outputs(const struct rvl_kernel_desc *d, bool reference, const void *const *in,
		      void *const *out, uint32_t threads);

/** Forces each instruction set of this processor. The first with which @differs is true, or NULL. */
const char *test_each_set(bool (*differs)(void *arg), void *arg);

#endif

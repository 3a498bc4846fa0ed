/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target is one file with FUZZ_TARGET(NAME) { ... } over @data and @size. make fuzz links each
 * with libFuzzer, tests/unit/test_corpus.c links all of them and runs the corpora.
 */
#ifndef RVL_FUZZ_H
#define RVL_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int fuzz_reader(const uint8_t *data, size_t size);
int fuzz_program(const uint8_t *data, size_t size);
int fuzz_examples(const uint8_t *data, size_t size);
int fuzz_shapes(const uint8_t *data, size_t size);

#ifdef FUZZ_MAIN
#define FUZZ_ENTRY(name) \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) \
	{ \
		return fuzz_##name(data, size); \
	}
#else
#define FUZZ_ENTRY(name)
#endif
#define FUZZ_TARGET(name) FUZZ_ENTRY(name) int fuzz_##name(const uint8_t *data, size_t size)

/* Reports a finding if the condition is false. */
#define fuzz_expect(holds) \
	do { \
		if (!(holds)) { \
			fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #holds); \
			abort(); \
		} \
	} while (0)

/*
 * What an input may cost: memory beyond what was allocated before, and processor time, which other
 * processes do not change. The build with sanitizers is some five times slower than the others and
 * counts memory; others count time only.
 */
struct fuzz_cost {
	int64_t held;	/* bytes allocated at the start */
	struct timespec start;
};

#define FUZZ_SECONDS 15

struct fuzz_cost fuzz_begin(void);
/* Reports a finding if more than @bytes were allocated at once, or if it took too long. */
void fuzz_end(const struct fuzz_cost *c, uint64_t bytes);

/* Reads the input as a sequence of numbers. Behind its end it reads zeros. */
struct fuzz_bytes {
	const uint8_t *p;
	size_t left;
};

static inline void fuzz_take(struct fuzz_bytes *b, void *to, size_t n)
{
	size_t m = n < b->left ? n : b->left;

	memset(to, 0, n);
	memcpy(to, b->p, m);
	b->p += m;
	b->left -= m;
}

static inline uint8_t fuzz_u8(struct fuzz_bytes *b)
{
	uint8_t v;

	fuzz_take(b, &v, 1);
	return v;
}

#endif

/* SPDX-License-Identifier: MIT */
/* Random shapes as a test of eight parts. */
#ifndef RVL_TEST_SHAPES_CASE_H
#define RVL_TEST_SHAPES_CASE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "suite.h"

#define SHAPES 2000
#define SHAPE_PARTS 8

/**
 * Compares the shapes of one part. The environment variable @variable replaces their number, or
 * gives a range of them as FIRST:PAST, which may not be empty.
 */
static inline void compare_shapes(const char *variable, int part, const char *(*compare)(long i))
{
	const char *given = getenv(variable);
	long first = 0, past = random_cases(SHAPES);

	if (given && sscanf(given, "%ld:%ld", &first, &past) != 2) {
		first = 0;
		past = strtol(given, NULL, 10);
	}
	ck_assert_msg(past > first, "%s=%s: no shape", variable, given);
	for (long i = first + part; i < past; i += SHAPE_PARTS) {
		const char *differs = compare(i);

		if (differs)
			ck_abort_msg("shape %ld differs with %s", i, differs);
	}
}

#endif

/* SPDX-License-Identifier: MIT */
/* Random shapes as a test of eight parts. */
#ifndef RVL_TEST_SHAPES_CASE_H
#define RVL_TEST_SHAPES_CASE_H

#include <check.h>
#include <stdlib.h>

#include "suite.h"

#define SHAPES 2000
#define SHAPE_PARTS 8

/** Compares the shapes of one part; the environment variable @variable replaces their number. */
static inline void compare_shapes(const char *variable, int part, const char *(*compare)(long i))
{
	const char *given = getenv(variable);
	long shapes = given ? strtol(given, NULL, 10) : random_cases(SHAPES);

	for (long i = part; i < shapes; i += SHAPE_PARTS) {
		const char *differs = compare(i);

		if (differs)
			ck_abort_msg("shape %ld differs with %s", i, differs);
	}
}

#endif

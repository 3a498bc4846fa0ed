/* SPDX-License-Identifier: MIT */
/* The random shapes of tests/float. RVL_FLOAT_SHAPES=N tries N shapes instead of 2,000. */
#include <check.h>
#include <stdlib.h>

#include "float/shapes.h"
#include "suite.h"

#define SHAPES 2000

START_TEST(every_set_is_close_to_the_reference)
{
	const char *given = getenv("RVL_FLOAT_SHAPES");
	long shapes = given ? strtol(given, NULL, 10) : SHAPES;

	for (long i = _i; i < shapes; i += 8) {
		const char *differs = float_compare(i);

		if (differs)
			ck_abort_msg("shape %ld differs with %s", i, differs);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("float");
	TCase *shapes = add_case(s, "shapes", 3600, NULL, NULL);

	tcase_add_loop_test(shapes, every_set_is_close_to_the_reference, 0, 8);
	return run_suite(s);
}

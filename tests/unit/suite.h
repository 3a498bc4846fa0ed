/* SPDX-License-Identifier: MIT */
/* What the main() of every unit test uses. */
#ifndef RVL_SUITE_H
#define RVL_SUITE_H

#include <check.h>
#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>

/*
 * Whether a test tries all of its random cases. With AddressSanitizer it does not: misuse of memory
 * does not depend on the values, and each case takes five times as long there. Nor does it where
 * FEW_CASES is set: scripts/fresh-env sets it where the same cases run in another environment.
 */
static inline bool all_cases(void)
{
#ifdef __SANITIZE_ADDRESS__
	return false;
#else
	return !getenv("FEW_CASES");
#endif
}

/* One of how many random cases a test tries. */
static inline int case_step(void)
{
	return all_cases() ? 1 : 4;
}

/* How many of @n random cases a test tries: all of them, or a quarter. */
static inline int random_cases(int n)
{
	return (n + case_step() - 1) / case_step();
}

/* Runs a suite and frees it. Returns the exit status. */
static inline int run_suite(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/*
 * Adds a test case to @s. Each of its tests may take @seconds, and runs between the checked
 * fixtures @setup and @teardown unless these are NULL.
 */
static inline TCase *add_case(Suite *s, const char *name, double seconds, SFun setup, SFun teardown)
{
	TCase *t = tcase_create(name);

	tcase_set_timeout(t, seconds);
	if (setup)
		tcase_add_checked_fixture(t, setup, teardown);
	suite_add_tcase(s, t);
	return t;
}

/*
 * Runs a suite of the client library in the locale of the environment. The programs of this
 * repository stay in the C locale, but a program that links the library may call setlocale().
 */
static inline int run_library_suite(Suite *s)
{
	setlocale(LC_ALL, "");
	return run_suite(s);
}

#endif

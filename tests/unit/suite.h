/* SPDX-License-Identifier: MIT */
/* The end of every unit test's main(). */
#ifndef RVL_SUITE_H
#define RVL_SUITE_H

#include <check.h>
#include <locale.h>
#include <stdlib.h>

/* Runs a suite, which is freed; returns the exit status. */
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
 * Runs a suite of the client library in the locale of the environment. Our own programs stay in the
 * C locale, but a program that links the library may call setlocale().
 */
static inline int run_library_suite(Suite *s)
{
	setlocale(LC_ALL, "");
	return run_suite(s);
}

#endif

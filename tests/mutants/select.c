// SPDX-License-Identifier: MIT
/*
 * Linked into the unit tests of a mutation run with --wrap=_tcase_add_test: MUTANTS_TESTS=a,b runs only
 * the tests of these names, MUTANTS_LIST=1 prints the names and adds none. Check itself selects only
 * whole test cases.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdbool.h>

/* Weak, because programs that are no unit tests are linked with the same flags. */
void __real__tcase_add_test(TCase *tc, const TTest *t, int sig, int status, int start, int end)
	__attribute__((weak));
void __wrap__tcase_add_test(TCase *tc, const TTest *t, int sig, int status, int start, int end);

static bool listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, name, len) && (at[len] == ',' || !at[len]))
			return true;
	return false;
}

void __wrap__tcase_add_test(TCase *tc, const TTest *t, int sig, int status, int start, int end)
{
	const char *tests = getenv("MUTANTS_TESTS");

	if (getenv("MUTANTS_LIST")) {
		printf("test %s\n", t->name);
		return;
	}
	if (!tests || listed(tests, t->name))
		__real__tcase_add_test(tc, t, sig, status, start, end);
}

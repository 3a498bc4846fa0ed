/* SPDX-License-Identifier: MIT */
/* Verbs of the `rivulet` command, run in the test, with what they print looked at; for one test program. */
#ifndef RIVULET_TEST_VERB_H
#define RIVULET_TEST_VERB_H

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../tool/tool.h"

static char out[1 << 20];	/* what the last verb printed */

/* Runs a verb with its words, standard output into @out. */
static int verb(int (*fn)(int argc, char **argv), const char *words)
{
	static char copy[2048];
	char *argv[64], path[32], *save = NULL;
	int argc = 0, saved = dup(STDOUT_FILENO), printed = memfd_create("stdout", MFD_CLOEXEC), r;
	ssize_t n;

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	rvl_tool_json = strstr(words, "--json") != NULL;
	*rvl_tool_error = 0;
	fflush(stdout);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", printed);
	ck_assert_ptr_nonnull(freopen(path, "w", stdout));
	r = fn(argc, argv);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	n = pread(printed, out, sizeof(out) - 1, 0);
	ck_assert_int_ge(n, 0);
	out[n] = 0;
	close(printed);
	return r;
}

#define EXPECT(fn, words, code)                                                                    \
	do {                                                                                       \
		int r_ = verb(fn, words);                                                          \
		ck_assert_msg(r_ == (code), "%s: exit %d (%s)", words, r_, rvl_tool_error);        \
	} while (0)
#define SAYS(text) ck_assert_msg(strstr(out, text) != NULL, "no \"%s\" in:\n%.3000s", text, out)

#endif

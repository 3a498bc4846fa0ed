/* SPDX-License-Identifier: MIT */
/*
 * Runs verbs of the `rivulet` command inside the test and captures their output. Included by one
 * file of a test program.
 */
#ifndef RIVULET_TEST_VERB_H
#define RIVULET_TEST_VERB_H

#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../tool/verb.h"

static char out[1 << 20];	/* standard output of the last verb */
static char err_out[1 << 16];	/* standard error of the last verb */

/* Redirects standard output or standard error to a memory file. */
struct capture {
	FILE *f;
	int fd, saved, memory;
};

static inline struct capture capture_start(FILE *f, int fd)
{
	struct capture c = { f, fd, dup(fd), memfd_create("capture", MFD_CLOEXEC) };

	fflush(f);
	ck_assert_int_ge(dup2(c.memory, fd), 0);
	return c;
}

static inline void capture_end(struct capture *c, char *text, size_t size)
{
	ssize_t n;

	fflush(c->f);
	dup2(c->saved, c->fd);
	close(c->saved);
	n = pread(c->memory, text, size - 1, 0);
	ck_assert_int_ge(n, 0);
	text[n] = 0;
	close(c->memory);
}

/* Returns the verb that the last "rivulet VERB" before @at names, or @v if there is none. */
static inline const struct rvl_verb *verb_before(const char *text, const char *at,
						 const struct rvl_verb *v)
{
	for (const char *p = text; (p = strstr(p, "rivulet ")) && p < at; p++) {
		char name[32];
		size_t n = strspn(p + 8, "abcdefghijklmnopqrstuvwxyz");

		snprintf(name, sizeof(name), "%.*s", (int)n, p + 8);
		v = rvl_verb_find(name) ? rvl_verb_find(name) : v;
	}
	return v;
}

/* Proves for every error text that the options it names are options of the verb in question. */
static inline void check_advice(const char *words)
{
	const struct rvl_verb *v;
	char name[64];
	size_t n = strcspn(words, " ");

	snprintf(name, sizeof(name), "%.*s", (int)n, words);
	v = rvl_verb_find(name);
	if (!v || !strncmp(rvl_tool_error, "unknown option", 14))
		return;
	for (const char *p = rvl_tool_error; (p = strstr(p, "--")); p += 2) {
		n = strspn(p + 2, "abcdefghijklmnopqrstuvwxyz0123456789-");
		snprintf(name, sizeof(name), "%.*s", (int)n, p + 2);
		ck_assert_msg(rvl_verb_has(verb_before(rvl_tool_error, p, v), name) ||
			      !strcmp(name, "help"),
			      "%s: the error names --%s, which the verb lacks: %s", words, name,
			      rvl_tool_error);
	}
}

/* Runs "VERB words..." as the command would. Returns its exit status. */
static inline int verb(const char *words)
{
	struct capture o = capture_start(stdout, STDOUT_FILENO), e = capture_start(stderr,
										   STDERR_FILENO);
	static char copy[4096];
	char *argv[128] = { (char *)"rivulet" }, *save = NULL;
	int argc = 1, r;

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	r = rvl_tool_main(argc, argv);
	capture_end(&o, out, sizeof(out));
	capture_end(&e, err_out, sizeof(err_out));
	check_advice(words);
	return r;
}

/*
 * Proves that the last output is strict JSON, and that rivulet-json(5) documents each of its
 * members.
 */
static inline void check_json(const char *schema)
{
	char command[300];
	FILE *f;

	snprintf(command, sizeof(command), "{\"schema\":\"%s\"", schema);
	ck_assert_msg(!strncmp(out, command, strlen(command)), "schema: %.60s", out);
	fflush(NULL);
	f = popen("python3 tests/json_strict.py docs/man/rivulet-json.5", "w");
	ck_assert_ptr_nonnull(f);
	fputs(out, f);
	ck_assert_msg(!pclose(f), "%.400s", out);
}

#define EXPECT(words, code)                                                                        \
	do {                                                                                       \
		int r_ = verb(words);                                                              \
		ck_assert_msg(r_ == (code), "%s: exit %d (%s)", words, r_, rvl_tool_error);        \
	} while (0)
#define SAYS(text) ck_assert_msg(strstr(out, text) != NULL, "no \"%s\" in:\n%.3000s", text, out)

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Runs the built `rivulet` program as a user runs it: with arguments, a terminal, a pipe and
 * signals.
 */
#ifndef RIVULET_TEST_PROGRAM_H
#define RIVULET_TEST_PROGRAM_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "files.h"

#define PROGRAM_SECONDS 60	/* timeout of an answer, with sanitizers on a busy machine */

struct program {
	pid_t pid;
	int out;		/* memory file that receives its standard output */
	int terminal;		/* master of its standard error */
	char seen[1 << 16];	/* what was read from the terminal */
	size_t n;
};

static inline void program_exec(const char *words)
{
	char copy[4096], path[320], *argv[128] = { (char *)"rivulet" }, *save = NULL;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_DFL);
	program_path(path, sizeof(path), "rivulet");
	execv(path, argv);
	_exit(127);
}

/* Starts the program with standard error on a terminal and standard output in a file. */
static inline void program_start(struct program *p, const char *words)
{
	int slave;

	p->n = 0;
	p->seen[0] = 0;
	p->out = memfd_create("out", MFD_CLOEXEC);
	p->terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	ck_assert(p->terminal >= 0 && !grantpt(p->terminal) && !unlockpt(p->terminal));
	slave = open(ptsname(p->terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(slave, 0);
	p->pid = fork();
	ck_assert_int_ge(p->pid, 0);
	if (!p->pid) {
		dup2(p->out, STDOUT_FILENO);
		dup2(slave, STDERR_FILENO);
		program_exec(words);
	}
	close(slave);
}

/* Reads what the terminal has, within a second. Returns false if the program has ended. */
static inline bool program_read(struct program *p)
{
	struct pollfd f = { .fd = p->terminal, .events = POLLIN };
	ssize_t n;

	poll(&f, 1, 1000);
	n = read(p->terminal, p->seen + p->n, sizeof(p->seen) - 1 - p->n);
	if (n < 0 && errno == EAGAIN)
		return true;
	if (n <= 0)
		return false;
	p->n += (size_t)n;
	p->seen[p->n] = 0;
	return true;
}

/* Whether @text stands somewhere in @seen, behind a number of at least @least; 0: behind anything. */
static inline bool has_count(const char *seen, unsigned long least, const char *text)
{
	for (const char *at = seen; (at = strstr(at, text)); at++) {
		const char *digits = at;

		while (digits > seen && digits[-1] >= '0' && digits[-1] <= '9')
			digits--;
		if (!least || (digits < at && strtoul(digits, NULL, 10) >= least))
			return true;
	}
	return false;
}

/* Reads the terminal until has_count(). Returns false if the program ends before. */
static inline bool program_counts(struct program *p, unsigned long least, const char *text)
{
	time_t end = time(NULL) + PROGRAM_SECONDS;

	while (!has_count(p->seen, least, text)) {
		struct pollfd f = { .fd = p->terminal, .events = POLLIN };
		ssize_t n;

		ck_assert_msg(time(NULL) < end, "no \"%s\" on the terminal: %.500s", text, p->seen);
		poll(&f, 1, 1000);
		n = read(p->terminal, p->seen + p->n, sizeof(p->seen) - 1 - p->n);
		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0)
			return false;
		p->n += (size_t)n;
		p->seen[p->n] = 0;
	}
	return true;
}

static inline bool program_shows(struct program *p, const char *text)
{
	return program_counts(p, 0, text);
}

/* Waits for the end of the program. Returns its wait status; @text receives its standard output. */
static inline int program_end(struct program *p, char *text, size_t size)
{
	int status;
	ssize_t n;

	while (program_shows(p, "\x01 never printed"))
		;
	ck_assert_int_eq(waitpid(p->pid, &status, 0), p->pid);
	n = pread(p->out, text, size - 1, 0);
	ck_assert_int_ge(n, 0);
	text[n] = 0;
	close(p->out);
	close(p->terminal);
	return status;
}

#endif

// SPDX-License-Identifier: MIT
/*
 * The CPU operators against libraries from PyPI. The measuring is a script, because the libraries'
 * own interface is Python.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "peers.h"
#include "verb.h"

#define SCRIPT "peers/compare.py"

/* The path of this program. */
static int own_path(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);

	if (n < 0)
		return rvl_tool_fail(RVL_EXIT_FAILED, "/proc/self/exe: %s", strerror(errno));
	path[n] = '\0';
	return 0;
}

/* The script of the source tree beside a build, or the installed one. */
static int find_script(const char *own, char *path, size_t size)
{
	static const char *const folders[] = { "../tools", "../share/rivulet" };
	int dir = (int)(strrchr(own, '/') - own);

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		int n = snprintf(path, size, "%.*s/%s/" SCRIPT, dir, own, folders[i]);

		if (n > 0 && (size_t)n < size && !access(path, R_OK))
			return 0;
	}
	return rvl_tool_fail(RVL_EXIT_ABSENT, "--compare needs " SCRIPT ", which is neither below %.*s/%s nor below "
			     "%.*s/%s", dir, own, folders[0], dir, own, folders[1]);
}

int rvl_peers_compare(const char *peers, const char *model, uint64_t threads)
{
	char own[PATH_MAX], script[PATH_MAX + 32], count[32];
	char *args[16] = { "python3", "-B", script, "--tool", own, "--peers", (char *)peers };
	int n = 7, r = own_path(own, sizeof(own));

	if (!r)
		r = find_script(own, script, sizeof(script));
	if (r)
		return r;
	if (threads) {
		snprintf(count, sizeof(count), "%llu", (unsigned long long)threads);
		args[n++] = "--threads";
		args[n++] = count;
	}
	args[n++] = "--";
	args[n] = (char *)model;
	execvp(args[0], args);
	return rvl_tool_fail(RVL_EXIT_ABSENT, "--compare needs python3: %s", strerror(errno));
}

// SPDX-License-Identifier: MIT
/* How a program of raw ioctls ends that has no better way to tell (the fuzzer has): by the first failed check. */
#include "vm.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

/** vm_fail() - tell where and what on stderr, leave with 1 */
void vm_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "# %s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(EXIT_FAILURE);
}

/** vm_skip() - leave with VM_SKIPPED; a failure for whoever knows nothing of it */
void vm_skip(const char *why)
{
	printf("# skipped: %s\n", why);
	fflush(stdout);
	_exit(VM_SKIPPED);
}

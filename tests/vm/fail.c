// SPDX-License-Identifier: MIT
/* The end of a test program at its first failed check. The fuzzer has functions of its own. */
#include "vm.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

/** vm_fail() - print place and message to stderr, and exit with 1 */
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

/** vm_skip() - exit with VM_SKIPPED */
void vm_skip(const char *why)
{
	printf("# skipped: %s\n", why);
	fflush(stdout);
	_exit(VM_SKIPPED);
}

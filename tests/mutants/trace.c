// SPDX-License-Identifier: MIT
/*
 * Run time of the coverage build: the compiler calls __sanitizer_cov_trace_pc() at the start of every
 * basic block. Each call marks one byte of a file that is mapped shared, so the marks of a process that
 * is killed, or that ends by _exit(), are kept too; gcov loses those.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAP_BYTES (8ul << 20)

void __sanitizer_cov_trace_pc(void);

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
static uint8_t *marks;

void __sanitizer_cov_trace_pc(void)
{
	uintptr_t at = (uintptr_t)__builtin_return_address(0) - (uintptr_t)__ehdr_start;

	if (marks && at < MAP_BYTES)
		marks[at] = 1;
}

/* The program's own marks are named after its file, those of a shared library after the library's. */
static void module_name(char *name, size_t size)
{
	bool program = getauxval(AT_PHDR) - (uintptr_t)__ehdr_start < 4096;
	char self[PATH_MAX] = "";
	Dl_info info = { 0 };

	if (program)
		self[0] = readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 ? self[0] : '\0';
	else if (dladdr(__ehdr_start, &info) && info.dli_fname)
		snprintf(self, sizeof(self), "%s", info.dli_fname);
	snprintf(name, size, "%s", strrchr(self, '/') ? strrchr(self, '/') + 1 : "unknown");
}

/* The daemon starts its compiler with an empty environment, so the sandbox makes a link too. */
#define TRACE_LINK "/run/mutants-trace"

static __attribute__((constructor(101))) void open_marks(void)
{
	const char *dir = access(TRACE_LINK, W_OK) ? NULL : TRACE_LINK;
	char name[PATH_MAX], path[2 * PATH_MAX];
	void *map;
	int fd;

	if (!dir)
		return;
	module_name(name, sizeof(name));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	if (!ftruncate(fd, MAP_BYTES)) {
		map = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		marks = map == MAP_FAILED ? NULL : map;
	}
	close(fd);
}

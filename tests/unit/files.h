/* SPDX-License-Identifier: MIT */
/* Files, scratch directories and built programs. An error of these functions fails the test. */
#ifndef RVL_FILES_H
#define RVL_FILES_H

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads a whole file and appends a NUL. The caller frees it. */
static inline void *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rbe");
	struct stat st;
	char *p;

	ck_assert_msg(f && !fstat(fileno(f), &st), "%s: %s", path, strerror(errno));
	p = malloc((size_t)st.st_size + 1);
	ck_assert_ptr_nonnull(p);
	*size = fread(p, 1, (size_t)st.st_size, f);
	ck_assert_uint_eq(*size, (size_t)st.st_size);
	p[*size] = '\0';
	fclose(f);
	return p;
}

static inline void write_file(const char *path, const void *data, size_t size)
{
	FILE *f = fopen(path, "wbe");

	ck_assert_msg(f != NULL, "%s: %s", path, strerror(errno));
	ck_assert_uint_eq(fwrite(data, 1, size, f), size);
	ck_assert(!fclose(f));
}

/* Creates a file below @dir, and its parent directories; a directory if @text is NULL. */
static inline void put_file(const char *dir, const char *name, const char *text)
{
	char path[512], *slash;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (slash = path + strlen(dir); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		ck_assert_msg(!mkdir(path, 0755) || errno == EEXIST, "%s: %s", path,
				      strerror(errno));
		*slash = '/';
	}
	if (text)
		write_file(path, text, strlen(text));
	else
		ck_assert_msg(!mkdir(path, 0755) || errno == EEXIST, "%s: %s", path,
				      strerror(errno));
}

/* Size of a scratch directory's path. A socket's name must fit behind it. */
#define SCRATCH_MAX 64

/*
 * Creates a directory of the test's own in TMPDIR. The directory is in /tmp when TMPDIR is not set,
 * or too long for the names of sockets, which have at most 107 bytes.
 */
static inline void make_scratch(char dir[SCRATCH_MAX])
{
	static const char name[] = "/rivulet-test-XXXXXX";
	const char *base = getenv("TMPDIR");

	if (!base || !*base || strlen(base) + sizeof(name) > SCRATCH_MAX)
		base = "/tmp";
	snprintf(dir, SCRATCH_MAX, "%s%s", base, name);
	ck_assert_msg(mkdtemp(dir) != NULL, "%s: %s", dir, strerror(errno));
}

static inline void remove_scratch(const char *dir)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

/* The path of @name in @dir; the last four paths are valid. */
static inline const char *path_in(const char *dir, const char *name)
{
	static char path[4][160];
	static int n;

	n = (n + 1) % 4;
	snprintf(path[n], sizeof(path[n]), "%s/%s", dir, name);
	return path[n];
}

/* The elements of a .npy file, which follow the magic, the version and the header. */
static inline const void *npy_data(const uint8_t *file, size_t size, size_t *bytes)
{
	size_t header;

	ck_assert(size > 10 && !memcmp(file, "\x93NUMPY", 6));
	header = 10 + (size_t)file[8] + (size_t)file[9] * 256;
	ck_assert_uint_lt(header, size);
	*bytes = size - header;
	return file + header;
}

/* Path of a program of this build. Test programs are in the directory "unit" of the build. */
static inline void program_path(char *path, size_t size, const char *name)
{
	char self[256];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	ck_assert_int_gt(len, 0);
	self[len] = '\0';
	*strrchr(self, '/') = '\0';
	snprintf(path, size, "%s/../%s", self, name);
}

/* Runs a built program in a shell. @out receives stdout and stderr. Returns the exit status. */
static inline int run_program(const char *name, const char *args, char *out, size_t size)
{
	char path[320], command[1000];
	size_t n;
	FILE *f;
	int r;

	program_path(path, sizeof(path), name);
	snprintf(command, sizeof(command), "exec 2>&1; %s %s", path, args);
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	n = fread(out, 1, size - 1, f);
	out[n] = '\0';
	r = pclose(f);
	return WIFEXITED(r) ? WEXITSTATUS(r) : 256;
}

#endif

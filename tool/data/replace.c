// SPDX-License-Identifier: MIT
/* Writes files so that a failure leaves either the old content or no file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/array.h"
#include "verb.h"

/*
 * The name, to be freed, of the file that can be replaced by a rename, or NULL. Where a rename would
 * change the owner or what other links show, the bytes go into the file itself.
 */
static char *replaceable(const char *path, mode_t *mode)
{
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid() ||
	    access(path, W_OK))
		return NULL;
	*mode = st.st_mode & 07777;
	return realpath(path, NULL);
}

/* A new file beside @path, whose name is *out; NULL where the folder allows none. */
static FILE *open_beside(const char *path, mode_t mode, char **out)
{
	FILE *f = NULL;
	int fd;

	if (asprintf(out, "%s.XXXXXX", path) < 0) {
		*out = NULL;
		return NULL;
	}
	fd = mkostemp(*out, O_CLOEXEC);
	if (fd >= 0 && !fchmod(fd, mode))
		f = fdopen(fd, "wb");
	if (!f && fd >= 0) {
		close(fd);
		unlink(*out);
	}
	return f;
}

static int put(FILE *f, const void *data, size_t size)
{
	int e = fwrite(data, 1, size, f) == size ? 0 : errno;

	if (fclose(f) && !e)
		e = errno;
	return e;
}

static int write_beside(FILE *f, const char *name, const char *target, const void *data, size_t size)
{
	int e = put(f, data, size);

	if (!e && rename(name, target))
		e = errno;
	if (e)
		unlink(name);
	return e;
}

/* A file that did not exist, or could not be replaced by a rename. */
static int write_here(const char *path, const void *data, size_t size)
{
	FILE *f = fopen(path, "wbe");
	struct stat st;
	bool regular;
	int e;

	if (!f)
		return errno;
	regular = !fstat(fileno(f), &st) && S_ISREG(st.st_mode);
	e = put(f, data, size);
	if (e && regular) /* no half of a file */
		unlink(path);
	return e;
}

int rvl_write_file(const char *path, const void *data, size_t size)
{
	char *beside = NULL, *target;
	mode_t mode = 0;
	FILE *f;
	int e;

	target = replaceable(path, &mode);
	f = target ? open_beside(target, mode, &beside) : NULL;
	e = f ? write_beside(f, beside, target, data, size) : write_here(path, data, size);
	free(beside);
	free(target);
	return e ? rvl_tool_fail(RVL_EXIT_FAILED, "%s: %s", path, strerror(e)) : 0;
}

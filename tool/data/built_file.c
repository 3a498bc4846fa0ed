// SPDX-License-Identifier: MIT
/* A file that is built in memory, and written or linked when it is complete. */
#include "data/built_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/array.h"
#include "verb.h"

static void unmap(void *data, size_t size)
{
	munmap(data, size);
}

/*
 * The folder of @path, so that the unnamed file can be linked there. Where @path is no regular file,
 * its folder may be that of devices, and the bytes are copied: a folder for temporary files.
 */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *temporary = getenv("TMPDIR");
	struct stat st;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode))
		return strdup(temporary && *temporary ? temporary : "/var/tmp");
	return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
}

/* Some file systems have no O_TMPFILE. A file with a name of its own loses the name at once. */
static int open_unnamed(const char *folder)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	char *name;

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	if (asprintf(&name, "%s/.rivulet-XXXXXX", folder) < 0)
		return -1;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0)
		unlink(name);
	free(name);
	return fd;
}

/* The blocks of the file are allocated here, so that a full disk is an error and no SIGBUS. */
static int map_unnamed(const struct rvl_built_file *f, size_t size, struct rivulet_blob *out,
		       struct rvl_err *err)
{
	int rc = posix_fallocate(f->fd, 0, (off_t)size);
	void *data;

	if (rc)
		return rvl_fail(err, -rc, "%s: %zu bytes: %s", f->path, size, strerror(rc));
	data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (data == MAP_FAILED)
		return rvl_fail(err, -errno, "%s: %s", f->path, strerror(errno));
	*out = (struct rivulet_blob) { data, size, unmap };
	return 0;
}

int rvl_built_reserve(struct rvl_built_file *f, size_t size, struct rivulet_blob *out, struct rvl_err *err)
{
	char *folder;

	if (size < f->mapped_from) {
		*out = (struct rivulet_blob) { .data = aligned_alloc(RIVULET_PROGRAM_ALIGN, size), .size = size };
		return out->data ? (memset(out->data, 0, size), 0) : -ENOMEM;
	}
	rvl_built_close(f);
	folder = folder_of(f->path);
	if (!folder)
		return -ENOMEM;
	f->fd = open_unnamed(folder);
	if (f->fd < 0)
		rvl_fail(err, -errno, "a temporary file in %s: %s", folder, strerror(errno));
	free(folder);
	return f->fd < 0 ? -EIO : map_unnamed(f, size, out, err);
}

static bool link_unnamed(const struct rvl_built_file *f, size_t size)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	return !ftruncate(f->fd, (off_t)size) &&
	       !linkat(AT_FDCWD, self, AT_FDCWD, f->path, AT_SYMLINK_FOLLOW);
}

int rvl_built_put(const struct rvl_built_file *f, const struct rivulet_blob *data)
{
	if (f->fd >= 0 && link_unnamed(f, data->size))
		return 0;
	return rvl_write_file(f->path, data->data, data->size);
}

void rvl_built_close(struct rvl_built_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

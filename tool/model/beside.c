// SPDX-License-Identifier: MIT
/*
 * Maps files below the folder of a model, so that tensors of any size are not copied. No component of a path may be a symbolic link, so that a
 * model cannot name a file elsewhere.
 */
#include "model/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verb.h"

static int refuse(struct rvl_err *err, int rc, const char *location)
{
	return rvl_fail(err, rc, "%.200s: %s", location,
			rc == -ELOOP || rc == -ENOTDIR ? "a symbolic link on the way is not followed" :
							 strerror(-rc));
}

/* Opens the components of the path one by one. */
static int open_below(int folder, const char *location, struct rvl_err *err)
{
	int at = dup(folder);
	char *path = strdup(location), *rest = path, *part;

	while (path && at >= 0 && (part = strsep(&rest, "/"))) {
		int flags = rest ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK;
		int next = openat(at, part, flags | O_NOFOLLOW | O_CLOEXEC);
		int saved = errno;

		close(at);
		at = next;
		errno = saved;
	}
	if (at < 0 || !path)
		refuse(err, at < 0 ? -errno : -ENOMEM, location);
	free(path);
	return at;
}

/* Maps a whole file, and keeps the mapping. */
static int map_file(struct rvl_beside *b, int fd, const char *location, struct rvl_beside_file **out,
		    struct rvl_err *err)
{
	struct rvl_beside_file *list, *f;
	struct stat st;

	if (fstat(fd, &st))
		return refuse(err, -errno, location);
	if (!S_ISREG(st.st_mode))
		return rvl_fail(err, -EINVAL, "%.200s: not a regular file", location);
	list = realloc(b->file, (b->n + 1) * sizeof(*list));
	if (!list)
		return refuse(err, -ENOMEM, location);
	b->file = list;
	f = &list[b->n];
	*f = (struct rvl_beside_file) { .location = strdup(location), .size = (uint64_t)st.st_size };
	if (!f->location)
		return refuse(err, -ENOMEM, location);
	if (f->size)
		f->data = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (f->data == MAP_FAILED) {
		free(f->location);
		return refuse(err, -errno, location);
	}
	b->n++;
	b->mapped += f->size;
	*out = f;
	return 0;
}

static int file_of(struct rvl_beside *b, const char *location, struct rvl_beside_file **out,
		   struct rvl_err *err)
{
	int fd, rc;

	for (uint32_t i = 0; i < b->n; i++) {
		if (!strcmp(b->file[i].location, location)) {
			*out = &b->file[i];
			return 0;
		}
	}
	fd = open_below(b->folder - 1, location, err);
	if (fd < 0)
		return -EINVAL;
	rc = map_file(b, fd, location, out, err);
	close(fd);
	return rc;
}

static int take(struct rvl_beside *b, uint64_t size, const char *location, struct rvl_err *err)
{
	uint64_t most = RVL_BESIDE_MAX;

	if (b->mapped < most / RVL_BESIDE_SHARED && RVL_BESIDE_SHARED * b->mapped + b->free < most)
		most = RVL_BESIDE_SHARED * b->mapped + b->free;
	if (b->taken > most || size > most - b->taken)
		return rvl_fail(err, -E2BIG, "%.200s: the tensors have more than %llu bytes, from files of %llu",
				location, (unsigned long long)most, (unsigned long long)b->mapped);
	b->taken += size;
	return 0;
}

static int read_beside(void *arg, const char *location, uint64_t offset, uint64_t size,
		       const void **data, struct rvl_err *err)
{
	struct rvl_beside *b = arg;
	struct rvl_beside_file *f = NULL;
	int rc = file_of(b, location, &f, err);

	if (rc)
		return rc;
	if (size > f->size || offset > f->size - size)
		return rvl_fail(err, -EINVAL, "%.200s: %llu bytes from %llu on are not in the file of %llu bytes",
				location, (unsigned long long)size, (unsigned long long)offset,
				(unsigned long long)f->size);
	rc = take(b, size, location, err);
	if (rc)
		return rc;
	*data = size ? (const char *)f->data + offset : "";
	return 0;
}

int rvl_beside_open(struct rvl_beside *b, const char *model)
{
	const char *slash = strrchr(model, '/');
	char *folder = slash ? strndup(model, (size_t)(slash - model) + 1) : strdup(".");
	int fd = folder ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

	free(folder);
	if (fd < 0)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "the folder of %s: %s", model, strerror(errno));
	b->folder = fd + 1;
	b->free = RVL_BESIDE_FREE;
	b->files = (struct rivulet_files) { read_beside, b };
	return 0;
}

void rvl_beside_clear(struct rvl_beside *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		if (b->file[i].size)
			munmap(b->file[i].data, b->file[i].size);
		free(b->file[i].location);
	}
	free(b->file);
	if (b->folder)
		close(b->folder - 1);
	*b = (struct rvl_beside) { 0 };
}

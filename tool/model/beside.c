// SPDX-License-Identifier: MIT
/*
 * Reads files below the folder of a model. No component of a path may be a symbolic link, so that a
 * model cannot name a file elsewhere.
 */
#include "model/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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

static int read_all(int fd, void *to, uint64_t offset, uint64_t size)
{
	for (uint64_t done = 0; done < size;) {
		ssize_t n = pread(fd, (char *)to + done, (size_t)(size - done), (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		done += (uint64_t)n;
	}
	return 0;
}

/* The bytes, which @b keeps. */
static int read_part(struct rvl_beside *b, int fd, const char *location, uint64_t offset,
		     uint64_t size, void **out, struct rvl_err *err)
{
	struct stat st;
	void **list;
	int rc;

	if (fstat(fd, &st))
		return refuse(err, -errno, location);
	if (!S_ISREG(st.st_mode))
		return rvl_fail(err, -EINVAL, "%.200s: not a regular file", location);
	if (size > (uint64_t)st.st_size || offset > (uint64_t)st.st_size - size)
		return rvl_fail(err, -EINVAL, "%.200s: %llu bytes from %llu on are not in the file of %lld bytes",
				location, (unsigned long long)size, (unsigned long long)offset,
				(long long)st.st_size);
	if (size > RVL_BESIDE_MAX - b->held)
		return rvl_fail(err, -E2BIG, "%.200s: the model reads more than %llu bytes of files",
				location, (unsigned long long)RVL_BESIDE_MAX);
	list = realloc(b->data, (b->n + 1) * sizeof(*list));
	if (!list)
		return refuse(err, -ENOMEM, location);
	b->data = list;
	*out = list[b->n] = malloc(size ? size : 1);
	if (!*out)
		return refuse(err, -ENOMEM, location);
	b->n++;
	b->held += size;
	rc = read_all(fd, *out, offset, size);
	return rc ? refuse(err, rc, location) : 0;
}

static int read_beside(void *arg, const char *location, uint64_t offset, uint64_t size,
		       const void **data, struct rvl_err *err)
{
	struct rvl_beside *b = arg;
	int fd = open_below(b->folder - 1, location, err), rc;
	void *p = NULL;

	if (fd < 0)
		return -EINVAL;
	rc = read_part(b, fd, location, offset, size, &p, err);
	close(fd);
	*data = p;
	return rc;
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
	b->files = (struct rivulet_files) { read_beside, b };
	return 0;
}

void rvl_beside_clear(struct rvl_beside *b)
{
	for (uint32_t i = 0; i < b->n; i++)
		free(b->data[i]);
	free(b->data);
	if (b->folder)
		close(b->folder - 1);
	*b = (struct rvl_beside) { 0 };
}

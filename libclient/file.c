// SPDX-License-Identifier: MIT
/*
 * Model files. The daemon takes only memfds sealed against every change, so a file is copied: in
 * pieces, because the caller's event loop must not stand still for a file of any size.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model.h"

#define PIECE (1u << 20)

static int new_memfd(struct rvl_file *f, const char *name)
{
	if (!f->size || f->size > RIVULET_MODEL_MAX)
		return rvl_lib_fail(f->size ? EFBIG : EINVAL, "%s: %llu bytes; a model has 1 to %u", name,
				    (unsigned long long)f->size, RIVULET_MODEL_MAX);
	f->memfd = memfd_create("rivulet-model", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return f->memfd < 0 ? rvl_lib_fail(errno, "memfd: %s", strerror(errno)) : 0;
}

int rvl_file_open(struct rvl_file *f, const char *path)
{
	struct stat st;
	int r = 0;

	*f = (struct rvl_file) { .source = -1, .memfd = -1 };
	/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
	f->source = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (f->source < 0 || fstat(f->source, &st))
		r = rvl_lib_fail(errno, "%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		r = rvl_lib_fail(EINVAL, "%s: not a regular file", path);
	else
		f->size = (uint64_t)st.st_size;
	r = r ? r : new_memfd(f, path);
	if (r)
		rvl_file_close(f);
	return r;
}

int rvl_file_memory(struct rvl_file *f, const void *data, size_t size)
{
	int r;

	*f = (struct rvl_file) { .source = -1, .memfd = -1, .size = size };
	r = new_memfd(f, "model");
	while (!r && f->copied < size) {
		ssize_t n = write(f->memfd, (const char *)data + f->copied, size - f->copied);

		if (n >= 0)
			f->copied += (uint64_t)n;
		else if (errno != EINTR)
			r = rvl_lib_fail(errno, "writing a memfd: %s", strerror(errno));
	}
	if (r)
		rvl_file_close(f);
	return r;
}

static int seal(struct rvl_file *f)
{
	f->source = rvl_lib_close(f->source);
	if (fcntl(f->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
		return rvl_lib_fail(errno, "sealing a memfd: %s", strerror(errno));
	f->sealed = true;
	return 0;
}

int rvl_file_continue(struct rvl_file *f)
{
	uint64_t left = f->size - f->copied;
	ssize_t n;

	if (f->sealed)
		return 0;
	if (!left)
		return seal(f);
	n = sendfile(f->memfd, f->source, NULL, left < PIECE ? left : PIECE);
	if (n < 0 && errno != EINTR)
		return rvl_lib_fail(errno, "reading a model file: %s", strerror(errno));
	/* A file that shrinks while it is copied is an error, not a shorter model. */
	if (!n)
		return rvl_lib_fail(EIO, "the model file became shorter while it was read");
	f->copied += n < 0 ? 0 : (uint64_t)n;
	return f->copied < f->size ? -EINPROGRESS : seal(f);
}

void rvl_file_close(struct rvl_file *f)
{
	f->source = rvl_lib_close(f->source);
	f->memfd = rvl_lib_close(f->memfd);
}

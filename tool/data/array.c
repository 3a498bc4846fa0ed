// SPDX-License-Identifier: MIT
/* Arrays: sizes, reading and writing files, and the choice of the reader by content. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/array.h"
#include "rivulet_op.h"
#include "verb.h"

static const struct { const char *name; uint32_t size; } dtypes[] = {
#define DTYPE_ROW(name, value, text, bytes, npy, onnx) [RIVULET_##name] = { text, bytes },
	RIVULET_DTYPES(DTYPE_ROW)
#undef DTYPE_ROW
};

const char *rvl_dtype_name(uint32_t dtype)
{
	return dtype < sizeof(dtypes) / sizeof(dtypes[0]) && dtypes[dtype].name ?
	       dtypes[dtype].name : "?";
}

uint32_t rvl_dtype_size(uint32_t dtype)
{
	return dtype < sizeof(dtypes) / sizeof(dtypes[0]) ? dtypes[dtype].size : 0;
}

double rvl_dtype_value(uint32_t dtype, const void *data, uint64_t i)
{
	return rvl_element((enum rvl_type)dtype, data, (int64_t)i);
}

const char *rvl_shape_text(char *buf, uint32_t ndim, const uint64_t *dim)
{
	size_t n = 0;

	strcpy(buf, "scalar");
	for (uint32_t i = 0; i < ndim && n < 100; i++)
		n += (size_t)snprintf(buf + n, 128 - n, "%s%llu", i ? "x" : "",
				      (unsigned long long)dim[i]);
	return buf;
}

int rvl_array_measure(struct rvl_array *a)
{
	uint64_t size = rvl_dtype_size(a->dtype);

	if (!size || a->ndim > RIVULET_MAX_DIMS)
		return -EINVAL;
	for (uint32_t i = 0; i < a->ndim; i++)
		if (__builtin_mul_overflow(size, a->dim[i], &size) || size > RVL_ARRAY_MAX)
			return -EOVERFLOW;
	a->size = size;
	return 0;
}

int rvl_array_alloc(struct rvl_array *a)
{
	int r = rvl_array_measure(a);

	if (r)
		return r;
	a->data = calloc(1, a->size ? a->size : 1);
	return a->data ? 0 : -ENOMEM;
}

void rvl_array_clear(struct rvl_array *a)
{
	free(a->data);
	*a = (struct rvl_array) { 0 };
}

void rvl_blob_clear(struct rvl_blob *b)
{
	if (b->mapped)
		munmap((void *)b->data, b->size);
	else
		free((void *)b->data);
	*b = (struct rvl_blob) { 0 };
}

#define MAPPED_BYTES (64ull << 20) /* smaller files are copied */

/* A mapping that can be written would count as memory that the system has to have. */
static int map_fd(int fd, const char *path, uint64_t size, struct rvl_blob *out)
{
	*out = (struct rvl_blob) {
		.data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0),
		.size = size, .mapped = true,
	};
	if (out->data != MAP_FAILED)
		return 0;
	*out = (struct rvl_blob) { 0 };
	return rvl_tool_fail(RVL_EXIT_FAILED, "%s: %s", path, strerror(errno));
}

static int read_fd(int fd, const char *path, uint64_t size, struct rvl_blob *out)
{
	uint8_t *p;

	if (size >= MAPPED_BYTES)
		return map_fd(fd, path, size, out);
	p = malloc(size ? size : 1);
	if (!p)
		return rvl_tool_fail(RVL_EXIT_FAILED, "%s: out of memory", path);
	*out = (struct rvl_blob) { .data = p };
	while (out->size < size) {
		ssize_t n = read(fd, p + out->size, size - out->size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			rvl_tool_fail(RVL_EXIT_FAILED, "%s: %s", path,
				      n ? strerror(errno) : "the file became shorter");
			rvl_blob_clear(out);
			return RVL_EXIT_FAILED;
		}
		out->size += (size_t)n;
	}
	return 0;
}

int rvl_read_file(const char *path, uint64_t max, struct rvl_blob *out)
{
	/* A pipe must not block before its type is known. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int r;

	if (fd < 0)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: not a regular file", path);
	else if ((uint64_t)st.st_size > max)
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %llu bytes, the limit is %llu", path,
				  (unsigned long long)st.st_size, (unsigned long long)max);
	else
		r = read_fd(fd, path, (uint64_t)st.st_size, out);
	close(fd);
	return r;
}

int rvl_array_read(const char *path, struct rvl_array *out)
{
	struct rvl_blob b;
	char why[160] = "";
	int r = rvl_read_file(path, RVL_ARRAY_MAX + 65536, &b);

	if (r)
		return r;
	if (b.size >= 6 && !memcmp(b.data, "\x93NUMPY", 6))
		r = rvl_npy_parse(b.data, b.size, out, why);
	else
		r = rvl_pb_parse(b.data, b.size, out, why);
	rvl_blob_clear(&b);
	if (r)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, *why ? why : strerror(-r));
	return 0;
}

int rvl_expect_read(const char *path, struct rvl_expect *out)
{
	uint32_t version;
	uint16_t classes;
	int r = rvl_read_file(path, RVL_ARRAY_MAX, &out->blob);
	const uint8_t *p = out->blob.data;

	if (r)
		return r;
	if (out->blob.size < 16 || memcmp(p, "RVEX", 4)) {
		rvl_blob_clear(&out->blob);
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: not a file of recorded outputs", path);
	}
	memcpy(&version, p + 4, 4);
	memcpy(&out->images, p + 8, 4);
	memcpy(&classes, p + 12, 2);
	out->classes = classes;
	out->is_signed = p[14] == 1;
	out->q = p + 16;
	if (version == 1 && p[14] <= 1 && classes &&
	    out->blob.size - 16 == (uint64_t)out->images * classes)
		return 0;
	r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: version %u, %u images x %u classes do not fit %zu bytes",
			  path, version, out->images, classes, out->blob.size);
	rvl_blob_clear(&out->blob);
	return r;
}

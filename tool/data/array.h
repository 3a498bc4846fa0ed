/* SPDX-License-Identifier: MIT */
/* Arrays from and to files. The parsers take untrusted bytes. */
#ifndef RVL_TOOL_ARRAY_H
#define RVL_TOOL_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rivulet_program.h"

#define RVL_ARRAY_MAX (1ull << 31)	/* bytes of one array from a file */

/** struct rvl_array - a dense array, row major; owns @data */
struct rvl_array {
	enum rivulet_dtype dtype;
	uint32_t ndim;
	uint64_t dim[RIVULET_MAX_DIMS];
	uint64_t size;		/* bytes */
	void *data;
};

/** struct rvl_blob - the bytes of a file; owns @data */
struct rvl_blob {
	const uint8_t *data;
	size_t size;
	bool mapped;
};

/**
 * rvl_read_file() - a whole regular file of at most @max bytes. A large file is mapped, not copied: who
 * shortens it meanwhile ends the command by SIGBUS. 0 or an enum rvl_exit
 */
int rvl_read_file(const char *path, uint64_t max, struct rvl_blob *out);
/**
 * rvl_write_file() - replace @path by these bytes
 *
 * A file of the caller's own without other links is replaced at once, by a file written beside it that
 * keeps its mode: after a failure it has its old content. A symbolic link is followed. Another regular
 * file is removed after a failure. 0 or an enum rvl_exit
 */
int rvl_write_file(const char *path, const void *data, size_t size);
void rvl_blob_clear(struct rvl_blob *b);
void rvl_array_clear(struct rvl_array *a);
/** rvl_array_measure() - sets size from type and dims; -EOVERFLOW, -EINVAL */
int rvl_array_measure(struct rvl_array *a);
/** rvl_array_alloc() - sets size and allocates; as rvl_array_measure(), and -ENOMEM */
int rvl_array_alloc(struct rvl_array *a);
/** rvl_dtype_name(), rvl_dtype_size() - "float32", 4; "?" and 0 for numbers outside the table */
const char *rvl_dtype_name(uint32_t dtype);
uint32_t rvl_dtype_size(uint32_t dtype);
/** rvl_dtype_value() - element @i of @data, of any type of the table */
double rvl_dtype_value(uint32_t dtype, const void *data, uint64_t i);
/** rvl_shape_text() - "1x3x224x224", "scalar"; @buf of 128 bytes is returned */
const char *rvl_shape_text(char *buf, uint32_t ndim, const uint64_t *dim);

/* 0, or -EINVAL, -EOVERFLOW, -EOPNOTSUPP, -ENOMEM with the reason in @why, of 160 bytes. */
int rvl_npy_parse(const uint8_t *p, size_t size, struct rvl_array *out, char *why);
int rvl_pb_parse(const uint8_t *p, size_t size, struct rvl_array *out, char *why);
/** rvl_npy_write() - an .npy file of version 1.0. 0 or an enum rvl_exit */
int rvl_npy_write(const char *path, const struct rvl_array *a);
/** rvl_array_read() - .npy or ONNX TensorProto, distinguished by content. 0 or an enum rvl_exit */
int rvl_array_read(const char *path, struct rvl_array *out);

/** struct rvl_expect - recorded outputs: images x classes bytes of the last quantised tensor */
struct rvl_expect {
	uint32_t images, classes;
	bool is_signed;
	const uint8_t *q;	/* in @blob */
	struct rvl_blob blob;
};
int rvl_expect_read(const char *path, struct rvl_expect *out);

#endif

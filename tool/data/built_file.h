/* SPDX-License-Identifier: MIT */
/* A file that is built in memory: on the heap if it is small, in an unnamed file if it is large. */
#ifndef RVL_TOOL_BUILT_FILE_H
#define RVL_TOOL_BUILT_FILE_H

#include "rivulet_compiler.h"

#define RVL_BUILT_MAPPED (256u << 20) /* bytes from which on the memory is that of an unnamed file */

/**
 * struct rvl_built_file - the file to build
 *
 * The unnamed file leaves nothing behind when the command fails or is killed. It gets the name @path
 * if nothing has this name; otherwise its bytes are written to what has it: a file keeps its mode and
 * links, a symbolic link is followed, a device or pipe stays one.
 */
struct rvl_built_file {
	const char *path;
	size_t mapped_from; /* RVL_BUILT_MAPPED; less in tests */
	int fd;		    /* of the unnamed file; -1 without one */
};

/** rvl_built_reserve() - zeroed memory for @size bytes. The caller frees @out. 0 or -errno */
int rvl_built_reserve(struct rvl_built_file *f, size_t size, struct rivulet_blob *out, struct rvl_err *err);
/** rvl_built_put() - the bytes of @data, which is memory of rvl_built_reserve(), to @path. 0 or an enum rvl_exit */
int rvl_built_put(const struct rvl_built_file *f, const struct rivulet_blob *data);
/** rvl_built_close() - ends the unnamed file; memory of it stays until it is freed */
void rvl_built_close(struct rvl_built_file *f);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Structs of the public header that callers allocate begin with `size_t size`, the caller's
 * sizeof. New fields are appended, so a program and a library of different versions share the
 * fields that both know.
 */
#ifndef RVL_LIBCLIENT_SIZED_H
#define RVL_LIBCLIENT_SIZED_H

#include <stddef.h>

/**
 * rvl_sized_end() - bytes of struct @type up to and including @field, the last of its first version
 */
#define rvl_sized_end(type, field) (offsetof(struct type, field) + sizeof(((struct type *)0)->field))

/**
 * rvl_sized_read() - copy options of a caller
 * @to: the library's struct, of @size bytes; zeroed where the caller's is shorter. @from NULL: all
 * zero
 * @first: bytes of the struct's first version
 * -EINVAL: the caller's size field is below @first or absurd; -E2BIG: a field is set that this
 * library does not know.
 */
int rvl_sized_read(void *to, size_t size, const void *from, size_t first, const char *name);
/**
 * rvl_sized_write() - copy a result to a caller
 * @to: the caller's struct; its size field is kept, and fields that the library does not know are
 * zeroed. @from: the library's, of @size bytes. -EINVAL as above.
 */
int rvl_sized_write(void *to, const void *from, size_t size, size_t first, const char *name);

/* The same with types: RVL_READ(&options, caller's pointer, rivulet_run_options, last field). */
#define RVL_READ(to, from, type, last)                                                             \
	rvl_sized_read(to, sizeof(struct type), from, rvl_sized_end(type, last), "struct " #type)
#define RVL_WRITE(to, from, type, last)                                                            \
	rvl_sized_write(to, from, sizeof(struct type), rvl_sized_end(type, last), "struct " #type)

#endif

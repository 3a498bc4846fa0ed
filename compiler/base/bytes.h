/* SPDX-License-Identifier: MIT */
/* Growing buffers. */
#ifndef RVL_BYTES_H
#define RVL_BYTES_H

#include "base/arena.h"

#include <stddef.h>
#include <stdint.h>

struct rvl_bytes {
	uint8_t *data;
	size_t size, cap;
	struct rvl_arena *arena; /* that the bytes count as held by; NULL: none */
};

/** Appends @n bytes (zeroes when @p is NULL) at the next multiple of @align; -ENOMEM, -E2BIG. */
int rvl_bytes_add(struct rvl_bytes *b, const void *p, size_t n, size_t align, uint64_t *offset);
void rvl_bytes_free(struct rvl_bytes *b);

#endif

/* SPDX-License-Identifier: MIT */
/* Growing byte buffers for the sections of the program file before they are joined. */
#include "base/bytes.h"
#include "rivulet_program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int reserve(struct rvl_bytes *b, size_t need)
{
	size_t cap = b->cap ? b->cap : 4096;
	uint8_t *p;

	if (need > RIVULET_ARENA_MAX)
		return -E2BIG;
	while (cap < need)
		cap *= 2;
	if (cap == b->cap)
		return 0;
	if (!rvl_arena_count(b->arena, cap - b->cap))
		return -ENOMEM;
	p = realloc(b->data, cap);
	if (!p) {
		rvl_arena_uncount(b->arena, cap - b->cap);
		return -ENOMEM;
	}
	b->data = p;
	b->cap = cap;
	return 0;
}

int rvl_bytes_add(struct rvl_bytes *b, const void *p, size_t n, size_t align, uint64_t *offset)
{
	size_t at = (b->size + align - 1) / align * align;
	int rc;

	if (n > RIVULET_ARENA_MAX)
		return -E2BIG;
	rc = reserve(b, at + n);
	if (rc)
		return rc;
	if (at > b->size)
		memset(b->data + b->size, 0, at - b->size);
	if (n && p)
		memcpy(b->data + at, p, n);
	else if (n)
		memset(b->data + at, 0, n);
	b->size = at + n;
	if (offset)
		*offset = at;
	return 0;
}

void rvl_bytes_free(struct rvl_bytes *b)
{
	rvl_arena_uncount(b->arena, b->cap);
	free(b->data);
	*b = (struct rvl_bytes){ 0 };
}

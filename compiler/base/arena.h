/* SPDX-License-Identifier: MIT */
/*
 * A region of memory freed as a whole. Everything that belongs to a graph lives in its arena, so a
 * pass may drop a node or a tensor without freeing it, and a failed load frees all in one call.
 */
#ifndef RVL_ARENA_H
#define RVL_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct rvl_arena;

/** A new arena that refuses to hold more than @limit bytes in all; NULL without memory. */
struct rvl_arena *rvl_arena_new(size_t limit);

/** Frees the arena and all that was allocated from it. NULL is allowed. */
void rvl_arena_free(struct rvl_arena *a);

/** Zeroed memory, 64-byte aligned; NULL when the limit or the machine's memory is exceeded. */
void *rvl_arena_alloc(struct rvl_arena *a, size_t bytes);

/** As rvl_arena_alloc for @n elements of @size bytes; the product is checked. */
void *rvl_arena_array(struct rvl_arena *a, size_t n, size_t size);

/**
 * Whether a request was refused since the arena was made. Callers that choose by what can be built (is
 * this node for the NPU?) cannot tell a refusal from a no; whoever called them asks here at the end.
 */
bool rvl_arena_failed(const struct rvl_arena *a);

/** Bytes the arena holds, its own bookkeeping left out. */
size_t rvl_arena_held(const struct rvl_arena *a);

/** A copy of @len bytes with a NUL behind them; NULL as above. */
char *rvl_arena_strndup(struct rvl_arena *a, const char *s, size_t len);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A region of memory that is freed as a whole, but for large pieces. Everything that belongs to a graph is allocated from
 * its arena. A pass may therefore drop a node or a tensor without freeing it, and one call frees
 * all memory of a failed load.
 */
#ifndef RVL_ARENA_H
#define RVL_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

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
 * Whether a request was refused since the arena was made. A function that returns NULL or false for
 * "this pattern does not apply" returns the same when a request was refused. Its caller calls this
 * function at the end to distinguish the two.
 */
bool rvl_arena_failed(const struct rvl_arena *a);

/**
 * Frees @bytes at @p, which rvl_arena_alloc() returned for so many, if they are many; otherwise they
 * are freed with the arena.
 */
void rvl_arena_release(struct rvl_arena *a, const void *p, size_t bytes);

/** struct rvl_arena_mark - a state of an arena that rvl_arena_rewind() comes back to */
struct rvl_arena_mark {
	void *head, *next;
	size_t used;
};

/**
 * rvl_arena_mark() - the present state
 * rvl_arena_rewind() - frees all that was allocated since; nothing older was released meanwhile
 */
struct rvl_arena_mark rvl_arena_mark(const struct rvl_arena *a);
void rvl_arena_rewind(struct rvl_arena *a, const struct rvl_arena_mark *m);

/**
 * rvl_arena_limit() - the most bytes that the arena may hold; 0: leaves it as it is
 * rvl_arena_raise() - allows @bytes more
 */
void rvl_arena_limit(struct rvl_arena *a, size_t limit);
void rvl_arena_raise(struct rvl_arena *a, size_t bytes);

/**
 * rvl_arena_beside() - a new arena, whose limit is that of @with, and which counts all that @with holds
 * now as held by it, too: that both together stay within the limit
 */
struct rvl_arena *rvl_arena_beside(const struct rvl_arena *with);

/**
 * rvl_arena_count() - counts @bytes of the heap as held by the arena; false where its limit forbids it
 * rvl_arena_uncount() - the caller has freed them
 * For buffers that grow or are freed before the arena is. @a NULL: they are not counted.
 */
bool rvl_arena_count(struct rvl_arena *a, size_t bytes);
void rvl_arena_uncount(struct rvl_arena *a, size_t bytes);

/**
 * rvl_scratch() - @n zeroed elements of @size bytes of the heap, which count as held by the arena
 * rvl_scratch_free() - frees them, before the arena is freed; NULL is allowed
 */
void *rvl_scratch(struct rvl_arena *a, size_t n, size_t size);
void rvl_scratch_free(void *p);

/** Names what is done from here on, for rvl_arena_report(). @doing is static. */
void rvl_arena_doing(struct rvl_arena *a, const char *doing);
/**
 * rvl_arena_report() - the error of work that failed with @rc
 * Where the limit refused a request, -ENOMEM with a text in @err: the limit, what needed more, and
 * the option that allows it. Otherwise @rc, also 0; @err stays as it is.
 */
int rvl_arena_report(const struct rvl_arena *a, int rc, struct rvl_err *err);

/** What the arena would have held with the first request that the limit refused; 0: none. */
size_t rvl_arena_needed(const struct rvl_arena *a);
/** Bytes that the limit still allows. */
size_t rvl_arena_left(const struct rvl_arena *a);

/** Bytes that the arena holds, without its own bookkeeping. */
size_t rvl_arena_held(const struct rvl_arena *a);

/** The most bytes that it held at a time. */
size_t rvl_arena_most(const struct rvl_arena *a);

/**
 * A copy of @len bytes with a NUL behind them, or NULL as rvl_arena_alloc(). @s may be NULL if @len
 * is 0.
 */
char *rvl_arena_strndup(struct rvl_arena *a, const char *s, size_t len);

#endif

/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_ALIGN 64
#define ARENA_CHUNK ((size_t)64 << 10)
#define ARENA_TRIM ((size_t)1 << 20)	/* bytes of a piece whose pages are given back */

struct chunk {
	struct chunk *next;
	size_t size;		/* bytes behind this header */
	size_t used;
	unsigned char pad[ARENA_ALIGN - 3 * sizeof(size_t)];
};

struct rvl_arena {
	struct chunk *head;
	size_t held;
	size_t most;		/* that it held at a time */
	size_t limit;
	bool failed;		/* a request was refused since the arena was made */
};

struct rvl_arena *rvl_arena_new(size_t limit)
{
	struct rvl_arena *a = calloc(1, sizeof(*a));

	if (a)
		a->limit = limit;
	return a;
}

void rvl_arena_free(struct rvl_arena *a)
{
	if (!a)
		return;
	for (struct chunk *c = a->head; c;) {
		struct chunk *next = c->next;

		free(c);
		c = next;
	}
	free(a);
}

static bool is_large(size_t need)
{
	return need > ARENA_CHUNK / 4;
}

/*
 * A large request gets a chunk of its own behind the head, so that the rest of the head stays
 * usable.
 */
static struct chunk *chunk_add(struct rvl_arena *a, size_t need)
{
	size_t size = is_large(need) ? need : ARENA_CHUNK;
	struct chunk *c;

	if (size > a->limit - a->held)
		return NULL;
	c = aligned_alloc(ARENA_ALIGN, sizeof(*c) + size);
	if (!c)
		return NULL;
	*c = (struct chunk) { .size = size };
	a->held += size;
	a->most = a->held > a->most ? a->held : a->most;
	if (size != ARENA_CHUNK && a->head) {
		c->next = a->head->next;
		a->head->next = c;
	} else {
		c->next = a->head;
		a->head = c;
	}
	return c;
}

static void *refused(struct rvl_arena *a)
{
	a->failed = true;
	return NULL;
}

void *rvl_arena_alloc(struct rvl_arena *a, size_t bytes)
{
	struct chunk *c = a->head;
	size_t need;
	unsigned char *p;

	if (bytes > SIZE_MAX - ARENA_ALIGN)
		return refused(a);
	need = (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
	if (need == 0)
		need = ARENA_ALIGN;
	if (!c || c->size - c->used < need)
		c = chunk_add(a, need);
	if (!c)
		return refused(a);
	p = (unsigned char *)(c + 1) + c->used;
	c->used += need;
	return memset(p, 0, need);
}

void rvl_arena_release(struct rvl_arena *a, const void *p, size_t bytes)
{
	if (!is_large(bytes))
		return;
	for (struct chunk **c = &a->head; *c; c = &(*c)->next) {
		struct chunk *own = *c;

		/* A chunk of the usual size may hold other pieces, too. */
		if (p != own + 1 || own->size == ARENA_CHUNK)
			continue;
		*c = own->next;
		a->held -= own->size;
		free(own);
		/* glibc keeps freed pieces of up to 32 MiB for the next one, which may be of another size. */
		if (bytes >= ARENA_TRIM)
			malloc_trim(0);
		return;
	}
}

bool rvl_arena_failed(const struct rvl_arena *a)
{
	return a->failed;
}

size_t rvl_arena_held(const struct rvl_arena *a)
{
	return a->held;
}

size_t rvl_arena_most(const struct rvl_arena *a)
{
	return a->most;
}

void *rvl_arena_array(struct rvl_arena *a, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return refused(a);
	return rvl_arena_alloc(a, bytes);
}

char *rvl_arena_strndup(struct rvl_arena *a, const char *s, size_t len)
{
	char *p = len < SIZE_MAX ? rvl_arena_alloc(a, len + 1) : refused(a);

	if (p && len)
		memcpy(p, s, len);
	return p;
}

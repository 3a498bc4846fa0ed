/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <errno.h>
#include <malloc.h>
#include <stddef.h>
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
	size_t needed;		/* what it would have held with the first request beyond the limit; or 0 */
	const char *doing, *needed_for; /* what is done, and what was done at that request */
};

/* In front of scratch memory. */
struct scratch {
	struct rvl_arena *arena;
	size_t bytes;
};
_Static_assert(sizeof(struct scratch) % _Alignof(max_align_t) == 0, "scratch memory is aligned");

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

void rvl_arena_limit(struct rvl_arena *a, size_t limit)
{
	a->limit = limit ? limit : a->limit;
}

void rvl_arena_raise(struct rvl_arena *a, size_t bytes)
{
	a->limit = bytes < SIZE_MAX - a->limit ? a->limit + bytes : SIZE_MAX;
}

struct rvl_arena *rvl_arena_beside(const struct rvl_arena *with)
{
	struct rvl_arena *a = rvl_arena_new(with->limit);

	if (a)
		a->held = a->most = with->held;
	return a;
}

bool rvl_arena_count(struct rvl_arena *a, size_t bytes)
{
	if (!a)
		return true;
	if (a->held > a->limit || bytes > a->limit - a->held) {
		a->failed = true;
		if (!a->needed) {
			a->needed = bytes < SIZE_MAX - a->held ? a->held + bytes : SIZE_MAX;
			a->needed_for = a->doing;
		}
		return false;
	}
	a->held += bytes;
	a->most = a->held > a->most ? a->held : a->most;
	return true;
}

void rvl_arena_uncount(struct rvl_arena *a, size_t bytes)
{
	if (a)
		a->held -= bytes;
}

void rvl_arena_doing(struct rvl_arena *a, const char *doing)
{
	a->doing = doing;
}

size_t rvl_arena_needed(const struct rvl_arena *a)
{
	return a->needed;
}

size_t rvl_arena_left(const struct rvl_arena *a)
{
	return a->held < a->limit ? a->limit - a->held : 0;
}

int rvl_arena_report(const struct rvl_arena *a, int rc, struct rvl_err *err)
{
	if (!a->needed)
		return rc;
	return rvl_fail(err, -ENOMEM,
			"%s takes %.1f MiB of memory or more, the limit is %.1f MiB; --memory-limit allows more",
			a->needed_for ? a->needed_for : "compiling it", (double)a->needed / 1048576,
			(double)a->limit / 1048576);
}

void *rvl_scratch(struct rvl_arena *a, size_t n, size_t size)
{
	struct scratch *s;
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX - sizeof(*s) ||
	    !rvl_arena_count(a, bytes))
		return NULL;
	s = calloc(1, sizeof(*s) + bytes);
	if (!s) {
		rvl_arena_uncount(a, bytes);
		return NULL;
	}
	*s = (struct scratch) { a, bytes };
	return s + 1;
}

void rvl_scratch_free(void *p)
{
	struct scratch *s = p ? (struct scratch *)p - 1 : NULL;

	if (s)
		rvl_arena_uncount(s->arena, s->bytes);
	free(s);
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

	if (!rvl_arena_count(a, size))
		return NULL;
	c = aligned_alloc(ARENA_ALIGN, sizeof(*c) + size);
	if (!c) {
		rvl_arena_uncount(a, size);
		return NULL;
	}
	*c = (struct chunk) { .size = size };
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

static size_t aligned(size_t at, size_t align)
{
	return (at + align - 1) & ~(align - 1);
}

/* @align divides ARENA_ALIGN. */
static void *alloc(struct rvl_arena *a, size_t bytes, size_t align)
{
	struct chunk *c = a->head;
	size_t need, at;

	if (bytes > SIZE_MAX - ARENA_ALIGN)
		return refused(a);
	need = aligned(bytes ? bytes : 1, align);
	at = c ? aligned(c->used, align) : 0;
	if (!c || at > c->size || c->size - at < need) {
		c = chunk_add(a, need);
		at = 0;
	}
	if (!c)
		return refused(a);
	c->used = at + need;
	return memset((unsigned char *)(c + 1) + at, 0, need);
}

void *rvl_arena_alloc(struct rvl_arena *a, size_t bytes)
{
	return alloc(a, bytes, ARENA_ALIGN);
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

struct rvl_arena_mark rvl_arena_mark(const struct rvl_arena *a)
{
	if (!a->head)
		return (struct rvl_arena_mark){ NULL };
	return (struct rvl_arena_mark){ a->head, a->head->next, a->head->used };
}

/* Frees the chunks from *@c on before @end. */
static void drop_chunks(struct rvl_arena *a, struct chunk **c, const struct chunk *end)
{
	while (*c != end) {
		struct chunk *own = *c;

		*c = own->next;
		a->held -= own->size;
		free(own);
	}
}

/* A chunk is added before the head of the mark, or between it and the one behind it. */
void rvl_arena_rewind(struct rvl_arena *a, const struct rvl_arena_mark *m)
{
	drop_chunks(a, &a->head, m->head);
	if (!m->head)
		return;
	drop_chunks(a, &a->head->next, m->next);
	a->head->used = m->used;
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
	char *p = len < SIZE_MAX ? alloc(a, len + 1, 1) : refused(a);

	if (p && len)
		memcpy(p, s, len);
	return p;
}

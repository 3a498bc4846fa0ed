/* SPDX-License-Identifier: MIT */
/* Small helpers of the daemon: cleanup attributes, intrusive lists, clocks, error texts. */
#ifndef RVL_UTIL_H
#define RVL_UTIL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define USEC_PER_SEC 1000000ull

static inline void rvl_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void rvl_freep(void *p)
{
	free(*(void **)p);
}

static inline void rvl_fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define _cleanup_close_ __attribute__((cleanup(rvl_closep)))
#define _cleanup_free_ __attribute__((cleanup(rvl_freep)))
#define _cleanup_fclose_ __attribute__((cleanup(rvl_fclosep)))

/** rvl_take_fd() - transfer ownership of a descriptor out of a cleanup attribute */
static inline int rvl_take_fd(int *fd)
{
	int r = *fd;

	*fd = -1;
	return r;
}

/** rvl_close() - close @fd unless it is negative; returns -1 for assignment */
static inline int rvl_close(int fd)
{
	if (fd >= 0)
		close(fd);
	return -1;
}

/** rvl_clock - ns since an unspecified start, never 0: CLOCK_MONOTONIC unless a test replaces it */
extern uint64_t (*rvl_clock)(void);

/** rvl_now() - the time by rvl_clock */
static inline uint64_t rvl_now(void)
{
	return rvl_clock();
}

/** struct rvl_text - the one line that explains a negative errno */
struct rvl_text {
	char s[512];
};

/**
 * rvl_say() - write the line (cut at its end) and return @code: `return rvl_say(t, -EINVAL, ...)`
 */
__attribute__((format(printf, 3, 4)))
static inline int rvl_say(struct rvl_text *t, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->s, sizeof(t->s), fmt, ap);
	va_end(ap);
	return code;
}

/** struct rvl_rate - a token bucket: @burst events at once, then one every @interval ns */
struct rvl_rate {
	uint64_t interval, burst;
	uint64_t tokens, refilled;
	uint64_t suppressed;	/* events refused since the last one that was allowed */
};

#define RVL_RATE(n, ns) ((struct rvl_rate){ .interval = (ns), .burst = (n), .tokens = (n) })

/**
 * rvl_rate_allows() - take a token; if there is one, @suppressed gets the number of events before
 * it that had none
 */
static inline bool rvl_rate_allows(struct rvl_rate *r, uint64_t *suppressed)
{
	uint64_t now = rvl_now(), due = r->interval ? (now - r->refilled) / r->interval : r->burst;

	if (due) {
		r->tokens = due < r->burst - r->tokens ? r->tokens + due : r->burst;
		r->refilled = now;
	}
	if (!r->tokens) {
		r->suppressed++;
		return false;
	}
	r->tokens--;
	*suppressed = r->suppressed;
	r->suppressed = 0;
	return true;
}

/** rvl_rate_is_full() - whether a new bucket would allow no more than this one */
static inline bool rvl_rate_is_full(const struct rvl_rate *r)
{
	return !r->suppressed && (rvl_now() - r->refilled) / r->interval >= r->burst - r->tokens;
}

/** rvl_pages() - @bytes as memory is given out: in whole pages */
static inline uint64_t rvl_pages(uint64_t bytes)
{
	return (bytes + 4095) & ~4095ull;
}

/* Doubly linked lists, circular, with the links inside the members. */
struct rvl_list {
	struct rvl_list *next, *prev;
};

static inline void rvl_list_init(struct rvl_list *l)
{
	l->next = l->prev = l;
}

static inline void rvl_list_add_tail(struct rvl_list *head, struct rvl_list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

/** rvl_list_del() - remove a member; no effect if it is in no list */
static inline void rvl_list_del(struct rvl_list *l)
{
	if (!l->next)
		return;
	l->prev->next = l->next;
	l->next->prev = l->prev;
	l->next = l->prev = NULL;
}

#define rvl_container(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
/* The body may remove the current member, but not the next one. @pos must be an identifier. */
#define rvl_list_each(pos, head, member)                                                           \
	for (struct rvl_list *l_##pos = (head)->next, *n_##pos;                                    \
	     n_##pos = l_##pos->next, pos = rvl_container(l_##pos, __typeof__(*pos), member),      \
	     l_##pos != (head);                                                                    \
	     l_##pos = n_##pos)

#endif

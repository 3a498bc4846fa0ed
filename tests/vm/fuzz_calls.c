// SPDX-License-Identifier: MIT
/*
 * One call of the fuzzer: a row is drawn, its argument is made and perhaps mutated, the call is
 * made, and its result is judged. The draws depend on the seed alone. When threads race, the state
 * that a call meets does not.
 */
#include "fuzz.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

uint64_t fuzz_random(struct fuzz_thread *t)
{
	return splitmix(&t->random);
}

uint32_t fuzz_below(struct fuzz_thread *t, uint32_t n)
{
	return (uint32_t)(fuzz_random(t) % n);
}

bool fuzz_percent(struct fuzz_thread *t, uint32_t percent)
{
	return fuzz_below(t, 100) < percent;
}

/** fuzz_chunk() - let mutation change @size bytes at @p */
void fuzz_chunk(struct fuzz_call *c, void *p, size_t size, uint32_t pointers)
{
	if (size && c->chunks < sizeof(c->chunk) / sizeof(c->chunk[0]))
		c->chunk[c->chunks++] = (struct fuzz_chunk){ p, (uint32_t)size, pointers };
}

/* An address that is not mapped, or that has less than a struct mapped behind it. */
static uint64_t bad_address(struct fuzz_thread *t)
{
	switch (fuzz_below(t, 6)) {
	case 0:
		return 0;
	case 1:
		return 8;
	case 2:
		return ~0ull - 7;
	case 3:
		return 0xffff888000001000ull;
	case 4:
		return 0x800000000000ull;
	default:
		return (uintptr_t)t->edge + 4096 - 8 * fuzz_below(t, 8);
	}
}

static uint64_t odd_value(struct fuzz_thread *t, uint64_t old)
{
	static const uint64_t values[] = {
		0,
		1,
		2,
		3,
		7,
		8,
		15,
		16,
		17,
		63,
		64,
		65,
		255,
		4095,
		4096,
		4097,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x100000000ull,
		0x7fffffffffffffffull,
		0x8000000000000000ull,
		~0ull - 4095,
		~0ull,
	};

	switch (fuzz_below(t, 5)) {
	case 0:
		return old + 1;
	case 1:
		return old - 1;
	case 2:
		return old ^ 1ull << fuzz_below(t, 64);
	case 3:
		return fuzz_random(t);
	default:
		return values[fuzz_below(t, sizeof(values) / sizeof(values[0]))];
	}
}

static void mutate_word(struct fuzz_call *c)
{
	const struct fuzz_chunk *k = &c->chunk[fuzz_below(c->t, c->chunks)];
	uint32_t at = 4 * fuzz_below(c->t, k->size / 4);
	uint8_t *p = k->p;
	uint64_t v = 0;
	size_t n = 4;

	if (at / 8 < 32 && k->pointers >> at / 8 & 1) {
		v = bad_address(c->t);
		memcpy(p + at / 8 * 8, &v, 8);
		c->wild = true;
		return;
	}
	/* 40 % of the aligned words of 8 bytes are mutated as a whole. */
	if (at % 8 == 0 && at + 8 <= k->size && fuzz_percent(c->t, 40))
		n = 8;
	memcpy(&v, p + at, n);
	v = odd_value(c->t, v);
	memcpy(p + at, &v, n);
}

/*
 * The core accepts any struct size in the request of a known number. It reads the rest of a struct
 * that it shortens as 0, which may leave a part of an address.
 */
static void mutate_size(struct fuzz_call *c)
{
	unsigned long size = fuzz_below(c->t, 256);

	c->wild |= size < _IOC_SIZE(c->request);
	c->request = (c->request & ~((unsigned long)_IOC_SIZEMASK << _IOC_SIZESHIFT)) |
		     size << _IOC_SIZESHIFT;
}

static void mutate(struct fuzz_call *c)
{
	uint32_t n = 1 + fuzz_below(c->t, 3);

	while (c->chunks && n--)
		mutate_word(c);
	if (fuzz_percent(c->t, 5))
		mutate_size(c);
}

static uint32_t weight(const struct fuzz_thread *t, uint32_t row)
{
	if (fuzz_rows[row].target == FUZZ_TIMELINE && !t->shared->sw_sync)
		return 0;
	return fuzz_rows[row].weight;
}

static const struct fuzz_row *draw(struct fuzz_thread *t)
{
	uint32_t total = 0, n = fuzz_row_count(), row = 0, at;

	for (uint32_t i = 0; i < n; i++)
		total += weight(t, i);
	at = fuzz_below(t, total);
	while (at >= weight(t, row))
		at -= weight(t, row++);
	return &fuzz_rows[row];
}

static int target_fd(struct fuzz_call *c)
{
	struct fuzz_pool *p = c->t->pool;

	switch (c->row->target) {
	case FUZZ_FILE:
		return p->file[c->file];
	case FUZZ_BUF:
		return p->buf[fuzz_below(c->t, FUZZ_BUFS)];
	case FUZZ_FENCE:
		return p->fence[fuzz_below(c->t, FUZZ_FENCES)];
	case FUZZ_TIMELINE:
		return p->timeline[fuzz_below(c->t, FUZZ_TIMELINES)];
	case FUZZ_UDMABUF:
		return p->udmabuf;
	case FUZZ_HEAP:
		return p->heap;
	default:
		return -1;
	}
}

static bool listed(const short *errors, int error)
{
	while (errors && *errors)
		if (*errors++ == error)
			return true;
	return false;
}

/*
 * When threads race, another thread may close a descriptor or handle, whose number then names
 * another kind of file or another buffer.
 */
static bool expected(const struct fuzz_call *c, int error)
{
	static const short race[] = {
		EBADF, ENOTTY, EINVAL, ENOENT, EACCES, EOPNOTSUPP, ESPIPE, 0
	};
	const struct fuzz_shared *sh = c->t->shared;

	if (listed(c->row->errors, error) || error == EINTR || (error == EBADF && c->fd < 0))
		return true;
	if (error == EFAULT)
		return c->wild;
	/* mmap fails with ENODEV also on files that cannot be mapped. */
	if (error == ENODEV || error == ENXIO)
		return sh->unplugs || (sh->racing && !c->row->request);
	return sh->racing && listed(race, error);
}

static void record(struct fuzz_call *c, struct fuzz_record **out)
{
	struct fuzz_trace *trace = c->t->trace;
	struct fuzz_record *r;

	r = &trace->record[atomic_fetch_add(&trace->calls, 1) % FUZZ_HISTORY];
	r->row = (uint16_t)(c->row - fuzz_rows);
	r->error = -1;	/* has not returned */
	r->fd = c->fd;
	r->request = (uint32_t)c->request;
	memcpy(r->bytes, c->arg, sizeof(r->bytes));
	*out = r;
}

static void judge(struct fuzz_call *c, int ret)
{
	struct fuzz_shared *sh = c->t->shared;
	uint32_t row = (uint32_t)(c->row - fuzz_rows);
	int error = errno;

	/* A call without a descriptor does not reach the driver, and is not counted. */
	if (c->row->request && c->fd >= 0)
		atomic_fetch_add(&sh->ioctls, 1);
	if (ret >= 0) {
		atomic_fetch_add(&sh->accepted[row], 1);
		if (c->row->done)
			c->row->done(c);
		return;
	}
	atomic_fetch_add(&sh->refused[row], 1);
	if (expected(c, error))
		return;
	fuzz_finding(sh, "%s on fd %d fails: %s", c->row->name, c->fd, strerror(error));
	fuzz_dump(sh, c->t->trace, 4);
}

/** fuzz_call() - draw, make and judge one call */
void fuzz_call(struct fuzz_thread *t)
{
	static _Thread_local union { uint8_t bytes[16384]; uint64_t align; } arg;
	struct fuzz_call c = { .t = t, .row = draw(t), .arg = (void *)&arg };
	struct fuzz_record *r;
	int ret;

	c.request = c.row->request;
	c.file = fuzz_below(t, FUZZ_FILES);
	c.slot = fuzz_below(t, 64);
	c.fd = target_fd(&c);
	memset(&arg, 0, 256);
	if (c.row->make)
		c.row->make(&c);
	if (c.row->mutate && fuzz_percent(t, c.row->mutate))
		mutate(&c);
	if (c.row->fix)
		c.row->fix(&c);
	record(&c, &r);
	errno = 0;
	ret = c.row->run ? c.row->run(&c) : ioctl(c.fd, c.request, &arg);
	r->error = ret < 0 ? (int16_t)errno : 0;
	judge(&c, ret);
}

/** fuzz_dump() - print the last @count calls of a thread, oldest first, with their arguments */
void fuzz_dump(struct fuzz_shared *sh, const struct fuzz_trace *trace, uint32_t count)
{
	uint64_t end = trace->calls, n = end < count ? end : count;
	char hex[2 * FUZZ_BYTES + 1];

	for (uint64_t i = end - n; i < end; i++) {
		const struct fuzz_record *r = &trace->record[i % FUZZ_HISTORY];

		for (uint32_t b = 0; b < FUZZ_BYTES; b++)
			sprintf(hex + 2 * b, "%02x", r->bytes[b]);
		printf("#   seed %llu round %u call %llu: %s fd %d request 0x%x %s -> %s\n",
		       (unsigned long long)sh->seed, sh->round, (unsigned long long)i,
		       fuzz_rows[r->row].name, r->fd, r->request, hex,
		       r->error < 0 ? "has not returned" : r->error ? strerror(r->error) : "ok");
	}
	fflush(stdout);
}

/** fuzz_finding() - count and print a failure, with seed and round */
void fuzz_finding(struct fuzz_shared *sh, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	atomic_fetch_add(&sh->findings, 1);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	printf("# finding (seed %llu, round %u): %s\n", (unsigned long long)sh->seed, sh->round,
	       text);
	fflush(stdout);
}

// SPDX-License-Identifier: MIT
/* The cache of programs without a daemon: what it accepts from a worker, and what it evicts. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cache.h"
#include "peak.h"
#include "rivulet_program.h"
#include "suite.h"
#include "util.h"

#define PAGE 4096

static struct rvl_text err;

static int program(size_t extra)
{
	size_t size = 512 + extra;
	struct rivulet_program *p = calloc(1, size);
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert(p && fd >= 0);
	p->magic = RIVULET_PROGRAM_MAGIC;
	p->version = RIVULET_PROGRAM_VERSION;
	p->size = size;
	p->header_size = sizeof(*p);
	ck_assert_int_eq(pwrite(fd, p, size, 0), size);
	free(p);
	return fd;
}

static struct rvl_key key_of(uint8_t n)
{
	struct rvl_key k;

	memset(&k, 0, sizeof(k));
	k.sha256[0] = n;
	return k;
}

/* Proves that the daemon checks what a worker wrote, and releases memory that it refuses. */
START_TEST(cache_checks)
{
	struct rvl_cache c;
	struct rvl_program *p = NULL;
	struct rvl_key k = key_of(1);

	rvl_cache_init(&c, 1 << 20, 10);
	ck_assert_int_eq(rvl_program_read(&k, "x", program(0), &p, &err), -EINVAL);
	ck_assert_int_gt(strlen(err.s), 3);
	ck_assert_int_eq(rvl_program_read(&k, "x", open("/dev/null", O_RDWR), &p, &err), -EINVAL);
	ck_assert_ptr_null(p);
	/*
	 * A file of the largest size is checked, a larger one is refused unread. Both are sparse.
	 */
	for (int more = 0; more < 2; more++) {
		int fd = memfd_create("program", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		char size[64];

		ck_assert_int_eq(ftruncate(fd, (off_t)RIVULET_PROGRAM_MAX + more), 0);
		ck_assert_int_eq(rvl_program_read(&k, "x", fd, &p, &err), -EINVAL);
		snprintf(size, sizeof(size), "a program of %llu bytes",
			 (unsigned long long)RIVULET_PROGRAM_MAX + more);
		ck_assert_msg((strcmp(err.s, size) == 0) == more, "%d more: %s", more, err.s);
	}
	ck_assert_ptr_null(rvl_cache_find(&c, &k));
	ck_assert_uint_eq(c.misses, 1);
	rvl_cache_clear(&c);
}
END_TEST

/* Returns a cached program without a file behind it. */
static struct rvl_program *fake(struct rvl_cache *c, uint8_t n, size_t size)
{
	struct rvl_program *p = calloc(1, sizeof(*p));

	ck_assert_ptr_nonnull(p);
	p->cache = c;
	p->refs = 1;
	p->key = key_of(n);
	p->fd = -1;
	p->size = size;
	rvl_list_add_tail(&c->programs, &p->link);
	return p;
}

static bool has(struct rvl_cache *c, uint8_t n)
{
	struct rvl_key k = key_of(n);
	struct rvl_program *p = rvl_cache_find(c, &k);

	rvl_program_put(p);
	return p;
}

/*
 * Proves that loaded programs stay, and that of the idle programs the least recently used one is
 * evicted.
 */
START_TEST(cache_evicts)
{
	struct rvl_cache c;
	struct rvl_program *used;

	rvl_cache_init(&c, 2 * PAGE + 1, 100);
	used = fake(&c, 1, 10 * PAGE);
	rvl_program_put(fake(&c, 2, 100));
	rvl_program_put(fake(&c, 3, 100));
	ck_assert_uint_eq(c.idle_bytes, 2 * PAGE);
	ck_assert_uint_eq(c.idle_programs, 2);
	ck_assert(has(&c, 2));
	rvl_program_put(fake(&c, 4, 100));
	ck_assert(!has(&c, 3) && has(&c, 2) && has(&c, 4) && has(&c, 1));
	ck_assert_uint_eq(c.evictions, 1);
	rvl_cache_limit(&c, PAGE, 100);
	ck_assert(has(&c, 1) && has(&c, 4) && !has(&c, 2));
	rvl_program_put(used);
	ck_assert(!has(&c, 1) && has(&c, 4));
	ck_assert_uint_eq(c.idle_bytes, PAGE);
	rvl_cache_limit(&c, 0, 100);
	ck_assert_uint_eq(c.idle_bytes, 0);
	ck_assert_uint_eq(c.idle_programs, 0);
	rvl_cache_clear(&c);
}
END_TEST

/* Proves that the cache limits the number of programs too, because each holds a file descriptor. */
START_TEST(cache_counts)
{
	struct rvl_cache c;

	rvl_cache_init(&c, 1 << 30, 3);
	for (uint8_t n = 1; n <= 5; n++)
		rvl_program_put(fake(&c, n, 1));
	ck_assert_uint_eq(c.idle_programs, 3);
	ck_assert_uint_eq(c.evictions, 2);
	ck_assert(!has(&c, 1) && !has(&c, 2) && has(&c, 3) && has(&c, 4) && has(&c, 5));
	rvl_cache_limit(&c, 1 << 30, 1);
	ck_assert(has(&c, 5) && !has(&c, 4));
	rvl_cache_limit(&c, 1 << 30, 0);
	rvl_program_put(fake(&c, 6, 1));
	ck_assert(!has(&c, 6));
	rvl_cache_clear(&c);
}
END_TEST

static void put_of(struct rvl_cache *c, uid_t owner, uint8_t n, size_t size)
{
	struct rvl_program *p = fake(c, n, size);

	p->owner = owner;
	rvl_program_put(p);
}

/*
 * Proves that a user who loads many programs evicts only programs of their own, whichever limit
 * they reach.
 */
START_TEST(cache_is_fair)
{
	struct rvl_cache c;

	rvl_cache_init(&c, 8 * PAGE, 8);
	put_of(&c, 1, 1, PAGE);
	put_of(&c, 1, 2, PAGE);
	for (uint8_t n = 10; n < 60; n++)
		put_of(&c, 2, n, 1);
	ck_assert(has(&c, 1) && has(&c, 2) && has(&c, 59) && has(&c, 54) && !has(&c, 53));
	put_of(&c, 3, 100, 5 * PAGE);
	put_of(&c, 3, 101, 3 * PAGE);
	ck_assert(has(&c, 1) && has(&c, 2) && has(&c, 101) && !has(&c, 100));
	ck_assert_uint_le(c.idle_bytes, 8 * PAGE);
	ck_assert_uint_le(c.idle_programs, 8);
	rvl_cache_clear(&c);
	ck_assert_ptr_eq(c.holdings.next, &c.holdings);
}
END_TEST

/* Proves that times measured on one board are discarded for the next one. */
START_TEST(cache_discards_times)
{
	struct rvl_cache c;
	struct rvl_program *p;

	rvl_cache_init(&c, 1 << 20, 10);
	p = fake(&c, 1, 1);
	p->at[2].runs = 5;
	p->at[2].measured_ns = 1000;
	rvl_peak_add(&p->at[2].longest, 1, 2000);
	rvl_cache_forget_times(&c);
	ck_assert_uint_eq(p->at[2].measured_ns, 0);
	ck_assert_uint_eq(rvl_peak(&p->at[2].longest), 0);
	ck_assert_uint_eq(p->at[2].runs, 5);
	rvl_cache_clear(&c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cache");
	TCase *t = tcase_create("rules");

	tcase_add_test(t, cache_checks);
	tcase_add_test(t, cache_evicts);
	tcase_add_test(t, cache_counts);
	tcase_add_test(t, cache_is_fair);
	tcase_add_test(t, cache_discards_times);
	suite_add_tcase(s, t);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/* Memory that ends before a page without access, which shows a read beyond its end. */
#ifndef RVL_TEST_EDGE_H
#define RVL_TEST_EDGE_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* The end of memory behind which any access is a fault. It lives as long as the process. */
static inline uint8_t *edge_new(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert(p != MAP_FAILED && !mprotect(p + page, page, PROT_NONE));
	return p + page;
}

#endif

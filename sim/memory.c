// SPDX-License-Identifier: MIT
#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GIB	    (1ull << 30)
#define Q35_ALL_LOW 0xb0000000ull /* RAM up to this size is entirely below 4 GiB */

uint64_t rvl_memory_offset(uint64_t size, uint64_t addr, uint64_t len)
{
	uint64_t low = size < Q35_ALL_LOW ? size : 2 * GIB, high = size - low;

	if (addr <= low && len <= low - addr)
		return addr;
	if (addr >= 4 * GIB && addr - 4 * GIB <= high && len <= high - (addr - 4 * GIB))
		return low + (addr - 4 * GIB);
	return UINT64_MAX;
}

static void map_file(struct rvl_memory *m)
{
	int fd = open(m->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	void *p;

	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0) {
		p = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED) {
			m->base = p;
			m->size = st.st_size;
		}
	}
	close(fd);
}

void *rvl_memory_map(void *ctx, uint64_t addr, uint64_t len, bool write)
{
	struct rvl_memory *m = ctx;
	uint64_t at;

	(void)write; /* all RAM is writable */
	if (!m->base)
		map_file(m);
	if (!m->base)
		return NULL;
	at = rvl_memory_offset(m->size, addr, len);
	return at == UINT64_MAX ? NULL : m->base + at;
}

void rvl_memory_drop(struct rvl_memory *m)
{
	if (m->base)
		munmap(m->base, m->size);
	m->base = NULL;
	m->size = 0;
}

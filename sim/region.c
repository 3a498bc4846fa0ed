// SPDX-License-Identifier: MIT
/*
 * Isolation: the engines access memory only through these functions. Every range is checked against
 * its slot before the first byte moves: valid, inside the limit, writable, no wrap on the final
 * address, mapped.
 */
#include "core.h"

#include <endian.h>
#include <string.h>

static int bad(struct rvl_regions *r, uint32_t slot, uint64_t offset, enum rivulet_fault fault)
{
	r->bad = (struct rvl_access){ slot, offset };
	return fault;
}

static int check_range(const struct rivulet_region *g, uint64_t offset, uint64_t len, bool write)
{
	uint64_t end;

	if (!(g->flags & RIVULET_REGION_VALID))
		return RIVULET_FAULT_SLOT_INVALID;
	if (__builtin_add_overflow(offset, len, &end))
		return RIVULET_FAULT_SLOT_WRAP;
	if (end > g->limit)
		return RIVULET_FAULT_SLOT_LIMIT;
	return write && !(g->flags & RIVULET_REGION_WRITE) ? RIVULET_FAULT_SLOT_WRITE : 0;
}

static int page_entry(struct rvl_regions *r, const struct rivulet_region *g, uint64_t index,
		      uint64_t *page)
{
	uint64_t at;
	void *p;

	if (index > UINT64_MAX / 8 || __builtin_add_overflow(g->addr, 8 * index, &at))
		return RIVULET_FAULT_SLOT_WRAP;
	p = rvl_bus_map(r->bus, at, 8, false);
	if (!p)
		return RIVULET_FAULT_SLOT_BUS;
	memcpy(page, p, 8);
	*page = le64toh(*page);
	return *page % RIVULET_PAGE_SIZE ? RIVULET_FAULT_SLOT_BUS : 0;
}

/* Bus address of the byte at @offset and how many bytes follow it without a break, @len at most. */
static int translate_list(struct rvl_regions *r, const struct rivulet_region *g, uint64_t offset,
			  uint64_t len, uint64_t *addr, uint64_t *got)
{
	uint64_t at, page, next, in_page;
	int fault;

	if (__builtin_add_overflow(offset, (uint64_t)g->first, &at))
		return RIVULET_FAULT_SLOT_WRAP;
	fault = page_entry(r, g, at / RIVULET_PAGE_SIZE, &page);
	if (fault)
		return fault;
	in_page = at % RIVULET_PAGE_SIZE;
	*addr = page + in_page;
	*got = RIVULET_PAGE_SIZE - in_page;
	while (*got < len) {
		at += *got < RIVULET_PAGE_SIZE ? *got : RIVULET_PAGE_SIZE;
		fault = page_entry(r, g, at / RIVULET_PAGE_SIZE, &next);
		if (fault || next != page + RIVULET_PAGE_SIZE)
			break;
		page = next;
		*got += RIVULET_PAGE_SIZE;
	}
	if (*got > len)
		*got = len;
	return 0;
}

static int translate(struct rvl_regions *r, const struct rivulet_region *g, uint64_t offset,
		     uint64_t len, uint64_t *addr, uint64_t *got)
{
	uint64_t end;

	if (g->flags & RIVULET_REGION_LIST)
		return translate_list(r, g, offset, len, addr, got);
	if (__builtin_add_overflow(g->addr, offset, addr) ||
	    __builtin_add_overflow(*addr, len - 1, &end))
		return RIVULET_FAULT_SLOT_WRAP;
	*got = len;
	return 0;
}

int rvl_region_span(struct rvl_regions *r, uint32_t slot, uint64_t offset, uint64_t len, bool write,
		    void **p, uint64_t *got)
{
	const struct rivulet_region *g = &r->region[slot % RIVULET_SLOTS];
	uint64_t addr;
	int fault;

	if (slot >= RIVULET_SLOTS)
		return bad(r, slot, offset, RIVULET_FAULT_SLOT_INVALID);
	fault = check_range(g, offset, len, write);
	if (!fault)
		fault = translate(r, g, offset, len, &addr, got);
	if (fault)
		return bad(r, slot, offset, fault);
	*p = rvl_bus_map(r->bus, addr, *got, write);
	return *p ? 0 : bad(r, slot, offset, RIVULET_FAULT_SLOT_BUS);
}

int rvl_region_read(struct rvl_regions *r, uint32_t slot, uint64_t offset, void *dst, uint64_t len)
{
	uint8_t *to = dst;

	while (len) {
		uint64_t got;
		void *p;
		int fault = rvl_region_span(r, slot, offset, len, false, &p, &got);

		if (fault)
			return fault;
		memcpy(to, p, got);
		to += got;
		offset += got;
		len -= got;
	}
	return 0;
}

/* All pieces are checked before the first is written, so that a fault writes nothing. */
static int probe(struct rvl_regions *r, uint32_t slot, uint64_t offset, uint64_t len)
{
	while (len) {
		uint64_t got;
		void *p;
		int fault = rvl_region_span(r, slot, offset, len, true, &p, &got);

		if (fault)
			return fault;
		offset += got;
		len -= got;
	}
	return 0;
}

int rvl_region_write(struct rvl_regions *r, uint32_t slot, uint64_t offset, const void *src,
		     uint64_t len)
{
	const uint8_t *from = src;
	uint64_t got = 0;
	void *p;
	int fault = len ? rvl_region_span(r, slot, offset, len, true, &p, &got) : 0;

	if (!fault && got < len)
		fault = probe(r, slot, offset, len);
	while (!fault && len) {
		fault = rvl_region_span(r, slot, offset, len, true, &p, &got);
		if (fault)
			break;
		memcpy(p, from, got);
		from += got;
		offset += got;
		len -= got;
	}
	return fault;
}

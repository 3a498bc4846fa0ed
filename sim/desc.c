// SPDX-License-Identifier: MIT
/* The checks of docs/device.md 3.1, in its order. */
#include "device.h"

#include <stddef.h>
#include <string.h>

#include "rivulet_crc32c.h"

static bool header_ok(const struct rivulet_desc *d, uint32_t seq, uint32_t levels)
{
	static const uint32_t zero[3];

	return d->magic == RIVULET_DESC_MAGIC && d->size == sizeof(*d) && d->seq == seq &&
	       !(d->flags & ~RIVULET_DESC_FLAGS) && d->min_level < levels && !d->rsvd &&
	       !memcmp(d->rsvd2, zero, sizeof(zero));
}

static bool report_ok(const struct rivulet_desc *d)
{
	if (d->report_slot == RIVULET_NO_SLOT)
		return !d->report_offset;
	return d->report_slot < RIVULET_SLOTS && d->report_offset % 8 == 0;
}

static bool variants_ok(const struct rivulet_desc *d, uint32_t levels)
{
	for (uint32_t i = 0; i < RIVULET_LEVELS; i++)
		if (d->variant[i].length && (i >= levels || d->variant[i].slot >= RIVULET_SLOTS))
			return false;
	return true;
}

static bool region_ok(const struct rivulet_region *r)
{
	if (!(r->flags & RIVULET_REGION_VALID))
		return !(r->addr | r->limit | r->first | r->flags);
	if (r->flags & ~RIVULET_REGION_FLAGS)
		return false;
	if (r->flags & RIVULET_REGION_LIST)
		return r->first < RIVULET_PAGE_SIZE && r->addr % 8 == 0;
	return !r->first;
}

static bool regions_ok(const struct rivulet_desc *d)
{
	for (int i = 0; i < RIVULET_SLOTS; i++)
		if (!region_ok(&d->region[i]))
			return false;
	return true;
}

uint32_t rvl_desc_copy(const struct rvl_bus *bus, uint64_t addr, struct rivulet_desc *d)
{
	const void *p;

	p = addr % RIVULET_DESC_ALIGN ? NULL : rvl_bus_map(bus, addr, sizeof(*d), false);
	if (!p)
		return RIVULET_FAULT_DESC_BUS;
	memcpy(d, p, sizeof(*d));
	return RIVULET_FAULT_NONE;
}

uint32_t rvl_desc_check(const struct rvl_bus *bus, uint32_t seq, uint32_t levels,
			const struct rivulet_desc *d)
{
	if (rivulet_crc32c(0, d, offsetof(struct rivulet_desc, crc)) != d->crc)
		return RIVULET_FAULT_DESC_CRC;
	if (!header_ok(d, seq, levels) || !report_ok(d) || !variants_ok(d, levels) ||
	    !regions_ok(d))
		return RIVULET_FAULT_DESC_FIELD;
	if (d->status % RIVULET_DESC_ALIGN ||
	    !rvl_bus_map(bus, d->status, sizeof(struct rivulet_status), true))
		return RIVULET_FAULT_DESC_BUS;
	return RIVULET_FAULT_NONE;
}

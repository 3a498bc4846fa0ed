// SPDX-License-Identifier: MIT
/* Performance monitors: sums of what the device counted of chosen jobs of this device object. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xf86drm.h>

#include "priv.h"

struct rivulet_perfmon {
	atomic_int refs;
	struct rivulet_device *dev;	/* referenced */
	uint32_t id;
};

static const struct {
	const char *name, *unit;
} counters[] = {
	[DRM_RIVULET_PERF_JOBS] = { "jobs", "jobs" },
	[DRM_RIVULET_PERF_FAILED] = { "failed", "jobs" },
	[DRM_RIVULET_PERF_TIME] = { "time", "ns" },
	[DRM_RIVULET_PERF_CYCLES] = { "cycles", "cycles" },
	[DRM_RIVULET_PERF_LOAD_BUSY] = { "load_busy", "cycles" },
	[DRM_RIVULET_PERF_CONV_BUSY] = { "conv_busy", "cycles" },
	[DRM_RIVULET_PERF_ALU_BUSY] = { "alu_busy", "cycles" },
	[DRM_RIVULET_PERF_STORE_BUSY] = { "store_busy", "cycles" },
	[DRM_RIVULET_PERF_STALLS] = { "stalls", "cycles" },
	[DRM_RIVULET_PERF_READ_BYTES] = { "read_bytes", "bytes" },
	[DRM_RIVULET_PERF_WRITE_BYTES] = { "write_bytes", "bytes" },
	[DRM_RIVULET_PERF_MACS] = { "macs", "MACs" },
	[DRM_RIVULET_PERF_ENERGY] = { "energy", "pJ" },
};
_Static_assert(sizeof(counters) / sizeof(counters[0]) == RIVULET_PERF_VALUES,
	       "every counter has a name");

const char *rivulet_perfmon_counter(uint32_t counter, const char **unit)
{
	if (counter >= RIVULET_PERF_VALUES)
		return NULL;
	if (unit)
		*unit = counters[counter].unit;
	return counters[counter].name;
}

int rivulet_perfmon_new(struct rivulet_device *dev, struct rivulet_perfmon **out)
{
	struct drm_rivulet_perfmon_create p = { 0 };
	struct rivulet_perfmon *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return rvl_lib_fail(ENOMEM, "out of memory");
	if (drmIoctl(dev->fd, DRM_IOCTL_RIVULET_PERFMON_CREATE, &p)) {
		r = rvl_lib_fail(errno, "%s: no performance monitor: %s", dev->path, strerror(errno));
		free(m);
		return r;
	}
	atomic_init(&m->refs, 1);
	m->dev = rivulet_device_ref(dev);
	m->id = p.perfmon;
	*out = m;
	return 0;
}

struct rivulet_perfmon *rivulet_perfmon_ref(struct rivulet_perfmon *mon)
{
	if (mon)
		atomic_fetch_add(&mon->refs, 1);
	return mon;
}

struct rivulet_perfmon *rivulet_perfmon_unref(struct rivulet_perfmon *mon)
{
	struct drm_rivulet_perfmon_destroy p = { 0 };

	if (!mon || atomic_fetch_sub(&mon->refs, 1) != 1)
		return NULL;
	p.perfmon = mon->id;
	drmIoctl(mon->dev->fd, DRM_IOCTL_RIVULET_PERFMON_DESTROY, &p);
	rivulet_device_unref(mon->dev);
	free(mon);
	return NULL;
}

uint32_t rivulet_perfmon_id(const struct rivulet_perfmon *mon)
{
	return mon->id;
}

int rivulet_perfmon_read(struct rivulet_perfmon *mon, bool reset, uint64_t *values, uint32_t count)
{
	struct drm_rivulet_perfmon_read p = {
		.perfmon = mon->id,
		.flags = reset ? DRM_RIVULET_PERFMON_RESET : 0,
		.values = (uintptr_t)values,
		.count = count,
	};

	/* An older driver knows fewer values and leaves the others untouched. */
	memset(values, 0, count * sizeof(*values));
	if (drmIoctl(mon->dev->fd, DRM_IOCTL_RIVULET_PERFMON_READ, &p))
		return rvl_lib_fail(errno, "%s: cannot read performance monitor %u: %s",
				mon->dev->path, mon->id, strerror(errno));
	return 0;
}

// SPDX-License-Identifier: MIT
/*
 * Batteries, mains and thermal zones from sysfs. The files are read directly each time, because
 * libudev caches attributes.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "power.h"

struct dir {
	int fd;
};

static bool get(void *ctx, const char *name, char *buf, size_t size)
{
	const struct dir *d = ctx;
	_cleanup_close_ int fd = openat(d->fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	if (n < 0)
		return false;
	buf[n] = 0;
	buf[strcspn(buf, "\n")] = 0;
	return true;
}

/* Calls @fn with the open directory of each entry of @sys/class/@name that begins with @prefix. */
static void each(const char *sys, const char *name, const char *prefix,
		 void (*fn)(struct dir *d, void *data), void *data)
{
	char path[256];
	struct dirent *e;
	struct dir d;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/class/%s", sys, name);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		if (*e->d_name == '.' || strncmp(e->d_name, prefix, strlen(prefix)))
			continue;
		d.fd = openat(dirfd(dir), e->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (d.fd < 0)
			continue;
		fn(&d, data);
		close(d.fd);
	}
	if (dir)
		closedir(dir);
}

struct supplies {
	struct rvl_supply s[RVL_SUPPLIES_MAX];
	size_t n;
};

static void one_supply(struct dir *d, void *data)
{
	struct supplies *all = data;

	if (all->n < ARRAY_SIZE(all->s))
		rvl_supply_read(get, d, &all->s[all->n++]);
}

void rvl_supplies_read(const char *sys, struct rvl_reading *out)
{
	struct supplies all = { .n = 0 };

	each(sys, "power_supply", "", one_supply, &all);
	rvl_reading_sum(all.s, all.n, out);
}

struct zones {
	struct rvl_zones sum;
	int64_t limit, hysteresis;
};

static void one_zone(struct dir *d, void *data)
{
	struct zones *z = data;
	int64_t temp;
	enum rvl_heat heat = rvl_zone_heat(get, d, z->limit, z->hysteresis, &temp);

	if (heat > z->sum.heat)
		z->sum.heat = heat;
	if (temp > z->sum.temp)
		z->sum.temp = temp;
}

void rvl_zones_read(const char *sys, int64_t limit, int64_t hysteresis, struct rvl_zones *out)
{
	struct zones z = { .sum = { .temp = RVL_NO_VALUE }, .limit = limit,
			   .hysteresis = hysteresis };

	each(sys, "thermal", "thermal_zone", one_zone, &z);
	*out = z.sum;
}

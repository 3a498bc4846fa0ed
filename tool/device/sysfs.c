// SPDX-License-Identifier: MIT
#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/sysfs.h"

const char *rvl_sys_root = "";

static void vpath(char *out, const char *fmt, va_list ap)
{
	int n = snprintf(out, RVL_PATH_MAX, "%s/", rvl_sys_root);

	if (n > 0 && n < RVL_PATH_MAX)
		vsnprintf(out + n, RVL_PATH_MAX - (size_t)n, fmt, ap);
}

const char *rvl_sys_path(char *out, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vpath(out, fmt, ap);
	va_end(ap);
	return out;
}

bool rvl_sys_read(char *out, size_t size, const char *fmt, ...)
{
	char path[RVL_PATH_MAX];
	va_list ap;
	bool ok;
	FILE *f;

	va_start(ap, fmt);
	vpath(path, fmt, ap);
	va_end(ap);
	*out = 0;
	f = fopen(path, "re");
	if (!f)
		return false;
	ok = fgets(out, (int)size, f);
	fclose(f);
	out[strcspn(out, "\n")] = 0;
	return ok;
}

bool rvl_sys_exists(const char *fmt, ...)
{
	char path[RVL_PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vpath(path, fmt, ap);
	va_end(ap);
	return !access(path, F_OK);
}

bool rvl_sys_link(char *out, size_t size, const char *fmt, ...)
{
	char path[RVL_PATH_MAX], target[RVL_PATH_MAX];
	va_list ap;
	ssize_t n;
	char *base;

	va_start(ap, fmt);
	vpath(path, fmt, ap);
	va_end(ap);
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = 0;
	base = strrchr(target, '/');
	snprintf(out, size, "%s", base ? base + 1 : target);
	return true;
}

bool rvl_sys_each(const char *dir, bool (*fn)(void *ctx, const char *name), void *ctx)
{
	char path[RVL_PATH_MAX];
	struct dirent **list;
	bool hit = false;
	int n = scandir(rvl_sys_path(path, "%s", dir), &list, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		if (!hit && list[i]->d_name[0] != '.')
			hit = fn(ctx, list[i]->d_name);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return hit;
}

struct devfreq {
	char device[256], *out;
	size_t size;
};

/* A devfreq device and a DRM node belong together if they have the same parent device. */
static bool same_device(void *ctx, const char *name)
{
	struct devfreq *d = ctx;
	char device[256];

	if (!rvl_sys_link(device, sizeof(device), "sys/class/devfreq/%s/device", name) ||
	    strcmp(device, d->device))
		return false;
	snprintf(d->out, d->size, "%s", name);
	return true;
}

bool rvl_sys_devfreq(const char *node, char *out, size_t size)
{
	struct devfreq d = { .out = out, .size = size };

	return (rvl_sys_link(d.device, sizeof(d.device), "sys/class/accel/%s/device", node) ||
		rvl_sys_link(d.device, sizeof(d.device), "sys/class/drm/%s/device", node)) &&
	       rvl_sys_each("sys/class/devfreq", same_device, &d);
}

// SPDX-License-Identifier: MIT
/*
 * The min_freq and max_freq of one device. The kernel keeps both as requests in kHz, the minimum rounded
 * down and the maximum rounded up, and a read returns the range that all requests together leave. So the
 * values are read back after a write; if a later read differs, another process has written.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "power.h"

static int read_file(const char *path, char *buf, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	if (n < 0)
		return -errno;
	buf[n] = 0;
	return 0;
}

static int write_file(const char *path, const char *text, size_t size)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, size);

	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EIO;
}

static const struct rvl_devfreq_io sysfs = { read_file, write_file };
const struct rvl_devfreq_io *rvl_devfreq_io = &sysfs;

static int read_hz(const struct rvl_devfreq *d, const char *name, uint64_t *hz, struct rvl_text *err)
{
	char path[400], text[32], *end;
	int r;

	snprintf(path, sizeof(path), "%s/%s", d->dir, name);
	r = rvl_devfreq_io->read(path, text, sizeof(text));
	if (r)
		return rvl_say(err, r, "%s: %s", path, strerror(-r));
	errno = 0;
	*hz = strtoull(text, &end, 10);
	if (end == text || errno)
		return rvl_say(err, -EIO, "%s: \"%.20s\" is no frequency", path, text);
	return 0;
}

static int write_hz(const struct rvl_devfreq *d, const char *name, uint64_t hz, struct rvl_text *err)
{
	char path[400], text[32];
	int n = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)hz), r;

	snprintf(path, sizeof(path), "%s/%s", d->dir, name);
	r = rvl_devfreq_io->write(path, text, (size_t)n);
	if (r)
		return rvl_say(err, r, "writing %llu to %s: %s", (unsigned long long)hz, path,
			       strerror(-r));
	return 0;
}

/*
 * A minimum above the maximum leaves the range at the maximum. So when the range moves down, the maximum
 * is written first and the range is at its new place at once; when it moves up, the minimum is written
 * first and the range stays until the maximum is written. In between the governor never has a choice.
 */
static int write_range(const struct rvl_devfreq *d, uint64_t min, uint64_t max, uint64_t old_max,
		       struct rvl_text *err)
{
	bool up = min > old_max;
	int r = write_hz(d, up ? "min_freq" : "max_freq", up ? min : max, err);

	return r ?: write_hz(d, up ? "max_freq" : "min_freq", up ? max : min, err);
}

static bool find_dir(struct rvl_devfreq *d, const char *syspath)
{
	char path[280];
	struct dirent *e;
	bool found = false;
	DIR *dir;

	/* .../DEVICE/accel/accel0 -> .../DEVICE/devfreq/NAME */
	snprintf(path, sizeof(path), "%s", syspath);
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(path, '/');

		if (!slash)
			return false;
		*slash = 0;
	}
	strncat(path, "/devfreq", sizeof(path) - strlen(path) - 1);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		if (*e->d_name == '.')
			continue;
		found = snprintf(d->dir, sizeof(d->dir), "%s/%s", path, e->d_name) <
			(int)sizeof(d->dir);
	}
	if (dir)
		closedir(dir);
	return found;
}

int rvl_devfreq_open(struct rvl_devfreq *d, const char *syspath, struct rvl_text *err)
{
	int r;

	memset(d, 0, sizeof(*d));
	if (!find_dir(d, syspath)) {
		d->dir[0] = 0;
		return rvl_say(err, -ENOENT, "%.200s: its device has no devfreq", syspath);
	}
	r = read_hz(d, "min_freq", &d->orig_min, err);
	r = r ?: read_hz(d, "max_freq", &d->orig_max, err);
	if (r)
		d->dir[0] = 0;
	return r;
}

static int read_back(struct rvl_devfreq *d, uint64_t hz, struct rvl_text *err)
{
	int r = read_hz(d, "min_freq", &d->seen_min, err);

	r = r ?: read_hz(d, "max_freq", &d->seen_max, err);
	if (r)
		return r;
	/* Rounding to kHz moves each limit by less than 1 kHz. */
	if (d->seen_min + 1000 <= hz || d->seen_min > hz || d->seen_max < hz ||
	    d->seen_max >= hz + 1000)
		return rvl_say(err, -ERANGE, "%s: %llu Hz asked for, %llu to %llu Hz granted", d->dir,
			       (unsigned long long)hz, (unsigned long long)d->seen_min,
			       (unsigned long long)d->seen_max);
	return 0;
}

int rvl_devfreq_pin(struct rvl_devfreq *d, uint64_t hz, struct rvl_text *err)
{
	uint64_t max;
	int r = read_hz(d, "max_freq", &max, err);

	r = r ?: write_range(d, hz, hz, max, err);
	r = r ?: read_back(d, hz, err);
	/* Also after a refusal, because the request stays in the kernel and must be undone at the end. */
	d->hz = hz;
	return r;
}

bool rvl_devfreq_changed(const struct rvl_devfreq *d, uint64_t *min, uint64_t *max)
{
	struct rvl_text unused;

	return d->hz && !read_hz(d, "min_freq", min, &unused) &&
	       !read_hz(d, "max_freq", max, &unused) &&
	       (*min != d->seen_min || *max != d->seen_max);
}

int rvl_devfreq_put(struct rvl_devfreq *d, uint64_t min, uint64_t max, struct rvl_text *err)
{
	uint64_t old;
	int r = read_hz(d, "max_freq", &old, err);

	r = r ?: write_range(d, min, max, old, err);
	if (!r)
		d->hz = 0;
	return r;
}

int rvl_devfreq_restore(struct rvl_devfreq *d, struct rvl_text *err)
{
	return *d->dir && d->hz ? rvl_devfreq_put(d, d->orig_min, d->orig_max, err) : 0;
}

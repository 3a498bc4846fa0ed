// SPDX-License-Identifier: MIT
/*
 * The state that survives a daemon that is killed: the limits to restore, the state of the policy,
 * and the mode that was set. The file has "key value" lines, is replaced as a whole, and is valid
 * for one boot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "power.h"

#define VERSION		1
#define FILE_MAX_BYTES	2048

/* S(key, member): the numbers. The directory and the boot id are written apart. */
#define STATE_NUMBERS(S)                                                                           \
	S(orig_min, devfreq.orig_min) S(orig_max, devfreq.orig_max) S(hz, devfreq.hz)              \
	S(seen_min, devfreq.seen_min) S(seen_max, devfreq.seen_max) S(step, step) S(cap, cap)      \
	S(level, level) S(reserve, reserve) S(changed, changed) S(mode, mode) S(fixed, fixed)

/* rivuletd.service names the boot, because its ProcSubset=pid hides /proc/sys from the daemon. */
static int boot_id(char *buf, size_t size)
{
	_cleanup_close_ int fd = -1;
	const char *given = getenv("RIVULETD_BOOT_ID");
	ssize_t n;

	if (given && *given && strlen(given) < size) {
		strcpy(buf, given);
		return 0;
	}
	fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, size - 1);
	if (n <= 0)
		return -EIO;
	buf[n] = 0;
	buf[strcspn(buf, "\n")] = 0;
	return 0;
}

static int write_state(FILE *f, const struct rvl_power_state *st)
{
	char boot[64];

	if (boot_id(boot, sizeof(boot)))
		return -EIO;
	fprintf(f, "version %d\nboot %s\n", VERSION, boot);
#define WRITE_NUMBER(key, member) fprintf(f, #key " %llu\n", (unsigned long long)st->member);
	STATE_NUMBERS(WRITE_NUMBER)
	fprintf(f, "dir %s\nend 0\n", *st->devfreq.dir ? st->devfreq.dir : "-");
	return fflush(f) || ferror(f) ? -EIO : 0;
}

int rvl_power_save(const char *path, const struct rvl_power_state *st)
{
	char temp[200];
	FILE *f;
	int r;

	if (snprintf(temp, sizeof(temp), "%s.new", path) >= (int)sizeof(temp))
		return -ENAMETOOLONG;
	f = fopen(temp, "we");
	if (!f)
		return -errno;
	r = write_state(f, st);
	if (fclose(f) && !r)
		r = -errno;
	if (!r && rename(temp, path))
		r = -errno;
	if (r)
		unlink(temp);
	return r;
}

struct parsed {
	bool version, end;
	char boot[64];
};

static int take_line(char *line, struct rvl_power_state *st, struct parsed *p)
{
	char *value = strchr(line, ' '), *end;
	unsigned long long v;

	if (!value)
		return -EINVAL;
	*value++ = 0;
	if (!strcmp(line, "boot"))
		return snprintf(p->boot, sizeof(p->boot), "%s", value) < 0 ? -EINVAL : 0;
	if (!strcmp(line, "dir")) {
		if (strlen(value) >= sizeof(st->devfreq.dir))
			return -EINVAL;
		strcpy(st->devfreq.dir, strcmp(value, "-") ? value : "");
		return 0;
	}
	errno = 0;
	v = strtoull(value, &end, 10);
	if (end == value || *end || errno)
		return -EINVAL;
	if (!strcmp(line, "version"))
		p->version = v == VERSION;
	p->end |= !strcmp(line, "end");
#define TAKE_NUMBER(key, member)                                                                   \
	if (!strcmp(line, #key))                                                                   \
		st->member = (__typeof__(st->member))v;
	STATE_NUMBERS(TAKE_NUMBER)
	return 0;
}

static int parse(char *text, struct rvl_power_state *st)
{
	struct parsed p = { .version = false };
	char boot[64], *save = NULL;
	int r = 0;

	for (char *l = strtok_r(text, "\n", &save); l && !r; l = strtok_r(NULL, "\n", &save))
		r = take_line(l, st, &p);
	if (r || !p.version || !p.end || st->level >= RIVULET_LEVELS || st->step >= RIVULET_LEVELS ||
	    st->cap >= RIVULET_LEVELS || st->mode > RIVULET_POLICY_FIXED ||
	    st->fixed >= RIVULET_LEVELS)
		return -EINVAL;
	r = boot_id(boot, sizeof(boot));
	return r ?: strcmp(boot, p.boot) ? -ESTALE : 0;
}

int rvl_power_load(const char *path, struct rvl_power_state *st)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[FILE_MAX_BYTES];
	ssize_t n = fd < 0 ? -errno : read(fd, text, sizeof(text) - 1);
	int r;

	memset(st, 0, sizeof(*st));
	if (n < 0)
		return fd < 0 ? (int)n : -errno;
	text[n] = 0;
	r = parse(text, st);
	if (r)
		memset(st, 0, sizeof(*st));
	return r;
}

// SPDX-License-Identifier: MIT
/*
 * Right answers by bitstream length, measured on first use and kept in a file of the user's cache.
 * The file's name is a hash of model, data, options and the division of the examples, on which they
 * depend.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/accuracy.h"
#include "output.h"
#include "plan/plan.h"
#include "rivulet_crc32c.h"

#define HEAD	  "rivulet-accuracy 1\n"
#define FILE_MAX_ 65536
#define SAVE_EACH 2 /* s */

/* A failing cache costs time only, so that it is a note and no error. */
static void note(const struct rvl_curve *c, const char *why)
{
	fprintf(stderr, "rivulet: note: accuracies are not kept: %s: %s\n", c->file, why);
}

/* ---- the file ---- */

static bool take_line(struct rvl_curve *c, const char *line)
{
	unsigned int part, length;
	uint64_t right;
	int n = 0;

	if (sscanf(line, "%u %u %" SCNu64 "%n", &part, &length, &right, &n) != 3 || line[n] ||
	    part >= RVL_PARTS || length > RIVULET_SC_MAX || right > c->part[part].count)
		return false;
	c->right[part][length] = right;
	c->known[part][length] = true;
	return true;
}

/* HEAD, lines, and their CRC. False if the file is not of this form. */
static bool take_file(struct rvl_curve *c, char *text, size_t size)
{
	const size_t tail = strlen("crc32c 00000000\n"), head = strlen(HEAD);
	char sum[24], *save = NULL;

	if (size < head + tail || memcmp(text, HEAD, head) || memchr(text, 0, size))
		return false;
	snprintf(sum, sizeof(sum), "crc32c %08x\n", rivulet_crc32c(0, text, size - tail));
	if (memcmp(text + size - tail, sum, tail))
		return false;
	text[size - tail] = 0;
	for (char *l = strtok_r(text + head, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		if (!take_line(c, l))
			return false;
	return true;
}

static void load(struct rvl_curve *c)
{
	char *text = malloc(FILE_MAX_ + 1);
	FILE *f = fopen(c->file, "re");
	size_t n;

	if (text && f) {
		n = fread(text, 1, FILE_MAX_, f);
		text[n] = 0;
		if (!take_file(c, text, n)) {
			memset(c->known, 0, sizeof(c->known));
			fprintf(stderr, "rivulet: note: %s is damaged; accuracies are measured "
				"again\n", c->file);
		}
	}
	if (f)
		fclose(f);
	free(text);
}

static void make_parents(char *path)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = 0;
		mkdir(path, 0777);
		*p = '/';
	}
}

static bool set_name(struct rvl_curve *c, const char *dir)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char hex[33];
	int n;

	for (int i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", c->key[i]);
	if (dir)
		n = snprintf(c->file, sizeof(c->file), "%s/%s.accuracy", dir, hex);
	else if (xdg && *xdg == '/')
		n = snprintf(c->file, sizeof(c->file), "%s/rivulet/%s.accuracy", xdg, hex);
	else if (home && *home == '/')
		n = snprintf(c->file, sizeof(c->file), "%s/.cache/rivulet/%s.accuracy", home, hex);
	else
		return false;
	return n > 0 && (size_t)n < sizeof(c->file) - 8;
}

void rvl_curve_open(struct rvl_curve *c, const char *dir)
{
	if (!set_name(c, dir)) {
		c->file[0] = 0;
		return;
	}
	c->saved = rvl_tool_seconds();
	load(c);
}

static size_t compose(const struct rvl_curve *c, char *text, size_t room)
{
	size_t n = (size_t)snprintf(text, room, "%s", HEAD);

	for (uint32_t p = 0; p < RVL_PARTS; p++)
		for (uint32_t l = 0; l <= RIVULET_SC_MAX; l++)
			if (c->known[p][l])
				n += (size_t)snprintf(text + n, room - n, "%u %u %" PRIu64 "\n", p,
						      l, c->right[p][l]);
	return n + (size_t)snprintf(text + n, room - n, "crc32c %08x\n",
				    rivulet_crc32c(0, text, n));
}

/* Written under another name and renamed, so that a concurrent reader sees a complete file. */
static bool replace(const struct rvl_curve *c, const char *text, size_t n)
{
	char path[4112];
	FILE *f;
	bool ok;
	int fd;

	snprintf(path, sizeof(path), "%s.XXXXXX", c->file);
	fd = mkostemp(path, O_CLOEXEC);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f)
		return false;
	ok = fwrite(text, 1, n, f) == n;
	ok = !fclose(f) && ok && !rename(path, c->file);
	if (!ok)
		unlink(path);
	return ok;
}

void rvl_curve_save(struct rvl_curve *c)
{
	char *text;

	rvl_progress_end(&c->progress);
	if (!c->unsaved || !c->file[0])
		return;
	make_parents(c->file);
	text = malloc(FILE_MAX_);
	if (!text || !replace(c, text, compose(c, text, FILE_MAX_))) {
		note(c, strerror(errno));
		c->file[0] = 0;
	}
	free(text);
	c->unsaved = 0;
	c->saved = rvl_tool_seconds();
}

/* ---- measuring ---- */

/*
 * The number of measurements that the choice needs depends on their results: only a bound is known.
 */
static int measure(struct rvl_curve *c, enum rvl_part part, uint32_t length, struct rvl_err *err)
{
	struct rivulet_eval_spec s = { .length = length, .circuit = RIVULET_SC_AND_BIN };
	struct rvl_accuracy a;
	int rc;

	rvl_progress_start(&c->progress, c->part[part].count, "examples",
			   "%u of at most %u measurements done; %u bits",
			   c->measured, c->wanted, length ? length : 8);
	rc = rvl_accuracy_measure(c->eval, &s, &c->part[part], c->threads, &c->progress, &a, err);
	if (rc == -EINTR)
		return rvl_fail(err, rc, "interrupted");
	c->right[part][length] = a.right;
	return rc;
}

int rvl_curve_right(struct rvl_curve *c, enum rvl_part part, uint32_t length, uint64_t *right,
		    struct rvl_err *err)
{
	int rc = 0;

	if (!c->known[part][length] && c->part[part].count) {
		rc = measure(c, part, length, err);
		if (rc)
			return rc;
		c->measured++;
		c->unsaved++;
	}
	c->known[part][length] = true;
	*right = c->right[part][length];
	if (c->unsaved && rvl_tool_seconds() - c->saved >= SAVE_EACH)
		rvl_curve_save(c);
	return 0;
}

static uint32_t ppm_of(uint64_t right, uint64_t count)
{
	return count ? (uint32_t)(right * 1000000 / count) : 0;
}

int rvl_curve_ppm(struct rvl_curve *c, enum rvl_part part, uint32_t length, uint32_t *ppm,
		  struct rvl_err *err)
{
	uint64_t right = 0;
	int rc = rvl_curve_right(c, part, length, &right, err);

	*ppm = ppm_of(right, c->part[part].count);
	return rc;
}

int rvl_curve_ppm_all(struct rvl_curve *c, uint32_t length, uint32_t *ppm, struct rvl_err *err)
{
	uint64_t a = 0, b = 0;
	int rc = rvl_curve_right(c, RVL_CHOOSE, length, &a, err);

	if (!rc)
		rc = rvl_curve_right(c, RVL_HELD, length, &b, err);
	*ppm = ppm_of(a + b, c->part[RVL_CHOOSE].count + c->part[RVL_HELD].count);
	return rc;
}

// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
#include "rivulet_board.h"
#include "rivulet_isa.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef RIVULET_BOARD_DIR
#define RIVULET_BOARD_DIR "/usr/share/rivulet/boards"
#endif
#ifndef RIVULET_SOURCE_BOARDS
#define RIVULET_SOURCE_BOARDS "sim/boards"
#endif
#define PROFILE_MAX 65536

struct key {
	const char *name;
	size_t offset;
	uint32_t lo, hi;
	enum { NEEDED, OPTIONAL, NEEDED_BY_STREAMS } need;
};

#define KEY(key_, lo_, hi_, unit, doc) { #key_, offsetof(struct rivulet_board, key_), lo_, hi_, NEEDED },
#define COST(key_, value, lo_, hi_, unit, doc)                                                     \
	{ #key_, offsetof(struct rivulet_board, key_), lo_, hi_, OPTIONAL },
#define STREAM(key_, lo_, hi_, unit, doc)                                                          \
	{ #key_, offsetof(struct rivulet_board, key_), lo_, hi_, NEEDED_BY_STREAMS },
static const struct key keys[] = { RIVULET_BOARD_KEYS(KEY) RIVULET_BOARD_COST_KEYS(COST)
					   RIVULET_BOARD_STREAM_KEYS(STREAM) };
_Static_assert(offsetof(struct rivulet_board, sc_xnor_mux_fj) ==
		       offsetof(struct rivulet_board, stream[3 + 2 * RIVULET_SC_XNOR_MUX]),
	       "STREAM has the keys' order");
#define KEYS (sizeof(keys) / sizeof(keys[0]))

struct parser {
	struct rivulet_board *b;
	const char *origin;
	int line;
	bool seen[KEYS];
	char *err;
	size_t errsize;
};

__attribute__((format(printf, 2, 3))) static int fail(struct parser *p, const char *fmt, ...)
{
	va_list ap;
	int n = p->line ? snprintf(p->err, p->errsize, "%s:%d: ", p->origin, p->line) :
			  snprintf(p->err, p->errsize, "%s: ", p->origin);

	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < p->errsize)
		vsnprintf(p->err + n, p->errsize - n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int number(struct parser *p, const char *what, const char **s, uint64_t lo, uint64_t hi,
		  uint64_t *out)
{
	char *end;

	errno = 0;
	if (**s < '0' || **s > '9')
		return fail(p, "%s: expected a number, found \"%.20s\"", what, *s);
	*out = strtoull(*s, &end, 0);
	if (errno || *out < lo || *out > hi)
		return fail(p, "%s: %.20s is outside %llu..%llu", what, *s, (unsigned long long)lo,
			    (unsigned long long)hi);
	while (*end == ' ' || *end == '\t')
		end++;
	*s = end;
	return 0;
}

static int parse_level(struct parser *p, const char *v)
{
	struct rivulet_board *b = p->b;
	uint64_t hz, uv;
	int r;

	if (b->levels == RIVULET_LEVELS)
		return fail(p, "more than %d levels", RIVULET_LEVELS);
	r = number(p, "level frequency", &v, 1000, 100000000000ull, &hz);
	if (!r)
		r = number(p, "level voltage", &v, 100000, 5000000, &uv);
	if (r)
		return r;
	if (*v)
		return fail(p, "level: \"%.20s\" after the voltage", v);
	if (b->levels && hz <= b->level[b->levels - 1].hz)
		return fail(p, "levels go from slow to fast: %llu Hz follows %llu Hz",
			    (unsigned long long)hz,
			    (unsigned long long)b->level[b->levels - 1].hz);
	b->level[b->levels++] = (struct rivulet_board_level){ .hz = hz, .microvolt = uv };
	return 0;
}

static int parse_key(struct parser *p, const char *key, const char *v)
{
	uint64_t n;
	int r;

	if (!strcmp(key, "level"))
		return parse_level(p, v);
	if (!strcmp(key, "pace")) {
		if (strcmp(v, "real") && strcmp(v, "fast"))
			return fail(p, "pace: expected real or fast, found \"%.20s\"", v);
		p->b->pace_real = !strcmp(v, "real");
		return 0;
	}
	for (size_t i = 0; i < KEYS; i++) {
		if (strcmp(key, keys[i].name))
			continue;
		if (p->seen[i])
			return fail(p, "%s is given twice", key);
		p->seen[i] = true;
		r = number(p, key, &v, keys[i].lo, keys[i].hi, &n);
		if (!r && *v)
			return fail(p, "%s: \"%.20s\" after the number", key, v);
		if (!r)
			*(uint32_t *)((char *)p->b + keys[i].offset) = n;
		return r;
	}
	return fail(p, "unknown key \"%.40s\"", key);
}

static char *strip(char *s)
{
	char *end;

	s += strspn(s, " \t\r");
	end = s + strlen(s);
	while (end > s && strchr(" \t\r", end[-1]))
		*--end = 0;
	return s;
}

static int parse_line(struct parser *p, char *line)
{
	char *hash = strchr(line, '#'), *eq;

	if (hash)
		*hash = 0;
	line = strip(line);
	if (!*line)
		return 0;
	eq = strchr(line, '=');
	if (!eq)
		return fail(p, "expected \"key = value\", found \"%.40s\"", line);
	*eq = 0;
	return parse_key(p, strip(line), strip(eq + 1));
}

/*
 * Dynamic energy is proportional to V^2. Static power is assumed to be proportional to V^2 as well,
 * because there is no better source.
 */
static void scale_levels(struct rivulet_board *b)
{
	double top = b->level[b->levels - 1].microvolt;

	for (uint32_t i = 0; i < b->levels; i++) {
		double k = b->level[i].microvolt / top;

		b->level[i].fj_per_mac = b->fj_per_mac * k * k + 0.5;
		b->level[i].fj_per_byte = b->fj_per_byte * k * k + 0.5;
		b->level[i].static_uw = b->static_uw * k * k + 0.5;
	}
}

#define DEFAULT(key, value, lo, hi, unit, doc)                                                     \
	if (!b->key)                                                                               \
		b->key = value;
void rivulet_board_defaults(struct rivulet_board *b)
{
	RIVULET_BOARD_COST_KEYS(DEFAULT)
}
#undef DEFAULT

static int check_board(struct parser *p)
{
	struct rivulet_board *b = p->b;

	p->line = 0;
	for (size_t i = 0; i < KEYS; i++)
		if (!p->seen[i] && (keys[i].need == NEEDED ||
				    (keys[i].need == NEEDED_BY_STREAMS &&
				     b->modes >> RIVULET_MODE_STOCHASTIC & 1)))
			return fail(p, "%s is missing", keys[i].name);
	rivulet_board_defaults(b);
	if (!b->levels)
		return fail(p, "no level");
	if (b->tn % b->dn)
		return fail(p, "dn = %u does not divide tn = %u", b->dn, b->tn);
	if (b->tm % b->tn)
		return fail(p, "tm = %u is not a multiple of tn = %u", b->tm, b->tn);
	if (b->tm * b->tn % 16 || b->tn % 4)
		return fail(p, "tm x tn must be a multiple of 16, tn of 4");
	if (b->tn > 63 && b->modes >> RIVULET_MODE_BITPLANE & 1)
		return fail(p, "bit planes need tn below 64, for which C_MODE.dn has no value");
	if (b->port_bytes & (b->port_bytes - 1))
		return fail(p, "port_bytes = %u is not a power of two", b->port_bytes);
	if (b->burst_bytes & (b->burst_bytes - 1))
		return fail(p, "burst_bytes = %u is not a power of two", b->burst_bytes);
	return 0;
}

int rivulet_board_parse(struct rivulet_board *b, const char *name, const char *origin,
			const char *text, size_t len, char *err, size_t errsize)
{
	struct parser p = { .b = b, .origin = origin, .err = err, .errsize = errsize };
	char *copy, *next, *line;
	int r = 0;

	memset(b, 0, sizeof(*b));
	b->pace_real = true;
	if (strlen(name) >= sizeof(b->name))
		return fail(&p, "board name longer than %zu bytes", sizeof(b->name) - 1);
	strcpy(b->name, name);
	if (len > PROFILE_MAX || memchr(text, 0, len))
		return fail(&p, "not a board profile: too long, or binary");
	copy = strndup(text, len);
	if (!copy)
		return -ENOMEM;
	for (next = copy; !r && (line = strsep(&next, "\n"));) {
		p.line++;
		r = parse_line(&p, line);
	}
	free(copy);
	if (!r)
		r = check_board(&p);
	if (!r)
		scale_levels(b);
	return r;
}

static int read_profile(const char *path, char *text, size_t size, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, size);
	if (n < 0)
		n = -errno;
	close(fd);
	*len = n < 0 ? 0 : n;
	return n < 0 ? (int)n : 0;
}

static int load_path(struct rivulet_board *b, const char *path, char *err, size_t errsize)
{
	const char *base = strrchr(path, '/');
	char name[64], *dot, *text;
	size_t len = 0;
	int r;

	text = malloc(PROFILE_MAX + 1);
	if (!text)
		return -ENOMEM;
	r = read_profile(path, text, PROFILE_MAX + 1, &len);
	if (r) {
		snprintf(err, errsize, "%s: %s", path, strerror(-r));
	} else {
		snprintf(name, sizeof(name), "%s", base ? base + 1 : path);
		dot = strrchr(name, '.');
		if (dot)
			*dot = 0;
		r = rivulet_board_parse(b, name, path, text, len, err, errsize);
	}
	free(text);
	return r;
}

static void list_boards(const char *dir, char *err, size_t errsize)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		const char *dot = strrchr(e->d_name, '.');
		size_t n = strlen(err);

		if (dot && !strcmp(dot, ".board"))
			snprintf(err + n, errsize - n, " %.*s", (int)(dot - e->d_name), e->d_name);
	}
	if (d)
		closedir(d);
}

int rivulet_board_load(struct rivulet_board *b, const char *which, char *err, size_t errsize)
{
	const char *dirs[] = { secure_getenv("RIVULET_BOARD_PATH"), RIVULET_BOARD_DIR,
			       RIVULET_SOURCE_BOARDS };
	char path[4096];

	if (strchr(which, '/'))
		return load_path(b, which, err, errsize);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		if (!dirs[i])
			continue;
		snprintf(path, sizeof(path), "%s/%s.board", dirs[i], which);
		if (!access(path, R_OK))
			return load_path(b, path, err, errsize);
	}
	snprintf(err, errsize, "no board \"%s\"; known:", which);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		if (dirs[i])
			list_boards(dirs[i], err, errsize);
	return -ENOENT;
}

uint32_t rivulet_board_peak(const struct rivulet_board *b)
{
	return b->tm * b->dn;
}

double rivulet_dense_fj(const struct rivulet_board *b, uint32_t level,
			const struct rivulet_work *w)
{
	return (double)(w->macs - w->sparse_macs - w->binary_macs - w->plane_macs) * b->level[level].fj_per_mac;
}

/* A quarter more than a dense product, for the multiplexer in front of it (docs/boards.md 3). */
double rivulet_sparse_fj(const struct rivulet_board *b, uint32_t level,
			 const struct rivulet_work *w)
{
	return (double)w->sparse_macs * b->level[level].fj_per_mac * 1.25;
}

/* A 16th of a dense product: two LUTs in place of a DSP block and its part of the adder tree. */
double rivulet_binary_fj(const struct rivulet_board *b, uint32_t level,
			 const struct rivulet_work *w)
{
	return (double)w->binary_macs * b->level[level].fj_per_mac / 16;
}

/* Half a dense product for each addition: a read and a write of a bucket, and an adder of 32 bits. */
double rivulet_planes_fj(const struct rivulet_board *b, uint32_t level,
			 const struct rivulet_work *w)
{
	return (double)w->plane_adds * b->level[level].fj_per_mac / 2;
}

double rivulet_stream_fj(const struct rivulet_board *b, uint32_t level,
			 const struct rivulet_work *w)
{
	double k = (double)b->level[level].microvolt / b->level[b->levels - 1].microvolt;

	return (double)w->stream_fj * k * k;
}

uint64_t rivulet_job_pj(const struct rivulet_board *b, uint32_t level,
			const struct rivulet_work *w, double products_fj)
{
	const struct rivulet_board_level *l = &b->level[level];
	double fj = products_fj + (double)w->bytes * l->fj_per_byte;
	double s = (double)w->cycles / (double)l->hz;

	return (uint64_t)(fj / 1e3 + s * l->static_uw * 1e6 + 0.5);
}

uint64_t rivulet_board_energy_pj(const struct rivulet_board *b, uint32_t level,
				 const struct rivulet_work *w)
{
	return rivulet_job_pj(b, level, w,
			      rivulet_dense_fj(b, level, w) + rivulet_sparse_fj(b, level, w) +
				      rivulet_binary_fj(b, level, w) + rivulet_planes_fj(b, level, w) +
				      rivulet_stream_fj(b, level, w));
}

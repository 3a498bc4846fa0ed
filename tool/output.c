// SPDX-License-Identifier: MIT
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "output.h"
#include "rivulet_proto.h"
#include "verb.h"

#define MAX_DEPTH 16

static char closing[MAX_DEPTH];
static int depth;
static bool first = true;
static bool written;

/* Bytes of the UTF-8 character at @s; 0 where there is no valid one. */
static size_t utf8_length(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	uint32_t c = n > 1 ? *s & (0x7fu >> n) : *s;

	for (size_t i = 1; i < n; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	return c < least[n] || c > 0x10ffff || c >> 11 == 27 ? 0 : n;
}

static void put_string(const char *s)
{
	putchar('"');
	while (*s) {
		size_t n = utf8_length((const unsigned char *)s);

		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 0x20 || *s == 0x7f)
			printf("\\u%04x", *s);
		else if (n)
			fwrite(s, 1, n, stdout);
		else
			fputs("\\ufffd", stdout);
		s += n ? n : 1;
	}
	putchar('"');
}

static void key_of(const char *key)
{
	if (!first)
		putchar(',');
	first = false;
	if (key) {
		put_string(key);
		putchar(':');
	}
}

void rvl_json_open(const char *key, char bracket)
{
	if (depth == MAX_DEPTH)
		abort();
	key_of(key);
	putchar(bracket);
	closing[depth++] = bracket == '{' ? '}' : ']';
	first = true;
}

void rvl_json_close(void)
{
	putchar(closing[--depth]);
	first = false;
}

void rvl_json_str(const char *key, const char *value)
{
	key_of(key);
	put_string(value);
}

void rvl_json_u64(const char *key, uint64_t value)
{
	key_of(key);
	printf("%llu", (unsigned long long)value);
}

void rvl_json_i64(const char *key, int64_t value)
{
	key_of(key);
	printf("%lld", (long long)value);
}

void rvl_json_num(const char *key, double value)
{
	key_of(key);
	if (isfinite(value))
		printf("%.9g", value);
	else
		fputs("null", stdout);
}

void rvl_json_bool(const char *key, bool value)
{
	key_of(key);
	fputs(value ? "true" : "false", stdout);
}

void rvl_json_raw(const char *key, const char *text)
{
	key_of(key);
	fputs(text, stdout);
}

void rvl_json_begin(const char *name)
{
	char schema[64];

	snprintf(schema, sizeof(schema), "rivulet.%s%s", name, strchr(name, '/') ? "" : "/1");
	rvl_json_open(NULL, '{');
	rvl_json_str("schema", schema);
}

void rvl_json_end(void)
{
	rvl_json_close();
	putchar('\n');
	first = true;
	written = true;
}

void rvl_json_reset(void)
{
	depth = 0;
	first = true;
	written = false;
}

bool rvl_json_written(void)
{
	return written;
}

/* ---- tables ---- */

static void *need(void *p)
{
	if (!p) {
		fputs("rivulet: out of memory\n", stderr);
		exit(RVL_EXIT_FAILED);
	}
	return p;
}

static void add_cell(struct rvl_table *t, const char *text)
{
	if (t->cells == t->room) {
		t->room = t->room ? 2 * t->room : 64;
		t->cell = need(realloc(t->cell, t->room * sizeof(*t->cell)));
	}
	t->cell[t->cells++] = need(strdup(text));
}

void rvl_table_init(struct rvl_table *t, int cols, const char *const *heads)
{
	*t = (struct rvl_table) { .cols = cols };
	for (int i = 0; i < cols; i++) {
		t->right[i] = heads[i][0] == '>';
		add_cell(t, heads[i] + t->right[i]);
	}
}

void rvl_table_cell(struct rvl_table *t, const char *fmt, ...)
{
	char raw[512], text[sizeof(raw)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	rivulet_proto_name(text, sizeof(text), raw);
	add_cell(t, text);
}

void rvl_table_clear(struct rvl_table *t)
{
	for (size_t i = 0; i < t->cells; i++)
		free(t->cell[i]);
	free(t->cell);
	t->cell = NULL;
	t->cells = t->room = 0;
}

/* Characters, which a terminal shows in one column each; a byte 10xxxxxx continues one. */
static size_t columns(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

void rvl_table_print(struct rvl_table *t, int indent)
{
	size_t width[RVL_TABLE_COLS] = { 0 };
	bool headless = true;
	int blanks = 0;

	for (int i = 0; i < t->cols; i++)
		headless &= !*t->cell[i];
	for (size_t i = 0; i < t->cells; i++)
		if (columns(t->cell[i]) > width[i % t->cols])
			width[i % t->cols] = columns(t->cell[i]);
	for (size_t i = headless ? (size_t)t->cols : 0; i < t->cells; i++) {
		int c = (int)(i % t->cols), pad = (int)(width[c] - columns(t->cell[i]));

		blanks += c ? 2 : indent;
		blanks += t->right[c] ? pad : 0;
		/* Blanks are printed before the next text, so that no line ends with them. */
		if (*t->cell[i]) {
			printf("%*s%s", blanks, "", t->cell[i]);
			blanks = 0;
		}
		blanks += t->right[c] ? 0 : pad;
		if (c == t->cols - 1) {
			putchar('\n');
			blanks = 0;
		}
	}
	rvl_table_clear(t);
}

/* ---- values ---- */

uint64_t rvl_tool_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double rvl_tool_seconds(void)
{
	return 1e-9 * (double)rvl_tool_now();
}

const char *rvl_unit(char *buf, double value, const char *unit)
{
	static const struct { double scale; const char *prefix; } si[] = {
		{ 1e12, "T" }, { 1e9, "G" }, { 1e6, "M" }, { 1e3, "k" }, { 1, "" }, { 1e-3, "m" },
		{ 1e-6, "u" }, { 1e-9, "n" }, { 1e-12, "p" },
	};
	size_t i = 0;

	if (value == 0 || !isfinite(value)) {
		snprintf(buf, 32, "%g %s", value, unit);
		return buf;
	}
	while (i < sizeof(si) / sizeof(si[0]) - 1 && fabs(value) < si[i].scale)
		i++;
	value /= si[i].scale;
	snprintf(buf, 32, "%.*f %s%s", fabs(value) < 10 ? 3 : fabs(value) < 100 ? 2 : 1, value,
		 si[i].prefix, unit);
	return buf;
}

const char *rvl_bytes(char *buf, uint64_t n)
{
	if (n < 1024)
		snprintf(buf, 32, "%llu B", (unsigned long long)n);
	else if (n < 1048576)
		snprintf(buf, 32, "%.1f KiB", (double)n / 1024);
	else if (n < 1ull << 30)
		snprintf(buf, 32, "%.1f MiB", (double)n / 1048576);
	else
		snprintf(buf, 32, "%.2f GiB", (double)n / (1ull << 30));
	return buf;
}

void rvl_figure(const char *prefix, const char *name, double value, const char *unit)
{
	if (prefix && !rvl_tool_json)
		printf("figure %s.%s %.9g %s\n", prefix, name, value, unit);
}

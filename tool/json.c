// SPDX-License-Identifier: MIT
/* Reading JSON that the daemon wrote: a value is its text; members are found by walking it. */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define DEPTH_MAX 32

static const char *skip_space(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

static const char *skip_string(const char *p)
{
	for (p++; *p && *p != '"'; p++)
		if (*p == '\\' && p[1])
			p++;
	return *p ? p + 1 : NULL;
}

static const char *skip_value(const char *p)
{
	int depth = 0;

	do {
		p = skip_space(p);
		if (*p == '"') {
			p = skip_string(p);
		} else if (*p == '{' || *p == '[') {
			p = ++depth > DEPTH_MAX ? NULL : p + 1;
		} else if (*p == '}' || *p == ']') {
			depth--;
			p++;
		} else if (*p == ',' || *p == ':') {
			p++;
		} else {
			size_t n = strcspn(p, ",:{}[]\" \t\r\n");

			p = n ? p + n : NULL;
		}
	} while (p && depth > 0);
	return p;
}

const char *rvl_json_member(const char *object, const char *key)
{
	size_t n = strlen(key);
	const char *p;

	p = object ? skip_space(object) : "";
	if (*p != '{')
		return NULL;
	for (p = skip_space(p + 1); p && *p == '"';) {
		const char *name = p + 1, *value = skip_string(p);

		if (!value || *(value = skip_space(value)) != ':')
			return NULL;
		value = skip_space(value + 1);
		if (!strncmp(name, key, n) && name[n] == '"')
			return value;
		p = skip_value(value);
		p = p && *(p = skip_space(p)) == ',' ? skip_space(p + 1) : NULL;
	}
	return NULL;
}

const char *rvl_json_item(const char *array, size_t index)
{
	const char *p;

	p = array ? skip_space(array) : "";
	if (*p != '[')
		return NULL;
	p = skip_space(p + 1);
	for (; p && *p && *p != ']'; index--) {
		if (!index)
			return p;
		p = skip_value(p);
		p = p && *(p = skip_space(p)) == ',' ? skip_space(p + 1) : NULL;
	}
	return NULL;
}

uint64_t rvl_json_number(const char *object, const char *key)
{
	const char *v = rvl_json_member(object, key);

	return v ? strtoull(v, NULL, 10) : 0;
}

bool rvl_json_true(const char *object, const char *key)
{
	const char *v = rvl_json_member(object, key);

	return v && !strncmp(v, "true", 4);
}

const char *rvl_json_text(const char *object, const char *key, char *buf, size_t size)
{
	const char *v = rvl_json_member(object, key);
	size_t n = 0;

	/* Control characters come as \\u00XX: not for a terminal. */
	for (v = v && *v == '"' ? v + 1 : ""; *v && *v != '"' && n + 1 < size; v++) {
		if (*v == '\\' && v[1] == 'u') {
			buf[n++] = '?';
			v += strnlen(v, 6) - 1;
			continue;
		}
		if (*v == '\\' && v[1])
			v++;
		buf[n++] = *v;
	}
	buf[n] = 0;
	return buf;
}

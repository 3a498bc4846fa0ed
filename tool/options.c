// SPDX-License-Identifier: MIT
/* Options of all verbs, and the one error that a failure tells. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

bool rvl_tool_json;
char rvl_tool_error[1200];

int rvl_tool_fail(enum rvl_exit code, const char *fmt, ...)
{
	va_list ap;

	if (!*rvl_tool_error) {
		va_start(ap, fmt);
		vsnprintf(rvl_tool_error, sizeof(rvl_tool_error), fmt, ap);
		va_end(ap);
	}
	return code;
}

/* ---- options ---- */

static int parse_number(const char *name, const char *s, uint64_t *out)
{
	char *end;
	uint64_t v, scale = 1;

	errno = 0;
	v = strtoull(s, &end, 0);
	if (*end == 'k' || *end == 'M') {
		scale = *end == 'k' ? 1000 : 1000000;
		end++;
	}
	if (errno || end == s || *end || *s == '-' || __builtin_mul_overflow(v, scale, out))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--%s: \"%s\" is no whole number", name, s);
	return 0;
}

static int store(const struct rvl_option *o, const char *value)
{
	if (o->flag)
		*o->flag = true;
	else if (o->text)
		*o->text = value;
	else if (o->number)
		return parse_number(o->name, value, o->number);
	else
		return o->fn(o->ctx, value);
	return 0;
}

static void help(const char *verb, const struct rvl_option *o, const char *usage)
{
	char left[64];

	printf("rivulet %s %s\n", verb, usage);
	for (; o->name; o++) {
		snprintf(left, sizeof(left), "%c%c%c --%s%s%s", o->letter ? '-' : ' ',
			 o->letter ? o->letter : ' ', o->letter ? ',' : ' ', o->name,
			 o->value ? " " : "", o->value ? o->value : "");
		printf("  %-28s %s\n", left, o->help);
	}
	printf("  %-28s %s\n  %-28s %s\n", "    --json", "write JSON with a versioned schema",
	       "    --help", "this text");
}

static const struct rvl_option *find(const struct rvl_option *o, const char *arg, const char **value)
{
	size_t n = strcspn(arg + 2, "=");

	*value = NULL;
	for (; o->name; o++) {
		if (arg[1] != '-' && arg[1] == o->letter) {
			*value = arg[2] ? arg + 2 : NULL;
			return o;
		}
		if (arg[1] == '-' && strlen(o->name) == n && !strncmp(o->name, arg + 2, n)) {
			*value = arg[2 + n] ? arg + 3 + n : NULL;
			return o;
		}
	}
	return NULL;
}

static int take_option(int argc, char **argv, int *i, const struct rvl_option *o)
{
	const char *value;
	const struct rvl_option *hit = find(o, argv[*i], &value);

	if (!hit)
		return rvl_tool_fail(RVL_EXIT_USAGE, "unknown option %s; see rivulet %s --help",
				     argv[*i], argv[0]);
	if (!hit->value && value)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--%s takes no value", hit->name);
	if (hit->value && !value) {
		if (*i + 1 >= argc)
			return rvl_tool_fail(RVL_EXIT_USAGE, "--%s needs %s", hit->name, hit->value);
		value = argv[++*i];
	}
	return store(hit, value);
}

int rvl_tool_options(int argc, char **argv, const struct rvl_option *o, const char *usage)
{
	int n = 0, r;
	bool only_operands = false;

	for (int i = 1; i < argc; i++) {
		if (only_operands || argv[i][0] != '-' || !argv[i][1]) {
			argv[++n] = argv[i];
		} else if (!strcmp(argv[i], "--")) {
			only_operands = true;
		} else if (!strcmp(argv[i], "--json")) {
			rvl_tool_json = true;
		} else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			help(argv[0], o, usage);
			return -1 - RVL_EXIT_OK;
		} else {
			r = take_option(argc, argv, &i, o);
			if (r)
				return -1 - r;
		}
	}
	return n;
}

// SPDX-License-Identifier: MIT
/* Options of a verb: parsed by its table, and listed by --help from the same table. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verb.h"

bool rvl_tool_json;

static int parse_number(const struct rvl_option *o, const char *s, uint64_t *out)
{
	uint64_t v, scale = 1, most = o->most ? o->most : UINT64_MAX;
	char *end;

	errno = 0;
	v = strtoull(s, &end, 0);
	if (*end == 'k' || *end == 'M') {
		scale = *end == 'k' ? 1000 : 1000000;
		end++;
	}
	if (errno || *s < '0' || *s > '9' || *end || __builtin_mul_overflow(v, scale, &v))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--%s: \"%s\" is no whole number", o->name, s);
	if (v < o->least || v > most)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--%s is at %s %llu, not %s", o->name,
				     v < o->least ? "least" : "most",
				     (unsigned long long)(v < o->least ? o->least : most), s);
	*out = v;
	return 0;
}

bool rvl_time_parse(const char *s, struct rvl_time *out)
{
	static const struct { const char *name; double ns; } units[] = {
		{ "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "min", 60e9 }, { "h", 3600e9 } };
	char *end;
	double v = strtod(s, &end), ns = 0;

	for (size_t i = 0; end != s && i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(end, units[i].name))
			ns = v * units[i].ns;
	if (!isfinite(ns) || ns < 1 || ns > 1e18)
		return false;
	out->ns = (uint64_t)ns;
	return true;
}

static int store(const struct rvl_option *o, const char *value, void *args)
{
	void *member = (char *)args + o->at;

	switch (o->kind) {
	case RVL_VALUE_SWITCH:
		*(bool *)member = true;
		return 0;
	case RVL_VALUE_TEXT:
		*(const char **)member = value;
		return 0;
	case RVL_VALUE_NUMBER:
		return parse_number(o, value, member);
	case RVL_VALUE_TIME:
		return rvl_time_parse(value, member) ? 0 :
		       rvl_tool_fail(RVL_EXIT_USAGE, "--%s: \"%s\" is no time; examples are 500ms, 5s and 2min",
				     o->name, value);
	default:
		return o->call(member, value);
	}
}

static void help(const struct rvl_verb *v)
{
	char left[64];

	printf("rivulet %s%s%s\n", v->name, *v->operands ? " " : "", v->operands);
	for (const struct rvl_option *o = v->options; o && o->name; o++) {
		snprintf(left, sizeof(left), "%c%c%c --%s%s%s", o->letter ? '-' : ' ',
			 o->letter ? o->letter : ' ', o->letter ? ',' : ' ', o->name,
			 o->value ? " " : "", o->value ? o->value : "");
		printf("  %-28s %s\n", left, o->help);
	}
	printf("  %-28s %s\n  %-28s %s\n", "    --json", "print JSON with a versioned schema",
	       "-h, --help", "print this text");
}

static const struct rvl_option *find(const struct rvl_option *o, const char *arg, const char **value)
{
	size_t n = strcspn(arg + 2, "=");

	*value = NULL;
	for (; o && o->name; o++) {
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

static int take_option(const struct rvl_verb *v, int argc, char **argv, int *i, void *args)
{
	const char *value;
	const struct rvl_option *hit = find(v->options, argv[*i], &value);

	if (!hit)
		return rvl_tool_fail(RVL_EXIT_USAGE, "unknown option %s; see rivulet %s --help", argv[*i],
				     v->name);
	if (!hit->value && value)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--%s takes no value", hit->name);
	if (hit->value && !value) {
		if (*i + 1 >= argc)
			return rvl_tool_fail(RVL_EXIT_USAGE, "--%s needs %s", hit->name, hit->value);
		value = argv[++*i];
	}
	return store(hit, value, args);
}

int rvl_options_parse(const struct rvl_verb *v, int argc, char **argv, void *args)
{
	bool only_operands = false;
	int n = 0, r;

	/* Errors before --json in the command line are reported as JSON as well. */
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		rvl_tool_json |= !strcmp(argv[i], "--json");
	for (int i = 1; i < argc; i++) {
		if (only_operands || argv[i][0] != '-' || !argv[i][1]) {
			argv[++n] = argv[i];
		} else if (!strcmp(argv[i], "--")) {
			only_operands = true;
		} else if (!strcmp(argv[i], "--json")) {
			continue;
		} else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			help(v);
			return -1 - RVL_EXIT_OK;
		} else {
			r = take_option(v, argc, argv, &i, args);
			if (r)
				return -1 - r;
		}
	}
	return n;
}

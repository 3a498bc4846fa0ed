// SPDX-License-Identifier: MIT
#include "inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	bool arg;
} kinds[] = {
#define KIND(name, arg, doc) { #name, arg },
	RVL_INJECTIONS(KIND)
};

static int find_kind(const char *name, size_t len)
{
	for (int k = 0; k < RVL_INJECT_KINDS; k++) {
		size_t i = 0;

		while (i < len && kinds[k].name[i] == (name[i] == '-' ? '_' : name[i]))
			i++;
		if (i == len && !kinds[k].name[len])
			return k;
	}
	return -1;
}

static bool number(const char **s, uint64_t *out)
{
	char *end;

	if (**s < '0' || **s > '9')
		return false;
	errno = 0;
	*out = strtoull(*s, &end, 10);
	*s = end;
	return !errno && *out <= UINT32_MAX;
}

/* One "KIND@[+]N[:ARG]" up to a comma or the end. */
static const char *parse_one(struct rvl_inject *in, const char *s, uint64_t started)
{
	size_t len = strcspn(s, "@,");
	int kind = find_kind(s, len);
	uint64_t job = 0, arg = 0;
	bool relative;

	if (kind < 0 || s[len] != '@')
		return NULL;
	s += len + 1;
	relative = *s == '+';
	s += relative;
	if (!number(&s, &job) || !job)
		return NULL;
	if (kinds[kind].arg) {
		if (*s++ != ':' || !number(&s, &arg))
			return NULL;
	}
	if (*s && *s != ',')
		return NULL;
	in->item[in->count].kind = kind;
	in->item[in->count].job = job + (relative ? started : 0);
	in->item[in->count++].arg = arg;
	return s;
}

int rvl_inject_add(struct rvl_inject *in, const char *spec, uint64_t started, char *err,
		   size_t errsize)
{
	struct rvl_inject all = *in;
	const char *s = spec;

	for (;;) {
		const char *from = s;

		if (all.count == RVL_INJECT_MAX) {
			snprintf(err, errsize, "more than %d injections", RVL_INJECT_MAX);
			return -ENOSPC;
		}
		s = parse_one(&all, s, started);
		if (!s) {
			snprintf(err, errsize,
				 "injection \"%.40s\": expected KIND@[+]JOB, or slow@[+]JOB:MS",
				 from);
			return -EINVAL;
		}
		if (!*s)
			break;
		s++;
	}
	*in = all;
	return 0;
}

bool rvl_inject_hit(const struct rvl_inject *in, enum rvl_inject_kind kind, uint64_t job,
		    uint64_t *arg)
{
	for (unsigned int i = 0; i < in->count; i++) {
		if (in->item[i].kind != kind || in->item[i].job != job)
			continue;
		if (arg)
			*arg = in->item[i].arg;
		return true;
	}
	return false;
}

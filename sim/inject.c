// SPDX-License-Identifier: MIT
#include "inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	uint32_t max_arg;	/* 0: takes none */
} kinds[] = {
#define KIND(name, max_arg, doc) { #name, max_arg },
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

/* "N", "+N" or "=TAG" */
static bool parse_job(struct rvl_inject *in, const char **s, uint64_t started)
{
	char how = **s;
	uint64_t n;

	*s += how == '+' || how == '=';
	if (!number(s, &n))
		return false;
	in->item[in->count].by_client = how == '=';
	if (how == '=')
		in->item[in->count].client = (uint32_t)n;
	else
		in->item[in->count].job = n + (how == '+' ? started : 0);
	return n || how == '=';
}

/* Parses one "KIND@JOB[:ARG]" up to a comma or the end. */
static const char *parse_one(struct rvl_inject *in, const char *s, uint64_t started)
{
	size_t len = strcspn(s, "@,");
	int kind = find_kind(s, len);
	uint64_t arg = 0;

	if (kind < 0 || s[len] != '@')
		return NULL;
	memset(&in->item[in->count], 0, sizeof(in->item[0]));
	in->item[in->count].kind = kind;
	s += len + 1;
	if (!parse_job(in, &s, started))
		return NULL;
	if (kinds[kind].max_arg) {
		if (*s++ != ':' || !number(&s, &arg) || arg > kinds[kind].max_arg)
			return NULL;
	}
	if (*s && *s != ',')
		return NULL;
	in->item[in->count++].arg = arg;
	return s;
}

static void drop(struct rvl_inject *in, unsigned int i)
{
	in->item[i] = in->item[--in->count];
}

/*
 * Drops injections of past jobs. Those of the previous job stay, because its interrupt may be
 * raised after the next one was started.
 */
static void drop_past(struct rvl_inject *in, uint64_t started)
{
	for (unsigned int i = 0; i < in->count;) {
		if (!in->item[i].by_client && in->item[i].job + 1 < started)
			drop(in, i);
		else
			i++;
	}
}

int rvl_inject_add(struct rvl_inject *in, const char *spec, uint64_t started, char *err,
		   size_t errsize)
{
	struct rvl_inject all = *in;
	const char *s = spec;

	drop_past(&all, started);
	for (;;) {
		const char *from = s;

		if (all.count == RVL_INJECT_MAX) {
			snprintf(err, errsize, "more than %d injections", RVL_INJECT_MAX);
			return -ENOSPC;
		}
		s = parse_one(&all, s, started);
		if (!s) {
			snprintf(err, errsize,
				 "injection \"%.40s\": expected KIND@[+]JOB or KIND@=CLIENT, with "
				 ":MS for slow, :BIT for flip_desc",
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

/* An injection may be queried many times while its job runs, but counts as one hit. */
static void count_hit(struct rvl_inject *in, unsigned int i)
{
	if (!in->item[i].hit)
		in->hits[in->item[i].kind]++;
	in->item[i].hit = true;
}

bool rvl_inject_hit(struct rvl_inject *in, enum rvl_inject_kind kind, uint64_t job, uint64_t *arg)
{
	for (unsigned int i = 0; i < in->count; i++) {
		if (in->item[i].kind != kind || in->item[i].by_client || in->item[i].job != job)
			continue;
		if (arg)
			*arg = in->item[i].arg;
		count_hit(in, i);
		return true;
	}
	return false;
}

void rvl_inject_bind(struct rvl_inject *in, uint32_t client, uint64_t job)
{
	uint32_t bound = 0;

	for (unsigned int i = 0; i < in->count; i++) {
		uint32_t kind = 1u << in->item[i].kind;

		if (!in->item[i].by_client || in->item[i].client != client || bound & kind ||
		    in->item[i].kind == RVL_INJECT_flip_desc)
			continue;
		in->item[i].by_client = false;
		in->item[i].job = job;
		bound |= kind;
	}
}

void rvl_inject_flip(struct rvl_inject *in, uint32_t client, uint64_t job, void *desc)
{
	for (unsigned int i = 0; i < in->count; i++) {
		uint64_t bit = in->item[i].arg;

		if (in->item[i].kind != RVL_INJECT_flip_desc ||
		    (in->item[i].by_client ? in->item[i].client != client : in->item[i].job != job))
			continue;
		((uint8_t *)desc)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		count_hit(in, i);
		drop(in, i);
		return;
	}
}

// SPDX-License-Identifier: MIT
/* --mode, --length, --lengths, --keep-int8: how products are computed. */
#include <stdlib.h>
#include <string.h>

#include "model/mode.h"

#define DEFAULT_LENGTH 64

int rvl_mode_keep(void *member, const char *value)
{
	struct rvl_mode *m = member;

	if (m->n_keep == RVL_MODE_KEEP)
		return rvl_tool_fail(RVL_EXIT_USAGE, "at most %d --keep-int8", RVL_MODE_KEEP);
	m->keep[m->n_keep++] = value;
	return 0;
}

/* One entry of --lengths. */
static int one_length(const char *word, size_t n, uint32_t *out)
{
	char *end;

	if (n == 1 && *word == '-') {
		*out = RIVULET_NO_VARIANT;
		return 0;
	}
	if (n == 4 && !strncmp(word, "int8", 4)) {
		*out = 0;
		return 0;
	}
	*out = (uint32_t)strtoul(word, &end, 10);
	if (end != word + n || *word < '0' || *word > '9' || *out < 8 || *out > 256)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--lengths: \"%.*s\" is no length of 8 to 256 bits, "
				     "int8, or -", (int)n, word);
	return 0;
}

static int parse_lengths(const char *s, uint32_t levels, uint32_t *length)
{
	uint32_t n = 0;

	for (;; s++) {
		size_t len = strcspn(s, ",");
		int r = n < levels ? one_length(s, len, &length[n]) : 0;

		if (r)
			return r;
		n++;
		s += len;
		if (!*s)
			break;
	}
	if (n != levels)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--lengths names %u levels, the board has %u", n,
				     levels);
	return 0;
}

static bool wants_streams(const struct rvl_mode *m)
{
	return m->mode && !strcmp(m->mode, "sc");
}

void rvl_mode_clear(struct rvl_mode *m)
{
	rvl_quantise_clear(&m->quantise);
}

int rvl_mode_fill(struct rvl_mode *m, uint32_t levels, struct rivulet_compile_options *o)
{
	uint64_t bits = m->length ? m->length : DEFAULT_LENGTH;
	int r;

	if (m->mode && strcmp(m->mode, "sc") && strcmp(m->mode, "int8"))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--mode is int8 or sc, not \"%s\"", m->mode);
	if (!wants_streams(m) && (m->length || m->lengths || m->n_keep))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--length, --lengths and --keep-int8 need --mode sc");
	if (m->length && m->lengths)
		return rvl_tool_fail(RVL_EXIT_USAGE, "give --length or --lengths, not both");
	r = rvl_quantise_check(&m->quantise, &o->quantise);
	if (r)
		return r;
	o->stochastic = wants_streams(m);
	o->keep_int8 = m->keep;
	o->n_keep_int8 = m->n_keep;
	if (m->lengths)
		return parse_lengths(m->lengths, levels, o->length);
	for (uint32_t i = 0; o->stochastic && i < RIVULET_LEVELS; i++)
		o->length[i] = (uint32_t)bits;
	return 0;
}

bool rvl_mode_given(const struct rvl_mode *m)
{
	return m->mode || m->length || m->lengths || m->n_keep || rvl_quantise_given(&m->quantise);
}

// SPDX-License-Identifier: MIT
#include "isa_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int rvl_words_init(struct rvl_words *w, uint32_t count)
{
	w->count = count;
	w->start = calloc(count / 64 + 1, sizeof(*w->start));
	w->of = calloc(count + 1, sizeof(*w->of));
	if (!w->start || !w->of)
		return -ENOMEM;
	w->start[0] = 1;
	return 0;
}

void rvl_words_done(struct rvl_words *w)
{
	free(w->start);
	free(w->of);
	memset(w, 0, sizeof(*w));
}

static bool is_start(const struct rvl_words *w, uint32_t at)
{
	return w->start[at / 64] >> at % 64 & 1;
}

/* The start of the interval that holds @at; word 0 always is one. */
static uint32_t start_of(const struct rvl_words *w, uint32_t at)
{
	uint32_t i = at / 64;
	uint64_t bits = w->start[i] << (63 - at % 64);

	if (bits)
		return at - __builtin_clzll(bits);
	do
		i--;
	while (!w->start[i]);
	return i * 64 + 63 - __builtin_clzll(w->start[i]);
}

void rvl_words_cut(struct rvl_words *w, uint32_t at)
{
	if (at >= w->count || is_start(w, at))
		return;
	w->of[at] = w->of[start_of(w, at)];
	w->start[at / 64] |= UINT64_C(1) << at % 64;
}

uint32_t rvl_words_next(const struct rvl_words *w, uint32_t at)
{
	uint32_t i = ++at / 64, last = w->count / 64;
	uint64_t bits = w->start[i] >> at % 64 << at % 64;

	while (!bits && i < last)
		bits = w->start[++i];
	return bits ? i * 64 + __builtin_ctzll(bits) : w->count;
}

void rvl_words_write(struct rvl_words *w, uint32_t lo, uint32_t hi, struct rvl_touch by)
{
	w->of[lo] = (struct rvl_history){ .writer = by };
	for (uint32_t at = rvl_words_next(w, lo); at < hi; at = rvl_words_next(w, at))
		w->start[at / 64] &= ~(UINT64_C(1) << at % 64);
}

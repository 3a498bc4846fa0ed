// SPDX-License-Identifier: MIT
#include "npu/isa_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Makes the block that has word @at, if there is none; its numbers are 0. */
static int need_block(struct rvl_words *w, uint32_t at)
{
	uint32_t *block = &w->block[at / RVL_WORDS_BLOCK];

	if (*block)
		return 0;
	if (w->blocks == w->most_blocks) {
		uint32_t most = w->most_blocks ? 2 * w->most_blocks : 64;
		void *id = reallocarray(w->id, most, sizeof(*w->id));

		if (!id)
			return -ENOMEM;
		w->id = id;
		w->most_blocks = most;
	}
	memset(w->id[w->blocks], 0, sizeof(*w->id));
	*block = ++w->blocks;
	return 0;
}

/* The number of the history of the interval that begins at @at. */
static uint32_t *id_at(const struct rvl_words *w, uint32_t at)
{
	return &w->id[w->block[at / RVL_WORDS_BLOCK] - 1][at % RVL_WORDS_BLOCK];
}

int rvl_words_init(struct rvl_words *w, uint32_t count)
{
	w->count = count;
	w->size = 64;
	w->used = 1; /* entry 0: all words, at first without history */
	w->start = calloc(count / 64 + 1, sizeof(*w->start));
	w->block = calloc(count / RVL_WORDS_BLOCK + 1, sizeof(*w->block));
	w->pool = calloc(w->size, sizeof(*w->pool));
	if (!w->start || !w->block || !w->pool || need_block(w, 0))
		return -ENOMEM;
	w->start[0] = 1;
	return 0;
}

void rvl_words_done(struct rvl_words *w)
{
	free(w->start);
	free(w->block);
	free(w->id);
	free(w->pool);
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

/* An entry of the pool. Entry 0 stays with word 0, so that 0 can end the list of free ones. */
static int take_entry(struct rvl_words *w, uint32_t *id)
{
	if (w->free) {
		*id = w->free;
		w->free = w->pool[*id].next_free;
		return 0;
	}
	if (w->used == w->size) {
		struct rvl_history *pool = reallocarray(w->pool, 2 * w->size, sizeof(*pool));

		if (!pool)
			return -ENOMEM;
		w->pool = pool;
		w->size *= 2;
	}
	*id = w->used++;
	return 0;
}

int rvl_words_cut(struct rvl_words *w, uint32_t at)
{
	uint32_t id;

	if (at >= w->count || is_start(w, at))
		return 0;
	if (take_entry(w, &id) || need_block(w, at))
		return -ENOMEM;
	w->pool[id] = w->pool[*id_at(w, start_of(w, at))];
	*id_at(w, at) = id;
	w->start[at / 64] |= UINT64_C(1) << at % 64;
	return 0;
}

uint32_t rvl_words_next(const struct rvl_words *w, uint32_t at)
{
	uint32_t i = ++at / 64, last = w->count / 64;
	uint64_t bits = w->start[i] >> at % 64 << at % 64;

	while (!bits && i < last)
		bits = w->start[++i];
	return bits ? i * 64 + __builtin_ctzll(bits) : w->count;
}

struct rvl_history *rvl_words_at(struct rvl_words *w, uint32_t at)
{
	return &w->pool[*id_at(w, at)];
}

void rvl_words_write(struct rvl_words *w, uint32_t lo, uint32_t hi, struct rvl_touch by)
{
	*rvl_words_at(w, lo) = (struct rvl_history){ .writer = by };
	for (uint32_t at = rvl_words_next(w, lo); at < hi; at = rvl_words_next(w, at)) {
		w->start[at / 64] &= ~(UINT64_C(1) << at % 64);
		w->pool[*id_at(w, at)].next_free = w->free;
		w->free = *id_at(w, at);
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * The last write and the last reads of each word of a scratchpad or a piece of memory, kept as
 * intervals of equal history. Memory that is accessed in few large pieces therefore costs little.
 */
#ifndef RVL_ISA_WORDS_H
#define RVL_ISA_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "rivulet_isa.h"

/** struct rvl_touch - an instruction as its place in its queue; @at is 1 + position, 0: none */
struct rvl_touch {
	uint32_t at;
	uint8_t queue;
};

/** struct rvl_history - of the words of one interval */
struct rvl_history {
	struct rvl_touch writer;
	uint32_t reader[RIVULET_QUEUES]; /* 1 + position of the last one since that write */
	uint32_t next_free;
};

#define RVL_WORDS_BLOCK 16

/*
 * Interval [w, next set bit of @start) has a history of the pool. Their numbers are kept in blocks of
 * RVL_WORDS_BLOCK words, which only those words have in which an interval has begun.
 */
struct rvl_words {
	uint32_t count;
	uint64_t *start;
	uint32_t *block; /* of the words: index in @id, from 1 on; 0: none */
	uint32_t (*id)[RVL_WORDS_BLOCK];
	uint32_t blocks, most_blocks;
	struct rvl_history *pool;
	uint32_t used, size; /* of the pool */
	uint32_t free;	     /* head of the list of returned entries, 0: none */
};

/** rvl_words_init() - @count words without history; 0 or -ENOMEM, rvl_words_done() in either case
 */
int rvl_words_init(struct rvl_words *w, uint32_t count);
void rvl_words_done(struct rvl_words *w);

/** rvl_words_cut() - make @at the start of an interval; @at == count is fine; 0 or -ENOMEM */
int rvl_words_cut(struct rvl_words *w, uint32_t at);
/** rvl_words_next() - the first start of an interval after @at, or count */
uint32_t rvl_words_next(const struct rvl_words *w, uint32_t at);
/** rvl_words_at() - the history of the interval that starts at @at; valid until the next cut */
struct rvl_history *rvl_words_at(struct rvl_words *w, uint32_t at);
/** rvl_words_write() - give [lo, hi), both cut, one new history */
void rvl_words_write(struct rvl_words *w, uint32_t lo, uint32_t hi, struct rvl_touch by);

#endif

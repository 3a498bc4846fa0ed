/* SPDX-License-Identifier: MIT */
/* Times of layers that were found before: memo.c. */
#ifndef RVL_MEMO_H
#define RVL_MEMO_H

#include "npu/layer.h"
#include "rivulet_compiler.h"

/* What the time of some layers depends on, as a SHA-256. */
struct rvl_memo_key {
	uint8_t hash[32];
};

struct rvl_memo;

/** @tensors: of the graph, to which none is added while the memo is in use. NULL: no memory. */
struct rvl_memo *rvl_memo_new(uint32_t tensors);
struct rvl_memo *rvl_memo_free(struct rvl_memo *m);
/** The key of @n layers that follow one another; -ENOMEM. */
int rvl_memo_key(struct rvl_memo *m, struct rvl_layer *const *l, uint32_t n,
		 struct rvl_memo_key *key);
/** What was kept under @key, or NULL. */
const struct rivulet_explain_segment *rvl_memo_find(const struct rvl_memo *m,
						    const struct rvl_memo_key *key);
/** Keeps @seg, perhaps in the place of another one. */
void rvl_memo_keep(struct rvl_memo *m, const struct rvl_memo_key *key,
		   const struct rivulet_explain_segment *seg);

#endif

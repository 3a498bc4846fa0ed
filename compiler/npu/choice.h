/* SPDX-License-Identifier: MIT */
/*
 * What is chosen of a layer after it was lowered: its mode and form, how it is cut, what stays in INP
 * around it, and what loads ahead of it. Trials keep choices instead of layers, which are three times
 * as large.
 */
#ifndef RVL_CHOICE_H
#define RVL_CHOICE_H

#include "npu/layer.h"

struct rvl_choice {
	const struct rvl_mode *mode;
	struct rvl_product p;
	struct rvl_tiling t;
	struct rvl_ring *from, *b_from, *to;
	int64_t inp[2];
	uint32_t ahead;
	bool early, look, too_long;
	const char *note;
	const struct rvl_contest *contest;
};

struct rvl_choice rvl_choice_of(const struct rvl_layer *l);
/** Makes @l what it was when @c was taken of it, or of another layer that was lowered in the same way. */
void rvl_choice_use(struct rvl_layer *l, const struct rvl_choice *c);
/** The same for @n layers. */
void rvl_choices_of(struct rvl_layer *const *l, uint32_t n, struct rvl_choice *c);
void rvl_choices_use(struct rvl_layer *const *l, uint32_t n, const struct rvl_choice *c);

#endif

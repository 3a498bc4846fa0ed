/* SPDX-License-Identifier: MIT */
/* Static proof that values kept in INP are written by their makers alone, and read where they lie. */
#ifndef RVL_KEPT_CHECK_H
#define RVL_KEPT_CHECK_H

#include "npu/layer.h"

/**
 * rvl_kept_check() - prove that the values kept in INP by @n layers keep their words
 * @first: tag of the first layer
 * @stream: legal instructions, the last of which is END; @tag: the layer of each
 *
 * For each kept value: the ALU of the layer that makes it writes INP inside its words only. From the
 * first of these writes to the last instruction of the last reader no other instruction writes
 * there, but for the ALU of a layer whose result takes the place: the last one of the cascade of the
 * last reader. Each reader reads its operand inside the words. Returns 0, -EINVAL with a sentence that
 * names the instruction and the layers, or -ENOMEM.
 */
int rvl_kept_check(const struct rivulet_board *b, struct rvl_layer *const *l, uint32_t n, uint32_t first,
		   const struct rivulet_insn *stream, uint32_t count, const uint32_t *tag,
		   struct rvl_err *err);

#endif

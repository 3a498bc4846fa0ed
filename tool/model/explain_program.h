/* SPDX-License-Identifier: MIT */
#ifndef RVL_TOOL_EXPLAIN_PROGRAM_H
#define RVL_TOOL_EXPLAIN_PROGRAM_H

#include "data/array.h"
#include "rivulet_compiler.h"

/**
 * rvl_explain_program() - the account of a program file, step by step
 * A program has the names of its steps but not of the layers inside an NPU step, nor the reasons
 * why a step runs on the CPU. @board_name: NULL for the board that the program was made for.
 * @out: released by rvl_explain_program_free(); its strings belong to @file, which must outlive it.
 * Returns 0 or an enum rvl_exit.
 */
int rvl_explain_program(const char *path, const struct rvl_blob *file, const char *board_name,
			struct rivulet_explain *out);
void rvl_explain_program_free(struct rivulet_explain *e);
/** rvl_is_program() - whether a file begins as a program file does */
bool rvl_is_program(const struct rvl_blob *b);

#endif

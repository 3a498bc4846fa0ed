/* SPDX-License-Identifier: MIT */
/* From the steps of a compilation to the program file. */
#ifndef RVL_PROGRAM_H
#define RVL_PROGRAM_H

#include "npu/backend.h"

/**
 * Reads a model with the dimensions, files and frozen inputs of the options. @out is also set on
 * failure.
 */
int rvl_read_model(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
		   struct rvl_graph **out, struct rvl_err *err);

/** SHA-256 that identifies a model: of its file, and of the data that it has in other files. */
void rvl_model_identity(const void *onnx, size_t size, const struct rvl_graph *g, uint8_t out[32]);

/** rivulet_compile() of a graph made in memory, not yet optimised; takes @g over in any case. */
int rvl_compile_graph(struct rvl_graph *g, const struct rivulet_board *board,
		      const struct rivulet_compile_options *opt, struct rivulet_blob *program,
		      struct rivulet_explain *explain, struct rvl_err *err);

/**
 * Makes the command streams of all NPU steps, checks them and estimates their time. After it the
 * offsets of everything before the commands are final.
 */
int rvl_emit_steps(struct rvl_backend *be);

/** Gives every ARENA store its offset; -E2BIG if the arena would exceed RIVULET_ARENA_MAX. */
int rvl_memplan(struct rvl_backend *be);
/**
 * Proves the plan: no two stores whose lives may overlap share a byte, parts lie inside their stores,
 * and no byte of a store is written by two steps or layers. -EINVAL names two tensors.
 */
int rvl_memplan_check(struct rvl_backend *be);
/** Whether two stores, or parts of one, have a byte in common. Never wrongly false. */
bool rvl_stores_meet(const struct rvl_store *a, const struct rvl_store *b);

/** Returns -EINVAL with the checker's message if the step's stream is not sound. */
int rvl_check_stream(const struct rvl_backend *be, const struct rvl_bstep *step,
		     const struct rvl_bcmd *cmd);

int rvl_write_program(struct rvl_backend *be, const void *onnx, size_t size,
		      struct rivulet_blob *out);

int rvl_explain_fill(const struct rvl_backend *be, size_t program_bytes, struct rivulet_explain *e);
/** Lists places and reasons only, for a graph that was not lowered. */
int rvl_explain_nodes(const struct rvl_backend *be, struct rivulet_explain *e);

#endif

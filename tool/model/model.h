/* SPDX-License-Identifier: MIT */
/* A model and what it is compiled with: the arguments that compile and explain have in common. */
#ifndef RVL_TOOL_MODEL_H
#define RVL_TOOL_MODEL_H

#include "data/array.h"
#include "model/beside.h"
#include "model/dims.h"
#include "model/mode.h"
#include "rivulet_board.h"
#include "rivulet_plan.h"

#define RVL_FROZEN_MAX 256

/** struct rvl_frozen - inputs that --freeze makes constants */
struct rvl_frozen {
	uint32_t n;
	struct rivulet_frozen f[RVL_FROZEN_MAX];
	struct rvl_array a[RVL_FROZEN_MAX];
	char *name[RVL_FROZEN_MAX];
};

/** struct rvl_model_args - first member of the arguments of compile and of explain */
struct rvl_model_args {
	const char *board, *plan_file;
	uint64_t batch;
	struct rvl_dims dims;
	bool require_npu, cpu_only, no_reconstruct, no_cascade, no_prefetch, no_views, no_layouts, no_sparse;
	bool no_chains;
	bool no_binary;
	bool no_taps, no_planes, no_gather, serial, prof;
	const char *optimise; /* a measure, or NULL: cycles */
	uint64_t memory; /* MiB, or 0: the compiler's limit */
	struct rvl_frozen frozen;
	struct rvl_mode mode;
	struct rivulet_plan plan; /* of @plan_file */
	struct rvl_beside beside;
};

/** rvl_model_freeze() - stores a --freeze; @member is a struct rvl_frozen */
int rvl_model_freeze(void *member, const char *value);
/* Entries of an option table. */
#define RVL_MODEL_OPTIONS(type, m)                                                                 \
	{ "board", 'b', "BOARD", "profile name or file, sim:NAME or /dev/accel/accelN (zu3eg-64)", \
	  RVL_MEMBER(type, m.board) },                                                             \
	{ "freeze", 0, "NAME=FILE", "make an input a constant (.npy or ONNX tensor); repeatable",  \
	  RVL_CALL(type, m.frozen, rvl_model_freeze) },                                            \
	{ "batch", 0, "N", RVL_BATCH_HELP, RVL_MEMBER(type, m.batch), .least = 1, .most = INT32_MAX },         \
	RVL_DIMS_OPTIONS(type, m.dims),                                                            \
	{ "no-views", 0, NULL, "copy the results of reshapes, slices, splits and joins",           \
	  RVL_MEMBER(type, m.no_views) },                                                          \
	{ "no-layouts", 0, NULL, "keep every image that the CPU touches in NCHW",                  \
	  RVL_MEMBER(type, m.no_layouts) },                                                        \
	{ "no-chains", 0, NULL, "make every operator on the CPU a step of its own",               \
	  RVL_MEMBER(type, m.no_chains) },                                                         \
	{ "no-sparse", 0, NULL, "compute no layer by pairs of a weight and its index",             \
	  RVL_MEMBER(type, m.no_sparse) },                                                         \
	{ "no-binary", 0, NULL, "compute layers of two values as other layers",                    \
	  RVL_MEMBER(type, m.no_binary) },                                                         \
	{ "no-reconstruct", 0, NULL, "insert no quantisation in front of float operators",         \
	  RVL_MEMBER(type, m.no_reconstruct) },                                                    \
	{ "no-taps", 0, NULL, "compute no depthwise layer by several taps of a channel at once",   \
	  RVL_MEMBER(type, m.no_taps) },                                                           \
	{ "no-planes", 0, NULL, "compute no layer by the bits of its weights",                      \
	  RVL_MEMBER(type, m.no_planes) },                                                         \
	{ "no-gather", 0, NULL, "gather the patches of no convolution into channels",              \
	  RVL_MEMBER(type, m.no_gather) },                                                         \
	{ "no-cascade", 0, NULL, "move every value between NPU layers through memory",             \
	  RVL_MEMBER(type, m.no_cascade) },                                                        \
	{ "no-prefetch", 0, NULL, "load no weights before the end of the layer before",            \
	  RVL_MEMBER(type, m.no_prefetch) },                                                       \
	{ "optimise", 0, "cycles|energy", "what modes, cuts and cascades are chosen by (cycles)",  \
	  RVL_MEMBER(type, m.optimise) },                                                          \
	{ "memory-limit", 0, "MIB", "memory the compiler may take (64 and 8 times the model)",     \
	  RVL_MEMBER(type, m.memory), .least = 1, .most = UINT32_MAX },                            \
	{ "require-npu", 0, NULL, "refuse a model with steps on the CPU",                          \
	  RVL_MEMBER(type, m.require_npu) },                                                       \
	{ "cpu-only", 0, NULL, "everything on the CPU", RVL_MEMBER(type, m.cpu_only) },            \
	{ "plan", 0, "FILE", "a plan of rivulet plan: lengths and accuracies by level",            \
	  RVL_MEMBER(type, m.plan_file) },                                                         \
	RVL_MODE_OPTIONS(type, m.mode)

/**
 * rvl_model_prepare() - read plan, board and model, and fill the compile options
 * @onnx: the caller's to clear after success. Returns 0 or an enum rvl_exit.
 */
int rvl_model_prepare(struct rvl_model_args *a, const char *model, struct rivulet_board *board,
		      struct rvl_blob *onnx, struct rivulet_compile_options *o);
void rvl_model_clear(struct rvl_model_args *a);

#endif

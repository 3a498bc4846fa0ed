/* SPDX-License-Identifier: MIT */
/*
 * Accuracy of a model: the CPU operators run it over a data set, with int8 products or bitstreams
 * of any length and circuit. The results equal the device's bit for bit. Nothing here prints or
 * opens files.
 */
#ifndef RIVULET_EVAL_H
#define RIVULET_EVAL_H

#include "rivulet_compiler.h"
#include "rivulet_sc.h"

struct rivulet_eval;

/** struct rivulet_eval_data - labelled examples, contiguous; borrowed */
struct rivulet_eval_data {
	const float *f32;	/* values as the model takes them, or NULL and */
	const uint8_t *u8;	/* ... bytes: raw for a uint8 input, byte / 255 for a float one */
	const uint8_t *labels;
	uint64_t count;
	uint64_t size;		/* elements of an example */
};

/** struct rivulet_eval_spec - how products are computed */
struct rivulet_eval_spec {
	uint32_t length;	/* bits of a stream, 8..256; 0: int8 */
	uint32_t circuit;	/* enum rivulet_sc_circuit */
	uint32_t blocks;	/* AND-ACC: parts of a stream; 0: 1 */
};

/**
 * rivulet_eval_new() - prepare a model with one input and at least one output
 * @opt: batch and symbol, stochastic with keep_int8, calibration; the rest is ignored. A symbolic first
 * dimension becomes 50 when opt->batch is 0. The model's bytes are copied.
 * Errors as rivulet_compile().
 */
int rivulet_eval_new(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
		     struct rivulet_eval **out, struct rvl_err *err);
struct rivulet_eval *rivulet_eval_free(struct rivulet_eval *e);

/** rivulet_eval_macs() - products of one example: all, and of these those made of streams */
uint64_t rivulet_eval_macs(const struct rivulet_eval *e, uint64_t *streams);

/**
 * rivulet_eval_scales() - find each layer's adder scale S for a circuit that has one
 * S is the smallest power of two above 99.95 % of the sums of the first examples of @d. Needed once
 * before rivulet_eval_accuracy() of AND_LOOP, AND_ACC, AND_SEP or UGEMM. It replaces the scales of
 * another circuit.
 */
int rivulet_eval_scales(struct rivulet_eval *e, uint32_t circuit, const struct rivulet_eval_data *d,
			struct rvl_err *err);

/**
 * rivulet_eval_accuracy() - the number of examples whose highest score is that of the label
 * @threads: 1 or more; the result does not depend on it
 * -EINVAL: the data's size or the spec does not fit the model.
 */
int rivulet_eval_accuracy(struct rivulet_eval *e, const struct rivulet_eval_spec *s,
			  const struct rivulet_eval_data *d, uint32_t threads, uint64_t *right,
			  struct rvl_err *err);

/**
 * rivulet_eval_scores() - the first output of up to one batch of examples from @first on
 * @out: rivulet_eval_score_bytes() for each; returns how many were run, or a negative errno
 */
int64_t rivulet_eval_scores(struct rivulet_eval *e, const struct rivulet_eval_spec *s,
			    const struct rivulet_eval_data *d, uint64_t first, void *out,
			    struct rvl_err *err);
/** rivulet_eval_score_bytes() - bytes of one example's first output */
uint64_t rivulet_eval_score_bytes(const struct rivulet_eval *e);

#endif

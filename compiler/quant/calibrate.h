/* SPDX-License-Identifier: MIT */
/* Quantising a float model by examples of its inputs. */
#ifndef RVL_CALIBRATE_H
#define RVL_CALIBRATE_H

#include "graph/graph.h"
#include "rivulet_compiler.h"

/**
 * Makes a float model a QDQ model: QuantizeLinear and DequantizeLinear around every operator that
 * the NPU computes, with ranges found by running the model over the examples of @q. To be called
 * before rvl_optimise(). -EINVAL: the examples do not fit, or nothing can be quantised; -ENOENT: a
 * node of keep_float does not exist.
 */
int rvl_calibrate(struct rvl_graph *g, const struct rivulet_quantise *q, struct rvl_err *err);

/** The form of the graph that rvl_calibrate() quantises: rvl_prepare(), and equalised if @q says so. */
int rvl_calibrate_prepare(struct rvl_graph *g, const struct rivulet_quantise *q, struct rvl_err *err);

#endif

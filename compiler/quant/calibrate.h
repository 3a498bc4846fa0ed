/* SPDX-License-Identifier: MIT */
/* Quantising a float model. */
#ifndef RVL_CALIBRATE_H
#define RVL_CALIBRATE_H

#include "graph/graph.h"

/**
 * Quantises a float model by what it computes from @data, @size values of its one input: activations
 * uint8 (zero point 0 and the 99.9th percentile where nothing is negative), weights int8 by row. To be called
 * before rvl_optimise(). -EINVAL: the data does not fit, or nothing is float.
 */
int rvl_calibrate(struct rvl_graph *g, const float *data, uint64_t size, struct rvl_err *err);

#endif

/* SPDX-License-Identifier: MIT */
/* PRelu with a slope for each channel, by factors of the ALU. */
#ifndef RVL_SLOPES_H
#define RVL_SLOPES_H

#include "graph/graph.h"

/** Whether @n is a PRelu between bytes, of rank 2 or 4, with a constant slope for each channel. */
bool rvl_is_slopes(const struct rvl_node *n);

/** NULL if the NPU has factors for all bytes of @n, for which rvl_is_slopes() holds; else why not. */
const char *rvl_slopes_lack(const struct rvl_node *n);

/**
 * The factor that gives the CPU's bytes for @slope times every value on one side of zero, as the ALU
 * rounds; false if none is found.
 */
bool rvl_slope_factor(const struct rvl_node *n, bool below, float slope, float *factor);

#endif

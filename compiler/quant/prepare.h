/* SPDX-License-Identifier: MIT */
/* The form of a float graph in which it is quantised. */
#ifndef RVL_PREPARE_H
#define RVL_PREPARE_H

#include "graph/graph.h"

/**
 * Constants folded; BatchNormalization, clamps and additions of constants in their products; x *
 * Sigmoid(x) as one function: each intermediate value that is saved is one rounding less.
 * -EOPNOTSUPP where a node cannot run.
 */
int rvl_prepare(struct rvl_graph *g, struct rvl_err *err);

#endif

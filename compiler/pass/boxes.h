/* SPDX-License-Identifier: MIT */
/* What a node copies, for the passes that make views. */
#ifndef RVL_PASS_BOXES_H
#define RVL_PASS_BOXES_H

#include "graph/graph.h"

/**
 * Fills @boxes: 1; or 0 for a node that does more than copy, or whose boxes only a run knows; or
 * -ENOMEM.
 */
int rvl_node_boxes(const struct rvl_node *n, struct rvl_op_boxes *boxes, struct rvl_err *err);

/** Elements of a box. */
int64_t rvl_box_count(const struct rvl_op_box *b);

#endif

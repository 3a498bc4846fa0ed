/* SPDX-License-Identifier: MIT */
/* From a graph to an ONNX model. */
#ifndef RVL_ONNX_EXPORT_H
#define RVL_ONNX_EXPORT_H

#include "base/bytes.h"
#include "graph/graph.h"

/**
 * Writes a graph of ONNX's operators, clamps folded into them included, as a ModelProto of the
 * graph's opset, of 10 at least. QuantizeLinear and DequantizeLinear are those of com.microsoft below opset 13,
 * whose own have no axis, and with int16 below opset 21. Of nodes with one name only the first keeps it.
 * -EOPNOTSUPP names a node that the opset has no operator for; -E2BIG beyond the limit of struct
 * rvl_bytes. Free @out in any case.
 */
int rvl_onnx_export(const struct rvl_graph *g, struct rvl_bytes *out, struct rvl_err *err);

#endif

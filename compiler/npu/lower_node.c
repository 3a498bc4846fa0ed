/* SPDX-License-Identifier: MIT */
/* The layer of a node by its operator. */
#include "npu/layer.h"

struct rvl_layer *rvl_layer_build(struct rvl_graph *g, const struct rivulet_board *b,
				  const struct rvl_node *n, bool values, const char **why)
{
	(void)b;
	switch (n->op) {
	case RVL_OP_Q_CONV:
		return rvl_build_conv(g, n, values, why);
	case RVL_OP_Q_MATMUL:
		return rvl_build_matmul(g, n, values, why);
	case RVL_OP_MAX_POOL:
	case RVL_OP_GLOBAL_MAX_POOL:
	case RVL_OP_Q_GLOBAL_AVERAGE_POOL:
	case RVL_OP_Q_AVERAGE_POOL:
		return rvl_build_pool(g, n, why);
	case RVL_OP_Q_ADD:
	case RVL_OP_Q_MUL:
		return rvl_build_bin(g, n, why);
	case RVL_OP_Q_RESCALE:
	case RVL_OP_Q_TABLE:
		return rvl_build_lut(g, n, why);
	case RVL_OP_RESHAPE:
	case RVL_OP_FLATTEN:
	case RVL_OP_IDENTITY:
		return rvl_build_copy(g, n, why);
	case RVL_OP_TRANSPOSE:
		return rvl_build_transpose(g, n, why);
	default:
		*why = "no layer of the device computes this operator";
		return NULL;
	}
}

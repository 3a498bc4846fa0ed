/* SPDX-License-Identifier: MIT */
/* Which nodes of a float graph are quantised, and which tensors get parameters for them. */
#ifndef RVL_CHOOSE_H
#define RVL_CHOOSE_H

#include "graph/graph.h"

/* A choice for one graph. Both arrays belong to its owner. */
struct rvl_chosen {
	bool *node;   /* by index in g->nodes, valid until nodes are added or removed */
	bool *tensor; /* by tensor id: gets QuantizeLinear and DequantizeLinear */
};

/** Allocates an empty choice; -ENOMEM. */
int rvl_chosen_new(const struct rvl_graph *g, struct rvl_chosen *c);
void rvl_chosen_free(struct rvl_chosen *c);

/**
 * Chooses products with constant weights, and what follows them as far as the NPU computes it:
 * additions, products and pools of quantised values, and element-wise functions of one. @keep_float:
 * by index in g->nodes, nodes that are left out; may be NULL. Returns the number of products.
 */
uint32_t rvl_choose(const struct rvl_graph *g, const bool *keep_float, struct rvl_chosen *c);

/** Whether a node is a product with constant weights that can be quantised. */
bool rvl_is_product(const struct rvl_node *n);

/** Where the values of a tensor arise: operators that only move values take over its parameters. */
struct rvl_tensor *rvl_source_of(struct rvl_tensor *t);

#endif

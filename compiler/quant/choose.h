/* SPDX-License-Identifier: MIT */
/* Which nodes of a float graph are quantised, and which tensors get parameters for them. */
#ifndef RVL_CHOOSE_H
#define RVL_CHOOSE_H

#include "graph/graph.h"

/* A choice for one graph. The arrays belong to its owner. */
struct rvl_chosen {
	bool *node;   /* by index in g->nodes, valid until nodes are added or removed */
	bool *tensor; /* by tensor id: gets QuantizeLinear and DequantizeLinear */
	/*
	 * By tensor id: the chosen tensor whose parameters it has, itself where it has its own. What
	 * is only moved keeps its parameters. A result that only a Concat reads has those of the
	 * Concat's result, so that its values are rounded once.
	 */
	uint32_t *like;
	bool *leads; /* by tensor id: a product is computed from it */
	uint8_t *bits; /* by index in g->nodes: of the weights of a product, 1 to 8; 8 at first */
};

/** Allocates an empty choice; -ENOMEM. */
int rvl_chosen_new(const struct rvl_graph *g, struct rvl_chosen *c);
void rvl_chosen_free(struct rvl_chosen *c);

/** Takes all choices back. */
void rvl_chosen_clear(const struct rvl_graph *g, struct rvl_chosen *c);

/** The tensor whose parameters tensor @id has. */
uint32_t rvl_chosen_like(const struct rvl_chosen *c, uint32_t id);

/**
 * Chooses products with constant weights, and what follows them as far as the NPU computes it:
 * additions, products and pools of quantised values, and element-wise functions of one. Between two
 * products it chooses what the CPU computes on bytes, too: operators that move, select, join or pad
 * values, element-wise functions of one or more values, weighted means, and products of two computed
 * matrices. Behind the last product these stay float, where
 * they cost little and lose nothing. A product that the model quantises, but for its result, gets
 * parameters for the result. @keep_float: by index in g->nodes, nodes that are left out; may
 * be NULL. Returns the number of products.
 */
uint32_t rvl_choose(const struct rvl_graph *g, const bool *keep_float, struct rvl_chosen *c);

/** Whether a node is a product with constant weights that can be quantised. */
bool rvl_is_product(const struct rvl_node *n);

/**
 * The tensor in front of Reshape, Transpose, MaxPool and the like, which take over its parameters
 * without a choice of their own.
 */
struct rvl_tensor *rvl_source_of(struct rvl_tensor *t);

#endif

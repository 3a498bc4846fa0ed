/* SPDX-License-Identifier: MIT */
/* Nodes that a pass adds to the partitioned graph, whose order and segments stay. */
#ifndef RVL_PASS_INSERTED_H
#define RVL_PASS_INSERTED_H

#include "graph/graph.h"

/* A new node and its place: before or behind the node at @pos. */
struct rvl_inserted {
	struct rvl_node *node;
	uint32_t pos;
	bool behind;
};

struct rvl_inserted_list {
	struct rvl_inserted *list;
	uint32_t n, cap;
};

/** The node, which runs on the CPU, is to be placed beside the node at @pos of g->nodes. */
int rvl_inserted_add(struct rvl_inserted_list *all, struct rvl_graph *g, struct rvl_node *n, uint32_t pos,
	       bool behind, struct rvl_err *err);

/**
 * Brings the new nodes, which lie behind the first @n_nodes of the graph, to their places, counts
 * the nodes of the segments again, and frees the list.
 */
int rvl_inserted_place(struct rvl_inserted_list *all, struct rvl_graph *g, uint32_t n_nodes,
		   struct rvl_err *err);

#endif

/* SPDX-License-Identifier: MIT */
/* Nodes that together compute a function of one quantised value: a table of 256 bytes. */
#ifndef RVL_FUNCTION_H
#define RVL_FUNCTION_H

#include "graph/graph.h"

#define RVL_FUNCTION_NODES 8

/* Each operand of each node is @x, the result of an earlier node, or a constant of one value. */
struct rvl_function {
	struct rvl_tensor *x, *y;
	const struct rvl_node *node[RVL_FUNCTION_NODES];
	uint32_t n;
	bool alone; /* no other node reads @x, and it is no output */
};

/**
 * Finds the largest function of @x among nodes of the NPU in segment @segment, of which nothing else
 * reads a value but the last one. @alone: only one with @alone set. False if there is none.
 */
bool rvl_function_find(struct rvl_tensor *x, uint32_t segment, bool alone, struct rvl_function *f);

/** Makes @f the function that node @n alone computes of its first operand. */
void rvl_function_of(const struct rvl_node *n, struct rvl_function *f);

static inline bool rvl_function_has(const struct rvl_function *f, const struct rvl_node *n)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->node[i] == n)
			return true;
	return false;
}

/** Number of @t among the values of @f: 0 is x, i + 1 the result of node i; -1: it is none of them. */
static inline int rvl_function_value(const struct rvl_function *f, const struct rvl_tensor *t)
{
	if (t == f->x)
		return 0;
	for (uint32_t i = 0; i < f->n; i++)
		if (t == f->node[i]->out[0])
			return (int)i + 1;
	return -1;
}

/** All 256 results of the CPU's kernels, by the byte of @x; 0 or a negative errno. */
int rvl_function_table(const struct rvl_function *f, uint8_t table[256]);

#endif

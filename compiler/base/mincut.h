/* SPDX-License-Identifier: MIT */
/*
 * Minimum cuts of a directed graph with capacities: the cheapest assignment of one of two values to
 * each of many variables, where costs depend on one variable or on a pair of them.
 *
 * Every vertex is on the side of the source or on that of the sink. An edge from u to v costs its
 * capacity if u is on the side of the source and v on that of the sink.
 */
#ifndef RVL_MINCUT_H
#define RVL_MINCUT_H

#include <stdbool.h>
#include <stdint.h>

#define RVL_CUT_SOURCE 0u
#define RVL_CUT_SINK 1u
#define RVL_CUT_NEVER ((int64_t)1 << 60)	/* capacity of an edge that no cut may contain */

struct rvl_mincut;

/** @vertices include source and sink; NULL without memory. */
struct rvl_mincut *rvl_mincut_new(uint32_t vertices);
/** NULL is allowed. */
void rvl_mincut_free(struct rvl_mincut *m);

/** Adds an edge; sums of capacities that are not RVL_CUT_NEVER must stay below it. -ENOMEM. */
int rvl_mincut_edge(struct rvl_mincut *m, uint32_t from, uint32_t to, int64_t capacity);

/**
 * Finds a cut of least cost; of several, the one with the fewest vertices at the sink. *cost may be
 * NULL. -E2BIG if the search takes more than @steps visits of edges, which bounds its time.
 */
int rvl_mincut_solve(struct rvl_mincut *m, uint64_t steps, int64_t *cost);

/** After rvl_mincut_solve(): whether @v is on the side of the sink. */
bool rvl_mincut_at_sink(const struct rvl_mincut *m, uint32_t v);

#endif

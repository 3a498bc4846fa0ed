/* SPDX-License-Identifier: MIT */
/*
 * Views: which elements of a store a tensor consists of. Element (i0, i1, …) of a view is element
 * origin + i0 * pitch[0] + i1 * pitch[1] + … of the store. A pitch may be negative (reversed axes)
 * or 0 (broadcast). Slices, transpositions, splits and, where the pitches allow it, reshapes of a
 * view are views of the same store, so that no element moves.
 *
 * Functions that return false leave their result undefined: what is asked for is no view of the
 * store, or its numbers overflow, and needs a copy.
 */
#ifndef RVL_GRAPH_VIEW_H
#define RVL_GRAPH_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "rivulet_ops.h"

#define RVL_TVIEW_RANK (2 * RVL_MAX_RANK)

struct rvl_tview {
	int64_t origin;		/* elements from the start of the store */
	int32_t rank;		/* 0: one element */
	int64_t dim[RVL_TVIEW_RANK];
	int64_t pitch[RVL_TVIEW_RANK];	/* in elements */
};

/** All of a store, row major. */
bool rvl_tview_dense(struct rvl_tview *v, const struct rvl_shape *s);

/** Elements of the view, or -1 on overflow. */
int64_t rvl_tview_count(const struct rvl_tview *v);

/** Axis d of the result is axis perm[d]; @perm names each axis once. */
bool rvl_tview_permute(struct rvl_tview *v, const int32_t *perm);

/** The same elements in row-major order with other dimensions; false where that needs a copy. */
bool rvl_tview_reshape(struct rvl_tview *v, const int64_t *dim, int32_t rank);

/** The same sequence of elements with the fewest axes: those of one element left out, others merged. */
void rvl_tview_normalise(struct rvl_tview *v);

/** Whether the elements follow one another without gaps: @v->origin is then the first of them. */
bool rvl_tview_is_dense(const struct rvl_tview *v);

/**
 * @v is a view of a tensor that is itself the view @of of a store. *v becomes a view of that store;
 * false where the result has no pitches.
 */
bool rvl_tview_compose(struct rvl_tview *v, const struct rvl_tview *of);

/** Least and greatest element that the view touches; false if it has none or they overflow. */
bool rvl_tview_bounds(const struct rvl_tview *v, int64_t *least, int64_t *greatest);

/** Whether all elements lie in a store of @count. A view without elements does. */
bool rvl_tview_inside(const struct rvl_tview *v, int64_t count);

/** Whether two elements of the view may be the same one of the store. Never wrongly false. */
bool rvl_tview_repeats(const struct rvl_tview *v);

/** Whether two views of one store may have an element in common. Never wrongly false. */
bool rvl_tview_overlap(const struct rvl_tview *a, const struct rvl_tview *b);

#endif

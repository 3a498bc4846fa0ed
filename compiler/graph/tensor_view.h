/* SPDX-License-Identifier: MIT */
/* Tensors of the graph as views of their stores. */
#ifndef RVL_GRAPH_TENSOR_VIEW_H
#define RVL_GRAPH_TENSOR_VIEW_H

#include "graph/graph.h"
#include "graph/view.h"

/** All elements of @t, in its dimensions, if it has a store of its own. */
void rvl_tensor_dense_view(const struct rvl_tensor *t, struct rvl_tview *v);

/** The elements of its store that @t consists of, in its dimensions. */
void rvl_tensor_view(const struct rvl_tensor *t, struct rvl_tview *v);

#endif

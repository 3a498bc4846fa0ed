/* SPDX-License-Identifier: MIT */
/*
 * How long stores are used, for the passes that make views. A view that is used after everything else
 * in its store keeps bytes that nobody uses. So a store's life ends with the last use of half of it;
 * what is used after that is copied. Times are indices of nodes.
 */
#ifndef RVL_PASS_LIVES_H
#define RVL_PASS_LIVES_H

#include "graph/graph.h"

struct rvl_life {
	uint32_t half;	/* the last use of at least half of its bytes */
	uint32_t last;	/* of any */
};

struct rvl_lives {
	struct rvl_life *store;	/* by id of the tensor that has the store */
	uint32_t *last_use;	/* by tensor id, reshapes of it included */
};

/** The lives of all tensors as they are; those that are added later have none. */
int rvl_lives_new(struct rvl_lives *l, const struct rvl_graph *g, struct rvl_err *err);
void rvl_lives_free(struct rvl_lives *l);

/** Whether views of @bytes, together, may be used until @last without keeping most of the store idle. */
bool rvl_life_fits(const struct rvl_lives *l, const struct rvl_tensor *root, uint64_t bytes,
		   uint32_t last);
void rvl_life_extend(struct rvl_lives *l, const struct rvl_tensor *root, uint64_t bytes,
		     uint32_t last);

/** The same for @root, with all that lies in it, as a part of the store of @whole. */
bool rvl_life_fits_joined(const struct rvl_lives *l, const struct rvl_tensor *root,
			  const struct rvl_tensor *whole);
void rvl_life_extend_joined(struct rvl_lives *l, const struct rvl_tensor *root,
			    const struct rvl_tensor *whole);

#endif

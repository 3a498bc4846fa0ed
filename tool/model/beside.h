/* SPDX-License-Identifier: MIT */
/* The files beside a model that hold the data of its tensors. */
#ifndef RVL_TOOL_BESIDE_H
#define RVL_TOOL_BESIDE_H

#include "rivulet_compiler.h"

#define RVL_BESIDE_MAX ((uint64_t)4 << 30)

/** struct rvl_beside - what was read from the folder of a model; all zero is empty */
struct rvl_beside {
	struct rivulet_files files;
	int folder; /* file descriptor + 1 */
	void **data;
	uint32_t n;
	uint64_t held; /* bytes of @data, RVL_BESIDE_MAX at most */
};

/** rvl_beside_open() - fills @files for the folder of a model. Returns 0 or an enum rvl_exit */
int rvl_beside_open(struct rvl_beside *b, const char *model);
/** rvl_beside_clear() - frees all data that was read */
void rvl_beside_clear(struct rvl_beside *b);

#endif

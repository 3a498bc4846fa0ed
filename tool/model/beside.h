/* SPDX-License-Identifier: MIT */
/* The files beside a model that hold the data of its tensors. */
#ifndef RVL_TOOL_BESIDE_H
#define RVL_TOOL_BESIDE_H

#include "rivulet_compiler.h"

#define RVL_BESIDE_MAX RIVULET_PROGRAM_MAX /* bytes of all tensors, each counted by itself */
/*
 * Tensors may share bytes of the files, but each is hashed by itself. So that a small or sparse file
 * does not stand for hours of work, all tensors have at most four times the bytes of the files that they
 * are in, and RVL_BESIDE_FREE more, for small tensors that have one content.
 */
#define RVL_BESIDE_SHARED 4
#define RVL_BESIDE_FREE	  (1ull << 30)

/* A mapped file. Who shortens it meanwhile ends the command by SIGBUS. */
struct rvl_beside_file {
	char *location;
	void *data;
	uint64_t size;
};

/** struct rvl_beside - files in the folder of a model; all zero is empty */
struct rvl_beside {
	struct rivulet_files files;
	int folder; /* file descriptor + 1 */
	struct rvl_beside_file *file;
	uint32_t n;
	uint64_t mapped; /* bytes of the files */
	uint64_t taken;	 /* bytes that tensors have */
	uint64_t free;	 /* RVL_BESIDE_FREE; less in tests */
};

/** rvl_beside_open() - fills @files for the folder of a model. Returns 0 or an enum rvl_exit */
int rvl_beside_open(struct rvl_beside *b, const char *model);
/** rvl_beside_clear() - ends all mappings */
void rvl_beside_clear(struct rvl_beside *b);

#endif

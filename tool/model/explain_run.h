/* SPDX-License-Identifier: MIT */
#ifndef RVL_TOOL_EXPLAIN_RUN_H
#define RVL_TOOL_EXPLAIN_RUN_H

#include "base/bytes.h"
#include "rivulet_compiler.h"

/**
 * rvl_explain_run() - run a program that writes PROF records, and put them into its account
 * @path: its file's name, for errors; @device: a node or sim:BOARD; @spans: receives what
 * e->spans points to, to be freed after @e. Cycles of the segments become those of the run.
 * Returns 0 or an enum rvl_exit.
 */
int rvl_explain_run(const char *path, const void *program, size_t size, const char *device,
		    struct rivulet_explain *e, struct rvl_bytes *spans);

#endif

/* SPDX-License-Identifier: MIT */
/* The CPU operators against libraries from PyPI. */
#ifndef RVL_TOOL_PEERS_H
#define RVL_TOOL_PEERS_H

#include <stdint.h>

/**
 * rvl_peers_compare() - become tools/peers/compare.py, which runs this program and the libraries
 * @peers: "onnxruntime,xnnpack" or one of them
 * @model: NULL: the networks and layers of the table in docs/figures.md
 * @threads: 0: one and two
 * Returns only when it fails: an enum rvl_exit.
 */
int rvl_peers_compare(const char *peers, const char *model, uint64_t threads);

#endif

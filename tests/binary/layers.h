/* SPDX-License-Identifier: MIT */
/*
 * Random BinaryConv layers on every set of kernels of this processor, and the scalar reference,
 * against a float oracle written from docs/numerics.md 13. Buffers lie between guard pages. Inputs,
 * weights and parameters are such that many values are equal to thresholds.
 */
#ifndef RVL_TEST_BINARY_LAYERS_H
#define RVL_TEST_BINARY_LAYERS_H

/** Compares layer number @i, which is its seed. The name of the first kernels that differ, or NULL. */
const char *binary_compare(long i);

/** Layers whose bits had a value equal to the threshold, since the start. */
extern unsigned long binary_ties;

#endif

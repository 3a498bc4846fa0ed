/* SPDX-License-Identifier: MIT */
/*
 * Random BinarySign layers on every set of kernels of this processor, and element by element, against
 * an oracle that compares doubles. Buffers lie between guard pages.
 */
#ifndef RVL_TEST_BINARY_SIGNS_H
#define RVL_TEST_BINARY_SIGNS_H

/** Compares layer number @i, which is its seed. The name of the first kernels that differ, or NULL. */
const char *sign_compare(long i);

/** Elements that were equal to their threshold, since the start. */
extern unsigned long sign_ties;

#endif

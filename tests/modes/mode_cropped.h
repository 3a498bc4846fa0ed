/* SPDX-License-Identifier: MIT */
#ifndef RVL_TEST_MODE_CROPPED_H
#define RVL_TEST_MODE_CROPPED_H

/*
 * Rows and columns of zeros that the mode leaves around the weights that are not zero. With some of
 * them the kernel is larger than the node's, and the mode costs more than the dense one.
 */
extern int mode_cropped_margin;

#endif

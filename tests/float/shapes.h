/* SPDX-License-Identifier: MIT */
/*
 * Float products of every instruction set of this processor against the scalar reference on random
 * shapes. Every buffer ends or begins at a page that cannot be accessed, and has such a page on its
 * other side too.
 *
 * An element may differ by 1e-5 of its bound, which is the same product of absolute values: the sum
 * of |a * b|, |bias| and so on. One run of each shape has parts in reverse order or on one thread,
 * and both must give the same bits.
 */
#ifndef RVL_TEST_FLOAT_SHAPES_H
#define RVL_TEST_FLOAT_SHAPES_H

/** Compares shape number @i, which is its seed. The name of the first set that differs, or NULL. */
const char *float_compare(long i);

#endif

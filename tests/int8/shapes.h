/* SPDX-License-Identifier: MIT */
/*
 * Quantised products of every instruction set of this processor against the scalar reference, byte
 * by byte, on random shapes. Every buffer ends or begins at a page that cannot be accessed, and has
 * such a page on its other side too.
 */
#ifndef RVL_TEST_INT8_SHAPES_H
#define RVL_TEST_INT8_SHAPES_H

#include "int8/int8.h"

/**
 * Compares shape number @i, which is its seed. The name of the first set that differs, or NULL. Three
 * in four shapes use tables wherever the weights have few bits.
 */
const char *int8_compare(long i);

/** The same for the set in use alone. Whether it differs. */
bool int8_compare_model(long i);

#ifdef __x86_64__
/*
 * Kernels with models of their instructions: for AVX-VNNI, which need AVX2, and for AMX, which need
 * AVX512-VNNI.
 */
extern const struct rvl_i8_kernels int8_avxvnni_model, int8_amx_model;

/* Tables for AVX-512BW with a model of its registers, which needs AVX2. */
extern const struct rvl_i8_kernels int8_tables512_model;
#endif

#endif

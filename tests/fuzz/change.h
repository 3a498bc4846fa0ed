/* SPDX-License-Identifier: MIT */
/*
 * Changes a step of a program file together with the tensors that it names, so that the file still
 * passes the comparison of the two and the code behind it is reached. Changes of single bytes are
 * nearly always refused by that comparison.
 */
#ifndef RVL_FUZZ_CHANGE_H
#define RVL_FUZZ_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Makes one to four changes and corrects the checksum.
 * @file: aligned to RIVULET_PROGRAM_ALIGN. Returns false, with the file as it was but for its
 * checksum, if it is not sound or if no CPU step was found.
 */
bool fuzz_change_program(uint8_t *file, size_t size, uint64_t *seed);

/** Corrects the checksum of a file of at least a header. */
void fuzz_set_checksum(uint8_t *file, size_t size);

#endif

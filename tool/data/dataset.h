/* SPDX-License-Identifier: MIT */
/* Labelled examples from files, and lists of bitstream lengths. */
#ifndef RVL_TOOL_DATASET_H
#define RVL_TOOL_DATASET_H

#include "data/array.h"
#include "rivulet_eval.h"

/** struct rvl_dataset - labelled examples; @set points into the rest */
struct rvl_dataset {
	struct rvl_array examples, answers;
	uint8_t *label;
	struct rivulet_eval_data set;
};
/**
 * rvl_dataset_read() - examples and labels, each an IDX file of bytes (plain or .gz) or .npy, from
 * example @first, at most @count. 0 or an enum rvl_exit; clear it in any case
 */
int rvl_dataset_read(const char *data, const char *labels, uint64_t first, uint64_t count,
		     struct rvl_dataset *d);
void rvl_dataset_clear(struct rvl_dataset *d);
/**
 * rvl_lengths_parse() - "64", "8-256" or several with commas: sets entries of @lengths,
 * RIVULET_SC_MAX + 1 long
 */
int rvl_lengths_parse(const char *s, bool *lengths);

#endif

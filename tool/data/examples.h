/* SPDX-License-Identifier: MIT */
/* Examples of a model's inputs from files: pictures, .npy, .npz, ONNX tensors, and folders of them. */
#ifndef RVL_TOOL_EXAMPLES_H
#define RVL_TOOL_EXAMPLES_H

#include "data/picture_input.h"
#include "rivulet_compiler.h"

/** struct rvl_examples - of every input, those of a file behind those of the file before */
struct rvl_examples {
	const struct rvl_picture_options *picture;
	struct rivulet_model_input *input;	/* borrowed; @n of them */
	uint32_t n;
	struct rivulet_examples *list;		/* by input; owned, with its data */
	size_t *room;				/* bytes that list[i].data holds */
};

/** rvl_examples_init() - empty, for these inputs. 0 or an enum rvl_exit */
int rvl_examples_init(struct rvl_examples *x, const struct rvl_picture_options *picture,
		      struct rivulet_model_input *input, uint32_t n);
/**
 * rvl_examples_add() - all examples of "PATH" or "NAME=PATH", NAME one of the inputs
 * A folder is read in the order of its names; input_N.pb and input_N.npy are of input N. The arrays
 * of an .npz have the names of inputs. An array is one example or, with more dimensions in front or
 * a larger first one, several. Bytes become float32 as samples of pictures do.
 */
int rvl_examples_add(struct rvl_examples *x, const char *value);
void rvl_examples_clear(struct rvl_examples *x);

#endif

/* SPDX-License-Identifier: MIT */
/* A model whose constant lies in a file beside it. */
#ifndef EXTERNAL_MODEL_H
#define EXTERNAL_MODEL_H

#include "unit/pbuild.h"

static inline void external_pair(struct pb *tensor, const char *key, const char *value)
{
	struct pb e = { .p = NULL };

	if (!value)
		return;
	pb_str(&e, 1, key);
	pb_str(&e, 2, value);
	pb_msg(tensor, 13, &e);
}

/* A tensor of 3 (rank 1) or 3 x 1 floats in the file @location. */
static inline struct pb external_tensor(const char *name, int rank, const char *location,
					const char *offset, const char *length)
{
	struct pb t = { .p = NULL };

	pb_int(&t, 1, 3);
	if (rank == 2)
		pb_int(&t, 1, 1);
	pb_int(&t, 2, 1);
	pb_str(&t, 8, name);
	external_pair(&t, "location", location);
	external_pair(&t, "offset", offset);
	external_pair(&t, "length", length);
	external_pair(&t, "checksum", "0");
	pb_int(&t, 14, 1);
	return t;
}

/*
 * y = x + w, x of 3 (rank 1) or 3 x N floats (rank 2), w of 3 or 3 x 1 floats in the file @location.
 * NULL: the key is missing. The caller frees the bytes.
 */
static inline struct pb external_model(int rank, const char *location, const char *offset,
				       const char *length)
{
	static const int64_t row[] = { 3, -1 }, columns[] = { 3, -2, -1 };
	struct pb g = { .p = NULL }, t = external_tensor("w", rank, location, offset, length);
	struct pb n = pb_node("Add", "x w", "y");
	struct pb x = pb_value("x", 1, rank == 1 ? row : columns), y = { .p = NULL };

	pb_msg(&g, 1, &n);
	pb_msg(&g, 5, &t);
	pb_msg(&g, 11, &x);
	pb_str(&y, 1, "y");
	pb_msg(&g, 12, &y);
	return pb_model(&g, 8, 13);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Where struct rvl_attr holds the attributes of the operators with kernels of their own. The rows of
 * the operators say which attributes they have, of what type and default; an attribute has one
 * meaning in all of them.
 */
#ifndef RVL_ATTR_FIELDS_H
#define RVL_ATTR_FIELDS_H

#include "rivulet_op.h"

enum rvl_field_kind {
	RVL_FIELD_INT,		/* int32_t */
	RVL_FIELD_FLOAT,
	RVL_FIELD_PAIR,		/* int32_t[2] */
	RVL_FIELD_PADS,		/* int32_t[4] */
	RVL_FIELD_PERM,		/* int32_t[perm_rank] */
	RVL_FIELD_AUTO_PAD,	/* enum rvl_auto_pad */
	RVL_FIELD_NONE,		/* no field: it decides nothing that the kernel computes */
};

struct rvl_attr_field {
	const char *name;
	enum rvl_field_kind kind;
	size_t off;
};

/** The field of attribute @name; NULL: only its default is known to the kernels. */
const struct rvl_attr_field *rvl_attr_field(const char *name);

void *rvl_attr_at(struct rvl_attr *a, const struct rvl_attr_field *f);

#endif

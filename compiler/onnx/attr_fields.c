/* SPDX-License-Identifier: MIT */
#include "onnx/attr_fields.h"

#include <string.h>

#define AT(field) offsetof(struct rvl_attr, field)

static const struct rvl_attr_field fields[] = {
	{ "kernel_shape", RVL_FIELD_PAIR, AT(kernel) },
	{ "strides", RVL_FIELD_PAIR, AT(stride) },
	{ "dilations", RVL_FIELD_PAIR, AT(dilation) },
	{ "pads", RVL_FIELD_PADS, AT(pad) },
	{ "auto_pad", RVL_FIELD_AUTO_PAD, AT(auto_pad) },
	{ "group", RVL_FIELD_INT, AT(group) },
	{ "ceil_mode", RVL_FIELD_INT, AT(ceil_mode) },
	{ "count_include_pad", RVL_FIELD_INT, AT(count_include_pad) },
	{ "storage_order", RVL_FIELD_INT, AT(storage_order) },
	{ "alpha", RVL_FIELD_FLOAT, AT(alpha) },
	{ "beta", RVL_FIELD_FLOAT, AT(beta) },
	{ "transA", RVL_FIELD_INT, AT(trans_a) },
	{ "transB", RVL_FIELD_INT, AT(trans_b) },
	{ "axis", RVL_FIELD_INT, AT(axis) },
	{ "min", RVL_FIELD_FLOAT, AT(f_lo) },
	{ "max", RVL_FIELD_FLOAT, AT(f_hi) },
	{ "allowzero", RVL_FIELD_INT, AT(allowzero) },
	{ "perm", RVL_FIELD_PERM, AT(perm) },
	{ "epsilon", RVL_FIELD_FLOAT, AT(epsilon) },
	{ "momentum", RVL_FIELD_NONE, 0 },	/* of training */
	{ "output_dtype", RVL_FIELD_NONE, 0 },	/* the zero point has the type */
};

const struct rvl_attr_field *rvl_attr_field(const char *name)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	return NULL;
}

void *rvl_attr_at(struct rvl_attr *a, const struct rvl_attr_field *f)
{
	return (char *)a + f->off;
}

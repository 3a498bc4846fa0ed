/* SPDX-License-Identifier: MIT */
/* Conversions between element types. */
#include <string.h>

#include "rivulet_op.h"

static int infer_cast(struct rvl_call *c)
{
	int64_t to = rvl_attr_int(c, "to");
	enum rvl_type type = rvl_type_of_onnx(to);

	if (!type)
		return rvl_op_fail(c, "element type %lld of ONNX is not supported", (long long)to);
	rvl_set_out(c, 0, type, &c->in[0].shape);
	return 0;
}

/* Opsets before 6 give the type by its name in TensorProto. */
static int infer_cast_named(struct rvl_call *c)
{
	static const char * const names[] = {
		[1] = "FLOAT", [2] = "UINT8", [3] = "INT8", [4] = "UINT16", [5] = "INT16", [6] = "INT32",
		[7] = "INT64", [9] = "BOOL", [10] = "FLOAT16", [11] = "DOUBLE", [12] = "UINT32",
		[13] = "UINT64",
	};
	const char *to = rvl_attr_string(c, "to");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!names[i] || strcmp(names[i], to))
			continue;
		rvl_set_out(c, 0, rvl_type_of_onnx((int64_t)i), &c->in[0].shape);
		return 0;
	}
	return rvl_op_fail(c, "element type '%.40s' is not supported", to);
}

static int infer_cast_like(struct rvl_call *c)
{
	rvl_set_out(c, 0, c->in[1].type, &c->in[0].shape);
	return 0;
}

static int infer_convert(struct rvl_call *c)
{
	int64_t to = rvl_attr_int(c, "to");

	if (to <= RVL_TYPE_NONE || to >= RVL_TYPE_COUNT)
		return rvl_op_fail(c, "there is no element type %lld", (long long)to);
	rvl_set_out(c, 0, (enum rvl_type)to, &c->in[0].shape);
	return 0;
}

static void convert_row(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	rvl_convert(c->out[0].type, y.u, c->in[0].type, x[0].u, n);
}

static int run_convert(struct rvl_call *c)
{
	return rvl_rows_typed(c, 1, c->in[0].type, c->out[0].type, convert_row);
}

static int infer_bit_cast(struct rvl_call *c)
{
	int64_t to = rvl_attr_int(c, "to");
	enum rvl_type type = rvl_type_of_onnx(to);

	if (!type || rvl_type_size(type) != rvl_type_size(c->in[0].type))
		return rvl_op_fail(c, "element type %lld of ONNX does not have the size of its input's",
				   (long long)to);
	rvl_set_out(c, 0, type, &c->in[0].shape);
	return 0;
}

static void copy_row(const struct rvl_call *c, int64_t n, union rvl_row y, const union rvl_row *x)
{
	memcpy(y.u, x[0].u, (size_t)n * rvl_type_size(c->in[0].type));
}

static int run_bit_cast(struct rvl_call *c)
{
	return rvl_rows_typed(c, 1, c->in[0].type, c->out[0].type, copy_row);
}

const struct rvl_op_def rvl_ops_cast[] = {
	{ .name = "Cast", .since = 1, .least_in = 1, .most_in = 1, .types = { RVL_T_ANY },
	  .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL,
	  .attrs = RVL_ATTRS(RVL_STRING_REQUIRED("to", NULL)), .infer = infer_cast_named,
	  .run = run_convert, .doc = "the same values in another type, which is named" },
	{ .name = "Cast", .since = 6, .least_in = 1, .most_in = 1, .types = { RVL_T_ANY },
	  .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL,
	  .attrs = RVL_ATTRS(RVL_INT_REQUIRED("to"), RVL_IGNORED_FROM("saturate", 19),
			     RVL_IGNORED_FROM("round_mode", 24)),
	  .infer = infer_cast, .run = run_convert, .doc = "the same values in another type" },
	{ .name = "CastLike", .since = 15, .least_in = 2, .most_in = 2, .types = { RVL_T_ANY },
	  .pitched = RVL_PITCHED_IN(0) | RVL_PITCHED_OUT,
	  .attrs = RVL_ATTRS(RVL_IGNORED_FROM("saturate", 19), RVL_IGNORED_FROM("round_mode", 24)),
	  .infer = infer_cast_like, .run = run_convert,
	  .doc = "the same values in the type of the second input" },
	{ .name = "BitCast", .since = 26, .least_in = 1, .most_in = 1, .types = { RVL_T_ANY },
	  .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL,
	  .attrs = RVL_ATTRS(RVL_INT_REQUIRED("to")), .infer = infer_bit_cast, .run = run_bit_cast,
	  .doc = "the same bits read as another type of the same size" },
	{ .name = "Convert", .domain = "rivulet", .since = 1, .least_in = 1, .most_in = 1,
	  .types = { RVL_T_STORED }, .flags = RVL_OP_ELEMENTWISE, .pitched = RVL_PITCHED_ALL,
	  .attrs = RVL_ATTRS(RVL_INT_REQUIRED("to")), .infer = infer_convert, .run = run_convert,
	  .doc = "an input or output of a model from or to float16, bfloat16 or float64" },
	RVL_OPS_END
};

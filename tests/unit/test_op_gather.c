/* SPDX-License-Identifier: MIT */
/* Operators that read or write at places that other tensors name: boundaries and invalid indices. */
#include "op_rig.h"
#include "suite.h"


/* ---- Gather, GatherElements, GatherND ---- */

START_TEST(gather_takes_parts_of_an_axis)
{
	op_begin("Gather", 13);
	op_int("axis", 1);
	IN_F32(DIMS(2, 3, 1), 0, 1, 2, 3, 4, 5);
	IN_S64(DIMS(2), -1, 0);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2, 1), 2, 0, 5, 3);

	op_begin("Gather", 1);
	IN_U8(DIMS(3), 7, 8, 9);
	IN_S32(RANK0, -3);
	op_ok(1);
	WANT_U8(0, RANK0, 7);

	op_begin("Gather", 11);
	IN_EMPTY(U8, DIMS(2, 0));
	IN_S64(DIMS(1, 2), 0, 1);
	op_ok(1);
	WANT_EMPTY(0, U8, DIMS(1, 2, 0));

	op_begin("Gather", 11);
	IN_EMPTY(U8, DIMS(0));
	IN_EMPTY(S64, DIMS(0));
	op_ok(1);
	WANT_EMPTY(0, U8, DIMS(0));
}
END_TEST

START_TEST(gather_refuses_indices_outside)
{
	static const int64_t bad[] = { 2, -3, INT64_MAX, INT64_MIN };

	for (int i = 0; i < 4; i++) {
		op_begin("Gather", 13);
		IN_F32(DIMS(2), 0, 1);
		IN_S64(DIMS(2), 1, bad[i]);
		op_fails(1, "index 1 of input 1 is ");
	}
	op_begin("Gather", 13);
	IN_EMPTY(F32, DIMS(0));
	IN_S64(RANK0, 0);
	op_fails(1, "index 0 of input 1 is 0, but the axis has 0 elements");

	op_begin("Gather", 13);
	IN_F32(RANK0, 0);
	IN_S64(RANK0, 0);
	op_fails(1, "axis 0 does not exist in a tensor of rank 0");

	op_begin("Gather", 13);
	IN_F32(DIMS(1, 1, 1, 1, 1), 0);
	IN_S64(DIMS(1, 1, 1, 1, 1), 0);
	op_fails(1, "its result has 9 dimensions, more than 8");
}
END_TEST

START_TEST(gather_elements_takes_single_ones)
{
	op_begin("GatherElements", 13);
	op_int("axis", 1);
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	IN_S64(DIMS(2, 3), 0, 0, -1, 1, 0, 1);
	op_ok(1);
	WANT_F32(0, DIMS(2, 3), 1, 1, 2, 4, 3, 4);

	op_begin("GatherElements", 11);
	IN_S8(DIMS(3, 2, 2), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
	IN_S32(DIMS(1, 2, 2), 2, 0, 1, -1);
	op_ok(1);
	WANT_S8(0, DIMS(1, 2, 2), 8, 1, 6, 11);

	op_begin("GatherElements", 11);
	IN_F32(DIMS(1), 0);
	IN_EMPTY(S64, DIMS(0));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(0));
}
END_TEST

START_TEST(gather_elements_refuses_what_does_not_fit)
{
	op_begin("GatherElements", 13);
	IN_F32(DIMS(2, 1), 1, 2);
	IN_S64(DIMS(2), 0, 0);
	op_fails(1, "its input 1 has 1 dimensions, input 0 2");

	op_begin("GatherElements", 13);
	IN_F32(DIMS(1, 1), 1);
	IN_S64(DIMS(1, 2), 0, 0);
	op_fails(1, "dimension 1 of input 1 is 2, larger than that of input 0");

	op_begin("GatherElements", 13);
	IN_F32(DIMS(1), 1);
	IN_S64(DIMS(1), 1);
	op_fails(1, "index 0 of input 1 is 1, but the axis has 1 elements");
}
END_TEST

START_TEST(gather_nd_takes_blocks)
{
	op_begin("GatherND", 11);
	IN_F32(DIMS(2, 2, 2), 0, 1, 2, 3, 4, 5, 6, 7);
	IN_S64(DIMS(2, 2), 0, 1, -1, 0);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 2, 3, 4, 5);

	op_begin("GatherND", 12);
	op_int("batch_dims", 1);
	IN_S32(DIMS(2, 2, 2), 0, 1, 2, 3, 4, 5, 6, 7);
	IN_S64(DIMS(2, 2, 1), 1, 0, 0, 0);
	op_ok(1);
	WANT_S32(0, DIMS(2, 2, 2), 2, 3, 0, 1, 4, 5, 4, 5);

	op_begin("GatherND", 12);
	op_int("batch_dims", 1);
	IN_EMPTY(S32, DIMS(0, 2));
	IN_EMPTY(S64, DIMS(0, 1));
	op_ok(1);
	WANT_EMPTY(0, S32, DIMS(0));
}
END_TEST

static void gather_nd(int64_t batch, struct rvl_shape data, struct rvl_shape indices, int64_t v)
{
	op_begin("GatherND", 13);
	op_int("batch_dims", batch);
	op_in(RVL_TYPE_U8, data, NULL, (size_t)rvl_shape_count(&data));
	op_in(RVL_TYPE_S64, indices, NULL, (size_t)rvl_shape_count(&indices));
	for (int64_t i = 0; i < rvl_shape_count(&indices); i++)
		((int64_t *)rig.call.in[1].data)[i] = v;
}

START_TEST(gather_nd_refuses_wrong_tuples)
{
	gather_nd(0, DIMS(2), DIMS(1), 2);
	op_fails(1, "index 0 of tuple 0 is 2, but the axis has 2 elements");
	gather_nd(0, DIMS(2), DIMS(1), -3);
	op_fails(1, "index 0 of tuple 0 is -3, but the axis has 2 elements");
	gather_nd(0, DIMS(2), RANK0, 0);
	op_fails(1, "its inputs 0 and 1 have no dimensions");
	gather_nd(0, RANK0, DIMS(1), 0);
	op_fails(1, "its inputs 0 and 1 have no dimensions");
	gather_nd(0, DIMS(2), DIMS(2), 0);
	op_fails(1, "its tuples have 2 indices for a tensor of rank 1");
	gather_nd(1, DIMS(2, 2), DIMS(2, 2), 0);
	op_fails(1, "its tuples have 2 indices for a tensor of rank 2");
	gather_nd(0, DIMS(2), DIMS(1, 0), 0);
	op_fails(1, "its tuples have 0 indices");
	gather_nd(1, DIMS(2), DIMS(2, 1), 0);
	op_fails(1, "batch_dims is 1");
	gather_nd(1, DIMS(2, 2), DIMS(2), 0);
	op_fails(1, "batch_dims is 1");
	gather_nd(-1, DIMS(2, 2), DIMS(2, 1), 0);
	op_fails(1, "batch_dims is -1");
	gather_nd(1, DIMS(2, 2), DIMS(1, 1), 0);
	op_fails(1, "its inputs 0 and 1 differ in dimension 0");
	gather_nd(0, DIMS(1, 1, 1, 1, 1, 1), DIMS(1, 1, 1, 1, 1), 0);
	op_fails(1, "its result has 9 dimensions, more than 8");
}
END_TEST

/* ---- Scatter, ScatterElements, ScatterND ---- */

static void scatter_elements(int64_t opset, const char *reduction)
{
	op_begin(opset < 11 ? "Scatter" : "ScatterElements", opset);
	if (reduction)
		op_string("reduction", reduction);
	op_int("axis", 1);
	IN_F32(DIMS(1, 4), 1, 2, 3, 4);
	IN_S64(DIMS(1, 3), 1, -1, 1);
	IN_F32(DIMS(1, 3), 5, 3, -2);
}

START_TEST(scatter_elements_reduces)
{
	scatter_elements(9, NULL);
	op_ok(1);
	WANT_F32(0, DIMS(1, 4), 1, -2, 3, 3);
	scatter_elements(16, "add");
	op_ok(1);
	WANT_F32(0, DIMS(1, 4), 1, 5, 3, 7);
	scatter_elements(16, "mul");
	op_ok(1);
	WANT_F32(0, DIMS(1, 4), 1, -20, 3, 12);
	scatter_elements(18, "max");
	op_ok(1);
	WANT_F32(0, DIMS(1, 4), 1, 5, 3, 4);
	scatter_elements(18, "min");
	op_ok(1);
	WANT_F32(0, DIMS(1, 4), 1, -2, 3, 3);
	scatter_elements(16, "max");
	op_fails(1, "attribute reduction is 'max'");

	op_begin("ScatterElements", 18);
	IN_U8(DIMS(2, 2), 1, 2, 3, 4);
	IN_S32(DIMS(1, 2), 1, 0);
	IN_U8(DIMS(1, 2), 8, 9);
	op_ok(1);
	WANT_U8(0, DIMS(2, 2), 1, 9, 8, 4);
}
END_TEST

START_TEST(scatter_elements_refuses_what_does_not_fit)
{
	op_begin("ScatterElements", 18);
	IN_F32(DIMS(2), 1, 2);
	IN_S64(DIMS(1), 2);
	IN_F32(DIMS(1), 1);
	op_fails(1, "index 0 of input 1 is 2, but the axis has 2 elements");

	op_begin("ScatterElements", 18);
	IN_F32(DIMS(2), 1, 2);
	IN_S64(DIMS(1), 0);
	IN_F32(DIMS(2), 1, 1);
	op_fails(1, "its inputs 1 and 2 have different shapes");

	op_begin("ScatterElements", 18);
	IN_EMPTY(F32, DIMS(0));
	IN_EMPTY(S64, DIMS(0));
	IN_EMPTY(F32, DIMS(0));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(0));
}
END_TEST

/* Elements 0 and 1 of a vector with a reduction of two values. */
static void reduce(enum rvl_type type, const char *reduction, const void *x, const void *u,
		   const void *want)
{
	op_begin("ScatterND", 18);
	op_string("reduction", reduction);
	op_in(type, DIMS(2), x, 2);
	IN_S64(DIMS(2, 1), 0, 1);
	op_in(type, DIMS(2), u, 2);
	op_ok(1);
	op_want(0, type, DIMS(2), want, 2);
}

#define REDUCE(T, ctype, how, x0, x1, u0, u1, y0, y1) \
	reduce(RVL_TYPE_##T, how, (const ctype[]) { x0, x1 }, (const ctype[]) { u0, u1 }, \
	       (const ctype[]) { y0, y1 })

START_TEST(every_type_reduces)
{
	REDUCE(S8, int8_t, "add", 127, 1, 1, 2, -128, 3);
	REDUCE(S16, int16_t, "mul", 300, -2, 300, 3, 24464, -6);
	REDUCE(S32, int32_t, "max", -1, 5, 1, 3, 1, 5);
	REDUCE(S64, int64_t, "add", INT64_MAX, 1, 1, 2, INT64_MIN, 3);
	REDUCE(U8, uint8_t, "min", 200, 1, 3, 2, 3, 1);
	REDUCE(U16, uint16_t, "mul", 65535, 2, 65535, 3, 1, 6);
	REDUCE(U32, uint32_t, "max", 1, 0xffffffff, 2, 5, 2, 0xffffffff);
	REDUCE(U64, uint64_t, "min", UINT64_MAX, 1, 3, 2, 3, 1);
	REDUCE(F32, float, "max", NAN, 1, 1, NAN, NAN, NAN);
	REDUCE(F32, float, "min", NAN, 1, 1, NAN, NAN, NAN);
	REDUCE(BOOL, uint8_t, "add", 1, 0, 1, 0, 1, 0);
	REDUCE(BOOL, uint8_t, "mul", 1, 1, 0, 1, 0, 1);
	REDUCE(BOOL, uint8_t, "none", 1, 0, 0, 1, 0, 1);
}
END_TEST

START_TEST(scatter_nd_writes_blocks)
{
	op_begin("ScatterND", 11);
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	IN_S64(DIMS(1, 1), -1);
	IN_F32(DIMS(1, 2), 8, 9);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 1, 2, 8, 9);

	op_begin("ScatterND", 16);
	op_string("reduction", "add");
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	IN_S64(DIMS(2, 2), 1, 1, 1, 1);
	IN_F32(DIMS(2), 10, 20);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 1, 2, 3, 34);
}
END_TEST

START_TEST(scatter_nd_refuses_what_does_not_fit)
{
	op_begin("ScatterND", 18);
	IN_F32(DIMS(2), 1, 2);
	IN_S64(DIMS(2, 1), 0, 2);
	IN_F32(DIMS(2), 1, 1);
	op_fails(1, "index 0 of tuple 1 is 2, but the axis has 2 elements");

	op_begin("ScatterND", 18);
	IN_F32(DIMS(2), 1, 2);
	IN_S64(DIMS(1, 1), 0);
	IN_F32(DIMS(2), 1, 1);
	op_fails(1, "its input 2 does not have one block for each tuple");

	op_begin("ScatterND", 18);
	IN_F32(RANK0, 1);
	IN_S64(DIMS(1), 0);
	IN_F32(RANK0, 1);
	op_fails(1, "its inputs 0 and 1 have no dimensions");
}
END_TEST

/* ---- TensorScatter ---- */

static void tensor_scatter(const char *mode, int64_t first, int64_t second)
{
	op_begin("TensorScatter", 24);
	op_string("mode", mode);
	IN_U8(DIMS(2, 3, 1), 0, 1, 2, 3, 4, 5);
	IN_U8(DIMS(2, 2, 1), 10, 11, 12, 13);
	IN_S64(DIMS(2), first, second);
}

START_TEST(tensor_scatter_writes_at_an_index)
{
	tensor_scatter("linear", 1, 0);
	op_ok(1);
	WANT_U8(0, DIMS(2, 3, 1), 0, 10, 11, 12, 13, 5);
	tensor_scatter("circular", 2, -1);
	op_ok(1);
	WANT_U8(0, DIMS(2, 3, 1), 11, 1, 10, 13, 4, 12);
	tensor_scatter("circular", INT64_MIN, 3);	/* -2^63 is 1 modulo 3 */
	op_ok(1);
	WANT_U8(0, DIMS(2, 3, 1), 0, 10, 11, 12, 13, 5);

	op_begin("TensorScatter", 24);
	op_int("axis", 2);
	IN_F32(DIMS(1, 2, 2), 1, 2, 3, 4);
	IN_F32(DIMS(1, 2, 1), 8, 9);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), 8, 2, 9, 4);

	op_begin("TensorScatter", 24);
	op_int("axis", 1);
	op_string("mode", "circular");
	IN_EMPTY(F32, DIMS(1, 0));
	IN_EMPTY(F32, DIMS(1, 0));
	IN_S64(DIMS(1), 5);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(1, 0));
}
END_TEST

START_TEST(tensor_scatter_refuses_what_does_not_fit)
{
	tensor_scatter("linear", 0, 2);
	op_fails(1, "write index 1 is 2, not 0 to 1");
	tensor_scatter("linear", -1, 0);
	op_fails(1, "write index 0 is -1, not 0 to 1");
	tensor_scatter("linear", 0, 0);
	op_int("axis", 0);
	op_fails(1, "its axis is 0, which is that of the batch");
	tensor_scatter("linear", 0, 0);
	op_int("axis", 2);
	op_fails(1, "its input 1 does not fit into input 0");

	op_begin("TensorScatter", 24);
	IN_U8(DIMS(1, 1, 1), 0);
	IN_U8(DIMS(1, 2, 1), 1, 2);
	op_fails(1, "its input 1 does not fit into input 0");

	op_begin("TensorScatter", 24);
	IN_U8(DIMS(1, 1, 1), 0);
	IN_U8(DIMS(1, 1, 1), 1);
	IN_S64(DIMS(2), 0, 0);
	op_fails(1, "its input 2 does not have one index for each of 1 samples");

	op_begin("TensorScatter", 24);
	IN_U8(DIMS(1, 1, 1), 0);
	IN_U8(DIMS(1, 1, 1), 1);
	IN_S64(RANK0, 0);
	op_fails(1, "its input 2 does not have one index");
}
END_TEST

/* ---- OneHot ---- */

static void one_hot(float depth)
{
	op_begin("OneHot", 11);
	IN_F32(DIMS(2, 2), -1, 2, 1.9f, 3);
	CONST_F32(DIMS(1), depth);
	IN_U8(DIMS(2), 5, 9);
}

START_TEST(one_hot_marks_one_place)
{
	one_hot(3);
	op_ok(1);
	WANT_U8(0, DIMS(2, 2, 3), 5, 5, 9, 5, 5, 9, 5, 9, 5, 5, 5, 5);

	one_hot(2);
	op_int("axis", 0);
	op_ok(1);
	WANT_U8(0, DIMS(2, 2, 2), 5, 5, 5, 5, 9, 5, 9, 5);

	one_hot(0);
	op_ok(1);
	WANT_EMPTY(0, U8, DIMS(2, 2, 0));

	op_begin("OneHot", 9);
	IN_S64(RANK0, -3);
	CONST_S64(RANK0, 2);
	IN_F32(DIMS(2), 0, 1);
	op_ok(1);
	WANT_F32(0, DIMS(2), 0, 0);

	op_begin("OneHot", 9);
	IN_F32(DIMS(2), NAN, INFINITY);
	CONST_S64(RANK0, 1);
	IN_F32(DIMS(2), 0, 1);
	op_ok(1);
	WANT_F32(0, DIMS(2, 1), 0, 0);
}
END_TEST

START_TEST(one_hot_refuses_wrong_depths)
{
	one_hot(-1);
	op_fails(1, "its depth is -1");
	one_hot(NAN);
	op_fails(1, "its depth is nan");
	one_hot(1e20f);
	op_fails(1, "its depth is 1e+20");
	one_hot(2);
	op_int("axis", 3);
	op_fails(1, "axis 3 does not exist in a tensor of rank 3");

	op_begin("OneHot", 11);
	IN_S64(RANK0, 0);
	IN_S64(RANK0, 2);
	IN_F32(DIMS(2), 0, 1);
	op_fails(1, "its input 1 must be a constant");
	ck_assert(rig.call.unknown);

	op_begin("OneHot", 11);
	IN_S64(RANK0, 0);
	CONST_S64(DIMS(2), 2, 2);
	IN_F32(DIMS(2), 0, 1);
	op_fails(1, "its inputs 1 and 2 do not have one and two elements");

	op_begin("OneHot", 11);
	IN_S64(RANK0, 0);
	CONST_S64(RANK0, 2);
	IN_F32(DIMS(1), 0);
	op_fails(1, "its inputs 1 and 2 do not have one and two elements");

	op_begin("OneHot", 11);
	IN_S64(DIMS(1, 1, 1, 1, 1, 1, 1, 1), 0);
	CONST_S64(RANK0, 2);
	IN_F32(DIMS(2), 0, 1);
	op_fails(1, "its result has more than 8 dimensions");
}
END_TEST

/* ---- MaxUnpool ---- */

static void max_unpool(int64_t index)
{
	static const int64_t two[] = { 2 };

	op_begin("MaxUnpool", 11);
	op_list("kernel_shape", two, 1);
	op_list("strides", two, 1);
	IN_F32(DIMS(1, 1, 2), 7, 8);
	IN_S64(DIMS(1, 1, 2), 1, index);
}

START_TEST(max_unpool_restores_places)
{
	max_unpool(2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 4), 0, 7, 8, 0);

	max_unpool(2);
	OP_INTS("pads", 1, 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3), 0, 7, 8);

	op_begin("MaxUnpool", 9);	/* indices are those of the smaller picture */
	OP_INTS("kernel_shape", 2, 2);
	IN_F32(DIMS(1, 1, 1, 1), 5);
	IN_S64(DIMS(1, 1, 1, 1), 2);
	CONST_S64(DIMS(4), 1, 1, 3, 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3, 3), 0, 0, 0, 5, 0, 0, 0, 0, 0);
}
END_TEST

START_TEST(max_unpool_refuses_what_does_not_fit)
{
	max_unpool(4);
	op_fails(1, "index 1 of input 1 is 4, not 0 to 3");
	max_unpool(-1);
	op_fails(1, "index 1 of input 1 is -1, not 0 to 3");
	max_unpool(0);
	CONST_S64(DIMS(3), 1, 1, 3);
	op_fails(1, "dimension 2 of output_shape is 3, less than 4");
	max_unpool(0);
	CONST_S64(DIMS(2), 1, 4);
	op_fails(1, "its output_shape has 2 dimensions, not 3");
	max_unpool(0);
	OP_INTS("strides", 0);
	op_fails(1, "value 0 of attribute strides is 0");
	max_unpool(0);
	OP_INTS("strides", INT64_MAX);
	op_fails(1, "value 0 of attribute strides is 9223372036854775807");
	max_unpool(0);
	OP_INTS("kernel_shape", 1, 1);
	op_fails(1, "attribute kernel_shape has 2 values, not 1");
	max_unpool(0);
	OP_INTS("pads", 5, 0);
	op_fails(1, "dimension 2 of its result is not valid");
	max_unpool(0);
	OP_INTS("pads", 5, -1);
	op_fails(1, "value 1 of attribute pads is -1");

	op_begin("MaxUnpool", 11);
	OP_INTS("kernel_shape", 1);
	IN_F32(DIMS(1, 1), 5);
	IN_S64(DIMS(1, 1), 0);
	op_fails(1, "its input has 2 dimensions, not 3 or more");

	op_begin("MaxUnpool", 11);
	OP_INTS("kernel_shape", 1);
	IN_F32(DIMS(1, 1, 1), 5);
	IN_S64(DIMS(1, 1, 2), 0, 0);
	op_fails(1, "its inputs 0 and 1 have different shapes");

	op_begin("MaxUnpool", 11);
	OP_INTS("kernel_shape", 1, 1, 1);
	OP_INTS("strides", 1LL << 31, 1LL << 31, 1LL << 31);
	IN_F32(DIMS(1, 1, 2, 2, 2), 0, 0, 0, 0, 0, 0, 0, 0);
	IN_S64(DIMS(1, 1, 2, 2, 2), 0, 0, 0, 0, 0, 0, 0, 0);
	op_fails(1, "its result is too large");
}
END_TEST

/* ---- Col2Im ---- */

static void col2im(int64_t image, int64_t block)
{
	op_begin("Col2Im", 18);
	IN_F32(DIMS(1, 2, 3), 1, 2, 3, 10, 20, 30);
	CONST_S64(DIMS(1), image);
	CONST_S64(DIMS(1), block);
}

START_TEST(col2im_adds_blocks)
{
	col2im(4, 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 4), 1, 12, 23, 30);

	col2im(5, 2);
	OP_INTS("dilations", 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 5), 1, 2, 13, 20, 30);

	col2im(4, 2);
	OP_INTS("strides", 2);
	OP_INTS("pads", 1, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 4), 10, 2, 20, 3);

	op_begin("Col2Im", 18);
	OP_INTS("pads", 1, 0, 0, 0);
	IN_U8(DIMS(1, 2, 2), 1, 2, 3, 4);
	CONST_S64(DIMS(2), 2, 1);
	CONST_S64(DIMS(2), 2, 1);
	op_ok(1);
	WANT_U8(0, DIMS(1, 1, 2, 1), 2 + 3, 4);

	op_begin("Col2Im", 18);		/* no block fits */
	IN_EMPTY(F32, DIMS(1, 2, 0));
	CONST_S64(DIMS(1), 1);
	CONST_S64(DIMS(1), 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1), 0);
}
END_TEST

START_TEST(col2im_refuses_what_does_not_fit)
{
	col2im(3, 2);
	op_fails(1, "its input does not have 2 blocks of 2 elements");
	col2im(5, 3);
	op_fails(1, "its input does not have 3 blocks of 3 elements");
	col2im(-1, 2);
	op_fails(1, "dimension 0 of its image is -1, of its blocks 2");
	col2im(4, 0);
	op_fails(1, "dimension 0 of its image is 4, of its blocks 0");
	col2im(4, 2);
	OP_INTS("dilations", 0);
	op_fails(1, "value 0 of attribute dilations is 0");

	op_begin("Col2Im", 18);
	IN_F32(DIMS(1, 1, 1), 1);
	CONST_S64(DIMS(2), 1, 1);
	CONST_S64(DIMS(1), 1);
	op_fails(1, "its image has 2 dimensions, its blocks 1");

	op_begin("Col2Im", 18);
	IN_F32(DIMS(1, 1), 1);
	CONST_S64(DIMS(1), 1);
	CONST_S64(DIMS(1), 1);
	op_fails(1, "its input has 2 dimensions, not 3");

	op_begin("Col2Im", 18);
	IN_F32(DIMS(1, 1, 1), 1);
	CONST_S64(DIMS(2), 1LL << 31, 1LL << 31);
	CONST_S64(DIMS(2), 1, 1);
	op_fails(1, "its image is too large");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_gather");
	TCase *t = add_case(s, "gather", 10, NULL, NULL);

	tcase_add_test(t, gather_takes_parts_of_an_axis);
	tcase_add_test(t, gather_refuses_indices_outside);
	tcase_add_test(t, gather_elements_takes_single_ones);
	tcase_add_test(t, gather_elements_refuses_what_does_not_fit);
	tcase_add_test(t, gather_nd_takes_blocks);
	tcase_add_test(t, gather_nd_refuses_wrong_tuples);
	tcase_add_test(t, one_hot_marks_one_place);
	tcase_add_test(t, one_hot_refuses_wrong_depths);

	t = add_case(s, "scatter", 10, NULL, NULL);
	tcase_add_test(t, scatter_elements_reduces);
	tcase_add_test(t, scatter_elements_refuses_what_does_not_fit);
	tcase_add_test(t, every_type_reduces);
	tcase_add_test(t, scatter_nd_writes_blocks);
	tcase_add_test(t, scatter_nd_refuses_what_does_not_fit);
	tcase_add_test(t, tensor_scatter_writes_at_an_index);
	tcase_add_test(t, tensor_scatter_refuses_what_does_not_fit);
	tcase_add_test(t, max_unpool_restores_places);
	tcase_add_test(t, max_unpool_refuses_what_does_not_fit);
	tcase_add_test(t, col2im_adds_blocks);
	tcase_add_test(t, col2im_refuses_what_does_not_fit);
	return run_suite(s);
}

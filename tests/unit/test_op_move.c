/* SPDX-License-Identifier: MIT */
/* Operators that place elements elsewhere, at their boundaries and on invalid operands. */
#include "op_rig.h"
#include "suite.h"

/* ---- Concat, Split ---- */

START_TEST(concat_joins_along_any_axis)
{
	op_begin("Concat", 13);
	op_int("axis", -1);
	IN_F32(DIMS(2, 1), 1, 2);
	IN_F32(DIMS(2, 2), 3, 4, 5, 6);
	op_ok(1);
	WANT_F32(0, DIMS(2, 3), 1, 3, 4, 2, 5, 6);

	op_begin("Concat", 1);	/* its axis is 1 where none is given */
	IN_F32(DIMS(1, 1), 1);
	IN_F32(DIMS(1, 2), 2, 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 3), 1, 2, 3);

	op_begin("Concat", 4);
	op_int("axis", 0);
	IN_EMPTY(S64, DIMS(0));
	IN_S64(DIMS(2), 7, 8);
	IN_S64(DIMS(1), 9);
	op_ok(1);
	WANT_S64(0, DIMS(3), 7, 8, 9);
}
END_TEST

START_TEST(concat_refuses_what_does_not_join)
{
	op_begin("Concat", 13);
	op_int("axis", 2);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "axis 2 does not exist in a tensor of rank 2");

	op_begin("Concat", 13);
	op_int("axis", 0);
	IN_F32(DIMS(1, 2), 1, 2);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "its input 1 differs from input 0 in more than axis 0");

	op_begin("Concat", 13);
	op_int("axis", 0);
	IN_F32(DIMS(1), 1);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "its input 1 differs");

	op_begin("Concat", 13);
	op_int("axis", 0);
	IN_F32(DIMS(1), 1);
	op_none();
	IN_F32(DIMS(1), 1);
	op_fails(1, "it lacks input 1");
	/* Errors that the table detects for every operator. */
	op_begin("Max", 13);
	IN_F32(DIMS(1), 1);
	op_none();
	IN_F32(DIMS(1), 1);
	op_fails(1, "it lacks input 1");
	op_begin("Split", 13);
	IN_F32(DIMS(1), 1);
	op_fails(0, "it has no output");
	op_begin("Gather", 13);
	op_none();
	IN_S64(DIMS(1), 0);
	op_fails(1, "it lacks input 0");
	op_begin("Gather", 13);
	IN_F32(DIMS(1), 0);
	op_none();
	op_fails(1, "it lacks input 1");
	op_begin("Gather", 13);
	IN_F32(DIMS(1), 0);
	op_fails(1, "it has 1 inputs, not 2 to 2");

	op_begin("Concat", 13);
	op_int("axis", 0);
	IN_F32(DIMS(1), 1);
	IN_S64(DIMS(1), 1);
	op_fails(1, "its input 1 is int64, input 0 float32");
}
END_TEST

static void begin_split(int64_t opset)
{
	op_begin("Split", opset);
	op_int("axis", 1);
	IN_F32(DIMS(2, 5), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
}

static void want_three_and_two(void)
{
	WANT_F32(0, DIMS(2, 3), 0, 1, 2, 5, 6, 7);
	WANT_F32(1, DIMS(2, 2), 3, 4, 8, 9);
}

START_TEST(split_takes_sizes_in_every_form)
{
	begin_split(2);
	OP_INTS("split", 3, 2);
	op_ok(2);
	want_three_and_two();

	begin_split(1);
	CONST_F32(DIMS(2), 3, 2);
	op_ok(2);
	want_three_and_two();

	begin_split(13);
	CONST_S64(DIMS(2), 3, 2);
	op_ok(2);
	want_three_and_two();

	begin_split(18);
	op_int("num_outputs", 2);
	op_ok(2);
	want_three_and_two();

	begin_split(18);
	CONST_S64(DIMS(3), 0, 5, 0);	/* the last part has no output */
	op_ok(2);
	WANT_EMPTY(0, F32, DIMS(2, 0));
	WANT_F32(1, DIMS(2, 5), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
}
END_TEST

START_TEST(split_divides_evenly_without_sizes)
{
	op_begin("Split", 13);
	IN_U8(DIMS(4), 1, 2, 3, 4);
	op_ok(2);
	WANT_U8(0, DIMS(2), 1, 2);
	WANT_U8(1, DIMS(2), 3, 4);

	begin_split(18);
	op_int("num_outputs", 4);	/* parts of two: one is left for the third */
	op_ok(4);
	WANT_F32(2, DIMS(2, 1), 4, 9);
	WANT_EMPTY(3, F32, DIMS(2, 0));
}
END_TEST

START_TEST(split_refuses_wrong_sizes)
{
	begin_split(13);
	op_fails(2, "5 elements do not split into 2 equal parts");

	begin_split(13);
	CONST_S64(DIMS(2), 3, 3);
	op_fails(2, "its parts have 6 elements together, not 5");

	begin_split(13);
	CONST_S64(DIMS(2), -1, 6);
	op_fails(2, "part 0 has -1 of 5 elements");

	begin_split(13);
	CONST_S64(DIMS(2), 0, 6);
	op_fails(2, "part 1 has 6 of 5 elements");

	begin_split(13);
	CONST_S64(DIMS(1), 5);
	op_fails(2, "it has 2 outputs but only 1 sizes");

	begin_split(18);
	op_int("num_outputs", 1);
	op_fails(2, "num_outputs is 1, but it has 2 outputs");

	begin_split(18);
	op_int("num_outputs", INT64_MAX);
	op_fails(2, "num_outputs is 9223372036854775807");

	begin_split(2);
	OP_INTS("split", 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	op_fails(2, "it has 17 parts, more than 16");

	begin_split(1);
	CONST_F32(DIMS(17), 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	op_fails(2, "its input 1 has more than 16 values");

	begin_split(1);
	IN_F32(DIMS(2), 3, 2);
	op_fails(2, "its input 1 must be a constant");
	ck_assert(rig.call.unknown);

	begin_split(1);
	CONST_F32(DIMS(2), NAN, 1e30f);
	op_fails(2, "part 0 has -1 of 5 elements");

	begin_split(13);
	op_int("axis", -3);
	op_fails(1, "axis -3 does not exist");
}
END_TEST

/* ---- Slice ---- */

START_TEST(slice_walks_forwards_and_backwards)
{
	op_begin("Slice", 13);
	IN_S8(DIMS(2, 4), 0, 1, 2, 3, 4, 5, 6, 7);
	CONST_S64(DIMS(2), 0, -1);
	CONST_S64(DIMS(2), 1, INT64_MIN);
	CONST_S64(DIMS(2), 0, 1);
	CONST_S64(DIMS(2), 1, -2);
	op_ok(1);
	WANT_S8(0, DIMS(1, 2), 3, 1);

	op_begin("Slice", 10);
	IN_F32(DIMS(5), 0, 1, 2, 3, 4);
	CONST_S64(DIMS(1), 1);
	CONST_S64(DIMS(1), INT64_MAX);
	op_none();
	CONST_S64(DIMS(1), 3);
	op_ok(1);
	WANT_F32(0, DIMS(2), 1, 4);

	op_begin("Slice", 1);
	OP_INTS("starts", -3);
	OP_INTS("ends", -1);
	OP_INTS("axes", 1);
	IN_F32(DIMS(2, 4), 0, 1, 2, 3, 4, 5, 6, 7);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2), 1, 2, 5, 6);

	op_begin("Slice", 1);	/* the first axes where none are named */
	OP_INTS("starts", 1);
	OP_INTS("ends", 2);
	IN_F32(DIMS(2, 2), 0, 1, 2, 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2), 2, 3);
}
END_TEST

static void slice_of_five(int64_t start, int64_t end, int64_t step)
{
	op_begin("Slice", 13);
	OP_IN(S16, int16_t, DIMS(5), 0, 1, 2, 3, 4);
	CONST_S64(DIMS(1), start);
	CONST_S64(DIMS(1), end);
	CONST_S64(DIMS(1), -1);
	CONST_S64(DIMS(1), step);
}

START_TEST(slice_clamps_its_bounds)
{
	slice_of_five(-9, 9, 1);
	op_ok(1);
	OP_WANT(0, S16, int16_t, DIMS(5), 0, 1, 2, 3, 4);

	slice_of_five(9, -9, -1);
	op_ok(1);
	OP_WANT(0, S16, int16_t, DIMS(5), 4, 3, 2, 1, 0);

	slice_of_five(9, 0, -1);
	op_ok(1);
	OP_WANT(0, S16, int16_t, DIMS(4), 4, 3, 2, 1);

	slice_of_five(9, -9, INT64_MIN);
	op_ok(1);
	OP_WANT(0, S16, int16_t, DIMS(1), 4);

	slice_of_five(0, 5, INT64_MAX);
	op_ok(1);
	OP_WANT(0, S16, int16_t, DIMS(1), 0);

	slice_of_five(3, 3, 1);
	op_ok(1);
	WANT_EMPTY(0, S16, DIMS(0));

	slice_of_five(1, 3, -1);
	op_ok(1);
	WANT_EMPTY(0, S16, DIMS(0));

	slice_of_five(5, 5, 1);
	op_ok(1);
	WANT_EMPTY(0, S16, DIMS(0));

	slice_of_five(-9, -9, -1);
	op_ok(1);
	OP_WANT(0, S16, int16_t, DIMS(1), 0);
}
END_TEST

START_TEST(slice_of_an_empty_tensor_is_empty)
{
	op_begin("Slice", 13);
	IN_EMPTY(F32, DIMS(0, 2));
	CONST_S64(DIMS(1), 0);
	CONST_S64(DIMS(1), -5);
	CONST_S64(DIMS(1), 0);
	CONST_S64(DIMS(1), -1);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(0, 2));
}
END_TEST

START_TEST(slice_refuses_bad_lists)
{
	slice_of_five(0, 1, 0);
	op_fails(1, "step 0 is 0");

	op_begin("Slice", 13);
	IN_F32(DIMS(1, 1), 1);
	CONST_S64(DIMS(2), 0, 0);
	CONST_S64(DIMS(1), 1);
	op_fails(1, "it has 2 starts and 1 ends");

	op_begin("Slice", 13);
	IN_F32(DIMS(1, 1), 1);
	CONST_S64(DIMS(2), 0, 0);
	CONST_S64(DIMS(2), 1, 1);
	CONST_S64(DIMS(2), 1, -1);
	op_fails(1, "axis 1 is named twice");

	op_begin("Slice", 13);
	IN_F32(DIMS(1, 1), 1);
	CONST_S64(DIMS(1), 0);
	CONST_S64(DIMS(1), 1);
	CONST_S64(DIMS(2), 0, 1);
	op_fails(1, "it has 1 starts for 2 axes");

	op_begin("Slice", 13);
	IN_F32(DIMS(1), 1);
	CONST_S64(DIMS(2), 0, 0);
	CONST_S64(DIMS(2), 1, 1);
	op_fails(1, "it has 2 starts for 1 axes");

	op_begin("Slice", 13);
	IN_F32(DIMS(1), 1);
	CONST_S64(DIMS(1), 0);
	CONST_S64(DIMS(1), 1);
	op_none();
	CONST_S64(DIMS(2), 1, 1);
	op_fails(1, "it has 1 starts and 2 steps");

	/* Starts and ends of a run have the operand as the bound; axes of a run have none. */
	op_begin("Slice", 13);
	IN_F32(DIMS(2), 1, 2);
	IN_S64(DIMS(1), 1);
	CONST_S64(DIMS(1), 2);
	op_ok(1);
	WANT_F32(0, DIMS(1), 2);
	ck_assert(rig.call.bounded);

	op_begin("Slice", 13);
	IN_F32(DIMS(1), 1);
	IN_S64(DIMS(1), 0);
	CONST_S64(DIMS(1), 1);
	IN_S64(DIMS(1), 0);
	op_fails(1, "its input 3 must be a constant");
	ck_assert(rig.call.unknown);

	/* Behind the one end is a page without access. */
	op_begin("Slice", 1);
	OP_INTS("starts", 0, 0);
	op_list("ends", memcpy(edge_new() - sizeof(int64_t), &(int64_t) { 1 }, sizeof(int64_t)), 1);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "it has 2 starts and 1 ends");

	op_begin("Slice", 1);
	OP_INTS("starts", 0, 0, 0, 0, 0, 0, 0, 0, 0);
	OP_INTS("ends", 1, 1, 1, 1, 1, 1, 1, 1, 1);
	IN_F32(DIMS(1), 1);
	op_fails(1, "it has 9 starts and 9 ends");

	op_begin("Slice", 1);
	OP_INTS("starts", 0);
	OP_INTS("ends", 1);
	OP_INTS("axes", 0, 1, 2, 3, 4, 5, 6, 7, 8);
	IN_F32(DIMS(1), 1);
	op_fails(1, "it has 9 axes, more than 8");
}
END_TEST

/* ---- Transpose ---- */

START_TEST(transpose_moves_axes)
{
	op_begin("Transpose", 13);
	OP_INTS("perm", 1, 2, 0);
	IN_S32(DIMS(2, 1, 3), 0, 1, 2, 3, 4, 5);
	op_ok(1);
	WANT_S32(0, DIMS(1, 3, 2), 0, 3, 1, 4, 2, 5);

	op_begin("Transpose", 1);	/* the order of all axes is reversed */
	IN_S64(DIMS(2, 2), 1, 2, 3, 4);
	op_ok(1);
	WANT_S64(0, DIMS(2, 2), 1, 3, 2, 4);

	op_begin("Transpose", 25);
	IN_F32(RANK0, 5);
	op_ok(1);
	WANT_F32(0, RANK0, 5);

	op_begin("Transpose", 13);
	OP_INTS("perm", 0, 2, 1);	/* rows of several outer parts */
	IN_U8(DIMS(2, 2, 3), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
	op_ok(1);
	WANT_U8(0, DIMS(2, 3, 2), 0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11);

	op_begin("Transpose", 13);
	IN_EMPTY(F32, DIMS(0, 3));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(3, 0));
}
END_TEST

START_TEST(transpose_refuses_a_perm_that_is_none)
{
	op_begin("Transpose", 13);
	OP_INTS("perm", 0);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "perm has 1 axes, its input has 2");

	op_begin("Transpose", 13);
	OP_INTS("perm", 1, 1);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "perm does not name every axis once");

	op_begin("Transpose", 13);
	OP_INTS("perm", -1, 0);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "perm does not name every axis once");

	op_begin("Transpose", 13);
	OP_INTS("perm", 0, 2);
	IN_F32(DIMS(1, 1), 1);
	op_fails(1, "perm does not name every axis once");
}
END_TEST

/* ---- Pad ---- */

static void pad_of_three(const char *mode, int64_t before, int64_t behind)
{
	op_begin("Pad", 19);
	op_string("mode", mode);
	IN_S64(DIMS(3), 1, 2, 3);
	CONST_S64(DIMS(2), before, behind);
}

START_TEST(pad_knows_every_mode)
{
	pad_of_three("constant", 1, 2);
	op_ok(1);
	WANT_S64(0, DIMS(6), 0, 1, 2, 3, 0, 0);

	pad_of_three("edge", 1, 2);
	op_ok(1);
	WANT_S64(0, DIMS(6), 1, 1, 2, 3, 3, 3);

	pad_of_three("reflect", 3, 5);
	op_ok(1);
	WANT_S64(0, DIMS(11), 2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2);

	pad_of_three("wrap", 4, 2);
	op_ok(1);
	WANT_S64(0, DIMS(9), 3, 1, 2, 3, 1, 2, 3, 1, 2);

	op_begin("Pad", 19);
	op_string("mode", "reflect");
	IN_U8(DIMS(1), 9);
	CONST_S64(DIMS(2), 1, 1);
	op_ok(1);
	WANT_U8(0, DIMS(3), 9, 9, 9);
}
END_TEST

START_TEST(pad_copies_corners_from_both_axes)
{
	op_begin("Pad", 13);
	op_string("mode", "reflect");
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	CONST_S64(DIMS(4), 1, 1, 0, 1);
	op_ok(1);
	WANT_F32(0, DIMS(3, 4), 4, 3, 4, 3, 2, 1, 2, 1, 4, 3, 4, 3);
}
END_TEST

START_TEST(pad_cuts_where_negative)
{
	pad_of_three("constant", -1, 1);
	CONST_S64(RANK0, 7);
	op_ok(1);
	WANT_S64(0, DIMS(3), 2, 3, 7);

	pad_of_three("wrap", 2, -1);
	op_ok(1);
	WANT_S64(0, DIMS(4), 1, 2, 1, 2);

	pad_of_three("constant", -3, 2);
	op_ok(1);
	WANT_S64(0, DIMS(2), 0, 0);

	pad_of_three("edge", -3, 0);
	op_ok(1);
	WANT_EMPTY(0, S64, DIMS(0));
}
END_TEST

START_TEST(pad_takes_attributes_in_old_opsets)
{
	op_begin("Pad", 1);
	OP_INTS("paddings", 1, 0);
	op_float("value", 2.5f);
	IN_F32(DIMS(1), 1);
	op_ok(1);
	WANT_F32(0, DIMS(2), 2.5f, 1);

	op_begin("Pad", 2);
	OP_INTS("pads", 0, 1);
	op_string("mode", "edge");
	IN_F32(DIMS(1), 3);
	op_ok(1);
	WANT_F32(0, DIMS(2), 3, 3);
}
END_TEST

START_TEST(pad_takes_axes)
{
	op_begin("Pad", 18);
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	CONST_S64(DIMS(4), 1, 0, 0, 1);
	IN_F32(DIMS(1), 9);
	OP_CONST(S32, int32_t, DIMS(2), -1, 0);
	op_ok(1);
	WANT_F32(0, DIMS(3, 3), 9, 1, 2, 9, 3, 4, 9, 9, 9);
}
END_TEST

START_TEST(pad_fills_an_empty_tensor_with_a_constant_only)
{
	op_begin("Pad", 18);
	IN_EMPTY(F32, DIMS(0));
	CONST_S64(DIMS(2), 1, 1);
	op_ok(1);
	WANT_F32(0, DIMS(2), 0, 0);

	op_begin("Pad", 18);
	op_string("mode", "edge");
	IN_EMPTY(F32, DIMS(0));
	CONST_S64(DIMS(2), 1, 1);
	op_fails(1, "axis 0 is empty, so there is nothing to pad it with");
}
END_TEST

START_TEST(pad_refuses_wrong_numbers)
{
	pad_of_three("constant", -2, -2);
	op_fails(1, "more is cut off axis 0 than its 3 elements");

	pad_of_three("constant", -4, 9);
	op_fails(1, "more is cut off axis 0 than its 3 elements");

	pad_of_three("constant", INT64_MAX, 0);
	op_fails(1, "pad 0 is 9223372036854775807");

	pad_of_three("constant", 0, INT64_MIN);
	op_fails(1, "pad 1 is -9223372036854775808");

	pad_of_three("constant", 0, 0);
	CONST_S64(DIMS(2), 7, 7);
	op_fails(1, "its constant_value has 2 elements, not 1");

	op_begin("Pad", 11);
	IN_F32(DIMS(1, 1), 1);
	CONST_S64(DIMS(2), 0, 0);
	op_fails(1, "it has 2 pads for 2 axes");

	op_begin("Pad", 2);
	OP_INTS("pads", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	IN_F32(DIMS(1), 1);
	op_fails(1, "it has 17 pads");

	op_begin("Pad", 18);
	op_string("mode", "wrap");
	IN_F32(DIMS(1), 1);
	CONST_S64(DIMS(2), 0, 0);
	op_fails(1, "attribute mode is 'wrap', not one of constant|reflect|edge");
}
END_TEST

START_TEST(center_crop_pad_keeps_the_middle)
{
	op_begin("CenterCropPad", 18);
	IN_S32(DIMS(5, 2), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
	CONST_S64(DIMS(2), 2, 5);
	op_ok(1);
	WANT_S32(0, DIMS(2, 5), 0, 2, 3, 0, 0, 0, 4, 5, 0, 0);

	op_begin("CenterCropPad", 18);
	OP_INTS("axes", -1);
	IN_U8(DIMS(2, 2), 1, 2, 3, 4);
	CONST_S64(DIMS(1), 1);
	op_ok(1);
	WANT_U8(0, DIMS(2, 1), 1, 3);

	op_begin("CenterCropPad", 18);
	IN_U8(DIMS(1), 1);
	CONST_S64(DIMS(1), 0);
	op_ok(1);
	WANT_EMPTY(0, U8, DIMS(0));
}
END_TEST

START_TEST(center_crop_pad_refuses_wrong_sizes)
{
	op_begin("CenterCropPad", 18);
	IN_U8(DIMS(1), 1);
	CONST_S64(DIMS(1), -1);
	op_fails(1, "size 0 is -1");

	op_begin("CenterCropPad", 18);
	IN_U8(DIMS(1), 1);
	CONST_S64(DIMS(1), INT64_MAX);
	op_fails(1, "size 0 is 9223372036854775807");

	op_begin("CenterCropPad", 18);
	IN_U8(DIMS(1), 1);
	CONST_S64(DIMS(2), 1, 1);
	op_fails(1, "it has 2 sizes for 1 axes");

	op_begin("CenterCropPad", 18);
	OP_INTS("axes", 1);
	IN_U8(DIMS(1), 1);
	CONST_S64(DIMS(1), 1);
	op_fails(1, "axis 1 does not exist");
}
END_TEST

/* ---- Tile ---- */

START_TEST(tile_repeats_every_axis)
{
	op_begin("Tile", 13);
	IN_F32(DIMS(2, 2), 1, 2, 3, 4);
	CONST_S64(DIMS(2), 2, 2);
	op_ok(1);
	WANT_F32(0, DIMS(4, 4), 1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4);

	op_begin("Tile", 1);
	IN_F32(DIMS(2, 1), 1, 2);
	CONST_F32(RANK0, 3);
	CONST_F32(RANK0, 1);
	op_ok(1);
	WANT_F32(0, DIMS(2, 3), 1, 1, 1, 2, 2, 2);

	op_begin("Tile", 6);
	IN_F32(DIMS(2), 1, 2);
	CONST_S64(DIMS(1), 0);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(0));
}
END_TEST

START_TEST(tile_refuses_wrong_repeats)
{
	op_begin("Tile", 6);
	IN_F32(DIMS(1), 1);
	CONST_S64(DIMS(1), -1);
	op_fails(1, "axis 0 is repeated -1 times");

	op_begin("Tile", 6);
	IN_F32(DIMS(1), 1);
	CONST_S64(DIMS(1), INT64_MAX);
	op_fails(1, "axis 0 is repeated 9223372036854775807 times");

	op_begin("Tile", 6);
	IN_F32(DIMS(1), 1);
	CONST_S64(DIMS(2), 1, 1);
	op_fails(1, "it has 2 repeats for 1 axes");

	op_begin("Tile", 1);
	IN_F32(DIMS(1), 1);
	CONST_F32(DIMS(2), 1, 1);
	CONST_F32(RANK0, 0);
	op_fails(1, "its tiles and its axis are not one number each");

	op_begin("Tile", 1);
	IN_F32(DIMS(1), 1);
	CONST_F32(RANK0, 1);
	CONST_F32(RANK0, 1);
	op_fails(1, "axis 1 does not exist");
}
END_TEST

/* ---- DepthToSpace, SpaceToDepth ---- */

static void begin_blocks(const char *name, int64_t opset, const char *mode)
{
	op_begin(name, opset);
	op_int("blocksize", 2);
	if (mode)
		op_string("mode", mode);
}

START_TEST(depth_and_space_are_exchanged)
{
	begin_blocks("DepthToSpace", 1, NULL);
	IN_U8(DIMS(1, 8, 1, 1), 0, 1, 2, 3, 4, 5, 6, 7);
	op_ok(1);
	WANT_U8(0, DIMS(1, 2, 2, 2), 0, 2, 4, 6, 1, 3, 5, 7);

	begin_blocks("DepthToSpace", 11, "CRD");
	IN_U8(DIMS(1, 8, 1, 1), 0, 1, 2, 3, 4, 5, 6, 7);
	op_ok(1);
	WANT_U8(0, DIMS(1, 2, 2, 2), 0, 1, 2, 3, 4, 5, 6, 7);

	begin_blocks("SpaceToDepth", 1, NULL);
	IN_U8(DIMS(1, 2, 2, 2), 0, 2, 4, 6, 1, 3, 5, 7);
	op_ok(1);
	WANT_U8(0, DIMS(1, 8, 1, 1), 0, 1, 2, 3, 4, 5, 6, 7);

	begin_blocks("SpaceToDepth", 28, "CRD");
	IN_F32(DIMS(2, 1, 2, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	op_ok(1);
	WANT_F32(0, DIMS(2, 4, 1, 2), 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
}
END_TEST

START_TEST(blocks_must_fit)
{
	begin_blocks("DepthToSpace", 13, NULL);
	IN_U8(DIMS(1, 2, 1, 1), 0, 1);
	op_fails(1, "its input does not divide into blocks of 2");

	begin_blocks("SpaceToDepth", 13, NULL);
	IN_U8(DIMS(1, 1, 2, 1), 0, 1);
	op_fails(1, "its input does not divide into blocks of 2");

	begin_blocks("SpaceToDepth", 13, NULL);
	IN_U8(DIMS(1, 1, 1, 2), 0, 1);
	op_fails(1, "its input does not divide into blocks of 2");

	begin_blocks("SpaceToDepth", 13, NULL);
	IN_U8(DIMS(2), 0, 1);
	op_fails(1, "its input has 1 dimensions, not 4");

	begin_blocks("DepthToSpace", 13, NULL);
	op_int("blocksize", 0);
	IN_U8(DIMS(1, 1, 1, 1), 0);
	op_fails(1, "blocksize is 0");

	begin_blocks("DepthToSpace", 13, NULL);
	op_int("blocksize", (1 << 20) + 1);
	IN_U8(DIMS(1, 1, 1, 1), 0);
	op_fails(1, "blocksize is 1048577");
}
END_TEST

/* ---- Trilu, ReverseSequence ---- */

static void begin_trilu(int64_t upper)
{
	op_begin("Trilu", 14);
	op_int("upper", upper);
	IN_S32(DIMS(2, 2, 3), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
}

START_TEST(trilu_keeps_a_triangle)
{
	begin_trilu(1);
	op_ok(1);
	WANT_S32(0, DIMS(2, 2, 3), 1, 2, 3, 0, 5, 6, 7, 8, 9, 0, 11, 12);

	begin_trilu(0);
	IN_S64(RANK0, 1);
	op_ok(1);
	WANT_S32(0, DIMS(2, 2, 3), 1, 2, 0, 4, 5, 6, 7, 8, 0, 10, 11, 12);

	begin_trilu(1);
	IN_S64(DIMS(1), INT64_MAX);
	op_ok(1);
	WANT_S32(0, DIMS(2, 2, 3), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);

	begin_trilu(0);
	IN_S64(RANK0, INT64_MIN);
	op_ok(1);
	WANT_S32(0, DIMS(2, 2, 3), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);

	op_begin("Trilu", 14);
	IN_EMPTY(F32, DIMS(3, 0));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(3, 0));
}
END_TEST

START_TEST(trilu_refuses_vectors_and_several_diagonals)
{
	op_begin("Trilu", 14);
	IN_F32(DIMS(1), 1);
	op_fails(1, "its input has 1 dimensions, not 2 or more");

	begin_trilu(1);
	IN_S64(DIMS(2), 0, 1);
	op_fails(1, "its input 1 is not one number");
}
END_TEST

static void begin_reverse(int64_t batch, int64_t first, int64_t second)
{
	op_begin("ReverseSequence", 10);
	op_int("batch_axis", batch);
	op_int("time_axis", 1 - batch);
	if (batch)
		IN_U8(DIMS(3, 2), 0, 1, 2, 3, 4, 5);
	else
		IN_U8(DIMS(2, 3), 0, 1, 2, 3, 4, 5);
	IN_S64(DIMS(2), first, second);
}

START_TEST(reverse_sequence_turns_the_start)
{
	begin_reverse(1, 3, 2);
	op_ok(1);
	WANT_U8(0, DIMS(3, 2), 4, 3, 2, 1, 0, 5);

	begin_reverse(0, 1, 3);
	op_ok(1);
	WANT_U8(0, DIMS(2, 3), 0, 1, 2, 5, 4, 3);

	begin_reverse(0, 0, 2);
	op_ok(1);
	WANT_U8(0, DIMS(2, 3), 0, 1, 2, 4, 3, 5);

	op_begin("ReverseSequence", 10);	/* with elements behind time and batch */
	IN_F32(DIMS(2, 1, 2), 1, 2, 3, 4);
	IN_S64(DIMS(1), 2);
	op_ok(1);
	WANT_F32(0, DIMS(2, 1, 2), 3, 4, 1, 2);

	op_begin("ReverseSequence", 10);
	IN_EMPTY(F32, DIMS(2, 1, 0));
	IN_S64(DIMS(1), 2);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(2, 1, 0));
}
END_TEST

START_TEST(reverse_sequence_refuses_wrong_lengths)
{
	begin_reverse(1, 4, 2);
	op_fails(1, "sequence 0 has length 4, not 0 to 3");

	begin_reverse(1, 3, -1);
	op_fails(1, "sequence 1 has length -1, not 0 to 3");

	op_begin("ReverseSequence", 10);
	IN_F32(DIMS(1, 1), 1);
	IN_S64(DIMS(2), 1, 1);
	op_fails(1, "its input 1 does not have one length for each of 1 sequences");

	op_begin("ReverseSequence", 10);
	IN_F32(DIMS(1, 1), 1);
	IN_S64(RANK0, 1);
	op_fails(1, "its input 1 does not have one length");

	op_begin("ReverseSequence", 10);
	IN_F32(DIMS(1), 1);
	IN_S64(DIMS(1), 1);
	op_fails(1, "its input has 1 dimensions, not 2 or more");

	op_begin("ReverseSequence", 10);
	op_int("time_axis", 1);
	IN_F32(DIMS(1, 1), 1);
	IN_S64(DIMS(1), 1);
	op_fails(1, "batch_axis is 1 and time_axis 1, not 0 and 1");

	op_begin("ReverseSequence", 10);
	op_int("batch_axis", 2);
	op_int("time_axis", -1);
	IN_F32(DIMS(1, 1), 1);
	IN_S64(DIMS(1), 1);
	op_fails(1, "batch_axis is 2 and time_axis -1, not 0 and 1");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_move");
	TCase *t = add_case(s, "join", 10, NULL, NULL);

	tcase_add_test(t, concat_joins_along_any_axis);
	tcase_add_test(t, concat_refuses_what_does_not_join);
	tcase_add_test(t, split_takes_sizes_in_every_form);
	tcase_add_test(t, split_divides_evenly_without_sizes);
	tcase_add_test(t, split_refuses_wrong_sizes);
	tcase_add_test(t, slice_walks_forwards_and_backwards);
	tcase_add_test(t, slice_clamps_its_bounds);
	tcase_add_test(t, slice_of_an_empty_tensor_is_empty);
	tcase_add_test(t, slice_refuses_bad_lists);

	t = add_case(s, "move", 10, NULL, NULL);
	tcase_add_test(t, transpose_moves_axes);
	tcase_add_test(t, transpose_refuses_a_perm_that_is_none);
	tcase_add_test(t, tile_repeats_every_axis);
	tcase_add_test(t, tile_refuses_wrong_repeats);
	tcase_add_test(t, depth_and_space_are_exchanged);
	tcase_add_test(t, blocks_must_fit);
	tcase_add_test(t, trilu_keeps_a_triangle);
	tcase_add_test(t, trilu_refuses_vectors_and_several_diagonals);
	tcase_add_test(t, reverse_sequence_turns_the_start);
	tcase_add_test(t, reverse_sequence_refuses_wrong_lengths);

	t = add_case(s, "pad", 10, NULL, NULL);
	tcase_add_test(t, pad_knows_every_mode);
	tcase_add_test(t, pad_copies_corners_from_both_axes);
	tcase_add_test(t, pad_cuts_where_negative);
	tcase_add_test(t, pad_takes_attributes_in_old_opsets);
	tcase_add_test(t, pad_takes_axes);
	tcase_add_test(t, pad_fills_an_empty_tensor_with_a_constant_only);
	tcase_add_test(t, pad_refuses_wrong_numbers);
	tcase_add_test(t, center_crop_pad_keeps_the_middle);
	tcase_add_test(t, center_crop_pad_refuses_wrong_sizes);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/* Operators whose data determines the size of the result. */
#include "op_rig.h"
#include "suite.h"

#define IN_BOOL(dims, ...) OP_IN(BOOL, uint8_t, dims, __VA_ARGS__)

START_TEST(non_zero_lists_indices)
{
	op_begin("NonZero", 9);
	IN_F32(DIMS(2, 2), -0.0f, 1, NAN, 0);
	op_ok(1);
	ck_assert(rig.call.bounded);
	WANT_S64(0, DIMS(2, 2), 0, 1, 1, 0);

	op_begin("NonZero", 13);
	IN_U8(DIMS(2), 0, 0);
	op_ok(1);
	WANT_EMPTY(0, S64, DIMS(1, 0));

	op_begin("NonZero", 13);
	IN_S64(RANK0, 5);
	op_ok(1);
	WANT_EMPTY(0, S64, DIMS(0, 1));

	op_begin("NonZero", 13);
	IN_EMPTY(F32, DIMS(0, 3));
	op_ok(1);
	WANT_EMPTY(0, S64, DIMS(2, 0));
}
END_TEST

START_TEST(compress_keeps_selected_parts)
{
	op_begin("Compress", 9);
	op_int("axis", -1);
	IN_F32(DIMS(2, 3), 0, 1, 2, 3, 4, 5);
	IN_BOOL(DIMS(3), 1, 0, 1);
	op_ok(1);
	ck_assert(rig.call.bounded);
	WANT_F32(0, DIMS(2, 2), 0, 2, 3, 5);

	op_begin("Compress", 11);	/* all elements in order; the condition may be shorter */
	IN_U8(DIMS(2, 2), 1, 2, 3, 4);
	IN_BOOL(DIMS(3), 0, 1, 1);
	op_ok(1);
	WANT_U8(0, DIMS(2), 2, 3);

	op_begin("Compress", 11);	/* or longer, while it selects nothing there */
	op_int("axis", 0);
	IN_U8(DIMS(1, 2), 1, 2);
	IN_BOOL(DIMS(2), 1, 0);
	op_ok(1);
	WANT_U8(0, DIMS(1, 2), 1, 2);

	op_begin("Compress", 11);
	op_int("axis", 0);
	IN_EMPTY(U8, DIMS(2, 0));
	IN_BOOL(DIMS(2), 0, 1);
	op_ok(1);
	WANT_EMPTY(0, U8, DIMS(1, 0));
}
END_TEST

START_TEST(compress_refuses_what_is_outside)
{
	op_begin("Compress", 9);
	IN_U8(DIMS(2), 1, 2);
	IN_BOOL(DIMS(3), 0, 0, 1);
	op_fails(1, "its condition selects element 2 of 2");

	op_begin("Compress", 9);
	op_int("axis", 1);
	IN_U8(DIMS(2), 1, 2);
	IN_BOOL(DIMS(1), 1);
	op_fails(1, "axis 1 does not exist");

	op_begin("Compress", 9);
	IN_U8(DIMS(2), 1, 2);
	IN_BOOL(RANK0, 1);
	op_fails(1, "its input 1 has 0 dimensions, not 1");
}
END_TEST

static void begin_unique(int64_t sorted)
{
	op_begin("Unique", 11);
	op_int("sorted", sorted);
	IN_F32(DIMS(2, 3), 2, 1, 1, 3, NAN, NAN);
}

START_TEST(unique_lists_values)
{
	begin_unique(1);
	op_ok(4);
	ck_assert(rig.call.bounded);
	WANT_F32(0, DIMS(4), 1, 2, 3, NAN);
	WANT_S64(1, DIMS(4), 1, 0, 3, 4);
	WANT_S64(2, DIMS(6), 1, 0, 0, 2, 3, 3);
	WANT_S64(3, DIMS(4), 2, 1, 1, 2);

	begin_unique(0);
	op_ok(4);
	WANT_F32(0, DIMS(4), 2, 1, 3, NAN);
	WANT_S64(1, DIMS(4), 0, 1, 3, 4);
	WANT_S64(2, DIMS(6), 0, 1, 1, 2, 3, 3);
	WANT_S64(3, DIMS(4), 1, 2, 1, 2);

	op_begin("Unique", 11);
	OP_IN(U64, uint64_t, DIMS(3), UINT64_MAX, 1, UINT64_MAX);
	op_ok(1);
	OP_WANT(0, U64, uint64_t, DIMS(2), 1, UINT64_MAX);

	op_begin("Unique", 11);
	IN_S8(DIMS(5), 3, -1, 3, -1, 0);
	op_ok(1);
	WANT_S8(0, DIMS(3), -1, 0, 3);

	op_begin("Unique", 11);
	IN_EMPTY(F32, DIMS(0));
	op_ok(2);
	WANT_EMPTY(0, F32, DIMS(0));
	WANT_EMPTY(1, S64, DIMS(0));
}
END_TEST

START_TEST(unique_compares_parts_of_an_axis)
{
	op_begin("Unique", 11);
	op_int("axis", 1);
	IN_S32(DIMS(2, 3, 2), 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1);
	op_ok(4);
	WANT_S32(0, DIMS(2, 2, 2), 0, 1, 1, 1, 0, 1, 1, 1);
	WANT_S64(1, DIMS(2), 1, 0);
	WANT_S64(2, DIMS(3), 1, 0, 1);
	WANT_S64(3, DIMS(2), 1, 2);

	op_begin("Unique", 11);		/* parts that differ in the last outer row alone */
	op_int("axis", 1);
	IN_S32(DIMS(2, 2), 5, 5, 2, 1);
	op_ok(1);
	WANT_S32(0, DIMS(2, 2), 5, 5, 1, 2);

	op_begin("Unique", 11);
	op_int("axis", 2);
	IN_S32(DIMS(1), 1);
	op_fails(1, "axis 2 does not exist");
}
END_TEST

/* Boxes 0 and 1 overlap by a third, box 2 lies apart; scores rise. */
static void begin_suppression(void)
{
	op_begin("NonMaxSuppression", 10);
	IN_F32(DIMS(1, 3, 4), 0, 0, 1, 2, 1, 3, 0, 1, 8, 8, 9, 9);
	IN_F32(DIMS(1, 1, 3), 0.5f, 0.6f, 0.7f);
}

START_TEST(suppression_removes_overlaps)
{
	begin_suppression();
	CONST_S64(RANK0, 9);
	IN_F32(RANK0, 0.3f);
	op_ok(1);
	ck_assert(rig.call.bounded);
	WANT_S64(0, DIMS(2, 3), 0, 0, 2, 0, 0, 1);

	begin_suppression();
	IN_S64(DIMS(1), 9);
	IN_F32(RANK0, 0.4f);
	op_ok(1);
	WANT_S64(0, DIMS(3, 3), 0, 0, 2, 0, 0, 1, 0, 0, 0);

	begin_suppression();
	IN_S64(RANK0, 9);
	IN_F32(RANK0, 0.4f);
	IN_F32(RANK0, 0.6f);	/* only scores above the threshold are selected */
	op_ok(1);
	WANT_S64(0, DIMS(1, 3), 0, 0, 2);
}
END_TEST

START_TEST(suppression_reads_centers_classes_and_batches)
{
	op_begin("NonMaxSuppression", 11);
	op_int("center_point_box", 1);
	IN_F32(DIMS(2, 2, 4), 0, 0, 2, 2, 0.5f, 0, 2, 2, 0, 0, 2, 2, 5, 5, 2, 2);
	IN_F32(DIMS(2, 2, 2), 1, 2, 2, 1, 1, 1, 3, 4);
	IN_S64(RANK0, 2);
	IN_F32(RANK0, 0.5f);
	op_ok(1);
	WANT_S64(0, DIMS(6, 3), 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 0);
}
END_TEST

START_TEST(suppression_selects_at_most_the_limit)
{
	begin_suppression();
	op_ok(1);
	WANT_EMPTY(0, S64, DIMS(0, 3));

	begin_suppression();
	IN_S64(RANK0, -1);
	op_ok(1);
	WANT_EMPTY(0, S64, DIMS(0, 3));

	begin_suppression();
	IN_EMPTY(S64, DIMS(0));
	op_ok(1);
	WANT_EMPTY(0, S64, DIMS(0, 3));

	begin_suppression();
	CONST_S64(RANK0, 1);
	op_ok(1);
	WANT_S64(0, DIMS(1, 3), 0, 0, 2);

	op_begin("NonMaxSuppression", 10);	/* boxes without area suppress nothing */
	IN_F32(DIMS(1, 2, 4), 0, 0, 0, 2, 0, 0, 0, 2);
	IN_F32(DIMS(1, 1, 2), 1, 1);
	IN_S64(RANK0, 9);
	op_ok(1);
	WANT_S64(0, DIMS(2, 3), 0, 0, 0, 0, 0, 1);
}
END_TEST

#define BOXES 150

/* As the operator is defined, pair by pair; in double, where products of these numbers are exact. */
static bool overlap_by_half(const float *p, const float *q)
{
	double w = fmin(p[3], q[3]) - fmax(p[1], q[1]), h = fmin(p[2], q[2]) - fmax(p[0], q[0]);
	double areas = (double)(p[3] - p[1]) * (p[2] - p[0]) + (double)(q[3] - q[1]) * (q[2] - q[0]);

	return w > 0 && h > 0 && 2 * w * h > areas - w * h;
}

/* More chosen boxes than are compared at once, among them some without area and with NaN. */
START_TEST(suppression_compares_with_all_chosen_boxes)
{
	float box[BOXES][4], score[BOXES];
	int64_t want[BOXES], n = 0;

	srand(_i);
	for (int i = 0; i < BOXES; i++) {
		float y = (float)(rand() % 40), x = (float)(rand() % 40);

		box[i][0] = y;
		box[i][1] = i % 29 == 5 ? NAN : x;
		box[i][2] = i % 31 == 7 ? y : y + (float)(4 + rand() % 5);
		box[i][3] = x + (float)(4 + rand() % 5);
		score[i] = (float)(BOXES - i);
	}
	for (int i = 0; i < BOXES; i++) {
		bool keep = true, area = box[i][1] == box[i][1] && box[i][0] < box[i][2];

		for (int64_t k = 0; k < n && area; k++)
			keep &= box[want[k]][1] != box[want[k]][1] || !overlap_by_half(box[i], box[want[k]]);
		if (keep)
			want[n++] = i;
	}
	ck_assert_int_gt(n, 3 * 16);
	ck_assert_int_lt(n, BOXES);
	op_begin("NonMaxSuppression", 11);
	op_in(RVL_TYPE_F32, DIMS(1, BOXES, 4), box, BOXES * 4);
	op_in(RVL_TYPE_F32, DIMS(1, 1, BOXES), score, BOXES);
	IN_S64(RANK0, BOXES);
	IN_F32(RANK0, 0.5f);
	op_ok(1);
	ck_assert_int_eq(rig.call.out[0].shape.dim[0], n);
	for (int64_t i = 0; i < n; i++)
		ck_assert_int_eq(((const int64_t *)rig.call.out[0].data)[3 * i + 2], want[i]);
}
END_TEST

START_TEST(suppression_refuses_other_shapes)
{
	op_begin("NonMaxSuppression", 10);
	IN_F32(DIMS(1, 1, 3), 0, 0, 1);
	IN_F32(DIMS(1, 1, 1), 1);
	op_fails(1, "its input 0 is not three-dimensional with boxes of 4 numbers");

	op_begin("NonMaxSuppression", 10);
	IN_F32(DIMS(1, 4), 0, 0, 1, 1);
	IN_F32(DIMS(1, 1, 1), 1);
	op_fails(1, "its input 0 is not three-dimensional");

	op_begin("NonMaxSuppression", 10);
	IN_F32(DIMS(1, 1, 4), 0, 0, 1, 1);
	IN_F32(DIMS(1, 1, 2), 1, 1);
	op_fails(1, "its input 1 does not have a score for each class and box");

	op_begin("NonMaxSuppression", 10);
	IN_F32(DIMS(1, 1, 4), 0, 0, 1, 1);
	IN_F32(DIMS(2, 1, 1), 1, 1);
	op_fails(1, "its input 1 does not have a score");

	begin_suppression();
	IN_S64(DIMS(2), 1, 1);
	op_fails(1, "its input 2 is not one number");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_select");
	TCase *t = add_case(s, "select", 10, NULL, NULL);

	tcase_add_test(t, non_zero_lists_indices);
	tcase_add_test(t, compress_keeps_selected_parts);
	tcase_add_test(t, compress_refuses_what_is_outside);
	tcase_add_test(t, unique_lists_values);
	tcase_add_test(t, unique_compares_parts_of_an_axis);
	tcase_add_test(t, suppression_removes_overlaps);
	tcase_add_test(t, suppression_reads_centers_classes_and_batches);
	tcase_add_test(t, suppression_selects_at_most_the_limit);
	tcase_add_loop_test(t, suppression_compares_with_all_chosen_boxes, 0, random_cases(8));
	tcase_add_test(t, suppression_refuses_other_shapes);
	return run_suite(s);
}

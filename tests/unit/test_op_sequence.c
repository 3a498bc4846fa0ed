/* SPDX-License-Identifier: MIT */
/* RotaryEmbedding and CausalConvWithState. */
#include "op_rig.h"
#include "suite.h"

/* An angle of a quarter turn for the second pair, none for the first. */
START_TEST(rotated_pairs)
{
	op_begin("RotaryEmbedding", 23);
	IN_F32(DIMS(1, 1, 1, 5), 1, 2, 3, 4, 5);
	op_int("rotary_embedding_dim", 4);
	IN_F32(DIMS(1, 1, 2), 1, 0);
	IN_F32(DIMS(1, 1, 2), 0, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 5), 1, -4, 3, 2, 5);
	op_begin("RotaryEmbedding", 23);
	IN_F32(DIMS(1, 1, 1, 4), 1, 2, 3, 4);
	op_int("interleaved", 1);
	IN_F32(DIMS(1, 1, 2), 1, 0);
	IN_F32(DIMS(1, 1, 2), 0, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 1, 4), 1, 2, -4, 3);
	/* Two heads, two positions, separate and packed. */
	op_begin("RotaryEmbedding", 23);
	IN_F32(DIMS(1, 2, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8);
	IN_F32(DIMS(2, 1), 1, 0);
	IN_F32(DIMS(2, 1), 0, 1);
	IN_S64(DIMS(1, 2), 1, 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2, 2), -2, 1, 3, 4, -6, 5, 7, 8);
	op_begin("RotaryEmbedding", 23);
	op_int("num_heads", 2);
	IN_F32(DIMS(1, 2, 4), 1, 2, 5, 6, 3, 4, 7, 8);
	IN_F32(DIMS(2, 1), 1, 0);
	IN_F32(DIMS(2, 1), 0, 1);
	IN_S64(DIMS(1, 2), 1, 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 4), -2, 1, -6, 5, 3, 4, 7, 8);
}
END_TEST

START_TEST(positions_outside_the_caches)
{
	static const int64_t wrong[] = { 2, -1, INT64_MIN, INT64_MAX };

	for (int i = 0; i < 4; i++) {
		op_begin("RotaryEmbedding", 23);
		IN_F32(DIMS(1, 1, 1, 2), 1, 2);
		IN_F32(DIMS(2, 1), 1, 0);
		IN_F32(DIMS(2, 1), 0, 1);
		op_in(RVL_TYPE_S64, DIMS(1, 1), &wrong[i], 1);
		op_fails(1, ", the caches have 2");
	}
}
END_TEST

static void rotary(struct rvl_shape x, struct rvl_shape cosine, struct rvl_shape sine)
{
	static const float zeros[64];

	op_begin("RotaryEmbedding", 23);
	op_in(RVL_TYPE_F32, x, zeros, (size_t)rvl_shape_count(&x));
	op_in(RVL_TYPE_F32, cosine, zeros, (size_t)rvl_shape_count(&cosine));
	op_in(RVL_TYPE_F32, sine, zeros, (size_t)rvl_shape_count(&sine));
}

START_TEST(rotations_that_are_refused)
{
	rotary(DIMS(1, 2), DIMS(1, 1, 1), DIMS(1, 1, 1));
	op_fails(1, "its input 0 has rank 2, not 3 or 4");
	rotary(DIMS(1, 1, 4), DIMS(1, 1, 2), DIMS(1, 1, 2));
	op_fails(1, "attribute num_heads is 0, its input has 4 values");
	rotary(DIMS(1, 1, 4), DIMS(1, 1, 2), DIMS(1, 1, 2));
	op_int("num_heads", 3);
	op_fails(1, "attribute num_heads is 3, its input has 4 values");
	for (int64_t part = -2; part < 9; part += 5) {
		rotary(DIMS(1, 1, 1, 4), DIMS(1, 1, 2), DIMS(1, 1, 2));
		op_int("rotary_embedding_dim", part);
		op_fails(1, " of 4 values");
	}
	rotary(DIMS(1, 1, 1, 4), DIMS(1, 1, 1), DIMS(1, 1, 2));
	op_fails(1, "its input 1 does not have the shape");
	rotary(DIMS(1, 1, 1, 4), DIMS(1, 1, 2), DIMS(1, 1, 1));
	op_fails(1, "its input 2 does not have the shape");
	rotary(DIMS(1, 1, 1, 4), DIMS(3, 2), DIMS(2, 2));
	IN_S64(DIMS(1, 1), 0);
	op_fails(1, "its input 2 does not have the shape");
	rotary(DIMS(1, 1, 1, 4), DIMS(3, 1), DIMS(3, 2));
	IN_S64(DIMS(1, 1), 0);
	op_fails(1, "its input 1 does not have the shape");
	rotary(DIMS(1, 1, 1, 4), DIMS(3, 2), DIMS(3, 2));
	IN_S64(DIMS(1, 2), 0, 0);
	op_fails(1, "its input 3 does not have the shape");
}
END_TEST

static void causal(const char *activation)
{
	op_begin("CausalConvWithState", 27);
	op_string("activation", activation);
	IN_F32(DIMS(1, 2, 2), 1, 2, 3, 4);
	IN_F32(DIMS(2, 1, 3), 1, 10, 100, 1, 0, -1);
}

START_TEST(causal_convolutions)
{
	causal("none");
	op_ok(2);
	WANT_F32(0, DIMS(1, 2, 2), 100, 210, -3, -4);
	WANT_F32(1, DIMS(1, 2, 2), 1, 2, 3, 4);
	causal("none");
	IN_F32(DIMS(2), 0.5f, -1);
	IN_F32(DIMS(1, 2, 2), 5, 6, 7, 8);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), 165.5f, 216.5f, 3, 3);
	causal("silu");
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), 100, 210, -0.14227762f, -0.071944840f);
	causal("swish");
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), 100, 210, -0.14227762f, -0.071944840f);
	/* Fewer elements than the state has: the state keeps some of its own. */
	op_begin("CausalConvWithState", 27);
	IN_F32(DIMS(1, 1, 1), 9);
	IN_F32(DIMS(1, 1, 3), 1, 1, 1);
	op_none();
	IN_F32(DIMS(1, 1, 2), 5, 6);
	op_ok(2);
	WANT_F32(0, DIMS(1, 1, 1), 20);
	WANT_F32(1, DIMS(1, 1, 2), 6, 9);
	op_begin("CausalConvWithState", 27);
	IN_F32(DIMS(1, 1, 2), 9, 8);
	IN_F32(DIMS(1, 1, 1), 2);
	op_ok(2);
	WANT_F32(0, DIMS(1, 1, 2), 18, 16);
	WANT_EMPTY(1, F32, DIMS(1, 1, 0));
}
END_TEST

START_TEST(causal_convolutions_that_are_refused)
{
	op_begin("CausalConvWithState", 27);
	IN_F32(DIMS(1, 2), 1, 2);
	IN_F32(DIMS(2, 1, 1), 1, 2);
	op_fails(2, "is not of rank 3, or the kernel is empty");
	op_begin("CausalConvWithState", 27);
	IN_F32(DIMS(1, 1, 1), 1);
	IN_F32(DIMS(1), 1);
	op_fails(2, "is not of rank 3, or the kernel is empty");
	op_begin("CausalConvWithState", 27);
	IN_F32(DIMS(1, 1, 1), 1);
	IN_EMPTY(F32, DIMS(1, 1, 0));
	op_fails(2, "is not of rank 3, or the kernel is empty");
	op_begin("CausalConvWithState", 27);
	IN_F32(DIMS(1, 1, 1), 1);
	IN_F32(DIMS(2, 1, 1), 1, 2);
	op_fails(2, "its input 1 does not have the shape");
	causal("none");
	IN_F32(DIMS(1), 1);
	op_fails(2, "its input 2 does not have the shape");
	causal("none");
	op_none();
	IN_F32(DIMS(1, 2, 1), 1, 2);
	op_fails(2, "its input 3 does not have the shape");
	causal("relu");
	op_fails(2, "attribute activation is 'relu', not one of none|silu|swish");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_sequence");
	TCase *t = add_case(s, "sequence", 10, NULL, op_end);

	tcase_add_test(t, rotated_pairs);
	tcase_add_test(t, positions_outside_the_caches);
	tcase_add_test(t, rotations_that_are_refused);
	tcase_add_test(t, causal_convolutions);
	tcase_add_test(t, causal_convolutions_that_are_refused);
	return run_suite(s);
}

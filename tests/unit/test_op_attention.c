/* SPDX-License-Identifier: MIT */
/* Attention: the expected numbers are those of ONNX's reference implementation. */
#include "op_rig.h"
#include "suite.h"

START_TEST(heads_of_four_dimensions)
{
	/* A key head for each query head; values have another size than keys. */
	op_begin("Attention", 23);
	IN_F32(DIMS(1, 2, 2, 2), 0.5f, -1.25f, 0, -2, 0.5f, 0.75f, 0.25f, 0.5f);
	IN_F32(DIMS(1, 2, 3, 2), -0.5f, -2, 1, -0.25f, 1.5f, -1.5f, -1.5f, -1.75f, -0.75f, 0,
		 1.5f, -1.75f);
	IN_F32(DIMS(1, 2, 3, 1), 0.5f, -0.25f, 0.75f, -1.75f, 1.75f, 2);
	op_ok(4);
	WANT_F32(0, DIMS(1, 2, 2, 1), 0.5204493f, 0.5381279f, 1.363426f, 1.111908f);
	WANT_F32(1, DIMS(1, 2, 3, 2), -0.5f, -2, 1, -0.25f, 1.5f, -1.5f, -1.5f, -1.75f, -0.75f, 0,
		 1.5f, -1.75f);
	WANT_F32(2, DIMS(1, 2, 3, 1), 0.5f, -0.25f, 0.75f, -1.75f, 1.75f, 2);
	WANT_F32(3, DIMS(1, 2, 2, 3), 1.59099f, 0.5745243f, 1.856155f, 2.828427f, 0.3535534f,
		 2.12132f, -1.458408f, -0.2651651f, -0.3977475f, -0.8838835f, -0.1325825f, -0.3535534f);
	/* Two query heads share a key head; a scale and a cap. */
	op_begin("Attention", 24);
	op_float("scale", 0.25f);
	op_float("softcap", 1.5f);
	op_int("qk_matmul_output_mode", 1);
	IN_F32(DIMS(1, 2, 1, 2), -0.75f, 1.5f, -2, -2);
	IN_F32(DIMS(1, 1, 2, 2), 0.25f, -0.75f, -0.25f, -0.75f);
	IN_F32(DIMS(1, 1, 2, 2), 1.5f, -1.75f, -1.75f, 0.5f);
	op_ok(4);
	WANT_F32(0, DIMS(1, 2, 1, 2), -0.1984839f, -0.5741265f, -0.3147097f, -0.4936624f);
	WANT_F32(3, DIMS(1, 2, 1, 2), -0.3229895f, -0.2324861f, 0.2477106f, 0.4822691f);
}
END_TEST

START_TEST(packed_heads_with_caches)
{
	/* Queries also attend to the cached positions. */
	op_begin("Attention", 23);
	op_int("q_num_heads", 2);
	op_int("kv_num_heads", 1);
	op_int("is_causal", 1);
	IN_F32(DIMS(2, 2, 4), 0.75f, -1, -1.25f, 2, 2, -2, 2, 0.75f, -2, 1.25f, -0.75f, 2, -1.75f,
		 -1.5f, -1, 0);
	IN_F32(DIMS(2, 2, 2), 1, 2, 0.5f, 2, -1, 0, -0.25f, -2);
	IN_F32(DIMS(2, 2, 4), 2, 0.25f, -1.75f, 1.75f, 0.75f, 0.5f, 2, 2, 1, -1, 1, 1, 2, -1.5f,
		 -0.25f, -1.75f);
	op_none();
	IN_F32(DIMS(2, 1, 1, 2), -1.25f, 1.25f, -1.75f, -1.5f);
	IN_F32(DIMS(2, 1, 1, 4), -1.25f, 0.75f, -0.25f, -1.75f, 0.75f, -2, 2, 0.75f);
	op_ok(3);
	WANT_F32(0, DIMS(2, 2, 8), 0.8947216f, 0.4200428f, -1.239872f, 0.5597002f, -0.3292266f,
		 0.6083426f, -0.6749724f, -0.7583978f, 1.376342f, 0.3635836f, -0.4921635f, 1.566305f,
		 1.535188f, 0.3402125f, -0.5068098f, 1.766881f, 0.8914764f, -1.434094f, 1.434094f,
		 0.8914764f, 0.9621472f, -1.151412f, 1.151412f, 0.9621472f, 1.011577f, -1.841524f,
		 1.496257f, 0.271717f, 1.049739f, -1.606374f, 1.29319f, 0.3786306f);
	WANT_F32(1, DIMS(2, 1, 3, 2), -1.25f, 1.25f, 1, 2, 0.5f, 2, -1.75f, -1.5f, -1, 0, -0.25f,
		 -2);
	WANT_F32(2, DIMS(2, 1, 3, 4), -1.25f, 0.75f, -0.25f, -1.75f, 2, 0.25f, -1.75f, 1.75f,
		 0.75f, 0.5f, 2, 2, 0.75f, -2, 2, 0.75f, 1, -1, 1, 1, 2, -1.5f, -0.25f, -1.75f);
}
END_TEST

START_TEST(masks)
{
	/* A mask of numbers for each head, with the scores it gives. */
	op_begin("Attention", 23);
	op_int("qk_matmul_output_mode", 2);
	IN_F32(DIMS(1, 2, 2, 1), 0, 0, 1.5f, 1);
	IN_F32(DIMS(1, 2, 2, 1), -1, 0.25f, -0.75f, 0.25f);
	IN_F32(DIMS(1, 2, 2, 1), 0.5f, 0.25f, -2, 1.25f);
	IN_F32(DIMS(2, 1, 2), 1, -0.25f, -1, 0.5f);
	op_ok(4);
	WANT_F32(0, DIMS(1, 2, 2, 1), 0.444325f, 0.444325f, 1.095866f, 1.003461f);
	WANT_F32(3, DIMS(1, 2, 2, 2), 1, -0.25f, 1, -0.25f, -2.125f, 0.875f, -1.75f, 0.75f);
	/* A mask that is shorter than the keys, and a row without keys. */
	op_begin("Attention", 23);
	op_int("qk_matmul_output_mode", 3);
	IN_F32(DIMS(1, 1, 2, 2), 0, 1, -2, -0.25f);
	IN_F32(DIMS(1, 1, 3, 2), -2, -1.75f, 1.75f, 0.75f, 0.25f, -0.25f);
	IN_F32(DIMS(1, 1, 3, 2), 1.25f, -1, 0.25f, 1.25f, 1.25f, -2);
	OP_IN(BOOL, uint8_t, DIMS(2, 2), 1, 1, 0, 0);
	op_ok(4);
	WANT_F32(0, DIMS(1, 1, 2, 2), 0.3958203f, 0.9219044f, 0, 0);
	WANT_F32(3, DIMS(1, 1, 2, 3), 0.1458203f, 0.8541797f, 0, 0, 0, 0);
	/* One row of mask for all queries. */
	op_begin("Attention", 24);
	IN_F32(DIMS(1, 1, 2, 1), 1.75f, -1);
	IN_F32(DIMS(1, 1, 3, 1), 0.5f, -0.5f, 1);
	IN_F32(DIMS(1, 1, 3, 1), 1.75f, 1.5f, 0.5f);
	OP_IN(BOOL, uint8_t, DIMS(3), 0, 1, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 2, 1), 0.5675467f, 1.317575f);
	/* Causal without a cache. */
	op_begin("Attention", 24);
	op_int("is_causal", 1);
	IN_F32(DIMS(1, 1, 3, 1), 0.75f, -1.25f, 0);
	IN_F32(DIMS(1, 1, 3, 1), -1.5f, 0.75f, -1);
	IN_F32(DIMS(1, 1, 3, 1), -2, 1.25f, -0.25f);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3, 1), -2, -1.81588f, -0.3333333f);
}
END_TEST

START_TEST(padded_keys)
{
	/* Batches with one key, two keys and none. */
	op_begin("Attention", 24);
	IN_F32(DIMS(3, 1, 1, 1), -1.75f, -1.5f, -1.5f);
	IN_F32(DIMS(3, 1, 2, 1), 1.5f, 0.5f, -0.25f, 1, 0.75f, -0.25f);
	IN_F32(DIMS(3, 1, 2, 1), -0.25f, 1, 1, 0.25f, -0.25f, -1.5f);
	op_none();
	op_none();
	op_none();
	IN_S64(DIMS(3), 1, 2, 0);
	op_ok(1);
	WANT_F32(0, DIMS(3, 1, 1, 1), -0.25f, 0.9002768f, 0);
	/* The last query is aligned to the last key. */
	op_begin("Attention", 24);
	op_int("is_causal", 1);
	IN_F32(DIMS(1, 1, 2, 1), 1.75f, 1.25f);
	IN_F32(DIMS(1, 1, 4, 1), -1, 0, 0.25f, 0);
	IN_F32(DIMS(1, 1, 4, 1), -0.75f, 1, -1.25f, -1.5f);
	op_none();
	op_none();
	op_none();
	IN_S64(DIMS(1), 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 2, 1), 0.7409173f, -0.3480237f);
}
END_TEST

START_TEST(windows)
{
	/* One key back, none ahead. */
	op_begin("Attention", 25);
	op_int("left_window_size", 1);
	op_int("right_window_size", 0);
	IN_F32(DIMS(1, 1, 3, 1), 0.75f, -2, -0.25f);
	IN_F32(DIMS(1, 1, 3, 1), -2, 1.5f, -1.25f);
	IN_F32(DIMS(1, 1, 3, 1), -0.75f, 1.5f, 1.25f);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3, 1), -0.75f, -0.7479502f, 1.333647f);
	/* One key ahead. */
	op_begin("Attention", 25);
	op_int("right_window_size", 1);
	IN_F32(DIMS(1, 1, 3, 1), 1, -1.5f, -0.5f);
	IN_F32(DIMS(1, 1, 3, 1), -0.5f, 1.25f, -0.25f);
	IN_F32(DIMS(1, 1, 3, 1), 1.25f, -0.25f, -2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3, 1), -0.02792919f, -0.08108556f, -0.2692965f);
	/* The window starts behind the cache. */
	op_begin("Attention", 25);
	op_int("left_window_size", 1);
	IN_F32(DIMS(1, 1, 2, 1), 1, 0);
	IN_F32(DIMS(1, 1, 2, 1), -1, 0.5f);
	IN_F32(DIMS(1, 1, 2, 1), -1, 1);
	op_none();
	IN_F32(DIMS(1, 1, 2, 1), -2, -1.25f);
	IN_F32(DIMS(1, 1, 2, 1), 1.25f, -1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 2, 1), 0.4317375f, 0);
}
END_TEST

/* Operands of [batch, heads, positions, size], all zero. */
static void in_zeros(uint32_t n, int64_t a, int64_t b, int64_t d, int64_t e)
{
	static const float zeros[64];

	op_in(RVL_TYPE_F32, n == 4 ? DIMS(a, b, d, e) : DIMS(a, b, d), zeros,
	      (size_t)(a * b * d * (n == 4 ? e : 1)));
}

#define QKV(q, k, v) \
	(op_begin("Attention", 25), in_zeros q, in_zeros k, in_zeros v)

START_TEST(operands_that_do_not_fit)
{
	QKV((4, 1, 2, 1, 2), (4, 1, 2, 1, 3), (4, 1, 2, 1, 3));
	op_fails(1, "a head of its keys has 3 values, of its queries 2");
	QKV((4, 1, 2, 1, 2), (4, 2, 2, 1, 2), (4, 1, 2, 1, 2));
	op_fails(1, "its input 1 has 2 batches, input 0 1");
	QKV((4, 1, 2, 1, 2), (4, 1, 2, 1, 2), (4, 1, 1, 1, 2));
	op_fails(1, "its values have other heads or positions than its keys");
	QKV((4, 1, 2, 1, 2), (4, 1, 2, 2, 2), (4, 1, 2, 1, 2));
	op_fails(1, "its values have other heads or positions than its keys");
	QKV((4, 1, 3, 1, 2), (4, 1, 2, 1, 2), (4, 1, 2, 1, 2));
	op_fails(1, "its 3 query heads do not share 2 key heads");
	QKV((4, 1, 3, 1, 2), (4, 1, 0, 1, 2), (4, 1, 0, 1, 2));
	op_fails(1, "its 3 query heads do not share 0 key heads");
	QKV((4, 1, 2, 1, 2), (3, 1, 2, 1, 0), (4, 1, 2, 1, 2));
	op_fails(1, "its input 1 has rank 3");
	QKV((3, 1, 2, 4, 0), (3, 1, 2, 4, 0), (3, 1, 2, 4, 0));
	op_fails(1, "attribute q_num_heads is 0, its input 0 has 4 values");
	QKV((3, 1, 2, 4, 0), (3, 1, 2, 4, 0), (3, 1, 2, 4, 0));
	op_int("q_num_heads", 2);
	op_int("kv_num_heads", 3);
	op_fails(1, "attribute kv_num_heads is 3, its input 1 has 4 values");
}
END_TEST

#define PLAIN QKV((4, 1, 1, 2, 1), (4, 1, 1, 2, 1), (4, 1, 1, 2, 1))

START_TEST(caches_and_masks_that_do_not_fit)
{
	PLAIN;
	op_none();
	in_zeros(4, 1, 1, 1, 1);
	op_fails(1, "it has one of the caches of keys and values, not both");
	PLAIN;
	op_none();
	in_zeros(4, 1, 1, 1, 1);
	in_zeros(4, 1, 1, 2, 1);
	op_fails(1, "its input 5, a cache, does not fit its keys");
	PLAIN;
	op_none();
	in_zeros(3, 1, 1, 1, 1);
	in_zeros(4, 1, 1, 1, 1);
	op_fails(1, "its input 4, a cache, does not fit its keys");
	PLAIN;
	op_none();
	in_zeros(4, 1, 1, 1, 1);
	in_zeros(4, 1, 1, 1, 1);
	IN_S64(DIMS(1), 1);
	op_fails(1, "it has caches and the lengths of padded keys");
	PLAIN;
	op_none();
	op_none();
	op_none();
	IN_S64(DIMS(2), 1, 1);
	op_fails(1, "its input 6 is not one int64 for each batch");
	PLAIN;
	IN_F32(DIMS(3), 1, 2, 3);
	op_fails(1, "its mask does not broadcast to its scores");
	PLAIN;
	IN_F32(DIMS(3, 2), 1, 2, 3, 4, 5, 6);
	op_fails(1, "its mask does not broadcast to its scores");
	PLAIN;
	IN_F32(RANK0, 1);
	op_fails(1, "its mask does not broadcast to its scores");
}
END_TEST

START_TEST(attributes_out_of_range)
{
	for (int64_t mode = -1; mode <= 4; mode += 5) {
		PLAIN;
		op_int("qk_matmul_output_mode", mode);
		op_fails(1, "attribute qk_matmul_output_mode is ");
	}
	PLAIN;
	op_int("left_window_size", -2);
	op_fails(1, "the size of its window is below -1");
	PLAIN;
	op_int("right_window_size", -2);
	op_fails(1, "the size of its window is below -1");
}
END_TEST

/* Lengths come with the data: none of them leads outside the keys. */
START_TEST(any_length_of_padding)
{
	static const int64_t length[] = { INT64_MIN, -1, INT64_MAX };

	for (int i = 0; i < 3; i++) {
		op_begin("Attention", 25);
		op_int("is_causal", 1);
		op_int("left_window_size", INT64_MAX);
		IN_F32(DIMS(1, 1, 1, 1), 1);
		IN_F32(DIMS(1, 1, 2, 1), 1, 1);
		IN_F32(DIMS(1, 1, 2, 1), 4, 6);
		op_none();
		op_none();
		op_none();
		op_in(RVL_TYPE_S64, DIMS(1), &length[i], 1);
		op_ok(1);
		WANT_F32(0, DIMS(1, 1, 1, 1), i == 2 ? 5 : 0);
	}
	op_begin("Attention", 23);
	IN_EMPTY(F32, DIMS(1, 1, 0, 2));
	IN_EMPTY(F32, DIMS(1, 1, 0, 2));
	IN_EMPTY(F32, DIMS(1, 1, 0, 2));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(1, 1, 0, 2));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_attention");
	TCase *t = add_case(s, "attention", 10, NULL, op_end);

	tcase_add_test(t, heads_of_four_dimensions);
	tcase_add_test(t, packed_heads_with_caches);
	tcase_add_test(t, masks);
	tcase_add_test(t, padded_keys);
	tcase_add_test(t, windows);
	tcase_add_test(t, operands_that_do_not_fit);
	tcase_add_test(t, caches_and_masks_that_do_not_fit);
	tcase_add_test(t, attributes_out_of_range);
	tcase_add_test(t, any_length_of_padding);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/* Linear attention against the reference implementation of the ONNX package, and invalid operands. */
#include "op_rig.h"
#include "suite.h"

static void series(struct rvl_shape s, int64_t step)
{
	float v[64];
	int64_t n = rvl_shape_count(&s);

	ck_assert_int_le(n, 64);
	for (int64_t i = 0; i < n; i++)
		v[i] = (float)((i * step + 3) % 17 - 8) / 8.0f;
	op_in(RVL_TYPE_F32, s, v, (size_t)n);
}

/* Two tokens, two heads of queries on one of keys, of two and three values. */
static void begin(const char *rule, bool past)
{
	op_begin("LinearAttention", 27);
	op_int("q_num_heads", 2);
	op_int("kv_num_heads", 1);
	op_string("update_rule", rule);
	series(DIMS(1, 2, 4), 5);
	series(DIMS(1, 2, 2), 7);
	series(DIMS(1, 2, 3), 11);
	if (past)
		series(DIMS(1, 1, 2, 3), 3);
	else
		op_none();
}

START_TEST(linear_adds_products)
{
	begin("linear", true);
	op_ok(2);
	WANT_F32(0, DIMS(1, 2, 6), 0.1035801f, 0.3176456f, -0.05524272f, -0.3162646f, -0.9750339f,
		 0.5966213f, 0.02485922f, 0.4985655f, -0.2720704f, 0.2099223f, -1.298204f,
		 0.4806117f);
	WANT_F32(1, DIMS(1, 1, 2, 3), 0.515625f, -1.34375f, 0.25f, 0.4375f, 0.984375f, -0.859375f);
}
END_TEST

START_TEST(gated_decays_each_row)
{
	begin("gated", false);
	series(DIMS(1, 2, 2), 6);
	op_ok(2);
	WANT_F32(0, DIMS(1, 2, 6), -0.1726335f, 0.2071602f, 0, 0.2693082f, -0.3231699f, 0,
		 -0.2985036f, 0.3187058f, -0.01795388f, 1.193293f, -1.24965f, 0.08286408f);
	WANT_F32(1, DIMS(1, 1, 2, 3), 1.687061f, -1.749473f, 0.125f, -0.001020417f, 0.0355995f,
		 0.015625f);
}
END_TEST

START_TEST(delta_corrects_what_the_state_knows)
{
	begin("delta", true);
	op_float("scale", 0.5f);
	op_none();
	series(DIMS(1, 2, 1), 4);
	op_ok(2);
	WANT_F32(0, DIMS(1, 2, 6), 0.334549f, 0.03234863f, -0.07530212f, -0.6312714f, -0.3895264f,
		 0.4784088f, 0.2830226f, 0.1580997f, -0.2028909f, -0.8065398f, -0.2193241f,
		 0.3508766f);
	WANT_F32(1, DIMS(1, 1, 2, 3), -1.287529f, -0.02557373f, 0.241066f, 0.6511011f, 0.826149f,
		 -0.9213743f);
}
END_TEST

START_TEST(gated_delta_does_both)
{
	begin("gated_delta", true);
	series(DIMS(1, 2, 1), 6);
	series(DIMS(1, 2, 1), 4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 6), 0.3033882f, -0.035685f, -0.05700174f, -0.5560797f, -0.2009929f,
		 0.362143f, 0.2866224f, 0.0849278f, -0.1731495f, -0.8354893f, -0.02469214f,
		 0.2968937f);
}
END_TEST

/* Two images of two heads; the decay is a value for each head, which is also one for each row. */
static void begin_heads(const char *rule)
{
	op_begin("LinearAttention", 27);
	op_int("q_num_heads", 2);
	op_int("kv_num_heads", 2);
	op_string("update_rule", rule);
	series(DIMS(2, 1, 2), 5);
	series(DIMS(2, 1, 2), 7);
	series(DIMS(2, 1, 4), 11);
	op_none();
}

START_TEST(heads_have_a_state_each)
{
	begin_heads("gated_delta");
	series(DIMS(2, 1, 2), 6);
	series(DIMS(2, 1, 1), 4);
	op_ok(2);
	WANT_F32(0, DIMS(2, 1, 4), 0.1525879f, -0.1831055f, 0, 0, 0.04882812f, -0.009765625f,
		 0.01196289f, -0.006835938f);
	WANT_F32(1, DIMS(2, 2, 1, 2), -0.2441406f, 0.2929688f, 0, 0.1171875f, 0.078125f, -0.015625f,
		 -0.01367188f, 0.0078125f);
	begin_heads("delta");
	op_none();
	series(DIMS(2, 1, 2), 4);
	op_ok(2);
	WANT_F32(1, DIMS(2, 2, 1, 2), -0.2441406f, 0.2929688f, 0, 0.0234375f, -0.234375f, 0.046875f,
		 0.09570312f, -0.0546875f);
}
END_TEST

START_TEST(empty_operands)
{
	op_begin("LinearAttention", 27);
	op_int("q_num_heads", 1);
	op_int("kv_num_heads", 1);
	op_string("update_rule", "linear");
	IN_EMPTY(F32, DIMS(1, 0, 2));
	IN_EMPTY(F32, DIMS(1, 0, 2));
	IN_EMPTY(F32, DIMS(1, 0, 2));
	op_ok(2);
	WANT_EMPTY(0, F32, DIMS(1, 0, 2));
	WANT_F32(1, DIMS(1, 1, 2, 2), 0, 0, 0, 0);
	op_begin("LinearAttention", 27);
	op_int("q_num_heads", 1);
	op_int("kv_num_heads", 1);
	op_string("update_rule", "linear");
	IN_EMPTY(F32, DIMS(1, 2, 0));
	IN_EMPTY(F32, DIMS(1, 2, 0));
	IN_F32(DIMS(1, 2, 1), 1, 2);
	op_ok(2);
	WANT_F32(0, DIMS(1, 2, 1), 0, 0);
}
END_TEST

START_TEST(gates_belong_to_the_rule)
{
	begin("gated", false);
	op_fails(1, "update_rule 'gated' needs input 4, the decay");
	begin("delta", false);
	op_fails(1, "update_rule 'delta' needs input 5, the update rate");
	begin("linear", false);
	series(DIMS(1, 2, 2), 6);
	op_fails(1, "update_rule 'linear' takes no input 4, the decay");
	begin("gated", false);
	series(DIMS(1, 2, 2), 6);
	series(DIMS(1, 2, 1), 6);
	op_fails(1, "update_rule 'gated' takes no input 5, the update rate");
	begin("other", false);
	op_fails(1, "attribute update_rule is 'other'");
}
END_TEST

/* Inputs 0 to 5 of a call that is valid. */
static void begin_all(void)
{
	begin("gated_delta", true);
	series(DIMS(1, 2, 2), 6);
	series(DIMS(1, 2, 1), 4);
}

START_TEST(shapes_are_checked)
{
	static const char *const text[] = {
		"input 1 is not of shape", "input 1 is not of shape", "input 2 is not of shape",
		"the shape of input 3", "the shape of input 4", "the shape of input 5",
	};

	for (uint32_t i = 1; i < 6; i++) {
		begin_all();
		rig.call.in[i].shape.dim[i == 3 ? 3 : 1]++;
		op_fails(1, text[i]);
		begin_all();
		rig.call.in[i].shape.dim[0]++;
		op_fails(1, text[i]);
		begin_all();
		rig.call.in[i].shape.rank--;
		op_fails(1, text[i]);
	}
	begin_all();
	rig.call.in[0].shape.rank = 2;
	op_fails(1, "its input 0 has rank 2, not 3");
	begin_all();
	rig.call.in[0].shape.dim[2] = 5;
	op_fails(1, "input 0 is not of shape [batch, tokens, 2 heads * size]");
	begin_all();
	rig.call.in[1].shape.dim[2] = 3;
	op_fails(1, "its queries have 2 values a head, its keys 3");
	begin_all();
	rig.call.in[4].shape.dim[2] = 3;
	op_fails(1, "its decay has 3 values for a token of 1 heads");
	begin_all();
	rig.call.in[5].shape.dim[2] = 2;
	op_fails(1, "its update rate has 2 values for a token of 1 heads");
}
END_TEST

START_TEST(heads_are_checked)
{
	static const int64_t bad[][2] = { { 0, 1 }, { 2, 0 }, { 3, 2 }, { -2, -1 }, { 1, 2 } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin_all();
		op_int("q_num_heads", bad[i][0]);
		op_int("kv_num_heads", bad[i][1]);
		op_fails(1, "no multiple of");
	}
	begin("linear", true);
	rig.call.in[0].shape = DIMS(1, 2, 1 << 24);
	rig.call.in[1].shape = DIMS(1, 2, 1 << 23);
	rig.call.in[2].shape = DIMS(1, 2, 1 << 24);
	rig.call.in[3].shape = DIMS(1, 1, 1 << 23, 1 << 24);
	ck_assert_int_eq(op_infer(1), -EINVAL);
	ck_assert_str_eq(rig.why, "its result is too large");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_linear_attention");
	TCase *t = add_case(s, "values", 10, NULL, NULL);

	tcase_add_test(t, linear_adds_products);
	tcase_add_test(t, gated_decays_each_row);
	tcase_add_test(t, delta_corrects_what_the_state_knows);
	tcase_add_test(t, gated_delta_does_both);
	tcase_add_test(t, heads_have_a_state_each);
	tcase_add_test(t, empty_operands);
	t = add_case(s, "refusals", 10, NULL, NULL);
	tcase_add_test(t, gates_belong_to_the_rule);
	tcase_add_test(t, shapes_are_checked);
	tcase_add_test(t, heads_are_checked);
	return run_suite(s);
}

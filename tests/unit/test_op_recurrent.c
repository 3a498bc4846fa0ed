/* SPDX-License-Identifier: MIT */
/* Recurrent networks against an independent computation in double precision, and invalid operands. */
#include "op_rig.h"
#include "suite.h"

static const char both[] = "bidirectional";

/* Numbers of -1 to 1 that differ from one operand to the next by @step. */
static void series(struct rvl_shape s, int64_t step)
{
	float v[64];
	int64_t n = rvl_shape_count(&s);

	ck_assert_int_le(n, 64);
	for (int64_t i = 0; i < n; i++)
		v[i] = (float)((i * step + 3) % 17 - 8) / 8.0f;
	op_in(RVL_TYPE_F32, s, v, (size_t)n);
}

struct size {
	int64_t seq, batch, in, hidden, dirs;
};

static int64_t gates_of(const char *name)
{
	return !strcmp(name, "LSTM") ? 4 : !strcmp(name, "GRU") ? 3 : 1;
}

static struct rvl_shape state(struct size z, bool batch_first)
{
	return batch_first ? DIMS(z.batch, z.dirs, z.hidden) : DIMS(z.dirs, z.batch, z.hidden);
}

/* Inputs 0 to 3: X, W, R, B. */
static void begin(const char *name, int64_t opset, struct size z)
{
	int64_t rows = gates_of(name) * z.hidden;

	op_begin(name, opset);
	series(DIMS(z.seq, z.batch, z.in), 5);
	series(DIMS(z.dirs, rows, z.in), 7);
	series(DIMS(z.dirs, rows, z.hidden), 11);
	series(DIMS(z.dirs, 2 * rows), 13);
}

static void names(const char *list, uint32_t n)
{
	op_list("activations", list, n);
}

START_TEST(lstm_runs_in_both_directions_with_peepholes)
{
	struct size z = { 2, 2, 2, 2, 2 };

	begin("LSTM", 7, z);
	op_string("direction", both);
	op_int("hidden_size", 2);
	IN_S32(DIMS(2), 2, 1);
	series(state(z, false), 3);
	series(state(z, false), 6);
	series(DIMS(2, 6), 9);
	op_ok(3);
	WANT_F32(0, DIMS(2, 2, 2, 2), 0.075843f, -0.000715f, 0.163132f, 0.181254f, -0.332266f,
		 0.281625f, -0.235546f, 0.352582f, 0.215335f, 0.030575f, 0, 0, -0.113137f,
		 0.470781f, 0, 0);
	WANT_F32(1, DIMS(2, 2, 2), 0.215335f, 0.030575f, 0.163132f, 0.181254f, -0.332266f,
		 0.281625f, -0.235546f, 0.352582f);
	WANT_F32(2, DIMS(2, 2, 2), 0.327375f, 0.067880f, 0.185635f, 0.224154f, -0.556552f,
		 0.357578f, -0.596250f, 0.486932f);
}
END_TEST

/* The same sequences as with layout 0, with the batch first. */
START_TEST(lstm_takes_the_batch_first)
{
	struct size z = { 2, 2, 2, 1, 1 };
	float *x;

	begin("LSTM", 14, z);
	op_int("layout", 1);
	x = rig.call.in[0].data;
	for (int i = 0; i < 2; i++) {
		float swap = x[2 + i];

		x[2 + i] = x[4 + i];
		x[4 + i] = swap;
	}
	op_none();
	series(state(z, true), 3);
	series(state(z, true), 6);
	op_ok(3);
	WANT_F32(0, DIMS(2, 2, 1, 1), -0.141342f, -0.124140f, 0.083724f, 0.091158f);
	WANT_F32(1, DIMS(2, 1, 1), -0.124140f, 0.091158f);
	WANT_F32(2, DIMS(2, 1, 1), -0.241372f, 0.320292f);
}
END_TEST

/* Parameters go to the activations that take one, in order. */
START_TEST(lstm_clips_couples_gates_and_takes_parameters)
{
	struct size z = { 2, 1, 1, 1, 1 };

	begin("LSTM", 1, z);
	names("HardSigmoid\0Affine\0Elu", 3);
	OP_FLOATS("activation_alpha", 0.5f, 2.0f, 0.5f);
	OP_FLOATS("activation_beta", 0.25f, 0.125f);
	op_float("clip", 0.5f);
	op_int("input_forget", 1);
	op_none();
	series(state(z, false), 3);
	series(state(z, false), 6);
	series(DIMS(1, 3), 9);
	op_ok(3);
	WANT_F32(0, DIMS(2, 1, 1, 1), 0, -0.014538f);
	WANT_F32(2, DIMS(1, 1, 1), -0.146484f);
}
END_TEST

static void begin_gru(int64_t late)
{
	struct size z = { 3, 1, 2, 2, 1 };

	begin("GRU", 7, z);
	op_string("direction", "reverse");
	op_int("linear_before_reset", late);
	op_none();
	series(state(z, false), 3);
}

START_TEST(gru_resets_before_or_after_the_product)
{
	begin_gru(0);
	op_ok(2);
	WANT_F32(0, DIMS(3, 1, 1, 2), 0.021565f, -0.472139f, -0.265984f, -0.472347f, -0.145597f,
		 -0.291526f);
	WANT_F32(1, DIMS(1, 1, 2), 0.021565f, -0.472139f);

	begin_gru(1);
	op_ok(2);
	WANT_F32(0, DIMS(3, 1, 1, 2), -0.217664f, -0.503379f, -0.383888f, -0.492122f, -0.292301f,
		 -0.312276f);
}
END_TEST

START_TEST(gru_has_activations_for_each_direction)
{
	struct size z = { 2, 2, 1, 1, 2 };

	begin("GRU", 3, z);
	op_string("direction", both);
	names("Sigmoid\0Tanh\0Relu\0Softsign", 4);
	IN_S32(DIMS(2), 1, 2);
	series(state(z, false), 3);
	op_ok(2);
	WANT_F32(0, DIMS(2, 2, 2, 1), -0.279536f, -0.380471f, 0.152493f, -0.132398f, 0, -0.040486f,
		 0, 0.218321f);
	WANT_F32(1, DIMS(2, 2, 1), -0.279536f, -0.040486f, 0.152493f, -0.132398f);
}
END_TEST

START_TEST(rnn_sums_long_rows)
{
	struct size z = { 2, 1, 5, 2, 1 };

	begin("RNN", 7, z);
	op_none();
	series(state(z, false), 3);
	op_ok(2);
	WANT_F32(0, DIMS(2, 1, 1, 2), -0.230176f, 0.625735f, 0.913894f, 0.948030f);
	WANT_F32(1, DIMS(1, 1, 2), 0.913894f, 0.948030f);
}
END_TEST

START_TEST(every_activation_has_its_defaults)
{
	static const struct {
		const char *name;
		float y[3];
	} list[] = {
		{ "Affine", { 1.156250f, -0.347656f, 0.201660f } },
		{ "Elu", { 1.156250f, -0.293658f, 0.167911f } },
		{ "HardSigmoid", { 0.731250f, 0.483594f, 0.436426f } },
		{ "LeakyRelu", { 1.156250f, -0.003477f, -0.000135f } },
		{ "Relu", { 1.156250f, 0, 0 } },
		{ "ScaledTanh", { 0.819814f, -0.136526f, 0.069591f } },
		{ "Sigmoid", { 0.760651f, 0.474919f, 0.422517f } },
		{ "Softplus", { 1.429831f, 0.467079f, 0.551150f } },
		{ "Softsign", { 0.536232f, 0.038328f, -0.038073f } },
		{ "Tanh", { 0.819814f, -0.136526f, 0.069591f } },
		{ "ThresholdedRelu", { 1.156250f, 0, 0 } },
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		struct size z = { 3, 1, 1, 1, 1 };

		begin("RNN", 14, z);
		names(list[i].name, 1);
		op_none();
		series(state(z, false), 3);
		op_ok(1);
		op_want(0, RVL_TYPE_F32, DIMS(3, 1, 1, 1), list[i].y, 3);
	}
}
END_TEST

/* Parameters of the activations that take one or two of them. */
START_TEST(activations_use_their_parameters)
{
	op_begin("RNN", 7);
	names("ScaledTanh\0LeakyRelu", 2);
	OP_FLOATS("activation_alpha", 2.0f, 0.5f);
	OP_FLOATS("activation_beta", 0.5f);
	op_string("direction", both);
	IN_F32(DIMS(1, 1, 1), 1);
	IN_F32(DIMS(2, 1, 1), 1, -1);
	IN_F32(DIMS(2, 1, 1), 0, 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 1, 1), 2.0f * tanhf(0.5f), -0.5f);
}
END_TEST

START_TEST(clip_bounds_both_sides)
{
	op_begin("RNN", 7);
	names("Affine", 1);
	op_float("clip", 2.0f);
	IN_F32(DIMS(2, 1, 1), 5, -5);
	IN_F32(DIMS(1, 1, 1), 1);
	IN_F32(DIMS(1, 1, 1), 0);
	op_ok(2);
	WANT_F32(0, DIMS(2, 1, 1, 1), 2, -2);
}
END_TEST

START_TEST(an_empty_sequence_keeps_its_state)
{
	op_begin("RNN", 7);
	IN_F32(DIMS(1, 2, 1), 1, 0);
	IN_F32(DIMS(1, 1, 1), 1);
	IN_F32(DIMS(1, 1, 1), 1);
	op_none();
	IN_S32(DIMS(2), 0, 1);
	IN_F32(DIMS(1, 2, 1), 0.5f, 0);
	op_ok(2);
	WANT_F32(0, DIMS(1, 1, 2, 1), 0, 0);
	WANT_F32(1, DIMS(1, 2, 1), 0.5f, 0);

	op_begin("LSTM", 14);	/* no steps at all */
	IN_EMPTY(F32, DIMS(0, 1, 1));
	IN_F32(DIMS(1, 4, 1), 1, 1, 1, 1);
	IN_F32(DIMS(1, 4, 1), 1, 1, 1, 1);
	op_ok(3);
	WANT_EMPTY(0, F32, DIMS(0, 1, 1, 1));
	WANT_F32(1, DIMS(1, 1, 1), 0);
	WANT_F32(2, DIMS(1, 1, 1), 0);

	op_begin("LSTM", 14);	/* no hidden elements */
	IN_F32(DIMS(1, 1, 1), 1);
	IN_EMPTY(F32, DIMS(1, 0, 1));
	IN_EMPTY(F32, DIMS(1, 0, 0));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(1, 1, 1, 0));
}
END_TEST

static void begin_small(void)
{
	begin("LSTM", 14, (struct size) { 2, 1, 1, 1, 1 });
}

START_TEST(a_result_that_is_too_large_is_refused)
{
	op_begin("RNN", 14);
	IN_EMPTY(F32, DIMS(1LL << 20, 1LL << 20, 0));
	IN_EMPTY(F32, DIMS(1, 2, 0));
	IN_F32(DIMS(1, 2, 2), 0, 0, 0, 0);
	op_fails(1, "its result is too large");
}
END_TEST

START_TEST(lengths_are_checked)
{
	begin_small();
	IN_S32(DIMS(1), 3);
	op_fails(1, "sequence 0 has length 3, not 0 to 2");
	begin_small();
	IN_S32(DIMS(1), -1);
	op_fails(1, "sequence 0 has length -1, not 0 to 2");
}
END_TEST

START_TEST(attributes_are_checked)
{
	begin_small();
	op_int("hidden_size", 2);
	op_fails(1, "hidden_size is 2, but its input 2 is for 1");
	begin_small();
	names("Sigmoid\0Tanh", 2);
	op_fails(1, "it names only 2 activations");
	begin_small();
	names("Sigmoid\0Tanh\0Cosh", 3);
	op_fails(1, "there is no activation 'Cosh'");
	begin_small();
	op_string("direction", "up");
	op_fails(1, "attribute direction is 'up'");
}
END_TEST

/* Every operand in turn gets a shape that is one too long in one dimension. */
START_TEST(shapes_are_checked)
{
	static const char *const text[] = { "input 1 ", "input 1 ", "input 2 ", "input 3 ", "input 4 ",
					    "input 5 ", "input 6 ", "input 7 " };
	struct size z = { 2, 1, 1, 2, 1 };

	for (uint32_t i = 1; i < 8; i++) {
		begin("LSTM", 14, z);
		IN_S32(DIMS(1), 1);
		series(state(z, false), 3);
		series(state(z, false), 6);
		series(DIMS(1, 6), 9);
		rig.call.in[i].shape.dim[0]++;
		op_fails(3, "does not fit inputs 0 and 2");
		ck_assert_msg(strstr(rig.why, text[i]), "%s", rig.why);
	}
	begin_small();
	rig.call.in[0].shape.rank = 2;
	op_fails(1, "its inputs 0 and 2 have 2 and 3 dimensions, not 3");
	begin_small();
	rig.call.in[2].shape.rank = 2;
	op_fails(1, "its inputs 0 and 2 have 3 and 2 dimensions, not 3");
	begin_small();
	IN_F32(DIMS(1), 1);
	op_fails(1, "its input 4 is float32, not int32");
	begin_small();
	rig.call.in[3].type = RVL_TYPE_S32;
	op_fails(1, "its input 3 is int32, not float32");
}
END_TEST

/* W and R in bytes, as onnxruntime's tests of its quantiser lay them out: [direction, from, gates]. */
static void series_bytes(struct rvl_shape s, bool u8, int64_t step, int64_t mod, int64_t by)
{
	uint8_t v[64];
	int64_t n = rvl_shape_count(&s);

	ck_assert_int_le(n, 64);
	for (int64_t i = 0; i < n; i++)
		v[i] = (uint8_t)((i * step) % mod * by - (u8 ? 0 : 60));
	op_in(u8 ? RVL_TYPE_U8 : RVL_TYPE_S8, s, v, (size_t)n);
}

/* Two steps of one sequence of three values and two hidden ones. */
static void begin_quantised(bool u8, int64_t dirs)
{
	op_begin_in("com.microsoft", "DynamicQuantizeLSTM", 1);
	op_int("hidden_size", 2);
	if (dirs == 2)
		op_string("direction", both);
	series(DIMS(2, 1, 3), 5);
	series_bytes(DIMS(dirs, 3, 8), u8, 7, 23, 5);
	series_bytes(DIMS(dirs, 2, 8), u8, 11, 19, 6);
	series(DIMS(dirs, 16), 13);
	op_none();
	series(DIMS(dirs, 1, 2), 3);
	series(DIMS(dirs, 1, 2), 6);
	op_none();
}

/* The expectations are onnxruntime's. */
START_TEST(lstm_of_bytes_with_one_scale_for_each_direction)
{
	begin_quantised(true, 2);
	IN_F32(DIMS(2), 0.01f, 0.012f);
	IN_U8(DIMS(2), 57, 57);
	IN_F32(DIMS(2), 0.02f, 0.0195f);
	IN_U8(DIMS(2), 58, 58);
	op_ok(3);
	WANT_F32(0, DIMS(2, 2, 1, 2), 0.2676733f, 0.1817901f, -0.2487752f, 0.1886286f, 0.2954193f,
		 0.1349722f, -0.05676073f, 0.08294728f);
	WANT_F32(1, DIMS(2, 1, 2), 0.2954193f, 0.1349722f, -0.2487752f, 0.1886286f);
	WANT_F32(2, DIMS(2, 1, 2), 0.4095778f, 0.2660984f, -0.566707f, 0.2490774f);
}
END_TEST

START_TEST(lstm_of_bytes_with_a_scale_for_each_row)
{
	begin_quantised(false, 1);
	IN_F32(DIMS(1, 8), 0.010f, 0.012f, 0.014f, 0.016f, 0.018f, 0.020f, 0.022f, 0.024f);
	IN_S8(DIMS(1, 8), 0, 0, 0, 0, 0, 0, 0, 0);
	IN_F32(DIMS(1, 8), 0.02f, 0.0195f, 0.019f, 0.0185f, 0.018f, 0.0175f, 0.017f, 0.0165f);
	IN_S8(DIMS(1), 0);
	op_ok(3);
	WANT_F32(0, DIMS(2, 1, 1, 2), 0.2692773f, 0.1598013f, 0.2867538f, 0.1632374f);
	WANT_F32(1, DIMS(1, 1, 2), 0.2867538f, 0.1632374f);
	WANT_F32(2, DIMS(1, 1, 2), 0.3953973f, 0.349211f);
}
END_TEST

#define LONG 37
#define MOST_BATCH 300

/* @batch times a long sequence that is the same from both ends, through the same weights in both directions. */
static void run_long(int32_t batch, int32_t steps, float *y)
{
	static float x[LONG * MOST_BATCH * 3], state[2 * MOST_BATCH * 2];
	static int32_t lengths[MOST_BATCH];
	uint8_t w[2 * 3 * 8], r[2 * 2 * 8];

	for (int n = 0; n < LONG * batch; n++)
		for (int t = n / batch, i = 0; i < 3; i++)
			x[n * 3 + i] = (float)((t < LONG / 2 ? t : LONG - 1 - t) * (i + 5) % 11) / 8 - 0.5f;
	for (int i = 0; i < 4 * batch; i++)
		state[i] = i % 2 ? -0.2f : 0.1f;
	for (int b = 0; b < batch; b++)
		lengths[b] = steps;
	for (size_t i = 0; i < sizeof(w); i++)
		w[i] = (uint8_t)(i % 24 * 7 % 23 * 5);
	for (size_t i = 0; i < sizeof(r); i++)
		r[i] = (uint8_t)(i % 16 * 11 % 19 * 6);
	op_begin_in("com.microsoft", "DynamicQuantizeLSTM", 1);
	op_int("hidden_size", 2);
	op_string("direction", both);
	op_in(RVL_TYPE_F32, DIMS(LONG, batch, 3), x, (uint32_t)(LONG * batch * 3));
	op_in(RVL_TYPE_U8, DIMS(2, 3, 8), w, sizeof(w));
	op_in(RVL_TYPE_U8, DIMS(2, 2, 8), r, sizeof(r));
	op_none();
	op_in(RVL_TYPE_S32, DIMS(batch), lengths, (uint32_t)batch);
	op_in(RVL_TYPE_F32, DIMS(2, batch, 2), state, (uint32_t)(4 * batch));
	op_in(RVL_TYPE_F32, DIMS(2, batch, 2), state, (uint32_t)(4 * batch));
	op_none();
	IN_F32(DIMS(2), 0.01f, 0.01f);
	IN_U8(DIMS(2), 57, 57);
	IN_F32(DIMS(2), 0.02f, 0.02f);
	IN_U8(DIMS(2), 58, 58);
	op_ok(3);
	memcpy(y, rig.call.out[0].data, (size_t)(LONG * 4 * batch) * sizeof(*y));
}

/* The products of the inputs of several steps are computed together, whatever their number is. */
START_TEST(lstm_of_bytes_takes_the_steps_of_long_sequences_in_order)
{
	float all[LONG * 4], some[LONG * 4];

	run_long(1, LONG, all);
	for (int t = 0; t < LONG; t++) {
		ck_assert_mem_eq(all + t * 4, all + (LONG - 1 - t) * 4 + 2, 2 * sizeof(*all));
		ck_assert(!t || memcmp(all + t * 4, all + (t - 1) * 4, 2 * sizeof(*all)));
	}
	run_long(1, 5, some);
	for (int t = 0; t < 5; t++)
		ck_assert_mem_eq(some + t * 4, all + t * 4, 2 * sizeof(*all));
}
END_TEST

/* Many sequences have little memory each for products of their inputs, and the same results. */
START_TEST(lstm_of_bytes_takes_many_sequences_with_little_memory)
{
	static const int batches[] = { 2, 9, 100, 128, 129, MOST_BATCH };
	static float all[LONG * 4 * MOST_BATCH];
	float one[LONG * 4];

	run_long(1, LONG, one);
	for (size_t i = 0; i < sizeof(batches) / sizeof(*batches); i++) {
		int batch = batches[i];

		run_long(batch, LONG, all);
		for (int n = 0; n < LONG * 2 * batch; n++)
			ck_assert_mem_eq(all + n * 2, one + n / batch * 2, 2 * sizeof(*all));
	}
	/* For each of 2 directions 14 rows of state, and 4 gates of a step with their sums. */
	ck_assert_int_le(rig.call.def->scratch(&rig.call), MOST_BATCH * 2 * (14 + 4 * 2) * 2 * 4);
}
END_TEST

static void quantised_operands(void)
{
	begin_quantised(true, 1);
	IN_F32(DIMS(1), 0.01f);
	IN_U8(DIMS(1), 57);
	IN_F32(DIMS(1), 0.02f);
	IN_U8(DIMS(1), 58);
}

START_TEST(operands_of_the_lstm_of_bytes_are_checked)
{
	begin_quantised(true, 1);
	op_fails(1, "its input 8 is none, not float32");
	for (uint32_t i = 8; i < 12; i++) {
		char want[32];

		quantised_operands();
		rig.call.in[i].shape = RANK0;
		snprintf(want, sizeof(want), "its input %u has 1 values", i);
		op_fails(1, want);
	}
	quantised_operands();
	rig.call.in[8].shape = DIMS(1, 7);
	op_fails(1, "its input 8 has 7 values, neither one for each direction nor one for each row");
	quantised_operands();
	rig.call.in[9].type = RVL_TYPE_S8;
	op_fails(1, "its input 9 is int8, not uint8");
	quantised_operands();
	rig.call.in[10].type = RVL_TYPE_S32;
	op_fails(1, "its input 10 is int32, not float32");
	for (uint32_t i = 1; i < 3; i++) {
		quantised_operands();
		rig.call.in[i].shape.dim[2] = 7;
		op_fails(1, i == 1 ? "the shape of input 1 does not fit" :
				     "the shape of input 2 does not fit");
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_recurrent");
	TCase *t = add_case(s, "values", 10, NULL, NULL);

	tcase_add_test(t, lstm_runs_in_both_directions_with_peepholes);
	tcase_add_test(t, lstm_takes_the_batch_first);
	tcase_add_test(t, lstm_clips_couples_gates_and_takes_parameters);
	tcase_add_test(t, gru_resets_before_or_after_the_product);
	tcase_add_test(t, gru_has_activations_for_each_direction);
	tcase_add_test(t, rnn_sums_long_rows);
	tcase_add_test(t, every_activation_has_its_defaults);
	tcase_add_test(t, activations_use_their_parameters);
	tcase_add_test(t, clip_bounds_both_sides);
	tcase_add_test(t, an_empty_sequence_keeps_its_state);
	tcase_add_test(t, lstm_of_bytes_with_one_scale_for_each_direction);
	tcase_add_test(t, lstm_of_bytes_with_a_scale_for_each_row);
	tcase_add_test(t, lstm_of_bytes_takes_the_steps_of_long_sequences_in_order);
	tcase_add_test(t, lstm_of_bytes_takes_many_sequences_with_little_memory);

	t = add_case(s, "refusals", 10, NULL, NULL);
	tcase_add_test(t, a_result_that_is_too_large_is_refused);
	tcase_add_test(t, lengths_are_checked);
	tcase_add_test(t, attributes_are_checked);
	tcase_add_test(t, shapes_are_checked);
	tcase_add_test(t, operands_of_the_lstm_of_bytes_are_checked);
	return run_suite(s);
}

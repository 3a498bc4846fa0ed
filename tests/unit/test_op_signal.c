/* SPDX-License-Identifier: MIT */
/* Fourier transforms against their definition, windows, and lengths that are not valid. */
#include "op_rig.h"
#include "suite.h"

START_TEST(windows_have_their_formulas)
{
	op_begin("HannWindow", 17);
	OP_CONST(S32, int32_t, RANK0, 4);
	op_ok(1);
	WANT_F32(0, DIMS(4), 0, 0.5f, 1, 0.5f);

	op_begin("HammingWindow", 17);
	op_int("periodic", 0);
	CONST_S64(RANK0, 3);
	op_ok(1);
	WANT_F32(0, DIMS(3), 4.0f / 46, 1, 4.0f / 46);

	op_begin("BlackmanWindow", 17);
	CONST_S64(RANK0, 4);
	op_ok(1);
	WANT_F32(0, DIMS(4), 0, 0.34f, 1, 0.34f);

	op_begin("HannWindow", 17);	/* a single point is the middle */
	op_int("periodic", 0);
	op_int("output_datatype", 7);
	CONST_S64(DIMS(1), 1);
	op_ok(1);
	WANT_S64(0, DIMS(1), 1);

	op_begin("HannWindow", 17);
	CONST_S64(RANK0, 0);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(0));
}
END_TEST

START_TEST(windows_refuse_wrong_sizes)
{
	op_begin("HannWindow", 17);
	CONST_S64(RANK0, -1);
	op_fails(1, "its size is -1");
	op_begin("HannWindow", 17);
	CONST_S64(RANK0, (1 << 24) + 1);
	op_fails(1, "its size is 16777217");
	op_begin("HannWindow", 17);
	op_int("output_datatype", 8);
	CONST_S64(RANK0, 1);
	op_fails(1, "element type 8 of ONNX is not supported");
	op_begin("HannWindow", 17);
	op_const(RVL_TYPE_S64, DIMS(0), NULL, 0);
	op_fails(1, "its input 0 is empty");
	op_begin("HannWindow", 17);
	IN_S64(RANK0, 1);
	op_fails(1, "its input 0 must be a constant");
}
END_TEST

/* Element @k of the transform of @n complex numbers by the definition. */
static void defined(const float *x, int64_t n, int64_t k, double sign, double *re, double *im)
{
	*re = 0.0;
	*im = 0.0;
	for (int64_t i = 0; i < n; i++) {
		double a = sign * 2.0 * M_PI * (double)(i * k % n) / (double)n;

		*re += (double)x[2 * i] * cos(a) - (double)x[2 * i + 1] * sin(a);
		*im += (double)x[2 * i] * sin(a) + (double)x[2 * i + 1] * cos(a);
	}
}

static void check_length(int64_t n, bool inverse)
{
	float x[128];

	for (int64_t i = 0; i < 2 * n; i++)
		x[i] = (float)((i * 7 + 3) % 17 - 8) / 8.0f;
	op_begin("DFT", 20);
	op_int("inverse", inverse);
	op_in(RVL_TYPE_F32, DIMS(1, n, 2), x, (size_t)(2 * n));
	op_ok(1);
	for (int64_t k = 0; k < n; k++) {
		const float *y = (const float *)rig.call.out[0].data + 2 * k;
		double re, im, scale = inverse ? 1.0 / (double)n : 1.0;

		defined(x, n, k, inverse ? 1.0 : -1.0, &re, &im);
		ck_assert_msg(fabs((double)y[0] - re * scale) < 1e-5 &&
			      fabs((double)y[1] - im * scale) < 1e-5,
			      "%lld points: %g %g, not %g %g", (long long)n, (double)y[0],
			      (double)y[1], re * scale, im * scale);
	}
}

START_TEST(dft_follows_its_definition_for_every_length)
{
	for (int64_t n = 1; n <= 64; n++) {
		check_length(n, false);
		check_length(n, true);
	}
}
END_TEST

START_TEST(dft_cuts_pads_and_takes_any_axis)
{
	op_begin("DFT", 17);		/* axis 1; longer than the length */
	IN_F32(DIMS(1, 3, 1), 1, 2, 9);
	CONST_S64(RANK0, 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2), 3, 0, -1, 0);

	op_begin("DFT", 20);		/* shorter than the length, one side of the spectrum */
	op_int("onesided", 1);
	IN_F32(DIMS(1, 2, 1), 1, 2);
	OP_CONST(S32, int32_t, RANK0, 4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 3, 2), 3, 0, 1, -2, -1, 0);

	op_begin("DFT", 20);
	IN_F32(DIMS(2, 2, 1), 1, 2, 3, 5);
	op_none();
	CONST_S64(RANK0, 0);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2, 2), 4, 0, 7, 0, -2, 0, -3, 0);
}
END_TEST

START_TEST(a_onesided_inverse_is_real)
{
	op_begin("DFT", 20);
	op_int("inverse", 1);
	op_int("onesided", 1);
	/* values that a real signal cannot have are ignored */
	IN_F32(DIMS(1, 3, 2), 3, 9, 1, -2, -1, 9);
	op_ok(1);
	WANT_F32(0, DIMS(1, 4, 1), 1, 2, 0, 0);
}
END_TEST

/* A length that is known at run time only: the test sets the declared shape, as a model does. */
START_TEST(dft_takes_its_length_at_run_time)
{
	op_begin("DFT", 20);
	IN_F32(DIMS(1, 2, 1), 1, 2);
	IN_S64(RANK0, 3);
	ck_assert_int_ne(op_infer(1), 0);
	ck_assert(rig.call.unknown);
	rig.call.out[0].shape = DIMS(1, 3, 2);
	ck_assert_int_ge(rig.call.def->scratch(&rig.call), (3 * 8 + 3) * 16);
}
END_TEST

START_TEST(dft_refuses_what_it_cannot_transform)
{
	op_begin("DFT", 20);
	IN_F32(DIMS(1, 1, 3), 1, 2, 3);
	op_fails(1, "its last dimension is 3, not 1 or 2");
	op_begin("DFT", 17);
	op_int("axis", 2);
	IN_F32(DIMS(1, 1, 1), 1);
	op_fails(1, "its axis is that of the real and imaginary parts");
	op_begin("DFT", 17);
	op_int("axis", 3);
	IN_F32(DIMS(1, 1, 1), 1);
	op_fails(1, "axis 3 does not exist");
	op_begin("DFT", 20);
	IN_F32(DIMS(1, 1, 1), 1);
	CONST_S64(RANK0, 0);
	op_fails(1, "its length is 0");
	op_begin("DFT", 20);
	IN_F32(DIMS(1, 1, 1), 1);
	CONST_S64(RANK0, INT64_MAX);
	op_fails(1, "its length is 9223372036854775807");
}
END_TEST

START_TEST(stft_transforms_windowed_frames)
{
	op_begin("STFT", 17);
	IN_F32(DIMS(1, 5, 1), 1, 2, 3, 4, 5);
	CONST_S64(RANK0, 2);
	IN_F32(DIMS(2), 1, 0.5f);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2, 2), 2, 0, 0, 0, 5, 0, 1, 0);

	op_begin("STFT", 17);
	op_int("onesided", 0);
	IN_F32(DIMS(2, 2, 2), 1, 1, 2, 0, 0, 0, 3, 1);
	CONST_S64(RANK0, 1);
	op_none();
	CONST_S64(RANK0, 2);
	op_ok(1);
	WANT_F32(0, DIMS(2, 1, 2, 2), 3, 1, -1, 1, 3, 1, -3, -1);
}
END_TEST

static void begin_stft(int64_t step, int64_t frame)
{
	op_begin("STFT", 17);
	IN_F32(DIMS(1, 3, 1), 1, 2, 3);
	CONST_S64(RANK0, step);
	IN_F32(DIMS(2), 1, 1);
	CONST_S64(RANK0, frame);
}

START_TEST(stft_refuses_frames_that_do_not_fit)
{
	begin_stft(0, 2);
	op_fails(1, "its frames have 2 points in steps of 0");
	begin_stft(1, 4);
	op_fails(1, "its frames have 4 points in steps of 1");
	begin_stft(1, 0);
	op_fails(1, "its frames have 0 points in steps of 1");
	begin_stft(1, 3);
	op_fails(1, "its window has 2 points, its frames 3");

	op_begin("STFT", 17);
	IN_F32(DIMS(1, 1), 1);
	CONST_S64(RANK0, 1);
	op_fails(1, "its signal does not have three dimensions, the last of 1 or 2");
	op_begin("STFT", 17);
	IN_F32(DIMS(1, 1, 1), 1);
	CONST_S64(RANK0, 1);
	IN_F32(RANK0, 1);
	op_fails(1, "its window has 0 dimensions, not 1");
}
END_TEST

static void begin_mel(int64_t bins, int64_t length, float low, float high)
{
	op_begin("MelWeightMatrix", 17);
	CONST_S64(RANK0, bins);
	CONST_S64(RANK0, length);
	CONST_S64(RANK0, 8192);
	IN_F32(RANK0, low);
	IN_F32(RANK0, high);
}

START_TEST(mel_weights_are_triangles)
{
	begin_mel(2, 8, 0, 4096);	/* lines 0, 0, 1, 2 */
	op_ok(1);
	WANT_F32(0, DIMS(5, 2), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0);
}
END_TEST

START_TEST(mel_weights_refuse_what_is_outside)
{
	begin_mel(1, 8, 0, 1e6f);
	op_fails(1, "bin 0 lies outside the 5 lines of the spectrum");
	begin_mel(1, 8, NAN, 0);
	op_fails(1, "bin 0 lies outside");
	begin_mel(0, 8, 0, 1);
	op_fails(1, "its input 0 is 0");
	begin_mel(1, (1 << 24) + 1, 0, 1);
	op_fails(1, "its input 1 is 16777217");
	begin_mel(1, 8, 0, 1);
	op_int("output_datatype", 8);
	op_fails(1, "element type 8 of ONNX is not supported");
	begin_mel(1, 8, 0, 1);
	rig.call.in[3].shape = DIMS(0);
	op_fails(1, "its edges are not one number each");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_signal");
	TCase *t = add_case(s, "signal", 10, NULL, NULL);

	tcase_add_test(t, windows_have_their_formulas);
	tcase_add_test(t, windows_refuse_wrong_sizes);
	tcase_add_test(t, dft_follows_its_definition_for_every_length);
	tcase_add_test(t, dft_cuts_pads_and_takes_any_axis);
	tcase_add_test(t, a_onesided_inverse_is_real);
	tcase_add_test(t, dft_takes_its_length_at_run_time);
	tcase_add_test(t, dft_refuses_what_it_cannot_transform);
	tcase_add_test(t, stft_transforms_windowed_frames);
	tcase_add_test(t, stft_refuses_frames_that_do_not_fit);
	tcase_add_test(t, mel_weights_are_triangles);
	tcase_add_test(t, mel_weights_refuse_what_is_outside);
	return run_suite(s);
}

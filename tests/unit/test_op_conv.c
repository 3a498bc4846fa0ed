// SPDX-License-Identifier: MIT
/* Convolutions of the table of operators. */
#include "op_rig.h"
#include "suite.h"

START_TEST(conv_of_one_dimension)
{
	op_begin("Conv", 22);
	OP_INTS("strides", 2);
	OP_INTS("pads", 1, 0);
	OP_INTS("dilations", 2);
	IN_F32(DIMS(1, 1, 6), 1, 2, 3, 4, 5, 6);
	IN_F32(DIMS(2, 1, 2), 1, 10, 0, -1);
	IN_F32(DIMS(2), 0.5, 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 3), 20.5, 42.5, 64.5, -2, -4, -6);
}
END_TEST

START_TEST(conv_of_three_dimensions_in_groups)
{
	op_begin("Conv", 11);
	op_int("group", 2);
	OP_INTS("kernel_shape", 1, 2, 1);
	IN_F32(DIMS(1, 4, 1, 2, 1), 1, 2, 3, 4, 5, 6, 7, 8);
	IN_F32(DIMS(2, 2, 1, 2, 1), 1, 1, 1, 1, 1, 0, 0, 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 1, 1, 1), 10, 21);
}
END_TEST

/* Each image of the batch has its own rows. */
START_TEST(conv_of_a_batch)
{
	op_begin("Conv", 1);
	op_string("auto_pad", "SAME_LOWER");
	IN_F32(DIMS(2, 1, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8);
	IN_F32(DIMS(1, 1, 2, 1), 1, 10);
	op_ok(1);
	WANT_F32(0, DIMS(2, 1, 2, 2), 10, 20, 31, 42, 50, 60, 75, 86);
}
END_TEST

/* ---- random transposed convolutions ---- */

struct transposed {
	int64_t images, group, cg, mg;
	int64_t n[2], k[2], stride[2], dilation[2], pad[4], extra[2], out[2];
	float *x, *w, *bias;
};

static float *random_floats(int64_t n)
{
	float *v = malloc((size_t)n * sizeof(*v));

	ck_assert_ptr_nonnull(v);
	for (int64_t i = 0; i < n; i++)
		v[i] = (float)(rand() % 2001 - 1000) / 128;
	return v;
}

static void random_axis(struct transposed *t, int i)
{
	t->n[i] = 1 + rand() % (rand() % 10 ? 9 : 120);
	t->k[i] = 1 + rand() % 4;
	t->stride[i] = 1 + rand() % 3;
	t->dilation[i] = 1 + rand() % 2;
	t->extra[i] = rand() % (int)t->stride[i];
	t->out[i] = (t->n[i] - 1) * t->stride[i] + (t->k[i] - 1) * t->dilation[i] + 1 + t->extra[i];
	t->pad[i] = rand() % 3;
	t->pad[i + 2] = rand() % 3;
	if (t->pad[i] + t->pad[i + 2] >= t->out[i])
		t->pad[i] = t->pad[i + 2] = 0;
	t->out[i] -= t->pad[i] + t->pad[i + 2];
}

static struct transposed random_transposed(void)
{
	struct transposed t = { .images = 1 + rand() % 2, .group = 1 + rand() % 3,
				.cg = 1 + rand() % (rand() % 4 ? 6 : 400), .mg = 1 + rand() % 5 };

	random_axis(&t, 0);
	random_axis(&t, 1);
	t.x = random_floats(t.images * t.group * t.cg * t.n[0] * t.n[1]);
	t.w = random_floats(t.group * t.cg * t.mg * t.k[0] * t.k[1]);
	t.bias = random_floats(t.group * t.mg);
	return t;
}

/* Adds what element (@y, @x) of input plane @from makes of the kernel at @w, or its absolute value. */
static void spread(const struct transposed *t, const float *from, const float *w, int64_t y, int64_t x,
		   double *sum, double *size)
{
	for (int64_t ky = 0; ky < t->k[0]; ky++) {
		for (int64_t kx = 0; kx < t->k[1]; kx++) {
			int64_t oy = y * t->stride[0] + ky * t->dilation[0] - t->pad[0];
			int64_t ox = x * t->stride[1] + kx * t->dilation[1] - t->pad[1];
			double v = (double)from[y * t->n[1] + x] * (double)w[ky * t->k[1] + kx];

			if (oy < 0 || oy >= t->out[0] || ox < 0 || ox >= t->out[1])
				continue;
			sum[oy * t->out[1] + ox] += v;
			size[oy * t->out[1] + ox] += fabs(v);
		}
	}
}

/* Asserts that output plane @m of group @g of image @i is close to the sum in float64. */
static void check_plane(const struct transposed *t, int64_t i, int64_t g, int64_t m, const float *y)
{
	int64_t in = t->n[0] * t->n[1], out = t->out[0] * t->out[1], taps = t->k[0] * t->k[1], bad = 0;
	double *sum = calloc((size_t)out, sizeof(*sum)), *size = calloc((size_t)out, sizeof(*size));
	double bias = (double)t->bias[g * t->mg + m];

	ck_assert(sum && size);
	for (int64_t c = 0; c < t->cg; c++)
		for (int64_t e = 0; e < in; e++)
			spread(t, t->x + ((i * t->group + g) * t->cg + c) * in,
			       t->w + ((g * t->cg + c) * t->mg + m) * taps, e / t->n[1], e % t->n[1],
			       sum, size);
	for (int64_t e = 0; e < out; e++)
		bad += !(fabs((double)y[e] - sum[e] - bias) <= 1e-5 * (size[e] + fabs(bias)));
	free(sum);
	free(size);
	ck_assert_int_eq(bad, 0);
}

START_TEST(conv_transpose_of_random_shapes)
{
	srand(11);
	for (int n = 0; n < 60; n++) {
		struct transposed t = random_transposed();
		int64_t planes = t.group * t.mg, out = t.out[0] * t.out[1];

		op_begin("ConvTranspose", 22);
		op_int("group", t.group);
		op_list("strides", t.stride, 2);
		op_list("dilations", t.dilation, 2);
		op_list("pads", t.pad, 4);
		op_list("output_padding", t.extra, 2);
		op_in(RVL_TYPE_F32, DIMS(t.images, t.group * t.cg, t.n[0], t.n[1]), t.x,
		      (size_t)(t.images * t.group * t.cg * t.n[0] * t.n[1]));
		(rand() % 2 ? op_in : op_const)(RVL_TYPE_F32, DIMS(t.group * t.cg, t.mg, t.k[0], t.k[1]), t.w,
						(size_t)(t.group * t.cg * t.mg * t.k[0] * t.k[1]));
		op_in(RVL_TYPE_F32, DIMS(planes), t.bias, (size_t)planes);
		op_ok(1);
		for (int64_t p = 0; p < t.images * planes; p++)
			check_plane(&t, p / planes, p % planes / t.mg, p % t.mg,
				    (const float *)rig.call.out[0].data + p * out);
		free(t.x);
		free(t.w);
		free(t.bias);
	}
}
END_TEST

START_TEST(conv_transpose)
{
	op_begin("ConvTranspose", 22);
	OP_INTS("strides", 2);
	IN_F32(DIMS(1, 1, 3), 1, 2, 3);
	IN_F32(DIMS(1, 2, 3), 1, 10, 100, 0, 0, -1);
	IN_F32(DIMS(2), 0, 0.5);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 7), 1, 10, 102, 20, 203, 30, 300, 0.5, 0.5, -0.5, 0.5, -1.5, 0.5,
		 -2.5);

	op_begin("ConvTranspose", 11);
	OP_INTS("strides", 2);
	OP_INTS("pads", 1, 2);
	OP_INTS("output_padding", 1);
	OP_INTS("dilations", 2);
	IN_F32(DIMS(1, 1, 3), 1, 2, 3);
	IN_F32(DIMS(1, 1, 2), 1, 10);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 5), 0, 12, 0, 23, 0);
}
END_TEST

START_TEST(conv_transpose_in_groups)
{
	op_begin("ConvTranspose", 1);
	op_int("group", 2);
	IN_F32(DIMS(2, 4, 1), 1, 2, 3, 4, 5, 6, 7, 8);
	IN_F32(DIMS(4, 1, 1), 1, 10, 1, 10);
	op_ok(1);
	WANT_F32(0, DIMS(2, 2, 1), 21, 43, 65, 87);

	op_begin("ConvTranspose", 1);
	op_int("group", 2);
	IN_F32(DIMS(1, 2, 1), 1, 2);
	IN_F32(DIMS(2, 2, 1), 1, 10, 100, 1000);
	op_ok(1);
	WANT_F32(0, DIMS(1, 4, 1), 1, 10, 200, 2000);
}
END_TEST

static void transpose_of_two(void)
{
	static const int64_t two[] = { 2 };

	op_begin("ConvTranspose", 11);
	op_list("strides", two, 1);
	IN_F32(DIMS(1, 1, 2), 1, 2);
	IN_F32(DIMS(1, 1, 3), 1, 10, 100);
}

/* The whole result is 1 10 102 20 200. */
START_TEST(conv_transpose_pads)
{
	static const int64_t four[] = { 4 }, whole[] = { 1, 1, 6 }, ones[] = { 1, 1 };

	transpose_of_two();
	op_string("auto_pad", "SAME_UPPER");
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 4), 1, 10, 102, 20);

	transpose_of_two();
	op_string("auto_pad", "SAME_LOWER");
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 4), 10, 102, 20, 200);

	/* A kernel below its stride: onnxruntime does not fill up to twice the input. */
	for (int i = 0; i < 2; i++) {
		op_begin("ConvTranspose", 22);
		op_string("auto_pad", i ? "SAME_UPPER" : "SAME_LOWER");
		OP_INTS("strides", 3);
		IN_F32(DIMS(1, 1, 2), 1, 2);
		IN_F32(DIMS(1, 1, 2), 1, 10);
		op_ok(1);
		WANT_F32(0, DIMS(1, 1, 5), 1, 10, 0, 2, 20);
	}

	transpose_of_two();
	op_list("output_shape", four, 1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 4), 10, 102, 20, 200);

	transpose_of_two();
	op_list("output_shape", whole, 3);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 6), 1, 10, 102, 20, 200, 0);

	transpose_of_two();
	op_list("pads", ones, 2);
	op_string("auto_pad", "VALID");
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 5), 1, 10, 102, 20, 200);
}
END_TEST

START_TEST(conv_transpose_of_two_dimensions)
{
	op_begin("ConvTranspose", 11);
	OP_INTS("strides", 2, 1);
	IN_F32(DIMS(1, 1, 2, 1), 1, 2);
	IN_F32(DIMS(1, 1, 2, 2), 1, 2, 3, 4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 4, 2), 1, 2, 3, 4, 2, 4, 6, 8);
}
END_TEST

/* Rows of more than one piece: each element of the input reaches across their border. */
START_TEST(conv_transpose_of_long_rows)
{
	enum { N = 300 };
	static float x[N];

	for (int i = 0; i < N; i++)
		x[i] = (float)i;
	op_begin("ConvTranspose", 11);
	OP_INTS("strides", 3);
	op_in(RVL_TYPE_F32, DIMS(1, 1, N), x, N);
	IN_F32(DIMS(1, 1, 4), 1, 2, 3, 4);
	op_ok(1);
	ck_assert_int_eq(rig.call.out[0].shape.dim[2], 3 * N + 1);
	for (int i = 0; i <= 3 * N; i++) {
		float want = i < 3 * N ? (float)(i / 3 * (i % 3 + 1)) : 0;

		if (i % 3 == 0 && i)
			want += 4 * (float)(i / 3 - 1);
		ck_assert_float_eq(((float *)rig.call.out[0].data)[i], want);
	}
}
END_TEST

static void small_conv(const char *op)
{
	op_begin(op, 11);
	IN_F32(DIMS(1, 2, 3), 1, 2, 3, 4, 5, 6);
	IN_F32(DIMS(2, 2, 1), 1, 2, 3, 4);
}

START_TEST(float_errors)
{
	static const char *const op[] = { "Conv", "ConvTranspose" };

	for (int i = 0; i < 2; i++) {
		small_conv(op[i]);
		op_int("group", 0);
		op_fails(1, "weights do not fit input, output and group");
		small_conv(op[i]);
		op_int("group", 3);
		op_fails(1, "weights do not fit input, output and group");
		small_conv(op[i]);
		op_int("group", INT64_MAX);
		op_fails(1, "weights do not fit input, output and group");
		small_conv(op[i]);
		IN_F32(DIMS(1), 0);
		op_fails(1, "bias has not one value per output channel");
		small_conv(op[i]);
		IN_F32(DIMS(1, 2), 0, 1);
		op_fails(1, "bias has not one value per output channel");
		op_begin(op[i], 11);
		IN_F32(DIMS(1, 1), 1);
		IN_F32(DIMS(1, 1), 1);
		op_fails(1, "its input has no spatial dimensions");
		op_begin(op[i], 11);
		IN_F32(DIMS(1, 1, 1), 1);
		IN_F32(DIMS(1, 1, 1, 1), 1);
		op_fails(1, "its weights have 4 dimensions, its input 3");
		op_begin(op[i], 11);
		IN_F32(DIMS(1, 1, 1), 1);
		IN_EMPTY(F32, DIMS(1, 1, 0));
		op_fails(1, "kernel_shape and the weights' shape disagree");
		op_begin(op[i], 11);
		OP_INTS("kernel_shape", 2);
		IN_F32(DIMS(1, 1, 1), 1);
		IN_F32(DIMS(1, 1, 1), 1);
		op_fails(1, "kernel_shape and the weights' shape disagree");
	}
}
END_TEST

START_TEST(conv_transpose_errors)
{
	static const int64_t list[] = { -1, 2, 3 };
	static const int64_t pads[] = { 3, 3 };

	transpose_of_two();
	op_list("output_shape", list, 1);
	op_fails(1, "attribute output_shape has the value -1");
	transpose_of_two();
	op_list("output_shape", list, 2);
	op_fails(1, "attribute output_shape has 2 values, not 1");
	transpose_of_two();
	op_list("output_padding", list, 1);
	op_fails(1, "attribute output_padding has the value -1");
	transpose_of_two();
	op_list("pads", pads, 2);
	op_fails(1, "its padding of 6 is larger than the result of 5");
}
END_TEST

START_TEST(empty_tensors)
{
	op_begin("Conv", 22);
	IN_EMPTY(F32, DIMS(0, 1, 3));
	IN_F32(DIMS(2, 1, 1), 1, 2);
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(0, 2, 3));

	/* Without input channels the result is the bias. */
	op_begin("Conv", 22);
	IN_EMPTY(F32, DIMS(1, 0, 2));
	IN_EMPTY(F32, DIMS(1, 0, 1));
	IN_F32(DIMS(1), 4);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 2), 4, 4);

	op_begin("ConvTranspose", 22);
	IN_F32(DIMS(1, 1, 2), 1, 2);
	IN_EMPTY(F32, DIMS(1, 0, 1));
	op_ok(1);
	WANT_EMPTY(0, F32, DIMS(1, 0, 2));
}
END_TEST

START_TEST(conv_integer)
{
	op_begin("ConvInteger", 10);
	OP_INTS("pads", 1, 0);
	IN_U8(DIMS(1, 1, 3), 255, 0, 3);
	IN_S8(DIMS(2, 1, 2), -128, 127, 1, 0);
	IN_U8(RANK0, 1);
	IN_S8(DIMS(2), 0, 1);
	op_ok(1);
	WANT_S32(0, DIMS(1, 2, 3), 127 * 254, -128 * 254 - 127, 128 + 254, -254, 1, -2);

	op_begin("ConvInteger", 10);
	IN_S8(DIMS(1, 1, 2), -128, 127);
	IN_U8(DIMS(1, 1, 1), 255);
	op_none();
	IN_U8(DIMS(1), 5);
	op_ok(1);
	WANT_S32(0, DIMS(1, 1, 2), -32000, 31750);

	op_begin("ConvInteger", 10);
	IN_S8(DIMS(1, 1, 1), 3);
	IN_S8(DIMS(2, 1, 1), 4, 5);
	IN_S8(DIMS(2), 0, 1);
	op_fails(1, "its input 2 has 2 values, not 1");
	op_begin("ConvInteger", 10);
	IN_S8(DIMS(1, 1, 1), -90);
	IN_S8(DIMS(1, 1, 1), -97);
	IN_S8(RANK0, -100);
	IN_S8(RANK0, -100);
	op_ok(1);
	WANT_S32(0, DIMS(1, 1, 1), 30);
	op_begin("ConvInteger", 10);
	IN_U8(DIMS(1, 1, 1), 210);
	IN_U8(DIMS(1, 1, 1), 203);
	IN_U8(RANK0, 200);
	IN_U8(RANK0, 200);
	op_ok(1);
	WANT_S32(0, DIMS(1, 1, 1), 30);
	op_begin("ConvInteger", 10);
	IN_S8(DIMS(1, 1, 1), 3);
	IN_S8(DIMS(2, 1, 1), 4, 5);
	op_none();
	IN_S8(DIMS(3), 0, 1, 2);
	op_fails(1, "its input 3 has 3 values for 2 output channels");
}
END_TEST

/* Sums beyond 2^24 over several blocks of channels, two groups, a stride; weights constant or not. */
START_TEST(long_conv_integer)
{
	enum { C = 200, M = 9, SIDE = 5, OUT = 3, TAPS = 9, G = 2 };
	static uint8_t x[G * C * SIDE * SIDE], w[G * M * C * TAPS], z[G * M];
	static int32_t y[G * M * OUT * OUT];

	for (int i = 0; i < G * C * SIDE * SIDE; i++)
		x[i] = i % 6 ? 254 : (uint8_t)i;
	for (int i = 0; i < G * M * C * TAPS; i++)
		w[i] = i % 5 ? 255 - i % 3 : (uint8_t)i;
	for (int m = 0; m < G * M; m++)
		z[m] = (uint8_t)(m % 3);
	for (int i = 0; i < G * M * OUT * OUT; i++) {
		int m = i / (OUT * OUT), oy = i / OUT % OUT, ox = i % OUT;

		for (int k = 0; k < C * TAPS; k++) {
			int iy = 2 * oy - 1 + k % TAPS / 3, ix = 2 * ox - 1 + k % 3;
			int at = ((m / M * C + k / TAPS) * SIDE + iy) * SIDE + ix;

			if (iy >= 0 && iy < SIDE && ix >= 0 && ix < SIDE)
				y[i] += (x[at] - 3) * (w[m * C * TAPS + k] - z[m]);
		}
	}
	ck_assert_int_gt(y[4], 1 << 24);
	op_begin("ConvInteger", 10);
	op_int("group", G);
	OP_INTS("pads", 1, 1, 1, 1);
	OP_INTS("strides", 2, 2);
	op_in(RVL_TYPE_U8, DIMS(1, G * C, SIDE, SIDE), x, G * C * SIDE * SIDE);
	(_i ? op_const : op_in)(RVL_TYPE_U8, DIMS(G * M, C, 3, 3), w, G * M * C * TAPS);
	IN_U8(RANK0, 3);
	(_i ? op_const : op_in)(RVL_TYPE_U8, DIMS(G * M), z, G * M);
	op_ok(1);
	op_want(0, RVL_TYPE_S32, DIMS(1, G * M, OUT, OUT), y, G * M * OUT * OUT);
}
END_TEST

/* One product, requantised: the scales are 0.5, 1 and 2, and 0.25. */
static void qlinear(enum rvl_type result)
{
	op_begin("QLinearConv", 10);
	IN_U8(DIMS(1, 1, 3), 10, 20, 255);
	IN_F32(RANK0, 0.5);
	IN_U8(RANK0, 10);
	IN_S8(DIMS(2, 1, 1), 1, -1);
	IN_F32(DIMS(2), 1, 0.25);
	IN_S8(DIMS(2), 0, 1);
	IN_F32(DIMS(1), 0.5);
	op_in(result, DIMS(1), "\x7f", 1);
}

START_TEST(qlinear_conv)
{
	qlinear(RVL_TYPE_U8);
	op_ok(1);
	WANT_U8(0, DIMS(1, 2, 3), 127, 137, 255, 127, 122, 5);

	qlinear(RVL_TYPE_S8);
	IN_S32(DIMS(2), -1, 6);
	op_ok(1);
	WANT_S8(0, DIMS(1, 2, 3), 126, 127, 127, 127, 123, 6);
}
END_TEST

/* Proves that each zero point is read in its own type: 200 and -100 have the same sign bit. */
START_TEST(qlinear_zero_points)
{
	op_begin("QLinearConv", 10);
	IN_U8(DIMS(1, 1, 2), 210, 190);
	IN_F32(RANK0, 1);
	IN_U8(RANK0, 200);
	IN_U8(DIMS(1, 1, 1), 203);
	IN_F32(RANK0, 1);
	IN_U8(RANK0, 200);
	IN_F32(RANK0, 1);
	IN_U8(RANK0, 210);
	op_ok(1);
	WANT_U8(0, DIMS(1, 1, 2), 240, 180);

	op_begin("QLinearConv", 10);
	IN_S8(DIMS(1, 1, 2), -90, -110);
	IN_F32(RANK0, 1);
	IN_S8(RANK0, -100);
	IN_S8(DIMS(1, 1, 1), -97);
	IN_F32(RANK0, 1);
	IN_S8(RANK0, -100);
	IN_F32(RANK0, 1);
	IN_S8(RANK0, -50);
	op_ok(1);
	WANT_S8(0, DIMS(1, 1, 2), -20, -80);
}
END_TEST

START_TEST(qlinear_conv_errors)
{
	qlinear(RVL_TYPE_BOOL);
	op_fails(1, "its input 7 is bool, not uint8 or int8");
	qlinear(RVL_TYPE_S8);
	IN_F32(DIMS(2), -1, 6);
	op_fails(1, "its bias is float32, not int32");
	qlinear(RVL_TYPE_S8);
	IN_S32(DIMS(1), -1);
	op_fails(1, "bias has not one value per output channel");
	qlinear(RVL_TYPE_S8);
	rig.call.in[4].type = RVL_TYPE_S32;
	op_fails(1, "its input 4 is int32, not float32");
	qlinear(RVL_TYPE_S8);
	rig.call.in[6].shape.dim[0] = 2;
	op_fails(1, "its input 6 has 2 values, not 1");
	qlinear(RVL_TYPE_S8);
	rig.call.in[5].shape.dim[0] = 3;
	op_fails(1, "its input 5 has 3 values for 2 output channels");
}
END_TEST

static void fused(const char *activation)
{
	op_begin_in("com.microsoft", "FusedConv", 1);
	op_string("activation", activation);
	IN_F32(DIMS(1, 1, 3), -2, 0.5, 4);
	IN_F32(DIMS(1, 1, 1), 1);
}

START_TEST(fused_conv)
{
	fused("Relu");
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3), 0, 0.5, 4);
	fused("Tanh");
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3), -0.96402758f, 0.46211716f, 0.9993293f);
	fused("Sigmoid");
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3), 0.11920292f, 0.62245933f, 0.98201379f);
	fused("LeakyRelu");
	OP_FLOATS("activation_params", 0.25);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3), -0.5, 0.5, 4);
	fused("Clip");
	OP_FLOATS("activation_params", -1, 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3), -1, 0.5, 2);
	fused("HardSigmoid");
	OP_FLOATS("activation_params", 0.5, 0.25);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3), 0, 0.5, 1);

	fused("Relu");
	op_none();
	IN_F32(DIMS(1, 1, 3), 1, 1, -1);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3), 0, 1.5, 3);

	fused("Relu");
	OP_FLOATS("activation_params", 0.5);
	op_fails(1, "activation Relu takes 0 numbers, there are 1");
	fused("Clip");
	OP_FLOATS("activation_params", 0.5);
	op_fails(1, "activation Clip takes 2 numbers, there are 1");
	fused("Relu");
	op_none();
	IN_F32(DIMS(1, 1, 2), 1, 1);
	op_fails(1, "its input 3 does not have the shape of its output");
}
END_TEST

/* The offset of each tap moves it between elements, and out of the image. */
START_TEST(deform_conv_of_one_dimension)
{
	op_begin("DeformConv", 22);
	IN_F32(DIMS(1, 2, 3), 1, 2, 4, 10, 20, 40);
	IN_F32(DIMS(1, 2, 1), 1, 1);
	IN_F32(DIMS(1, 2, 3), 0, 0.5, 0.5, -0.5, -5, 1);
	IN_F32(DIMS(1), 1);
	IN_F32(DIMS(1, 2, 3), 1, 1, 2, 1, 1, 0.5);
	op_int("offset_group", 2);
	op_ok(1);
	WANT_F32(0, DIMS(1, 1, 3), 7, 4, 5);
}
END_TEST

START_TEST(deform_conv_in_groups)
{
	op_begin("DeformConv", 19);
	op_int("group", 2);
	OP_INTS("kernel_shape", 1, 2);
	OP_INTS("dilations", 1, 2);
	OP_INTS("pads", 0, 1, 0, 0);
	IN_F32(DIMS(1, 2, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8);
	IN_F32(DIMS(2, 1, 1, 2), 1, 10, 1, 100);
	/* Both taps move down by a half; the second one of the first row also left by one. */
	IN_F32(DIMS(1, 4, 2, 1), 0.5, 0.5, 0, 0, 0.5, 0.5, -1, 0);
	op_ok(1);
	WANT_F32(0, DIMS(1, 2, 2, 1), 20, 20, 600, 400);
}
END_TEST

START_TEST(deform_conv_survives_any_offset)
{
	static const float offset[] = { NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 2.99999f };

	for (int i = 0; i < 6; i++) {
		op_begin("DeformConv", 22);
		IN_F32(DIMS(1, 1, 3), 1, 2, 4);
		IN_F32(DIMS(1, 1, 1), 1);
		op_in(RVL_TYPE_F32, DIMS(1, 1, 3), (const float[]) { offset[i], 0, 0 }, 3);
		op_ok(1);
		ck_assert_float_eq_tol(((float *)rig.call.out[0].data)[0], 0, 1e-4);
		ck_assert_float_eq(((float *)rig.call.out[0].data)[2], 4);
	}
}
END_TEST

/* More output channels than are summed at a time. */
START_TEST(deform_conv_of_many_channels)
{
	static float w[70];

	for (int i = 0; i < 70; i++)
		w[i] = (float)i;
	op_begin("DeformConv", 22);
	IN_F32(DIMS(1, 1, 2), 1, 2);
	op_in(RVL_TYPE_F32, DIMS(70, 1, 1), w, 70);
	IN_F32(DIMS(1, 1, 2), 0, 0);
	op_ok(1);
	for (int i = 0; i < 70; i++)
		ck_assert_float_eq(((float *)rig.call.out[0].data)[2 * i + 1], 2 * (float)i);
}
END_TEST

static void deform_with(int64_t offsets, int64_t og)
{
	static const float zero[8];

	op_begin("DeformConv", 22);
	op_int("offset_group", og);
	IN_F32(DIMS(1, 2, 2), 1, 2, 3, 4);
	IN_F32(DIMS(1, 2, 1), 1, 2);
	op_in(RVL_TYPE_F32, DIMS(1, offsets, 2), zero, (size_t)(2 * offsets));
}

START_TEST(deform_conv_errors)
{
	deform_with(3, 2);
	op_fails(1, "the shape of its input 2 does not fit window and groups");
	deform_with(2, 1);
	op_fails(1, "the shape of its input 2 does not fit window and groups");
	deform_with(3, 3);
	op_fails(1, "2 channels are not divided by 3 groups of offsets");
	deform_with(3, 0);
	op_fails(1, "2 channels are not divided by 0 groups of offsets");
	deform_with(1, 1);
	op_int("group", 2);
	op_fails(1, "weights do not fit input, output and group");
	deform_with(1, 1);
	IN_F32(DIMS(2), 1, 1);
	op_fails(1, "bias has not one value per output channel");
	deform_with(1, 1);
	op_none();
	IN_F32(DIMS(1, 1, 1), 1);
	op_fails(1, "the shape of its input 4 does not fit window and groups");
	op_begin("DeformConv", 22);
	IN_F32(DIMS(1, 1, 1), 1);
	IN_F32(DIMS(1, 1, 1, 1), 1);
	IN_F32(DIMS(1, 1, 1), 1);
	op_fails(1, "its weights have 4 dimensions, its input 3");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("op_conv");
	TCase *t = add_case(s, "all", 20, NULL, NULL);

	tcase_add_checked_fixture(t, NULL, op_end);
	tcase_add_test(t, conv_of_one_dimension);
	tcase_add_test(t, conv_of_three_dimensions_in_groups);
	tcase_add_test(t, conv_of_a_batch);
	tcase_add_test(t, conv_transpose);
	tcase_add_test(t, conv_transpose_in_groups);
	tcase_add_test(t, conv_transpose_of_random_shapes);
	tcase_add_test(t, conv_transpose_pads);
	tcase_add_test(t, conv_transpose_of_two_dimensions);
	tcase_add_test(t, conv_transpose_of_long_rows);
	tcase_add_test(t, float_errors);
	tcase_add_test(t, conv_transpose_errors);
	tcase_add_test(t, empty_tensors);
	tcase_add_test(t, conv_integer);
	tcase_add_loop_test(t, long_conv_integer, 0, 2);
	tcase_add_test(t, qlinear_conv);
	tcase_add_test(t, qlinear_zero_points);
	tcase_add_test(t, qlinear_conv_errors);
	tcase_add_test(t, fused_conv);
	tcase_add_test(t, deform_conv_of_one_dimension);
	tcase_add_test(t, deform_conv_in_groups);
	tcase_add_test(t, deform_conv_survives_any_offset);
	tcase_add_test(t, deform_conv_of_many_channels);
	tcase_add_test(t, deform_conv_errors);
	return run_suite(s);
}

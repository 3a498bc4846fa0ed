/* SPDX-License-Identifier: MIT */
/*
 * Q_CONV and Q_MATMUL with a stream length. The fast and the reference kernels are compared, for
 * every circuit, with sums that are computed from the definition. Operands that such an operator
 * must refuse are tested, too.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_kernels.h"
#include "rivulet_sc.h"
#include "suite.h"

#define MAX 4096

static uint16_t counts[257 * 257];
static uint8_t in[MAX * 4];
static int8_t w[MAX * 16];
static int32_t bias[256];
static float ws[256];
static int32_t wz[256];
static const int32_t zero, out_zp = 100;
static const float xs = 0.01f, ys = 0.5f;

static int pick(int lo, int hi)
{
	return lo + rand() % (hi - lo + 1);
}

static struct rvl_kernel_arg arg4(enum rvl_type t, int64_t a, int64_t b, int64_t c, int64_t d)
{
	return (struct rvl_kernel_arg) { .type = t, .shape = { .rank = 4, .dim = { a, b, c, d } } };
}

static void fill(int channels, bool wide)
{
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(rand() % 3 ? rand() : 0);
	for (size_t i = 0; i < sizeof(w); i++) {
		w[i] = (int8_t)rand();
		if (!wide && w[i] == -128)
			w[i] = 1;
	}
	for (int i = 0; i < channels; i++) {
		bias[i] = pick(-300000, 300000);
		ws[i] = 0.002f + 0.0001f * (float)i;
		wz[i] = 0;
	}
}

static void quantise(struct rvl_kernel_desc *d, int channels)
{
	d->in[0].quant = (struct rvl_kernel_quant) { .n = 1, .scale = &xs, .zp = &zero };
	d->in[1].quant = (struct rvl_kernel_quant) { .n = (uint32_t)channels, .scale = ws,
						     .zp = wz };
	d->in[1].data = w;
	d->in[2] = (struct rvl_kernel_arg) { .type = RVL_TYPE_S32, .data = bias,
		.shape = { .rank = 1, .dim = { channels } } };
	d->out[0].quant = (struct rvl_kernel_quant) { .n = 1, .scale = &ys, .zp = &out_zp };
	d->n_in = 3;
	d->n_out = 1;
}

/* Requantisation by the formulas of docs/numerics.md 1 and 8. */
static uint8_t requantise(int32_t sum, int channel, uint32_t length)
{
	float f = xs * ws[channel], k = 32768.0f / (float)length, v;

	f = f / ys;
	f = f * k;
	v = (float)(sum + rivulet_sc_bias(bias[channel], length)) * f;
	v = v < (float)-out_zp ? (float)-out_zp : v > (float)(255 - out_zp) ?
		(float)(255 - out_zp) :
		v;
	return (uint8_t)((int)rintf(v) + out_zp);
}

static int32_t product(uint8_t xv, int8_t wv)
{
	int32_t n = counts[xv * 257 + 2 * abs(wv)];

	return wv < 0 ? -n : n;
}

/* One output of a convolution of the image at @image by the definition. */
static int32_t conv_sum(const struct rvl_kernel_desc *d, const uint8_t *image, int64_t m, int64_t oy,
			int64_t ox)
{
	const int64_t *xd = d->in[0].shape.dim, *wd = d->in[1].shape.dim;
	const struct rvl_attr *a = &d->attr;
	int64_t first = m / (wd[0] / a->group) * wd[1];
	int32_t sum = 0;

	for (int64_t c = 0; c < wd[1]; c++) {
		for (int64_t t = 0; t < wd[2] * wd[3]; t++) {
			int64_t y = oy * a->stride[0] + t / wd[3] * a->dilation[0] - a->pad[0];
			int64_t x = ox * a->stride[1] + t % wd[3] * a->dilation[1] - a->pad[1];

			if (y >= 0 && y < xd[2] && x >= 0 && x < xd[3])
				sum += product(image[((first + c) * xd[2] + y) * xd[3] + x],
					       w[(m * wd[1] + c) * wd[2] * wd[3] + t]);
		}
	}
	return sum;
}

static void run_kernel(const struct rvl_kernel_desc *d, bool reference, uint8_t *out)
{
	const void *ins[3] = { in, w, bias };
	void *outs[1] = { out };
	struct rvl_kernel *k;
	char why[RVL_WHY_MAX] = "";
	void *scratch;

	ck_assert_msg(!rvl_kernel_new(d, reference, &k, why), "%s", why);
	scratch = aligned_alloc(64, (rvl_kernel_scratch(k) + 127) / 64 * 64);
	ck_assert_int_eq(rvl_kernel_run(k, ins, outs, scratch, NULL), 0);
	free(scratch);
	rvl_kernel_free(k);
}

/* Fills in a random kernel, stride and padding, but no shape of the result. */
static void random_conv(struct rvl_kernel_desc *d)
{
	int64_t kh = pick(1, 3), kw = pick(1, 3), h = pick(3, 9), x = pick(3, 9);
	int group = pick(1, 3), cg = pick(1, 7), mg = pick(1, 40), images = pick(1, 2);

	*d = (struct rvl_kernel_desc) { .op = RVL_OP_Q_CONV };
	rvl_attr_init(&d->attr);
	d->attr.kernel[0] = (int32_t)kh;
	d->attr.kernel[1] = (int32_t)kw;
	d->attr.group = group;
	for (int i = 0; i < 2; i++) {
		d->attr.stride[i] = pick(1, 2);
		d->attr.dilation[i] = kh == 1 || kw == 1 ? pick(1, 2) : 1;
	}
	for (int i = 0; i < 4; i++)
		d->attr.pad[i] = pick(0, 2);
	d->in[0] = arg4(RVL_TYPE_U8, images, group * cg, h, x);
	d->in[1] = arg4(RVL_TYPE_S8, group * mg, cg, kh, kw);
	d->out[0] = arg4(RVL_TYPE_U8, images, group * mg,
		(h + d->attr.pad[0] + d->attr.pad[2] - d->attr.dilation[0] * (kh - 1) - 1) /
			d->attr.stride[0] + 1,
		(x + d->attr.pad[1] + d->attr.pad[3] - d->attr.dilation[1] * (kw - 1) - 1) /
			d->attr.stride[1] + 1);
	quantise(d, group * mg);
}

static void check_conv(const struct rvl_kernel_desc *d, const uint8_t *out)
{
	const int64_t *o = d->out[0].shape.dim, *x = d->in[0].shape.dim;

	for (int64_t i = 0; i < rvl_shape_count(&d->out[0].shape); i++) {
		int64_t m = i / (o[2] * o[3]) % o[1], image = i / (o[2] * o[3]) / o[1];
		int32_t sum = conv_sum(d, in + image * x[1] * x[2] * x[3], m, i / o[3] % o[2],
				       i % o[3]);

		ck_assert_uint_eq(out[i], requantise(sum, (int)m, (uint32_t)d->attr.sc_length));
	}
}

START_TEST(convolutions_follow_the_definition)
{
	static uint8_t fast[MAX * 128], plain[MAX * 128];
	struct rvl_kernel_desc d;

	for (int n = 0; n < 150; n++) {
		random_conv(&d);
		fill((int)d.in[1].shape.dim[0], n % 8 == 0);
		d.attr.sc_length = pick(8, 256);
		rivulet_sc_counts(8, (uint32_t)d.attr.sc_length, counts);
		run_kernel(&d, false, fast);
		check_conv(&d, fast);
		run_kernel(&d, true, plain);
		ck_assert_mem_eq(fast, plain, (size_t)rvl_shape_count(&d.out[0].shape));
	}
}
END_TEST

static void matmul(struct rvl_kernel_desc *d, int rows, int k, int n)
{
	*d = (struct rvl_kernel_desc) { .op = RVL_OP_Q_MATMUL };
	rvl_attr_init(&d->attr);
	d->attr.trans_b = 1;
	d->in[0] = (struct rvl_kernel_arg) { .type = RVL_TYPE_U8, .shape = { 2, { rows, k } } };
	d->in[1] = (struct rvl_kernel_arg) { .type = RVL_TYPE_S8, .shape = { 2, { n, k } } };
	d->out[0] = (struct rvl_kernel_arg) { .type = RVL_TYPE_U8, .shape = { 2, { rows, n } } };
	quantise(d, n);
}

START_TEST(products_follow_the_definition)
{
	static uint8_t out[MAX];
	struct rvl_kernel_desc d;

	for (int i = 0; i < 100; i++) {
		int rows = pick(1, 4), k = pick(1, 300), n = pick(1, 200);

		matmul(&d, rows, k, n);
		fill(n, i % 8 == 0);
		d.attr.sc_length = pick(8, 256);
		rivulet_sc_counts(8, (uint32_t)d.attr.sc_length, counts);
		run_kernel(&d, i % 2, out);
		for (int r = 0; r < rows * n; r++) {
			int32_t sum = 0;

			for (int c = 0; c < k; c++)
				sum += product(in[r / n * k + c], w[r % n * k + c]);
			ck_assert_uint_eq(out[r], requantise(sum, r % n,
							     (uint32_t)d.attr.sc_length));
		}
	}
}
END_TEST

/* Compares each circuit on one row with rivulet_sc_sum() and the requantisation. */
START_TEST(circuits)
{
	static struct rivulet_sc s;
	struct rvl_kernel_desc d;
	uint16_t cx[200];
	int16_t cw[200];
	uint8_t out[8];

	matmul(&d, 1, 200, 8);
	fill(8, true);
	d.attr.sc_circuit = _i;
	d.attr.sc_length = 96;
	d.attr.sc_scale = 5;
	d.attr.sc_blocks = 4;
	run_kernel(&d, false, out);
	rivulet_sc_init(&s, 8, 96);
	for (int n = 0; n < 8; n++) {
		struct rivulet_sc_adder a = { (uint32_t)_i, 4, 32 };

		for (int c = 0; c < 200; c++) {
			cx[c] = rivulet_sc_x((uint32_t)_i, in[c]);
			cw[c] = rivulet_sc_w((uint32_t)_i, w[n * 200 + c]);
		}
		ck_assert_uint_eq(out[n], requantise(rivulet_sc_sum(&s, &a, cx, cw, 200), n, 96));
	}
}
END_TEST

static void refused(struct rvl_kernel_desc *d, const char *what)
{
	struct rvl_kernel *k;
	char why[RVL_WHY_MAX] = "";

	ck_assert_int_eq(rvl_kernel_new(d, false, &k, why), -EINVAL);
	ck_assert_msg(strstr(why, what), "%s", why);
}

static void accepted(const struct rvl_kernel_desc *d)
{
	struct rvl_kernel *k;
	char why[RVL_WHY_MAX] = "";

	ck_assert_msg(!rvl_kernel_new(d, false, &k, why), "%s", why);
	rvl_kernel_free(k);
}

START_TEST(numbers_have_bounds)
{
	static const struct { int32_t length, circuit, scale, blocks; bool good; } cases[] = {
		{ 8, 0, 0, 0, true }, { 7, 0, 0, 0, false }, { 256, 0, 0, 0, true }, { 257, 0, 0, 0, false },
		{ 64, -1, 0, 0, false }, { 64, RIVULET_SC_CIRCUIT_COUNT - 1, 0, 0, true },
		{ 64, RIVULET_SC_CIRCUIT_COUNT, 0, 0, false }, { 64, 0, 20, 0, true }, { 64, 0, 21, 0, false },
		{ 64, 0, -1, 0, false }, { 64, 0, 0, RIVULET_SC_BLOCKS_MAX, true },
		{ 64, 0, 0, RIVULET_SC_BLOCKS_MAX + 1, false }, { 64, 0, 0, -1, false },
	};
	struct rvl_kernel_desc d;

	matmul(&d, 1, 16, 8);
	fill(8, true);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		d.attr.sc_length = cases[i].length;
		d.attr.sc_circuit = cases[i].circuit;
		d.attr.sc_scale = cases[i].scale;
		d.attr.sc_blocks = cases[i].blocks;
		if (cases[i].good)
			accepted(&d);
		else
			refused(&d, "stochastic: no such length, circuit, scale or blocks");
	}
	/*
	 * Only the circuit that counts ones can sum more terms than the buffer of codes on the
	 * stack holds.
	 */
	for (int terms = 4096; terms <= 4097; terms++) {
		matmul(&d, 1, terms, 8);
		d.attr.sc_length = 64;
		d.attr.sc_circuit = RIVULET_SC_AND_BIN;
		accepted(&d);
		d.attr.sc_circuit = RIVULET_SC_AND_LOOP;
		if (terms == 4096)
			accepted(&d);
		else
			refused(&d, "stochastic: sums of more than 4096 products by this circuit");
	}
	matmul(&d, 1, 16, 8);
	d.attr.sc_length = 64;
	d.in[2].data = NULL;
	refused(&d, "stochastic: its weights are not constant int8");
	d.in[2].data = bias;
	d.in[1].type = RVL_TYPE_U8;
	refused(&d, "stochastic: its weights are not constant int8");
	d.in[1].type = RVL_TYPE_S8;
	d.in[1].shape = (struct rvl_shape) { 3, { 1, 8, 16 } };
	d.in[1].quant.n = 1;
	refused(&d, "stochastic: its second operand is a batch of matrices");
}
END_TEST

/* An operator for a padded image of at most 256 MiB. */
START_TEST(padded_images_have_a_limit)
{
	struct rvl_kernel_desc d = { .op = RVL_OP_Q_CONV };

	rvl_attr_init(&d.attr);
	d.attr.sc_length = 64;
	d.in[0] = arg4(RVL_TYPE_U8, 1, 1, 1 << 14, 1 << 14);
	d.in[1] = arg4(RVL_TYPE_S8, 1, 1, 1, 1);
	d.out[0] = arg4(RVL_TYPE_U8, 1, 1, 1 << 14, 1 << 14);
	quantise(&d, 1);
	fill(1, true);
	accepted(&d);
	d.in[0].shape.dim[3]++;
	d.out[0].shape.dim[3]++;
	refused(&d, "stochastic: a padded image beyond 256 MiB");
}
END_TEST

START_TEST(what_has_no_streams_is_refused)
{
	struct rvl_kernel_desc d;
	const int32_t seven = 7;

	matmul(&d, 1, 16, 8);
	fill(8, true);
	d.attr.sc_length = 7;
	refused(&d, "length");
	d.attr.sc_length = 257;
	refused(&d, "length");
	d.attr.sc_length = 64;
	d.attr.sc_circuit = RIVULET_SC_CIRCUIT_COUNT;
	refused(&d, "circuit");
	d.attr.sc_circuit = 0;
	wz[3] = 2;
	refused(&d, "zero point 2");
	wz[3] = 0;
	d.in[1].data = NULL;
	refused(&d, "constant");
	d.in[1].data = w;
	d.in[0].quant.zp = &seven;
	refused(&d, "uint8 with zero point 0");
	d.in[0].quant.zp = &zero;
	d.in[0].type = RVL_TYPE_S8;
	refused(&d, "uint8 with zero point 0");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kernels_sc");
	TCase *t = tcase_create("kernels_sc");

	srand(20261121);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, convolutions_follow_the_definition);
	tcase_add_test(t, products_follow_the_definition);
	tcase_add_loop_test(t, circuits, 0, RIVULET_SC_CIRCUIT_COUNT);
	tcase_add_test(t, what_has_no_streams_is_refused);
	tcase_add_test(t, numbers_have_bounds);
	tcase_add_test(t, padded_images_have_a_limit);
	suite_add_tcase(s, t);
	return run_suite(s);
}

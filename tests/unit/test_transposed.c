/* SPDX-License-Identifier: MIT */
/*
 * Transposed convolutions between bytes against sums of products in integers, on the CPU and on the NPU. The
 * NPU computes them alone where the channels of the result fill whole words.
 */
#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "chance.h"
#include "prog_exec.h"
#include "rivulet_compiler.h"
#include "qmath.h"
#include "suite.h"
#include "unit/onnx_text.h"

struct shape {
	int in, group, per_group; /* channels; outputs of a group */
	int h, w, kernel[2], stride, pad[4], extra;
	bool relu;
	int on_cpu; /* steps on the CPU of zu3eg-64 */
};

static const struct shape shapes[] = {
	{ 8, 1, 16, 5, 4, { 2, 2 }, 2, { 0, 0, 0, 0 }, 0, false, 0 },  /* of a U-Net */
	{ 8, 1, 32, 5, 4, { 4, 4 }, 2, { 1, 1, 1, 1 }, 0, true, 0 },
	{ 20, 1, 16, 4, 5, { 3, 3 }, 2, { 1, 1, 1, 1 }, 1, true, 0 },
	{ 5, 1, 16, 4, 5, { 5, 4 }, 3, { 0, 0, 0, 0 }, 0, false, 1 },  /* the last row is cut off */
	{ 5, 1, 16, 6, 5, { 2, 2 }, 2, { 1, 1, 1, 1 }, 0, false, 0 },  /* pads more than a phase has taps */
	{ 4, 1, 16, 4, 4, { 1, 1 }, 2, { 0, 0, 0, 0 }, 1, false, 0 },  /* three phases are constant */
	{ 16, 16, 1, 5, 5, { 4, 4 }, 2, { 1, 1, 1, 1 }, 0, false, 0 }, /* depthwise */
	{ 8, 2, 8, 3, 4, { 3, 2 }, 1, { 1, 0, 1, 1 }, 0, false, 0 },   /* one phase */
	{ 6, 1, 5, 4, 4, { 2, 2 }, 2, { 0, 0, 0, 0 }, 0, false, 1 },   /* broken words */
	{ 16, 1, 16, 40, 70, { 4, 4 }, 2, { 1, 1, 1, 1 }, 0, false, 0 }, /* several tiles */
};

#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))
#define XZ 117
#define YZ 90
#define XS 0.02f
#define WS 0.01f

struct data {
	char text[1 << 17];
	size_t n;
	uint8_t x[16 * 40 * 70];
	int8_t w[20 * 32 * 16];
	int32_t bias[32];
	uint8_t want[16 * 80 * 140], got[16 * 80 * 140];
};

static int size_of(const struct shape *s, int axis)
{
	return ((axis ? s->w : s->h) - 1) * s->stride + s->kernel[axis] + s->extra - s->pad[axis] - s->pad[axis + 2];
}

__attribute__((format(printf, 2, 3))) static void say(struct data *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	d->n += (size_t)vsnprintf(d->text + d->n, sizeof(d->text) - d->n, fmt, ap);
	va_end(ap);
	ck_assert_uint_lt(d->n, sizeof(d->text));
}

static float step_of(const struct shape *s)
{
	return 0.05f * sqrtf((float)(s->in / s->group * s->kernel[0] * s->kernel[1]));
}

static void write_model(struct data *d, const struct shape *s, uint64_t seed)
{
	int weights = s->in * s->per_group * s->kernel[0] * s->kernel[1];

	d->n = 0;
	for (int i = 0; i < s->in * s->h * s->w; i++)
		d->x[i] = (uint8_t)splitmix(&seed);
	say(d, "in q u8 1,%d,%d,%d; const xs f32 - 0.02; const xz u8 - 117; DequantizeLinear q xs xz -> x;", s->in,
	    s->h, s->w);
	say(d, "const w s8 %d,%d,%d,%d", s->in, s->per_group, s->kernel[0], s->kernel[1]);
	for (int i = 0; i < weights; i++) {
		d->w[i] = (int8_t)(splitmix(&seed) % 201 - 100);
		say(d, " %d", d->w[i]);
	}
	say(d, "; const b s32 %d", s->group * s->per_group);
	for (int i = 0; i < s->group * s->per_group; i++) {
		d->bias[i] = (int32_t)(splitmix(&seed) % 4001) - 2000;
		say(d, " %d", d->bias[i]);
	}
	say(d, "; const ws f32 - 0.01; const wz s8 - 0; const bs f32 - 0.0002; const bz s32 - 0;"
	       "DequantizeLinear w ws wz -> wf; DequantizeLinear b bs bz -> bf;");
	say(d, "ConvTranspose x wf bf -> t strides=[%d,%d] pads=[%d,%d,%d,%d] output_padding=[%d,%d] group=%d;",
	    s->stride, s->stride, s->pad[0], s->pad[1], s->pad[2], s->pad[3], s->extra, s->extra, s->group);
	say(d, "%s const ys f32 - %.9g; const yz u8 - 90; QuantizeLinear %s ys yz -> y; out y;",
	    s->relu ? "Relu t -> r;" : "", (double)step_of(s), s->relu ? "r" : "t");
}

/* Adds what pixel (@i, @j) of channel @c gives to all outputs. */
static void scatter(const struct data *d, const struct shape *s, int c, int i, int j, int32_t *sum)
{
	int h = size_of(s, 0), w = size_of(s, 1), first = c / (s->in / s->group) * s->per_group;
	int x = d->x[(c * s->h + i) * s->w + j] - XZ;

	for (int m = 0; m < s->per_group; m++)
		for (int ky = 0; ky < s->kernel[0]; ky++)
			for (int kx = 0; kx < s->kernel[1]; kx++) {
				int y = i * s->stride + ky - s->pad[0], o = j * s->stride + kx - s->pad[1];
				int at = ((c * s->per_group + m) * s->kernel[0] + ky) * s->kernel[1] + kx;

				if (y >= 0 && y < h && o >= 0 && o < w)
					sum[((first + m) * h + y) * w + o] += x * d->w[at];
			}
}

static void expect(struct data *d, const struct shape *s)
{
	int pixels = size_of(s, 0) * size_of(s, 1), all = s->group * s->per_group * pixels;
	int32_t *sum = calloc((size_t)all, sizeof(*sum));
	float scale = XS * WS;

	scale = scale / step_of(s);
	ck_assert_uint_le((size_t)all, sizeof(d->want));
	for (int c = 0; c < s->in; c++)
		for (int i = 0; i < s->h; i++)
			for (int j = 0; j < s->w; j++)
				scatter(d, s, c, i, j, sum);
	for (int i = 0; i < all; i++)
		d->want[i] = (uint8_t)rvl_requant(sum[i] + d->bias[i / pixels], scale, YZ, s->relu ? YZ : 0, 255);
	free(sum);
}

static int run_on(struct data *d, const struct rivulet_board *b, bool cpu)
{
	const struct rivulet_compile_options opt = { .cpu_only = cpu };
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	struct pb onnx = ot_model(d->text, 13);
	struct prog_exec run;
	int on_cpu = 0;

	memset(d->got, 0, sizeof(d->got));
	ck_assert_msg(!rivulet_compile(onnx.p, onnx.n, b, &opt, &program, &e, &err), "%s", err.msg);
	for (uint32_t i = 0; i < e.n_rows; i++)
		on_cpu += strcmp(e.rows[i].where, "npu") != 0;
	ck_assert_int_eq(prog_open(&run, b, NULL, program.data), 0);
	run.io[0] = d->x;
	run.io[1] = d->got;
	ck_assert_msg(!prog_run(&run), "%s", run.err);
	prog_close(&run, true);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	free(onnx.p);
	return on_cpu;
}

START_TEST(phases_equal_sums_of_products)
{
	const struct shape *s = &shapes[_i];
	struct data *d = calloc(1, sizeof(*d));
	struct rivulet_board b;
	char why[256];

	ck_assert_msg(!rivulet_board_load(&b, "zu3eg-64", why, sizeof(why)), "%s", why);
	write_model(d, s, (uint64_t)_i + 1);
	expect(d, s);
	run_on(d, &b, true);
	ck_assert_mem_eq(d->got, d->want, sizeof(d->want));
	ck_assert_int_eq(run_on(d, &b, false), s->on_cpu);
	ck_assert_mem_eq(d->got, d->want, sizeof(d->want));
	free(d);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transposed");
	TCase *t = add_case(s, "transposed", 60, NULL, NULL);

	tcase_add_loop_test(t, phases_equal_sums_of_products, 0, SHAPES);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/* The bits of weights: the search against all allocations, and the models that result. */
#include <errno.h>

#include "chance.h"
#include "quant/bits.h"
#include "rivulet_snr.h"
#include "suite.h"
#include "unit/calibrate_rig.h"

/* ---- the search ---- */

#define LAYERS 4

static struct rvl_bits_layer layer[LAYERS];
static struct rvl_bits_step step[LAYERS * (RVL_MOST_BITS - 1)];

static double noise_of(const struct rvl_bits_layer *l)
{
	double sum = 0;

	for (uint32_t i = 0; i < LAYERS; i++)
		sum += l[i].noise[l[i].bits];
	return sum;
}

/* Noise that falls to a quarter with each bit, as that of rounding does. @odd: with chance in it. */
static void draw(uint64_t *seed, uint32_t most_macs, bool odd)
{
	for (uint32_t i = 0; i < LAYERS; i++) {
		double factor = exp(chance_uniform(seed, -3, 3));

		layer[i] = (struct rvl_bits_layer){ .macs = chance_range(seed, 1, most_macs) };
		for (uint32_t b = 1; b <= RVL_MOST_BITS; b++)
			layer[i].noise[b] = factor * ldexp(odd ? chance_uniform(seed, 0.5, 2) : 1, -2 * (int)b);
	}
}

/* The least noise of all allocations of at most @most bits. */
static double least_noise(uint64_t most)
{
	struct rvl_bits_layer all[LAYERS];
	double least = INFINITY;

	memcpy(all, layer, sizeof(all));
	for (uint32_t code = 0; code < 1u << (3 * LAYERS); code++) {
		for (uint32_t i = 0; i < LAYERS; i++)
			all[i].bits = (uint8_t)(1 + (code >> (3 * i) & 7));
		if (rvl_bits_sum(all, LAYERS) <= most)
			least = fmin(least, noise_of(all));
	}
	return least;
}

static uint64_t macs(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < LAYERS; i++)
		sum += layer[i].macs;
	return sum;
}

/* Where all products have one size and noise falls evenly, the allocation is the best of all. */
START_TEST(equal_products_get_the_best_allocation)
{
	for (uint64_t i = 0; i < (uint64_t)random_cases(20); i++) {
		uint64_t seed = i, most;
		uint32_t steps;

		draw(&seed, 1, false);
		most = chance_range(&seed, LAYERS, LAYERS * RVL_MOST_BITS);
		steps = rvl_bits_path(layer, LAYERS, step);
		ck_assert_uint_eq(steps, LAYERS * (RVL_MOST_BITS - 1));
		rvl_bits_fill(layer, LAYERS, step, steps, most);
		ck_assert_uint_eq(rvl_bits_sum(layer, LAYERS), most);
		ck_assert_double_eq_tol(noise_of(layer), least_noise(most), 1e-12);
	}
}
END_TEST

/* Products of any size and noise: never above the limit, and no product can have more within it. */
START_TEST(the_limit_holds)
{
	for (uint64_t i = 0; i < (uint64_t)random_cases(500); i++) {
		uint64_t seed = i, most;
		uint32_t steps;

		draw(&seed, 50, true);
		most = macs() + chance_range(&seed, 0, 7 * (uint32_t)macs());
		steps = rvl_bits_path(layer, LAYERS, step);
		rvl_bits_fill(layer, LAYERS, step, steps, most);
		ck_assert_uint_le(rvl_bits_sum(layer, LAYERS), most);
		for (uint32_t k = 0; k < LAYERS; k++)
			for (uint32_t b = layer[k].bits + 1u; b <= RVL_MOST_BITS; b++)
				ck_assert(rvl_bits_sum(layer, LAYERS) + layer[k].macs * (b - layer[k].bits) > most ||
					  layer[k].noise[b] >= layer[k].noise[layer[k].bits]);
	}
}
END_TEST

/* A path goes from 8 bits to 1 bit in each product, and never back. */
START_TEST(paths_end_with_one_bit)
{
	for (uint64_t i = 0; i < (uint64_t)random_cases(100); i++) {
		uint64_t seed = i;
		uint32_t steps;

		draw(&seed, 50, true);
		steps = rvl_bits_path(layer, LAYERS, step);
		ck_assert_uint_eq(rvl_bits_sum(layer, LAYERS), RVL_MOST_BITS * macs());
		for (uint32_t k = 0; k < steps; k++) {
			rvl_bits_follow(layer, LAYERS, step, k);
			ck_assert_uint_eq(layer[step[k].layer].bits, step[k].from);
			ck_assert_uint_lt(step[k].to, step[k].from);
		}
		rvl_bits_follow(layer, LAYERS, step, steps);
		ck_assert_uint_eq(rvl_bits_sum(layer, LAYERS), macs());
	}
}
END_TEST

/* ---- models ---- */

static float data[4096];

static void fill_data(uint32_t n)
{
	uint64_t seed = 5;

	for (uint32_t i = 0; i < n; i++)
		data[i] = (float)chance_uniform(&seed, -1, 1);
}

/* The least width in two's complement that holds all weights of a product. */
static int bits_of(const struct rvl_node *n)
{
	const int8_t *w = n->in[1]->data;
	int bits = 1;

	for (int64_t i = 0; i < rvl_shape_count(&n->in[1]->shape); i++)
		while (w[i] < -(1 << (bits - 1)) || w[i] >= 1 << (bits - 1))
			bits++;
	return bits;
}

#define ONE_PRODUCT                                                                                \
	"in x f32 1,8; out y; const w f32 8,4 0.9 -0.8 0.7 0.6 -0.5 0.4 0.3 -0.2 0.1 1 -1; MatMul x w -> y"

/* The weights have the bits asked for, and the noise falls by about 6 dB for each. */
START_TEST(weights_have_the_bits_asked_for)
{
	double db = 200;

	fill_data(8 * 16);
	for (int bits = 8; bits >= 2; bits--) {
		struct rvl_snr snr = { 0 };
		float got[4];

		how = (struct rivulet_quantise){ .range = RIVULET_RANGE_MIN_MAX, .threads = 1, .bits = bits };
		ck_assert_msg(!calibrate(ONE_PRODUCT, data, 8 * 16), "%s", err.msg);
		ck_assert_int_eq(bits_of(only(RVL_OP_Q_MATMUL)), bits);
		for (int run = 0; run < 16; run++) {
			static const float w[11] = { 0.9f, -0.8f, 0.7f, 0.6f, -0.5f, 0.4f, 0.3f, -0.2f, 0.1f, 1, -1 };
			float want[4] = { 0 };

			for (int i = 0; i < 32; i++)
				want[i % 4] += data[run * 8 + i / 4] * w[i < 11 ? i : 10];
			run_float(data + run * 8, got);
			rvl_snr_add(&snr, want, got, 4);
		}
		ck_assert_double_lt(rvl_snr_db(&snr), db + 3);
		ck_assert_double_gt(rvl_snr_db(&snr), 6.02 * bits - 8);
		db = rvl_snr_db(&snr);
		release();
	}
}
END_TEST

/* Of two products of one size, the one that hardly reaches the output gets the fewer bits. */
START_TEST(bits_go_where_they_matter)
{
	static const char text[] = "in x f32 1,4; out y; const w f32 4,4 1 -0.7 0.4 0.3 0.9 0.2 -0.6 0.8 0.1; "
				   "const k f32 1,4 0.03; MatMul x w -> a; MatMul x w -> b; Mul b k -> c; "
				   "const u f32 4,2 1 -1 0.6 0.7; Add a c -> d; MatMul d u -> y";
	int most = 0, least = 8;

	fill_data(400);
	how = (struct rivulet_quantise){ .range = RIVULET_RANGE_MIN_MAX, .threads = 1, .bits = 5 };
	ck_assert_msg(!calibrate(text, data, 400), "%s", err.msg);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i]->op == RVL_OP_Q_MATMUL || g->nodes[i]->op == RVL_OP_Q_CONV) {
			int bits = bits_of(g->nodes[i]);

			most = bits > most ? bits : most;
			least = bits < least ? bits : least;
		}
	ck_assert_int_lt(least, 5);
	ck_assert_int_gt(most, 5);
	release();
}
END_TEST

/*
 * The sum of a channel's rounded taps is within half a step of the sum of its weights, so that an image
 * of one value has nearly the result of the float model.
 */
START_TEST(errors_of_taps_do_not_add_up)
{
	char text[2048] = "in x f32 1,1,4,4; out y; const w f32 8,1,3,3";
	uint64_t seed = 3;
	double sum[8] = { 0 };
	const struct rvl_node *n;

	for (int i = 0; i < 72; i++) {
		double v = chance_uniform(&seed, -1, 1);

		sum[i / 9] += v;
		sprintf(text + strlen(text), " %.9f", v);
	}
	strcat(text, "; Conv x w -> y");
	fill_data(16);
	how = (struct rivulet_quantise){ .range = RIVULET_RANGE_MIN_MAX, .threads = 1, .bits = _i };
	ck_assert_msg(!calibrate(text, data, 16), "%s", err.msg);
	n = only(RVL_OP_Q_CONV);
	ck_assert_int_eq(bits_of(n), _i);
	for (int m = 0; m < 8; m++) {
		const int8_t *w = n->in[1]->data;
		double scale = (double)n->in[1]->quant.scale[m], rounded = 0;

		for (int i = 0; i < 9; i++)
			rounded += w[9 * m + i] * scale;
		ck_assert_msg(fabs(rounded - sum[m]) <= scale * 0.501, "row %d: %g steps", m,
			      (rounded - sum[m]) / scale);
	}
	release();
}
END_TEST

#define CLASSES                                                                                    \
	"in x f32 1,4; out y; const w f32 4,3 1 -0.9 0.4 0.3 0.9 0.2 -0.6 0.8 0.1 -1 0.5 0.7; MatMul x w -> y"

static uint32_t changed(void)
{
	const float w[12] = { 1, -0.9f, 0.4f, 0.3f, 0.9f, 0.2f, -0.6f, 0.8f, 0.1f, -1, 0.5f, 0.7f };
	uint32_t n = 0;

	for (int run = 0; run < 200; run++) {
		float want[3] = { 0 }, got[3];
		int a = 0, b = 0;

		for (int i = 0; i < 12; i++)
			want[i % 3] += data[run * 4 + i / 3] * w[i];
		run_float(data + run * 4, got);
		for (int i = 1; i < 3; i++) {
			a = want[i] > want[a] ? i : a;
			b = got[i] > got[b] ? i : b;
		}
		n += a != b;
	}
	return n;
}

/* As many examples as allowed keep their class, with fewer bits the more of them may change it. */
START_TEST(the_loss_is_kept)
{
	static const double loss[] = { 1.5, 40 };
	int before = 9;

	fill_data(800);
	for (int i = 0; i < 2; i++) {
		how = (struct rivulet_quantise){ .range = RIVULET_RANGE_MIN_MAX, .threads = 2, .bits_loss = loss[i] };
		ck_assert_msg(!calibrate(CLASSES, data, 800), "%s", err.msg);
		ck_assert_uint_le(changed(), (uint32_t)(2 * loss[i]));
		ck_assert_int_lt(bits_of(only(RVL_OP_Q_MATMUL)), before);
		before = bits_of(only(RVL_OP_Q_MATMUL));
		release();
	}
	ck_assert_int_le(before, 2);
}
END_TEST

/* An output without values has no answers to lose. */
START_TEST(outputs_without_values)
{
	fill_data(16);
	how = (struct rivulet_quantise){ .range = RIVULET_RANGE_MIN_MAX, .threads = 1, .bits_loss = 100 };
	ck_assert_msg(!calibrate("in x f32 1,4; out y; out z; const w f32 4,2 1 1 -1 0.5 1 1 -1 0.5; const a s64 1 1; "
				 "const d s64 1 0; MatMul x w -> y; Slice y a a d -> z", data, 16), "%s", err.msg);
	release();
}
END_TEST

static void refused(const char *text, int want, const char *says)
{
	ck_assert_int_eq(calibrate(text, data, 16), want);
	ck_assert_msg(strstr(err.msg, says) != NULL, "%s", err.msg);
	release();
}

START_TEST(losses_that_cannot_be_kept)
{
	fill_data(16);
	how = (struct rivulet_quantise){ .range = RIVULET_RANGE_MIN_MAX, .threads = 1, .bits_loss = 1 };
	refused("in x f32 1,4; out y; const w f32 4,1 1 -1 0.5; MatMul x w -> y", -EINVAL,
		"no float output of the model has classes along its second dimension");
	/* Classes that are too near to each other for 8 bits. */
	refused("in x f32 1,4; out y; const w f32 4,2 1 1.001 -0.5 -0.5 0.5 0.501 0.2 0.2; MatMul x w -> y",
		-ERANGE, "more than the loss allowed");
}
END_TEST

/* Proves that bits and losses out of range are refused by name, with the value. */
START_TEST(bits_out_of_range)
{
	static const struct {
		double bits, loss;
		const char *what;
	} wrong[] = {
		{ 9, 0, "quantise.bits is 9, not a mean of 1 to 8 bits" },
		{ 8.001, 0, "quantise.bits is 8.001, not" },
		{ 0.5, 0, "quantise.bits is 0.5, not" },
		{ -4, 0, "quantise.bits is -4, not" },
		{ NAN, 0, "not a mean of 1 to 8 bits" },
		{ 0, -1, "quantise.bits_loss is -1, not a percentage" },
		{ 0, 101, "quantise.bits_loss is 101, not a percentage" },
		{ 0, NAN, "not a percentage" },
		{ 4, 1, "quantise.bits and quantise.bits_loss exclude each other" },
	};

	how = (struct rivulet_quantise){ .threads = 1, .bits = wrong[_i].bits, .bits_loss = wrong[_i].loss };
	fill_data(16);
	refused(ONE_PRODUCT, -EINVAL, wrong[_i].what);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bits");
	TCase *t = add_case(s, "search", 30, NULL, NULL);

	tcase_add_test(t, equal_products_get_the_best_allocation);
	tcase_add_test(t, the_limit_holds);
	tcase_add_test(t, paths_end_with_one_bit);
	t = add_case(s, "models", 30, NULL, NULL);
	tcase_add_test(t, weights_have_the_bits_asked_for);
	tcase_add_test(t, bits_go_where_they_matter);
	tcase_add_loop_test(t, errors_of_taps_do_not_add_up, 3, 6);
	tcase_add_test(t, the_loss_is_kept);
	tcase_add_test(t, outputs_without_values);
	tcase_add_loop_test(t, bits_out_of_range, 0, 9);
	tcase_add_test(t, losses_that_cannot_be_kept);
	return run_suite(s);
}

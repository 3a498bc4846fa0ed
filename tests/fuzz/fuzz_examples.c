/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes the inputs of calibration: .npy and .npz files, a TensorProto, and the values themselves,
 * by which a small float model is quantised and compiled. The first byte of the input selects the
 * kind, and the second one of values the options.
 */
#include <stdio.h>

#include "data/npz.h"
#include "fuzz.h"
#include "rivulet_compiler.h"

#define VALUES (1u << 16)

static struct rvl_blob model;

static void load_model(void)
{
	FILE *f = fopen("tests/data/fuzz/float_cnn.onnx", "rb");
	void *data = malloc(1 << 20);

	if (!f || !data)
		abort();
	model = (struct rvl_blob){ .data = data, .size = fread(data, 1, 1 << 20, f) };
	fclose(f);
}

static void calibrate(const void *values, size_t size, uint8_t how)
{
	struct rivulet_examples examples = { .data = values, .size = size };
	struct rivulet_blob program = { NULL }, exported = { NULL };
	struct rivulet_compile_options opt = {
		.quantise = { .examples = &examples, .n_examples = 1, .threads = 1,
			      .range = how % 8 % RIVULET_RANGE_COUNT, .s8 = how & 64,
			      .equalise = how & 32, .mixed = how & 16 ? 30 : 0,
			      .correct = how & 8 ? RIVULET_CORRECT_YES : RIVULET_CORRECT_AUTO,
			      .percentile = how & 128 ? 99 : 0, .exported = &exported },
	};
	static struct rivulet_board board;
	struct rvl_err err = { "" };
	char why[256];

	if (!model.data)
		load_model();
	if (!board.tm && rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)))
		abort();
	fuzz_expect(!rivulet_compile(model.data, model.size, &board, &opt, &program, NULL, &err) ||
		    err.msg[0]);
	rivulet_blob_free(&program);
	rivulet_blob_free(&exported);
}

static int drop(void *arg, const char *name, struct rvl_array *a)
{
	(void)arg;
	fuzz_expect(name && a->data);
	rvl_array_clear(a);
	return 0;
}

FUZZ_TARGET(examples)
{
	struct rvl_array a = { .data = NULL };
	static float values[VALUES];
	char why[160] = "";
	struct fuzz_cost cost;
	size_t all = size;
	int rc = 0;

	if (!size)
		return 0;
	if (!model.data)
		load_model();
	cost = fuzz_begin();
	switch (*data % 4) {
	case 0:
		rc = rvl_npy_parse(data + 1, size - 1, &a, why);
		break;
	case 1:
		rc = rvl_pb_parse(data + 1, size - 1, &a, why);
		break;
	case 2:
		if (size < 2)
			break;
		size = size - 2 < sizeof(values) ? size - 2 : sizeof(values);
		memcpy(values, data + 2, size);
		calibrate(values, size, data[1]);
		break;
	default:
		rc = rvl_npz_each(data + 1, size - 1, drop, NULL, why);
	}
	fuzz_expect(!rc || why[0]);
	rvl_array_clear(&a);
	fuzz_end(&cost, (64ull << 20) + 8 * (uint64_t)all);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes ONNX models: the input is compiled as `rivulet compile` does it, from reading to the
 * program file. The first byte of the input selects the options.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "rivulet_compiler.h"

FUZZ_TARGET(reader)
{
	static struct rivulet_board board;
	struct rivulet_compile_options opt = { .symbol = 3 };
	struct rivulet_blob program = { NULL };
	struct rivulet_explain explain;
	struct rvl_err err = { "" };
	char why[256];
	int rc;

	if (!board.tm && rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)))
		abort();
	if (!size)
		return 0;
	opt.cpu_only = *data & 1;
	opt.average_within_1 = *data & 2;
	rc = rivulet_compile(data + 1, size - 1, &board, &opt, &program, NULL, &err);
	fuzz_expect(!rc || err.msg[0]);
	rivulet_blob_free(&program);
	if (*data & 4) {
		err.msg[0] = 0;
		rc = rivulet_explain_model(data + 1, size - 1, &board, &opt, &explain, &err);
		fuzz_expect(!rc || err.msg[0]);
		rivulet_explain_free(&explain);
	}
	return 0;
}

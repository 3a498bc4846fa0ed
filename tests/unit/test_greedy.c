/* SPDX-License-Identifier: MIT */
/* The memory that compiling takes, as the kernel counts it. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "rivulet_compiler.h"
#include "suite.h"
#include "unit/onnx_text.h"

/*
 * Models of a few hundred bytes that ask for large values: what the process holds at its peak while it
 * compiles them, beyond what it held before, stays below 64 MiB and eight times the file.
 */
static const struct {
	const char *text;
	int rc; /* 0: it compiles; else the negative errno of the refusal */
} greedy[] = {
	{ "in x f32 1; out y; const s s64 2 8192 8192; ConstantOfShape s -> a; Add a x -> y", 0 },
	{ "in x f32 1; out y; const s s64 2 8192 8192; const c f32 1 1; Expand c s -> a; Add a x -> y", 0 },
	{ "in x f32 1; out y; const s s64 2 4096 4096; const c f32 1 1; Expand c s -> a; Expand c s -> b; "
	  "Add a b -> d; Mul d b -> e; Add e x -> y", 0 },
	{ "in x f32 1; out y; const s s64 1 16777216; const c f32 1 1; Tile c s -> a; Add a x -> y", 0 },
	{ "in x f32 1,4096,1,1; out y; const s s64 4 4096 4096 1 1; ConstantOfShape s -> w; Conv x w -> y", 0 },
	{ "in x f32 64,4096; out y; const s s64 2 4096 4096; ConstantOfShape s -> w; MatMul x w -> y", 0 },
	{ "in x f32 1,4096,64,1; out y; const s s64 2 4096 4096; ConstantOfShape s -> w; MatMul x w -> y",
	  -EOPNOTSUPP },
	{ "in x f32 1,1,4096,4096; out y; Relu x -> a; Sigmoid a -> b; Concat a b -> y axis=1", 0 },
	{ "in x f32 1,16; out y; const i s64 16 1; const d s64 - 1000000; const v f32 2 0 1; "
	  "OneHot i d v -> a; MatMul x a -> y", 0 },
};

#define GREEDY_LIMIT (64l << 10) /* KiB */

/* The sanitizer keeps memory that was freed. */
#ifdef __SANITIZE_ADDRESS__
#define FREED_MEMORY_IS_KEPT true
#else
#define FREED_MEMORY_IS_KEPT false
#endif

static long peak_kib(bool reset)
{
	FILE *f = fopen(reset ? "/proc/self/clear_refs" : "/proc/self/status", reset ? "w" : "r");
	char line[128];
	long kib = -1;

	ck_assert_ptr_nonnull(f);
	if (reset)
		ck_assert_int_eq(fputs("5", f) < 0, 0); /* the peak becomes what is resident */
	while (!reset && fgets(line, sizeof(line), f))
		sscanf(line, "VmHWM: %ld", &kib);
	fclose(f);
	return kib;
}

START_TEST(small_models_cost_little_memory)
{
	struct pb b = ot_model(greedy[_i].text, 13);
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	struct rivulet_board board;
	char why[256];
	long before, after;
	int rc;

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
	peak_kib(true);
	before = peak_kib(false);
	rc = rivulet_compile(b.p, b.n, &board, NULL, &program, NULL, &err);
	after = peak_kib(false);
	ck_assert_msg(rc == greedy[_i].rc, "%s: %d, not %d: %s", greedy[_i].text, rc, greedy[_i].rc, err.msg);
	if (!rc)
		rivulet_blob_free(&program);
	ck_assert_int_ge(before, 0);
	ck_assert_msg(FREED_MEMORY_IS_KEPT || after - before < GREEDY_LIMIT + 8 * (long)b.n / 1024, "%s: %ld KiB",
		      greedy[_i].text, after - before);
	free(b.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("greedy");
	TCase *t = tcase_create("greedy");

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, small_models_cost_little_memory, 0, sizeof(greedy) / sizeof(*greedy));
	suite_add_tcase(s, t);
	return run_suite(s);
}

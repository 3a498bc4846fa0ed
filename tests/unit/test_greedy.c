/* SPDX-License-Identifier: MIT */
/* The memory that compiling takes, as the kernel counts it, and its processor time. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rivulet_compiler.h"
#include "suite.h"
#include "unit/onnx_text.h"

/*
 * Models of a few hundred bytes that request large values. The memory that the process holds at its
 * peak while it compiles them, beyond what it held before, stays below 64 MiB and eight times the
 * file, and the processor time is bounded.
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
	{ "in x f32 1; out y; const a s64 - 0; const b s64 - 1000000000; const d s64 - 1; Range a b d -> r; "
	  "Cast r -> f to=1; Add f x -> y", -EOPNOTSUPP },
	{ "in x f32 1; out y; const k f32 4,4 1; const r s64 2 3000 3000; Tile k r -> t; ReduceMax t -> s keepdims=0; "
	  "Add s x -> y", 0 },
	{ "in x f32 1; out y; const k f32 1,1,4,4 1; const z f32 4 1 1 2000 2000; Resize k _ z -> t mode='cubic'; "
	  "ReduceMax t -> s keepdims=0; Add s x -> y", 0 },
	{ "in x f32 1,1,4,4; out y; const z f32 4 1 1 4000 4000; Resize x _ z -> y mode='linear'", 0 },
	{ "in x f32 1,1,4,4; out y; const z f32 4 1 1 4000 4000; Resize x _ z -> y mode='cubic'", -EOPNOTSUPP },
	{ "in x f32 1; out y; const k f32 4,4 1; const p s64 4 0 0 9000 9000; Pad k p -> t; "
	  "ReduceMax t -> s keepdims=0; Add s x -> y", 0 },
	{ "in x f32 1; out y; const h s64 2 4096 4096; ConstantOfShape h -> o; NonZero o -> z; Cast z -> f to=1; "
	  "ReduceMax f -> s keepdims=0; Add s x -> y", 0 },
	{ "in x f32 1; out y; const h s64 1 20000; ConstantOfShape h -> o; Unique o -> u; Cast u -> f to=1; "
	  "ReduceSum f -> s keepdims=0; Add s x -> y", 0 },
	{ "in x f32 1; out y; const h s64 2 3000 3000; ConstantOfShape h -> o; EyeLike o -> z; MatMul z z -> f; "
	  "ReduceMax f -> s keepdims=0; Add s x -> y", 0 },
	{ "in x f32 1; out y; const h s64 4 1 1 2000 2000; ConstantOfShape h -> o; "
	  "MaxPool o -> z kernel_shape=[999,999] strides=[1,1]; ReduceMax z -> s keepdims=0; Add s x -> y", 0 },
	{ "in x f32 1; out y; const k f32 20,20 1; Einsum k k k -> f equation='ab,cd,ef->abcdef'; "
	  "ReduceMax f -> s keepdims=0; Add s x -> y", 0 },
	{ "in x f32 1; out y; const a s64 3 20000 1 256; const b s64 3 1 1024 256; ConstantOfShape a -> X; "
	  "ConstantOfShape b -> W; LSTM X W W -> h hidden_size=256; ReduceMax h -> s keepdims=0; Add s x -> y", 0 },
	{ "in x f32 1; out y; const h s64 2 2000 2000; ConstantOfShape h -> o; Det o -> d; Add d x -> y", 0 },
	{ "in x f32 1; out y; const n s64 - 1000000000; HannWindow n -> z; ReduceMax z -> s keepdims=0; "
	  "Add s x -> y", -EOPNOTSUPP },
};

#define GREEDY_LIMIT (64l << 10) /* KiB */
#define GREEDY_SECONDS 10 /* of processor time, which the load of the machine does not change */

static double processor_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

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
	double seconds;
	int rc;

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
	peak_kib(true);
	before = peak_kib(false);
	seconds = processor_seconds();
	rc = rivulet_compile(b.p, b.n, &board, NULL, &program, NULL, &err);
	after = peak_kib(false);
	seconds = processor_seconds() - seconds;
	ck_assert_msg(seconds < GREEDY_SECONDS, "%s: %.1f s of processor time", greedy[_i].text, seconds);
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

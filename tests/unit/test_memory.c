/* SPDX-License-Identifier: MIT */
/*
 * The memory that compiling may take: what an arena and what counts with it hold, and models that are
 * refused at every limit below what they need. With AddressSanitizer the test also shows that nothing
 * leaks when a model is refused.
 */
#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "rivulet_compiler.h"
#include "suite.h"
#include "unit/onnx_text.h"

#define MIB (UINT64_C(1) << 20)

/* ---- arenas ---- */

START_TEST(an_arena_goes_back_to_a_mark)
{
	struct rvl_arena *a = rvl_arena_new(16 * MIB);
	char *old = rvl_arena_strndup(a, "stays", 5), *again;
	struct rvl_arena_mark mark = rvl_arena_mark(a);
	size_t held = rvl_arena_held(a);
	char *first = rvl_arena_alloc(a, 100);

	for (int i = 0; i < 5000; i++) {
		ck_assert_ptr_nonnull(rvl_arena_alloc(a, 100));
		if (i % 1000 == 500)
			ck_assert_ptr_nonnull(rvl_arena_alloc(a, MIB / 2));
	}
	ck_assert_uint_gt(rvl_arena_held(a), held + 2 * MIB);
	rvl_arena_rewind(a, &mark);
	ck_assert_uint_eq(rvl_arena_held(a), held);
	ck_assert_str_eq(old, "stays");
	again = rvl_arena_alloc(a, 100);
	ck_assert_ptr_eq(again, first);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(again[i], 0);
	rvl_arena_free(a);
}
END_TEST

START_TEST(an_empty_arena_goes_back_to_a_mark)
{
	struct rvl_arena *a = rvl_arena_new(MIB);
	struct rvl_arena_mark mark = rvl_arena_mark(a);

	ck_assert_ptr_nonnull(rvl_arena_alloc(a, 1));
	ck_assert_ptr_nonnull(rvl_arena_alloc(a, MIB / 2));
	rvl_arena_rewind(a, &mark);
	ck_assert_uint_eq(rvl_arena_held(a), 0);
	ck_assert_ptr_nonnull(rvl_arena_alloc(a, MIB / 2));
	rvl_arena_free(a);
}
END_TEST

START_TEST(texts_lie_behind_one_another)
{
	struct rvl_arena *a = rvl_arena_new(MIB);

	for (int i = 0; i < 6000; i++)
		ck_assert_str_eq(rvl_arena_strndup(a, "1234567", 7), "1234567");
	ck_assert_uint_eq(rvl_arena_held(a), 65536);
	ck_assert_uint_eq((uintptr_t)rvl_arena_alloc(a, 1) % 64, 0);
	rvl_arena_free(a);
}
END_TEST

START_TEST(other_buffers_count_with_an_arena)
{
	struct rvl_arena *a = rvl_arena_new(MIB);
	struct rvl_bytes b = { .arena = a };
	uint8_t *scratch = rvl_scratch(a, 900, 1024);
	struct rvl_err err = { "" };

	ck_assert(scratch && !scratch[0] && !scratch[900 * 1024 - 1]);
	ck_assert_int_eq(rvl_arena_report(a, 0, &err), 0);
	rvl_arena_doing(a, "the test");
	ck_assert_int_eq(rvl_bytes_add(&b, NULL, 200 * 1024, 1, NULL), -ENOMEM);
	rvl_arena_doing(a, "something else");
	ck_assert_ptr_null(rvl_scratch(a, 200, 1024));
	ck_assert_ptr_null(rvl_scratch(a, SIZE_MAX, 2));
	ck_assert(rvl_arena_failed(a));
	ck_assert_int_eq(rvl_arena_report(a, 0, &err), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err.msg, "the test takes 1.1 MiB of memory or more, the limit is 1.0 MiB"));
	rvl_scratch_free(scratch);
	ck_assert_uint_eq(rvl_arena_held(a), 0);
	ck_assert_int_eq(rvl_bytes_add(&b, NULL, 200 * 1024, 1, NULL), 0);
	ck_assert_uint_eq(rvl_arena_held(a), b.cap);
	rvl_bytes_free(&b);
	ck_assert_uint_eq(rvl_arena_held(a), 0);
	rvl_arena_free(a);
}
END_TEST

/* ---- models ---- */

#define LAYERS 60

/* A chain of 1x1 convolutions of 4 channels. */
static struct pb chain(void)
{
	size_t size = 512 + LAYERS * 48;
	char *text = malloc(size);
	struct pb m;
	size_t n;

	n = snprintf(text, size, "in y0 u8 1,4,8,8; const s f32 - 0.05; const z u8 - 128; const r f32 - 0.02;"
				 "const v s8 - 0; const w s8 4,4,1,1 3;");
	for (int i = 0; i < LAYERS; i++)
		n += snprintf(text + n, size - n, "QLinearConv y%d s z w r v s z -> y%d;", i, i + 1);
	snprintf(text + n, size - n, "out y%d u8 1,4,8,8;", LAYERS);
	m = ot_model(text, 13);
	free(text);
	return m;
}

static struct rivulet_board board;

static void load_board(void)
{
	char why[256];

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
}

/* Compiles with a limit; false if it is refused, for which it must say what it did. */
static bool compiles(const struct pb *m, uint64_t limit, struct rvl_err *err)
{
	const struct rivulet_compile_options opt = { .most_memory = limit };
	struct rivulet_blob program = { 0 };
	struct rivulet_explain explain;
	int rc = rivulet_compile(m->p, m->n, &board, &opt, &program, &explain, err);

	if (!rc) {
		rivulet_explain_free(&explain);
		rivulet_blob_free(&program);
		return true;
	}
	ck_assert_msg(rc == -ENOMEM, "%llu: %d, %s", (unsigned long long)limit, rc, err->msg);
	ck_assert_msg(strstr(err->msg, "of memory or more, the limit is") && strstr(err->msg, "--memory-limit"),
		      "%llu: %s", (unsigned long long)limit, err->msg);
	ck_assert_ptr_null(program.data);
	return false;
}

START_TEST(each_limit_is_kept_or_named)
{
	static const char *const works[] = { "reading the model", "deciding the layers" };
	struct pb m = chain();
	bool seen[sizeof(works) / sizeof(works[0])] = { false }, last = false;
	struct rvl_err err = { "" };

	for (uint64_t limit = 8 * MIB; limit < 12 * MIB; limit += MIB / 8) {
		bool ok = compiles(&m, limit, &err);

		ck_assert_msg(ok || !last, "%llu bytes are too few, but fewer are not",
			      (unsigned long long)limit);
		for (size_t i = 0; i < sizeof(works) / sizeof(works[0]) && !ok; i++)
			seen[i] |= !strncmp(err.msg, works[i], strlen(works[i]));
		last = ok;
	}
	ck_assert(last);
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		ck_assert_msg(seen[i], "no limit ends with %s", works[i]);
	free(m.p);
}
END_TEST

START_TEST(without_a_limit_it_follows_from_the_model)
{
	struct pb m = chain();
	struct rvl_err err = { "" };

	ck_assert_msg(compiles(&m, 0, &err), "%s", err.msg);
	free(m.p);
}
END_TEST

START_TEST(a_measure_is_one_of_them)
{
	const struct rivulet_compile_options opt = { .measure = RIVULET_MEASURE_COUNT };
	struct pb m = chain();
	struct rivulet_blob program = { 0 };
	struct rivulet_explain explain;
	struct rvl_err err = { "" };

	ck_assert_int_eq(rivulet_compile(m.p, m.n, &board, &opt, &program, NULL, &err), -EINVAL);
	ck_assert_str_eq(err.msg, "options: measure 2 is none of 2");
	ck_assert_ptr_null(program.data);
	ck_assert_int_eq(rivulet_explain_model(m.p, m.n, &board, &opt, &explain, &err), -EINVAL);
	free(m.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("memory");
	TCase *t = add_case(s, "arenas", 20, NULL, NULL);

	tcase_add_test(t, an_arena_goes_back_to_a_mark);
	tcase_add_test(t, an_empty_arena_goes_back_to_a_mark);
	tcase_add_test(t, texts_lie_behind_one_another);
	tcase_add_test(t, other_buffers_count_with_an_arena);
	t = add_case(s, "models", 120, load_board, NULL);
	tcase_add_test(t, each_limit_is_kept_or_named);
	tcase_add_test(t, without_a_limit_it_follows_from_the_model);
	tcase_add_test(t, a_measure_is_one_of_them);
	return run_suite(s);
}

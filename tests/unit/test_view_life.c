/* SPDX-License-Identifier: MIT */
/* How long the stores of views live, as the size of the arena shows. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_compiler.h"
#include "suite.h"
#include "unit/onnx_text.h"

/* The statements of a turn; # is its number, @ the next one's. All s# are joined at the end. */
static const struct {
	const char *turn;
	uint32_t views;
} lives[] = {
	{ "Softmax x# -> y#; Slice y# zero one zero -> s#; Add y# s# -> x@; ", 0 },
	{ "Softmax x# -> y#; Split y# cut -> s# t# axis=0; Add t# t# -> u#; Slice y# zero end zero -> v#; "
	  "Add v# s# -> x@; ", 24 },
	{ "Softmax x# -> y#; Slice y# zero one zero -> r#; Add r# r# -> s#; Concat s# y# -> j# axis=0; "
	  "Softmax j# -> k#; Slice k# one last zero -> l#; Add l# y# -> x@; ", 24 },
};

#define TURNS 24

static void put_turn(char *text, size_t size, const char *turn, int number)
{
	size_t at = strlen(text);

	for (; *turn && at + 8 < size; turn++) {
		if (*turn == '#' || *turn == '@')
			at += (size_t)snprintf(text + at, size - at, "%d", number + (*turn == '@'));
		else
			text[at++] = *turn;
		text[at] = '\0';
	}
}

static struct pb life_model(const char *turn)
{
	static char text[16384];

	snprintf(text, sizeof(text), "in x0 f32 197,768; out z; out w; const zero s64 1 0; const one s64 1 1; "
		 "const cut s64 2 1 196; const end s64 1 197; const last s64 1 198; ");
	for (int i = 0; i < TURNS; i++)
		put_turn(text, sizeof(text), turn, i);
	put_turn(text, sizeof(text), "Concat", 0);
	for (int i = 0; i < TURNS; i++)
		put_turn(text, sizeof(text), " s#", i);
	put_turn(text, sizeof(text), " -> j axis=0; Relu j -> z; Relu x# -> w", TURNS);
	return ot_model(text, 13);
}

static uint64_t arena_of(const struct pb *b, bool views, uint32_t *n)
{
	const struct rivulet_compile_options opt = { .cpu_only = true, .no_views = !views };
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	struct rivulet_explain e;
	uint64_t bytes;

	ck_assert_msg(!rivulet_compile(b->p, b->n, NULL, &opt, &program, &e, &err), "%s", err.msg);
	*n = e.views;
	bytes = e.arena_bytes;
	ck_assert_uint_gt(bytes, 0);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	return bytes;
}

/*
 * A small part that is used long after the rest of its store keeps none of it: neither a row of a
 * value, nor one part of a split, nor an operand of a join. Views that the store outlives remain. What
 * joins them at the end may be live from its first part on.
 */
START_TEST(small_views_keep_no_store)
{
	struct pb b = life_model(lives[_i].turn);
	uint32_t views, none;
	uint64_t with = arena_of(&b, true, &views), without = arena_of(&b, false, &none);

	ck_assert_uint_le(with, without + TURNS * 768 * 4);
	ck_assert_uint_ge(views, lives[_i].views);
	ck_assert_uint_eq(none, 0);
	free(b.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("view_life");
	TCase *t = tcase_create("view_life");

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, small_views_keep_no_store, 0, sizeof(lives) / sizeof(*lives));
	suite_add_tcase(s, t);
	return run_suite(s);
}

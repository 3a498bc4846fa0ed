/* SPDX-License-Identifier: MIT */
/*
 * The proof that values kept in INP keep their words. A sound stream of five layers passes, and each
 * wrong address in it is named, although nothing but the address is wrong.
 */
#include <errno.h>

#include "npu/kept_check.h"
#include "npu_rig.h"
#include "suite.h"

#define LAYERS 5
#define TILE "rows=8 cols=8"
#define LOAD "load load slot=1 " TILE " blks=1 "
#define CONV "conv conv " TILE " icb=1 ocb=1 "
#define ALU "alu alu src=1 " TILE " blks=1 rq=1 "

/*
 * Layer 0 makes a value in words 1000 to 1063, which layer 1 reads. Layer 2 adds it to a product and
 * leaves the sum in its place, where layer 3 reads it. Layer 4 then uses the words.
 */
static const struct {
	uint32_t layer;
	const char *text;
} stream[] = {
	{ 0, "load l_dst row_pitch=8 blk_pitch=64" },
	{ 0, "load l_src row_pitch=128 blk_pitch=1024" },
	{ 0, "conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1" },
	{ 0, "conv c_input row_pitch=8 rows=8 cols=8" },
	{ 0, "conv c_out row_pitch=8" },
	{ 0, "alu a_src a_row=8 b_row=8" }, /* 5 */
	{ 0, "alu a_dst row=8" },
	{ 0, LOAD },
	{ 0, CONV },
	{ 0, ALU "d=1000" },
	{ 1, CONV "inp=1000" }, /* 10 */
	{ 1, ALU "d=1100" },
	{ 2, LOAD "addr=100" },
	{ 2, CONV "inp=100" },
	{ 2, ALU "bin=1 b=1000 d=1000" },
	{ 3, LOAD "addr=1064" }, /* 15 */
	{ 3, CONV "inp=1000" },
	{ 3, ALU "d=1200" },
	{ 4, LOAD "addr=1000" },
};

#define LENGTH ((int)(sizeof(stream) / sizeof(stream[0])))

static struct rig rig;
static struct rvl_err err;

static void setup(void)
{
	rig_open(&rig, rig_board(16, 16, 4));
}

static void teardown(void)
{
	rig_close(&rig);
}

/* The check of the stream, with the instruction @at in another form if that is not LENGTH. */
static int check(int at, const char *text)
{
	static const struct rvl_mode mode = { .name = "any" };
	static struct rvl_node node[LAYERS] = {
		{ .name = "maker" }, { .name = "reader" }, { .name = "sum" }, { .name = "last" }, { .name = "next" },
	};
	static struct rvl_ring value = { .rows = 8, .width = 8, .blocks = 1, .kept = true, .base = 1000 }, sum;
	struct rvl_layer layer[LAYERS] = { { .to = &value }, { .from = &value }, { .b_from = &value, .to = &sum },
					   { .from = &sum }, { .to = NULL } };
	struct rvl_layer *l[LAYERS];
	uint32_t tag[LENGTH + 1];

	sum = value;
	for (int i = 0; i < LAYERS; i++) {
		layer[i].mode = &mode;
		layer[i].node = &node[i];
		l[i] = &layer[i];
	}
	rig_reset(&rig);
	for (int i = 0; i < LENGTH; i++) {
		rig_asm(&rig, i == at ? text : stream[i].text);
		tag[i] = 7 + stream[i].layer;
	}
	rig_end(&rig);
	tag[LENGTH] = UINT32_MAX;
	ck_assert_uint_eq(rig.count, LENGTH + 1);
	return rvl_kept_check(&rig.board, l, LAYERS, 7, rig.code, rig.count, tag, &err);
}

START_TEST(sound_values)
{
	ck_assert_msg(!check(LENGTH, NULL), "%s", err.msg);
}
END_TEST

static const struct {
	int at;
	const char *text, *says;
} wrong[] = {
	{ 9, ALU "d=992", "layer \"maker\" writes outside of INP words 1000 to 1063, where the result of \"maker\"" },
	{ 9, ALU "d=1001", "layer \"maker\" writes outside of" },
	{ 10, CONV "inp=1008", "layer \"reader\" reads outside of" },
	{ 11, ALU "d=1056", "layer \"reader\" writes to" },
	{ 12, LOAD "addr=937", "layer \"sum\" writes to" },
	{ 12, LOAD "addr=1063", "layer \"sum\" writes to" },
	{ 14, ALU "bin=1 b=999 d=1000", "layer \"sum\" reads outside of" },
	{ 14, ALU "bin=1 b=1000 d=1001", "layer \"sum\" writes outside of INP words 1000 to 1063, where the result of \"sum\"" },
	{ 15, LOAD "addr=1000", "layer \"last\" writes to" },
	{ 16, CONV "inp=996", "layer \"last\" reads outside of" },
};

START_TEST(wrong_addresses)
{
	ck_assert_int_eq(check(wrong[_i].at, wrong[_i].text), -EINVAL);
	ck_assert_msg(strstr(err.msg, wrong[_i].says), "%s", err.msg);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kept_check");
	TCase *t = add_case(s, "kept values", 10, setup, teardown);

	tcase_add_test(t, sound_values);
	tcase_add_loop_test(t, wrong_addresses, 0, (int)(sizeof(wrong) / sizeof(wrong[0])));
	return run_suite(s);
}

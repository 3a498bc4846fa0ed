// SPDX-License-Identifier: MIT
/*
 * The encoding: tables whose fields do not overlap, every field and reserved bit, and text that
 * assembles to the same instruction.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_dev.h"
#include "rivulet_isa.h"
#include "suite.h"

static uint64_t seed = 1;

static uint64_t chance(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 0x2545f4914f6cdd1dull;
}

/* Returns a value that fits the field: an end of its range, or any. */
static int64_t value_of(const struct rivulet_field *f)
{
	int64_t hi = f->sgn ? (INT64_C(1) << (f->width - 1)) - 1 : (INT64_C(1) << f->width) - 1;
	int64_t lo = f->sgn ? -hi - 1 : 0;

	switch (chance() % 4) {
	case 0:
		return lo;
	case 1:
		return hi;
	default:
		return lo + (int64_t)(chance() % (uint64_t)(hi - lo + 1));
	}
}

/* Makes a random valid instruction of the form. */
static void random_insn(int form, struct rivulet_decoded *d)
{
	const struct rivulet_form_info *info = rivulet_form_table(form);
	int64_t *value = (int64_t *)&d->h;

	memset(d, 0, sizeof(*d));
	d->form = form;
	for (int i = 0; i < info->fields; i++)
		value[i] = value_of(&info->field[i]);
	d->h.op = info->op;
	if (info->queue >= 0)
		d->h.queue = info->queue;
	d->h.pop &= ~(1 << d->h.queue);
	d->h.push &= ~(1 << d->h.queue);
}

START_TEST(fields_do_not_overlap)
{
	const struct rivulet_form_info *info = rivulet_form_table(_i);
	uint64_t used[2] = { 0, 0 };

	if (info->index >= 0)
		used[0] = UINT64_C(0x3f) << 16;
	for (int i = 0; i < info->fields; i++) {
		const struct rivulet_field *f = &info->field[i];

		ck_assert_int_le(f->lsb + f->width, 128);
		for (int b = f->lsb; b < f->lsb + f->width; b++) {
			ck_assert_msg(!(used[b / 64] >> b % 64 & 1), "%s.%s: bit %d is taken",
				      info->name, f->name, b);
			used[b / 64] |= UINT64_C(1) << b % 64;
		}
	}
	ck_assert_uint_eq(used[0], info->mask[0]);
	ck_assert_uint_eq(used[1], info->mask[1]);
}
END_TEST

START_TEST(encoding_round_trips)
{
	for (int n = 0; n < 2000; n++) {
		struct rivulet_decoded d, back;
		struct rivulet_insn in;
		const char *bad = "";

		random_insn(_i, &d);
		ck_assert_msg(rivulet_encode(&d, &in, &bad) == 0, "%s", bad);
		memset(&back, 0, sizeof(back));
		ck_assert_int_eq(rivulet_decode(&in, &back), 0);
		ck_assert_mem_eq(&d, &back, sizeof(d));
	}
}
END_TEST

START_TEST(reserved_bits_are_checked)
{
	const struct rivulet_form_info *info = rivulet_form_table(_i);
	struct rivulet_decoded d, back;
	struct rivulet_insn in;

	random_insn(_i, &d);
	ck_assert_int_eq(rivulet_encode(&d, &in, NULL), 0);
	for (int b = 0; b < 128; b++) {
		struct rivulet_insn bad = in;

		if (info->mask[b / 64] >> b % 64 & 1)
			continue;
		bad.w[b / 64] |= UINT64_C(1) << b % 64;
		ck_assert_int_eq(rivulet_decode(&bad, &back), RIVULET_FAULT_RESERVED);
	}
}
END_TEST

START_TEST(values_out_of_range)
{
	const struct rivulet_form_info *info = rivulet_form_table(_i);

	for (int i = 1; i < info->fields; i++) {
		const struct rivulet_field *f = &info->field[i];
		struct rivulet_decoded d;
		struct rivulet_insn in;
		const char *bad = NULL;

		if (info->queue >= 0 && !strcmp(f->name, "queue"))
			continue; /* determined by the form */
		random_insn(_i, &d);
		((int64_t *)&d.h)[i] = f->sgn ? INT64_C(1) << (f->width - 1) :
						INT64_C(1) << f->width;
		ck_assert_int_eq(rivulet_encode(&d, &in, &bad), -ERANGE);
		ck_assert_str_eq(bad, f->name);
		((int64_t *)&d.h)[i] = f->sgn ? -(INT64_C(1) << (f->width - 1)) - 1 : -1;
		ck_assert_int_eq(rivulet_encode(&d, &in, &bad), -ERANGE);
		ck_assert_str_eq(bad, f->name);
	}
}
END_TEST

START_TEST(wrong_queue_or_opcode)
{
	struct rivulet_decoded d, back;
	struct rivulet_insn in;

	for (int form = 0; form < RIVULET_FORM_COUNT; form++) {
		const struct rivulet_form_info *info = rivulet_form_table(form);

		random_insn(form, &d);
		ck_assert_int_eq(rivulet_encode(&d, &in, NULL), 0);
		in.w[0] = (in.w[0] & ~UINT64_C(0x3ff0)) | (uint64_t)((d.h.queue + 1) % 4) << 4;
		ck_assert_int_eq(rivulet_decode(&in, &back),
				 info->queue < 0 ? 0 : RIVULET_FAULT_OPCODE);
	}
	for (int op = 0; op < 16; op++) {
		in = (struct rivulet_insn){ { op, 0 } };
		if (op == 0 || op > RIVULET_OP_SYNC)
			ck_assert_int_eq(rivulet_decode(&in, &back), RIVULET_FAULT_OPCODE);
	}
	for (int index = 0; index < 64; index++) {
		in = (struct rivulet_insn){ { RIVULET_OP_CFG | index << 16, 0 } };
		ck_assert_int_eq(rivulet_decode(&in, &back) == RIVULET_FAULT_OPCODE,
				 rivulet_cfg_form(index) < 0 ||
					 rivulet_form_table(rivulet_cfg_form(index))->queue > 0);
	}
	ck_assert_int_eq(rivulet_cfg_form(64), -1);
	ck_assert_ptr_null(rivulet_form_table(RIVULET_FORM_COUNT));
}
END_TEST

/* A queue has no token to itself. */
START_TEST(own_token)
{
	struct rivulet_insn in = { { RIVULET_OP_SYNC | 2 << 4 | 1 << 8, 0 } };
	struct rivulet_decoded d;

	ck_assert_int_eq(rivulet_decode(&in, &d), RIVULET_FAULT_RESERVED);
	in.w[0] = RIVULET_OP_SYNC | 2 << 4 | 1 << 12;
	ck_assert_int_eq(rivulet_decode(&in, &d), RIVULET_FAULT_RESERVED);
	in.w[0] = RIVULET_OP_SYNC | 2 << 4 | 0xb << 6 | 0xb << 10;
	ck_assert_int_eq(rivulet_decode(&in, &d), 0);
}
END_TEST

static void text_round_trip(const struct rivulet_insn *in)
{
	struct rivulet_insn back;
	char text[512], err[128] = "";
	int n = rivulet_disassemble(in, text, sizeof(text));

	ck_assert_int_eq(n, (int)strlen(text));
	ck_assert_msg(rivulet_assemble(text, &back, err, sizeof(err)) == 1, "%s: %s", text, err);
	ck_assert_mem_eq(in, &back, sizeof(back));
}

START_TEST(text_comes_back)
{
	for (int n = 0; n < 2000; n++) {
		struct rivulet_decoded d;
		struct rivulet_insn in;

		random_insn(_i, &d);
		ck_assert_int_eq(rivulet_encode(&d, &in, NULL), 0);
		text_round_trip(&in);
	}
}
END_TEST

START_TEST(any_bits_as_text)
{
	for (int n = 0; n < 20000; n++) {
		struct rivulet_insn in = { { chance(), chance() } };

		in.w[0] &= chance();
		in.w[1] &= n % 2 ? chance() & chance() : 0;
		text_round_trip(&in);
	}
}
END_TEST

static const struct {
	const char *line, *text;
} good[] = {
	{ "load load mem=1 addr=5 slot=2 rows=3 cols=0x10 blks=1 push=conv,alu # weights",
	  "load load mem=1 addr=5 slot=2 rows=3 cols=16 blks=1 push=conv,alu" },
	{ "\talu sync pop=store,load  prof=1\n", "alu sync pop=load,store prof=1" },
	{ "conv c_kernel kh=3 kw=3 sy=1 sx=1 dy=1 dx=1 org_y=-1 org_x=-32768",
	  "conv c_kernel kh=3 kw=3 sy=1 sx=1 dy=1 dx=1 org_y=-1 org_x=-32768" },
	{ "store q_prof slot=14 offset=8 limit=9", "store q_prof slot=14 offset=8 limit=9" },
	{ ".insn 0x7 18446744073709551615", ".insn 0x0000000000000007 0xffffffffffffffff" },
};

START_TEST(lines)
{
	struct rivulet_insn in;
	char text[512], err[128];

	ck_assert_int_eq(rivulet_assemble(good[_i].line, &in, err, sizeof(err)), 1);
	ck_assert_int_gt(rivulet_disassemble(&in, text, sizeof(text)), 0);
	ck_assert_str_eq(text, good[_i].text);
	ck_assert_int_eq(rivulet_disassemble(&in, text, 5), -ENOSPC);
	ck_assert_int_eq(rivulet_disassemble(&in, NULL, 0), -ENOSPC);
	ck_assert_int_eq(rivulet_assemble("  # nothing", &in, err, sizeof(err)), 0);
	ck_assert_int_eq(rivulet_assemble("", &in, err, sizeof(err)), 0);
}
END_TEST

static const struct {
	const char *line, *err;
} wrong[] = {
	{ "fpu load", "column 1: \"fpu\" is not a queue (load, conv, alu, store)" },
	{ "load fetch", "column 6: \"fetch\" is not an instruction" },
	{ "alu load", "column 5: load belongs to queue load" },
	{ "load load rows", "column 11: expected field=value, found \"rows\"" },
	{ "load load icb=1", "column 11: load has no field \"icb\"" },
	{ "load load rows=x", "column 11: \"x\" is not a number" },
	{ "load load rows=1x", "column 11: \"1x\" is not a number" },
	{ "load load rows=4096", "column 1: rows is out of range" },
	{ "load load rows=-1", "column 1: rows is out of range" },
	{ "load load rows=99999999999999999999",
	  "column 11: \"99999999999999999999\" is not a number" },
	{ "load sync pop=conv,npu", "column 11: \"npu\" is not a queue (load, conv, alu, store)" },
	{ "load sync pop=load", "column 1: a queue cannot pop from or push to itself" },
	{ "load sync prof=2", "column 1: prof is out of range" },
	{ ".insn 1", "column 8: \"\" is not a 64-bit word" },
	{ ".insn 1 -2", "column 9: \"-2\" is not a 64-bit word" },
	{ ".insn 1 2 3", "column 11: \"3\" after the second word" },
	{ "load load rows=000000000000000000000000000000000000001",
	  "column 11: \"0000000000000000000000000000000...\" is not a number" },
};

START_TEST(wrong_lines)
{
	struct rivulet_insn in;
	char err[128];

	ck_assert_int_eq(rivulet_assemble(wrong[_i].line, &in, err, sizeof(err)), -EINVAL);
	ck_assert_str_eq(err, wrong[_i].err);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("isa");
	TCase *t = tcase_create("isa");

	tcase_add_loop_test(t, fields_do_not_overlap, 0, RIVULET_FORM_COUNT);
	tcase_add_loop_test(t, encoding_round_trips, 0, RIVULET_FORM_COUNT);
	tcase_add_loop_test(t, reserved_bits_are_checked, 0, RIVULET_FORM_COUNT);
	tcase_add_loop_test(t, values_out_of_range, 0, RIVULET_FORM_COUNT);
	tcase_add_test(t, wrong_queue_or_opcode);
	tcase_add_test(t, own_token);
	tcase_add_loop_test(t, text_comes_back, 0, RIVULET_FORM_COUNT);
	tcase_add_test(t, any_bits_as_text);
	tcase_add_loop_test(t, lines, 0, sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(t, wrong_lines, 0, sizeof(wrong) / sizeof(wrong[0]));
	suite_add_tcase(s, t);
	return run_suite(s);
}

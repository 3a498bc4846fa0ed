// SPDX-License-Identifier: MIT
/*
 * rivulet asm: accepted and refused source, the stream that it writes and the listing that it
 * prints.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "rivulet_isa.h"
#include "suite.h"
#include "verb.h"

#define TILE                                                                                       \
	"# a tile\n"                                                                               \
	"load load slot=2 rows=1 cols=8 blks=1 push=store\n"                                       \
	"   1  store store slot=3 rows=1 cols=8 blks=1 pop=load   # as disasm lists it\n"          \
	"load sync kind=1\n"

static char dir[64], source[96], output[96];

static void setup(void)
{
	make_scratch(dir);
	snprintf(source, sizeof(source), "%s/in.rva", dir);
	snprintf(output, sizeof(output), "%s/out.bin", dir);
}

static void teardown(void)
{
	remove_scratch(dir);
}

/* Assembles @text with one more option, or without if @option is NULL. */
static int assemble(const char *text, const char *option)
{
	char words[300];

	write_file(source, text, strlen(text));
	snprintf(words, sizeof(words), "asm %s -o %s %s", source, output, option ? option : "");
	return verb(words);
}

START_TEST(writes_the_stream)
{
	struct rivulet_insn in[4];
	char text[256];
	FILE *f;

	ck_assert_msg(assemble(TILE, NULL) == RVL_EXIT_OK, "%s", rvl_tool_error);
	SAYS("# 3 instructions, sound on zu3eg-64");
	f = fopen(output, "rbe");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fread(in, 16, 4, f), 3);
	fclose(f);
	ck_assert_int_gt(rivulet_disassemble(&in[1], text, sizeof(text)), 0);
	ck_assert_str_eq(text, "store store slot=3 rows=1 cols=8 blks=1 pop=load");
}
END_TEST

START_TEST(lists_times)
{
	ck_assert_int_eq(assemble(TILE, "--time"), RVL_EXIT_OK);
	SAYS("        64        136  #0 load load");
	SAYS("       136        216  #1 store store");
	SAYS("       216        217  #2 load sync kind=1");
	ck_assert_int_eq(assemble(TILE, "--json"), RVL_EXIT_OK);
	SAYS("\"instructions\":3");
	check_json("rivulet.asm/1");
	ck_assert_int_eq(assemble(TILE, "--time --json"), RVL_EXIT_OK);
	check_json("rivulet.asm/1");
}
END_TEST

static const struct {
	const char *text, *option, *error;
	int code;
} refused[] = {
	{ "load load rows=1\nload jump\n", NULL,
	  "in.rva:2: column 6: \"jump\" is not an instruction", RVL_EXIT_REFUSED },
	{ "load sync\n", NULL, "NO_END: ", RVL_EXIT_REFUSED },
	{ "load load slot=2 rows=1 cols=8 blks=1\nstore store slot=3 rows=1 cols=8 blks=1\n"
	  "load sync kind=1\n",
	  NULL, "RAW: ", RVL_EXIT_REFUSED },
	{ "conv sync pop=load\nload sync kind=1\n", "--unchecked", NULL, RVL_EXIT_OK },
	{ TILE, "--board=no-such", "no board \"no-such\"", RVL_EXIT_REFUSED },
	{ TILE, "--colour", "--colour", RVL_EXIT_USAGE },
	{ TILE, "another", "takes one file", RVL_EXIT_USAGE },
};

START_TEST(refuses)
{
	ck_assert_int_eq(assemble(refused[_i].text, refused[_i].option), refused[_i].code);
	if (refused[_i].error)
		ck_assert_msg(strstr(rvl_tool_error, refused[_i].error) != NULL, "%s",
			      rvl_tool_error);
	ck_assert_int_eq(access(output, F_OK) == 0, refused[_i].code == RVL_EXIT_OK);
}
END_TEST

START_TEST(no_file)
{
	EXPECT("asm /no/such.rva", RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "/no/such.rva"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("asm");
	TCase *t = tcase_create("asm");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, writes_the_stream);
	tcase_add_test(t, lists_times);
	tcase_add_loop_test(t, refuses, 0, sizeof(refused) / sizeof(refused[0]));
	tcase_add_test(t, no_file);
	suite_add_tcase(s, t);
	return run_suite(s);
}

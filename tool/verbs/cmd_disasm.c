// SPDX-License-Identifier: MIT
/* rivulet disasm: the instructions of a program file. */
#include <stdio.h>

#include "data/array.h"
#include "output.h"
#include "rivulet_isa.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"
#include "verb.h"

static void list_stream(const struct rivulet_program *p, const struct rivulet_step_variant *v)
{
	const struct rivulet_insn *in = (const void *)((const char *)p + v->offset);
	char text[512];

	for (uint32_t i = 0; i < v->length / sizeof(*in); i++) {
		if (rivulet_disassemble(&in[i], text, sizeof(text)) < 0)
			snprintf(text, sizeof(text), "(line too long)");
		if (rvl_tool_json)
			rvl_json_str(NULL, text);
		else
			printf("%6u  %s\n", i, text);
	}
}

/* Whether no lower level uses the same stream: a stream is listed once, at its lowest level. */
static bool first_of_kind(const struct rivulet_step *s, uint32_t level)
{
	for (uint32_t l = 0; l < level; l++)
		if (s->variant[l].length && s->variant[l].offset == s->variant[level].offset)
			return false;
	return s->variant[level].length != 0;
}

static void list_step(const struct rivulet_program *p, uint32_t i, bool json)
{
	const struct rivulet_step *s = &rivulet_program_steps(p)[i];

	for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
		if (!first_of_kind(s, l))
			continue;
		if (json) {
			rvl_json_open(NULL, '{');
			rvl_json_u64("step", i);
			rvl_json_str("name", rivulet_program_string(p, s->name));
			rvl_json_u64("level", l);
			rvl_json_u64("cycles", s->variant[l].cycles);
			rvl_json_open("instructions", '[');
			list_stream(p, &s->variant[l]);
			rvl_json_close();
			rvl_json_close();
			continue;
		}
		printf("# step %u, %s: lowest level %u, %u instructions, %llu cycles estimated\n", i,
		       rivulet_program_string(p, s->name), l, s->variant[l].length / 16,
		       (unsigned long long)s->variant[l].cycles);
		list_stream(p, &s->variant[l]);
	}
}

static int list_program(const char *path)
{
	struct rvl_blob b;
	char why[256];
	int r = rvl_read_file(path, RIVULET_PROGRAM_MAX, &b);

	if (r)
		return r;
	if (rivulet_program_check(b.data, b.size, why, sizeof(why))) {
		rvl_blob_clear(&b);
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, why);
	}
	if (rvl_tool_json) {
		rvl_json_begin("disasm");
		rvl_json_open("streams", '[');
	}
	for (uint32_t i = 0; i < ((struct rivulet_program *)b.data)->steps; i++)
		list_step((void *)b.data, i, rvl_tool_json);
	if (rvl_tool_json) {
		rvl_json_close();
		rvl_json_end();
	}
	rvl_blob_clear(&b);
	return 0;
}

static int run_disasm(void *args, int n, char **operand)
{
	(void)args;
	(void)n;
	return list_program(operand[0]);
}

const struct rvl_verb rvl_verb_disasm = {
	.name = "disasm", .summary = "list the instructions of a program file", .order = 120,
	.operands = "PROGRAM.rvp", .least = 1, .most = 1, .takes = "one program file", .run = run_disasm,
};

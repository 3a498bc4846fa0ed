// SPDX-License-Identifier: MIT
/* rivulet asm: assembles a command stream, proves it sound on a board, and lists its timing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu/isa_check.h"
#include "data/array.h"
#include "device/engine.h"
#include "output.h"
#include "rivulet_cost.h"
#include "rivulet_isa.h"
#include "verb.h"

#define MAX_TEXT      (64u << 20)
#define DEFAULT_BOARD "zu3eg-64"

struct asm_args {
	const char *board, *output;
	bool unchecked, time;
};

struct source {
	struct rivulet_insn *insn;
	uint32_t count, room;
};

static int add_insn(struct source *s, const struct rivulet_insn *in)
{
	if (s->count == s->room) {
		uint32_t room = s->room ? 2 * s->room : 1024;
		struct rivulet_insn *p = reallocarray(s->insn, room, sizeof(*p));

		if (!p)
			return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
		s->insn = p;
		s->room = room;
	}
	s->insn[s->count++] = *in;
	return 0;
}

/*
 * disasm prints an index before each instruction, which is skipped here, so that its output
 * assembles.
 */
static const char *skip_index(const char *line)
{
	const char *at = line + strspn(line, " \t"), *end = at + strspn(at, "0123456789");

	return end > at && (*end == ' ' || *end == '\t') ? end : line;
}

static int assemble(const char *path, char *text, struct source *s)
{
	char *line, *next = text, err[160];
	int number = 0;

	while ((line = strsep(&next, "\n"))) {
		struct rivulet_insn in;
		int r = rivulet_assemble(skip_index(line), &in, err, sizeof(err));

		number++;
		if (r < 0)
			return rvl_tool_fail(RVL_EXIT_REFUSED, "%s:%d: %s", path, number, err);
		if (r && add_insn(s, &in))
			return RVL_EXIT_FAILED;
	}
	return 0;
}

static int read_source(const char *path, struct source *s)
{
	struct rvl_blob b;
	char *text;
	int r = rvl_read_file(path, MAX_TEXT, &b);

	if (r)
		return r;
	text = strndup((const char *)b.data, b.size);
	r = text ? assemble(path, text, s) : rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	free(text);
	rvl_blob_clear(&b);
	return r;
}

/*
 * Accesses are not checked against the sizes of slots, which are known only when a job is
 * submitted.
 */
static int prove(const char *path, const struct rivulet_board *b, const struct source *s)
{
	struct rvl_isa_report report;
	int r = rvl_isa_check(b, s->insn, s->count, NULL, &report);

	if (!r)
		return 0;
	if (r != -EINVAL)
		return rvl_tool_fail(RVL_EXIT_FAILED, "%s", strerror(-r));
	return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s: %s", path,
			     rvl_isa_problem_name(report.problem), report.text);
}

static int fetch(void *ctx, uint32_t index, struct rivulet_insn *out)
{
	const struct source *s = ctx;

	if (index >= s->count)
		return 1;
	*out = s->insn[index];
	return 0;
}

static void print_event(const struct source *s, const struct rivulet_event *e)
{
	char text[512] = "";

	rivulet_disassemble(&s->insn[e->index], text, sizeof(text));
	if (rvl_tool_json) {
		rvl_json_open(NULL, '{');
		rvl_json_u64("index", e->index);
		rvl_json_u64("start", e->start);
		rvl_json_u64("end", e->end);
		rvl_json_str("instruction", text);
		rvl_json_close();
	} else {
		printf("%10" PRIu64 " %10" PRIu64 "  #%u %s\n", e->start, e->end, e->index, text);
	}
}

static int print_times(struct source *s, const struct rivulet_board *b)
{
	struct rivulet_timeline *t = rivulet_timeline_new(b, fetch, s);
	const struct rivulet_event *e;
	int r = 0;

	if (!t)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	if (!rvl_tool_json)
		printf("%10s %10s  in the order of their end\n", "start", "end");
	while ((r = rivulet_timeline_next(t, &e)) == 1)
		if (e->done)
			print_event(s, e);
	rivulet_timeline_free(t);
	if (r < 0)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "fault %d at #%u on %s", -r, e->index,
				     b->name);
	return 0;
}

static int report(const struct asm_args *a, const struct rivulet_board *b, struct source *s)
{
	int r = 0;

	if (rvl_tool_json) {
		rvl_json_begin("asm");
		rvl_json_u64("instructions", s->count);
		rvl_json_str("board", b->name);
		rvl_json_bool("proved", !a->unchecked);
		if (a->time)
			rvl_json_open("times", '[');
	} else {
		printf("# %u instructions, %s %s\n", s->count,
		       a->unchecked ? "unchecked for" : "sound on", b->name);
	}
	if (a->time)
		r = print_times(s, b);
	if (rvl_tool_json && a->time)
		rvl_json_close();
	if (rvl_tool_json)
		rvl_json_end();
	return r;
}

static int run_asm(void *args, int n, char **operand)
{
	const struct asm_args *a = args;
	const char *path = operand[0];
	struct source s = { 0 };
	struct rivulet_board b;
	int r = rvl_board_of(a->board ? a->board : DEFAULT_BOARD, &b);

	(void)n;
	if (!r)
		r = read_source(path, &s);
	if (!r && !a->unchecked)
		r = prove(path, &b, &s);
	if (!r && a->output)
		r = rvl_write_file(a->output, s.insn, s.count * sizeof(*s.insn));
	if (!r)
		r = report(a, &b, &s);
	free(s.insn);
	return r;
}

static const struct rvl_option options[] = {
	{ "board", 'b', "BOARD", "profile name or file, or /dev/accel/accelN (zu3eg-64)",
	  RVL_MEMBER(struct asm_args, board) },
	{ "output", 'o', "FILE", "write the commands, 16 bytes each", RVL_MEMBER(struct asm_args, output) },
	{ "unchecked", 0, NULL, "accept what the static checker refuses",
	  RVL_MEMBER(struct asm_args, unchecked) },
	{ "time", 0, NULL, "list when each instruction starts and ends",
	  RVL_MEMBER(struct asm_args, time) },
	{ 0 }
};

const struct rvl_verb rvl_verb_asm = {
	.name = "asm", .summary = "assemble instructions, prove and time them", .order = 130,
	.operands = "FILE.rva", .least = 1, .most = 1, .takes = "one file",
	.options = options, .args_size = sizeof(struct asm_args), .run = run_asm,
};

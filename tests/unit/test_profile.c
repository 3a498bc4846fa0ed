// SPDX-License-Identifier: MIT
/* rivulet profile: a trace in the format of Chrome and Perfetto. rivulet explain of a program. */
#include <check.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>

#include "../../tool/json.h"
#include "files.h"
#include "suite.h"
#include "verb.h"

#define SIM " --device sim:zu3eg-64 "
#define LANES 1200

static char dir[64], words[800];

static void setup(void)
{
	make_scratch(dir);
}

static void teardown(void)
{
	remove_scratch(dir);
}

static int in_dir(const char *format)
{
	snprintf(words, sizeof(words), format, dir, dir, dir);
	return verb(words);
}

static double number(struct json_object *o, const char *key)
{
	struct json_object *v = rvl_json_member(o, key);

	ck_assert_msg(v && (json_object_is_type(v, json_type_int) ||
			    json_object_is_type(v, json_type_double)),
		      "no number %s in %s", key, json_object_to_json_string(o));
	return json_object_get_double(v);
}

static const char *text(struct json_object *o, const char *key)
{
	ck_assert_msg(json_object_is_type(rvl_json_member(o, key), json_type_string),
		      "no text %s in %s", key, json_object_to_json_string(o));
	return json_object_get_string(rvl_json_member(o, key));
}

/* Keeps a parsed value until the process ends, so that callers need not release it. */
static struct json_object *keep(struct json_object *o)
{
	static struct json_object *kept[256];
	static int n;

	ck_assert_int_lt(n, 256);
	return kept[n++] = o;
}

static struct json_object *read_trace(void)
{
	struct json_object *o;
	size_t size;
	char *file;

	snprintf(words, sizeof(words), "%s/t.json", dir);
	file = read_file(words, &size);
	file = realloc(file, size + 1);
	file[size] = 0;
	o = rvl_json_parse(file);
	ck_assert_msg(o != NULL, "not one JSON value: %.300s", file);
	free(file);
	return keep(o);
}

/* The sums over the slices of a lane. */
struct lane {
	char name[32];
	uint32_t slices;
	double end;		/* of the last slice, us */
	double last_cycle;
	double busy;		/* us */
};

static struct lane lanes[3][LANES];
static double job_cycles, job_hz, job_us;

static void add_slice(struct json_object *e)
{
	struct lane *l = &lanes[(int)number(e, "pid")][(int)number(e, "tid")];
	struct json_object *args = rvl_json_member(e, "args");
	double ts = number(e, "ts"), dur = number(e, "dur");

	ck_assert(ts >= 0 && dur >= 0 && *text(e, "name"));
	ck_assert_msg(ts >= l->end - 0.002, "slices of %s overlap at %g us", l->name, ts);
	l->end = ts + dur;
	l->busy += dur;
	l->slices++;
	number(args, "step");
	if (number(e, "pid") == 1 && number(e, "tid") == 0) {
		job_cycles += number(args, "cycles");
		job_hz = number(args, "hz");
		job_us += dur;
		ck_assert_double_eq_tol(dur, number(args, "cycles") * 1e6 / job_hz, 0.002);
	} else if (number(e, "pid") == 1) {
		double start = number(args, "start_cycle"), end = number(args, "end_cycle");

		ck_assert(start < end && dur <= (end - start) * 1e6 / job_hz + 0.002);
		l->last_cycle = end > l->last_cycle ? end : l->last_cycle;
	}
}

/*
 * Reads all events and checks that each has a known phase, and that slices are in lanes with a
 * name.
 */
static void add_trace(struct json_object *trace)
{
	struct json_object *events = rvl_json_member(trace, "traceEvents"), *e;

	memset(lanes, 0, sizeof(lanes));
	job_cycles = job_us = 0;
	for (size_t i = 0; (e = rvl_json_item(events, i)); i++) {
		int pid = (int)number(e, "pid"), tid = (int)number(e, "tid");

		ck_assert(pid >= 1 && pid <= 2 && tid >= 0 && tid < LANES);
		if (!strcmp(text(e, "ph"), "M") && !strcmp(text(e, "name"), "thread_name"))
			snprintf(lanes[pid][tid].name, sizeof(lanes[pid][tid].name), "%s",
				 text(rvl_json_member(e, "args"), "name"));
		else if (!strcmp(text(e, "ph"), "X"))
			add_slice(e);
		else
			ck_assert_str_eq(text(e, "name"), "process_name");
	}
	for (int p = 1; p < 3; p++)
		for (int t = 0; t < LANES; t++)
			ck_assert(!lanes[p][t].slices || *lanes[p][t].name);
}

static struct json_object *summary(void)
{
	struct json_object *o = rvl_json_parse(out);

	ck_assert_msg(o != NULL, "%.300s", out);
	return keep(o);
}

/*
 * Proves the names of the lanes, and that their slices equal the device's cycles at the level's
 * clock.
 */
START_TEST(engine_lanes)
{
	static const char *const names[] = { "jobs", "LOAD", "CONV", "ALU", "STORE" };
	struct json_object *trace, *s;

	ck_assert_int_eq(in_dir("profile models/resnet.onnx --json -o %s/t.json" SIM), 0);
	trace = read_trace();
	add_trace(trace);
	for (int i = 0; i < 5; i++) {
		ck_assert_str_eq(lanes[1][i].name, names[i]);
		ck_assert_uint_ge(lanes[1][i].slices, 1);
		if (i)
			ck_assert(lanes[1][i].last_cycle <= job_cycles &&
				  lanes[1][i].busy <= job_us);
	}
	/* Only the write of the status follows the store of the last result. */
	ck_assert_double_ge(lanes[1][4].last_cycle, 0.99 * job_cycles);
	ck_assert_double_eq(job_hz, 333333333);
	s = summary();
	ck_assert_double_eq(number(s, "cycles"), job_cycles);
	for (int i = 0; i < 4; i++) {
		struct json_object *e = rvl_json_item(rvl_json_member(s, "engines"), (size_t)i);

		ck_assert_str_eq(text(e, "engine"), names[i + 1]);
		ck_assert_double_eq(number(e, "records"), lanes[1][i + 1].slices);
		ck_assert_double_eq_tol(number(e, "busy_cycles") * 1e6 / job_hz,
					lanes[1][i + 1].busy,
					0.001 * lanes[1][i + 1].slices + 0.01);
	}
}
END_TEST

/*
 * Proves that the level affects the time of a cycle but not their number, and that layers have
 * names.
 */
START_TEST(levels_and_names)
{
	double cycles;

	ck_assert_int_eq(in_dir("profile models/resnet.onnx -o %s/t.json" SIM), 0);
	SAYS("random input, seed 1");
	add_trace(read_trace());
	cycles = job_cycles;
	ck_assert_int_eq(in_dir("profile models/resnet.onnx --level 0 -o %s/t.json" SIM), 0);
	add_trace(read_trace());
	ck_assert_double_eq(job_cycles, cycles);
	ck_assert_double_eq(job_hz, 100000000);
	snprintf(words, sizeof(words), "grep -q '\"name\":\"stem\"' %s/t.json", dir);
	ck_assert_int_eq(system(words), 0);
}
END_TEST

/*
 * Proves that CPU steps are in the lane of the thread that ran them, which is the one that waits where
 * no step on the NPU follows, and that without an NPU no engine has slices.
 */
START_TEST(cpu_lanes)
{
	ck_assert_int_eq(in_dir("compile models/resnet.onnx -q --cpu-only -o %s/c.rvp"), 0);
	ck_assert_int_eq(in_dir("profile %s/c.rvp --threads 2 -o %s/t.json" SIM), 0);
	add_trace(read_trace());
	ck_assert_uint_ge(lanes[2][0].slices, 10);
	ck_assert_str_eq(lanes[2][0].name, "main thread");
	for (int w = 1; w < 32; w++)
		ck_assert_uint_eq(lanes[2][w].slices, 0);
	for (int e = 0; e < 5; e++)
		ck_assert_uint_eq(lanes[1][e].slices, 0);
}
END_TEST

START_TEST(programs)
{
	ck_assert_int_eq(in_dir("compile models/lenet.onnx -q -o %s/l.rvp"), 0);
	ck_assert_int_eq(in_dir("profile %s/l.rvp -o %s/t.json" SIM), RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "rivulet compile --prof"));
	ck_assert_int_eq(in_dir("compile models/lenet.onnx -q --prof -o %s/p.rvp"), 0);
	ck_assert_int_eq(in_dir("profile %s/p.rvp -o %s/t.json" SIM), 0);
	add_trace(read_trace());
	ck_assert_uint_ge(lanes[1][2].slices, 1);
	EXPECT("profile models/lenet.onnx --device daemon", RVL_EXIT_USAGE);
	EXPECT("profile models/lenet.onnx -o /nonexistent/t" SIM, RVL_EXIT_FAILED);
	EXPECT("profile", RVL_EXIT_USAGE);
}
END_TEST

/* ---- explain of a program ---- */

/* Proves that a program has the same cost as its model, step by step. */
START_TEST(explain_program)
{
	struct json_object *model, *program;

	EXPECT("explain models/resnet.onnx --board zu3eg-128 --json", 0);
	model = rvl_json_member(summary(), "explain");
	ck_assert_int_eq(in_dir("compile models/resnet.onnx -q --board zu3eg-128 -o %s/r.rvp"), 0);
	ck_assert_int_eq(in_dir("explain %s/r.rvp --json"), 0);
	program = rvl_json_member(summary(), "explain");
	ck_assert_str_eq(text(program, "board"), "zu3eg-128");
	ck_assert_str_eq(json_object_to_json_string(rvl_json_member(program, "levels")),
			 json_object_to_json_string(rvl_json_member(model, "levels")));
	for (size_t i = 0; rvl_json_item(rvl_json_member(model, "segments"), i); i++) {
		struct json_object *a = rvl_json_item(rvl_json_member(model, "segments"), i);
		struct json_object *b = rvl_json_item(rvl_json_member(program, "segments"), i);

		ck_assert_double_eq(number(a, "cycles"), number(b, "cycles"));
		ck_assert_double_eq(number(a, "macs"), number(b, "macs"));
		ck_assert_double_eq_tol(number(b, "utilisation"),
					number(b, "macs") / (number(b, "cycles") * 128), 1e-6);
	}
	ck_assert_int_eq(in_dir("explain %s/r.rvp"), 0);
	SAYS("stem .. fc");
	ck_assert_int_eq(in_dir("explain %s/r.rvp --board zu3eg-64"), RVL_EXIT_REFUSED);
	ck_assert_int_eq(in_dir("explain %s/r.rvp --mode sc"), RVL_EXIT_USAGE);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "compiled already"));
	ck_assert_int_eq(in_dir("compile models/lenet.onnx -q --cpu-only -o %s/c.rvp"), 0);
	ck_assert_int_eq(in_dir("explain %s/c.rvp"), 0);
	SAYS("board cpu");
	SAYS("image_QuantizeLinear .. c1");
	SAYS("QConv             1x16x10x10  nhwc     cpu");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("profile");
	TCase *t = tcase_create("profile");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, engine_lanes);
	tcase_add_test(t, levels_and_names);
	tcase_add_test(t, cpu_lanes);
	tcase_add_test(t, programs);
	tcase_add_test(t, explain_program);
	suite_add_tcase(s, t);
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
/*
 * rivulet profile: one run on a timeline, as a trace that Perfetto and Chrome display. The NPU's
 * lanes come from the PROF records that each instruction writes, in cycles of its job; the CPU's
 * lanes from the runtime's clock. A job is placed at the time at which it was issued.
 */
#include <endian.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/engine.h"
#include "model/mode.h"
#include "output.h"
#include "rivulet_isa.h"
#include "rivulet_runtime.h"

/* Processes and threads of the trace are its groups and lanes. */
enum { GROUP_NPU = 1, GROUP_CPU = 2 };
enum { LANE_JOBS = 0, LANE_ENGINE = 1, LANE_WORKER = 0, LANE_MODEL = 1000 };

static const char *const engines[RIVULET_QUEUES] = {
	[RIVULET_Q_LOAD] = "LOAD", [RIVULET_Q_CONV] = "CONV", [RIVULET_Q_ALU] = "ALU",
	[RIVULET_Q_STORE] = "STORE",
};

struct engine_sum {
	uint64_t records, cycles;	/* cycles: those in which it was busy */
};

struct profile {
	/* options */
	const char *device, *output;
	uint64_t seed, level, threads, batch;
	struct rvl_dims dims;
	struct rvl_mode mode;
	/* state */
	struct rvl_engine *engine;
	struct rivulet_explain explain;
	struct json_object *events;
	uint64_t origin;		/* CLOCK_MONOTONIC ns of the run's start */
	struct engine_sum sum[RIVULET_QUEUES];
	uint64_t cycles;
	bool worker[LANE_MODEL];	/* those that have a lane */
};

/* ---- events ---- */

/* Microseconds with three decimals, which a shortest double would not always have. */
static struct json_object *microseconds(double us)
{
	char text[48];

	snprintf(text, sizeof(text), "%.3f", us);
	return json_object_new_double_s(us, text);
}

static void name_lane(struct profile *p, const char *what, int group, int lane, const char *name)
{
	struct json_object *o = json_object_new_object(), *args = json_object_new_object();

	json_object_object_add(args, "name", json_object_new_string(name));
	json_object_object_add(o, "ph", json_object_new_string("M"));
	json_object_object_add(o, "name", json_object_new_string(what));
	json_object_object_add(o, "pid", json_object_new_int(group));
	json_object_object_add(o, "tid", json_object_new_int(lane));
	json_object_object_add(o, "args", args);
	json_object_array_add(p->events, o);
}

/* A slice of a lane; the caller adds to its arguments. */
static struct json_object *add_slice(struct profile *p, int group, int lane, const char *name, double us,
				     double length)
{
	struct json_object *o = json_object_new_object(), *args = json_object_new_object();

	json_object_object_add(o, "ph", json_object_new_string("X"));
	json_object_object_add(o, "name", json_object_new_string(name));
	json_object_object_add(o, "pid", json_object_new_int(group));
	json_object_object_add(o, "tid", json_object_new_int(lane));
	json_object_object_add(o, "ts", microseconds(us));
	json_object_object_add(o, "dur", microseconds(length));
	json_object_object_add(o, "args", args);
	json_object_array_add(p->events, o);
	return args;
}

static void add_number(struct json_object *args, const char *key, uint64_t value)
{
	json_object_object_add(args, key, json_object_new_int64((int64_t)value));
}

/* ---- NPU steps ---- */

/* The compiler numbers layers over all NPU steps; its account lists them in that order. */
static const char *layer_name(const struct profile *p, uint32_t tag, char *buf, size_t size)
{
	uint32_t layer = 0;

	snprintf(buf, size, "layer %u", tag);
	for (uint32_t i = 0; i < p->explain.n_rows; i++) {
		if (strcmp(p->explain.rows[i].where, "npu"))
			continue;
		if (layer++ == tag && *p->explain.rows[i].node)
			snprintf(buf, size, "%s", p->explain.rows[i].node);
	}
	return buf;
}

/*
 * One record. An engine begins its next instruction while the last bytes of the present one are
 * still under way, and slices of a lane must not overlap: a slice ends where the next one begins.
 * Its arguments have the cycles as the device wrote them.
 */
static void add_record(struct profile *p, const struct rivulet_prof *r, uint64_t next, double us,
		       double us_per_cycle, uint32_t step)
{
	uint64_t start = le64toh(r->start), end = le64toh(r->end);
	uint64_t until = next > start && next < end ? next : end;
	uint32_t queue = le32toh(r->queue), tag = le32toh(r->tag);
	struct json_object *args;
	char name[128];

	if (queue >= RIVULET_QUEUES)
		return;
	args = add_slice(p, GROUP_NPU, LANE_ENGINE + (int)queue, layer_name(p, tag, name, sizeof(name)),
			 us + (double)start * us_per_cycle, (double)(until - start) * us_per_cycle);
	add_number(args, "start_cycle", start);
	add_number(args, "end_cycle", end);
	add_number(args, "layer", tag);
	add_number(args, "step", step);
	p->sum[queue].records++;
	p->sum[queue].cycles += until - start;
}

static int add_records(struct profile *p, uint32_t step, double us, double us_per_cycle)
{
	struct rivulet_prof *r;
	size_t n;
	int rc = rvl_prof_of_step(rvl_engine_exec(p->engine, 0), step, &r, &n);

	for (size_t i = 0; i < n; i++)
		add_record(p, &r[i], i + 1 < n && r[i + 1].queue == r[i].queue ? le64toh(r[i + 1].start) : 0, us,
			   us_per_cycle, step);
	free(r);
	return rc;
}

static int add_npu(struct profile *p, uint32_t i, const char *name, const struct rivulet_step_report *s)
{
	const struct rivulet_board *b = rvl_engine_board(p->engine);
	uint32_t level = s->status.level < b->levels ? s->status.level : b->levels - 1;
	double us_per_cycle = 1e6 / (double)b->level[level].hz, us = (double)(s->start_ns - p->origin) / 1e3;
	struct json_object *args = add_slice(p, GROUP_NPU, LANE_JOBS, name, us,
					     (double)s->status.cycles * us_per_cycle);

	add_number(args, "step", i);
	add_number(args, "cycles", s->status.cycles);
	add_number(args, "level", level);
	add_number(args, "hz", b->level[level].hz);
	p->cycles += s->status.cycles;
	if (rvl_engine_is_sim(p->engine))
		add_number(add_slice(p, GROUP_CPU, LANE_MODEL, name, us,
				     (double)(s->end_ns - s->start_ns) / 1e3), "step", i);
	return add_records(p, i, us, us_per_cycle);
}

/* ---- all ---- */

static int add_step(struct profile *p, uint32_t i)
{
	const struct rivulet_program *prog = rvl_engine_program(p->engine);
	const struct rivulet_step_report *s = rivulet_exec_step(rvl_engine_exec(p->engine, 0), i);
	const struct rivulet_step *step = &rivulet_program_steps(prog)[i];
	const char *name = rivulet_program_string(prog, step->name);

	if (!s->ran)
		return 0;
	if (step->kind == RIVULET_STEP_NPU)
		return add_npu(p, i, name, s);
	if (s->worker < LANE_MODEL)
		p->worker[s->worker] = true;
	add_number(add_slice(p, GROUP_CPU, LANE_WORKER + (int)s->worker, name,
			     (double)(s->start_ns - p->origin) / 1e3,
			     (double)(s->end_ns - s->start_ns) / 1e3), "step", i);
	return 0;
}

static void name_lanes(struct profile *p)
{
	char name[64];

	name_lane(p, "process_name", GROUP_NPU, 0, "NPU (device time)");
	name_lane(p, "thread_name", GROUP_NPU, LANE_JOBS, "jobs");
	for (int q = 0; q < RIVULET_QUEUES; q++)
		name_lane(p, "thread_name", GROUP_NPU, LANE_ENGINE + q, engines[q]);
	name_lane(p, "process_name", GROUP_CPU, 0, "CPU (host time)");
	for (uint32_t w = 0; w < LANE_MODEL; w++) {
		if (!p->worker[w])
			continue;
		snprintf(name, sizeof(name), w ? "worker %u" : "main thread", w);
		name_lane(p, "thread_name", GROUP_CPU, LANE_WORKER + (int)w, name);
	}
	if (rvl_engine_is_sim(p->engine))
		name_lane(p, "thread_name", GROUP_CPU, LANE_MODEL, "device model");
}

static int write_trace(struct profile *p, const char *model)
{
	struct json_object *o = json_object_new_object(), *other = json_object_new_object();
	const char *text;
	int r;

	json_object_object_add(other, "schema", json_object_new_string("rivulet.trace/1"));
	json_object_object_add(other, "model", json_object_new_string(model));
	json_object_object_add(other, "device", json_object_new_string(rvl_engine_name(p->engine)));
	json_object_object_add(o, "displayTimeUnit", json_object_new_string("ns"));
	json_object_object_add(o, "otherData", other);
	json_object_object_add(o, "traceEvents", json_object_get(p->events));
	text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	r = text ? rvl_write_file(p->output, text, strlen(text)) :
	    rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	json_object_put(o);
	return r;
}

static void json_summary(const struct profile *p, const char *model)
{
	rvl_json_begin("profile");
	rvl_json_str("model", model);
	rvl_json_str("device", rvl_engine_name(p->engine));
	rvl_json_str("file", p->output);
	rvl_json_u64("events", json_object_array_length(p->events));
	rvl_json_u64("seed", p->seed);
	rvl_json_u64("cycles", p->cycles);
	rvl_json_open("engines", '[');
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		rvl_json_open(NULL, '{');
		rvl_json_str("engine", engines[q]);
		rvl_json_u64("records", p->sum[q].records);
		rvl_json_u64("busy_cycles", p->sum[q].cycles);
		rvl_json_close();
	}
	rvl_json_close();
	rvl_json_end();
}

static void text_summary(const struct profile *p, const char *model)
{
	static const char *const heads[] = { "engine", ">instructions", ">cycles", ">of the jobs" };
	struct rvl_table t;

	printf("%s on %s, random input, seed %llu\n", model, rvl_engine_name(p->engine),
	       (unsigned long long)p->seed);
	rvl_table_init(&t, 4, heads);
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		rvl_table_cell(&t, "%s", engines[q]);
		rvl_table_cell(&t, "%llu", (unsigned long long)p->sum[q].records);
		rvl_table_cell(&t, "%llu", (unsigned long long)p->sum[q].cycles);
		rvl_table_cell(&t, "%.1f %%", p->cycles ? 100.0 * (double)p->sum[q].cycles / (double)p->cycles : 0);
	}
	rvl_table_print(&t, 2);
	printf("  %zu events in %s: open it in https://ui.perfetto.dev or chrome://tracing\n",
	       json_object_array_length(p->events), p->output);
}

/* The first run warms caches and packs weights; the second is the one on the timeline. */
static int run_twice(struct profile *p)
{
	int e = 0;

	rvl_engine_randomise(p->engine, 0, p->seed);
	for (int i = 0; !e && i < 2; i++) {
		e = rvl_engine_run(p->engine, 0, NULL);
	}
	p->origin = rivulet_exec_result(rvl_engine_exec(p->engine, 0))->start_ns;
	return e;
}

static bool has_records(const struct profile *p)
{
	const struct rivulet_program *prog = rvl_engine_program(p->engine);
	bool npu = false;
	size_t n;

	for (uint32_t i = 0; i < prog->steps; i++) {
		npu |= rivulet_program_steps(prog)[i].kind == RIVULET_STEP_NPU;
		if (rivulet_exec_prof(rvl_engine_exec(p->engine, 0), i, &n))
			return true;
	}
	return !npu;
}

static int run_profile(void *args, int n, char **operand)
{
	struct profile *p = args;
	struct rvl_engine_options o = { .device = p->device, .batch = (uint32_t)p->batch,
		.dims = &p->dims, .mode = &p->mode, .threads = (uint32_t)p->threads,
		.prof = true, .explain = &p->explain };
	int e = rvl_engine_open(operand[0], &o, &p->engine);

	(void)n;
	if (!e && p->level != UINT64_MAX)
		e = rvl_engine_set_level(p->engine, (uint32_t)p->level);
	if (!e && !has_records(p))
		e = rvl_tool_fail(RVL_EXIT_REFUSED, "%s was compiled without PROF records: make it with rivulet "
				  "compile --prof", operand[0]);
	p->events = json_object_new_array();
	if (!e)
		e = run_twice(p);
	for (uint32_t i = 0; !e && i < rvl_engine_program(p->engine)->steps; i++)
		e = add_step(p, i);
	if (e)
		return e;
	name_lanes(p);
	e = write_trace(p, operand[0]);
	if (!e)
		(rvl_tool_json ? json_summary : text_summary)(p, operand[0]);
	return e;
}

static void clear(void *args)
{
	struct profile *p = args;

	json_object_put(p->events);
	rvl_engine_close(p->engine);
	rvl_mode_clear(&p->mode);
	rvl_dims_clear(&p->dims);
	rivulet_explain_free(&p->explain);
}

static const struct rvl_option options[] = {
	{ "output", 'o', "FILE", "the trace (trace.json)", RVL_MEMBER(struct profile, output) },
	{ "device", 'd', "WHERE", "/dev/accel/accelN, or sim:BOARD (the first node)",
	  RVL_MEMBER(struct profile, device) },
	{ "level", 0, "N", "V/F level (sim:BOARD only)", RVL_MEMBER(struct profile, level), .most = 255 },
	{ "seed", 0, "N", "of the random input (1)", RVL_MEMBER(struct profile, seed), .most = UINT32_MAX },
	{ "threads", 0, "N", "workers for CPU steps (one per processor)",
	  RVL_MEMBER(struct profile, threads), .most = 31 },
	{ "batch", 0, "N", RVL_BATCH_HELP, RVL_MEMBER(struct profile, batch), .least = 1, .most = INT32_MAX },
	RVL_DIMS_OPTIONS(struct profile, dims),
	RVL_MODE_OPTIONS(struct profile, mode),
	{ 0 }
};

const struct rvl_verb rvl_verb_profile = {
	.name = "profile", .summary = "one run on a timeline, engine by engine, for Perfetto or Chrome",
	.order = 50, .operands = "MODEL [-o trace.json]", .least = 1, .most = 1, .takes = "one model",
	.options = options, .args_size = sizeof(struct profile),
	.defaults = &(const struct profile) { .output = "trace.json", .seed = 1, .level = UINT64_MAX },
	.run = run_profile, .clear = clear,
};

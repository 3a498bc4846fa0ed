// SPDX-License-Identifier: MIT
/*
 * rivulet bench: latency with one run in flight, throughput with several, and what the NPU part costs at
 * each level. Inputs are seeded noise: quantised layers take the same time whatever the data.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/engine.h"
#include "output.h"

#define MAX_RUNS 1000000u
#define MAX_DEPTH 64u

struct bench {
	const char *device, *figures;
	uint64_t runs, warmup, depth, batch, symbol, threads;
	struct rvl_engine *engine;
	uint64_t *wall;
	struct rvl_run_stats sum;
	double rate;	/* inferences a second, @depth in flight */
	bool counters;
	uint64_t count[DRM_RIVULET_PERF_COUNT];	/* of the runs measured one by one */
	struct rvl_mode mode;
};

static void noise(struct rvl_engine *e, uint32_t instance)
{
	uint32_t x = 0x2545f491;

	for (uint32_t i = 0; i < rvl_engine_inputs(e); i++) {
		const struct rivulet_tensor_info *t = rvl_engine_tensor(e, i);
		uint8_t *p = rvl_engine_memory(e, instance, i);

		for (uint64_t k = 0; k < t->bytes; k += t->dtype == RIVULET_F32 ? 4 : 1) {
			x ^= x << 13;
			x ^= x >> 17;
			x ^= x << 5;
			if (t->dtype == RIVULET_F32)
				*(float *)(void *)(p + k) = (float)(x >> 8) / 16777216.0f;
			else
				p[k] = t->dtype == RIVULET_U8 || t->dtype == RIVULET_S8 ?
				       (uint8_t)(x >> 24) : 0;
		}
	}
}

static int latency(struct bench *b)
{
	struct rvl_run_stats s;
	int e = 0;

	for (uint64_t i = 0; !e && i < b->warmup + b->runs; i++) {
		/* What the monitor has of the warm-up is thrown away. */
		if (i == b->warmup && b->counters)
			e = rvl_engine_counted(b->engine, b->count);
		if (!e)
			e = rvl_engine_start(b->engine, 0, 0, 0);
		if (!e)
			e = rvl_engine_wait(b->engine, 0, &s);
		if (e || i < b->warmup)
			continue;
		b->wall[i - b->warmup] = s.wall_ns;
		b->sum.cycles += s.cycles;
		b->sum.npu_ns += s.npu_ns;
		b->sum.cpu_ns += s.cpu_ns;
		b->sum.queue_ns += s.queue_ns;
		b->sum.macs += s.macs;
		b->sum.conv_busy += s.conv_busy;
		b->sum.energy_pj += s.energy_pj;
		b->sum.read_bytes += s.read_bytes;
		b->sum.write_bytes += s.write_bytes;
		b->sum.level_max = s.level_max;
	}
	if (!e && b->counters)
		e = rvl_engine_counted(b->engine, b->count);
	return e;
}

/* Keeps @depth runs in flight until @runs have ended. */
static int throughput(struct bench *b)
{
	double start = rvl_tool_seconds();
	uint64_t started = 0, ended = 0;
	int e = 0;

	for (; !e && started < b->depth && started < b->runs; started++)
		e = rvl_engine_start(b->engine, (uint32_t)started, 0, 0);
	while (!e && ended < b->runs) {
		int i = rvl_engine_any(b->engine);

		if (i < 0)
			return -i;
		e = rvl_engine_wait(b->engine, (uint32_t)i, NULL);
		ended++;
		if (!e && started < b->runs) {
			e = rvl_engine_start(b->engine, (uint32_t)i, 0, 0);
			started++;
		}
	}
	b->rate = (double)b->runs / (rvl_tool_seconds() - start);
	return e;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double each(const struct bench *b, uint64_t sum)
{
	return (double)sum / (double)b->runs;
}

static double quantile(const struct bench *b, double q)
{
	return 1e-9 * (double)b->wall[(uint64_t)(q * (double)(b->runs - 1) + 0.5)];
}

static double level_seconds(const struct bench *b, uint32_t level)
{
	return rvl_engine_level(b->engine, level)->seconds;
}

static double level_joule(const struct bench *b, uint32_t level)
{
	return rvl_engine_level(b->engine, level)->joule;
}

static double share(const struct bench *b, uint32_t counter)
{
	uint64_t all = b->count[DRM_RIVULET_PERF_CYCLES];

	return all ? 100.0 * (double)b->count[counter] / (double)all : 0;
}

/* What the device counted, job by job; engines also as a part of the time that their jobs took. */
static void text_counters(const struct bench *b)
{
	static const char *const heads[] = { "counter", ">a run", ">a job", "unit", ">of the cycles" };
	uint64_t jobs = b->count[DRM_RIVULET_PERF_JOBS];
	struct rvl_table t;

	printf("  counters of %llu jobs, %llu of them failed\n", (unsigned long long)jobs,
	       (unsigned long long)b->count[DRM_RIVULET_PERF_FAILED]);
	rvl_table_init(&t, 5, heads);
	for (uint32_t i = DRM_RIVULET_PERF_TIME; i < DRM_RIVULET_PERF_COUNT; i++) {
		const char *unit, *name = rivulet_perfmon_counter(i, &unit);

		rvl_table_cell(&t, "%s", name);
		rvl_table_cell(&t, "%.0f", each(b, b->count[i]));
		rvl_table_cell(&t, "%.0f", jobs ? (double)b->count[i] / (double)jobs : 0);
		rvl_table_cell(&t, "%s", unit);
		if (i >= DRM_RIVULET_PERF_LOAD_BUSY && i <= DRM_RIVULET_PERF_STORE_BUSY)
			rvl_table_cell(&t, "%.1f %%", share(b, i));
		else
			rvl_table_cell(&t, "%s", "");
	}
	rvl_table_print(&t, 2);
}

static void text_report(const struct bench *b, const char *model)
{
	static const char *const heads[] = { ">level", ">clock", ">NPU time", ">energy", ">per joule" };
	const struct rivulet_board *board = rvl_engine_board(b->engine);
	char u[4][32];
	struct rvl_table t;

	printf("%s on %s, %llu runs\n", model, rvl_engine_name(b->engine), (unsigned long long)b->runs);
	printf("  latency     min %s, median %s, p99 %s\n", rvl_unit(u[0], quantile(b, 0), "s"),
	       rvl_unit(u[1], quantile(b, 0.5), "s"), rvl_unit(u[2], quantile(b, 0.99), "s"));
	printf("  throughput  %.1f inferences/s with %llu in flight\n", b->rate,
	       (unsigned long long)b->depth);
	printf("  of a run    NPU %s (%.0f cycles), CPU %s\n",
	       rvl_unit(u[0], each(b, b->sum.npu_ns) * 1e-9, "s"), each(b, b->sum.cycles),
	       rvl_unit(u[1], each(b, b->sum.cpu_ns) * 1e-9, "s"));
	if (rvl_engine_is_sim(b->engine))
		printf("  latency and throughput are the model's on this computer; the table is the device's\n");
	if (!board || !b->sum.cycles || !rvl_engine_level(b->engine, 0))
		return;
	rvl_table_init(&t, 5, heads);
	for (uint32_t i = 0; i < board->levels; i++) {
		rvl_table_cell(&t, "%u", i);
		rvl_table_cell(&t, "%s", rvl_unit(u[0], (double)board->level[i].hz, "Hz"));
		rvl_table_cell(&t, "%s", rvl_unit(u[1], level_seconds(b, i), "s"));
		rvl_table_cell(&t, "%s", rvl_unit(u[2], level_joule(b, i), "J"));
		rvl_table_cell(&t, "%.1f", 1 / level_joule(b, i));
	}
	rvl_table_print(&t, 2);
}

/* Sums over all measured runs. */
static void json_counters(const struct bench *b)
{
	rvl_json_open("counters", '{');
	for (uint32_t i = 0; i < DRM_RIVULET_PERF_COUNT; i++)
		rvl_json_u64(rivulet_perfmon_counter(i, NULL), b->count[i]);
	rvl_json_close();
}

static void json_report(const struct bench *b, const char *model)
{
	const struct rivulet_board *board = rvl_engine_board(b->engine);

	rvl_json_begin("bench");
	rvl_json_str("model", model);
	rvl_json_str("device", rvl_engine_name(b->engine));
	rvl_json_u64("runs", b->runs);
	rvl_json_u64("depth", b->depth);
	rvl_json_num("latency_min_s", quantile(b, 0));
	rvl_json_num("latency_median_s", quantile(b, 0.5));
	rvl_json_num("latency_p99_s", quantile(b, 0.99));
	rvl_json_num("per_second", b->rate);
	rvl_json_num("cycles", each(b, b->sum.cycles));
	rvl_json_num("npu_s", each(b, b->sum.npu_ns) * 1e-9);
	rvl_json_num("cpu_s", each(b, b->sum.cpu_ns) * 1e-9);
	rvl_json_open("levels", '[');
	for (uint32_t i = 0; board && rvl_engine_level(b->engine, i); i++) {
		rvl_json_open(NULL, '{');
		rvl_json_u64("hz", board->level[i].hz);
		rvl_json_num("seconds", level_seconds(b, i));
		rvl_json_num("joule", level_joule(b, i));
		rvl_json_close();
	}
	rvl_json_close();
	if (b->counters)
		json_counters(b);
	rvl_json_end();
}

static void report(const struct bench *b, const char *model)
{
	if (rvl_tool_json) {
		json_report(b, model);
		return;
	}
	text_report(b, model);
	if (b->counters)
		text_counters(b);
	rvl_figure(b->figures, "latency.min", quantile(b, 0) * 1e3, "ms");
	rvl_figure(b->figures, "latency.median", quantile(b, 0.5) * 1e3, "ms");
	rvl_figure(b->figures, "latency.p99", quantile(b, 0.99) * 1e3, "ms");
	rvl_figure(b->figures, "throughput", b->rate, "1/s");
	rvl_figure(b->figures, "cycles", each(b, b->sum.cycles), "cycles");
}

static int run_bench(void *args, int n, char **operand)
{
	struct bench *b = args;
	const char *model = operand[0];
	struct rvl_engine_options o = { .device = b->device, .batch = (uint32_t)b->batch,
		.symbol = (uint32_t)b->symbol,
		.mode = &b->mode, .threads = (uint32_t)b->threads, .instances = (uint32_t)b->depth };
	int e = rvl_engine_open(model, &o, &b->engine);

	(void)n;
	if (!e && b->counters)
		e = rvl_engine_monitor(b->engine);
	if (e)
		return e;
	b->wall = calloc(b->runs, sizeof(*b->wall));
	if (!b->wall)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (uint32_t i = 0; i < b->depth; i++)
		noise(b->engine, i);
	e = latency(b);
	if (!e)
		e = throughput(b);
	if (!e) {
		qsort(b->wall, b->runs, sizeof(*b->wall), by_value);
		report(b, model);
	}
	return e;
}

static void clear(void *args)
{
	struct bench *b = args;

	rvl_engine_close(b->engine);
	rvl_mode_clear(&b->mode);
	free(b->wall);
}

static const struct rvl_option options[] = {
	{ "device", 'd', "WHERE", "daemon, /dev/accel/accelN, or sim:BOARD", RVL_MEMBER(struct bench, device) },
	{ "runs", 'n', "N", "runs to measure (200)", RVL_MEMBER(struct bench, runs), .least = 1,
	  .most = MAX_RUNS },
	{ "warmup", 0, "N", "runs before that (5)", RVL_MEMBER(struct bench, warmup), .most = MAX_RUNS },
	{ "depth", 0, "N", "runs in flight for the throughput (4)", RVL_MEMBER(struct bench, depth),
	  .least = 1, .most = MAX_DEPTH },
	RVL_SYMBOL_OPTIONS(struct bench, , RVL_BATCH_HELP),
	RVL_MODE_OPTIONS(struct bench, mode),
	{ "counters", 0, NULL, "what a performance monitor counts of the jobs, of a node only",
	  RVL_MEMBER(struct bench, counters) },
	{ "threads", 0, "N", "workers for CPU steps, not with the daemon", RVL_MEMBER(struct bench, threads),
	  .most = MAX_DEPTH },
	{ "figures", 0, "PREFIX", "print `figure PREFIX.NAME VALUE UNIT` lines",
	  RVL_MEMBER(struct bench, figures) },
	{ 0 }
};

const struct rvl_verb rvl_verb_bench = {
	.name = "bench", .summary = "latency, throughput, energy of a model", .order = 40,
	.operands = "MODEL [options]", .least = 1, .most = 1, .takes = "one model",
	.options = options, .args_size = sizeof(struct bench),
	.defaults = &(const struct bench) { .runs = 200, .warmup = 5, .depth = 4 },
	.run = run_bench, .clear = clear,
};

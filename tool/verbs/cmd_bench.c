// SPDX-License-Identifier: MIT
/*
 * rivulet bench: latency with one run in flight, throughput with several, and the cost of the NPU
 * part at each level. The inputs are random: the time of quantised layers does not depend on the
 * data.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "data/array.h"
#include "device/engine.h"
#include "device/peers.h"
#include "output.h"
#include "progress.h"
#include "rivulet_proto.h"

#define MAX_RUNS 1000000u
#define MAX_DEPTH 64u
#define DEFAULT_RUNS 200u
#define DEFAULT_SEED 1u

#define MAX_SAMPLES (64u << 20) /* a phase of a given duration ends after so many runs: 512 MiB */

/** struct samples - latencies, ns */
struct samples {
	uint64_t *ns;
	uint64_t n, room;
};

struct bench {
	/* options */
	const char *device, *figures, *compare;
	uint64_t runs, warmup, depth, batch, threads;
	struct rvl_dims dims;
	struct rvl_time duration; /* of each phase, in place of @runs */
	bool counters;
	struct rvl_mode mode;
	/* state */
	struct rvl_engine *engine;
	struct rvl_progress progress;
	/* results */
	struct samples latency; /* of runs one after the other */
	struct samples processor; /* time of all threads of this process in the same runs */
	struct rvl_run_stats sum;
	uint64_t count[RIVULET_PERF_VALUES];	/* of the same runs */
	uint64_t together; /* runs that ended with @depth in flight */
	double rate;	   /* of these, in a second */
};

/* ---- measuring ---- */

static int keep(struct samples *s, uint64_t ns)
{
	if (s->n == s->room) {
		uint64_t room = s->room ? 2 * s->room : 1024;
		uint64_t *p = reallocarray(s->ns, room, sizeof(*p));

		if (!p)
			return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
		s->ns = p;
		s->room = room;
	}
	s->ns[s->n++] = ns;
	return 0;
}

/* Whether a phase goes on after @done runs since @start. */
static bool goes_on(const struct bench *b, uint64_t done, uint64_t start)
{
	if (rvl_interrupted())
		return false;
	if (b->duration.ns)
		return rvl_tool_now() - start < b->duration.ns && done < MAX_SAMPLES;
	return done < b->runs;
}

static void phase_start(struct bench *b, const char *what)
{
	rvl_progress_start(&b->progress, b->duration.ns ? b->duration.ns / 1000000000 : b->runs,
			   b->duration.ns ? "s" : "runs", "%s", what);
}

static void phase_at(struct bench *b, uint64_t done, uint64_t start)
{
	rvl_progress_at(&b->progress, b->duration.ns ? (rvl_tool_now() - start) / 1000000000 : done);
}

static uint64_t processor_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void add(struct rvl_run_stats *sum, const struct rvl_run_stats *s)
{
	sum->cycles += s->cycles;
	sum->npu_ns += s->npu_ns;
	sum->cpu_ns += s->cpu_ns;
}

static int latency(struct bench *b)
{
	struct rvl_run_stats s;
	uint64_t start;
	int e = 0;

	for (uint64_t i = 0; !e && i < b->warmup && !rvl_interrupted(); i++)
		e = rvl_engine_run(b->engine, 0, &s);
	/* Reading the monitor clears it: the warm-up does not count. */
	if (!e && b->counters)
		e = rvl_engine_counted(b->engine, b->count);
	start = rvl_tool_now();
	phase_start(b, "latency");
	while (!e && goes_on(b, b->latency.n, start)) {
		uint64_t used = processor_time();

		e = rvl_engine_run(b->engine, 0, &s);
		if (!e)
			e = keep(&b->processor, processor_time() - used);
		if (!e)
			e = keep(&b->latency, s.wall_ns);
		if (!e)
			add(&b->sum, &s);
		phase_at(b, b->latency.n, start);
	}
	rvl_progress_end(&b->progress);
	return !e && b->counters ? rvl_engine_counted(b->engine, b->count) : e;
}

/*
 * Waits for the runs that are in flight when a phase ends. They are counted, and so is their time.
 */
static int drain(struct bench *b, uint64_t in_flight)
{
	for (; in_flight; in_flight--) {
		int i = rvl_engine_any(b->engine), e;

		e = i < 0 ? -i : rvl_engine_wait(b->engine, (uint32_t)i, NULL);
		if (e)
			return e;
		b->together++;
	}
	return 0;
}

/* Keeps @depth runs in flight; a run is started only while the phase goes on. */
static int throughput(struct bench *b)
{
	uint64_t start = rvl_tool_now(), started = 0;
	int e = 0;

	phase_start(b, "throughput");
	for (; !e && started < b->depth && goes_on(b, started, start); started++)
		e = rvl_engine_start(b->engine, (uint32_t)started, 0, 0);
	while (!e && started > b->together && goes_on(b, started, start)) {
		int i = rvl_engine_any(b->engine);

		e = i < 0 ? -i : rvl_engine_wait(b->engine, (uint32_t)i, NULL);
		b->together += !e;
		if (!e)
			e = rvl_engine_start(b->engine, (uint32_t)i, 0, 0);
		started += !e;
		phase_at(b, b->together, start);
	}
	if (!e)
		e = drain(b, started - b->together);
	rvl_progress_end(&b->progress);
	b->rate = (double)b->together * 1e9 / (double)(rvl_tool_now() - start);
	return e;
}

/* ---- results ---- */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void sort(struct samples *s)
{
	qsort(s->ns, s->n, sizeof(*s->ns), by_value);
}

/* The shortest latency that @percent of the runs do not exceed. */
static const struct { const char *name; double percent; } quantiles[] = {
	{ "min", 0 }, { "p50", 50 }, { "p90", 90 }, { "p95", 95 }, { "p99", 99 }, { "max", 100 } };

#define QUANTILES (sizeof(quantiles) / sizeof(quantiles[0]))

static double quantile(const struct samples *s, double percent)
{
	uint64_t rank = (uint64_t)ceil(percent / 100 * (double)s->n);

	return 1e-9 * (double)s->ns[rank ? rank - 1 : 0];
}

static double each(const struct bench *b, uint64_t sum)
{
	return b->latency.n ? (double)sum / (double)b->latency.n : 0;
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

/*
 * Counters of the measured jobs; busy cycles of engines also as a share of the cycles of the jobs.
 */
static void text_counters(const struct bench *b)
{
	static const char *const heads[] = { "counter", ">a run", ">a job", "unit", ">of the cycles" };
	uint64_t jobs = b->count[DRM_RIVULET_PERF_JOBS];
	struct rvl_table t;

	printf("  counters of %llu jobs, %llu of them failed\n", (unsigned long long)jobs,
	       (unsigned long long)b->count[DRM_RIVULET_PERF_FAILED]);
	rvl_table_init(&t, 5, heads);
	for (uint32_t i = DRM_RIVULET_PERF_TIME; i < RIVULET_PERF_VALUES; i++) {
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

	printf("%s on %s, %llu runs one after the other%s\n", model, rvl_engine_name(b->engine),
	       (unsigned long long)b->latency.n, rvl_interrupted() ? ", interrupted" : "");
	printf("  latency    ");
	for (size_t i = 0; i < QUANTILES; i++)
		printf("%s %s %s", i ? "," : "", quantiles[i].name,
		       rvl_unit(u[0], quantile(&b->latency, quantiles[i].percent), "s"));
	printf("\n");
	if (b->together)
		printf("  throughput  %.1f inferences/s with %llu in flight, of %llu runs\n", b->rate,
		       (unsigned long long)b->depth, (unsigned long long)b->together);
	printf("  of a run    NPU %s (%.0f cycles), CPU %s\n",
	       rvl_unit(u[0], each(b, b->sum.npu_ns) * 1e-9, "s"), each(b, b->sum.cycles),
	       rvl_unit(u[1], each(b, b->sum.cpu_ns) * 1e-9, "s"));
	if (rvl_engine_is_sim(b->engine))
		printf("  Latency and throughput are those of the linked model on this computer; the table\n"
		       "  has the times of the device.\n");
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
	for (uint32_t i = 0; i < RIVULET_PERF_VALUES; i++)
		rvl_json_u64(rivulet_perfmon_counter(i, NULL), b->count[i]);
	rvl_json_close();
}

static void json_report(const struct bench *b, const char *model)
{
	const struct rivulet_board *board = rvl_engine_board(b->engine);
	char name[32];

	rvl_json_begin("bench");
	rvl_json_str("model", model);
	rvl_json_str("device", rvl_engine_name(b->engine));
	rvl_json_bool("interrupted", rvl_interrupted());
	rvl_json_u64("runs", b->latency.n);
	rvl_json_u64("depth", b->depth);
	rvl_json_u64("throughput_runs", b->together);
	for (size_t i = 0; i < QUANTILES; i++) {
		snprintf(name, sizeof(name), "latency_%s_s", quantiles[i].name);
		rvl_json_num(name, quantile(&b->latency, quantiles[i].percent));
	}
	rvl_json_num("latency_median_s", quantile(&b->latency, 50));
	rvl_json_num("processor_min_s", quantile(&b->processor, 0));
	rvl_json_num("processor_median_s", quantile(&b->processor, 50));
	rvl_json_num("per_second", b->together ? b->rate : NAN);
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
	char name[32];

	if (rvl_tool_json) {
		json_report(b, model);
		return;
	}
	text_report(b, model);
	if (b->counters)
		text_counters(b);
	for (size_t i = 0; i < QUANTILES; i++) {
		snprintf(name, sizeof(name), "latency.%s", quantiles[i].name);
		rvl_figure(b->figures, name, quantile(&b->latency, quantiles[i].percent) * 1e3, "ms");
	}
	rvl_figure(b->figures, "latency.median", quantile(&b->latency, 50) * 1e3, "ms");
	if (b->together)
		rvl_figure(b->figures, "throughput", b->rate, "1/s");
	rvl_figure(b->figures, "cycles", each(b, b->sum.cycles), "cycles");
}

/* A signal during the warm-up, or a duration that was over at once. */
static int no_run(void)
{
	if (rvl_interrupted())
		return rvl_tool_fail((enum rvl_exit)(128 + rvl_interrupted()),
				     "interrupted before the first run");
	return rvl_tool_fail(RVL_EXIT_USAGE, "the duration ended before the first run");
}

/* The libraries run beside this program's CPU operators, with the model as it is. */
static int compare(const struct bench *b, const char *model)
{
	struct rvl_blob file = { 0 };
	int r;

	if (!b->device || strcmp(b->device, "cpu"))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--compare needs --device cpu");
	r = model ? rvl_read_file(model, RIVULET_MODEL_MAX, &file) : 0;
	rvl_blob_clear(&file);
	if (r) /* before the libraries are installed */
		return r;
	return rvl_peers_compare(b->compare, model, b->threads);
}

static int run_bench(void *args, int n, char **operand)
{
	struct bench *b = args;
	struct rvl_engine_options o = { .device = b->device, .batch = (uint32_t)b->batch,
		.dims = &b->dims, .mode = &b->mode, .threads = (uint32_t)b->threads,
		.instances = (uint32_t)(b->depth ? b->depth : 1) };
	int e;

	if (b->compare)
		return compare(b, n ? operand[0] : NULL);
	if (!n)
		return rvl_tool_fail(RVL_EXIT_USAGE, "rivulet bench takes one model");
	if (b->runs && b->duration.ns)
		return rvl_tool_fail(RVL_EXIT_USAGE, "give --runs or --duration, not both");
	if (!b->runs)
		b->runs = DEFAULT_RUNS;
	e = rvl_engine_open(operand[0], &o, &b->engine);
	if (!e && b->counters)
		e = rvl_engine_monitor(b->engine);
	for (uint32_t i = 0; !e && i < o.instances; i++)
		rvl_engine_randomise(b->engine, i, DEFAULT_SEED);
	rvl_interrupt_catch();
	if (!e)
		e = latency(b);
	if (!e && b->depth)
		e = throughput(b);
	if (e)
		return e;
	if (!b->latency.n)
		return no_run();
	sort(&b->latency);
	sort(&b->processor);
	report(b, operand[0]);
	return 0;
}

static void clear(void *args)
{
	struct bench *b = args;

	rvl_engine_close(b->engine);
	rvl_mode_clear(&b->mode);
	rvl_dims_clear(&b->dims);
	free(b->latency.ns);
	free(b->processor.ns);
}

static const struct rvl_option options[] = {
	{ "device", 'd', "WHERE", "daemon, /dev/accel/accelN, sim:BOARD, or cpu", RVL_MEMBER(struct bench, device) },
	{ "runs", 'n', "N", "runs to measure (200)", RVL_MEMBER(struct bench, runs), .least = 1,
	  .most = MAX_RUNS },
	{ "duration", 0, "TIME", "measure for so long instead, latency and throughput each: 5s, 500ms",
	  RVL_MEMBER(struct bench, duration) },
	{ "warmup", 0, "N", "runs before that (5)", RVL_MEMBER(struct bench, warmup), .most = MAX_RUNS },
	{ "depth", 0, "N", "runs in flight for the throughput (4); 0: latency only", RVL_MEMBER(struct bench, depth),
	  .most = MAX_DEPTH },
	{ "batch", 0, "N", RVL_BATCH_HELP, RVL_MEMBER(struct bench, batch), .least = 1, .most = INT32_MAX },
	RVL_DIMS_OPTIONS(struct bench, dims),
	RVL_MODE_OPTIONS(struct bench, mode),
	{ "counters", 0, NULL, "what a performance monitor counts of the jobs, of a node only",
	  RVL_MEMBER(struct bench, counters) },
	{ "threads", 0, "N", "workers for CPU steps, not with the daemon", RVL_MEMBER(struct bench, threads),
	  .most = MAX_DEPTH },
	{ "compare", 0, "LIST", "with --device cpu: beside onnxruntime, xnnpack or both; without MODEL: a table",
	  RVL_MEMBER(struct bench, compare) },
	{ "figures", 0, "PREFIX", "print `figure PREFIX.NAME VALUE UNIT` lines",
	  RVL_MEMBER(struct bench, figures) },
	{ 0 }
};

const struct rvl_verb rvl_verb_bench = {
	.name = "bench", .summary = "latency, throughput, energy of a model", .order = 40,
	.operands = "MODEL [options]", .most = 1, .takes = "one model",
	.options = options, .args_size = sizeof(struct bench),
	.defaults = &(const struct bench) { .warmup = 5, .depth = 4 },
	.run = run_bench, .clear = clear,
};

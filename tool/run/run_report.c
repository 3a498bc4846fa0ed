// SPDX-License-Identifier: MIT
/* The report of rivulet run: pictures, classes, costs, levels, figures; or JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/image.h"
#include "output.h"
#include "progress.h"
#include "run/run.h"

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double per_run(const struct rvl_run *r, uint64_t sum)
{
	return r->runs ? (double)sum / (double)r->runs : 0;
}

/* The model's multiplications, without padding, as a share of what the array could do. */
static double utilisation(const struct rvl_run *r)
{
	const struct rivulet_board *b = rvl_engine_board(r->engine);
	const struct rivulet_program *p = rvl_engine_program(r->engine);
	uint64_t macs = 0;

	for (uint32_t i = 0; i < p->steps; i++)
		if (rivulet_program_steps(p)[i].kind == RIVULET_STEP_NPU)
			macs += rivulet_program_steps(p)[i].macs;
	if (!b || !r->sum.cycles)
		return 0;
	return (double)macs / (per_run(r, r->sum.cycles) * rivulet_board_peak(b));
}

static double per_second(const struct rvl_run *r)
{
	return r->series_ns ? (double)r->runs * 1e9 / (double)r->series_ns : 0;
}

static void pictures(struct rvl_run *r)
{
	const uint8_t *grey[RVL_RUN_SHOWN];
	const char *label[RVL_RUN_SHOWN];
	bool colour = isatty(STDOUT_FILENO) || r->pictures;
	uint32_t per_row = r->shown_w && r->shown_w < 120 ? 120 / (r->shown_w + 2) : 1;

	if (rvl_tool_json || !r->n_shown)
		return;
	for (uint32_t i = 0; i < r->n_shown; i++) {
		grey[i] = r->shown[i].grey;
		label[i] = r->shown[i].label;
	}
	for (uint32_t i = 0; i < r->n_shown; i += per_row)
		rvl_picture(stdout, r->n_shown - i < per_row ? r->n_shown - i : per_row, grey + i,
			    r->shown_w, r->shown_h, label + i, colour);
}

static void row(struct rvl_table *t, const char *name, const char *value, const char *note)
{
	rvl_table_cell(t, "%s", name);
	rvl_table_cell(t, "%s", value);
	rvl_table_cell(t, "%s", note);
}

/* The classes of each --image or of --input, and how a picture was resized. */
static void text_answers(const struct rvl_run *r)
{
	char name[64];

	for (uint32_t i = 0; i < r->n_answers && r->answer[i].file; i++) {
		const struct rvl_answer *a = &r->answer[i];

		printf("%s: %s, %.1f %%", a->file, rvl_run_name(r, a->top[0].class, name, sizeof(name)),
		       100 * a->top[0].confidence);
		if (a->w != r->want_w || a->h != r->want_h)
			printf("  (%u x %u pixels, resized by %s)", a->w, a->h, rvl_fit_name(r->mode.quantise.picture.fit));
		if (a->reference)
			printf("  (reference: %s, %.1f %%)",
			       rvl_run_name(r, a->reference->class, name, sizeof(name)),
			       100 * a->reference->confidence);
		printf("\n");
		for (uint32_t k = 1; k < a->n; k++)
			printf("  %2u. %s, %.1f %%\n", k + 1,
			       rvl_run_name(r, a->top[k].class, name, sizeof(name)),
			       100 * a->top[k].confidence);
	}
}

static void json_class(const struct rvl_run *r, const struct rvl_class *c)
{
	char name[64];

	rvl_json_u64("class", c->class);
	if (c->class < r->n_names)
		rvl_json_str("name", rvl_run_name(r, c->class, name, sizeof(name)));
	rvl_json_num("confidence", c->confidence);
}

static void json_answer(const struct rvl_run *r, const struct rvl_answer *a)
{
	rvl_json_open(NULL, '{');
	if (a->file)
		rvl_json_str("file", a->file);
	else
		rvl_json_u64("index", a->index);
	json_class(r, &a->top[0]);
	if (a->truth >= 0)
		rvl_json_u64("label", (uint64_t)a->truth);
	if (!r->tensors) {
		rvl_json_u64("width", a->w);
		rvl_json_u64("height", a->h);
		rvl_json_str("resized", a->w == r->want_w && a->h == r->want_h ? "none" :
			     rvl_fit_name(r->mode.quantise.picture.fit));
	}
	rvl_json_open("top", '[');
	for (uint32_t k = 0; k < a->n; k++) {
		rvl_json_open(NULL, '{');
		json_class(r, &a->top[k]);
		rvl_json_close();
	}
	rvl_json_close();
	if (a->reference) {
		rvl_json_open("reference", '{');
		json_class(r, a->reference);
		rvl_json_close();
	}
	rvl_json_close();
}

static void json_answers(const struct rvl_run *r)
{
	rvl_json_open("pictures", '[');
	for (uint32_t i = 0; i < r->n_answers; i++)
		json_answer(r, &r->answer[i]);
	rvl_json_close();
}

static void result_rows(const struct rvl_run *r, struct rvl_table *t)
{
	char v[64], note[96] = "";

	if (r->have_labels) {
		snprintf(v, sizeof(v), "%.2f %%", 100 * per_run(r, r->right));
		snprintf(note, sizeof(note), "%llu of %llu", (unsigned long long)r->right,
			 (unsigned long long)r->runs);
		row(t, "accuracy", v, note);
	}
	if (r->have_labels && r->top > 1) {
		snprintf(v, sizeof(v), "%.2f %%", 100 * per_run(r, r->right_top));
		snprintf(note, sizeof(note), "the label is among the best %llu classes",
			 (unsigned long long)r->top);
		row(t, "top accuracy", v, note);
	}
	if (r->have_expect) {
		snprintf(v, sizeof(v), "%llu of %llu", (unsigned long long)r->exact,
			 (unsigned long long)r->runs);
		strcpy(note, "equal to the record at the last quantised tensor");
		if (r->exact != r->runs)
			snprintf(note, sizeof(note), "FIRST DIFFERENCE: picture %llu",
				 (unsigned long long)r->first_wrong);
		row(t, "bit-exact", v, note);
	}
}

/* Of the output that differs most. */
static double worst_db(const struct rvl_run *r)
{
	double worst = RVL_SNR_EXACT;

	for (uint32_t i = 0; i < rvl_engine_outputs(r->engine); i++)
		worst = fmin(worst, rvl_snr_db(&r->snr[i]));
	return worst;
}

static void reference_row(const struct rvl_run *r, struct rvl_table *t)
{
	char v[32] = "exact", note[96];

	if (!r->snr)
		return;
	if (worst_db(r) < RVL_SNR_EXACT)
		snprintf(v, sizeof(v), "%.1f dB", worst_db(r));
	snprintf(note, sizeof(note), "SNR of the worst output against %s", r->reference);
	row(t, "reference", v, note);
}

static void cost_rows(const struct rvl_run *r, struct rvl_table *t)
{
	char v[64], note[96], u[32];
	uint64_t n = r->runs < RVL_RUN_WALLS ? r->runs : RVL_RUN_WALLS;

	snprintf(v, sizeof(v), "%.0f", per_run(r, r->sum.cycles));
	snprintf(note, sizeof(note), "per inference, %u NPU and %u CPU steps",
		 (uint32_t)per_run(r, r->sum.npu_steps), (uint32_t)per_run(r, r->sum.cpu_steps));
	row(t, "device cycles", v, note);
	snprintf(v, sizeof(v), "%.1f %%", 100 * utilisation(r));
	row(t, "utilisation", v, "model MACs of the array's peak");
	snprintf(note, sizeof(note), "median, from request to answer; level %u", r->sum.level_max);
	row(t, "latency seen", rvl_unit(u, (double)r->wall[n / 2] * 1e-9, "s"), note);
	row(t, "device time", rvl_unit(u, per_run(r, r->sum.npu_ns) * 1e-9, "s"), "per inference");
	row(t, "CPU steps", rvl_unit(u, per_run(r, r->sum.cpu_ns) * 1e-9, "s"), "per inference");
	row(t, "device energy", rvl_unit(u, per_run(r, r->sum.energy_pj) * 1e-12, "J"),
	    "per inference, static part included");
}

/** struct level - what one inference costs at a level */
struct level {
	double seconds, joule, watt;
};

/* Estimated from the level's own command streams, by the timing rules of the device. */
static struct level level_cost(const struct rvl_run *r, uint32_t level)
{
	const struct rivulet_estimate_row *e = rvl_engine_level(r->engine, level);
	struct level c = { 0 };

	if (!e)
		return c;
	c.seconds = e->seconds;
	c.joule = e->joule;
	c.watt = c.seconds > 0 ? c.joule / c.seconds : 0;
	return c;
}

static void level_table(const struct rvl_run *r)
{
	static const char *const heads[] = { ">level", ">clock", ">supply", ">latency", ">per second",
					     ">energy", ">power", "" };
	const struct rivulet_board *b = rvl_engine_board(r->engine);
	struct rvl_table t;
	char u[4][32];

	if (!b || !r->sum.cycles)
		return;
	printf("\nNPU part of one inference at every V/F level:\n");
	rvl_table_init(&t, 8, heads);
	for (uint32_t i = 0; i < b->levels; i++) {
		struct level c = level_cost(r, i);

		rvl_table_cell(&t, "%u", i);
		rvl_table_cell(&t, "%s", rvl_unit(u[0], (double)b->level[i].hz, "Hz"));
		rvl_table_cell(&t, "%u mV", b->level[i].microvolt / 1000);
		rvl_table_cell(&t, "%s", rvl_unit(u[1], c.seconds, "s"));
		rvl_table_cell(&t, "%.1f", c.seconds > 0 ? 1 / c.seconds : 0);
		rvl_table_cell(&t, "%s", rvl_unit(u[2], c.joule, "J"));
		rvl_table_cell(&t, "%s", rvl_unit(u[3], c.watt, "W"));
		rvl_table_cell(&t, "%s", i >= r->sum.level_min && i <= r->sum.level_max ?
			       "measured here" : "estimated");
	}
	rvl_table_print(&t, 2);
}

/* ---- outputs of --input ---- */

#define VALUES_SHOWN 10u

static uint64_t elements(const struct rivulet_tensor_info *t)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < t->ndim; i++)
		n *= t->dim[i];
	return n;
}

/* The first values of each output. */
static void text_outputs(const struct rvl_run *r)
{
	uint32_t first = rvl_engine_inputs(r->engine);
	char shape[128];

	for (uint32_t i = first; r->tensors && i < first + rvl_engine_outputs(r->engine); i++) {
		const struct rivulet_tensor_info *t = rvl_engine_tensor(r->engine, i);
		const void *p = rvl_engine_memory(r->engine, r->instance, i);
		uint64_t n = elements(t);

		printf("\noutput %s, %s %s:", t->name, rvl_dtype_name(t->dtype),
		       rvl_shape_text(shape, t->ndim, t->dim));
		for (uint64_t k = 0; k < n && k < VALUES_SHOWN; k++)
			printf(" %g", rvl_dtype_value(t->dtype, p, k));
		printf("%s\n", n <= VALUES_SHOWN ? "" : r->output ? " ..." : " ... (--output DIR keeps all)");
	}
}

static void json_outputs(const struct rvl_run *r)
{
	uint32_t first = rvl_engine_inputs(r->engine);

	rvl_json_open("outputs", '[');
	for (uint32_t i = first; r->tensors && i < first + rvl_engine_outputs(r->engine); i++) {
		const struct rivulet_tensor_info *t = rvl_engine_tensor(r->engine, i);

		rvl_json_open(NULL, '{');
		rvl_json_str("name", t->name);
		rvl_json_str("type", rvl_dtype_name(t->dtype));
		rvl_json_open("shape", '[');
		for (uint32_t d = 0; d < t->ndim; d++)
			rvl_json_u64(NULL, t->dim[d]);
		rvl_json_close();
		rvl_json_open("first", '[');
		for (uint64_t k = 0; k < elements(t) && k < VALUES_SHOWN; k++)
			rvl_json_num(NULL, rvl_dtype_value(t->dtype, rvl_engine_memory(r->engine, r->instance, i), k));
		rvl_json_close();
		rvl_json_close();
	}
	rvl_json_close();
}

static void text_report(const struct rvl_run *r)
{
	static const char *const heads[] = { "", ">", "" };
	struct rvl_table t;

	printf("%s on %s, %llu inference%s%s\n", r->model, rvl_engine_name(r->engine),
	       (unsigned long long)r->runs, r->runs == 1 ? "" : "s",
	       rvl_interrupted() ? ", interrupted" : "");
	if (r->random)
		printf("  random input, seed %llu\n", (unsigned long long)r->seed);
	if (r->failed)
		printf("  %llu of %llu FAILED\n", (unsigned long long)r->failed,
		       (unsigned long long)(r->runs + r->failed));
	rvl_table_init(&t, 3, heads);
	result_rows(r, &t);
	reference_row(r, &t);
	cost_rows(r, &t);
	rvl_table_print(&t, 2);
	if (r->runs > 1)
		printf("  throughput  %.1f inferences/s with %u in flight\n", per_second(r),
		       rvl_engine_instances(r->engine));
	level_table(r);
	text_outputs(r);
}

static void json_levels(const struct rvl_run *r)
{
	const struct rivulet_board *b = rvl_engine_board(r->engine);

	rvl_json_open("levels", '[');
	for (uint32_t i = 0; b && r->sum.cycles && i < b->levels; i++) {
		struct level c = level_cost(r, i);

		rvl_json_open(NULL, '{');
		rvl_json_u64("level", i);
		rvl_json_u64("hz", b->level[i].hz);
		rvl_json_num("volt", b->level[i].microvolt * 1e-6);
		rvl_json_num("seconds", c.seconds);
		rvl_json_num("joule", c.joule);
		rvl_json_bool("measured", i >= r->sum.level_min && i <= r->sum.level_max);
		rvl_json_close();
	}
	rvl_json_close();
}

static void json_report(const struct rvl_run *r)
{
	uint64_t n = r->runs < RVL_RUN_WALLS ? r->runs : RVL_RUN_WALLS;

	rvl_json_begin("run/2");
	rvl_json_str("model", r->model);
	rvl_json_str("device", rvl_engine_name(r->engine));
	rvl_json_u64("runs", r->runs);
	rvl_json_u64("failed", r->failed);
	rvl_json_u64("depth", rvl_engine_instances(r->engine));
	rvl_json_num("per_second", per_second(r));
	rvl_json_bool("interrupted", rvl_interrupted());
	if (r->random)
		rvl_json_u64("seed", r->seed);
	if (r->have_labels)
		rvl_json_num("accuracy", per_run(r, r->right));
	if (r->have_labels && r->top > 1)
		rvl_json_num("top_accuracy", per_run(r, r->right_top));
	if (r->have_expect)
		rvl_json_u64("bitexact", r->exact);
	if (r->snr)
		rvl_json_num("snr_db", worst_db(r));
	rvl_json_num("cycles", per_run(r, r->sum.cycles));
	rvl_json_num("macs", per_run(r, r->sum.macs));
	rvl_json_num("utilisation", utilisation(r));
	rvl_json_num("latency_median_s", (double)r->wall[n / 2] * 1e-9);
	rvl_json_num("device_s", per_run(r, r->sum.npu_ns) * 1e-9);
	rvl_json_num("cpu_s", per_run(r, r->sum.cpu_ns) * 1e-9);
	rvl_json_num("energy_j", per_run(r, r->sum.energy_pj) * 1e-12);
	json_levels(r);
	json_answers(r);
	json_outputs(r);
	rvl_json_end();
}

static void figures(const struct rvl_run *r)
{
	const struct rivulet_board *b = rvl_engine_board(r->engine);
	uint64_t n = r->runs < RVL_RUN_WALLS ? r->runs : RVL_RUN_WALLS;
	char name[64];

	if (!r->figures)
		return;
	if (r->have_labels)
		rvl_figure(r->figures, "accuracy", 100 * per_run(r, r->right), "%");
	if (r->have_expect)
		rvl_figure(r->figures, "bitexact", (double)r->exact, "images");
	if (r->snr)
		rvl_figure(r->figures, "snr", worst_db(r), "dB");
	rvl_figure(r->figures, "images", (double)r->runs, "images");
	rvl_figure(r->figures, "cycles", per_run(r, r->sum.cycles), "cycles");
	rvl_figure(r->figures, "utilisation", 100 * utilisation(r), "%");
	rvl_figure(r->figures, "latency", (double)r->wall[n / 2] * 1e-6, "ms");
	if (r->runs > 1)
		rvl_figure(r->figures, "throughput", per_second(r), "1/s");
	for (uint32_t i = 0; b && r->sum.cycles && i < b->levels; i++) {
		struct level c = level_cost(r, i);

		snprintf(name, sizeof(name), "level%u.time", i);
		rvl_figure(r->figures, name, c.seconds * 1e3, "ms");
		snprintf(name, sizeof(name), "level%u.energy", i);
		rvl_figure(r->figures, name, c.joule * 1e6, "uJ");
	}
}

int rvl_run_report(struct rvl_run *r)
{
	qsort(r->wall, r->runs < RVL_RUN_WALLS ? r->runs : RVL_RUN_WALLS, sizeof(r->wall[0]), by_value);
	pictures(r);
	if (!rvl_tool_json)
		text_answers(r);
	if (rvl_tool_json)
		json_report(r);
	else
		text_report(r);
	if (!rvl_tool_json)
		figures(r);
	for (uint32_t i = 0; i < r->n_shown; i++)
		free(r->shown[i].grey);
	if (r->have_expect && r->exact != r->runs)
		return rvl_tool_fail(RVL_EXIT_DIFFERENT, "%llu of %llu outputs differ from %s",
				     (unsigned long long)(r->runs - r->exact),
				     (unsigned long long)r->runs, r->expect);
	return r->failed ? RVL_EXIT_FAILED : 0;
}

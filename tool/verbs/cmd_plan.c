// SPDX-License-Identifier: MIT
/*
 * rivulet plan: chooses a bitstream length for each voltage/frequency level. Time and energy are
 * predicted for every length; accuracies are measured only where the choice, which plan/plan.c
 * makes, depends on them.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/engine.h"
#include "output.h"
#include "plan/plan.h"
#include "progress.h"
#include "rivulet_sha256.h"

#define DEFAULT_BOARD "sc-edge"
#define WATT_HOUR     3600.0

/* ---- numbers and lists ---- */

static int number(const char *name, const char *s, double lo, double hi, double *out)
{
	char *end;

	if (!s)
		return 0;
	*out = strtod(s, &end);
	if (end == s || *end || !(*out >= lo && *out <= hi))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--%s: \"%s\" is no number of %g to %g", name,
				     s, lo, hi);
	return 0;
}

/* Numbers with commas: one for all of the @n, or one for each. */
static int list(const char *name, const char *s, double lo, double hi, uint32_t n, double *out)
{
	uint32_t k = 0;

	for (const char *at = s;; at++) {
		char *end;
		double v = strtod(at, &end);

		if (end == at || (*end && *end != ',') || !(v >= lo && v <= hi))
			return rvl_tool_fail(RVL_EXIT_USAGE,
					     "--%s: \"%s\" is no list of numbers of %g to %g",
					     name, s, lo, hi);
		if (k < n)
			out[k] = v;
		k++;
		at = end;
		if (!*at)
			break;
	}
	for (uint32_t i = 1; k == 1 && i < n; i++)
		out[i] = out[0];
	return k == 1 || k == n ? 0 : rvl_tool_fail(RVL_EXIT_USAGE,
						    "--%s has %u values for %u levels", name, k, n);
}

/* "l1" and "0" both name the slowest level: the literature counts from 1, this software from 0. */
static int parse_level(const struct rivulet_board *b, const char *s, size_t n, uint32_t *out)
{
	uint32_t from = *s == 'l' ? 1 : 0;
	char *end;
	unsigned long v = strtoul(s + from, &end, 10);

	if (s[from] < '0' || s[from] > '9' || end != s + n || v < from || v - from >= b->levels)
		return rvl_tool_fail(RVL_EXIT_USAGE,
				     "\"%.*s\" is no level of %s: l1 (slowest) to l%u, or 0 "
				     "to %u", (int)n, s, b->name, b->levels, b->levels - 1);
	*out = (uint32_t)v - from;
	return 0;
}

/* The default of --levels: all that no faster level at the same or a lower voltage dominates. */
static void all_levels(struct rvl_planning *v)
{
	for (uint32_t l = v->board.levels; l-- > 0;)
		if (rivulet_plan_dominated(&v->board, l) < 0)
			v->problem.level[v->problem.n_levels++].level = l;
}

static int parse_levels(struct rvl_planning *v)
{
	struct rivulet_plan_problem *p = &v->problem;
	const char *s = v->levels;

	if (!s) {
		all_levels(v);
		return 0;
	}
	for (;; s++) {
		size_t n = strcspn(s, ",");
		uint32_t l;
		int r = parse_level(&v->board, s, n, &l);

		if (r)
			return r;
		if (p->n_levels && l >= p->level[p->n_levels - 1].level)
			return rvl_tool_fail(RVL_EXIT_USAGE,
					     "--levels: \"%s\" does not fall: the battery "
					     "passes the fastest first", v->levels);
		p->level[p->n_levels++].level = l;
		s += n;
		if (!*s)
			return 0;
	}
}

static int parse_modes(const struct rvl_planning *v, bool *sc, bool *int8)
{
	const char *m = v->modes ? v->modes : "sc";

	*sc = !strcmp(m, "sc") || !strcmp(m, "sc,int8") || !strcmp(m, "int8,sc");
	*int8 = !strcmp(m, "int8") || strlen(m) > 4;
	return *sc || !strcmp(m, "int8") ? 0 :
	       rvl_tool_fail(RVL_EXIT_USAGE, "--modes is sc, int8 or sc,int8, not \"%s\"", m);
}

/* ---- the problem ---- */

static int predict(struct rvl_planning *v, struct rivulet_plan_candidate *candidate, uint32_t n)
{
	struct rvl_err err = { "" };

	if (rivulet_plan_predict(v->onnx.data, v->onnx.size, &v->board, &v->opt, candidate, n,
				 &err))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", v->model, err.msg);
	return 0;
}

/* int8 is predicted even if it may not be chosen, because the report compares with it. */
static int make_candidates(struct rvl_planning *v)
{
	bool length[RIVULET_SC_MAX + 1] = { false }, sc, int8;
	struct rivulet_plan_problem *p = &v->problem;
	int r = parse_modes(v, &sc, &int8);

	if (!r && v->lengths)
		r = rvl_lengths_parse(v->lengths, length);
	if (r)
		return r;
	if (!sc && (v->lengths || v->keep.n_keep))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--length and --keep-int8 go with --modes sc");
	v->opt.stochastic = sc;
	v->candidate[0].length = 0;
	p->n_candidates = 1;
	for (uint32_t l = RIVULET_SC_MIN; sc && l <= RIVULET_SC_MAX; l++)
		if (!v->lengths || length[l])
			v->candidate[p->n_candidates++].length = l;
	r = predict(v, v->candidate, p->n_candidates);
	v->int8 = v->candidate[0];
	p->candidate = int8 ? v->candidate : v->candidate + 1;
	p->n_candidates -= !int8;
	return r;
}

/* "143ms", or a multiple of the time that a length takes at a level: "1.005*64@l6". */
static int parse_constraint(struct rvl_planning *v)
{
	static const struct { const char *unit; double scale; } unit[] = {
		{ "s", 1 }, { "ms", 1e-3 }, { "us", 1e-6 } };
	struct rivulet_plan_candidate candidate = { 0 };
	const char *s = v->constraint;
	double value;
	char *end;
	uint32_t l;
	int r;

	value = strtod(s, &end);
	for (size_t i = 0; end != s && i < sizeof(unit) / sizeof(unit[0]); i++)
		if (!strcmp(end, unit[i].unit))
			v->problem.constraint = value * unit[i].scale;
	if (v->problem.constraint > 0 && isfinite(v->problem.constraint))
		return 0;
	if (end != s && *end == '*' && value > 0 && isfinite(value)) {
		candidate.length = (uint32_t)strtoul(end + 1, &end, 10);
		if (*end == '@' && candidate.length >= RIVULET_SC_MIN &&
		    candidate.length <= RIVULET_SC_MAX &&
		    v->opt.stochastic) {
			r = parse_level(&v->board, end + 1, strlen(end + 1), &l);
			if (!r)
				r = predict(v, &candidate, 1);
			if (!r)
				v->problem.constraint = value * candidate.seconds[l];
			return r;
		}
	}
	return rvl_tool_fail(RVL_EXIT_USAGE,
			     "--time-constraint: \"%s\" is no time (143ms, 0.2s) and no "
			     "FACTOR*BITS@LEVEL (1.005*64@l6)", s);
}

static int parse_reward(struct rvl_planning *v)
{
	double range[2] = { 60, 90 }, tolerance = 0.25;
	struct rivulet_plan_problem *p = &v->problem;
	int r = v->range ? list("reward-range", v->range, 0, 100, 2, range) : 0;

	p->penalty = 0.2;
	if (!r)
		r = number("penalty", v->penalty, 0, 1e6, &p->penalty);
	if (!r)
		r = number("tolerance", v->tolerance, 0, 100, &tolerance);
	p->worst = (uint32_t)lround(range[0] * 1e4);
	p->best = (uint32_t)lround(range[1] * 1e4);
	p->tolerance = (uint32_t)lround(tolerance * 1e4);
	return r || p->best > p->worst ? r : rvl_tool_fail(RVL_EXIT_USAGE,
							   "--reward-range: \"%s\" does not "
							   "rise", v->range);
}

static int parse_charge(struct rvl_planning *v)
{
	double share[RIVULET_LEVELS], sum = 0, wh = 1, margin = 0, least[RIVULET_LEVELS] = { 0 };
	struct rivulet_plan_problem *p = &v->problem;
	int r = list("shares", v->shares ? v->shares : "1", 1e-6, 1e6, p->n_levels, share);

	if (!r && v->accuracy)
		r = list("accuracy", v->accuracy, 0, 100, p->n_levels, least);
	if (!r)
		r = number("margin", v->margin, 0, 100, &margin);
	if (!r)
		r = number("battery", v->battery, 1e-9, 1e9, &wh);
	v->charge = 100;
	if (!r)
		r = number("charge", v->left, 0, 100, &v->charge);
	if (!r)
		r = number("rate", v->rate, 1e-6, 1e9, &p->rate);
	if (!r)
		r = number("base-power", v->base_power, 0, 1e6, &p->base_power);
	for (uint32_t i = 0; !r && i < p->n_levels; i++)
		sum += share[i];
	for (uint32_t i = 0; !r && i < p->n_levels; i++) {
		p->level[i].joule = wh * WATT_HOUR * share[i] / sum;
		v->least[i] = (uint32_t)lround(least[i] * 1e4);
		p->level[i].least = least[i] > 0 ? (uint32_t)lround((least[i] + margin) * 1e4) : 0;
	}
	return r;
}

static int measure(void *ctx, uint32_t candidate, uint32_t *ppm, struct rvl_err *err)
{
	struct rvl_planning *v = ctx;

	return rvl_curve_ppm(&v->curve, RVL_CHOOSE, v->problem.candidate[candidate].length, ppm,
			     err);
}

static int make_problem(struct rvl_planning *v)
{
	int objective = rivulet_plan_objective_find(v->objective ? v->objective : "runs");
	struct rivulet_plan_problem *p = &v->problem;
	int r;

	if (objective < 0)
		return rvl_tool_fail(RVL_EXIT_USAGE,
				     "--objective is accuracy, runs or reward, not \"%s\"",
				     v->objective);
	p->objective = (enum rivulet_plan_objective)objective;
	p->accuracy = measure;
	p->ctx = v;
	r = parse_levels(v);
	if (!r)
		r = parse_charge(v);
	if (!r)
		r = parse_reward(v);
	if (!r)
		r = make_candidates(v);
	if (!r)
		r = parse_constraint(v);
	v->by_rate = !r && p->rate > 0 && 1 / p->rate < p->constraint;
	if (v->by_rate)
		p->constraint = 1 / p->rate;
	return r;
}

/* ---- data ---- */

static void hash_bytes(uint8_t out[32], const void *data, size_t size)
{
	uint8_t both[64];

	memcpy(both, out, 32);
	rivulet_sha256(data, size, both + 32);
	rivulet_sha256(both, sizeof(both), out);
}

/* Names end with their NUL, and the counts are a part of the key, so that different lists differ in it. */
static void hash_dims(uint8_t key[32], const struct rivulet_compile_options *o)
{
	const uint32_t n[] = { o->n_shapes, o->n_dimensions };

	hash_bytes(key, n, sizeof(n));
	for (uint32_t i = 0; i < o->n_shapes; i++) {
		hash_bytes(key, o->shapes[i].name, strlen(o->shapes[i].name) + 1);
		hash_bytes(key, o->shapes[i].dim, o->shapes[i].rank * sizeof(o->shapes[i].dim[0]));
	}
	for (uint32_t i = 0; i < o->n_dimensions; i++) {
		hash_bytes(key, o->dimensions[i].name, strlen(o->dimensions[i].name) + 1);
		hash_bytes(key, &o->dimensions[i].value, sizeof(o->dimensions[i].value));
	}
}

/*
 * The key covers all that an accuracy depends on, except the arithmetic, which docs/numerics.md
 * fixes.
 */
static int hash_curve(struct rvl_planning *v)
{
	const uint64_t n[] = { v->curve.part[RVL_CHOOSE].count, v->curve.part[RVL_HELD].count,
			       (uint64_t)v->opt.batch, (uint64_t)v->opt.symbol, v->opt.stochastic };
	uint8_t *key = v->curve.key, quantise[32], model[32];
	struct rvl_err err = { "" };

	if (rivulet_model_hash(v->onnx.data, v->onnx.size, &v->opt, model, &err))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", v->model, err.msg);
	hash_bytes(key, v->set.examples.data, v->set.examples.size);
	hash_bytes(key, v->set.label, v->set.set.count);
	memcpy(v->plan.data, key, 32);
	hash_bytes(key, model, sizeof(model));
	hash_bytes(key, n, sizeof(n));
	hash_dims(key, &v->opt);
	rivulet_quantise_hash(&v->opt.quantise, quantise);
	hash_bytes(key, quantise, sizeof(quantise));
	for (uint32_t i = 0; i < v->opt.n_keep_int8; i++)
		hash_bytes(key, v->opt.keep_int8[i], strlen(v->opt.keep_int8[i]));
	return 0;
}

static void cut(struct rvl_planning *v)
{
	const struct rivulet_eval_data *s = &v->set.set;
	struct rivulet_eval_data *a = &v->curve.part[RVL_CHOOSE], *b = &v->curve.part[RVL_HELD];
	uint64_t n = v->choose ? v->choose : (s->count + 1) / 2;

	*a = *b = *s;
	a->count = n < s->count ? n : s->count;
	b->count = s->count - a->count;
	b->f32 = s->f32 ? s->f32 + a->count * s->size : NULL;
	b->u8 = s->u8 ? s->u8 + a->count * s->size : NULL;
	b->labels = s->labels + a->count;
}

static int read_data(struct rvl_planning *v)
{
	const char *comma = strchr(v->data, ',');
	char *images;
	int r;

	if (!comma || comma == v->data || !comma[1])
		return rvl_tool_fail(RVL_EXIT_USAGE, "--data takes IMAGES,LABELS, not \"%s\"",
				     v->data);
	images = strndup(v->data, (size_t)(comma - v->data));
	if (!images)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	r = rvl_dataset_read(images, comma + 1, 0, UINT32_MAX, &v->set);
	free(images);
	if (!r)
		cut(v);
	return r;
}

static int open_curve(struct rvl_planning *v)
{
	struct rivulet_compile_options o = v->opt;
	struct rvl_err err = { "" };
	int r = read_data(v);

	if (r)
		return r;
	o.batch = 0; /* the evaluator chooses how many examples it runs at once */
	if (rivulet_eval_new(v->onnx.data, v->onnx.size, &o, &v->curve.eval, &err))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", v->model, err.msg);
	v->curve.threads = (uint32_t)v->threads;
	v->curve.wanted = RVL_PARTS * (v->problem.n_candidates + 1);
	rvl_interrupt_catch();
	r = hash_curve(v);
	if (!r && !v->no_cache)
		rvl_curve_open(&v->curve, v->cache);
	return r;
}

/* ---- the plan ---- */

static int fill_entry(struct rvl_planning *v, uint32_t i)
{
	struct rivulet_plan_entry *e = &v->plan.level[i];
	uint32_t l = v->problem.level[i].level;
	struct rvl_err err = { "" };

	*e = (struct rivulet_plan_entry) { .level = l, .hz = v->board.level[l].hz,
		.microvolt = v->board.level[l].microvolt, .chosen = v->answer.ppm[i],
		.length = v->problem.candidate[v->answer.candidate[i]].length,
			.least = v->least[i] };
	if (rvl_curve_ppm(&v->curve, RVL_HELD, e->length, &e->held, &err) ||
	    rvl_curve_ppm_all(&v->curve, e->length, &e->accuracy, &err))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s", err.msg);
	return 0;
}

/* Time and energy of the program of this plan, in which the variants of all levels share memory. */
static int price(struct rvl_planning *v)
{
	struct rivulet_estimate_row row[RIVULET_LEVELS];
	struct rivulet_compile_options o = v->opt;
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	int rc = rivulet_plan_apply(&v->plan, v->onnx.data, v->onnx.size, &v->board, &o, &err);

	if (!rc)
		rc = rivulet_compile(v->onnx.data, v->onnx.size, &v->board, &o, &program, NULL,
				     &err);
	if (!rc)
		rc = rivulet_estimate(program.data, &v->board, row, &err);
	for (uint32_t i = 0; rc >= 0 && i < v->plan.n_levels; i++) {
		struct rivulet_plan_entry *e = &v->plan.level[i];

		e->time_ns = (uint64_t)ceil(row[e->level].seconds * 1e9);
		e->energy_pj = (uint64_t)llround(row[e->level].joule * 1e12);
		if (row[e->level].seconds > v->problem.constraint)
			rc = rvl_fail(&err, -ERANGE, "level %u takes %.9f s next to the variants "
						     "of the "
				      "other levels, which exceeds the constraint", e->level,
				      row[e->level].seconds);
	}
	rivulet_blob_free(&program);
	return rc < 0 ? rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", v->model, err.msg) : 0;
}

static int make_plan(struct rvl_planning *v)
{
	struct rivulet_plan *p = &v->plan;
	struct rvl_err err = { "" };
	int r = 0;

	if (rivulet_plan_bind(p, v->onnx.data, v->onnx.size, &v->board, &v->opt, &err))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s", err.msg);
	p->examples_chosen = (uint32_t)v->curve.part[RVL_CHOOSE].count;
	p->examples_held = (uint32_t)v->curve.part[RVL_HELD].count;
	p->objective = v->problem.objective;
	p->constraint_ns = (uint64_t)(v->problem.constraint * 1e9);
	p->n_levels = v->problem.n_levels;
	for (uint32_t i = 0; !r && i < p->n_levels; i++)
		r = fill_entry(v, i);
	return r ? r : price(v);
}

static int write_plan(struct rvl_planning *v)
{
	struct rivulet_blob text = { 0 };
	int r;

	if (!v->output)
		return 0;
	if (rivulet_plan_text(&v->plan, &text))
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	r = rvl_write_file(v->output, text.data, text.size);
	rivulet_blob_free(&text);
	return r;
}

static int choose(struct rvl_planning *v)
{
	struct rvl_err err = { "" };

	if (rivulet_plan_choose(&v->problem, &v->answer, &err))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", v->model, err.msg);
	return 0;
}

static int plan(struct rvl_planning *v)
{
	int r = rvl_board_of(v->board_name ? v->board_name : DEFAULT_BOARD, &v->board);

	if (!r)
		r = rvl_mode_fill(&v->keep, v->board.levels, &v->opt);
	if (!r)
		r = rvl_read_file(v->model, RIVULET_MODEL_MAX, &v->onnx);
	if (!r)
		r = rvl_beside_open(&v->beside, v->model);
	v->opt.files = &v->beside.files;
	if (!r)
		r = rvl_quantise_fill(&v->keep.quantise, v->model, &v->onnx, &v->opt);
	if (!r)
		r = make_problem(v);
	if (!r)
		r = open_curve(v);
	if (!r)
		r = choose(v);
	if (!r && !v->answer.feasible)
		return rvl_plan_refusal(v);
	if (!r)
		r = make_plan(v);
	if (!r)
		r = write_plan(v);
	if (!r && v->svg)
		r = rvl_plan_svg(v, v->svg);
	return r ? r : rvl_plan_report(v);
}

static int check_args(struct rvl_planning *v)
{
	if (!v->data || !v->constraint)
		return rvl_tool_fail(RVL_EXIT_USAGE,
				     "rivulet plan takes --time-constraint and --data");
	if (!v->threads)
		v->threads = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	v->opt.batch = (int64_t)v->batch;
	rvl_dims_fill(&v->dims, &v->opt);
	return 0;
}

static int run_plan(void *args, int n, char **operand)
{
	struct rvl_planning *v = args;
	int r = check_args(v);

	(void)n;
	v->model = operand[0];
	if (!r)
		r = plan(v);
	rvl_curve_save(&v->curve);
	if (r && rvl_interrupted())
		rvl_plan_partial(v);
	return r;
}

static void clear(void *args)
{
	struct rvl_planning *v = args;

	rivulet_eval_free(v->curve.eval);
	rivulet_plan_clear(&v->plan);
	rvl_dataset_clear(&v->set);
	rvl_mode_clear(&v->keep);
	rvl_beside_clear(&v->beside);
	rvl_blob_clear(&v->onnx);
	rvl_dims_clear(&v->dims);
}

static const struct rvl_option options[] = {
	{ "board", 'b', "BOARD", "profile name or file, or /dev/accel/accelN (sc-edge)",
	  RVL_MEMBER(struct rvl_planning, board_name) },
	{ "levels", 0, "LIST", "fastest first: l6,l4,l3 (l1: slowest) or 5,3,2 (all but dominated "
	  "ones)", RVL_MEMBER(struct rvl_planning, levels) },
	{ "time-constraint", 0, "TIME",
	  "of an inference: 143ms, or FACTOR*BITS@LEVEL (1.005*64@l6)",
	  RVL_MEMBER(struct rvl_planning, constraint) },
	{ "accuracy", 0, "LIST", "least accuracy by level, in percent: 87,84,79 (0)",
	  RVL_MEMBER(struct rvl_planning, accuracy) },
	{ "data", 0, "IMAGES,LABELS", "examples: IDX of bytes (plain or .gz), or .npy",
	  RVL_MEMBER(struct rvl_planning, data) },
	{ "choose", 0, "N", "examples that choose; the others hold out (half)",
	  RVL_MEMBER(struct rvl_planning, choose), .most = UINT32_MAX },
	{ "objective", 0, "WHAT", "accuracy, runs or reward (runs)",
	  RVL_MEMBER(struct rvl_planning, objective) },
	{ "modes", 0, "LIST", "what may be chosen: sc, int8 or sc,int8 (sc)",
	  RVL_MEMBER(struct rvl_planning, modes) },
	{ "length", 0, "LIST", "lengths that may be chosen (8-256)",
	  RVL_MEMBER(struct rvl_planning, lengths) },
	{ "margin", 0, "POINTS", "by which the choosing examples must exceed --accuracy (0)",
	  RVL_MEMBER(struct rvl_planning, margin) },
	{ "rate", 0, "HZ", "inferences a second (one after the other)",
	  RVL_MEMBER(struct rvl_planning, rate) },
	{ "base-power", 0, "W", "of the rest of the board while an inference runs (0)",
	  RVL_MEMBER(struct rvl_planning, base_power) },
	{ "battery", 0, "WH", "energy of a charge (1)", RVL_MEMBER(struct rvl_planning, battery) },
	{ "charge", 0, "PERCENT", "what the battery has at the start (100)",
	  RVL_MEMBER(struct rvl_planning, left) },
	{ "shares", 0, "LIST", "of the charge by level (equal)",
	  RVL_MEMBER(struct rvl_planning, shares) },
	{ "reward-range", 0, "LO,HI", "reward: accuracies that count 0 and 1 (60,90)",
	  RVL_MEMBER(struct rvl_planning, range) },
	{ "penalty", 0, "X", "reward: when a slower level is more accurate (0.2)",
	  RVL_MEMBER(struct rvl_planning, penalty) },
	{ "tolerance", 0, "POINTS", "reward: by more than this (0.25)",
	  RVL_MEMBER(struct rvl_planning, tolerance) },
	RVL_KEEP_OPTIONS(struct rvl_planning, keep),
	{ "batch", 0, "N", "value of a symbolic first dimension in the program (1)",
	  RVL_MEMBER(struct rvl_planning, batch), .least = 1, .most = INT32_MAX },
	RVL_DIMS_OPTIONS(struct rvl_planning, dims),
	{ "threads", 0, "N", "threads that measure (one per processor)",
	  RVL_MEMBER(struct rvl_planning, threads), .most = 64 },
	{ "output", 'o', "FILE", "the plan file, for rivulet compile --plan",
	  RVL_MEMBER(struct rvl_planning, output) },
	{ "svg", 0, "FILE", "plot accuracy, latency and runs against length",
	  RVL_MEMBER(struct rvl_planning, svg) },
	{ "cache", 0, "DIR", "where accuracies are kept (~/.cache/rivulet)",
	  RVL_MEMBER(struct rvl_planning, cache) },
	{ "no-cache", 0, NULL, "measure again, and keep nothing",
	  RVL_MEMBER(struct rvl_planning, no_cache) },
	{ "figures", 0, "PREFIX", "print `figure PREFIX.NAME VALUE UNIT` lines",
	  RVL_MEMBER(struct rvl_planning, figures) },
	{ 0 }
};

const struct rvl_verb rvl_verb_plan = {
	.name = "plan", .summary = "choose a bitstream length for each level, by time, accuracy, "
				   "charge",
	.order = 70, .operands = "MODEL.onnx --time-constraint TIME --data IMAGES,LABELS",
		.least = 1,
	.most = 1, .takes = "one model", .options = options, .args_size =
		sizeof(struct rvl_planning),
	.defaults = &(const struct rvl_planning) { .keep.mode = "sc" }, .run = run_plan,
		.clear = clear,
};

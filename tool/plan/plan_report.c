// SPDX-License-Identifier: MIT
/*
 * The report of rivulet plan: the plan, the alternatives, and for an infeasible problem what would
 * be feasible.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "output.h"
#include "plan/plan.h"
#include "verb.h"

/* An alternative to the plan, for comparison: one level throughout, or int8. */
struct row {
	const char *what;
	uint32_t level, length, ppm; /* ppm: accuracy over all examples, the lowest of its levels */
	uint32_t least; /* accuracy demanded, of a row of one level */
	struct rivulet_plan_answer a;
	bool strict; /* must reach the highest accuracy that any level of the plan must reach */
	bool there;
};

#define ROWS (3 * RIVULET_LEVELS + 4)

struct report {
	struct rvl_planning *v;
	struct row row[ROWS];
	uint32_t rows;
	double charge; /* J */
};

/* The highest accuracy that any level must reach, margin included. */
static uint32_t strictest(const struct rivulet_plan_problem *p)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < p->n_levels; i++)
		most = p->level[i].least > most ? p->level[i].least : most;
	return most;
}

static double percent(uint32_t ppm)
{
	return ppm / 1e4;
}

static const char *bits(char *buf, uint32_t length)
{
	snprintf(buf, 32, length ? "%u" : "int8", length);
	return buf;
}

static const char *lasts(char *buf, double s)
{
	if (s < 3600)
		snprintf(buf, 32, "%.1f min", s / 60);
	else if (s < 48 * 3600)
		snprintf(buf, 32, "%.1f h", s / 3600);
	else
		snprintf(buf, 32, "%.1f days", s / 86400);
	return buf;
}

/* ---- what would be feasible ---- */

static size_t say(char *s, size_t room, size_t n, const struct rvl_planning *v, uint32_t i)
{
	const struct rivulet_plan_answer *a = &v->answer;
	const struct rivulet_plan_level *l = &v->problem.level[i];
	char u[32];

	n += (size_t)snprintf(s + n, room - n, "; l%u: ", l->level + 1);
	if (a->highest[i])
		n += (size_t)snprintf(s + n, room - n, "at most %.2f %% within the time",
				      percent(a->highest[i]));
	else
		n += (size_t)snprintf(s + n, room - n, "nothing fits the time");
	if (isfinite(a->level_time[i]))
		n += (size_t)snprintf(s + n, room - n, ", %.2f %% from %s on", percent(l->least),
				      rvl_unit(u, a->level_time[i], "s"));
	else
		n += (size_t)snprintf(s + n, room - n, ", %.2f %% at no length", percent(l->least));
	return n;
}

int rvl_plan_refusal(const struct rvl_planning *v)
{
	char text[1000], u[32];
	size_t n = (size_t)snprintf(text, sizeof(text), "infeasible within %s%s",
				    rvl_unit(u, v->problem.constraint, "s"),
				    v->by_rate ? ", which the rate leaves" : "");

	for (uint32_t i = 0; i < v->problem.n_levels; i++)
		if (v->answer.missed >> i & 1)
			n = say(text, sizeof(text), n, v, i);
	if (isfinite(v->answer.least_time))
		snprintf(text + n, sizeof(text) - n, "; the least time constraint is %.6f ms",
			 (floor(v->answer.least_time * 1e9) + 1) / 1e6); /* rounded up: feasible */
	else
		snprintf(text + n, sizeof(text) - n, "; no time constraint makes it feasible");
	return rvl_tool_fail(RVL_EXIT_DIFFERENT, "%s", text);
}

/* ---- comparisons ---- */

static int add_row(struct report *r, struct row *row,
		   const struct rivulet_plan_candidate *candidate, uint32_t n)
{
	struct rvl_err err = { "" };

	row->there = row->a.feasible;
	row->ppm = row->there ? UINT32_MAX : 0;
	row->length = row->there ? candidate[row->a.candidate[0]].length : 0;
	for (uint32_t i = 0; row->there && i < n; i++) {
		uint32_t ppm;

		if (rvl_curve_ppm_all(&r->v->curve, candidate[row->a.candidate[i]].length, &ppm,
				      &err))
			return rvl_tool_fail(RVL_EXIT_REFUSED, "%s", err.msg);
		row->ppm = ppm < row->ppm ? ppm : row->ppm;
	}
	r->rows++;
	return 0;
}

static int fail(const struct rvl_err *err)
{
	return rvl_tool_fail(RVL_EXIT_REFUSED, "%s", err->msg);
}

static int stay_row(struct report *r, uint32_t i, bool strict)
{
	struct row *row = &r->row[r->rows];
	struct rvl_err err = { "" };

	row->what = "one level";
	row->level = r->v->problem.level[i].level;
	row->strict = strict;
	row->least = strict ? strictest(&r->v->problem) : r->v->problem.level[i].least;
	if (rivulet_plan_stay(&r->v->problem, i, strict, &row->a, &err))
		return fail(&err);
	return add_row(r, row, r->v->problem.candidate, 1);
}

/* Levels that the plan does not use and that no other level dominates. */
static int other_rows(struct report *r)
{
	struct rivulet_plan_problem p = r->v->problem;
	uint32_t used = 0;

	for (uint32_t i = 0; i < p.n_levels; i++)
		used |= 1u << p.level[i].level;
	for (uint32_t l = r->v->board.levels; l-- > 0;) {
		struct row *row = &r->row[r->rows];
		struct rvl_err err = { "" };
		int e;

		if (used >> l & 1 || rivulet_plan_dominated(&r->v->board, l) >= 0)
			continue;
		*row = (struct row) { .what = "one level", .level = l, .strict = true,
				      .least = strictest(&p) };
		p.level[0].level = l;
		if (rivulet_plan_stay(&p, 0, true, &row->a, &err))
			return fail(&err);
		e = add_row(r, row, p.candidate, 1);
		if (e)
			return e;
	}
	return 0;
}

static int measure_int8(void *ctx, uint32_t candidate, uint32_t *ppm, struct rvl_err *err)
{
	struct rvl_planning *v = ctx;

	(void)candidate;
	return rvl_curve_ppm(&v->curve, RVL_CHOOSE, 0, ppm, err);
}

/* int8 at every level of the plan. */
static int int8_row(struct report *r)
{
	struct rivulet_plan_problem p = r->v->problem;
	struct row *row = &r->row[r->rows];
	struct rvl_err err = { "" };

	row->what = "int8 throughout";
	p.candidate = &r->v->int8;
	p.n_candidates = 1;
	p.accuracy = measure_int8;
	row->level = UINT32_MAX;
	if (rivulet_plan_choose(&p, &row->a, &err))
		return fail(&err);
	return add_row(r, row, p.candidate, p.n_levels);
}

/*
 * Two alternatives for a given rate: the plan on a board that never sleeps, and the fastest level
 * with sleep.
 */
static int rate_rows(struct report *r)
{
	struct rivulet_plan_problem p = r->v->problem;
	struct row *row = &r->row[r->rows];
	struct rvl_err err = { "" };
	int e;

	row->what = "the plan, awake between";
	row->level = UINT32_MAX;
	p.awake = true;
	if (rivulet_plan_choose(&p, &row->a, &err))
		return fail(&err);
	e = add_row(r, row, p.candidate, p.n_levels);
	if (e)
		return e;
	p.awake = false;
	row = &r->row[r->rows];
	row->what = "race to idle";
	row->strict = true;
	p.level[0].level = r->v->board.levels - 1;
	row->level = p.level[0].level;
	if (rivulet_plan_stay(&p, 0, true, &row->a, &err))
		return fail(&err);
	return add_row(r, row, p.candidate, 1);
}

static int compare(struct report *r)
{
	const struct rivulet_plan_problem *p = &r->v->problem;
	int e = int8_row(r);

	for (uint32_t i = 0; !e && i < p->n_levels; i++)
		e = stay_row(r, i, false);
	for (uint32_t i = 0; !e && i < p->n_levels; i++)
		if (p->level[i].least < strictest(p))
			e = stay_row(r, i, true);
	if (!e)
		e = other_rows(r);
	return e || !(p->rate > 0) ? e : rate_rows(r);
}

/* Index of the one-level row with the most runs; r->rows if there is none. */
static uint32_t best_one(const struct report *r, bool strict)
{
	uint32_t best = r->rows;

	for (uint32_t i = 0; i < r->rows; i++) {
		const struct row *row = &r->row[i];

		if (strcmp(row->what, "one level") || !row->there || row->strict > strict ||
		    (strict && row->least < strictest(&r->v->problem)))
			continue;
		if (best == r->rows || row->a.runs > r->row[best].a.runs)
			best = i;
	}
	return best;
}

/* ---- text ---- */

static void text_plan(const struct report *r)
{
	static const char *const heads[] = { "level", ">clock", ">supply", ">bits", ">latency",
		">of the time", ">energy", ">accuracy", ">demanded", ">chosen by", ">held out",
			">runs" };
	const struct rivulet_plan *p = &r->v->plan;
	struct rvl_table t;
	char u[32];

	rvl_table_init(&t, 12, heads);
	for (uint32_t i = 0; i < p->n_levels; i++) {
		const struct rivulet_plan_entry *e = &p->level[i];

		rvl_table_cell(&t, "l%u", e->level + 1);
		rvl_table_cell(&t, "%s", rvl_unit(u, (double)e->hz, "Hz"));
		rvl_table_cell(&t, "%s", rvl_unit(u, e->microvolt * 1e-6, "V"));
		rvl_table_cell(&t, "%s", bits(u, e->length));
		rvl_table_cell(&t, "%s", rvl_unit(u, (double)e->time_ns * 1e-9, "s"));
		rvl_table_cell(&t, "%.1f %%",
			       100e-9 * (double)e->time_ns / r->v->problem.constraint);
		rvl_table_cell(&t, "%s", rvl_unit(u, (double)e->energy_pj * 1e-12, "J"));
		rvl_table_cell(&t, "%.2f %%", percent(e->accuracy));
		rvl_table_cell(&t, "%.2f %%", percent(e->least));
		rvl_table_cell(&t, "%.2f %%", percent(e->chosen));
		rvl_table_cell(&t, p->examples_held ? "%.2f %%%s" : "-", percent(e->held),
			       e->held < e->least ? " !" : "");
		rvl_table_cell(&t, "%.0f", r->v->answer.level_runs[i]);
	}
	rvl_table_print(&t, 2);
}

/* Runs and time left at v->charge percent: the fastest level uses the first part of a charge. */
static void text_left(const struct report *r)
{
	const struct rivulet_plan_problem *p = &r->v->problem;
	double above = r->charge, left = r->charge * r->v->charge / 100, runs = 0, s = 0;
	char u[32];

	if (r->v->charge >= 100)
		return;
	for (uint32_t i = 0; i < p->n_levels; i++) {
		double below = above - p->level[i].joule;
		double part = fmax(fmin(left, above) - below, 0) / p->level[i].joule;

		runs += part * r->v->answer.level_runs[i];
		s += part * r->v->answer.level_seconds[i];
		above = below;
	}
	printf("  at %g %% of the charge %.0f runs are left, which last %s\n", r->v->charge, runs,
	       lasts(u, s));
}

static void text_held(const struct report *r)
{
	const struct rivulet_plan *p = &r->v->plan;
	bool holds = true;

	for (uint32_t i = 0; p->examples_held && i < p->n_levels; i++) {
		const struct rivulet_plan_entry *e = &p->level[i];

		if (e->held >= e->least)
			continue;
		printf("  ! l%u: %.2f %% of the examples held out, which is below the %.2f %% "
		       "demanded\n", e->level + 1, percent(e->held), percent(e->least));
		holds = false;
	}
	if (holds && p->examples_held)
		printf("  the accuracies hold on the examples held out\n");
}

static void text_row(struct rvl_table *t, const struct report *r, const struct row *row)
{
	char u[32];

	rvl_table_cell(t, "%s", row->what);
	rvl_table_cell(t, row->level == UINT32_MAX ? "" : "l%u", row->level + 1);
	if (!row->there) {
		rvl_table_cell(t, "-");
		rvl_table_cell(t, "-");
		rvl_table_cell(t, "-");
		rvl_table_cell(t, "-");
		rvl_table_cell(t, row->strict ? "cannot keep the highest accuracy in time" :
						"does not fit time or accuracy");
		return;
	}
	rvl_table_cell(t, "%s", row->level == UINT32_MAX && strncmp(row->what, "int8", 4) ? "" :
				bits(u, row->length));
	rvl_table_cell(t, "%.2f %%", percent(row->ppm));
	rvl_table_cell(t, "%.0f", row->a.runs);
	rvl_table_cell(t, "%.3f", row->a.runs / r->v->answer.runs);
	rvl_table_cell(t, "%s%s", lasts(u, row->a.seconds),
		       row->strict ? ", at the highest accuracy demanded" : "");
}

static void text_compare(const struct report *r)
{
	static const char *const heads[] = { "instead", "level", ">bits", ">least accuracy",
					     ">runs", ">of the plan's", "lasts" };
	uint32_t best = best_one(r, false), strict = best_one(r, true);
	struct rvl_table t;

	rvl_table_init(&t, 7, heads);
	for (uint32_t i = 0; i < r->rows; i++)
		text_row(&t, r, &r->row[i]);
	rvl_table_print(&t, 2);
	if (best < r->rows)
		printf("  best on one level: l%u, %.3f of the plan's runs, at %.2f %%\n",
		       r->row[best].level + 1, r->row[best].a.runs / r->v->answer.runs,
		       percent(r->row[best].ppm));
	if (strict < r->rows && strict != best)
		printf("  best on one level that keeps %.2f %% throughout: l%u, %.3f of the "
		       "plan's runs\n",
		       percent(strictest(&r->v->problem)), r->row[strict].level + 1,
		       r->row[strict].a.runs / r->v->answer.runs);
	if (r->row[0].there && r->v->problem.candidate != r->v->candidate &&
	    r->row[0].a.runs > r->v->answer.runs)
		printf("  int8 gives %.1f times the runs here; --modes sc,int8 would choose it\n",
		       r->row[0].a.runs / r->v->answer.runs);
}

static void text_int8(const struct report *r)
{
	const struct rivulet_plan_problem *p = &r->v->problem;
	char u[2][32];

	printf("  int8 takes");
	for (uint32_t i = 0; i < p->n_levels; i++) {
		uint32_t l = p->level[i].level;

		printf("%s %s and %s at l%u", i ? "," : "", rvl_unit(u[0], r->v->int8.seconds[l],
		       "s"), rvl_unit(u[1], r->v->int8.joule[l], "J"), l + 1);
	}
	printf("\n");
}

static void text_dominated(const struct report *r)
{
	const struct rivulet_board *b = &r->v->board;
	char u[2][32];

	for (uint32_t l = b->levels; l-- > 0;) {
		int by = rivulet_plan_dominated(b, l);
		bool used = false;

		for (uint32_t i = 0; i < r->v->plan.n_levels; i++)
			used |= r->v->plan.level[i].level == l;
		if (by >= 0)
			printf("  l%u (%s) is dominated by l%d (%s) at no higher voltage%s\n",
			       l + 1, rvl_unit(u[0], (double)b->level[l].hz, "Hz"), by + 1,
			       rvl_unit(u[1], (double)b->level[by].hz, "Hz"),
			       used ? ": this plan uses it nevertheless" : "");
	}
}

static void text(const struct report *r)
{
	const struct rvl_planning *v = r->v;
	char u[3][32];

	printf("%s on %s: %s within %s%s, %u examples choose, %u hold out\n", v->model,
	       v->board.name, rivulet_plan_objective_name(v->plan.objective),
	       rvl_unit(u[0], v->problem.constraint, "s"), v->by_rate ? " (by the rate)" : "",
	       v->plan.examples_chosen, v->plan.examples_held);
	text_plan(r);
	printf("  %.0f runs of a charge of %s, which lasts %s; reward %.4f\n", v->answer.runs,
	       rvl_unit(u[0], r->charge, "J"), lasts(u[1], v->answer.seconds), v->answer.reward);
	text_left(r);
	text_held(r);
	text_compare(r);
	text_int8(r);
	text_dominated(r);
	if (v->output)
		printf("written to %s: rivulet compile %s --board %s --plan %s\n", v->output,
		       v->model, v->board_name ? v->board_name : "sc-edge", v->output);
}

static void figures(const struct report *r)
{
	const struct rvl_planning *v = r->v;
	char name[64];

	for (uint32_t i = 0; i < v->plan.n_levels; i++) {
		const struct rivulet_plan_entry *e = &v->plan.level[i];

		snprintf(name, sizeof(name), "l%u.length", e->level + 1);
		rvl_figure(v->figures, name, e->length, "bits");
		snprintf(name, sizeof(name), "l%u.accuracy", e->level + 1);
		rvl_figure(v->figures, name, percent(e->accuracy), "%");
		snprintf(name, sizeof(name), "l%u.latency", e->level + 1);
		rvl_figure(v->figures, name, (double)e->time_ns * 1e-6, "ms");
		snprintf(name, sizeof(name), "l%u.energy", e->level + 1);
		rvl_figure(v->figures, name, (double)e->energy_pj * 1e-6, "uJ");
	}
	rvl_figure(v->figures, "runs", v->answer.runs, "runs");
	rvl_figure(v->figures, "reward", v->answer.reward, "1");
	rvl_figure(v->figures, "lasts", v->answer.seconds, "s");
}

/* ---- JSON ---- */

static void json_level(const struct rvl_planning *v, uint32_t i)
{
	const struct rivulet_plan_entry *e = &v->plan.level[i];
	int by = rivulet_plan_dominated(&v->board, e->level);

	rvl_json_open(NULL, '{');
	rvl_json_u64("level", e->level);
	rvl_json_u64("hz", e->hz);
	rvl_json_num("volt", e->microvolt * 1e-6);
	rvl_json_u64("length", e->length);
	rvl_json_num("seconds", (double)e->time_ns * 1e-9);
	rvl_json_num("joule", (double)e->energy_pj * 1e-12);
	rvl_json_num("accuracy", e->accuracy / 1e6);
	rvl_json_num("accuracy_chosen", e->chosen / 1e6);
	rvl_json_num("accuracy_held", e->held / 1e6);
	rvl_json_num("accuracy_demanded", e->least / 1e6);
	rvl_json_num("runs", v->answer.level_runs[i]);
	if (by >= 0)
		rvl_json_u64("dominated_by", (uint64_t)by);
	rvl_json_close();
}

static void json_row(const struct row *row)
{
	rvl_json_open(NULL, '{');
	rvl_json_str("plan", row->what);
	if (row->level != UINT32_MAX)
		rvl_json_u64("level", row->level);
	rvl_json_bool("highest_accuracy", row->strict);
	rvl_json_bool("feasible", row->there);
	if (row->there) {
		rvl_json_u64("length", row->length);
		rvl_json_num("accuracy", row->ppm / 1e6);
		rvl_json_num("runs", row->a.runs);
		rvl_json_num("seconds", row->a.seconds);
	}
	rvl_json_close();
}

static void json(const struct report *r)
{
	const struct rvl_planning *v = r->v;

	rvl_json_begin("plan/2");
	rvl_json_str("model", v->model);
	rvl_json_str("board", v->board.name);
	rvl_json_str("objective", rivulet_plan_objective_name(v->plan.objective));
	rvl_json_num("constraint", v->problem.constraint);
	rvl_json_u64("examples_chosen", v->plan.examples_chosen);
	rvl_json_u64("examples_held", v->plan.examples_held);
	rvl_json_num("charge", r->charge);
	rvl_json_num("runs", v->answer.runs);
	rvl_json_num("seconds", v->answer.seconds);
	rvl_json_num("reward", v->answer.reward);
	rvl_json_open("levels", '[');
	for (uint32_t i = 0; i < v->plan.n_levels; i++)
		json_level(v, i);
	rvl_json_close();
	rvl_json_open("instead", '[');
	for (uint32_t i = 0; i < r->rows; i++)
		json_row(&r->row[i]);
	rvl_json_close();
	rvl_json_end();
}

/* ---- interrupted ---- */

static void partial_row(const struct rvl_curve *c, struct rvl_table *t, enum rvl_part part,
			uint32_t length)
{
	static const char *const names[] = { "choose", "held out" };
	double accuracy = (double)c->right[part][length] / (double)c->part[part].count;
	char b[32];

	if (rvl_tool_json) {
		rvl_json_open(NULL, '{');
		rvl_json_str("examples", part == RVL_CHOOSE ? "chosen" : "held");
		rvl_json_u64("length", length);
		rvl_json_num("accuracy", accuracy);
		rvl_json_close();
		return;
	}
	rvl_table_cell(t, "%s", bits(b, length));
	rvl_table_cell(t, "%s", names[part]);
	rvl_table_cell(t, "%.2f %%", 100 * accuracy);
}

void rvl_plan_partial(const struct rvl_planning *v)
{
	static const char *const heads[] = { ">bits", "examples that", ">accuracy" };
	const struct rvl_curve *c = &v->curve;
	struct rvl_table t;

	rvl_table_init(&t, 3, heads);
	if (rvl_tool_json) {
		rvl_json_begin("plan/2");
		rvl_json_str("model", v->model);
		rvl_json_bool("interrupted", true);
		rvl_json_open("accuracies", '[');
	} else {
		printf("interrupted; these accuracies are known%s%s\n",
		       *c->file ? ", and kept in " : "", c->file);
	}
	for (uint32_t l = 0; l <= RIVULET_SC_MAX; l++)
		for (int part = 0; part < RVL_PARTS; part++)
			if (c->known[part][l] && c->part[part].count)
				partial_row(c, &t, part, l);
	if (rvl_tool_json) {
		rvl_json_close();
		rvl_json_end();
	}
	if (rvl_tool_json)
		rvl_table_clear(&t);
	else
		rvl_table_print(&t, 2);
}

int rvl_plan_report(struct rvl_planning *v)
{
	struct report r = { .v = v };
	int e;

	for (uint32_t i = 0; i < v->problem.n_levels; i++)
		r.charge += v->problem.level[i].joule;
	e = compare(&r);
	if (e)
		return e;
	if (rvl_tool_json) {
		json(&r);
		return 0;
	}
	text(&r);
	figures(&r);
	return 0;
}

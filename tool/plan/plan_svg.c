// SPDX-License-Identifier: MIT
/*
 * The plot of a plan: accuracy, latency and runs of a charge against length, with a colour for each
 * level and a ring at each chosen length. Accuracies are those of the choosing examples; lengths
 * that fit the time at no level are left out.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "output.h"
#include "plan/plan.h"

#define WIDTH  860
#define PANEL  240 /* height of a plot */
#define LEFT   90
#define RIGHT  30
#define TOP    96
#define GAP    70 /* between plots */

struct axis {
	double lo, hi;
	bool log;
};

struct panel {
	FILE *f;
	double top; /* y of its upper edge */
	struct axis x, y;
};

static const char *const colours[RIVULET_LEVELS] = { "#1b6ca8", "#c8553d", "#3c8d5a", "#8a4f9e",
						     "#b8860b", "#2f4858", "#d1495b", "#6b7280" };

static double place(const struct axis *a, double v)
{
	return a->log ? log(v / a->lo) / log(a->hi / a->lo) : (v - a->lo) / (a->hi - a->lo);
}

static double at_x(const struct panel *p, double v)
{
	return LEFT + place(&p->x, v) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct panel *p, double v)
{
	return p->top + (1 - place(&p->y, v)) * PANEL;
}

/* A file name may have characters that XML reserves. */
static void put_text(FILE *f, const char *s)
{
	for (; *s; s++)
		if (*s == '<' || *s == '>' || *s == '&' || *s == '"')
			fprintf(f, "&#%d;", *s);
		else if ((unsigned char)*s >= ' ')
			fputc(*s, f);
}

static void label(FILE *f, double x, double y, const char *anchor, const char *fill, const char *s)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">", x, y, anchor,
		fill);
	put_text(f, s);
	fprintf(f, "</text>\n");
}

static void line(FILE *f, double x1, double y1, double x2, double y2, const char *colour,
		 const char *more)
{
	fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"%s/>\n", x1,
		y1, x2, y2, colour, more);
}

/* ---- axes ---- */

/*
 * The distance of grid lines: 1, 2 or 5 times a power of ten, so that about @n of them span the
 * axis.
 */
static double step(const struct axis *a, int n)
{
	double raw = (a->hi - a->lo) / n, base = pow(10, floor(log10(raw))), m = raw / base;

	return base * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

static void tick_y(const struct panel *p, double v)
{
	char text[32];

	line(p->f, LEFT, at_y(p, v), WIDTH - RIGHT, at_y(p, v), "#e5e7eb", "");
	snprintf(text, sizeof(text), v >= 1e6 ? "%g M" : v >= 1e4 ? "%g k" : "%g",
		 v >= 1e6 ? v / 1e6 : v >= 1e4 ? v / 1e3 : v);
	label(p->f, LEFT - 8, at_y(p, v) + 4, "end", "#374151", text);
}

static void ticks_y(const struct panel *p)
{
	double s = step(&p->y, 5);

	if (!p->y.log) {
		for (double v = ceil(p->y.lo / s) * s; v <= p->y.hi * (1 + 1e-9); v += s)
			tick_y(p, fabs(v) < s * 1e-6 ? 0 : v);
		return;
	}
	for (double d = pow(10, floor(log10(p->y.lo))); d <= p->y.hi; d *= 10)
		for (int k = 1; k < 10; k = k == 1 ? 2 : k == 2 ? 5 : 10)
			if (d * k >= p->y.lo && d * k <= p->y.hi)
				tick_y(p, d * k);
}

static void ticks_x(const struct panel *p)
{
	double s = fmax(step(&p->x, 12), 1);
	char text[32];

	for (double v = ceil(p->x.lo / s) * s; v <= p->x.hi; v += s) {
		line(p->f, at_x(p, v), p->top, at_x(p, v), p->top + PANEL, "#f3f4f6", "");
		snprintf(text, sizeof(text), "%g", v);
		label(p->f, at_x(p, v), p->top + PANEL + 18, "middle", "#374151", text);
	}
}

static void frame(const struct panel *p, const char *title)
{
	ticks_x(p);
	ticks_y(p);
	fprintf(p->f, "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"none\" "
		"stroke=\"#9ca3af\"/>\n", LEFT, p->top, WIDTH - LEFT - RIGHT, PANEL);
	label(p->f, LEFT, p->top - 10, "start", "#111827", title);
	label(p->f, WIDTH - RIGHT, p->top + PANEL + 36, "end", "#374151", "bits of a stream");
}

/* ---- curves ---- */

/* What is plotted: of candidate @w at the problem's level @i. */
typedef double value_fn(const struct rvl_planning *v, uint32_t i, uint32_t w);

static double percent_of(const struct rvl_planning *v, uint32_t i, uint32_t w)
{
	uint32_t n = v->problem.candidate[w].length;

	(void)i;
	return 100.0 * (double)v->curve.right[RVL_CHOOSE][n] /
	       (double)v->curve.part[RVL_CHOOSE].count;
}

static double ms_of(const struct rvl_planning *v, uint32_t i, uint32_t w)
{
	return 1e3 * v->problem.candidate[w].seconds[v->problem.level[i].level];
}

/* Of the whole charge, spent there. */
static double runs_of(const struct rvl_planning *v, uint32_t i, uint32_t w)
{
	double joule = 0;

	for (uint32_t k = 0; k < v->problem.n_levels; k++)
		joule += v->problem.level[k].joule;
	return joule / rivulet_plan_run_joule(&v->problem, w, v->problem.level[i].level);
}

/* Whether a length fits the time at some level. int8 has no length and is not plotted. */
static bool shown(const struct rvl_planning *v, uint32_t w)
{
	const struct rivulet_plan_problem *p = &v->problem;
	bool any = false;

	for (uint32_t i = 0; i < p->n_levels; i++)
		any |= p->candidate[w].seconds[p->level[i].level] <= p->constraint;
	return any && p->candidate[w].length;
}

static void curve(const struct panel *p, const struct rvl_planning *v, uint32_t i, value_fn *value,
		  const char *colour)
{
	fprintf(p->f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"",
		colour);
	for (uint32_t w = 0; w < v->problem.n_candidates; w++)
		if (shown(v, w))
			fprintf(p->f, "%.1f,%.1f ", at_x(p, v->problem.candidate[w].length),
				at_y(p, value(v, i, w)));
	fprintf(p->f, "\"/>\n");
}

static void ring(const struct panel *p, const struct rvl_planning *v, uint32_t i, value_fn *value)
{
	uint32_t w = v->answer.candidate[i];

	if (shown(v, w))
		fprintf(p->f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6\" fill=\"none\" stroke=\"%s\" "
			"stroke-width=\"2.5\"/>\n", at_x(p, v->problem.candidate[w].length),
			at_y(p, value(v, i, w)), colours[i]);
}

static void span(const struct rvl_planning *v, value_fn *value, struct axis *a)
{
	a->lo = INFINITY;
	a->hi = 0;
	for (uint32_t i = 0; i < v->problem.n_levels; i++)
		for (uint32_t w = 0; w < v->problem.n_candidates; w++) {
			if (!shown(v, w))
				continue;
			a->lo = fmin(a->lo, value(v, i, w));
			a->hi = fmax(a->hi, value(v, i, w));
		}
}

/* ---- the three plots ---- */

static void accuracy(struct panel *p, const struct rvl_planning *v)
{
	span(v, percent_of, &p->y);
	for (uint32_t i = 0; i < v->problem.n_levels; i++)
		if (v->least[i])
			p->y.lo = fmin(p->y.lo, v->least[i] / 1e4);
	p->y.lo = floor(p->y.lo - 1);
	p->y.hi = fmin(ceil(p->y.hi + 1), 100);
	frame(p, "accuracy, % (dashed: demanded)");
	for (uint32_t i = 0; i < v->problem.n_levels; i++)
		if (v->least[i])
			line(p->f, LEFT, at_y(p, v->least[i] / 1e4), WIDTH - RIGHT,
			     at_y(p, v->least[i] / 1e4), colours[i],
			     " stroke-dasharray=\"6 4\"");
	curve(p, v, 0, percent_of, "#374151");
	for (uint32_t i = 0; i < v->problem.n_levels; i++)
		ring(p, v, i, percent_of);
}

static void latency(struct panel *p, const struct rvl_planning *v)
{
	double limit = v->problem.constraint * 1e3;

	span(v, ms_of, &p->y);
	p->y.lo = 0;
	p->y.hi = 1.1 * fmax(p->y.hi, fmin(limit, 2 * p->y.hi));
	frame(p, "latency, ms (dashed: the time constraint)");
	if (limit < p->y.hi)
		line(p->f, LEFT, at_y(p, limit), WIDTH - RIGHT, at_y(p, limit), "#111827",
		     " stroke-dasharray=\"6 4\"");
	for (uint32_t i = 0; i < v->problem.n_levels; i++) {
		curve(p, v, i, ms_of, colours[i]);
		ring(p, v, i, ms_of);
	}
}

static void runs(struct panel *p, const struct rvl_planning *v)
{
	span(v, runs_of, &p->y);
	p->y = (struct axis) { p->y.lo / 1.2, p->y.hi * 1.2, true };
	frame(p, "runs of a whole charge at the level");
	for (uint32_t i = 0; i < v->problem.n_levels; i++) {
		curve(p, v, i, runs_of, colours[i]);
		ring(p, v, i, runs_of);
	}
}

static void legend(FILE *f, const struct rvl_planning *v)
{
	const uint32_t n = v->problem.n_levels;
	char text[160], u[2][32];

	for (uint32_t i = 0; i < n; i++) {
		const struct rivulet_plan_entry *e = &v->plan.level[i];
		double x = LEFT + (i % 3) * 250, y = 44 + (i / 3) * 16;

		snprintf(text, sizeof(text), e->length ? "l%u %s %s: %u bits" : "l%u %s %s: int8",
			 e->level + 1, rvl_unit(u[0], (double)e->hz, "Hz"),
			 rvl_unit(u[1], e->microvolt * 1e-6, "V"), e->length);
		fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/>\n", x + 5, y - 4,
			colours[i]);
		label(f, x + 15, y, "start", "#111827", text);
	}
}

/* Measures every plotted length: the choice measures only those that it depends on. */
static int measure_shown(struct rvl_planning *v)
{
	struct rvl_err err = { "" };
	uint64_t right;

	for (uint32_t w = 0; w < v->problem.n_candidates; w++)
		if (shown(v, w) && rvl_curve_right(&v->curve, RVL_CHOOSE,
						   v->problem.candidate[w].length, &right, &err))
			return rvl_tool_fail(RVL_EXIT_REFUSED, "%s", err.msg);
	return 0;
}

static void draw(FILE *f, const struct rvl_planning *v, struct axis x)
{
	void (*const plot[])(struct panel *p, const struct rvl_planning *v) = { accuracy, latency,
										runs };
	const int height = TOP + 3 * (PANEL + GAP);
	char title[400], u[32];

	fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
		   "xmlns=\"http://www.w3.org/2000/svg\" "
		"width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
		"font-size=\"13\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", WIDTH, height, WIDTH,
			height);
	snprintf(title, sizeof(title), "%.300s on %s: %s within %s", v->model, v->board.name,
		 rivulet_plan_objective_name(v->problem.objective),
			 rvl_unit(u, v->problem.constraint, "s"));
	label(f, LEFT, 24, "start", "#111827", title);
	legend(f, v);
	for (int i = 0; i < 3; i++) {
		struct panel p = { .f = f, .top = TOP + i * (PANEL + GAP), .x = x };

		plot[i](&p, v);
	}
	fprintf(f, "</svg>\n");
}

int rvl_plan_svg(struct rvl_planning *v, const char *path)
{
	struct axis x = { .lo = INFINITY };
	int r = measure_shown(v);
	FILE *f;

	for (uint32_t w = 0; w < v->problem.n_candidates; w++)
		if (shown(v, w)) {
			x.lo = fmin(x.lo, v->problem.candidate[w].length);
			x.hi = fmax(x.hi, v->problem.candidate[w].length);
		}
	if (r)
		return r;
	if (!x.hi)
		return rvl_tool_fail(RVL_EXIT_USAGE,
				     "--svg: no stream fits the time, there is nothing to plot");
	if (x.lo == x.hi)
		x = (struct axis) { .lo = x.lo - 1, .hi = x.hi + 1 };
	f = fopen(path, "we");
	if (!f)
		return rvl_tool_fail(RVL_EXIT_FAILED, "%s: %s", path, strerror(errno));
	draw(f, v, x);
	if (ferror(f) | fclose(f))
		return rvl_tool_fail(RVL_EXIT_FAILED, "%s: %s", path, strerror(errno));
	return 0;
}

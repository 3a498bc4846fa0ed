// SPDX-License-Identifier: MIT
/* The charts of make demo-battery, as SVG without scripts or embedded fonts. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "report.h"

#define WIDTH  960
#define LEFT   150
#define RIGHT  30
#define PLOT   (WIDTH - LEFT - RIGHT)
#define POINTS 240 /* maximum number of points of one line */

static const char *const colour[] = { "#4e79a7", "#f28e2b", "#76b7b2", "#e15759",
				      "#59a14f", "#b07aa1", "#9c755f" };

#define COLOURS (sizeof(colour) / sizeof(colour[0]))

static FILE *begin(const char *path, int height, const char *title)
{
	FILE *f = fopen(path, "w");

	if (!f) {
		fprintf(stderr, "report: %s: %s\n", path, strerror(errno));
		return NULL;
	}
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
		"font-family=\"sans-serif\" "
		"font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
		"<text x=\"%d\" y=\"22\" font-size=\"15\">%s</text>\n",
		WIDTH, height, LEFT, title);
	return f;
}

static int end(FILE *f, const char *path)
{
	bool bad = fputs("</svg>\n", f) < 0;

	/* fclose() reports the errors of buffered writes. */
	bad |= fclose(f) != 0;
	if (bad)
		fprintf(stderr, "report: %s: %s\n", path, strerror(errno));
	return bad ? -1 : 0;
}

static void text(FILE *f, double x, double y, const char *anchor, const char *s)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, s);
}

/* ---- runs and energy of every arm ---- */

static uint32_t most_runs(const struct arm *arm, uint32_t arms, const char *model)
{
	uint32_t most = 1;

	for (uint32_t i = 0; i < arms; i++)
		if (!strcmp(arm[i].model, model) && arm[i].runs > most)
			most = arm[i].runs;
	return most;
}

/* Draw a bar with one part for each level; the runs that missed their constraint are hatched. */
static void bar(FILE *f, const struct arm *a, double y, double scale)
{
	double x = LEFT, w;
	char label[96];

	snprintf(label, sizeof(label), "%s %s %s", a->model, a->experiment, a->name);
	text(f, LEFT - 8, y + 13, "end", label);
	for (uint32_t i = 0; i < a->groups; i++) {
		const struct group *g = &a->group[i];

		w = g->runs * scale;
		fprintf(f,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"18\" "
			"fill=\"%s\"><title>l%u, %u bits: "
			"%u runs, %.2f ms, %.2f uJ, %u late</title></rect>\n",
			x, y, w, colour[i], g->level + 1, g->length, g->runs,
			g->ns / g->runs * 1e-6, g->pj / g->runs * 1e-6, g->misses);
		if (g->misses)
			fprintf(f,
				"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"18\" "
				"fill=\"url(#late)\"/>\n",
				x, y, g->misses * scale);
		x += w;
	}
	snprintf(label, sizeof(label), "%u runs, %u late, %.1f uJ a run", a->runs, arm_misses(a),
		 a->taken / a->runs * 1e6);
	text(f, x + 6, y + 13, "start", label);
}

int draw_tables(const char *path, const struct arm *arm, uint32_t arms)
{
	FILE *f = begin(path, 80 + 26 * (int)arms,
			"Runs of one battery charge, a colour for each third of it; "
			"hatched: later than the constraint");
	double y = 40;

	if (!f)
		return -1;
	fputs("<defs><pattern id=\"late\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
	      "patternTransform=\"rotate(45)\"><rect width=\"2\" height=\"6\" fill=\"black\" "
	      "fill-opacity=\"0.45\"/>"
	      "</pattern></defs>\n",
	      f);
	for (uint32_t i = 0; i < arms; i++) {
		if (i && strcmp(arm[i].model, arm[i - 1].model))
			y += 16;
		bar(f, &arm[i], y, (PLOT - 210.0) / most_runs(arm, arms, arm[i].model));
		y += 26;
	}
	return end(f, path);
}

/* ---- over the inferences ---- */

enum panel { CHARGE, LEVEL, LENGTH, LATENCY, PANELS };

static const char *const panel_name[] = { "charge, %", "level", "length, bits", "latency, ms" };
static const double panel_least[] = { 0, 1, 0, 0 };

static double value(const struct run *r, enum panel p)
{
	switch (p) {
	case CHARGE:
		return r->charge / 1e4;
	case LEVEL:
		return r->level + 1;
	case LENGTH:
		return r->length;
	default:
		return (double)r->ns * 1e-6;
	}
}

static double panel_most(const struct arm *arm, uint32_t arms, const char *model, enum panel p)
{
	double most = 1;

	for (uint32_t i = 0; i < arms; i++)
		for (uint32_t k = 0; !strcmp(arm[i].model, model) && k < arm[i].runs; k++)
			most = fmax(most, value(&arm[i].run[k], p));
	return most;
}

struct axes {
	double top, height, least, most, scale; /* scale: pixels per run */
};

static double y_of(const struct axes *x, double v)
{
	return x->top + x->height * (1 - (v - x->least) / (x->most - x->least));
}

/* Add a step at each change of the value, and a point at regular intervals between them. */
static void line(FILE *f, const struct arm *a, const struct axes *x, enum panel p,
		 const char *stroke)
{
	uint32_t every = a->runs / POINTS + 1;
	double v, last = NAN;

	fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" points=\"", stroke);
	for (uint32_t k = 0; k < a->runs; k++) {
		v = value(&a->run[k], p);
		if (p != CHARGE && k && v != last)
			fprintf(f, "%.1f,%.1f ", LEFT + k * x->scale, y_of(x, last));
		if (k % every == 0 || k + 1 == a->runs || (p != CHARGE && v != last))
			fprintf(f, "%.1f,%.1f ", LEFT + k * x->scale, y_of(x, v));
		last = v;
	}
	fputs("\"/>\n", f);
}

static void frame(FILE *f, const struct axes *x, enum panel p, double constraint)
{
	char label[64];

	fprintf(f,
		"<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"none\" "
		"stroke=\"#999\"/>\n",
		LEFT, x->top, PLOT, x->height);
	text(f, 12, x->top + x->height / 2, "start", panel_name[p]);
	snprintf(label, sizeof(label), "%.4g", x->most);
	text(f, LEFT - 8, x->top + 10, "end", label);
	snprintf(label, sizeof(label), "%.4g", x->least);
	text(f, LEFT - 8, x->top + x->height, "end", label);
	if (p == LATENCY) {
		fprintf(f,
			"<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"black\" "
			"stroke-dasharray=\"5 4\"/>\n",
			LEFT, LEFT + PLOT, y_of(x, constraint), y_of(x, constraint));
		text(f, LEFT + PLOT - 4, y_of(x, constraint) - 4, "end", "constraint");
	}
}

static void legend(FILE *f, const struct arm *arm, uint32_t arms, const char *model, double y)
{
	double x = LEFT;
	char label[40];
	uint32_t c = 0;

	for (uint32_t i = 0; i < arms; i++) {
		if (strcmp(arm[i].model, model))
			continue;
		snprintf(label, sizeof(label), "%s %s", arm[i].experiment, arm[i].name);
		fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"4\" fill=\"%s\"/>\n",
			x, y - 6, colour[c++ % COLOURS]);
		text(f, x + 18, y, "start", label);
		x += 110;
	}
}

int draw_timeline(const char *path, const struct arm *arm, uint32_t arms, const char *model)
{
	const struct arm *none = NULL;
	uint32_t longest = most_runs(arm, arms, model);
	char title[96];
	FILE *f;

	for (uint32_t i = 0; i < arms; i++)
		none = !none && !strcmp(arm[i].model, model) ? &arm[i] : none;
	snprintf(title, sizeof(title), "%s: one charge, inference by inference (%u at most)", model,
		 longest);
	f = none ? begin(path, 640, title) : NULL;
	if (!f)
		return -1;
	legend(f, arm, arms, model, 44);
	for (enum panel p = CHARGE; p < PANELS; p++) {
		struct axes x = { .top = 60 + 140 * p,
				  .height = 120,
				  .least = panel_least[p],
				  .scale = (double)PLOT / longest,
				  .most = panel_most(arm, arms, model, p) };
		uint32_t c = 0;

		for (uint32_t i = 0; i < arms; i++)
			if (!strcmp(arm[i].model, model))
				line(f, &arm[i], &x, p, colour[c++ % COLOURS]);
		frame(f, &x, p, 1.005e-6 * none->group[0].ns / none->group[0].runs);
	}
	text(f, LEFT + PLOT, 630, "end", "inferences");
	return end(f, path);
}

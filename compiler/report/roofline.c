/* SPDX-License-Identifier: MIT */
/*
 * Roofline: operations a second against MACs of the model per byte of memory traffic, both on
 * logarithmic axes. The roofs are what the array computes, what its sparse mode stands for, and
 * what the memory port delivers.
 */
#include <math.h>
#include <string.h>

#include "report/columns.h"
#include "report/draw.h"

#define WIDTH  760
#define HEIGHT 420
#define LEFT   70
#define TOP    16
#define BOTTOM 46
#define RIGHT  20

struct axes {
	double x0, x1, y0, y1; /* log10 of the ends */
};

static double at_x(const struct axes *a, double v)
{
	double t = (log10(v) - a->x0) / (a->x1 - a->x0);

	return LEFT + fmin(fmax(t, 0), 1) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct axes *a, double v)
{
	double t = (log10(v) - a->y0) / (a->y1 - a->y0);

	return HEIGHT - BOTTOM - fmin(fmax(t, 0), 1) * (HEIGHT - TOP - BOTTOM);
}

static uint64_t traffic(const struct rivulet_explain_row *r)
{
	return r->read_bytes + r->write_bytes;
}

/* MACs per byte; a layer whose data stays in the scratchpads lies at the right edge. */
static double intensity(const struct axes *a, const struct rivulet_explain_row *r)
{
	return traffic(r) ? (double)r->macs / (double)traffic(r) : pow(10, a->x1);
}

static bool has_dot(const struct rivulet_explain_row *r)
{
	return r->macs && r->dense_gops > 0;
}

static struct axes find_axes(const struct rivulet_explain *e, double roof)
{
	struct axes a = { .x0 = 0, .x1 = 3, .y0 = floor(log10(roof)) - 1, .y1 = log10(roof) + 0.2 };

	for (uint32_t i = 0; i < e->n_rows; i++) {
		const struct rivulet_explain_row *r = &e->rows[i];

		if (!has_dot(r))
			continue;
		if (traffic(r)) {
			a.x0 = fmin(a.x0, floor(log10(intensity(&a, r))));
			a.x1 = fmax(a.x1, ceil(log10(intensity(&a, r))));
		}
		a.y0 = fmin(a.y0, floor(log10(r->dense_gops)));
		a.y1 = fmax(a.y1, log10(r->dense_gops) + 0.2);
	}
	return a;
}

static void draw_axes(struct rvl_out *o, const struct axes *a)
{
	rvl_put(o, "<g class=\"grid\">\n");
	for (double d = a->x0; d <= a->x1; d++) {
		double x = at_x(a, pow(10, d));

		rvl_put(o,
			"<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/><text x=\"%.1f\" "
			"y=\"%d\" "
			"text-anchor=\"middle\">%g</text>\n",
			x, TOP, x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 16, pow(10, d));
	}
	for (double d = a->y0; d <= a->y1; d++) {
		double y = at_y(a, pow(10, d));

		rvl_put(o,
			"<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><text x=\"%d\" "
			"y=\"%.1f\" "
			"text-anchor=\"end\">%g</text>\n",
			LEFT, y, WIDTH - RIGHT, y, LEFT - 6, y + 4, pow(10, d));
	}
	rvl_put(o,
		"<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">MACs of the model per byte of "
		"memory traffic"
		"</text><text x=\"14\" y=\"%d\" transform=\"rotate(-90 14 %d)\" "
		"text-anchor=\"middle\">GOPS"
		"</text>\n</g>\n",
		(LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, HEIGHT / 2, HEIGHT / 2);
}

/* The slope of the port up to a roof of @gops, and the roof. */
static void draw_roof(struct rvl_out *o, const struct axes *a, double gops, double per_mac,
		      const char *class, const char *name)
{
	double knee = gops / per_mac, left = pow(10, a->x0);
	double from = fmax(left, pow(10, a->y0) / per_mac);

	rvl_put(o, "<polyline class=\"%s\" points=\"", class);
	if (knee > from)
		rvl_put(o, "%.1f,%.1f ", at_x(a, from), at_y(a, from * per_mac));
	rvl_put(o,
		"%.1f,%.1f %d,%.1f\"/><text class=\"%s\" x=\"%d\" y=\"%.1f\" "
		"text-anchor=\"end\">%s: %.1f "
		"GOPS</text>\n",
		at_x(a, fmax(knee, from)), at_y(a, gops), WIDTH - RIGHT, at_y(a, gops), class,
		WIDTH - RIGHT - 4, at_y(a, gops) - 5, name, gops);
}

static void draw_dots(struct rvl_out *o, const struct axes *a, const struct rivulet_explain *e)
{
	for (uint32_t i = 0; i < e->n_rows; i++) {
		const struct rivulet_explain_row *r = &e->rows[i];
		double x = has_dot(r) ? at_x(a, intensity(a, r)) : 0;

		if (!has_dot(r))
			continue;
		rvl_put(o, "<g class=\"dot %s\"><circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\">", r->bound,
			x, at_y(a, r->dense_gops));
		rvl_xml_row_title(o, r);
		rvl_put(o, "</circle>");
		if (r->gops > 0 && fabs(r->gops / r->dense_gops - 1) > 0.02)
			rvl_put(o, "<circle class=\"physical\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>",
				x, at_y(a, r->gops));
		rvl_put(o, "</g>\n");
	}
}

void rvl_draw_roofline(struct rvl_out *o, const struct rivulet_explain *e)
{
	double ghz = e->n_levels ? 1e-9 * (double)e->level[e->n_levels - 1].hz : 0;
	double physical = 2 * ghz * e->peak, dense = 2 * ghz * e->dense_peak;
	double per_mac = 2 * ghz * e->port_bytes; /* GOPS for each MAC per byte */
	struct axes a;

	if (!(physical > 0) || !(per_mac > 0)) {
		rvl_put(o, "<p>Nothing runs on the NPU, so there is no roofline.</p>\n");
		return;
	}
	a = find_axes(e, dense);
	rvl_put(o,
		"<svg class=\"roofline\" xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
		"height=\"%d\" "
		"role=\"img\" aria-label=\"roofline\">\n",
		WIDTH, HEIGHT);
	draw_axes(o, &a);
	draw_roof(o, &a, physical, per_mac, "roof", "array");
	if (e->dense_peak != e->peak)
		draw_roof(o, &a, dense, per_mac, "roof dense",
			  "dense-equivalent of the sparse mode");
	draw_dots(o, &a, e);
	rvl_put(o,
		"</svg>\n<p>Filled: operations of the model (dense-equivalent). Ring: operations "
		"of the array "
		"(physical), where they differ. Slope: the memory port, %.1f GB/s. Colour: what "
		"bounds the layer: "
		"<span class=\"key array\">array</span> <span class=\"key ALU\">ALU</span> "
		"<span class=\"key port\">port</span>. A dot lies above the slope if bytes of its "
		"layer, such as weights, moved while other layers ran.</p>\n",
		ghz * e->port_bytes);
}

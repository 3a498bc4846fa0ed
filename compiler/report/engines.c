/* SPDX-License-Identifier: MIT */
/*
 * The timeline: one lane for each engine with a bar for each span of work, and one for the memory
 * port with the share of its cycles in which LOAD or STORE held it. The NPU steps follow each other
 * without the CPU steps between them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/draw.h"
#include "rivulet_isa.h"

#define WIDTH 1240
#define LEFT  60
#define LANE  34
#define BAR   24
#define TOP   26
#define BINS  600 /* of the port */

static const char *const lanes[RIVULET_QUEUES + 1] = {
	[RIVULET_Q_LOAD] = "LOAD",   [RIVULET_Q_CONV] = "CONV", [RIVULET_Q_ALU] = "ALU",
	[RIVULET_Q_STORE] = "STORE", [RIVULET_QUEUES] = "port",
};

struct time {
	const struct rivulet_explain *e;
	uint64_t cycles;  /* of all NPU steps */
	double per_cycle; /* pixels */
};

/* Where a step begins. */
static uint64_t begin_of(const struct time *t, uint32_t step)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < t->e->n_segments && t->e->segments[i].step < step; i++)
		at += t->e->segments[i].cycles;
	return at;
}

/* A hue for each row, so that neighbours differ. */
static uint32_t hue_of(uint32_t row)
{
	return row == RIVULET_NO_ROW ? 0 : row * 137 % 360;
}

static void draw_span(struct rvl_out *o, const struct time *t, const struct rivulet_explain_span *s)
{
	uint64_t begin = begin_of(t, s->step), length = s->end - s->start;
	double x = LEFT + (double)(begin + s->start) * t->per_cycle,
	       w = (double)length * t->per_cycle;
	double busy = length ? (double)s->busy / (double)length : 0;

	rvl_put(o,
		"<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"hsl(%u,%d%%,45%%)\" "
		"fill-opacity=\"%.2f\"><title>",
		x, TOP + LANE * (int)s->queue, w < 0.3 ? 0.3 : w, BAR, hue_of(s->row),
		s->row == RIVULET_NO_ROW ? 0 : 60, 0.3 + 0.7 * busy);
	rvl_xml_text(o, s->row < t->e->n_rows ? t->e->rows[s->row].node : "set-up", 0);
	rvl_put(o,
		": %s, cycles %" PRIu64 " to %" PRIu64 " of step %u, busy in %" PRIu64
		"</title></rect>\n",
		lanes[s->queue], s->start, s->end, s->step, s->busy);
}

/* Adds @cycles of the port, spread evenly over a span, to the bins. */
static void add_port(double *bin, const struct time *t, const struct rivulet_explain_span *s,
		     double cycles)
{
	double first = (double)(begin_of(t, s->step) + s->start) * BINS / (double)t->cycles;
	double last = (double)(begin_of(t, s->step) + s->end) * BINS / (double)t->cycles;

	for (uint32_t i = (uint32_t)first; i < BINS && i < last; i++) {
		double from = first > i ? first : i, to = last < i + 1 ? last : i + 1;

		bin[i] += cycles * (to - from) / (last - first);
	}
}

/* The records of a run do not have the cycles of the port, but when LOAD and STORE were at work. */
static double port_of(const struct rivulet_explain *e, const struct rivulet_explain_span *s)
{
	if (s->queue != RIVULET_Q_LOAD && s->queue != RIVULET_Q_STORE)
		return 0;
	return (double)(e->measured ? s->busy : s->port);
}

static int draw_port(struct rvl_out *o, const struct time *t)
{
	double *bin = calloc(BINS, sizeof(*bin)), each = (double)t->cycles / BINS;
	double floor = TOP + LANE * RIVULET_QUEUES + BAR, step = (double)(WIDTH - LEFT) / BINS;

	if (!bin)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->e->n_spans; i++)
		if (t->e->spans[i].end > t->e->spans[i].start)
			add_port(bin, t, &t->e->spans[i], port_of(t->e, &t->e->spans[i]));
	rvl_put(o, "<path class=\"port\" d=\"M%d %.1f", LEFT, floor);
	for (uint32_t i = 0; i < BINS; i++) {
		double share = bin[i] / each;

		rvl_put(o, "V%.1fh%.2f", floor - BAR * (share < 1 ? share : 1), step);
	}
	rvl_put(o, "V%.1fZ\"/>\n", floor);
	free(bin);
	return 0;
}

static void draw_steps(struct rvl_out *o, const struct time *t)
{
	int bottom = TOP + LANE * (RIVULET_QUEUES + 1);

	for (uint32_t i = 0; i < t->e->n_segments; i++) {
		double x = LEFT + (double)begin_of(t, t->e->segments[i].step) * t->per_cycle;

		rvl_put(o, "<line class=\"step\" x1=\"%.1f\" y1=\"12\" x2=\"%.1f\" y2=\"%d\"/>", x,
			x, bottom);
		if (i < 40)
			rvl_put(o, "<text class=\"small\" x=\"%.1f\" y=\"20\">step %u</text>",
				x + 3, t->e->segments[i].step);
		rvl_put(o, "\n");
	}
	for (int i = 0; i <= RIVULET_QUEUES; i++)
		rvl_put(o, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8,
			TOP + LANE * i + 17, lanes[i]);
}

int rvl_draw_timeline(struct rvl_out *o, const struct rivulet_explain *e)
{
	struct time t = { .e = e };
	int rc;

	for (uint32_t i = 0; i < e->n_segments; i++)
		t.cycles += e->segments[i].cycles;
	if (!t.cycles || !e->n_spans) {
		rvl_put(o, "<p>Nothing runs on the NPU, so there is no timeline.</p>\n");
		return 0;
	}
	t.per_cycle = (WIDTH - LEFT) / (double)t.cycles;
	rvl_put(o,
		"<p class=\"source\">%s</p>\n<svg class=\"timeline\" "
		"xmlns=\"http://www.w3.org/2000/svg\" "
		"width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"timeline\">\n",
		e->measured ? "Measured: the PROF records of a run. The port is shown as busy "
			      "while LOAD or STORE "
			      "works." :
			      "Estimated: the timeline model of the compiler; nothing was run.",
		WIDTH, TOP + LANE * (RIVULET_QUEUES + 1));
	draw_steps(o, &t);
	for (uint32_t i = 0; i < e->n_spans; i++)
		draw_span(o, &t, &e->spans[i]);
	rc = draw_port(o, &t);
	rvl_put(o,
		"</svg>\n<p>%" PRIu64
		" cycles. A bar is work for one layer; the paler it is, the more pauses it "
		"has.</p>\n",
		t.cycles);
	return rc;
}

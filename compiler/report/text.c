/* SPDX-License-Identifier: MIT */
/* The account of a compilation as aligned tables with units. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report/print.h"
#include "rivulet_compiler.h"

static size_t widest(const struct rivulet_explain *e, size_t at, size_t least, size_t most)
{
	size_t w = least;

	for (uint32_t i = 0; i < e->n_rows; i++) {
		const char *s;
		size_t n;

		memcpy(&s, (const char *)&e->rows[i] + at, sizeof(s));
		n = strlen(s);
		w = n > w ? n : w;
	}
	return w > most ? most : w;
}

/* Cycles and rates, which only the NPU's rows have, and bytes. */
static void text_costs(const struct rivulet_explain_row *r, struct rvl_out *o)
{
	char c[16], rd[16], wr[16], phys[16] = "-", dense[16] = "-", use[16] = "-";

	rvl_si(r->read_bytes, rd, sizeof(rd));
	rvl_si(r->write_bytes, wr, sizeof(wr));
	if (strcmp(r->where, "npu")) {
		rvl_put(o, " %8s %8s %8s %6s %8s %8s  %-5s", "-", r->read_bytes ? rd : "-",
			r->write_bytes ? wr : "-", "-", "-", "-", r->bound);
		return;
	}
	if (r->macs) {
		snprintf(use, sizeof(use), "%.1f %%", 100 * r->utilisation);
		snprintf(phys, sizeof(phys), "%.2f", r->gops);
		snprintf(dense, sizeof(dense), "%.2f", r->dense_gops);
	}
	rvl_put(o, " %8s %8s %8s %6s %8s %8s  %-5s", rvl_si(r->cycles, c, sizeof(c)), rd,
		wr, use, phys, dense, r->bound);
}

static void text_rows(const struct rivulet_explain *e, struct rvl_out *o)
{
	int name = widest(e, offsetof(struct rivulet_explain_row, node), 5, 32);
	int op = widest(e, offsetof(struct rivulet_explain_row, op), 2, 24);
	int shape = widest(e, offsetof(struct rivulet_explain_row, out), 6, 24);

	rvl_put(o, "%4s  %-*s  %-*s  %-*s  %-7s  %-4s %8s %8s %8s %8s %6s %8s %8s  %-5s  %s\n",
		"step", name, "layer", op, "op", shape, "result", "layout", "on", "MACs", "cycles",
		"read B", "write B", "array", "GOPS", "dense", "bound", "notes");
	for (uint32_t i = 0; i < e->n_rows; i++) {
		const struct rivulet_explain_row *r = &e->rows[i];
		char m[16];

		rvl_put(o, "%4u  %-*.*s  %-*s  %-*s  %-7s  %-4s %8s", r->step, name, name, r->node,
			op, r->op, shape, r->out, r->layout, r->where,
			r->macs ? rvl_si(r->macs, m, sizeof(m)) : "-");
		text_costs(r, o);
		rvl_put(o, "  %s%s%s%s", r->reason, *r->reason && *r->fused ? "; " : "",
			*r->fused ? "with " : "", r->fused);
		rvl_put(o, "%s%s%s\n", *r->pitches && (*r->reason || *r->fused) ? "; " : "", r->pitches,
			*r->pitches ? " by pitches" : "");
	}
}

/* The modes that competed for a layer, where several were near. */
static void text_contests(const struct rivulet_explain *e, struct rvl_out *o)
{
	bool any = false;

	for (uint32_t i = 0; i < e->n_rows; i++) {
		const struct rivulet_explain_contest *c = &e->rows[i].contest;
		char a[16], b[16];

		if (!c->other)
			continue;
		if (!any)
			rvl_put(o, "\nmodes chosen by %s, with the layer before; and those that came next\n",
				c->measure);
		any = true;
		rvl_put(o, "%4u  %-24s %8s: %8s cycles %10.3f uJ; %8s: %8s cycles %10.3f uJ\n",
			e->rows[i].step, e->rows[i].node, c->chosen,
			rvl_si(c->chosen_cycles, a, sizeof(a)), 1e6 * c->chosen_joule, c->other,
			rvl_si(c->other_cycles, b, sizeof(b)), 1e6 * c->other_joule);
	}
}

static void text_segments(const struct rivulet_explain *e, struct rvl_out *o)
{
	if (e->n_segments)
		rvl_put(o, "\n%-8s %7s %9s %9s %9s %9s %9s %9s %9s %8s\n", "NPU step", "layers",
			"insns", "cycles", "LOAD", "CONV", "ALU", "STORE", "port", "array");
	for (uint32_t i = 0; i < e->n_segments; i++) {
		const struct rivulet_explain_segment *s = &e->segments[i];
		char t[6][16];

		rvl_put(o, "%8u %7u %9u %9s %9s %9s %9s %9s %9s %6.1f %%\n", s->step, s->layers,
			s->instructions, rvl_si(s->cycles, t[0], 16), rvl_si(s->busy[0], t[1], 16),
			rvl_si(s->busy[1], t[2], 16), rvl_si(s->busy[2], t[3], 16),
			rvl_si(s->busy[3], t[4], 16), rvl_si(s->port_busy, t[5], 16),
			100 * s->utilisation);
	}
}

static void text_levels(const struct rivulet_explain *e, struct rvl_out *o)
{
	if (e->n_segments && e->n_levels)
		rvl_put(o, "\n%-8s %10s %6s %12s %12s %14s\n", "level", "clock", "bits", "cycles",
			"NPU time", "NPU energy");
	for (uint32_t i = 0; e->n_segments && i < e->n_levels; i++) {
		const struct rivulet_estimate_row *r = &e->level[i];

		char bits[16] = "int8";

		if (r->length)
			snprintf(bits, sizeof(bits), "%u", r->length);
		if (!r->cycles)
			strcpy(bits, "none");
		rvl_put(o, "%8u %6.0f MHz %6s %12" PRIu64 " %9.3f ms %11.3f mJ\n", r->level,
			(double)r->hz / 1e6, bits, r->cycles, 1e3 * r->seconds, 1e3 * r->joule);
	}
}

/* What the compiler saved between layers, and what it could not. */
static void text_moves(const struct rivulet_explain *e, struct rvl_out *o)
{
	char s[16];

	if (e->views)
		rvl_put(o, "%u value%s that nothing moves, being views of others: %sB\n", e->views,
			e->views == 1 ? "" : "s", rvl_si(e->view_bytes, s, sizeof(s)));
	if (e->copies)
		rvl_put(o, "%u cop%s of values that cannot be views: %sB\n", e->copies,
			e->copies == 1 ? "y" : "ies", rvl_si(e->copy_bytes, s, sizeof(s)));
	if (e->reorders)
		rvl_put(o, "%u image%s reordered on the CPU: %sB\n", e->reorders,
			e->reorders == 1 ? "" : "s", rvl_si(e->reorder_bytes, s, sizeof(s)));
	if (e->cascades)
		rvl_put(o, "%u value%s kept in the NPU between layers: %sB fewer moved\n",
			e->cascades, e->cascades == 1 ? "" : "s",
			rvl_si(e->cascade_bytes > 0 ? (uint64_t)e->cascade_bytes : 0, s,
			       sizeof(s)));
	if (e->prefetches)
		rvl_put(o,
			"%u layer%s whose first weights load before the end of the layer before\n",
			e->prefetches, e->prefetches == 1 ? "" : "s");
	if (e->binary && *e->binary)
		rvl_put(o, "images of binary layers in %s\n", e->binary);
}

int rivulet_explain_text(const struct rivulet_explain *e, struct rivulet_blob *out)
{
	struct rvl_out o = { 0 };
	char p[16], w[16], a[16];

	rvl_put(&o, "board %s, peak %u MACs per cycle\n", e->board, e->peak);
	text_rows(e, &o);
	text_contests(e, &o);
	text_segments(e, &o);
	text_levels(e, &o);
	if (e->program_bytes)
		rvl_put(&o, "\nprogram %sB, weights %sB, arena %sB\n",
			rvl_si(e->program_bytes, p, sizeof(p)),
			rvl_si(e->weight_bytes, w, sizeof(w)),
			rvl_si(e->arena_bytes, a, sizeof(a)));
	text_moves(e, &o);
	return rvl_out_finish(&o, out);
}

/* SPDX-License-Identifier: MIT */
/*
 * What runs where and why, and what it costs: the back end makes rows, and this file prints them as
 * text or JSON.
 */
#include "npu/constraint.h"
#include "program/program.h"
#include "rivulet_proto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_LIMIT ((size_t)1 << 30)

void rivulet_explain_free(struct rivulet_explain *e)
{
	rvl_arena_free(e->priv);
	*e = (struct rivulet_explain){ 0 };
}

/* ---- filling ---- */

/* Returns 0, or -ENOMEM with @e released if the arena refused a text. */
static int finish_rows(struct rivulet_explain *e)
{
	if (!rvl_arena_failed(e->priv))
		return 0;
	rivulet_explain_free(e);
	return -ENOMEM;
}

/* A copy that is safe for terminals and JSON, because names come from untrusted files. */
static const char *copy_text(struct rivulet_explain *e, const char *s)
{
	char *p = s && *s ? rvl_arena_strndup(e->priv, s, strlen(s)) : NULL;

	for (char *c = p; c && *(c += rivulet_proto_text(c, strlen(c)));)
		*c++ = '?';
	return p ? p : "";
}

__attribute__((format(printf, 2, 3))) static const char *keep_text(struct rivulet_explain *e,
								   const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return copy_text(e, text);
}

static const char *shape_text(struct rivulet_explain *e, const struct rvl_tensor *t)
{
	char text[RVL_MAX_RANK * 22 + 8] = "";
	size_t n = 0;

	for (int i = 0; t && t->shaped && i < t->shape.rank; i++)
		n += snprintf(text + n, sizeof(text) - n, "%s%lld", i ? "x" : "",
			      (long long)t->shape.dim[i]);
	return copy_text(e, *text ? text : t && t->shaped ? "scalar" : "?");
}

static const char *layout_text(const struct rvl_tensor *t, bool blocked)
{
	return rvl_layout_text(blocked ? RIVULET_LAYOUT_BLOCKED :
			       t ? t->layout : RIVULET_LAYOUT_PLAIN);
}

static int start(struct rivulet_explain *e, const struct rvl_backend *be, uint32_t rows)
{
	memset(e, 0, sizeof(*e));
	e->priv = rvl_arena_new(TEXT_LIMIT);
	if (!e->priv)
		return -ENOMEM;
	snprintf(e->board, sizeof(e->board), "%s", be->board ? be->board->name : "cpu");
	e->peak = be->board ? rivulet_board_peak(be->board) : 0;
	e->rows = rvl_arena_array(e->priv, rows + 1, sizeof(*e->rows));
	e->segments = rvl_arena_array(e->priv, be->n_steps + 1, sizeof(*e->segments));
	return e->rows && e->segments ? 0 : -ENOMEM;
}

static double share(uint64_t macs, uint64_t cycles, uint32_t peak)
{
	return cycles && peak ? (double)macs / ((double)cycles * peak) : 0.0;
}

static const struct rvl_tensor *result_of(const struct rvl_node *n)
{
	return n->n_out ? n->out[0] : NULL;
}

static void node_row(struct rivulet_explain *e, const struct rvl_node *n, const char *where,
		     const char *why, uint32_t step)
{
	e->rows[e->n_rows++] = (struct rivulet_explain_row){ .node = copy_text(e, n->name),
							     .op = copy_text(e, rvl_op_name(n->op)),
							     .where = where,
							     .reason = copy_text(e, why),
							     .fused = copy_text(e, n->fused),
							     .out = shape_text(e, result_of(n)),
							     .bound = !strcmp(where, "cpu") ?
									      "CPU" : "",
							     .layout = layout_text(result_of(n), false),
							     .step = step };
	if (n->op == RVL_OP_UNSUPPORTED)
		e->rows[e->n_rows - 1].op = copy_text(e, n->op_type);
}

static void layer_row(struct rivulet_explain *e, const struct rvl_backend *be, uint32_t index,
		      uint32_t step)
{
	const struct rvl_layer *l = be->layer[index];
	const struct rvl_layer_cost *c = &be->cost[index];
	uint32_t length = be->length[be->n_variants - 1];
	const struct rvl_mode *mode = rvl_mode_at(l, length);
	struct rivulet_explain_row *r = &e->rows[e->n_rows];
	char out[128], how[64];

	node_row(e, l->node, "npu", l->note, step);
	if (mode && mode->describe) {
		mode->describe(l, how, sizeof(how), length);
		r->reason = keep_text(e, "%s%s%s", how, l->note ? "; " : "",
				      l->note ? l->note : "");
	}
	snprintf(out, sizeof(out), "%lldx%lldx%lldx%lld", (long long)l->out.v.n,
		 (long long)l->out.v.c, (long long)l->out.v.h, (long long)l->out.v.w);
	if (!l->out.flat)
		r->out = copy_text(e, out);
	r->layout = layout_text(result_of(l->node), l->out.s->blocked);
	r->fused = copy_text(e, l->fused);
	r->macs = l->p.macs;
	r->array_macs = c->macs;
	r->bound = rvl_bound(c->conv_busy, c->alu_busy, c->port_busy);
	r->cycles = c->cycles;
	r->read_bytes = c->read_bytes;
	r->write_bytes = c->write_bytes;
	r->utilisation = share(l->p.macs, c->cycles, e->peak);
}

static void cpu_row(struct rivulet_explain *e, const struct rvl_backend *be,
		    const struct rvl_node *n, uint32_t step)
{
	const struct rvl_mode *mode = rvl_mode_of(n);
	char how[64];

	node_row(e, n, "cpu", n->reason, step);
	if (!mode->describe || !be->length[0])
		return;
	mode->describe(NULL, how, sizeof(how), be->length[0]);
	e->rows[e->n_rows - 1].reason = keep_text(e, "%s; %s", how, n->reason ? n->reason : "");
}

static void fill_levels(const struct rvl_backend *be, struct rivulet_explain *e)
{
	if (!be->board)
		return;
	e->n_levels = be->board->levels;
	for (uint32_t l = 0; l < e->n_levels; l++) {
		uint32_t v = be->of_level[l];
		struct rivulet_work w = { 0 };

		for (uint32_t i = 0; v != RVL_NONE && i < be->n_steps; i++)
			rvl_add_work(&w, rvl_seg(be, v, i));
		rvl_estimate_level(be->board, l, &w, &e->level[l]);
		e->level[l].length = v == RVL_NONE ? 0 : be->length[v];
	}
}

static bool only_copies(const struct rvl_node *n)
{
	return rvl_op_renames(n->op) || n->op == RVL_OP_TRANSPOSE || n->op == RVL_OP_REORDER ||
	       (n->op == RVL_OP_GENERAL && n->def->flags & RVL_OP_BOXES);
}

static void add_copy(struct rivulet_explain *e, const struct rvl_node *n)
{
	if (!only_copies(n))
		return;
	e->copies++;
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i])
			e->copy_bytes += (uint64_t)rvl_max(rvl_tensor_bytes(n->out[i]), 0);
}

static void add_reorder(struct rivulet_explain *e, const struct rvl_tensor *t)
{
	if (!t || !rvl_layout_matters(&t->shape))
		return;
	e->reorders++;
	e->reorder_bytes += (uint64_t)rvl_max(rvl_tensor_bytes(t), 0);
}

/*
 * Images that a step on the CPU reorders: all that a Reorder does, and inside a convolution its
 * operand and its result if they are not in NHWC.
 */
static void add_reorders(struct rivulet_explain *e, const struct rvl_node *n)
{
	if (n->op == RVL_OP_REORDER)
		add_reorder(e, n->out[0]);
	if (n->op != RVL_OP_Q_CONV)
		return;
	if (n->in[0]->layout != RIVULET_LAYOUT_NHWC)
		add_reorder(e, n->in[0]);
	if (n->out[0]->layout != RIVULET_LAYOUT_NHWC)
		add_reorder(e, n->out[0]);
}

/* What views save, and the copies that are left. */
static void fill_moves(const struct rvl_backend *be, struct rivulet_explain *e)
{
	for (uint32_t i = 0; i < be->g->n_tensors; i++) {
		const struct rvl_tensor *t = be->g->tensors[i];

		if (!t->base)
			continue;
		e->views++;
		e->view_bytes += (uint64_t)rvl_tensor_bytes(t);
	}
	for (uint32_t i = 0; i < be->n_steps; i++)
		if (!be->step[i].npu) {
			add_copy(e, be->step[i].node);
			add_reorders(e, be->step[i].node);
		}
	for (uint32_t i = 0; i < be->n_layers; i++)
		add_copy(e, be->layer[i]->node);
}

int rvl_explain_fill(const struct rvl_backend *be, size_t program_bytes, struct rivulet_explain *e)
{
	int rc = start(e, be, be->n_layers + be->n_steps);

	if (rc) {
		rivulet_explain_free(e);
		return rc;
	}
	for (uint32_t i = 0; i < be->n_steps; i++) {
		const struct rvl_bstep *s = &be->step[i];
		const struct rivulet_explain_segment *seg = rvl_seg(be, be->n_variants - 1, i);

		if (!s->npu) {
			cpu_row(e, be, s->node, i);
			continue;
		}
		for (uint32_t l = 0; l < s->layers; l++)
			layer_row(e, be, s->layer0 + l, i);
		e->segments[e->n_segments] = *seg;
		e->segments[e->n_segments].utilisation =
			share(seg->macs, seg->cycles, e->peak);
		e->n_segments++;
	}
	fill_levels(be, e);
	e->program_bytes = program_bytes;
	e->weight_bytes = be->weight_bytes;
	e->arena_bytes = be->arena_size;
	fill_moves(be, e);
	e->prefetches = be->prefetches;
	e->cascades = be->cascades;
	e->cascade_bytes = be->cascade_bytes;
	return finish_rows(e);
}

int rvl_explain_nodes(const struct rvl_backend *be, struct rivulet_explain *e)
{
	int rc = start(e, be, be->g->n_nodes);

	if (rc) {
		rivulet_explain_free(e);
		return rc;
	}
	for (uint32_t i = 0; i < be->g->n_nodes; i++) {
		const struct rvl_node *n = be->g->nodes[i];
		const char *why = n->op == RVL_OP_UNSUPPORTED ? n->reason :
								rvl_npu_reject(be->g, n);

		node_row(e, n, n->op == RVL_OP_UNSUPPORTED ? "none" : why ? "cpu" : "npu", why, 0);
	}
	return finish_rows(e);
}

/* ---- printing ---- */

struct out {
	struct rvl_bytes b;
	int rc;
};

__attribute__((format(printf, 2, 3))) static void put(struct out *o, const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	if (o->rc)
		return;
	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	o->rc = n < 0 ? -ENOMEM : rvl_bytes_add(&o->b, s, n, 1, NULL);
	if (n >= 0)
		free(s);
}

static int finish(struct out *o, struct rivulet_blob *out)
{
	put(o, "%c", '\n');
	if (o->rc) {
		rvl_bytes_free(&o->b);
		return o->rc;
	}
	o->b.data[o->b.size - 1] = '\0'; /* there is room for it, because the line feed was there */
	*out = (struct rivulet_blob){ .data = o->b.data, .size = o->b.size - 1 };
	return 0;
}

/* Formats 1234567 as "1.23 M": four characters of value and a unit, aligned. */
static const char *format_si(uint64_t v, char *s, size_t n)
{
	static const char unit[] = " kMGTPE";
	double d = (double)v;
	int u = 0;

	while (d >= 999.5 && u < 6) {
		d /= 1000;
		u++;
	}
	snprintf(s, n, "%.*f %c", !u ? 0 : d < 9.995 ? 2 : d < 99.95 ? 1 : 0, d, unit[u]);
	return s;
}

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

/* Operations per second at the highest level, two for each of @macs. */
static double rate_of(const struct rivulet_explain *e, uint64_t macs, uint64_t cycles)
{
	uint64_t hz = e->n_levels ? e->level[e->n_levels - 1].hz : 0;

	return cycles ? 2.0 * (double)macs * (double)hz / (double)cycles : 0;
}

/* Cycles, traffic and rates, which only the NPU's rows have. */
static void text_costs(const struct rivulet_explain *e, const struct rivulet_explain_row *r,
		       struct out *o)
{
	char c[16], rd[16], wr[16], phys[16] = "-", dense[16] = "-", use[16] = "-";

	if (strcmp(r->where, "npu")) {
		put(o, " %8s %8s %8s %6s %8s %8s  %-5s", "-", "-", "-", "-", "-", "-", r->bound);
		return;
	}
	if (r->macs) {
		snprintf(use, sizeof(use), "%.1f %%", 100 * r->utilisation);
		snprintf(phys, sizeof(phys), "%.2f", 1e-9 * rate_of(e, r->array_macs, r->cycles));
		snprintf(dense, sizeof(dense), "%.2f", 1e-9 * rate_of(e, r->macs, r->cycles));
	}
	put(o, " %8s %8s %8s %6s %8s %8s  %-5s", format_si(r->cycles, c, sizeof(c)),
	    format_si(r->read_bytes, rd, sizeof(rd)), format_si(r->write_bytes, wr, sizeof(wr)), use,
	    phys, dense, r->bound);
}

static void text_rows(const struct rivulet_explain *e, struct out *o)
{
	int name = widest(e, offsetof(struct rivulet_explain_row, node), 5, 32);
	int op = widest(e, offsetof(struct rivulet_explain_row, op), 2, 24);
	int shape = widest(e, offsetof(struct rivulet_explain_row, out), 6, 24);

	put(o, "%4s  %-*s  %-*s  %-*s  %-7s  %-4s %8s %8s %8s %8s %6s %8s %8s  %-5s  %s\n", "step",
	    name, "layer", op, "op", shape, "result", "layout", "on", "MACs", "cycles", "read B",
	    "write B", "array", "GOPS", "dense", "bound", "notes");
	for (uint32_t i = 0; i < e->n_rows; i++) {
		const struct rivulet_explain_row *r = &e->rows[i];
		char m[16];

		put(o, "%4u  %-*.*s  %-*s  %-*s  %-7s  %-4s %8s", r->step, name, name, r->node, op,
		    r->op, shape, r->out, r->layout, r->where, r->macs ? format_si(r->macs, m, sizeof(m)) : "-");
		text_costs(e, r, o);
		put(o, "  %s%s%s%s\n", r->reason, *r->reason && *r->fused ? "; " : "",
		    *r->fused ? "with " : "", r->fused);
	}
}

static void text_segments(const struct rivulet_explain *e, struct out *o)
{
	if (e->n_segments)
		put(o, "\n%-8s %7s %9s %9s %9s %9s %9s %9s %9s %8s\n", "NPU step", "layers",
		    "insns", "cycles", "LOAD", "CONV", "ALU", "STORE", "port", "array");
	for (uint32_t i = 0; i < e->n_segments; i++) {
		const struct rivulet_explain_segment *s = &e->segments[i];
		char t[6][16];

		put(o, "%8u %7u %9u %9s %9s %9s %9s %9s %9s %6.1f %%\n", s->step, s->layers,
		    s->instructions, format_si(s->cycles, t[0], 16), format_si(s->busy[0], t[1], 16),
		    format_si(s->busy[1], t[2], 16), format_si(s->busy[2], t[3], 16),
		    format_si(s->busy[3], t[4], 16), format_si(s->port_busy, t[5], 16),
		    100 * s->utilisation);
	}
}

static void text_levels(const struct rivulet_explain *e, struct out *o)
{
	if (e->n_segments && e->n_levels)
		put(o, "\n%-8s %10s %6s %12s %12s %14s\n", "level", "clock", "bits", "cycles",
		    "NPU time", "NPU energy");
	for (uint32_t i = 0; e->n_segments && i < e->n_levels; i++) {
		const struct rivulet_estimate_row *r = &e->level[i];

		char bits[16] = "int8";

		if (r->length)
			snprintf(bits, sizeof(bits), "%u", r->length);
		if (!r->cycles)
			strcpy(bits, "none");
		put(o, "%8u %6.0f MHz %6s %12" PRIu64 " %9.3f ms %11.3f mJ\n", r->level,
		    (double)r->hz / 1e6, bits, r->cycles, 1e3 * r->seconds, 1e3 * r->joule);
	}
}

int rivulet_explain_text(const struct rivulet_explain *e, struct rivulet_blob *out)
{
	struct out o = { 0 };
	char p[16], w[16], a[16];

	put(&o, "board %s, peak %u MACs per cycle\n", e->board, e->peak);
	text_rows(e, &o);
	text_segments(e, &o);
	text_levels(e, &o);
	if (e->program_bytes)
		put(&o, "\nprogram %sB, weights %sB, arena %sB\n",
		    format_si(e->program_bytes, p, sizeof(p)), format_si(e->weight_bytes, w, sizeof(w)),
		    format_si(e->arena_bytes, a, sizeof(a)));
	if (e->views)
		put(&o, "%u value%s that nothing moves, being views of others: %sB\n", e->views,
		    e->views == 1 ? "" : "s", format_si(e->view_bytes, p, sizeof(p)));
	if (e->copies)
		put(&o, "%u cop%s of values that cannot be views: %sB\n", e->copies,
		    e->copies == 1 ? "y" : "ies", format_si(e->copy_bytes, p, sizeof(p)));
	if (e->reorders)
		put(&o, "%u image%s reordered on the CPU: %sB\n", e->reorders,
		    e->reorders == 1 ? "" : "s", format_si(e->reorder_bytes, p, sizeof(p)));
	if (e->cascades)
		put(&o, "%u value%s kept in the NPU between layers: %sB fewer moved\n", e->cascades,
		    e->cascades == 1 ? "" : "s", format_si(rvl_max(e->cascade_bytes, 0), p, sizeof(p)));
	if (e->prefetches)
		put(&o, "%u layer%s whose first weights load before the end of the layer before\n",
		    e->prefetches, e->prefetches == 1 ? "" : "s");
	return finish(&o, out);
}

static void json_string(struct out *o, const char *key, const char *s, const char *after)
{
	put(o, "\"%s\": \"", key);
	for (; *s; s++) {
		unsigned char c = *s;

		if (c == '"' || c == '\\')
			put(o, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			put(o, "\\u%04x", c);
		else
			put(o, "%c", c);
	}
	put(o, "\"%s", after);
}

static void json_row(const struct rivulet_explain *e, struct out *o,
		     const struct rivulet_explain_row *r, bool last)
{
	put(o, "    {\"step\": %u, ", r->step);
	json_string(o, "node", r->node, ", ");
	json_string(o, "op", r->op, ", ");
	json_string(o, "where", r->where, ", ");
	json_string(o, "reason", r->reason, ", ");
	json_string(o, "fused", r->fused, ", ");
	json_string(o, "out", r->out, ", ");
	json_string(o, "layout", r->layout, ", ");
	json_string(o, "bound", r->bound, ", ");
	put(o,
	    "\"macs\": %" PRIu64 ", \"array_macs\": %" PRIu64 ", \"cycles\": %" PRIu64
	    ", \"read_bytes\": %" PRIu64 ", \"write_bytes\": %" PRIu64
	    ", \"utilisation\": %.6f, \"gops\": %.3f, \"dense_gops\": %.3f}%s\n",
	    r->macs, r->array_macs, r->cycles, r->read_bytes, r->write_bytes, r->utilisation,
	    1e-9 * rate_of(e, r->array_macs, r->cycles), 1e-9 * rate_of(e, r->macs, r->cycles),
	    last ? "" : ",");
}

static void json_segment(struct out *o, const struct rivulet_explain_segment *s, bool last)
{
	put(o,
	    "    {\"step\": %u, \"layers\": %u, \"instructions\": %u, \"macs\": %" PRIu64
	    ", \"array_macs\": %" PRIu64 ", \"cycles\": %" PRIu64 ", \"load_busy\": %" PRIu64
	    ", \"conv_busy\": %" PRIu64 ", \"alu_busy\": %" PRIu64 ", \"store_busy\": %" PRIu64
	    ", \"port_busy\": %" PRIu64 ", \"read_bytes\": %" PRIu64 ", \"write_bytes\": %" PRIu64
	    ", \"layer_wait\": %" PRIu64 ", \"weight_wait\": %" PRIu64
	    ", \"utilisation\": %.6f}%s\n",
	    s->step, s->layers, s->instructions, s->macs, s->array_macs, s->cycles, s->busy[0],
	    s->busy[1], s->busy[2], s->busy[3], s->port_busy, s->read_bytes, s->write_bytes,
	    s->layer_wait, s->weight_wait, s->utilisation, last ? "" : ",");
}

int rivulet_explain_json(const struct rivulet_explain *e, struct rivulet_blob *out)
{
	struct out o = { 0 };

	put(&o, "{\n  ");
	json_string(&o, "board", e->board, ",\n");
	put(&o, "  \"peak\": %u,\n  \"layers\": [\n", e->peak);
	for (uint32_t i = 0; i < e->n_rows; i++)
		json_row(e, &o, &e->rows[i], i + 1 == e->n_rows);
	put(&o, "  ],\n  \"segments\": [\n");
	for (uint32_t i = 0; i < e->n_segments; i++)
		json_segment(&o, &e->segments[i], i + 1 == e->n_segments);
	put(&o, "  ],\n  \"levels\": [\n");
	for (uint32_t i = 0; i < e->n_levels; i++)
		put(&o,
		    "    {\"level\": %u, \"hz\": %" PRIu64 ", \"length\": %u, \"cycles\": %" PRIu64
		    ", \"seconds\": %.9g, \"joule\": %.9g}%s\n",
		    e->level[i].level, e->level[i].hz, e->level[i].length, e->level[i].cycles, e->level[i].seconds,
		    e->level[i].joule, i + 1 == e->n_levels ? "" : ",");
	put(&o,
	    "  ],\n  \"program_bytes\": %" PRIu64 ",\n  \"weight_bytes\": %" PRIu64
	    ",\n  \"arena_bytes\": %" PRIu64 ",\n  \"views\": %u,\n  \"view_bytes\": %" PRIu64
	    ",\n  \"copies\": %u,\n  \"copy_bytes\": %" PRIu64
	    ",\n  \"reorders\": %u,\n  \"reorder_bytes\": %" PRIu64
	    ",\n  \"cascades\": %u,\n  \"cascade_bytes\": %" PRId64 ",\n  \"prefetches\": %u\n}\n",
	    e->program_bytes, e->weight_bytes, e->arena_bytes, e->views, e->view_bytes, e->copies,
	    e->copy_bytes, e->reorders, e->reorder_bytes, e->cascades, e->cascade_bytes, e->prefetches);
	return finish(&o, out);
}

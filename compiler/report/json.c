/* SPDX-License-Identifier: MIT */
/* The account of a compilation as one JSON object; rivulet-json(5) lists its members. */
#include <inttypes.h>

#include "report/print.h"
#include "rivulet_compiler.h"

static void json_string(struct rvl_out *o, const char *key, const char *s, const char *after)
{
	rvl_put(o, "\"%s\": \"", key);
	for (; *s; s++) {
		unsigned char c = *s;

		if (c == '"' || c == '\\')
			rvl_put(o, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			rvl_put(o, "\\u%04x", c);
		else
			rvl_put(o, "%c", c);
	}
	rvl_put(o, "\"%s", after);
}

static void json_contest(struct rvl_out *o, const struct rivulet_explain_contest *c)
{
	rvl_put(o,
		", \"contest\": {\"measure\": \"%s\", \"chosen\": \"%s\", \"chosen_cycles\": %" PRIu64
		", \"chosen_joule\": %.9g, \"other\": \"%s\", \"other_cycles\": %" PRIu64
		", \"other_joule\": %.9g}",
		c->measure, c->chosen, c->chosen_cycles, c->chosen_joule, c->other, c->other_cycles,
		c->other_joule);
}

static void json_row(struct rvl_out *o, const struct rivulet_explain_row *r, bool last)
{
	rvl_put(o, "    {\"step\": %u, ", r->step);
	json_string(o, "node", r->node, ", ");
	json_string(o, "op", r->op, ", ");
	json_string(o, "where", r->where, ", ");
	json_string(o, "reason", r->reason, ", ");
	json_string(o, "fused", r->fused, ", ");
	json_string(o, "out", r->out, ", ");
	json_string(o, "layout", r->layout, ", ");
	json_string(o, "pitches", r->pitches, ", ");
	json_string(o, "bound", r->bound, ", ");
	rvl_put(o,
		"\"macs\": %" PRIu64 ", \"array_macs\": %" PRIu64 ", \"cycles\": %" PRIu64
		", \"read_bytes\": %" PRIu64 ", \"write_bytes\": %" PRIu64
		", \"utilisation\": %.6f, \"gops\": %.3f, \"dense_gops\": %.3f",
		r->macs, r->array_macs, r->cycles, r->read_bytes, r->write_bytes, r->utilisation,
		r->gops, r->dense_gops);
	if (r->contest.other)
		json_contest(o, &r->contest);
	rvl_put(o, "}%s\n", last ? "" : ",");
}

static void json_segment(struct rvl_out *o, const struct rivulet_explain_segment *s, bool last)
{
	rvl_put(o,
		"    {\"step\": %u, \"layers\": %u, \"instructions\": %u, \"macs\": %" PRIu64
		", \"array_macs\": %" PRIu64 ", \"cycles\": %" PRIu64 ", \"load_busy\": %" PRIu64
		", \"conv_busy\": %" PRIu64 ", \"alu_busy\": %" PRIu64 ", \"store_busy\": %" PRIu64
		", \"port_busy\": %" PRIu64 ", \"read_bytes\": %" PRIu64
		", \"write_bytes\": %" PRIu64 ", \"layer_wait\": %" PRIu64
		", \"weight_wait\": %" PRIu64 ", \"utilisation\": %.6f}%s\n",
		s->step, s->layers, s->instructions, s->macs, s->array_macs, s->cycles, s->busy[0],
		s->busy[1], s->busy[2], s->busy[3], s->port_busy, s->read_bytes, s->write_bytes,
		s->layer_wait, s->weight_wait, s->utilisation, last ? "" : ",");
}

int rivulet_explain_json(const struct rivulet_explain *e, struct rivulet_blob *out)
{
	struct rvl_out o = { 0 };

	rvl_put(&o, "{\n  ");
	json_string(&o, "board", e->board, ",\n");
	rvl_put(&o, "  \"peak\": %u,\n  \"layers\": [\n", e->peak);
	for (uint32_t i = 0; i < e->n_rows; i++)
		json_row(&o, &e->rows[i], i + 1 == e->n_rows);
	rvl_put(&o, "  ],\n  \"segments\": [\n");
	for (uint32_t i = 0; i < e->n_segments; i++)
		json_segment(&o, &e->segments[i], i + 1 == e->n_segments);
	rvl_put(&o, "  ],\n  \"levels\": [\n");
	for (uint32_t i = 0; i < e->n_levels; i++)
		rvl_put(&o,
			"    {\"level\": %u, \"hz\": %" PRIu64
			", \"length\": %u, \"cycles\": %" PRIu64
			", \"seconds\": %.9g, \"joule\": %.9g}%s\n",
			e->level[i].level, e->level[i].hz, e->level[i].length, e->level[i].cycles,
			e->level[i].seconds, e->level[i].joule, i + 1 == e->n_levels ? "" : ",");
	rvl_put(&o,
		"  ],\n  \"program_bytes\": %" PRIu64 ",\n  \"weight_bytes\": %" PRIu64
		",\n  \"arena_bytes\": %" PRIu64 ",\n  \"views\": %u,\n  \"view_bytes\": %" PRIu64
		",\n  \"copies\": %u,\n  \"copy_bytes\": %" PRIu64
		",\n  \"reorders\": %u,\n  \"reorder_bytes\": %" PRIu64
		",\n  \"cascades\": %u,\n  \"cascade_bytes\": %" PRId64
		",\n  \"prefetches\": %u,\n  ",
		e->program_bytes, e->weight_bytes, e->arena_bytes, e->views, e->view_bytes,
		e->copies, e->copy_bytes, e->reorders, e->reorder_bytes, e->cascades,
		e->cascade_bytes, e->prefetches);
	json_string(&o, "binary", e->binary ? e->binary : "", "\n}\n");
	return rvl_out_finish(&o, out);
}

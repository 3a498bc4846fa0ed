/* SPDX-License-Identifier: MIT */
/*
 * What runs where and why, and what it costs: one row for each CPU step and each layer of the NPU.
 * The room report prints them.
 */
#include "npu/constraint.h"
#include "program/program.h"
#include "rivulet_proto.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_LIMIT ((size_t)1 << 30)
#define HOW_SIZE   128 /* of what a mode says of a layer */

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
	e->priv = rvl_arena_new(rvl_min(TEXT_LIMIT, rvl_arena_left(be->g->arena)));
	if (!e->priv)
		return -ENOMEM;
	rivulet_explain_board(e, be->board);
	e->rows = rvl_arena_array(e->priv, rows + 1, sizeof(*e->rows));
	e->segments = rvl_arena_array(e->priv, be->n_steps + 1, sizeof(*e->segments));
	return e->rows && e->segments ? 0 : -ENOMEM;
}

static const struct rvl_tensor *result_of(const struct rvl_node *n)
{
	return n->n_out ? n->out[0] : NULL;
}

/* The name in the model of an operator that no row of RVL_OPS has to itself. */
static const char *operator_of(const struct rvl_node *n)
{
	if (n->op == RVL_OP_UNSUPPORTED)
		return n->op_type;
	return n->def && (n->op == RVL_OP_GENERAL || n->op == RVL_OP_Q_GENERAL) ? n->def->name :
										  rvl_op_name(n->op);
}

/* Two sentences, either of which may be absent. */
static const char *both(struct rivulet_explain *e, const char *a, const char *b)
{
	if (!a || !*a || !b || !*b)
		return copy_text(e, a && *a ? a : b);
	return keep_text(e, "%s; %s", a, b);
}

static void node_row(struct rivulet_explain *e, const struct rvl_node *n, const char *where,
		     const char *why, uint32_t step)
{
	e->rows[e->n_rows++] = (struct rivulet_explain_row){ .node = copy_text(e, n->name),
							     .op = copy_text(e, operator_of(n)),
							     .where = where,
							     .reason = both(e, n->note, why),
							     .fused = copy_text(e, n->fused),
							     .out = shape_text(e, result_of(n)),
							     .bound = !strcmp(where, "cpu") ?
									      "CPU" : "",
							     .layout = layout_text(result_of(n), false),
							     .pitches = "",
							     .step = step };
}

const char *rivulet_measure_name(enum rivulet_measure m)
{
#define MEASURE_NAME(id, name, doc) name,
	static const char *const names[] = { RIVULET_MEASURES(MEASURE_NAME) };
#undef MEASURE_NAME

	return names[m];
}

/* Cascades and steps as a whole may have decided otherwise; then the contest says nothing. */
static void contest_of(const struct rvl_layer *l, enum rivulet_measure measure,
		       struct rivulet_explain_contest *out)
{
	const struct rvl_contest *c = l->contest;

	if (!c || c->first.mode != l->mode || !c->second.mode)
		return;
	*out = (struct rivulet_explain_contest){ .measure = rivulet_measure_name(measure),
						 .chosen = c->first.mode->name,
						 .other = c->second.mode->name,
						 .chosen_cycles = c->first.cycles,
						 .other_cycles = c->second.cycles,
						 .chosen_joule = c->first.joule,
						 .other_joule = c->second.joule };
}

static void layer_row(struct rivulet_explain *e, const struct rvl_backend *be, uint32_t index,
		      uint32_t step)
{
	const struct rvl_layer *l = be->layer[index];
	const struct rvl_layer_cost *c = &be->cost[index];
	uint32_t length = be->length[be->n_variants - 1];
	const struct rvl_mode *mode = rvl_mode_at(l, length);
	struct rivulet_explain_row *r = &e->rows[e->n_rows];
	char out[128], how[HOW_SIZE];

	node_row(e, l->node, "npu", l->note, step);
	if (mode && mode->describe) {
		mode->describe(l, how, sizeof(how), length);
		r->reason = both(e, how, r->reason);
	}
	snprintf(out, sizeof(out), "%lldx%lldx%lldx%lld", (long long)l->out.v.n,
		 (long long)l->out.v.c, (long long)l->out.v.h, (long long)l->out.v.w);
	if (!l->out.flat)
		r->out = copy_text(e, out);
	contest_of(l, be->opt->measure, &r->contest);
	r->layout = layout_text(result_of(l->node), l->out.s->blocked);
	r->fused = copy_text(e, l->fused);
	r->macs = l->p.macs;
	r->array_macs = c->macs;
	r->bound = rvl_bound(c->conv_busy, c->alu_busy, c->port_busy);
	r->cycles = c->cycles;
	r->read_bytes = c->read_bytes;
	r->write_bytes = c->write_bytes;
}

/* Adds the names of those tensors that lie at pitches, behind @verb. */
static size_t name_pitched(char *text, size_t size, size_t n, const char *verb,
			   struct rvl_tensor *const *t, uint32_t count)
{
	const char *before = verb;

	for (uint32_t i = 0; i < count && n < size; i++) {
		if (!t[i] || !t[i]->pitched)
			continue;
		n += (size_t)snprintf(text + n, size - n, "%s%s%s", n && before == verb ? "; " : "", before,
				      t[i]->name);
		before = ", ";
	}
	return n;
}

static const char *pitches_text(struct rivulet_explain *e, const struct rvl_node *n)
{
	char text[400] = "";
	size_t at = name_pitched(text, sizeof(text), 0, "reads ", n->in, n->n_in);

	name_pitched(text, sizeof(text), at, "writes ", n->out, n->n_out);
	return copy_text(e, text);
}

static uint64_t bytes_of(struct rvl_tensor *const *t, uint32_t n)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++)
		bytes += t[i] ? (uint64_t)rvl_max(rvl_tensor_bytes(t[i]), 0) : 0;
	return bytes;
}

static void cpu_row(struct rivulet_explain *e, const struct rvl_backend *be,
		    const struct rvl_node *n, uint32_t step)
{
	const struct rvl_mode *mode = rvl_mode_of(n);
	struct rivulet_explain_row *r = &e->rows[e->n_rows];
	char how[HOW_SIZE];

	node_row(e, n, "cpu", n->reason, step);
	r->pitches = pitches_text(e, n);
	r->macs = rvl_node_macs(n);
	r->read_bytes = bytes_of(n->in, n->n_in);
	r->write_bytes = bytes_of(n->out, n->n_out);
	if (!mode->describe || !be->length[0])
		return;
	mode->describe(NULL, how, sizeof(how), be->length[0]);
	e->rows[e->n_rows - 1].reason = both(e, how, e->rows[e->n_rows - 1].reason);
}

/* The nodes that a step of the CPU computes. */
static uint32_t nodes_of(const struct rvl_bstep *s, struct rvl_node *const **list)
{
	if (!s->node->chain) {
		*list = (struct rvl_node *const *)&s->node;
		return 1;
	}
	*list = s->node->chain->node;
	return s->node->chain->n;
}

static void note_chain(struct rivulet_explain *e, const struct rvl_node *n, uint32_t step)
{
	struct rivulet_explain_row *r = &e->rows[e->n_rows - 1];
	bool rows = n->out[0]->layout == RIVULET_LAYOUT_NHWC;
	char text[80];

	if (n->op == RVL_OP_QUANTIZE)
		snprintf(text, sizeof(text), "by the convolution of step %u as it reads its image", step);
	else if (n->chain->n == 2 && rvl_has_front(n->chain))
		return;
	else
		snprintf(text, sizeof(text), "in %s with the operators of step %u",
			 rows ? "stripes of rows" : "blocks of elements", step);
	r->reason = both(e, r->reason, text);
}

/* A row for each node; the values between those of a chain have no memory. */
static void cpu_rows(struct rivulet_explain *e, const struct rvl_backend *be, const struct rvl_bstep *s,
		     uint32_t step)
{
	struct rvl_node *const *list;
	uint32_t n = nodes_of(s, &list);

	for (uint32_t i = 0; i < n; i++) {
		cpu_row(e, be, list[i], step);
		if (n > 1)
			note_chain(e, list[i], step);
	}
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
	for (uint32_t i = 0; i < be->n_steps; i++) {
		struct rvl_node *const *list;

		for (uint32_t k = 0; !be->step[i].npu && k < nodes_of(&be->step[i], &list); k++) {
			add_copy(e, list[k]);
			add_reorders(e, list[k]);
		}
	}
	for (uint32_t i = 0; i < be->n_layers; i++)
		add_copy(e, be->layer[i]->node);
}

/* ---- edges ---- */

/* What a row reads and writes, in a few stores. */
struct uses {
	const struct rvl_store *read[RIVULET_STEP_REFS], *write[RIVULET_STEP_REFS];
	uint32_t reads, writes;
};

static void node_uses(const struct rvl_backend *be, const struct rvl_node *n, struct uses *u)
{
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i])
			u->read[u->reads++] = be->store[n->in[i]->id];
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i])
			u->write[u->writes++] = be->store[n->out[i]->id];
}

static void layer_uses(const struct rvl_layer *l, struct uses *u)
{
	u->read[u->reads++] = l->in.s;
	if (l->has_b)
		u->read[u->reads++] = l->b.s;
	u->write[u->writes++] = l->out.s;
	if (l->has_bits)
		u->write[u->writes++] = l->bits.s;
}

static bool feeds(const struct uses *from, const struct uses *to)
{
	for (uint32_t i = 0; i < from->writes; i++)
		for (uint32_t k = 0; k < to->reads; k++)
			if (rvl_stores_meet(from->write[i], to->read[k]))
				return true;
	return false;
}

static int add_edges(struct rivulet_explain *e, const struct uses *u)
{
	struct rivulet_explain_edge edge;
	struct rvl_bytes b = { 0 };
	int rc = 0;

	for (edge.to = 1; edge.to < e->n_rows; edge.to++)
		for (edge.from = 0; !rc && edge.from < edge.to; edge.from++)
			if (feeds(&u[edge.from], &u[edge.to]))
				rc = rvl_bytes_add(&b, &edge, sizeof(edge), 1, NULL);
	e->n_edges = b.size / sizeof(edge);
	e->edges = rvl_arena_array(e->priv, e->n_edges + 1, sizeof(edge));
	if (e->edges && b.size)
		memcpy(e->edges, b.data, b.size);
	rvl_bytes_free(&b);
	return rc;
}

static int fill_edges(const struct rvl_backend *be, struct rivulet_explain *e)
{
	struct uses *u = calloc(e->n_rows + 1, sizeof(*u));
	uint32_t row = 0;
	int rc;

	if (!u)
		return -ENOMEM;
	for (uint32_t i = 0; i < be->n_steps; i++) {
		const struct rvl_bstep *s = &be->step[i];
		struct rvl_node *const *list;

		for (uint32_t k = 0; !s->npu && k < nodes_of(s, &list); k++)
			node_uses(be, list[k], &u[row++]);
		for (uint32_t l = 0; s->npu && l < s->layers; l++)
			layer_uses(be->layer[s->layer0 + l], &u[row++]);
	}
	rc = add_edges(e, u);
	free(u);
	return rc;
}

/* The rows of a graph that was not lowered: an edge for each operand that another node makes. */
static int node_edges(const struct rvl_graph *g, struct rivulet_explain *e)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		most += g->nodes[i]->n_in;
	e->edges = rvl_arena_array(e->priv, most + 1, sizeof(*e->edges));
	if (!e->edges)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; k < g->nodes[i]->n_in; k++) {
			const struct rvl_tensor *t = g->nodes[i]->in[k];
			uint32_t from = 0;

			while (from < i && (!t || t->producer != g->nodes[from]))
				from++;
			if (from < i)
				e->edges[e->n_edges++] = (struct rivulet_explain_edge){ from, i };
		}
	return 0;
}

/* ---- the timeline ---- */

/* The spans of the compilation name layers; here they are rows. */
static int fill_spans(const struct rvl_backend *be, struct rivulet_explain *e)
{
	uint32_t *row_of = calloc(be->n_layers + 1, sizeof(*row_of)), row = 0;
	struct rvl_node *const *list;

	if (!row_of)
		return -ENOMEM;
	for (uint32_t i = 0; i < be->n_steps; i++) {
		row += be->step[i].npu ? 0 : nodes_of(&be->step[i], &list);
		for (uint32_t l = 0; be->step[i].npu && l < be->step[i].layers; l++)
			row_of[be->step[i].layer0 + l] = row++;
	}
	e->n_spans = be->spans.size / sizeof(*e->spans);
	e->spans = rvl_arena_array(e->priv, e->n_spans + 1, sizeof(*e->spans));
	if (e->spans && be->spans.size)
		memcpy(e->spans, be->spans.data, be->spans.size);
	for (uint32_t i = 0; e->spans && i < e->n_spans; i++)
		if (e->spans[i].row != RVL_NONE)
			e->spans[i].row = row_of[e->spans[i].row];
	free(row_of);
	return 0;
}

/*
 * The texts, which live longer than the graph, have an arena of their own. Where it was refused what
 * the limit of the graph's leaves, the latter reports it.
 */
static void share_limit(const struct rvl_backend *be, const struct rivulet_explain *e)
{
	if (e->priv && rvl_arena_needed(e->priv))
		rvl_arena_count(be->g->arena, rvl_arena_needed(e->priv));
}

int rvl_explain_fill(const struct rvl_backend *be, size_t program_bytes, struct rivulet_explain *e)
{
	int rc = start(e, be, be->n_layers + be->g->n_nodes);

	if (rc) {
		share_limit(be, e);
		rivulet_explain_free(e);
		return rc;
	}
	for (uint32_t i = 0; i < be->n_steps; i++) {
		const struct rvl_bstep *s = &be->step[i];
		const struct rivulet_explain_segment *seg = rvl_seg(be, be->n_variants - 1, i);

		if (!s->npu) {
			cpu_rows(e, be, s, i);
			continue;
		}
		for (uint32_t l = 0; l < s->layers; l++)
			layer_row(e, be, s->layer0 + l, i);
		e->segments[e->n_segments++] = *seg;
	}
	fill_levels(be, e);
	rivulet_explain_derive(e);
	e->program_bytes = program_bytes;
	e->weight_bytes = be->weight_bytes;
	e->arena_bytes = be->arena_size;
	fill_moves(be, e);
	e->prefetches = be->prefetches;
	e->binary = copy_text(e, be->g->binary_note);
	e->cascades = be->cascades;
	e->cascade_bytes = be->cascade_bytes;
	if (be->opt->drawing)
		rc = fill_edges(be, e);
	if (!rc && be->opt->drawing)
		rc = fill_spans(be, e);
	share_limit(be, e);
	if (rc)
		rivulet_explain_free(e);
	return rc ? rc : finish_rows(e);
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
	rc = node_edges(be->g, e);
	if (rc)
		rivulet_explain_free(e);
	return rc ? rc : finish_rows(e);
}

/* SPDX-License-Identifier: MIT */
/*
 * Stores and steps: where every value of the graph lives, and what the runtime executes in which
 * order, with the tensors that each step reads and writes.
 */
#include "npu/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- stores ---- */

/* A segment that only gives bytes another name is not submitted to the device. */
static void demote_idle_segments(struct rvl_graph *g)
{
	for (uint32_t i = 0; i < g->n_segs; i++) {
		struct rvl_segment *s = &g->segs[i];
		bool work = false;

		for (uint32_t j = 0; j < s->count; j++)
			work |= !rvl_op_renames(g->nodes[s->first + j]->op) &&
				!g->nodes[s->first + j]->free;
		if (work || s->place != RVL_PLACE_NPU)
			continue;
		s->place = RVL_PLACE_CPU;
		for (uint32_t j = 0; j < s->count; j++) {
			g->nodes[s->first + j]->place = RVL_PLACE_CPU;
			g->nodes[s->first + j]->reason =
				"nothing but a change of shape between steps on the CPU";
		}
	}
}

static struct rvl_store *new_store(struct rvl_backend *be, struct rvl_tensor *t)
{
	struct rvl_store *s = rvl_arena_alloc(be->g->arena, sizeof(*s));

	if (!s)
		return NULL;
	s->root = t;
	s->place = RIVULET_PLACE_ARENA;
	s->slot = RIVULET_SLOT_ARENA;
	if (t->data) {
		s->place = RIVULET_PLACE_CONST;
		s->slot = RIVULET_SLOT_PROGRAM;
		s->plain = true;
	}
	return s;
}

static void bind_io(struct rvl_store *s, enum rivulet_place place, uint32_t io, uint32_t slot,
		    bool plain)
{
	s->place = place;
	s->io = io;
	s->slot = slot;
	s->plain = plain;
}

static void bind_outputs(struct rvl_backend *be, const struct rvl_tensor *t)
{
	for (uint32_t i = 0; t->is_output && i < be->g->n_outputs; i++)
		if (be->g->outputs[i] == t)
			bind_io(be->store[t->id], RIVULET_PLACE_OUTPUT, i,
				RIVULET_SLOT_IO + be->g->n_inputs + i, true);
}

/* Without views, renaming on the NPU costs nothing, unless both names are bound by the caller. */
static bool can_alias(const struct rvl_backend *be, const struct rvl_node *n)
{
	const struct rvl_store *s = be->store[n->in[0]->id];

	if (n->place != RVL_PLACE_NPU || !rvl_op_renames(n->op) || s->place == RIVULET_PLACE_CONST)
		return false;
	return s->place == RIVULET_PLACE_ARENA || !n->out[0]->is_output;
}

/* The store of a view: all of its base, or a part of it. */
static int store_view(struct rvl_backend *be, struct rvl_tensor *t)
{
	struct rvl_tensor *base = t->base;
	struct rvl_store *s;

	if (!be->store[base->id])
		be->store[base->id] = new_store(be, base);
	if (!be->store[base->id])
		return -ENOMEM;
	be->store[t->id] = be->store[base->id];
	if (!t->pitched && rvl_tensor_bytes(t) == rvl_tensor_bytes(base))
		return 0;
	s = new_store(be, t);
	if (!s)
		return -ENOMEM;
	be->store[base->id]->has_parts = true;
	s->base = be->store[base->id];
	s->at = t->base_at;
	be->store[t->id] = s;
	return 0;
}

static int store_outputs(struct rvl_backend *be, struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_out; i++) {
		struct rvl_tensor *t = n->out[i];
		int rc = t && t->base ? store_view(be, t) : 0;

		if (rc)
			return rc;
		if (t && !be->store[t->id])
			be->store[t->id] = i == 0 && !be->views && can_alias(be, n) ?
						   be->store[n->in[0]->id] : new_store(be, t);
		if (t && !be->store[t->id])
			return -ENOMEM;
		if (t)
			bind_outputs(be, t);
	}
	return 0;
}

/* Parts lie where their base does. What needs a part PLAIN needs all of it PLAIN: choose_forms(). */
static void bind_parts(struct rvl_backend *be)
{
	for (uint32_t i = 0; i < be->g->n_tensors; i++) {
		struct rvl_store *s = be->store[i];

		if (s && s->base)
			bind_io(s, s->base->place, s->base->io, s->base->slot, s->plain || s->base->plain);
	}
}

static void mark_cpu_side(struct rvl_backend *be, const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i])
			be->store[n->in[i]->id]->plain = true;
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i])
			be->store[n->out[i]->id]->plain = true;
}

static int store_sources(struct rvl_backend *be, const struct rvl_node *n)
{
	for (uint32_t i = 0; i < n->n_in; i++) {
		struct rvl_tensor *t = n->in[i];

		if (!t || be->store[t->id])
			continue;
		be->store[t->id] = new_store(be, t);
		if (!be->store[t->id])
			return -ENOMEM;
	}
	return 0;
}

int rvl_stores_make(struct rvl_backend *be)
{
	struct rvl_graph *g = be->g;
	int rc = 0;

	demote_idle_segments(g);
	be->store = calloc(g->n_tensors + 1, sizeof(*be->store));
	if (!be->store)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n_inputs; i++) {
		struct rvl_store *s = new_store(be, g->inputs[i]);

		if (!s)
			return -ENOMEM;
		bind_io(s, RIVULET_PLACE_INPUT, i, RIVULET_SLOT_IO + i, true);
		be->store[g->inputs[i]->id] = s;
	}
	for (uint32_t i = 0; i < g->n_nodes && !rc; i++) {
		rc = store_sources(be, g->nodes[i]);
		if (!rc)
			rc = store_outputs(be, g->nodes[i]);
		if (!rc && g->nodes[i]->place != RVL_PLACE_NPU && !g->nodes[i]->free)
			mark_cpu_side(be, g->nodes[i]);
	}
	if (!rc)
		bind_parts(be);
	return rc;
}

/* ---- steps ---- */

static int new_step(struct rvl_backend *be, struct rvl_bstep **out)
{
	if (be->n_steps == RIVULET_MAX_STEPS)
		return rvl_fail(be->err, -E2BIG, "more than %u steps", RIVULET_MAX_STEPS);
	if (be->n_steps == be->cap_steps) {
		uint32_t cap = be->cap_steps ? 2 * be->cap_steps : 32;
		struct rvl_bstep *p = rvl_scratch(be->g->arena, cap, sizeof(*p));

		if (!p)
			return -ENOMEM;
		if (be->n_steps)
			memcpy(p, be->step, be->n_steps * sizeof(*p));
		rvl_scratch_free(be->step);
		be->step = p;
		be->cap_steps = cap;
	}
	*out = &be->step[be->n_steps++];
	memset(*out, 0, sizeof(**out));
	return 0;
}

/* What a chain reads and writes; its other values have no memory. */
static int chain_step(struct rvl_backend *be, struct rvl_node *n, struct rvl_bstep *s)
{
	const struct rvl_node_chain *c = n->chain;
	struct rvl_kernel_desc *d = malloc(sizeof(*d));
	int rc = d ? rvl_chain_desc(be->g, c, d, s->read) : -ENOMEM;

	if (!rc)
		s->nread = d->n_in;
	free(d);
	if (rc)
		return rc;
	s->write[s->nwrite++] = n->out[0];
	for (uint32_t i = 0; i < c->n - 1; i++)
		s->macs += rvl_node_macs(c->node[i]);
	s->name = rvl_graph_printf(be->g, "%s .. %s", c->node[0]->name, n->name);
	return s->name ? 0 : -ENOMEM;
}

static void node_step(const struct rvl_node *n, struct rvl_bstep *s)
{
	s->name = n->name;
	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i])
			s->read[s->nread++] = n->in[i];
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i])
			s->write[s->nwrite++] = n->out[i];
}

static int cpu_step(struct rvl_backend *be, struct rvl_node *n)
{
	struct rvl_bstep *s;
	int rc = new_step(be, &s);

	if (rc)
		return rc;
	s->node = n;
	s->macs = rvl_node_macs(n);
	if (!n->chain)
		node_step(n, s);
	else
		rc = chain_step(be, n, s);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < s->nread; i++)
		be->store[s->read[i]->id]->used = true;
	for (uint32_t i = 0; i < s->nwrite; i++)
		be->store[s->write[i]->id]->used = true;
	return 0;
}

/*
 * Tensors that lie in one store: the one that has it, then its views. head[] is by the id of the
 * former, next[] by tensor id; RVL_NONE ends a list. A tensor that no view shares is alone.
 */
struct families {
	uint32_t *head, *next;
};

/* Nodes of a segment whose layers are [l0, l0 + n). */
struct part {
	const struct rvl_segment *seg;
	const uint32_t *node_layer;
	const struct families *fam;
	uint32_t l0, n;
};

static bool in_part(const struct part *p, const struct rvl_node *n)
{
	uint32_t l = p->node_layer[n->id];

	return n->place == RVL_PLACE_NPU && l != RVL_NONE && l >= p->l0 && l < p->l0 + p->n;
}

/* A view of an input needs no writer, because the input is complete before the run. */
static bool written(const struct rvl_backend *be, const struct rvl_tensor *t)
{
	return be->store[t->id]->place != RIVULET_PLACE_INPUT;
}

static uint32_t family_of(const struct part *p, const struct rvl_tensor *t)
{
	return p->fam->head[t->base ? t->base->id : t->id];
}

/* Bytes that the spans of two tensors of one family share. */
static uint64_t common_bytes(const struct rvl_tensor *a, const struct rvl_tensor *b)
{
	uint64_t lo = rvl_max(a->base_at, b->base_at);
	uint64_t hi = rvl_min(a->base_at + (uint64_t)rvl_tensor_span(a),
			      b->base_at + (uint64_t)rvl_tensor_span(b));

	return hi > lo ? hi - lo : 0;
}

static bool made_by(const struct part *p, const struct rvl_tensor *t)
{
	return t->producer && in_part(p, t->producer);
}

/*
 * Whether the part makes all of @t. What a node that is not executed gives is there when the tensors
 * in the same bytes are; no byte is written twice, so that counting them is enough.
 */
static bool made_inside(const struct rvl_backend *be, const struct part *p, const struct rvl_tensor *t)
{
	uint64_t bytes = 0;

	if (!t->producer || !t->producer->free)
		return made_by(p, t);
	for (uint32_t i = family_of(p, t); i != RVL_NONE; i = p->fam->next[i]) {
		const struct rvl_tensor *v = be->g->tensors[i];

		if (made_by(p, v) && !v->producer->free)
			bytes += common_bytes(t, v);
	}
	return bytes == (uint64_t)rvl_tensor_bytes(t);
}

static bool used_outside(const struct part *p, const struct rvl_tensor *t)
{
	for (uint32_t i = 0; i < t->n_users; i++)
		if (!t->users[i]->free && !in_part(p, t->users[i]))
			return true;
	return t->is_output;
}

/* Whether bytes of @t are used elsewhere, under whichever name. */
static bool seen_outside(const struct rvl_backend *be, const struct part *p, const struct rvl_tensor *t)
{
	for (uint32_t i = family_of(p, t); i != RVL_NONE; i = p->fam->next[i]) {
		const struct rvl_tensor *v = be->g->tensors[i];

		if ((v == t || common_bytes(t, v)) && used_outside(p, v))
			return true;
	}
	return false;
}

/* Adds @t to the list of at most RIVULET_STEP_REFS; false when it is full. */
static bool list_add(struct rvl_tensor **list, uint32_t *n, struct rvl_tensor *t)
{
	for (uint32_t i = 0; i < *n; i++)
		if (list[i] == t)
			return true;
	if (*n == RIVULET_STEP_REFS)
		return false;
	list[(*n)++] = t;
	return true;
}

static bool list_reads(const struct rvl_backend *be, const struct part *p, const struct rvl_node *n,
		       struct rvl_bstep *s)
{
	for (uint32_t j = 0; j < n->n_in; j++) {
		struct rvl_tensor *t = n->in[j];

		if (t && !t->data && !made_inside(be, p, t) && !list_add(s->read, &s->nread, t))
			return false;
	}
	return true;
}

static bool list_writes(const struct rvl_backend *be, const struct part *p, const struct rvl_node *n,
			struct rvl_bstep *s)
{
	for (uint32_t j = 0; j < n->n_out; j++) {
		struct rvl_tensor *t = n->out[j];

		if (t && written(be, t) && seen_outside(be, p, t) && !list_add(s->write, &s->nwrite, t))
			return false;
	}
	return true;
}

/*
 * Reads and writes of a part; false when they are too many for one step. Nodes that are not executed
 * touch nothing: their users read the joined value, and the step writes its own parts of it.
 */
static bool list_refs(struct rvl_backend *be, const struct part *p, struct rvl_bstep *s)
{
	s->nread = 0;
	s->nwrite = 0;
	for (uint32_t i = 0; i < p->seg->count; i++) {
		const struct rvl_node *n = be->g->nodes[p->seg->first + i];

		if (in_part(p, n) && !n->free && (!list_reads(be, p, n, s) || !list_writes(be, p, n, s)))
			return false;
	}
	return true;
}

static void use_slots(struct rvl_bstep *s, const struct rvl_operand *o, bool write)
{
	s->slots |= 1u << o->s->slot;
	if (write)
		s->writes_mask |= 1u << o->s->slot;
	o->s->used = true;
}

static void sum_layers(struct rvl_backend *be, struct rvl_bstep *s)
{
	s->slots = 1u << RIVULET_SLOT_PROGRAM;
	for (uint32_t i = 0; i < s->layers; i++) {
		const struct rvl_layer *l = be->layer[s->layer0 + i];

		if (!l->from)
			use_slots(s, &l->in, false);
		if (!l->to)
			use_slots(s, &l->out, true);
		if (rvl_loads_b(l))
			use_slots(s, &l->b, false);
		if (l->has_bits)
			use_slots(s, &l->bits, true);
		s->macs += l->p.macs;
	}
	if (be->opt->prof) {
		s->slots |= 1u << RIVULET_SLOT_PROF;
		s->writes_mask |= 1u << RIVULET_SLOT_PROF;
	}
}

/* How many of the layers from @l0 on stay well below the longest program that the board runs. */
static uint32_t within_cycles(const struct rvl_backend *be, uint32_t l0, uint32_t left)
{
	uint64_t cap = ((uint64_t)be->board->cycle_cap << 20) / 2, sum = rvl_layer_cycles(be, be->layer[l0]);
	uint32_t n = 1;

	while (n < left && sum + rvl_layer_cycles(be, be->layer[l0 + n]) <= cap)
		sum += rvl_layer_cycles(be, be->layer[l0 + n++]);
	return n;
}

static int npu_step(struct rvl_backend *be, const struct part *whole, uint32_t l0, uint32_t left,
		    uint32_t *taken)
{
	struct part p = *whole;
	struct rvl_bstep *s;
	int rc = new_step(be, &s);

	if (rc)
		return rc;
	p.l0 = l0;
	p.n = left = within_cycles(be, l0, left);
	if (!list_refs(be, &p, s)) {
		for (p.n = 1; p.n < left; p.n++) { /* as many layers as one step can name */
			struct part more = p;

			more.n++;
			if (!list_refs(be, &more, s))
				break;
		}
		if (!list_refs(be, &p, s))
			return rvl_fail(be->err, -E2BIG, "node \"%s\": more than %u operands",
					be->layer[l0]->node->name, RIVULET_STEP_REFS);
	}
	s->npu = true;
	s->node = be->layer[l0]->node;
	s->layer0 = l0;
	s->layers = p.n;
	s->name = p.n == 1 ? s->node->name :
			     rvl_graph_printf(be->g, "%s .. %s", s->node->name,
					      be->layer[l0 + p.n - 1]->node->name);
	*taken = p.n;
	return s->name ? 0 : -ENOMEM;
}

static int npu_steps(struct rvl_backend *be, const struct rvl_segment *seg,
		     const uint32_t *node_layer, const struct families *fam)
{
	struct part whole = { .seg = seg, .node_layer = node_layer, .fam = fam, .l0 = RVL_NONE };
	uint32_t past = 0, taken = 0;
	int rc = 0;

	for (uint32_t i = 0; i < seg->count; i++) {
		uint32_t l = node_layer[be->g->nodes[seg->first + i]->id];

		whole.l0 = l < whole.l0 ? l : whole.l0;
		past = l + 1 > past ? l + 1 : past;
	}
	for (uint32_t l = whole.l0; l < past && !rc; l += taken)
		rc = npu_step(be, &whole, l, past - l, &taken);
	return rc;
}

static void list_families(const struct rvl_graph *g, struct families *fam)
{
	for (uint32_t i = 0; i < g->n_tensors; i++)
		fam->head[i] = fam->next[i] = RVL_NONE;
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct rvl_tensor *t = g->tensors[i];
		uint32_t *head = &fam->head[t->base ? t->base->id : t->id];

		fam->next[i] = *head;
		*head = i;
	}
}

static int make_steps(struct rvl_backend *be, const uint32_t *node_layer, const struct families *fam)
{
	struct rvl_graph *g = be->g;
	int rc = 0;

	for (uint32_t i = 0; i < g->n_segs && !rc; i++) {
		const struct rvl_segment *s = &g->segs[i];

		if (s->place == RVL_PLACE_NPU) {
			rc = npu_steps(be, s, node_layer, fam);
			continue;
		}
		for (uint32_t j = 0; j < s->count && !rc; j++) {
			struct rvl_node *n = g->nodes[s->first + j];

			if (!n->free && (!n->chain || rvl_ends_chain(n)))
				rc = cpu_step(be, n);
		}
	}
	return rc;
}

int rvl_steps_make(struct rvl_backend *be, const uint32_t *node_layer)
{
	size_t size = (be->g->n_tensors + 1) * sizeof(uint32_t);
	struct families fam = { .head = malloc(size), .next = malloc(size) };
	int rc = -ENOMEM;

	if (fam.head && fam.next) {
		list_families(be->g, &fam);
		rc = make_steps(be, node_layer, &fam);
	}
	free(fam.head);
	free(fam.next);
	return rc;
}

/* Values that stay in INP between two layers use no slot and need no memory. */
void rvl_steps_sum(struct rvl_backend *be)
{
	for (uint32_t i = 0; i < be->n_steps; i++)
		if (be->step[i].npu)
			sum_layers(be, &be->step[i]);
}

/* Offsets of all parts, once those of their bases are known. */
void rvl_stores_settle(const struct rvl_backend *be)
{
	for (uint32_t i = 0; i < be->g->n_tensors; i++) {
		struct rvl_store *s = be->store[i];

		if (!s || !s->base)
			continue;
		s->offset = s->base->offset + s->at;
		s->base->used |= s->used;
	}
}

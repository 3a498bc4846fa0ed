/* SPDX-License-Identifier: MIT */
/*
 * The place of each node, in the fewest segments. Nodes are taken in alternating rounds: everything
 * that can run on one side without the other side's next results, then everything on the other
 * side. A round is a segment. All inputs of its nodes are there when it starts, so that no path
 * leaves and re-enters it and no cycle between segments arises. The number of rounds is the longest
 * alternation of places on any path, and no other grouping has fewer.
 *
 * A step starts when the operands of all its layers are complete. A layer of the NPU therefore waits
 * for a CPU step that it needs nothing of, where a later layer of its round needs the result: fewer
 * steps are preferred to steps that overlap.
 */
#include "npu/constraint.h"
#include "base/math.h"
#include "npu/partition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct partition {
	struct rvl_graph *g;
	rvl_npu_fits_fn fits;
	void *arg;
	uint32_t *round;		/* by node id */
	uint32_t *count;		/* by round: nodes in it */
	uint32_t rounds;
};

static void place_node(struct partition *p, struct rvl_node *n)
{
	const char *why = n->op == RVL_OP_UNSUPPORTED ? n->reason : NULL;

	if (n->free)
		return; /* it joins the round of its producers: join_round() */
	if (!why)
		why = rvl_npu_reject(p->g, n);
	if (!why && p->fits)
		why = p->fits(p->g, n, p->arg);
	n->place = why ? RVL_PLACE_CPU : RVL_PLACE_NPU;
	n->reason = why;
}

/*
 * Operators that justify an NPU segment. Other operators run on the NPU if they are between such.
 */
static bool computes(const struct rvl_node *n)
{
	return !n->free && !rvl_op_renames(n->op) && n->op != RVL_OP_TRANSPOSE && n->op != RVL_OP_Q_RESCALE &&
	       n->op != RVL_OP_GENERAL;
}

static uint32_t parity_of(const struct rvl_node *n, enum rvl_place first)
{
	return n->place != first;
}

/* The earliest round of a node: after its producers', in one of its own place. */
static uint32_t round_of(const struct partition *p, const struct rvl_node *n, enum rvl_place first)
{
	uint32_t r = parity_of(n, first);

	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct rvl_node *from = n->in[i] ? n->in[i]->producer : NULL;
		uint32_t least;

		if (!from)
			continue;
		least = p->round[from->id] + (from->place != n->place);
		if (least > r)
			r = least;
	}
	return r;
}

/* A node that nothing executes is in the round, and at the place, of the last operand made. */
static uint32_t join_round(const struct partition *p, struct rvl_node *n, enum rvl_place first)
{
	uint32_t r = 0;

	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i] && n->in[i]->producer)
			r = rvl_max(r, p->round[n->in[i]->producer->id]);
	n->place = r % 2 ? !first : first;
	n->reason = n->place == RVL_PLACE_NPU ? NULL : "its results are views: nothing moves";
	return r;
}

static uint32_t number_rounds(struct partition *p, enum rvl_place first)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < p->g->n_nodes; i++) {
		struct rvl_node *n = p->g->nodes[i];

		p->round[n->id] = n->free ? join_round(p, n, first) : round_of(p, n, first);
		if (p->round[n->id] + 1 > most)
			most = p->round[n->id] + 1;
	}
	return most;
}

static uint32_t used_rounds(struct partition *p, uint32_t rounds)
{
	uint32_t used = 0;

	memset(p->count, 0, (rounds + 1) * sizeof(*p->count));
	for (uint32_t i = 0; i < p->g->n_nodes; i++)
		used += p->count[p->round[p->g->nodes[i]->id]]++ == 0;
	return used;
}

/* Numbers the rounds beginning with whichever side gives fewer. */
static void choose_rounds(struct partition *p)
{
	uint32_t cpu_first, npu_first;

	p->rounds = number_rounds(p, RVL_PLACE_NPU);
	npu_first = used_rounds(p, p->rounds);
	p->rounds = number_rounds(p, RVL_PLACE_CPU);
	cpu_first = used_rounds(p, p->rounds);
	if (npu_first < cpu_first)
		p->rounds = number_rounds(p, RVL_PLACE_NPU);
}

/* Sends back NPU rounds that only move values. True if any node changed its place. */
static bool demote_idle(struct partition *p, unsigned char *worth)
{
	bool changed = false;

	memset(worth, 0, p->rounds);
	for (uint32_t i = 0; i < p->g->n_nodes; i++)
		if (computes(p->g->nodes[i]))
			worth[p->round[p->g->nodes[i]->id]] = 1;
	for (uint32_t i = 0; i < p->g->n_nodes; i++) {
		struct rvl_node *n = p->g->nodes[i];

		if (n->free || n->place != RVL_PLACE_NPU || worth[p->round[n->id]])
			continue;
		n->place = RVL_PLACE_CPU;
		n->reason = "an NPU step would only move values";
		changed = true;
	}
	return changed;
}

/* One segment for every round that has nodes; count[] becomes the number of the round's segment. */
static int make_segments(struct partition *p)
{
	struct rvl_graph *g = p->g;
	uint32_t n = used_rounds(p, p->rounds), at = 0;

	g->segs = rvl_arena_array(g->arena, n, sizeof(*g->segs));
	g->n_segs = 0;
	if (!g->segs)
		return -ENOMEM;
	for (uint32_t r = 0; r < p->rounds; r++) {
		uint32_t count = p->count[r];

		p->count[r] = g->n_segs;
		if (count)
			g->segs[g->n_segs++] = (struct rvl_segment) { .first = at };
		at += count;
	}
	return 0;
}

/* Nodes segment by segment, each segment in the order it had. */
static int collect(struct partition *p, struct rvl_node **order)
{
	struct rvl_graph *g = p->g;
	int rc = make_segments(p);

	for (uint32_t i = 0; i < g->n_nodes && !rc; i++) {
		struct rvl_node *n = g->nodes[i];
		struct rvl_segment *s = &g->segs[p->count[p->round[n->id]]];

		n->segment = (uint32_t)(s - g->segs);
		s->place = n->place;
		order[s->first + s->count++] = n;
	}
	if (!rc && g->n_nodes)
		memcpy(g->nodes, order, g->n_nodes * sizeof(*order));
	return rc;
}

static int partition(struct partition *p, unsigned char *worth, struct rvl_node **order)
{
	for (uint32_t i = 0; i < p->g->n_nodes; i++)
		place_node(p, p->g->nodes[i]);
	do {
		choose_rounds(p);
	} while (demote_idle(p, worth));
	return collect(p, order);
}

int rvl_pass_partition(struct rvl_graph *g, rvl_npu_fits_fn fits, void *arg, struct rvl_err *err)
{
	struct partition p = {
		.g = g, .fits = fits, .arg = arg,
		.round = calloc(g->next_node_id + 1u, sizeof(*p.round)),
		.count = calloc(g->n_nodes + 2u, sizeof(*p.count)),
	};
	unsigned char *worth = calloc(g->n_nodes + 2u, 1);
	struct rvl_node **order = calloc(g->n_nodes + 1u, sizeof(*order));
	int rc = -ENOMEM;

	if (p.round && p.count && worth && order)
		rc = partition(&p, worth, order);
	free(p.round);
	free(p.count);
	free(worth);
	free(order);
	return rc ? rvl_fail(err, rc, "no memory to partition the graph") : 0;
}

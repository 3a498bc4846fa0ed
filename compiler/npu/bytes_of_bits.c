/* SPDX-License-Identifier: MIT */
/*
 * Bits as bytes of +1 and -1: a binary layer of few input channels leaves most of a word of bits
 * empty, while int8 products of gathered patches fill the array. Such signs are lowered in both
 * ways, and the way whose streams take fewer cycles stays. The results are the same bits.
 */
#include "npu/backend.h"
#include "npu/memo.h"

#include <errno.h>
#include <stdlib.h>

#define TRIALS 8 /* signs of a model that are tried */

void rvl_backend_clear(struct rvl_backend *be)
{
	free(be->store);
	free(be->layer);
	rvl_scratch_free(be->step);
	rvl_scratch_free(be->cost);
	rvl_scratch_free(be->seg);
	rvl_memo_free(be->memo);
	rvl_bytes_free(&be->params);
	rvl_bytes_free(&be->cmds);
	rvl_bytes_free(&be->spans);
}

/* ---- candidates ---- */

/* Least cycles of the array for a pixel and an output block. */
static int64_t on_bits(const struct rivulet_board *b, const struct rvl_node *n)
{
	int64_t pixel = rvl_div_up(n->attr.block, 64) * 8,
		taps = n->attr.kernel[0] * n->attr.kernel[1];
	int64_t lanes = rvl_clamp(b->tn / pixel, 1, 4);

	return rvl_div_up(taps, lanes) * rvl_div_up(pixel, b->tn);
}

static int64_t on_bytes(const struct rivulet_board *b, const struct rvl_node *n)
{
	int64_t taps = n->attr.kernel[0] * n->attr.kernel[1], channels = n->attr.block;

	return rvl_min(rvl_div_up(channels, b->tn) * taps, rvl_div_up(channels * taps, b->tn)) *
	       (b->tn / b->dn);
}

/*
 * Whether bytes may be faster for some reader of the bits that @n makes. Between steps the program
 * knows them as bits.
 */
static bool is_candidate(const struct rivulet_board *b, const struct rvl_node *n)
{
	const struct rvl_tensor *t = n->out[0];
	bool any = false;

	if (n->op != RVL_OP_B_SIGN || n->place != RVL_PLACE_NPU || t->is_output || t->base ||
	    t->holds_output)
		return false;
	for (uint32_t i = 0; i < t->n_users; i++) {
		const struct rvl_node *u = t->users[i];

		if (u->op != RVL_OP_B_CONV || u->place != RVL_PLACE_NPU || u->segment != n->segment ||
		    u->attr.group > 1)
			return false;
		any |= on_bytes(b, u) < on_bits(b, u);
	}
	return any;
}

/* ---- trials ---- */

/* The cost of all steps of the NPU, by cycles or energy; RVL_TOO_LONG where the graph cannot be lowered so. */
static int trial(const struct rvl_backend *be, uint64_t *cost)
{
	struct rvl_err err = { "" };
	struct rvl_backend t = { .g = be->g,
				 .opt = be->opt,
				 .target = be->target,
				 .views = be->views,
				 .n_variants = be->n_variants,
				 .err = &err };
	int rc;

	t.board = &t.target;
	for (int i = 0; i < RIVULET_LEVELS; i++) {
		t.length[i] = be->length[i];
		t.of_level[i] = be->of_level[i];
	}
	rc = rvl_lower(&t);
	if (!rc)
		rc = rvl_decide(&t);
	*cost = 0;
	for (uint32_t i = 0; i < t.n_steps && !rc && *cost != RVL_TOO_LONG; i++) {
		const struct rvl_bstep *s = &t.step[i];
		uint64_t step;

		if (!s->npu)
			continue;
		rc = rvl_cost_layers(&t, t.layer + s->layer0, s->layers, &step);
		*cost = step == RVL_TOO_LONG ? RVL_TOO_LONG : *cost + step;
	}
	rvl_backend_clear(&t);
	if (rc && rc != -ENOMEM)
		*cost = RVL_TOO_LONG;
	return rc == -ENOMEM ? rc : 0;
}

static void note_readers(const struct rvl_tensor *t)
{
	for (uint32_t i = 0; i < t->n_users; i++)
		t->users[i]->note = "dense: int8 products of +1 and -1 cost less than bits";
}

int rvl_choose_bytes_of_bits(struct rvl_backend *be)
{
	uint64_t best = 0, cost;
	uint32_t trials = 0;
	int rc = 0;

	if (!be->board || be->opt->stochastic)
		return 0;
	for (uint32_t i = 0; i < be->g->n_nodes && !rc && trials < TRIALS; i++) {
		struct rvl_tensor *t = be->g->nodes[i]->out[0];

		if (!is_candidate(be->board, be->g->nodes[i]))
			continue;
		if (!trials++)
			rc = trial(be, &best);
		if (rc)
			return rc;
		t->npu_bytes = true;
		rc = trial(be, &cost);
		t->npu_bytes = !rc && cost < best;
		if (!t->npu_bytes)
			continue;
		note_readers(t);
		best = cost;
	}
	return rc;
}

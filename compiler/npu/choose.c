/* SPDX-License-Identifier: MIT */
/*
 * Choices by the device's timeline. The tiler's estimate knows engines, port and latency, but not
 * the schedule; where several cuts of a layer are near, their streams are timed.
 */
#include "npu/backend.h"
#include "npu/stream.h"

#include <errno.h>
#include <stdlib.h>

#define TIMED	6   /* cuts of a layer */
#define NEAR	130 /* per cent of the least estimate; what is above it is not timed */

static int time_stream(struct rvl_backend *be, struct rvl_stream *s,
		       struct rivulet_explain_segment *seg)
{
	struct rivulet_insn *code = malloc((s->n + 1) * sizeof(*code));
	int rc = code ? rvl_stream_code(s, code) : -ENOMEM;

	if (!rc)
		rc = rvl_estimate_stream(be->board, code, (s->n + 1) * sizeof(*code), NULL, NULL,
					 seg, be->err);
	free(code);
	return rc;
}

int rvl_time_layers(struct rvl_backend *be, struct rvl_layer *const *l, uint32_t n,
		    struct rivulet_explain_segment *seg)
{
	struct rvl_err trial = { "" };
	struct rvl_stream s;
	int rc;

	rvl_stream_init(&s, be->board, false, &trial);
	s.variant = be->n_variants - 1;
	s.length = be->length[s.variant];
	if (be->opt->most_instructions)
		s.most = be->opt->most_instructions;
	rvl_segment_emit(&s, l, n, 0);
	rc = s.rc;
	if (rc == -E2BIG) {
		*seg = (struct rivulet_explain_segment) { .cycles = RVL_TOO_LONG };
		rvl_stream_free(&s);
		return 0;
	}
	if (rc && *trial.msg)
		rvl_fail(be->err, rc, "%s", trial.msg);
	if (!rc)
		rc = rvl_schedule(&s, be->opt->serial);
	if (!rc)
		rc = time_stream(be, &s, seg);
	rvl_stream_free(&s);
	return rc;
}

/* Every store by itself, so that streams can be timed before the memory plan. */
static void place_apart(const struct rvl_backend *be)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < be->g->n_tensors; i++) {
		struct rvl_store *s = be->store[i];

		if (!s || s->place != RIVULET_PLACE_ARENA || s->root->id != i || s->base)
			continue;
		s->offset = at;
		at += rvl_div_up(s->size, RIVULET_PAGE_BYTES) * RIVULET_PAGE_BYTES;
	}
	rvl_stores_settle(be);
}

/* Cuts of a layer, and whether each is of gathered patches. */
struct cuts {
	struct rvl_tiling cut[2 * TIMED];
	bool gather[2 * TIMED];
	uint32_t n;
	uint64_t least; /* estimate */
};

static void find_cuts(const struct rivulet_board *b, const struct rvl_layer *l, bool gather,
		      struct cuts *c)
{
	struct rvl_layer form = *l;
	uint32_t n;

	form.p.gather = gather;
	n = rvl_cuts(b, &form, c->cut + c->n, TIMED);
	for (uint32_t i = c->n; i < c->n + n; i++) {
		c->gather[i] = gather;
		c->least = rvl_min(c->least, c->cut[i].cost);
	}
	c->n += n;
}

/*
 * The layer is timed behind the one before it, beside which its weights load; @before is 0 or 1.
 * A PLAIN operand may be gathered or not.
 */
static int choose_cut(struct rvl_backend *be, struct rvl_layer **at, uint32_t before)
{
	struct cuts c = { .least = UINT64_MAX };
	struct rvl_layer *l = *at;
	uint64_t least = UINT64_MAX;
	uint32_t best = 0;
	int rc = 0;

	find_cuts(be->board, l, l->p.gather, &c);
	if (!l->in.s->blocked && rvl_can_gather(be->board, l))
		find_cuts(be->board, l, !l->p.gather, &c);
	for (uint32_t i = 0; i < c.n && !rc; i++) {
		struct rivulet_explain_segment seg = { 0 };

		if (c.cut[i].cost * 100 > c.least * NEAR)
			continue;
		l->t = c.cut[i];
		l->p.gather = c.gather[i];
		rc = rvl_time_layers(be, at - before, 1 + before, &seg);
		if (!rc && seg.cycles < least) {
			least = seg.cycles;
			best = i;
		}
	}
	l->t = c.cut[best];
	l->p.gather = c.gather[best];
	l->note = l->p.gather ? "patches gathered" : NULL;
	return rc;
}

int rvl_choose_cuts(struct rvl_backend *be)
{
	int rc = 0;

	/*
	 * A plan predicts the time of a length from a program that has other lengths, too: what all
	 * variants share must not depend on the lengths.
	 */
	if (be->opt->stochastic)
		return 0;
	place_apart(be);
	for (uint32_t i = 0; i < be->n_steps && !rc; i++) {
		const struct rvl_bstep *s = &be->step[i];

		for (uint32_t j = 0; s->npu && j < s->layers && !rc; j++)
			if (be->layer[s->layer0 + j]->mode)
				rc = choose_cut(be, be->layer + s->layer0 + j, j > 0);
	}
	return rc;
}

/* SPDX-License-Identifier: MIT */
/*
 * Weights ahead of time: where the array would wait before a layer, its first weights are
 * loaded ahead of the last tiles of the layer before. This delays the operands of those tiles.
 * Therefore it is done only where the timeline of the layers is shorter for it, and in a step only
 * where that of the step is.
 *
 * Weights of all layers that follow load whenever the port is idle (segment.c), if the timeline of the
 * step is shorter for it.
 */
#include "npu/backend.h"
#include "npu/stream.h"

#include <errno.h>
#include <stdlib.h>

#define MOST_AHEAD 4  /* tiles */
#define LEAST_WAIT 64 /* cycles of the array between two layers; below, nothing is tried */
#define IDLE_SHARE 64 /* of the cycles of a step, in which the array is idle; below, nothing is tried */

struct timed {
	struct rvl_backend *be;
	struct rvl_layer **l; /* those of two groups that follow one another */
	uint32_t n, second;   /* layers, and the first of the second group */
};

static int time_of(const struct timed *t, struct rivulet_explain_segment *seg)
{
	*seg = (struct rivulet_explain_segment){ 0 };
	return rvl_time_layers(t->be, t->l, t->n, seg);
}

/* Tiles of @l, of each block of results alone: what loads ahead of all of them delays them all. */
static int64_t tiles_of(const struct rvl_layer *l)
{
	return l->out.v.n * rvl_div_up(rvl_result_rows(l), rvl_max(l->t.th, 1)) *
	       rvl_div_up(rvl_result_cols(l), rvl_max(l->t.tw, 1));
}

/*
 * The number of tiles with which the two groups take the least time; 0 where nothing is gained. Where
 * the most tiles of the layer before, but the first, gain nothing, fewer hardly ever do, and are not
 * tried.
 */
static int try_ahead(const struct timed *t)
{
	struct rvl_layer *l = t->l[t->second];
	struct rivulet_explain_segment seg;
	uint64_t least;
	uint32_t best = 0, most = MOST_AHEAD;
	int rc = time_of(t, &seg);

	least = seg.cycles;
	if (rc || seg.layer_wait < LEAST_WAIT || least == RVL_TOO_LONG)
		return rc;
	while (most > 1 && most >= tiles_of(t->l[t->second - 1]))
		most /= 2;
	for (uint32_t ahead = most; ahead && !rc; ahead /= 2) {
		l->ahead = ahead;
		rc = time_of(t, &seg);
		if (!best && seg.cycles >= least)
			break;
		if (rc || seg.cycles > least)
			continue;
		least = seg.cycles;
		best = ahead;
	}
	l->ahead = best;
	return rc;
}

/* Where the step as a whole is not faster, no weights are loaded ahead. */
static int compare_step(struct rvl_backend *be, struct rvl_layer **l, uint32_t n)
{
	struct rivulet_explain_segment with = { 0 }, without = { 0 };
	uint32_t *ahead = malloc(n * sizeof(*ahead));
	int rc = ahead ? rvl_time_layers(be, l, n, &with) : -ENOMEM;

	for (uint32_t i = 0; i < n && !rc; i++) {
		ahead[i] = l[i]->ahead;
		l[i]->ahead = 0;
	}
	if (!rc)
		rc = rvl_time_layers(be, l, n, &without);
	for (uint32_t i = 0; i < n && !rc && with.cycles < without.cycles; i++)
		l[i]->ahead = ahead[i];
	free(ahead);
	return rc;
}

/* With stochastic layers nothing is chosen by time, for the reason of rvl_decide(). */
static bool may_prefetch(const struct rvl_backend *be)
{
	return !be->opt->no_prefetch && !be->opt->stochastic && be->board;
}

static void set_early(struct rvl_layer *const *l, uint32_t n, bool early)
{
	for (uint32_t i = 0; i < n; i++)
		l[i]->early = early;
}

bool rvl_idles(const struct rvl_backend *be, const struct rivulet_explain_segment *seg)
{
	/* Weights that stay are loaded once, so that a stream that is too long can become shorter. */
	return may_prefetch(be) &&
	       (seg->cycles == RVL_TOO_LONG ||
		(seg->cycles - seg->busy[RIVULET_Q_CONV]) * IDLE_SHARE >= seg->cycles);
}

int rvl_load_early(struct rvl_backend *be, struct rvl_layer **l, uint32_t n,
		   struct rivulet_explain_segment *seg)
{
	struct rivulet_explain_segment early = { 0 };
	int rc;

	if (!rvl_idles(be, seg))
		return 0;
	set_early(l, n, true);
	rc = rvl_time_layers(be, l, n, &early);
	if (!rc && rvl_segment_better(be, &early, seg))
		*seg = early;
	else
		set_early(l, n, false);
	return rc;
}

static uint32_t end_of_group(struct rvl_layer *const *l, uint32_t at, uint32_t n)
{
	while (at + 1 < n && rvl_continues(l[at]))
		at++;
	return at + 1;
}

int rvl_prefetch_layers(struct rvl_backend *be, struct rvl_layer **l, uint32_t n)
{
	uint32_t before = 0, at = end_of_group(l, 0, n);
	bool any = false;
	int rc = 0;

	for (uint32_t i = 0; i < n; i++)
		l[i]->ahead = 0;
	if (!may_prefetch(be))
		return 0;
	while (at < n && !rc) {
		uint32_t end = end_of_group(l, at, n);
		struct timed t = { be, l + before, end - before, at - before };

		if (l[at]->mode)
			rc = try_ahead(&t);
		any |= l[at]->ahead;
		before = at;
		at = end;
	}
	return rc || !any ? rc : compare_step(be, l, n);
}

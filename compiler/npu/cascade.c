/* SPDX-License-Identifier: MIT */
/*
 * Cascades: a convolution whose result only the next one reads leaves it in INP. Rows of it lie in a
 * ring; the layers of a cascade take turns, so that neither STORE nor LOAD moves the value, and so
 * that the array works for one layer while the ALU works for another. All share the scratchpads, so
 * their tiles are smaller.
 *
 * Which layers of a step form cascades is found by dynamic programming over the layers in order: the
 * best division of the first layers into cascades and single layers, for each number of them. A
 * cascade is priced by the timeline, behind the layer before it. The step as a whole keeps its
 * cascades only where its timeline is shorter for them.
 */
#include "npu/backend.h"
#include "npu/chain.h"
#include "npu/choice.h"
#include "npu/stream.h"

#include <errno.h>
#include <stdlib.h>

#define TIMED	   4  /* cuts of a cascade whose timeline is compared: the best by the estimate */
#define PARTS	   4  /* of the cuts with which the last layer takes parts of its operand, the same */
#define NEAR	   105 /* per cent of the least estimate; a cut above it is not timed */
#define SEARCHED   512 /* layers that are searched together: each needs 10 KB meanwhile */

/* The best division of the layers of a step before one of them. */
struct division {
	uint64_t cost;	  /* of all layers before it */
	uint32_t first;	  /* of the last cascade, or the last layer */
	struct rvl_chain c; /* which it is */
};

struct search {
	struct rvl_backend *be;
	struct rvl_layer **l;
	uint32_t n;
	struct rvl_layer *fast;	  /* of each layer, its form that keeps the array busy for the shortest time */
	struct division *best;	  /* by the number of layers */
	uint64_t *before;	  /* cost of each layer by itself, at the start of a stream */
	struct rvl_chain cut[TIMED + PARTS];
};

/* ---- the cost of a cascade ---- */

/* What @c adds behind the layer before it. */
static int cost_behind(struct search *s, const struct rvl_chain *c, uint32_t first, uint64_t *cost)
{
	struct rvl_layer copy[RVL_CHAIN], *l[RVL_CHAIN + 1];
	struct rvl_ring ring[RVL_CHAIN];
	int rc;

	l[0] = first ? s->l[first - 1] : NULL;
	for (uint32_t i = 0; i < c->n; i++)
		l[i + 1] = &copy[i];
	rvl_chain_use(c, l + 1, ring);
	rc = rvl_cost_layers(s->be, l + !first, c->n + !!first, cost);
	if (first && *cost != RVL_TOO_LONG)
		*cost -= rvl_min(s->before[first - 1], *cost);
	return rc;
}

static void offer(struct search *s, const struct rvl_chain *c, uint32_t first, uint64_t cost)
{
	struct division *d = &s->best[first + c->n];
	uint64_t sum = s->best[first].cost + cost;

	if (sum < cost || sum >= d->cost) /* RVL_TOO_LONG and more */
		return;
	d->cost = sum;
	d->first = first;
	d->c = *c;
}

/* The layers as each is fastest alone, or in the forms of the least work of the array. */
static struct rvl_chain forms_of(const struct search *s, uint32_t first, uint32_t n, bool fastest)
{
	struct rvl_chain c = { .n = n };

	for (uint32_t i = 0; i < n; i++)
		c.l[i] = fastest ? s->fast[first + i] : *s->l[first + i];
	return c;
}

static bool same_forms(const struct rvl_chain *a, const struct rvl_chain *b)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (a->l[i].mode != b->l[i].mode || a->l[i].p.gather != b->l[i].p.gather)
			return false;
	return true;
}

/* The least estimate of @n cuts. */
static uint64_t least_of(const struct rvl_chain *cut, uint32_t n)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < n; i++)
		if (cut[i].cost < least)
			least = cut[i].cost;
	return least;
}

/*
 * Whether a cut is not worth its time: its estimate, which is of cycles, is far from the least. By
 * energy, the cut of a slower mode can be the better one.
 */
static bool is_far(const struct search *s, const struct rvl_chain *c, uint64_t least)
{
	return s->be->opt->measure == RIVULET_BY_CYCLES && c->cost * 100 > least * NEAR;
}

static int try_chain(struct search *s, uint32_t first, uint32_t n)
{
	struct rvl_chain_cuts cuts = { .cut = s->cut, .most = TIMED }, parts = { .most = PARTS };
	struct rvl_chain alone = forms_of(s, first, n, false), fast = forms_of(s, first, n, true);
	uint32_t found;
	uint64_t least;
	int rc = 0;

	rvl_chain_search(s->be->board, &alone, &cuts);
	if (!same_forms(&alone, &fast))
		rvl_chain_search(s->be->board, &fast, &cuts);
	parts.cut = s->cut + cuts.n;
	rvl_chain_search_parts(s->be->board, &fast, &parts);
	found = cuts.n + parts.n;
	least = least_of(s->cut, found);
	for (uint32_t i = 0; i < found && !rc; i++) {
		uint64_t cost;

		if (is_far(s, &s->cut[i], least))
			continue;
		rc = cost_behind(s, &s->cut[i], first, &cost);
		if (!rc && cost != RVL_TOO_LONG)
			offer(s, &s->cut[i], first, cost);
	}
	return rc;
}

/* ---- decisions ---- */

static int try_single(struct search *s, uint32_t i)
{
	struct rvl_chain c = { .n = 1, .l = { *s->l[i] } };
	uint64_t cost;
	int rc = rvl_cost_layers(s->be, s->l + i, 1, &s->before[i]);

	if (!rc)
		rc = cost_behind(s, &c, i, &cost);
	if (!rc)
		offer(s, &c, i, rvl_min(cost, RVL_TOO_LONG / 1024));
	return rc;
}

/* All cascades that begin with layer @first. */
static int try_from(struct search *s, uint32_t first)
{
	int rc = try_single(s, first);

	for (uint32_t n = 2; n <= RVL_CHAIN && first + n <= s->n && !rc; n++) {
		if (!s->l[first]->mode ||
		    !rvl_linked(s->l[first + n - 2], s->l[first + n - 1]))
			break;
		rc = try_chain(s, first, n);
	}
	return rc;
}

/* Makes the layers those of the best division; returns the values that stay in INP. */
static int take_best(struct search *s, uint32_t *taken)
{
	for (uint32_t end = s->n; end; end = s->best[end].first) {
		const struct division *d = &s->best[end];
		struct rvl_ring *ring;

		if (d->c.n == 1)
			continue;
		ring = rvl_arena_array(s->be->g->arena, d->c.n, sizeof(*ring));
		if (!ring)
			return -ENOMEM;
		rvl_chain_use(&d->c, s->l + d->first, ring);
		for (uint32_t i = 0; i < d->c.n; i++)
			rvl_note_form(s->l[d->first + i]);
		*taken += d->c.n - 1;
	}
	return 0;
}

/* @form: room for the forms of a layer. */
static void find_fastest(struct search *s, uint32_t i, struct rvl_layer *form)
{
	struct rvl_layer lowered = *s->l[i];
	uint32_t n;

	rvl_choice_use(&lowered, &s->be->lowered[s->l - s->be->layer + i]);
	n = lowered.mode ? rvl_forms(s->be, &lowered, form) : 0;
	s->fast[i] = *s->l[i];
	for (uint32_t k = 0; k < n; k++)
		if (rvl_array_time(s->be->board, &form[k]) < rvl_array_time(s->be->board, &s->fast[i]))
			s->fast[i] = form[k];
	s->fast[i].early = s->l[i]->early;
}

static int search_step(struct search *s, uint32_t *taken)
{
	struct rvl_layer *form = calloc(rvl_forms_most(), sizeof(*form));
	int rc = form ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < s->n && !rc; i++) {
		find_fastest(s, i, form);
		s->best[i + 1].cost = UINT64_MAX;
	}
	free(form);
	for (uint32_t i = 0; i < s->n && !rc; i++)
		rc = try_from(s, i);
	return rc ? rc : take_best(s, taken);
}

/* The cascades among @n layers from @l on. */
static int chains_of(struct rvl_backend *be, struct rvl_layer **l, uint32_t n, uint32_t *taken)
{
	struct search *s = calloc(1, sizeof(*s));
	int rc = -ENOMEM;

	if (!s)
		return rc;
	s->be = be;
	s->l = l;
	s->n = n;
	s->fast = rvl_scratch(be->g->arena, n, sizeof(*s->fast));
	s->best = rvl_scratch(be->g->arena, n + 1, sizeof(*s->best));
	s->before = calloc(n, sizeof(*s->before));
	if (s->fast && s->best && s->before)
		rc = search_step(s, taken);
	rvl_scratch_free(s->fast);
	rvl_scratch_free(s->best);
	free(s->before);
	free(s);
	return rc;
}

/* Time and bytes of a step whose weights load ahead as they would. */
static int time_step(struct rvl_backend *be, struct rvl_layer **l, uint32_t n,
		     struct rivulet_explain_segment *seg)
{
	int rc = rvl_prefetch_layers(be, l, n);

	return rc ? rc : rvl_time_layers(be, l, n, seg);
}

static void count_bytes(struct rvl_backend *be, const struct rivulet_explain_segment *with,
			const struct rivulet_explain_segment *without)
{
	if (without->cycles != RVL_TOO_LONG)
		be->cascade_bytes += (int64_t)(without->read_bytes + without->write_bytes) -
				     (int64_t)(with->read_bytes + with->write_bytes);
}

/*
 * Time and bytes of a step without cascades, whose weights load ahead as they would. Where the step
 * would cost more than @most even if no layer waited for its weights, they do not.
 */
static int time_plain(struct rvl_backend *be, struct rvl_layer **l, uint32_t n, uint64_t most,
		      struct rivulet_explain_segment *seg)
{
	struct rivulet_explain_segment ahead;
	int rc;

	for (uint32_t i = 0; i < n; i++)
		l[i]->ahead = 0;
	rc = rvl_time_layers(be, l, n, seg);
	ahead = *seg;
	ahead.cycles -= rvl_min(ahead.layer_wait, ahead.cycles);
	if (rc || (seg->cycles != RVL_TOO_LONG && rvl_segment_cost(be, &ahead) > most))
		return rc;
	return time_step(be, l, n, seg);
}

/* Without a cascade the layers are as they were. Their weights load ahead as they were timed. */
static int compare_step(struct rvl_backend *be, struct rvl_bstep *step,
			const struct rvl_choice *before)
{
	struct rvl_layer **l = be->layer + step->layer0;
	struct rivulet_explain_segment with = { 0 }, without = { 0 };
	struct rvl_choice *cascades = rvl_scratch(be->g->arena, step->layers, sizeof(*cascades));
	int rc = cascades ? time_step(be, l, step->layers, &with) : -ENOMEM;

	if (!rc) {
		rvl_choices_of(l, step->layers, cascades);
		rvl_choices_use(l, step->layers, before);
	}
	if (!rc)
		rc = time_plain(be, l, step->layers, rvl_segment_cost(be, &with), &without);
	if (!rc && rvl_segment_cost(be, &with) < rvl_segment_cost(be, &without)) {
		rvl_choices_use(l, step->layers, cascades);
		count_bytes(be, &with, &without);
	}
	rvl_scratch_free(cascades);
	return rc;
}

/* The layers of a step as they are tried, and the least cost so far. */
struct trial {
	struct rvl_layer **l;
	uint32_t n;
	const struct rvl_choice *alone; /* without cascades */
	struct rivulet_explain_segment least;
};

/* Divides the layers again and keeps values; *better where they cost less than the least so far. */
static int try_keep(struct rvl_backend *be, struct trial *t, struct rvl_keep *keep, bool *better)
{
	struct rivulet_explain_segment seg = { 0 };
	int rc = rvl_keep_values(be, t->l, t->alone, t->n, keep);

	*better = false;
	if (rc || !keep->changes)
		return rc;
	rc = time_step(be, t->l, t->n, &seg);
	*better = !rc && rvl_segment_cost(be, &seg) < rvl_segment_cost(be, &t->least);
	if (*better)
		t->least = seg;
	return rc;
}

/* Tries it again from @before on, without results that take the places of operands. */
static int try_without(struct rvl_backend *be, struct trial *t, const struct rvl_choice *before)
{
	struct rvl_keep without = { .operands = false };
	struct rvl_choice *with = rvl_scratch(be->g->arena, t->n, sizeof(*with));
	bool better = false;
	int rc = with ? 0 : -ENOMEM;

	if (!rc) {
		rvl_choices_of(t->l, t->n, with);
		rvl_choices_use(t->l, t->n, before);
		rc = try_keep(be, t, &without, &better);
	}
	if (!rc && !better)
		rvl_choices_use(t->l, t->n, with);
	rvl_scratch_free(with);
	return rc;
}

/*
 * Divides the layers again and keeps values in INP, if the step as a whole costs less for it. A value is
 * kept where the layers around it cost less, which can take the room of a better one later: the step
 * decides whether results take the places of operands.
 */
static int keep_values(struct rvl_backend *be, struct rvl_bstep *step, const struct rvl_choice *alone)
{
	struct rvl_keep with = { .operands = true };
	uint32_t n = step->layers;
	struct trial t = { .l = be->layer + step->layer0, .n = n, .alone = alone };
	struct rvl_choice *before = rvl_scratch(be->g->arena, n, sizeof(*before));
	struct rivulet_explain_segment first = { 0 };
	bool better = false;
	int rc = before ? rvl_time_layers(be, t.l, n, &first) : -ENOMEM;

	t.least = first;
	if (!rc) {
		rvl_choices_of(t.l, n, before);
		rc = try_keep(be, &t, &with, &better);
	}
	if (!rc && !better)
		rvl_choices_use(t.l, n, before);
	if (!rc && with.taken)
		rc = try_without(be, &t, before);
	if (!rc)
		count_bytes(be, &t.least, &first);
	rvl_scratch_free(before);
	return rc;
}

static int cascade_step(struct rvl_backend *be, struct rvl_bstep *step)
{
	struct rvl_layer **l = be->layer + step->layer0;
	struct rvl_choice *before = rvl_scratch(be->g->arena, step->layers, sizeof(*before));
	uint32_t taken = 0;
	int rc = before ? 0 : -ENOMEM;

	if (!rc)
		rvl_choices_of(l, step->layers, before);
	for (uint32_t i = 0; i < step->layers && !rc; i += SEARCHED)
		rc = chains_of(be, l + i, (uint32_t)rvl_min(step->layers - i, SEARCHED), &taken);
	if (!rc)
		rc = taken ? compare_step(be, step, before) :
			     rvl_prefetch_layers(be, l, step->layers);
	if (!rc)
		rc = keep_values(be, step, before);
	if (!rc)
		rc = rvl_refine(be, l, step->layers);
	rvl_scratch_free(before);
	return rc;
}

static void note(struct rvl_backend *be, struct rvl_layer *l, const char *what)
{
	l->note = l->note ? rvl_graph_printf(be->g, "%s; %s", l->note, what) : what;
}

void rvl_note_cascades(struct rvl_backend *be)
{
	for (uint32_t i = 0; i < be->n_layers; i++) {
		struct rvl_layer *l = be->layer[i];

		be->cascades += !!l->to;
		if (l->from && l->from->kept)
			note(be, l, "operand kept in INP");
		if (l->b_from)
			note(be, l, "second operand kept in INP");
		if (rvl_continues(l))
			note(be, l, "result stays in INP");
		else if (rvl_takes_blocks(l))
			note(be, l, "operand stays in INP, taken by blocks");
		else if (rvl_takes_taps(l))
			note(be, l, "operand stays in INP, taken by rows");
		else if (rvl_continued(l))
			note(be, l, "operand stays in INP");
		if (l->to && l->to->kept)
			note(be, l, "result kept in INP");
	}
}

int rvl_cascade(struct rvl_backend *be, struct rvl_bstep *step)
{
	/* With stochastic layers there is no cascade, for the reason that rvl_decide() has. */
	if (!be->opt->no_cascade && !be->opt->stochastic && be->board)
		return cascade_step(be, step);
	return rvl_prefetch_layers(be, be->layer + step->layer0, step->layers);
}

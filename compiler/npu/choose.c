/* SPDX-License-Identifier: MIT */
/*
 * Choices by the device's timeline: the mode of a layer, whether patches are gathered, and the cut.
 * The tiler's estimate knows engines, port and latency, but not the schedule; where several
 * candidates are near, their streams are timed.
 */
#include "npu/backend.h"
#include "npu/memo.h"
#include "npu/stream.h"

#include <errno.h>
#include <stdlib.h>

#define TIMED	6   /* cuts of one form of a layer */
#define NEAR	200 /* per cent of the least estimate; what is above it is not timed */

static int time_stream(struct rvl_backend *be, struct rvl_stream *s,
		       struct rivulet_explain_segment *seg)
{
	struct rivulet_insn *code = malloc((s->n + 1) * sizeof(*code));
	uint32_t *layer = malloc((s->n + 1) * sizeof(*layer));
	int rc = code && layer ? rvl_stream_code(s, code) : -ENOMEM;

	for (uint32_t i = 0; layer && i <= s->n; i++)
		layer[i] = i < s->n ? s->op[i].layer : RVL_NONE;
	if (!rc)
		rc = rvl_estimate_stream(be->board, code, (s->n + 1) * sizeof(*code), layer, NULL,
					 seg, be->err);
	free(code);
	free(layer);
	return rc;
}

/* Times the stream; seg->cycles is RVL_TOO_LONG where it is too long. */
static int time_stream_of(struct rvl_backend *be, struct rvl_layer *const *l, uint32_t n,
			  struct rivulet_explain_segment *seg)
{
	struct rvl_err trial = { "" };
	struct rvl_stream s;
	int rc;

	rvl_stream_init(&s, be->board, false, &trial);
	s.arena = be->g->arena;
	s.variant = be->n_variants - 1;
	s.length = be->length[s.variant];
	if (be->opt->most_instructions)
		s.most = be->opt->most_instructions;
	rvl_segment_emit(&s, l, n, 0);
	rc = s.rc;
	if (rc == -E2BIG) {
		seg->cycles = RVL_TOO_LONG;
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

/* A time that is kept does not depend on the modes of the board, from which some are excluded in turn. */
static int check_modes(const struct rvl_backend *be, struct rvl_layer *const *l, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (l[i]->mode && rvl_mode_missing(be->board, l[i]->mode))
			return rvl_fail(be->err, -EINVAL, "internal: a layer in an excluded mode (%s)",
					l[i]->mode->name);
	return 0;
}

int rvl_time_layers(struct rvl_backend *be, struct rvl_layer *const *l, uint32_t n,
		    struct rivulet_explain_segment *seg)
{
	const struct rivulet_explain_segment *found;
	struct rvl_memo_key key;
	int rc = check_modes(be, l, n);

	if (rc)
		return rc;
	if (!be->memo)
		be->memo = rvl_memo_new(be->g->n_tensors);
	rc = be->memo ? rvl_memo_key(be->memo, l, n, &key) : -ENOMEM;
	if (rc)
		return rc;
	found = rvl_memo_find(be->memo, &key);
	if (found) {
		*seg = *found;
		return 0;
	}
	*seg = (struct rivulet_explain_segment){ 0 };
	rc = time_stream_of(be, l, n, seg);
	if (!rc)
		rvl_memo_keep(be->memo, &key, seg);
	return rc;
}

int rvl_cost_layers(struct rvl_backend *be, struct rvl_layer *const *l, uint32_t n, uint64_t *cost)
{
	struct rivulet_explain_segment seg = { 0 };
	int rc = rvl_time_layers(be, l, n, &seg);

	*cost = rvl_segment_cost(be, &seg);
	return rc;
}

/* A candidate for a layer: a mode, its form of the product, gathered or not, and a cut. */
struct candidate {
	const struct rvl_mode *mode;
	struct rvl_product p;
	struct rvl_tiling t;
	uint64_t least; /* estimate of its form */
};

struct candidates {
	struct candidate *c;
	uint32_t n;
	uint64_t least; /* estimate */
};

void rvl_note_form(struct rvl_layer *l)
{
	l->note = l->p.gather ? "patches gathered" : NULL;
}

static void use(struct rvl_layer *l, const struct candidate *c)
{
	l->mode = c->mode;
	l->p = c->p;
	l->t = c->t;
	rvl_note_form(l);
}

static void add_cuts(const struct rivulet_board *b, struct rvl_layer *l, struct candidates *c)
{
	struct rvl_tiling cut[TIMED];
	uint32_t n = rvl_cuts(b, l, NULL, cut, TIMED);

	for (uint32_t i = 0; i < n; i++) {
		c->c[c->n++] = (struct candidate){ .mode = l->mode, .p = l->p, .t = cut[i], .least = cut[0].cost };
		if (cut[i].cost < c->least)
			c->least = cut[i].cost;
	}
}

/* The form @f, and the one that gathers where @f does not or the other way round. */
static uint32_t add_forms(const struct rvl_backend *be, const struct rvl_layer *f,
			  struct rvl_layer *form)
{
	form[0] = *f;
	if (f->in.s->blocked || !rvl_can_gather(be, f))
		return 1;
	form[1] = *f;
	form[1].p.gather = !f->p.gather;
	return 2;
}

uint32_t rvl_forms(struct rvl_backend *be, const struct rvl_layer *l, struct rvl_layer *form)
{
	uint32_t n = add_forms(be, l, form);
	const struct rvl_mode *mode;

	if (l->mode != rvl_mode_of(l->node)) /* the board lacks that mode */
		return n;
	for (uint32_t i = 0; (mode = rvl_mode_number(i)); i++) {
		struct rvl_layer f = *l;

		f.p.gather = false;
		if (mode != l->mode && rvl_mode_replaces(be->g, be->board, mode, &f))
			n += add_forms(be, &f, form + n);
	}
	return n;
}

uint32_t rvl_forms_most(void)
{
	uint32_t modes = 0;

	while (rvl_mode_number(modes))
		modes++;
	return modes * 2;
}

/* Makes @o the first of the contest, or the second if no other offer of its mode is better. */
static void enter(struct rvl_backend *be, struct rvl_contest *c, const struct rvl_offer *o, bool best)
{
	bool energy = be->opt->measure == RIVULET_BY_ENERGY;

	if (best) {
		if (c->first.mode && c->first.mode != o->mode)
			c->second = c->first;
		c->first = *o;
		return;
	}
	if (o->mode != c->first.mode &&
	    (!c->second.mode || (energy ? o->joule < c->second.joule : o->cycles < c->second.cycles)))
		c->second = *o;
}

/* Whether a candidate is not worth its time: its estimate, which is of cycles, is far from the least. */
static bool is_far(const struct rvl_backend *be, const struct candidates *c, const struct candidate *k)
{
	/* By energy, a slower mode can be the better one, but not a slower cut of it. */
	uint64_t least = be->opt->measure == RIVULET_BY_ENERGY ? k->least : c->least;

	return k->t.cost * 100 > least * NEAR;
}

/*
 * The best candidate by the measure. The layer is timed behind the one before it, beside which its
 * weights load; @before is 0 or 1.
 */
static int time_candidates(struct rvl_backend *be, struct rvl_layer **at, uint32_t before,
			   const struct candidates *c, struct rvl_contest *contest, uint32_t *best)
{
	struct rivulet_explain_segment least = { .cycles = RVL_TOO_LONG };
	int rc = 0;

	for (uint32_t i = 0; i < c->n && !rc; i++) {
		struct rivulet_explain_segment seg = { 0 };
		struct rvl_offer o = { .mode = c->c[i].mode };
		bool better;

		if (is_far(be, c, &c->c[i]))
			continue;
		use(*at, &c->c[i]);
		rc = rvl_time_layers(be, at - before, 1 + before, &seg);
		if (rc || seg.cycles == RVL_TOO_LONG)
			continue;
		o.cycles = seg.cycles;
		o.joule = rvl_segment_joule(be, &seg);
		better = least.cycles == RVL_TOO_LONG || rvl_segment_better(be, &seg, &least);
		enter(be, contest, &o, better);
		if (!better)
			continue;
		least = seg;
		*best = i;
	}
	return rc;
}

static int choose_candidate(struct rvl_backend *be, struct rvl_layer **at, uint32_t before)
{
	struct rvl_contest *contest = rvl_arena_alloc(be->g->arena, sizeof(*contest));
	uint32_t forms = rvl_forms_most(), best = 0;
	struct rvl_layer *form = calloc(forms, sizeof(*form));
	struct candidates c = { .c = calloc(forms * TIMED, sizeof(*c.c)), .least = UINT64_MAX };
	int rc = c.c && form && contest ? 0 : -ENOMEM;

	if (!rc) {
		*contest = (struct rvl_contest){ 0 };
		forms = rvl_forms(be, *at, form);
		for (uint32_t i = 0; i < forms; i++)
			add_cuts(be->board, &form[i], &c);
		rc = time_candidates(be, at, before, &c, contest, &best);
		use(*at, &c.c[best]);
		(*at)->contest = contest;
	}
	free(form);
	free(c.c);
	return rc;
}

int rvl_choose_layers(struct rvl_backend *be, const struct rvl_bstep *step)
{
	int rc = 0;

	for (uint32_t j = 0; j < step->layers && !rc; j++)
		if (be->layer[step->layer0 + j]->mode)
			rc = choose_candidate(be, be->layer + step->layer0 + j, j > 0);
	return rc;
}

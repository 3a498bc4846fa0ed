/* SPDX-License-Identifier: MIT */
/*
 * Decides the layers of each step. Modes are chosen layer by layer, and cascades afterwards, so
 * that a mode that is the best one for a layer alone can keep it out of a cascade, or change its
 * neighbours' cuts. Where the board has rivals, a step is therefore decided again without these,
 * and the better one of both is kept: it never costs more than without the rivals. One that a layer
 * cannot be without is no rival.
 *
 * A step of few layers in which the array waits is also decided with weights that load early in all that is
 * timed, and without each mode that its layers have in place of their own.
 */
#include "npu/backend.h"
#include "npu/choice.h"
#include "npu/mode.h"

#include <errno.h>
#include <stdlib.h>

#define FEW	    16 /* layers of a step that is decided again with weights that load early */
#define QUICK	    (1 << 17) /* instructions of a step, once for each layer: it is always decided again */
#define EARLY_SHARE 512 /* of the cycles of another step: what may load early must be one of so many or more */

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

/* What a step was decided to be. */
struct decision {
	struct rvl_choice *c; /* of its layers, once leave() has taken them */
	struct rivulet_explain_segment seg;
	int64_t cascade_bytes;
};

static void set_early(struct rvl_backend *be, const struct rvl_bstep *step, bool early)
{
	for (uint32_t i = 0; i < step->layers; i++)
		be->layer[step->layer0 + i]->early = early;
}

/* @early: weights load early in all that is timed, else only where the step as a whole gains by it. */
static int decide_with(struct rvl_backend *be, struct rvl_bstep *step, bool early, struct decision *d)
{
	int64_t bytes = be->cascade_bytes;
	int rc = rvl_choose_layers(be, step);

	if (early)
		set_early(be, step, true);
	if (!rc)
		rc = rvl_cascade(be, step);
	if (!rc)
		rc = rvl_time_layers(be, be->layer + step->layer0, step->layers, &d->seg);
	if (!rc && !early)
		rc = rvl_load_early(be, be->layer + step->layer0, step->layers, &d->seg);
	d->cascade_bytes = be->cascade_bytes - bytes;
	be->cascade_bytes = bytes;
	return rc;
}

/* Keeps the choices of @d, and makes the layers what they were before. */
static int leave(struct rvl_backend *be, const struct rvl_bstep *step, struct decision *d)
{
	struct rvl_layer **l = be->layer + step->layer0;

	d->c = rvl_scratch(be->g->arena, step->layers, sizeof(*d->c));
	if (!d->c)
		return -ENOMEM;
	rvl_choices_of(l, step->layers, d->c);
	rvl_choices_use(l, step->layers, be->lowered + step->layer0);
	return 0;
}

/*
 * Whether a step is decided again for weights that load early: it has few layers and the array waits. Each layer
 * is tried with the whole step. Where that takes long, the weights have to be many beside the cycles of the step:
 * while layers before compute, they lie in WGT, at most so many words for each layer, of which the port loads
 * one in a cycle.
 */
static bool may_gain(const struct rvl_backend *be, const struct rvl_bstep *step,
		     const struct rivulet_explain_segment *seg)
{
	uint64_t words = (uint64_t)step->layers * rvl_wgt_words(be->board);

	return step->layers <= FEW && rvl_idles(be, seg) &&
	       ((uint64_t)step->layers * seg->instructions <= QUICK || seg->cycles == RVL_TOO_LONG ||
		words * EARLY_SHARE >= seg->cycles);
}

/*
 * Decides a step of few layers again with weights that load early. They load beside any layer before, so that
 * all that is tried is timed with the whole step, which takes long for many layers.
 */
static int decide_early(struct rvl_backend *be, struct rvl_bstep *step, struct decision *d)
{
	struct decision early = { 0 };
	int rc;

	if (!may_gain(be, step, &d->seg))
		return 0;
	rc = leave(be, step, d);
	if (!rc)
		rc = decide_with(be, step, true, &early);
	if (!rc && rvl_segment_better(be, &early.seg, &d->seg)) {
		d->seg = early.seg;
		d->cascade_bytes = early.cascade_bytes;
	} else if (!rc) {
		rvl_choices_use(be->layer + step->layer0, step->layers, d->c);
	}
	rvl_scratch_free(d->c);
	d->c = NULL;
	return rc;
}

static int decide_step(struct rvl_backend *be, struct rvl_bstep *step, struct decision *d)
{
	int rc = decide_with(be, step, false, d);

	return rc ? rc : decide_early(be, step, d);
}

/*
 * Bits of the modes that layers were lowered to. Such a layer cannot be without its mode: either this is its own,
 * or the board lacks its own, or no tile fits in its own.
 */
static uint32_t lowered_modes(const struct rvl_backend *be, const struct rvl_bstep *step)
{
	uint32_t modes = 0;

	for (uint32_t i = step->layer0; i < step->layer0 + step->layers; i++)
		if (be->lowered[i].mode)
			modes |= 1u << be->lowered[i].mode->isa;
	return modes;
}

/*
 * Bits of the rivals that the layers could have, also where none has one: they were candidates for
 * the cuts of cascades.
 */
static uint32_t rivals_of(const struct rvl_backend *be, const struct rvl_bstep *step)
{
	uint32_t lowered = lowered_modes(be, step), rivals = 0;
	const struct rvl_mode *mode;

	if (!lowered) /* there is no product */
		return 0;
	for (uint32_t i = 0; (mode = rvl_mode_number(i)); i++)
		if (mode->rival && !rvl_mode_missing(be->board, mode))
			rivals |= 1u << mode->isa;
	return rivals & ~lowered;
}

/* Decides the step again without the modes @rivals, and keeps that if it is better than @with. */
static int decide_without(struct rvl_backend *be, struct rvl_bstep *step, uint32_t rivals,
			  struct decision *with)
{
	struct rvl_layer **l = be->layer + step->layer0;
	uint32_t modes = be->target.modes;
	struct decision without = { 0 };
	int rc = leave(be, step, with);

	if (rc)
		return rc;
	be->target.modes &= ~rivals;
	rc = decide_step(be, step, &without);
	be->target.modes = modes;
	if (rc)
		return rc;
	if (rvl_segment_better(be, &without.seg, &with->seg)) {
		for (uint32_t i = 0; i < step->layers; i++)
			l[i]->contest = with->c[i].contest; /* which the rivals were in */
		with->seg = without.seg;
		with->cascade_bytes = without.cascade_bytes;
	} else {
		rvl_choices_use(l, step->layers, with->c);
	}
	return 0;
}

/*
 * Decides a step of few layers again without each mode that its layers have: the fastest form of a layer alone
 * can be the worse one where weights load early.
 */
static int decide_each(struct rvl_backend *be, struct rvl_bstep *step, struct decision *with)
{
	struct rvl_layer **l = be->layer + step->layer0;
	uint32_t tried = lowered_modes(be, step);
	int rc = 0;

	if (!may_gain(be, step, &with->seg))
		return 0;
	for (uint32_t i = 0; i < step->layers && !rc; i++) {
		uint32_t mode = l[i]->mode ? 1u << l[i]->mode->isa : 0;

		if (!mode || tried & mode)
			continue;
		tried |= mode;
		rc = decide_without(be, step, mode, with);
		rvl_scratch_free(with->c);
		with->c = NULL;
	}
	return rc;
}

static int decide_both(struct rvl_backend *be, struct rvl_bstep *step)
{
	struct decision with = { 0 };
	int rc = decide_step(be, step, &with);
	uint32_t rivals = rc ? 0 : rivals_of(be, step);

	if (!rc && rivals)
		rc = decide_without(be, step, rivals, &with);
	rvl_scratch_free(with.c);
	with.c = NULL;
	if (!rc)
		rc = decide_each(be, step, &with);
	rvl_scratch_free(with.c);
	be->cascade_bytes += rc ? 0 : with.cascade_bytes;
	return rc;
}

int rvl_decide(struct rvl_backend *be)
{
	int rc = 0;

	/*
	 * A plan predicts the time of a length from a program that has other lengths, too: what all
	 * variants share must not depend on the lengths. Stochastic layers are as they were
	 * lowered.
	 */
	if (!be->opt->stochastic) {
		be->lowered = rvl_arena_array(be->g->arena, be->n_layers, sizeof(*be->lowered));
		if (!be->lowered)
			return rvl_fail(be->err, -ENOMEM, "no memory for layers");
		rvl_choices_of(be->layer, be->n_layers, be->lowered);
		place_apart(be);
	}
	for (uint32_t i = 0; i < be->n_steps && !rc; i++)
		if (be->step[i].npu)
			rc = be->opt->stochastic ? rvl_cascade(be, &be->step[i]) :
						   decide_both(be, &be->step[i]);
	if (!rc)
		rvl_note_cascades(be);
	return rc;
}

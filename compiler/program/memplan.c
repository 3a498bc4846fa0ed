/* SPDX-License-Identifier: MIT */
/*
 * Offsets of values in the arena. Two values may share bytes if the last use of the first precedes
 * the first use of the second in every order that the runtime may choose. That holds if every step
 * that touches the first value is an ancestor, by data, of the step that makes the second, or if
 * both belong to one NPU step, whose tokens keep its layers in order. Values are placed by size,
 * the largest first. Each gets the lowest offset at which it overlaps no value that may be live at
 * the same time.
 */
#include "program/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PLANNED 4096 /* stores or steps; if there are more, no bytes are shared */

/* The use of a store by one step: layers [first, last] of the step. */
struct use {
	uint32_t step, first, last;
};

struct life {
	struct rvl_store *s;
	struct use *use;
	uint32_t n, cap;
	uint32_t order; /* stable sort */
};

struct plan {
	struct rvl_backend *be;
	struct life *life;
	uint32_t n;
	uint64_t *ancestors; /* bitset of words per step; NULL: nothing is shared */
	size_t words;
};

static void plan_free(struct plan *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		free(p->life[i].use);
	free(p->life);
	free(p->ancestors);
}

static bool planned(const struct rvl_store *s)
{
	return s && s->used && s->place == RIVULET_PLACE_ARENA;
}

static struct life *life_of(struct plan *p, const struct rvl_store *s)
{
	return s->plan < p->n && p->life[s->plan].s == s ? &p->life[s->plan] : NULL;
}

static int note_use(struct plan *p, const struct rvl_store *s, uint32_t step, uint32_t layer)
{
	struct life *l = planned(s) ? life_of(p, s) : NULL;

	if (!l)
		return 0;
	if (l->n && l->use[l->n - 1].step == step) {
		l->use[l->n - 1].last = rvl_max(l->use[l->n - 1].last, layer);
		return 0;
	}
	if (l->n == l->cap) {
		uint32_t cap = l->cap ? 2 * l->cap : 4;
		struct use *u = realloc(l->use, cap * sizeof(*u));

		if (!u)
			return -ENOMEM;
		l->use = u;
		l->cap = cap;
	}
	l->use[l->n++] = (struct use){ step, layer, layer };
	return 0;
}

static int collect_stores(struct plan *p)
{
	const struct rvl_graph *g = p->be->g;

	p->life = calloc(g->n_tensors + 1, sizeof(*p->life));
	if (!p->life)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		struct rvl_store *s = p->be->store[i];

		if (!planned(s) || s->root->id != i)
			continue;
		s->plan = p->n;
		p->life[p->n].order = p->n;
		p->life[p->n++].s = s;
	}
	return 0;
}

/* Extends @first and @last to the layers of the cascade that they belong to. */
static void cascade_of(const struct rvl_backend *be, const struct rvl_bstep *s, uint32_t *first,
		       uint32_t *last)
{
	while (be->layer[s->layer0 + *first]->from)
		--*first;
	while (be->layer[s->layer0 + *last]->to)
		++*last;
}

static int note_layer(struct plan *p, const struct rvl_layer *l, uint32_t step, uint32_t turn)
{
	int rc = note_use(p, l->in.s, step, turn);

	if (!rc && l->has_b)
		rc = note_use(p, l->b.s, step, turn);
	return rc ? rc : note_use(p, l->out.s, step, turn);
}

/*
 * Layers of a cascade run at the same time, so each uses its operands from the first to the last
 * layer.
 */
static int use_layers(struct plan *p, uint32_t step)
{
	const struct rvl_bstep *s = &p->be->step[step];
	int rc = 0;

	for (uint32_t i = 0; i < s->layers && !rc; i++) {
		const struct rvl_layer *l = p->be->layer[s->layer0 + i];
		uint32_t first = i, last = i;

		cascade_of(p->be, s, &first, &last);
		rc = note_layer(p, l, step, first);
		if (!rc)
			rc = note_layer(p, l, step, last);
	}
	return rc;
}

static int collect_uses(struct plan *p)
{
	int rc = 0;

	for (uint32_t i = 0; i < p->be->n_steps && !rc; i++) {
		const struct rvl_bstep *s = &p->be->step[i];

		rc = use_layers(p, i);
		for (uint32_t j = 0; j < s->nread && !rc; j++)
			rc = note_use(p, p->be->store[s->read[j]->id], i, s->layers);
		for (uint32_t j = 0; j < s->nwrite && !rc; j++)
			rc = note_use(p, p->be->store[s->write[j]->id], i, s->layers);
	}
	return rc;
}

/* Bit a of row s is set if step s depends on step a. */
static int collect_ancestors(struct plan *p)
{
	struct rvl_backend *be = p->be;
	uint32_t *writer;

	p->words = (be->n_steps + 63) / 64;
	if (be->n_steps > MAX_PLANNED || p->n > MAX_PLANNED)
		return 0;
	p->ancestors = calloc(p->words * be->n_steps + 1, sizeof(*p->ancestors));
	writer = malloc((be->g->n_tensors + 1) * sizeof(*writer));
	if (!p->ancestors || !writer) {
		free(writer);
		return -ENOMEM;
	}
	memset(writer, 0xff, (be->g->n_tensors + 1) * sizeof(*writer));
	for (uint32_t i = 0; i < be->n_steps; i++) {
		const struct rvl_bstep *s = &be->step[i];
		uint64_t *row = p->ancestors + i * p->words;

		for (uint32_t j = 0; j < s->nread; j++) {
			uint32_t w = writer[s->read[j]->id];

			if (w == RVL_NONE)
				continue;
			for (size_t k = 0; k < p->words; k++)
				row[k] |= p->ancestors[w * p->words + k];
			row[w / 64] |= UINT64_C(1) << w % 64;
		}
		for (uint32_t j = 0; j < s->nwrite; j++)
			writer[s->write[j]->id] = i;
	}
	free(writer);
	return 0;
}

static bool is_ancestor(const struct plan *p, uint32_t a, uint32_t of)
{
	return p->ancestors[of * p->words + a / 64] >> a % 64 & 1;
}

/* Whether every use of @a ends before @b is first written. */
static bool dies_before(const struct plan *p, const struct life *a, const struct life *b)
{
	const struct use *born = &b->use[0];

	if (!a->n || !b->n || !p->ancestors)
		return false;
	for (uint32_t i = 0; i < a->n; i++) {
		const struct use *u = &a->use[i];

		if (u->step == born->step ? u->last >= born->first :
					    !is_ancestor(p, u->step, born->step))
			return false;
	}
	return true;
}

static bool may_meet(const struct plan *p, const struct life *a, const struct life *b)
{
	return !dies_before(p, a, b) && !dies_before(p, b, a);
}

static int by_size(const void *x, const void *y)
{
	const struct life *a = x, *b = y;

	if (a->s->size != b->s->size)
		return a->s->size > b->s->size ? -1 : 1;
	return (a->order > b->order) - (a->order < b->order);
}

static uint64_t padded(uint64_t bytes)
{
	return (bytes + RIVULET_PROGRAM_ALIGN - 1) / RIVULET_PROGRAM_ALIGN * RIVULET_PROGRAM_ALIGN;
}

/*
 * The first gap that holds @l among the values of lower index that are placed; @placed sorts them
 * by offset.
 */
static uint64_t first_fit(const struct plan *p, uint32_t index, uint32_t *placed)
{
	const struct life *l = &p->life[index];
	uint64_t at = 0;

	for (uint32_t i = 0; i < index; i++) {
		const struct life *o = &p->life[placed[i]];

		if (!may_meet(p, l, o))
			continue;
		if (o->s->offset >= at + padded(l->s->size))
			break;
		at = rvl_max(at, o->s->offset + padded(o->s->size));
	}
	return at;
}

static void insert(const struct plan *p, uint32_t *placed, uint32_t index)
{
	uint32_t i = index;

	while (i && p->life[placed[i - 1]].s->offset > p->life[index].s->offset) {
		placed[i] = placed[i - 1];
		i--;
	}
	placed[i] = index;
}

static int place_all(struct plan *p)
{
	uint32_t *placed = malloc((p->n + 1) * sizeof(*placed));

	if (!placed)
		return -ENOMEM;
	qsort(p->life, p->n, sizeof(*p->life), by_size);
	for (uint32_t i = 0; i < p->n; i++) {
		struct rvl_store *s = p->life[i].s;

		s->offset = p->ancestors ? first_fit(p, i, placed) : p->be->arena_size;
		insert(p, placed, i);
		p->be->arena_size = rvl_max(p->be->arena_size, s->offset + padded(s->size));
		if (p->be->arena_size > RIVULET_PROGRAM_MAX) {
			free(placed);
			return rvl_fail(p->be->err, -E2BIG, "activations need more than %u MiB",
					RIVULET_PROGRAM_MAX >> 20);
		}
	}
	free(placed);
	return 0;
}

static int collect(struct plan *p)
{
	int rc = collect_stores(p);

	if (!rc)
		rc = collect_uses(p);
	return rc ? rc : collect_ancestors(p);
}

int rvl_memplan(struct rvl_backend *be)
{
	struct plan p = { .be = be };
	int rc = collect(&p);

	if (!rc)
		rc = place_all(&p);
	plan_free(&p);
	return rc;
}

int rvl_memplan_check(struct rvl_backend *be)
{
	struct plan p = { .be = be };
	int rc = collect(&p);

	for (uint32_t i = 0; i < p.n && !rc && p.ancestors; i++) {
		for (uint32_t j = 0; j < i && !rc; j++) {
			const struct rvl_store *a = p.life[i].s, *b = p.life[j].s;

			if (a->offset < b->offset + b->size && b->offset < a->offset + a->size &&
			    may_meet(&p, &p.life[i], &p.life[j]))
				rc = rvl_fail(be->err, -EINVAL,
					      "internal: \"%s\" and \"%s\" share the arena",
					      a->root->name, b->root->name);
		}
	}
	plan_free(&p);
	return rc;
}

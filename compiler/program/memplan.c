/* SPDX-License-Identifier: MIT */
/*
 * Offsets in the arena. Stores are planned; a store is in use as long as any of its parts. Two
 * stores may share bytes when one is unused before the other is first written, in every order that
 * the runtime may choose: every step that uses the first is an ancestor, by data, of all steps that
 * write to the second; or both belong to one NPU step, whose tokens keep its layers in order. The
 * largest store is placed first, each at the lowest offset that is free of all stores that it may
 * meet.
 */
#include "graph/tensor_view.h"
#include "program/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PLANNED 4096 /* stores or steps; if there are more, no bytes are shared */

/* The use of a store by one step: layers [first, last] of the step. */
struct use {
	uint32_t step, first, last;
	bool writes;
};

struct life {
	struct rvl_store *s;
	struct use *use;
	uint32_t n, cap;
	uint32_t order; /* stable sort */
};

/* Bytes of a store that a step writes; a list for each store. */
struct writing {
	uint64_t lo, hi;
	uint32_t step;
	uint32_t next; /* RVL_NONE: the last */
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
	rvl_scratch_free(p->life);
	rvl_scratch_free(p->ancestors);
}

static const struct rvl_store *whole(const struct rvl_store *s)
{
	return s->base ? s->base : s;
}

static bool planned(const struct rvl_store *s)
{
	return s && whole(s)->used && s->place == RIVULET_PLACE_ARENA;
}

static struct life *life_of(struct plan *p, const struct rvl_store *s)
{
	s = whole(s);
	return s->plan < p->n && p->life[s->plan].s == s ? &p->life[s->plan] : NULL;
}

static int note_use(struct plan *p, const struct rvl_store *s, uint32_t step, uint32_t layer,
		    bool writes)
{
	struct life *l = planned(s) ? life_of(p, s) : NULL;

	if (!l)
		return 0;
	if (l->n && l->use[l->n - 1].step == step) {
		l->use[l->n - 1].last = rvl_max(l->use[l->n - 1].last, layer);
		l->use[l->n - 1].writes |= writes;
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
	l->use[l->n++] = (struct use){ step, layer, layer, writes };
	return 0;
}

static int collect_stores(struct plan *p)
{
	const struct rvl_graph *g = p->be->g;

	p->life = rvl_scratch(g->arena, g->n_tensors + 1, sizeof(*p->life));
	if (!p->life)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		struct rvl_store *s = p->be->store[i];

		if (!planned(s) || s->base || s->root->id != i)
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
	while (rvl_continued(be->layer[s->layer0 + *first]))
		--*first;
	while (rvl_continues(be->layer[s->layer0 + *last]))
		++*last;
}

static int note_layer(struct plan *p, const struct rvl_layer *l, uint32_t step, uint32_t turn)
{
	int rc = note_use(p, l->in.s, step, turn, false);

	if (!rc && l->has_b)
		rc = note_use(p, l->b.s, step, turn, false);
	if (!rc && l->has_bits)
		rc = note_use(p, l->bits.s, step, turn, true);
	return rc ? rc : note_use(p, l->out.s, step, turn, true);
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
			rc = note_use(p, p->be->store[s->read[j]->id], i, s->layers, false);
		for (uint32_t j = 0; j < s->nwrite && !rc; j++)
			rc = note_use(p, p->be->store[s->write[j]->id], i, s->layers, true);
	}
	return rc;
}

struct writings {
	struct writing *w;
	uint32_t n;
	uint32_t *head; /* by id of the store's tensor */
};

static bool meets(const struct rvl_store *s, const struct writing *w)
{
	return s->at < w->hi && w->lo < s->at + s->size;
}

/* What the steps wrote that make bytes of @s, and all that they depend on, into @row. */
static void add_writers(const struct plan *p, const struct writings *all, const struct rvl_store *s,
			uint64_t *row)
{
	for (uint32_t i = all->head[whole(s)->root->id]; i != RVL_NONE; i = all->w[i].next) {
		uint32_t w = all->w[i].step;

		if (!meets(s, &all->w[i]))
			continue;
		for (size_t k = 0; k < p->words; k++)
			row[k] |= p->ancestors[w * p->words + k];
		row[w / 64] |= UINT64_C(1) << w % 64;
	}
}

static void add_writing(struct writings *all, const struct rvl_store *s, uint32_t step)
{
	uint32_t *head = &all->head[whole(s)->root->id];

	all->w[all->n] = (struct writing){ s->at, s->at + s->size, step, *head };
	*head = all->n++;
}

static uint32_t count_writings(const struct rvl_backend *be)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < be->n_steps; i++)
		n += be->step[i].nwrite;
	return n;
}

/* Bit a of row s: step s depends on step a. */
static void fill_ancestors(struct plan *p, struct writings *all)
{
	struct rvl_backend *be = p->be;

	for (uint32_t i = 0; i < be->n_steps; i++) {
		const struct rvl_bstep *s = &be->step[i];

		for (uint32_t j = 0; j < s->nread; j++)
			add_writers(p, all, be->store[s->read[j]->id], p->ancestors + i * p->words);
		for (uint32_t j = 0; j < s->nwrite; j++)
			add_writing(all, be->store[s->write[j]->id], i);
	}
}

static int collect_ancestors(struct plan *p)
{
	struct rvl_backend *be = p->be;
	size_t heads = (be->g->n_tensors + 1) * sizeof(uint32_t);
	struct writings all = { 0 };

	p->words = (be->n_steps + 63) / 64;
	if (be->n_steps > MAX_PLANNED || p->n > MAX_PLANNED)
		return 0;
	p->ancestors = rvl_scratch(be->g->arena, p->words * be->n_steps + 1, sizeof(*p->ancestors));
	all.head = malloc(heads);
	all.w = calloc(count_writings(be) + 1, sizeof(*all.w));
	if (p->ancestors && all.head && all.w) {
		memset(all.head, 0xff, heads);
		fill_ancestors(p, &all);
	}
	free(all.head);
	free(all.w);
	return p->ancestors && all.head && all.w ? 0 : -ENOMEM;
}

static bool is_ancestor(const struct plan *p, uint32_t a, uint32_t of)
{
	return p->ancestors[of * p->words + a / 64] >> a % 64 & 1;
}

/* Every use of @a is over before a step writes to @b. */
static bool over_before(const struct plan *p, const struct life *a, const struct use *born)
{
	for (uint32_t i = 0; i < a->n; i++) {
		const struct use *u = &a->use[i];

		if (u->step == born->step ? u->last >= born->first :
					    !is_ancestor(p, u->step, born->step))
			return false;
	}
	return true;
}

/* Every use of @a is over before @b is first written, by whichever step that is. */
static bool dies_before(const struct plan *p, const struct life *a, const struct life *b)
{
	bool born = false;

	if (!a->n || !p->ancestors)
		return false;
	for (uint32_t i = 0; i < b->n; i++) {
		if (b->use[i].writes && !over_before(p, a, &b->use[i]))
			return false;
		born |= b->use[i].writes;
	}
	return born;
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
		if (p->be->arena_size > RIVULET_ARENA_MAX) {
			free(placed);
			return rvl_fail(p->be->err, -E2BIG, "activations need more than %u MiB",
					RIVULET_ARENA_MAX >> 20);
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
	int rc;

	rvl_stores_settle(be);
	rc = collect(&p);
	if (!rc)
		rc = place_all(&p);
	rvl_stores_settle(be);
	plan_free(&p);
	return rc;
}

/* ---- proof ---- */

/* No two stores whose lives may overlap share a byte. */
static int check_stores(struct plan *p)
{
	for (uint32_t i = 0; i < p->n && p->ancestors; i++) {
		for (uint32_t j = 0; j < i; j++) {
			const struct rvl_store *a = p->life[i].s, *b = p->life[j].s;

			if (a->offset < b->offset + b->size && b->offset < a->offset + a->size &&
			    may_meet(p, &p->life[i], &p->life[j]))
				return rvl_fail(p->be->err, -EINVAL,
						"internal: \"%s\" and \"%s\" share the arena",
						a->root->name, b->root->name);
		}
	}
	return 0;
}

static int by_base(const void *x, const void *y)
{
	const struct rvl_store *a = *(const struct rvl_store *const *)x;
	const struct rvl_store *b = *(const struct rvl_store *const *)y;

	if (whole(a) != whole(b))
		return whole(a)->root->id < whole(b)->root->id ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

/* Adds the stores into which steps and layers write, each once for each. */
static uint32_t list_written(const struct rvl_backend *be, const struct rvl_store **list)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < be->n_steps; i++)
		for (uint32_t j = 0; !be->step[i].npu && j < be->step[i].nwrite; j++)
			list[n++] = be->store[be->step[i].write[j]->id];
	for (uint32_t i = 0; i < be->n_layers; i++)
		if (!be->layer[i]->to)
			list[n++] = be->layer[i]->out.s;
	for (uint32_t i = 0; i < be->n_layers; i++)
		if (be->layer[i]->has_bits && !be->layer[i]->e.only)
			list[n++] = be->layer[i]->bits.s;
	return n;
}

bool rvl_stores_meet(const struct rvl_store *a, const struct rvl_store *b)
{
	struct rvl_tview va, vb;

	if (whole(a) != whole(b) || b->at >= a->at + a->size || a->at >= b->at + b->size)
		return false;
	if (!a->root->pitched && !b->root->pitched)
		return true;
	rvl_tensor_view(a->root, &va);
	rvl_tensor_view(b->root, &vb);
	return rvl_type_size(a->root->type) != rvl_type_size(b->root->type) ||
	       rvl_tview_overlap(&va, &vb);
}

/* Parts lie inside their stores, and no byte of a store is written twice. */
static int check_parts(const struct rvl_backend *be)
{
	const struct rvl_store **list = calloc(count_writings(be) + 2 * be->n_layers + 1, sizeof(*list));
	uint32_t n;
	int rc = 0;

	if (!list)
		return -ENOMEM;
	n = list_written(be, list);
	qsort(list, n, sizeof(struct rvl_store *), by_base);
	for (uint32_t i = 0; i < n && !rc; i++) {
		const struct rvl_store *s = list[i];

		if (s->at > whole(s)->size || s->size > whole(s)->size - s->at)
			rc = rvl_fail(be->err, -EINVAL, "internal: \"%s\" is larger than \"%s\"",
				      s->root->name, whole(s)->root->name);
		for (uint32_t j = i + 1; j < n && whole(list[j]) == whole(s) && !rc; j++)
			if (rvl_stores_meet(s, list[j]))
				rc = rvl_fail(be->err, -EINVAL, "internal: \"%s\" and \"%s\" overlap",
					      s->root->name, list[j]->root->name);
	}
	free(list);
	return rc;
}

int rvl_memplan_check(struct rvl_backend *be)
{
	struct plan p = { .be = be };
	int rc = collect(&p);

	if (!rc)
		rc = check_stores(&p);
	plan_free(&p);
	return rc ? rc : check_parts(be);
}

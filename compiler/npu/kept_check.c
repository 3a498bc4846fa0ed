/* SPDX-License-Identifier: MIT */
/*
 * What isa_check.c cannot see: it proves that accesses to the same words are ordered, but not that the
 * words are the right ones. A write to a wrong address that tokens order would replace a kept value.
 */
#include "npu/kept_check.h"
#include "npu/backend.h"
#include "rivulet_footprint.h"

#include <errno.h>
#include <stdlib.h>

/* A kept value: its words, its layers, and the instructions between which it is there. */
struct value {
	const struct rvl_ring *ring;
	uint64_t lo, hi;
	uint32_t maker, last, heir; /* layers; @heir: whose result takes the place, or RVL_NONE */
	uint32_t from, past;	    /* instructions */
};

/* The values, or RVL_NONE, that a layer makes and whose last reader it is. */
struct uses {
	uint32_t makes, ends[2];
};

struct checker {
	const struct rivulet_board *b;
	struct rvl_layer *const *l;
	uint32_t layers, first;
	const struct rivulet_insn *stream;
	uint32_t count;
	const uint32_t *tag;
	struct value *value; /* by maker; from check_all() on, by their first instruction */
	struct uses *uses;   /* by layer */
	uint32_t values;
	struct rvl_err *err;
};

/* ---- the values ---- */

static void add_value(struct checker *c, uint32_t maker)
{
	const struct rvl_ring *r = c->l[maker]->to;

	c->uses[maker].makes = c->values;
	c->value[c->values++] =
		(struct value){ .ring = r, .lo = r->base, .hi = r->base + rvl_ring_words(r), .maker = maker,
				.last = maker, .heir = RVL_NONE, .from = c->count };
}

/* Layer @i reads the value in @r, which is one of the last that were made. */
static void add_reader(struct checker *c, uint32_t i, const struct rvl_ring *r)
{
	uint32_t k = r && r->kept ? c->values : 0;

	while (k && c->value[k - 1].ring != r)
		k--;
	if (k)
		c->value[k - 1].last = i;
}

/* The result that takes the place of @v is that of the cascade, or the layer, which reads it last. */
static void find_heir(const struct checker *c, struct value *v)
{
	uint32_t end = v->last;

	while (end + 1 < c->layers && rvl_continues(c->l[end]))
		end++;
	if (end > v->maker && c->l[end]->to && c->l[end]->to->base == v->ring->base)
		v->heir = end;
}

static void list_values(struct checker *c)
{
	for (uint32_t i = 0; i < c->layers; i++) {
		c->uses[i] = (struct uses){ RVL_NONE, { RVL_NONE, RVL_NONE } };
		add_reader(c, i, c->l[i]->from);
		add_reader(c, i, c->l[i]->b_from);
		if (c->l[i]->to && c->l[i]->to->kept)
			add_value(c, i);
	}
	for (uint32_t k = 0; k < c->values; k++) {
		struct uses *u = &c->uses[c->value[k].last];

		find_heir(c, &c->value[k]);
		if (c->value[k].last != c->value[k].maker)
			u->ends[u->ends[0] != RVL_NONE] = k;
	}
}

static const struct rvl_layer *layer_of(const struct checker *c, uint32_t insn, uint32_t *number)
{
	*number = c->tag[insn] - c->first;
	return c->tag[insn] != RVL_NONE && *number < c->layers ? c->l[*number] : NULL;
}

/* ---- instructions ---- */

/* The words of INP that an instruction reads or writes: [*lo, *hi); false if it does not. */
static bool hull(const struct rivulet_footprint *f, bool write, uint64_t *lo, uint64_t *hi)
{
	*lo = UINT64_MAX;
	*hi = 0;
	for (int i = 0; i < f->count; i++) {
		const struct rivulet_access *a = &f->access[i];
		uint64_t past = a->addr + (a->grps - 1) * a->grp_pitch + (a->blks - 1) * a->blk_pitch +
				(a->rows - 1) * a->row_pitch + a->cols;

		if (a->mem != RIVULET_MEM_INP || !(write ? a->write : a->read))
			continue;
		*lo = a->addr < *lo ? a->addr : *lo;
		*hi = past > *hi ? past : *hi;
	}
	return *lo < *hi;
}

static int complain(const struct checker *c, uint32_t insn, const char *does, const struct value *v)
{
	const char *maker = c->l[v->maker]->node ? c->l[v->maker]->node->name : "";
	uint32_t i;
	const struct rvl_layer *l = layer_of(c, insn, &i);

	return rvl_fail(c->err, -EINVAL,
			"internal: instruction %u of layer \"%s\" %s INP words %llu to %llu, where the result of \"%s\" is kept",
			insn, l && l->node ? l->node->name : "", does, (unsigned long long)v->lo,
			(unsigned long long)v->hi - 1, maker);
}

static bool inside(const struct value *v, uint64_t lo, uint64_t hi)
{
	return lo >= v->lo && hi <= v->hi;
}

/* Whether the instruction is the one of its layer that reads the value. */
static bool reads(const struct rvl_layer *l, const struct value *v, enum rivulet_form form)
{
	if (l->from == v->ring && form == (l->mode ? RIVULET_FORM_conv : RIVULET_FORM_alu))
		return true;
	return l->b_from == v->ring && form == RIVULET_FORM_alu;
}

static int check_value(const struct checker *c, uint32_t insn, enum rivulet_form form,
		       const struct rivulet_footprint *f, const struct value *v)
{
	uint64_t lo, hi;
	uint32_t i;
	const struct rvl_layer *l = layer_of(c, insn, &i);
	bool alu = form == RIVULET_FORM_alu;

	if (l && reads(l, v, form) && hull(f, false, &lo, &hi) && !inside(v, lo, hi))
		return complain(c, insn, "reads outside of", v);
	if (!hull(f, true, &lo, &hi))
		return 0;
	if (alu && l && i == v->maker)
		return inside(v, lo, hi) ? 0 : complain(c, insn, "writes outside of", v);
	if (insn < v->from || insn >= v->past || hi <= v->lo || lo >= v->hi || (alu && l && i == v->heir))
		return 0;
	return complain(c, insn, "writes to", v);
}

/* From the first write of the maker to the last instruction of the maker and of the last reader. */
static void find_lives(struct checker *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		const struct uses *u;
		struct rivulet_decoded d;
		uint32_t number;

		if (!layer_of(c, i, &number) || rivulet_decode(&c->stream[i], &d))
			continue;
		u = &c->uses[number];
		if (u->makes != RVL_NONE) {
			struct value *v = &c->value[u->makes];

			v->past = i + 1;
			if (d.form == RIVULET_FORM_alu && i < v->from)
				v->from = i;
		}
		for (int k = 0; k < 2; k++)
			if (u->ends[k] != RVL_NONE)
				c->value[u->ends[k]].past = i + 1;
	}
}

static int by_start(const void *x, const void *y)
{
	const struct value *a = x, *b = y;

	return a->from < b->from ? -1 : a->from > b->from;
}

/* Checks instruction @i against the values that are there; *past: all before it are gone. */
static int check_live(const struct checker *c, uint32_t i, enum rivulet_form form,
		      const struct rivulet_footprint *f, uint32_t *past)
{
	int rc = 0;

	while (*past < c->values && c->value[*past].past <= i)
		++*past;
	for (uint32_t k = *past; k < c->values && c->value[k].from <= i && !rc; k++)
		rc = check_value(c, i, form, f, &c->value[k]);
	return rc;
}

static int check_all(const struct checker *c)
{
	struct rivulet_config config = { 0 };
	uint32_t past = 0;
	int rc = 0;

	for (uint32_t i = 0; i < c->count && !rc; i++) {
		struct rivulet_footprint f;
		struct rivulet_decoded d;

		rivulet_decode(&c->stream[i], &d);
		rivulet_config_set(&config, &d);
		if (d.form != RIVULET_FORM_load && d.form != RIVULET_FORM_conv && d.form != RIVULET_FORM_alu)
			continue;
		rivulet_footprint_of(c->b, &config, &d, &f);
		rc = check_live(c, i, d.form, &f, &past);
	}
	return rc;
}

int rvl_kept_check(const struct rivulet_board *b, struct rvl_layer *const *l, uint32_t n, uint32_t first,
		   const struct rivulet_insn *stream, uint32_t count, const uint32_t *tag,
		   struct rvl_err *err)
{
	struct checker c = { .b = b, .l = l, .layers = n, .first = first, .stream = stream, .count = count,
			     .tag = tag, .err = err, .value = calloc(n + 1, sizeof(*c.value)),
			     .uses = calloc(n + 1, sizeof(*c.uses)) };
	int rc = c.value && c.uses ? 0 : -ENOMEM;

	if (!rc)
		list_values(&c);
	if (!rc && c.values) {
		find_lives(&c);
		qsort(c.value, c.values, sizeof(*c.value), by_start);
		rc = check_all(&c);
	}
	free(c.value);
	free(c.uses);
	return rc;
}

/* SPDX-License-Identifier: MIT */
/*
 * Networks repeat their blocks, and the choices of a step time the same layers again. Within one
 * compilation, the time of some layers is a function of the layers alone: of every field that the
 * emission or the schedule reads. The key has all bytes of the layers, the rings and the stores, with
 * these exceptions.
 *  - Names, notes and estimates, and the numbers of weights, biases, factors and tables, which only
 *    the packing reads, are left out.
 *  - For a pointer to a store or a ring stands its number, or what it points to.
 *  - For the first and the last byte of a store stand their ranks among those of all stores, and the
 *    offset in a page: the schedule asks which stores overlap, and bursts end with a page.
 *  - For a zero point, a limit or a scale stands its number among those of the layers. No time depends
 *    on the value. But a configuration is written where it changes, so equal values must stay equal,
 *    and a zero must stay zero.
 *  - Padding between fields is cleared: the assignment of a struct may copy any bytes there.
 * Any other pointer is part of the key as it is, so that a difference that does not matter can only
 * make the layers be timed again.
 */
#include "npu/memo.h"
#include "base/bytes.h"
#include "rivulet_cost.h"
#include "rivulet_sha256.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SETS 1024
#define WAYS 4	  /* times of a set; a new one takes the place of the oldest */
#define FOLDED	 65536 /* bytes of a key that are hashed at a time */
#define NUMBERED 8 /* layers whose values are numbered; those of more layers stay as they are */

struct entry {
	struct rvl_memo_key key;
	bool used;
	struct rivulet_explain_segment seg;
};

/* A byte of a slot. */
struct end {
	uint32_t slot;
	uint64_t at;
};

/* Zero points of operands; and each value of an epilogue that is a field of a configuration. */
enum kind { KIND_ZP, KIND_RQ_ZP, KIND_RQ_LO, KIND_RQ_HI, KIND_OUT_ZP, KIND_OUT_LO, KIND_OUT_HI, KIND_AZ,
	    KIND_BZ, KIND_RA, KIND_RB, KIND_RC, KIND_POOL_MULT, KIND_POOL_ZP, KIND_SLOPE_ZP, KIND_SLOPE_OUT, KIND_SLOPE_LO, KIND_SLOPE_HI, KINDS };

/* Values of one kind, in the order in which they were found. */
struct values {
	uint32_t bits[3 * NUMBERED];
	uint32_t n;
};

struct rvl_memo {
	struct entry entry[SETS][WAYS];
	uint8_t oldest[SETS];
	/* the key being made */
	struct rvl_bytes bytes;
	uint32_t *number; /* of a store in it, from 1 on, by the tensor that is its root; 0: none */
	const struct rvl_store **store;
	uint32_t stores;
	struct end *end; /* the first and the last bytes of the stores, in order */
	struct values value[KINDS];
};

struct rvl_memo *rvl_memo_free(struct rvl_memo *m)
{
	if (!m)
		return NULL;
	rvl_bytes_free(&m->bytes);
	free(m->number);
	free(m->store);
	free(m->end);
	free(m);
	return NULL;
}

struct rvl_memo *rvl_memo_new(uint32_t tensors)
{
	struct rvl_memo *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->number = calloc(tensors + 1, sizeof(*m->number));
	m->store = calloc(tensors + 1, sizeof(*m->store));
	m->end = calloc(2 * ((size_t)tensors + 1), sizeof(*m->end));
	return m->number && m->store && m->end ? m : rvl_memo_free(m);
}

/* ---- keys ---- */

/* The number of @s, which is that of its root, instead of a pointer to it. */
static void *number_of(struct rvl_memo *m, const struct rvl_store *s)
{
	uint32_t *number;

	if (!s)
		return NULL;
	number = &m->number[s->root->id];
	if (!*number) {
		m->store[m->stores] = s;
		*number = ++m->stores;
	}
	return (void *)(uintptr_t)*number;
}

/* Adds bytes to the key. Many bytes become their hash, which those that follow are hashed with. */
static int add(struct rvl_memo *m, const void *p, size_t size)
{
	uint8_t hash[32];

	if (m->bytes.size >= FOLDED) {
		rivulet_sha256(m->bytes.data, m->bytes.size, hash);
		m->bytes.size = 0;
		if (rvl_bytes_add(&m->bytes, hash, sizeof(hash), 1, NULL))
			return -ENOMEM;
	}
	return rvl_bytes_add(&m->bytes, p, size, 1, NULL);
}

/* Makes a value of 32 bits its number. */
static void number_value(struct rvl_memo *m, enum kind kind, void *value)
{
	struct values *v = &m->value[kind];
	uint32_t bits, i = 0;

	memcpy(&bits, value, sizeof(bits));
	if (!bits)
		return;
	while (i < v->n && v->bits[i] != bits)
		i++;
	if (i == v->n)
		v->bits[v->n++] = bits;
	i++;
	memcpy(value, &i, sizeof(i));
}

static void number_values(struct rvl_memo *m, struct rvl_layer *l)
{
	struct rvl_epilogue *e = &l->e;
	struct {
		enum kind kind;
		void *value;
	} all[] = {
		{ KIND_ZP, &l->in.zp },	     { KIND_ZP, &l->b.zp },	  { KIND_ZP, &l->out.zp },
		{ KIND_RQ_ZP, &e->rq_zp },   { KIND_RQ_LO, &e->rq_lo },	  { KIND_RQ_HI, &e->rq_hi },
		{ KIND_OUT_ZP, &e->out_zp }, { KIND_OUT_LO, &e->out_lo }, { KIND_OUT_HI, &e->out_hi },
		{ KIND_AZ, &e->az },	     { KIND_BZ, &e->bz },	  { KIND_RA, &e->ra },
		{ KIND_RB, &e->rb },	     { KIND_RC, &e->rc },
		{ KIND_POOL_MULT, &e->pool_mult }, { KIND_POOL_ZP, &e->pool_zp },
		{ KIND_SLOPE_ZP, &e->slope_zp }, { KIND_SLOPE_OUT, &e->slope_out },
		{ KIND_SLOPE_LO, &e->slope_lo }, { KIND_SLOPE_HI, &e->slope_hi },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		number_value(m, all[i].kind, all[i].value);
}

/* A compiler without the builtin leaves the padding as it is, and more layers are timed again. */
#if __has_builtin(__builtin_clear_padding)
#define CLEAR_PADDING(p) __builtin_clear_padding(p)
#else
#define CLEAR_PADDING(p) ((void)(p))
#endif

/* Leaves out what the time does not depend on. */
static struct rvl_layer bare_layer(struct rvl_memo *m, const struct rvl_layer *l, bool number)
{
	struct rvl_layer c = *l;

	c.node = NULL;
	c.fused = c.note = NULL;
	c.contest = NULL;
	c.in.s = number_of(m, l->in.s);
	c.b.s = number_of(m, l->b.s);
	c.out.s = number_of(m, l->out.s);
	c.bits.s = number_of(m, l->bits.s);
	c.p.w.t = NULL;
	c.p.bias = c.p.raw_bias = NULL;
	c.p.mult = NULL;
	if (l->mode && l->mode->own_size)
		c.p.own = NULL;
	memset(c.e.lut, 0, sizeof(c.e.lut));
	c.e.ext = NULL;
	c.from = c.b_from = c.to = NULL;
	c.t.cost = 0;
	if (number)
		number_values(m, &c);
	return c;
}

/* The segment planner sets the place of a ring, but not that of a kept value. */
static int add_ring(struct rvl_memo *m, const struct rvl_ring *r)
{
	struct rvl_ring ring;

	memset(&ring, 0, sizeof(ring));
	if (r)
		memcpy(&ring, r, sizeof(ring));
	if (!ring.kept)
		ring.base = 0;
	CLEAR_PADDING(&ring);
	return add(m, &ring, sizeof(ring));
}

static int add_layer(struct rvl_memo *m, const struct rvl_layer *l, bool number)
{
	struct rvl_layer c = bare_layer(m, l, number);
	int rc;

	CLEAR_PADDING(&c);
	rc = add(m, &c, sizeof(c));
	if (!rc)
		rc = add_ring(m, l->to);
	if (!rc)
		rc = add_ring(m, rvl_continued(l) ? NULL : l->from);
	if (!rc)
		rc = add_ring(m, l->b_from);
	if (!rc && l->p.own && l->mode && l->mode->own_size)
		rc = add(m, l->p.own, l->mode->own_size);
	return rc;
}

static int compare_ends(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

/* Puts the ends in order, each once; returns how many. Adds the stores of which others are parts. */
static uint32_t sort_ends(struct rvl_memo *m)
{
	uint32_t n = 0, ends;

	for (uint32_t i = 0; i < m->stores; i++) {
		const struct rvl_store *s = m->store[i];

		number_of(m, s->base);
		m->end[2 * i] = (struct end){ s->slot, s->offset };
		m->end[2 * i + 1] = (struct end){ s->slot, s->offset + s->size };
	}
	ends = 2 * m->stores;
	qsort(m->end, ends, sizeof(*m->end), compare_ends);
	for (uint32_t i = 0; i < ends; i++)
		if (!n || compare_ends(&m->end[n - 1], &m->end[i]))
			m->end[n++] = m->end[i];
	return n;
}

static uint64_t rank_of(const struct rvl_memo *m, uint32_t ends, uint32_t slot, uint64_t at)
{
	const struct end e = { slot, at };

	return (const struct end *)bsearch(&e, m->end, ends, sizeof(e), compare_ends) - m->end;
}

static int add_stores(struct rvl_memo *m)
{
	uint32_t ends = sort_ends(m);
	int rc = 0;

	for (uint32_t i = 0; i < m->stores && !rc; i++) {
		const struct rvl_store *s = m->store[i];
		uint64_t in_page = s->offset % RIVULET_PAGE_BYTES;
		struct rvl_store c = *s;

		c.offset = rank_of(m, ends, s->slot, s->offset);
		c.size = rank_of(m, ends, s->slot, s->offset + s->size);
		c.base = number_of(m, s->base);
		c.root = NULL;
		c.plan = c.readers = 0;
		c.crosses = false;
		CLEAR_PADDING(&c);
		rc = add(m, &c, sizeof(c));
		if (!rc)
			rc = add(m, &in_page, sizeof(in_page));
	}
	return rc;
}

static void forget_stores(struct rvl_memo *m)
{
	for (uint32_t i = 0; i < m->stores; i++)
		m->number[m->store[i]->root->id] = 0;
	m->stores = 0;
}

int rvl_memo_key(struct rvl_memo *m, struct rvl_layer *const *l, uint32_t n,
		 struct rvl_memo_key *key)
{
	int rc = 0;

	m->bytes.size = 0;
	memset(m->value, 0, sizeof(m->value));
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = add_layer(m, l[i], n <= NUMBERED);
	if (!rc)
		rc = add_stores(m);
	forget_stores(m);
	if (!rc)
		rivulet_sha256(m->bytes.data, m->bytes.size, key->hash);
	return rc;
}

/* ---- times ---- */

static uint32_t set_of(const struct rvl_memo_key *key)
{
	return (key->hash[0] << 8 | key->hash[1]) % SETS;
}

const struct rivulet_explain_segment *rvl_memo_find(const struct rvl_memo *m,
						    const struct rvl_memo_key *key)
{
	const struct entry *e = m->entry[set_of(key)];

	for (int i = 0; i < WAYS; i++)
		if (e[i].used && !memcmp(&e[i].key, key, sizeof(*key)))
			return &e[i].seg;
	return NULL;
}

void rvl_memo_keep(struct rvl_memo *m, const struct rvl_memo_key *key,
		   const struct rivulet_explain_segment *seg)
{
	uint32_t set = set_of(key);

	m->entry[set][m->oldest[set]++ % WAYS] = (struct entry){ *key, true, *seg };
}

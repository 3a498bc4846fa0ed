/* SPDX-License-Identifier: MIT */
/* Which layers the compiler takes for equal when it looks for their time. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "npu/memo.h"
#include "suite.h"

#define TENSORS 16
#define PAGE	4096

static const struct rvl_mode mode = { .name = "test", .own_size = 4 }, other = { .name = "other" };

/* Two layers that follow one another, the second one a part of a cascade. */
struct block {
	struct rvl_tensor root[3];
	struct rvl_store store[3];
	struct rvl_ring ring;
	struct rvl_layer l[2];
	struct rvl_node node[2];
	uint32_t own[2];
	int32_t bias[2];
};

static void fill(struct block *k, uint32_t id, uint64_t at)
{
	memset(k, 0, sizeof(*k));
	for (uint32_t i = 0; i < 3; i++) {
		k->root[i].id = id + i;
		k->store[i] = (struct rvl_store){ .root = &k->root[i],
						  .place = RIVULET_PLACE_ARENA,
						  .slot = RIVULET_SLOT_ARENA,
						  .offset = at + i * 2 * PAGE,
						  .size = PAGE };
	}
	k->ring = (struct rvl_ring){ .rows = 8, .width = 10, .blocks = 2, .base = id };
	for (uint32_t i = 0; i < 2; i++) {
		struct rvl_layer *l = &k->l[i];

		k->own[i] = 3;
		l->node = &k->node[i];
		l->in = (struct rvl_operand){ .s = &k->store[i], .v = { 1, 16, 8, 10 } };
		l->out = (struct rvl_operand){ .s = &k->store[i + 1], .v = { 1, 16, 8, 10 } };
		l->mode = &mode;
		l->p.own = &k->own[i];
		l->p.bias = &k->bias[i];
		l->t.th = 4;
		l->in.zp = (int32_t)id + 1 + (int32_t)i;
		l->e.rq_zp = (int32_t)id + 7;
		l->e.lut[5] = (uint8_t)id;
	}
	k->l[0].to = k->l[1].from = &k->ring;
}

static struct rvl_memo_key key_of(struct rvl_memo *m, struct block *k)
{
	struct rvl_layer *l[] = { &k->l[0], &k->l[1] };
	struct rvl_memo_key key;

	ck_assert_int_eq(rvl_memo_key(m, l, 2, &key), 0);
	return key;
}

static bool equal(const struct rvl_memo_key *a, const struct rvl_memo_key *b)
{
	return !memcmp(a, b, sizeof(*a));
}

#if __has_builtin(__builtin_clear_padding)
/* The bytes between the fields of a view, an operand and a tiling are those of the stack. */
START_TEST(padding)
{
	struct rvl_memo *m = rvl_memo_new(TENSORS);
	struct rvl_memo_key first, second;
	struct block a;

	fill(&a, 1, 0);
	first = key_of(m, &a);
	for (uint32_t i = 0; i < 2; i++) {
		struct rvl_layer *l = &a.l[i];
		uint8_t *end = (uint8_t *)&l->in.v.wide + 1;

		memset(end, 0x5a, (uint8_t *)(&l->in.v + 1) - end);
		end = (uint8_t *)&l->in.flat + 1;
		memset(end, 0x5a, (uint8_t *)&l->in.pixels - end);
		end = (uint8_t *)&l->t.oc_outer + 1;
		memset(end, 0x5a, (uint8_t *)&l->t.cost - end);
		end = (uint8_t *)&a.store[i].view.wide + 1;
		memset(end, 0x5a, (uint8_t *)(&a.store[i].view + 1) - end);
	}
	memset((uint8_t *)&a.ring.kept + 1, 0x5a, (uint8_t *)&a.ring.base - (uint8_t *)&a.ring.kept - 1);
	second = key_of(m, &a);
	ck_assert(equal(&first, &second));
	rvl_memo_free(m);
}
END_TEST
#endif

/* Other nodes, weights, tables, places in the arena, and other values of zero points. */
START_TEST(repeated_block)
{
	struct rvl_memo *m = rvl_memo_new(TENSORS);
	struct rvl_memo_key first, second;
	struct block a, b;

	fill(&a, 1, 0);
	fill(&b, 8, 30 * PAGE);
	first = key_of(m, &a);
	second = key_of(m, &b);
	ck_assert(equal(&first, &second));
	b.store[2].offset += 5 * PAGE; /* as far from all others */
	second = key_of(m, &b);
	ck_assert(equal(&first, &second));
	rvl_memo_free(m);
}
END_TEST

static void higher(struct block *k)
{
	k->l[1].in.v.h++;
}

static void taller_tile(struct block *k)
{
	k->l[0].t.th++;
}

static void ahead(struct block *k)
{
	k->l[1].ahead = 1;
}

static void early(struct block *k)
{
	k->l[0].early = true;
}

static void other_mode(struct block *k)
{
	k->l[0].mode = &other;
}

static void more_pairs(struct block *k)
{
	k->own[0]++;
}

static void weights_elsewhere(struct block *k)
{
	k->l[0].p.wgt_off += 64;
}

static void bigger_ring(struct block *k)
{
	k->ring.rows++;
}

static void no_ring(struct block *k)
{
	k->l[0].to = k->l[1].from = NULL;
}

static void within_page(struct block *k)
{
	k->store[1].offset += 64;
}

static void overlap(struct block *k)
{
	k->store[1].offset = k->store[0].offset;
}

static void touches(struct block *k)
{
	k->store[0].size = 2 * PAGE;
}

static void same_store(struct block *k)
{
	k->l[1].out.s = &k->store[0];
}

static void part_of(struct block *k)
{
	k->store[2].base = &k->store[0];
}

static void other_slot(struct block *k)
{
	k->store[2].slot++;
}

/* The configuration is not written between the layers. */
static void equal_zero_points(struct block *k)
{
	k->l[1].in.zp = k->l[0].in.zp;
}

static void different_limits(struct block *k)
{
	k->l[1].e.rq_zp++;
}

/* A configuration of zeros is not written at the start of a stream. */
static void zero_point_of_zero(struct block *k)
{
	k->l[0].in.zp = 0;
}

static void (*const changes[])(struct block *k) = {
	higher,	     taller_tile, ahead,       other_mode, more_pairs,	 weights_elsewhere,
	bigger_ring, no_ring,	  within_page, overlap,	   touches,	 same_store,
	part_of,     other_slot,  equal_zero_points, different_limits, zero_point_of_zero, early,
};

/* Each change can change the time. */
START_TEST(different_time)
{
	struct rvl_memo *m = rvl_memo_new(TENSORS);
	struct rvl_memo_key first, second;
	struct block k;

	fill(&k, 1, 0);
	first = key_of(m, &k);
	changes[_i](&k);
	second = key_of(m, &k);
	ck_assert(!equal(&first, &second));
	rvl_memo_free(m);
}
END_TEST

#define KEPT 20000

/* A time is found or has been replaced; none is found under another key. */
START_TEST(bounded)
{
	struct rvl_memo *m = rvl_memo_new(TENSORS);
	struct rvl_memo_key *key = calloc(KEPT, sizeof(*key));
	uint32_t found = 0, wrong = 0;
	struct rvl_layer *l;
	struct block k;

	ck_assert_ptr_nonnull(key);
	fill(&k, 1, 0);
	l = &k.l[1];
	for (uint32_t i = 0; i < KEPT; i++) {
		const struct rivulet_explain_segment seg = { .cycles = i };

		l->t.tw = i;
		wrong += rvl_memo_key(m, &l, 1, &key[i]) != 0;
		rvl_memo_keep(m, &key[i], &seg);
	}
	for (uint32_t i = 0; i < KEPT; i++) {
		const struct rivulet_explain_segment *seg = rvl_memo_find(m, &key[i]);

		found += !!seg;
		wrong += seg && seg->cycles != i;
	}
	ck_assert_uint_eq(wrong, 0);
	ck_assert_uint_ge(found, 1000);
	ck_assert_uint_lt(found, KEPT / 2);
	free(key);
	rvl_memo_free(m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("memo");
	TCase *t = add_case(s, "memo", 60, NULL, NULL);

	tcase_add_test(t, repeated_block);
#if __has_builtin(__builtin_clear_padding)
	tcase_add_test(t, padding);
#endif
	tcase_add_loop_test(t, different_time, 0, sizeof(changes) / sizeof(changes[0]));
	tcase_add_test(t, bounded);
	return run_suite(s);
}

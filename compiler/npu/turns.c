/* SPDX-License-Identifier: MIT */
/*
 * Whose tile of a cascade is emitted next. Of the tiles that can be (clock.c), the one is chosen that
 * leaves the array and the ALU idle for the fewest cycles, by a clock of both and of the halves of ACC
 * between them. Tiles that keep the ALU busy for long alternate with those that keep the
 * array busy, so that neither waits for the other.
 *
 * This rule looks at the next tile alone. The layers of a cascade that looks ahead follow an order that
 * order.c has searched, by a clock that also knows which tiles are short.
 */
#include "npu/order.h"

#include <errno.h>

struct rvl_turns *rvl_turns_free(struct rvl_turns *t)
{
	if (t) {
		rvl_scratch_free(t->log);
		rvl_scratch_free(t->order);
	}
	rvl_scratch_free(t);
	return NULL;
}

struct rvl_turns *rvl_turns_new(struct rvl_emission *const *e, uint32_t n)
{
	bool look = n > 1 && e[0]->l->look;
	struct rvl_arena *arena = e[0]->s->arena;
	struct rvl_turns *t = rvl_scratch(arena, 1, sizeof(*t));
	uint64_t most = 0;

	for (uint32_t i = 0; i < n; i++)
		most += 2 * rvl_max(e[i]->count, 1);
	if (t)
		t->log = rvl_scratch(arena, most, sizeof(*t->log));
	if (!t || !t->log)
		return rvl_turns_free(t);
	for (uint32_t i = 0; i < n; i++)
		rvl_clock_add(t, e[i], look);
	t->s = e[0]->s;
	return look && rvl_order_find(t) ? rvl_turns_free(t) : t;
}

/*
 * Where the last layer takes rows of its window, its weights pass through few slots: the port must
 * not wait for the array, so that tiles of later layers come first and only the array's time counts.
 */
static bool takes_taps(const struct rvl_turns *t)
{
	return rvl_takes_taps(t->m[t->n - 1].e->l);
}

/*
 * Cycles in which the array or the ALU has nothing to do if the next tile is one of member @i. The array does
 * not wait for a tile of the ALU alone.
 */
static int64_t idle_of(const struct rvl_turns *t, uint32_t i)
{
	int64_t at = rvl_clock_start(t, i);

	if (!t->m[i].array && at != RVL_NEVER)
		return rvl_max(0, rvl_clock_operand(t, i) - t->alu);
	if (takes_taps(t) && at != RVL_NEVER)
		return at - t->conv;
	return at == RVL_NEVER ? RVL_NEVER : at - t->conv + rvl_max(0, at + t->m[i].array - t->alu);
}

/* By which a tile lengthens what the ALU has to do behind the array, as it is best now. */
static int64_t merit(const struct rvl_turns *t, uint32_t i)
{
	int64_t gain = t->m[i].alu - t->m[i].array;

	if (takes_taps(t))
		return 0;
	return t->alu > t->conv ? -gain : gain;
}

static uint32_t choose(const struct rvl_turns *t)
{
	int64_t least = RVL_NEVER, best = INT64_MIN;
	uint32_t chosen = t->n;

	for (uint32_t i = t->n; i-- > 0;) {
		int64_t idle = idle_of(t, i), gain = merit(t, i);

		if (idle > least || (idle == least && gain <= best) || idle == RVL_NEVER)
			continue;
		least = idle;
		best = gain;
		chosen = i;
	}
	return chosen;
}

struct rvl_busy rvl_turns_next(struct rvl_turns *t)
{
	struct rvl_busy busy = { 0 };
	uint32_t i = t->n == 1 ? 0 : t->order ? t->order[t->next++] : choose(t);

	if (i == t->n) {
		t->s->rc = rvl_fail(t->s->err, -EINVAL,
				    "internal: layer %u needs more rows than its ring has",
				    t->m[i - 1].e->layer);
		return busy;
	}
	busy.array = t->m[i].array;
	busy.alu = t->m[i].alu;
	rvl_clock_emit(t, i);
	return busy;
}

// SPDX-License-Identifier: MIT
/*
 * The order of runs, and whether one more can be promised. Pure: knows neither device nor session.
 */
#include <errno.h>

#include "manager.h"

static uint64_t add_sat(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

bool rvl_slot_before(const struct rvl_slot *a, const struct rvl_slot *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	if (a->deadline != b->deadline)
		return a->deadline < b->deadline;
	if (a->turn != b->turn)
		return a->turn < b->turn;
	return a->arrival < b->arrival;
}

uint64_t rvl_turn(uint64_t *user_turn, uint64_t now, uint64_t expected)
{
	uint64_t turn = *user_turn > now ? *user_turn : now;

	/* A run of unknown length counts, too. */
	*user_turn = add_sat(turn, expected ? expected : 1);
	return turn;
}

static int check_finish(const struct rvl_slot *s, const struct rvl_slot *fresh, uint64_t now,
			uint64_t finish, struct rvl_text *err)
{
	uint64_t late;

	if (!s->hard || finish <= s->deadline)
		return 0;
	/* Already too late without the new one: not its fault. */
	if (s != fresh && finish - fresh->expected > s->deadline)
		return 0;
	late = (finish - s->deadline) / 1000;
	if (s != fresh)
		return rvl_say(err, -ETIME,
			       "a run promised before would miss its deadline by %llu us",
			       (unsigned long long)late);
	return rvl_say(err, -ETIME,
		       "would end in %llu us (%llu us of it its own), %llu us after its deadline",
		       (unsigned long long)(finish - now) / 1000,
		       (unsigned long long)s->expected / 1000, (unsigned long long)late);
}

int rvl_admit(const struct rvl_slot *const *queue, size_t n, const struct rvl_slot *fresh,
	      uint64_t now, uint64_t busy, struct rvl_text *err)
{
	uint64_t finish = add_sat(now, busy);
	bool placed = false;
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		if (!placed && rvl_slot_before(fresh, queue[i])) {
			placed = true;
			finish = add_sat(finish, fresh->expected);
			r = check_finish(fresh, fresh, now, finish, err);
		}
		finish = add_sat(finish, queue[i]->expected);
		if (!r && placed)
			r = check_finish(queue[i], fresh, now, finish, err);
	}
	if (!r && !placed)
		r = check_finish(fresh, fresh, now, add_sat(finish, fresh->expected), err);
	return r;
}

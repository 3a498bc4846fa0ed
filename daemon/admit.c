// SPDX-License-Identifier: MIT
/* Which deadlines can be promised: by the worst times, in the order of deadlines. */
#include <errno.h>

#include "fair.h"

static uint64_t add_sat(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The sums along the order of promises, with and without the fresh one. */
struct sums {
	const struct rvl_slot *fresh;
	uint64_t now;
	uint64_t finish;	/* when the promise at hand ends */
	uint64_t own;		/* ns that the fresh one's user has used or is promised */
	uint32_t users;
	bool placed;		/* the fresh one is in the sums */
};

static int refuse_late(const struct sums *t, const struct rvl_slot *s, struct rvl_text *err)
{
	unsigned long long late = (t->finish - s->deadline) / 1000;

	if (s != t->fresh)
		return rvl_say(err, -ETIME, "a run promised before would miss its deadline by %llu us",
			       late);
	return rvl_say(err, -ETIME,
		       "would end in %llu us (%llu us of it its own), %llu us after its deadline",
		       (unsigned long long)(t->finish - t->now) / 1000,
		       (unsigned long long)s->worst / 1000, late);
}

static int refuse_share(const struct sums *t, const struct rvl_slot *s, struct rvl_text *err)
{
	return rvl_say(err, -ETIME,
		       "this user's share before the deadline, one of %u users, is %llu us, and "
		       "%llu us are used or promised", t->users,
		       (unsigned long long)((s->deadline - t->now) / t->users) / 1000,
		       (unsigned long long)t->own / 1000);
}

/* A promise that is broken without the fresh one is no reason to refuse that. */
static int check(const struct sums *t, const struct rvl_slot *s, struct rvl_text *err)
{
	uint64_t mine = t->fresh->worst;
	uint64_t share;

	if (!t->placed)
		return 0;
	if (t->finish > s->deadline && (s == t->fresh || t->finish - mine <= s->deadline))
		return refuse_late(t, s, err);
	if (s->share != t->fresh->share || t->users < 2 || s->deadline < t->now)
		return 0;
	share = (s->deadline - t->now) / t->users;
	if (t->own > share && (s == t->fresh || t->own - mine <= share))
		return refuse_share(t, s, err);
	return 0;
}

static int add(struct sums *t, const struct rvl_slot *s, struct rvl_text *err)
{
	t->placed |= s == t->fresh;
	t->finish = add_sat(t->finish, s->worst);
	if (s->share == t->fresh->share)
		t->own = add_sat(t->own, s->worst);
	return check(t, s, err);
}

/* ns by which the user's virtual time is ahead of the present. */
static uint64_t lead(const struct rvl_fair *f, const struct rvl_slot *s)
{
	uint64_t v = s->share->in[s->priority].v, present = f->v[s->priority];

	return v > present ? v - present : 0;
}

int rvl_fair_admit(const struct rvl_fair *f, const struct rvl_slot *fresh, uint64_t now,
		   uint64_t busy, uint64_t stall, struct rvl_text *err)
{
	struct sums t = { .fresh = fresh, .now = now, .own = lead(f, fresh),
			  .finish = add_sat(add_sat(now, busy), stall),
			  .users = rvl_fair_users(f, fresh->share, now) };
	struct rvl_slot *p;
	int r = 0;

	rvl_list_each(p, &f->promises, promise) {
		if (!r && !t.placed && fresh->deadline < p->deadline)
			r = add(&t, fresh, err);
		r = r ?: add(&t, p, err);
		if (r)
			return r;
	}
	return t.placed ? 0 : add(&t, fresh, err);
}

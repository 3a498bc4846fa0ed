// SPDX-License-Identifier: MIT
/* The order of runs: classes, shares by virtual time, deadlines within a share. See fair.h. */
#include "fair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t add_sat(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- a share's queue: a binary heap ---- */

static bool before(const struct rvl_slot *a, const struct rvl_slot *b)
{
	return a->deadline != b->deadline ? a->deadline < b->deadline : a->arrival < b->arrival;
}

static void put(struct rvl_heap *h, uint32_t at, struct rvl_slot *s)
{
	h->slot[at] = s;
	s->at = at;
}

static void sift_up(struct rvl_heap *h, uint32_t at, struct rvl_slot *s)
{
	while (at && before(s, h->slot[(at - 1) / 2])) {
		put(h, at, h->slot[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	put(h, at, s);
}

static void sift_down(struct rvl_heap *h, uint32_t at, struct rvl_slot *s)
{
	uint32_t child;

	while ((child = 2 * at + 1) < h->n) {
		if (child + 1 < h->n && before(h->slot[child + 1], h->slot[child]))
			child++;
		if (!before(h->slot[child], s))
			break;
		put(h, at, h->slot[child]);
		at = child;
	}
	put(h, at, s);
}

static int heap_add(struct rvl_heap *h, struct rvl_slot *s)
{
	uint32_t room = h->room ? 2 * h->room : 16;
	struct rvl_slot **grown;

	if (h->n == h->room) {
		grown = realloc(h->slot, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		h->slot = grown;
		h->room = room;
	}
	sift_up(h, h->n++, s);
	return 0;
}

static void heap_remove(struct rvl_heap *h, const struct rvl_slot *s)
{
	uint32_t at = s->at;
	struct rvl_slot *last = h->slot[--h->n];

	if (last == s)
		return;
	if (at && before(last, h->slot[(at - 1) / 2]))
		sift_up(h, at, last);
	else
		sift_down(h, at, last);
}

/* ---- who takes part ---- */

void rvl_fair_init(struct rvl_fair *f)
{
	memset(f, 0, sizeof(*f));
	rvl_list_init(&f->shares);
	rvl_list_init(&f->promises);
	rvl_list_init(&f->under_way);
}

void rvl_fair_join(struct rvl_fair *f, struct rvl_share *s)
{
	rvl_list_add_tail(&f->shares, &s->link);
}

void rvl_fair_leave(struct rvl_fair *f, struct rvl_share *s)
{
	rvl_list_del(&s->link);
	for (uint32_t c = 0; c < RIVULET_PRIOS; c++)
		free(s->in[c].queue.slot);
	if (f->held == s)
		f->held = NULL;
}

bool rvl_fair_in_debt(const struct rvl_fair *f, const struct rvl_share *s)
{
	for (uint32_t c = 0; c < RIVULET_PRIOS; c++)
		if (s->in[c].v > f->v[c])
			return true;
	return false;
}

/* Until when a share without a run may keep the device idle for its next one; 0: it may not. */
static uint64_t expected_until(const struct rvl_presence *p, uint64_t now)
{
	uint64_t until = p->ended + RVL_FAIR_GRACE;

	if (p->queue.n || p->started || !p->ended || p->think > RVL_FAIR_GRACE || now >= until)
		return 0;
	return until;
}

static bool is_active(const struct rvl_presence *p, uint64_t now)
{
	return p->queue.n || p->started || expected_until(p, now);
}

uint32_t rvl_fair_users(const struct rvl_fair *f, const struct rvl_share *besides, uint64_t now)
{
	struct rvl_share *s;
	uint32_t n = 0;

	rvl_list_each(s, &f->shares, link) {
		bool active = s == besides;

		for (uint32_t c = 0; c < RIVULET_PRIOS; c++)
			active |= is_active(&s->in[c], now);
		n += active;
	}
	return n;
}

/*
 * The virtual time of a share with what its runs under way have taken beyond their charge.
 * Otherwise the other users would get nothing beside a run of minutes once they are ahead of that
 * charge.
 */
static uint64_t virtual_time(const struct rvl_fair *f, const struct rvl_share *s, uint32_t c,
			     uint64_t now)
{
	uint64_t v = s->in[c].v, since;
	struct rvl_slot *r;

	if (!s->in[c].started)
		return v;
	rvl_list_each(r, &f->under_way, under_way) {
		since = now - r->started;
		if (r->share == s && r->priority == c && since > r->charged)
			v += since - r->charged;
	}
	return v;
}

/* ns until a run under way of the share exceeds its charge; UINT64_MAX: it has none. */
static uint64_t exceeds_in(const struct rvl_fair *f, const struct rvl_share *s, uint32_t c,
			   uint64_t now)
{
	uint64_t least = UINT64_MAX, left, since;
	struct rvl_slot *r;

	rvl_list_each(r, &f->under_way, under_way) {
		since = now - r->started;
		left = since < r->charged ? r->charged - since : 0;
		if (r->share == s && r->priority == c && left < least)
			least = left;
	}
	return least;
}

/* The active share of class @c that is furthest behind; NULL: the class is not active. */
static struct rvl_share *first_active(const struct rvl_fair *f, uint32_t c, uint64_t now)
{
	struct rvl_share *s, *first = NULL;
	uint64_t v, least = 0;

	rvl_list_each(s, &f->shares, link) {
		if (!is_active(&s->in[c], now))
			continue;
		v = virtual_time(f, s, c, now);
		if (first && v >= least)
			continue;
		first = s;
		least = v;
	}
	return first;
}

static struct rvl_slot *head(const struct rvl_share *s, uint32_t c)
{
	return s->in[c].queue.slot[0];
}

static struct rvl_share *first_queued(const struct rvl_fair *f, uint32_t c, uint64_t now)
{
	struct rvl_share *s, *first = NULL;
	uint64_t v, least = 0;

	rvl_list_each(s, &f->shares, link) {
		if (!s->in[c].queue.n || s->barred)
			continue;
		v = virtual_time(f, s, c, now);
		if (first && (v > least ||
			      (v == least && head(s, c)->arrival >= head(first, c)->arrival)))
			continue;
		first = s;
		least = v;
	}
	return first;
}

/* ---- charging ---- */

/*
 * Time used in one class is charged in the others too, so that a user gains nothing by sending runs
 * in several classes. There the charge is limited: a user whose LOW runs had the device alone for
 * an hour must not wait an hour in NORMAL.
 */
static void charge_others(struct rvl_fair *f, struct rvl_share *s, uint32_t class, uint64_t ns)
{
	for (uint32_t c = 0; c < RIVULET_PRIOS; c++) {
		uint64_t most = f->v[c] + RVL_FAIR_DEBT, v = at_least(s->in[c].v, f->v[c]);

		if (c == class || v >= most)
			continue;
		s->in[c].v = ns < most - v ? v + ns : most;
	}
}

/* The time for which the device is kept idle for a share is charged to it. */
static void charge_wait(struct rvl_fair *f, uint64_t now)
{
	struct rvl_share *s = f->held;

	if (s && now > f->held_since)
		s->in[f->held_class].v += now - f->held_since;
	f->held = NULL;
}

static void hold(struct rvl_fair *f, struct rvl_share *s, uint32_t class, uint64_t now)
{
	if (f->started)
		return;
	f->held = s;
	f->held_class = class;
	f->held_since = now;
}

/* Of @ns that run @r has taken, the part in which class @c waited. */
static uint64_t waited(const struct rvl_fair *f, uint32_t c, const struct rvl_slot *r, uint64_t ns)
{
	uint64_t before = f->waits_since[c] > r->started ? f->waits_since[c] - r->started : 0;

	return ns > before ? ns - before : 0;
}

/*
 * What class @c is owed, with the part of the runs under way. Otherwise a class would get nothing
 * during a run of minutes of a higher class.
 */
static int64_t owed_now(const struct rvl_fair *f, uint32_t c, uint64_t now)
{
	int64_t sum = f->owed[c];
	struct rvl_slot *r;

	rvl_list_each(r, &f->under_way, under_way)
		if (r->priority > c)
			sum += (int64_t)(waited(f, c, r, now - r->started) / RVL_FAIR_FLOOR);
	return sum;
}

/* Of the time of one run that has ended, the active classes below it are owed a part. */
static void owe(struct rvl_fair *f, const struct rvl_slot *s, uint64_t service, uint64_t now)
{
	for (uint32_t c = 0; c < s->priority; c++) {
		f->owed[c] += (int64_t)(waited(f, c, s, service) / RVL_FAIR_FLOOR);
		if (f->owed[c] > 0 && !first_active(f, c, now))
			f->owed[c] = 0;
	}
}

/* ---- a slot's life ---- */

static void add_promise(struct rvl_fair *f, struct rvl_slot *s)
{
	struct rvl_list *at = &f->promises;
	struct rvl_slot *p;

	rvl_list_each(p, &f->promises, promise)
		if (before(s, p)) {
			at = &p->promise;
			break;
		}
	rvl_list_add_tail(at, &s->promise);
}

/* A class that was idle waits from now on. Idle time repays what it owes, and gives no credit. */
static void begin_waiting(struct rvl_fair *f, uint32_t class, uint64_t now)
{
	int64_t owed = owed_now(f, class, now);

	f->owed[class] = owed < 0 ? owed : 0;
	f->waits_since[class] = now;
}

/* A share that was idle enters at the present virtual time, so that idle time gives no credit. */
static void arrive(struct rvl_fair *f, struct rvl_presence *p, uint32_t class, uint64_t now)
{
	uint64_t think;

	if (!first_active(f, class, now))
		begin_waiting(f, class, now);
	if (!is_active(p, now))
		p->v = at_least(p->v, f->v[class]);
	if (p->queue.n || p->started || !p->ended)
		return;
	think = now - p->ended;
	think = think < 4 * RVL_FAIR_GRACE ? think : 4 * RVL_FAIR_GRACE;
	p->think = p->think - p->think / 4 + think / 4;
}

int rvl_fair_add(struct rvl_fair *f, struct rvl_slot *s, uint64_t now)
{
	struct rvl_presence *p = &s->share->in[s->priority];

	charge_wait(f, now);
	arrive(f, p, s->priority, now);
	if (heap_add(&p->queue, s))
		return -ENOMEM;
	s->queued = true;
	f->queued[s->priority]++;
	if (s->hard)
		add_promise(f, s);
	return 0;
}

void rvl_fair_remove(struct rvl_fair *f, struct rvl_slot *s)
{
	uint32_t c = s->priority;

	heap_remove(&s->share->in[c].queue, s);
	rvl_list_del(&s->promise);
	s->queued = false;
	f->queued[c]--;
}

static bool is_above_active(const struct rvl_fair *f, uint32_t class, uint64_t now)
{
	while (++class < RIVULET_PRIOS)
		if (first_active(f, class, now))
			return true;
	return false;
}

void rvl_fair_start(struct rvl_fair *f, struct rvl_slot *s, uint64_t now)
{
	uint32_t c = s->priority;
	struct rvl_presence *p = &s->share->in[c];

	f->v[c] = at_least(f->v[c], first_active(f, c, now)->in[c].v);
	s->by_floor = is_above_active(f, c, now);
	s->started = now;
	s->charged = s->expected < RVL_FAIR_ADVANCE ? s->expected : RVL_FAIR_ADVANCE;
	p->v += s->charged;
	p->started++;
	f->started++;
	if (s->by_floor)
		f->owed[c] -= (int64_t)s->charged;
	rvl_fair_remove(f, s);
	rvl_list_add_tail(&f->under_way, &s->under_way);
}

void rvl_fair_end(struct rvl_fair *f, struct rvl_slot *s, uint64_t now, uint64_t service)
{
	uint32_t c = s->priority;
	struct rvl_presence *p = &s->share->in[c];

	rvl_list_del(&s->under_way);
	p->v += service - s->charged;
	p->started--;
	p->ended = now;
	f->started--;
	if (s->by_floor)
		f->owed[c] += (int64_t)(s->charged - service);
	owe(f, s, service, now);
	charge_others(f, s->share, c, service);
}

/* ---- the choice ---- */

/*
 * When @first, which has no run to wait for, has caught up by @gap; UINT64_MAX: not before a run
 * ends.
 * @gap may grow meanwhile, hence the least time between two attempts.
 */
static uint64_t caught_up(const struct rvl_fair *f, const struct rvl_share *first, uint32_t c,
			  uint64_t gap, uint64_t now)
{
	uint64_t left = exceeds_in(f, first, c, now);

	return add_sat(now, at_least(add_sat(left, gap), RVL_FAIR_RETRY));
}

/* The next slot of class @c, or NULL when there is none or an active share must be waited for. */
static struct rvl_slot *choose(struct rvl_fair *f, uint32_t c, uint64_t now, uint64_t *wake)
{
	struct rvl_share *first = first_active(f, c, now), *best = first_queued(f, c, now);
	uint64_t until, behind = 0, ahead = 0;

	if (best) {
		behind = virtual_time(f, first, c, now) + RVL_FAIR_GRACE;
		ahead = virtual_time(f, best, c, now);
		if (ahead <= behind)
			return head(best, c);
	}
	until = first ? expected_until(&first->in[c], now) : 0;
	if (until)
		hold(f, first, c, now);
	else if (best)
		until = caught_up(f, first, c, ahead - behind, now);
	if (until && until < *wake)
		*wake = until;
	return NULL;
}

/* When the class of a queued slot will have earned its time, if the runs under way continue. */
static uint64_t earned_at(const struct rvl_fair *f, const struct rvl_slot *s, uint64_t now)
{
	uint64_t due = s->expected < RVL_FAIR_EARNED ? s->expected : RVL_FAIR_EARNED;
	int64_t missing = (int64_t)at_least(due, 1) - owed_now(f, s->priority, now);
	uint64_t higher = 0;
	struct rvl_slot *r;

	if (missing <= 0)
		return now;
	rvl_list_each(r, &f->under_way, under_way)
		higher += r->priority > s->priority;
	return higher ? add_sat(now, (uint64_t)missing * RVL_FAIR_FLOOR / higher + 1) : UINT64_MAX;
}

/* A lower class whose floor is due. @wake: lowered to the time at which one will be. */
static struct rvl_slot *choose_owed(const struct rvl_fair *f, uint32_t top, uint64_t now,
				    uint64_t *wake)
{
	for (uint32_t c = 0; c < top; c++) {
		struct rvl_share *s = first_queued(f, c, now);
		uint64_t at = s ? earned_at(f, head(s, c), now) : UINT64_MAX;

		if (at <= now)
			return head(s, c);
		*wake = at < *wake ? at : *wake;
	}
	return NULL;
}

/* No run waits, so no share may keep a lead or a debt. */
static void forget_debts(struct rvl_fair *f)
{
	struct rvl_share *s;

	rvl_list_each(s, &f->shares, link)
		for (uint32_t c = 0; c < RIVULET_PRIOS; c++)
			f->v[c] = at_least(f->v[c], s->in[c].v);
}

static struct rvl_slot *fair_choice(struct rvl_fair *f, uint64_t now, uint64_t *wake)
{
	struct rvl_slot *owed;

	for (uint32_t c = RIVULET_PRIOS; c-- > 0;) {
		if (!first_active(f, c, now))
			continue;
		owed = choose_owed(f, c, now, wake);
		return owed ? owed : choose(f, c, now, wake);
	}
	forget_debts(f);
	return NULL;
}

/*
 * The promise that must be started now, because it or one behind it would be late if @fair, or
 * nothing, went first. A promise that cannot be kept is returned too, and its start fails.
 */
static struct rvl_slot *due_promise(const struct rvl_fair *f, const struct rvl_slot *fair,
				    uint64_t now, uint64_t busy, uint64_t stall)
{
	uint64_t finish = add_sat(add_sat(now, busy), stall);
	struct rvl_slot *p, *first = NULL;

	finish = add_sat(finish, fair ? fair->worst : RVL_FAIR_GRACE);
	rvl_list_each(p, &f->promises, promise) {
		if (p == fair || p->share->barred)
			continue;
		if (add_sat(now, p->worst) > p->deadline)
			return p;
		first = first ? first : p;
		finish = add_sat(finish, p->worst);
		if (finish > p->deadline)
			return first;
	}
	return NULL;
}

struct rvl_slot *rvl_fair_pick(struct rvl_fair *f, uint64_t now, uint64_t busy, uint64_t stall,
			       uint64_t *wake)
{
	struct rvl_slot *fair, *due;

	*wake = UINT64_MAX;
	charge_wait(f, now);
	fair = fair_choice(f, now, wake);
	due = due_promise(f, fair, now, busy, stall);
	if (due)
		f->held = NULL;
	return due ? due : fair;
}

// SPDX-License-Identifier: MIT
/*
 * The order of runs under a clock of the test: clients that send runs one at a time or flood, a device
 * that takes them in the order of their start, and what share of its time each client gets.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../chance.h"
#include "fair.h"
#include "suite.h"

#define MS		NSEC_PER_MSEC
#define CLIENTS		8
#define RUNS		64
#define PARALLEL	2

struct job {
	struct rvl_slot slot;
	struct client *client;
	bool used;
};

/** struct client - @depth runs at a time; @think ns after one has ended the next one is sent */
struct client {
	struct rvl_share *share;
	uint32_t priority, depth;
	uint64_t run, think;
	uint64_t ahead;		/* of its deadlines, from the arrival on; 0: none */
	bool hard;
	uint64_t claims;	/* expected time that it claims; 0: the true one */
	uint64_t from, until;	/* sends only then; until 0: always */
	/* what came of it */
	uint64_t service, runs, late, refused, longest_wait;
	uint64_t next[RUNS];	/* when each of its @depth places sends */
	struct job job[RUNS];
};

static struct rvl_fair fair;
static struct client client[CLIENTS];
static uint32_t clients;
static struct rvl_share share[CLIENTS];
static struct job *flight[PARALLEL];
static uint32_t in_flight;
static uint64_t now, device_idle;
static struct rvl_text err;

static void reset(void)
{
	memset(client, 0, sizeof(client));
	memset(share, 0, sizeof(share));
	rvl_fair_init(&fair);
	for (uint32_t i = 0; i < CLIENTS; i++)
		rvl_fair_join(&fair, &share[i]);
	clients = in_flight = 0;
	now = NSEC_PER_SEC;
	device_idle = 0;
}

static void tear_down(void)
{
	for (uint32_t i = 0; i < CLIENTS; i++)
		rvl_fair_leave(&fair, &share[i]);
}

static struct client *add_client(uint32_t user, uint32_t depth, uint64_t run, uint64_t think)
{
	struct client *c = &client[clients++];

	c->share = &share[user];
	c->priority = RIVULET_PRIO_NORMAL;
	c->depth = depth;
	c->run = run;
	c->think = think;
	return c;
}

static uint64_t busy(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < in_flight; i++)
		sum += flight[i]->slot.worst;
	return sum;
}

static void send(struct client *c, uint32_t place)
{
	struct job *j = &c->job[place];

	j->slot = (struct rvl_slot){ .share = c->share, .priority = c->priority, .arrival = now,
				     .deadline = c->ahead ? now + c->ahead : UINT64_MAX,
				     .expected = c->claims ? c->claims : c->run, .worst = c->run,
				     .hard = c->hard };
	j->client = c;
	if (c->hard && rvl_fair_admit(&fair, &j->slot, now, busy(), 0, &err)) {
		c->refused++;
		c->next[place] = now + c->run;
		return;
	}
	j->used = true;
	ck_assert_int_eq(rvl_fair_add(&fair, &j->slot, now), 0);
}

static void start_runs(uint64_t *wake)
{
	struct rvl_slot *s;
	struct job *j;

	*wake = UINT64_MAX;
	while (in_flight < PARALLEL) {
		s = rvl_fair_pick(&fair, now, busy(), 0, wake);
		if (!s)
			return;
		rvl_fair_start(&fair, s, now);
		j = rvl_container(s, struct job, slot);
		if (now - s->arrival > j->client->longest_wait)
			j->client->longest_wait = now - s->arrival;
		flight[in_flight++] = j;
		if (in_flight == 1)
			device_idle = now;
	}
}

/* The first run under way ends: the device takes them one after the other. */
static void end_run(void)
{
	struct job *j = flight[0];
	struct client *c = j->client;

	memmove(flight, flight + 1, --in_flight * sizeof(*flight));
	rvl_fair_end(&fair, &j->slot, now, c->run);
	c->service += c->run;
	c->runs++;
	c->late += now > j->slot.deadline;
	j->used = false;
	c->next[j - c->job] = now + c->think;
	device_idle = now;
}

static uint64_t next_arrival(struct client **who, uint32_t *place)
{
	uint64_t at = UINT64_MAX, t;

	for (uint32_t i = 0; i < clients; i++)
		for (uint32_t k = 0; k < client[i].depth; k++) {
			t = client[i].next[k] > client[i].from ? client[i].next[k] : client[i].from;
			if (client[i].job[k].used || t >= at || (client[i].until && t >= client[i].until))
				continue;
			at = t;
			*who = &client[i];
			*place = k;
		}
	return at;
}

static void simulate(uint64_t ns)
{
	uint64_t stop = now + ns, arrival, end, wake = UINT64_MAX, next;
	struct client *who = NULL;
	uint32_t place = 0;

	for (;;) {
		arrival = next_arrival(&who, &place);
		end = in_flight ? device_idle + flight[0]->client->run : UINT64_MAX;
		next = arrival < end ? arrival : end;
		next = wake < next ? wake : next;
		if (next >= stop)
			break;
		now = next > now ? next : now;
		if (next == end)
			end_run();
		else if (next == arrival)
			send(who, place);
		start_runs(&wake);
	}
	now = stop;
}

/* Percent of all service since the last reset. */
static double part(const struct client *c)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < clients; i++)
		sum += client[i].service;
	return 100.0 * (double)c->service / (double)sum;
}

/* One that sends a run at a time has its share beside a flooder with deadlines 1 ms ahead. */
START_TEST(flooder_with_deadlines)
{
	struct client *victim = add_client(0, 1, 20 * MS, MS / 5);
	struct client *flooder = add_client(1, 60, 20 * MS, 0);

	flooder->ahead = MS;
	simulate(20 * NSEC_PER_SEC);
	ck_assert_double_ge(part(victim), 47.5);
	ck_assert_double_le(part(victim), 52.5);
	ck_assert_uint_le(victim->longest_wait, 60 * MS);
}
END_TEST

/* Shares are of time, not of runs: long runs buy nothing, short ones lose nothing. */
START_TEST(long_runs)
{
	static const uint64_t other[] = { 1, 5, 33, 200, 1000 };
	struct client *victim = add_client(0, 1, 20 * MS, MS / 2);
	struct client *flooder = add_client(1, 60, other[_i] * MS, 0);

	simulate(60 * NSEC_PER_SEC);
	ck_assert_double_ge(part(victim), 47);
	ck_assert_double_ge(part(flooder), 47);
}
END_TEST

/* An expected time that is a lie changes nothing once the run was measured. */
START_TEST(lies)
{
	struct client *victim = add_client(0, 1, 20 * MS, MS / 5);
	struct client *liar = add_client(1, 60, 40 * MS, 0);

	liar->claims = _i ? 3600 * NSEC_PER_SEC : 1;
	simulate(30 * NSEC_PER_SEC);
	ck_assert_double_ge(part(victim), 45);
	ck_assert_double_ge(part(liar), 45);
}
END_TEST

/* Connections and requests do not count: two clients of one user have the share of one. */
START_TEST(users_not_clients)
{
	struct client *a = add_client(0, 30, 10 * MS, 0), *b = add_client(0, 30, 10 * MS, 0);
	struct client *c = add_client(1, 1, 10 * MS, MS / 10), *d = add_client(2, 2, 10 * MS, 0);

	simulate(30 * NSEC_PER_SEC);
	ck_assert_double_eq_tol(part(a) + part(b), 33.3, 2);
	ck_assert_double_eq_tol(part(c), 33.3, 2);
	ck_assert_double_eq_tol(part(d), 33.3, 2);
}
END_TEST

/* Who was idle gets its share from then on, and not what it did not use before. */
START_TEST(no_credit)
{
	struct client *early = add_client(0, 30, 20 * MS, 0), *late = add_client(1, 30, 20 * MS, 0);
	uint64_t before;

	late->from = now + 10 * NSEC_PER_SEC;
	simulate(10 * NSEC_PER_SEC);
	before = early->service;
	ck_assert_uint_ge(before, 9900 * MS);
	simulate(2 * NSEC_PER_SEC);
	ck_assert_uint_ge(early->service - before, 900 * MS);
	ck_assert_uint_ge(late->service, 900 * MS);
}
END_TEST

/* A client that makes the device wait for it pays with its own share. */
START_TEST(waiting_is_charged)
{
	struct client *idler = add_client(0, 1, MS / 10, 49 * MS / 10);
	struct client *victim = add_client(1, 30, 20 * MS, 0);
	uint64_t t = 20 * NSEC_PER_SEC;

	simulate(t);
	ck_assert_uint_ge(victim->service, t / 100 * 47);
	ck_assert_uint_ge(idler->runs, 100);
}
END_TEST

/* A client that comes now and then costs the others no idle device. */
START_TEST(camera)
{
	struct client *camera = add_client(0, 1, 5 * MS, 28 * MS);
	struct client *batch = add_client(1, 30, 50 * MS, 0);
	uint64_t t = 20 * NSEC_PER_SEC;

	simulate(t);
	ck_assert_uint_ge(camera->service + batch->service, t / 100 * 98);
	ck_assert_uint_le(camera->longest_wait, 100 * MS);
}
END_TEST

/* A higher class goes first, whoever it is of; the lower one gets its floor, and no more. */
START_TEST(classes)
{
	struct client *low = add_client(0, _i & 1 ? 1 : 30, 20 * MS, MS / 5);
	struct client *high = add_client(1, _i & 2 ? 1 : 30, 20 * MS, MS / 5);

	low->priority = _i & 4 ? RIVULET_PRIO_NORMAL : RIVULET_PRIO_LOW;
	low->claims = _i & 8 ? 1 : 0;
	high->priority = low->priority + 1;
	simulate(30 * NSEC_PER_SEC);
	ck_assert_double_ge(part(low), 5);
	ck_assert_double_le(part(low), 7);
}
END_TEST

/* The floor holds in each class at once. */
START_TEST(three_classes)
{
	struct client *c[RIVULET_PRIOS];

	for (uint32_t i = 0; i < RIVULET_PRIOS; i++) {
		c[i] = add_client(i, 10, 10 * MS, 0);
		c[i]->priority = i;
	}
	simulate(60 * NSEC_PER_SEC);
	ck_assert_double_ge(part(c[RIVULET_PRIO_LOW]), 5);
	ck_assert_double_ge(part(c[RIVULET_PRIO_NORMAL]), 5);
	ck_assert_double_ge(part(c[RIVULET_PRIO_HIGH]), 85);
}
END_TEST

/* What came later but is of a higher class is started first, of another user or the same. */
START_TEST(overtakes)
{
	struct rvl_slot normal[3], high;
	uint64_t wake;

	for (uint32_t i = 0; i < 3; i++) {
		normal[i] = (struct rvl_slot){ .share = &share[0], .priority = RIVULET_PRIO_NORMAL,
					       .deadline = 10 + i, .expected = MS };
		ck_assert_int_eq(rvl_fair_add(&fair, &normal[i], now), 0);
	}
	high = (struct rvl_slot){ .share = &share[_i], .priority = RIVULET_PRIO_HIGH,
				  .deadline = UINT64_MAX, .arrival = now, .expected = MS };
	ck_assert_int_eq(rvl_fair_add(&fair, &high, now), 0);
	ck_assert_ptr_eq(rvl_fair_pick(&fair, now, 0, 0, &wake), &high);
	rvl_fair_start(&fair, &high, now);
	/* While it is under way, and shortly after, lower classes wait. */
	ck_assert_ptr_null(rvl_fair_pick(&fair, now, 0, 0, &wake));
	now += MS;
	rvl_fair_end(&fair, &high, now, MS);
	ck_assert_ptr_null(rvl_fair_pick(&fair, now, 0, 0, &wake));
	ck_assert_uint_eq(wake, now + RVL_FAIR_GRACE);
	ck_assert_ptr_eq(rvl_fair_pick(&fair, wake, 0, 0, &wake), &normal[0]);
	for (uint32_t i = 0; i < 3; i++)
		rvl_fair_remove(&fair, &normal[i]);
}
END_TEST

/* A user who sends in two classes has no more of the time than one who sends in one. */
START_TEST(two_classes_of_one_user)
{
	struct client *a = add_client(0, 10, 20 * MS, 0), *b = add_client(0, 10, 20 * MS, 0);
	struct client *honest = add_client(1, 1, 20 * MS, MS / 5);

	b->priority = RIVULET_PRIO_LOW;
	simulate(60 * NSEC_PER_SEC);
	ck_assert_double_ge(part(honest), 48);
	ck_assert_double_ge(part(a) + part(b), 48);
}
END_TEST

/* Hours in another class are no reason for hours of waiting. */
START_TEST(debt_is_limited)
{
	struct client *high = add_client(0, 10, 20 * MS, 0), *after = add_client(0, 10, 20 * MS, 0);
	struct client *other = add_client(1, 10, 20 * MS, 0);
	uint64_t t = 600 * NSEC_PER_SEC, before;

	high->priority = RIVULET_PRIO_HIGH;
	high->until = now + t;
	after->from = now + t;
	simulate(t);
	before = other->service;
	simulate(4 * NSEC_PER_SEC);
	ck_assert_uint_ge(other->service - before, 1900 * MS);
	ck_assert_uint_ge(after->service, 1300 * MS);
}
END_TEST

/*
 * A run of minutes is charged a second at most in advance. Short runs of another user keep going beside
 * it, also when its estimate was too low, or when that user is ahead already.
 */
START_TEST(beside_a_long_run)
{
	struct rvl_slot minutes = { .share = &share[0], .priority = 1, .deadline = UINT64_MAX };
	struct rvl_slot brief = minutes, *got;
	uint64_t end = now + 600 * NSEC_PER_SEC, wake, pause, longest = 0, runs = 0;

	minutes.expected = minutes.worst = _i & 1 ? 5 * MS : 600 * NSEC_PER_SEC;
	brief.share = &share[1];
	brief.expected = brief.worst = 5 * MS;
	share[1].in[1].v = _i & 2 ? 1500 * MS : 0;
	ck_assert_int_eq(rvl_fair_add(&fair, &minutes, now), 0);
	ck_assert_ptr_eq(rvl_fair_pick(&fair, now, 0, 0, &wake), &minutes);
	rvl_fair_start(&fair, &minutes, now);
	ck_assert_int_eq(rvl_fair_add(&fair, &brief, now), 0);
	for (pause = now; now < end; pause = now) {
		while (!(got = rvl_fair_pick(&fair, now, 0, 0, &wake))) {
			ck_assert_uint_gt(wake, now);
			ck_assert_uint_lt(wake, end);
			now = wake;
		}
		longest = now - pause > longest ? now - pause : longest;
		ck_assert_ptr_eq(got, &brief);
		rvl_fair_start(&fair, &brief, now);
		now += 5 * MS;
		rvl_fair_end(&fair, &brief, now, 5 * MS);
		ck_assert_int_eq(rvl_fair_add(&fair, &brief, now), 0);
		runs++;
	}
	ck_assert_uint_ge(runs, 100000);
	ck_assert_uint_le(longest, 1500 * MS);
	rvl_fair_end(&fair, &minutes, now, 600 * NSEC_PER_SEC);
}
END_TEST

/* ---- within a share ---- */

static const struct rvl_slot *take(uint64_t service)
{
	uint64_t wake;
	struct rvl_slot *s = rvl_fair_pick(&fair, now, 0, 0, &wake);

	ck_assert_ptr_nonnull(s);
	rvl_fair_start(&fair, s, now);
	now += service;
	rvl_fair_end(&fair, s, now, service);
	return s;
}

/* The earliest deadline goes first, then the first come; any may be withdrawn. */
START_TEST(deadlines)
{
	enum { N = 200 };
	struct rvl_slot s[N], *last = NULL;
	uint64_t seed = 77;
	uint32_t left = N;

	for (uint32_t i = 0; i < N; i++) {
		s[i] = (struct rvl_slot){ .share = &share[0], .priority = 1, .arrival = i,
					  .deadline = chance_range(&seed, 0, 50 - 1), .expected = 1 };
		if (!s[i].deadline)
			s[i].deadline = UINT64_MAX;
		ck_assert_int_eq(rvl_fair_add(&fair, &s[i], now), 0);
	}
	for (uint32_t i = 0; i < N; i += 7, left--)
		rvl_fair_remove(&fair, &s[i]);
	for (; left; left--) {
		struct rvl_slot *got = (struct rvl_slot *)take(1);

		ck_assert_uint_ne((uint32_t)(got - s) % 7, 0);
		if (last && last->deadline == got->deadline)
			ck_assert_uint_lt(last->arrival, got->arrival);
		else if (last)
			ck_assert_uint_lt(last->deadline, got->deadline);
		last = got;
	}
	ck_assert_uint_eq(fair.queued[1], 0);
}
END_TEST

/* Leaving and joining again does not wash off what was used; an idle system forgets it. */
START_TEST(debts)
{
	struct rvl_slot a[2], b;
	uint64_t wake;

	a[0] = (struct rvl_slot){ .share = &share[0], .priority = 1, .deadline = 1 };
	a[1] = a[0];
	b = (struct rvl_slot){ .share = &share[1], .priority = 1, .deadline = 1, .arrival = 1 };
	rvl_fair_add(&fair, &a[0], now);
	rvl_fair_add(&fair, &b, now);
	ck_assert_ptr_eq(take(100 * MS), &a[0]);
	ck_assert(rvl_fair_in_debt(&fair, &share[0]));
	ck_assert(!rvl_fair_in_debt(&fair, &share[1]));
	rvl_fair_add(&fair, &a[1], now);
	ck_assert_ptr_eq(take(100 * MS), &b);
	ck_assert_ptr_eq(take(MS), &a[1]);
	ck_assert_ptr_null(rvl_fair_pick(&fair, now + NSEC_PER_SEC, 0, 0, &wake));
	ck_assert(!rvl_fair_in_debt(&fair, &share[0]));
}
END_TEST

/* ---- promises ---- */

static struct rvl_slot promise(uint32_t user, uint64_t deadline_ms, uint64_t worst_ms)
{
	return (struct rvl_slot){ .share = &share[user], .priority = 1, .hard = true,
				  .deadline = now + deadline_ms * MS, .worst = worst_ms * MS,
				  .expected = worst_ms * MS };
}

static int admit(const struct rvl_slot *s, uint64_t busy_ms, uint64_t stall_ms)
{
	err.s[0] = 0;
	return rvl_fair_admit(&fair, s, now, busy_ms * MS, stall_ms * MS, &err);
}

/* What is under way, what was promised before and a late loop count; queued work does not. */
START_TEST(admits)
{
	struct rvl_slot soft = { .share = &share[0], .priority = 1, .deadline = 1, .worst = 1000 * MS };
	struct rvl_slot first = promise(0, 20, 10), fresh = promise(0, 30, 10);

	rvl_fair_add(&fair, &soft, now);
	ck_assert_int_eq(admit(&first, 10, 0), 0);
	ck_assert_int_eq(admit(&first, 9, 1), 0);
	ck_assert_int_eq(admit(&first, 10, 1), -ETIME);
	ck_assert_str_eq(err.s,
			 "would end in 21000 us (10000 us of it its own), 1000 us after its deadline");
	rvl_fair_add(&fair, &first, now);
	ck_assert_int_eq(admit(&fresh, 10, 0), 0);
	ck_assert_int_eq(admit(&fresh, 11, 0), -ETIME);
	/* One that is due earlier must not break the one that was promised. */
	fresh = promise(0, 15, 11);
	ck_assert_int_eq(admit(&fresh, 0, 0), -ETIME);
	ck_assert_ptr_nonnull(strstr(err.s, "promised before would miss its deadline by 1000 us"));
	fresh.worst = 10 * MS;
	ck_assert_int_eq(admit(&fresh, 0, 0), 0);
	/* What is broken already is not the newcomer's fault; times do not wrap. */
	ck_assert_int_eq(admit(&fresh, 100, 0), -ETIME);
	fresh = promise(0, 200, 10);
	ck_assert_int_eq(admit(&fresh, 100, 0), 0);
	fresh.worst = UINT64_MAX;
	ck_assert_int_eq(admit(&fresh, 0, 0), -ETIME);
	rvl_fair_remove(&fair, &soft);
	rvl_fair_remove(&fair, &first);
}
END_TEST

/* A user is promised its share of the time until a deadline, less what it is ahead. */
START_TEST(promises_within_the_share)
{
	struct rvl_slot other = { .share = &share[1], .priority = 1, .deadline = 1, .worst = MS };
	struct rvl_slot a = promise(0, 100, 40), b = promise(0, 100, 20);

	rvl_fair_add(&fair, &other, now);
	ck_assert_int_eq(admit(&a, 0, 0), 0);
	rvl_fair_add(&fair, &a, now);
	ck_assert_int_eq(admit(&b, 0, 0), -ETIME);
	ck_assert_str_eq(err.s, "this user's share before the deadline, one of 2 users, is 50000 us, "
			 "and 60000 us are used or promised");
	b.deadline = now + 120 * MS;
	ck_assert_int_eq(admit(&b, 0, 0), 0);
	share[0].in[1].v += MS;
	ck_assert_int_eq(admit(&b, 0, 0), -ETIME);
	/* Alone, all of the time can be promised. */
	rvl_fair_remove(&fair, &other);
	b.deadline = now + 60 * MS;
	ck_assert_int_eq(admit(&b, 0, 0), 0);
	rvl_fair_remove(&fair, &a);
}
END_TEST

/* A promise borrows when, and only when, it would be late otherwise. */
START_TEST(borrows)
{
	struct rvl_slot p = promise(0, 100, 10), soft[2];
	uint64_t wake;

	for (int i = 0; i < 2; i++) {
		soft[i] = (struct rvl_slot){ .share = &share[1], .priority = 1 + (uint32_t)i,
					     .deadline = 1, .worst = 50 * MS };
		rvl_fair_add(&fair, &soft[i], now);
	}
	share[0].in[1].v = 500 * MS;
	rvl_fair_add(&fair, &p, now);
	ck_assert_ptr_eq(rvl_fair_pick(&fair, now, 40 * MS, 0, &wake), &soft[1]);
	ck_assert_ptr_eq(rvl_fair_pick(&fair, now, 41 * MS, 0, &wake), &p);
	ck_assert_ptr_eq(rvl_fair_pick(&fair, now, 40 * MS, 1, &wake), &p);
	/* One that cannot be kept any more is returned, to be refused. */
	ck_assert_ptr_eq(rvl_fair_pick(&fair, now + 91 * MS, 0, 0, &wake), &p);
	rvl_fair_remove(&fair, &p);
	rvl_fair_remove(&fair, &soft[0]);
	rvl_fair_remove(&fair, &soft[1]);
}
END_TEST

/* Promises are kept beside floods of any kind, and flooding with them buys nothing. */
START_TEST(promises_kept)
{
	struct client *flood = add_client(0, 30, 30 * MS, 0), *fair_one = add_client(1, 1, 20 * MS, MS / 5);
	struct client *hard = add_client(2, 30, 15 * MS, MS), *high = NULL;

	hard->hard = true;
	hard->ahead = _i & 1 ? 400 * MS : 120 * MS;
	flood->ahead = MS;
	if (_i & 2) {
		high = add_client(3, 10, 25 * MS, 0);
		high->priority = RIVULET_PRIO_HIGH;
	}
	simulate(30 * NSEC_PER_SEC);
	ck_assert_uint_eq(hard->late, 0);
	/* Beside HIGH, the share is one of the floor of its class. */
	ck_assert_uint_ge(hard->runs, high ? 20 : 50);
	if (!high)
		ck_assert_double_ge(part(fair_one), 31);
	ck_assert_double_le(part(hard), 35);
}
END_TEST

/* ---- any load: nothing is lost, nobody starves, the device does not idle ---- */

START_TEST(any_load)
{
	uint64_t seed = (uint64_t)_i;
	uint64_t t = 20 * NSEC_PER_SEC, sum = 0, least = UINT64_MAX;

	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct client *c = add_client(i, 2 + chance_range(&seed, 0, 30 - 1), (1 + chance_range(&seed, 0, 60 - 1)) * MS, 0);

		c->ahead = chance_range(&seed, 0, 2 - 1) * MS * chance_range(&seed, 0, 100 - 1);
		c->claims = chance_range(&seed, 0, 2 - 1) * chance_range(&seed, 0, 1000 - 1) * MS;
	}
	simulate(t);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		sum += client[i].service;
		least = client[i].service < least ? client[i].service : least;
	}
	ck_assert_uint_ge(sum, t - 200 * MS);
	ck_assert_uint_ge(least, sum / CLIENTS / 100 * 90);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fair");
	TCase *t = tcase_create("order");

	tcase_add_checked_fixture(t, reset, tear_down);
	tcase_add_test(t, flooder_with_deadlines);
	tcase_add_loop_test(t, long_runs, 0, 5);
	tcase_add_loop_test(t, lies, 0, 2);
	tcase_add_test(t, users_not_clients);
	tcase_add_test(t, no_credit);
	tcase_add_test(t, waiting_is_charged);
	tcase_add_test(t, camera);
	tcase_add_loop_test(t, classes, 0, 16);
	tcase_add_test(t, three_classes);
	tcase_add_loop_test(t, overtakes, 0, 2);
	tcase_add_test(t, two_classes_of_one_user);
	tcase_add_test(t, debt_is_limited);
	tcase_add_loop_test(t, beside_a_long_run, 0, 4);
	tcase_add_test(t, deadlines);
	tcase_add_test(t, debts);
	tcase_add_test(t, admits);
	tcase_add_test(t, promises_within_the_share);
	tcase_add_test(t, borrows);
	tcase_add_loop_test(t, promises_kept, 0, 4);
	tcase_add_loop_test(t, any_load, 0, 10);
	suite_add_tcase(s, t);
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
/*
 * The order of runs under a simulated clock. Clients send runs one at a time or in floods, and the
 * device executes them in the order of their start. The tests check each client's share of the
 * device time.
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

/** struct client - sends a run @think ns after one ended, with at most @depth runs in flight */
struct client {
	struct rvl_share *share;
	uint32_t priority, depth;
	uint64_t run, think;
	uint64_t ahead;		/* deadlines are this many ns after the arrival; 0: none */
	bool hard;
	uint64_t claims;	/* the expected time that the client claims; 0: the true one */
	uint64_t from, until;	/* sends only in this period; @until 0: without end */
	/* results */
	uint64_t service, runs, late, refused, longest_wait;
	uint64_t next[RUNS];	/* time at which each of the @depth places sends its next run */
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

/* Ends the run in progress that started first, because the device executes runs in order. */
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
			if (client[i].job[k].used || t >= at || (client[i].until &&
								 t >= client[i].until))
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

/* Percentage of all service since the last reset. */
static double part(const struct client *c)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < clients; i++)
		sum += client[i].service;
	return 100.0 * (double)c->service / (double)sum;
}

/*
 * A client that sends one run at a time gets its share beside a flooder whose deadlines are 1 ms
 * ahead.
 */
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

/* Shares are of device time, not of runs, so the length of runs does not change them. */
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

/* A wrong expected time changes nothing once the run was measured. */
START_TEST(wrong_estimates)
{
	struct client *victim = add_client(0, 1, 20 * MS, MS / 5);
	struct client *claimant = add_client(1, 60, 40 * MS, 0);

	claimant->claims = _i ? 3600 * NSEC_PER_SEC : 1;
	simulate(30 * NSEC_PER_SEC);
	ck_assert_double_ge(part(victim), 45);
	ck_assert_double_ge(part(claimant), 45);
}
END_TEST

/* Shares are per user: two clients of one user have one share together. */
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

/* A client that was idle gets its share from its arrival on, and no credit for the time before. */
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

/* The time for which the device waits for a client's next run is charged to that client. */
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

/* A periodic client does not cause the device to idle while other clients have work. */
START_TEST(periodic)
{
	struct client *periodic = add_client(0, 1, 5 * MS, 28 * MS);
	struct client *batch = add_client(1, 30, 50 * MS, 0);
	uint64_t t = 20 * NSEC_PER_SEC;

	simulate(t);
	ck_assert_uint_ge(periodic->service + batch->service, t / 100 * 98);
	ck_assert_uint_le(periodic->longest_wait, 100 * MS);
}
END_TEST

/*
 * A higher class has precedence, whichever user it belongs to. The lower class gets its floor and
 * no more.
 */
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

/* The floor holds in all classes at once. */
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

/*
 * A run of a higher class that arrived later is started first, of another user and of the same
 * user.
 */
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
	/*
	 * While the HIGH run is in progress, and during the grace period after it, lower classes
	 * wait.
	 */
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

/* A user who sends in two classes gets no more time than one who sends in one class. */
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

/* The debt from hours of use of another class is limited to seconds of waiting. */
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
 * A run of minutes is charged at most one second in advance. Short runs of another user continue
 * beside it, even if its estimate was too low or that user is in debt.
 */
START_TEST(beside_a_long_run)
{
	struct rvl_slot minutes = { .share = &share[0], .priority = 1, .deadline = UINT64_MAX };
	struct rvl_slot brief = minutes, *picked;
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
		while (!(picked = rvl_fair_pick(&fair, now, 0, 0, &wake))) {
			ck_assert_uint_gt(wake, now);
			ck_assert_uint_lt(wake, end);
			now = wake;
		}
		longest = now - pause > longest ? now - pause : longest;
		ck_assert_ptr_eq(picked, &brief);
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

/*
 * Runs with the earliest deadline are first, and of equal deadlines the earliest arrival. Any run
 * may be removed.
 */
START_TEST(deadlines)
{
	enum { N = 200 };
	struct rvl_slot s[N], *last = NULL;
	uint64_t seed = 77;
	uint32_t left = N;

	for (uint32_t i = 0; i < N; i++) {
		s[i] = (struct rvl_slot){ .share = &share[0], .priority = 1, .arrival = i,
					  .deadline = chance_range(&seed, 0, 50 - 1),
						  .expected = 1 };
		if (!s[i].deadline)
			s[i].deadline = UINT64_MAX;
		ck_assert_int_eq(rvl_fair_add(&fair, &s[i], now), 0);
	}
	for (uint32_t i = 0; i < N; i += 7, left--)
		rvl_fair_remove(&fair, &s[i]);
	for (; left; left--) {
		struct rvl_slot *picked = (struct rvl_slot *)take(1);

		ck_assert_uint_ne((uint32_t)(picked - s) % 7, 0);
		if (last && last->deadline == picked->deadline)
			ck_assert_uint_lt(last->arrival, picked->arrival);
		else if (last)
			ck_assert_uint_lt(last->deadline, picked->deadline);
		last = picked;
	}
	ck_assert_uint_eq(fair.queued[1], 0);
}
END_TEST

/* A share keeps its debt when its user leaves and returns. An idle system clears debts. */
START_TEST(debt_is_kept)
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

/* ---- admission of hard deadlines ---- */

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

/*
 * Admission counts the run in progress, admitted runs, and the stall of the event loop, but not
 * queued soft runs.
 */
START_TEST(admits)
{
	struct rvl_slot soft = { .share = &share[0], .priority = 1, .deadline = 1,
				 .worst = 1000 * MS };
	struct rvl_slot first = promise(0, 20, 10), later = promise(0, 30, 10);

	rvl_fair_add(&fair, &soft, now);
	ck_assert_int_eq(admit(&first, 10, 0), 0);
	ck_assert_int_eq(admit(&first, 9, 1), 0);
	ck_assert_int_eq(admit(&first, 10, 1), -ETIME);
	ck_assert_str_eq(err.s,
			 "would end in 21000 us (10000 us of it its own), 1000 us after its "
			 "deadline");
	rvl_fair_add(&fair, &first, now);
	ck_assert_int_eq(admit(&later, 10, 0), 0);
	ck_assert_int_eq(admit(&later, 11, 0), -ETIME);
	/* A run with an earlier deadline must not delay an admitted run beyond its deadline. */
	later = promise(0, 15, 11);
	ck_assert_int_eq(admit(&later, 0, 0), -ETIME);
	ck_assert_ptr_nonnull(strstr(err.s, "promised before would miss its deadline by 1000 us"));
	later.worst = 10 * MS;
	ck_assert_int_eq(admit(&later, 0, 0), 0);
	/* A deadline that cannot be kept anyway does not refuse a later run. Times do not wrap. */
	ck_assert_int_eq(admit(&later, 100, 0), -ETIME);
	later = promise(0, 200, 10);
	ck_assert_int_eq(admit(&later, 100, 0), 0);
	later.worst = UINT64_MAX;
	ck_assert_int_eq(admit(&later, 0, 0), -ETIME);
	rvl_fair_remove(&fair, &soft);
	rvl_fair_remove(&fair, &first);
}
END_TEST

/* A user is admitted up to its share of the time until the deadline, less its debt. */
START_TEST(promises_within_the_share)
{
	struct rvl_slot other = { .share = &share[1], .priority = 1, .deadline = 1, .worst = MS };
	struct rvl_slot a = promise(0, 100, 40), b = promise(0, 100, 20);

	rvl_fair_add(&fair, &other, now);
	ck_assert_int_eq(admit(&a, 0, 0), 0);
	rvl_fair_add(&fair, &a, now);
	ck_assert_int_eq(admit(&b, 0, 0), -ETIME);
	ck_assert_str_eq(err.s, "this user's share before the deadline, one of 2 users, is 50000 "
				"us, "
			 "and 60000 us are used or promised");
	b.deadline = now + 120 * MS;
	ck_assert_int_eq(admit(&b, 0, 0), 0);
	share[0].in[1].v += MS;
	ck_assert_int_eq(admit(&b, 0, 0), -ETIME);
	/* A single user can be admitted for all of the time. */
	rvl_fair_remove(&fair, &other);
	b.deadline = now + 60 * MS;
	ck_assert_int_eq(admit(&b, 0, 0), 0);
	rvl_fair_remove(&fair, &a);
}
END_TEST

/*
 * A hard run takes another user's turn when, and only when, it would miss its deadline otherwise.
 */
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
	/* A run that cannot meet its deadline is returned, so that the caller refuses it. */
	ck_assert_ptr_eq(rvl_fair_pick(&fair, now + 91 * MS, 0, 0, &wake), &p);
	rvl_fair_remove(&fair, &p);
	rvl_fair_remove(&fair, &soft[0]);
	rvl_fair_remove(&fair, &soft[1]);
}
END_TEST

/*
 * Admitted runs meet their deadlines beside floods of any kind, and a flood of hard deadlines gets
 * no more than its share.
 */
START_TEST(promises_kept)
{
	struct client *flood = add_client(0, 30, 30 * MS, 0), *fair_one = add_client(1, 1, 20 * MS,
										     MS / 5);
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
	/* Beside a flood of HIGH runs, the share is a part of its class's floor. */
	ck_assert_uint_ge(hard->runs, high ? 20 : 50);
	if (!high)
		ck_assert_double_ge(part(fair_one), 31);
	ck_assert_double_le(part(hard), 35);
}
END_TEST

/* ---- any load: every run ends, every client progresses, the device does not idle ---- */

START_TEST(any_load)
{
	uint64_t seed = (uint64_t)_i;
	uint64_t t = 20 * NSEC_PER_SEC, sum = 0, least = UINT64_MAX;

	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct client *c = add_client(i, 2 + chance_range(&seed, 0, 30 - 1),
					      (1 + chance_range(&seed, 0, 60 - 1)) * MS, 0);

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

/* ---- one slot at a time: exact numbers ---- */

static struct rvl_slot slot_of(uint32_t user, uint32_t priority, uint64_t deadline,
			       uint64_t arrival)
{
	return (struct rvl_slot){ .share = &share[user], .priority = priority,
				  .deadline = deadline, .arrival = arrival, .expected = 2 * MS,
				  .worst = 3 * MS };
}

static bool ordered(const struct rvl_slot *a, const struct rvl_slot *b)
{
	return a->deadline != b->deadline ? a->deadline < b->deadline : a->arrival <= b->arrival;
}

/*
 * Proves that a user's runs start in the order of deadlines, among equal ones of arrival, and
 * after any of them was withdrawn, too.
 */
START_TEST(queue_order)
{
	struct rvl_slot slot[50], *s, *last = NULL;
	uint64_t wake;
	int started = 0;

	for (uint32_t i = 0; i < 50; i++) {
		slot[i] = slot_of(0, RIVULET_PRIO_NORMAL, i % 3 ? i * 37 % 11 + 1 : UINT64_MAX, i);
		ck_assert_int_eq(rvl_fair_add(&fair, &slot[i], now), 0);
	}
	for (uint32_t i = 0; i < 50; i += 4)
		rvl_fair_remove(&fair, &slot[(i * 7 + 1) % 50]);
	ck_assert_uint_eq(fair.queued[RIVULET_PRIO_NORMAL], 37);
	while ((s = rvl_fair_pick(&fair, now, 0, 0, &wake))) {
		ck_assert(!last || ordered(last, s));
		ck_assert(s->queued);
		rvl_fair_start(&fair, s, now);
		ck_assert(!s->queued);
		rvl_fair_end(&fair, s, now, MS);
		last = s;
		started++;
	}
	ck_assert_int_eq(started, 37);
	ck_assert_uint_eq(fair.queued[RIVULET_PRIO_NORMAL], 0);
}
END_TEST

/* Proves that promises are kept in the order of their deadlines, whatever order they come in. */
START_TEST(promise_order)
{
	static const uint64_t deadlines[] = { 30, 10, 20, 10, 40, 5 };
	struct rvl_slot slot[6], *s, *last = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < 6; i++) {
		slot[i] = slot_of(i % 3, RIVULET_PRIO_NORMAL, now + deadlines[i] * MS, i);
		slot[i].hard = i != 4;
		ck_assert_int_eq(rvl_fair_add(&fair, &slot[i], now), 0);
	}
	rvl_list_each(s, &fair.promises, promise) {
		ck_assert(!last || ordered(last, s));
		last = s;
		n++;
	}
	ck_assert_uint_eq(n, 5);
	ck_assert_ptr_eq(fair.promises.next, &slot[5].promise);
	for (uint32_t i = 0; i < 6; i++)
		rvl_fair_remove(&fair, &slot[i]);
	ck_assert_ptr_eq(fair.promises.next, &fair.promises);
}
END_TEST

/*
 * Proves what a run costs its user: the expected time when it starts, the true time when it has
 * ended, and the same in the other classes, up to a second there.
 */
START_TEST(charges)
{
	struct rvl_slot s = slot_of(0, RIVULET_PRIO_NORMAL, UINT64_MAX, 0);
	struct rvl_presence *in = share[0].in;

	ck_assert_int_eq(rvl_fair_add(&fair, &s, now), 0);
	rvl_fair_start(&fair, &s, now);
	ck_assert_uint_eq(in[RIVULET_PRIO_NORMAL].v, 2 * MS);
	ck_assert_uint_eq(in[RIVULET_PRIO_LOW].v, 0);
	ck_assert_uint_eq(in[RIVULET_PRIO_NORMAL].started, 1);
	ck_assert_uint_eq(fair.started, 1);
	rvl_fair_end(&fair, &s, now + 7 * MS, 7 * MS);
	for (uint32_t c = 0; c < RIVULET_PRIOS; c++)
		ck_assert_uint_eq(in[c].v, 7 * MS);
	ck_assert_uint_eq(in[RIVULET_PRIO_NORMAL].ended, now + 7 * MS);
	ck_assert_uint_eq(fair.started + in[RIVULET_PRIO_NORMAL].started, 0);
	/* An expected time above a second counts as a second until the true time is known. */
	s = slot_of(0, RIVULET_PRIO_NORMAL, UINT64_MAX, 0);
	s.expected = 5 * NSEC_PER_SEC;
	ck_assert_int_eq(rvl_fair_add(&fair, &s, now), 0);
	rvl_fair_start(&fair, &s, now);
	ck_assert_uint_eq(in[RIVULET_PRIO_NORMAL].v, 7 * MS + NSEC_PER_SEC);
	rvl_fair_end(&fair, &s, now, 3 * NSEC_PER_SEC);
	ck_assert_uint_eq(in[RIVULET_PRIO_NORMAL].v, 7 * MS + 3 * NSEC_PER_SEC);
	ck_assert_uint_eq(in[RIVULET_PRIO_LOW].v, NSEC_PER_SEC);
	ck_assert_uint_eq(in[RIVULET_PRIO_HIGH].v, NSEC_PER_SEC);
	ck_assert(rvl_fair_in_debt(&fair, &share[0]));
	ck_assert(!rvl_fair_in_debt(&fair, &share[1]));
}
END_TEST

/* Proves that a class below the one that ran is owed a sixteenth while it has runs, and no more. */
START_TEST(floor_of_lower_classes)
{
	struct rvl_slot high = slot_of(0, RIVULET_PRIO_HIGH, UINT64_MAX, 0);
	struct rvl_slot low = slot_of(1, RIVULET_PRIO_LOW, UINT64_MAX, 1), *s;
	uint64_t wake;

	ck_assert_int_eq(rvl_fair_add(&fair, &low, now), 0);
	ck_assert_int_eq(rvl_fair_add(&fair, &high, now), 0);
	rvl_fair_start(&fair, &high, now);
	ck_assert(!high.by_floor);
	rvl_fair_end(&fair, &high, now, 31 * MS);
	ck_assert_int_eq(fair.owed[RIVULET_PRIO_LOW], 31 * MS / 16);
	ck_assert_int_eq(fair.owed[RIVULET_PRIO_NORMAL], 0);
	ck_assert_int_eq(fair.owed[RIVULET_PRIO_HIGH], 0);
	/* Two milliseconds are owed to the lower class, which is less than its run takes. */
	high = slot_of(0, RIVULET_PRIO_HIGH, UINT64_MAX, 2);
	ck_assert_int_eq(rvl_fair_add(&fair, &high, now), 0);
	ck_assert_ptr_eq(rvl_fair_pick(&fair, now, 0, 0, &wake), &high);
	rvl_fair_start(&fair, &high, now);
	rvl_fair_end(&fair, &high, now, 2 * MS);
	ck_assert_int_ge(fair.owed[RIVULET_PRIO_LOW], 2 * MS);
	high = slot_of(0, RIVULET_PRIO_HIGH, UINT64_MAX, 3);
	ck_assert_int_eq(rvl_fair_add(&fair, &high, now), 0);
	s = rvl_fair_pick(&fair, now, 0, 0, &wake);
	ck_assert_ptr_eq(s, &low);
	/* The run is charged to the user by its true time. */
	rvl_fair_start(&fair, s, now);
	ck_assert(low.by_floor);
	ck_assert_int_eq(fair.owed[RIVULET_PRIO_LOW], 31 * MS / 16 + 2 * MS / 16 - 2 * MS);
	rvl_fair_end(&fair, s, now, 5 * MS);
	ck_assert_int_eq(fair.owed[RIVULET_PRIO_LOW],
			 (int64_t)(31 * MS / 16 + 2 * MS / 16) - (int64_t)(5 * MS));
	rvl_fair_remove(&fair, &high);
}
END_TEST

/*
 * Proves that a lower class earns its time while one run of a higher class is under way, from its
 * own arrival on, that it is woken then, and that the end of that run owes nothing twice.
 */
START_TEST(floor_beside_a_long_run)
{
	struct rvl_slot high = slot_of(0, RIVULET_PRIO_NORMAL, UINT64_MAX, 0);
	struct rvl_slot low = slot_of(1, RIVULET_PRIO_LOW, UINT64_MAX, 1);
	uint64_t wake, due, began = now;

	ck_assert_int_eq(rvl_fair_add(&fair, &high, now), 0);
	rvl_fair_start(&fair, &high, now);
	for (int i = 0; i < 3; i++) {
		/* The second run arrives at once, the third one after an idle second. */
		now += i == 1 ? 0 : NSEC_PER_SEC;
		low.expected = 2 * MS;
		ck_assert_int_eq(rvl_fair_add(&fair, &low, now), 0);
		due = now + 16 * 2 * MS;
		ck_assert_ptr_null(rvl_fair_pick(&fair, now, 0, 0, &wake));
		ck_assert_uint_le(wake, due + 16);
		ck_assert_ptr_null(rvl_fair_pick(&fair, due - 5 * MS, 0, 0, &wake));
		now = wake;
		ck_assert_ptr_eq(rvl_fair_pick(&fair, now, 0, 0, &wake), &low);
		rvl_fair_start(&fair, &low, now);
		ck_assert(low.by_floor);
		rvl_fair_end(&fair, &low, now, 2 * MS);
	}
	rvl_fair_end(&fair, &high, now, now - began);
	ck_assert_int_le(fair.owed[RIVULET_PRIO_LOW], MS / 100);
}
END_TEST

/*
 * Proves when the next run of a user who has none is waited for: for five milliseconds, by a share
 * that is behind and usually returns as quickly; the wait is charged to that user.
 */
START_TEST(waited_for)
{
	struct rvl_slot mine = slot_of(0, RIVULET_PRIO_NORMAL, UINT64_MAX, 0);
	struct rvl_slot other = slot_of(1, RIVULET_PRIO_NORMAL, UINT64_MAX, 1);
	uint64_t wake, v;

	ck_assert_int_eq(rvl_fair_add(&fair, &mine, now), 0);
	rvl_fair_start(&fair, &mine, now);
	rvl_fair_end(&fair, &mine, now, MS);
	share[1].in[RIVULET_PRIO_NORMAL].v = 100 * MS;
	ck_assert_int_eq(rvl_fair_add(&fair, &other, now), 0);
	ck_assert_uint_eq(rvl_fair_users(&fair, &share[1], now), 2);
	ck_assert_ptr_null(rvl_fair_pick(&fair, now, 0, 0, &wake));
	ck_assert_uint_eq(wake, now + RVL_FAIR_GRACE);
	v = share[0].in[RIVULET_PRIO_NORMAL].v;
	ck_assert_ptr_null(rvl_fair_pick(&fair, now + RVL_FAIR_GRACE - 1, 0, 0, &wake));
	ck_assert_uint_eq(share[0].in[RIVULET_PRIO_NORMAL].v, v + RVL_FAIR_GRACE - 1);
	ck_assert_ptr_eq(rvl_fair_pick(&fair, now + RVL_FAIR_GRACE, 0, 0, &wake), &other);
	ck_assert_uint_eq(wake, UINT64_MAX);
	ck_assert_uint_eq(share[0].in[RIVULET_PRIO_NORMAL].v, v + RVL_FAIR_GRACE);
	ck_assert_uint_eq(rvl_fair_users(&fair, &share[1], now + RVL_FAIR_GRACE), 1);
	/* A share that is not far ahead of it does not wait. */
	share[1].in[RIVULET_PRIO_NORMAL].v = share[0].in[RIVULET_PRIO_NORMAL].v + RVL_FAIR_GRACE;
	ck_assert_ptr_eq(rvl_fair_pick(&fair, now + 1, 0, 0, &wake), &other);
	rvl_fair_remove(&fair, &other);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fair");
	TCase *t = tcase_create("order");

	tcase_add_checked_fixture(t, reset, tear_down);
	tcase_add_test(t, flooder_with_deadlines);
	tcase_add_loop_test(t, long_runs, 0, 5);
	tcase_add_loop_test(t, wrong_estimates, 0, 2);
	tcase_add_test(t, users_not_clients);
	tcase_add_test(t, no_credit);
	tcase_add_test(t, waiting_is_charged);
	tcase_add_test(t, periodic);
	tcase_add_loop_test(t, classes, 0, 16);
	tcase_add_test(t, three_classes);
	tcase_add_loop_test(t, overtakes, 0, 2);
	tcase_add_test(t, two_classes_of_one_user);
	tcase_add_test(t, debt_is_limited);
	tcase_add_loop_test(t, beside_a_long_run, 0, 4);
	tcase_add_test(t, floor_beside_a_long_run);
	tcase_add_test(t, deadlines);
	tcase_add_test(t, debt_is_kept);
	tcase_add_test(t, admits);
	tcase_add_test(t, promises_within_the_share);
	tcase_add_test(t, borrows);
	tcase_add_loop_test(t, promises_kept, 0, 4);
	tcase_add_loop_test(t, any_load, 0, 10);
	tcase_add_test(t, queue_order);
	tcase_add_test(t, promise_order);
	tcase_add_test(t, charges);
	tcase_add_test(t, floor_of_lower_classes);
	tcase_add_test(t, waited_for);
	suite_add_tcase(s, t);
	return run_suite(s);
}

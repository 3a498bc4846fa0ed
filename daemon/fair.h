/* SPDX-License-Identifier: MIT */
/*
 * The order of runs. Pure: every function is given the time, and knows neither device nor session.
 *
 *   class   all runs of one priority. The highest active class goes first. A lower class that waits
 *           is owed 1/RVL_FAIR_FLOOR of the time that the higher classes take, counted while their
 *           runs are under way.
 *   share   one user. Within a class the share with the least virtual time goes first; virtual time
 *           is the time of device or CPU steps, whichever is longer, that its runs have taken. A run
 *           under way for longer than it was charged counts the difference until it is measured.
 *   slot    one run. Within a share and class the earliest deadline goes first, then the first come.
 *
 * A share is active in a class while it has a run queued or under way there, and for RVL_FAIR_GRACE
 * after its last run ended if its client usually sends the next run within that time. The device
 * waits for an active share that is behind by more than RVL_FAIR_GRACE instead of starting a run of
 * another one; otherwise a user who sends one run at a time would lose its turn between two of
 * them.
 *
 * Work per decision: linear in the number of users, logarithmic in the runs of one user, linear in
 * the promises (hard deadlines that were admitted).
 */
#ifndef RVL_FAIR_H
#define RVL_FAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "rivulet_proto.h"
#include "util.h"

#define RVL_FAIR_GRACE	(5 * NSEC_PER_MSEC)
#define RVL_FAIR_FLOOR	16u			/* 1/16 of the others' time is 1/17 of all */
#define RVL_FAIR_EARNED	(100 * NSEC_PER_MSEC)	/* most that a class must be owed for one run */
#define RVL_FAIR_ADVANCE NSEC_PER_SEC		/* most that a run is charged before it is measured */
#define RVL_FAIR_RETRY	NSEC_PER_MSEC		/* least time until a user who is ahead is tried again */
#define RVL_FAIR_DEBT	NSEC_PER_SEC		/* most that a run adds in classes not its own */

struct rvl_share;

/** struct rvl_slot - what order and admission must know of a run; owned by the run */
struct rvl_slot {
	struct rvl_share *share;
	uint32_t priority;	/* enum rivulet_priority: its class */
	bool hard;		/* its deadline was promised */
	uint64_t deadline;	/* ns; UINT64_MAX: none */
	uint64_t arrival;	/* ns; among equal deadlines the first come goes first */
	uint64_t expected;	/* ns that it is charged until its time is measured */
	uint64_t worst;		/* ns that it may take; promises count this */
	/* private */
	struct rvl_list promise, under_way;
	uint64_t started;	/* ns */
	uint32_t at;		/* place in the share's heap */
	bool queued, by_floor;
	uint64_t charged;
};

/** struct rvl_heap - the queued slots of one share and class, the next one first */
struct rvl_heap {
	struct rvl_slot **slot;
	uint32_t n, room;
};

/** struct rvl_presence - one share in one class */
struct rvl_presence {
	struct rvl_heap queue;
	uint32_t started;	/* runs under way */
	uint64_t v;		/* virtual time, ns */
	uint64_t ended;		/* when its last run ended; 0: none did */
	uint64_t think;		/* ns from a run's end to the next one's arrival, moving average */
};

/** struct rvl_share - one user */
struct rvl_share {
	struct rvl_list link;	/* in rvl_fair.shares */
	bool barred;		/* none of its queued slots is picked; set by the scheduler */
	struct rvl_presence in[RIVULET_PRIOS];
};

struct rvl_fair {
	struct rvl_list shares;
	struct rvl_list promises;	/* queued slots with @hard, by deadline */
	struct rvl_list under_way;	/* started slots */
	uint64_t v[RIVULET_PRIOS];	/* present virtual time: where a share without backlog enters */
	/* ns of ended runs of higher classes that this one may still take; below 0: it took more */
	int64_t owed[RIVULET_PRIOS];
	uint64_t waits_since[RIVULET_PRIOS];	/* when the class had its first run after being idle */
	uint32_t queued[RIVULET_PRIOS];
	uint32_t started;
	struct rvl_share *held;		/* the idle device waits for it since @held_since */
	uint32_t held_class;
	uint64_t held_since;
};

void rvl_fair_init(struct rvl_fair *f);
/** rvl_fair_join() - a zeroed share takes part */
void rvl_fair_join(struct rvl_fair *f, struct rvl_share *s);
/** rvl_fair_leave() - remove a share without slots, and free what it holds */
void rvl_fair_leave(struct rvl_fair *f, struct rvl_share *s);
/** rvl_fair_in_debt() - whether a share has had more than one that would join in its place */
bool rvl_fair_in_debt(const struct rvl_fair *f, const struct rvl_share *s);

/** rvl_fair_add() - queue a slot whose public members are set; -ENOMEM */
int rvl_fair_add(struct rvl_fair *f, struct rvl_slot *s, uint64_t now);
/** rvl_fair_remove() - a queued slot will not be started */
void rvl_fair_remove(struct rvl_fair *f, struct rvl_slot *s);
/**
 * rvl_fair_pick() - the slot to start now, which stays queued, or NULL
 * @busy: ns of work left of what is under way, at most; @stall: ns that the event loop may be late
 * @wake: when to ask again if nothing happens before; UINT64_MAX: never
 */
struct rvl_slot *rvl_fair_pick(struct rvl_fair *f, uint64_t now, uint64_t busy, uint64_t stall,
			       uint64_t *wake);
/** rvl_fair_start() - a queued slot is under way; its share is charged @expected */
void rvl_fair_start(struct rvl_fair *f, struct rvl_slot *s, uint64_t now);
/** rvl_fair_end() - a started slot has ended and took @service ns */
void rvl_fair_end(struct rvl_fair *f, struct rvl_slot *s, uint64_t now, uint64_t service);

/**
 * rvl_fair_admit() - may the deadline of @fresh, which is not queued yet, be promised (admit.c)
 * The promises must all be kept by running them in the order of their deadlines behind @busy, each
 * taking its worst time, with the loop late by @stall. A user is promised no more than its share of
 * the time until each deadline, of which it has used what its virtual time is ahead.
 * Returns 0, or -ETIME with @err: which deadline would be missed, by how much, or whose share ends.
 */
int rvl_fair_admit(const struct rvl_fair *f, const struct rvl_slot *fresh, uint64_t now,
		   uint64_t busy, uint64_t stall, struct rvl_text *err);
/** rvl_fair_users() - shares that are active in any class, @besides counted in any case */
uint32_t rvl_fair_users(const struct rvl_fair *f, const struct rvl_share *besides, uint64_t now);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The planner's answer by exhaustive search, by the definitions of docs/plan.md only. It
 * evaluates every combination of one candidate for each level. Tests compare the planner with it.
 */
#ifndef RVL_TEST_PLAN_ORACLE_H
#define RVL_TEST_PLAN_ORACLE_H

#include <math.h>
#include <string.h>

#include "rivulet_plan.h"

/*
 * The problem, and the measured cost and accuracy of every candidate. The costs in @p are not used.
 */
struct oracle {
	const struct rivulet_plan_problem *p;
	double seconds[RIVULET_PLAN_CANDIDATES][RIVULET_LEVELS]; /* by level of the board */
	double joule[RIVULET_PLAN_CANDIDATES][RIVULET_LEVELS];
	uint32_t ppm[RIVULET_PLAN_CANDIDATES];
};

static inline double oracle_seconds(const struct oracle *o, uint32_t i, uint32_t w)
{
	return o->seconds[w][o->p->level[i].level];
}

static inline bool oracle_ok(const struct oracle *o, uint32_t i, uint32_t w)
{
	return oracle_seconds(o, i, w) <= o->p->constraint && o->ppm[w] >= o->p->level[i].least;
}

static inline double oracle_joules(const struct oracle *o, uint32_t i, uint32_t w)
{
	double t = oracle_seconds(o, i, w), on = t;

	if (o->p->rate > 0 && o->p->awake)
		on = t > 1 / o->p->rate ? t : 1 / o->p->rate;
	return o->joule[w][o->p->level[i].level] + o->p->base_power * on;
}

static inline double oracle_reward(const struct oracle *o, const uint32_t *candidate)
{
	const struct rivulet_plan_problem *p = o->p;
	double most = 0, runs = 0, mean = 0, penalty = 0, range = (double)p->best - p->worst;

	for (uint32_t i = 0; i < p->n_levels; i++) {
		double best = 0;

		for (uint32_t w = 0; w < p->n_candidates; w++)
			best = fmax(best, p->level[i].joule / oracle_joules(o, i, w));
		most += best;
		runs += p->level[i].joule / oracle_joules(o, i, candidate[i]);
		mean += ((double)o->ppm[candidate[i]] - p->worst) / range / p->n_levels;
		for (uint32_t j = i + 1; j < p->n_levels; j++)
			if (o->ppm[candidate[j]] > o->ppm[candidate[i]] + p->tolerance)
				penalty = p->penalty;
	}
	return mean + runs / most - penalty;
}

/* The value of a combination by the objective. A higher value is better. */
static inline double oracle_value(const struct oracle *o, const uint32_t *candidate)
{
	const struct rivulet_plan_problem *p = o->p;
	double v = 0;

	if (p->objective == RIVULET_PLAN_REWARD)
		return oracle_reward(o, candidate);
	for (uint32_t i = 0; i < p->n_levels; i++) {
		uint32_t length = p->candidate[candidate[i]].length;

		if (p->objective == RIVULET_PLAN_RUNS)
			v += p->level[i].joule / oracle_joules(o, i, candidate[i]);
		else
			v += length ? length : 1e6;
	}
	return v;
}

/* The best value, and the first combination that has it; -INFINITY: no combination is feasible. */
static inline double oracle_exhaust(const struct oracle *o, uint32_t *best)
{
	uint32_t candidate[RIVULET_LEVELS] = { 0 }, n = o->p->n_levels, i;
	double most = -INFINITY;

	for (;;) {
		bool all = true;

		for (i = 0; i < n; i++)
			all &= oracle_ok(o, i, candidate[i]);
		if (all && oracle_value(o, candidate) > most) {
			most = oracle_value(o, candidate);
			memcpy(best, candidate, sizeof(candidate));
		}
		for (i = 0; i < n && ++candidate[i] == o->p->n_candidates; i++)
			candidate[i] = 0;
		if (i == n)
			return most;
	}
}

/*
 * For level @i alone: the least time that meets its accuracy, the highest accuracy within its time.
 */
static inline void oracle_missing(const struct oracle *o, uint32_t i, double *least, uint32_t *high)
{
	*least = INFINITY;
	*high = 0;
	for (uint32_t w = 0; w < o->p->n_candidates; w++) {
		double t = oracle_seconds(o, i, w);

		if (o->ppm[w] >= o->p->level[i].least)
			*least = fmin(*least, t);
		if (t <= o->p->constraint && o->ppm[w] > *high)
			*high = o->ppm[w];
	}
}

#endif

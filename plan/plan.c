/* SPDX-License-Identifier: MIT */
/*
 * The choice of a length for each level. Accuracy depends on the length only, time and energy on
 * length and level. With the objectives "accuracy" and "runs" the levels are independent. The
 * reward couples them by the order of their accuracies, and a dynamic program over the lowest
 * accuracy so far finds its optimum exactly.
 */
#include "rivulet_plan.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define CANDIDATES RIVULET_PLAN_CANDIDATES
#define NO_CANDIDATE UINT32_MAX

struct chooser {
	const struct rivulet_plan_problem *p;
	struct rvl_err *err;
	bool known[CANDIDATES];
	uint32_t ppm[CANDIDATES];
};

const char *rivulet_plan_objective_name(uint32_t objective)
{
#define WORD(name, word, doc) word,
	static const char *const words[] = { RIVULET_PLAN_OBJECTIVES(WORD) };
#undef WORD

	return objective < RIVULET_PLAN_OBJECTIVE_COUNT ? words[objective] : NULL;
}

int rivulet_plan_objective_find(const char *word)
{
	for (uint32_t i = 0; i < RIVULET_PLAN_OBJECTIVE_COUNT; i++)
		if (!strcmp(word, rivulet_plan_objective_name(i)))
			return (int)i;
	return -1;
}

double rivulet_plan_run_joule(const struct rivulet_plan_problem *p, uint32_t candidate,
			      uint32_t level)
{
	double t = p->candidate[candidate].seconds[level];
	double on = p->awake && p->rate > 0 ? fmax(t, 1 / p->rate) : t;

	return p->candidate[candidate].joule[level] + p->base_power * on;
}

static double run_joule(const struct chooser *c, uint32_t i, uint32_t candidate)
{
	return rivulet_plan_run_joule(c->p, candidate, c->p->level[i].level);
}

/* Seconds of an inference at level @i of the problem. */
static double run_seconds(const struct chooser *c, uint32_t i, uint32_t candidate)
{
	return c->p->candidate[candidate].seconds[c->p->level[i].level];
}

static bool fits(const struct chooser *c, uint32_t i, uint32_t candidate)
{
	return run_seconds(c, i, candidate) <= c->p->constraint;
}

static int accuracy(struct chooser *c, uint32_t candidate, uint32_t *ppm)
{
	int rc = c->known[candidate] ? 0 : c->p->accuracy(c->p->ctx, candidate, &c->ppm[candidate],
							  c->err);

	c->known[candidate] = !rc;
	*ppm = c->ppm[candidate];
	return rc;
}

/* ---- level by level ---- */

static uint64_t rank(uint32_t length)
{
	return length ? length : UINT32_MAX;
}

/* Whether a level prefers @a to @b. */
typedef bool before_fn(const struct chooser *c, uint32_t i, uint32_t a, uint32_t b);

static bool longer(const struct chooser *c, uint32_t i, uint32_t a, uint32_t b)
{
	(void)i;
	return rank(c->p->candidate[a].length) > rank(c->p->candidate[b].length);
}

static bool cheaper(const struct chooser *c, uint32_t i, uint32_t a, uint32_t b)
{
	double x = run_joule(c, i, a), y = run_joule(c, i, b);

	return x < y || (x == y && longer(c, i, a, b));
}

static bool quicker(const struct chooser *c, uint32_t i, uint32_t a, uint32_t b)
{
	double x = run_seconds(c, i, a), y = run_seconds(c, i, b);

	return x < y || (x == y && longer(c, i, a, b));
}

/*
 * The first candidate in that order that meets the level's accuracy and, with @timed, the
 * constraint, or NO_CANDIDATE.
 */
static int first_good(struct chooser *c, uint32_t i, before_fn *before, bool timed, uint32_t *out)
{
	bool seen[CANDIDATES] = { false };

	for (;;) {
		uint32_t next = NO_CANDIDATE, ppm;
		int rc;

		for (uint32_t w = 0; w < c->p->n_candidates; w++)
			if (!seen[w] && (!timed || fits(c, i, w)) &&
			    (next == NO_CANDIDATE || before(c, i, w, next)))
				next = w;
		*out = next;
		if (next == NO_CANDIDATE)
			return 0;
		rc = accuracy(c, next, &ppm);
		if (rc || ppm >= c->p->level[i].least)
			return rc;
		seen[next] = true;
	}
}

/* ---- the reward ---- */

static double most_runs(const struct rivulet_plan_problem *p)
{
	double sum = 0;

	for (uint32_t i = 0; i < p->n_levels; i++) {
		double least = INFINITY;

		for (uint32_t w = 0; w < p->n_candidates; w++)
			least = fmin(least, rivulet_plan_run_joule(p, w, p->level[i].level));
		sum += p->level[i].joule / least;
	}
	return sum;
}

/* The contribution of a level to the reward with a candidate of that accuracy. */
static double worth(const struct rivulet_plan_problem *p, uint32_t i, uint32_t candidate,
		    uint32_t ppm, double most)
{
	double a = ((double)ppm - p->worst) / ((double)p->best - p->worst);

	return a / p->n_levels +
	       p->level[i].joule / rivulet_plan_run_joule(p, candidate, p->level[i].level) / most;
}

/* Whether no level is more accurate than one before it. */
static bool ordered(const struct rivulet_plan_problem *p, const uint32_t *ppm)
{
	for (uint32_t j = 1; j < p->n_levels; j++)
		for (uint32_t i = 0; i < j; i++)
			if (ppm[j] > ppm[i] + p->tolerance)
				return false;
	return true;
}

/* The reward of a combination (docs/plan.md); @candidate and @ppm are by the problem's levels. */
static double plan_reward(const struct rivulet_plan_problem *p, const uint32_t *candidate,
			  const uint32_t *ppm)
{
	double most = most_runs(p), sum = 0;

	for (uint32_t i = 0; i < p->n_levels; i++)
		sum += worth(p, i, candidate[i], ppm[i], most);
	return ordered(p, ppm) ? sum : sum - p->penalty;
}

static bool good(const struct chooser *c, uint32_t i, uint32_t w)
{
	return fits(c, i, w) && c->ppm[w] >= c->p->level[i].least;
}

/*
 * f[i][m]: the maximum contribution of levels i and below if the lowest accuracy above is that of
 * candidate m; m = n_candidates: there is no level above.
 */
struct table {
	double f[RIVULET_LEVELS + 1][CANDIDATES + 1];
	uint32_t candidate[RIVULET_LEVELS][CANDIDATES + 1];
};

static void fill_cell(const struct chooser *c, struct table *t, uint32_t i, uint32_t m, double most)
{
	uint32_t n = c->p->n_candidates;
	uint64_t top = m < n ? (uint64_t)c->ppm[m] : UINT32_MAX;

	t->f[i][m] = -INFINITY;
	t->candidate[i][m] = NO_CANDIDATE;
	for (uint32_t w = 0; w < n; w++) {
		double v;

		if (!good(c, i, w) || c->ppm[w] > top + c->p->tolerance)
			continue;
		v = worth(c->p, i, w, c->ppm[w], most) + t->f[i + 1][c->ppm[w] < top ? w : m];
		if (v > t->f[i][m]) {
			t->f[i][m] = v;
			t->candidate[i][m] = w;
		}
	}
}

/* The best ordered combination. Returns false if there is none. */
static bool best_ordered(const struct chooser *c, uint32_t *candidate)
{
	static _Thread_local struct table t;
	uint32_t levels = c->p->n_levels, n = c->p->n_candidates, m = n;
	double most = most_runs(c->p);

	memset(t.f[levels], 0, sizeof(t.f[levels]));
	for (uint32_t i = levels; i-- > 0;)
		for (uint32_t k = 0; k <= n; k++)
			fill_cell(c, &t, i, k, most);
	for (uint32_t i = 0; i < levels; i++) {
		candidate[i] = t.candidate[i][m];
		if (candidate[i] == NO_CANDIDATE)
			return false;
		if (m == n || c->ppm[candidate[i]] < c->ppm[m])
			m = candidate[i];
	}
	return true;
}

/* The best choice of each level by itself, without regard to the order. */
static void best_apart(const struct chooser *c, uint32_t *candidate)
{
	double most = most_runs(c->p);

	for (uint32_t i = 0; i < c->p->n_levels; i++) {
		double v, best = -INFINITY;

		candidate[i] = NO_CANDIDATE;
		for (uint32_t w = 0; w < c->p->n_candidates; w++) {
			v = good(c, i, w) ? worth(c->p, i, w, c->ppm[w], most) : -INFINITY;
			if (v > best) {
				best = v;
				candidate[i] = w;
			}
		}
	}
}

static double reward_of(const struct chooser *c, const uint32_t *candidate)
{
	uint32_t ppm[RIVULET_LEVELS] = { 0 };

	for (uint32_t i = 0; i < c->p->n_levels; i++)
		ppm[i] = c->ppm[candidate[i]];
	return plan_reward(c->p, candidate, ppm);
}

static int choose_reward(struct chooser *c, uint32_t *candidate)
{
	uint32_t apart[RIVULET_LEVELS], ppm;
	int rc = 0;

	for (uint32_t w = 0; w < c->p->n_candidates && !rc; w++)
		for (uint32_t i = 0; i < c->p->n_levels && !rc; i++)
			if (fits(c, i, w))
				rc = accuracy(c, w, &ppm);
	if (rc)
		return rc;
	best_apart(c, apart);
	for (uint32_t i = 0; i < c->p->n_levels; i++)
		if (apart[i] == NO_CANDIDATE) {
			memcpy(candidate, apart, sizeof(apart));
			return 0;
		}
	if (!best_ordered(c, candidate) || reward_of(c, apart) > reward_of(c, candidate))
		memcpy(candidate, apart, sizeof(apart));
	return 0;
}

/* ---- the answer ---- */

/* Reports the time that one level needs, and the accuracy that it can reach. */
static int say_missing(struct chooser *c, uint32_t i, struct rivulet_plan_answer *a)
{
	uint32_t w, ppm;
	int rc = first_good(c, i, quicker, false, &w);

	if (rc)
		return rc;
	a->level_time[i] = w == NO_CANDIDATE ? INFINITY : run_seconds(c, i, w);
	for (w = 0; w < c->p->n_candidates && !rc; w++) {
		if (!fits(c, i, w))
			continue;
		rc = accuracy(c, w, &ppm);
		a->highest[i] = !rc && ppm > a->highest[i] ? ppm : a->highest[i];
	}
	return rc;
}

static int infeasible(struct chooser *c, struct rivulet_plan_answer *a)
{
	for (uint32_t i = 0; i < c->p->n_levels; i++) {
		int rc = say_missing(c, i, a);

		if (rc)
			return rc;
		a->least_time = fmax(a->least_time, a->level_time[i]);
	}
	return 0;
}

static void sum_up(const struct chooser *c, struct rivulet_plan_answer *a)
{
	const struct rivulet_plan_problem *p = c->p;

	for (uint32_t i = 0; i < p->n_levels; i++) {
		double t = run_seconds(c, i, a->candidate[i]);

		a->ppm[i] = c->ppm[a->candidate[i]];
		a->level_runs[i] = p->level[i].joule / run_joule(c, i, a->candidate[i]);
		a->runs += a->level_runs[i];
		a->level_seconds[i] = a->level_runs[i] * (p->rate > 0 ? fmax(t, 1 / p->rate) : t);
		a->seconds += a->level_seconds[i];
	}
	a->reward = plan_reward(p, a->candidate, a->ppm);
}

static int check(const struct rivulet_plan_problem *p, struct rvl_err *err)
{
	if (!p->n_candidates || p->n_candidates > CANDIDATES || !p->n_levels ||
	    p->n_levels > RIVULET_LEVELS)
		return rvl_fail(err, -EINVAL, "%u lengths and %u levels cannot be planned",
				p->n_candidates, p->n_levels);
	if (!(p->constraint > 0) || !(p->base_power >= 0) || !(p->rate >= 0) ||
	    p->best <= p->worst ||
	    p->objective >= RIVULET_PLAN_OBJECTIVE_COUNT || !(p->penalty >= 0))
		return rvl_fail(err, -EINVAL,
				"constraint, powers, rate or reward are out of range");
	for (uint32_t i = 0; i < p->n_levels; i++)
		if (p->level[i].level >= RIVULET_LEVELS || !(p->level[i].joule > 0))
			return rvl_fail(err, -EINVAL, "entry %u: no level %u with %g J", i,
					p->level[i].level, p->level[i].joule);
	for (uint32_t w = 0; w < p->n_candidates; w++)
		for (uint32_t i = 0; i < p->n_levels; i++)
			if (!(rivulet_plan_run_joule(p, w, p->level[i].level) > 0))
				return rvl_fail(err, -EINVAL,
						"%u bits cost no energy in this profile",
						p->candidate[w].length);
	return 0;
}

int rivulet_plan_choose(const struct rivulet_plan_problem *p, struct rivulet_plan_answer *a,
			struct rvl_err *err)
{
	struct chooser c = { .p = p, .err = err };
	int rc = check(p, err);

	memset(a, 0, sizeof(*a));
	if (!rc && p->objective == RIVULET_PLAN_REWARD)
		rc = choose_reward(&c, a->candidate);
	for (uint32_t i = 0; p->objective != RIVULET_PLAN_REWARD && i < p->n_levels && !rc; i++)
		rc = first_good(&c, i, p->objective == RIVULET_PLAN_RUNS ? cheaper : longer, true,
				&a->candidate[i]);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < p->n_levels; i++)
		a->missed |= (uint32_t)(a->candidate[i] == NO_CANDIDATE) << i;
	a->feasible = !a->missed;
	if (!a->feasible)
		return infeasible(&c, a);
	sum_up(&c, a);
	return 0;
}

int rivulet_plan_stay(const struct rivulet_plan_problem *p, uint32_t i, bool strict,
		      struct rivulet_plan_answer *a, struct rvl_err *err)
{
	struct rivulet_plan_problem one = *p;

	if (i >= p->n_levels)
		return rvl_fail(err, -EINVAL, "the plan has no level %u", i);
	one.n_levels = 1;
	one.level[0] = p->level[i];
	one.level[0].joule = 0;
	for (uint32_t k = 0; k < p->n_levels; k++) {
		one.level[0].joule += p->level[k].joule;
		if (strict && p->level[k].least > one.level[0].least)
			one.level[0].least = p->level[k].least;
	}
	return rivulet_plan_choose(&one, a, err);
}

int rivulet_plan_dominated(const struct rivulet_board *b, uint32_t level)
{
	for (uint32_t i = b->levels; i-- > 0;)
		if (b->level[i].hz > b->level[level].hz &&
		    b->level[i].microvolt <= b->level[level].microvolt)
			return (int)i;
	return -1;
}

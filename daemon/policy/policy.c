// SPDX-License-Identifier: MIT
/*
 * The state machine. Charge, heat and mode each give an index in the list of levels, of which 0 is
 * the fastest. The slowest of the three is restricted to the allowed levels, and, if it is faster
 * than the level in force, delayed by the dwell time.
 */
#include "policy.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NSEC		1000000000ull
#define READING_LAG	5000u	/* ppm that may be used before the next reading */

/* ---- names ---- */

static const char *const modes[] = {
#define MODE_NAME(name, value, text, doc) [value] = text,
	RIVULET_POLICY_MODES(MODE_NAME)
};

static const char *const reasons[] = {
#define REASON_NAME(name, value, text, doc) [value] = text,
	RIVULET_POLICY_REASONS(REASON_NAME)
};

const char *rvl_policy_mode_name(uint32_t mode)
{
	return mode < sizeof(modes) / sizeof(modes[0]) && modes[mode] ? modes[mode] : "?";
}

const char *rvl_policy_reason_name(uint32_t reason)
{
	return reason < sizeof(reasons) / sizeof(reasons[0]) && reasons[reason] ? reasons[reason] :
										   "?";
}

int rvl_policy_mode_parse(const char *s, uint32_t *mode, uint32_t *fixed)
{
	if (isdigit((unsigned char)s[0]) && !s[1] && s[0] - '0' < RIVULET_LEVELS) {
		*mode = RIVULET_POLICY_FIXED;
		*fixed = (uint32_t)(s[0] - '0');
		return 0;
	}
	for (uint32_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (modes[i] && i != RIVULET_POLICY_FIXED && !strcmp(modes[i], s)) {
			*mode = i;
			*fixed = 0;
			return 0;
		}
	return -EINVAL;
}

/* ---- configuration ---- */

__attribute__((format(printf, 3, 4)))
static int bad(char *err, size_t errsize, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, errsize, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static void default_levels(struct rvl_policy_config *c, const struct rivulet_board *b)
{
	c->n = 0;
	for (uint32_t l = b->levels; l-- > 0;) {
		const struct rivulet_board_level *faster = &b->level[l + 1];

		/* A slower level at the same voltage saves no energy. */
		if (l + 1 < b->levels && faster->microvolt && faster->microvolt <= b->level[l].microvolt)
			continue;
		c->level[c->n++] = l;
	}
}

static int set_levels(struct rvl_policy_config *c, const struct rivulet_board *b,
		      const uint32_t *levels, size_t n, char *err, size_t errsize)
{
	if (n > RIVULET_LEVELS)
		return bad(err, errsize, "%zu levels; a board has at most %u", n, RIVULET_LEVELS);
	for (size_t i = 0; i < n; i++) {
		if (levels[i] >= b->levels)
			return bad(err, errsize, "level %u; the board %s has 0 to %u", levels[i],
				   b->name, b->levels - 1);
		if (i && levels[i] >= levels[i - 1])
			return bad(err, errsize, "level %u behind level %u: the fastest comes first",
				   levels[i], levels[i - 1]);
		c->level[i] = levels[i];
	}
	c->n = (uint32_t)n;
	return 0;
}

int rvl_policy_configure(struct rvl_policy_config *c, const struct rivulet_board *board,
			 const uint32_t *levels, size_t n_levels, const uint32_t *thresholds,
			 size_t n_thresholds, char *err, size_t errsize)
{
	int r = 0;

	if (n_levels)
		r = set_levels(c, board, levels, n_levels, err, errsize);
	else
		default_levels(c, board);
	if (r)
		return r;
	if (n_thresholds && n_thresholds != c->n - 1)
		return bad(err, errsize, "%zu thresholds for %u levels; there is one between two",
			   n_thresholds, c->n);
	for (uint32_t i = 0; i + 1 < c->n; i++) {
		c->threshold[i] = n_thresholds ? thresholds[i] :
						 RVL_PPM - RVL_PPM / c->n * (i + 1);
		if (c->threshold[i] > RVL_PPM || (i && c->threshold[i] >= c->threshold[i - 1]))
			return bad(err, errsize, "thresholds fall, from at most 100 %%");
	}
	return 0;
}

void rvl_policy_init(struct rvl_policy *p, const struct rvl_policy_config *cfg)
{
	memset(p, 0, sizeof(*p));
	p->cfg = *cfg;
	p->level = p->target = cfg->level[0];
	p->unsettled = true;
}

void rvl_policy_reconfigure(struct rvl_policy *p, const struct rvl_policy_config *cfg)
{
	p->cfg = *cfg;
	p->started = false;
	p->unsettled = true;
	if (p->step >= cfg->n)
		p->step = cfg->n - 1;
	if (p->cap >= cfg->n)
		p->cap = cfg->n - 1;
}

/* ---- what charge, heat and mode give: an index in cfg.level ---- */

/* The number of thresholds at or above the charge, with @margin added to each. */
static uint32_t passed(const struct rvl_policy_config *c, uint64_t charge, uint32_t margin)
{
	uint32_t n = 0, limit;

	for (; n + 1 < c->n; n++) {
		limit = c->threshold[n] + margin;
		/* A full battery must pass every threshold, whatever the hysteresis. */
		limit = limit > RVL_PPM ? RVL_PPM : limit;
		if (margin ? charge >= limit : charge > limit)
			break;
	}
	return n;
}

static void follow_charge(struct rvl_policy *p, const struct rvl_policy_input *in)
{
	uint32_t down, up;

	if (!in->known) {
		/* A battery whose charge cannot be read may be empty. */
		if (in->battery && !in->external && p->unsettled)
			p->step = p->cfg.n - 1;
		if (!in->battery)
			p->step = 0;
		return;
	}
	down = passed(&p->cfg, in->charge, 0);
	up = passed(&p->cfg, in->charge, p->cfg.hysteresis);
	if (p->unsettled)
		p->step = down;
	else if (down > p->step)
		p->step = down;
	else if (up < p->step)
		p->step = up;
}

static void follow_heat(struct rvl_policy *p, const struct rvl_policy_input *in)
{
	p->emergency = in->heat == RVL_HEAT_HOT;
	if (p->emergency && p->cap != p->cfg.n - 1) {
		p->cap = p->cfg.n - 1;
		p->cap_since = in->now;
	} else if (in->heat == RVL_HEAT_PASSIVE && p->cap + 1 < p->cfg.n &&
		   (!p->cap || in->now - p->cap_since >= p->cfg.heat_step)) {
		p->cap++;
		p->cap_since = in->now;
	} else if (in->heat == RVL_HEAT_NONE && p->cap && in->now - p->cap_since >= p->cfg.dwell) {
		p->cap--;
		p->cap_since = in->now;
	}
}

static void follow_reserve(struct rvl_policy *p, const struct rvl_policy_input *in)
{
	const struct rvl_policy_config *c = &p->cfg;

	if (in->external || !in->battery || !c->reserve)
		p->reserve = false;
	else if (in->known && in->charge <= c->reserve)
		p->reserve = true;
	else if (in->known && in->charge >= c->reserve + c->hysteresis)
		p->reserve = false;
}

static uint32_t mode_level(const struct rvl_policy *p, const struct rvl_policy_input *in,
			   uint32_t step, uint32_t *reason)
{
	const struct rvl_policy_config *c = &p->cfg;
	uint32_t i = in->external ? 0 : step;

	*reason = RIVULET_REASON_MODE;
	switch (in->mode) {
	case RIVULET_POLICY_FIXED:
		return in->fixed;
	case RIVULET_POLICY_PERFORMANCE:
		return c->level[0];
	case RIVULET_POLICY_POWERSAVE:
		return c->level[c->n - 1];
	case RIVULET_POLICY_BALANCED:
		if (i < (c->n - 1) / 2)
			return c->level[(c->n - 1) / 2];
		break;
	}
	*reason = in->external ? RIVULET_REASON_MAINS : RIVULET_REASON_BATTERY;
	return c->level[i];
}

/* ---- restriction to the allowed levels ---- */

static uint32_t in_use(const struct rvl_policy_config *c, const struct rvl_policy_input *in)
{
	uint32_t mask = 0;

	for (uint32_t i = 0; i < c->n; i++)
		mask |= 1u << c->level[i];
	return in->mode == RIVULET_POLICY_FIXED ? mask | 1u << in->fixed : mask;
}

/* The fastest level of @mask that is not above @want, else the slowest one above it. */
static uint32_t nearest(uint32_t mask, uint32_t want)
{
	uint32_t below = mask & ((2u << want) - 1);

	return below ? 31 - (uint32_t)__builtin_clz(below) : (uint32_t)__builtin_ctz(mask);
}

static uint32_t obtainable(const struct rvl_policy_config *c, const struct rvl_policy_input *in,
			   uint32_t want)
{
	uint32_t mask = in->allowed ? in->allowed : ~0u;

	if (mask >> want & 1)
		return want;
	if (mask & in_use(c, in))
		mask &= in_use(c, in);
	return nearest(mask, want);
}

static uint32_t wanted(const struct rvl_policy *p, const struct rvl_policy_input *in, uint32_t step,
		       uint32_t cap, uint32_t *reason)
{
	uint32_t want = mode_level(p, in, step, reason), got;

	if (cap && p->cfg.level[cap] < want) {
		want = p->cfg.level[cap];
		*reason = RIVULET_REASON_HEAT;
	}
	got = obtainable(&p->cfg, in, want);
	if (got != want)
		*reason = RIVULET_REASON_VARIANT;
	return got;
}

/* ---- the step ---- */

static bool may_rise(const struct rvl_policy *p, const struct rvl_policy_input *in)
{
	bool gone = in->allowed && !(in->allowed >> p->level & 1);

	return p->unsettled || p->waits || in->mode_changed || gone ||
	       in->now - p->changed >= p->cfg.dwell;
}

static void account(struct rvl_policy *p, uint64_t now)
{
	if (p->since && now > p->since)
		p->residency[p->level] += now - p->since;
	p->since = now;
}

uint64_t rvl_policy_residency(const struct rvl_policy *p, uint32_t level, uint64_t now)
{
	bool on = p->started && p->level == level && now > p->since;

	return p->residency[level] + (on ? now - p->since : 0);
}

static bool change(struct rvl_policy *p, const struct rvl_policy_input *in)
{
	uint32_t reason, want = wanted(p, in, p->step, p->cap, &reason);

	if (want > p->level && !may_rise(p, in)) {
		p->target = p->level;
		return false;
	}
	p->target = want;
	/* A level that was decided on is not subject to the dwell time again when it can be had. */
	p->waits = in->running && !(in->running >> want & 1);
	if (p->waits)
		return false;
	p->reason = reason;
	if (want == p->level && (p->started || p->entries[want]))
		return false;
	p->level = want;
	p->changed = in->now;
	p->entries[want]++;
	return true;
}

bool rvl_policy_step(struct rvl_policy *p, const struct rvl_policy_input *in)
{
	bool reserve = p->reserve, emergency = p->emergency, changed;

	account(p, in->now);
	follow_charge(p, in);
	follow_heat(p, in);
	follow_reserve(p, in);
	changed = change(p, in);
	p->started = true;
	p->unsettled = false;
	return changed || reserve != p->reserve || emergency != p->emergency;
}

uint64_t rvl_policy_wake(const struct rvl_policy *p, const struct rvl_policy_input *in)
{
	uint64_t at = UINT64_MAX, t;
	uint32_t reason;

	if (wanted(p, in, p->step, p->cap, &reason) > p->level)
		at = p->changed + p->cfg.dwell;
	if (in->heat == RVL_HEAT_PASSIVE && p->cap + 1 < p->cfg.n) {
		t = p->cap_since + p->cfg.heat_step;
		at = t < at ? t : at;
	}
	if (in->heat == RVL_HEAT_NONE && p->cap) {
		t = p->cap_since + p->cfg.dwell;
		at = t < at ? t : at;
	}
	return at;
}

uint32_t rvl_policy_floor(const struct rvl_policy *p, const struct rvl_policy_input *in,
			  uint32_t drain, uint64_t deadline)
{
	uint64_t ahead = deadline > in->now ? deadline - in->now : 0;
	uint64_t seconds = ahead / NSEC + 1, used;
	struct rvl_policy_input then = *in;
	uint32_t step = p->step, cap = p->cap, reason, level;

	if (in->battery && in->known) {
		used = READING_LAG + 2ull * drain * seconds;
		step = passed(&p->cfg, in->charge > used ? in->charge - used : 0, 0);
		step = step > p->step ? step : p->step;
	}
	then.external = in->external && !in->battery;
	if (in->heat == RVL_HEAT_HOT)
		cap = p->cfg.n - 1;
	else if (in->heat == RVL_HEAT_PASSIVE)
		cap += (uint32_t)(p->cfg.heat_step ? ahead / p->cfg.heat_step + 1 : p->cfg.n);
	if (cap >= p->cfg.n)
		cap = p->cfg.n - 1;
	level = wanted(p, &then, step, cap, &reason);
	/* While the level is about to rise, the one in force is the slower one. */
	return level < p->level ? level : p->level;
}

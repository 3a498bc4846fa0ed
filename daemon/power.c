// SPDX-License-Identifier: MIT
/*
 * Runs the policy: reads sysfs, evaluates the policy, sets the device's limits, notifies clients. A
 * tick is caused by a uevent, by a timer whose interval depends on the drain, and by events in the
 * daemon.
 */
#include "accel.h"
#include "config.h"
#include "connection.h"
#include "estimate.h"
#include "log.h"
#include "manager.h"
#include "policy.h"
#include "power.h"
#include "rivulet_proto.h"
#include "rivulet_runtime.h"
#include "util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>


#define REFUSED_NS	(60 * NSEC_PER_SEC)	/* before a refused level is tried again */
#define HEAT_HYSTERESIS	3000			/* millidegrees below a trip */
#define RIGHTS_NS	(5 * NSEC_PER_SEC)	/* for udev to grant access to the files of a new device */
#define NO_LEVEL	RIVULET_LEVELS

/* ---- mode and levels in force ---- */

uint32_t rvl_power_mode(const struct rvl_power *pw, uint32_t *fixed, uint32_t *source)
{
	const struct rvl_mode *cfg = &pw->m->cfg.power_mode;

	*fixed = pw->tool_fixed;
	*source = RIVULET_SOURCE_TOOL;
	if (pw->tool_mode != RIVULET_POLICY_KEEP)
		return pw->tool_mode;
	*fixed = cfg->fixed;
	*source = RIVULET_SOURCE_CONFIG;
	if (cfg->mode != RIVULET_POLICY_AUTO || pw->profile == RIVULET_POLICY_KEEP)
		return cfg->mode;
	*source = RIVULET_SOURCE_PROFILES;
	return pw->profile;
}

uint32_t rvl_power_flags(const struct rvl_power *pw)
{
	return (pw->gauge.external ? RIVULET_POLICY_EXTERNAL : 0) |
	       (pw->gauge.battery ? RIVULET_POLICY_BATTERY : 0) |
	       (pw->gauge.known ? RIVULET_POLICY_KNOWN : 0) |
	       (pw->policy.reserve ? RIVULET_POLICY_RESERVE : 0) |
	       (pw->policy.emergency ? RIVULET_POLICY_EMERGENCY : 0) |
	       (pw->steered ? RIVULET_POLICY_STEERED : 0) |
	       (pw->yielded ? RIVULET_POLICY_YIELDED : 0);
}

struct rvl_override rvl_power_override(const struct rvl_power *pw)
{
	uint64_t how = pw->m->cfg.reconfigure;
	uint32_t top = 1 + pw->policy.cfg.level[0];
	struct rvl_override w = { 0 };

	if (!pw->ready)
		return w;
	if (how == RVL_RECONFIGURE_HARDWARE || how == RVL_RECONFIGURE_NONE)
		w.variant = top;
	if (how == RVL_RECONFIGURE_SOFTWARE || how == RVL_RECONFIGURE_NONE)
		w.clock = top;
	return w;
}

static uint32_t clock_level(const struct rvl_power *pw)
{
	struct rvl_override w = rvl_power_override(pw);

	return w.clock ? w.clock - 1 : pw->policy.level;
}

uint32_t rvl_power_usable(const struct rvl_power *pw, uint32_t levels)
{
	struct rvl_override w = rvl_power_override(pw);

	if (!w.variant)
		return levels;
	return levels >> (w.variant - 1) & 1 ? (1u << RIVULET_LEVELS) - 1 : 0;
}

uint32_t rvl_power_forced(const struct rvl_power *pw, uint32_t min_level)
{
	struct rvl_override w = rvl_power_override(pw);

	if (w.variant || !w.clock)
		return w.variant;
	return 1 + (pw->policy.level > min_level ? pw->policy.level : min_level);
}

static uint32_t board_mask(const struct rvl_power *pw)
{
	return (1u << pw->m->device.board.levels) - 1;
}

/*
 * @count: by level, the runs that cannot run at it. Returns the levels of the board with a count of
 * 0.
 */
static uint32_t uncontested(const struct rvl_power *pw, const uint32_t *count)
{
	uint32_t mask = board_mask(pw);

	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		if (count[l])
			mask &= ~(1u << l);
	return mask;
}

uint32_t rvl_power_allowed(const struct rvl_power *pw)
{
	return uncontested(pw, pw->demands) & uncontested(pw, pw->running);
}

static void fill_input(const struct rvl_power *pw, struct rvl_policy_input *in)
{
	uint32_t have = uncontested(pw, pw->demands), source;

	*in = (struct rvl_policy_input){ .now = rvl_now(), .external = pw->gauge.external,
					 .battery = pw->gauge.battery, .known = pw->gauge.known,
					 .charge = pw->gauge.charge, .heat = pw->zones.heat,
					 .mode_changed = pw->mode_changed };
	/* Demands are binding. A level that devfreq refused is tried if no other one is left. */
	in->allowed = have & ~pw->refused ? have & ~pw->refused : have;
	in->running = pw->n_running ? uncontested(pw, pw->running) : 0;
	in->mode = rvl_power_mode(pw, &in->fixed, &source);
	if (pw->m->cfg.reconfigure == RVL_RECONFIGURE_NONE)
		in->mode = RIVULET_POLICY_PERFORMANCE;
	/* The configured level may be one that this board does not have. */
	if (in->fixed >= pw->m->device.board.levels)
		in->fixed = pw->m->device.board.levels - 1;
}

/* ---- setting the level ---- */

static void save(struct rvl_power *pw)
{
	struct rvl_power_state st = { .devfreq = pw->devfreq, .step = pw->policy.step,
				      .cap = pw->policy.cap, .level = pw->policy.level,
				      .reserve = pw->policy.reserve, .changed = pw->policy.changed,
				      .mode = pw->tool_mode, .fixed = pw->tool_fixed };
	int r = *pw->state_path ? rvl_power_save(pw->state_path, &st) : 0;

	if (r)
		rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL,
			"%s: %s; a restart would not know the limits to restore", pw->state_path,
			strerror(-r));
}

static struct rvl_about about(const struct rvl_power *pw)
{
	return (struct rvl_about){ .device = pw->m->device.node, .level = (int)pw->policy.level,
				   .have_level = true, .charge = pw->gauge.charge,
				   .have_charge = pw->gauge.known,
				   .reason = rvl_policy_reason_name(pw->policy.reason) };
}

static void unsteered(struct rvl_power *pw, int error, const struct rvl_text *why)
{
	struct rvl_about a = about(pw);

	pw->steered = false;
	if (pw->logged_unsteered || (error == -EACCES && rvl_now() < pw->since + RIGHTS_NS))
		return;
	pw->logged_unsteered = true;
	rvl_log(LOG_WARNING, RVL_LOG_POLICY_UNSTEERED, &a,
		"the daemon cannot set the device's level: %s", why->s);
}

static int pin(struct rvl_power *pw, uint32_t level, struct rvl_text *err)
{
	struct rvl_device *d = &pw->m->device;

	if (d->sim)
		return rivulet_runtime_set_level(d->shared->rt, level);
	if (!*pw->devfreq.dir)
		return rvl_say(err, -ENOENT, "%s has no devfreq", d->node);
	return rvl_devfreq_pin(&pw->devfreq, d->board.level[level].hz, err);
}

/* Returns true if the policy must choose another level. */
static bool refused(struct rvl_power *pw, uint32_t level, const struct rvl_text *why)
{
	struct rvl_about a = about(pw);

	/* If all levels have been refused, the chosen level is kept. */
	if (!(uncontested(pw, pw->demands) & ~(pw->refused | 1u << level)))
		return false;
	pw->refused |= 1u << level;
	pw->refused_until = rvl_now() + REFUSED_NS;
	if (!pw->logged_refused)
		rvl_log(LOG_WARNING, RVL_LOG_POLICY_REFUSED, &a, "level %u was refused: %s", level,
			why->s);
	pw->logged_refused = true;
	return true;
}

/* Sets the device to the policy's level. Returns true if the policy must choose another one. */
static bool apply(struct rvl_power *pw)
{
	uint32_t level = clock_level(pw);
	struct rvl_text err;
	int r;

	if (pw->yielded || (pw->steered && pw->applied == level))
		return false;
	r = pin(pw, level, &err);
	/* If Reconfigure= keeps the clock, there is no other level to try. */
	if ((r == -ERANGE || r == -EINVAL) && !rvl_power_override(pw).clock && refused(pw, level, &err))
		return true;
	pw->applied = r ? NO_LEVEL : level;
	if (r) {
		unsteered(pw, r, &err);
		return false;
	}
	pw->steered = true;
	return false;
}

static void yield_to(struct rvl_power *pw, uint64_t min, uint64_t max)
{
	struct rvl_text err;

	if (rvl_devfreq_put(&pw->devfreq, min, max, &err))
		rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL, "%s", err.s);
	pw->applied = NO_LEVEL;
	pw->yielded = true;
	pw->steered = false;
}

/*
 * Looks for another writer of the limits. The files show the range that all frequency requests
 * leave, so a cooling device changes them like a writer does. Writing again distinguishes them: the
 * value of a writer is replaced, the limit of a cooling device stays.
 */
static void check_writer(struct rvl_power *pw)
{
	bool yield = pw->m->cfg.foreign == RVL_FOREIGN_YIELD;
	struct rvl_about a = about(pw);
	struct rvl_text why;
	uint64_t min, max;
	int r;

	if (pw->yielded || !pw->steered || pw->m->device.sim ||
	    !rvl_devfreq_changed(&pw->devfreq, &min, &max))
		return;
	r = rvl_devfreq_pin(&pw->devfreq, pw->devfreq.hz, &why);
	if (r == -ERANGE)
		refused(pw, pw->applied, &why);
	if (r) {
		pw->applied = NO_LEVEL;
		return;
	}
	if (!pw->logged_writer)
		rvl_log(LOG_WARNING, RVL_LOG_POLICY_FOREIGN, &a,
			"another process set the limits to %llu..%llu Hz; %s", (unsigned long long)min,
			(unsigned long long)max,
			yield ? "the policy yields until a mode is set" : "they are set back");
	pw->logged_writer = true;
	if (yield)
		yield_to(pw, min, max);
}

/* ---- notification ---- */

static void fill_event(const struct rvl_power *pw, struct rivulet_msg_level *e)
{
	e->level = pw->policy.level;
	e->reason = pw->policy.reason;
	e->flags = rvl_power_flags(pw);
	e->charge = pw->gauge.known ? pw->gauge.charge : 0;
	e->hz = pw->m->device.board.level[clock_level(pw)].hz;
}

void rvl_power_event(const struct rvl_power *pw, struct rvl_session *s)
{
	struct rivulet_msg_level e;

	if (!pw->ready || !s->version || s->fd < 0 || !(s->features & RIVULET_FEATURE_POLICY))
		return;
	rivulet_proto_init(&e, RIVULET_MSG_LEVEL, s->version, 0);
	fill_event(pw, &e);
	rvl_send(s, &e, -1);
}

static void log_change(const struct rvl_power *pw)
{
	uint64_t hz = pw->m->device.board.level[clock_level(pw)].hz;
	struct rvl_about a = about(pw);

	rvl_log(LOG_INFO, RVL_LOG_POLICY_LEVEL, &a, "level %u (%llu MHz) by %s%s%s",
		pw->policy.level, (unsigned long long)hz / 1000000, a.reason,
		pw->policy.reserve ? ", in the reserve" : "",
		pw->policy.emergency ? ", too hot" : "");
}

static void notify_sessions(struct rvl_power *pw)
{
	const uint32_t matter = RIVULET_POLICY_RESERVE | RIVULET_POLICY_EMERGENCY |
				RIVULET_POLICY_STEERED | RIVULET_POLICY_YIELDED;
	uint32_t flags = rvl_power_flags(pw) & matter;
	struct rvl_session *s;

	if (flags == pw->sent_flags && pw->policy.level == pw->sent_level)
		return;
	pw->sent_flags = flags;
	pw->sent_level = pw->policy.level;
	log_change(pw);
	rvl_list_each(s, &pw->m->sessions, link)
		rvl_power_event(pw, s);
	save(pw);
}

/* ---- the tick ---- */

static void arm(struct rvl_power *pw, const struct rvl_policy_input *in)
{
	const struct rvl_config *c = &pw->m->cfg;
	uint64_t at = in->now + rvl_gauge_interval(&pw->gauge, c->poll_min, c->poll_max), wake;

	wake = pw->ready ? rvl_policy_wake(&pw->policy, in) : UINT64_MAX;
	if (wake > in->now && wake < at)
		at = wake;
	sd_event_source_set_time(pw->timer, at / 1000 + 1);
	sd_event_source_set_enabled(pw->timer, SD_EVENT_ONESHOT);
}

/* Evaluates the policy on the last readings and applies the result. */
static void evaluate(struct rvl_power *pw)
{
	struct rvl_policy_input in = { .now = rvl_now() };

	if (!pw->ready) {
		arm(pw, &in);
		return;
	}
	check_writer(pw);
	if (pw->refused && in.now >= pw->refused_until)
		pw->refused = 0;
	do {
		fill_input(pw, &in);
		rvl_policy_step(&pw->policy, &in);
	} while (apply(pw));
	pw->mode_changed = false;
	notify_sessions(pw);
	fill_input(pw, &in);
	arm(pw, &in);
}

static void attach(struct rvl_power *pw)
{
	const struct rvl_device *d = &pw->m->device;
	struct rvl_devfreq *old = &pw->recovered.devfreq;
	struct rvl_text err;

	if (!pw->ready || d->sim || *pw->devfreq.dir || rvl_devfreq_open(&pw->devfreq, d->syspath, &err))
		return;
	/*
	 * The present limits are those of the daemon that was killed; its record has the original
	 * ones.
	 */
	if (old->hz && !strcmp(old->dir, pw->devfreq.dir))
		pw->devfreq = *old;
	memset(old, 0, sizeof(*old));
}

void rvl_power_tick(struct rvl_power *pw)
{
	const struct rvl_config *c = &pw->m->cfg;
	struct rvl_reading reading;

	pw->readings++;
	rvl_supplies_read(pw->sys, &reading);
	rvl_gauge_update(&pw->gauge, &reading, rvl_now());
	if (c->power_heat)
		rvl_zones_read(pw->sys, (int64_t)c->power_temp * 1000, HEAT_HYSTERESIS, &pw->zones);
	else
		pw->zones = (struct rvl_zones){ .temp = RVL_NO_VALUE };
	attach(pw);
	evaluate(pw);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *data)
{
	(void)source;
	(void)usec;
	rvl_power_tick(data);
	return 0;
}

static int on_uevent(sd_device_monitor *monitor, sd_device *dev, void *data)
{
	struct rvl_power *pw = data;

	(void)monitor;
	(void)dev;
	pw->uevents++;
	rvl_power_tick(pw);
	return 0;
}

/* ---- the device comes and goes, the configuration changes ---- */

static int configure(struct rvl_power *pw, struct rvl_policy_config *out, struct rvl_text *err)
{
	const struct rvl_config *c = &pw->m->cfg;

	*out = (struct rvl_policy_config){ .hysteresis = (uint32_t)c->power_hysteresis,
					   .reserve = (uint32_t)c->power_reserve,
					   .dwell = c->power_dwell,
					   .heat_step = c->power_heat_step };
	return rvl_policy_configure(out, &pw->m->device.board, c->power_levels.v,
				    c->power_levels.n, c->power_thresholds.v,
				    c->power_thresholds.n, err->s, sizeof(err->s));
}

/* If Levels= and Thresholds= do not suit this board, the defaults are used. */
static void configure_or_default(struct rvl_power *pw, struct rvl_policy_config *out)
{
	struct rvl_text err, unused;

	if (!configure(pw, out, &err))
		return;
	rvl_log(LOG_ERR, RVL_LOG_CONFIG_REFUSED, NULL,
		"Levels= and Thresholds= of [Power] do not suit the board, auto instead: %s", err.s);
	rvl_policy_configure(out, &pw->m->device.board, NULL, 0, NULL, 0, unused.s,
			     sizeof(unused.s));
}

static void resume(struct rvl_power *pw)
{
	const struct rvl_power_state *st = &pw->recovered;
	struct rvl_policy *p = &pw->policy;

	if (!st->changed || st->level >= pw->m->device.board.levels || st->step >= p->cfg.n ||
	    st->cap >= p->cfg.n)
		return;
	p->step = st->step;
	p->cap = st->cap;
	/*
	 * In another time namespace, as of a container that was restarted, the clock may be behind
	 * the one of the daemon that wrote the state.
	 */
	p->cap_since = p->changed = st->changed < rvl_now() ? st->changed : rvl_now();
	p->unsettled = false;
	p->level = p->target = st->level;
	p->reserve = st->reserve;
	p->entries[p->level] = 1;
}

static void forget_device(struct rvl_power *pw)
{
	pw->ready = pw->steered = pw->yielded = false;
	pw->logged_writer = pw->logged_refused = pw->logged_unsteered = false;
	pw->refused = 0;
	pw->applied = pw->sent_level = NO_LEVEL;
	memset(&pw->devfreq, 0, sizeof(pw->devfreq));
}

void rvl_power_device(struct rvl_power *pw)
{
	struct rvl_policy_config cfg;

	forget_device(pw);
	if (!pw->m->device.present || !pw->m->device.board.levels || !pw->timer)
		return;
	configure_or_default(pw, &cfg);
	rvl_policy_init(&pw->policy, &cfg);
	resume(pw);
	pw->recovered.changed = 0;
	pw->since = rvl_now();
	pw->ready = true;
	rvl_power_tick(pw);
}

void rvl_power_reload(struct rvl_power *pw)
{
	struct rvl_policy_config cfg;

	if (!pw->ready)
		return;
	configure_or_default(pw, &cfg);
	rvl_policy_reconfigure(&pw->policy, &cfg);
	pw->yielded = false;
	pw->logged_writer = false;
	rvl_power_tick(pw);
}

/* ---- modes ---- */

int rvl_power_set_mode(struct rvl_power *pw, uint32_t mode, uint32_t fixed, struct rvl_text *err)
{
	if (mode > RIVULET_POLICY_FIXED)
		return rvl_say(err, -EINVAL, "no policy mode has the number %u", mode);
	if (mode == RIVULET_POLICY_FIXED &&
	    fixed >= (pw->ready ? pw->m->device.board.levels : RIVULET_LEVELS))
		return rvl_say(err, -ERANGE, "the device has no level %u", fixed);
	if (mode != RIVULET_POLICY_FIXED && fixed)
		return rvl_say(err, -EINVAL, "mode %s takes no level", rvl_policy_mode_name(mode));
	pw->tool_mode = mode;
	pw->tool_fixed = fixed;
	pw->mode_changed = true;
	pw->yielded = pw->logged_writer = false;
	pw->sent_level = NO_LEVEL;
	rvl_power_tick(pw);
	return 0;
}

void rvl_power_set_profile(struct rvl_power *pw, uint32_t mode)
{
	if (pw->profile == mode)
		return;
	pw->profile = mode;
	pw->mode_changed = true;
	evaluate(pw);
}

/* ---- for the scheduler ---- */

/* A run that may not demand a level must have a variant for the target. */
static int check_target(const struct rvl_power *pw, uint32_t levels, struct rvl_text *err)
{
	uint32_t fixed, source, target = pw->policy.target;

	if (levels >> target & 1)
		return 0;
	return rvl_say(err, -EOPNOTSUPP, "no variant for level %u, which mode %s (%s) has chosen; the "
		       "level is changed only for runs of PolicyUsers=, see [Power] in "
		       "rivuletd.conf(5)", target,
		       rvl_policy_mode_name(rvl_power_mode(pw, &fixed, &source)),
		       rvl_policy_reason_name(pw->policy.reason));
}

int rvl_power_admit(const struct rvl_power *pw, uint32_t levels, uint32_t priority, bool demands,
		    struct rvl_text *err)
{
	uint64_t admits = pw->m->cfg.power_admits;
	bool few = pw->policy.reserve || pw->policy.emergency;

	if (!pw->ready)
		return 0;
	if (few && admits != RVL_ADMITS_ALL &&
	    (admits == RVL_ADMITS_NONE || priority <= RIVULET_PRIO_NORMAL))
		return rvl_say(err, -EAGAIN, "%s: %s", pw->policy.emergency ? "too hot" :
			       "the battery is in its reserve", admits == RVL_ADMITS_NONE ?
			       "no runs are admitted" : "only runs of high priority are admitted");
	if (!pw->steered && (levels & board_mask(pw)) != board_mask(pw))
		return rvl_say(err, -EOPNOTSUPP, "the model lacks a variant of some level, and the "
			       "device's level is not the daemon's to choose (journal says why)");
	if (demands && !(uncontested(pw, pw->demands) & levels))
		return rvl_say(err, -EBUSY, "no level has a variant for this model and for the others "
			       "that users of PolicyUsers= have queued or under way");
	return demands ? 0 : check_target(pw, levels, err);
}

static void count(uint32_t *counter, uint32_t levels, int by)
{
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		if (!(levels >> l & 1))
			counter[l] += (uint32_t)by;
}

/* Whether the run's demand can have had an effect on the target. */
static bool is_choosy(const struct rvl_power *pw, uint32_t levels)
{
	return (levels & board_mask(pw)) != board_mask(pw);
}

void rvl_power_demand(struct rvl_power *pw, uint32_t levels, int by)
{
	count(pw->demands, levels, by);
	if (pw->ready && (by < 0 ? is_choosy(pw, levels) : !(levels >> pw->policy.target & 1)))
		evaluate(pw);
}

int rvl_power_can_start(const struct rvl_power *pw, uint32_t levels, bool demands,
			struct rvl_text *err)
{
	int r;

	if (!pw->ready)
		return 0;
	r = demands || !pw->steered ? 0 : check_target(pw, levels, err);
	if (r || levels >> pw->policy.level & 1)
		return r;
	return pw->n_running ? -EAGAIN : 0;
}

void rvl_power_run(struct rvl_power *pw, uint32_t levels, int by)
{
	count(pw->running, levels, by);
	pw->n_running += (uint32_t)by;
	if (by < 0 && pw->ready && pw->policy.waits)
		evaluate(pw);
}

uint32_t rvl_power_floor(const struct rvl_power *pw, uint32_t levels, uint64_t deadline)
{
	uint32_t mask = uncontested(pw, pw->demands) & levels;
	struct rvl_policy_input in;

	if (!pw->ready || !mask)
		return 0;
	/* The governor may choose any level. */
	if (!pw->steered)
		return (uint32_t)__builtin_ctz(mask);
	fill_input(pw, &in);
	in.allowed = mask & ~pw->refused ? mask & ~pw->refused : mask;
	return rvl_policy_floor(&pw->policy, &in, pw->gauge.external ? 0 : pw->gauge.drain,
				deadline == UINT64_MAX ? in.now : deadline);
}

int rvl_power_promise(const struct rvl_power *pw, uint32_t levels, uint64_t deadline,
		      struct rvl_text *err)
{
	const struct rvl_policy_config *c = &pw->policy.cfg;
	uint32_t floor = rvl_power_floor(pw, ~0u, deadline);

	for (uint32_t i = 0; pw->ready && pw->steered && i < c->n; i++) {
		uint32_t l = c->level[i];

		if (l >= floor && l <= pw->policy.target && !(levels >> l & 1))
			return rvl_say(err, -EOPNOTSUPP, "no variant for level %u, to which the level may "
				       "fall before the deadline", l);
	}
	return 0;
}

/* ---- start and stop ---- */

static void find_state(struct rvl_power *pw)
{
	const char *dir = pw->m->cfg.state_dir.s;
	int r;

	if (!strcmp(dir, "auto"))
		dir = getenv("RUNTIME_DIRECTORY");
	if (!dir || *dir != '/' || strlen(dir) > sizeof(pw->state_path) - 16)
		return;
	snprintf(pw->state_path, sizeof(pw->state_path), "%s/policy.state", dir);
	r = rvl_power_load(pw->state_path, &pw->recovered);
	if (r == -EINVAL)
		rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL, "%s is damaged and is ignored", pw->state_path);
	if (r)
		return;
	pw->tool_mode = pw->recovered.mode;
	pw->tool_fixed = pw->recovered.fixed;
	rvl_log(LOG_NOTICE, RVL_LOG_POLICY_RECOVERED, NULL,
		"the previous daemon was killed: its level %u and its record of the device's limits are taken over",
		pw->recovered.level);
}

static int watch(struct rvl_power *pw)
{
	/* udev grants access to the devfreq files some time after the device was announced. */
	static const char *const subsystems[] = { "power_supply", "thermal", "devfreq" };
	int r = sd_device_monitor_new(&pw->monitor);

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(subsystems); i++)
		r = sd_device_monitor_filter_add_match_subsystem_devtype(pw->monitor, subsystems[i],
									 NULL);
	r = r < 0 ? r : sd_device_monitor_attach_event(pw->monitor, pw->m->event);
	return r < 0 ? r : sd_device_monitor_start(pw->monitor, on_uevent, pw);
}

int rvl_power_start(struct rvl_manager *m, struct rvl_text *err)
{
	struct rvl_power *pw = &m->power;
	int r;

	pw->m = m;
	pw->applied = pw->sent_level = NO_LEVEL;
	pw->zones.temp = RVL_NO_VALUE;
	find_state(pw);
	r = sd_event_add_time(m->event, &pw->timer, CLOCK_MONOTONIC, UINT64_MAX, 1000, on_timer, pw);
	if (r < 0)
		return rvl_say(err, r, "event loop: %s", strerror(-r));
	/* Machines that run the linked model may have no udev; the timer polls there. */
	r = watch(pw);
	if (r < 0)
		rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL,
			"no uevents of batteries (%s): batteries are polled only", strerror(-r));
	if (m->cfg.profiles)
		pw->profiles = rvl_profiles_start(pw);
	rvl_power_device(pw);
	if (!pw->ready)
		rvl_power_tick(pw);
	return 0;
}

void rvl_power_stop(struct rvl_power *pw)
{
	struct rvl_text err;

	if (!pw->timer)
		return;
	if (!pw->yielded && rvl_devfreq_restore(&pw->devfreq, &err))
		rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL, "cannot restore the limits: %s", err.s);
	else if (*pw->state_path)
		unlink(pw->state_path);
	pw->profiles = rvl_profiles_stop(pw->profiles);
	sd_device_monitor_unref(pw->monitor);
	pw->monitor = NULL;
	pw->timer = sd_event_source_disable_unref(pw->timer);
}

/* SPDX-License-Identifier: MIT */
/*
 * The power policy in the daemon: what reads sysfs, what steers the device, and the loop around the
 * pure rules of policy/. Everything runs on the manager's event loop; nothing here blocks on more
 * than a handful of sysfs files.
 */
#ifndef RVL_POWER_H
#define RVL_POWER_H

#include <systemd/sd-bus.h>
#include <systemd/sd-device.h>
#include <systemd/sd-event.h>

#include "policy.h"
#include "util.h"

struct rvl_manager;

/* ---- reading (power_supply.c) ---- */

#define RVL_SUPPLIES_MAX 32	/* power supplies looked at; more is no machine */

/** rvl_supplies_read() - all of @sys ("/sys") /class/power_supply; a machine without any is fine */
void rvl_supplies_read(const char *sys, struct rvl_reading *out);

/** struct rvl_zones - heat of the machine */
struct rvl_zones {
	enum rvl_heat heat;	/* of the worst zone */
	int64_t temp;		/* of the hottest zone, or RVL_NO_VALUE */
};
/** rvl_zones_read() - all of @sys/class/thermal; @limit, @hysteresis: as for rvl_zone_heat() */
void rvl_zones_read(const char *sys, int64_t limit, int64_t hysteresis, struct rvl_zones *out);

/* ---- steering (devfreq.c) ---- */

/** struct rvl_devfreq - the frequency limits of one device; plain data */
struct rvl_devfreq {
	char dir[320];			/* "": no such thing */
	uint64_t orig_min, orig_max;	/* Hz, before we came */
	uint64_t hz;			/* pinned; 0: not by us */
	uint64_t seen_min, seen_max;	/* as read back then */
};

/** struct rvl_devfreq_io - how its files are reached; 0 or negative errno */
struct rvl_devfreq_io {
	int (*read)(const char *path, char *buf, size_t size);
	int (*write)(const char *path, const char *text, size_t size);
};
/** rvl_devfreq_io - sysfs; tests put a kernel of their own in its place */
extern const struct rvl_devfreq_io *rvl_devfreq_io;

/**
 * rvl_devfreq_open() - the devfreq of a DRM node's device, limits read and kept for restoring
 * @syspath: of the node. -ENOENT: it has none (yet)
 */
int rvl_devfreq_open(struct rvl_devfreq *d, const char *syspath, struct rvl_text *err);
/**
 * rvl_devfreq_pin() - minimum and maximum to @hz, which is one of its frequencies
 * -ERANGE: something else holds the range below or above it; -EACCES: no right to write; -ENODEV,
 * -ENOENT: it is gone. @err says which file.
 */
int rvl_devfreq_pin(struct rvl_devfreq *d, uint64_t hz, struct rvl_text *err);
/** rvl_devfreq_changed() - whether the limits are others than rvl_devfreq_pin() left; tells them */
bool rvl_devfreq_changed(const struct rvl_devfreq *d, uint64_t *min, uint64_t *max);
/** rvl_devfreq_put() - give the limits to somebody else, whose they were; nothing to restore then */
int rvl_devfreq_put(struct rvl_devfreq *d, uint64_t min, uint64_t max, struct rvl_text *err);
/** rvl_devfreq_restore() - the limits as they were; forgets that we pinned */
int rvl_devfreq_restore(struct rvl_devfreq *d, struct rvl_text *err);

/* ---- what survives a restart (power_state.c) ---- */

/** struct rvl_power_state - plain data */
struct rvl_power_state {
	struct rvl_devfreq devfreq;
	uint32_t step, cap, level, reserve;
	uint64_t changed;		/* CLOCK_MONOTONIC, of this boot */
	uint32_t mode, fixed;		/* chosen by the tool; KEEP: not */
};
/** rvl_power_save() - replace @path whole; 0 or negative errno */
int rvl_power_save(const char *path, const struct rvl_power_state *st);
/**
 * rvl_power_load() - -ENOENT: there is none; -ESTALE: of another boot; -EINVAL: damaged. @st is
 * zero then
 */
int rvl_power_load(const char *path, struct rvl_power_state *st);

/* ---- the loop (power.c) ---- */

struct rvl_power {
	struct rvl_manager *m;
	const char *sys;
	bool ready;		/* policy is set up for the device that is there */
	uint64_t since;		/* it is */
	struct rvl_policy policy;
	struct rvl_gauge gauge;
	struct rvl_zones zones;
	uint32_t demands[RIVULET_LEVELS];	/* runs of PolicyUsers= that cannot run at this level */
	uint32_t running[RIVULET_LEVELS];	/* runs under way that cannot */
	uint32_t n_running;
	uint32_t tool_mode, tool_fixed;	/* KEEP: nobody asked */
	uint32_t profile;		/* of power-profiles-daemon: a mode, or KEEP */
	bool asked;			/* the mode was changed just now */
	uint32_t refused;		/* levels that devfreq would not take */
	uint64_t refused_until;
	struct rvl_devfreq devfreq;
	bool steered, yielded;
	bool told_writer, told_refused, told_unsteered;	/* once each */
	uint32_t applied;		/* level that the device was told; RIVULET_LEVELS: none */
	uint32_t told_flags, told_level, told_reason;	/* of the last LEVEL event */
	struct rvl_power_state recovered;	/* of a daemon that was killed; used once */
	char state_path[160];		/* "": keep nothing */
	sd_event_source *timer;
	sd_device_monitor *monitor;
	struct rvl_profiles *profiles;
};

/** rvl_power_start() - watch, read for the first time; the device may come later */
int rvl_power_start(struct rvl_manager *m, struct rvl_text *err);
/** rvl_power_stop() - restore the device's limits, forget the state */
void rvl_power_stop(struct rvl_power *pw);
/** rvl_power_device() - the device came or went */
void rvl_power_device(struct rvl_power *pw);
/** rvl_power_reload() - another configuration is in force */
void rvl_power_reload(struct rvl_power *pw);
/** rvl_power_tick() - read everything, judge, act */
void rvl_power_tick(struct rvl_power *pw);
/** rvl_power_mode() - the mode in force, its level if FIXED, and who chose it */
uint32_t rvl_power_mode(const struct rvl_power *pw, uint32_t *fixed, uint32_t *source);
/** rvl_power_set_mode() - by the tool; -ERANGE: no such level */
int rvl_power_set_mode(struct rvl_power *pw, uint32_t mode, uint32_t fixed, struct rvl_text *err);
/** rvl_power_set_profile() - by power-profiles-daemon; KEEP: it went away */
void rvl_power_set_profile(struct rvl_power *pw, uint32_t mode);
/** rvl_power_allowed() - levels that the runs of PolicyUsers= leave, and those that are under way */
uint32_t rvl_power_allowed(const struct rvl_power *pw);
/** rvl_power_flags() - enum rivulet_policy_flag */
uint32_t rvl_power_flags(const struct rvl_power *pw);

/* ---- for the scheduler (power.c) ---- */

/*
 * Who decides the level: the mode, charge and heat; and runs of PolicyUsers=, which demand a level that
 * they can run at from their admission to their end. Runs of other users demand nothing: they are
 * admitted and started only at the level that was decided on. Those under way delay a change.
 */

/**
 * rvl_power_admit() - may a run of this priority that can run at @levels be queued; says why not
 * @demands: it is of a user of PolicyUsers=. -EAGAIN: in the reserve or too hot; -EBUSY: it demands a
 * level that no level suits together with the demands before it; -EOPNOTSUPP: it may not demand, and
 * has no variant for the level; or the device's level is not ours to choose and it lacks one.
 */
int rvl_power_admit(const struct rvl_power *pw, uint32_t levels, uint32_t priority, bool demands,
		    struct rvl_text *err);
/** rvl_power_demand() - a run of a user of PolicyUsers= was queued (@by 1) or has ended (-1) */
void rvl_power_demand(struct rvl_power *pw, uint32_t levels, int by);
/**
 * rvl_power_can_start() - may a queued run start now
 * -EAGAIN: when the runs under way have ended, for the level changes then; -EOPNOTSUPP: the level was
 * changed to one that it has no variant for; says so.
 */
int rvl_power_can_start(const struct rvl_power *pw, uint32_t levels, bool demands,
			struct rvl_text *err);
/** rvl_power_run() - a run was started (@by 1) or has ended (-1) */
void rvl_power_run(struct rvl_power *pw, uint32_t levels, int by);
/**
 * rvl_power_way() - what Reconfigure= keeps; nothing before there is a device
 * rvl_power_usable() - levels of the policy that a program with variants for @levels can run at
 * rvl_power_forced() - 1 + the level whose commands a run that starts now must run, not below
 * @min_level; 0: those of the level that the device is at
 */
struct rvl_way rvl_power_way(const struct rvl_power *pw);
uint32_t rvl_power_usable(const struct rvl_power *pw, uint32_t levels);
uint32_t rvl_power_forced(const struct rvl_power *pw, uint32_t min_level);
/**
 * rvl_power_promise() - whether a run that may not demand a level can be started until its deadline
 * -EOPNOTSUPP: it has no variant for a level that may be in force before.
 */
int rvl_power_promise(const struct rvl_power *pw, uint32_t levels, uint64_t deadline,
		      struct rvl_text *err);
/** rvl_power_floor() - slowest of @levels that may be in force before @deadline (ns, UINT64_MAX) */
uint32_t rvl_power_floor(const struct rvl_power *pw, uint32_t levels, uint64_t deadline);

/* ---- power-profiles-daemon (profiles.c) ---- */

/** rvl_profiles_start() - listen if there is a system bus; NULL: there is none, which is fine */
struct rvl_profiles *rvl_profiles_start(struct rvl_power *pw);
struct rvl_profiles *rvl_profiles_stop(struct rvl_profiles *p);

#endif

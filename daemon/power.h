/* SPDX-License-Identifier: MIT */
/*
 * The power policy in the daemon: reading sysfs, setting the device's limits, and running the pure
 * rules of policy/. Everything runs on the manager's event loop and blocks on a few sysfs files
 * only.
 */
#ifndef RVL_POWER_H
#define RVL_POWER_H

#include <systemd/sd-bus.h>
#include <systemd/sd-device.h>
#include <systemd/sd-event.h>

#include "policy.h"
#include "util.h"

struct rvl_manager;
struct rvl_session;

/* ---- reading (power_supply.c) ---- */

#define RVL_SUPPLIES_MAX 32	/* power supplies that are read */

/**
 * rvl_supplies_read() - all supplies of @sys/class/power_supply; there may be none. @sys: "/sys"
 */
void rvl_supplies_read(const char *sys, struct rvl_reading *out);

/** struct rvl_zones - heat of the machine */
struct rvl_zones {
	enum rvl_heat heat;	/* of the worst zone */
	int64_t temp;		/* of the hottest zone, or RVL_NO_VALUE */
};
/** rvl_zones_read() - all of @sys/class/thermal; @limit, @hysteresis: as for rvl_zone_heat() */
void rvl_zones_read(const char *sys, int64_t limit, int64_t hysteresis, struct rvl_zones *out);

/* ---- the limits of a device (devfreq.c) ---- */

/** struct rvl_devfreq - the frequency limits of one device; plain data */
struct rvl_devfreq {
	char dir[320];			/* "": it has no devfreq */
	uint64_t orig_min, orig_max;	/* Hz, before the daemon wrote */
	uint64_t hz;			/* that the limits are pinned to; 0: not pinned */
	uint64_t seen_min, seen_max;	/* read back after pinning */
};

/** struct rvl_devfreq_io - access to the files; both return 0 or negative errno */
struct rvl_devfreq_io {
	int (*read)(const char *path, char *buf, size_t size);
	int (*write)(const char *path, const char *text, size_t size);
};
/** rvl_devfreq_io - sysfs; tests replace it by a simulated kernel */
extern const struct rvl_devfreq_io *rvl_devfreq_io;

/**
 * rvl_devfreq_open() - find the devfreq of a DRM node's device, and record its limits for restoring
 * @syspath: of the node. -ENOENT: it has none (yet)
 */
int rvl_devfreq_open(struct rvl_devfreq *d, const char *syspath, struct rvl_text *err);
/**
 * rvl_devfreq_pin() - set minimum and maximum to @hz, which is one of its frequencies
 * -ERANGE: another request keeps the range below or above it; -EACCES: no permission to write;
 * -ENODEV, -ENOENT: the device is gone. @err names the file.
 */
int rvl_devfreq_pin(struct rvl_devfreq *d, uint64_t hz, struct rvl_text *err);
/**
 * rvl_devfreq_changed() - whether the limits differ from those after rvl_devfreq_pin(); returns
 * them
 */
bool rvl_devfreq_changed(const struct rvl_devfreq *d, uint64_t *min, uint64_t *max);
/** rvl_devfreq_put() - set the limits to those of another writer; nothing is restored afterwards */
int rvl_devfreq_put(struct rvl_devfreq *d, uint64_t min, uint64_t max, struct rvl_text *err);
/** rvl_devfreq_restore() - set the original limits if they are pinned */
int rvl_devfreq_restore(struct rvl_devfreq *d, struct rvl_text *err);

/* ---- state that survives a restart (power_state.c) ---- */

/** struct rvl_power_state - plain data */
struct rvl_power_state {
	struct rvl_devfreq devfreq;
	uint32_t step, cap, level, reserve;
	uint64_t changed;		/* CLOCK_MONOTONIC, of this boot */
	uint32_t mode, fixed;		/* set by the tool; KEEP: not set */
};
/** rvl_power_save() - replace the file @path; 0 or negative errno */
int rvl_power_save(const char *path, const struct rvl_power_state *st);
/**
 * rvl_power_load() - -ENOENT: no file; -ESTALE: it is of another boot; -EINVAL: it is damaged. @st
 * is zeroed on failure
 */
int rvl_power_load(const char *path, struct rvl_power_state *st);

/* ---- the loop (power.c) ---- */

struct rvl_power {
	struct rvl_manager *m;
	const char *sys;
	bool ready;		/* the policy is configured for the present device */
	uint64_t since;		/* when @ready became true */
	struct rvl_policy policy;
	struct rvl_gauge gauge;
	struct rvl_zones zones;
	uint64_t readings;	/* of the supplies and zones */
	uint64_t uevents;	/* received, each followed by a reading */
	uint32_t demands[RIVULET_LEVELS];	/* runs of PolicyUsers= that cannot run at this level */
	uint32_t running[RIVULET_LEVELS];	/* runs under way that cannot */
	uint32_t n_running;
	uint32_t tool_mode, tool_fixed;	/* KEEP: not set */
	uint32_t profile;		/* of power-profiles-daemon: a mode, or KEEP */
	bool mode_changed;			/* since the last tick */
	uint32_t refused;		/* bit n: devfreq refused level n */
	uint64_t refused_until;
	struct rvl_devfreq devfreq;
	bool steered, yielded;
	bool logged_writer, logged_refused, logged_unsteered;	/* each is logged once */
	uint32_t applied;		/* level that the device was set to; RIVULET_LEVELS: none */
	uint32_t sent_flags, sent_level;	/* of the last LEVEL event */
	struct rvl_power_state recovered;	/* of a daemon that was killed; used once */
	char state_path[160];		/* "": no state is kept */
	sd_event_source *timer;
	sd_device_monitor *monitor;
	struct rvl_profiles *profiles;
};

/** rvl_power_start() - watch supplies and zones and read them; the device may be absent */
int rvl_power_start(struct rvl_manager *m, struct rvl_text *err);
/** rvl_power_stop() - restore the device's limits and remove the state file */
void rvl_power_stop(struct rvl_power *pw);
/** rvl_power_device() - the device was added or removed */
void rvl_power_device(struct rvl_power *pw);
/** rvl_power_reload() - the configuration has changed */
void rvl_power_reload(struct rvl_power *pw);
/** rvl_power_tick() - read all supplies and zones, evaluate the policy, apply the result */
void rvl_power_tick(struct rvl_power *pw);
/** rvl_power_mode() - the mode in force, the level of FIXED, and the source of the mode */
uint32_t rvl_power_mode(const struct rvl_power *pw, uint32_t *fixed, uint32_t *source);
/** rvl_power_set_mode() - the mode of the tool; -ERANGE: no such level */
int rvl_power_set_mode(struct rvl_power *pw, uint32_t mode, uint32_t fixed, struct rvl_text *err);
/** rvl_power_set_profile() - the mode of power-profiles-daemon; KEEP: it has stopped */
void rvl_power_set_profile(struct rvl_power *pw, uint32_t mode);
/**
 * rvl_power_allowed() - levels that the runs of PolicyUsers= leave, and those that are under way
 */
uint32_t rvl_power_allowed(const struct rvl_power *pw);
/** rvl_power_flags() - enum rivulet_policy_flag */
uint32_t rvl_power_flags(const struct rvl_power *pw);

/* ---- for the scheduler (power.c) ---- */

/*
 * Who decides the level: the mode, charge and heat; and runs of PolicyUsers=, which demand a level
 * that they can run at from their admission to their end. Runs of other users demand nothing: they
 * are admitted and started only at the level that was decided on. Those under way delay a change.
 */

/**
 * rvl_power_admit() - may a run of this priority that can run at @levels be queued; says why not
 * @demands: it is of a user of PolicyUsers=. -EAGAIN: in the reserve or too hot; -EBUSY: it demands a
 * level that no level suits together with the demands before it; -EOPNOTSUPP: it may not demand,
 * and has no variant for the level; or the device's level is not ours to choose and it lacks one.
 */
int rvl_power_admit(const struct rvl_power *pw, uint32_t levels, uint32_t priority, bool demands,
		    struct rvl_text *err);
/** rvl_power_demand() - a run of a user of PolicyUsers= was queued (@by 1) or has ended (-1) */
void rvl_power_demand(struct rvl_power *pw, uint32_t levels, int by);
/**
 * rvl_power_can_start() - may a queued run start now
 * -EAGAIN: when the runs under way have ended, for the level changes then; -EOPNOTSUPP: the level was
 * changed to one that it has no variant for, which the text names.
 */
int rvl_power_can_start(const struct rvl_power *pw, uint32_t levels, bool demands,
			struct rvl_text *err);
/** rvl_power_run() - a run was started (@by 1) or has ended (-1) */
void rvl_power_run(struct rvl_power *pw, uint32_t levels, int by);
/**
 * rvl_power_override() - the variant and the clock that Reconfigure= keeps; zeroes without a device
 * rvl_power_usable() - levels of the policy at which a program with variants for @levels can run
 * rvl_power_forced() - 1 + the level whose variant a run that starts now must use, at least
 * @min_level; 0: the variant of the level that the device is at
 */
struct rvl_override rvl_power_override(const struct rvl_power *pw);
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

/** rvl_power_event() - send LEVEL to one session, if it has the feature POLICY */
void rvl_power_event(const struct rvl_power *pw, struct rvl_session *s);

/* ---- power-profiles-daemon (profiles.c) ---- */

/** rvl_profiles_start() - listen on the system bus; NULL: there is none, which is no error */
struct rvl_profiles *rvl_profiles_start(struct rvl_power *pw);
struct rvl_profiles *rvl_profiles_stop(struct rvl_profiles *p);

#endif

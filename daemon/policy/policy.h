/* SPDX-License-Identifier: MIT */
/*
 * Chooses a voltage/frequency level by battery, mains and heat. Pure: every function is given the
 * time and all other input, so that a replayed trace gives the levels that were chosen when it was
 * recorded.
 *
 *   attributes of sysfs -> supply -> reading (all supplies) -> gauge (filtered charge) -> policy
 *
 * Charge is in parts per million of full, time in nanoseconds of one monotonic clock, temperature
 * in millidegrees Celsius. Level numbers are the board's, 0 the slowest.
 */
#ifndef RVL_POLICY_H
#define RVL_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rivulet_board.h"
#include "rivulet_proto.h"

#define RVL_PPM		1000000u
#define RVL_NO_VALUE	INT64_MIN

/* ---- supplies (battery.c) ---- */

enum rvl_supply_kind { RVL_SUPPLY_IGNORED = 0, RVL_SUPPLY_BATTERY, RVL_SUPPLY_MAINS };
enum rvl_supply_status {
	RVL_STATUS_UNKNOWN = 0, RVL_STATUS_DISCHARGING, RVL_STATUS_CHARGING, RVL_STATUS_IDLE,
};

/** struct rvl_supply - one power supply by its attributes; implausible values count as absent */
struct rvl_supply {
	enum rvl_supply_kind kind;
	enum rvl_supply_status status;	/* batteries; IDLE: full or not charging */
	bool online;			/* mains */
	bool online_known;
	int64_t ratio;			/* batteries: ppm, or RVL_NO_VALUE */
	int64_t full;			/* microwatthours, or RVL_NO_VALUE */
};

/**
 * rvl_attr_fn - get an attribute as text without its line end; false: there is no such attribute
 */
typedef bool (*rvl_attr_fn)(void *ctx, const char *name, char *buf, size_t size);

/** rvl_supply_read() - read one supply from its attributes */
void rvl_supply_read(rvl_attr_fn get, void *ctx, struct rvl_supply *out);

/** struct rvl_reading - all supplies of the machine at one moment */
struct rvl_reading {
	uint32_t batteries;	/* that power the system */
	uint32_t readable;	/* of these, whose charge can be read */
	uint32_t charge;	/* ppm over the readable ones, by energy; 0 without any */
	bool mains_known, mains;
	bool charging, discharging, idle;	/* at least one battery is */
};

/** rvl_reading_sum() - combine @n supplies into one reading */
void rvl_reading_sum(const struct rvl_supply *s, size_t n, struct rvl_reading *out);

/* ---- the filter of readings (battery.c) ---- */

#define RVL_GAUGE_GRACE		(60ull * 1000000000ull)	/* for a battery that disappeared to come back */
#define RVL_GAUGE_JUMP		100000u			/* ppm; a larger change must be confirmed */
#define RVL_GAUGE_RATE		1000u			/* ppm a second added to that, if not read for long */
#define RVL_GAUGE_RATE_MAX	10000u			/* ppm a second; the most that is added, whatever the drain */
#define RVL_GAUGE_CONFIRM	3u			/* readings that confirm a jump, and */
#define RVL_GAUGE_CONFIRM_NS	(2ull * 1000000000ull)	/* the time that they must span */

/** struct rvl_gauge - the filtered charge, and how fast it falls */
struct rvl_gauge {
	bool known;		/* @charge is valid */
	bool external;		/* power comes from outside */
	bool battery;		/* there is a battery, or was within RVL_GAUGE_GRACE */
	uint32_t charge;	/* ppm */
	uint64_t at;		/* of the last accepted reading */
	uint32_t drain;		/* ppm a second, 0 or more */
	uint64_t absent_since;		/* since when there is no battery; 0: there is one */
	uint32_t jumps;		/* readings in a row that jumped to about @jump_charge */
	uint32_t jump_charge;
	uint64_t jump_since;
	uint64_t rejected;	/* readings that were rejected */
};

/** rvl_gauge_update() - filter a reading; returns whether its charge was accepted */
bool rvl_gauge_update(struct rvl_gauge *g, const struct rvl_reading *r, uint64_t now);

/**
 * rvl_gauge_interval() - ns until the next reading, in which less than a quarter percent is used
 * @least, @most: bounds. After a jump the interval is shorter, to confirm it.
 */
uint64_t rvl_gauge_interval(const struct rvl_gauge *g, uint64_t least, uint64_t most);

/* ---- heat (battery.c) ---- */

/** enum rvl_heat - WARM: below the trip by less than the hysteresis */
enum rvl_heat { RVL_HEAT_NONE = 0, RVL_HEAT_WARM, RVL_HEAT_PASSIVE, RVL_HEAT_HOT };

/**
 * rvl_zone_heat() - the heat of a thermal zone by its attributes
 * @limit: a limit besides the zone's own passive trips, 0: none; @temp: the temperature, or
 * RVL_NO_VALUE if it is implausible. HOT: a hot trip, or 5 degrees below a critical one.
 */
enum rvl_heat rvl_zone_heat(rvl_attr_fn get, void *ctx, int64_t limit, int64_t hysteresis,
			    int64_t *temp);

/* ---- the policy (policy.c) ---- */

/** struct rvl_policy_config - checked by rvl_policy_configure() */
struct rvl_policy_config {
	uint32_t n;				/* levels in use */
	uint32_t level[RIVULET_LEVELS];		/* fastest first */
	uint32_t threshold[RIVULET_LEVELS];	/* ppm, n - 1: at or below [i], level[i + 1] */
	uint32_t hysteresis;			/* ppm, upward only */
	uint32_t reserve;			/* ppm at or below which ReserveAdmits= holds; 0: none */
	uint64_t dwell;				/* ns after a change before the level may rise */
	uint64_t heat_step;			/* ns between two steps down while it is too hot */
};

/**
 * rvl_policy_configure() - levels and thresholds for a board
 * @levels: fastest first, @n_levels 0: all of the board except those that have a faster one at the same
 * voltage; @thresholds: ppm, falling, one fewer than levels; @n_thresholds 0: equal shares.
 * The caller fills in the other fields of @c. Returns 0, or -EINVAL with @err.
 */
int rvl_policy_configure(struct rvl_policy_config *c, const struct rivulet_board *board,
			 const uint32_t *levels, size_t n_levels, const uint32_t *thresholds,
			 size_t n_thresholds, char *err, size_t errsize);

/** struct rvl_policy_input - all input of one step */
struct rvl_policy_input {
	uint64_t now;
	bool external, battery, known;	/* as in struct rvl_gauge */
	uint32_t charge;
	enum rvl_heat heat;
	uint32_t allowed;		/* bit n: level n can be had; 0: any */
	uint32_t running;		/* bit n: all runs under way can run at level n; 0: none is */
	uint32_t mode;			/* enum rivulet_policy_mode */
	uint32_t fixed;			/* level of FIXED */
	bool mode_changed;		/* since the last step: the dwell time does not apply */
};

/** struct rvl_policy - state; the members marked * are saved for a restart */
struct rvl_policy {
	struct rvl_policy_config cfg;
	bool started;			/* a first level was chosen */
	bool unsettled;			/* the next step ignores hysteresis and dwell */
	uint32_t step;			/* * of the battery: index in cfg.level */
	uint32_t cap;			/* * of the heat: no index below this */
	uint64_t cap_since;		/* last change of @cap */
	bool reserve;			/* * charge is in the reserve */
	bool emergency;			/* too hot to admit */
	uint32_t level;			/* * */
	uint32_t target;		/* level to change to once the runs under way can run there */
	bool waits;			/* @target is not @level for that reason */
	uint32_t reason;		/* enum rivulet_policy_reason */
	uint64_t changed;		/* * when @level changed */
	uint64_t since;			/* of the last step, for @residency */
	uint64_t residency[RIVULET_LEVELS];	/* ns */
	uint64_t entries[RIVULET_LEVELS];
};

/** rvl_policy_init() - initialise before the first step; @cfg is copied */
void rvl_policy_init(struct rvl_policy *p, const struct rvl_policy_config *cfg);
/**
 * rvl_policy_reconfigure() - change levels or thresholds; the next step chooses the level without
 * hysteresis and dwell
 */
void rvl_policy_reconfigure(struct rvl_policy *p, const struct rvl_policy_config *cfg);

/**
 * rvl_policy_step() - evaluate the input and change the level if required
 * The level falls at once, at the threshold. It rises only beyond the hysteresis and the dwell time
 * after the last change, unless the level in force is not allowed or the mode was changed. Returns
 * whether level, reserve or emergency changed.
 */
bool rvl_policy_step(struct rvl_policy *p, const struct rvl_policy_input *in);

/** rvl_policy_residency() - ns at @level until @now */
uint64_t rvl_policy_residency(const struct rvl_policy *p, uint32_t level, uint64_t now);

/** rvl_policy_wake() - when a step is due without a new reading; UINT64_MAX: never */
uint64_t rvl_policy_wake(const struct rvl_policy *p, const struct rvl_policy_input *in);

/**
 * rvl_policy_floor() - slowest level that may be in force before @deadline
 * Counts the drain, mains that may be unplugged at any time, and present heat. A change of the mode
 * and a sudden emergency cannot be foreseen.
 */
uint32_t rvl_policy_floor(const struct rvl_policy *p, const struct rvl_policy_input *in,
			  uint32_t drain, uint64_t deadline);

/** rvl_policy_mode_name(), rvl_policy_reason_name() - "auto"; "?" outside the table */
const char *rvl_policy_mode_name(uint32_t mode);
const char *rvl_policy_reason_name(uint32_t reason);
/** rvl_policy_mode_parse() - a name, or the number of a level for FIXED. 0 or -EINVAL */
int rvl_policy_mode_parse(const char *s, uint32_t *mode, uint32_t *fixed);

/* ---- traces (trace.c): rivulet(1) has the format ---- */

/** struct rvl_trace_row - one line */
struct rvl_trace_row {
	uint64_t time;			/* ns */
	struct rvl_reading reading;
	int64_t temp;			/* RVL_NO_VALUE: none */
};

/**
 * rvl_trace_parse() - parse the next row of a text
 * @at: position, advanced; @line: counts lines. Returns 1 with @row, 0 at the end, or -EINVAL with
 * @err = "line N: what is wrong".
 */
int rvl_trace_parse(const char **at, unsigned int *line, struct rvl_trace_row *row, char *err,
		    size_t errsize);

/** struct rvl_replay - a policy that a trace is replayed to */
struct rvl_replay {
	struct rvl_gauge gauge;
	struct rvl_policy policy;
	uint32_t mode, fixed;
	int64_t limit, heat_hysteresis;	/* for the trace's temperature */
	struct rvl_policy_input in;	/* of the last row */
};

/**
 * rvl_replay_until() - advance with the last reading to the next change before @time
 * Returns true with @at, or false when there is none.
 */
bool rvl_replay_until(struct rvl_replay *r, uint64_t time, uint64_t *at);
/** rvl_replay_row() - apply a row; returns whether level, reserve or emergency changed */
bool rvl_replay_row(struct rvl_replay *r, const struct rvl_trace_row *row);

#endif

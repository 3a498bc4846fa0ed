// SPDX-License-Identifier: MIT
/*
 * The power policy with simulated input: thresholds, hysteresis, dwell time, heat, reserve,
 * plausibility of battery readings, and invariants over thousands of random sequences.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "suite.h"

#define SEC 1000000000ull
#define PCT(x) ((uint32_t)((x) * 10000))

static struct rivulet_board board;
static struct rvl_policy_config cfg;
static struct rvl_policy pol;
static struct rvl_policy_input in;
static char err[256];

static void make_board(uint32_t levels)
{
	memset(&board, 0, sizeof(board));
	snprintf(board.name, sizeof(board.name), "test");
	board.levels = levels;
	for (uint32_t i = 0; i < levels; i++)
		board.level[i] = (struct rivulet_board_level){ .hz = 100000000ull * (i + 1),
							       .microvolt = 800000 + 10000 * i };
}

static void set_up(void)
{
	make_board(3);
	memset(&cfg, 0, sizeof(cfg));
	cfg.hysteresis = PCT(2);
	cfg.reserve = PCT(5);
	cfg.dwell = 10 * SEC;
	cfg.heat_step = 5 * SEC;
	ck_assert_int_eq(rvl_policy_configure(&cfg, &board, NULL, 0, NULL, 0, err, sizeof(err)), 0);
	rvl_policy_init(&pol, &cfg);
	in = (struct rvl_policy_input){ .now = SEC, .battery = true, .known = true,
					.charge = RVL_PPM, .mode = RIVULET_POLICY_AUTO };
}

static uint32_t step_at(uint64_t now, uint32_t charge)
{
	in.now = now;
	in.charge = charge;
	rvl_policy_step(&pol, &in);
	return pol.level;
}

/* Proves that the level falls exactly at the threshold and at once, whenever it changed before. */
START_TEST(exactly_at_the_threshold)
{
	uint32_t t0 = cfg.threshold[0], t1 = cfg.threshold[1];

	ck_assert_uint_eq(t0, 666667);
	ck_assert_uint_eq(step_at(1 * SEC, RVL_PPM), 2);
	ck_assert_uint_eq(step_at(2 * SEC, t0 + 1), 2);
	ck_assert_uint_eq(step_at(2 * SEC + 1, t0), 1);
	ck_assert_uint_eq(step_at(2 * SEC + 2, t1 + 1), 1);
	ck_assert_uint_eq(step_at(2 * SEC + 3, t1), 0);
	ck_assert_uint_eq(pol.reason, RIVULET_REASON_BATTERY);
	ck_assert_uint_eq(pol.residency[2], SEC + 1);
	ck_assert_uint_eq(pol.entries[0] + pol.entries[1] + pol.entries[2], 3);
}
END_TEST

/*
 * Proves that the level rises only beyond the hysteresis and after the dwell time, to the ppm and
 * the ns.
 */
START_TEST(upward)
{
	uint32_t t0 = cfg.threshold[0];

	step_at(SEC, t0);
	ck_assert_uint_eq(step_at(100 * SEC, t0 + cfg.hysteresis - 1), 1);
	ck_assert_uint_eq(step_at(101 * SEC, t0 + cfg.hysteresis), 2);
	ck_assert_uint_eq(step_at(102 * SEC, t0), 1);
	ck_assert_uint_eq(step_at(112 * SEC - 1, RVL_PPM), 1);
	ck_assert_uint_eq(rvl_policy_wake(&pol, &in), 112 * SEC);
	ck_assert_uint_eq(step_at(112 * SEC, RVL_PPM), 2);
	ck_assert_uint_eq(rvl_policy_wake(&pol, &in), UINT64_MAX);
}
END_TEST

/*
 * Proves that a change of the level waits for runs in progress, and that the dwell time does not
 * apply after that wait.
 */
START_TEST(waits_for_runs)
{
	uint32_t t0 = cfg.threshold[0];

	step_at(SEC, RVL_PPM);
	in.running = 4;
	ck_assert_uint_eq(step_at(2 * SEC, t0), 2);
	ck_assert(pol.target == 1 && pol.waits);
	in.running = 6;
	ck_assert_uint_eq(step_at(3 * SEC, t0), 1);
	ck_assert(pol.target == 1 && !pol.waits);
	/* During the dwell time no change is pending, so the target is the present level. */
	in.running = 2;
	ck_assert_uint_eq(step_at(4 * SEC, RVL_PPM), 1);
	ck_assert(pol.target == 1 && !pol.waits);
	ck_assert_uint_eq(step_at(13 * SEC, RVL_PPM), 1);
	ck_assert(pol.target == 2 && pol.waits);
	in.running = 0;
	ck_assert_uint_eq(step_at(13 * SEC + 1, RVL_PPM), 2);
}
END_TEST

/* Proves that a full battery is above every threshold, whatever the hysteresis. */
START_TEST(full_battery)
{
	const uint32_t high[] = { PCT(99.5), PCT(50) };

	ck_assert_int_eq(rvl_policy_configure(&cfg, &board, NULL, 0, high, 2, err, sizeof(err)), 0);
	rvl_policy_init(&pol, &cfg);
	ck_assert_uint_eq(step_at(SEC, PCT(99)), 1);
	ck_assert_uint_eq(step_at(60 * SEC, RVL_PPM), 2);
}
END_TEST

/*
 * Proves that mains raises the level after the dwell time, and that its removal lowers the level at
 * once.
 */
START_TEST(plug)
{
	ck_assert_uint_eq(step_at(SEC, PCT(20)), 0);
	in.external = true;
	ck_assert_uint_eq(step_at(2 * SEC, PCT(20)), 0);
	ck_assert_uint_eq(step_at(11 * SEC, PCT(20)), 2);
	ck_assert_uint_eq(pol.reason, RIVULET_REASON_MAINS);
	in.external = false;
	ck_assert_uint_eq(step_at(11 * SEC + 1, PCT(21)), 0);
}
END_TEST

/* Proves the level of each mode, and that a mode that was set explicitly takes effect at once. */
START_TEST(modes)
{
	uint32_t mode, fixed;

	make_board(4);
	rvl_policy_configure(&cfg, &board, NULL, 0, NULL, 0, err, sizeof(err));
	rvl_policy_init(&pol, &cfg);
	step_at(SEC, PCT(10));
	ck_assert_uint_eq(pol.level, 0);
	in.mode = RIVULET_POLICY_PERFORMANCE;
	ck_assert_uint_eq(step_at(SEC + 1, PCT(10)), 0);
	in.mode_changed = true;
	ck_assert_uint_eq(step_at(SEC + 2, PCT(10)), 3);
	in.mode = RIVULET_POLICY_BALANCED;
	ck_assert_uint_eq(step_at(SEC + 3, PCT(100)), 2);
	in.mode = RIVULET_POLICY_POWERSAVE;
	ck_assert_uint_eq(step_at(SEC + 4, PCT(100)), 0);
	in.mode = RIVULET_POLICY_FIXED;
	in.fixed = 1;
	ck_assert_uint_eq(step_at(SEC + 5, PCT(100)), 1);
	ck_assert_uint_eq(pol.reason, RIVULET_REASON_MODE);
	for (uint32_t m = RIVULET_POLICY_AUTO; m < RIVULET_POLICY_FIXED; m++) {
		ck_assert_int_eq(rvl_policy_mode_parse(rvl_policy_mode_name(m), &mode, &fixed), 0);
		ck_assert_uint_eq(mode, m);
	}
	ck_assert_int_eq(rvl_policy_mode_parse("5", &mode, &fixed), 0);
	ck_assert(mode == RIVULET_POLICY_FIXED && fixed == 5);
	ck_assert_int_eq(rvl_policy_mode_parse("8", &mode, &fixed), -EINVAL);
	ck_assert_int_eq(rvl_policy_mode_parse("fixed", &mode, &fixed), -EINVAL);
	ck_assert_int_eq(rvl_policy_mode_parse("", &mode, &fixed), -EINVAL);
	ck_assert_str_eq(rvl_policy_mode_name(99), "?");
}
END_TEST

/*
 * Proves that heat lowers the level step by step, that an emergency selects the lowest one, and
 * that the level rises by one step per dwell time.
 */
START_TEST(heat)
{
	in.external = true;
	step_at(SEC, RVL_PPM);
	in.heat = RVL_HEAT_PASSIVE;
	ck_assert_uint_eq(step_at(2 * SEC, RVL_PPM), 1);
	ck_assert_uint_eq(pol.reason, RIVULET_REASON_HEAT);
	ck_assert_uint_eq(rvl_policy_wake(&pol, &in), 7 * SEC);
	ck_assert_uint_eq(step_at(7 * SEC - 1, RVL_PPM), 1);
	ck_assert_uint_eq(step_at(7 * SEC, RVL_PPM), 0);
	in.heat = RVL_HEAT_WARM;
	ck_assert_uint_eq(step_at(60 * SEC, RVL_PPM), 0);
	in.heat = RVL_HEAT_NONE;
	ck_assert_uint_eq(step_at(61 * SEC, RVL_PPM), 1);
	ck_assert_uint_eq(step_at(70 * SEC, RVL_PPM), 1);
	ck_assert_uint_eq(step_at(71 * SEC, RVL_PPM), 2);
	in.heat = RVL_HEAT_HOT;
	ck_assert_uint_eq(step_at(72 * SEC, RVL_PPM), 0);
	ck_assert(pol.emergency);
	/* An explicit mode does not override an emergency. */
	in.mode_changed = true;
	in.mode = RIVULET_POLICY_PERFORMANCE;
	ck_assert_uint_eq(step_at(73 * SEC, RVL_PPM), 0);
}
END_TEST

/* Proves the thresholds of the reserve, and that mains ends it. */
START_TEST(reserve)
{
	step_at(SEC, PCT(5) + 1);
	ck_assert(!pol.reserve);
	step_at(2 * SEC, PCT(5));
	ck_assert(pol.reserve);
	step_at(3 * SEC, PCT(7) - 1);
	ck_assert(pol.reserve);
	step_at(4 * SEC, PCT(7));
	ck_assert(!pol.reserve);
	step_at(5 * SEC, PCT(1));
	in.external = true;
	in.now = 6 * SEC;
	ck_assert(rvl_policy_step(&pol, &in));
	ck_assert(!pol.reserve);
}
END_TEST

/*
 * Proves that a level without a variant is never chosen: the next lower one is, or else the next
 * higher one.
 */
START_TEST(variants)
{
	step_at(SEC, RVL_PPM);
	in.allowed = 3;
	ck_assert_uint_eq(step_at(2 * SEC, RVL_PPM), 1);
	ck_assert_uint_eq(pol.reason, RIVULET_REASON_VARIANT);
	in.allowed = 4;
	ck_assert_uint_eq(step_at(2 * SEC + 1, PCT(10)), 2);
	in.allowed = 6;
	ck_assert_uint_eq(step_at(2 * SEC + 2, PCT(10)), 1);
	in.allowed = 0;
	ck_assert_uint_eq(step_at(2 * SEC + 3, PCT(10)), 0);
}
END_TEST

/* Proves that levels that save no energy are omitted, and that errors in the lists are reported. */
START_TEST(configuration)
{
	static const uint32_t up[] = { 0, 1 }, high[] = { 5 }, two[] = { 2, 0 };
	static const uint32_t rising[] = { 300000, 600000 }, over[] = { 1000001, 5 };

	board.level[0].microvolt = board.level[1].microvolt;
	ck_assert_int_eq(rvl_policy_configure(&cfg, &board, NULL, 0, NULL, 0, err, sizeof(err)), 0);
	ck_assert_uint_eq(cfg.n, 2);
	ck_assert_uint_eq(cfg.level[1], 1);
	ck_assert_uint_eq(cfg.threshold[0], 500000);
	ck_assert_int_eq(rvl_policy_configure(&cfg, &board, two, 2, NULL, 0, err, sizeof(err)), 0);
	ck_assert_uint_eq(cfg.level[1], 0);
	ck_assert_int_lt(rvl_policy_configure(&cfg, &board, up, 2, NULL, 0, err, sizeof(err)), 0);
	ck_assert_str_eq(err, "level 1 behind level 0: the fastest comes first");
	ck_assert_int_lt(rvl_policy_configure(&cfg, &board, high, 1, NULL, 0, err, sizeof(err)), 0);
	ck_assert_str_eq(err, "level 5; the board test has 0 to 2");
	ck_assert_int_lt(rvl_policy_configure(&cfg, &board, two, 2, rising, 2, err, sizeof(err)),
			 0);
	make_board(3);
	ck_assert_int_lt(rvl_policy_configure(&cfg, &board, NULL, 0, rising, 2, err, sizeof(err)),
			 0);
	ck_assert_int_lt(rvl_policy_configure(&cfg, &board, NULL, 0, over, 2, err, sizeof(err)), 0);
}
END_TEST

/*
 * Proves the slowest level that admission assumes: with the drain until the deadline, without
 * mains, and with the present heat.
 */
START_TEST(slowest_before_the_deadline)
{
	step_at(SEC, PCT(80));
	ck_assert_uint_eq(rvl_policy_floor(&pol, &in, 0, in.now + SEC), 2);
	/* A discharge of twice 1 % per second for ten seconds passes the threshold of 66.67 %. */
	ck_assert_uint_eq(rvl_policy_floor(&pol, &in, 10000, in.now + 10 * SEC), 1);
	ck_assert_uint_eq(rvl_policy_floor(&pol, &in, 10000, in.now + SEC), 2);
	/* The reading may be stale by half a percent. */
	step_at(2 * SEC, cfg.threshold[0] + PCT(0.4));
	ck_assert_uint_eq(rvl_policy_floor(&pol, &in, 0, in.now + 1), 1);
	in.external = true;
	step_at(60 * SEC, PCT(20));
	ck_assert_uint_eq(pol.level, 2);
	ck_assert_uint_eq(rvl_policy_floor(&pol, &in, 0, in.now + 1), 0);
	in.battery = in.known = false;
	step_at(61 * SEC, 0);
	ck_assert_uint_eq(rvl_policy_floor(&pol, &in, 0, in.now + 3600 * SEC), 2);
	in.heat = RVL_HEAT_PASSIVE;
	ck_assert_uint_eq(rvl_policy_floor(&pol, &in, 0, in.now + 1), 1);
	ck_assert_uint_eq(rvl_policy_floor(&pol, &in, 0, in.now + 6 * SEC), 0);
	in.heat = RVL_HEAT_HOT;
	ck_assert_uint_eq(rvl_policy_floor(&pol, &in, 0, in.now), 0);
}
END_TEST

/* ---- invariants ---- */

struct history {
	uint64_t last_up;
	uint32_t ups;
};

static uint32_t charge_limit(uint32_t charge)
{
	uint32_t i = 0;

	while (i + 1 < cfg.n && charge <= cfg.threshold[i])
		i++;
	return cfg.level[i];
}

static void check_step(struct history *l, uint32_t before, uint64_t changed_before)
{
	uint32_t all = in.allowed ? in.allowed : ~0u;
	bool forced = !(all >> before & 1);

	ck_assert(all >> pol.level & 1);
	if (!forced && in.allowed == 0 && in.mode == RIVULET_POLICY_AUTO && !in.external)
		ck_assert_uint_le(pol.level, charge_limit(in.charge));
	if (in.heat == RVL_HEAT_HOT && !in.allowed)
		ck_assert_uint_eq(pol.level, cfg.level[cfg.n - 1]);
	if (pol.level <= before || forced)
		return;
	/* A rise never follows any change within the dwell time. */
	ck_assert_uint_ge(in.now - changed_before, cfg.dwell);
	l->ups++;
}

static void random_sequence(unsigned int seed, int steps)
{
	struct history l = { 0 };
	uint64_t changed;
	uint32_t before;
	int64_t charge;

	srand(seed);
	make_board(1 + (uint32_t)rand() % RIVULET_LEVELS);
	rvl_policy_configure(&cfg, &board, NULL, 0, NULL, 0, err, sizeof(err));
	cfg.dwell = (uint64_t)(rand() % 20) * SEC;
	cfg.hysteresis = (uint32_t)rand() % PCT(10);
	rvl_policy_init(&pol, &cfg);
	in = (struct rvl_policy_input){ .now = SEC, .battery = true, .known = true,
					.mode = RIVULET_POLICY_AUTO };
	charge = rand() % RVL_PPM;
	step_at(SEC, (uint32_t)charge);
	for (int i = 0; i < steps; i++) {
		charge += rand() % 40001 - 20500;
		charge = charge < 0 ? 0 : charge > RVL_PPM ? RVL_PPM : charge;
		in.external = rand() % 8 == 0 ? !in.external : in.external;
		in.heat = rand() % 16 == 0 ? (enum rvl_heat)(rand() % 4) : in.heat;
		in.allowed = rand() % 4 ? 0 : (uint32_t)(1 + rand() % ((1 << board.levels) - 1));
		before = pol.level;
		changed = pol.changed;
		step_at(in.now + (uint64_t)rand() % (3 * SEC), (uint32_t)charge);
		check_step(&l, before, changed);
	}
}

/*
 * Proves the invariants: the level never exceeds what the charge allows, and rises at most once per
 * dwell time.
 */
START_TEST(random_sequences)
{
	for (unsigned int seed = 0; seed < 5000; seed++)
		random_sequence(seed, 100);
}
END_TEST

/* ---- supplies ---- */

struct attrs {
	const char *const (*pair)[2];
};

static bool get(void *ctx, const char *name, char *buf, size_t size)
{
	const struct attrs *a = ctx;

	for (int i = 0; a->pair[i][0]; i++)
		if (!strcmp(a->pair[i][0], name)) {
			snprintf(buf, size, "%s", a->pair[i][1]);
			return true;
		}
	return false;
}

#define SUPPLY(name, ...) static const char *const name[][2] = { __VA_ARGS__, { NULL, NULL } }
SUPPLY(bat_energy, { "type", "Battery" }, { "status", "Discharging" }, { "energy_now", "30000000" },
       { "energy_full", "40000000" }, { "capacity", "75" });
SUPPLY(bat_charge, { "type", "Battery" }, { "status", "Discharging" }, { "charge_now", "1000000" },
       { "charge_full", "4000000" }, { "voltage_min_design", "10000000" });
SUPPLY(bat_capacity, { "type", "Battery" }, { "capacity", "40" });
SUPPLY(bat_255, { "type", "Battery" }, { "status", "Discharging" }, { "capacity", "255" });
SUPPLY(bat_negative, { "type", "Battery" }, { "energy_now", "-5" }, { "energy_full", "100" },
       { "capacity", "60" });
SUPPLY(bat_no_full, { "type", "Battery" }, { "energy_now", "50" }, { "energy_full", "0" },
       { "energy_full_design", "100" });
SUPPLY(bat_overfull, { "type", "Battery" }, { "energy_now", "104" }, { "energy_full", "100" });
SUPPLY(bat_huge, { "type", "Battery" }, { "energy_now", "9223372036854775807" },
       { "energy_full", "9223372036854775807" });
SUPPLY(bat_words, { "type", "Battery" }, { "energy_now", "many" }, { "capacity", "" });
SUPPLY(bat_zero_glitch, { "type", "Battery" }, { "energy_now", "0" }, { "energy_full", "100" },
       { "capacity", "80" });
SUPPLY(bat_absent, { "type", "Battery" }, { "present", "0" }, { "capacity", "80" });
SUPPLY(mouse, { "type", "Battery" }, { "scope", "Device" }, { "capacity", "5" });
SUPPLY(ups, { "type", "UPS" }, { "capacity", "90" }, { "status", "Full" });
SUPPLY(mains_on, { "type", "Mains" }, { "online", "1" });
SUPPLY(mains_off, { "type", "Mains" }, { "online", "0" });
SUPPLY(usb_odd, { "type", "USB" }, { "online", "77" });

static struct rvl_reading sum_of(const char *const (*a)[2], const char *const (*b)[2],
				 const char *const (*c)[2])
{
	const char *const (*list[])[2] = { a, b, c };
	struct rvl_supply s[3];
	struct rvl_reading r;
	size_t n = 0;

	for (size_t i = 0; i < 3; i++)
		if (list[i])
			rvl_supply_read(get, &(struct attrs){ list[i] }, &s[n++]);
	rvl_reading_sum(s, n, &r);
	return r;
}

/*
 * Proves how the charge is computed from a battery's attributes, and that invalid values are
 * ignored.
 */
START_TEST(supplies)
{
	static const struct {
		const char *const (*a)[2], *const (*b)[2], *const (*c)[2];
		uint32_t batteries, readable, charge;
		bool mains_known, mains;
	} rows[] = {
		{ NULL, NULL, NULL, 0, 0, 0, false, false },
		{ bat_energy, NULL, NULL, 1, 1, 750000, false, false },
		{ bat_charge, NULL, NULL, 1, 1, 250000, false, false },
		{ bat_energy, bat_charge, mains_off, 2, 2, 500000, true, false },
		{ bat_capacity, NULL, NULL, 1, 1, 400000, false, false },
		/* A battery of unknown size counts as much as the other one. */
		{ bat_energy, bat_capacity, NULL, 2, 2, 575000, false, false },
		{ bat_255, NULL, NULL, 1, 0, 0, false, false },
		{ bat_energy, bat_255, NULL, 2, 1, 750000, false, false },
		{ bat_negative, NULL, NULL, 1, 1, 600000, false, false },
		{ bat_no_full, NULL, NULL, 1, 1, 500000, false, false },
		{ bat_overfull, NULL, NULL, 1, 1, 1000000, false, false },
		{ bat_huge, NULL, NULL, 1, 0, 0, false, false },
		{ bat_words, NULL, NULL, 1, 0, 0, false, false },
		{ bat_zero_glitch, NULL, NULL, 1, 1, 800000, false, false },
		{ bat_absent, mouse, mains_on, 0, 0, 0, true, true },
		{ ups, mouse, NULL, 1, 1, 900000, false, false },
		{ usb_odd, NULL, NULL, 0, 0, 0, false, false },
		{ usb_odd, mains_on, mains_off, 0, 0, 0, true, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rvl_reading r = sum_of(rows[i].a, rows[i].b, rows[i].c);

		ck_assert_msg(r.batteries == rows[i].batteries && r.readable == rows[i].readable &&
			      r.charge == rows[i].charge && r.mains == rows[i].mains &&
			      r.mains_known == rows[i].mains_known,
			      "row %zu: %u batteries, %u readable, %u ppm, mains %d %d", i,
				      r.batteries,
			      r.readable, r.charge, r.mains_known, r.mains);
	}
}
END_TEST

static const struct rvl_reading discharging = { .batteries = 1, .readable = 1,
						.discharging = true };

static bool feed(struct rvl_gauge *g, uint64_t s, double percent)
{
	struct rvl_reading r = discharging;

	r.charge = PCT(percent);
	return rvl_gauge_update(g, &r, s * SEC);
}

/*
 * Proves that a jump is accepted only when it is read repeatedly, and that a single outlier never
 * is.
 */
START_TEST(jumps)
{
	struct rvl_gauge g = { 0 };

	ck_assert(!feed(&g, 1, 0));
	ck_assert(!g.known);
	ck_assert(feed(&g, 2, 80));
	ck_assert(!feed(&g, 3, 0));
	ck_assert(feed(&g, 4, 79.9));
	for (uint64_t i = 0; i < 50; i++)
		ck_assert_int_eq(feed(&g, 5 + i, i % 2 ? 79.8 : 0), i % 2);
	ck_assert_uint_eq(g.charge, PCT(79.8));
	ck_assert_uint_le(rvl_gauge_interval(&g, 1, 30 * SEC), 30 * SEC);
	/* The reading stays 0. It is accepted after three readings over two seconds. */
	ck_assert(!feed(&g, 60, 0));
	ck_assert_uint_le(rvl_gauge_interval(&g, 1, 30 * SEC), SEC);
	ck_assert(!feed(&g, 61, 0));
	ck_assert(feed(&g, 62, 0));
	ck_assert_uint_eq(g.charge, 0);
	ck_assert(g.rejected > 25);
}
END_TEST

/*
 * Proves that an unreadable value changes nothing, and that a battery may be absent for a minute.
 */
START_TEST(vanishing)
{
	struct rvl_gauge g = { 0 };
	struct rvl_reading none = { 0 }, odd = { .batteries = 1, .discharging = true };

	ck_assert(!rvl_gauge_update(&g, &none, SEC));
	ck_assert(g.external && !g.battery);
	feed(&g, 2, 50);
	ck_assert(!g.external && g.battery);
	ck_assert(!rvl_gauge_update(&g, &odd, 3 * SEC));
	ck_assert(g.known && !g.external && g.charge == PCT(50));
	rvl_gauge_update(&g, &none, 4 * SEC);
	rvl_gauge_update(&g, &none, 63 * SEC);
	ck_assert(g.known && !g.external && g.battery);
	feed(&g, 63, 50);
	rvl_gauge_update(&g, &none, 64 * SEC);
	rvl_gauge_update(&g, &none, 124 * SEC);
	ck_assert(!g.known && g.external && !g.battery);
	/* With mains that reports it is off, the last charge stays valid without limit. */
	feed(&g, 200, 40);
	none.mains_known = true;
	rvl_gauge_update(&g, &none, 201 * SEC);
	rvl_gauge_update(&g, &none, 999 * SEC);
	ck_assert(g.known && !g.external && g.charge == PCT(40));
}
END_TEST

/* Proves when the machine counts as externally powered. */
START_TEST(outside)
{
	static const struct {
		struct rvl_reading r;
		bool external;
	} rows[] = {
		{ { .batteries = 1, .readable = 1, .charge = 500000 }, false },
		{ { .batteries = 1, .readable = 1, .charging = true }, true },
		{ { .batteries = 1, .readable = 1, .idle = true }, true },
		{ { .batteries = 1, .readable = 1, .idle = true, .mains_known = true }, false },
		{ { .batteries = 1, .mains_known = true, .mains = true }, true },
		/* a charger that is too weak for the load */
		{ { .batteries = 1, .mains_known = true, .mains = true, .discharging = true },
		  false },
		/* one of two batteries is charged from mains */
		{ { .batteries = 2, .mains_known = true, .mains = true, .discharging = true,
		    .charging = true }, true },
		{ { .batteries = 2, .discharging = true, .charging = true }, false },
		{ { .mains_known = true, .mains = true }, true },
		{ { 0 }, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rvl_gauge g = { 0 };

		rvl_gauge_update(&g, &rows[i].r, SEC);
		ck_assert_msg(g.external == rows[i].external, "row %zu", i);
	}
}
END_TEST

/*
 * Proves that between two readings at most half a percent is consumed, at any rate and with coarse
 * gauges, too.
 */
START_TEST(lag)
{
	for (double rate = 0.001; rate < 5; rate *= 3) {
		struct rvl_gauge g = { 0 };
		uint64_t now = SEC, most = 30 * SEC, least = SEC / 10;
		double charge = 100, worst = 0;
		int polls = 0;

		/* Nothing is known before the first interval, so it may be too long. */
		for (int i = 0; charge > 1 && polls < 100000; i++, polls++) {
			struct rvl_reading r = discharging;
			uint64_t wait;

			r.charge = PCT(charge);
			rvl_gauge_update(&g, &r, now);
			wait = i < 2 ? least : rvl_gauge_interval(&g, least, most);
			now += wait;
			charge -= rate * (double)wait / 1e9;
			if (i > 2 && rate * (double)wait / 1e9 > worst)
				worst = rate * (double)wait / 1e9;
		}
		ck_assert_msg(worst <= 0.5, "%g %%/s: %g %% between two readings", rate, worst);
	}
}
END_TEST

SUPPLY(zone_cool, { "temp", "40000" }, { "trip_point_0_type", "passive" },
       { "trip_point_0_temp", "80000" });
SUPPLY(zone_warm, { "temp", "78000" }, { "trip_point_0_type", "passive" },
       { "trip_point_0_temp", "80000" });
SUPPLY(zone_passive, { "temp", "80000" }, { "trip_point_0_type", "passive" },
       { "trip_point_0_temp", "80000" });
SUPPLY(zone_critical, { "temp", "96000" }, { "trip_point_0_type", "passive" },
       { "trip_point_0_temp", "80000" },
       { "trip_point_1_type", "critical" }, { "trip_point_1_temp", "100000" });
SUPPLY(zone_hot, { "temp", "91000" }, { "trip_point_0_type", "active" },
       { "trip_point_0_temp", "30000" },
       { "trip_point_1_type", "hot" }, { "trip_point_1_temp", "90000" });
SUPPLY(zone_dead, { "temp", "-87900" }, { "trip_point_0_type", "passive" },
       { "trip_point_0_temp", "80000" });
SUPPLY(zone_off, { "temp", "50000" }, { "trip_point_0_type", "passive" },
       { "trip_point_0_temp", "-274000" });
SUPPLY(zone_none, { "type", "x" });

/*
 * Proves what counts as heat: passive, hot and critical trips, and the configured limit, but not an
 * implausible sensor.
 */
START_TEST(zones)
{
	static const struct {
		const char *const (*a)[2];
		int64_t limit;
		enum rvl_heat heat;
	} rows[] = {
		{ zone_cool, 0, RVL_HEAT_NONE },	{ zone_warm, 0, RVL_HEAT_WARM },
		{ zone_passive, 0, RVL_HEAT_PASSIVE },	{ zone_critical, 0, RVL_HEAT_HOT },
		{ zone_hot, 0, RVL_HEAT_HOT },		{ zone_dead, 0, RVL_HEAT_NONE },
		{ zone_off, 0, RVL_HEAT_NONE },		{ zone_none, 0, RVL_HEAT_NONE },
		{ zone_cool, 40000, RVL_HEAT_PASSIVE }, { zone_cool, 42000, RVL_HEAT_WARM },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int64_t t;

		ck_assert_msg(rvl_zone_heat(get, &(struct attrs){ rows[i].a }, rows[i].limit, 3000,
					    &t) == rows[i].heat, "row %zu", i);
	}
}
END_TEST

/* ---- traces ---- */

static int parse(const char *text, struct rvl_trace_row *row)
{
	unsigned int line = 0;

	return rvl_trace_parse(&text, &line, row, err, sizeof(err));
}

/* Proves the format, and that each error names its line. */
START_TEST(trace_format)
{
	static const char *const wrong[][2] = {
		{ "1 50 discharging 0", "line 1: fewer than 5 columns: time charge status mains "
					"temperature" },
		{ "\n1 50 discharging 0 - 9", "line 2: more than 5 columns: time charge status "
					      "mains temperature" },
		{ "x 50 discharging 0 -", "line 1: time \"x\" is no number of seconds" },
		{ "1 101 discharging 0 -", "line 1: charge \"101\" is no percentage, NOW/FULL, ? "
					   "or -" },
		{ "1 9/4 discharging 0 -", "line 1: charge \"9/4\" is no percentage, NOW/FULL, ? "
					   "or -" },
		{ "1 nan discharging 0 -", "line 1: charge \"nan\" is no percentage, NOW/FULL, ? "
					   "or -" },
		{ "1 50 resting 0 -", "line 1: status \"resting\" is not discharging, charging, "
				      "full, idle or unknown" },
		{ "1 50 idle 2 -", "line 1: mains \"2\" is not 0, 1 or -" },
		{ "1 50 idle 1 hot", "line 1: temperature \"hot\" is no number" },
	};
	struct rvl_trace_row row;

	ck_assert_int_eq(parse("# time\n\n 1.5, 1200/4000, discharging, 0, 41.5 # end", &row), 1);
	ck_assert_uint_eq(row.time, 1500000000);
	ck_assert_uint_eq(row.reading.charge, 300000);
	ck_assert(row.reading.discharging && row.reading.mains_known && !row.reading.mains);
	ck_assert_int_eq(row.temp, 41500);
	ck_assert_int_eq(parse("0 ? unknown - -", &row), 1);
	ck_assert(row.reading.batteries == 1 && !row.reading.readable && row.temp == RVL_NO_VALUE);
	ck_assert_int_eq(parse("0 - unknown 1 -", &row), 1);
	ck_assert(!row.reading.batteries && row.reading.mains);
	ck_assert_int_eq(parse("# nothing\n", &row), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ck_assert_int_eq(parse(wrong[i][0], &row), -EINVAL);
		ck_assert_str_eq(err, wrong[i][1]);
	}
}
END_TEST

/* Proves the levels of a replayed trace: a discharge in thirds, then charging. */
START_TEST(replay)
{
	struct rvl_replay r = { .mode = RIVULET_POLICY_AUTO };
	uint64_t fell[2] = { 0 };
	uint32_t last = 2;

	r.policy = pol;
	for (int s = 0; s <= 1000; s++) {
		struct rvl_trace_row row = { .time = (uint64_t)s * SEC, .temp = RVL_NO_VALUE,
			.reading = { .batteries = 1, .readable = 1, .discharging = s < 990,
				     .charging = s >= 990, .mains_known = true, .mains = s >= 990,
				     .charge = RVL_PPM - (uint32_t)(s < 990 ? s : 990) * 1000 } };

		rvl_replay_row(&r, &row);
		if (r.policy.level < last)
			fell[--last] = (uint64_t)s;
	}
	ck_assert_uint_eq(fell[1], 334);
	ck_assert_uint_eq(fell[0], 667);
	ck_assert_uint_eq(r.policy.level, 2);
	ck_assert_uint_eq(r.policy.residency[2] / SEC, 334 + 10);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("policy");
	TCase *t = tcase_create("rules");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, set_up, NULL);
	tcase_add_test(t, exactly_at_the_threshold);
	tcase_add_test(t, upward);
	tcase_add_test(t, waits_for_runs);
	tcase_add_test(t, full_battery);
	tcase_add_test(t, plug);
	tcase_add_test(t, modes);
	tcase_add_test(t, heat);
	tcase_add_test(t, reserve);
	tcase_add_test(t, variants);
	tcase_add_test(t, configuration);
	tcase_add_test(t, slowest_before_the_deadline);
	tcase_add_test(t, random_sequences);
	tcase_add_test(t, supplies);
	tcase_add_test(t, jumps);
	tcase_add_test(t, vanishing);
	tcase_add_test(t, outside);
	tcase_add_test(t, lag);
	tcase_add_test(t, zones);
	tcase_add_test(t, trace_format);
	tcase_add_test(t, replay);
	suite_add_tcase(s, t);
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
/*
 * The numbers of the power policy at their edges: the attributes of supplies and thermal zones, the
 * filter of readings, thresholds, dwell time and heat steps, each on both sides of its boundary.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "suite.h"

#define SEC	 1000000000ull
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- attributes ---- */

/* "name value" lines, as a directory of sysfs has files. */
static bool get(void *ctx, const char *name, char *buf, size_t size)
{
	const char *line = ctx;
	size_t n = strlen(name);

	for (; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (!strncmp(line, name, n) && line[n] == ' ') {
			snprintf(buf, size, "%.*s", (int)strcspn(line + n + 1, "\n"), line + n + 1);
			return true;
		}
	return false;
}

static struct rvl_supply supply(const char *text)
{
	struct rvl_supply s;

	memset(&s, 0x55, sizeof(s));
	rvl_supply_read(get, (void *)(uintptr_t)text, &s);
	return s;
}

/* Which power supplies count, and as what kind. */
START_TEST(kinds)
{
	static const struct {
		const char *text;
		enum rvl_supply_kind kind;
	} row[] = {
		{ "type Battery", RVL_SUPPLY_BATTERY },
		{ "type UPS", RVL_SUPPLY_BATTERY },
		{ "type Mains", RVL_SUPPLY_MAINS },
		{ "type USB", RVL_SUPPLY_MAINS },
		{ "type Wireless", RVL_SUPPLY_MAINS },
		{ "type Solar", RVL_SUPPLY_IGNORED },
		{ "scope System", RVL_SUPPLY_IGNORED },
		{ "", RVL_SUPPLY_IGNORED },
		{ "type Battery\nscope Device", RVL_SUPPLY_IGNORED },
		{ "type Battery\nscope System", RVL_SUPPLY_BATTERY },
		{ "type Battery\npresent 0", RVL_SUPPLY_IGNORED },
		{ "type Battery\npresent 1", RVL_SUPPLY_BATTERY },
		{ "type Mains\npresent 0", RVL_SUPPLY_MAINS },
	};

	for (size_t i = 0; i < COUNT(row); i++)
		ck_assert_msg(supply(row[i].text).kind == row[i].kind, "%s", row[i].text);
}
END_TEST

START_TEST(online)
{
	static const struct {
		const char *text;
		bool known, online;
	} row[] = {
		{ "type Mains\nonline 0", true, false }, { "type Mains\nonline 1", true, true },
		{ "type USB\nonline 2", true, true },	 { "type USB\nonline 3", false, false },
		{ "type USB\nonline -1", false, false }, { "type USB", false, false },
		{ "type USB\nonline 1x", false, false }, { "type Battery\nonline 1", false, false },
	};

	for (size_t i = 0; i < COUNT(row); i++) {
		struct rvl_supply s = supply(row[i].text);

		ck_assert_msg(s.online_known == row[i].known && s.online == row[i].online, "%s",
			      row[i].text);
	}
}
END_TEST

START_TEST(statuses)
{
	static const struct {
		const char *text;
		enum rvl_supply_status status;
	} row[] = {
		{ "type Battery\nstatus Discharging", RVL_STATUS_DISCHARGING },
		{ "type Battery\nstatus Charging", RVL_STATUS_CHARGING },
		{ "type Battery\nstatus Full", RVL_STATUS_IDLE },
		{ "type Battery\nstatus Not charging", RVL_STATUS_IDLE },
		{ "type Battery\nstatus Odd", RVL_STATUS_UNKNOWN },
		{ "type Battery", RVL_STATUS_UNKNOWN },
	};

	for (size_t i = 0; i < COUNT(row); i++)
		ck_assert_msg(supply(row[i].text).status == row[i].status, "%s", row[i].text);
}
END_TEST

#define NONE RVL_NO_VALUE

/* The ratio in ppm and the size in microwatthours. */
START_TEST(amounts)
{
	static const struct {
		const char *text;
		int64_t ratio, full;
	} row[] = {
		{ "energy_now 300\nenergy_full 400", 750000, 400 },
		{ "energy_now 0\nenergy_full 400", 0, 400 },
		{ "energy_now 400\nenergy_full 400", 1000000, 400 },
		/* The charge may exceed a full battery by a twentieth. */
		{ "energy_now 420\nenergy_full 400", 1000000, 400 },
		{ "energy_now 421\nenergy_full 400", NONE, NONE },
		{ "energy_now 421\nenergy_full 400\nenergy_full_design 421", 1000000, 421 },
		{ "energy_now 421\nenergy_full 400\nenergy_full_design 420", NONE, NONE },
		{ "energy_now 420\nenergy_full 400\nenergy_full_design 840", 1000000, 400 },
		/* Without energy_full, energy_full_design is used. */
		{ "energy_now 100\nenergy_full 0\nenergy_full_design 400", 250000, 400 },
		{ "energy_now 100\nenergy_full 1", NONE, NONE },
		{ "energy_now 1\nenergy_full 1", 1000000, 1 },
		{ "energy_now 100\nenergy_full_design 400", 250000, 400 },
		{ "energy_now 100", NONE, NONE },
		{ "energy_now -1\nenergy_full 400\ncapacity 30", 300000, NONE },
		{ "energy_now 500000000000\nenergy_full 1000000000000", 500000, 1000000000000 },
		{ "energy_now 5\nenergy_full 1000000000001", NONE, NONE },
		{ "energy_now 500000000000000\nenergy_full 1000000000000000", NONE, NONE },
		/* An energy of 0 beside a capacity above 0 is rejected. */
		{ "energy_now 0\nenergy_full 400\ncapacity 1", 10000, NONE },
		{ "energy_now 0\nenergy_full 400\ncapacity 0", 0, 400 },
		{ "energy_now 0\nenergy_full 400\ncapacity 101", 0, 400 },
		{ "charge_now 0\ncharge_full 400\nvoltage_now 10000000\ncapacity 1", 10000, NONE },
		{ "charge_now 0\ncharge_full 400\nvoltage_now 10000000\ncapacity 0", 0, 4000 },
		{ "charge_now 0\ncharge_full 400\nvoltage_now 10000000\ncapacity -1", 0, 4000 },
		/* uAh at uV */
		{ "charge_now 100\ncharge_full 2000\nvoltage_min_design 7400000", 50000, 14800 },
		{ "charge_now 100\ncharge_full 2000\nvoltage_now 8000000\nvoltage_max_design "
		  "1000000",
		  50000, 16000 },
		{ "charge_now 100\ncharge_full 2000\nvoltage_max_design 9000000", 50000, 18000 },
		{ "charge_now 100\ncharge_full 2000\nvoltage_now 499999\nvoltage_max_design "
		  "9000000",
		  50000, 18000 },
		{ "charge_now 100\ncharge_full 2000\nvoltage_now 500000", 50000, 1000 },
		{ "charge_now 100\ncharge_full 2000\nvoltage_now 1000000000", 50000, 2000000 },
		{ "charge_now 100\ncharge_full 2000\nvoltage_now 1000000001", 50000, NONE },
		{ "charge_now 100\ncharge_full 2000", 50000, NONE },
		{ "charge_now 5\ncharge_full 1000000000000\nvoltage_now 1000000000", 0,
		  1000000000000000 },
		/* Only a percentage is known. */
		{ "capacity 0", 0, NONE },
		{ "capacity 100", 1000000, NONE },
		{ "capacity 101", NONE, NONE },
		{ "capacity -1", NONE, NONE },
		{ "capacity 5x", NONE, NONE },
		{ "capacity ", NONE, NONE },
		{ "capacity 99999999999999999999", NONE, NONE },
	};
	char text[300];

	for (size_t i = 0; i < COUNT(row); i++) {
		struct rvl_supply s;

		snprintf(text, sizeof(text), "type Battery\n%s", row[i].text);
		s = supply(text);
		ck_assert_msg(
			s.ratio == row[i].ratio && (s.full == row[i].full || row[i].ratio == NONE),
			"%s: %lld ppm of %lld", row[i].text, (long long)s.ratio, (long long)s.full);
	}
}
END_TEST

/* Batteries are weighted by their energy. A battery that cannot be read has no weight. */
START_TEST(sums)
{
	struct rvl_supply s[4] = {
		{ .kind = RVL_SUPPLY_BATTERY,
		  .ratio = 100000,
		  .full = 300,
		  .status = RVL_STATUS_CHARGING },
		{ .kind = RVL_SUPPLY_BATTERY,
		  .ratio = 900000,
		  .full = 100,
		  .status = RVL_STATUS_DISCHARGING },
		{ .kind = RVL_SUPPLY_BATTERY,
		  .ratio = 500000,
		  .full = NONE,
		  .status = RVL_STATUS_IDLE },
		{ .kind = RVL_SUPPLY_BATTERY, .ratio = NONE, .full = 1000000 },
	};
	struct rvl_reading r;

	rvl_reading_sum(s, 1, &r);
	ck_assert_uint_eq(r.charge, 100000);
	ck_assert(r.charging && !r.discharging && !r.idle && !r.mains_known);
	rvl_reading_sum(s, 2, &r);
	ck_assert_uint_eq(r.charge, 300000);
	ck_assert(r.charging && r.discharging && !r.idle);
	/* The third battery has the mean weight of the first two, 200. */
	rvl_reading_sum(s, 4, &r);
	ck_assert_uint_eq(r.charge, 366666);
	ck_assert_uint_eq(r.batteries, 4);
	ck_assert_uint_eq(r.readable, 3);
	ck_assert(r.idle);
	rvl_reading_sum(s + 3, 1, &r);
	ck_assert(r.batteries == 1 && !r.readable && !r.charge);
	/* A single battery of unknown size. */
	rvl_reading_sum(s + 2, 1, &r);
	ck_assert_uint_eq(r.charge, 500000);
	s[0].kind = RVL_SUPPLY_MAINS;
	s[0].online_known = true;
	rvl_reading_sum(s, 1, &r);
	ck_assert(r.mains_known && !r.mains && !r.batteries && !r.charging);
}
END_TEST

/* ---- the filter ---- */

static bool feed(struct rvl_gauge *g, uint64_t now, uint32_t ppm)
{
	const struct rvl_reading r = {
		.batteries = 1, .readable = 1, .discharging = true, .charge = ppm
	};

	return rvl_gauge_update(g, &r, now);
}

/*
 * A change is a jump if it exceeds 10 %, plus 0.1 % a second, plus four times the drain of the battery;
 * but what is added to 10 % is no more than 1 % a second.
 */
START_TEST(plausible_changes)
{
	struct rvl_gauge g = { 0 };
	uint32_t most = RVL_GAUGE_JUMP + 2 * RVL_GAUGE_RATE;

	ck_assert(feed(&g, SEC, 500000));
	ck_assert(!feed(&g, 3 * SEC, 500000 + most + 1));
	g = (struct rvl_gauge){ .known = true, .charge = 500000, .at = SEC };
	ck_assert(feed(&g, 3 * SEC, 500000 + most));
	g = (struct rvl_gauge){ .known = true, .charge = 500000, .at = SEC };
	ck_assert(feed(&g, 3 * SEC, 500000 - most));
	g = (struct rvl_gauge){ .known = true, .charge = 500000, .at = SEC };
	ck_assert(!feed(&g, 3 * SEC, 500000 - most - 1));
	g = (struct rvl_gauge){ .known = true, .charge = 500000, .at = SEC, .drain = 1000 };
	ck_assert(feed(&g, 3 * SEC, 500000 - most - 8000));
	g = (struct rvl_gauge){ .known = true, .charge = 500000, .at = SEC, .drain = 1000 };
	ck_assert(!feed(&g, 3 * SEC, 500000 - most - 8001));
	ck_assert_uint_eq(g.rejected, 1);
	ck_assert_uint_eq(g.charge, 500000);
	ck_assert_uint_eq(g.at, SEC);
	most = RVL_GAUGE_JUMP + 2 * RVL_GAUGE_RATE_MAX;
	g = (struct rvl_gauge){ .known = true, .charge = 500000, .at = SEC, .drain = UINT32_MAX };
	ck_assert(!feed(&g, 3 * SEC, 500000 - most - 1));
	ck_assert(feed(&g, 3 * SEC, 500000 - most));
}
END_TEST

/*
 * A gauge that steps by 1 % between two uevents, 5 ms apart, shows a drain of two full batteries a second.
 * An empty battery is no more plausible then.
 */
START_TEST(step_between_uevents)
{
	struct rvl_gauge g = { 0 };

	feed(&g, SEC, 500000);
	feed(&g, 11 * SEC, 500000);
	feed(&g, 11 * SEC + 5000000, 490000);
	ck_assert_uint_gt(g.drain, RVL_PPM);
	ck_assert(!feed(&g, 12 * SEC, 0));
	ck_assert_uint_eq(g.charge, 490000);
}
END_TEST

/* A jump is accepted when RVL_GAUGE_CONFIRM readings over RVL_GAUGE_CONFIRM_NS agree on it. */
START_TEST(confirmed)
{
	struct rvl_gauge g = { .known = true, .charge = 900000, .at = SEC, .drain = 5 };
	uint64_t t = 2 * SEC;

	for (int i = 0; i < (int)RVL_GAUGE_CONFIRM - 1; i++)
		ck_assert(!feed(&g, t + (uint64_t)i, 300000));
	ck_assert(!feed(&g, t + RVL_GAUGE_CONFIRM_NS - 1, 300000));
	ck_assert(feed(&g, t + RVL_GAUGE_CONFIRM_NS, 300000));
	ck_assert_uint_eq(g.charge, 300000);
	ck_assert_uint_eq(g.jumps, 0);
	/* A jump does not count as drain. */
	ck_assert_uint_eq(g.drain, 5);
	/* Time alone does not confirm a jump. */
	g = (struct rvl_gauge){ .known = true, .charge = 900000, .at = SEC };
	ck_assert(!feed(&g, t, 300000));
	ck_assert(!feed(&g, t + 2 * RVL_GAUGE_CONFIRM_NS, 300000));
	/* Readings that do not agree with each other start a new confirmation. */
	g = (struct rvl_gauge){ .known = true, .charge = 900000, .at = SEC };
	ck_assert(!feed(&g, t, 100000));
	ck_assert(!feed(&g, t + 1, 100000 + RVL_GAUGE_JUMP));
	ck_assert_uint_eq(g.jumps, 2);
	ck_assert(!feed(&g, t + 2, 100000));
	ck_assert_uint_eq(g.jumps, 3);
	ck_assert(!feed(&g, t + 3, 100000 + RVL_GAUGE_JUMP + 1));
	ck_assert_uint_eq(g.jumps, 1);
	ck_assert_uint_eq(g.jump_since, t + 3);
	/* A plausible reading ends the confirmation. */
	ck_assert(feed(&g, t + 4, 900000));
	ck_assert_uint_eq(g.jumps, 0);
}
END_TEST

/* The drain rises at once, and falls by an eighth of the difference with each reading. */
START_TEST(drain)
{
	struct rvl_gauge g = { 0 };

	feed(&g, SEC, 500000);
	ck_assert_uint_eq(g.drain, 0);
	feed(&g, 3 * SEC, 498000);
	ck_assert_uint_eq(g.drain, 1000);
	feed(&g, 4 * SEC, 497800);
	ck_assert_uint_eq(g.drain, 900);
	feed(&g, 5 * SEC, 497800);
	ck_assert_uint_eq(g.drain, 787);
	/* A rising charge is a drain of 0. */
	feed(&g, 6 * SEC, 499000);
	ck_assert_uint_eq(g.drain, 688);
	feed(&g, 6 * SEC, 490000);
	ck_assert_uint_eq(g.drain, 688);
}
END_TEST

/*
 * The next reading is due before a quarter percent has been used, and within a second after a jump.
 */
START_TEST(interval)
{
	struct rvl_gauge g = { .drain = 1000 };

	ck_assert_uint_eq(rvl_gauge_interval(&g, 1, 60 * SEC), 2500000000);
	ck_assert_uint_eq(rvl_gauge_interval(&g, 3 * SEC, 60 * SEC), 3 * SEC);
	ck_assert_uint_eq(rvl_gauge_interval(&g, 1, 2 * SEC), 2 * SEC);
	g.jumps = 1;
	ck_assert_uint_eq(rvl_gauge_interval(&g, 1, 60 * SEC), SEC);
	g.drain = 5000;
	ck_assert_uint_eq(rvl_gauge_interval(&g, 1, 60 * SEC), SEC / 2);
	g = (struct rvl_gauge){ .drain = 1000, .external = true };
	ck_assert_uint_eq(rvl_gauge_interval(&g, 1, 60 * SEC), 60 * SEC);
	g = (struct rvl_gauge){ 0 };
	ck_assert_uint_eq(rvl_gauge_interval(&g, 1, 60 * SEC), 60 * SEC);
}
END_TEST

/*
 * The reading of a removed battery is dropped after a grace period, unless the machine runs from
 * battery.
 */
START_TEST(grace)
{
	const struct rvl_reading none = { 0 };
	struct rvl_gauge g = { 0 };

	feed(&g, SEC, 500000);
	rvl_gauge_update(&g, &none, 2 * SEC);
	ck_assert_uint_eq(g.absent_since, 2 * SEC);
	ck_assert(!rvl_gauge_update(&g, &none, 2 * SEC + RVL_GAUGE_GRACE - 1));
	ck_assert(g.battery && g.known && !g.external);
	rvl_gauge_update(&g, &none, 2 * SEC + RVL_GAUGE_GRACE);
	ck_assert(!g.battery && !g.known && g.external && !g.charge);
	ck_assert_uint_eq(g.absent_since, 2 * SEC);
	/* The battery is added again. */
	feed(&g, 3 * SEC + RVL_GAUGE_GRACE, 400000);
	ck_assert(g.battery && g.known && !g.absent_since);
	/* The count of rejected readings is kept. */
	g.rejected = 9;
	rvl_gauge_update(&g, &none, 4 * SEC + RVL_GAUGE_GRACE);
	rvl_gauge_update(&g, &none, 4 * SEC + 2 * RVL_GAUGE_GRACE);
	ck_assert(!g.battery);
	ck_assert_uint_eq(g.rejected, 9);
	/* A battery is absent from time 0 on too. */
	g = (struct rvl_gauge){ 0 };
	rvl_gauge_update(&g, &none, 0);
	ck_assert_uint_eq(g.absent_since, 1);
}
END_TEST

/* ---- heat ---- */

/* Each kind of trip, at it, and below it by the hysteresis of 3 degrees. */
START_TEST(trips)
{
	static const struct {
		const char *text;
		enum rvl_heat heat;
	} row[] = {
		{ "trip_point_0_type passive\ntrip_point_0_temp 50000", RVL_HEAT_PASSIVE },
		{ "trip_point_0_type passive\ntrip_point_0_temp 50001", RVL_HEAT_WARM },
		{ "trip_point_0_type passive\ntrip_point_0_temp 53000", RVL_HEAT_WARM },
		{ "trip_point_0_type passive\ntrip_point_0_temp 53001", RVL_HEAT_NONE },
		{ "trip_point_0_type hot\ntrip_point_0_temp 50000", RVL_HEAT_HOT },
		{ "trip_point_0_type hot\ntrip_point_0_temp 53000", RVL_HEAT_WARM },
		{ "trip_point_0_type critical\ntrip_point_0_temp 55000", RVL_HEAT_HOT },
		{ "trip_point_0_type critical\ntrip_point_0_temp 55001", RVL_HEAT_WARM },
		{ "trip_point_0_type critical\ntrip_point_0_temp 58001", RVL_HEAT_NONE },
		{ "trip_point_0_type active\ntrip_point_0_temp 10000", RVL_HEAT_NONE },
		/* A trip that is disabled, or has no temperature, does not hide the next trip. */
		{ "trip_point_0_type passive\ntrip_point_0_temp 0", RVL_HEAT_NONE },
		{ "trip_point_0_type passive\ntrip_point_0_temp 1", RVL_HEAT_PASSIVE },
		{ "trip_point_0_type passive\ntrip_point_0_temp -5\ntrip_point_1_type hot\n"
		  "trip_point_1_temp 50000",
		  RVL_HEAT_HOT },
		{ "trip_point_0_type passive\ntrip_point_1_type hot\ntrip_point_1_temp 50000",
		  RVL_HEAT_HOT },
		{ "trip_point_0_type critical\ntrip_point_0_temp 200000", RVL_HEAT_NONE },
		/* Of several trips the most severe one counts, in any order. */
		{ "trip_point_0_type hot\ntrip_point_0_temp 50000\ntrip_point_1_type passive\n"
		  "trip_point_1_temp 40000",
		  RVL_HEAT_HOT },
		/* At most twelve trips are read. */
		{ "trip_point_1_type hot\ntrip_point_1_temp 50000", RVL_HEAT_NONE },
	};
	char text[300];
	int64_t t;

	for (size_t i = 0; i < COUNT(row); i++) {
		snprintf(text, sizeof(text), "temp 50000\n%s", row[i].text);
		ck_assert_msg(rvl_zone_heat(get, text, 0, 3000, &t) == row[i].heat, "%s",
			      row[i].text);
		ck_assert_int_eq(t, 50000);
	}
}
END_TEST

/*
 * The configured limit is an additional passive trip. An implausible sensor value is no
 * temperature.
 */
START_TEST(limits)
{
	static char at[] = "temp 50000", cold[] = "temp -40000", colder[] = "temp -39999";
	static char hot[] = "temp 199999", hotter[] = "temp 200000", none[] = "type x";
	char trips[1000] = "temp 50000";
	int64_t t;

	ck_assert_int_eq(rvl_zone_heat(get, at, 50000, 3000, &t), RVL_HEAT_PASSIVE);
	ck_assert_int_eq(rvl_zone_heat(get, at, 53000, 3000, &t), RVL_HEAT_WARM);
	ck_assert_int_eq(rvl_zone_heat(get, at, 53001, 3000, &t), RVL_HEAT_NONE);
	ck_assert_int_eq(rvl_zone_heat(get, hot, 150000, 3000, &t), RVL_HEAT_PASSIVE);
	ck_assert_int_eq(t, 199999);
	ck_assert_int_eq(rvl_zone_heat(get, hotter, 150000, 3000, &t), RVL_HEAT_NONE);
	ck_assert_int_eq(t, RVL_NO_VALUE);
	rvl_zone_heat(get, colder, 0, 0, &t);
	ck_assert_int_eq(t, -39999);
	rvl_zone_heat(get, cold, 0, 0, &t);
	ck_assert_int_eq(t, RVL_NO_VALUE);
	rvl_zone_heat(get, none, 0, 0, &t);
	ck_assert_int_eq(t, RVL_NO_VALUE);
	for (int i = 0; i < 11; i++)
		sprintf(trips + strlen(trips), "\ntrip_point_%d_type active", i);
	strcat(trips, "\ntrip_point_11_type hot\ntrip_point_11_temp 50000");
	ck_assert_int_eq(rvl_zone_heat(get, trips, 0, 0, &t), RVL_HEAT_HOT);
}
END_TEST

/* ---- the policy ---- */

static struct rvl_policy_config cfg;
static struct rvl_policy p;
static struct rvl_policy_input in;

/* Four levels; thresholds at 75, 50 and 25 %, hysteresis 2 %, reserve 5 %. */
static void set_up(void)
{
	static const struct rivulet_board board = { .name = "b",
						    .levels = 4,
						    .level = { { .hz = 1, .microvolt = 1 },
							       { .hz = 2, .microvolt = 2 },
							       { .hz = 3, .microvolt = 3 },
							       { .hz = 4, .microvolt = 4 } } };
	char err[100];

	cfg = (struct rvl_policy_config){
		.hysteresis = 20000, .reserve = 50000, .dwell = 10 * SEC, .heat_step = 5 * SEC
	};
	ck_assert(!rvl_policy_configure(&cfg, &board, NULL, 0, NULL, 0, err, sizeof(err)));
	rvl_policy_init(&p, &cfg);
	in = (struct rvl_policy_input){ .now = 100 * SEC,
					.battery = true,
					.known = true,
					.charge = RVL_PPM,
					.mode = RIVULET_POLICY_AUTO };
}

static uint32_t level_at(uint64_t now, uint32_t charge)
{
	in.now = now;
	in.charge = charge;
	rvl_policy_step(&p, &in);
	return p.level;
}

START_TEST(default_thresholds)
{
	ck_assert_uint_eq(cfg.n, 4);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_uint_eq(cfg.level[i], 3 - i);
	ck_assert_uint_eq(cfg.threshold[0], 750000);
	ck_assert_uint_eq(cfg.threshold[1], 500000);
	ck_assert_uint_eq(cfg.threshold[2], 250000);
}
END_TEST

/*
 * The lists of levels and of thresholds must have matching lengths; 100 % and 0 are valid
 * thresholds.
 */
START_TEST(lists)
{
	static const uint32_t nine[9] = { 0 }, edge[] = { RVL_PPM, 1, 0 }, same[] = { 5, 5, 1 },
			      above[] = { RVL_PPM + 1, 2, 1 };
	const struct rivulet_board board = { .name = "b", .levels = 4 };
	char err[100];

	ck_assert_int_eq(rvl_policy_configure(&cfg, &board, nine, 9, NULL, 0, err, sizeof(err)),
			 -EINVAL);
	ck_assert_str_eq(err, "9 levels; a board has at most 8");
	ck_assert_int_eq(rvl_policy_configure(&cfg, &board, NULL, 0, edge, 2, err, sizeof(err)),
			 -EINVAL);
	ck_assert_str_eq(err, "2 thresholds for 4 levels; there is one between two");
	ck_assert_int_eq(rvl_policy_configure(&cfg, &board, NULL, 0, edge, 3, err, sizeof(err)), 0);
	ck_assert_uint_eq(cfg.threshold[0], RVL_PPM);
	ck_assert_int_eq(rvl_policy_configure(&cfg, &board, NULL, 0, same, 3, err, sizeof(err)),
			 -EINVAL);
	ck_assert_str_eq(err, "thresholds fall, from at most 100 %");
	ck_assert_int_eq(rvl_policy_configure(&cfg, &board, NULL, 0, above, 3, err, sizeof(err)),
			 -EINVAL);
}
END_TEST

START_TEST(names)
{
	uint32_t mode, fixed = 9;

	ck_assert_str_eq(rvl_policy_mode_name(RIVULET_POLICY_AUTO), "auto");
	ck_assert_str_eq(rvl_policy_mode_name(RIVULET_POLICY_FIXED), "fixed");
	ck_assert_str_eq(rvl_policy_mode_name(RIVULET_POLICY_FIXED + 1), "?");
	ck_assert_str_eq(rvl_policy_mode_name(UINT32_MAX), "?");
	ck_assert_str_eq(rvl_policy_reason_name(RIVULET_REASON_HEAT), "heat");
	ck_assert_str_eq(rvl_policy_reason_name(UINT32_MAX), "?");
	ck_assert_str_eq(rvl_policy_reason_name(1000), "?");
	ck_assert_int_eq(rvl_policy_mode_parse("7", &mode, &fixed), 0);
	ck_assert(mode == RIVULET_POLICY_FIXED && fixed == 7);
	ck_assert_int_eq(rvl_policy_mode_parse("0", &mode, &fixed), 0);
	ck_assert_uint_eq(fixed, 0);
	fixed = 9;
	ck_assert_int_eq(rvl_policy_mode_parse("powersave", &mode, &fixed), 0);
	ck_assert(mode == RIVULET_POLICY_POWERSAVE && !fixed);
	ck_assert_int_eq(rvl_policy_mode_parse("8", &mode, &fixed), -EINVAL);
	ck_assert_int_eq(rvl_policy_mode_parse("10", &mode, &fixed), -EINVAL);
	ck_assert_int_eq(rvl_policy_mode_parse("fixed", &mode, &fixed), -EINVAL);
	ck_assert_int_eq(rvl_policy_mode_parse("", &mode, &fixed), -EINVAL);
}
END_TEST

/* A level falls at its threshold, and rises at the hysteresis above it. */
START_TEST(thresholds)
{
	ck_assert_uint_eq(level_at(100 * SEC, 750001), 3);
	ck_assert_uint_eq(level_at(101 * SEC, 750000), 2);
	ck_assert_uint_eq(level_at(200 * SEC, 769999), 2);
	ck_assert_uint_eq(level_at(201 * SEC, 770000), 3);
	/* The charge passes several thresholds at once. */
	ck_assert_uint_eq(level_at(202 * SEC, 250000), 0);
	ck_assert_uint_eq(p.step, 3);
	ck_assert_uint_eq(level_at(300 * SEC, 520000), 2);
}
END_TEST

/* A level rises when the dwell time has passed since the last change, and not a nanosecond before.
 */
START_TEST(dwell)
{
	level_at(100 * SEC, 800000);
	ck_assert_uint_eq(level_at(200 * SEC, 700000), 2);
	ck_assert_uint_eq(rvl_policy_wake(&p, &in), UINT64_MAX);
	ck_assert_uint_eq(level_at(201 * SEC, 800000), 2);
	ck_assert_uint_eq(p.target, 2);
	ck_assert_uint_eq(rvl_policy_wake(&p, &in), 210 * SEC);
	ck_assert_uint_eq(level_at(210 * SEC - 1, 800000), 2);
	ck_assert_uint_eq(level_at(210 * SEC, 800000), 3);
	ck_assert_uint_eq(p.changed, 210 * SEC);
	ck_assert_uint_eq(rvl_policy_wake(&p, &in), UINT64_MAX);
	/* A change of the mode takes effect at once. */
	level_at(211 * SEC, 700000);
	in.mode_changed = true;
	ck_assert_uint_eq(level_at(212 * SEC, 800000), 3);
	in.mode_changed = false;
	/* A new configuration takes effect at once as well, without hysteresis. */
	level_at(213 * SEC, 700000);
	rvl_policy_reconfigure(&p, &cfg);
	ck_assert_uint_eq(level_at(214 * SEC, 750001), 3);
}
END_TEST

/* Fewer levels than before: indices beyond the end become the last one. */
START_TEST(reconfigured)
{
	struct rvl_policy_config two = cfg;

	two.n = 2;
	p.step = 3;
	p.cap = 3;
	rvl_policy_reconfigure(&p, &two);
	ck_assert(p.step == 1 && p.cap == 1 && p.unsettled && !p.started);
	p.step = p.cap = 2;
	rvl_policy_reconfigure(&p, &two);
	ck_assert(p.step == 1 && p.cap == 1);
	p.step = 1;
	p.cap = 0;
	rvl_policy_reconfigure(&p, &two);
	ck_assert(p.step == 1 && p.cap == 0);
}
END_TEST

/* Passive heat takes one level at once and one more every heat step; it gives them back by dwell.
 */
START_TEST(heat_steps)
{
	level_at(100 * SEC, RVL_PPM);
	in.heat = RVL_HEAT_PASSIVE;
	ck_assert_uint_eq(rvl_policy_wake(&p, &in), 5 * SEC);
	ck_assert_uint_eq(level_at(110 * SEC, RVL_PPM), 2);
	ck_assert_uint_eq(p.reason, RIVULET_REASON_HEAT);
	ck_assert_uint_eq(rvl_policy_wake(&p, &in), 115 * SEC);
	ck_assert_uint_eq(level_at(115 * SEC - 1, RVL_PPM), 2);
	ck_assert_uint_eq(level_at(115 * SEC, RVL_PPM), 1);
	in.heat = RVL_HEAT_WARM;
	ck_assert_uint_eq(level_at(130 * SEC, RVL_PPM), 1);
	ck_assert_uint_eq(rvl_policy_wake(&p, &in), UINT64_MAX);
	in.heat = RVL_HEAT_NONE;
	ck_assert_uint_eq(rvl_policy_wake(&p, &in), 125 * SEC);
	ck_assert_uint_eq(level_at(131 * SEC, RVL_PPM), 2);
	ck_assert_uint_eq(p.cap_since, 131 * SEC);
	ck_assert_uint_eq(level_at(141 * SEC - 1, RVL_PPM), 2);
	ck_assert_uint_eq(level_at(141 * SEC, RVL_PPM), 3);
	ck_assert_uint_eq(rvl_policy_wake(&p, &in), UINT64_MAX);
	/* Heat of kind "hot" selects the slowest level at once and limits admission. */
	in.heat = RVL_HEAT_HOT;
	in.now = 150 * SEC;
	ck_assert(rvl_policy_step(&p, &in));
	ck_assert(p.level == 0 && p.emergency);
	in.now = 151 * SEC;
	ck_assert(!rvl_policy_step(&p, &in));
	ck_assert_uint_eq(p.cap_since, 150 * SEC);
	in.heat = RVL_HEAT_PASSIVE;
	ck_assert(rvl_policy_step(&p, &in));
	ck_assert(!p.emergency && p.level == 0);
	ck_assert_uint_eq(rvl_policy_wake(&p, &in), UINT64_MAX);
	/* A charge that demands a slower level than heat is the reason. */
	set_up();
	level_at(100 * SEC, 100000);
	in.heat = RVL_HEAT_PASSIVE;
	level_at(101 * SEC, 100000);
	ck_assert(p.cap == 1 && p.level == 0 && p.reason == RIVULET_REASON_BATTERY);
	/* If heat and battery demand the same level, the reason is the battery. */
	set_up();
	level_at(100 * SEC, 700000);
	in.heat = RVL_HEAT_PASSIVE;
	level_at(101 * SEC, 700000);
	ck_assert(p.cap == 1 && p.level == 2 && p.reason == RIVULET_REASON_BATTERY);
}
END_TEST

/* The reserve begins at 5 % and ends 2 % above; mains, no battery, or a reserve of 0 end it. */
START_TEST(reserve)
{
	level_at(100 * SEC, 50001);
	ck_assert(!p.reserve);
	in.charge = 50000;
	ck_assert(rvl_policy_step(&p, &in));
	ck_assert(p.reserve);
	level_at(101 * SEC, 69999);
	ck_assert(p.reserve);
	level_at(102 * SEC, 70000);
	ck_assert(!p.reserve);
	level_at(103 * SEC, 0);
	in.known = false;
	level_at(104 * SEC, RVL_PPM);
	ck_assert(p.reserve);
	in.external = true;
	level_at(105 * SEC, 0);
	ck_assert(!p.reserve);
	in.external = false;
	in.known = true;
	level_at(106 * SEC, 0);
	ck_assert(p.reserve);
	in.battery = false;
	level_at(107 * SEC, 0);
	ck_assert(!p.reserve);
	in.battery = true;
	p.cfg.reserve = 0;
	level_at(108 * SEC, 0);
	ck_assert(!p.reserve);
}
END_TEST

/* Each mode's level, with the battery at each third. */
START_TEST(mode_levels)
{
	static const struct {
		uint32_t mode, charge, level, reason;
		bool external;
	} row[] = {
		{ RIVULET_POLICY_PERFORMANCE, 0, 3, RIVULET_REASON_MODE, false },
		{ RIVULET_POLICY_POWERSAVE, RVL_PPM, 0, RIVULET_REASON_MODE, true },
		{ RIVULET_POLICY_FIXED, RVL_PPM, 2, RIVULET_REASON_MODE, false },
		/* Balanced: no faster than the middle of the list. */
		{ RIVULET_POLICY_BALANCED, RVL_PPM, 2, RIVULET_REASON_MODE, false },
		{ RIVULET_POLICY_BALANCED, 700000, 2, RIVULET_REASON_BATTERY, false },
		{ RIVULET_POLICY_BALANCED, 300000, 1, RIVULET_REASON_BATTERY, false },
		{ RIVULET_POLICY_BALANCED, 0, 2, RIVULET_REASON_MODE, true },
		{ RIVULET_POLICY_AUTO, 0, 3, RIVULET_REASON_MAINS, true },
		{ RIVULET_POLICY_AUTO, 0, 0, RIVULET_REASON_BATTERY, false },
	};

	for (size_t i = 0; i < COUNT(row); i++) {
		set_up();
		in.mode = row[i].mode;
		in.fixed = 2;
		in.external = row[i].external;
		level_at(100 * SEC, row[i].charge);
		ck_assert_msg(p.level == row[i].level && p.reason == row[i].reason,
			      "row %zu: level %u, reason %u", i, p.level, p.reason);
	}
}
END_TEST

/* The nearest allowed level below, else above; a fixed level may be one that is not in the list. */
START_TEST(allowed)
{
	static const struct {
		uint32_t allowed, want, got;
	} row[] = {
		{ 0, 3, 3 }, { 8, 3, 3 },  { 7, 3, 2 },	 { 1, 3, 0 },	 { 3, 3, 1 },
		{ 8, 0, 3 }, { 12, 0, 2 }, { 10, 2, 1 }, { 0x10, 3, 4 },
	};
	const struct rivulet_board board = { .name = "b", .levels = 4 };
	static const uint32_t ends[] = { 3, 0 };
	char err[100];

	for (size_t i = 0; i < COUNT(row); i++) {
		set_up();
		in.mode = RIVULET_POLICY_FIXED;
		in.fixed = row[i].want;
		in.allowed = row[i].allowed;
		level_at(100 * SEC, RVL_PPM);
		ck_assert_msg(p.level == row[i].got, "row %zu: %u", i, p.level);
		ck_assert_uint_eq(p.reason, row[i].got == row[i].want ? RIVULET_REASON_MODE :
									RIVULET_REASON_VARIANT);
	}
	/* Among the allowed levels, the level in force is preferred. */
	set_up();
	ck_assert(!rvl_policy_configure(&cfg, &board, ends, 2, NULL, 0, err, sizeof(err)));
	rvl_policy_init(&p, &cfg);
	in.allowed = 7;
	ck_assert_uint_eq(level_at(100 * SEC, RVL_PPM), 0);
	in.allowed = 6;
	ck_assert_uint_eq(level_at(101 * SEC, RVL_PPM), 2);
}
END_TEST

/* A level that runs in progress cannot use is taken when they have ended, without a dwell time. */
START_TEST(waits)
{
	level_at(100 * SEC, 800000);
	in.running = 8;
	ck_assert_uint_eq(level_at(101 * SEC, 700000), 3);
	ck_assert(p.waits && p.target == 2);
	in.running = 12;
	ck_assert_uint_eq(level_at(102 * SEC, 700000), 2);
	ck_assert(!p.waits);
	in.running = 4;
	level_at(120 * SEC, 800000);
	ck_assert(p.waits && p.level == 2 && p.target == 3);
	in.running = 0;
	ck_assert_uint_eq(level_at(121 * SEC, 800000), 3);
}
END_TEST

/* Time is counted for the level in force, and entries when a level is entered. */
START_TEST(residency)
{
	in.charge = 800000;
	ck_assert(rvl_policy_step(&p, &in));
	ck_assert(!rvl_policy_step(&p, &in));
	ck_assert_uint_eq(p.entries[3], 1);
	level_at(103 * SEC, 700000);
	ck_assert_uint_eq(p.residency[3], 3 * SEC);
	ck_assert_uint_eq(p.entries[2], 1);
	ck_assert_uint_eq(rvl_policy_residency(&p, 3, 109 * SEC), 3 * SEC);
	ck_assert_uint_eq(rvl_policy_residency(&p, 2, 109 * SEC), 6 * SEC);
	ck_assert_uint_eq(rvl_policy_residency(&p, 2, 102 * SEC), 0);
	p.started = false;
	ck_assert_uint_eq(rvl_policy_residency(&p, 2, 109 * SEC), 0);
	/* Continuing after a restart is no entry. Starting is one. */
	rvl_policy_step(&p, &in);
	ck_assert_uint_eq(p.entries[2], 1);
}
END_TEST

/*
 * With an unknown charge the level is the slowest at first, and later that of the last known
 * charge.
 */
START_TEST(unknown_charge)
{
	in.known = false;
	ck_assert_uint_eq(level_at(100 * SEC, 0), 0);
	set_up();
	level_at(100 * SEC, 700000);
	in.known = false;
	ck_assert_uint_eq(level_at(101 * SEC, 0), 2);
	in.battery = false;
	in.external = true;
	level_at(102 * SEC, 0);
	ck_assert_uint_eq(p.step, 0);
	set_up();
	in.known = false;
	in.external = true;
	level_at(100 * SEC, 0);
	ck_assert_uint_eq(p.step, 0);
}
END_TEST

/*
 * The charge at a deadline is estimated with half a percent less, and twice the drain for each
 * started second.
 */
START_TEST(floor_of_charge)
{
	level_at(100 * SEC, 757000);
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 1000, in.now - 1), 2);
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 999, in.now - 1), 3);
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 999, in.now + SEC - 1), 3);
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 999, in.now + SEC), 2);
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 1000000, in.now + SEC), 0);
	/* With a battery, mains may be unplugged before the deadline. */
	level_at(101 * SEC, 100000);
	in.external = true;
	level_at(102 * SEC, 100000);
	ck_assert_uint_eq(p.level, 0);
	level_at(120 * SEC, 100000);
	ck_assert_uint_eq(p.level, 3);
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 0, in.now), 0);
	in.battery = false;
	in.known = false;
	level_at(121 * SEC, 0);
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 1000000, in.now + 100 * SEC), 3);
}
END_TEST

/* Present heat takes one level at once, and one more in each heat step until the deadline. */
START_TEST(floor_of_heat)
{
	level_at(100 * SEC, RVL_PPM);
	in.heat = RVL_HEAT_PASSIVE;
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 0, in.now), 2);
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 0, in.now + 5 * SEC - 1), 2);
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 0, in.now + 5 * SEC), 1);
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 0, in.now + 3600 * SEC), 0);
	p.cfg.heat_step = 0;
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 0, in.now), 0);
	in.heat = RVL_HEAT_HOT;
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 0, in.now), 0);
	in.heat = RVL_HEAT_WARM;
	ck_assert_uint_eq(rvl_policy_floor(&p, &in, 0, in.now + 3600 * SEC), 3);
}
END_TEST

/* ---- traces ---- */

static char err[100];

static int row_of(const char *text, struct rvl_trace_row *row)
{
	unsigned int line = 0;

	return rvl_trace_parse(&text, &line, row, err, sizeof(err));
}

START_TEST(trace_columns)
{
	static const struct {
		const char *text;
		uint64_t time;
		uint32_t charge;
		int64_t temp;
		struct rvl_reading r;
	} row[] = {
		{ "0 0 charging 1 -",
		  0,
		  0,
		  NONE,
		  { .charging = true, .mains_known = true, .mains = true } },
		{ "1e9 100 full - 1000", 1000000000000000000, 1000000, 1000000, { .idle = true } },
		{ "0.5 99.99999 idle 0 -273",
		  500000000,
		  1000000,
		  -273000,
		  { .idle = true, .mains_known = true } },
		{ "1 99.99994 unknown - 20.5", 1000000000, 999999, 20500, { 0 } },
		{ "1 1/3 discharging - -", 1000000000, 333333, NONE, { .discharging = true } },
		{ "1 3/3 discharging - -", 1000000000, 1000000, NONE, { .discharging = true } },
		{ "1\t,50,\tdischarging - -\r", 1000000000, 500000, NONE, { .discharging = true } },
	};
	static const char *const bad[] = { "-1 5 idle - -",
					   "1e10 5 idle - -",
					   "1x 5 idle - -",
					   "inf 5 idle - -",
					   "1 -1 idle - -",
					   "1 100.1 idle - -",
					   "1 5/0 idle - -",
					   "1 4/3 idle - -",
					   "1 -1/3 idle - -",
					   "1 /3 idle - -",
					   "1 3/ idle - -",
					   "1 5 idle 10 -",
					   "1 5 idle - -274",
					   "1 5 idle - 1001",
					   "1 5 idle - x",
					   "1 5 Idle - -",
					   "1 00000000000000000000000000000001/3 idle - -" };
	struct rvl_trace_row got;

	for (size_t i = 0; i < COUNT(row); i++) {
		ck_assert_msg(row_of(row[i].text, &got) == 1, "%s: %s", row[i].text, err);
		ck_assert_msg(got.time == row[i].time && got.temp == row[i].temp &&
				      got.reading.charge == row[i].charge &&
				      got.reading.readable == 1 && got.reading.batteries == 1 &&
				      got.reading.charging == row[i].r.charging &&
				      got.reading.discharging == row[i].r.discharging &&
				      got.reading.idle == row[i].r.idle &&
				      got.reading.mains == row[i].r.mains &&
				      got.reading.mains_known == row[i].r.mains_known,
			      "%s: %u", row[i].text, got.reading.charge);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		ck_assert_msg(row_of(bad[i], &got) == -EINVAL, "%s", bad[i]);
}
END_TEST

/* A line has at most 255 bytes. Line numbers count empty lines, too. */
START_TEST(trace_lines)
{
	struct rvl_trace_row row;
	char text[600];
	const char *at = text;
	unsigned int line = 0;

	memset(text, ' ', sizeof(text));
	memcpy(text, "1 5 idle - -", 12);
	strcpy(text + 255, "\n\n# x\n2 6 idle - -");
	ck_assert_int_eq(rvl_trace_parse(&at, &line, &row, err, sizeof(err)), 1);
	ck_assert_uint_eq(line, 1);
	ck_assert_int_eq(rvl_trace_parse(&at, &line, &row, err, sizeof(err)), 1);
	ck_assert_uint_eq(line, 4);
	ck_assert_uint_eq(row.reading.charge, 60000);
	ck_assert_int_eq(rvl_trace_parse(&at, &line, &row, err, sizeof(err)), 0);
	text[255] = ' ';
	text[256] = '\n';
	ck_assert_int_eq(row_of(text, &row), -EINVAL);
	ck_assert_str_eq(err, "line 1: longer than 255 bytes");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gauge");
	TCase *t = tcase_create("readings"), *x = tcase_create("policy");

	tcase_add_test(t, kinds);
	tcase_add_test(t, online);
	tcase_add_test(t, statuses);
	tcase_add_test(t, amounts);
	tcase_add_test(t, sums);
	tcase_add_test(t, plausible_changes);
	tcase_add_test(t, step_between_uevents);
	tcase_add_test(t, confirmed);
	tcase_add_test(t, drain);
	tcase_add_test(t, interval);
	tcase_add_test(t, grace);
	tcase_add_test(t, trips);
	tcase_add_test(t, limits);
	tcase_add_test(t, trace_columns);
	tcase_add_test(t, trace_lines);
	suite_add_tcase(s, t);
	tcase_add_checked_fixture(x, set_up, NULL);
	tcase_add_test(x, default_thresholds);
	tcase_add_test(x, lists);
	tcase_add_test(x, names);
	tcase_add_test(x, thresholds);
	tcase_add_test(x, dwell);
	tcase_add_test(x, reconfigured);
	tcase_add_test(x, heat_steps);
	tcase_add_test(x, reserve);
	tcase_add_test(x, mode_levels);
	tcase_add_test(x, allowed);
	tcase_add_test(x, waits);
	tcase_add_test(x, residency);
	tcase_add_test(x, unknown_charge);
	tcase_add_test(x, floor_of_charge);
	tcase_add_test(x, floor_of_heat);
	suite_add_tcase(s, x);
	return run_suite(s);
}

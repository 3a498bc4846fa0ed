// SPDX-License-Identifier: MIT
/*
 * The power policy in the daemon's process, on a sysfs in a temporary directory and a simulated
 * devfreq: order of writes, refused writes, a foreign writer, restoring the limits, a daemon that
 * is killed and started again.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "estimate.h"
#include "files.h"
#include "log.h"
#include "manager.h"
#include "power.h"
#include "rivulet_board.h"
#include "rivulet_proto.h"
#include "suite.h"
#include "util.h"

static struct rvl_manager m;
static char dir[64], sys[80];

/* ---- a simulation of the kernel's devfreq: requests in kHz, and the range that results ---- */

static struct kernel {
	uint64_t opp_min, opp_max;	/* Hz */
	uint64_t req_min, req_max;	/* kHz, as written; 0: no limit */
	uint64_t cooling_max;		/* kHz, of a cooling device; 0: none */
	int deny;			/* errno of each write, or 0 */
	uint64_t wide;			/* number of ranges that allowed more than one level */
	uint64_t writes, refused;
	/* the order of the last two writes: 'm' min_freq, 'M' max_freq */
	char last[2];
} k;

static void range(uint64_t *min, uint64_t *max)
{
	*min = k.req_min * 1000 > k.opp_min ? k.req_min * 1000 : k.opp_min;
	*max = k.req_max ? k.req_max * 1000 : UINT64_MAX;
	if (k.cooling_max && k.cooling_max * 1000 < *max)
		*max = k.cooling_max * 1000;
	*max = *max < k.opp_max ? *max : k.opp_max;
	*min = *min < *max ? *min : *max;
}

static int k_read(const char *path, char *buf, size_t size)
{
	uint64_t min, max;

	range(&min, &max);
	snprintf(buf, size, "%llu\n",
		 (unsigned long long)(strstr(path, "min_freq") ? min : max));
	return 0;
}

static int k_write(const char *path, const char *text, size_t size)
{
	uint64_t hz = strtoull(text, NULL, 10), min, max;
	bool is_min = strstr(path, "min_freq");

	ck_assert_uint_eq(size, strlen(text));
	if (k.deny) {
		k.refused++;
		return k.deny;
	}
	k.writes++;
	k.last[0] = k.last[1];
	k.last[1] = is_min ? 'm' : 'M';
	if (is_min)
		k.req_min = hz / 1000;
	else
		k.req_max = (hz + 999) / 1000;
	range(&min, &max);
	k.wide += max - min > 1000;
	return 0;
}

static const struct rvl_devfreq_io kernel_io = { k_read, k_write };

static void plain_devfreq(void)
{
	struct rvl_devfreq d = { .hz = 0 };
	struct rvl_text err;
	char path[200];

	snprintf(path, sizeof(path), "%s/accel/accel0", dir);
	ck_assert_msg(!rvl_devfreq_open(&d, path, &err), "%s", err.s);
}

/* ---- the machine ---- */

/* The daemon's clock. It starts at 1 ns, as on a machine that has just booted. */
static uint64_t now_ns;

static uint64_t test_clock(void)
{
	return now_ns;
}

static void put(const char *name, const char *value)
{
	put_file(sys, name, value);
}

static void charge(int percent)
{
	char text[16];

	snprintf(text, sizeof(text), "%d\n", percent);
	put("class/power_supply/BAT0/capacity", text);
	/* The gauge rejects a change of more than 10 % within a short time. */
	now_ns += 1000 * NSEC_PER_SEC;
	rvl_power_tick(&m.power);
}

static void machine(void)
{
	make_scratch(dir);
	snprintf(sys, sizeof(sys), "%s/sys", dir);
	put_file(dir, "sys", NULL);
	put_file(dir, "accel/accel0", NULL);
	put_file(dir, "devfreq/npu", NULL);
	put("class/power_supply/BAT0/type", "Battery\n");
	put("class/power_supply/BAT0/status", "Discharging\n");
	put("class/power_supply/BAT0/capacity", "100\n");
	put("class/thermal/thermal_zone0/temp", "40000\n");
	put("class/thermal/thermal_zone0/trip_point_0_type", "passive\n");
	put("class/thermal/thermal_zone0/trip_point_0_temp", "90000\n");
	k = (struct kernel){ .opp_min = 100000000, .opp_max = 333333333 };
	rvl_devfreq_io = &kernel_io;
	now_ns = 1;
	rvl_clock = test_clock;
	rvl_log_init(LOG_EMERG);
}

static void start_with(const char *config)
{
	static const uint64_t hz[] = { 100000000, 166666666, 250000000, 333333333 };
	struct rvl_text err;

	memset(&m, 0, sizeof(m));
	rvl_config_default(&m.cfg);
	ck_assert_msg(!rvl_config_parse(&m.cfg, "t", config, strlen(config), NULL, NULL, &err),
		      "%s", err.s);
	snprintf(m.cfg.state_dir.s, sizeof(m.cfg.state_dir.s), "%s", dir);
	rvl_list_init(&m.sessions);
	ck_assert_int_ge(sd_event_new(&m.event), 0);
	m.device.present = true;
	m.device.m = &m;
	strcpy(m.device.node, "/dev/accel/accel0");
	snprintf(m.device.syspath, sizeof(m.device.syspath), "%s/accel/accel0", dir);
	m.device.board.levels = 4;
	for (uint32_t l = 0; l < 4; l++)
		m.device.board.level[l] = (struct rivulet_board_level){ .hz = hz[l],
									.microvolt = 700000 + l };
	m.power.sys = sys;
	ck_assert_msg(!rvl_power_start(&m, &err), "%s", err.s);
}

static void start(void)
{
	machine();
	start_with("[Power]\nDwell=0\nPowerProfiles=no\n");
}

static void stop(void)
{
	rvl_power_stop(&m.power);
	sd_event_unref(m.event);
}

static void clean(void)
{
	remove_scratch(dir);
}

static void end(void)
{
	stop();
	clean();
}

/* Simulates a kill of the daemon: nothing is restored and nothing is removed. */
static void killed(void)
{
	m.power.profiles = rvl_profiles_stop(m.power.profiles);
	sd_device_monitor_unref(m.power.monitor);
	sd_event_source_disable_unref(m.power.timer);
	sd_event_unref(m.event);
}

static void expect_pinned(uint64_t hz)
{
	uint64_t min, max;

	range(&min, &max);
	ck_assert_msg(min <= hz && min + 1000 > hz && max >= hz && max < hz + 1000,
		      "%llu..%llu instead of %llu", (unsigned long long)min,
		      (unsigned long long)max, (unsigned long long)hz);
}

/* ---- pinning the level ---- */

/*
 * Proves that every level is pinned although the kernel rounds to kHz, and that during a change
 * there is never a range in which the governor could choose a third level.
 */
START_TEST(pins)
{
	static const struct {
		int charge;
		uint64_t hz;
	} step[] = { { 80, 333333333 }, { 75, 250000000 }, { 10, 100000000 }, { 40, 166666666 },
		    { 100, 333333333 }, { 50, 166666666 }, { 60, 250000000 } };

	expect_pinned(333333333);
	k.wide = 0;
	for (size_t i = 0; i < ARRAY_SIZE(step); i++) {
		charge(step[i].charge);
		expect_pinned(step[i].hz);
		ck_assert(rvl_power_flags(&m.power) & RIVULET_POLICY_STEERED);
	}
	ck_assert_uint_eq(k.wide, 0);
	/* When the level rises, the minimum is written first. */
	ck_assert(k.last[0] == 'm' && k.last[1] == 'M');
	charge(10);
	ck_assert(k.last[0] == 'M' && k.last[1] == 'm');
}
END_TEST

/* Proves that nothing is written while the level stays the same. */
START_TEST(quiet)
{
	uint64_t writes = k.writes;

	for (int i = 0; i < 10; i++)
		rvl_power_tick(&m.power);
	ck_assert_uint_eq(k.writes, writes);
}
END_TEST

/* Proves that the daemon restores the limits when it stops. */
START_TEST(restores)
{
	uint64_t min, max;

	machine();
	k.req_min = 166667;
	k.req_max = 250000;
	start_with("[Power]\nPowerProfiles=no\nMode=0\n");
	expect_pinned(100000000);
	stop();
	range(&min, &max);
	ck_assert_uint_eq(min, 166667000);
	ck_assert_uint_eq(max, 250000000);
	clean();
}
END_TEST

/*
 * Proves that if devfreq does not grant a level the next one is used, and that the level is tried
 * again later.
 */
START_TEST(refused)
{
	/* A cooling device limits the range at once. It is not taken for a foreign writer. */
	k.cooling_max = 250000;
	rvl_power_tick(&m.power);
	expect_pinned(250000000);
	ck_assert(!(rvl_power_flags(&m.power) & RIVULET_POLICY_YIELDED));
	charge(10);
	charge(100);
	expect_pinned(250000000);
	ck_assert_uint_eq(m.power.policy.level, 2);
	ck_assert_uint_eq(m.power.policy.reason, RIVULET_REASON_VARIANT);
	k.cooling_max = 0;
	rvl_power_tick(&m.power);
	ck_assert_uint_eq(m.power.policy.level, 2);
	now_ns += 60 * NSEC_PER_SEC;
	rvl_power_tick(&m.power);
	expect_pinned(333333333);
	/*
	 * When devfreq refuses all other levels, the pinned one remains, and each other level is
	 * tried once.
	 */
	k.deny = -EINVAL;
	charge(10);
	ck_assert_uint_eq(m.power.policy.level, 3);
	ck_assert_uint_eq(m.power.policy.reason, RIVULET_REASON_VARIANT);
	expect_pinned(333333333);
	ck_assert_uint_eq(k.refused, 3);
	/*
	 * A foreign writer changes the limits as well, so the daemon reports that it does not
	 * steer.
	 */
	k.req_min = k.req_max = 166667;
	rvl_power_tick(&m.power);
	ck_assert(!(rvl_power_flags(&m.power) & RIVULET_POLICY_STEERED));
	k.deny = 0;
	now_ns += 60 * NSEC_PER_SEC;
	rvl_power_tick(&m.power);
	expect_pinned(100000000);
	ck_assert(rvl_power_flags(&m.power) & RIVULET_POLICY_STEERED);
}
END_TEST

/*
 * Proves that without permission to write the daemon does not claim the level, and that admission
 * assumes the slowest one.
 */
START_TEST(no_permission)
{
	struct rvl_text err;

	ck_assert_uint_eq(rvl_power_floor(&m.power, 0xf, UINT64_MAX), 3);
	ck_assert_int_eq(rvl_power_admit(&m.power, 0x8, 1, true, &err), 0);
	k.deny = -EACCES;
	charge(80);
	charge(10);
	ck_assert(!(rvl_power_flags(&m.power) & RIVULET_POLICY_STEERED));
	ck_assert_uint_eq(rvl_power_floor(&m.power, 0xf, UINT64_MAX), 0);
	/* The model lacks a variant of a level that may be in force. */
	ck_assert_int_eq(rvl_power_admit(&m.power, 0x8, 1, true, &err), -EOPNOTSUPP);
	ck_assert_int_eq(rvl_power_admit(&m.power, 0xff, 1, true, &err), 0);
	k.deny = 0;
	rvl_power_tick(&m.power);
	expect_pinned(100000000);
}
END_TEST

/* Proves that the policy yields to a foreign writer until a mode is set. */
START_TEST(yields)
{
	struct rvl_text err;
	uint64_t writes;

	k.req_min = 166666;
	k.req_max = 166667;
	rvl_power_tick(&m.power);
	writes = k.writes;
	ck_assert(rvl_power_flags(&m.power) & RIVULET_POLICY_YIELDED);
	expect_pinned(166666666);
	charge(10);
	ck_assert_uint_eq(k.writes, writes);
	ck_assert_int_eq(rvl_power_set_mode(&m.power, RIVULET_POLICY_AUTO, 0, &err), 0);
	expect_pinned(100000000);
	ck_assert(!(rvl_power_flags(&m.power) & RIVULET_POLICY_YIELDED));
}
END_TEST

/* Proves that ForeignWriter=reassert restores the daemon's limits. */
START_TEST(reasserts)
{
	machine();
	start_with("[Power]\nForeignWriter=reassert\nPowerProfiles=no\n");
	k.req_min = k.req_max = 166667;
	rvl_power_tick(&m.power);
	expect_pinned(333333333);
	ck_assert(rvl_power_flags(&m.power) & RIVULET_POLICY_STEERED);
	end();
}
END_TEST

/*
 * Proves that after a kill the next daemon knows level, hysteresis, mode and the limits to restore.
 */
START_TEST(killed_and_restarted)
{
	static const char config[] = "[Power]\nDwell=3600s\nPowerProfiles=no\n";
	uint64_t min, max, changed;
	struct rvl_text err;

	machine();
	k.req_min = 110000;
	k.req_max = 300000;
	start_with(config);
	charge(70);
	expect_pinned(250000000);
	changed = m.power.policy.changed;
	killed();
	/* The charge is within the hysteresis, so without the saved state the level would be 3. */
	put("class/power_supply/BAT0/capacity", "76\n");
	start_with(config);
	expect_pinned(250000000);
	ck_assert_uint_eq(m.power.policy.level, 2);
	ck_assert_uint_eq(m.power.policy.changed, changed);
	/* The dwell time continues. */
	charge(100);
	ck_assert_uint_eq(m.power.policy.level, 2);
	ck_assert_int_eq(rvl_power_set_mode(&m.power, RIVULET_POLICY_FIXED, 1, &err), 0);
	killed();
	start_with(config);
	ck_assert_uint_eq(m.power.tool_mode, RIVULET_POLICY_FIXED);
	expect_pinned(166666666);
	/* After the second kill, too, the limits to restore are the original ones. */
	stop();
	range(&min, &max);
	ck_assert_uint_eq(min, 110000000);
	ck_assert_uint_eq(max, 300000000);
	/* A daemon that stops regularly leaves no state. */
	start_with(config);
	ck_assert_uint_eq(m.power.tool_mode, RIVULET_POLICY_KEEP);
	ck_assert_uint_eq(m.power.policy.level, 3);
	end();
}
END_TEST

/*
 * Proves that a saved state is taken up only where its level is one of the board and its threshold
 * and cap are steps of the policy, of which this board has four.
 */
START_TEST(state_of_another_board)
{
	static const struct { uint32_t level, step, cap; bool taken; } states[] = {
		{ 1, 2, 0, true }, { 0, 3, 0, true }, { 0, 3, 3, true }, { 4, 2, 0, false }, { 1, 4, 0, false }, { 1, 2, 4, false } };
	struct rvl_power_state st;

	machine();
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		start_with("[Power]\nDwell=3600s\nPowerProfiles=no\n");
		ck_assert_uint_eq(m.power.policy.cfg.n, 4);
		stop();
		start_with("[Power]\nDwell=3600s\nPowerProfiles=no\n");
		charge(99);
		killed();
		ck_assert_int_eq(rvl_power_load(m.power.state_path, &st), 0);
		st.level = states[i].level;
		st.step = states[i].step;
		st.cap = states[i].cap;
		st.changed = 5;
		ck_assert_int_eq(rvl_power_save(m.power.state_path, &st), 0);
		start_with("[Power]\nDwell=3600s\nPowerProfiles=no\n");
		ck_assert_msg((m.power.policy.changed == 5) == states[i].taken, "state %zu", i);
		/* A saved level that was accepted counts as entered. */
		if (states[i].level < 4)
			ck_assert_uint_eq(m.power.policy.entries[states[i].level], states[i].taken);
		stop();
	}
	clean();
}
END_TEST

/*
 * Proves that the dwell time is kept when the clock is behind the saved state: a restarted
 * container may have another time namespace in the same boot.
 */
START_TEST(clock_goes_back)
{
	static const char config[] = "[Power]\nDwell=3600s\nPowerProfiles=no\n";

	machine();
	start_with(config);
	now_ns = 400 * 86400 * NSEC_PER_SEC;
	charge(70);
	expect_pinned(250000000);
	killed();
	now_ns = NSEC_PER_SEC;
	start_with(config);
	expect_pinned(250000000);
	charge(100);
	ck_assert_uint_eq(m.power.policy.level, 2);
	for (int i = 0; i < 3; i++)
		charge(100);
	ck_assert_uint_eq(m.power.policy.level, 3);
	end();
}
END_TEST

/*
 * Proves that a reload keeps the time of the last change, and that the dwell time does not depend
 * on the uptime.
 */
START_TEST(reload_keeps_dwell)
{
	static const uint64_t uptime[] = { 1, 400 * 86400 * NSEC_PER_SEC };

	machine();
	now_ns = uptime[_i];
	start_with("[Power]\nDwell=3600s\nPowerProfiles=no\n");
	charge(70);
	rvl_power_reload(&m.power);
	expect_pinned(250000000);
	for (int i = 0; i < 3; i++) {
		charge(100);
		ck_assert_uint_eq(m.power.policy.level, 2);
	}
	charge(100);
	expect_pinned(333333333);
	end();
}
END_TEST

static void new_config(const char *config)
{
	struct rvl_text err;

	rvl_config_default(&m.cfg);
	ck_assert_msg(!rvl_config_parse(&m.cfg, "t", config, strlen(config), NULL, NULL, &err), "%s", err.s);
	snprintf(m.cfg.state_dir.s, sizeof(m.cfg.state_dir.s), "%s", dir);
	rvl_power_reload(&m.power);
}

/* Proves that levels and thresholds of a reload decide at once, and that nothing does without a device. */
START_TEST(reload_takes_levels)
{
	machine();
	start_with("[Power]\nDwell=0\nPowerProfiles=no\nLevels=3 2 1 0\nThresholds=75 50 25\n");
	charge(70);
	expect_pinned(250000000);
	new_config("[Power]\nDwell=0\nPowerProfiles=no\nLevels=3 0\nThresholds=80\n");
	charge(70);
	expect_pinned(100000000);
	m.device.present = false;
	rvl_power_device(&m.power);
	new_config("[Power]\nDwell=0\nPowerProfiles=no\nLevels=3 2\nThresholds=80\n");
	ck_assert(!m.power.ready && m.power.policy.cfg.level[1] == 0);
	end();
}
END_TEST

/* Proves that a saved state that is damaged, invalid or of another boot is discarded. */
START_TEST(bad_state)
{
	static const char *const text[] = {
		"", "version 1\n", "version 1\nboot x\nlevel 1\nend 0\n",
		"version 2\nboot x\nend 0\n", "garbage\n", "version 1\nlevel 99\nend 0\n",
		"version 1\nhz 99999999999999999999999\nend 0\n",
	};
	struct rvl_power_state st, back;
	char path[100], boot[64];
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

	machine();
	ck_assert(f && fgets(boot, sizeof(boot), f));
	fclose(f);
	snprintf(path, sizeof(path), "%s/s", dir);
	ck_assert_int_eq(rvl_power_load(path, &st), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(text); i++) {
		f = fopen(path, "w");
		fputs(text[i], f);
		fclose(f);
		ck_assert_int_lt(rvl_power_load(path, &st), 0);
		ck_assert_uint_eq(st.level + st.devfreq.hz + st.changed, 0);
	}
	st = (struct rvl_power_state){ .devfreq = { .dir = "/x y", .hz = 5, .orig_min = 1,
						    .orig_max = 9 }, .step = 2, .cap = 1,
				       .level = 3, .changed = 77, .mode = 5, .fixed = 3 };
	ck_assert_int_eq(rvl_power_save(path, &st), 0);
	ck_assert_int_eq(rvl_power_load(path, &back), 0);
	ck_assert_int_eq(memcmp(&st, &back, sizeof(st)), 0);
	ck_assert_int_eq(rvl_power_save("/nowhere/at/all", &st), -ENOENT);
	clean();
}
END_TEST

/* ---- what Reconfigure= changes ---- */

static void expect_override(uint32_t variant, uint32_t clock)
{
	struct rvl_override w = rvl_power_override(&m.power);

	ck_assert_uint_eq(w.variant, variant);
	ck_assert_uint_eq(w.clock, clock);
}

/* Proves that clock and commands follow the level, or stay at the highest one, as configured. */
START_TEST(reconfigure)
{
	machine();
	start_with("[Power]\nDwell=0\nPowerProfiles=no\nReconfigure=both\n");
	charge(40);
	expect_pinned(166666666);
	expect_override(0, 0);
	ck_assert_uint_eq(rvl_power_usable(&m.power, 0x5), 0x5);
	ck_assert_uint_eq(rvl_power_forced(&m.power, 2), 0);
	m.cfg.reconfigure = RVL_RECONFIGURE_HARDWARE;
	rvl_power_tick(&m.power);
	expect_pinned(166666666);
	expect_override(4, 0);
	/* Commands for the highest level run at any clock; a program without them does not run. */
	ck_assert_uint_eq(rvl_power_usable(&m.power, 0x8), 0xff);
	ck_assert_uint_eq(rvl_power_usable(&m.power, 0x7), 0);
	ck_assert_uint_eq(rvl_power_forced(&m.power, 0), 4);
	m.cfg.reconfigure = RVL_RECONFIGURE_SOFTWARE;
	rvl_power_tick(&m.power);
	expect_pinned(333333333);
	ck_assert_uint_eq(m.power.policy.level, 1);
	expect_override(0, 4);
	ck_assert_uint_eq(rvl_power_usable(&m.power, 0x5), 0x5);
	ck_assert_uint_eq(rvl_power_forced(&m.power, 0), 2);
	ck_assert_uint_eq(rvl_power_forced(&m.power, 1), 2);
	ck_assert_uint_eq(rvl_power_forced(&m.power, 2), 3);
	m.cfg.reconfigure = RVL_RECONFIGURE_NONE;
	rvl_power_tick(&m.power);
	expect_pinned(333333333);
	ck_assert_uint_eq(m.power.policy.level, 3);
	expect_override(4, 4);
	ck_assert_uint_eq(rvl_power_forced(&m.power, 0), 4);
	/* With a fixed clock, the daemon cannot avoid a level that devfreq refuses. */
	m.cfg.reconfigure = RVL_RECONFIGURE_SOFTWARE;
	k.cooling_max = 250000;
	m.power.steered = false;
	rvl_power_tick(&m.power);
	ck_assert_uint_eq(m.power.refused, 0);
	ck_assert(!(rvl_power_flags(&m.power) & RIVULET_POLICY_STEERED));
	m.power.ready = false;
	expect_override(0, 0);
	m.power.ready = true;
	end();
}
END_TEST

/* Proves each flag of the policy by the state that it reports. */
START_TEST(flags)
{
	struct rvl_power *pw = &m.power;

	pw->gauge.external = pw->gauge.battery = pw->gauge.known = pw->policy.reserve = false;
	pw->policy.emergency = pw->steered = pw->yielded = false;
	ck_assert_uint_eq(rvl_power_flags(pw), 0);
	pw->gauge.external = true;
	ck_assert_uint_eq(rvl_power_flags(pw), RIVULET_POLICY_EXTERNAL);
	pw->gauge.external = false;
	pw->gauge.battery = true;
	ck_assert_uint_eq(rvl_power_flags(pw), RIVULET_POLICY_BATTERY);
	pw->gauge.battery = false;
	pw->gauge.known = true;
	ck_assert_uint_eq(rvl_power_flags(pw), RIVULET_POLICY_KNOWN);
	pw->gauge.known = false;
	pw->policy.reserve = true;
	ck_assert_uint_eq(rvl_power_flags(pw), RIVULET_POLICY_RESERVE);
	pw->policy.reserve = false;
	pw->policy.emergency = true;
	ck_assert_uint_eq(rvl_power_flags(pw), RIVULET_POLICY_EMERGENCY);
	pw->policy.emergency = false;
	pw->steered = true;
	ck_assert_uint_eq(rvl_power_flags(pw), RIVULET_POLICY_STEERED);
	pw->steered = false;
	pw->yielded = true;
	ck_assert_uint_eq(rvl_power_flags(pw), RIVULET_POLICY_YIELDED);
}
END_TEST

/*
 * Proves which levels are contested: levels of the board for which some run in progress has no
 * variant.
 */
START_TEST(contested)
{
	ck_assert_uint_eq(rvl_power_allowed(&m.power), 0xf);
	m.power.demands[0] = 1;
	m.power.running[2] = 3;
	ck_assert_uint_eq(rvl_power_allowed(&m.power), 0xa);
	m.power.demands[7] = m.power.running[4] = 1;
	ck_assert_uint_eq(rvl_power_allowed(&m.power), 0xa);
	memset(m.power.demands, 0, sizeof(m.power.demands));
	memset(m.power.running, 0, sizeof(m.power.running));
}
END_TEST

/* ---- the timer ---- */

static uint64_t due_us(void)
{
	uint64_t us;
	int on;

	ck_assert_int_ge(sd_event_source_get_time(m.power.timer, &us), 0);
	ck_assert_int_ge(sd_event_source_get_enabled(m.power.timer, &on), 0);
	ck_assert_int_eq(on, SD_EVENT_ONESHOT);
	return us;
}

/*
 * Proves when the next reading is due: after PollMax=, earlier if the charge falls fast, or when a
 * level may rise.
 */
START_TEST(next_reading)
{
	machine();
	now_ns = 1000 * NSEC_PER_SEC;
	start_with("[Power]\nDwell=7s\nPollMax=20s\nPollMin=3s\nPowerProfiles=no\n");
	ck_assert_uint_eq(due_us(), 1020000001);
	/* 1 % in ten seconds: a quarter percent in 2.5 s, which is below PollMin=. */
	put("class/power_supply/BAT0/capacity", "99\n");
	now_ns += 10 * NSEC_PER_SEC;
	rvl_power_tick(&m.power);
	ck_assert_uint_eq(due_us(), 1013000001);
	put("class/power_supply/BAT0/capacity", "94\n");
	now_ns += 100 * NSEC_PER_SEC;
	rvl_power_tick(&m.power);
	ck_assert_uint_eq(m.power.gauge.drain, 937);
	ck_assert_uint_eq(due_us(), 1113000001);
	m.power.gauge.drain = 500;
	rvl_power_tick(&m.power);
	ck_assert_uint_eq(m.power.gauge.drain, 500);
	ck_assert_uint_eq(due_us(), 1115000001);
	/* The level may rise seven seconds after it fell. */
	put("class/power_supply/BAT0/status", "Charging\n");
	m.power.policy.level = 1;
	m.power.policy.changed = now_ns - 2 * NSEC_PER_SEC;
	rvl_power_tick(&m.power);
	ck_assert_uint_eq(m.power.policy.level, 1);
	ck_assert_uint_eq(due_us(), 1115000001);
	now_ns += NSEC_PER_SEC;
	rvl_power_tick(&m.power);
	ck_assert_uint_eq(due_us(), 1115000001);
	end();
}
END_TEST

/* ---- the journal ---- */

static int errors = -1;

static void log_to_file(void)
{
	errors = memfd_create("stderr", MFD_CLOEXEC);
	ck_assert(errors >= 0 && dup2(errors, STDERR_FILENO) == STDERR_FILENO);
	rvl_log_init(LOG_INFO);
}

/* Returns what was logged since the last call. */
static const char *logged(void)
{
	static char text[4096];
	ssize_t n = pread(errors, text, sizeof(text) - 1, 0);

	ck_assert_int_ge(n, 0);
	text[n] = 0;
	ck_assert(!ftruncate(errors, 0) && !lseek(STDERR_FILENO, 0, SEEK_SET));
	return text;
}

/* Proves the entry of each change: level, clock, reason, reserve and heat. */
START_TEST(journal_of_levels)
{
	machine();
	log_to_file();
	start_with("[Power]\nDwell=0\nPowerProfiles=no\n");
	ck_assert_str_eq(logged(), "<6>rivuletd: level 3 (333 MHz) by battery\n");
	charge(40);
	ck_assert_str_eq(logged(), "<6>rivuletd: level 1 (166 MHz) by battery\n");
	charge(40);
	ck_assert_str_eq(logged(), "");
	charge(4);
	ck_assert_str_eq(logged(), "<6>rivuletd: level 0 (100 MHz) by battery, in the reserve\n");
	put("class/thermal/thermal_zone0/trip_point_0_type", "hot\n");
	put("class/thermal/thermal_zone0/temp", "90000\n");
	charge(100);
	ck_assert_str_eq(logged(), "<6>rivuletd: level 0 (100 MHz) by heat, too hot\n");
	end();
}
END_TEST

/* Proves that each failure of devfreq is logged once, with its reason and its consequence. */
START_TEST(journal_of_trouble)
{
	machine();
	log_to_file();
	start_with("[Power]\nDwell=0\nPowerProfiles=no\n");
	logged();
	k.cooling_max = 250000;
	charge(10);
	charge(100);
	ck_assert_ptr_nonnull(strstr(logged(), "<4>rivuletd: level 3 was refused: "));
	k.cooling_max = 0;
	now_ns += 60 * NSEC_PER_SEC;
	charge(10);
	k.cooling_max = 250000;
	charge(100);
	ck_assert_ptr_null(strstr(logged(), "refused"));
	k.cooling_max = 0;
	now_ns += 60 * NSEC_PER_SEC;
	charge(100);
	k.req_min = 166667;
	k.req_max = 250000;
	logged();
	rvl_power_tick(&m.power);
	ck_assert_ptr_nonnull(strstr(logged(),
			"<4>rivuletd: another process set the limits to 166667000..250000000 Hz; "
			"the policy yields until a mode is set\n"));
	end();
}
END_TEST

/* Proves that a missing permission is logged once, five seconds after the device appeared. */
START_TEST(journal_of_permission)
{
	machine();
	log_to_file();
	now_ns = 1000 * NSEC_PER_SEC;
	k.deny = -EACCES;
	start_with("[Power]\nDwell=0\nPowerProfiles=no\n");
	ck_assert_ptr_null(strstr(logged(), "cannot set"));
	now_ns += 5 * NSEC_PER_SEC - 1;
	rvl_power_tick(&m.power);
	ck_assert_str_eq(logged(), "");
	now_ns += 1;
	rvl_power_tick(&m.power);
	ck_assert_ptr_nonnull(strstr(logged(),
			"<4>rivuletd: the daemon cannot set the device's level: "
			"writing 333333333 to "));
	rvl_power_tick(&m.power);
	ck_assert_str_eq(logged(), "");
	k.deny = 0;
	end();
}
END_TEST

/* Proves that a list that does not match the board is logged and replaced by the default. */
START_TEST(journal_of_lists)
{
	machine();
	log_to_file();
	start_with("[Power]\nDwell=0\nPowerProfiles=no\nLevels=6 0\n");
	ck_assert_ptr_nonnull(strstr(logged(),
			"<3>rivuletd: Levels= and Thresholds= of [Power] do not suit the board, "
			"auto instead: level 6; the board "));
	ck_assert_uint_eq(m.power.policy.cfg.n, 4);
	end();
	machine();
	start_with("[Power]\nDwell=0\nPowerProfiles=no\nLevels=3 0\nHysteresis=3\nReserve=7\n"
		   "HeatStep=9s\n");
	ck_assert_uint_eq(m.power.policy.cfg.n, 2);
	ck_assert_uint_eq(m.power.policy.cfg.hysteresis, 30000);
	ck_assert_uint_eq(m.power.policy.cfg.reserve, 70000);
	ck_assert_uint_eq(m.power.policy.cfg.heat_step, 9 * NSEC_PER_SEC);
	ck_assert_uint_eq(m.power.policy.cfg.dwell, 0);
	end();
}
END_TEST

/* ---- readings that determine the level ---- */

/* Proves that heat is read from sysfs, and that Heat=no disables it. */
START_TEST(hot)
{
	put("class/thermal/thermal_zone0/temp", "90000\n");
	rvl_power_tick(&m.power);
	expect_pinned(250000000);
	put("class/thermal/thermal_zone0/temp", "40000\n");
	rvl_power_tick(&m.power);
	expect_pinned(333333333);
	m.cfg.power_heat = 0;
	put("class/thermal/thermal_zone0/temp", "90000\n");
	rvl_power_tick(&m.power);
	expect_pinned(333333333);
}
END_TEST

/* Proves which priorities are admitted in the reserve and in a thermal emergency. */
START_TEST(reserve)
{
	struct rvl_text err;

	charge(6);
	ck_assert_int_eq(rvl_power_admit(&m.power, 0xf, RIVULET_PRIO_NORMAL, true, &err), 0);
	charge(5);
	ck_assert_int_eq(rvl_power_admit(&m.power, 0xf, RIVULET_PRIO_NORMAL, true, &err), -EAGAIN);
	ck_assert_str_eq(err.s, "the battery is in its reserve: only runs of high priority are "
				"admitted");
	ck_assert_int_eq(rvl_power_admit(&m.power, 0xf, RIVULET_PRIO_HIGH, true, &err), 0);
	m.cfg.power_admits = RVL_ADMITS_NONE;
	ck_assert_int_eq(rvl_power_admit(&m.power, 0xf, RIVULET_PRIO_HIGH, true, &err), -EAGAIN);
	m.cfg.power_admits = RVL_ADMITS_ALL;
	ck_assert_int_eq(rvl_power_admit(&m.power, 0xf, RIVULET_PRIO_LOW, true, &err), 0);
	m.cfg.power_admits = RVL_ADMITS_HIGH;
	put("class/power_supply/BAT0/status", "Charging\n");
	rvl_power_tick(&m.power);
	ck_assert_int_eq(rvl_power_admit(&m.power, 0xf, RIVULET_PRIO_NORMAL, true, &err), 0);
	expect_pinned(333333333);
	put("class/thermal/thermal_zone0/trip_point_0_type", "hot\n");
	put("class/thermal/thermal_zone0/temp", "95000\n");
	rvl_power_tick(&m.power);
	expect_pinned(100000000);
	ck_assert_int_eq(rvl_power_admit(&m.power, 0xf, RIVULET_PRIO_NORMAL, true, &err), -EAGAIN);
	ck_assert_str_eq(err.s, "too hot: only runs of high priority are admitted");
}
END_TEST

/*
 * Proves that the level changes at once to one for which every admitted model has a variant, and
 * that the policy is free again afterwards.
 */
START_TEST(admitted_work)
{
	struct rvl_text err;

	rvl_power_demand(&m.power, 0x3, 1);
	expect_pinned(166666666);
	ck_assert_int_eq(rvl_power_admit(&m.power, 0xc, 1, true, &err), -EBUSY);
	rvl_power_demand(&m.power, 0x2, 1);
	charge(10);
	expect_pinned(166666666);
	ck_assert_uint_eq(rvl_power_allowed(&m.power), 2);
	rvl_power_demand(&m.power, 0x2, -1);
	expect_pinned(100000000);
	rvl_power_demand(&m.power, 0x3, -1);
	charge(90);
	expect_pinned(333333333);
	ck_assert_uint_eq(rvl_power_allowed(&m.power), 0xf);
}
END_TEST

/* Proves that a run of a user who may not change the mode does not change the level either. */
START_TEST(ordinary_runs)
{
	struct rvl_text err;

	ck_assert_int_eq(rvl_power_set_mode(&m.power, RIVULET_POLICY_PERFORMANCE, 0, &err), 0);
	ck_assert_int_eq(rvl_power_admit(&m.power, 0x7, 1, false, &err), -EOPNOTSUPP);
	ck_assert_str_eq(err.s, "no variant for level 3, which mode performance (mode) has "
				"chosen; the "
			 "level is changed only for runs of PolicyUsers=, see [Power] in "
			 "rivuletd.conf(5)");
	ck_assert_int_eq(rvl_power_admit(&m.power, 0x8, 1, false, &err), 0);
	expect_pinned(333333333);
	/* A demand of a user who may change the mode applies to all users. */
	rvl_power_demand(&m.power, 0x1, 1);
	expect_pinned(100000000);
	ck_assert_int_eq(rvl_power_admit(&m.power, 0x8, 1, false, &err), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.s, "level 0, which mode performance (variant)"));
	ck_assert_int_eq(rvl_power_can_start(&m.power, 0x8, false, &err), -EOPNOTSUPP);
	ck_assert_int_eq(rvl_power_can_start(&m.power, 0x9, false, &err), 0);
	rvl_power_demand(&m.power, 0x1, -1);
	expect_pinned(333333333);
	/* Before a far deadline the charge may fall to level 2. */
	charge(80);
	ck_assert_int_eq(rvl_power_set_mode(&m.power, RIVULET_POLICY_AUTO, 0, &err), 0);
	m.power.gauge.drain = 5000;
	ck_assert_int_eq(rvl_power_promise(&m.power, 0xb, rvl_now() + NSEC_PER_SEC, &err), 0);
	ck_assert_int_eq(rvl_power_promise(&m.power, 0xf, rvl_now() + 10 * NSEC_PER_SEC, &err), 0);
	ck_assert_int_eq(rvl_power_promise(&m.power, 0xb, rvl_now() + 10 * NSEC_PER_SEC, &err),
			 -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.s, "level 2"));
}
END_TEST

/*
 * Proves that runs in progress delay a change until they end, that no run is started that would
 * delay it further, and that the dwell time does not start anew then.
 */
START_TEST(runs_in_progress)
{
	struct rvl_text err;

	m.power.policy.cfg.dwell = 3600 * NSEC_PER_SEC;
	rvl_power_run(&m.power, 0x8, 1);
	rvl_power_run(&m.power, 0xf, 1);
	charge(10);
	expect_pinned(333333333);
	ck_assert_int_eq(rvl_power_admit(&m.power, 0x8, 1, false, &err), -EOPNOTSUPP);
	ck_assert_int_eq(rvl_power_can_start(&m.power, 0x8, false, &err), -EOPNOTSUPP);
	ck_assert_int_eq(rvl_power_can_start(&m.power, 0x1, false, &err), -EAGAIN);
	ck_assert_int_eq(rvl_power_can_start(&m.power, 0x9, false, &err), 0);
	ck_assert_uint_eq(rvl_power_allowed(&m.power), 0x8);
	rvl_power_run(&m.power, 0x8, -1);
	expect_pinned(100000000);
	ck_assert_int_eq(rvl_power_can_start(&m.power, 0x1, false, &err), 0);
	/* A mode that raises the level keeps its precedence over the dwell time. */
	rvl_power_run(&m.power, 0x1, 1);
	ck_assert_int_eq(rvl_power_set_mode(&m.power, RIVULET_POLICY_PERFORMANCE, 0, &err), 0);
	rvl_power_tick(&m.power);
	expect_pinned(100000000);
	rvl_power_run(&m.power, 0x1, -1);
	expect_pinned(333333333);
	rvl_power_run(&m.power, 0xf, -1);
}
END_TEST

/* Proves that lists made for another board do not leave this board without a policy. */
START_TEST(lists_of_other_board)
{
	machine();
	start_with("[Power]\nLevels=7 5 3\nThresholds=60 30\nPowerProfiles=no\n");
	ck_assert_uint_eq(m.power.policy.cfg.n, 4);
	expect_pinned(333333333);
	end();
	machine();
	start_with("[Power]\nLevels=3 0\nThresholds=99\nPowerProfiles=no\n");
	charge(99);
	expect_pinned(100000000);
	end();
}
END_TEST

/*
 * Proves that the policy continues while the device is absent, and that the limits are not written
 * meanwhile.
 */
START_TEST(device_absent)
{
	uint64_t writes;

	charge(10);
	m.device.present = false;
	rvl_power_device(&m.power);
	writes = k.writes;
	charge(100);
	ck_assert_uint_eq(k.writes, writes);
	k.req_min = k.req_max = 0;
	m.device.present = true;
	rvl_power_device(&m.power);
	expect_pinned(333333333);
	plain_devfreq();
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("power");
	TCase *steer = tcase_create("steering"), *own = tcase_create("restart");

	tcase_add_checked_fixture(steer, start, end);
	tcase_add_test(steer, pins);
	tcase_add_test(steer, quiet);
	tcase_add_test(steer, refused);
	tcase_add_test(steer, no_permission);
	tcase_add_test(steer, yields);
	tcase_add_test(steer, hot);
	tcase_add_test(steer, reserve);
	tcase_add_test(steer, admitted_work);
	tcase_add_test(steer, ordinary_runs);
	tcase_add_test(steer, runs_in_progress);
	tcase_add_test(steer, device_absent);
	tcase_add_test(steer, flags);
	tcase_add_test(steer, contested);
	tcase_add_test(own, reconfigure);
	tcase_add_test(own, next_reading);
	tcase_add_test(own, journal_of_levels);
	tcase_add_test(own, journal_of_trouble);
	tcase_add_test(own, journal_of_permission);
	tcase_add_test(own, journal_of_lists);
	tcase_add_test(own, restores);
	tcase_add_test(own, reasserts);
	tcase_add_test(own, killed_and_restarted);
	tcase_add_test(own, clock_goes_back);
	tcase_add_loop_test(own, reload_keeps_dwell, 0, 2);
	tcase_add_test(own, reload_takes_levels);
	tcase_add_test(own, bad_state);
	tcase_add_test(own, state_of_another_board);
	tcase_add_test(own, lists_of_other_board);
	suite_add_tcase(s, steer);
	suite_add_tcase(s, own);
	return s;
}

int main(void)
{
	return run_suite(make_suite());
}

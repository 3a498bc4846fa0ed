// SPDX-License-Identifier: MIT
/*
 * Unusual batteries: umockdev supplies sysfs and uevents, the daemon runs on the linked model, and
 * a client observes the level. The program executes itself again under umockdev's preload library.
 */
#include "daemon_rig.h"

#include "mock.h"
#include "suite.h"

/*
 * Four levels with thresholds at 75, 50 and 25 %. The battery is read every 20 ms, so confirming an
 * implausible reading takes the minimum of 2 s.
 */
#define CONFIG "[Power]\nDwell=0\nPollMax=20ms\nPollMin=20ms\nPowerProfiles=no\n"

static UMockdevTestbed *bed;

static void machine(void)
{
	bed = umockdev_testbed_new();
	setenv("RIG_SYS", "/sys", 1);
}

static void power_off(void)
{
	g_object_unref(bed);
}

/* Adds a power supply; @attrs are pairs of name and value, ended by NULL. */
static void add(const char *name, const char *const *attrs)
{
	gchar *list[32], *props[] = { (gchar *)"SUBSYSTEM", (gchar *)"power_supply", NULL };
	int n = 0;

	while (attrs[n] && n < 31) {
		list[n] = (gchar *)attrs[n];
		n++;
	}
	list[n] = NULL;
	ck_assert_ptr_nonnull(umockdev_testbed_add_devicev(bed, "power_supply", name, NULL, list,
							   props));
}

#define ADD(name, ...) add(name, (const char *const[]){ __VA_ARGS__, NULL })
#define PATH(name) "/sys/devices/" name

static void set(const char *name, const char *attr, const char *value)
{
	char path[64];

	snprintf(path, sizeof(path), PATH("%s"), name);
	umockdev_testbed_set_attribute(bed, path, attr, value);
}

static void announce(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), PATH("%s"), name);
	umockdev_testbed_uevent(bed, path, "change");
}

static void unplug(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), PATH("%s"), name);
	umockdev_testbed_uevent(bed, path, "remove");
	umockdev_testbed_remove_device(bed, path);
}

static struct rivulet_client *start(const char *config)
{
	struct rivulet_client *c;

	rig_start(config);
	ck_assert_msg(!rivulet_open(NULL, &c), "%s", rivulet_last_error());
	return c;
}

static struct rivulet_policy_state state(struct rivulet_client *c)
{
	struct rivulet_policy_state p = { .size = sizeof(p) };

	ck_assert_msg(!rivulet_client_policy(c, 0, 0, &p), "%s", rivulet_last_error());
	return p;
}

/* Waits until the counter @key of the policy's status is @least, and fails after 60 s. */
static void await_count(const char *key, uint64_t least)
{
	for (int i = 0; status_number("\"policy\"", key) < least; i++) {
		ck_assert_msg(i < WAIT_MS, "no %llu %s", (unsigned long long)least, key);
		usleep(1000);
	}
}

/*
 * Sends a uevent and waits until the daemon has read it. umockdev aborts when ten uevents are
 * unread.
 */
static void changed(const char *name)
{
	uint64_t before = status_number("\"policy\"", "uevents");

	announce(name);
	await_count("uevents", before + 1);
}

/* Waits until the level is @level, and fails after 15 s. */
static void expect_level(struct rivulet_client *c, uint32_t level)
{
	for (int i = 0; state(c).level != level; i++) {
		ck_assert_msg(i < 1500, "level %u, not %u: charge %u ppm, flags 0x%x",
			      state(c).level, level, state(c).charge, state(c).flags);
		usleep(10000);
	}
}

/* Asserts that the level stays @level during ten readings. */
static void expect_steady(struct rivulet_client *c, uint32_t level)
{
	struct rivulet_policy_state p = state(c);
	uint64_t entries = p.entries[level];

	await_count("readings", status_number("\"policy\"", "readings") + 10);
	p = state(c);
	ck_assert_uint_eq(p.level, level);
	ck_assert_uint_eq(p.entries[level], entries);
}

static void stop(struct rivulet_client *c)
{
	rivulet_client_unref(c);
	rig_stop();
}

/* Proves the level that each set of supplies gives at the start. */
START_TEST(fixtures)
{
	static const struct {
		const char *bat0[16], *bat1[16], *other[16];
		uint32_t level, charge;
		bool external;
	} rows[] = {
		/* no supply */
		{ { NULL }, { NULL }, { NULL }, 3, 0, true },
		/* energy */
		{ { "type", "Battery", "status", "Discharging", "energy_now", "30000000",
		    "energy_full", "50000000", NULL }, { NULL }, { NULL }, 2, 600000, false },
		/* charge instead of energy */
		{ { "type", "Battery", "status", "Discharging", "charge_now", "2000000",
		    "charge_full", "5000000", "voltage_now", "11400000", NULL },
		  { NULL }, { NULL }, 1, 400000, false },
		/*
		 * two batteries of different units: a small full one and a large empty one; mains
		 * is off
		 */
		{ { "type", "Battery", "status", "Discharging", "energy_now", "10000000",
		    "energy_full", "10000000", NULL },
		  { "type", "Battery", "status", "Discharging", "charge_now", "0", "charge_full",
		    "3000000", "voltage_min_design", "10000000", NULL },
		  { "type", "Mains", "online", "0", NULL }, 0, 250000, false },
		/* capacity only, no status */
		{ { "type", "Battery", "capacity", "55", NULL }, { NULL }, { NULL }, 2, 550000,
		  false },
		/* the longest number that an attribute may have, of 63 digits */
		{ { "type", "Battery", "status", "Discharging", "capacity",
		    "000000000000000000000000000000000000000000000000000000000000055", NULL },
		  { NULL }, { NULL }, 2, 550000, false },
		/* a mouse's battery does not power the machine */
		{ { "type", "Battery", "scope", "Device", "status", "Discharging", "capacity", "3",
		    NULL }, { NULL }, { NULL }, 3, 0, true },
		/* a UPS that supplies the load */
		{ { "type", "UPS", "status", "Discharging", "capacity", "30", NULL }, { NULL },
		  { "type", "Mains", "online", "0", NULL }, 1, 300000, false },
		/* charging */
		{ { "type", "Battery", "status", "Charging", "capacity", "10", NULL }, { NULL },
		  { "type", "Mains", "online", "1", NULL }, 3, 100000, true },
		/* 255 % from the start is unknown, and an unknown charge may be empty */
		{ { "type", "Battery", "status", "Discharging", "capacity", "255", NULL }, { NULL },
		  { "type", "Mains", "online", "0", NULL }, 0, 0, false },
		/* 255 % on mains */
		{ { "type", "Battery", "status", "Charging", "capacity", "255", NULL }, { NULL },
		  { "type", "Mains", "online", "1", NULL }, 3, 0, true },
	};
	struct rivulet_policy_state p = { .size = sizeof(p) };
	struct rivulet_client *c;

	if (rows[_i].bat0[0])
		add("BAT0", rows[_i].bat0);
	if (rows[_i].bat1[0])
		add("BAT1", rows[_i].bat1);
	if (rows[_i].other[0])
		add("AC", rows[_i].other);
	c = start(CONFIG);
	expect_level(c, rows[_i].level);
	p = state(c);
	ck_assert_uint_eq(p.charge, rows[_i].charge);
	ck_assert_int_eq(!!(p.flags & RIVULET_POLICY_EXTERNAL), rows[_i].external);
	ck_assert(p.flags & RIVULET_POLICY_STEERED);
	stop(c);
}
END_TEST

static struct rivulet_level_state received;
static int times;

static void on_level(struct rivulet_client *c, const struct rivulet_level_state *l, void *data)
{
	(void)c;
	(void)data;
	received = *l;
	times++;
}

static void wait_level(struct rivulet_client *c, uint32_t level)
{
	struct pollfd p = { .fd = rivulet_client_fd(c), .events = POLLIN };

	while (!times || received.level != level) {
		ck_assert_int_gt(poll(&p, 1, WAIT_MS), 0);
		ck_assert_int_ge(rivulet_client_dispatch(c), 0);
	}
}

/*
 * Proves that uevents alone, without polling, tell clients of each level and its reason while a
 * battery drains.
 */
START_TEST(events)
{
	struct rivulet_level_state l = { .size = sizeof(l) };
	struct rivulet_client *c;

	ADD("BAT0", "type", "Battery", "status", "Discharging", "capacity", "80");
	c = start("[Power]\nDwell=0\nPollMax=3600s\nPowerProfiles=no\n");
	rivulet_client_on_level(c, on_level, NULL);
	ck_assert_int_eq(rivulet_client_ping(c, WAIT_MS), 0);
	ck_assert_int_eq(rivulet_client_level(c, &l), 0);
	ck_assert_uint_eq(l.level, 3);
	for (int percent = 75; percent >= 25; percent -= 5) {
		char text[16];

		snprintf(text, sizeof(text), "%d", percent);
		set("BAT0", "capacity", text);
		announce("BAT0");
		if (percent % 25)
			continue;
		wait_level(c, (uint32_t)percent / 25 - 1);
		ck_assert_uint_eq(received.reason, RIVULET_REASON_BATTERY);
		ck_assert_uint_eq(received.charge, (uint32_t)percent * 10000);
	}
	ck_assert_uint_eq(received.hz, 100000000);
	rivulet_client_on_level(c, NULL, NULL);
	stop(c);
}
END_TEST

/* Proves that implausible readings between good ones do not change the level. */
START_TEST(glitches)
{
	static const char *const odd[] = { "0", "255", "-1", "", "nonsense", "101" };
	uint64_t from, longest = 0;
	struct rivulet_client *c;

	ADD("BAT0", "type", "Battery", "status", "Discharging", "capacity", "60");
	c = start(CONFIG);
	expect_level(c, 2);
	for (int i = 0; i < 30; i++) {
		from = rvl_now();
		set("BAT0", "capacity", odd[i % 6]);
		changed("BAT0");
		set("BAT0", "capacity", "60");
		changed("BAT0");
		longest = rvl_now() - from > longest ? rvl_now() - from : longest;
	}
	/* On a busy machine one of them may have lasted long enough to be accepted. */
	if (longest < RVL_GAUGE_CONFIRM_NS) {
		expect_steady(c, 2);
		ck_assert_uint_eq(state(c).entries[2], 1);
	}
	/* 0 % is accepted when it persists. */
	set("BAT0", "capacity", "0");
	expect_level(c, 0);
	ck_assert(state(c).flags & RIVULET_POLICY_RESERVE);
	stop(c);
}
END_TEST

/* Proves that removing and adding the battery does not change the level. */
START_TEST(vanishes)
{
	struct rivulet_client *c;

	ADD("BAT0", "type", "Battery", "status", "Discharging", "capacity", "40");
	c = start(CONFIG);
	expect_level(c, 1);
	for (int i = 0; i < 5; i++) {
		unplug("BAT0");
		expect_steady(c, 1);
		ADD("BAT0", "type", "Battery", "status", "Discharging", "capacity", "40");
		expect_steady(c, 1);
	}
	unplug("BAT0");
	ADD("AC", "type", "Mains", "online", "1");
	expect_level(c, 3);
	stop(c);
}
END_TEST

/* Proves that a flapping mains supply raises the level at most once per dwell time. */
START_TEST(flapping_plug)
{
	struct rivulet_policy_state p = { .size = sizeof(p) };
	struct rivulet_client *c;

	ADD("BAT0", "type", "Battery", "status", "Discharging", "capacity", "40");
	ADD("AC", "type", "Mains", "online", "0");
	c = start("[Power]\nDwell=3600s\nPollMax=10ms\nPollMin=10ms\nPowerProfiles=no\n");
	expect_level(c, 1);
	for (int i = 0; i < 40; i++) {
		set("BAT0", "status", i % 2 ? "Discharging" : "Charging");
		set("AC", "online", i % 2 ? "0" : "1");
		changed("AC");
	}
	p = state(c);
	ck_assert_uint_eq(p.level, 1);
	ck_assert_uint_eq(p.entries[0] + p.entries[1] + p.entries[2] + p.entries[3], 1);
	stop(c);
}
END_TEST

/*
 * Proves that a thermal emergency forces the lowest level, on mains too, and that clients see the
 * reason.
 */
START_TEST(emergency)
{
	gchar *attrs[] = { (gchar *)"type", (gchar *)"soc", (gchar *)"temp", (gchar *)"50000",
			   (gchar *)"trip_point_0_type", (gchar *)"critical",
			   (gchar *)"trip_point_0_temp", (gchar *)"100000", NULL };
	struct rivulet_client *c;

	ck_assert_ptr_nonnull(umockdev_testbed_add_devicev(bed, "thermal", "thermal_zone0", NULL,
							   attrs, NULL));
	c = start(CONFIG);
	expect_level(c, 3);
	umockdev_testbed_set_attribute(bed, PATH("thermal_zone0"), "temp", "95000");
	expect_level(c, 0);
	ck_assert(state(c).flags & RIVULET_POLICY_EMERGENCY);
	ck_assert_uint_eq(state(c).reason, RIVULET_REASON_HEAT);
	ck_assert_int_eq(state(c).temperature, 95000);
	/* An implausible reading of a sensor does not count as heat. */
	umockdev_testbed_set_attribute(bed, PATH("thermal_zone0"), "temp", "-87900");
	expect_level(c, 3);
	stop(c);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t;

	rig_main(argc, argv, rvl_worker_main);
	under_umockdev(argv);
	s = suite_create("battery");
	t = tcase_create("umockdev");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, machine, power_off);
	tcase_add_loop_test(t, fixtures, 0, 10);
	tcase_add_test(t, events);
	tcase_add_test(t, glitches);
	tcase_add_test(t, vanishes);
	tcase_add_test(t, flapping_plug);
	tcase_add_test(t, emergency);
	suite_add_tcase(s, t);
	return run_suite(s);
}

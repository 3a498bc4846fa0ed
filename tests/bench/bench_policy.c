// SPDX-License-Identifier: MIT
/*
 * The duration of one tick of the power policy in its worst case: it reads two batteries, mains and
 * four thermal zones from a sysfs of plain files in memory, pins another level each time and saves
 * the state.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "log.h"
#include "manager.h"
#include "power.h"
#include "util.h"

#define TICKS 4000

static struct rvl_manager m;
static char dir[64], sys[80];

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void make_dir(const char *name)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (mkdir(path, 0755))
		die(path);
}

static void put(const char *name, const char *value)
{
	char path[200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	if (!f || fputs(value, f) < 0 || fclose(f))
		die(path);
}

static void put_battery(const char *name)
{
	static const char *const attr[][2] = {
		{ "type", "Battery\n" }, { "status", "Discharging\n" }, { "present", "1\n" },
		{ "energy_now", "30000000\n" }, { "energy_full", "50000000\n" },
		{ "energy_full_design", "57000000\n" }, { "capacity", "60\n" },
	};
	char path[100];

	snprintf(path, sizeof(path), "sys/class/power_supply/%s", name);
	make_dir(path);
	for (size_t i = 0; i < ARRAY_SIZE(attr); i++) {
		snprintf(path, sizeof(path), "sys/class/power_supply/%s/%s", name, attr[i][0]);
		put(path, attr[i][1]);
	}
}

static void put_zones(void)
{
	char path[100];

	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "sys/class/thermal/thermal_zone%d", i);
		make_dir(path);
		snprintf(path, sizeof(path), "sys/class/thermal/thermal_zone%d/temp", i);
		put(path, "45000\n");
		for (int t = 0; t < 3; t++) {
			snprintf(path, sizeof(path),
				 "sys/class/thermal/thermal_zone%d/trip_point_%d_type", i, t);
			put(path, t ? "critical\n" : "passive\n");
			snprintf(path, sizeof(path),
				 "sys/class/thermal/thermal_zone%d/trip_point_%d_temp", i, t);
			put(path, t ? "110000\n" : "95000\n");
		}
	}
}

static void make_machine(void)
{
	static const char *const dirs[] = { "sys", "sys/class", "sys/class/power_supply",
					    "sys/class/power_supply/AC", "sys/class/thermal",
						    "accel",
					    "accel/accel0", "devfreq", "devfreq/npu" };

	strcpy(dir, "/dev/shm/rivulet-bench-XXXXXX");
	if (!mkdtemp(dir))
		die(dir);
	snprintf(sys, sizeof(sys), "%s/sys", dir);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		make_dir(dirs[i]);
	put("sys/class/power_supply/AC/type", "Mains\n");
	put("sys/class/power_supply/AC/online", "0\n");
	put_battery("BAT0");
	put_battery("BAT1");
	put_zones();
	put("devfreq/npu/min_freq", "100000000\n");
	put("devfreq/npu/max_freq", "400000000\n");
}

static void start(void)
{
	struct rvl_text err;

	rvl_config_default(&m.cfg);
	m.cfg.profiles = 0;
	snprintf(m.cfg.state_dir.s, sizeof(m.cfg.state_dir.s), "%s", dir);
	rvl_list_init(&m.sessions);
	if (sd_event_new(&m.event) < 0)
		die("event loop");
	m.device.present = true;
	m.device.m = &m;
	snprintf(m.device.syspath, sizeof(m.device.syspath), "%s/accel/accel0", dir);
	m.device.board.levels = 4;
	for (uint32_t l = 0; l < 4; l++)
		m.device.board.level[l].hz = 100000000ull * (l + 1);
	m.power.sys = sys;
	rvl_log_init(LOG_ERR);
	if (rvl_power_start(&m, &err)) {
		fprintf(stderr, "%s\n", err.s);
		exit(EXIT_FAILURE);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int main(void)
{
	static uint64_t ns[TICKS];
	struct rvl_text err;
	char cmd[100];

	make_machine();
	start();
	for (int i = 0; i < TICKS; i++) {
		uint64_t t = rvl_now();

		/* Setting the mode also runs a tick. */
		if (rvl_power_set_mode(&m.power, RIVULET_POLICY_FIXED, (uint32_t)i % 4, &err) ||
		    m.power.applied != (uint32_t)i % 4) {
			fprintf(stderr, "tick %d: level %u not reached\n", i, (uint32_t)i % 4);
			return EXIT_FAILURE;
		}
		ns[i] = rvl_now() - t;
	}
	qsort(ns, TICKS, sizeof(ns[0]), by_value);
	printf("figure sc.policy.tick %.4f ms\n", (double)ns[TICKS / 2] / 1e6);
	printf("figure sc.policy.tick.p99 %.4f ms\n", (double)ns[TICKS * 99 / 100] / 1e6);
	rvl_power_stop(&m.power);
	sd_event_unref(m.event);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd) ? EXIT_FAILURE : EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
/*
 * The daemon follows power-profiles-daemon. The test simulates the system bus at the other end of a
 * socket. The bus has either of the service's two names, none, or invalid properties. Both ends use
 * one event loop, so there are no races.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config.h"
#include "files.h"
#include "log.h"
#include "manager.h"
#include "power.h"
#include "suite.h"
#include "util.h"

#define NEW	"org.freedesktop.UPower.PowerProfiles"
#define OLD	"net.hadess.PowerProfiles"
#define NEW_PATH "/org/freedesktop/UPower/PowerProfiles"
#define OLD_PATH "/net/hadess/PowerProfiles"
#define WAIT_NS	(60 * NSEC_PER_SEC)	/* timeout of an answer on a busy machine */

static struct rvl_manager m;
static char dir[64], path[96];

/* ---- the bus ---- */

static struct bus {
	int listen;
	sd_event_source *source;
	sd_bus *peer;
	const char *newer, *older;	/* profiles of the two names; NULL: the name has no owner */
	bool wrong_type;			/* the property has the type of a number */
	uint32_t matches, gets, starts;	/* calls; @starts counts those that would start a service */
} bus;

static int on_get(sd_bus_message *call)
{
	const char *name, *key, *profile;

	bus.gets++;
	ck_assert_int_ge(sd_bus_message_read(call, "ss", &name, &key), 0);
	ck_assert_str_eq(key, "ActiveProfile");
	ck_assert(!strcmp(name, NEW) || !strcmp(name, OLD));
	ck_assert_str_eq(sd_bus_message_get_path(call), strcmp(name, NEW) ? OLD_PATH : NEW_PATH);
	ck_assert_str_eq(sd_bus_message_get_destination(call), name);
	profile = strcmp(name, NEW) ? bus.older : bus.newer;
	if (!profile)
		return sd_bus_reply_method_errorf(call, SD_BUS_ERROR_SERVICE_UNKNOWN,
						  "nobody has it");
	if (bus.wrong_type)
		return sd_bus_reply_method_return(call, "v", "u", 7);
	return sd_bus_reply_method_return(call, "v", "s", profile);
}

static int on_call(sd_bus_message *call, void *data, sd_bus_error *error)
{
	const char *member = sd_bus_message_get_member(call);

	(void)data;
	(void)error;
	if (!sd_bus_message_is_method_call(call, NULL, NULL))
		return 0;
	if (!strcmp(member, "Hello"))
		return sd_bus_reply_method_return(call, "s", ":1.7");
	if (!strcmp(member, "AddMatch")) {
		bus.matches++;
		return sd_bus_reply_method_return(call, "");
	}
	ck_assert_msg(!strcmp(member, "Get"), "called %s", member);
	bus.starts += sd_bus_message_get_auto_start(call) != 0;
	return on_get(call);
}

static int on_connect(sd_event_source *source, int fd, uint32_t events, void *data)
{
	int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	sd_id128_t id;

	(void)source;
	(void)events;
	(void)data;
	ck_assert_int_ge(sock, 0);
	ck_assert_ptr_null(bus.peer);
	sd_id128_randomize(&id);
	ck_assert(sd_bus_new(&bus.peer) >= 0 && sd_bus_set_fd(bus.peer, sock, sock) >= 0 &&
		  sd_bus_set_server(bus.peer, true, id) >= 0 &&
		  sd_bus_add_filter(bus.peer, NULL, on_call, NULL) >= 0 &&
			  sd_bus_start(bus.peer) >= 0 &&
		  sd_bus_attach_event(bus.peer, m.event, 0) >= 0);
	return 0;
}

static void bus_open(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char address[128];

	snprintf(path, sizeof(path), "%s/bus", dir);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	snprintf(address, sizeof(address), "unix:path=%s", path);
	setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1);
	bus.listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ck_assert(bus.listen >= 0 && !bind(bus.listen, (struct sockaddr *)&a, sizeof(a)) &&
		  !listen(bus.listen, 4));
	ck_assert_int_ge(sd_event_add_io(m.event, &bus.source, bus.listen, EPOLLIN, on_connect,
					 NULL), 0);
}

static void bus_close(void)
{
	if (bus.peer)
		sd_bus_detach_event(bus.peer);
	sd_bus_close_unref(bus.peer);
	sd_event_source_disable_unref(bus.source);
	if (bus.listen > 0)
		close(bus.listen);
	memset(&bus, 0, sizeof(bus));
}

static void profile_changes(const char *at)
{
	ck_assert_int_ge(sd_bus_emit_signal(bus.peer, at, "org.freedesktop.DBus.Properties",
					    "PropertiesChanged", "sa{sv}as",
					    strcmp(at, NEW_PATH) ? OLD : NEW, 0, 0), 0);
}

static void owner_changes(const char *name, const char *old, const char *now)
{
	ck_assert_int_ge(sd_bus_emit_signal(bus.peer, "/org/freedesktop/DBus",
					    "org.freedesktop.DBus",
					    "NameOwnerChanged", "sss", name, old, now), 0);
}

/* ---- the daemon's side ---- */

static void start(void)
{
	make_scratch(dir);
	rvl_log_init(LOG_EMERG);
	memset(&m, 0, sizeof(m));
	rvl_config_default(&m.cfg);
	rvl_list_init(&m.sessions);
	m.device.m = &m;
	m.power.sys = dir;
	ck_assert_int_ge(sd_event_new(&m.event), 0);
}

static void power_start(const char *newer, const char *older)
{
	struct rvl_text err;

	bus_open();
	bus.newer = newer;
	bus.older = older;
	ck_assert_msg(!rvl_power_start(&m, &err), "%s", err.s);
	ck_assert_ptr_nonnull(m.power.profiles);
}

static void end(void)
{
	rvl_power_stop(&m.power);
	bus_close();
	sd_event_unref(m.event);
	remove_scratch(dir);
}

/* Runs the loop until the policy has this mode from this source. */
static void expect_mode(uint32_t mode, uint32_t source)
{
	uint64_t end_ns = rvl_now() + WAIT_NS;
	uint32_t fixed, by;

	while (rvl_power_mode(&m.power, &fixed, &by) != mode || by != source) {
		ck_assert_msg(rvl_now() < end_ns, "mode %u by %u, not %u by %u",
			      rvl_power_mode(&m.power, &fixed, &by), by, mode, source);
		ck_assert_int_ge(sd_event_run(m.event, 100000), 0);
	}
}

/* Runs the loop until @n properties were read and nothing is left to do. */
static void expect_gets(uint32_t n)
{
	uint64_t end_ns = rvl_now() + WAIT_NS;
	int r = 1;

	while (bus.gets < n || r > 0) {
		ck_assert_msg(rvl_now() < end_ns, "%u questions, not %u", bus.gets, n);
		r = sd_event_run(m.event, bus.gets < n ? 100000 : 0);
		ck_assert_int_ge(r, 0);
	}
	ck_assert_uint_eq(bus.gets, n);
}

/* ---- tests ---- */

/*
 * Proves that the profile at the start, and each change, sets the mode, and that no service is
 * started.
 */
START_TEST(follows)
{
	power_start("power-saver", NULL);
	expect_mode(RIVULET_POLICY_POWERSAVE, RIVULET_SOURCE_PROFILES);
	expect_gets(2);
	ck_assert_uint_eq(bus.matches, 4);
	bus.newer = "performance";
	profile_changes(NEW_PATH);
	expect_mode(RIVULET_POLICY_PERFORMANCE, RIVULET_SOURCE_PROFILES);
	bus.newer = "balanced";
	profile_changes(NEW_PATH);
	expect_mode(RIVULET_POLICY_AUTO, RIVULET_SOURCE_PROFILES);
	expect_gets(4);
	ck_assert_uint_eq(bus.starts, 0);
}
END_TEST

/* Proves the same with the name that the service had until version 0.20. */
START_TEST(old_name)
{
	power_start(NULL, "performance");
	expect_mode(RIVULET_POLICY_PERFORMANCE, RIVULET_SOURCE_PROFILES);
	bus.older = "power-saver";
	profile_changes(OLD_PATH);
	expect_mode(RIVULET_POLICY_POWERSAVE, RIVULET_SOURCE_PROFILES);
}
END_TEST

/* Proves that the service may appear later, disappear and appear again. */
START_TEST(appears_and_disappears)
{
	power_start(NULL, NULL);
	expect_gets(2);
	expect_mode(RIVULET_POLICY_AUTO, RIVULET_SOURCE_CONFIG);
	bus.newer = "performance";
	owner_changes(NEW, "", ":1.9");
	expect_mode(RIVULET_POLICY_PERFORMANCE, RIVULET_SOURCE_PROFILES);
	owner_changes(NEW, ":1.9", "");
	expect_mode(RIVULET_POLICY_AUTO, RIVULET_SOURCE_CONFIG);
	bus.newer = "power-saver";
	owner_changes(NEW, "", ":1.10");
	expect_mode(RIVULET_POLICY_POWERSAVE, RIVULET_SOURCE_PROFILES);
}
END_TEST

/* Proves the precedence: the tool's mode, then a configured mode, then the profile. */
START_TEST(precedence)
{
	struct rvl_text err;

	power_start("performance", NULL);
	expect_mode(RIVULET_POLICY_PERFORMANCE, RIVULET_SOURCE_PROFILES);
	m.cfg.power_mode.mode = RIVULET_POLICY_BALANCED;
	expect_mode(RIVULET_POLICY_BALANCED, RIVULET_SOURCE_CONFIG);
	ck_assert_int_eq(rvl_power_set_mode(&m.power, RIVULET_POLICY_POWERSAVE, 0, &err), 0);
	expect_mode(RIVULET_POLICY_POWERSAVE, RIVULET_SOURCE_TOOL);
	ck_assert_int_eq(rvl_power_set_mode(&m.power, RIVULET_POLICY_KEEP, 0, &err), 0);
	m.cfg.power_mode.mode = RIVULET_POLICY_AUTO;
	expect_mode(RIVULET_POLICY_PERFORMANCE, RIVULET_SOURCE_PROFILES);
}
END_TEST

/*
 * Proves that a property of another type, a signal of another sender, and the end of the bus change
 * nothing.
 */
START_TEST(oddities)
{
	power_start("performance", NULL);
	expect_mode(RIVULET_POLICY_PERFORMANCE, RIVULET_SOURCE_PROFILES);
	expect_gets(2);
	bus.wrong_type = true;
	profile_changes(NEW_PATH);
	expect_gets(3);
	expect_mode(RIVULET_POLICY_PERFORMANCE, RIVULET_SOURCE_PROFILES);
	owner_changes("org.example.Else", "", ":1.3");
	ck_assert_int_ge(sd_bus_emit_signal(bus.peer, NEW_PATH, "org.freedesktop.DBus.Properties",
					    "PropertiesChanged", "sa{sv}as", "org.example.Else", 0,
						    0), 0);
	ck_assert_int_ge(sd_bus_emit_signal(bus.peer, NEW_PATH, "org.freedesktop.DBus.Properties",
					    "PropertiesChanged", "u", 5), 0);
	ck_assert_int_ge(sd_bus_flush(bus.peer), 0);
	sd_bus_detach_event(bus.peer);
	bus.peer = sd_bus_close_unref(bus.peer);
	expect_gets(3);
	ck_assert_int_eq(sd_event_get_state(m.event), SD_EVENT_INITIAL);
	expect_mode(RIVULET_POLICY_PERFORMANCE, RIVULET_SOURCE_PROFILES);
}
END_TEST

/* Proves that a machine without a system bus has a policy. */
START_TEST(no_bus)
{
	struct rvl_text err;

	setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
	ck_assert_msg(!rvl_power_start(&m, &err), "%s", err.s);
	ck_assert_ptr_null(m.power.profiles);
	expect_mode(RIVULET_POLICY_AUTO, RIVULET_SOURCE_CONFIG);
}
END_TEST

/* Proves that PowerProfiles=no does not connect to the bus. */
START_TEST(disabled)
{
	struct rvl_text err;

	bus_open();
	m.cfg.profiles = 0;
	ck_assert_msg(!rvl_power_start(&m, &err), "%s", err.s);
	while (sd_event_run(m.event, 0) > 0)
		;
	ck_assert_ptr_null(bus.peer);
	ck_assert_ptr_null(m.power.profiles);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("profiles");
	TCase *t = tcase_create("bus");

	tcase_add_checked_fixture(t, start, end);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, follows);
	tcase_add_test(t, old_name);
	tcase_add_test(t, appears_and_disappears);
	tcase_add_test(t, precedence);
	tcase_add_test(t, oddities);
	tcase_add_test(t, no_bus);
	tcase_add_test(t, disabled);
	suite_add_tcase(s, t);
	return run_suite(s);
}

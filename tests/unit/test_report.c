// SPDX-License-Identifier: MIT
/*
 * STATUS and the metrics of a manager whose numbers are all known: each key has the value of its
 * name, in its unit. Within schema 1 no key changes its meaning.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "../../runtime/internal.h"
#include "accel.h"
#include "cache.h"
#include "config.h"
#include "connection.h"
#include "files.h"
#include "instance.h"
#include "log.h"
#include "manager.h"
#include "metrics.h"
#include "policy.h"
#include "power.h"
#include "rivulet_board.h"
#include "rivulet_crc32c.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"
#include "rivulet_runtime.h"
#include "status.h"
#include "suite.h"
#include "user.h"
#include "util.h"

#define NOW 5000000000ull

static struct rvl_manager m;
static struct rvl_user root, user;
static struct rvl_session sessions[3];
static struct rvl_program programs[2];
static struct rvl_model model;
static struct rivulet_program file;
static struct rivulet_runtime runtimes[2];
static struct rvl_engine engines[2];
static struct rvl_instance instances[2];
static char dir[SCRATCH_MAX];

static uint64_t test_clock(void)
{
	return NOW;
}

static void fill_device(void)
{
	struct rvl_device *d = &m.device;

	d->m = &m;
	d->present = true;
	d->epoch = 4;
	strcpy(d->node, "/dev/accel/accel0");
	d->board = (struct rivulet_board){ .name = "a\"board",
					   .tm = 16,
					   .tn = 17,
					   .dn = 18,
					   .levels = 2,
					   .level = { { .hz = 100000000, .microvolt = 700000 },
						      { .hz = 200000000, .microvolt = 850000 } } };
	for (uint64_t l = 0; l < 2; l++)
		d->past[l] = (struct rivulet_level_total){ .jobs = 10 + l,
							   .cycles = 20 + l,
							   .device_ns = 3000000000 + l,
							   .energy_pj = 40 + l,
							   .macs = 50 + l,
							   .conv_busy = 60 + l,
							   .read_bytes = 70 + l,
							   .write_bytes = 80 + l };
	for (int i = 0; i < 2; i++) {
		for (uint64_t l = 0; l < 2; l++)
			runtimes[i].total[l] = (struct rivulet_level_total){ .jobs = 100,
									     .cycles = 200,
									     .device_ns = 300,
									     .energy_pj = 400,
									     .macs = 500,
									     .conv_busy = 600,
									     .read_bytes = 700,
									     .write_bytes = 800 };
		engines[i].rt = &runtimes[i];
	}
}

static void fill_power(void)
{
	struct rvl_power *pw = &m.power;

	pw->m = &m;
	pw->ready = true;
	pw->tool_mode = RIVULET_POLICY_FIXED;
	pw->tool_fixed = 1;
	pw->profile = RIVULET_POLICY_KEEP;
	pw->policy = (struct rvl_policy){ .started = true,
					  .level = 1,
					  .since = NOW - 7,
					  .reason = RIVULET_REASON_BATTERY,
					  .residency = { 1000000000, 2000000000 },
					  .entries = { 3, 4 } };
	pw->gauge = (struct rvl_gauge){
		.known = true, .battery = true, .charge = 654321, .drain = 77, .rejected = 5
	};
	pw->zones.temp = 45678;
	pw->readings = 6;
	pw->uevents = 7;
	pw->steered = true;
}

static void fill_session(int i, struct rvl_user *u, const char *name)
{
	struct rvl_session *s = &sessions[i];

	*s = (struct rvl_session){ .m = &m, .user = u, .fd = 5, .pid = 100 + i, .version = 1 };
	strcpy(s->name, name);
	rvl_list_init(&s->models);
	rvl_list_init(&s->instances);
	rvl_list_add_tail(&m.sessions, &s->link);
}

static void fill_program(int i, const char *name)
{
	struct rvl_program *p = &programs[i];

	*p = (struct rvl_program){ .refs = 2,
				   .size = 4096,
				   .npu_steps = 3,
				   .cpu_steps = 4,
				   .macs = 5,
				   .cycles = 6,
				   .compile_ns = 7,
				   .file = &file,
				   .totals = { .runs = 11,
					       .failed = 12,
					       .cancelled = 13,
					       .late = 14,
					       .refused = 15,
					       .queue_ns = 1600000000,
					       .run_ns = 1700000000,
					       .npu_ns = 1800000000,
					       .cpu_ns = 1900000000,
					       .cycles = 20,
					       .energy_pj = 2100000000000,
					       .macs = 22 } };
	for (uint64_t l = 0; l < 2; l++)
		p->at[l] = (struct rvl_level_stat){ .runs = 30 + l,
						    .late = 32 + l,
						    .run_ns = 34 + l,
						    .npu_ns = 3600000000 + l,
						    .energy_pj = 3800000000000 + l,
						    .measured_ns = 400000000 + l };
	memset(p->key.sha256, 0xa0 + i, sizeof(p->key.sha256));
	strcpy(p->name, name);
	rvl_list_add_tail(&m.cache.programs, &p->link);
}

static void fill_parts(void)
{
	m.started = NOW - 123;
	m.sched.queued = 41;
	m.sched.n_running = 42;
	m.sched.totals = (struct rvl_totals){ .runs = 1,
					      .failed = 2,
					      .cancelled = 3,
					      .late = 4,
					      .refused = 5,
					      .queue_ns = 6,
					      .run_ns = 7,
					      .npu_ns = 8,
					      .cpu_ns = 9,
					      .cycles = 10,
					      .energy_pj = 11,
					      .macs = 12 };
	m.cache.idle_programs = 51;
	m.cache.idle_bytes = 52;
	m.cache.hits = 53;
	m.cache.misses = 54;
	m.cache.evictions = 55;
	m.compiler.working = 61;
	m.compiler.compiled = 62;
	m.compiler.refused = 63;
	m.compiler.died = 64;
	m.n_sessions = 71;
	m.refused_sessions = 72;
	m.protocol_errors = 73;
	m.listen.pauses = 74;
	m.loop.stall_ns = 1500000000;
	m.loop.busy_ns = 2500000000;
	m.loop.turns = 83;
}

static void setup(void)
{
	rvl_clock = test_clock;
	memset(&m, 0, sizeof(m));
	rvl_config_default(&m.cfg);
	rvl_list_init(&m.sessions);
	rvl_list_init(&m.users);
	rvl_cache_init(&m.cache, 0, 0);
	fill_device();
	fill_power();
	root = (struct rvl_user){ .uid = 0, .refs = 1, .sessions = 2 };
	user = (struct rvl_user){ .uid = 1000,
				  .refs = 3,
				  .sessions = 4,
				  .models = 5,
				  .instances = 6,
				  .runs = 7,
				  .compiles = 8,
				  .bytes = 9 };
	rvl_list_add_tail(&m.users, &root.link);
	rvl_list_add_tail(&m.users, &user.link);
	fill_session(0, &root, "the \\ first");
	fill_session(1, &user, "second");
	fill_session(2, &user, "closed");
	sessions[2].fd = -1;
	sessions[0].engine = &engines[0];
	sessions[1].engine = &engines[1];
	file.level[1] = (struct rivulet_level_info){ .length = 128, .accuracy = 912345 };
	fill_program(0, "lenet");
	fill_program(1, "a\"b\\c\nd");
	model.program = &programs[0];
	rvl_list_add_tail(&sessions[1].models, &model.link);
	rvl_list_add_tail(&sessions[1].instances, &instances[0].link);
	rvl_list_add_tail(&sessions[1].instances, &instances[1].link);
	fill_parts();
}

/* ---- STATUS ---- */

static struct json_object *status(uid_t uid)
{
	static char text[1 << 16];
	struct json_tokener *t = json_tokener_new();
	struct json_object *o;
	uint64_t size = 0;
	int fd = -1;

	ck_assert_int_eq(rvl_status_fd(&m, uid, &fd, &size), 0);
	ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 0);
	ck_assert_int_eq(fcntl(fd, F_GET_SEALS),
			 F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert_uint_lt(size, sizeof(text));
	ck_assert_uint_eq(read(fd, text, sizeof(text)), size);
	close(fd);
	ck_assert_int_eq(text[size - 1], '\n');
	json_tokener_set_flags(t, JSON_TOKENER_STRICT);
	o = json_tokener_parse_ex(t, text, (int)size);
	ck_assert_msg(o != NULL, "%s", text);
	json_tokener_free(t);
	return o;
}

/* The value at a path of keys and indices, such as "device.levels.0.hz". */
static struct json_object *at(struct json_object *o, const char *path)
{
	char copy[128], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *w = strtok_r(copy, ".", &save); w; w = strtok_r(NULL, ".", &save)) {
		o = json_object_is_type(o, json_type_array) ?
			    json_object_array_get_idx(o, strtoul(w, NULL, 10)) :
			    json_object_object_get(o, w);
		ck_assert_msg(o != NULL, "no %s", path);
	}
	return o;
}

static const struct {
	const char *path;
	uint64_t value;
} status_numbers[] = {
	{ "schema", 1 },
	{ "protocol", RIVULET_PROTO_MAX },
	{ "uptime_ns", 123 },
	{ "device.tm", 16 },
	{ "device.tn", 17 },
	{ "device.dn", 18 },
	{ "device.arrivals", 4 },
	{ "device.levels.0.hz", 100000000 },
	{ "device.levels.0.microvolt", 700000 },
	{ "device.levels.1.hz", 200000000 },
	{ "device.levels.1.microvolt", 850000 },
	/* Two engines that are present, and those that were removed. */
	{ "device.levels.0.jobs", 210 },
	{ "device.levels.0.cycles", 420 },
	{ "device.levels.0.device_ns", 3000000600 },
	{ "device.levels.0.energy_pj", 840 },
	{ "device.levels.0.macs", 1050 },
	{ "device.levels.0.conv_busy", 1260 },
	{ "device.levels.0.read_bytes", 1470 },
	{ "device.levels.0.write_bytes", 1680 },
	{ "device.levels.0.residency_ns", 1000000000 },
	{ "device.levels.0.entries", 3 },
	{ "device.levels.1.jobs", 211 },
	{ "device.levels.1.residency_ns", 2000000007 },
	{ "device.levels.1.entries", 4 },
	{ "policy.level", 1 },
	{ "policy.fixed", 1 },
	{ "policy.charge_ppm", 654321 },
	{ "policy.drain_ppm_s", 77 },
	{ "policy.readings", 6 },
	{ "policy.rejected_readings", 5 },
	{ "policy.uevents", 7 },
	{ "policy.temperature_mc", 45678 },
	{ "policy.external", 0 },
	{ "policy.battery", 1 },
	{ "policy.charge_known", 1 },
	{ "policy.reserve", 0 },
	{ "policy.emergency", 0 },
	{ "policy.steered", 1 },
	{ "policy.yielded", 0 },
	{ "sessions.0.pid", 100 },
	{ "sessions.0.uid", 0 },
	{ "sessions.0.version", 1 },
	{ "sessions.0.models", 0 },
	{ "sessions.0.instances", 0 },
	{ "sessions.1.pid", 101 },
	{ "sessions.1.uid", 1000 },
	{ "sessions.1.models", 1 },
	{ "sessions.1.instances", 2 },
	{ "users.1.uid", 1000 },
	{ "users.1.sessions", 4 },
	{ "users.1.models", 5 },
	{ "users.1.instances", 6 },
	{ "users.1.runs", 7 },
	{ "users.1.compiles", 8 },
	{ "users.1.bytes", 9 },
	{ "models.0.loaded", 2 },
	{ "models.0.size", 4096 },
	{ "models.0.npu_steps", 3 },
	{ "models.0.cpu_steps", 4 },
	{ "models.0.model_macs", 5 },
	{ "models.0.estimated_cycles", 6 },
	{ "models.0.compile_ns", 7 },
	{ "models.0.expected_ns", 400000001 },
	{ "models.0.runs", 11 },
	{ "models.0.failed", 12 },
	{ "models.0.cancelled", 13 },
	{ "models.0.late", 14 },
	{ "models.0.refused", 15 },
	{ "models.0.queue_ns", 1600000000 },
	{ "models.0.run_ns", 1700000000 },
	{ "models.0.npu_ns", 1800000000 },
	{ "models.0.cpu_ns", 1900000000 },
	{ "models.0.cycles", 20 },
	{ "models.0.energy_pj", 2100000000000 },
	{ "models.0.macs", 22 },
	{ "models.0.levels.0.level", 0 },
	{ "models.0.levels.0.length", 0 },
	{ "models.0.levels.1.level", 1 },
	{ "models.0.levels.1.length", 128 },
	{ "models.0.levels.1.accuracy_ppm", 912345 },
	{ "models.0.levels.1.runs", 31 },
	{ "models.0.levels.1.late", 33 },
	{ "models.0.levels.1.run_ns", 35 },
	{ "models.0.levels.1.npu_ns", 3600000001 },
	{ "models.0.levels.1.energy_pj", 3800000000001 },
	{ "models.0.levels.1.latency_ns", 400000001 },
	{ "scheduler.queued", 41 },
	{ "scheduler.running", 42 },
	{ "scheduler.runs", 1 },
	{ "scheduler.failed", 2 },
	{ "scheduler.macs", 12 },
	{ "cache.programs", 2 },
	{ "cache.idle_programs", 51 },
	{ "cache.idle_bytes", 52 },
	{ "cache.hits", 53 },
	{ "cache.misses", 54 },
	{ "cache.evictions", 55 },
	{ "compiler.working", 61 },
	{ "compiler.compiled", 62 },
	{ "compiler.refused", 63 },
	{ "compiler.died", 64 },
	{ "connections.open", 71 },
	{ "connections.refused", 72 },
	{ "connections.violations", 73 },
	{ "connections.pauses", 74 },
	{ "loop.stall_max_ns", 1500000000 },
	{ "loop.busy_ns", 2500000000 },
	{ "loop.turns", 83 },
};

static const struct {
	const char *path, *value;
} status_texts[] = {
	{ "version", RIVULET_VERSION },
	{ "device.node", "/dev/accel/accel0" },
	{ "device.board", "a\"board" },
	{ "policy.mode", "fixed" },
	{ "policy.mode_from", "tool" },
	{ "policy.reason", "battery" },
	{ "sessions.0.name", "the \\ first" },
	{ "sessions.1.name", "second" },
	{ "models.0.name", "lenet" },
	{ "models.0.sha256", "a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0" },
	{ "models.1.name", "a\"b\\c?d" },
};

static void expect_length(struct json_object *o, const char *path, size_t want)
{
	ck_assert_msg(json_object_array_length(at(o, path)) == want, "%s has %zu members", path,
		      json_object_array_length(at(o, path)));
}

/* Proves every number and text of STATUS for root, who sees all. */
START_TEST(status_of_all)
{
	struct json_object *o = status(0);

	for (size_t i = 0; i < ARRAY_SIZE(status_numbers); i++)
		ck_assert_msg(json_object_get_uint64(at(o, status_numbers[i].path)) ==
				      status_numbers[i].value,
			      "%s is %s", status_numbers[i].path,
			      json_object_get_string(at(o, status_numbers[i].path)));
	for (size_t i = 0; i < ARRAY_SIZE(status_texts); i++)
		ck_assert_str_eq(json_object_get_string(at(o, status_texts[i].path)),
				 status_texts[i].value);
	ck_assert(json_object_get_boolean(at(o, "device.present")));
	ck_assert(!json_object_get_boolean(at(o, "device.model")));
	/* A closed session does not count. */
	expect_length(o, "sessions", 2);
	expect_length(o, "users", 2);
	expect_length(o, "models", 2);
	expect_length(o, "device.levels", 2);
	json_object_put(o);
}
END_TEST

/*
 * Proves that a user sees their own sessions and models and the totals, but nothing else of other
 * users.
 */
START_TEST(status_of_a_user)
{
	struct json_object *o = status(1000);

	expect_length(o, "sessions", 1);
	ck_assert_uint_eq(json_object_get_uint64(at(o, "sessions.0.uid")), 1000);
	expect_length(o, "users", 1);
	ck_assert_uint_eq(json_object_get_uint64(at(o, "users.0.uid")), 1000);
	expect_length(o, "models", 1);
	ck_assert_str_eq(json_object_get_string(at(o, "models.0.name")), "lenet");
	ck_assert_uint_eq(json_object_get_uint64(at(o, "scheduler.queued")), 41);
	ck_assert_uint_eq(json_object_get_uint64(at(o, "cache.programs")), 2);
	json_object_put(o);
	o = status(1001);
	expect_length(o, "sessions", 0);
	expect_length(o, "users", 0);
	expect_length(o, "models", 0);
	json_object_put(o);
	/* A user record that is kept only for its debt is not shown. */
	user.refs = 0;
	o = status(0);
	expect_length(o, "users", 1);
	json_object_put(o);
}
END_TEST

/* Proves what is left out without a device and without a thermal zone. */
START_TEST(status_without_device)
{
	struct json_object *o, *v;

	m.device.present = false;
	m.device.sim = true;
	m.power.ready = false;
	m.power.zones.temp = RVL_NO_VALUE;
	o = status(0);
	ck_assert(!json_object_get_boolean(at(o, "device.present")));
	ck_assert(json_object_get_boolean(at(o, "device.model")));
	ck_assert_str_eq(json_object_get_string(at(o, "device.board")), "");
	ck_assert(!json_object_object_get_ex(at(o, "device"), "levels", &v));
	ck_assert(!json_object_object_get_ex(at(o, "policy"), "temperature_mc", &v));
	ck_assert_str_eq(json_object_get_string(at(o, "policy.reason")), "no device");
	expect_length(o, "models.0.levels", 0);
	ck_assert_uint_eq(json_object_get_uint64(at(o, "models.0.expected_ns")), 0);
	json_object_put(o);
}
END_TEST

/* Proves that the engine that all sessions share is counted once. */
START_TEST(shared_engine)
{
	m.device.shared = &engines[0];
	ck_assert_uint_eq(rvl_level_total(&m, 0).jobs, 110);
	ck_assert_uint_eq(rvl_level_total(&m, 1).energy_pj, 441);
}
END_TEST

/* Proves where the mode comes from: the tool, then the configuration, then power-profiles-daemon.
 */
START_TEST(mode_from)
{
	struct json_object *o;

	m.cfg.power_mode = (struct rvl_mode){ .mode = RIVULET_POLICY_FIXED, .fixed = 6 };
	m.power.tool_mode = RIVULET_POLICY_KEEP;
	m.power.profile = RIVULET_POLICY_POWERSAVE;
	o = status(0);
	ck_assert_str_eq(json_object_get_string(at(o, "policy.mode")), "fixed");
	ck_assert_str_eq(json_object_get_string(at(o, "policy.mode_from")), "configuration");
	ck_assert_uint_eq(json_object_get_uint64(at(o, "policy.fixed")), 6);
	json_object_put(o);
	m.cfg.power_mode.mode = RIVULET_POLICY_AUTO;
	o = status(0);
	ck_assert_str_eq(json_object_get_string(at(o, "policy.mode")), "powersave");
	ck_assert_str_eq(json_object_get_string(at(o, "policy.mode_from")),
			 "power-profiles-daemon");
	json_object_put(o);
	m.power.profile = RIVULET_POLICY_KEEP;
	o = status(0);
	ck_assert_str_eq(json_object_get_string(at(o, "policy.mode")), "auto");
	ck_assert_str_eq(json_object_get_string(at(o, "policy.mode_from")), "configuration");
	json_object_put(o);
}
END_TEST

/* ---- metrics ---- */

static struct rvl_metrics *metrics;
static char text[1 << 17], path[100];

static void setup_metrics(void)
{
	setup();
	make_scratch(dir);
	snprintf(path, sizeof(path), "%s/metrics.sock", dir);
	snprintf(m.cfg.metrics.s, sizeof(m.cfg.metrics.s), "%s", path);
	rvl_log_init(LOG_EMERG);
	ck_assert_int_ge(sd_event_new(&m.event), 0);
	metrics = rvl_metrics_start(&m);
	ck_assert_ptr_nonnull(metrics);
}

static void teardown_metrics(void)
{
	metrics = rvl_metrics_stop(metrics);
	ck_assert_ptr_null(metrics);
	ck_assert_int_eq(access(path, F_OK), -1);
	sd_event_unref(m.event);
	remove_scratch(dir);
}

static int connected(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* Lets the loop handle all pending events. */
static void turn(void)
{
	while (sd_event_run(m.event, 0) > 0)
		;
}

/* Reads all that the daemon answers, until it closes. Returns whether it has closed. */
static bool answer(int fd)
{
	size_t n = 0;
	ssize_t got = -1;

	for (int i = 0; i < 1000 && got; i++) {
		turn();
		got = recv(fd, text + n, sizeof(text) - 1 - n, 0);
		n += got > 0 ? (size_t)got : 0;
		if (got < 0 && errno == EAGAIN && i > 10)
			break;
	}
	text[n] = 0;
	return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void scrape(void)
{
	int fd = connected();

	shutdown(fd, SHUT_WR);
	ck_assert(answer(fd));
	close(fd);
	/* Without a request there is no header. */
	ck_assert(!strncmp(text, "# TYPE rivulet_build info\n", 26));
}

static void expect_line(const char *line)
{
	char whole[300];

	snprintf(whole, sizeof(whole), "\n%s\n", line);
	ck_assert_msg(strstr(text, whole) != NULL, "no line %s in:\n%.3000s", line, text);
}

static const char *const metric_lines[] = {
	"rivulet_build_info{version=\"" RIVULET_VERSION "\"} 1",
	"rivulet_loop_stall_seconds 1.500000000",
	"rivulet_loop_busy_seconds_total 2.500000000",
	"rivulet_policy_mode{rivulet_policy_mode=\"auto\"} 0",
	"rivulet_policy_mode{rivulet_policy_mode=\"fixed\"} 1",
	"rivulet_power_readings_total 6",
	"rivulet_power_uevents_total 7",
	"rivulet_battery_charge_ratio 0.654321",
	"rivulet_power_external 0",
	"rivulet_policy_reserve 0",
	"rivulet_temperature_celsius 45.678",
	"rivulet_device_present 1",
	"rivulet_level_hertz{level=\"0\"} 100000000",
	"rivulet_level_hertz{level=\"1\"} 200000000",
	"rivulet_level_current{level=\"0\"} 0",
	"rivulet_level_current{level=\"1\"} 1",
	"rivulet_level_residency_seconds_total{level=\"0\"} 1.000000000",
	"rivulet_level_residency_seconds_total{level=\"1\"} 2.000000007",
	"rivulet_level_entries_total{level=\"1\"} 4",
	"rivulet_level_jobs_total{level=\"0\"} 210",
	"rivulet_level_busy_seconds_total{level=\"0\"} 3.000000600",
	"rivulet_level_energy_joules_total{level=\"0\"} 0.000000000840",
	"# TYPE rivulet_level_hertz gauge",
	"# UNIT rivulet_level_hertz hertz",
	"# HELP rivulet_level_hertz Clock.",
	"# TYPE rivulet_level_jobs counter",
};

static const char *const model_lines[] = {
	"runs_total{} 11",
	"runs_failed_total{} 12",
	"runs_cancelled_total{} 13",
	"deadline_misses_total{} 14",
	"runs_refused_total{} 15",
	"queue_seconds_total{} 1.600000000",
	"run_seconds_total{} 1.700000000",
	"npu_seconds_total{} 1.800000000",
	"cpu_seconds_total{} 1.900000000",
	"energy_joules_total{} 2.100000000000",
	"level_length_bits{,level=\"0\"} 0",
	"level_length_bits{,level=\"1\"} 128",
	"level_accuracy_ratio{,level=\"1\"} 0.912345",
	"level_runs_total{,level=\"1\"} 31",
	"level_deadline_misses_total{,level=\"1\"} 33",
	"level_npu_seconds_total{,level=\"1\"} 3.600000001",
	"level_energy_joules_total{,level=\"1\"} 3.800000000001",
	"level_latency_seconds{,level=\"1\"} 0.400000001",
};

/* Proves every number of the metrics, in seconds, joules, hertz and ratios. */
START_TEST(metric_values)
{
	char line[300], labels[200];
	const char *brace;

	scrape();
	for (size_t i = 0; i < ARRAY_SIZE(metric_lines); i++)
		expect_line(metric_lines[i]);
	/* Root sees the models of all users. The test metrics_of_a_user covers other users. */
	for (int p = 0; p < 2 && !geteuid(); p++) {
		snprintf(labels, sizeof(labels), "model=\"%s\",program=\"%08x\"",
			 p ? "a\\\"b\\\\c\\nd" : "lenet",
			 rivulet_crc32c(0, &programs[p].key, sizeof(programs[p].key)));
		for (size_t i = 0; i < ARRAY_SIZE(model_lines); i++) {
			brace = strchr(model_lines[i], '{') + 1;
			snprintf(line, sizeof(line), "rivulet_model_%.*s%s%s",
				 (int)(brace - model_lines[i]), model_lines[i], labels, brace);
			expect_line(line);
		}
	}
	ck_assert_str_eq(text + strlen(text) - 7, "\n# EOF\n");
}
END_TEST

/* Proves what is left out when it is not known, and that heat counts as reserve. */
START_TEST(metrics_unknown)
{
	m.device.present = false;
	m.power.gauge.known = false;
	m.power.gauge.external = true;
	m.power.policy.emergency = true;
	m.power.zones.temp = RVL_NO_VALUE;
	scrape();
	expect_line("rivulet_device_present 0");
	expect_line("rivulet_power_external 1");
	expect_line("rivulet_policy_reserve 1");
	ck_assert_ptr_null(strstr(text, "battery_charge_ratio"));
	ck_assert_ptr_null(strstr(text, "temperature"));
	ck_assert_ptr_null(strstr(text, "rivulet_level_"));
	ck_assert_ptr_null(strstr(text, "level=\""));
	m.power.policy.emergency = false;
	m.power.policy.reserve = true;
	scrape();
	expect_line("rivulet_policy_reserve 1");
}
END_TEST

/* Proves that a user other than root sees only the models that they have loaded. */
START_TEST(metrics_of_a_user)
{
	user.uid = geteuid();
	programs[0].visible = programs[1].visible = false;
	if (geteuid())
		rvl_list_del(&sessions[0].link);
	scrape();
	ck_assert_ptr_nonnull(strstr(text, "rivulet_model_runs_total{model=\"lenet\","));
	ck_assert(!geteuid() == !!strstr(text, "model=\"a\\\"b"));
}
END_TEST

/* Proves that a request may come in pieces, and ends with an empty line of either kind. */
START_TEST(requests)
{
	static const char *const piece[] = { "GET /metrics HTTP/1.1\r\n", "Host: x\r\n", "\r\n" };
	static const char *const whole[] = { "GET / HTTP/1.0\n\n", "GET / HTTP/1.0\r\n\r\n" };
	static const char *const other[] = { "POST / HTTP/1.1\r\n\r\n", "GETS / HTTP/1.1\r\n\r\n" };
	int fd = connected();

	for (int i = 0; i < 3; i++) {
		ck_assert(!answer(fd));
		ck_assert_str_eq(text, "");
		ck_assert_int_eq(send(fd, piece[i], strlen(piece[i]), 0), strlen(piece[i]));
	}
	ck_assert(answer(fd));
	ck_assert(!strncmp(text,
			   "HTTP/1.0 200 OK\r\nContent-Type: application/openmetrics-text; "
			   "version=1.0.0; charset=utf-8\r\nContent-Length: ",
			   96));
	ck_assert_uint_eq(strtoul(strstr(text, "Length: ") + 8, NULL, 10),
			  strlen(strstr(text, "\r\n\r\n") + 4));
	ck_assert_ptr_nonnull(
		strstr(text, "\r\nConnection: close\r\n\r\n# TYPE rivulet_build info\n"));
	close(fd);
	for (int i = 0; i < 2; i++) {
		fd = connected();
		ck_assert_int_gt(send(fd, whole[i], strlen(whole[i]), 0), 0);
		ck_assert(answer(fd));
		ck_assert(!strncmp(text, "HTTP/1.0 200 OK\r\n", 17));
		close(fd);
		fd = connected();
		ck_assert_int_gt(send(fd, other[i], strlen(other[i]), 0), 0);
		ck_assert(answer(fd));
		ck_assert_str_eq(text,
				 "HTTP/1.0 405 Method Not Allowed\r\nContent-Type: text/plain\r\n"
				 "Content-Length: 24\r\nConnection: close\r\n\r\n"
				 "only GET is served here\n");
		close(fd);
	}
}
END_TEST

/* Proves that 4,095 bytes are the longest request. */
START_TEST(long_requests)
{
	char request[4097];
	int fd = connected();

	memset(request, 'x', sizeof(request));
	memcpy(request, "GET /", 5);
	memcpy(request + 4091, "\r\n\r\n", 4);
	ck_assert_int_eq(send(fd, request, 4095, 0), 4095);
	ck_assert(answer(fd));
	ck_assert(!strncmp(text, "HTTP/1.0 200 OK\r\n", 17));
	close(fd);
	memset(request + 4000, 'x', 97);
	fd = connected();
	ck_assert_int_eq(send(fd, request, 4094, 0), 4094);
	ck_assert(!answer(fd));
	ck_assert_int_eq(send(fd, "x", 1, 0), 1);
	ck_assert(answer(fd));
	ck_assert_str_eq(text, "");
	close(fd);
}
END_TEST

static uid_t peer_uid;

static int named_peer(int fd, struct ucred *peer)
{
	(void)fd;
	*peer = (struct ucred){ .uid = peer_uid };
	return 0;
}

/* Proves that a user who connects again and again ends no connection of another user. */
START_TEST(peers_of_two_users)
{
	int other, fd[40];

	rvl_session_peer = named_peer;
	peer_uid = 1001;
	other = connected();
	turn();
	peer_uid = 1002;
	for (int i = 0; i < 40; i++) {
		fd[i] = connected();
		turn();
	}
	ck_assert(!answer(other));
	ck_assert(answer(fd[0]));
	shutdown(other, SHUT_WR);
	ck_assert(answer(other));
	expect_line("rivulet_device_present 1");
	close(other);
	for (int i = 0; i < 40; i++)
		close(fd[i]);
	turn();
}
END_TEST

/* Proves that the peer that was connected longest makes room for the seventeenth. */
START_TEST(many_peers)
{
	int fd[17];

	for (int i = 0; i < 16; i++)
		fd[i] = connected();
	turn();
	for (int i = 0; i < 16; i++)
		ck_assert(!answer(fd[i]));
	fd[16] = connected();
	ck_assert(answer(fd[0]));
	for (int i = 1; i < 17; i++)
		ck_assert(!answer(fd[i]));
	/* The other peers are still served. */
	shutdown(fd[1], SHUT_WR);
	ck_assert(answer(fd[1]));
	expect_line("rivulet_device_present 1");
	for (int i = 0; i < 17; i++)
		close(fd[i]);
	turn();
	scrape();
	expect_line("rivulet_device_present 1");
}
END_TEST

/* Proves where the socket is created, and that a file of another type is not replaced. */
START_TEST(where)
{
	struct stat st;

	ck_assert(!stat(path, &st) && S_ISSOCK(st.st_mode));
	ck_assert_uint_eq(st.st_mode & 07777, 0666);
	metrics = rvl_metrics_stop(metrics);
	strcpy(m.cfg.metrics.s, "off");
	setenv("RUNTIME_DIRECTORY", dir, 1);
	ck_assert_ptr_null(rvl_metrics_start(&m));
	/* The socket of a daemon that was killed is replaced. */
	strcpy(m.cfg.metrics.s, "auto");
	metrics = rvl_metrics_start(&m);
	ck_assert_ptr_nonnull(metrics);
	scrape();
	expect_line("rivulet_device_present 1");
	metrics = rvl_metrics_stop(metrics);
	setenv("RUNTIME_DIRECTORY", "relative", 1);
	ck_assert_ptr_null(rvl_metrics_start(&m));
	unsetenv("RUNTIME_DIRECTORY");
	ck_assert_ptr_null(rvl_metrics_start(&m));
	put_file(dir, "file", "x");
	snprintf(m.cfg.metrics.s, sizeof(m.cfg.metrics.s), "%s/file", dir);
	ck_assert_ptr_null(rvl_metrics_start(&m));
	ck_assert(!stat(m.cfg.metrics.s, &st) && st.st_size == 1);
	snprintf(m.cfg.metrics.s, sizeof(m.cfg.metrics.s), "%s/none/socket", dir);
	ck_assert_ptr_null(rvl_metrics_start(&m));
	/* A name of 107 bytes fits a socket's address. */
	memset(m.cfg.metrics.s, 0, sizeof(m.cfg.metrics.s));
	memset(m.cfg.metrics.s, 's', 108);
	memcpy(m.cfg.metrics.s, dir, strlen(dir));
	m.cfg.metrics.s[strlen(dir)] = '/';
	ck_assert_ptr_null(rvl_metrics_start(&m));
	m.cfg.metrics.s[107] = 0;
	metrics = rvl_metrics_start(&m);
	ck_assert_ptr_nonnull(metrics);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("report");
	TCase *t = tcase_create("status"), *x = tcase_create("metrics");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, status_of_all);
	tcase_add_test(t, status_of_a_user);
	tcase_add_test(t, status_without_device);
	tcase_add_test(t, shared_engine);
	tcase_add_test(t, mode_from);
	suite_add_tcase(s, t);
	tcase_add_checked_fixture(x, setup_metrics, teardown_metrics);
	tcase_add_test(x, metric_values);
	tcase_add_test(x, metrics_unknown);
	tcase_add_test(x, metrics_of_a_user);
	tcase_add_test(x, requests);
	tcase_add_test(x, long_requests);
	tcase_add_test(x, peers_of_two_users);
	tcase_add_test(x, many_peers);
	tcase_add_test(x, where);
	suite_add_tcase(s, x);
	return run_suite(s);
}

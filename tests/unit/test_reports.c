// SPDX-License-Identifier: MIT
/*
 * What `rivulet policy`, `rivulet status` and `rivulet info` print about a daemon whose answers the
 * test sets. Every number is different, so that the text shows which one was printed, and in which
 * unit. The daemon is a thread. The reports of `rivulet run`, bench and profile are tested on the
 * linked model, whose cycles, times and energies are the same at every run.
 */
#include <check.h>
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>

#include "../../tool/json.h"
#include "fake_daemon.h"
#include "files.h"
#include "suite.h"
#include "verb.h"
#include "verb_out.h"

#define COMPLAINS(text) ck_assert_msg(strstr(rvl_tool_error, text) != NULL, "%s", rvl_tool_error)

static void start(void)
{
	daemon_start_for(NONE, -1);
	setenv(RIVULET_SOCKET_ENV, dm.path, 1);
}

static void stop(void)
{
	daemon_stop();
	if (dm.extra_fd >= 0)
		close(dm.extra_fd);
}

/* Asserts that a verb prints exactly @text. */
static void prints(const char *words, const char *text)
{
	EXPECT(words, 0);
	ck_assert_str_eq(out, text);
}

/* ---- the policy ---- */

/* Levels 3, 1 and 0 of four are in use; the battery falls by 0.15 % a minute. */
static const struct rivulet_msg_policy_reply discharging = {
	.mode = RIVULET_POLICY_FIXED, .fixed = 1, .source = RIVULET_SOURCE_TOOL,
	.flags = RIVULET_POLICY_BATTERY | RIVULET_POLICY_KNOWN | RIVULET_POLICY_STEERED,
	.level = 1, .levels = 4, .reason = RIVULET_REASON_BATTERY, .allowed = 0xa,
	.charge = 431200, .drain = 25, .temperature = 47250, .hysteresis = 25000, .reserve = 70000,
	.used = 3, .dwell = 12500000000, .changed = 1, .use = { 3, 1, 0 },
	.threshold = { 660000, 333000, 999999 }, .hz = { 100000000, 200000000, 300000000, 400000000 },
	.residency = { 1500000000, 2250000000, 0, 63000000000 }, .entries = { 11, 12, 13, 14 },
};

START_TEST(policy_text)
{
	dm.policy = discharging;
	prints("policy", "mode fixed 1 (rivulet policy set)\n"
	       "  power      battery, charge 43.12 %, falling 0.15 % a minute, 47.2 C\n"
	       "  level      1 by battery\n"
	       "  rises      2.5 % above the threshold, 12.5 s after a change\n"
	       "  reserve    7 %\n"
	       "  level      clock  charge above    time  entered\n"
	       "      3  400.0 MHz       66.00 %  63.0 s       14\n"
	       "      1  200.0 MHz       33.30 %   2.2 s       12  <- now\n"
	       "      0  100.0 MHz        0.00 %   1.5 s       11   no variant\n");
	ck_assert_uint_eq(dm.asked.mode, RIVULET_POLICY_KEEP);
	ck_assert_uint_eq(dm.asked.level, 0);
}
END_TEST

START_TEST(policy_json)
{
	dm.policy = discharging;
	prints("policy --json", "{\"schema\":\"rivulet.policy/1\",\"mode\":\"fixed\",\"fixed\":1,"
	       "\"mode_from\":\"rivulet policy set\",\"device\":true,\"external\":false,\"charge\":0.4312,"
	       "\"drain\":2.5e-05,\"temperature\":47.25,\"level\":1,\"reason\":\"battery\",\"reserve\":false,"
	       "\"emergency\":false,\"steered\":true,\"yielded\":false,\"levels\":["
	       "{\"level\":3,\"hz\":400000000,\"charge_above\":0.66,\"residency\":63,\"entries\":14,"
	       "\"allowed\":true},"
	       "{\"level\":1,\"hz\":200000000,\"charge_above\":0.333,\"residency\":2.25,\"entries\":12,"
	       "\"allowed\":true},"
	       "{\"level\":0,\"hz\":100000000,\"charge_above\":0,\"residency\":1.5,\"entries\":11,"
	       "\"allowed\":false}]}\n");
	check_json("rivulet.policy/1");
}
END_TEST

/*
 * Proves the word for each state of power supply, temperature and level, and that each word can be
 * absent.
 */
START_TEST(policy_flags)
{
	dm.policy = discharging;
	dm.policy.mode = RIVULET_POLICY_AUTO;
	dm.policy.source = RIVULET_SOURCE_PROFILES;
	dm.policy.temperature = INT32_MIN;
	dm.policy.used = 0;
	dm.policy.flags = RIVULET_POLICY_BATTERY | RIVULET_POLICY_RESERVE | RIVULET_POLICY_EMERGENCY;
	prints("policy", "mode auto (power-profiles-daemon)\n"
	       "  power      battery, charge unknown, falling 0.15 % a minute\n"
	       "  level      1 by battery; not set by the daemon, the governor chooses\n"
	       "  rises      2.5 % above the threshold, 12.5 s after a change\n"
	       "  reserve    7 %, reached: few runs are admitted; TOO HOT: few runs are admitted\n"
	       "  level  clock  charge above  time  entered\n");
	dm.policy.source = 7;
	dm.policy.flags = RIVULET_POLICY_EXTERNAL | RIVULET_POLICY_YIELDED;
	prints("policy", "mode auto (?)\n"
	       "  power      from outside\n"
	       "  level      1 by battery; another program set the limits: yielded\n"
	       "  rises      2.5 % above the threshold, 12.5 s after a change\n"
	       "  reserve    7 %\n"
	       "  level  clock  charge above  time  entered\n");
	prints("policy --json", "{\"schema\":\"rivulet.policy/1\",\"mode\":\"auto\",\"mode_from\":\"?\","
	       "\"device\":true,\"external\":true,\"drain\":2.5e-05,\"level\":1,\"reason\":\"battery\","
	       "\"reserve\":false,\"emergency\":false,\"steered\":false,\"yielded\":true,\"levels\":[]}\n");
}
END_TEST

START_TEST(policy_without_a_device)
{
	dm.policy = (struct rivulet_msg_policy_reply) { .mode = RIVULET_POLICY_AUTO, .temperature = INT32_MIN };
	prints("policy", "mode auto (configuration)\n  power      battery\n  no device\n");
	prints("policy --json", "{\"schema\":\"rivulet.policy/1\",\"mode\":\"auto\","
	       "\"mode_from\":\"configuration\",\"device\":false,\"external\":false,\"drain\":0,\"level\":0,"
	       "\"reason\":\"no device\",\"reserve\":false,\"emergency\":false,\"steered\":false,"
	       "\"yielded\":false,\"levels\":[]}\n");
}
END_TEST

/* Proves that `policy set` requests the mode that its word names. */
START_TEST(policy_asks)
{
	static const struct { const char *word; uint32_t mode, level; } words[] = {
		{ "auto", RIVULET_POLICY_AUTO, 0 }, { "performance", RIVULET_POLICY_PERFORMANCE, 0 },
		{ "balanced", RIVULET_POLICY_BALANCED, 0 }, { "powersave", RIVULET_POLICY_POWERSAVE, 0 },
		{ "0", RIVULET_POLICY_FIXED, 0 }, { "7", RIVULET_POLICY_FIXED, 7 },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		char line[64];

		snprintf(line, sizeof(line), "policy set %s", words[i].word);
		EXPECT(line, 0);
		ck_assert_uint_eq(dm.asked.mode, words[i].mode);
		ck_assert_uint_eq(dm.asked.level, words[i].level);
	}
}
END_TEST

/* Proves that each errno of the daemon becomes the exit status that rivulet(1) documents. */
START_TEST(policy_errors)
{
	static const struct { int error, code; } codes[] = {
		{ -EPERM, RVL_EXIT_ABSENT }, { -EACCES, RVL_EXIT_ABSENT }, { -ENODEV, RVL_EXIT_ABSENT },
		{ -ENOENT, RVL_EXIT_ABSENT }, { -ERANGE, RVL_EXIT_USAGE }, { -EINVAL, RVL_EXIT_REFUSED },
		{ -EOPNOTSUPP, RVL_EXIT_REFUSED }, { -E2BIG, RVL_EXIT_REFUSED }, { -ENOMEM, RVL_EXIT_FAILED },
		{ -EIO, RVL_EXIT_FAILED }, { -EAGAIN, RVL_EXIT_FAILED },
	};

	dm.refuse = RIVULET_MSG_POLICY;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		dm.refuse_with = codes[i].error;
		EXPECT("policy set 1", codes[i].code);
		COMPLAINS("no such operator here");
		ck_assert_str_eq(out, "");
	}
}
END_TEST

/* ---- the status ---- */

static void give_status(const char *text)
{
	if (dm.extra_fd >= 0)
		close(dm.extra_fd);
	dm.extra_fd = memfd_create("status", MFD_CLOEXEC);
	dm.status_size = strlen(text);
	ck_assert_int_eq(write(dm.extra_fd, text, dm.status_size), (int)dm.status_size);
}

#define POLICY(more) "\"policy\":{\"mode\":\"balanced\",\"mode_from\":\"tool\",\"level\":1,\"reason\":\"heat\"" more "}"
#define SUMS "\"connections\":{\"open\":2},\"scheduler\":{\"queued\":3,\"running\":4,\"runs\":50,\"failed\":6," \
	     "\"cancelled\":7,\"late\":8,\"refused\":9}"
#define DEVICE "\"device\":{\"present\":true,\"node\":\"/dev/accel/accel3\",\"board\":\"edge\",\"levels\":[" \
	       "{\"hz\":125000000,\"microvolt\":725000,\"residency_ns\":2500000000,\"jobs\":21," \
	       "\"device_ns\":31000000,\"energy_pj\":41000000000},{\"hz\":1500000000,\"microvolt\":900000," \
	       "\"residency_ns\":700000000,\"jobs\":22,\"device_ns\":32000,\"energy_pj\":42000000}]}"
#define MODELS "\"models\":[{\"name\":\"a.onnx\",\"levels\":[{\"level\":1,\"length\":0,\"accuracy_ppm\":0,\"runs\":4," \
	       "\"late\":1,\"npu_ns\":10000000,\"energy_pj\":6000000000},{\"level\":0,\"length\":64," \
	       "\"accuracy_ppm\":987600,\"runs\":0,\"late\":0,\"npu_ns\":0,\"energy_pj\":0}]}]"


#define TABLES                                                                                     \
	"\n  model   level  length  accuracy  runs  missed  NPU time    energy\n"                 \
	"  a.onnx      1    int8         ?     4       1  2.500 ms  1.500 mJ\n"                   \
	"              0      64   98.76 %     0       0       0 s       0 J\n"                   \
	"\n  2 connections; 3 runs queued, 4 under way; 50 ended: 6 failed, 7 cancelled, 8 late; " \
	"9 refused\n"

START_TEST(status_text)
{
	give_status("{\"version\":\"3.1\",\"uptime_ns\":61999999999," DEVICE ","
		    POLICY(",\"charge_known\":true,\"charge_ppm\":123456,\"steered\":true") "," SUMS "," MODELS "}");
	prints("status", "rivuletd 3.1, up 61 s\n"
	       "  device     /dev/accel/accel3, board edge\n"
	       "  policy     mode balanced (tool), level 1 by heat, battery 12.3 %\n"
	       "\n  level      clock  supply   time  jobs      busy    energy\n"
	       "      0  125.0 MHz  725 mV  2.5 s    21  31.00 ms  41.00 mJ\n"
	       "      1  1.500 GHz  900 mV  0.7 s    22  32.00 us  42.00 uJ\n" TABLES);
}
END_TEST

/*
 * Proves that the status reports why runs are refused, and that the daemon does not steer the
 * level.
 */
START_TEST(status_warns)
{
	give_status("{\"version\":\"3.1\",\"uptime_ns\":1000000000," DEVICE ","
		    POLICY(",\"charge_known\":false,\"charge_ppm\":5,\"reserve\":true,\"emergency\":true") ","
		    SUMS "," MODELS "}");
	EXPECT("status", 0);
	SAYS("rivuletd 3.1, up 1 s\n");
	SAYS("level 1 by heat, IN THE RESERVE, TOO HOT, LEVEL NOT STEERED\n");
}
END_TEST

START_TEST(status_without_a_device)
{
	give_status("{\"version\":\"3.1\",\"uptime_ns\":0,\"device\":{\"present\":false},"
		    POLICY("") "," SUMS "," MODELS "}");
	prints("status", "rivuletd 3.1, up 0 s\n  no device\n" TABLES);
}
END_TEST

/* Proves that each key in ns, pJ, ppm, uV and m°C becomes one in SI units, and that others stay. */
START_TEST(status_json)
{
	give_status("{\"version\":\"3.1\",\"uptime_ns\":1500000000,\"a_ppm\":250000,\"drain_ppm_s\":3,"
		    "\"e_pj\":2000000,\"microvolt\":850000,\"temperature_mc\":-1500,\"ns\":7,\"t_ns\":\"x\","
		    "\"list\":[{\"x_ns\":5}],\"yes\":true}");
	prints("status --json", "{\"schema\":\"rivulet.status/2\",\"status\":{\"version\":\"3.1\",\"uptime_s\":1.5,"
	       "\"a\":0.25,\"drain\":3e-06,\"e_j\":2e-06,\"volt\":0.85,\"temperature\":-1.5,\"ns\":7,\"t_ns\":\"x\","
	       "\"list\":[{\"x_s\":5e-09}],\"yes\":true}}\n");
}
END_TEST

/* Proves that a status that is shorter than announced, too long or no JSON is an error. */
START_TEST(status_damage)
{
	static const char text[] = "{\"version\":\"3.1\"}";

	for (int i = 0; i < 3; i++) {
		give_status(i == 1 ? "{\"version\"" : text);
		dm.status_size += i == 0 ? 1 : 0;
		dm.status_size = i == 2 ? (1u << 24) + 1 : dm.status_size;
		EXPECT("status", RVL_EXIT_FAILED);
		ck_assert_str_eq(rvl_tool_error, "the daemon's status cannot be read, or is not valid JSON");
	}
	dm.refuse = RIVULET_MSG_STATUS;
	dm.refuse_with = -EPERM;
	EXPECT("status", RVL_EXIT_ABSENT);
	COMPLAINS("no such operator here");
}
END_TEST

/* ---- the daemon ---- */

START_TEST(info_of_the_daemon)
{
	dm.hello = (struct rivulet_msg_hello_reply) {
		.version = 1, .device_state = RIVULET_DEVICE_PRESENT, .features = RIVULET_FEATURE_POLICY,
		.max_model = 3 << 20, .max_bytes = 1536, .max_models = 17, .max_instances = 18, .max_runs = 19,
		.levels = 5, .daemon = "3.1", .device = "/dev/accel/accel3", .board = "edge",
	};
	give_status("{\"models\":[1,2,3],\"sessions\":[1,2],\"uptime_ns\":2000000000}");
	prints("info", "rivuletd 3.1, protocol 1\n"
	       "  device     /dev/accel/accel3 edge\n"
	       "  levels     5\n"
	       "  limits     17 models of 3.0 MiB, 18 requests, 19 runs, 1.5 KiB of bound memory a user\n"
	       "  serving    3 models, 2 connections; rivulet status has more\n");
	prints("info --device daemon --json", "{\"schema\":\"rivulet.info/2\",\"device\":\"daemon\","
	       "\"version\":\"3.1\",\"protocol\":1,\"present\":true,\"node\":\"/dev/accel/accel3\","
	       "\"board\":\"edge\",\"status\":{\"models\":[1,2,3],\"sessions\":[1,2],\"uptime_s\":2}}\n");
	dm.hello.device_state = RIVULET_DEVICE_ABSENT;
	memset(dm.hello.board, 0, sizeof(dm.hello.board));
	EXPECT("info", 0);
	SAYS("  device     absent \n");
	EXPECT("info --json", 0);
	SAYS("\"present\":false");
}
END_TEST

/* Proves that a caller is refused for lack of a daemon only if it requested the daemon. */
START_TEST(info_without_a_daemon)
{
	setenv(RIVULET_SOCKET_ENV, "/nonexistent/sock", 1);
	EXPECT("info --device daemon", RVL_EXIT_ABSENT);
	COMPLAINS("no daemon");
	EXPECT("info", RVL_EXIT_ABSENT);
	COMPLAINS("/dev/accel");
	EXPECT("info --device daemon models/lenet.onnx", RVL_EXIT_USAGE);
	COMPLAINS("one model, or --device");
}
END_TEST

/* ---- costs of the linked model ---- */

#define SET "/usr/share/datasets/fashion-mnist/t10k-"
#define PICTURES " --images " SET "images-idx3-ubyte.gz --labels " SET "labels-idx1-ubyte.gz --pictures 0 "
#define LENET "models/lenet.onnx --device sim:zu3eg-64 "

/*
 * LeNet: multiplications of its five layers, and the multiplications of the board's array in a
 * cycle.
 */
#define MACS (117600 + 240000 + 48000 + 10080 + 840)
#define PEAK 64

static const struct { double hz, volt; } level[] = {
	{ 100000000, 0.72 }, { 166666666, 0.75 }, { 250000000, 0.8 }, { 333333333, 0.85 } };

#define LEVELS 4

/*
 * Cycles of a run of LeNet, MACs of the array in that time, and its energy at each level, taken
 * from explain.
 */
static double cycles, array_macs, joule[LEVELS];

/* Proves the clock, the time and the energy of each level in a report. */
static void check_levels(struct json_object *o)
{
	struct json_object *levels = rvl_json_member(o, "levels"), *l;

	ck_assert_uint_eq(json_object_array_length(levels), LEVELS);
	for (size_t i = 0; i < LEVELS; i++) {
		l = rvl_json_item(levels, i);
		ck_assert_double_eq(number(l, "hz"), level[i].hz);
		ck_assert_double_eq_tol(number(l, "seconds"), cycles / level[i].hz, 1e-9);
		ck_assert_double_eq_tol(number(l, "joule"), joule[i], 1e-9);
	}
}

static void read_costs(void)
{
	struct json_object *o, *segment;

	EXPECT("explain models/lenet.onnx --board zu3eg-64 --json", 0);
	o = rvl_json_member(json_out(), "explain");
	segment = rvl_json_item(rvl_json_member(o, "segments"), 0);
	cycles = number(segment, "cycles");
	array_macs = number(segment, "array_macs");
	ck_assert_double_eq(number(segment, "macs"), MACS);
	for (size_t i = 0; i < LEVELS; i++) {
		joule[i] = number(rvl_json_item(rvl_json_member(o, "levels"), i), "joule");
		ck_assert_double_gt(joule[i], 0);
	}
	check_levels(o);
}

/* A value with four digits and an SI prefix. */
static const char *si(double v, const char *unit)
{
	static const struct { double scale; const char *prefix; } prefixes[] = {
		{ 1e-9, "n" }, { 1e-6, "u" }, { 1e-3, "m" }, { 1, "" }, { 1e3, "k" }, { 1e6, "M" } };
	static char text[8][32];
	static int n;
	size_t i = 0;

	while (i < 5 && v >= prefixes[i + 1].scale)
		i++;
	n = (n + 1) % 8;
	v /= prefixes[i].scale;
	snprintf(text[n], sizeof(text[n]), "%.*f %s%s", v < 10 ? 3 : v < 100 ? 2 : 1, v, prefixes[i].prefix, unit);
	return text[n];
}

/* Proves that the line that begins with @name is @fmt. */
static __attribute__((format(printf, 2, 3))) void line_is(const char *name, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ck_assert_str_eq(line_of(name), text);
}

/* The value of a line "figure f.NAME VALUE UNIT", which must have this unit. */
static double figure(const char *name, const char *unit)
{
	char text[64], found[16];
	double v;

	snprintf(text, sizeof(text), "figure f.%s", name);
	ck_assert_int_eq(sscanf(line_of(text) + strlen(text), "%lf %15s", &v, found), 2);
	ck_assert_str_eq(found, unit);
	return v;
}

START_TEST(run_text)
{
	char name[16];

	EXPECT("run " LENET PICTURES "--count 20 --top 3 --figures f", 0);
	line_is("models", "models/lenet.onnx on linked model of zu3eg-64, 20 inferences");
	line_is("accuracy", "accuracy 95.00 %% 19 of 20");
	line_is("top", "top accuracy 100.00 %% the label is among the best 3 classes");
	line_is("device c", "device cycles %.0f per inference, 1 NPU and 2 CPU steps", cycles);
	line_is("utilisation", "utilisation %.1f %% model MACs of the array's peak", 100 * MACS / cycles / PEAK);
	line_is("device t", "device time %s per inference", si(cycles / level[3].hz, "s"));
	line_is("device e", "device energy %s per inference, static part included", si(joule[3], "J"));
	ck_assert_ptr_nonnull(strstr(line_of("latency"), "median, from request to answer; level 3"));
	for (int i = 0; i < LEVELS; i++) {
		snprintf(name, sizeof(name), "%d ", i);
		line_is(name, "%d %s %.0f mV %s %.1f %s %s %s", i, si(level[i].hz, "Hz"), 1e3 * level[i].volt,
			si(cycles / level[i].hz, "s"), level[i].hz / cycles, si(joule[i], "J"),
			si(joule[i] * level[i].hz / cycles, "W"), i == 3 ? "measured here" : "estimated");
	}
	ck_assert_double_eq(figure("accuracy", "%"), 95);
	ck_assert_double_eq(figure("images", "images"), 20);
	ck_assert_double_eq(figure("cycles", "cycles"), cycles);
	ck_assert_double_eq_tol(figure("utilisation", "%"), 100 * MACS / cycles / PEAK, 1e-6);
	ck_assert_double_eq_tol(figure("level0.time", "ms"), 1e3 * cycles / level[0].hz, 1e-8);
	ck_assert_double_eq_tol(figure("level3.energy", "uJ"), 1e6 * joule[3], 1e-3);
	ck_assert_double_gt(figure("latency", "ms"), 0);
}
END_TEST

START_TEST(run_of_random_input)
{
	EXPECT("run " LENET "--count 1 --seed 5", 0);
	line_is("models", "models/lenet.onnx on linked model of zu3eg-64, 1 inference");
	line_is("random", "random input, seed 5");
	ck_assert_ptr_null(strstr(out, "accuracy"));
	ck_assert_ptr_null(strstr(out, "figure"));
	/* The output has ten values. */
	ck_assert_ptr_nonnull(strstr(line_of("output"), "output scores, float32 1x10: "));
	ck_assert_ptr_null(strstr(line_of("output"), "..."));
	EXPECT("run " LENET "--json", 0);
	ck_assert_double_eq(number(json_out(), "seed"), 1);
	ck_assert_ptr_null(rvl_json_member(json_out(), "accuracy"));
}
END_TEST

/*
 * Proves the averages of a run against the board and the model. Of the latency, only the sign is
 * known.
 */
START_TEST(run_json)
{
	struct json_object *o, *l;

	EXPECT("run " LENET PICTURES "--count 20 --top 3 --json", 0);
	check_json("rivulet.run/2");
	o = json_out();
	ck_assert_double_eq(number(o, "runs"), 20);
	ck_assert_double_eq_tol(number(o, "accuracy"), 19 / 20.0, 1e-9);
	ck_assert_double_eq(number(o, "top_accuracy"), 1);
	ck_assert_double_eq(number(o, "cycles"), cycles);
	ck_assert_double_eq(number(o, "macs"), array_macs);
	ck_assert_double_eq_tol(number(o, "utilisation"), MACS / cycles / PEAK, 1e-8);
	ck_assert_double_eq_tol(number(o, "device_s"), cycles / level[3].hz, 1e-12);
	ck_assert(number(o, "cpu_s") > 0 && number(o, "cpu_s") < number(o, "latency_median_s"));
	check_levels(o);
	ck_assert_double_eq_tol(number(o, "energy_j"), joule[3], 1e-9);
	for (size_t i = 0; i < LEVELS; i++) {
		l = rvl_json_item(rvl_json_member(o, "levels"), i);
		ck_assert_double_eq(number(l, "level"), (double)i);
		ck_assert_double_eq_tol(number(l, "volt"), level[i].volt, 1e-9);
		ck_assert_int_eq(rvl_json_true(l, "measured"), i == 3);
	}
}
END_TEST
/* Proves that --first and --count select pictures up to the end of a set of 10,000. */
START_TEST(ends_of_a_set)
{
	static const struct { const char *words; double runs, index; } parts[] = {
		{ "--first 9998 --count 1", 1, 9998 }, { "--first 9998 --count 2", 2, 9998 },
		{ "--first 9998 --count 3", 2, 9998 }, { "--first 9999", 1, 9999 }, { "--count 1", 1, 0 },
	};
	char words[300];

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct json_object *o, *pictures;

		snprintf(words, sizeof(words), "run " LENET PICTURES "--top 2 --json %s", parts[i].words);
		EXPECT(words, 0);
		o = json_out();
		pictures = rvl_json_member(o, "pictures");
		ck_assert_double_eq(number(o, "runs"), parts[i].runs);
		ck_assert_double_eq((double)json_object_array_length(pictures), parts[i].runs);
		ck_assert_double_eq(number(rvl_json_item(pictures, 0), "index"), parts[i].index);
	}
	EXPECT("run " LENET PICTURES "--first 10000", RVL_EXIT_USAGE);
	ck_assert_str_eq(rvl_tool_error, "--first 10000: " SET "images-idx3-ubyte.gz has 10000 pictures");
}
END_TEST

/* ---- eval ---- */

#define EVAL "eval models/mlp.onnx --data " SET "images-idx3-ubyte.gz --labels " SET "labels-idx1-ubyte.gz --threads 1 "

/* Proves the order of the evaluations, and that accuracy is the share of right answers. */
START_TEST(eval_json)
{
	static const struct { const char *circuit; double length; } order[] = {
		{ "int8", 0 }, { "and-bin", 64 }, { "and-bin", 9 }, { "and-bin", 8 } };
	struct json_object *o, *r;
	double right, all = 0;

	EXPECT(EVAL "--count 50 --length 8-9,64 --json", 0);
	check_json("rivulet.eval/1");
	o = json_out();
	ck_assert_double_eq(number(o, "examples"), 50);
	ck_assert_double_eq(number(o, "stream_macs"), number(o, "macs"));
	ck_assert(!rvl_json_true(o, "interrupted"));
	ck_assert_uint_eq(json_object_array_length(rvl_json_member(o, "results")), 4);
	for (size_t i = 0; i < 4; i++) {
		r = rvl_json_item(rvl_json_member(o, "results"), i);
		ck_assert_str_eq(json_object_get_string(rvl_json_member(r, "circuit")), order[i].circuit);
		ck_assert_double_eq(number(r, "length"), order[i].length);
		ck_assert_double_eq(number(r, "examples"), 50);
		ck_assert_double_eq_tol(number(r, "accuracy"), number(r, "right") / 50, 1e-9);
		ck_assert(number(r, "seconds") > 0 && number(r, "seconds") < 60);
	}
	/*
	 * The right answers among 100 examples are those among the first and the last 50 of them.
	 */
	for (int i = 0; i < 3; i++) {
		EXPECT(i == 0 ? EVAL "--count 100 --length 8 --json" : i == 1 ? EVAL "--count 50 --length 8 --json" :
		       EVAL "--first 50 --count 50 --length 8 --json", 0);
		right = number(rvl_json_item(rvl_json_member(json_out(), "results"), 0), "right");
		all += i ? -right : right;
	}
	ck_assert_double_eq(all, 0);
}
END_TEST

START_TEST(eval_text)
{
	char text[2][64];
	double right[2];

	EXPECT(EVAL "--count 50 --length 8 --json", 0);
	for (size_t i = 0; i < 2; i++) {
		right[i] = number(rvl_json_item(rvl_json_member(json_out(), "results"), i), "right");
		snprintf(text[i], sizeof(text[i]), "%s %.2f %% %.0f ", i ? "and-bin 8" : "int8", 2 * right[i], right[i]);
	}
	EXPECT(EVAL "--count 50 --length 8 --figures f", 0);
	ck_assert_ptr_nonnull(strstr(line_of("models"), "models/mlp.onnx: 50 examples, "));
	for (size_t i = 0; i < 2; i++)
		ck_assert_int_eq(strncmp(line_of(i ? "and-bin" : "int8"), text[i], strlen(text[i])), 0);
	ck_assert_double_eq(figure("accuracy.int8", "%"), 2 * right[0]);
	ck_assert_double_eq(figure("accuracy.8", "%"), 2 * right[1]);
	EXPECT(EVAL "--count 50 --length 8 --circuit and-sep --figures f", 0);
	ck_assert_double_gt(figure("accuracy.and-sep.8", "%"), 0);
	EXPECT(EVAL "--circuit nor", RVL_EXIT_USAGE);
	COMPLAINS("not \"nor\"");
}
END_TEST

/* ---- bench ---- */

/* The value of "NAME VALUE UNIT" in a line of latencies, in seconds. */
static double latency_in(const char *line, const char *name)
{
	const char *p = strstr(line, name);
	double v;
	char unit;

	ck_assert_msg(p && sscanf(p + strlen(name), "%lf %c", &v, &unit) == 2, "no %s in %s", name, line);
	return v * (unit == 'n' ? 1e-9 : unit == 'u' ? 1e-6 : unit == 'm' ? 1e-3 : 1);
}

/* Proves that text and figures have the same quantiles, and the costs of a run at each level. */
START_TEST(bench_text)
{
	static const char *const names[] = { "min", "p50", "p90", "p95", "p99", "max" };
	char text[64];

	EXPECT("bench " LENET "-n 10 --depth 3 --warmup 1 --figures f", 0);
	ck_assert_str_eq(line_of("models"), "models/lenet.onnx on linked model of zu3eg-64, 10 runs one after "
			 "the other");
	for (int i = 0; i < 6; i++) {
		double seconds = latency_in(line_of("latency"), names[i]);

		snprintf(text, sizeof(text), "latency.%s", names[i]);
		ck_assert_double_eq_tol(figure(text, "ms") * 1e-3, seconds, seconds * 0.001);
	}
	ck_assert_double_eq(figure("latency.median", "ms"), figure("latency.p50", "ms"));
	ck_assert_ptr_nonnull(strstr(line_of("throughput"), " with 3 in flight, of 10 runs"));
	ck_assert_double_eq_tol(figure("throughput", "1/s"), strtod(line_of("throughput") + 11, NULL), 0.06);
	ck_assert_double_eq(figure("cycles", "cycles"), cycles);
	snprintf(text, sizeof(text), "NPU %s (%.0f cycles), CPU ", si(cycles / level[3].hz, "s"), cycles);
	ck_assert_ptr_nonnull(strstr(line_of("of a run"), text));
	SAYS("Latency and throughput are those of the linked model");
	for (int i = 0; i < LEVELS; i++) {
		snprintf(text, sizeof(text), "%d ", i);
		ck_assert_int_eq(strncmp(line_of(text), text, 2), 0);
		ck_assert_ptr_nonnull(strstr(line_of(text), si(cycles / level[i].hz, "s")));
		ck_assert_ptr_nonnull(strstr(line_of(text), si(joule[i], "J")));
		ck_assert_double_eq_tol(strtod(strrchr(line_of(text), ' '), NULL), 1 / joule[i], 1);
	}
}
END_TEST

/*
 * Proves the ranks: of two runs the shorter is the median and the longer every higher quantile; of twenty
 * the 95th percentile is the 19th, and is not the longest.
 */
START_TEST(bench_quantiles)
{
	struct json_object *o;

	EXPECT("bench " LENET "-n 2 --depth 1 --json", 0);
	o = json_out();
	ck_assert_double_eq(number(o, "latency_p50_s"), number(o, "latency_min_s"));
	ck_assert_double_eq(number(o, "latency_median_s"), number(o, "latency_min_s"));
	ck_assert_double_lt(number(o, "latency_p50_s"), number(o, "latency_p90_s"));
	ck_assert_double_eq(number(o, "latency_p90_s"), number(o, "latency_max_s"));
	ck_assert_double_eq(number(o, "depth"), 1);
	EXPECT("bench " LENET "-n 20 --json", 0);
	o = json_out();
	ck_assert_double_lt(number(o, "latency_min_s"), number(o, "latency_p50_s"));
	ck_assert_double_lt(number(o, "latency_p90_s"), number(o, "latency_p95_s"));
	ck_assert_double_lt(number(o, "latency_p95_s"), number(o, "latency_max_s"));
	ck_assert_double_eq(number(o, "latency_p99_s"), number(o, "latency_max_s"));
	ck_assert_double_eq(number(o, "runs"), 20);
	ck_assert_double_eq(number(o, "depth"), 4);
	ck_assert_double_eq(number(o, "throughput_runs"), 20);
	ck_assert_double_gt(number(o, "per_second"), 0);
	ck_assert_double_eq(number(o, "cycles"), cycles);
	ck_assert_double_eq_tol(number(o, "npu_s"), cycles / level[3].hz, 1e-12);
	ck_assert_double_gt(number(o, "cpu_s"), 0);
	check_levels(o);
}
END_TEST

/* Proves that the throughput phase of N runs ends after N, for depths below, at and above N. */
START_TEST(bench_depths)
{
	static const char *const words[] = { "1", "4", "5", "6", "64" };
	char line[200];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		snprintf(line, sizeof(line), "bench " LENET "-n 5 --warmup 0 --json --depth %s", words[i]);
		EXPECT(line, 0);
		ck_assert_double_eq(number(json_out(), "throughput_runs"), 5);
		ck_assert_double_eq(number(json_out(), "runs"), 5);
	}
}
END_TEST

/* ---- profile ---- */

/*
 * Proves that the table of engines has the numbers of the JSON, and their shares of the job's
 * cycles.
 */
START_TEST(profile_text)
{
	static const char *const engines[] = { "LOAD", "CONV", "ALU", "STORE" };
	struct json_object *o, *e;
	char line[4][200], dir[64], words[200];
	double all, n;

	make_scratch(dir);
	snprintf(words, sizeof(words), "profile " LENET "--seed 7 -o %s/t --json", dir);
	EXPECT(words, 0);
	o = json_out();
	ck_assert_double_eq(number(o, "seed"), 7);
	n = number(o, "events");
	all = number(o, "cycles");
	/* Writing the records takes cycles too. */
	ck_assert(all > cycles && all < 2 * cycles);
	for (size_t i = 0; i < 4; i++) {
		e = rvl_json_item(rvl_json_member(o, "engines"), i);
		ck_assert_double_gt(number(e, "records"), 0);
		snprintf(line[i], sizeof(line[i]), "%s %.0f %.0f %.1f %%", engines[i], number(e, "records"),
			 number(e, "busy_cycles"), 100 * number(e, "busy_cycles") / all);
	}
	snprintf(words, sizeof(words), "profile " LENET "--seed 7 -o %s/t", dir);
	EXPECT(words, 0);
	ck_assert_str_eq(line_of("models"), "models/lenet.onnx on linked model of zu3eg-64, random input, seed 7");
	for (size_t i = 0; i < 4; i++)
		ck_assert_str_eq(line_of(engines[i]), line[i]);
	snprintf(words, sizeof(words), "%.0f events in %s/t: open it in https://ui.perfetto.dev or chrome://tracing",
		 n, dir);
	ck_assert_str_eq(line_of(words), words);
	remove_scratch(dir);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("reports");
	TCase *t = tcase_create("daemon"), *costs = tcase_create("costs");

	tcase_set_timeout(costs, 60);
	tcase_add_checked_fixture(costs, read_costs, NULL);
	tcase_add_test(costs, run_text);
	tcase_add_test(costs, run_of_random_input);
	tcase_add_test(costs, run_json);
	tcase_add_test(costs, ends_of_a_set);
	tcase_add_test(costs, eval_json);
	tcase_add_test(costs, eval_text);
	tcase_add_test(costs, bench_text);
	tcase_add_test(costs, bench_quantiles);
	tcase_add_test(costs, bench_depths);
	tcase_add_test(costs, profile_text);
	suite_add_tcase(s, costs);

	tcase_add_checked_fixture(t, start, stop);
	tcase_add_test(t, policy_text);
	tcase_add_test(t, policy_json);
	tcase_add_test(t, policy_flags);
	tcase_add_test(t, policy_without_a_device);
	tcase_add_test(t, policy_asks);
	tcase_add_test(t, policy_errors);
	tcase_add_test(t, status_text);
	tcase_add_test(t, status_warns);
	tcase_add_test(t, status_without_a_device);
	tcase_add_test(t, status_json);
	tcase_add_test(t, status_damage);
	tcase_add_test(t, info_of_the_daemon);
	tcase_add_test(t, info_without_a_daemon);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_suite(make_suite());
}

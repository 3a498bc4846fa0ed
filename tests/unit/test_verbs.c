// SPDX-License-Identifier: MIT
/*
 * `rivulet status` and `rivulet policy` with a daemon on the linked model and a battery in a
 * directory; --replay without a daemon; and the reader of the daemon's JSON.
 */
#include <json-c/json.h>

#include "daemon_rig.h"
#include "suite.h"

#include "../../tool/json.h"
#include "pbuild.h"
#include "unit/external_model.h"
#include "program.h"
#include "verb.h"
#include "verb_out.h"


static char dir[64];		/* directory of the battery and of traces */

static void put(const char *name, const char *text)
{
	put_file(dir, name, text);
}

static void battery(void)
{
	make_scratch(dir);
	put("class/power_supply/BAT0/type", "Battery\n");
	put("class/power_supply/BAT0/status", "Discharging\n");
	put("class/power_supply/BAT0/energy_full", "50000000\n");
	put("class/power_supply/BAT0/energy_now", "30000000\n");
	setenv("RIG_SYS", dir, 1);
}

static void clean(void)
{
	remove_scratch(dir);
}

static void daemon_start(const char *users)
{
	char config[200];

	snprintf(config, sizeof(config), "[Power]\nPowerProfiles=no\nPolicyUsers=%s\n", users);
	rig_start(config);
}

static void start(void)
{
	char uid[16];

	battery();
	snprintf(uid, sizeof(uid), "%u", getuid());
	daemon_start(uid);
}

static void stop(void)
{
	rig_stop();
	clean();
}

#define COMPLAINS(text) ck_assert_msg(strstr(rvl_tool_error, text) != NULL, "%s", rvl_tool_error)

static const char *text_of(struct json_object *object, const char *key)
{
	static char buf[8][64];
	static int n;

	n = (n + 1) % 8;
	return rvl_json_text(object, key, buf[n], sizeof(buf[n]));
}

/* ---- the state ---- */

/* Proves that text and JSON show the state of the battery and of the board. */
START_TEST(policy_state)
{
	struct json_object *levels, *l;

	EXPECT("policy", 0);
	SAYS("mode auto (configuration)");
	SAYS("power      battery, charge 60.00 %");
	SAYS("level      2 by battery");
	SAYS("<- now");
	EXPECT("policy --json", 0);
	check_json("rivulet.policy/1");
	ck_assert_str_eq(text_of(json_out(), "mode"), "auto");
	ck_assert_str_eq(text_of(json_out(), "reason"), "battery");
	ck_assert_uint_eq(rvl_json_number(json_out(), "level"), 2);
	ck_assert(rvl_json_true(json_out(), "steered") && !rvl_json_true(json_out(), "external"));
	ck_assert_double_eq(json_object_get_double(rvl_json_member(json_out(), "charge")), 0.6);
	levels = rvl_json_member(json_out(), "levels");
	ck_assert_ptr_nonnull(levels);
	for (size_t i = 0; i < 4; i++) {
		l = rvl_json_item(levels, i);
		ck_assert_uint_eq(rvl_json_number(l, "level"), 3 - i);
		ck_assert(rvl_json_true(l, "allowed"));
		ck_assert_uint_eq(rvl_json_number(l, "entries"), i == 1);
	}
	ck_assert_ptr_null(rvl_json_item(levels, 4));
}
END_TEST

/* Proves that set changes the mode, prints the new state, and that status shows the same. */
START_TEST(policy_sets)
{
	EXPECT("policy set 1", 0);
	SAYS("mode fixed 1 (rivulet policy set)");
	SAYS("level      1 by mode");
	EXPECT("policy --json", 0);
	ck_assert_str_eq(text_of(json_out(), "mode"), "fixed");
	ck_assert_uint_eq(rvl_json_number(json_out(), "fixed"), 1);
	EXPECT("status", 0);
	SAYS("policy     mode fixed (tool), level 1 by mode, battery 60.0 %");
	EXPECT("policy set performance", 0);
	SAYS("level      3 by mode");
	EXPECT("policy set powersave", 0);
	SAYS("level      0 by mode");
	EXPECT("policy set auto", 0);
	SAYS("mode auto (rivulet policy set)");
}
END_TEST

/* Proves that an invalid mode is refused with the reason and changes nothing. */
START_TEST(policy_refuses)
{
	EXPECT("policy set turbo", RVL_EXIT_USAGE);
	COMPLAINS("\"turbo\" is not auto, performance, balanced");
	EXPECT("policy set 6", RVL_EXIT_USAGE);
	COMPLAINS("the device has no level 6");
	EXPECT("policy get", RVL_EXIT_USAGE);
	COMPLAINS("nothing, or set MODE");
	EXPECT("policy set auto now", RVL_EXIT_USAGE);
	EXPECT("status all", RVL_EXIT_USAGE);
	COMPLAINS("takes no operand");
	EXPECT("policy", 0);
	SAYS("mode auto (configuration)");
}
END_TEST

/* Proves that only PolicyUsers= may change the mode, and that every user may read it. */
START_TEST(policy_is_not_for_all)
{
	char uid[16];

	battery();
	snprintf(uid, sizeof(uid), "%u", getuid() + 1);
	daemon_start(uid);
	EXPECT("policy set 1", RVL_EXIT_ABSENT);
	COMPLAINS("PolicyUsers=");
	EXPECT("policy", 0);
	SAYS("mode auto (configuration)");
	stop();
}
END_TEST

static void run_once(struct rivulet_client *c, struct rivulet_model **m)
{
	static uint8_t in[1 << 16], res[1 << 16];
	struct rivulet_tensor_info t = { .size = sizeof(t) };
	struct rivulet_request *q;

	ck_assert_msg(!rivulet_model_load(c, "models/lenet.onnx", NULL, m), "%s",
		      rivulet_last_error());
	ck_assert(!rivulet_request_new(*m, &q));
	for (uint32_t i = 0; !rivulet_model_tensor(*m, i, &t); i++)
		ck_assert(!rivulet_bind_memory(q, i, t.output ? res : in, t.bytes));
	ck_assert_msg(!rivulet_request_run(q, NULL), "%s", rivulet_last_error());
	rivulet_request_unref(q);
}

/* Proves that status shows the device, the levels, the models with their runs, and the totals. */
START_TEST(status_state)
{
	struct json_object *s, *models, *l;
	struct rivulet_client *c;
	struct rivulet_model *m;

	ck_assert_msg(!rivulet_open(NULL, &c), "%s", rivulet_last_error());
	run_once(c, &m);
	EXPECT("status", 0);
	SAYS("rivuletd " RIVULET_VERSION);
	SAYS("device     sim:zu3eg-64, board zu3eg-64");
	SAYS("policy     mode auto (configuration), level 2 by battery, battery 60.0 %\n");
	SAYS("lenet.onnx");
	SAYS("int8");
	SAYS("1 ended: 0 failed, 0 cancelled, 0 late; 0 refused");
	EXPECT("status --json", 0);
	check_json("rivulet.status/2");
	s = rvl_json_member(json_out(), "status");
	ck_assert_str_eq(text_of(rvl_json_member(s, "device"), "board"), "zu3eg-64");
	ck_assert(rvl_json_true(rvl_json_member(s, "device"), "present"));
	models = rvl_json_member(s, "models");
	ck_assert_str_eq(text_of(rvl_json_item(models, 0), "name"), "lenet.onnx");
	ck_assert_ptr_null(rvl_json_item(models, 1));
	for (size_t i = 0; (l = rvl_json_item(rvl_json_member(rvl_json_item(models, 0), "levels"),
					      i)); i++)
		ck_assert_uint_eq(rvl_json_number(l, "runs"), rvl_json_number(l, "level") == 2);
	rivulet_model_unref(m);
	rivulet_client_unref(c);
}
END_TEST

/* Proves that times, energies and ratios have the units of the man page. */
START_TEST(status_in_si)
{
	struct json_object *s, *model, *level;
	struct rivulet_client *c;
	struct rivulet_model *m;
	double cycles, joule;

	ck_assert_msg(!rivulet_open(NULL, &c), "%s", rivulet_last_error());
	run_once(c, &m);
	EXPECT("explain models/lenet.onnx --board zu3eg-64 --json", 0);
	s = rvl_json_member(json_out(), "explain");
	level = rvl_json_item(rvl_json_member(s, "levels"), 2);
	cycles = number(level, "cycles");
	joule = number(level, "joule");
	EXPECT("status --json", 0);
	s = rvl_json_member(json_out(), "status");
	ck_assert(number(s, "uptime_s") > 0 && number(s, "uptime_s") < 600);
	ck_assert_double_eq_tol(number(rvl_json_member(s, "policy"), "charge"), 0.6, 1e-6);
	model = rvl_json_item(rvl_json_member(s, "models"), 0);
	/* The estimated cycles at 250 MHz, the level of a battery at 60 % */
	ck_assert_double_eq_tol(number(model, "npu_s"), cycles / 250e6, 1e-6);
	ck_assert_double_eq_tol(number(model, "energy_j"), joule, 1e-6);
	level = rvl_json_item(rvl_json_member(rvl_json_member(s, "device"), "levels"), 3);
	ck_assert_double_eq_tol(number(level, "volt"), 0.85, 1e-9);
	rivulet_model_unref(m);
	rivulet_client_unref(c);
}
END_TEST

/* Proves that info asks the daemon first, and opens a device only on request. */
START_TEST(info_asks_the_daemon)
{
	EXPECT("info", 0);
	SAYS("rivuletd " RIVULET_VERSION);
	EXPECT("info --json", 0);
	check_json("rivulet.info/2");
	SAYS("\"device\":\"daemon\"");
	EXPECT("info --device sim:zu3eg-64", 0);
	ck_assert_ptr_null(strstr(out, "rivuletd"));
}
END_TEST

/* The first output's first value of a `run --json`. */
static double first_score(void)
{
	struct json_object *o = rvl_json_item(rvl_json_member(json_out(), "outputs"), 0);

	return json_object_get_double(rvl_json_item(rvl_json_member(o, "first"), 0));
}

/*
 * Proves that the daemon's runs report the cycles and outputs of the linked model, the time and the energy
 * of the level that the daemon chose, and that the daemon is asked when no device is named.
 */
START_TEST(runs_of_the_daemon)
{
	struct json_object *o, *level;
	double cycles, macs, score, seconds, joule;

	EXPECT("run models/lenet.onnx --device sim:zu3eg-64 --seed 3 --json", 0);
	o = json_out();
	cycles = number(o, "cycles");
	macs = number(o, "macs");
	level = rvl_json_item(rvl_json_member(o, "levels"), 2);
	seconds = number(level, "seconds");
	joule = number(level, "joule");
	score = first_score();
	EXPECT("run models/lenet.onnx --seed 3 --json", 0);
	o = json_out();
	ck_assert_str_eq(text_of(o, "device"), "daemon, sim:zu3eg-64 (zu3eg-64)");
	ck_assert_double_eq(number(o, "cycles"), cycles);
	ck_assert_double_eq(number(o, "macs"), macs);
	ck_assert_double_eq_tol(number(o, "device_s"), seconds, 1e-9);
	ck_assert_double_eq_tol(number(o, "energy_j"), joule, 1e-9);
	ck_assert_double_eq(first_score(), score);
	ck_assert(number(o, "cpu_s") > 0 && number(o, "cpu_s") < number(o, "latency_median_s"));
	for (size_t i = 0; i < 4; i++)
		ck_assert_int_eq(rvl_json_true(rvl_json_item(rvl_json_member(o, "levels"), i), "measured"), i == 2);
	EXPECT("run models/lenet.onnx --seed 3 --device daemon", 0);
	SAYS("1 inference\n");
	SAYS("per inference, 1 NPU and 2 CPU steps\n");
	SAYS("from request to answer; level 2\n");
}
END_TEST

START_TEST(bench_of_the_daemon)
{
	struct json_object *o;

	EXPECT("bench models/lenet.onnx -n 6 --depth 2 --json", 0);
	o = json_out();
	ck_assert_str_eq(text_of(o, "device"), "daemon, sim:zu3eg-64 (zu3eg-64)");
	ck_assert_double_eq(number(o, "runs"), 6);
	ck_assert_double_eq(number(o, "throughput_runs"), 6);
	ck_assert_double_eq_tol(number(o, "npu_s"), number(o, "cycles") / 250e6, 1e-9);
	ck_assert_uint_eq(json_object_array_length(rvl_json_member(o, "levels")), 4);
	EXPECT("bench models/lenet.onnx -n 2 --device daemon", 0);
	SAYS("models/lenet.onnx on daemon, sim:zu3eg-64 (zu3eg-64), 2 runs one after the other\n");
	ck_assert_ptr_null(strstr(out, "linked model"));
}
END_TEST

/* Proves that a compiled program is loaded as one, and what the daemon cannot do. */
START_TEST(programs_for_the_daemon)
{
	char words[300];

	snprintf(words, sizeof(words), "compile models/lenet.onnx -q -o %s/l.rvp", dir);
	EXPECT(words, 0);
	snprintf(words, sizeof(words), "run %s/l.rvp --device daemon --seed 3 --json", dir);
	EXPECT(words, 0);
	ck_assert_double_gt(number(json_out(), "cycles"), 0);
	EXPECT("run models/lenet.onnx --mode sc --device daemon", RVL_EXIT_USAGE);
	COMPLAINS("the daemon compiles models to int8 only");
	EXPECT("bench models/lenet.onnx --counters --device daemon", RVL_EXIT_USAGE);
	COMPLAINS("--counters needs --device /dev/accel/accelN: the jobs of daemon, sim:zu3eg-64 (zu3eg-64) are not "
		  "this program's");
	EXPECT("profile models/lenet.onnx --device daemon", RVL_EXIT_USAGE);
	COMPLAINS("the daemon keeps the PROF records of its jobs");
	EXPECT("run models/lenet.onnx --device nearby", RVL_EXIT_USAGE);
	COMPLAINS("--device is \"daemon\", \"cpu\", a node below /dev, or sim:BOARD, not \"nearby\"");
	EXPECT("run /nonexistent/m.onnx --device daemon", RVL_EXIT_REFUSED);
	COMPLAINS("/nonexistent/m.onnx");
	EXPECT("run models/README --device daemon", RVL_EXIT_REFUSED);
	COMPLAINS("models/README: ");
}
END_TEST

/* DIR/far.onnx: y = x + w, x of 3 x n elements, w of 3 x 1 in DIR/w.bin. */
static void far_model(void)
{
	struct pb m = external_model(2, "w.bin", NULL, NULL);
	static const float w[] = { 10, 20, 30 };
	char path[300];

	snprintf(path, sizeof(path), "%s/far.onnx", rig.dir);
	write_file(path, m.p, m.n);
	snprintf(path, sizeof(path), "%s/w.bin", rig.dir);
	write_file(path, w, sizeof(w));
	free(m.p);
}

/* The shape of the first output of a `run --json`. */
static double output_dim(size_t i)
{
	struct json_object *o = rvl_json_item(rvl_json_member(json_out(), "outputs"), 0);

	return json_object_get_double(rvl_json_item(rvl_json_member(o, "shape"), i));
}

/*
 * Proves that a model with data in another file, and with a shape that the command line gives, runs
 * through the daemon as on the linked model: the command reads the file and compiles, the daemon
 * gets the program.
 */
START_TEST(models_that_the_command_compiles)
{
	char words[400];
	double score;

	far_model();
	snprintf(words, sizeof(words), "run %s/far.onnx --shape x=3,5 --device sim:zu3eg-64 --json", rig.dir);
	EXPECT(words, 0);
	score = first_score();
	ck_assert(score >= 10 && score < 11);
	snprintf(words, sizeof(words), "run %s/far.onnx --shape x=3,5 --device daemon --json", rig.dir);
	EXPECT(words, 0);
	ck_assert_double_eq(first_score(), score);
	ck_assert(output_dim(0) == 3 && output_dim(1) == 5);
	/* The file alone is reason enough. */
	snprintf(words, sizeof(words), "run %s/far.onnx --symbol 7 --device daemon --json", rig.dir);
	EXPECT(words, 0);
	ck_assert_double_eq(output_dim(1), 7);
	snprintf(words, sizeof(words), "bench %s/far.onnx --shape x=3,4 --runs 3 --device daemon", rig.dir);
	EXPECT(words, 0);
	EXPECT("run models/lenet.onnx --shape nothing=4 --device daemon", RVL_EXIT_REFUSED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "no input 'nothing'"));
}
END_TEST

/* Waits until the program has written so many bytes. */
static void await_output(const struct program *p, off_t bytes)
{
	siginfo_t end = { 0 };

	while (lseek(p->out, 0, SEEK_END) < bytes) {
		waitid(P_PID, (id_t)p->pid, &end, WEXITED | WNOHANG | WNOWAIT);
		ck_assert_msg(!end.si_pid, "it ended early");
		usleep(1000);
	}
}

/*
 * Proves that status --watch prints one status after the other, each on one line in JSON, until a
 * signal.
 */
START_TEST(status_watches)
{
	static struct program p;
	char *line, *save = NULL;
	int status, lines = 0;

	program_start(&p, "status --watch --interval 20ms --json");
	await_output(&p, 8000);
	ck_assert(!kill(p.pid, SIGINT));
	status = program_end(&p, out, sizeof(out));
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
	for (line = strtok_r(out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct json_object *o = rvl_json_parse(line);

		lines += o != NULL;
		json_object_put(o);
	}
	ck_assert_int_ge(lines, 2);
	EXPECT("status --interval 0s", RVL_EXIT_USAGE);
}
END_TEST

START_TEST(watch_waits)
{
	static struct program p;

	start();
	program_start(&p, "status --watch --interval 20ms");
	await_output(&p, 100);
	stop();
	ck_assert(program_shows(&p, "waiting for the daemon"));
	kill(p.pid, SIGTERM);
	program_end(&p, out, sizeof(out));
	SAYS("rivuletd " RIVULET_VERSION);
}
END_TEST

START_TEST(no_daemon)
{
	battery();
	setenv(RIVULET_SOCKET_ENV, "/nonexistent/sock", 1);
	EXPECT("status", RVL_EXIT_ABSENT);
	COMPLAINS("no daemon");
	COMPLAINS("rivulet doctor finds the cause");
	ck_assert_ptr_null(strstr(err_out, "--device"));
	EXPECT("policy set auto", RVL_EXIT_ABSENT);
	COMPLAINS("no daemon");
	ck_assert_str_eq(out, "");
	clean();
}
END_TEST

/* ---- a recorded battery ---- */

static int replay(const char *trace, const char *options)
{
	char words[300];

	put("trace", trace);
	snprintf(words, sizeof(words), "policy --replay %s/trace %s", dir, options);
	return verb(words);
}

/*
 * Proves that each change is printed with its time and reason, and that the times sum to the length
 * of the trace.
 */
START_TEST(replay_changes)
{
	static const char trace[] = "# a day\n0 100 discharging 0 -\n100,80,discharging,0,-\n"
		"200 60 discharging 0 40\n300 600/1200 discharging 0 -\n"
		"400 20 discharging 0 -\n500 21 charging 1 -\n600 30 charging 1 -\n";
	struct json_object *line, *residency;
	double sum = 0;

	ck_assert_int_eq(replay(trace, "--dwell 0"), 0);
	SAYS("0.000 s  level 3");
	SAYS("200.000 s  level 2  battery    60.00 %");
	SAYS("300.000 s  level 1  battery    50.00 %");
	SAYS("400.000 s  level 0  battery    20.00 %");
	SAYS("500.000 s  level 3  mains");
	SAYS("7 rows, 600.000 s");
	ck_assert_int_eq(replay(trace, "--dwell 0 --json"), 0);
	check_json("rivulet.replay/1");
	line = rvl_json_item(rvl_json_member(json_out(), "timeline"), 1);
	ck_assert_uint_eq(rvl_json_number(line, "time"), 200);
	ck_assert_uint_eq(rvl_json_number(line, "level"), 2);
	ck_assert_uint_eq(rvl_json_number(json_out(), "rows"), 7);
	residency = rvl_json_member(json_out(), "residency");
	for (size_t i = 0; rvl_json_item(residency, i); i++)
		sum += json_object_get_double(rvl_json_item(residency, i));
	ck_assert_double_eq_tol(sum, 600, 1e-6);
	/* Options override the policy's parameters. */
	ck_assert_int_eq(replay(trace, "--dwell 0 --levels 3,0 --thresholds 55"), 0);
	SAYS("300.000 s  level 0");
	ck_assert_ptr_null(strstr(out, "level 2  "));
	ck_assert_int_eq(replay(trace, "--mode powersave"), 0);
	SAYS("0.000 s  level 0  mode");
	ck_assert_int_eq(replay(trace, "--board sc-edge --dwell 0"), 0);
	SAYS("0.000 s  level 5");
}
END_TEST

static const struct {
	const char *trace, *options;
	int code;
	const char *says;
} bad[] = {
	{ "", "", RVL_EXIT_REFUSED, "no row in it" },
	{ "0 100 discharging 0\n", "", RVL_EXIT_REFUSED, "line 1" },
	{ "0 100 discharging 0 -\n1 101 discharging 0 -\n", "", RVL_EXIT_REFUSED, "line 2" },
	{ "5 100 discharging 0 -\n4 99 discharging 0 -\n", "", RVL_EXIT_REFUSED,
	  "line 2: time goes back" },
	{ "0 100 falling 0 -\n", "", RVL_EXIT_REFUSED, "line 1" },
	{ "0 100 full 1 -\n", "--mode turbo", RVL_EXIT_USAGE, "--mode" },
	{ "0 100 full 1 -\n", "--mode 7", RVL_EXIT_USAGE, "no level 7" },
	{ "0 100 full 1 -\n", "--board z80", RVL_EXIT_REFUSED, "z80" },
	{ "0 100 full 1 -\n", "--levels 9", RVL_EXIT_USAGE, "--levels" },
	{ "0 100 full 1 -\n", "--levels 3,2,1 --thresholds 50,60", RVL_EXIT_USAGE, "" },
	{ "0 100 full 1 -\n", "--hysteresis 200", RVL_EXIT_USAGE, "--hysteresis" },
	{ "0 100 full 1 -\n", "--dwell -1", RVL_EXIT_USAGE, "--dwell" },
	{ "0 100 full 1 -\n", "--reserve x", RVL_EXIT_USAGE, "--reserve" },
	{ "0 100 full 1 -\n", "--temperature-limit 500", RVL_EXIT_USAGE, "--temperature-limit" },
	{ "0 100 full 1 -\n", "set auto", RVL_EXIT_USAGE, "takes no operand" },
};

/*
 * Proves that an error names the line of the trace or the option, and that nothing is printed
 * before it.
 */
START_TEST(replay_refuses)
{
	ck_assert_int_eq(replay(bad[_i].trace, bad[_i].options), bad[_i].code);
	ck_assert(*rvl_tool_error);
	COMPLAINS(bad[_i].says);
	ck_assert_str_eq(out, "");
}
END_TEST

START_TEST(replay_needs_a_file)
{
	EXPECT("policy --replay /nonexistent", RVL_EXIT_REFUSED);
	COMPLAINS("/nonexistent");
	EXPECT("policy --replay", RVL_EXIT_USAGE);
}
END_TEST

/* ---- the reader of JSON ---- */

#define ODD                                                                                        \
	"{ \"a\" : { \"x\" : [ 1, { \"b\" : 9 }, \"]}\" ] , \"b\" : 2 } , \"t\":true,\"f\":false," \
	"\"s\":\"q\\\"\\\\z\\u001b[0m\",\"n\":18446744073709551615,\"e\":[],\"o\":{},\"ab\":3,"    \
	"\"l\":-1.5e3}"

/*
 * Proves that a member is found only at its own depth, and that one of another type reads as
 * absent.
 */
START_TEST(json_members)
{
	struct json_object *odd = rvl_json_parse(ODD), *list = rvl_json_parse("[1]");
	char buf[16];

	ck_assert(odd && list);
	ck_assert_uint_eq(rvl_json_number(odd, "b"), 0);
	ck_assert_uint_eq(rvl_json_number(rvl_json_member(odd, "a"), "b"), 2);
	ck_assert_uint_eq(rvl_json_number(odd, "ab"), 3);
	ck_assert_uint_eq(rvl_json_number(odd, "n"), UINT64_MAX);
	ck_assert(rvl_json_true(odd, "t") && !rvl_json_true(odd, "f") &&
		  !rvl_json_true(odd, "none"));
	ck_assert(!rvl_json_true(odd, "n"));
	ck_assert_str_eq(rvl_json_text(odd, "s", buf, sizeof(buf)), "q\"\\z?[0m");
	ck_assert_str_eq(rvl_json_text(odd, "s", buf, 3), "q\"");
	ck_assert_str_eq(rvl_json_text(odd, "n", buf, sizeof(buf)), "");
	ck_assert_str_eq(rvl_json_text(odd, "none", buf, sizeof(buf)), "");
	ck_assert_ptr_null(rvl_json_member(rvl_json_member(odd, "o"), "x"));
	ck_assert_ptr_null(rvl_json_member(NULL, "x"));
	ck_assert_ptr_null(rvl_json_member(list, "x"));
	json_object_put(odd);
	json_object_put(list);
}
END_TEST

START_TEST(json_items)
{
	struct json_object *odd = rvl_json_parse(ODD);
	struct json_object *x = rvl_json_member(rvl_json_member(odd, "a"), "x");

	ck_assert_int_eq(json_object_get_int(rvl_json_item(x, 0)), 1);
	ck_assert_uint_eq(rvl_json_number(rvl_json_item(x, 1), "b"), 9);
	ck_assert_str_eq(json_object_get_string(rvl_json_item(x, 2)), "]}");
	ck_assert_ptr_null(rvl_json_item(x, 3));
	ck_assert_ptr_null(rvl_json_item(rvl_json_member(odd, "e"), 0));
	ck_assert_ptr_null(rvl_json_item(odd, 0));
	ck_assert_ptr_null(rvl_json_item(NULL, 0));
	json_object_put(odd);
}
END_TEST

/*
 * Proves that truncated text, text with trailing bytes, invalid UTF-8 and deep nesting are refused
 * as JSON.
 */
START_TEST(json_damage)
{
	char deep[2001], copy[sizeof(ODD)];
	struct json_object *line;

	for (size_t n = 0; n + 1 < sizeof(ODD); n++) {
		memcpy(copy, ODD, n);
		copy[n] = 0;
		ck_assert_ptr_null(rvl_json_parse(copy));
	}
	ck_assert_ptr_null(rvl_json_parse("{} {}"));
	ck_assert_ptr_null(rvl_json_parse("{\"a\":\"\xff\"}"));
	memset(deep, '[', 1000);
	memset(deep + 1000, ']', 1000);
	deep[2000] = 0;
	ck_assert_ptr_null(rvl_json_parse(deep));
	/* The daemon's object ends with a newline. */
	line = rvl_json_parse("{}\n");
	ck_assert_ptr_nonnull(line);
	json_object_put(line);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *s = suite_create("verbs");
	TCase *with = tcase_create("daemon"), *own = tcase_create("own"),
		*json = tcase_create("json");
	TCase *dry = tcase_create("replay");

	tcase_set_timeout(with, 120);
	tcase_add_checked_fixture(with, start, stop);
	tcase_add_test(with, policy_state);
	tcase_add_test(with, policy_sets);
	tcase_add_test(with, policy_refuses);
	tcase_add_test(with, status_state);
	tcase_add_test(with, status_in_si);
	tcase_add_test(with, info_asks_the_daemon);
	tcase_add_test(with, runs_of_the_daemon);
	tcase_add_test(with, models_that_the_command_compiles);
	tcase_add_test(with, bench_of_the_daemon);
	tcase_add_test(with, programs_for_the_daemon);
	tcase_add_test(with, status_watches);
	tcase_set_timeout(own, 120);
	tcase_add_test(own, policy_is_not_for_all);
	tcase_add_test(own, watch_waits);
	tcase_add_test(own, no_daemon);
	tcase_add_checked_fixture(dry, battery, clean);
	tcase_add_test(dry, replay_changes);
	tcase_add_loop_test(dry, replay_refuses, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(dry, replay_needs_a_file);
	tcase_add_test(json, json_members);
	tcase_add_test(json, json_items);
	tcase_add_test(json, json_damage);
	suite_add_tcase(s, with);
	suite_add_tcase(s, own);
	suite_add_tcase(s, dry);
	suite_add_tcase(s, json);
	return s;
}

int main(int argc, char **argv)
{
	rig_main(argc, argv, rvl_worker_main);
	return run_suite(make_suite());
}

// SPDX-License-Identifier: MIT
/*
 * Verbs that take long: progress on a terminal and in a log, interrupts, durations, closed pipes.
 */
#include <check.h>
#include <errno.h>
#include <json-c/json.h>

#include "../../tool/json.h"
#include "../../tool/output.h"
#include "../../tool/progress.h"
#include "files.h"
#include "program.h"
#include "suite.h"
#include "verb.h"

#define SET "/usr/share/datasets/fashion-mnist/t10k-"
#define EVAL "eval models/mlp.onnx --data " SET "images-idx3-ubyte.gz --labels " SET              \
	     "labels-idx1-ubyte.gz "
#define SIM " --device sim:zu3eg-64 "

static char dir[64];

static void setup(void)
{
	make_scratch(dir);
}

static void teardown(void)
{
	remove_scratch(dir);
}

static double number(struct json_object *o, const char *key)
{
	struct json_object *v = rvl_json_member(o, key);

	ck_assert_msg(v != NULL, "no member %s in %.300s", key, out);
	return json_object_get_double(v);
}

/* Keeps a parsed value until the process ends, so that callers need not release it. */
static struct json_object *keep(struct json_object *o)
{
	static struct json_object *kept[256];
	static int n;

	ck_assert_int_lt(n, 256);
	return kept[n++] = o;
}

static struct json_object *json_out(void)
{
	struct json_object *o = rvl_json_parse(out);

	ck_assert_msg(o != NULL, "not one JSON value: %.300s", out);
	return keep(o);
}

/* ---- interrupts ---- */

/* Runs @words until program_counts(), then sends the signal. Returns the wait status. */
static int interrupted_at(const char *words, unsigned long least, const char *when, int number)
{
	static struct program p;

	program_start(&p, words);
	ck_assert_msg(program_counts(&p, least, when), "it ended early: %.500s", p.seen);
	ck_assert(!kill(p.pid, number));
	return program_end(&p, out, sizeof(out));
}

static int interrupted(const char *words, const char *when, int number)
{
	return interrupted_at(words, 0, when, number);
}

/*
 * Proves that an interrupted evaluation prints its results so far, and that the exit status shows
 * the signal.
 */
START_TEST(eval_keeps)
{
	int status = interrupted(EVAL "--circuit all --length 8-256 --threads 1 --json", " of 1495",
				 SIGINT);
	struct json_object *o = json_out(), *first;

	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
	ck_assert(rvl_json_true(o, "interrupted"));
	first = rvl_json_item(rvl_json_member(o, "results"), 0);
	ck_assert_double_eq(number(first, "length"), 0);
	ck_assert(number(first, "examples") >= 50 && number(first, "examples") <= 10000);
	ck_assert_double_gt(number(first, "accuracy"), 0.75);
}
END_TEST

/*
 * Proves that an interrupted plan keeps its measurements, and that the next one reads them from the
 * cache.
 */
START_TEST(plan_keeps)
{
	char words[600];
	int status;

	snprintf(words, sizeof(words), "plan models/mlp.onnx --time-constraint 1s --threads 1 "
				       "--choose 500 --data " SET
		 "images-idx3-ubyte.gz," SET "labels-idx1-ubyte.gz --svg %s/p.svg --cache %s/c",
			 dir, dir);
	status = interrupted_at(words, 2, " of at most", SIGTERM);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	SAYS("interrupted; these accuracies are known, and kept in ");
	SAYS("bits  examples that  accuracy");
	strcat(words, " --json");
	status = interrupted(words, "of at most", SIGTERM);
	ck_assert(WIFSIGNALED(status));
	ck_assert_ptr_nonnull(rvl_json_item(rvl_json_member(json_out(), "accuracies"), 1));
}
END_TEST

/* Returns whether the process has executed the command and installed a handler for @number. */
static bool catches(pid_t pid, int number)
{
	unsigned long long caught = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	if (f && fgets(line, sizeof(line), f) && strcmp(line, "Name:\trivulet\n"))
		*line = 0;
	while (f && *line && fgets(line, sizeof(line), f) && sscanf(line, "SigCgt: %llx",
								    &caught) != 1)
		;
	if (f)
		fclose(f);
	return caught >> (number - 1) & 1;
}

/* Proves that a signal during the warm-up, before there are results, gives an error object. */
START_TEST(bench_warms_up)
{
	static struct program p;
	int status;

	program_start(&p, "bench models/lenet.onnx --warmup 1000000 --json" SIM);
	for (int i = 0; i < 6000 && !catches(p.pid, SIGINT); i++)
		usleep(10000);
	ck_assert(!kill(p.pid, SIGINT));
	status = program_end(&p, out, sizeof(out));
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
	ck_assert_str_eq(json_object_get_string(rvl_json_member(json_out(), "error")),
			 "interrupted before the first run");
	ck_assert_double_eq(number(json_out(), "exit"), 128 + SIGINT);
}
END_TEST

START_TEST(bench_keeps)
{
	int status = interrupted("bench models/lenet.onnx --duration 500s" SIM, "latency: ",
				 SIGINT);

	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
	SAYS("one after the other, interrupted");
	SAYS(", p90 ");
	ck_assert_ptr_null(strstr(out, "throughput  "));
}
END_TEST

START_TEST(run_keeps)
{
	char words[600];
	struct json_object *o;
	int status;

	snprintf(words, sizeof(words), "run models/resnet.onnx" SIM "--images " SET
		 "images-idx3-ubyte.gz --labels " SET "labels-idx1-ubyte.gz --json --output %s/o",
		 dir);
	status = interrupted(words, "pictures: ", SIGINT);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
	o = json_out();
	ck_assert(rvl_json_true(o, "interrupted"));
	ck_assert_double_gt(number(o, "accuracy"), 0.5);
	ck_assert_double_lt(number(o, "runs"), 10000);
}
END_TEST

/*
 * Proves that a second signal ends the process, and that a signal that was ignored stays ignored.
 */
START_TEST(second_signal)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		rvl_interrupt_catch();
		raise(SIGINT);
		if (rvl_interrupted() != SIGINT)
			_exit(1);
		raise(SIGTERM);
		_exit(2);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	signal(SIGINT, SIG_IGN);
	rvl_interrupt_catch();
	raise(SIGINT);
	ck_assert_int_eq(rvl_interrupted(), 0);
	rvl_interrupt_reset();
}
END_TEST

/* ---- progress ---- */

/* Proves the lines of a log: few by default, each with the completed part and the total. */
START_TEST(plain_lines)
{
	struct rvl_progress p = { 0 };
	struct capture c = capture_start(stderr, STDERR_FILENO);

	rvl_progress_start(&p, 10, "things", "work");
	for (int i = 0; i < 5; i++)
		rvl_progress_at(&p, i);
	rvl_progress_end(&p);
	p = (struct rvl_progress) { .every = 1e-9 };
	rvl_progress_start(&p, 10, "things", "work %d", 2);
	usleep(10);
	rvl_progress_at(&p, 3);
	rvl_progress_start(&p, 0, "things", "endless");
	usleep(10);
	rvl_progress_at(&p, 3);
	rvl_progress_end(&p);
	capture_end(&c, err_out, sizeof(err_out));
	ck_assert_str_eq(err_out, "rivulet: work 2: 3 of 10 things, 30 %\nrivulet: endless: 3 "
				  "things\n");
}
END_TEST

/* Proves that a duration bounds warm-up and measurement, and that the quantiles are in order. */
START_TEST(bench_duration)
{
	static const char *const order[] = { "latency_min_s", "latency_p50_s", "latency_p90_s",
					     "latency_p95_s", "latency_p99_s", "latency_max_s" };
	double start = rvl_tool_seconds(), took, n, few;
	struct json_object *o;

	EXPECT("bench models/lenet.onnx --duration 20ms --warmup 0 --json" SIM, 0);
	few = number(json_out(), "runs");
	EXPECT("bench models/lenet.onnx --duration 600ms --warmup 0 --json" SIM, 0);
	took = rvl_tool_seconds() - start;
	ck_assert(took > 1.2);
	o = json_out();
	n = number(o, "runs");
	ck_assert_double_gt(n, few);
	ck_assert_double_ge(number(o, "throughput_runs"), 1);
	ck_assert_double_le(number(o, "latency_min_s") * n, 0.6 + number(o, "latency_max_s"));
	for (int i = 1; i < 6; i++)
		ck_assert_double_le(number(o, order[i - 1]), number(o, order[i]));
	ck_assert(!rvl_json_true(o, "interrupted"));
	EXPECT("bench models/lenet.onnx --duration 1s --runs 3" SIM, RVL_EXIT_USAGE);
	EXPECT("bench models/lenet.onnx --duration 5" SIM, RVL_EXIT_USAGE);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "is no time"));
	EXPECT("bench models/lenet.onnx --runs 7 --json" SIM, 0);
	ck_assert_double_eq(number(json_out(), "throughput_runs"), 7);
}
END_TEST

/* ---- where the output goes ---- */

/* Proves that the program ends silently when the reader closes the pipe. */
START_TEST(closed_pipe)
{
	int ends[2], status, errors = memfd_create("err", MFD_CLOEXEC);
	pid_t pid;

	ck_assert(!pipe(ends));
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDOUT_FILENO);
		dup2(errors, STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		signal(SIGPIPE, SIG_DFL);
		program_exec("explain models/resnet.onnx --json");
	}
	close(ends[0]);
	close(ends[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
	ck_assert_int_eq(lseek(errors, 0, SEEK_END), 0);
	close(errors);
}
END_TEST

START_TEST(full_disk)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		int full = open("/dev/full", O_WRONLY | O_CLOEXEC),
			null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(full, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		program_exec("info models/lenet.onnx");
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == RVL_EXIT_FAILED);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("progress");
	TCase *t = tcase_create("progress");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, eval_keeps);
	tcase_add_test(t, plan_keeps);
	tcase_add_test(t, bench_keeps);
	tcase_add_test(t, bench_warms_up);
	tcase_add_test(t, run_keeps);
	tcase_add_test(t, second_signal);
	tcase_add_test(t, plain_lines);
	tcase_add_test(t, bench_duration);
	tcase_add_test(t, closed_pipe);
	tcase_add_test(t, full_disk);
	suite_add_tcase(s, t);
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
/*
 * Verbs of the `rivulet` command on a node, whose driver and device are in this process: the answers must be those
 * of the linked model, and the counters those of the driver.
 */
#include <json-c/json.h>

#include "../../tool/device/engine.h"
#include "../../tool/json.h"
#include "fake_npu.h"
#include "files.h"
#include "suite.h"
#include "verb.h"
#include "verb_out.h"

static char node[32], words[600];

static void setup(void)
{
	npu_setup("zu3eg-64");
	snprintf(node, sizeof(node), "/dev/fd/%d", npu.fd);
}

/* Runs a verb on the node. */
static int on_node(const char *text)
{
	snprintf(words, sizeof(words), "%s --device %s", text, node);
	return verb(words);
}

static const char *text_of(struct json_object *o, const char *key)
{
	ck_assert_msg(rvl_json_member(o, key) != NULL, "no %s in %.500s", key, out);
	return json_object_get_string(rvl_json_member(o, key));
}

static void complained(const char *format, const char *name)
{
	char want[400];

	snprintf(want, sizeof(want), format, name);
	ck_assert_str_eq(rvl_tool_error, want);
}

/* Proves that a run on the node has the outputs and costs of a run on the linked model of its board. */
START_TEST(runs)
{
	static const char *const same[] = { "cycles", "macs", "utilisation", "device_s", "energy_j" };
	char name[64], first[400];
	double want[5];

	EXPECT("run models/lenet.onnx --seed 3 --json --device sim:zu3eg-64", 0);
	for (size_t i = 0; i < 5; i++)
		want[i] = number(json_out(), same[i]);
	snprintf(first, sizeof(first), "%s",
		 json_object_to_json_string(rvl_json_member(json_out(), "outputs")));
	ck_assert_int_eq(on_node("run models/lenet.onnx --seed 3 --json"), 0);
	snprintf(name, sizeof(name), "%s (zu3eg-64)", node);
	ck_assert_str_eq(text_of(json_out(), "device"), name);
	for (size_t i = 0; i < 5; i++)
		ck_assert_double_eq_tol(number(json_out(), same[i]), want[i], want[i] * 1e-9);
	ck_assert_str_eq(json_object_to_json_string(rvl_json_member(json_out(), "outputs")), first);
	ck_assert_uint_eq(npu.jobs, 1);
}
END_TEST

/*
 * Proves that the tool cannot set the level of a node, and that a node is no board name in other
 * options.
 */
START_TEST(boards)
{
	ck_assert_int_eq(on_node("run models/lenet.onnx --level 0"), RVL_EXIT_USAGE);
	complained("--level is for sim:BOARD; a device's level is set by its devfreq files, see rivulet info", "");
	EXPECT("explain models/lenet.onnx --board zu3eg-64", 0);
	{
		char *want = strdup(out);

		snprintf(words, sizeof(words), "explain models/lenet.onnx --board %s", node);
		EXPECT(words, 0);
		ck_assert_str_eq(out, want);
		free(want);
	}
	EXPECT("explain models/lenet.onnx --board /dev/fd/999", RVL_EXIT_ABSENT);
	complained("%s: No such file or directory; rivulet doctor finds the cause", "/dev/fd/999");
}
END_TEST

/* The counters of the measured runs differ from those of the warm-up: index i counts 120 * (i + 1). */
static void count(void)
{
	for (uint32_t i = 0; i < RIVULET_PERF_VALUES; i++) {
		npu.counter[i] = 999999;
		npu.counter_next[i] = 120ull * (i + 1);
	}
	npu.counter_next[DRM_RIVULET_PERF_JOBS] = 10;
	npu.counter_next[DRM_RIVULET_PERF_FAILED] = 3;
	npu.counter_next[DRM_RIVULET_PERF_CYCLES] = 2000;
}

/* Proves the sums, the values of a run and of a job, and the shares of the cycles. */
START_TEST(bench_counters)
{
	char *table;

	count();
	ck_assert_int_eq(on_node("bench models/lenet.onnx -n 5 --warmup 2 --depth 3 --counters"), 0);
	table = strstr(out, "  counters of");
	ck_assert_ptr_nonnull(table);
	ck_assert_str_eq(table,
		"  counters of 10 jobs, 3 of them failed\n"
		"  counter      a run  a job  unit    of the cycles\n"
		"  time            72     36  ns\n"
		"  cycles         400    200  cycles\n"
		"  load_busy      120     60  cycles         30.0 %\n"
		"  conv_busy      144     72  cycles         36.0 %\n"
		"  alu_busy       168     84  cycles         42.0 %\n"
		"  store_busy     192     96  cycles         48.0 %\n"
		"  stalls         216    108  cycles\n"
		"  read_bytes     240    120  bytes\n"
		"  write_bytes    264    132  bytes\n"
		"  macs           288    144  MACs\n"
		"  energy         312    156  pJ\n");
	ck_assert_ptr_null(strstr(out, "linked model"));
	SAYS(" with 3 in flight, of 5 runs\n");
	/*
	 * The counters are read once before the measured runs, which clears them, and once after
	 * the runs.
	 */
	ck_assert_uint_eq(npu.counter_reads, 2);
	ck_assert_uint_eq(npu.jobs, 2 + 5 + 5);
}
END_TEST

/* Proves that counters without jobs or cycles cause no division by zero. */
START_TEST(bench_counts_nothing)
{
	ck_assert_int_eq(on_node("bench models/lenet.onnx -n 2 --warmup 0 --depth 1 --counters"), 0);
	SAYS("  counters of 0 jobs, 0 of them failed\n");
	SAYS("  load_busy        0      0  cycles          0.0 %\n");
}
END_TEST

START_TEST(bench_counters_json)
{
	static const char *const names[] = { "jobs", "failed", "time", "cycles", "load_busy", "conv_busy", "alu_busy",
		"store_busy", "stalls", "read_bytes", "write_bytes", "macs", "energy" };
	struct json_object *c;

	count();
	ck_assert_int_eq(on_node("bench models/lenet.onnx -n 2 --warmup 0 --json --counters"), 0);
	check_json("rivulet.bench/1");
	c = rvl_json_member(json_out(), "counters");
	ck_assert_int_eq(json_object_object_length(c), 13);
	for (uint32_t i = 0; i < 13; i++)
		ck_assert_double_eq(number(c, names[i]), i == 0 ? 10 : i == 1 ? 3 : i == 3 ? 2000 : 120 * (i + 1));
	ck_assert_int_eq(on_node("bench models/lenet.onnx -n 2 --warmup 0 --json"), 0);
	ck_assert_ptr_null(rvl_json_member(json_out(), "counters"));
}
END_TEST

static void fault(struct npu_job *j, struct rivulet_status *st)
{
	j->status = -EIO;
	*st = (struct rivulet_status) { .state = RIVULET_STATE_FAULT, .fault = RIVULET_FAULT_SLOT_LIMIT };
	npu_seal(st);
}

/* Proves that a job that fails ends run and bench, with the text of the runtime and the exit status of a failure. */
START_TEST(failed_jobs)
{
	npu.answer = fault;
	ck_assert_int_eq(on_node("run models/lenet.onnx --seed 3"), RVL_EXIT_FAILED);
	ck_assert(strlen(rvl_tool_error) > 10);
	ck_assert_str_eq(out, "");
	ck_assert_int_eq(on_node("bench models/lenet.onnx -n 2 --warmup 0 --json"), RVL_EXIT_FAILED);
	check_json("rivulet.error/1");
	npu.answer = NULL;
	npu.refuse[NPU_SUBMIT] = ENODEV;
	ck_assert_int_eq(on_node("run models/lenet.onnx --seed 3"), RVL_EXIT_FAILED);
	npu.refuse[NPU_SUBMIT] = 0;
}
END_TEST

#define FRAMES 7

/*
 * A job runs only when two more are queued behind it, or no more will come. So it ends only if the CPU
 * steps before the NPU step of the next two frames have run meanwhile.
 */
static void behind_two(void)
{
	if (npu.jobs == FRAMES)
		npu_run(FRAMES);
	else if (npu.jobs > 2)
		npu_run(1);
}

#define SCORES (FRAMES * 10)

/* Reads the scores that --output wrote, those of all frames behind each other. */
static void read_scores(const char *dir, float *to)
{
	size_t size, bytes;
	uint8_t *file = read_file(path_in(dir, "scores.npy"), &size);
	const void *data = npy_data(file, size, &bytes);

	ck_assert_uint_eq(bytes, SCORES * sizeof(*to));
	memcpy(to, data, bytes);
	free(file);
}

/*
 * Proves that up to three frames are in flight without an option, that the outputs are in the order of
 * the frames, and that they are those of frames that run one after the other.
 */
START_TEST(pipelined)
{
	char dir[SCRATCH_MAX], text[300];
	float one[SCORES], three[SCORES];

	make_scratch(dir);
	snprintf(text, sizeof(text), "run models/lenet.onnx --frames %d --depth 1 --output %s/one", FRAMES, dir);
	ck_assert_int_eq(on_node(text), 0);
	ck_assert_uint_eq(npu.jobs, FRAMES);
	npu.jobs = 0;
	npu.hold = true;
	npu.held = behind_two;
	snprintf(text, sizeof(text), "run models/lenet.onnx --frames %d --json --output %s/three", FRAMES, dir);
	ck_assert_int_eq(on_node(text), 0);
	ck_assert_double_eq(number(json_out(), "runs"), FRAMES);
	ck_assert_double_eq(number(json_out(), "depth"), 3);
	read_scores(path_in(dir, "one"), one);
	read_scores(path_in(dir, "three"), three);
	ck_assert_mem_eq(one, three, sizeof(one));
	for (int i = 1; i < FRAMES; i++)
		ck_assert_mem_ne(one, one + 10 * i, 10 * sizeof(float));
	remove_scratch(dir);
}
END_TEST

/* The job of frame 2 fails. */
static void fault_once(struct npu_job *j, struct rivulet_status *st)
{
	if (j == &npu.log[2])
		fault(j, st);
	else
		npu_execute(j, st);
}

/*
 * Proves that a frame that fails is counted, and that the frames in flight with it have their outputs;
 * the command fails in the end.
 */
START_TEST(one_frame_fails)
{
	char dir[SCRATCH_MAX], text[300];
	float all[SCORES], rest[SCORES];

	make_scratch(dir);
	snprintf(text, sizeof(text), "run models/lenet.onnx --frames %d --output %s/all", FRAMES, dir);
	ck_assert_int_eq(on_node(text), 0);
	npu.jobs = 0;
	npu.hold = true;
	npu.held = behind_two;
	npu.answer = fault_once;
	snprintf(text, sizeof(text), "run models/lenet.onnx --frames %d --output %s/rest", FRAMES, dir);
	ck_assert_int_eq(on_node(text), RVL_EXIT_FAILED);
	ck_assert(strlen(rvl_tool_error) > 10);
	SAYS("  1 of 7 FAILED\n");
	read_scores(path_in(dir, "all"), all);
	read_scores(path_in(dir, "rest"), rest);
	for (int i = 0; i < FRAMES; i++)
		if (i != 2)
			ck_assert_mem_eq(all + 10 * i, rest + 10 * i, 10 * sizeof(float));
	remove_scratch(dir);
}
END_TEST

/* Proves the class of an errno, by which every verb chooses its exit status. */
START_TEST(exits)
{
	static const int absent[] = { ENOENT, ENODEV, EACCES, EPERM, ECONNREFUSED, EPROTO };
	static const int refused[] = { EINVAL, EOPNOTSUPP, EBADMSG, E2BIG, EFBIG, ENOEXEC };
	static const int failed[] = { ENOMEM, EIO, ETIMEDOUT, ECANCELED, EBUSY, ENOSPC };

	for (size_t i = 0; i < 6; i++) {
		ck_assert_int_eq(rvl_exit_of(-absent[i]), RVL_EXIT_ABSENT);
		ck_assert_int_eq(rvl_exit_of(-refused[i]), RVL_EXIT_REFUSED);
		ck_assert_int_eq(rvl_exit_of(-failed[i]), RVL_EXIT_FAILED);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("on_node");
	TCase *t = add_case(s, "on_node", 60, setup, npu_teardown);

	tcase_add_test(t, runs);
	tcase_add_test(t, boards);
	tcase_add_test(t, bench_counters);
	tcase_add_test(t, bench_counts_nothing);
	tcase_add_test(t, bench_counters_json);
	tcase_add_test(t, failed_jobs);
	tcase_add_test(t, pipelined);
	tcase_add_test(t, one_frame_fails);
	tcase_add_test(t, exits);
	return run_suite(s);
}

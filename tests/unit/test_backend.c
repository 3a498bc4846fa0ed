// SPDX-License-Identifier: MIT
/*
 * The runtime on the interface of the kernel driver: what it submits, and how it handles every
 * answer.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "../../runtime/internal.h"
#include "fake_npu.h"
#include "made_program.h"
#include "rivulet_compiler.h"
#include "suite.h"

#define PIXELS 784
#define SCORES 10
#define PAGE   4096u

static struct rivulet_workers *workers;
static struct rivulet_runtime *rt;
static struct rivulet_runtime_error err;
static struct rivulet_device *dev;
static struct rivulet_blob blob;
static float pixels[PIXELS] __attribute__((aligned(64)));
static float scores[SCORES] __attribute__((aligned(64)));

static void picture(uint32_t seed)
{
	for (int i = 0; i < PIXELS; i++) {
		seed = seed * 1664525 + 1013904223;
		pixels[i] = (float)(seed >> 24) / 255.0f;
	}
}

static void setup(void)
{
	npu_setup("zu3eg-64");
	dev = npu_device();
	ck_assert(!rivulet_workers_new(2, &workers));
	ck_assert_msg(!rivulet_runtime_new_device(dev, workers, &rt, &err), "%s", err.text);
	picture(1);
}

static void teardown(void)
{
	rivulet_blob_free(&blob);
	ck_assert_ptr_null(rivulet_runtime_unref(rt));
	ck_assert_ptr_null(rivulet_device_unref(dev));
	ck_assert_ptr_null(rivulet_workers_unref(workers));
	npu_teardown();
}

static void compile_with(const char *model, const struct rivulet_compile_options *o,
			 struct rivulet_blob *out)
{
	static char data[1 << 20];
	struct rvl_err e = { "" };
	FILE *f = fopen(model, "rbe");
	size_t n;

	ck_assert_msg(f != NULL, "%s: run from the top of the tree", model);
	n = fread(data, 1, sizeof(data), f);
	fclose(f);
	ck_assert_msg(!rivulet_compile(data, n, rivulet_runtime_board(rt), o, out, NULL, &e), "%s",
		      e.msg);
}

static struct rivulet_exec *exec_of(struct rivulet_runtime *on, const void *file, size_t size)
{
	struct rivulet_image *img;
	struct rivulet_exec *x;

	ck_assert_msg(!rivulet_image_load(on, file, size, &img, &err), "%s", err.text);
	ck_assert_msg(!rivulet_exec_new(img, &x, &err), "%s", err.text);
	rivulet_image_unref(img);
	return x;
}

/* The demo model on the device, its input and output in plain memory. */
static struct rivulet_exec *lenet(void)
{
	static const struct rivulet_compile_options o;
	struct rivulet_exec *x;

	compile_with("models/lenet.onnx", &o, &blob);
	x = exec_of(rt, blob.data, blob.size);
	ck_assert(!rivulet_exec_bind_memory(x, 0, pixels, sizeof(pixels), &err));
	ck_assert(!rivulet_exec_bind_memory(x, 1, scores, sizeof(scores), &err));
	return x;
}

static int run(struct rivulet_exec *x, const struct rivulet_exec_params *p)
{
	int r = rivulet_exec_start(x, p, &err);

	return r ? r : rivulet_exec_wait(x, 60000);
}

/* Computes the result by the model's CPU kernels. The device gives the same bits. */
static void expect(float *want)
{
	static const struct rivulet_compile_options o = { .cpu_only = true };
	struct rivulet_blob cpu = { 0 };
	struct rivulet_runtime *other;
	struct rivulet_exec *x;

	compile_with("models/lenet.onnx", &o, &cpu);
	ck_assert(!rivulet_runtime_new_sim(&npu.board, workers, &other, &err));
	x = exec_of(other, cpu.data, cpu.size);
	ck_assert(!rivulet_exec_bind_memory(x, 0, pixels, sizeof(pixels), &err));
	ck_assert(!rivulet_exec_bind_memory(x, 1, want, SCORES * sizeof(*want), &err));
	ck_assert_int_eq(run(x, NULL), 0);
	rivulet_exec_unref(x);
	rivulet_runtime_unref(other);
	rivulet_blob_free(&cpu);
}

/* ---- the board ---- */

START_TEST(board)
{
	const struct rivulet_board *b;
	struct rivulet_runtime *other;
	struct rivulet_device *d;
	struct rivulet_target t;

	npu_teardown();
	npu_setup("sc-edge");
	d = npu_device();
	ck_assert(!rivulet_runtime_new_device(d, workers, &other, &err));
	b = rivulet_runtime_board(other);
	/* The driver does not report the width of the bus and the pace. */
	npu.board.dma_bits = 0;
	npu.board.pace_real = false;
	ck_assert_mem_eq(b, &npu.board, sizeof(*b));
	rivulet_runtime_unref(other);
	rivulet_device_unref(d);
	npu.info.flags = DRM_RIVULET_DEVICE_PACED;
	npu.info.isa_version = RIVULET_ISA_VERSION + 1;
	npu.info.level_count = 3;
	d = npu_device();
	ck_assert(!rivulet_runtime_new_device(d, workers, &other, &err));
	b = rivulet_runtime_board(other);
	ck_assert(b->pace_real);
	ck_assert_uint_eq(b->levels, 3);
	ck_assert_uint_eq(b->level[3].hz, 0);
	/* The highest level's costs are the board's. */
	ck_assert_uint_eq(b->fj_per_mac, npu.info.level[2].fj_per_mac);
	ck_assert_uint_eq(b->fj_per_byte, npu.info.level[2].fj_per_byte);
	ck_assert_uint_eq(b->static_uw, npu.info.level[2].static_uw);
	rivulet_runtime_target(other, &t);
	ck_assert_uint_eq(t.isa_version, RIVULET_ISA_VERSION + 1);
	ck_assert(t.tm == b->tm && t.tn == b->tn && t.dn == b->dn && t.inp_bytes == b->inp_bytes &&
		  t.wgt_bytes == b->wgt_bytes && t.acc_bytes == b->acc_bytes &&
		  t.modes == b->modes && t.queue_depth == b->queue_depth);
	rivulet_runtime_unref(other);
	rivulet_device_unref(d);
}
END_TEST

/*
 * The runtime cannot set level and pace of a real device, because devfreq and the device own them.
 */
START_TEST(what_only_the_model_can)
{
	ck_assert_int_eq(rivulet_runtime_set_level(rt, 0), -EOPNOTSUPP);
	ck_assert_int_eq(rivulet_runtime_set_level(rt, npu.board.levels), -EINVAL);
	ck_assert_int_eq(rivulet_runtime_set_paced(rt, true), -EOPNOTSUPP);
}
END_TEST

/* ---- runs ---- */

/* The demo model gives the results of its CPU kernels in every run. */
START_TEST(answers)
{
	struct rivulet_exec *x = lenet();
	float want[SCORES];

	if (_i)
		rivulet_runtime_set_offload(rt, true);
	for (uint32_t seed = 1; seed < 4; seed++) {
		picture(seed);
		expect(want);
		memset(scores, 0, sizeof(scores));
		ck_assert_int_eq(run(x, NULL), 0);
		ck_assert_mem_eq(scores, want, sizeof(want));
	}
	rivulet_exec_unref(x);
}
END_TEST

/* A failed run does not change the output. */
START_TEST(no_output_of_a_failed_run)
{
	struct rivulet_exec *x = lenet();
	float before[SCORES];

	ck_assert_int_eq(run(x, NULL), 0);
	memset(scores, 0x55, sizeof(scores));
	memcpy(before, scores, sizeof(before));
	npu.refuse[NPU_SUBMIT] = ENOSPC;
	ck_assert_int_eq(run(x, NULL), -ENOSPC);
	ck_assert_mem_eq(scores, before, sizeof(before));
	rivulet_exec_unref(x);
}
END_TEST

static const struct rivulet_step *first_npu_step(uint32_t *number)
{
	const struct rivulet_step *s = rivulet_program_steps(blob.data);

	for (*number = 0; s[*number].kind != RIVULET_STEP_NPU; (*number)++)
		;
	return &s[*number];
}

/* Each region is a slot of the step: its buffer, its bytes, and writable only where the step
 * writes. */
START_TEST(job)
{
	struct rivulet_exec *x = lenet();
	struct rivulet_exec_params p = { .deadline = INT64_MAX / 2, .soft = true, .min_level = 2 };
	const struct rivulet_program *h = blob.data;
	const struct npu_job *j = &npu.log[0];
	const struct drm_rivulet_region *r;
	const struct rivulet_step *s;
	uint32_t number, seen = 0;

	s = first_npu_step(&number);
	ck_assert_int_eq(run(x, &p), 0);
	ck_assert_uint_eq(npu.jobs, rivulet_exec_result(x)->npu_steps);
	for (uint32_t i = 0; i < j->job.region_count; i++) {
		bool write = j->region[i].flags & DRM_RIVULET_REGION_WRITE;
		uint32_t slot = j->region[i].slot;

		ck_assert(!(seen >> slot & 1));
		seen |= 1u << slot;
		ck_assert_uint_eq(write,
				  (s->writes_mask >> slot & 1) || slot == RIVULET_SLOT_REPORT);
	}
	/* The library adds the program, the arena and the report to the slots of the step. */
	ck_assert_uint_eq(seen, s->slots | 1u << RIVULET_SLOT_PROGRAM | 1u << RIVULET_SLOT_ARENA |
					1u << RIVULET_SLOT_REPORT);
	r = npu_region(j, RIVULET_SLOT_PROGRAM);
	ck_assert_uint_eq(r->size, blob.size);
	ck_assert_uint_eq(r->offset, 0);
	ck_assert_mem_eq(npu_bytes(r), blob.data, blob.size);
	ck_assert_uint_eq(npu_region(j, RIVULET_SLOT_ARENA)->size, h->arena_size);
	ck_assert_uint_eq(npu_region(j, RIVULET_SLOT_REPORT)->size, npu.jobs * 256);
	ck_assert_uint_eq(j->job.report_slot, RIVULET_SLOT_REPORT);
	ck_assert_uint_eq(j->job.report_offset, 0);
	ck_assert_uint_eq(j->job.variant_count, npu.board.levels);
	for (uint32_t l = 0; l < npu.board.levels; l++) {
		ck_assert_uint_eq(j->variant[l].offset, s->variant[l].offset);
		ck_assert_uint_eq(j->variant[l].length, s->variant[l].length);
		ck_assert_uint_eq(j->variant[l].slot, RIVULET_SLOT_PROGRAM);
	}
	ck_assert_uint_eq(j->job.min_level, 2);
	ck_assert_int_eq(j->job.deadline_ns, INT64_MAX / 2);
	ck_assert_uint_eq(j->job.perfmon, 0);
	ck_assert_uint_eq(j->job.flags, 0);
	ck_assert_uint_eq(j->job.in_sync_count, 0);
	ck_assert_uint_eq(j->job.out_sync_count, 1);
	ck_assert_uint_eq(j->out.point, 0);
	rivulet_exec_unref(x);
}
END_TEST

/* A device with fewer levels than the program was compiled for gets the variants of its own levels.
 */
START_TEST(fewer_levels)
{
	struct rivulet_exec *x = lenet();
	struct rivulet_runtime *other;
	struct rivulet_device *d;

	rivulet_exec_unref(x);
	npu.info.level_count = npu.level = 2;
	npu.level--;
	d = npu_device();
	ck_assert(!rivulet_runtime_new_device(d, workers, &other, &err));
	x = exec_of(other, blob.data, blob.size);
	ck_assert(!rivulet_exec_bind_memory(x, 0, pixels, sizeof(pixels), &err));
	ck_assert(!rivulet_exec_bind_memory(x, 1, scores, sizeof(scores), &err));
	ck_assert_int_eq(run(x, NULL), 0);
	ck_assert_uint_eq(npu.log[0].job.variant_count, 2);
	ck_assert_uint_eq(rivulet_exec_result(x)->level_max, 1);
	rivulet_exec_unref(x);
	rivulet_runtime_unref(other);
	rivulet_device_unref(d);
}
END_TEST

/* ---- chains of NPU steps ---- */

static void answer_done(struct npu_job *j, struct rivulet_status *st)
{
	uint32_t n = (uint32_t)(j - npu.log) + 1;

	*st = (struct rivulet_status){ .seq = n,
				       .state = RIVULET_STATE_DONE,
				       .level = n % 3 + 1,
				       .cycles = 1000 * n,
				       .start = 5000,
				       .end = 5000 + 7 * n,
				       .energy = 11 * n,
				       .conv_busy = 13 * n,
				       .read_bytes = 17 * n,
				       .write_bytes = 19 * n,
				       .macs = 23 * n };
	npu_seal(st);
}

/* @n NPU steps that do not depend on each other; a CPU step reads what the first of them writes. */
static struct rivulet_exec *made_chain(uint32_t n, bool depend)
{
	static float in[16], out[16];
	struct made *m = calloc(1, sizeof(*m));
	struct rivulet_exec *x;

	add_tensor(m, RIVULET_PLACE_INPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, 16);
	for (uint32_t i = 0; i < n; i++)
		add_tensor(m, RIVULET_PLACE_ARENA, 64 * i, 16);
	for (uint32_t i = 0; i < n; i++)
		add_npu_step(m, i && depend ? 1 + i : 0, 2 + i, 0xff);
	add_step(m, 2, UINT32_MAX, 1);
	rivulet_runtime_target(rt, &m->target);
	make_file(m);
	x = exec_of(rt, m->file, m->size);
	ck_assert(!rivulet_exec_bind_memory(x, 0, in, sizeof(in), &err));
	ck_assert(!rivulet_exec_bind_memory(x, 1, out, sizeof(out), &err));
	free(m->file);
	free(m);
	return x;
}

/*
 * At most eight NPU steps of a run are in the driver's queue. A step that needs the result of
 * another NPU step is queued behind it without waiting, because the device runs jobs in order.
 */
START_TEST(in_flight)
{
	struct rivulet_exec *x = made_chain(12, _i);
	const struct rivulet_exec_result *r = rivulet_exec_result(x);

	npu.hold = true;
	npu.answer = answer_done;
	ck_assert_int_eq(rivulet_exec_start(x, NULL, &err), 0);
	ck_assert_uint_eq(npu.jobs, 8);
	ck_assert_int_eq(rivulet_exec_wait(x, 1), -ETIMEDOUT);
	ck_assert_uint_eq(npu.jobs, 8);
	ck_assert_uint_eq(r->cpu_steps, 0);
	npu_run(1);
	while (!r->npu_steps)
		rivulet_exec_wait(x, 10);
	ck_assert_uint_eq(npu.jobs, 9);
	/* The CPU step needs the first NPU step only, and ends as soon as that has ended. */
	ck_assert_uint_eq(r->cpu_steps, 1);
	npu_run(8);
	while (r->npu_steps < 9)
		rivulet_exec_wait(x, 10);
	ck_assert_uint_eq(npu.jobs, 12);
	npu_run(3);
	ck_assert_int_eq(rivulet_exec_wait(x, 60000), 0);
	/* Each job has a report of its own, 256 bytes apart. */
	for (uint32_t i = 0; i < 12; i++) {
		ck_assert_uint_eq(npu.log[i].job.report_offset, 256 * i);
		ck_assert_uint_eq(rivulet_exec_step(x, i)->status.seq, i + 1);
		ck_assert(rivulet_exec_step(x, i)->ran);
		ck_assert_uint_le(rivulet_exec_step(x, i)->start_ns,
				  rivulet_exec_step(x, i)->end_ns);
		ck_assert_uint_ge(rivulet_exec_step(x, i)->start_ns, r->start_ns);
	}
	rivulet_exec_unref(x);
}
END_TEST

static void on_alarm(int signal)
{
	(void)signal;
}

/* Signals that the caller handles meanwhile do not end a wait before its time. */
START_TEST(interrupted_wait)
{
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct rivulet_exec *x = made_chain(3, false);
	int64_t start;

	npu.hold = true;
	npu.answer = answer_done;
	signal(SIGALRM, on_alarm);
	ck_assert_int_eq(rivulet_exec_start(x, NULL, &err), 0);
	start = rvl_rt_now();
	setitimer(ITIMER_REAL, &often, NULL);
	ck_assert_int_eq(rivulet_exec_wait(x, 200), -ETIMEDOUT);
	ck_assert_int_ge(rvl_rt_now() - start, 200000000);
	setitimer(ITIMER_REAL, &never, NULL);
	npu_run(3);
	ck_assert_int_eq(rivulet_exec_wait(x, 60000), 0);
	rivulet_exec_unref(x);
}
END_TEST

/*
 * A result is the sum over the steps, and so are the residency times of the levels at which they
 * ran.
 */
START_TEST(sums)
{
	struct rivulet_exec *x = made_chain(3, true);
	const struct rivulet_level_total *t = rivulet_runtime_totals(rt);
	const struct rivulet_exec_result *r = rivulet_exec_result(x);

	npu.answer = answer_done;
	ck_assert_int_eq(run(x, NULL), 0);
	ck_assert_uint_eq(r->npu_steps, 3);
	ck_assert_uint_eq(r->cpu_steps, 1);
	ck_assert_uint_eq(r->cycles, 6000);
	ck_assert_uint_eq(r->device_ns, 42);
	ck_assert_uint_eq(r->energy_pj, 66);
	ck_assert_uint_eq(r->conv_busy, 78);
	ck_assert_uint_eq(r->read_bytes, 102);
	ck_assert_uint_eq(r->write_bytes, 114);
	ck_assert_uint_eq(r->macs, 138);
	/* Levels 2, 3 and 1. */
	ck_assert_uint_eq(r->level_min, 1);
	ck_assert_uint_eq(r->level_max, 3);
	ck_assert_uint_eq(r->step, RIVULET_NO_STEP);
	ck_assert_str_eq(r->text, "");
	/* The jobs of a second run are the fourth to sixth. */
	ck_assert_int_eq(run(x, NULL), 0);
	ck_assert_uint_eq(r->cycles, 15000);
	for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
		uint32_t a = l == 1 ? 3 : l == 2 ? 1 : 2, sum = l && l < 4 ? 2 * a + 3 : 0;

		ck_assert_uint_eq(t[l].jobs, sum ? 2 : 0);
		ck_assert_uint_eq(t[l].cycles, 1000 * sum);
		ck_assert_uint_eq(t[l].device_ns, 7 * sum);
		ck_assert_uint_eq(t[l].energy_pj, 11 * sum);
		ck_assert_uint_eq(t[l].conv_busy, 13 * sum);
		ck_assert_uint_eq(t[l].read_bytes, 17 * sum);
		ck_assert_uint_eq(t[l].write_bytes, 19 * sum);
		ck_assert_uint_eq(t[l].macs, 23 * sum);
	}
	rivulet_exec_unref(x);
}
END_TEST

/* A step keeps its syncobj from run to run, and the exec destroys it. */
START_TEST(syncobjs_are_kept)
{
	struct rivulet_exec *x = made_chain(3, true);

	npu.answer = answer_done;
	ck_assert_uint_eq(npu.open_syncobjs, 0);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(run(x, NULL), 0);
		ck_assert_uint_eq(npu.open_syncobjs, 3);
		ck_assert_uint_eq(npu.log[3 * i + 1].out.handle, npu.log[1].out.handle);
	}
	ck_assert_uint_eq(npu.syncobjs, 3);
	rivulet_exec_unref(x);
	ck_assert_uint_eq(npu.open_syncobjs, 0);
}
END_TEST

/* Jobs submitted while a monitor is attached name it; the runtime holds a reference. */
START_TEST(monitor)
{
	struct rivulet_exec *x = made_chain(1, false);
	struct rivulet_perfmon *mon, *next;

	npu.answer = answer_done;
	ck_assert(!rivulet_perfmon_new(dev, &mon) && !rivulet_perfmon_new(dev, &next));
	ck_assert_int_eq(rivulet_runtime_monitor(rt, mon), 0);
	rivulet_perfmon_unref(mon);
	ck_assert_uint_eq(npu.monitors, 2);
	ck_assert_int_eq(run(x, NULL), 0);
	ck_assert_int_eq(rivulet_runtime_monitor(rt, next), 0);
	ck_assert_uint_eq(npu.monitors, 1);
	ck_assert_int_eq(run(x, NULL), 0);
	ck_assert_int_eq(rivulet_runtime_monitor(rt, NULL), 0);
	rivulet_perfmon_unref(next);
	ck_assert_uint_eq(npu.monitors, 0);
	ck_assert_int_eq(run(x, NULL), 0);
	ck_assert_uint_eq(npu.log[0].job.perfmon, 41);
	ck_assert_uint_eq(npu.log[1].job.perfmon, 42);
	ck_assert_uint_eq(npu.log[2].job.perfmon, 0);
	/* The runtime drops the last reference, which the fixture checks. */
	ck_assert(!rivulet_perfmon_new(dev, &mon));
	ck_assert_int_eq(rivulet_runtime_monitor(rt, mon), 0);
	rivulet_perfmon_unref(mon);
	rivulet_exec_unref(x);
}
END_TEST

/* The caller may select the variant of a run, whatever level the device has. */
START_TEST(forced_variant)
{
	struct made *m = calloc(1, sizeof(*m));
	struct rivulet_exec_params p = { .variant = 1 + 1 };
	struct rivulet_exec *x;
	float in[16] = { 0 }, out[16];

	npu.hold = true;
	npu.answer = answer_done;
	add_tensor(m, RIVULET_PLACE_INPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_ARENA, 0, 16);
	add_npu_step(m, 0, 2, 0x6)->min_level = 1;
	add_step(m, 2, UINT32_MAX, 1);
	rivulet_runtime_target(rt, &m->target);
	make_file(m);
	x = exec_of(rt, m->file, m->size);
	ck_assert(!rivulet_exec_bind_memory(x, 0, in, sizeof(in), &err));
	ck_assert(!rivulet_exec_bind_memory(x, 1, out, sizeof(out), &err));
	ck_assert_int_eq(rivulet_exec_start(x, &p, &err), 0);
	ck_assert_uint_eq(npu.jobs, 1);
	ck_assert_uint_eq(npu.log[0].job.variant_count, npu.board.levels);
	for (uint32_t l = 0; l < npu.board.levels; l++) {
		ck_assert_uint_eq(npu.log[0].variant[l].length, 16 * (1 + 1));
		ck_assert_uint_eq(npu.log[0].variant[l].offset, npu.log[0].variant[0].offset);
	}
	/* A selected variant does not require the levels for which the program was compiled. */
	ck_assert_uint_eq(npu.log[0].job.min_level, 0);
	npu_run(1);
	rivulet_exec_unref(x);
	/* The program has no variant of level 0, and level 8 does not exist. */
	x = exec_of(rt, m->file, m->size);
	ck_assert(!rivulet_exec_bind_memory(x, 0, in, sizeof(in), &err));
	ck_assert(!rivulet_exec_bind_memory(x, 1, out, sizeof(out), &err));
	p.variant = 1;
	ck_assert_int_eq(run(x, &p), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(
		strstr(rivulet_exec_result(x)->text, "no command stream for level 0"));
	p.variant = 1 + RIVULET_LEVELS;
	ck_assert_int_eq(run(x, &p), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(
		strstr(rivulet_exec_result(x)->text, "no command stream for level 8"));
	ck_assert_uint_eq(npu.jobs, 1);
	rivulet_exec_unref(x);
	free(m->file);
	free(m);
}
END_TEST

/* ---- buffers ---- */

static struct rivulet_buffer *buffer(uint64_t size)
{
	struct rivulet_buffer *b;

	ck_assert_msg(!rivulet_buffer_create(dev, size, &b), "%s", rivulet_last_error());
	return b;
}

static const struct drm_rivulet_region *region_with(const struct npu_job *j, uint32_t handle)
{
	for (uint32_t i = 0; i < j->job.region_count; i++)
		if (j->region[i].handle == handle)
			return &j->region[i];
	return NULL;
}

/*
 * A run works in the caller's own buffers from the bound offset on, and writes no other byte of
 * them.
 */
START_TEST(buffers)
{
	struct rivulet_exec *x = lenet();
	struct rivulet_buffer *in = buffer(2 * PAGE), *out = buffer(PAGE);
	uint32_t handle = rivulet_buffer_handle(in);
	float want[SCORES];
	void *map;

	expect(want);
	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 0, in, 128, &err), 0);
	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 1, out, 256, &err), 0);
	ck_assert(!rivulet_buffer_map(in, &map));
	memcpy((char *)map + 128, pixels, sizeof(pixels));
	ck_assert(!rivulet_buffer_map(out, &map));
	memset(map, 0x77, PAGE);
	ck_assert_int_eq(run(x, NULL), 0);
	ck_assert_mem_eq((char *)map + 256, want, sizeof(want));
	for (uint32_t i = 0; i < PAGE; i++)
		ck_assert(((char *)map)[i] == 0x77 || (i >= 256 && i < 256 + sizeof(want)));
	/* A binding holds a reference, which a new binding drops. */
	rivulet_buffer_unref(in);
	ck_assert(npu.bo[handle].open);
	ck_assert(!rivulet_exec_bind_memory(x, 0, pixels, sizeof(pixels), &err));
	ck_assert(!npu.bo[handle].open);
	rivulet_buffer_unref(out);
	rivulet_exec_unref(x);
}
END_TEST

/* A region of an NPU step is the bound buffer itself, limited to the bytes of the tensor. */
START_TEST(buffer_regions)
{
	struct made *m = calloc(1, sizeof(*m));
	struct rivulet_buffer *a = buffer(2 * PAGE), *b = buffer(PAGE);
	const struct drm_rivulet_region *r;
	struct rivulet_exec *x;
	struct rivulet_step *s;

	add_tensor(m, RIVULET_PLACE_INPUT, 0, 32);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, 16);
	s = add_npu_step(m, 0, 1, 0xff);
	s->slots |= 3u << RIVULET_SLOT_IO;
	s->writes_mask = 1u << (RIVULET_SLOT_IO + 1);
	rivulet_runtime_target(rt, &m->target);
	make_file(m);
	x = exec_of(rt, m->file, m->size);
	npu.answer = answer_done;
	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 0, a, PAGE + 64, &err), 0);
	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 1, b, PAGE - 64, &err), 0);
	ck_assert_int_eq(run(x, NULL), 0);
	r = region_with(&npu.log[0], rivulet_buffer_handle(a));
	ck_assert(r->slot == RIVULET_SLOT_IO && r->offset == PAGE + 64 && r->size == 128 &&
		  !r->flags);
	r = region_with(&npu.log[0], rivulet_buffer_handle(b));
	ck_assert(r->slot == RIVULET_SLOT_IO + 1 && r->offset == PAGE - 64 && r->size == 64 &&
		  r->flags == DRM_RIVULET_REGION_WRITE);
	/* The program has no arena, and an empty region would be refused. */
	ck_assert_ptr_null(npu_region(&npu.log[0], RIVULET_SLOT_ARENA));
	ck_assert_uint_eq(npu.log[0].job.region_count, 4);
	rivulet_exec_unref(x);
	rivulet_buffer_unref(a);
	rivulet_buffer_unref(b);
	free(m->file);
	free(m);
}
END_TEST

static int sealed_memfd(size_t size)
{
	int fd = memfd_create("io", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert(fd >= 0 && !ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

/* Whether the process has a mapping of a file of this name. */
static bool mapped(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	bool found = false;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, name) != NULL;
	fclose(f);
	return found;
}

static int answer_input; /* index of the input that the device reads */

static void answer_fault(struct npu_job *j, struct rivulet_status *st)
{
	(void)j;
	*st = (struct rivulet_status){ .state = RIVULET_STATE_FAULT,
				       .fault = RIVULET_FAULT_SLOT_LIMIT };
	npu_seal(st);
}

/* The device of these tests doubles: y = 2 x for each element of the output. */
static void answer_twice(struct npu_job *j, struct rivulet_status *st)
{
	const struct drm_rivulet_region *in =
		npu_region(j, RIVULET_SLOT_IO + (uint32_t)answer_input);
	const struct drm_rivulet_region *out = npu_region(j, RIVULET_SLOT_IO + 2);
	float *x = (void *)npu_bytes(in), *y = (void *)npu_bytes(out);

	ck_assert_uint_eq(in->flags, 0);
	ck_assert_uint_eq(out->flags, DRM_RIVULET_REGION_WRITE);
	for (uint64_t i = 0; i < out->size / 4; i++)
		y[i] = 2 * x[i];
	answer_done(j, st);
}

/*
 * Two inputs and two outputs, of which the NPU uses input @answer_input and the first output, and
 * the CPU the others.
 */
static struct rivulet_exec *made_doubler(void)
{
	struct made *m = calloc(1, sizeof(*m));
	struct rivulet_exec *x;
	struct rivulet_step *s;

	add_tensor(m, RIVULET_PLACE_INPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_INPUT, 1, 16);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 1, 16);
	s = add_npu_step(m, (uint32_t)answer_input, 2, 0xff);
	s->slots |= (1u << answer_input | 1u << 2) << RIVULET_SLOT_IO;
	s->writes_mask = 1u << (RIVULET_SLOT_IO + 2);
	add_step(m, 1 - (uint32_t)answer_input, UINT32_MAX, 3);
	rivulet_runtime_target(rt, &m->target);
	make_file(m);
	npu.answer = answer_twice;
	x = exec_of(rt, m->file, m->size);
	free(m->file);
	free(m);
	return x;
}

/*
 * Plain memory that an NPU step uses is copied into a buffer when the run starts, and back when the
 * run has succeeded. Memory that only CPU steps use needs no buffer.
 */
START_TEST(copies)
{
	float in[2][16], out[2][16];
	struct rivulet_exec *x;
	uint32_t before;

	answer_input = _i % 2;
	rivulet_runtime_set_offload(rt, _i / 2);
	x = made_doubler();
	before = npu.handles;
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert(!rivulet_exec_bind_memory(x, i, in[i], sizeof(in[i]), &err));
		ck_assert(!rivulet_exec_bind_memory(x, 2 + i, out[i], sizeof(out[i]), &err));
	}
	ck_assert_uint_eq(npu.handles, before + 2);
	for (int round = 1; round < 4; round++) {
		for (int i = 0; i < 16; i++) {
			in[answer_input][i] = (float)(round * i);
			in[1 - answer_input][i] = (float)(round * 100 + i);
		}
		npu.hold = true;
		memset(out, 0x33, sizeof(out));
		ck_assert_int_eq(rivulet_exec_start(x, NULL, &err), 0);
		while (npu.jobs < (uint32_t)round)
			ck_assert_int_ge(rvl_rt_poll(rt, 1000), 0);
		memset(in[answer_input], 0, sizeof(in[0]));
		ck_assert_int_eq(((uint8_t *)out[0])[5], 0x33);
		npu_run(1);
		ck_assert_int_eq(rivulet_exec_wait(x, 60000), 0);
		for (int i = 0; i < 16; i++) {
			ck_assert_float_eq(out[0][i], (float)(2 * round * i));
			ck_assert_float_eq(out[1][i], (float)(round * 100 + i));
		}
	}
	/* A failed run does not change the caller's output. */
	memset(out, 0x33, sizeof(out));
	npu.answer = answer_fault;
	npu.hold = false;
	ck_assert_int_eq(run(x, NULL), -EIO);
	ck_assert_int_eq(((uint8_t *)out[0])[5], 0x33);
	rivulet_exec_unref(x);
}
END_TEST

/* A memfd uses the same path. If there is no memory for the buffer, its mapping is removed. */
START_TEST(copied_memfds)
{
	int fd = sealed_memfd(3 * PAGE), other = sealed_memfd(PAGE);
	float in[16], got[16], unused[2][16] = { { 0 } };
	struct rivulet_exec *x;

	answer_input = 0;
	x = made_doubler();
	for (int i = 0; i < 16; i++)
		in[i] = (float)(i + 1);
	ck_assert_int_eq(pwrite(fd, in, sizeof(in), PAGE + 128), sizeof(in));
	ck_assert(!rivulet_exec_bind_memory(x, 1, unused[0], sizeof(unused[0]), &err));
	ck_assert(!rivulet_exec_bind_memory(x, 3, unused[1], sizeof(unused[1]), &err));
	npu.refuse[NPU_CREATE] = ENOSPC;
	ck_assert_int_eq(rivulet_exec_bind_fd(x, 0, fd, PAGE + 128, &err), -ENOSPC);
	ck_assert(!mapped("/memfd:io"));
	npu.refuse[NPU_CREATE] = 0;
	ck_assert_int_eq(rivulet_exec_start(x, NULL, &err), -EINVAL);
	ck_assert_int_eq(rivulet_exec_bind_fd(x, 0, fd, PAGE + 128, &err), 0);
	ck_assert_int_eq(rivulet_exec_bind_fd(x, 2, other, PAGE - 64, &err), 0);
	ck_assert(mapped("/memfd:io"));
	ck_assert_int_eq(run(x, NULL), 0);
	ck_assert_int_eq(pread(other, got, sizeof(got), PAGE - 64), sizeof(got));
	for (int i = 0; i < 16; i++)
		ck_assert_float_eq(got[i], (float)(2 * (i + 1)));
	rivulet_exec_unref(x);
	ck_assert(!mapped("/memfd:io"));
	close(fd);
	close(other);
}
END_TEST

/* Memory that is too small, not aligned or not writable is refused with the reason. */
START_TEST(buffers_refused)
{
	struct rivulet_exec *x = lenet();
	struct rivulet_buffer *b = buffer(PAGE);

	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 0, b, 1024, &err), -EINVAL);
	ck_assert_ptr_nonnull(
		strstr(err.text, "has 3136 bytes; the memory has 4096 from offset 1024"));
	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 0, b, 960, &err), 0);
	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 0, b, 32, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "offset 32 is no multiple of 64"));
	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 2, b, 0, &err), -ERANGE);
	ck_assert_str_eq(err.text, "tensor 2 of 2");
	npu.refuse[NPU_IMPORT] = EBADF;
	ck_assert_int_eq(rivulet_exec_bind_fd(x, 0, STDIN_FILENO, 0, &err), -EBADF);
	ck_assert_ptr_nonnull(strstr(err.text, "cannot import dma-buf fd 0: Bad file descriptor"));
	npu.refuse[NPU_MAP] = ENOMEM;
	rivulet_buffer_unref(b);
	b = buffer(PAGE);
	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 0, b, 0, &err), -EIO);
	ck_assert_ptr_nonnull(strstr(err.text, "cannot map buffer"));
	rivulet_buffer_unref(b);
	rivulet_exec_unref(x);
}
END_TEST

/* An input may be in a read-only buffer, an output may not. */
START_TEST(read_only)
{
	struct rivulet_exec *x = lenet();
	struct rivulet_buffer *b;

	ck_assert(!rivulet_buffer_create_as(dev, PAGE, DRM_RIVULET_BO_READONLY, &b));
	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 1, b, 0, &err), -EACCES);
	ck_assert_ptr_nonnull(strstr(err.text, "the buffer is read-only"));
	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 0, b, 0, &err), 0);
	rivulet_buffer_unref(b);
	rivulet_exec_unref(x);
}
END_TEST

/* A descriptor of any other kind than memfd is a dma-buf, in which the device works directly. */
START_TEST(dma_buf)
{
	struct rivulet_exec *x = lenet();
	int pipefd[2];
	float want[SCORES];
	uint32_t handle = npu.handles + 1;

	expect(want);
	ck_assert(!pipe(pipefd));
	ck_assert_int_eq(rivulet_exec_bind_fd(x, 0, pipefd[0], 64, &err), 0);
	ck_assert_uint_eq(npu.handles, handle);
	memcpy(npu.mem + npu.bo[handle].at + 64, pixels, sizeof(pixels));
	memset(pixels, 0, sizeof(pixels));
	ck_assert_int_eq(run(x, NULL), 0);
	ck_assert_mem_eq(scores, want, sizeof(want));
	/* The library closes the descriptor of a dma-buf that is too small. */
	ck_assert_int_eq(rivulet_exec_bind_fd(x, 0, pipefd[0], 8192 - 64, &err), -EINVAL);
	ck_assert(!npu.bo[handle + 1].open);
	ck_assert(npu.bo[handle].open);
	close(pipefd[0]);
	close(pipefd[1]);
	rivulet_exec_unref(x);
}
END_TEST

/* CPU steps work in the memfd itself at the offset, where its owner finds the result. */
START_TEST(memfds)
{
	struct rivulet_exec *x = lenet();
	int in = sealed_memfd(3 * PAGE), out = sealed_memfd(PAGE);
	float want[SCORES], got[SCORES];

	expect(want);
	ck_assert_int_eq(pwrite(in, pixels, sizeof(pixels), PAGE + 192), sizeof(pixels));
	ck_assert_int_eq(rivulet_exec_bind_fd(x, 0, in, PAGE + 192, &err), 0);
	ck_assert_int_eq(rivulet_exec_bind_fd(x, 1, out, 64, &err), 0);
	ck_assert_int_eq(run(x, NULL), 0);
	ck_assert_int_eq(pread(out, got, sizeof(got), 64), sizeof(got));
	ck_assert_mem_eq(got, want, sizeof(want));
	/* The highest offset at which the input fits. */
	ck_assert_int_eq(rivulet_exec_bind_fd(x, 0, in, 3 * PAGE - 3136, &err), 0);
	ck_assert_int_eq(rivulet_exec_bind_fd(x, 0, in, 3 * PAGE - 3136 + 64, &err), -EINVAL);
	rivulet_exec_unref(x);
	close(in);
	close(out);
}
END_TEST

/* ---- errors ---- */

/* If the driver refuses any call while a program is loaded, loading fails and nothing is leaked. */
START_TEST(refused_at_load)
{
	static const struct rivulet_compile_options o = { .prof = true };
	struct rivulet_image *img;
	struct rivulet_exec *x;
	int r = 0;

	compile_with("models/lenet.onnx", &o, &blob);
	npu.refuse[NPU_CREATE] = ENOSPC;
	ck_assert_int_eq(rivulet_image_load(rt, blob.data, blob.size, &img, &err), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err.text, "No space left on device"));
	npu.refuse[NPU_CREATE] = 0;
	npu.refuse[NPU_MAP] = EPERM;
	ck_assert_int_eq(rivulet_image_load(rt, blob.data, blob.size, &img, &err), -EPERM);
	ck_assert_ptr_nonnull(strstr(err.text, "cannot map buffer"));
	npu.refuse[NPU_MAP] = 0;
	ck_assert_int_eq(rivulet_image_load(rt, blob.data, blob.size, &img, &err), 0);
	npu.refuse[NPU_CREATE] = ENOMEM;
	for (uint32_t n = 0; n < 20; n++) {
		npu.after[NPU_CREATE] = n;
		r = rivulet_exec_new(img, &x, &err);
		if (!r)
			break;
		ck_assert_int_eq(r, -ENOMEM);
		for (uint32_t i = 2; i < NPU_HANDLES; i++)
			ck_assert(!npu.bo[i].open || i == rivulet_buffer_handle(img->mem.buf));
	}
	ck_assert_int_eq(r, 0);
	rivulet_exec_unref(x);
	rivulet_image_unref(img);
}
END_TEST

/*
 * If the driver refuses a step, the run ends with the driver's errno, and the error names step and
 * call.
 */
START_TEST(refused_at_run)
{
	struct rivulet_exec *x = made_chain(3, true);
	const struct rivulet_exec_result *r = rivulet_exec_result(x);

	npu.answer = answer_done;
	npu.refuse[NPU_SYNCOBJ] = EMFILE;
	npu.after[NPU_SYNCOBJ] = 1;
	ck_assert_int_eq(run(x, NULL), -EMFILE);
	ck_assert_uint_eq(r->step, 1);
	ck_assert_msg(strstr(r->text, "step 1 of 4,") && strstr(r->text, "(NPU): ") &&
			      strstr(r->text, "cannot create a syncobj: Too many open files"),
		      "%s", r->text);
	/* The first step had been submitted. The run ended after that step. */
	ck_assert_uint_eq(npu.jobs, 1);
	ck_assert_uint_eq(r->npu_steps, 1);
	ck_assert(rivulet_exec_step(x, 0)->ran && !rivulet_exec_step(x, 1)->ran);
	npu.refuse[NPU_SYNCOBJ] = 0;
	npu.refuse[NPU_SUBMIT] = ENODEV;
	npu.after[NPU_SUBMIT] = 2;
	ck_assert_int_eq(run(x, NULL), -ENODEV);
	ck_assert_uint_eq(r->step, 2);
	ck_assert_msg(strstr(r->text, "submit of 1 jobs: No such device"), "%s", r->text);
	npu.refuse[NPU_SUBMIT] = 0;
	ck_assert_int_eq(run(x, NULL), 0);
	rivulet_exec_unref(x);
}
END_TEST

/*
 * A job whose fence cannot be polled is in flight nevertheless, so the run waits for it before it
 * reports the error.
 */
START_TEST(cannot_watch)
{
	struct rivulet_exec *x = made_chain(2, true);
	const struct rivulet_exec_result *r = rivulet_exec_result(x);
	int before;

	npu.answer = answer_done;
	npu.hold = true;
	if (_i)
		npu.plain_sync_file = true;
	else
		npu.refuse[NPU_SYNC_FILE] = ENFILE;
	before = dup(STDIN_FILENO);
	close(before);
	ck_assert_int_eq(run(x, NULL), _i ? -EPERM : -ENFILE);
	ck_assert_msg(strstr(r->text, _i ? "cannot watch a job: Operation not permitted" :
					   "cannot watch a job: Too many open files in system"),
		      "%s", r->text);
	ck_assert_uint_eq(npu.waits, 1);
	ck_assert(npu.jobs == 1 && npu.log[0].ran);
	/* No descriptor is left open: the next one has the same number as before. */
	ck_assert_int_eq(dup(STDIN_FILENO), before);
	close(before);
	npu.refuse[NPU_SYNC_FILE] = 0;
	npu.plain_sync_file = false;
	npu.hold = false;
	ck_assert_int_eq(run(x, NULL), 0);
	/* A run without a sync_file, after a run with one, closes no other descriptor. */
	npu.refuse[NPU_SYNC_FILE] = ENFILE;
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(run(x, NULL), -ENFILE);
	ck_assert_int_ge(fcntl(STDIN_FILENO, F_GETFD), 0);
	/* Descriptor 0 is valid. */
	npu.refuse[NPU_SYNC_FILE] = 0;
	npu.plain_sync_file = true;
	close(STDIN_FILENO);
	ck_assert_int_eq(run(x, NULL), -EPERM);
	ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD), -1);
	npu.plain_sync_file = false;
	rivulet_exec_unref(x);
}
END_TEST

static struct {
	uint32_t state, fault, slot, insn, level;
	uint64_t offset;
	int fence;    /* status of the fence */
	bool damaged; /* the report's checksum is wrong */
} answer;

static void answer_as_told(struct npu_job *j, struct rivulet_status *st)
{
	*st = (struct rivulet_status){ .state = answer.state,
				       .fault = answer.fault,
				       .fault_slot = answer.slot,
				       .fault_offset = answer.offset,
				       .insn = answer.insn,
				       .level = answer.level };
	npu_seal(st);
	st->crc ^= answer.damaged;
	j->status = answer.fence ? answer.fence : 1;
}

static const struct {
	uint32_t state, fault;
	int fence;
	bool damaged;
	const char *text;
} ends[] = {
	{ RIVULET_STATE_NO_VARIANT, 0, -EIO, false,
	  "the program has no command stream for level 3" },
	{ RIVULET_STATE_ABORTED, 0, -ETIME, false, "aborted by the driver: it made no progress" },
	{ RIVULET_STATE_FAULT, RIVULET_FAULT_SLOT_LIMIT, -EFAULT, false,
	  ", slot 5, offset 0x123456789, "
	  "instruction 77" },
	{ RIVULET_STATE_FAULT, RIVULET_FAULT_DESC_CRC, 1, false,
	  "fault 2 DESC_CRC: the descriptor's "
	  "checksum is wrong, instruction 77" },
	{ RIVULET_STATE_FAULT, 99, 1, false,
	  "fault 99 a fault that this version does not know, slot 5, "
	  "offset 0x123456789, instruction 77" },
	{ RIVULET_STATE_DONE, 0, 1, true, "no report; error of the driver: Input/output error" },
	{ RIVULET_STATE_DONE, 0, -ENODEV, true, "no report; error of the driver: No such device" },
	{ RIVULET_STATE_DONE, 0, -ETIME, true, "no report; error of the driver: Timer expired" },
	{ RIVULET_STATE_DONE, 0, -ECANCELED, true,
	  "no report; error of the driver: Operation canceled" },
};

/*
 * -ETIME and -ECANCELED are results of a run, not of a step. An error in the device's report is
 * -EIO.
 */
static int error_of(int i)
{
	return ends[i].damaged && ends[i].fence == -ENODEV ? -ENODEV : -EIO;
}

START_TEST(reports)
{
	struct rivulet_exec *x = made_chain(2, true);
	const struct rivulet_exec_result *r = rivulet_exec_result(x);
	char text[400];

	answer.state = ends[_i].state;
	answer.fault = ends[_i].fault;
	answer.fence = ends[_i].fence;
	answer.damaged = ends[_i].damaged;
	answer.slot = 5;
	answer.insn = 77;
	answer.level = 3;
	answer.offset = 0x123456789;
	npu.answer = answer_as_told;
	ck_assert_int_eq(run(x, NULL), error_of(_i));
	snprintf(text, sizeof(text), "step 0 of 3,  (NPU): ");
	ck_assert_msg(!strncmp(r->text, text, strlen(text)) && strstr(r->text, ends[_i].text), "%s",
		      r->text);
	ck_assert_uint_eq(r->step, 0);
	/* A damaged report is not passed to the caller. */
	ck_assert_uint_eq(r->status.state, ends[_i].damaged ? 0 : ends[_i].state);
	ck_assert_uint_eq(r->status.fault, ends[_i].damaged ? 0 : ends[_i].fault);
	ck_assert_uint_eq(r->npu_steps, ends[_i].damaged ? 0 : 2);
	ck_assert_uint_eq(rivulet_runtime_totals(rt)[3].jobs, ends[_i].damaged ? 0 : 2);
	/* The next steps were already in the queue. No further step starts. */
	ck_assert_uint_eq(r->cpu_steps, 0);
	rivulet_exec_unref(x);
}
END_TEST

/* A report without a fault does not hide the driver's error: the run fails with it. */
START_TEST(fence_error)
{
	struct rivulet_exec *x = made_chain(1, false);

	answer.state = RIVULET_STATE_DONE;
	answer.fence = -ENODEV;
	npu.answer = answer_as_told;
	ck_assert_int_eq(run(x, NULL), -ENODEV);
	answer.fence = 1;
	ck_assert_int_eq(run(x, NULL), 0);
	rivulet_exec_unref(x);
}
END_TEST

/* Cancelling waits for the jobs in flight; their results are not used. */
START_TEST(cancelled)
{
	struct rivulet_exec *x = made_chain(12, true);
	const struct rivulet_exec_result *r = rivulet_exec_result(x);

	npu.hold = true;
	npu.answer = answer_done;
	ck_assert_int_eq(rivulet_exec_start(x, NULL, &err), 0);
	rivulet_exec_cancel(x);
	ck_assert_int_eq(rivulet_exec_wait(x, 1), -ETIMEDOUT);
	npu_run(NPU_LOG);
	ck_assert_int_eq(rivulet_exec_wait(x, 60000), -ECANCELED);
	ck_assert_str_eq(r->text, "cancelled");
	ck_assert_uint_eq(r->step, RIVULET_NO_STEP);
	ck_assert_uint_eq(npu.jobs, 8);
	ck_assert_uint_eq(r->npu_steps, 8);
	ck_assert_uint_eq(r->cpu_steps, 0);
	rivulet_exec_unref(x);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("backend");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, board);
	tcase_add_test(t, what_only_the_model_can);
	tcase_add_loop_test(t, answers, 0, 2);
	tcase_add_test(t, no_output_of_a_failed_run);
	tcase_add_test(t, job);
	tcase_add_test(t, fewer_levels);
	tcase_add_test(t, forced_variant);
	tcase_add_loop_test(t, in_flight, 0, 2);
	tcase_add_test(t, sums);
	tcase_add_test(t, interrupted_wait);
	tcase_add_test(t, syncobjs_are_kept);
	tcase_add_test(t, monitor);
	tcase_add_test(t, buffers);
	tcase_add_test(t, buffer_regions);
	tcase_add_loop_test(t, copies, 0, 4);
	tcase_add_test(t, copied_memfds);
	tcase_add_test(t, buffers_refused);
	tcase_add_test(t, read_only);
	tcase_add_test(t, dma_buf);
	tcase_add_test(t, memfds);
	tcase_add_test(t, refused_at_load);
	tcase_add_test(t, refused_at_run);
	tcase_add_loop_test(t, cannot_watch, 0, 2);
	tcase_add_loop_test(t, reports, 0, (int)(sizeof(ends) / sizeof(ends[0])));
	tcase_add_test(t, fence_error);
	tcase_add_test(t, cancelled);
	suite_add_tcase(s, t);
	return run_suite(s);
}

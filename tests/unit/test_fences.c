// SPDX-License-Identifier: MIT
/*
 * Memory that a run shares with other devices and with itself: fences of dma-bufs, and bindings
 * with the same bytes.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "onnx_text.h"
#include "rivulet_compiler.h"
#include "runtime_rig.h"
#include "suite.h"

#define PAGE   4096u

/* A model of CPU steps. */
static struct rivulet_exec *exec_of(const char *text)
{
	static const struct rivulet_compile_options o = { .cpu_only = true };
	struct rivulet_blob blob = { .data = NULL };
	struct pb model = ot_model(text, 13);
	struct rvl_err e = { "" };
	struct rivulet_exec *x;

	ck_assert_msg(!rivulet_compile(model.p, model.n, rivulet_runtime_board(rt), &o, &blob, NULL,
				       &e), "%s", e.msg);
	free(model.p);
	x = exec_of_file(blob.data, blob.size);
	rivulet_blob_free(&blob);
	return x;
}

static int run(struct rivulet_exec *x, const struct rivulet_exec_params *p)
{
	int r = rivulet_exec_start(x, p, &err);

	return r ? r : rivulet_exec_wait(x, 60000);
}

/* ---- dma-bufs whose producers have not finished ---- */

#define SHARED 64u	/* offset of tensors in dma-bufs */

static void indices_ready(uint8_t *bytes)
{
	static const int64_t index[4] = { 3, 2, 1, 0 };

	memcpy(bytes + SHARED, index, sizeof(index));
}

static void floats_ready(uint8_t *bytes)
{
	static const float x[4] = { 10, -11, 12, -13 };

	memcpy(bytes + SHARED, x, sizeof(x));
}

static void reader_done(uint8_t *bytes)
{
	memset(bytes, 0x55, PAGE);
}

/* A model of CPU steps with so many tensors, each in a dma-buf of its own. */
static struct rivulet_exec *importing(const char *text, uint32_t tensors)
{
	struct rivulet_exec *x = exec_of(text);
	int pipefd[2];

	ck_assert(!pipe(pipefd));
	for (uint32_t i = 0; i < tensors; i++)
		ck_assert_msg(!rivulet_exec_bind_fd(x, i, pipefd[0], SHARED, &err), "%s", err.text);
	close(pipefd[0]);
	close(pipefd[1]);
	return x;
}

static uint32_t handle_of(const struct rivulet_exec *x, uint32_t tensor)
{
	const struct rvl_rt_binding *b = &x->bind[tensor];

	return rivulet_buffer_handle(b->from ? b->from : b->mem.buf);
}

static void fill_by(const struct rivulet_exec *x, uint32_t tensor, struct npu_producer *p)
{
	npu.bo[handle_of(x, tensor)].producer = p;
}

static const void *shared_bytes(const struct rivulet_exec *x, uint32_t tensor)
{
	return npu.mem + npu.bo[handle_of(x, tensor)].at + SHARED;
}

static void expect_ended(const struct rivulet_exec *x, uint32_t tensors)
{
	for (uint32_t i = 0; i < tensors; i++)
		ck_assert_msg(!npu.bo[handle_of(x, i)].cpu, "the access to tensor %u goes on", i);
}

/*
 * Proves that tensors are copied from and to dma-bufs only when the fences there have signalled:
 * those of the producers of inputs, and those of another device that reads the output. The first
 * round has fences that take several waits, the second one has none that does.
 */
START_TEST(fences_of_dma_bufs)
{
	static const float want[4] = { -13, 12, -11, 10 };
	struct npu_producer p[3] = { { .done = floats_ready, .waits = 2 },
				     { .done = indices_ready, .waits = 3 },
				     { .done = reader_done, .waits = 1 } };
	struct rivulet_exec *x;

	rivulet_runtime_set_offload(rt, _i);
	x = importing("in x f32 4; in i s64 4; Gather x i -> y axis=0; out y f32 4", 3);
	ck_assert(x->bind[0].user && x->bind[1].user && x->bind[2].user);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 3; i++) {
			fill_by(x, i, &p[i]);
			p[i].access = 0;
		}
		ck_assert_msg(!run(x, NULL), "%s", rivulet_exec_result(x)->text);
		ck_assert_mem_eq(shared_bytes(x, 2), want, sizeof(want));
		ck_assert_uint_eq(p[0].access, DRM_RIVULET_ACCESS_READ);
		ck_assert_uint_eq(p[1].access, DRM_RIVULET_ACCESS_READ);
		ck_assert(p[2].access & DRM_RIVULET_ACCESS_WRITE);
		expect_ended(x, 3);
	}
	rivulet_exec_unref(x);
}
END_TEST

/* Proves the same for an input that a step reads in place and an output that it writes in place. */
START_TEST(fences_without_copies)
{
	static const float want[4] = { 10, 0, 12, 0 };
	struct npu_producer in = { .done = floats_ready, .waits = 2 },
			    out = { .done = reader_done, .waits = 2 };
	struct rivulet_exec *x;

	rivulet_runtime_set_offload(rt, _i);
	x = importing("in x f32 4; Relu x -> y; out y f32 4", 2);
	ck_assert(!x->bind[0].user && !x->bind[1].user);
	fill_by(x, 0, &in);
	fill_by(x, 1, &out);
	ck_assert_msg(!run(x, NULL), "%s", rivulet_exec_result(x)->text);
	ck_assert_mem_eq(shared_bytes(x, 1), want, sizeof(want));
	expect_ended(x, 2);
	rivulet_exec_unref(x);
}
END_TEST

/*
 * Proves that the wait for a producer that never finishes blocks neither the start of the run nor
 * its end by a cancel or a deadline, and that a later run succeeds.
 */
START_TEST(stopped_in_the_wait)
{
	struct rivulet_exec_params p = { .deadline = 0 };
	struct npu_producer never = { .done = floats_ready, .waits = UINT32_MAX };
	struct rivulet_exec *x;

	rivulet_runtime_set_offload(rt, _i);
	x = importing("in x f32 4; Relu x -> y; out y f32 4", 2);
	fill_by(x, 0, &never);
	ck_assert_int_eq(rivulet_exec_start(x, NULL, &err), 0);
	ck_assert_int_eq(rivulet_exec_wait(x, 20), -ETIMEDOUT);
	rivulet_exec_cancel(x);
	ck_assert_int_eq(rivulet_exec_wait(x, -1), -ECANCELED);
	/* The library's text would be of an earlier call. */
	ck_assert_str_eq(x->copy.why, "tensor x: the run was stopped");
	p.deadline = rvl_rt_now() + 30000000;
	ck_assert_int_eq(run(x, &p), -ETIME);
	ck_assert_uint_eq(rivulet_exec_result(x)->cpu_steps, 0);
	never.waits = 0;
	ck_assert_int_eq(run(x, NULL), 0);
	expect_ended(x, 2);
	rivulet_exec_unref(x);
}
END_TEST

/* Proves that a run ends with the driver's error when the access cannot begin, or cannot end. */
START_TEST(sync_refused)
{
	struct rivulet_exec *x;

	x = importing("in x f32 4; Relu x -> y; out y f32 4", 2);
	for (uint32_t good = 0; good < 4; good++) {
		npu.refuse[NPU_SYNC] = EIO;
		npu.after[NPU_SYNC] = good;
		ck_assert_int_eq(run(x, NULL), -EIO);
		ck_assert_ptr_nonnull(strstr(rivulet_exec_result(x)->text, "CPU access to buffer"));
		ck_assert_uint_eq(rivulet_exec_result(x)->cpu_steps, good >= 2);
	}
	npu.refuse[NPU_SYNC] = 0;
	ck_assert_int_eq(run(x, NULL), 0);
	ck_assert_str_eq(rivulet_exec_result(x)->text, "");
	rivulet_exec_unref(x);
}
END_TEST

/* ---- bindings with the same bytes ---- */

/*
 * Proves that a run is refused whose output has a byte of its input, and that neighbours in one
 * buffer are not.
 */
START_TEST(overlapping)
{
	static const struct {
		uint64_t at;
		int result;
	} out[] = { { 0, 0 }, { 64, -EINVAL }, { 128, -EINVAL }, { 192, -EINVAL }, { 256, 0 } };
	struct rivulet_exec *x = exec_of("in x f32 16,3; ReduceMax x -> y axes=[1] keepdims=0; out y f32 16");
	struct rivulet_buffer *b;

	ck_assert_msg(!rivulet_buffer_create(dev, PAGE, &b), "%s", rivulet_last_error());
	ck_assert_int_eq(rivulet_exec_bind_buffer(x, 0, b, 64, &err), 0);
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {
		ck_assert_int_eq(rivulet_exec_bind_buffer(x, 1, b, out[i].at, &err), 0);
		ck_assert_int_eq(run(x, NULL), out[i].result);
		ck_assert(!out[i].result || strstr(err.text, "output y shares bytes with input x"));
	}
	rivulet_buffer_unref(b);
	rivulet_exec_unref(x);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fences");
	TCase *t = add_case(s, "all", 60, setup, teardown);

	tcase_add_loop_test(t, fences_of_dma_bufs, 0, 2);
	tcase_add_loop_test(t, fences_without_copies, 0, 2);
	tcase_add_loop_test(t, stopped_in_the_wait, 0, 2);
	tcase_add_test(t, sync_refused);
	tcase_add_test(t, overlapping);
	return run_suite(s);
}

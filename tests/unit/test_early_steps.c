// SPDX-License-Identifier: MIT
/* CPU steps that the runtime issues while the NPU runs. */
#include <check.h>
#include <stdlib.h>

#include "made_program.h"
#include "runtime_rig.h"
#include "suite.h"

#define BIG 8192 /* floats; more than a step that runs inline may touch */

static void answer_done(struct npu_job *j, struct rivulet_status *st)
{
	*st = (struct rivulet_status){ .seq = (uint32_t)(j - npu.log) + 1,
				       .state = RIVULET_STATE_DONE };
	npu_seal(st);
}

static void count_end(struct rivulet_exec *x, void *data)
{
	(void)x;
	++*(int *)data;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(struct rvl_rt_task *t)
{
	(void)t;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

/*
 * Step 2 reads the input only, so it is issued while the NPU runs step 0, and on a worker: the
 * thread that waits has to issue step 1. When the NPU has ended, step 2 has ended (0) or is queued
 * (1). In both cases it runs once, and the run ends once, behind both.
 */
START_TEST(steps_under_way_join_no_chain)
{
	static float in[BIG], late[BIG], early[BIG];
	int ends = 0;
	const struct rivulet_exec_params p = { .waits = true, .done = count_end, .data = &ends };
	struct rvl_rt_task block[2] = { { .work = wait_at_gate }, { .work = wait_at_gate } };
	struct made *m = calloc(1, sizeof(*m));
	const struct rivulet_exec_result *r;
	struct rivulet_exec *x;

	add_tensor(m, RIVULET_PLACE_INPUT, 0, BIG);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, BIG);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 1, BIG);
	add_tensor(m, RIVULET_PLACE_ARENA, 0, BIG);
	add_npu_step(m, 0, 3, 0xff);
	add_step(m, 3, UINT32_MAX, 1);
	add_step(m, 0, UINT32_MAX, 2);
	rivulet_runtime_target(rt, &m->target);
	make_file(m);
	x = exec_of_file(m->file, m->size);
	r = rivulet_exec_result(x);
	ck_assert(!rivulet_exec_bind_memory(x, 0, in, sizeof(in), &err));
	ck_assert(!rivulet_exec_bind_memory(x, 1, late, sizeof(late), &err));
	ck_assert(!rivulet_exec_bind_memory(x, 2, early, sizeof(early), &err));
	npu.hold = true;
	npu.answer = answer_done;
	pthread_mutex_lock(&gate);
	for (int i = 0; i < 2 && _i; i++)
		rvl_rt_workers_push(workers, &block[i]);
	ck_assert_int_eq(rivulet_exec_start(x, &p, &err), 0);
	while (!_i && !r->cpu_steps)
		ck_assert_int_eq(rivulet_exec_wait(x, 10), -ETIMEDOUT);
	npu_run(1);
	while (!r->npu_steps)
		rivulet_exec_wait(x, 10);
	pthread_mutex_unlock(&gate);
	ck_assert_int_eq(rivulet_exec_wait(x, -1), 0);
	ck_assert_uint_eq(r->cpu_steps, 2);
	ck_assert_uint_gt(rivulet_exec_step(x, 2)->worker, 0);
	ck_assert_uint_eq(x->running, 0);
	rivulet_exec_unref(x);
	rivulet_runtime_dispatch(rt);
	ck_assert_int_eq(ends, 1);
	free(m->file);
	free(m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("early_steps");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, steps_under_way_join_no_chain, 0, 2);
	suite_add_tcase(s, t);
	return run_suite(s);
}

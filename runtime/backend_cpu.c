// SPDX-License-Identifier: MIT
/* No NPU: for programs whose steps all run on the CPU. */
#include <errno.h>
#include <stdio.h>

#include "internal.h"

/* Not reached: an image with NPU steps does not fit a board without an array. */
static int cpu_submit(struct rivulet_runtime *rt, const struct rvl_rt_npu_job *job,
		      struct rvl_rt_task *t, struct rivulet_runtime_error *err)
{
	(void)rt;
	(void)job;
	(void)t;
	return rvl_rt_fail(err, EOPNOTSUPP, "there is no NPU");
}

static void cpu_synced(struct rivulet_runtime *rt, struct rvl_rt_task *t)
{
	(void)rt;
	(void)t;
}

static int cpu_set_level(struct rivulet_runtime *rt, uint32_t level)
{
	(void)rt;
	(void)level;
	return -EOPNOTSUPP;
}

static void cpu_destroy(struct rivulet_runtime *rt)
{
	(void)rt;
}

static const struct rvl_rt_backend cpu_backend = {
	.mem_alloc = rvl_rt_heap_alloc,
	.submit = cpu_submit,
	.synced = cpu_synced,
	.set_level = cpu_set_level,
	.destroy = cpu_destroy,
	.plain_memory = true,
};

int rivulet_runtime_new_cpu(struct rivulet_workers *pool, struct rivulet_runtime **out,
			    struct rivulet_runtime_error *err)
{
	int r = rvl_rt_new(pool, &cpu_backend, out, err);

	if (!r)
		snprintf((*out)->board.name, sizeof((*out)->board.name), "cpu");
	return r;
}

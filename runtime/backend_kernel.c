// SPDX-License-Identifier: MIT
/*
 * Back end: the kernel driver, through the client library. The end of a job is a sync_file in the
 * runtime's epoll set, so that no thread waits for the device. All jobs go to one queue of the
 * driver, which runs them in order.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "internal.h"
#include "rivulet.h"
#include "rivulet_accel.h"

/* The runtime reads reports as the device specification defines them. */
_Static_assert(sizeof(struct rivulet_status) == sizeof(struct drm_rivulet_report),
	       "a report is a status");

static int kernel_alloc(struct rivulet_runtime *rt, uint64_t size, struct rvl_rt_mem *out,
			struct rivulet_runtime_error *err)
{
	struct rvl_rt_mem m = { .size = size };
	int r = rivulet_buffer_create(rt->dev, size ? size : 1, &m.buf);

	if (!r)
		r = rivulet_buffer_map(m.buf, &m.host);
	if (r) {
		rivulet_buffer_unref(m.buf);
		return rvl_rt_fail(err, -r, "%s", rivulet_last_error());
	}
	*out = m;
	return 0;
}

static uint32_t fill_regions(const struct rvl_rt_npu_job *job, struct drm_rivulet_region *region)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < RIVULET_SLOTS; i++) {
		const struct rvl_rt_mem *m = job->slot[i];
		bool write = job->step->writes_mask >> i & 1 || i == RIVULET_SLOT_REPORT;

		if (!m || !m->size)
			continue;
		region[n++] = (struct drm_rivulet_region) { .slot = i,
			.handle = rivulet_buffer_handle(m->buf), .offset = m->offset,
			.size = m->size, .flags = write ? DRM_RIVULET_REGION_WRITE : 0 };
	}
	return n;
}

/*
 * The commands of each level of the device. They come from the step of the job, not from the program,
 * because a run may force the commands of one level.
 */
static uint32_t fill_variants(const struct rvl_rt_npu_job *job, uint32_t levels,
			      struct drm_rivulet_variant *variant)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < levels; i++) {
		const struct rivulet_step_variant *v = &job->step->variant[i];

		variant[i] = (struct drm_rivulet_variant) { 0 };
		if (!v->length)
			continue;
		variant[i] = (struct drm_rivulet_variant) { .offset = v->offset,
			.length = v->length, .slot = RIVULET_SLOT_PROGRAM };
		n = i + 1;
	}
	return n;
}

/* The job is in flight, so on an error this waits for its end before it returns. */
static int watch_job(struct rivulet_runtime *rt, struct rvl_rt_task *t,
		     struct rivulet_runtime_error *err)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = t };
	int r = rivulet_fence_fd(t->fence, &t->sync_fd);

	if (!r && epoll_ctl(rt->epoll, EPOLL_CTL_ADD, t->sync_fd, &e))
		r = -errno;
	if (!r)
		return 0;
	rivulet_fence_wait(t->fence, INT64_MAX);
	if (t->sync_fd >= 0)
		close(t->sync_fd);
	t->sync_fd = -1;
	return rvl_rt_fail(err, -r, "cannot watch a job: %s", strerror(-r));
}

static int kernel_submit(struct rivulet_runtime *rt, const struct rvl_rt_npu_job *job,
			 struct rvl_rt_task *t, struct rivulet_runtime_error *err)
{
	struct drm_rivulet_region region[RIVULET_SLOTS];
	struct drm_rivulet_variant variant[RIVULET_LEVELS];
	struct drm_rivulet_sync out = { 0 };
	struct drm_rivulet_job j = { .regions = (uintptr_t)region, .variants = (uintptr_t)variant,
		.out_syncs = (uintptr_t)&out, .out_sync_count = 1,
		.min_level = job->min_level, .report_slot = RIVULET_SLOT_REPORT,
		.report_offset = job->report_offset, .deadline_ns = job->deadline,
		.perfmon = rt->mon ? rivulet_perfmon_id(rt->mon) : 0 };
	int r = t->fence ? 0 : rivulet_fence_new(rt->dev, &t->fence);

	if (r)
		return rvl_rt_fail(err, -r, "%s", rivulet_last_error());
	out.handle = rivulet_fence_handle(t->fence);
	j.region_count = fill_regions(job, region);
	j.variant_count = fill_variants(job, rt->board.levels, variant);
	r = rivulet_device_submit(rt->dev, &j, 1, NULL);
	if (r)
		return rvl_rt_fail(err, -r, "%s", rivulet_last_error());
	return watch_job(rt, t, err);
}

static void kernel_synced(struct rivulet_runtime *rt, struct rvl_rt_task *t)
{
	int r = rivulet_fence_status(t->sync_fd);

	epoll_ctl(rt->epoll, EPOLL_CTL_DEL, t->sync_fd, NULL);
	close(t->sync_fd);
	t->sync_fd = -1;
	t->error = r < 0 ? r : 0;
}

static int kernel_set_level(struct rivulet_runtime *rt, uint32_t level)
{
	(void)rt;
	(void)level;
	return -EOPNOTSUPP;
}

static void kernel_destroy(struct rivulet_runtime *rt)
{
	rivulet_perfmon_unref(rt->mon);
	rivulet_device_unref(rt->dev);
}

static const struct rvl_rt_backend kernel_backend = {
	.mem_alloc = kernel_alloc,
	.submit = kernel_submit,
	.synced = kernel_synced,
	.set_level = kernel_set_level,
	.destroy = kernel_destroy,
};

/* The device's properties as a board, which compiler and planner take. */
static void board_of(const struct drm_rivulet_device *d, struct rivulet_board *b)
{
	*b = (struct rivulet_board) { .tm = d->tm, .tn = d->tn, .dn = d->dn,
		.inp_bytes = d->inp_bytes, .wgt_bytes = d->wgt_bytes, .acc_bytes = d->acc_bytes,
		.port_bytes = d->port_bytes, .mem_latency = d->mem_latency,
		.burst_bytes = d->burst_bytes, .burst_gap = d->burst_gap, .bursts = d->bursts,
		.row_bytes = d->row_bytes, .alu_lanes = d->alu_lanes,
		.queue_depth = d->queue_depth, .modes = d->modes, .cycle_cap = d->cycle_cap,
		.pace_real = d->flags & DRM_RIVULET_DEVICE_PACED, .levels = d->level_count };
	memcpy(b->name, d->name, sizeof(b->name));
	for (uint32_t i = 0; i < b->levels; i++)
		b->level[i] = (struct rivulet_board_level) { .hz = d->level[i].hz,
			.microvolt = d->level[i].microvolt, .fj_per_mac = d->level[i].fj_per_mac,
			.fj_per_byte = d->level[i].fj_per_byte,
			.static_uw = d->level[i].static_uw };
	b->sc_lanes = d->sc_lanes;
	b->sc_blocks = d->sc_blocks;
	_Static_assert(sizeof(d->circuit) == sizeof(b->stream) - 2 * sizeof(b->stream[0]),
		       "a board has the same circuits, in the same order");
	memcpy(&b->stream[2], d->circuit, sizeof(d->circuit));
	b->fj_per_mac = d->level[b->levels - 1].fj_per_mac;
	b->fj_per_byte = d->level[b->levels - 1].fj_per_byte;
	b->static_uw = d->level[b->levels - 1].static_uw;
	rivulet_board_defaults(b);
}

int rivulet_runtime_new_device(struct rivulet_device *dev, struct rivulet_workers *pool,
			       struct rivulet_runtime **out, struct rivulet_runtime_error *err)
{
	struct rivulet_runtime *rt;
	int r = rvl_rt_new(pool, &kernel_backend, &rt, err);

	if (r)
		return r;
	rt->dev = rivulet_device_ref(dev);
	board_of(rivulet_device_info(dev), &rt->board);
	*out = rt;
	return 0;
}

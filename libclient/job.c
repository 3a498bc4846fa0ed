// SPDX-License-Identifier: MIT
/* Queues, jobs and fences: what a caller needs to run NPU steps without the daemon. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/sync_file.h>
#include <xf86drm.h>

#include "priv.h"
#include "rivulet_program.h"
#include "sized.h"

_Static_assert(DRM_RIVULET_MAX_LEVELS == RIVULET_LEVELS && DRM_RIVULET_MAX_REGIONS == RIVULET_SLOTS &&
	       RIVULET_MAX_LEVELS == RIVULET_LEVELS, "the installed headers have their own names");

struct rivulet_fence {
	atomic_int refs;
	struct rivulet_device *dev;	/* referenced */
	uint32_t handle;		/* syncobj */
};

int rivulet_fence_new(struct rivulet_device *dev, struct rivulet_fence **out)
{
	struct rivulet_fence *f = calloc(1, sizeof(*f));

	if (!f)
		return rvl_lib_fail(ENOMEM, "out of memory");
	if (drmSyncobjCreate(dev->fd, 0, &f->handle)) {
		free(f);
		return rvl_lib_fail(errno, "%s: cannot create a syncobj: %s", dev->path, strerror(errno));
	}
	atomic_init(&f->refs, 1);
	f->dev = rivulet_device_ref(dev);
	*out = f;
	return 0;
}

struct rivulet_fence *rivulet_fence_ref(struct rivulet_fence *fence)
{
	if (fence)
		atomic_fetch_add(&fence->refs, 1);
	return fence;
}

struct rivulet_fence *rivulet_fence_unref(struct rivulet_fence *fence)
{
	if (!fence || atomic_fetch_sub(&fence->refs, 1) != 1)
		return NULL;
	drmSyncobjDestroy(fence->dev->fd, fence->handle);
	rivulet_device_unref(fence->dev);
	free(fence);
	return NULL;
}

uint32_t rivulet_fence_handle(const struct rivulet_fence *fence)
{
	return fence->handle;
}

int rivulet_fence_wait(struct rivulet_fence *fence, int64_t deadline)
{
	uint32_t handle = fence->handle, first;
	int r = drmSyncobjWait(fence->dev->fd, &handle, 1, deadline,
			       DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT, &first);

	if (r == -ETIME)
		return rvl_lib_fail(ETIME, "%s: the job is not done yet", fence->dev->path);
	if (r)
		return rvl_lib_fail(-r, "%s: waiting for a job: %s", fence->dev->path, strerror(-r));
	return 0;
}

int rivulet_fence_fd(struct rivulet_fence *fence, int *sync_file)
{
	if (drmSyncobjExportSyncFile(fence->dev->fd, fence->handle, sync_file))
		return rvl_lib_fail(errno, "%s: the fence has no job yet: %s", fence->dev->path,
				strerror(errno));
	return 0;
}

int rivulet_fence_status(int sync_file)
{
	struct sync_file_info info = { 0 };

	if (ioctl(sync_file, SYNC_IOC_FILE_INFO, &info))
		return rvl_lib_fail(errno, "fd %d is no sync_file: %s", sync_file, strerror(errno));
	return info.status;
}

struct rivulet_job_queue {
	atomic_int refs;
	struct rivulet_device *dev;	/* referenced */
	uint32_t handle;
};

static int queue_create(struct rivulet_device *dev, int32_t priority, uint32_t *handle)
{
	struct drm_rivulet_queue_create c = { .priority = priority };

	if (drmIoctl(dev->fd, DRM_IOCTL_RIVULET_QUEUE_CREATE, &c))
		return rvl_lib_fail(errno, "%s: no queue of priority %d: %s", dev->path, priority,
				    strerror(errno));
	*handle = c.queue;
	return 0;
}

int rivulet_job_queue_new(struct rivulet_device *dev, int32_t priority, struct rivulet_job_queue **out)
{
	struct rivulet_job_queue *q = calloc(1, sizeof(*q));
	int r;

	if (!q)
		return rvl_lib_fail(ENOMEM, "out of memory");
	r = queue_create(dev, priority, &q->handle);
	if (r) {
		free(q);
		return r;
	}
	atomic_init(&q->refs, 1);
	q->dev = rivulet_device_ref(dev);
	*out = q;
	return 0;
}

struct rivulet_job_queue *rivulet_job_queue_ref(struct rivulet_job_queue *queue)
{
	if (queue)
		atomic_fetch_add(&queue->refs, 1);
	return queue;
}

struct rivulet_job_queue *rivulet_job_queue_unref(struct rivulet_job_queue *queue)
{
	struct drm_rivulet_queue_destroy d = { 0 };

	if (!queue || atomic_fetch_sub(&queue->refs, 1) != 1)
		return NULL;
	d.queue = queue->handle;
	drmIoctl(queue->dev->fd, DRM_IOCTL_RIVULET_QUEUE_DESTROY, &d);
	rivulet_device_unref(queue->dev);
	free(queue);
	return NULL;
}

/* The queue of submits that name none. It is created by the first of them. */
static int default_queue(struct rivulet_device *dev, uint32_t *handle)
{
	int r = 0;

	pthread_mutex_lock(&dev->lock);
	if (!dev->queue)
		r = queue_create(dev, DRM_RIVULET_PRIORITY_NORMAL, &dev->queue);
	*handle = dev->queue;
	pthread_mutex_unlock(&dev->lock);
	return r;
}

static int submit_failed(const struct rivulet_device *dev, uint32_t count, uint32_t refused, int err)
{
	if (refused < count)
		return rvl_lib_fail(err, "%s: job %u of %u refused: %s", dev->path, refused, count,
				    strerror(err));
	return rvl_lib_fail(err, "%s: submit of %u jobs: %s", dev->path, count, strerror(err));
}

int rivulet_device_submit_with(struct rivulet_device *dev, const struct drm_rivulet_job *jobs,
			       uint32_t count, const struct rivulet_submit_options *opts,
			       uint32_t *refused)
{
	struct rivulet_submit_options o;
	struct drm_rivulet_submit s = { .jobs = (uintptr_t)jobs, .count = count, .refused = count,
					.stride = sizeof(*jobs), .fence_fd = -1 };
	int r = RVL_READ(&o, opts, rivulet_submit_options, fence_fd);

	if (refused)
		*refused = count;
	if (r)
		return r;
	if (o.fence_fd)
		*o.fence_fd = -1;
	if (!count || count > DRM_RIVULET_MAX_JOBS)
		return rvl_lib_fail(EINVAL, "a submit has 1 to %u jobs, not %u", DRM_RIVULET_MAX_JOBS,
				    count);
	s.flags = o.fence_fd ? DRM_RIVULET_SUBMIT_FENCE_FD : 0;
	s.queue = o.queue ? o.queue->handle : 0;
	r = o.queue ? 0 : default_queue(dev, &s.queue);
	if (r)
		return r;
	if (drmIoctl(dev->fd, DRM_IOCTL_RIVULET_SUBMIT, &s)) {
		if (refused)
			*refused = s.refused;
		return submit_failed(dev, count, s.refused, errno);
	}
	if (o.fence_fd)
		*o.fence_fd = s.fence_fd;
	return 0;
}

int rivulet_device_submit(struct rivulet_device *dev, const struct drm_rivulet_job *jobs,
			  uint32_t count, uint32_t *refused)
{
	return rivulet_device_submit_with(dev, jobs, count, NULL, refused);
}

int rivulet_check_program(const struct rivulet_device *dev, const void *data, size_t size)
{
	struct rivulet_target t;
	char err[256];
	int r = rivulet_program_check(data, size, err, sizeof(err));

	if (!r && dev) {
		t = (struct rivulet_target) { .isa_version = dev->info.isa_version,
			.tm = dev->info.tm, .tn = dev->info.tn, .dn = dev->info.dn,
			.inp_bytes = dev->info.inp_bytes, .wgt_bytes = dev->info.wgt_bytes,
			.acc_bytes = dev->info.acc_bytes, .modes = dev->info.modes,
			.queue_depth = dev->info.queue_depth };
		r = rivulet_program_fits(data, &t, err, sizeof(err));
	}
	return r ? rvl_lib_fail(-r, "%s", err) : 0;
}

/* The buffer that a slot number of the compiler's convention (enum rivulet_slot) names, or NULL. */
static struct rivulet_buffer *slot_buffer(uint32_t slot, struct rivulet_buffer *program,
					  struct rivulet_buffer *arena,
					  struct rivulet_buffer *const *io, uint32_t io_count,
					  struct rivulet_buffer *report)
{
	if (slot == RIVULET_SLOT_PROGRAM)
		return program;
	if (slot == RIVULET_SLOT_ARENA)
		return arena;
	if (slot == RIVULET_SLOT_REPORT)
		return report;
	return slot - RIVULET_SLOT_IO < io_count ? io[slot - RIVULET_SLOT_IO] : NULL;
}

/* NULL when the checked program has no such step, or it runs on the CPU. */
static const struct rivulet_step *npu_step(const struct rivulet_program *p, uint32_t step)
{
	const struct rivulet_step *s = rivulet_program_steps(p);

	return step < p->steps && s[step].kind == RIVULET_STEP_NPU ? &s[step] : NULL;
}

uint32_t rivulet_job_variants(const void *program, uint32_t step, struct drm_rivulet_variant *v)
{
	const struct rivulet_step *s = npu_step(program, step);
	uint32_t count = 0;

	for (uint32_t i = 0; i < RIVULET_LEVELS; i++) {
		v[i] = (struct drm_rivulet_variant) { 0 };
		if (!s || !s->variant[i].length)
			continue;
		v[i] = (struct drm_rivulet_variant) { .offset = s->variant[i].offset,
			.length = s->variant[i].length, .slot = RIVULET_SLOT_PROGRAM };
		count = i + 1;
	}
	return count;
}

int rivulet_job_from_step(const void *program, uint32_t step,
			  struct rivulet_buffer *image, struct rivulet_buffer *arena,
			  struct rivulet_buffer *const *io, uint32_t io_count,
			  struct rivulet_buffer *report, uint64_t report_offset,
			  struct drm_rivulet_job *job, struct drm_rivulet_region *regions,
			  struct drm_rivulet_variant *variants)
{
	const struct rivulet_step *s = npu_step(program, step);
	uint32_t slots, count, n = 0;

	if (!s)
		return rvl_lib_fail(EINVAL, "step %u is no NPU step of the program", step);
	slots = s->slots | 1u << RIVULET_SLOT_PROGRAM | (report ? 1u << RIVULET_SLOT_REPORT : 0);
	for (uint32_t i = 0; i < RIVULET_SLOTS; i++) {
		struct rivulet_buffer *b;

		if (!(slots >> i & 1))
			continue;
		b = slot_buffer(i, image, arena, io, io_count, report);
		if (!b)
			return rvl_lib_fail(EINVAL, "step %u needs a buffer in slot %u", step, i);
		regions[n++] = (struct drm_rivulet_region) { .slot = i, .handle = b->handle,
			.size = b->size,
			.flags = i == RIVULET_SLOT_REPORT || s->writes_mask >> i & 1 ?
				 DRM_RIVULET_REGION_WRITE : 0 };
	}
	count = rivulet_job_variants(program, step, variants);
	if (count > image->dev->info.level_count)
		count = image->dev->info.level_count;
	*job = (struct drm_rivulet_job) { .regions = (uintptr_t)regions, .region_count = n,
		.variants = (uintptr_t)variants, .variant_count = count,
		.min_level = s->min_level, .report_offset = report ? report_offset : 0,
		.report_slot = report ? RIVULET_SLOT_REPORT : DRM_RIVULET_NO_REPORT };
	return 0;
}

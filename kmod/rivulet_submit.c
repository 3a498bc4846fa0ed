// SPDX-License-Identifier: GPL-2.0-only
/*
 * The submit ioctl. It plans all jobs of the array (arguments, memory, buffers, syncobjs), locks
 * the buffers and collects the fences to wait for, and then arms, publishes and pushes every job.
 * Every step that can fail precedes the arming of the first job, so that either all jobs are queued
 * or none.
 */
#include <drm/drm_exec.h>
#include <drm/drm_syncobj.h>
#include <linux/dma-fence-chain.h>
#include <linux/file.h>
#include <linux/nospec.h>
#include <linux/sync_file.h>

#include "rivulet_device.h"
#include "rivulet_trace.h"

/*
 * The most fences that one submit adds to a reservation. Finished fences of one queue share a
 * context, in which dma_resv_add_fence() replaces the older one of the same or a weaker usage, so
 * that at most one each for WRITE, READ and BOOKKEEP remains.
 */
#define RVL_RESV_FENCES	3

/* State of one submit call. */
struct rvl_submit {
	struct rvl_device *rdev;
	struct drm_file *file;
	struct rvl_client *client;
	struct rvl_client_queue *queue;
	struct sync_file *fence_file;	/* for the last job's fence, or NULL */
	struct list_head jobs;		/* struct rvl_job, in the order of the array */

	/* The job that is planned, and its arguments. */
	struct rvl_job *job;
	struct drm_rivulet_job args;
	u64 size[RIVULET_SLOTS];	/* bytes of each bound slot, else 0 */
	bool write[RIVULET_SLOTS];
};

static int rvl_check_args(struct rvl_submit *s)
{
	const struct drm_rivulet_job *a = &s->args;

	if (a->flags || a->deadline_ns < 0 ||
	    !a->region_count || a->region_count > DRM_RIVULET_MAX_REGIONS ||
	    !a->variant_count || a->variant_count > DRM_RIVULET_MAX_LEVELS ||
	    a->in_sync_count > DRM_RIVULET_MAX_SYNCS ||
	    a->out_sync_count > DRM_RIVULET_MAX_SYNCS ||
	    a->min_level >= s->rdev->info.level_count)
		return -EINVAL;
	return 0;
}

/* The usage of a job's fence in the reservation of a buffer that is bound with @flags. */
static enum dma_resv_usage rvl_region_usage(u32 flags)
{
	if (flags & DRM_RIVULET_REGION_NO_IMPLICIT_SYNC)
		return DMA_RESV_USAGE_BOOKKEEP;
	return flags & DRM_RIVULET_REGION_WRITE ? DMA_RESV_USAGE_WRITE : DMA_RESV_USAGE_READ;
}

/*
 * Add a looked-up buffer to the job, which takes over the reference. A buffer in several slots is
 * kept once, with the strongest usage, which has the lowest number.
 */
static void rvl_add_object(struct rvl_job *job, struct drm_gem_object *obj,
			   enum dma_resv_usage usage)
{
	u32 i;

	for (i = 0; i < job->obj_count; i++) {
		if (job->obj[i] == obj) {
			drm_gem_object_put(obj);
			job->usage[i] = min(job->usage[i], usage);
			return;
		}
	}
	job->obj[i] = obj;
	job->usage[i] = usage;
	job->obj_count++;
}

static int rvl_bind_region(struct rvl_submit *s, const struct drm_rivulet_region *r)
{
	bool write = r->flags & DRM_RIVULET_REGION_WRITE;
	struct drm_gem_object *obj;
	u64 end;
	u32 slot;

	if (r->slot >= RIVULET_SLOTS || r->pad ||
	    (r->flags & ~(DRM_RIVULET_REGION_WRITE | DRM_RIVULET_REGION_NO_IMPLICIT_SYNC)))
		return -EINVAL;
	slot = array_index_nospec(r->slot, RIVULET_SLOTS);
	if (s->size[slot] || !r->size || check_add_overflow(r->offset, r->size, &end))
		return -EINVAL;
	obj = drm_gem_object_lookup(s->file, r->handle);
	if (!obj)
		return -ENOENT;
	rvl_add_object(s->job, obj, rvl_region_usage(r->flags));
	if (end > obj->size)
		return -EINVAL;
	if (write && !rvl_rights_writable(s->client, r->handle, obj))
		return -EACCES;
	if (write)
		rvl_access_end(to_rvl_bo(obj), r->offset, r->size);
	rvl_gem_region(obj, r->offset, r->size, write, &s->job->desc.region[slot]);
	s->size[slot] = r->size;
	s->write[slot] = write;
	return 0;
}

/*
 * Elements of the caller's arrays are copied one at a time: the size is then constant, which spares
 * the checks of usercopy, and no memory for a whole array is needed.
 */
static int rvl_bind_regions(struct rvl_submit *s)
{
	struct drm_rivulet_region __user *user = u64_to_user_ptr(s->args.regions);
	struct drm_rivulet_region region;
	int ret = 0;
	u32 i;

	memset(s->size, 0, sizeof(s->size));
	memset(s->write, 0, sizeof(s->write));
	for (i = 0; i < s->args.region_count && !ret; i++) {
		if (copy_from_user(&region, &user[i], sizeof(region)))
			return -EFAULT;
		ret = rvl_bind_region(s, &region);
	}
	return ret;
}

/* Do @len bytes from @offset lie in a bound slot? */
static bool rvl_in_slot(struct rvl_submit *s, u32 slot, u64 offset, u64 len)
{
	u64 end;

	if (slot >= RIVULET_SLOTS || check_add_overflow(offset, len, &end))
		return false;
	return end <= s->size[array_index_nospec(slot, RIVULET_SLOTS)];
}

static int rvl_set_variant(struct rvl_submit *s, u32 level, const struct drm_rivulet_variant *v)
{
	struct rivulet_variant *out = &s->job->desc.variant[level];

	if (!v->length)
		return v->offset || v->slot ? -EINVAL : 0;
	if (level >= s->rdev->info.level_count || v->offset % 16 || v->length % 16 ||
	    !rvl_in_slot(s, v->slot, v->offset, v->length))
		return -EINVAL;
	out->offset = cpu_to_le64(v->offset);
	out->length = cpu_to_le32(v->length);
	out->slot = cpu_to_le32(v->slot);
	return 0;
}

static int rvl_set_variants(struct rvl_submit *s)
{
	struct drm_rivulet_variant __user *user = u64_to_user_ptr(s->args.variants);
	struct drm_rivulet_variant variant;
	bool any = false;
	u32 i;
	int ret;

	for (i = 0; i < s->args.variant_count; i++) {
		if (copy_from_user(&variant, &user[i], sizeof(variant)))
			return -EFAULT;
		ret = rvl_set_variant(s, i, &variant);
		if (ret)
			return ret;
		any |= variant.length;
	}
	return any ? 0 : -EINVAL;
}

static int rvl_set_report(struct rvl_submit *s)
{
	struct rivulet_desc *d = &s->job->desc;
	u32 slot = s->args.report_slot;
	u64 offset = s->args.report_offset;

	BUILD_BUG_ON(DRM_RIVULET_NO_REPORT != RIVULET_NO_SLOT);
	d->report_slot = cpu_to_le32(slot);
	if (slot == DRM_RIVULET_NO_REPORT)
		return offset ? -EINVAL : 0;
	if (offset % 8 || !rvl_in_slot(s, slot, offset, sizeof(struct drm_rivulet_report)))
		return -EINVAL;
	if (!s->write[array_index_nospec(slot, RIVULET_SLOTS)])
		return -EACCES;
	d->report_offset = cpu_to_le64(offset);
	return 0;
}

static int rvl_set_perfmon(struct rvl_submit *s)
{
	if (!s->args.perfmon)
		return 0;
	s->job->perfmon = rvl_perfmon_get(s->client, s->args.perfmon);
	return s->job->perfmon ? 0 : -ENOENT;
}

static int rvl_fill_desc(struct rvl_submit *s)
{
	struct rivulet_desc *d = &s->job->desc;
	int ret;

	d->magic = cpu_to_le32(RIVULET_DESC_MAGIC);
	d->size = cpu_to_le32(sizeof(*d));
	d->client = cpu_to_le32(s->client->tag);
	d->flags = cpu_to_le32(RIVULET_DESC_IRQ);
	d->min_level = cpu_to_le32(s->args.min_level);
	ret = rvl_bind_regions(s);
	if (ret)
		return ret;
	ret = rvl_set_variants(s);
	if (ret)
		return ret;
	ret = rvl_set_report(s);
	if (ret)
		return ret;
	return rvl_set_perfmon(s);
}

/* Copy element @i of an array of the caller. */
static int rvl_get_sync(u64 array, u32 i, struct drm_rivulet_sync *sync)
{
	struct drm_rivulet_sync __user *user = u64_to_user_ptr(array);

	if (copy_from_user(sync, &user[i], sizeof(*sync)))
		return -EFAULT;
	return sync->pad ? -EINVAL : 0;
}

/* drm_sched_job_add_syncobj_dependency() is not used, because it truncates points to 32 bits. */
static int rvl_add_dependency(struct rvl_submit *s, u32 handle, u64 point)
{
	struct dma_fence *fence;
	int ret;

	ret = drm_syncobj_find_fence(s->file, handle, point, 0, &fence);
	if (ret)
		return ret;
	return drm_sched_job_add_dependency(&s->job->base, fence);
}

/* What the out-syncs of the jobs planned so far will have done to a syncobj. */
struct rvl_pending {
	bool any;
	bool replaced;	/* its present fence will have been replaced */
	u64 top;	/* the highest point added since then */
};

/* The planned job has no out-syncs yet. */
static struct rvl_pending rvl_pending(struct rvl_submit *s, struct drm_syncobj *syncobj)
{
	struct rvl_pending pending = {};
	const struct rvl_job *job;
	u32 i;

	list_for_each_entry(job, &s->jobs, node) {
		for (i = 0; i < job->out_count; i++) {
			if (job->out[i].syncobj != syncobj)
				continue;
			pending.any = true;
			if (!job->out[i].point)
				pending = (struct rvl_pending){ .any = true, .replaced = true };
			pending.top = max(pending.top, job->out[i].point);
		}
	}
	return pending;
}

/*
 * An in-sync on an out-sync of an earlier job of the array needs no fence, because a queue runs its
 * jobs in order. The points that a timeline has already are waited for as well, because a new point
 * includes them. -EINVAL when neither the syncobj nor an earlier job has the point.
 */
static int rvl_add_in_sync(struct rvl_submit *s, const struct drm_rivulet_sync *sync)
{
	struct rvl_pending pending = {};
	struct drm_syncobj *syncobj;
	int ret = -EINVAL;

	if (!list_is_singular(&s->jobs)) {
		syncobj = drm_syncobj_find(s->file, sync->handle);
		if (!syncobj)
			return -ENOENT;
		pending = rvl_pending(s, syncobj);
		drm_syncobj_put(syncobj);
	}
	if (!pending.replaced)
		ret = rvl_add_dependency(s, sync->handle, sync->point);
	if (ret != -EINVAL || !pending.any || sync->point > pending.top)
		return ret;
	if (pending.replaced || !sync->point)
		return 0;
	ret = rvl_add_dependency(s, sync->handle, 0);
	return ret == -EINVAL ? 0 : ret;
}

static int rvl_add_in_syncs(struct rvl_submit *s)
{
	struct drm_rivulet_sync sync;
	int ret = 0;
	u32 i;

	for (i = 0; i < s->args.in_sync_count && !ret; i++) {
		ret = rvl_get_sync(s->args.in_syncs, i, &sync);
		if (!ret)
			ret = rvl_add_in_sync(s, &sync);
	}
	return ret;
}

static int rvl_get_out(struct rvl_submit *s, const struct drm_rivulet_sync *sync)
{
	struct rvl_out *out = &s->job->out[s->job->out_count];

	out->point = sync->point;
	out->syncobj = drm_syncobj_find(s->file, sync->handle);
	if (!out->syncobj)
		return -ENOENT;
	s->job->out_count++;
	if (!sync->point)
		return 0;
	out->chain = dma_fence_chain_alloc();
	return out->chain ? 0 : -ENOMEM;
}

static int rvl_get_out_syncs(struct rvl_submit *s)
{
	struct drm_rivulet_sync sync;
	int ret = 0;
	u32 i;

	for (i = 0; i < s->args.out_sync_count && !ret; i++) {
		ret = rvl_get_sync(s->args.out_syncs, i, &sync);
		if (!ret)
			ret = rvl_get_out(s, &sync);
	}
	return ret;
}

/* Check one job of the array and acquire all that it needs. rvl_free_jobs() releases it. */
static int rvl_plan_job(struct rvl_submit *s, u64 user, u32 stride)
{
	int ret;

	ret = copy_struct_from_user(&s->args, sizeof(s->args), u64_to_user_ptr(user), stride);
	if (ret)
		return ret;
	ret = rvl_check_args(s);
	if (ret)
		return ret;
	s->job = rvl_job_alloc(s->rdev, s->client, s->args.out_sync_count);
	if (IS_ERR(s->job))
		return PTR_ERR(s->job);
	s->job->deadline_ns = s->args.deadline_ns;
	list_add_tail(&s->job->node, &s->jobs);
	ret = rvl_fill_desc(s);
	if (ret)
		return ret;
	ret = rvl_sched_job_init(&s->job->base, &s->queue->entity, s->client, s->file->client_id);
	if (ret)
		return ret;
	s->job->scheduled = true;
	ret = rvl_add_in_syncs(s);
	if (ret)
		return ret;
	return rvl_get_out_syncs(s);
}

static void rvl_free_outs(struct rvl_job *job)
{
	while (job->out_count) {
		struct rvl_out *out = &job->out[--job->out_count];

		dma_fence_chain_free(out->chain);
		drm_syncobj_put(out->syncobj);
	}
}

/* Free the jobs that were not pushed. */
static void rvl_free_jobs(struct rvl_submit *s)
{
	struct rvl_job *job, *next;

	list_for_each_entry_safe(job, next, &s->jobs, node) {
		rvl_free_outs(job);
		if (job->scheduled)
			drm_sched_job_cleanup(&job->base);
		rvl_job_free(job);
	}
}

/* Returns 0, or an error and in args->refused the index of the job that caused it. */
static int rvl_plan_all(struct rvl_submit *s, struct drm_rivulet_submit *args)
{
	u32 i;
	int ret;

	for (i = 0; i < args->count; i++) {
		ret = rvl_plan_job(s, args->jobs + (u64)i * args->stride, args->stride);
		if (ret) {
			args->refused = i;
			return ret;
		}
	}
	return 0;
}

/* Number of buffers of all jobs, which is not 0. */
static u32 rvl_count_objects(struct rvl_submit *s)
{
	struct rvl_job *job;
	u32 count = 0;

	list_for_each_entry(job, &s->jobs, node)
		count += job->obj_count;
	return count;
}

/* Lock the buffers of all jobs, and make room in each for the fences that will be added. */
static int rvl_lock_objects(struct rvl_submit *s, struct drm_exec *exec)
{
	struct rvl_job *job;
	u32 i;
	int ret;

	drm_exec_until_all_locked(exec) {
		list_for_each_entry(job, &s->jobs, node) {
			for (i = 0; i < job->obj_count; i++) {
				ret = drm_exec_prepare_obj(exec, job->obj[i], RVL_RESV_FENCES);
				drm_exec_retry_on_contention(exec);
				if (ret)
					return ret;
			}
		}
	}
	return 0;
}

/* A job that adds its fence with @usage waits for the fences up to the returned usage. */
static enum dma_resv_usage rvl_awaited(enum dma_resv_usage usage)
{
	if (usage == DMA_RESV_USAGE_BOOKKEEP)
		return DMA_RESV_USAGE_KERNEL;
	return dma_resv_usage_rw(usage == DMA_RESV_USAGE_WRITE);
}

static int rvl_add_implicit(struct rvl_job *job)
{
	u32 i;
	int ret = 0;

	for (i = 0; i < job->obj_count && !ret; i++)
		ret = drm_sched_job_add_resv_dependencies(&job->base, job->obj[i]->resv,
							  rvl_awaited(job->usage[i]));
	return ret;
}

/* Pass the job's deadline on to the fences that it waits for. */
static void rvl_hint_deadline(struct rvl_job *job)
{
	struct dma_fence *fence;
	unsigned long i;

	if (!job->deadline_ns)
		return;
	xa_for_each(&job->base.dependencies, i, fence)
		dma_fence_set_deadline(fence, ns_to_ktime(job->deadline_ns));
}

static int rvl_lock_all(struct rvl_submit *s, struct drm_exec *exec)
{
	struct rvl_job *job;
	int ret;

	ret = rvl_lock_objects(s, exec);
	if (ret)
		return ret;
	list_for_each_entry(job, &s->jobs, node) {
		ret = rvl_add_implicit(job);
		if (ret)
			return ret;
		rvl_hint_deadline(job);
	}
	return 0;
}

static void rvl_signal_out(struct rvl_out *out, struct dma_fence *finished)
{
	if (out->chain)
		drm_syncobj_add_point(out->syncobj, out->chain, finished, out->point);
	else
		drm_syncobj_replace_fence(out->syncobj, finished);
	out->chain = NULL;
}

/* Arm one job and make its fence visible. Nothing here can fail. */
static void rvl_publish(struct rvl_job *job)
{
	struct dma_fence *finished;
	u32 i;

	drm_sched_job_arm(&job->base);
	finished = &job->base.s_fence->finished;
	trace_rivulet_job_submit(job, le32_to_cpu(job->desc.min_level), 0);
	for (i = 0; i < job->obj_count; i++)
		dma_resv_add_fence(job->obj[i]->resv, finished, job->usage[i]);
	for (i = 0; i < job->out_count; i++)
		rvl_signal_out(&job->out[i], finished);
	if (job->deadline_ns)
		dma_fence_set_deadline(finished, ns_to_ktime(job->deadline_ns));
}

/* The file was made with a signalled fence, because a fence exists only once its job is armed. */
static void rvl_set_fence_file(struct rvl_submit *s)
{
	struct rvl_job *last = list_last_entry(&s->jobs, struct rvl_job, node);

	if (!s->fence_file)
		return;
	dma_fence_put(s->fence_file->fence);
	s->fence_file->fence = dma_fence_get(&last->base.s_fence->finished);
}

/* A job may end and be freed as soon as it is pushed, so that it is taken off the list before. */
static void rvl_push_jobs(struct rvl_submit *s)
{
	struct rvl_job *job, *next;

	list_for_each_entry_safe(job, next, &s->jobs, node) {
		rvl_free_outs(job);
		list_del(&job->node);
		drm_sched_entity_push_job(&job->base);
	}
}

/* Queue all planned jobs. Returns 0, or an error with none queued. */
static int rvl_push_all(struct rvl_submit *s)
{
	struct rvl_job *job;
	struct drm_exec exec;
	int ret;

	drm_exec_init(&exec, DRM_EXEC_INTERRUPTIBLE_WAIT | DRM_EXEC_IGNORE_DUPLICATES,
		      rvl_count_objects(s));
	ret = rvl_lock_all(s, &exec);
	if (ret)
		goto err_exec;
	/* Jobs are pushed in the order in which they are armed. */
	mutex_lock(&s->queue->submit_lock);
	if (s->queue->destroyed) {
		ret = -ENOENT;
		goto err_lock;
	}
	list_for_each_entry(job, &s->jobs, node)
		rvl_publish(job);
	rvl_set_fence_file(s);
	/*
	 * Unlocked before the push, because freeing the buffers of a job that ends takes their
	 * locks.
	 */
	drm_exec_fini(&exec);
	rvl_push_jobs(s);
	mutex_unlock(&s->queue->submit_lock);
	return 0;

err_lock:
	mutex_unlock(&s->queue->submit_lock);
err_exec:
	drm_exec_fini(&exec);
	return ret;
}

static int rvl_submit_jobs(struct rvl_submit *s, struct drm_rivulet_submit *args)
{
	int ret;

	/*
	 * The reads are unlocked. A job that passes although the state has changed ends with that
	 * error.
	 */
	ret = READ_ONCE(s->rdev->dead);
	if (!ret && READ_ONCE(s->client->banned))
		ret = -ECANCELED;
	if (ret)
		return ret;
	ret = rvl_plan_all(s, args);
	if (!ret)
		ret = rvl_push_all(s);
	rvl_free_jobs(s);
	return ret;
}

/* As rvl_submit_jobs(), and also make a sync_file of the last job's fence. */
static int rvl_submit_fd(struct rvl_submit *s, struct drm_rivulet_submit *args)
{
	struct dma_fence *stub;
	int ret, fd;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	stub = dma_fence_get_stub();
	s->fence_file = sync_file_create(stub);
	dma_fence_put(stub);
	ret = s->fence_file ? rvl_submit_jobs(s, args) : -ENOMEM;
	if (!ret) {
		fd_install(fd, s->fence_file->file);
		args->fence_fd = fd;
		return 0;
	}
	if (s->fence_file)
		fput(s->fence_file->file);
	put_unused_fd(fd);
	return ret;
}

static int rvl_submit(struct rvl_submit *s, struct drm_rivulet_submit *args)
{
	int ret;

	s->queue = rvl_client_queue_get(s->client, args->queue);
	if (!s->queue)
		return -ENOENT;
	ret = args->flags & DRM_RIVULET_SUBMIT_FENCE_FD ? rvl_submit_fd(s, args) :
							  rvl_submit_jobs(s, args);
	rvl_client_queue_put(s->queue);
	return ret;
}

int rvl_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_submit *args = data;
	struct rvl_submit s = {
		.rdev = to_rvl(drm),
		.file = file,
		.client = file->driver_priv,
		.jobs = LIST_HEAD_INIT(s.jobs),
	};
	int ret, idx;

	args->refused = args->count;
	if ((args->flags & ~DRM_RIVULET_SUBMIT_FENCE_FD) || !args->count ||
	    args->count > DRM_RIVULET_MAX_JOBS ||
	    args->stride < offsetofend(struct drm_rivulet_job, perfmon) ||
	    args->stride > PAGE_SIZE)
		return -EINVAL;
	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	ret = rvl_submit(&s, args);
	drm_dev_exit(idx);
	return ret;
}

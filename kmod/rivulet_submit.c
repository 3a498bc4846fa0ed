// SPDX-License-Identifier: GPL-2.0-only
/*
 * The submit ioctl. It plans all jobs of the array (arguments, memory, buffers, syncobjs), locks
 * the buffers and collects the fences to wait for, and then arms, publishes and pushes every job.
 * Everything that can fail comes before the first job is armed, so that either all jobs are queued
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
 * Fences that one submit adds to a reservation at most. Finished fences of one queue share a
 * context, in which dma_resv_add_fence() replaces the older one of the same or a weaker usage:
 * one each for WRITE, READ and BOOKKEEP remain.
 */
#define RVL_RESV_FENCES	3

/* A syncobj to signal. @chain is set for a timeline point. */
struct rvl_out {
	struct drm_syncobj *syncobj;
	struct dma_fence_chain *chain;
	u64 point;
};

/* One job of the array until it is pushed. */
struct rvl_plan {
	struct rvl_job *job;
	struct rvl_out *out;
	u32 out_count;
	u32 min_level;
	s64 deadline_ns;
	bool scheduled;		/* drm_sched_job_init() has succeeded */
};

/* State of one submit call; too large for the stack. */
struct rvl_submit {
	struct rvl_device *rdev;
	struct drm_file *file;
	struct rvl_client *client;
	struct rvl_client_queue *queue;
	struct sync_file *fence_file;	/* for the last job's fence, or NULL */
	struct rvl_plan *plan;
	u32 count;			/* of @plan */

	/* Copies of the caller's memory for the job that is being planned. */
	struct rvl_plan *cur;
	struct drm_rivulet_job args;
	struct drm_rivulet_region region[DRM_RIVULET_MAX_REGIONS];
	struct drm_rivulet_variant variant[DRM_RIVULET_MAX_LEVELS];
	struct drm_rivulet_sync sync[DRM_RIVULET_MAX_SYNCS];
	u64 size[RIVULET_SLOTS];	/* bytes of each bound slot, else 0 */
	bool write[RIVULET_SLOTS];
};

static int rvl_copy_array(void *dst, u64 user, u32 count, size_t size)
{
	if (copy_from_user(dst, u64_to_user_ptr(user), array_size(count, size)))
		return -EFAULT;
	return 0;
}

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
	struct rvl_job *job = s->cur->job;
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
	rvl_add_object(job, obj, rvl_region_usage(r->flags));
	if (end > obj->size)
		return -EINVAL;
	if (write && !rvl_rights_writable(s->client, r->handle, obj))
		return -EACCES;
	if (write)
		rvl_access_end(to_rvl_bo(obj), r->offset, r->size);
	rvl_gem_region(obj, r->offset, r->size, write, &job->desc.region[slot]);
	s->size[slot] = r->size;
	s->write[slot] = write;
	return 0;
}

static int rvl_bind_regions(struct rvl_submit *s)
{
	u32 i;
	int ret;

	memset(s->size, 0, sizeof(s->size));
	memset(s->write, 0, sizeof(s->write));
	ret = rvl_copy_array(s->region, s->args.regions, s->args.region_count,
			     sizeof(s->region[0]));
	for (i = 0; i < s->args.region_count && !ret; i++)
		ret = rvl_bind_region(s, &s->region[i]);
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

static int rvl_set_variant(struct rvl_submit *s, u32 level)
{
	const struct drm_rivulet_variant *v = &s->variant[level];
	struct rivulet_variant *out = &s->cur->job->desc.variant[level];

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
	bool any = false;
	u32 i;
	int ret;

	ret = rvl_copy_array(s->variant, s->args.variants, s->args.variant_count,
			     sizeof(s->variant[0]));
	if (ret)
		return ret;
	for (i = 0; i < s->args.variant_count; i++) {
		ret = rvl_set_variant(s, i);
		if (ret)
			return ret;
		any |= s->variant[i].length;
	}
	return any ? 0 : -EINVAL;
}

static int rvl_set_report(struct rvl_submit *s)
{
	struct rivulet_desc *d = &s->cur->job->desc;
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
	struct rvl_job *job = s->cur->job;

	if (!s->args.perfmon)
		return 0;
	job->perfmon = rvl_perfmon_get(s->client, s->args.perfmon);
	return job->perfmon ? 0 : -ENOENT;
}

static int rvl_fill_desc(struct rvl_submit *s)
{
	struct rivulet_desc *d = &s->cur->job->desc;
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

static int rvl_get_syncs(struct rvl_submit *s, u64 user, u32 count)
{
	u32 i;
	int ret;

	ret = rvl_copy_array(s->sync, user, count, sizeof(s->sync[0]));
	if (ret)
		return ret;
	for (i = 0; i < count; i++)
		if (s->sync[i].pad)
			return -EINVAL;
	return 0;
}

/* Not drm_sched_job_add_syncobj_dependency(), which truncates points to 32 bits. */
static int rvl_add_dependency(struct rvl_submit *s, u32 handle, u64 point)
{
	struct dma_fence *fence;
	int ret;

	ret = drm_syncobj_find_fence(s->file, handle, point, 0, &fence);
	if (ret)
		return ret;
	return drm_sched_job_add_dependency(&s->cur->job->base, fence);
}

/* What the out-syncs of the jobs planned so far will have done to a syncobj. */
struct rvl_pending {
	bool any;
	bool replaced;	/* its present fence will have been replaced */
	u64 top;	/* the highest point added since then */
};

static struct rvl_pending rvl_pending(struct rvl_submit *s, struct drm_syncobj *syncobj)
{
	struct rvl_pending pending = {};
	const struct rvl_plan *p;
	u32 i;

	for (p = s->plan; p < s->cur; p++) {
		for (i = 0; i < p->out_count; i++) {
			if (p->out[i].syncobj != syncobj)
				continue;
			pending.any = true;
			if (!p->out[i].point)
				pending = (struct rvl_pending){ .any = true, .replaced = true };
			pending.top = max(pending.top, p->out[i].point);
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

	if (s->cur > s->plan) {
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
	u32 i;
	int ret;

	ret = rvl_get_syncs(s, s->args.in_syncs, s->args.in_sync_count);
	for (i = 0; i < s->args.in_sync_count && !ret; i++)
		ret = rvl_add_in_sync(s, &s->sync[i]);
	return ret;
}

static int rvl_get_out(struct rvl_submit *s, const struct drm_rivulet_sync *sync)
{
	struct rvl_out *out = &s->cur->out[s->cur->out_count];

	out->point = sync->point;
	out->chain = NULL;
	out->syncobj = drm_syncobj_find(s->file, sync->handle);
	if (!out->syncobj)
		return -ENOENT;
	s->cur->out_count++;
	if (!sync->point)
		return 0;
	out->chain = dma_fence_chain_alloc();
	return out->chain ? 0 : -ENOMEM;
}

static int rvl_get_out_syncs(struct rvl_submit *s)
{
	u32 i, count = s->args.out_sync_count;
	int ret;

	if (!count)
		return 0;
	ret = rvl_get_syncs(s, s->args.out_syncs, count);
	if (ret)
		return ret;
	s->cur->out = kmalloc_array(count, sizeof(*s->cur->out), GFP_KERNEL_ACCOUNT);
	if (!s->cur->out)
		return -ENOMEM;
	for (i = 0; i < count && !ret; i++)
		ret = rvl_get_out(s, &s->sync[i]);
	return ret;
}

/* Check one job of the array and get all that it needs. rvl_plan_free() gives it back. */
static int rvl_plan_job(struct rvl_submit *s, u64 user, u32 stride)
{
	struct rvl_plan *p = s->cur;
	int ret;

	ret = copy_struct_from_user(&s->args, sizeof(s->args), u64_to_user_ptr(user), stride);
	if (ret)
		return ret;
	ret = rvl_check_args(s);
	if (ret)
		return ret;
	p->min_level = s->args.min_level;
	p->deadline_ns = s->args.deadline_ns;
	p->job = rvl_job_alloc(s->rdev, s->client);
	if (IS_ERR(p->job)) {
		ret = PTR_ERR(p->job);
		p->job = NULL;
		return ret;
	}
	ret = rvl_fill_desc(s);
	if (ret)
		return ret;
	ret = rvl_sched_job_init(&p->job->base, &s->queue->entity, s->client, s->file->client_id);
	if (ret)
		return ret;
	p->scheduled = true;
	ret = rvl_add_in_syncs(s);
	if (ret)
		return ret;
	return rvl_get_out_syncs(s);
}

static void rvl_plan_free_outs(struct rvl_plan *p)
{
	while (p->out_count) {
		struct rvl_out *out = &p->out[--p->out_count];

		dma_fence_chain_free(out->chain);
		drm_syncobj_put(out->syncobj);
	}
	kfree(p->out);
}

/* @pushed: the jobs belong to the scheduler. */
static void rvl_plan_free(struct rvl_submit *s, bool pushed)
{
	struct rvl_plan *p;

	for (p = s->plan; p < s->plan + s->count; p++) {
		rvl_plan_free_outs(p);
		if (pushed || !p->job)
			continue;
		if (p->scheduled)
			drm_sched_job_cleanup(&p->job->base);
		rvl_job_free(p->job);
	}
	kfree(s->plan);
}

/* Returns 0, or an error and in args->refused the index of the job that caused it. */
static int rvl_plan_all(struct rvl_submit *s, struct drm_rivulet_submit *args)
{
	u32 i;
	int ret;

	for (i = 0; i < s->count; i++) {
		s->cur = &s->plan[i];
		ret = rvl_plan_job(s, args->jobs + (u64)i * args->stride, args->stride);
		if (ret) {
			args->refused = i;
			return ret;
		}
	}
	return 0;
}

/* Lock the buffers of all jobs, and make room in each for the fences that will be added. */
static int rvl_lock_objects(struct rvl_submit *s, struct drm_exec *exec)
{
	struct rvl_plan *p;
	u32 i;
	int ret;

	drm_exec_until_all_locked(exec) {
		for (p = s->plan; p < s->plan + s->count; p++) {
			for (i = 0; i < p->job->obj_count; i++) {
				ret = drm_exec_prepare_obj(exec, p->job->obj[i], RVL_RESV_FENCES);
				drm_exec_retry_on_contention(exec);
				if (ret)
					return ret;
			}
		}
	}
	return 0;
}

/* Which fences of a reservation a job waits for that adds its own with @usage. */
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
static void rvl_hint_deadline(struct rvl_plan *p)
{
	struct dma_fence *fence;
	unsigned long i;

	if (!p->deadline_ns)
		return;
	xa_for_each(&p->job->base.dependencies, i, fence)
		dma_fence_set_deadline(fence, ns_to_ktime(p->deadline_ns));
}

static int rvl_lock_all(struct rvl_submit *s, struct drm_exec *exec)
{
	struct rvl_plan *p;
	int ret;

	ret = rvl_lock_objects(s, exec);
	for (p = s->plan; p < s->plan + s->count && !ret; p++) {
		ret = rvl_add_implicit(p->job);
		rvl_hint_deadline(p);
	}
	return ret;
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
static void rvl_publish(struct rvl_plan *p)
{
	struct rvl_job *job = p->job;
	struct dma_fence *finished;
	u32 i;

	drm_sched_job_arm(&job->base);
	finished = &job->base.s_fence->finished;
	trace_rivulet_job_submit(job, p->min_level, 0);
	for (i = 0; i < job->obj_count; i++)
		dma_resv_add_fence(job->obj[i]->resv, finished, job->usage[i]);
	for (i = 0; i < p->out_count; i++)
		rvl_signal_out(&p->out[i], finished);
	if (p->deadline_ns)
		dma_fence_set_deadline(finished, ns_to_ktime(p->deadline_ns));
}

/* The file was made with a signalled fence, because a fence exists only once its job is armed. */
static void rvl_set_fence_file(struct rvl_submit *s)
{
	struct rvl_plan *last = &s->plan[s->count - 1];

	if (!s->fence_file)
		return;
	dma_fence_put(s->fence_file->fence);
	s->fence_file->fence = dma_fence_get(&last->job->base.s_fence->finished);
}

/* Queue all planned jobs. Returns 0, or an error with none queued. */
static int rvl_push_all(struct rvl_submit *s)
{
	struct drm_exec exec;
	struct rvl_plan *p;
	int ret;

	drm_exec_init(&exec, DRM_EXEC_INTERRUPTIBLE_WAIT | DRM_EXEC_IGNORE_DUPLICATES, 0);
	ret = rvl_lock_all(s, &exec);
	if (ret)
		goto err_exec;
	/* Jobs are pushed in the order in which they are armed. */
	mutex_lock(&s->queue->submit_lock);
	if (s->queue->destroyed) {
		ret = -ENOENT;
		goto err_lock;
	}
	for (p = s->plan; p < s->plan + s->count; p++)
		rvl_publish(p);
	rvl_set_fence_file(s);
	/*
	 * Unlocked before the push: a job may end as soon as it is pushed, and freeing its buffers
	 * takes their locks.
	 */
	drm_exec_fini(&exec);
	for (p = s->plan; p < s->plan + s->count; p++)
		drm_sched_entity_push_job(&p->job->base);
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

	/* Unlocked reads: a job that passes although the state just changed ends with that error. */
	ret = READ_ONCE(s->rdev->dead);
	if (!ret && READ_ONCE(s->client->banned))
		ret = -ECANCELED;
	if (ret)
		return ret;
	s->count = args->count;
	s->plan = kcalloc(s->count, sizeof(*s->plan), GFP_KERNEL_ACCOUNT);
	if (!s->plan)
		return -ENOMEM;
	ret = rvl_plan_all(s, args);
	if (!ret)
		ret = rvl_push_all(s);
	rvl_plan_free(s, !ret);
	return ret;
}

/* The same, and a sync_file of the last job's fence. */
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
	struct rvl_submit *s __free(kfree) = NULL;
	int ret, idx;

	args->refused = args->count;
	if ((args->flags & ~DRM_RIVULET_SUBMIT_FENCE_FD) || !args->count ||
	    args->count > DRM_RIVULET_MAX_JOBS ||
	    args->stride < offsetofend(struct drm_rivulet_job, perfmon) ||
	    args->stride > PAGE_SIZE)
		return -EINVAL;
	s = kzalloc(sizeof(*s), GFP_KERNEL);
	if (!s)
		return -ENOMEM;
	s->rdev = to_rvl(drm);
	s->file = file;
	s->client = file->driver_priv;
	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	ret = rvl_submit(s, args);
	drm_dev_exit(idx);
	return ret;
}

// SPDX-License-Identifier: GPL-2.0-only
/* The submit ioctl: checks a job, gathers buffers and fences. All that can fail precedes arming. */
#include <drm/drm_exec.h>
#include <drm/drm_syncobj.h>
#include <linux/capability.h>
#include <linux/dma-fence-chain.h>
#include <linux/file.h>
#include <linux/nospec.h>
#include <linux/sync_file.h>

#include "rivulet_device.h"
#include "rivulet_trace.h"

/* A syncobj to signal; @chain is set for a timeline point. */
struct rvl_out {
	struct drm_syncobj *syncobj;
	struct dma_fence_chain *chain;
	u64 point;
};

/* What one submit ioctl works with; too large for the stack. */
struct rvl_submit {
	struct rvl_device *rdev;
	struct drm_file *file;
	struct rvl_client *client;
	struct rvl_queue *queue;
	struct rvl_job *job;
	struct drm_rivulet_job args;
	struct drm_rivulet_region region[DRM_RIVULET_MAX_REGIONS];
	struct drm_rivulet_variant variant[DRM_RIVULET_MAX_LEVELS];
	struct drm_rivulet_sync sync[DRM_RIVULET_MAX_SYNCS];
	struct rvl_out out[DRM_RIVULET_MAX_SYNCS];
	u32 out_count;
	u64 size[RIVULET_SLOTS];	/* bytes of each bound slot, else 0 */
	bool write[RIVULET_SLOTS];
	bool keep;			/* the caller wants the last job's fence: */
	struct dma_fence *last;
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

	if (a->flags || a->pad || a->deadline < 0 ||
	    !a->region_count || a->region_count > DRM_RIVULET_MAX_REGIONS ||
	    !a->variant_count || a->variant_count > DRM_RIVULET_MAX_LEVELS ||
	    a->in_sync_count > DRM_RIVULET_MAX_SYNCS ||
	    a->out_sync_count > DRM_RIVULET_MAX_SYNCS ||
	    a->min_level >= s->rdev->info.level_count)
		return -EINVAL;
	return 0;
}

/* Remember a looked-up buffer, or drop the reference if the job has it already. */
static void rvl_add_object(struct rvl_job *job, struct drm_gem_object *obj, bool write)
{
	u32 i;

	for (i = 0; i < job->obj_count && job->obj[i] != obj; i++)
		;
	if (i < job->obj_count)
		drm_gem_object_put(obj);
	else
		job->obj[job->obj_count++] = obj;
	job->write[i] |= write;
}

static int rvl_bind_region(struct rvl_submit *s, const struct drm_rivulet_region *r)
{
	bool write = r->flags & DRM_RIVULET_REGION_WRITE;
	struct drm_gem_object *obj;
	u64 end;
	u32 slot;

	if (r->slot >= RIVULET_SLOTS || r->pad || (r->flags & ~DRM_RIVULET_REGION_WRITE))
		return -EINVAL;
	slot = array_index_nospec(r->slot, RIVULET_SLOTS);
	if (s->size[slot] || !r->size || check_add_overflow(r->offset, r->size, &end))
		return -EINVAL;
	obj = drm_gem_object_lookup(s->file, r->handle);
	if (!obj)
		return -ENOENT;
	/* The job owns the reference from here, whatever follows. */
	rvl_add_object(s->job, obj, write);
	if (end > obj->size)
		return -EINVAL;
	if (write && !rvl_rights_writable(s->client, r->handle, obj))
		return -EACCES;
	rvl_gem_region(obj, r->offset, r->size, write, &s->job->desc.region[slot]);
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
	bool any = false;
	u32 i;
	int ret;

	ret = rvl_copy_array(s->variant, s->args.variants, s->args.variant_count,
			     sizeof(s->variant[0]));
	for (i = 0; i < s->args.variant_count && !ret; i++) {
		ret = rvl_set_variant(s, i);
		any |= s->variant[i].length;
	}
	return ret ?: any ? 0 : -EINVAL;
}

static int rvl_set_report(struct rvl_submit *s)
{
	struct rivulet_desc *d = &s->job->desc;
	u32 slot = s->args.report_slot;
	u64 offset = s->args.report_offset;

	d->report_slot = cpu_to_le32(slot);
	if (slot == DRM_RIVULET_NO_REPORT)
		return offset ? -EINVAL : 0;
	if (offset % 8 || !rvl_in_slot(s, slot, offset, sizeof(struct rivulet_status)))
		return -EINVAL;
	if (!s->write[array_index_nospec(slot, RIVULET_SLOTS)])
		return -EACCES;
	d->report_offset = cpu_to_le64(offset);
	return 0;
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
	ret = rvl_bind_regions(s) ?: rvl_set_variants(s) ?: rvl_set_report(s);
	if (!ret && s->args.perfmon) {
		s->job->perfmon = rvl_perfmon_get(s->client, s->args.perfmon);
		ret = s->job->perfmon ? 0 : -ENOENT;
	}
	return ret;
}

static int rvl_get_syncs(struct rvl_submit *s, u64 user, u32 count)
{
	u32 i;
	int ret;

	ret = rvl_copy_array(s->sync, user, count, sizeof(s->sync[0]));
	for (i = 0; i < count && !ret; i++)
		ret = s->sync[i].pad ? -EINVAL : 0;
	return ret;
}

/* Not drm_sched_job_add_syncobj_dependency(): that one cuts points to 32 bits. */
static int rvl_add_in_syncs(struct rvl_submit *s)
{
	struct dma_fence *fence;
	u32 i;
	int ret;

	ret = rvl_get_syncs(s, s->args.in_syncs, s->args.in_sync_count);
	for (i = 0; i < s->args.in_sync_count && !ret; i++) {
		ret = drm_syncobj_find_fence(s->file, s->sync[i].handle, s->sync[i].point, 0,
					     &fence);
		if (!ret)
			ret = drm_sched_job_add_dependency(&s->job->base, fence);
	}
	return ret;
}

static int rvl_get_out(struct rvl_submit *s, const struct drm_rivulet_sync *sync)
{
	struct rvl_out *out = &s->out[s->out_count];

	out->point = sync->point;
	out->chain = NULL;
	out->syncobj = drm_syncobj_find(s->file, sync->handle);
	if (!out->syncobj)
		return -ENOENT;
	s->out_count++;
	if (!sync->point)
		return 0;
	out->chain = dma_fence_chain_alloc();
	return out->chain ? 0 : -ENOMEM;
}

static int rvl_get_out_syncs(struct rvl_submit *s)
{
	u32 i;
	int ret;

	ret = rvl_get_syncs(s, s->args.out_syncs, s->args.out_sync_count);
	for (i = 0; i < s->args.out_sync_count && !ret; i++)
		ret = rvl_get_out(s, &s->sync[i]);
	return ret;
}

static void rvl_put_out_syncs(struct rvl_submit *s)
{
	while (s->out_count) {
		struct rvl_out *out = &s->out[--s->out_count];

		dma_fence_chain_free(out->chain);
		drm_syncobj_put(out->syncobj);
	}
}

/* Lock every buffer, make room for our fence, and wait for whom the buffer's last users are. */
static int rvl_lock_objects(struct rvl_job *job, struct drm_exec *exec)
{
	u32 i;
	int ret;

	drm_exec_until_all_locked(exec) {
		for (i = 0; i < job->obj_count; i++) {
			/* Objects may share one reservation: each needs room for all. */
			ret = drm_exec_prepare_obj(exec, job->obj[i], job->obj_count);
			drm_exec_retry_on_contention(exec);
			if (ret)
				return ret;
		}
	}
	for (i = 0; i < job->obj_count; i++) {
		ret = drm_sched_job_add_implicit_dependencies(&job->base, job->obj[i],
							      job->write[i]);
		if (ret)
			return ret;
	}
	return 0;
}

/* Make the job's fence visible. Nothing here can fail. */
static void rvl_publish(struct rvl_submit *s, struct dma_fence *finished)
{
	struct rvl_job *job = s->job;
	struct rvl_out *out;
	u32 i;

	for (i = 0; i < job->obj_count; i++)
		dma_resv_add_fence(job->obj[i]->resv, finished,
				   job->write[i] ? DMA_RESV_USAGE_WRITE : DMA_RESV_USAGE_READ);
	for (i = 0; i < s->out_count; i++) {
		out = &s->out[i];
		if (out->chain)
			drm_syncobj_add_point(out->syncobj, out->chain, finished, out->point);
		else
			drm_syncobj_replace_fence(out->syncobj, finished);
		out->chain = NULL;
	}
	if (s->keep) {
		dma_fence_put(s->last);
		s->last = dma_fence_get(finished);
	}
	if (s->args.deadline)
		dma_fence_set_deadline(finished, ns_to_ktime(s->args.deadline));
}

/* Whom the job waits for should hurry too. */
static void rvl_hint_deadline(struct rvl_submit *s)
{
	struct dma_fence *fence;
	unsigned long i;

	if (!s->args.deadline)
		return;
	xa_for_each(&s->job->base.dependencies, i, fence)
		dma_fence_set_deadline(fence, ns_to_ktime(s->args.deadline));
}

static int rvl_push(struct rvl_submit *s, u32 exec_flags)
{
	struct rvl_job *job = s->job;
	struct drm_exec exec;
	int ret;

	drm_exec_init(&exec, DRM_EXEC_IGNORE_DUPLICATES | exec_flags, job->obj_count);
	ret = rvl_lock_objects(job, &exec);
	if (ret) {
		drm_exec_fini(&exec);
		return ret;
	}
	rvl_hint_deadline(s);
	guard(mutex)(&s->queue->submit_lock);
	drm_sched_job_arm(&job->base);
	trace_rivulet_job_submit(job, s->args.min_level, 0);
	rvl_publish(s, &job->base.s_fence->finished);
	/* Before the job can end: the end of a buffer takes its lock, and others' would be held. */
	drm_exec_fini(&exec);
	drm_sched_entity_push_job(&job->base);
	return 0;
}

static int rvl_submit_armed(struct rvl_submit *s, u32 exec_flags)
{
	int ret;

	ret = rvl_sched_job_init(&s->job->base, &s->queue->entity, s->client,
				 s->file->client_id);
	if (ret)
		return ret;
	ret = rvl_add_in_syncs(s) ?: rvl_get_out_syncs(s) ?: rvl_push(s, exec_flags);
	if (ret)
		drm_sched_job_cleanup(&s->job->base);
	rvl_put_out_syncs(s);
	return ret;
}

static int rvl_submit_job(struct rvl_submit *s, u32 exec_flags)
{
	/* Not exact, nor need it be: what slips through ends with the same error. */
	int ret = READ_ONCE(s->rdev->dead);

	if (!ret && READ_ONCE(s->client->banned))
		ret = -ECANCELED;
	ret = ret ?: rvl_check_args(s);
	if (ret)
		return ret;
	s->job = rvl_job_alloc(s->rdev, s->client);
	if (IS_ERR(s->job))
		return PTR_ERR(s->job);
	ret = rvl_fill_desc(s) ?: rvl_submit_armed(s, exec_flags);
	/* Pushed, it is the scheduler's. */
	if (ret)
		rvl_job_free(s->job);
	return ret;
}

/*
 * Jobs already queued must not be queued again, so only the first may be interrupted by a signal:
 * the call is then restarted as if it had not been made.
 */
static int rvl_submit_all(struct rvl_submit *s, struct drm_rivulet_submit *args)
{
	struct drm_rivulet_job __user *user;
	int ret = 0;
	u32 i;

	for (i = 0; i < args->count && !ret; i++) {
		user = u64_to_user_ptr(args->jobs + (u64)i * args->stride);
		args->queued = i;
		ret = copy_struct_from_user(&s->args, sizeof(s->args), user, args->stride);
		if (ret)
			return ret;
		ret = rvl_submit_job(s, i ? 0 : DRM_EXEC_INTERRUPTIBLE_WAIT);
		if (ret != -EINTR && ret != -ERESTARTSYS && put_user(ret, &user->error) && !ret) {
			args->queued++;
			return -EFAULT;
		}
	}
	if (!ret)
		args->queued = args->count;
	return ret;
}

/*
 * A fence has no file before it is armed, and armed is too late to fail. So the number, which a
 * user can run out of, is taken first; only without memory are jobs queued and the call fails.
 */
static int rvl_submit_fd(struct rvl_submit *s, struct drm_rivulet_submit *args)
{
	int fd = get_unused_fd_flags(O_CLOEXEC);
	struct sync_file *file;
	int ret;

	args->queued = 0;
	if (fd < 0)
		return fd;
	s->keep = true;
	ret = rvl_submit_all(s, args);
	file = ret ? NULL : sync_file_create(s->last);
	dma_fence_put(s->last);
	if (!file) {
		put_unused_fd(fd);
		return ret ?: -ENOMEM;
	}
	fd_install(fd, file->file);
	args->fence_fd = fd;
	return 0;
}

int rvl_ioctl_submit(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_submit *args = data;
	struct rvl_submit *s __free(kfree) = NULL;
	int ret, idx;

	if ((args->flags & ~DRM_RIVULET_SUBMIT_FENCE_FD) || !args->count ||
	    args->count > DRM_RIVULET_MAX_JOBS ||
	    args->stride < offsetofend(struct drm_rivulet_job, error) ||
	    args->stride > PAGE_SIZE || args->priority < DRM_RIVULET_PRIORITY_LOW ||
	    args->priority > DRM_RIVULET_PRIORITY_HIGH)
		return -EINVAL;
	if (args->priority > DRM_RIVULET_PRIORITY_NORMAL && !capable(CAP_SYS_NICE))
		return -EACCES;
	s = kzalloc(sizeof(*s), GFP_KERNEL);
	if (!s)
		return -ENOMEM;
	s->rdev = to_rvl(drm);
	s->file = file;
	s->client = file->driver_priv;
	s->queue = &s->client->queue[DRM_RIVULET_PRIORITY_HIGH - args->priority];
	if (!drm_dev_enter(drm, &idx))
		return -ENODEV;
	ret = args->flags ? rvl_submit_fd(s, args) : rvl_submit_all(s, args);
	drm_dev_exit(idx);
	return ret;
}

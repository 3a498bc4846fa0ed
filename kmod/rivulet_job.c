// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life of a job: submit allocates it, run_job issues it to the device, the interrupt retires
 * it, and the scheduler frees it. rivulet_recover.c has the jobs that do not end by themselves, and
 * rivulet_queue.c has what concerns the queue as a whole.
 */
#include "rivulet_device.h"

#define CREATE_TRACE_POINTS
#include "rivulet_trace.h"

static unsigned int rvl_queue_depth = RVL_QUEUE_SLOTS;
module_param_named(queue_depth, rvl_queue_depth, uint, 0644);
MODULE_PARM_DESC(queue_depth, "jobs issued to a device at a time, 1 or 2, from its next probe (2)");

/*
 * How often a device without an interrupt is polled. A poll costs about a microsecond. The
 * interval is an eighth of the job's age, so that its end is found at most an eighth of its run
 * time late.
 */
#define RVL_TICK_MIN_NS		(50 * NSEC_PER_USEC)
#define RVL_TICK_MAX_NS		NSEC_PER_MSEC

static const char *rvl_fence_driver(struct dma_fence *fence)
{
	return "rivulet";
}

static const char *rvl_fence_timeline(struct dma_fence *fence)
{
	return "npu";
}

static void rvl_fence_release(struct dma_fence *fence)
{
	struct rvl_client *client = container_of(fence, struct rvl_fence, base)->client;

	dma_fence_free(fence);
	rvl_client_put(client);
}

static const struct dma_fence_ops rvl_fence_ops = {
	.get_driver_name = rvl_fence_driver,
	.get_timeline_name = rvl_fence_timeline,
	.release = rvl_fence_release,
};

static void rvl_fence_init(struct rvl_job *job, u64 seqno)
{
	spin_lock_init(&job->fence->lock);
	dma_fence_init(&job->fence->base, &rvl_fence_ops, &job->fence->lock,
		       job->rdev->fence_context, seqno);
	refcount_inc(&job->client->ref);
	job->fence->client = job->client;
	job->issued = true;
}

/* Count a job for its file and its user. Returns 0, or -EBUSY when one of them is at its limit. */
static int rvl_job_count(struct rvl_client *client)
{
	if (!atomic_add_unless(&client->queued, 1, RVL_MAX_QUEUED))
		return -EBUSY;
	if (rvl_account_add_job(client->account))
		return 0;
	atomic_dec(&client->queued);
	return -EBUSY;
}

static void rvl_job_uncount(struct rvl_client *client)
{
	rvl_account_remove_job(client->account);
	atomic_dec(&client->queued);
}

/*
 * Allocate a job with room for @outs syncobjs and all memory that it will need, and wake the device
 * for it. Returns -EBUSY when the file or its user has too many jobs queued.
 */
struct rvl_job *rvl_job_alloc(struct rvl_device *rdev, struct rvl_client *client, u32 outs)
{
	struct rvl_fence *fence __free(kfree) = kzalloc(sizeof(*fence), GFP_KERNEL_ACCOUNT);
	struct rvl_job *job __free(kfree) = kzalloc(struct_size(job, out, outs),
						    GFP_KERNEL_ACCOUNT);
	int ret;

	if (!job || !fence)
		return ERR_PTR(-ENOMEM);
	ret = rvl_job_count(client);
	if (ret)
		return ERR_PTR(ret);
	/*
	 * Waking the device may allocate, so that run_job, for which fences wait, must not do it.
	 */
	ret = pm_runtime_resume_and_get(rdev->drm.dev);
	if (ret) {
		rvl_job_uncount(client);
		return ERR_PTR(ret);
	}
	job->fence = no_free_ptr(fence);
	job->rdev = rdev;
	job->client = client;
	refcount_inc(&client->ref);
	atomic_inc(&rdev->jobs);
	return no_free_ptr(job);
}

/* Free a job that was never pushed, or that the scheduler has cleaned up. */
void rvl_job_free(struct rvl_job *job)
{
	u32 i;

	for (i = 0; i < job->obj_count; i++)
		drm_gem_object_put(job->obj[i]);
	if (job->issued)
		dma_fence_put(&job->fence->base);
	else
		kfree(job->fence);
	rvl_job_uncount(job->client);
	rvl_perfmon_put(job->perfmon);
	rvl_pm_put(job->rdev);
	atomic_dec(&job->rdev->jobs);
	rvl_client_put(job->client);
	kfree(job);
}

static void rvl_job_work(struct work_struct *work)
{
	rvl_job_free(container_of(work, struct rvl_job, work));
}

/*
 * Drop the references to the job's buffers, except a last one. The release of a buffer may wait for
 * fences, and one of them may be of a job that the caller would have to run first. Returns whether
 * all are dropped.
 */
static bool rvl_job_drop_shared(struct rvl_job *job)
{
	while (job->obj_count) {
		struct drm_gem_object *obj = job->obj[job->obj_count - 1];

		if (!refcount_dec_not_one(&obj->refcount.refcount))
			return false;
		job->obj_count--;
	}
	return true;
}

/*
 * The scheduler's finished fence may outlive the job, and its name is read from the scheduler,
 * which belongs to the device. The finished fence keeps the device by its parent, the driver's
 * fence. A job that was never issued gets its parent here. A work frees a job that holds the last
 * reference to a buffer.
 */
static void rvl_sched_free_job(struct drm_sched_job *sched_job)
{
	struct rvl_job *job = to_rvl_job(sched_job);

	if (!job->issued) {
		rvl_fence_init(job, 0);
		/* A reader of the parent must see an initialised fence. */
		smp_store_release(&sched_job->s_fence->parent, dma_fence_get(&job->fence->base));
	}
	drm_sched_job_cleanup(sched_job);
	if (rvl_job_drop_shared(job)) {
		rvl_job_free(job);
		return;
	}
	INIT_WORK(&job->work, rvl_job_work);
	queue_work(rvl_wq, &job->work);
}

/* Time to the next poll; negative without a job. Called with rdev->lock held. */
static s64 rvl_tick_ns(struct rvl_device *rdev)
{
	s64 age = -1, ns;
	u32 i;

	for (i = 0; i < RVL_QUEUE_SLOTS; i++) {
		if (!rdev->slot[i])
			continue;
		ns = ktime_to_ns(ktime_sub(ktime_get(), rdev->slot[i]->issued_at));
		age = max(age, ns);
	}
	if (age < 0)
		return age;
	return clamp_t(s64, age / 8, RVL_TICK_MIN_NS, RVL_TICK_MAX_NS);
}

/* The timer that polls a device without an interrupt while it has a job. */
static enum hrtimer_restart rvl_tick(struct hrtimer *timer)
{
	struct rvl_device *rdev = container_of(timer, struct rvl_device, tick);
	s64 ns;

	rvl_irq(0, rdev);
	guard(rvl_lock)(rdev);
	ns = rvl_tick_ns(rdev);
	/* A job that was issued since rvl_irq() returned may have queued the timer. */
	if (ns < 0 || hrtimer_is_queued(timer))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(ns));
	return HRTIMER_RESTART;
}

/* Start to poll for the end of a job, without an interrupt. Called with rdev->lock held. */
static void rvl_poll_start(struct rvl_device *rdev)
{
	if (!rdev->irq && !hrtimer_is_queued(&rdev->tick))
		hrtimer_start(&rdev->tick, ns_to_ktime(RVL_TICK_MIN_NS), HRTIMER_MODE_REL);
}

/* Give a job the next seq and the queue slot of its parity. Called with rdev->lock held. */
void rvl_job_issue(struct rvl_job *job)
{
	struct rvl_device *rdev = job->rdev;

	job->seq = ++rdev->seq;
	job->progress = rvl_rd(rdev, RIVULET_REG_PROGRESS);
	job->issued_at = ktime_get();
	rdev->slot[job->seq & 1] = job;
	rvl_load_update(rdev);
	trace_rivulet_job_start(job, rvl_hw_level(rdev), 0);
	rvl_hw_issue(rdev, job->seq, &job->desc);
	rvl_poll_start(rdev);
}

/* Issue a job or queue it to wait. Returns a reference to its fence, or an ERR_PTR. */
static struct dma_fence *rvl_job_run(struct rvl_job *job)
{
	struct rvl_device *rdev = job->rdev;

	guard(rvl_lock)(rdev);
	if (rdev->dead)
		return ERR_PTR(rdev->dead);
	if (drm_WARN_ON_ONCE(&rdev->drm, rdev->slot[(rdev->seq + 1) & 1] ||
			     rdev->waiting == RVL_QUEUE_SLOTS))
		return ERR_PTR(-EBUSY);
	rvl_fence_init(job, ++rdev->fence_seqno);
	if (rdev->live)
		rvl_job_issue(job);
	else
		rdev->wait[rdev->waiting++] = job;
	/* One reference is for the scheduler, and one is kept by the job. */
	return dma_fence_get(&job->fence->base);
}

/*
 * This is in the fence-signalling path: after dma_fence_begin_signalling() it may neither allocate
 * nor wait for a thread that allocates.
 */
static struct dma_fence *rvl_sched_run_job(struct drm_sched_job *sched_job)
{
	struct rvl_job *job = to_rvl_job(sched_job);
	struct dma_fence *fence;
	bool cookie;

	/* The file was closed or banned after the job was queued. */
	if (sched_job->s_fence->finished.error)
		return ERR_PTR(sched_job->s_fence->finished.error);
	if (READ_ONCE(job->client->banned))
		return ERR_PTR(-ECANCELED);
	cookie = dma_fence_begin_signalling();
	fence = rvl_job_run(job);
	dma_fence_end_signalling(cookie);
	return fence;
}

/*
 * End a job that the device has retired or that was taken from it, and signal its fence. -ETIME is
 * the driver's verdict that the job hung, for which its client is blamed. Called with rdev->lock
 * held.
 */
void rvl_job_finish(struct rvl_job *job, int error)
{
	struct rvl_device *rdev = job->rdev;
	struct rvl_job *next = rdev->slot[~job->seq & 1];

	if (rdev->slot[job->seq & 1] == job)
		rdev->slot[job->seq & 1] = NULL;
	/* The run time of the next job begins when this one ends. */
	if (next)
		next->issued_at = ktime_get();
	rvl_load_update(rdev);
	if (error == -ETIME)
		rvl_client_blame(job->client);
	if (error)
		dma_fence_set_error(&job->fence->base, error);
	rvl_dump_seal(rdev, job, error);
	trace_rivulet_job_done(job, le32_to_cpu(job->status.level), error);
	dma_fence_signal(&job->fence->base);
}

/*
 * A fault of the program is reported to its owner only. A fault of the device itself leaves a dump
 * for whoever maintains the device.
 */
static void rvl_job_fault(struct rvl_job *job)
{
	u32 fault = le32_to_cpu(job->status.fault);

	trace_rivulet_job_fault(job, le32_to_cpu(job->status.level), -EIO);
	if (fault == RIVULET_FAULT_NONE || fault == RIVULET_FAULT_INTERNAL)
		rvl_dump_take(job->rdev, job, "device");
}

/*
 * End a job that the device has retired, with the result in its status. A job that recovery
 * aborted leaves the queue frozen, because recovery decides what becomes of the next job. Called
 * with rdev->lock held.
 */
void rvl_job_retire(struct rvl_job *job)
{
	struct rvl_device *rdev = job->rdev;
	int error;
	u64 ns;

	error = rvl_hw_outcome(rdev, job->seq, &job->status, &ns);
	atomic64_add(ns, &job->client->busy_ns);
	atomic64_add(le64_to_cpu(job->status.cycles), &job->client->cycles);
	atomic64_add(le64_to_cpu(job->status.energy), &job->client->energy_pj);
	if (job->perfmon)
		rvl_perfmon_add(job->perfmon, &job->status, ns, error);
	if (!job->verdict && rvl_hw_frozen_at(rdev, job->seq))
		rvl_hw_resume(rdev, job->seq);
	if (error == -EIO)
		rvl_job_fault(job);
	if (error && job->verdict)
		error = job->verdict;
	rvl_job_finish(job, error);
}

/*
 * Retire every job that the device has completed, oldest first. One interrupt may stand for two
 * jobs, or for none. Called with rdev->lock held.
 */
void rvl_queue_service(struct rvl_device *rdev)
{
	u32 done, seq;

	lockdep_assert_held(&rdev->lock);
	if (!rdev->live || rvl_hw_gone(rdev))
		return;
	done = rvl_hw_done(rdev);
	for (seq = rdev->seq - 1; (s32)(rdev->seq - seq) >= 0; seq++) {
		struct rvl_job *job = rdev->slot[seq & 1];

		if (job && job->seq == seq && (s32)(done - seq) >= 0)
			rvl_job_retire(job);
	}
}

/* The interrupt handler. It signals the fences itself, because a thread would delay them. */
irqreturn_t rvl_irq(int irq, void *arg)
{
	struct rvl_device *rdev = arg;

	guard(rvl_lock)(rdev);
	rvl_queue_service(rdev);
	/*
	 * A message interrupt is not shared. Acknowledges raise it as well, so that it may find no
	 * job.
	 */
	return IRQ_HANDLED;
}

static const struct drm_sched_backend_ops rvl_sched_ops = {
	.run_job = rvl_sched_run_job,
	.timedout_job = rvl_sched_timedout,
	.free_job = rvl_sched_free_job,
};

static void rvl_sched_release(struct drm_device *drm, void *sched)
{
	/* The scheduler has no job left, because each job keeps a reference to the device. */
	drm_sched_fini(sched);
}

/* The scheduler of the one queue; freed with the last file. Returns 0 or a negative errno. */
int rvl_sched_setup(struct rvl_device *rdev)
{
	u32 depth = clamp(READ_ONCE(rvl_queue_depth), 1, RVL_QUEUE_SLOTS);
	int ret;

	rdev->fence_context = dma_fence_context_alloc(1);
	hrtimer_init(&rdev->tick, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	rdev->tick.function = rvl_tick;
	ret = rvl_sched_init(&rdev->sched, &rvl_sched_ops, depth, rvl_timeout_jiffies(), "rivulet",
			     rdev->drm.dev);
	if (ret)
		return ret;
	return drmm_add_action_or_reset(&rdev->drm, rvl_sched_release, &rdev->sched);
}

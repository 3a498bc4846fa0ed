// SPDX-License-Identifier: GPL-2.0-only
/* A job's life after submit: run, retire, time out, be freed; then the queue's own. */
#include "rivulet_device.h"

#define CREATE_TRACE_POINTS
#include "rivulet_trace.h"

static unsigned int rvl_timeout_ms = 2000;
module_param_named(timeout_ms, rvl_timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "a job that makes no progress for so long is aborted (2000)");

static unsigned int rvl_cap_ms = 120000;
module_param_named(cap_ms, rvl_cap_ms, uint, 0644);
MODULE_PARM_DESC(cap_ms, "a job that runs for so long is aborted, progress or not (120000)");

static unsigned int rvl_queue_depth = RVL_QUEUE_SLOTS;
module_param_named(queue_depth, rvl_queue_depth, uint, 0644);
MODULE_PARM_DESC(queue_depth, "jobs given to a device at a time, 1 or 2, from its next probe on (2)");

/* Near the wrap, so that a thousand jobs cross it. */
#define RVL_FIRST_SEQ	((u32)-32)

/* A look costs a microsecond or so; a job is found out at most an eighth of its time late. */
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

/* An empty job and all memory that it will need; -EBUSY when the file has RVL_MAX_QUEUED. */
struct rvl_job *rvl_job_alloc(struct rvl_device *rdev, struct rvl_client *client)
{
	struct rvl_fence *fence __free(kfree) = kzalloc(sizeof(*fence), GFP_KERNEL);
	struct rvl_job *job __free(kfree) = kzalloc(sizeof(*job), GFP_KERNEL);
	int ret;

	if (!job || !fence)
		return ERR_PTR(-ENOMEM);
	if (!atomic_add_unless(&client->queued, 1, RVL_MAX_QUEUED))
		return ERR_PTR(-EBUSY);
	/* Here and not when it runs: waking sleeps, and others may wait for what runs already. */
	ret = pm_runtime_resume_and_get(rdev->drm.dev);
	if (ret) {
		atomic_dec(&client->queued);
		return ERR_PTR(ret);
	}
	job->fence = no_free_ptr(fence);
	job->rdev = rdev;
	job->client = client;
	refcount_inc(&client->ref);
	atomic_inc(&rdev->jobs);
	return no_free_ptr(job);
}

/* Free a job that the scheduler does not know (any more). */
void rvl_job_free(struct rvl_job *job)
{
	u32 i;

	for (i = 0; i < job->obj_count; i++)
		drm_gem_object_put(job->obj[i]);
	if (job->issued)
		dma_fence_put(&job->fence->base);
	else
		kfree(job->fence);
	atomic_dec(&job->client->queued);
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
 * The core's fence may be held for long after, and asks our scheduler for its name: it keeps the
 * device by its parent, ours, which a job that was never issued gets only here.
 */
static void rvl_sched_free_job(struct drm_sched_job *sched_job)
{
	struct rvl_job *job = to_rvl_job(sched_job);

	if (!job->issued) {
		rvl_fence_init(job, 0);
		/* Who sees the parent sees a fence that is whole. */
		smp_store_release(&sched_job->s_fence->parent, dma_fence_get(&job->fence->base));
	}
	drm_sched_job_cleanup(sched_job);
	/* Elsewhere, because a buffer's end may wait for whom a job waits that we are to run. */
	INIT_WORK(&job->work, rvl_job_work);
	queue_work(rvl_wq, &job->work);
}

/* How long to the next look; negative without a job. Called with rdev->lock held. */
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
	return age < 0 ? age : clamp_t(s64, age / 8, RVL_TICK_MIN_NS, RVL_TICK_MAX_NS);
}

/* Of a device without an interrupt: while it has a job, a timer looks whether it is done. */
static enum hrtimer_restart rvl_tick(struct hrtimer *timer)
{
	struct rvl_device *rdev = container_of(timer, struct rvl_device, tick);
	s64 ns;

	rvl_irq(0, rdev);
	guard(rvl_lock)(rdev);
	ns = rvl_tick_ns(rdev);
	/* Whoever issued a job meanwhile may have queued the timer already. */
	if (ns < 0 || hrtimer_is_queued(timer))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(ns));
	return HRTIMER_RESTART;
}

/* A job was issued: look for its end, if no interrupt will tell. Called with rdev->lock held. */
static void rvl_poll_start(struct rvl_device *rdev)
{
	if (!rdev->irq && !hrtimer_is_queued(&rdev->tick))
		hrtimer_start(&rdev->tick, ns_to_ktime(RVL_TICK_MIN_NS), HRTIMER_MODE_REL);
}

/* Give a job the next seq and the slot of its parity. Called with rdev->lock held. */
static void rvl_queue_issue(struct rvl_device *rdev, struct rvl_job *job)
{
	job->seq = ++rdev->seq;
	job->progress = rvl_rd(rdev, RIVULET_REG_PROGRESS);
	job->issued_at = ktime_get();
	rdev->slot[job->seq & 1] = job;
	rvl_load_update(rdev);
	trace_rivulet_job_start(job, rvl_hw_level(rdev), 0);
	rvl_hw_issue(rdev, job->seq, &job->desc);
	rvl_poll_start(rdev);
}

/* In the fence-signalling path: no allocation that may wait, no lock that others hold for long. */
static struct dma_fence *rvl_sched_run_job(struct drm_sched_job *sched_job)
{
	struct rvl_job *job = to_rvl_job(sched_job);
	struct rvl_device *rdev = job->rdev;

	/* Its file was closed before its turn came, or banned. */
	if (sched_job->s_fence->finished.error)
		return ERR_PTR(sched_job->s_fence->finished.error);
	if (READ_ONCE(job->client->banned))
		return ERR_PTR(-ECANCELED);

	guard(rvl_lock)(rdev);
	if (rdev->dead)
		return ERR_PTR(rdev->dead);
	if (drm_WARN_ON_ONCE(&rdev->drm, rdev->slot[(rdev->seq + 1) & 1] ||
			     rdev->waiting == RVL_QUEUE_SLOTS))
		return ERR_PTR(-EBUSY);
	rvl_fence_init(job, ++rdev->fence_seqno);
	if (rdev->live)
		rvl_queue_issue(rdev, job);
	else
		rdev->wait[rdev->waiting++] = job;
	/* One reference for the scheduler, one stays the job's. */
	return dma_fence_get(&job->fence->base);
}

/* End a job that the device no longer has. Called with rdev->lock held. */
static void rvl_queue_finish(struct rvl_device *rdev, struct rvl_job *job, int error)
{
	struct rvl_job *next = rdev->slot[~job->seq & 1];

	if (rdev->slot[job->seq & 1] == job)
		rdev->slot[job->seq & 1] = NULL;
	/* The one behind did not run until now. */
	if (next)
		next->issued_at = ktime_get();
	rvl_load_update(rdev);
	rvl_dump_seal(rdev, job);
	if (error)
		dma_fence_set_error(&job->fence->base, error);
	trace_rivulet_job_done(job, le32_to_cpu(job->status.level), error);
	dma_fence_signal(&job->fence->base);
}

/* A program's fault is its owner's business; the device's own is kept for whoever mends it. */
static void rvl_queue_fault(struct rvl_device *rdev, struct rvl_job *job)
{
	u32 fault = le32_to_cpu(job->status.fault);

	trace_rivulet_job_fault(job, le32_to_cpu(job->status.level), -EIO);
	if (fault == RIVULET_FAULT_NONE || fault == RIVULET_FAULT_INTERNAL)
		rvl_dump_take(rdev, job, "device");
}

static void rvl_queue_retire(struct rvl_device *rdev, struct rvl_job *job)
{
	u64 ns;
	int error = rvl_hw_outcome(rdev, job->seq, &job->status, &ns);

	atomic64_add(ns, &job->client->busy_ns);
	atomic64_add(le64_to_cpu(job->status.cycles), &job->client->cycles);
	atomic64_add(le64_to_cpu(job->status.energy), &job->client->energy_pj);
	if (job->perfmon)
		rvl_perfmon_add(job->perfmon, &job->status, ns, error);
	/* Asked once for each freeze, because each job is retired once. */
	if (rvl_hw_frozen_at(rdev, job->seq))
		rvl_hw_resume(rdev, job->seq);
	if (error == -EIO)
		rvl_queue_fault(rdev, job);
	rvl_queue_finish(rdev, job, error ? job->verdict ?: error : 0);
}

/*
 * Retire whatever the device is done with, oldest first. An interrupt may stand for two jobs, for
 * one that was seen already, or for none. Called with rdev->lock held.
 */
static void rvl_queue_service(struct rvl_device *rdev)
{
	u32 done, seq;

	if (!rdev->live || rvl_hw_gone(rdev))
		return;
	done = rvl_hw_done(rdev);
	for (seq = rdev->seq - 1; (s32)(rdev->seq - seq) >= 0; seq++) {
		struct rvl_job *job = rdev->slot[seq & 1];

		if (!job || job->seq != seq || (s32)(done - seq) < 0)
			continue;
		rvl_queue_retire(rdev, job);
	}
}

/* The device raised its interrupt: fences are signalled right here. */
irqreturn_t rvl_irq(int irq, void *arg)
{
	struct rvl_device *rdev = arg;

	guard(rvl_lock)(rdev);
	rvl_queue_service(rdev);
	/* A message interrupt is nobody else's; acknowledges raise it too. */
	return IRQ_HANDLED;
}

/* Look for completions whose interrupt has not come (yet). */
static void rvl_queue_poll(struct rvl_device *rdev)
{
	if (rdev->irq)
		synchronize_irq(rdev->irq);
	rvl_irq(rdev->irq, rdev);
}

/* Take the jobs out of the device's hands; a reset moves DONE_SEQ past them as if they ended. */
static void rvl_queue_take(struct rvl_device *rdev)
{
	struct rvl_job *job;
	u32 i;

	lockdep_assert_held(&rdev->request_lock);
	guard(rvl_lock)(rdev);
	rdev->live = false;
	for (i = 0; i < RVL_QUEUE_SLOTS; i++) {
		job = rdev->slot[(rdev->seq + 1 + i) & 1];
		if (job)
			rdev->wait[rdev->waiting++] = job;
	}
	memset(rdev->slot, 0, sizeof(rdev->slot));
	rvl_load_update(rdev);
}

/* Fail the jobs taken, and all that come. The device's DMA is off before their pages are let go. */
static void rvl_queue_die(struct rvl_device *rdev, int error)
{
	u32 i;

	rdev->bus->master(rdev, false);
	guard(rvl_lock)(rdev);
	if (!rdev->dead)
		WRITE_ONCE(rdev->dead, error);
	for (i = 0; i < rdev->waiting; i++)
		rvl_queue_finish(rdev, rdev->wait[i], rdev->wait[i]->verdict ?: error);
	rdev->waiting = 0;
}

/*
 * After a reset: the guilty job ends, the one behind it is issued again, and either is retired
 * instead when the device was done with it just before. What came meanwhile follows.
 */
static void rvl_queue_reissue(struct rvl_device *rdev)
{
	struct rvl_job *job;
	u32 i;

	guard(rvl_lock)(rdev);
	rdev->live = true;
	/* Asked for since the reset. A clocked device is asked with request_lock held only. */
	if (!rdev->clk_count && rvl_hw_level(rdev) != rdev->level)
		rvl_hw_set_level(rdev, rdev->level);
	for (i = 0; i < rdev->waiting; i++) {
		job = rdev->wait[i];
		if (job->issued_at && rvl_hw_retired(rdev, job->seq))
			rvl_queue_retire(rdev, job);
		else if (job->verdict)
			rvl_queue_finish(rdev, job, job->verdict);
		else
			rvl_queue_issue(rdev, job);
	}
	rdev->waiting = 0;
}

static u32 rvl_queue_ask_level(struct rvl_device *rdev, u32 level)
{
	guard(rvl_lock)(rdev);
	return rvl_hw_set_level(rdev, level);
}

/* Change level while nothing runs, and the system's clock with it: both or neither. */
static int rvl_queue_settle(struct rvl_device *rdev, u32 level, unsigned int ms)
{
	u32 before = rvl_hw_level(rdev);
	int ret;

	ret = rvl_hw_wait_level(rdev, rvl_queue_ask_level(rdev, level), ms);
	if (!ret && rdev->clk_count && rdev->rate_level != level) {
		ret = rdev->bus->set_rate(rdev, level);
		rdev->rate_level = ret ? -1 : level;
	}
	/* What was not taken up is withdrawn, or the device would change without its clock. */
	if (ret)
		rvl_queue_ask_level(rdev, before);
	return ret;
}

static void rvl_queue_lost(struct rvl_device *rdev, int error)
{
	rvl_event_send(rdev, RVL_EVENT_LOST);
	rvl_queue_die(rdev, error);
}

/* The device is reset, has its level, and goes on with the jobs that wait. */
static int rvl_queue_restart(struct rvl_device *rdev)
{
	int ret = rvl_hw_reset(rdev, rdev->seq);
	u64 ns[2];

	if (!ret) {
		/* What came before says nothing of the load to come. */
		rvl_load_take(rdev, ns);
		/* Without its level it goes on at the one before; devfreq asks again. */
		rvl_queue_settle(rdev, rdev->level, RVL_HOLD_LONG_MS);
		rvl_hw_release(rdev);
		rvl_queue_reissue(rdev);
		return 0;
	}
	drm_err(&rdev->drm, "%s\n", ret == -ENODEV ? "the device is gone" :
		"the device does not answer a reset: it is lost");
	ret = ret == -ENODEV ? ret : -EIO;
	rvl_queue_lost(rdev, ret);
	return ret;
}

static int rvl_queue_reset(struct rvl_device *rdev, enum rvl_event event)
{
	int ret;

	rvl_queue_take(rdev);
	ret = rvl_queue_restart(rdev);
	if (!ret)
		rvl_event_send(rdev, event);
	return ret;
}

/* Decide that a job ends with an error, and keep the state of the device for the dump. */
static void rvl_job_condemn(struct rvl_device *rdev, struct rvl_job *job, int error,
			    const char *reason)
{
	lockdep_assert_held(&rdev->lock);
	job->verdict = error;
	rvl_dump_take(rdev, job, reason);
}

/* A banned client's job behind the hanging one does not start; it stands in its slot till then. */
static void rvl_abort_next(struct rvl_device *rdev, struct rvl_job *job)
{
	struct rvl_job *next = rdev->slot[~job->seq & 1];

	if (!next || next->client != job->client)
		return;
	next->verdict = -ECANCELED;
	rvl_hw_abort(rdev, next->seq);
}

/* The scheduler is stopped: nothing is issued meanwhile, so rdev->seq stays. */
static void rvl_recover(struct rvl_device *rdev, struct rvl_job *job)
{
	int ret;

	scoped_guard(rvl_lock, rdev)
		rvl_job_condemn(rdev, job, rvl_hw_gone(rdev) ? -ENODEV : -ETIME, "hang");
	dev_warn_ratelimited(rdev->drm.dev, "job %u of client %u hangs: aborting it\n", job->seq,
			     job->client->tag);
	if (job->verdict == -ETIME && rvl_client_blame(job->client))
		rvl_abort_next(rdev, job);
	ret = rvl_hw_abort(rdev, job->seq);
	rvl_queue_poll(rdev);
	if (dma_fence_is_signaled(&job->fence->base))
		return;
	dev_warn_ratelimited(rdev->drm.dev, "abort %s: resetting the device\n",
			     ret ? "not answered" : "without effect");
	rvl_queue_reset(rdev, RVL_EVENT_HANG);
}

static bool rvl_job_hangs(struct rvl_device *rdev, struct rvl_job *job)
{
	u32 progress = rvl_rd(rdev, RIVULET_REG_PROGRESS);
	bool moved = progress != job->progress;
	s64 age = ktime_ms_delta(ktime_get(), job->issued_at);

	job->progress = progress;
	/* Issued again after sleep or reset, it has its time anew. */
	if (age < rvl_timeout_ms / 2)
		return false;
	return !moved || rvl_hw_gone(rdev) || age > rvl_cap_ms;
}

/* Nothing is asked of a device that sleeps: its jobs go on when it wakes. */
static void rvl_job_check(struct rvl_device *rdev, struct rvl_job *job)
{
	guard(mutex)(&rdev->request_lock);
	if (!rdev->live)
		return;
	rvl_queue_poll(rdev);
	if (!dma_fence_is_signaled(&job->fence->base) && rvl_job_hangs(rdev, job))
		rvl_recover(rdev, job);
}

/*
 * The core took the job off its list before it called us. With the work queue stopped nothing can
 * free the job under us or issue another; at the end the job goes back, and the work that may have
 * looked for it meanwhile is started again.
 */
static enum drm_gpu_sched_stat rvl_sched_timedout(struct drm_sched_job *sched_job)
{
	struct rvl_job *job = to_rvl_job(sched_job);
	struct drm_gpu_scheduler *sched = sched_job->sched;
	struct rvl_device *rdev = job->rdev;
	int idx;

	drm_sched_wqueue_stop(sched);
	/* Of a device that was removed, all jobs have been failed, and its registers are gone. */
	if (job->issued && drm_dev_enter(&rdev->drm, &idx)) {
		rvl_job_check(rdev, job);
		drm_dev_exit(idx);
	}
	scoped_guard(spinlock, &sched->job_list_lock)
		list_add(&sched_job->list, &sched->pending_list);
	drm_sched_wqueue_start(sched);
	return RVL_SCHED_STAT_OK;
}

static const struct drm_sched_backend_ops rvl_sched_ops = {
	.run_job = rvl_sched_run_job,
	.timedout_job = rvl_sched_timedout,
	.free_job = rvl_sched_free_job,
};

static void rvl_sched_release(struct drm_device *drm, void *sched)
{
	/* It forgets jobs, but each that there was kept the device. */
	drm_sched_fini(sched);
}

/* The scheduler of the device's one queue; freed with the last file. */
int rvl_sched_setup(struct rvl_device *rdev)
{
	u32 depth = clamp(READ_ONCE(rvl_queue_depth), 1, RVL_QUEUE_SLOTS);

	rdev->fence_context = dma_fence_context_alloc(1);
	return rvl_sched_init(&rdev->sched, &rvl_sched_ops, depth,
			      msecs_to_jiffies(rvl_timeout_ms), "rivulet", rdev->drm.dev) ?:
	       drmm_add_action_or_reset(&rdev->drm, rvl_sched_release, &rdev->sched);
}

/* Bring the device into a known state. Returns 0, or -ETIMEDOUT when it does not answer. */
int rvl_queue_start(struct rvl_device *rdev)
{
	int ret;

	rdev->seq = RVL_FIRST_SEQ;
	hrtimer_init(&rdev->tick, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	rdev->tick.function = rvl_tick;
	rdev->level = rvl_hw_level(rdev);
	rdev->load.since = ktime_get_ns();
	guard(mutex)(&rdev->request_lock);
	ret = rvl_hw_reset(rdev, rdev->seq);
	if (ret)
		return ret;
	rvl_hw_release(rdev);
	rdev->live = true;
	return 0;
}

static bool rvl_queue_idle(struct rvl_device *rdev)
{
	guard(rvl_lock)(rdev);
	return !rdev->slot[0] && !rdev->slot[1];
}

/*
 * Stop the queue: the running job ends, the next one waits in memory, and no register is used
 * afterwards. An idle device serves HOLD at once, so a short wait tells whether it answers. Returns 0,
 * or -EBUSY if the device did not stop in time; it then goes on as if it had not been asked.
 */
int rvl_queue_sleep(struct rvl_device *rdev)
{
	unsigned int ms = rvl_queue_idle(rdev) ? RVL_HOLD_MS : RVL_HOLD_LONG_MS;

	guard(mutex)(&rdev->request_lock);
	if (!rdev->live)
		return 0;
	if (rvl_hw_hold(rdev, ms) == -ETIMEDOUT) {
		rvl_hw_release(rdev);
		return -EBUSY;
	}
	rvl_queue_poll(rdev);
	rvl_queue_take(rdev);
	rvl_hw_read_counters(rdev, &rdev->sense.counters);
	rvl_hw_irq_enable(rdev, false);
	return 0;
}

/* Undo rvl_queue_sleep(), whatever the device lost meanwhile. */
void rvl_queue_wake(struct rvl_device *rdev)
{
	guard(mutex)(&rdev->request_lock);
	if (rdev->live || rdev->dead)
		return;
	rvl_hw_irq_enable(rdev, rdev->irq);
	rvl_queue_restart(rdev);
}

/* The device cannot be used any more, although its driver stays bound: all jobs end with @error. */
void rvl_queue_lose(struct rvl_device *rdev, int error)
{
	guard(mutex)(&rdev->request_lock);
	if (!rdev->dead)
		rvl_queue_lost(rdev, error);
}

/* A device that has a job with a higher minimum would defer the level. */
static bool rvl_queue_defers(struct rvl_device *rdev, u32 level)
{
	u32 i;

	guard(rvl_lock)(rdev);
	for (i = 0; i < RVL_QUEUE_SLOTS; i++)
		if (rdev->slot[i] && le32_to_cpu(rdev->slot[i]->desc.min_level) > level)
			return true;
	return false;
}

/*
 * Nothing runs while the clock moves, and nothing starts before level and clock agree. A device
 * that is long in its job, or needs its level for the next, keeps both; devfreq asks again.
 */
static int rvl_queue_set_clock(struct rvl_device *rdev, u32 level)
{
	int ret = 0;

	guard(mutex)(&rdev->request_lock);
	rdev->level = level;
	if (rdev->live && (rvl_hw_level(rdev) != level || rdev->rate_level != level) &&
	    !rvl_queue_defers(rdev, level)) {
		if (!rvl_hw_hold(rdev, RVL_HOLD_MS))
			ret = rvl_queue_settle(rdev, level, RVL_HOLD_MS);
		rvl_hw_release(rdev);
	}
	return ret == -ETIMEDOUT || ret == -ENODEV ? 0 : ret;
}

/* Ask for a V/F level, now or when the device wakes. Returns 0 or the clock's error. May sleep. */
int rvl_queue_set_level(struct rvl_device *rdev, u32 level)
{
	if (rdev->clk_count)
		return rvl_queue_set_clock(rdev, level);
	guard(rvl_lock)(rdev);
	rdev->level = level;
	if (rdev->live)
		rvl_hw_set_level(rdev, level);
	return 0;
}

/* The level in force, or of a device that sleeps the one it will wake with. */
u32 rvl_queue_level(struct rvl_device *rdev)
{
	guard(rvl_lock)(rdev);
	return rdev->live ? rvl_hw_level(rdev) : rdev->level;
}

/*
 * Reset the device at a person's request. The job that runs ends with -ECANCELED, because it may
 * have overwritten its own input; the one behind it is issued again. Returns 0, or why it is lost.
 */
int rvl_queue_force_reset(struct rvl_device *rdev)
{
	struct rvl_job *job;

	guard(mutex)(&rdev->request_lock);
	scoped_guard(rvl_lock, rdev) {
		job = rdev->slot[(rdev->seq + 1) & 1] ?: rdev->slot[rdev->seq & 1];
		if (job && !job->verdict)
			rvl_job_condemn(rdev, job, -ECANCELED, "forced");
	}
	return rdev->dead ?: rvl_queue_reset(rdev, RVL_EVENT_FORCED);
}

/* Stop the device for good and fail with @error what it had. */
void rvl_queue_stop(struct rvl_device *rdev, int error)
{
	int lost;

	guard(mutex)(&rdev->request_lock);
	scoped_guard(rvl_lock, rdev) {
		lost = rdev->dead;
		WRITE_ONCE(rdev->dead, error);
	}
	rvl_queue_take(rdev);
	/* What answered no reset before is not waited for again. */
	if (!lost && rvl_hw_reset(rdev, rdev->seq) == -ETIMEDOUT)
		drm_warn(&rdev->drm, "the device does not answer a reset\n");
	rvl_queue_die(rdev, error);
}

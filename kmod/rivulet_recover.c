// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jobs that do not end by themselves. Recovery goes through these steps, in this order:
 *
 *   signal  one locked step retires what has ended, and decides whether the job still runs and
 *           hangs
 *   abort   ABORT ends the job; its fence signals when the device has drained the job's DMA
 *   reset   if ABORT has no effect, RESET does the same to the whole queue; the innocent jobs are
 *           issued again
 *   clock   is not changed: after a reset the device has the level that matches the present rate,
 *           and a work of rivulet_level.c asks for another one later
 *
 * All of it is in the fence-signalling path. It takes request_lock and the device's spinlock, never
 * rate_lock, and allocates nothing.
 */
#include "rivulet_device.h"

static unsigned int rvl_timeout_ms = 2000;
module_param_named(timeout_ms, rvl_timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "a job that makes no progress for so long is aborted (2000)");

static unsigned int rvl_cap_ms = 120000;
module_param_named(cap_ms, rvl_cap_ms, uint, 0644);
MODULE_PARM_DESC(cap_ms, "a job that runs for so long is aborted, progress or not (120000)");

long rvl_timeout_jiffies(void)
{
	return msecs_to_jiffies(rvl_timeout_ms);
}

static void rvl_queue_poll(struct rvl_device *rdev)
{
	guard(rvl_lock)(rdev);
	rvl_queue_service(rdev);
}

/* Record that a job ends with @error, and keep the state of the device for a dump. */
static void rvl_job_condemn(struct rvl_job *job, int error, const char *reason)
{
	lockdep_assert_held(&job->rdev->lock);
	job->verdict = error;
	rvl_dump_take(job->rdev, job, reason);
}

/* A job that is issued again after a sleep or a reset has its whole time once more. */
static bool rvl_job_hangs(struct rvl_job *job)
{
	struct rvl_device *rdev = job->rdev;
	u32 progress = rvl_rd(rdev, RIVULET_REG_PROGRESS);
	bool moved = progress != job->progress;
	s64 age = ktime_ms_delta(ktime_get(), job->issued_at);

	job->progress = progress;
	if (age < rvl_timeout_ms / 2)
		return false;
	return !moved || rvl_hw_gone(rdev) || age > rvl_cap_ms;
}

/*
 * Whether a job hangs is decided under the lock under which the interrupt would retire it, after
 * everything that has ended was retired, because the interrupt may retire the job at any moment.
 * Returns whether the device still has the job and the job hangs; it then has a verdict.
 */
static bool rvl_job_judge(struct rvl_job *job)
{
	struct rvl_device *rdev = job->rdev;

	guard(rvl_lock)(rdev);
	rvl_queue_service(rdev);
	if (!rdev->live || rdev->slot[job->seq & 1] != job || !rvl_job_hangs(job))
		return false;
	if (rvl_hw_gone(rdev))
		rvl_job_condemn(job, -ENODEV, "hang");
	else if (rdev->rate_changing)
		/* The job waits behind a HOLD of the driver, which is not its client's fault. */
		rvl_job_condemn(job, -ECANCELED, "clock");
	else
		rvl_job_condemn(job, -ETIME, "hang");
	return true;
}

/*
 * While the queue is frozen at @job: if the client of the next job is banned, decide that this job
 * ends with -ECANCELED. Returns whether it does.
 */
static bool rvl_job_cancel_next(struct rvl_job *job)
{
	struct rvl_device *rdev = job->rdev;
	struct rvl_job *next;

	guard(rvl_lock)(rdev);
	next = rdev->slot[~job->seq & 1];
	if (!next || !READ_ONCE(next->client->banned) || !rvl_hw_frozen_at(rdev, job->seq))
		return false;
	next->verdict = -ECANCELED;
	return true;
}

/*
 * An aborted job has ended, and left the queue frozen. Resume it, but never start a banned client's
 * job.
 */
static void rvl_queue_go_on(struct rvl_job *job)
{
	struct rvl_device *rdev = job->rdev;

	if (rvl_job_cancel_next(job))
		rvl_hw_abort(rdev, job->seq + 1);
	guard(rvl_lock)(rdev);
	if (rvl_hw_frozen_at(rdev, job->seq))
		rvl_hw_resume(rdev, job->seq);
}

/* The scheduler is stopped, so that no other job is issued and rdev->seq does not change. */
static void rvl_job_recover(struct rvl_job *job)
{
	struct rvl_device *rdev = job->rdev;
	int ret;

	dev_warn_ratelimited(rdev->drm.dev, "job %u of client %u makes no progress: aborting it\n",
			     job->seq, job->client->tag);
	ret = rvl_hw_abort(rdev, job->seq);
	rvl_queue_poll(rdev);
	if (dma_fence_is_signaled(&job->fence->base)) {
		rvl_queue_go_on(job);
		return;
	}
	dev_warn_ratelimited(rdev->drm.dev, "the abort was %s: resetting the device\n",
			     ret ? "not answered" : "without effect");
	rvl_queue_reset(rdev, RVL_EVENT_HANG);
}

/*
 * The fence-signalling path begins inside drm_dev_enter(), because lockdep follows no dependency
 * through a recursive read lock such as its SRCU lock. The other way round, it would report nothing
 * of what is below request_lock.
 */
static void rvl_job_check(struct rvl_job *job)
{
	bool cookie = dma_fence_begin_signalling();

	scoped_guard(mutex, &job->rdev->request_lock)
		if (rvl_job_judge(job))
			rvl_job_recover(job);
	dma_fence_end_signalling(cookie);
}

/*
 * drm_sched_backend_ops.timedout_job. The core took the job off its list before it called this.
 * With the work queue stopped, nobody frees the job or issues another one. At the end the job goes
 * back on the list, and the work that may have looked for it meanwhile is started again.
 */
enum drm_gpu_sched_stat rvl_sched_timedout(struct drm_sched_job *sched_job)
{
	struct drm_gpu_scheduler *sched = sched_job->sched;
	struct rvl_job *job = to_rvl_job(sched_job);
	int idx;

	drm_sched_wqueue_stop(sched);
	/* After the device's removal all jobs have ended, and there are no registers. */
	if (job->issued && drm_dev_enter(&job->rdev->drm, &idx)) {
		rvl_job_check(job);
		drm_dev_exit(idx);
	}
	scoped_guard(spinlock, &sched->job_list_lock)
		list_add(&sched_job->list, &sched->pending_list);
	drm_sched_wqueue_start(sched);
	return RVL_SCHED_STAT_OK;
}

/* Take the jobs from the device, because a RESET moves DONE_SEQ past them as if they had ended. */
void rvl_queue_take(struct rvl_device *rdev)
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

/*
 * End all jobs with @error, including later ones. A job's DMA must end before its pages are
 * released. @quiet: the device has acknowledged this since it had the jobs. Otherwise its bus stops
 * the DMA, or the pages go into quarantine.
 */
void rvl_queue_die(struct rvl_device *rdev, int error, bool quiet)
{
	u32 i;

	lockdep_assert_held(&rdev->request_lock);
	quiet |= rdev->bus->master(rdev, false);
	guard(rvl_lock)(rdev);
	rdev->live = false;
	if (!quiet)
		rvl_quarantine_jobs(rdev);
	if (!rdev->dead)
		WRITE_ONCE(rdev->dead, error);
	for (i = 0; i < rdev->waiting; i++) {
		struct rvl_job *job = rdev->wait[i];

		rvl_job_finish(job, job->verdict ? job->verdict : error);
	}
	rdev->waiting = 0;
}

static void rvl_queue_lost(struct rvl_device *rdev, int error, bool quiet)
{
	rvl_event_send(rdev, RVL_EVENT_LOST);
	rvl_queue_die(rdev, error, quiet);
}

/*
 * The device cannot be woken, although its driver stays bound. All jobs end with @error. It was
 * held before it slept, so that it has no job.
 */
void rvl_queue_lose(struct rvl_device *rdev, int error)
{
	guard(mutex)(&rdev->request_lock);
	if (!rdev->dead)
		rvl_queue_lost(rdev, error, true);
}

/* Did the device have the job before the reset, and had it retired the job? */
static bool rvl_job_retired(struct rvl_job *job)
{
	return job->issued_at && rvl_hw_retired(job->rdev, job->seq);
}

/* The RESET is acknowledged: end the jobs that had ended before it, and those with a verdict. */
static void rvl_queue_signal(struct rvl_device *rdev)
{
	struct rvl_job *job;
	u32 i, kept = 0;

	guard(rvl_lock)(rdev);
	for (i = 0; i < rdev->waiting; i++) {
		job = rdev->wait[i];
		if (rvl_job_retired(job))
			rvl_job_retire(job);
		else if (job->verdict)
			rvl_job_finish(job, job->verdict);
		else
			rdev->wait[kept++] = job;
	}
	rdev->waiting = kept;
}

/* The level is restored. Issue the jobs that wait, oldest first, and allow new ones. */
static void rvl_queue_reissue(struct rvl_device *rdev)
{
	u32 i;

	guard(rvl_lock)(rdev);
	rdev->live = true;
	rvl_level_catch_up(rdev);
	for (i = 0; i < rdev->waiting; i++) {
		if (READ_ONCE(rdev->wait[i]->client->banned))
			rvl_job_finish(rdev->wait[i], -ECANCELED);
		else
			rvl_job_issue(rdev->wait[i]);
	}
	rdev->waiting = 0;
}

/*
 * Reset a device whose jobs were taken, and issue those that wait. Returns 0, or -EIO or -ENODEV
 * when the device is lost.
 */
int rvl_queue_restart(struct rvl_device *rdev)
{
	int ret = rvl_hw_reset(rdev, rdev->seq);

	if (ret) {
		drm_err(&rdev->drm, "%s\n", ret == -ENODEV ? "the device is gone" :
			"the device does not answer a reset: it is lost");
		ret = ret == -ENODEV ? ret : -EIO;
		rvl_queue_lost(rdev, ret, false);
		return ret;
	}
	rvl_queue_signal(rdev);
	rvl_load_forget(rdev);
	rvl_level_restore(rdev);
	/* A change of the clock's rate releases the hold that it began. */
	if (!rdev->rate_changing)
		rvl_hw_release(rdev);
	rvl_queue_reissue(rdev);
	return 0;
}

/* Reset the device, which may have jobs. Returns as rvl_queue_restart(). */
int rvl_queue_reset(struct rvl_device *rdev, enum rvl_event event)
{
	int ret;

	rvl_queue_take(rdev);
	ret = rvl_queue_restart(rdev);
	if (!ret)
		rvl_event_send(rdev, event);
	return ret;
}

/*
 * Reset the device at an administrator's request. The job that runs ends with -ECANCELED, because
 * it may have overwritten its own input; the one behind it is issued again. Returns as
 * rvl_queue_restart().
 */
int rvl_queue_force_reset(struct rvl_device *rdev)
{
	struct rvl_job *job;

	guard(mutex)(&rdev->request_lock);
	if (rdev->dead)
		return rdev->dead;
	scoped_guard(rvl_lock, rdev) {
		rvl_queue_service(rdev);
		job = rdev->slot[(rdev->seq + 1) & 1];
		if (!job)
			job = rdev->slot[rdev->seq & 1];
		if (job && !job->verdict)
			rvl_job_condemn(job, -ECANCELED, "forced");
	}
	return rvl_queue_reset(rdev, RVL_EVENT_FORCED);
}

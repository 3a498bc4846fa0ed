// SPDX-License-Identifier: GPL-2.0-only
/* A client is an open file: queues, performance monitors, and a ban for who hangs the device. */
#include "rivulet_device.h"

static unsigned int rvl_ban_hangs = 3;
module_param_named(ban_hangs, rvl_ban_hangs, uint, 0644);
MODULE_PARM_DESC(ban_hangs, "hangs in ten minutes after which a file is banned, 0: never (3)");

#define RVL_BAN_WINDOW	(600 * HZ)

/* A performance monitor by its number. Returns a reference for rvl_perfmon_put(), or NULL. */
struct rvl_perfmon *rvl_perfmon_get(struct rvl_client *client, u32 id)
{
	struct rvl_perfmon *perfmon;

	xa_lock(&client->perfmons);
	perfmon = xa_load(&client->perfmons, id);
	if (perfmon)
		refcount_inc(&perfmon->ref);
	xa_unlock(&client->perfmons);
	return perfmon;
}

/* Drop a reference; the last one frees. */
void rvl_perfmon_put(struct rvl_perfmon *perfmon)
{
	if (perfmon && refcount_dec_and_test(&perfmon->ref))
		kfree(perfmon);
}

/* Count a job that ended, by what rvl_hw_outcome() had to say. Called with rvl_device.lock held. */
void rvl_perfmon_add(struct rvl_perfmon *perfmon, const struct rivulet_status *st,
		     u64 ns, int error)
{
	const __le64 *counted = &st->load_busy;
	u64 *value = perfmon->value;
	u32 i;

	value[DRM_RIVULET_PERF_JOBS]++;
	value[DRM_RIVULET_PERF_FAILED] += !!error;
	value[DRM_RIVULET_PERF_TIME] += ns;
	value[DRM_RIVULET_PERF_CYCLES] += le64_to_cpu(st->cycles);
	value[DRM_RIVULET_PERF_ENERGY] += le64_to_cpu(st->energy);
	/* In both in the same order. */
	BUILD_BUG_ON(offsetof(struct rivulet_status, macs) -
		     offsetof(struct rivulet_status, load_busy) !=
		     8 * (DRM_RIVULET_PERF_MACS - DRM_RIVULET_PERF_LOAD_BUSY));
	for (i = DRM_RIVULET_PERF_LOAD_BUSY; i <= DRM_RIVULET_PERF_MACS; i++)
		value[i] += le64_to_cpu(counted[i - DRM_RIVULET_PERF_LOAD_BUSY]);
}

int rvl_ioctl_perfmon_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_perfmon *args = data;
	struct rvl_client *client = file->driver_priv;
	struct rvl_perfmon *perfmon;
	int ret;

	if (args->flags)
		return -EINVAL;
	perfmon = kzalloc(sizeof(*perfmon), GFP_KERNEL);
	if (!perfmon)
		return -ENOMEM;
	refcount_set(&perfmon->ref, 1);
	ret = xa_alloc(&client->perfmons, &args->id, perfmon,
		       XA_LIMIT(1, DRM_RIVULET_MAX_PERFMONS), GFP_KERNEL);
	if (ret)
		rvl_perfmon_put(perfmon);
	return ret;
}

int rvl_ioctl_perfmon_destroy(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_perfmon *args = data;
	struct rvl_client *client = file->driver_priv;
	struct rvl_perfmon *perfmon;

	if (args->flags)
		return -EINVAL;
	perfmon = xa_erase(&client->perfmons, args->id);
	rvl_perfmon_put(perfmon);
	return perfmon ? 0 : -ENOENT;
}

int rvl_ioctl_perfmon_read(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_perfmon_read *args = data;
	u32 count = min_t(u32, args->count, DRM_RIVULET_PERF_COUNT);
	struct rvl_device *rdev = to_rvl(drm);
	u64 value[DRM_RIVULET_PERF_COUNT];
	struct rvl_perfmon *perfmon;

	if ((args->flags & ~DRM_RIVULET_PERFMON_RESET) || args->pad)
		return -EINVAL;
	perfmon = rvl_perfmon_get(file->driver_priv, args->id);
	if (!perfmon)
		return -ENOENT;
	scoped_guard(rvl_lock, rdev) {
		memcpy(value, perfmon->value, sizeof(value));
		if (args->flags & DRM_RIVULET_PERFMON_RESET)
			memset(perfmon->value, 0, sizeof(value));
	}
	rvl_perfmon_put(perfmon);
	args->count = DRM_RIVULET_PERF_COUNT;
	return copy_to_user(u64_to_user_ptr(args->values), value, count * sizeof(*value)) ?
	       -EFAULT : 0;
}

/*
 * A job of the client hung the device. Too often in a while and it is banned: what it queued ends
 * with -ECANCELED, new jobs are refused. With request_lock held. Returns whether it is banned.
 */
bool rvl_client_blame(struct rvl_client *client)
{
	if (!client->hangs || time_after(jiffies, client->hang_since + RVL_BAN_WINDOW)) {
		client->hangs = 0;
		client->hang_since = jiffies;
	}
	client->hangs++;
	if (!client->banned && rvl_ban_hangs && client->hangs >= rvl_ban_hangs) {
		dev_notice_ratelimited(client->rdev->drm.dev, "client %u banned after %u hangs\n",
				       client->tag, client->hangs);
		WRITE_ONCE(client->banned, true);
	}
	return client->banned;
}

static void rvl_client_free(struct work_struct *work)
{
	struct rvl_client *client = container_of(work, struct rvl_client, work);
	struct drm_device *drm = &client->rdev->drm;

	atomic_dec(&client->rdev->clients);
	xa_destroy(&client->perfmons);
	xa_destroy(&client->writable);
	/* A queue's callback on a fence may still run, though it has nothing to do any more. */
	kfree_rcu(client, rcu);
	drm_dev_put(drm);
}

/* Drop a reference. The last may be a fence's, in any context: a work frees. */
void rvl_client_put(struct rvl_client *client)
{
	if (!refcount_dec_and_test(&client->ref))
		return;
	INIT_WORK(&client->work, rvl_client_free);
	queue_work(rvl_wq, &client->work);
	module_put(THIS_MODULE);
}

/* drm_driver.open: one client, one tag, a queue for each priority. */
int rvl_client_open(struct drm_device *drm, struct drm_file *file)
{
	struct rvl_device *rdev = to_rvl(drm);
	struct drm_gpu_scheduler *sched = &rdev->sched;
	struct rvl_client *client;
	u32 i;

	client = kzalloc(sizeof(*client), GFP_KERNEL);
	if (!client)
		return -ENOMEM;
	refcount_set(&client->ref, 1);
	client->rdev = rdev;
	/* Jobs that wait for another driver, and fences, may outlive file and device. */
	drm_dev_get(drm);
	__module_get(THIS_MODULE);
	atomic_inc(&rdev->clients);
	xa_init_flags(&client->perfmons, XA_FLAGS_ALLOC1);
	xa_init(&client->writable);
	do {
		client->tag = atomic_inc_return(&rdev->next_client);
	} while (!client->tag);
	for (i = 0; i < RVL_PRIORITIES; i++) {
		mutex_init(&client->queue[i].submit_lock);
		/* Fails on bad arguments only. */
		drm_sched_entity_init(&client->queue[i].entity, DRM_SCHED_PRIORITY_HIGH + i,
				      &sched, 1, NULL);
	}
	file->driver_priv = client;
	return 0;
}

/*
 * Runs where jobs are taken from queues, one work at a time: taking one puts its queue back among
 * those looked at, even when it was stopped meanwhile (drm_sched_entity_pop_job() of 6.12).
 */
static void rvl_client_stop(struct work_struct *work)
{
	struct rvl_client *client = container_of(work, struct rvl_client, work);
	u32 i;

	/* Not destroy(), which waits for as long as another driver's fence may take. */
	for (i = 0; i < RVL_PRIORITIES; i++)
		drm_sched_entity_fini(&client->queue[i].entity);
}

/* drm_driver.postclose: jobs not yet issued are dropped, issued ones run out. */
void rvl_client_close(struct drm_device *drm, struct drm_file *file)
{
	struct rvl_client *client = file->driver_priv;
	struct rvl_perfmon *perfmon;
	unsigned long id;

	INIT_WORK(&client->work, rvl_client_stop);
	queue_work(client->rdev->sched.submit_wq, &client->work);
	flush_work(&client->work);
	xa_for_each(&client->perfmons, id, perfmon)
		rvl_perfmon_put(perfmon);
	rvl_client_put(client);
}

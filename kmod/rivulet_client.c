// SPDX-License-Identifier: GPL-2.0-only
/* A client is an open file: its queues, and the ban of a client whose jobs hang the device. */
#include <linux/capability.h>

#include "rivulet_device.h"

static unsigned int rvl_ban_hangs = 3;
module_param_named(ban_hangs, rvl_ban_hangs, uint, 0644);
MODULE_PARM_DESC(ban_hangs, "hangs in ten minutes after which a file is banned, 0: never (3)");

#define RVL_BAN_WINDOW	(600 * HZ)

/*
 * Stop taking jobs from a queue. Jobs that were not issued to the device end with -ESRCH. This runs
 * on the work queue that takes jobs, which runs one work at a time, because
 * drm_sched_entity_pop_job() of 6.12 puts the queue of the job that it takes back into the run
 * queue even if the queue was stopped meanwhile. A core that checks entity->stopped, under
 * entity->lock, before it calls drm_sched_rq_update_fifo_locked() there needs no such work.
 */
static void rvl_client_queue_stop(struct work_struct *work)
{
	struct rvl_client_queue *queue = container_of(work, struct rvl_client_queue, stop);

	/*
	 * drm_sched_entity_destroy() is not used, because it may wait long for a fence of another
	 * driver.
	 */
	drm_sched_entity_fini(&queue->entity);
}

/* Find a queue. Returns a reference for rvl_client_queue_put(), or NULL. */
struct rvl_client_queue *rvl_client_queue_get(struct rvl_client *client, u32 handle)
{
	struct rvl_client_queue *queue;

	xa_lock(&client->queues);
	queue = xa_load(&client->queues, handle);
	if (queue)
		refcount_inc(&queue->ref);
	xa_unlock(&client->queues);
	return queue;
}

/* Drop a reference. The queue is freed with the last one. */
void rvl_client_queue_put(struct rvl_client_queue *queue)
{
	if (!refcount_dec_and_test(&queue->ref))
		return;
	mutex_destroy(&queue->submit_lock);
	/* A fence that the queue waited for may still be in its callback, which uses the queue. */
	kfree_rcu(queue, rcu);
}

/* Begin to destroy a queue that no handle refers to. rvl_client_queue_finish() completes it. */
static void rvl_client_queue_kill(struct rvl_client *client, struct rvl_client_queue *queue)
{
	/* A submit that has looked the queue up already sees this before it pushes. */
	scoped_guard(mutex, &queue->submit_lock)
		queue->destroyed = true;
	INIT_WORK(&queue->stop, rvl_client_queue_stop);
	queue_work(client->rdev->sched.submit_wq, &queue->stop);
}

static void rvl_client_queue_finish(struct rvl_client_queue *queue)
{
	flush_work(&queue->stop);
	rvl_client_queue_put(queue);
}

static enum drm_sched_priority rvl_sched_priority(s32 priority)
{
	return DRM_SCHED_PRIORITY_HIGH + (DRM_RIVULET_PRIORITY_HIGH - priority);
}

int rvl_ioctl_queue_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_queue_create *args = data;
	struct rvl_client *client = file->driver_priv;
	struct drm_gpu_scheduler *sched = &client->rdev->sched;
	struct rvl_client_queue *queue;
	int ret;

	if (args->flags || args->pad || args->priority < DRM_RIVULET_PRIORITY_LOW ||
	    args->priority > DRM_RIVULET_PRIORITY_HIGH)
		return -EINVAL;
	if (args->priority > DRM_RIVULET_PRIORITY_NORMAL && !capable(CAP_SYS_NICE))
		return -EACCES;
	queue = kzalloc(sizeof(*queue), GFP_KERNEL_ACCOUNT);
	if (!queue)
		return -ENOMEM;
	refcount_set(&queue->ref, 1);
	mutex_init(&queue->submit_lock);
	ret = drm_sched_entity_init(&queue->entity, rvl_sched_priority(args->priority), &sched, 1,
				    NULL);
	if (!ret)
		ret = xa_alloc(&client->queues, &args->queue, queue,
			       XA_LIMIT(1, DRM_RIVULET_MAX_QUEUES), GFP_KERNEL);
	if (ret)
		rvl_client_queue_put(queue);
	return ret;
}

int rvl_ioctl_queue_destroy(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_queue_destroy *args = data;
	struct rvl_client *client = file->driver_priv;
	struct rvl_client_queue *queue;

	if (args->pad)
		return -EINVAL;
	queue = xa_erase(&client->queues, args->queue);
	if (!queue)
		return -ENOENT;
	rvl_client_queue_kill(client, queue);
	rvl_client_queue_finish(queue);
	return 0;
}

/* The caller's state and accounts, for DRM_RIVULET_QUERY_CLIENT. */
void rvl_client_query(struct rvl_client *client, struct drm_rivulet_client *out)
{
	*out = (struct drm_rivulet_client) {
		.flags = READ_ONCE(client->banned) ? DRM_RIVULET_CLIENT_BANNED : 0,
		.hangs = READ_ONCE(client->hangs),
		.busy_ns = atomic64_read(&client->busy_ns),
		.cycles = atomic64_read(&client->cycles),
		.energy_pj = atomic64_read(&client->energy_pj),
	};
	rvl_account_query(out);
}

/*
 * A job of the client hung the device. A client with too many hangs in RVL_BAN_WINDOW is banned:
 * its queued jobs end with -ECANCELED, and new jobs are refused. Called with rvl_device.lock held.
 */
void rvl_client_blame(struct rvl_client *client)
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
}

static void rvl_client_free(struct work_struct *work)
{
	struct rvl_client *client = container_of(work, struct rvl_client, work);
	struct drm_device *drm = &client->rdev->drm;

	atomic_dec(&client->rdev->clients);
	xa_destroy(&client->queues);
	xa_destroy(&client->perfmons);
	xa_destroy(&client->writable);
	rvl_account_put(client->account);
	kfree(client);
	drm_dev_put(drm);
}

/*
 * Drop a reference. A fence may drop the last one in any context, so that a work frees the client.
 */
void rvl_client_put(struct rvl_client *client)
{
	if (!refcount_dec_and_test(&client->ref))
		return;
	INIT_WORK(&client->work, rvl_client_free);
	queue_work(rvl_wq, &client->work);
	module_put(THIS_MODULE);
}

/* drm_driver.open: one client with a tag of its own, and no queue yet. */
int rvl_client_open(struct drm_device *drm, struct drm_file *file)
{
	struct rvl_device *rdev = to_rvl(drm);
	struct rvl_client *client;

	client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);
	if (!client)
		return -ENOMEM;
	client->account = rvl_account_get();
	if (!client->account) {
		kfree(client);
		return -ENOMEM;
	}
	refcount_set(&client->ref, 1);
	client->rdev = rdev;
	/* Jobs that wait for another driver, and fences, may outlive the file and the device. */
	drm_dev_get(drm);
	__module_get(THIS_MODULE);
	atomic_inc(&rdev->clients);
	xa_init_flags(&client->queues, XA_FLAGS_ALLOC1);
	xa_init_flags(&client->perfmons, XA_FLAGS_ALLOC1);
	xa_init(&client->writable);
	do {
		client->tag = atomic_inc_return(&rdev->next_client);
	} while (!client->tag || client->tag == RVL_TAG_DMA_BUF);
	file->driver_priv = client;
	return 0;
}

/* drm_driver.postclose: jobs not yet issued are dropped, issued ones run to their end. */
void rvl_client_close(struct drm_device *drm, struct drm_file *file)
{
	struct rvl_client *client = file->driver_priv;
	struct rvl_client_queue *queue;
	struct rvl_perfmon *perfmon;
	unsigned long id;

	xa_for_each(&client->queues, id, queue)
		rvl_client_queue_kill(client, queue);
	xa_for_each(&client->queues, id, queue)
		rvl_client_queue_finish(queue);
	xa_for_each(&client->perfmons, id, perfmon)
		rvl_perfmon_put(perfmon);
	rvl_client_put(client);
}

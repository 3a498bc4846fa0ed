// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of jobs that a device may still write after the driver has declared it lost: the device
 * left a RESET unanswered, and its bus cannot prove that its DMA has ended (no reset line). The
 * fences of the jobs end with an error, but their buffers stay pinned and mapped, and so do the
 * queue slots' memory, the NPU's structures and the module. All of it is released when the device
 * acknowledges a RESET, which the driver requests when it is unbound, and when it is bound to the
 * same device again.
 */
#include "rivulet_device.h"

/* Devices that were unbound with memory in quarantine. A reference keeps each of them. */
static LIST_HEAD(rvl_quarantined);
static DEFINE_MUTEX(rvl_quarantined_lock);

static void rvl_quarantine_add(struct rvl_device *rdev, struct drm_gem_object *obj)
{
	struct rvl_quarantine *q = &rdev->quarantine;

	drm_gem_object_get(obj);
	WRITE_ONCE(to_rvl_bo(obj)->quarantined, true);
	q->obj[q->count++] = obj;
}

/*
 * Keep the buffers of the jobs that were taken from the device. Called with rdev->lock held, before
 * the jobs end.
 */
void rvl_quarantine_jobs(struct rvl_device *rdev)
{
	struct rvl_quarantine *q = &rdev->quarantine;
	u32 i, k;

	lockdep_assert_held(&rdev->lock);
	for (i = 0; i < rdev->waiting; i++)
		for (k = 0; k < rdev->wait[i]->obj_count; k++)
			rvl_quarantine_add(rdev, rdev->wait[i]->obj[k]);
	if (!rdev->waiting || q->active)
		return;
	q->active = true;
	drm_dev_get(&rdev->drm);
	__module_get(THIS_MODULE);
	drm_err(&rdev->drm, "the device may still write the buffers of %u jobs: they stay pinned until it answers a reset\n",
		rdev->waiting);
}

/*
 * The device has acknowledged a RESET, so that its memory is released. This must not be called with
 * a lock held for which fences wait, because the release of a buffer takes its reservation's lock.
 */
void rvl_quarantine_release(struct rvl_device *rdev)
{
	struct rvl_quarantine *q = &rdev->quarantine;

	if (!q->active)
		return;
	q->active = false;
	while (q->count) {
		struct drm_gem_object *obj = q->obj[--q->count];

		WRITE_ONCE(to_rvl_bo(obj)->quarantined, false);
		drm_gem_object_put(obj);
	}
	drm_info(&rdev->drm, "the device answered a reset: the buffers of its jobs are released\n");
	drm_dev_put(&rdev->drm);
	module_put(THIS_MODULE);
}

/* The device is unbound: keep its quarantine for the next binding of the same device. */
void rvl_quarantine_unbind(struct rvl_device *rdev)
{
	if (!rdev->quarantine.active)
		return;
	guard(mutex)(&rvl_quarantined_lock);
	list_add(&rdev->quarantine.node, &rvl_quarantined);
}

/* A device has acknowledged a RESET since it was bound. Release the memory of earlier bindings. */
void rvl_quarantine_rebind(struct device *dev)
{
	struct rvl_device *rdev, *next;
	LIST_HEAD(quiet);

	scoped_guard(mutex, &rvl_quarantined_lock) {
		list_for_each_entry_safe(rdev, next, &rvl_quarantined, quarantine.node)
			if (rdev->drm.dev == dev)
				list_move(&rdev->quarantine.node, &quiet);
	}
	list_for_each_entry_safe(rdev, next, &quiet, quarantine.node) {
		list_del(&rdev->quarantine.node);
		rvl_slot_mem_free(rdev);
		rvl_quarantine_release(rdev);
	}
}

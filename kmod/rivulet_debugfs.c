// SPDX-License-Identifier: GPL-2.0-only
/* What is alive and where the queue stands, for people and for the tests' search for leaks. */
#include <drm/drm_debugfs.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <linux/seq_file.h>

#include "rivulet_hw.h"
#include "rivulet_job.h"

static int rvl_show_objects(struct seq_file *m, void *data)
{
	struct drm_debugfs_entry *entry = m->private;
	struct rvl_device *rdev = to_rvl(entry->dev);

	seq_printf(m, "buffers %d\njobs %d\nclients %d\nlist_bytes %ld\n",
		   atomic_read(&rdev->buffers), atomic_read(&rdev->jobs),
		   atomic_read(&rdev->clients), atomic_long_read(&rdev->list_bytes));
	return 0;
}

static int rvl_show_queue(struct seq_file *m, void *data)
{
	struct drm_debugfs_entry *entry = m->private;
	struct rvl_device *rdev = to_rvl(entry->dev);
	unsigned long flags;
	int idx;
	u32 i;

	if (!drm_dev_enter(&rdev->drm, &idx))
		return -ENODEV;
	spin_lock_irqsave(&rdev->lock, flags);
	seq_printf(m, "issued %u\ndone %u\nlevel %u\nprogress %u\n", rdev->seq,
		   rvl_hw_done(rdev), rvl_hw_level(rdev), rvl_hw_progress(rdev));
	for (i = 0; i < RVL_QUEUE_SLOTS; i++) {
		if (rdev->slot[i])
			seq_printf(m, "slot %u: seq %u client %u\n", i, rdev->slot[i]->seq,
				   rdev->slot[i]->client->tag);
	}
	spin_unlock_irqrestore(&rdev->lock, flags);
	drm_dev_exit(idx);
	return 0;
}

static const struct drm_debugfs_info rvl_debugfs_files[] = {
	{ "objects", rvl_show_objects },
	{ "queue", rvl_show_queue },
};

/**
 * rvl_debugfs_init - files of one NPU; the core removes them
 * @rdev: the NPU
 */
void rvl_debugfs_init(struct rvl_device *rdev)
{
	drm_debugfs_add_files(&rdev->drm, rvl_debugfs_files, ARRAY_SIZE(rvl_debugfs_files));
}

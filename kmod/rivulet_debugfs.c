// SPDX-License-Identifier: GPL-2.0-only
/* Files in debugfs that show objects, queue, registers and buffers. Tests read them, too. */
#include <drm/drm_debugfs.h>
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "rivulet_device.h"

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
	u32 i;

	guard(rvl_lock)(rdev);
	seq_printf(m, "live %u\nissued %u\nwaiting %u\n", rdev->live, rdev->seq, rdev->waiting);
	if (rdev->live)
		seq_printf(m, "done %u\nlevel %u\nprogress %u\n", rvl_hw_done(rdev),
			   rvl_hw_level(rdev), rvl_rd(rdev, RIVULET_REG_PROGRESS));
	for (i = 0; i < RVL_QUEUE_SLOTS; i++) {
		if (rdev->slot[i])
			seq_printf(m, "slot %u: seq %u client %u for %lld ms\n", i,
				   rdev->slot[i]->seq, rdev->slot[i]->client->tag,
				   ktime_ms_delta(ktime_get(), rdev->slot[i]->issued_at));
	}
	return 0;
}

static int rvl_show_registers(struct seq_file *m, void *data)
{
	struct drm_debugfs_entry *entry = m->private;
	struct rvl_device *rdev = to_rvl(entry->dev);
	struct drm_printer p = drm_seq_file_printer(m);
	int idx, ret;

	ret = rvl_pm_enter(rdev, &idx);
	if (ret)
		return ret;
	rvl_regs_print(rdev, &p);
	rvl_pm_exit(rdev, idx);
	return 0;
}

static void rvl_show_handles(struct seq_file *m, struct drm_file *file)
{
	struct rvl_client *client = file->driver_priv;
	struct drm_gem_object *obj;
	int handle;

	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, handle) {
		if (!obj)
			continue;
		seq_printf(m, "client %u handle %d size %zu %s%s%s\n", client->tag, handle,
			   obj->size, to_rvl_bo(obj)->list ? "pages" : "span",
			   to_rvl_bo(obj)->source ? " imported" : "",
			   rvl_rights_writable(client, handle, obj) ? "" : " readonly");
	}
	spin_unlock(&file->table_lock);
}

/* Each handle has a line, so that a buffer may have several lines. */
static int rvl_show_buffers(struct seq_file *m, void *data)
{
	struct drm_debugfs_entry *entry = m->private;
	struct drm_file *file;

	guard(mutex)(&entry->dev->filelist_mutex);
	list_for_each_entry(file, &entry->dev->filelist, lhead) {
		if (file->driver_priv)
			rvl_show_handles(m, file);
	}
	return 0;
}

static int rvl_force_reset(void *data, u64 value)
{
	int idx, ret;

	if (value != 1)
		return -EINVAL;
	ret = rvl_pm_enter(data, &idx);
	if (ret)
		return ret;
	ret = rvl_queue_force_reset(data);
	rvl_pm_exit(data, idx);
	return ret;
}
DEFINE_DEBUGFS_ATTRIBUTE(rvl_force_reset_fops, NULL, rvl_force_reset, "%llu\n");

static const struct drm_debugfs_info rvl_debugfs_files[] = {
	{ "objects", rvl_show_objects },
	{ "queue", rvl_show_queue },
	{ "registers", rvl_show_registers },
	{ "buffers", rvl_show_buffers },
};

/* Create the files of one NPU. The DRM core removes them. */
void rvl_debugfs_init(struct rvl_device *rdev)
{
	drm_debugfs_add_files(&rdev->drm, rvl_debugfs_files, ARRAY_SIZE(rvl_debugfs_files));
	debugfs_create_file("force_reset", 0200, rdev->drm.debugfs_root, rdev,
			    &rvl_force_reset_fops);
}

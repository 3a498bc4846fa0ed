// SPDX-License-Identifier: GPL-2.0-only
/*
 * Performance monitors: what the device counted of the jobs attached to one. A monitor belongs to a
 * file and counts that file's jobs only, so that reading one needs no privilege.
 */
#include "rivulet_device.h"

/* Find a performance monitor. Returns a reference for rvl_perfmon_put(), or NULL. */
struct rvl_perfmon *rvl_perfmon_get(struct rvl_client *client, u32 handle)
{
	struct rvl_perfmon *perfmon;

	xa_lock(&client->perfmons);
	perfmon = xa_load(&client->perfmons, handle);
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

/* Count a job that ended with the outcome @st, @ns and @error. Called with rvl_device.lock held. */
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
	/* From LOAD_BUSY to MACS both have the same order. */
	BUILD_BUG_ON(offsetof(struct rivulet_status, macs) -
		     offsetof(struct rivulet_status, load_busy) !=
		     8 * (DRM_RIVULET_PERF_MACS - DRM_RIVULET_PERF_LOAD_BUSY));
	for (i = DRM_RIVULET_PERF_LOAD_BUSY; i <= DRM_RIVULET_PERF_MACS; i++)
		value[i] += le64_to_cpu(counted[i - DRM_RIVULET_PERF_LOAD_BUSY]);
}

int rvl_ioctl_perfmon_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_perfmon_create *args = data;
	struct rvl_client *client = file->driver_priv;
	struct rvl_perfmon *perfmon;
	int ret;

	if (args->flags)
		return -EINVAL;
	perfmon = kzalloc(sizeof(*perfmon), GFP_KERNEL_ACCOUNT);
	if (!perfmon)
		return -ENOMEM;
	refcount_set(&perfmon->ref, 1);
	ret = xa_alloc(&client->perfmons, &args->perfmon, perfmon,
		       XA_LIMIT(1, DRM_RIVULET_MAX_PERFMONS), GFP_KERNEL);
	if (ret)
		rvl_perfmon_put(perfmon);
	return ret;
}

int rvl_ioctl_perfmon_destroy(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_perfmon_destroy *args = data;
	struct rvl_client *client = file->driver_priv;
	struct rvl_perfmon *perfmon;

	if (args->pad)
		return -EINVAL;
	perfmon = xa_erase(&client->perfmons, args->perfmon);
	rvl_perfmon_put(perfmon);
	return perfmon ? 0 : -ENOENT;
}

int rvl_ioctl_perfmon_read(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_rivulet_perfmon_read *args = data;
	u32 count = min_t(u32, args->count, RVL_PERF_VALUES);
	struct rvl_device *rdev = to_rvl(drm);
	u64 value[RVL_PERF_VALUES];
	struct rvl_perfmon *perfmon;

	if ((args->flags & ~DRM_RIVULET_PERFMON_RESET) || args->pad)
		return -EINVAL;
	perfmon = rvl_perfmon_get(file->driver_priv, args->perfmon);
	if (!perfmon)
		return -ENOENT;
	scoped_guard(rvl_lock, rdev) {
		memcpy(value, perfmon->value, sizeof(value));
		if (args->flags & DRM_RIVULET_PERFMON_RESET)
			memset(perfmon->value, 0, sizeof(value));
	}
	rvl_perfmon_put(perfmon);
	args->count = RVL_PERF_VALUES;
	if (copy_to_user(u64_to_user_ptr(args->values), value, count * sizeof(*value)))
		return -EFAULT;
	return 0;
}

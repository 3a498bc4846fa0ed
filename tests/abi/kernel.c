/* SPDX-License-Identifier: MIT */
/*
 * Compiled by scripts/check-abi. These structs have no size field, and the functions of
 * librivulet.so.1 that take them rely on their size. A struct that must grow needs a new function.
 */
#include <rivulet.h>
#include <rivulet_accel.h>

#define SIZE(type, bytes) typedef char size_of_##type[sizeof(struct type) == (bytes) ? 1 : -1]

SIZE(drm_rivulet_client, 48);
SIZE(drm_rivulet_clock, 16);
SIZE(drm_rivulet_counters, 136);
SIZE(drm_rivulet_device, 368);
SIZE(drm_rivulet_job, 80);
SIZE(drm_rivulet_range, 16);
SIZE(drm_rivulet_region, 32);
SIZE(drm_rivulet_variant, 16);

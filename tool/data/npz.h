/* SPDX-License-Identifier: MIT */
/* NumPy's .npz: a ZIP archive of .npy members, stored or deflated. The bytes are untrusted. */
#ifndef RVL_TOOL_NPZ_H
#define RVL_TOOL_NPZ_H

#include "data/array.h"

/**
 * rvl_npz_each() - call @each with every array and its name without ".npy", in the order of the
 * archive; the array is the callee's. A result other than 0 ends the walk and is returned.
 * 0, or -EINVAL, -EOVERFLOW, -EOPNOTSUPP, -ENOMEM with the reason in @why, of 160 bytes.
 */
int rvl_npz_each(const uint8_t *p, size_t size,
		 int (*each)(void *arg, const char *name, struct rvl_array *a), void *arg, char *why);

#endif

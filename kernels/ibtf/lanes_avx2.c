/* SPDX-License-Identifier: MIT */
#ifdef __x86_64__
#pragma GCC target("avx2")

#include "ibtf/lanes.h"

void rvl_ibtf_lanes_avx2(const struct rivulet_ibtf_shape *s, const struct rivulet_ibtf_slices *cut,
			 const uint16_t *codes, const int16_t *x, struct rivulet_ibtf_lanes *l,
			 int32_t *y)
{
	run(s, cut, codes, x, l, y);
}
#endif

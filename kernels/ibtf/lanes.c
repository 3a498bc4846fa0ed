/* SPDX-License-Identifier: MIT */
/* Products of several pixels at once: 128-bit registers, which SSE2 and NEON have, or wider ones.
 */
#include "ibtf/lanes.h"

typedef void (*run_fn)(const struct rivulet_ibtf_shape *s, const struct rivulet_ibtf_slices *cut,
		       const uint16_t *codes, const int16_t *x, struct rivulet_ibtf_lanes *l,
		       int32_t *y);

static run_fn run_of(enum rivulet_ibtf_vector v)
{
#ifdef __x86_64__
	if (v == RIVULET_IBTF_AVX512)
		return rvl_ibtf_lanes_avx512;
	if (v == RIVULET_IBTF_AVX2)
		return rvl_ibtf_lanes_avx2;
#endif
	(void)v;
	return run;
}

bool rivulet_ibtf_has(enum rivulet_ibtf_vector v)
{
#ifdef __x86_64__
	if (v == RIVULET_IBTF_AVX512)
		return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
	if (v == RIVULET_IBTF_AVX2)
		return __builtin_cpu_supports("avx2");
#endif
	return v == RIVULET_IBTF_128;
}

void rivulet_ibtf_run_lanes(const struct rivulet_ibtf_shape *s,
			    const struct rivulet_ibtf_slices *cut, const uint16_t *codes,
			    const int16_t *x, enum rivulet_ibtf_vector v,
			    struct rivulet_ibtf_lanes *l, int32_t *y)
{
	run_of(v)(s, cut, codes, x, l, y);
}

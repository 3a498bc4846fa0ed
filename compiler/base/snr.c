// SPDX-License-Identifier: MIT
#include <math.h>

#include "rivulet_snr.h"

void rvl_snr_add(struct rvl_snr *s, const float *want, const float *got, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		double w = (double)want[i], e = (double)got[i] - w;

		/* Infinities and NaN have no power: equal ones are exact, different ones are infinite noise. */
		if (!isfinite(w) || !isfinite(got[i])) {
			if (got[i] != want[i] && !(isnan(want[i]) && isnan(got[i])))
				s->noise = INFINITY;
			continue;
		}
		s->sum += w;
		s->square += w * w;
		s->noise += e * e;
		s->n++;
	}
}

double rvl_snr_db(const struct rvl_snr *s)
{
	double signal = s->n > 0 ? s->square - s->sum * s->sum / s->n : 0;

	if (isinf(s->noise))
		return -RVL_SNR_EXACT;
	if (!(s->noise > 0))
		return RVL_SNR_EXACT;
	if (!(signal > 0))
		return -RVL_SNR_EXACT;
	return fmin(10 * log10(signal / s->noise), RVL_SNR_EXACT);
}

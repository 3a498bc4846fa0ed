/* SPDX-License-Identifier: MIT */
/* Signal-to-noise ratio of values against a reference. */
#ifndef RIVULET_SNR_H
#define RIVULET_SNR_H

#include <stdint.h>

/**
 * struct rvl_snr - power of the reference about its mean, and of the difference, summed over all values;
 * all zero is none
 */
struct rvl_snr {
	double n, sum, square, noise;
};

void rvl_snr_add(struct rvl_snr *s, const float *want, const float *got, uint64_t n);

/** rvl_snr_db() - in dB; RVL_SNR_EXACT where there is no noise */
double rvl_snr_db(const struct rvl_snr *s);

#define RVL_SNR_EXACT 200.0

#endif

/* SPDX-License-Identifier: MIT */
/* The vector convolution behind rvl_conv(). */
#ifndef RVL_SIM_CONV_SIMD_H
#define RVL_SIM_CONV_SIMD_H

#include "engine.h"

#define RVL_CONV_SCALAR (-2)

/**
 * rvl_conv_simd() - run a CONV with vector instructions
 * Returns as rvl_conv(), or RVL_CONV_SCALAR with nothing done when host, geometry or shape do not
 * suit.
 */
int rvl_conv_simd(struct rvl_core *c, const struct rivulet_config *cfg,
		  const struct rivulet_insn_conv *v);

#endif

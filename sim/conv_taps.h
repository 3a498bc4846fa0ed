/* SPDX-License-Identifier: MIT */
/* Depthwise CONV by tap lanes, for rvl_conv(). */
#ifndef RVL_SIM_CONV_TAPS_H
#define RVL_SIM_CONV_TAPS_H

#include "engine.h"

/** rvl_conv_taps() - returns as rvl_conv() */
int rvl_conv_taps(struct rvl_core *c, const struct rivulet_config *cfg,
		  const struct rivulet_insn_conv *v);

#endif

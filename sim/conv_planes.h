/* SPDX-License-Identifier: MIT */
/* CONV by bit planes, for rvl_conv(). */
#ifndef RVL_SIM_CONV_PLANES_H
#define RVL_SIM_CONV_PLANES_H

#include "engine.h"

/** rvl_conv_planes() - returns as rvl_conv() */
int rvl_conv_planes(struct rvl_core *c, const struct rivulet_config *cfg,
		    const struct rivulet_insn_conv *v);

#endif

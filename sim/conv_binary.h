/* SPDX-License-Identifier: MIT */
/* Binary CONV, for rvl_conv(). */
#ifndef RVL_SIM_CONV_BINARY_H
#define RVL_SIM_CONV_BINARY_H

#include "engine.h"

/** rvl_conv_binary() - returns as rvl_conv() */
int rvl_conv_binary(struct rvl_core *c, const struct rivulet_config *cfg,
		    const struct rivulet_insn_conv *v);

#endif

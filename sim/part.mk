# SPDX-License-Identifier: MIT
$(eval $(call static_lib,sim,$(filter-out sim/main.c,$(wildcard sim/*.c))))
CFLAGS_sim/conv_simd := -O3
CFLAGS_sim/conv_taps := -O3
CFLAGS_sim/conv_binary := -O3
CFLAGS_sim/conv_planes := -O3
CFLAGS_sim/alu := -O3
CFLAGS_sim/alu_real := -O3
$(eval $(call program,rivulet-sim,sim/main.c,sim uapi,-lm))
PROGRAMS += $(BUILD)/rivulet-sim

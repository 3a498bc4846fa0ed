# SPDX-License-Identifier: MIT
$(eval $(call static_lib,sim,$(filter-out sim/main.c,$(wildcard sim/*.c))))
CFLAGS_sim_conv_simd := -O3
CFLAGS_sim_alu := -O3

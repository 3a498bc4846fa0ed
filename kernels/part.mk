# SPDX-License-Identifier: MIT
$(eval $(call static_lib,kernels,$(sort $(wildcard kernels/*.c))))
# Loops of float convolutions and elementwise operators are written for the vectoriser.
CFLAGS_kernels_op_float := -O3
CFLAGS_kernels_op_binary := -O3


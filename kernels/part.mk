# SPDX-License-Identifier: MIT
$(eval $(call static_lib,kernels,$(sort $(wildcard kernels/*.c))))
# Loops of float convolutions and elementwise operators are written for the vectoriser.
CFLAGS_kernels_op_float := -O3
CFLAGS_kernels_op_binary := -O3

$(eval $(call program,unit/test_kernels,tests/unit/test_kernels.c tests/conv/conv_cases.c,kernels uapi,-lm $(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_kernels
$(eval $(call unit_test,kernels_sc,kernels uapi,-lm))
$(eval $(call program,unit/test_conv_cases,tests/unit/test_conv_cases.c tests/conv/conv_cases.c,uapi,$(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_conv_cases

# SPDX-License-Identifier: MIT
$(eval $(call static_lib,plan,$(sort $(wildcard plan/*.c))))
$(eval $(call unit_test,eval,plan compiler kernels sim uapi,-lm))
$(eval $(call unit_test,plan,plan compiler kernels sim uapi,-lm))

# SPDX-License-Identifier: MIT
$(eval $(call static_lib,runtime,$(wildcard runtime/*.c)))

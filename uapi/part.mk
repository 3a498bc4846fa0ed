# SPDX-License-Identifier: MIT
$(eval $(call static_lib,uapi,$(wildcard uapi/*.c)))

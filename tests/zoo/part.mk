# SPDX-License-Identifier: MIT
# The networks of tools/zoo: passes, programs and ranges.
$(eval $(call program,tests/check_zoo,tests/zoo/check_zoo.c,compiler kernels sim uapi,-lm))
.PHONY: check-zoo
check-zoo: $(BUILD)/tests/check_zoo
	@BUILD=$(BUILD) scripts/check-zoo

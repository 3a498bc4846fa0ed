# SPDX-License-Identifier: MIT
$(eval $(call program,tests/vm/kmod_test,$(filter-out tests/vm/stranger.c,$(wildcard tests/vm/*.c)),uapi,))
$(eval $(call program,tests/vm/stranger,tests/vm/stranger.c,uapi,))
VM_TESTS := $(BUILD)/tests/vm/kmod_test $(BUILD)/tests/vm/stranger

.PHONY: check-vm
check-vm: # the driver's tests, in one boot
	@scripts/vm-check.sh

# SPDX-License-Identifier: MIT
# The installed daemon under systemd and udev, on the real driver, in a boot of its own.
$(eval $(call program,tests/vm/service/monitor,tests/vm/service/monitor.c tests/vm/npu.c tests/vm/fail.c,uapi,))
VM_TESTS += $(BUILD)/tests/vm/service/monitor
.PHONY: check-service
check-service: # CHECKS=WORD: only those whose name holds it
	@scripts/vm-service $(CHECKS)

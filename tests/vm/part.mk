# SPDX-License-Identifier: MIT
VM_FUZZ := $(wildcard tests/vm/fuzz_*.c)
$(eval $(call program,tests/vm/kmod_test,$(filter-out tests/vm/foreign.c tests/vm/fault_sweep.c tests/vm/kexec.c tests/vm/tsc_khz.c $(VM_FUZZ),$(wildcard tests/vm/*.c)),uapi,))
$(eval $(call program,tests/vm/fuzz_ioctl,$(VM_FUZZ) tests/vm/npu.c,uapi,))
$(eval $(call program,tests/vm/fault_sweep,tests/vm/fault_sweep.c tests/vm/npu.c tests/vm/fail.c,uapi,))
$(eval $(call program,tests/vm/foreign,tests/vm/foreign.c,uapi,))
$(eval $(call program,tests/vm/tsc_khz,tests/vm/tsc_khz.c,uapi,))
$(eval $(call program,tests/vm/kexec,tests/vm/kexec.c tests/vm/npu.c tests/vm/fail.c,uapi,))
VM_TESTS := $(BUILD)/tests/vm/kmod_test $(BUILD)/tests/vm/fuzz_ioctl $(BUILD)/tests/vm/fault_sweep $(BUILD)/tests/vm/kexec $(BUILD)/tests/vm/foreign $(BUILD)/tests/vm/tsc_khz

.PHONY: check-vm check-render
check-render: # the same with a render node, as where the kernel has no CONFIG_DRM_ACCEL
	@scripts/install-deps.sh
	@scripts/vm-check.sh --render
check-vm: # the driver's tests, in one boot
	@scripts/vm-check.sh

.PHONY: fuzz-ioctl
fuzz-ioctl: # a million calls, in a boot of its own; CALLS=N, SEED=S
	@scripts/install-deps.sh
	@scripts/fuzz-ioctl $(or $(CALLS),1000000) $(or $(SEED),1)

.PHONY: check-debug
check-debug: # the whole VM suite on a kernel with KASAN, lockdep and kmemleak, then the fuzzer, then failing allocations
	@scripts/install-deps.sh --debug-kernel
	@scripts/check-debug

.PHONY: check-bounce
check-bounce: # the CPU's access to buffers where devices see copies of memory only
	@scripts/install-deps.sh
	@scripts/check-bounce

.PHONY: check-kexec
check-kexec: # a kernel after another by kexec, with jobs on the NPU: what the driver's shutdown leaves
	@scripts/install-deps.sh
	@scripts/check-kexec

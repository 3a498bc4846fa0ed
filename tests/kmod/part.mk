# SPDX-License-Identifier: MIT
# A module that only a bench loads is built like the driver, beside copies of its sources.
FLOOR := $(BUILD)/tests/kmod/floor/floor.ko
FLOOR_SOURCES := $(wildcard tests/kmod/floor/*.[ch]) tests/kmod/floor/Kbuild kmod/rivulet_compat.h

$(FLOOR): $(FLOOR_SOURCES) kmod/Kbuild $(KMOD_UAPI)
	@mkdir -p $(@D)/uapi
	@cp -u $(FLOOR_SOURCES) $(@D)/
	@cp -u kmod/Kbuild $(@D)/rivulet.Kbuild
	@cp -u $(KMOD_UAPI) $(@D)/uapi/
	@echo "  KBUILD  $@ ($(KVER))"
	@env -u MAKEFLAGS -u MFLAGS $(MAKE) -C $(KDIR) M=$(abspath $(@D)) W=1 modules >$(@D)/log 2>&1 || { cat $(@D)/log >&2; exit 1; }
	@! grep -E 'floor\.[ch]:.*warning:' $(@D)/log || exit 1

# The board of make check-arm64. It needs a kernel with Device Tree.
BOARD := $(BUILD)/tests/kmod/board/board.ko
BOARD_SOURCES := $(wildcard tests/kmod/board/*.[ch]) tests/kmod/board/Kbuild

$(BOARD): $(BOARD_SOURCES) $(KMOD_UAPI)
	@mkdir -p $(@D)/uapi
	@cp -u $(BOARD_SOURCES) $(@D)/
	@cp -u $(KMOD_UAPI) $(@D)/uapi/
	@echo "  KBUILD  $@ ($(KVER))"
	@env -u MAKEFLAGS -u MFLAGS $(MAKE) -C $(KDIR) M=$(abspath $(@D)) W=1 modules >$(@D)/log 2>&1 || { cat $(@D)/log >&2; exit 1; }
	@! grep -E 'board\.[ch]:.*warning:' $(@D)/log || exit 1

$(eval $(call program,tests/bench_driver,tests/bench/bench_driver.c tests/vm/npu.c tests/vm/fail.c,uapi,))
.PHONY: bench-driver
bench-driver:
	@scripts/install-deps.sh
	@scripts/bench-driver

# A battery, heat and a frequency limit for tests of the power policy, independent of the NPU.
MACHINE := $(BUILD)/tests/kmod/machine/machine.ko
$(MACHINE): tests/kmod/machine/machine.c tests/kmod/machine/Kbuild
	@mkdir -p $(@D)
	@cp -u $^ $(@D)/
	@echo "  KBUILD  $@ ($(KVER))"
	@env -u MAKEFLAGS -u MFLAGS $(MAKE) -C $(KDIR) M=$(abspath $(@D)) W=1 modules >$(@D)/log 2>&1 || { cat $(@D)/log >&2; exit 1; }
	@! grep -E 'machine\.c:.*warning:' $(@D)/log || exit 1

# Fences, device numbers and delays for the driver's VM tests.
HARNESS := $(BUILD)/tests/kmod/harness/harness.ko
$(HARNESS): $(wildcard tests/kmod/harness/*)
	@mkdir -p $(@D)
	@cp -u $^ $(@D)/
	@echo "  KBUILD  $@ ($(KVER))"
	@env -u MAKEFLAGS -u MFLAGS $(MAKE) -C $(KDIR) M=$(abspath $(@D)) W=1 modules >$(@D)/log 2>&1 || { cat $(@D)/log >&2; exit 1; }
	@! grep -E 'harness\.[ch]:.*warning:' $(@D)/log || exit 1

# SPDX-License-Identifier: MIT
# The compiler with one more mode: its file, and the table of modes compiled with it.
MODE_DIR := $(BUILD)/gen/tests_modes
$(MODE_DIR)/npu_modes.inc: $(BUILD)/gen/npu_modes.inc $(wildcard tests/modes/mode_*.c)
	@mkdir -p $(@D)
	@{ printf 'RVL_MODE(%s)\n' $(patsubst tests/modes/mode_%.c,%,$(wildcard tests/modes/mode_*.c)); \
		cat $<; } > $@
$(BUILD)/obj/tests/modes/table.o: $(MODE_DIR)/npu_modes.inc
CPPFLAGS_tests/modes/table := -I$(MODE_DIR)
$(eval $(call program,unit/test_modes,tests/unit/test_modes.c $(wildcard tests/modes/*.c),compiler kernels sim uapi,-lm $(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_modes

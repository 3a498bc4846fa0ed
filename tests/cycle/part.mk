# SPDX-License-Identifier: MIT
# Compares the timeline with the cycle-stepped model.
CYCLE_MODEL := $(addprefix tests/cycle/,cycle.c xfer.c load.c conv.c planes.c alu.c store.c)
CPPFLAGS_tests/unit/test_cycle := -Itests/cycle
CYCLE_CHECK := $(addprefix tests/cycle/,check_cycles.c networks.c streams.c) $(CYCLE_MODEL)
$(eval $(call program,tests/check_cycles,$(CYCLE_CHECK),compiler kernels uapi,-lm))
.PHONY: check-cycles
check-cycles: $(BUILD)/tests/check_cycles
	@$<

$(eval $(call program,unit/test_cycle,tests/unit/test_cycle.c $(CYCLE_MODEL),uapi,$(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_cycle

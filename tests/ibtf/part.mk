# SPDX-License-Identifier: MIT
# Identical binary tensor factorisation: exactness, and the seed's tables and figures.
$(eval $(call program,unit/test_ibtf,tests/unit/test_ibtf.c tests/ibtf/cases.c,kernels uapi,-lm $(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_ibtf
$(eval $(call unit_test,factor,tool $(TOOL_STATIC),$(TOOL_LIBS)))
$(eval $(call program,tests/check_ibtf,tests/ibtf/check_ibtf.c tests/ibtf/cases.c,kernels uapi,-lm))
.PHONY: check-ibtf
check-ibtf: $(BUILD)/tests/check_ibtf
	@$< 100000

# Products by buckets on the CPU beside those of the int8 kernels.
$(eval $(call program,tests/bench_lanes,tests/ibtf/bench_lanes.c tests/ibtf/cases.c,kernels uapi,-lm))
$(eval $(call program,tests/bench_tables,tests/ibtf/bench_tables.c,kernels uapi,-lm))
.PHONY: bench-ibtf-cpu
bench-ibtf-cpu: $(BUILD)/tests/bench_lanes $(BUILD)/tests/bench_tables
	@$(BUILD)/tests/bench_lanes
	@$(BUILD)/tests/bench_tables

# The publication's tables, and totals of its networks, as CSV and SVG in $(BUILD)/ibtf.
$(eval $(call program,tests/eval_ibtf,tests/ibtf/eval_ibtf.c tests/ibtf/cases.c,kernels uapi,-lm))
.PHONY: eval-ibtf
eval-ibtf: $(BUILD)/tests/eval_ibtf
	@mkdir -p $(BUILD)/ibtf
	@$< tests/ibtf/networks.csv $(BUILD)/ibtf; rc=$$?; python3 -B tests/ibtf/draw.py $(BUILD)/ibtf && exit $$rc

# Bits of the weights of a trained network: accuracy, additions, cycles and energy.
.PHONY: eval-bits
eval-bits: $(BUILD)/rivulet
	@BUILD=$(BUILD) scripts/eval-bits

# The choice of the mode on a board that has multipliers, too, over the networks of tools/zoo.
CPPFLAGS_tests/ibtf/bench_choice := -Itests/zoo
$(eval $(call program,tests/bench_choice,tests/ibtf/bench_choice.c,compiler kernels uapi,-lm))
.PHONY: bench-choice
bench-choice: $(BUILD)/tests/bench_choice
	@BUILD=$(BUILD) scripts/bench-choice

# The bit-plane mode of the NPU beside a bit-serial array.
CPPFLAGS_tests/ibtf/bench_ibtf := -Itests/cycle
$(eval $(call program,tests/bench_ibtf,tests/ibtf/bench_ibtf.c $(CYCLE_MODEL),compiler kernels uapi,-lm))
.PHONY: bench-ibtf
bench-ibtf: $(BUILD)/tests/bench_ibtf
	@$<

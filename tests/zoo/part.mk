# SPDX-License-Identifier: MIT
# The networks of tools/zoo: passes, programs and ranges.
$(eval $(call program,tests/check_zoo,tests/zoo/check_zoo.c,compiler kernels sim uapi,-lm))
CPPFLAGS_tests/bench/bench_zoo := -Itests/cycle -Itests/zoo
$(eval $(call program,tests/bench_zoo,tests/bench/bench_zoo.c $(CYCLE_MODEL),compiler kernels uapi,-lm))
CPPFLAGS_tests/bench/bench_binary := -Itests/cycle -Itests/zoo
$(eval $(call program,tests/bench_binary,tests/bench/bench_binary.c $(CYCLE_MODEL),compiler kernels sim uapi,-lm))
.PHONY: bench-binary
bench-binary: $(BUILD)/tests/bench_binary
	@BUILD=$(BUILD) scripts/bench-binary
.PHONY: check-zoo
check-zoo: $(BUILD)/tests/check_zoo
	@BUILD=$(BUILD) scripts/check-zoo
.PHONY: eval-cnn
eval-cnn: $(BUILD)/rivulet
	@BUILD=$(BUILD) scripts/eval-cnn
.PHONY: eval-binary
eval-binary: $(BUILD)/rivulet
	@scripts/install-deps.sh --oracle
	@BUILD=$(BUILD) scripts/eval-binary build/venv/bin/python

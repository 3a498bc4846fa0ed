# SPDX-License-Identifier: MIT
# Fuzz targets: tests/fuzz/fuzz_NAME.c. make fuzz runs them with libFuzzer, the unit test runs their corpora.
FUZZ_TARGETS := reader program examples shapes
FUZZ_PARTS := tests/fuzz/cost.c tests/fuzz/change.c
FUZZ_SOURCES := $(FUZZ_TARGETS:%=tests/fuzz/fuzz_%.c) $(FUZZ_PARTS)
$(eval $(call program,unit/test_corpus,tests/unit/test_corpus.c $(FUZZ_SOURCES),tool $(TOOL_STATIC),$(TOOL_LIBS) $(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_corpus

# The make that scripts/fuzz starts sets FUZZ.
ifdef FUZZ
$(foreach t,$(FUZZ_TARGETS),$(eval CFLAGS_tests/fuzz/fuzz_$(t) := -DFUZZ_MAIN) \
	$(eval $(call program,fuzz_$(t),tests/fuzz/fuzz_$(t).c $(FUZZ_PARTS),tool $(TOOL_STATIC),-fsanitize=fuzzer $(TOOL_LIBS))))
endif
.PHONY: fuzz fuzz-programs
fuzz-programs: $(FUZZ_TARGETS:%=$(BUILD)/fuzz_%)
fuzz:
	@scripts/install-deps.sh --fuzz
	@scripts/fuzz $(SECONDS)

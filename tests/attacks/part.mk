# SPDX-License-Identifier: MIT
# Attacks on the program rivuletd by unprivileged users, beside a bystander.
CPPFLAGS_tests/attacks/attacks := -Itests/unit
$(eval $(call program,tests/check_attacks,tests/attacks/attacks.c,$(DAEMON_STATIC),$(DAEMON_LIBS) $(shell pkg-config --libs json-c 2>/dev/null) $(CHECK_LIBS)))
$(BUILD)/tests/check_attacks: | $(BUILD)/rivuletd
.PHONY: check-attacks
check-attacks: $(BUILD)/tests/check_attacks $(BUILD)/rivuletd
	@scripts/run-unit $<

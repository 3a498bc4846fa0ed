# SPDX-License-Identifier: MIT
DAEMON_SOURCES := $(filter-out daemon/main.c,$(sort $(wildcard daemon/*.c)))
DAEMON_STATIC := daemon policy runtime compiler kernels client sim uapi
DAEMON_LIBS := $(shell pkg-config --libs libsystemd libseccomp libdrm 2>/dev/null) -lm
$(eval $(call static_lib,policy,$(sort $(wildcard daemon/policy/*.c))))
$(eval $(call static_lib,daemon,$(DAEMON_SOURCES)))
$(eval $(call program,rivuletd,daemon/main.c,$(DAEMON_STATIC),$(DAEMON_LIBS)))
PROGRAMS += $(BUILD)/rivuletd

# The tables of docs/protocol.md come from uapi/rivulet_proto.h.
$(eval $(call program,gen/protocol,daemon/gen/protocol.c,uapi,))
.PHONY: docs-protocol check-docs-protocol
docs: docs-protocol
docs-protocol: $(BUILD)/gen/protocol
	@$< docs/protocol.md >$(BUILD)/protocol.md
	@cmp -s $(BUILD)/protocol.md docs/protocol.md || cp $(BUILD)/protocol.md docs/protocol.md
check-docs: check-docs-protocol
check-docs-protocol: $(BUILD)/gen/protocol
	@$< docs/protocol.md | diff -u docs/protocol.md - || \
		{ echo "docs/protocol.md: tables differ from uapi/rivulet_proto.h: make docs" >&2; exit 1; }

.PHONY: check-security check-nspawn
check-security: $(BUILD)/rivuletd
	@BUILD=$(BUILD) scripts/check-security

$(eval $(call program,nspawn-client,tests/nspawn/client.c,client uapi,$(shell pkg-config --libs libdrm 2>/dev/null) -lm))
PROGRAMS += $(BUILD)/nspawn-client
check-nspawn: $(BUILD)/rivuletd $(BUILD)/nspawn-client
	@BUILD=$(BUILD) tests/nspawn/run

$(eval $(call program,tests/bench_policy,tests/bench/bench_policy.c,$(DAEMON_STATIC),$(DAEMON_LIBS)))
.PHONY: bench-policy bench-sc
bench-policy: $(BUILD)/tests/bench_policy
	@$<
bench-sc: bench-policy

# It starts the daemon itself, too.
$(BUILD)/unit/test_rivuletd: | $(BUILD)/rivuletd $(BUILD)/rivulet

include daemon/install.mk

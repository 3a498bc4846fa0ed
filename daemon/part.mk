# SPDX-License-Identifier: MIT
DAEMON_SOURCES := $(filter-out daemon/main.c,$(sort $(wildcard daemon/*.c)))
DAEMON_STATIC := daemon runtime compiler kernels client sim uapi
DAEMON_LIBS := $(shell pkg-config --libs libsystemd libseccomp libdrm 2>/dev/null) -lm
$(eval $(call static_lib,daemon,$(DAEMON_SOURCES)))
$(eval $(call program,rivuletd,daemon/main.c,$(DAEMON_STATIC),$(DAEMON_LIBS)))
PROGRAMS += $(BUILD)/rivuletd

# The tables of docs/protocol.md come from uapi/rivulet_proto.h, those of rivuletd.conf.5 from daemon/config.h.
$(eval $(call program,gen/protocol,daemon/gen/protocol.c,uapi,))
docs/protocol.md: $(BUILD)/gen/protocol
	@echo "  GEN     $@"
	@$< $@ > $@.tmp && mv $@.tmp $@

.PHONY: check-security check-nspawn
check-security: $(BUILD)/rivuletd
	@BUILD=$(BUILD) scripts/check-security

$(eval $(call program,nspawn-client,tests/nspawn/client.c,client uapi,$(shell pkg-config --libs libdrm 2>/dev/null) -lm))
check-nspawn: $(BUILD)/rivuletd $(BUILD)/nspawn-client
	@BUILD=$(BUILD) tests/nspawn/run

include daemon/install.mk

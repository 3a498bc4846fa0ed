# SPDX-License-Identifier: MIT
# The `rivulet` command. Everything but main.c is a static library too, for its unit test.
TOOL_PKGS := libpng zlib
CPPFLAGS_ALL += $(shell pkg-config --cflags $(TOOL_PKGS) 2>/dev/null)
TOOL_LIBS := $(shell pkg-config --libs $(TOOL_PKGS) json-c libdrm 2>/dev/null) -lm
TOOL_STATIC := policy runtime client compiler kernels sim uapi
$(eval $(call static_lib,tool,$(filter-out tool/main.c,$(wildcard tool/*.c))))
$(eval $(call program,rivulet,tool/main.c,tool $(TOOL_STATIC),$(TOOL_LIBS)))
PROGRAMS += $(BUILD)/rivulet

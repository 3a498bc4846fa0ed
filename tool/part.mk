# SPDX-License-Identifier: MIT
# The `rivulet` command. Everything but main.c is also a static library, for its unit test.
TOOL_PKGS := libpng zlib
CPPFLAGS_ALL += $(shell pkg-config --cflags $(TOOL_PKGS) 2>/dev/null)
TOOL_LIBS := $(shell pkg-config --libs $(TOOL_PKGS) libdrm 2>/dev/null) -lm
TOOL_STATIC := runtime client compiler kernels sim uapi
$(eval $(call program,rivulet,$(wildcard tool/*.c),$(TOOL_STATIC),$(TOOL_LIBS)))
PROGRAMS += $(BUILD)/rivulet

# SPDX-License-Identifier: MIT
# The `rivulet` command. Everything but main.c is a static library too, for its unit tests.
TOOL_PKGS := libpng zlib
CPPFLAGS_ALL += $(shell pkg-config --cflags $(TOOL_PKGS) 2>/dev/null)
TOOL_LIBS := $(shell pkg-config --libs $(TOOL_PKGS) json-c libdrm 2>/dev/null) -lm
TOOL_STATIC := policy plan runtime client compiler kernels sim uapi
# Each file verbs/cmd_NAME.c is a verb; the folder's time changes when one is added.
TOOL_VERBS := $(patsubst tool/verbs/cmd_%.c,%,$(sort $(wildcard tool/verbs/cmd_*.c)))
CPPFLAGS_tool/verb := '-DRVL_VERBS(X)=$(foreach v,$(TOOL_VERBS),X($(v)))'
$(BUILD)/obj/tool/verb.o: tool/verbs
$(eval $(call static_lib,tool,$(filter-out tool/main.c,$(wildcard tool/*.c tool/*/*.c))))
$(eval $(call program,rivulet,tool/main.c,tool $(TOOL_STATIC),$(TOOL_LIBS)))
PROGRAMS += $(BUILD)/rivulet

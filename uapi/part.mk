# SPDX-License-Identifier: MIT
$(eval $(call static_lib,uapi,$(wildcard uapi/*.c)))

# Most of a compilation is the emission of trial streams (compiler/npu) and their timeline, and for large
# models the passes over all weights.
TIMED_SOURCES := $(wildcard uapi/*.c compiler/npu/mode_*.c) $(addprefix compiler/npu/,cascade.c chain.c choose.c emit.c \
	emit_conv.c emit_layer.c emit_misc.c epilogue.c estimate.c keep.c lower_conv.c memo.c pack.c sched.c segment.c tile.c turns.c)
$(foreach f,$(if $(filter -O2,$(OPT)),$(TIMED_SOURCES:.c=)),$(eval CFLAGS_$f := -O3))

# The tables of the documentation are generated from the headers. sim/boundary.h is the only one of
# them that is not in uapi/.
CPPFLAGS_uapi/gen/docgen := -Isim
$(eval $(call program,gen/docgen,uapi/gen/docgen.c,uapi))
.PHONY: docs check-docs
docs: $(BUILD)/gen/docgen
	@$< uapi/rivulet_dev.h $(wildcard docs/*.md)
check-docs: $(BUILD)/gen/docgen
	@$< --check uapi/rivulet_dev.h $(wildcard docs/*.md)

# Where a build in the source tree finds its boards.
CPPFLAGS_uapi/board := -DRIVULET_SOURCE_BOARDS='"$(CURDIR)/sim/boards"'

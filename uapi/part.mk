# SPDX-License-Identifier: MIT
$(eval $(call static_lib,uapi,$(wildcard uapi/*.c)))

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

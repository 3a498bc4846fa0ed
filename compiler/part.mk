# SPDX-License-Identifier: MIT
$(eval $(call static_lib,compiler,$(sort $(wildcard compiler/*.c))))

$(eval $(call program,gen/operators,compiler/gen/operators.c,compiler kernels uapi,-lm))
docs/operators.md: $(BUILD)/gen/operators
	@echo "  GEN     $@"
	@$< > $@.tmp && mv $@.tmp $@

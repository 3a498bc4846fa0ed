# SPDX-License-Identifier: MIT
$(eval $(call static_lib,compiler,$(sort $(wildcard compiler/*.c))))

$(eval $(call program,gen/operators,compiler/gen/operators.c,compiler kernels uapi,-lm))
docs/operators.md: $(BUILD)/gen/operators
	@echo "  GEN     $@"
	@$< > $@.tmp && mv $@.tmp $@

$(eval $(call unit_test,onnx,compiler kernels uapi,-lm))
$(eval $(call unit_test,graph,compiler kernels uapi,-lm))

$(eval $(call program,tests/check_onnx,tests/onnx/check_onnx.c,compiler kernels uapi,-lm))
.PHONY: check-onnx
check-onnx: $(BUILD)/tests/check_onnx
	@$< /usr/share/libonnx-testdata/data/node

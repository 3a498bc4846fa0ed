# SPDX-License-Identifier: MIT
# Client library and runtime on the real driver, with a program of one NPU step.
VM_CLIENT_ONNX := /usr/share/libonnx-testdata/data/node/test_qlinearconv
VM_CLIENT_FREEZE := x_scale:1 x_zero_point:2 w:3 w_scale:4 w_zero_point:5 y_scale:6 y_zero_point:7
$(eval $(call program,tests/vm/client_test,tests/vm/client/client_test.c,$(TOOL_STATIC),$(TOOL_LIBS)))
$(BUILD)/tests/vm/qconv.rvp: $(BUILD)/rivulet
	@mkdir -p $(@D)
	@echo "  RVP     $@"
	@$< compile -q -o $@ $(VM_CLIENT_ONNX)/model.onnx $(foreach f,$(VM_CLIENT_FREEZE),--freeze \
		$(firstword $(subst :, ,$f))=$(VM_CLIENT_ONNX)/test_data_set_0/input_$(lastword $(subst :, ,$f)).pb)
VM_TESTS += $(BUILD)/tests/vm/client_test $(BUILD)/tests/vm/qconv.rvp $(BUILD)/tests/vm/zu3eg-64.board

# The everyday board, but with stochastic lanes, so that these come through the kernel too.
$(BUILD)/tests/vm/zu3eg-64.board: sim/boards/zu3eg-64.board sim/boards/sc-edge.board
	@mkdir -p $(@D)
	@echo "  BOARD   $@"
	@{ awk '/^modes = / { $$3 += 16 } { print }' $<; sed -n 's/^sc_lanes = .*/sc_lanes = 16/; /^sc_/p' sim/boards/sc-edge.board; } >$@

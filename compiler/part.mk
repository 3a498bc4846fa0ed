# SPDX-License-Identifier: MIT
# A room is a folder of compiler/; its files include the headers of rooms as ROOM/NAME.h.
$(eval $(call static_lib,compiler,$(filter-out compiler/gen/%,$(sort $(wildcard compiler/*/*.c)))))

# One line for each compute mode of the NPU, written again when a file is added or removed.
NPU_MODES := $(patsubst mode_%,%,$(sort $(notdir $(basename $(wildcard compiler/npu/mode_*.c)))))
$(BUILD)/gen/npu_modes.inc: FORCE
	@want=$$(printf 'RVL_MODE(%s)\n' $(NPU_MODES)); \
		[ "$$want" = "$$(cat $@ 2>/dev/null)" ] || \
		{ mkdir -p $(@D) && echo "$$want" > $@.$$$$ && mv $@.$$$$ $@; }
$(BUILD)/obj/compiler/npu/mode.o: $(BUILD)/gen/npu_modes.inc
CPPFLAGS_compiler/npu/mode += -I$(BUILD)/gen

$(eval $(call program,gen/operators,compiler/gen/operators.c,compiler kernels uapi,-lm))
docs: docs/operators.md
docs/operators.md: $(BUILD)/gen/operators
	@echo "  GEN     $@"
	@$< > $@.tmp && mv $@.tmp $@

$(eval $(call unit_test,onnx,compiler kernels uapi,-lm))
$(eval $(call unit_test,onnx_bodies,compiler kernels uapi,-lm))
$(eval $(call unit_test,compositions,compiler kernels uapi,-lm))
$(eval $(call unit_test,onnx_dims,compiler kernels uapi,-lm))
$(eval $(call unit_test,graph,compiler kernels uapi,-lm))
$(eval $(call unit_test,memory,compiler kernels uapi,-lm))
$(eval $(call unit_test,extreme,compiler kernels uapi,-lm))
$(eval $(call unit_test,view,compiler kernels uapi,-lm))
$(eval $(call unit_test,binary,compiler kernels uapi,-lm))
$(eval $(call unit_test,layout,compiler kernels uapi,-lm))
$(eval $(call unit_test,layout_pass,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,pitches,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,chain_pass,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,residual,compiler kernels sim uapi,-lm))

$(eval $(call program,tests/check_onnx,tests/onnx/check_onnx.c tests/onnx/eligible.c,compiler kernels sim uapi,-lm))
.PHONY: check-onnx
check-onnx: $(BUILD)/tests/check_onnx
	@$< /usr/share/libonnx-testdata/data/node
	@$< -p onnx.converted /usr/share/libonnx-testdata/data/pytorch-converted
	@$< -p onnx.operator /usr/share/libonnx-testdata/data/pytorch-operator

# Compares operators of com.microsoft with onnxruntime.
.PHONY: check-microsoft
check-microsoft: $(BUILD)/tests/check_onnx
	@scripts/install-deps.sh --oracle
	@rm -rf $(BUILD)/onnx-microsoft
	@build/venv/bin/python tests/onnx/microsoft.py $(BUILD)/onnx-microsoft
	@$< -a -p onnx.microsoft $(BUILD)/onnx-microsoft

# Compares real models from packages of PyPI with onnxruntime.
.PHONY: check-real
check-real: $(BUILD)/rivulet
	@scripts/install-deps.sh --oracle
	@build/venv/bin/python tests/onnx/real.py $(BUILD)/rivulet $(BUILD)/real
	@build/venv/bin/python tests/onnx/real_quantised.py $(BUILD)/rivulet $(BUILD)/real

# Time and memory of compiling.
.PHONY: check-compile
check-compile: $(BUILD)/rivulet
	@BUILD=$(BUILD) scripts/check-compile

# A model of more than 2 GiB; needs 5 GiB of disk while it runs.
.PHONY: check-large
check-large: $(BUILD)/rivulet
	@scripts/install-deps.sh --oracle
	@build/venv/bin/python tests/large/check_large.py $(BUILD)/rivulet $(BUILD)/large

# Random float networks, quantised: the device's results against onnxruntime's of the exported models.
NETWORKS ?= 1000
.PHONY: check-quantised
check-quantised: $(BUILD)/rivulet
	@scripts/install-deps.sh --oracle
	@build/venv/bin/python tests/onnx/quantised_graphs.py $(BUILD)/rivulet $(NETWORKS)

# Single quantised operators of random attributes against onnxruntime.
GRAPHS ?= 300
.PHONY: check-quantised-operators
check-quantised-operators: $(BUILD)/rivulet
	@scripts/install-deps.sh --oracle
	@build/venv/bin/python tests/onnx/quantised_operators.py $(BUILD)/rivulet $(GRAPHS)
	@build/venv/bin/python tests/onnx/quantised_norm.py $(BUILD)/rivulet

# The same of the newest onnx package of PyPI, which makes its tests.
.PHONY: check-onnx-newest
check-onnx-newest: $(BUILD)/tests/check_onnx $(BUILD)/onnx-newest/made
	@$< -p onnx.newest $(BUILD)/onnx-newest/node
$(BUILD)/onnx-newest/made: tests/onnx/newest.py
	@scripts/install-deps.sh --oracle
	@rm -rf $(@D) && mkdir -p $(@D)
	@build/venv/bin/python $< $(@D)/node
	@touch $@

$(eval $(call unit_test,lower,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,program,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,compile,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,memo,compiler kernels uapi,-lm))
$(eval $(call unit_test,planner,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,account,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,shapes,compiler kernels uapi,-lm))
$(eval $(call unit_test,descriptors,kernels uapi,-lm))

# Compares 10,000 seeded convolutions with onnxruntime's recorded results. Successive cases use
# successive boards.
$(eval $(call program,tests/check_conv,tests/conv/check_conv.c tests/conv/conv_cases.c,compiler kernels sim uapi,-lm))
CONV_BOARDS ?= zu3eg-64 zu3eg-128 zu3eg-256 cyclonev-64 cyclonev-64-nodsp
.PHONY: check-conv bench-npu
check-conv: $(BUILD)/tests/check_conv
	@$< tests/data/conv_10000.bin $(CONV_BOARDS)

$(eval $(call program,tests/bench_npu,tests/bench/bench_npu.c,compiler kernels sim uapi,-lm))
bench-npu: $(BUILD)/tests/bench_npu $(BUILD)/tests/bench_zoo
	@BUILD=$(BUILD) scripts/bench-npu

$(eval $(call program,tests/bench_views,tests/bench/bench_views.c,compiler kernels sim uapi,-lm))
.PHONY: bench-views
bench-views: $(BUILD)/tests/bench_views $(BUILD)/tests/bench_layouts
	@$<
	@$(BUILD)/tests/bench_layouts views

$(eval $(call program,tests/bench_layouts,tests/bench/bench_layouts.c,compiler kernels sim uapi,-lm))
.PHONY: bench-layouts
bench-layouts: $(BUILD)/tests/bench_layouts
	@$<

# SPDX-License-Identifier: MIT
comma := ,
$(eval $(call static_lib,kernels,$(sort $(wildcard $(addprefix kernels/,*.c binary/*.c float/*.c ibtf/*.c int8/*.c op/*.c)))))

# One line for each file of operators, rewritten when a file comes or goes.
OP_FAMILIES := $(sort $(notdir $(basename $(wildcard kernels/op/*.c))))
$(BUILD)/gen/op_families.inc: FORCE
	@want=$$(printf 'RVL_OP_FAMILY(%s)\n' $(OP_FAMILIES)); \
		[ "$$want" = "$$(cat $@ 2>/dev/null)" ] || \
		{ mkdir -p $(@D) && echo "$$want" > $@.$$$$ && mv $@.$$$$ $@; }
.PHONY: FORCE
FORCE:
$(BUILD)/obj/kernels/op.o: $(BUILD)/gen/op_families.inc
CPPFLAGS_kernels/op += -I$(BUILD)/gen
# The time of the innermost loop depends on where it begins within a line of instructions.
CFLAGS_kernels/int8/avx2 := -falign-loops=64
CFLAGS_kernels/int8/bytes_avx2 := -falign-loops=64
CFLAGS_kernels/int8/split_avx2 := -falign-loops=64
# Sums of a segment are added to those of a tile by a loop over the columns.
CFLAGS_kernels/int8/tables_sse41 := -O3
CFLAGS_kernels/int8/tables_avx2 := -O3
CFLAGS_kernels/int8/tables_avx512 := -O3
# Loops of elementwise functions are written for the vectoriser.
CFLAGS_kernels/float/math := -O3 -fno-trapping-math
CFLAGS_kernels/float/bytes := -O3
CFLAGS_kernels/float/product := -O3 -fno-trapping-math
CFLAGS_kernels/float/plane := -O3 -fno-trapping-math
# The rows that they copy are short. GCC would make string instructions of the loops, which begin slowly.
CFLAGS_kernels/float/conv := -fno-tree-loop-distribute-patterns
CFLAGS_kernels/float/conv_transpose := -fno-tree-loop-distribute-patterns
CFLAGS_kernels/float/gather := -fno-tree-loop-distribute-patterns
CFLAGS_kernels/float/winograd := -fno-tree-loop-distribute-patterns
CFLAGS_kernels/binary/fast := -O3
CFLAGS_kernels/op_binary := -O3 -fno-trapping-math
CFLAGS_kernels/op_unary := -O3 -fno-trapping-math
CFLAGS_kernels/op_loops := -O3
CFLAGS_kernels/op_norm := -O3 -fno-trapping-math
CFLAGS_kernels/float/softmax := -O3 -fno-trapping-math
CFLAGS_kernels/op/arithmetic := -O3 -fno-trapping-math
CFLAGS_kernels/op/unary := -O3 -fno-trapping-math
CFLAGS_kernels/op/pool := -O3
CFLAGS_kernels/op/select := -O3 -fno-trapping-math
CFLAGS_kernels/op_pool := -O3
CFLAGS_kernels/op_pool_rows := -O3 -fno-trapping-math
CFLAGS_kernels/op/resize := -O3
CFLAGS_kernels/int8/convert := -O3 -fno-trapping-math
# Sums of the channels of each pixel, and the part of each result that they make.
CFLAGS_kernels/int8/sums := -O3
CFLAGS_kernels/int8/binary := -O3 -fno-trapping-math
# Loops over the codes of a slice are written for the vectoriser.
CFLAGS_kernels/ibtf/slices := -O3
CFLAGS_kernels/ibtf/lanes := -O3
CFLAGS_kernels/ibtf/lanes_avx2 := -O3
CFLAGS_kernels/ibtf/lanes_avx512 := -O3

$(eval $(call program,unit/test_kernels,tests/unit/test_kernels.c tests/conv/conv_cases.c,kernels uapi,-lm $(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_kernels
$(eval $(call unit_test,op_core,compiler kernels sim uapi,-lm))
$(eval $(call unit_test,kernels_sc,kernels uapi,-lm))
$(eval $(call program,unit/test_int8,tests/unit/test_int8.c $(wildcard tests/int8/*.c) tests/kernels/guarded.c,kernels uapi,-Wl$(comma)--wrap=rvl_isa_available -Wl$(comma)--wrap=rvl_i8_kernels -lm $(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_int8
$(eval $(call program,unit/test_chain,tests/unit/test_chain.c tests/kernels/guarded.c,kernels uapi,-lm $(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_chain
$(eval $(call program,unit/test_float,tests/unit/test_float.c tests/float/shapes.c tests/kernels/guarded.c,kernels uapi,-lm $(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_float
$(eval $(call program,unit/test_binary_layers,tests/unit/test_binary_layers.c tests/binary/layers.c tests/binary/signs.c tests/kernels/guarded.c,kernels uapi,-Wl$(comma)--wrap=rvl_b_kernels -lm $(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_binary_layers

# The same comparison of 10,000 layers, on the CPU and on the device.
.PHONY: check-binary
check-binary: $(BUILD)/unit/test_binary_layers $(BUILD)/unit/test_mode_binary
	@RVL_BINARY_LAYERS=10000 RVL_BINARY_SIGNS=10000 $(BUILD)/unit/test_binary_layers
	@RVL_BINARY_LAYERS=10000 $(BUILD)/unit/test_mode_binary
$(eval $(call unit_test,split,kernels uapi,-lm))
$(eval $(call unit_test,op_unary,kernels uapi,-lm))
$(eval $(call unit_test,op_reduce,kernels uapi,-lm))
$(eval $(call unit_test,op_lines,kernels uapi,-lm))
$(eval $(call unit_test,op_pool,compiler kernels uapi,-lm))
$(eval $(call unit_test,op_conv,compiler kernels uapi,-lm))
$(eval $(call unit_test,op_resize,compiler kernels uapi,-lm))
$(eval $(call unit_test,op_grid,compiler kernels uapi,-lm))
$(eval $(call unit_test,op_quantise,compiler kernels uapi,-lm))
$(eval $(call unit_test,op_qlinear,kernels uapi,-lm))
$(eval $(call unit_test,op_norm,kernels uapi,-lm))
$(eval $(call unit_test,op_matrix,kernels uapi,-lm))
$(eval $(call program,unit/test_op_integer,tests/unit/test_op_integer.c tests/int8/avxvnni_model.c,kernels uapi,-Wl$(comma)--wrap=rvl_i8_kernels -lm $(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_op_integer
$(eval $(call unit_test,op_attention,kernels uapi,-lm))
$(eval $(call unit_test,op_sequence,kernels uapi,-lm))
$(eval $(call program,unit/test_conv_cases,tests/unit/test_conv_cases.c tests/conv/conv_cases.c,uapi,$(CHECK_LIBS)))
UNIT_TESTS += $(BUILD)/unit/test_conv_cases
$(eval $(call unit_test,op_move,compiler kernels uapi,-lm))
$(eval $(call unit_test,op_signal,compiler kernels uapi,-lm))
$(eval $(call unit_test,op_recurrent,compiler kernels uapi,-lm))
$(eval $(call unit_test,op_gather,compiler kernels uapi,-lm))
$(eval $(call unit_test,op_arithmetic,kernels uapi,-lm))
$(eval $(call unit_test,op_microsoft,kernels uapi,-lm))
$(eval $(call unit_test,op_linear_attention,kernels uapi,-lm))
$(eval $(call unit_test,op_select,compiler kernels uapi,-lm))

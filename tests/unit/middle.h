/* SPDX-License-Identifier: MIT */
/* A model for onnx_text.h with an operator in the middle that the NPU lacks. */
#ifndef RVL_TEST_MIDDLE_H
#define RVL_TEST_MIDDLE_H

/* Two quantised convolutions with @op between them, which a table of the NPU cannot compute. */
#define MIDDLE(op)                                                                                  \
	"in xq u8 1,4,8,8; const s f32 - 0.05; const z u8 - 128; const ws f32 - 0.02; const wz s8 - 0;" \
	"const w s8 4,4,1,1 1 2 3 4 5 6 7 8 -1 -2 -3 -4 -5 -6 -7 -8; const one s64 - 1;"            \
	"DequantizeLinear xq s z -> xd; DequantizeLinear w ws wz -> wd;" \
	"Conv xd wd -> a kernel_shape=[1,1]; QuantizeLinear a s z -> aq; DequantizeLinear aq s z -> ad;" \
	op "QuantizeLinear b s z -> bq; DequantizeLinear bq s z -> bd; Conv bd wd -> c kernel_shape=[1,1];" \
	"QuantizeLinear c s z -> cq; out cq"

#endif

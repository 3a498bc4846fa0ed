/* SPDX-License-Identifier: MIT */
/*
 * The file of random quantised convolutions that tools/train/gen_conv_cases.py
 * writes: what onnxruntime's QLinearConv returns for each (docs/numerics.md 1).
 *
 * Little endian: struct rvl_conv_file, then count times
 *
 *	struct rvl_conv_case
 *	x	x_type[n * c * h * w]			NCHW
 *	w	w_type[m * (c / group) * kh * kw]	MCHW, c per group
 *	(zero bytes up to a multiple of 4)
 *	bias	s32[m], if RVL_CONV_BIAS
 *	ws	float[m] if RVL_CONV_PER_CHANNEL, else float[1]
 *	y	x_type[n * m * oh * ow]
 *	(zero bytes up to a multiple of 4)
 *
 * payload_bytes counts everything after the struct, so a reader can walk the
 * file without understanding it. The scale of output channel m is
 * (float)((float)(x_scale * ws[m]) / y_scale).
 */
#ifndef RVL_CONV_CASES_H
#define RVL_CONV_CASES_H

#include <stdint.h>

#define RVL_CONV_MAGIC		0x43435652u	/* "RVCC" */
#define RVL_CONV_VERSION	1u

#define RVL_CONV_U8		0		/* x_type, w_type; y has x_type */
#define RVL_CONV_S8		1

#define RVL_CONV_BIAS		(1u << 0)	/* flags */
#define RVL_CONV_PER_CHANNEL	(1u << 1)

struct rvl_conv_file {
	uint32_t magic;
	uint32_t version;
	uint32_t count;
};

struct rvl_conv_case {
	uint32_t payload_bytes;
	uint32_t index;			/* position under its seed: names the case in a report */
	uint16_t n, c, h, w;
	uint16_t m, group;		/* output channels; both c and m divide by group */
	uint16_t kh, kw;
	uint16_t stride_h, stride_w;
	uint16_t dilation_h, dilation_w;
	uint16_t pad_top, pad_left, pad_bottom, pad_right;
	uint16_t oh, ow;
	int16_t x_zp, w_zp, y_zp;	/* w_zp holds for every channel */
	uint8_t x_type, w_type;
	uint8_t flags;
	uint8_t reserved[3];		/* zero */
	float x_scale, y_scale;
};

_Static_assert(sizeof(struct rvl_conv_file) == 12, "written by gen_conv_cases.py");
_Static_assert(sizeof(struct rvl_conv_case) == 64, "written by gen_conv_cases.py");

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The files of random quantised convolutions that tools/train/gen_conv_cases.py
 * writes: what onnxruntime's QLinearConv returns for each (docs/numerics.md 1).
 *
 * Little endian: struct rvl_conv_file, then count times struct rvl_conv_case
 * and payload_bytes of payload. The payload of a full case is
 *
 *	x	x_type[n * c * h * w]			NCHW
 *	w	w_type[m * (c / group) * kh * kw]	MCHW, c per group
 *	(zero bytes up to a multiple of 4)
 *	bias	s32[m], if RVL_CONV_BIAS
 *	ws	float[m] if RVL_CONV_PER_CHANNEL, else float[1]
 *	y	x_type[n * m * oh * ow]
 *	(zero bytes up to a multiple of 4)
 *
 * and of a compact one (RVL_CONV_COMPACT) a struct rvl_conv_seed, from which
 * the reader draws x, w, bias and ws again; of y there is the CRC32C only. The
 * first 500 cases of tests/data/conv_10000.bin (compact) are those of
 * conv_500.bin (full).
 *
 * The scale of output channel m is (float)((float)(x_scale * ws[m]) / y_scale).
 */
#ifndef RVL_CONV_CASES_H
#define RVL_CONV_CASES_H

#include <stddef.h>
#include <stdint.h>

#define RVL_CONV_MAGIC		0x43435652u	/* "RVCC" */
#define RVL_CONV_VERSION	1u

#define RVL_CONV_U8		0		/* x_type, w_type; y has x_type */
#define RVL_CONV_S8		1

#define RVL_CONV_BIAS		(1u << 0)	/* flags */
#define RVL_CONV_PER_CHANNEL	(1u << 1)
#define RVL_CONV_COMPACT	(1u << 2)

struct rvl_conv_file {
	uint32_t magic;
	uint32_t version;
	uint32_t count;
};

struct rvl_conv_case {
	uint32_t payload_bytes;
	/* position in the sequence of the seed, by which a report names the case */
	uint32_t index;
	uint16_t n, c, h, w;
	uint16_t m, group;		/* output channels; both c and m divide by group */
	uint16_t kh, kw;
	uint16_t stride_h, stride_w;
	uint16_t dilation_h, dilation_w;
	uint16_t pad_top, pad_left, pad_bottom, pad_right;
	uint16_t oh, ow;
	int16_t x_zp, w_zp, y_zp;	/* w_zp is the same for every channel */
	uint8_t x_type, w_type;
	uint8_t flags;
	uint8_t reserved[3];		/* zero */
	float x_scale, y_scale;
};

struct rvl_conv_seed {
	/* seed of a SplitMix64 stream; each random element uses one word of it */
	uint64_t seed;
	uint32_t y_crc32c;
	uint32_t bias_top;		/* biases are in [-top, top) */
	uint16_t ws_div;
	uint8_t x_fill, w_fill;		/* enum rvl_conv_fill */
	uint8_t ws_kind;		/* enum rvl_conv_ws */
	uint8_t reserved[3];		/* zero */
};

enum rvl_conv_fill {
	RVL_FILL_RANGE,			/* the full range of the type */
	RVL_FILL_EXTREMES,		/* its least and greatest value only */
	RVL_FILL_SMALL,			/* within 3 of its middle */
};

enum rvl_conv_ws {
	RVL_WS_POWER,			/* 2^-9 .. 2^-7: exact ties */
	RVL_WS_RATIO,			/* 1..29 / ws_div: near ties */
	RVL_WS_ANY,			/* any mantissa, 2^-9 .. 2^-5 */
};

_Static_assert(sizeof(struct rvl_conv_file) == 12, "written by gen_conv_cases.py");
_Static_assert(sizeof(struct rvl_conv_case) == 64, "written by gen_conv_cases.py");
_Static_assert(sizeof(struct rvl_conv_seed) == 24, "written by gen_conv_cases.py");

/* One case. All that it points to is owned by the reader and valid until the next call. */
struct rvl_conv {
	struct rvl_conv_case p;
	const void *x, *w;
	const int32_t *bias;		/* [m], or NULL */
	const float *ws;		/* [m] or [1], see p.flags */
	const void *y;			/* what onnxruntime returned, NULL in a compact case */
	uint32_t y_crc32c;		/* of y */
	size_t x_bytes, w_bytes, y_bytes;
	size_t ws_count;
};

struct rvl_conv_reader;

/**
 * rvl_conv_open() - read a file of cases into memory
 * @path: the file
 * @out: on success, the reader; rvl_conv_close() frees it
 *
 * Returns the number of cases, or a negative errno; -EBADMSG if the format is another one.
 */
int rvl_conv_open(const char *path, struct rvl_conv_reader **out);

/**
 * rvl_conv_next() - the next case
 *
 * Returns 1, 0 after the last one, -EBADMSG if the file is damaged, -ENOMEM.
 */
int rvl_conv_next(struct rvl_conv_reader *r, struct rvl_conv *out);

/**
 * rvl_conv_match() - whether a result is onnxruntime's, bit for bit
 * @y: c->y_bytes bytes, NCHW
 */
int rvl_conv_match(const struct rvl_conv *c, const void *y);

/** rvl_conv_close() - free the reader and all that its cases point to; does nothing for NULL */
void rvl_conv_close(struct rvl_conv_reader *r);

#endif

/* SPDX-License-Identifier: MIT */
/* One sound descriptor of every operator that has a kernel, which tests change. */
#ifndef RVL_KERNEL_SEEDS_H
#define RVL_KERNEL_SEEDS_H

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_kernels.h"

/*
 * One valid case of each operator. Operands: type (f32, u8, b = s8, i = s32, l = s64), dimensions,
 * then q for one scale or Q for one scale per index of the first axis, then h for NHWC; - is an absent
 * one.
 */
struct seed {
	enum rvl_op op;
	const char *in, *out;
	int32_t kernel, pad, group;
};

static const struct seed seeds[] = {
	{ RVL_OP_QUANTIZE, "f2x3x4 f3 u3", "u2x3x4", 1, 0, 1 },
	{ RVL_OP_DEQUANTIZE, "b2x3x4 f3 b3", "f2x3x4", 1, 0, 1 },
	{ RVL_OP_CONV, "f1x4x6x6 f4x2x3x3 f4", "f1x4x6x6", 3, 1, 2 },
	{ RVL_OP_GEMM, "f3x4 f4x5 f5", "f3x5", 1, 0, 1 },
	{ RVL_OP_MATMUL, "f2x3x4 f4x5", "f2x3x5", 1, 0, 1 },
	{ RVL_OP_RELU, "b2x3", "b2x3", 1, 0, 1 },
	{ RVL_OP_CLIP, "f2x3 f -", "f2x3", 1, 0, 1 },
	{ RVL_OP_ADD, "l2x3x1 l3x4", "l2x3x4", 1, 0, 1 },
	{ RVL_OP_MUL, "f2x1x4 f3x4", "f2x3x4", 1, 0, 1 },
	{ RVL_OP_MAX_POOL, "u1x3x5x5", "u1x3x5x5 l1x3x5x5", 3, 1, 1 },
	{ RVL_OP_AVERAGE_POOL, "f1x3x5x5", "f1x3x5x5", 3, 1, 1 },
	{ RVL_OP_GLOBAL_AVERAGE_POOL, "f1x3x5x5", "f1x3x1x1", 1, 0, 1 },
	{ RVL_OP_GLOBAL_MAX_POOL, "f1x3x5x5", "f1x3x1x1", 1, 0, 1 },
	{ RVL_OP_FLATTEN, "f2x3x4", "f2x12", 1, 0, 1 },
	{ RVL_OP_RESHAPE, "f2x3x4 l2", "f6x4", 1, 0, 1 },
	{ RVL_OP_IDENTITY, "i7", "i7", 1, 0, 1 },
	{ RVL_OP_TRANSPOSE, "f2x3x4", "f3x4x2", 1, 0, 1 },
	{ RVL_OP_SOFTMAX, "f2x3x4", "f2x3x4", 1, 0, 1 },
	{ RVL_OP_BATCH_NORM, "f2x3x4 f3 f3 f3 f3", "f2x3x4", 1, 0, 1 },
	{ RVL_OP_Q_CONV, "u1x4x6x6q b4x2x3x3Q i4", "u1x4x6x6q", 3, 1, 2 },
	{ RVL_OP_Q_CONV, "b1x4x6x6q b4x1x3x3q", "b1x4x6x6q", 3, 1, 4 },
	{ RVL_OP_Q_MATMUL, "u3x4q b4x5q i5", "u3x5q", 1, 0, 1 },
	{ RVL_OP_Q_ADD, "u2x3x4q u4q", "u2x3x4q", 1, 0, 1 },
	{ RVL_OP_Q_MUL, "b2x3q b2x3q", "b2x3q", 1, 0, 1 },
	{ RVL_OP_Q_AVERAGE_POOL, "u1x3x5x5q", "u1x3x5x5q", 3, 1, 1 },
	{ RVL_OP_Q_GLOBAL_AVERAGE_POOL, "u1x3x5x5q", "u1x3x1x1q", 1, 0, 1 },
	{ RVL_OP_Q_RESCALE, "u2x3q", "b2x3q", 1, 0, 1 },
	{ RVL_OP_PACK_BLOCKED, "u1x5x3x3q", "b1x2x3x3x4q", 1, 0, 1 },
	{ RVL_OP_UNPACK_BLOCKED, "b1x2x3x3x4q", "u1x5x3x3q", 1, 0, 1 },
	{ RVL_OP_REORDER, "u2x3x4x5", "u2x3x4x5h", 1, 0, 1 },
	{ RVL_OP_QUANTIZE, "f1x4x3x3h f4 u4", "u1x4x3x3h", 1, 0, 1 },
	{ RVL_OP_DEQUANTIZE, "b1x4x3x3h f4 b4", "f1x4x3x3h", 1, 0, 1 },
	{ RVL_OP_MAX_POOL, "u1x3x5x5h", "u1x3x5x5h", 3, 1, 1 },
	{ RVL_OP_GLOBAL_MAX_POOL, "f1x3x5x5h", "f1x3x1x1", 1, 0, 1 },
	{ RVL_OP_Q_CONV, "u1x4x6x6qh b4x2x3x3Q i4", "u1x4x6x6qh", 3, 1, 2 },
	{ RVL_OP_Q_CONV, "b1x4x6x6qh b4x1x3x3q", "b1x4x6x6q", 3, 1, 4 },
	{ RVL_OP_Q_ADD, "u2x3x4x4qh u1x3x1x1q", "u2x3x4x4qh", 1, 0, 1 },
	{ RVL_OP_Q_MUL, "b1x1x4x4q b2x3x4x4qh", "b2x3x4x4qh", 1, 0, 1 },
	{ RVL_OP_Q_AVERAGE_POOL, "u1x3x5x5qh", "u1x3x5x5qh", 3, 1, 1 },
	{ RVL_OP_Q_GLOBAL_AVERAGE_POOL, "u1x3x5x5qh", "u1x3x1x1q", 1, 0, 1 },
	{ RVL_OP_Q_RESCALE, "u1x3x2x2qh", "b1x3x2x2qh", 1, 0, 1 },
	{ RVL_OP_CONV, "u1x4x6x6qh b4x2x3x3Q f4", "f1x4x6x6", 3, 1, 2 },
	{ RVL_OP_CONV, "b1x4x6x6q b4x1x3x3q", "f1x4x6x6h", 3, 1, 4 },
	{ RVL_OP_GEMM, "u3x4q b4x5q f5", "f3x5", 1, 0, 1 },
	{ RVL_OP_MATMUL, "u2x3x4q b4x5q", "f2x3x5", 1, 0, 1 },
};

#define SEEDS (int)(sizeof(seeds) / sizeof(seeds[0]))

static const float scales[8] = { 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f };
static const int32_t zps[8];

static inline const char *parse_operand(const char *p, struct rvl_kernel_arg *a)
{
	static const char letters[] = "-fubil";

	*a = (struct rvl_kernel_arg) { .type = (enum rvl_type)(strchr(letters, *p++) - letters) };
	while (isdigit((unsigned char)*p)) {
		a->shape.dim[a->shape.rank++] = strtol(p, (char **)&p, 10);
		p += *p == 'x';
	}
	if (*p == 'q' || *p == 'Q')
		a->quant = (struct rvl_kernel_quant) { .n = *p++ == 'q' ? 1 : (uint32_t)a->shape.dim[0],
						       .scale = scales, .zp = zps };
	if (*p == 'h') {
		a->layout = RIVULET_LAYOUT_NHWC;
		p++;
	}
	return *p == ' ' ? p + 1 : p;
}

static inline void seed_desc(const struct seed *s, struct rvl_kernel_desc *d)
{
	*d = (struct rvl_kernel_desc) { .op = s->op };
	rvl_attr_init(&d->attr);
	for (const char *p = s->in; *p;)
		p = parse_operand(p, &d->in[d->n_in++]);
	for (const char *p = s->out; *p;)
		p = parse_operand(p, &d->out[d->n_out++]);
	d->attr.group = s->group;
	d->attr.block = 4;
	d->attr.axis = 1;
	d->attr.perm_rank = 3;
	memcpy(d->attr.perm, (int32_t[]) { 1, 2, 0 }, 3 * sizeof(int32_t));
	for (int i = 0; i < 2; i++) {
		d->attr.kernel[i] = s->kernel;
		d->attr.pad[i] = d->attr.pad[i + 2] = s->pad;
	}
}

#endif

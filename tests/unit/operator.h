/* SPDX-License-Identifier: MIT */
/* One CPU operator under test, with memory for its operands and quantisation parameters. */
#ifndef RVL_TEST_OPERATOR_H
#define RVL_TEST_OPERATOR_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "rivulet_kernels.h"

static uint64_t seed = 11;

static inline int64_t rnd(int64_t lo, int64_t hi)
{
	return lo + (int64_t)(splitmix(&seed) % (uint64_t)(hi - lo + 1));
}

static inline struct rvl_shape shape(int rank, const int64_t *dim)
{
	struct rvl_shape s = { .rank = rank };

	for (int i = 0; i < rank; i++)
		s.dim[i] = dim[i];
	return s;
}

#define SHAPE(...) shape(sizeof((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[]){ __VA_ARGS__ })
#define SCALAR	   ((struct rvl_shape){ .rank = 0 })
#define MOST	   8192

/* An operator under test with memory for its operands. */
static struct rvl_kernel_desc d;
static uint8_t memory[RVL_MAX_IN + RVL_MAX_OUT][MOST * 8] __attribute__((aligned(64)));
static float scales[RVL_MAX_IN + RVL_MAX_OUT][256];
static int32_t zps[RVL_MAX_IN + RVL_MAX_OUT][256];

static inline void start(enum rvl_op op)
{
	memset(&d, 0, sizeof(d));
	d.op = op;
	rvl_attr_init(&d.attr);
}

static inline void put(struct rvl_kernel_arg *a, int k, enum rvl_type t, struct rvl_shape s)
{
	*a = (struct rvl_kernel_arg){ .type = t, .shape = s };
	ck_assert_int_le(rvl_shape_count(&s), MOST);
	for (int64_t i = 0; i < rvl_shape_count(&s); i++) {
		if (t == RVL_TYPE_F32)
			((float *)memory[k])[i] = (float)rnd(-1000, 1000) / 256;
		else if (t == RVL_TYPE_S32)
			((int32_t *)memory[k])[i] = (int32_t)rnd(INT32_MIN, INT32_MAX);
		else if (t == RVL_TYPE_S64)
			((int64_t *)memory[k])[i] = (int64_t)splitmix(&seed);
		else
			memory[k][i] = (uint8_t)splitmix(&seed);
	}
}

static inline void in(enum rvl_type t, struct rvl_shape s)
{
	put(&d.in[d.n_in], (int)d.n_in, t, s);
	d.n_in++;
}

static inline void out(enum rvl_type t, struct rvl_shape s)
{
	put(&d.out[d.n_out], RVL_MAX_IN + (int)d.n_out, t, s);
	d.n_out++;
}

static inline void quant(struct rvl_kernel_arg *a, int k, uint32_t n, int32_t axis)
{
	for (uint32_t i = 0; i < n; i++) {
		scales[k][i] = (float)rnd(1, 64) / 1024;
		zps[k][i] = (int32_t)(a->type == RVL_TYPE_U8 ? rnd(0, 255) : rnd(-128, 127));
	}
	a->quant = (struct rvl_kernel_quant){ n, axis, scales[k], zps[k] };
}

static const void *in_data[RVL_MAX_IN];
static void *out_data[RVL_MAX_OUT];

/* Runs with a scratch buffer of exactly the size that the kernel requests. */
static inline void run(bool reference)
{
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;
	uint8_t *scratch;
	int rc = rvl_kernel_new(&d, reference, &k, why);
	size_t size;

	ck_assert_msg(!rc, "%s: %s", rvl_op_name(d.op), why);
	size = rvl_kernel_scratch(k);
	scratch = aligned_alloc(64, (size + 127) / 64 * 64);
	memset(scratch, 0xa5, (size + 127) / 64 * 64);
	for (uint32_t i = 0; i < d.n_in; i++)
		in_data[i] = d.in[i].type ? memory[i] : NULL;
	for (uint32_t i = 0; i < d.n_out; i++)
		out_data[i] = memory[RVL_MAX_IN + i];
	ck_assert_int_eq(rvl_kernel_run(k, in_data, out_data, scratch, NULL), 0);
	for (size_t i = size; i < (size + 127) / 64 * 64; i++)
		ck_assert_msg(scratch[i] == 0xa5, "%s writes past its scratch", rvl_op_name(d.op));
	free(scratch);
	rvl_kernel_free(k);
}

#define F(k) ((float *)memory[k])
#define OUT  RVL_MAX_IN

static inline int64_t byte_at(int k, int64_t i, enum rvl_type t)
{
	return t == RVL_TYPE_U8 ? memory[k][i] : (int8_t)memory[k][i];
}

#endif

/* SPDX-License-Identifier: MIT */
/* Products with a matrix of 2, 4 or 8 bits, quantised in blocks along its columns. */
#include <errno.h>
#include <string.h>

#include "rivulet_op.h"

enum { A, B, SCALES, ZEROS, GROUPS, BIAS };

#define MOST_BLOCK 1024

struct packed {
	const struct rvl_call *c;
	int64_t rows, k, n, bits, block, blocks;
	int64_t block_bytes, zero_bytes;	/* of one block of values, of one column of zero points */
};

static int wrong_size(struct rvl_call *c, uint32_t i, int64_t want)
{
	if (!rvl_has(c, i) || rvl_count(&c->in[i]) == want)
		return 0;
	return rvl_op_fail(c, "its input %u has %lld values, not %lld", i,
			   (long long)rvl_count(&c->in[i]), (long long)want);
}

static int check_operands(struct rvl_call *c, const struct packed *p)
{
	bool floats = rvl_has(c, ZEROS) && c->in[ZEROS].type == RVL_TYPE_F32;

	if (rvl_has(c, GROUPS))
		return rvl_op_fail(c, "its input 4, an order of groups, is not supported");
	if (rvl_has(c, BIAS) && c->in[BIAS].type != RVL_TYPE_F32)
		return rvl_op_fail(c, "its input 5 is %s, not float32", rvl_type_name(c->in[BIAS].type));
	if (wrong_size(c, B, p->n * p->blocks * p->block_bytes) ||
	    wrong_size(c, SCALES, p->n * p->blocks) ||
	    wrong_size(c, ZEROS, p->n * (floats ? p->blocks : p->zero_bytes)))
		return -EINVAL;
	return wrong_size(c, BIAS, p->n);
}

static int extent(struct rvl_call *c, struct packed *p)
{
	const struct rvl_shape *a = &c->in[A].shape;

	*p = (struct packed) {
		.c = c, .k = rvl_attr_int(c, "K"), .n = rvl_attr_int(c, "N"),
		.bits = rvl_attr_int(c, "bits"), .block = rvl_attr_int(c, "block_size"),
	};
	if (p->bits != 2 && p->bits != 4 && p->bits != 8)
		return rvl_op_fail(c, "attribute bits is %lld, not 2, 4 or 8", (long long)p->bits);
	if (p->block < 16 || p->block > MOST_BLOCK || p->block & (p->block - 1))
		return rvl_op_fail(c, "attribute block_size is %lld, not a power of 2 from 16 to %d",
				   (long long)p->block, MOST_BLOCK);
	if (p->k < 1 || p->n < 1 || p->k > 1 << 24 || p->n > 1 << 24)
		return rvl_op_fail(c, "its matrix is %lld x %lld", (long long)p->k, (long long)p->n);
	if (!a->rank || a->dim[a->rank - 1] != p->k)
		return rvl_op_fail(c, "its input 0 does not have %lld columns", (long long)p->k);
	p->rows = rvl_count(&c->in[A]) / p->k;
	p->blocks = (p->k + p->block - 1) / p->block;
	p->block_bytes = p->block * p->bits / 8;
	p->zero_bytes = (p->blocks * p->bits + 7) / 8;
	return check_operands(c, p);
}

static int infer_nbits(struct rvl_call *c)
{
	struct rvl_shape y = c->in[A].shape;
	struct packed p;

	if (extent(c, &p))
		return -EINVAL;
	y.dim[y.rank - 1] = p.n;
	if (rvl_shape_count(&y) < 0)
		return rvl_op_fail(c, "its result is too large");
	rvl_set_out(c, 0, RVL_TYPE_F32, &y);
	return 0;
}

/* Number @i of a run of bytes. */
static int32_t bits_at(const struct packed *p, const uint8_t *from, int64_t i)
{
	int64_t bit = i * p->bits;

	return from[bit / 8] >> bit % 8 & ((1 << p->bits) - 1);
}

static float zero_of(const struct packed *p, int64_t col, int64_t block)
{
	const struct rvl_value *z = &p->c->in[ZEROS];

	if (!rvl_has(p->c, ZEROS))
		return (float)(1 << (p->bits - 1));
	if (z->type == RVL_TYPE_F32)
		return ((const float *)z->data)[col * p->blocks + block];
	return (float)bits_at(p, (const uint8_t *)z->data + col * p->zero_bytes, block);
}

/* The values of a block of a column; those behind the last row are not read. */
static int64_t unpack(const struct packed *p, int64_t col, int64_t block, float *w)
{
	int64_t at = col * p->blocks + block, left = p->k - block * p->block;
	const uint8_t *from = (const uint8_t *)p->c->in[B].data + at * p->block_bytes;
	float scale = ((const float *)p->c->in[SCALES].data)[at], zero = zero_of(p, col, block);
	int64_t n = left < p->block ? left : p->block;

	for (int64_t i = 0; i < n; i++)
		w[i] = ((float)bits_at(p, from, i) - zero) * scale;
	return n;
}

static void columns(void *arg, int64_t first, int64_t past)
{
	const struct packed *p = arg;
	const float *a = p->c->in[A].data, *bias = rvl_has(p->c, BIAS) ? p->c->in[BIAS].data : NULL;
	float *y = p->c->out[0].data, w[MOST_BLOCK];

	for (int64_t col = first; col < past; col++) {
		for (int64_t r = 0; r < p->rows; r++)
			y[r * p->n + col] = bias ? bias[col] : 0.0f;
		for (int64_t b = 0; b < p->blocks; b++) {
			int64_t n = unpack(p, col, b, w);

			for (int64_t r = 0; r < p->rows; r++) {
				const float *x = a + r * p->k + b * p->block;
				double sum = 0.0;

				for (int64_t i = 0; i < n; i++)
					sum += (double)x[i] * (double)w[i];
				y[r * p->n + col] += (float)sum;
			}
		}
	}
}

/* The values of the matrix are unpacked once for each column. */
static int64_t work_nbits(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct packed p;

	if (extent(&copy, &p))
		return INT64_MAX;
	return rvl_work(p.rows + 8, rvl_work(p.n, p.k));
}

static int run_nbits(struct rvl_call *c)
{
	struct packed p;

	if (extent(c, &p))
		return -EINVAL;
	if (p.rows)
		rvl_for_range(c, p.n, 1, columns, &p);
	return 0;
}

const struct rvl_op_def rvl_ops_matmul_nbits[] = {
	{ .name = "MatMulNBits", .domain = "com.microsoft", .since = 1, .work = work_nbits,
	  .least_in = 3, .most_in = 6,
	  .types = { RVL_T_FLOAT, RVL_T(U8), RVL_T_FLOAT, RVL_T(U8) | RVL_T_FLOAT | RVL_T(S32) },
	  .attrs = RVL_ATTRS(RVL_INT_REQUIRED("K"), RVL_INT_REQUIRED("N"), RVL_INT("bits", 4),
			     RVL_INT_REQUIRED("block_size"), RVL_IGNORED("accuracy_level")),
	  .infer = infer_nbits, .run = run_nbits,
	  .doc = "product with a matrix of 2, 4 or 8 bits in blocks of one scale" },
	RVL_OPS_END
};

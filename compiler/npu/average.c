/* SPDX-License-Identifier: MIT */
/*
 * Average pools: onnxruntime adds dequantised floats, the NPU adds integers and multiplies once
 * (docs/numerics.md 4). For given scales, zero points and window the number of sums is small, so
 * that all of them are tried: onnxruntime's result is known up to the rounding errors of its
 * additions, and the pool is exact if no sum lets those errors reach another integer than the
 * NPU's.
 */
#include "npu/constraint.h"
#include "qmath.h"

#define MAX_POSITIONS 64	/* of a window that is tried */
#define UNIT 0x1p-24		/* relative error of one float operation */

struct average {
	float xs, ys;
	int32_t yz;
	int32_t least, most;	/* of one value without its zero point: least <= 0 <= most */
	int32_t lo, hi;		/* clamp of the result */
};

static int32_t to_output(const struct average *a, double v)
{
	v = rint(v);
	return v < a->lo ? a->lo : v > a->hi ? a->hi : (int32_t)v;
}

/* docs/isa.md, AVG_BORDER. */
static int32_t on_npu(const struct average *a, int64_t sum, int64_t n)
{
	float m = a->xs / a->ys;

	m = m / (float)n;
	return rvl_requant((int32_t)sum, m, a->yz, a->lo, a->hi);
}

/* Bits of a float's significand from the first to the last that is set. */
static int significant_bits(float s)
{
	uint32_t bits = (uint32_t)ldexp(frexp((double)s, &(int){ 0 }), 24);

	return bits ? 24 - __builtin_ctz(bits) : 0;
}

/* Every product and partial sum is a multiple of the last bit of xs and fits 24 bits. */
static bool sums_are_exact(const struct average *a, int64_t n)
{
	int64_t top = n * (a->most > -a->least ? a->most : -a->least);

	return significant_bits(a->xs) + (64 - __builtin_clzll((uint64_t)top | 1)) <= 24;
}

/* The operations after the sum are those of onnxruntime. */
static int32_t after_exact_sum(const struct average *a, int64_t sum, int64_t n)
{
	float s = a->xs * (float)sum;
	float m = s / (float)n;
	float v = m / a->ys;

	v = v + (float)a->yz;
	return to_output(a, (double)v);
}

/* Bound of the error of onnxruntime's v, whatever the order and size of the summands. */
static double error_bound(const struct average *a, int64_t sum, int64_t n)
{
	int64_t top = a->most > -a->least ? a->most : -a->least;
	double summands = a->least < 0 ? (double)(n * top) : (double)sum;
	double ratio = (double)a->xs / (double)a->ys;
	double adding = (double)n * UNIT * summands * ratio / (double)n;
	double rest = 4 * UNIT * (fabs((double)sum * ratio / (double)n) + fabs((double)a->yz) + 1);

	return 1.01 * (adding + rest);
}

static bool sum_agrees(const struct average *a, int64_t sum, int64_t n, bool exact)
{
	double v = (double)a->xs * (double)sum / ((double)n * (double)a->ys) + a->yz;
	double e = error_bound(a, sum, n);
	int32_t npu = on_npu(a, sum, n);

	if (exact)
		return after_exact_sum(a, sum, n) == npu;
	return to_output(a, v - e) == npu && to_output(a, v + e) == npu;
}

static bool all_sums_agree(const struct average *a, int64_t n)
{
	bool exact = sums_are_exact(a, n);

	for (int64_t sum = n * a->least; sum <= n * a->most; sum++)
		if (!sum_agrees(a, sum, n, exact))
			return false;
	return true;
}

/* Marks the numbers of positions along one axis that windows count. */
static void counts_of(const struct rvl_node *node, int axis, bool *seen)
{
	const struct rvl_attr *a = &node->attr;
	int64_t in = node->in[0]->shape.dim[2 + axis], out = node->out[0]->shape.dim[2 + axis];

	if (a->count_include_pad) {
		seen[a->kernel[axis]] = true;
		return;
	}
	for (int64_t o = 0; o < out; o++) {
		int count = 0;

		for (int32_t k = 0; k < a->kernel[axis]; k++) {
			int64_t at = o * a->stride[axis] - a->pad[axis] +
				     (int64_t)k * a->dilation[axis];

			count += at >= 0 && at < in;
		}
		seen[count] = true;
	}
}

static struct average average_of(const struct rvl_node *n)
{
	const struct rvl_tensor *x = n->in[0], *y = n->out[0];
	struct average a = {
		.xs = x->quant.scale[0], .ys = y->quant.scale[0], .yz = y->quant.zp[0],
		.least = rvl_qmin(x->type == RVL_TYPE_U8) - x->quant.zp[0],
		.most = rvl_qmax(x->type == RVL_TYPE_U8) - x->quant.zp[0],
	};

	rvl_node_q_range(n, &a.lo, &a.hi);
	return a;
}

bool rvl_average_exact(const struct rvl_node *n)
{
	bool rows[MAX_POSITIONS + 1] = { false }, cols[MAX_POSITIONS + 1] = { false };
	bool tried[MAX_POSITIONS + 1] = { false };
	struct average a = average_of(n);

	if ((int64_t)n->attr.kernel[0] * n->attr.kernel[1] > MAX_POSITIONS)
		return false;
	counts_of(n, 0, rows);
	counts_of(n, 1, cols);
	for (int r = 1; r <= n->attr.kernel[0]; r++) {
		for (int c = 1; c <= n->attr.kernel[1]; c++) {
			if (!rows[r] || !cols[c] || tried[r * c])
				continue;
			if (!all_sums_agree(&a, r * c))
				return false;
			tried[r * c] = true;
		}
	}
	return !rows[0] && !cols[0];	/* the result of a window of padding alone is not defined */
}

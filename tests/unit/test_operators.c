/* SPDX-License-Identifier: MIT */
/*
 * Compares the CPU operators with plain implementations of their definitions, over random shapes.
 */
#include <check.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "suite.h"
#include "unit/operator.h"

static double number(int k, int64_t i, enum rvl_type t)
{
	return t == RVL_TYPE_F32 ? (double)F(k)[i] : (double)byte_at(k, i, t);
}

static enum rvl_type byte_type(void)
{
	return rnd(0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
}

static void close_to(double is, double want, double rel, const char *what)
{
	ck_assert_msg(fabs(is - want) <= rel * (1 + fabs(want)), "%s: %.9g, not %.9g", what, is,
		      want);
}

/* ---- windows ---- */

static bool random_axis(int i, int64_t n, int64_t *o)
{
	struct rvl_attr *a = &d.attr;
	int64_t reach, room;

	a->kernel[i] = (int32_t)rnd(1, 4);
	a->stride[i] = (int32_t)rnd(1, 3);
	a->dilation[i] = (int32_t)rnd(1, 3);
	a->pad[i] = (int32_t)rnd(0, 4);
	a->pad[i + 2] = (int32_t)rnd(0, 4);
	reach = a->dilation[i] * (a->kernel[i] - 1) + 1;
	room = n + a->pad[i] + a->pad[i + 2] - reach;
	if (room < 0)
		return false;
	*o = room / a->stride[i] + 1;
	/* ceil_mode: one more window where it begins inside the input or the padding before it. */
	if (room % a->stride[i] && *o * a->stride[i] < n + a->pad[i] && rnd(0, 1))
		*o += 1;
	return (*o - 1) * a->stride[i] < n + a->pad[i];
}

static struct rvl_shape random_image(int64_t dim[4], int64_t *oh, int64_t *ow)
{
	do {
		dim[0] = rnd(1, 2);
		dim[1] = rnd(1, 3);
		dim[2] = rnd(1, 8);
		dim[3] = rnd(1, 8);
	} while (!random_axis(0, dim[2], oh) || !random_axis(1, dim[3], ow));
	return shape(4, dim);
}

/*
 * The window at (oy, ox): its input positions in order, -1 for padding, -2 beyond the padding.
 * Returns their number.
 */
static int window_of(const int64_t dim[4], int64_t oy, int64_t ox, int64_t *at)
{
	const struct rvl_attr *a = &d.attr;
	int n = 0;

	for (int ky = 0; ky < a->kernel[0]; ky++) {
		for (int kx = 0; kx < a->kernel[1]; kx++) {
			int64_t y = oy * a->stride[0] - a->pad[0] + ky * a->dilation[0];
			int64_t x = ox * a->stride[1] - a->pad[1] + kx * a->dilation[1];

			at[n] = y < 0 || y >= dim[2] || x < 0 || x >= dim[3] ? -1 : y * dim[3] + x;
			if (y >= dim[2] + a->pad[2] || x >= dim[3] + a->pad[3])
				at[n] = -2;
			n++;
		}
	}
	return n;
}

/* The value of a window that lies in the padding alone. */
static double least(enum rvl_type t)
{
	return t == RVL_TYPE_F32 ? -FLT_MAX : t == RVL_TYPE_S8 ? -128 : 0;
}

START_TEST(maximum_of_each_window)
{
	static const enum rvl_type types[] = { RVL_TYPE_F32, RVL_TYPE_U8, RVL_TYPE_S8 };

	for (int turn = 0; turn < 500; turn++) {
		enum rvl_type t = types[turn % 3];
		int64_t dim[4], oh, ow, at[16];
		struct rvl_shape x;

		start(RVL_OP_MAX_POOL);
		x = random_image(dim, &oh, &ow);
		in(t, x);
		out(t, SHAPE(dim[0], dim[1], oh, ow));
		out(RVL_TYPE_S64, d.out[0].shape);
		d.attr.storage_order = turn / 3 % 2;
		run(turn % 2);
		for (int64_t i = 0; i < dim[0] * dim[1] * oh * ow; i++) {
			int64_t plane = i / (oh * ow), best = -1, index;
			int n = window_of(dim, i / ow % oh, i % ow, at);

			for (int k = 0; k < n; k++)
				if (at[k] >= 0 &&
				    (best < 0 ||
				     number(0, plane * dim[2] * dim[3] + at[k], t) >
					     number(0, plane * dim[2] * dim[3] + best, t)))
					best = at[k];
			index = best < 0	     ? 0 :
				d.attr.storage_order ? best % dim[3] * dim[2] + best / dim[3] :
						       best;
			ck_assert_msg(
				number(OUT, i, t) ==
					(best < 0 ? least(t) :
						    number(0, plane * dim[2] * dim[3] + best, t)),
				"turn %d: element %ld", turn, (long)i);
			ck_assert_int_eq(((int64_t *)memory[OUT + 1])[i],
					 plane * dim[2] * dim[3] + index);
		}
	}
}
END_TEST

/*
 * docs/numerics.md 4: all in float32, window by window, row by row. If padding counts, the quantised
 * operator counts the positions behind it too.
 */
START_TEST(mean_of_each_window)
{
	for (int turn = 0; turn < 600; turn++) {
		bool q = turn % 2;
		int64_t dim[4], oh, ow, at[16];
		struct rvl_shape x;
		int32_t lo, hi;

		start(q ? RVL_OP_Q_AVERAGE_POOL : RVL_OP_AVERAGE_POOL);
		x = random_image(dim, &oh, &ow);
		in(q ? byte_type() : RVL_TYPE_F32, x);
		out(q ? byte_type() : RVL_TYPE_F32, SHAPE(dim[0], dim[1], oh, ow));
		d.attr.count_include_pad = turn / 2 % 2;
		if (q) {
			quant(&d.in[0], 0, 1, 0);
			quant(&d.out[0], OUT, 1, 0);
			scales[OUT][0] = scales[0][0] * 0.7f;
		}
		lo = d.out[0].type == RVL_TYPE_U8 ? 0 : -128;
		hi = lo + 255;
		if (turn % 8 == 1) {
			d.attr.q_lo = lo += 100;
			d.attr.q_hi = hi -= 90;
		}
		run(turn % 4 < 2);
		for (int64_t i = 0; i < dim[0] * dim[1] * oh * ow; i++) {
			int64_t first = i / (oh * ow) * dim[2] * dim[3];
			int n = window_of(dim, i / ow % oh, i % ow, at), count = 0;
			float sum = 0, v;

			for (int k = 0; k < n; k++) {
				count += at[k] >= 0 ||
					 ((at[k] == -1 || q) && d.attr.count_include_pad);
				if (at[k] < 0)
					continue;
				sum += q ? scales[0][0] * (float)(byte_at(0, first + at[k],
									  d.in[0].type) -
								  zps[0][0]) :
					   F(0)[first + at[k]];
			}
			v = count ? sum / (float)count : 0;
			if (!q) {
				ck_assert_msg(F(OUT)[i] == v, "turn %d: %g, not %g", turn,
					      (double)F(OUT)[i], (double)v);
				continue;
			}
			v = v / scales[OUT][0];
			v = rintf(v + (float)zps[OUT][0]);
			ck_assert_int_eq(byte_at(OUT, i, d.out[0].type), v < (float)lo ? lo :
									 v > (float)hi ? hi :
											 (int)v);
		}
	}
}
END_TEST

START_TEST(whole_channels)
{
	static const enum rvl_op ops[] = { RVL_OP_GLOBAL_MAX_POOL, RVL_OP_GLOBAL_AVERAGE_POOL,
					   RVL_OP_Q_GLOBAL_AVERAGE_POOL };

	for (int turn = 0; turn < 200; turn++) {
		enum rvl_op op = ops[turn % 3];
		int64_t dim[5] = { rnd(1, 3), rnd(1, 3), rnd(1, 6), rnd(1, 6), rnd(1, 3) },
			ones[5] = { dim[0], dim[1], 1, 1, 1 }, n = 1;
		int rank = (int)rnd(3, 5);
		enum rvl_type t = op == RVL_OP_GLOBAL_AVERAGE_POOL ||
						  (op == RVL_OP_GLOBAL_MAX_POOL && turn % 2) ?
					  RVL_TYPE_F32 :
					  byte_type();
		int32_t lo, hi;

		start(op);
		in(t, shape(rank, dim));
		out(op == RVL_OP_Q_GLOBAL_AVERAGE_POOL ? byte_type() : t, shape(rank, ones));
		quant(&d.in[0], 0, t != RVL_TYPE_F32, 0);
		quant(&d.out[0], OUT, t != RVL_TYPE_F32, 0);
		lo = d.out[0].type == RVL_TYPE_U8 ? 0 : -128;
		hi = lo + 255;
		if (turn % 5 == 0) {
			d.attr.q_lo = lo += 20;
			d.attr.q_hi = hi -= 30;
		}
		run(false);
		for (int i = 2; i < rank; i++)
			n *= dim[i];
		for (int64_t c = 0; c < dim[0] * dim[1]; c++) {
			double best = -1e9, sum = 0;
			float scale = scales[0][0] / (scales[OUT][0] * (float)n), v;
			int64_t acc = 0;

			for (int64_t i = c * n; i < (c + 1) * n; i++) {
				best = fmax(best, number(0, i, t));
				sum += number(0, i, t);
				acc += t == RVL_TYPE_F32 ? 0 : byte_at(0, i, t) - zps[0][0];
			}
			if (op == RVL_OP_GLOBAL_MAX_POOL) {
				ck_assert(number(OUT, c, t) == best);
			} else if (op == RVL_OP_GLOBAL_AVERAGE_POOL) {
				ck_assert(F(OUT)[c] == (float)(sum / (double)n));
			} else {
				v = rintf((float)acc * scale);
				v += (float)zps[OUT][0];
				ck_assert_int_eq(byte_at(OUT, c, d.out[0].type),
						 v < (float)lo ? lo :
						 v > (float)hi ? hi :
								 (int)v);
			}
		}
	}
}
END_TEST

/* A window that extends far beyond the image must not cause a padded copy of the image. */
START_TEST(windows_that_reach_far)
{
	for (int turn = 0; turn < 4; turn++) {
		int32_t reach = turn % 2 ? 65535 : 5, acc;
		struct rvl_kernel *k;
		float v;

		start(RVL_OP_Q_CONV);
		in(RVL_TYPE_U8, SHAPE(1, 1, 1, 1));
		in(RVL_TYPE_S8, SHAPE(1, 1, 2, 2));
		out(RVL_TYPE_S8, SHAPE(1, 1, 1, 1));
		quant(&d.in[0], 0, 1, 0);
		quant(&d.in[1], 1, 1, 0);
		quant(&d.out[0], OUT, 1, 0);
		d.in[1].data = memory[1];
		for (int i = 0; i < 2; i++) {
			d.attr.kernel[i] = 2;
			d.attr.dilation[i] = d.attr.pad[i] = reach;
		}
		ck_assert_int_eq(rvl_kernel_new(&d, turn / 2, &k, NULL), 0);
		ck_assert_uint_lt(rvl_kernel_scratch(k), turn / 2 ? 1 : 1 << 16);
		rvl_kernel_free(k);
		run(turn / 2);
		/* Only the last tap is inside the image. */
		acc = (memory[0][0] - zps[0][0]) * ((int8_t)memory[1][3] - zps[1][0]);
		v = scales[0][0] * scales[1][0];
		v = (float)acc * (v / scales[OUT][0]);
		v = rintf(fminf(fmaxf(v, (float)(-128 - zps[OUT][0])), (float)(127 - zps[OUT][0])));
		ck_assert_int_eq((int8_t)memory[OUT][0], (int)v + zps[OUT][0]);
	}
}
END_TEST

/* ---- moving data ---- */

/* The element of @s at the position whose coordinates are @pos. */
static int64_t offset(const struct rvl_shape *s, const int64_t *pos)
{
	int64_t at = 0;

	for (int i = 0; i < s->rank; i++)
		at = at * s->dim[i] + pos[i];
	return at;
}

static void position(const struct rvl_shape *s, int64_t at, int64_t *pos)
{
	for (int i = s->rank - 1; i >= 0; i--) {
		pos[i] = at % s->dim[i];
		at /= s->dim[i];
	}
}

START_TEST(transposed_elements)
{
	static const enum rvl_type types[] = { RVL_TYPE_U8, RVL_TYPE_F32, RVL_TYPE_S64,
					       RVL_TYPE_BOOL };

	for (int turn = 0; turn < 200; turn++) {
		enum rvl_type t = types[turn % 4];
		size_t size = rvl_type_size(t);
		int64_t dim[5] = { rnd(1, 4), rnd(1, 4), rnd(1, 4), rnd(1, 4), rnd(1, 4) }, pos[8],
			from[8] = { 0 };
		int rank = (int)rnd(0, 5);
		struct rvl_shape y = { .rank = rank };

		start(RVL_OP_TRANSPOSE);
		d.attr.perm_rank = rank;
		for (int i = 0; i < rank; i++) {
			int j = (int)rnd(0, i);

			d.attr.perm[i] = d.attr.perm[j];
			d.attr.perm[j] = i;
		}
		for (int i = 0; i < rank; i++)
			y.dim[i] = dim[d.attr.perm[i]];
		in(t, shape(rank, dim));
		out(t, y);
		run(false);
		for (int64_t i = 0; i < rvl_shape_count(&y); i++) {
			position(&y, i, pos);
			for (int k = 0; k < rank; k++)
				from[d.attr.perm[k]] = pos[k];
			ck_assert_int_eq(
				memcmp(memory[OUT] + (size_t)i * size,
				       memory[0] + (size_t)offset(&d.in[0].shape, from) * size,
				       size),
				0);
		}
	}
}
END_TEST

START_TEST(channel_blocks)
{
	for (int turn = 0; turn < 60; turn++) {
		int64_t n = rnd(1, 2), c = rnd(1, 9), h = rnd(1, 4), w = rnd(1, 4),
			block = rnd(1, 5);
		int64_t blocks = (c + block - 1) / block;
		enum rvl_type t = byte_type();
		int flip = t == RVL_TYPE_U8 ? 0x80 : 0;
		bool pack = turn % 2;

		start(pack ? RVL_OP_PACK_BLOCKED : RVL_OP_UNPACK_BLOCKED);
		d.attr.block = (int32_t)block;
		in(pack ? t : RVL_TYPE_S8,
		   pack ? SHAPE(n, c, h, w) : SHAPE(n, blocks, h, w, block));
		out(pack ? RVL_TYPE_S8 : t,
		    pack ? SHAPE(n, blocks, h, w, block) : SHAPE(n, c, h, w));
		if (turn % 3)
			quant(pack ? &d.in[0] : &d.out[0], 0, 1, 0);
		run(false);
		for (int64_t i = 0; i < n * blocks * h * w * block; i++) {
			int64_t lane = i % block, px = i / block % (h * w),
				b = i / block / (h * w) % blocks;
			int64_t image = i / block / (h * w) / blocks, ch = b * block + lane;
			int64_t plain = (image * c + ch) * h * w + px;

			if (ch < c)
				ck_assert_uint_eq(memory[pack ? OUT : 0][i] ^ flip,
						  memory[pack ? 0 : OUT][plain]);
			else if (pack)
				ck_assert_uint_eq(memory[OUT][i],
						  (uint8_t)((turn % 3 ? zps[0][0] : 0) ^ flip));
		}
	}
}
END_TEST

/* ---- floats ---- */

START_TEST(softmax_by_definition)
{
	for (int turn = 0; turn < 120; turn++) {
		int64_t dim[4] = { rnd(1, 4), rnd(1, 4), rnd(1, 4), rnd(1, 4) }, pos[8], other[8];
		int rank = (int)rnd(1, 4);

		start(RVL_OP_SOFTMAX);
		in(RVL_TYPE_F32, shape(rank, dim));
		out(RVL_TYPE_F32, shape(rank, dim));
		d.attr.flat_softmax = turn % 2;
		d.attr.axis = (int32_t)rnd(0, rank - 1);
		run(false);
		for (int64_t i = 0; i < rvl_shape_count(&d.in[0].shape); i++) {
			double sum = 0;

			position(&d.in[0].shape, i, pos);
			for (int64_t k = 0; k < rvl_shape_count(&d.in[0].shape); k++) {
				bool same = true;

				position(&d.in[0].shape, k, other);
				for (int a = 0; a < rank; a++)
					same &= pos[a] == other[a] || a == d.attr.axis ||
						(a > d.attr.axis && d.attr.flat_softmax);
				sum += same ? exp((double)F(0)[k]) : 0;
			}
			close_to((double)F(OUT)[i], exp((double)F(0)[i]) / sum, 1e-6, "softmax");
		}
	}
}
END_TEST

START_TEST(normalisation_by_definition)
{
	for (int turn = 0; turn < 100; turn++) {
		int64_t dim[4] = { rnd(1, 3), rnd(1, 4), rnd(1, 4), rnd(1, 4) };
		int rank = (int)rnd(1, 4);
		int64_t channels = rank > 1 ? dim[1] : 1, plane = 1;
		float lo = turn % 2 ? -0.5f : -INFINITY, hi = turn % 3 ? 0.75f : INFINITY;

		start(RVL_OP_BATCH_NORM);
		in(RVL_TYPE_F32, shape(rank, dim));
		for (int i = 1; i < 5; i++)
			in(RVL_TYPE_F32, SHAPE(channels));
		for (int64_t i = 0; i < channels; i++)
			F(4)[i] = fabsf(F(4)[i]);
		out(RVL_TYPE_F32, shape(rank, dim));
		d.attr.epsilon = 0.25f;
		d.attr.f_lo = lo;
		d.attr.f_hi = hi;
		run(false);
		for (int i = 2; i < rank; i++)
			plane *= dim[i];
		for (int64_t i = 0; i < rvl_shape_count(&d.in[0].shape); i++) {
			int64_t c = rank > 1 ? i / plane % channels : 0;
			double v = ((double)F(0)[i] - (double)F(3)[c]) /
					   sqrt((double)F(4)[c] + 0.25) * (double)F(1)[c] +
				   (double)F(2)[c];

			close_to((double)F(OUT)[i], fmin(fmax(v, (double)lo), (double)hi), 1e-4,
				 "normalised");
		}
	}
}
END_TEST

START_TEST(float_convolution_by_definition)
{
	for (int turn = 0; turn < 200; turn++) {
		int64_t group = rnd(1, 3), cg = rnd(1, 3), mg = rnd(1, 3), dim[4], oh, ow;
		float lo = turn % 3 ? -INFINITY : -1, hi = turn % 4 ? INFINITY : 2;

		start(RVL_OP_CONV);
		do
			random_image(dim, &oh, &ow);
		while ((oh - 1) * d.attr.stride[0] + d.attr.dilation[0] * (d.attr.kernel[0] - 1) +
				       1 >
			       dim[2] + d.attr.pad[0] + d.attr.pad[2] ||
		       (ow - 1) * d.attr.stride[1] + d.attr.dilation[1] * (d.attr.kernel[1] - 1) +
				       1 >
			       dim[3] + d.attr.pad[1] + d.attr.pad[3]);
		d.attr.group = (int32_t)group;
		d.attr.f_lo = lo;
		d.attr.f_hi = hi;
		in(RVL_TYPE_F32, SHAPE(dim[0], group * cg, dim[2], dim[3]));
		in(RVL_TYPE_F32, SHAPE(group * mg, cg, d.attr.kernel[0], d.attr.kernel[1]));
		if (turn % 2)
			in(RVL_TYPE_F32, SHAPE(group * mg));
		out(RVL_TYPE_F32, SHAPE(dim[0], group * mg, oh, ow));
		run(turn / 2 % 2);
		for (int64_t i = 0; i < rvl_shape_count(&d.out[0].shape); i++) {
			int64_t m = i / (oh * ow) % (group * mg),
				image = i / (oh * ow) / (group * mg), at[16];
			int taps = window_of(dim, i / ow % oh, i % ow, at);
			double sum = turn % 2 ? (double)F(2)[m] : 0;

			for (int64_t c = 0; c < cg; c++)
				for (int k = 0; k < taps; k++)
					if (at[k] >= 0)
						sum += (double)F(1)[(m * cg + c) * taps + k] *
						       (double)F(0)[(image * group * cg +
								     m / mg * cg + c) *
									    dim[2] * dim[3] +
								    at[k]];
			close_to((double)F(OUT)[i], fmin(fmax(sum, (double)lo), (double)hi), 1e-5,
				 "convolution");
		}
	}
}
END_TEST

/* Coordinates of a broadcast operand for those of the result, aligned at the end. */
static int64_t broadcast(const struct rvl_shape *s, const struct rvl_shape *y, const int64_t *pos)
{
	int64_t mine[8];

	for (int i = 0; i < s->rank; i++)
		mine[i] = s->dim[i] == 1 ? 0 : pos[y->rank - s->rank + i];
	return offset(s, mine);
}

START_TEST(matrix_products_by_definition)
{
	for (int turn = 0; turn < 200; turn++) {
		int64_t m = rnd(1, 4), k = rnd(1, 7), n = rnd(1, 5),
			batch[2] = { rnd(1, 3), rnd(1, 3) }, pos[8];
		struct rvl_shape a = { .rank = 0 }, b = { .rank = 0 }, y = { .rank = 0 }, ba, bb;

		start(RVL_OP_MATMUL);
		for (int i = 0; i < 2; i++) {
			if (i || rnd(0, 1))
				a.dim[a.rank++] = rnd(0, 1) ? batch[i] : 1;
			if (i || rnd(0, 1))
				b.dim[b.rank++] = rnd(0, 1) ? batch[i] : 1;
		}
		ck_assert_int_eq(rvl_shape_broadcast(&a, &b, &y), 0);
		ba = a;
		bb = b;
		a.dim[a.rank++] = m;
		a.dim[a.rank++] = k;
		b.dim[b.rank++] = k;
		b.dim[b.rank++] = n;
		in(RVL_TYPE_F32, a);
		in(RVL_TYPE_F32, b);
		{
			struct rvl_shape whole = y;

			whole.dim[whole.rank++] = m;
			whole.dim[whole.rank++] = n;
			out(RVL_TYPE_F32, whole);
		}
		d.attr.f_lo = turn % 3 ? -INFINITY : 0;
		run(turn % 2);
		for (int64_t i = 0; i < rvl_shape_count(&d.out[0].shape); i++) {
			int64_t row = i / n % m, col = i % n, at, bt;
			double sum = 0;

			position(&y, i / n / m, pos);
			at = broadcast(&ba, &y, pos) * m * k + row * k;
			bt = broadcast(&bb, &y, pos) * k * n + col;
			for (int64_t c = 0; c < k; c++)
				sum += (double)F(0)[at + c] * (double)F(1)[bt + c * n];
			close_to((double)F(OUT)[i], turn % 3 ? sum : fmax(sum, 0), 1e-5, "product");
		}
	}
}
END_TEST

START_TEST(gemm_by_definition)
{
	for (int turn = 0; turn < 200; turn++) {
		int64_t m = rnd(1, 4), k = rnd(1, 7), n = rnd(1, 5), pos[8];
		struct rvl_shape forms[] = { SHAPE(m, n), SHAPE(n), SHAPE(1, n),
					     SHAPE(m, 1), SHAPE(1), SCALAR };

		start(RVL_OP_GEMM);
		d.attr.trans_a = (int32_t)rnd(0, 1);
		d.attr.trans_b = (int32_t)rnd(0, 1);
		d.attr.alpha = 1.5f;
		d.attr.beta = -0.75f;
		d.attr.f_lo = turn % 3 ? -INFINITY : -2;
		d.attr.f_hi = turn % 5 ? INFINITY : 3;
		in(RVL_TYPE_F32, d.attr.trans_a ? SHAPE(k, m) : SHAPE(m, k));
		in(RVL_TYPE_F32, d.attr.trans_b ? SHAPE(n, k) : SHAPE(k, n));
		if (turn % 7)
			in(RVL_TYPE_F32, forms[turn % 6]);
		out(RVL_TYPE_F32, SHAPE(m, n));
		run(turn % 2);
		for (int64_t i = 0; i < m * n; i++) {
			double sum = 0;

			for (int64_t c = 0; c < k; c++)
				sum += (double)F(
					       0)[d.attr.trans_a ? c * m + i / n : i / n * k + c] *
				       (double)F(1)[d.attr.trans_b ? i % n * k + c : c * n + i % n];
			position(&d.out[0].shape, i, pos);
			sum = 1.5 * sum -
			      (d.n_in > 2 ? 0.75 * (double)F(2)[broadcast(&d.in[2].shape,
									  &d.out[0].shape, pos)] :
					    0);
			close_to((double)F(OUT)[i],
				 fmin(fmax(sum, (double)d.attr.f_lo), (double)d.attr.f_hi), 1e-5,
				 "gemm");
		}
	}
}
END_TEST

/* ---- element by element ---- */

static void random_pair(struct rvl_shape *a, struct rvl_shape *b, struct rvl_shape *y)
{
	int ra = (int)rnd(0, 4), rb = (int)rnd(0, 4), most = ra > rb ? ra : rb;
	int64_t dim[4] = { rnd(1, 4), rnd(1, 4), rnd(1, 4), rnd(1, 4) };

	*a = (struct rvl_shape){ .rank = ra };
	*b = (struct rvl_shape){ .rank = rb };
	for (int i = 0; i < ra; i++)
		a->dim[i] = rnd(0, 2) ? dim[most - ra + i] : 1;
	for (int i = 0; i < rb; i++)
		b->dim[i] = rnd(0, 2) ? dim[most - rb + i] : 1;
	ck_assert_int_eq(rvl_shape_broadcast(a, b, y), 0);
}

START_TEST(sums_and_products_broadcast)
{
	static const enum rvl_type types[] = { RVL_TYPE_F32, RVL_TYPE_U8, RVL_TYPE_S8, RVL_TYPE_S32,
					       RVL_TYPE_S64 };

	for (int turn = 0; turn < 600; turn++) {
		enum rvl_type t = types[turn % 5];
		bool mul = turn / 5 % 2;
		struct rvl_shape a, b, y;
		int64_t pos[8];

		random_pair(&a, &b, &y);
		start(mul ? RVL_OP_MUL : RVL_OP_ADD);
		in(t, a);
		in(t, b);
		out(t, y);
		d.attr.f_lo = turn % 3 ? -INFINITY : -1.5f;
		d.attr.f_hi = turn % 4 ? INFINITY : 2.5f;
		run(false);
		for (int64_t i = 0; i < rvl_shape_count(&y); i++) {
			int64_t at, bt;

			position(&y, i, pos);
			at = broadcast(&a, &y, pos);
			bt = broadcast(&b, &y, pos);
			if (t == RVL_TYPE_F32) {
				float v = mul ? F(0)[at] * F(1)[bt] : F(0)[at] + F(1)[bt];

				ck_assert(F(OUT)[i] == fminf(fmaxf(v, d.attr.f_lo), d.attr.f_hi));
			} else if (t == RVL_TYPE_S32) {
				uint32_t p = ((uint32_t *)memory[0])[at],
					 q = ((uint32_t *)memory[1])[bt];

				ck_assert_uint_eq(((uint32_t *)memory[OUT])[i],
						  mul ? p * q : p + q);
			} else if (t == RVL_TYPE_S64) {
				uint64_t p = ((uint64_t *)memory[0])[at],
					 q = ((uint64_t *)memory[1])[bt];

				ck_assert_uint_eq(((uint64_t *)memory[OUT])[i],
						  mul ? p * q : p + q);
			} else {
				int p = memory[0][at], q = memory[1][bt];

				ck_assert_uint_eq(memory[OUT][i], (uint8_t)(mul ? p * q : p + q));
			}
		}
	}
}
END_TEST

/* docs/numerics.md 2 and 3; in a sum one value broadcast against a run of them is the second
 * operand. */
static float quantised_pair(bool mul, bool swap, int64_t a, int64_t b)
{
	int first = swap, second = !swap;
	float sy = scales[OUT][0], ra = scales[first][0] / sy, rb = scales[second][0] / sy, fixed;
	float va = (float)(swap ? b : a), vb = (float)(swap ? a : b), r;

	if (mul) {
		r = scales[0][0] * scales[1][0];
		r = r / sy;
		r = (float)((a - zps[0][0]) * (b - zps[1][0])) * r;
		return rintf(r + (float)zps[OUT][0]);
	}
	fixed = (float)zps[OUT][0] - fmaf(ra, (float)zps[first][0], rb * (float)zps[second][0]);
	return rintf(fmaf(va, ra, fmaf(vb, rb, fixed)));
}

/* Whether the last dimension that is not 1 is broadcast of the first operand only. */
static bool one_against_many(const struct rvl_shape *a, const struct rvl_shape *b,
			     const struct rvl_shape *y)
{
	for (int i = 1; i <= y->rank; i++) {
		int64_t da = i <= a->rank ? a->dim[a->rank - i] : 1,
			db = i <= b->rank ? b->dim[b->rank - i] : 1;

		if (y->dim[y->rank - i] != 1)
			return da == 1 && db != 1;
	}
	return false;
}

START_TEST(quantised_sums_and_products_broadcast)
{
	for (int turn = 0; turn < 600; turn++) {
		bool mul = turn % 2;
		struct rvl_shape a, b, y;
		int64_t pos[8];
		int32_t lo, hi;

		random_pair(&a, &b, &y);
		start(mul ? RVL_OP_Q_MUL : RVL_OP_Q_ADD);
		in(byte_type(), a);
		in(byte_type(), b);
		out(byte_type(), y);
		quant(&d.in[0], 0, 1, 0);
		quant(&d.in[1], 1, 1, 0);
		quant(&d.out[0], OUT, 1, 0);
		lo = d.out[0].type == RVL_TYPE_U8 ? 0 : -128;
		hi = lo + 255;
		if (turn % 5 == 0) {
			d.attr.q_lo = lo += 60;
			d.attr.q_hi = hi -= 70;
		}
		run(turn / 2 % 2);
		for (int64_t i = 0; i < rvl_shape_count(&y); i++) {
			float v;

			position(&y, i, pos);
			v = quantised_pair(mul, !mul && one_against_many(&a, &b, &y),
					   byte_at(0, broadcast(&a, &y, pos), d.in[0].type),
					   byte_at(1, broadcast(&b, &y, pos), d.in[1].type));
			ck_assert_msg(byte_at(OUT, i, d.out[0].type) == (v < (float)lo ? lo :
									 v > (float)hi ? hi :
											 (int)v),
				      "turn %d: element %ld", turn, (long)i);
		}
	}
}
END_TEST

START_TEST(bounds_may_be_absent)
{
	static const int64_t x[5] = { -100, -1, 0, 3, 100 };
	static const enum rvl_type types[] = { RVL_TYPE_F32, RVL_TYPE_S8, RVL_TYPE_S32,
					       RVL_TYPE_S64 };

	for (int turn = 0; turn < 16; turn++) {
		enum rvl_type t = types[turn % 4];
		bool lo = turn / 4 % 2, hi = turn / 8;

		start(RVL_OP_CLIP);
		in(t, SHAPE(5));
		in(lo ? t : RVL_TYPE_NONE, SCALAR);
		in(hi ? t : RVL_TYPE_NONE, SCALAR);
		out(t, SHAPE(5));
		for (int i = 0; i < 7; i++) {
			int k = i < 5 ? 0 : i - 4, at = i < 5 ? i : 0;
			int64_t v = i < 5 ? x[i] : i == 5 ? -2 : 50;

			if (t == RVL_TYPE_F32)
				F(k)[at] = (float)v;
			else
				memcpy(memory[k] + (size_t)at * rvl_type_size(t), &v,
				       rvl_type_size(t));
		}
		run(false);
		for (int i = 0; i < 5; i++) {
			int64_t v = 0, want = lo && x[i] < -2 ? -2 : hi && x[i] > 50 ? 50 : x[i];

			if (t == RVL_TYPE_F32)
				v = (int64_t)F(OUT)[i];
			else if (t == RVL_TYPE_S8)
				v = (int8_t)memory[OUT][i];
			else if (t == RVL_TYPE_S32)
				v = ((int32_t *)memory[OUT])[i];
			else
				v = ((int64_t *)memory[OUT])[i];
			ck_assert_int_eq(v, want);
		}
	}
}
END_TEST

/* ---- quantisation ---- */

START_TEST(quantising_by_channel)
{
	for (int turn = 0; turn < 200; turn++) {
		int64_t dim[3] = { rnd(1, 4), rnd(2, 4), rnd(1, 4) };
		int32_t axis = (int32_t)rnd(0, 2);
		bool one = turn % 3 == 0 || dim[axis] == 1, back = turn % 2,
		     zero = turn % 5 && back;
		int64_t inner = axis == 2 ? 1 : axis == 1 ? dim[2] : dim[1] * dim[2];
		enum rvl_type t = byte_type(), x = turn % 7 ? RVL_TYPE_F32 : RVL_TYPE_S32;

		start(back ? RVL_OP_DEQUANTIZE : RVL_OP_QUANTIZE);
		d.attr.axis = axis;
		if (back && turn % 7 == 0)
			t = RVL_TYPE_S32;
		in(back ? t : x, shape(3, dim));
		in(RVL_TYPE_F32, one ? SCALAR : SHAPE(dim[axis]));
		if (!zero)
			in(t, d.in[1].shape);
		out(back ? RVL_TYPE_F32 : t, shape(3, dim));
		for (int64_t i = 0; i < rvl_shape_count(&d.in[1].shape); i++)
			F(1)[i] = (float)rnd(1, 20) / 16;
		for (int64_t i = 0;
		     !back && x == RVL_TYPE_S32 && i < rvl_shape_count(&d.in[0].shape); i++)
			((int32_t *)memory[0])[i] = (int32_t)rnd(-200, 200);
		run(false);
		for (int64_t i = 0; i < rvl_shape_count(&d.in[0].shape); i++) {
			int64_t c = one ? 0 : i / inner % dim[axis], z, q;
			double v;

			z = zero	      ? 0 :
			    t == RVL_TYPE_S32 ? ((int32_t *)memory[2])[c] :
						byte_at(2, c, t);
			if (back) {
				q = t == RVL_TYPE_S32 ? ((int32_t *)memory[0])[i] :
							byte_at(0, i, t);
				ck_assert(F(OUT)[i] ==
					  (float)(int32_t)((uint32_t)q - (uint32_t)z) * F(1)[c]);
				continue;
			}
			v = x == RVL_TYPE_S32 ? ((int32_t *)memory[0])[i] : (double)F(0)[i];
			v = rint((double)((float)v / F(1)[c])) + (double)z;
			v = fmin(fmax(v, t == RVL_TYPE_U8 ? 0 : -128),
				 t == RVL_TYPE_U8 ? 255 : 127);
			ck_assert_int_eq(byte_at(OUT, i, t), (int64_t)v);
		}
	}
}
END_TEST

START_TEST(tables_of_rescaling)
{
	for (int turn = 0; turn < 100; turn++) {
		int32_t lo, hi;

		start(RVL_OP_Q_RESCALE);
		in(byte_type(), SHAPE(256));
		out(byte_type(), SHAPE(16, 16));
		quant(&d.in[0], 0, 1, 0);
		quant(&d.out[0], OUT, 1, 0);
		lo = d.out[0].type == RVL_TYPE_U8 ? 0 : -128;
		hi = lo + 255;
		if (turn % 3 == 0) {
			d.attr.q_lo = lo += 60;
			d.attr.q_hi = hi -= 70;
		}
		for (int i = 0; i < 256; i++)
			memory[0][i] = (uint8_t)i;
		run(turn % 2);
		for (int i = 0; i < 256; i++) {
			float v = (float)(byte_at(0, i, d.in[0].type) - zps[0][0]) * scales[0][0];

			v = rintf(v / scales[OUT][0]) + (float)zps[OUT][0];
			ck_assert_int_eq(byte_at(OUT, i, d.out[0].type), v < (float)lo ? lo :
									 v > (float)hi ? hi :
											 (int)v);
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("operators");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, maximum_of_each_window);
	tcase_add_test(t, mean_of_each_window);
	tcase_add_test(t, whole_channels);
	tcase_add_test(t, windows_that_reach_far);
	tcase_add_test(t, transposed_elements);
	tcase_add_test(t, channel_blocks);
	tcase_add_test(t, softmax_by_definition);
	tcase_add_test(t, normalisation_by_definition);
	tcase_add_test(t, float_convolution_by_definition);
	tcase_add_test(t, matrix_products_by_definition);
	tcase_add_test(t, gemm_by_definition);
	tcase_add_test(t, sums_and_products_broadcast);
	tcase_add_test(t, quantised_sums_and_products_broadcast);
	tcase_add_test(t, bounds_may_be_absent);
	tcase_add_test(t, quantising_by_channel);
	tcase_add_test(t, tables_of_rescaling);
	suite_add_tcase(s, t);
	return run_suite(s);
}

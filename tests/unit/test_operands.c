/* SPDX-License-Identifier: MIT */
/*
 * Tests which operands the CPU operators refuse and with which text, on both sides of each bound;
 * the memory that they own, and descriptors as bytes.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "rivulet_op.h"
#include "suite.h"
#include "unit/operator.h"

/* ---- refused operands ---- */

static void refused(const char *text)
{
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;
	int rc = rvl_kernel_new(&d, false, &k, why);

	ck_assert_msg(rc == -EINVAL && !strcmp(why, text), "%s: %d, \"%s\", not \"%s\"",
		      rvl_op_name(d.op), rc, why, text);
}

static void accepted(void)
{
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;
	int rc = rvl_kernel_new(&d, false, &k, why);

	ck_assert_msg(!rc, "%s: %d, \"%s\"", rvl_op_name(d.op), rc, why);
	rvl_kernel_free(k);
}

#define WITH(change, text)                                                                         \
	do {                                                                                       \
		struct rvl_kernel_desc old = d;                                                    \
		change;                                                                            \
		refused(text);                                                                     \
		d = old;                                                                           \
	} while (0)
#define TAKES(change)                                                                              \
	do {                                                                                       \
		struct rvl_kernel_desc old = d;                                                    \
		change;                                                                            \
		accepted();                                                                        \
		d = old;                                                                           \
	} while (0)

START_TEST(every_operand_is_checked)
{
	start(RVL_OP_RELU);
	in(RVL_TYPE_U8, SHAPE(2, 3));
	out(RVL_TYPE_U8, SHAPE(2, 3));
	accepted();
	WITH(d.n_in = 0, "0 inputs and 1 outputs");
	WITH(d.n_in = 2, "2 inputs and 1 outputs");
	WITH(d.n_out = 0, "1 inputs and 0 outputs");
	WITH(d.n_out = 3, "1 inputs and 3 outputs");
	WITH(d.n_out = 2, "a second output");
	WITH(d.in[0].type = RVL_TYPE_NONE, "no first input or output");
	WITH(d.out[0].type = RVL_TYPE_NONE, "no first input or output");
	WITH(d.in[0].type = RVL_TYPE_COUNT, "input 0 has no valid type or shape");
	WITH(d.out[0].shape.dim[1] = -1, "output 0 has no valid type or shape");
	WITH(d.in[0].shape = SHAPE((int64_t)1 << 30, 2), "input 0 has no valid type or shape");
	TAKES(d.in[0].shape = d.out[0].shape = SHAPE((int64_t)1 << 30));
	quant(&d.in[0], 0, 3, 1);
	accepted();
	WITH(d.in[0].quant.scale = NULL, "input 0 lacks quantisation parameters");
	WITH(d.in[0].quant.zp = NULL, "input 0 lacks quantisation parameters");
	WITH(d.in[0].quant.axis = 0, "input 0 has 3 scales for other channels");
	WITH(d.in[0].quant.axis = 2, "input 0 has 3 scales for other channels");
	WITH(d.in[0].quant.axis = -1, "input 0 has 3 scales for other channels");
	WITH(d.in[0].quant.n = 2, "input 0 has 2 scales for other channels");
	TAKES(d.in[0].quant.n = 1; d.in[0].quant.axis = 7);
	scales[0][2] = 0;
	refused("input 0 has a scale that is no number");
	scales[0][2] = INFINITY;
	refused("input 0 has a scale that is no number");
	scales[0][2] = -1;
	accepted();
	zps[0][1] = 256;
	refused("input 0 has zero point 256");
	zps[0][1] = -1;
	refused("input 0 has zero point -1");
	zps[0][1] = 255;
	accepted();
	zps[0][1] = 0;
	accepted();
	d.in[0].type = d.out[0].type = RVL_TYPE_S8;
	zps[0][0] = zps[0][2] = 0;
	zps[0][1] = 128;
	refused("input 0 has zero point 128");
	zps[0][1] = -129;
	refused("input 0 has zero point -129");
	zps[0][1] = -128;
	accepted();
	zps[0][1] = 127;
	accepted();
	quant(&d.out[0], OUT, 1, 0);
	scales[OUT][0] = NAN;
	refused("output 0 has a scale that is no number");
}
END_TEST

START_TEST(products_are_checked)
{
	start(RVL_OP_Q_CONV);
	in(RVL_TYPE_U8, SHAPE(1, 4, 5, 5));
	in(RVL_TYPE_S8, SHAPE(6, 2, 1, 1));
	in(RVL_TYPE_S32, SHAPE(6));
	out(RVL_TYPE_U8, SHAPE(1, 6, 5, 5));
	d.attr.group = 2;
	quant(&d.in[0], 0, 4, 1);
	quant(&d.in[0], 0, 1, 0);
	quant(&d.in[1], 1, 6, 0);
	quant(&d.out[0], OUT, 1, 0);
	accepted();
	WITH(d.in[2].type = RVL_TYPE_F32, "bias is not int32 with one value per output channel");
	WITH(d.in[2].shape.dim[0] = 5, "bias is not int32 with one value per output channel");
	WITH(d.in[1].quant.axis = 1; d.in[1].quant.n = 2, "weights have scales for 2 channels");
	WITH(d.in[0].quant.axis = 1; d.in[0].quant.n = 4, "operands are not quantised to 8 bits");
	WITH(d.in[1].quant.n = 0, "operands are not quantised to 8 bits");
	WITH(d.out[0].quant.n = 0, "operands are not quantised to 8 bits");
	WITH(d.out[0].type = RVL_TYPE_S32, "operands are not quantised to 8 bits");
	WITH(d.attr.group = 4, "weights do not fit input, output and group");
	WITH(d.attr.group = 0, "weights do not fit input, output and group");
	WITH(d.in[1].shape.dim[0] = 5;
	     d.in[1].quant.n = 1, "weights do not fit input, output and group");
	WITH(d.in[1].shape.dim[2] = 2, "weights do not fit input, output and group");
	WITH(d.in[1].shape.dim[3] = 2, "weights do not fit input, output and group");
	WITH(d.out[0].shape.dim[0] = 2, "batch or channels of input and output differ");
	WITH(d.in[0].shape.rank = 3, "operands are not 2-D images");
	WITH(d.in[1].shape.rank = 3, "operands are not 2-D images");
	WITH(d.out[0].shape.rank = 3, "operands are not 2-D images");
	WITH(d.out[0].shape.dim[2] = 6, "output is larger than its padded input");
	WITH(d.out[0].shape.dim[3] = 6, "output is larger than its padded input");
	TAKES(d.attr.pad[0] = 1; d.out[0].shape.dim[2] = 6);
	TAKES(d.attr.pad[3] = 1; d.out[0].shape.dim[3] = 6);
	WITH(d.attr.stride[0] = 0, "window 1x1 is not in range");
	WITH(d.attr.stride[1] = 65536, "window 1x1 is not in range");
	WITH(d.attr.dilation[0] = 0, "window 1x1 is not in range");
	WITH(d.attr.dilation[1] = 65536, "window 1x1 is not in range");
	WITH(d.attr.pad[1] = -1, "window 1x1 is not in range");
	WITH(d.attr.pad[2] = -1, "window 1x1 is not in range");
	WITH(d.attr.pad[0] = 65536, "window 1x1 is not in range");
	WITH(d.attr.pad[3] = 65536, "window 1x1 is not in range");
	TAKES(d.attr.dilation[0] = 65535);
	TAKES(d.attr.stride[0] = d.attr.stride[1] = 65535;
	      d.out[0].shape.dim[2] = d.out[0].shape.dim[3] = 1);
	TAKES(d.out[0].shape.dim[2] = 4);
}
END_TEST

/* Bytes whose product is float: as of quantised products, but for what these operators cannot compute of them. */
START_TEST(products_of_bytes_to_floats_are_checked)
{
	static const int8_t w[4 * 5];

	start(RVL_OP_GEMM);
	in(RVL_TYPE_U8, SHAPE(3, 4));
	in(RVL_TYPE_S8, SHAPE(4, 5));
	in(RVL_TYPE_F32, SHAPE(5));
	out(RVL_TYPE_F32, SHAPE(3, 5));
	quant(&d.in[0], 0, 1, 0);
	quant(&d.in[1], 1, 1, 0);
	zps[0][0] = zps[1][0] = 0;
	d.in[1].data = w;
	d.attr.alpha = d.attr.beta = 1;
	accepted();
	WITH(d.attr.beta = 0.5f, "C is not added as it is, but A and B are bytes");
	TAKES(d.attr.beta = 0.5f; d.n_in = 2);
	WITH(d.in[2].type = RVL_TYPE_S32, "bias is not float32 with one value per output channel");
	WITH(d.in[2].shape.dim[0] = 3, "bias is not float32 with one value per output channel");
	WITH(d.in[0].quant.n = 0, "operands are not float");
	WITH(d.attr.sc_length = 64; d.n_in = 2, "operands are not quantised to 8 bits");
}
END_TEST

START_TEST(pools_are_checked)
{
	start(RVL_OP_MAX_POOL);
	in(RVL_TYPE_F32, SHAPE(1, 2, 5, 5));
	out(RVL_TYPE_F32, SHAPE(1, 2, 3, 3));
	out(RVL_TYPE_S64, SHAPE(1, 2, 3, 3));
	d.attr.kernel[0] = d.attr.kernel[1] = 2;
	d.attr.stride[0] = d.attr.stride[1] = 2;
	accepted();
	WITH(d.out[1].type = RVL_TYPE_S32, "indices are not one int64 for each result");
	WITH(d.out[1].shape.dim[3] = 2, "indices are not one int64 for each result");
	WITH(d.out[0].shape.dim[1] = 3, "batch or channels of input and output differ");
	WITH(d.out[0].type = RVL_TYPE_U8, "no pool on float32");
	WITH(d.in[0].type = d.out[0].type = RVL_TYPE_S64, "no pool on int64");
	WITH(d.out[0].shape.dim[2] = 4, "output is larger than the windows of its input");
	WITH(d.attr.kernel[0] = 5, "output is larger than its padded input");
	d.n_out = 1;
	d.op = RVL_OP_AVERAGE_POOL;
	accepted();
	WITH(d.in[0].type = d.out[0].type = RVL_TYPE_U8, "no pool on uint8");
	d.op = RVL_OP_Q_AVERAGE_POOL;
	refused("operands are not quantised to 8 bits per tensor");
	d.in[0].type = d.out[0].type = RVL_TYPE_U8;
	quant(&d.in[0], 0, 1, 0);
	refused("operands are not quantised to 8 bits per tensor");
	quant(&d.out[0], OUT, 1, 0);
	accepted();
	WITH(d.in[0].quant.n = 0, "operands are not quantised to 8 bits per tensor");
	d.op = RVL_OP_Q_GLOBAL_AVERAGE_POOL;
	refused("output is not one value per channel");
	d.out[0].shape = SHAPE(1, 2, 1, 1);
	accepted();
	WITH(d.in[0].quant.n = 0, "operands are not quantised to 8 bits per tensor");
	WITH(d.out[0].type = RVL_TYPE_S32, "operands are not quantised to 8 bits per tensor");
	WITH(d.in[0].shape = SHAPE(1, 2), "output is not one value per channel");
	WITH(d.in[0].shape = SHAPE(1, 2, 0), "output is not one value per channel");
	TAKES(d.in[0].shape = SHAPE(1, 2, 3));
	d.op = RVL_OP_GLOBAL_MAX_POOL;
	zps[0][0] = zps[OUT][0] = 0;
	accepted();
	WITH(d.out[0].type = RVL_TYPE_S8, "no pool on uint8");
	WITH(d.in[0].type = d.out[0].type = RVL_TYPE_S32, "no pool on int32");
	d.op = RVL_OP_GLOBAL_AVERAGE_POOL;
	refused("no pool on uint8");
}
END_TEST

START_TEST(the_rest_is_checked)
{
	start(RVL_OP_TRANSPOSE);
	in(RVL_TYPE_U8, SHAPE(2, 3));
	out(RVL_TYPE_U8, SHAPE(3, 2));
	d.attr.perm_rank = 2;
	d.attr.perm[0] = 1;
	accepted();
	WITH(d.attr.perm_rank = 1, "permutation, input and output do not fit");
	WITH(d.out[0].shape = SHAPE(3, 2, 1), "permutation, input and output do not fit");
	WITH(d.out[0].type = RVL_TYPE_S8, "permutation, input and output do not fit");
	WITH(d.attr.perm[1] = 1, "perm is no permutation of the input's axes");
	WITH(d.attr.perm[0] = 2, "perm is no permutation of the input's axes");
	WITH(d.attr.perm[1] = -1, "perm is no permutation of the input's axes");
	WITH(d.out[0].shape.dim[0] = 2, "perm is no permutation of the input's axes");
	d.op = RVL_OP_RESHAPE;
	accepted();
	WITH(d.out[0].shape.dim[0] = 2, "input and output differ in type or number of elements");
	WITH(d.out[0].type = RVL_TYPE_S8, "input and output differ in type or number of elements");
	start(RVL_OP_PACK_BLOCKED);
	in(RVL_TYPE_U8, SHAPE(1, 5, 2, 3));
	out(RVL_TYPE_S8, SHAPE(1, 2, 2, 3, 4));
	d.attr.block = 4;
	accepted();
	WITH(d.attr.block = 0, "no blocked layout for this tensor");
	WITH(d.attr.block = 4097, "no blocked layout for this tensor");
	TAKES(d.attr.block = 4096; d.out[0].shape = SHAPE(6, 4096));
	TAKES(d.attr.block = 1; d.out[0].shape = SHAPE(5, 6));
	WITH(d.attr.block = 5, "the blocked side has another size");
	WITH(d.in[0].type = RVL_TYPE_F32, "no blocked layout for this tensor");
	WITH(d.in[0].shape = SHAPE(5), "no blocked layout for this tensor");
	TAKES(d.in[0].shape = SHAPE(6, 5); d.out[0].shape = SHAPE(6, 8));
	start(RVL_OP_Q_RESCALE);
	in(RVL_TYPE_U8, SHAPE(4));
	out(RVL_TYPE_S8, SHAPE(2, 2));
	refused("operands are not quantised to 8 bits per tensor");
	quant(&d.in[0], 0, 1, 0);
	quant(&d.out[0], OUT, 1, 0);
	accepted();
	WITH(d.out[0].quant.n = 0, "operands are not quantised to 8 bits per tensor");
	WITH(d.in[0].quant.n = 0, "operands are not quantised to 8 bits per tensor");
	WITH(d.out[0].shape = SHAPE(3), "operands are not quantised to 8 bits per tensor");
	start(RVL_OP_Q_ADD);
	in(RVL_TYPE_U8, SHAPE(4));
	in(RVL_TYPE_U8, SHAPE(1));
	out(RVL_TYPE_S8, SHAPE(4));
	quant(&d.in[0], 0, 1, 0);
	quant(&d.in[1], 1, 1, 0);
	quant(&d.out[0], OUT, 1, 0);
	accepted();
	WITH(d.in[1].quant.n = 0, "operands are not quantised to 8 bits per tensor");
	WITH(d.out[0].quant.n = 0, "operands are not quantised to 8 bits per tensor");
	WITH(d.in[1].shape = SHAPE(3), "operands do not broadcast to the output");
	WITH(d.in[1].shape = SHAPE(1, 4), "operands do not broadcast to the output");
	start(RVL_OP_SOFTMAX);
	in(RVL_TYPE_F32, SHAPE(4, 2));
	out(RVL_TYPE_F32, SHAPE(4, 2));
	TAKES(d.attr.axis = 1);
	WITH(d.attr.axis = 2, "axis 2 of a tensor of rank 2");
	TAKES(d.attr.axis = 2; d.attr.flat_softmax = 1);
	WITH(d.attr.axis = 3; d.attr.flat_softmax = 1, "axis 3 of a tensor of rank 2");
	WITH(d.attr.axis = -1, "axis -1 of a tensor of rank 2");
	TAKES(d.in[0].shape = d.out[0].shape = SCALAR);
	start(RVL_OP_UNSUPPORTED);
	ck_assert_int_eq(rvl_kernel_new(&d, false, &(struct rvl_kernel *){ NULL }, NULL),
			 -EOPNOTSUPP);
}
END_TEST

/* ---- an operator of the table of descriptors between bytes ---- */

static void start_between(const char *name, int64_t opset)
{
	start(RVL_OP_Q_GENERAL);
	d.def = rvl_op_find(NULL, name, opset);
	in(RVL_TYPE_U8, SHAPE(3, 40));
	in(RVL_TYPE_S8, SHAPE(40));
	out(RVL_TYPE_S8, SHAPE(3, 40));
	quant(&d.in[0], 0, 1, 0);
	quant(&d.in[1], 1, 1, 0);
	quant(&d.out[0], OUT, 1, 0);
}

static void want_between(int32_t lo, int32_t hi, float (*f)(float a, float b))
{
	run(false);
	for (int i = 0; i < 120; i++) {
		float a = (float)(memory[0][i] - zps[0][0]) * scales[0][0];
		float b = (float)((int8_t)memory[1][i % 40] - zps[1][0]) * scales[1][0];
		float v = rintf(f(a, b) / scales[OUT][0]) + (float)zps[OUT][0];
		int32_t want = v < (float)lo ? lo : v > (float)hi ? hi : (int32_t)v;

		ck_assert_int_eq(byte_at(OUT, i, RVL_TYPE_S8), want);
	}
}

static float difference(float a, float b)
{
	return a - b;
}

START_TEST(functions_of_bytes)
{
	static const float two = 2;

	for (int i = 0; i < 20; i++) {
		start_between("Sub", 14);
		want_between(-128, 127, difference);
		start_between("Max", 13);
		d.attr.q_lo = -20;
		d.attr.q_hi = 30;
		want_between(-20, 30, fmaxf);
	}
	start_between("Max", 13);	/* of constants, whose bytes are no floats */
	d.in[0].data = memory[0];
	d.in[1].data = memory[1];
	want_between(-128, 127, fmaxf);
	start_between("Sub", 14);
	WITH(d.def = NULL, "it has no descriptor");
	WITH(d.out[0].quant.n = 0, "its result is not quantised to 8 bits per tensor");
	WITH(d.out[0].type = RVL_TYPE_F32, "its result is not quantised to 8 bits per tensor");
	WITH(quant(&d.in[1], 1, 40, 0), "its input 1 has scales for each channel");
	WITH(d.out[0].shape = SHAPE(3, 41), "its outputs have other types or shapes");
	WITH(d.in[1].shape = SHAPE(39), "its operands' shapes do not broadcast");
	WITH(d.in[1].type = RVL_TYPE_S32; d.in[1].quant.n = 0, "its input 1 is int32, input 0 float32");
	/* A constant may stay what it is, and comes first too. */
	d.in[0] = (struct rvl_kernel_arg){ .type = RVL_TYPE_F32, .data = &two };
	d.out[0].shape = SHAPE(40);
	accepted();
	/* The shape is known at run time only. */
	start_between("NonZero", 13);
	d.n_in = 1;
	refused("its outputs have other types or shapes");
}
END_TEST

/* ---- memory ---- */

START_TEST(owned_memory_is_counted)
{
	struct rvl_kernel *k;

	start(RVL_OP_RELU);
	in(RVL_TYPE_U8, SHAPE(4));
	out(RVL_TYPE_U8, SHAPE(4));
	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, NULL), 0);
	ck_assert_uint_eq(rvl_kernel_bytes(k), 64);
	ck_assert_uint_eq(rvl_kernel_scratch(k), 0);
	rvl_kernel_free(k);
	rvl_kernel_free(NULL);
	start(RVL_OP_Q_RESCALE);
	in(RVL_TYPE_U8, SHAPE(4));
	out(RVL_TYPE_U8, SHAPE(4));
	quant(&d.in[0], 0, 1, 0);
	quant(&d.out[0], OUT, 1, 0);
	/* Each piece is rounded up to 64 bytes, and 64 more may be read: parameters 16, table 256.
	 */
	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, NULL), 0);
	ck_assert_uint_eq(rvl_kernel_bytes(k), 64 + 64 + 256 + 64);
	rvl_kernel_free(k);
}
END_TEST

START_TEST(nothing_is_computed_for_empty_results)
{
	static const struct rvl_shape empty = { 2, { 0, 4 } };

	start(RVL_OP_ADD);
	in(RVL_TYPE_F32, empty);
	in(RVL_TYPE_F32, SHAPE(4));
	out(RVL_TYPE_F32, empty);
	memory[OUT][0] = 0x5a;
	run(false);
	ck_assert_uint_eq(memory[OUT][0], 0x5a);
}
END_TEST

START_TEST(sizes_of_shapes)
{
	struct rvl_shape y, s = SHAPE(1 << 20, 1 << 20);

	ck_assert_int_eq(rvl_shape_count(&s), (int64_t)1 << 40);
	s.dim[1]++;
	ck_assert_int_eq(rvl_shape_count(&s), -1);
	s = SHAPE(1 << 20, 1 << 21, 0);
	ck_assert_int_eq(rvl_shape_count(&s), -1);
	s = SHAPE(5, 0, 7);
	ck_assert_int_eq(rvl_shape_count(&s), 0);
	s = SHAPE(5, -1);
	ck_assert_int_eq(rvl_shape_count(&s), -1);
	s.rank = 9;
	ck_assert_int_eq(rvl_shape_count(&s), -1);
	s.rank = -1;
	ck_assert_int_eq(rvl_shape_count(&s), -1);
	s = SCALAR;
	ck_assert_int_eq(rvl_shape_count(&s), 1);
	s = SHAPE(1, 1, 1, 1, 1, 1, 1, 3);
	ck_assert_int_eq(rvl_shape_count(&s), 3);
	ck_assert(rvl_shape_equal(&s, &s));
	y = s;
	y.dim[7] = 4;
	ck_assert(!rvl_shape_equal(&s, &y));
	y = s;
	y.rank = 7;
	ck_assert(!rvl_shape_equal(&s, &y));
	ck_assert_int_eq(rvl_shape_broadcast(&(struct rvl_shape){ 2, { 3, 1 } },
					     &(struct rvl_shape){ 3, { 2, 1, 4 } }, &y),
			 0);
	ck_assert(y.rank == 3 && y.dim[0] == 2 && y.dim[1] == 3 && y.dim[2] == 4);
	ck_assert_int_eq(rvl_shape_broadcast(&(struct rvl_shape){ 1, { 3 } },
					     &(struct rvl_shape){ 1, { 2 } }, &y),
			 -EINVAL);
	ck_assert_int_eq(y.rank, 3);
	ck_assert_str_eq(rvl_type_name(RVL_TYPE_S64), "int64");
	ck_assert_str_eq(rvl_type_name(RVL_TYPE_COUNT), "none");
	ck_assert_uint_eq(rvl_type_size(RVL_TYPE_S64), 8);
	ck_assert_uint_eq(rvl_type_size(RVL_TYPE_BOOL), 1);
	ck_assert_uint_eq(rvl_type_size(RVL_TYPE_NONE), 0);
	ck_assert_uint_eq(rvl_type_size(RVL_TYPE_COUNT), 0);
	ck_assert_ptr_null(rvl_op_name((enum rvl_op)28));
	ck_assert_str_eq(rvl_op_name(RVL_OP_QGEMM), "QGemm");
}
END_TEST

/* ---- descriptors as bytes ---- */

static void same_arg(const struct rvl_kernel_arg *a, const struct rvl_kernel_arg *b)
{
	ck_assert_int_eq(a->type, b->type);
	ck_assert(rvl_shape_equal(&a->shape, &b->shape));
	ck_assert_uint_eq(a->quant.n, b->quant.n);
	ck_assert_int_eq(a->quant.axis, b->quant.axis);
	for (uint32_t i = 0; i < a->quant.n; i++) {
		ck_assert(a->quant.scale[i] == b->quant.scale[i]);
		ck_assert_int_eq(a->quant.zp[i], b->quant.zp[i]);
	}
}

static void product_desc(void)
{
	start(RVL_OP_Q_CONV);
	in(RVL_TYPE_U8, SHAPE(1, 4, 5, 5));
	in(RVL_TYPE_S8, SHAPE(6, 4, 1, 1));
	in(RVL_TYPE_S32, SHAPE(6));
	out(RVL_TYPE_U8, SHAPE(1, 6, 5, 5));
	quant(&d.in[0], 0, 1, 0);
	quant(&d.in[1], 1, 6, 0);
	quant(&d.out[0], OUT, 1, 2);
	d.attr.sc_blocks = 77;
}

START_TEST(a_descriptor_comes_back)
{
	uint32_t buf[512];
	struct rvl_kernel_desc b;
	int64_t size;

	product_desc();
	size = rvl_desc_pack(&d, NULL, 0);
	memset(buf, 0x5a, sizeof(buf));
	ck_assert_int_eq(rvl_desc_pack(&d, buf, (size_t)size - 1), size);
	ck_assert_uint_eq(buf[0], 0x5a5a5a5a);
	ck_assert_int_eq(rvl_desc_pack(&d, buf, (size_t)size), size);
	ck_assert_uint_eq(buf[1], (uint64_t)size);
	ck_assert_uint_eq(buf[size / 4], 0x5a5a5a5a);
	ck_assert_int_eq(rvl_desc_unpack(buf, (size_t)size, &b), 0);
	ck_assert(b.op == d.op && b.n_in == 3 && b.n_out == 1 && b.attr.sc_blocks == 77 &&
		  b.attr.q_lo == INT32_MIN);
	for (int i = 0; i < 3; i++)
		same_arg(&b.in[i], &d.in[i]);
	same_arg(&b.out[0], &d.out[0]);
	/* A longer buffer is accepted, a shorter one is refused. */
	ck_assert_int_eq(rvl_desc_unpack(buf, (size_t)size + 8, &b), 0);
	ck_assert_int_eq(rvl_desc_unpack(buf, (size_t)size - 1, &b), -EBADMSG);
	ck_assert_int_eq(rvl_desc_unpack((uint8_t *)buf + 1, (size_t)size, &b), -EBADMSG);
	d.in[0].shape.dim[0] = (int64_t)UINT32_MAX + 1;
	ck_assert_int_eq(rvl_desc_pack(&d, buf, sizeof(buf)), -E2BIG);
	d.in[0].shape.dim[0] = -1;
	ck_assert_int_eq(rvl_desc_pack(&d, buf, sizeof(buf)), -E2BIG);
}
END_TEST

/* A word of the bytes is replaced: head, then the arguments in order, each 14 words, from word
 * @head on. */
static int unpack_with(uint32_t word, uint32_t value)
{
	uint32_t buf[512];
	struct rvl_kernel_desc b;
	int64_t size;

	product_desc();
	size = rvl_desc_pack(&d, buf, sizeof(buf));
	ck_assert_int_gt(size, 0);
	buf[word] = value;
	return rvl_desc_unpack(buf, (size_t)size, &b);
}

START_TEST(wrong_numbers_in_a_descriptor)
{
	const uint32_t head = 6 + sizeof(struct rvl_attr) / 4, arg = 6 + RVL_MAX_RANK;

	ck_assert_int_eq(unpack_with(0, 0x324b5653), -EBADMSG);
	ck_assert_int_eq(unpack_with(1, 4000), -EBADMSG);
	ck_assert_int_eq(unpack_with(2, 28), -EBADMSG);
	ck_assert_int_eq(unpack_with(3, RVL_MAX_IN + 1), -EBADMSG);
	ck_assert_int_eq(unpack_with(4, 0), -EBADMSG);
	ck_assert_int_eq(unpack_with(4, RVL_MAX_OUT + 1), -EBADMSG);
	ck_assert_int_eq(unpack_with(5, 1), -EBADMSG);
	ck_assert_int_eq(unpack_with(head, RVL_TYPE_COUNT), -EBADMSG);
	ck_assert_int_eq(unpack_with(head, RVL_TYPE_COUNT - 1), 0);
	ck_assert_int_eq(unpack_with(head + 1, (uint32_t)-1), -EBADMSG);
	ck_assert_int_eq(unpack_with(head + 1, RVL_MAX_RANK + 1), -EBADMSG);
	ck_assert_int_eq(unpack_with(head + 1, RVL_MAX_RANK), 0);
	ck_assert_int_eq(unpack_with(head + 2, 1u << 20), -EBADMSG);
	ck_assert_int_eq(unpack_with(head + 2, 2), -EBADMSG);
	ck_assert_int_eq(unpack_with(head + 2, 0), 0);
	ck_assert_int_eq(unpack_with(head + 4, RIVULET_LAYOUT_END), -EBADMSG);
	ck_assert_int_eq(unpack_with(head + 4, RIVULET_LAYOUT_NHWC), 0);
	ck_assert_int_eq(unpack_with(head + 5, 1), -EBADMSG);
	ck_assert_int_eq(unpack_with(head + 6, UINT32_MAX), 0);
	ck_assert_int_eq(unpack_with(head + arg + 6, UINT32_MAX), 0);
	ck_assert_int_eq(unpack_with(head + arg, 99), -EBADMSG);
	ck_assert_int_eq(unpack_with(head + 3 * arg, 99), -EBADMSG);
}
END_TEST

START_TEST(descriptors_have_a_limit)
{
	static float s[1 << 17];
	static int32_t z[1 << 17];

	product_desc();
	d.in[1].quant = (struct rvl_kernel_quant){ 1 << 17, 0, s, z };
	ck_assert_int_eq(rvl_desc_pack(&d, NULL, 0), -E2BIG);
	d.in[1].quant.n = 0;
	d.in[1].quant.n = (uint32_t)(((1 << 20) - rvl_desc_pack(&d, NULL, 0)) / 8);
	ck_assert_int_gt(rvl_desc_pack(&d, NULL, 0), (1 << 20) - 8);
	d.in[1].quant.n++;
	ck_assert_int_eq(rvl_desc_pack(&d, NULL, 0), -E2BIG);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("operands");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, every_operand_is_checked);
	tcase_add_test(t, products_are_checked);
	tcase_add_test(t, products_of_bytes_to_floats_are_checked);
	tcase_add_test(t, pools_are_checked);
	tcase_add_test(t, the_rest_is_checked);
	tcase_add_test(t, functions_of_bytes);
	tcase_add_test(t, owned_memory_is_counted);
	tcase_add_test(t, nothing_is_computed_for_empty_results);
	tcase_add_test(t, sizes_of_shapes);
	tcase_add_test(t, a_descriptor_comes_back);
	tcase_add_test(t, wrong_numbers_in_a_descriptor);
	tcase_add_test(t, descriptors_have_a_limit);
	suite_add_tcase(s, t);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/*
 * Operands whose elements lie apart: kernels compute the same bits as on dense ones and write nothing
 * between the elements, program files with impossible pitches are refused, and the pass makes views
 * that copy nothing.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/nets.h"
#include "chance.h"
#include "graph/interp.h"
#include "made_program.h"
#include "npu/partition.h"
#include "pass/passes.h"
#include "prog_exec.h"
#include "program/program.h"
#include "suite.h"
#include "unit/onnx_text.h"

/* ---- kernels ---- */

#define MOST 65536
#define OPERANDS 4

/* An operand: dense in its layout, and the same elements apart. The last operand is the result. */
struct operand {
	struct rvl_kernel_arg *arg;
	uint8_t dense[MOST], apart[MOST];
	bool parted;	/* this run has it apart */
	int64_t at;	/* of the first element in @apart */
	int64_t stride[RVL_MAX_RANK];	/* of @dense, bytes */
};

static struct rvl_kernel_desc d;
static struct operand operand[OPERANDS];
static uint64_t seed;

static int64_t draw(int64_t lo, int64_t hi)
{
	return lo + (int64_t)(splitmix(&seed) % (uint64_t)(hi - lo + 1));
}

static struct rvl_kernel_arg *arg_of(uint32_t i)
{
	return i < d.n_in ? &d.in[i] : &d.out[i - d.n_in];
}

static void dense_strides(struct operand *o)
{
	static const int nhwc[4] = { 1, 3, 2, 0 }, plain[RVL_MAX_RANK] = { 7, 6, 5, 4, 3, 2, 1, 0 };
	const struct rvl_shape *s = &o->arg->shape;
	bool channels_last = o->arg->layout == RIVULET_LAYOUT_NHWC;
	int64_t n = (int64_t)rvl_type_size(o->arg->type);

	for (int k = 0; k < (channels_last ? 4 : RVL_MAX_RANK); k++) {
		int axis = channels_last ? nhwc[k] : plain[k];

		if (axis >= s->rank)
			continue;
		o->stride[axis] = n;
		n *= s->dim[axis];
	}
}

/* Pitches of a random order of the axes, with gaps and reversed axes; or of the pixels only. */
static void part_elements(struct operand *o, bool pixels, bool result)
{
	struct rvl_kernel_arg *a = o->arg;
	int64_t size = (int64_t)rvl_type_size(a->type), n = size, at = 0;
	int order[RVL_MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	static const int nhwc[4] = { 1, 3, 2, 0 };

	for (int k = a->shape.rank - 1; k > 0; k--) {
		int j = (int)draw(0, k), old = order[k];

		order[k] = order[j];
		order[j] = old;
	}
	for (int k = 0; k < a->shape.rank; k++) {
		int axis = pixels ? nhwc[k] : order[k];

		if (pixels && k == 1)
			n += size * draw(1, 40);	/* behind the channels of a pixel */
		a->pitch[axis] = n;
		n *= a->shape.dim[axis];
		if (pixels)
			continue;
		n += size * draw(0, 2);
		if (draw(0, 2) == 0) {
			at += (a->shape.dim[axis] - 1) * a->pitch[axis];
			a->pitch[axis] = -a->pitch[axis];
		} else if (!result && draw(0, 9) == 0) {
			a->pitch[axis] = 0;
		}
	}
	ck_assert_int_le(n + 64, MOST);
	o->at = at;
}

/* Calls for the offset of each element in both memories. */
static void copy_elements(struct operand *o, bool to_apart)
{
	const struct rvl_kernel_arg *a = o->arg;
	size_t size = rvl_type_size(a->type);
	int64_t index[RVL_MAX_RANK] = { 0 }, n = rvl_shape_count(&a->shape);

	for (int64_t i = 0; i < n; i++) {
		int64_t x = 0, y = o->at;

		for (int k = 0; k < a->shape.rank; k++) {
			x += index[k] * o->stride[k];
			y += index[k] * a->pitch[k];
		}
		memcpy(to_apart ? o->apart + y : o->dense + x, to_apart ? o->dense + x : o->apart + y,
		       size);
		for (int k = a->shape.rank - 1; k >= 0; k--) {
			if (++index[k] < a->shape.dim[k])
				break;
			index[k] = 0;
		}
	}
}

static void run_kernel(bool reference)
{
	uint8_t scratch_memory[1 << 16] __attribute__((aligned(64)));
	struct rvl_value in[RVL_MAX_IN] = { { .type = RVL_TYPE_NONE } };
	struct rvl_value out[RVL_MAX_OUT] = { { .type = RVL_TYPE_NONE } };
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;

	for (uint32_t i = 0; i < d.n_in + d.n_out; i++) {
		struct rvl_kernel_arg *a = arg_of(i);
		struct rvl_value v = { .type = a->type, .shape = a->shape };

		v.data = a->pitched ? operand[i].apart + operand[i].at : operand[i].dense;
		if (a->data)
			v.data = (void *)(uintptr_t)a->data;
		*(i < d.n_in ? &in[i] : &out[i - d.n_in]) = v;
	}
	ck_assert_msg(!rvl_kernel_new(&d, reference, &k, why), "%s: %s", rvl_op_name(d.op), why);
	ck_assert_uint_le(rvl_kernel_scratch(k), sizeof(scratch_memory));
	ck_assert_msg(!rvl_kernel_run_values(k, in, out, scratch_memory, NULL, why), "%s", why);
	rvl_kernel_free(k);
}

/* Brings random ones of the operands apart, at least one. */
static void part_operands(void)
{
	uint32_t n = d.n_in + d.n_out;
	bool any = false;

	for (uint32_t i = 0; i < n; i++) {
		struct operand *o = &operand[i];
		enum rvl_pitches can = rvl_kernel_pitches(&d, i);

		o->arg = arg_of(i);
		o->at = 0;
		o->parted = can != RVL_PITCHES_NONE && !o->arg->data && (draw(0, 2) || (!any && i + 1 == n));
		dense_strides(o);
		if (!o->parted)
			continue;
		any = true;
		memset(o->apart, 0x5b, MOST);
		part_elements(o, can == RVL_PITCHES_PIXELS, i >= d.n_in);
		copy_elements(o, true);
		/* Elements in one place have the value of the last of them. */
		copy_elements(o, false);
	}
}

/*
 * Runs @d on dense operands, then with random ones of them apart, and compares all elements and the
 * bytes between them.
 */
static void compare_apart(const char *name)
{
	static uint8_t want[MOST], dense[MOST], apart[MOST];
	struct operand *y = &operand[d.n_in];

	part_operands();
	memcpy(dense, y->dense, MOST);
	memcpy(apart, y->apart, MOST);
	for (uint32_t i = 0; i < d.n_in + d.n_out; i++)
		arg_of(i)->pitched = false;
	run_kernel(true);
	memcpy(want, y->dense, MOST);
	for (uint32_t i = 0; i < d.n_in + d.n_out; i++)
		arg_of(i)->pitched = operand[i].parted;
	run_kernel(draw(0, 1));
	if (y->parted)
		copy_elements(y, false);
	ck_assert_msg(!memcmp(y->dense, want, MOST), "%s differs", name);
	if (!y->parted)
		return;
	memcpy(y->dense, dense, MOST);
	copy_elements(y, true);
	ck_assert_msg(!memcmp(y->apart, apart, MOST), "%s writes between elements", name);
}

static void set_arg(uint32_t i, enum rvl_type type, struct rvl_shape s)
{
	struct rvl_kernel_arg *a = arg_of(i);

	*a = (struct rvl_kernel_arg) { .type = type, .shape = s };
	for (int64_t k = 0; k < MOST; k++)
		operand[i].dense[k] = type == RVL_TYPE_F32 || type == RVL_TYPE_BOOL ? 0 :
				      (uint8_t)splitmix(&seed);
	for (int64_t k = 0; type == RVL_TYPE_F32 && k < MOST / 4; k++)
		((float *)(void *)operand[i].dense)[k] = (float)draw(-99, 99) / 16.0f;
	for (int64_t k = 0; type == RVL_TYPE_BOOL && k < MOST; k++)
		operand[i].dense[k] = (uint8_t)draw(0, 1);
}

static const struct {
	const char *name;
	int opset;
	enum rvl_type in[3], out;
} rows[] = {
	{ "Add", 14, { RVL_TYPE_F32, RVL_TYPE_F32 }, RVL_TYPE_F32 },
	{ "Sub", 14, { RVL_TYPE_S8, RVL_TYPE_S8 }, RVL_TYPE_S8 },
	{ "Max", 13, { RVL_TYPE_S32, RVL_TYPE_S32, RVL_TYPE_S32 }, RVL_TYPE_S32 },
	{ "Mean", 13, { RVL_TYPE_F32, RVL_TYPE_F32, RVL_TYPE_F32 }, RVL_TYPE_F32 },
	{ "Sum", 13, { RVL_TYPE_F32 }, RVL_TYPE_F32 },
	{ "Less", 13, { RVL_TYPE_S64, RVL_TYPE_S64 }, RVL_TYPE_BOOL },
	{ "And", 7, { RVL_TYPE_BOOL, RVL_TYPE_BOOL }, RVL_TYPE_BOOL },
	{ "Abs", 13, { RVL_TYPE_S16 }, RVL_TYPE_S16 },
	{ "Floor", 13, { RVL_TYPE_F32 }, RVL_TYPE_F32 },
	{ "Where", 16, { RVL_TYPE_BOOL, RVL_TYPE_S16, RVL_TYPE_S16 }, RVL_TYPE_S16 },
	{ "Mod", 13, { RVL_TYPE_U8, RVL_TYPE_U8 }, RVL_TYPE_U8 },
	{ "Pow", 13, { RVL_TYPE_F32, RVL_TYPE_F32 }, RVL_TYPE_F32 },
	{ "IsNaN", 13, { RVL_TYPE_F32 }, RVL_TYPE_BOOL },
	{ "IsInf", 20, { RVL_TYPE_F32 }, RVL_TYPE_BOOL },
	{ "Relu", 14, { RVL_TYPE_S16 }, RVL_TYPE_S16 },
	{ "Clip", 13, { RVL_TYPE_U16 }, RVL_TYPE_U16 },
	{ "Clip", 6, { RVL_TYPE_F32 }, RVL_TYPE_F32 },
	{ "CastLike", 19, { RVL_TYPE_F32, RVL_TYPE_S32 }, RVL_TYPE_S32 },
};

static void general(const char *name, int opset, uint32_t n)
{
	memset(&d, 0, sizeof(d));
	d.op = RVL_OP_GENERAL;
	d.def = rvl_op_find(NULL, name, opset);
	ck_assert(d.def);
	d.n_in = n;
	d.n_out = 1;
}

static struct rvl_shape random_shape(int32_t rank)
{
	struct rvl_shape s = { .rank = rank };

	for (int k = 0; k < rank; k++)
		s.dim[k] = draw(1, k ? 7 : 9);
	return s;
}

/* The shape with one axis of one element, at times. */
static struct rvl_shape broadcast_of(struct rvl_shape s)
{
	if (draw(0, 2) == 0)
		s.dim[draw(0, s.rank - 1)] = 1;
	return s;
}

/* Element-wise rows, of which one operand is broadcast at times. */
START_TEST(element_wise_rows)
{
	seed = (uint64_t)_i + 1;
	for (int turn = 0; turn < random_cases(200); turn++) {
		struct rvl_shape s = random_shape((int32_t)draw(1, 4));
		uint32_t n = 0;

		while (n < 3 && rows[_i].in[n])
			n++;
		general(rows[_i].name, rows[_i].opset, n);
		for (uint32_t i = 0; i < n; i++)
			set_arg(i, rows[_i].in[i], i ? broadcast_of(s) : s);
		set_arg(n, rows[_i].out, s);
		ck_assert_int_eq(rvl_kernel_pitches(&d, n), RVL_PITCHES_ANY);
		compare_apart(rows[_i].name);
	}
}
END_TEST

/* Kernels of float and integer operators that address any pitches. */
START_TEST(special_kernels)
{
	static const struct {
		enum rvl_op op;
		enum rvl_type type;
		uint32_t n;
	} ops[] = {
		{ RVL_OP_ADD, RVL_TYPE_F32, 2 }, { RVL_OP_MUL, RVL_TYPE_F32, 2 },
		{ RVL_OP_ADD, RVL_TYPE_S8, 2 }, { RVL_OP_MUL, RVL_TYPE_S64, 2 },
		{ RVL_OP_RELU, RVL_TYPE_F32, 1 }, { RVL_OP_CLIP, RVL_TYPE_F32, 1 },
		{ RVL_OP_RELU, RVL_TYPE_S8, 1 },
	};

	seed = (uint64_t)_i + 11;
	for (int turn = 0; turn < random_cases(200); turn++) {
		struct rvl_shape s = random_shape((int32_t)draw(1, 4));

		memset(&d, 0, sizeof(d));
		d.op = ops[_i].op;
		d.n_in = ops[_i].n;
		d.n_out = 1;
		rvl_attr_init(&d.attr);
		if (d.op == RVL_OP_CLIP)
			d.attr.f_lo = -2;
		set_arg(0, ops[_i].type, s);
		if (d.n_in > 1)
			set_arg(1, ops[_i].type, broadcast_of(s));
		set_arg(d.n_in, ops[_i].type, s);
		ck_assert_int_eq(rvl_kernel_pitches(&d, 0), RVL_PITCHES_ANY);
		compare_apart(rvl_op_name(d.op));
	}
}
END_TEST

/* Gather of evenly spaced and of other indices, in a list or in a matrix of them. */
START_TEST(gathers_apart)
{
	static int64_t index[12];

	seed = (uint64_t)_i + 21;
	for (int turn = 0; turn < random_cases(200); turn++) {
		struct rvl_shape x = random_shape((int32_t)draw(1, 3)), y = { .rank = x.rank + 1 };
		struct rvl_shape k = { 2, { draw(1, 3), draw(1, 4) } };
		int64_t axis = draw(0, x.rank - 1), n = k.dim[0] * k.dim[1], step = 0, first;

		if (x.dim[axis] >= n)
			step = draw(0, (x.dim[axis] - 1) / (n > 1 ? n - 1 : 1));
		first = draw(0, x.dim[axis] - 1 - step * (n - 1));
		for (int64_t i = 0; i < n; i++)
			index[i] = _i ? draw(0, x.dim[axis] - 1) : first + step * i;
		if (draw(0, 1))
			index[0] -= x.dim[axis];
		for (int e = 0, o = 0; e < x.rank; e++) {
			if (e == axis)
				y.dim[o++] = k.dim[0];
			y.dim[o++] = e == axis ? k.dim[1] : x.dim[e];
		}
		general("Gather", 13, 2);
		d.value[0] = (struct rvl_attr_value){ .given = true, .i = axis };
		set_arg(0, RVL_TYPE_S16, x);
		set_arg(1, RVL_TYPE_S64, k);
		d.in[1].data = index;
		set_arg(2, RVL_TYPE_S16, y);
		ck_assert_int_eq(rvl_kernel_pitches(&d, 0), RVL_PITCHES_ANY);
		compare_apart("Gather");
	}
}
END_TEST

/* Expand, Cast and the blocks of pixels. */
START_TEST(moves_apart)
{
	static int64_t to[4];

	seed = (uint64_t)_i + 31;
	for (int turn = 0; turn < random_cases(100); turn++) {
		struct rvl_shape s = random_shape(4), y = s;

		if (_i == 0) {
			general("Expand", 13, 2);
			set_arg(1, RVL_TYPE_S64, (struct rvl_shape){ 1, { 4 } });
			memcpy(to, s.dim, sizeof(to));
			d.in[1].data = to;
			s = broadcast_of(broadcast_of(s));
		} else if (_i == 1) {
			general("Cast", 13, 1);
			d.value[0] = (struct rvl_attr_value){ .given = true, .i = 6 };
		} else {
			general(_i == 2 ? "DepthToSpace" : "SpaceToDepth", 13, 1);
			d.value[0] = (struct rvl_attr_value){ .given = true, .i = 2 };
			s.dim[1] = _i == 2 ? 4 * s.dim[1] : s.dim[1];
			s.dim[2] *= _i == 2 ? 1 : 2;
			s.dim[3] *= _i == 2 ? 1 : 2;
			y = (struct rvl_shape){ 4, { s.dim[0], _i == 2 ? s.dim[1] / 4 : 4 * s.dim[1],
						     _i == 2 ? 2 * s.dim[2] : s.dim[2] / 2,
						     _i == 2 ? 2 * s.dim[3] : s.dim[3] / 2 } };
		}
		set_arg(0, RVL_TYPE_F32, s);
		set_arg(d.n_in, _i == 1 ? RVL_TYPE_S32 : RVL_TYPE_F32, y);
		ck_assert_int_eq(rvl_kernel_pitches(&d, 0), RVL_PITCHES_ANY);
		compare_apart(d.def->name);
	}
}
END_TEST

static void quantised(uint32_t i, float *scale, int32_t *zp)
{
	struct rvl_kernel_arg *a = arg_of(i);

	*scale = 0.02f + 0.01f * (float)i;
	*zp = a->type == RVL_TYPE_U8 ? 120 : -3;
	a->quant = (struct rvl_kernel_quant) { .n = 1, .scale = scale, .zp = zp };
	a->layout = RIVULET_LAYOUT_NHWC;
}

/* Quantised kernels on images in NHWC whose pixels are further apart than their channels. */
START_TEST(pixels_apart)
{
	static const enum rvl_op ops[] = {
		RVL_OP_Q_CONV, RVL_OP_Q_CONV, RVL_OP_MAX_POOL, RVL_OP_Q_AVERAGE_POOL, RVL_OP_Q_ADD,
		RVL_OP_Q_MUL, RVL_OP_Q_RESCALE, RVL_OP_IDENTITY, RVL_OP_REORDER,
		RVL_OP_Q_GLOBAL_AVERAGE_POOL, RVL_OP_GLOBAL_MAX_POOL,
	};
	static int8_t weights[64 * 64 * 9];
	static float scale[4];
	static int32_t zp[4];
	enum rvl_op op = ops[_i];
	bool depthwise = _i == 1, conv = op == RVL_OP_Q_CONV;
	bool global = op == RVL_OP_Q_GLOBAL_AVERAGE_POOL || op == RVL_OP_GLOBAL_MAX_POOL;

	seed = (uint64_t)_i + 77;
	for (size_t i = 0; i < sizeof(weights); i++)
		weights[i] = (int8_t)draw(-20, 20);
	for (int turn = 0; turn < random_cases(60); turn++) {
		int64_t c = draw(2, 40), m = conv && !depthwise ? draw(2, 40) : c, k = draw(1, 3);
		struct rvl_shape x = { 4, { draw(1, 2), c, draw(4, 6), draw(4, 6) } }, y = x;
		enum rvl_type t = draw(0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
		bool window = conv || op == RVL_OP_MAX_POOL || op == RVL_OP_Q_AVERAGE_POOL;

		memset(&d, 0, sizeof(d));
		d.op = op;
		d.n_in = op == RVL_OP_Q_ADD || op == RVL_OP_Q_MUL || conv ? 2 : 1;
		d.n_out = 1;
		rvl_attr_init(&d.attr);
		if (window) {
			d.attr.kernel[0] = d.attr.kernel[1] = (int32_t)k;
			d.attr.group = depthwise ? (int32_t)c : 1;
			d.attr.pad[0] = d.attr.pad[2] = (int32_t)(k > 2);
			y.dim[2] += 1 - k + 2 * (k > 2);
		}
		if (window)
			y.dim[3] += 1 - k;
		y.dim[1] = m;
		if (global)
			y.dim[2] = y.dim[3] = 1;
		set_arg(0, t, x);
		quantised(0, &scale[0], &zp[0]);
		if (conv) {
			set_arg(1, RVL_TYPE_S8, (struct rvl_shape){ 4, { m, depthwise ? 1 : c, k, k } });
			quantised(1, &scale[1], &zp[1]);
			zp[1] = 0;
			d.in[1].layout = RIVULET_LAYOUT_PLAIN;
			d.in[1].data = weights;
		} else if (d.n_in == 2) {
			set_arg(1, t, x);
			quantised(1, &scale[1], &zp[1]);
		}
		set_arg(d.n_in, t, y);
		quantised(d.n_in, &scale[2], &zp[2]);
		if (global)
			d.out[0].layout = RIVULET_LAYOUT_PLAIN;
		compare_apart(rvl_op_name(op));
	}
}
END_TEST

/* An operator on floats between bytes, which copies what lies apart. */
START_TEST(floats_between_bytes)
{
	static float scale[3];
	static int32_t zp[3];

	seed = 3;
	for (int turn = 0; turn < random_cases(100); turn++) {
		struct rvl_shape s = random_shape((int32_t)draw(1, 4));

		general("Sub", 14, 2);
		d.op = RVL_OP_Q_GENERAL;
		rvl_attr_init(&d.attr);
		for (uint32_t i = 0; i < 3; i++) {
			set_arg(i, draw(0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8, i == 1 ? broadcast_of(s) : s);
			quantised(i, &scale[i], &zp[i]);
			arg_of(i)->layout = RIVULET_LAYOUT_PLAIN;
		}
		ck_assert_int_eq(rvl_kernel_pitches(&d, 1), RVL_PITCHES_ANY);
		compare_apart("Sub between bytes");
	}
}
END_TEST

/* What a kernel does not address is refused by number. */
START_TEST(refuses_other_pitches)
{
	static float scale[4];
	static int32_t zp[4];
	char why[RVL_WHY_MAX];
	struct rvl_kernel *k;

	memset(&d, 0, sizeof(d));
	d.op = RVL_OP_SOFTMAX;
	d.n_in = d.n_out = 1;
	rvl_attr_init(&d.attr);
	set_arg(0, RVL_TYPE_F32, (struct rvl_shape){ 2, { 3, 4 } });
	set_arg(1, RVL_TYPE_F32, (struct rvl_shape){ 2, { 3, 4 } });
	d.in[0].pitched = true;
	d.in[0].pitch[0] = 16;
	d.in[0].pitch[1] = 4;
	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, why), -EINVAL);
	ck_assert_str_eq(why, "operand 0 has pitches that the kernel does not address");

	d.op = RVL_OP_IDENTITY;
	d.in[0].pitch[1] = 6;
	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, why), -EINVAL);
	ck_assert_str_eq(why, "operand 0: pitch 1 is no multiple of its elements");

	/* The rows of the image are further apart than its pixels are. */
	d.op = RVL_OP_Q_RESCALE;
	set_arg(0, RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, 3, 4, 4 } });
	set_arg(1, RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, 3, 4, 4 } });
	quantised(0, &scale[0], &zp[0]);
	quantised(1, &scale[1], &zp[1]);
	d.in[0].pitched = true;
	memcpy(d.in[0].pitch, (const int64_t[4]) { 400, 1, 24, 5 }, 4 * sizeof(int64_t));
	ck_assert_int_eq(rvl_kernel_new(&d, false, &k, why), -EINVAL);
	ck_assert_str_eq(why, "operand 0 has pitches that the kernel does not address");
	d.in[0].pitch[2] = 20;
	ck_assert_msg(!rvl_kernel_new(&d, false, &k, why), "%s", why);
	rvl_kernel_free(k);
}
END_TEST

/* The compiled shape of an operand with pitches, and another that a run finds. */
static const struct {
	enum rivulet_layout layout;
	bool pitched;
	struct rvl_shape compiled, found;
} changed[] = {
	{ RIVULET_LAYOUT_PLAIN, true, { 2, { 1, 16 } }, { 2, { 16, 1 } } },
	{ RIVULET_LAYOUT_PLAIN, true, { 2, { 4, 4 } }, { 2, { 2, 4 } } },
	{ RIVULET_LAYOUT_NHWC, false, { 4, { 1, 2, 2, 4 } }, { 4, { 1, 4, 2, 2 } } },
};

/* A run with another shape than that of the pitches fails before it writes anything. */
START_TEST(refuses_other_shapes)
{
	static const uint8_t zero[sizeof(operand[1].apart)];
	struct rvl_value x, y;
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;

	memset(&d, 0, sizeof(d));
	memset(operand[1].apart, 0, sizeof(operand[1].apart));
	d.op = RVL_OP_GENERAL;
	d.def = rvl_op_find(NULL, "Neg", 13);
	d.n_in = d.n_out = 1;
	set_arg(0, RVL_TYPE_F32, changed[_i].compiled);
	set_arg(1, RVL_TYPE_F32, changed[_i].compiled);
	d.in[0].layout = d.out[0].layout = changed[_i].layout;
	d.out[0].pitched = changed[_i].pitched;
	memcpy(d.out[0].pitch, (const int64_t[2]) { 1024, 8 }, 2 * sizeof(int64_t));
	if (d.out[0].layout == RIVULET_LAYOUT_NHWC)
		memset(d.out[0].pitch, 0, sizeof(d.out[0].pitch));
	ck_assert_msg(!rvl_kernel_new(&d, false, &k, why), "%s", why);
	x = (struct rvl_value) { .type = RVL_TYPE_F32, .shape = changed[_i].found,
				 .data = operand[0].dense };
	y = (struct rvl_value) { .type = RVL_TYPE_F32, .shape = changed[_i].compiled,
				 .data = operand[1].apart };
	ck_assert_int_eq(rvl_kernel_run_values(k, &x, &y, NULL, NULL, why), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "has pitches for another shape"));
	ck_assert(!memcmp(operand[1].apart, zero, sizeof(zero)));
	x.shape = changed[_i].compiled;
	ck_assert_msg(!rvl_kernel_run_values(k, &x, &y, NULL, NULL, why), "%s", why);
	rvl_kernel_free(k);
}
END_TEST

/* Input @i is the constant @scale in shape @s. */
static void set_scales(uint32_t i, struct rvl_shape s, float *scale)
{
	set_arg(i, RVL_TYPE_F32, s);
	for (int64_t k = 0; k < rvl_shape_count(&s); k++)
		scale[k] = 0.25f + 0.125f * (float)draw(0, 20);
	d.in[i].data = scale;
}

static void quantise_along(int axis, const struct rvl_shape *x, float *scale, bool back)
{
	static uint8_t zero[64];

	d.op = back ? RVL_OP_DEQUANTIZE : RVL_OP_QUANTIZE;
	d.n_in = 3;
	d.attr.axis = axis;
	set_arg(0, back ? RVL_TYPE_U8 : RVL_TYPE_F32, *x);
	set_scales(1, (struct rvl_shape){ 1, { x->dim[axis] } }, scale);
	set_arg(2, RVL_TYPE_U8, d.in[1].shape);
	for (int64_t k = 0; k < x->dim[axis]; k++)
		zero[k] = (uint8_t)draw(0, 255);
	d.in[2].data = zero;
	set_arg(3, back ? RVL_TYPE_F32 : RVL_TYPE_U8, *x);
	d.in[0].layout = d.out[0].layout = RIVULET_LAYOUT_NHWC;
}

static void table_along(int axis, const struct rvl_shape *x, float *scale)
{
	static float quant[2];
	static int32_t zp[2];
	struct rvl_shape s = { 4, { 1, 1, 1, 1 } };

	s.dim[axis] = x->dim[axis];
	d.op = RVL_OP_Q_TABLE;
	d.def = rvl_op_find(NULL, "Mul", 14);
	d.n_in = 2;
	set_arg(0, RVL_TYPE_U8, *x);
	quantised(0, &quant[0], &zp[0]);
	set_scales(1, s, scale);
	set_arg(2, RVL_TYPE_U8, *x);
	quantised(2, &quant[1], &zp[1]);
}

/* Scales and tables along each axis of an image in NHWC whose pixels are apart. */
START_TEST(axes_of_pixels_apart)
{
	static float scale[64];
	int axis = _i % 4;

	seed = (uint64_t)_i + 5;
	for (int turn = 0; turn < random_cases(20); turn++) {
		struct rvl_shape x = { 4, { draw(2, 3), draw(4, 9), draw(4, 6), draw(4, 6) } };

		memset(&d, 0, sizeof(d));
		d.n_out = 1;
		rvl_attr_init(&d.attr);
		if (_i < 8)
			quantise_along(axis, &x, scale, _i >= 4);
		else
			table_along(axis, &x, scale);
		compare_apart(rvl_op_name(d.op));
	}
}
END_TEST

/* ---- program files ---- */

struct hostile {
	const char *says;
	uint64_t dim[2];
	int64_t pitch[2];
	uint64_t size;
	uint32_t flags;
	bool write;
};

/* Tensor 2, of 6 floats, lies in an arena of 64 bytes. */
static const struct hostile hostile[] = {
	{ NULL, { 2, 3 }, { 4, 8 }, 24, RIVULET_TENSOR_PITCHED, true },
	{ NULL, { 2, 3 }, { -16, 4 }, 28, RIVULET_TENSOR_PITCHED, true },
	{ NULL, { 2, 3 }, { 0, 4 }, 12, RIVULET_TENSOR_PITCHED, false },
	{ "elements are the same bytes", { 2, 3 }, { 0, 4 }, 12, RIVULET_TENSOR_PITCHED, true },
	{ "elements are the same bytes", { 2, 3 }, { 8, 4 }, 20, RIVULET_TENSOR_PITCHED, true },
	{ "are not what its shape takes", { 2, 3 }, { 4, 8 }, 28, RIVULET_TENSOR_PITCHED, false },
	{ "are not what its shape takes", { 2, 3 }, { INT64_MIN, 4 }, 12, RIVULET_TENSOR_PITCHED, false },
	{ "are not what its shape takes", { 2, 3 }, { INT64_MAX, INT64_MAX }, 12, RIVULET_TENSOR_PITCHED, false },
	{ "are not what its shape takes", { 0, 3 }, { 4, 4 }, 4, RIVULET_TENSOR_PITCHED, false },
	{ "bytes at 0 of place 3", { 2, 3 }, { 64, 4 }, 76, RIVULET_TENSOR_PITCHED, false },
	{ "pitch 0 is no multiple", { 2, 3 }, { 6, 12 }, 34, RIVULET_TENSOR_PITCHED, false },
	{ "a pitch that it does not have", { 2, 3 }, { 12, 4 }, 24, 0, false },
	{ NULL, { 1, 6 }, { 0, 4 }, 24, RIVULET_TENSOR_PITCHED, true },
	{ "a pitch that it does not have", { 1, 6 }, { 1 << 30, 4 }, 24, RIVULET_TENSOR_PITCHED, true },
	{ "has pitches, but is", { 2, 3 }, { 12, 4 }, 24, RIVULET_TENSOR_PITCHED | RIVULET_TENSOR_BOUNDED, false },
};

START_TEST(refuses_impossible_pitches)
{
	const struct hostile *h = &hostile[_i];
	struct made *m = calloc(1, sizeof(*m));
	char why[256] = "";
	int rc;

	add_tensor(m, RIVULET_PLACE_INPUT, 0, 6);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, 6);
	add_tensor(m, RIVULET_PLACE_ARENA, 0, 16);
	m->t[2].ndim = 2;
	m->t[2].flags = h->flags;
	m->t[2].size = h->size;
	memcpy(m->t[2].dim, h->dim, sizeof(h->dim));
	memcpy(m->t[2].pitch, h->pitch, sizeof(h->pitch));
	add_step(m, h->write ? 0 : 2, UINT32_MAX, h->write ? 2 : 1);
	make_file(m);
	rc = rivulet_program_check(m->file, m->size, why, sizeof(why));
	if (h->says)
		ck_assert_msg(rc && strstr(why, h->says), "case %d: \"%s\"", _i, why);
	else
		ck_assert_msg(!rc, "case %d: %s", _i, why);
	free(m->file);
	free(m);
}
END_TEST

/* Pitches hold for the compiled shape, which an operand that is bounded may change. */
START_TEST(refuses_bounded_beside_pitches)
{
	struct made *m = calloc(1, sizeof(*m));
	char why[256] = "";

	for (int i = 0; i < 2; i++)
		add_tensor(m, i ? RIVULET_PLACE_OUTPUT : RIVULET_PLACE_INPUT, 0, 6);
	for (int i = 2; i < 4; i++) {
		struct rivulet_tensor *t = &m->t[add_tensor(m, RIVULET_PLACE_ARENA, 64 * (i - 2), 6)];

		t->ndim = 2;
		memcpy(t->dim, (const uint64_t[2]) { 2, 3 }, 2 * sizeof(uint64_t));
	}
	m->t[2 + (_i & 1)].flags = RIVULET_TENSOR_BOUNDED;
	m->t[3 - (_i & 1)].flags = RIVULET_TENSOR_PITCHED;
	memcpy(m->t[3 - (_i & 1)].pitch, (const int64_t[2]) { 4, 8 }, 2 * sizeof(int64_t));
	add_step(m, 2, UINT32_MAX, 3);
	make_file(m);
	ck_assert_int_eq(rivulet_program_check(m->file, m->size, why, sizeof(why)), -EINVAL);
	ck_assert_msg(strstr(why, "step 0 has operands with pitches and bounded ones"), "%s", why);
	free(m->file);
	free(m);
}
END_TEST

/* The first element of reversed axes is not the lowest byte. */
START_TEST(first_element)
{
	const struct rivulet_tensor t = { .ndim = 3, .dim = { 4, 3, 5 }, .pitch = { -60, 20, -4 } };

	ck_assert_uint_eq(rivulet_tensor_first(&t), 180 + 16);
}
END_TEST

/* ---- the pass ---- */

/* Steps that only copy, and the output of a run, of a network on the CPU. */
static uint32_t run_net(struct rvl_graph *g, bool views, uint8_t *out, size_t size)
{
	const struct rivulet_compile_options opt = { .cpu_only = true, .no_views = !views };
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	struct prog_exec x;
	struct rivulet_board board;
	uint64_t turn = 5;
	uint32_t copies;
	char why[256];

	ck_assert_msg(g && !rvl_compile_graph(g, NULL, &opt, &program, &e, &err), "%s", err.msg);
	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
	ck_assert(!prog_open(&x, &board, NULL, program.data));
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t n = rivulet_program_tensors(x.p)[i].size;

		x.io[i] = aligned_alloc(64, (n + 63) / 64 * 64);
		for (uint64_t j = 0; j < n; j++)
			((uint8_t *)x.io[i])[j] = i ? 0 : (uint8_t)splitmix(&turn);
	}
	ck_assert_msg(!prog_run(&x), "%s", x.err);
	ck_assert_uint_le(rivulet_program_tensors(x.p)[1].size, size);
	memcpy(out, x.io[1], rivulet_program_tensors(x.p)[1].size);
	free(x.io[0]);
	free(x.io[1]);
	prog_close(&x, true);
	copies = e.copies;
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	return copies;
}

/* Splits, joins and pools of channels in NHWC: no result changes, and fewer steps only copy. */
START_TEST(nets_are_the_same)
{
	static struct rvl_graph *(*const make[])(void) = { make_yolo, make_shufflenet };
	static const uint32_t most[] = { 0, 40 };
	static uint8_t with[1 << 17], without[1 << 17];
	uint32_t copies, plain;

	copies = run_net(make[_i](), true, with, sizeof(with));
	plain = run_net(make[_i](), false, without, sizeof(without));
	ck_assert(!memcmp(with, without, sizeof(with)));
	ck_assert_uint_le(copies, most[_i]);
	ck_assert_uint_lt(copies, plain);
}
END_TEST

/* Tensors with pitches in the program of a model for the CPU alone. */
static const struct {
	const char *model;
	uint32_t pitched;
} models[] = {
	/* Two results of Split are outputs, which are copied from their places; the third is a view. */
	{ "in x f32 8,6; const s s64 3 1 1 4; out a f32 8,1; out b f32 8,1; out y f32 8,4;"
	  "Neg x -> n; Split n s -> a b c axis=1; Abs c -> y", 3 },
	/* A step that reads single elements once takes the view, one that repeats them a copy. */
	{ "in x f32 8,6; out y f32 6,8; Neg x -> n; Transpose n -> t perm=[1,0]; Abs t -> y", 1 },
	{ "in x f32 8,6; const r s64 2 3 1; out y f32 18,8;"
	  "Neg x -> n; Transpose n -> t perm=[1,0]; Tile t r -> y", 0 },
	{ "in x f32 8,6; const r s64 3 3 6 8; out y f32 3,6,8;"
	  "Neg x -> n; Transpose n -> t perm=[1,0]; Expand t r -> y", 0 },
	/* Evenly spaced indices name a slice in steps. */
	{ "in x f32 8,6; const k s64 3 1 3 5; out y f32 8,3;"
	  "Neg x -> n; Gather n k -> g axis=1; Abs g -> y", 1 },
	{ "in x f32 8,6; const k s64 3 0 1 5; out y f32 8,3;"
	  "Neg x -> n; Gather n k -> g axis=1; Abs g -> y", 0 },
	/* The steps that read a result of Expand read its elements again and again. */
	{ "in x f32 8,1; in z f32 8,6; const s s64 2 8 6; out y f32 8,6;"
	  "Neg x -> n; Expand n s -> e; Mul e z -> y", 1 },
	{ "in c bool 6,8; in x f32 8,6; in z f32 6,8; out y f32 6,8;"
	  "Neg x -> n; Transpose n -> t perm=[1,0]; Where c t z -> y", 1 },
	{ "in x f32 8,6; out y f32 6,8; Neg x -> n; Transpose n -> t perm=[1,0]; Relu t -> y", 1 },
	{ "in x f32 8,6; out y s32 6,8;"
	  "Neg x -> n; Transpose n -> t perm=[1,0]; Cast t -> y to=6", 1 },
	/* The shapes of Compress are known at run time only, so that Mul takes no view. */
	{ "in x f32 8,6; in c bool 6; out y f32 6,8;"
	  "Neg x -> n; Transpose n -> t perm=[1,0]; Compress t c -> k axis=0; Neg k -> y", 0 },
	{ "in x f32 1,8; in c bool 1; in z f32 8,6; out y f32 6,8; Neg z -> n;"
	  "Transpose n -> t perm=[1,0]; Compress x c -> k axis=0; Mul t k -> y", 0 },
	/* A copy of a constant and a Reorder of the input write the parts of an image in NHWC. */
	{ "in x f32 1,2,2,2; const k f32 1,2,2,2 1 2 3 4 5 6 7 8; out y f32 1,2,4,2;"
	  "Concat x k -> t axis=3; Transpose t -> y perm=[0,2,3,1]", 2 },
};

START_TEST(views_of_models)
{
	const struct rivulet_compile_options opt = { .cpu_only = true };
	struct pb model = ot_model(models[_i].model, 13);
	struct rivulet_blob program = { 0 };
	const struct rivulet_tensor *t;
	struct rivulet_board board;
	struct rvl_err err = { "" };
	uint32_t pitched = 0;
	char why[512] = "";

	ck_assert(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)));
	ck_assert_msg(!rivulet_compile(model.p, model.n, &board, &opt, &program, NULL, &err), "%s",
		      err.msg);
	ck_assert_msg(!rivulet_program_check(program.data, program.size, why, sizeof(why)), "%s", why);
	t = rivulet_program_tensors(program.data);
	for (uint32_t i = 0; i < ((const struct rivulet_program *)program.data)->tensors; i++)
		pitched += !!(t[i].flags & RIVULET_TENSOR_PITCHED);
	ck_assert_uint_eq(pitched, models[_i].pitched);
	rivulet_blob_free(&program);
	free(model.p);
}
END_TEST

/* explain names the values that a step addresses by pitches. */
START_TEST(explain_names_them)
{
	static const char text[] =
		"in x f32 8,6; out a f32 6,8; out b f32 8,6; Neg x -> n; Transpose n -> t perm=[1,0];"
		"Abs t -> a; Exp x -> e; Log x -> l; Concat e l -> c axis=1; Slice c s f k -> b;"
		"const s s64 1 0; const f s64 1 6; const k s64 1 1";
	static const struct {
		const char *op, *pitches;
	} want[] = { { "Abs", "reads t" }, { "Exp", "writes e" }, { "Log", "writes l" }, { "Neg", "" } };
	const struct rivulet_compile_options opt = { .cpu_only = true };
	struct pb model = ot_model(text, 13);
	struct rivulet_blob out = { 0 };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	uint32_t found = 0;

	ck_assert_msg(!rivulet_explain_model(model.p, model.n, NULL, &opt, &e, &err), "%s", err.msg);
	for (uint32_t i = 0; i < e.n_rows; i++)
		for (size_t k = 0; k < sizeof(want) / sizeof(want[0]); k++)
			if (!strncmp(e.rows[i].node, want[k].op, strlen(want[k].op))) {
				ck_assert_str_eq(e.rows[i].pitches, want[k].pitches);
				found++;
			}
	ck_assert_uint_eq(found, sizeof(want) / sizeof(want[0]));
	ck_assert(!rivulet_explain_text(&e, &out));
	ck_assert_ptr_nonnull(strstr(out.data, "reads t by pitches\n"));
	rivulet_blob_free(&out);
	ck_assert(!rivulet_explain_json(&e, &out));
	ck_assert_ptr_nonnull(strstr(out.data, "\"pitches\": \"writes e\""));
	rivulet_blob_free(&out);
	rivulet_explain_free(&e);
	free(model.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pitches");
	TCase *t = add_case(s, "pitches", 120, NULL, NULL);

	tcase_add_loop_test(t, element_wise_rows, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_loop_test(t, special_kernels, 0, 7);
	tcase_add_loop_test(t, gathers_apart, 0, 2);
	tcase_add_loop_test(t, moves_apart, 0, 4);
	tcase_add_test(t, floats_between_bytes);
	tcase_add_loop_test(t, pixels_apart, 0, 11);
	tcase_add_test(t, refuses_other_pitches);
	tcase_add_loop_test(t, refuses_other_shapes, 0, sizeof(changed) / sizeof(changed[0]));
	tcase_add_loop_test(t, axes_of_pixels_apart, 0, 12);
	tcase_add_loop_test(t, refuses_impossible_pitches, 0, sizeof(hostile) / sizeof(hostile[0]));
	tcase_add_loop_test(t, refuses_bounded_beside_pitches, 0, 2);
	tcase_add_test(t, first_element);
	tcase_add_loop_test(t, nets_are_the_same, 0, 2);
	tcase_add_test(t, explain_names_them);
	tcase_add_loop_test(t, views_of_models, 0, sizeof(models) / sizeof(models[0]));
	return run_suite(s);
}

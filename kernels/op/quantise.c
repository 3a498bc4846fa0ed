/* SPDX-License-Identifier: MIT */
/* Quantisation with one scale, one per channel, or one per block; products of quantised matrices. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "isa.h"
#include "qmath.h"
#include "rivulet_op.h"

/* ---- QuantizeLinear, DequantizeLinear ---- */

/* The scale of element [outer, i, inner] is number o * outer + i / block * n + k * inner. */
struct quant {
	struct rvl_call *c;
	int64_t axis, inner;		/* elements along the axis, and behind it */
	int64_t block;			/* elements along the axis that share a scale */
	int64_t outer_step, block_step, inner_step;
	int32_t low, high;		/* of the quantised type */
};

static int64_t attr_or(const struct rvl_call *c, const char *name, int64_t absent)
{
	for (const struct rvl_attr_def *a = c->def->attrs; a && a->name; a++)
		if (!strcmp(a->name, name))
			return rvl_attr_int(c, name);
	return absent;
}

static bool blocked_shape(const struct rvl_shape *x, const struct rvl_shape *s, int64_t axis,
			  int64_t block)
{
	if (s->rank != x->rank)
		return false;
	for (int i = 0; i < x->rank; i++)
		if (s->dim[i] != (i == axis ? (x->dim[i] + block - 1) / block : x->dim[i]))
			return false;
	return true;
}

static void set_extents(struct quant *q, const struct rvl_shape *x, int64_t axis)
{
	q->axis = x->dim[axis];
	q->inner = 1;
	for (int i = (int)axis + 1; i < x->rank; i++)
		q->inner *= x->dim[i];
}

/* How input 1, the scales, is laid over input 0. */
static int lay_out(struct rvl_call *c, struct quant *q)
{
	const struct rvl_shape *x = &c->in[0].shape, *s = &c->in[1].shape;
	int64_t axis = rvl_attr_int(c, "axis"), block = attr_or(c, "block_size", 0);

	*q = (struct quant) { .c = c, .axis = 1, .inner = rvl_count(&c->in[0]), .block = 1 };
	if (block < 0 || block > INT32_MAX)
		return rvl_op_fail(c, "attribute block_size is %lld", (long long)block);
	if (s->rank <= 1 && rvl_count(&c->in[1]) == 1 && !block)
		return 0;
	if (rvl_fix_axis(c, &axis, x->rank))
		return -EINVAL;
	set_extents(q, x, axis);
	if (block) {
		if (!blocked_shape(x, s, axis, block))
			return rvl_op_fail(c, "its scales do not have the shape of blocks of %lld",
					   (long long)block);
		q->block = block;
		q->inner_step = 1;
		q->block_step = q->inner;
		q->outer_step = s->dim[axis] * q->inner;
		return 0;
	}
	if (s->rank != 1 || s->dim[0] != x->dim[axis])
		return rvl_op_fail(c, "it has %lld scales for %lld elements along axis %lld",
				   (long long)rvl_count(&c->in[1]), (long long)x->dim[axis],
				   (long long)axis);
	q->block_step = 1;
	return 0;
}

static int check_zero_points(struct rvl_call *c)
{
	if (!rvl_has(c, 2) || rvl_count(&c->in[2]) == rvl_count(&c->in[1]))
		return 0;
	return rvl_op_fail(c, "it has %lld zero points for %lld scales",
			   (long long)rvl_count(&c->in[2]), (long long)rvl_count(&c->in[1]));
}

/* The type of the zero point, otherwise the requested type, otherwise uint8. */
static enum rvl_type quantised_type(const struct rvl_call *c)
{
	int64_t asked = attr_or(c, "output_dtype", 0);

	if (rvl_has(c, 2))
		return c->in[2].type;
	return asked ? rvl_type_of_onnx(asked) : RVL_TYPE_U8;
}

#define BYTES (RVL_T(U8) | RVL_T(S8))
#define QUANTISED (BYTES | RVL_T(U16) | RVL_T(S16))

static int infer_quantize(struct rvl_call *c)
{
	int64_t asked = attr_or(c, "output_dtype", 0);
	enum rvl_type t = quantised_type(c);
	struct quant q;
	int rc = lay_out(c, &q);

	if (!rc)
		rc = check_zero_points(c);
	if (rc)
		return rc;
	if (!(1u << t & QUANTISED) || (asked && rvl_type_of_onnx(asked) != t))
		return rvl_op_fail(c, "it cannot quantise to the type that output_dtype and zero point ask for");
	rvl_set_out(c, 0, t, &c->in[0].shape);
	return 0;
}

/* Part of the rows of elements that lie behind the axis. */
struct part {
	int64_t scale, scale_step;	/* number of the first one's scale, and from it on */
	int64_t at, n;
};

static void quantize_part(const struct quant *q, const struct part *p)
{
	const struct rvl_call *c = q->c;
	const struct rvl_value *x = &c->in[0], *y = &c->out[0];
	const float *scale = c->in[1].data;

	for (int64_t i = 0; i < p->n; i++) {
		int64_t s = p->scale + i * p->scale_step;
		int32_t z = rvl_has(c, 2) ? (int32_t)rvl_element_int(c->in[2].type, c->in[2].data, s) : 0;
		float v = x->type == RVL_TYPE_F32 ? ((const float *)x->data)[p->at + i] :
			  (float)((const int32_t *)x->data)[p->at + i];
		int32_t r = rvl_quantize(v, scale[s], z, q->low, q->high);

		if (rvl_type_size(y->type) == 1)
			((uint8_t *)y->data)[p->at + i] = (uint8_t)r;
		else
			((uint16_t *)y->data)[p->at + i] = (uint16_t)r;
	}
}

static void dequantize_part(const struct quant *q, const struct part *p)
{
	const struct rvl_call *c = q->c;
	const struct rvl_value *x = &c->in[0];
	const float *scale = c->in[1].data;
	float *y = c->out[0].data;

	for (int64_t i = 0; i < p->n; i++) {
		int64_t s = p->scale + i * p->scale_step;
		int32_t z = rvl_has(c, 2) ? (int32_t)rvl_element_int(c->in[2].type, c->in[2].data, s) : 0;

		y[p->at + i] = rvl_dequantize((int32_t)rvl_element_int(x->type, x->data, p->at + i),
					      scale[s], z);
	}
}

struct parts {
	const struct quant *q;
	void (*fn)(const struct quant *q, const struct part *p);
};

/* Splits the elements into pieces that end with the rows behind the axis. */
static void run_parts(void *arg, int64_t first, int64_t past)
{
	const struct parts *r = arg;
	const struct quant *q = r->q;

	for (int64_t at = first; at < past;) {
		int64_t row = at / q->inner, k = at % q->inner;
		struct part p = { .at = at, .n = q->inner - k, .scale_step = q->inner_step };

		if (p.n > past - at)
			p.n = past - at;
		p.scale = row / q->axis * q->outer_step +
			  row % q->axis / q->block * q->block_step + k * q->inner_step;
		r->fn(q, &p);
		at += p.n;
	}
}

static int run_quant(struct rvl_call *c, struct quant *q,
		     void (*fn)(const struct quant *q, const struct part *p))
{
	struct parts r = { .q = q, .fn = fn };
	int rc = lay_out(c, q);
	enum rvl_type t = c->out[0].type;
	int bits = 8 * (int)rvl_type_size(t);

	if (rc)
		return rc;
	if (1u << t & QUANTISED) {
		q->low = 1u << t & RVL_T_UNSIGNED ? 0 : -(1 << (bits - 1));
		q->high = q->low + (1 << bits) - 1;
	}
	rvl_for_range(c, rvl_count(&c->in[0]), 1024, run_parts, &r);
	return 0;
}

static int run_quantize(struct rvl_call *c)
{
	struct quant q;

	return run_quant(c, &q, quantize_part);
}

static int infer_dequantize(struct rvl_call *c)
{
	int64_t asked = attr_or(c, "output_dtype", 0);
	struct quant q;
	int rc = lay_out(c, &q);

	if (!rc)
		rc = check_zero_points(c);
	if (!rc && asked && rvl_type_of_onnx(asked) != RVL_TYPE_F32)
		return rvl_op_fail(c, "attribute output_dtype is %lld, no float type", (long long)asked);
	if (!rc)
		rvl_set_out(c, 0, RVL_TYPE_F32, &c->in[0].shape);
	return rc;
}

static int run_dequantize(struct rvl_call *c)
{
	struct quant q;

	return run_quant(c, &q, dequantize_part);
}

/* ---- DynamicQuantizeLinear ---- */

static int infer_dynamic(struct rvl_call *c)
{
	static const struct rvl_shape scalar = { .rank = 0 };

	rvl_set_out(c, 0, RVL_TYPE_U8, &c->in[0].shape);
	rvl_set_out(c, 1, RVL_TYPE_F32, &scalar);
	rvl_set_out(c, 2, RVL_TYPE_U8, &scalar);
	return 0;
}

struct dynamic {
	const float *x;
	uint8_t *y;
	float scale;
	int32_t zero;
};

static void dynamic_range(void *arg, int64_t first, int64_t past)
{
	const struct dynamic *d = arg;
	const struct rvl_i8_quantize q = { .scale = d->scale, .zp = d->zero, .lo = 0, .hi = 255 };

	rvl_i8_kernels()->convert->quantize(&q, d->x + first, past - first, d->y + first);
}

static int run_dynamic(struct rvl_call *c)
{
	struct dynamic d = { .x = c->in[0].data, .y = c->out[0].data };
	int64_t n = rvl_count(&c->in[0]);

	rvl_dynamic_scale(d.x, n, &d.scale, &d.zero);
	if (d.y)
		rvl_for_range(c, n, 4096, dynamic_range, &d);
	if (rvl_wants(c, 1))
		*(float *)c->out[1].data = d.scale;
	if (rvl_wants(c, 2))
		*(uint8_t *)c->out[2].data = (uint8_t)d.zero;
	return 0;
}

/* ---- QLinearMatMul ---- */

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO };

struct product {
	struct rvl_call *c;
	int64_t m, k, n;
	struct rvl_shape batch;
	int64_t a_step[RVL_MAX_RANK], b_step[RVL_MAX_RANK];	/* in matrices */
};

/* The leading dimensions, which say how many matrices there are. */
static struct rvl_shape batch_of(const struct rvl_shape *s)
{
	struct rvl_shape b = *s;

	b.rank = s->rank > 2 ? s->rank - 2 : 0;
	return b;
}

static int start_product(struct rvl_call *c, struct product *p)
{
	const struct rvl_shape *a = &c->in[A].shape, *b = &c->in[B].shape;
	struct rvl_shape ab = batch_of(a), bb = batch_of(b);

	*p = (struct product) { .c = c, .m = 1, .n = 1 };
	if (!a->rank || !b->rank)
		return rvl_op_fail(c, "a factor has no dimensions");
	p->k = a->dim[a->rank - 1];
	if (a->rank > 1)
		p->m = a->dim[a->rank - 2];
	if (b->rank > 1)
		p->n = b->dim[b->rank - 1];
	if (b->dim[b->rank > 1 ? b->rank - 2 : 0] != p->k)
		return rvl_op_fail(c, "its factors have %lld columns and %lld rows", (long long)p->k,
				   (long long)b->dim[b->rank > 1 ? b->rank - 2 : 0]);
	if (rvl_shape_broadcast(&ab, &bb, &p->batch))
		return rvl_op_fail(c, "the shapes of its factors do not broadcast");
	rvl_broadcast_strides(&ab, &p->batch, p->a_step);
	rvl_broadcast_strides(&bb, &p->batch, p->b_step);
	return 0;
}

/* Input @i has one value, or @n. */
static int check_values(struct rvl_call *c, uint32_t i, int64_t n, enum rvl_type type)
{
	int64_t count = rvl_count(&c->in[i]);

	if (count != 1 && (count != n || c->in[i].shape.rank != 1))
		return rvl_op_fail(c, "its input %u has %lld values, neither 1 nor %lld", i,
				   (long long)count, (long long)n);
	if (type && c->in[i].type != type)
		return rvl_op_fail(c, "its input %u is %s, not %s", i, rvl_type_name(c->in[i].type),
				   rvl_type_name(type));
	if (!type && !(1u << c->in[i].type & BYTES))
		return rvl_op_fail(c, "its input %u is %s, not uint8 or int8", i,
				   rvl_type_name(c->in[i].type));
	return 0;
}

static int check_product(struct rvl_call *c, const struct product *p)
{
	int rc = check_values(c, A_SCALE, p->m, RVL_TYPE_F32);

	if (!rc && !(1u << c->in[B].type & BYTES))
		return rvl_op_fail(c, "its input 3 is %s, not uint8 or int8",
				   rvl_type_name(c->in[B].type));
	rc = rc ? rc : check_values(c, A_ZERO, p->m, c->in[A].type);
	rc = rc ? rc : check_values(c, B_SCALE, p->n, RVL_TYPE_F32);
	rc = rc ? rc : check_values(c, B_ZERO, p->n, c->in[B].type);
	rc = rc ? rc : check_values(c, Y_SCALE, 1, RVL_TYPE_F32);
	return rc ? rc : check_values(c, Y_ZERO, 1, RVL_TYPE_NONE);
}

static int64_t work_product(const struct rvl_call *c)
{
	const struct rvl_shape *a = &c->in[0].shape;

	return rvl_work(rvl_count(&c->out[0]), a->dim[a->rank - 1]);
}

static int infer_product(struct rvl_call *c)
{
	struct product p;
	struct rvl_shape y;
	int rc = start_product(c, &p);

	rc = rc ? rc : check_product(c, &p);
	if (rc)
		return rc;
	y = p.batch;
	if (c->in[A].shape.rank > 1)
		y.dim[y.rank++] = p.m;
	if (c->in[B].shape.rank > 1)
		y.dim[y.rank++] = p.n;
	rvl_set_out(c, 0, c->in[Y_ZERO].type, &y);
	return 0;
}

static int32_t byte_of(const struct rvl_value *v, int64_t i)
{
	return rvl_ld8(v->data, rvl_count(v) > 1 ? i : 0, v->type == RVL_TYPE_U8);
}

static float scale_of(const struct rvl_value *v, int64_t i)
{
	return ((const float *)v->data)[rvl_count(v) > 1 ? i : 0];
}

#define COLUMNS 256

/* Columns @j0 to @j0 + @n of a row of the result. */
static void sum_columns(const struct product *p, const uint8_t *a, const uint8_t *b, int64_t row,
			int64_t j0, int64_t n, uint8_t *y)
{
	const struct rvl_value *in = p->c->in;
	bool u8 = p->c->out[0].type == RVL_TYPE_U8, a_u8 = in[A].type == RVL_TYPE_U8;
	bool b_u8 = in[B].type == RVL_TYPE_U8;
	int32_t az = byte_of(&in[A_ZERO], row), yz = byte_of(&in[Y_ZERO], 0), bz[COLUMNS];
	uint32_t sum[COLUMNS] = { 0 };

	for (int64_t j = 0; j < n; j++)
		bz[j] = byte_of(&in[B_ZERO], j0 + j);
	for (int64_t k = 0; k < p->k; k++) {
		int32_t av = rvl_ld8(a, k, a_u8) - az;

		for (int64_t j = 0; j < n; j++)
			sum[j] += (uint32_t)(av * (rvl_ld8(b, k * p->n + j0 + j, b_u8) - bz[j]));
	}
	for (int64_t j = 0; j < n; j++) {
		float scale = scale_of(&in[A_SCALE], row) * scale_of(&in[B_SCALE], j0 + j);

		scale = scale / scale_of(&in[Y_SCALE], 0);
		rvl_st8(y, j0 + j, rvl_requant((int32_t)sum[j], scale, yz, rvl_qmin(u8), rvl_qmax(u8)));
	}
}

static void product_rows(void *arg, int64_t first, int64_t past)
{
	const struct product *p = arg;

	for (int64_t i = first; i < past; i++) {
		int64_t row = i % p->m, rest = i / p->m, a = 0, b = 0;

		for (int d = p->batch.rank - 1; d >= 0; d--) {
			a += rest % p->batch.dim[d] * p->a_step[d];
			b += rest % p->batch.dim[d] * p->b_step[d];
			rest /= p->batch.dim[d];
		}
		for (int64_t j = 0; j < p->n; j += COLUMNS)
			sum_columns(p, (const uint8_t *)p->c->in[A].data + (a * p->m + row) * p->k,
				    (const uint8_t *)p->c->in[B].data + b * p->k * p->n, row, j,
				    p->n - j < COLUMNS ? p->n - j : COLUMNS,
				    (uint8_t *)p->c->out[0].data + i * p->n);
	}
}

static int run_product(struct rvl_call *c)
{
	struct product p;
	int rc = start_product(c, &p);

	if (!rc && rvl_count(&c->out[0]))
		rvl_for_range(c, rvl_shape_count(&p.batch) * p.m, 1, product_rows, &p);
	return rc;
}

#define AXIS RVL_INT("axis", 1)
#define BLOCK RVL_INT("block_size", 0), RVL_INT("output_dtype", 0)
#define SATURATE RVL_IGNORED("saturate")
#define TO(dom, opset, list) { \
	.name = "QuantizeLinear", .domain = dom, .since = (opset), .least_in = 2, .most_in = 3, \
	.types = { RVL_T_FLOAT | RVL_T(S32), RVL_T_FLOAT, QUANTISED }, .attrs = list, \
	.kernel = RVL_OP_QUANTIZE, \
	.infer = infer_quantize, .run = run_quantize, \
	.doc = "y = saturate(rint(x / scale) + zero point)" }
#define FROM(dom, opset, list) { \
	.name = "DequantizeLinear", .domain = dom, .since = (opset), .least_in = 2, .most_in = 3, \
	.types = { QUANTISED | RVL_T(S32), RVL_T_FLOAT, QUANTISED | RVL_T(S32) }, .same = 1u << 2, \
	.attrs = list, .infer = infer_dequantize, .run = run_dequantize, \
	.kernel = RVL_OP_DEQUANTIZE, \
	.doc = "y = (x - zero point) * scale" }

const struct rvl_op_def rvl_ops_quantise[] = {
	TO(NULL, 10, RVL_ATTRS(RVL_FIXED("axis", 1))),
	TO(NULL, 13, RVL_ATTRS(AXIS)),
	TO(NULL, 19, RVL_ATTRS(AXIS, SATURATE)),
	TO(NULL, 21, RVL_ATTRS(AXIS, SATURATE, BLOCK)),
	TO(NULL, 23, RVL_ATTRS(AXIS, SATURATE, BLOCK, RVL_IGNORED("precision"))),
	TO("com.microsoft", 1, RVL_ATTRS(AXIS, SATURATE, BLOCK)),
	FROM(NULL, 10, RVL_ATTRS(RVL_FIXED("axis", 1))),
	FROM(NULL, 13, RVL_ATTRS(AXIS)),
	FROM(NULL, 21, RVL_ATTRS(AXIS, RVL_INT("block_size", 0))),
	FROM(NULL, 23, RVL_ATTRS(AXIS, BLOCK)),
	FROM("com.microsoft", 1, RVL_ATTRS(AXIS, RVL_INT("block_size", 0))),
	{ .name = "DynamicQuantizeLinear", .since = 11, .least_in = 1, .most_in = 1, .most_out = 3,
	  .types = { RVL_T_FLOAT }, .infer = infer_dynamic, .run = run_dynamic,
	  .doc = "uint8 with the scale and zero point of the input's range, which it gives too" },
	{ .name = "QLinearMatMul", .since = 10, .work = work_product,
	  .least_in = 8, .most_in = 8,
	  .types = { BYTES, RVL_T_FLOAT, BYTES, BYTES | RVL_T_FLOAT }, .infer = infer_product,
	  .run = run_product, .kernel = RVL_OP_QLINEAR_MATMUL,
	  .doc = "quantised matrix product, scales as inputs" },
	RVL_OPS_END
};

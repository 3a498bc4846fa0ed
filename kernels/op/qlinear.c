/* SPDX-License-Identifier: MIT */
/*
 * Operators of onnxruntime on 8-bit tensors whose scales and zero points are inputs: sum, product,
 * matrix product and means. Arithmetic: docs/numerics.md 1 to 4.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "pool.h"
#include "qmath.h"
#include "ref.h"
#include "window.h"

#define BYTES (RVL_T(U8) | RVL_T(S8))

static int32_t zero_of(const struct rvl_call *c, uint32_t i, int64_t at)
{
	if (!rvl_has(c, i))
		return 0;
	return rvl_ld8(c->in[i].data, rvl_count(&c->in[i]) > 1 ? at : 0, c->in[i].type == RVL_TYPE_U8);
}

static float scale_of(const struct rvl_call *c, uint32_t i, int64_t at)
{
	return ((const float *)c->in[i].data)[rvl_count(&c->in[i]) > 1 ? at : 0];
}

static bool type_fits(char kind, enum rvl_type type)
{
	if (kind == 's' || kind == 'S')
		return type == RVL_TYPE_F32;
	return kind == 'b' ? type == RVL_TYPE_S32 : (1u << type & BYTES) != 0;
}

/*
 * @kinds, a letter for each input: x a tensor of bytes, s a scale, z a zero point, b an int32 bias;
 * S and Z may have a value for each channel.
 */
static int check_kinds(struct rvl_call *c, const char *kinds)
{
	for (uint32_t i = 0; i < c->n_in; i++) {
		if (!rvl_has(c, i))
			continue;
		if (!type_fits(kinds[i], c->in[i].type))
			return rvl_op_fail(c, "its input %u is %s, which it does not take", i,
					   rvl_type_name(c->in[i].type));
		if (strchr("sz", kinds[i]) && rvl_count(&c->in[i]) != 1)
			return rvl_op_fail(c, "its input %u has %lld values, not 1", i,
					   (long long)rvl_count(&c->in[i]));
	}
	return 0;
}

static int check_scales(struct rvl_call *c, const char *kinds)
{
	for (uint32_t i = 0; i < c->n_in; i++) {
		int64_t n = rvl_has(c, i) && strchr("sS", kinds[i]) ? rvl_count(&c->in[i]) : 0;

		for (int64_t k = 0; k < n; k++)
			if (!isfinite(scale_of(c, i, k)) || scale_of(c, i, k) == 0.0f)
				return rvl_op_fail(c, "scale %lld of its input %u is %g", (long long)k, i,
						   (double)scale_of(c, i, k));
	}
	return 0;
}

/* ---- QLinearAdd, QLinearMul ---- */

#define BINARY_KINDS "xszxszsz"

static int infer_binary(struct rvl_call *c)
{
	struct rvl_shape y;
	int rc = check_kinds(c, BINARY_KINDS);

	if (rc)
		return rc;
	if (rvl_shape_broadcast(&c->in[0].shape, &c->in[3].shape, &y))
		return rvl_op_fail(c, "its operands' shapes do not broadcast");
	rvl_set_out(c, 0, c->in[rvl_has(c, 7) ? 7 : 0].type, &y);
	return 0;
}

/* The parameters with inputs @a and @b, each before its scale and zero point, as operands. */
static struct rvl_qbinary binary_params(const struct rvl_call *c, uint32_t a, uint32_t b)
{
	bool u8 = c->out[0].type == RVL_TYPE_U8;

	return (struct rvl_qbinary) {
		.a_u8 = c->in[a].type == RVL_TYPE_U8, .b_u8 = c->in[b].type == RVL_TYPE_U8,
		.y_u8 = u8, .sa = scale_of(c, a + 1, 0), .az = zero_of(c, a + 2, 0),
		.sb = scale_of(c, b + 1, 0), .bz = zero_of(c, b + 2, 0),
		.sy = scale_of(c, 6, 0), .yz = zero_of(c, 7, 0),
		.lo = rvl_qmin(u8), .hi = rvl_qmax(u8),
	};
}

static int run_binary(struct rvl_call *c, bool mul)
{
	const struct rvl_shape *y = &c->out[0].shape;
	int rc = check_scales(c, BINARY_KINDS);
	uint32_t a = 0, b = 3;
	struct rvl_qbinary p;
	struct rvl_bcast bc;

	if (rc)
		return rc;
	if (rvl_bcast_init(&bc, &c->in[a].shape, &c->in[b].shape, y))
		return rvl_op_fail(c, "its operands' shapes do not broadcast");
	if (!mul && !bc.ia && bc.ib) {
		a = 3;
		b = 0;
		rvl_bcast_init(&bc, &c->in[a].shape, &c->in[b].shape, y);
	}
	p = binary_params(c, a, b);
	if (rvl_count(&c->out[0]))
		rvl_qbinary_run(&p, mul, false, &bc, c->in[a].data, c->in[b].data, c->out[0].data,
				c->pool);
	return rc;
}

static int run_add(struct rvl_call *c)
{
	return run_binary(c, false);
}

static int run_mul(struct rvl_call *c)
{
	return run_binary(c, true);
}

/* ---- QGemm: a, scale, zero point; b, scales, zero points; bias; y's scale and zero point ---- */

#define GEMM_KINDS "xszxSZbsz"
enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, BIAS, Y_SCALE, Y_ZERO };

struct gemm {
	struct rvl_call *c;
	int64_t m, k, n;
	int64_t a_row, a_k, b_k, b_col;
	int64_t bias[2];	/* from a row and a column to the next */
};

static int start_gemm(struct rvl_call *c, struct gemm *g)
{
	const struct rvl_shape *a = &c->in[A].shape, *b = &c->in[B].shape;
	bool ta = rvl_attr_int(c, "transA"), tb = rvl_attr_int(c, "transB");

	if (a->rank != 2 || b->rank != 2)
		return rvl_op_fail(c, "its operands are not matrices (rank %d and %d)", a->rank, b->rank);
	*g = (struct gemm) {
		.c = c, .m = a->dim[ta], .k = a->dim[!ta], .n = b->dim[!tb],
		.a_row = ta ? 1 : a->dim[1], .a_k = ta ? a->dim[1] : 1,
		.b_k = tb ? 1 : b->dim[1], .b_col = tb ? b->dim[1] : 1,
	};
	if (b->dim[tb] != g->k)
		return rvl_op_fail(c, "its factors have %lld columns and %lld rows", (long long)g->k,
				   (long long)b->dim[tb]);
	for (uint32_t i = B_SCALE; i <= B_ZERO; i++)
		if (rvl_has(c, i) && rvl_count(&c->in[i]) != 1 && rvl_count(&c->in[i]) != g->n)
			return rvl_op_fail(c, "its input %u has %lld values, neither 1 nor %lld", i,
					   (long long)rvl_count(&c->in[i]), (long long)g->n);
	return 0;
}

static int infer_gemm(struct rvl_call *c)
{
	struct rvl_shape y = { .rank = 2 }, all;
	struct gemm g;
	int rc = check_kinds(c, GEMM_KINDS);

	if (!rc)
		rc = start_gemm(c, &g);
	if (rc)
		return rc;
	y.dim[0] = g.m;
	y.dim[1] = g.n;
	if (rvl_has(c, BIAS) && (rvl_shape_broadcast(&c->in[BIAS].shape, &y, &all) ||
				 !rvl_shape_equal(&all, &y)))
		return rvl_op_fail(c, "its bias does not broadcast to %lld x %lld", (long long)g.m,
				   (long long)g.n);
	if (rvl_has(c, Y_ZERO) && !rvl_has(c, Y_SCALE))
		return rvl_op_fail(c, "it has a zero point for its result and no scale");
	rvl_set_out(c, 0, !rvl_has(c, Y_SCALE) ? RVL_TYPE_F32 :
		    c->in[rvl_has(c, Y_ZERO) ? Y_ZERO : A].type, &y);
	return 0;
}

static int64_t work_gemm(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct gemm g;

	return start_gemm(&copy, &g) ? INT64_MAX : rvl_work(rvl_count(&c->out[0]), g.k);
}

static int32_t gemm_sum(const struct gemm *g, int64_t row, int64_t col)
{
	const struct rvl_value *in = g->c->in;
	const uint8_t *a = (const uint8_t *)in[A].data + row * g->a_row;
	const uint8_t *b = (const uint8_t *)in[B].data + col * g->b_col;
	int32_t az = zero_of(g->c, A_ZERO, 0), bz = zero_of(g->c, B_ZERO, col);
	uint32_t sum = 0;

	if (rvl_has(g->c, BIAS))
		sum = ((const uint32_t *)in[BIAS].data)[row * g->bias[0] + col * g->bias[1]];
	for (int64_t k = 0; k < g->k; k++)
		sum += (uint32_t)((rvl_ld8(a, k * g->a_k, in[A].type == RVL_TYPE_U8) - az) *
				  (rvl_ld8(b, k * g->b_k, in[B].type == RVL_TYPE_U8) - bz));
	return (int32_t)sum;
}

static void gemm_rows(void *arg, int64_t first, int64_t past)
{
	const struct gemm *g = arg;
	const struct rvl_call *c = g->c;
	bool u8 = c->out[0].type == RVL_TYPE_U8;
	float a_scale = rvl_attr_float(c, "alpha") * scale_of(c, A_SCALE, 0);

	for (int64_t i = first * g->n; i < past * g->n; i++) {
		int64_t col = i % g->n;
		int32_t sum = gemm_sum(g, i / g->n, col);
		float b_scale = scale_of(c, B_SCALE, col);

		if (!rvl_has(c, Y_SCALE))
			((float *)c->out[0].data)[i] = (float)sum * (a_scale * b_scale);
		else
			rvl_st8(c->out[0].data, i,
				rvl_requant(sum, rvl_requant_scale(a_scale, b_scale,
								   scale_of(c, Y_SCALE, 0)),
					    zero_of(c, Y_ZERO, 0), rvl_qmin(u8), rvl_qmax(u8)));
	}
}

static int run_gemm(struct rvl_call *c)
{
	struct gemm g;
	int rc = start_gemm(c, &g);

	if (!rc)
		rc = check_scales(c, GEMM_KINDS);
	if (rc)
		return rc;
	if (rvl_has(c, BIAS)) {
		int64_t stride[RVL_MAX_RANK];

		rvl_broadcast_strides(&c->in[BIAS].shape, &c->out[0].shape, stride);
		memcpy(g.bias, stride, sizeof(g.bias));
	}
	rvl_for_range(c, g.m, 1, gemm_rows, &g);
	return 0;
}

/* ---- QLinearAveragePool, QLinearGlobalAveragePool: x, scale, zero point; y's ---- */

#define POOL_KINDS "xszsz"

static int start_pool(struct rvl_call *c)
{
	if (rvl_attr_int(c, "channels_last"))
		return rvl_op_fail(c, "attribute channels_last is 1, only 0 is supported");
	return check_kinds(c, POOL_KINDS);
}

static int infer_pool(struct rvl_call *c)
{
	struct rvl_shape y = c->in[0].shape;
	struct rvl_window w;
	int rc = start_pool(c);

	if (!rc)
		rc = rvl_window_read(c, &c->in[0].shape, NULL, &w);
	if (rc)
		return rc;
	for (int i = 0; i < w.rank; i++)
		y.dim[i + 2] = w.axis[i].out;
	rvl_set_out(c, 0, c->in[rvl_has(c, 4) ? 4 : 0].type, &y);
	return 0;
}

static int64_t work_pool(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct rvl_window w;

	if (rvl_window_read(&copy, &c->in[0].shape, NULL, &w))
		return INT64_MAX;
	return rvl_work(rvl_count(&c->out[0]), rvl_window_size(&w));
}

static int64_t work_global(const struct rvl_call *c)
{
	return rvl_count(&c->in[0]);
}

static int infer_global(struct rvl_call *c)
{
	struct rvl_shape y = c->in[0].shape;
	int rc = start_pool(c);

	if (!rc && y.rank < 3)
		return rvl_op_fail(c, "its input has no spatial dimensions");
	for (int i = 2; i < y.rank; i++)
		y.dim[i] = 1;
	if (!rc)
		rvl_set_out(c, 0, c->in[rvl_has(c, 4) ? 4 : 0].type, &y);
	return rc;
}

struct pool {
	const struct rvl_call *c;
	struct rvl_window w;
	struct rvl_qaverage q;
	float value[256];
	int64_t in, out;	/* elements of a plane */
	bool include_pad;
};

static int read_pool(struct rvl_call *c, struct pool *p)
{
	bool u8 = c->out[0].type == RVL_TYPE_U8;
	int rc = check_scales(c, POOL_KINDS);

	if (rc)
		return rc;
	p->c = c;
	p->q = (struct rvl_qaverage) {
		.x_u8 = c->in[0].type == RVL_TYPE_U8, .y_u8 = u8, .xs = scale_of(c, 1, 0),
		.xz = zero_of(c, 2, 0), .ys = scale_of(c, 3, 0), .yz = zero_of(c, 4, 0),
		.lo = rvl_qmin(u8), .hi = rvl_qmax(u8),
	};
	rvl_qaverage_values(&p->q, p->value);
	return 0;
}

/* Sums are rounded to float32 after each element, as docs/numerics.md 4 has it. */
static void add_bytes(void *arg, const struct rvl_window_row *row, const struct rvl_window_tap *t,
		      union rvl_window_sum *sum)
{
	const struct pool *p = arg;
	const uint8_t *x = (const uint8_t *)p->c->in[0].data + row->plane * p->in + t->x;

	for (int64_t i = 0; i < t->n; i++) {
		double *s = &sum->f[t->y + i];

		*s = (double)((float)*s + p->value[x[i * t->x_step]]);
	}
}

static int64_t taps_inside(const struct rvl_window_axis *a, int64_t o)
{
	int64_t first, past;

	rvl_window_taps(a, o, &first, &past);
	return past - first;
}

/* Elements that divide the sum at column @i of a row. */
static int64_t divisor(const struct pool *p, const struct rvl_window_row *row, int64_t i)
{
	int64_t n = 1;

	for (int d = 0; d < p->w.rank; d++) {
		const struct rvl_window_axis *a = &p->w.axis[d];

		int64_t on_axis = p->include_pad ? a->k :
				  taps_inside(a, row->pos[d] + (d == p->w.rank - 1 ? i : 0));

		if (__builtin_mul_overflow(n, on_axis, &n))
			return INT64_MAX;
	}
	return n;
}

static void end_average(void *arg, const struct rvl_window_row *row, union rvl_window_sum *sum)
{
	const struct pool *p = arg;
	int64_t at = row->plane * p->out + row->at;

	for (int64_t i = 0; i < row->n; i++)
		rvl_st8(p->c->out[0].data, at + i,
			rvl_qaverage((float)sum->f[i], divisor(p, row, i), &p->q));
}

static int64_t planes(const struct rvl_call *c)
{
	return c->in[0].shape.dim[0] * c->in[0].shape.dim[1];
}

/* The mean of all positions of each channel, which both pools compute in integers (docs/numerics.md 4). */
static void mean_planes(void *arg, int64_t first, int64_t past)
{
	const struct pool *p = arg;
	const struct rvl_qaverage *q = &p->q;
	float scale = q->xs / (q->ys * (float)p->in);

	for (int64_t i = first; i < past; i++)
		rvl_st8(p->c->out[0].data, i,
			rvl_ref_qmean((const uint8_t *)p->c->in[0].data + i * p->in, p->in, q->x_u8,
				      q->xz, scale, q->yz, q->lo, q->hi));
}

static int run_pool(struct rvl_call *c)
{
	struct pool p = { .include_pad = rvl_attr_int(c, "count_include_pad") };
	struct rvl_window_work work = { .tap = add_bytes, .end = end_average, .arg = &p };
	int rc = read_pool(c, &p);

	if (!rc)
		rc = rvl_window_read(c, &c->in[0].shape, NULL, &p.w);
	if (rc)
		return rc;
	p.in = rvl_window_in(&p.w);
	p.out = rvl_window_out(&p.w);
	if (rvl_window_is_image(&p.w)) {
		rvl_for_range(c, planes(c), 1, mean_planes, &p);
		return 0;
	}
	rvl_window_run(c, &p.w, planes(c), &work);
	return 0;
}

static int run_global(struct rvl_call *c)
{
	struct pool p = { .in = 1 };
	int rc = read_pool(c, &p);

	if (rc)
		return rc;
	for (int i = 2; i < c->in[0].shape.rank; i++)
		p.in *= c->in[0].shape.dim[i];
	rvl_for_range(c, planes(c), 1, mean_planes, &p);
	return 0;
}

#define MS_BINARY(op, which, fn, text) { \
	.name = op, .domain = "com.microsoft", .since = 1, .least_in = 7, .most_in = 8, \
	.optional = 1u << 2 | 1u << 5, .types = { BYTES, RVL_T_FLOAT, BYTES, BYTES | RVL_T_FLOAT }, \
	.infer = infer_binary, .run = fn, .kernel = which, .doc = text }
#define MS_POOL(op, which, list, rule, fn, cost, text) { \
	.name = op, .domain = "com.microsoft", .since = 1, .work = cost, \
	.least_in = 4, .most_in = 5, \
	.optional = 1u << 2, .types = { BYTES, RVL_T_FLOAT, BYTES, BYTES | RVL_T_FLOAT }, \
	.attrs = list, .infer = rule, .run = fn, .kernel = which, .doc = text }
#define CHANNELS_LAST RVL_FLAG("channels_last", 0)

const struct rvl_op_def rvl_ops_qlinear[] = {
	MS_BINARY("QLinearAdd", RVL_OP_QLINEAR_ADD, run_add, "quantised a + b, scales as inputs"),
	MS_BINARY("QLinearMul", RVL_OP_QLINEAR_MUL, run_mul, "quantised a * b, scales as inputs"),
	{ .name = "QGemm", .domain = "com.microsoft", .since = 1, .work = work_gemm,
	  .least_in = 6, .most_in = 9,
	  .types = { BYTES, RVL_T_FLOAT, BYTES, RVL_T_ANY },
	  .attrs = RVL_ATTRS(RVL_FLOAT("alpha", 1.0f), RVL_INT("transA", 0), RVL_INT("transB", 0)),
	  .infer = infer_gemm, .run = run_gemm, .kernel = RVL_OP_QGEMM,
	  .doc = "quantised Gemm, scales as inputs; float32 without a scale of the result" },
	MS_POOL("QLinearAveragePool", RVL_OP_QLINEAR_AVERAGE_POOL,
		RVL_ATTRS(RVL_STRING("auto_pad", "NOTSET", "NOTSET|SAME_UPPER|SAME_LOWER|VALID"),
			  RVL_INTS_REQUIRED("kernel_shape"), RVL_INTS("pads"), RVL_INTS("strides"),
			  RVL_FLAG("ceil_mode", 0), RVL_FLAG("count_include_pad", 0), CHANNELS_LAST),
		infer_pool, run_pool, work_pool, "quantised mean under a window, scales as inputs"),
	MS_POOL("QLinearGlobalAveragePool", RVL_OP_QLINEAR_GLOBAL_AVERAGE_POOL,
		RVL_ATTRS(CHANNELS_LAST), infer_global, run_global, work_global,
		"quantised mean of every channel, scales as inputs"),
	RVL_OPS_END
};

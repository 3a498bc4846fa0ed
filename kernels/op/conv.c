/* SPDX-License-Identifier: MIT */
/* Convolutions of images of any number of dimensions: float, transposed, and of integers. */
#include <math.h>
#include <string.h>

#include "float/conv_transpose.h"
#include "int8/sums.h"
#include "isa.h"
#include "qmath.h"
#include "sizes.h"
#include "window.h"

struct conv {
	struct rvl_call *c;
	struct rvl_window w;
	const struct rvl_value *x, *weights;
	int64_t m, m_group, c_group;	/* output channels, and channels of a group */
	int64_t in, out, taps;		/* elements of a plane and of a kernel */
	int32_t xz;
	const struct rvl_value *wz;	/* zero points of the weights, or NULL */
	const struct rvl_value *bias;	/* or NULL */
};

/* ---- shapes ---- */

static int64_t group_of(const struct rvl_call *c)
{
	return rvl_attr_int(c, "group");
}

/* The geometry, with input @x and weights @w by index. */
static int start_conv(struct rvl_call *c, uint32_t x, uint32_t w, bool transposed, struct conv *v)
{
	struct rvl_conv_parts p;
	int rc = rvl_conv_parts_read(c, x, w, transposed, &p);

	*v = (struct conv) { .c = c, .x = &c->in[x], .weights = &c->in[w], .w = p.w, .m = p.m,
			     .m_group = p.m_group, .c_group = p.c_group, .in = p.in, .out = p.out,
			     .taps = p.taps };
	return rc;
}

/* The bias, input @i, has one value for each output channel. */
static int take_bias(struct rvl_call *c, uint32_t i, struct conv *v)
{
	v->bias = rvl_has(c, i) ? &c->in[i] : NULL;
	return rvl_conv_bias_check(c, i, v->m);
}

/* Input @i, if present, has one value, or one for each output channel. */
static int check_channels(struct rvl_call *c, uint32_t i, const struct conv *v)
{
	int64_t n = rvl_has(c, i) ? rvl_count(&c->in[i]) : 1;

	if (n != 1 && n != v->m)
		return rvl_op_fail(c, "its input %u has %lld values for %lld output channels", i,
				   (long long)n, (long long)v->m);
	return 0;
}

static int check_one(struct rvl_call *c, uint32_t i)
{
	if (rvl_has(c, i) && rvl_count(&c->in[i]) != 1)
		return rvl_op_fail(c, "its input %u has %lld values, not 1", i,
				   (long long)rvl_count(&c->in[i]));
	return 0;
}

static void set_result(struct rvl_call *c, const struct conv *v, enum rvl_type type)
{
	const struct rvl_conv_parts p = { .w = v->w, .m = v->m };

	rvl_conv_set_result(c, (uint32_t)(v->x - c->in), &p, type);
}

static int64_t planes(const struct conv *v)
{
	return v->x->shape.dim[0] * v->m;
}

/* ---- sums ---- */

/* The places of a row: channel 0 of its group in the input, and its weights. */
struct places {
	int64_t m;		/* output channel */
	int64_t x, w;		/* first element of the input's plane, and of the kernel */
};

static struct places places_of(const struct conv *v, const struct rvl_window_row *row)
{
	struct places p = { .m = row->plane % v->m };
	int64_t n = row->plane / v->m, g = p.m / v->m_group;

	p.x = (n * v->x->shape.dim[1] + g * v->c_group) * v->in;
	p.w = p.m * v->c_group * v->taps;
	return p;
}

/* Weight @at without its zero point. */
static int32_t weight(const struct conv *v, const struct places *p, int64_t at)
{
	int32_t w = rvl_ld8(v->weights->data, at, v->weights->type == RVL_TYPE_U8);

	if (!v->wz)
		return w;
	return w - rvl_ld8(v->wz->data, rvl_count(v->wz) > 1 ? p->m : 0,
			   v->wz->type == RVL_TYPE_U8);
}

/* Products of bytes; their sum wraps modulo 2^32. */
#define MAC_INT(name, element) \
	static void name(void *arg, const struct rvl_window_row *row, \
			 const struct rvl_window_tap *t, union rvl_window_sum *sum) \
	{ \
		const struct conv *v = arg; \
		struct places p = places_of(v, row); \
		uint32_t *y = sum->u + t->y; \
		for (int64_t c = 0; c < v->c_group; c++) { \
			int32_t w = weight(v, &p, p.w + c * v->taps + t->index); \
			const element *x = (const element *)v->x->data + p.x + c * v->in + t->x; \
			for (int64_t i = 0; i < t->n; i++) \
				y[i * t->y_step] += (uint32_t)(w * (x[i * t->x_step] - v->xz)); \
		} \
	}

MAC_INT(mac_u8, uint8_t)
MAC_INT(mac_s8, int8_t)

/* ---- Conv, ConvTranspose, FusedConv ---- */

/* What FusedConv does with a sum. */
struct activation {
	const char *name;
	uint32_t params;	/* number of parameters that it takes */
	double (*of)(double v, const float *p);
};

static double relu(double v, const float *p)
{
	(void)p;
	return v > 0 ? v : 0;
}

static double tanh_of(double v, const float *p)
{
	(void)p;
	return tanh(v);
}

static double sigmoid(double v, const float *p)
{
	(void)p;
	return 1 / (1 + exp(-v));
}

static double leaky_relu(double v, const float *p)
{
	return v < 0 ? v * (double)p[0] : v;
}

static double clip(double v, const float *p)
{
	return fmin(fmax(v, (double)p[0]), (double)p[1]);
}

static double hard_sigmoid(double v, const float *p)
{
	return fmin(fmax(v * (double)p[0] + (double)p[1], 0), 1);
}

static const struct activation activations[] = {
	{ "Relu", 0, relu },
	{ "Tanh", 0, tanh_of },
	{ "Sigmoid", 0, sigmoid },
	{ "LeakyRelu", 1, leaky_relu },
	{ "Clip", 2, clip },
	{ "HardSigmoid", 2, hard_sigmoid },
};

#define ACTIVATIONS "Relu|Tanh|Sigmoid|LeakyRelu|Clip|HardSigmoid"

static const struct activation *activation_of(const struct rvl_call *c)
{
	for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++)
		if (rvl_attr_is(c, "activation", activations[i].name))
			return &activations[i];
	return NULL;
}

static struct rvl_f32_conv float_conv(const struct conv *v)
{
	const struct rvl_call *c = v->c;
	struct rvl_f32_conv f = {
		.w = v->w, .images = v->x->shape.dim[0], .group = group_of(c),
		.m_group = v->m_group, .c_group = v->c_group, .x = v->x->data,
		.weights = v->weights->data, .bias = v->bias ? v->bias->data : NULL,
		.packed = c->packed, .lo = -INFINITY, .hi = INFINITY, .y = c->out[0].data,
	};

	rvl_f32_conv_init(&f);
	return f;
}

static int start_float(struct rvl_call *c, bool transposed, struct conv *v)
{
	int rc = start_conv(c, 0, 1, transposed, v);

	return rc ? rc : take_bias(c, 2, v);
}

static int infer_float(struct rvl_call *c, bool transposed)
{
	struct conv v;
	int rc = start_float(c, transposed, &v);

	if (!rc)
		set_result(c, &v, c->in[0].type);
	return rc;
}

static int64_t scratch_float(const struct rvl_call *c, bool transposed)
{
	struct rvl_call copy = *c;
	struct rvl_f32_conv f;
	struct conv v;

	if (start_float(&copy, transposed, &v))
		return 0;
	f = float_conv(&v);
	return transposed ? rvl_f32_conv_transpose_scratch(&f) : rvl_f32_conv_scratch(&f);
}

static int64_t work_conv(const struct rvl_call *c)
{
	return rvl_conv_work(c, 0, 1, false);
}

static int64_t work_conv_transpose(const struct rvl_call *c)
{
	return rvl_conv_work(c, 0, 1, true);
}

static int64_t work_qlinear(const struct rvl_call *c)
{
	return rvl_conv_work(c, 0, 3, false);
}

static int64_t scratch_conv(const struct rvl_call *c)
{
	return scratch_float(c, false);
}

static int64_t scratch_conv_transpose(const struct rvl_call *c)
{
	return scratch_float(c, true);
}

/* Floats of the packed weights, into @dst unless it is NULL; 0 where only a run knows them. */
static int64_t pack_float(const struct rvl_call *c, bool transposed, float *dst)
{
	struct rvl_call copy = *c;
	struct rvl_f32_conv f;
	struct conv v;

	if (!c->in[1].data || start_float(&copy, transposed, &v))
		return 0;
	f = float_conv(&v);
	if (dst && transposed)
		rvl_f32_pack_conv_transpose(&f, dst);
	else if (dst)
		rvl_f32_pack_conv(&f, dst);
	return transposed ? rvl_f32_conv_transpose_packed(&f) : rvl_f32_conv_packed(&f);
}

static int64_t packed_conv(const struct rvl_call *c)
{
	return pack_float(c, false, NULL);
}

static void pack_conv(const struct rvl_call *c, float *dst)
{
	pack_float(c, false, dst);
}

static int64_t packed_conv_transpose(const struct rvl_call *c)
{
	return pack_float(c, true, NULL);
}

static void pack_conv_transpose(const struct rvl_call *c, float *dst)
{
	pack_float(c, true, dst);
}

static int infer_conv(struct rvl_call *c)
{
	return infer_float(c, false);
}

/* @added: to the result, of its shape; or NULL. */
static int run_float(struct rvl_call *c, const float *added)
{
	struct rvl_f32_conv f;
	struct conv v;
	int rc = start_float(c, false, &v);

	if (rc)
		return rc;
	f = float_conv(&v);
	f.added = added;
	rvl_f32_conv_run(&f, c->scratch, c->pool);
	return 0;
}

static int run_conv(struct rvl_call *c)
{
	return run_float(c, NULL);
}

static int infer_conv_transpose(struct rvl_call *c)
{
	return infer_float(c, true);
}

static int run_conv_transpose(struct rvl_call *c)
{
	struct rvl_f32_conv f;
	struct conv v;
	int rc = start_float(c, true, &v);

	if (rc)
		return rc;
	f = float_conv(&v);
	rvl_f32_conv_transpose_run(&f, c->scratch, c->pool);
	return 0;
}

static int infer_fused(struct rvl_call *c)
{
	const struct activation *act = activation_of(c);
	uint32_t n;
	int rc = infer_float(c, false);

	rvl_attr_floats(c, "activation_params", &n);
	if (!rc && act && n != act->params)
		return rvl_op_fail(c, "activation %s takes %u numbers, there are %u", act->name,
				   act->params, n);
	if (!rc && rvl_has(c, 3) && !rvl_shape_equal(&c->in[3].shape, &c->out[0].shape))
		return rvl_op_fail(c, "its input 3 does not have the shape of its output");
	return rc;
}

/* Results to which the activation of a FusedConv is applied. */
struct activated {
	const struct activation *act;
	const float *params;
	float *y;
};

static void activate(void *arg, int64_t first, int64_t past)
{
	const struct activated *a = arg;

	for (int64_t i = first; i < past; i++)
		a->y[i] = (float)a->act->of((double)a->y[i], a->params);
}

static int run_fused(struct rvl_call *c)
{
	uint32_t n;
	struct activated a = {
		.act = activation_of(c), .params = rvl_attr_floats(c, "activation_params", &n),
		.y = c->out[0].data,
	};
	int rc = run_float(c, rvl_has(c, 3) ? c->in[3].data : NULL);

	if (!rc && a.act)
		rvl_for_range(c, rvl_count(&c->out[0]), 4096, activate, &a);
	return rc;
}

/* ---- ConvInteger ---- */

static int start_integer(struct rvl_call *c, struct conv *v)
{
	int rc = start_conv(c, 0, 1, false, v);

	if (!rc)
		rc = check_one(c, 2);
	if (!rc)
		rc = check_channels(c, 3, v);
	if (!rc && rvl_has(c, 3))
		v->wz = &c->in[3];
	return rc;
}

static int infer_integer(struct rvl_call *c)
{
	struct conv v;
	int rc = start_integer(c, &v);

	if (!rc)
		set_result(c, &v, RVL_TYPE_S32);
	return rc;
}

/* The same convolution of pairs of channels. */
static struct rvl_f32_conv exact_conv(const struct conv *v)
{
	struct rvl_f32_conv f = float_conv(v);

	f.exact = true;
	f.c_group = rvl_ceil_div(f.c_group, 2);
	f.x = f.weights = NULL;
	f.sums = v->c->out[0].data;
	return f;
}

static int64_t pairs_of_image(const struct rvl_f32_conv *f)
{
	return rvl_round_up(f->images * f->group * f->c_group * f->in, 16);
}

static int64_t pairs_of_weights(const struct rvl_f32_conv *f)
{
	return rvl_round_up(f->group * f->m_group * f->c_group * f->taps, 16);
}

/* The same convolution of bytes. */
static struct rvl_i8_sums_conv sums_conv(const struct conv *v)
{
	const struct rvl_call *c = v->c;

	return (struct rvl_i8_sums_conv) {
		.c = c, .w = v->w, .images = v->x->shape.dim[0], .group = group_of(c),
		.m_group = v->m_group, .c_group = v->c_group, .in = v->in, .out = v->out, .taps = v->taps,
		.x = v->x->data, .x_u8 = v->x->type == RVL_TYPE_U8, .packed = c->packed,
		.y = c->out[0].data,
	};
}

/* Memory for the zero points of packed bytes. */
static int64_t zeros_bytes(const struct conv *v)
{
	return rvl_round_up(v->m * (int64_t)sizeof(int32_t), 64);
}

/* The images and the weights that are not packed, as pairs, and the memory of the convolution of these. */
static int64_t pairs_scratch(const struct conv *v)
{
	struct rvl_f32_conv f = exact_conv(v);

	return (pairs_of_image(&f) + (v->c->packed ? 0 : pairs_of_weights(&f))) * (int64_t)sizeof(float) +
	       rvl_f32_conv_scratch(&f);
}

/*
 * The weights are packed after the workspace is computed, and a run with other shapes does without them,
 * so that either convolution must fit.
 */
static int64_t scratch_integer(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct rvl_i8_sums_conv s;
	int64_t pairs, bytes;
	struct conv v;

	if (start_integer(&copy, &v))
		return 0;
	s = sums_conv(&v);
	pairs = pairs_scratch(&v);
	if (!rvl_i8_sums_conv_fits(&s))
		return pairs;
	bytes = zeros_bytes(&v) + rvl_i8_sums_conv_scratch(&s);
	return pairs > bytes ? pairs : bytes;
}

/* Element @at of the weights of an exact convolution. */
static float weights_at(const void *ctx, int64_t at)
{
	const struct conv *v = ctx;
	int64_t kernel = rvl_ceil_div(v->c_group, 2) * v->taps, c = 2 * (at % kernel / v->taps);
	struct places p = { .m = at / kernel };
	int64_t first = (p.m * v->c_group + c) * v->taps + at % v->taps;

	return rvl_f32_pair(weight(v, &p, first), c + 1 < v->c_group ? weight(v, &p, first + v->taps) : 0);
}

/* Floats that hold the packed weights; 0 where only a run knows the weights, or as pairs their zero points. */
static int64_t packed_integer(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct rvl_i8_sums_conv s;
	struct rvl_f32_conv f;
	struct conv v;

	if (!c->in[1].data || start_integer(&copy, &v))
		return 0;
	s = sums_conv(&v);
	if (rvl_i8_sums_conv_fits(&s))
		return rvl_ceil_div(rvl_i8_sums_conv_bytes(&s), (int64_t)sizeof(float));
	if (v.wz && !v.wz->data)
		return 0;
	f = exact_conv(&v);
	return rvl_f32_conv_packed(&f);
}

static void pack_integer(const struct rvl_call *c, float *dst)
{
	struct rvl_call copy = *c;
	struct rvl_i8_sums_conv s;
	struct rvl_f32_conv f;
	struct conv v;

	if (start_integer(&copy, &v))
		return;
	s = sums_conv(&v);
	if (rvl_i8_sums_conv_fits(&s)) {
		rvl_i8_sums_conv_pack(&s, v.weights->data, v.weights->type == RVL_TYPE_U8, dst);
		return;
	}
	f = exact_conv(&v);
	rvl_f32_pack_conv_by(&f, weights_at, &v, dst);
}

struct to_pairs {
	const struct conv *v;
	int64_t channels;	/* pairs of a group */
	int32_t zero;
	float *to;
};

/* Pairs of channels [first, past) of all groups. */
static void pair_range(void *arg, int64_t first, int64_t past)
{
	const struct to_pairs *t = arg;
	const struct conv *v = t->v;

	for (int64_t i = first; i < past; i++) {
		int64_t c = 2 * (i % t->channels);
		struct rvl_f32_bytes_call b = {
			.x = (const uint8_t *)v->x->data + (i / t->channels * v->c_group + c) * v->in,
			.u8 = v->x->type == RVL_TYPE_U8, .zero = t->zero, .x_row = v->in,
			.rows = rvl_least(2, v->c_group - c), .n = v->in, .y = t->to + i * v->in,
		};

		rvl_f32_kernels()->bytes->pair(&b);
	}
}

/* The zero point of the weights of channel @m as they are packed. */
static int32_t packed_zero(const struct conv *v, int64_t m)
{
	int32_t z = v->wz ? rvl_ld8(v->wz->data, rvl_count(v->wz) > 1 ? m : 0, v->wz->type == RVL_TYPE_U8) : 0;

	return z - (v->weights->type == RVL_TYPE_U8 ? 128 : 0);
}

static void run_sums(const struct conv *v, struct rvl_i8_sums_conv *s)
{
	int32_t *zeros = v->c->scratch;

	for (int64_t m = 0; m < v->m; m++) {
		zeros[m] = packed_zero(v, m);
		if (zeros[m])
			s->zeros = zeros;
	}
	rvl_i8_sums_conv_run(s, (char *)v->c->scratch + zeros_bytes(v));
}

static int run_integer(struct rvl_call *c)
{
	struct to_pairs image = { .to = c->scratch };
	struct rvl_i8_sums_conv s;
	float *memory = c->scratch;
	struct rvl_f32_conv f;
	struct conv v;
	int rc = start_integer(c, &v);

	if (rc)
		return rc;
	if (rvl_has(c, 2))
		image.zero = (int32_t)rvl_element_int(c->in[2].type, c->in[2].data, 0);
	s = sums_conv(&v);
	s.zero = image.zero;
	if (c->packed && rvl_i8_sums_conv_fits(&s)) {
		run_sums(&v, &s);
		return 0;
	}
	f = exact_conv(&v);
	image.v = &v;
	image.channels = f.c_group;
	if (v.in)
		rvl_for_range(c, f.images * f.group * f.c_group, 1 + 8192 / v.in, pair_range, &image);
	f.x = image.to;
	memory += pairs_of_image(&f);
	if (!f.packed) {
		f.weights = memory;
		for (int64_t i = 0, n = f.group * f.m_group * f.c_group * f.taps; i < n; i++)
			memory[i] = weights_at(&v, i);
		memory += pairs_of_weights(&f);
	}
	rvl_f32_conv_run(&f, memory, c->pool);
	return 0;
}

/* ---- QLinearConv: x, scale, zero point; weights, scales, zero points; y's; bias ---- */

static int start_qlinear(struct rvl_call *c, struct conv *v)
{
	static const uint8_t ones[] = { 1, 2, 6, 7 };
	int rc = start_conv(c, 0, 3, false, v);

	for (size_t i = 0; i < sizeof(ones) && !rc; i++)
		rc = check_one(c, ones[i]);
	for (uint32_t i = 4; i < 6 && !rc; i++)
		rc = check_channels(c, i, v);
	v->wz = &c->in[5];
	return rc ? rc : take_bias(c, 8, v);
}

static int check_qlinear_types(struct rvl_call *c)
{
	static const uint8_t bytes[] = { 0, 2, 3, 5, 7 }, floats[] = { 1, 4, 6 };

	for (size_t i = 0; i < sizeof(bytes); i++)
		if (c->in[bytes[i]].type != RVL_TYPE_U8 && c->in[bytes[i]].type != RVL_TYPE_S8)
			return rvl_op_fail(c, "its input %u is %s, not uint8 or int8", bytes[i],
					   rvl_type_name(c->in[bytes[i]].type));
	for (size_t i = 0; i < sizeof(floats); i++)
		if (c->in[floats[i]].type != RVL_TYPE_F32)
			return rvl_op_fail(c, "its input %u is %s, not float32", floats[i],
					   rvl_type_name(c->in[floats[i]].type));
	if (rvl_has(c, 8) && c->in[8].type != RVL_TYPE_S32)
		return rvl_op_fail(c, "its bias is %s, not int32", rvl_type_name(c->in[8].type));
	return 0;
}

static int infer_qlinear(struct rvl_call *c)
{
	struct conv v;
	int rc = check_qlinear_types(c);

	if (!rc)
		rc = start_qlinear(c, &v);
	if (!rc)
		set_result(c, &v, c->in[7].type);
	return rc;
}

static float scale_of(const struct rvl_value *v, int64_t m)
{
	return ((const float *)v->data)[rvl_count(v) > 1 ? m : 0];
}

static void end_qlinear(void *arg, const struct rvl_window_row *row, union rvl_window_sum *sum)
{
	const struct conv *v = arg;
	const struct rvl_call *c = v->c;
	bool u8 = c->out[0].type == RVL_TYPE_U8;
	int64_t m = row->plane % v->m, first = row->plane * v->out + row->at;
	int32_t yz = rvl_ld8(c->in[7].data, 0, u8);
	float scale = scale_of(&c->in[1], 0) * scale_of(&c->in[4], m);

	scale = scale / scale_of(&c->in[6], 0);
	for (int64_t i = 0; i < row->n; i++) {
		uint32_t s = sum->u[i];

		if (v->bias)
			s += ((const uint32_t *)v->bias->data)[m];
		rvl_st8(c->out[0].data, first + i,
			rvl_requant((int32_t)s, scale, yz, rvl_qmin(u8), rvl_qmax(u8)));
	}
}

static int run_qlinear(struct rvl_call *c)
{
	struct conv v;
	struct rvl_window_work work = {
		.tap = c->in[0].type == RVL_TYPE_U8 ? mac_u8 : mac_s8, .end = end_qlinear, .arg = &v,
	};
	int rc = start_qlinear(c, &v);

	if (rc)
		return rc;
	v.xz = rvl_ld8(c->in[2].data, 0, c->in[2].type == RVL_TYPE_U8);
	rvl_window_run(c, &v.w, planes(&v), &work);
	return 0;
}

#define WINDOW \
	RVL_STRING("auto_pad", "NOTSET", "NOTSET|SAME_UPPER|SAME_LOWER|VALID"), \
	RVL_INTS("kernel_shape"), RVL_INTS("pads"), RVL_INTS("strides"), RVL_INTS("dilations"), \
	RVL_INT("group", 1)
#define BYTES (RVL_T(U8) | RVL_T(S8))

const struct rvl_op_def rvl_ops_conv[] = {
	{ .name = "Conv", .since = 1, .work = work_conv,
	  .least_in = 2, .most_in = 3, .types = { RVL_T_FLOAT },
	  .same = RVL_SAME_ALL, .attrs = RVL_ATTRS(WINDOW), .infer = infer_conv, .run = run_conv,
	  .kernel = RVL_OP_CONV, .scratch = scratch_conv, .packed = packed_conv,
	  .pack = pack_conv,
	  .doc = "convolution of an image of any number of dimensions" },
	{ .name = "ConvTranspose", .since = 1, .work = work_conv_transpose,
	  .least_in = 2, .most_in = 3,
	  .types = { RVL_T_FLOAT }, .same = RVL_SAME_ALL,
	  .attrs = RVL_ATTRS(WINDOW, RVL_INTS("output_padding"), RVL_INTS("output_shape")),
	  .infer = infer_conv_transpose, .run = run_conv_transpose,
	  .scratch = scratch_conv_transpose, .packed = packed_conv_transpose,
	  .pack = pack_conv_transpose,
	  .role = RVL_ROLE_TRANSPOSED_CONV,
	  .doc = "transposed convolution: each element is spread over the result by the kernel" },
	{ .name = "FusedConv", .domain = "com.microsoft", .since = 1, .work = work_conv,
	  .least_in = 2, .most_in = 4,
	  .types = { RVL_T_FLOAT }, .same = RVL_SAME_ALL,
	  .attrs = RVL_ATTRS(WINDOW, RVL_STRING("activation", NULL, ACTIVATIONS),
			     RVL_FLOATS("activation_params")),
	  .infer = infer_fused, .run = run_fused, .scratch = scratch_conv, .packed = packed_conv,
	  .pack = pack_conv,
	  .doc = "convolution, sum with input 3, and an activation" },
	{ .name = "ConvInteger", .since = 10, .work = work_conv, .least_in = 2, .most_in = 4,
	  .types = { BYTES, BYTES, BYTES, BYTES }, .same = 1u << 2,
	  .attrs = RVL_ATTRS(WINDOW), .infer = infer_integer, .run = run_integer,
	  .scratch = scratch_integer, .packed = packed_integer, .pack = pack_integer,
	  .doc = "convolution of bytes with an int32 result" },
	{ .name = "QLinearConv", .since = 10, .work = work_qlinear, .least_in = 8, .most_in = 9,
	  .types = { BYTES, RVL_T_FLOAT, BYTES, RVL_T_ANY }, .same = 1u << 2,
	  .attrs = RVL_ATTRS(WINDOW), .infer = infer_qlinear, .run = run_qlinear,
	  .kernel = RVL_OP_QLINEAR_CONV,
	  .doc = "quantised convolution, scales as inputs" },
	RVL_OPS_END
};

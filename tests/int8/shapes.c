// SPDX-License-Identifier: MIT
#include "int8/shapes.h"
#include "isa.h"

#include <string.h>

#include "kernels/guarded.h"

#define CHANNELS 512
/* Whether a set of this architecture sorts quads: these shapes take long under emulation. */
#ifdef __x86_64__
#define SORTS true
#else
#define SORTS false
#endif

/* ---- random products ---- */

struct product {
	struct rvl_kernel_desc d;
	float scale[3][CHANNELS];
	int32_t zp[3][CHANNELS];
	struct test_guarded x, w, b, y, ref;
};

static enum rvl_type byte_type(void)
{
	return test_rnd(2) ? RVL_TYPE_U8 : RVL_TYPE_S8;
}

static int32_t any_zero(enum rvl_type t)
{
	return (int32_t)test_rnd(256) - (t == RVL_TYPE_U8 ? 0 : 128);
}

static void operand(struct product *p, int i, struct rvl_kernel_arg *a, uint32_t n, int32_t axis)
{
	for (uint32_t c = 0; c < n; c++) {
		p->scale[i][c] = 0.002f + 0.048f * (float)test_rnd(1 << 16) / 65536.0f;
		p->zp[i][c] = any_zero(a->type);
	}
	a->quant = (struct rvl_kernel_quant) { .n = n, .axis = axis, .scale = p->scale[i],
					       .zp = p->zp[i] };
}

static int32_t weight_zero(enum rvl_type t)
{
	switch (test_rnd(4)) {
	case 0:
		return any_zero(t);
	case 1:
		return t == RVL_TYPE_U8 ? 0 : -128;	/* differences that only three bytes hold */
	default:
		return t == RVL_TYPE_U8 ? 128 : 0;
	}
}

/* Half of the weights with a value for each channel have different zero points. */
static void weight_zeros(struct product *p, int64_t n)
{
	const struct rvl_kernel_arg *w = &p->d.in[1];
	bool differ = w->quant.n > 1 && test_rnd(2);
	int32_t zero = weight_zero(w->type);

	for (int64_t i = 0; i < n; i++)
		p->zp[1][i] = differ ? weight_zero(w->type) : zero;
}

/* Some products have scales whose results exceed int32, or are all zero, and biases that wrap. */
static void extremes(struct product *p, int64_t n)
{
	static const float factors[] = { 30, 1e4f, 1e9f, 1e30f, 1e-30f };
	float factor = factors[test_rnd(5)];

	for (int64_t i = 0; i < n; i++) {
		if (!test_rnd(2))
			p->scale[1][i] *= factor;
		if (!test_rnd(4))
			((int32_t *)(void *)p->b.p)[i] = test_rnd(2) ? INT32_MAX : INT32_MIN;
	}
}

/* The least and the largest byte of a type. */
static int32_t limited(int32_t v, enum rvl_type t)
{
	int32_t least = t == RVL_TYPE_U8 ? 0 : -128;

	return v < least ? least : v > least + 255 ? least + 255 : v;
}

/*
 * Weights of at most RVL_TABLES_BITS bits, for kernels with tables: less their zero point they lie in
 * [@least, @least + 2^bits). In some products they are the largest ones, and so are the inputs.
 */
static void narrow(struct product *p, int64_t n, int32_t axis)
{
	int32_t bits = 1 + (int32_t)test_rnd(RVL_TABLES_BITS), least = test_rnd(3) ? -(1 << bits) / 2 : 0;
	const struct rvl_kernel_arg *w = &p->d.in[1];
	int64_t behind = 1;
	bool largest = !test_rnd(4);

	for (int32_t i = axis + 1; i < w->shape.rank; i++)
		behind *= w->shape.dim[i];
	for (size_t i = 0; i < p->w.size; i++) {
		int64_t channel = w->quant.n > 1 ? (int64_t)i / behind % n : 0;
		int32_t v = largest ? (1 << bits) - 1 : (int32_t)test_rnd(1u << bits);

		p->w.p[i] = (uint8_t)limited(p->zp[1][channel] + least + v, w->type);
	}
	if (largest)
		memset(p->x.p, p->d.in[0].type == RVL_TYPE_U8 ? 255 : 127, p->x.size);
}

/*
 * Weights of which few are large, for kernels that add products as int16. The inputs are the largest ones in
 * some products, or the least ones.
 */
static void peaked(struct product *p)
{
	uint32_t few = test_rnd(3) ? 8 + test_rnd(400) : UINT32_MAX, most = 1 + test_rnd(100);
	const struct rvl_kernel_arg *w = &p->d.in[1], *x = &p->d.in[0];
	bool u8 = x->type == RVL_TYPE_U8;

	for (uint32_t i = 0; i < w->quant.n; i++)
		p->zp[1][i] = w->type == RVL_TYPE_U8 ? 128 : 0;
	for (size_t i = 0; i < p->w.size; i++) {
		int32_t v = (int32_t)test_rnd(most) - (int32_t)most / 2;

		if (!test_rnd(few))
			v = test_rnd(2) ? 64 + (int32_t)test_rnd(2) : -64 - (int32_t)test_rnd(2);
		if (!test_rnd(few))
			v = test_rnd(2) ? 127 : -128;
		p->w.p[i] = (uint8_t)(p->zp[1][0] + v);
	}
	if (!test_rnd(3))
		memset(p->x.p, test_rnd(3) ? u8 ? 255 : 127 : u8 ? 0 : 128, p->x.size);
}

/* Quantisation and memory of a product with @n output channels whose shapes are set. */
static void complete(struct product *p, int64_t n, int32_t axis)
{
	struct rvl_kernel_desc *d = &p->d;

	d->n_in = 2 + test_rnd(2);
	d->n_out = 1;
	operand(p, 0, &d->in[0], 1, 0);
	operand(p, 1, &d->in[1], test_rnd(2) ? 1 : (uint32_t)n, axis);
	operand(p, 2, &d->out[0], 1, 0);
	weight_zeros(p, n);
	p->scale[2][0] *= 40;
	if (!test_rnd(3))
		d->attr.q_lo = p->zp[2][0];
	if (!test_rnd(8))
		d->attr.q_hi = p->zp[2][0] - 50 + (int32_t)test_rnd(150);
	p->x = test_guarded(test_bytes(&d->in[0]), 1);
	p->w = test_guarded(test_bytes(&d->in[1]), 1);
	p->b = test_guarded((size_t)n * 4, 4);
	p->y = test_guarded(test_bytes(&d->out[0]), 1);
	p->ref = test_guarded(test_bytes(&d->out[0]), 1);
	for (int64_t i = 0; i < n; i++)
		((int32_t *)(void *)p->b.p)[i] = (int32_t)test_rnd(20000) - 10000;
	if (!test_rnd(12))
		extremes(p, n);
	if (d->in[1].shape.rank > 1 && !test_rnd(3))
		narrow(p, n, axis);
	else if (test_rnd(2))
		peaked(p);
	d->in[1].data = p->w.p;
	if (d->n_in < 3)
		return;
	d->in[2] = (struct rvl_kernel_arg) { .type = RVL_TYPE_S32, .data = p->b.p,
					     .shape = { .rank = 1, .dim = { n } } };
}

/* Makes a product of bytes to bytes one whose result is float. */
static void to_floats(struct product *p)
{
	struct rvl_kernel_desc *d = &p->d;
	size_t n = d->n_in > 2 ? p->b.size / 4 : 0;

	if (d->op == RVL_OP_Q_CONV)
		d->op = RVL_OP_CONV;
	else
		d->op = d->attr.trans_a || d->attr.trans_b || n ? RVL_OP_GEMM : RVL_OP_MATMUL;
	d->out[0].type = RVL_TYPE_F32;
	d->out[0].quant = (struct rvl_kernel_quant) { 0 };
	if (d->op == RVL_OP_GEMM)
		d->attr.alpha = 0.5f;
	if (test_rnd(2))
		d->attr.f_lo = -3;
	if (test_rnd(2))
		d->attr.f_hi = 3;
	for (size_t i = 0; i < n; i++)
		((float *)(void *)p->b.p)[i] = 0.001f * (float)((int)test_rnd(20000) - 10000);
	if (n)
		d->in[2].type = RVL_TYPE_F32;
	test_drop(&p->y);
	test_drop(&p->ref);
	p->y = test_guarded(test_bytes(&d->out[0]), 4);
	p->ref = test_guarded(test_bytes(&d->out[0]), 4);
}

static void drop_product(struct product *p)
{
	test_drop(&p->x);
	test_drop(&p->w);
	test_drop(&p->b);
	test_drop(&p->y);
	test_drop(&p->ref);
}

/*
 * A convolution of 3 x 3 at distance 1, whose results are computed in tiles. Some have so many tiles and
 * weights that neither fit the workspace, some more channels than have their weights transformed at a time.
 */
static void random_tiled_conv(struct product *p)
{
	int64_t c = 16 + 2 * (int64_t)test_rnd(test_rnd(8) ? 16 : 130), m = 1 + test_rnd(test_rnd(8) ? 40 : 100);
	int64_t size[2] = { 3 + test_rnd(10), 3 + test_rnd(16) }, out[2], images = 1 + !test_rnd(6);
	int64_t group = test_rnd(4) ? 1 : 2 + test_rnd(3);

	if (!test_rnd(5)) {
		c = 96 + 2 * (int64_t)test_rnd(17);
		m = 33 + test_rnd(80);
		size[0] = 15 + test_rnd(14);
		size[1] = 15 + test_rnd(14);
		images = 1;
	}
	for (int i = 0; i < 2; i++) {
		p->d.attr.kernel[i] = 3;
		p->d.attr.pad[i] = (int32_t)test_rnd(4);
		p->d.attr.pad[i + 2] = (int32_t)test_rnd(4);
		out[i] = size[i] + p->d.attr.pad[i] + p->d.attr.pad[i + 2] - 2;
	}
	p->d.op = RVL_OP_Q_CONV;
	p->d.attr.group = (int32_t)group;
	test_image(&p->d.in[0], byte_type(), images, c * group, size[0], size[1]);
	test_image(&p->d.in[1], RVL_TYPE_S8, m * group, c, 3, 3);
	test_image(&p->d.out[0], byte_type(), images, m * group, out[0], out[1]);
	complete(p, m * group, 0);
}

/*
 * A convolution of whole groups of channels to many, for kernels that sort the quads of their rows. The
 * inputs of four adjacent channels lie around the zero point, or above it, up to a limit.
 */
static void random_sorted_conv(struct product *p)
{
	static const uint32_t limits[] = { 1, 2, 60, 64, 66, 120, 130, 200, 256, 256 };
	int64_t group = 1 + !test_rnd(6), c = 16 * (1 + (int64_t)test_rnd(3)), m = 128 + test_rnd(24);
	int64_t h = 4 + test_rnd(4), w = 6 + test_rnd(6), oh, ow;
	uint32_t most[CHANNELS / 4];
	int32_t least[CHANNELS / 4];

	p->d.op = RVL_OP_Q_CONV;
	p->d.attr.group = (int32_t)group;
	oh = test_axis(&p->d.attr, 0, h, 3);
	ow = test_axis(&p->d.attr, 1, w, 3);
	test_image(&p->d.in[0], byte_type(), 1 + !test_rnd(6), c * group, h, w);
	test_image(&p->d.in[1], RVL_TYPE_S8, m * group, c, p->d.attr.kernel[0], p->d.attr.kernel[1]);
	test_image(&p->d.out[0], byte_type(), p->d.in[0].shape.dim[0], m * group, oh, ow);
	complete(p, m * group, 0);
	for (int64_t i = 0; i < c * group / 4; i++) {
		most[i] = limits[test_rnd(sizeof(limits) / sizeof(limits[0]))];
		least[i] = p->zp[0][0] - (test_rnd(2) ? 0 : (int32_t)test_rnd(1 + most[i] / 2));
	}
	for (size_t i = 0; i < p->x.size; i++) {
		int64_t quad = (int64_t)i / (h * w) % (c * group) / 4;

		p->x.p[i] = (uint8_t)limited(least[quad] + (int32_t)test_rnd(most[quad]), p->d.in[0].type);
	}
}

static void random_conv(struct product *p)
{
	int64_t group = 1, cg = 1 + test_rnd(test_rnd(4) ? 40 : 150), mg = 1 + test_rnd(test_rnd(4) ? 40 : 150);
	int64_t h = 1 + test_rnd(9), w = 1 + test_rnd(30), oh, ow, images = 1 + !test_rnd(6);

	switch (test_rnd(6)) {
	case 3:		/* depthwise, with more outputs than inputs */
		group = 1 + test_rnd(40);
		cg = 1;
		mg = 1 + test_rnd(4);
		break;
	case 0:		/* depthwise */
	case 1:
		group = 1 + test_rnd(test_rnd(2) ? 40 : 200);
		cg = mg = 1;
		break;
	case 2:
		group = 1 + test_rnd(6);
		cg = 1 + test_rnd(12);
		mg = 1 + test_rnd(40);
	}
	p->d.op = RVL_OP_Q_CONV;
	p->d.attr.group = (int32_t)group;
	oh = test_axis(&p->d.attr, 0, h, group == 1 ? 4 : test_rnd(20) ? 7 : 20);
	ow = test_axis(&p->d.attr, 1, w, group == 1 ? 4 : test_rnd(20) ? 7 : 20);
	test_image(&p->d.in[0], byte_type(), images, cg * group, h, w);
	test_image(&p->d.in[1], test_rnd(4) ? RVL_TYPE_S8 : RVL_TYPE_U8, mg * group, cg, p->d.attr.kernel[0],
		   p->d.attr.kernel[1]);
	test_image(&p->d.out[0], byte_type(), images, mg * group, oh, ow);
	complete(p, mg * group, 0);
}

/* A few products have more weights than the second-level cache holds. */
static void random_matmul(struct product *p)
{
	int64_t m = 1 + test_rnd(60), n = 1 + test_rnd(200), k = test_rnd(test_rnd(3) ? 64 : 300);

	if (!test_rnd(24)) {
		n = 140 + test_rnd(60);
		k = 2000 + test_rnd(100);
	}
	p->d.op = RVL_OP_Q_MATMUL;
	p->d.attr.trans_a = !test_rnd(4);
	p->d.attr.trans_b = test_rnd(2);
	test_matrix(&p->d.in[0], byte_type(), m, k, p->d.attr.trans_a);
	test_matrix(&p->d.in[1], test_rnd(4) ? RVL_TYPE_S8 : RVL_TYPE_U8, k, n, p->d.attr.trans_b);
	test_matrix(&p->d.out[0], byte_type(), m, n, false);
	complete(p, n, p->d.attr.trans_b ? 0 : 1);
}

/* A sum or product of two tensors, of which one may be broadcast. Half of them have many ties. */
static void random_binary(struct product *p)
{
	int64_t c = 1 + test_rnd(70), w = 1 + test_rnd(9);
	uint32_t alone = test_rnd(4);

	p->d.op = test_rnd(2) ? RVL_OP_Q_ADD : RVL_OP_Q_MUL;
	for (uint32_t i = 0; i < 2; i++) {
		bool one = alone == i;

		test_image(&p->d.in[i], byte_type(), 1, 3, one && test_rnd(2) ? 1 : w,
			   one && test_rnd(2) ? 1 : c);
	}
	test_image(&p->d.out[0], byte_type(), 1, 3, w, c);
	complete(p, 1, 0);
	p->d.n_in = 2;
	p->d.in[1].data = NULL;
	if (p->d.attr.q_hi < p->d.attr.q_lo)	/* which bound then holds is not defined */
		p->d.attr.q_hi = p->d.attr.q_lo;
	if (!test_rnd(2))
		return;
	for (int i = 0; i < 3; i++)
		p->scale[i][0] = 0.01f * (float)(1 + test_rnd(8));
}

/* Floats to bytes or back, of all numbers, with one scale or one for each channel. */
static void random_convert(struct product *p)
{
	int64_t c = 1 + test_rnd(40), n = test_rnd(2) ? c : 1;
	bool back = test_rnd(2);
	struct rvl_kernel_desc *d = &p->d;
	enum rvl_type t = byte_type();

	d->op = back ? RVL_OP_DEQUANTIZE : RVL_OP_QUANTIZE;
	d->n_in = 3;
	d->n_out = 1;
	d->attr.axis = 1;
	test_image(&d->in[0], back ? t : RVL_TYPE_F32, 1 + test_rnd(2), c, 1 + test_rnd(9), 1 + test_rnd(90));
	d->out[0] = d->in[0];
	d->out[0].type = back ? RVL_TYPE_F32 : t;
	d->in[1] = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { n > 1, { n } } };
	d->in[2] = (struct rvl_kernel_arg) { .type = t, .shape = { n > 1, { n } } };
	p->x = test_guarded(test_bytes(&d->in[0]), back ? 1 : 4);
	p->w = test_guarded((size_t)n * 4, 4);
	p->b = test_guarded((size_t)n, 1);
	p->y = test_guarded(test_bytes(&d->out[0]), back ? 4 : 1);
	p->ref = test_guarded(test_bytes(&d->out[0]), back ? 4 : 1);
	for (int64_t i = 0; i < n; i++)
		((float *)(void *)p->w.p)[i] = 0.25f * (float)(1 + test_rnd(4));
	for (size_t i = 0; !back && test_rnd(4) && i < p->x.size / 4; i++)	/* many ties */
		((float *)(void *)p->x.p)[i] = 0.125f * (float)((int)test_rnd(2000) - 1000);
}

/* Results of an axis of a pool, whose windows begin before the end of the image. */
static int64_t pool_axis(struct rvl_attr *a, int i, int64_t n)
{
	int64_t out = test_axis(a, i, n, 5), most = (n + a->pad[i] - 1) / a->stride[i] + 1;

	return out < most ? out : most;
}

/* Pools of images in NCHW. Rows may be longer than the strips in which they are computed. */
static void random_pool(struct product *p)
{
	int64_t c = 1 + test_rnd(4), h = 1 + test_rnd(9), w = 1 + test_rnd(test_rnd(4) ? 40 : 2500);
	enum rvl_type type = byte_type();
	bool max = test_rnd(2);
	int64_t oh, ow;

	p->d.op = max ? RVL_OP_MAX_POOL : RVL_OP_Q_AVERAGE_POOL;
	oh = pool_axis(&p->d.attr, 0, h);
	ow = pool_axis(&p->d.attr, 1, w);
	test_image(&p->d.in[0], type, 1, c, h, w);
	test_image(&p->d.out[0], max ? type : byte_type(), 1, c, oh, ow);
	complete(p, 1, 0);
	p->d.n_in = 1;
	p->d.attr.count_include_pad = test_rnd(2);
	if (p->d.attr.q_hi < p->d.attr.q_lo)	/* which bound then holds is not defined */
		p->d.attr.q_hi = p->d.attr.q_lo;
}

static void random_product(struct product *p)
{
	memset(p, 0, sizeof(*p));
	rvl_attr_init(&p->d.attr);
	if (!test_rnd(8))
		random_binary(p);
	else if (!test_rnd(12))
		random_convert(p);
	else if (!test_rnd(12))
		random_pool(p);
	else if (!test_rnd(16))
		random_tiled_conv(p);
	else if (SORTS && !test_rnd(10))
		random_sorted_conv(p);
	else if (test_rnd(4))
		random_conv(p);
	else
		random_matmul(p);
	if ((p->d.op == RVL_OP_Q_CONV || p->d.op == RVL_OP_Q_MATMUL) && !test_rnd(6))
		to_floats(p);
}

/* ---- comparison ---- */

static void run(const struct product *p, bool reference, const struct test_guarded *y)
{
	test_run(&p->d, reference, (const void *[]) { p->x.p, p->w.p, p->b.p }, y,
		 reference || test_rnd(2) ? 0 : 1 + test_rnd(22));
}

static bool differs_now(void *arg)
{
	const struct product *p = arg;

	memset(p->y.p, 0x5a, p->y.size);
	run(p, false, &p->y);
	return memcmp(p->y.p, p->ref.p, p->y.size);
}

const char *int8_compare(long i)
{
	const char *differs;
	struct product p;

	test_seed(i);
	random_product(&p);
	rvl_tables_force(test_rnd(4) ? RVL_TABLES_ALWAYS : RVL_TABLES_MEASURED);
	run(&p, true, &p.ref);
	differs = test_each_set(differs_now, &p);
	drop_product(&p);
	return differs;
}

bool int8_compare_model(long i)
{
	struct product p;
	bool differs;

	test_seed(i);
	random_product(&p);
	rvl_tables_force(RVL_TABLES_ALWAYS);
	run(&p, true, &p.ref);
	differs = differs_now(&p);
	drop_product(&p);
	return differs;
}

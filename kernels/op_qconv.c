/* SPDX-License-Identifier: MIT */
/*
 * Quantised convolution. Each image is copied once to 16 bits, channels last, with the zero point
 * subtracted and zeros as padding. The matrix core then reads it through tap offsets, for any
 * kernel, stride and dilation. Its results are channels last and are transposed to NCHW row by row.
 */
#include <string.h>

#include "internal.h"
#include "qmath.h"
#include "ref.h"

#define MAX_DW_TAPS 255
/* Elements of a padded image. The reference kernel, which needs no copy, does larger ones. */
#define MAX_IMAGE ((int64_t)1 << 28)

/* The padded image holds every window, and 64 elements that vector loads may read past its end. */
struct image {
	int64_t ph, pw;		/* padded height, width */
	int64_t elements;
};

static struct image image_of(const struct rvl_conv_geom *g)
{
	struct image im = {
		.ph = (g->oh - 1) * g->s[0] + g->d[0] * (g->k[0] - 1) + 1,
		.pw = (g->ow - 1) * g->s[1] + g->d[1] * (g->k[1] - 1) + 1,
	};

	if (__builtin_mul_overflow(im.ph, im.pw, &im.elements) ||
	    __builtin_mul_overflow(im.elements, g->c, &im.elements) ||
	    im.elements > INT64_MAX - 64)
		im.elements = INT64_MAX - 64;
	im.elements += 64;
	return im;
}

struct conv_run {
	const struct rvl_kernel *k;
	struct image im;
	const uint8_t *x;	/* one image, NCHW */
	uint8_t *y;
	int16_t *wide;
	uint8_t *rows;		/* [oh][ow][m] */
};

/* One padded row, channels last. */
static void widen_row(void *arg, uint32_t i)
{
	const struct conv_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	const struct rvl_qparams *q = &r->k->q;
	int16_t *dst = r->wide + i * r->im.pw * g->c;
	int64_t iy = (int64_t)i - g->pad[0];
	int64_t last = r->im.pw - g->pad[1] < g->w ? r->im.pw - g->pad[1] : g->w;

	memset(dst, 0, (size_t)(r->im.pw * g->c) * sizeof(*dst));
	if (iy < 0 || iy >= g->h)
		return;
	dst += g->pad[1] * g->c;
	for (int64_t c = 0; c < g->c; c++) {
		const uint8_t *src = r->x + (c * g->h + iy) * g->w;

		for (int64_t ix = 0; ix < last; ix++)
			dst[ix * g->c + c] = (int16_t)(rvl_ld8(src, ix, q->x_u8) - q->xz);
	}
}

/* A row of results from channels last to NCHW. */
static void narrow_row(const struct conv_run *r, int64_t oy)
{
	const struct rvl_conv_geom *g = &r->k->g;
	const uint8_t *src = r->rows + oy * g->ow * g->m;

	for (int64_t m = 0; m < g->m; m++) {
		uint8_t *dst = r->y + (m * g->oh + oy) * g->ow;

		for (int64_t ox = 0; ox < g->ow; ox++)
			dst[ox] = src[ox * g->m + m];
	}
}

static void conv_row(void *arg, uint32_t i)
{
	const struct conv_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	const int16_t *top = r->wide + i * g->s[0] * r->im.pw * g->c;
	uint8_t *row = r->rows + i * g->ow * g->m;

	for (int64_t group = 0; group < g->group; group++) {
		const int16_t *base = top + group * (g->c / g->group);

		for (int64_t ox = 0; ox < g->ow; ox += RVL_MR) {
			const int16_t *a[RVL_MR];
			int64_t left = g->ow - ox;
			int n = left < RVL_MR ? (int)left : RVL_MR;

			for (int j = 0; j < RVL_MR; j++)
				a[j] = base + (ox + (j < n ? j : 0)) * g->s[1] * g->c;
			rvl_gemm_rows(r->k->gemm, group, a, n, row + ox * g->m, g->m);
		}
	}
	narrow_row(r, i);
}

static void depthwise_row(void *arg, uint32_t i)
{
	const struct conv_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t stride = r->im.pw * g->c;

	rvl_dwconv_row(r->k->dw, r->wide + i * g->s[0] * stride, stride,
		       r->rows + i * g->ow * g->m);
	narrow_row(r, i);
}

static int run_fast(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	struct conv_run r = { .k = k, .im = image_of(&k->g), .wide = scratch };

	r.rows = (uint8_t *)(r.wide + (r.im.elements + 31) / 32 * 32);
	memset(r.wide + r.im.elements - 64, 0, 64 * sizeof(*r.wide));
	for (int64_t n = 0; n < k->g.n; n++) {
		r.x = (const uint8_t *)in[0] + n * k->g.c * k->g.h * k->g.w;
		r.y = (uint8_t *)out[0] + n * k->g.m * k->g.oh * k->g.ow;
		rvl_parallel(pool, (uint32_t)r.im.ph, widen_row, &r);
		rvl_parallel(pool, (uint32_t)k->g.oh, k->dw ? depthwise_row : conv_row, &r);
	}
	return 0;
}

static int run_ref(const struct rvl_kernel *k, const void *const *in, void *const *out,
		   void *scratch, const struct rvl_pool *pool)
{
	struct rvl_qparams q = k->q;

	(void)scratch;
	(void)pool;
	q.bias = k->d.n_in > 2 ? in[2] : NULL;
	rvl_ref_qconv(&k->g, &q, in[0], in[1], out[0]);
	return 0;
}

static int is_quant8(const struct rvl_kernel_arg *a, bool per_channel)
{
	return (a->type == RVL_TYPE_U8 || a->type == RVL_TYPE_S8) &&
	       (a->quant.n == 1 || (per_channel && a->quant.n > 1));
}

/* Scales and zero points of the weights, spread over the output channels. */
static int channel_params(struct rvl_kernel *k, int64_t channels, float alpha)
{
	const struct rvl_kernel_quant *w = &k->d.in[1].quant;
	float xs = alpha * k->d.in[0].quant.scale[0];
	float ys = k->d.out[0].quant.scale[0];
	float *scale = rvl_kernel_mem(k, channels, sizeof(*scale));
	int32_t *wz = rvl_kernel_mem(k, channels, sizeof(*wz));

	if (!scale || !wz)
		return -ENOMEM;
	for (int64_t c = 0; c < channels; c++) {
		int64_t i = w->n > 1 ? c : 0;

		scale[c] = rvl_requant_scale(xs, w->scale[i], ys);
		wz[c] = w->zp[i];
	}
	k->q.scale = scale;
	k->q.wz = wz;
	return 0;
}

static void clamp_range(struct rvl_kernel *k)
{
	int32_t least = rvl_qmin(k->q.y_u8), most = rvl_qmax(k->q.y_u8);

	k->q.lo = rvl_clamp(k->d.attr.q_lo, least, most);
	k->q.hi = rvl_clamp(k->d.attr.q_hi, least, most);
}

/* Sets the quantisation parameters that Q_CONV and Q_MATMUL share. */
static int quant_params(struct rvl_kernel *k, int64_t channels, float alpha, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_kernel_arg *b = d->n_in > 2 ? &d->in[2] : NULL;

	if (b && (b->type != RVL_TYPE_S32 || rvl_shape_count(&b->shape) != channels))
		return rvl_why(why, "bias is not int32 with one value per output channel");
	if (d->in[1].quant.n > 1 && (int64_t)d->in[1].quant.n != channels)
		return rvl_why(why, "weights have scales for %u channels", d->in[1].quant.n);
	k->q = (struct rvl_qparams) {
		.x_u8 = d->in[0].type == RVL_TYPE_U8, .w_u8 = d->in[1].type == RVL_TYPE_U8,
		.y_u8 = d->out[0].type == RVL_TYPE_U8,
		.xz = d->in[0].quant.zp[0], .yz = d->out[0].quant.zp[0],
		.bias = b ? b->data : NULL,
	};
	clamp_range(k);
	return channel_params(k, channels, alpha);
}

struct weight_ctx {
	const struct rvl_kernel *k;
	const void *w;
	int64_t row, tap, col;	/* strides: output channel, tap, channel */
};

static int32_t weight_at(const void *ctx, int64_t n, int64_t tap, int64_t c)
{
	const struct weight_ctx *x = ctx;

	return rvl_ld8(x->w, n * x->row + tap * x->tap + c * x->col, x->k->q.w_u8) -
	       x->k->q.wz[n];
}

static int setup_dense(struct rvl_kernel *k)
{
	const struct rvl_conv_geom *g = &k->g;
	int64_t taps = g->k[0] * g->k[1], cg = g->c / g->group;
	struct weight_ctx ctx = {
		.k = k, .w = k->d.in[1].data, .row = cg * taps, .tap = 1, .col = taps,
	};
	struct image im = image_of(g);

	k->gemm = rvl_gemm_new(k, g->group, g->m / g->group, taps, cg, &k->q, weight_at, &ctx);
	if (!k->gemm)
		return -ENOMEM;
	for (int64_t t = 0; t < taps; t++)
		k->gemm->tap_off[t] = (t / g->k[1] * g->d[0] * im.pw + t % g->k[1] * g->d[1]) *
				      g->c;
	return 0;
}

static int setup_fast(struct rvl_kernel *k)
{
	const struct rvl_conv_geom *g = &k->g;
	struct image im = image_of(g);
	int64_t elements = g->oh && g->ow ? im.elements : 64;

	if (im.ph > MAX_IMAGE || im.pw > MAX_IMAGE || elements > MAX_IMAGE)
		return 0;	/* the reference needs no padded copy */
	k->scratch = (size_t)((elements + 31) / 32 * 32 * 2 + g->oh * g->ow * g->m + 64);
	k->run = run_fast;
	if (g->group > 1 && g->group == g->c && g->group == g->m &&
	    g->k[0] * g->k[1] <= MAX_DW_TAPS) {
		k->dw = rvl_dwconv_new(k, g, &k->q, k->d.in[1].data);
		return k->dw ? 0 : -ENOMEM;
	}
	return setup_dense(k);
}

int rvl_setup_qconv(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	int rc = rvl_conv_geometry(d, &d->in[1], &k->g, why);

	if (rc)
		return rc;
	if (!is_quant8(&d->in[0], false) || !is_quant8(&d->in[1], true) ||
	    !is_quant8(&d->out[0], false))
		return rvl_why(why, "operands are not quantised to 8 bits");
	rc = quant_params(k, k->g.m, 1.0f, why);
	if (rc)
		return rc;
	if (d->attr.sc_length)
		return rvl_setup_sc(k, reference, why);
	k->run = run_ref;
	if (reference || !d->in[1].data || (d->n_in > 2 && !d->in[2].data))
		return 0;
	return setup_fast(k);
}

/* ---- matrix product: the same core, with rows in place of pixels ---- */

struct matmul_run {
	const struct rvl_kernel *k;
	const void *a;
	uint8_t *y;
	int16_t *wide;
	int64_t pitch;
};

/* RVL_MR rows at a time: widened, then multiplied. */
static void matmul_rows(void *arg, uint32_t i)
{
	const struct matmul_run *r = arg;
	const struct rvl_matmul_geom *g = &r->k->mm;
	const struct rvl_qparams *q = &r->k->q;
	const int16_t *a[RVL_MR];
	int64_t left = g->m - (int64_t)i * RVL_MR;
	int n = left < RVL_MR ? (int)left : RVL_MR;

	for (int j = 0; j < RVL_MR; j++) {
		int64_t row = (int64_t)i * RVL_MR + (j < n ? j : 0);
		int16_t *dst = r->wide + row * r->pitch;

		a[j] = dst;
		for (int64_t c = 0; j < n && c < g->k; c++)
			dst[c] = (int16_t)(rvl_ld8(r->a, row * g->a_row + c * g->a_k, q->x_u8) -
					   q->xz);
		if (j < n && g->k % 2)
			dst[g->k] = 0;
	}
	rvl_gemm_rows(r->k->gemm, 0, a, n, r->y + (int64_t)i * RVL_MR * g->n, g->n);
}

static int run_matmul_fast(const struct rvl_kernel *k, const void *const *in, void *const *out,
			   void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_matmul_geom *g = &k->mm;
	struct matmul_run r = { .k = k, .wide = scratch, .pitch = (g->k + 1) / 2 * 2 };
	int64_t batches = rvl_shape_count(&g->batch);

	for (int64_t i = 0; i < batches; i++) {
		int64_t a, b;

		rvl_matmul_batch(g, i, &a, &b);
		r.a = (const uint8_t *)in[0] + a;
		r.y = (uint8_t *)out[0] + i * g->m * g->n;
		rvl_parallel(pool, (uint32_t)((g->m + RVL_MR - 1) / RVL_MR), matmul_rows, &r);
	}
	return 0;
}

static int run_matmul_ref(const struct rvl_kernel *k, const void *const *in, void *const *out,
			  void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_matmul_geom *g = &k->mm;
	struct rvl_qparams q = k->q;
	int64_t batches = rvl_shape_count(&g->batch);

	(void)scratch;
	(void)pool;
	q.bias = k->d.n_in > 2 ? in[2] : NULL;
	for (int64_t i = 0; i < batches; i++) {
		int64_t a, b;

		rvl_matmul_batch(g, i, &a, &b);
		rvl_ref_qmatmul(g, &q, (const uint8_t *)in[0] + a, (const uint8_t *)in[1] + b,
				(uint8_t *)out[0] + i * g->m * g->n);
	}
	return 0;
}

static int setup_matmul_fast(struct rvl_kernel *k)
{
	const struct rvl_matmul_geom *g = &k->mm;
	struct weight_ctx ctx = {
		.k = k, .w = k->d.in[1].data, .row = g->b_col, .tap = 0, .col = g->b_k,
	};

	k->gemm = rvl_gemm_new(k, 1, g->n, 1, g->k, &k->q, weight_at, &ctx);
	if (!k->gemm)
		return -ENOMEM;
	k->scratch = (size_t)(((g->k + 1) / 2 * 2 * g->m + 64) * 2);
	k->run = run_matmul_fast;
	return 0;
}

int rvl_setup_qmatmul(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	int rc = rvl_matmul_geometry(d, &d->in[0], &d->in[1], &d->out[0], &k->mm, why);

	if (rc)
		return rc;
	if (!is_quant8(&d->in[0], false) || !is_quant8(&d->in[1], true) ||
	    !is_quant8(&d->out[0], false))
		return rvl_why(why, "operands are not quantised to 8 bits");
	rc = quant_params(k, k->mm.n, d->attr.alpha, why);
	if (rc)
		return rc;
	if (d->attr.sc_length)
		return rvl_setup_sc(k, reference, why);
	k->run = run_matmul_ref;
	if (reference || !d->in[1].data || (d->n_in > 2 && !d->in[2].data) ||
	    d->in[1].shape.rank > 2)
		return 0;
	return setup_matmul_fast(k);
}

/* SPDX-License-Identifier: MIT */
/* Convolution and matrix products in float. */
#include <string.h>

#include "internal.h"
#include "qmath.h"
#include "ref.h"

struct conv_run {
	const struct rvl_kernel *k;
	const float *x, *w, *b;
	float *y;
};

/* Outputs [first, last) of a row whose input column for this tap lies inside the image. */
static void valid_span(const struct rvl_conv_geom *g, int64_t kx, int64_t *first, int64_t *last)
{
	int64_t shift = kx * g->d[1] - g->pad[1];
	int64_t f = shift < 0 ? (-shift + g->s[1] - 1) / g->s[1] : 0;
	int64_t l = g->w - 1 - shift < 0 ? 0 : (g->w - 1 - shift) / g->s[1] + 1;

	*first = f;
	*last = l < g->ow ? l : g->ow;
}

/* y[ox] += x[ox * stride + shift] * w for one tap of one row; the compiler vectorises the loops. */
static void add_tap(const struct rvl_conv_geom *g, const float *x, int64_t kx, float w, float *y)
{
	int64_t shift = kx * g->d[1] - g->pad[1];
	int64_t first, last;

	valid_span(g, kx, &first, &last);
	if (g->s[1] == 1) {
		for (int64_t ox = first; ox < last; ox++)
			y[ox] += x[ox + shift] * w;
	} else {
		for (int64_t ox = first; ox < last; ox++)
			y[ox] += x[ox * g->s[1] + shift] * w;
	}
}

static void conv_row(const struct conv_run *r, int64_t image, int64_t m, int64_t oy, float *y)
{
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t cg = g->c / g->group;
	int64_t c0 = image * g->c + m / (g->m / g->group) * cg;
	const float *w = r->w + m * cg * g->k[0] * g->k[1];

	for (int64_t c = 0; c < cg; c++) {
		for (int64_t ky = 0; ky < g->k[0]; ky++, w += g->k[1]) {
			int64_t iy = oy * g->s[0] + ky * g->d[0] - g->pad[0];

			if (iy < 0 || iy >= g->h)
				continue;
			for (int64_t kx = 0; kx < g->k[1]; kx++)
				add_tap(g, r->x + ((c0 + c) * g->h + iy) * g->w, kx, w[kx], y);
		}
	}
}

/* One output channel of one image. */
static void conv_plane(void *arg, uint32_t i)
{
	const struct conv_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	int64_t m = i % g->m;
	float lo = r->k->d.attr.f_lo, hi = r->k->d.attr.f_hi;
	float *y = r->y + i * g->oh * g->ow;

	for (int64_t oy = 0; oy < g->oh; oy++, y += g->ow) {
		for (int64_t ox = 0; ox < g->ow; ox++)
			y[ox] = r->b ? r->b[m] : 0;
		conv_row(r, i / g->m, m, oy, y);
		for (int64_t ox = 0; ox < g->ow; ox++)
			y[ox] = y[ox] < lo ? lo : y[ox] > hi ? hi : y[ox];
	}
}

static int run_conv(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	struct conv_run r = { .k = k, .x = in[0], .w = in[1], .y = out[0] };

	(void)scratch;
	r.b = k->d.n_in > 2 ? in[2] : NULL;
	rvl_parallel(pool, (uint32_t)(k->g.n * k->g.m), conv_plane, &r);
	return 0;
}

static int run_conv_ref(const struct rvl_kernel *k, const void *const *in, void *const *out,
			void *scratch, const struct rvl_pool *pool)
{
	(void)scratch;
	(void)pool;
	rvl_ref_conv(&k->g, in[0], in[1], k->d.n_in > 2 ? in[2] : NULL, k->d.attr.f_lo,
		     k->d.attr.f_hi, out[0]);
	return 0;
}

static bool all_float(const struct rvl_kernel_desc *d)
{
	for (uint32_t i = 0; i < d->n_in; i++)
		if (d->in[i].type != RVL_TYPE_F32 && d->in[i].type != RVL_TYPE_NONE)
			return false;
	return d->in[1].type == RVL_TYPE_F32 && d->out[0].type == RVL_TYPE_F32;
}

int rvl_setup_conv(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	int rc = rvl_conv_geometry(d, &d->in[1], &k->g, why);

	if (rc)
		return rc;
	if (!all_float(d))
		return rvl_why(why, "operands are not float");
	if (d->n_in > 2 && rvl_shape_count(&d->in[2].shape) != k->g.m)
		return rvl_why(why, "bias has not one value per output channel");
	k->run = reference ? run_conv_ref : run_conv;
	return 0;
}

/* ---- products ---- */

struct product {
	const struct rvl_kernel *k;
	const float *a, *b;
	float *y;
};

/*
 * One row of a product. Where rows of b are contiguous it is a sum of scaled rows of b, which the
 * compiler vectorises; else each element is a dot product.
 */
static void product_row(void *arg, uint32_t i)
{
	const struct product *p = arg;
	const struct rvl_matmul_geom *g = &p->k->mm;
	const float *a = p->a + i * g->a_row;
	float *y = p->y + i * g->n;

	if (g->b_col != 1) {
		for (int64_t j = 0; j < g->n; j++) {
			const float *b = p->b + j * g->b_col;
			float sum = 0;

			for (int64_t c = 0; c < g->k; c++)
				sum += a[c * g->a_k] * b[c * g->b_k];
			y[j] = sum;
		}
		return;
	}
	memset(y, 0, (size_t)g->n * sizeof(*y));
	for (int64_t c = 0; c < g->k; c++) {
		const float *b = p->b + c * g->b_k;
		float v = a[c * g->a_k];

		for (int64_t j = 0; j < g->n; j++)
			y[j] += v * b[j];
	}
}

static void products(const struct rvl_kernel *k, const float *a, const float *b, float *y,
		     const struct rvl_pool *pool)
{
	const struct rvl_matmul_geom *g = &k->mm;
	int64_t batches = rvl_shape_count(&g->batch);

	for (int64_t i = 0; i < batches; i++) {
		int64_t at_a, at_b;
		struct product p = { .k = k, .y = y + i * g->m * g->n };

		rvl_matmul_batch(g, i, &at_a, &at_b);
		p.a = a + at_a;
		p.b = b + at_b;
		if (k->reference)
			rvl_ref_matmul(g, p.a, p.b, p.y);
		else
			rvl_parallel(pool, (uint32_t)g->m, product_row, &p);
	}
}

static int run_matmul(const struct rvl_kernel *k, const void *const *in, void *const *out,
		      void *scratch, const struct rvl_pool *pool)
{
	float *y = out[0];
	int64_t n = rvl_shape_count(&k->d.out[0].shape);
	float lo = k->d.attr.f_lo, hi = k->d.attr.f_hi;

	(void)scratch;
	products(k, in[0], in[1], out[0], pool);
	for (int64_t i = 0; i < n; i++)
		y[i] = y[i] < lo ? lo : y[i] > hi ? hi : y[i];
	return 0;
}

int rvl_setup_matmul(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;

	if (!all_float(d))
		return rvl_why(why, "operands are not float");
	k->reference = reference;
	k->run = run_matmul;
	return rvl_matmul_geometry(d, &d->in[0], &d->in[1], &d->out[0], &k->mm, why);
}

/* y = clamp(alpha * y + beta * c). The strides of k->bc broadcast c. */
struct gemm_tail {
	const struct rvl_kernel *k;
	const float *c;
	float *y;
};

static void tail_span(void *ctx, int64_t a, int64_t b, int64_t at)
{
	const struct gemm_tail *t = ctx;
	const struct rvl_attr *attr = &t->k->d.attr;
	const float *c = t->c ? t->c + b : NULL;
	float *y = t->y + at;

	(void)a;
	for (int64_t i = 0; i < t->k->bc.span; i++) {
		float v = attr->alpha * y[i];

		if (c)
			v += attr->beta * c[i * t->k->bc.ib];
		y[i] = v < attr->f_lo ? attr->f_lo : v > attr->f_hi ? attr->f_hi : v;
	}
}

static int run_gemm(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	struct gemm_tail t = { .k = k, .y = out[0] };

	(void)scratch;
	t.c = k->d.n_in > 2 ? in[2] : NULL;
	products(k, in[0], in[1], out[0], pool);
	rvl_bcast_walk(&k->bc, tail_span, &t);
	return 0;
}

int rvl_setup_gemm(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_shape *y = &d->out[0].shape;
	const struct rvl_shape scalar = { .rank = 0 };
	bool has_c = d->n_in > 2 && d->in[2].type != RVL_TYPE_NONE;

	if (!all_float(d))
		return rvl_why(why, "operands are not float");
	if (d->in[0].shape.rank != 2 || d->in[1].shape.rank != 2 || y->rank != 2)
		return rvl_why(why, "operands are not matrices");
	if (rvl_bcast_init(&k->bc, y, has_c ? &d->in[2].shape : &scalar, y))
		return rvl_why(why, "C does not broadcast to the result");
	k->reference = reference;
	k->run = run_gemm;
	return rvl_matmul_geometry(d, &d->in[0], &d->in[1], &d->out[0], &k->mm, why);
}

/* SPDX-License-Identifier: MIT */
/* Convolution and matrix products in float: the kernels of float/ with weights packed at setup. */
#include <math.h>
#include <string.h>

#include "float/conv.h"
#include "internal.h"
#include "isa.h"
#include "qmath.h"
#include "ref.h"

/* Whether the image of input 3 is added to the result. */
static bool adds_image(const struct rvl_kernel_desc *d)
{
	return d->n_in > 3;
}

static bool has_bias(const struct rvl_kernel_desc *d)
{
	return d->n_in > 2 && d->in[2].type != RVL_TYPE_NONE;
}

static int run_conv_ref(const struct rvl_kernel *k, const void *const *in, void *const *out,
			void *scratch, const struct rvl_pool *pool)
{
	float lo = k->d.attr.f_lo, hi = k->d.attr.f_hi, *y = out[0];
	const float *added = adds_image(&k->d) ? in[3] : NULL;

	(void)scratch;
	(void)pool;
	rvl_ref_conv(&k->g, in[0], in[1], has_bias(&k->d) ? in[2] : NULL, added ? -INFINITY : lo,
		     added ? INFINITY : hi, y);
	for (int64_t i = 0; added && i < rvl_shape_count(&k->d.out[0].shape); i++) {
		float v = y[i] + added[i];

		y[i] = v < lo ? lo : v > hi ? hi : v;
	}
	return 0;
}

/* The operands say only whether they are there. */
static struct rvl_f32_conv conv_of(const struct rvl_kernel *k)
{
	static const float some;
	const struct rvl_conv_geom *g = &k->g;
	int64_t in[2] = { g->h, g->w }, out[2] = { g->oh, g->ow };
	struct rvl_f32_conv v = {
		.w.rank = 2, .images = g->n, .group = g->group, .m_group = g->m / g->group,
		.c_group = g->c / g->group, .lo = k->d.attr.f_lo, .hi = k->d.attr.f_hi,
		.packed = k->f32, .fixed = k->d.in[1].data, .added = adds_image(&k->d) ? &some : NULL,
	};

	for (int i = 0; i < 2; i++)
		v.w.axis[i] = (struct rvl_window_axis) {
			.n = in[i], .out = out[i], .k = g->k[i], .stride = g->s[i],
			.dilation = g->d[i], .pad = { g->pad[i] },
		};
	rvl_f32_conv_init(&v);
	return v;
}

static int run_conv(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	struct rvl_f32_conv v = conv_of(k);

	v.x = in[0];
	v.weights = in[1];
	v.bias = has_bias(&k->d) ? in[2] : NULL;
	v.added = v.added ? in[3] : NULL;
	v.y = out[0];
	rvl_f32_conv_run(&v, scratch, pool);
	return 0;
}

/* Whether the product is one of bytes whose result is float. */
static bool reads_bytes(const struct rvl_kernel_desc *d)
{
	return rvl_is_bytes(&d->in[0]) && d->out[0].type == RVL_TYPE_F32;
}

static bool all_float(const struct rvl_kernel_desc *d)
{
	for (uint32_t i = 0; i < d->n_in; i++)
		if (d->in[i].type != RVL_TYPE_F32 && d->in[i].type != RVL_TYPE_NONE)
			return false;
	return d->in[1].type == RVL_TYPE_F32 && d->out[0].type == RVL_TYPE_F32;
}

/* Memory for packed weights in k->f32, unless there are none or too many. */
static int packed_memory(struct rvl_kernel *k, int64_t floats, float **to)
{
	*to = NULL;
	if (floats <= 0 || floats > RVL_MAX_PACKED)
		return 0;
	k->f32 = *to = rvl_kernel_mem(k, floats, sizeof(**to));
	return *to ? 0 : -ENOMEM;
}

static int setup_conv(struct rvl_kernel *k)
{
	struct rvl_f32_conv v = conv_of(k);
	float *packed = NULL;
	int rc = 0;

	v.weights = k->d.in[1].data;
	if (v.weights)
		rc = packed_memory(k, rvl_f32_conv_packed(&v), &packed);
	if (packed)
		rvl_f32_pack_conv(&v, packed);
	v.packed = packed;
	k->scratch = (size_t)rvl_f32_conv_scratch(&v);
	k->run = run_conv;
	return rc;
}

int rvl_setup_conv(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	int rc;

	if (adds_image(d) && (d->in[3].type != RVL_TYPE_F32 || d->in[3].layout != RIVULET_LAYOUT_PLAIN ||
			      !rvl_shape_equal(&d->in[3].shape, &d->out[0].shape) || !all_float(d)))
		return rvl_why(why, "the added image is not one of floats like the result");
	if (reads_bytes(d))
		return rvl_setup_qconv(k, reference, why);
	rc = rvl_conv_geometry(d, &d->in[1], &k->g, why);
	if (rc)
		return rc;
	if (!all_float(d))
		return rvl_why(why, "operands are not float");
	if (has_bias(d) && rvl_shape_count(&d->in[2].shape) != k->g.m)
		return rvl_why(why, "bias has not one value per output channel");
	k->run = run_conv_ref;
	return reference ? 0 : setup_conv(k);
}

/* ---- products ---- */

static void locate(const void *ctx, int64_t batch, struct rvl_f32_place *at)
{
	const struct rvl_kernel *k = ctx;

	*at = (struct rvl_f32_place) { .y = batch * k->mm.m * k->mm.n };
	rvl_matmul_batch(&k->mm, batch, &at->a, &at->b);
}

/* The product, with the operands' data where they are constant. */
static struct rvl_f32_job job_of(const struct rvl_kernel *k)
{
	const struct rvl_matmul_geom *g = &k->mm;
	const struct rvl_f32_kernels *f = rvl_f32_kernels();
	const float *a = k->d.in[0].data, *b = k->d.in[1].data;
	struct rvl_f32_job j = {
		.f = f, .batches = rvl_shape_count(&g->batch), .m = g->m, .n = g->n, .k = g->k,
		.a = { .data = a, .k_step = g->a_k, .step = g->a_row },
		.b = { .data = b, .k_step = g->b_k, .step = g->b_col,
		       .matrix = rvl_f32_packed(g->n, g->k, f->nr), .elements = g->n * g->k },
		.locate = locate, .ctx = k, .scale = 1, .added_scale = 1, .y_row = g->n,
		.lo = k->d.attr.f_lo, .hi = k->d.attr.f_hi,
	};

	if (k->d.op == RVL_OP_GEMM)
		j.scale = k->d.attr.alpha;
	rvl_f32_merge(&j, rvl_shape_count(&k->d.in[0].shape), rvl_shape_count(&k->d.in[1].shape));
	j.a.matrix = rvl_f32_packed(j.m, j.k, f->mr);
	j.a.elements = j.m * j.k;
	/* At most one operand is packed before: the compiler folds a product of two constants. */
	if (b)
		j.b.packed = k->f32;
	else if (a)
		j.a.packed = k->f32;
	return j;
}

/* C of a Gemm, broadcast by the strides of its dimensions. */
static void add_c(const struct rvl_kernel *k, const float *c, struct rvl_f32_job *j)
{
	const struct rvl_shape *s = &k->d.in[2].shape;
	int64_t rows = s->rank > 1 ? s->dim[0] : 1, cols = s->rank ? s->dim[s->rank - 1] : 1;

	j->added = c;
	j->added_col = cols > 1;
	j->added_row = rows > 1 ? cols : 0;
	j->added_scale = k->d.attr.beta;
	if (cols > 1 || j->n == 1 || rows == 1 || j->added_scale != 1.0f)
		return;
	j->bias = c;	/* one value for each row */
	j->added = NULL;
}

static int run_product(const struct rvl_kernel *k, const void *const *in, void *const *out,
		       void *scratch, const struct rvl_pool *pool)
{
	struct rvl_f32_job j = job_of(k);

	j.a.data = in[0];
	j.b.data = in[1];
	j.y = out[0];
	if (k->d.op == RVL_OP_GEMM && k->d.n_in > 2 && k->d.in[2].type != RVL_TYPE_NONE)
		add_c(k, in[2], &j);
	rvl_f32_run(&j, scratch, pool);
	return 0;
}

/* Packs all matrices of operand @i, which is constant. */
static int pack_operand(struct rvl_kernel *k, uint32_t i, const struct rvl_f32_source *s, int64_t n,
			int width)
{
	int64_t all = rvl_shape_count(&k->d.in[i].shape), count = s->elements ? all / s->elements : 0;
	float *packed;
	int rc = packed_memory(k, count * s->matrix, &packed);

	for (int64_t m = 0; packed && m < count; m++)
		rvl_f32_pack(s, m * s->elements, n, k->mm.k, width, packed + m * s->matrix);
	return rc;
}

static int setup_product(struct rvl_kernel *k)
{
	struct rvl_f32_job j = job_of(k);
	int rc = 0;

	if (j.b.data)
		rc = pack_operand(k, 1, &j.b, j.n, j.f->nr);
	else if (j.a.data)
		rc = pack_operand(k, 0, &j.a, j.m, j.f->mr);
	j = job_of(k);
	k->scratch = (size_t)rvl_f32_scratch(&j);
	k->run = run_product;
	return rc;
}

/* ---- references ---- */

static void ref_products(const struct rvl_kernel *k, const float *a, const float *b, float *y)
{
	const struct rvl_matmul_geom *g = &k->mm;
	int64_t batches = rvl_shape_count(&g->batch);

	for (int64_t i = 0; i < batches; i++) {
		int64_t at_a, at_b;

		rvl_matmul_batch(g, i, &at_a, &at_b);
		rvl_ref_matmul(g, a + at_a, b + at_b, y + i * g->m * g->n);
	}
}

static int run_matmul_ref(const struct rvl_kernel *k, const void *const *in, void *const *out,
			  void *scratch, const struct rvl_pool *pool)
{
	float *y = out[0];
	int64_t n = rvl_shape_count(&k->d.out[0].shape);

	(void)scratch;
	(void)pool;
	ref_products(k, in[0], in[1], y);
	for (int64_t i = 0; i < n; i++)
		y[i] = rvl_clip(y[i], k->d.attr.f_lo, k->d.attr.f_hi);
	return 0;
}

/* y = clamp(alpha * y + beta * c). The strides of k->bc broadcast c. */
struct gemm_tail {
	const struct rvl_kernel *k;
	const float *c;
	float *y;
};

static void tail_span(void *ctx, int64_t n, int64_t a, int64_t b, int64_t at)
{
	const struct gemm_tail *t = ctx;
	const struct rvl_attr *attr = &t->k->d.attr;

	(void)a;
	for (int64_t i = 0; i < n; i++) {
		float *y = t->y + at + i, v = attr->alpha * *y;

		if (t->c)
			v += attr->beta * t->c[b + i * t->k->bc.ib];
		*y = rvl_clip(v, attr->f_lo, attr->f_hi);
	}
}

static int run_gemm_ref(const struct rvl_kernel *k, const void *const *in, void *const *out,
			void *scratch, const struct rvl_pool *pool)
{
	struct gemm_tail t = { .k = k, .y = out[0], .c = k->d.n_in > 2 ? in[2] : NULL };

	(void)scratch;
	ref_products(k, in[0], in[1], out[0]);
	rvl_bcast_run(&k->bc, pool, tail_span, &t);
	return 0;
}

/* ---- setup ---- */

int rvl_setup_matmul(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	int rc;

	if (reads_bytes(d))
		return rvl_setup_qmatmul(k, reference, why);
	if (!all_float(d))
		return rvl_why(why, "operands are not float");
	rc = rvl_matmul_geometry(d, &d->in[0], &d->in[1], &d->out[0], &k->mm, why);
	if (rc)
		return rc;
	k->run = run_matmul_ref;
	return reference ? 0 : setup_product(k);
}

int rvl_setup_gemm(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_shape *y = &d->out[0].shape;
	const struct rvl_shape scalar = { .rank = 0 };
	bool has_c = d->n_in > 2 && d->in[2].type != RVL_TYPE_NONE;
	int rc;

	if (reads_bytes(d) && has_c && d->attr.beta != 1.0f)
		return rvl_why(why, "C is not added as it is, but A and B are bytes");
	if (reads_bytes(d))
		return rvl_setup_qmatmul(k, reference, why);
	if (!all_float(d))
		return rvl_why(why, "operands are not float");
	if (d->in[0].shape.rank != 2 || d->in[1].shape.rank != 2 || y->rank != 2)
		return rvl_why(why, "operands are not matrices");
	if (rvl_bcast_init(&k->bc, y, has_c ? &d->in[2].shape : &scalar, y))
		return rvl_why(why, "C does not broadcast to the result");
	rc = rvl_matmul_geometry(d, &d->in[0], &d->in[1], &d->out[0], &k->mm, why);
	if (rc)
		return rc;
	k->run = run_gemm_ref;
	return reference ? 0 : setup_product(k);
}

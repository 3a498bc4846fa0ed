/* SPDX-License-Identifier: MIT */
/* Quantised matrix product: rows of the first operand by the packed columns of the second one. */
#include <string.h>

#include "int8/product.h"
#include "internal.h"
#include "qproduct.h"
#include "ref.h"

struct matmul_run {
	const struct rvl_matmul_geom *g;
	const uint8_t *a;
};

static void fill_rows(const struct rvl_i8_job *j, int64_t group, int64_t row, int n, void *dst)
{
	const struct rvl_i8_mat *m = j->m;
	const struct matmul_run *r = j->ctx;
	const struct rvl_matmul_geom *g = r->g;

	(void)group;
	for (int i = 0; i < n; i++) {
		const uint8_t *src = r->a + (row + i) * g->a_row;
		uint8_t *to = (uint8_t *)dst + i * m->kc, *end = to;

		if (!m->gathers) {
			((const uint8_t **)dst)[i] = src;
			continue;
		}
		for (int64_t plane = 0; plane < m->planes; plane++)
			for (int64_t c = 0; c < g->k; c++)
				*end++ = src[c * g->a_k];
		memset(end, 0, (size_t)(to + m->kc - end));
	}
}

static int run_matmul_fast(const struct rvl_kernel *k, const void *const *in, void *const *out,
			   void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_matmul_geom *g = &k->mm;
	int64_t batches = rvl_shape_count(&g->batch);

	for (int64_t i = 0; i < batches; i++) {
		struct rvl_i8_job j = {
			.m = k->i8, .rows = g->m, .fill = fill_rows, .y_stride = g->n,
			.y = (uint8_t *)out[0] + i * g->m * g->n, .scratch = scratch,
			.f32 = { .lo = k->q.f_lo, .hi = k->q.f_hi, .added = rvl_q_with_bias(k, in).added,
				 .row_step = g->n, .column_step = 1 },
		};
		struct matmul_run r;
		int64_t a, b;

		rvl_matmul_batch(g, i, &a, &b);
		r = (struct matmul_run) { .g = g, .a = (const uint8_t *)in[0] + a };
		j.ctx = &r;
		j.f32.y = k->q.floats ? (float *)out[0] + i * g->m * g->n : NULL;
		j.dense = g->a_k == 1 && g->a_row == g->k ? r.a : NULL;
		rvl_i8_run(&j, pool);
	}
	return 0;
}

static int run_matmul_ref(const struct rvl_kernel *k, const void *const *in, void *const *out,
			  void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_matmul_geom *g = &k->mm;
	struct rvl_qparams q = rvl_q_with_bias(k, in);
	int64_t batches = rvl_shape_count(&g->batch);

	(void)scratch;
	(void)pool;
	for (int64_t i = 0; i < batches; i++) {
		int64_t a, b;

		rvl_matmul_batch(g, i, &a, &b);
		rvl_ref_qmatmul(g, &q, (const uint8_t *)in[0] + a, (const uint8_t *)in[1] + b,
				(uint8_t *)out[0] + i * g->m * g->n * (int64_t)rvl_type_size(k->d.out[0].type));
	}
	return 0;
}

static int setup_matmul_fast(struct rvl_kernel *k)
{
	const struct rvl_matmul_geom *g = &k->mm;
	struct rvl_q_weights ctx = {
		.k = k, .w = k->d.in[1].data, .row = g->b_col, .tap = 0, .col = g->b_k,
	};
	struct rvl_i8_source s = {
		.weight = rvl_q_weight, .ctx = &ctx, .groups = 1, .n = g->n, .rows = g->m, .taps = 1, .kc = g->k,
		.scattered = g->a_k != 1,
	};

	k->i8 = rvl_i8_pack(k, &s, &k->q);
	if (!k->i8)
		return -ENOMEM;
	k->scratch = (size_t)rvl_i8_scratch(k->i8, s.rows);
	k->run = run_matmul_fast;
	rvl_q_drop_params(k, g->n);
	return 0;
}

int rvl_setup_qmatmul(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	int rc = rvl_matmul_geometry(d, &d->in[0], &d->in[1], &d->out[0], &k->mm, why);

	if (rc)
		return rc;
	if (!rvl_q_fits(d))
		return rvl_why(why, "operands are not quantised to 8 bits");
	rc = rvl_q_params(k, k->mm.n, d->attr.alpha, why);
	if (rc)
		return rc;
	if (d->attr.sc_length)
		return rvl_setup_sc(k, reference, why);
	k->run = run_matmul_ref;
	if (reference || !d->in[1].data || (d->n_in > 2 && !d->in[2].data && !k->q.floats) ||
	    d->in[1].shape.rank > 2)
		return 0;
	return setup_matmul_fast(k);
}

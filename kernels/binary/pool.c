/* SPDX-License-Identifier: MIT */
/* BinaryMaxPool: the largest of bits under a window is their disjunction. */
#include "binary/binary.h"

struct pool_run {
	const struct rvl_kernel *k;
	const uint64_t *x;
	uint64_t *y;
	int64_t words;
};

static uint64_t any_of(const struct pool_run *r, int64_t n, int64_t oy, int64_t ox, int64_t word)
{
	const struct rvl_conv_geom *g = &r->k->g;
	uint64_t any = 0;

	for (int64_t ky = 0; ky < g->k[0]; ky++)
		for (int64_t kx = 0; kx < g->k[1]; kx++) {
			int64_t y = oy * g->s[0] + ky * g->d[0] - g->pad[0];
			int64_t x = ox * g->s[1] + kx * g->d[1] - g->pad[1];

			if (y >= 0 && y < g->h && x >= 0 && x < g->w)
				any |= r->x[((n * g->h + y) * g->w + x) * r->words + word];
		}
	return any;
}

static void pool_rows(void *arg, int64_t first, int64_t past)
{
	const struct pool_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;

	for (int64_t i = first; i < past; i++)
		for (int64_t ox = 0; ox < g->ow; ox++)
			for (int64_t j = 0; j < r->words; j++)
				r->y[(i * g->ow + ox) * r->words + j] =
					any_of(r, i / g->oh, i % g->oh, ox, j);
}

static int run_pool(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	struct pool_run r = { .k = k, .x = in[0], .y = out[0], .words = rvl_b_words(k->g.c) };

	(void)scratch;
	rvl_parallel_range(pool, k->g.n * k->g.oh, 1, pool_rows, &r);
	return 0;
}

int rvl_setup_b_pool(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_shape *x = &d->in[0].shape, *y = &d->out[0].shape;
	int64_t c = d->attr.block, words = rvl_b_words(c);
	struct rvl_kernel_desc image = { .attr = d->attr };

	(void)reference;
	if (d->in[0].type != RVL_TYPE_U64 || d->out[0].type != RVL_TYPE_U64 || x->rank != 3 ||
	    y->rank != 3 || c < 1 || x->dim[2] % words || y->dim[2] % words)
		return rvl_why(why, "input and result are not images of bits");
	image.in[0].shape = (struct rvl_shape) {
		.rank = 4, .dim = { x->dim[0], c, x->dim[1], x->dim[2] / words },
	};
	image.out[0].shape = (struct rvl_shape) {
		.rank = 4, .dim = { y->dim[0], c, y->dim[1], y->dim[2] / words },
	};
	k->run = run_pool;
	return rvl_conv_geometry(&image, NULL, &k->g, why);
}

/* SPDX-License-Identifier: MIT */
/*
 * A chain of element-wise operators on float32 that is computed block by block, so that the results
 * between the operators stay in the cache. Each operator has a kernel for a block, which is one
 * dimension, whatever the shape of the tensor is. The bits are those of the operators one after the
 * other, because an element depends on its own place only.
 */
#include <stdatomic.h>

#include "chain.h"
#include "sizes.h"

#define BLOCK 4096	/* elements */
#define MAX_LANES 8	/* threads that compute blocks */

static bool is_dense(const struct rvl_kernel_arg *a)
{
	return a->type == RVL_TYPE_F32 && a->layout == RIVULET_LAYOUT_PLAIN && !a->pitched && !a->quant.n;
}

static bool is_elementwise(const struct rvl_kernel_desc *d)
{
	const struct rvl_op_def *def = d->op == RVL_OP_GENERAL ? d->def : rvl_op_of_kernel(d->op);

	return def && def->flags & RVL_OP_ELEMENTWISE && !(def->flags & RVL_OP_RANDOM);
}

bool rvl_desc_joins_elements(const struct rvl_kernel_desc *d)
{
	int64_t n = rvl_shape_count(&d->out[0].shape);

	if (d->n_out != 1 || d->n_in > RVL_CHAIN_IN || n <= 1 || !is_dense(&d->out[0]) || !is_elementwise(d))
		return false;
	for (uint32_t i = 0; i < d->n_in; i++) {
		int64_t own = rvl_shape_count(&d->in[i].shape);

		if (d->in[i].type && (!is_dense(&d->in[i]) || (own != n && own != 1)))
			return false;
	}
	return true;
}

/* ---- setup ---- */

/* Gives an operand of more than one element @n of them. Its data is addressed in the run. */
static void set_count(struct rvl_kernel_arg *a, int64_t n)
{
	bool one = rvl_shape_count(&a->shape) == 1;

	if (!one)
		a->data = NULL;
	if (!one || a->shape.rank > 1)
		a->shape = (struct rvl_shape) { 1, { one ? 1 : n } };
}

static int make_kernel(struct rvl_kernel_desc *d, int64_t n, struct rvl_kernel **out, char *why)
{
	for (uint32_t i = 0; i < d->n_in; i++)
		set_count(&d->in[i], n);
	set_count(&d->out[0], n);
	return rvl_kernel_new(d, false, out, why);
}

int rvl_chain_element_link(struct rvl_kernel *k, struct rvl_chain_link *l, struct rvl_kernel_desc *d,
			   char *why)
{
	int64_t n = rvl_shape_count(&k->d.out[0].shape), rest = n % BLOCK;
	int rc;

	if (!rvl_desc_joins_elements(d) || rvl_shape_count(&d->out[0].shape) != n)
		return rvl_why(why, "operator %u does not compute the elements of the chain", k->chain->n);
	rc = make_kernel(d, rvl_least(n, BLOCK), &l->k, why);
	if (!rc && n > BLOCK && rest)
		rc = make_kernel(d, rest, &l->rest, why);
	if (!rc && l->rest)
		k->mem_bytes += rvl_kernel_bytes(l->rest);
	return rc;
}

static uint32_t last_reader(const struct rvl_chain *c, uint32_t made)
{
	uint32_t last = made;

	for (uint32_t i = made + 1; i < c->n; i++)
		for (uint32_t j = 0; j < RVL_CHAIN_IN; j++)
			if (c->link[i].in[j] == RVL_CHAIN_MADE + made)
				last = i;
	return last;
}

/* Gives the results between the operators blocks that no operator reads any more. Returns their number. */
static uint32_t place_results(struct rvl_chain *c)
{
	uint32_t reader[RVL_CHAIN_MAX], n = 0;	/* the last one of each block */

	for (uint32_t i = 0; i + 1 < c->n; i++) {
		uint32_t b = 0;

		while (b < n && reader[b] >= i)
			b++;
		n += b == n;
		reader[b] = last_reader(c, i);
		c->link[i].at = b * BLOCK * (int64_t)sizeof(float);
	}
	return n;
}

/* ---- running ---- */

struct elements_run {
	const struct rvl_kernel *k;
	const void *const *in;
	uint8_t *out, *scratch;
	int64_t n;
	atomic_int rc;
};

/* Operand @from of a link, from byte @at of the whole tensor on. */
static const void *operand(const struct elements_run *r, uint32_t from, int64_t at, const uint8_t *mem)
{
	const struct rvl_kernel *k = r->k;

	if (from >= RVL_CHAIN_MADE)
		return mem + k->chain->link[from - RVL_CHAIN_MADE].at;
	return (const uint8_t *)r->in[from] + (rvl_shape_count(&k->d.in[from].shape) == 1 ? 0 : at);
}

static int run_block(const struct elements_run *r, int64_t block, uint8_t *mem)
{
	const struct rvl_chain *c = r->k->chain;
	int64_t at = block * BLOCK * (int64_t)sizeof(float);
	bool whole = (block + 1) * BLOCK <= r->n;
	int rc = 0;

	for (uint32_t i = 0; i < c->n && !rc; i++) {
		const struct rvl_chain_link *l = &c->link[i];
		const struct rvl_kernel *k = whole || !l->rest ? l->k : l->rest;
		const void *in[RVL_CHAIN_IN] = { NULL };
		void *out = i + 1 < c->n ? mem + l->at : r->out + at;

		for (uint32_t j = 0; j < k->d.n_in; j++)
			if (k->d.in[j].type)
				in[j] = operand(r, l->in[j], at, mem);
		rc = rvl_kernel_run(k, in, &out, mem + c->work_at, NULL);
	}
	return rc;
}

static void run_part(void *arg, uint32_t lane, uint32_t i)
{
	struct elements_run *r = arg;
	int rc = atomic_load(&r->rc);

	if (!rc)
		rc = run_block(r, i, r->scratch + lane * r->k->chain->band_bytes);
	if (rc)
		atomic_store(&r->rc, rc);
}

static int run_elements(const struct rvl_kernel *k, const void *const *in, void *const *out,
			void *scratch, const struct rvl_pool *pool)
{
	struct elements_run r = {
		.k = k, .in = in, .out = out[0], .scratch = scratch,
		.n = rvl_shape_count(&k->d.out[0].shape),
	};

	rvl_parallel_lanes(pool, rvl_least(rvl_lanes(pool), MAX_LANES), rvl_ceil_div(r.n, BLOCK), run_part, &r);
	return atomic_load(&r.rc);
}

void rvl_chain_elements(struct rvl_kernel *k)
{
	struct rvl_chain *c = k->chain;
	int64_t work = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct rvl_chain_link *l = &c->link[i];
		int64_t most = (int64_t)rvl_kernel_scratch(l->k), rest = 0;

		if (l->rest)
			rest = (int64_t)rvl_kernel_scratch(l->rest);
		most = rest > most ? rest : most;
		work = most > work ? most : work;
	}
	c->work_at = place_results(c) * BLOCK * (int64_t)sizeof(float);
	c->band_bytes = c->work_at + rvl_round_up(work, 64) + 64;
	k->scratch = (size_t)(c->band_bytes * MAX_LANES);
	k->run = run_elements;
}

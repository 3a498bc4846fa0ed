/* SPDX-License-Identifier: MIT */
#include "quant/prune.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/choose.h"
#include "quant/insert.h"

/*
 * Blocks of the arrays are 16 or 32 channels wide. What is valid for runs of 16 is valid for runs of
 * 32 with twice the number of weights, so that a model is pruned once for all boards.
 */
#define RUN 16

/* The weights of one product: channel @c, tap @t of row @m is at m * row + c * step + t. */
struct weights {
	struct rvl_tensor *t;
	float *v;
	int64_t rows, row, channels, step, taps;
	double energy[RUN]; /* sum of squares of the weights by rank in their runs */
	double kept;	    /* of a run, on average */
};

struct pruning {
	struct rvl_graph *g;
	struct weights *w;
	uint32_t n;
	struct rvl_err *err;
};

/* ---- runs ---- */

/* The weights of one run, the largest magnitudes first. */
struct run {
	float *at[RUN];
	uint32_t n;
};

static void insert(struct run *r, float *w)
{
	uint32_t i = r->n++;

	for (; i && fabsf(*r->at[i - 1]) < fabsf(*w); i--)
		r->at[i] = r->at[i - 1];
	r->at[i] = w;
}

static struct run run_at(const struct weights *w, int64_t m, int64_t c, int64_t tap)
{
	struct run r = { .n = 0 };

	for (int64_t i = c; i < c + RUN && i < w->channels; i++)
		insert(&r, w->v + m * w->row + i * w->step + tap);
	return r;
}

static void each_run(const struct weights *w, void (*fn)(const struct run *r, void *arg), void *arg)
{
	for (int64_t m = 0; m < w->rows; m++)
		for (int64_t c = 0; c < w->channels; c += RUN)
			for (int64_t tap = 0; tap < w->taps; tap++) {
				struct run r = run_at(w, m, c, tap);

				fn(&r, arg);
			}
}

static void add_energy(const struct run *r, void *arg)
{
	double *energy = arg;

	for (uint32_t i = 0; i < r->n; i++)
		energy[i] += (double)*r->at[i] * (double)*r->at[i];
}

/* ---- which weights ---- */

static bool is_shared(const struct rvl_graph *g, const struct rvl_tensor *t)
{
	uint32_t readers = t->is_output;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t k = 0; k < g->nodes[i]->n_in; k++)
			readers += g->nodes[i]->in[k] == t;
	return readers > 1;
}

static bool can_prune(const struct rvl_graph *g, const struct rvl_node *n)
{
	if (n->op == RVL_OP_CONV && n->attr.group != 1)
		return false;
	return (n->op == RVL_OP_CONV || n->in[1]->shape.rank == 2) && !is_shared(g, n->in[1]);
}

static int add_weights(struct pruning *p, const struct rvl_node *n)
{
	struct rvl_rows rows = rvl_rows_of(n);
	struct weights *w = &p->w[p->n];
	size_t bytes = (size_t)(rows.n * rows.len) * sizeof(float);

	*w = (struct weights){ .t = n->in[1], .rows = rows.n, .row = rows.row, .channels = rows.len,
			       .step = rows.step, .taps = 1, .kept = RUN };
	if (n->op == RVL_OP_CONV) {
		w->channels = n->in[1]->shape.dim[1];
		w->taps = w->step = rows.len / w->channels;
	}
	w->v = rvl_arena_alloc(p->g->arena, bytes);
	if (!w->v)
		return rvl_fail(p->err, -ENOMEM, "no memory for weights");
	memcpy(w->v, n->in[1]->data, bytes);
	w->t->data = w->v;
	each_run(w, add_energy, w->energy);
	p->n++;
	return 0;
}

static int find_weights(struct pruning *p, struct rivulet_prune_report *r)
{
	bool first = true;
	int rc = 0;

	p->w = calloc(p->g->n_nodes + 1u, sizeof(*p->w));
	if (!p->w)
		return rvl_fail(p->err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < p->g->n_nodes && !rc; i++) {
		const struct rvl_node *n = p->g->nodes[i];

		if (!rvl_is_product(n))
			continue;
		if (first || !can_prune(p->g, n))
			r->spared++;
		else
			rc = add_weights(p, n);
		first = false;
	}
	if (!rc && !p->n)
		rc = rvl_fail(p->err, -EINVAL,
			      "no float convolution or matrix product behind the first can be pruned");
	return rc;
}

/* ---- how many ---- */

static double count_of(const struct weights *w)
{
	return (double)(w->rows * w->channels * w->taps);
}

/* How many weights a layer keeps if each run keeps @kept; a run of fewer channels keeps them all. */
static double keeps(const struct weights *w, double kept)
{
	double whole = (double)(w->channels / RUN), rest = (double)(w->channels % RUN);

	return (double)(w->rows * w->taps) * (whole * kept + fmin(rest, kept));
}

/* The share of a layer's energy that its next smaller number of weights gives up. */
static double loss(const struct weights *w, uint32_t from, uint32_t to)
{
	double all = 0, lost = 0;

	for (uint32_t i = 0; i < RUN; i++) {
		all += w->energy[i];
		lost += i >= to && i < from ? w->energy[i] : 0;
	}
	return all > 0 ? lost / all : 0;
}

/* Numbers of weights that arrays of 4 and 8 pairs compute in whole passes, and less. */
static uint32_t next_below(uint32_t kept)
{
	return kept > 4 ? kept - 4 : kept / 2;
}

/* The layer that loses least of its energy for each weight that it gives up. */
static struct weights *cheapest(const struct pruning *p)
{
	struct weights *best = NULL;
	double least = INFINITY;

	for (uint32_t i = 0; i < p->n; i++) {
		struct weights *w = &p->w[i];
		uint32_t kept = (uint32_t)w->kept, next = next_below(kept);
		double price;

		if (kept <= 1)
			continue;
		price = loss(w, kept, next) / (keeps(w, kept) - keeps(w, next) + 1e-9);
		if (price < least) {
			least = price;
			best = w;
		}
	}
	return best;
}

static void share_out(struct pruning *p, double sparsity)
{
	double all = 0, kept = 0;
	struct weights *w;

	for (uint32_t i = 0; i < p->n; i++)
		all += count_of(&p->w[i]);
	kept = all;
	while (kept > all * (1 - sparsity / 100) && (w = cheapest(p))) {
		uint32_t next = next_below((uint32_t)w->kept);

		kept -= keeps(w, w->kept) - keeps(w, next);
		w->kept = next;
	}
}

/* ---- zeros ---- */

/* Magnitudes of one rank, in the order of the runs. */
struct ranked {
	uint32_t rank;
	float *v;
	size_t n;
};

static void take_ranked(const struct run *r, void *arg)
{
	struct ranked *all = arg;

	if (r->n > all->rank)
		all->v[all->n++] = fabsf(*r->at[all->rank]);
}

static int falling(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x > y ? -1 : x < y;
}

/* Each run keeps @whole weights, and one more if its magnitude is @least or more. */
struct cut {
	uint32_t whole;
	float least;
	uint64_t kept;
};

static void cut_run(const struct run *r, void *arg)
{
	struct cut *c = arg;

	for (uint32_t i = 0; i < r->n; i++) {
		if (i < c->whole || (i == c->whole && fabsf(*r->at[i]) >= c->least))
			c->kept++;
		else
			*r->at[i] = 0;
	}
}

/* Where the average is no whole number, the runs with the largest next weight keep it. */
static int find_least(const struct weights *w, struct cut *c)
{
	double part = w->kept - c->whole;
	size_t runs = (size_t)(w->rows * w->taps * ((w->channels + RUN - 1) / RUN));
	struct ranked all = { .rank = c->whole };
	size_t more;

	c->least = INFINITY;
	if (part < 1e-9)
		return 0;
	all.v = malloc((runs + 1) * sizeof(*all.v));
	if (!all.v)
		return -ENOMEM;
	each_run(w, take_ranked, &all);
	qsort(all.v, all.n, sizeof(*all.v), falling);
	more = (size_t)(part * (double)all.n);
	if (more)
		c->least = all.v[more - 1];
	free(all.v);
	return 0;
}

static int cut_weights(const struct pruning *p, struct rivulet_prune_report *r)
{
	for (uint32_t i = 0; i < p->n; i++) {
		const struct weights *w = &p->w[i];
		struct cut c = { .whole = (uint32_t)w->kept };

		if (find_least(w, &c))
			return rvl_fail(p->err, -ENOMEM, "out of memory");
		each_run(w, cut_run, &c);
		r->layers++;
		r->weights += (uint64_t)(w->rows * w->channels * w->taps);
		r->kept += c.kept;
	}
	return 0;
}

int rvl_prune(struct rvl_graph *g, const struct rivulet_prune *opt, struct rivulet_prune_report *r,
	      struct rvl_err *err)
{
	struct pruning p = { .g = g, .err = err };
	int rc = find_weights(&p, r);

	for (uint32_t i = 0; i < p.n && !opt->global; i++)
		p.w[i].kept = RUN * (1 - opt->sparsity / 100);
	if (!rc && opt->global)
		share_out(&p, opt->sparsity);
	if (!rc)
		rc = cut_weights(&p, r);
	free(p.w);
	return rc;
}

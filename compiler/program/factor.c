/* SPDX-License-Identifier: MIT */
/* The weights of a model's products as integers of few bits, and what their products cost. */
#include "rivulet_factor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pass/passes.h"
#include "program/program.h"
#include "quant/insert.h"

/* One product while it is counted. */
struct product {
	const struct rvl_node *n;
	struct rvl_rows rows;
	struct rivulet_ibtf_shape shape; /* of a group */
	int16_t *w;			 /* kernel after kernel */
	struct rivulet_ibtf_slices cut;
	void *scratch;
};

static void product_free(struct product *p)
{
	free(p->w);
	free(p->cut.width);
	free(p->scratch);
}

/* ---- weights ---- */

static int32_t zero_of(const struct rvl_tensor *t, int64_t row)
{
	return !t->quant.n ? 0 : t->quant.zp[t->quant.n > 1 ? row : 0];
}

/* Element @at of the weights, which belongs to kernel @row, less its zero point. */
static float weight_at(const struct rvl_tensor *t, int64_t at, int64_t row)
{
	if (t->type == RVL_TYPE_F32)
		return ((const float *)t->data)[at];
	if (t->type == RVL_TYPE_U8)
		return (float)(((const uint8_t *)t->data)[at] - zero_of(t, row));
	return (float)(((const int8_t *)t->data)[at] - zero_of(t, row));
}

/*
 * The factor that makes the largest magnitude of a kernel the largest value of @bits bits; double,
 * because it is beyond float for the smallest magnitudes.
 */
static double factor_of(const struct product *p, int64_t row, uint32_t bits)
{
	float most = 0;

	for (int64_t i = 0; i < p->rows.len; i++)
		most = fmaxf(most, fabsf(weight_at(p->n->in[1],
						   row * p->rows.row + i * p->rows.step, row)));
	return most > 0 ? ((1 << (bits - 1)) - 1) / (double)most : 1;
}

static void round_weights(struct product *p, uint32_t bits)
{
	for (int64_t k = 0; k < p->rows.n; k++) {
		double f = bits ? factor_of(p, k, bits) : 1;

		for (int64_t i = 0; i < p->rows.len; i++) {
			float v = weight_at(p->n->in[1], k * p->rows.row + i * p->rows.step, k);

			p->w[k * p->rows.len + i] = (int16_t)rint(v * f);
		}
	}
}

/* No integers stand for infinite values and NaN. */
static bool is_finite(const struct rvl_tensor *t)
{
	int64_t n = t->type == RVL_TYPE_F32 ? rvl_shape_count(&t->shape) : 0;

	for (int64_t i = 0; i < n; i++)
		if (!isfinite(((const float *)t->data)[i]))
			return false;
	return true;
}

/* Takes the weights as they are, or rounds them where they have more than @bits bits. */
static void take_weights(struct product *p, uint32_t bits)
{
	bool exact = p->n->in[1]->type != RVL_TYPE_F32;
	size_t count = (size_t)(p->rows.n * p->rows.len);

	if (!exact)
		bits = bits ? bits : 8;
	round_weights(p, exact ? 0 : bits);
	p->shape.p = rivulet_ibtf_bits(p->w, count, &p->shape.is_signed);
	if (exact && bits && p->shape.p > bits) {
		round_weights(p, bits);
		p->shape.p = rivulet_ibtf_bits(p->w, count, &p->shape.is_signed);
	}
}

/* ---- products ---- */

/* Products that only a general kernel computes. */
static bool is_general_product(const struct rvl_node *n)
{
	static const char *const names[] = {
		"Attention",	   "Conv",	    "ConvInteger",   "ConvTranspose", "DeformConv",
		"Einsum",	   "FusedConv",	    "GRU",	     "Gemm",	      "LSTM",
		"LinearAttention", "MatMul",	    "MatMulInteger", "MatMulNBits",   "QGemm",
		"QLinearConv",	   "QLinearMatMul", "RNN",
	};

	for (size_t i = 0; n->def && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(n->def->name, names[i]))
			return true;
	return false;
}

static bool is_product(const struct rvl_node *n)
{
	return rvl_op_traits(n->op) & RVL_TRAIT_PRODUCT || n->op == RVL_OP_B_CONV ||
	       is_general_product(n);
}

static bool has_weights(const struct rvl_node *n)
{
	const struct rvl_tensor *t = n->in[1];

	return t->data &&
	       (t->type == RVL_TYPE_F32 || t->type == RVL_TYPE_U8 || t->type == RVL_TYPE_S8) &&
	       (rvl_op_quantised(n->op) == RVL_OP_Q_CONV || t->shape.rank == 2) &&
	       rvl_shape_count(&t->shape) > 0;
}

static int product_new(const struct rvl_node *n, uint32_t bits, struct product *p)
{
	uint32_t groups = rvl_op_quantised(n->op) == RVL_OP_Q_CONV ? (uint32_t)n->attr.group : 1;

	*p = (struct product){ .n = n, .rows = rvl_rows_of(n) };
	p->shape.n = (uint32_t)p->rows.len;
	p->shape.m = (uint32_t)p->rows.n / groups;
	p->w = malloc((size_t)(p->rows.n * p->rows.len) * sizeof(*p->w));
	if (!p->w)
		return -ENOMEM;
	take_weights(p, bits);
	p->cut.width = malloc((size_t)p->shape.m * p->shape.p);
	p->scratch = malloc(rivulet_ibtf_scratch(&p->shape));
	return p->cut.width && p->scratch ? 0 : -ENOMEM;
}

static void add_choice(struct rivulet_ibtf_choice *sum, const struct rivulet_ibtf_choice *c,
		       uint64_t times)
{
	sum->nonzero += times * c->nonzero;
	sum->eq_mac += times * c->eq_mac;
	sum->formula += (double)times * c->formula;
	sum->even += times * c->even;
	sum->fitted += times * c->fitted;
	sum->tables += times * c->tables;
	sum->adds += times * c->adds;
	sum->storage += c->storage;
}

static void note_widths(const struct rivulet_ibtf_slices *cut, struct rivulet_factor_row *row)
{
	for (uint32_t i = 0; i < cut->n; i++) {
		row->narrowest = cut->width[i] < row->narrowest ? cut->width[i] : row->narrowest;
		row->widest = cut->width[i] > row->widest ? cut->width[i] : row->widest;
	}
}

/* Groups may differ in form; the row names the form with the fewest additions over all of them. */
static enum rivulet_ibtf_form form_of(const struct rivulet_ibtf_choice *c)
{
	if (c->tables < c->even && c->tables < c->fitted)
		return RIVULET_IBTF_TABLES;
	return c->fitted < c->even ? RIVULET_IBTF_FITTED : RIVULET_IBTF_EVEN;
}

static void count_product(struct product *p, struct rivulet_factor_row *row)
{
	row->groups = (uint32_t)p->rows.n / p->shape.m;
	row->n = p->shape.n;
	row->m = p->shape.m;
	row->p = p->shape.p;
	row->windows = rvl_node_macs(p->n) / (uint64_t)(p->rows.n * p->rows.len);
	row->narrowest = RIVULET_IBTF_WIDEST;
	for (uint32_t i = 0; i < row->groups; i++) {
		struct rivulet_ibtf_choice c;

		rivulet_ibtf_choose(&p->shape, p->w + (size_t)i * row->m * row->n, p->scratch,
				    &p->cut, &c);
		note_widths(&p->cut, row);
		if (!i) {
			row->of.formula_a = c.formula_a;
			row->of.even_a = c.even_a;
			row->of.group = c.group;
		}
		add_choice(&row->of, &c, 1);
	}
	row->of.form = form_of(&row->of);
}

static int add_row(const struct rvl_node *n, uint32_t bits, struct rivulet_factor *out,
		   struct rvl_err *err)
{
	struct rivulet_factor_row *row = &out->rows[out->n_rows];
	struct product p;
	int rc;

	if (!is_finite(n->in[1]))
		return rvl_fail(err, -EINVAL, "weights of node \"%s\" are infinite or NaN",
				n->name);
	rc = product_new(n, bits, &p);
	if (!rc) {
		row->node = strdup(n->name);
		rc = row->node ? 0 : -ENOMEM;
	}
	if (!rc) {
		count_product(&p, row);
		out->n_rows++;
	}
	product_free(&p);
	return rc ? rvl_fail(err, rc, "no memory for weights") : 0;
}

static int factor(struct rvl_graph *g, uint32_t bits, struct rivulet_factor *out,
		  struct rvl_err *err)
{
	int rc = rvl_optimise(g, err);

	if (rc)
		return rc;
	out->rows = calloc(g->n_nodes + 1u, sizeof(*out->rows));
	if (!out->rows)
		return rvl_fail(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < g->n_nodes && !rc; i++) {
		const struct rvl_node *n = g->nodes[i];

		if (rvl_op_traits(n->op) & RVL_TRAIT_PRODUCT && has_weights(n))
			rc = add_row(n, bits, out, err);
		else
			out->left_out += is_product(n);
	}
	return rc;
}

int rivulet_factor_model(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
			 uint32_t bits, struct rivulet_factor *out, struct rvl_err *err)
{
	struct rvl_graph *g = NULL;
	int rc;

	*out = (struct rivulet_factor){ 0 };
	if (bits == 1 || bits > 8)
		return rvl_fail(err, -EINVAL, "weights are rounded to 2 to 8 bits");
	rc = rvl_read_model(onnx, size, opt, &g, err);
	if (!rc)
		rc = rvl_graph_check_supported(g, err);
	if (!rc)
		rc = factor(g, bits, out, err);
	rvl_graph_free(g);
	return rc;
}

void rivulet_factor_free(struct rivulet_factor *f)
{
	for (uint32_t i = 0; i < f->n_rows; i++)
		free(f->rows[i].node);
	free(f->rows);
	*f = (struct rivulet_factor){ 0 };
}

struct rivulet_factor_row rivulet_factor_sums(const struct rivulet_factor *f)
{
	struct rivulet_factor_row sum = { 0 };

	for (uint32_t i = 0; i < f->n_rows; i++)
		add_choice(&sum.of, &f->rows[i].of, f->rows[i].windows);
	return sum;
}

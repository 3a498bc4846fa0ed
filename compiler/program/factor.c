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

/* The weights of a product's groups: input i of kernel k of group j is at j * group + k * kernel + i * input. */
struct weights {
	const struct rvl_tensor *t, *zero; /* @zero: the operand of the zero points, or NULL */
	uint32_t groups;
	int64_t n, m; /* of a group */
	int64_t group, kernel, input;
	uint64_t windows;
};

/* One product while it is counted. */
struct product {
	struct weights of;
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

/* Of the kernel with this number in all groups. */
static int32_t zero_of(const struct weights *w, int64_t kernel)
{
	const struct rvl_tensor *z = w->zero;

	if (!z)
		return !w->t->quant.n ? 0 : w->t->quant.zp[w->t->quant.n > 1 ? kernel : 0];
	kernel = rvl_shape_count(&z->shape) > 1 ? kernel : 0;
	return z->type == RVL_TYPE_U8 ? ((const uint8_t *)z->data)[kernel] :
					((const int8_t *)z->data)[kernel];
}

/* A weight less its zero point; @kernel counts the kernels of all groups. */
static float weight_at(const struct weights *w, int64_t kernel, int64_t input)
{
	int64_t at = kernel / w->m * w->group + kernel % w->m * w->kernel + input * w->input;

	if (w->t->type == RVL_TYPE_F32)
		return ((const float *)w->t->data)[at];
	if (w->t->type == RVL_TYPE_U8)
		return (float)(((const uint8_t *)w->t->data)[at] - zero_of(w, kernel));
	return (float)(((const int8_t *)w->t->data)[at] - zero_of(w, kernel));
}

/*
 * The factor that makes the largest magnitude of a kernel the largest value of @bits bits; double,
 * because it is beyond float for the smallest magnitudes.
 */
static double factor_of(const struct product *p, int64_t kernel, uint32_t bits)
{
	float most = 0;

	for (int64_t i = 0; i < p->of.n; i++)
		most = fmaxf(most, fabsf(weight_at(&p->of, kernel, i)));
	return most > 0 ? ((1 << (bits - 1)) - 1) / (double)most : 1;
}

static void round_weights(struct product *p, uint32_t bits)
{
	for (int64_t k = 0; k < p->of.m * p->of.groups; k++) {
		double f = bits ? factor_of(p, k, bits) : 1;

		for (int64_t i = 0; i < p->of.n; i++)
			p->w[k * p->of.n + i] = (int16_t)rint(weight_at(&p->of, k, i) * f);
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
	bool exact = p->of.t->type != RVL_TYPE_F32;
	size_t count = (size_t)rvl_shape_count(&p->of.t->shape);

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

static bool is_weights(const struct rvl_tensor *t)
{
	return t && t->data &&
	       (t->type == RVL_TYPE_F32 || t->type == RVL_TYPE_U8 || t->type == RVL_TYPE_S8) &&
	       rvl_shape_count(&t->shape) > 0;
}

/* Rows of @row weights, one for each kernel. */
static void take_rows(struct weights *w, struct rvl_rows r, int64_t groups, uint64_t windows)
{
	w->groups = (uint32_t)groups;
	w->n = r.len;
	w->m = r.n / groups;
	w->group = w->m * r.row;
	w->kernel = r.row;
	w->input = r.step;
	w->windows = windows;
}

/* Channels, then outputs of a group and their taps, each a kernel of the channels at one pixel. */
static void take_transposed(struct weights *w, const struct rvl_node *n, int64_t groups)
{
	const struct rvl_shape *x = &n->in[0]->shape;
	int64_t channels = w->t->shape.dim[0];

	w->groups = (uint32_t)groups;
	w->n = channels / groups;
	w->m = rvl_shape_count(&w->t->shape) / channels;
	w->group = w->n * w->m;
	w->kernel = 1;
	w->input = w->m;
	w->windows = (uint64_t)(rvl_shape_count(x) / channels);
}

/* Zero points that are operand @at, if there are any. False: they are computed. */
static bool take_zeros(struct weights *w, const struct rvl_node *n, uint32_t at)
{
	w->zero = n->n_in > at ? n->in[at] : NULL;
	return !w->zero || w->zero->data;
}

/* Products that only a general kernel computes, by constant weights. */
static bool general_weights(const struct rvl_node *n, struct weights *w)
{
	const struct rvl_tensor *y = n->out[0];
	const int64_t *d = w->t->shape.dim;
	int64_t groups, rows;
	struct rvl_call c;

	rvl_node_call(n, &c);
	if (!strcmp(n->def->name, "MatMulInteger") && w->t->shape.rank == 2) {
		take_rows(w, (struct rvl_rows){ .n = d[1], .len = d[0], .row = 1, .step = d[1] }, 1,
			  (uint64_t)(rvl_shape_count(&y->shape) / d[1]));
		return take_zeros(w, n, 3);
	}
	if (!strcmp(n->def->name, "ConvInteger")) {
		groups = rvl_attr_int(&c, "group");
		if (groups < 1 || d[0] % groups)
			return false;
		rows = rvl_shape_count(&w->t->shape) / d[0];
		take_rows(w, (struct rvl_rows){ .n = d[0], .len = rows, .row = rows, .step = 1 }, groups,
			  (uint64_t)(rvl_shape_count(&y->shape) / d[0]));
		return take_zeros(w, n, 3);
	}
	groups = rvl_attr_int(&c, "group");
	if (strcmp(n->def->name, "ConvTranspose") || groups < 1 || d[0] % groups)
		return false;
	take_transposed(w, n, groups);
	return true;
}

/* False: not a product, or not of one constant matrix of weights. */
static bool find_weights(const struct rvl_node *n, struct weights *w)
{
	bool conv = rvl_op_quantised(n->op) == RVL_OP_Q_CONV;

	*w = (struct weights){ .t = n->n_in > 1 ? n->in[1] : NULL };
	if (!is_weights(w->t))
		return false;
	if (n->op == RVL_OP_GENERAL)
		return general_weights(n, w);
	if (!(rvl_op_traits(n->op) & RVL_TRAIT_PRODUCT) || (!conv && w->t->shape.rank != 2))
		return false;
	take_rows(w, rvl_rows_of(n), conv ? n->attr.group : 1,
		  rvl_node_macs(n) / (uint64_t)rvl_shape_count(&w->t->shape));
	return true;
}

static int product_new(const struct weights *w, uint32_t bits, struct product *p)
{
	*p = (struct product){ .of = *w };
	p->shape.n = (uint32_t)w->n;
	p->shape.m = (uint32_t)w->m;
	p->w = malloc((size_t)rvl_shape_count(&w->t->shape) * sizeof(*p->w));
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
	row->groups = p->of.groups;
	row->n = p->shape.n;
	row->m = p->shape.m;
	row->p = p->shape.p;
	row->windows = p->of.windows;
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

static int add_row(const struct rvl_node *n, const struct weights *w, uint32_t bits,
		   struct rivulet_factor *out, struct rvl_err *err)
{
	struct rivulet_factor_row *row = &out->rows[out->n_rows];
	struct product p;
	int rc;

	if (!is_finite(w->t))
		return rvl_fail(err, -EINVAL, "weights of node \"%s\" are infinite or NaN",
				n->name);
	rc = product_new(w, bits, &p);
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
		struct weights w;

		if (find_weights(n, &w))
			rc = add_row(n, &w, bits, out, err);
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

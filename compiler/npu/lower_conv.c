/* SPDX-License-Identifier: MIT */
/*
 * Convolutions and matrix products. Everything that docs/numerics.md 1 allows to be folded is: the
 * zero point of the input goes into the bias (a padded position holds the zero point, so that it
 * adds nothing), that of the weights into the weights, which then may need several int8 summands.
 */
#include "npu/epilogue.h"

#include <limits.h>
#include <string.h>

#define MAX_TERMS 3
#define MAX_PADDING 16384 /* C_KERNEL has the first tap's place in 16 bits with a sign */

/* The int8 summands of a weight in [-255, 255]: each takes as much as fits. */
static uint32_t terms_of(int lo, int hi)
{
	uint32_t up = (hi + 126) / 127, down = (127 - lo) / 128;

	return rvl_max(1, rvl_max(up, down));
}

/* What all weights are, without their zero points. */
struct weight_range {
	int lo, hi; /* around 0 */
};

/*
 * Sum and range of @n bytes XOR @flip. Neighbouring bytes are counted without a sign, so that a
 * vector unit takes many at a time.
 */
static uint32_t sum_bytes(const uint8_t *p, int64_t n, uint8_t flip, uint8_t *lo, uint8_t *hi)
{
	uint8_t least = 255, most = 0;
	uint32_t sum = 0;

	for (int64_t i = 0; i < n; i++) {
		uint8_t v = p[i] ^ flip;

		sum += v;
		least = v < least ? v : least;
		most = v > most ? v : most;
	}
	*lo = least;
	*hi = most;
	return sum;
}

/* Adds the weights of output @m, which are next to each other, to its sum. */
static void add_bytes(const struct rvl_weights *w, int64_t m, uint32_t *sum, struct weight_range *r)
{
	int flip, zp, above;
	const uint8_t *p = rvl_weights_at(w, m, 0, &flip, &zp);
	uint8_t lo, hi;

	above = 128 - flip + zp; /* by which a byte is above its weight */
	sum[m] = sum_bytes(p, w->k, flip ^ 128, &lo, &hi) - (uint32_t)(w->k * above);
	r->lo = rvl_min(r->lo, lo - above);
	r->hi = rvl_max(r->hi, hi - above);
}

/* Adds the weights of output @m to its sum. */
static void add_row(const struct rvl_weights *w, int64_t m, uint32_t *sum, struct weight_range *r)
{
	int flip, zp, lo = r->lo, hi = r->hi;
	const uint8_t *p = rvl_weights_at(w, m, 0, &flip, &zp);
	uint32_t s = 0;

	for (int64_t k = 0; k < w->k; k++) {
		int v = (int8_t)(p[k * w->k_stride] ^ flip) + flip - zp;

		s += v;
		lo = v < lo ? v : lo;
		hi = v > hi ? v : hi;
	}
	sum[m] = s;
	r->lo = lo;
	r->hi = hi;
}

/* Adds the weights of product channel @k to the sums of all outputs. */
static void add_column(const struct rvl_weights *w, int64_t k, uint32_t *sum, struct weight_range *r)
{
	int64_t per_output = w->t->quant.n > 1;
	int flip, zp, lo = r->lo, hi = r->hi;
	const uint8_t *p = rvl_weights_at(w, 0, k, &flip, &zp);

	for (int64_t m = 0; m < w->m; m++) {
		int v = (int8_t)(p[m * w->m_stride] ^ flip) + flip - w->t->quant.zp[m * per_output];

		sum[m] += v;
		lo = v < lo ? v : lo;
		hi = v > hi ? v : hi;
	}
	r->lo = lo;
	r->hi = hi;
}

/* The sum of the weights of each output. They are read in the order in which they lie in memory. */
static struct weight_range sum_weights(const struct rvl_weights *w, uint32_t *sum)
{
	struct weight_range r = { 0, 0 };

	if (w->k_stride <= w->m_stride) {
		for (int64_t m = 0; m < w->m; m++) {
			if (w->k_stride == 1 && w->k)
				add_bytes(w, m, sum, &r);
			else
				add_row(w, m, sum, &r);
		}
		return r;
	}
	memset(sum, 0, w->m * sizeof(*sum));
	for (int64_t k = 0; k < w->k; k++)
		add_column(w, k, sum, &r);
	return r;
}

/* Without values: zero points alone decide, so that what fits now fits with the values too. */
static uint32_t terms_bound(const struct rvl_tensor *w)
{
	int lo = w->type == RVL_TYPE_U8 ? 0 : -128, hi = w->type == RVL_TYPE_U8 ? 255 : 127;
	uint32_t most = 1;

	for (uint32_t i = 0; i < w->quant.n; i++)
		most = rvl_max(most, terms_of(lo - w->quant.zp[i], hi - w->quant.zp[i]));
	return most;
}

/* Makes the sums of weights in l->p.bias the biases. */
static void fold_bias(struct rvl_layer *l, const struct rvl_tensor *bias)
{
	for (int64_t m = 0; m < l->p.m; m++) {
		uint32_t sum = l->p.bias[m], b = bias ? ((const uint32_t *)bias->data)[m] : 0;

		l->p.raw_bias[m] = (int32_t)b;
		l->p.bias[m] = (int32_t)(b - (uint32_t)l->in.zp * sum);
	}
}

/* docs/numerics.md 1: float32 in this order; alpha is 1 but for QGemm. */
static void set_factors(struct rvl_layer *l, const struct rvl_node *n)
{
	const struct rvl_quant *wq = &n->in[1]->quant;
	float xs = n->in[0]->quant.scale[0], ys = n->out[0]->quant.scale[0];

	if (n->attr.alpha != 1.0f)
		xs = n->attr.alpha * xs;
	for (int64_t m = 0; m < l->p.m; m++) {
		float p = xs * wq->scale[wq->n > 1 ? m : 0];

		l->p.mult[m] = p / ys;
	}
}

static void set_clamp(struct rvl_layer *l, const struct rvl_node *n)
{
	int32_t lo, hi, shift = n->out[0]->type == RVL_TYPE_U8 ? 128 : 0;

	rvl_node_q_range(n, &lo, &hi);
	l->e.rq_zp = l->out.zp;
	l->e.rq_lo = lo - shift;
	l->e.rq_hi = hi - shift;
}

static bool allocate(struct rvl_graph *g, struct rvl_layer *l)
{
	l->p.bias = rvl_arena_array(g->arena, l->p.m, sizeof(*l->p.bias));
	l->p.raw_bias = rvl_arena_array(g->arena, l->p.m, sizeof(*l->p.raw_bias));
	l->p.mult = rvl_arena_array(g->arena, l->p.m, sizeof(*l->p.mult));
	return l->p.bias && l->p.raw_bias && l->p.mult;
}

static struct rvl_layer *finish(struct rvl_graph *g, struct rvl_layer *l, const struct rvl_node *n,
				bool values, const char **why)
{
	const struct rvl_tensor *bias = n->n_in > 2 ? n->in[2] : NULL;
	struct weight_range r;

	set_clamp(l, n);
	l->p.terms = terms_bound(l->p.w.t);
	if (l->p.terms > MAX_TERMS) {
		*why = "weights minus their zero point do not fit three int8 summands";
		return NULL;
	}
	if (!values)
		return l;
	if (!allocate(g, l)) {
		*why = "not enough memory for its weights";
		return NULL;
	}
	r = sum_weights(&l->p.w, (uint32_t *)l->p.bias);
	l->p.terms = terms_of(r.lo, r.hi);
	fold_bias(l, bias);
	set_factors(l, n);
	return l;
}

static const char *check_constants(const struct rvl_node *n)
{
	const struct rvl_tensor *w = n->in[1], *b = n->n_in > 2 ? n->in[2] : NULL;

	if (!rvl_is_quant8(w) || !w->data)
		return "its weights are computed, not constant";
	if (b && (b->type != RVL_TYPE_S32 || !b->data))
		return "its bias is not a constant int32";
	return NULL;
}

static struct rvl_layer *new_conv(struct rvl_graph *g, const struct rvl_node *n, const char **why)
{
	struct rvl_layer *l = rvl_arena_alloc(g->arena, sizeof(*l));

	*why = l ? check_constants(n) : "not enough memory";
	if (*why)
		return NULL;
	l->node = n;
	l->mode = rvl_mode_of(n);
	rvl_epilogue_add(l, &rvl_stage_requantise);
	l->p.win = (struct rvl_window){ 1, 1, 1, 1, 1, 1, 0, 0 };
	l->p.group = 1;
	if (rvl_operand_of(n->in[0], &l->in) && rvl_operand_of(n->out[0], &l->out))
		return l;
	*why = "its input or output has no image form";
	return NULL;
}

struct rvl_layer *rvl_build_conv(struct rvl_graph *g, const struct rvl_node *n, bool values,
				 const char **why)
{
	struct rvl_layer *l = new_conv(g, n, why);
	const struct rvl_attr *a = &n->attr;
	int64_t cpg;

	if (!l)
		return NULL;
	for (int i = 0; i < 4; i++)
		if (a->pad[i] > MAX_PADDING) {
			*why = "its padding is larger than 16384 pixels";
			return NULL;
		}
	cpg = n->in[1]->shape.dim[1];
	l->p.win = (struct rvl_window){
		n->in[1]->shape.dim[2], n->in[1]->shape.dim[3], a->stride[0], a->stride[1],
		a->dilation[0],		a->dilation[1],		a->pad[0],    a->pad[1]
	};
	l->p.group = a->group;
	l->p.m = l->out.v.c;
	l->p.oh = l->out.v.h;
	l->p.ow = l->out.v.w;
	l->p.w = (struct rvl_weights){
		.t = n->in[1], .m = l->p.m, .k = cpg * l->p.win.kh * l->p.win.kw, .k_stride = 1
	};
	l->p.w.m_stride = l->p.w.k;
	l->p.macs = (uint64_t)l->out.v.n * l->p.oh * l->p.ow * l->p.m * l->p.w.k;
	return finish(g, l, n, values, why);
}

struct rvl_layer *rvl_build_matmul(struct rvl_graph *g, const struct rvl_node *n, bool values,
				   const char **why)
{
	struct rvl_layer *l = new_conv(g, n, why);
	const struct rvl_shape *a, *b;
	struct rvl_weights w;

	if (!l)
		return NULL;
	a = &n->in[0]->shape;
	b = &n->in[1]->shape;
	if (a->rank < 1 || b->rank != 2 || n->attr.trans_a || n->out[0]->shape.rank != a->rank) {
		*why = "only a matrix with constant two-dimensional weights";
		return NULL;
	}
	w = (struct rvl_weights){
		.t = n->in[1], .m = b->dim[1], .k = b->dim[0], .m_stride = 1, .k_stride = b->dim[1]
	};
	if (n->attr.trans_b)
		w = (struct rvl_weights){ .t = n->in[1],
				      .m = b->dim[0],
				      .k = b->dim[1],
				      .m_stride = b->dim[1],
				      .k_stride = 1 };
	l->in.v = (struct rvl_view){ 1, w.k, 1, rvl_shape_count(a) / w.k, true, false };
	l->out.v = (struct rvl_view){ 1, w.m, 1, l->in.v.w, true, false };
	l->p.m = w.m;
	l->p.oh = 1;
	l->p.ow = l->in.v.w;
	l->p.macs = (uint64_t)l->p.ow * w.m * w.k;
	l->p.w = w;
	return finish(g, l, n, values, why);
}

/* Rows of the matrix are images flattened in the order c, h, w: exactly a kernel's weights. */
void rvl_matmul_over_image(struct rvl_layer *l, const struct rvl_view *image)
{
	l->in.v = *image;
	l->p.win.kh = image->h;
	l->p.win.kw = image->w;
	l->out.v = (struct rvl_view){ image->n, l->p.m, 1, 1, false, false };
	l->p.ow = 1;
}

/* SPDX-License-Identifier: MIT */
/*
 * Layers on bits (docs/compiler.md 11): convolutions of bits, with scale, bias, shortcut and PRelu in
 * float32 as docs/numerics.md 13 has them, and signs of bytes. The bits of a result are a second
 * result of the layer that makes it.
 */
#include "npu/epilogue.h"
#include "npu/slopes.h"
#include "npu/mode.h"

enum { X, W, SCALE, BIAS, THRESHOLD, SHORTCUT, SHORTCUT_SCALE, PRELU }; /* inputs of BinaryConv */

static const struct rvl_tensor *input(const struct rvl_node *n, uint32_t i)
{
	return i < n->n_in ? n->in[i] : NULL;
}

static const float *floats(const struct rvl_node *n, uint32_t i)
{
	return input(n, i) ? input(n, i)->data : NULL;
}

static bool is_bits(const struct rvl_tensor *t)
{
	return t && t->type == RVL_TYPE_U64;
}

/* The tensor of bits that node @n makes, or NULL. */
static const struct rvl_tensor *bits_made(const struct rvl_node *n)
{
	if (is_bits(n->out[0]))
		return n->out[0];
	return n->n_out > 1 ? n->out[1] : NULL;
}

static int64_t pixel_bytes(int64_t channels)
{
	return rvl_div_up(channels, 64) * 8;
}

/* Words of several pixels, where they fill the word and the rows are whole words. */
static void bits_operand(const struct rivulet_board *b, const struct rvl_tensor *t, int64_t channels,
			 struct rvl_operand *o)
{
	const int64_t *d = t->shape.dim;
	int64_t bytes = pixel_bytes(channels), w = d[2] * 8 / bytes, pixels = 1;

	for (int64_t p = 2; p <= 4; p *= 2)
		if (bytes * p == b->tn && w % p == 0)
			pixels = p;
	*o = (struct rvl_operand){ .v = { d[0], bytes * pixels, d[1], w / pixels, true, false },
				   .pixels = pixels };
}

/* The same bits as bytes of +1 and -1. */
static void bytes_operand(const struct rvl_tensor *t, int64_t channels, struct rvl_operand *o)
{
	const int64_t *d = t->shape.dim;

	*o = (struct rvl_operand){ .v = { d[0], channels, d[1], d[2] * 8 / pixel_bytes(channels),
					  false, false } };
	o->v.inter = o->v.h * o->v.w == 1;
}

/* ---- parameters of channels ---- */

/*
 * Thresholds of a uint8 tensor are those of its bytes as int8, too. No channel behind the last one
 * reaches its threshold.
 */
static void set_thresholds(struct rvl_layer *l, int64_t lanes, const struct rvl_tensor *t, int64_t shift)
{
	const int32_t *threshold = t->data;

	for (int64_t m = 0; m < rvl_shape_count(&t->shape); m++)
		*rvl_epilogue_param(l, lanes, l->e.ext_fields - 1, m) =
			(uint32_t)(int32_t)rvl_max((int64_t)threshold[m] - shift, INT32_MIN);
	for (int64_t m = rvl_shape_count(&t->shape); m % lanes; m++)
		*rvl_epilogue_param(l, lanes, l->e.ext_fields - 1, m) = INT32_MAX;
}

/* docs/numerics.md 13: A, B, R, slope, E. */
static void set_reals(struct rvl_layer *l, const struct rvl_node *n, int64_t lanes)
{
	const struct rvl_tensor *shortcut = input(n, SHORTCUT);
	const float *k = floats(n, SHORTCUT_SCALE), *prelu = floats(n, PRELU);
	float ys = n->out[0]->quant.scale[0];
	float ratio = shortcut ? shortcut->quant.scale[0] / ys : 0;

	for (int64_t m = 0; m < l->p.m; m++) {
		float bias = floats(n, BIAS)[m] / ys;

		l->p.mult[m] = floats(n, SCALE)[m] / ys;
		l->p.bias[m] = (int32_t)rvl_float_bits(bias);
		if (shortcut)
			*rvl_epilogue_param(l, lanes, 0, m) = rvl_float_bits((k ? k[m] : 1) * ratio);
		if (!prelu)
			continue;
		*rvl_epilogue_param(l, lanes, l->has_b, m) = rvl_float_bits(prelu[m]);
		*rvl_epilogue_param(l, lanes, l->has_b + 1, m) = rvl_float_bits(prelu[l->p.m + m] / ys);
	}
}

static bool set_params(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l)
{
	const struct rvl_node *n = l->node;

	int64_t fields = l->has_b + 2 * l->e.prelu + l->has_bits;

	if (fields && !rvl_epilogue_params(g, l, fields, b->tm, l->p.m))
		return false;
	if (!l->e.only)
		set_reals(l, n, b->tm);
	if (l->has_bits)
		set_thresholds(l, b->tm, input(n, THRESHOLD),
			       !l->e.only && n->out[0]->type == RVL_TYPE_U8 ? 128 : 0);
	return true;
}

/* ---- convolution ---- */

/* The weights as bytes of +1 and -1, row by row in the order of a convolution. */
static struct rvl_tensor *bytes_of_weights(struct rvl_graph *g, const struct rvl_node *n)
{
	const struct rvl_tensor *w = input(n, W);
	const int64_t *d = w->shape.dim;
	int64_t taps = d[1] * d[2], channels = n->attr.block;
	struct rvl_tensor *t = rvl_arena_alloc(g->arena, sizeof(*t));
	int8_t *byte = rvl_arena_array(g->arena, d[0] * channels * taps, 1);
	static const int32_t zero = 0;
	static const float one = 1;

	if (!t || !byte)
		return NULL;
	for (int64_t i = 0; i < d[0] * channels * taps; i++) {
		int64_t m = i / (channels * taps), c = i / taps % channels, tap = i % taps;
		const uint64_t *words = (const uint64_t *)w->data + (m * taps + tap) * d[3];

		byte[i] = words[c / 64] >> c % 64 & 1 ? 1 : -1;
	}
	*t = (struct rvl_tensor){ .type = RVL_TYPE_S8, .data = byte,
				  .quant = { .n = 1, .scale = &one, .zp = &zero } };
	return t;
}

/* The layer as int8 products: the sums of +1 and -1 are those of the bits. */
static bool settle_bytes(struct rvl_graph *g, struct rvl_layer *l)
{
	const struct rvl_node *n = l->node;
	int64_t k = n->attr.block * l->p.win.kh * l->p.win.kw;

	l->mode = &rvl_mode_dense;
	bytes_operand(n->in[X], n->attr.block, &l->in);
	l->in.zp = n->attr.count_include_pad; /* what a position of the padding holds */
	if (!l->p.mult)
		return true;
	l->p.w = (struct rvl_weights){ .t = bytes_of_weights(g, n), .m = l->p.m, .k = k, .m_stride = k,
				       .k_stride = 1 };
	return l->p.w.t;
}

static void set_result(struct rvl_layer *l, const struct rvl_node *n)
{
	int32_t lo, hi, shift = n->out[0]->type == RVL_TYPE_U8 ? 128 : 0;

	l->has_bits = bits_made(n);
	l->e.only = is_bits(n->out[0]);
	l->e.real = true;
	l->e.prelu = input(n, PRELU);
	l->e.sum_lo = n->attr.f_lo;
	l->e.sum_hi = n->attr.f_hi;
	rvl_epilogue_add(l, &rvl_stage_real);
	if (l->has_bits)
		rvl_epilogue_add(l, &rvl_stage_bits);
	if (l->e.only)
		return;
	rvl_node_q_range(n, &lo, &hi);
	l->e.out_zp = l->out.zp;
	l->e.out_lo = lo - shift;
	l->e.out_hi = hi - shift;
	l->has_b = input(n, SHORTCUT);
	l->e.bz = l->has_b ? l->b.zp : 0;
}

static void set_product(struct rvl_layer *l, const struct rvl_node *n)
{
	const int64_t *w = n->in[W]->shape.dim, *y = bits_made(n) ? bits_made(n)->shape.dim : NULL;
	const struct rvl_attr *a = &n->attr;

	l->p.win = (struct rvl_window){ w[1], w[2], a->stride[0], a->stride[1],
					a->dilation[0], a->dilation[1], a->pad[0], a->pad[1] };
	l->p.group = a->group;
	l->p.m = w[0];
	l->p.oh = y ? y[1] : l->out.v.h;
	l->p.ow = y ? y[2] * 8 / pixel_bytes(w[0]) : l->out.v.w;
	l->p.terms = 1;
	l->p.macs = rvl_node_macs(n);
}

static bool fields_hold(const struct rvl_window *w)
{
	return w->kh <= 31 && w->kw <= 31 && w->sy <= 31 && w->sx <= 31 && w->dy <= 63 &&
	       w->dx <= 63;
}

struct rvl_layer *rvl_build_binary_conv(struct rvl_graph *g, const struct rvl_node *n, bool values,
					const char **why)
{
	struct rvl_layer *l = rvl_arena_alloc(g->arena, sizeof(*l));

	*why = l ? "its input or output has no image form" : "not enough memory";
	if (!l || (!is_bits(n->out[0]) && !rvl_wide_operand_of(n->out[0], &l->out)) ||
	    (input(n, SHORTCUT) && !rvl_wide_operand_of(input(n, SHORTCUT), &l->b)))
		return NULL;
	l->node = n;
	l->mode = &rvl_mode_binary;
	set_result(l, n);
	set_product(l, n);
	if (!fields_hold(&l->p.win)) {
		*why = "binary: its kernel or stride is beyond 31, or its dilation beyond 63";
		return NULL;
	}
	if (!values)
		return l;
	*why = "not enough memory for its weights";
	l->p.bias = rvl_arena_array(g->arena, l->p.m, sizeof(*l->p.bias));
	l->p.mult = rvl_arena_array(g->arena, l->p.m, sizeof(*l->p.mult));
	return l->p.bias && l->p.mult ? l : NULL;
}

/* ---- signs ---- */

struct rvl_layer *rvl_build_binary_sign(struct rvl_graph *g, const struct rvl_node *n, bool values,
					const char **why)
{
	struct rvl_layer *l = rvl_arena_alloc(g->arena, sizeof(*l));

	(void)values;
	*why = l ? "its input has no image form" : "not enough memory";
	if (!l || !rvl_wide_operand_of(n->in[0], &l->in))
		return NULL;
	l->node = n;
	if (n->out[0]->npu_bytes) {
		bytes_operand(n->out[0], l->in.v.c, &l->out);
		l->e.out_lo = -1;
		l->e.out_hi = 1;
		rvl_epilogue_add(l, &rvl_stage_narrow);
		return l;
	}
	l->has_bits = true;
	l->e.only = true;
	rvl_epilogue_add(l, &rvl_stage_bits);
	return l;
}

/* 2 x - 2 t + 1, which is 1 or more from the threshold t on and else -1 or less, is clamped. */
static bool settle_sign_bytes(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l,
			      const struct rvl_node *n)
{
	const int32_t *threshold = n->in[1]->data;
	int64_t shift = n->in[0]->type == RVL_TYPE_U8 ? 128 : 0;

	if (!rvl_epilogue_params(g, l, 2, b->tn, l->in.v.c))
		return false;
	for (int64_t m = 0; m < l->in.v.c; m++) {
		l->e.ext[2 * m] = rvl_float_bits((float)(1 - 2 * ((int64_t)threshold[m] - shift)));
		l->e.ext[2 * m + 1] = rvl_float_bits(2);
	}
	return true;
}

/* Bits of the bytes of @x by the thresholds of @n. */
static bool settle_sign(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l,
			const struct rvl_node *n, int64_t channels)
{
	int64_t lanes = l->mode ? b->tm : b->tn;

	bits_operand(b, n->out[0], channels, &l->bits);
	if (!rvl_epilogue_params(g, l, 1, lanes, channels))
		return false;
	set_thresholds(l, lanes, n->in[1], n->in[0]->type == RVL_TYPE_U8 ? 128 : 0);
	return true;
}

/* ---- what depends on the board ---- */

/* The channels of a word that the ALU reads are whole bytes of a pixel. */
static const char *bits_fit(const struct rivulet_board *b, const struct rvl_layer *l)
{
	int64_t lanes = l->mode ? b->tm : b->tn;

	if (!(b->modes >> RIVULET_MODE_BINARY & 1))
		return "this board's ALU makes no bits";
	return lanes % 8 || 8 * b->tn / rvl_max(l->bits.pixels, 1) % lanes ?
		       "this board's words do not hold whole bytes of bits" : NULL;
}

static bool settle_conv(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l)
{
	const struct rvl_node *n = l->node;

	bits_operand(b, n->in[X], n->attr.block, &l->in);
	l->in.zp = n->attr.count_include_pad > 0 ? -1 : 0; /* all bits of the padding */
	if (l->has_bits)
		bits_operand(b, bits_made(n), l->p.m, &l->bits);
	if (l->e.only)
		l->out = l->bits;
	if (!(n->in[X]->npu_bytes ? settle_bytes(g, l) : rvl_binary_form(g, b, l)))
		return false;
	return !l->p.mult || set_params(g, b, l);
}

bool rvl_layer_settle(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l,
		      const char **why)
{
	bool ok = true;

	if (l->node->op == RVL_OP_B_CONV)
		ok = settle_conv(g, b, l);
	else if (l->node->op == RVL_OP_B_SIGN)
		ok = l->has_bits ? settle_sign(g, b, l, l->node, l->in.v.c) :
				   settle_sign_bytes(g, b, l, l->node);
	else if (rvl_is_slopes(l->node))
		ok = rvl_slopes_settle(g, b, l, l->node);
	else if (rvl_is_narrow(l->node))
		ok = rvl_narrow_settle(g, b, l);
	if (ok && l->node->op == RVL_OP_B_SIGN && l->has_bits)
		l->out = l->bits;
	*why = ok ? NULL : "not enough memory for its parameters";
	if (ok && l->in.pixels && l->p.group > 1 && l->p.m / l->p.group % b->tm)
		*why = "binary: its groups have output channels that are no multiple of the array's rows";
	if (!*why && l->has_bits)
		*why = bits_fit(b, l);
	return !*why;
}

bool rvl_layer_take_bits(struct rvl_graph *g, const struct rivulet_board *b, struct rvl_layer *l,
			 const struct rvl_node *n, bool only)
{
	if (n->out[0]->npu_bytes || l->has_bits || l->e.real || l->e.ext_fields || l->spread || l->rep.rows || !l->e.stages ||
	    n->in[1]->type != RVL_TYPE_S32 || l->out.v.c != rvl_shape_count(&n->in[1]->shape))
		return false;
	if (!settle_sign(g, b, l, n, l->out.v.c) || bits_fit(b, l))
		return false;
	l->has_bits = true;
	l->e.only = only && (l->mode || !l->e.pool);
	rvl_epilogue_add(l, &rvl_stage_bits);
	if (l->e.only)
		l->out = l->bits;
	return true;
}

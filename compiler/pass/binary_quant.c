/* SPDX-License-Identifier: MIT */
/*
 * Binary layers between quantised images: a DequantizeLinear in front of a sign or a shortcut and
 * the QuantizeLinear behind a layer become parameters of the operands (docs/compiler.md 11). The
 * bits of a result compare the stored bytes then.
 */
#include "pass/binary.h"
#include "pass/fuse.h"
#include "pass/pass.h"
#include "qmath.h"

#include <errno.h>

/* The bytes from which @t is dequantised, with one scale. */
static bool bytes_of(struct rvl_graph *g, const struct rvl_tensor *t, struct rvl_qsource *s)
{
	const struct rvl_node *dq = t ? t->producer : NULL;

	if (!dq || dq->op != RVL_OP_DEQUANTIZE || dq->in[0]->type == RVL_TYPE_S32)
		return false;
	return rvl_qsource_of(g, dq->in[0], dq->in[1], dq->n_in > 2 ? dq->in[2] : NULL,
			      dq->attr.axis, s) && s->n == 1 && rvl_quant_fits(s);
}

/* The least integer of the type whose value, as DequantizeLinear computes it, reaches @threshold. */
static int32_t least_integer(const struct rvl_qsource *s, float threshold)
{
	bool u8 = s->t->type == RVL_TYPE_U8, wide = s->t->type == RVL_TYPE_S16;
	int32_t first = wide ? -32768 : rvl_qmin(u8), last = wide ? 32767 : rvl_qmax(u8);
	int32_t lo = first - 1, hi = last + 1;

	while (hi - lo > 1) {
		int32_t middle = lo + (hi - lo) / 2;

		if (rvl_dequantize(middle, s->scale[0], s->zp[0]) >= threshold)
			hi = middle;
		else
			lo = middle;
	}
	return hi > last ? INT32_MAX : hi == first ? INT32_MIN : hi;
}

/* The float thresholds of input @i as those of bytes. */
static int set_thresholds(struct rvl_graph *g, struct rvl_node *n, uint32_t i,
			  const struct rvl_qsource *s, struct rvl_err *err)
{
	const struct rvl_shape *shape = &n->in[i]->shape;
	int64_t count = rvl_shape_count(shape);
	const float *t = n->in[i]->data;
	int32_t *v = rvl_arena_array(g->arena, (size_t)count, sizeof(*v));
	struct rvl_tensor *made;
	int rc;

	if (!v)
		return rvl_fail(err, -ENOMEM, "no memory for thresholds");
	for (int64_t c = 0; c < count; c++)
		v[c] = least_integer(s, t[c]);
	rc = rvl_tensor_const(g, NULL, RVL_TYPE_S32, shape, v, &made, err);
	return rc ? rc : rvl_node_set_in(g, n, i, made, err);
}

static int take_bytes(struct rvl_graph *g, struct rvl_node *n, uint32_t i, struct rvl_qsource *s,
		      struct rvl_err *err)
{
	int rc = rvl_quant_adopt(g, s, err);

	return rc ? rc : rvl_node_set_in(g, n, i, s->t, err);
}

static int quantise_sign(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_qsource x;
	int rc;

	if (n->in[0]->type != RVL_TYPE_F32 || !bytes_of(g, n->in[0], &x))
		return 0;
	rc = set_thresholds(g, n, 1, &x, err);
	return rc ? rc : take_bytes(g, n, 0, &x, err);
}

/* The QuantizeLinear that alone reads the image of the layer. */
static struct rvl_node *quantiser_of(struct rvl_graph *g, const struct rvl_node *n,
				     struct rvl_qsource *y)
{
	struct rvl_node *q = rvl_only_user(n->out[0]);

	if (!q || q->op != RVL_OP_QUANTIZE ||
	    !rvl_qsource_of(g, q->out[0], q->in[1], q->n_in > 2 ? q->in[2] : NULL, q->attr.axis, y))
		return NULL;
	return y->n == 1 && rvl_quant_fits(y) ? q : NULL;
}

/*
 * The bits of a stored result are not always those of the float that was rounded to it. They are taken
 * only where calibration chose the rounding; a model that has it of itself computes what it says.
 */
static int quantise_layer(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_tensor *shortcut = n->n_in > RVL_B_SHORTCUT ? n->in[RVL_B_SHORTCUT] : NULL;
	bool has_bits = n->n_out > 1 && n->out[1];
	struct rvl_qsource x, y;
	struct rvl_node *q;
	int rc;

	if (shortcut && !bytes_of(g, shortcut, &x))
		return 0;
	if (n->out[0]->type == RVL_TYPE_S16 && shortcut) /* quant/wide.c has made it */
		return take_bytes(g, n, RVL_B_SHORTCUT, &x, err);
	if (n->out[0]->type != RVL_TYPE_F32)
		return 0;
	q = quantiser_of(g, n, &y);
	if (!q)
		return 0;
	if (has_bits && !g->calibrated) {
		n->note = "its bits compare floats, which the model's QuantizeLinear would round before";
		return 0;
	}
	rc = rvl_quant_adopt(g, &y, err);
	if (!rc && shortcut)
		rc = take_bytes(g, n, RVL_B_SHORTCUT, &x, err);
	if (!rc && has_bits)
		rc = set_thresholds(g, n, RVL_B_THRESHOLD, &y, err);
	if (rc)
		return rc;
	rvl_node_remove(g, q);
	rvl_node_set_out(n, 0, y.t);
	return 0;
}

int rvl_binary_quantise(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	if (n->op == RVL_OP_B_SIGN)
		return quantise_sign(g, n, err);
	return n->op == RVL_OP_B_CONV ? quantise_layer(g, n, err) : 0;
}

static struct rvl_qsource source_of(struct rvl_tensor *q)
{
	return (struct rvl_qsource) {
		.t = q, .n = 1, .scale = q->quant.scale, .zp = (int32_t *)(uintptr_t)q->quant.zp,
	};
}

bool rvl_binary_reads(const struct rvl_node *n, const struct rvl_tensor *t)
{
	return (n->op == RVL_OP_B_SIGN && n->in[0] == t) ||
	       (n->op == RVL_OP_B_CONV && n->n_in > RVL_B_SHORTCUT && n->in[RVL_B_SHORTCUT] == t);
}

int rvl_binary_read(struct rvl_graph *g, struct rvl_node *n, struct rvl_tensor *q, struct rvl_err *err)
{
	struct rvl_qsource s = source_of(q);
	bool sign = n->op == RVL_OP_B_SIGN;
	int rc = sign ? set_thresholds(g, n, 1, &s, err) : 0;

	return rc ? rc : rvl_node_set_in(g, n, sign ? 0 : RVL_B_SHORTCUT, q, err);
}

int rvl_binary_make(struct rvl_graph *g, struct rvl_node *n, struct rvl_tensor *q, struct rvl_err *err)
{
	struct rvl_qsource s = source_of(q);

	rvl_node_set_out(n, 0, q);
	return n->n_out > 1 ? set_thresholds(g, n, RVL_B_THRESHOLD, &s, err) : 0;
}

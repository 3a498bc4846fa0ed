/* SPDX-License-Identifier: MIT */
/* What quantised convolutions and matrix products have in common: their parameters and weights. */
#include "qproduct.h"

#include "qmath.h"
#include "ref.h"

bool rvl_q_is_byte(const struct rvl_kernel_arg *a, bool per_channel)
{
	return (a->type == RVL_TYPE_U8 || a->type == RVL_TYPE_S8) &&
	       (a->quant.n == 1 || (per_channel && a->quant.n > 1));
}

/* A float operator may have a bias that is left out. */
static bool has_bias(const struct rvl_kernel_desc *d)
{
	return d->n_in > 2 && (d->in[2].type != RVL_TYPE_NONE || rvl_op_traits(d->op) & RVL_TRAIT_MADE);
}

bool rvl_q_fits(const struct rvl_kernel_desc *d)
{
	bool made = rvl_op_traits(d->op) & RVL_TRAIT_MADE;

	if (!rvl_q_is_byte(&d->in[0], false) || !rvl_q_is_byte(&d->in[1], true))
		return false;
	return made ? rvl_q_is_byte(&d->out[0], false) : d->out[0].type == RVL_TYPE_F32 && !d->attr.sc_length;
}

struct rvl_qparams rvl_q_with_bias(const struct rvl_kernel *k, const void *const *in)
{
	struct rvl_qparams q = k->q;

	if (has_bias(&k->d) && q.floats)
		q.added = in[2];
	else if (has_bias(&k->d))
		q.bias = in[2];
	return q;
}

/* Scales and zero points of the weights, spread over the output channels. */
static int channel_params(struct rvl_kernel *k, int64_t channels, float alpha)
{
	const struct rvl_kernel_quant *w = &k->d.in[1].quant;
	float xs = alpha * k->d.in[0].quant.scale[0];
	float ys = k->q.floats ? 1 : k->d.out[0].quant.scale[0];
	float *scale = rvl_kernel_mem(k, channels, sizeof(*scale));
	int32_t *wz = rvl_kernel_mem(k, channels, sizeof(*wz));

	if (!scale || !wz)
		return -ENOMEM;
	for (int64_t c = 0; c < channels; c++) {
		int64_t i = w->n > 1 ? c : 0;

		scale[c] = rvl_requant_scale(xs, w->scale[i], ys);
		wz[c] = w->zp[i];
	}
	k->q.scale = scale;
	k->q.wz = wz;
	return 0;
}

void rvl_q_drop_params(struct rvl_kernel *k, int64_t channels)
{
	rvl_kernel_drop(k, k->q.scale, channels, sizeof(*k->q.scale));
	rvl_kernel_drop(k, k->q.wz, channels, sizeof(*k->q.wz));
	k->q.scale = NULL;
	k->q.wz = NULL;
}

static void clamp_range(struct rvl_kernel *k)
{
	int32_t least = rvl_qmin(k->q.y_u8), most = rvl_qmax(k->q.y_u8);

	k->q.lo = rvl_clamp(k->d.attr.q_lo, least, most);
	k->q.hi = rvl_clamp(k->d.attr.q_hi, least, most);
	/* The upper bound is applied last, so that it is the result where the lower one is above it. */
	k->q.lo = k->q.lo < k->q.hi ? k->q.lo : k->q.hi;
}

int rvl_q_params(struct rvl_kernel *k, int64_t channels, float alpha, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_kernel_arg *b = has_bias(d) ? &d->in[2] : NULL;
	bool floats = d->out[0].type == RVL_TYPE_F32;
	enum rvl_type type = floats ? RVL_TYPE_F32 : RVL_TYPE_S32;

	if (b && (b->type != type || rvl_shape_count(&b->shape) != channels))
		return rvl_why(why, "bias is not %s with one value per output channel", rvl_type_name(type));
	if (d->in[1].quant.n > 1 && (int64_t)d->in[1].quant.n != channels)
		return rvl_why(why, "weights have scales for %u channels", d->in[1].quant.n);
	k->q = (struct rvl_qparams) {
		.x_u8 = d->in[0].type == RVL_TYPE_U8, .w_u8 = d->in[1].type == RVL_TYPE_U8,
		.y_u8 = d->out[0].type == RVL_TYPE_U8,
		.xz = d->in[0].quant.zp[0], .yz = floats ? 0 : d->out[0].quant.zp[0],
		.bias = b && !floats ? b->data : NULL,
		.floats = floats, .f_lo = d->attr.f_lo, .f_hi = d->attr.f_hi,
	};
	clamp_range(k);
	return channel_params(k, channels, alpha);
}

int32_t rvl_q_weight(const void *ctx, int64_t n, int64_t tap, int64_t c)
{
	const struct rvl_q_weights *x = ctx;

	return rvl_ld8(x->w, n * x->row + tap * x->tap + c * x->col, x->k->q.w_u8) -
	       x->k->q.wz[n];
}

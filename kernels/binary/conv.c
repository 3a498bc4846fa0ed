/* SPDX-License-Identifier: MIT */
/* BinaryConv: checks of the operands and preparation. */
#include "binary/binary.h"
#include "qmath.h"

static const struct rvl_kernel_arg *input(const struct rvl_kernel_desc *d, uint32_t i)
{
	return i < d->n_in && d->in[i].type != RVL_TYPE_NONE ? &d->in[i] : NULL;
}

static bool is_integer_image(const struct rvl_kernel_arg *a)
{
	return (a->type == RVL_TYPE_S8 || a->type == RVL_TYPE_U8 || a->type == RVL_TYPE_S16) &&
	       a->quant.n == 1;
}

static bool is_bits(const struct rvl_kernel_arg *a)
{
	return a->type == RVL_TYPE_U64;
}

/* ---- geometry ---- */

/* The images of the convolution, whose input and weights are words, as a Conv of numbers has them. */
static int geometry(struct rvl_kernel *k, const int64_t nmhw[4], char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_shape *x = &d->in[RVL_B_X].shape, *w = &d->in[RVL_B_W].shape;
	int64_t c = d->attr.block, words = rvl_b_words(c);
	struct rvl_kernel_desc image = { .attr = d->attr };
	struct rvl_kernel_arg kernel = { .type = RVL_TYPE_U64 };

	if (x->rank != 3 || w->rank != 4 || c < 1 || x->dim[2] % words || d->attr.group < 1 ||
	    c % d->attr.group)
		return rvl_why(why, "input and weights are not images of bits");
	image.in[0].shape = (struct rvl_shape) {
		.rank = 4, .dim = { x->dim[0], c, x->dim[1], x->dim[2] / words },
	};
	image.out[0].shape = (struct rvl_shape) {
		.rank = 4, .dim = { nmhw[0], nmhw[1], nmhw[2], nmhw[3] },
	};
	kernel.shape = (struct rvl_shape) {
		.rank = 4, .dim = { w->dim[0], c / d->attr.group, w->dim[1], w->dim[2] },
	};
	if (w->dim[3] != rvl_b_words(c / d->attr.group))
		return rvl_why(why, "the weights are words of other channels");
	return rvl_conv_geometry(&image, &kernel, &k->g, why);
}

/* The size of the result: of output 0, or of the bits for as many channels as the weights have. */
static bool result_shape(const struct rvl_kernel_desc *d, int64_t nmhw[4])
{
	const struct rvl_shape *y = &d->out[0].shape;
	int64_t m = d->in[RVL_B_W].shape.rank ? d->in[RVL_B_W].shape.dim[0] : 0;

	if (!is_bits(&d->out[0]))
		return rvl_b_image_shape(y, nmhw) && nmhw[1] == m;
	if (y->rank != 3 || m < 1 || y->dim[2] % rvl_b_words(m))
		return false;
	nmhw[0] = y->dim[0];
	nmhw[1] = m;
	nmhw[2] = y->dim[1];
	nmhw[3] = y->dim[2] / rvl_b_words(m);
	return true;
}

/* ---- parameters ---- */

/* in[i] / unit, or @other where the operand is absent. */
static int make_floats(struct rvl_kernel *k, uint32_t i, int64_t row, float unit, float other,
		       const float **out, char *why)
{
	const struct rvl_kernel_arg *a = input(&k->d, i);
	const float *from = a ? (const float *)a->data + row * k->g.m : NULL;
	float *to = rvl_kernel_mem(k, k->g.m + RVL_B_NR, sizeof(*to));

	if (!to)
		return -ENOMEM;
	for (int64_t m = 0; m < k->g.m; m++) {
		to[m] = (from ? from[m] : other) * unit;
		if (!(fabsf(to[m]) < RVL_B_MOST_PARAMETER))
			return rvl_why(why, "a parameter of channel %lld is no number below 2^60",
				       (long long)m);
	}
	*out = to;
	return 0;
}

/* The same, divided. */
static int make_quotients(struct rvl_kernel *k, uint32_t i, int64_t row, float unit,
			  const float **out, char *why)
{
	float *to;
	int rc = make_floats(k, i, row, 1, 0, out, why);

	to = (float *)(uintptr_t)*out;
	for (int64_t m = 0; !rc && m < k->g.m; m++) {
		to[m] /= unit;
		if (!(fabsf(to[m]) < RVL_B_MOST_PARAMETER))
			return rvl_why(why, "a parameter of channel %lld is no number below 2^60",
				       (long long)m);
	}
	return rc;
}

/* Thresholds and weights of channels behind the last one are never read as results. */
static int make_thresholds(struct rvl_kernel *k, struct rvl_b_post *p, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_kernel_arg *t = input(d, RVL_B_THRESHOLD);
	enum rvl_type want = d->out[0].type == RVL_TYPE_F32 ? RVL_TYPE_F32 : RVL_TYPE_S32;
	bool bits = is_bits(&d->out[0]) || d->n_out > 1;
	uint32_t *to;

	if (!t != !bits)
		return rvl_why(why, "bits without thresholds, or thresholds without bits");
	if (!t)
		return 0;
	if (!rvl_b_is_vector(d, RVL_B_THRESHOLD, want, k->g.m))
		return rvl_why(why, "the thresholds are not one constant for each channel");
	to = rvl_kernel_mem(k, k->g.m + RVL_B_NR, sizeof(*to));
	if (!to)
		return -ENOMEM;
	for (int64_t m = 0; m < k->g.m; m++)
		to[m] = ((const uint32_t *)t->data)[m];
	if (want == RVL_TYPE_F32)
		p->t_float = (const float *)to;
	else
		p->t_int = (const int32_t *)to;
	return 0;
}

static int make_shortcut(struct rvl_kernel *k, struct rvl_b_post *p, float unit, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_kernel_arg *s = input(d, RVL_B_SHORTCUT);
	float step = 1;

	if (!s)
		return input(d, RVL_B_SHORTCUT_SCALE) ? rvl_why(why, "a scale without a shortcut") : 0;
	if (!rvl_shape_equal(&s->shape, &d->out[0].shape) ||
	    !(is_integer_image(s) || s->type == RVL_TYPE_F32))
		return rvl_why(why, "the shortcut is no image of the size of the result");
	if (input(d, RVL_B_SHORTCUT_SCALE) &&
	    !rvl_b_is_vector(d, RVL_B_SHORTCUT_SCALE, RVL_TYPE_F32, k->g.m))
		return rvl_why(why, "the scales of the shortcut are not one constant for each channel");
	if (s->type != RVL_TYPE_F32) {
		step = s->quant.scale[0];
		p->shortcut_zero = s->quant.zp[0];
	}
	p->shortcut = s->type;
	k->bin->sp = rvl_b_pitch(s);
	return make_floats(k, RVL_B_SHORTCUT_SCALE, 0, step / unit, 1, &p->shortcut_scale, why);
}

static int make_prelu(struct rvl_kernel *k, struct rvl_b_post *p, float unit, char *why)
{
	const struct rvl_kernel_arg *a = input(&k->d, RVL_B_PRELU);
	int rc;

	if (!a)
		return 0;
	if (a->type != RVL_TYPE_F32 || !a->data || a->shape.rank != 2 || a->shape.dim[0] != 2 ||
	    a->shape.dim[1] != k->g.m)
		return rvl_why(why, "the parameters of PRelu are not two constants for each channel");
	rc = make_floats(k, RVL_B_PRELU, 0, 1, 0, &p->slope, why);
	return rc ? rc : make_quotients(k, RVL_B_PRELU, 1, unit, &p->after, why);
}

static void make_range(struct rvl_kernel *k, struct rvl_b_post *p)
{
	const struct rvl_kernel_arg *y = &k->d.out[0];
	int32_t least = y->type == RVL_TYPE_U8 ? 0 : y->type == RVL_TYPE_S8 ? -128 : -32768;
	int32_t most = y->type == RVL_TYPE_U8 ? 255 : y->type == RVL_TYPE_S8 ? 127 : 32767;

	p->y_zero = y->quant.zp[0];
	p->q_lo = rvl_clamp(k->d.attr.q_lo, least, most);
	p->q_hi = rvl_clamp(k->d.attr.q_hi, least, most);
}

/* The numbers that follow the sum, in units of the result's steps. */
static int make_values(struct rvl_kernel *k, struct rvl_b_post *p, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_kernel_arg *y = &d->out[0];
	float unit = 1;
	int rc;

	if (y->type != RVL_TYPE_F32 && !is_integer_image(y))
		return rvl_why(why, "its result is neither float nor quantised to 8 or 16 bits");
	if (!rvl_b_is_vector(d, RVL_B_SCALE, RVL_TYPE_F32, k->g.m) ||
	    !rvl_b_is_vector(d, RVL_B_BIAS, RVL_TYPE_F32, k->g.m))
		return rvl_why(why, "scale and bias are not one constant for each channel");
	if (y->type != RVL_TYPE_F32) {
		unit = y->quant.scale[0];
		make_range(k, p);
	}
	rc = make_quotients(k, RVL_B_SCALE, 0, unit, &p->scale, why);
	if (!rc)
		rc = make_quotients(k, RVL_B_BIAS, 0, unit, &p->bias, why);
	if (!rc)
		rc = make_shortcut(k, p, unit, why);
	return rc ? rc : make_prelu(k, p, unit, why);
}

static int no_values(const struct rvl_kernel_desc *d, char *why)
{
	static const uint32_t unused[] = { RVL_B_SCALE, RVL_B_BIAS, RVL_B_SHORTCUT,
					   RVL_B_SHORTCUT_SCALE, RVL_B_PRELU };

	for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]); i++)
		if (input(d, unused[i]))
			return rvl_why(why, "bits of sums have no input %u", unused[i]);
	return d->n_out > 1 ? rvl_why(why, "bits of sums are the only output") : 0;
}

static int make_post(struct rvl_kernel *k, struct rvl_b_post *p, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	int rc;

	p->lo = d->attr.f_lo;
	p->hi = d->attr.f_hi;
	if (!(p->lo <= p->hi))
		return rvl_why(why, "the clamp of the sums is empty");
	p->clamped = !rvl_is_unclamped(&d->attr);
	p->y = d->out[0].type;
	rc = is_bits(&d->out[0]) ? no_values(d, why) : make_values(k, p, why);
	return rc ? rc : make_thresholds(k, p, why);
}

static int check_conv(struct rvl_kernel *k, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	int64_t nmhw[4];
	int rc;

	if (d->in[RVL_B_X].type != RVL_TYPE_U64 || d->in[RVL_B_W].type != RVL_TYPE_U64 ||
	    !d->in[RVL_B_W].data)
		return rvl_why(why, "input and weights are not bits, or the weights not constant");
	if (!result_shape(d, nmhw))
		return rvl_why(why, "the result is no image of the channels of the weights");
	rc = geometry(k, nmhw, why);
	if (rc)
		return rc;
	if (d->n_out > 1 && !rvl_b_is_image(&d->out[1], nmhw[1], (int64_t[]) { nmhw[0], nmhw[2], nmhw[3] }))
		return rvl_why(why, "the second output is not the bits of the first");
	if (k->g.c / k->g.group * k->g.k[0] * k->g.k[1] > RVL_B_MOST_PRODUCTS)
		return rvl_why(why, "sums of more than 2^24 products");
	if (d->attr.count_include_pad < -1 || d->attr.count_include_pad > 1)
		return rvl_why(why, "the padding is none of 0, 1 and -1");
	return 0;
}

int rvl_setup_b_conv(struct rvl_kernel *k, bool reference, char *why)
{
	struct rvl_b_conv *b = rvl_kernel_mem(k, 1, sizeof(*b));
	int rc;

	k->bin = b;
	if (!b)
		return -ENOMEM;
	rc = check_conv(k, why);
	if (!rc)
		rc = make_post(k, &b->post, why);
	if (rc)
		return rc;
	b->words = rvl_b_words(k->g.c);
	b->group_words = rvl_b_words(k->g.c / k->g.group);
	b->out_words = rvl_b_words(k->g.m);
	b->padding = k->d.attr.count_include_pad;
	if (!is_bits(&k->d.out[0]))
		k->g.yp = rvl_b_pitch(&k->d.out[0]);
	k->run = reference ? rvl_b_conv_ref : rvl_b_conv_fast;
	rc = reference ? 0 : rvl_b_conv_pack(k);
	if (rc == -E2BIG)
		rvl_why(why, "a padded image of more than %lld MiB", (long long)(RVL_MAX_SCRATCH >> 20));
	return rc;
}

/* SPDX-License-Identifier: MIT */
/* Layers on bits for the graphs of qgraph.h: signs of bytes and convolutions of bits. */
#ifndef RVL_TEST_QBINARY_H
#define RVL_TEST_QBINARY_H

#include <math.h>

#include "qgraph.h"

static inline int64_t qb_words(int64_t channels)
{
	return (channels + 63) / 64;
}

/* A tensor of the bits of an image of this shape. */
static inline struct rvl_tensor *qb_bits(struct qg *q, int64_t n, int64_t c, int64_t h, int64_t w)
{
	return qg_plain_tensor(q, NULL, RVL_TYPE_U64, (struct rvl_shape){ 3, { n, h, w * qb_words(c) } });
}

/* Random weights; bits behind the last channel are 0. */
static inline struct rvl_tensor *qb_weights(struct qg *q, int64_t m, int64_t c, int64_t kh, int64_t kw)
{
	int64_t words = qb_words(c), n = m * kh * kw * words;
	uint64_t *data = malloc(n * sizeof(*data)), last = c % 64 ? (1ull << c % 64) - 1 : ~0ull;
	struct rvl_tensor *t;

	for (int64_t i = 0; data && i < n; i++)
		data[i] = qg_random(q) & (i % words == words - 1 ? last : ~0ull);
	if (!data)
		q->rc = -1;
	t = qg_const(q, RVL_TYPE_U64, (struct rvl_shape){ 4, { m, kh, kw, words } }, data);
	free(data);
	return t;
}

/* @rows x @cols floats in [lo, hi), one in eight of them negated. */
static inline struct rvl_tensor *qb_floats(struct qg *q, int64_t rows, int64_t cols, float lo, float hi)
{
	float *data = malloc(rows * cols * sizeof(*data));
	struct rvl_tensor *t;

	for (int64_t i = 0; data && i < rows * cols; i++)
		data[i] = (lo + (hi - lo) * (float)qg_range(q, 0, 4095) / 4096) *
			  (qg_range(q, 0, 7) ? 1 : -1);
	if (!data)
		q->rc = -1;
	t = qg_const(q, RVL_TYPE_F32,
		     rows > 1 ? (struct rvl_shape){ 2, { rows, cols } } : (struct rvl_shape){ 1, { cols } },
		     data);
	free(data);
	return t;
}

/* Thresholds in [lo, hi], and some that all values or none reach. */
static inline struct rvl_tensor *qb_thresholds(struct qg *q, int64_t m, int64_t lo, int64_t hi)
{
	int32_t *data = malloc(m * sizeof(*data));
	struct rvl_tensor *t;

	for (int64_t i = 0; data && i < m; i++) {
		int64_t odd = qg_range(q, 0, 20);

		data[i] = odd == 0 ? INT32_MIN : odd == 1 ? INT32_MAX : (int32_t)qg_range(q, lo, hi);
	}
	if (!data)
		q->rc = -1;
	t = qg_const(q, RVL_TYPE_S32, (struct rvl_shape){ 1, { m } }, data);
	free(data);
	return t;
}

static inline void qb_range(enum rvl_type t, int64_t *lo, int64_t *hi)
{
	*lo = t == RVL_TYPE_U8 ? 0 : t == RVL_TYPE_S16 ? -32768 : -128;
	*hi = *lo + (t == RVL_TYPE_S16 ? 65535 : 255);
}

/* The bits of an image of bytes, or of floats in [-1, 1]. */
static inline struct rvl_tensor *qb_sign(struct qg *q, const char *name, struct rvl_tensor *x)
{
	const int64_t *d;
	struct rvl_tensor *in[2], *y;
	int64_t lo, hi;

	if (q->rc)
		return NULL;
	d = x->shape.dim;
	qb_range(x->type, &lo, &hi);
	in[0] = x;
	in[1] = x->type == RVL_TYPE_F32 ? qb_floats(q, 1, d[1], -1, 1) : qb_thresholds(q, d[1], lo, hi);
	y = qb_bits(q, d[0], d[1], d[2], d[3]);
	qg_node(q, RVL_OP_B_SIGN, name, 2, in, y);
	return y;
}

/** struct qb_conv - a convolution of bits to add; sizes, strides and dilations left out are 1 */
struct qb_conv {
	int64_t c, m, kh, kw, sy, sx, dy, dx, pad[4], group;
	int32_t padding;	     /* what a position of it is */
	struct rvl_tensor *shortcut; /* or NULL */
	bool prelu, relu;
	enum rvl_type type; /* of the image */
	bool bits, only;    /* also bits; nothing but bits */
};

static inline void qb_inputs(struct qg *q, const struct qb_conv *c, struct rvl_tensor **in)
{
	float sum = sqrtf((float)(c->c * qg_or_1(c->kh) * qg_or_1(c->kw)));
	int64_t lo, hi;

	qb_range(c->type, &lo, &hi);

	in[1] = qb_weights(q, c->m, c->c / qg_or_1(c->group), qg_or_1(c->kh), qg_or_1(c->kw));
	if (c->bits || c->only)
		in[4] = qb_thresholds(q, c->m, c->only ? (int64_t)-sum : lo,
				      c->only ? (int64_t)sum : hi);
	if (c->only)
		return;
	in[2] = qb_floats(q, 1, c->m, 0.5f / sum, 4 / sum);
	in[3] = qb_floats(q, 1, c->m, -0.5f, 0.5f);
	in[5] = c->shortcut;
	if (c->shortcut && qg_range(q, 0, 1))
		in[6] = qb_floats(q, 1, c->m, 0.5f, 2);
	if (c->prelu)
		in[7] = qb_floats(q, 2, c->m, -0.3f, 0.3f);
}

static inline void qb_attributes(struct rvl_node *n, const struct qb_conv *c)
{
	n->attr.kernel[0] = qg_or_1(c->kh);
	n->attr.kernel[1] = qg_or_1(c->kw);
	n->attr.stride[0] = qg_or_1(c->sy);
	n->attr.stride[1] = qg_or_1(c->sx);
	n->attr.dilation[0] = qg_or_1(c->dy);
	n->attr.dilation[1] = qg_or_1(c->dx);
	n->attr.block = c->c;
	n->attr.group = qg_or_1(c->group);
	n->attr.count_include_pad = c->padding;
	for (int i = 0; i < 4; i++)
		n->attr.pad[i] = c->pad[i];
	if (c->relu)
		n->attr.f_lo = 0;
}

/* The image, or with @c->only its bits; with @c->bits, *bits is the second result. */
static inline struct rvl_tensor *qb_conv(struct qg *q, const char *name, struct rvl_tensor *x,
					 const struct qb_conv *c, struct rvl_tensor **bits)
{
	struct rvl_tensor *in[8] = { x }, *y;
	int64_t h, w, cols;
	struct rvl_node *n;
	uint32_t n_in = 2;

	if (q->rc)
		return NULL;
	cols = x->shape.dim[2] / qb_words(c->c);
	h = qg_out_dim(x->shape.dim[1], qg_or_1(c->kh), qg_or_1(c->sy), qg_or_1(c->dy), c->pad[0], c->pad[2]);
	w = qg_out_dim(cols, qg_or_1(c->kw), qg_or_1(c->sx), qg_or_1(c->dx), c->pad[1], c->pad[3]);
	qb_inputs(q, c, in);
	for (uint32_t i = 2; i < 8; i++)
		n_in = in[i] ? i + 1 : n_in;
	y = c->only ? qb_bits(q, x->shape.dim[0], c->m, h, w) : c->type == RVL_TYPE_F32 ?
		      qg_float_tensor(q, (struct rvl_shape){ 4, { x->shape.dim[0], c->m, h, w } }) :
		      qg_tensor(q, NULL, c->type, (struct rvl_shape){ 4, { x->shape.dim[0], c->m, h, w } },
				c->type == RVL_TYPE_S16 ? 0.03f / 256 : 0.03f, qg_zp(q, c->type));
	n = qg_node(q, RVL_OP_B_CONV, name, n_in, in, y);
	if (q->rc)
		return NULL;
	qb_attributes(n, c);
	if (!c->bits)
		return y;
	*bits = qb_bits(q, x->shape.dim[0], c->m, h, w);
	rvl_node_set_out(n, 1, *bits);
	n->n_out = 2;
	return y;
}

#endif

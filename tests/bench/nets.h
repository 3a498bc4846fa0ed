/* SPDX-License-Identifier: MIT */
/* Quantised networks with random weights, up to their last layer of convolutions, for benches. */
#ifndef RVL_BENCH_NETS_H
#define RVL_BENCH_NETS_H

#include <stdio.h>

#include "qgraph.h"

/* A convolution of uint8 as the networks have them. */
static inline struct rvl_tensor *conv(struct qg *q, struct rvl_tensor *x, int64_t m, int64_t k, int64_t s,
			       int64_t group)
{
	struct qg_conv c = {
		.m = m, .kh = k, .kw = k, .sy = s, .sx = s, .group = group,
		.pad = { k / 2, k / 2, k / 2, k / 2 }, .wtype = RVL_TYPE_S8, .per_channel = true,
		.bias = true, .relu = true, .ytype = RVL_TYPE_U8, .wscale = 1 / 4096.0f,
		.yscale = 1 / 64.0f,
	};

	return qg_conv(q, NULL, x, &c);
}

static inline struct rvl_tensor *add(struct qg *q, struct rvl_tensor *a, struct rvl_tensor *b)
{
	struct rvl_tensor *in[] = { a, b };
	struct rvl_tensor *y = qg_tensor(q, NULL, RVL_TYPE_U8, a->shape, 1 / 64.0f, 128);

	qg_node(q, RVL_OP_Q_ADD, NULL, 2, in, y);
	return y;
}

static inline struct rvl_tensor *input(struct qg *q, struct rvl_shape s)
{
	struct rvl_tensor *t = qg_tensor(q, "image", RVL_TYPE_U8, s, 1 / 64.0f, 128);

	qg_input(q, t);
	return t;
}

static inline struct rvl_tensor *image(struct qg *q)
{
	return input(q, (struct rvl_shape){ 4, { 1, 3, 224, 224 } });
}

static inline struct rvl_tensor *transpose(struct qg *q, struct rvl_tensor *x, const int32_t perm[4])
{
	struct rvl_shape s = { .rank = 4 };
	struct rvl_tensor *y;
	struct rvl_node *n;

	for (int i = 0; i < 4; i++)
		s.dim[i] = x->shape.dim[perm[i]];
	y = qg_tensor(q, NULL, x->type, s, x->quant.scale[0], x->quant.zp[0]);
	n = qg_node(q, RVL_OP_TRANSPOSE, NULL, 1, &x, y);
	if (n) {
		n->attr.perm_rank = 4;
		memcpy(n->attr.perm, perm, 4 * sizeof(*perm));
	}
	return y;
}

/* An image in NHWC, as an input of a model that TensorFlow's exporter wrote. */
static inline struct rvl_tensor *from_nhwc(struct qg *q)
{
	struct rvl_tensor *t = input(q, (struct rvl_shape){ 4, { 1, 224, 224, 3 } });

	return transpose(q, t, (const int32_t[]) { 0, 3, 1, 2 });
}

static inline struct rvl_graph *finish(struct qg *q, struct rvl_tensor *t)
{
	qg_output(q, t);
	if (!q->rc)
		return q->g;
	fprintf(stderr, "%s\n", q->err.msg);
	rvl_graph_free(q->g);
	return NULL;
}

/* Up to the last residual block, because the array does not compute what follows. */
static inline struct rvl_graph *make_resnet18(void)
{
	struct rvl_tensor *t, *y;
	struct qg q;

	qg_open(&q, 18);
	t = qg_max_pool(&q, NULL, conv(&q, image(&q), 64, 7, 2, 1), 3, 2, 1);
	for (int stage = 0; stage < 4; stage++) {
		for (int block = 0; block < 2; block++) {
			int64_t m = 64 << stage, s = stage && !block ? 2 : 1;

			y = conv(&q, conv(&q, t, m, 3, s, 1), m, 3, 1, 1);
			t = add(&q, y, s == 1 ? t : conv(&q, t, m, 1, s, 1));
		}
	}
	return finish(&q, t);
}

static inline struct rvl_tensor *inverted(struct qg *q, struct rvl_tensor *t, int64_t expand, int64_t m,
				   int64_t s)
{
	int64_t c = t->shape.dim[1];
	struct rvl_tensor *y = expand > 1 ? conv(q, t, c * expand, 1, 1, 1) : t;

	y = conv(q, conv(q, y, c * expand, 3, s, c * expand), m, 1, 1, 1);
	return s == 1 && c == m ? add(q, y, t) : y;
}

static inline struct rvl_graph *make_mobilenet(bool tf)
{
	static const struct {
		int64_t expand, m, n, s;
	} part[] = { { 1, 16, 1, 1 },  { 6, 24, 2, 2 },	 { 6, 32, 3, 2 }, { 6, 64, 4, 2 },
		     { 6, 96, 3, 1 },  { 6, 160, 3, 2 }, { 6, 320, 1, 1 } };
	struct rvl_tensor *t;
	struct qg q;

	qg_open(&q, 2);
	t = conv(&q, tf ? from_nhwc(&q) : image(&q), 32, 3, 2, 1);
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++)
		for (int64_t n = 0; n < part[i].n; n++)
			t = inverted(&q, t, part[i].expand, part[i].m, n ? 1 : part[i].s);
	t = conv(&q, t, 1280, 1, 1, 1);
	return finish(&q, tf ? transpose(&q, t, (const int32_t[]) { 0, 2, 3, 1 }) : t);
}

static inline struct rvl_graph *make_mobilenetv2(void)
{
	return make_mobilenet(false);
}

/* As TensorFlow's exporter writes it: input and output are in NHWC. */
static inline struct rvl_graph *make_mobilenetv2_tf(void)
{
	return make_mobilenet(true);
}

/* A node of the table of descriptors; @axis: its attribute of that name, negative: none. */
static inline struct rvl_node *moved(struct qg *q, const char *op, int64_t axis, uint32_t n,
				     struct rvl_tensor *const *in)
{
	const struct rvl_op_def *def = rvl_op_find(NULL, op, 13);
	struct rvl_attr_value *v = rvl_arena_array(q->g->arena, rvl_op_attrs(def) + 1, sizeof(*v));
	struct rvl_node *node = NULL;

	if (!q->rc)
		q->rc = v ? rvl_node_general(q->g, def, v, NULL, &node, &q->err) : -1;
	if (!q->rc && axis >= 0)
		v[0] = (struct rvl_attr_value){ .given = true, .i = axis };
	for (uint32_t i = 0; i < n && !q->rc; i++)
		q->rc = rvl_node_set_in(q->g, node, i, in[i], &q->err);
	return q->rc ? NULL : node;
}

static inline struct rvl_tensor *like(struct qg *q, const struct rvl_tensor *x, struct rvl_shape s)
{
	return qg_tensor(q, NULL, x->type, s, x->quant.scale[0], x->quant.zp[0]);
}

/* Channels of all parts, which have the parameters of the first. */
static inline struct rvl_tensor *concat(struct qg *q, uint32_t n, struct rvl_tensor *const *part)
{
	struct rvl_shape s = part[0]->shape;
	struct rvl_node *node;
	struct rvl_tensor *y;

	for (uint32_t i = 1; i < n; i++)
		s.dim[1] += part[i]->shape.dim[1];
	y = like(q, part[0], s);
	node = moved(q, "Concat", 1, n, part);
	if (node)
		rvl_node_set_out(node, 0, y);
	return y;
}

/* Two halves of the channels. */
static inline void split(struct qg *q, struct rvl_tensor *x, struct rvl_tensor **half)
{
	struct rvl_node *node = moved(q, "Split", 1, 1, &x);
	struct rvl_shape s = x->shape;

	s.dim[1] /= 2;
	for (uint32_t i = 0; i < 2; i++) {
		half[i] = like(q, x, s);
		if (node)
			rvl_node_set_out(node, i, half[i]);
	}
}

static inline struct rvl_tensor *reshape(struct qg *q, struct rvl_tensor *x, struct rvl_shape s)
{
	const struct rvl_shape n = { 1, { s.rank } };
	struct rvl_tensor *in[2] = { x, NULL }, *y = like(q, x, s);

	if (!q->rc)
		q->rc = rvl_tensor_const(q->g, NULL, RVL_TYPE_S64, &n, s.dim, &in[1], &q->err);
	qg_node(q, RVL_OP_RESHAPE, NULL, 2, in, y);
	return y;
}

/* Channels of two groups in turn. */
static inline struct rvl_tensor *shuffle(struct qg *q, struct rvl_tensor *x)
{
	const int64_t c = x->shape.dim[1], h = x->shape.dim[2], w = x->shape.dim[3];
	struct rvl_tensor *g = reshape(q, x, (struct rvl_shape){ 5, { 1, 2, c / 2, h, w } });
	struct rvl_tensor *t = like(q, x, (struct rvl_shape){ 5, { 1, c / 2, 2, h, w } });
	struct rvl_node *n = qg_node(q, RVL_OP_TRANSPOSE, NULL, 1, &g, t);

	if (n) {
		static const int32_t perm[] = { 0, 2, 1, 3, 4 };

		n->attr.perm_rank = 5;
		memcpy(n->attr.perm, perm, sizeof(perm));
	}
	return reshape(q, t, x->shape);
}

/* A stage of a YOLO: half of the channels goes through two blocks, and all that is made is joined. */
static inline struct rvl_tensor *joined_stage(struct qg *q, struct rvl_tensor *x, int64_t m)
{
	struct rvl_tensor *part[4];

	split(q, conv(q, x, m, 1, 1, 1), part);
	for (int i = 2; i < 4; i++)
		part[i] = conv(q, conv(q, part[i - 1], m / 2, 3, 1, 1), m / 2, 3, 1, 1);
	return conv(q, concat(q, 4, part), m, 1, 1, 1);
}

/* The backbone of a YOLO of the smallest size, with its pooling of several sizes. */
static inline struct rvl_graph *make_yolo(void)
{
	struct rvl_tensor *t, *pool[4];
	struct qg q;

	qg_open(&q, 8);
	t = conv(&q, image(&q), 16, 3, 2, 1);
	for (int64_t m = 32; m <= 256; m *= 2)
		t = joined_stage(&q, conv(&q, t, m, 3, 2, 1), m);
	pool[0] = conv(&q, t, 128, 1, 1, 1);
	for (int i = 1; i < 4; i++)
		pool[i] = qg_max_pool(&q, NULL, pool[i - 1], 5, 1, 2);
	return finish(&q, conv(&q, concat(&q, 4, pool), 256, 1, 1, 1));
}

static inline struct rvl_tensor *shuffled_unit(struct qg *q, struct rvl_tensor *x, int64_t m, int64_t s)
{
	struct rvl_tensor *part[2] = { x, x };

	if (s == 1)
		split(q, x, part);
	else
		part[0] = conv(q, conv(q, x, x->shape.dim[1], 3, s, x->shape.dim[1]), m / 2, 1, 1, 1);
	part[1] = conv(q, part[1], m / 2, 1, 1, 1);
	part[1] = conv(q, conv(q, part[1], m / 2, 3, s, m / 2), m / 2, 1, 1, 1);
	return shuffle(q, concat(q, 2, part));
}

/* The layers of ShuffleNetV2, with channels that are whole blocks. */
static inline struct rvl_graph *make_shufflenet(void)
{
	static const int64_t m[] = { 128, 256, 512 };
	struct rvl_tensor *t;
	struct qg q;

	qg_open(&q, 9);
	t = qg_max_pool(&q, NULL, conv(&q, image(&q), 24, 3, 2, 1), 3, 2, 1);
	for (int stage = 0; stage < 3; stage++)
		for (int unit = 0; unit < (stage == 1 ? 8 : 4); unit++)
			t = shuffled_unit(&q, t, m[stage], unit ? 1 : 2);
	return finish(&q, conv(&q, t, 1024, 1, 1, 1));
}

#endif

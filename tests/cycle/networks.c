// SPDX-License-Identifier: MIT
/* Random networks and the layer shapes of MobileNetV2, ResNet18 and VGG16. */
#include "networks.h"

#include <stdio.h>

#include "qgraph.h"

/* Channels and side of the picture, result channels, kernel, stride, groups, pool, addition. */
static const struct cyc_layer shapes[] = {
	{ "mobilenetv2", 3, 224, 32, 3, 2, 1, 0, false },
	{ "mobilenetv2", 32, 112, 32, 3, 1, 32, 0, false },
	{ "mobilenetv2", 32, 112, 16, 1, 1, 1, 0, false },
	{ "mobilenetv2", 16, 112, 96, 1, 1, 1, 0, false },
	{ "mobilenetv2", 96, 112, 96, 3, 2, 96, 0, false },
	{ "mobilenetv2", 96, 56, 24, 1, 1, 1, 0, false },
	{ "mobilenetv2", 24, 56, 144, 1, 1, 1, 0, false },
	{ "mobilenetv2", 144, 56, 144, 3, 1, 144, 0, false },
	{ "mobilenetv2", 144, 56, 24, 1, 1, 1, 0, true },
	{ "mobilenetv2", 144, 56, 144, 3, 2, 144, 0, false },
	{ "mobilenetv2", 144, 28, 32, 1, 1, 1, 0, false },
	{ "mobilenetv2", 32, 28, 192, 1, 1, 1, 0, false },
	{ "mobilenetv2", 192, 28, 192, 3, 1, 192, 0, false },
	{ "mobilenetv2", 192, 28, 32, 1, 1, 1, 0, true },
	{ "mobilenetv2", 192, 28, 192, 3, 2, 192, 0, false },
	{ "mobilenetv2", 192, 14, 64, 1, 1, 1, 0, false },
	{ "mobilenetv2", 64, 14, 384, 1, 1, 1, 0, false },
	{ "mobilenetv2", 384, 14, 384, 3, 1, 384, 0, false },
	{ "mobilenetv2", 384, 14, 64, 1, 1, 1, 0, true },
	{ "mobilenetv2", 384, 14, 96, 1, 1, 1, 0, false },
	{ "mobilenetv2", 96, 14, 576, 1, 1, 1, 0, false },
	{ "mobilenetv2", 576, 14, 576, 3, 1, 576, 0, false },
	{ "mobilenetv2", 576, 14, 96, 1, 1, 1, 0, true },
	{ "mobilenetv2", 576, 14, 576, 3, 2, 576, 0, false },
	{ "mobilenetv2", 576, 7, 160, 1, 1, 1, 0, false },
	{ "mobilenetv2", 160, 7, 960, 1, 1, 1, 0, false },
	{ "mobilenetv2", 960, 7, 960, 3, 1, 960, 0, false },
	{ "mobilenetv2", 960, 7, 160, 1, 1, 1, 0, true },
	{ "mobilenetv2", 960, 7, 320, 1, 1, 1, 0, false },
	{ "mobilenetv2", 320, 7, 1280, 1, 1, 1, 0, false },
	{ "resnet18", 3, 224, 64, 7, 2, 1, 3, false },
	{ "resnet18", 64, 56, 64, 3, 1, 1, 0, false },
	{ "resnet18", 64, 56, 64, 3, 1, 1, 0, true },
	{ "resnet18", 64, 56, 128, 3, 2, 1, 0, false },
	{ "resnet18", 64, 56, 128, 1, 2, 1, 0, false },
	{ "resnet18", 128, 28, 128, 3, 1, 1, 0, false },
	{ "resnet18", 128, 28, 128, 3, 1, 1, 0, true },
	{ "resnet18", 128, 28, 256, 3, 2, 1, 0, false },
	{ "resnet18", 128, 28, 256, 1, 2, 1, 0, false },
	{ "resnet18", 256, 14, 256, 3, 1, 1, 0, false },
	{ "resnet18", 256, 14, 256, 3, 1, 1, 0, true },
	{ "resnet18", 256, 14, 512, 3, 2, 1, 0, false },
	{ "resnet18", 256, 14, 512, 1, 2, 1, 0, false },
	{ "resnet18", 512, 7, 512, 3, 1, 1, 0, false },
	{ "resnet18", 512, 7, 512, 3, 1, 1, 0, true },
	{ "vgg16", 3, 224, 64, 3, 1, 1, 0, false },
	{ "vgg16", 64, 224, 64, 3, 1, 1, 2, false },
	{ "vgg16", 64, 112, 128, 3, 1, 1, 0, false },
	{ "vgg16", 128, 112, 128, 3, 1, 1, 2, false },
	{ "vgg16", 128, 56, 256, 3, 1, 1, 0, false },
	{ "vgg16", 256, 56, 256, 3, 1, 1, 0, false },
	{ "vgg16", 256, 56, 256, 3, 1, 1, 2, false },
	{ "vgg16", 256, 28, 512, 3, 1, 1, 0, false },
	{ "vgg16", 512, 28, 512, 3, 1, 1, 0, false },
	{ "vgg16", 512, 28, 512, 3, 1, 1, 2, false },
	{ "vgg16", 512, 14, 512, 3, 1, 1, 0, false },
	{ "vgg16", 512, 14, 512, 3, 1, 1, 2, false },
};

bool cyc_layer_of_networks(uint32_t i, struct cyc_layer *l)
{
	if (i >= sizeof(shapes) / sizeof(shapes[0]))
		return false;
	*l = shapes[i];
	snprintf(l->name, sizeof(l->name),
		 "%s %d of %dx%d to %d, kernel %d, stride %d, groups %d%s%s", shapes[i].name,
		 (int)l->ch, (int)l->size, (int)l->size, (int)l->m, (int)l->k, (int)l->s,
		 (int)l->group, l->pool ? ", pool" : "", l->add ? ", addition" : "");
	return true;
}

static struct rvl_tensor *input(struct qg *q, const char *name, struct rvl_shape shape, int32_t zp)
{
	struct rvl_tensor *t = qg_tensor(q, name, RVL_TYPE_U8, shape, 1 / 64.0f, zp);

	qg_input(q, t);
	return t;
}

static struct rvl_tensor *add(struct qg *q, struct rvl_tensor *a, struct rvl_tensor *b)
{
	struct rvl_tensor *in[] = { a, b }, *y;

	if (q->rc)
		return NULL;
	y = qg_tensor(q, NULL, RVL_TYPE_U8, a->shape, 1 / 64.0f, 128);
	qg_node(q, RVL_OP_Q_ADD, NULL, 2, in, y);
	return y;
}

static struct rvl_graph *finish(struct qg *q, struct rvl_tensor *t)
{
	qg_output(q, t);
	if (!q->rc)
		return q->g;
	fprintf(stderr, "check_cycles: %s\n", q->err.msg);
	rvl_graph_free(q->g);
	return NULL;
}

static struct qg_conv conv_of(int64_t m, int64_t k, int64_t s, int64_t group)
{
	return (struct qg_conv){ .m = m,
				 .kh = k,
				 .kw = k,
				 .sy = s,
				 .sx = s,
				 .group = group,
				 .pad = { k / 2, k / 2, k / 2, k / 2 },
				 .wtype = RVL_TYPE_S8,
				 .per_channel = true,
				 .bias = true,
				 .relu = true,
				 .ytype = RVL_TYPE_U8,
				 .wscale = 1 / 4096.0f,
				 .yscale = 1 / 64.0f };
}

struct rvl_graph *cyc_layer_network(const struct cyc_layer *l)
{
	struct qg_conv c = conv_of(l->m, l->k, l->s, l->group);
	struct rvl_tensor *t;
	struct qg q;

	qg_open(&q, 1);
	t = input(&q, "x", (struct rvl_shape){ 4, { 1, l->ch, l->size, l->size } }, 128);
	t = qg_conv(&q, NULL, t, &c);
	if (l->pool)
		t = qg_max_pool(&q, NULL, t, l->pool, 2, (l->pool - 1) / 2);
	if (l->add && !q.rc)
		t = add(&q, t, input(&q, "r", t->shape, 128));
	return finish(&q, t);
}

/* ---- random networks ---- */

static struct rvl_tensor *random_conv(struct qg *q, struct rvl_tensor *x, bool streams)
{
	static const int64_t kernels[] = { 1, 1, 1, 3, 3, 3, 2, 5, 7 };
	int64_t c = x->shape.dim[1], k = kernels[qg_range(q, 0, streams ? 5 : 8)];
	int64_t least = x->shape.dim[2] < x->shape.dim[3] ? x->shape.dim[2] : x->shape.dim[3];
	struct qg_conv v = conv_of(qg_range(q, 1, streams ? 6 : 160), k, qg_range(q, 1, 4) / 2, 1);

	if (k > least)
		v.kh = v.kw = k = 1;
	v.sy = v.sx = qg_or_1(v.sy);
	if (k > 1 && !qg_range(q, 0, 4) && 2 * (k - 1) < least)
		v.dy = v.dx = 2;
	for (int i = 0; i < 4; i++)
		v.pad[i] = qg_range(q, 0, 2) ? k / 2 : 0;
	if (!streams && !qg_range(q, 0, 3))
		v.group = v.m = c;
	return qg_conv(q, NULL, x, &v);
}

static struct rvl_tensor *random_operator(struct qg *q, struct rvl_tensor *x, bool streams)
{
	bool small = x->shape.dim[2] < 3 || x->shape.dim[3] < 3;

	switch (qg_range(q, 0, 5)) {
	case 0:
		return small ? random_conv(q, x, streams) :
			       qg_max_pool(q, NULL, x, qg_range(q, 2, 3), qg_range(q, 1, 2), 0);
	case 1:
		return add(q, x, input(q, NULL, x->shape, 128));
	default:
		return random_conv(q, x, streams);
	}
}

struct rvl_graph *cyc_random_network(uint64_t seed, bool streams)
{
	struct rvl_tensor *t;
	struct rvl_shape s;
	struct qg q;

	qg_open(&q, seed * 0x9e3779b97f4a7c15);
	s = (struct rvl_shape){ 4,
				{ 1, qg_range(&q, 1, streams || qg_range(&q, 0, 1) ? 8 : 128),
				  qg_range(&q, 1, streams ? 8 : 48),
				  qg_range(&q, 1, streams ? 8 : 48) } };
	t = input(&q, "x", s, streams ? 0 : 128);
	t = q.rc ? NULL : random_conv(&q, t, streams);
	for (int64_t n = streams ? 0 : qg_range(&q, 0, 5); n && !q.rc; n--)
		t = random_operator(&q, t, streams);
	return finish(&q, t);
}

/* SPDX-License-Identifier: MIT */
/*
 * The largest of the signs under a window is the sign of the largest value: BinaryMaxPool of the bits
 * of an image of bytes becomes BinarySign of its MaxPool. The NPU pools bytes and makes their bits in one
 * pass of its ALU, and has no pool of bits. A layer that makes nothing but the bits of its sums makes an
 * image of bytes +1 and -1 for its pool.
 */
#include "pass/binary.h"
#include "pass/pass.h"
#include "pass/passes.h"

#include <errno.h>

/* The image of bytes whose bits are @bits, and the thresholds; NULL if there is none. */
static struct rvl_tensor *image_of(const struct rvl_tensor *bits, struct rvl_tensor **threshold)
{
	const struct rvl_node *n = bits->producer;
	bool sign = n && n->op == RVL_OP_B_SIGN;
	struct rvl_tensor *x;

	if (!sign && (!n || n->op != RVL_OP_B_CONV || n->out[0] == bits))
		return NULL;
	x = sign ? n->in[0] : n->out[0];
	*threshold = n->in[sign ? 1 : RVL_B_THRESHOLD];
	return rvl_is_quant8_tensor(x) && x->shape.rank == 4 ? x : NULL;
}

static int constant(struct rvl_graph *g, struct rvl_node *n, uint32_t i, enum rvl_type type,
		    const struct rvl_shape *shape, const void *data, struct rvl_err *err)
{
	struct rvl_tensor *t;
	int rc = rvl_tensor_const(g, NULL, type, shape, data, &t, err);

	return rc ? rc : rvl_node_set_in(g, n, i, t, err);
}

static int new_image(struct rvl_graph *g, const struct rvl_tensor *bits, int64_t channels,
		     struct rvl_tensor **image, struct rvl_err *err)
{
	const int64_t *d = bits->shape.dim;
	static const int32_t zero = 0;
	static const float one = 1;
	int rc = rvl_tensor_new(g, NULL, image, err);

	if (rc)
		return rc;
	(*image)->type = RVL_TYPE_S8;
	(*image)->shaped = true;
	(*image)->shape = (struct rvl_shape) {
		.rank = 4, .dim = { d[0], channels, d[1], d[2] / rvl_b_words(channels) },
	};
	return rvl_tensor_set_quant(g, *image, 1, 0, &one, &zero, err);
}

/*
 * The layer that makes @bits of its sums makes an image of +1 and -1, whose bits are those from 0 on, by
 * 2 x - 2 t + 1, clamped. *x stays NULL where @bits are no such layer's, or where others read them.
 */
static int image_of_sums(struct rvl_graph *g, struct rvl_tensor *bits, struct rvl_tensor **x,
			 struct rvl_tensor **threshold, struct rvl_err *err)
{
	struct rvl_node *n = bits->producer;
	const struct rvl_tensor *t;
	const int32_t *from;
	float *scale, *bias;
	int32_t *zero;
	int64_t count;
	int rc;

	if (!n || n->op != RVL_OP_B_CONV || n->out[0] != bits || bits->n_users != 1 || bits->is_output)
		return 0;
	t = n->in[RVL_B_THRESHOLD];
	from = t->data;
	count = rvl_shape_count(&t->shape);
	scale = rvl_arena_array(g->arena, (size_t)count, sizeof(*scale));
	bias = rvl_arena_array(g->arena, (size_t)count, sizeof(*bias));
	zero = rvl_arena_array(g->arena, (size_t)count, sizeof(*zero));
	if (!scale || !bias || !zero)
		return rvl_fail(err, -ENOMEM, "no memory for thresholds");
	for (int64_t m = 0; m < count; m++) {
		scale[m] = 2;
		bias[m] = (float)(1 - 2 * (int64_t)from[m]);
		zero[m] = 0;
	}
	rc = rvl_tensor_const(g, NULL, RVL_TYPE_S32, &t->shape, zero, threshold, err);
	if (!rc)
		rc = constant(g, n, RVL_B_SCALE, RVL_TYPE_F32, &t->shape, scale, err);
	if (!rc)
		rc = constant(g, n, RVL_B_BIAS, RVL_TYPE_F32, &t->shape, bias, err);
	if (!rc)
		rc = rvl_node_set_in(g, n, RVL_B_THRESHOLD, NULL, err);
	if (!rc)
		rc = new_image(g, bits, count, x, err);
	if (rc)
		return rc;
	n->attr.q_lo = -1;
	n->attr.q_hi = 1;
	bits->producer = NULL;
	rvl_node_set_out(n, 0, *x);
	return 0;
}

/* A window that lies in the padding has the bit 0, but a byte that may reach its threshold. */
static bool windows_have_pixels(const struct rvl_node *pool, const int64_t size[2], const int64_t out[2])
{
	const struct rvl_attr *a = &pool->attr;

	for (int i = 0; i < 2; i++)
		if (a->dilation[i] != 1 || a->pad[i] >= a->kernel[i] ||
		    (out[i] - 1) * a->stride[i] - a->pad[i] >= size[i])
			return false;
	return true;
}

static int new_pool(struct rvl_graph *g, const struct rvl_node *pool, struct rvl_tensor *x,
		    const int64_t out[2], struct rvl_tensor **y, struct rvl_err *err)
{
	struct rvl_node *n;
	int rc = rvl_node_new(g, RVL_OP_MAX_POOL, pool->name, &n, err);

	if (!rc)
		rc = rvl_node_set_in(g, n, 0, x, err);
	if (!rc)
		rc = rvl_tensor_like(g, x, y, err);
	if (rc)
		return rc;
	n->op_type = "MaxPool";
	for (int i = 0; i < 2; i++) {
		n->attr.kernel[i] = pool->attr.kernel[i];
		n->attr.stride[i] = pool->attr.stride[i];
		n->attr.pad[i] = pool->attr.pad[i];
		n->attr.pad[i + 2] = pool->attr.pad[i + 2];
		(*y)->shape.dim[i + 2] = out[i];
	}
	rvl_node_set_out(n, 0, *y);
	return 0;
}

/* The bits of a layer that nothing reads any more are not made. */
static int drop_bits(struct rvl_graph *g, struct rvl_tensor *bits, struct rvl_err *err)
{
	struct rvl_node *n = bits->producer;

	if (!n || n->op != RVL_OP_B_CONV || bits->n_users || bits->is_output)
		return 0;
	n->out[1] = NULL;
	n->n_out = 1;
	bits->producer = NULL;
	return rvl_node_set_in(g, n, RVL_B_THRESHOLD, NULL, err);
}

/* 1: the pool became a sign. */
static int exchange(struct rvl_graph *g, struct rvl_node *pool, struct rvl_err *err)
{
	struct rvl_tensor *bits = pool->in[0], *y = pool->out[0], *threshold, *x, *pooled;
	int64_t out[2] = { y->shape.dim[1], y->shape.dim[2] / rvl_b_words(pool->attr.block) };
	int64_t size[2] = { bits->shape.dim[1], bits->shape.dim[2] / rvl_b_words(pool->attr.block) };
	struct rvl_node *sign, *maker = bits->producer;
	int rc = 0;

	if (!windows_have_pixels(pool, size, out))
		return 0;
	x = image_of(bits, &threshold);
	if (!x)
		rc = image_of_sums(g, bits, &x, &threshold, err);
	if (rc || !x)
		return rc;
	rc = new_pool(g, pool, x, out, &pooled, err);
	if (!rc)
		rc = rvl_node_new(g, RVL_OP_B_SIGN, maker->name, &sign, err);
	if (!rc)
		rc = rvl_node_set_in(g, sign, 0, pooled, err);
	if (!rc)
		rc = rvl_node_set_in(g, sign, 1, threshold, err);
	if (rc)
		return rc;
	sign->op_type = "BinarySign";
	sign->note = maker->op == RVL_OP_B_SIGN ? maker->note : NULL;
	rvl_node_remove(g, pool);
	rvl_node_set_out(sign, 0, y);
	rc = drop_bits(g, bits, err);
	return rc ? rc : 1;
}

int rvl_pass_binary_pool(struct rvl_graph *g, struct rvl_err *err)
{
	uint32_t i = 0, found = 0;
	int rc = 0;

	while (g->npu_bits && i < g->n_nodes && rc >= 0) {
		rc = g->nodes[i]->op == RVL_OP_B_MAX_POOL ? exchange(g, g->nodes[i], err) : 0;
		found += rc > 0;
		i += !rc;
	}
	if (rc < 0 || !found)
		return rc < 0 ? rc : 0;
	rc = rvl_graph_sort(g, err);
	return rc ? rc : rvl_pass_clean(g, err);
}

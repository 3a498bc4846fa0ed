/* SPDX-License-Identifier: MIT */
/*
 * Matrix products of flattened images whose axes were permuted, with an NPU as the target:
 *
 *	image -> Transpose -> Flatten -> product with w	becomes	image -> Reshape -> product with w'
 *
 * The rows of w' are those of w in the order in which the elements lie in the image. The NPU computes a
 * product of an image in the order channel, row, column as a convolution with a kernel of the image's
 * size, which reads the channels in blocks as the layer before has stored them. Exporters of models with
 * channels last flatten in the order row, column, channel; converters from Caffe in the order column, row,
 * channel.
 *
 * It is done where all readers of the permuted image are such products. Another one needs the Transpose,
 * and an image for which that is a view (layout.c) lies in the order of the weights as they are. On the
 * CPU the Transpose is such a view as well.
 */
#include "pass/pass.h"
#include "pass/passes.h"

#include <errno.h>
#include <string.h>

#define MOST_RESHAPES 4 /* one behind the other */

/* Whether the rows of the weights can be permuted. */
static bool is_product(const struct rvl_node *n, const struct rvl_tensor *x)
{
	const struct rvl_tensor *w = n->n_in > 1 ? n->in[1] : NULL;

	return n->op == RVL_OP_Q_MATMUL && n->in[0] == x && w && w != x && w->data && rvl_is_quant8(w) &&
	       w->shape.rank == 2 && !n->attr.trans_a;
}

static bool is_reshape(const struct rvl_node *n)
{
	return (n->op == RVL_OP_RESHAPE || n->op == RVL_OP_FLATTEN) && n->n_out == 1;
}

/* Whether @t, which holds the elements of @images, is read by products of whole images alone. */
static bool products_read(const struct rvl_tensor *t, int64_t images, int depth)
{
	bool rows = t->shape.rank == 2 && t->shape.dim[0] == images;

	if (!depth || t->is_output || !t->n_users)
		return false;
	for (uint32_t u = 0; u < t->n_users; u++) {
		const struct rvl_node *n = t->users[u];

		if (!(rows && is_product(n, t)) &&
		    !(is_reshape(n) && n->in[0] == t && products_read(n->out[0], images, depth - 1)))
			return false;
	}
	return true;
}

/*
 * Whether the products behind the Transpose @n can read its operand: an image that a layer makes, whose
 * channels fill whole words.
 */
static bool applies(const struct rvl_graph *g, const struct rvl_node *n)
{
	const struct rvl_tensor *x = n->in[0];

	return n->op == RVL_OP_TRANSPOSE && n->attr.perm_rank == 4 && !n->attr.perm[0] &&
	       rvl_is_quant8_tensor(x) && x->producer && rvl_shape_count(&x->shape) > 0 &&
	       x->shape.dim[1] % g->word == 0 &&
	       products_read(n->out[0], x->shape.dim[0], MOST_RESHAPES);
}

/* Copies the rows of @w, or its columns if the product transposes it, in the order of the image. */
static void permute(const struct rvl_node *transpose, const struct rvl_tensor *w, bool columns, uint8_t *out)
{
	const int64_t *d = transpose->in[0]->shape.dim, pitch[4] = { 0, d[2] * d[3], d[3], 1 };
	const int32_t *p = transpose->attr.perm;
	int64_t k = columns ? w->shape.dim[1] : w->shape.dim[0], m = columns ? w->shape.dim[0] : w->shape.dim[1];
	const uint8_t *from = w->data;

	for (int64_t i = 0; i < k; i++) {
		int64_t c = i % d[p[3]], b = i / d[p[3]] % d[p[2]], a = i / d[p[3]] / d[p[2]];
		int64_t to = a * pitch[p[1]] + b * pitch[p[2]] + c * pitch[p[3]];

		if (!columns)
			memcpy(out + to * m, from + i * m, (size_t)m);
		for (int64_t j = 0; columns && j < m; j++)
			out[j * k + to] = from[j * k + i];
	}
}

static int permute_weights(struct rvl_graph *g, const struct rvl_node *transpose, struct rvl_node *product,
			   struct rvl_err *err)
{
	struct rvl_tensor *w = product->in[1], *moved;
	uint8_t *data = rvl_arena_alloc(g->arena, (size_t)rvl_tensor_bytes(w));
	int rc = data ? rvl_tensor_like(g, w, &moved, err) : rvl_fail(err, -ENOMEM, "no memory for weights");

	if (rc)
		return rc;
	permute(transpose, w, product->attr.trans_b, data);
	moved->data = data;
	rc = rvl_node_set_in(g, product, 1, moved, err);
	rvl_constant_release(g, w);
	return rc;
}

/* The products that read @t, the permuted image in rows or before a reshape, read @flat in its place. */
static int move_products(struct rvl_graph *g, const struct rvl_node *transpose, struct rvl_tensor *t,
			 struct rvl_tensor *flat, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t u = 0; u < t->n_users && !rc;) {
		struct rvl_node *n = t->users[u];

		if (is_reshape(n)) {
			rc = move_products(g, transpose, n->out[0], flat, err);
			u++;
			continue;
		}
		rc = permute_weights(g, transpose, n, err);
		if (!rc)
			rc = rvl_node_set_in(g, n, 0, flat, err);
	}
	return rc;
}

static int rewrite(struct rvl_graph *g, struct rvl_node *transpose, struct rvl_err *err)
{
	struct rvl_tensor *x = transpose->in[0], *flat;
	int rc = rvl_tensor_like(g, x, &flat, err);

	if (rc)
		return rc;
	flat->shape = (struct rvl_shape){
		.rank = 2, .dim = { x->shape.dim[0], rvl_shape_count(&x->shape) / x->shape.dim[0] }
	};
	rc = rvl_add_reshape(g, x, flat, err);
	return rc ? rc : move_products(g, transpose, transpose->out[0], flat, err);
}

int rvl_pass_flattened(struct rvl_graph *g, struct rvl_err *err)
{
	struct rvl_node **list;
	uint32_t n;
	int rc;

	if (!g->word)
		return 0;
	rc = rvl_graph_nodes(g, &list, &n, err);
	for (uint32_t i = 0; !rc && i < n; i++)
		if (applies(g, list[i]))
			rc = rewrite(g, list[i], err);
	return rc ? rc : rvl_graph_sort(g, err);
}

/* SPDX-License-Identifier: MIT */
#include "pass/passes.h"

#include <errno.h>

/* The values w - zp of a tensor. The zero point of element i is that of its channel. */
struct spread {
	const struct rvl_tensor *w;
	int64_t inner;		/* elements behind the channel axis */
};

static int32_t zp_of(const struct spread *s, int64_t i)
{
	const struct rvl_quant *q = &s->w->quant;

	return q->zp[q->n > 1 ? i / s->inner % q->n : 0];
}

static int32_t centred(const struct spread *s, int64_t i)
{
	const uint8_t *p = s->w->data;
	int32_t v = s->w->type == RVL_TYPE_U8 ? p[i] : (int8_t)p[i];

	return v - zp_of(s, i);
}

static bool all_zero_points(const struct rvl_quant *q, int32_t v)
{
	for (uint32_t i = 0; i < q->n; i++)
		if (q->zp[i] != v)
			return false;
	return true;
}

/*
 * Writes bytes w - zp with zero point 0 if all of them fit in int8. Otherwise writes w - 128, with
 * the zero points lowered by 128.
 */
static int convert(struct rvl_graph *g, const struct spread *s, struct rvl_tensor *out,
		   struct rvl_err *err)
{
	const struct rvl_quant *q = &s->w->quant;
	int64_t count = rvl_shape_count(&s->w->shape);
	int8_t *data = rvl_arena_alloc(g->arena, (size_t)count);
	int32_t *zp = rvl_arena_array(g->arena, q->n, sizeof(*zp));
	bool fits = true;

	if (!data || !zp)
		return rvl_fail(err, -ENOMEM, "no memory for weights");
	for (int64_t i = 0; i < count && fits; i++)
		fits = centred(s, i) >= -128 && centred(s, i) <= 127;
	if (!fits && s->w->type == RVL_TYPE_S8)
		return 0;
	for (int64_t i = 0; i < count; i++)
		data[i] = (int8_t)(centred(s, i) + (fits ? 0 : zp_of(s, i) - 128));
	for (uint32_t i = 0; i < q->n; i++)
		zp[i] = fits ? 0 : q->zp[i] - 128;
	out->type = RVL_TYPE_S8;
	out->data = data;
	return rvl_tensor_set_quant(g, out, q->n, q->axis, q->scale, zp, err);
}

static int normalise(struct rvl_graph *g, struct rvl_node *n, struct rvl_err *err)
{
	struct rvl_tensor *w = n->in[1], *out;
	struct spread s = { .w = w, .inner = 1 };
	int rc;

	for (int i = w->quant.axis + 1; w->quant.n > 1 && i < w->shape.rank; i++)
		s.inner *= w->shape.dim[i];
	rc = rvl_tensor_like(g, w, &out, err);
	if (!rc)
		rc = convert(g, &s, out, err);
	if (rc || !out->data)
		return rc;
	return rvl_node_set_in(g, n, 1, out, err);
}

int rvl_pass_s8_weights(struct rvl_graph *g, struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < g->n_nodes && !rc; i++) {
		struct rvl_node *n = g->nodes[i];
		const struct rvl_tensor *w = n->n_in > 1 ? n->in[1] : NULL;

		if (!rvl_is_quant_product(n) || !w->data ||
		    (w->type == RVL_TYPE_S8 && all_zero_points(&w->quant, 0)))
			continue;
		rc = normalise(g, n, err);
	}
	return rc;
}

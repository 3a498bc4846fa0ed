/* SPDX-License-Identifier: MIT */
#include "pass/fuse.h"

#include <string.h>

static int32_t zp_at(const struct rvl_tensor *zp, int64_t i)
{
	if (!zp)
		return 0;
	switch (zp->type) {
	case RVL_TYPE_U8:
		return ((const uint8_t *)zp->data)[i];
	case RVL_TYPE_S8:
		return ((const int8_t *)zp->data)[i];
	case RVL_TYPE_S16:
		return ((const int16_t *)zp->data)[i];
	case RVL_TYPE_U16:
		return ((const uint16_t *)zp->data)[i];
	default:
		return ((const int32_t *)zp->data)[i];
	}
}

static bool scales_ok(const struct rvl_tensor *t, const struct rvl_tensor *scale, int64_t n,
		      int32_t axis)
{
	const float *v = scale->data;

	if (n < 1 || n > RVL_MAX_DIM)
		return false;
	if (n > 1 && (axis < 0 || axis >= t->shape.rank || t->shape.dim[axis] != n))
		return false;
	for (int64_t i = 0; i < n; i++)
		if (!(v[i] > 0) || !isfinite(v[i]))
			return false;
	return true;
}

bool rvl_qsource_of(struct rvl_graph *g, struct rvl_tensor *t, const struct rvl_tensor *scale,
		    const struct rvl_tensor *zp, int32_t axis, struct rvl_qsource *out)
{
	int64_t n;

	if (!t || !scale || !scale->data || scale->type != RVL_TYPE_F32 || (zp && !zp->data))
		return false;
	n = rvl_shape_count(&scale->shape);
	if (!scales_ok(t, scale, n, axis) || (zp && rvl_shape_count(&zp->shape) != n))
		return false;
	*out = (struct rvl_qsource) {
		.t = t, .n = (uint32_t)n, .axis = axis, .scale = scale->data,
		.zp = rvl_arena_array(g->arena, (size_t)n, sizeof(int32_t)),
	};
	if (!out->zp)
		return false;
	for (int64_t i = 0; i < n; i++)
		out->zp[i] = zp_at(zp, i);
	return true;
}

static bool same_parameters(const struct rvl_qsource *s, const struct rvl_quant *q)
{
	return q->n == s->n && (q->n == 1 || q->axis == s->axis) &&
	       !memcmp(q->scale, s->scale, q->n * sizeof(*q->scale)) &&
	       !memcmp(q->zp, s->zp, q->n * sizeof(*q->zp));
}

bool rvl_quant_fits(const struct rvl_qsource *s)
{
	return !s->t->quant.n || same_parameters(s, &s->t->quant);
}

bool rvl_quant_agree(const struct rvl_qsource *a, const struct rvl_qsource *b)
{
	const struct rvl_quant q = { .n = b->n, .axis = b->axis, .scale = b->scale, .zp = b->zp };

	return a->t != b->t || same_parameters(a, &q);
}

int rvl_quant_adopt(struct rvl_graph *g, const struct rvl_qsource *s, struct rvl_err *err)
{
	if (s->t->quant.n)
		return 0;
	return rvl_tensor_set_quant(g, s->t, s->n, s->axis, s->scale, s->zp, err);
}

bool rvl_add_ratio_ok(float s, float ys)
{
	return s / ys < 1048576.0f;
}

bool rvl_mean_scale_ok(float xs, float ys, int64_t n)
{
	float scale = xs / (ys * (float)n);

	return scale >= 0x1p-32f && scale < 256.0f;
}

/* SPDX-License-Identifier: MIT */
/*
 * The scale S of stream adders. A sum that leaves an adder as a bitstream cannot exceed S, and its
 * resolution is S / L. Therefore S is, for each layer, the smallest power of two above 99.95 % of
 * the sums that calibration data gives.
 */
#include "eval.h"
#include "graph/interp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EXAMPLES 64 /* of the data; a batch has the last word */
#define SUMS_MAX (1u << 22) /* of a layer */
#define QUANTILE 0.9995
#define SCALE_MAX 20

struct sums {
	float *v;
	uint64_t n;
	bool one_sided; /* AND-SEP: the larger of the positive and the negative sum */
};

/* One product sum in units of full scale: x of 256, w of 128. */
struct sum {
	int64_t pos, neg;
};

static void add_product(struct sum *s, uint8_t x, int8_t w)
{
	if (w < 0)
		s->neg -= (int64_t)x * w;
	else
		s->pos += (int64_t)x * w;
}

static void keep(struct sums *s, const struct sum *p)
{
	int64_t v = s->one_sided ? (p->pos > p->neg ? p->pos : p->neg) : llabs(p->pos - p->neg);

	if (s->n < SUMS_MAX)
		s->v[s->n++] = (float)v / 32768.0f;
}

static void matrix_sums(const struct rvl_node *n, const uint8_t *x, struct sums *out)
{
	const struct rvl_shape *w = &n->in[1]->shape;
	bool tb = n->attr.trans_b;
	int64_t k = w->dim[tb ? 1 : 0], m = w->dim[tb ? 0 : 1];
	int64_t rows = rvl_shape_count(&n->in[0]->shape) / k;
	const int8_t *p = n->in[1]->data;

	for (int64_t r = 0; r < rows; r++) {
		for (int64_t j = 0; j < m; j++) {
			struct sum s = { 0, 0 };

			for (int64_t c = 0; c < k; c++)
				add_product(&s, x[r * k + c], p[tb ? j * k + c : c * m + j]);
			keep(out, &s);
		}
	}
}

struct window {
	const struct rvl_node *n;
	const uint8_t *x; /* one image */
	int64_t m, y, z; /* output channel, row, column */
};

static struct sum window_sum(const struct window *q)
{
	const struct rvl_attr *a = &q->n->attr;
	const int64_t *xd = q->n->in[0]->shape.dim, *wd = q->n->in[1]->shape.dim;
	const int8_t *w = (const int8_t *)q->n->in[1]->data + q->m * wd[1] * wd[2] * wd[3];
	int64_t first = q->m / (wd[0] / a->group) * wd[1];
	struct sum s = { 0, 0 };

	for (int64_t i = 0; i < wd[1] * wd[2] * wd[3]; i++) {
		int64_t c = i / (wd[2] * wd[3]), t = i % (wd[2] * wd[3]);
		int64_t y = q->y * a->stride[0] + t / wd[3] * a->dilation[0] - a->pad[0];
		int64_t z = q->z * a->stride[1] + t % wd[3] * a->dilation[1] - a->pad[1];

		if (y >= 0 && y < xd[2] && z >= 0 && z < xd[3])
			add_product(&s, q->x[((first + c) * xd[2] + y) * xd[3] + z], w[i]);
	}
	return s;
}

static void conv_sums(const struct rvl_node *n, const uint8_t *x, struct sums *out)
{
	const int64_t *xd = n->in[0]->shape.dim, *yd = n->out[0]->shape.dim;
	struct window q = { .n = n, .x = x };

	for (int64_t b = 0; b < xd[0]; b++, q.x += xd[1] * xd[2] * xd[3]) {
		for (int64_t i = 0; i < yd[1] * yd[2] * yd[3]; i++) {
			struct sum s;

			q.m = i / (yd[2] * yd[3]);
			q.y = i / yd[3] % yd[2];
			q.z = i % yd[3];
			s = window_sum(&q);
			keep(out, &s);
		}
	}
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static int32_t log2_above(const struct sums *s)
{
	float v = s->n ? s->v[(uint64_t)((double)(s->n - 1) * QUANTILE)] : 1;
	int32_t lg = 0;

	while (lg < SCALE_MAX && (float)(1 << lg) < v)
		lg++;
	return lg;
}

static void scale_node(struct rvl_node *n, const uint8_t *x, struct sums *s)
{
	s->n = 0;
	if (n->op == RVL_OP_Q_CONV)
		conv_sums(n, x, s);
	else
		matrix_sums(n, x, s);
	qsort(s->v, s->n, sizeof(*s->v), by_value);
	n->attr.sc_scale = log2_above(s);
}

/* A run of one batch in int8 gives every layer its inputs. */
static void scale_all(struct rivulet_eval *e, struct rvl_interp *it, struct sums *s)
{
	for (uint32_t i = 0; i < e->g->n_nodes; i++) {
		struct rvl_node *n = e->g->nodes[i];

		if (n->stochastic)
			scale_node(n, rvl_interp_data(it, n->in[0]), s);
	}
}

int rivulet_eval_scales(struct rivulet_eval *e, uint32_t circuit, const struct rivulet_eval_data *d,
			struct rvl_err *err)
{
	struct rivulet_eval_spec int8 = { .length = 0 };
	struct rivulet_eval_data few = *d;
	struct rvl_interp *it = NULL;
	struct sums s = { .v = malloc(SUMS_MAX * sizeof(float)),
			  .one_sided = circuit == RIVULET_SC_AND_SEP };
	int rc = s.v ? rvl_eval_prepare(e, &int8, err) : rvl_fail(err, -ENOMEM, "out of memory");

	few.count = d->count < EXAMPLES ? d->count : EXAMPLES;
	if (!rc && d->size != e->elements)
		rc = rvl_fail(err, -EINVAL, "the data does not fit the model");
	if (!rc)
		rc = rvl_interp_new(e->g, false, &it, err);
	if (!rc)
		rc = rvl_eval_feed(e, it, &few, 0, err);
	if (!rc)
		rc = rvl_interp_run(it, err);
	if (!rc)
		scale_all(e, it, &s);
	rvl_interp_free(it);
	free(s.v);
	return rc;
}

/* SPDX-License-Identifier: MIT */
/* Geometry: windows, matrix products and broadcasting, from shapes and attributes. */
#include "internal.h"

#include <string.h>

static int check_window(const struct rvl_conv_geom *g, const int32_t *pad, bool pool, char *why)
{
	int64_t in[2] = { g->h, g->w };
	int64_t out[2] = { g->oh, g->ow };

	for (int i = 0; i < 2; i++) {
		int64_t reach = g->d[i] * (g->k[i] - 1) + 1;

		if (g->k[i] < 1 || g->s[i] < 1 || g->d[i] < 1 || pad[i] < 0 || pad[i + 2] < 0 ||
		    g->k[i] > 65535 || g->s[i] > 65535 || g->d[i] > 65535 || pad[i] > 65535 ||
		    pad[i + 2] > 65535)
			return rvl_why(why, "window %lldx%lld is not in range", (long long)g->k[0],
				       (long long)g->k[1]);
		/* With ceil_mode a window may reach past the padding, but must start before its end. */
		if (pool && out[i] > 0 && (out[i] - 1) * g->s[i] >= in[i] + pad[i])
			return rvl_why(why, "output is larger than the windows of its input");
		if (out[i] > 0 && (out[i] - 1) * g->s[i] + reach > in[i] + pad[i] + pad[i + 2] +
		    g->s[i] - 1)
			return rvl_why(why, "output is larger than its padded input");
	}
	return 0;
}

int rvl_conv_geometry(const struct rvl_kernel_desc *d, const struct rvl_kernel_arg *w,
		      struct rvl_conv_geom *g, char *why)
{
	const struct rvl_shape *x = &d->in[0].shape;
	const struct rvl_shape *y = &d->out[0].shape;
	const struct rvl_attr *a = &d->attr;

	if (x->rank != 4 || y->rank != 4 || (w && w->shape.rank != 4))
		return rvl_why(why, "operands are not 2-D images");
	*g = (struct rvl_conv_geom) {
		.n = x->dim[0], .c = x->dim[1], .h = x->dim[2], .w = x->dim[3],
		.m = y->dim[1], .oh = y->dim[2], .ow = y->dim[3],
		.group = w ? a->group : 1,
		.k = { a->kernel[0], a->kernel[1] }, .s = { a->stride[0], a->stride[1] },
		.d = { a->dilation[0], a->dilation[1] }, .pad = { a->pad[0], a->pad[1] },
		.xp = rvl_pitch_of(&d->in[0]), .yp = rvl_pitch_of(&d->out[0]),
	};
	if (y->dim[0] != g->n || (!w && g->m != g->c))
		return rvl_why(why, "batch or channels of input and output differ");
	if (w && (g->group < 1 || g->c % g->group || g->m % g->group ||
		  w->shape.dim[0] != g->m || w->shape.dim[1] != g->c / g->group ||
		  w->shape.dim[2] != g->k[0] || w->shape.dim[3] != g->k[1]))
		return rvl_why(why, "weights do not fit input, output and group");
	return check_window(g, a->pad, !w, why);
}

/* Rows, columns and their strides of a matrix that may be transposed or a vector. */
static void matrix(const struct rvl_shape *s, bool trans, bool left, int64_t *rows, int64_t *cols,
		   int64_t *row_stride, int64_t *col_stride)
{
	if (s->rank == 1) {	/* as in numpy: a row on the left, a column on the right */
		*rows = left ? 1 : s->dim[0];
		*cols = left ? s->dim[0] : 1;
		*row_stride = left ? s->dim[0] : 1;
		*col_stride = 1;
		return;
	}
	*rows = s->dim[s->rank - 2];
	*cols = s->dim[s->rank - 1];
	*row_stride = *cols;
	*col_stride = 1;
	if (trans) {
		int64_t t = *rows;

		*rows = *cols;
		*cols = t;
		*col_stride = *row_stride;
		*row_stride = 1;
	}
}

static struct rvl_shape batch_of(const struct rvl_shape *s)
{
	struct rvl_shape b = *s;

	b.rank = s->rank > 2 ? s->rank - 2 : 0;
	return b;
}

/* Strides of an operand along the batch dimensions of the result, 0 where it is broadcast. */
static void batch_strides(const struct rvl_shape *s, const struct rvl_shape *out, int64_t *stride)
{
	struct rvl_shape b = batch_of(s);
	int64_t step = s->rank >= 2 ? s->dim[s->rank - 1] * s->dim[s->rank - 2] : 0;

	memset(stride, 0, RVL_MAX_RANK * sizeof(*stride));
	for (int i = 1; i <= b.rank; i++) {
		if (b.dim[b.rank - i] != 1)
			stride[out->rank - i] = step;
		step *= b.dim[b.rank - i];
	}
}

int rvl_matmul_geometry(const struct rvl_kernel_desc *d, const struct rvl_kernel_arg *a,
			const struct rvl_kernel_arg *b, const struct rvl_kernel_arg *y,
			struct rvl_matmul_geom *g, char *why)
{
	struct rvl_shape ba = batch_of(&a->shape);
	struct rvl_shape bb = batch_of(&b->shape);
	int64_t ka, kb;

	*g = (struct rvl_matmul_geom) { .m = 0 };
	if (a->shape.rank < 1 || b->shape.rank < 1)
		return rvl_why(why, "an operand is a scalar");
	matrix(&a->shape, d->attr.trans_a, true, &g->m, &ka, &g->a_row, &g->a_k);
	matrix(&b->shape, d->attr.trans_b, false, &kb, &g->n, &g->b_k, &g->b_col);
	g->k = ka;
	if (ka != kb)
		return rvl_why(why, "inner dimensions %lld and %lld differ", (long long)ka,
			       (long long)kb);
	if (rvl_shape_broadcast(&ba, &bb, &g->batch))
		return rvl_why(why, "batch dimensions do not broadcast");
	if (rvl_shape_count(&g->batch) * g->m * g->n != rvl_shape_count(&y->shape))
		return rvl_why(why, "result has another size than the product");
	batch_strides(&a->shape, &g->batch, g->a_batch);
	batch_strides(&b->shape, &g->batch, g->b_batch);
	return 0;
}

void rvl_matmul_batch(const struct rvl_matmul_geom *g, int64_t i, int64_t *a, int64_t *b)
{
	*a = 0;
	*b = 0;
	for (int r = g->batch.rank - 1; r >= 0; r--) {
		int64_t pos = i % g->batch.dim[r];

		i /= g->batch.dim[r];
		*a += pos * g->a_batch[r];
		*b += pos * g->b_batch[r];
	}
}

/* Strides of @s inside @out, 0 where it is broadcast. */
static int strides_in(const struct rvl_strided *s, const struct rvl_shape *out, int64_t *stride)
{
	int front = out->rank - s->shape.rank;

	if (front < 0)
		return -EINVAL;
	for (int i = 0; i < out->rank; i++) {
		int64_t dim = i >= front ? s->shape.dim[i - front] : 1;

		if (dim != 1 && dim != out->dim[i])
			return -EINVAL;
		stride[i] = dim == 1 ? 0 : s->stride[i - front];
	}
	return 0;
}

/* Whether dimension @i extends the innermost run: both operands continue at the run's stride. */
static bool joins(const struct rvl_bcast *bc, int i)
{
	return bc->sa[i] == bc->ia * bc->span && bc->sb[i] == bc->ib * bc->span &&
	       bc->sy[i] == bc->iy * bc->span;
}

static struct rvl_strided dense(const struct rvl_shape *s)
{
	struct rvl_strided d = { .shape = *s };

	rvl_strides(s, d.stride);
	return d;
}

int rvl_bcast_init(struct rvl_bcast *bc, const struct rvl_shape *a, const struct rvl_shape *b,
		   const struct rvl_shape *out)
{
	struct rvl_strided sa = dense(a), sb = dense(b), sy = dense(out);

	return rvl_bcast_strided(bc, &sa, &sb, &sy);
}

static struct rvl_strided arg_strided(const struct rvl_kernel_arg *a)
{
	struct rvl_strided s = { .shape = a->shape };

	rvl_arg_strides(a, s.stride);
	return s;
}

int rvl_bcast_args(struct rvl_bcast *bc, const struct rvl_kernel_arg *a,
		   const struct rvl_kernel_arg *b, const struct rvl_kernel_arg *out)
{
	struct rvl_strided sa = arg_strided(a), sb = arg_strided(b), sy = arg_strided(out);

	return rvl_bcast_strided(bc, &sa, &sb, &sy);
}

int rvl_bcast_strided(struct rvl_bcast *bc, const struct rvl_strided *a, const struct rvl_strided *b,
		      const struct rvl_strided *out)
{
	const struct rvl_shape *y = &out->shape;
	int64_t sa[RVL_MAX_RANK], sb[RVL_MAX_RANK];

	*bc = (struct rvl_bcast) { .span = 1 };
	if (strides_in(a, y, sa) || strides_in(b, y, sb))
		return -EINVAL;
	for (int i = 0; i < y->rank; i++) {
		if (y->dim[i] == 1)
			continue;	/* its stride is never used */
		bc->dim[bc->rank] = y->dim[i];
		bc->sa[bc->rank] = sa[i];
		bc->sb[bc->rank] = sb[i];
		bc->sy[bc->rank++] = out->stride[i];
	}
	if (bc->rank) {
		bc->ia = bc->sa[bc->rank - 1];
		bc->ib = bc->sb[bc->rank - 1];
		bc->iy = bc->sy[bc->rank - 1];
	}
	while (bc->rank && (bc->span == 1 || joins(bc, bc->rank - 1)))
		bc->span *= bc->dim[--bc->rank];
	return 0;
}

#define GRAIN 16384	/* elements that a thread computes at least */

struct walk {
	const struct rvl_bcast *bc;
	rvl_span_fn fn;
	void *ctx;
};

/* Spans [first, past), in the order of the result. */
static void walk_spans(void *arg, int64_t first, int64_t past)
{
	const struct walk *w = arg;
	const struct rvl_bcast *bc = w->bc;
	int64_t pos[RVL_MAX_RANK], a = 0, b = 0, y = 0, left = first;

	for (int i = bc->rank - 1; i >= 0; i--) {
		pos[i] = left % bc->dim[i];
		left /= bc->dim[i];
		a += pos[i] * bc->sa[i];
		b += pos[i] * bc->sb[i];
		y += pos[i] * bc->sy[i];
	}
	for (int64_t n = first; n < past; n++) {
		w->fn(w->ctx, bc->span, a, b, y);
		for (int i = bc->rank - 1; i >= 0; i--) {
			a += bc->sa[i];
			b += bc->sb[i];
			y += bc->sy[i];
			if (++pos[i] < bc->dim[i])
				break;
			a -= bc->sa[i] * bc->dim[i];
			b -= bc->sb[i] * bc->dim[i];
			y -= bc->sy[i] * bc->dim[i];
			pos[i] = 0;
		}
	}
}

/* Parts of GRAIN elements of the only span. */
static void walk_parts(void *arg, int64_t first, int64_t past)
{
	const struct walk *w = arg;
	const struct rvl_bcast *bc = w->bc;
	int64_t at = first * GRAIN, n = past * GRAIN < bc->span ? past * GRAIN - at : bc->span - at;

	w->fn(w->ctx, n, at * bc->ia, at * bc->ib, at * bc->iy);
}

void rvl_bcast_run(const struct rvl_bcast *bc, const struct rvl_pool *pool, rvl_span_fn fn, void *ctx)
{
	struct walk w = { .bc = bc, .fn = fn, .ctx = ctx };
	int64_t spans = 1;

	for (int i = 0; i < bc->rank; i++)
		spans *= bc->dim[i];
	if (spans == 1)
		rvl_parallel_range(pool, (bc->span + GRAIN - 1) / GRAIN, 1, walk_parts, &w);
	else if (bc->span)
		rvl_parallel_range(pool, spans, 1 + GRAIN / bc->span, walk_spans, &w);
}

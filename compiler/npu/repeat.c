/* SPDX-License-Identifier: MIT */
#include "npu/repeat.h"

#include "pass/pass.h"
#include "rivulet_kernels.h"

#include <stdlib.h>

#define MAX_REPEAT 32
#define MOST_REPEATED (INT64_C(16) << 20) /* bytes of an image, on which the operator runs three times */

/* The result is the operand with copies of its edges around it. */
static bool edges(const struct rvl_node *n, struct rvl_repeat *rep)
{
	const int64_t *x = n->in[0]->shape.dim, *y = n->out[0]->shape.dim, *p;
	int64_t list[8];

	p = n->def->flags & RVL_OP_PADS ? rvl_pixel_pads(n, list) : NULL;
	if (!p || y[2] != x[2] + p[2] + p[6] || y[3] != x[3] + p[3] + p[7])
		return false;
	*rep = (struct rvl_repeat){ .rows = 1, .cols = 1, .edge = true, .top = p[2], .left = p[3] };
	return p[2] <= MAX_REPEAT && p[3] <= MAX_REPEAT && p[6] <= MAX_REPEAT && p[7] <= MAX_REPEAT;
}

static bool factors(const int64_t *x, const int64_t *y, struct rvl_repeat *rep)
{
	if (y[2] % x[2] || y[3] % x[3])
		return false;
	*rep = (struct rvl_repeat){ .rows = y[2] / x[2], .cols = y[3] / x[3], .phases = x[1] != y[1] };
	if (rep->phases && x[1] != y[1] * rep->rows * rep->cols)
		return false;
	return rep->rows >= 1 && rep->cols >= 1 && rep->rows <= MAX_REPEAT && rep->cols <= MAX_REPEAT &&
	       rep->rows * rep->cols > 1;
}

/* What the shapes ask for, if all other properties of the node allow it. */
static bool form_of(const struct rvl_node *n, struct rvl_repeat *rep)
{
	const int64_t *x, *y;

	if (n->op != RVL_OP_GENERAL || n->n_out != 1 || !rvl_op_moves(n) || n->in[0]->data ||
	    n->in[0]->shape.rank != 4 || n->out[0]->shape.rank != 4)
		return false;
	for (uint32_t i = 1; i < n->n_in; i++)
		if (n->in[i] && !n->in[i]->data)
			return false;
	x = n->in[0]->shape.dim;
	y = n->out[0]->shape.dim;
	if (x[0] != y[0] || x[2] < 1 || x[3] < 1 || y[2] < 1 || y[3] < 1)
		return false;
	return n->def->flags & RVL_OP_PADS ? x[1] == y[1] && edges(n, rep) : factors(x, y, rep);
}

/* Byte @shift of the index of each element. */
static void fill(uint8_t *x, int64_t n, unsigned int shift)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = (uint8_t)(i >> shift);
}

static int64_t inside(int64_t at, int64_t size)
{
	return at < 0 ? 0 : at < size ? at : size - 1;
}

/* The plane of the operand from which row @h, column @w of plane @c of the result comes. */
static int64_t plane_of(const struct rvl_node *n, const struct rvl_repeat *rep, int64_t c, int64_t h, int64_t w)
{
	int64_t channels = n->out[0]->shape.dim[1];
	int64_t phase = h % rep->rows * rep->cols + w % rep->cols;

	if (!rep->phases)
		return c;
	return c / channels * n->in[0]->shape.dim[1] + phase * channels + c % channels;
}

static bool repeated(const struct rvl_node *n, const struct rvl_repeat *rep, const uint8_t *y,
		     unsigned int shift)
{
	const int64_t *d = n->out[0]->shape.dim, *x = n->in[0]->shape.dim;
	int64_t planes = d[0] * d[1];

	for (int64_t c = 0; c < planes; c++)
		for (int64_t h = 0; h < d[2]; h++)
			for (int64_t w = 0; w < d[3]; w++) {
				int64_t row = inside(h / rep->rows - rep->top, x[2]);
				int64_t col = inside(w / rep->cols - rep->left, x[3]);
				int64_t from = (plane_of(n, rep, c, h, w) * x[2] + row) * x[3] + col;

				if (*y++ != (uint8_t)(from >> shift))
					return false;
			}
	return true;
}

/* Runs the operator on each byte of the indices. */
static bool proven(const struct rvl_node *n, const struct rvl_repeat *rep, const struct rvl_kernel *k,
		   uint8_t *x, uint8_t *y, void *scratch)
{
	int64_t count = rvl_shape_count(&n->in[0]->shape);
	const void *in[RVL_MAX_IN] = { x };
	void *out[RVL_MAX_OUT] = { y };

	for (uint32_t i = 1; i < n->n_in; i++)
		in[i] = n->in[i] ? n->in[i]->data : NULL;
	for (unsigned int shift = 0; !shift || count >> shift; shift += 8) {
		fill(x, count, shift);
		if (rvl_kernel_run(k, in, out, scratch, NULL) || !repeated(n, rep, y, shift))
			return false;
	}
	return true;
}

/* The node's kernel on plain images, whatever the layouts of the graph are. */
static struct rvl_kernel *plain_kernel(const struct rvl_node *n)
{
	struct rvl_kernel_desc d;
	struct rvl_kernel *k;

	rvl_node_desc(n, &d);
	d.in[0].layout = d.out[0].layout = RIVULET_LAYOUT_PLAIN;
	d.in[0].pitched = d.out[0].pitched = false;
	return rvl_kernel_new(&d, true, &k, NULL) ? NULL : k;
}

bool rvl_repeat_costs_too_much(const struct rvl_node *n)
{
	return rvl_shape_count(&n->in[0]->shape) > MOST_REPEATED ||
	       rvl_shape_count(&n->out[0]->shape) > MOST_REPEATED;
}

bool rvl_repeats_pixels(const struct rvl_node *n, struct rvl_repeat *rep)
{
	struct rvl_kernel *k;
	uint8_t *x, *y;
	void *scratch;
	bool ok = false;

	if (!form_of(n, rep) || rvl_repeat_costs_too_much(n))
		return false;
	k = plain_kernel(n);
	if (!k)
		return false;
	x = malloc((size_t)rvl_shape_count(&n->in[0]->shape));
	y = malloc((size_t)rvl_shape_count(&n->out[0]->shape));
	scratch = aligned_alloc(64, (rvl_kernel_scratch(k) + 127) / 64 * 64);
	if (x && y && scratch)
		ok = proven(n, rep, k, x, y, scratch);
	free(scratch);
	free(y);
	free(x);
	rvl_kernel_free(k);
	return ok;
}

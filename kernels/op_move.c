/* SPDX-License-Identifier: MIT */
/* Operators that only move values. */
#include <string.h>

#include "internal.h"

static int run_copy(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	size_t bytes = (size_t)rvl_shape_count(&k->d.out[0].shape) *
		       rvl_type_size(k->d.out[0].type);

	(void)scratch;
	(void)pool;
	if (out[0] != in[0])
		memcpy(out[0], in[0], bytes);
	return 0;
}

int rvl_setup_move(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;

	(void)reference;
	if (d->in[0].type != d->out[0].type ||
	    rvl_shape_count(&d->in[0].shape) != rvl_shape_count(&d->out[0].shape))
		return rvl_why(why, "input and output differ in type or number of elements");
	if (rvl_in_nhwc(d) && !rvl_shape_equal(&d->in[0].shape, &d->out[0].shape))
		return rvl_why(why, "input and output are not the same image");
	k->run = run_copy;
	return 0;
}

/* Dimensions of the output in the order of memory, and the input's stride along each, in elements. */
struct walk {
	int rank;
	int64_t dim[RVL_MAX_RANK], stride[RVL_MAX_RANK];
};

static void plan_walk(const struct rvl_kernel_desc *d, struct walk *w)
{
	static const int nhwc[4] = { 0, 2, 3, 1 };
	const struct rvl_shape *y = &d->out[0].shape;

	w->rank = y->rank;
	for (int i = 0; i < y->rank; i++) {
		int axis = d->out[0].layout == RIVULET_LAYOUT_NHWC ? nhwc[i] : i;

		w->dim[i] = y->dim[axis];
		w->stride[i] = rvl_axis_pitch(&d->in[0], d->attr.perm[axis]);
	}
}

static void gather(const char *x, int64_t stride, int64_t n, size_t size, char *y)
{
	if (stride == 1) {
		memcpy(y, x, (size_t)n * size);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		memcpy(y + (size_t)i * size, x + (size_t)(i * stride) * size, size);
}

static int run_transpose(const struct rvl_kernel *k, const void *const *in, void *const *out,
			 void *scratch, const struct rvl_pool *pool)
{
	size_t size = rvl_type_size(k->d.out[0].type);
	int64_t pos[RVL_MAX_RANK] = { 0 };
	int64_t at = 0, done = 0, total = rvl_shape_count(&k->d.out[0].shape);
	struct walk w;
	int last;

	(void)scratch;
	(void)pool;
	plan_walk(&k->d, &w);
	last = w.rank - 1;
	if (last < 0) {
		memcpy(out[0], in[0], size);
		return 0;
	}
	while (done < total) {
		gather((const char *)in[0] + (size_t)at * size, w.stride[last], w.dim[last], size,
		       (char *)out[0] + (size_t)done * size);
		done += w.dim[last];
		for (int i = last - 1; i >= 0; i--) {
			at += w.stride[i];
			if (++pos[i] < w.dim[i])
				break;
			at -= w.stride[i] * w.dim[i];
			pos[i] = 0;
		}
	}
	return 0;
}

int rvl_setup_transpose(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	const struct rvl_shape *x = &d->in[0].shape, *y = &d->out[0].shape;
	uint32_t seen = 0;

	(void)reference;
	if (d->in[0].type != d->out[0].type || d->attr.perm_rank != x->rank || y->rank != x->rank)
		return rvl_why(why, "permutation, input and output do not fit");
	for (int i = 0; i < x->rank; i++) {
		int32_t p = d->attr.perm[i];

		if (p < 0 || p >= x->rank || (seen & (1u << p)) || y->dim[i] != x->dim[p])
			return rvl_why(why, "perm is no permutation of the input's axes");
		seen |= 1u << p;
	}
	k->run = run_transpose;
	return 0;
}

/*
 * The device's layout: (image, block, y, x, lane) with attr.block lanes of int8. A uint8 value is
 * stored XOR 0x80. Lanes beyond the last channel hold the zero point.
 */
struct blocked {
	int64_t n, c, plane, block;
	uint8_t flip;
	uint8_t fill;
};

static int blocked_of(const struct rvl_kernel *k, struct blocked *b, char *why)
{
	bool pack = k->d.op == RVL_OP_PACK_BLOCKED;
	const struct rvl_kernel_arg *plain = pack ? &k->d.in[0] : &k->d.out[0];
	const struct rvl_kernel_arg *other = pack ? &k->d.out[0] : &k->d.in[0];
	const struct rvl_shape *s = &plain->shape;

	if ((plain->type != RVL_TYPE_U8 && plain->type != RVL_TYPE_S8) || s->rank < 2 ||
	    k->d.attr.block < 1 || k->d.attr.block > 4096)
		return rvl_why(why, "no blocked layout for this tensor");
	*b = (struct blocked) {
		.n = s->dim[0], .c = s->dim[1], .plane = 1, .block = k->d.attr.block,
		.flip = plain->type == RVL_TYPE_U8 ? 0x80 : 0,
	};
	for (int i = 2; i < s->rank; i++)
		b->plane *= s->dim[i];
	b->fill = (uint8_t)((plain->quant.n ? plain->quant.zp[0] : 0) ^ b->flip);
	if (rvl_shape_count(&other->shape) !=
	    b->n * ((b->c + b->block - 1) / b->block) * b->block * b->plane)
		return rvl_why(why, "the blocked side has another size");
	return 0;
}

static int run_blocked(const struct rvl_kernel *k, const void *const *in, void *const *out,
		       void *scratch, const struct rvl_pool *pool)
{
	bool pack = k->d.op == RVL_OP_PACK_BLOCKED;
	struct blocked b;
	int64_t blocks;
	int rc = blocked_of(k, &b, NULL);

	(void)scratch;
	(void)pool;
	if (rc)
		return rc;
	blocks = (b.c + b.block - 1) / b.block;
	for (int64_t i = 0; i < b.n * blocks * b.block; i++) {
		int64_t image = i / (blocks * b.block), c = i % (blocks * b.block);
		int64_t plain = (image * b.c + c) * b.plane;
		int64_t packed = (image * blocks + c / b.block) * b.plane * b.block + c % b.block;
		const uint8_t *x = in[0];
		uint8_t *y = out[0];

		if (c >= b.c && !pack)
			continue;
		for (int64_t p = 0; p < b.plane; p++) {
			if (!pack)
				y[plain + p] = x[packed + p * b.block] ^ b.flip;
			else
				y[packed + p * b.block] = c < b.c ? x[plain + p] ^ b.flip : b.fill;
		}
	}
	return 0;
}

int rvl_setup_blocked(struct rvl_kernel *k, bool reference, char *why)
{
	struct blocked b;

	(void)reference;
	k->run = run_blocked;
	return blocked_of(k, &b, why);
}

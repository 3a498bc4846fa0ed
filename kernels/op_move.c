/* SPDX-License-Identifier: MIT */
/* Operators that only move values. */
#include <string.h>

#include "internal.h"

#define GRAIN 65536	/* bytes that a thread moves at least */

/* A kernel at work, for the threads that share it. */
struct move_run {
	const struct rvl_kernel *k;
	const char *x;
	char *y;
};

static void copy_bytes(void *arg, int64_t first, int64_t past)
{
	const struct move_run *r = arg;

	memcpy(r->y + first, r->x + first, (size_t)(past - first));
}

static int run_copy(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	struct move_run r = { .k = k, .x = in[0], .y = out[0] };

	(void)scratch;
	if (out[0] != in[0])
		rvl_parallel_range(pool, rvl_shape_count(&k->d.out[0].shape) *
				   (int64_t)rvl_type_size(k->d.out[0].type), GRAIN, copy_bytes, &r);
	return 0;
}

/*
 * One side may have pitches and another shape than the other, which is dense then: its elements are
 * in row-major order, so that it is copied as a dense tensor of the shape of the pitched side.
 */
static int run_copy_pitched(const struct rvl_kernel *k, const void *const *in, void *const *out,
			    void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_kernel_arg *x = &k->d.in[0], *y = &k->d.out[0];
	const struct rvl_shape *s = x->pitched ? &x->shape : &y->shape;
	struct rvl_copy c = { .x = in[0], .y = out[0], .size = rvl_type_size(x->type) };
	int64_t from[RVL_MAX_RANK], to[RVL_MAX_RANK];

	(void)scratch;
	rvl_strides(s, from);
	rvl_strides(s, to);
	if (rvl_shape_equal(&x->shape, s))
		rvl_arg_strides(x, from);
	if (rvl_shape_equal(&y->shape, s))
		rvl_arg_strides(y, to);
	for (int d = 0; d < s->rank; d++)
		rvl_copy_dim(&c, s->dim[d], from[d], to[d]);
	rvl_copy_run(&c, pool);
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
	k->run = d->in[0].pitched || d->out[0].pitched ? run_copy_pitched : run_copy;
	return 0;
}

static int run_transpose(const struct rvl_kernel *k, const void *const *in, void *const *out,
			 void *scratch, const struct rvl_pool *pool)
{
	(void)scratch;
	rvl_copy_args(k, k->d.attr.perm, in[0], out[0], pool);
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

struct blocked_run {
	struct blocked b;
	bool pack;
	const uint8_t *x;
	uint8_t *y;
};

#define PIXELS 256	/* of a block of channels, moved at a time */

/* Pixels [p0, p1) of one lane. */
static void move_lane(const struct blocked_run *r, int64_t image, int64_t c, int64_t p0, int64_t p1)
{
	const struct blocked *b = &r->b;
	int64_t blocks = (b->c + b->block - 1) / b->block;
	int64_t plain = (image * b->c + c) * b->plane;
	int64_t packed = (image * blocks + c / b->block) * b->plane * b->block + c % b->block;

	if (c >= b->c && !r->pack)
		return;
	for (int64_t p = p0; p < p1; p++) {
		if (!r->pack)
			r->y[plain + p] = r->x[packed + p * b->block] ^ b->flip;
		else
			r->y[packed + p * b->block] = c < b->c ? r->x[plain + p] ^ b->flip : b->fill;
	}
}

static int64_t pieces(const struct blocked *b)
{
	return (b->plane + PIXELS - 1) / PIXELS;
}

/* Pieces of all blocks of all images. */
static void move_pieces(void *arg, int64_t first, int64_t past)
{
	const struct blocked_run *r = arg;
	const struct blocked *b = &r->b;
	int64_t blocks = (b->c + b->block - 1) / b->block;

	for (int64_t i = first; i < past; i++) {
		int64_t block = i / pieces(b), p0 = i % pieces(b) * PIXELS;
		int64_t p1 = b->plane - p0 < PIXELS ? b->plane : p0 + PIXELS;

		for (int64_t c = 0; c < b->block; c++)
			move_lane(r, block / blocks, block % blocks * b->block + c, p0, p1);
	}
}

static int run_blocked(const struct rvl_kernel *k, const void *const *in, void *const *out,
		       void *scratch, const struct rvl_pool *pool)
{
	struct blocked_run r = { .pack = k->d.op == RVL_OP_PACK_BLOCKED, .x = in[0], .y = out[0] };
	int rc = blocked_of(k, &r.b, NULL);

	(void)scratch;
	if (rc)
		return rc;
	rvl_parallel_range(pool, r.b.n * ((r.b.c + r.b.block - 1) / r.b.block) * pieces(&r.b),
			   1 + GRAIN / (r.b.block * PIXELS), move_pieces, &r);
	return 0;
}

int rvl_setup_blocked(struct rvl_kernel *k, bool reference, char *why)
{
	struct blocked b;

	(void)reference;
	k->run = run_blocked;
	return blocked_of(k, &b, why);
}

/* SPDX-License-Identifier: MIT */
/* BinarySign: one bit for each element, which says whether it reaches the threshold of its channel. */
#include <string.h>

#include "binary/binary.h"

int32_t rvl_b_integer(enum rvl_type type, const void *data, int64_t at)
{
	switch (type) {
	case RVL_TYPE_U8:
		return ((const uint8_t *)data)[at];
	case RVL_TYPE_S8:
		return ((const int8_t *)data)[at];
	case RVL_TYPE_S16:
		return ((const int16_t *)data)[at];
	default:
		return ((const int32_t *)data)[at];
	}
}

bool rvl_b_image_shape(const struct rvl_shape *s, int64_t nchw[4])
{
	if (s->rank != 4 && s->rank != 2)
		return false;
	for (int i = 0; i < 4; i++)
		nchw[i] = i < s->rank ? s->dim[i] : 1;
	return true;
}

struct rvl_pitch rvl_b_pitch(const struct rvl_kernel_arg *a)
{
	if (a->shape.rank == 4)
		return rvl_pitch_of(a);
	return (struct rvl_pitch) { .n = a->shape.dim[1], .c = 1 };
}

bool rvl_b_is_image(const struct rvl_kernel_arg *a, int64_t channels, const int64_t nhw[3])
{
	const struct rvl_shape *s = &a->shape;

	return a->type == RVL_TYPE_U64 && s->rank == 3 && s->dim[0] == nhw[0] &&
	       s->dim[1] == nhw[1] && s->dim[2] == nhw[2] * rvl_b_words(channels);
}

bool rvl_b_is_vector(const struct rvl_kernel_desc *d, uint32_t i, enum rvl_type type, int64_t n)
{
	const struct rvl_kernel_arg *a = i < d->n_in ? &d->in[i] : NULL;

	return a && a->type == type && a->data && a->shape.rank == 1 && a->shape.dim[0] == n;
}

struct sign_run {
	const struct rvl_kernel *k;
	const void *x;
	uint64_t *y;
	struct rvl_pitch p;
	int64_t c, h, w;
};

/* Bits of up to 64 channels of a pixel, of which the first one is element @at. */
static uint64_t word_of(const struct sign_run *r, int64_t at, int64_t first, int64_t n)
{
	enum rvl_type type = r->k->d.in[0].type;
	const void *t = r->k->d.in[1].data;
	uint64_t word = 0;

	for (int64_t c = 0; c < n; c++) {
		int64_t e = at + c * r->p.c;
		bool bit = type == RVL_TYPE_F32 ?
			   ((const float *)r->x)[e] >= ((const float *)t)[first + c] :
			   rvl_b_integer(type, r->x, e) >= ((const int32_t *)t)[first + c];

		word |= (uint64_t)bit << c;
	}
	return word;
}

static void sign_rows(void *arg, int64_t first, int64_t past)
{
	const struct sign_run *r = arg;
	int64_t words = rvl_b_words(r->c);

	for (int64_t i = first; i < past; i++)
		for (int64_t x = 0; x < r->w; x++)
			for (int64_t j = 0; j < words; j++) {
				int64_t left = r->c - j * 64;
				int64_t at = i / r->h * r->p.n + i % r->h * r->p.y + x * r->p.x;

				r->y[(i * r->w + x) * words + j] =
					word_of(r, at + j * 64 * r->p.c, j * 64, left < 64 ? left : 64);
			}
}

static int run_sign(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	struct sign_run r = { .k = k, .x = in[0], .y = out[0], .p = rvl_b_pitch(&k->d.in[0]) };
	int64_t nchw[4];

	(void)scratch;
	rvl_b_image_shape(&k->d.in[0].shape, nchw);
	r.c = nchw[1];
	r.h = nchw[2];
	r.w = nchw[3];
	rvl_parallel_range(pool, nchw[0] * r.h, 1, sign_rows, &r);
	return 0;
}

int rvl_setup_b_sign(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	enum rvl_type type = d->in[0].type;
	int64_t nchw[4];

	(void)reference;
	if (!rvl_b_image_shape(&d->in[0].shape, nchw) ||
	    !rvl_b_is_image(&d->out[0], nchw[1], (int64_t[]) { nchw[0], nchw[2], nchw[3] }))
		return rvl_why(why, "its result is not the bits of its input");
	if (type != RVL_TYPE_F32 && type != RVL_TYPE_S8 && type != RVL_TYPE_U8 &&
	    type != RVL_TYPE_S16 && type != RVL_TYPE_S32)
		return rvl_why(why, "its input is %s", rvl_type_name(type));
	if (!rvl_b_is_vector(d, 1, type == RVL_TYPE_F32 ? RVL_TYPE_F32 : RVL_TYPE_S32, nchw[1]))
		return rvl_why(why, "its thresholds are not one constant for each channel");
	k->run = run_sign;
	return 0;
}

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

uint64_t rvl_b_reach_word(const struct rvl_b_reach *r, int64_t at, int64_t first, int64_t n)
{
	uint64_t word = 0;

	for (int64_t c = first; c < first + n; c++) {
		int64_t e = at + c * r->channel_step;
		bool bit = r->type == RVL_TYPE_F32 ?
			   ((const float *)(const void *)r->x)[e] >= ((const float *)r->t)[c] :
			   rvl_b_integer(r->type, r->x, e) >= ((const int32_t *)r->t)[c];

		word |= (uint64_t)bit << (c - first);
	}
	return word;
}

void rvl_b_reach_elements(const struct rvl_b_reach *r)
{
	int64_t words = rvl_b_words(r->channels);

	for (int64_t i = 0; i < r->pixels * words; i++) {
		int64_t first = i % words * 64, left = r->channels - first;

		r->y[i] = rvl_b_reach_word(r, i / words * r->pixel_step, first, left < 64 ? left : 64);
	}
}

struct sign_run {
	const struct rvl_kernel *k;
	const char *x;
	uint64_t *y;
	struct rvl_pitch p;
	int64_t c, pixels, size;	/* pixels of an image, whose rows lie behind each other */
	void (*reach)(const struct rvl_b_reach *r);
};

/* Pixels [first, past) of all images, by runs of those of one image. */
static void sign_pixels(void *arg, int64_t first, int64_t past)
{
	const struct sign_run *s = arg;

	for (int64_t at = first; at < past;) {
		int64_t n = at / s->pixels, i = at % s->pixels, left = s->pixels - i;
		struct rvl_b_reach r = {
			.type = s->k->d.in[0].type, .t = s->k->d.in[1].data, .channels = s->c,
			.x = s->x + (n * s->p.n + i * s->p.x) * s->size, .y = s->y + at * rvl_b_words(s->c),
			.pixels = left < past - at ? left : past - at, .channel_step = s->p.c,
			.pixel_step = s->p.x,
		};

		s->reach(&r);
		at += r.pixels;
	}
}

#define LEAST_PIXELS 64	/* that a thread takes */

static int run_all(const struct rvl_kernel *k, const void *const *in, void *const *out,
		   const struct rvl_pool *pool, void (*reach)(const struct rvl_b_reach *r))
{
	struct sign_run s = {
		.k = k, .x = in[0], .y = out[0], .p = rvl_b_pitch(&k->d.in[0]), .reach = reach,
		.size = (int64_t)rvl_type_size(k->d.in[0].type),
	};
	int64_t nchw[4];

	rvl_b_image_shape(&k->d.in[0].shape, nchw);
	s.c = nchw[1];
	s.pixels = nchw[2] * nchw[3];
	rvl_parallel_range(pool, nchw[0] * s.pixels, LEAST_PIXELS, sign_pixels, &s);
	return 0;
}

static int run_elements(const struct rvl_kernel *k, const void *const *in, void *const *out,
			void *scratch, const struct rvl_pool *pool)
{
	(void)scratch;
	return run_all(k, in, out, pool, rvl_b_reach_elements);
}

static int run_vectors(const struct rvl_kernel *k, const void *const *in, void *const *out,
		       void *scratch, const struct rvl_pool *pool)
{
	(void)scratch;
	return run_all(k, in, out, pool, rvl_b_kernels()->reach);
}

int rvl_setup_b_sign(struct rvl_kernel *k, bool reference, char *why)
{
	const struct rvl_kernel_desc *d = &k->d;
	enum rvl_type type = d->in[0].type;
	int64_t nchw[4];

	if (!rvl_b_image_shape(&d->in[0].shape, nchw) ||
	    !rvl_b_is_image(&d->out[0], nchw[1], (int64_t[]) { nchw[0], nchw[2], nchw[3] }))
		return rvl_why(why, "its result is not the bits of its input");
	if (type != RVL_TYPE_F32 && type != RVL_TYPE_S8 && type != RVL_TYPE_U8 &&
	    type != RVL_TYPE_S16 && type != RVL_TYPE_S32)
		return rvl_why(why, "its input is %s", rvl_type_name(type));
	if (!rvl_b_is_vector(d, 1, type == RVL_TYPE_F32 ? RVL_TYPE_F32 : RVL_TYPE_S32, nchw[1]))
		return rvl_why(why, "its thresholds are not one constant for each channel");
	k->run = reference ? run_elements : run_vectors;
	return 0;
}

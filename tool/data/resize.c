// SPDX-License-Identifier: MIT
/*
 * Pictures to another size, by a bilinear filter in two passes. When a side shrinks, the filter's
 * triangle is as wide as the scale factor, so that every source pixel counts and nothing aliases.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/image.h"

static const char *const fits[] = { [RVL_FIT_NONE] = "none", [RVL_FIT_CROP] = "crop",
				    [RVL_FIT_PAD] = "pad", [RVL_FIT_STRETCH] = "stretch" };

const char *rvl_fit_name(enum rvl_fit fit)
{
	return fits[fit];
}

int rvl_fit_find(const char *name)
{
	for (int i = 0; i < (int)(sizeof(fits) / sizeof(fits[0])); i++)
		if (!strcmp(fits[i], name))
			return i;
	return -1;
}

/** struct window - the part of one axis of the source that fills @n target pixels */
struct window {
	double first, length;	/* source pixels */
	uint32_t n;
	uint32_t limit;		/* source pixels that there are */
};

/** struct taps - the source pixels of one target pixel */
struct taps {
	uint32_t first, n;
	float *weight;
};

/* Weights of target pixel @i, normalised; @weight has room for all. */
static void find_taps(const struct window *w, uint32_t i, struct taps *t)
{
	double scale = w->length / w->n, reach = scale > 1 ? scale : 1;
	double centre = w->first + (i + 0.5) * scale, sum = 0;
	double lo = fmax(floor(centre - reach), 0), hi = fmin(ceil(centre + reach), w->limit);

	t->first = (uint32_t)lo;
	t->n = (uint32_t)(hi - lo);
	for (uint32_t k = 0; k < t->n; k++) {
		t->weight[k] = (float)fmax(0, 1 - fabs(lo + k + 0.5 - centre) / reach);
		sum += t->weight[k];
	}
	for (uint32_t k = 0; k < t->n; k++)
		t->weight[k] = (float)(t->weight[k] / sum);
}

/* Each source row to w->n pixels of float; @rows is source height x w->n x channels. */
static void shrink_rows(const struct rvl_image *src, const struct window *w, struct taps *t, float *rows)
{
	uint32_t c = src->channels;

	for (uint32_t x = 0; x < w->n; x++) {
		find_taps(w, x, t);
		for (size_t y = 0; y < src->h; y++)
			for (uint32_t k = 0; k < c; k++) {
				const uint8_t *p = src->data + (y * src->w + t->first) * c + k;
				float sum = 0;

				for (uint32_t i = 0; i < t->n; i++)
					sum += t->weight[i] * (float)p[(size_t)i * c];
				rows[(y * w->n + x) * c + k] = sum;
			}
	}
}

/* Columns of @rows, @width floats wide, to @out, whose lines are @pitch bytes apart. */
static void shrink_columns(const float *rows, size_t width, const struct window *w, struct taps *t,
			   uint8_t *out, size_t pitch)
{
	for (uint32_t y = 0; y < w->n; y++) {
		find_taps(w, y, t);
		for (size_t x = 0; x < width; x++) {
			float sum = 0;

			for (uint32_t i = 0; i < t->n; i++)
				sum += t->weight[i] * rows[(t->first + i) * width + x];
			out[y * pitch + x] = (uint8_t)lrintf(fminf(fmaxf(sum, 0), 255));
		}
	}
}

static int resample(const struct rvl_image *src, const struct window *wx, const struct window *wy,
		    uint8_t *out, size_t pitch)
{
	size_t width = (size_t)wx->n * src->channels;
	float *rows = calloc((size_t)src->h * width + 1, sizeof(*rows));
	struct taps t = { .weight = calloc((size_t)(src->w > src->h ? src->w : src->h) + 2, sizeof(float)) };

	if (rows && t.weight) {
		shrink_rows(src, wx, &t, rows);
		shrink_columns(rows, width, wy, &t, out, pitch);
	}
	free(t.weight);
	free(rows);
	return rows && t.weight ? 0 : -ENOMEM;
}

int rvl_image_fit(const struct rvl_image *src, uint32_t w, uint32_t h, enum rvl_fit fit, struct rvl_image *out)
{
	struct window wx = { .length = src->w, .n = w, .limit = src->w };
	struct window wy = { .length = src->h, .n = h, .limit = src->h };
	double sx = (double)src->w / w, sy = (double)src->h / h, scale = fmin(sx, sy);
	uint32_t c = src->channels;
	size_t corner = 0;

	if (fit == RVL_FIT_NONE && (src->w != w || src->h != h))
		return -EINVAL;
	if (fit == RVL_FIT_CROP) {
		wx.length = scale * w;
		wy.length = scale * h;
		wx.first = (src->w - wx.length) / 2;
		wy.first = (src->h - wy.length) / 2;
	} else if (fit == RVL_FIT_PAD) {
		scale = fmax(sx, sy);
		wx.n = (uint32_t)fmax(1, floor(src->w / scale + 0.5));
		wy.n = (uint32_t)fmax(1, floor(src->h / scale + 0.5));
		corner = ((size_t)((h - wy.n) / 2) * w + (w - wx.n) / 2) * c;
	}
	*out = (struct rvl_image) { .w = w, .h = h, .channels = c, .data = calloc((size_t)w * h, c) };
	if (!out->data)
		return -ENOMEM;
	return resample(src, &wx, &wy, out->data + corner, (size_t)w * c);
}

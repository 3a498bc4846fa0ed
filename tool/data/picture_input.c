// SPDX-License-Identifier: MIT
/* A picture into the input of a model: size, layout, normalisation, quantisation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/picture_input.h"
#include "verb.h"

/* One number for all channels, or three. */
static int parse_channels(const char *option, const char *s, float least, float out[3])
{
	bool complete = false;
	char *end;
	int n = 0;

	while (n < 3 && !complete) {
		out[n] = strtof(s, &end);
		if (end == s || !isfinite(out[n]) || out[n] < least || (*end && *end != ','))
			break;
		n++;
		complete = !*end;
		s = end + 1;
	}
	if (!complete || n == 2)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--%s takes one number, or three with commas, for samples "
				     "of 0 to 1%s", option, least > 0 ? "; each is above 0" : "");
	for (int i = n; i < 3; i++)
		out[i] = out[0];
	return 0;
}

int rvl_picture_options_check(struct rvl_picture_options *o)
{
	int fit = rvl_fit_find(o->fit_name ? o->fit_name : "crop"), e;

	if (fit < 0)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--resize is crop, pad, stretch or none, not \"%s\"",
				     o->fit_name);
	if (o->layout && strcmp(o->layout, "nchw") && strcmp(o->layout, "nhwc"))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--layout is nchw or nhwc, not \"%s\"", o->layout);
	o->fit = (enum rvl_fit)fit;
	e = parse_channels("mean", o->mean_text ? o->mean_text : "0", -INFINITY, o->mean);
	return e ? e : parse_channels("std", o->std_text ? o->std_text : "1", 1e-9f, o->std);
}

bool rvl_picture_options_given(const struct rvl_picture_options *o)
{
	return o->fit_name || o->layout || o->mean_text || o->std_text;
}

static bool is_colour(uint64_t channels)
{
	return channels == 1 || channels == 3;
}

int rvl_picture_target_set(const struct rvl_picture_options *o, struct rvl_picture_target *t)
{
	char shape[128];
	uint32_t c, y;

	t->nhwc = o->layout ? !strcmp(o->layout, "nhwc") : t->ndim == 4 && !is_colour(t->dim[1]);
	c = t->nhwc ? 3 : 1;
	y = t->nhwc ? 1 : 2;
	if (t->ndim != 4 || t->dim[0] != 1 || !is_colour(t->dim[c]) || t->dim[y] > RVL_IMAGE_SIDE ||
	    t->dim[y + 1] > RVL_IMAGE_SIDE ||
	    (t->dtype != RIVULET_F32 && t->dtype != RIVULET_U8 && t->dtype != RIVULET_S8))
		return rvl_tool_fail(RVL_EXIT_USAGE, "input %s is %s %s; pictures need [1, C, H, W] or "
				     "[1, H, W, C] with C = 1 or 3, of float32, uint8 or int8", t->name,
				     rvl_dtype_name(t->dtype), rvl_shape_text(shape, t->ndim, t->dim));
	if ((o->mean_text || o->std_text) && t->dtype != RIVULET_F32 && !(t->scale > 0))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--mean and --std: input %s is %s without a scale, and takes "
				     "samples as they are", t->name, rvl_dtype_name(t->dtype));
	t->c = (uint32_t)t->dim[c];
	t->h = (uint32_t)t->dim[y];
	t->w = (uint32_t)t->dim[y + 1];
	return 0;
}

uint8_t rvl_grey_of(const uint8_t *rgb)
{
	return (uint8_t)((299u * rgb[0] + 587u * rgb[1] + 114u * rgb[2] + 500) / 1000);
}

/* (sample / 255 - mean) / std in float32; quantised where the input has a scale. */
static void put_sample(const struct rvl_picture_options *o, const struct rvl_picture_target *t,
		       void *memory, size_t at, uint32_t c, uint8_t v)
{
	float f = ((float)v / 255.0f - o->mean[c]) / o->std[c];

	if (t->dtype == RIVULET_F32) {
		((float *)memory)[at] = f;
		return;
	}
	if (t->scale > 0) {
		float lo = t->dtype == RIVULET_U8 ? 0 : -128, hi = lo + 255;

		f = rintf(f / t->scale) + (float)t->zero_point;
		((uint8_t *)memory)[at] = (uint8_t)(int)fminf(fmaxf(f, lo), hi);
		return;
	}
	((uint8_t *)memory)[at] = t->dtype == RIVULET_U8 ? v : (uint8_t)(v - 128);
}

static void put_pixels(const struct rvl_picture_options *o, const struct rvl_picture_target *t,
		       const struct rvl_image *img, void *memory)
{
	size_t plane = (size_t)t->h * t->w;

	for (size_t i = 0; i < plane; i++) {
		const uint8_t *s = img->data + i * img->channels;

		for (uint32_t c = 0; c < t->c; c++)
			put_sample(o, t, memory, t->nhwc ? i * t->c + c : c * plane + i, c,
				   img->channels == 1 ? *s : t->c == 3 ? s[c] : rvl_grey_of(s));
	}
}

int rvl_picture_put(const struct rvl_picture_options *o, const struct rvl_picture_target *t,
		    const struct rvl_image *img, const char *what, void *memory)
{
	struct rvl_image fitted = { 0 };

	if (img->w == t->w && img->h == t->h) {
		put_pixels(o, t, img, memory);
		return 0;
	}
	if (o->fit == RVL_FIT_NONE)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %u x %u pixels, the model takes %u x %u", what,
				     img->w, img->h, t->w, t->h);
	if (rvl_image_fit(img, t->w, t->h, o->fit, &fitted)) {
		free(fitted.data);
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	}
	put_pixels(o, t, &fitted, memory);
	free(fitted.data);
	return 0;
}

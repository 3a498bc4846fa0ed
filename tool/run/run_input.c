// SPDX-License-Identifier: MIT
/* A picture into the input of a model: size, layout, normalisation, quantisation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

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

int rvl_input_options(struct rvl_run *r)
{
	int fit = rvl_fit_find(r->fit_name ? r->fit_name : "crop"), e;

	if (fit < 0)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--resize is crop, pad, stretch or none, not \"%s\"",
				     r->fit_name);
	if (r->layout && strcmp(r->layout, "nchw") && strcmp(r->layout, "nhwc"))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--layout is nchw or nhwc, not \"%s\"", r->layout);
	r->fit = (enum rvl_fit)fit;
	e = parse_channels("mean", r->mean_text ? r->mean_text : "0", -INFINITY, r->mean);
	return e ? e : parse_channels("std", r->std_text ? r->std_text : "1", 1e-9f, r->std);
}

static bool is_colour(uint64_t channels)
{
	return channels == 1 || channels == 3;
}

int rvl_input_find(struct rvl_run *r, struct rvl_input *in)
{
	const struct rivulet_tensor_info *t;
	char shape[128];
	uint32_t c, y;

	if (rvl_engine_inputs(r->engine) != 1)
		return rvl_tool_fail(RVL_EXIT_USAGE, "pictures need a model of one input, this has %u",
				     rvl_engine_inputs(r->engine));
	t = rvl_engine_tensor(r->engine, 0);
	*in = (struct rvl_input) { .t = t, .memory = rvl_engine_memory(r->engine, 0, 0) };
	in->nhwc = r->layout ? !strcmp(r->layout, "nhwc") : t->ndim == 4 && !is_colour(t->dim[1]);
	c = in->nhwc ? 3 : 1;
	y = in->nhwc ? 1 : 2;
	if (t->ndim != 4 || t->dim[0] != 1 || !is_colour(t->dim[c]) || t->dim[y] > RVL_IMAGE_SIDE ||
	    t->dim[y + 1] > RVL_IMAGE_SIDE ||
	    (t->dtype != RIVULET_F32 && t->dtype != RIVULET_U8 && t->dtype != RIVULET_S8))
		return rvl_tool_fail(RVL_EXIT_USAGE, "input %s is %s %s; pictures need [1, C, H, W] or "
				     "[1, H, W, C] with C = 1 or 3, of float32, uint8 or int8", t->name,
				     rvl_dtype_name(t->dtype), rvl_shape_text(shape, t->ndim, t->dim));
	if ((r->mean_text || r->std_text) && t->dtype != RIVULET_F32 && !(t->scale > 0))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--mean and --std: input %s is %s without a scale, and takes "
				     "samples as they are", t->name, rvl_dtype_name(t->dtype));
	in->c = (uint32_t)t->dim[c];
	in->h = (uint32_t)t->dim[y];
	in->w = (uint32_t)t->dim[y + 1];
	r->want_w = in->w;
	r->want_h = in->h;
	return 0;
}

uint8_t rvl_grey_of(const uint8_t *rgb)
{
	return (uint8_t)((299u * rgb[0] + 587u * rgb[1] + 114u * rgb[2] + 500) / 1000);
}

/* (sample / 255 - mean) / std in float32; quantised where the input has a scale. */
static void put_sample(const struct rvl_run *r, const struct rvl_input *in, size_t at, uint32_t c, uint8_t v)
{
	const struct rivulet_tensor_info *t = in->t;
	float f = ((float)v / 255.0f - r->mean[c]) / r->std[c];

	if (t->dtype == RIVULET_F32) {
		((float *)in->memory)[at] = f;
		return;
	}
	if (t->scale > 0) {
		float lo = t->dtype == RIVULET_U8 ? 0 : -128, hi = lo + 255;

		f = rintf(f / t->scale) + (float)t->zero_point;
		((uint8_t *)in->memory)[at] = (uint8_t)(int)fminf(fmaxf(f, lo), hi);
		return;
	}
	((uint8_t *)in->memory)[at] = t->dtype == RIVULET_U8 ? v : (uint8_t)(v - 128);
}

static void put_pixels(const struct rvl_run *r, const struct rvl_input *in, const struct rvl_image *img)
{
	size_t plane = (size_t)in->h * in->w;

	for (size_t i = 0; i < plane; i++) {
		const uint8_t *s = img->data + i * img->channels;

		for (uint32_t c = 0; c < in->c; c++)
			put_sample(r, in, in->nhwc ? i * in->c + c : c * plane + i, c,
				   img->channels == 1 ? *s : in->c == 3 ? s[c] : rvl_grey_of(s));
	}
}

int rvl_input_put(const struct rvl_run *r, const struct rvl_input *in, const struct rvl_image *img,
		  const char *what)
{
	struct rvl_image fitted = { 0 };

	if (img->w == in->w && img->h == in->h) {
		put_pixels(r, in, img);
		return 0;
	}
	if (r->fit == RVL_FIT_NONE)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %u x %u pixels, the model takes %u x %u", what,
				     img->w, img->h, in->w, in->h);
	if (rvl_image_fit(img, in->w, in->h, r->fit, &fitted)) {
		free(fitted.data);
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	}
	put_pixels(r, in, &fitted);
	free(fitted.data);
	return 0;
}

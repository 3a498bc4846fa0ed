// SPDX-License-Identifier: MIT
/*
 * Pictures from files: PNG by libpng's simplified interface, which checks sizes; PGM, PPM and IDX.
 */
#include <errno.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "data/image.h"
#include "verb.h"

#define MAX_FILE (256u << 20)

static int png_decode(const struct rvl_blob *b, struct rvl_image *out, char *why)
{
	png_image img = { .version = PNG_IMAGE_VERSION };
	bool colour;

	if (!png_image_begin_read_from_memory(&img, b->data, b->size)) {
		snprintf(why, 160, "%.120s", img.message);
		return -EINVAL;
	}
	colour = img.format & PNG_FORMAT_FLAG_COLOR;
	if (img.width > RVL_IMAGE_SIDE || img.height > RVL_IMAGE_SIDE) {
		snprintf(why, 160, "%u x %u pixels, at most %u a side", img.width, img.height, RVL_IMAGE_SIDE);
		png_image_free(&img);
		return -EOVERFLOW;
	}
	img.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
	out->w = img.width;
	out->h = img.height;
	out->channels = colour ? 3 : 1;
	out->data = malloc(PNG_IMAGE_SIZE(img));
	if (!out->data) {
		png_image_free(&img);
		return -ENOMEM;
	}
	/* Transparent pixels are composed on black. */
	if (!png_image_finish_read(&img, &(png_color){ 0 }, out->data, 0, NULL)) {
		snprintf(why, 160, "%.120s", img.message);
		free(out->data);
		out->data = NULL;
		return -EINVAL;
	}
	return 0;
}

/* A number of a PNM header, after white space and '#' comments. */
static bool pnm_number(const uint8_t **p, const uint8_t *end, uint32_t *out)
{
	bool any = false;

	while (*p < end && (strchr(" \t\r\n", **p) || **p == '#')) {
		if (**p == '#')
			while (*p < end && **p != '\n')
				++*p;
		else
			++*p;
	}
	*out = 0;
	for (; *p < end && **p >= '0' && **p <= '9' && *out <= RVL_IMAGE_SIDE; ++*p, any = true)
		*out = *out * 10 + (uint32_t)(**p - '0');
	return any;
}

int rvl_pnm_parse(const uint8_t *p, size_t size, struct rvl_image *out, char *why)
{
	const uint8_t *end = p + size;
	uint32_t w, h, max, channels;
	uint64_t need;

	strcpy(why, "neither PNG nor binary PGM or PPM");
	if (size < 8 || p[0] != 'P' || (p[1] != '5' && p[1] != '6'))
		return -EINVAL;
	channels = p[1] == '5' ? 1 : 3;
	p += 2;
	if (!pnm_number(&p, end, &w) || !pnm_number(&p, end, &h) || !pnm_number(&p, end, &max) ||
	    p == end || !w || !h || w > RVL_IMAGE_SIDE || h > RVL_IMAGE_SIDE || max != 255) {
		strcpy(why, "damaged PGM or PPM header (sides up to 16384, 8 bits a sample)");
		return -EINVAL;
	}
	p++;
	need = (uint64_t)w * h * channels;
	if ((uint64_t)(end - p) < need) {
		strcpy(why, "the picture's data is cut off");
		return -EINVAL;
	}
	*out = (struct rvl_image) { .w = w, .h = h, .channels = channels, .data = malloc(need) };
	if (!out->data)
		return -ENOMEM;
	memcpy(out->data, p, need);
	return 0;
}

int rvl_image_read(const char *path, struct rvl_image *out)
{
	struct rvl_blob b;
	char why[160] = "";
	int r = rvl_read_file(path, MAX_FILE, &b);

	if (r)
		return r;
	if (b.size >= 8 && !memcmp(b.data, "\x89PNG\r\n\x1a\n", 8))
		r = png_decode(&b, out, why);
	else
		r = rvl_pnm_parse(b.data, b.size, out, why);
	rvl_blob_clear(&b);
	if (r)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, *why ? why : strerror(-r));
	return 0;
}

/* ---- IDX, the format of MNIST: big endian, plain or gzip ---- */

static bool read_exact(gzFile f, void *p, uint64_t n)
{
	for (uint64_t at = 0; at < n;) {
		unsigned int piece = n - at > 1u << 30 ? 1u << 30 : (unsigned int)(n - at);
		int got = gzread(f, (char *)p + at, piece);

		if (got <= 0)
			return false;
		at += (uint64_t)got;
	}
	return true;
}

static int read_idx(gzFile f, uint32_t ndim, struct rvl_array *a, char *why)
{
	uint8_t h[4], d[4];
	int r;

	strcpy(why, "not an IDX file of unsigned bytes");
	if (!read_exact(f, h, 4) || h[0] || h[1] || h[2] != 8)
		return -EINVAL;
	if (h[3] != ndim) {
		snprintf(why, 160, "an IDX file of %u dimensions where %u belong", h[3], ndim);
		return -EINVAL;
	}
	*a = (struct rvl_array) { .dtype = RIVULET_U8, .ndim = ndim };
	strcpy(why, "cut off");
	for (uint32_t i = 0; i < ndim; i++) {
		if (!read_exact(f, d, 4))
			return -EINVAL;
		a->dim[i] = (uint32_t)d[0] << 24 | (uint32_t)d[1] << 16 | (uint32_t)d[2] << 8 | d[3];
	}
	r = rvl_array_alloc(a);
	if (r) {
		strcpy(why, "too large");
		return r;
	}
	if (read_exact(f, a->data, a->size))
		return 0;
	rvl_array_clear(a);
	return -EINVAL;
}

int rvl_idx_read(const char *path, uint32_t ndim, struct rvl_array *out)
{
	gzFile f = gzopen(path, "rbe");
	char why[160];
	int r;

	if (!f)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, strerror(errno));
	r = read_idx(f, ndim, out, why);
	gzclose(f);
	return r ? rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, why) : 0;
}

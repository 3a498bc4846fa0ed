// SPDX-License-Identifier: MIT
/*
 * Grey pictures on a terminal. Each character is an upper half block, whose foreground is one pixel
 * row and whose background is the next: in 24-bit colour if COLORTERM allows it, else from the grey
 * ramp of the 256 colours. Without colour, the block that covers the brighter pixel or a shade is
 * printed.
 */
#include <stdlib.h>
#include <string.h>

#include "data/image.h"

static bool truecolour(void)
{
	const char *c = getenv("COLORTERM");

	return c && (!strcmp(c, "truecolor") || !strcmp(c, "24bit"));
}

static void set_grey(FILE *f, int ground, uint8_t v, bool rgb)
{
	if (rgb)
		fprintf(f, "\x1b[%d;2;%u;%u;%um", ground, v, v, v);
	else
		fprintf(f, "\x1b[%d;5;%um", ground, v < 4 ? 16u : v > 246 ? 231u : 232u + (v - 4u) * 24u / 243u);
}

/* Two pixels without colour: a half block if their contrast is high, else a shade of their mean. */
static const char *plain_blocks(uint32_t top, uint32_t bottom)
{
	static const char *const shades[] = { " ", "\xe2\x96\x91", "\xe2\x96\x92", "\xe2\x96\x93",
					      "\xe2\x96\x88" };
	const uint32_t contrast = 96;

	if (top > bottom + contrast)
		return "\xe2\x96\x80";
	if (bottom > top + contrast)
		return "\xe2\x96\x84";
	return shades[(top + bottom) / 2 * 5 / 256];
}

static void line(FILE *f, const uint8_t *top, const uint8_t *bottom, uint32_t w, bool colour, bool rgb)
{
	for (uint32_t x = 0; x < w; x++) {
		uint32_t b = bottom ? bottom[x] : 0;

		if (!colour) {
			fputs(plain_blocks(top[x], b), f);
			continue;
		}
		set_grey(f, 38, top[x], rgb);
		set_grey(f, 48, (uint8_t)b, rgb);
		fputs("\xe2\x96\x80", f);
	}
	if (colour)
		fputs("\x1b[0m", f);
}

void rvl_picture(FILE *f, uint32_t count, const uint8_t *const *pixels, uint32_t w, uint32_t h,
		 const char *const *labels, bool colour)
{
	bool rgb = truecolour();

	for (uint32_t y = 0; y < h; y += 2) {
		for (uint32_t i = 0; i < count; i++) {
			const uint8_t *row = pixels[i] + (size_t)y * w;

			fputs("  ", f);
			line(f, row, y + 1 < h ? row + w : NULL, w, colour, rgb);
		}
		putc('\n', f);
	}
	for (uint32_t i = 0; i < count; i++)
		fprintf(f, "  %-*.*s", (int)w, (int)w, labels[i]);
	fputs("\n\n", f);
}

// SPDX-License-Identifier: MIT
#include "conv_cases.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rivulet_crc32c.h"

struct rvl_conv_reader {
	uint8_t *data;
	size_t size, at;
	uint32_t left;		/* cases that were not returned yet */
	uint8_t *drawn;		/* x, w, bias and ws of the present compact case */
};

struct stream {
	uint64_t state;
};

static uint64_t next_word(struct stream *s)
{
	uint64_t z = s->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static uint8_t draw_byte(struct stream *s, enum rvl_conv_fill fill, bool s8)
{
	uint64_t word = next_word(s);

	switch (fill) {
	case RVL_FILL_EXTREMES:
		return (uint8_t)((word >> 63 ? 255 : 0) - (s8 ? 128 : 0));
	case RVL_FILL_SMALL:
		return (uint8_t)((s8 ? 0 : 128) - 3 + (int)((word >> 32) % 7));
	default:
		return word >> 56;
	}
}

static float draw_scale(struct stream *s, const struct rvl_conv_seed *seed)
{
	uint64_t word = next_word(s);
	uint32_t high = word >> 32;

	switch (seed->ws_kind) {
	case RVL_WS_POWER:
		return ldexpf(1, (int)(high % 3) - 9);
	case RVL_WS_RATIO:
		return (float)(high % 29 + 1) / (float)seed->ws_div;
	default:
		return ldexpf((float)(word >> 41 | 0x800000), (int)(word & 3) - 32);
	}
}

/* Allocates x, w, bias and ws together and draws them in this order. */
static int draw_case(struct rvl_conv_reader *r, const struct rvl_conv_seed *seed,
		     struct rvl_conv *c)
{
	size_t head = (c->x_bytes + c->w_bytes + 3) & ~(size_t)3;
	size_t biases = c->p.flags & RVL_CONV_BIAS ? c->p.m : 0;
	struct stream s = { seed->seed };
	int32_t *bias;
	float *ws;

	free(r->drawn);
	r->drawn = malloc(head + 4 * (biases + c->ws_count));
	if (!r->drawn)
		return -ENOMEM;
	for (size_t i = 0; i < c->x_bytes; i++)
		r->drawn[i] = draw_byte(&s, seed->x_fill, c->p.x_type == RVL_CONV_S8);
	for (size_t i = 0; i < c->w_bytes; i++)
		r->drawn[c->x_bytes + i] = draw_byte(&s, seed->w_fill, c->p.w_type == RVL_CONV_S8);
	bias = (int32_t *)(r->drawn + head);
	for (size_t i = 0; i < biases; i++)
		bias[i] = (int32_t)((int64_t)((next_word(&s) >> 32) % (2ull * seed->bias_top)) -
				    seed->bias_top);
	ws = (float *)(bias + biases);
	for (size_t i = 0; i < c->ws_count; i++)
		ws[i] = draw_scale(&s, seed);
	c->x = r->drawn;
	c->w = r->drawn + c->x_bytes;
	c->bias = biases ? bias : NULL;
	c->ws = ws;
	c->y = NULL;
	c->y_crc32c = seed->y_crc32c;
	return 1;
}

static int compact_case(struct rvl_conv_reader *r, struct rvl_conv *c)
{
	struct rvl_conv_seed seed;

	if (c->p.payload_bytes != sizeof(seed))
		return -EBADMSG;
	memcpy(&seed, r->data + r->at, sizeof(seed));
	if (seed.x_fill > RVL_FILL_SMALL || seed.w_fill > RVL_FILL_SMALL ||
	    seed.ws_kind > RVL_WS_ANY || !seed.ws_div ||
	    (c->p.flags & RVL_CONV_BIAS && !seed.bias_top))
		return -EBADMSG;
	return draw_case(r, &seed, c);
}

/* Every part begins at a multiple of 4 from the head of the file, which malloc aligned. */
static int full_case(struct rvl_conv_reader *r, struct rvl_conv *c)
{
	const uint8_t *at = r->data + r->at;
	size_t head = (c->x_bytes + c->w_bytes + 3) & ~(size_t)3;
	size_t biases = c->p.flags & RVL_CONV_BIAS ? c->p.m : 0;
	size_t y = head + 4 * (biases + c->ws_count);

	if (c->p.payload_bytes != ((y + c->y_bytes + 3) & ~(size_t)3))
		return -EBADMSG;
	c->x = at;
	c->w = at + c->x_bytes;
	c->bias = biases ? (const int32_t *)(at + head) : NULL;
	c->ws = (const float *)(at + head) + biases;
	c->y = at + y;
	c->y_crc32c = rivulet_crc32c(0, c->y, c->y_bytes);
	return 1;
}

/* The products have at most four factors of 16 bits, so size_t does not overflow. */
static bool sizes(struct rvl_conv *c)
{
	const struct rvl_conv_case *p = &c->p;

	if (!p->group || p->c % p->group || p->m % p->group || !p->m)
		return false;
	c->x_bytes = (size_t)p->n * p->c * p->h * p->w;
	c->w_bytes = (size_t)p->m * (p->c / p->group) * p->kh * p->kw;
	c->y_bytes = (size_t)p->n * p->m * p->oh * p->ow;
	c->ws_count = p->flags & RVL_CONV_PER_CHANNEL ? p->m : 1;
	return c->x_bytes <= 1u << 24 && c->w_bytes <= 1u << 24 && c->y_bytes <= 1u << 24;
}

int rvl_conv_next(struct rvl_conv_reader *r, struct rvl_conv *out)
{
	int ret;

	if (!r->left)
		return r->at == r->size ? 0 : -EBADMSG;
	if (r->size - r->at < sizeof(out->p))
		return -EBADMSG;
	memcpy(&out->p, r->data + r->at, sizeof(out->p));
	r->at += sizeof(out->p);
	if (out->p.payload_bytes > r->size - r->at || !sizes(out))
		return -EBADMSG;
	ret = out->p.flags & RVL_CONV_COMPACT ? compact_case(r, out) : full_case(r, out);
	r->at += out->p.payload_bytes;
	r->left--;
	return ret;
}

int rvl_conv_match(const struct rvl_conv *c, const void *y)
{
	if (c->y)
		return !memcmp(c->y, y, c->y_bytes);
	return rivulet_crc32c(0, y, c->y_bytes) == c->y_crc32c;
}

static int read_all(struct rvl_conv_reader *r, const char *path)
{
	FILE *f = fopen(path, "rbe");
	long size = -1;
	int ret = -EIO;

	if (!f)
		return -errno;
	if (!fseek(f, 0, SEEK_END))
		size = ftell(f);
	if (size >= 0 && !fseek(f, 0, SEEK_SET)) {
		r->size = size;
		r->data = malloc(r->size + 1);
		ret = !r->data ? -ENOMEM : fread(r->data, 1, r->size, f) == r->size ? 0 : -EIO;
	}
	fclose(f);
	return ret;
}

int rvl_conv_open(const char *path, struct rvl_conv_reader **out)
{
	struct rvl_conv_reader *r = calloc(1, sizeof(*r));
	struct rvl_conv_file head = { 0 };
	int ret;

	if (!r)
		return -ENOMEM;
	ret = read_all(r, path);
	if (!ret && r->size >= sizeof(head))
		memcpy(&head, r->data, sizeof(head));
	if (!ret && (head.magic != RVL_CONV_MAGIC || head.version != RVL_CONV_VERSION ||
		     head.count > INT32_MAX))
		ret = -EBADMSG;
	if (ret) {
		rvl_conv_close(r);
		return ret;
	}
	r->at = sizeof(head);
	r->left = head.count;
	*out = r;
	return (int)head.count;
}

void rvl_conv_close(struct rvl_conv_reader *r)
{
	if (!r)
		return;
	free(r->drawn);
	free(r->data);
	free(r);
}

/* SPDX-License-Identifier: MIT */
/*
 * BinarySign for the vectors of one instruction set, behind post.h, by the names of which it is written.
 * The file that includes it defines REACH, the name of the function. Where channels are adjacent, LANES
 * of them are compared at once. Where pixels are, each lane is a pixel, whose word the channels make bit
 * by bit. A last vector overlaps the one before it, so that nothing else is read.
 */

/* Bit i says whether element i of LANES reaches its threshold. */
INLINE uint32_t reach_lanes(enum rvl_type type, const void *x, const void *t)
{
	if (type == RVL_TYPE_F32)
		return REACH_F(post_load(x), post_load(t));
	return REACH_I(post_integers(type, x), post_load_int(t));
}

/* Bits of @n adjacent channels, LANES to 64. */
INLINE uint64_t reach_word(enum rvl_type type, const char *x, const char *t, int64_t n, int64_t size)
{
	uint64_t bits = 0;
	int64_t at = 0;

#pragma GCC unroll 16
	for (; at + LANES <= n; at += LANES)
		bits |= (uint64_t)reach_lanes(type, x + at * size, t + at * 4) << at;
	at = n - LANES;
	if (n % LANES)
		bits |= (uint64_t)reach_lanes(type, x + at * size, t + at * 4) << at;
	return bits;
}

INLINE void reach_channels(const struct rvl_b_reach *r, enum rvl_type type, int64_t size)
{
	const char *t = r->t;
	uint64_t *y = r->y;

	for (int64_t i = 0; i < r->pixels; i++) {
		const char *x = r->x + i * r->pixel_step * size;
		int64_t c = 0;

		for (; c + 64 <= r->channels; c += 64)
			*y++ = reach_word(type, x + c * size, t + c * 4, 64, size);
		if (r->channels - c >= LANES)
			*y++ = reach_word(type, x + c * size, t + c * 4, r->channels - c, size);
		else if (c < r->channels)
			*y++ = rvl_b_reach_word(r, i * r->pixel_step, c, r->channels - c);
	}
}

/* The bit of one channel of LANES pixels, in place @bit of their lanes. */
INLINE post_i reach_bit(const struct rvl_b_reach *r, enum rvl_type type, const char *x, int64_t c, int bit)
{
	const post_i one = (int32_t)(1u << bit) - (post_i) { 0 };

	if (type == RVL_TYPE_F32)
		return (post_i)(post_load((const void *)x) >= post_all(((const float *)r->t)[c])) & one;
	return (post_integers(type, x) >= ((const int32_t *)r->t)[c] - (post_i) { 0 }) & one;
}

/* Word @j of LANES pixels, the first of which begins at @x and has its words at @y. */
INLINE void reach_pixels(const struct rvl_b_reach *r, enum rvl_type type, const char *x, uint64_t *y,
			 int64_t j)
{
	int64_t step = r->channel_step * (int64_t)rvl_type_size(type), words = rvl_b_words(r->channels);
	uint32_t lanes[2][LANES];
	post_i half[2] = { { 0 }, { 0 } };

	for (int h = 0; h < 2; h++) {
		int64_t c = j * 64 + h * 32;

		for (int bit = 0; bit < 32 && c < r->channels; bit++, c++)
			half[h] |= reach_bit(r, type, x + c * step, c, bit);
		memcpy(lanes[h], &half[h], sizeof(lanes[h]));
	}
	for (int i = 0; i < LANES; i++)
		y[i * words] = lanes[0][i] | (uint64_t)lanes[1][i] << 32;
}

INLINE void reach_planes(const struct rvl_b_reach *r, enum rvl_type type, int64_t size)
{
	int64_t words = rvl_b_words(r->channels);

	for (int64_t i = 0; i < r->pixels; i += LANES) {
		int64_t at = i + LANES <= r->pixels ? i : r->pixels - LANES;

		for (int64_t j = 0; j < words; j++)
			reach_pixels(r, type, r->x + at * size, r->y + at * words + j, j);
	}
}

INLINE void reach_typed(const struct rvl_b_reach *r, enum rvl_type type)
{
	int64_t size = (int64_t)rvl_type_size(type);

	if (r->channel_step == 1)
		reach_channels(r, type, size);
	else if (r->pixels >= LANES)
		reach_planes(r, type, size);
	else
		rvl_b_reach_elements(r);
}

TARGET static void REACH(const struct rvl_b_reach *r)
{
	switch (r->type) {
	case RVL_TYPE_F32:
		reach_typed(r, RVL_TYPE_F32);
		break;
	case RVL_TYPE_S8:
		reach_typed(r, RVL_TYPE_S8);
		break;
	case RVL_TYPE_U8:
		reach_typed(r, RVL_TYPE_U8);
		break;
	case RVL_TYPE_S16:
		reach_typed(r, RVL_TYPE_S16);
		break;
	default:
		reach_typed(r, RVL_TYPE_S32);
	}
}

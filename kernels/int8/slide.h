/* SPDX-License-Identifier: MIT */
/*
 * Depthwise windows of 3 x 3 that move over a row, for the registers of madd.h: two results at a
 * time, because a weight is loaded once for both, and what windows have in common is widened and
 * paired once. The taps are in the order of rvl_i8_slide_pairs, those of the last row in pairs of
 * columns.
 */

/* Taps of a column or row, two of each channel in a dword. */
struct pairs {
	vec lo, hi;
};

TARGET INLINE struct pairs pair(vec a, vec b)
{
	return (struct pairs){ V_UNPACKLO16(a, b), V_UNPACKHI16(a, b) };
}

/* Adds the products with positions @i and @i + 1 of the weights in the order of rvl_i8_slide_pairs. */
TARGET INLINE void add_pairs(struct pairs *sum, struct pairs x, const int16_t *w, int i)
{
	sum->lo = V_ADD32(sum->lo, V_MADD(x.lo, V_LOAD(w + i * NR)));
	sum->hi = V_ADD32(sum->hi, V_MADD(x.hi, V_LOAD(w + i * NR + NR)));
	__asm__(""
		: "+x"(sum->lo),
		  "+x"(sum->hi)); /* else gcc 12 adds in another order and spills the products */
}

/* The columns under the results of a row, for up to NR channels. */
struct columns {
	const uint8_t *row[3]; /* column 0 */
	int64_t d, n;	       /* bytes from one to the next; channels */
	int64_t first, past;   /* in the image, the others have the value @pad */
	vec pad;
};

/* Column @i of row @y. @edge: it may be outside of the image. */
TARGET INLINE vec column(const struct columns *c, int y, int64_t i, const int edge, const int x_u8)
{
	if (edge && (i < c->first || i >= c->past))
		return c->pad;
	return load_tap(c->row[y] + i * c->d, edge ? c->n : NR, x_u8);
}

TARGET INLINE struct pairs upper(const struct columns *c, int64_t i, const int edge, const int x_u8)
{
	return pair(column(c, 0, i, edge, x_u8), column(c, 1, i, edge, x_u8));
}

TARGET INLINE struct pairs lower(const struct columns *c, int64_t i, const int edge, const int x_u8)
{
	return pair(column(c, 2, i, edge, x_u8), column(c, 2, i + 1, edge, x_u8));
}

/* What the next results need of columns that these have read. */
struct slide_carry {
	struct pairs upper[2], lower;
};

/* ---- windows one column apart ---- */

TARGET INLINE void two_by1(const struct columns *c, int64_t x, const int16_t *w,
			   struct slide_carry *k, struct pairs sum[2], const int edge,
			   const int x_u8)
{
	struct pairs p2, p3, q2;

	add_pairs(&sum[0], k->upper[0], w, 0);
	add_pairs(&sum[1], k->upper[1], w, 0);
	add_pairs(&sum[0], k->upper[1], w, 2);
	p2 = upper(c, x + 2, edge, x_u8);
	add_pairs(&sum[1], p2, w, 2);
	add_pairs(&sum[0], p2, w, 4);
	p3 = upper(c, x + 3, edge, x_u8);
	add_pairs(&sum[1], p3, w, 4);
	q2 = lower(c, x + 2, edge, x_u8);
	add_pairs(&sum[0], k->lower, w, 6);
	add_pairs(&sum[0], q2, w, 8);
	add_pairs(&sum[1], k->lower, w, 10);
	add_pairs(&sum[1], q2, w, 12);
	*k = (struct slide_carry){ { p2, p3 }, q2 };
}

/* ---- windows two columns apart ---- */

TARGET INLINE void two_by2(const struct columns *c, int64_t x, const int16_t *w,
			   struct slide_carry *k, struct pairs sum[2], bool one, const int edge,
			   const int x_u8)
{
	struct pairs p, q;

	add_pairs(&sum[0], k->upper[0], w, 0);
	add_pairs(&sum[0], upper(c, 2 * x + 1, edge, x_u8), w, 2);
	p = upper(c, 2 * x + 2, edge, x_u8);
	add_pairs(&sum[0], p, w, 4);
	add_pairs(&sum[0], k->lower, w, 6);
	q = lower(c, 2 * x + 2, edge, x_u8);
	add_pairs(&sum[0], q, w, 8);
	if (one)
		return;
	add_pairs(&sum[1], p, w, 0);
	add_pairs(&sum[1], upper(c, 2 * x + 3, edge, x_u8), w, 2);
	k->upper[0] = upper(c, 2 * x + 4, edge, x_u8);
	add_pairs(&sum[1], k->upper[0], w, 4);
	add_pairs(&sum[1], q, w, 6);
	k->lower = lower(c, 2 * x + 4, edge, x_u8);
	add_pairs(&sum[1], k->lower, w, 8);
}

/* ---- rows ---- */

/* The bytes of two results: the first one's in V_FIRST(), the other one's in V_SECOND(). */
TARGET INLINE vec finish_two(const struct pairs sum[2], const float *scale,
			     const struct rvl_i8_post *post, const struct range *range)
{
	vec v[2] = { narrow(sum[0].lo, sum[0].hi, scale, post), narrow(sum[1].lo, sum[1].hi, scale, post) };

	place(v, 2, range);
	return V_PIXELS(bytes_of(v[0], v[1], range));
}

TARGET INLINE void store_two(vec v, uint8_t *y, int64_t y_step, int64_t n, int64_t pixels)
{
	store_part(y, V_FIRST(v), n);
	if (pixels > 1)
		store_part(y + y_step, V_SECOND(v), n);
}

/* Writes the results of @x and @x + 1, as many of them as are among @pixels. */
TARGET INLINE void two(const struct rvl_i8_dw_call *call, const struct rvl_i8_post *post, const struct range *range,
		       int64_t at, const struct columns *c, struct slide_carry *k, int64_t x, int64_t pixels,
		       const int s, const int edge, const int x_u8)
{
	const int16_t *w = (const int16_t *)call->w + at * call->taps;
	struct pairs sum[2];

	sum[0] = sum[1] = (struct pairs){ V_LOAD(call->bias + at), V_LOAD(call->bias + at + HALF) };
	if (s == 1)
		two_by1(c, x, w, k, sum, edge, x_u8);
	else
		two_by2(c, x, w, k, sum, edge && x + 1 == pixels, edge, x_u8);
	store_two(finish_two(sum, call->scale + at, post, range), call->y + at + x * call->y_stride,
		  call->y_stride, edge ? c->n : NR, edge ? pixels - x : 2);
}

/* Results of up to NR channels, whose windows are @s columns apart: 1 or 2. */
TARGET INLINE void slide(const struct rvl_i8_dw_call *of, int64_t at, int64_t n, const int s,
			 const int x_u8)
{
	/* Copies, because the compiler cannot know that the results do not change what @of points
	 * to. */
	const struct rvl_i8_dw_call call = *of;
	const struct rvl_i8_post post = *call.post;
	const struct range range = range_of(&post);
	const struct columns c = {
		.row = { call.p[0] + at, call.p[1] + at, call.p[2] + at },
		.d = call.column,
		.n = n,
		.first = call.first,
		.past = call.past,
		.pad = V_SET1_16(x_u8 ? call.pad : (int8_t)call.pad),
	};
	struct slide_carry k = { .upper[0] = upper(&c, 0, 1, x_u8),
				 .lower = lower(&c, 0, 1, x_u8) };
	/* Two results read columns x + 2 and x + 3, or 2 * x + 1 to 2 * x + 5. */
	int64_t first = n < NR ? call.pixels : s == 1 ? c.first - 2 : c.first / 2;
	int64_t past = (c.past - (s == 1 ? 3 : 5) + s - 1) / s;

	past = past < call.pixels - 1 ? past : call.pixels - 1;
	if (s == 1)
		k.upper[1] = upper(&c, 1, 1, x_u8);
	for (int64_t x = 0; x < call.pixels; x += 2) {
		if (x >= first && x < past)
			two(&call, &post, &range, at, &c, &k, x, call.pixels, s, 0, x_u8);
		else
			two(&call, &post, &range, at, &c, &k, x, call.pixels, s, 1, x_u8);
	}
}

#define SLIDE(name, s, x_u8)                                                                       \
	TARGET static __attribute__((noinline)) void name(const struct rvl_i8_dw_call *c,          \
							  int64_t at, int64_t n)                   \
	{                                                                                          \
		slide(c, at, n, s, x_u8);                                                          \
	}

SLIDE(slide_u8_by1, 1, 1)
SLIDE(slide_s8_by1, 1, 0)
SLIDE(slide_u8_by2, 2, 1)
SLIDE(slide_s8_by2, 2, 0)

TARGET static void slide_tiles(const struct rvl_i8_dw_call *c)
{
	static void (*const slides[2][2])(const struct rvl_i8_dw_call *c, int64_t at,
					  int64_t n) = { { slide_s8_by2, slide_u8_by2 },
							 { slide_s8_by1, slide_u8_by1 } };

	for (int64_t at = 0; at < c->channels; at += NR) {
		int64_t left = c->channels - at;

		slides[c->x_step == c->column][c->x_u8](c, at, left < NR ? left : NR);
	}
}

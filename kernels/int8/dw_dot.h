/* SPDX-License-Identifier: MIT */
/*
 * Depthwise kernels that add four taps of a channel with one VPDPBUSD, for registers of a size that the
 * including file defines; it may include this file once for each size. TARGET; NAME(x): x with the size
 * as its suffix; vec and vecps, registers of BYTES; OP(x): the intrinsic function of this size; XOR and
 * DPBUSD; the functions of RVL_I8_RANGE(); NAME(load_part)(p, n) and NAME(store_part)(p, v, n) of less than
 * BYTES. A tile has DW_NR channels, of which a register has the first ones.
 */

TARGET INLINE vec NAME(load)(const void *p)
{
	vec v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Byte t of dword e in lane l of v[j]: tap t of channel 16 l + 4 j + e. */
struct NAME(taps) {
	vec v[4];
};

TARGET INLINE struct NAME(taps) NAME(interleave)(vec x0, vec x1, vec x2, vec x3)
{
	vec a = OP(unpacklo_epi8)(x0, x1), b = OP(unpackhi_epi8)(x0, x1);
	vec c = OP(unpacklo_epi8)(x2, x3), d = OP(unpackhi_epi8)(x2, x3);

	return (struct NAME(taps)) { { OP(unpacklo_epi16)(a, c), OP(unpackhi_epi16)(a, c),
				       OP(unpacklo_epi16)(b, d), OP(unpackhi_epi16)(b, d) } };
}

/* Channels [@at, @at + @n) of a row, and what all its pixels need. */
struct NAME(row) {
	int64_t at, n;
	const int8_t *w;
	vec bias[4];
	vecps scale[4];
	uint8_t *y;
	vec sign;		/* makes unsigned bytes of int8 */
	struct NAME(range) range;
	vecps hi;
	bool bounded;
};

TARGET INLINE struct NAME(row) NAME(row_of)(const struct rvl_i8_dw_call *c, int64_t at, int64_t n)
{
	struct NAME(row) r = {
		.at = at, .n = n, .w = (const int8_t *)c->w + at * c->taps,
		.y = c->y + at,
		.sign = OP(set1_epi8)(c->x_u8 ? 0 : (char)0x80),
		.range = NAME(range_of)(c->post),
		.hi = OP(set1_ps)(c->post->hi), .bounded = c->post->bounded,
	};

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		r.bias[j] = NAME(load)(c->bias + at + DW_NR / 4 * j);
		r.scale[j] = OP(loadu_ps)(c->scale + at + DW_NR / 4 * j);
	}
	return r;
}

TARGET INLINE vec NAME(tap)(const struct NAME(row) *r, const uint8_t *p, const int whole)
{
	return XOR(whole ? NAME(load)(p) : NAME(load_part)(p, r->n), r->sign);
}

TARGET INLINE void NAME(begin)(const struct NAME(row) *r, vec sum[4])
{
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		sum[j] = r->bias[j];
}

TARGET INLINE void NAME(add)(vec sum[4], const struct NAME(taps) *x, const vec w[4])
{
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		sum[j] = DPBUSD(sum[j], x->v[j], w[j]);
}

TARGET INLINE void NAME(weights)(const struct NAME(row) *r, int group, vec w[4])
{
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		w[j] = NAME(load)(r->w + DW_NR * (4 * group + j));
}

/* Requantises the sums of a pixel. What is not a number becomes the least number, as the scalar code has it. */
TARGET INLINE void NAME(end)(const struct NAME(row) *r, const vec sum[4], uint8_t *y, const int whole)
{
	vecps scaled[4];
	vec v[2], bytes;

#pragma GCC unroll 4
	for (int j = 0; j < 4; j++)
		scaled[j] = OP(mul_ps)(OP(cvtepi32_ps)(sum[j]), r->scale[j]);
	if (!r->bounded) {
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			scaled[j] = OP(min_ps)(r->hi, scaled[j]);
	}
#pragma GCC unroll 2
	for (int j = 0; j < 2; j++)
		v[j] = OP(packs_epi32)(OP(cvtps_epi32)(scaled[2 * j]), OP(cvtps_epi32)(scaled[2 * j + 1]));
	NAME(place)(v, 2, &r->range);
	bytes = NAME(bytes_of)(v[0], v[1], &r->range);
	if (whole)
		memcpy(y, &bytes, sizeof(bytes));
	else
		NAME(store_part)(y, bytes, r->n);
}

/* ---- any windows ---- */

TARGET INLINE void NAME(windows)(const struct rvl_i8_dw_call *c, int64_t at, int64_t n, const int whole)
{
	const struct NAME(row) r = NAME(row_of)(c, at, n);

	for (int64_t x = 0; x < c->pixels; x++) {
		vec sum[4];

		NAME(begin)(&r, sum);
		for (int64_t t = 0; t < c->taps; t += 4) {
			const uint8_t *const *p = c->p + t;
			int64_t step = x * c->x_step + at;
			struct NAME(taps) v = NAME(interleave)(NAME(tap)(&r, p[0] + step, whole),
							       NAME(tap)(&r, p[1] + step, whole),
							       NAME(tap)(&r, p[2] + step, whole),
							       NAME(tap)(&r, p[3] + step, whole));
			vec w[4];

			NAME(weights)(&r, (int)(t / 4), w);
			NAME(add)(sum, &v, w);
		}
		NAME(end)(&r, sum, r.y + x * c->y_stride, whole);
	}
}

/* ---- windows of 3 x 3 that slide over a row ---- */

struct NAME(columns) {
	const uint8_t *row[3];	/* column 0 */
	int64_t step, first, past;
	vec pad;
};

/* The three rows of column @i; the fourth tap has a weight of zero. */
TARGET INLINE struct NAME(taps) NAME(column)(const struct NAME(row) *r, const struct NAME(columns) *c, int64_t i,
					     const int whole)
{
	const uint8_t *const *p = c->row;
	vec x0, x1, x2;

	if (i < c->first || i >= c->past)
		return (struct NAME(taps)) { { c->pad, c->pad, c->pad, c->pad } };
	x0 = NAME(tap)(r, p[0] + i * c->step, whole);
	x1 = NAME(tap)(r, p[1] + i * c->step, whole);
	x2 = NAME(tap)(r, p[2] + i * c->step, whole);
	return NAME(interleave)(x0, x1, x2, x2);
}

/* Windows that are @s columns apart: 1 or 2. A column is interleaved once for all windows that have it. */
TARGET INLINE void NAME(slide)(const struct rvl_i8_dw_call *c, int64_t at, int64_t n, const int s,
			       const int whole)
{
	const struct NAME(row) r = NAME(row_of)(c, at, n);
	const struct NAME(columns) in = {
		.row = { c->p[0] + at, c->p[1] + at, c->p[2] + at },
		.step = c->column, .first = c->first, .past = c->past,
		.pad = XOR(OP(set1_epi8)((char)c->pad), r.sign),
	};
	struct NAME(taps) left = NAME(column)(&r, &in, 0, whole), middle, right;
	int64_t pixels = c->pixels, y_stride = c->y_stride;
	vec w[3][4];

#pragma GCC unroll 3
	for (int g = 0; g < 3; g++)
		NAME(weights)(&r, g, w[g]);
	if (s == 1)
		middle = NAME(column)(&r, &in, 1, whole);
	for (int64_t x = 0; x < pixels; x++) {
		vec sum[4];

		NAME(begin)(&r, sum);
		NAME(add)(sum, &left, w[0]);
		if (s == 2)
			middle = NAME(column)(&r, &in, 2 * x + 1, whole);
		NAME(add)(sum, &middle, w[1]);
		right = NAME(column)(&r, &in, s * x + 2, whole);
		NAME(add)(sum, &right, w[2]);
		NAME(end)(&r, sum, r.y + x * y_stride, whole);
		left = s == 1 ? middle : right;
		middle = right;
	}
}

/* ---- tiles ---- */

TARGET static __attribute__((noinline)) void NAME(windows_whole)(const struct rvl_i8_dw_call *c, int64_t at)
{
	NAME(windows)(c, at, BYTES, 1);
}

TARGET static __attribute__((noinline)) void NAME(windows_part)(const struct rvl_i8_dw_call *c, int64_t at)
{
	NAME(windows)(c, at, c->channels - at, 0);
}

TARGET static __attribute__((noinline)) void NAME(slide_by1)(const struct rvl_i8_dw_call *c, int64_t at)
{
	NAME(slide)(c, at, BYTES, 1, 1);
}

TARGET static __attribute__((noinline)) void NAME(slide_by2)(const struct rvl_i8_dw_call *c, int64_t at)
{
	NAME(slide)(c, at, BYTES, 2, 1);
}

TARGET static __attribute__((noinline)) void NAME(slide_part)(const struct rvl_i8_dw_call *c, int64_t at)
{
	if (c->x_step == c->column)
		NAME(slide)(c, at, c->channels - at, 1, 0);
	else
		NAME(slide)(c, at, c->channels - at, 2, 0);
}

/* Channels from @at on, up to BYTES of them. */
TARGET static void NAME(tile)(const struct rvl_i8_dw_call *c, int64_t at)
{
	bool whole = c->channels - at >= BYTES;

	if (!c->column)
		(whole ? NAME(windows_whole) : NAME(windows_part))(c, at);
	else if (!whole)
		NAME(slide_part)(c, at);
	else
		(c->x_step == c->column ? NAME(slide_by1) : NAME(slide_by2))(c, at);
}

#undef NAME
#undef OP
#undef vec
#undef vecps
#undef BYTES
#undef XOR
#undef DPBUSD

/* SPDX-License-Identifier: MIT */
/*
 * Winograd's filtering on 16-bit products, for the registers of madd.h, which is included before. The
 * functions are compiled for each number of results r of struct rvl_i8_winograd.
 */
#ifndef RVL_INT8_WINO_MADD_H
#define RVL_INT8_WINO_MADD_H

#define TAPS 3	/* along an axis */
#define SIDE(r) ((r) + TAPS - 1)
#define MOST_SIDE SIDE(4)

/* ---- pixels: B' d B ---- */

/* The values along an axis. Of r = 4 and bytes, those of both axes are within 8 * 2040 + 2 * 510. */
TARGET INLINE void filter_pixels(vec *t, const vec *d, const int r)
{
	vec far, near;

	if (r == 2) {
		t[0] = V_SUB16(d[0], d[2]);
		t[1] = V_ADD16(d[1], d[2]);
		t[2] = V_SUB16(d[2], d[1]);
		t[3] = V_SUB16(d[1], d[3]);
		return;
	}
	far = V_SUB16(d[4], d[2]);
	near = V_SUB16(d[3], d[1]);
	t[0] = V_ADD16(V_SLL16(V_SUB16(d[0], d[2]), 2), far);
	t[1] = V_SUB16(V_ADD16(d[3], d[4]), V_SLL16(V_ADD16(d[1], d[2]), 2));
	t[2] = V_ADD16(V_SUB16(d[4], d[3]), V_SLL16(V_SUB16(d[1], d[2]), 2));
	t[3] = V_ADD16(far, V_ADD16(near, near));
	t[4] = V_SUB16(far, V_ADD16(near, near));
	t[5] = V_SUB16(V_SUB16(d[5], d[3]), V_SLL16(near, 2));
}

/* NR channels from @at on, of which @n exist. */
TARGET INLINE void transform_pixels(const uint8_t *const *p, int64_t at, int64_t n, const int x_u8, int16_t *v,
				    int64_t step, const int r)
{
	vec columns[MOST_SIDE][MOST_SIDE];

#pragma GCC unroll 6
	for (int x = 0; x < SIDE(r); x++) {
		vec d[MOST_SIDE];

#pragma GCC unroll 6
		for (int y = 0; y < SIDE(r); y++)
			d[y] = load_tap(p[y * SIDE(r) + x] + at, n, x_u8);
		filter_pixels(columns[x], d, r);
	}
#pragma GCC unroll 6
	for (int y = 0; y < SIDE(r); y++) {
		vec d[MOST_SIDE], t[MOST_SIDE];

#pragma GCC unroll 6
		for (int x = 0; x < SIDE(r); x++)
			d[x] = columns[x][y];
		filter_pixels(t, d, r);
#pragma GCC unroll 6
		for (int x = 0; x < SIDE(r); x++)
			V_STORE(v + (y * SIDE(r) + x) * step + at, t[x]);
	}
}

TARGET INLINE void transform_tile(const uint8_t *const *p, int64_t n, const int x_u8, int16_t *v, int64_t step,
				  const int r)
{
	int64_t at = 0;

	for (; at + NR <= n; at += NR)
		transform_pixels(p, at, NR, x_u8, v, step, r);
	if (at < n)
		transform_pixels(p, at, n - at, x_u8, v, step, r);
}

/* ---- weights: H g H', where H is G with each row times its denominator ---- */

/* Of r = 4 and int8, the values of both axes are within 7 * 7 * 128. */
TARGET INLINE void filter_weights(vec *t, const vec g[TAPS], const int r)
{
	vec outer = V_ADD16(g[0], g[2]), far, twice;

	if (r == 2) {
		t[0] = V_ADD16(g[0], g[0]);
		t[1] = V_ADD16(outer, g[1]);
		t[2] = V_SUB16(outer, g[1]);
		t[3] = V_ADD16(g[2], g[2]);
		return;
	}
	far = V_ADD16(g[0], V_SLL16(g[2], 2));
	twice = V_ADD16(g[1], g[1]);
	t[0] = g[0];
	t[1] = V_ADD16(outer, g[1]);
	t[2] = V_SUB16(outer, g[1]);
	t[3] = V_ADD16(far, twice);
	t[4] = V_SUB16(far, twice);
	t[5] = g[2];
}

/* Weights of a line of the cache: taps far apart may have places in the cache in common. */
#define LINE (64 / NR)
#define AHEAD 512	/* bytes that a line is requested before it is read */

TARGET INLINE void transform_weights(const int8_t *w, int64_t tap, int64_t channels, int16_t *u, int64_t step,
				     const int r)
{
	const int64_t n = channels * NR;
	int64_t at = 0, many;

	for (; at < n; at += many * NR) {
		vec columns[TAPS][LINE][MOST_SIDE];

		many = (n - at) / NR < LINE ? (n - at) / NR : LINE;
		for (int i = 0; i < TAPS * TAPS; i++)
			__builtin_prefetch(w + i * tap + at + AHEAD);
		for (int x = 0; x < TAPS; x++)
			for (int64_t i = 0; i < many; i++) {
				const int8_t *p = w + x * tap + at + i * NR;
				vec g[TAPS] = {
					load_weights(p), load_weights(p + TAPS * tap), load_weights(p + 2 * TAPS * tap)
				};

				filter_weights(columns[x][i], g, r);
			}
		for (int y = 0; y < SIDE(r); y++)
			for (int64_t i = 0; i < many; i++) {
				vec g[TAPS] = { columns[0][i][y], columns[1][i][y], columns[2][i][y] }, t[MOST_SIDE];

				filter_weights(t, g, r);
#pragma GCC unroll 6
				for (int x = 0; x < SIDE(r); x++)
					V_STORE(u + (y * SIDE(r) + x) * step + at + i * NR, t[x]);
			}
	}
}

/* ---- products ---- */

TARGET INLINE void wino_tile(const int16_t *v, int64_t v_step, const int16_t *u, int64_t n, int exist,
			     bool more, int32_t *m, const int rows)
{
	const int16_t *x[MR];
	vec sum[MR][2];

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		x[i] = v + (i < exist ? i : 0) * v_step;
		sum[i][0] = more && i < exist ? V_LOAD(m + i * NR) : V_SET1_32(0);
		sum[i][1] = more && i < exist ? V_LOAD(m + i * NR + HALF) : V_SET1_32(0);
	}
	for (int64_t k = 0; k < n; k += 2, u += 2 * NR) {
		__asm__("" : "+r"(u));	/* as tile() does */
		step(sum, x, k, V_LOAD(u), V_LOAD(u + NR), rows);
	}
#pragma GCC unroll 8
	for (int i = 0; i < rows && i < exist; i++, m += NR) {
		V_STORE(m, sum[i][0]);
		V_STORE(m + HALF, sum[i][1]);
	}
}

TARGET static void wino_multiply(const int16_t *v, int64_t v_step, const int16_t *u, int64_t n, int rows,
				 bool more, int32_t *m)
{
	if (rows > 4)
		wino_tile(v, v_step, u, n, rows, more, m, MR);
	else if (rows > 2)
		wino_tile(v, v_step, u, n, rows, more, m, 4);
	else if (rows > 1)
		wino_tile(v, v_step, u, n, rows, more, m, 2);
	else
		wino_tile(v, v_step, u, n, rows, more, m, 1);
}

/* ---- results: A' m A, divided by what the rows of G were multiplied by ---- */

TARGET INLINE vec times6(vec v)
{
	return V_ADD32(V_SLL32(v, 2), V_ADD32(v, v));
}

/*
 * The results along an axis, multiplied by 2 for r = 2, and by 3 times 2 to the power of scale_of() for
 * r = 4.
 */
TARGET INLINE void filter_sums(vec *y, const vec *m, const int r)
{
	vec sum = V_ADD32(m[1], m[2]), difference = V_SUB32(m[1], m[2]), far, other;

	if (r == 2) {
		y[0] = V_ADD32(m[0], sum);
		y[1] = V_SUB32(difference, m[3]);
		return;
	}
	far = V_ADD32(m[3], m[4]);
	other = V_SUB32(m[3], m[4]);
	y[0] = V_ADD32(V_SUB32(times6(m[0]), V_SLL32(sum, 2)), far);
	y[1] = V_SUB32(other, V_ADD32(difference, difference));
	y[2] = V_SUB32(far, sum);
	y[3] = V_ADD32(V_SUB32(V_ADD32(other, other), difference), times6(m[5]));
}

/* The power of two in the scale of result @i of an axis. */
INLINE int scale_of(int i, const int r)
{
	return r == 2 || i > 1 ? 1 : 3 - i;
}

#define INVERSE_OF_9 0x38e38e39	/* modulo 2^32 */

/* The results of HALF columns from @at on, without the bias. */
TARGET INLINE void transform_sums(const struct rvl_i8_wino_out *o, int at, vec y[4][4], const int r)
{
	vec rows[4][MOST_SIDE];

#pragma GCC unroll 6
	for (int x = 0; x < SIDE(r); x++) {
		vec m[MOST_SIDE], some[4];

#pragma GCC unroll 6
		for (int i = 0; i < SIDE(r); i++)
			m[i] = V_LOAD(o->m + (i * SIDE(r) + x) * o->step + at);
		filter_sums(some, m, r);
#pragma GCC unroll 4
		for (int i = 0; i < r; i++)
			rows[i][x] = some[i];
	}
#pragma GCC unroll 4
	for (int i = 0; i < r; i++) {
		filter_sums(y[i], rows[i], r);
#pragma GCC unroll 4
		for (int j = 0; j < r; j++) {
			vec v = r == 2 ? y[i][j] : V_MUL32(y[i][j], V_SET1_32(INVERSE_OF_9));

			y[i][j] = V_SRA32(v, scale_of(i, r) + scale_of(j, r));
		}
	}
}

TARGET INLINE void store_results(const struct rvl_i8_wino_out *o, const struct range *range, uint8_t *const y[2],
				 const vec lo[2], const vec hi[2])
{
	const vec first = V_LOAD(o->bias), second = V_LOAD(o->bias + HALF);
	vec row[2], v;

#pragma GCC unroll 4
	for (int i = 0; i < 2; i++)
		row[i] = narrow(V_ADD32(lo[i], first), V_ADD32(hi[i], second), o->scale, o->post);
	place(row, 2, range);
	v = V_ROWS(bytes_of(row[0], row[1], range));
	if (y[0])
		store_part(y[0], V_FIRST(v), o->cols);
	if (y[1])
		store_part(y[1], V_SECOND(v), o->cols);
}

TARGET INLINE void output_tile(const struct rvl_i8_wino_out *o, const int r)
{
	const struct range range = range_of(o->post);
	vec lo[4][4], hi[4][4];

	transform_sums(o, 0, lo, r);
	transform_sums(o, HALF, hi, r);
	for (int y = 0; y < r; y++)
		for (int x = 0; x < r; x += 2)
			store_results(o, &range, o->y + y * r + x, lo[y] + x, hi[y] + x);
}

/* ---- the functions of each r ---- */

#define FILTER(r) \
	TARGET static void input_##r(const uint8_t *const *p, int64_t n, bool u8, int16_t *v, int64_t step) \
	{ \
		if (u8) \
			transform_tile(p, n, 1, v, step, r); \
		else \
			transform_tile(p, n, 0, v, step, r); \
	} \
	TARGET static void weights_##r(const int8_t *w, int64_t tap, int64_t n, int16_t *u, int64_t step) \
	{ \
		transform_weights(w, tap, n, u, step, r); \
	} \
	TARGET static void output_##r(const struct rvl_i8_wino_out *o) \
	{ \
		output_tile(o, r); \
	}

#define FILTER_OF(r, b, p, o) { \
	.results = (r), .side = SIDE(r), .bits = (b), .pixel_cost = (p), .result_cost = (o), \
	.input = input_##r, .weights = weights_##r, .multiply = wino_multiply, .output = output_##r, \
}

FILTER(2)
FILTER(4)

/* Signed sums of 32 bits, divided by 2^2 and by 2^6. */
static const struct rvl_i8_winograd filters[RVL_I8_FILTERS] = {
	FILTER_OF(2, 29, 4, 4), FILTER_OF(4, 25, 6, 9),
};

#endif

/* SPDX-License-Identifier: MIT */
/* Winograd's filtering on 16-bit products, for the registers of madd.h, which is included before. */
#ifndef RVL_INT8_WINO_MADD_H
#define RVL_INT8_WINO_MADD_H

#define SIDE RVL_I8_WINO_SIDE
#define TAPS 3	/* along an axis */

/* ---- pixels: B' d B ---- */

/* Four values along an axis. */
TARGET INLINE void filter_pixels(vec t[SIDE], const vec d[SIDE])
{
	t[0] = V_SUB16(d[0], d[2]);
	t[1] = V_ADD16(d[1], d[2]);
	t[2] = V_SUB16(d[2], d[1]);
	t[3] = V_SUB16(d[1], d[3]);
}

/* NR channels from @at on, of which @n exist. */
TARGET INLINE void transform_pixels(const uint8_t *const p[RVL_I8_WINO], int64_t at, int64_t n,
				    const int x_u8, int16_t *v, int64_t step)
{
	vec columns[SIDE][SIDE];

#pragma GCC unroll 4
	for (int x = 0; x < SIDE; x++) {
		vec d[SIDE];

#pragma GCC unroll 4
		for (int y = 0; y < SIDE; y++)
			d[y] = load_tap(p[y * SIDE + x] + at, n, x_u8);
		filter_pixels(columns[x], d);
	}
#pragma GCC unroll 4
	for (int y = 0; y < SIDE; y++) {
		vec d[SIDE], t[SIDE];

#pragma GCC unroll 4
		for (int x = 0; x < SIDE; x++)
			d[x] = columns[x][y];
		filter_pixels(t, d);
#pragma GCC unroll 4
		for (int x = 0; x < SIDE; x++)
			V_STORE(v + (y * SIDE + x) * step + at, t[x]);
	}
}

TARGET INLINE void transform_tile(const uint8_t *const p[RVL_I8_WINO], int64_t n, const int x_u8,
				  int16_t *v, int64_t step)
{
	int64_t at = 0;

	for (; at + NR <= n; at += NR)
		transform_pixels(p, at, NR, x_u8, v, step);
	if (at < n)
		transform_pixels(p, at, n - at, x_u8, v, step);
}

TARGET static void wino_input(const uint8_t *const p[RVL_I8_WINO], int64_t n, bool u8, int16_t *v,
			      int64_t step)
{
	if (u8)
		transform_tile(p, n, 1, v, step);
	else
		transform_tile(p, n, 0, v, step);
}

/* ---- weights: (2 G) g (2 G)' ---- */

TARGET INLINE void filter_weights(vec t[SIDE], const vec g[TAPS])
{
	vec outer = V_ADD16(g[0], g[2]);

	t[0] = V_ADD16(g[0], g[0]);
	t[1] = V_ADD16(outer, g[1]);
	t[2] = V_SUB16(outer, g[1]);
	t[3] = V_ADD16(g[2], g[2]);
}

/* Weights of a line of the cache: taps far apart may have places in the cache in common. */
#define LINE (64 / NR)

TARGET static void wino_weights(const int8_t *w, int64_t kc, int16_t *u, int64_t step)
{
	const int64_t n = kc * NR;
	int64_t at = 0, many;

	for (; at < n; at += many * NR) {
		vec columns[TAPS][LINE][SIDE];

		many = (n - at) / NR < LINE ? (n - at) / NR : LINE;
		for (int x = 0; x < TAPS; x++)
			for (int64_t i = 0; i < many; i++) {
				const int8_t *p = w + x * n + at + i * NR;
				vec g[TAPS] = {
					load_weights(p), load_weights(p + TAPS * n), load_weights(p + 2 * TAPS * n)
				};

				filter_weights(columns[x][i], g);
			}
		for (int y = 0; y < SIDE; y++)
			for (int64_t i = 0; i < many; i++) {
				vec g[TAPS] = { columns[0][i][y], columns[1][i][y], columns[2][i][y] }, t[SIDE];

				filter_weights(t, g);
#pragma GCC unroll 4
				for (int x = 0; x < SIDE; x++)
					V_STORE(u + (y * SIDE + x) * step + at + i * NR, t[x]);
			}
	}
}

/* ---- products ---- */

TARGET INLINE void wino_tile(const int16_t *v, int64_t v_step, const int16_t *u, int64_t kc, int exist,
			     int32_t *m, const int rows)
{
	const int16_t *x[MR];
	vec sum[MR][2];

#pragma GCC unroll 8
	for (int i = 0; i < rows; i++) {
		x[i] = v + (i < exist ? i : 0) * v_step;
		sum[i][0] = sum[i][1] = V_SET1_32(0);
	}
	for (int64_t k = 0; k < kc; k += 2, u += 2 * NR) {
		__asm__("" : "+r"(u));	/* as tile() does */
		step(sum, x, k, V_LOAD(u), V_LOAD(u + NR), rows);
	}
#pragma GCC unroll 8
	for (int i = 0; i < rows; i++, m += NR) {
		V_STORE(m, sum[i][0]);
		V_STORE(m + HALF, sum[i][1]);
	}
}

TARGET static void wino_multiply(const int16_t *v, int64_t v_step, const int16_t *u, int64_t kc, int rows,
				 int32_t *m)
{
	if (rows > 4)
		wino_tile(v, v_step, u, kc, rows, m, MR);
	else if (rows > 2)
		wino_tile(v, v_step, u, kc, rows, m, 4);
	else if (rows > 1)
		wino_tile(v, v_step, u, kc, rows, m, 2);
	else
		wino_tile(v, v_step, u, kc, rows, m, 1);
}

/* ---- results: A' m A / 4 ---- */

/* Two results along an axis. */
TARGET INLINE void filter_sums(vec y[2], const vec m[SIDE])
{
	y[0] = V_ADD32(V_ADD32(m[0], m[1]), m[2]);
	y[1] = V_SUB32(V_SUB32(m[1], m[2]), m[3]);
}

/* The results of HALF columns from @at on, without the bias. */
TARGET INLINE void transform_sums(const struct rvl_i8_wino_out *o, int at, vec y[2][2])
{
	vec rows[2][SIDE];

#pragma GCC unroll 4
	for (int x = 0; x < SIDE; x++) {
		vec m[SIDE], two[2];

#pragma GCC unroll 4
		for (int i = 0; i < SIDE; i++)
			m[i] = V_LOAD(o->m + (i * SIDE + x) * o->step + at);
		filter_sums(two, m);
		rows[0][x] = two[0];
		rows[1][x] = two[1];
	}
	filter_sums(y[0], rows[0]);
	filter_sums(y[1], rows[1]);
}

TARGET INLINE void store_results(const struct rvl_i8_wino_out *o, uint8_t *const y[2], vec lo[2], vec hi[2])
{
	const vec first = V_LOAD(o->bias), second = V_LOAD(o->bias + HALF);
	vec row[2], v;

#pragma GCC unroll 4
	for (int i = 0; i < 2; i++)
		row[i] = narrow(V_ADD32(V_SRA32(lo[i], 2), first), V_ADD32(V_SRA32(hi[i], 2), second),
				o->scale, o->post);
	v = finish(V_PACK_ROWS(row[0], row[1]), o->post);
	if (y[0])
		store_part(y[0], V_FIRST(v), o->cols);
	if (y[1])
		store_part(y[1], V_SECOND(v), o->cols);
}

TARGET static void wino_output(const struct rvl_i8_wino_out *o)
{
	vec lo[2][2], hi[2][2];

	transform_sums(o, 0, lo);
	transform_sums(o, HALF, hi);
	store_results(o, o->y, lo[0], hi[0]);
	store_results(o, o->y + 2, lo[1], hi[1]);
}

static const struct rvl_i8_winograd winograd = {
	.input = wino_input, .weights = wino_weights, .multiply = wino_multiply, .output = wino_output,
};

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Matrix products for AMX-INT8: TDPBUSD multiplies tiles of 16 rows by 64 bytes with tiles of 64 x 16
 * weights. int8 activations are offset by 128, for which the packed bias corrects. Rows are copied,
 * because a tile is loaded from rows at equal distances. Depthwise kernels and requantisation are
 * those of AVX512-VNNI. tests/int8 compiles this file with a model of the instructions.
 */
#include "int8/int8.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#ifndef RVL_AMX_MODEL
#define TARGET __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vl")))
#define TILE_CONFIG _tile_loadconfig
#define TILE_LOAD _tile_loadd
#define TILE_STORE _tile_stored
#define TILE_DPBUSD _tile_dpbusd
#define TILE_RELEASE _tile_release
#define KERNELS rvl_i8_amx
#endif

#define ROWS 16		/* of a tile */
#define BYTES 64	/* of a row of a tile */
#define MR (2 * ROWS)
#define NR 32
#define W_ROW (4 * NR)	/* bytes of the weights of four channels */

struct config {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
};

/* Tiles 0 to 3 are sums [rows / 16][columns / 16], 4 and 5 activations, 6 and 7 weights. */
static const struct config config = {
	.palette = 1,
	.row_bytes = { BYTES, BYTES, BYTES, BYTES, BYTES, BYTES, BYTES, BYTES },
	.rows = { ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS },
};

/* The activations and weights of up to 64 channels. */
struct step {
	uint8_t x[MR][BYTES];
	int8_t w[BYTES / 4][W_ROW];	/* where fewer channels exist: the others' weights are 0 */
};

TARGET static void copy_rows(const struct rvl_i8_gemm_call *c, const uint8_t *const *a, int64_t k,
			     int64_t n, struct step *s)
{
	__m512i flip = _mm512_set1_epi8(c->x_u8 ? 0 : (char)0x80);
	__mmask64 mask = n < BYTES ? (1ull << n) - 1 : ~0ull;

	for (int i = 0; i < c->rows; i++)
		_mm512_storeu_si512(s->x[i], _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, a[i] + k), flip));
}

/* Rows that do not exist have products that nothing reads. */
TARGET static void multiply(const struct rvl_i8_gemm_call *c, const struct step *s, const int8_t *w)
{
	TILE_LOAD(4, s->x, BYTES);
	TILE_LOAD(6, w, W_ROW);
	TILE_LOAD(7, w + W_ROW / 2, W_ROW);
	TILE_DPBUSD(0, 4, 6);
	TILE_DPBUSD(1, 4, 7);
	if (c->rows <= ROWS)
		return;
	TILE_LOAD(5, s->x[ROWS], BYTES);
	TILE_DPBUSD(2, 5, 6);
	TILE_DPBUSD(3, 5, 7);
}

static void store_row(const struct rvl_i8_gemm_call *c, int row, const int32_t sum[NR])
{
	uint8_t out[NR];

	for (int i = 0; i < c->cols; i += 16)
		rvl_vnni_requant16(sum + i, c->scale + i, c->post, out + i);
	memcpy(c->y + row * c->y_stride, out, (size_t)c->cols);
}

/* A row of the bias, at distance 0, is every row of a tile. */
TARGET static void begin(const struct rvl_i8_gemm_call *c)
{
	TILE_CONFIG(&config);
	TILE_LOAD(0, c->bias, 0);
	TILE_LOAD(1, c->bias + NR / 2, 0);
	TILE_LOAD(2, c->bias, 0);
	TILE_LOAD(3, c->bias + NR / 2, 0);
}

TARGET static void end(const struct rvl_i8_gemm_call *c)
{
	int32_t sum[MR][NR] __attribute__((aligned(64)));

	TILE_STORE(0, sum, sizeof(sum[0]));
	TILE_STORE(1, sum[0] + NR / 2, sizeof(sum[0]));
	TILE_STORE(2, sum[ROWS], sizeof(sum[0]));
	TILE_STORE(3, sum[ROWS] + NR / 2, sizeof(sum[0]));
	TILE_RELEASE();
	if (c->sums) {
		memcpy(c->sums, sum, sizeof(sum));
		return;
	}
	for (int i = 0; i < c->rows; i++)
		store_row(c, i, sum[i]);
}

TARGET static void gemm(const struct rvl_i8_gemm_call *c)
{
	const uint8_t *const *a = c->a;
	const int8_t *w = c->w;
	struct step s __attribute__((aligned(64)));

	memset(s.x, 0, sizeof(s.x));
	begin(c);
	for (int64_t t = 0; t < c->taps; t++, a += MR) {
		for (int64_t k = 0; k < c->kc; k += BYTES) {
			int64_t n = c->kc - k < BYTES ? c->kc - k : BYTES;

			copy_rows(c, a, k, n, &s);
			if (n < BYTES) {
				memset(s.w, 0, sizeof(s.w));
				memcpy(s.w, w, (size_t)(n * NR));
			}
			multiply(c, &s, n < BYTES ? s.w[0] : w);
			w += n * NR;
		}
	}
	end(c);
}

const struct rvl_i8_kernels KERNELS = {
	.mr = MR, .nr = NR, .kr = 4, .offset = { 128, 0 }, .gemm = gemm, .tables = &rvl_i8_tables_avx512,
	.dw = &rvl_i8_dw_avx512, .convert = &rvl_i8_convert_avx512, .requant = rvl_vnni_requant16,
};
#endif

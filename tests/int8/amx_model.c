// SPDX-License-Identifier: MIT
/* The kernels for AMX-INT8 with a model of its tile instructions, for processors that lack them. */
#ifdef __x86_64__
#include <string.h>

#include "int8/shapes.h"

#define RVL_AMX_MODEL
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#define TILE_CONFIG load_config
#define TILE_LOAD load
#define TILE_STORE store
#define TILE_DPBUSD dpbusd
#define TILE_RELEASE release
#define KERNELS int8_amx_model

#define TILES 8

/* The state of a thread. In the initial state, which has no palette, tile instructions are undefined. */
static _Thread_local struct {
	uint8_t palette, rows[TILES];
	uint16_t row_bytes[TILES];
	uint8_t tile[TILES][16][64];
} state;

/* LDTILECFG: byte 0 is the palette, 16-bit words from byte 16 on bytes of rows, bytes from 48 on rows. */
static void load_config(const void *memory)
{
	const uint8_t *b = memory;

	memset(&state, 0, sizeof(state));
	state.palette = b[0];
	memcpy(state.row_bytes, b + 16, sizeof(state.row_bytes));
	memcpy(state.rows, b + 48, sizeof(state.rows));
	for (int t = 0; t < TILES; t++)
		if (b[0] != 1 || b[1] || state.rows[t] > 16 || state.row_bytes[t] > 64)
			__builtin_trap();
}

static void release(void)
{
	memset(&state, 0, sizeof(state));
}

/* TILELOADD and TILESTORED. What a tile has behind its rows and columns is 0. */
static void load(int t, const void *base, long stride)
{
	memset(state.tile[t], 0, sizeof(state.tile[t]));
	for (int r = 0; r < state.rows[t]; r++)
		memcpy(state.tile[t][r], (const uint8_t *)base + r * stride, state.row_bytes[t]);
}

static void store(int t, void *base, long stride)
{
	for (int r = 0; r < state.rows[t]; r++)
		memcpy((uint8_t *)base + r * stride, state.tile[t][r], state.row_bytes[t]);
}

/* The four products of dword @k of row @m of tile @a and dword @n of row @k of tile @b. */
static uint32_t four_products(int a, int b, int m, int k, int n)
{
	uint32_t sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (uint32_t)(state.tile[a][m][4 * k + i] * (int8_t)state.tile[b][k][4 * n + i]);
	return sum;
}

/* TDPBUSD: adds products of unsigned bytes of @a by signed bytes of @b, modulo 2^32. */
static void dpbusd(int c, int a, int b)
{
	if (state.palette != 1 || state.rows[c] != state.rows[a] ||
	    state.row_bytes[a] / 4 != state.rows[b] || state.row_bytes[c] != state.row_bytes[b])
		__builtin_trap();
	for (int m = 0; m < state.rows[c]; m++) {
		uint32_t sum[16];

		memcpy(sum, state.tile[c][m], sizeof(sum));
		for (int n = 0; n < state.row_bytes[c] / 4; n++)
			for (int k = 0; k < state.rows[b]; k++)
				sum[n] += four_products(a, b, m, k, n);
		memcpy(state.tile[c][m], sum, sizeof(sum));
	}
}

#include "../../kernels/int8/amx.c"
#endif

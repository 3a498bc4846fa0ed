// SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT
#include "rivulet_crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLY 0x82f63b78u	/* reflected Castagnoli polynomial */

static uint32_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ POLY : c >> 1;
		table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int t = 1; t < 8; t++)
			table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 0xff];
}

/* Slicing by 8, because program files have megabytes and are checked at every load. */
static uint32_t eight(uint32_t c, const unsigned char *p)
{
	uint32_t lo, hi;

	memcpy(&lo, p, 4);
	memcpy(&hi, p + 4, 4);
	lo ^= c;
	return table[7][lo & 0xff] ^ table[6][lo >> 8 & 0xff] ^ table[5][lo >> 16 & 0xff] ^
	       table[4][lo >> 24] ^ table[3][hi & 0xff] ^ table[2][hi >> 8 & 0xff] ^
	       table[1][hi >> 16 & 0xff] ^ table[0][hi >> 24];
}

uint32_t rivulet_crc32c(uint32_t seed, const void *data, size_t len)
{
	const unsigned char *p = data;
	uint32_t c = ~seed;

	pthread_once(&once, make_table);
	for (; len >= 8; len -= 8, p += 8)
		c = eight(c, p);
	for (; len; len--, p++)
		c = c >> 8 ^ table[0][(c ^ *p) & 0xff];
	return ~c;
}

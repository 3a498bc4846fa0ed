/* SPDX-License-Identifier: MIT */
/* Products by tables for every arm64 processor: TBL with tables of 16 bytes. */
#ifdef __aarch64__
#include "int8/neon.h"

#define TARGET
#define MR 4
#define PAIR 4
#define COLUMNS 16
#define requant16 rvl_neon_requant16

#define vec uint8x16_t
#define T_LOAD vld1q_u8
#define T_LOW(c) vandq_u8(c, vdupq_n_u8(15))
#define T_HIGH(c) vshrq_n_u8(c, 4)
#define T_TABLE vld1q_u8
#define T_LOOKUP vqtbl1q_u8
#define T_ADD8 vaddq_u8
#define T_ZERO() vdupq_n_u8(0)
/* Bytes of @lo plus 16 times those of @hi, by columns 0 to 7 and 8 to 15. */
#define T_WIDEN(sum, lo, hi) ({ \
	uint16x8_t a = vaddw_u8(vreinterpretq_u16_u8((sum)[0]), vget_low_u8(lo)); \
	uint16x8_t b = vaddw_high_u8(vreinterpretq_u16_u8((sum)[1]), lo); \
	(sum)[0] = vreinterpretq_u8_u16(vmlal_u8(a, vget_low_u8(hi), vdup_n_u8(16))); \
	(sum)[1] = vreinterpretq_u8_u16(vmlal_high_u8(b, hi, vdupq_n_u8(16))); \
})
#define T_STORE(out, sum) \
	(vst1q_u16(out, vreinterpretq_u16_u8((sum)[0])), vst1q_u16((out) + 8, vreinterpretq_u16_u8((sum)[1])))

#include "int8/tables.h"

INLINE void build_lane(uint8x16_t v, uint8_t *table)
{
#pragma GCC unroll 4
	for (int g = 0; g < 4; g++) {
		uint8x16_t sum[4];

#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			sum[j] = vqtbl1q_u8(v, vaddq_u8(vdupq_n_u8((uint8_t)(4 * g)), vld1q_u8(subsets[j])));
		vst1q_u8(table + (size_t)32 * g,
			 vaddq_u8(vaddq_u8(sum[0], sum[1]), vaddq_u8(sum[2], sum[3])));
	}
}

INLINE void build16(const uint8_t *x, bool u8, uint8_t *tables)
{
	uint8x16_t v = veorq_u8(vld1q_u8(x), vdupq_n_u8(u8 ? 0 : 0x80));

	build_lane(T_LOW(v), tables);
	build_lane(T_HIGH(v), tables + 16);
}

const struct rvl_i8_kernels rvl_i8_tables_neon = {
	.mr = MR, .nr = COLUMNS, .kr = KR, .widened = TABLE_BYTES, .offset = { 128, 0 },
	.gemm = gemm, .widen = build_tables, .convert = &rvl_i8_convert_base,
	.requant = rvl_neon_requant16,
};
#endif

// SPDX-License-Identifier: MIT
/*
 * Convolution with vector instructions. Sparse weights are written out as dense ones. The input tile is copied with its padding, so that
 * each tap is at a constant distance. Weights are transposed, so that a vector holds the same input
 * channels of neighbouring output channels. Both consist of 32-bit units:
 *
 *	VNNI	4 channels as bytes, with an offset of 128 that makes the input unsigned; @start
 *		removes it from the sums
 *	AVX2	2 channels as int16
 */
#include "conv_simd.h"
#include "conv_sparse.h"

#include <stdlib.h>
#include <string.h>

#define TILE_BYTES                                                                                 \
	(8u << 20) /* of the copied input; shapes beyond it are left to the scalar code */
#define WEIGHT_BYTES (4u << 20)
#define TAPS_MAX     65536u
#define PIXELS	     8 /* accumulated at once */

/* Working memory, allocated once per core. */
struct work {
	uint8_t tile[TILE_BYTES];
	uint32_t weight[WEIGHT_BYTES / 4];
	int32_t tap[TAPS_MAX];
};

/* One row of outputs for one vector of output channels. */
struct strip {
	int32_t *acc;	    /* of the first pixel and channel */
	uint32_t acc_step;  /* int32 from pixel to pixel: tm */
	const uint8_t *x;   /* tap 0 of the first pixel */
	uint64_t x_step;    /* bytes from pixel to pixel */
	const int32_t *tap; /* byte distance of each tap */
	uint32_t taps;
	uint32_t units;	   /* per tap */
	const uint32_t *w; /* of the first channel */
	uint32_t w_step;   /* units from one input unit to the next: tm */
	bool keep;
	int32_t start[16]; /* of each sum */
};

struct plan {
	struct rvl_core *c;
	const struct rivulet_config *cfg;
	const struct rivulet_insn_conv *v;
	struct work *work;
	enum rvl_simd simd;
	uint32_t elem;	     /* bytes of an input channel in the tile */
	uint32_t units;	     /* per INP word */
	uint64_t rows, cols; /* of the tile */
	uint32_t taps;
	struct rivulet_sparse pairs; /* sparse: the format of the weights */
};

static _Atomic int simd_limit = RVL_SIMD_VNNI;

static enum rvl_simd host_simd(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl"))
		return RVL_SIMD_VNNI;
	if (__builtin_cpu_supports("avx2"))
		return RVL_SIMD_AVX2;
#endif
	return RVL_SIMD_NONE;
}

static enum rvl_simd usable(void)
{
	enum rvl_simd host = host_simd(), most = atomic_load(&simd_limit);

	return host < most ? host : most;
}

enum rvl_simd rvl_conv_force(enum rvl_simd most)
{
	atomic_store(&simd_limit, most);
	return usable();
}

#if defined(__x86_64__)
#include <immintrin.h>

#define VNNI   __attribute__((target("avx512f,avx512vl,avx512vnni")))
#define AVX2   __attribute__((target("avx2")))
#define UNROLL _Pragma("GCC unroll 8")
#define INLINE static inline __attribute__((always_inline))

static int32_t unit_at(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

VNNI INLINE void vnni_pixels(const struct strip *s, int64_t x, const int n)
{
	const uint8_t *in = s->x + x * s->x_step;
	int32_t *out = s->acc + x * s->acc_step;
	__m512i sum[PIXELS];

	UNROLL
	for (int p = 0; p < n; p++)
		sum[p] = _mm512_loadu_si512(s->start);
	for (uint32_t t = 0; t < s->taps; t++) {
		const uint32_t *w = s->w + (uint64_t)t * s->units * s->w_step;

		for (uint32_t u = 0; u < s->units; u++) {
			__m512i wv = _mm512_loadu_si512(w + u * s->w_step);

			UNROLL
			for (int p = 0; p < n; p++)
				sum[p] = _mm512_dpbusd_epi32(
					sum[p],
					_mm512_set1_epi32(
						unit_at(in + s->tap[t] + p * s->x_step + 4 * u)),
					wv);
		}
	}
	UNROLL
	for (int p = 0; p < n; p++, out += s->acc_step) {
		if (s->keep)
			sum[p] = _mm512_add_epi32(sum[p], _mm512_loadu_si512(out));
		_mm512_storeu_si512(out, sum[p]);
	}
}

VNNI static void vnni_strip(const struct strip *s, int64_t pixels)
{
	int64_t x = 0;

	for (; x + PIXELS <= pixels; x += PIXELS)
		vnni_pixels(s, x, PIXELS);
	for (; x + 4 <= pixels; x += 4)
		vnni_pixels(s, x, 4);
	for (; x < pixels; x++)
		vnni_pixels(s, x, 1);
}

/* The sums start at minus what the offset of the input adds: 128 times all weights. */
VNNI static void vnni_start(struct strip *s)
{
	__m512i sum = _mm512_setzero_si512(), offset = _mm512_set1_epi8((char)0x80);

	for (uint64_t u = 0; u < (uint64_t)s->taps * s->units; u++)
		sum = _mm512_dpbusd_epi32(sum, offset, _mm512_loadu_si512(s->w + u * s->w_step));
	_mm512_storeu_si512(s->start, _mm512_sub_epi32(_mm512_setzero_si512(), sum));
}

AVX2 INLINE void avx2_pixels(const struct strip *s, int64_t x, const int n)
{
	const uint8_t *in = s->x + x * s->x_step;
	int32_t *out = s->acc + x * s->acc_step;
	__m256i sum[PIXELS];

	UNROLL
	for (int p = 0; p < n; p++)
		sum[p] = _mm256_setzero_si256();
	for (uint32_t t = 0; t < s->taps; t++) {
		const uint32_t *w = s->w + (uint64_t)t * s->units * s->w_step;

		for (uint32_t u = 0; u < s->units; u++) {
			__m256i wv = _mm256_loadu_si256((const void *)(w + u * s->w_step));

			UNROLL
			for (int p = 0; p < n; p++)
				sum[p] = _mm256_add_epi32(
					sum[p], _mm256_madd_epi16(_mm256_set1_epi32(unit_at(
									  in + s->tap[t] +
									  p * s->x_step + 4 * u)),
								  wv));
		}
	}
	UNROLL
	for (int p = 0; p < n; p++, out += s->acc_step) {
		if (s->keep)
			sum[p] = _mm256_add_epi32(sum[p], _mm256_loadu_si256((const void *)out));
		_mm256_storeu_si256((void *)out, sum[p]);
	}
}

AVX2 static void avx2_strip(const struct strip *s, int64_t pixels)
{
	int64_t x = 0;

	for (; x + PIXELS <= pixels; x += PIXELS)
		avx2_pixels(s, x, PIXELS);
	for (; x + 4 <= pixels; x += 4)
		avx2_pixels(s, x, 4);
	for (; x < pixels; x++)
		avx2_pixels(s, x, 1);
}

static void run_strip(enum rvl_simd simd, const struct strip *s, int64_t pixels)
{
	if (simd == RVL_SIMD_VNNI)
		vnni_strip(s, pixels);
	else
		avx2_strip(s, pixels);
}

static void start_strip(enum rvl_simd simd, struct strip *s)
{
	if (simd == RVL_SIMD_VNNI)
		vnni_start(s);
}
#else
static void run_strip(enum rvl_simd simd, const struct strip *s, int64_t pixels)
{
	(void)simd, (void)s, (void)pixels;
}

static void start_strip(enum rvl_simd simd, struct strip *s)
{
	(void)simd, (void)s;
}
#endif

static uint32_t vector_channels(enum rvl_simd simd)
{
	return simd == RVL_SIMD_VNNI ? 16 : 8;
}

/* Copy @n bytes of INP in the form of the tile. */
static void copy_channels(const struct plan *p, uint8_t *to, const uint8_t *from, uint64_t n)
{
	int16_t *wide = (int16_t *)to;

	if (p->simd == RVL_SIMD_VNNI) {
		for (uint64_t i = 0; i < n; i++)
			to[i] = from[i] ^ 0x80;
		return;
	}
	for (uint64_t i = 0; i < n; i++)
		wide[i] = (int8_t)from[i];
}

static void pad_channels(const struct plan *p, uint8_t *to, uint64_t n)
{
	int16_t *wide = (int16_t *)to;

	if (p->simd == RVL_SIMD_VNNI) {
		memset(to, (int)(p->cfg->c_pad.value ^ 0x80) & 0xff, n);
		return;
	}
	for (uint64_t i = 0; i < n; i++)
		wide[i] = p->cfg->c_pad.value;
}

/*
 * Copies one row of the tile with its padding. @word: INP word of column 0, or -1 for a row of
 * padding.
 */
static void copy_row(const struct plan *p, uint8_t *to, int64_t word)
{
	const struct rivulet_insn_c_input *in = &p->cfg->c_input;
	uint64_t tn = p->c->board->tn, step = tn * p->elem;
	int64_t org = p->cfg->c_kernel.org_x, n = p->cols;
	int64_t left = org < 0 ? -org : 0, end = in->cols - org;

	if (left > n || word < 0)
		left = n;
	if (end > n)
		end = n;
	if (end < left)
		end = left;
	pad_channels(p, to, left * tn);
	if (end > left)
		copy_channels(p, to + left * step, p->c->inp + (word + org + left) * tn,
			      (end - left) * tn);
	pad_channels(p, to + end * step, (n - end) * tn);
}

static void copy_tile(const struct plan *p, int64_t o)
{
	const struct rivulet_insn_c_input *in = &p->cfg->c_input;
	uint64_t row_bytes = p->cols * p->c->board->tn * p->elem;
	uint8_t *to = p->work->tile;

	for (int64_t i = 0; i < p->v->icb; i++) {
		int64_t base = p->v->inp + o * p->cfg->c_out.inp_oc_pitch + i * in->blk_pitch;

		for (uint64_t r = 0; r < p->rows; r++, to += row_bytes) {
			int64_t y = p->cfg->c_kernel.org_y + (int64_t)r, ring = y;

			if (in->wrap)
				ring = (in->phase + y) % in->wrap;
			copy_row(p, to, y < 0 || y >= in->rows ? -1 : base + ring * in->row_pitch);
		}
	}
}

/* Transpose one tm x tn block to [unit][channel]. */
static void copy_weights(const struct plan *p, uint32_t *to, const uint8_t *from)
{
	uint32_t tm = p->c->board->tm, tn = p->c->board->tn, per = 4 / p->elem;

	for (uint32_t m = 0; m < tm; m++) {
		for (uint32_t u = 0; u < p->units; u++) {
			const int8_t *w = (const int8_t *)from + m * tn + u * per;
			int16_t wide[2] = { w[0], w[1] };

			memcpy(&to[u * tm + m], per == 4 ? (const void *)w : (const void *)wide, 4);
		}
	}
}

/* Block @n of output block @o: @n counts input blocks, and in each of them taps. */
static const uint8_t *weight_block(const struct plan *p, int64_t o, uint64_t n)
{
	uint64_t area = p->cfg->c_kernel.kh * p->cfg->c_kernel.kw;
	uint64_t words = p->v->mode == RIVULET_MODE_SPARSE ?
				 rivulet_sparse_words(&p->pairs) :
				 p->c->board->tm * p->c->board->tn / RIVULET_WGT_WORD;

	return p->c->wgt + RIVULET_WGT_WORD * (p->v->wgt + o * p->cfg->c_out.wgt_oc_pitch +
					       n / area * p->cfg->c_out.wgt_ic_pitch +
					       n % area * words);
}

static void copy_all_weights(const struct plan *p, int64_t o)
{
	uint32_t *to = p->work->weight;
	int8_t dense[64 * 64];

	for (uint64_t n = 0; n < p->taps; n++, to += p->units * p->c->board->tm) {
		const uint8_t *from = weight_block(p, o, n);

		if (p->v->mode == RIVULET_MODE_SPARSE) {
			rvl_sparse_expand(p->c->board, &p->pairs, from, dense);
			from = (const uint8_t *)dense;
		}
		copy_weights(p, to, from);
	}
}

/* Whether all blocks of a sparse CONV can be written out as int8. */
static bool expandable(const struct plan *p)
{
	int8_t dense[64 * 64];

	for (int64_t o = 0; p->v->mode == RIVULET_MODE_SPARSE && o < p->v->ocb; o++)
		for (uint64_t n = 0; n < p->taps; n++)
			if (!rvl_sparse_expand(p->c->board, &p->pairs, weight_block(p, o, n), dense))
				return false;
	return true;
}

static void place_taps(const struct plan *p)
{
	const struct rivulet_insn_c_kernel *k = &p->cfg->c_kernel;
	uint64_t step = p->c->board->tn * p->elem;
	int32_t *tap = p->work->tap;

	for (int64_t i = 0; i < p->v->icb; i++)
		for (int64_t ky = 0; ky < k->kh; ky++)
			for (int64_t kx = 0; kx < k->kw; kx++)
				*tap++ = ((i * p->rows + ky * k->dy) * p->cols + kx * k->dx) * step;
}

/* All rows of one output block, for the vector of channels that starts at @m. */
static int run_channels(const struct plan *p, int64_t o, uint32_t m)
{
	const struct rivulet_insn_c_kernel *k = &p->cfg->c_kernel;
	uint64_t step = p->c->board->tn * p->elem, tm = p->c->board->tm;
	struct strip s = {
		.acc_step = tm,
		.x_step = k->sx * step,
		.tap = p->work->tap,
		.taps = p->taps,
		.units = p->units,
		.w = p->work->weight + m,
		.w_step = tm,
		.keep = p->v->keep,
	};

	start_strip(p->simd, &s);
	for (int64_t y = 0; y < p->v->rows; y++) {
		uint64_t word =
			p->v->acc + o * p->cfg->c_out.blk_pitch + y * p->cfg->c_out.row_pitch;

		if (rvl_core_aborted(p->c))
			return RVL_ABORTED;
		s.acc = p->c->acc + word * tm + m;
		s.x = p->work->tile + y * k->sy * p->cols * step;
		run_strip(p->simd, &s, p->v->cols);
	}
	return 0;
}

static int run_plan(const struct plan *p)
{
	int r = 0;

	place_taps(p);
	for (int64_t o = 0; !r && o < p->v->ocb; o++) {
		if (!o || p->cfg->c_out.inp_oc_pitch)
			copy_tile(p, o);
		copy_all_weights(p, o);
		for (uint32_t m = 0; !r && m < p->c->board->tm; m += vector_channels(p->simd))
			r = run_channels(p, o, m);
	}
	return r;
}

/* Whether tile, weights and taps fit the working memory. Products are below 2^60. */
static bool fits(struct plan *p)
{
	const struct rivulet_insn_c_kernel *k = &p->cfg->c_kernel;
	uint64_t taps = p->v->icb * k->kh * k->kw;

	p->rows = (p->v->rows - 1) * k->sy + (k->kh - 1) * k->dy + 1;
	p->cols = (p->v->cols - 1) * k->sx + (k->kw - 1) * k->dx + 1;
	p->taps = taps;
	return taps <= TAPS_MAX && taps * p->units * p->c->board->tm <= WEIGHT_BYTES / 4 &&
	       p->v->icb * p->rows * p->cols * p->c->board->tn * p->elem <= TILE_BYTES;
}

int rvl_conv_simd(struct rvl_core *c, const struct rivulet_config *cfg,
		  const struct rivulet_insn_conv *v)
{
	struct plan p = { .c = c, .cfg = cfg, .v = v, .simd = usable() };

	if (p.simd == RVL_SIMD_NONE || c->board->tm % vector_channels(p.simd))
		return RVL_CONV_SCALAR;
	p.elem = p.simd == RVL_SIMD_VNNI ? 1 : 2;
	p.units = c->board->tn * p.elem / 4;
	p.pairs = rivulet_sparse_of(c->board, cfg->c_mode.dn);
	if (!fits(&p) || !expandable(&p))
		return RVL_CONV_SCALAR;
	if (!c->conv)
		c->conv = malloc(sizeof(struct work));
	if (!c->conv)
		return RVL_CONV_SCALAR;
	p.work = c->conv;
	return run_plan(&p);
}

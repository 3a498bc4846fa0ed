/* SPDX-License-Identifier: MIT */
/*
 * Quantised convolution and matrix product in stochastic arithmetic (docs/numerics.md 8): the same
 * operators as in op_qconv.c, but a product is a bitstream of attr.sc_length bits.
 */
#include "isa.h"
#include "sc.h"

#include <string.h>

#include "qmath.h"

/* ---- weights ---- */

static int64_t tile_bytes(const struct rvl_sc *s)
{
	return s->runs * rvl_sc_quads(s) * 256;
}

/* Stores a weight at the position that sc_vbmi.c reads it from. */
static void place(const struct rvl_sc *s, int64_t tile, int64_t at, int64_t n, int8_t w)
{
	int64_t q = n / 16, l = n % 16 / 4, i = n % 4, ch = at % 4;
	int64_t base = tile * tile_bytes(s) + at / 4 * 256;

	s->mag[base + ch * 64 + 16 * l + 4 * q + i] = (uint8_t)(w < 0 ? -w : w) & 127;
	s->sign[base + q * 64 + (4 * l + i) * 4 + ch] = w < 0 ? -1 : 1;
}

static void place_all(struct rvl_sc *s)
{
	int64_t terms = s->runs * s->run;

	for (int64_t g = 0; g < s->groups; g++) {
		for (int64_t n = 0; n < s->n; n++) {
			const int8_t *w = s->w + (g * s->n + n) * terms;

			for (int64_t t = 0; t < terms; t++) {
				int64_t at = t / s->run * rvl_sc_quads(s) * 4 + t % s->run;

				place(s, g * s->tiles + n / RVL_SC_NR, at, n % RVL_SC_NR, w[t]);
				s->wide |= w[t] == -128;
			}
		}
	}
}

static int64_t column(const struct rvl_sc *s, int64_t i)
{
	return i / s->n * s->tiles * RVL_SC_NR + i % s->n;
}

static void place_columns(struct rvl_sc *s, const struct rvl_qparams *q, uint32_t length)
{
	for (int64_t i = 0; i < s->groups * s->n; i++) {
		s->bias[column(s, i)] = q->bias ? rivulet_sc_bias(q->bias[i], length) : 0;
		s->scale[column(s, i)] = rivulet_sc_mult(q->scale[i], length);
	}
}

static void fill_ones(struct rvl_sc *s)
{
	for (int x = 0; x < 256; x++)
		for (int w = 0; w < 128; w++)
			s->ones[x * 128 + w] = (uint8_t)s->table->t[x][w];
}

static int make_tables(struct rvl_kernel *k, struct rvl_sc *s, uint32_t length)
{
	bool binary = s->adder.circuit == RIVULET_SC_AND_BIN;

	if (!binary) {
		s->streams = rvl_kernel_mem(k, 1, sizeof(*s->streams));
		if (s->streams)
			rivulet_sc_init(s->streams, RIVULET_SC_BITS, length);
		return s->streams ? 0 : -ENOMEM;
	}
	s->table = rvl_kernel_mem(k, 1, sizeof(*s->table));
	s->ones = rvl_kernel_mem(k, 256, 128);
	if (!s->table || !s->ones)
		return -ENOMEM;
	rivulet_sc_table_fill(s->table, length);
	fill_ones(s);
	return 0;
}

/* Memory of @s, whose dimensions are set. */
static int allocate(struct rvl_kernel *k, struct rvl_sc *s)
{
	int64_t columns = s->groups * s->tiles * RVL_SC_NR;

	s->off = rvl_kernel_mem(k, s->runs, sizeof(*s->off));
	s->w = rvl_kernel_mem(k, s->groups * s->n * s->runs, (size_t)s->run);
	s->mag = rvl_kernel_mem(k, s->groups * s->tiles, (size_t)tile_bytes(s));
	s->sign = rvl_kernel_mem(k, s->groups * s->tiles, (size_t)tile_bytes(s));
	s->bias = rvl_kernel_mem(k, columns, sizeof(*s->bias));
	s->scale = rvl_kernel_mem(k, columns, sizeof(*s->scale));
	return s->off && s->w && s->mag && s->sign && s->bias && s->scale ? 0 : -ENOMEM;
}

/* ---- sums ---- */

/* One table look-up per product: the reference, and the kernel of processors without VBMI. */
static void tile_table(const struct rvl_sc *s, const uint8_t *x, int64_t first, int64_t n,
		       int32_t *acc)
{
	const int8_t *w = s->w + first * s->runs * s->run;

	for (int64_t j = 0; j < n; j++) {
		for (int64_t r = 0; r < s->runs; r++, w += s->run) {
			const uint8_t *from = x + s->off[r];

			for (int64_t i = 0; i < s->run; i++)
				acc[j] = rvl_wrap_add(acc[j], s->table->t[from[i]][(uint8_t)w[i]]);
		}
	}
}

#define TERMS 4096 /* codes on the stack; longer sums are refused at setup */

static void tile_streams(const struct rvl_sc *s, const uint8_t *x, int64_t first, int64_t n,
			 int32_t *acc)
{
	const int8_t *w = s->w + first * s->runs * s->run;
	uint16_t xc[TERMS];
	int16_t wc[TERMS];

	for (int64_t j = 0; j < n; j++) {
		size_t at = 0;

		for (int64_t r = 0; r < s->runs; r++) {
			for (int64_t i = 0; i < s->run; i++, at++) {
				xc[at] = rivulet_sc_x(s->adder.circuit, x[s->off[r] + i]);
				wc[at] = rivulet_sc_w(s->adder.circuit, *w++);
			}
		}
		acc[j] = rvl_wrap_add(acc[j], rivulet_sc_sum(s->streams, &s->adder, xc, wc, at));
	}
}

static void tile_sums(const struct rvl_kernel *k, int64_t group, int64_t tile, const uint8_t *x,
		      int64_t n, int32_t *acc)
{
	const struct rvl_sc *s = k->sc;
	int64_t first = group * s->n + tile * RVL_SC_NR;

	if (s->streams) {
		tile_streams(s, x, first, n, acc);
#ifdef __x86_64__
	} else if (!k->reference && !s->wide && rvl_have_vbmi()) {
		int64_t at = (group * s->tiles + tile) * tile_bytes(s);

		rvl_sc_tile_vbmi(s, x, s->mag + at, s->sign + at, acc);
#endif
	} else {
		tile_table(s, x, first, n, acc);
	}
}

/* All outputs of one pixel or row; @x: base of its inputs. */
static void one_pixel(const struct rvl_kernel *k, const uint8_t *x, uint8_t *y)
{
	const struct rvl_sc *s = k->sc;
	const struct rvl_i8_kernels *f = rvl_i8_kernels();
	int64_t cg = k->d.op == RVL_OP_Q_CONV ? k->g.c / k->g.group : 0;

	for (int64_t g = 0; g < s->groups; g++) {
		for (int64_t tile = 0; tile < s->tiles; tile++) {
			int64_t at = (g * s->tiles + tile) * RVL_SC_NR, done = tile * RVL_SC_NR;
			int64_t n = s->n - done < RVL_SC_NR ? s->n - done : RVL_SC_NR;
			int32_t acc[RVL_SC_NR] __attribute__((aligned(64)));
			uint8_t row[RVL_SC_NR];

			memcpy(acc, s->bias + at, sizeof(acc));
			tile_sums(k, g, tile, x + g * cg, n, acc);
			for (int i = 0; i < RVL_SC_NR; i += 16)
				f->requant(acc + i, s->scale + at + i, &s->post, row + i);
			memcpy(y + g * s->n + done, row, (size_t)n);
		}
	}
}

/* ---- convolution ---- */

struct sc_image {
	int64_t ph, pw;
	size_t bytes;
};

static bool image_of(const struct rvl_conv_geom *g, struct sc_image *im)
{
	int64_t bytes;

	im->ph = (g->oh - 1) * g->s[0] + g->d[0] * (g->k[0] - 1) + 1;
	im->pw = (g->ow - 1) * g->s[1] + g->d[1] * (g->k[1] - 1) + 1;
	if (__builtin_mul_overflow(im->ph, im->pw, &bytes) ||
	    __builtin_mul_overflow(bytes, g->c, &bytes) || bytes > (int64_t)1 << 28)
		return false;
	im->bytes = ((size_t)bytes + 127) / 64 * 64;
	return true;
}

struct sc_run {
	const struct rvl_kernel *k;
	struct sc_image im;
	const uint8_t *x;
	uint8_t *y, *image, *rows;
};

/* One padded row, channels last; the padding is the number 0, whose stream has no ones. */
static void pad_row(void *arg, uint32_t i)
{
	const struct sc_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	uint8_t *dst = r->image + i * r->im.pw * g->c;
	int64_t iy = (int64_t)i - g->pad[0];
	int64_t last = r->im.pw - g->pad[1] < g->w ? r->im.pw - g->pad[1] : g->w;

	memset(dst, 0, (size_t)(r->im.pw * g->c));
	if (iy < 0 || iy >= g->h)
		return;
	dst += g->pad[1] * g->c;
	for (int64_t c = 0; c < g->c; c++) {
		const uint8_t *src = r->x + (c * g->h + iy) * g->w;

		for (int64_t ix = 0; ix < last; ix++)
			dst[ix * g->c + c] = src[ix];
	}
}

static void conv_row(void *arg, uint32_t i)
{
	const struct sc_run *r = arg;
	const struct rvl_conv_geom *g = &r->k->g;
	uint8_t *row = r->rows + i * g->ow * g->m;

	for (int64_t ox = 0; ox < g->ow; ox++)
		one_pixel(r->k, r->image + (i * g->s[0] * r->im.pw + ox * g->s[1]) * g->c,
			  row + ox * g->m);
	for (int64_t m = 0; m < g->m; m++)
		for (int64_t ox = 0; ox < g->ow; ox++)
			r->y[(m * g->oh + i) * g->ow + ox] = row[ox * g->m + m];
}

static int run_conv(const struct rvl_kernel *k, const void *const *in, void *const *out,
		    void *scratch, const struct rvl_pool *pool)
{
	struct sc_run r = { .k = k, .image = scratch };

	image_of(&k->g, &r.im);
	r.rows = r.image + r.im.bytes;
	memset(r.rows - 64, 0, 64);
	for (int64_t n = 0; n < k->g.n; n++) {
		r.x = (const uint8_t *)in[0] + n * k->g.c * k->g.h * k->g.w;
		r.y = (uint8_t *)out[0] + n * k->g.m * k->g.oh * k->g.ow;
		rvl_parallel(pool, (uint32_t)r.im.ph, pad_row, &r);
		rvl_parallel(pool, (uint32_t)k->g.oh, conv_row, &r);
	}
	return 0;
}

/* ---- matrix product ---- */

static void matrix_row(void *arg, uint32_t i)
{
	const struct sc_run *r = arg;
	const struct rvl_matmul_geom *g = &r->k->mm;
	uint8_t *x = r->image + i * ((size_t)g->k + 64);

	for (int64_t c = 0; c < g->k; c++)
		x[c] = r->x[i * g->a_row + c * g->a_k];
	memset(x + g->k, 0, 4);
	one_pixel(r->k, x, r->y + i * g->n);
}

static int run_matmul(const struct rvl_kernel *k, const void *const *in, void *const *out,
		      void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_matmul_geom *g = &k->mm;
	struct sc_run r = { .k = k, .image = scratch };

	for (int64_t i = 0; i < rvl_shape_count(&g->batch); i++) {
		int64_t a, b;

		rvl_matmul_batch(g, i, &a, &b);
		r.x = (const uint8_t *)in[0] + a;
		r.y = (uint8_t *)out[0] + i * g->m * g->n;
		rvl_parallel(pool, (uint32_t)g->m, matrix_row, &r);
	}
	return 0;
}

/* ---- setup ---- */

static int check(const struct rvl_kernel_desc *d, char *why)
{
	const struct rvl_attr *a = &d->attr;
	const struct rvl_kernel_arg *w = &d->in[1];

	if (d->in[0].type != RVL_TYPE_U8 || d->in[0].quant.zp[0])
		return rvl_why(why, "stochastic: its input is not uint8 with zero point 0");
	if (w->type != RVL_TYPE_S8 || !w->data || (d->n_in > 2 && !d->in[2].data))
		return rvl_why(why, "stochastic: its weights are not constant int8");
	for (uint32_t i = 0; i < w->quant.n; i++)
		if (w->quant.zp[i])
			return rvl_why(why, "stochastic: its weights have zero point %d", w->quant.zp[i]);
	if (a->sc_length < (int32_t)RIVULET_SC_MIN || a->sc_length > (int32_t)RIVULET_SC_MAX ||
	    a->sc_circuit < 0 || a->sc_circuit >= RIVULET_SC_CIRCUIT_COUNT || a->sc_scale < 0 ||
	    a->sc_scale > 20 || a->sc_blocks < 0 || a->sc_blocks > (int32_t)RIVULET_SC_BLOCKS_MAX)
		return rvl_why(why, "stochastic: no such length, circuit, scale or blocks");
	return 0;
}

/* Parameters that all of it needs; runs and outputs of @s are set. */
static int finish(struct rvl_kernel *k, struct rvl_sc *s, char *why)
{
	const struct rvl_attr *a = &k->d.attr;
	int rc;

	s->tiles = (s->n + RVL_SC_NR - 1) / RVL_SC_NR;
	s->adder = (struct rivulet_sc_adder) {
		.circuit = (uint32_t)a->sc_circuit, .scale = 1u << a->sc_scale,
		.blocks = a->sc_blocks ? (uint32_t)a->sc_blocks : 1,
	};
	if (s->adder.circuit != RIVULET_SC_AND_BIN && s->runs * s->run > TERMS)
		return rvl_why(why, "stochastic: sums of more than %d products by this circuit", TERMS);
	s->post = rvl_i8_post(k->q.lo, k->q.hi, k->q.yz, k->q.y_u8);
	rc = allocate(k, s);
	if (!rc)
		rc = make_tables(k, s, (uint32_t)a->sc_length);
	return rc;
}

static void pack(struct rvl_kernel *k)
{
	place_all(k->sc);
	place_columns(k->sc, &k->q, (uint32_t)k->d.attr.sc_length);
}

/* Taps that are adjacent in a row of the image form one run. */
static int setup_conv(struct rvl_kernel *k, struct rvl_sc *s, char *why)
{
	const struct rvl_conv_geom *g = &k->g;
	bool joined = g->group == 1 && g->d[1] == 1;
	int64_t cg = g->c / g->group, taps = g->k[0] * g->k[1];
	const int8_t *w = k->d.in[1].data;
	struct sc_image im;
	int rc;

	if (!image_of(g, &im))
		return rvl_why(why, "stochastic: a padded image beyond 256 MiB");
	s->groups = g->group;
	s->n = g->m / g->group;
	s->runs = joined ? g->k[0] : taps;
	s->run = joined ? g->k[1] * cg : cg;
	rc = finish(k, s, why);
	if (rc)
		return rc;
	for (int64_t m = 0; m < g->m; m++)
		for (int64_t t = 0; t < taps; t++)
			for (int64_t c = 0; c < cg; c++)
				s->w[(m * taps + t) * cg + c] = w[(m * cg + c) * taps + t];
	for (int64_t r = 0; r < s->runs; r++) {
		int64_t ky = joined ? r : r / g->k[1], kx = joined ? 0 : r % g->k[1];

		s->off[r] = (ky * g->d[0] * im.pw + kx * g->d[1]) * g->c;
	}
	k->scratch = im.bytes + (size_t)(g->oh * g->ow * g->m) + 64;
	k->run = run_conv;
	pack(k);
	return 0;
}

static int setup_matmul(struct rvl_kernel *k, struct rvl_sc *s, char *why)
{
	const struct rvl_matmul_geom *g = &k->mm;
	const int8_t *w = k->d.in[1].data;
	int rc;

	if (k->d.in[1].shape.rank > 2)
		return rvl_why(why, "stochastic: its second operand is a batch of matrices");
	s->groups = s->runs = 1;
	s->n = g->n;
	s->run = g->k;
	rc = finish(k, s, why);
	if (rc)
		return rc;
	for (int64_t n = 0; n < g->n; n++)
		for (int64_t c = 0; c < g->k; c++)
			s->w[n * g->k + c] = w[n * g->b_col + c * g->b_k];
	k->scratch = (size_t)g->m * ((size_t)g->k + 64) + 64;
	k->run = run_matmul;
	pack(k);
	return 0;
}

int rvl_setup_sc(struct rvl_kernel *k, bool reference, char *why)
{
	int rc = check(&k->d, why);

	if (rc)
		return rc;
	k->reference = reference;
	k->sc = rvl_kernel_mem(k, 1, sizeof(*k->sc));
	if (!k->sc)
		return -ENOMEM;
	return k->d.op == RVL_OP_Q_CONV ? setup_conv(k, k->sc, why) : setup_matmul(k, k->sc, why);
}

/* SPDX-License-Identifier: MIT */
/* Products of matrices. Integers wider than a byte are summed in 64 bits. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "float/product.h"
#include "int8/int8.h"
#include "int8/sums.h"
#include "isa.h"
#include "qmath.h"
#include "rivulet_op.h"
#include "sizes.h"

#define ROW 256		/* results of a row at a time */
#define FEW_ROWS 16	/* of a product of bytes: most that do not convert the right operand */

/* y[batch][m][n] = sum of a[m][k] * b[k][n]; distances in elements. */
struct product {
	const struct rvl_call *c;
	int64_t m, n, k;
	int64_t am, ak, bk, bn;
	struct rvl_shape batch;
	int64_t a_stride[RVL_MAX_RANK], b_stride[RVL_MAX_RANK];
	/* Integers: writes the results [at, at + n) of row m from their sums. */
	void (*finish)(const struct product *p, int64_t m, int64_t col, int64_t at, int64_t n,
		       const uint64_t *s);
	float alpha, beta;
	const struct rvl_value *added;	/* beta * C of a Gemm, or NULL */
	int64_t added_stride[RVL_MAX_RANK];
};

/* ---- the loops ---- */

/* @a and @b: elements of the operands; less the zero point @za, and @zb of each column. */
#define SUM_INTS(name, ctype) \
	static void name(const struct product *p, int64_t a, int64_t b, int64_t n, \
			 const uint64_t *zb, uint64_t za, uint64_t *s) \
	{ \
		const struct rvl_value *va = &p->c->in[0]; \
		const ctype *x = (const ctype *)p->c->in[1].data + b; \
		for (int64_t k = 0; k < p->k; k++) { \
			uint64_t v = (uint64_t)rvl_element_int(va->type, va->data, \
							       a + k * p->ak) - za; \
			for (int64_t j = 0; j < n; j++) \
				s[j] += v * ((uint64_t)(int64_t)x[k * p->bk + j * p->bn] - \
					     zb[j]); \
		} \
	}

SUM_INTS(sum_u8, uint8_t)
SUM_INTS(sum_s8, int8_t)
SUM_INTS(sum_u16, uint16_t)
SUM_INTS(sum_s16, int16_t)
SUM_INTS(sum_u32, uint32_t)
SUM_INTS(sum_s32, int32_t)
SUM_INTS(sum_64, int64_t)

/*
 * The zero point of row or column @i of a matrix with @each of them and @size elements in all; element
 * @at of the operand is in the matrix.
 */
static uint64_t zero_of(const struct rvl_call *c, uint32_t input, int64_t i, int64_t each,
			int64_t size, int64_t at)
{
	const struct rvl_value *z = &c->in[input];
	int64_t n;

	if (c->def->types[2] == 0 || !rvl_has(c, input) || size == 0)
		return 0;
	n = rvl_count(z);
	i = n == 1 ? 0 : n == each ? i : at / size * each + i;
	return (uint64_t)rvl_element_int(z->type, z->data, i);
}

static void sum_ints(const struct product *p, int64_t a, int64_t b, int64_t m, int64_t col,
		     int64_t n, uint64_t *s)
{
	static void (*const by_type[RVL_TYPE_COUNT])(const struct product *p, int64_t a, int64_t b,
						     int64_t n, const uint64_t *zb, uint64_t za,
						     uint64_t *s) = {
		[RVL_TYPE_U8] = sum_u8,	  [RVL_TYPE_S8] = sum_s8,   [RVL_TYPE_U16] = sum_u16,
		[RVL_TYPE_S16] = sum_s16, [RVL_TYPE_U32] = sum_u32, [RVL_TYPE_S32] = sum_s32,
	};
	uint64_t za = zero_of(p->c, 2, m, p->m, p->m * p->k, a), zb[ROW];
	enum rvl_type type = p->c->in[1].type;

	for (int64_t j = 0; j < n; j++)
		zb[j] = zero_of(p->c, 3, col + j, p->n, p->n * p->k, b);
	(by_type[type] ? by_type[type] : sum_64)(p, a, b, n, zb, za, s);
}

/* Where the matrices of product @i begin. */
static void matrices(const struct product *p, int64_t i, int64_t *a, int64_t *b)
{
	*a = *b = 0;
	for (int d = p->batch.rank - 1; d >= 0; d--) {
		int64_t x = i % p->batch.dim[d];

		i /= p->batch.dim[d];
		*a += x * p->a_stride[d];
		*b += x * p->b_stride[d];
	}
}

static void row_range(void *arg, int64_t first, int64_t past)
{
	const struct product *p = arg;

	for (int64_t r = first; r < past; r++) {
		int64_t a, b, m = r % p->m;

		matrices(p, r / p->m, &a, &b);
		a += m * p->am;
		for (int64_t col = 0; col < p->n; col += ROW) {
			int64_t n = p->n - col < ROW ? p->n - col : ROW;
			uint64_t s[ROW] = { 0 };

			sum_ints(p, a, b + col * p->bn, m, col, n, s);
			p->finish(p, m, col, r * p->n + col, n, s);
		}
	}
}

static void locate(const void *ctx, int64_t batch, struct rvl_f32_place *at)
{
	const struct product *p = ctx;

	*at = (struct rvl_f32_place) { .y = batch * p->m * p->n };
	matrices(p, batch, &at->a, &at->b);
}

static struct rvl_f32_job float_job(const struct product *p)
{
	struct rvl_f32_job j = {
		.f = rvl_f32_kernels(), .batches = rvl_shape_count(&p->batch), .m = p->m,
		.n = p->n, .k = p->k,
		.a = { .data = p->c->in[0].data, .k_step = p->ak, .step = p->am },
		.b = { .data = p->c->in[1].data, .k_step = p->bk, .step = p->bn },
		.locate = locate, .ctx = p, .scale = p->alpha,
		.added = p->added ? p->added->data : NULL,
		.added_row = p->added_stride[0], .added_col = p->added_stride[1],
		.added_scale = p->beta, .lo = -INFINITY, .hi = INFINITY, .y = p->c->out[0].data,
		.y_row = p->n,
	};

	rvl_f32_merge(&j, rvl_count(&p->c->in[0]), rvl_count(&p->c->in[1]));
	return j;
}

/* ---- products of bytes ---- */

/* Sums of bytes are computed in float, block by block. */
static bool is_exact(const struct product *p)
{
	return p->c->out[0].type == RVL_TYPE_S32 && rvl_type_size(p->c->in[0].type) == 1;
}

/* Elements along k, which are pairs. */
static int64_t pairs_of(const struct product *p)
{
	return rvl_ceil_div(p->k, 2);
}

/* Bytes of the packed panels of one right matrix, as struct rvl_f32_sum_call takes them. */
static int64_t packed_matrix(const struct product *p)
{
	return 2 * rvl_f32_packed(p->n, pairs_of(p), RVL_F32_PAIR_COLS);
}

/* Columns [first, first + n), pairs [k0, k0 + kc) of a packed matrix, less a zero point. */
static void widen_panels(const struct product *p, const uint8_t *packed, int64_t first, int64_t n, int64_t k0,
			 int64_t kc, int32_t zero, int64_t width, float *dst)
{
	int64_t panel = 2 * RVL_F32_PAIR_COLS * pairs_of(p);

	for (int64_t i = 0, some; i < n; i += some) {
		int64_t col = first + i, at = col % RVL_F32_PAIR_COLS;
		struct rvl_f32_bytes_call b = {
			.x = packed + col / RVL_F32_PAIR_COLS * panel + 2 * (k0 * RVL_F32_PAIR_COLS + at),
			.u8 = p->c->in[1].type == RVL_TYPE_U8, .zero = zero, .x_row = 2 * RVL_F32_PAIR_COLS,
			.rows = kc, .y = dst + i, .y_row = 2 * width,
		};

		some = rvl_least(RVL_F32_PAIR_COLS - at, n - i);
		b.n = 2 * some;
		rvl_f32_kernels()->bytes->widen(&b);
	}
}

/* The same of a matrix that lies at @x. */
static void pair_rows(const struct product *p, const uint8_t *x, int64_t first, int64_t n, int64_t k0,
		      int64_t kc, int32_t zero, int64_t width, float *dst)
{
	struct rvl_f32_bytes_call b = {
		.x = x + 2 * k0 * p->n + first, .u8 = p->c->in[1].type == RVL_TYPE_U8, .zero = zero,
		.x_row = p->n, .rows = rvl_least(2 * kc, p->k - 2 * k0), .n = n, .y = dst, .y_row = width,
	};

	rvl_f32_kernels()->bytes->pair(&b);
}

/* Takes the zero points of the columns off pairs. */
static void take_zeros(const struct product *p, int64_t at, int64_t first, int64_t n, int64_t kc,
		       int64_t width, float *dst)
{
	for (int64_t j = 0; j < n; j++) {
		int32_t z = (int32_t)zero_of(p->c, 3, first + j, p->n, p->n * p->k, at);
		int16_t *pair = (int16_t *)(void *)(dst + j);

		for (int64_t k = 0; k < kc; k++, pair += 2 * width) {
			pair[0] = (int16_t)(pair[0] - z);
			pair[1] = (int16_t)(pair[1] - z);
		}
	}
}

/*
 * Panels of the right operand, less the zero points. What is behind an odd k has no part in a sum,
 * because the left operand has zeros there.
 */
static void fill_bytes(const struct rvl_f32_source *s, int64_t at, int64_t first, int64_t n, int64_t k0,
		       int64_t kc, int width, float *mem, float *dst)
{
	const struct product *p = s->ctx;
	const uint8_t *x = (const uint8_t *)p->c->in[1].data + at, *packed = (const uint8_t *)p->c->packed;
	bool each = rvl_has(p->c, 3) && rvl_count(&p->c->in[3]) > 1;
	int32_t zero = each ? 0 : (int32_t)zero_of(p->c, 3, 0, p->n, p->n * p->k, at);

	(void)mem;
	if (packed)
		packed += at / (p->n * p->k) * packed_matrix(p);
	for (int64_t i = 0; i < n; i += width, dst += kc * width) {
		int64_t some = rvl_least(width, n - i);

		if (packed)
			widen_panels(p, packed, first + i, some, k0, kc, zero, width, dst);
		else
			pair_rows(p, x, first + i, some, k0, kc, zero, width, dst);
		if (each)
			take_zeros(p, at, first + i, some, kc, width, dst);
		for (int64_t k = 0; some < width && k < kc; k++)
			memset(dst + k * width + some, 0, (size_t)(width - some) * sizeof(*dst));
	}
}

static int64_t matrices_of(const struct product *p)
{
	int64_t each = p->n * p->k;

	return each ? rvl_count(&p->c->in[1]) / each : 0;
}

/* Where the matrices begin, the left one in pairs. */
static void locate_pairs(const void *ctx, int64_t batch, struct rvl_f32_place *at)
{
	const struct product *p = ctx;

	locate(ctx, batch, at);
	at->a = p->k ? at->a / p->k * pairs_of(p) : 0;
}

/* @a: the left operand as pairs */
static struct rvl_f32_job exact_job(const struct product *p, const float *a)
{
	struct rvl_f32_job j = {
		.f = rvl_f32_kernels(), .batches = rvl_shape_count(&p->batch), .m = p->m,
		.n = p->n, .k = p->k, .a = { .data = a, .k_step = p->ak, .step = p->am },
		.b = { .fill = fill_bytes, .fill_cost = RVL_F32_FILL_COST, .ctx = p },
		.locate = locate_pairs, .ctx = p, .exact = true, .sums = p->c->out[0].data, .y_row = p->n,
	};

	rvl_f32_merge(&j, rvl_count(&p->c->in[0]), rvl_count(&p->c->in[1]));
	j.k = j.a.step = pairs_of(p);
	return j;
}

struct left {
	const struct product *p;
	float *to;
};

/* Rows of the left operand, less their zero points. */
static void pair_left(void *arg, int64_t first, int64_t past)
{
	const struct left *l = arg;
	const struct product *p = l->p;

	for (int64_t r = first; r < past; r++) {
		int16_t *to = (int16_t *)(void *)(l->to + r * pairs_of(p));
		struct rvl_f32_bytes_call b = {
			.x = (const uint8_t *)p->c->in[0].data + r * p->k,
			.u8 = p->c->in[0].type == RVL_TYPE_U8, .rows = 1, .n = p->k, .y = to,
			.zero = (int32_t)zero_of(p->c, 2, r % p->m, p->m, p->m * p->k, r * p->k),
		};

		rvl_f32_kernels()->bytes->widen(&b);
		if (p->k % 2)
			to[p->k] = 0;
	}
}

static int64_t left_rows(const struct product *p)
{
	return p->k ? rvl_count(&p->c->in[0]) / p->k : 0;
}

static int64_t left_pairs(const struct product *p)
{
	return rvl_round_up(left_rows(p) * pairs_of(p), 16);
}

static void run_exact(const struct product *p)
{
	struct left l = { .p = p, .to = p->c->scratch };
	struct rvl_f32_job j = exact_job(p, l.to);

	rvl_for_range(p->c, left_rows(p), 1 + 4096 / (1 + p->k), pair_left, &l);
	rvl_f32_run(&j, l.to + left_pairs(p), p->c->pool);
}

/* ---- the same of few rows ---- */

/* Few rows use a byte of the right operand too seldom to convert it. */
static bool has_few_rows(const struct product *p)
{
	return p->m <= FEW_ROWS && rvl_shape_count(&p->batch) == 1;
}

struct few {
	const struct product *p;
	int16_t *left;		/* less the zero points */
	uint32_t total[FEW_ROWS];	/* of each row, modulo 2^32 */
};

static void read_left(struct few *f)
{
	const struct product *p = f->p;
	const struct rvl_value *a = &p->c->in[0];

	for (int64_t r = 0; r < p->m; r++) {
		int32_t zero = (int32_t)zero_of(p->c, 2, r, p->m, p->m * p->k, 0);

		f->total[r] = 0;
		for (int64_t k = 0; k < p->k; k++) {
			int32_t v = rvl_ld8(a->data, r * p->am + k * p->ak, a->type == RVL_TYPE_U8) - zero;

			f->left[r * p->k + k] = (int16_t)v;
			f->total[r] += (uint32_t)v;
		}
	}
}

/* Panels of columns, packed or where they lie. A sum begins with what the zero points take off. */
static void few_panels(void *arg, int64_t first, int64_t past)
{
	const struct few *f = arg;
	const struct product *p = f->p;
	int64_t panel = 2 * RVL_F32_PAIR_COLS * pairs_of(p), col = first * RVL_F32_PAIR_COLS;
	const uint8_t *packed = (const uint8_t *)p->c->packed, *x = p->c->in[1].data;
	struct rvl_f32_sum_call s = {
		.v = f->left, .v_row = p->k, .rows = p->m, .k = p->k,
		.w = packed ? packed + first * panel : x + col, .u8 = p->c->in[1].type == RVL_TYPE_U8,
		.w_row = p->n, .n = rvl_least(past * RVL_F32_PAIR_COLS, p->n) - col, .panel = packed ? panel : 0,
		.y = (uint32_t *)p->c->out[0].data + col, .y_row = p->n,
	};

	for (int64_t j = 0; j < s.n; j++) {
		uint32_t zero = (uint32_t)zero_of(p->c, 3, col + j, p->n, p->n * p->k, 0);

		for (int64_t r = 0; r < p->m; r++)
			s.y[r * s.y_row + j] = 0 - zero * f->total[r];
	}
	rvl_f32_kernels()->bytes->sum(&s);
}

static void run_few(const struct product *p)
{
	struct few f = { .p = p, .left = p->c->scratch };

	if (!p->m)
		return;
	read_left(&f);
	rvl_for_range(p->c, rvl_ceil_div(p->n, RVL_F32_PAIR_COLS),
		      1 + 65536 / (1 + p->m * p->k * RVL_F32_PAIR_COLS), few_panels, &f);
}

/* ---- the same by dot products of bytes ---- */

/* Whether a constant right matrix is packed by int8/sums.h. */
static bool is_dot(const struct product *p)
{
	return rvl_i8_has_sums() && p->c->in[1].shape.rank == 2 && p->k && rvl_i8_sums_channels(p->k) == p->k;
}

static struct rvl_i8_weights dot_weights(const struct product *p)
{
	const struct rvl_value *b = &p->c->in[1];

	return (struct rvl_i8_weights) {
		.data = b->data, .u8 = b->type == RVL_TYPE_U8, .n = p->n, .taps = 1, .channels = p->k,
		.n_step = p->bn, .channel_step = p->bk,
	};
}

static int64_t dot_bytes(const struct product *p)
{
	struct rvl_i8_weights w = dot_weights(p);

	return rvl_i8_sums_bytes(&w);
}

static void pack_dot(const struct product *p, void *dst)
{
	struct rvl_i8_weights w = dot_weights(p);

	rvl_i8_sums_pack(&w, dst);
}

struct dot {
	const struct product *p;
	struct rvl_i8_sums s;
	uint32_t *total;	/* of each row less its zero point, modulo 2^32; NULL: no column has a zero point */
};

/* The zero point of a column, of int8 as they are packed. */
static int32_t packed_zero(const struct product *p, int64_t col)
{
	bool u8 = p->c->in[1].type == RVL_TYPE_U8;

	return (int32_t)zero_of(p->c, 3, col, p->n, p->n * p->k, 0) - (u8 ? 128 : 0);
}

/* Whether an operand has more than one zero point. */
static bool has_zeros(const struct product *p, uint32_t input)
{
	return rvl_has(p->c, input) && rvl_count(&p->c->in[input]) > 1;
}

/* The zero point of row @row of the left operand. */
static int32_t left_zero(const struct product *p, int64_t row)
{
	return (int32_t)zero_of(p->c, 2, row % p->m, p->m, p->m * p->k, row * p->k);
}

/* The results of row @row, [col, col + n), from sums less the zero point of all rows. */
static void finish_dot(const struct dot *d, int64_t row, int64_t col, int64_t n, const int32_t *sum)
{
	const struct product *p = d->p;
	const int32_t *columns = rvl_i8_sums_columns(&d->s) + col;
	int32_t *y = (int32_t *)p->c->out[0].data + row * p->n + col;

	memcpy(y, sum, (size_t)n * sizeof(*y));
	for (int64_t j = 0; has_zeros(p, 2) && j < n; j++)
		y[j] = rvl_wrap_add(y[j], rvl_wrap_mul(-left_zero(p, row), columns[j]));
	for (int64_t j = 0; d->total && j < n; j++)
		y[j] = rvl_wrap_add(y[j], rvl_wrap_mul(-packed_zero(p, col + j), (int32_t)d->total[row]));
}

static void dot_range(void *arg, int64_t first, int64_t past)
{
	const struct dot *d = arg;
	const struct product *p = d->p;
	int64_t all = left_rows(p), nr = rvl_i8_sums_nr(), mr = rvl_i8_sums_mr();
	int32_t sums[RVL_I8_TILE] __attribute__((aligned(64)));
	const uint8_t *rows[RVL_I8_TILE];

	for (int64_t b = first; b < past; b++)
		for (int64_t r = 0; r < all; r += mr) {
			int64_t some = rvl_least(mr, all - r);

			for (int64_t i = 0; i < mr; i++)
				rows[i] = (const uint8_t *)p->c->in[0].data + (r + (i < some ? i : 0)) * p->k;
			rvl_i8_sums_tile(&d->s, b, rows, 1, (int)some, sums);
			for (int64_t i = 0; i < some; i++)
				finish_dot(d, r + i, b * nr, rvl_least(nr, p->n - b * nr), sums + i * nr);
		}
}

static void total_rows(const struct product *p, uint32_t *total)
{
	const struct rvl_value *a = &p->c->in[0];

	for (int64_t r = 0; r < left_rows(p); r++) {
		total[r] = 0 - (uint32_t)p->k * (uint32_t)left_zero(p, r);
		for (int64_t k = 0; k < p->k; k++)
			total[r] += (uint32_t)rvl_ld8(a->data, r * p->k + k, a->type == RVL_TYPE_U8);
	}
}

static void run_dot(const struct product *p)
{
	int64_t nr = rvl_i8_sums_nr();
	struct dot d = {
		.p = p,
		.s = {
			.packed = p->c->packed, .n = p->n, .k = p->k, .x_u8 = p->c->in[0].type == RVL_TYPE_U8,
		},
	};

	if (!left_rows(p))
		return;
	d.s.zero = has_zeros(p, 2) ? 0 : left_zero(p, 0);
	for (int64_t n = 0; n < (has_zeros(p, 3) ? p->n : 1) && !d.total; n++)
		if (packed_zero(p, n))
			d.total = p->c->scratch;
	if (d.total)
		total_rows(p, d.total);
	rvl_for_range(p->c, rvl_ceil_div(p->n, nr), 1 + 65536 / (1 + left_rows(p) * p->k * nr), dot_range, &d);
}

static int64_t product_scratch(const struct product *p)
{
	struct rvl_f32_job j;

	if (is_exact(p)) {
		j = exact_job(p, NULL);
		return left_pairs(p) * (int64_t)sizeof(float) + rvl_f32_scratch(&j);
	}
	if (p->c->in[0].type != RVL_TYPE_F32)
		return 0;
	j = float_job(p);
	return rvl_f32_scratch(&j);
}

static int run_product(struct product *p)
{
	int64_t rows = rvl_shape_count(&p->batch) * p->m;
	struct rvl_f32_job j;

	if (p->c->in[0].type == RVL_TYPE_F32) {
		j = float_job(p);
		rvl_f32_run(&j, p->c->scratch, p->c->pool);
		return 0;
	}
	if (is_exact(p)) {
		if (p->c->packed && is_dot(p))
			run_dot(p);
		else if (has_few_rows(p))
			run_few(p);
		else
			run_exact(p);
		return 0;
	}
	rvl_for_range(p->c, p->n ? rows : 0, 1 + 16384 / (1 + p->n * p->k), row_range, p);
	return 0;
}

static void convert_sums(const struct product *p, int64_t m, int64_t col, int64_t at, int64_t n,
			 const uint64_t *s)
{
	const struct rvl_value *y = &p->c->out[0];

	(void)m;
	(void)col;
	rvl_convert(y->type, (char *)y->data + (size_t)at * rvl_type_size(y->type), RVL_TYPE_U64, s,
		    n);
}

/* ---- MatMul, MatMulInteger, FusedMatMul ---- */

/* The dimensions of an operand before its matrix. */
static struct rvl_shape batch_of(const struct rvl_shape *s)
{
	struct rvl_shape b = *s;

	b.rank = s->rank > 2 ? s->rank - 2 : 0;
	return b;
}

/* Whether a fused product takes an operand with its last two dimensions exchanged. */
static bool transposed(const struct rvl_call *c, uint32_t input)
{
	return c->def->attrs && c->in[input].shape.rank > 1 &&
	       rvl_attr_int(c, input ? "transB" : "transA");
}

/* A vector is a row on the left and a column on the right. */
static int matmul_extent(struct rvl_call *c, struct product *p)
{
	const struct rvl_shape *a = &c->in[0].shape, *b = &c->in[1].shape;
	struct rvl_shape ba = batch_of(a), bb = batch_of(b);
	bool ta = transposed(c, 0), tb = transposed(c, 1);
	int64_t inner;

	if (!a->rank || !b->rank)
		return rvl_op_fail(c, "an operand is a scalar");
	p->c = c;
	p->finish = convert_sums;
	p->alpha = c->def->attrs ? rvl_attr_float(c, "alpha") : 1.0f;
	p->added = NULL;
	memset(p->added_stride, 0, sizeof(p->added_stride));
	p->m = a->rank > 1 ? a->dim[a->rank - 2 + ta] : 1;
	p->k = a->dim[a->rank - 1 - ta];
	inner = b->dim[b->rank > 1 ? b->rank - 2 + tb : 0];
	p->n = b->rank > 1 ? b->dim[b->rank - 1 - tb] : 1;
	if (p->k != inner)
		return rvl_op_fail(c, "inner dimensions %lld and %lld differ",
				   (long long)p->k, (long long)inner);
	if (rvl_shape_broadcast(&ba, &bb, &p->batch))
		return rvl_op_fail(c, "the dimensions before its matrices do not fit together");
	p->am = ta ? 1 : p->k;
	p->ak = ta ? p->m : 1;
	p->bk = tb ? 1 : p->n;
	p->bn = tb ? p->k : 1;
	rvl_broadcast_strides(&ba, &p->batch, p->a_stride);
	rvl_broadcast_strides(&bb, &p->batch, p->b_stride);
	for (int i = 0; i < p->batch.rank; i++) {
		p->a_stride[i] *= p->m * p->k;
		p->b_stride[i] *= p->k * p->n;
	}
	return 0;
}

static int infer_matmul(struct rvl_call *c)
{
	struct product p;
	struct rvl_shape s;

	if (c->def->attrs && (rvl_attr_int(c, "transBatchA") || rvl_attr_int(c, "transBatchB")))
		return rvl_op_fail(c, "attributes transBatchA and transBatchB are not supported");
	if (matmul_extent(c, &p))
		return -EINVAL;
	s = p.batch;
	if (c->in[0].shape.rank > 1)
		s.dim[s.rank++] = p.m;
	if (c->in[1].shape.rank > 1)
		s.dim[s.rank++] = p.n;
	rvl_set_out(c, 0, c->in[0].type, &s);
	return 0;
}

static int64_t work_matmul(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct product p;

	return matmul_extent(&copy, &p) ? INT64_MAX : rvl_work(rvl_count(&c->out[0]), p.k);
}

static int64_t scratch_matmul(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct product p;

	return matmul_extent(&copy, &p) ? 0 : product_scratch(&p);
}

static int run_matmul(struct rvl_call *c)
{
	struct product p;

	return matmul_extent(c, &p) ? -EINVAL : run_product(&p);
}

/* A zero point for the tensor, for each row (column) of a matrix, or for those of all matrices. */
static int check_zero(struct rvl_call *c, uint32_t input, int64_t each)
{
	int64_t n = rvl_has(c, input) ? rvl_count(&c->in[input]) : 1;
	struct rvl_shape batch = batch_of(&c->in[input - 2].shape);

	if (!rvl_has(c, input))
		return 0;
	if (c->in[input].type != c->in[input - 2].type)
		return rvl_op_fail(c, "its input %u is %s, input %u %s", input,
				   rvl_type_name(c->in[input].type), input - 2,
				   rvl_type_name(c->in[input - 2].type));
	if (n != 1 && n != each && n != rvl_shape_count(&batch) * each)
		return rvl_op_fail(c, "its input %u has %lld zero points, not 1 or %lld", input,
				   (long long)n, (long long)each);
	return 0;
}

/* Floats that hold the bytes of the right operand, where they are constant. */
static int64_t packed_matmul_integer(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct product p;

	if (!c->in[1].data || matmul_extent(&copy, &p))
		return 0;
	p.c = c;
	return rvl_ceil_div(is_dot(&p) ? dot_bytes(&p) : matrices_of(&p) * packed_matrix(&p),
			    (int64_t)sizeof(float));
}

static void pack_matmul_integer(const struct rvl_call *c, float *dst)
{
	struct rvl_call copy = *c;
	struct product p;
	const uint8_t *x = c->in[1].data;
	uint8_t *to = (uint8_t *)dst;

	if (matmul_extent(&copy, &p))
		return;
	if (is_dot(&p)) {
		pack_dot(&p, dst);
		return;
	}
	for (int64_t m = matrices_of(&p); m > 0; m--, x += p.k * p.n, to += packed_matrix(&p))
		rvl_f32_pack_pairs(x, p.k, p.n, to);
}

static int infer_matmul_integer(struct rvl_call *c)
{
	struct product p;

	if (infer_matmul(c) || matmul_extent(c, &p) || check_zero(c, 2, p.m) ||
	    check_zero(c, 3, p.n))
		return -EINVAL;
	c->out[0].type = RVL_TYPE_S32;
	return 0;
}

/* ---- Gemm ---- */

static int gemm_extent(struct rvl_call *c, struct product *p)
{
	const struct rvl_shape *a = &c->in[0].shape, *b = &c->in[1].shape;
	int ta = rvl_attr_int(c, "transA") != 0, tb = rvl_attr_int(c, "transB") != 0;

	if (a->rank != 2 || b->rank != 2)
		return rvl_op_fail(c, "its operands are not matrices (rank %d and %d)", a->rank,
				   b->rank);
	*p = (struct product) {
		.c = c, .m = a->dim[ta], .k = a->dim[!ta], .n = b->dim[!tb],
		.alpha = rvl_attr_float(c, "alpha"), .beta = rvl_attr_float(c, "beta"),
	};
	if (p->k != b->dim[tb])
		return rvl_op_fail(c, "inner dimensions %lld and %lld differ",
				   (long long)p->k, (long long)b->dim[tb]);
	p->am = ta ? 1 : p->k;
	p->ak = ta ? p->m : 1;
	p->bk = tb ? 1 : p->n;
	p->bn = tb ? p->k : 1;
	p->added = rvl_has(c, 2) ? &c->in[2] : NULL;
	return 0;
}

static int infer_gemm(struct rvl_call *c)
{
	struct product p;
	struct rvl_shape s, y;

	if (gemm_extent(c, &p))
		return -EINVAL;
	y = (struct rvl_shape) { .rank = 2, .dim = { p.m, p.n } };
	if (rvl_has(c, 2) && (rvl_shape_broadcast(&c->in[2].shape, &y, &s) ||
			      !rvl_shape_equal(&s, &y)))
		return rvl_op_fail(c, "its input 2 does not broadcast to %lld x %lld",
				   (long long)p.m, (long long)p.n);
	rvl_set_out(c, 0, c->in[0].type, &y);
	return 0;
}

/* Distances of rows and columns of input 2, broadcast to the result. */
static void bias_strides(struct product *p)
{
	const struct rvl_shape y = { .rank = 2, .dim = { p->m, p->n } };

	if (p->added)
		rvl_broadcast_strides(&p->added->shape, &y, p->added_stride);
}

static void add_bias(const struct product *p, int64_t m, int64_t col, int64_t at, int64_t n,
		     const uint64_t *s)
{
	const struct rvl_value *c = p->added, *y = &p->c->out[0];
	double alpha = (double)p->alpha, beta = (double)p->beta;
	size_t size = rvl_type_size(y->type);

	for (int64_t j = 0; j < n; j++) {
		int64_t from = m * p->added_stride[0] + (col + j) * p->added_stride[1];
		char *to = (char *)y->data + (size_t)(at + j) * size;
		double v = alpha * (rvl_class_of(y->type) == RVL_CLASS_S64 ? (double)(int64_t)s[j] :
				    (double)s[j]);
		uint64_t u = s[j];

		if (c)
			v += beta * rvl_element(c->type, c->data, from);
		if (c)
			u += (uint64_t)rvl_element_int(c->type, c->data, from);
		if (alpha != 1.0 || beta != 1.0)
			rvl_convert(y->type, to, RVL_TYPE_F64, &v, 1);
		else
			rvl_convert(y->type, to, RVL_TYPE_U64, &u, 1);
	}
}

static int64_t work_gemm(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct product p;

	return gemm_extent(&copy, &p) ? INT64_MAX : rvl_work(rvl_count(&c->out[0]), p.k);
}

static int64_t scratch_gemm(const struct rvl_call *c)
{
	struct rvl_call copy = *c;
	struct product p;

	return gemm_extent(&copy, &p) ? 0 : product_scratch(&p);
}

static int run_gemm(struct rvl_call *c)
{
	struct product p;

	if (gemm_extent(c, &p))
		return -EINVAL;
	p.finish = add_bias;
	bias_strides(&p);
	return run_product(&p);
}

/* ---- descriptors ---- */

#define GEMM(opset, least, ...) { \
	.name = "Gemm", .since = (opset), .work = work_gemm, \
	.least_in = (least), .most_in = 3, \
	.types = { RVL_T_NUMBER }, .same = RVL_SAME_ALL, \
	.attrs = RVL_ATTRS(RVL_FLOAT("alpha", 1.0f), RVL_FLOAT("beta", 1.0f), \
			   RVL_INT("transA", 0), RVL_INT("transB", 0), ##__VA_ARGS__), \
	.infer = infer_gemm, .run = run_gemm, .kernel = RVL_OP_GEMM, .scratch = scratch_gemm, \
	.doc = "alpha * op(A) * op(B) + beta * C" }

#define FUSED_MATMUL(op) { \
	.name = op, .domain = "com.microsoft", .since = 1, .work = work_matmul, \
	.least_in = 2, .most_in = 2, \
	.types = { RVL_T_FLOAT }, .same = RVL_SAME_ALL, \
	.attrs = RVL_ATTRS(RVL_FLOAT("alpha", 1.0f), RVL_FLAG("transA", 0), RVL_FLAG("transB", 0), \
			   RVL_FLAG("transBatchA", 0), RVL_FLAG("transBatchB", 0)), \
	.infer = infer_matmul, .run = run_matmul, .scratch = scratch_matmul, \
	.doc = "alpha * op(A) * op(B), batched" }
#define T_BYTE (RVL_T(S8) | RVL_T(U8))

const struct rvl_op_def rvl_ops_matrix[] = {
	{ .name = "MatMul", .since = 1, .work = work_matmul,
	  .least_in = 2, .most_in = 2, .types = { RVL_T_NUMBER },
	  .same = RVL_SAME_ALL, .infer = infer_matmul, .run = run_matmul, .kernel = RVL_OP_MATMUL,
	  .scratch = scratch_matmul, .doc = "matrix product, batched with broadcasting" },
	{ .name = "MatMulInteger", .since = 10, .work = work_matmul,
	  .least_in = 2, .most_in = 4,
	  .types = { T_BYTE, T_BYTE, T_BYTE, T_BYTE }, .infer = infer_matmul_integer,
	  .run = run_matmul, .scratch = scratch_matmul, .packed = packed_matmul_integer,
	  .pack = pack_matmul_integer, .doc = "int32 product of 8-bit matrices less their zero points" },
	FUSED_MATMUL("FusedMatMul"),
	FUSED_MATMUL("TransposeMatMul"),
	GEMM(1, 3, RVL_IGNORED("broadcast")),
	GEMM(7, 3),
	GEMM(11, 2),
	RVL_OPS_END
};

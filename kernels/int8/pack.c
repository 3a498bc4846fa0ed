/* SPDX-License-Identifier: MIT */
/* Packs weights in the order of the micro-kernels. */
#include <string.h>

#include "int8/product.h"
#include "isa.h"
#include "qmath.h"
#include "sizes.h"

struct rvl_i8_post rvl_i8_post(int32_t lo, int32_t hi, int32_t zp, bool u8)
{
	return (struct rvl_i8_post) {
		.lo = (float)(lo - zp), .hi = (float)(hi - zp), .zp = zp, .least = lo, .most = hi,
		.clamps = lo > (u8 ? 0 : INT8_MIN) || hi < (u8 ? UINT8_MAX : INT8_MAX), .u8 = u8,
	};
}

#define SIDE 32	/* columns that are looked at side by side */
#define WIDE_TILES 4	/* least tiles of rows that are copied as int16 */
#define CACHED_WEIGHTS (512 << 10)	/* bytes that stay in the second-level cache */

static int64_t planes_of_columns(const struct rvl_i8_source *s, int64_t first, int64_t past)
{
	int64_t planes = 1;

	for (int64_t t = 0; t < s->taps; t++) {
		for (int64_t c = 0; c < s->kc; c++) {
			for (int64_t n = first; n < past; n++) {
				int32_t w = s->weight(s->ctx, n, t, c);
				int64_t need = w > 254 ? 3 : w > 127 || w < -128 ? 2 : 1;

				planes = need > planes ? need : planes;
			}
		}
	}
	return planes;
}

static int64_t planes_of(const struct rvl_i8_source *s, bool wide)
{
	int64_t planes = 1, columns = s->groups * s->n;

	if (wide)
		return 1;
	for (int64_t n = 0; n < columns && planes < 3; n += SIDE) {
		int64_t past = columns - n < SIDE ? columns : n + SIDE;
		int64_t need = planes_of_columns(s, n, past);

		planes = need > planes ? need : planes;
	}
	return planes;
}

/* The part of @w that is in plane @plane. */
static int8_t part(int32_t w, int64_t plane)
{
	while (plane-- > 0)
		w -= rvl_clamp(w, -128, 127);
	return (int8_t)rvl_clamp(w, -128, 127);
}

/* The input of a row that is channel @c under kernel position @tap of plane @plane. */
static int64_t input(const struct rvl_i8_mat *m, int64_t plane, int64_t tap, int64_t c)
{
	return (plane * m->positions + tap) * (m->gathers ? m->channels : m->kc) + c;
}

/* The position in a block of that input for the first column. Taps are whole steps of the kernel. */
static int64_t place(const struct rvl_i8_mat *m, int64_t plane, int64_t tap, int64_t c)
{
	int64_t k = input(m, plane, tap, c);

	return k / m->f->kr * m->f->nr * m->f->kr + k % m->f->kr;
}

/* The zero point as the kernels see it. */
static int32_t seen_zero(const struct rvl_i8_mat *m, const struct rvl_qparams *q)
{
	return q->xz + m->f->offset[q->x_u8] - m->less;
}

static int32_t corrected_bias(const struct rvl_i8_mat *m, const struct rvl_qparams *q, int64_t n,
			      int32_t sum)
{
	return rvl_wrap_add(q->bias ? q->bias[n] : 0, rvl_wrap_mul(-seen_zero(m, q), sum));
}

/* Stores the part of the weight @v that is in plane @plane. */
static void store(const struct rvl_i8_mat *m, int64_t at, int32_t v, int64_t plane)
{
	if (m->wide)
		((int16_t *)m->w)[at] = (int16_t)v;
	else
		((int8_t *)m->w)[at] = part(v, plane);
}

/* The bits of a weight of column @column, as tables.h has them. */
static void pack_bits(const struct rvl_i8_mat *m, int64_t block, int64_t column, int64_t k, int32_t v)
{
	uint8_t *code = (uint8_t *)m->w + block * rvl_i8_block_bytes(m) + k / 8 * m->f->nr + column;

	for (int bit = 0; bit < m->bits; bit++, code += m->taps * m->kc / 8 * m->f->nr)
		*code |= (uint8_t)(((uint32_t)v >> bit & 1) << k % 8);
}

static void pack_weight(const struct rvl_i8_mat *m, int64_t block, int64_t column, int64_t tap,
			int64_t c, int32_t v)
{
	int64_t at = block * m->taps * m->kc * m->f->nr + column * m->f->kr;

	if (m->bits) {
		pack_bits(m, block, column, input(m, 0, tap, c), v);
		return;
	}
	for (int64_t plane = 0; plane < m->planes; plane++)
		store(m, at + place(m, plane, tap, c), v, plane);
}

/*
 * Packs the columns from @first on, of all groups, into block @block. The columns are inside, because
 * those of a matrix [k, n] lie side by side. The place of the bias has the sum of a column's weights.
 */
static void pack_block(struct rvl_i8_mat *m, const struct rvl_i8_source *s,
		       const struct rvl_qparams *q, int64_t block, int64_t first, int64_t columns)
{
	int32_t *sum = m->bias + block * m->f->nr;

	memset(sum, 0, (size_t)columns * sizeof(*sum));
	for (int64_t t = 0; t < s->taps; t++) {
		for (int64_t c = 0; c < s->kc; c++) {
			for (int64_t j = 0; j < columns; j++) {
				int32_t v = s->weight(s->ctx, first + j, t, c);

				pack_weight(m, block, j, t, c, v);
				sum[j] = rvl_wrap_add(sum[j], v);
			}
		}
	}
	for (int64_t j = 0; j < columns; j++) {
		sum[j] = corrected_bias(m, q, first + j, sum[j]);
		m->scale[block * m->f->nr + j] = q->scale[first + j];
	}
}

static void pack_columns(struct rvl_i8_mat *m, const struct rvl_i8_source *s,
			 const struct rvl_qparams *q)
{
	int64_t nr = m->f->nr;

	for (int64_t g = 0; g < m->groups; g++)
		for (int64_t b = 0; b < m->blocks; b++)
			pack_block(m, s, q, g * m->blocks + b, g * m->n + b * nr,
				   m->n - b * nr < nr ? m->n - b * nr : nr);
}

/* ---- quads ---- */

#define SORTED_COLUMNS 128	/* least columns for which sorting the rows takes less time than it saves */
#define SORTED_BLOCK (32 << 10)	/* bytes of a tile of rows and a block of columns, of the first-level cache */
#define SORTED_WEIGHTS (256 << 10)	/* bytes of weights, of the second-level cache */
#define BELOW_ZERO 64	/* values less than the zero point that may be narrow */

/*
 * Whether the rows are sorted into quads: their groups must be whole. Each kind of quad is a pass over rows
 * and weights with gaps, which is slower than one pass over all if they come from a cache farther away.
 * Within SORTED_BLOCK, places fit 16 bits.
 */
static bool sorts(const struct rvl_i8_mat *m, const struct rvl_i8_source *s)
{
	const struct rvl_i8_kernels *f = m->f->bytes;
	int64_t k = s->taps * s->kc;

	return f && !m->floats && m->widens && m->planes == 1 && !s->scattered && !s->tiled && s->kc && !(s->kc % f->group) &&
	       s->n >= SORTED_COLUMNS && k * s->n <= SORTED_WEIGHTS &&
	       k * (f->mr * f->widened + f->nr) <= SORTED_BLOCK;
}

/* Whether the channels of a tap are not adjacent, or do not fill the steps of the kernel. */
static bool gathers_rows(const struct rvl_i8_kernels *f, const struct rvl_i8_source *s)
{
	return s->scattered || !s->kc || s->kc % f->kr;
}

/*
 * Rows of int8 are copied as uint8 if that takes less time than to convert each step for every block of columns.
 * Products of few rows of int16 are limited by the memory of the weights, and a copy of a row has few uses.
 */
static bool copies_rows(const struct rvl_i8_kernels *f, const struct rvl_i8_source *s, bool x_u8)
{
	if (f->widened == 1)
		return !x_u8 && s->kc * (gathers_rows(f, s) ? s->taps : 1) >= f->least_run;
	return f->widen && s->rows >= (int64_t)f->mr * WIDE_TILES;
}

/*
 * Changes to kernels that multiply bytes, if there are some for this product: those for split weights, whose time
 * does not depend on the activations, or those that sort quads. To these, values around the zero point are narrow:
 * those that are not less, and with the zero point in the middle of its range, those less by up to BELOW_ZERO.
 */
static void choose_bytes(struct rvl_i8_mat *m, const struct rvl_i8_source *s, const struct rvl_qparams *q)
{
	bool sorted = sorts(m, s);

	if (rvl_i8_splits(m, s, sorted)) {
		m->f = m->f->split;
		m->widens = copies_rows(m->f, s, m->x_u8);
	} else if (sorted) {
		m->f = m->f->bytes;
		m->less = rvl_clamp(q->xz + m->f->offset[q->x_u8] - BELOW_ZERO, 0, RVL_I8_MOST_LESS);
	}
}

/* @n times @size bytes of weights. */
static int allocate(struct rvl_kernel *k, struct rvl_i8_mat *m, int64_t n, int64_t size, int64_t columns)
{
	m->w = rvl_kernel_mem(k, n, (size_t)size);
	m->bias = rvl_kernel_mem(k, columns, sizeof(*m->bias));
	m->scale = rvl_kernel_mem(k, columns, sizeof(*m->scale));
	return m->w && m->bias && m->scale ? 0 : -ENOMEM;
}

/* Whether no sum times its scale reaches 2^31. */
static bool are_bounded(const float *scale, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (!(fabsf(scale[i]) <= 0.5f))
			return false;
	return true;
}

static struct rvl_i8_mat *new_mat(struct rvl_kernel *k, const struct rvl_i8_kernels *f,
				  const struct rvl_i8_source *s, const struct rvl_qparams *q, bool wide)
{
	struct rvl_i8_mat *m = rvl_kernel_mem(k, 1, sizeof(*m));

	if (!m)
		return NULL;
	*m = (struct rvl_i8_mat) {
		.f = f, .groups = s->groups, .n = s->n, .wide = wide,
		.positions = s->taps, .channels = s->kc, .x_u8 = q->x_u8, .floats = q->floats,
		.post = rvl_i8_post(q->lo, q->hi, q->yz, q->y_u8),
	};
	m->post.bounded = are_bounded(q->scale, s->groups * s->n);
	return m;
}

/* The bits that hold all weights, or more than @most. */
static int bits_of(const struct rvl_i8_source *s, int most, bool *is_signed)
{
	int32_t least = 0, greatest = 0;
	int bits = 1;

	for (int64_t n = 0; n < s->groups * s->n; n++)
		for (int64_t t = 0; t < s->taps; t++)
			for (int64_t c = 0; c < s->kc; c++) {
				int32_t v = s->weight(s->ctx, n, t, c);

				least = v < least ? v : least;
				greatest = v > greatest ? v : greatest;
				*is_signed = least < 0;
				while (-least > 1 << (bits - 1) || greatest >= 1 << (bits - *is_signed))
					if (++bits > most)
						return bits;
			}
	return bits;
}

static enum rvl_i8_rows rows_of(const struct rvl_i8_source *s)
{
	if (s->rows > 1)
		return RVL_I8_SEVERAL_ROWS;
	return s->groups * s->n * s->taps * s->kc > CACHED_WEIGHTS ? RVL_I8_ONE_ROW_LARGE : RVL_I8_ONE_ROW;
}

/*
 * The kernels for weights of the source, and their bits if these look them up in tables: where that
 * measured faster (make bench-ibtf-cpu), because the tables of a row serve enough columns.
 */
static const struct rvl_i8_kernels *kernels_for(const struct rvl_i8_source *s, bool floats, int *bits,
						bool *is_signed)
{
	const struct rvl_i8_kernels *f = rvl_i8_kernels();
	bool always = rvl_tables() == RVL_TABLES_ALWAYS;
	int most = always ? RVL_TABLES_BITS : f->table_bits[rows_of(s)];

	*bits = 0;
	if (floats || !f->tables || !most || rvl_tables() == RVL_TABLES_OFF ||
	    (!always && (s->n < RVL_TABLES_COLUMNS || s->taps * s->kc < RVL_TABLES_INPUTS)))
		return f;
	*bits = bits_of(s, most, is_signed);
	if (*bits <= most)
		return f->tables;
	*bits = 0;
	return f;
}

struct rvl_i8_mat *rvl_i8_pack(struct rvl_kernel *k, const struct rvl_i8_source *s,
			       const struct rvl_qparams *q)
{
	bool is_signed = false;
	int bits;
	const struct rvl_i8_kernels *f = kernels_for(s, q->floats, &bits, &is_signed);
	struct rvl_i8_mat *m = new_mat(k, f, s, q, false);
	int64_t columns;

	if (!m)
		return NULL;
	m->bits = bits;
	m->is_signed = is_signed;
	m->planes = bits ? 1 : planes_of(s, false);
	m->widens = bits || copies_rows(m->f, s, m->x_u8);
	if (!bits)
		choose_bytes(m, s, q);
	m->gathers = gathers_rows(m->f, s);
	m->taps = m->gathers ? 1 : m->planes * s->taps;
	m->kc = m->gathers ? rvl_round_up(m->planes * s->taps * s->kc, m->f->kr) : s->kc;
	if (!m->kc)	/* a sum of nothing still reads a step of zeros */
		m->kc = m->f->kr;
	m->blocks = (s->n + m->f->nr - 1) / m->f->nr;
	columns = m->groups * m->blocks * m->f->nr;
	if (allocate(k, m, m->groups * m->blocks, rvl_i8_block_bytes(m), columns))
		return NULL;
	pack_columns(m, s, q);
	if (m->f == f->split && rvl_i8_split(k, m))
		return NULL;
	return m;
}

/* ---- depthwise ---- */

/*
 * Kernels that take two taps at a time: pairs of the first two rows, column by column, then of the last row
 * (left, middle), (right, none), and once more for windows that begin with the second one of a pair: (none,
 * left), (middle, right).
 */
const struct rvl_i8_slide rvl_i8_slide_pairs = {
	.tap = (const int8_t []) { 0, 3, 1, 4, 2, 5, 6, 7, 8, -1, -1, 6, 7, 8 }, .taps = 14, .repeated = 4,
};

/* Four taps at a time: a column, and none. */
const struct rvl_i8_slide rvl_i8_slide_dot = {
	.tap = (const int8_t []) { 0, 3, 6, -1, 1, 4, 7, -1, 2, 5, 8, -1 }, .taps = 12,
};

/* The weight of position @t, in the order in which the kernel reads the taps. */
static int32_t weight_at(const struct rvl_i8_mat *m, const struct rvl_i8_source *s, int64_t channel, int64_t t)
{
	int64_t tap = m->slide ? m->slide->tap[t] : t;

	return tap < 0 ? 0 : s->weight(s->ctx, channel, tap, 0);
}

static void pack_channel(struct rvl_i8_mat *m, const struct rvl_i8_source *s,
			 const struct rvl_qparams *q, int64_t at, int64_t channel)
{
	int64_t nr = m->dw->nr, kr = m->dw->kr;
	int64_t w = at / nr * nr * m->taps + at % nr * kr;
	int64_t once = m->positions - (m->slide ? m->slide->repeated : 0);
	int32_t sum = 0;

	for (int64_t t = 0; t < m->positions; t++) {
		int32_t v = weight_at(m, s, channel, t);

		for (int64_t plane = 0; plane < m->planes; plane++) {
			int64_t tap = plane * m->positions + t;

			store(m, w + tap / kr * nr * kr + tap % kr, v, plane);
		}
		sum = rvl_wrap_add(sum, t < once ? v : 0);
	}
	m->bias[at] = corrected_bias(m, q, channel, sum);
	m->scale[at] = q->scale[channel];
}

struct rvl_i8_mat *rvl_i8_pack_dw(struct rvl_kernel *k, const struct rvl_i8_source *s,
				  const struct rvl_qparams *q, bool *fits)
{
	const struct rvl_i8_kernels *f = rvl_i8_kernels();
	struct rvl_i8_mat *m = new_mat(k, f, s, q, f->widened == sizeof(int16_t));
	int64_t nr, columns;

	*fits = true;
	if (!m)
		return NULL;
	m->planes = planes_of(s, m->wide);
	m->dw = f->dw;
	if (s->slides && m->planes == 1)
		m->slide = m->dw->slide;
	if (m->slide)
		m->positions = m->slide->taps;
	nr = m->dw->nr;
	m->taps = rvl_round_up(m->planes * m->positions, m->dw->kr);
	*fits = m->taps <= RVL_I8_DW_TAPS;
	columns = rvl_round_up(s->n, nr);
	if (!*fits || allocate(k, m, columns * m->taps, m->wide ? 2 : 1, columns))
		return NULL;
	for (int64_t at = 0; at < columns; at++) {
		int64_t channel = at / nr * nr + rvl_i8_dw_channel(m->dw, (int)(at % nr));

		if (channel < s->n)
			pack_channel(m, s, q, at, channel);
	}
	return m;
}

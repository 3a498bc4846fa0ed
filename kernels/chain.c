/* SPDX-License-Identifier: MIT */
/*
 * Reads chains of operators, and runs those on images. These are computed stripe by stripe: some rows of
 * the last result, and before them those rows of each result between the operators that they need. A
 * result between the operators has only the rows in memory that are still read, so that they stay in the
 * second-level cache. Rows that the next stripe reads again move to the front of that memory; none is
 * computed twice, except where threads begin. The bits are those of the operators one after the other.
 *
 * A quantisation in front is no link: the first convolution does it as it reads its image.
 */
#include <string.h>

#include "chain.h"
#include "qmath.h"
#include "rows.h"
#include "sizes.h"

#define MAX_BANDS 4	/* parts of the image that threads compute */
#define MOST_ROWS (1 << 20)	/* that a stripe needs of an image */
#define MOST_HEIGHT 64	/* rows of a stripe */
#define MOST_STRIDE 1024	/* of all operators together */

/* ---- bytes of a descriptor ---- */

struct packed_link {
	uint32_t size;		/* of the descriptor behind it, rounded up to 8 */
	uint32_t n_in;
	uint32_t in[RVL_CHAIN_IN];
	uint32_t rsvd;
};

int64_t rvl_chain_pack(const struct rvl_chain_part *parts, uint32_t n, void *buf, size_t size)
{
	int64_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct packed_link h = { .n_in = parts[i].d->n_in };
		int64_t bytes = rvl_desc_pack(parts[i].d, NULL, 0), whole = rvl_round_up(bytes, 8);

		if (bytes < 0)
			return bytes;
		h.size = (uint32_t)whole;
		memcpy(h.in, parts[i].in, sizeof(h.in));
		if (buf && at + (int64_t)sizeof(h) + whole <= (int64_t)size) {
			memcpy((char *)buf + at, &h, sizeof(h));
			memset((char *)buf + at + sizeof(h), 0, (size_t)whole);
			rvl_desc_pack(parts[i].d, (char *)buf + at + sizeof(h), (size_t)bytes);
		}
		at += (int64_t)sizeof(h) + whole;
	}
	return at;
}

static bool same_operand(const struct rvl_kernel_arg *a, const struct rvl_kernel_arg *b)
{
	return a->type == b->type && a->layout == b->layout && rvl_shape_equal(&a->shape, &b->shape);
}

/* The number of the operator that is read next, for error messages. */
static uint32_t number(const struct rvl_chain *c)
{
	return c->n + c->front.exists;
}

/* Gives operand @i of operator @d the place that the chain knows for it, @a. */
static int resolve(const struct rvl_kernel *k, const struct rvl_kernel_arg *a, uint32_t i,
		   struct rvl_kernel_desc *d, char *why)
{
	struct rvl_kernel_arg *to = &d->in[i];

	if (!a || !same_operand(a, to))
		return rvl_why(why, "operand %u of operator %u is not what the chain has", i, number(k->chain));
	to->data = a->data;
	to->pitched = a->pitched;
	memcpy(to->pitch, a->pitch, sizeof(to->pitch));
	return 0;
}

/* What operand @from is, or NULL. */
static const struct rvl_kernel_arg *operand(const struct rvl_kernel *k, uint32_t from)
{
	uint32_t made = from - RVL_CHAIN_MADE;

	if (from < k->d.n_in)
		return &k->d.in[from];
	return from >= RVL_CHAIN_MADE && made < k->chain->n ? &k->chain->link[made].y : NULL;
}

/* Whether the kernel computes rows of an image in NHWC. */
static bool joins(const struct rvl_kernel *k)
{
	const struct rvl_kernel_arg *y = &k->d.out[0];

	return k->rows && y->shape.rank == 4 && y->layout == RIVULET_LAYOUT_NHWC;
}

static bool of_elements(const struct rvl_kernel *k)
{
	return k->d.out[0].layout == RIVULET_LAYOUT_PLAIN && !k->chain->front.exists;
}

/* Whether an operator behind a quantisation is all that the chain has. */
static bool is_alone(const struct rvl_chain *c)
{
	return c->front.exists && c->n == 1;
}

/* ---- a quantisation in front ---- */

/* Its own kernel checks the operator, and computes nothing. */
static int add_front(struct rvl_kernel *k, const struct packed_link *h, struct rvl_kernel_desc *d, char *why)
{
	struct rvl_chain_front *f = &k->chain->front;
	bool u8 = d->out[0].type == RVL_TYPE_U8;
	struct rvl_kernel *alone;
	int rc = 0;

	if (d->n_in != 3 || h->n_in != 3 || d->n_out != 1)
		return rvl_why(why, "not a quantisation with a scale and a zero point");
	for (uint32_t i = 0; i < d->n_in && !rc; i++)
		rc = resolve(k, operand(k, h->in[i]), i, d, why);
	if (!rc)
		rc = rvl_kernel_new(d, false, &alone, why);
	if (rc)
		return rc;
	rvl_kernel_free(alone);
	if (d->in[0].type != RVL_TYPE_F32 || d->in[0].layout != RIVULET_LAYOUT_PLAIN || d->in[0].pitched ||
	    d->out[0].layout != RIVULET_LAYOUT_PLAIN || rvl_shape_count(&d->in[1].shape) != 1 || !d->in[1].data ||
	    !d->in[2].data)
		return rvl_why(why, "not a quantisation of an image of floats by constants");
	*f = (struct rvl_chain_front) {
		.exists = true, .in = h->in[0], .y = d->out[0],
		.q = {
			.scale = *(const float *)d->in[1].data, .zp = rvl_ld8(d->in[2].data, 0, u8),
			.lo = rvl_qmin(u8), .hi = rvl_qmax(u8),
		},
	};
	return 0;
}

/* Numbers results as if the front were no operator. Returns whether the operator reads the front. */
static bool skip_front(struct rvl_chain *c, struct rvl_chain_link *l, uint32_t n_in)
{
	bool reads = c->front.exists && l->in[0] == RVL_CHAIN_MADE;

	for (uint32_t i = 0; i < n_in && c->front.exists; i++)
		l->in[i] -= l->in[i] >= RVL_CHAIN_MADE;
	if (reads)
		l->in[0] = c->front.in;
	return reads;
}

/* Only a first convolution reads the front, as its image. */
static int read_front(struct rvl_kernel *k, struct rvl_kernel_desc *d, char *why)
{
	if (k->chain->n || d->op != RVL_OP_Q_CONV)
		return rvl_why(why, "operator %u does not quantise its operand", number(k->chain));
	d->quantise = &k->chain->front.q;
	return resolve(k, &k->chain->front.y, 0, d, why);
}

/* ---- the operators ---- */

/* Makes the kernel of the next link. The last one writes where the chain does. */
static int add_link(struct rvl_kernel *k, const struct packed_link *h, struct rvl_kernel_desc *d,
		    bool last, char *why)
{
	struct rvl_chain *c = k->chain;
	struct rvl_chain_link *l = &c->link[c->n];
	bool reads;
	int rc;

	memcpy(l->in, h->in, sizeof(l->in));
	if (d->n_in != h->n_in || d->n_in > RVL_CHAIN_IN || d->n_out != 1 || d->op == RVL_OP_CHAIN)
		return rvl_why(why, "operator %u cannot be in a chain", number(c));
	reads = skip_front(c, l, d->n_in);
	rc = reads ? read_front(k, d, why) : 0;
	for (uint32_t i = reads; i < d->n_in && !rc; i++)
		rc = d->in[i].type ? resolve(k, operand(k, l->in[i]), i, d, why) : 0;
	if (rc)
		return rc;
	if (last && !same_operand(&d->out[0], &k->d.out[0]))
		return rvl_why(why, "the last result is not that of the chain");
	if (last) {
		d->out[0].pitched = k->d.out[0].pitched;
		memcpy(d->out[0].pitch, k->d.out[0].pitch, sizeof(d->out[0].pitch));
	}
	l->y = d->out[0];
	rc = of_elements(k) ? rvl_chain_element_link(k, l, d, why) : rvl_kernel_new(d, false, &l->k, why);
	if (rc)
		return rc;
	k->mem_bytes += rvl_kernel_bytes(l->k);
	c->n++;
	return of_elements(k) || joins(l->k) || (last && is_alone(c)) ? 0 :
	       rvl_why(why, "operator %u does not compute rows", number(c) - 1);
}

static int read_links(struct rvl_kernel *k, char *why)
{
	const uint8_t *p = k->d.parts;
	size_t left = k->d.parts_size;
	int rc = 0;

	while (left && !rc) {
		struct rvl_kernel_desc d;
		struct packed_link h;

		if (k->chain->n == RVL_CHAIN_MAX || left < sizeof(h))
			return rvl_why(why, "the chain is damaged");
		memcpy(&h, p, sizeof(h));
		p += sizeof(h);
		left -= sizeof(h);
		if (h.rsvd || h.size > left || h.size % 8 || rvl_desc_unpack(p, h.size, &d))
			return rvl_why(why, "the chain is damaged");
		p += h.size;
		left -= h.size;
		if (d.op == RVL_OP_QUANTIZE && left && !k->chain->n && !k->chain->front.exists)
			rc = add_front(k, &h, &d, why);
		else
			rc = add_link(k, &h, &d, !left, why);
	}
	if (rc)
		return rc;
	if (number(k->chain) < 2)
		return rvl_why(why, "a chain of one operator");
	if (k->chain->front.exists && !k->chain->link[0].k->d.quantise)
		return rvl_why(why, "operator 1 does not quantise its operand");
	return 0;
}

/* ---- rows ---- */

/* The link that makes image @i of @l, or NULL. */
static uint32_t maker_of(const struct rvl_chain *c, const struct rvl_chain_link *l, uint32_t i)
{
	return i < l->k->rows->images && l->in[i] >= RVL_CHAIN_MADE ? l->in[i] - RVL_CHAIN_MADE : c->n;
}

/* Rows under windows whether or not they are inside the image. */
static struct rvl_row_range reach(const struct rvl_kernel *k, struct rvl_row_range r)
{
	const struct rvl_conv_geom *g = &k->g;

	if (!k->rows->window)
		return r;
	return (struct rvl_row_range) {
		r.first * g->s[0] - g->pad[0],
		(r.past - 1) * g->s[0] - g->pad[0] + (g->k[0] - 1) * g->d[0] + 1,
	};
}

struct rvl_row_range rvl_rows_under(const struct rvl_kernel *k, struct rvl_row_range r)
{
	int64_t rows = k->d.in[0].shape.dim[2];

	r = reach(k, r);
	r.first = r.first < 0 ? 0 : rvl_least(r.first, rows);
	r.past = r.past < r.first ? r.first : rvl_least(r.past, rows);
	return r;
}

/* The smallest range that has the rows of both. */
static struct rvl_row_range hull(struct rvl_row_range a, struct rvl_row_range b)
{
	if (a.first >= a.past)
		return b;
	if (b.first >= b.past)
		return a;
	return (struct rvl_row_range) { rvl_least(a.first, b.first), a.past > b.past ? a.past : b.past };
}

/*
 * The rows of each result that rows @last of the last one need. @read: rvl_rows_under() for a run,
 * reach() for the most rows of any stripe.
 */
static void rows_of(const struct rvl_chain *c, struct rvl_row_range last, struct rvl_row_range *need,
		    struct rvl_row_range (*read)(const struct rvl_kernel *k, struct rvl_row_range r))
{
	memset(need, 0, c->n * sizeof(*need));
	need[c->n - 1] = last;
	for (uint32_t i = c->n; i-- > 0;) {
		const struct rvl_chain_link *l = &c->link[i];

		for (uint32_t j = 0; j < l->k->rows->images && need[i].first < need[i].past; j++) {
			uint32_t m = maker_of(c, l, j);

			if (m < c->n)
				need[m] = hull(need[m], read(l->k, need[i]));
		}
	}
}

/*
 * Finds the strides. Ranges of a result that is read on two ways must move at the same pace, or its
 * rows in memory would have no bound.
 */
static int find_strides(struct rvl_chain *c, char *why)
{
	c->link[c->n - 1].stride = 1;
	for (uint32_t i = c->n; i-- > 0;) {
		const struct rvl_chain_link *l = &c->link[i];
		int64_t s = l->stride * (l->k->rows->window ? l->k->g.s[0] : 1);

		if (!l->stride || s > MOST_STRIDE)
			return rvl_why(why, "the result of operator %u is not read, or in large steps",
				       i + c->front.exists);
		for (uint32_t j = 0; j < l->k->rows->images; j++) {
			uint32_t m = maker_of(c, l, j);

			if (m < c->n && c->link[m].stride && c->link[m].stride != s)
				return rvl_why(why, "the result of operator %u is read at two paces",
					       m + c->front.exists);
			if (m < c->n)
				c->link[m].stride = s;
		}
	}
	return 0;
}

/* Lays out the memory of a band for stripes of @height rows. Returns its bytes, or -1: too many. */
static int64_t lay_out(struct rvl_chain *c, int64_t height)
{
	struct rvl_row_range need[RVL_CHAIN_MAX];
	int64_t at = 0, work = 0;

	rows_of(c, (struct rvl_row_range) { 0, height }, need, reach);
	for (uint32_t i = 0; i < c->n; i++) {
		struct rvl_chain_link *l = &c->link[i];
		const int64_t *dim = l->k->d.out[0].shape.dim;
		int64_t rows = rvl_least(need[i].past - need[i].first, dim[2]), own = 0;

		if (rows > MOST_ROWS)
			return -1;
		l->rows = i == c->n - 1 ? 0 : rows;
		l->row_bytes = dim[1] * dim[3];
		l->at = at;
		at += rvl_round_up(l->rows * l->row_bytes, 64) + 64;
		if (l->k->rows->scratch)
			own = l->k->rows->scratch(l->k, rows);
		work = own > work ? own : work;
	}
	c->height = height;
	c->work_at = at;
	c->band_bytes = at + rvl_round_up(work, 64);
	return c->band_bytes;
}

/* The highest stripes, of at most @most rows, whose rows stay in the cache, or stripes of one row. */
static int choose_height(struct rvl_chain *c, int64_t most, char *why)
{
	int64_t height = 1;

	if (lay_out(c, 1) < 0)
		return rvl_why(why, "a row of the last result needs too many rows of an image");
	while (height < most && lay_out(c, height + 1) >= 0 &&
	       c->work_at <= RVL_CHAIN_BYTES)
		height++;
	lay_out(c, height);
	return 0;
}

/* ---- running ---- */

struct chain_run {
	const struct rvl_chain *c;
	const void *const *in;
	uint8_t *out;
	uint8_t *scratch;
	int64_t image, rows, stripes;
	uint32_t bands;
};

/* What the memory of a band holds of each result: rows [first, past). */
struct band {
	const struct chain_run *r;
	uint8_t *mem;
	struct rvl_row_range have[RVL_CHAIN_MAX];
};

/* Where row 0 of the result of link @i would be. */
static uint8_t *row_zero(const struct band *b, uint32_t i)
{
	const struct rvl_chain_link *l = &b->r->c->link[i];

	return b->mem + l->at - b->have[i].first * l->row_bytes;
}

/* Keeps the rows of a result from @first on, at the front of its memory. */
static void keep_rows(struct band *b, uint32_t i, int64_t first)
{
	const struct rvl_chain_link *l = &b->r->c->link[i];
	struct rvl_row_range *have = &b->have[i];
	uint8_t *mem = b->mem + l->at;

	if (first >= have->past || first < have->first)
		*have = (struct rvl_row_range) { first, first };
	else if (first > have->first)
		memmove(mem, mem + (first - have->first) * l->row_bytes,
			(size_t)((have->past - first) * l->row_bytes));
	have->first = first;
}

static const uint8_t *image_of(const struct band *b, const struct rvl_chain_link *l, uint32_t i)
{
	const struct chain_run *r = b->r;
	uint32_t m = maker_of(r->c, l, i);

	if (m < r->c->n)
		return row_zero(b, m);
	return (const uint8_t *)r->in[l->in[i]] +
	       r->image * rvl_pitch_of(&l->k->d.in[i]).n * (int64_t)(l->k->d.quantise ? sizeof(float) : 1);
}

/* Computes what is missing of rows @need of the result of link @i. */
static void run_link(struct band *b, uint32_t i, struct rvl_row_range need)
{
	const struct chain_run *r = b->r;
	const struct rvl_chain_link *l = &r->c->link[i];
	struct rvl_rows call = { .past = need.past, .scratch = b->mem + r->c->work_at };

	if (need.first >= need.past)
		return;
	keep_rows(b, i, need.first);
	call.first = b->have[i].past;
	if (call.first >= call.past)
		return;
	b->have[i].past = need.past;
	for (uint32_t j = 0; j < l->k->rows->images; j++)
		call.in[j] = image_of(b, l, j);
	call.out = i == r->c->n - 1 ? r->out : row_zero(b, i);
	l->k->rows->run(l->k, &call);
}

static void run_band(void *arg, uint32_t n)
{
	const struct chain_run *r = arg;
	const struct rvl_chain *c = r->c;
	struct band b = { .r = r, .mem = r->scratch + n * c->band_bytes };
	int64_t past = (n + 1) * r->stripes / r->bands;

	for (int64_t s = n * r->stripes / r->bands; s < past; s++) {
		struct rvl_row_range need[RVL_CHAIN_MAX], last = {
			s * c->height, rvl_least((s + 1) * c->height, r->rows),
		};

		rows_of(c, last, need, rvl_rows_under);
		for (uint32_t i = 0; i < c->n; i++)
			run_link(&b, i, need[i]);
	}
}

static int run_chain(const struct rvl_kernel *k, const void *const *in, void *const *out,
		     void *scratch, const struct rvl_pool *pool)
{
	const struct rvl_kernel_arg *y = &k->d.out[0];
	struct chain_run r = {
		.c = k->chain, .in = in, .scratch = scratch, .rows = y->shape.dim[2],
	};

	r.stripes = rvl_ceil_div(r.rows, r.c->height);
	r.bands = (uint32_t)rvl_least(rvl_least(pool && pool->threads ? pool->threads : 1, MAX_BANDS),
				      r.stripes);
	for (; r.image < y->shape.dim[0]; r.image++) {
		r.out = (uint8_t *)out[0] + r.image * rvl_pitch_of(y).n;
		rvl_parallel(pool, r.bands, run_band, &r);
	}
	return 0;
}

/* The only operator behind a quantisation computes its whole result, which divides the work better. */
static int run_alone(const struct rvl_kernel *k, const void *const *in, void *const *out, void *scratch,
		     const struct rvl_pool *pool)
{
	const struct rvl_chain_link *l = &k->chain->link[0];
	const void *own[RVL_CHAIN_IN] = { NULL };

	for (uint32_t i = 0; i < l->k->d.n_in; i++)
		own[i] = l->k->d.in[i].type ? in[l->in[i]] : NULL;
	return l->k->run(l->k, own, out, scratch, pool);
}

/* ---- setup ---- */

void rvl_chain_free(struct rvl_chain *c)
{
	for (uint32_t i = 0; c && i < RVL_CHAIN_MAX; i++) {
		rvl_kernel_free(c->link[i].k);
		rvl_kernel_free(c->link[i].rest);
	}
}

/* All operands are batches of as many images as the result. */
static int check_batches(const struct rvl_kernel *k, char *why)
{
	const struct rvl_chain *c = k->chain;

	for (uint32_t i = 0; i < c->n; i++) {
		for (uint32_t j = 0; j < c->link[i].k->rows->images; j++) {
			const struct rvl_shape *x = &c->link[i].k->d.in[j].shape;

			if (x->rank != 4 || x->dim[0] != k->d.out[0].shape.dim[0])
				return rvl_why(why, "an operand of operator %u is another batch",
					       i + c->front.exists);
		}
	}
	return 0;
}

static int64_t most_rows(const struct rvl_kernel *k)
{
	int64_t most = rvl_least(MOST_HEIGHT, k->d.out[0].shape.dim[2]);

	return k->d.attr.block > 0 ? rvl_least(most, k->d.attr.block) : most;
}

int rvl_setup_chain(struct rvl_kernel *k, bool reference, char *why)
{
	int rc;

	(void)reference;
	k->chain = rvl_kernel_mem(k, 1, sizeof(*k->chain));
	if (!k->chain)
		return -ENOMEM;
	rc = read_links(k, why);
	if (!rc && of_elements(k)) {
		rvl_chain_elements(k);
		return 0;
	}
	if (!rc && is_alone(k->chain)) {
		k->scratch = rvl_kernel_scratch(k->chain->link[0].k);
		k->run = run_alone;
		return 0;
	}
	if (!rc)
		rc = check_batches(k, why);
	if (!rc)
		rc = find_strides(k->chain, why);
	if (!rc)
		rc = choose_height(k->chain, most_rows(k), why);
	if (rc)
		return rc;
	k->scratch = (size_t)(k->chain->band_bytes * MAX_BANDS);
	k->run = run_chain;
	return 0;
}

bool rvl_kernel_joins(const struct rvl_kernel *k)
{
	return joins(k);
}

int64_t rvl_chain_height(const struct rvl_kernel *k)
{
	return k->chain ? k->chain->height : 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * How a cascade is cut. The height of the last layer's tiles determines the others: a producer's tile
 * has the rows by which its consumer advances. Rings come first; the rest of INP is for the operand
 * of the first layer, results and second operands. Weights that stay in WGT for all tiles are moved
 * once; where not all fit, the plans of WGT differ in which layers' weights stay.
 */
#include "npu/chain.h"
#include "npu/stream.h"
#include "rivulet_footprint.h"
#include "rivulet_lanes.h"

#define MOST_GROUPS 4 /* of output blocks that a layer makes before the next one takes them */
#define GAIN	    99 /* per cent of the estimate of a cut: below, other groups are tried, too */
#define DEEP	    4096 /* tiles ahead: more than any value has */
#define RING_STEPS 4 /* by which a ring may be higher so that no taps conflict */

/* WGT words that are kept for each layer until it is cut. */
struct share {
	int64_t words[RVL_CHAIN];
};

/* Rows of the value by which the consumer's tiles of @th rows advance. */
static int64_t rows_per_tile(const struct rvl_layer *l, int64_t th)
{
	int64_t rows = rvl_takes_taps(l)   ? l->from->taps :
		       rvl_takes_blocks(l) ? l->in.v.h :
					     th * (l->mode ? l->p.win.sy : 1) * (l->e.pool ? l->e.pwin.sy : 1);

	return rvl_clamp(rows, 1, l->in.v.h);
}

/*
 * Rows that the ring between layers @a and @b must have: for each tile of @b, from the first that it
 * reads to the last that the producer's tiles make to cover it, and those of the tiles ahead.
 */
static int64_t rows_needed(const struct rvl_layer *a, const struct rvl_layer *b, int64_t lead)
{
	int64_t th = a->t.th, most = 0;

	for (int64_t y = 0; y < b->out.v.h; y += b->t.th) {
		int64_t rows[2];

		rvl_rows_read(b, y, rvl_min(b->t.th, b->out.v.h - y), rows);
		most = rvl_max(most, rvl_div_up(rows[1], th) * th - rows[0]);
	}
	return rvl_div_up(most, th) * th + lead * rvl_div_up(rows_per_tile(b, b->t.th), th) * th;
}

/*
 * Rows of a ring, from r->rows on in steps of @step, for which the taps of a pass do not conflict
 * where the last row and the first are neighbours.
 */
static int64_t clear_rows(const struct rivulet_board *b, const struct rvl_layer *l,
			  const struct rvl_ring *r, int64_t step)
{
	const struct rvl_window *w = &l->p.win;
	struct rivulet_insn_c_kernel k = {
		.kh = w->kh, .kw = w->kw, .sy = 1, .sx = 1, .dy = w->dy, .dx = w->dx
	};
	struct rivulet_lanes lanes;

	rivulet_lanes_of(b, &k, &lanes);
	for (int64_t i = 0; i < RING_STEPS; i++) {
		struct rivulet_insn_c_input in = { .row_pitch = r->width, .rows = INT16_MAX,
						   .wrap = r->rows + i * step };

		if (rivulet_lanes_time(b, &lanes, &k, &in, in.wrap).cycles ==
		    (uint64_t)in.wrap * lanes.passes)
			return in.wrap;
	}
	return r->rows;
}

/*
 * The ALU reads a run of rows, which the end of the ring must not divide. Tiles of the consumer
 * begin as many rows before a multiple of their advance as the window has above, and may end behind
 * one. The producer writes the last rows of the ring also before the first, and the first also
 * behind the last, and the ring is a multiple of the advance.
 */
static void guard_ring(const struct rvl_layer *b, int64_t th, struct rvl_ring *r)
{
	int64_t step = rows_per_tile(b, b->t.th), most = r->image;

	r->guard = r->below = 0;
	if (b->mode || r->rows >= most)
		return;
	while (r->rows % step && r->rows < most)
		r->rows += th;
	if (r->rows >= most || !b->e.pool)
		return;
	r->guard = b->e.pwin.top;
	r->below = rvl_rows_below(&b->e.pwin);
}

/* Words of a row of the ring, and its rows, for a consumer with a product or without. */
static void size_ring(const struct rivulet_board *b, const struct rvl_layer *l,
		      const struct rvl_layer *reader, int64_t lead, struct rvl_ring *r)
{
	struct rvl_nest nest = { 0 };

	r->width = l->out.v.w;
	if (reader->mode) {
		reader->mode->nest(b, reader, &nest);
		r->width = rvl_row_pitch(b, &nest, l->out.v.w);
	}
	r->blocks = l->mode ? rvl_div_up(l->p.m, b->tm) * (b->tm / b->tn) :
			      rvl_div_up(l->out.v.c, b->tn);
	r->image = rvl_div_up(l->out.v.h, l->t.th) * l->t.th;
	r->rows = rvl_takes_taps(reader) ? r->image : rows_needed(l, reader, lead);
	if (nest.lane_words)
		r->rows = clear_rows(b, reader, r, l->t.th);
	r->rows = rvl_min(r->rows, r->image * l->out.v.n);
	guard_ring(reader, l->t.th, r);
}

static int64_t size_rings(const struct rivulet_board *b, struct rvl_chain *c, int64_t lead)
{
	int64_t words = 0;

	for (uint32_t i = 0; i + 1 < c->n; i++) {
		struct rvl_ring *r = &c->ring[i];

		size_ring(b, &c->l[i], &c->l[i + 1], lead, r);
		words += rvl_ring_words(r);
	}
	return words;
}

static void link_rings(struct rvl_chain *c)
{
	for (uint32_t i = 0; i + 1 < c->n; i++)
		c->l[i].to = c->l[i + 1].from = &c->ring[i];
}

static int64_t inp_words(const struct rivulet_board *b, const struct rvl_chain *c)
{
	return c->inp ? c->inp : rivulet_mem_words(b, RIVULET_MEM_INP);
}

static bool fits(const struct rivulet_board *b, const struct rvl_chain *c, int64_t rings)
{
	struct rvl_words3 sum = { .mem[RIVULET_MEM_INP] = rings };

	for (uint32_t i = 0; i < c->n; i++) {
		struct rvl_words3 w = rvl_layer_words(b, &c->l[i]);

		for (int m = 0; m < RIVULET_MEMS; m++)
			sum.mem[m] += w.mem[m];
	}
	for (int m = 0; m < RIVULET_MEMS; m++)
		if (sum.mem[m] > (m == RIVULET_MEM_INP ? inp_words(b, c) : rivulet_mem_words(b, m)))
			return false;
	return true;
}

/* Cycles of the array and of the ALU for a tile and group of output blocks, on average, and how
 * many there are. */
struct unit {
	int64_t array, alu, n;
};

static struct unit unit_of(const struct rivulet_board *b, const struct rvl_layer *l)
{
	struct rvl_busy e = rvl_layer_busy(b, l);
	struct unit u = { .n = l->out.v.n * rvl_div_up(rvl_result_rows(l), l->t.th) *
			       rvl_div_up(rvl_result_cols(l), l->t.tw) };

	if (l->mode)
		u.n *= rvl_ocgroups(b, l, l->t.og, NULL);
	u.array = e.array / u.n;
	u.alu = e.alu / u.n;
	return u;
}

/* Sorts by the time in the array, or in the ALU. */
static void sort_units(struct unit *u, uint32_t n, bool alu)
{
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t k = i;
		     k && (alu ? u[k].alu < u[k - 1].alu : u[k].array < u[k - 1].array); k--) {
			struct unit t = u[k];

			u[k] = u[k - 1];
			u[k - 1] = t;
		}
}

/*
 * With two halves of ACC, the array computes one tile while the ALU drains the one before, and both
 * wait for the longer of the two. The least sum of the longer ones is that where the times of both
 * are in order.
 */
static int64_t alternating(const struct rivulet_board *b, const struct rvl_chain *c)
{
	struct unit array[RVL_CHAIN], alu[RVL_CHAIN];
	int64_t sum = 0;

	for (uint32_t i = 0; i < c->n; i++)
		array[i] = alu[i] = unit_of(b, &c->l[i]);
	sort_units(array, c->n, false);
	sort_units(alu, c->n, true);
	for (uint32_t i = 0, k = 0; i < c->n && k < c->n;) {
		int64_t beside = rvl_min(array[i].n, alu[k].n);

		sum += beside * rvl_max(array[i].array, alu[k].alu);
		array[i].n -= beside;
		alu[k].n -= beside;
		i += !array[i].n;
		k += !alu[k].n;
	}
	return sum;
}

/*
 * Cycles of the port for weights that cannot load before the array is done with the other layers,
 * where the last one takes rows of its window: those for rows that the last tile makes, as far as the
 * slots do not hold them.
 */
static int64_t late_weights(const struct rivulet_board *b, const struct rvl_chain *c)
{
	const struct rvl_layer *l = &c->l[c->n - 1];
	int64_t chunks, rows;

	if (!rvl_takes_taps(l))
		return 0;
	rows = rvl_min(l->from->taps, l->p.win.kh);
	chunks = rvl_resident_words(b, l) / rvl_max(l->t.wgt_words, 1) * rows / l->p.win.kh;
	return rvl_max(0, chunks - l->t.wgt_slots) * rvl_chunk_cycles(b, l);
}

/* The engines overlap; the port and the ALU are seldom busy to the last cycle. */
static uint64_t estimate(const struct rivulet_board *b, const struct rvl_chain *c)
{
	struct rvl_busy sum = { 0 };
	int64_t work;

	for (uint32_t i = 0; i < c->n; i++) {
		struct rvl_busy e = rvl_layer_busy(b, &c->l[i]);

		sum.array += e.array;
		sum.alu += e.alu;
		sum.port += e.port;
	}
	work = rvl_max(rvl_max(sum.array, sum.alu), sum.port);
	return rvl_max(work, alternating(b, c)) + late_weights(b, c) + (sum.array + sum.alu + sum.port) / 8;
}

static void keep(struct rvl_chain_cuts *cuts, const struct rvl_chain *c)
{
	uint32_t at = cuts->n;

	for (uint32_t i = 0; i < cuts->n; i++)
		if (cuts->cut[i].cost == c->cost)
			return;
	while (at && cuts->cut[at - 1].cost > c->cost)
		at--;
	if (at == cuts->most)
		return;
	if (cuts->n < cuts->most)
		cuts->n++;
	for (uint32_t i = cuts->n - 1; i > at; i--)
		cuts->cut[i] = cuts->cut[i - 1];
	cuts->cut[at] = *c;
}

/* Output blocks of a group: those that the reader takes at a time. */
static int64_t most_group(const struct rivulet_board *b, const struct rvl_layer *l)
{
	return l->to && l->to->chunk ? rvl_max(1, l->to->chunk / (b->tm / b->tn)) : 0;
}

/* Whether a value that the last layer takes block by block is one tile of the layer before it. */
static bool makes_blocks(const struct rvl_chain *c)
{
	const struct rvl_layer *l = &c->l[c->n - 1];

	return !rvl_takes_blocks(l) ||
	       (l[-1].t.th == rvl_result_rows(&l[-1]) && l[-1].t.tw == rvl_result_cols(&l[-1]));
}

/*
 * Whether the tiles of layer @i are single rows, which leave the ALU for other work between them, whatever
 * the tiles of the layers beside it: a pool between two products.
 */
static bool is_fine(const struct rvl_chain *c, uint32_t i)
{
	return c->fine && i && i + 1 < c->n && !c->l[i].mode && !c->l[i].has_bits;
}

/*
 * Cuts the layers from the last on, whose tiles have at most @th rows; what one does not take is there
 * for those before it.
 */
static bool cut_layers(const struct rivulet_board *b, struct rvl_chain *c, int64_t th, int64_t inp,
		       const struct share *share)
{
	int64_t wgt = rvl_wgt_words(b);
	int64_t acc = rivulet_mem_words(b, RIVULET_MEM_ACC);

	for (uint32_t i = 0; i < c->n; i++)
		wgt -= share->words[i];
	for (uint32_t i = c->n; i-- > 0; th = rows_per_tile(&c->l[i], is_fine(c, i) ? th : c->l[i].t.th)) {
		struct rvl_room room = { .inp = i ? inp / 2 : inp,
					 .wgt = wgt += share->words[i],
					 .acc = acc,
					 .th = is_fine(c, i) ? 1 : th,
					 .og = most_group(b, &c->l[i]) };
		struct rvl_words3 used;

		if (room.inp < 0 || (c->l[i].mode && room.wgt <= 0) ||
		    !rvl_tile_within(b, &c->l[i], &room))
			return false;
		used = rvl_layer_words(b, &c->l[i]);
		inp -= used.mem[RIVULET_MEM_INP];
		wgt -= used.mem[RIVULET_MEM_WGT];
		/* Sums that stay are at the end of the second half. */
		acc -= 2 * used.mem[RIVULET_MEM_ACC];
	}
	return makes_blocks(c);
}

static void set_heights(struct rvl_chain *c, int64_t th)
{
	for (uint32_t i = c->n; i-- > 0; th = rows_per_tile(&c->l[i], th))
		c->l[i].t.th = is_fine(c, i) ? 1 : th;
}

/*
 * Divides the tiles for which the array takes longer than the ALU does for any tile: smaller groups
 * of output blocks, of which more fit beside the long ones of the ALU. False: nothing is changed,
 * or it does not fit.
 */
static bool balance(const struct rivulet_board *b, struct rvl_chain *c, int64_t rings)
{
	struct unit u[RVL_CHAIN];
	bool changed = false;
	int64_t alu = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		u[i] = unit_of(b, &c->l[i]);
		alu = rvl_max(alu, u[i].alu);
	}
	for (uint32_t i = 0; i < c->n; i++) {
		struct rvl_layer *l = &c->l[i];

		if (!l->mode || rvl_takes_parts(l) || (l->to && l->to->chunk) || l->t.og == 1 ||
		    4 * u[i].array <= 5 * alu)
			continue;
		rvl_tile_regroup(b, l, rvl_max(1, l->t.og * alu / u[i].array));
		changed = true;
	}
	return changed && fits(b, c, rings);
}

/* Keeps the cut with tiles of other groups, too, if the engines wait less for one another. */
static void keep_balanced(const struct rivulet_board *b, struct rvl_chain *c, int64_t rings,
			  struct rvl_chain_cuts *cuts)
{
	uint64_t before = c->cost;

	if (!balance(b, c, rings))
		return;
	c->cost = estimate(b, c);
	if (c->cost * 100 < before * GAIN)
		keep(cuts, c);
}

/*
 * Divides tiles for which the array takes longer than the port does for the weights of a chunk of
 * the last layer: chunks then free their slots in time. False: nothing is changed, or it does not
 * fit.
 */
static bool divide_beside(const struct rivulet_board *b, struct rvl_chain *c, int64_t rings)
{
	int64_t chunk = rvl_chunk_cycles(b, &c->l[c->n - 1]);
	bool changed = false;

	for (uint32_t i = 0; i + 1 < c->n; i++) {
		struct rvl_layer *l = &c->l[i];
		int64_t array = l->mode ? unit_of(b, l).array : 0;

		if (array <= chunk || l->t.og == 1)
			continue;
		rvl_tile_regroup(b, l, rvl_max(1, l->t.og * chunk / array));
		changed = true;
	}
	return changed && fits(b, c, rings);
}

/* The parts of its operand that the last layer takes at a time: blocks, or rows that are made; 0: whole. */
struct parts {
	int64_t chunk, taps;
};

/*
 * Whether the cut fits with rings for @lead tiles ahead, and its first tiles are whole rows.
 */
static bool try_cut(const struct rivulet_board *b, const struct rvl_chain *form, int64_t th,
		    int64_t lead, struct parts parts, const struct share *share,
		    struct rvl_chain_cuts *cuts)
{
	struct rvl_chain c = *form;
	int64_t rings;
	bool whole;

	link_rings(&c);
	c.ring[c.n - 2].chunk = parts.chunk;
	c.ring[c.n - 2].taps = parts.taps;
	set_heights(&c, th);
	rings = size_rings(b, &c, lead);
	if (!cut_layers(b, &c, th, inp_words(b, &c) - rings, share))
		return false;
	rings = size_rings(b, &c, lead);
	if (!fits(b, &c, rings))
		return false;
	c.cost = estimate(b, &c);
	keep(cuts, &c);
	whole = c.l[0].t.tw == rvl_result_cols(&c.l[0]);
	if (!parts.taps) {
		keep_balanced(b, &c, rings, cuts);
	} else if (divide_beside(b, &c, rings)) {
		c.cost = estimate(b, &c);
		keep(cuts, &c);
	}
	return whole;
}

/* ---- plans of WGT ---- */

#define PLANS 3

/* Keeps the words of layers in WGT, the smallest or the largest first, while there are enough. */
static uint32_t keep_resident(const struct rvl_chain *c, const struct share *need, bool largest,
			      struct share *s, int64_t *left)
{
	uint32_t kept = 0;

	for (uint32_t turn = 0; turn < c->n; turn++) {
		uint32_t at = c->n;

		for (uint32_t i = 0; i < c->n; i++)
			if (!(kept >> i & 1) && (at == c->n || (need->words[i] > need->words[at]) == largest))
				at = i;
		if (need->words[at] > *left * 3 / 4)
			break;
		kept |= 1u << at;
		s->words[at] = need->words[at];
		*left -= need->words[at];
	}
	return kept;
}

/* All that fit stay, the smallest first or the largest first; or each layer has an equal part. */
static struct share plan(const struct rivulet_board *b, const struct rvl_chain *c,
			 const struct share *need, uint32_t number)
{
	int64_t left = rvl_wgt_words(b), step = rvl_wgt_step(b);
	uint32_t kept = 0, others = c->n;
	struct share s = { { 0 } };

	if (number < 2)
		kept = keep_resident(c, need, number == 1, &s, &left);
	others -= __builtin_popcount(kept);
	for (uint32_t i = 0; i < c->n; i++)
		if (!(kept >> i & 1))
			s.words[i] = left / others / step * step;
	return s;
}

static uint32_t plans_of(const struct rivulet_board *b, const struct rvl_chain *c, struct share *s)
{
	struct share need = { { 0 } };
	int64_t sum = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		need.words[i] = rvl_resident_words(b, &c->l[i]);
		sum += need.words[i];
	}
	if (sum <= rvl_wgt_words(b)) {
		*s = need;
		return 1;
	}
	for (uint32_t i = 0; i < PLANS; i++)
		s[i] = plan(b, c, &need, i);
	return PLANS;
}

/* The last layer takes blocks, of which the one before makes a few groups at a time. */
static void try_blocks(const struct rivulet_board *b, const struct rvl_chain *form,
		       const struct share *share, struct rvl_chain_cuts *cuts)
{
	const struct rvl_layer *last = &form->l[form->n - 1];

	for (int64_t groups = 1; groups <= MOST_GROUPS; groups *= 2)
		try_cut(b, form, rvl_result_rows(last), 0,
			(struct parts){ .chunk = groups * (b->tm / b->tn) }, share, cuts);
}

/* The last layer takes rows of its window, of which the one before makes a few at a time. */
static void try_taps(const struct rivulet_board *b, const struct rvl_chain *form,
		     const struct share *share, struct rvl_chain_cuts *cuts)
{
	const struct rvl_layer *last = &form->l[form->n - 1];

	for (int64_t rows = last->in.v.h;; rows = (rows + 1) / 2) {
		try_cut(b, form, rvl_result_rows(last), 0, (struct parts){ .taps = rows }, share,
			cuts);
		if (rows == 1)
			return;
	}
}

void rvl_chain_search_parts(const struct rivulet_board *b, const struct rvl_chain *form,
			    struct rvl_chain_cuts *cuts)
{
	const struct rvl_layer *last = &form->l[form->n - 1];
	bool blocks = rvl_may_take_blocks(b, last), taps = rvl_may_take_taps(b, last);
	struct share share[PLANS];
	uint32_t plans;

	if (!last[-1].mode || (!blocks && !taps))
		return;
	plans = plans_of(b, form, share);
	for (uint32_t i = 0; i < plans; i++) {
		if (blocks)
			try_blocks(b, form, &share[i], cuts);
		if (taps)
			try_taps(b, form, &share[i], cuts);
	}
}

void rvl_chain_search(const struct rivulet_board *b, const struct rvl_chain *form,
		      struct rvl_chain_cuts *cuts)
{
	const struct parts whole = { 0 };
	struct share share[PLANS];
	uint32_t plans = plans_of(b, form, share);

	for (int64_t th = form->l[form->n - 1].out.v.h;; th = (th + 1) / 2) {
		for (uint32_t i = 0; i < plans; i++)
			if (!try_cut(b, form, th, form->deep ? DEEP : 1, whole, &share[i], cuts) && !form->deep)
				try_cut(b, form, th, 0, whole, &share[i], cuts);
		if (th == 1)
			return;
	}
}

void rvl_chain_use(const struct rvl_chain *c, struct rvl_layer *const *l, struct rvl_ring *ring)
{
	for (uint32_t i = 0; i < c->n; i++) {
		ring[i] = c->ring[i];
		*l[i] = c->l[i];
		if (i)
			l[i]->from = &ring[i - 1];
		if (i + 1 < c->n)
			l[i]->to = &ring[i];
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * How a layer is cut so that its buffers fit the scratchpads, and which of the cuts that fit is
 * fastest. Buffers come in slots of equal size: two let the next transfer run beside the work on
 * the one before, as many as there are parts keep an operand resident. The estimate knows engines,
 * port and latency, but not the schedule; explain's numbers come from the schedule (estimate.c).
 */
#include "npu/epilogue.h"
#include "rivulet_footprint.h"
#include "rivulet_lanes.h"

#include <string.h>

#define MAX_OCB		  1023
#define MAX_KERNEL	  31
#define MAX_SPREAD	  32 /* pixels that LOAD writes for one, each way */
#define MAX_DILATION	  63
#define MAX_SLOTS	  512
#define MAX_CUTS	  8 /* into which the tallest tile is divided */
#define SHORT_PASS	  1024 /* cycles of the ALU, beside which the array fills both halves of ACC */
#define MAX_STREAM	  100000 /* CONV instructions of a layer */
#define LAYER_SEARCH_GOOD 101	 /* per cent of the lower bound that ends the search */
#define MAX_MACS                                                                                   \
	(UINT64_C(1) << 48) /* far beyond any board's cycle cap; sums below cannot overflow */

/* A beat of the port counts a quarter of a cycle even where it is hidden: it costs energy. */
#define TRAFFIC_WEIGHT 4

struct budget {
	const struct rivulet_board *b;
	const struct rvl_layer *l;
	int64_t inp, wgt, acc; /* words */
	struct rvl_nest nest;  /* of the layer's mode */
	int64_t ratio;	       /* INP words of an ACC word */
	int64_t ocb, icb;      /* output blocks; the most input blocks that one of them reads */
	int64_t icb_sum;       /* blocks that all of them read */
	int64_t oh, ow;	       /* result on drain */
	int64_t th;	       /* most rows of a tile */
	int64_t most_og;       /* output blocks of a group */
	bool whole;	       /* a chunk has all input blocks */
	bool rows;	       /* of a cascade: tiles are whole rows, and the outer loop */
};

/* ---- geometry shared with the emitter ---- */

/* Which input blocks (tn) of the layer's product each output block reads; products as gathered. */
struct reach {
	int64_t m, per_group; /* results, and those of a group */
	int64_t tm;
	int64_t channels; /* of the operand that a group reads */
	int64_t block;	  /* channels of an input block */
	int64_t blocks;	  /* all input blocks */
	bool all;	  /* each output block reads all */
};

static struct reach reach_of(const struct rivulet_board *b, const struct rvl_layer *l,
			     const struct rvl_nest *nest)
{
	return (struct reach){ .m = l->p.m,
			       .per_group = l->p.m / l->p.group,
			       .tm = b->tm,
			       .channels = nest->bits ? nest->group_channels :
							l->in.v.c / l->p.group,
			       .block = nest->bits ? nest->block_channels : b->tn,
			       .blocks = rvl_div_up(nest->channels, b->tn),
			       .all = l->p.group == 1 };
}

/* Input blocks [lo, hi) that output block @o reads. */
static void oc_range(const struct reach *r, int64_t o, int64_t *lo, int64_t *hi)
{
	int64_t first = o * r->tm, last = rvl_min(r->m, first + r->tm) - 1;

	*lo = r->all ? 0 : first / r->per_group * r->channels / r->block;
	*hi = r->all ? r->blocks : ((last / r->per_group + 1) * r->channels - 1) / r->block + 1;
}

/* The group of convolution that output block @o belongs to. */
static int64_t group_of(const struct rivulet_board *b, const struct rvl_layer *l, int64_t o)
{
	return o * b->tm / (l->p.m / l->p.group);
}

/* How many blocks from @o0 on make one run; of bits, those of a group, whose channels are a mask. */
static struct rvl_ocgroup one_group(const struct rivulet_board *b, const struct rvl_layer *l,
				    const struct reach *r, int64_t o0, int64_t most)
{
	struct rvl_ocgroup g = { .o0 = o0, .on = r->all ? most : 1 };
	int64_t lo, hi;

	oc_range(r, o0, &g.ib0, &hi);
	g.ibn = hi - g.ib0;
	while (g.on < most) {
		oc_range(r, o0 + g.on, &lo, &hi);
		if (hi - lo != g.ibn || (g.on > 1 && lo != g.ib0 + g.on * g.step) ||
		    (l->in.pixels && group_of(b, l, o0) != group_of(b, l, o0 + g.on)))
			break;
		g.step = lo - g.ib0 - (g.on - 1) * g.step;
		g.on++;
	}
	return g;
}

int64_t rvl_ocgroups(const struct rivulet_board *b, const struct rvl_layer *l, int64_t og,
		     struct rvl_ocgroup *out)
{
	int64_t ocb = rvl_div_up(l->p.m, b->tm), n = 0;
	struct rvl_nest nest;
	struct reach r;

	l->mode->nest(b, l, &nest);
	r = reach_of(b, l, &nest);
	for (int64_t o = 0; o < ocb;) {
		struct rvl_ocgroup g = one_group(b, l, &r, o, rvl_min(og, ocb - o));

		if (out)
			out[n] = g;
		n++;
		o += g.on;
	}
	return n;
}

int64_t rvl_chunks(const struct rvl_layer *l, const struct rvl_nest *nest,
		   const struct rvl_tiling *t, const struct rvl_ocgroup *g, struct rvl_chunk *out)
{
	int64_t kh = nest->kh, kw = nest->kw, n = 0;
	uint32_t part = 0;

	for (int64_t ky = 0; ky < kh; ky += t->ph) {
		for (int64_t kx = 0; kx < kw; kx += t->pw) {
			for (int64_t i = 0; i < g->ibn; i += t->ig, part++) {
				for (uint32_t term = 0; term < l->p.terms; term++, n++) {
					if (!out)
						continue;
					out[n] = (struct rvl_chunk){ .ky = ky,
								     .kh = rvl_min(t->ph, kh - ky),
								     .kx = kx,
								     .kw = rvl_min(t->pw, kw - kx),
								     .i0 = i,
								     .in = rvl_min(t->ig,
										   g->ibn - i),
								     .term = term,
								     .part = part };
				}
			}
		}
	}
	return n;
}

int64_t rvl_tap_words(const struct rvl_nest *nest, int64_t taps)
{
	return nest->lane_words ? nest->lane_words : taps * nest->block_words;
}

static bool has_tail(const struct rvl_nest *nest, const struct rvl_chunk *c)
{
	return nest->tail && c->i0 + c->in > nest->tail;
}

int64_t rvl_chunk_run(const struct rvl_nest *nest, const struct rvl_chunk *c, int64_t at)
{
	int64_t end = has_tail(nest, c) ? nest->tail - c->i0 : c->in;

	return at < end ? end - at : c->in - at;
}

int64_t rvl_chunk_words(const struct rvl_nest *nest, const struct rvl_chunk *c, int64_t on)
{
	int64_t taps = c->kh * c->kw, words = c->in * rvl_tap_words(nest, taps);

	if (has_tail(nest, c))
		words -= (nest->block_words - nest->tail_words) * taps;
	return on * words;
}

int64_t rvl_row_pitch(const struct rivulet_board *b, const struct rvl_nest *nest, int64_t cols)
{
	if (!nest->bits)
		return nest->lane_words ? rivulet_lanes_pitch(b, cols) : cols;
	while (nest->clear && !(nest->clear >> cols % b->dn & 1))
		cols++;
	return cols;
}

/* ---- cost of a candidate ---- */

/* Result rows (or columns) of a tile before a pool on drain. */
static int64_t before_pool(const struct rvl_layer *l, int64_t n, int dim)
{
	const struct rvl_window *p = &l->e.pwin;
	int64_t full = dim ? l->p.ow : l->p.oh;

	if (!l->e.pool)
		return n;
	return rvl_min(full, (n - 1) * (dim ? p->sx : p->sy) +
				     ((dim ? p->kw : p->kh) - 1) * (dim ? p->dx : p->dy) + 1);
}

/* Input rows that @n output rows read through @k taps. */
static int64_t window_span(int64_t n, int64_t stride, int64_t k, int64_t dilation, int64_t bound)
{
	return rvl_clamp((n - 1) * stride + (k - 1) * dilation + 1, 1, bound);
}

static int64_t in_rows(const struct rvl_layer *l, const struct rvl_tiling *t, int64_t ch)
{
	return l->p.gather ? ch : window_span(ch, l->p.win.sy, t->ph, l->p.win.dy, l->in.v.h);
}

static int64_t in_cols(const struct rvl_layer *l, const struct rvl_tiling *t, int64_t cw)
{
	int64_t pixels = rvl_max(l->in.pixels, 1), span;

	if (l->p.gather)
		return cw;
	/* Of a word that several pixels share, any may be the first. */
	span = window_span(cw, l->p.win.sx, t->pw, l->p.win.dx, rvl_operand_cols(&l->in));
	return rvl_min(l->in.v.w, rvl_div_up(span + pixels - 1, pixels));
}

/* Rows of the operand by which a tile is below the one before. */
static int64_t rows_between(const struct rvl_layer *l, const struct rvl_tiling *t)
{
	return t->th * l->p.win.sy * (l->e.pool ? l->e.pwin.sy : 1);
}

/*
 * Rows of the ring through which the operand passes: those of a tile and those that are new to the
 * next one. 0 where no two tiles have rows in common, or where tiles are no whole rows of all
 * blocks.
 */
static int64_t ring_rows(const struct budget *u, const struct rvl_tiling *t, int64_t ch)
{
	const struct rvl_layer *l = u->l;
	int64_t rows = in_rows(l, t, ch);

	if (t->in_slots < 2 || l->from || l->p.gather || l->in.pixels || l->p.group > 1 ||
	    u->nest.lane_words || u->nest.bits || t->oc_outer || t->tw < u->ow || t->th >= u->oh ||
	    t->ig < u->icb || t->ph < u->nest.kh || t->pw < u->nest.kw || l->p.terms > 1 ||
	    rows <= rows_between(l, t))
		return 0;
	return rvl_min(l->in.v.h, rows + rows_between(l, t));
}

/* Words of the bits of @th x @tw results. */
static int64_t bit_words(const struct rivulet_board *b, const struct rvl_layer *l, int64_t th,
			 int64_t tw)
{
	if (!l->has_bits)
		return 0;
	return th * rvl_div_up(tw, l->bits.pixels) * rvl_div_up(l->bits.v.c, b->tn);
}

/* Tiles begin at whole words of bits. */
static bool divides_bits(const struct rvl_layer *l, int64_t tw, int64_t cols)
{
	return !l->has_bits || tw == cols || tw % l->bits.pixels == 0;
}

/* Cycles of the port, and of LOAD or STORE at its scratchpad, to move a rectangle of @blks blocks of channels. */
static int64_t move_cycles(const struct rivulet_board *b, const struct rvl_operand *o, int64_t rows,
			   int64_t cols, int64_t blks)
{
	int64_t all = o->v.c << o->v.wide, ch, words;
	bool whole = cols == o->v.w;
	int64_t port;

	blks <<= o->v.wide;
	ch = rvl_min(all, blks * b->tn);
	words = rows * cols * blks;
	if (!o->s || o->s->blocked)
		port = rivulet_port_cycles(b, whole ? blks : rows * blks,
					   (whole ? rows : 1) * cols * b->tn, true);
	else if (o->v.inter)
		port = ch == all ? rivulet_port_cycles(b, rows, cols * ch, false) :
				      rivulet_port_cycles(b, rows * cols, ch, false);
	else
		port = rivulet_port_cycles(b, ch * rows, cols, false);
	return rvl_max(port, words);
}

/* The source rows of a gathered tile are read for each of its rows. */
static int64_t gather_cycles(const struct budget *u, int64_t ch, int64_t cw)
{
	const struct rvl_layer *l = u->l;
	int64_t span = window_span(cw, l->p.win.sx, l->p.win.kw, l->p.win.dx, l->in.v.w);
	int64_t runs = l->in.v.c * l->p.win.kh * ch;

	if (l->in.v.inter) {
		runs /= l->in.v.c;
		span *= l->in.v.c;
	}

	return rvl_max(rivulet_port_cycles(u->b, runs, span, false), ch * cw * u->icb);
}

static int64_t input_cycles(const struct budget *u, const struct rvl_tiling *t, int64_t ch,
			    int64_t cw)
{
	const struct rvl_layer *l = u->l;
	int64_t rows = in_rows(l, t, ch);

	if (l->p.gather)
		return gather_cycles(u, ch, cw);
	if (t->in_ring)
		rows = rvl_min(rows, rows_between(l, t));
	return move_cycles(u->b, &l->in, rows, in_cols(l, t, cw), u->icb);
}

/* WGT words of all weights. */
static int64_t weight_words(const struct budget *u)
{
	int64_t taps = u->nest.kh * u->nest.kw, words = u->icb_sum * rvl_tap_words(&u->nest, taps);

	if (u->nest.tail)
		words -= u->ocb * (u->nest.block_words - u->nest.tail_words) * taps;
	return words * u->l->p.terms;
}

static int64_t weight_cycles(const struct budget *u)
{
	return rivulet_port_cycles(u->b, 1, weight_words(u) * RIVULET_WGT_WORD, true);
}


struct load {
	int64_t tiles, groups, parts, steps; /* steps: chunks of one tile and group */
	int64_t convs;			     /* CONV instructions of these */
	int64_t in_once, wgt_once;	     /* cycles: all input of a tile; all weights */
	int64_t in_loads, wgt_loads;	     /* times that this is moved */
};

/* How often operands are moved, from the slots they have. */
static void count_loads(const struct rvl_tiling *t, struct load *d)
{
	bool in_resident = t->in_slots >= d->parts;
	bool wgt_all = t->wgt_slots >= d->steps * d->groups;
	bool wgt_group = t->wgt_slots >= d->steps;

	if (t->oc_outer) {
		d->in_loads = in_resident && d->tiles == 1 ? 1 : d->tiles * d->groups;
		d->wgt_loads = wgt_group ? 1 : d->tiles;
	} else {
		d->in_loads = in_resident ? d->tiles : d->tiles * d->groups;
		d->wgt_loads = wgt_all ? 1 : d->tiles;
	}
}

static struct load loads_of(const struct budget *u, const struct rvl_tiling *t, int64_t groups)
{
	const struct rvl_layer *l = u->l;
	int64_t ch = before_pool(l, t->th, 0), cw = before_pool(l, t->tw, 1);
	int64_t kh = u->nest.kh, kw = u->nest.kw;
	int64_t pieces = rvl_div_up(kh, t->ph) * rvl_div_up(kw, t->pw);
	struct load d = { .groups = groups };

	d.tiles = l->in.v.n * rvl_div_up(u->oh, t->th) * rvl_div_up(u->ow, t->tw);
	d.parts = pieces * rvl_div_up(u->icb, t->ig);
	d.steps = d.parts * l->p.terms;
	d.convs = d.steps + (u->nest.tail ? pieces * l->p.terms : 0);
	d.in_once = l->from ? 0 : input_cycles(u, t, ch, cw) * pieces;
	d.wgt_once = weight_cycles(u);
	count_loads(t, &d);
	return d;
}

/* To move a result of @rows x @cols, its bits, and the second operand. */
static int64_t result_cycles(const struct budget *u, int64_t rows, int64_t cols)
{
	const struct rvl_layer *l = u->l;
	int64_t sum = 0;

	if (!l->e.only)
		sum = move_cycles(u->b, &l->out, rows, cols, u->ocb * u->ratio) *
		      (!l->to + rvl_loads_b(l));
	if (l->has_bits)
		sum += move_cycles(u->b, &l->bits, rows, rvl_div_up(cols, l->bits.pixels),
				   rvl_div_up(l->bits.v.c, u->b->tn));
	return sum;
}

/* Cycles of the engines and of the port if nothing waited. */
struct busy {
	int64_t array, alu, in, out;
};

static struct busy busy_of(const struct budget *u, const struct rvl_tiling *t, const struct load *d)
{
	const struct rvl_layer *l = u->l;
	int64_t px = l->in.v.n * u->oh * u->ow, before = px, result;
	int64_t taps = u->nest.kh * u->nest.kw;
	struct rivulet_alu_stages stages = rvl_epilogue_stages(l);
	struct busy e;

	if (l->e.pool)
		before = d->tiles * before_pool(l, t->th, 0) * before_pool(l, t->tw, 1);
	e.array = l->mode->array(u->b, l, before * taps * u->icb_sum * l->p.terms) +
		  d->tiles * d->groups * d->convs * RIVULET_CONV_FILL;
	if (l->mode->part)
		e.array += (d->steps - 1) * l->mode->part(u->b, l, before * u->ocb);
	result = rivulet_alu_result(u->b, u->b->tm, &stages);
	e.alu = px * result * u->ocb + d->tiles * (u->ocb * rivulet_alu_setup(u->b->tm, stages.slopes) +
						   d->groups * RIVULET_ALU_FILL);
	e.in = d->in_loads * d->in_once + d->wgt_loads * d->wgt_once;
	e.out = result_cycles(u, t->th, t->tw) * d->tiles;
	return e;
}

/* The array's time when every step waits for its own transfer, made beside the step before it. */
static int64_t with_waits(const struct budget *u, const struct rvl_tiling *t, const struct load *d,
			  const struct busy *e)
{
	int64_t streams = d->tiles * d->groups * d->steps, step = e->array / streams;
	int64_t beats = e->in / streams, wait = step + u->b->mem_latency + beats;

	/* In a cascade, weights that stay in one slot of all of them delay only the first tile. */
	if (u->rows && d->wgt_loads == 1 && (u->l->from || t->in_slots >= 2))
		return e->array;
	if ((u->l->from || t->in_slots >= 2) && t->wgt_slots >= 2)
		wait /= 2;
	if (!beats || wait <= step || (d->in_loads == 1 && d->wgt_loads == 1 && d->steps == 1))
		return e->array;
	return streams * wait;
}

/* Estimated cycles, and a little for every byte; UINT64_MAX when the stream would be too long. */
static uint64_t conv_cost(const struct budget *u, const struct rvl_tiling *t, int64_t groups)
{
	struct load d = loads_of(u, t, groups);
	struct busy e = busy_of(u, t, &d);
	int64_t time, port = e.in + e.out;

	if (d.tiles * groups * d.steps > MAX_STREAM)
		return UINT64_MAX;
	time = with_waits(u, t, &d, &e);
	if (u->rows) /* beside the work of other layers; what counts is all that the engines do */
		return time + e.alu + port + port / TRAFFIC_WEIGHT;
	if (t->acc_slots < 2 || (!u->l->to && t->out_slots < 2))
		time += e.alu;
	time = rvl_max(rvl_max(time, port), e.alu) + port / TRAFFIC_WEIGHT;
	return time + 2 * u->b->mem_latency + d.wgt_once / (groups * d.steps) +
	       d.in_once / d.parts + (e.alu + e.out) / (d.tiles * groups);
}

/* ---- the search ---- */

#define KEEPS	6 /* ways to keep operands: the input or not; no weights, a group's, or all */
#define HEIGHTS 4 /* of the tiles of one of them: the tallest, and that divided by 2 to MAX_CUTS */

/* The cuts that fit with some numbers of slots. */
struct fits {
	int64_t in_slots, wgt_slots;
	struct rvl_tiling t[HEIGHTS];
	uint32_t n;
};

struct search {
	struct budget u;
	struct fits *fit; /* of the slots that are tried, or NULL */
	struct rvl_tiling best;
	struct rvl_tiling *cut; /* the best few, in order; or NULL */
	uint32_t cuts, most_cuts;
	bool found;
	bool any; /* the first cut found ends the search */
	bool too_long;
	uint64_t bound; /* no cut can be faster */
};

static bool good_enough(const struct search *s)
{
	return s->found && (s->any || s->best.cost * 100 <= s->bound * LAYER_SEARCH_GOOD);
}

/* WGT words of a chunk's weights for one output block; those of a sparse tail may take more. */
static int64_t slot_blocks(const struct rvl_nest *nest, const struct rvl_tiling *t)
{
	int64_t taps = t->ph * t->pw, words = t->ig * rvl_tap_words(nest, taps);

	return words + rvl_max(0, nest->tail_words - nest->block_words) * taps * !!nest->tail;
}

/* The sizes of slots that do not depend on the height and the width of the tile. */
static void wgt_sizes(const struct budget *u, struct rvl_tiling *t)
{
	t->wgt_words = t->og * slot_blocks(&u->nest, t);
	t->prm_words = t->og * rvl_div_up(u->b->tm * 8, RIVULET_WGT_WORD);
}

static bool weights_fit(const struct budget *u, const struct rvl_tiling *t)
{
	return t->wgt_slots * t->wgt_words + t->prm_slots * t->prm_words <= u->wgt;
}

static void slot_sizes(const struct budget *u, struct rvl_tiling *t)
{
	const struct rvl_layer *l = u->l;
	int64_t ch = before_pool(l, t->th, 0), cw = before_pool(l, t->tw, 1);
	int64_t blocks = l->p.group > 1 ? rvl_min(t->ig * t->og, rvl_div_up(u->nest.channels, u->b->tn)) :
			 t->ig;

	t->in_ring = ring_rows(u, t, ch);
	t->in_words = l->from ? 0 :
				(t->in_ring ? t->in_ring : in_rows(l, t, ch)) * blocks *
					rvl_row_pitch(u->b, &u->nest, in_cols(l, t, cw));
	wgt_sizes(u, t);
	t->acc_words = ch * cw * t->og;
	t->out_words = t->th * t->tw * t->og * u->ratio << (l->out.v.wide || l->b.v.wide);
	t->bit_words = bit_words(u->b, l, t->th, t->tw);
}

static bool conv_fits(const struct budget *u, const struct rvl_tiling *t)
{
	const struct rvl_layer *l = u->l;
	int64_t ch = before_pool(l, t->th, 0), cw = before_pool(l, t->tw, 1);

	if (ch > RVL_MOST_COUNT || cw > RVL_MOST_COUNT || in_rows(l, t, ch) > RVL_MOST_COUNT ||
	    in_cols(l, t, cw) > RVL_MOST_COUNT || t->og > MAX_OCB || t->ig > RVL_MOST_COUNT)
		return false;
	return divides_bits(l, t->tw, u->ow) &&
	       rvl_in_words(t) + (t->out_slots + t->b_slots) * t->out_words +
			       t->bit_slots * t->bit_words <=
		       u->inp &&
	       weights_fit(u, t) && t->acc_slots * t->acc_words <= u->acc;
}

static void keep_cut(struct search *s, const struct rvl_tiling *c)
{
	uint32_t at = s->cuts;

	while (at && s->cut[at - 1].cost > c->cost)
		at--;
	if (at == s->most_cuts)
		return;
	if (s->cuts < s->most_cuts)
		s->cuts++;
	for (uint32_t i = s->cuts - 1; i > at; i--)
		s->cut[i] = s->cut[i - 1];
	s->cut[at] = *c;
}

static void consider(struct search *s, const struct rvl_tiling *t, int64_t groups)
{
	struct rvl_tiling c = *t;

	c.cost = conv_cost(&s->u, &c, groups);
	if (c.cost == UINT64_MAX) {
		s->too_long = true;
		return;
	}
	if (s->fit)
		s->fit->t[s->fit->n++] = c;
	if (s->cut)
		keep_cut(s, &c);
	if (!s->found || c.cost < s->best.cost) {
		s->best = c;
		s->found = true;
	}
}

/* The tallest tile that fits with the rest of @t given, cut into equal heights. */
static bool tallest(const struct budget *u, struct rvl_tiling *t)
{
	const struct rvl_layer *l = u->l;
	int64_t lo = 0, hi = l->p.win.sy > MAX_KERNEL && !l->p.gather ? 1 : rvl_min(u->oh, u->th);

	wgt_sizes(u, t);
	if (!weights_fit(u, t)) /* whatever the height */
		return false;
	while (lo < hi) {
		t->th = (lo + hi + 1) / 2;
		slot_sizes(u, t);
		if (conv_fits(u, t))
			lo = t->th;
		else
			hi = t->th - 1;
	}
	if (!lo)
		return false;
	t->th = rvl_div_up(u->oh, rvl_div_up(u->oh, lo));
	slot_sizes(u, t);
	return conv_fits(u, t);
}

/* Slots by what stays in the scratchpads: @keep_in, @keep_wgt (0 stream, 1 group, 2 all). */
static void set_slots(const struct budget *u, struct rvl_tiling *t, int64_t groups, int copies,
		      int keep_in, int keep_wgt)
{
	const struct rvl_layer *l = u->l;
	int64_t parts = rvl_div_up(u->nest.kh, t->ph) * rvl_div_up(u->nest.kw, t->pw) *
			rvl_div_up(u->icb, t->ig);
	int64_t steps = parts * l->p.terms;

	t->in_slots = l->from ? 0 : keep_in ? copies * parts : rvl_min(copies, parts + 1);
	t->wgt_slots = keep_wgt == 2 ? steps * groups : keep_wgt ? copies * steps : copies;
	t->wgt_slots = rvl_min(t->wgt_slots, steps * groups);
	t->prm_slots = rvl_min(copies, groups);
	if (groups * t->og * u->b->tm * 8 <= u->wgt * 2) /* an eighth */
		t->prm_slots = groups;
	t->acc_slots = copies;
	t->out_slots = l->to || l->e.only ? 0 : copies;
	t->b_slots = rvl_loads_b(l) ? copies : 0;
	t->bit_slots = l->has_bits ? copies : 0;
}

/*
 * The tallest tile moves least. Shorter ones begin sooner, because the array waits for all of the
 * first tile's operand, and end sooner.
 */
static void try_heights(struct search *s, struct rvl_tiling *t, int64_t groups)
{
	const struct budget *u = &s->u;

	consider(s, t, groups);
	if (u->rows || (s->any && s->found)) /* the heights of a cascade are those of both layers */
		return;
	for (int64_t cuts = 2; cuts <= MAX_CUTS && t->th > 1; cuts *= 2) {
		t->th = rvl_div_up(u->oh, cuts * rvl_div_up(u->oh, t->th));
		slot_sizes(u, t);
		if (conv_fits(u, t))
			consider(s, t, groups);
	}
}

/* The cuts with the slots of @t among the @n of @fits, or NULL. */
static const struct fits *fits_of(const struct fits *fits, int n, const struct rvl_tiling *t)
{
	for (int i = 0; i < n; i++)
		if (fits[i].in_slots == t->in_slots && fits[i].wgt_slots == t->wgt_slots)
			return &fits[i];
	return NULL;
}

/*
 * The ways to keep operands in one order of the loops. Some of them have the same slots; their cuts
 * are not computed again.
 */
static void try_slots(struct search *s, struct rvl_tiling *t, int64_t groups, int copies)
{
	struct fits fits[KEEPS];
	int n = 0;

	for (int keep = 0; keep < KEEPS && !(s->any && s->found); keep++) {
		const struct fits *same;

		set_slots(&s->u, t, groups, copies, keep & 1, keep >> 1);
		same = fits_of(fits, n, t);
		for (uint32_t i = 0; same && s->cut && i < same->n; i++)
			keep_cut(s, &same->t[i]);
		if (same || t->in_slots > MAX_SLOTS || t->wgt_slots > MAX_SLOTS ||
		    t->prm_slots > MAX_SLOTS)
			continue;
		fits[n].in_slots = t->in_slots;
		fits[n].wgt_slots = t->wgt_slots;
		fits[n].n = 0;
		s->fit = &fits[n++];
		if (tallest(&s->u, t))
			try_heights(s, t, groups);
	}
	s->fit = NULL;
}

static void try_keeps(struct search *s, struct rvl_tiling *t, int64_t groups, int copies)
{
	/* All groups of output blocks fill the bits of a tile. */
	for (int order = 0; order < (s->u.rows || s->u.l->has_bits ? 1 : 2); order++) {
		t->oc_outer = order;
		try_slots(s, t, groups, copies);
		if (s->any && s->found)
			return;
	}
}

static int64_t next_cut(int64_t whole, int64_t part)
{
	int64_t n = rvl_div_up(whole, part) + 1;

	return n > 8 ? part / 2 : rvl_div_up(whole, n) == part ? part - 1 : rvl_div_up(whole, n);
}

/* A grouped run needs all of its input blocks at once; the chunk is then the run's. */
static bool chunk_allowed(const struct budget *u, const struct rvl_tiling *t)
{
	return u->l->p.group == 1 || t->og == 1 || t->ig >= u->icb;
}

static void try_piece(struct search *s, int64_t ph, int64_t pw, int copies)
{
	const struct budget *u = &s->u;
	struct rvl_tiling t = { .ph = ph, .pw = pw };
	int64_t widest = u->l->p.win.sx > MAX_KERNEL && !u->l->p.gather ? 1 : rvl_min(u->ow, RVL_MOST_COUNT);
	int64_t least = u->rows && u->l->from ? u->ow : 1;

	for (t.og = u->most_og; t.og >= 1; t.og = t.og > 1 ? next_cut(u->ocb, t.og) : 0) {
		int64_t groups = rvl_ocgroups(u->b, u->l, t.og, NULL);

		for (t.ig = u->icb; t.ig >= 1; t.ig = t.ig > 1 ? next_cut(u->icb, t.ig) : 0) {
			if (!chunk_allowed(u, &t) || ((u->l->p.gather || u->whole) && t.ig < u->icb))
				continue;
			for (t.tw = widest; t.tw >= least;
			     t.tw = t.tw > 1 ? next_cut(u->ow, t.tw) : 0) {
				try_keeps(s, &t, groups, copies);
				if (good_enough(s))
					return;
				if (u->rows && s->found) /* whole rows if they fit */
					break;
			}
		}
	}
}

/* Smaller and smaller kernel pieces until something fits. */
static void search_conv(struct search *s)
{
	const struct rvl_layer *l = s->u.l;
	int64_t ph = rvl_min(l->p.win.kh, l->p.win.dy > MAX_DILATION ? 1 : MAX_KERNEL);
	int64_t pw = rvl_min(l->p.win.kw, l->p.win.dx > MAX_DILATION ? 1 : MAX_KERNEL);

	if (l->p.gather)
		ph = pw = 1;
	for (;;) {
		try_piece(s, ph, pw, 2);
		if (!s->found && !s->u.rows)
			try_piece(s, ph, pw, 1);
		if (s->found || (ph == 1 && pw == 1) || s->u.nest.lane_words)
			return;
		if (ph >= pw)
			ph = rvl_div_up(ph, 2);
		else
			pw = rvl_div_up(pw, 2);
	}
}

static void count_blocks(struct budget *u)
{
	struct reach r = reach_of(u->b, u->l, &u->nest);
	int64_t lo, hi;

	u->icb = 0;
	u->icb_sum = 0;
	for (int64_t o = 0; o < u->ocb; o++) {
		oc_range(&r, o, &lo, &hi);
		u->icb = rvl_max(u->icb, hi - lo);
		u->icb_sum += hi - lo;
	}
}

static struct budget whole_layer(const struct rivulet_board *b, const struct rvl_layer *l)
{
	struct budget u = { .b = b,
			    .l = l,
			    .ratio = b->tm / b->tn,
			    .ocb = rvl_div_up(l->p.m, b->tm),
			    .oh = l->e.pool ? rvl_result_rows(l) : l->p.oh,
			    .ow = l->e.pool ? rvl_result_cols(l) : l->p.ow };

	l->mode->nest(b, l, &u.nest);
	count_blocks(&u);
	return u;
}

void rvl_tile_regroup(const struct rivulet_board *b, struct rvl_layer *l, int64_t og)
{
	struct budget u = whole_layer(b, l);
	int64_t was = rvl_ocgroups(b, l, l->t.og, NULL), groups = rvl_ocgroups(b, l, og, NULL);

	l->t.og = og;
	if (l->t.wgt_slots % was == 0) /* all stay */
		l->t.wgt_slots = l->t.wgt_slots / was * groups;
	if (l->t.prm_slots == was)
		l->t.prm_slots = groups;
	slot_sizes(&u, &l->t);
}

uint64_t rvl_array_time(const struct rivulet_board *b, const struct rvl_layer *l)
{
	struct budget u;

	if (!l->mode)
		return 0;
	u = whole_layer(b, l);

	return l->mode->array(b, l, l->in.v.n * l->p.oh * l->p.ow * u.nest.kh * u.nest.kw * u.icb_sum *
					 l->p.terms);
}

int64_t rvl_resident_words(const struct rivulet_board *b, const struct rvl_layer *l)
{
	int64_t words = rvl_epilogue_words(l);

	if (l->mode) {
		struct budget u = whole_layer(b, l);

		words += weight_words(&u) + u.ocb * rvl_div_up(b->tm * 8, RIVULET_WGT_WORD);
	}
	return rvl_wgt_round(b, words);
}

static struct rvl_busy busy_of_plain(const struct rivulet_board *b, const struct rvl_layer *l)
{
	int64_t blocks = rvl_div_up(l->out.v.c, b->tn), tiles = rvl_div_up(l->out.v.h, l->t.th);
	struct rivulet_alu_stages stages = rvl_epilogue_stages(l);
	int64_t result = rivulet_alu_result(b, b->tn, &stages);
	struct rvl_busy e = { 0 };

	e.alu = l->out.v.n * (l->out.v.h * l->out.v.w * blocks * result + tiles * RIVULET_ALU_FILL);
	if (!l->to)
		e.port = l->out.v.n * move_cycles(b, &l->out, l->out.v.h, l->out.v.w, blocks);
	if (!l->from)
		e.port += l->in.v.n * move_cycles(b, &l->in, l->in.v.h, l->in.v.w,
						  rvl_div_up(l->in.v.c, b->tn));
	return e;
}

struct rvl_busy rvl_layer_busy(const struct rivulet_board *b, const struct rvl_layer *l)
{
	struct budget u;
	struct load d;
	struct busy e;

	if (!l->mode)
		return busy_of_plain(b, l);
	u = whole_layer(b, l);
	d = loads_of(&u, &l->t, rvl_ocgroups(b, l, l->t.og, NULL));
	e = busy_of(&u, &l->t, &d);
	return (struct rvl_busy){ e.array, e.alu, e.in + e.out };
}

/* The array's work and every byte moved once. */
static uint64_t lower_bound(const struct budget *u)
{
	const struct rvl_layer *l = u->l;
	int64_t taps = u->nest.kh * u->nest.kw;
	int64_t blocks = taps * u->icb_sum * l->p.terms;
	int64_t work = l->mode->array(u->b, l, l->in.v.n * l->p.oh * l->p.ow * blocks);
	int64_t in = move_cycles(u->b, &l->in, l->in.v.h, l->in.v.w,
				 rvl_div_up(l->in.v.c, u->b->tn));
	int64_t out = result_cycles(u, u->oh, u->ow);
	int64_t port = weight_cycles(u) +
		       l->in.v.n * ((l->from ? 0 : in) + out);

	return rvl_max(work, port) + port / TRAFFIC_WEIGHT;
}

static void run_search(const struct rivulet_board *b, struct rvl_layer *l,
		       const struct rvl_room *room, struct search *s)
{
	if (l->p.macs > MAX_MACS || b->tm * b->tn % RIVULET_WGT_WORD ||
	    b->tm * 8 % RIVULET_WGT_WORD)
		return;
	s->u = whole_layer(b, l);
	s->u.inp = room->inp;
	s->u.wgt = room->wgt - rvl_epilogue_words(l);
	s->u.acc = room->acc;
	s->u.th = room->th;
	s->u.whole = room->whole;
	s->u.most_og = room->og ? rvl_min(room->og, s->u.ocb) : s->u.ocb;
	s->u.rows = rvl_continued(l) || rvl_continues(l);
	s->bound = lower_bound(&s->u);
	search_conv(s);
}

static bool tile_conv(const struct rivulet_board *b, struct rvl_layer *l,
		      const struct rvl_room *room, bool any)
{
	struct search s = { .any = any };

	run_search(b, l, room, &s);
	l->t = s.best;
	l->too_long = s.too_long;
	return s.found;
}

/* ---- layers that take blocks of their operand, or rows of their window, one after the other ---- */

#define BLOCKS_ACC 4 /* the part of ACC that their sums may fill: one of so many */
#define AHEAD	   4 /* chunks of rows whose weights fit WGT together */

/* Whether the fields of one instruction hold the whole window over all results. */
static bool one_piece(const struct rvl_product *p)
{
	const struct rvl_window *w = &p->win;

	return w->kh <= MAX_KERNEL && w->kw <= MAX_KERNEL && (w->kh == 1 || w->dy <= MAX_DILATION) &&
	       (w->kw == 1 || w->dx <= MAX_DILATION) && (p->oh == 1 || w->sy <= MAX_KERNEL) &&
	       (p->ow == 1 || w->sx <= MAX_KERNEL);
}

/* Whether the sums of @l can stay in ACC while it takes parts of its operand; @u is its budget. */
static bool may_take_parts(const struct rivulet_board *b, const struct rvl_layer *l, struct budget *u)
{
	if (!l->mode || l->p.group != 1 || l->p.gather || l->in.v.n != 1 || l->has_bits ||
	    !one_piece(&l->p))
		return false;
	*u = whole_layer(b, l);
	return !u->nest.lane_words && !u->nest.bits &&
	       u->ocb * l->p.oh * l->p.ow <= rivulet_mem_words(b, RIVULET_MEM_ACC) / BLOCKS_ACC;
}

bool rvl_may_take_blocks(const struct rivulet_board *b, const struct rvl_layer *l)
{
	struct budget u;

	return may_take_parts(b, l, &u) && u.icb > 1;
}

bool rvl_may_take_taps(const struct rivulet_board *b, const struct rvl_layer *l)
{
	struct budget u;

	return may_take_parts(b, l, &u) && l->p.oh == 1 && !l->e.pool && !l->in.pixels &&
	       l->p.win.kh > 1 && u.nest.kh == l->p.win.kh;
}

int64_t rvl_chunk_cycles(const struct rivulet_board *b, const struct rvl_layer *l)
{
	struct budget u = whole_layer(b, l);
	struct rvl_ocgroup all = { .on = u.ocb, .ibn = u.icb };

	return weight_cycles(&u) / rvl_chunks(l, &u.nest, &l->t, &all, NULL);
}

/* Divides the blocks of a row, and then its columns, until the weights of AHEAD chunks fit. */
static void shrink_chunk(const struct budget *u, struct rvl_tiling *t)
{
	int64_t left = u->wgt - t->prm_slots * t->og * rvl_div_up(u->b->tm * 8, RIVULET_WGT_WORD);

	t->ph = 1;
	t->ig = u->icb;
	while (t->og * slot_blocks(&u->nest, t) * AHEAD > left && (t->ig > 1 || t->pw > 1)) {
		if (t->ig > 1)
			t->ig = next_cut(u->icb, t->ig);
		else
			t->pw = rvl_div_up(t->pw, 2);
	}
}

/*
 * One tile and one group, whose sums stay in ACC. The weights of each chunk are used once, so that
 * there is no choice but the number of slots: as many as fit.
 */
static bool tile_by_parts(const struct rivulet_board *b, struct rvl_layer *l,
			  const struct rvl_room *room)
{
	struct budget u = whole_layer(b, l);
	struct rvl_tiling t = { .og = u.ocb,
				.ig = rvl_min(rvl_max(l->from->chunk, 1), u.icb),
				.ph = u.nest.kh,
				.pw = u.nest.kw,
				.tw = u.ow,
				.th = u.oh,
				.prm_slots = 1,
				.acc_slots = 1,
				.out_slots = !l->to,
				.b_slots = rvl_loads_b(l) };
	struct rvl_ocgroup all = { .on = u.ocb, .ibn = u.icb };
	int64_t chunks, left;

	u.inp = room->inp;
	u.wgt = room->wgt - rvl_epilogue_words(l);
	u.acc = room->acc;
	if (rvl_takes_taps(l))
		shrink_chunk(&u, &t);
	chunks = rvl_chunks(l, &u.nest, &t, &all, NULL);
	slot_sizes(&u, &t);
	left = u.wgt - t.prm_slots * t.prm_words;
	t.wgt_slots = rvl_min(rvl_min(chunks, MAX_SLOTS), left > 0 ? left / t.wgt_words : 0);
	l->t = t;
	return room->th >= u.oh && t.wgt_slots >= rvl_min(chunks, 2) && conv_fits(&u, &t);
}

static struct rvl_room whole_room(const struct rivulet_board *b)
{
	return (struct rvl_room){ rivulet_mem_words(b, RIVULET_MEM_INP),
				  rvl_wgt_words(b),
				  rivulet_mem_words(b, RIVULET_MEM_ACC), RVL_MOST_COUNT, 0, false };
}

uint32_t rvl_cuts(const struct rivulet_board *b, struct rvl_layer *l, const struct rvl_room *room,
		  struct rvl_tiling *cut, uint32_t n)
{
	struct search s = { .cut = cut, .most_cuts = n };
	struct rvl_room all = whole_room(b);

	run_search(b, l, room ? room : &all, &s);
	return s.cuts;
}

/* ---- layers without weights ---- */

static int64_t plain_in(const struct rvl_layer *l, int64_t n, int dim)
{
	const struct rvl_window *p = &l->e.pwin;
	int64_t full = dim ? l->in.v.w : l->in.v.h;

	if (!l->e.pool)
		return n;
	return window_span(n, dim ? p->sx : p->sy, dim ? p->kw : p->kh, dim ? p->dx : p->dy, full);
}

static bool plain_fits(const struct budget *u, struct rvl_tiling *t)
{
	const struct rvl_layer *l = u->l;
	int64_t h = plain_in(l, t->th, 0), w = plain_in(l, t->tw, 1);

	if (h > RVL_MOST_COUNT || w > RVL_MOST_COUNT || t->og > MAX_OCB ||
	    !divides_bits(l, t->tw, rvl_plain_view(l)->w))
		return false;
	t->in_words = h * w * t->og << l->in.v.wide;
	t->out_words = l->e.stages ? t->th * t->tw * t->og << (l->out.v.wide || l->b.v.wide) : 0;
	t->bit_words = bit_words(u->b, l, t->th, t->tw);
	return t->in_slots * t->in_words + (t->out_slots + t->b_slots) * t->out_words +
		       t->bit_slots * t->bit_words <= u->inp;
}

static bool tile_plain(const struct rivulet_board *b, struct rvl_layer *l, int64_t inp)
{
	struct budget u = { .b = b, .l = l, .inp = inp };
	const struct rvl_view *v = rvl_plain_view(l);
	int64_t blocks = rvl_div_up(l->rep.phases ? l->out.v.c : l->in.v.c, b->tn);
	int64_t most = l->spread ? MAX_SPREAD : RVL_MOST_COUNT;
	/* Pixels of the operand, each so many of the result: tiles consist of whole ones. */
	int64_t ry = rvl_max(l->rep.rows, 1), rx = rvl_max(l->rep.cols, 1), w, h;
	struct rvl_tiling t;

	if (rvl_epilogue_words(l) > b->wgt_bytes / RIVULET_WGT_WORD)
		return false;
	for (int copies = 2; copies >= 1; copies--) {
		t = (struct rvl_tiling){ .in_slots = copies,
					 .out_slots = l->e.only || l->to ? 0 : copies,
					 .bit_slots = l->has_bits ? copies : 0,
					 .b_slots = l->has_b ? copies : 0 };
		for (w = rvl_min(v->w, most) / rx; w >= 1; w /= 2) {
			t.tw = w * rx;
			for (h = rvl_min(v->h, most) / ry; h >= 1; h /= 2) {
				t.th = h * ry;
				for (t.og = rvl_min(blocks, MAX_OCB); t.og >= 1;
				     t.og = l->has_bits ? 0 : t.og / 2) {
					if (plain_fits(&u, &t))
						goto found;
				}
			}
		}
	}
	return false;
found:
	if (!l->has_bits && t.og >= 4 && t.og == blocks &&
	    t.in_words > 512) /* some of it loads while some is stored */
		t.og = rvl_div_up(t.og, 4);
	plain_fits(&u, &t);
	l->t = t;
	return true;
}

/* Columns of a tile of @th rows and one block that the ALU computes while the array does not wait.
 */
static int64_t short_pass(const struct rivulet_board *b, const struct rvl_layer *l, int64_t th)
{
	struct rivulet_alu_stages stages = rvl_epilogue_stages(l);
	int64_t cols = l->out.v.w, result = rivulet_alu_result(b, b->tn, &stages);

	return rvl_div_up(cols, rvl_div_up(cols * th * result, SHORT_PASS));
}

/* All columns and blocks of as many rows as @room allows; the operand is in a ring. */
static bool tile_plain_rows(const struct rivulet_board *b, struct rvl_layer *l,
			    const struct rvl_room *room)
{
	int64_t blocks = rvl_div_up(l->out.v.c, b->tn), cols = l->out.v.w;
	int64_t og = l->has_bits ? blocks : 1;
	int64_t row = 2 * ((l->to ? 0 : cols * og) + bit_words(b, l, 1, cols));
	struct rvl_tiling t = {
		.tw = cols, .og = og, .out_slots = l->to ? 0 : 2, .bit_slots = l->has_bits ? 2 : 0
	};

	t.th = rvl_min(room->th, l->out.v.h);
	if (row)
		t.th = rvl_min(t.th, room->inp / row);
	if (t.th < 1 || blocks > MAX_OCB || l->in.v.w > RVL_MOST_COUNT || l->in.v.h > RVL_MOST_COUNT ||
	    rvl_epilogue_words(l) > room->wgt)
		return false;
	if (!l->has_bits)
		t.tw = short_pass(b, l, t.th);
	t.out_words = t.th * t.tw * og;
	t.bit_words = bit_words(b, l, t.th, cols);
	l->t = t;
	return true;
}

bool rvl_tile(const struct rivulet_board *b, struct rvl_layer *l)
{
	struct rvl_room all = whole_room(b);

	return l->mode ? tile_conv(b, l, &all, false) : tile_plain(b, l, all.inp);
}

bool rvl_fits(const struct rivulet_board *b, struct rvl_layer *l)
{
	struct rvl_room all = whole_room(b);

	return l->mode ? tile_conv(b, l, &all, true) : tile_plain(b, l, all.inp);
}

bool rvl_tile_within(const struct rivulet_board *b, struct rvl_layer *l,
		     const struct rvl_room *room)
{
	if (rvl_takes_parts(l))
		return tile_by_parts(b, l, room);
	if (l->mode)
		return tile_conv(b, l, room, false);
	return l->from ? tile_plain_rows(b, l, room) : tile_plain(b, l, room->inp);
}

/* SPDX-License-Identifier: MIT */
/*
 * NPU segments to layers: what is fused into one pass, which tensors are the same bytes, and in
 * which form each value lies in memory.
 */
#include "npu/backend.h"
#include "npu/constraint.h"
#include "npu/epilogue.h"
#include "npu/slopes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STRIDE   31
#define MAX_DILATION 63
#define MAX_PIXEL    15 /* channels of an NHWC image that LOAD gathers */

/* ---- what fits ---- */

static bool io_reachable(const struct rvl_graph *g, const struct rvl_tensor *t)
{
	for (uint32_t i = 0; t->is_input && i < g->n_inputs; i++)
		if (g->inputs[i] == t && i >= RIVULET_MAX_IO)
			return false;
	for (uint32_t i = 0; t->is_output && i < g->n_outputs; i++)
		if (g->outputs[i] == t && g->n_inputs + i >= RIVULET_MAX_IO)
			return false;
	return true;
}

/* NULL if the board computes the layer in its mode, else why not. */
static const char *fits_in_mode(const struct rvl_graph *g, const struct rivulet_board *b,
				struct rvl_layer *l)
{
	const char *why = l->mode ? rvl_mode_missing(b, l->mode) : NULL;

	if (why)
		return why;
	if (l->rep.phases && l->out.v.c % b->tn)
		return "the channels of its result are no multiple of those of a word";
	if (l->mode && rvl_mode_at(l, g->sc_longest)->cycles(b, l->p.macs, g->sc_longest) >=
			       (uint64_t)b->cycle_cap << 20)
		return "it takes more cycles than this board allows a program";
	if (rvl_fits(b, l))
		return NULL;
	return l->too_long ? "its command stream would be longer than the compiler allows a layer" :
			     "no tile of it fits this board's scratchpads";
}

/*
 * Gives @l a mode in which the board computes it, if its own does not. Which mode of several computes
 * it at the least cost is decided when all layers are known.
 */
static const char *settle_mode(struct rvl_graph *g, const struct rivulet_board *b,
			       struct rvl_layer *l)
{
	const char *why = fits_in_mode(g, b, l);
	const struct rvl_mode *mode;

	for (uint32_t i = 0; why && l->mode && (mode = rvl_mode_number(i)); i++) {
		struct rvl_layer other = *l;

		if (mode == l->mode || !rvl_mode_replaces(g, b, mode, &other) ||
		    fits_in_mode(g, b, &other))
			continue;
		*l = other;
		return NULL;
	}
	return why;
}

const char *rvl_backend_fits(struct rvl_graph *g, const struct rvl_node *n, void *arg)
{
	const struct rivulet_board *b = arg;
	struct rvl_arena_mark before = rvl_arena_mark(g->arena);
	struct rvl_layer *l;
	const char *why;

	for (uint32_t i = 0; i < n->n_in; i++)
		if (n->in[i] && !io_reachable(g, n->in[i]))
			return "the device reaches only the first 12 inputs and outputs";
	for (uint32_t i = 0; i < n->n_out; i++)
		if (n->out[i] && !io_reachable(g, n->out[i]))
			return "the device reaches only the first 12 inputs and outputs";
	l = rvl_layer_build(g, n, false, &why);
	if (l && rvl_layer_settle(g, b, l, &why))
		why = settle_mode(g, b, l);
	if (!why) /* else the reason may be in the arena */
		rvl_arena_rewind(g->arena, &before);
	return why;
}

/* ---- fusion ---- */

static int64_t position(const struct rvl_graph *g, const struct rvl_segment *s,
			const struct rvl_node *n)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (g->nodes[s->first + i] == n)
			return i;
	return -1;
}

/* The one node that reads @t, if it is in this segment and nothing else sees @t. */
static struct rvl_node *sole_user(const struct rvl_graph *g, const struct rvl_segment *s,
				  const struct rvl_tensor *t)
{
	if (t->n_users != 1 || t->is_output || position(g, s, t->users[0]) < 0)
		return NULL;
	return t->users[0];
}

/* What a layer computes beside its own node, and the tensor that it makes. */
struct fusion {
	const struct rvl_node *node[RVL_FUNCTION_NODES + 3];
	uint32_t n;
	struct rvl_tensor *x; /* operand, if it is not the first of the layer's node; else NULL */
	struct rvl_tensor *y;
	struct rvl_tensor *b; /* second operand of a fused node, or NULL */
	struct rvl_tensor *bits; /* second result, or NULL */
};

/* A layer, then an addition whose other operand is there before the layer runs. */
static bool fuse_bin(struct rvl_backend *be, const struct rvl_segment *s, struct rvl_layer *l,
		     const struct rvl_node *bin, struct fusion *f)
{
	struct rvl_graph *g = be->g;
	bool rev = bin->in[1] == f->y;
	struct rvl_tensor *other = bin->in[rev ? 0 : 1];
	const char *why;
	struct rvl_layer *e;

	if (other->producer && position(g, s, other->producer) > position(g, s, l->node))
		return false;
	e = rvl_build_bin(g, bin, true, &why);
	if (!e || e->spread || !rvl_view_equal(&e->out.v, &l->out.v))
		return false;
	rvl_epilogue_add(l, &rvl_stage_second);
	f->b = other;
	l->has_b = true;
	l->b = rev ? e->in : e->b;
	l->e.bin = rev && e->e.bin == RIVULET_BIN_ADD ? RIVULET_BIN_ADD_REV : e->e.bin;
	l->e.ra = l->e.bin == RIVULET_BIN_ADD_REV ? e->e.rb : e->e.ra;
	l->e.rb = l->e.bin == RIVULET_BIN_ADD_REV ? e->e.ra : e->e.rb;
	l->e.rc = e->e.rc;
	l->e.az = rev ? e->e.bz : e->e.az;
	l->e.bz = rev ? e->e.az : e->e.bz;
	l->e.out_zp = e->e.out_zp;
	l->e.out_lo = e->e.out_lo;
	l->e.out_hi = e->e.out_hi;
	l->out = e->out;
	return true;
}

/* A layer, then a pool: no product is computed twice unless all of it is one tile. */
static bool fuse_pool(struct rvl_backend *be, struct rvl_layer *l, const struct rvl_node *pool)
{
	const char *why;
	struct rvl_layer *p = rvl_build_pool(be->g, pool, true, &why);

	if (!p || l->p.win.sy > MAX_STRIDE || l->p.win.sx > MAX_STRIDE || pool->n_out > 1)
		return false;
	if (!rvl_view_equal(&p->in.v, &l->out.v))
		return false;
	if (l->mode && (p->e.pwin.kh > p->e.pwin.sy || p->e.pwin.kw > p->e.pwin.sx) &&
	    p->out.v.h * p->out.v.w > 1)
		return false;
	rvl_epilogue_add(l, &rvl_stage_pool);
	l->e.pool = p->e.pool;
	l->e.pwin = p->e.pwin;
	memcpy(l->e.rect, p->e.rect, sizeof(l->e.rect));
	l->e.pool_mult = p->e.pool_mult;
	l->e.pool_zp = p->e.pool_zp;
	l->e.out_zp = p->e.out_zp;
	l->e.out_lo = p->e.out_lo;
	l->e.out_hi = p->e.out_hi;
	l->out = p->out;
	return true;
}

/* Takes the PRelu by channel that alone reads the layer's result into it. */
static void fuse_slopes(struct rvl_backend *be, const struct rvl_segment *s, struct rvl_layer *l,
			struct fusion *f)
{
	struct rvl_node *u = sole_user(be->g, s, f->y);
	struct rvl_layer before = *l;

	if (!u || !l->mode || l->e.real || rvl_npu_joins(u) != RVL_JOINS_AS_SLOPES)
		return;
	if (!rvl_layer_take_slopes(be->g, be->board, l, u) || !rvl_fits(be->board, l)) {
		*l = before;
		return;
	}
	f->node[f->n++] = u;
	f->y = u->out[0];
}

/* Takes the functions of the layer's result into it, if nothing else reads it. */
static void fuse_table(struct rvl_backend *be, struct rvl_layer *l, struct fusion *f)
{
	struct rvl_layer before = *l;
	struct rvl_function t;
	const char *why;

	if ((!l->mode && !rvl_epilogue_has(l, &rvl_stage_slopes)) || l->e.real ||
	    !rvl_function_find(f->y, l->node->segment, true, &t))
		return;
	if (!rvl_layer_take_table(l, &t, &why) || !rvl_fits(be->board, l)) {
		*l = before;
		return;
	}
	for (uint32_t i = 0; i < t.n; i++)
		f->node[f->n++] = t.node[i];
	f->y = t.y;
}

/* Takes the pool, addition or product that alone reads the layer's result into it. */
static void fuse_user(struct rvl_backend *be, const struct rvl_segment *s, struct rvl_layer *l,
		      struct fusion *f)
{
	struct rvl_node *u = sole_user(be->g, s, f->y);
	struct rvl_layer before = *l;
	bool ok = false;

	if (!u || l->e.real ||
	    (!l->mode && !rvl_epilogue_has(l, &rvl_stage_table) && !rvl_epilogue_has(l, &rvl_stage_slopes)))
		return;
	if (rvl_npu_joins(u) == RVL_JOINS_AS_SECOND)
		ok = fuse_bin(be, s, l, u, f);
	else if (rvl_npu_joins(u) == RVL_JOINS_AS_POOL)
		ok = fuse_pool(be, l, u);
	if (!ok || !rvl_fits(be->board, l)) {
		*l = before;
		f->b = NULL;
		return;
	}
	f->node[f->n++] = u;
	f->y = u->out[0];
}

/* Takes the signs of the layer's result into it; others may read the result, too. */
static void fuse_bits(struct rvl_backend *be, const struct rvl_segment *s, struct rvl_layer *l,
		      struct fusion *f)
{
	struct rvl_layer before = *l;
	bool only = f->y->n_users == 1 && !f->y->is_output;

	for (uint32_t i = 0; i < f->y->n_users && !f->bits; i++) {
		struct rvl_node *u = f->y->users[i];

		if (rvl_npu_joins(u) != RVL_JOINS_AS_BITS || position(be->g, s, u) < 0)
			continue;
		if (!rvl_layer_take_bits(be->g, be->board, l, u, only) || !rvl_fits(be->board, l)) {
			*l = before;
			return;
		}
		f->bits = u->out[0];
		f->node[f->n++] = u;
	}
}

static const char *join(struct rvl_graph *g, const char *a, const char *b)
{
	if (!a || !*a)
		return b;
	return b && *b ? rvl_graph_printf(g, "%s+%s", a, b) : a;
}

static void name_fused(struct rvl_backend *be, struct rvl_layer *l, const struct fusion *f)
{
	l->fused = l->node->fused;
	for (uint32_t i = 0; i < f->n; i++) {
		l->fused = join(be->g, l->fused, f->node[i]->name);
		l->fused = join(be->g, l->fused, f->node[i]->fused);
	}
}

/* ---- layers of a segment ---- */

static int add_layer(struct rvl_backend *be, struct rvl_layer *l)
{
	if (be->n_layers == be->cap_layers) {
		uint32_t cap = be->cap_layers ? 2 * be->cap_layers : 64;
		struct rvl_layer **p = realloc(be->layer, cap * sizeof(*p));

		if (!p)
			return -ENOMEM;
		be->layer = p;
		be->cap_layers = cap;
	}
	be->layer[be->n_layers++] = l;
	return 0;
}

static bool is_alias(const struct rvl_backend *be, const struct rvl_node *n)
{
	return n->free || (rvl_op_renames(n->op) &&
			   be->store[n->out[0]->id] == be->store[n->in[0]->id]);
}

/* The last layer that makes an operand of an alias, so that the alias comes to be in the same step. */
static uint32_t layer_of_alias(const struct rvl_backend *be, const struct rvl_segment *s,
			       const struct rvl_node *n, const uint32_t *node_layer, uint32_t first)
{
	uint32_t l = first;

	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct rvl_node *p = n->in[i] ? n->in[i]->producer : NULL;

		if (p && position(be->g, s, p) >= 0)
			l = rvl_max(l, node_layer[p->id]);
	}
	return l;
}

/* LOAD and STORE address an image in NHWC, which a step on the CPU makes or reads, pixel by pixel. */
static void in_layout(struct rvl_operand *o, const struct rvl_tensor *t)
{
	if (t->layout != RIVULET_LAYOUT_NHWC)
		return;
	o->v.inter = true;
	o->s->plain = true;
}

/*
 * The layer of a function of one value, of which @n is the first node in the order of the segment; NULL
 * if @n is in none.
 */
static struct rvl_layer *function_layer(struct rvl_backend *be, struct rvl_node *n, struct fusion *f)
{
	struct rvl_tensor *x = n->in[0]->data ? n->in[1] : n->in[0];
	struct rvl_function t;
	struct rvl_layer *l;
	const char *why;

	if (rvl_npu_joins(n) != RVL_JOINS_AS_TABLE && rvl_npu_joins(n) != RVL_JOINS_AS_SECOND)
		return NULL;
	if (!rvl_function_find(x, n->segment, false, &t) || !rvl_function_has(&t, n))
		return NULL;
	l = rvl_build_function(be->g, &t, &why);
	if (!l || !rvl_fits(be->board, l))
		return NULL;
	l->node = n;
	for (uint32_t i = 0; i < t.n; i++)
		if (t.node[i] != n)
			f->node[f->n++] = t.node[i];
	f->x = t.x;
	f->y = t.y;
	return l;
}

/* The layer that begins with @n, with all that it takes. */
static struct rvl_layer *layer_of(struct rvl_backend *be, const struct rvl_segment *s, struct rvl_node *n,
				  struct fusion *f, const char **why)
{
	struct rvl_layer *l = function_layer(be, n, f);

	if (!l) {
		l = rvl_layer_build(be->g, n, true, why);
		if (l && rvl_layer_settle(be->g, be->board, l, why))
			*why = settle_mode(be->g, be->board, l);
		if (!l || *why)
			return NULL;
		fuse_slopes(be, s, l, f);
		fuse_table(be, l, f);
	}
	fuse_user(be, s, l, f);
	fuse_bits(be, s, l, f);
	return l;
}

static void bind_stores(struct rvl_backend *be, struct rvl_layer *l, const struct rvl_node *n,
			const struct fusion *f)
{
	struct rvl_tensor *x = f->x ? f->x : n->in[l->swapped];
	struct rvl_tensor *bits = f->bits ? f->bits : n->out[l->e.only ? 0 : n->n_out - 1];
	struct rvl_tensor *y = l->e.only ? bits : f->y, *b;

	l->in.s = be->store[x->id];
	l->out.s = be->store[y->id];
	in_layout(&l->in, x);
	in_layout(&l->out, y);
	if (l->has_bits)
		l->bits.s = be->store[bits->id];
	if (!l->has_b)
		return;
	b = f->b ? f->b : rvl_layer_second(l);
	l->b.s = be->store[b->id];
	in_layout(&l->b, b);
}

static int lower_node(struct rvl_backend *be, const struct rvl_segment *s, struct rvl_node *n,
		      struct fusion *f)
{
	const char *why = "";
	struct rvl_layer *l = layer_of(be, s, n, f, &why);

	if (!l)
		return rvl_fail(be->err, -EINVAL, "node \"%s\" (%s): %s", n->name, n->op_type, why);
	name_fused(be, l, f);
	bind_stores(be, l, n, f);
	if (n->op == RVL_OP_TRANSPOSE) /* one side is not seen as its tensor's own image */
		(l->in.v.inter ? l->in.s : l->out.s)->plain = true;
	return add_layer(be, l);
}

/* Layers of one segment; @node_layer gets the layer of every node: of a node fused, the layer it is in. */
static int lower_segment(struct rvl_backend *be, const struct rvl_segment *s, uint32_t *node_layer)
{
	uint32_t first = be->n_layers;

	for (uint32_t i = 0; i < s->count; i++) {
		struct rvl_node *n = be->g->nodes[s->first + i];
		struct fusion f = { .y = n->out[0] };
		int rc;

		if (node_layer[n->id] != RVL_NONE)
			continue; /* fused into an earlier one */
		if (is_alias(be, n)) {
			node_layer[n->id] = layer_of_alias(be, s, n, node_layer, first);
			continue;
		}
		node_layer[n->id] = be->n_layers;
		rc = lower_node(be, s, n, &f);
		if (rc)
			return rc;
		for (uint32_t k = 0; k < f.n; k++)
			node_layer[f.node[k]->id] = be->n_layers - 1;
	}
	return 0;
}

/* ---- forms ---- */

static void see(struct rvl_store *s, const struct rvl_view *v)
{
	if (s->place == RIVULET_PLACE_CONST)
		s->plain = true;
	if (s->viewed && !rvl_view_equal(&s->view, v))
		s->plain = true;
	s->view = *v;
	s->viewed = true;
}

/*
 * A matrix product over a flattened image reads the image, if that needs no padding of channels. The
 * inputs of the product are in the order of planes: an image with the channels innermost, as another
 * product makes, is no such image.
 */
static void over_image(struct rvl_backend *be, struct rvl_layer *l)
{
	struct rvl_store *s = l->in.s;
	const struct rvl_view *v = &s->view;
	struct rvl_layer before = *l;

	/* Another mode than the node's has formed the product as a matrix. */
	if (l->mode != rvl_mode_of(l->node) || l->node->op != RVL_OP_Q_MATMUL || s->plain || !s->viewed || l->e.pool || l->e.bin)
		return;
	if (rvl_view_equal(v, &l->in.v) || v->n * v->c * v->h * v->w != l->in.v.c * l->in.v.w ||
	    v->n != l->in.v.w)
		return;
	if (v->h * v->w > 1 && (v->c % be->board->tn || v->inter))
		return;
	rvl_matmul_over_image(l, v);
	if (!rvl_fits(be->board, l))
		*l = before;
}

static int64_t gather_blocks(const struct rivulet_board *b, const struct rvl_layer *l)
{
	return rvl_div_up(l->in.v.c * l->p.win.kh * l->p.win.kw, b->tn);
}

bool rvl_can_gather(const struct rvl_backend *be, const struct rvl_layer *l)
{
	const struct rivulet_board *b = be->board;
	const struct rvl_window *w = &l->p.win;
	const struct rivulet_insn_l_gather gather = {
		.kh = w->kh, .kw = w->kw, .sx = w->sx, .dx = w->dx, .ch = l->in.v.c
	};

	return !be->opt->no_gather && l->mode && !l->mode->direct && l->p.group == 1 &&
	       (!l->in.v.inter || l->in.v.c <= MAX_PIXEL) && w->kh * w->kw > 1 &&
	       l->in.v.c <= 255 && w->kh <= MAX_STRIDE && w->kw <= MAX_STRIDE &&
	       w->sy <= MAX_STRIDE && w->sx <= MAX_STRIDE && w->dy <= MAX_DILATION &&
	       w->dx <= MAX_DILATION && l->in.v.h <= 65535 && l->in.v.w <= 65535 &&
	       w->top <= 32768 && w->left <= 32768 && gather_blocks(b, l) <= RVL_MOST_COUNT &&
	       rivulet_gather_strip(b, &gather) > 0;
}

bool rvl_backend_reads_nhwc(const struct rvl_node *n, void *board)
{
	const struct rivulet_board *b = board;
	const struct rvl_shape *x = &n->in[0]->shape;
	int64_t taps = n->attr.kernel[0] * (int64_t)n->attr.kernel[1];

	if (n->op != RVL_OP_Q_CONV || n->attr.group != 1 || taps == 1 || x->dim[1] <= MAX_PIXEL)
		return true;
	return rvl_div_up(x->dim[1] * taps, b->tn) >= rvl_div_up(x->dim[1], b->tn) * taps;
}

/* Whether a third of the array's work or more is saved. */
static bool wants_gather(const struct rvl_backend *be, const struct rvl_layer *l)
{
	const struct rivulet_board *b = be->board;
	int64_t direct = rvl_div_up(l->in.v.c, b->tn) * l->p.win.kh * l->p.win.kw;

	return rvl_can_gather(be, l) && gather_blocks(b, l) * 3 <= direct * 2;
}

/* A value that only gathering convolutions read is PLAIN. */
static void prefer_plain(struct rvl_backend *be)
{
	for (uint32_t i = 0; i < be->n_layers; i++) {
		struct rvl_store *s = be->layer[i]->in.s;
		bool all = true;

		if (s->plain || s->base || s->has_parts || !wants_gather(be, be->layer[i]))
			continue;
		for (uint32_t j = 0; j < be->n_layers && all; j++) {
			const struct rvl_layer *l = be->layer[j];

			all = !(l->has_b && l->b.s == s) &&
			      (l->in.s != s || wants_gather(be, l));
		}
		s->plain = all;
	}
}

/* With stochastic layers the cut is final; else rvl_decide() chooses it. */
static bool choose_gather(struct rvl_backend *be, struct rvl_layer *l)
{
	struct rvl_layer direct = *l;
	bool may = !l->in.s->blocked && rvl_can_gather(be, l);
	bool fits = may || be->opt->stochastic ? rvl_tile(be->board, &direct) : rvl_fits(be->board, &direct);

	if (may) {
		l->p.gather = true;
		if (rvl_tile(be->board, l) && (!fits || l->t.cost < direct.t.cost)) {
			return true;
		}
	}
	*l = direct;
	return fits;
}

/*
 * Byte of a BLOCKED image at which part @s of it begins, s->at being that of the PLAIN image; false
 * where the part is no run of whole blocks. What is only read may end inside a block, because readers
 * take the channels that their view has.
 */
static bool part_of_blocks(const struct rvl_store *s, int64_t tn, uint64_t *out)
{
	const struct rvl_view *whole = &s->base->view, *part = &s->view;
	uint64_t plane = whole->h * whole->w << whole->wide, image = whole->c * plane;
	uint64_t at = s->at;
	int64_t c0 = at % image / plane;

	if (part->h != whole->h || part->w != whole->w || part->wide != whole->wide || at % plane ||
	    (whole->h * whole->w > 1 && (whole->inter || part->inter)))
		return false;
	if (part->c == whole->c ? c0 != 0 : whole->n != 1 || part->n != 1)
		return false;
	if (c0 % tn || (s->made && part->c % tn && c0 + part->c != whole->c))
		return false;
	*out = at / image * (rvl_div_up(whole->c, tn) * tn * plane) + c0 * plane;
	return true;
}

/* A value and its parts have one form: BLOCKED where each part is a run of blocks. */
static void agree_on_forms(struct rvl_backend *be)
{
	for (uint32_t i = 0; i < be->g->n_tensors; i++) {
		struct rvl_store *s = be->store[i];
		uint64_t at;

		if (!s || !s->base)
			continue;
		if (s->plain || !s->viewed || !s->base->viewed ||
		    !part_of_blocks(s, be->board->tn, &at))
			s->base->plain = true;
	}
	for (uint32_t i = 0; i < be->g->n_tensors; i++) {
		struct rvl_store *s = be->store[i];

		if (s && s->base)
			s->plain = s->base->plain;
		if (s && s->base && !s->plain)
			part_of_blocks(s, be->board->tn, &s->at);
		if (s && (s->base || s->has_parts))
			s->blocked = !s->plain;
	}
}

/*
 * A layer that treats each byte by itself, from PLAIN bytes to PLAIN bytes of the same order, needs
 * no image: a row of words takes few long bursts, where the rows of each channel would be a burst
 * each.
 */
static void flatten(const struct rivulet_board *b, struct rvl_layer *l)
{
	const struct rvl_view *v = &l->out.v;
	int64_t bytes = v->n * v->c * v->h * v->w;
	struct rvl_operand *o[] = { &l->in, &l->out, &l->b };
	uint32_t n = l->has_b ? 3 : 2;

	if (l->mode || l->spread || l->has_bits || l->e.ext_fields ||
	    rvl_epilogue_has(l, &rvl_stage_pool) || bytes % b->tn)
		return;
	for (uint32_t i = 0; i < n; i++)
		if (o[i]->s->blocked || !rvl_view_equal(&o[i]->v, v) || o[i]->v.inter != v->inter)
			return;
	for (uint32_t i = 0; i < n; i++) {
		o[i]->v = (struct rvl_view){ .n = 1, .c = b->tn, .h = 1, .w = bytes / b->tn };
		o[i]->flat = true;
	}
}

static bool in_planes(const struct rvl_operand *o)
{
	return o->v.wide && o->s->plain && !o->v.inter;
}

static int choose_forms(struct rvl_backend *be)
{
	for (uint32_t i = 0; i < be->n_layers; i++) {
		struct rvl_layer *l = be->layer[i];

		over_image(be, l);
		see(l->in.s, &l->in.v);
		see(l->out.s, &l->out.v);
		l->out.s->made = true;
		if (l->has_b)
			see(l->b.s, &l->b.v);
		if (l->has_bits)
			see(l->bits.s, &l->bits.v);
		if (l->has_bits)
			l->bits.s->made = true;
		if (l->spread && l->b.v.c == 1)
			l->b.s->plain = true;
	}
	prefer_plain(be);
	agree_on_forms(be);
	for (uint32_t i = 0; i < be->n_layers; i++)
		if (in_planes(&be->layer[i]->in) || in_planes(&be->layer[i]->out) ||
		    (be->layer[i]->has_b && in_planes(&be->layer[i]->b)))
			return rvl_fail(be->err, -EOPNOTSUPP,
					"node \"%s\": an image of int16 in NCHW, of which LOAD and STORE address no planes; --wide-binary no makes it bytes",
					be->layer[i]->node->name);
	for (uint32_t i = 0; i < be->n_layers; i++) {
		struct rvl_layer *l = be->layer[i];

		l->in.s->blocked = !l->in.s->plain;
		l->out.s->blocked = !l->out.s->plain;
		if (l->has_b)
			l->b.s->blocked = !l->b.s->plain;
		if (l->has_bits)
			l->bits.s->blocked = !l->bits.s->plain;
	}
	for (uint32_t i = 0; i < be->n_layers; i++)
		flatten(be->board, be->layer[i]);
	for (uint32_t i = 0; i < be->n_layers; i++)
		if (!choose_gather(be, be->layer[i]))
			return rvl_fail(be->err, -EINVAL, "internal: no tiling for node \"%s\"",
					be->layer[i]->node->name);
	return 0;
}

static void size_stores(struct rvl_backend *be)
{
	for (uint32_t i = 0; i < be->g->n_tensors; i++) {
		struct rvl_store *s = be->store[i];
		int64_t bytes;

		if (!s)
			continue;
		bytes = rvl_tensor_span(s->root);
		s->size = bytes < 0 ? 0 : bytes;
		if (s->root->npu_bytes)
			s->size = s->view.n * s->view.c * s->view.h * s->view.w;
		if (s->blocked)
			s->size = s->view.n * rvl_blocks(be->board, &s->view) * be->board->tn *
				  s->view.h * s->view.w;
	}
}

int rvl_lower(struct rvl_backend *be)
{
	uint32_t ids = be->g->next_node_id + 1;
	uint32_t *node_layer = malloc(ids * sizeof(*node_layer));
	int rc = 0;

	if (!node_layer)
		return -ENOMEM;
	for (uint32_t i = 0; i < ids; i++)
		node_layer[i] = RVL_NONE;
	rc = rvl_stores_make(be);
	for (uint32_t i = 0; i < be->g->n_segs && !rc; i++)
		if (be->g->segs[i].place == RVL_PLACE_NPU)
			rc = lower_segment(be, &be->g->segs[i], node_layer);
	if (!rc)
		rc = choose_forms(be);
	if (!rc)
		size_stores(be);
	if (!rc)
		rc = rvl_steps_make(be, node_layer);
	if (!rc)
		rvl_count_readers(be);
	free(node_layer);
	return rc;
}

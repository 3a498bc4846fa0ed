/* SPDX-License-Identifier: MIT */
/* The stages of the ALU (docs/isa.md 6), in the order in which it applies them. */
#include "npu/epilogue.h"

#include <math.h>

#define TABLE_WORDS (256 / RIVULET_WGT_WORD)

/* ---- requantise ---- */

static void config_requantise(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt)
{
	const struct rvl_mode *mode = rvl_mode_at(l, s->length);
	struct rivulet_decoded rq = { .a_rq = { .zp = l->e.rq_zp,
						.lo = l->e.rq_lo,
						.hi = l->e.rq_hi,
						.length = mode->rescale ? mode->rescale(s->length) : 0 } };

	(void)wgt;
	rvl_emit_cfg(s, RIVULET_FORM_a_rq, &rq);
}

static void apply_requantise(struct rvl_stream *s, const struct rvl_layer *l,
			     const struct rvl_alu_pass *p, struct rivulet_insn_alu *alu)
{
	(void)s;
	(void)l;
	alu->rq = 1;
	alu->prm = p->prm;
}

static void touch_requantise(struct rvl_insn_op *op, const struct rvl_layer *l,
			     const struct rvl_alu_pass *p)
{
	rvl_touch_spad(op, RVL_AT_WGT, p->prm, l->t.prm_words, false);
}

const struct rvl_stage rvl_stage_requantise = { .name = "requantise",
						.config = config_requantise,
						.apply = apply_requantise,
						.touch = touch_requantise };

/* ---- slopes ---- */

static void config_slopes(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt)
{
	struct rivulet_decoded slope = { .a_slope = { .zp = l->e.slope_zp,
						      .out = l->e.slope_out,
						      .lo = l->e.slope_lo,
						      .hi = l->e.slope_hi } };

	(void)wgt;
	rvl_emit_cfg(s, RIVULET_FORM_a_slope, &slope);
}

static void apply_slopes(struct rvl_stream *s, const struct rvl_layer *l,
			 const struct rvl_alu_pass *p, struct rivulet_insn_alu *alu)
{
	(void)s;
	(void)l;
	(void)p;
	alu->slope = 1;
}

const struct rvl_stage rvl_stage_slopes = { .name = "slopes",
					    .config = config_slopes,
					    .apply = apply_slopes };

/* ---- table ---- */

static void load_table(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt)
{
	rvl_emit_load_wgt(s, l->e.lut_off, TABLE_WORDS, wgt);
}

static void config_table(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt)
{
	struct rivulet_decoded d = { .a_lut.addr = wgt };

	(void)l;
	rvl_emit_cfg(s, RIVULET_FORM_a_lut, &d);
}

static void apply_table(struct rvl_stream *s, const struct rvl_layer *l,
			const struct rvl_alu_pass *p, struct rivulet_insn_alu *alu)
{
	(void)s;
	(void)l;
	(void)p;
	alu->lut = 1;
}

static void touch_table(struct rvl_insn_op *op, const struct rvl_layer *l,
			const struct rvl_alu_pass *p)
{
	(void)l;
	rvl_touch_spad(op, RVL_AT_WGT, p->table, TABLE_WORDS, false);
}

const struct rvl_stage rvl_stage_table = { .name = "table",
					   .wgt_words = TABLE_WORDS,
					   .load = load_table,
					   .config = config_table,
					   .apply = apply_table,
					   .touch = touch_table };

/* ---- pool ---- */

static void emit_outputs(struct rvl_stream *s, const struct rvl_layer *l)
{
	struct rivulet_decoded out = { .a_out = { .zp = l->e.out_zp,
						  .lo = l->e.out_lo,
						  .hi = l->e.out_hi,
						  .az = l->e.az,
						  .bz = l->e.bz } };

	rvl_emit_cfg(s, RIVULET_FORM_a_out, &out);
}

static void config_pool(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt)
{
	struct rivulet_decoded div = { .a_div = { .mult = rvl_float_bits(l->e.pool_mult),
						  .zp = l->e.pool_zp,
						  .dy = l->e.pwin.dy,
						  .dx = l->e.pwin.dx } };

	(void)wgt;
	if (l->e.pool > RIVULET_POOL_MAX)
		emit_outputs(s, l);
	rvl_emit_cfg(s, RIVULET_FORM_a_div, &div);
}

static void apply_pool(struct rvl_stream *s, const struct rvl_layer *l,
		       const struct rvl_alu_pass *p, struct rivulet_insn_alu *alu)
{
	const struct rvl_window *w = &l->e.pwin;
	const struct rvl_box *src = &p->src;
	struct rivulet_decoded pool = { .a_pool = { .kh = w->kh,
						    .kw = w->kw,
						    .sy = w->sy,
						    .sx = w->sx,
						    .org_y = p->res.y * w->sy - w->top - src->y,
						    .org_x = p->res.x * w->sx - w->left - src->x,
						    .rows = src->h,
						    .cols = src->w } };
	struct rivulet_decoded rect = { .a_rect = { .y_lo = l->e.rect[0] - src->y,
						    .y_hi = l->e.rect[1] - src->y,
						    .x_lo = l->e.rect[2] - src->x,
						    .x_hi = l->e.rect[3] - src->x } };

	rvl_emit_cfg(s, RIVULET_FORM_a_pool, &pool);
	if (l->e.pool == RIVULET_POOL_AVG_BORDER)
		rvl_emit_cfg(s, RIVULET_FORM_a_rect, &rect);
	alu->pool = l->e.pool;
}

const struct rvl_stage rvl_stage_pool = { .name = "pool",
					  .config = config_pool,
					  .apply = apply_pool };

/* ---- second operand ---- */

static void config_second(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt)
{
	struct rivulet_decoded scale = { .a_scale = { .ra = rvl_float_bits(l->e.ra),
						      .rb = rvl_float_bits(l->e.rb),
						      .c = rvl_float_bits(l->e.rc) } };

	(void)wgt;
	emit_outputs(s, l);
	rvl_emit_cfg(s, RIVULET_FORM_a_scale, &scale);
}

static void apply_second(struct rvl_stream *s, const struct rvl_layer *l,
			 const struct rvl_alu_pass *p, struct rivulet_insn_alu *alu)
{
	(void)s;
	alu->b = p->b.addr;
	alu->bin = l->e.bin;
}

static void touch_second(struct rvl_insn_op *op, const struct rvl_layer *l,
			 const struct rvl_alu_pass *p)
{
	rvl_touch_blocks(op, &p->b, p->rows, p->cols, p->out_blks << l->b.v.wide, false);
}

const struct rvl_stage rvl_stage_second = { .name = "second operand",
					    .config = config_second,
					    .apply = apply_second,
					    .touch = touch_second };

/* ---- float32 ---- */

static void config_real(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt)
{
	struct rivulet_decoded type = { .a_type = { .lo = l->e.out_lo,
						    .hi = l->e.out_hi,
						    .zp = l->e.out_zp,
						    .bz = l->e.bz,
						    .b = l->has_b && l->b.v.wide,
						    .d = l->out.v.wide,
						    .prelu = l->e.prelu } };
	struct rivulet_decoded sum = { .a_sum = { .lo = rvl_float_bits(l->e.sum_lo),
						  .hi = rvl_float_bits(l->e.sum_hi) } };

	(void)wgt;
	rvl_emit_cfg(s, RIVULET_FORM_a_type, &type);
	rvl_emit_cfg(s, RIVULET_FORM_a_sum, &sum);
}

static void apply_real(struct rvl_stream *s, const struct rvl_layer *l,
		       const struct rvl_alu_pass *p, struct rivulet_insn_alu *alu)
{
	(void)s;
	alu->real = 1;
	alu->prm = l->e.only ? 0 : p->prm;
	alu->bin = l->has_b ? RIVULET_BIN_ADD : RIVULET_BIN_NONE;
	alu->b = l->has_b ? p->b.addr : 0;
}

static void touch_real(struct rvl_insn_op *op, const struct rvl_layer *l,
		       const struct rvl_alu_pass *p)
{
	if (!l->e.only)
		rvl_touch_spad(op, RVL_AT_WGT, p->prm, l->t.prm_words, false);
	if (l->has_b)
		touch_second(op, l, p);
}

const struct rvl_stage rvl_stage_real = { .name = "float",
					  .config = config_real,
					  .apply = apply_real,
					  .touch = touch_real };

/* ---- a factor, a summand and a clamp: int16 to 8 bits, signs as bytes ---- */

static void config_narrow(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt)
{
	struct rivulet_decoded type = { .a_type = { .lo = l->e.out_lo,
						    .hi = l->e.out_hi,
						    .zp = l->e.out_zp,
						    .a = l->in.v.wide } };
	struct rivulet_decoded sum = { .a_sum = { .lo = rvl_float_bits(-INFINITY), .hi = rvl_float_bits(INFINITY) } };

	(void)wgt;
	rvl_emit_cfg(s, RIVULET_FORM_a_type, &type);
	rvl_emit_cfg(s, RIVULET_FORM_a_sum, &sum);
}

/* Bias and factor of each channel are the layer's parameters at A_EXT. */
static void apply_narrow(struct rvl_stream *s, const struct rvl_layer *l,
			 const struct rvl_alu_pass *p, struct rivulet_insn_alu *alu)
{
	(void)l;
	alu->real = 1;
	alu->prm = p->table + p->block0 * s->board->tn * 8 / RIVULET_WGT_WORD;
}

const struct rvl_stage rvl_stage_narrow = { .name = "narrow",
					    .config = config_narrow,
					    .apply = apply_narrow };

/* ---- bits ---- */

static void config_bits(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt)
{
	struct rivulet_decoded type = { .a_type = { .a = !l->mode && l->in.v.wide } };

	(void)wgt;
	if (!l->e.real)
		rvl_emit_cfg(s, RIVULET_FORM_a_type, &type);
}

static void apply_bits(struct rvl_stream *s, const struct rvl_layer *l,
		       const struct rvl_alu_pass *p, struct rivulet_insn_alu *alu)
{
	int64_t channels = p->acc ? s->board->tm : s->board->tn, pixels = 0;
	int64_t all = p->acc ? l->p.m : l->in.v.c;
	struct rivulet_decoded pack = { .a_pack = { .d = p->bits.addr,
						    .row = p->bits.row,
						    .blk = p->bits.blk,
						    .first = p->block0 * channels,
						    .only = l->e.only,
						    .fill = (p->block0 + p->blks) * channels >= all } };

	while (l->bits.pixels >> (pixels + 1))
		pixels++;
	pack.a_pack.lanes = pixels;
	rvl_emit_cfg(s, RIVULET_FORM_a_pack, &pack);
	alu->pack = 1;
}

static void touch_bits(struct rvl_insn_op *op, const struct rvl_layer *l,
		       const struct rvl_alu_pass *p)
{
	(void)p;
	rvl_touch_spad(op, RVL_AT_INP, p->bits.addr, l->t.bit_words, true);
}

const struct rvl_stage rvl_stage_bits = { .name = "bits",
					  .config = config_bits,
					  .apply = apply_bits,
					  .touch = touch_bits };

/* ---- the epilogue ---- */

void rvl_epilogue_add(struct rvl_layer *l, const struct rvl_stage *stage)
{
	l->e.stage[l->e.stages++] = stage;
}

bool rvl_epilogue_has(const struct rvl_layer *l, const struct rvl_stage *stage)
{
	for (uint32_t i = 0; i < l->e.stages; i++)
		if (l->e.stage[i] == stage)
			return true;
	return false;
}

bool rvl_epilogue_params(struct rvl_graph *g, struct rvl_layer *l, int64_t fields, int64_t lanes,
			 int64_t channels)
{
	int64_t n = rvl_div_up(channels, lanes) * lanes * fields;

	l->e.ext_fields = fields;
	l->e.ext_words = n * 4 / RIVULET_WGT_WORD;
	l->e.ext = rvl_arena_array(g->arena, n, sizeof(*l->e.ext));
	return l->e.ext;
}

uint32_t *rvl_epilogue_param(const struct rvl_layer *l, int64_t lanes, int64_t field, int64_t m)
{
	return &l->e.ext[(m / lanes * l->e.ext_fields + field) * lanes + m % lanes];
}

/* WGT words of the constants of the stages; the parameters per channel are behind them. */
static int64_t stage_words(const struct rvl_layer *l)
{
	int64_t words = 0;

	for (uint32_t i = 0; i < l->e.stages; i++)
		words += l->e.stage[i]->wgt_words;
	return words;
}

struct rivulet_alu_stages rvl_epilogue_stages(const struct rvl_layer *l)
{
	return (struct rivulet_alu_stages){ .positions = l->e.pool ? l->e.pwin.kh * l->e.pwin.kw : 1,
					    .slopes = rvl_epilogue_has(l, &rvl_stage_slopes),
					    .average = l->e.pool > RIVULET_POOL_MAX,
					    .second = l->e.bin };
}

int64_t rvl_epilogue_words(const struct rvl_layer *l)
{
	return stage_words(l) + l->e.ext_words;
}

void rvl_epilogue_load(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt)
{
	for (uint32_t i = 0; i < l->e.stages; i++) {
		if (l->e.stage[i]->load)
			l->e.stage[i]->load(s, l, wgt);
		wgt += l->e.stage[i]->wgt_words;
	}
	if (l->e.ext_words)
		rvl_emit_load_wgt(s, l->e.ext_off, l->e.ext_words, wgt);
}

void rvl_emission_constants(struct rvl_emission *e)
{
	if (!e->constants)
		rvl_epilogue_load(e->s, e->l, e->table);
	e->constants = true;
}

/* The parameters of the blocks that @op computes. */
static void use_ext(struct rvl_stream *s, const struct rvl_layer *l, const struct rvl_alu_pass *p,
		    struct rivulet_decoded *ext)
{
	int64_t channels = p->acc ? s->board->tm : s->board->tn;
	int64_t block = l->e.ext_fields * channels * 4 / RIVULET_WGT_WORD;

	*ext = (struct rivulet_decoded){ .a_ext.addr = p->table + stage_words(l) + p->block0 * block };
	if (l->e.ext_words)
		rvl_emit_cfg(s, RIVULET_FORM_a_ext, ext);
}

void rvl_epilogue_config(struct rvl_stream *s, const struct rvl_layer *l, int64_t wgt)
{
	struct rivulet_decoded bytes = { .a_type = { .a = 0 } };
	bool wide = !l->mode && l->in.v.wide;

	if (s->configured == l)
		return;
	s->configured = l;
	if (s->wide_a && !wide) /* the ALU refuses a layer of bytes while A is int16 */
		rvl_emit_cfg(s, RIVULET_FORM_a_type, &bytes);
	s->wide_a = wide;
	for (uint32_t i = 0; i < l->e.stages; i++) {
		l->e.stage[i]->config(s, l, wgt);
		wgt += l->e.stage[i]->wgt_words;
	}
}

static bool wide_a(const struct rvl_layer *l, const struct rvl_alu_pass *p)
{
	return !p->acc && l->in.v.wide;
}

/*
 * Where the ALU reads and writes. A pitch between blocks or rows of which there is one, and those
 * of a second operand that is not there, stay what they were, so that they are written less often.
 */
static void config_places(struct rvl_stream *s, const struct rvl_layer *l,
			  const struct rvl_alu_pass *p)
{
	struct rivulet_insn_a_src src = {
		.a_row = p->a_row, .a_blk = p->a_blk, .b_row = p->b.row, .b_blk = p->b.blk
	};
	struct rivulet_insn_a_dst dst = { .row = p->d.row, .blk = p->d.blk };
	struct rivulet_decoded d;

	if (p->blks << wide_a(l, p) == 1)
		src.a_blk = s->a_src.a_blk;
	if (!l->has_b || p->rows == 1)
		src.b_row = s->a_src.b_row;
	if (!l->has_b || p->out_blks << l->b.v.wide == 1)
		src.b_blk = s->a_src.b_blk;
	if (p->rows == 1)
		dst.row = s->a_dst.row;
	if (p->out_blks << l->out.v.wide == 1)
		dst.blk = s->a_dst.blk;
	s->a_src = src;
	s->a_dst = dst;
	d = (struct rivulet_decoded){ .a_src = src };
	rvl_emit_cfg(s, RIVULET_FORM_a_src, &d);
	d = (struct rivulet_decoded){ .a_dst = dst };
	rvl_emit_cfg(s, RIVULET_FORM_a_dst, &d);
}

void rvl_epilogue_run(struct rvl_stream *s, const struct rvl_layer *l,
		      const struct rvl_alu_pass *p)
{
	struct rivulet_decoded d = { .alu = { .src = p->acc,
					      .a = p->a,
					      .d = p->d.addr,
					      .rows = p->rows,
					      .cols = p->cols,
					      .blks = p->blks } };
	struct rivulet_decoded ext;
	struct rvl_insn_op *op;

	config_places(s, l, p);
	use_ext(s, l, p, &ext);
	for (uint32_t i = 0; i < l->e.stages; i++)
		l->e.stage[i]->apply(s, l, p, &d.alu);
	op = rvl_emit(s, RIVULET_FORM_alu, RIVULET_Q_ALU, &d);
	if (p->acc)
		rvl_touch_spad(op, RVL_AT_ACC, p->a, p->a_words, false);
	else
		rvl_touch_blocks(op, &(struct rvl_spad){ p->a, p->a_row, p->a_blk }, p->src.h,
				 p->src.w, p->blks << wide_a(l, p), false);
	if (!l->e.only)
		rvl_touch_blocks(op, &p->d, p->rows, p->cols, p->out_blks << l->out.v.wide, true);
	if (l->e.ext_words)
		rvl_touch_spad(op, RVL_AT_WGT, p->table + stage_words(l), l->e.ext_words, false);
	for (uint32_t i = 0; i < l->e.stages; i++)
		if (l->e.stage[i]->touch)
			l->e.stage[i]->touch(op, l, p);
}

// SPDX-License-Identifier: MIT
/*
 * Compares every engine with the element-by-element reference of npu_ref.h, over random shapes on
 * four geometries. After each instruction all scratchpads and all of memory must be equal.
 */
#include "npu_ref.h"
#include "npu_rig.h"
#include "rivulet_sparse.h"
#include "suite.h"

#define CASES 250 /* of each engine and geometry */

static const struct {
	uint32_t tm, tn, dn;
} geometry[] = { { 16, 16, 4 }, { 32, 32, 8 }, { 8, 4, 4 }, { 64, 16, 16 } };
#define GEOMETRIES ((int)(sizeof(geometry) / sizeof(geometry[0])))

/* The core under test, and the reference with its own copy of scratchpads and memory. */
struct pair {
	struct rig g;
	struct ref r;
	int8_t *old;
	int32_t *sums;	/* the accumulators before a CONV */
};

static void pair_copy(struct pair *p)
{
	memcpy(p->r.inp, p->g.core->inp, p->g.board.inp_bytes);
	memcpy(p->r.wgt, p->g.core->wgt, p->g.board.wgt_bytes);
	memcpy(p->r.acc, p->g.core->acc, p->g.board.acc_bytes);
	memcpy(p->r.mem, p->g.mem, RIG_MEM);
}

static void pair_open(struct pair *p, int which)
{
	rig_open(&p->g, rig_board(geometry[which].tm, geometry[which].tn, geometry[which].dn));
	p->g.seed = 77 + which;
	p->r = (struct ref){ .b = &p->g.board, .c = &p->g.config };
	p->r.inp = malloc(p->g.board.inp_bytes);
	p->r.wgt = malloc(p->g.board.wgt_bytes);
	p->r.acc = malloc(p->g.board.acc_bytes);
	p->r.mem = malloc(RIG_MEM);
	p->old = malloc(p->g.board.inp_bytes);
	p->sums = malloc(p->g.board.acc_bytes);
	ck_assert(p->r.inp && p->r.wgt && p->r.acc && p->r.mem && p->old && p->sums);
	rig_fill(&p->g);
	pair_copy(p);
}

static void pair_close(struct pair *p)
{
	rig_close(&p->g);
	free(p->r.inp);
	free(p->r.wgt);
	free(p->r.acc);
	free(p->r.mem);
	free(p->old);
	free(p->sums);
}

static void pair_compare(struct pair *p, const char *what, int n)
{
	const struct rvl_core *c = p->g.core;

	if (memcmp(p->r.inp, c->inp, p->g.board.inp_bytes) ||
	    memcmp(p->r.wgt, c->wgt, p->g.board.wgt_bytes) ||
	    memcmp(p->r.acc, c->acc, p->g.board.acc_bytes) || memcmp(p->r.mem, p->g.mem, RIG_MEM)) {
		char text[512] = "";

		for (uint32_t i = 0; i < p->g.count; i++) {
			rivulet_disassemble(&p->g.code[i], text, sizeof(text));
			fprintf(stderr, "%s\n", text);
		}
		ck_abort_msg("%s %u x %u case %d differs from the reference", what, p->g.board.tm,
			     p->g.board.tn, n);
	}
}

/* Returns whether @d can run: it is legal and stays inside the scratchpads and memory. */
static bool runs(struct pair *p, const struct rivulet_decoded *d)
{
	struct rivulet_footprint f;

	if (rivulet_insn_check(&p->g.board, &p->g.config, d) ||
	    rivulet_footprint_of(&p->g.board, &p->g.config, d, &f))
		return false;
	return !f.dma.used || f.dma.end <= RIG_MEM;
}

/* A CONV by the scalar code and by every vector code that this host has. */
static void conv_by_all_codes(struct pair *p, const struct rivulet_insn_conv *v, const char *what, int n)
{
	memcpy(p->sums, p->r.acc, p->g.board.acc_bytes);
	ref_conv(&p->r, v);
	for (int code = RVL_SIMD_NONE; code <= RVL_SIMD_VNNI; code++) {
		/* Streams have one code. */
		if ((int)rvl_conv_force(code) != code || (v->mode == RIVULET_MODE_STOCHASTIC && code))
			continue;
		memcpy(p->g.core->acc, p->sums, p->g.board.acc_bytes);
		ck_assert_int_eq(rig_run(&p->g), RIVULET_FAULT_NONE);
		pair_compare(p, what, n);
	}
	rvl_conv_force(RVL_SIMD_VNNI);
}

/* Runs @d on both sides. Returns false if the generator made an instruction that cannot run. */
static bool step(struct pair *p, const struct rivulet_decoded *d, const char *what, int n)
{
	if (!runs(p, d))
		return false;
	rig_put(&p->g, *d);
	rig_end(&p->g);
	if (d->form == RIVULET_FORM_conv) {
		conv_by_all_codes(p, &d->conv, what, n);
		return true;
	}
	ck_assert_int_eq(rig_run(&p->g), RIVULET_FAULT_NONE);
	if (d->form == RIVULET_FORM_load)
		ref_load(&p->r, &d->load);
	else if (d->form == RIVULET_FORM_store)
		ref_store(&p->r, &d->store);
	else
		ref_alu(&p->r, &d->alu, p->old);
	pair_compare(p, what, n);
	return true;
}

/* Each gen_*() appends a random configuration and returns the instruction to run. */
static struct rivulet_decoded gen_conv(struct pair *p)
{
	struct rig *g = &p->g;
	bool tight = rig_pick(g, 0, 1);
	int64_t rows = rig_pick(g, 1, 12), cols = rig_pick(g, 1, 24),
		pitch = cols + rig_pick(g, 0, 3);
	int64_t block = g->board.tm * g->board.tn / 16, kh = rig_pick(g, 1, 5),
		kw = rig_pick(g, 1, 5);
	int64_t out_cols = rig_pick(g, 1, 21), out_rows = rig_pick(g, 1, 6),
		icb = rig_pick(g, 1, 3);

	PUT(g, c_kernel, .kh = kh, .kw = kw, .sy = rig_pick(g, 1, 3), .sx = rig_pick(g, 1, 3),
	    .dy = rig_pick(g, 1, 3), .dx = rig_pick(g, 1, 3), .org_y = rig_pick(g, -6, 4),
	    .org_x = rig_pick(g, -6, 4));
	PUT(g, c_input, .row_pitch = pitch, .blk_pitch = tight ? pitch * rows : rig_pick(g, 0, 60),
	    .rows = rows, .cols = cols, .wrap = rig_pick(g, 0, 1) ? rig_pick(g, 1, rows + 2) : 0,
	    .phase = rig_pick(g, 0, 40));
	PUT(g, c_pad, .value = rig_pick(g, -128, 127));
	PUT(g, c_out, .row_pitch = tight ? out_cols : rig_pick(g, 0, 30),
	    .blk_pitch = tight ? out_cols * out_rows : rig_pick(g, 0, 60),
	    .wgt_oc_pitch = tight ? icb * block * kh * kw : rig_pick(g, 0, 40),
	    .wgt_ic_pitch = tight ? block * kh * kw : rig_pick(g, 0, 40),
	    .inp_oc_pitch = rig_pick(g, 0, 1) ? rig_pick(g, 0, 70) : 0);
	return (struct rivulet_decoded){
		.form = RIVULET_FORM_conv,
		.conv = { .keep = rig_pick(g, 0, 1),
			  .inp = rig_pick(g, 0, 99),
			  .wgt = rig_pick(g, 0, 99),
			  .acc = rig_pick(g, 0, 99),
			  .rows = out_rows,
			  .cols = out_cols,
			  .icb = icb,
			  .ocb = rig_pick(g, 1, 3) },
	};
}

static struct rivulet_decoded gen_load(struct pair *p)
{
	struct rig *g = &p->g;
	int64_t kind = rig_pick(g, 0, 3), rows = rig_pick(g, 1, 8), cols = rig_pick(g, 1, 20);
	int64_t blks = rig_pick(g, 1, 5), tn = g->board.tn, top = rig_pick(g, 0, 2);
	int64_t left = rig_pick(g, 0, 2), ry = rig_pick(g, 0, 3) ? 0 : rig_pick(g, 0, 3);
	int64_t rx = rig_pick(g, 0, 3) ? 0 : rig_pick(g, 0, 3), count = rig_pick(g, 0, tn);
	int64_t pitch = cols * (rx + 1) + left + rig_pick(g, 0, 5),
		channels = rig_pick(g, 1, blks * tn);
	int64_t mem = rig_pick(g, 0, 3);

	mem = mem < RIVULET_MEMS && kind == RIVULET_XFER_BLOCK ? mem : RIVULET_MEM_INP;
	PUT(g, l_src, .row_pitch = rig_pick(g, 0, 700), .blk_pitch = rig_pick(g, 0, 7000),
	    .ch_pitch = rig_pick(g, 0, 1) ? channels : rig_pick(g, 0, 3000));
	PUT(g, l_dst, .row_pitch = pitch + 2,
	    .blk_pitch = (pitch + 2) * (rows * (ry + 1) + top + 2) + rig_pick(g, 0, 9));
	PUT(g, l_pad, .top = top, .left = left, .bottom = rig_pick(g, 0, 2),
	    .right = rig_pick(g, 0, 2));
	PUT(g, l_chan, .channels = channels, .count = rig_pick(g, 0, 1) ? count : 0,
	    .src_ch = rig_pick(g, 0, tn - count > 31 ? 31 : tn - count),
	    .dst_ch = rig_pick(g, 0, tn - count > 31 ? 31 : tn - count), .rep_x = rx, .rep_y = ry,
	    .fill = rig_pick(g, -128, 127));
	PUT(g, l_gather, .kh = rig_pick(g, 1, 4), .kw = rig_pick(g, 1, 4), .sy = rig_pick(g, 1, 3),
	    .sx = rig_pick(g, 1, 3), .dy = rig_pick(g, 1, 3), .dx = rig_pick(g, 1, 3),
	    .ch = rig_pick(g, 1, 4), .pixel = rig_pick(g, 0, 1) ? 0 : rig_pick(g, 1, 15));
	PUT(g, l_bounds, .org_y = rig_pick(g, -5, 5), .org_x = rig_pick(g, -5, 5),
	    .rows = rig_pick(g, 0, 30), .cols = rig_pick(g, 0, 40));
	return (struct rivulet_decoded){
		.form = RIVULET_FORM_load,
		.load = { .mem = mem,
			  .addr = rig_pick(g, 0, 200),
			  .slot = 1,
			  .kind = kind,
			  .flip = mem == RIVULET_MEM_INP && rig_pick(g, 0, 1),
			  .offset = rig_pick(g, 0, 5000),
			  .rows = rows,
			  .cols = cols,
			  .blks = blks },
	};
}

static struct rivulet_decoded gen_store(struct pair *p)
{
	struct rig *g = &p->g;
	bool acc = rig_pick(g, 0, 2) == 0;
	int64_t kind = rig_pick(g, 0, 2), rows = rig_pick(g, 1, 8), cols = rig_pick(g, 1, 20);
	int64_t blks = rig_pick(g, 1, 5), lanes = acc ? g->board.tm : g->board.tn,
		elem = acc ? 4 : 1;
	int64_t channels = rig_pick(g, 1, blks * lanes), count = rig_pick(g, 1, g->board.tn);
	int64_t row = cols * lanes * elem + rig_pick(g, 0, 50), most = g->board.tn - count;

	most = most > 31 ? 31 : most;
	if (kind == RIVULET_XFER_INTERLEAVED)
		PUT(g, s_dst, .row_pitch = cols * (channels * elem + 7),
		    .ch_pitch = channels * elem + 5);
	else
		PUT(g, s_dst, .row_pitch = row, .blk_pitch = row * rows + rig_pick(g, 0, 50),
		    .ch_pitch = row * rows);
	PUT(g, s_src, .row_pitch = rig_pick(g, 0, 30), .blk_pitch = rig_pick(g, 0, 90));
	PUT(g, s_chan, .channels = channels, .count = rig_pick(g, 0, 1) ? count : 0,
	    .src_ch = rig_pick(g, 0, most), .dst_ch = rig_pick(g, 0, most));
	return (struct rivulet_decoded){
		.form = RIVULET_FORM_store,
		.store = { .mem = acc ? RIVULET_MEM_ACC : RIVULET_MEM_INP,
			   .addr = rig_pick(g, 0, 99),
			   .slot = 1,
			   .kind = kind,
			   .flip = !acc && rig_pick(g, 0, 1),
			   .offset = rig_pick(g, 0, 5000),
			   .rows = rows,
			   .cols = cols,
			   .blks = blks },
	};
}

/* Factors that cause ties, exceed the output range, or are not finite. */
static float gen_factor(struct rig *g)
{
	static const float odd[] = { 0.5f, 0.25f, -0.5f, 1e30f, -1e30f, 0.0f, INFINITY, NAN };
	int64_t pick = rig_pick(g, 0, 15);

	return pick < 8 ? odd[pick] :
			  (float)rig_pick(g, 1, 1 << 20) / (float)(1 << rig_pick(g, 20, 40) / 2);
}

static int64_t bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return u;
}

/* Parameters of channels at WGT word @word, the same on both sides. */
static void gen_params(struct pair *p, uint32_t word, uint32_t channels)
{
	for (uint32_t i = 0; i < channels; i++) {
		uint8_t *at = p->g.core->wgt + word * 16 + i * 8;
		int32_t bias = (int32_t)rig_random(&p->g) >> rig_pick(&p->g, 0, 31);
		float mult = gen_factor(&p->g) / (float)(1u << rig_pick(&p->g, 0, 24));

		memcpy(at, &bias, 4);
		memcpy(at + 4, &mult, 4);
	}
	memcpy(p->r.wgt, p->g.core->wgt, p->g.board.wgt_bytes);
}

/* Accumulators in the range that layers produce: far below 2^31. */
static void gen_acc(struct pair *p)
{
	for (uint32_t i = 0; i < p->g.board.acc_bytes / 4; i++)
		p->g.core->acc[i] >>= rig_pick(&p->g, 8, 20);
	memcpy(p->r.acc, p->g.core->acc, p->g.board.acc_bytes);
}

static void gen_alu_config(struct pair *p)
{
	struct rig *g = &p->g;
	int64_t lo = rig_pick(g, -128, 127);

	PUT(g, a_src, .a_row = rig_pick(g, 0, 30), .a_blk = rig_pick(g, 0, 70),
	    .b_row = rig_pick(g, 0, 30), .b_blk = rig_pick(g, 0, 70));
	PUT(g, a_rq, .zp = rig_pick(g, -128, 127), .lo = lo, .hi = rig_pick(g, lo, 127),
	    .length = rig_pick(g, 0, 1) ? rig_pick(g, 8, 256) : 0);
	PUT(g, a_scale, .ra = bits(gen_factor(g)), .rb = bits(gen_factor(g)),
	    .c = bits(gen_factor(g)));
	PUT(g, a_out, .zp = rig_pick(g, -128, 127), .lo = lo, .hi = rig_pick(g, lo, 127),
	    .az = rig_pick(g, -128, 127), .bz = rig_pick(g, -128, 127));
	PUT(g, a_pool, .kh = rig_pick(g, 1, 4), .kw = rig_pick(g, 1, 4), .sy = rig_pick(g, 1, 3),
	    .sx = rig_pick(g, 1, 3), .org_y = rig_pick(g, -9, 3), .org_x = rig_pick(g, -4, 3),
	    .rows = rig_pick(g, 1, 14), .cols = rig_pick(g, 1, 20));
	PUT(g, a_div, .mult = bits(gen_factor(g)), .zp = rig_pick(g, -128, 127),
	    .dy = rig_pick(g, 0, 2), .dx = rig_pick(g, 0, 2));
	PUT(g, a_rect, .y_lo = rig_pick(g, -5, 3), .y_hi = rig_pick(g, 0, 9),
	    .x_lo = rig_pick(g, -5, 3), .x_hi = rig_pick(g, 0, 9));
	PUT(g, a_lut, .addr = rig_pick(g, 0, 300));
}

/* Floats and thresholds at A_EXT of so many channels, near the values that there are. */
static void gen_ext(struct pair *p, uint32_t word, uint32_t fields, uint32_t channels, uint32_t lanes)
{
	for (uint32_t i = 0; i < channels * fields; i++) {
		bool threshold = i / lanes % fields == fields - 1 && rig_pick(&p->g, 0, 1);
		int32_t t = rig_pick(&p->g, -300, 300);
		float f = gen_factor(&p->g);

		memcpy(p->g.core->wgt + word * 16 + i * 4, threshold ? (void *)&t : (void *)&f, 4);
	}
	memcpy(p->r.wgt, p->g.core->wgt, p->g.board.wgt_bytes);
}

static struct rivulet_decoded gen_alu(struct pair *p)
{
	struct rig *g = &p->g;
	bool src = rig_pick(g, 0, 1), rq = src || rig_pick(g, 0, 1);
	bool dst = !src && g->board.tm == g->board.tn && rig_pick(g, 0, 3) == 0;
	int64_t rows = rig_pick(g, 1, 5), cols = rig_pick(g, 1, 9), blks = rig_pick(g, 1, 3);
	int64_t bin = rig_pick(g, 0, 3), prm = rq ? rig_pick(g, 0, 200) : 0;
	int64_t half = g->board.inp_bytes / g->board.tn / 2, lo = rig_pick(g, -128, 127);
	int64_t lanes = src ? g->board.tm : g->board.tn, ext = rig_pick(g, 500, 600);

	gen_alu_config(p);
	if (rq)
		gen_params(p, prm, blks * lanes);
	PUT(g, a_slope, .zp = rig_pick(g, -128, 127), .out = rig_pick(g, -128, 127), .lo = lo,
	    .hi = rig_pick(g, lo, 127));
	PUT(g, a_ext, .addr = ext);
	gen_ext(p, ext, 2, blks * lanes, lanes);
	PUT(g, a_dst, .row = cols, .blk = cols * rows);
	return (struct rivulet_decoded){
		.form = RIVULET_FORM_alu,
		.alu = { .src = src,
			 .dst = dst,
			 .a = rig_pick(g, 0, 60),
			 .b = bin ? rig_pick(g, 0, 60) : 0,
			 .d = dst ? rig_pick(g, 0, 50) : half,
			 .prm = prm,
			 .rows = rows,
			 .cols = cols,
			 .blks = blks,
			 .rq = rq,
			 .slope = rig_pick(g, 0, 1),
			 .lut = rig_pick(g, 0, 1),
			 .pool = rig_pick(g, 0, 3),
			 .bin = bin },
	};
}

static int64_t gen_type(struct pair *p, bool real, bool src)
{
	struct rig *g = &p->g;
	int64_t lo = rig_pick(g, -32768, 32767), prelu = real && rig_pick(g, 0, 1);
	bool wide = rig_pick(g, 0, 1);

	if (!wide)
		lo = rig_pick(g, -128, 127);
	PUT(g, a_type, .lo = lo, .hi = rig_pick(g, lo, wide ? 32767 : 127), .prelu = prelu,
	    .zp = rig_pick(g, 0, 1) ? 0 : rig_pick(g, -200, 200), .bz = rig_pick(g, -99, 99),
	    .a = !src && rig_pick(g, 0, 1), .b = real && rig_pick(g, 0, 1), .d = real && wide);
	PUT(g, a_sum, .lo = bits(rig_pick(g, 0, 1) ? -INFINITY : 0),
	    .hi = bits(rig_pick(g, 0, 3) ? INFINITY : gen_factor(g)));
	return prelu;
}

/* float32 all the way, int16 operands and results, bits with them or alone. */
static struct rivulet_decoded gen_real(struct pair *p)
{
	struct rivulet_decoded d = gen_alu(p);
	struct rig *g = &p->g;
	struct rivulet_insn_alu *a = &d.alu;
	bool real = rig_pick(g, 0, 2), pack = !real || rig_pick(g, 0, 1), only = rig_pick(g, 0, 2) == 0;
	int64_t lanes = a->src ? g->board.tm : g->board.tn, prelu = gen_type(p, real, a->src);
	int64_t bin = rig_pick(g, 0, 1), ext = rig_pick(g, 500, 600);
	int64_t half = g->board.inp_bytes / g->board.tn / 2;

	a->pack = pack;
	a->real = real;
	PUT(g, a_ext, .addr = ext);
	PUT(g, a_pack, .d = half + half / 2, .row = rig_pick(g, 0, 12), .blk = rig_pick(g, 0, 60),
	    .first = lanes * rig_pick(g, 0, 3), .lanes = rig_pick(g, 0, 2), .only = only,
	    .fill = rig_pick(g, 0, 1));
	if (!real && g->config.a_type.a)
		a->rq = a->slope = a->lut = a->prm = 0;
	if (real) {
		a->rq = a->slope = a->lut = a->pool = a->dst = 0;
		a->bin = only && pack ? 0 : bin;
		a->d = half;
		a->prm = only && pack ? 0 : 300;
		a->b = a->bin ? a->b : 0;
		gen_params(p, 300, a->blks * lanes);
	}
	gen_ext(p, ext, (real && a->bin) + 2 * (prelu || a->slope) + pack, a->blks * lanes, lanes);
	return d;
}

static void sweep(int board, struct rivulet_decoded (*gen)(struct pair *), const char *what)
{
	struct pair p;
	int done = 0, tries = 0;

	pair_open(&p, board);
	if (gen == gen_alu || gen == gen_real)
		gen_acc(&p);
	while (done < random_cases(CASES) && tries++ < 20 * CASES) {
		struct rivulet_decoded d;

		rig_reset(&p.g);
		d = gen(&p);
		memcpy(p.old, p.r.inp, p.g.board.inp_bytes);
		done += step(&p, &d, what, done);
	}
	ck_assert_int_eq(done, random_cases(CASES));
	pair_close(&p);
}

/* ---- the footprint: an instruction neither reads nor changes anything outside it ---- */

/* One byte for each word of the scratchpads and each byte of memory. */
struct marks {
	uint8_t *mem[RIVULET_MEMS];
	uint8_t *bytes;
};

enum { READ = 1, WRITTEN = 2 };

static void mark_words(struct marks *m, const struct rivulet_access *a)
{
	uint8_t how = (a->read ? READ : 0) | (a->write ? WRITTEN : 0);

	ck_assert_uint_lt(a->mem, RIVULET_MEMS);
	for (uint64_t g = 0; g < a->grps; g++)
		for (uint64_t b = 0; b < a->blks; b++)
			for (uint64_t y = 0; y < a->rows; y++)
				for (uint64_t x = 0; x < a->cols; x++)
					m->mem[a->mem][a->addr + g * a->grp_pitch +
						       b * a->blk_pitch + y * a->row_pitch + x] |=
						how;
}

static void mark_bytes(struct marks *m, const struct rivulet_extent *e)
{
	if (!e->used)
		return;
	for (uint64_t b = 0; b < e->blks; b++)
		for (uint64_t y = 0; y < e->rows; y++)
			memset(m->bytes + e->first + b * e->blk_pitch + y * e->row_pitch,
			       e->write ? WRITTEN : READ, e->run);
}

/* Changes everything that has no mark. */
static void perturb(struct rig *g, void *data, const uint8_t *mark, uint32_t words, uint32_t size)
{
	uint8_t *b = data;

	for (uint32_t w = 0; w < words; w++)
		if (!mark[w])
			for (uint32_t i = 0; i < size; i++)
				b[w * size + i] ^= rig_random(g) | 1;
}

/*
 * Returns whether written words are equal after both runs, and all other words are unchanged by
 * each run.
 */
static bool agrees(const void *before1, const void *after1, const void *before2, const void *after2,
		   const uint8_t *mark, uint32_t words, uint32_t size)
{
	const uint8_t *b1 = before1, *a1 = after1, *b2 = before2, *a2 = after2;

	for (uint32_t w = 0; w < words; w++, b1 += size, a1 += size, b2 += size, a2 += size) {
		if (mark[w] & WRITTEN ? memcmp(a1, a2, size) :
					memcmp(b1, a1, size) || memcmp(b2, a2, size))
			return false;
	}
	return true;
}

struct state {
	uint8_t *mem[RIVULET_MEMS];
	uint8_t *bytes;
};

static struct state snapshot(struct pair *p)
{
	const void *from[] = { p->g.core->inp, p->g.core->wgt, p->g.core->acc };
	const uint32_t size[] = { p->g.board.inp_bytes, p->g.board.wgt_bytes,
				  p->g.board.acc_bytes };
	struct state s;

	for (int m = 0; m < RIVULET_MEMS; m++) {
		s.mem[m] = malloc(size[m]);
		memcpy(s.mem[m], from[m], size[m]);
	}
	s.bytes = malloc(RIG_MEM);
	memcpy(s.bytes, p->g.mem, RIG_MEM);
	return s;
}

static void drop(struct state *s)
{
	for (int m = 0; m < RIVULET_MEMS; m++)
		free(s->mem[m]);
	free(s->bytes);
}

static void two_runs(struct pair *p, const struct marks *m)
{
	void *live[] = { p->g.core->inp, p->g.core->wgt, p->g.core->acc };
	struct state s[4];

	s[0] = snapshot(p);
	rig_run(&p->g);
	s[1] = snapshot(p);
	for (int i = 0; i < RIVULET_MEMS; i++) {
		uint32_t words = rivulet_mem_words(&p->g.board, i);

		memcpy(live[i], s[0].mem[i], words * rivulet_mem_word(&p->g.board, i));
		perturb(&p->g, live[i], m->mem[i], words, rivulet_mem_word(&p->g.board, i));
	}
	memcpy(p->g.mem, s[0].bytes, RIG_MEM);
	perturb(&p->g, p->g.mem, m->bytes, RIG_MEM, 1);
	s[2] = snapshot(p);
	rig_run(&p->g);
	s[3] = snapshot(p);
	for (int i = 0; i < RIVULET_MEMS; i++)
		ck_assert(agrees(s[0].mem[i], s[1].mem[i], s[2].mem[i], s[3].mem[i], m->mem[i],
				 rivulet_mem_words(&p->g.board, i),
				 rivulet_mem_word(&p->g.board, i)));
	ck_assert(agrees(s[0].bytes, s[1].bytes, s[2].bytes, s[3].bytes, m->bytes, RIG_MEM, 1));
	for (int i = 0; i < 4; i++)
		drop(&s[i]);
}

static void footprint_case(struct pair *p, const struct rivulet_decoded *d)
{
	struct rivulet_footprint f;
	struct marks m;

	for (int i = 0; i < RIVULET_MEMS; i++)
		m.mem[i] = calloc(1, rivulet_mem_words(&p->g.board, i));
	m.bytes = calloc(1, RIG_MEM);
	rivulet_footprint_of(&p->g.board, &p->g.config, d, &f);
	for (int i = 0; i < f.count; i++)
		mark_words(&m, &f.access[i]);
	mark_bytes(&m, &f.dma);
	rig_put(&p->g, *d);
	rig_end(&p->g);
	two_runs(p, &m);
	for (int i = 0; i < RIVULET_MEMS; i++)
		free(m.mem[i]);
	free(m.bytes);
}

static struct rivulet_decoded gen_sparse(struct pair *p);
static struct rivulet_decoded gen_taps(struct pair *p);
static struct rivulet_decoded gen_binary(struct pair *p);
static struct rivulet_decoded gen_planes(struct pair *p);

static struct rivulet_decoded (*const gens[])(struct pair *) = { gen_load, gen_store, gen_conv,
								 gen_sparse, gen_taps, gen_binary,
								 gen_planes, gen_alu, gen_real };

#define GENS (sizeof(gens) / sizeof(gens[0]))

START_TEST(footprint_is_complete)
{
	struct pair p;
	int done = 0, cases = random_cases(12);

	pair_open(&p, _i / GENS);
	for (int tries = 0; done < cases && tries < 2000; tries++) {
		struct rivulet_decoded d;

		rig_reset(&p.g);
		d = gens[_i % GENS](&p);
		if (!runs(&p, &d))
			continue;
		footprint_case(&p, &d);
		done++;
	}
	ck_assert_int_eq(done, cases);
	pair_close(&p);
}
END_TEST

START_TEST(load_equals_reference)
{
	sweep(_i, gen_load, "LOAD");
}
END_TEST

START_TEST(store_equals_reference)
{
	sweep(_i, gen_store, "STORE");
}
END_TEST

START_TEST(alu_equals_reference)
{
	sweep(_i, gen_alu, "ALU");
}
END_TEST

START_TEST(real_alu_equals_reference)
{
	sweep(_i, gen_real, "real ALU");
}
END_TEST

START_TEST(conv_equals_reference)
{
	sweep(_i, gen_conv, "CONV");
}
END_TEST

/* Random circuit, length, valid channels and scale over random convolutions. */
static struct rivulet_decoded gen_stream(struct pair *p)
{
	struct rivulet_decoded d = gen_conv(p);
	struct rig *g = &p->g;
	int64_t circuit = rig_pick(g, 0, 1) ? RIVULET_SC_AND_BIN :
					      rig_pick(g, 0, RIVULET_SC_CIRCUIT_COUNT - 1);

	PUT(g, c_mode, .circuit = circuit, .length = rig_pick(g, 8, 256),
	    .valid = rig_pick(g, 0, 1) ? rig_pick(g, 1, g->board.tn) : 0,
	    .out = rig_pick(g, 0, 1) ? rig_pick(g, 1, d.conv.ocb * g->board.tm) : 0,
	    .scale = rig_pick(g, 0, 10));
	d.conv.mode = RIVULET_MODE_STOCHASTIC;
	d.conv.keep &= circuit == RIVULET_SC_AND_BIN;
	d.conv.rows = rig_pick(g, 1, 2);
	d.conv.cols = rig_pick(g, 1, 4);
	if (circuit != RIVULET_SC_AND_BIN) /* slow on both sides */
		d.conv.rows = d.conv.cols = d.conv.icb = 1;
	return d;
}

/* Weights begin at rows of the array, and so do those of the next blocks. */
static void align_weights(struct rig *g, struct rivulet_decoded *d)
{
	struct rivulet_insn_c_out out = g->config.c_out;
	int64_t unit = g->board.tn > 16 ? g->board.tn / 16 : 1;

	d->conv.wgt -= d->conv.wgt % unit;
	PUT(g, c_out, .row_pitch = out.row_pitch, .blk_pitch = out.blk_pitch,
	    .wgt_oc_pitch = out.wgt_oc_pitch - out.wgt_oc_pitch % unit,
	    .wgt_ic_pitch = out.wgt_ic_pitch - out.wgt_ic_pitch % unit,
	    .inp_oc_pitch = out.inp_oc_pitch);
}

/*
 * Random numbers of pairs over random convolutions. With small values, pairs of equal index have a
 * sum that is an int8, so that the vector code runs too.
 */
static struct rivulet_decoded gen_sparse(struct pair *p)
{
	struct rivulet_decoded d = gen_conv(p);
	struct rig *g = &p->g;
	int64_t kept = rig_pick(g, 1, g->board.tn);
	bool small = rig_pick(g, 0, 1);

	d.conv.mode = RIVULET_MODE_SPARSE;
	PUT(g, c_mode, .dn = kept);
	if (rig_pick(g, 0, 7)) /* else mostly FIELD, where tn is more than a word */
		align_weights(g, &d);
	for (uint32_t i = 0; small && i < g->board.wgt_bytes; i++)
		g->core->wgt[i] = (int8_t)g->core->wgt[i] >> 4;
	pair_copy(p);
	return d;
}

/* Depthwise by tap lanes: any channels of the rows, pitches with and without conflicts. */
static struct rivulet_decoded gen_taps(struct pair *p)
{
	struct rivulet_decoded d = gen_conv(p);
	struct rig *g = &p->g;
	int64_t mult = rig_pick(g, 0, 3);
	int64_t most = (mult ? mult : 1) * g->board.tn - 1;

	d.conv.mode = RIVULET_MODE_TAPS;
	PUT(g, c_mode, .mult = mult,
	    .first = rig_pick(g, 0, 2) ? 0 : rig_pick(g, 0, most + !rig_pick(g, 0, 7)));
	align_weights(g, &d);
	pair_copy(p);
	return d;
}

/* Any number of pixels in a word, any valid channels, both kinds of padding. */
static struct rivulet_decoded gen_binary(struct pair *p)
{
	struct rivulet_decoded d = gen_conv(p);
	struct rig *g = &p->g;
	int64_t lanes = rig_pick(g, 0, 2);
	int64_t all = d.conv.icb * (8 * g->board.tn >> lanes);
	int64_t first = rig_pick(g, 0, 2) ? 0 : rig_pick(g, 0, all - 1);

	d.conv.mode = RIVULET_MODE_BINARY;
	PUT(g, c_mode, .lanes = lanes, .border = rig_pick(g, 0, 1), .first = first,
	    .valid = rig_pick(g, 0, 2) ? rig_pick(g, 0, all - first + !rig_pick(g, 0, 7)) : 0);
	align_weights(g, &d);
	pair_copy(p);
	return d;
}

/* Weights of any bits, slices of any width, rows in any order, several of a channel or of none. */
static struct rivulet_decoded gen_planes(struct pair *p)
{
	struct rivulet_decoded d = gen_conv(p);
	struct rig *g = &p->g;
	int64_t planes = rig_pick(g, 1, 8);
	int64_t group = rig_pick(g, 0, 3) ? planes : rig_pick(g, 0, 9);

	d.conv.mode = RIVULET_MODE_BITPLANE;
	PUT(g, c_mode, .planes = planes, .group = group,
	    .dn = rig_pick(g, 0, 2) ? rig_pick(g, 1, g->board.tn) : g->board.tn);
	align_weights(g, &d);
	for (uint32_t i = 0; i < g->board.wgt_bytes; i += rig_pick(g, 1, 5)) /* more channels that exist */
		g->core->wgt[i] &= 31;
	pair_copy(p);
	return d;
}

START_TEST(planes_conv_equals_reference)
{
	sweep(_i, gen_planes, "bit-plane CONV");
}
END_TEST

START_TEST(binary_conv_equals_reference)
{
	sweep(_i, gen_binary, "binary CONV");
}
END_TEST

START_TEST(taps_conv_equals_reference)
{
	sweep(_i, gen_taps, "taps CONV");
}
END_TEST

START_TEST(sparse_conv_equals_reference)
{
	sweep(_i, gen_sparse, "sparse CONV");
}
END_TEST

/* 4 pairs kept of 16 weights give the sums of the dense weights, in vectors and without. */
START_TEST(sparse_conv_equals_dense)
{
	struct rivulet_sparse s;
	int32_t want[16];
	struct rig g;

	rig_open(&g, rig_board(16, 16, 4));
	s = rivulet_sparse_of(&g.board, 4);
	for (int mode = 0; mode < 2; mode++) {
		for (uint32_t i = 0; i < g.board.inp_bytes; i++)
			g.core->inp[i] = i * 37 + i / 16;
		memset(g.core->wgt, 0, 256);
		for (int i = 0; i < 64; i++) {
			int m = i / 4, n = i % 4 * 4 + m % 3, w = i * 29 % 255 - 127;

			if (!mode)
				g.core->wgt[m * 16 + n] = w;
			else
				g.core->wgt[i] = w;
			if (mode)
				rivulet_sparse_put(&s, g.core->wgt + 64, i, n);
		}
		rig_reset(&g);
		PUT(&g, c_kernel, .kh = 1, .kw = 1, .sy = 1, .sx = 1, .dy = 1, .dx = 1);
		PUT(&g, c_input, .rows = 1, .cols = 1);
		PUT(&g, c_mode, .dn = 4);
		PUT(&g, conv, .mode = mode, .rows = 1, .cols = 1, .icb = 1, .ocb = 1);
		rig_end(&g);
		ck_assert_int_eq(rig_run(&g), RIVULET_FAULT_NONE);
		if (!mode)
			memcpy(want, g.core->acc, sizeof(want));
	}
	ck_assert_mem_eq(g.core->acc, want, sizeof(want));
	rig_close(&g);
}
END_TEST

START_TEST(stochastic_conv_equals_reference)
{
	sweep(_i, gen_stream, "stochastic CONV");
}
END_TEST

/* Extreme values in long sums: the vector codes must wrap as the scalar code does. */
START_TEST(conv_wraps)
{
	struct rivulet_decoded d = {
		.form = RIVULET_FORM_conv,
		.conv = { .keep = 1, .rows = 2, .cols = 9, .icb = 3, .ocb = 1 }
	};
	struct pair p;

	pair_open(&p, 0);
	memset(p.g.core->inp, 0x80, p.g.board.inp_bytes);
	memset(p.g.core->wgt, 0x80, p.g.board.wgt_bytes);
	for (uint32_t i = 0; i < p.g.board.acc_bytes / 4; i++)
		p.g.core->acc[i] = INT32_MAX - 5;
	pair_copy(&p);
	rig_reset(&p.g);
	PUT(&p.g, c_kernel, .kh = 3, .kw = 3, .sy = 1, .sx = 1, .dy = 1, .dx = 1);
	PUT(&p.g, c_input, .row_pitch = 20, .blk_pitch = 100, .rows = 4, .cols = 11);
	PUT(&p.g, c_out, .row_pitch = 9, .wgt_ic_pitch = 144);
	ck_assert(step(&p, &d, "CONV wrap", 0));
	pair_close(&p);
}
END_TEST

/*
 * A tile larger than the working memory of the vector code runs in the scalar code, with equal
 * results.
 */
START_TEST(conv_of_any_size)
{
	struct pair p;
	struct rivulet_decoded d = { .form = RIVULET_FORM_conv,
				     .conv = { .rows = 2, .cols = 2, .icb = 400, .ocb = 1 } };

	pair_open(&p, 0);
	rig_reset(&p.g);
	PUT(&p.g, c_kernel, .kh = 5, .kw = 5, .sy = 31, .sx = 31, .dy = 63, .dx = 63, .org_y = -100,
	    .org_x = -100);
	PUT(&p.g, c_input, .row_pitch = 10, .rows = 20, .cols = 20);
	PUT(&p.g, c_out, .row_pitch = 2);
	ck_assert(step(&p, &d, "CONV large", 0));
	pair_close(&p);
}
END_TEST

/* A kernel larger than the fields hold, split into parts that keep the accumulator. */
START_TEST(conv_split_keeps_accumulator)
{
	struct pair p;

	pair_open(&p, 0);
	for (int part = 0; part < 3; part++) {
		struct rivulet_decoded d = { .form = RIVULET_FORM_conv,
					     .conv = { .keep = part > 0,
						       .wgt = part * 16 * 31,
						       .rows = 3,
						       .cols = 3,
						       .icb = 1,
						       .ocb = 1 } };

		rig_reset(&p.g);
		PUT(&p.g, c_kernel, .kh = 1, .kw = 31, .sy = 1, .sx = 1, .dy = 1, .dx = 1,
		    .org_x = part * 31 - 40);
		PUT(&p.g, c_input, .row_pitch = 32, .rows = 3, .cols = 32);
		PUT(&p.g, c_out, .row_pitch = 3);
		ck_assert(step(&p, &d, "CONV split", part));
	}
	pair_close(&p);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("core");
	TCase *t = tcase_create("engines");

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, load_equals_reference, 0, GEOMETRIES);
	tcase_add_loop_test(t, store_equals_reference, 0, GEOMETRIES);
	tcase_add_loop_test(t, alu_equals_reference, 0, GEOMETRIES);
	tcase_add_loop_test(t, real_alu_equals_reference, 0, GEOMETRIES);
	tcase_add_loop_test(t, conv_equals_reference, 0, GEOMETRIES);
	tcase_add_loop_test(t, footprint_is_complete, 0, GENS * GEOMETRIES);
	tcase_add_loop_test(t, taps_conv_equals_reference, 0, GEOMETRIES);
	tcase_add_loop_test(t, binary_conv_equals_reference, 0, GEOMETRIES);
	tcase_add_loop_test(t, planes_conv_equals_reference, 0, GEOMETRIES);
	tcase_add_loop_test(t, sparse_conv_equals_reference, 0, GEOMETRIES);
	tcase_add_test(t, sparse_conv_equals_dense);
	tcase_add_loop_test(t, stochastic_conv_equals_reference, 0, GEOMETRIES);
	tcase_add_test(t, conv_wraps);
	tcase_add_test(t, conv_of_any_size);
	tcase_add_test(t, conv_split_keeps_accumulator);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_suite(suite());
}

// SPDX-License-Identifier: MIT
/* The ALU: copies of table and parameters, then result words one by one. docs/isa.md 3.6. */
#include "machine.h"

static const struct cyc_want nothing = { CYC_NONE, 0 };

static void begin_words(struct cyc_alu *a)
{
	a->y = 0;
	a->x = 0;
	a->cycle = 0;
	a->read = 0;
	a->phase = CYC_ALU_WORD;
}

static void begin_block(struct cyc_alu *a)
{
	begin_words(a);
	if (!a->setup)
		return;
	a->phase = CYC_ALU_PARAM;
	a->left = a->setup;
}

static void set_counts(const struct cyc_machine *m, struct cyc_alu *a)
{
	int64_t w = cyc_up(a->lanes, m->board->alu_lanes);
	int64_t second = a->v.bin != RIVULET_BIN_NONE;
	int64_t average = a->v.pool == RIVULET_POOL_AVG_FIXED ||
			  a->v.pool == RIVULET_POOL_AVG_BORDER;
	int64_t prelu = a->v.real && a->type.prelu;

	a->parts = a->lanes / m->board->tn;
	a->positions = a->v.pool ? a->pool.kh * a->pool.kw : 1;
	a->a_words = !a->v.src && a->type.a ? 2 : 1;
	a->b_words = a->v.real && a->type.b ? 2 : 1;
	a->d_words = a->v.real && a->type.d ? 2 : 1;
	a->only = a->v.pack && a->bits.only;
	a->reads = a->positions * a->a_words + second * a->parts * a->b_words;
	a->turn = cyc_max(w * (a->positions * (a->v.slope ? 2 : 1) + average + second + prelu),
			  cyc_max(a->reads, (a->only ? 0 : a->parts * a->d_words) + a->v.pack));
	a->setup = (a->v.rq || (a->v.real && !a->only) ? a->lanes * 8 : 0) +
		   (a->v.real && second ? a->lanes * 4 : 0) + (prelu || a->v.slope) * a->lanes * 8 +
		   (a->v.pack ? a->lanes * 4 : 0);
	a->setup = a->setup ? cyc_max(16, a->setup / 16) : 0;
}

void cyc_alu_start(struct cyc_machine *m, uint32_t index)
{
	struct cyc_alu *a = &m->alu;

	a->active = true;
	a->index = index;
	a->v = m->insn[index].alu;
	a->src = m->config.a_src;
	a->dst = m->config.a_dst;
	a->pool = m->config.a_pool;
	a->div = m->config.a_div;
	a->type = m->config.a_type;
	a->bits = m->config.a_pack;
	a->lanes = a->v.src ? m->board->tm : m->board->tn;
	set_counts(m, a);
	a->b = 0;
	begin_block(a);
	if (!a->v.lut)
		return;
	a->phase = CYC_ALU_TABLE;
	a->left = 16;
}

static struct cyc_want read_a(const struct cyc_machine *m)
{
	const struct cyc_alu *a = &m->alu;
	int64_t r = a->y, c = a->x, addr, block = a->b * a->a_words + a->read % a->a_words;

	if (a->v.pool) {
		int64_t at = a->read / a->a_words, ky = at / a->pool.kw, kx = at % a->pool.kw;

		r = a->y * a->pool.sy + ky * (a->div.dy ? a->div.dy : 1) + a->pool.org_y;
		c = a->x * a->pool.sx + kx * (a->div.dx ? a->div.dx : 1) + a->pool.org_x;
		if (r < 0 || r >= a->pool.rows || c < 0 || c >= a->pool.cols)
			return (struct cyc_want){ CYC_FREE, 0 };
	}
	addr = a->v.a + block * a->src.a_blk + r * a->src.a_row + c;
	return a->v.src ? cyc_acc(m, addr) : cyc_inp(m, addr);
}

static struct cyc_want read_b(const struct cyc_machine *m)
{
	const struct cyc_alu *a = &m->alu;
	int64_t block = a->b * a->parts * a->b_words + a->read - a->positions * a->a_words;

	return cyc_inp(m, a->v.b + block * a->src.b_blk + a->y * a->src.b_row + a->x);
}

struct cyc_want cyc_alu_reads(const struct cyc_machine *m)
{
	const struct cyc_alu *a = &m->alu;

	if (!a->active)
		return nothing;
	if (a->phase != CYC_ALU_WORD)
		return (struct cyc_want){ CYC_WGT, 0 };
	if (a->read == a->reads)
		return nothing;
	return a->read < a->positions * a->a_words ? read_a(m) : read_b(m);
}

struct cyc_want cyc_alu_writes(const struct cyc_machine *m)
{
	const struct cyc_alu *a = &m->alu;
	const struct cyc_write *w = &a->write[a->write_head % CYC_WRITES];

	if (a->write_head == a->write_tail)
		return nothing;
	return w->mem == RIVULET_MEM_ACC ? cyc_acc(m, w->addr) : cyc_inp(m, w->addr);
}

static void put_write(struct cyc_alu *a, enum rivulet_mem mem, int64_t addr)
{
	a->write[a->write_tail++ % CYC_WRITES] = (struct cyc_write){ mem, addr };
}

static void put_result(const struct cyc_machine *m, struct cyc_alu *a)
{
	int64_t at = a->v.d + a->y * a->dst.row + a->x, words = a->parts * a->d_words;
	int64_t block = 8 * m->board->tn >> a->bits.lanes;

	for (int64_t j = 0; j < (a->v.dst ? 1 : words) && !a->only; j++)
		put_write(a, a->v.dst ? RIVULET_MEM_ACC : RIVULET_MEM_INP,
			  at + (a->v.dst ? a->b : a->b * words + j) * a->dst.blk);
	if (a->v.pack)
		put_write(a, RIVULET_MEM_INP,
			  a->bits.d + (a->bits.first + a->b * a->lanes) / block * a->bits.blk +
				  a->y * a->bits.row + (a->x >> a->bits.lanes));
}

static void next_word(struct cyc_machine *m)
{
	struct cyc_alu *a = &m->alu;

	a->cycle = 0;
	a->read = 0;
	if (++a->x < a->v.cols)
		return;
	a->x = 0;
	if (++a->y < a->v.rows)
		return;
	if (++a->b < a->v.blks) {
		begin_block(a);
		return;
	}
	m->times[a->index].end = m->now + 1 + CYC_FILL;
	a->active = false;
}

static void step_copy(struct cyc_alu *a)
{
	if (--a->left)
		return;
	if (a->phase == CYC_ALU_TABLE)
		begin_block(a);
	else
		begin_words(a);
}

/* @got: the read of this cycle was granted. @wrote: the first write in the queue was granted. */
void cyc_alu_step(struct cyc_machine *m, bool got, bool wrote)
{
	struct cyc_alu *a = &m->alu;

	a->write_head += wrote;
	if (!a->active)
		return;
	if (a->phase != CYC_ALU_WORD) {
		if (got)
			step_copy(a);
		return;
	}
	a->read += got;
	if (++a->cycle < a->turn || a->read < a->reads)
		return;
	put_result(m, a);
	next_word(m);
}

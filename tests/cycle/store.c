// SPDX-License-Identifier: MIT
/* STORE: the drain stage reads words, and the send stage requests bursts. docs/isa.md 3.4. */
#include <errno.h>
#include <stdlib.h>

#include "machine.h"

int cyc_store_init(struct cyc_machine *m)
{
	struct cyc_store *s = &m->store;

	s->fifo_bytes = (uint64_t)m->board->bursts * m->board->burst_bytes;
	s->leave_size = s->fifo_bytes + 1;
	s->leave = calloc(s->leave_size, sizeof(*s->leave));
	return s->leave ? 0 : -ENOMEM;
}

static struct cyc_xfer xfer_of(const struct cyc_machine *m, const struct rivulet_insn_store *v)
{
	const struct cyc_config *c = &m->config;
	bool acc = v->mem == RIVULET_MEM_ACC;
	struct cyc_xfer x = {
		.kind = v->kind,
		.offset = v->offset,
		.rows = v->rows,
		.cols = v->cols,
		.blks = v->blks,
		.row_pitch = c->s_dst.row_pitch,
		.blk_pitch = c->s_dst.blk_pitch,
		.ch_pitch = c->s_dst.ch_pitch,
		.channels = c->s_chan.channels,
		.lanes = acc ? m->board->tm : m->board->tn,
		.elem = acc ? 4 : 1,
	};

	x.moved = x.lanes * x.elem;
	if (v->kind != RIVULET_XFER_BLOCK)
		x.blks = cyc_min(x.blks, cyc_up(x.channels, x.lanes));
	if (!acc && v->kind == RIVULET_XFER_BLOCK && c->s_chan.count) {
		x.moved = c->s_chan.count;
		x.offset += c->s_chan.dst_ch;
	}
	cyc_xfer_finish(m->board, &x);
	return x;
}

static uint64_t move_of(const struct cyc_machine *m, const struct rivulet_insn_store *v)
{
	if (v->mem != RIVULET_MEM_ACC)
		return 1;
	if (v->kind == RIVULET_XFER_BLOCK)
		return cyc_acc_move(m->board);
	return 4 * m->board->tm / m->board->tn;
}

void cyc_store_start(struct cyc_machine *m, uint32_t index)
{
	struct cyc_store *s = &m->store;

	s->active = true;
	s->index = index;
	s->v = m->insn[index].store;
	s->src = m->config.s_src;
	s->x = xfer_of(m, &s->v);
	s->move = move_of(m, &s->v);
	s->words = cyc_xfer_words(&s->x);
	s->word = 0;
	s->moving = 0;
	s->drained_bytes = 0;
	s->drained_strips = 0;
	s->sent_bytes = 0;
	s->cursor = (struct cyc_cursor){ 0 };
	s->burst = cyc_cut(m->board, &s->x, &s->cursor);
	s->free_at = CYC_NEVER;
}

bool cyc_store_asks(const struct cyc_machine *m)
{
	const struct cyc_store *s = &m->store;

	if (!s->active || !s->burst.len)
		return false;
	if (s->x.piece)
		return s->burst.strip < s->drained_strips;
	return s->sent_bytes + s->burst.len <= s->drained_bytes;
}

void cyc_store_granted(struct cyc_machine *m)
{
	struct cyc_store *s = &m->store;
	uint64_t left = m->now + s->burst.beats, len = s->burst.len;

	if (s->x.piece)
		s->strip_left[s->burst.strip & 1] = left;
	else
		s->leave[s->leave_tail++ % s->leave_size] = (struct cyc_leave){ left, len };
	s->sent_bytes += len;
	s->burst = cyc_cut(m->board, &s->x, &s->cursor);
	if (s->burst.len)
		return;
	s->free_at = left + m->board->burst_gap;
	m->times[s->index].end = left + m->board->mem_latency;
	s->active = false;
}

static void let_leave(struct cyc_machine *m)
{
	struct cyc_store *s = &m->store;

	while (s->leave_head < s->leave_tail) {
		const struct cyc_leave *e = &s->leave[s->leave_head % s->leave_size];

		if (e->when > m->now)
			return;
		s->fifo_used -= e->bytes;
		s->leave_head++;
	}
}

static bool has_room(const struct cyc_machine *m, const struct cyc_word *w)
{
	const struct cyc_store *s = &m->store;
	uint64_t strip;

	if (!s->x.piece)
		return s->fifo_used + cyc_word_bytes(&s->x, w) <= s->fifo_bytes;
	strip = cyc_strip_of(&s->x, w);
	if (strip < 2)
		return true;
	return s->burst.strip + 1 >= strip && m->now >= s->strip_left[strip & 1];
}

struct cyc_want cyc_store_wants(struct cyc_machine *m)
{
	struct cyc_store *s = &m->store;
	struct cyc_word w;
	int64_t addr;

	if (!s->active || s->word == s->words)
		return (struct cyc_want){ CYC_NONE, 0 };
	if (s->moving)
		return (struct cyc_want){ CYC_FREE, 0 };
	let_leave(m);
	w = cyc_word_at(&s->x, s->word);
	if (!has_room(m, &w))
		return (struct cyc_want){ CYC_NONE, 0 };
	addr = s->v.addr + w.blk * s->src.blk_pitch + w.row * s->src.row_pitch + w.col;
	return s->v.mem == RIVULET_MEM_ACC ? cyc_acc(m, addr) : cyc_inp(m, addr);
}

static void word_drained(struct cyc_store *s, const struct cyc_word *w)
{
	struct cyc_word next;

	s->word++;
	s->drained_bytes += cyc_word_bytes(&s->x, w);
	if (!s->x.piece)
		return;
	next = cyc_word_at(&s->x, s->word);
	if (s->word == s->words || cyc_strip_of(&s->x, &next) != cyc_strip_of(&s->x, w))
		s->drained_strips++;
}

void cyc_store_step(struct cyc_machine *m, bool got)
{
	struct cyc_store *s = &m->store;
	struct cyc_word w;

	if (!got)
		return;
	w = cyc_word_at(&s->x, s->word);
	if (!s->moving && !s->x.piece)
		s->fifo_used += cyc_word_bytes(&s->x, &w);
	s->moving = s->moving ? s->moving - 1 : s->move - 1;
	if (!s->moving)
		word_drained(s, &w);
}

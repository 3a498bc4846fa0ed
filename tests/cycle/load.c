// SPDX-License-Identifier: MIT
/* LOAD: the request stage requests bursts, and the fill stage writes words. docs/isa.md 3.3. */
#include <errno.h>
#include <stdlib.h>

#include "machine.h"

int cyc_load_init(struct cyc_machine *m)
{
	struct cyc_load *l = &m->load;

	l->fifo_bytes = (uint64_t)m->board->bursts * m->board->burst_bytes;
	l->fifo_size = l->fifo_bytes / m->board->port_bytes + 1;
	l->fifo = calloc(l->fifo_size, sizeof(*l->fifo));
	return l->fifo ? 0 : -ENOMEM;
}

static bool in_strips(const struct cyc_xfer *x)
{
	return x->piece;
}

static void set_words(const struct cyc_machine *m, struct cyc_load_job *j)
{
	const struct cyc_config *c = &m->config;
	const struct rivulet_insn_load *v = &j->v;
	int64_t rows, cols, inner;

	j->words = cyc_xfer_words(&j->x);
	j->move = v->mem == RIVULET_MEM_ACC ? cyc_acc_move(m->board) : 1;
	if (v->mem != RIVULET_MEM_INP)
		return;
	j->pad = c->l_pad;
	j->rep_y = c->l_chan.rep_y;
	j->rep_x = c->l_chan.rep_x;
	rows = v->rows * (j->rep_y + 1) + j->pad.top + j->pad.bottom;
	cols = v->cols * (j->rep_x + 1) + j->pad.left + j->pad.right;
	inner = v->rows * (j->rep_y + 1) * v->cols * (j->rep_x + 1);
	j->pads = v->blks * (rows * cols - inner);
}

static struct cyc_xfer xfer_of(const struct cyc_machine *m, const struct rivulet_insn_load *v)
{
	const struct cyc_config *c = &m->config;
	bool inp = v->mem == RIVULET_MEM_INP, acc = v->mem == RIVULET_MEM_ACC;
	struct cyc_xfer x = {
		.kind = v->kind,
		.offset = v->offset,
		.rows = v->rows,
		.cols = v->cols,
		.blks = v->blks,
		.row_pitch = c->l_src.row_pitch,
		.blk_pitch = c->l_src.blk_pitch,
		.ch_pitch = c->l_src.ch_pitch,
		.channels = c->l_chan.channels,
		.lanes = inp ? m->board->tn :
			 acc ? m->board->tm :
			       16,
		.elem = acc ? 4 : 1,
		.gather = c->l_gather,
		.bounds = c->l_bounds,
	};

	x.moved = x.lanes * x.elem;
	if (inp && v->kind == RIVULET_XFER_BLOCK && c->l_chan.count) {
		x.moved = c->l_chan.count;
		x.offset += c->l_chan.src_ch;
	}
	cyc_xfer_finish(m->board, &x);
	return x;
}

void cyc_load_start(struct cyc_machine *m, uint32_t index)
{
	struct cyc_load *l = &m->load;
	struct cyc_load_job *j = &l->job[l->started++ % CYC_FLIGHT];

	*j = (struct cyc_load_job){
		.index = index, .v = m->insn[index].load, .dst = m->config.l_dst, .seen = CYC_NEVER
	};
	j->x = xfer_of(m, &j->v);
	set_words(m, j);
	if (in_strips(&j->x)) {
		j->first_strip = l->next_strip;
		l->next_strip += cyc_xfer_strips(&j->x);
		l->asked_strips = j->first_strip;
	}
	l->cursor = (struct cyc_cursor){ 0 };
	l->burst = cyc_cut(m->board, &j->x, &l->cursor);
	l->asking = l->burst.len;
	l->asked_strips += in_strips(&j->x) ? l->burst.strip : 0;
	l->free_at = l->asking ? CYC_NEVER : m->now + 1;
}

static const struct cyc_load_job *asking_job(const struct cyc_load *l)
{
	return &l->job[(l->started - 1) % CYC_FLIGHT];
}

bool cyc_load_asks(const struct cyc_machine *m)
{
	const struct cyc_load *l = &m->load;

	if (!l->asking)
		return false;
	if (in_strips(&asking_job(l)->x))
		return l->strips_written + 1 >= asking_job(l)->first_strip + l->burst.strip;
	return l->fifo_used + l->burst.beats * m->board->port_bytes <= l->fifo_bytes;
}

static void take_burst(struct cyc_machine *m, bool strips)
{
	struct cyc_load *l = &m->load;
	struct cyc_burst *b = &l->burst;

	if (strips) {
		l->strip_ready[(asking_job(l)->first_strip + b->strip) & 1] =
			m->now + m->board->mem_latency + b->beats - 1;
		return;
	}
	l->fifo[l->fifo_tail++ % l->fifo_size] =
		(struct cyc_inflow){ m->now, b->addr, l->asked_bytes, b->len, b->beats };
	l->fifo_used += b->beats * m->board->port_bytes;
	l->asked_bytes += b->len;
}

void cyc_load_granted(struct cyc_machine *m)
{
	struct cyc_load *l = &m->load;
	const struct cyc_load_job *j = asking_job(l);
	uint64_t beats = l->burst.beats;

	take_burst(m, in_strips(&j->x));
	l->burst = cyc_cut(m->board, &j->x, &l->cursor);
	if (in_strips(&j->x))
		l->asked_strips = j->first_strip + l->burst.strip;
	if (l->burst.len)
		return;
	l->asking = false;
	l->free_at = m->now + beats + m->board->burst_gap;
}

/* ---- fill ---- */

static struct cyc_load_job *filling_job(struct cyc_load *l)
{
	return l->filled < l->started ? &l->job[l->filled % CYC_FLIGHT] : NULL;
}

/*
 * Whether the data of the word are in the FIFO, that is, whether the beat with its last byte has
 * arrived.
 */
static bool fifo_has(const struct cyc_machine *m, const struct cyc_xfer *x,
		     const struct cyc_word *w)
{
	const struct cyc_load *l = &m->load;
	uint64_t bytes = cyc_word_bytes(x, w), last = l->filled_bytes + bytes - 1;
	uint64_t p = m->board->port_bytes;

	if (!bytes)
		return true;
	if (last >= l->asked_bytes)
		return false;
	for (uint64_t i = l->fifo_head; i < l->fifo_tail; i++) {
		const struct cyc_inflow *f = &l->fifo[i % l->fifo_size];

		if (last < f->first + f->len)
			return m->now >= f->granted + m->board->mem_latency +
						 (f->addr + (last - f->first)) / p - f->addr / p;
	}
	return false;
}

static bool strip_there(const struct cyc_machine *m, struct cyc_load_job *j,
			const struct cyc_word *w)
{
	uint64_t strip = cyc_strip_of(&j->x, w), number = j->first_strip + strip;

	if (j->seen != strip) {
		j->seen = strip;
		j->seen_empty = cyc_strip_empty(&j->x, strip);
	}
	if (j->seen_empty)
		return true;
	return m->load.asked_strips > number && m->now >= m->load.strip_ready[number & 1];
}

/* The INP address of the n-th word of padding around a block. */
static int64_t pad_address(const struct cyc_load_job *j)
{
	int64_t width = j->v.cols * (j->rep_x + 1), cols = width + j->pad.left + j->pad.right;
	int64_t height = j->v.rows * (j->rep_y + 1);
	int64_t side = j->pad.left + j->pad.right;
	int64_t frame = (j->pad.top + j->pad.bottom) * cols + height * side;
	int64_t blk = j->pad_at / frame, n = j->pad_at % frame, row = 0, col;

	if (n < j->pad.top * cols) {
		row = n / cols;
		col = n % cols;
	} else if (n - j->pad.top * cols < height * side) {
		n -= j->pad.top * cols;
		row = j->pad.top + n / side;
		col = n % side < j->pad.left ? n % side : n % side + width;
	} else {
		n -= j->pad.top * cols + height * side;
		row = j->pad.top + height + n / cols;
		col = n % cols;
	}
	return j->v.addr + blk * j->dst.blk_pitch + row * j->dst.row_pitch + col;
}

static int64_t data_address(const struct cyc_load_job *j, const struct cyc_word *w)
{
	int64_t ry = j->copy / (j->rep_x + 1), rx = j->copy % (j->rep_x + 1);

	return j->v.addr + w->blk * j->dst.blk_pitch +
	       (w->row * (j->rep_y + 1) + j->pad.top + ry) * j->dst.row_pitch +
	       w->col * (j->rep_x + 1) + j->pad.left + rx;
}

static struct cyc_want want_of(const struct cyc_machine *m, const struct cyc_load_job *j,
			       int64_t addr)
{
	switch (j->v.mem) {
	case RIVULET_MEM_INP:
		return cyc_inp(m, addr);
	case RIVULET_MEM_ACC:
		return cyc_acc(m, addr);
	default:
		return (struct cyc_want){ CYC_FREE, 0 };
	}
}

struct cyc_want cyc_load_wants(struct cyc_machine *m)
{
	struct cyc_load_job *j = filling_job(&m->load);
	struct cyc_word w;

	if (!j)
		return (struct cyc_want){ CYC_NONE, 0 };
	if (m->load.moving)
		return (struct cyc_want){ CYC_FREE, 0 };
	if (j->pads)
		return want_of(m, j, pad_address(j));
	w = cyc_word_at(&j->x, j->word);
	if (in_strips(&j->x) ? !strip_there(m, j, &w) : !fifo_has(m, &j->x, &w))
		return (struct cyc_want){ CYC_NONE, 0 };
	return want_of(m, j, data_address(j, &w));
}

static void drop_written_bursts(struct cyc_machine *m)
{
	struct cyc_load *l = &m->load;

	while (l->fifo_head < l->fifo_tail) {
		const struct cyc_inflow *f = &l->fifo[l->fifo_head % l->fifo_size];

		if (f->first + f->len > l->filled_bytes)
			return;
		l->fifo_used -= f->beats * m->board->port_bytes;
		l->fifo_head++;
	}
}

static void word_written(struct cyc_machine *m, struct cyc_load_job *j)
{
	struct cyc_load *l = &m->load;
	struct cyc_word w = cyc_word_at(&j->x, j->word), next;

	if (++j->copy < (uint64_t)((j->rep_y + 1) * (j->rep_x + 1)))
		return;
	j->copy = 0;
	j->word++;
	if (!in_strips(&j->x)) {
		l->filled_bytes += cyc_word_bytes(&j->x, &w);
		drop_written_bursts(m);
		return;
	}
	next = cyc_word_at(&j->x, j->word);
	if (j->word == j->words || cyc_strip_of(&j->x, &next) != cyc_strip_of(&j->x, &w))
		l->strips_written++;
}

void cyc_load_step(struct cyc_machine *m, bool got)
{
	struct cyc_load *l = &m->load;
	struct cyc_load_job *j = filling_job(l);

	if (!j || !got)
		return;
	if (j->pads) {
		j->pads--;
		j->pad_at++;
		return;
	}
	l->moving = l->moving ? l->moving - 1 : j->move - 1;
	if (l->moving)
		return;
	word_written(m, j);
	if (j->word < j->words)
		return;
	m->times[j->index].end = m->now + 1;
	l->filled++;
}

// SPDX-License-Identifier: MIT
/*
 * The static checker. The stream is executed without time: a queue's head may go when its tokens
 * are there, the lowest index first. The network is deterministic, so if this order gets to the
 * end, every order does. Each instruction has a vector clock: how many instructions of each queue
 * have certainly ended when it starts. A k-th pop meets the k-th push of its pair, and a queue
 * retires in order.
 */
#include "npu/isa_check.h"
#include "npu/isa_words.h"
#include "rivulet_cost.h"
#include "rivulet_footprint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUES RIVULET_QUEUES

/*
 * Memories whose accesses are recorded: the scratchpads, and each slot that the stream both loads
 * and stores.
 */
#define SPACE_OF_SLOT(slot) (RIVULET_MEMS + (slot))
#define SPACES		    SPACE_OF_SLOT(RIVULET_SLOTS)
#define GRANULE		    16u

/* The token state of one instruction, as far as the check has derived it. */
struct node {
	uint8_t queue, pop, push;
	uint32_t position;	 /* in its queue */
	uint32_t before[QUEUES]; /* instructions of each queue with a lower index */
	uint32_t pops[QUEUES];	 /* tokens from each queue that its queue took before it */
	uint32_t clock[QUEUES];
};

/* Tokens from one queue to another, by number. */
struct pair {
	uint32_t *pusher; /* index of the instruction that pushes token k */
	uint32_t pushes;  /* in the whole stream */
	uint32_t pops;
	uint32_t given, taken; /* so far */
};

struct checker {
	const struct rivulet_board *board;
	const struct rivulet_insn *stream;
	uint32_t count;
	const struct rvl_isa_slot *slots;
	struct rvl_isa_report *report;
	struct node *node;
	uint32_t *list[QUEUES]; /* indices of each queue's instructions */
	uint32_t len[QUEUES];
	uint32_t dispatched[QUEUES], started[QUEUES];
	uint32_t next;			  /* to dispatch */
	struct pair pair[QUEUES][QUEUES]; /* [from][to] */
	struct rivulet_config config;
	struct rvl_words words[SPACES];
	uint32_t granule[RIVULET_SLOTS]; /* divides all places and lengths of its DMA */
	bool loads[RIVULET_SLOTS], stores[RIVULET_SLOTS];
};

static const char *const queue_name[] = { "LOAD", "CONV", "ALU", "STORE" };
static const char *const mem_name[] = { "INP", "WGT", "ACC" };

#define PROBLEM_NAME(name, doc) [RVL_ISA_##name] = #name,
static const char *const problem_name[] = { RVL_ISA_PROBLEMS(PROBLEM_NAME) };
#define PROBLEM_DOC(name, doc) [RVL_ISA_##name] = doc,
static const char *const problem_doc[] = { RVL_ISA_PROBLEMS(PROBLEM_DOC) };

const char *rvl_isa_problem_name(enum rvl_isa_problem p)
{
	return (size_t)p < sizeof(problem_name) / sizeof(problem_name[0]) ? problem_name[p] : "?";
}

/* Append "; #INDEX TEXT OF THE INSTRUCTION". */
static void append_insn(struct checker *c, uint32_t index)
{
	char line[400] = "?", *text = c->report->text;
	size_t n = strlen(text);

	if (index >= c->count)
		return;
	rivulet_disassemble(&c->stream[index], line, sizeof(line));
	snprintf(text + n, sizeof(c->report->text) - n, "; #%u %s", index, line);
}

__attribute__((format(printf, 5, 6))) static int problem(struct checker *c, enum rvl_isa_problem p,
							 uint32_t first, uint32_t second,
							 const char *fmt, ...)
{
	struct rvl_isa_report *r = c->report;
	int n = snprintf(r->text, sizeof(r->text), "%s: ", problem_doc[p]);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->text + n, sizeof(r->text) - n, fmt, ap);
	va_end(ap);
	r->problem = p;
	r->first = first;
	r->second = second;
	append_insn(c, first);
	append_insn(c, second);
	return -EINVAL;
}

/* ---- the stream as a whole ---- */

static bool is_end(const struct rivulet_decoded *d)
{
	return d->form == RIVULET_FORM_sync && d->sync.kind == RIVULET_SYNC_END;
}

static const char *fault_name(int fault)
{
#define FAULT(name, value, slot, doc)                                                              \
	case value:                                                                                \
		return #name;
	switch (fault) {
		RIVULET_FAULTS(FAULT)
	default:
		return "?";
	}
#undef FAULT
}

/* Tokens and place in its queue. */
static void scan_tokens(struct checker *c, uint32_t i, const struct rivulet_header *h,
			uint32_t pops[QUEUES][QUEUES])
{
	struct node *n = &c->node[i];

	n->queue = h->queue;
	n->pop = h->pop;
	n->push = h->push;
	n->position = c->len[n->queue]++;
	for (int q = 0; q < QUEUES; q++) {
		n->before[q] = c->len[q] - (q == n->queue);
		n->pops[q] = pops[n->queue][q];
		pops[n->queue][q] += n->pop >> q & 1;
		c->pair[n->queue][q].pushes += n->push >> q & 1;
		c->pair[q][n->queue].pops += n->pop >> q & 1;
	}
}

static int check_slot(struct checker *c, const struct rivulet_extent *e, uint32_t i)
{
	const struct rvl_isa_slot *s = c->slots ? &c->slots[e->slot] : NULL;

	if (!s || !e->used)
		return 0;
	if (e->end > s->size)
		return problem(c, RVL_ISA_SLOT, i, RVL_ISA_NO_INSN,
			       "bytes %" PRIu64 "..%" PRIu64 " of slot %u, which has %" PRIu64,
			       e->first, e->end - 1, e->slot, s->size);
	if (e->write && !s->write)
		return problem(c, RVL_ISA_SLOT, i, RVL_ISA_NO_INSN, "slot %u is read only",
			       e->slot);
	return 0;
}

static int check_prof(struct checker *c, const struct rivulet_insn_q_prof *p, uint32_t i)
{
	struct rivulet_extent e = { .used = p->limit > 0,
				    .write = true,
				    .slot = p->slot,
				    .first = p->offset,
				    .end = p->offset + p->limit * sizeof(struct rivulet_prof) };

	return check_slot(c, &e, i);
}

static uint32_t gcd(uint64_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* The memory that an instruction accesses, and the units of its addresses. */
static void scan_memory(struct checker *c, const struct rivulet_extent *e)
{
	uint32_t *g = &c->granule[e->slot];

	if (!e->used)
		return;
	*(e->write ? &c->stores[e->slot] : &c->loads[e->slot]) = true;
	*g = gcd(e->first, gcd(e->run, *g));
	if (e->blks > 1)
		*g = gcd(e->blk_pitch, *g);
	if (e->rows > 1)
		*g = gcd(e->row_pitch, *g);
}

/* Checks of one instruction that need no other instruction. */
static int scan_insn(struct checker *c, uint32_t i, const struct rivulet_decoded *d)
{
	struct rivulet_footprint f;
	int r = rivulet_insn_check(c->board, &c->config, d);

	if (r)
		return problem(c, RVL_ISA_ILLEGAL, i, RVL_ISA_NO_INSN, "%s", fault_name(r));
	if (is_end(d) != (i == c->count - 1))
		return problem(c, RVL_ISA_NO_END, i, RVL_ISA_NO_INSN, "of %u instructions",
			       c->count);
	rivulet_config_set(&c->config, d);
	if (rivulet_footprint_of(c->board, &c->config, d, &f))
		return problem(c, RVL_ISA_SPAD, i, RVL_ISA_NO_INSN,
			       "of %u INP, %u WGT, %u ACC words", c->words[0].count,
			       c->words[1].count, c->words[2].count);
	if (d->form == RIVULET_FORM_q_prof)
		return check_prof(c, &d->q_prof, i);
	scan_memory(c, &f.dma);
	return check_slot(c, &f.dma, i);
}

static int scan(struct checker *c)
{
	uint32_t pops[QUEUES][QUEUES] = { 0 };
	int r = 0;

	if (!c->count)
		return problem(c, RVL_ISA_NO_END, RVL_ISA_NO_INSN, RVL_ISA_NO_INSN,
			       "the stream is empty");
	for (int slot = 0; slot < RIVULET_SLOTS; slot++)
		c->granule[slot] = GRANULE;
	for (uint32_t i = 0; !r && i < c->count; i++) {
		struct rivulet_decoded d;
		int fault = rivulet_decode(&c->stream[i], &d);

		if (fault)
			return problem(c, RVL_ISA_ILLEGAL, i, RVL_ISA_NO_INSN, "%s",
				       fault_name(fault));
		r = scan_insn(c, i, &d);
		scan_tokens(c, i, &d.h, pops);
	}
	memset(&c->config, 0, sizeof(c->config));
	return r;
}

/* Fill the lists whose lengths scan() counted. */
static int make_lists(struct checker *c)
{
	uint32_t pushed[QUEUES][QUEUES] = { 0 };

	for (int q = 0; q < QUEUES; q++) {
		c->list[q] = calloc(c->len[q] + 1, sizeof(uint32_t));
		if (!c->list[q])
			return -ENOMEM;
		for (int to = 0; to < QUEUES; to++) {
			c->pair[q][to].pusher = calloc(c->pair[q][to].pushes + 1, sizeof(uint32_t));
			if (!c->pair[q][to].pusher)
				return -ENOMEM;
		}
	}
	for (uint32_t i = 0; i < c->count; i++) {
		const struct node *n = &c->node[i];

		c->list[n->queue][n->position] = i;
		for (int to = 0; to < QUEUES; to++)
			if (n->push >> to & 1)
				c->pair[n->queue][to].pusher[pushed[n->queue][to]++] = i;
	}
	return 0;
}

/* ---- tokens ---- */

static bool ready(const struct checker *c, const struct node *n)
{
	for (int from = 0; from < QUEUES; from++)
		if (n->pop >> from & 1 &&
		    c->pair[from][n->queue].given == c->pair[from][n->queue].taken)
			return false;
	return true;
}

static void raise(uint32_t *to, uint32_t at_least)
{
	if (*to < at_least)
		*to = at_least;
}

/*
 * The clock of an instruction: the clock of its predecessor in the queue, and those of the tokens
 * that it takes.
 */
static void start(struct checker *c, struct node *n)
{
	if (n->position)
		memcpy(n->clock, c->node[c->list[n->queue][n->position - 1]].clock,
		       sizeof(n->clock));
	for (int from = 0; from < QUEUES; from++) {
		struct pair *p = &c->pair[from][n->queue];
		const struct node *pusher;

		if (!(n->pop >> from & 1))
			continue;
		pusher = &c->node[p->pusher[p->taken++]];
		for (int q = 0; q < QUEUES; q++)
			raise(&n->clock[q], pusher->clock[q]);
		raise(&n->clock[from], pusher->position + 1);
	}
	n->clock[n->queue] = n->position;
}

/* Tokens that queue @to has certainly taken from @from when instruction @i starts. */
static uint32_t taken_before(const struct checker *c, uint32_t i, int from, int to)
{
	const struct node *n = &c->node[i];
	uint32_t begun = n->clock[to];

	/* all before it are dispatched, and only a queue's depth can wait */
	if (n->before[to] > c->board->queue_depth)
		raise(&begun, n->before[to] - c->board->queue_depth);
	return begun < c->len[to] ? c->node[c->list[to][begun]].pops[from] : c->pair[from][to].pops;
}

static int give(struct checker *c, uint32_t i)
{
	const struct node *n = &c->node[i];

	for (int to = 0; to < QUEUES; to++) {
		struct pair *p = &c->pair[n->queue][to];

		if (!(n->push >> to & 1))
			continue;
		p->given++;
		if (p->given > taken_before(c, i, n->queue, to) + RIVULET_TOKEN_MAX)
			return problem(
				c, RVL_ISA_TOKEN_OVERFLOW, i, RVL_ISA_NO_INSN,
				"token %u from %s to %s, of which only %u must have been taken",
				p->given, queue_name[n->queue], queue_name[to],
				taken_before(c, i, n->queue, to));
	}
	return 0;
}

/* ---- scratchpads ---- */

/* Whether the instruction at @at (1 + position) of @queue has ended when @n starts. */
static bool ordered(const struct node *n, int queue, uint32_t at)
{
	return !at || queue == n->queue || at <= n->clock[queue];
}

/* "INP word 7" or "slot 1 byte 4096". */
static int word_problem(struct checker *c, enum rvl_isa_problem p, uint32_t first, uint32_t second,
			int space, uint32_t word)
{
	if (space < RIVULET_MEMS) {
		c->report->mem = space;
		c->report->word = word;
		return problem(c, p, first, second, "%s word %u", mem_name[space], word);
	}
	c->report->mem = RIVULET_MEMS;
	c->report->word = (uint64_t)word * c->granule[space - RIVULET_MEMS];
	return problem(c, p, first, second, "slot %d byte %" PRIu64, space - RIVULET_MEMS,
		       c->report->word);
}

static int hazard(struct checker *c, int space, uint32_t word, uint32_t i, int queue, uint32_t at,
		  bool other_writes, bool writes)
{
	uint32_t other = c->list[queue][at - 1], first = i < other ? i : other;
	bool first_writes = first == i ? writes : other_writes;
	enum rvl_isa_problem p = first_writes ? RVL_ISA_RAW : RVL_ISA_WAR;

	if (writes && other_writes)
		p = RVL_ISA_WAW;
	return word_problem(c, p, first, i < other ? other : i, space, word);
}

static int check_read(struct checker *c, int space, uint32_t word, uint32_t i)
{
	const struct node *n = &c->node[i];
	struct rvl_history *h = rvl_words_at(&c->words[space], word);

	if (!h->writer.at && space < RIVULET_MEMS)
		return word_problem(c, RVL_ISA_UNWRITTEN, i, RVL_ISA_NO_INSN, space, word);
	if (!ordered(n, h->writer.queue, h->writer.at))
		return hazard(c, space, word, i, h->writer.queue, h->writer.at, true, false);
	h->reader[n->queue] = n->position + 1;
	return 0;
}

static int check_write(struct checker *c, int space, uint32_t word, uint32_t i)
{
	const struct node *n = &c->node[i];
	const struct rvl_history *h = rvl_words_at(&c->words[space], word);

	if (!ordered(n, h->writer.queue, h->writer.at))
		return hazard(c, space, word, i, h->writer.queue, h->writer.at, true, true);
	for (int q = 0; q < QUEUES; q++)
		if (!ordered(n, q, h->reader[q]))
			return hazard(c, space, word, i, q, h->reader[q], false, true);
	return 0;
}

/* One contiguous run of words, of a scratchpad or of a slot's history. */
static int touch_run(struct checker *c, int space, const struct rivulet_access *a, uint32_t lo,
		     uint32_t hi, uint32_t i)
{
	struct rvl_words *w = &c->words[space];
	int r = rvl_words_cut(w, lo);

	if (!r)
		r = rvl_words_cut(w, hi);
	for (uint32_t at = lo; !r && at < hi; at = rvl_words_next(w, at)) {
		if (a->read)
			r = check_read(c, space, at, i);
		if (!r && a->write)
			r = check_write(c, space, at, i);
	}
	if (!r && a->write)
		rvl_words_write(w, lo, hi,
				(struct rvl_touch){ c->node[i].position + 1, c->node[i].queue });
	return r;
}

/* Make runs that abut one run, from the inside out. */
static void merge_runs(struct rivulet_access *a)
{
	uint64_t *n[] = { &a->rows, &a->blks, &a->grps };
	uint64_t pitch[] = { a->row_pitch, a->blk_pitch, a->grp_pitch };

	for (int k = 0; k < 3; k++) {
		if (*n[k] > 1 && pitch[k] > a->cols)
			return;
		a->cols += (*n[k] - 1) * pitch[k];
		*n[k] = 1;
	}
}

/* All runs of @a; @unit of its words are one word of the history. */
static int touch(struct checker *c, int space, struct rivulet_access a, uint64_t unit, uint32_t i)
{
	int r = 0;

	merge_runs(&a);
	for (uint64_t g = 0; g < a.grps; g++) {
		for (uint64_t b = 0; b < a.blks; b++) {
			uint64_t at = a.addr + g * a.grp_pitch + b * a.blk_pitch;

			for (uint64_t y = 0; !r && y < a.rows; y++, at += a.row_pitch)
				r = touch_run(c, space, &a, at / unit,
					      (at + a.cols + unit - 1) / unit, i);
		}
	}
	return r;
}

/*
 * LOAD and STORE share memory. Accesses to a slot that is only read or only written are ordered by
 * their queue.
 */
static int touch_memory(struct checker *c, const struct rivulet_extent *e, uint32_t i)
{
	struct rivulet_access a = {
		.read = !e->write,
		.write = e->write,
		.addr = e->first,
		.grps = 1,
		.blks = e->blks,
		.blk_pitch = e->blk_pitch,
		.rows = e->rows,
		.row_pitch = e->row_pitch,
		.cols = e->run,
	};

	if (!e->used || !c->words[SPACE_OF_SLOT(e->slot)].count)
		return 0;
	return touch(c, SPACE_OF_SLOT(e->slot), a, c->granule[e->slot], i);
}

/* Reads first: an instruction may overwrite what it has read. */
static int touch_all(struct checker *c, const struct rivulet_footprint *f, uint32_t i)
{
	int r = 0;

	for (int k = 0; !r && k < f->count; k++)
		if (f->access[k].read)
			r = touch(c, f->access[k].mem, f->access[k], 1, i);
	for (int k = 0; !r && k < f->count; k++)
		if (f->access[k].write && !f->access[k].read)
			r = touch(c, f->access[k].mem, f->access[k], 1, i);
	return r ? r : touch_memory(c, &f->dma, i);
}

/* Scratchpads and memory of one instruction, under the configuration of its turn. */
static int touch_insn(struct checker *c, uint32_t i)
{
	struct rivulet_footprint f;
	struct rivulet_decoded d;

	rivulet_decode(&c->stream[i], &d);
	rivulet_config_set(&c->config, &d);
	rivulet_footprint_of(c->board, &c->config, &d, &f);
	return touch_all(c, &f, i);
}

/* ---- execution without time ---- */

static void dispatch(struct checker *c)
{
	while (c->next < c->count - 1) {
		int q = c->node[c->next].queue;

		if (c->dispatched[q] - c->started[q] == c->board->queue_depth)
			return;
		c->dispatched[q]++;
		c->next++;
	}
}

/*
 * The next instruction to dispatch: of the queue heads whose tokens are there, the one with the
 * lowest index.
 */
static uint32_t pick(const struct checker *c)
{
	uint32_t best = RVL_ISA_NO_INSN;

	for (int q = 0; q < QUEUES; q++) {
		uint32_t i;

		if (c->started[q] == c->dispatched[q])
			continue;
		i = c->list[q][c->started[q]];
		if (i < best && ready(c, &c->node[i]))
			best = i;
	}
	return best;
}

static int run_one(struct checker *c, uint32_t i)
{
	int r;

	c->started[c->node[i].queue]++;
	start(c, &c->node[i]);
	r = touch_insn(c, i);
	return r ? r : give(c, i);
}

static int stuck_at(struct checker *c, uint32_t i)
{
	const struct node *n = &c->node[i];

	for (int from = 0; from < QUEUES; from++) {
		const struct pair *p = &c->pair[from][n->queue];

		if (!(n->pop >> from & 1) || p->given > p->taken)
			continue;
		if (p->taken >= p->pushes)
			return problem(c, RVL_ISA_TOKEN_MISSING, i, RVL_ISA_NO_INSN,
				       "token %u from %s, which pushes %u", p->taken + 1,
				       queue_name[from], p->pushes);
		return problem(c, RVL_ISA_DEADLOCK, i, p->pusher[p->taken],
			       "queue depth %u; the first waits for a token of the second",
			       c->board->queue_depth);
	}
	return 0;
}

/*
 * No instruction can be dispatched. A token that is never pushed is reported first, because the
 * other waits follow from it.
 */
static int stuck(struct checker *c)
{
	uint32_t lowest = RVL_ISA_NO_INSN;

	for (int q = 0; q < QUEUES; q++) {
		uint32_t i;

		if (c->started[q] == c->dispatched[q])
			continue;
		i = c->list[q][c->started[q]];
		if (i < lowest)
			lowest = i;
		stuck_at(c, i);
		if (c->report->problem == RVL_ISA_TOKEN_MISSING)
			return -EINVAL;
	}
	return stuck_at(c, lowest);
}

static int check_left(struct checker *c)
{
	for (int from = 0; from < QUEUES; from++) {
		for (int to = 0; to < QUEUES; to++) {
			const struct pair *p = &c->pair[from][to];

			if (p->given > p->taken)
				return problem(c, RVL_ISA_TOKEN_LEFT, p->pusher[p->taken],
					       RVL_ISA_NO_INSN, "%u of %u from %s to %s",
					       p->given - p->taken, p->given, queue_name[from],
					       queue_name[to]);
		}
	}
	return 0;
}

static int execute(struct checker *c)
{
	for (;;) {
		uint32_t i;
		int r;

		dispatch(c);
		i = pick(c);
		if (i == RVL_ISA_NO_INSN)
			break;
		r = run_one(c, i);
		if (r)
			return r;
	}
	for (int q = 0; q < QUEUES; q++)
		if (c->started[q] != c->dispatched[q])
			return stuck(c);
	return check_left(c);
}

static int prepare(struct checker *c)
{
	c->node = calloc(c->count + 1, sizeof(*c->node));
	if (!c->node)
		return -ENOMEM;
	for (int m = 0; m < RIVULET_MEMS; m++)
		if (rvl_words_init(&c->words[m], rivulet_mem_words(c->board, m)))
			return -ENOMEM;
	return 0;
}

/* Histories of the slots that are both loaded and stored. */
static int prepare_slots(struct checker *c)
{
	for (int s = 0; c->slots && s < RIVULET_SLOTS; s++) {
		uint64_t words = c->slots[s].size / c->granule[s] + 1;

		if (!c->loads[s] || !c->stores[s])
			continue;
		if (words > UINT32_MAX - 64 || rvl_words_init(&c->words[SPACE_OF_SLOT(s)], words))
			return -ENOMEM;
	}
	return 0;
}

static void release(struct checker *c)
{
	for (int m = 0; m < SPACES; m++)
		rvl_words_done(&c->words[m]);
	for (int q = 0; q < QUEUES; q++) {
		free(c->list[q]);
		for (int to = 0; to < QUEUES; to++)
			free(c->pair[q][to].pusher);
	}
	free(c->node);
}

int rvl_isa_check(const struct rivulet_board *b, const struct rivulet_insn *stream, uint32_t count,
		  const struct rvl_isa_slot *slots, struct rvl_isa_report *out)
{
	struct checker c = {
		.board = b, .stream = stream, .count = count, .slots = slots, .report = out
	};
	int r;

	*out = (struct rvl_isa_report){ .first = RVL_ISA_NO_INSN, .second = RVL_ISA_NO_INSN };
	r = prepare(&c);
	if (!r)
		r = scan(&c);
	if (!r)
		r = make_lists(&c);
	if (!r)
		r = prepare_slots(&c);
	if (!r)
		r = execute(&c);
	if (!r)
		c.report->problem = RVL_ISA_NONE;
	release(&c);
	return r;
}

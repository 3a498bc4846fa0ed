/* SPDX-License-Identifier: MIT */
/*
 * Tokens. The stream is correct when its operations run one after the other; they run in four
 * queues instead, so an operation must wait for every earlier one of another queue that touches the
 * same bytes, one of the two writing.
 *
 * For each pair of queues only the newest such operation matters, and only if the waiting queue
 * does not know already that it is done: op->seq[] holds, for each queue, how many of its
 * operations are done before this one starts. A wait is one push and one pop, in the same order on
 * both sides, so counters balance by construction. Nothing can deadlock at any queue depth: the
 * oldest operation not retired waits only for older ones, and all before it have been dispatched.
 *
 * A counter holds RIVULET_TOKEN_MAX tokens. For each pair of queues the schedule knows which operation
 * pops each of the last tokens, so that it knows for each push the most tokens that can be there. An
 * operation of a queue that may be too far ahead waits for the other queue; and where many operations
 * are behind the same number of them, the last of these is waited for instead of the next.
 */
#include "npu/stream.h"
#include "rivulet_cost.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POP_BIT	 6
#define PUSH_BIT 10

/* Operations (not CFG) of one queue in order, and the kinds of memory that each touches. */
struct lane {
	uint32_t *op;
	uint8_t *kinds;
	uint32_t n;
};

#define MOST_TOKENS (RIVULET_TOKEN_MAX - 1) /* between two queues before one of them waits */

/* The tokens from one queue to another one: how many, and the places of the operations that pop the last. */
struct tokens {
	uint32_t n;
	uint32_t pop[RIVULET_TOKEN_MAX + 1]; /* of token i: pop[i % (RIVULET_TOKEN_MAX + 1)] */
};

struct sched {
	struct rvl_stream *s;
	struct lane lane[RIVULET_QUEUES];
	struct tokens tokens[RIVULET_QUEUES][RIVULET_QUEUES]; /* [from][to] */
};

static bool boxes_meet(const struct rvl_op_access *a, const struct rvl_op_access *b)
{
	for (int i = 0; i < 4; i++)
		if (a->box[i][0] >= b->box[i][1] || b->box[i][0] >= a->box[i][1])
			return false;
	return true;
}

static bool stores_meet(const struct rvl_store *a, const struct rvl_store *b)
{
	if (a->slot != b->slot)
		return false;
	return a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

/* Past the last word. */
static int64_t end_of(const struct rvl_op_access *a)
{
	return a->runs ? a->hi + (int64_t)(a->runs - 1) * a->step : a->hi;
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/*
 * Two sets of runs at the same step meet when some shift by d steps makes their first runs overlap:
 * a.lo + d * step < b.hi and b.lo < a.hi + d * step. Of other steps, the hulls are compared.
 */
static bool words_meet(const struct rvl_op_access *a, const struct rvl_op_access *b)
{
	int64_t step = a->step ? a->step : b->step, lo, hi;
	int64_t na = a->runs ? a->runs : 1, nb = b->runs ? b->runs : 1;

	if (a->lo >= end_of(b) || b->lo >= end_of(a))
		return false;
	if (!step || (a->step && b->step && a->step != b->step))
		return true;
	lo = floor_div((int64_t)b->lo - a->hi, step) + 1;
	hi = floor_div((int64_t)b->hi - a->lo - 1, step);
	return rvl_max(lo, 1 - nb) <= rvl_min(hi, na - 1);
}

static const struct rvl_store *whole(const struct rvl_store *s)
{
	return s->base ? s->base : s;
}

/* Channel of the BLOCKED base at which a part of one image begins. */
static int32_t first_channel(const struct rvl_store *s)
{
	return s->base ? (int32_t)(s->at / (s->view.h * s->view.w)) : 0;
}

/* Two parts of one value, or a part and the whole. PLAIN neighbours share beats of the port. */
static bool parts_meet(const struct rvl_op_access *a, const struct rvl_op_access *b)
{
	struct rvl_op_access x = *a, y = *b;

	if (!a->o->s->blocked || a->o->v.h * a->o->v.w != b->o->v.h * b->o->v.w ||
	    a->o->v.h != b->o->v.h)
		return true;
	if (whole(a->o->s)->view.n > 1)
		return stores_meet(a->o->s, b->o->s);
	for (int i = 0; i < 2; i++) {
		x.box[1][i] += first_channel(a->o->s);
		y.box[1][i] += first_channel(b->o->s);
	}
	return boxes_meet(&x, &y);
}

static bool accesses_meet(const struct rvl_op_access *a, const struct rvl_op_access *b)
{
	if (a->at != b->at || !(a->write || b->write))
		return false;
	if (a->at != RVL_AT_STORE)
		return words_meet(a, b);
	if (a->o->s == b->o->s) /* neighbours of a PLAIN value share beats of the port */
		return !a->o->s->blocked || !rvl_view_equal(&a->o->v, &b->o->v) || boxes_meet(a, b);
	if (whole(a->o->s) == whole(b->o->s))
		return parts_meet(a, b);
	return stores_meet(a->o->s, b->o->s);
}

static bool ops_meet(const struct rvl_insn_op *a, const struct rvl_insn_op *b)
{
	for (uint32_t i = 0; i < a->accesses; i++)
		for (uint32_t j = 0; j < b->accesses; j++)
			if (accesses_meet(&a->access[i], &b->access[j]))
				return true;
	return false;
}

#define KINDS_WRITTEN 4 /* bit of the first kind that is written; below are those that are touched */
#define KINDS_TOUCHED 0xf

/* The kinds of memory (RVL_AT_*) that @op touches, and those that it writes. */
static uint8_t kinds_of(const struct rvl_insn_op *op)
{
	uint8_t kinds = 0;

	for (uint32_t i = 0; i < op->accesses; i++)
		kinds |= (op->access[i].write << KINDS_WRITTEN | 1) << op->access[i].at;
	return kinds;
}

/* How many operations of @lane must be done before @op. A result of at most @known adds no wait. */
static uint32_t newest_conflict(const struct sched *c, const struct lane *lane,
				const struct rvl_insn_op *op, uint8_t kinds, uint32_t known)
{
	uint8_t touched = kinds & KINDS_TOUCHED, written = kinds >> KINDS_WRITTEN;

	for (uint32_t i = lane->n; i > known; i--) {
		uint8_t other = lane->kinds[i - 1];

		if (((other >> KINDS_WRITTEN & touched) | (other & written)) &&
		    ops_meet(&c->s->op[lane->op[i - 1]], op))
			return i;
	}
	return known;
}

/* Whether all but fewer than MOST_TOKENS of the tokens are popped when @op, which is in queue @from, starts. */
static bool has_room(const struct sched *c, const struct rvl_insn_op *op, int from, int to)
{
	const struct tokens *t = &c->tokens[from][to];
	uint32_t places = sizeof(t->pop) / sizeof(t->pop[0]);

	return t->n < MOST_TOKENS || t->pop[(t->n - MOST_TOKENS) % places] < op->seq[to];
}

static void wait_for(struct sched *c, struct rvl_insn_op *op, int from, uint32_t count)
{
	const struct lane *lane = &c->lane[from];
	struct tokens *t = &c->tokens[from][op->queue];
	struct rvl_insn_op *p = &c->s->op[lane->op[count - 1]];

	if (!has_room(c, p, from, op->queue)) {
		count = lane->n;
		p = &c->s->op[lane->op[count - 1]];
	}
	t->pop[t->n++ % (sizeof(t->pop) / sizeof(t->pop[0]))] = c->lane[op->queue].n;
	p->insn.w[0] |= UINT64_C(1) << (PUSH_BIT + op->queue);
	op->insn.w[0] |= UINT64_C(1) << (POP_BIT + from);
	for (int q = 0; q < RIVULET_QUEUES; q++)
		if (op->seq[q] < p->seq[q])
			op->seq[q] = p->seq[q];
	op->seq[from] = count;
}

/* An operation inherits the counters of the previous operation of its queue. */
static void inherit(struct sched *c, struct rvl_insn_op *op)
{
	const struct lane *own = &c->lane[op->queue];

	memset(op->seq, 0, sizeof(op->seq));
	if (own->n)
		memcpy(op->seq, c->s->op[own->op[own->n - 1]].seq, sizeof(op->seq));
	op->seq[op->queue] = own->n;
}

static void place(struct sched *c, struct rvl_insn_op *op, int last)
{
	struct lane *own = &c->lane[op->queue];
	uint8_t kinds = kinds_of(op);

	inherit(c, op);
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		uint32_t known = op->seq[q], need;

		if (q == op->queue)
			continue;
		need = last == q ? c->lane[q].n : newest_conflict(c, &c->lane[q], op, kinds, known);
		if (need > known)
			wait_for(c, op, q, need);
	}
	for (int q = 0; q < RIVULET_QUEUES; q++)
		if (q != op->queue && !has_room(c, op, op->queue, q))
			wait_for(c, op, q, c->lane[q].n);
	own->op[own->n] = op - c->s->op;
	own->kinds[own->n++] = kinds;
}

/* Makes room in a lane for the operations that @l->n counts, and empties it. */
static int make_lane(struct lane *l)
{
	uint32_t most = l->n ? l->n : 1;

	l->n = 0;
	l->op = calloc(most, sizeof(*l->op));
	l->kinds = calloc(most, sizeof(*l->kinds));
	return l->op && l->kinds ? 0 : -ENOMEM;
}

int rvl_schedule(struct rvl_stream *s, bool serial)
{
	struct sched c = { .s = s };
	int last = -1, rc = 0;

	for (uint32_t i = 0; i < s->n; i++)
		c.lane[s->op[i].queue].n += !s->op[i].cfg;
	for (int q = 0; q < RIVULET_QUEUES && !rc; q++)
		rc = make_lane(&c.lane[q]);
	for (uint32_t i = 0; i < s->n && !rc; i++) {
		if (s->op[i].cfg)
			continue;
		place(&c, &s->op[i], serial ? last : -1);
		last = s->op[i].queue;
	}
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		free(c.lane[q].op);
		free(c.lane[q].kinds);
	}
	return rc;
}

// SPDX-License-Identifier: MIT
/* Runs the model through every row of the boundary table (sim/boundary.h, docs/device.md 4.3). */
#include <check.h>
#include <stdio.h>

#include "boundary.h"
#include "dut.h"
#include "suite.h"

struct row {
	const char *id, *other, *before, *events, *then;
};

static const struct row rows[] = {
#define ROW(id, other, before, events, then, why) { #id, #other, before, events, then },
	RVL_BOUNDARY(ROW)
};

#define ROWS	   (sizeof(rows) / sizeof(rows[0]))
#define HIGHEST	   3
#define RESET_BASE 4

static const char run[] = "load load slot=1 rows=1 cols=64 blks=1\n" DUT_END;
static const char fault[] = "load load slot=1 rows=1 cols=64 blks=1\n"
			    ".insn 0x8000000000000001 0x0\n" DUT_END;

static const char *const requests[] = { "reset", "abort", "resume", "level", "hold" };
static const uint32_t req_reg[] = { RIVULET_REG_RESET_REQ, RIVULET_REG_ABORT_REQ,
				    RIVULET_REG_RESUME_REQ, RIVULET_REG_LEVEL_REQ,
				    RIVULET_REG_HOLD_REQ };
static const uint32_t ack_reg[] = { RIVULET_REG_RESET_ACK, RIVULET_REG_ABORT_ACK,
				    RIVULET_REG_RESUME_ACK, RIVULET_REG_LEVEL_ACK,
				    RIVULET_REG_HOLD_ACK };

static bool has(const char *text, const char *word)
{
	return strstr(text, word) != NULL;
}

/* Steps the device once. A step that makes a change visible must raise an interrupt. */
static void step_once(struct dut *t, const struct row *row)
{
	uint32_t done = dut_rd(t, RIVULET_REG_DONE_SEQ), ack[5], irqs = t->irqs;
	bool changed;

	for (int i = 0; i < 5; i++)
		ack[i] = dut_rd(t, ack_reg[i]);
	dut_look(t);
	changed = dut_rd(t, RIVULET_REG_DONE_SEQ) != done;
	for (int i = 0; i < 5; i++)
		changed |= dut_rd(t, ack_reg[i]) != ack[i];
	ck_assert_msg(!changed || t->irqs > irqs, "%s: no interrupt", row->id);
}

static void do_reset(struct dut *t)
{
	dut_wr(t, RIVULET_REG_SLOT0_SEQ, t->base + RESET_BASE);
	dut_wr(t, RIVULET_REG_SLOT1_SEQ, t->base + RESET_BASE);
	dut_request(t, RIVULET_REG_RESET_REQ, t->base + RESET_BASE);
}

/*
 * Fills the slot of entry n: its address, and its seq unless the row says that it is being filled.
 */
static void fill(struct dut *t, uint32_t n)
{
	dut_fill_addr(t, n);
	dut_fill_seq(t, n);
}

static void event(struct dut *t, const char *e)
{
	unsigned int n = strcspn(e, "0123456789");
	uint32_t arg = atoi(e + n);

	if (!strcmp(e, "end") || !strcmp(e, "fault"))
		t->now = t->sim->t.end_known ? t->sim->t.due : t->now;
	else if (!strncmp(e, "seq", 3))
		fill(t, arg);
	else if (!strncmp(e, "abort", 5))
		dut_request(t, RIVULET_REG_ABORT_REQ, t->base + arg);
	else if (!strncmp(e, "resume", 6))
		dut_request(t, RIVULET_REG_RESUME_REQ, t->base + arg);
	else if (*e == 'l')
		dut_request(t, RIVULET_REG_LEVEL_REQ,
			    arg | (strchr(e, '!') ? RIVULET_LEVEL_FORCE : 0));
	else if (!strcmp(e, "hold") || !strcmp(e, "release"))
		dut_request(t, RIVULET_REG_HOLD_REQ, *e == 'h');
	else if (!strcmp(e, "reset"))
		do_reset(t);
	else
		ck_abort_msg("no event \"%s\"", e);
}

static void play(struct dut *t, const struct row *row)
{
	char text[200], *next = text, *word;
	bool joined;

	strcpy(text, row->events);
	while ((word = strsep(&next, ","))) {
		do {
			char e[32];
			int used = 0;

			ck_assert_int_eq(sscanf(word, " %31s %n", e, &used), 1);
			joined = word[used] == '+';
			event(t, e);
			word += used + joined;
		} while (joined);
		step_once(t, row);
	}
}

static void make_jobs(struct dut *t, const struct row *row)
{
	for (uint32_t n = 1; n <= 5; n++) {
		struct rivulet_desc *d =
			dut_job(t, n, n == 1 && has(row->events, "fault") ? fault : run, 1);
		char mark[8];

		sprintf(mark, "e%u>=1", n);
		d->min_level = has(row->before, mark);
		dut_seal(d);
		sprintf(mark, "e%ubad", n);
		if (has(row->before, mark))
			d->crc ^= 1;
	}
}

static struct dut *prepare(const struct row *row)
{
	struct dut *t = dut_open(true);

	if (has(row->before, "cold")) {
		struct rivulet_sim_ops ops = t->sim->ops;
		struct rivulet_board b = t->sim->board;

		rivulet_sim_free(t->sim);
		t->sim = rivulet_sim_new(&b, t->window, &ops);
		dut_wr(t, RIVULET_REG_IRQ_ENABLE, 1);
		t->base = 0;
	}
	make_jobs(t, row);
	if (!has(row->before, "idle") && !has(row->before, "cold")) {
		fill(t, 1);
		step_once(t, row);
		ck_assert_uint_eq(dut_rd(t, RIVULET_REG_CURRENT_SEQ), t->base + 1);
		ck_assert_uint_eq(dut_rd(t, RIVULET_REG_DONE_SEQ), t->base);
	}
	if (!strcmp(row->other, "filled"))
		fill(t, 2);
	if (!strcmp(row->other, "filling"))
		dut_fill_addr(t, 2);
	step_once(t, row);
	return t;
}

/* Returns the state of entry n in the words of the table. */
static const char *state_of(struct dut *t, uint32_t n)
{
	static const char *const names[] = { "?", "DONE", "FAULT", "ABORTED", "NO_VARIANT" };
	const struct rivulet_status *st = dut_status(t, n);
	const struct rvl_queue *q = &t->sim->queue;
	uint32_t seq = t->base + n, done = dut_rd(t, RIVULET_REG_DONE_SEQ);

	if (st->state != RIVULET_STATE_NONE) {
		ck_assert(st->state < 5 && dut_sealed(st) && st->seq == seq);
		ck_assert_int_ge((int32_t)(done - seq), 0);
		return names[st->state];
	}
	if (dut_rd(t, RIVULET_REG_CURRENT_SEQ) == seq && done != seq)
		return "run";
	if (q->slot[seq & 1].queued && q->slot[seq & 1].e.seq == seq)
		return "wait";
	return (int32_t)(done - seq) >= 0 && q->epoch == 1 ? "bad" : "none";
}

static const char *value_of(const char *then, const char *key, const char *otherwise, char *out)
{
	size_t n = strlen(key);

	for (const char *p = then; (p = strstr(p, key)); p += n) {
		if ((p != then && p[-1] != ' ') || p[n] != '=')
			continue;
		sscanf(p + n + 1, "%31s", out);
		return out;
	}
	return otherwise;
}

static void check_entries(struct dut *t, const struct row *row)
{
	uint32_t retired = 0;

	for (uint32_t n = 1; n <= 5; n++) {
		char key[4], out[32];
		const char *want;

		sprintf(key, "e%u", n);
		want = value_of(row->then, key, "none", out);
		ck_assert_msg(!strcmp(state_of(t, n), want), "%s: entry %u: %s, not %s", row->id, n,
			      state_of(t, n), want);
		retired += strcmp(want, "none") && strcmp(want, "run") && strcmp(want, "wait");
	}
	ck_assert_msg(t->sim->count.jobs == retired, "%s: %u entries retired %u times", row->id,
		      retired, (unsigned int)t->sim->count.jobs);
}

static void check_number(struct dut *t, const struct row *row, const char *key, uint32_t reg,
			 uint32_t base, uint32_t otherwise)
{
	char out[32];
	const char *want = value_of(row->then, key, NULL, out);
	uint32_t value = want ? base + (uint32_t)atoi(want) : otherwise;

	ck_assert_msg(dut_rd(t, reg) == value, "%s: %s is 0x%x, not 0x%x", row->id, key,
		      dut_rd(t, reg), value);
}

static void check_requests(struct dut *t, const struct row *row)
{
	static const char *const results[] = { "NONE", "CURRENT", "NEXT" };
	char out[32];
	const char *pending = value_of(row->then, "pending", "", out);

	for (int i = 0; i < 5; i++) {
		bool open = dut_rd(t, req_reg[i]) != dut_rd(t, ack_reg[i]);

		ck_assert_msg(open == has(pending, requests[i]), "%s: %s is %spending", row->id,
			      requests[i], open ? "" : "not ");
	}
	if (has(row->then, "res="))
		ck_assert_msg(!strcmp(results[dut_rd(t, RIVULET_REG_ABORT_RESULT)],
				      value_of(row->then, "res", "", out)),
			      "%s: abort result", row->id);
}

static void check_then(struct dut *t, const struct row *row)
{
	bool frozen = has(row->then, "frozen=");

	check_entries(t, row);
	check_number(t, row, "done", RIVULET_REG_DONE_SEQ, t->base, t->base);
	check_number(t, row, "level", RIVULET_REG_LEVEL_CUR, 0, HIGHEST);
	check_number(t, row, "held", RIVULET_REG_HELD, 0, 0);
	ck_assert_msg(dut_rd(t, RIVULET_REG_FROZEN) == frozen, "%s: frozen", row->id);
	if (frozen)
		check_number(t, row, "frozen", RIVULET_REG_FROZEN_SEQ, t->base, 0);
	check_requests(t, row);
}

/*
 * Proves that the device recovers from the end of every row: all queued entries run, and so does a
 * new one.
 */
static void check_alive(struct dut *t, const struct row *row)
{
	uint32_t last;

	if (!t->sim->queue.live)
		return;
	dut_request(t, RIVULET_REG_HOLD_REQ, 0);
	dut_request(t, RIVULET_REG_LEVEL_REQ, HIGHEST);
	for (int i = 0; i < 3; i++) {
		dut_request(t, RIVULET_REG_RESUME_REQ, dut_rd(t, RIVULET_REG_FROZEN_SEQ));
		dut_settle(t);
	}
	last = t->sim->queue.taken;
	ck_assert_msg(dut_rd(t, RIVULET_REG_DONE_SEQ) == last, "%s: stuck", row->id);
	t->base = last;
	dut_job(t, 1, run, 9);
	dut_submit(t, 1);
	dut_settle(t);
	ck_assert_msg(dut_rd(t, RIVULET_REG_DONE_SEQ) == last + 1 &&
			      dut_status(t, 1)->state == RIVULET_STATE_DONE,
		      "%s: not usable afterwards", row->id);
}

START_TEST(test_row)
{
	const struct row *row = &rows[_i];
	struct dut *t = prepare(row);

	play(t, row);
	check_then(t, row);
	check_alive(t, row);
	dut_close(t);
}
END_TEST

static Suite *boundary_suite(void)
{
	Suite *s = suite_create("boundary");
	TCase *tc = tcase_create("rows");

	tcase_add_loop_test(tc, test_row, 0, ROWS);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	int status = run_suite(boundary_suite());

	printf("figure boundary.rows %zu rows\n", ROWS);
	return status;
}

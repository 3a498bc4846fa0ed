/* SPDX-License-Identifier: MIT */
/*
 * Tokens of scheduled streams, on a machine that runs the queue that it prefers as far ahead of the
 * others as tokens let it: operations that touch the same words run in their order, no counter
 * overflows, and the machine never stops before the end.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "npu/stream.h"
#include "rivulet_board.h"
#include "rivulet_cost.h"
#include "suite.h"

#define MOST 4000 /* operations of a stream */
#define RANDOM_STREAMS 100

struct op {
	int queue;
	int64_t lo, words;
	bool write;
};

static struct op ops[MOST];
static int n_ops;

static void add(int queue, int64_t lo, int64_t words, bool write)
{
	if (n_ops == MOST)
		ck_abort_msg("too many operations");
	ops[n_ops++] = (struct op){ queue, lo, words, write };
}

static void emit(struct rvl_stream *s, const struct rivulet_board *b, struct rvl_err *err)
{
	static const enum rivulet_form form[] = { [RIVULET_Q_LOAD] = RIVULET_FORM_load,
						  [RIVULET_Q_CONV] = RIVULET_FORM_conv,
						  [RIVULET_Q_ALU] = RIVULET_FORM_alu,
						  [RIVULET_Q_STORE] = RIVULET_FORM_store };
	const struct rivulet_decoded d = { 0 };

	rvl_stream_init(s, b, false, err);
	for (int i = 0; i < n_ops; i++) {
		struct rvl_insn_op *op = rvl_emit(s, form[ops[i].queue], ops[i].queue, &d);

		rvl_touch_spad(op, RVL_AT_WGT, ops[i].lo, ops[i].words, ops[i].write);
	}
	ck_assert_msg(!s->rc, "%s", err->msg);
	ck_assert_int_eq(rvl_schedule(s, false), 0);
}

static bool conflict(const struct op *a, const struct op *b)
{
	return (a->write || b->write) && a->lo < b->lo + b->words && b->lo < a->lo + a->words;
}

struct machine {
	const struct rvl_stream *s;
	int tokens[RIVULET_QUEUES][RIVULET_QUEUES];
	int most, next[RIVULET_QUEUES]; /* the first operation of the queue from there on is its head */
	bool done[MOST];
};

static int head(struct machine *m, int queue)
{
	while (m->next[queue] < n_ops && ops[m->next[queue]].queue != queue)
		m->next[queue]++;
	return m->next[queue];
}

static bool can_run(const struct machine *m, int i)
{
	for (int q = 0; q < RIVULET_QUEUES; q++)
		if (m->s->op[i].insn.w[0] >> (6 + q) & 1 && !m->tokens[q][ops[i].queue])
			return false;
	return true;
}

static void run(struct machine *m, int i)
{
	uint64_t w = m->s->op[i].insn.w[0];

	for (int k = 0; k < i; k++)
		if (!m->done[k] && conflict(&ops[k], &ops[i]))
			ck_abort_msg("operation %d runs before %d", i, k);
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		int *to = &m->tokens[ops[i].queue][q];

		m->tokens[q][ops[i].queue] -= w >> (6 + q) & 1;
		*to += w >> (10 + q) & 1;
		m->most = *to > m->most ? *to : m->most;
	}
	m->done[i] = true;
	m->next[ops[i].queue]++;
}

/* Runs the stream by the preference of number @order; returns the most tokens of a counter. */
static int run_all(const struct rvl_stream *s, int order)
{
	struct machine m = { .s = s };

	for (int ran = 0; ran < n_ops; ran++) {
		int chosen = -1;

		for (int k = 0; k < RIVULET_QUEUES && chosen < 0; k++) {
			int i = head(&m, (order + k * (order < RIVULET_QUEUES ? 1 : 3)) % RIVULET_QUEUES);

			if (i < n_ops && can_run(&m, i))
				chosen = i;
		}
		if (chosen < 0)
			ck_abort_msg("no queue can run after %d of %d operations", ran, n_ops);
		run(&m, chosen);
	}
	return m.most;
}

/* Returns the most tokens of a counter. */
static int check_stream(void)
{
	struct rivulet_board b = { .name = "test", .tm = 16, .tn = 16, .dn = 4 };
	struct rvl_err err = { "" };
	struct rvl_stream s;
	int most = 0;

	emit(&s, &b, &err);
	for (int order = 0; order < 2 * RIVULET_QUEUES; order++) {
		int tokens = run_all(&s, order);

		most = tokens > most ? tokens : most;
	}
	rvl_stream_free(&s);
	ck_assert_int_le(most, RIVULET_TOKEN_MAX);
	return most;
}

/* Loads that nothing holds back, each of which a product waits for. */
START_TEST(one_queue_ahead)
{
	n_ops = 0;
	for (int i = 0; i < 1000; i++) {
		add(RIVULET_Q_LOAD, i, 1, true);
		add(RIVULET_Q_CONV, i, 1, false);
	}
	ck_assert_int_gt(check_stream(), 100);
}
END_TEST

/* The loads are all before the first product. */
START_TEST(all_loads_first)
{
	n_ops = 0;
	for (int i = 0; i < 1000; i++)
		add(RIVULET_Q_LOAD, i, 1, true);
	for (int i = 0; i < 1000; i++)
		add(RIVULET_Q_CONV, i, 1, false);
	ck_assert_int_gt(check_stream(), 100);
}
END_TEST

/* A chain through three queues, whose last one may be behind by more than a counter holds. */
START_TEST(three_queues)
{
	n_ops = 0;
	for (int i = 0; i < 900; i++) {
		add(RIVULET_Q_LOAD, 2 * i, 1, true);
		add(RIVULET_Q_CONV, 2 * i, 2, true);
		add(RIVULET_Q_STORE, 2 * i + 1, 1, false);
	}
	ck_assert_int_gt(check_stream(), 100);
}
END_TEST

START_TEST(random_streams)
{
	for (int i = 0; i < random_cases(RANDOM_STREAMS); i++) {
		uint64_t seed = i;
		int64_t words = 1 << splitmix(&seed) % 12;

		n_ops = 0;
		for (uint64_t k = splitmix(&seed) % 1200; k > 0; k--) {
			int queue = splitmix(&seed) % RIVULET_QUEUES;

			if (splitmix(&seed) % 3)
				queue = k % 2 ? RIVULET_Q_LOAD : RIVULET_Q_CONV;
			add(queue, splitmix(&seed) % words, 1 + splitmix(&seed) % 3, splitmix(&seed) % 2);
		}
		check_stream();
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tokens");
	TCase *t = add_case(s, "schedule", 120, NULL, NULL);

	tcase_add_test(t, one_queue_ahead);
	tcase_add_test(t, all_loads_first);
	tcase_add_test(t, three_queues);
	tcase_add_test(t, random_streams);
	return run_suite(s);
}

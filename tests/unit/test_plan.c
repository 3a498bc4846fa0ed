/* SPDX-License-Identifier: MIT */
/*
 * Compares the planner's choice with an exhaustive search, also when nothing is feasible. Plan
 * files give the same plan when read, and are refused when they are damaged or made for another
 * model, other levels or another profile.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "plan_oracle.h"
#include "rivulet_crc32c.h"
#include "suite.h"

static struct rvl_err err;
static uint64_t seed;

/* ---- an instance with random costs and accuracies ---- */

struct instance {
	struct rivulet_plan_problem p;
	struct rivulet_plan_candidate candidate[RIVULET_PLAN_CANDIDATES];
	struct oracle o;
	uint32_t queries[RIVULET_PLAN_CANDIDATES];
};

static int ppm_of(void *ctx, uint32_t candidate, uint32_t *ppm, struct rvl_err *e)
{
	struct instance *x = ctx;

	(void)e;
	x->queries[candidate]++;
	*ppm = x->o.ppm[candidate];
	return 0;
}

/*
 * Levels 7 (fastest) downward; lengths in increasing order, sometimes with int8; accuracy rises
 * with the length, except for noise.
 */
static void make(struct instance *x, uint64_t s, uint32_t candidates, uint32_t levels)
{
	seed = s;
	memset(x, 0, sizeof(*x));
	for (uint32_t w = 0; w < candidates; w++) {
		uint32_t bits = 8 + w * 240 / candidates;

		x->candidate[w].length = w == 0 && chance_range(&seed, 0, 2) == 0 ? 0 : bits;
		x->o.ppm[w] = (uint32_t)(900000 - 300000.0 * 8 / bits -
					 chance_uniform(&seed, 0, 60000));
		for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
			x->candidate[w].seconds[l] = bits * 1e-3 / (l + 2) *
					       chance_uniform(&seed, 0.99, 1.01);
			x->candidate[w].joule[l] = bits * 1e-5 * (1 + l * l * 0.05) *
					     chance_uniform(&seed, 0.99, 1.01);
			x->o.seconds[w][l] = x->candidate[w].seconds[l];
			x->o.joule[w][l] = x->candidate[w].joule[l];
		}
	}
	x->o.p = &x->p;
	x->p = (struct rivulet_plan_problem){ .candidate = x->candidate, .n_candidates = candidates,
		.n_levels = levels, .constraint = chance_uniform(&seed, 0.001, 0.02),
		.base_power = chance_range(&seed, 0, 1) ? chance_uniform(&seed, 0, 1e-2) : 0,
		.rate = chance_range(&seed, 0, 3) ? 0 : chance_uniform(&seed, 1, 10),
		.awake = chance_range(&seed, 0, 1),
		.objective = (enum rivulet_plan_objective)chance_range(&seed, 0, 2), .best = 900000,
			.worst = 600000,
		.tolerance = chance_range(&seed, 0, 30000), .penalty = chance_uniform(&seed, 0,
				0.4), .accuracy = ppm_of, .ctx = x };
	for (uint32_t i = 0; i < levels; i++)
		x->p.level[i] = (struct rivulet_plan_level){ .level = RIVULET_LEVELS - 1 - i,
			.least = chance_range(&seed, 500000, 860000),
				.joule = chance_uniform(&seed, 10, 100) };
}

static void check_missing(const struct instance *x, const struct rivulet_plan_answer *a)
{
	double most = 0;

	for (uint32_t i = 0; i < x->p.n_levels; i++) {
		double least;
		uint32_t high;
		bool any = false;

		for (uint32_t w = 0; w < x->p.n_candidates; w++)
			any |= oracle_ok(&x->o, i, w);
		oracle_missing(&x->o, i, &least, &high);
		most = fmax(most, least);
		ck_assert_uint_eq(a->missed >> i & 1, !any);
		ck_assert(a->level_time[i] == least);
		ck_assert_uint_eq(a->highest[i], high);
	}
	ck_assert(a->least_time == most);
}

/*
 * The constraint of the least time that the planner reports is feasible, and any shorter one is
 * not.
 */
static void check_least_time(struct instance *x, double least)
{
	struct rivulet_plan_answer a;

	if (!isfinite(least))
		return;
	x->p.constraint = least;
	ck_assert_int_eq(rivulet_plan_choose(&x->p, &a, &err), 0);
	ck_assert(a.feasible);
	x->p.constraint = nextafter(least, 0);
	ck_assert_int_eq(rivulet_plan_choose(&x->p, &a, &err), 0);
	ck_assert(!a.feasible);
}

static void check_sums(const struct instance *x, const struct rivulet_plan_answer *a)
{
	double runs = 0, seconds = 0;

	for (uint32_t i = 0; i < x->p.n_levels; i++) {
		double n = x->p.level[i].joule / oracle_joules(&x->o, i, a->candidate[i]);
		double t = oracle_seconds(&x->o, i, a->candidate[i]);

		ck_assert_double_eq_tol(a->level_runs[i], n, 1e-9 * n);
		runs += n;
		seconds += n * (x->p.rate > 0 && 1 / x->p.rate > t ? 1 / x->p.rate : t);
	}
	ck_assert_double_eq_tol(a->runs, runs, 1e-9 * runs);
	ck_assert_double_eq_tol(a->seconds, seconds, 1e-9 * seconds);
}

START_TEST(choice_is_the_best_of_all)
{
	static struct instance x;
	struct rivulet_plan_answer a;
	uint32_t feasible = 0, infeasible = 0, candidate[RIVULET_LEVELS];

	for (uint64_t s = 1; s <= 600; s++) {
		double best;

		make(&x, s * 77, s % 3 ? 12 : 30, s % 3 ? 1 + s % 4 : 3);
		best = oracle_exhaust(&x.o, candidate);
		ck_assert_msg(!rivulet_plan_choose(&x.p, &a, &err), "%s", err.msg);
		ck_assert_int_eq(a.feasible, isfinite(best));
		for (uint32_t w = 0; w < x.p.n_candidates; w++)
			ck_assert_uint_le(x.queries[w], 1);
		if (!a.feasible) {
			infeasible++;
			check_missing(&x, &a);
			check_least_time(&x, a.least_time);
			continue;
		}
		feasible++;
		for (uint32_t i = 0; i < x.p.n_levels; i++) {
			ck_assert(oracle_ok(&x.o, i, a.candidate[i]));
			ck_assert_uint_eq(a.ppm[i], x.o.ppm[a.candidate[i]]);
		}
		ck_assert_double_eq_tol(oracle_value(&x.o, a.candidate), best, 1e-12 * fabs(best));
		ck_assert_double_eq_tol(a.reward, oracle_reward(&x.o, a.candidate), 1e-9);
		check_sums(&x, &a);
	}
	ck_assert_uint_gt(feasible, 150);
	ck_assert_uint_gt(infeasible, 100);
}
END_TEST

/*
 * The reward couples the levels by all pairs, so accuracies are noisy, there is a tolerance, and
 * there are more levels.
 */
START_TEST(reward_is_the_best_of_all)
{
	static struct instance x;
	struct rivulet_plan_answer a;
	uint32_t candidate[RIVULET_LEVELS], feasible = 0;

	for (uint64_t s = 1; s <= (uint64_t)random_cases(400); s++) {
		double best;

		make(&x, s * 991, 9, 3 + s % 3);
		x.p.objective = RIVULET_PLAN_REWARD;
		x.p.constraint = chance_uniform(&seed, 0.02, 0.2);
		x.p.penalty = chance_uniform(&seed, 0, 1);
		for (uint32_t w = 0; w < x.p.n_candidates; w++)
			x.o.ppm[w] = chance_range(&seed, 800000, 900000);
		/*
		 * A level with a small share of the energy prefers accuracy, one with a large share
		 * prefers runs, so the best choices contradict the order of the levels.
		 */
		for (uint32_t i = 0; i < x.p.n_levels; i++) {
			x.p.level[i].least = 0;
			x.p.level[i].joule = s % 2 ? 100 / (1.0 + 3 * i) : x.p.level[i].joule;
		}
		best = oracle_exhaust(&x.o, candidate);
		ck_assert_int_eq(rivulet_plan_choose(&x.p, &a, &err), 0);
		ck_assert_int_eq(a.feasible, isfinite(best));
		if (!a.feasible)
			continue;
		feasible++;
		ck_assert_double_eq_tol(oracle_value(&x.o, a.candidate), best, 1e-12);
	}
	ck_assert_uint_gt(feasible, random_cases(300));
}
END_TEST

/*
 * The search for runs starts with the cheapest length and stops at the first that is accurate
 * enough.
 */
START_TEST(measures_only_what_is_needed)
{
	static struct instance x;
	struct rivulet_plan_answer a;
	uint32_t queries = 0;

	make(&x, 5, 200, 1);
	for (uint32_t w = 0; w < x.p.n_candidates; w++) {
		x.candidate[w].length = 8 + w;
		x.o.ppm[w] = 500000 + 1000 * w;
		for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
			x.candidate[w].seconds[l] = 1e-3 * (8 + w);
			x.candidate[w].joule[l] = 1e-6 * (8 + w);
		}
	}
	x.p.base_power = 0;
	x.p.constraint = 1;
	x.p.objective = RIVULET_PLAN_RUNS;
	x.p.level[0].least = 540000;
	ck_assert_int_eq(rivulet_plan_choose(&x.p, &a, &err), 0);
	ck_assert(a.feasible);
	ck_assert_uint_eq(a.candidate[0], 40);
	for (uint32_t w = 0; w < x.p.n_candidates; w++)
		queries += x.queries[w];
	ck_assert_uint_eq(queries, 41);
}
END_TEST

START_TEST(problems_that_contradict_themselves)
{
	static struct instance x;
	struct rivulet_plan_answer a;

#define REFUSED(change)                                                                            \
	do {                                                                                       \
		make(&x, 9, 10, 2);                                                                \
		change;                                                                            \
		ck_assert_int_eq(rivulet_plan_choose(&x.p, &a, &err), -EINVAL);                    \
	} while (0)
	REFUSED(x.p.n_candidates = 0);
	REFUSED(x.p.n_candidates = RIVULET_PLAN_CANDIDATES + 1);
	REFUSED(x.p.n_levels = 0);
	REFUSED(x.p.n_levels = RIVULET_LEVELS + 1);
	REFUSED(x.p.constraint = 0);
	REFUSED(x.p.constraint = NAN);
	REFUSED(x.p.base_power = -1);
	REFUSED(x.p.rate = NAN);
	REFUSED(x.p.best = x.p.worst);
	REFUSED(x.p.penalty = -1);
	REFUSED(x.p.objective = RIVULET_PLAN_OBJECTIVE_COUNT);
	REFUSED(x.p.level[1].level = RIVULET_LEVELS);
	REFUSED(x.p.level[1].joule = 0);
	REFUSED(x.p.base_power = 0; x.candidate[3].joule[x.p.level[1].level] = 0);
	ck_assert_int_eq(rivulet_plan_stay(&x.p, 2, false, &a, &err), -EINVAL);
}
END_TEST

/*
 * Spends the whole charge at one level, with the accuracy required there or the highest that the
 * plan requires.
 */
START_TEST(stay_on_one_level)
{
	static struct instance x;
	struct rivulet_plan_answer a, strict;

	make(&x, 31, 30, 3);
	x.p.objective = RIVULET_PLAN_RUNS;
	x.p.constraint = 1;
	for (uint32_t i = 0; i < 3; i++)
		x.p.level[i].least = 700000 - 50000 * i;
	ck_assert_int_eq(rivulet_plan_stay(&x.p, 2, false, &a, &err), 0);
	ck_assert_int_eq(rivulet_plan_stay(&x.p, 2, true, &strict, &err), 0);
	ck_assert(a.feasible && strict.feasible);
	ck_assert(a.ppm[0] >= 600000 && strict.ppm[0] >= 700000);
	ck_assert(strict.runs <= a.runs);
	ck_assert_double_eq_tol(a.runs,
				(x.p.level[0].joule + x.p.level[1].joule + x.p.level[2].joule) /
				oracle_joules(&x.o, 2, a.candidate[0]), 1e-6);
}
END_TEST

START_TEST(dominated_levels)
{
	struct rivulet_board b;
	char why[256];

	ck_assert_msg(!rivulet_board_load(&b, "sc-edge", why, sizeof(why)), "%s", why);
	ck_assert_int_eq(rivulet_plan_dominated(&b, 0), 1); /* 400 and 600 MHz at 1.0 V */
	ck_assert_int_eq(rivulet_plan_dominated(&b, 1), -1);
	ck_assert_int_eq(rivulet_plan_dominated(&b, 2), 3); /* 800 and 1000 MHz at 1.1 V */
	ck_assert_int_eq(rivulet_plan_dominated(&b, 3), -1);
	ck_assert_int_eq(rivulet_plan_dominated(&b, 5), -1);
}
END_TEST

/* ---- files ---- */

static const char model[] = "the bytes of a model";
static const char *const keep[] = { "first", "a node with blanks" };
static const float values[] = { 1, 2, 3 };
static const struct rivulet_input_shape shapes[] = { { "an image", 2, { 5, 3 } }, { "scalar", 0, { 0 } } };
static const struct rivulet_dimension dimensions[] = { { "unk 7", 12 } };
static const struct rivulet_examples examples[] = { { NULL, values, sizeof(values) } };
static struct rivulet_board board;

static void make_plan(struct rivulet_plan *p)
{
	const struct rivulet_compile_options o = { .batch = 2, .symbol = 7, .keep_int8 = keep,
		.n_keep_int8 = 2, .shapes = shapes, .n_shapes = 2, .dimensions = dimensions,
		.n_dimensions = 1, .quantise = { .examples = examples, .n_examples = 1 } };
	char why[256];

	ck_assert_msg(!rivulet_board_load(&board, "sc-edge", why, sizeof(why)), "%s", why);
	*p = (struct rivulet_plan){ 0 };
	ck_assert_int_eq(rivulet_plan_bind(p, model, sizeof(model), &board, &o, &err), 0);
	memset(p->data, 0x5a, sizeof(p->data));
	p->examples_chosen = 5000;
	p->examples_held = 4000;
	p->objective = RIVULET_PLAN_REWARD;
	p->constraint_ns = 147247499;
	p->n_levels = 2;
	p->level[0] = (struct rivulet_plan_entry){ 5, 1400000000, 1275000, 33, 876000, 874200,
						   877800, 870000, 75547244, 154548275 };
	p->level[1] = (struct rivulet_plan_entry){ 2, 800000000, 1100000, 0, 894300, 0, 1000000, 0,
						   52082877, 46188906 };
}

static void text_of(const struct rivulet_plan *p, struct rivulet_blob *b)
{
	ck_assert_int_eq(rivulet_plan_text(p, b), 0);
	ck_assert_uint_eq(strlen(b->data), b->size);
}

/* Fields are compared singly, because memcmp() would compare padding. */
static void same_entry(const struct rivulet_plan_entry *a, const struct rivulet_plan_entry *b)
{
	ck_assert_uint_eq(a->level, b->level);
	ck_assert_uint_eq(a->hz, b->hz);
	ck_assert_uint_eq(a->microvolt, b->microvolt);
	ck_assert_uint_eq(a->length, b->length);
	ck_assert_uint_eq(a->accuracy, b->accuracy);
	ck_assert_uint_eq(a->chosen, b->chosen);
	ck_assert_uint_eq(a->held, b->held);
	ck_assert_uint_eq(a->least, b->least);
	ck_assert_uint_eq(a->time_ns, b->time_ns);
	ck_assert_uint_eq(a->energy_pj, b->energy_pj);
}

START_TEST(a_file_gives_the_plan_back)
{
	struct rivulet_compile_options o = { .quantise = { .examples = examples, .n_examples = 1 } };
	struct rivulet_blob a = { 0 }, b = { 0 };
	struct rivulet_plan p, q;

	make_plan(&p);
	text_of(&p, &a);
	ck_assert_msg(!rivulet_plan_parse(&q, a.data, a.size, &err), "%s", err.msg);
	text_of(&q, &b);
	ck_assert_str_eq(a.data, b.data);
	ck_assert_uint_eq(q.n_levels, p.n_levels);
	for (uint32_t i = 0; i < p.n_levels; i++)
		same_entry(&q.level[i], &p.level[i]);
	ck_assert_msg(!rivulet_plan_apply(&q, model, sizeof(model), &board, &o, &err), "%s",
		      err.msg);
	ck_assert(o.stochastic && o.batch == 2 && o.symbol == 7 && o.n_keep_int8 == 2);
	ck_assert_str_eq(o.keep_int8[1], keep[1]);
	ck_assert(o.n_shapes == 2 && o.shapes[0].rank == 2 && o.shapes[1].rank == 0);
	ck_assert_str_eq(o.shapes[0].name, "an image");
	ck_assert(o.shapes[0].dim[0] == 5 && o.shapes[0].dim[1] == 3);
	ck_assert_str_eq(o.shapes[1].name, "scalar");
	ck_assert(o.n_dimensions == 1 && o.dimensions[0].value == 12);
	ck_assert_str_eq(o.dimensions[0].name, "unk 7");
	ck_assert_uint_eq(o.length[5], 33);
	ck_assert_uint_eq(o.length[2], 0);
	ck_assert_uint_eq(o.length[3], RIVULET_NO_VARIANT);
	ck_assert_uint_eq(o.accuracy[5], 876000);
	ck_assert_uint_eq(o.accuracy[3], 0);
	rivulet_blob_free(&a);
	rivulet_blob_free(&b);
	rivulet_plan_clear(&p);
	rivulet_plan_clear(&q);
}
END_TEST

/* Changes each byte and truncates at each length. */
START_TEST(damaged_files_are_refused)
{
	struct rivulet_blob b = { 0 };
	struct rivulet_plan p, q;
	char *copy;

	make_plan(&p);
	text_of(&p, &b);
	copy = malloc(b.size);
	for (size_t i = 0; i < b.size; i++) {
		memcpy(copy, b.data, b.size);
		copy[i] ^= 1 + i % 7;
		ck_assert_int_eq(rivulet_plan_parse(&q, copy, b.size, &err), -EBADMSG);
		memcpy(copy, b.data, b.size);
		ck_assert_int_eq(rivulet_plan_parse(&q, copy, i, &err), -EBADMSG);
	}
	ck_assert_int_eq(rivulet_plan_parse(&q, b.data, RIVULET_PLAN_FILE_MAX + 1ul, &err),
			 -EBADMSG);
	free(copy);
	rivulet_blob_free(&b);
	rivulet_plan_clear(&p);
}
END_TEST

/* Parses a file whose line @from is replaced by @to, with a valid checksum. */
static int parse_with(const char *from, const char *to)
{
	static char text[1 << 16];
	struct rivulet_blob b = { 0 };
	struct rivulet_plan p, q;
	char *at, *s;
	size_t n;
	int rc;

	make_plan(&p);
	text_of(&p, &b);
	s = b.data;
	at = strstr(s, from);
	ck_assert_msg(at != NULL, "no \"%s\"", from);
	n = (size_t)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - s), s, to,
			     at + strlen(from));
	n -= strlen("crc32c 00000000\n");
	n += (size_t)sprintf(text + n, "crc32c %08x\n", rivulet_crc32c(0, text, n));
	rc = rivulet_plan_parse(&q, text, n, &err);
	if (!rc)
		rivulet_plan_clear(&q);
	rivulet_blob_free(&b);
	rivulet_plan_clear(&p);
	return rc;
}

START_TEST(wrong_lines_are_named)
{
	static const struct { const char *from, *to, *says; } wrong[] = {
		{ "rivulet-plan 2", "rivulet-plan 1", "version 1, this is for version 2" },
		{ "\nboard sc-edge", "\nboard ", "line 3: board" },
		{ "\nopp ", "\nopp g", "line 4: opp" },
		{ "\nbatch 2\n", "\n", "line 9: batch" },
		{ "\nbatch 2", "\nbatch 2147483648", "line 9: batch" },
		{ "\nsymbol 7", "\nsymbol 7 8", "line 10: symbol" },
		{ "shape 2 5 3 an", "shape 2 5 an", "line 11: shape" },
		{ "shape 2 5 3 an image", "shape 2 5 3", "line 11: shape" },
		{ "shape 2 5 3", "shape 9 5 3", "line 11: shape" },
		{ "shape 2 5 3", "shape 2 5 2147483648", "line 11: shape" },
		{ "dimension 12", "dimension -12", "line 13: dimension" },
		{ "dimension 12 unk 7", "dimension 12", "line 13: dimension" },
		{ "examples 5000 4000", "examples 5000", "line 8: examples" },
		{ "objective reward", "objective fun", "line 16: objective" },
		{ "constraint_ns 147247499", "constraint_ns -1", "line 17: constraint_ns" },
		{ "length 33", "length 7", "line 18: a level's length" },
		{ "length 33", "length 257", "line 18: length" },
		{ "level 2 hz", "level 5 hz", "line 19: a level's length is 0 or 8 to 256, and "
					      "each level has" },
		{ "accuracy 876000", "accuracy 1000001", "line 18: accuracy" },
		{ "energy_pj 46188906", "energy_pj 46188906 x 1", "line 19" },
		{ "level 2", "levels 2", "line 19: level" },
	};

	ck_assert_int_eq(parse_with("length 33", "length 8"), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ck_assert_int_eq(parse_with(wrong[i].from, wrong[i].to), -EBADMSG);
		ck_assert_msg(strstr(err.msg, wrong[i].says) != NULL, "%s: %s", wrong[i].to,
			      err.msg);
	}
}
END_TEST

/* Random bytes with a valid checksum are refused, or the plan is within its limits. */
START_TEST(random_bytes_in_a_file)
{
	static const char alphabet[] = "0123456789 \n-abcdefklmnz";
	struct rivulet_blob b = { 0 };
	struct rivulet_plan p, q;
	const size_t tail = strlen("crc32c 00000000\n");
	uint32_t taken = 0;
	char *copy;

	make_plan(&p);
	text_of(&p, &b);
	copy = malloc(b.size + 1);
	seed = 20261121;
	for (int i = 0; i < 20000; i++) {
		memcpy(copy, b.data, b.size);
		for (uint32_t k = chance_range(&seed, 1, 3); k; k--)
			copy[chance_range(&seed, 0, (uint32_t)(b.size - tail - 1))] =
				alphabet[chance_range(&seed, 0, sizeof(alphabet) - 2)];
		sprintf(copy + b.size - tail, "crc32c %08x\n", rivulet_crc32c(0, copy,
									      b.size - tail));
		if (rivulet_plan_parse(&q, copy, b.size, &err))
			continue;
		taken++;
		ck_assert(q.n_levels && q.n_levels <= RIVULET_LEVELS);
		for (uint32_t l = 0; l < q.n_levels; l++) {
			ck_assert_uint_lt(q.level[l].level, RIVULET_LEVELS);
			ck_assert_uint_le(q.level[l].length, 256);
			ck_assert_uint_le(q.level[l].accuracy, 1000000);
		}
		rivulet_plan_clear(&q);
	}
	ck_assert_uint_gt(taken, 100);
	ck_assert_uint_lt(taken, 19000);
	free(copy);
	rivulet_blob_free(&b);
	rivulet_plan_clear(&p);
}
END_TEST

static void stale(const struct rivulet_board *b, const char *bytes, const float *calibration,
		  const char *says)
{
	const struct rivulet_examples e = { NULL, calibration, sizeof(values) };
	struct rivulet_compile_options o = { .quantise = { .examples = &e, .n_examples = calibration != NULL } };
	struct rivulet_plan p;

	make_plan(&p);
	ck_assert_int_eq(rivulet_plan_apply(&p, bytes, sizeof(model), b ? b : &board, &o, &err),
			 -ESTALE);
	ck_assert_msg(strstr(err.msg, says) != NULL, "\"%s\" is not in: %s", says, err.msg);
	ck_assert(!o.stochastic && !o.length[5]);
	rivulet_plan_clear(&p);
}

START_TEST(stale_plans_say_what_differs)
{
	static const float others[] = { 1, 2, 4 };
	struct rivulet_board b;
	struct rivulet_plan p;

	make_plan(&p);
	rivulet_plan_clear(&p);
	stale(NULL, "the bytes of a modes", values, "of another model");
	stale(NULL, model, NULL, "other calibration examples");
	stale(NULL, model, others, "other calibration examples");
	b = board;
	b.level[2].microvolt = 1050000;
	stale(&b, model, values, "level 2 was 800000000 Hz at 1100000 uV, the board has "
				   "800000000 Hz at 1050000 uV");
	b = board;
	b.level[5].hz = 1300000000;
	stale(&b, model, values, "level 5 was 1400000000 Hz");
	b = board;
	b.levels = 5;
	stale(&b, model, values, "it has level 5, the board 5 levels");
	b = board;
	b.level[0].microvolt = 900000;
	stale(&b, model, values, "levels that it does not use differ");
	b = board;
	b.sc_and_bin_fj++;
	stale(&b, model, values, "the profile of sc-edge has other geometry, cycles or energies");
	b = board;
	b.static_uw++;
	stale(&b, model, values, "the profile of sc-edge has other");
}
END_TEST

START_TEST(names_that_no_file_can_have)
{
	static const char *const bad[] = { "two\nlines" };
	const struct rivulet_compile_options o = { .keep_int8 = bad, .n_keep_int8 = 1 };
	const struct rivulet_input_shape s = { bad[0], 0, { 0 } };
	const struct rivulet_compile_options shape = { .shapes = &s, .n_shapes = 1 };
	const struct rivulet_dimension d = { "", 1 };
	const struct rivulet_compile_options dimension = { .dimensions = &d, .n_dimensions = 1 };
	const struct rivulet_compile_options *of[] = { &o, &shape, &dimension };

	for (size_t i = 0; i < 3; i++) {
		struct rivulet_plan p = { 0 };

		ck_assert_int_eq(rivulet_plan_bind(&p, model, sizeof(model), &board, of[i], &err), -E2BIG);
		rivulet_plan_clear(&p);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plan");
	TCase *choice = tcase_create("choice"), *file = tcase_create("file");

	tcase_add_test(choice, choice_is_the_best_of_all);
	tcase_add_test(choice, reward_is_the_best_of_all);
	tcase_add_test(choice, measures_only_what_is_needed);
	tcase_add_test(choice, problems_that_contradict_themselves);
	tcase_add_test(choice, stay_on_one_level);
	tcase_add_test(choice, dominated_levels);
	tcase_set_timeout(choice, 300);
	tcase_add_test(file, a_file_gives_the_plan_back);
	tcase_add_test(file, damaged_files_are_refused);
	tcase_add_test(file, wrong_lines_are_named);
	tcase_add_test(file, random_bytes_in_a_file);
	tcase_add_test(file, stale_plans_say_what_differs);
	tcase_add_test(file, names_that_no_file_can_have);
	suite_add_tcase(s, choice);
	suite_add_tcase(s, file);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/*
 * The plot of a plan with fixed numbers, compared with tests/data/plan.svg (RIVULET_PLOT=write
 * writes it), and plans that cannot be plotted.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "output.h"
#include "plan/plan.h"
#include "suite.h"

#define RECORD "tests/data/plan.svg"
#define CANDIDATES 5

static struct rvl_planning v;
static char dir[SCRATCH_MAX], path[SCRATCH_MAX + 16];

/* Two levels, and lengths 0 (int8), 16, 32, 64 and 128. The longest fits no level. */
static void setup(void)
{
	static const uint32_t lengths[CANDIDATES] = { 0, 16, 32, 64, 128 };
	static const uint64_t right[CANDIDATES] = { 900, 700, 800, 850, 870 };

	make_scratch(dir);
	snprintf(path, sizeof(path), "%s/plan.svg", dir);
	memset(&v, 0, sizeof(v));
	v.model = "models/a<b>&\"c\".onnx";
	strcpy(v.board.name, "made");
	v.curve.part[RVL_CHOOSE].count = 1000;
	for (uint32_t w = 0; w < CANDIDATES; w++) {
		v.candidate[w].length = lengths[w];
		v.curve.known[RVL_CHOOSE][lengths[w]] = true;
		v.curve.right[RVL_CHOOSE][lengths[w]] = right[w];
		for (uint32_t l = 0; l < RIVULET_LEVELS; l++) {
			v.candidate[w].seconds[l] = (lengths[w] + 4) * 1e-3 / (l + 1);
			v.candidate[w].joule[l] = (lengths[w] + 8) * 1e-3 * (l + 2);
		}
	}
	v.problem = (struct rivulet_plan_problem){ .candidate = v.candidate,
						   .n_candidates = CANDIDATES, .n_levels = 2,
		.level = { { 3, 820000, 40 }, { 1, 0, 60 } }, .constraint = 0.0305,
			.base_power = 0.5,
		.objective = RIVULET_PLAN_RUNS };
	v.answer.candidate[0] = 3;
	v.answer.candidate[1] = 2;
	v.least[0] = 820000;
	v.plan.level[0] = (struct rivulet_plan_entry){ 3, 1000000000, 1100000, 64, 0, 0, 0, 0, 0,
						       0 };
	v.plan.level[1] = (struct rivulet_plan_entry){ 1, 600000000, 950000, 0, 0, 0, 0, 0, 0, 0 };
}

static void teardown(void)
{
	remove_scratch(dir);
}

START_TEST(a_plot_is_as_recorded)
{
	const char *record = getenv("RIVULET_PLOT");
	size_t have_size, want_size;
	char *have, *want;

	ck_assert_msg(rvl_plan_svg(&v, path) == 0, "%s", rvl_tool_error);
	have = read_file(path, &have_size);
	if (record && !strcmp(record, "write"))
		write_file(RECORD, have, have_size);
	want = read_file(RECORD, &want_size);
	ck_assert_str_eq(have, want);
	free(have);
	free(want);
}
END_TEST

START_TEST(what_cannot_be_plotted)
{
	v.problem.constraint = 0.001;
	ck_assert_int_eq(rvl_plan_svg(&v, path), RVL_EXIT_USAGE);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "nothing to plot"));
}
END_TEST

START_TEST(a_path_that_cannot_be_written)
{
	snprintf(path, sizeof(path), "%s/no/plan.svg", dir);
	ck_assert_int_eq(rvl_plan_svg(&v, path), RVL_EXIT_FAILED);
	ck_assert_ptr_nonnull(strstr(rvl_tool_error, "no/plan.svg: No such file"));
}
END_TEST

/*
 * The demanded accuracy is visible in the plot even if it is below every plotted accuracy: the
 * axis, which would show 0.70 to 0.85, begins at 39 %, one below the demand of 40 %.
 */
START_TEST(a_low_demand)
{
	size_t size;
	char *p;

	v.least[0] = 0;
	v.least[1] = 400000;
	ck_assert_int_eq(rvl_plan_svg(&v, path), 0);
	p = read_file(path, &size);
	/* The panel reaches from 86 % at 96 to 39 % at 336: 336 - 240 / 47. */
	ck_assert_ptr_nonnull(strstr(p, "y1=\"330.9\" x2=\"830.0\" y2=\"330.9\""));
	free(p);
}
END_TEST

/* A single length is plotted at the middle of its axis. */
START_TEST(one_length)
{
	size_t size;
	char *p;

	v.problem.n_candidates = 2;
	v.answer.candidate[0] = v.answer.candidate[1] = 1;
	ck_assert_int_eq(rvl_plan_svg(&v, path), 0);
	p = read_file(path, &size);
	ck_assert_ptr_nonnull(strstr(p, "<circle cx=\"460.0\""));
	ck_assert_ptr_null(strstr(p, "nan"));
	free(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plot");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_plot_is_as_recorded);
	tcase_add_test(t, what_cannot_be_plotted);
	tcase_add_test(t, a_path_that_cannot_be_written);
	tcase_add_test(t, a_low_demand);
	tcase_add_test(t, one_length);
	suite_add_tcase(s, t);
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
/*
 * The report of rivulet plan as a whole, text and JSON, for a problem whose numbers can be worked out by hand; its
 * texts for what is infeasible or interrupted; and the file that keeps accuracies.
 *
 * The board has four levels, l1 to l4. l2 is dominated by l3. A length of N bits takes N / level ms and N / 16 * level
 * mJ, int8 takes 4 / level ms and 10 * level mJ. 64 bits are right for 835 of 1,000 examples, 32 for 795, 16 for 695,
 * int8 for 895. The charge of 100 J is spent on l4 (40 J, at least 82 %) and on l2 (60 J, at least 60 %).
 */
#include <check.h>
#include <math.h>
#include <sys/stat.h>

#include "../../tool/output.h"
#include "../../tool/plan/plan.h"
#include "files.h"
#include "rivulet_crc32c.h"
#include "suite.h"
#include "verb.h"

#define FIGURE "figure " "f."	/* a prefix that docs/figures.md does not list */

static struct rvl_planning v;
static char dir[SCRATCH_MAX];

static const struct { uint32_t length; uint64_t chosen, held; } curve[] = {
	{ 0, 450, 445 }, { 16, 350, 345 }, { 32, 400, 395 }, { 64, 425, 410 } };

static int accuracy(void *ctx, uint32_t candidate, uint32_t *ppm, struct rvl_err *err)
{
	struct rvl_planning *p = ctx;

	return rvl_curve_ppm(&p->curve, RVL_CHOOSE, p->problem.candidate[candidate].length, ppm, err);
}

static void make_board(void)
{
	static const struct { uint64_t hz; uint32_t uv; } levels[] = {
		{ 1000000000, 800000 }, { 2000000000, 900000 }, { 3000000000, 900000 }, { 4000000000, 1000000 } };

	strcpy(v.board.name, "made");
	v.board.levels = 4;
	for (int l = 0; l < 4; l++) {
		v.board.level[l].hz = levels[l].hz;
		v.board.level[l].microvolt = levels[l].uv;
	}
}

static void make_curve(void)
{
	v.curve.part[RVL_CHOOSE].count = v.curve.part[RVL_HELD].count = 500;
	for (uint32_t w = 0; w < 4; w++) {
		uint32_t length = curve[w].length;

		v.curve.known[RVL_CHOOSE][length] = v.curve.known[RVL_HELD][length] = true;
		v.curve.right[RVL_CHOOSE][length] = curve[w].chosen;
		v.curve.right[RVL_HELD][length] = curve[w].held;
		v.candidate[w].length = length;
		for (uint32_t l = 0; l < 4; l++) {
			v.candidate[w].seconds[l] = (length ? length : 4) * 1e-3 / (l + 1);
			v.candidate[w].joule[l] = (length ? length / 16 : 10) * 1e-3 * (l + 1);
		}
	}
	v.int8 = v.candidate[0];
}

/* The plan of the header's problem. */
static void setup(void)
{
	struct rvl_err err = { "" };

	make_scratch(dir);
	rvl_tool_error_clear();
	rvl_tool_json = false;
	rvl_json_reset();
	memset(&v, 0, sizeof(v));
	v.model = "m.onnx";
	v.charge = 100;
	make_board();
	make_curve();
	v.least[0] = 820000;
	v.least[1] = 600000;
	v.problem = (struct rivulet_plan_problem) {
		.candidate = v.candidate + 1, .n_candidates = 3, .n_levels = 2,
		.level = { { 3, 820000, 40 }, { 1, 600000, 60 } }, .constraint = 0.025, .best = 900000, .worst = 600000,
		.objective = RIVULET_PLAN_RUNS, .accuracy = accuracy, .ctx = &v };
	ck_assert_int_eq(rivulet_plan_choose(&v.problem, &v.answer, &err), 0);
	ck_assert(v.answer.feasible && v.answer.candidate[0] == 2 && v.answer.candidate[1] == 0);
	v.plan = (struct rivulet_plan) {
		.examples_chosen = 500, .examples_held = 500, .objective = RIVULET_PLAN_RUNS, .n_levels = 2,
		.level = { { 3, 4000000000, 1000000, 64, 835000, 850000, 819900, 820000, 16250000, 16012345678 },
			   { 1, 2000000000, 900000, 0, 695000, 700000, 690000, 600000, 8125000, 2098765432 } } };
}

static void teardown(void)
{
	remove_scratch(dir);
}

/* Captures what a report prints. */
static int report(int (*fn)(struct rvl_planning *))
{
	struct capture o = capture_start(stdout, STDOUT_FILENO), e = capture_start(stderr, STDERR_FILENO);
	int r = fn(&v);

	capture_end(&o, out, sizeof(out));
	capture_end(&e, err_out, sizeof(err_out));
	return r;
}

static int partial(struct rvl_planning *p)
{
	rvl_plan_partial(p);
	return 0;
}

static void reports(int (*fn)(struct rvl_planning *), const char *text)
{
	ck_assert_int_eq(report(fn), 0);
	ck_assert_str_eq(out, text);
}

START_TEST(text)
{
	v.output = "p.plan";
	v.figures = "f";
	reports(rvl_plan_report,
		"m.onnx on made: runs within 25.00 ms, 500 examples choose, 500 hold out\n"
		"  level      clock    supply  bits   latency  of the time    energy  accuracy  demanded  chosen by   held out   runs\n"
		"  l4     4.000 GHz   1.000 V    64  16.25 ms       65.0 %  16.01 mJ   83.50 %   82.00 %    85.00 %  81.99 % !   2500\n"
		"  l2     2.000 GHz  900.0 mV  int8  8.125 ms       32.5 %  2.099 mJ   69.50 %   60.00 %    70.00 %    69.00 %  30000\n"
		"  32500 runs of a charge of 100.0 J, which lasts 4.7 min; reward 1.3958\n"
		"  ! l4: 81.99 % of the examples held out, which is below the 82.00 % demanded\n"
		"  instead          level  bits  least accuracy   runs  of the plan's  lasts\n"
		"  int8 throughout         int8         89.50 %   4000          0.123  0.1 min\n"
		"  one level        l4       64         83.50 %   6250          0.192  1.7 min\n"
		"  one level        l2       16         69.50 %  50000          1.538  6.7 min\n"
		"  one level        l2        -               -      -              -  cannot keep the highest accuracy in time\n"
		"  one level        l3       64         83.50 %   8333          0.256  3.0 min, at the highest accuracy demanded\n"
		"  one level        l1        -               -      -              -  cannot keep the highest accuracy in time\n"
		"  best on one level: l2, 1.538 of the plan's runs, at 69.50 %\n"
		"  best on one level that keeps 82.00 % throughout: l3, 0.256 of the plan's runs\n"
		"  int8 takes 1.000 ms and 40.00 mJ at l4, 2.000 ms and 20.00 mJ at l2\n"
		"  l2 (2.000 GHz) is dominated by l3 (3.000 GHz) at no higher voltage: this plan uses it nevertheless\n"
		"written to p.plan: rivulet compile m.onnx --board sc-edge --plan p.plan\n"
		FIGURE "l4.length 64 bits\n"
		FIGURE "l4.accuracy 83.5 %\n"
		FIGURE "l4.latency 16.25 ms\n"
		FIGURE "l4.energy 16012.3457 uJ\n"
		FIGURE "l2.length 0 bits\n"
		FIGURE "l2.accuracy 69.5 %\n"
		FIGURE "l2.latency 8.125 ms\n"
		FIGURE "l2.energy 2098.76543 uJ\n"
		FIGURE "runs 32500 runs\n"
		FIGURE "reward 1.39583333 1\n"
		FIGURE "lasts 280 s\n");
}
END_TEST

START_TEST(json)
{
	rvl_tool_json = true;
	reports(rvl_plan_report,
		"{\"schema\":\"rivulet.plan/2\",\"model\":\"m.onnx\",\"board\":\"made\",\"objective\":\"runs\""
		",\"constraint\":0.025,\"examples_chosen\":500,\"examples_held\":500,\"charge\":100,\"runs\":32500"
		",\"seconds\":280,\"reward\":1.39583333,\"levels\":[{\"level\":3,\"hz\":4000000000,\"volt\":1,\"length\":64"
		",\"seconds\":0.01625,\"joule\":0.0160123457,\"accuracy\":0.835,\"accuracy_chosen\":0.85"
		",\"accuracy_held\":0.8199,\"accuracy_demanded\":0.82,\"runs\":2500},{\"level\":1,\"hz\":2000000000"
		",\"volt\":0.9,\"length\":0,\"seconds\":0.008125,\"joule\":0.00209876543,\"accuracy\":0.695"
		",\"accuracy_chosen\":0.7,\"accuracy_held\":0.69,\"accuracy_demanded\":0.6,\"runs\":30000"
		",\"dominated_by\":2}],\"instead\":[{\"plan\":\"int8 throughout\",\"highest_accuracy\":false"
		",\"feasible\":true,\"length\":0,\"accuracy\":0.895,\"runs\":4000,\"seconds\":7},{\"plan\":\"one level\""
		",\"level\":3,\"highest_accuracy\":false,\"feasible\":true,\"length\":64,\"accuracy\":0.835,\"runs\":6250"
		",\"seconds\":100},{\"plan\":\"one level\",\"level\":1,\"highest_accuracy\":false,\"feasible\":true"
		",\"length\":16,\"accuracy\":0.695,\"runs\":50000,\"seconds\":400},{\"plan\":\"one level\",\"level\":1"
		",\"highest_accuracy\":true,\"feasible\":false},{\"plan\":\"one level\",\"level\":2"
		",\"highest_accuracy\":true,\"feasible\":true,\"length\":64,\"accuracy\":0.835,\"runs\":8333.33333"
		",\"seconds\":177.777778},{\"plan\":\"one level\",\"level\":0,\"highest_accuracy\":true"
		",\"feasible\":false}]}\n");
}
END_TEST

START_TEST(with_a_rate)
{
	struct rvl_err err = { "" };

	v.problem.rate = 20;
	v.problem.base_power = 0.1;
	v.charge = 50;
	v.board_name = "b";
	v.output = "p.plan";
	v.by_rate = true;
	v.plan.examples_held = 0;
	ck_assert_int_eq(rivulet_plan_choose(&v.problem, &v.answer, &err), 0);
	reports(rvl_plan_report,
		"m.onnx on made: runs within 25.00 ms (by the rate), 500 examples choose, 0 hold out\n"
		"  level      clock    supply  bits   latency  of the time    energy  accuracy  demanded  chosen by  held out   runs\n"
		"  l4     4.000 GHz   1.000 V    64  16.25 ms       65.0 %  16.01 mJ   83.50 %   82.00 %    85.00 %         -   2273\n"
		"  l2     2.000 GHz  900.0 mV  int8  8.125 ms       32.5 %  2.099 mJ   69.50 %   60.00 %    70.00 %         -  21429\n"
		"  23701 runs of a charge of 100.0 J, which lasts 19.8 min; reward 1.3599\n"
		"  at 50 % of the charge 17857 runs are left, which last 14.9 min\n"
		"  instead                  level  bits  least accuracy   runs  of the plan's  lasts\n"
		"  int8 throughout                 int8         89.50 %   3968          0.167  3.3 min\n"
		"  one level                l4       64         83.50 %   5682          0.240  4.7 min\n"
		"  one level                l2       16         69.50 %  35714          1.507  29.8 min\n"
		"  one level                l2        -               -      -              -  cannot keep the highest accuracy in time\n"
		"  one level                l3       64         83.50 %   7075          0.299  5.9 min, at the highest accuracy demanded\n"
		"  one level                l1        -               -      -              -  cannot keep the highest accuracy in time\n"
		"  the plan, awake between                      69.50 %  10476          0.442  8.7 min\n"
		"  race to idle             l4       64         83.50 %   5682          0.240  4.7 min, at the highest accuracy demanded\n"
		"  best on one level: l2, 1.507 of the plan's runs, at 69.50 %\n"
		"  best on one level that keeps 82.00 % throughout: l3, 0.299 of the plan's runs\n"
		"  int8 takes 1.000 ms and 40.00 mJ at l4, 2.000 ms and 20.00 mJ at l2\n"
		"  l2 (2.000 GHz) is dominated by l3 (3.000 GHz) at no higher voltage: this plan uses it nevertheless\n"
		"written to p.plan: rivulet compile m.onnx --board b --plan p.plan\n");
}
END_TEST

/*
 * Proves the advice about int8 where it would allow more runs, and the advice about a single level
 * where two levels have the same plan.
 */
START_TEST(advice)
{
	struct rvl_err err = { "" };

	for (int l = 0; l < 4; l++)
		v.int8.joule[l] = v.candidate[0].joule[l] = 1e-3 * (l + 1);
	v.problem.level[1].least = 820000;
	v.problem.constraint = 0.032;
	ck_assert_int_eq(rivulet_plan_choose(&v.problem, &v.answer, &err), 0);
	ck_assert_int_eq(report(rvl_plan_report), 0);
	/* 40 J / 4 mJ + 60 J / 2 mJ, to 40 J / 16 mJ + 60 J / 8 mJ */
	SAYS("  int8 gives 4.0 times the runs here; --modes sc,int8 would choose it\n");
	SAYS("  best on one level: l2, 1.250 of the plan's runs, at 83.50 %\n");
	ck_assert_ptr_null(strstr(out, "best on one level that keeps"));
	ck_assert_ptr_null(strstr(out, "written to"));
	SAYS("  ! l4: 81.99 %");
	/*
	 * If int8 is among the choices, there is no advice, because the plan would have chosen it.
	 */
	v.problem.candidate = v.candidate;
	ck_assert_int_eq(report(rvl_plan_report), 0);
	ck_assert_ptr_null(strstr(out, "int8 gives"));
	for (int i = 0; i < 2; i++)
		v.plan.level[i].held = v.plan.level[i].least;
	ck_assert_int_eq(report(rvl_plan_report), 0);
	SAYS("  the accuracies hold on the examples held out\n");
	ck_assert_ptr_null(strstr(out, "  ! "));
}
END_TEST

/* Proves the unit of the time that a charge lasts. */
START_TEST(durations)
{
	static const struct { double s; const char *text; } times[] = {
		{ 90, "1.5 min" }, { 3599, "60.0 min" }, { 3600, "1.0 h" }, { 36000, "10.0 h" }, { 172799, "48.0 h" },
		{ 172800, "2.0 days" }, { 8640000, "100.0 days" } };
	char want[64];

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		v.answer.seconds = times[i].s;
		ck_assert_int_eq(report(rvl_plan_report), 0);
		snprintf(want, sizeof(want), ", which lasts %s; reward", times[i].text);
		SAYS(want);
	}
}
END_TEST

static int refusal(struct rvl_planning *p)
{
	return rvl_plan_refusal(p);
}

static void refuses(const char *text)
{
	struct rvl_err err = { "" };

	rvl_tool_error_clear();
	ck_assert_int_eq(rivulet_plan_choose(&v.problem, &v.answer, &err), 0);
	ck_assert(!v.answer.feasible);
	ck_assert_int_eq(report(refusal), RVL_EXIT_DIFFERENT);
	ck_assert_str_eq(rvl_tool_error, text);
}

/*
 * Proves the lines about each level that misses its accuracy, and about the least time, rounded up
 * to a nanosecond.
 */
START_TEST(infeasible)
{
	v.problem.constraint = 0.015;
	refuses("infeasible within 15.00 ms; l4: at most 80.00 % within the time, 82.00 % from 16.00 ms on; the least time "
		"constraint is 16.000001 ms");
	v.problem.constraint = 0.003;
	v.by_rate = true;
	refuses("infeasible within 3.000 ms, which the rate leaves; l4: nothing fits the time, 82.00 % from 16.00 ms on; "
		"l2: nothing fits the time, 60.00 % from 8.000 ms on; the least time constraint is 16.000001 ms");
	v.by_rate = false;
	v.problem.constraint = 0.025;
	v.problem.level[1].least = 860000;
	refuses("infeasible within 25.00 ms; l2: at most 80.00 % within the time, 86.00 % at no length; no time constraint "
		"makes it feasible");
}
END_TEST

/* Proves that an interrupted plan prints the accuracies that are known, of parts that have examples. */
START_TEST(interrupted)
{
	memset(v.curve.known, 0, sizeof(v.curve.known));
	v.curve.known[RVL_CHOOSE][0] = v.curve.known[RVL_CHOOSE][256] = v.curve.known[RVL_HELD][32] = true;
	v.curve.right[RVL_CHOOSE][256] = 499;
	reports(partial, "interrupted; these accuracies are known\n"
		"  bits  examples that  accuracy\n"
		"  int8  choose          90.00 %\n"
		"    32  held out        79.00 %\n"
		"   256  choose          99.80 %\n");
	strcpy(v.curve.file, "/cache/x");
	v.curve.part[RVL_HELD].count = 0;
	reports(partial, "interrupted; these accuracies are known, and kept in /cache/x\n"
		"  bits  examples that  accuracy\n"
		"  int8  choose          90.00 %\n"
		"   256  choose          99.80 %\n");
	v.curve.part[RVL_HELD].count = 500;
	rvl_tool_json = true;
	reports(partial, "{\"schema\":\"rivulet.plan/2\",\"model\":\"m.onnx\",\"interrupted\":true,\"accuracies\":["
		"{\"examples\":\"chosen\",\"length\":0,\"accuracy\":0.9},{\"examples\":\"held\",\"length\":32,"
		"\"accuracy\":0.79},{\"examples\":\"chosen\",\"length\":256,\"accuracy\":0.998}]}\n");
}
END_TEST

/* ---- the file of accuracies ---- */

#define HEX "000102030405060708090a0b0c0d0e0f"

static void with_key(struct rvl_curve *c)
{
	*c = (struct rvl_curve) { .part = { { .count = 500 }, { .count = 400 } } };
	for (int i = 0; i < 16; i++)
		c->key[i] = (uint8_t)i;
}

static void file_has(const char *path, const char *lines)
{
	char want[400];
	size_t n, size = (size_t)snprintf(want, sizeof(want), "rivulet-accuracy 1\n%s", lines);
	char *p = read_file(path, &n);

	snprintf(want + size, sizeof(want) - size, "crc32c %08x\n", rivulet_crc32c(0, want, size));
	ck_assert_str_eq(p, want);
	free(p);
}

/* Proves the format of the file, its location, and that it is read again. */
START_TEST(kept)
{
	static struct rvl_curve c, d;
	char path[200], cache[150];
	uint64_t right;

	with_key(&c);
	snprintf(cache, sizeof(cache), "%s/deep/cache", dir);
	rvl_curve_open(&c, cache);
	snprintf(path, sizeof(path), "%s/" HEX ".accuracy", cache);
	ck_assert_str_eq(c.file, path);
	c.known[0][0] = c.known[0][256] = c.known[1][8] = true;
	c.right[0][0] = 500;
	c.right[0][256] = 7;
	c.right[1][8] = 400;
	rvl_curve_save(&c);
	ck_assert_int_ne(access(path, F_OK), 0);	/* nothing was measured */
	c.unsaved = 1;
	rvl_curve_save(&c);
	ck_assert_uint_eq(c.unsaved, 0);
	file_has(path, "0 0 500\n0 256 7\n1 8 400\n");
	with_key(&d);
	rvl_curve_open(&d, cache);
	ck_assert_mem_eq(d.known, c.known, sizeof(d.known));
	ck_assert_mem_eq(d.right, c.right, sizeof(d.right));
	ck_assert_int_eq(rvl_curve_right(&d, RVL_CHOOSE, 256, &right, NULL), 0);
	ck_assert(right == 7 && d.measured == 0);
	/* A part without examples needs no measurement. */
	d.part[RVL_HELD].count = 0;
	ck_assert_int_eq(rvl_curve_right(&d, RVL_HELD, 100, &right, NULL), 0);
	ck_assert(right == 0 && d.measured == 0);
}
END_TEST

START_TEST(places)
{
	static struct rvl_curve c;
	char want[200];

	with_key(&c);
	setenv("XDG_CACHE_HOME", "/xdg", 1);
	setenv("HOME", "/home/x", 1);
	rvl_curve_open(&c, NULL);
	ck_assert_str_eq(c.file, "/xdg/rivulet/" HEX ".accuracy");
	setenv("XDG_CACHE_HOME", "relative", 1);
	rvl_curve_open(&c, NULL);
	ck_assert_str_eq(c.file, "/home/x/.cache/rivulet/" HEX ".accuracy");
	setenv("XDG_CACHE_HOME", "", 1);
	rvl_curve_open(&c, NULL);
	ck_assert_str_eq(c.file, "/home/x/.cache/rivulet/" HEX ".accuracy");
	setenv("HOME", "home", 1);
	rvl_curve_open(&c, NULL);
	ck_assert_str_eq(c.file, "");
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	rvl_curve_open(&c, NULL);
	ck_assert_str_eq(c.file, "");
	c.unsaved = 1;
	rvl_curve_save(&c);
	ck_assert_uint_eq(c.unsaved, 1);
	snprintf(want, sizeof(want), "%s", dir);
	rvl_curve_open(&c, want);
	ck_assert_int_eq(strncmp(c.file, want, strlen(want)), 0);
}
END_TEST

/* Opens a file with these lines after the head and their right sum, with @size bytes of it. */
static bool takes(const char *head, const char *lines, int cut)
{
	static struct rvl_curve c;
	struct capture e;
	char text[400], path[200];
	size_t n = (size_t)snprintf(text, sizeof(text), "%s%s", head, lines);
	bool any = false;

	n += (size_t)snprintf(text + n, sizeof(text) - n, "crc32c %08x\n", rivulet_crc32c(0, text, n));
	with_key(&c);
	snprintf(path, sizeof(path), "%s/" HEX ".accuracy", dir);
	write_file(path, text, n - (size_t)cut);
	e = capture_start(stderr, STDERR_FILENO);
	rvl_curve_open(&c, dir);
	capture_end(&e, err_out, sizeof(err_out));
	for (uint32_t l = 0; l <= RIVULET_SC_MAX; l++)
		any |= c.known[0][l] || c.known[1][l];
	snprintf(text, sizeof(text), "rivulet: note: %s is damaged; accuracies are measured again\n", path);
	ck_assert_str_eq(err_out, any || !*lines ? "" : text);
	return any;
}

START_TEST(damaged)
{
	static const char head[] = "rivulet-accuracy 1\n";
	static const char *const bad[] = { "0 64 501\n", "1 64 401\n", "2 64 1\n", "0 257 1\n", "0 64\n", "0 64 1 2\n",
					   "0 64 1x\n", "x\n", "0 64 1\n0 65 x\n" };

	ck_assert(takes(head, "0 64 500\n", 0));
	ck_assert(takes(head, "1 256 400\n0 8 0\n", 0));
	ck_assert(!takes(head, "", 0));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!takes(head, bad[i], 0), "%s is taken", bad[i]);
	ck_assert(!takes("rivulet-accuracy 2\n", "0 64 500\n", 0));
	ck_assert(!takes(head, "0 64 500\n", 1));
	ck_assert(!takes(head, "0 64 500\n", 2));
	ck_assert(!takes(head, "0 64 500\n", 20));
}
END_TEST

/* Proves that a file that cannot be written causes one note, and that no temporary file is left. */
START_TEST(not_kept)
{
	static struct rvl_curve c;
	struct capture e;
	char path[200], want[400];

	with_key(&c);
	write_file(strcat(strcpy(path, dir), "/plain"), "", 0);
	strcat(path, "/sub");
	rvl_curve_open(&c, path);
	c.unsaved = 3;
	snprintf(want, sizeof(want), "rivulet: note: accuracies are not kept: %s/" HEX ".accuracy: Not a directory\n",
		 path);
	e = capture_start(stderr, STDERR_FILENO);
	rvl_curve_save(&c);
	capture_end(&e, err_out, sizeof(err_out));
	ck_assert_str_eq(err_out, want);
	ck_assert(!c.file[0] && !c.unsaved);
	/* The name of a directory cannot be replaced by a file. */
	with_key(&c);
	rvl_curve_open(&c, dir);
	ck_assert_int_eq(mkdir(c.file, 0755), 0);
	c.unsaved = 1;
	e = capture_start(stderr, STDERR_FILENO);
	rvl_curve_save(&c);
	capture_end(&e, err_out, sizeof(err_out));
	ck_assert_ptr_nonnull(strstr(err_out, ".accuracy: Is a directory\n"));
	snprintf(want, sizeof(want), "test \"$(ls %s | wc -l)\" = 2", dir);
	ck_assert_int_eq(system(want), 0);
}
END_TEST

/* Proves the sums over one part and over both. */
START_TEST(sums)
{
	struct rvl_err err = { "" };
	uint32_t ppm;

	v.curve.part[RVL_HELD].count = 1500;
	ck_assert_int_eq(rvl_curve_ppm(&v.curve, RVL_CHOOSE, 64, &ppm, &err), 0);
	ck_assert_uint_eq(ppm, 850000);
	ck_assert_int_eq(rvl_curve_ppm(&v.curve, RVL_HELD, 64, &ppm, &err), 0);
	ck_assert_uint_eq(ppm, 273333);
	ck_assert_int_eq(rvl_curve_ppm_all(&v.curve, 64, &ppm, &err), 0);
	ck_assert_uint_eq(ppm, 417500);
	v.curve.part[RVL_HELD].count = 0;
	v.curve.right[RVL_HELD][64] = 0;
	ck_assert_int_eq(rvl_curve_ppm(&v.curve, RVL_HELD, 64, &ppm, &err), 0);
	ck_assert_uint_eq(ppm, 0);
	ck_assert_int_eq(rvl_curve_ppm_all(&v.curve, 64, &ppm, &err), 0);
	ck_assert_uint_eq(ppm, 850000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plan_report");
	TCase *t = add_case(s, "plan_report", 30, setup, teardown);

	tcase_add_test(t, text);
	tcase_add_test(t, json);
	tcase_add_test(t, with_a_rate);
	tcase_add_test(t, advice);
	tcase_add_test(t, durations);
	tcase_add_test(t, infeasible);
	tcase_add_test(t, interrupted);
	tcase_add_test(t, kept);
	tcase_add_test(t, places);
	tcase_add_test(t, damaged);
	tcase_add_test(t, not_kept);
	tcase_add_test(t, sums);
	return run_suite(s);
}

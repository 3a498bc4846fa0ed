// SPDX-License-Identifier: MIT
/*
 * report LOG DIR: evaluates the log of make demo-battery. It prints RR-SC's tables 11 and 12 with
 * the measured values and the figures of docs/figures.md, and draws SVG files into DIR. LOG holds
 * the lines of the guest (scripts/demo-battery-guest, discharge.c) and of rivulet eval. The exit
 * status is 1 if a figure is beyond its bar or an arm is missing.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define SLACK_NS 1.005 /* time constraint over the latency of 64 bits at l6 */
#define SHARES	 3     /* equal parts of the charge, each run at a level of its own */

/** struct accuracy - accuracy over all test images, from rivulet eval */
struct accuracy {
	char model[16];
	uint32_t length;
	double percent;
};

static struct arm arms[ARMS_MAX];
static uint32_t n_arms;
static struct accuracy accuracies[128];
static uint32_t n_accuracies;
static bool failed;

/* ---- reading ---- */

static void bad_line(const char *line)
{
	fprintf(stderr, "report: unexpected line \"%.80s\"\n", line);
	exit(1);
}

static void begin_arm(const char *line)
{
	struct arm *a = &arms[n_arms];
	double mwh;

	if (n_arms == ARMS_MAX ||
	    sscanf(line, "experiment %15s %15s %15s mwh %lf factor %lf", a->model, a->experiment,
		   a->name, &mwh, &a->factor) != 5 ||
	    !(a->factor > 0))
		bad_line(line);
	a->joule = mwh * 3.6 / a->factor;
	n_arms++;
}

static struct group *group_of(struct arm *a, const struct run *r)
{
	struct group *g = a->group;

	while (g < a->group + a->groups && (g->level != r->level || g->length != r->length))
		g++;
	if (g == a->group + a->groups) {
		if (a->groups == GROUPS_MAX) {
			fprintf(stderr, "report: more than %d pairs of level and length in %s\n",
				GROUPS_MAX, a->name);
			exit(1);
		}
		a->groups++;
		*g = (struct group){ .level = r->level, .length = r->length, .charge = r->charge };
	}
	return g;
}

/*
 * A run misses its constraint when its device time exceeds it; queueing and the emulated CPU do not
 * count.
 */
static void add_run(struct arm *a, const char *line, double constraint)
{
	struct run r;
	struct group *g;
	uint32_t number;
	int right;

	if (!a ||
	    sscanf(line, "run %u %u %u %u %" SCNu64 " %" SCNu64 " %d", &number, &r.charge, &r.level,
		   &r.length, &r.ns, &r.pj, &right) != 7 ||
	    number != a->runs || r.level >= LEVELS_MAX)
		bad_line(line);
	if (a->runs == a->room) {
		a->room = a->room ? 2 * a->room : 1024;
		a->run = realloc(a->run, a->room * sizeof(*a->run));
		if (!a->run)
			abort();
	}
	a->run[a->runs++] = r;
	g = group_of(a, &r);
	g->runs++;
	g->right += right != 0;
	g->ns += (double)r.ns;
	g->pj += (double)r.pj;
	g->misses += constraint > 0 && (double)r.ns > constraint;
}

static void end_arm(struct arm *a, const char *line)
{
	char name[16];
	uint32_t runs;

	if (!a ||
	    sscanf(line, "arm %15s runs %u refused %u seconds %lf waited %lf", name, &runs,
		   &a->refused, &a->seconds, &a->waited) != 5 ||
	    strcmp(name, a->name) || runs != a->runs)
		bad_line(line);
}

static void add_accuracy(const char *line)
{
	struct accuracy *x = &accuracies[n_accuracies];

	if (n_accuracies < sizeof(accuracies) / sizeof(accuracies[0]) &&
	    sscanf(line, "figure eval.%15[^.].accuracy.%u %lf", x->model, &x->length,
		   &x->percent) == 3)
		n_accuracies++;
}

static struct arm *find(const char *model, const char *experiment, const char *name);

/* The constraint follows from the mean latency of the model's arm "none", which comes first. */
static double constraint_of(const struct arm *a)
{
	const struct arm *none = find(a->model, "all", "none");

	return none && none->groups ? SLACK_NS * none->group[0].ns / none->group[0].runs : 0;
}

static void read_log(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[256];
	struct arm *a;

	if (!f) {
		perror(path);
		exit(1);
	}
	while (fgets(line, sizeof(line), f)) {
		a = n_arms ? &arms[n_arms - 1] : NULL;
		if (!strncmp(line, "experiment ", 11))
			begin_arm(line);
		else if (!strncmp(line, "run ", 4))
			add_run(a, line, a ? constraint_of(a) : 0);
		else if (!strncmp(line, "arm ", 4))
			end_arm(a, line);
		else if (a && !strncmp(line, "taken ", 6))
			a->taken = atof(line + 6) * 1e-12;
		else if (!strncmp(line, "figure eval.", 12))
			add_accuracy(line);
	}
	fclose(f);
}

/* ---- sums ---- */

static struct arm *find(const char *model, const char *experiment, const char *name)
{
	for (uint32_t i = 0; i < n_arms; i++)
		if (!strcmp(arms[i].model, model) && !strcmp(arms[i].experiment, experiment) &&
		    !strcmp(arms[i].name, name))
			return &arms[i];
	return NULL;
}

static struct arm *need(const char *model, const char *experiment, const char *name)
{
	struct arm *a = find(model, experiment, name);

	if (a && a->runs && a->taken > 0 && a->groups == (strcmp(name, "none") ? SHARES : 1))
		return a;
	fprintf(stderr, "report: no whole discharge %s %s %s in the log\n", model, experiment,
		name);
	exit(1);
}

uint32_t arm_misses(const struct arm *a)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < a->groups; i++)
		n += a->group[i].misses;
	return n;
}

double arm_model(const struct arm *a)
{
	double n = 0;

	for (uint32_t i = 0; i < a->groups; i++)
		n += a->joule / a->groups / (a->group[i].pj / a->group[i].runs * 1e-12);
	return n;
}

/*
 * The name that rivulet eval gave to the network of an arm: lenet20 has been trained for short
 * streams.
 */
static const char *eval_name(const struct arm *a, char *name)
{
	bool own = !strcmp(a->experiment, "slack") || !strcmp(a->experiment, "planner");

	sprintf(name, "%.8s%s", a->model, own && !strcmp(a->model, "lenet") ? "20" : "");
	return name;
}

static double accuracy_of(const struct arm *a, uint32_t length)
{
	char name[24];

	eval_name(a, name);
	for (uint32_t i = 0; i < n_accuracies; i++)
		if (!strcmp(accuracies[i].model, name) && accuracies[i].length == length)
			return accuracies[i].percent;
	fprintf(stderr, "report: no accuracy of %s at %u bits in the log\n", name, length);
	exit(1);
}

/* Mean accuracy over the levels of an arm. @weighted: by runs, else all levels count the same. */
static double mean_accuracy(const struct arm *a, bool weighted)
{
	double sum = 0, weight = 0, w;

	for (uint32_t i = 0; i < a->groups; i++) {
		w = weighted ? a->group[i].runs : 1;
		sum += w * accuracy_of(a, a->group[i].length);
		weight += w;
	}
	return sum / weight;
}

/*
 * The largest distance between a threshold of the charge and the charge at the first run beyond it,
 * ppm.
 */
static double lag_of(const struct arm *a)
{
	double most = 0, late;

	for (uint32_t i = 1; i < a->groups; i++) {
		late = 1e6 * (a->groups - i) / a->groups - a->group[i].charge;
		most = late > most ? late : most;
	}
	return most;
}

/* ---- tables ---- */

static void table_row(const struct arm *a, const struct arm *none)
{
	char lengths[32] = "", latency[48] = "", levels[48] = "";

	for (uint32_t i = 0; i < a->groups; i++) {
		const struct group *g = &a->group[i];
		const char *comma = i ? "/" : "";

		sprintf(lengths + strlen(lengths), "%s%u", comma, g->length);
		sprintf(levels + strlen(levels), "%sl%u", comma, g->level + 1);
		sprintf(latency + strlen(latency), "%s%.1f", comma, g->ns / g->runs * 1e-6);
	}
	printf("  %-8s %-5s %-9s %-9s %6u %6.3f %8.0f %6.2f %6.2f  %-18s %6u %8u %9.2f\n",
	       a->experiment, a->name, levels, lengths, a->runs, (double)a->runs / none->runs,
	       arm_model(a), mean_accuracy(a, false), mean_accuracy(a, true), latency,
	       arm_misses(a), a->refused, a->taken / a->runs * 1e6);
}

static void table(int number, const char *model, const char *what)
{
	const struct arm *none = need(model, "all", "none");

	printf("\nTable %d: %s, a charge of %.4g mJ (battery %.3g Wh, energy times %.6g), "
	       "constraint %.2f ms\n",
	       number, what, none->joule * 1e3, none->joule * none->factor / 3600, none->factor,
	       constraint_of(none) * 1e-6);
	printf("  %-8s %-5s %-9s %-9s %6s %6s %8s %6s %6s  %-18s %6s %8s %9s\n", "", "arm",
	       "levels", "bits", "runs", "ratio", "model", "acc %", "by run", "latency ms",
	       "misses", "refusals", "uJ a run");
	for (uint32_t i = 0; i < n_arms; i++)
		if (!strcmp(arms[i].model, model))
			table_row(&arms[i], none);
}

/* ---- figures ---- */

enum bar { AT_LEAST, AT_MOST, ABOVE, NO_BAR };

static void figure(const char *name, double value, const char *unit, int digits, enum bar kind,
		   double bar)
{
	static const char *const word[] = { "at least", "at most", "above" };
	bool good = kind == NO_BAR || (kind == AT_LEAST && value >= bar) ||
		    (kind == AT_MOST && value <= bar) || (kind == ABOVE && value > bar);

	printf("figure %s %.*f %s\n", name, digits, value, unit);
	if (good)
		return;
	printf("not ok - %s is %.*f, the bar is %s %g\n", name, digits, value, word[kind], bar);
	failed = true;
}

static const char *const models[] = { "mlp", "lenet" };
#define MODELS 2

/*
 * Print the ratio of the runs of two arms for each model, and the lower one of them against @bar.
 */
static void ratio(const char *name, const char *upper, const char *ue, const char *lower,
		  const char *le, double bar)
{
	double worst = INFINITY, x;
	char full[64];

	for (int i = 0; i < MODELS; i++) {
		x = (double)need(models[i], ue, upper)->runs / need(models[i], le, lower)->runs;
		snprintf(full, sizeof(full), "%s.%s", name, models[i]);
		figure(full, x, "x", 3, NO_BAR, 0);
		worst = x < worst ? x : worst;
	}
	figure(name, worst, "x", 3, AT_LEAST, bar);
}

static void ratios(void)
{
	ratio("battery.both_vs_none.equal", "both", "equal", "none", "all", 1.70);
	ratio("battery.both_vs_none.slack", "both", "slack", "none", "all", 2.55);
	ratio("battery.both_vs_hw", "both", "slack", "hw", "all", 2.1);
	ratio("battery.both_vs_sw", "both", "slack", "sw", "slack", 1.24);
	ratio("battery.planner.vs_none", "both", "planner", "none", "all", 3.5);
}

static void counts(void)
{
	uint32_t misses[2] = { 0, 0 }, refusals[2] = { 0, 0 };

	for (uint32_t i = 0; i < n_arms; i++) {
		int hw = !strcmp(arms[i].name, "hw");

		if (!hw && strcmp(arms[i].name, "both"))
			continue;
		misses[hw] += arm_misses(&arms[i]);
		refusals[hw] += arms[i].refused;
	}
	figure("battery.misses.both", misses[0], "runs", 0, AT_MOST, 0);
	figure("battery.misses.hw", misses[1], "runs", 0, ABOVE, 0);
	figure("battery.refusals.both", refusals[0], "runs", 0, AT_MOST, 0);
	figure("battery.refusals.hw", refusals[1], "runs", 0, AT_MOST, 0);
}

static void losses(void)
{
	double plain = 0, by_run = 0, top, x;

	for (int i = 0; i < MODELS; i++) {
		const struct arm *both = need(models[i], "equal", "both");

		top = accuracy_of(both, need(models[i], "all", "none")->group[0].length);
		x = top - mean_accuracy(both, false);
		plain = x > plain ? x : plain;
		x = top - mean_accuracy(both, true);
		by_run = x > by_run ? x : by_run;
	}
	figure("battery.accuracy.loss", plain, "points", 2, AT_MOST, 1.7);
	figure("battery.accuracy.loss.by_run", by_run, "points", 2, NO_BAR, 0);
}

static void errors(void)
{
	double model = 0, lag = 0, counter = 0, least = INFINITY, sum, x;

	for (uint32_t i = 0; i < n_arms; i++) {
		const struct arm *a = &arms[i];

		x = 100 * fabs(a->runs / arm_model(a) - 1);
		model = x > model ? x : model;
		x = lag_of(a) / 1e4;
		lag = x > lag ? x : lag;
		sum = 0;
		for (uint32_t k = 0; k < a->groups; k++)
			sum += a->group[k].pj * 1e-12;
		/*
		 * The counter includes the run in which the battery became empty, the sum does not.
		 */
		x = 100 * fabs(a->taken - sum) / a->joule;
		counter = x > counter ? x : counter;
		least = a->runs < least ? a->runs : least;
	}
	figure("battery.model.error", model, "%", 2, AT_MOST, 1);
	figure("battery.lag", lag, "%", 2, AT_MOST, 0.5);
	figure("battery.counter.error", counter, "%", 2, AT_MOST, 0.5);
	figure("battery.runs.least", least, "runs", 0, AT_LEAST, 500);
}

int main(int argc, char **argv)
{
	char path[512];

	if (argc != 3) {
		fputs("usage: report LOG DIR\n", stderr);
		return 2;
	}
	read_log(argv[1]);
	table(11, "mlp", "MLP 784-200-32-10 on Fashion-MNIST");
	table(12, "lenet", "LeNet on Fashion-MNIST");
	printf("\n");
	snprintf(path, sizeof(path), "%s/tables.svg", argv[2]);
	if (draw_tables(path, arms, n_arms))
		return 1;
	for (int i = 0; i < MODELS; i++) {
		snprintf(path, sizeof(path), "%s/timeline-%s.svg", argv[2], models[i]);
		if (draw_timeline(path, arms, n_arms, models[i]))
			return 1;
	}
	ratios();
	counts();
	losses();
	errors();
	return failed;
}

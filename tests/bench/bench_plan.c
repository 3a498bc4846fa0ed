// SPDX-License-Identifier: MIT
/*
 * Compares the planner with an exhaustive search. On random networks and boards, every length runs
 * at every level on the linked device model, accuracies are counted from its outputs, and all
 * combinations are compared. The planner predicts costs and evaluates accuracies on the CPU. It
 * must make the same choice, and its times and energies must be those of the device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "plan_oracle.h"
#include "rivulet_eval.h"
#include "rivulet_runtime.h"
#include "unit/pbuild.h"

#define INSTANCES 200
#define CANDIDATES	  11	/* of an instance */
#define EXAMPLES  60
#define MOST_IN	  96
#define MOST_OUT  40
#define BAR	  2.0	/* % */
#define MODEL_MAX (1u << 20)

static uint64_t seed;
static double latency_error, energy_error;	/* worst, % */
static struct rivulet_workers *workers;

static void demand(int rc, const char *what, const char *why)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_plan: %s: %s\n", what, why);
	exit(1);
}

/* ---- a random network as an ONNX file: two or three quantised layers ---- */

static const int64_t none[] = { -1 };

static void constant(struct pb *g, const char *name, int type, const int64_t *dims, const void *p,
		     size_t n)
{
	struct pb t = pb_tensor(name, type, dims, p, n);

	pb_msg(g, 5, &t);
}

static void layer(struct pb *g, int i, uint32_t in, uint32_t out)
{
	static int8_t w[MOST_IN * MOST_OUT];
	const int64_t dims[] = { in, out, -1 };
	float sx = i ? 0.02f : 1 / 255.0f, sy = 0.02f;
	/*
	 * The standard deviation of outputs is a third of the range, and half of them are clipped
	 * to 0.
	 */
	float sw = (float)(85 * sy / (sqrt(in) * 74 * 128 * sx));
	char names[160], y[16];
	struct pb node;

	for (uint32_t k = 0; k < in * out; k++)
		w[k] = (int8_t)chance_range(&seed, 0, 254) - 127;
	snprintf(names, sizeof(names), "w%d", i);
	constant(g, names, 3, dims, w, (size_t)in * out);
	snprintf(names, sizeof(names), "sw%d", i);
	constant(g, names, 1, none, &sw, sizeof(sw));
	snprintf(names, sizeof(names), "sx%d", i);
	constant(g, names, 1, none, &sx, sizeof(sx));
	snprintf(names, sizeof(names), "sy%d", i);
	constant(g, names, 1, none, &sy, sizeof(sy));
	snprintf(names, sizeof(names), "x%d sx%d zx w%d sw%d zw sy%d zx", i, i, i, i, i);
	snprintf(y, sizeof(y), "x%d", i + 1);
	node = pb_node("QLinearMatMul", names, y);
	pb_msg(g, 1, &node);
}

static struct pb network(uint32_t *inputs, uint32_t *classes)
{
	uint32_t layers = chance_range(&seed, 2, 3), width[4];
	struct pb g = { .p = NULL }, in, out = { .p = NULL };
	const uint8_t zero = 0;
	char last[16];

	for (uint32_t i = 0; i <= layers; i++)
		width[i] = i == 0 ? chance_range(&seed, 24, MOST_IN) :
			chance_range(&seed, 6, MOST_OUT);
	*inputs = width[0];
	*classes = width[layers];
	for (uint32_t i = 0; i < layers; i++)
		layer(&g, (int)i, width[i], width[i + 1]);
	constant(&g, "zx", 2, none, &zero, 1);
	constant(&g, "zw", 3, none, &zero, 1);
	pb_str(&g, 2, "g");
	in = pb_value("x0", 2, (const int64_t[]){ -2, width[0], -1 });
	pb_msg(&g, 11, &in);
	snprintf(last, sizeof(last), "x%u", layers);
	pb_str(&out, 1, last);
	pb_msg(&g, 12, &out);
	return pb_model(&g, 8, 13);
}

/* ---- an instance ---- */

struct instance {
	struct pb onnx;
	struct rivulet_board board;
	struct rivulet_plan_candidate candidate[CANDIDATES];
	struct rivulet_plan_problem p;
	struct oracle o; /* results of the device */
	struct rivulet_eval *eval;
	uint32_t inputs, classes;
	uint8_t x[EXAMPLES * MOST_IN], label[EXAMPLES];
	struct rivulet_eval_data data;
};

static void random_board(struct rivulet_board *b)
{
	char why[256];

	demand(rivulet_board_load(b, "sc-edge", why, sizeof(why)), "board", why);
	b->sc_lanes = 1u << chance_range(&seed, 0, 5);
	b->sc_blocks = chance_range(&seed, 1, 4);
	b->sc_and_bin_mcycles = chance_range(&seed, 1000, 20000);
	b->sc_and_bin_fj = chance_range(&seed, 20, 30000);
	b->static_uw = chance_range(&seed, 0, 200);
	b->levels = chance_range(&seed, 3, 6);
	for (uint32_t l = 0; l < b->levels; l++) {
		b->level[l].hz = (l ? b->level[l - 1].hz : 200000000) + chance_range(&seed, 1,
				300) * 1000000ull;
		b->level[l].microvolt = (l ? b->level[l - 1].microvolt :
					 800000) + chance_range(&seed, 0, 3) * 50000;
		b->level[l].static_uw = b->static_uw;
	}
}

/* Labels are the answers of int8, except one in ten. */
static void random_data(struct instance *x)
{
	static uint8_t scores[EXAMPLES * MOST_OUT];
	struct rivulet_compile_options o = { .stochastic = true, .batch = EXAMPLES };
	struct rivulet_eval_spec int8 = { .length = 0 };
	struct rvl_err err = { "" };

	demand(rivulet_eval_new(x->onnx.p, x->onnx.n, &o, &x->eval, &err), "evaluator", err.msg);
	for (uint32_t i = 0; i < EXAMPLES * x->inputs; i++)
		x->x[i] = (uint8_t)chance_range(&seed, 0, 255);
	x->data = (struct rivulet_eval_data){ .u8 = x->x, .labels = x->label, .count = EXAMPLES,
					      .size = x->inputs };
	demand(rivulet_eval_scores(x->eval, &int8, &x->data, 0, scores, &err) != EXAMPLES, "scores",
	       err.msg);
	for (uint32_t i = 0; i < EXAMPLES; i++) {
		const uint8_t *s = scores + i * x->classes;

		for (uint32_t k = 1; k < x->classes; k++)
			if (s[k] > s[x->label[i]])
				x->label[i] = (uint8_t)k;
		if (chance_range(&seed, 0, 9) == 0)
			x->label[i] = (uint8_t)chance_range(&seed, 0, x->classes - 1);
	}
}

static int measured(void *ctx, uint32_t candidate, uint32_t *ppm, struct rvl_err *err)
{
	struct instance *x = ctx;
	struct rivulet_eval_spec s = { .length = x->candidate[candidate].length };
	uint64_t right;
	int rc = rivulet_eval_accuracy(x->eval, &s, &x->data, 1, &right, err);

	*ppm = (uint32_t)(right * 1000000 / EXAMPLES);
	return rc;
}

static void random_candidates(struct instance *x)
{
	bool taken[RIVULET_SC_MAX + 1] = { false };

	x->p.n_candidates = chance_range(&seed, 6, CANDIDATES);
	for (uint32_t w = 0; w < x->p.n_candidates; w++) {
		uint32_t l = chance_range(&seed, 8, chance_range(&seed, 0, 1) ? 40 :
					  RIVULET_SC_MAX);

		while (taken[l])
			l = l % RIVULET_SC_MAX + 1;
		taken[l < 8 ? 8 : l] = true;
		x->candidate[w].length = l < 8 ? 8 : l;
	}
	if (chance_range(&seed, 0, 3) == 0)
		x->candidate[0].length = 0;
}

/*
 * Constraint and accuracies derive from the device, so that about half of the instances are
 * feasible.
 */
static void random_problem(struct instance *x)
{
	struct rivulet_plan_problem *p = &x->p;
	uint32_t top = x->board.levels, w;

	p->n_levels = chance_range(&seed, 1, 3);
	p->objective = (enum rivulet_plan_objective)chance_range(&seed, 0, 2);
	p->best = 900000;
	p->worst = 300000;
	p->tolerance = chance_range(&seed, 0, 2) * 10000;
	p->penalty = chance_uniform(&seed, 0, 0.5);
	p->base_power = chance_range(&seed, 0, 1) ? 0 : chance_uniform(&seed, 0, 1e-2);
	p->rate = chance_range(&seed, 0, 2) ? 0 : chance_uniform(&seed, 10, 1000);
	p->awake = chance_range(&seed, 0, 1);
	for (uint32_t i = 0; i < p->n_levels; i++) {
		top = chance_range(&seed, p->n_levels - 1 - i, top - 1);
		p->level[i].level = top;
		p->level[i].joule = chance_uniform(&seed, 1, 100);
		w = chance_range(&seed, 0, p->n_candidates - 1);
		p->level[i].least = (uint32_t)(x->o.ppm[w] * chance_uniform(&seed, 0.85, 1.0));
	}
	w = chance_range(&seed, 0, p->n_candidates - 1);
	p->constraint = x->o.seconds[w][p->level[0].level] * chance_uniform(&seed, 1.0, 2.0);
}

/* ---- the device ---- */

static uint32_t first_largest(const uint8_t *s, uint32_t n)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < n; i++)
		if (s[i] > s[best])
			best = i;
	return best;
}

static void error_of(double predicted, double real, double *worst)
{
	double e = 100 * fabs(predicted - real) / real;

	*worst = e > *worst ? e : *worst;
}

static const struct rivulet_exec_result *run(struct rivulet_runtime *rt, struct rivulet_exec *e,
					     uint32_t level)
{
	struct rivulet_runtime_error err;

	demand(rivulet_runtime_set_level(rt, level), "level", "refused");
	demand(rivulet_exec_start(e, NULL, &err), "run", err.text);
	demand(rivulet_exec_wait(e, -1), "run", rivulet_exec_result(e)->text);
	return rivulet_exec_result(e);
}

/* An instance of the program whose streams have that length at all levels. */
static struct rivulet_exec *load(const struct instance *x, struct rivulet_runtime *rt,
				 uint32_t length)
{
	struct rivulet_compile_options o = { .stochastic = true };
	struct rivulet_blob program = { 0 };
	struct rivulet_runtime_error why;
	struct rivulet_image *image;
	struct rivulet_exec *e;
	struct rvl_err err = { "" };

	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		o.length[l] = length;
	demand(rivulet_compile(x->onnx.p, x->onnx.n, &x->board, &o, &program, NULL, &err),
	       "compile", err.msg);
	demand(rivulet_image_load(rt, program.data, program.size, &image, &why), "load", why.text);
	demand(rivulet_exec_new(image, &e, &why), "instance", why.text);
	rivulet_image_unref(image);
	rivulet_blob_free(&program);
	return e;
}

static void bind(struct rivulet_exec *e, void *in, size_t in_size, void *out, size_t out_size)
{
	struct rivulet_runtime_error why;

	demand(rivulet_exec_bind_memory(e, 0, in, in_size, &why), "input", why.text);
	demand(rivulet_exec_bind_memory(e, 1, out, out_size, &why), "output", why.text);
}

/* Measures the cost of a candidate at every level. */
static void price(struct instance *x, struct rivulet_runtime *rt, struct rivulet_exec *e,
		  uint32_t w)
{
	for (uint32_t l = 0; l < x->board.levels; l++) {
		const struct rivulet_exec_result *r = run(rt, e, l);

		x->o.seconds[w][l] = (double)r->cycles / (double)x->board.level[l].hz;
		x->o.joule[w][l] = (double)r->energy_pj * 1e-12;
	}
}

/* Accuracies at one level: the others have the same bits (tests/unit/test_stochastic.c). */
static void simulate(struct instance *x, struct rivulet_runtime *rt, uint32_t w)
{
	struct rivulet_exec *e = load(x, rt, x->candidate[w].length);
	_Alignas(8) uint8_t in[MOST_IN] = { 0 }, out[MOST_OUT];
	uint32_t right = 0;

	bind(e, in, x->inputs, out, x->classes);
	price(x, rt, e, w);
	for (uint32_t i = 0; i < EXAMPLES; i++) {
		memcpy(in, x->x + i * x->inputs, x->inputs);
		run(rt, e, 0);
		right += first_largest(out, x->classes) == x->label[i];
	}
	x->o.ppm[w] = right * 1000000 / EXAMPLES;
	rivulet_exec_unref(e);
}

static void simulate_all(struct instance *x)
{
	struct rivulet_runtime_error why;
	struct rivulet_runtime *rt;

	demand(rivulet_runtime_new_sim(&x->board, workers, &rt, &why), "device", why.text);
	for (uint32_t w = 0; w < x->p.n_candidates; w++)
		simulate(x, rt, w);
	rivulet_runtime_unref(rt);
}

/* ---- both ---- */

static void predict(struct instance *x)
{
	const struct rivulet_compile_options o = { .stochastic = true };
	struct rvl_err err = { "" };

	demand(rivulet_plan_predict(x->onnx.p, x->onnx.n, &x->board, &o, x->candidate,
	       x->p.n_candidates, &err), "prediction", err.msg);
	for (uint32_t w = 0; w < x->p.n_candidates; w++)
		for (uint32_t l = 0; l < x->board.levels; l++) {
			error_of(x->candidate[w].seconds[l], x->o.seconds[w][l], &latency_error);
			error_of(x->candidate[w].joule[l], x->o.joule[w][l], &energy_error);
		}
}

static void make(struct instance *x, uint64_t number)
{
	seed = number * 1000003;
	memset(x, 0, sizeof(*x));
	x->onnx = network(&x->inputs, &x->classes);
	random_board(&x->board);
	random_candidates(x);
	random_data(x);
	simulate_all(x);
	predict(x);
	x->p.candidate = x->candidate;
	x->p.accuracy = measured;
	x->p.ctx = x;
	x->o.p = &x->p;
	random_problem(x);
}

static bool same_choice(const struct instance *x, const struct rivulet_plan_answer *a,
		     const uint32_t *candidate, double best)
{
	double v = oracle_value(&x->o, a->candidate);

	/* Combinations of equal value count as the same choice. */
	return !memcmp(a->candidate, candidate, x->p.n_levels * sizeof(*candidate)) ||
		fabs(v - best) <= 1e-12 * fabs(best);
}

/* Whether an infeasible answer has the right reasons and limits. */
static bool same_refusal(const struct instance *x, const struct rivulet_plan_answer *a)
{
	for (uint32_t i = 0; i < x->p.n_levels; i++) {
		double least;
		uint32_t high;

		oracle_missing(&x->o, i, &least, &high);
		if (a->highest[i] != high || isfinite(least) != isfinite(a->level_time[i]) ||
		    (isfinite(least) && fabs(a->level_time[i] - least) > BAR / 100 * least))
			return false;
	}
	return true;
}

static bool one(uint64_t number, bool *feasible)
{
	static struct instance x;
	uint32_t candidate[RIVULET_LEVELS];
	struct rivulet_plan_answer a;
	struct rvl_err err = { "" };
	double best;
	bool same;

	make(&x, number);
	best = oracle_exhaust(&x.o, candidate);
	demand(rivulet_plan_choose(&x.p, &a, &err), "choice", err.msg);
	*feasible = isfinite(best);
	same = a.feasible == *feasible && (a.feasible ? same_choice(&x, &a, candidate, best) :
					   same_refusal(&x, &a));
	if (!same)
		printf("instance %llu: the planner chose %s\n", (unsigned long long)number,
		       a.feasible ? "another combination" : "to refuse");
	rivulet_eval_free(x.eval);
	free(x.onnx.p);
	return same;
}

/* ---- the networks of RR-SC ---- */

static void read_model(const char *path, struct pb *onnx)
{
	FILE *f = fopen(path, "rb");

	demand(!f, path, "cannot be read");
	onnx->p = malloc(MODEL_MAX);
	onnx->n = fread(onnx->p, 1, MODEL_MAX, f);
	fclose(f);
}

static void network_errors(const char *path)
{
	static const uint32_t length[] = { 64, 33, 25, 13, 0 };
	static struct instance x;
	static float image[784], scores[10];
	struct rivulet_runtime_error why;
	struct rivulet_runtime *rt;

	memset(&x, 0, sizeof(x));
	read_model(path, &x.onnx);
	demand(rivulet_board_load(&x.board, "sc-edge", why.text, sizeof(why.text)), "board",
	       why.text);
	demand(rivulet_runtime_new_sim(&x.board, workers, &rt, &why), "device", why.text);
	x.p.n_candidates = sizeof(length) / sizeof(length[0]);
	for (uint32_t w = 0; w < x.p.n_candidates; w++) {
		struct rivulet_exec *e = load(&x, rt, length[w]);

		x.candidate[w].length = length[w];
		bind(e, image, sizeof(image), scores, sizeof(scores));
		price(&x, rt, e, w);
		rivulet_exec_unref(e);
	}
	predict(&x);
	rivulet_runtime_unref(rt);
	free(x.onnx.p);
}

int main(void)
{
	uint32_t same = 0, feasible = 0;

	demand(rivulet_workers_new(1, &workers), "workers", "no memory");
	for (uint64_t i = 0; i < INSTANCES; i++) {
		bool f;

		same += one(i, &f);
		feasible += f;
	}
	network_errors("models/mlp.onnx");
	network_errors("models/lenet540.onnx");
	rivulet_workers_unref(workers);
	printf("figure plan.instances %u instances\n", INSTANCES);
	printf("figure plan.instances.feasible %u instances\n", feasible);
	printf("figure plan.instances.same %u instances\n", same);
	printf("figure plan.latency.error %.4f %%\n", latency_error);
	printf("figure plan.energy.error %.4f %%\n", energy_error);
	return same != INSTANCES || feasible < INSTANCES / 4 || feasible > INSTANCES * 9 / 10 ||
	       latency_error > BAR || energy_error > BAR;
}

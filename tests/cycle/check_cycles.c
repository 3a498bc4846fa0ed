// SPDX-License-Identifier: MIT
/*
 * Compares the product's timeline (uapi/rivulet_cost.h) with the cycle-stepped model on random
 * networks, on every layer shape of three networks and on random streams, for all boards.
 * check_cycles [PROGRAMS [SEED]]; exits with 1 if a value is beyond its bar.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"
#include "cycle.h"
#include "networks.h"
#include "rivulet_cost.h"
#include "streams.h"

#define BAR_PROGRAMS 2000
#define BAR_TOTAL    2.0 /* % */
#define BAR_CLASS    5.0
#define WORST	     10

static const char *const board_names[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256", "cyclonev-64",
					   "sc-edge", "dense-16x16", "zcu102-binary", "cyclonev-64-nodsp",
					   "zu3eg-64-planes" };
#define BOARDS (sizeof(board_names) / sizeof(board_names[0]))
#define LAYER_BOARDS (BOARDS - 3) /* on layers of int8, the last three are others of the list */

static const char *const class_names[] = { "load", "conv", "alu", "store" };

/* The results of the two models for one program, or the sums over several programs. */
struct pair {
	struct cyc_result claim, model;
};

struct worst {
	double error;
	struct pair p;
	char name[160];
};

struct totals {
	struct pair sum;
	uint64_t programs;
	uint64_t ports; /* number of programs for which the port time of LOAD or STORE differs */
	double errors;	/* sum of the programs' */
	struct worst worst[WORST];
};

struct stream {
	const struct rivulet_insn *code;
	uint32_t count;
};

/* ---- the product's side ---- */

static int fetch(void *ctx, uint32_t index, struct rivulet_insn *out)
{
	const struct stream *s = ctx;

	if (index >= s->count)
		return 1;
	*out = s->code[index];
	return 0;
}

static void take_event(const struct rivulet_event *e, struct cyc_result *r)
{
	uint32_t q = e->insn.h.queue;

	if (e->done && e->insn.form < RIVULET_FORM_sync) /* LOAD, CONV, ALU, STORE */
		r->span[q] += e->end - e->start;
}

static int claim(const struct rivulet_board *b, struct stream *s, uint64_t at, struct cyc_result *r)
{
	struct rivulet_timeline *t = rivulet_timeline_new(b, fetch, s);
	const struct rivulet_timeline_stats *stats;
	const struct rivulet_event *e;
	int rc;

	memset(r, 0, sizeof(*r));
	if (!t)
		return -ENOMEM;
	rivulet_timeline_stream_at(t, at);
	while ((rc = rivulet_timeline_next(t, &e)) == 1)
		take_event(e, r);
	stats = rivulet_timeline_stats(t);
	r->cycles = stats->cycles;
	memcpy(r->busy, stats->busy, sizeof(r->busy));
	rivulet_timeline_free(t);
	return rc;
}

/* ---- comparison ---- */

static double error_of(uint64_t claim, uint64_t model)
{
	if (!model)
		return claim ? 100.0 : 0.0;
	return 100.0 * ((double)claim - (double)model) / (double)model;
}

static void add_result(struct cyc_result *to, const struct cyc_result *from)
{
	to->cycles += from->cycles;
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		to->busy[q] += from->busy[q];
		to->span[q] += from->span[q];
	}
}

/* Inserts a program into the list of the worst programs, which is in order. */
static void note_worst(struct totals *t, const struct pair *p, const char *name)
{
	double e = error_of(p->claim.cycles, p->model.cycles);
	int i = WORST - 1;

	if (fabs(e) <= fabs(t->worst[i].error))
		return;
	while (i > 0 && fabs(t->worst[i - 1].error) < fabs(e)) {
		t->worst[i] = t->worst[i - 1];
		i--;
	}
	t->worst[i].error = e;
	t->worst[i].p = *p;
	snprintf(t->worst[i].name, sizeof(t->worst[i].name), "%s", name);
}

static void take_pair(struct totals *t, const struct pair *p, const char *name)
{
	t->programs++;
	t->ports += p->claim.busy[RIVULET_Q_LOAD] != p->model.busy[RIVULET_Q_LOAD] ||
		    p->claim.busy[RIVULET_Q_STORE] != p->model.busy[RIVULET_Q_STORE];
	t->errors += fabs(error_of(p->claim.cycles, p->model.cycles));
	add_result(&t->sum.claim, &p->claim);
	add_result(&t->sum.model, &p->model);
	note_worst(t, p, name);
}

/* Runs both models on each NPU step of a program at its highest level. */
static int compare_steps(const struct rivulet_board *b, const struct rivulet_program *p,
			 struct pair *sum)
{
	const struct rivulet_step *s = rivulet_program_steps(p);
	int rc = 0;

	memset(sum, 0, sizeof(*sum));
	for (uint32_t i = 0; i < p->steps && !rc; i++) {
		const struct rivulet_step_variant *v = &s[i].variant[b->levels - 1];
		struct stream st = { (const void *)((const uint8_t *)p + v->offset),
				     v->length / sizeof(struct rivulet_insn) };
		struct cyc_result c, m;

		if (s[i].kind != RIVULET_STEP_NPU)
			continue;
		rc = claim(b, &st, v->offset, &c);
		if (!rc)
			rc = cyc_run(b, st.code, st.count, v->offset % 4096, &m, NULL);
		add_result(&sum->claim, &c);
		add_result(&sum->model, &m);
	}
	return rc;
}

static int compare(const struct rivulet_board *b, struct rvl_graph *g, bool streams,
		   const char *name, struct totals *t)
{
	struct rivulet_compile_options opt = { .stochastic = streams };
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	struct pair p;
	int rc;

	for (uint32_t i = 0; i < b->levels && streams; i++)
		opt.length[i] = 32;
	rc = g ? rvl_compile_graph(g, b, streams ? &opt : NULL, &program, NULL, &err) : -ENOMEM;
	if (rc) {
		fprintf(stderr, "check_cycles: %s: %s\n", name, err.msg);
		return rc;
	}
	rc = compare_steps(b, program.data, &p);
	rivulet_blob_free(&program);
	if (rc)
		fprintf(stderr, "check_cycles: %s: the models end with %d\n", name, rc);
	else if (p.model.cycles)
		take_pair(t, &p, name);
	return rc;
}

static int random_programs(const struct rivulet_board *boards, uint64_t programs, uint64_t seed,
			   struct totals *t)
{
	int rc = 0;

	for (uint64_t i = 0; t->programs < programs && !rc; i++) {
		const struct rivulet_board *b = &boards[i % BOARDS];
		bool streams = b->sc_lanes && i / BOARDS % 4 == 0;
		char name[64];

		snprintf(name, sizeof(name), "random %" PRIu64 " on %s", seed + i, b->name);
		rc = compare(b, cyc_random_network(seed + i, streams), streams, name, t);
	}
	return rc;
}

static int all_layers(const struct rivulet_board *boards, struct totals *t)
{
	struct cyc_layer layer;
	int rc = 0;

	for (uint32_t i = 0; cyc_layer_of_networks(i, &layer) && !rc; i++) {
		for (size_t b = 0; b < LAYER_BOARDS && !rc; b++) {
			char name[144];

			snprintf(name, sizeof(name), "%.95s on %.31s", layer.name, boards[b].name);
			rc = compare(&boards[b], cyc_layer_network(&layer), false, name, t);
		}
	}
	return rc;
}

/* Random streams, also for boards whose port and memory differ from the profile's. */
static int random_streams(const struct rivulet_board *boards, uint64_t programs, uint64_t seed,
			  struct totals *t)
{
	static const uint32_t latencies[] = { 64, 64, 10, 200 };
	static struct rivulet_insn code[CYC_STREAM_MOST];

	for (uint64_t i = 0; i < programs; i++) {
		struct rivulet_board b = boards[i % BOARDS];
		struct stream s = { code, cyc_random_stream(&b, seed + i, code) };
		struct pair p;
		char name[64];
		int rc;

		b.mem_latency = latencies[i / BOARDS % 4];
		b.port_bytes = 8 << i / BOARDS % 3;
		snprintf(name, sizeof(name), "stream %" PRIu64 " on %s", seed + i, b.name);
		rc = claim(&b, &s, 0, &p.claim);
		if (!rc)
			rc = cyc_run(&b, code, s.count, 0, &p.model, NULL);
		if (rc) {
			fprintf(stderr, "check_cycles: %s: the models end with %d\n", name, rc);
			return rc;
		}
		take_pair(t, &p, name);
	}
	return 0;
}

/* ---- the report ---- */

/* The largest error of a class, by the spans of its instructions or by its busy cycles. */
static double worst_class(const struct pair *p)
{
	double worst = 0;

	for (int q = 0; q < RIVULET_QUEUES; q++) {
		worst = fmax(worst, fabs(error_of(p->claim.span[q], p->model.span[q])));
		worst = fmax(worst, fabs(error_of(p->claim.busy[q], p->model.busy[q])));
	}
	return worst;
}

static void show(const char *what, const struct totals *t)
{
	const struct pair *p = &t->sum;

	printf("%s: %" PRIu64 " programs, mean error %.3f %%\n", what, t->programs,
	       t->programs ? t->errors / (double)t->programs : 0);
	printf("%-10s %14s %14s %8s\n", "cycles", "timeline", "stepped", "error %");
	printf("%-10s %14" PRIu64 " %14" PRIu64 " %8.3f\n", "total", p->claim.cycles,
	       p->model.cycles, error_of(p->claim.cycles, p->model.cycles));
	for (int q = 0; q < RIVULET_QUEUES; q++) {
		printf("%-5s span %14" PRIu64 " %14" PRIu64 " %8.3f\n", class_names[q],
		       p->claim.span[q], p->model.span[q],
		       error_of(p->claim.span[q], p->model.span[q]));
		printf("%-5s busy %14" PRIu64 " %14" PRIu64 " %8.3f\n", class_names[q],
		       p->claim.busy[q], p->model.busy[q],
		       error_of(p->claim.busy[q], p->model.busy[q]));
	}
	for (int i = 0; i < WORST && t->worst[i].error != 0; i++)
		printf("worst %+8.3f %% %10" PRIu64 " %10" PRIu64 "  %s\n", t->worst[i].error,
		       t->worst[i].p.claim.cycles, t->worst[i].p.model.cycles, t->worst[i].name);
}

/* Prints the errors of some programs. Returns 1 if a value is beyond its bar. */
static int judge(const char *prefix, const struct totals *t)
{
	double total = fabs(error_of(t->sum.claim.cycles, t->sum.model.cycles));
	double class = worst_class(&t->sum);

	printf("figure %s.error.total %.3f %%\n", prefix, total);
	printf("figure %s.error.class %.3f %%\n", prefix, class);
	printf("figure %s.error.mean %.3f %%\n", prefix,
	       t->programs ? t->errors / (double)t->programs : 100.0);
	printf("figure %s.port.differs %" PRIu64 " programs\n", prefix, t->ports);
	return total > BAR_TOTAL || class > BAR_CLASS || t->ports;
}

static int report(const struct totals *random, const struct totals *layers,
		  const struct totals *streams)
{
	struct totals all = *random;
	int missed;

	add_result(&all.sum.claim, &layers->sum.claim);
	add_result(&all.sum.model, &layers->sum.model);
	all.programs += layers->programs;
	all.errors += layers->errors;
	all.ports += layers->ports;
	show("random networks", random);
	show("layers of MobileNetV2, ResNet18 and VGG16", layers);
	show("random streams", streams);
	printf("figure cycles.programs %" PRIu64 " programs\n", random->programs);
	printf("figure cycles.layers %" PRIu64 " programs\n", layers->programs);
	printf("figure cycles.streams %" PRIu64 " programs\n", streams->programs);
	missed = judge("cycles", &all) | judge("cycles.streams", streams);
	return missed || random->programs < BAR_PROGRAMS || !layers->programs ||
	       streams->programs < BAR_PROGRAMS;
}

static int load_boards(struct rivulet_board *boards)
{
	char err[256];

	for (size_t i = 0; i < BOARDS; i++) {
		if (!rivulet_board_load(&boards[i], board_names[i], err, sizeof(err)))
			continue;
		fprintf(stderr, "check_cycles: %s\n", err);
		return -EINVAL;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct totals random, layers, streams;
	struct rivulet_board boards[BOARDS];
	uint64_t programs = argc > 1 ? strtoull(argv[1], NULL, 10) : BAR_PROGRAMS;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

	if (load_boards(boards) || random_programs(boards, programs, seed, &random) ||
	    all_layers(boards, &layers) || random_streams(boards, programs, seed, &streams))
		return 1;
	return report(&random, &layers, &streams);
}

/* SPDX-License-Identifier: MIT */
/*
 * What layouts save on the CPU, or with the argument "views" what views save there: steps, bytes that
 * are copied or reordered, and the time of a run, of networks compiled for the CPU alone with and
 * without them. The two programs run in turn, on one
 * thread; a time is the least processor time of all turns.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/nets.h"
#include "bench/steps.h"
#include "program/program.h"

#define TURNS 7

static bool views;	/* compare with and without views, not layouts */

struct side {
	struct rivulet_blob program;
	struct rivulet_explain e;
	struct prog_exec x;
	struct step *step;
	void *scratch;
	double best;
};

static const struct {
	const char *name;
	struct rvl_graph *(*make)(void);
} nets[] = {
	{ "mobilenetv2", make_mobilenetv2 },
	{ "resnet18", make_resnet18 },
	{ "yolo", make_yolo },
	{ "shufflenet", make_shufflenet },
	{ "mobilenetv2.tf", make_mobilenetv2_tf },
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int prepare(const struct rivulet_board *b, struct rvl_graph *g, bool with, struct side *s)
{
	const struct rivulet_compile_options opt = {
		.cpu_only = true, .no_layouts = !views && !with, .no_views = views && !with,
	};
	struct rvl_err err = { "" };
	int rc = g ? rvl_compile_graph(g, NULL, &opt, &s->program, &s->e, &err) : -1;

	if (rc) {
		fprintf(stderr, "bench_layouts: %s\n", err.msg);
		return rc;
	}
	s->best = 1e9;
	return prog_open(&s->x, b, NULL, s->program.data);
}

static int prepare_steps(struct side *s)
{
	size_t scratch;
	int rc = steps_make(&s->x, &s->step, &scratch);

	s->scratch = aligned_alloc(64, (scratch + 127) / 64 * 64);
	return s->scratch ? rc : -ENOMEM;
}

/* Both programs get the same input. Only the order of bytes in memory may differ between them. */
static int fill(struct side *s)
{
	const struct rivulet_program *p = s->x.p;
	const struct rivulet_tensor *t = rivulet_program_tensors(p);
	uint64_t seed = 3;

	for (uint32_t i = 0; i < p->inputs + p->outputs; i++) {
		s->x.io[i] = aligned_alloc(64, (t[i].size + 63) / 64 * 64);
		if (!s->x.io[i])
			return -ENOMEM;
		for (uint64_t j = 0; j < t[i].size; j++)
			((uint8_t *)s->x.io[i])[j] = i < p->inputs ? (uint8_t)splitmix(&seed) : 0;
	}
	return 0;
}

static int turn(struct side *s)
{
	double from = now(), took;
	int rc = 0;

	for (uint32_t i = 0; i < s->x.p->steps && !rc; i++)
		rc = rvl_kernel_run_values(s->step[i].k, s->step[i].in, s->step[i].out, s->scratch,
					   NULL, s->x.err);
	if (rc)
		fprintf(stderr, "bench_layouts: %s\n", s->x.err);
	took = now() - from;
	s->best = took < s->best ? took : s->best;
	return rc;
}

static bool same_outputs(const struct side *a, const struct side *b)
{
	const struct rivulet_program *p = a->x.p;
	const struct rivulet_tensor *t = rivulet_program_tensors(p);
	bool same = true;

	for (uint32_t i = p->inputs; i < p->inputs + p->outputs; i++)
		same &= !memcmp(a->x.io[i], b->x.io[i], t[i].size);
	return same;
}

static void show_views(const char *net, const char *how, const struct side *s)
{
	printf("figure views.cpu.%s.steps.%s %u steps\n", net, how, s->x.p->steps);
	printf("figure views.cpu.%s.copied.%s %" PRIu64 " bytes\n", net, how, s->e.copy_bytes);
	printf("figure views.cpu.%s.arena.%s %" PRIu64 " bytes\n", net, how, s->e.arena_bytes);
}

static void show(const char *net, const char *how, const struct side *s)
{
	if (views) {
		show_views(net, how, s);
		return;
	}
	printf("figure layouts.%s.steps.%s %u steps\n", net, how, s->x.p->steps);
	printf("figure layouts.%s.copied.%s %" PRIu64 " bytes\n", net, how, s->e.copy_bytes);
	printf("figure layouts.%s.reordered.%s %" PRIu64 " bytes\n", net, how, s->e.reorder_bytes);
	printf("figure layouts.%s.arena.%s %" PRIu64 " bytes\n", net, how, s->e.arena_bytes);
}

static void end(struct side *s)
{
	for (uint32_t i = 0; s->x.p && i < s->x.p->inputs + s->x.p->outputs; i++)
		free(s->x.io[i]);
	if (s->x.p)
		steps_free(&s->x, s->step);
	free(s->scratch);
	prog_close(&s->x, true);
	rivulet_explain_free(&s->e);
	rivulet_blob_free(&s->program);
}

static int start(const struct rivulet_board *b, size_t net, bool with, struct side *s)
{
	int rc = prepare(b, nets[net].make(), with, s);

	if (!rc)
		rc = fill(s);
	return rc ? rc : prepare_steps(s);
}

static int compare(const struct rivulet_board *b, size_t net)
{
	struct side off = { 0 }, on = { 0 };
	int rc = start(b, net, false, &off);

	if (!rc)
		rc = start(b, net, true, &on);
	for (int i = 0; i < TURNS && !rc; i++) {
		rc = turn(&off);
		if (!rc)
			rc = turn(&on);
	}
	if (!rc && !same_outputs(&off, &on)) {
		fprintf(stderr, "bench_layouts: %s: results differ\n", nets[net].name);
		rc = -EINVAL;
	}
	if (!rc) {
		show(nets[net].name, "off", &off);
		show(nets[net].name, "on", &on);
		if (views)
			printf("figure views.cpu.%s.time %.3f ratio\n", nets[net].name, on.best / off.best);
		else
			printf("figure layouts.%s.time %.3f ratio\n", nets[net].name, on.best / off.best);
		rc = views ? on.e.copy_bytes > off.e.copy_bytes :
			     on.e.reorder_bytes > off.e.reorder_bytes;
	}
	end(&off);
	end(&on);
	return rc;
}

int main(int argc, char **argv)
{
	struct rivulet_board b;
	char err[256];
	int rc = 0;

	views = argc > 1 && !strcmp(argv[1], "views");

	/* Nothing runs on the board; the executor of programs needs one. */
	if (rivulet_board_load(&b, "zu3eg-64", err, sizeof(err))) {
		fprintf(stderr, "bench_layouts: %s\n", err);
		return 1;
	}
	for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]) && !rc; i++)
		rc = compare(&b, i);
	return rc != 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * What views save: bytes that steps and layers only copy, arena, steps and cycles of the NPU of
 * networks with and without joins, compiled with and without views for one board.
 */
#include <inttypes.h>

#include "bench/nets.h"
#include "program/program.h"

struct result {
	uint64_t copied, arena, cycles;
	uint32_t steps;
};

static const struct {
	const char *name;
	struct rvl_graph *(*make)(void);
} nets[] = {
	{ "mobilenetv2", make_mobilenetv2 },
	{ "resnet18", make_resnet18 },
	{ "yolo", make_yolo },
	{ "shufflenet", make_shufflenet },
};

static int measure(const struct rivulet_board *b, struct rvl_graph *g, bool views, struct result *r)
{
	const struct rivulet_compile_options opt = { .no_views = !views };
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	int rc = g ? rvl_compile_graph(g, b, &opt, &program, &e, &err) : -1;

	if (rc) {
		fprintf(stderr, "bench_views: %s\n", err.msg);
		return rc;
	}
	*r = (struct result){ .copied = e.copy_bytes, .arena = e.arena_bytes,
			      .steps = ((const struct rivulet_program *)program.data)->steps };
	for (uint32_t i = 0; i < e.n_segments; i++)
		r->cycles += e.segments[i].cycles;
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	return 0;
}

static void show(const char *net, const char *how, const struct result *r)
{
	printf("figure views.%s.copied.%s %" PRIu64 " bytes\n", net, how, r->copied);
	printf("figure views.%s.arena.%s %" PRIu64 " bytes\n", net, how, r->arena);
	printf("figure views.%s.steps.%s %u steps\n", net, how, r->steps);
	printf("figure views.%s.cycles.%s %" PRIu64 " cycles\n", net, how, r->cycles);
}

int main(int argc, char **argv)
{
	struct rivulet_board b;
	int worse = 0;
	char err[256];

	if (rivulet_board_load(&b, argc > 1 ? argv[1] : "zu3eg-64", err, sizeof(err))) {
		fprintf(stderr, "bench_views: %s\n", err);
		return 1;
	}
	for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
		struct result off, on;

		if (measure(&b, nets[i].make(), false, &off) || measure(&b, nets[i].make(), true, &on))
			return 1;
		show(nets[i].name, "off", &off);
		show(nets[i].name, "on", &on);
		worse |= on.copied > off.copied || on.steps > off.steps ||
			 on.cycles * 100 > off.cycles * 102;
	}
	return worse;
}

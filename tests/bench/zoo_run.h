/* SPDX-License-Identifier: MIT */
/*
 * What the benches of networks from tools/zoo share: figures with bars, and networks compiled for a
 * board with their cycles by the timeline and by the cycle-stepped model.
 */
#ifndef RVL_BENCH_ZOO_RUN_H
#define RVL_BENCH_ZOO_RUN_H

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cycle.h"
#include "picture.h"
#include "program/program.h"

#define STEPPED_BAR   2.0	   /* % */
#define LARGE_PRODUCTS 50000000 /* of the convolutions that @large_cycles counts */

/* One network compiled for one board. */
struct run {
	uint64_t macs, cycles, bytes, read_bytes; /* on the NPU */
	uint64_t array_macs; /* products that the array has the time for while it works, those of zeros too */
	uint64_t first_macs, first_cycles; /* of the first convolution */
	uint64_t large_cycles; /* of the others of LARGE_PRODUCTS or more */
	uint32_t segments, convs, cpu_convs;
	double joule; /* of the NPU at the highest level */
	double stepped; /* % by which the cycle-stepped model differs */
};

static const char *folder; /* of the models */
static int missed;	   /* bars */

/* ---- figures ---- */

static inline void figure(const char *name, const char *suffix, double value, const char *unit)
{
	printf("figure %s%s %.3f %s\n", name, suffix, value, unit);
}

static inline void judge(const char *name, const char *suffix, double value, const char *unit, double bar,
		  bool least)
{
	bool good = least ? value >= bar : value <= bar;

	figure(name, suffix, value, unit);
	printf("bar %s%s %s %g: %s\n", name, suffix, least ? "at least" : "at most", bar,
	       good ? "met" : "MISSED");
	missed += !good;
}

static inline void at_least(const char *name, const char *suffix, double value, const char *unit, double bar)
{
	judge(name, suffix, value, unit, bar, true);
}

static inline void at_most(const char *name, const char *suffix, double value, const char *unit, double bar)
{
	judge(name, suffix, value, unit, bar, false);
}

/* ---- compilation ---- */

static inline void *read_model(const char *name, size_t *size)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.onnx", folder, name);
	return zoo_read(path, size);
}

static inline void take_rows(const struct rivulet_explain *e, struct run *r)
{
	for (uint32_t i = 0; i < e->n_rows; i++) {
		const struct rivulet_explain_row *row = &e->rows[i];
		bool conv = strstr(row->op, "Conv"), cpu = !strcmp(row->where, "cpu");

		if (conv && !r->convs) {
			r->first_macs = row->macs;
			r->first_cycles = row->cycles;
		} else if (conv && row->macs >= LARGE_PRODUCTS) {
			r->large_cycles += row->cycles;
		}
		r->convs += conv;
		r->cpu_convs += conv && cpu;
		r->macs += cpu ? 0 : row->macs;
	}
}

static inline void take_segments(const struct rivulet_explain *e, struct run *r)
{
	r->segments = e->n_segments;
	for (uint32_t i = 0; i < e->n_segments; i++) {
		r->cycles += e->segments[i].cycles;
		r->array_macs += e->segments[i].array_macs;
		r->bytes += e->segments[i].read_bytes + e->segments[i].write_bytes;
		r->read_bytes += e->segments[i].read_bytes;
	}
}

static inline int take_energy(const struct rivulet_board *b, const struct rivulet_program *p,
			      struct run *r, struct rvl_err *err)
{
	struct rivulet_estimate_row rows[RIVULET_LEVELS];
	int levels = rivulet_estimate(p, b, rows, err);

	if (levels > 0)
		r->joule = rows[levels - 1].joule;
	return levels < 0 ? levels : 0;
}

/* The difference of the cycle-stepped model from @cycles, over all NPU steps of a program. */
static inline int step_cycles(const struct rivulet_board *b, const struct rivulet_program *p, struct run *r)
{
	const struct rivulet_step *s = rivulet_program_steps(p);
	uint64_t sum = 0;
	int rc = 0;

	for (uint32_t i = 0; i < p->steps && !rc; i++) {
		const struct rivulet_step_variant *v = &s[i].variant[b->levels - 1];
		struct cyc_result m = { 0 };

		if (s[i].kind != RIVULET_STEP_NPU)
			continue;
		rc = cyc_run(b, (const void *)((const uint8_t *)p + v->offset),
			     v->length / sizeof(struct rivulet_insn), v->offset % 4096, &m, NULL);
		sum += m.cycles;
	}
	r->stepped = sum ? 100.0 * ((double)r->cycles - (double)sum) / (double)sum : 100.0;
	return rc;
}

/* @stepped: the cycle-stepped model runs, too. A failure ends the program. */
static inline struct run compile(const char *name, const struct rivulet_board *b,
			  const struct rivulet_compile_options *opt, bool stepped)
{
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	struct run r = { 0 };
	size_t size;
	void *model = read_model(name, &size);
	int rc = model ? rivulet_compile(model, size, b, opt, &program, &e, &err) : -ENOENT;

	free(model);
	if (!rc) {
		take_rows(&e, &r);
		take_segments(&e, &r);
	}
	if (!rc)
		rc = take_energy(b, program.data, &r, &err);
	if (!rc && stepped)
		rc = step_cycles(b, program.data, &r);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	if (!rc)
		return r;
	fprintf(stderr, "bench: %s on %s: %s\n", name, b->name, *err.msg ? err.msg : strerror(-rc));
	exit(1);
}

static inline struct rivulet_board board_of(const char *name)
{
	struct rivulet_board b;
	char err[256];

	if (!rivulet_board_load(&b, name, err, sizeof(err)))
		return b;
	fprintf(stderr, "bench: %s\n", err);
	exit(1);
}

#endif

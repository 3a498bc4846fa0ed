// SPDX-License-Identifier: MIT
/* The timeline of an account from the PROF records of a run. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "device/engine.h"
#include "model/explain_run.h"
#include "npu/estimate.h"
#include "rivulet_isa.h"
#include "rivulet_runtime.h"
#include "verb.h"

#define SEED 1

/* Row of layer @layer, counted over all NPU steps; of a program the row of step @step. */
static uint32_t row_of(const struct rivulet_explain *e, uint32_t step, uint32_t layer)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->n_rows; i++) {
		if (strcmp(e->rows[i].where, "npu"))
			continue;
		if (!strcmp(e->rows[i].op, "segment") ? e->rows[i].step == step : n == layer)
			return i;
		n++;
	}
	return RIVULET_NO_ROW;
}

static int add_records(struct rivulet_explain *e, uint32_t step, const struct rivulet_prof *r, size_t n,
		       uint64_t cycles, struct rvl_bytes *spans)
{
	uint32_t last[RIVULET_QUEUES];
	int rc = 0;

	memset(last, 0xff, sizeof(last));
	for (size_t i = 0; !rc && i < n; i++) {
		struct rivulet_explain_span s = { .step = step, .row = row_of(e, step, le32toh(r[i].tag)),
			.queue = le32toh(r[i].queue), .start = le64toh(r[i].start),
			.end = le64toh(r[i].end) };

		s.busy = s.end - s.start;
		if (s.queue < RIVULET_QUEUES && s.end > s.start)
			rc = rvl_spans_add(spans, last, &s, rvl_spans_pause(cycles));
	}
	return rc ? rvl_tool_fail(RVL_EXIT_FAILED, "out of memory") : 0;
}

static int add_step(const struct rivulet_exec *x, uint32_t step, struct rivulet_explain *e, struct rvl_bytes *spans)
{
	uint64_t cycles = rivulet_exec_step(x, step)->status.cycles;
	struct rivulet_prof *r;
	size_t n;
	int rc = rvl_prof_of_step(x, step, &r, &n);

	if (rc || !r)
		return rc;
	rc = add_records(e, step, r, n, cycles, spans);
	free(r);
	for (uint32_t i = 0; i < e->n_segments; i++)
		if (e->segments[i].step == step)
			e->segments[i].cycles = cycles;
	return rc;
}

int rvl_explain_run(const char *path, const void *program, size_t size, const char *device,
		    struct rivulet_explain *e, struct rvl_bytes *spans)
{
	struct rvl_engine_options o = { .device = device, .program = program, .program_size = size };
	struct rvl_engine *engine = NULL;
	int r;

	if (strncmp(device, "sim:", 4) && *device != '/')
		return rvl_tool_fail(RVL_EXIT_USAGE, "--measure takes a node below /dev, or sim:BOARD, not \"%s\"", device);
	r = rvl_engine_open(path, &o, &engine);
	if (r)
		return r;
	rvl_engine_randomise(engine, 0, SEED);
	r = rvl_engine_run(engine, 0, NULL);
	for (uint32_t i = 0; !r && i < rvl_engine_program(engine)->steps; i++)
		r = add_step(rvl_engine_exec(engine, 0), i, e, spans);
	e->spans = (struct rivulet_explain_span *)spans->data;
	e->n_spans = (uint32_t)(spans->size / sizeof(*e->spans));
	e->measured = true;
	rvl_engine_close(engine);
	return r;
}

// SPDX-License-Identifier: MIT
/*
 * A series of runs, of which several are in flight: CPU steps of a frame run while the NPU runs the
 * frame before it. Frame i uses instance i modulo the number of instances, and frames are taken in
 * the order in which they were started, whichever ends first.
 */
#include <string.h>

#include "output.h"
#include "progress.h"
#include "run/run.h"

static int priority_of(const struct rvl_run *r)
{
	return !r->priority || !strcmp(r->priority, "normal") ? 0 : *r->priority == 'h' ? 1 : -1;
}

static void add_stats(struct rvl_run_stats *sum, const struct rvl_run_stats *s, bool first)
{
	sum->npu_ns += s->npu_ns;
	sum->cpu_ns += s->cpu_ns;
	sum->cycles += s->cycles;
	sum->macs += s->macs;
	sum->energy_pj += s->energy_pj;
	sum->npu_steps += s->npu_steps;
	sum->cpu_steps += s->cpu_steps;
	if (first || s->level_min < sum->level_min)
		sum->level_min = s->level_min;
	if (s->level_max > sum->level_max)
		sum->level_max = s->level_max;
}

static int start(struct rvl_run *r, const struct rvl_series *s, uint64_t frame)
{
	uint64_t timeout = r->deadline_ms == UINT64_MAX ? 0 : r->deadline_ms * 1000000;
	uint32_t instance = (uint32_t)(frame % rvl_engine_instances(r->engine));
	int e = s->feed ? s->feed(r, s->ctx, frame, instance) : 0;

	return e ? e : rvl_engine_start(r->engine, instance, timeout, priority_of(r));
}

/* Waits for the oldest frame. */
static int take(struct rvl_run *r, const struct rvl_series *s, uint64_t frame)
{
	struct rvl_run_stats stats;
	int e;

	r->instance = (uint32_t)(frame % rvl_engine_instances(r->engine));
	e = rvl_engine_wait(r->engine, r->instance, &stats);
	if (e && s->each_alone) {
		r->failed++;
		return 0;
	}
	if (e)
		return e;
	add_stats(&r->sum, &stats, !r->runs);
	r->wall[r->runs++ % RVL_RUN_WALLS] = stats.wall_ns;
	return s->take ? s->take(r, s->ctx, frame) : 0;
}

int rvl_run_series(struct rvl_run *r, const struct rvl_series *s)
{
	uint64_t started = 0, taken = 0, began = rvl_tool_now();
	int e = 0;

	for (;;) {
		while (!e && started < s->count && started - taken < rvl_engine_instances(r->engine) &&
		       !rvl_interrupted()) {
			e = start(r, s, started);
			started += !e;
		}
		if (e || taken == started)
			break;
		e = take(r, s, taken++);
		if (s->progress)
			rvl_progress_at(s->progress, taken);
	}
	r->series_ns = rvl_tool_now() - began;
	return e;
}

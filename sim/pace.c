// SPDX-License-Identifier: MIT
/* Device time (docs/device.md 5): real time, or the sum of the cycles of jobs. */
#include "device.h"

#include <time.h>

#define NS 1000000000ull

uint64_t rvl_pace_host(const struct rivulet_sim *s)
{
	struct timespec ts;

	if (s->ops.now)
		return s->ops.now(s->ops.ctx);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS + ts.tv_nsec;
}

uint64_t rvl_pace_now(const struct rivulet_sim *s)
{
	return s->board.pace_real ? rvl_pace_host(s) - s->power_on : s->fast_time;
}

static uint64_t scale(uint64_t v, uint64_t num, uint64_t den)
{
	return (unsigned __int128)v * num / den;
}

uint64_t rvl_pace_ns(const struct rivulet_board_level *l, uint64_t cycles)
{
	return scale(cycles, NS, l->hz);
}

/*
 * A job that follows another one starts at the end of that job, even if the host detected the end
 * later.
 */
void rvl_pace_start(struct rivulet_sim *s)
{
	s->t = (struct rvl_timing){ .start = s->chain ? s->chain : rvl_pace_now(s) };
}

/* Computes the end of a job, and when it may retire, from the cycles that the core counted. */
static void set_end(struct rivulet_sim *s)
{
	uint64_t late_ms = 0, host = rvl_pace_host(s);

	s->t.end_known = true;
	s->t.end = s->t.start + rvl_pace_ns(&s->board.level[s->queue.level], s->exec.st.cycles);
	s->t.due = s->board.pace_real ? s->power_on + s->t.end : host;
	if (s->board.pace_real && host > s->t.due)
		s->count.overruns++;
	if (rvl_inject_hit(&s->inject, RVL_INJECT_slow, s->started, &late_ms) && !s->t.hurried)
		s->t.late = late_ms * 1000000;
}

bool rvl_pace_over(struct rivulet_sim *s)
{
	if (!s->t.end_known)
		set_end(s);
	return s->stopped || rvl_pace_host(s) >= s->t.due + s->t.late;
}

uint64_t rvl_pace_wait(const struct rivulet_sim *s)
{
	uint64_t host = rvl_pace_host(s), due = s->t.due + s->t.late;

	return host < due ? due - host : 0;
}

/* A job that was stopped lasted until the stop. */
void rvl_pace_retire(struct rivulet_sim *s)
{
	struct rivulet_status *st = &s->exec.st;
	uint64_t now = rvl_pace_now(s);

	if (s->board.pace_real && s->stopped) {
		s->t.end = now > s->t.start ? now : s->t.start;
		st->cycles = scale(s->t.end - s->t.start, s->board.level[s->queue.level].hz, NS);
	}
	if (!s->board.pace_real)
		s->fast_time = s->t.end;
	st->start = s->t.start;
	st->end = s->t.end;
}

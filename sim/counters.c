// SPDX-License-Identifier: MIT
#include "device.h"

#include <string.h>

void rvl_count_retired(struct rivulet_sim *s, const struct rivulet_status *st)
{
	struct rivulet_counters *c = &s->count;

	c->jobs++;
	c->faults += st->state == RIVULET_STATE_FAULT;
	c->busy += st->end - st->start;
	c->cycles += st->cycles;
	c->load_busy += st->load_busy;
	c->conv_busy += st->conv_busy;
	c->alu_busy += st->alu_busy;
	c->store_busy += st->store_busy;
	c->stalls += st->stalls;
	c->read_bytes += st->read_bytes;
	c->write_bytes += st->write_bytes;
	c->macs += st->macs;
	c->energy += st->energy;
}

/* Busy time including the running job. It never decreases, not even when a late job is settled. */
static uint64_t busy_now(struct rivulet_sim *s, uint64_t now)
{
	uint64_t busy = s->count.busy;

	if (s->queue.running && now > s->t.start)
		busy += now - s->t.start;
	if (busy > s->busy_seen)
		s->busy_seen = busy;
	return s->busy_seen;
}

/*
 * The clock tree uses static power between jobs too, except while the device is held. The static
 * energy of a job is in its status.
 */
static void count_idle(struct rivulet_sim *s, uint64_t now, uint64_t busy_step)
{
	uint64_t step = now - s->seen;

	if (step > busy_step && !s->queue.held)
		s->idle_pj += (step - busy_step) * 1e-3 * s->board.level[s->queue.level].static_uw;
	s->seen = now;
}

uint64_t rvl_device_energy(const struct rivulet_sim *s)
{
	return s->count.energy + (uint64_t)s->idle_pj;
}

void rvl_device_consume(struct rivulet_sim *s, uint64_t pj)
{
	s->count.energy += pj;
	rvl_count_publish(s);
}

void rvl_count_publish(struct rivulet_sim *s)
{
	struct rivulet_counters c = s->count;
	uint64_t before = s->busy_seen;
	uint32_t words[sizeof(c) / 4], insns;

	c.time = rvl_pace_now(s);
	c.busy = busy_now(s, c.time);
	count_idle(s, c.time, c.busy - before);
	c.energy = rvl_device_energy(s);
	memcpy(words, &c, sizeof(c));
	/* Counters are not traced, because they would dominate the trace. */
	atomic_store(&s->window.word[RIVULET_REG_COUNT_SEQ / 4], ++s->count_seq);
	for (size_t i = 0; i < sizeof(c) / 4; i++)
		atomic_store_explicit(&s->window.word[RIVULET_REG_COUNTERS / 4 + i], words[i],
				      memory_order_release);
	atomic_store_explicit(&s->window.word[RIVULET_REG_COUNT_SEQ / 4], ++s->count_seq,
			      memory_order_release);
	insns = atomic_load_explicit(&s->insns, memory_order_relaxed);
	atomic_store_explicit(&s->window.word[RIVULET_REG_INSN / 4], insns - s->insns_before,
			      memory_order_release);
	atomic_store_explicit(&s->window.word[RIVULET_REG_PROGRESS / 4], insns + s->ticks,
			      memory_order_release);
}

// SPDX-License-Identifier: MIT
/* The fuzzer's submits. A job is valid before mutation; its program is good, mutated or noise. */
#include "fuzz.h"

#include <unistd.h>

#define GOOD_PROGRAMS	6	/* the first ones; break_program() has changed the others */

static void put_good(struct vm_prog *p, uint32_t tn, uint32_t n)
{
	for (uint32_t i = 0; i <= n % 3; i++)
		vm_put_copy(p, tn, 1, i * 64, 2, i * 64, 1 + n);
	vm_put_end(p);
}

static void break_program(struct fuzz_thread *t, uint8_t *bytes, uint32_t *length, uint32_t n)
{
	switch (n % 4) {
	case 0:	/* some bits are flipped */
		for (uint32_t i = 0; i <= n % 5; i++)
			bytes[fuzz_below(t, *length)] ^= (uint8_t)(1 << fuzz_below(t, 8));
		break;
	case 1:	/* END is missing */
		*length -= RIVULET_INSN_BYTES;
		break;
	case 2:	/* an instruction is missing whose token others wait for */
		memmove(bytes + 32, bytes + 48, *length - 48);
		*length -= RIVULET_INSN_BYTES;
		break;
	default:
		vm_noise(bytes, FUZZ_PROGRAM_SIZE, fuzz_random(t));
		*length = RIVULET_INSN_BYTES * (1 + fuzz_below(t, 32));
	}
}

/** fuzz_make_programs() - make the programs of a round */
void fuzz_make_programs(struct fuzz_shared *sh, uint32_t tn)
{
	struct fuzz_thread t = { .random = sh->seed * 31 + sh->round };

	for (uint32_t i = 0; i < FUZZ_PROGRAMS; i++) {
		struct vm_prog p = {};

		put_good(&p, tn, i);
		sh->program_length[i] = p.count * RIVULET_INSN_BYTES;
		memset(sh->programs[i], 0, FUZZ_PROGRAM_SIZE);
		memcpy(sh->programs[i], p.code, sh->program_length[i]);
		if (i >= GOOD_PROGRAMS)
			break_program(&t, (uint8_t *)sh->programs[i], &sh->program_length[i], i);
	}
}

static struct drm_rivulet_region make_region(struct fuzz_call *c, uint32_t slot, uint32_t index,
					     uint32_t flags)
{
	struct fuzz_pool *p = c->t->pool;
	uint32_t size = p->size[c->file][index];

	return (struct drm_rivulet_region){
		.slot = slot, .handle = p->handle[c->file][index], .size = size ? size : 4096,
		.flags = flags,
	};
}

static void make_regions(struct fuzz_call *c, struct drm_rivulet_job *j, uint32_t set)
{
	struct drm_rivulet_region *r = c->t->arrays->region[set];
	uint32_t n = 3 + (fuzz_percent(c->t, 20) ? fuzz_below(c->t, 14) : 0);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t index = i ? 1 + fuzz_below(c->t, FUZZ_HANDLES - 1) : 0;

		r[i] = make_region(c, i, index, i >= 2 ? DRM_RIVULET_REGION_WRITE : 0);
		if (fuzz_percent(c->t, 15))
			r[i].flags |= DRM_RIVULET_REGION_NO_IMPLICIT_SYNC;
		/* Some regions begin at a later page of the buffer. */
		if (i && r[i].size > 4096 && fuzz_percent(c->t, 30)) {
			r[i].offset = 4096 * fuzz_below(c->t, (uint32_t)(r[i].size / 4096));
			r[i].size -= r[i].offset;
		}
	}
	j->regions = (uintptr_t)r;
	j->region_count = n;
	fuzz_chunk(c, r, n * sizeof(*r), 0);
}

static void make_variants(struct fuzz_call *c, struct drm_rivulet_job *j, uint32_t set)
{
	struct drm_rivulet_variant *v = c->t->arrays->variant[set];
	uint32_t n = 1 + fuzz_below(c->t, 4);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t program = fuzz_percent(c->t, 60) ? fuzz_below(c->t, GOOD_PROGRAMS)
							  : fuzz_below(c->t, FUZZ_PROGRAMS);

		v[i] = (struct drm_rivulet_variant){
			.offset = program * FUZZ_PROGRAM_SIZE,
			.length = c->t->shared->program_length[program],
		};
	}
	j->variants = (uintptr_t)v;
	j->variant_count = n;
	fuzz_chunk(c, v, n * sizeof(*v), 0);
}

/* Fill in, in @percent of the calls, some of the file's syncobjs. Returns their number. */
static uint32_t make_syncs(struct fuzz_call *c, struct drm_rivulet_sync *s, uint32_t percent)
{
	uint32_t n = fuzz_percent(c->t, percent) ? 1 + fuzz_below(c->t, 3) : 0;

	if (n && fuzz_percent(c->t, 2))
		n = DRM_RIVULET_MAX_SYNCS;
	for (uint32_t i = 0; i < n; i++) {
		bool timeline = fuzz_percent(c->t, 30);

		s[i] = (struct drm_rivulet_sync){
			.handle = c->t->pool->sync[c->file][fuzz_below(c->t, FUZZ_SYNCS)],
			.point = timeline ? ++c->t->point : 0,
		};
	}
	fuzz_chunk(c, s, n * sizeof(*s), 0);
	return n;
}

static void make_job(struct fuzz_call *c, struct drm_rivulet_job *j, uint32_t set)
{
	struct fuzz_arrays *a = c->t->arrays;

	memset(j, 0, sizeof(*j));
	make_regions(c, j, set);
	make_variants(c, j, set);
	j->in_syncs = (uintptr_t)a->in[set];
	j->in_sync_count = make_syncs(c, a->in[set], 10);
	j->out_syncs = (uintptr_t)a->out[set];
	j->out_sync_count = make_syncs(c, a->out[set], 60);
	j->min_level = fuzz_percent(c->t, 10) ? fuzz_below(c->t, 4) : 0;
	j->report_slot = DRM_RIVULET_NO_REPORT;
	if (fuzz_percent(c->t, 20)) {
		j->report_slot = 2;
		j->report_offset = 8 * fuzz_below(c->t, 400);
	}
	if (fuzz_percent(c->t, 20))
		j->perfmon = c->t->pool->perfmon[c->file][fuzz_below(c->t, FUZZ_PERFMONS)];
	j->deadline_ns = fuzz_percent(c->t, 20) ? (int64_t)fuzz_random(c->t) >> 1 : 0;
	fuzz_chunk(c, j, sizeof(*j), 0xf);
}

/* Copy an argument into the mapping of a buffer, where the call may have to fault it in. */
static uint64_t into_mapping(struct fuzz_call *c, const void *p, size_t size)
{
	struct fuzz_pool *pool = c->t->pool;
	uint32_t i = fuzz_below(c->t, FUZZ_MAPS);
	uint8_t *to = pool->window + i * FUZZ_WINDOW;

	if (pool->mapped[i] < size || pwrite(pool->scratch, p, size, 0) != (ssize_t)size ||
	    pread(pool->scratch, to, size, 0) != (ssize_t)size)
		return (uintptr_t)p;
	/* Another thread may unmap it before the call. */
	c->wild = true;
	return (uintptr_t)to;
}

/** fuzz_make_submit() - a submit of one job or a few, rarely of DRM_RIVULET_MAX_JOBS */
void fuzz_make_submit(struct fuzz_call *c)
{
	struct drm_rivulet_submit *s = &c->arg->submit;
	struct fuzz_arrays *a = c->t->arrays;
	uint32_t stride = sizeof(struct drm_rivulet_job);

	s->count = fuzz_percent(c->t, 80) ? 1 : 2 + fuzz_below(c->t, 3);
	if (fuzz_percent(c->t, 1))
		s->count = DRM_RIVULET_MAX_JOBS;
	if (fuzz_percent(c->t, 5))
		stride += 8 * (1 + fuzz_below(c->t, 20));
	s->stride = stride;
	memset(a->jobs, 0, (size_t)s->count * stride);
	for (uint32_t i = 0; i < s->count; i++)
		make_job(c, (void *)(a->jobs + (size_t)i * stride), i % 4);
	s->queue = c->t->pool->queue[c->file][fuzz_below(c->t, FUZZ_QUEUES)];
	s->jobs = (uintptr_t)a->jobs;
	if (s->count == 1 && fuzz_percent(c->t, 3))
		s->jobs = into_mapping(c, a->jobs, stride);
	fuzz_chunk(c, s, sizeof(*s), 1);
}

/** fuzz_fix_submit() - a mutated stride or count makes the call read jobs of earlier calls */
void fuzz_fix_submit(struct fuzz_call *c)
{
	c->wild |= c->arg->submit.count > 1;
}

/* SPDX-License-Identifier: MIT */
/*
 * A compute core under test: 1 MiB of memory behind slot 1 (read-write), the command stream behind
 * slot 0 (read only), a builder for programs, and a small seeded generator.
 */
#ifndef RVL_TEST_NPU_RIG_H
#define RVL_TEST_NPU_RIG_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

#define RIG_MEM	    (1u << 20)
#define RIG_CODE    (1u << 16)	   /* instructions */
#define RIG_CODE_AT 0x100000000ull /* bus addresses */
#define RIG_MEM_AT  0x200000000ull

struct rig {
	struct rivulet_board board;
	struct rvl_core *core;
	struct rvl_bus bus;
	struct rvl_job job;
	struct rivulet_status status;
	struct rivulet_config config; /* after the instructions put so far */
	struct rivulet_insn *code;
	uint32_t count;
	uint8_t *mem;
	uint64_t seed;
};

static inline void *rig_map(void *ctx, uint64_t addr, uint64_t len, bool write)
{
	struct rig *g = ctx;

	if (addr >= RIG_MEM_AT && len <= RIG_MEM && addr - RIG_MEM_AT <= RIG_MEM - len)
		return g->mem + (addr - RIG_MEM_AT);
	if (write || addr < RIG_CODE_AT || len > RIG_CODE * 16 ||
	    addr - RIG_CODE_AT > RIG_CODE * 16 - len)
		return NULL;
	return (uint8_t *)g->code + (addr - RIG_CODE_AT);
}

static inline struct rivulet_board rig_board(uint32_t tm, uint32_t tn, uint32_t dn)
{
	return (struct rivulet_board){
		.name = "bench",
		.tm = tm,
		.tn = tn,
		.dn = dn,
		.inp_bytes = 16384 * (tn / 4),
		.wgt_bytes = 65536,
		.acc_bytes = 32768 * (tm / 4),
		.port_bytes = 16,
		.mem_latency = 64,
		RIVULET_BOARD_COST_KEYS(RIVULET_BOARD_COST_INIT)
		.queue_depth = 16,
		.modes = 1 << RIVULET_MODE_DENSE | 1 << RIVULET_MODE_SPARSE |
			 1 << RIVULET_MODE_BINARY | 1 << RIVULET_MODE_BITPLANE |
			 1 << RIVULET_MODE_STOCHASTIC | 1 << RIVULET_MODE_TAPS,
		.stream = { 1, 4, 1000, 1, 1000, 1, 1000, 1, 1000, 1, 1000, 1, 1000, 1 },
		.cycle_cap = 1024,
		.levels = 1,
	};
}

static inline void rig_reset(struct rig *g)
{
	struct rivulet_region *r = g->job.regions.region;

	memset(&g->job, 0, sizeof(g->job));
	memset(&g->config, 0, sizeof(g->config));
	g->count = 0;
	g->job.regions.bus = &g->bus;
	r[0] = (struct rivulet_region){ .addr = RIG_CODE_AT,
					.limit = RIG_CODE * 16,
					.flags = RIVULET_REGION_VALID };
	r[1] = (struct rivulet_region){ .addr = RIG_MEM_AT,
					.limit = RIG_MEM,
					.flags = RIVULET_REGION_VALID | RIVULET_REGION_WRITE };
}

static inline void rig_open(struct rig *g, struct rivulet_board b)
{
	memset(g, 0, sizeof(*g));
	g->board = b;
	g->bus = (struct rvl_bus){ .map = rig_map, .ctx = g };
	g->core = rvl_core_new(&g->board);
	g->code = calloc(RIG_CODE, sizeof(*g->code));
	g->mem = calloc(1, RIG_MEM);
	g->seed = 1;
	ck_assert(g->core && g->code && g->mem);
	rig_reset(g);
}

static inline void rig_close(struct rig *g)
{
	rvl_core_free(g->core);
	free(g->code);
	free(g->mem);
}

/** rig_put() - append an instruction; the fields must fit */
static inline void rig_put(struct rig *g, struct rivulet_decoded d)
{
	const char *bad = "";

	ck_assert_uint_lt(g->count, RIG_CODE);
	if (rivulet_encode(&d, &g->code[g->count], &bad))
		ck_abort_msg("%s: field %s does not fit", rivulet_form_table(d.form)->name, bad);
	g->count++;
	rivulet_config_set(&g->config, &d);
}

/*
 * PUT(rig, load, .mem = ..., ...): appends an instruction of any form. The form implies the queue
 * of a CFG.
 */
#define PUT(g_, form_, ...)                                                                        \
	rig_put(g_, (struct rivulet_decoded){ .form = RIVULET_FORM_##form_,                        \
					      .form_ = { __VA_ARGS__ } })

static inline void rig_end(struct rig *g)
{
	PUT(g, sync, .kind = RIVULET_SYNC_END);
}

/** rig_asm() - append one line of assembler text */
static inline void rig_asm(struct rig *g, const char *line)
{
	char err[128];

	ck_assert_uint_lt(g->count, RIG_CODE);
	if (rivulet_assemble(line, &g->code[g->count], err, sizeof(err)) != 1)
		ck_abort_msg("\"%s\": %s", line, err);
	g->count++;
}

/** rig_run() - run the instructions put since the last reset; returns the fault code */
static inline int rig_run(struct rig *g)
{
	g->job.variant = (struct rivulet_variant){ .length = g->count * 16 };
	memset(&g->status, 0, sizeof(g->status));
	rvl_core_run(g->core, &g->job, &g->status);
	return g->status.fault;
}

/* xorshift64* from the rig's seed */
static inline uint32_t rig_random(struct rig *g)
{
	g->seed ^= g->seed >> 12;
	g->seed ^= g->seed << 25;
	g->seed ^= g->seed >> 27;
	return (g->seed * 0x2545f4914f6cdd1dull) >> 32;
}

/** rig_pick() - a random number in lo..hi, both inclusive */
static inline int64_t rig_pick(struct rig *g, int64_t lo, int64_t hi)
{
	return lo + rig_random(g) % (uint64_t)(hi - lo + 1);
}

static inline void rig_noise(struct rig *g, void *p, size_t n)
{
	uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		b[i] = rig_random(g);
}

/** rig_fill() - random bytes in all scratchpads and in memory */
static inline void rig_fill(struct rig *g)
{
	rig_noise(g, g->core->inp, g->board.inp_bytes);
	rig_noise(g, g->core->wgt, g->board.wgt_bytes);
	rig_noise(g, g->core->acc, g->board.acc_bytes);
	rig_noise(g, g->mem, RIG_MEM);
}

#endif

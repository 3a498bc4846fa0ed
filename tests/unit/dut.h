/* SPDX-License-Identifier: MIT */
/*
 * A device under test: the whole model behind its register window, one MiB of bus memory at a bus
 * address other than 0, a clock that advances only when the test moves it, and a minimal driver.
 */
#ifndef RVL_TESTS_DUT_H
#define RVL_TESTS_DUT_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "rivulet_crc32c.h"

#define DUT_MEM 0x100000u
#define DUT_BUS 0x40000000ull	/* bus address of mem[0] */
/* Entry 1 is 0xffffffff and entry 2 is 0, so that tests cross the wrap. */
#define DUT_BASE 0xfffffffeu

/* Offsets in memory. */
enum {
	DUT_DESC = 0x1000,	/* descriptor of entry n at DUT_DESC + n * 0x400 */
	DUT_STATUS = 0x8000,	/* status of entry n at DUT_STATUS + n * 0x100 */
	DUT_CODE = 0x10000,	/* commands of entry n at DUT_CODE + n * 0x1000 */
	DUT_LIST = 0x30000,	/* page lists */
	DUT_DATA = 0x40000,	/* buffers */
	DUT_VICTIM = 0x80000,	/* to the end: memory of another client */
};

struct dut {
	_Alignas(4096) uint32_t window[RVL_WINDOW_WORDS];
	uint8_t *mem;
	struct rivulet_sim *sim;
	uint64_t now;
	unsigned int irqs;
	/* numbers of the last requests: reset, abort, resume, level, hold */
	uint32_t rq[5];
	uint32_t base;
};

/* The memory decodes only 40 address bits, so a higher address is an alias of a lower one. */
#define DUT_DMA_BITS 40

static inline void *dut_map(void *ctx, uint64_t addr, uint64_t len, bool write)
{
	struct dut *t = ctx;

	(void)write;
	addr &= (1ull << DUT_DMA_BITS) - 1;
	if (addr < DUT_BUS || addr - DUT_BUS > DUT_MEM || len > DUT_MEM - (addr - DUT_BUS))
		return NULL;
	return t->mem + (addr - DUT_BUS);
}

static inline void dut_irq(void *ctx)
{
	((struct dut *)ctx)->irqs++;
}

static inline uint64_t dut_now(void *ctx)
{
	return ((struct dut *)ctx)->now;
}

static inline uint32_t dut_rd(struct dut *t, uint32_t reg)
{
	return t->window[reg / 4];
}

static inline void dut_wr(struct dut *t, uint32_t reg, uint32_t value)
{
	t->window[reg / 4] = value;
}

static inline uint64_t dut_look(struct dut *t)
{
	return rivulet_sim_step(t->sim);
}

/* Writes the value and then the number of a request; @reg is the REQ register of the request. */
static inline void dut_request(struct dut *t, uint32_t req, uint32_t value)
{
	dut_wr(t, req - 4, value);
	dut_wr(t, req, dut_rd(t, req) + 1);
}

static inline void dut_reset(struct dut *t, uint32_t base)
{
	t->base = base;
	dut_wr(t, RIVULET_REG_SLOT0_SEQ, base);
	dut_wr(t, RIVULET_REG_SLOT1_SEQ, base);
	dut_request(t, RIVULET_REG_RESET_REQ, base);
	dut_look(t);
}

static inline void dut_board(struct rivulet_board *b, bool real)
{
	char err[200];

	if (rivulet_board_load(b, "zu3eg-64", err, sizeof(err)))
		abort();
	b->pace_real = real;
}

/* Returns a device that is powered on and reset, with interrupts enabled. */
static inline struct dut *dut_open(bool real)
{
	struct dut *t = aligned_alloc(4096, (sizeof(*t) + 4095) / 4096 * 4096);
	struct rivulet_sim_ops ops = { .bus = { .map = dut_map, .ctx = t }, .irq = dut_irq,
				       .now = dut_now, .ctx = t };
	struct rivulet_board b;

	memset(t, 0, sizeof(*t));
	t->now = 1000000000;
	t->mem = calloc(1, DUT_MEM);
	dut_board(&b, real);
	t->sim = rivulet_sim_new(&b, t->window, &ops);
	dut_wr(t, RIVULET_REG_IRQ_ENABLE, 1);
	dut_reset(t, DUT_BASE);
	t->irqs = 0;
	return t;
}

static inline void dut_close(struct dut *t)
{
	rivulet_sim_free(t->sim);
	free(t->mem);
	free(t);
}

static inline struct rivulet_desc *dut_desc(struct dut *t, uint32_t n)
{
	return (struct rivulet_desc *)(t->mem + DUT_DESC + n * 0x400);
}

static inline struct rivulet_status *dut_status(struct dut *t, uint32_t n)
{
	return (struct rivulet_status *)(t->mem + DUT_STATUS + n * 0x100);
}

static inline void dut_seal(struct rivulet_desc *d)
{
	d->crc = rivulet_crc32c(0, d, offsetof(struct rivulet_desc, crc));
}

/* Sets a slot to a span of memory at offset @at. */
static inline void dut_region(struct rivulet_desc *d, int slot, uint32_t at, uint64_t limit,
			      uint32_t flags)
{
	d->region[slot] = (struct rivulet_region){ .addr = DUT_BUS + at, .limit = limit,
						   .flags = RIVULET_REGION_VALID | flags };
}

/* Assembles the program of entry @n. '\n' or ';' separates lines. Returns the size in bytes. */
static inline uint32_t dut_program(struct dut *t, uint32_t n, const char *text)
{
	struct rivulet_insn *out = (struct rivulet_insn *)(t->mem + DUT_CODE + n * 0x1000);
	char *copy = strdup(text), *next = copy, *line, err[200];
	uint32_t count = 0;

	while ((line = strsep(&next, "\n;"))) {
		int r = rivulet_assemble(line, &out[count], err, sizeof(err));

		if (r < 0) {
			fprintf(stderr, "%s: %s\n", line, err);
			abort();
		}
		count += r;
	}
	free(copy);
	return count * RIVULET_INSN_BYTES;
}

/* Makes entry @n of client @client: program @text in slot 0, 64 KiB of data (rw) in slot 1. */
static inline struct rivulet_desc *dut_job(struct dut *t, uint32_t n, const char *text,
					   uint32_t client)
{
	struct rivulet_desc *d = dut_desc(t, n);
	uint32_t len = dut_program(t, n, text);

	memset(d, 0, sizeof(*d));
	memset(dut_status(t, n), 0, sizeof(struct rivulet_status));
	d->magic = RIVULET_DESC_MAGIC;
	d->size = sizeof(*d);
	d->seq = t->base + n;
	d->client = client;
	d->flags = RIVULET_DESC_IRQ;
	d->report_slot = RIVULET_NO_SLOT;
	d->status = DUT_BUS + DUT_STATUS + n * 0x100;
	for (uint32_t l = 0; l < t->sim->board.levels; l++)
		d->variant[l] = (struct rivulet_variant){ .length = len };
	dut_region(d, 0, DUT_CODE + n * 0x1000, 0x1000, 0);
	dut_region(d, 1, DUT_DATA, 0x10000, RIVULET_REGION_WRITE);
	dut_seal(d);
	return d;
}

static inline void dut_fill_addr(struct dut *t, uint32_t n)
{
	uint32_t at = (t->base + n) & 1 ? RIVULET_REG_SLOT1_ADDR_LO : RIVULET_REG_SLOT0_ADDR_LO;

	dut_wr(t, at, DUT_BUS + DUT_DESC + n * 0x400);
	dut_wr(t, at + 4, (DUT_BUS + DUT_DESC + n * 0x400) >> 32);
}

static inline void dut_fill_seq(struct dut *t, uint32_t n)
{
	uint32_t at = (t->base + n) & 1 ? RIVULET_REG_SLOT1_SEQ : RIVULET_REG_SLOT0_SEQ;

	dut_wr(t, at, t->base + n);
}

static inline void dut_submit(struct dut *t, uint32_t n)
{
	dut_fill_addr(t, n);
	dut_fill_seq(t, n);
}

/* Moves the clock and steps the device until nothing is due. */
static inline void dut_settle(struct dut *t)
{
	uint64_t due;

	while ((due = dut_look(t)) != UINT64_MAX)
		t->now += due;
}

static inline bool dut_sealed(const struct rivulet_status *st)
{
	return rivulet_crc32c(0, st, offsetof(struct rivulet_status, crc)) == st->crc;
}

/* Programs. */
#define DUT_END "load sync kind=1\n"

#endif

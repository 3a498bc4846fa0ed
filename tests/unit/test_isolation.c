// SPDX-License-Identifier: MIT
/*
 * The isolation guarantees G1..G11 of docs/device.md 7, attacked through the register window. Entry
 * 1 is the attacker's; entry 2, queued behind it, is another client's. After each attack the fault
 * must have the expected slot and offset, all memory of others must be unchanged, and after RESUME
 * the other client's job must be correct.
 */
#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "chance.h"
#include "dut.h"
#include "worker.h"

#define ATTACKER 1
#define OTHER 2
#define OTHER_DATA 0x60000u
#define DATA_BYTES 0x10000u
#define ANY 0xffff		/* any fault, or none: only memory and the other job are checked */

#define COPY                                                                                       \
	"load load slot=1 rows=1 cols=16 blks=1 push=store\n"                                      \
	"store store slot=1 offset=4096 rows=1 cols=16 blks=1 pop=load\n" DUT_END

struct attack {
	const char *name;
	const char *program;
	void (*change)(struct dut *t, struct rivulet_desc *d);
	uint32_t fault;
	uint32_t slot;
	uint64_t offset;
	bool own_code;		/* the attacker may write its command buffer */
};

static unsigned int attacks, escapes;

/*
 * Fills memory with varying odd bytes, so that a write outside its region changes at least one
 * byte.
 */
static void fill_memory(struct dut *t)
{
	for (uint32_t i = 0; i < DUT_MEM; i++)
		t->mem[i] = (i * 2654435761u >> 24) | 1;
}

static void make_other(struct dut *t)
{
	struct rivulet_desc *d = dut_job(t, 2, COPY, OTHER);

	dut_region(d, 1, OTHER_DATA, DATA_BYTES, RIVULET_REGION_WRITE);
	dut_seal(d);
}

static bool may_change(const struct attack *a, uint32_t at)
{
	uint32_t code = DUT_CODE + 0x1000, status = DUT_STATUS + 0x100;

	return (at >= DUT_DATA && at < DUT_DATA + DATA_BYTES) ||
	       (at >= status && at < status + sizeof(struct rivulet_status)) ||
	       (a->own_code && at >= code && at < code + 0x1000);
}

static int changed_bytes(struct dut *t, const struct attack *a, const uint8_t *before)
{
	int changed = 0;

	for (uint32_t i = 0; i < DUT_MEM; i++)
		changed += t->mem[i] != before[i] && !may_change(a, i);
	return changed;
}

/* Returns what is wrong with the reported fault, or NULL. */
static const char *wrong_fault(struct dut *t, const struct attack *a)
{
	const struct rivulet_status *st = dut_status(t, 1);

	if (a->fault == ANY)
		return NULL;
	if (dut_rd(t, RIVULET_REG_FROZEN) != 1 ||
	    dut_rd(t, RIVULET_REG_FROZEN_SEQ) != t->base + 1)
		return "not frozen";
	if (dut_rd(t, RIVULET_REG_FROZEN_FAULT) != a->fault)
		return "another fault";
	if (a->fault >= RIVULET_FAULT_DESC_BUS && a->fault <= RIVULET_FAULT_DESC_FIELD)
		return NULL;
	if (!dut_sealed(st) || st->state != RIVULET_STATE_FAULT || st->fault != a->fault)
		return "another status";
	if (st->fault_slot != a->slot || st->fault_offset != a->offset)
		return "another slot or offset";
	return NULL;
}

static bool other_is_correct(struct dut *t)
{
	const uint8_t *data = t->mem + OTHER_DATA;
	const struct rivulet_status *st = dut_status(t, 2);

	return dut_sealed(st) && st->state == RIVULET_STATE_DONE && !memcmp(data, data + 4096, 256);
}

/* Resumes, lets the other client's job run, and counts the outcome of the attack. */
static void judge(struct dut *t, const struct attack *a, int changed)
{
	const char *wrong = wrong_fault(t, a);
	const struct rivulet_status *st = dut_status(t, 1);

	dut_request(t, RIVULET_REG_RESUME_REQ, dut_rd(t, RIVULET_REG_FROZEN_SEQ));
	dut_settle(t);
	if (changed)
		wrong = "memory of others changed";
	else if (!other_is_correct(t))
		wrong = "the next job is not right";
	attacks++;
	escapes += wrong != NULL;
	ck_assert_msg(!wrong, "%s: %s (fault %u, slot %u, offset 0x%llx)", a->name, wrong,
		      dut_rd(t, RIVULET_REG_FROZEN_FAULT), st->fault_slot,
		      (unsigned long long)st->fault_offset);
}

static void run_attack(const struct attack *a)
{
	struct dut *t = dut_open(false);
	uint8_t *before = malloc(DUT_MEM);
	struct rivulet_desc *d;
	int changed;

	fill_memory(t);
	d = dut_job(t, 1, a->program ? a->program : COPY, ATTACKER);
	make_other(t);
	if (a->change)
		a->change(t, d);
	memcpy(before, t->mem, DUT_MEM);
	dut_submit(t, 1);
	/*
	 * Where the attack may end without a fault, the other job must not start before memory was
	 * compared.
	 */
	if (a->fault != ANY)
		dut_submit(t, 2);
	dut_settle(t);
	changed = changed_bytes(t, a, before);
	dut_submit(t, 2);
	dut_settle(t);
	judge(t, a, changed);
	free(before);
	dut_close(t);
}

/* Changes of descriptors. A client cannot make all of them, but a kernel with an error could. */

static void variant(struct rivulet_desc *d, uint32_t slot, uint64_t offset, uint32_t length)
{
	for (int i = 0; i < 4; i++)
		d->variant[i] = (struct rivulet_variant){ offset, length, slot };
	dut_seal(d);
}

static void fetch_behind(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	variant(d, 0, 0x1000, 64);
}

static void fetch_across(struct dut *t, struct rivulet_desc *d)
{
	/* all but the last instruction are inside */
	memcpy(t->mem + DUT_CODE + 0x1ff0, t->mem + DUT_CODE + 0x1000, 16);
	variant(d, 0, 0xff0, 32);
}

static void fetch_wraps(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	variant(d, 0, 0xfffffffffffffff0, 64);
}

static void fetch_odd_offset(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	variant(d, 0, 8, 48);
}

static void fetch_odd_length(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	variant(d, 0, 0, 40);
}

static void fetch_unused_slot(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	variant(d, 9, 0, 48);
}

static void fetch_outside_memory(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->region[0].addr = 0x1000;
	dut_seal(d);
}

static void span_outside(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->region[1].addr = DUT_BUS + DUT_MEM;
	dut_seal(d);
}

static void span_across_end(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->region[1].addr = DUT_BUS + DUT_MEM - 16;
	dut_seal(d);
}

static void span_wraps(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->region[1].addr = 0xfffffffffffffff0;
	d->region[1].limit = UINT64_MAX;
	dut_seal(d);
}

static void span_page_zero(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->region[1].addr = 0;
	dut_seal(d);
}

/* Slot 1 as a list of four pages of its data, entry @bad replaced by @page. */
static void list(struct dut *t, struct rivulet_desc *d, int bad, uint64_t page)
{
	uint64_t *pages = (uint64_t *)(t->mem + DUT_LIST);

	for (int i = 0; i < 4; i++)
		pages[i] = DUT_BUS + DUT_DATA + i * 4096;
	if (bad >= 0)
		pages[bad] = page;
	d->region[1] = (struct rivulet_region){ DUT_BUS + DUT_LIST, 4 * 4096, 0,
						RIVULET_REGION_VALID | RIVULET_REGION_WRITE |
							RIVULET_REGION_LIST };
	dut_seal(d);
}

static void span_above_width(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->region[1].addr += 1ull << DUT_DMA_BITS;
	dut_seal(d);
}

static void list_page_above_width(struct dut *t, struct rivulet_desc *d)
{
	list(t, d, 1, DUT_BUS + DUT_DATA + (1ull << DUT_DMA_BITS));
}

static void status_above_width(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->status += 1ull << DUT_DMA_BITS;
	dut_seal(d);
}

static void list_page_outside(struct dut *t, struct rivulet_desc *d)
{
	list(t, d, 1, DUT_BUS + DUT_MEM);
}

static void list_page_zero(struct dut *t, struct rivulet_desc *d)
{
	list(t, d, 1, 0);
}

static void list_page_odd(struct dut *t, struct rivulet_desc *d)
{
	list(t, d, 1, DUT_BUS + DUT_VICTIM + 8);
}

static void list_page_wraps(struct dut *t, struct rivulet_desc *d)
{
	list(t, d, 1, 0xfffffffffffff000);
}

static void list_limit(struct dut *t, struct rivulet_desc *d)
{
	/* the page behind the last one of the list would be the victim's */
	list(t, d, -1, 0);
	((uint64_t *)(t->mem + DUT_LIST))[4] = DUT_BUS + DUT_VICTIM;
}

static void list_outside(struct dut *t, struct rivulet_desc *d)
{
	list(t, d, -1, 0);
	d->region[1].addr = DUT_BUS + DUT_MEM;
	dut_seal(d);
}

static void list_across_end(struct dut *t, struct rivulet_desc *d)
{
	list(t, d, -1, 0);
	memcpy(t->mem + DUT_MEM - 8, t->mem + DUT_LIST, 8);
	d->region[1].addr = DUT_BUS + DUT_MEM - 8;
	dut_seal(d);
}

static void list_wraps(struct dut *t, struct rivulet_desc *d)
{
	list(t, d, -1, 0);
	d->region[1].addr = 0xfffffffffffffff8;
	d->region[1].limit = UINT64_MAX;
	dut_seal(d);
}

static void report(struct rivulet_desc *d, uint32_t slot, uint64_t offset)
{
	d->report_slot = slot;
	d->report_offset = offset;
	dut_seal(d);
}

static void report_read_only(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	report(d, 0, 0x800);
}

static void report_unused(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	report(d, 7, 0);
}

static void report_limit(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	report(d, 1, DATA_BYTES - 152);
}

static void report_wraps(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	report(d, 1, 0xfffffffffffffff8);
}

static void report_outside(struct dut *t, struct rivulet_desc *d)
{
	list(t, d, 2, DUT_BUS + DUT_MEM);
	report(d, 1, 2 * 4096 - 80);
}

static void self_writable(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->region[0].flags |= RIVULET_REGION_WRITE;
	dut_seal(d);
}

/* An earlier job of the attacker had a slot 2, and a later job of the other client has one. */
static void stale_slot(struct dut *t, struct rivulet_desc *d)
{
	struct rivulet_desc *first = dut_job(t, 1, COPY, ATTACKER), *other = dut_desc(t, 2);

	dut_region(first, 2, DUT_VICTIM, DATA_BYTES, RIVULET_REGION_WRITE);
	dut_seal(first);
	dut_submit(t, 1);
	dut_settle(t);
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_DONE);
	t->base++;
	dut_job(t, 1, "store store slot=2 rows=1 cols=1 blks=1\n" DUT_END, ATTACKER);
	other->seq = t->base + 2;
	dut_region(other, 2, OTHER_DATA, DATA_BYTES, RIVULET_REGION_WRITE);
	dut_seal(other);
	(void)d;
}

/*
 * The driver widens the region after the device has taken the entry, which must not affect the
 * device's copy.
 */
static void changed_later(struct dut *t, struct rivulet_desc *d)
{
	dut_program(t, 1, "store store slot=1 offset=65536 rows=1 cols=1 blks=1\n" DUT_END);
	for (int i = 0; i < 4; i++)
		d->variant[i].length = 32;
	dut_seal(d);
	dut_request(t, RIVULET_REG_HOLD_REQ, 1);
	dut_look(t);
	dut_submit(t, 1);
	dut_look(t);
	d->region[1].limit *= 8;
	dut_seal(d);
	dut_request(t, RIVULET_REG_HOLD_REQ, 0);
}

static void damaged(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->region[1].limit++;
}

static void status_outside(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->status = DUT_BUS + DUT_MEM - 128;
	dut_seal(d);
}

static void status_page_zero(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->status = 0;
	dut_seal(d);
}

static void status_odd(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->status += 8;
	dut_seal(d);
}

static void invalid_not_zero(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->region[5].addr = DUT_BUS + DUT_VICTIM;
	dut_seal(d);
}

static void slot_of_variant(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	variant(d, 16, 0, 48);
}

static void seq_of_other_entry(struct dut *t, struct rivulet_desc *d)
{
	(void)t;
	d->seq++;
	dut_seal(d);
}

#define S(name, fault, slot, offset, text)                                                         \
	{ name, text DUT_END, NULL, RIVULET_FAULT_##fault, slot, offset, 0 }
#define D(change, fault, slot, offset)                                                             \
	{ #change, NULL, change, RIVULET_FAULT_##fault, slot, offset, 0 }
#define NONE RIVULET_NO_SLOT

static const struct attack list_of_attacks[] = {
	/* G1, G2: offsets */
	S("LOAD behind the end", SLOT_LIMIT, 1, 65536,
	  "load load slot=1 offset=65536 rows=1 cols=1 blks=1\n"),
	S("LOAD across the end", SLOT_LIMIT, 1, 65528,
	  "load load slot=1 offset=65528 rows=1 cols=1 blks=1\n"),
	S("LOAD far away", SLOT_LIMIT, 1, 0xfffffffff,
	  "load load slot=1 offset=68719476735 rows=1 cols=1 blks=1\n"),
	S("LOAD WGT behind the end", SLOT_LIMIT, 1, 65536,
	  "load load mem=1 slot=1 offset=65536 rows=1 cols=1 blks=1\n"),
	S("LOAD ACC across the end", SLOT_LIMIT, 1, 65504,
	  "load load mem=2 slot=1 offset=65504 rows=1 cols=1 blks=1\n"),
	S("STORE behind the end", SLOT_LIMIT, 1, 65536,
	  "store store slot=1 offset=65536 rows=1 cols=1 blks=1\n"),
	S("STORE across the end", SLOT_LIMIT, 1, 65528,
	  "store store slot=1 offset=65528 rows=1 cols=1 blks=1\n"),
	S("STORE far away", SLOT_LIMIT, 1, 0xfffffffff,
	  "store store slot=1 offset=68719476735 rows=1 cols=1 blks=1\n"),
	S("STORE ACC behind the end", SLOT_LIMIT, 1, 65536,
	  "store store mem=2 slot=1 offset=65536 rows=1 cols=1 blks=1\n"),
	/* G1, G2: pitches */
	S("LOAD huge row pitch", SLOT_LIMIT, 1, 0xffffffff,
	  "load l_src row_pitch=4294967295\nload load slot=1 rows=2 cols=1 blks=1\n"),
	S("LOAD huge block pitch", SLOT_LIMIT, 1, 0xfffffff0,
	  "load l_src blk_pitch=4294967280\nload load slot=1 rows=1 cols=1 blks=2\n"),
	S("LOAD planar, huge plane pitch", SLOT_LIMIT, 1, 0xfffffff0,
	  "load l_chan channels=2\nload l_src ch_pitch=4294967280\n"
	  "load load slot=1 kind=1 rows=1 cols=1 blks=1\n"),
	S("LOAD interleaved, huge pixel pitch", SLOT_LIMIT, 1, 0xfffffff0,
	  "load l_chan channels=16\nload l_src ch_pitch=4294967280\n"
	  "load load slot=1 kind=2 rows=1 cols=2 blks=1\n"),
	S("LOAD gather, huge plane pitch", SLOT_LIMIT, 1, 0xfffffff0,
	  "load l_gather kh=1 kw=1 sy=1 sx=1 dy=1 dx=1 ch=2\nload l_bounds rows=1 cols=1\n"
	  "load l_src ch_pitch=4294967280\nload load slot=1 kind=3 rows=1 cols=1 blks=1\n"),
	S("STORE huge row pitch", SLOT_LIMIT, 1, 0xffffffff,
	  "store s_dst row_pitch=4294967295\nstore store slot=1 rows=2 cols=1 blks=1\n"),
	S("STORE row pitch into the victim", SLOT_LIMIT, 1, 0x40000,
	  "store s_dst row_pitch=262144\nstore store slot=1 rows=2 cols=1 blks=1\n"),
	S("STORE block pitch into the victim", SLOT_LIMIT, 1, 0x40000,
	  "store s_dst blk_pitch=262144\nstore store slot=1 rows=1 cols=1 blks=2\n"),
	S("STORE planar into the victim", SLOT_LIMIT, 1, 0x40000,
	  "store s_chan channels=2\nstore s_dst ch_pitch=262144\n"
	  "store store slot=1 kind=1 rows=1 cols=1 blks=1\n"),
	S("STORE interleaved into the victim", SLOT_LIMIT, 1, 0x40000,
	  "store s_chan channels=16\nstore s_dst ch_pitch=262144\n"
	  "store store slot=1 kind=2 rows=1 cols=2 blks=1\n"),
	S("PROF record behind the end", SLOT_LIMIT, 1, 65520,
	  "load q_prof slot=1 offset=65520 limit=4\nload sync prof=1\n"),
	D(span_wraps, SLOT_WRAP, 1, 0),
	{ "list_wraps", "load load slot=1 offset=4096 rows=1 cols=1 blks=1\n" DUT_END, list_wraps,
	  RIVULET_FAULT_SLOT_WRAP, 1, 4096, 0 },
	/* G3 */
	S("STORE through a read-only slot", SLOT_WRITE, 0, 0x800,
	  "store store slot=0 offset=2048 rows=1 cols=1 blks=1\n"),
	S("STORE planar, read only", SLOT_WRITE, 0, 0,
	  "store s_chan channels=1\nstore store slot=0 kind=1 rows=1 cols=1 blks=1\n"),
	S("STORE interleaved, read only", SLOT_WRITE, 0, 0,
	  "store s_chan channels=1\nstore store slot=0 kind=2 rows=1 cols=1 blks=1\n"),
	S("PROF through a read-only slot", SLOT_WRITE, 0, 0,
	  "load q_prof slot=0 limit=4\nload sync prof=1\n"),
	/* G4 */
	S("LOAD from an unused slot", SLOT_INVALID, 2, 0,
	  "load load slot=2 rows=1 cols=1 blks=1\n"),
	S("STORE to an unused slot", SLOT_INVALID, 15, 16,
	  "store store slot=15 offset=16 rows=1 cols=1 blks=1\n"),
	S("PROF to an unused slot", SLOT_INVALID, 3, 0,
	  "alu q_prof slot=3 limit=1\nalu sync prof=1\n"),
	D(stale_slot, SLOT_INVALID, 2, 0),
	/* G5 */
	D(changed_later, SLOT_LIMIT, 1, 65536),
	D(damaged, DESC_CRC, NONE, 0),
	D(invalid_not_zero, DESC_FIELD, NONE, 0),
	D(slot_of_variant, DESC_FIELD, NONE, 0),
	D(seq_of_other_entry, DESC_FIELD, NONE, 0),
	{ "a program that overwrites itself",
	  "load load slot=1 offset=128 rows=16 cols=16 blks=1 push=store\n"
	  "store store slot=0 rows=1 cols=256 blks=1 pop=load push=load\n"
	  "load sync pop=store\n" DUT_END, self_writable, ANY, 0, 0, true },
	/* G6 */
	D(fetch_behind, FETCH, 0, 0x1000),
	D(fetch_across, FETCH, 0, 0x1000),
	D(fetch_wraps, FETCH, 0, 0xfffffffffffffff0),
	D(fetch_odd_offset, FETCH, 0, 8),
	D(fetch_odd_length, FETCH, 0, 0),
	D(fetch_unused_slot, FETCH, 9, 0),
	D(fetch_outside_memory, FETCH, 0, 0),
	/* G7 */
	D(span_outside, SLOT_BUS, 1, 0),
	D(span_across_end, SLOT_BUS, 1, 0),
	D(span_page_zero, SLOT_BUS, 1, 0),
	D(span_above_width, SLOT_BUS, 1, 0),
	D(list_page_above_width, SLOT_BUS, 1, 4096),
	D(status_above_width, DESC_BUS, NONE, 0),
	D(list_page_outside, SLOT_BUS, 1, 4096),
	D(list_page_zero, SLOT_BUS, 1, 4096),
	D(list_page_odd, SLOT_BUS, 1, 4096),
	D(list_page_wraps, SLOT_BUS, 1, 4096),
	D(list_outside, SLOT_BUS, 1, 0),
	D(list_across_end, SLOT_BUS, 1, 4096),
	{ "STORE behind the pages of a list",
	  "store store slot=1 offset=16384 rows=1 cols=1 blks=1\n" DUT_END,
	  list_limit, RIVULET_FAULT_SLOT_LIMIT, 1, 16384, 0 },
	D(status_outside, DESC_BUS, NONE, 0),
	D(status_page_zero, DESC_BUS, NONE, 0),
	D(status_odd, DESC_BUS, NONE, 0),
	/* G8 */
	D(report_read_only, REPORT, 0, 0x800),
	D(report_unused, REPORT, 7, 0),
	D(report_limit, REPORT, 1, DATA_BYTES - 152),
	D(report_wraps, REPORT, 1, 0xfffffffffffffff8),
	D(report_outside, REPORT, 1, 8192),
	/* G11 */
	{ "wait for a token that never comes", "load sync pop=store\n" DUT_END, NULL,
	  RIVULET_FAULT_DEADLOCK, NONE, 0, 0 },
	{ "a program without an end", "load sync\n", NULL, RIVULET_FAULT_NO_END, NONE, 0, 0 },
	S("more cycles than the cap", ENDLESS, NONE, 0,
	  "conv c_kernel kh=31 kw=31 sy=1 sx=1 dy=1 dx=1\n"
	  "conv conv rows=4095 cols=4095 icb=4095 ocb=1023\n"),
	S("outside the scratchpad", SPAD, NONE, 0,
	  "load load slot=1 addr=65535 rows=1 cols=2 blks=1\n"),
	S("a mode that is not there", MODE, NONE, 0,
	  "conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1\nconv conv mode=4 rows=1 cols=1 icb=1 "
	  "ocb=1\n"),
	S("a reserved bit", RESERVED, NONE, 0, ".insn 0x8000000000000006 0x0\n"),
	S("no such instruction", OPCODE, NONE, 0, ".insn 0xf 0x0\n"),
};

#define LISTED (sizeof(list_of_attacks) / sizeof(list_of_attacks[0]))

START_TEST(test_listed_attack)
{
	run_attack(&list_of_attacks[_i]);
}
END_TEST

/* Addresses from which the device must not read a descriptor. */
static const uint64_t bad_addresses[] = {
	0, 64, DUT_BUS - 64, DUT_BUS + DUT_MEM, DUT_BUS + DUT_MEM - 512, DUT_BUS + DUT_DESC + 8,
	0xffffffffffffffc0, 0xfffffffffffffdc0, 1ull << 63,
	(1ull << DUT_DMA_BITS) + DUT_BUS + DUT_DESC,
};

START_TEST(test_descriptor_outside_memory)
{
	struct attack a = { .name = "descriptor outside memory", .fault = RIVULET_FAULT_DESC_BUS };
	struct dut *t = dut_open(false);
	uint32_t at = RIVULET_REG_SLOT0_ADDR_LO + ((t->base + 1) & 1) * 16;
	uint8_t *before = malloc(DUT_MEM);
	int changed;

	fill_memory(t);
	make_other(t);
	dut_wr(t, at, bad_addresses[_i]);
	dut_wr(t, at + 4, bad_addresses[_i] >> 32);
	memcpy(before, t->mem, DUT_MEM);
	dut_fill_seq(t, 1);
	dut_settle(t);
	changed = changed_bytes(t, &a, before);
	dut_submit(t, 2);
	dut_settle(t);
	judge(t, &a, changed);
	free(before);
	dut_close(t);
}
END_TEST

/*
 * G9: one client leaves data in every scratchpad. Another client reads INP and ACC by STORE, and
 * WGT by a CONV of ones. The first pass, with the same client tag, shows that the attack would find
 * the data.
 */
#define PLANT                                                                                      \
	"load load slot=1 rows=1 cols=64 blks=1\nload load mem=1 slot=1 rows=1 cols=64 blks=1\n"   \
	"load load mem=2 slot=1 rows=1 cols=64 blks=1\n"                                           \
	"load l_pad top=3 left=2\nstore s_dst row_pitch=64\nconv c_pad value=77\n" DUT_END
#define STEAL                                                                                      \
	"store store slot=1 offset=8192 rows=1 cols=64 blks=1 push=load\n"                         \
	"store store mem=2 slot=1 offset=12288 rows=1 cols=64 blks=1 push=conv\n"                  \
	"load load slot=1 addr=1000 offset=4096 rows=1 cols=1 blks=1 pop=store push=conv\n"        \
	"conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1\nconv c_input rows=1 cols=1\n"                \
	"conv conv inp=1000 acc=1000 rows=1 cols=1 icb=1 ocb=1 pop=load,store push=store\n"        \
	"store store mem=2 addr=1000 slot=1 offset=32768 rows=1 cols=1 blks=1 pop=conv\n" DUT_END

static int leftover(struct dut *t)
{
	const uint8_t *data = t->mem + DUT_DATA;
	int found = 0;

	for (int i = 0; i < 1024; i++)
		found += data[8192 + i] != 0;
	for (int i = 0; i < 4096; i++)
		found += data[12288 + i] != 0;
	for (int i = 0; i < 64; i++)
		found += data[32768 + i] != 0;
	return found;
}

/* Runs PLANT as client 1 and STEAL as client @thief. Returns the number of bytes found. */
static int plant_and_steal(uint32_t thief, bool reset)
{
	struct dut *t = dut_open(false);
	int found;

	memset(t->mem + DUT_DATA, 0x55, 4096);
	memset(t->mem + DUT_DATA + 4096, 1, 4096);
	memset(t->mem + DUT_DATA + 8192, 0xee, 0x8000);
	dut_job(t, 1, PLANT, 1);
	dut_job(t, 2, STEAL, thief);
	dut_submit(t, 1);
	if (reset) {
		dut_settle(t);
		dut_reset(t, t->base + 1);
		dut_job(t, 1, STEAL, thief);
		dut_submit(t, 1);
	} else {
		dut_submit(t, 2);
	}
	dut_settle(t);
	ck_assert_uint_eq(dut_status(t, reset ? 1 : 2)->state, RIVULET_STATE_DONE);
	found = leftover(t);
	dut_close(t);
	return found;
}

START_TEST(test_scratchpad_leftovers)
{
	int same = plant_and_steal(1, false), other = plant_and_steal(2, false);
	int after_reset = plant_and_steal(1, true);

	/* 16 sums of 16 times 0x55, of which two bytes each are not zero */
	ck_assert_int_eq(same, 1024 + 4096 + 32);
	attacks += 2;
	escapes += (other != 0) + (after_reset != 0);
	ck_assert_int_eq(other, 0);
	ck_assert_int_eq(after_reset, 0);
}
END_TEST

/* G9: the configuration of an earlier job has no effect, not even on a job of the same client. */
START_TEST(test_configuration_leftovers)
{
	struct dut *t = dut_open(false);
	bool right;

	fill_memory(t);
	dut_job(t, 1, PLANT, ATTACKER);
	make_other(t);
	dut_desc(t, 2)->client = ATTACKER;
	dut_seal(dut_desc(t, 2));
	dut_submit(t, 1);
	dut_submit(t, 2);
	dut_settle(t);
	right = other_is_correct(t);
	attacks++;
	escapes += !right;
	ck_assert(right);
	dut_close(t);
}
END_TEST

/*
 * G10: a long program that stores runs in a thread. Once its ABORT or RESET is acknowledged, the
 * buffer keeps what its next owner writes.
 */
static void long_job(struct dut *t)
{
	struct rivulet_insn *code = (struct rivulet_insn *)(t->mem + DUT_VICTIM);
	struct rivulet_desc *d = dut_job(t, 1, DUT_END, ATTACKER);
	const uint32_t n = 0x70000 / 16;
	char err[100];

	for (uint32_t i = 0; i < n - 1; i++)
		ck_assert_int_eq(rivulet_assemble("store store slot=1 rows=16 cols=256 blks=1",
						  &code[i], err, sizeof(err)), 1);
	rivulet_assemble("load sync kind=1", &code[n - 1], err, sizeof(err));
	dut_region(d, 0, DUT_VICTIM, 0x70000, 0);
	variant(d, 0, 0, 0x70000);
}

/* Blocks the core in one of its stores until the device asks it to stop, however late that is. */
static void *map_until_stopped(void *ctx, uint64_t addr, uint64_t len, bool write)
{
	struct dut *t = ctx;

	while (write && atomic_load(&t->sim->insns) >= 100 && !atomic_load(&t->sim->exec.abort))
		sched_yield();
	return dut_map(ctx, addr, len, write);
}

static void attack_after_ack(bool reset)
{
	struct dut *t = dut_open(false);
	struct rvl_runner runner = { .start = rvl_worker_start };
	struct rvl_worker w;
	bool clean = true;

	ck_assert_int_eq(rvl_worker_open(&w), 0);
	runner.ctx = &w;
	rvl_device_run_by(t->sim, &runner);
	t->sim->ops.bus.map = map_until_stopped;
	long_job(t);
	dut_submit(t, 1);
	dut_look(t);
	while (atomic_load(&t->sim->insns) < 100)
		usleep(100);
	if (reset)
		dut_reset(t, t->base + 1);
	else
		dut_request(t, RIVULET_REG_ABORT_REQ, t->base + 1);
	while (dut_rd(t, RIVULET_REG_ABORT_ACK) != dut_rd(t, RIVULET_REG_ABORT_REQ) ||
	       dut_rd(t, RIVULET_REG_RESET_ACK) != dut_rd(t, RIVULET_REG_RESET_REQ))
		dut_look(t);
	memset(t->mem + DUT_DATA, 0xaa, DATA_BYTES);
	usleep(30000);
	for (uint32_t i = 0; i < DATA_BYTES; i++)
		clean &= t->mem[DUT_DATA + i] == 0xaa;
	attacks++;
	escapes += !clean;
	ck_assert(clean);
	ck_assert_uint_lt(atomic_load(&t->sim->insns), 0x70000 / 16 - 1);
	rvl_worker_close(&w);
	dut_close(t);
}

START_TEST(test_no_access_after_acknowledge)
{
	attack_after_ack(false);
	attack_after_ack(true);
}
END_TEST

/* G11: random programs, which must not affect other clients, whatever they do. */
static void random_program(struct dut *t, struct rivulet_desc *d)
{
	uint64_t seed = 0x9e3779b97f4a7c15u * (attacks + 1);
	struct rivulet_insn *code = (struct rivulet_insn *)(t->mem + DUT_CODE + 0x1000);

	for (int i = 0; i < 63; i++) {
		uint64_t r = xorshift(&seed);

		/*
		 * a valid opcode for its queue, and often small counts, so that some programs run
		 * long
		 */
		code[i].w[0] = (xorshift(&seed) & ~0x7fffull) | (r % 6 + 1) | (r >> 8 & 3) << 4;
		code[i].w[1] = xorshift(&seed) & (r & 0x10000 ? 0x0010040100401fffull : ~0ull);
	}
	memset(&code[63], 0, 16);
	code[63].w[0] = 6 | 1 << 16;
	variant(d, 0, 0, 64 * 16);
}

START_TEST(test_random_programs)
{
	struct attack a = { .name = "random program", .change = random_program, .fault = ANY };

	for (int i = 0; i < 200; i++)
		run_attack(&a);
}
END_TEST

static Suite *isolation_suite(void)
{
	Suite *s = suite_create("isolation");
	TCase *tc = tcase_create("attacks");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, test_listed_attack, 0, LISTED);
	tcase_add_loop_test(tc, test_descriptor_outside_memory, 0,
			    sizeof(bad_addresses) / sizeof(bad_addresses[0]));
	tcase_add_test(tc, test_scratchpad_leftovers);
	tcase_add_test(tc, test_configuration_leftovers);
	tcase_add_test(tc, test_no_access_after_acknowledge);
	tcase_add_test(tc, test_random_programs);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(isolation_suite());
	int failed;

	/* One process, so that the figures count all tests. */
	srunner_set_fork_status(r, CK_NOFORK);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	printf("figure isolation.attacks %u attacks\n", attacks);
	printf("figure isolation.escapes %u attacks\n", escapes);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

// SPDX-License-Identifier: MIT
/*
 * The device around its queue: identity, descriptors, status, order of writes, time, counters,
 * injections.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "dut.h"
#include "suite.h"

#define COPY                                                                                       \
	"load load slot=1 rows=1 cols=64 blks=1 push=store\n"                                      \
	"store store slot=1 offset=4096 rows=1 cols=64 blks=1 pop=load\n" DUT_END

static struct dut *t;

static void setup_fast(void)
{
	t = dut_open(false);
}

static void setup_real(void)
{
	t = dut_open(true);
}

static void teardown(void)
{
	dut_close(t);
}

static uint64_t counter(size_t offset)
{
	return *(uint64_t *)((char *)t->window + RIVULET_REG_COUNTERS + offset);
}

#define COUNTER(name) counter(offsetof(struct rivulet_counters, name))

static void run_one(uint32_t n)
{
	dut_job(t, n, COPY, 1);
	dut_submit(t, n);
	dut_settle(t);
	ck_assert_uint_eq(dut_status(t, n)->state, RIVULET_STATE_DONE);
}

START_TEST(test_identity)
{
	uint32_t id[3] = { RIVULET_MAGIC, RIVULET_DEV_VERSION, RIVULET_WINDOW_SIZE };
	const struct rivulet_board *b = &t->sim->board;
	const struct rivulet_level *l = (void *)((char *)t->window + RIVULET_REG_LEVEL_TABLE);

	ck_assert(!memcmp(t->window, id, sizeof(id)));
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_ID_CRC), rivulet_crc32c(0, id, sizeof(id)));
	ck_assert_str_eq((char *)t->window + RIVULET_REG_NAME, "zu3eg-64");
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_DOORBELL_PEER), RIVULET_NO_PEER);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_TM), b->tm);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_TN), b->tn);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_DN), b->dn);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_INP_BYTES), b->inp_bytes);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_WGT_BYTES), b->wgt_bytes);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_ACC_BYTES), b->acc_bytes);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_PORT_BYTES), b->port_bytes);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_MEM_LATENCY), b->mem_latency);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_BURST_BYTES), b->burst_bytes);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_BURST_GAP), b->burst_gap);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_BURSTS), b->bursts);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_ROW_BYTES), b->row_bytes);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_ALU_LANES), b->alu_lanes);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_QUEUE_DEPTH), b->queue_depth);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_MODES), b->modes);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_CYCLE_CAP), b->cycle_cap);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_DMA_BITS), b->dma_bits);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_ISA_VERSION), RIVULET_ISA_VERSION);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_FLAGS), RIVULET_FLAG_SENSOR);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_LEVEL_COUNT), 4);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_LEVEL_CUR), 3);
	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_uint_eq(l[i].hz_lo | (uint64_t)l[i].hz_hi << 32, b->level[i].hz);
		ck_assert_uint_eq(l[i].microvolt, b->level[i].microvolt);
		ck_assert_uint_eq(l[i].fj_per_mac, b->level[i].fj_per_mac);
		ck_assert_uint_eq(l[i].fj_per_byte, b->level[i].fj_per_byte);
		ck_assert_uint_eq(l[i].static_uw, b->level[i].static_uw);
	}
}
END_TEST

START_TEST(test_status_of_a_job)
{
	const struct rivulet_status *st = dut_status(t, 1);
	const struct rivulet_board_level *l = &t->sim->board.level[3];
	struct rivulet_work w = { .bytes = 2048 + 3 * 16 };

	for (int i = 0; i < 1024; i++)
		t->mem[DUT_DATA + i] = i * 7;
	run_one(1);
	ck_assert(!memcmp(t->mem + DUT_DATA, t->mem + DUT_DATA + 4096, 1024));
	ck_assert(dut_sealed(st));
	ck_assert_uint_eq(st->seq, t->base + 1);
	ck_assert(st->fault == 0 && st->fault_slot == RIVULET_NO_SLOT && st->insn == 3);
	ck_assert(st->level == 3 && st->variant == 3);
	ck_assert(st->read_bytes == 1024 + 3 * 16 && st->write_bytes == 1024 && st->macs == 0);
	/* two transfers of 64 beats, each with the latency, and fetch */
	ck_assert(st->cycles >= 2 * (64 + 64) && st->cycles < 400);
	ck_assert_uint_eq(st->end - st->start, st->cycles * 1000000000 / l->hz);
	w.cycles = st->cycles;
	ck_assert_uint_eq(st->energy, rivulet_board_energy_pj(&t->sim->board, 3, &w));
	ck_assert_uint_eq(COUNTER(jobs), 1);
	ck_assert_uint_eq(COUNTER(cycles), st->cycles);
	ck_assert_uint_eq(COUNTER(energy), st->energy);
	ck_assert_uint_eq(COUNTER(busy), st->end - st->start);
	ck_assert_uint_eq(COUNTER(time), st->end);
	ck_assert_uint_eq(COUNTER(irqs), 2);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_COUNT_SEQ) % 2, 0);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_PROGRESS), 3);
}
END_TEST

START_TEST(test_each_level_has_its_variant)
{
	static const char *const marks[] = { "11", "22", "33", "44" };
	struct rivulet_desc *d;
	char text[300];

	for (uint32_t level = 0; level < 4; level++) {
		memset(t->mem + DUT_DATA + 4096, 0, 16);
		d = dut_job(t, level + 1, DUT_END, 1);
		for (int v = 0; v < 4; v++) {
			memset(t->mem + DUT_DATA + 16 * v, atoi(marks[v]), 16);
			sprintf(text,
				"load load slot=1 offset=%d rows=1 cols=1 blks=1 push=store\n",
				16 * v);
			strcat(text,
			       "store store slot=1 offset=4096 rows=1 cols=1 blks=1 pop=load\n");
			strcat(text, DUT_END);
			dut_program(t, v + 8, text);
			d->variant[v] = (struct rivulet_variant){ 0x1000 * v, 48, 0 };
		}
		dut_region(d, 0, DUT_CODE + 0x8000, 0x4000, 0);
		dut_seal(d);
		dut_request(t, RIVULET_REG_LEVEL_REQ, level);
		dut_submit(t, level + 1);
		dut_settle(t);
		ck_assert_uint_eq(t->mem[DUT_DATA + 4096], atoi(marks[level]));
		ck_assert_uint_eq(dut_status(t, level + 1)->level, level);
	}
}
END_TEST

START_TEST(test_report_copy)
{
	struct rivulet_desc *d = dut_job(t, 1, COPY, 1);
	const struct rivulet_status *copy = (const void *)(t->mem + DUT_DATA + 0x3008);

	d->report_slot = 1;
	d->report_offset = 0x3008;
	dut_seal(d);
	dut_submit(t, 1);
	dut_settle(t);
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_DONE);
	/* The copy must not reveal how many jobs the device has run. */
	ck_assert_uint_eq(copy->seq, 0);
	ck_assert_uint_ne(dut_status(t, 1)->seq, 0);
	ck_assert(dut_sealed(copy));
	ck_assert(!memcmp(&copy->state, &dut_status(t, 1)->state,
			  offsetof(struct rivulet_status, crc) -
				  offsetof(struct rivulet_status, state)));
	/* A failed report copy does not replace the program's own fault. */
	d = dut_job(t, 2, "load load slot=3 rows=1 cols=1 blks=1\n" DUT_END, 1);
	d->report_slot = 9;
	dut_seal(d);
	dut_submit(t, 2);
	dut_settle(t);
	ck_assert_uint_eq(dut_status(t, 2)->fault, RIVULET_FAULT_SLOT_INVALID);
	ck_assert_uint_eq(dut_status(t, 2)->fault_slot, 3);
}
END_TEST

/* Breaks each check of docs/device.md 3.1 by the smallest change. */
struct field {
	uint32_t offset, value, fault;
};

#define AT(member) offsetof(struct rivulet_desc, member)
static const struct field bad_fields[] = {
	{ AT(magic), 0, RIVULET_FAULT_DESC_FIELD },
	{ AT(size), 575, RIVULET_FAULT_DESC_FIELD },
	{ AT(seq), 77, RIVULET_FAULT_DESC_FIELD },
	{ AT(flags), 2, RIVULET_FAULT_DESC_FIELD },
	{ AT(min_level), 4, RIVULET_FAULT_DESC_FIELD },
	{ AT(report_slot), 16, RIVULET_FAULT_DESC_FIELD },
	{ AT(rsvd), 1, RIVULET_FAULT_DESC_FIELD },
	{ AT(report_offset), 8, RIVULET_FAULT_DESC_FIELD },
	{ AT(status), DUT_STATUS + 4, RIVULET_FAULT_DESC_BUS },
	{ AT(status) + 4, 0xffff, RIVULET_FAULT_DESC_BUS },
	{ AT(variant[0].slot), 16, RIVULET_FAULT_DESC_FIELD },
	{ AT(variant[4].length), 16, RIVULET_FAULT_DESC_FIELD },
	{ AT(region[0].flags), 8, RIVULET_FAULT_DESC_FIELD },
	{ AT(region[0].first), 1, RIVULET_FAULT_DESC_FIELD },
	{ AT(region[5].addr), 1, RIVULET_FAULT_DESC_FIELD },
	{ AT(region[5].limit), 1, RIVULET_FAULT_DESC_FIELD },
	{ AT(region[5].first), 1, RIVULET_FAULT_DESC_FIELD },
	{ AT(region[5].flags), 2, RIVULET_FAULT_DESC_FIELD },
	{ AT(rsvd2[2]), 1, RIVULET_FAULT_DESC_FIELD },
	{ AT(crc), 0, RIVULET_FAULT_DESC_CRC },
};

#define BAD_FIELDS (sizeof(bad_fields) / sizeof(bad_fields[0]))

START_TEST(test_bad_field)
{
	const struct field *f = &bad_fields[_i];
	struct rivulet_desc *d = dut_job(t, 1, COPY, 1);

	*(uint32_t *)((char *)d + f->offset) = f->value;
	if (f->fault != RIVULET_FAULT_DESC_CRC)
		dut_seal(d);
	memset(dut_status(t, 1), 0xee, sizeof(struct rivulet_status));
	dut_submit(t, 1);
	dut_settle(t);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_FROZEN), 1);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_FROZEN_FAULT), f->fault);
	ck_assert_uint_eq(dut_status(t, 1)->state, 0xeeeeeeee);
	ck_assert_uint_eq(t->sim->started, 0);
	ck_assert_uint_eq(COUNTER(faults), 1);
}
END_TEST

/*
 * The list needs an 8-byte aligned address, but its first byte may be anywhere in the first page.
 */
START_TEST(test_list_fields)
{
	struct rivulet_desc *d = dut_job(t, 1, COPY, 1);
	uint64_t *pages = (uint64_t *)(t->mem + DUT_LIST);

	for (int i = 0; i < 4; i++)
		pages[i] = DUT_BUS + DUT_DATA + (3 - i) * 4096;
	d->region[1] = (struct rivulet_region){ DUT_BUS + DUT_LIST, 0x2800, 4095,
						RIVULET_REGION_VALID | RIVULET_REGION_WRITE |
							RIVULET_REGION_LIST };
	dut_seal(d);
	/* the last byte of page 0, then page 1; the copy starts at byte 4095 of page 1 */
	for (int i = 0; i < 4096 * 4; i++)
		t->mem[DUT_DATA + i] = i * 31 >> 3;
	dut_submit(t, 1);
	dut_settle(t);
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_DONE);
	ck_assert_uint_eq(t->mem[DUT_DATA + 2 * 4096 + 4095], t->mem[DUT_DATA + 3 * 4096 + 4095]);
	ck_assert(!memcmp(t->mem + DUT_DATA + 4096, t->mem + DUT_DATA + 2 * 4096, 1023));
	d = dut_job(t, 2, COPY, 1);
	d->region[1] = (struct rivulet_region){ DUT_BUS + DUT_LIST + 4, 0x2800, 0,
						RIVULET_REGION_VALID | RIVULET_REGION_LIST };
	dut_seal(d);
	dut_submit(t, 2);
	dut_settle(t);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_FROZEN_FAULT), RIVULET_FAULT_DESC_FIELD);
}
END_TEST

/* Registers that the device wrote, in order, as the window shows them (docs/device.md 2.1). */
static char order[4000];

static void record(void *ctx, uint32_t reg, uint32_t value)
{
	char *end = order + strlen(order);

	(void)ctx;
	(void)value;
	if (reg == RIVULET_REG_DONE_SEQ && value == t->base + 1)
		ck_assert(dut_sealed(dut_status(t, 1)) && dut_status(t, 1)->state);
	sprintf(end, "%s%03x", *order ? " " : "", reg);
}

START_TEST(test_order_of_writes)
{
	t->sim->window.trace = record;
	dut_job(t, 1, COPY, 1);
	dut_job(t, 2, "load load slot=3 rows=1 cols=1 blks=1\n" DUT_END, 1);
	dut_submit(t, 1);
	dut_look(t);
	ck_assert_str_eq(order, "804");
	*order = 0;
	dut_submit(t, 2);
	dut_request(t, RIVULET_REG_LEVEL_REQ, 1);
	t->now = t->sim->t.due;
	dut_look(t);
	/* level, its acknowledge, CURRENT_SEQ of the next, DONE_SEQ */
	ck_assert_str_eq(order, "824 820 804 800");
	*order = 0;
	dut_settle(t);
	ck_assert_str_eq(order, "834 80c 808 800");
	*order = 0;
	dut_request(t, RIVULET_REG_RESUME_REQ, dut_rd(t, RIVULET_REG_FROZEN_SEQ));
	dut_request(t, RIVULET_REG_HOLD_REQ, 1);
	dut_look(t);
	ck_assert_str_eq(order, "808 81c 82c 828");
	*order = 0;
	dut_reset(t, 100);
	ck_assert_str_eq(order, "808 804 800 014 810");
}
END_TEST

START_TEST(test_interrupts_only_when_wanted)
{
	struct rivulet_desc *d;

	run_one(1);
	ck_assert_uint_eq(t->irqs, 1);
	d = dut_job(t, 2, COPY, 1);
	d->flags = 0;
	dut_seal(d);
	dut_submit(t, 2);
	dut_settle(t);
	ck_assert_uint_eq(t->irqs, 1);
	dut_wr(t, RIVULET_REG_IRQ_ENABLE, 0);
	run_one(3);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_DONE_SEQ), t->base + 3);
	ck_assert_uint_eq(t->irqs, 1);
	dut_wr(t, RIVULET_REG_IRQ_ENABLE, 1);
	d = dut_job(t, 4, ".insn 0xf 0x0\n" DUT_END, 1);
	d->flags = 0;
	dut_seal(d);
	dut_submit(t, 4);
	dut_settle(t);
	ck_assert_msg(t->irqs == 2, "a freeze interrupts whatever the descriptor says");
}
END_TEST

/*
 * A driver fills a slot before the entry in it has retired. The device has taken that entry and
 * takes the new one later.
 */
START_TEST(test_no_more_than_two_are_taken)
{
	dut_request(t, RIVULET_REG_HOLD_REQ, 1);
	dut_look(t);
	for (uint32_t n = 1; n <= 3; n++) {
		dut_job(t, n, COPY, 1);
		dut_submit(t, n);
		dut_look(t);
	}
	ck_assert_uint_eq(t->sim->queue.taken, t->base + 2);
	dut_request(t, RIVULET_REG_HOLD_REQ, 0);
	dut_settle(t);
	for (uint32_t n = 1; n <= 3; n++)
		ck_assert_uint_eq(dut_status(t, n)->state, RIVULET_STATE_DONE);
}
END_TEST

/* pace=real */

START_TEST(test_real_time_is_waited_for)
{
	const struct rivulet_status *st = dut_status(t, 1), *next = dut_status(t, 2);
	uint64_t due, began = t->now;

	dut_job(t, 1, COPY, 1);
	dut_job(t, 2, COPY, 1);
	dut_submit(t, 1);
	due = dut_look(t);
	dut_submit(t, 2);
	ck_assert(due > 0 && due < 20000000);
	t->now += due - 1;
	ck_assert_uint_eq(dut_look(t), 1);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_DONE_SEQ), t->base);
	/* The end is noticed 5 us late. The next entry starts at the end all the same. */
	t->now += 1 + 5000;
	dut_look(t);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_DONE_SEQ), t->base + 2);
	ck_assert_uint_eq(st->start, began - t->sim->power_on);
	ck_assert_uint_eq(st->end - st->start, due);
	ck_assert_uint_eq(next->start, st->end);
	ck_assert_uint_eq(COUNTER(overruns), 1);
}
END_TEST

START_TEST(test_idle_costs_static_energy)
{
	const struct rivulet_board_level *l = t->sim->board.level;
	uint64_t before, after;

	dut_look(t);
	before = COUNTER(energy);
	t->now += 1000000000;
	dut_request(t, RIVULET_REG_LEVEL_REQ, 0);
	dut_look(t);
	after = COUNTER(energy);
	/* 1 s: one microjoule per microwatt */
	ck_assert_uint_eq(after - before, (uint64_t)l[3].static_uw * 1000000);
	t->now += 1000000000;
	dut_look(t);
	ck_assert_uint_eq(COUNTER(energy) - after, (uint64_t)l[0].static_uw * 1000000);
	/*
	 * While the device is held, from the request to the release, its clock is gated and it uses
	 * no static power.
	 */
	after = COUNTER(energy);
	dut_request(t, RIVULET_REG_HOLD_REQ, 1);
	dut_look(t);
	t->now += 1000000000;
	dut_request(t, RIVULET_REG_HOLD_REQ, 0);
	dut_look(t);
	ck_assert_uint_eq(COUNTER(energy), after);
	t->now += 1000000000;
	dut_look(t);
	ck_assert_uint_eq(COUNTER(energy) - after, (uint64_t)l[0].static_uw * 1000000);
	ck_assert_uint_eq(COUNTER(busy), 0);
}
END_TEST

/* 4095 x 16 x 4 cycles per row, long enough that a step sees the job running. */
#define LONG                                                                                       \
	"conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1\n"                                            \
	"conv conv rows=64 cols=64 icb=500 ocb=1\n" DUT_END

START_TEST(test_progress_and_busy_while_waiting)
{
	uint32_t progress;
	uint64_t busy;

	dut_job(t, 1, LONG, 1);
	dut_submit(t, 1);
	dut_look(t);
	progress = dut_rd(t, RIVULET_REG_PROGRESS);
	busy = COUNTER(busy);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_DONE_SEQ), t->base);
	t->now += 10000000;
	dut_look(t);
	ck_assert_uint_gt(dut_rd(t, RIVULET_REG_PROGRESS), progress);
	ck_assert_uint_eq(COUNTER(busy) - busy, 10000000);
	dut_settle(t);
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_DONE);
	ck_assert_uint_eq(COUNTER(busy), dut_status(t, 1)->end - dut_status(t, 1)->start);
}
END_TEST

START_TEST(test_aborted_takes_the_time_that_passed)
{
	const struct rivulet_status *st = dut_status(t, 1);

	dut_job(t, 1, LONG, 1);
	dut_submit(t, 1);
	dut_look(t);
	t->now += 3000000;
	dut_request(t, RIVULET_REG_ABORT_REQ, t->base + 1);
	dut_look(t);
	ck_assert_uint_eq(st->state, RIVULET_STATE_ABORTED);
	ck_assert_uint_eq(st->end - st->start, 3000000);
	ck_assert_uint_eq(st->cycles, 999999);
}
END_TEST

/* Injections, on which the driver's tests rely. */

static void inject(const char *spec)
{
	char err[200];

	ck_assert_int_eq(rvl_inject_add(&t->sim->inject, spec, t->sim->started, err, sizeof(err)),
			 0);
}

static void submit(uint32_t n)
{
	dut_job(t, n, COPY, 1);
	dut_submit(t, n);
	dut_settle(t);
}

START_TEST(test_inject_hang)
{
	inject("hang@1");
	submit(1);
	t->now += 10000000000;
	ck_assert_uint_eq(dut_look(t), UINT64_MAX);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_CURRENT_SEQ), t->base + 1);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_DONE_SEQ), t->base);
	dut_request(t, RIVULET_REG_ABORT_REQ, t->base + 1);
	dut_look(t);
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_ABORTED);
}
END_TEST

START_TEST(test_inject_stuck)
{
	inject("stuck@+1");
	submit(1);
	dut_request(t, RIVULET_REG_ABORT_REQ, t->base + 1);
	dut_look(t);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_ABORT_ACK), 0);
	dut_reset(t, t->base + 1);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_RESET_ACK), 2);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_ABORT_ACK), 1);
	run_one(1);
}
END_TEST

START_TEST(test_inject_dead)
{
	inject("dead@1");
	submit(1);
	dut_reset(t, t->base + 1);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_RESET_ACK), 1);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_MAGIC), RIVULET_MAGIC);
}
END_TEST

START_TEST(test_inject_allones)
{
	inject("allones@2");
	run_one(1);
	submit(2);
	for (uint32_t i = 0; i < RVL_WINDOW_WORDS; i++)
		ck_assert_uint_eq(t->window[i], UINT32_MAX);
	ck_assert_uint_eq(t->irqs, 1);
	ck_assert_uint_eq(dut_look(t), UINT64_MAX);
}
END_TEST

START_TEST(test_inject_interrupts)
{
	inject("lost-irq@1,dup_irq@2");
	submit(1);
	ck_assert_uint_eq(t->irqs, 0);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_DONE_SEQ), t->base + 1);
	submit(2);
	ck_assert_uint_eq(t->irqs, 2);
	submit(3);
	ck_assert_uint_eq(t->irqs, 3);
}
END_TEST

START_TEST(test_inject_status)
{
	inject("corrupt-status@1,internal@2");
	submit(1);
	ck_assert(!dut_sealed(dut_status(t, 1)));
	submit(2);
	ck_assert(dut_sealed(dut_status(t, 2)));
	ck_assert_uint_eq(dut_status(t, 2)->state, RIVULET_STATE_FAULT);
	ck_assert_uint_eq(dut_status(t, 2)->fault, RIVULET_FAULT_INTERNAL);
}
END_TEST

START_TEST(test_inject_slow)
{
	uint64_t began = t->now;

	inject("slow@1:700");
	dut_job(t, 1, COPY, 1);
	dut_submit(t, 1);
	dut_settle(t);
	ck_assert_uint_ge(t->now - began, 700000000);
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_DONE);
}
END_TEST

static bool copied(void)
{
	return !memcmp(t->mem + DUT_DATA, t->mem + DUT_DATA + 4096, 64);
}

/* The program writes after the driver's abort timeout, but before the acknowledge of RESET. */
START_TEST(test_inject_late_dma)
{
	inject("late_dma@1");
	t->mem[DUT_DATA] = 1;
	submit(1);
	t->now += 10000000000;
	dut_request(t, RIVULET_REG_ABORT_REQ, t->base + 1);
	dut_settle(t);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_ABORT_ACK), 0);
	ck_assert(!copied());
	dut_reset(t, t->base + 1);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_RESET_ACK), 2);
	ck_assert(copied());
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_NONE);
	run_one(1);
}
END_TEST

START_TEST(test_inject_lost_token)
{
	inject("lost-token@1");
	submit(1);
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_FAULT);
	ck_assert_uint_eq(dut_status(t, 1)->fault, RIVULET_FAULT_DEADLOCK);
	dut_request(t, RIVULET_REG_RESUME_REQ, t->base + 1);
	run_one(2);
}
END_TEST

/*
 * For every bit of the descriptor: the entry is refused, memory is unchanged, and the next entry
 * runs. An entry that is refused is no started job, so the next one has the number that it would
 * have had.
 */
START_TEST(test_inject_flip_desc)
{
	for (uint32_t bit = 0; bit < RVL_DESC_BITS; bit++) {
		char spec[40];

		snprintf(spec, sizeof(spec), "flip_desc@+1:%u", bit);
		inject(spec);
		t->mem[DUT_DATA] = (uint8_t)(bit + 1);
		submit(1);
		ck_assert_uint_eq(dut_rd(t, RIVULET_REG_DONE_SEQ), t->base + 1);
		ck_assert_uint_eq(dut_rd(t, RIVULET_REG_FROZEN_FAULT), RIVULET_FAULT_DESC_CRC);
		ck_assert(!copied());
		dut_request(t, RIVULET_REG_RESUME_REQ, t->base + 1);
		run_one(2);
		ck_assert(copied());
		ck_assert_uint_eq(t->sim->started, bit + 1);
		t->base += 2;
	}
}
END_TEST

/*
 * An injection for a client tag applies once, to that client's job, also behind another client's
 * job in the queue.
 */
START_TEST(test_inject_by_client)
{
	inject("internal@=7,flip-desc@=9:0,lost_irq@=5");
	dut_job(t, 1, COPY, 1);
	dut_job(t, 2, COPY, 7);
	dut_submit(t, 1);
	dut_submit(t, 2);
	dut_settle(t);
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_DONE);
	ck_assert_uint_eq(dut_status(t, 2)->fault, RIVULET_FAULT_INTERNAL);
	dut_request(t, RIVULET_REG_RESUME_REQ, t->base + 2);
	t->base += 2;
	dut_job(t, 1, COPY, 7);
	dut_job(t, 2, COPY, 9);
	dut_submit(t, 1);
	dut_submit(t, 2);
	dut_settle(t);
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_DONE);
	ck_assert_uint_eq(dut_rd(t, RIVULET_REG_FROZEN_FAULT), RIVULET_FAULT_DESC_CRC);
	dut_request(t, RIVULET_REG_RESUME_REQ, t->base + 2);
	t->base += 2;
	dut_job(t, 1, COPY, 9);
	dut_submit(t, 1);
	dut_settle(t);
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_DONE);
	/* Injections of past jobs are dropped. */
	t->base++;
	run_one(1);
	t->base++;
	run_one(1);
	inject("hang@+100");
	ck_assert_uint_eq(t->sim->inject.count, 2);
}
END_TEST

START_TEST(test_inject_refuses_nonsense)
{
	static const char *const bad[] = {
		"flip_desc@1", "flip_desc@1:4608", "hang@=", "hang@=x", "hang@+=1", "slow@=1",
		"",	  "hang",   "hang@",   "hang@0",  "hang@x",	      "hang@1:2",
		"hung@1", "slow@1", "slow@1:", "hang@1,", "hang@99999999999", "hang@1x"
	};
	struct rvl_inject in = { .count = 0 };
	char err[200] = "";

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_int_eq(rvl_inject_add(&in, bad[i], 0, err, sizeof(err)), -EINVAL);
		ck_assert_ptr_nonnull(strstr(err, "expected KIND@[+]JOB"));
		ck_assert_uint_eq(in.count, 0);
	}
	for (int i = 0; i < RVL_INJECT_MAX; i++)
		ck_assert_int_eq(rvl_inject_add(&in, "hang@1", 0, err, sizeof(err)), 0);
	ck_assert_int_eq(rvl_inject_add(&in, "hang@1", 0, err, sizeof(err)), -ENOSPC);
}
END_TEST

/* Whatever a driver writes, the device answers in bounded time and then serves a correct driver. */
START_TEST(test_any_driver_words)
{
	uint32_t seed = 1;

	for (int round = 0; round < 20000; round++) {
		seed = seed * 1664525 + 1013904223;
		dut_wr(t, 0x400 + (seed >> 8) % 20 * 4,
		       seed & 1 ? dut_rd(t, RIVULET_REG_DONE_SEQ) + (seed >> 20) % 4 : seed >> 16);
		if (seed >> 28 == 0)
			t->now += 100000;
		dut_look(t);
	}
	dut_wr(t, RIVULET_REG_IRQ_ENABLE, 1);
	dut_request(t, RIVULET_REG_HOLD_REQ, 0);
	dut_request(t, RIVULET_REG_LEVEL_REQ, 3);
	dut_reset(t, 1000);
	run_one(1);
}
END_TEST

START_TEST(test_slots_rewritten_under_the_device)
{
	dut_job(t, 1, LONG, 1);
	dut_submit(t, 1);
	dut_look(t);
	memset((char *)t->window + RIVULET_REG_SLOT0_ADDR_LO, 0xff, 0x20);
	memset(dut_desc(t, 1), 0, sizeof(struct rivulet_desc));
	dut_settle(t);
	ck_assert_uint_eq(dut_status(t, 1)->state, RIVULET_STATE_DONE);
}
END_TEST

/* rivulet_sim_run(), which bypasses the queue. */
START_TEST(test_run_without_queue)
{
	struct rivulet_desc *d = dut_job(t, 1, COPY, 1);
	struct rvl_job job = { .variant = d->variant[0] };
	struct rivulet_status st;

	memcpy(job.regions.region, d->region, sizeof(d->region));
	memset(t->mem + DUT_DATA, 9, 1024);
	rivulet_sim_run(t->sim, &job, 5, 1, &st);
	ck_assert(dut_sealed(&st) && st.state == RIVULET_STATE_DONE && st.level == 1);
	ck_assert_uint_eq(t->mem[DUT_DATA + 4096 + 1023], 9);
	ck_assert_uint_eq(st.end - st.start, st.cycles * 1000000000 / t->sim->board.level[1].hz);
	ck_assert_uint_gt(st.energy, 0);
	rivulet_sim_run(t->sim, &job, 5, 4, &st);
	ck_assert(dut_sealed(&st) && st.state == RIVULET_STATE_NO_VARIANT);
	job.variant.length = 0;
	rivulet_sim_run(t->sim, &job, 5, 1, &st);
	ck_assert_uint_eq(st.state, RIVULET_STATE_NO_VARIANT);
}
END_TEST

static void add_fast(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup_fast, teardown);
	tcase_add_test(tc, test_identity);
	tcase_add_test(tc, test_status_of_a_job);
	tcase_add_test(tc, test_each_level_has_its_variant);
	tcase_add_test(tc, test_report_copy);
	tcase_add_loop_test(tc, test_bad_field, 0, BAD_FIELDS);
	tcase_add_test(tc, test_list_fields);
	tcase_add_test(tc, test_interrupts_only_when_wanted);
	tcase_add_test(tc, test_no_more_than_two_are_taken);
	tcase_add_test(tc, test_inject_hang);
	tcase_add_test(tc, test_inject_stuck);
	tcase_add_test(tc, test_inject_dead);
	tcase_add_test(tc, test_inject_allones);
	tcase_add_test(tc, test_inject_interrupts);
	tcase_add_test(tc, test_inject_status);
	tcase_add_test(tc, test_inject_slow);
	tcase_add_test(tc, test_inject_late_dma);
	tcase_add_test(tc, test_inject_lost_token);
	tcase_add_test(tc, test_inject_flip_desc);
	tcase_add_test(tc, test_inject_by_client);
	tcase_add_test(tc, test_inject_refuses_nonsense);
	tcase_add_test(tc, test_run_without_queue);
}

static Suite *device_suite(void)
{
	Suite *s = suite_create("device");
	TCase *fast = tcase_create("fast"), *real = tcase_create("real");

	add_fast(fast);
	tcase_add_checked_fixture(real, setup_real, teardown);
	tcase_add_test(real, test_order_of_writes);
	tcase_add_test(real, test_real_time_is_waited_for);
	tcase_add_test(real, test_idle_costs_static_energy);
	tcase_add_test(real, test_progress_and_busy_while_waiting);
	tcase_add_test(real, test_aborted_takes_the_time_that_passed);
	tcase_add_test(real, test_any_driver_words);
	tcase_add_test(real, test_slots_rewritten_under_the_device);
	suite_add_tcase(s, fast);
	suite_add_tcase(s, real);
	return s;
}

int main(void)
{
	return run_suite(device_suite());
}

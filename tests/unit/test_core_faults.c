// SPDX-License-Identifier: MIT
/*
 * The faults that end a program: every fault code that an instruction can cause, with index, slot
 * and offset; attacks on the region table; and random streams, each of which must end with a
 * status.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "npu_rig.h"
#include "suite.h"

static struct rig rig;

static void setup(void)
{
	rig_open(&rig, rig_board(16, 16, 4));
}

static void teardown(void)
{
	rig_close(&rig);
}

/* Appends a store of one INP word to @slot at @offset. */
static void put_store(uint32_t slot, uint64_t offset)
{
	PUT(&rig, store, .mem = RIVULET_MEM_INP, .slot = slot, .offset = offset, .rows = 1,
	    .cols = 1, .blks = 1);
}

static void put_load(uint32_t slot, uint64_t offset, uint32_t cols)
{
	PUT(&rig, load, .mem = RIVULET_MEM_INP, .slot = slot, .offset = offset, .rows = 1,
	    .cols = cols, .blks = 1);
}

static void expect(int fault, uint32_t insn)
{
	ck_assert_int_eq(rig_run(&rig), fault);
	ck_assert_uint_eq(rig.status.insn, insn);
	ck_assert_uint_eq(rig.status.state, fault ? RIVULET_STATE_FAULT : RIVULET_STATE_DONE);
}

static void expect_at(int fault, uint32_t insn, uint32_t slot, uint64_t offset)
{
	expect(fault, insn);
	ck_assert_uint_eq(rig.status.fault_slot, slot);
	ck_assert_uint_eq(rig.status.fault_offset, offset);
}

START_TEST(done_has_no_fault)
{
	put_load(1, 0, 4);
	rig_end(&rig);
	expect(RIVULET_FAULT_NONE, 2);
	ck_assert_uint_eq(rig.status.fault_slot, RIVULET_NO_SLOT);
	ck_assert_uint_eq(rig.status.read_bytes, 64 + 2 * 16); /* the instructions too */
}
END_TEST

START_TEST(invalid_slot)
{
	rig_asm(&rig, "load sync");
	put_load(7, 0x40, 1);
	rig_end(&rig);
	expect_at(RIVULET_FAULT_SLOT_INVALID, 1, 7, 0x40);
}
END_TEST

START_TEST(beyond_limit)
{
	rig.job.regions.region[1].limit = 1000;
	put_load(1, 1000 - 15, 1);
	rig_end(&rig);
	expect_at(RIVULET_FAULT_SLOT_LIMIT, 0, 1, 985);
	rig_reset(&rig);
	rig.job.regions.region[1].limit = 1000;
	put_load(1, 1000 - 16, 1);
	rig_end(&rig);
	expect(RIVULET_FAULT_NONE, 2);
}
END_TEST

START_TEST(huge_stride)
{
	PUT(&rig, l_src, .row_pitch = UINT32_MAX, .blk_pitch = UINT32_MAX);
	PUT(&rig, l_dst, .row_pitch = 1, .blk_pitch = 2);
	PUT(&rig, load, .slot = 1, .offset = 32, .rows = 2, .cols = 1, .blks = 2);
	rig_end(&rig);
	expect_at(RIVULET_FAULT_SLOT_LIMIT, 2, 1, 32 + (uint64_t)UINT32_MAX);
}
END_TEST

START_TEST(write_to_read_only)
{
	uint8_t before[64];

	rig.job.regions.region[1].flags = RIVULET_REGION_VALID;
	memset(rig.mem, 0x5a, 64);
	memcpy(before, rig.mem, 64);
	put_store(1, 16);
	rig_end(&rig);
	expect_at(RIVULET_FAULT_SLOT_WRITE, 0, 1, 16);
	ck_assert_mem_eq(rig.mem, before, 64);
}
END_TEST

START_TEST(final_address_wraps)
{
	rig.job.regions.region[1] =
		(struct rivulet_region){ .addr = UINT64_MAX - 100,
					 .limit = UINT64_MAX,
					 .flags = RIVULET_REGION_VALID | RIVULET_REGION_WRITE };
	put_store(1, 4096);
	rig_end(&rig);
	expect_at(RIVULET_FAULT_SLOT_WRAP, 0, 1, 4096);
	rig_reset(&rig);
	rig.job.regions.region[1] =
		(struct rivulet_region){ .addr = UINT64_MAX - 8,
					 .limit = 1 << 20,
					 .flags = RIVULET_REGION_VALID | RIVULET_REGION_LIST };
	put_load(1, 8192, 1);
	rig_end(&rig);
	expect_at(RIVULET_FAULT_SLOT_WRAP, 0, 1, 8192);
}
END_TEST

START_TEST(span_outside_memory)
{
	rig.job.regions.region[1].addr = RIG_MEM_AT + RIG_MEM - 8;
	put_load(1, 0, 1);
	rig_end(&rig);
	expect_at(RIVULET_FAULT_SLOT_BUS, 0, 1, 0);
}
END_TEST

/*
 * Makes slot 2 a list of three pages: page 9, the page at @page1, and page 4. The list itself is in
 * the last page of memory.
 */
static void use_list(uint64_t page1)
{
	uint64_t list[3] = { RIG_MEM_AT + 9 * 4096, page1, RIG_MEM_AT + 4 * 4096 };

	memcpy(rig.mem + RIG_MEM - 4096, list, sizeof(list));
	rig.job.regions.region[2] =
		(struct rivulet_region){ .addr = RIG_MEM_AT + RIG_MEM - 4096,
					 .limit = 3 * 4096 - 100,
					 .first = 100,
					 .flags = RIVULET_REGION_VALID | RIVULET_REGION_WRITE |
						  RIVULET_REGION_LIST };
}

START_TEST(list_is_followed)
{
	use_list(RIG_MEM_AT + 3 * 4096);
	rig_noise(&rig, rig.core->inp, 16);
	put_store(2, 4096 - 100 - 5);
	put_load(2, 4096 - 100 - 5, 1);
	PUT(&rig, store, .addr = 0, .slot = 2, .offset = 8192 - 100 - 3, .rows = 1, .cols = 1,
	    .blks = 1);
	rig_end(&rig);
	expect(RIVULET_FAULT_NONE, 4);
	ck_assert_mem_eq(rig.mem + 10 * 4096 - 5, rig.core->inp, 5);
	ck_assert_mem_eq(rig.mem + 3 * 4096, rig.core->inp + 5, 11);
	ck_assert_mem_eq(rig.mem + 4 * 4096 - 3, rig.core->inp, 16);
}
END_TEST

/* A write over an invalid page must not change the valid page before it. */
START_TEST(list_with_bad_page)
{
	static const uint64_t bad[] = { 0, RIG_MEM_AT + 3 * 4096 + 8, UINT64_MAX - 4095 };

	for (int i = 0; i < 3; i++) {
		rig_reset(&rig);
		use_list(bad[i]);
		memset(rig.mem + 9 * 4096, 0x11, 4096);
		memset(rig.core->inp, 0x22, 16);
		put_store(2, 4096 - 100 - 5);
		rig_end(&rig);
		expect_at(RIVULET_FAULT_SLOT_BUS, 0, 2, 4096 - 100);
		ck_assert_uint_eq(rig.mem[10 * 4096 - 1], 0x11);
	}
}
END_TEST

START_TEST(list_outside_memory)
{
	use_list(0);
	rig.job.regions.region[2].addr = RIG_MEM_AT + RIG_MEM - 8;
	put_load(2, 5000, 1);
	rig_end(&rig);
	expect_at(RIVULET_FAULT_SLOT_BUS, 0, 2, 5000);
}
END_TEST

START_TEST(fetch_outside)
{
	rig.job.regions.region[0].limit = 3 * 16;
	for (int i = 0; i < 5; i++)
		rig_asm(&rig, "alu sync");
	rig_end(&rig);
	expect_at(RIVULET_FAULT_FETCH, 3, 0, 48);
}
END_TEST

START_TEST(fetch_misaligned)
{
	rig_end(&rig);
	rig.job.variant = (struct rivulet_variant){ .offset = 8, .length = 16 };
	rvl_core_run(rig.core, &rig.job, &rig.status);
	ck_assert_uint_eq(rig.status.fault, RIVULET_FAULT_FETCH);
	ck_assert_uint_eq(rig.status.fault_offset, 8);
	rig.job.variant = (struct rivulet_variant){ .offset = -(uint64_t)16, .length = 32 };
	rvl_core_run(rig.core, &rig.job, &rig.status);
	ck_assert_uint_eq(rig.status.fault, RIVULET_FAULT_FETCH);
	rig.job.variant = (struct rivulet_variant){ .slot = 5, .length = 16 };
	rvl_core_run(rig.core, &rig.job, &rig.status);
	ck_assert_uint_eq(rig.status.fault, RIVULET_FAULT_FETCH);
	ck_assert_uint_eq(rig.status.fault_slot, 5);
}
END_TEST

/* A list that starts within an instruction splits it over two pages. */
START_TEST(fetch_across_pages)
{
	use_list(RIG_MEM_AT + 3 * 4096);
	for (int i = 0; i < 300; i++)
		rig_asm(&rig, "alu sync");
	rig_end(&rig);
	rvl_region_write(&rig.job.regions, 2, 0, rig.code, rig.count * 16);
	rig.job.variant = (struct rivulet_variant){ .slot = 2, .length = rig.count * 16 };
	rvl_core_run(rig.core, &rig.job, &rig.status);
	ck_assert_uint_eq(rig.status.fault, RIVULET_FAULT_NONE);
	ck_assert_uint_eq(rig.status.insn, 301);
}
END_TEST

/* One invalid instruction after a valid one, and the fault that it causes. */
static const struct {
	const char *line;
	int fault;
} bad_insns[] = {
	{ ".insn 0x8000000000000006 0", RIVULET_FAULT_RESERVED }, /* above SYNC's fields */
	{ ".insn 0x0000000000000046 0", RIVULET_FAULT_RESERVED }, /* LOAD pops from LOAD */
	{ ".insn 0 0", RIVULET_FAULT_OPCODE },
	{ ".insn 0xf 0", RIVULET_FAULT_OPCODE },
	{ ".insn 0x11 0", RIVULET_FAULT_OPCODE },     /* LOAD in the CONV queue */
	{ ".insn 0x3f0005 0", RIVULET_FAULT_OPCODE }, /* CFG 63 */
	{ "load sync kind=2", RIVULET_FAULT_FIELD },
	{ "load load slot=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "load load slot=1 rows=1 blks=1", RIVULET_FAULT_FIELD },
	{ "load load slot=1 rows=1 cols=1", RIVULET_FAULT_FIELD },
	{ "load load mem=3 slot=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "load load kind=4 slot=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "load load mem=1 kind=1 slot=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "load load mem=2 flip=1 slot=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "load load kind=1 slot=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD }, /* no channels */
	{ "load load kind=3 slot=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD }, /* no kernel */
	{ "store store mem=1 slot=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "store store kind=3 slot=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "store store mem=2 flip=1 slot=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "conv conv rows=1 cols=1 icb=1 ocb=1", RIVULET_FAULT_FIELD }, /* no kernel */
	{ "conv conv mode=6 rows=1 cols=1 icb=1 ocb=1", RIVULET_FAULT_MODE },
	{ "alu alu src=1 rows=1 cols=1 blks=1 pack=1", RIVULET_FAULT_FIELD }, /* ACC needs rq or real */
	{ "alu alu dst=1 rows=1 cols=1 blks=1 pack=1", RIVULET_FAULT_FIELD },
	{ "alu alu rq=1 rows=1 cols=1 blks=1 real=1", RIVULET_FAULT_FIELD },
	{ "alu alu lut=1 rows=1 cols=1 blks=1 real=1", RIVULET_FAULT_FIELD },
	{ "alu alu pool=1 rows=1 cols=1 blks=1 real=1", RIVULET_FAULT_FIELD },
	{ "alu alu bin=2 rows=1 cols=1 blks=1 real=1", RIVULET_FAULT_FIELD },
	{ "alu alu prm=4089 rows=1 cols=1 blks=1 real=1", RIVULET_FAULT_SPAD },
	{ "alu alu src=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD }, /* ACC needs rq */
	{ "alu alu src=1 dst=1 rq=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "alu alu rows=1 cols=1 blks=1 b=1", RIVULET_FAULT_FIELD },
	{ "alu alu rows=1 cols=1 blks=1 prm=1", RIVULET_FAULT_FIELD },
	{ "alu alu rows=1 cols=1 blks=1 pool=1", RIVULET_FAULT_FIELD }, /* no window */
	{ "alu q_prof slot=1 offset=4 limit=1", RIVULET_FAULT_FIELD },
	{ "load load slot=1 rows=1 cols=1 blks=1 addr=65535", RIVULET_FAULT_SPAD },
	{ "load load mem=1 slot=1 rows=1 cols=4097 blks=1", RIVULET_FAULT_SPAD },
	{ "store store slot=1 rows=1 cols=1 blks=1 addr=4096", RIVULET_FAULT_SPAD },
	{ "alu alu rows=1 cols=1 blks=1 d=4096", RIVULET_FAULT_SPAD },
	{ "alu alu rows=1 cols=1 blks=1 rq=1 prm=4089", RIVULET_FAULT_SPAD },
	{ "alu alu rows=1 cols=1 blks=1 a=4096", RIVULET_FAULT_SPAD },
	{ "alu alu rows=1 cols=1 blks=1 bin=1 b=4096", RIVULET_FAULT_SPAD },
};

START_TEST(bad_instruction)
{
	rig_asm(&rig, "conv sync");
	rig_asm(&rig, bad_insns[_i].line);
	rig_end(&rig);
	expect(bad_insns[_i].fault, 1);
	ck_assert_uint_eq(rig.status.fault_slot, RIVULET_NO_SLOT);
}
END_TEST

/* Configurations under which a valid instruction is illegal. */
static const struct {
	const char *cfg, *line;
	int fault;
} bad_configs[] = {
	{ "load l_chan src_ch=10 count=7", "load load slot=1 rows=1 cols=1 blks=1",
	  RIVULET_FAULT_FIELD },
	{ "load l_chan dst_ch=10 count=7", "load load slot=1 rows=1 cols=1 blks=1",
	  RIVULET_FAULT_FIELD },
	{ "load l_chan channels=17", "load load kind=2 slot=1 rows=1 cols=1 blks=1",
	  RIVULET_FAULT_FIELD },
	{ "load l_gather kh=3 kw=3 sy=1 sx=1 dy=1 dx=1 ch=2",
	  "load load kind=3 slot=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "store s_chan count=17", "store store slot=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "store s_chan channels=17", "store store kind=1 slot=1 rows=1 cols=1 blks=1",
	  RIVULET_FAULT_FIELD },
	{ "conv c_mode wfmt=1", "conv conv rows=1 cols=1 icb=1 ocb=1", RIVULET_FAULT_MODE },
	{ "conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1",
	  "conv conv rows=1 cols=1 icb=1 ocb=1 acc=2048", RIVULET_FAULT_SPAD },
	{ "conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1",
	  "conv conv rows=1 cols=1 icb=1 ocb=1 wgt=4081", RIVULET_FAULT_SPAD },
	{ "alu a_lut addr=4081", "alu alu rows=1 cols=1 blks=1 lut=1", RIVULET_FAULT_SPAD },
	{ "alu a_pack lanes=3", "alu alu rows=1 cols=1 blks=1 pack=1", RIVULET_FAULT_FIELD },
	{ "alu a_pack first=8", "alu alu rows=1 cols=1 blks=1 pack=1", RIVULET_FAULT_FIELD },
	{ "alu a_pack d=4096", "alu alu rows=1 cols=1 blks=1 pack=1", RIVULET_FAULT_SPAD },
	{ "alu a_pack only=1", "alu alu rows=1 cols=1 blks=1 pack=1 real=1 prm=1", RIVULET_FAULT_FIELD },
	{ "alu a_pack only=1", "alu alu rows=1 cols=1 blks=1 pack=1 real=1 bin=1", RIVULET_FAULT_FIELD },
	{ "alu a_ext addr=4093", "alu alu rows=1 cols=1 blks=1 pack=1", RIVULET_FAULT_SPAD },
	{ "alu a_ext addr=4089", "alu alu rows=1 cols=1 blks=1 slope=1", RIVULET_FAULT_SPAD },
	{ "alu a_ext addr=4088", "alu alu rows=1 cols=1 blks=1 slope=1", RIVULET_FAULT_NONE },
	{ "alu a_type d=1", "alu alu rows=1 cols=1 blks=1 slope=1 real=1", RIVULET_FAULT_FIELD },
	{ "alu a_type a=1", "alu alu rows=1 cols=1 blks=1 slope=1 pool=2", RIVULET_FAULT_FIELD },
	{ "alu a_type b=1 d=1 prelu=1", "alu alu rows=1 cols=1 blks=1 d=4095", RIVULET_FAULT_NONE },
	{ "alu a_type a=1", "alu alu rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "alu a_type a=1", "alu alu rq=1 rows=1 cols=1 blks=1", RIVULET_FAULT_FIELD },
	{ "alu a_type d=1", "alu alu d=4095 rows=1 cols=1 blks=1 real=1", RIVULET_FAULT_NONE },
	{ "load l_gather kh=1 kw=1 sy=1 sx=1 dy=1 dx=1 ch=1", /* writes one word repeatedly */
	  "load load kind=3 slot=1 rows=4095 cols=1 blks=4095", RIVULET_FAULT_SPAD },
	{ "load l_pad right=1", "load load slot=1 rows=1 cols=1 blks=1 addr=4095",
	  RIVULET_FAULT_SPAD },
};

START_TEST(bad_configuration)
{
	rig_asm(&rig, bad_configs[_i].cfg);
	rig_asm(&rig, bad_configs[_i].line);
	rig_end(&rig);
	expect(bad_configs[_i].fault, bad_configs[_i].fault ? 1 : 3);
}
END_TEST

/* Values of C_MODE that a stochastic CONV refuses, and those that it accepts. */
static const struct {
	const char *cfg, *more;
	int fault;
} streams[] = {
	{ "conv c_mode length=7", "", RIVULET_FAULT_FIELD },
	{ "conv c_mode length=257", "", RIVULET_FAULT_FIELD },
	{ "conv c_mode length=511", "", RIVULET_FAULT_FIELD },
	{ "conv c_mode", "", RIVULET_FAULT_FIELD },
	{ "conv c_mode length=8", "", RIVULET_FAULT_NONE },
	{ "conv c_mode length=256 valid=16 out=16", "", RIVULET_FAULT_NONE },
	{ "conv c_mode length=256 valid=17", "", RIVULET_FAULT_FIELD },
	{ "conv c_mode length=256 out=17", "", RIVULET_FAULT_FIELD },
	{ "conv c_mode length=256 circuit=6", "", RIVULET_FAULT_MODE },
	{ "conv c_mode length=256 circuit=7", "", RIVULET_FAULT_MODE },
	{ "conv c_mode length=256 circuit=5", "", RIVULET_FAULT_NONE },
	{ "conv c_mode length=256 scale=20 circuit=1", "", RIVULET_FAULT_NONE },
	{ "conv c_mode length=256 scale=21 circuit=1", "", RIVULET_FAULT_FIELD },
	{ "conv c_mode length=256", " keep=1", RIVULET_FAULT_NONE },
	{ "conv c_mode length=256 circuit=2", " keep=1", RIVULET_FAULT_FIELD },
	{ "conv c_mode length=256 wfmt=1", "", RIVULET_FAULT_MODE },
};

START_TEST(stream_configuration)
{
	char line[128];

	snprintf(line, sizeof(line), "conv conv mode=4 rows=1 cols=1 icb=1 ocb=1%s",
		 streams[_i].more);
	rig_asm(&rig, "conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
	rig_asm(&rig, streams[_i].cfg);
	rig_asm(&rig, line);
	rig_end(&rig);
	expect(streams[_i].fault, streams[_i].fault ? 2 : 4);
}
END_TEST

/* A board without stochastic lanes refuses the mode, whatever the value of C_MODE. */
START_TEST(no_stream_lanes)
{
	rig.board.modes = 1 << RIVULET_MODE_DENSE;
	rig_asm(&rig, "conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
	rig_asm(&rig, "conv c_mode length=64");
	rig_asm(&rig, "conv conv mode=4 rows=1 cols=1 icb=1 ocb=1");
	rig_end(&rig);
	expect(RIVULET_FAULT_MODE, 2);
}
END_TEST

static const struct {
	const char *mode, *out, *conv;
	uint32_t tm, tn, dn;
	int fault;
	enum rivulet_mode conv_mode;
} pairs[] = {
	{ "dn=1", "row_pitch=1", "wgt=1", 16, 16, 4, RIVULET_FAULT_NONE, RIVULET_MODE_SPARSE },
	{ "dn=16", "row_pitch=1", "wgt=1", 16, 16, 4, RIVULET_FAULT_NONE, RIVULET_MODE_SPARSE },
	{ "dn=0", "row_pitch=1", "wgt=1", 16, 16, 4, RIVULET_FAULT_FIELD, RIVULET_MODE_SPARSE },
	{ "dn=17", "row_pitch=1", "wgt=1", 16, 16, 4, RIVULET_FAULT_FIELD, RIVULET_MODE_SPARSE },
	{ "dn=32", "row_pitch=1", "wgt=2", 32, 32, 8, RIVULET_FAULT_NONE, RIVULET_MODE_SPARSE },
	{ "dn=8", "row_pitch=1", "wgt=1", 32, 32, 8, RIVULET_FAULT_FIELD, RIVULET_MODE_SPARSE },
	{ "dn=8", "wgt_ic_pitch=1", "", 32, 32, 8, RIVULET_FAULT_FIELD, RIVULET_MODE_SPARSE },
	{ "dn=8", "wgt_oc_pitch=3", "", 32, 32, 8, RIVULET_FAULT_FIELD, RIVULET_MODE_SPARSE },
	{ "dn=4 wfmt=1", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_MODE, RIVULET_MODE_SPARSE },
	/* one pass of 64 values and 64 indices of 4 bits: words 4090..4095 of 4096 */
	{ "dn=4", "row_pitch=1", "wgt=4090", 16, 16, 4, RIVULET_FAULT_NONE, RIVULET_MODE_SPARSE },
	{ "dn=4", "row_pitch=1", "wgt=4091", 16, 16, 4, RIVULET_FAULT_SPAD, RIVULET_MODE_SPARSE },
	{ "dn=5", "row_pitch=1", "wgt=4085", 16, 16, 4, RIVULET_FAULT_SPAD, RIVULET_MODE_SPARSE },
	{ "dn=5", "row_pitch=1", "wgt=4084", 16, 16, 4, RIVULET_FAULT_NONE, RIVULET_MODE_SPARSE },
	{ "lanes=2", "row_pitch=1", "wgt=4080", 16, 16, 4, RIVULET_FAULT_NONE, RIVULET_MODE_BINARY },
	{ "lanes=2", "row_pitch=1", "wgt=4081", 16, 16, 4, RIVULET_FAULT_SPAD, RIVULET_MODE_BINARY },
	{ "lanes=3", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_FIELD, RIVULET_MODE_BINARY },
	{ "lanes=1 first=63", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_NONE, RIVULET_MODE_BINARY },
	{ "lanes=1 first=64", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_FIELD, RIVULET_MODE_BINARY },
	{ "first=100 valid=28", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_NONE, RIVULET_MODE_BINARY },
	{ "first=100 valid=29", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_FIELD, RIVULET_MODE_BINARY },
	{ "wfmt=1", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_MODE, RIVULET_MODE_BINARY },
	{ "border=1", "wgt_oc_pitch=1", "", 32, 32, 8, RIVULET_FAULT_FIELD, RIVULET_MODE_BINARY },
	{ "planes=4 group=8 dn=16", "row_pitch=1", "wgt=4088", 16, 16, 4, RIVULET_FAULT_NONE, RIVULET_MODE_BITPLANE },
	{ "planes=4 group=8 dn=16", "row_pitch=1", "wgt=4089", 16, 16, 4, RIVULET_FAULT_SPAD, RIVULET_MODE_BITPLANE },
	/* a word of indices and 5 * 6 bytes */
	{ "planes=3 group=6 dn=5", "row_pitch=1", "wgt=4093", 16, 16, 4, RIVULET_FAULT_NONE, RIVULET_MODE_BITPLANE },
	{ "planes=3 group=6 dn=5", "row_pitch=1", "wgt=4094", 16, 16, 4, RIVULET_FAULT_SPAD, RIVULET_MODE_BITPLANE },
	{ "planes=0 group=4 dn=16", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_FIELD, RIVULET_MODE_BITPLANE },
	{ "planes=9 group=9 dn=16", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_FIELD, RIVULET_MODE_BITPLANE },
	{ "planes=4 group=0 dn=16", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_FIELD, RIVULET_MODE_BITPLANE },
	{ "planes=4 group=4 dn=0", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_FIELD, RIVULET_MODE_BITPLANE },
	{ "planes=4 group=4 dn=17", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_FIELD, RIVULET_MODE_BITPLANE },
	{ "planes=4 group=6 dn=16", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_FIELD, RIVULET_MODE_BITPLANE },
	{ "planes=8 group=2 dn=16", "row_pitch=1", "", 16, 16, 4, RIVULET_FAULT_NONE, RIVULET_MODE_BITPLANE },
	/* 64 slices of a kernel's quarter, and 32 engines */
	{ "planes=8 group=2 dn=16", "row_pitch=1", "", 16, 16, 2, RIVULET_FAULT_FIELD, RIVULET_MODE_BITPLANE },
	{ "planes=4 group=4 dn=16", "wgt_ic_pitch=1", "", 32, 32, 8, RIVULET_FAULT_FIELD, RIVULET_MODE_BITPLANE },
};

START_TEST(weight_configuration)
{
	char line[128];

	rig_close(&rig);
	rig_open(&rig, rig_board(pairs[_i].tm, pairs[_i].tn, pairs[_i].dn));
	rig_asm(&rig, "conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
	snprintf(line, sizeof(line), "conv c_mode %s", pairs[_i].mode);
	rig_asm(&rig, line);
	snprintf(line, sizeof(line), "conv c_out %s", pairs[_i].out);
	rig_asm(&rig, line);
	snprintf(line, sizeof(line), "conv conv mode=%d rows=1 cols=1 icb=1 ocb=1 %s",
		 pairs[_i].conv_mode, pairs[_i].conv);
	rig_asm(&rig, line);
	rig_end(&rig);
	expect(pairs[_i].fault, pairs[_i].fault ? 3 : 5);
}
END_TEST

/* Modes of CONV, with their configuration. */
static const struct {
	int mode;
	const char *config;
} engines[] = { { 1, "dn=4" }, { 2, "lanes=0" }, { 3, "planes=4 group=4 dn=16" } };

#define ENGINES ((int)(sizeof(engines) / sizeof(engines[0])))

START_TEST(no_engine_of_a_mode)
{
	char line[64];

	rig.board.modes = 1 << RIVULET_MODE_DENSE;
	rig_asm(&rig, "conv c_kernel kh=1 kw=1 sy=1 sx=1 dy=1 dx=1");
	snprintf(line, sizeof(line), "conv c_mode %s", engines[_i].config);
	rig_asm(&rig, line);
	snprintf(line, sizeof(line), "conv conv mode=%d rows=1 cols=1 icb=1 ocb=1", engines[_i].mode);
	rig_asm(&rig, line);
	rig_end(&rig);
	expect(RIVULET_FAULT_MODE, 2);
}
END_TEST

START_TEST(no_binary_alu)
{
	static const char *const lines[] = { "pack=1", "real=1" };

	rig.board.modes = 1 << RIVULET_MODE_DENSE;
	for (int i = 0; i < 2; i++) {
		char line[64];

		rig_reset(&rig);
		snprintf(line, sizeof(line), "alu alu rows=1 cols=1 blks=1 %s", lines[i]);
		rig_asm(&rig, line);
		rig_end(&rig);
		expect(RIVULET_FAULT_MODE, 0);
	}
}
END_TEST

/*
 * A CONV whose taps are all in the padding needs no input words; a single tap inside the input
 * does.
 */
START_TEST(conv_input_outside)
{
	PUT(&rig, c_kernel, .kh = 1, .kw = 1, .sy = 1, .sx = 1, .dy = 1, .dx = 1, .org_y = 5);
	PUT(&rig, c_input, .rows = 5, .cols = 8);
	PUT(&rig, conv, .inp = 65535, .rows = 1, .cols = 1, .icb = 1, .ocb = 1);
	PUT(&rig, c_input, .rows = 6, .cols = 8);
	PUT(&rig, conv, .inp = 65535, .rows = 1, .cols = 1, .icb = 1, .ocb = 1);
	rig_end(&rig);
	expect(RIVULET_FAULT_SPAD, 4);
}
END_TEST

START_TEST(tokens_overflow)
{
	for (int i = 0; i < 256; i++)
		rig_asm(&rig, "load sync push=conv");
	rig_end(&rig);
	expect(RIVULET_FAULT_TOKEN_OVERFLOW, 255);
}
END_TEST

START_TEST(tokens_up_to_255)
{
	for (int i = 0; i < 255; i++)
		rig_asm(&rig, "load sync push=conv");
	rig_end(&rig);
	expect(RIVULET_FAULT_NONE, 256);
}
END_TEST

START_TEST(deadlock)
{
	rig_asm(&rig, "load sync");
	rig_asm(&rig, "conv sync pop=load push=alu");
	rig_asm(&rig, "alu sync pop=conv push=load");
	rig_asm(&rig, "load sync pop=alu push=conv");
	rig_end(&rig);
	expect(RIVULET_FAULT_DEADLOCK, 1);
}
END_TEST

/* A full queue stops the fetch before it reaches the instruction that pushes the token. */
START_TEST(deadlock_by_depth)
{
	for (int i = 0; i < 17; i++)
		rig_asm(&rig, i ? "conv sync" : "conv sync pop=load");
	rig_asm(&rig, "load sync push=conv");
	rig_end(&rig);
	expect(RIVULET_FAULT_DEADLOCK, 0);
	rig.board.queue_depth = 17;
	expect(RIVULET_FAULT_NONE, 19);
	rig.board.queue_depth = 16;
}
END_TEST

START_TEST(endless)
{
	PUT(&rig, c_kernel, .kh = 31, .kw = 31, .sy = 1, .sx = 1, .dy = 1, .dx = 1);
	PUT(&rig, conv, .rows = 4095, .cols = 4095, .icb = 4095, .ocb = 1023);
	rig_end(&rig);
	expect(RIVULET_FAULT_ENDLESS, 1);
}
END_TEST

START_TEST(end_is_missing)
{
	rig_asm(&rig, "load sync");
	expect(RIVULET_FAULT_NO_END, 1);
}
END_TEST

START_TEST(end_is_not_last)
{
	rig_end(&rig);
	rig_asm(&rig, "load sync");
	expect(RIVULET_FAULT_NO_END, 0);
}
END_TEST

START_TEST(end_with_tokens)
{
	rig_asm(&rig, "load sync kind=1 push=alu");
	expect(RIVULET_FAULT_FIELD, 0);
}
END_TEST

START_TEST(prof_records)
{
	struct rivulet_prof rec[3];

	memset(rig.mem, 0xee, 4096);
	PUT(&rig, q_prof, .queue = RIVULET_Q_CONV, .slot = 1, .offset = 64, .limit = 2);
	PUT(&rig, q_tag, .queue = RIVULET_Q_CONV, .tag = 0x1234);
	for (int i = 0; i < 3; i++)
		rig_asm(&rig, "conv sync prof=1");
	rig_end(&rig);
	expect(RIVULET_FAULT_NONE, 6);
	memcpy(rec, rig.mem + 64, sizeof(rec));
	ck_assert_uint_eq(rec[0].tag, 0x1234);
	ck_assert_uint_eq(rec[0].queue, RIVULET_Q_CONV);
	ck_assert_uint_eq(rec[0].start, 64 + 2);
	ck_assert_uint_eq(rec[0].end, 64 + 3);
	ck_assert_uint_eq(rec[1].end, 64 + 4);
	ck_assert_uint_eq(rec[2].tag, 0xeeeeeeee);
}
END_TEST

START_TEST(prof_is_checked_too)
{
	PUT(&rig, q_prof, .queue = RIVULET_Q_ALU, .slot = 1, .offset = RIG_MEM - 16, .limit = 9);
	rig_asm(&rig, "alu sync prof=1");
	rig_end(&rig);
	expect_at(RIVULET_FAULT_SLOT_LIMIT, 1, 1, RIG_MEM - 16);
}
END_TEST

START_TEST(clear_leaves_nothing)
{
	rig_fill(&rig);
	rvl_core_clear(rig.core);
	for (uint32_t i = 0; i < rig.board.inp_bytes; i++)
		ck_assert_uint_eq(rig.core->inp[i], 0);
	for (uint32_t i = 0; i < rig.board.wgt_bytes; i++)
		ck_assert_uint_eq(rig.core->wgt[i], 0);
	for (uint32_t i = 0; i < rig.board.acc_bytes / 4; i++)
		ck_assert_int_eq(rig.core->acc[i], 0);
}
END_TEST

struct interruption {
	atomic_bool flag;
	_Atomic uint32_t progress;
};

/*
 * Aborts a little after the instructions before the long one are done, so that the abort arrives
 * inside it.
 */
static void *abort_soon(void *arg)
{
	struct interruption *i = arg;

	while (atomic_load(&i->progress) < 2)
		sched_yield();
	nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	atomic_store(&i->flag, true);
	return NULL;
}

/* The abort arrives during one long instruction, for the scalar and the vector convolution. */
START_TEST(abort_long_instruction)
{
	struct interruption i = { .flag = false };
	pthread_t th;

	rvl_conv_force(_i ? RVL_SIMD_VNNI : RVL_SIMD_NONE);
	rig.board.cycle_cap = 1 << 20;
	PUT(&rig, c_kernel, .kh = 3, .kw = 3, .sy = 1, .sx = 1, .dy = 1, .dx = 1);
	PUT(&rig, c_input, .rows = 4095, .cols = 4095);
	PUT(&rig, conv, .rows = 4095, .cols = 1000, .icb = 20, .ocb = 200);
	rig_end(&rig);
	rig.job.abort = &i.flag;
	rig.job.progress = &i.progress;
	ck_assert_int_eq(pthread_create(&th, NULL, abort_soon, &i), 0);
	ck_assert_int_eq(rig_run(&rig), RIVULET_FAULT_NONE);
	pthread_join(th, NULL);
	ck_assert_uint_eq(rig.status.state, RIVULET_STATE_ABORTED);
	ck_assert_uint_eq(i.progress, 2);
	rvl_conv_force(RVL_SIMD_VNNI);
}
END_TEST

/* The time of an instruction is known before it runs, without a count over rows, passes and taps. */
START_TEST(cost_of_many_passes)
{
	struct timespec from, to;

	PUT(&rig, c_kernel, .kh = 31, .kw = 31, .sy = 1, .sx = 1, .dy = 16, .dx = 16);
	PUT(&rig, c_input, .rows = 65535, .cols = 65535);
	PUT(&rig, conv, .mode = RIVULET_MODE_TAPS, .rows = 4095, .cols = 1, .icb = 1, .ocb = 1);
	rig_end(&rig);
	rig.job.variant = (struct rivulet_variant){ .length = rig.count * 16 };
	rvl_core_begin(rig.core, &rig.job);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	ck_assert(!rvl_core_go(rig.core, true, &rig.status));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	ck_assert_msg(to.tv_sec - from.tv_sec < 3, "%ld s of the processor", to.tv_sec - from.tv_sec);
	rvl_core_go(rig.core, false, &rig.status);
}
END_TEST

/* So does an abort during one row of tap lanes, which has most cycles of an instruction. */
START_TEST(abort_long_row_of_taps)
{
	struct interruption i = { .flag = false };
	pthread_t th;

	rig.board.cycle_cap = 1 << 20;
	PUT(&rig, c_kernel, .kh = 31, .kw = 31, .sy = 1, .sx = 1, .dy = 1, .dx = 1);
	PUT(&rig, conv, .mode = RIVULET_MODE_TAPS, .rows = 1, .cols = 1000, .icb = 4095, .ocb = 1);
	rig_end(&rig);
	rig.job.abort = &i.flag;
	rig.job.progress = &i.progress;
	atomic_store(&i.progress, 1);
	ck_assert_int_eq(pthread_create(&th, NULL, abort_soon, &i), 0);
	ck_assert_int_eq(rig_run(&rig), RIVULET_FAULT_NONE);
	pthread_join(th, NULL);
	ck_assert_uint_eq(rig.status.state, RIVULET_STATE_ABORTED);
}
END_TEST

/* ---- random streams ---- */

#define STREAMS 100000

/* Any 128 bits, most of which decode, so that execution reaches later checks. */
static struct rivulet_insn random_insn(struct rig *g)
{
	struct rivulet_insn in;
	const struct rivulet_form_info *info =
		rivulet_form_table(rig_pick(g, 0, RIVULET_FORM_COUNT - 1));

	for (int i = 0; i < 2; i++) {
		in.w[i] = (uint64_t)rig_random(g) << 32 | rig_random(g);
		if (rig_pick(g, 0, 2))
			in.w[i] &= (uint64_t)rig_random(g) << 32 | rig_random(g);
		if (rig_pick(g, 0, 2))
			in.w[i] &= (uint64_t)rig_random(g) << 32 | rig_random(g);
	}
	if (rig_pick(g, 0, 9) == 0)
		return in;
	in.w[0] &= info->mask[0];
	in.w[1] &= info->mask[1];
	in.w[0] &= ~(uint64_t)(rig_pick(g, 0, 3) ? 0x3fff : 0x3f);
	in.w[0] |= info->op | (info->queue < 0 ? rig_pick(g, 0, 3) : info->queue) << 4;
	if (info->index >= 0)
		in.w[0] = (in.w[0] & ~UINT64_C(0x3f0000)) | (uint64_t)info->index << 16;
	return in;
}

static void random_regions(struct rig *g)
{
	for (int i = 2; i < RIVULET_SLOTS; i++)
		g->job.regions.region[i] = (struct rivulet_region){
			.addr = rig_pick(g, 0, 3) ? RIG_MEM_AT + rig_random(g) % RIG_MEM :
						    (uint64_t)rig_random(g) << rig_pick(g, 0, 32),
			.limit = (uint64_t)rig_random(g) << rig_pick(g, 0, 32) >>
				 rig_pick(g, 0, 40),
			.first = rig_pick(g, 0, 4095),
			.flags = rig_pick(g, 0, 7)
		};
}

/* Number of streams of a test that ended normally, and of those in which the core found a fault. */
static uint32_t ended, faulted;

static void fuzz_check(struct rig *g)
{
	rig_run(g);
	*(g->status.fault ? &faulted : &ended) += 1;
	ck_assert_uint_le(g->status.fault, RIVULET_FAULT_INTERNAL);
	ck_assert_uint_ne(g->status.fault, RIVULET_FAULT_INTERNAL);
	ck_assert_uint_eq(g->status.state == RIVULET_STATE_DONE, g->status.fault == 0);
	ck_assert_uint_le(g->status.insn, g->count);
}

START_TEST(random_streams)
{
	rig.seed = 4711 + _i;
	rig.board.cycle_cap = 1; /* a random instruction may take any time */
	for (int n = 0; n < STREAMS / 4; n++) {
		int len = rig_pick(&rig, 1, 12);

		rig_reset(&rig);
		random_regions(&rig);
		for (int i = 0; i < len; i++)
			rig.code[rig.count++] = random_insn(&rig);
		if (rig_pick(&rig, 0, 7))
			rig_end(&rig);
		fuzz_check(&rig);
	}
	ck_assert_uint_gt(faulted, STREAMS / 4 / 10);
	ck_assert_uint_gt(ended, STREAMS / 4 / 100);
}
END_TEST

/*
 * A small layer of all kinds of instructions: load, weights, parameters, convolution,
 * requantisation with pool, store.
 */
static void put_layer(void)
{
	static const char *const lines[] = {
		"load l_src row_pitch=160 blk_pitch=1600",
		"load l_dst row_pitch=10 blk_pitch=100",
		"load load slot=1 rows=10 cols=10 blks=2 push=conv",
		"load l_src row_pitch=4608",
		"load l_dst row_pitch=288",
		"load load mem=1 slot=1 offset=8192 rows=1 cols=288 blks=1 push=conv",
		"load load mem=1 slot=1 addr=400 offset=16384 rows=1 cols=8 blks=1 push=alu",
		"conv c_kernel kh=3 kw=3 sy=1 sx=1 dy=1 dx=1 org_y=-1 org_x=-1",
		"conv c_input row_pitch=10 blk_pitch=100 rows=10 cols=10",
		"conv c_pad value=-3",
		"conv c_out row_pitch=10 wgt_ic_pitch=144",
		"conv sync pop=load",
		"conv conv rows=10 cols=10 icb=2 ocb=1 pop=load push=alu",
		"alu a_src a_row=10",
		"alu a_dst row=5",
		"alu a_rq zp=-5 lo=-128 hi=127",
		"alu a_pool kh=2 kw=2 sy=2 sx=2 rows=10 cols=10",
		"alu alu src=1 d=1000 prm=400 rows=5 cols=5 blks=1 rq=1 pool=1 pop=load,conv "
		"push=store",
		"store s_src row_pitch=5",
		"store s_dst row_pitch=5 ch_pitch=25",
		"store s_chan channels=13",
		"store store kind=1 addr=1000 slot=1 offset=65536 rows=5 cols=5 blks=1 pop=alu",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		rig_asm(&rig, lines[i]);
	rig_end(&rig);
}

START_TEST(mutated_streams)
{
	rig.seed = 99 + _i;
	rig.board.cycle_cap = 1;
	rig_reset(&rig);
	put_layer();
	expect(RIVULET_FAULT_NONE, rig.count);
	for (int n = 0; n < STREAMS / 20; n++) {
		int flips = rig_pick(&rig, 1, 4);

		rig_reset(&rig);
		put_layer();
		random_regions(&rig);
		for (int i = 0; i < flips; i++)
			rig.code[rig_pick(&rig, 0, rig.count - 1)].w[rig_pick(&rig, 0, 1)] ^=
				UINT64_C(1) << rig_pick(&rig, 0, 63);
		fuzz_check(&rig);
	}
	ck_assert_uint_gt(faulted, STREAMS / 20 / 10);
	ck_assert_uint_gt(ended, STREAMS / 20 / 10);
}
END_TEST

static void add_faults(TCase *t)
{
	tcase_add_test(t, done_has_no_fault);
	tcase_add_test(t, invalid_slot);
	tcase_add_test(t, beyond_limit);
	tcase_add_test(t, huge_stride);
	tcase_add_test(t, write_to_read_only);
	tcase_add_test(t, final_address_wraps);
	tcase_add_test(t, span_outside_memory);
	tcase_add_test(t, list_is_followed);
	tcase_add_test(t, list_with_bad_page);
	tcase_add_test(t, list_outside_memory);
	tcase_add_test(t, fetch_outside);
	tcase_add_test(t, fetch_misaligned);
	tcase_add_test(t, fetch_across_pages);
	tcase_add_loop_test(t, bad_instruction, 0, sizeof(bad_insns) / sizeof(bad_insns[0]));
	tcase_add_loop_test(t, stream_configuration, 0,
			     (int)(sizeof(streams) / sizeof(streams[0])));
	tcase_add_test(t, no_stream_lanes);
	tcase_add_loop_test(t, weight_configuration, 0, sizeof(pairs) / sizeof(pairs[0]));
	tcase_add_loop_test(t, no_engine_of_a_mode, 0, ENGINES);
	tcase_add_test(t, no_binary_alu);
	tcase_add_loop_test(t, bad_configuration, 0, sizeof(bad_configs) / sizeof(bad_configs[0]));
	tcase_add_test(t, conv_input_outside);
	tcase_add_test(t, tokens_overflow);
	tcase_add_test(t, tokens_up_to_255);
	tcase_add_test(t, deadlock);
	tcase_add_test(t, deadlock_by_depth);
	tcase_add_test(t, endless);
	tcase_add_test(t, end_is_missing);
	tcase_add_test(t, end_is_not_last);
	tcase_add_test(t, end_with_tokens);
	tcase_add_test(t, prof_records);
	tcase_add_test(t, prof_is_checked_too);
	tcase_add_test(t, clear_leaves_nothing);
	tcase_add_loop_test(t, abort_long_instruction, 0, 2);
	tcase_add_test(t, cost_of_many_passes);
	tcase_add_test(t, abort_long_row_of_taps);
}

int main(void)
{
	Suite *s = suite_create("core_faults");
	TCase *faults = tcase_create("faults"), *chance = tcase_create("chance");

	tcase_add_checked_fixture(faults, setup, teardown);
	tcase_set_timeout(faults, 60);
	add_faults(faults);
	tcase_add_checked_fixture(chance, setup, teardown);
	tcase_set_timeout(chance, 600);
	tcase_add_loop_test(chance, random_streams, 0, 4);
	tcase_add_loop_test(chance, mutated_streams, 0, 4);
	suite_add_tcase(s, faults);
	suite_add_tcase(s, chance);
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
/*
 * Board profiles: each invalid line is refused with its number and the reason. Also CRC-32C and its
 * test vectors.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rivulet_board.h"
#include "rivulet_crc32c.h"
#include "suite.h"

static const char good[] = "# a board\n"
			   "tm = 32\ntn = 16\ndn = 4\n"
			   "inp_bytes = 0x18000   # 96 KiB\n"
			   "wgt_bytes = 98304\nacc_bytes = 65536\n"
			   "port_bytes = 16\r\nmem_latency = 64\ndma_bits = 40\nqueue_depth = 64\n"
			   "modes = 1\ncycle_cap = 16384\n"
			   "fj_per_mac = 1000\nfj_per_byte = 4000\nstatic_uw = 2000000\n"
			   "\n"
			   "level = 100000000 500000\nlevel = 200000000 1000000\n";

static struct rivulet_board board;
static char err[256];

static int parse(const char *text)
{
	err[0] = 0;
	return rivulet_board_parse(&board, "b", "b.board", text, strlen(text), err, sizeof(err));
}

START_TEST(good_profile)
{
	ck_assert_int_eq(parse(good), 0);
	ck_assert_str_eq(board.name, "b");
	ck_assert_uint_eq(board.tm, 32);
	ck_assert_uint_eq(board.inp_bytes, 98304);
	ck_assert_uint_eq(board.port_bytes, 16);
	ck_assert_uint_eq(board.dma_bits, 40);
	ck_assert_uint_eq(board.levels, 2);
	ck_assert(board.pace_real);
	ck_assert_uint_eq(rivulet_board_peak(&board), 128);
}
END_TEST

/* Keys that may be left out have defaults, in a profile and where a device reports 0. */
START_TEST(cost_keys)
{
	struct rivulet_board zero = { .bursts = 3 };

	ck_assert_int_eq(parse(good), 0);
	ck_assert_uint_eq(board.burst_bytes, 256);
	ck_assert_uint_eq(board.burst_gap, 2);
	ck_assert_uint_eq(board.bursts, 8);
	ck_assert_uint_eq(board.row_bytes, 16384);
	ck_assert_uint_eq(board.alu_lanes, 8);
	rivulet_board_defaults(&zero);
	ck_assert_uint_eq(zero.bursts, 3);
	ck_assert_uint_eq(zero.row_bytes, 16384);
	ck_assert_int_eq(parse("burst_gap = 5\nalu_lanes = 16\n"), -EINVAL);
	ck_assert_str_eq(err, "b.board: tm is missing");
	ck_assert_uint_eq(board.burst_gap, 5);
	ck_assert_uint_eq(board.alu_lanes, 16);
}
END_TEST

/*
 * Computed by hand from docs/boards.md, section 5. The values are below the resources of the part
 * and those that SAF-CNN reports.
 */
START_TEST(resources)
{
	static const struct {
		const char *name;
		struct rivulet_resources r;
		uint32_t dsp, bram; /* of SAF-CNN, or of the part */
	} want[] = {
		/* INP 24, WGT 24, ACC 16, FIFOs 4; LUTs of sparse and taps at the end */
		{ "zu3eg-64", { 64 + 48, 68, 252, 23952 + 64 * 32 + 1024,
		  16 * (32 + 54 + 96) + 128 + 64 * 4 + 4 * 160 + 4800 + 1280 + 9500 }, 130, 71 },
		/* INP 24, WGT 48, ACC 30, FIFOs 4 */
		{ "zu3eg-128", { 128 + 48, 106, 400, 26864 + 128 * 32 + 1280,
		  32 * (32 + 54 + 96) + 128 + 128 * 4 + 4 * 160 + 4800 + 1280 + 9500 }, 201, 107 },
		/* INP 64, WGT 64, ACC 30, FIFOs 4 */
		{ "zu3eg-256", { 256 + 48, 162, 592, 31472 + 256 * 72 + 5888,
		  32 * (64 + 126 + 96) + 256 + 256 * 5 + 8 * 288 + 4800 + 2560 + 9500 }, 330, 178 },
		/* zu3eg-64 with 64 bucket memories, engines, pixels, rows of bits and lanes; the part is XCZU3EG */
		{ "zu3eg-64-planes",
		  { 64 + 48, 68 + 32, 252 + 64,
		    23952 + 64 * 32 + 1024 + 64 * (160 + 56 + 16 + 32) + 512 + 16 * 128 + 640 * 4,
		    16 * (32 + 54 + 96) + 128 + 64 * 4 + 4 * 160 + 64 * 176 + 640 + 128 + 512 + 4800 + 1280 +
		    9500 },
		  360, 216 },
		/* INP 32, WGT 32, ACC 16, FIFOs 4; the part is XCZU3EG */
		{ "dense-16x16", { 256 + 48, 84, 316, 28944 + 17408,
		  16 * (128 + 270 + 96) + 128 + 16 * 160 + 4800 + 1280 + 9500 }, 360, 216 },
		/* the same, and 4096 LUTs of one-bit products, 4 words of 128 bits from 16 banks, 8 ALU lanes */
		{ "zcu102-binary", { 256 + 48, 84, 316, 28944 + 17408 + 4096 + 2304 + 128 + 1600,
		  16 * (128 + 270 + 96) + 128 + 16 * 160 + 4 * 160 + 1600 + 4800 + 1280 + 9500 }, 2520, 912 },
		/*
		 * 64 bucket memories; 64 engines, 16 pixels, 16 lanes; a piece and a row of bits, shifted;
		 * ALU of LUTs; no array
		 */
		{ "cyclonev-64-nodsp",
		  { 0, 68 + 32, 252 + 64,
		    64 * (160 + 56 + 16 + 32) + 512 + 16 * 128 + 640 * 4 + 2 * 2700 + 512 + 4010 + 9500,
		    64 * 176 + 640 + 128 + 512 + 2 * 1200 + 1280 + 9500 },
		  0, 557 },
	};

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct rivulet_resources r;

		ck_assert_int_eq(rivulet_board_load(&board, want[i].name, err, sizeof(err)), 0);
		r = rivulet_board_resources(&board);
		ck_assert_uint_eq(r.dsp, want[i].r.dsp);
		ck_assert_uint_eq(r.bram36, want[i].r.bram36);
		ck_assert_uint_eq(r.m10k, want[i].r.m10k);
		ck_assert_uint_eq(r.lut, want[i].r.lut);
		ck_assert_uint_eq(r.ff, want[i].r.ff);
		ck_assert_uint_le(r.dsp, want[i].dsp);
		ck_assert_uint_le(r.bram36, want[i].bram);
		ck_assert_uint_lt(r.lut, 70560);
		ck_assert_uint_lt(r.ff, 141120);
	}
}
END_TEST

/* At half the voltage, dynamic energy is a quarter. */
START_TEST(energy)
{
	struct rivulet_work w = { .macs = 1000000, .bytes = 500, .cycles = 200 };

	ck_assert_int_eq(parse(good), 0);
	ck_assert_uint_eq(board.level[1].fj_per_mac, 1000);
	ck_assert_uint_eq(board.level[0].fj_per_mac, 250);
	ck_assert_uint_eq(board.level[0].fj_per_byte, 1000);
	ck_assert_uint_eq(board.level[0].static_uw, 500000);
	/* 10^6 MACs, 1 nJ per 1000; 500 bytes, 2 nJ; 200 cycles of 5 ns at 2 W */
	ck_assert_uint_eq(rivulet_board_energy_pj(&board, 1, &w), 1000000 + 2000 + 2000000);
	/* All of them sparse: a quarter more for each. */
	w.sparse_macs = w.macs;
	ck_assert_uint_eq(rivulet_board_energy_pj(&board, 1, &w), 1250000 + 2000 + 2000000);
	/* All of them binary: a 16th for each. */
	w = (struct rivulet_work){ .macs = 1600000, .binary_macs = 1600000 };
	ck_assert_uint_eq(rivulet_board_energy_pj(&board, 1, &w), 100000);
	/* All of them by bit planes: half a MAC for each addition. */
	w = (struct rivulet_work){ .macs = 1600000, .plane_macs = 1600000, .plane_adds = 400000 };
	ck_assert_uint_eq(rivulet_board_energy_pj(&board, 1, &w), 200000);
	/* Stochastic lanes that use 4 uJ at the highest level use a quarter at half the voltage. */
	w = (struct rivulet_work){ .stream_macs = 1000, .stream_fj = 4000000000 };
	ck_assert_uint_eq(rivulet_board_energy_pj(&board, 1, &w), 4000000);
	ck_assert_uint_eq(rivulet_board_energy_pj(&board, 0, &w), 1000000);
}
END_TEST

/* Parses the valid profile with the first @from replaced by @to. */
static int parse_with(const char *from, const char *to)
{
	char text[1024];
	const char *at = strstr(good, from);

	ck_assert_ptr_nonnull(at);
	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
	return parse(text);
}

static const struct {
	const char *from, *to, *err;
} bad[] = {
	{ "tm = 32\n", "", "b.board: tm is missing" },
	{ "tm = 32", "tm = 0", "b.board:2: tm: 0 is outside 1..64" },
	{ "tm = 32", "tm = 65", "b.board:2: tm: 65 is outside 1..64" },
	{ "tm = 32", "tm = -1", "b.board:2: tm: expected a number, found \"-1\"" },
	{ "tm = 32", "tm = many", "b.board:2: tm: expected a number, found \"many\"" },
	{ "tm = 32", "tm = 32 rows", "b.board:2: tm: \"rows\" after the number" },
	{ "tm = 32", "tm = 99999999999999999999",
	  "b.board:2: tm: 99999999999999999999 is outside 1..64" },
	{ "tm = 32", "tm = 32\ntm = 32", "b.board:3: tm is given twice" },
	{ "tm = 32", "tm: 32", "b.board:2: expected \"key = value\", found \"tm: 32\"" },
	{ "tm = 32", "tm = 32\nspeed = 9", "b.board:3: unknown key \"speed\"" },
	{ "tm = 32", "tm = 24", "b.board: tm = 24 is not a multiple of tn = 16" },
	{ "dn = 4", "dn = 5", "b.board: dn = 5 does not divide tn = 16" },
	{ "tm = 32\ntn = 16\ndn = 4", "tm = 12\ntn = 6\ndn = 3",
	  "b.board: tm x tn must be a multiple of 16, tn of 4" },
	{ "tm = 32\ntn = 16\ndn = 4\n"
	  "inp_bytes = 0x18000   # 96 KiB\n"
	  "wgt_bytes = 98304\nacc_bytes = 65536\n"
	  "port_bytes = 16\r\nmem_latency = 64\ndma_bits = 40\nqueue_depth = 64\n"
	  "modes = 1\n",
	  "tm = 64\ntn = 64\ndn = 4\n"
	  "inp_bytes = 98304\nwgt_bytes = 98304\nacc_bytes = 65536\n"
	  "port_bytes = 16\nmem_latency = 64\ndma_bits = 40\nqueue_depth = 64\nmodes = 9\n",
	  "b.board: bit planes need tn below 64, for which C_MODE.dn has no value" },
	{ "port_bytes = 16", "port_bytes = 24",
	  "b.board: port_bytes = 24 is not a power of two" },
	{ "# a board", "burst_bytes = 384", "b.board: burst_bytes = 384 is not a power of two" },
	{ "# a board", "burst_bytes = 128", "b.board:1: burst_bytes: 128 is outside 256..4096" },
	{ "# a board", "burst_gap = 0", "b.board:1: burst_gap: 0 is outside 1..64" },
	{ "# a board", "bursts = 0", "b.board:1: bursts: 0 is outside 1..256" },
	{ "# a board", "row_bytes = 512", "b.board:1: row_bytes: 512 is outside 1024..1048576" },
	{ "# a board", "alu_lanes = 65", "b.board:1: alu_lanes: 65 is outside 1..64" },
	{ "# a board", "alu_lanes = 4\nalu_lanes = 4", "b.board:2: alu_lanes is given twice" },
	{ "dma_bits = 40", "dma_bits = 31", "b.board:10: dma_bits: 31 is outside 32..64" },
	{ "dma_bits = 40", "dma_bits = 65", "b.board:10: dma_bits: 65 is outside 32..64" },
	{ "# a board", "pace = slow", "b.board:1: pace: expected real or fast, found \"slow\"" },
	{ "level = 100000000 500000", "level = 100000000",
	  "b.board:18: level voltage: expected a number, found \"\"" },
	{ "level = 100000000 500000", "level = 100000000 500000 1",
	  "b.board:18: level: \"1\" after the voltage" },
	{ "level = 100000000 500000", "level = 200000000 500000",
	  "b.board:19: levels go from slow to fast: 200000000 Hz follows 200000000 Hz" },
	{ "level = 100000000 500000\nlevel = 200000000 1000000\n", "", "b.board: no level" },
};

START_TEST(bad_profile)
{
	ck_assert_int_eq(parse_with(bad[_i].from, bad[_i].to), -EINVAL);
	ck_assert_str_eq(err, bad[_i].err);
}
END_TEST

START_TEST(limits)
{
	char text[2048] = "", *huge = calloc(1, 70000);

	strcpy(text, good);
	for (int i = 3; i <= 9; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "level = %d00000000 1000000\n", i);
	ck_assert_int_eq(parse(text), -EINVAL);
	ck_assert_str_eq(err, "b.board:26: more than 8 levels");
	memset(huge, '#', 69999);
	ck_assert_int_eq(parse(huge), -EINVAL);
	ck_assert_str_eq(err, "b.board: not a board profile: too long, or binary");
	ck_assert_int_eq(rivulet_board_parse(&board, "b", "b.board", "tm\0 = 3", 7, err,
					     sizeof(err)),
			 -EINVAL);
	ck_assert_int_eq(rivulet_board_parse(&board, "a name that does not fit into 32 bytes", "x",
					     good, strlen(good), err, sizeof(err)),
			 -EINVAL);
	free(huge);
}
END_TEST

/* A damaged profile is either refused or a consistent board. */
START_TEST(damage)
{
	uint64_t seed = 7;
	char text[sizeof(good)];

	for (int n = 0; n < 20000; n++) {
		memcpy(text, good, sizeof(good));
		for (int k = 0; k < 3; k++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			text[(seed >> 33) % (sizeof(good) - 1)] = (seed >> 20) % 127 + 1;
		}
		if (parse(text)) {
			ck_assert_uint_gt(strlen(err), 0);
			continue;
		}
		ck_assert_uint_eq(board.tm % board.tn, 0);
		ck_assert_uint_eq(board.tn % board.dn, 0);
		ck_assert_uint_ge(board.levels, 1);
	}
}
END_TEST

static const char *const shipped[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256", "zu3eg-64-planes", "dense-16x16",
				       "zcu102-binary", "cyclonev-64", "cyclonev-64-nodsp", "sc-edge" };

START_TEST(shipped_boards)
{
	ck_assert_msg(!rivulet_board_load(&board, shipped[_i], err, sizeof(err)), "%s", err);
	ck_assert_str_eq(board.name, shipped[_i]);
}
END_TEST

START_TEST(loading)
{
	char dir[] = "/tmp/rvl-board-XXXXXX", path[64];
	FILE *f;

	ck_assert_int_eq(rivulet_board_load(&board, "no-such", err, sizeof(err)), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err, "no board \"no-such\"; known:"));
	ck_assert_ptr_nonnull(strstr(err, " zu3eg-64"));
	ck_assert_int_eq(rivulet_board_load(&board, "/no/such.board", err, sizeof(err)), -ENOENT);
	ck_assert_str_eq(err, "/no/such.board: No such file or directory");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/mine.board", dir);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	fputs(good, f);
	fclose(f);
	ck_assert_int_eq(rivulet_board_load(&board, path, err, sizeof(err)), 0);
	ck_assert_str_eq(board.name, "mine");
	setenv("RIVULET_BOARD_PATH", dir, 1);
	ck_assert_int_eq(rivulet_board_load(&board, "mine", err, sizeof(err)), 0);
	unlink(path);
	rmdir(dir);
}
END_TEST

/* The test vectors of RFC 3720 B.4, whole and in pieces. */
START_TEST(crc32c)
{
	uint8_t b[32] = { 0 };

	ck_assert_uint_eq(rivulet_crc32c(0, b, 32), 0x8a9136aa);
	memset(b, 0xff, 32);
	ck_assert_uint_eq(rivulet_crc32c(0, b, 32), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		b[i] = i;
	ck_assert_uint_eq(rivulet_crc32c(0, b, 32), 0x46dd794e);
	for (int i = 0; i <= 32; i++)
		ck_assert_uint_eq(rivulet_crc32c(rivulet_crc32c(0, b, i), b + i, 32 - i),
				  0x46dd794e);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("board");
	TCase *t = tcase_create("board");

	tcase_add_test(t, good_profile);
	tcase_add_test(t, cost_keys);
	tcase_add_test(t, resources);
	tcase_add_test(t, energy);
	tcase_add_loop_test(t, bad_profile, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, limits);
	tcase_add_test(t, damage);
	tcase_add_loop_test(t, shipped_boards, 0, sizeof(shipped) / sizeof(shipped[0]));
	tcase_add_test(t, loading);
	tcase_add_test(t, crc32c);
	suite_add_tcase(s, t);
	return run_suite(s);
}

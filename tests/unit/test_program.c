/* SPDX-License-Identifier: MIT */
/*
 * Program files from untrusted sources. rivulet_program_check() refuses a changed file with an
 * error text, or all its guarantees hold for the file.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "program/program.h"
#include "qgraph.h"
#include "rivulet_crc32c.h"
#include "rivulet_sha256.h"
#include "suite.h"

static struct rivulet_board board;
static struct rivulet_blob good;

/* A convolution and an addition on the NPU, an average on the CPU, and a second output. */
static void make_program(void)
{
	struct qg_conv c = {
		.m = 6, .kh = 3, .kw = 3, .pad = { 1, 1, 1, 1 }, .wtype = RVL_TYPE_S8,
		.ytype = RVL_TYPE_U8, .bias = true, .wscale = 0.01f, .yscale = 0.1f,
	};
	struct rvl_err err = { "" };
	struct rvl_tensor *x, *t;
	struct rvl_node *n;
	struct qg q;
	char why[256];

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
	qg_open(&q, 1);
	x = qg_tensor(&q, "x", RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, 4, 8, 8 } }, 0.1f, 10);
	qg_input(&q, x);
	t = qg_conv(&q, "conv", x, &c);
	qg_output(&q, t);
	x = qg_tensor(&q, "mean", RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, 6, 4, 4 } }, 0.1f, 10);
	n = qg_node(&q, RVL_OP_Q_AVERAGE_POOL, "average", 1, &t, x);
	ck_assert_msg(!q.rc, "%s", q.err.msg);
	n->attr.kernel[0] = n->attr.kernel[1] = n->attr.stride[0] = n->attr.stride[1] = 2;
	qg_output(&q, qg_conv(&q, "last", x, &c));
	ck_assert_msg(!q.rc, "%s", q.err.msg);
	ck_assert_msg(!rvl_compile_graph(q.g, &board, NULL, &good, NULL, &err), "%s", err.msg);
}

static void drop_program(void)
{
	rivulet_blob_free(&good);
}

/* Returns a copy of exactly the given size, so that the sanitizer reports overreads. */
static uint8_t *copy_of(size_t size)
{
	uint8_t *p = malloc(size ? size : 1);

	ck_assert_ptr_nonnull(p);
	memcpy(p, good.data, size < good.size ? size : good.size);
	return p;
}

static void seal(uint8_t *p, size_t size)
{
	struct rivulet_program *h = (void *)p;

	h->crc = 0;
	h->crc = rivulet_crc32c(0, p, size);
}

static int check(const uint8_t *p, size_t size, char *why)
{
	why[0] = '\0';
	return rivulet_program_check(p, size, why, 256);
}

START_TEST(accepts_what_the_compiler_writes)
{
	const struct rivulet_program *p = good.data;
	char why[256];

	ck_assert_msg(!check(good.data, good.size, why), "%s", why);
	ck_assert_uint_eq(p->inputs, 1);
	ck_assert_uint_eq(p->outputs, 2);
	ck_assert_uint_eq(p->steps, 3);
	ck_assert_str_eq(rivulet_program_string(p, rivulet_program_tensors(p)[0].name), "x");
	ck_assert_str_eq(rivulet_program_string(p, p->board_name), "zu3eg-64");
}
END_TEST

/* The checksum detects every changed byte. */
START_TEST(refuses_every_flipped_byte)
{
	uint8_t *p = copy_of(good.size);
	char why[256];

	for (size_t i = 0; i < good.size; i++) {
		p[i] ^= 1u << i % 8;
		ck_assert_int_eq(check(p, good.size, why), -EINVAL);
		ck_assert_uint_gt(strlen(why), 0);
		p[i] ^= 1u << i % 8;
	}
	free(p);
}
END_TEST

START_TEST(refuses_every_truncation)
{
	char why[256];

	for (size_t n = 0; n < good.size; n += n < 2048 ? 1 : 97) {
		uint8_t *p = copy_of(n);

		ck_assert_int_eq(check(p, n, why), -EINVAL);
		free(p);
	}
}
END_TEST

/* Uses a checked file as its users do, and reads every byte that they may read. */
static uint64_t use(const uint8_t *base)
{
	const struct rivulet_program *p = (const void *)base;
	const struct rivulet_tensor *t = rivulet_program_tensors(p);
	const struct rivulet_step *s = rivulet_program_steps(p);
	uint64_t sum = strlen(rivulet_program_string(p, p->model_name));

	for (uint32_t i = 0; i < p->tensors; i++) {
		sum += strlen(rivulet_program_string(p, t[i].name));
		for (uint64_t j = 0; t[i].place == RIVULET_PLACE_CONST && j < t[i].size; j++)
			sum += base[t[i].offset + j];
		if (t[i].place == RIVULET_PLACE_ARENA)
			ck_assert_uint_le(t[i].offset + t[i].size, p->arena_size);
	}
	for (uint32_t i = 0; i < p->steps; i++) {
		sum += strlen(rivulet_program_string(p, s[i].name));
		for (uint64_t j = 0; j < s[i].params_size; j++)
			sum += base[p->params_off + s[i].params + j];
		for (uint32_t j = 0; j < s[i].nread; j++)
			sum += t[s[i].read[j]].size;
		for (int l = 0; l < RIVULET_LEVELS; l++)
			for (uint32_t j = 0; j < s[i].variant[l].length; j++)
				sum += base[s[i].variant[l].offset + j];
	}
	return sum;
}

/* With a corrected checksum, a changed file is refused or safe to use. */
START_TEST(sealed_mutations)
{
	static const uint8_t value[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	const struct rivulet_program *h = good.data;
	size_t tables = h->const_off;
	uint8_t *p = copy_of(good.size);
	uint32_t refused = 0, used = 0;
	char why[256];

	for (size_t i = 0; i < tables; i++) {
		for (size_t v = 0; v < sizeof(value); v++) {
			uint8_t old = p[i];

			p[i] = value[v];
			seal(p, good.size);
			if (check(p, good.size, why))
				refused++;
			else
				used += use(p) > 0;
			p[i] = old;
		}
	}
	ck_assert_uint_gt(refused, 1000);
	ck_assert_uint_gt(used, 1000); /* names and most bytes of a float may have any value */
	free(p);
}
END_TEST

struct edit {
	const char *what;
	size_t offset;
	uint64_t value;
	int bytes;
};

#define HEAD(field, v)                                                                             \
	{                                                                                          \
#field, offsetof(struct rivulet_program, field), v,                                \
			sizeof(((struct rivulet_program *)0)->field)                               \
	}

/* Invalid values in the header, each with its error text. */
START_TEST(refuses_invalid_headers)
{
	static const struct edit edits[] = {
		HEAD(magic, 1),
		HEAD(version, 99),
		HEAD(size, 1),
		HEAD(size, UINT64_MAX),
		HEAD(header_size, 8),
		HEAD(tensors, UINT32_MAX),
		HEAD(steps, UINT32_MAX),
		HEAD(inputs, UINT32_MAX),
		HEAD(outputs, UINT32_MAX),
		HEAD(tensors_off, UINT64_MAX - 63),
		HEAD(steps_off, 64),
		HEAD(strings_off, UINT64_MAX - 63),
		HEAD(strings_size, UINT64_MAX),
		HEAD(strings_size, 0),
		HEAD(params_size, UINT64_MAX),
		HEAD(const_off, 1),
		HEAD(const_size, UINT64_MAX),
		HEAD(cmd_size, UINT64_MAX),
		HEAD(arena_size, UINT64_MAX),
		HEAD(arena_size, 0),
		HEAD(cpu_scratch, UINT64_MAX),
		HEAD(board_name, UINT32_MAX),
		HEAD(model_name, UINT32_MAX),
		HEAD(level[0].length, 7),
		HEAD(level[7].length, 257),
		HEAD(level[3].accuracy, 1000001),
	};

	for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
		uint8_t *p = copy_of(good.size);
		char why[256];

		memcpy(p + edits[i].offset, &edits[i].value, edits[i].bytes);
		seal(p, good.size);
		ck_assert_msg(check(p, good.size, why) == -EINVAL, "%s", edits[i].what);
		ck_assert_uint_gt(strlen(why), 10);
		free(p);
	}
}
END_TEST

/* A file with NPU steps is accepted up to the size of a buffer. Most of it is zero pages. */
START_TEST(refuses_a_file_larger_than_a_buffer)
{
	const size_t most = RIVULET_PROGRAM_NPU_MAX, longer = most + 64;
	uint8_t *p = mmap(NULL, longer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct rivulet_program *h = (void *)p;
	char why[256];

	ck_assert_ptr_ne(p, MAP_FAILED);
	memcpy(p, good.data, good.size);
	h->size = most;
	seal(p, most);
	ck_assert_msg(!check(p, most, why), "%s", why);
	h->size = longer;
	seal(p, longer);
	ck_assert_int_eq(check(p, longer, why), -EINVAL);
	ck_assert_str_eq(why, "2147483712 bytes with NPU steps; at most 2147483648");
	munmap(p, longer);
}
END_TEST

START_TEST(refuses_a_misaligned_file)
{
	uint8_t *p = malloc(good.size + 8);
	char why[256];

	memcpy(p + 1, good.data, good.size);
	ck_assert_int_eq(check(p + 1, good.size, why), -EINVAL);
	ck_assert_int_eq(rivulet_program_check(NULL, 0, why, sizeof(why)), -EINVAL);
	free(p);
}
END_TEST

START_TEST(fits_names_what_differs)
{
	struct rivulet_target t;
	char why[256];

	rivulet_target_of(&board, &t);
	t.queue_depth = 64;
	ck_assert_int_eq(rivulet_program_fits(good.data, &t, why, sizeof(why)), 0);
	t.tm = 32;
	ck_assert_int_eq(rivulet_program_fits(good.data, &t, why, sizeof(why)), -ENOEXEC);
	ck_assert_str_eq(why, "the program was compiled for tm = 16; the device has 32");
	rivulet_target_of(&board, &t);
	t.modes &= ~((const struct rivulet_program *)(const void *)good.data)->target.modes;
	ck_assert_int_eq(rivulet_program_fits(good.data, &t, why, sizeof(why)), -ENOEXEC);
	rivulet_target_of(&board, &t);
	t.queue_depth = 0;
	ck_assert_int_eq(rivulet_program_fits(good.data, &t, why, sizeof(why)), -ENOEXEC);
}
END_TEST

/* A long chain reuses its memory, because two values are live at a time, not twelve. */
START_TEST(arena_is_reused)
{
	struct rivulet_compile_options apart = { .no_cascade = true };
	struct qg_conv c = {
		.m = 16, .wtype = RVL_TYPE_S8, .ytype = RVL_TYPE_S8, .wscale = 0.01f,
		.yscale = 0.1f,
	};
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	struct rvl_tensor *t;
	struct qg q;

	qg_open(&q, 2);
	t = qg_tensor(&q, "x", RVL_TYPE_S8, (struct rvl_shape){ 4, { 1, 16, 32, 32 } }, 0.1f, 0);
	qg_input(&q, t);
	for (int i = 0; i < 12; i++)
		t = qg_conv(&q, NULL, t, &c);
	qg_output(&q, t);
	ck_assert_msg(!q.rc, "%s", q.err.msg);
	ck_assert_msg(!rvl_compile_graph(q.g, &board, &apart, &program, NULL, &err), "%s", err.msg);
	ck_assert_uint_eq(((const struct rivulet_program *)program.data)->arena_size,
			  2 * 16 * 32 * 32);
	rivulet_blob_free(&program);
}
END_TEST

/* The accuracies of a plan are in the program. Levels are those of the board. */
START_TEST(levels_and_accuracy)
{
	struct rivulet_compile_options o = { .accuracy = { 790000, 0, 870000 } };
	struct rivulet_blob program = { 0 };
	const struct rivulet_program *p;
	struct rvl_err err = { "" };
	struct rvl_tensor *t;
	struct qg q;

	ck_assert_uint_eq(rivulet_program_levels(good.data), (1u << board.levels) - 1);
	qg_open(&q, 2);
	t = qg_tensor(&q, "x", RVL_TYPE_S8, (struct rvl_shape){ 4, { 1, 16, 4, 4 } }, 0.1f, 0);
	qg_input(&q, t);
	qg_output(&q, qg_conv(&q, NULL, t, &(struct qg_conv){
		.m = 16, .wtype = RVL_TYPE_S8, .ytype = RVL_TYPE_S8, .wscale = 0.01f,
		.yscale = 0.1f,
	}));
	ck_assert_msg(!q.rc, "%s", q.err.msg);
	ck_assert_msg(!rvl_compile_graph(q.g, &board, &o, &program, NULL, &err), "%s", err.msg);
	p = program.data;
	for (uint32_t l = 0; l < 3; l++)
		ck_assert_uint_eq(p->level[l].accuracy, o.accuracy[l]);
	ck_assert_uint_eq(p->level[0].length, 0);
	ck_assert_uint_eq(rivulet_program_levels(p), (1u << board.levels) - 1);
	((struct rivulet_step *)rivulet_program_steps(p))->variant[1].length = 0;
	((struct rivulet_step *)rivulet_program_steps(p))->min_level = 1;
	ck_assert_uint_eq(rivulet_program_levels(p), ((1u << board.levels) - 1) & ~3u);
	rivulet_blob_free(&program);
}
END_TEST

static void expect_sha(const char *text, size_t n, const char *hex)
{
	uint8_t out[32];
	char got[65];

	rivulet_sha256(text, n, out);
	for (int i = 0; i < 32; i++)
		snprintf(got + 2 * i, 3, "%02x", out[i]);
	ck_assert_str_eq(got, hex);
}

/* FIPS 180-4 examples. */
START_TEST(sha256)
{
	char *million = malloc(1000000);

	expect_sha("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	expect_sha("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	expect_sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
		   "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	memset(million, 'a', 1000000);
	expect_sha(million, 1000000,
		   "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(million);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("program");
	TCase *t = tcase_create("file");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, make_program, drop_program);
	tcase_add_test(t, accepts_what_the_compiler_writes);
	tcase_add_test(t, refuses_every_flipped_byte);
	tcase_add_test(t, refuses_every_truncation);
	tcase_add_test(t, sealed_mutations);
	tcase_add_test(t, refuses_invalid_headers);
	tcase_add_test(t, refuses_a_file_larger_than_a_buffer);
	tcase_add_test(t, refuses_a_misaligned_file);
	tcase_add_test(t, fits_names_what_differs);
	tcase_add_test(t, arena_is_reused);
	tcase_add_test(t, levels_and_accuracy);
	suite_add_tcase(s, t);
	t = tcase_create("hash");
	tcase_add_test(t, sha256);
	suite_add_tcase(s, t);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/*
 * Tensors whose data is in files beside the model. Such files are read only inside the model's
 * folder.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "model/beside.h"
#include "onnx/onnx.h"
#include "rivulet_board.h"
#include "rivulet_crc32c.h"
#include "rivulet_plan.h"
#include "rivulet_sha256.h"
#include "suite.h"
#include "unit/external_model.h"
#include "unit/onnx_text.h"
#include "unit/pbuild.h"
#include "verb.h"

static struct rvl_err err;
static char folder[SCRATCH_MAX];

static void write_in_folder(const char *name, const void *data, size_t n)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	write_file(path, data, n);
}

static void link_in_folder(const char *to, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	ck_assert_int_eq(symlink(to, path), 0);
}

/* A folder model/ with files, a sub-folder, links, and a secret beside it. */
static void make_folder(void)
{
	const float w[] = { 9, 1, 2, 3 };
	char path[128];

	make_scratch(folder);
	snprintf(path, sizeof(path), "%s/model", folder);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/model/sub", folder);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	write_in_folder("secret", w, sizeof(w));
	write_in_folder("model/w.bin", w, sizeof(w));
	write_in_folder("model/sub/w.bin", w, sizeof(w));
	link_in_folder("../secret", "model/link");
	link_in_folder("w.bin", "model/inner");
	link_in_folder("..", "model/up");
	snprintf(path, sizeof(path), "%s/model/pipe", folder);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
}

static void remove_folder(void)
{
	remove_scratch(folder);
}

/* y = x + w, where w has three floats in a file. NULL: the key is missing. */
static struct pb model(const char *location, const char *offset, const char *length)
{
	return external_model(1, location, offset, length);
}

/* Reads the model with the files of the folder; *w is the first value of the constant. */
static int load(struct pb m, float *w, uint8_t hash[32])
{
	char path[128];
	struct rvl_beside b = { 0 };
	struct rvl_onnx_opts o = { .files = &b.files };
	struct rvl_graph *g;
	int rc;

	snprintf(path, sizeof(path), "%s/model/model.onnx", folder);
	ck_assert_int_eq(rvl_beside_open(&b, path), 0);
	err.msg[0] = 0;
	rc = rvl_onnx_load(m.p, m.n, &o, &g, &err);
	if (!rc) {
		*w = *(const float *)rvl_tensor_find(g, "w")->data;
		memcpy(hash, g->files_hash, 32);
		rvl_graph_free(g);
	}
	rvl_beside_clear(&b);
	free(m.p);
	return rc;
}

START_TEST(data_comes_from_files)
{
	float w = 0;
	uint8_t a[32], b[32];

	ck_assert_msg(!load(model("w.bin", NULL, NULL), &w, a), "%s", err.msg);
	ck_assert_float_eq(w, 9);
	ck_assert_msg(!load(model("sub/w.bin", "4", "12"), &w, b), "%s", err.msg);
	ck_assert_float_eq(w, 1);
	/* Different data results in a different program. */
	ck_assert_mem_ne(a, b, 32);
}
END_TEST

static void refused(struct pb m, int rc, const char *text)
{
	float w;
	uint8_t hash[32];
	int got = load(m, &w, hash);

	ck_assert_msg(got == rc, "returned %d: %s", got, err.msg);
	ck_assert_msg(strstr(err.msg, text), "'%s' lacks '%s'", err.msg, text);
}

START_TEST(paths_out_of_the_folder_are_refused)
{
	static const char *const bad[] = {
		"/etc/passwd", "../secret", "sub/../w.bin", "..", ".", "./w.bin", "sub//w.bin", "sub/", "",
		"sub/..",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(model(bad[i], NULL, NULL), -EBADMSG, "is not a path below the model's folder");
	refused(model(NULL, NULL, NULL), -EBADMSG, "is not a path below the model's folder");
}
END_TEST

START_TEST(links_are_not_followed)
{
	refused(model("link", NULL, NULL), -EINVAL, "link: a symbolic link on the way is not followed");
	refused(model("inner", NULL, NULL), -EINVAL, "a symbolic link on the way is not followed");
	refused(model("up/secret", NULL, NULL), -EINVAL, "a symbolic link on the way is not followed");
}
END_TEST

START_TEST(files_must_hold_the_data)
{
	refused(model("nothing", NULL, NULL), -EINVAL, "nothing: No such file");
	refused(model("sub", NULL, NULL), -EINVAL, "sub: not a regular file");
	refused(model("pipe", NULL, NULL), -EINVAL, "pipe: not a regular file");
	refused(model("w.bin", "8", NULL), -EINVAL, "12 bytes from 8 on are not in the file of 16 bytes");
	refused(model("w.bin", "999999999999999999", NULL), -EINVAL, "are not in the file");
	refused(model("w.bin", NULL, "16"), -EBADMSG, "has 16 bytes of data where its shape needs 12");
	refused(model("w.bin", "-1", NULL), -EBADMSG, "external data with offset '-1'");
	refused(model("w.bin", NULL, "1x"), -EBADMSG, "external data with length '1x'");
	refused(model("w.bin", "9999999999999999999", NULL), -EBADMSG, "external data with offset");
}
END_TEST

/* The daemon has no folder, and the error advises what to do. */
START_TEST(without_a_folder_the_file_is_named)
{
	struct pb m = model("w.bin", NULL, NULL);
	struct rvl_graph *g;

	ck_assert_int_eq(rvl_onnx_load(m.p, m.n, NULL, &g, &err), -EOPNOTSUPP);
	ck_assert_str_eq(err.msg, "tensor 'w' has its data in the file 'w.bin': use rivulet compile, which reads it, and load the program");
	free(m.p);
}
END_TEST

/* Compiles the model with the files of the folder. @hash: of the program */
static void compile_hash(const struct pb *m, const struct rivulet_compile_options *o, uint8_t *hash)
{
	struct rivulet_blob program = { 0 };

	ck_assert_msg(!rivulet_compile(m->p, m->n, NULL, o, &program, NULL, &err), "%s", err.msg);
	memcpy(hash, ((const struct rivulet_program *)program.data)->model_hash, 32);
	rivulet_blob_free(&program);
}

static uint8_t own[1 << 16] __attribute__((aligned(RIVULET_PROGRAM_ALIGN)));
static int released;

static void release_own(void *data, size_t size)
{
	ck_assert_ptr_eq(data, own);
	ck_assert_uint_gt(size, 0);
	released++;
}

static int reserve_own(void *arg, size_t size, struct rivulet_blob *out, struct rvl_err *e)
{
	if (size > *(const size_t *)arg)
		return rvl_fail(e, -ENOSPC, "no room for %zu bytes", size);
	*out = (struct rivulet_blob) { .data = own, .size = size, .release = release_own };
	return 0;
}

/* The caller limits the program, and gives the memory in which it is written. */
START_TEST(programs_are_written_where_the_caller_says)
{
	struct pb m = ot_model("in x f32 3; out y; const w f32 3 1 2 3; Add x w -> y", 13);
	struct rivulet_compile_options o = { .cpu_only = true };
	struct rivulet_blob heap = { 0 }, placed = { 0 };
	size_t room = sizeof(own);
	char text[128];

	ck_assert_msg(!rivulet_compile(m.p, m.n, NULL, &o, &heap, NULL, &err), "%s", err.msg);
	o.most_bytes = heap.size;
	o.reserve = reserve_own;
	o.reserve_arg = &room;
	ck_assert_msg(!rivulet_compile(m.p, m.n, NULL, &o, &placed, NULL, &err), "%s", err.msg);
	ck_assert_ptr_eq(placed.data, own);
	ck_assert_uint_eq(placed.size, heap.size);
	ck_assert_mem_eq(own, heap.data, heap.size);
	rivulet_blob_free(&placed);
	ck_assert_int_eq(released, 1);
	ck_assert_ptr_null(placed.data);
	room = 0;
	ck_assert_int_eq(rivulet_compile(m.p, m.n, NULL, &o, &placed, NULL, &err), -ENOSPC);
	o.most_bytes--;
	ck_assert_int_eq(rivulet_compile(m.p, m.n, NULL, &o, &placed, NULL, &err), -E2BIG);
	snprintf(text, sizeof(text), "the program has %zu bytes, more than %zu", heap.size, heap.size - 1);
	ck_assert_str_eq(err.msg, text);
	rivulet_blob_free(&heap);
	free(m.p);
}
END_TEST

/* Parts of one file are parts of one mapping; an empty part of an empty file is fine. */
START_TEST(a_file_is_mapped_once)
{
	struct rvl_beside b = { 0 };
	const void *p, *q;
	char path[128];

	write_in_folder("model/empty", "", 0);
	snprintf(path, sizeof(path), "%s/model/model.onnx", folder);
	ck_assert_int_eq(rvl_beside_open(&b, path), 0);
	ck_assert_int_eq(b.files.read(b.files.arg, "w.bin", 0, 16, &p, &err), 0);
	ck_assert_int_eq(b.files.read(b.files.arg, "w.bin", 4, 12, &q, &err), 0);
	ck_assert_ptr_eq(q, (const char *)p + 4);
	ck_assert_uint_eq(b.n, 1);
	ck_assert_int_eq(b.files.read(b.files.arg, "empty", 0, 0, &p, &err), 0);
	ck_assert_int_eq(b.files.read(b.files.arg, "empty", 0, 1, &p, &err), -EINVAL);
	b.mapped = RVL_BESIDE_MAX;
	b.taken = RVL_BESIDE_MAX - 12;
	ck_assert_int_eq(b.files.read(b.files.arg, "w.bin", 4, 12, &q, &err), 0);
	ck_assert_int_eq(b.files.read(b.files.arg, "w.bin", 0, 1, &q, &err), -E2BIG);
	rvl_beside_clear(&b);
}
END_TEST

/* Tensors that share the bytes of small files have a multiple of these, and what is free. */
START_TEST(shared_bytes_are_bounded)
{
	struct rvl_beside b = { 0 };
	const void *p;
	char path[128];

	write_in_folder("model/more", "0123456789abcdef", 16);
	snprintf(path, sizeof(path), "%s/model/model.onnx", folder);
	ck_assert_int_eq(rvl_beside_open(&b, path), 0);
	ck_assert_uint_eq(b.free, RVL_BESIDE_FREE);
	b.free = 8;
	for (int i = 0; i < RVL_BESIDE_SHARED; i++)
		ck_assert_int_eq(b.files.read(b.files.arg, "w.bin", 0, 16, &p, &err), 0);
	ck_assert_int_eq(b.files.read(b.files.arg, "w.bin", 0, 9, &p, &err), -E2BIG);
	ck_assert_str_eq(err.msg, "w.bin: the tensors have more than 72 bytes, from files of 16");
	ck_assert_int_eq(b.files.read(b.files.arg, "w.bin", 0, 8, &p, &err), 0);
	/* Bytes of another file may be shared as often. */
	ck_assert_int_eq(b.files.read(b.files.arg, "w.bin", 0, 1, &p, &err), -E2BIG);
	for (int i = 0; i < RVL_BESIDE_SHARED; i++)
		ck_assert_int_eq(b.files.read(b.files.arg, "more", 0, 16, &p, &err), 0);
	ck_assert_int_eq(b.files.read(b.files.arg, "more", 0, 1, &p, &err), -E2BIG);
	rvl_beside_clear(&b);
}
END_TEST

/* y = x + w, and tensors of 12 bytes of w.bin from each of the @n offsets. */
static struct pb sharing(const char *const *offset, int n)
{
	struct pb g = { .p = NULL }, y = { .p = NULL }, add = pb_node("Add", "x w0", "y");
	struct pb x = pb_value("x", 1, (const int64_t[]){ 3, -1 });

	pb_msg(&g, 1, &add);
	for (int i = 0; i < n; i++) {
		char name[16];
		struct pb t;

		snprintf(name, sizeof(name), "w%d", i);
		t = external_tensor(name, 1, "w.bin", offset[i], "12");
		pb_msg(&g, 5, &t);
	}
	pb_msg(&g, 11, &x);
	pb_str(&y, 1, "y");
	pb_msg(&g, 12, &y);
	return pb_model(&g, 8, 13);
}

/*
 * Bytes that several tensors have count once, for what the compiler may hold, for what it holds, and for
 * what it folds: a small model could else multiply a small file.
 */
START_TEST(shared_bytes_count_once)
{
	static const struct {
		const char *offset[4];
		int n;
		uint64_t bytes;
	} cases[] = { { { "0" }, 1, 12 },
		      { { "0", "0", "0", "0" }, 4, 12 },
		      { { "0", "4" }, 2, 16 },
		      { { "4", "0", "4", "0" }, 4, 16 } };
	char path[128];

	snprintf(path, sizeof(path), "%s/model/model.onnx", folder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const size_t limit = 1 << 20, per_byte = 100;
		struct pb m = sharing(cases[i].offset, cases[i].n);
		struct rvl_beside b = { 0 };
		struct rvl_onnx_opts o = { .files = &b.files, .memory = limit, .memory_per_byte = per_byte };
		struct rvl_graph *g;

		ck_assert_int_eq(rvl_beside_open(&b, path), 0);
		ck_assert_msg(!rvl_onnx_load(m.p, m.n, &o, &g, &err), "%s", err.msg);
		ck_assert_uint_eq(g->given, cases[i].bytes);
		ck_assert_uint_eq(rvl_arena_left(g->arena) + rvl_arena_held(g->arena),
				  limit + per_byte * cases[i].bytes);
		ck_assert_uint_eq(rvl_arena_held(g->arena) % 4096, cases[i].bytes);
		rvl_graph_free(g);
		rvl_beside_clear(&b);
		free(m.p);
	}
}
END_TEST

/*
 * Proves that a plan is stale, and a program of another model, when the data beside the model is
 * other data.
 */
START_TEST(other_data_is_another_model)
{
	const float other[] = { 9, 1, 5, 3 };
	struct rivulet_compile_options o = { .cpu_only = true };
	struct rivulet_plan plan = { .n_levels = 0 };
	struct pb m = model("w.bin", NULL, NULL);
	struct rvl_beside b = { 0 };
	struct rivulet_board board;
	uint8_t before[32], after[32], plain[32];
	char path[128];

	snprintf(path, sizeof(path), "%s/model/model.onnx", folder);
	ck_assert_int_eq(rvl_beside_open(&b, path), 0);
	o.files = &b.files;
	ck_assert_int_eq(rivulet_board_load(&board, "zu3eg-64", path, sizeof(path)), 0);
	compile_hash(&m, &o, before);
	rivulet_sha256(m.p, m.n, plain);
	ck_assert_mem_ne(before, plain, 32);
	ck_assert_msg(!rivulet_plan_bind(&plan, m.p, m.n, &board, &o, &err), "%s", err.msg);
	ck_assert_mem_eq(plan.model, before, 32);
	ck_assert_msg(!rivulet_plan_apply(&plan, m.p, m.n, &board, &o, &err), "%s", err.msg);
	write_in_folder("model/w.bin", other, sizeof(other));
	ck_assert_int_eq(rivulet_plan_apply(&plan, m.p, m.n, &board, &o, &err), -ESTALE);
	ck_assert_msg(strstr(err.msg, "the plan is of another model"), "%s", err.msg);
	o = (struct rivulet_compile_options){ .cpu_only = true, .files = &b.files };
	compile_hash(&m, &o, after);
	ck_assert_mem_ne(before, after, 32);
	rivulet_plan_clear(&plan);
	rvl_beside_clear(&b);
	free(m.p);
}
END_TEST

/* The hash of the program whose constant has these bytes in a file. */
static void hash_of_data(const struct pb *m, const struct rivulet_compile_options *o, const uint8_t *data,
			 uint8_t *hash)
{
	write_in_folder("model/w.bin", data, 16);
	compile_hash(m, o, hash);
}

/* Data whose checksum is that of other data, or that of no data, is another model all the same. */
START_TEST(equal_checksums_are_no_identity)
{
	static const uint8_t polynomial[] = { 0xf1, 0x76, 0xec, 0x05, 0x01 }; /* of CRC-32C, and x^32 */
	struct rivulet_compile_options o = { .cpu_only = true };
	struct pb m = model("w.bin", NULL, NULL);
	struct rvl_beside b = { 0 };
	uint8_t data[16] = { 0 }, other[16] = { 0 }, one[32], two[32];
	char path[128];

	snprintf(path, sizeof(path), "%s/model/model.onnx", folder);
	ck_assert_int_eq(rvl_beside_open(&b, path), 0);
	o.files = &b.files;
	for (size_t i = 0; i < sizeof(polynomial); i++)
		other[4 + i] = data[4 + i] ^ polynomial[i];
	ck_assert_uint_eq(rivulet_crc32c(0, data, 16), rivulet_crc32c(0, other, 16));
	hash_of_data(&m, &o, data, one);
	hash_of_data(&m, &o, other, two);
	ck_assert_mem_ne(one, two, 32);
	rivulet_sha256(m.p, m.n, two);
	ck_assert_mem_ne(one, two, 32);
	rvl_beside_clear(&b);
	free(m.p);
}
END_TEST

START_TEST(the_folder_must_exist)
{
	struct rvl_beside b = { 0 };

	ck_assert_int_eq(rvl_beside_open(&b, "/nonexistent/model.onnx"), RVL_EXIT_REFUSED);
	ck_assert_msg(strstr(rvl_tool_error, "the folder of /nonexistent/model.onnx"), "%s",
		      rvl_tool_error);
	ck_assert_int_eq(rvl_beside_open(&b, "model.onnx"), 0);
	rvl_beside_clear(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("external");
	TCase *t = add_case(s, "files", 10, make_folder, remove_folder);

	tcase_add_test(t, data_comes_from_files);
	tcase_add_test(t, paths_out_of_the_folder_are_refused);
	tcase_add_test(t, links_are_not_followed);
	tcase_add_test(t, files_must_hold_the_data);
	tcase_add_test(t, without_a_folder_the_file_is_named);
	tcase_add_test(t, programs_are_written_where_the_caller_says);
	tcase_add_test(t, a_file_is_mapped_once);
	tcase_add_test(t, shared_bytes_are_bounded);
	tcase_add_test(t, shared_bytes_count_once);
	tcase_add_test(t, other_data_is_another_model);
	tcase_add_test(t, equal_checksums_are_no_identity);
	tcase_add_test(t, the_folder_must_exist);
	return run_suite(s);
}

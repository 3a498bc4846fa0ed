// SPDX-License-Identifier: MIT
/*
 * Damaged program files with a valid checksum: kernel descriptors of every CPU operator, then whole
 * files on the linked model. Each file is refused with an error text, or runs to an end without an
 * access outside its memory: a guard page follows every operand.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"
#include "fuzz/change.h"
#include "kernel_seeds.h"
#include "rivulet_compiler.h"
#include "rivulet_kernels.h"
#include "rivulet_runtime.h"
#include "suite.h"

#define ROOM	     (1u << 20)	/* maximum size of an operand */
#define OPERANDS     (RVL_MAX_IN + RVL_MAX_OUT)
#define DESC_CASES   6000
#define FILE_CASES   1500
#define SCRATCH_MOST (32u << 20)

static uint64_t state;

static uint32_t rnd(uint32_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((state >> 33) % n);
}

/* Numbers at the limits of arithmetic and of the format. */
static uint32_t edge_value(uint32_t old)
{
	static const uint32_t v[] = { 0, 1, 2, 3, 4, 7, 8, 16, 255, 256, 4096, 65535, 65536,
				      1u << 20,
				      1u << 24, 1u << 28, 1u << 30, 0x7fffffff, 0x80000000,
					      0xffffffff,
				      0x7fc00000, 0x7f800000, 0xff800000, 0x00000001, 0x3f800000 };

	switch (rnd(4)) {
	case 0:
		return old + 1;
	case 1:
		return old - 1;
	case 2:
		return old ^ 1u << rnd(32);
	default:
		return v[rnd(sizeof(v) / sizeof(v[0]))];
	}
}

/* Returns @n, multiplied by the environment variable FUZZ_TIMES for a longer run. */
static int fuzz_cases(int n)
{
	const char *times = getenv("FUZZ_TIMES");

	return times ? n * atoi(times) : n;
}

/* ---- memory that ends at a guard page ---- */

static uint8_t *room[OPERANDS];

static void make_guarded(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (int i = 0; i < OPERANDS; i++) {
		room[i] = mmap(NULL, ROOM + page, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ck_assert(room[i] != MAP_FAILED);
		ck_assert(!mprotect(room[i] + ROOM, page, PROT_NONE));
		for (uint32_t j = 0; j < ROOM / 8; j++)
			((uint32_t *)room[i])[j] = rnd(2) ? edge_value(0x3f000000) :
				rnd(UINT32_MAX);
	}
}

static void *operand(int i, size_t size)
{
	return room[i] + ROOM - size;
}

/* ---- descriptors ---- */

/* Provides guarded memory for every operand. Returns false if one is too large. */
static bool give_operands(const struct rvl_kernel_desc *d, const void **in, void **out)
{
	for (uint32_t i = 0; i < d->n_in + d->n_out; i++) {
		const struct rvl_kernel_arg *a = i < d->n_in ? &d->in[i] : &d->out[i - d->n_in];
		uint64_t n = (uint64_t)rvl_shape_count(&a->shape) * rvl_type_size(a->type);
		void *p = a->type == RVL_TYPE_NONE ? NULL : operand((int)i, n < ROOM ? n : 0);

		if (n > ROOM)
			return false;
		if (i < d->n_in)
			in[i] = p;
		else
			out[i - d->n_in] = p;
	}
	return true;
}

static void bind_constants(struct rvl_kernel_desc *d, const void *const *in)
{
	for (uint32_t i = 1; i < d->n_in; i++)
		d->in[i].data = in[i];
}

/* Prepares and runs a descriptor as an image does. Returns whether it ran. */
static bool try_desc(struct rvl_kernel_desc *d)
{
	const void *in[RVL_MAX_IN] = { NULL };
	void *out[RVL_MAX_OUT] = { NULL };
	struct rvl_kernel *k;
	void *scratch = NULL;
	char why[RVL_WHY_MAX] = "";
	bool fits = give_operands(d, in, out);
	bool ran = false;
	int rc;

	if (fits && rnd(2))
		bind_constants(d, in);
	rc = rvl_kernel_new(d, rnd(2), &k, why);
	if (rc) {
		ck_assert_msg(rc != -EINVAL || why[0], "refused without a reason");
		return false;
	}
	if (fits && rvl_kernel_scratch(k) <= SCRATCH_MOST &&
	    !posix_memalign(&scratch, 64, rvl_kernel_scratch(k) + 1)) {
		rvl_kernel_run(k, in, out, scratch, NULL);
		ran = true;
	}
	free(scratch);
	rvl_kernel_free(k);
	return ran;
}

/* Replaces a number at all its positions, so that operands still fit each other. */
static void replace_all(uint32_t *word, uint32_t n, uint32_t at)
{
	uint32_t old = word[at], fresh = rnd(12);

	for (uint32_t i = 2; i < n; i++)
		if (word[i] == old)
			word[i] = fresh;
}

static void damage(uint32_t *word, uint32_t n)
{
	for (uint32_t i = 1 + rnd(3); i; i--) {
		uint32_t at = 2 + rnd(n - 2);

		if (!rnd(4))
			replace_all(word, n, at);
		else
			word[at] = rnd(8) ? edge_value(word[at]) : word[2 + rnd(n - 2)];
	}
}

START_TEST(descriptors)
{
	struct rvl_kernel_desc d;
	uint32_t sound[512], copy[512], ran = 0;
	int64_t size;

	state = 77 + (uint64_t)_i;
	make_guarded();
	seed_desc(&seeds[_i], &d);
	ck_assert_msg(try_desc(&d), "the seed of %s does not run", rvl_op_name(d.op));
	seed_desc(&seeds[_i], &d);
	size = rvl_desc_pack(&d, sound, sizeof(sound));
	ck_assert(size > 0 && size <= (int64_t)sizeof(sound));
	for (int i = 0; i < fuzz_cases(DESC_CASES); i++) {
		memcpy(copy, sound, (size_t)size);
		damage(copy, (uint32_t)size / 4);
		if (!rvl_desc_unpack(copy, (size_t)size, &d))
			ran += try_desc(&d);
	}
	ck_assert_uint_gt(ran, DESC_CASES / 100);
}
END_TEST

/* ---- whole files ---- */

static const char *const models[] = {
	"models/lenet.onnx", "tests/data/qdq/residual_u8/model.onnx",
	"tests/data/qdq/gap_gemm_s8/model.onnx", "tests/data/qdq/qlinear_u8/model.onnx",
};

#define MODELS (int)(sizeof(models) / sizeof(models[0]))

static void compile(const char *path, bool cpu_only, const struct rivulet_board *board,
		    struct rivulet_blob *out)
{
	struct rivulet_compile_options opt = { .cpu_only = cpu_only };
	struct rvl_err err = { "" };
	size_t size;
	void *onnx = read_file(path, &size);

	ck_assert_msg(!rivulet_compile(onnx, size, board, &opt, out, NULL, &err), "%s", err.msg);
	free(onnx);
}

/*
 * Returns an offset at which a change has an effect: mostly in the tables, sometimes in parameters,
 * commands or weights.
 */
static uint64_t place(const struct rivulet_program *p)
{
	switch (rnd(8)) {
	case 0:
		return rnd(sizeof(*p));
	case 1:
	case 2:
		return p->tensors_off + rnd(p->tensors * (uint32_t)sizeof(struct rivulet_tensor));
	case 3:
	case 4:
		return p->steps_off + rnd(p->steps * (uint32_t)sizeof(struct rivulet_step));
	case 5:
		return p->cmd_size ? p->cmd_off + rnd((uint32_t)p->cmd_size) : 0;
	case 6:
		return p->params_size ? p->params_off + rnd((uint32_t)p->params_size) : 0;
	default:
		return rnd((uint32_t)p->size);
	}
}

/* Every second file is changed as a whole, the others in single words. */
static void mutate(const struct rivulet_blob *good, uint8_t *file)
{
	memcpy(file, good->data, good->size);
	if (rnd(2) && fuzz_change_program(file, good->size, &state))
		return;
	for (uint32_t n = 1 + rnd(3); n; n--) {
		uint64_t at = place(good->data) / 4 * 4;
		uint32_t v;

		memcpy(&v, file + at, sizeof(v));
		v = edge_value(v);
		memcpy(file + at, &v, sizeof(v));
	}
	fuzz_set_checksum(file, good->size);
}

/* Provides guarded memory for what a caller binds. Returns false if a tensor is too large. */
static bool bind_all(struct rivulet_exec *x)
{
	const struct rivulet_program *p = rivulet_image_program(rivulet_exec_image(x));
	const struct rivulet_tensor *t = rivulet_program_tensors(p);
	struct rivulet_runtime_error err = { "" };

	if (p->inputs + p->outputs > OPERANDS)
		return false;
	for (uint32_t i = 0; i < p->inputs + p->outputs; i++) {
		uint64_t size = (t[i].size + 7) / 8 * 8;

		if (size > ROOM)
			return false;
		ck_assert_msg(!rivulet_exec_bind_memory(x, i, operand((int)i, size), t[i].size,
			      &err), "%s", err.text);
	}
	return true;
}

/* Returns 0: refused, 1: loaded, 2: ran to its end, 3: failed at run time with an error text. */
static int try_file(struct rivulet_runtime *rt, const void *file, size_t size)
{
	struct rivulet_runtime_error err = { "" };
	struct rivulet_image *img;
	struct rivulet_exec *x;
	int rc = rivulet_image_load(rt, file, size, &img, &err);

	if (rc) {
		ck_assert_uint_gt(strlen(err.text), 10);
		return 0;
	}
	rc = rivulet_exec_new(img, &x, &err);
	rivulet_image_unref(img);
	if (rc)
		return 0;
	rc = 1;
	if (bind_all(x) && !rivulet_exec_start(x, NULL, &err)) {
		rc = rivulet_exec_wait(x, 60000) ? 3 : 2;
		if (rc == 3)
			ck_assert_uint_gt(strlen(rivulet_exec_result(x)->text), 10);
	}
	rivulet_exec_unref(x);
	return rc;
}

/*
 * Half of the tests compile without the NPU, so that every layer is a CPU step; the last one for a
 * board that computes by bit planes only.
 */
START_TEST(files)
{
	struct rivulet_blob good = { 0 };
	struct rivulet_workers *workers;
	struct rivulet_runtime_error err;
	struct rivulet_runtime *rt;
	struct rivulet_board board;
	uint32_t count[4] = { 0 };
	const char *name = _i == 2 * MODELS ? "cyclonev-64-nodsp" : "zu3eg-64";
	const char *model = models[_i / 2 % MODELS];
	char why[256];
	uint8_t *file;

	state = 1000 + (uint64_t)_i;
	make_guarded();
	ck_assert_msg(!rivulet_board_load(&board, name, why, sizeof(why)), "%s", why);
	compile(model, _i % 2, &board, &good);
	ck_assert(!rivulet_workers_new(2, &workers));
	ck_assert_msg(!rivulet_runtime_new_sim(&board, workers, &rt, &err), "%s", err.text);
	file = aligned_alloc(64, (good.size + 63) / 64 * 64);
	memcpy(file, good.data, good.size);
	ck_assert_int_eq(try_file(rt, file, good.size), 2);
	for (int i = 0; i < fuzz_cases(FILE_CASES); i++) {
		mutate(&good, file);
		count[try_file(rt, file, good.size)]++;
	}
	printf("%s, %s: %u refused, %u loaded only, %u ran, %u failed in the run\n", model,
	       _i % 2 ? "CPU" : name, count[0], count[1], count[2], count[3]);
	ck_assert_uint_gt(count[0], FILE_CASES / 20);
	ck_assert_uint_gt(count[2], FILE_CASES / 20);
	memcpy(file, good.data, good.size);
	ck_assert_int_eq(try_file(rt, file, good.size), 2);
	free(file);
	rivulet_runtime_unref(rt);
	rivulet_workers_unref(workers);
	rivulet_blob_free(&good);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fuzz_program");
	TCase *t = tcase_create("hostile");

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, descriptors, 0, SEEDS);
	tcase_add_loop_test(t, files, 0, 2 * MODELS + 1);
	suite_add_tcase(s, t);
	return run_suite(s);
}

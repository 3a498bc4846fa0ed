/* SPDX-License-Identifier: MIT */
/*
 * Lack of memory: every allocation of a compilation, of loading and running a program, and of other
 * work of the libraries fails once, one at a time. The call must return -ENOMEM with a text, leak
 * nothing and leave no partial result. The linker redirects the libraries' allocations to this
 * file. A run on the CPU after the first one makes no allocation at all, and runs at once agree.
 */
#include <check.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "rivulet_compiler.h"
#include "rivulet_eval.h"
#include "rivulet_plan.h"
#include "rivulet_program.h"
#include "rivulet_runtime.h"
#include "suite.h"
#include "unit/onnx_text.h"

/* ---- allocations that fail ---- */

static atomic_long allocations;		/* number since the start of the call */
static atomic_long fail_at = -1;	/* number of the allocation that fails, or -1 */
static atomic_long held;		/* allocations that are not freed yet */

static bool fails(void)
{
	return atomic_fetch_add(&allocations, 1) == atomic_load(&fail_at);
}

static void *counted(void *p)
{
	atomic_fetch_add(&held, p != NULL);
	return p;
}

/*
 * F(type, function, parameters, arguments): functions that return an allocation or NULL. The stream
 * of open_memstream() is closed by its owner, and its text is freed by free().
 */
#define ALLOCATORS(F)                                                                              \
	F(void *, malloc, (size_t size), (size))                                                   \
	F(void *, calloc, (size_t n, size_t size), (n, size))                                      \
	F(void *, aligned_alloc, (size_t align, size_t size), (align, size))                       \
	F(char *, strdup, (const char *s), (s))                                                    \
	F(char *, strndup, (const char *s, size_t n), (s, n))                                      \
	F(FILE *, open_memstream, (char **p, size_t *size), (p, size))

/* The same for functions that resize @p; the allocation is counted when @p is NULL. */
#define RESIZERS(F)                                                                                \
	F(void *, realloc, (void *p, size_t size), (p, size))                                      \
	F(void *, reallocarray, (void *p, size_t n, size_t size), (p, n, size))

#define DECLARE(type, function, parameters)                                                        \
	type __real_##function parameters;                                                         \
	type __wrap_##function parameters;
#define ALLOCATE(type, function, parameters, arguments)                                            \
	DECLARE(type, function, parameters)                                                        \
	type __wrap_##function parameters                                                          \
	{                                                                                          \
		return fails() ? NULL : counted(__real_##function arguments);                      \
	}
#define RESIZE(type, function, parameters, arguments)                                              \
	DECLARE(type, function, parameters)                                                        \
	type __wrap_##function parameters                                                          \
	{                                                                                          \
		if (fails())                                                                       \
			return NULL;                                                               \
		return p ? __real_##function arguments : counted(__real_##function arguments);     \
	}

ALLOCATORS(ALLOCATE)
RESIZERS(RESIZE)
DECLARE(int, posix_memalign, (void **out, size_t align, size_t size))
DECLARE(int, vasprintf, (char **out, const char *format, va_list args))
DECLARE(void, free, (void *p))

int __wrap_posix_memalign(void **out, size_t align, size_t size)
{
	int r = fails() ? ENOMEM : __real_posix_memalign(out, align, size);

	atomic_fetch_add(&held, !r);
	return r;
}

int __wrap_vasprintf(char **out, const char *format, va_list args)
{
	int n = fails() ? -1 : __real_vasprintf(out, format, args);

	atomic_fetch_add(&held, n >= 0);
	return n;
}

void __wrap_free(void *p)
{
	atomic_fetch_sub(&held, p != NULL);
	__real_free(p);
}

/* ---- the calls ---- */

static struct rivulet_board board;
static struct rvl_err err;
static void *onnx;
static size_t onnx_size;
/* a call failed but left a result; it is checked later, because Check allocates memory, too */
static bool half_made;
static struct rivulet_blob program;	/* of the runtime's tests */

static int compile_with(const struct rivulet_compile_options *o)
{
	struct rivulet_blob out = { 0 };
	struct rivulet_explain e = { .n_rows = 0 };
	int rc = rivulet_compile(onnx, onnx_size, &board, o, &out, &e, &err);

	half_made |= rc && out.data;
	rivulet_blob_free(&out);
	if (!rc)
		rivulet_explain_free(&e);
	return rc;
}

static int compile_int8(void)
{
	return compile_with(NULL);
}

static int compile_streams(void)
{
	static const char *const keep[] = { "first" };
	struct rivulet_compile_options o = { .stochastic = true, .keep_int8 = keep,
					     .n_keep_int8 = 1, .length = { 16, 32 } };

	return compile_with(&o);
}

static int compile_cpu(void)
{
	struct rivulet_compile_options o = { .cpu_only = true };

	return compile_with(&o);
}

static struct pb moving;	/* a model that slices and joins */

/* An operator whose operands could not be looked at is not taken for one that must copy. */
static int compile_moves(void)
{
	const struct rivulet_compile_options o = { .cpu_only = true };
	struct rivulet_blob out = { 0 };
	int rc = rivulet_compile(moving.p, moving.n, NULL, &o, &out, NULL, &err);

	half_made |= rc && out.data;
	rivulet_blob_free(&out);
	return rc;
}

static int explain_texts(void)
{
	struct rivulet_blob text = { 0 }, json = { 0 };
	struct rivulet_explain e = { .n_rows = 0 };
	int rc = rivulet_explain_model(onnx, onnx_size, &board, NULL, &e, &err);

	if (rc)
		return rc;
	rc = rivulet_explain_text(&e, &text);
	if (!rc)
		rc = rivulet_explain_json(&e, &json);
	if (rc)
		snprintf(err.msg, sizeof(err.msg), "no text: the call reports a number only");
	rivulet_blob_free(&text);
	rivulet_blob_free(&json);
	rivulet_explain_free(&e);
	return rc;
}

static int evaluate(void)
{
	static float image[784], scores[10];
	struct rivulet_compile_options o = { .stochastic = true, .batch = 1 };
	struct rivulet_eval_data d = { .f32 = image, .count = 1, .size = 784 };
	struct rivulet_eval_spec s = { .length = 32 };
	struct rivulet_eval *e = NULL;
	int64_t n = 0;
	int rc = rivulet_eval_new(onnx, onnx_size, &o, &e, &err);

	if (rc)
		return rc;
	rc = rivulet_eval_scales(e, RIVULET_SC_AND_SEP, &d, &err);
	if (!rc)
		n = rivulet_eval_scores(e, &s, &d, 0, scores, &err);
	rivulet_eval_free(e);
	return rc ? rc : n < 0 ? (int)n : 0;
}

static int plan(void)
{
	struct rivulet_compile_options o = { .batch = 1 };
	struct rivulet_blob text = { 0 };
	struct rivulet_plan p = { 0 }, q = { 0 };
	int rc = rivulet_plan_bind(&p, onnx, onnx_size, &board, &o, &err);

	p.n_levels = 1;
	p.level[0] = (struct rivulet_plan_entry){ .hz = 1400000000, .microvolt = 1275000,
						  .length = 33,
		.accuracy = 876000, .chosen = 874200, .held = 877800, .time_ns = 75547244,
			.energy_pj = 1 };
	if (!rc)
		rc = rivulet_plan_text(&p, &text);
	if (rc)
		snprintf(err.msg, sizeof(err.msg), "no text: the call reports a number only");
	if (!rc)
		rc = rivulet_plan_parse(&q, text.data, text.size, &err);
	rivulet_plan_clear(&p);
	rivulet_plan_clear(&q);
	rivulet_blob_free(&text);
	return rc;
}

static int load_and_run(struct rivulet_runtime *rt, struct rivulet_runtime_error *why)
{
	static float in[784], out[10];
	struct rivulet_image *img = NULL;
	struct rivulet_exec *x = NULL;
	int rc = rivulet_image_load(rt, program.data, program.size, &img, why);

	if (!rc)
		rc = rivulet_exec_new(img, &x, why);
	rivulet_image_unref(img);
	if (!rc)
		rc = rivulet_exec_bind_memory(x, 0, in, sizeof(in), why);
	if (!rc)
		rc = rivulet_exec_bind_memory(x, 1, out, sizeof(out), why);
	if (!rc)
		rc = rivulet_exec_start(x, NULL, why);
	if (!rc) {
		rc = rivulet_exec_wait(x, 60000);
		snprintf(why->text, sizeof(why->text), "the result of a run is a number");
	}
	rivulet_exec_unref(x);
	return rc;
}

static int run_program_file(void)
{
	struct rivulet_workers *pool = NULL;
	struct rivulet_runtime *rt = NULL;
	struct rivulet_runtime_error why = { 0 };
	int rc = rivulet_workers_new(2, &pool);

	if (rc)
		snprintf(err.msg, sizeof(err.msg), "no text: the call reports a number only");
	if (!rc)
		rc = rivulet_runtime_new_sim(&board, pool, &rt, &why);
	if (!rc)
		rc = load_and_run(rt, &why);
	rivulet_runtime_unref(rt);
	rivulet_workers_unref(pool);
	if (rc && why.text[0])
		snprintf(err.msg, sizeof(err.msg), "%.200s", why.text);
	return rc;
}

static const struct call {
	const char *name;
	int (*run)(void);
	const char *board;
	bool model;	/* the call runs the device model */
} calls[] = {
	{ "compile", compile_int8, "zu3eg-64", false },
	{ "compile streams", compile_streams, "sc-edge", false },
	{ "compile for the CPU", compile_cpu, "zu3eg-64", false },
	{ "compile views", compile_moves, "zu3eg-64", false },
	{ "explain", explain_texts, "zu3eg-64", false },
	{ "evaluate", evaluate, "sc-edge", false },
	{ "plan", plan, "sc-edge", false },
	{ "run", run_program_file, "zu3eg-64", true },
};

static void setup(void)
{
	char why[256];

	onnx = read_file("models/lenet.onnx", &onnx_size);
	moving = ot_model("in x f32 4,6; out y; const from s64 1 1; const to s64 1 3; "
			  "Relu x -> a; Slice a from to -> b; Concat b a -> c axis=0; Relu c -> y", 13);
	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
	ck_assert(!rivulet_compile(onnx, onnx_size, &board, NULL, &program, NULL, &err));
}

static void teardown(void)
{
	rivulet_blob_free(&program);
	free(onnx);
	free(moving.p);
}

/* Runs a call whose allocation @k fails. Returns whether it made that many allocations. */
static bool try_one(const struct call *c, long k)
{
	long before = atomic_load(&held);
	bool reached;
	int rc;

	err.msg[0] = '\0';
	atomic_store(&allocations, 0);
	atomic_store(&fail_at, k);
	rc = c->run();
	atomic_store(&fail_at, -1);
	reached = atomic_load(&allocations) > k;
	ck_assert(!half_made);
	ck_assert_msg(atomic_load(&held) == before, "%s: allocation %ld fails: %ld are kept",
		      c->name, k, atomic_load(&held) - before);
	/*
	 * Without memory the device model computes slowly or reports FAULT_INTERNAL as a device
	 * would.
	 */
	ck_assert_msg(rc == (reached ? -ENOMEM : 0) || (reached && c->model && (!rc || rc == -EIO)),
		      "%s: allocation %ld fails: %d, %s", c->name, k, rc, err.msg);
	ck_assert_msg(!rc || err.msg[0], "%s: allocation %ld fails without a text", c->name, k);
	return reached;
}

START_TEST(every_allocation_fails_once)
{
	const struct call *c = &calls[_i];
	char why[256];
	long k = 0;

	ck_assert_msg(!rivulet_board_load(&board, c->board, why, sizeof(why)), "%s", why);
	/*
	 * The first call leaves what a thread keeps for its next run, such as the scratch memory of
	 * operators.
	 */
	ck_assert_int_eq(c->run(), 0);
	/* Behind the first thousand, a call repeats what it has done before for other candidates. */
	srand(1);
	while (try_one(c, k))
		k += case_step() * (k < 1000 ? 1 : 4 + rand() % 8);
	ck_assert_int_gt(k, 3);
}
END_TEST

/* ---- runs that allocate nothing ---- */

/* Products, windows, images, recurrence, sorting, moves and shapes that only a run knows. */
static const char mixed[] =
	"in x f32 2,8,24,24; const w f32 16,8,3,3 ~0.2; const dw f32 16,1,3,3 ~0.5; const v f32 16,8,1,1 ~0.5;"
	"const r f32 0; const s f32 4 1 1 2 2; const m f32 256,64 ~0.1; const flat s64 2 2 2304;"
	"const long f32 2304,256 ~0.05; const lw f32 1,128,64 ~0.2; const lr f32 1,128,32 ~0.3;"
	"const g f32 64 1; const k s64 1 5; const q f32 - 0.05; const z u8 - 128; const zero f32 - 0.1;"
	"const ax s64 1 0; const fold s64 3 1 2 64;"
	"Conv x w -> a pads=[1,1,1,1]; Conv a dw -> b pads=[1,1,1,1] group=16; Conv x v -> c; Add b c -> d;"
	"Relu d -> e; QuantizeLinear e q z -> eq; DequantizeLinear eq q z -> ef;"
	"MaxPool ef -> f kernel_shape=[2,2] strides=[2,2]; Resize f r s -> h mode='linear';"
	"Concat h e -> i axis=1; Transpose i -> j perm=[0,2,3,1]; Softmax j -> n axis=-1;"
	"ReduceMean n -> o axes=[2] keepdims=0; Reshape f flat -> l; MatMul l long -> t; Tanh t -> u;"
	"Gemm u m -> y1; LayerNormalization y1 g -> y2; Reshape y2 fold -> seq;"
	"LSTM seq lw lr -> hid hidden_size=32; TopK y2 k -> best where; Greater y2 zero -> yes; NonZero yes -> at;"
	"out o; out hid; out best; out at";

#define MIXED_IO 5

struct copy {
	struct rivulet_exec *x;
	void *io[MIXED_IO];
};

static struct rivulet_blob mixed_program(void)
{
	const struct rivulet_compile_options o = { .cpu_only = true };
	struct pb model = ot_model(mixed, 17);
	struct rivulet_blob out = { 0 };

	ck_assert_msg(!rivulet_compile(model.p, model.n, &board, &o, &out, NULL, &err), "%s", err.msg);
	free(model.p);
	return out;
}

static void make_copy(struct rivulet_image *img, const struct rivulet_program *p, uint64_t seed, struct copy *c)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(p);
	struct rivulet_runtime_error why;

	ck_assert_uint_eq(p->inputs + p->outputs, MIXED_IO);
	ck_assert_msg(!rivulet_exec_new(img, &c->x, &why), "%s", why.text);
	for (uint32_t i = 0; i < MIXED_IO; i++) {
		c->io[i] = calloc(1, t[i].size);
		ck_assert_msg(!rivulet_exec_bind_memory(c->x, i, c->io[i], t[i].size, &why), "%s", why.text);
	}
	for (uint64_t i = 0; i < t[0].size / sizeof(float); i++)
		((float *)c->io[0])[i] = (float)((i + seed) * 7919 % 1000) / 500 - 1;
}

static void free_copy(struct copy *c)
{
	rivulet_exec_unref(c->x);
	for (uint32_t i = 0; i < MIXED_IO; i++)
		free(c->io[i]);
}

/* Without the macros of Check, which allocate. */
static int run_here(struct copy *c)
{
	const struct rivulet_exec_params params = { .waits = true };
	struct rivulet_runtime_error why;
	int rc = rivulet_exec_start(c->x, &params, &why);

	return rc ? rc : rivulet_exec_wait(c->x, -1);
}

struct machine {
	struct rivulet_blob program;
	struct rivulet_workers *pool;
	struct rivulet_runtime *rt;
	struct rivulet_image *img;
};

static void open_machine(uint32_t threads, struct machine *m)
{
	struct rivulet_runtime_error why;

	m->program = mixed_program();
	ck_assert_int_eq(rivulet_workers_new(threads, &m->pool), 0);
	ck_assert_msg(!rivulet_runtime_new_sim(&board, m->pool, &m->rt, &why), "%s", why.text);
	ck_assert_msg(!rivulet_image_load(m->rt, m->program.data, m->program.size, &m->img, &why), "%s",
		      why.text);
}

static void close_machine(struct machine *m)
{
	rivulet_image_unref(m->img);
	rivulet_runtime_unref(m->rt);
	rivulet_workers_unref(m->pool);
	rivulet_blob_free(&m->program);
}

/* The calling thread runs the steps, and a worker helps in their loops; the first run leaves scratch. */
START_TEST(runs_allocate_nothing)
{
	struct machine m;
	struct copy c;
	long during;
	int rc = 0;

	open_machine(1 + (uint32_t)_i, &m);
	make_copy(m.img, m.program.data, 0, &c);
	ck_assert_int_eq(run_here(&c), 0);
	atomic_store(&allocations, 0);
	for (int i = 0; i < 3 && !rc; i++)
		rc = run_here(&c);
	during = atomic_load(&allocations);
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(during, 0);
	free_copy(&c);
	close_machine(&m);
}
END_TEST

#define AT_ONCE 4

/*
 * Several runs of different examples at once on one, two or three threads: each has the bits of a run of its
 * example that is alone on one thread.
 */
START_TEST(runs_at_once_agree)
{
	const struct rivulet_tensor *t;
	struct rivulet_runtime_error why;
	struct copy want[AT_ONCE], c[AT_ONCE];
	struct machine alone, m;

	open_machine(1, &alone);
	open_machine(1 + (uint32_t)_i, &m);
	t = rivulet_program_tensors(m.program.data);
	for (int i = 0; i < AT_ONCE; i++) {
		make_copy(alone.img, alone.program.data, 100 * (uint64_t)i, &want[i]);
		ck_assert_int_eq(run_here(&want[i]), 0);
		make_copy(m.img, m.program.data, 100 * (uint64_t)i, &c[i]);
	}
	for (uint32_t k = 1; k < MIXED_IO; k++)
		ck_assert_mem_ne(want[0].io[k], want[1].io[k], t[k].size);
	for (int i = 0; i < AT_ONCE; i++)
		ck_assert_int_eq(rivulet_exec_start(c[i].x, NULL, &why), 0);
	for (int i = 0; i < AT_ONCE; i++) {
		ck_assert_int_eq(rivulet_exec_wait(c[i].x, -1), 0);
		for (uint32_t k = 1; k < MIXED_IO; k++)
			ck_assert_mem_eq(c[i].io[k], want[i].io[k], t[k].size);
		free_copy(&c[i]);
		free_copy(&want[i]);
	}
	close_machine(&m);
	close_machine(&alone);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("nomem");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, every_allocation_fails_once, 0, sizeof(calls) / sizeof(calls[0]));
	tcase_add_loop_test(t, runs_allocate_nothing, 0, 2);
	tcase_add_loop_test(t, runs_at_once_agree, 0, 3);
	suite_add_tcase(s, t);
	return run_suite(s);
}

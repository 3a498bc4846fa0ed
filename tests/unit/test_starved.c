/* SPDX-License-Identifier: MIT */
/*
 * A graph whose memory is used up. Every request to a graph's arena is refused once, one at a time,
 * while models that use all parts of the compiler are read, quantised, optimised, placed and
 * compiled. Each time the result must be -ENOMEM with a text. The linker redirects the requests to
 * this file.
 */
#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/onnx.h"
#include "pass/passes.h"
#include "files.h"
#include "rivulet_compiler.h"
#include "suite.h"
#include "unit/pbuild.h"

static long asked;	    /* requests since the start of the call */
static long refuse_at = -1; /* number of the one that is refused, or -1 */
static long after;	    /* number of requests after the refused one */

void *__real_rvl_arena_alloc(struct rvl_arena *a, size_t bytes);
void *__real_rvl_arena_array(struct rvl_arena *a, size_t n, size_t size);
char *__real_rvl_arena_strndup(struct rvl_arena *a, const char *s, size_t len);
void *__wrap_rvl_arena_alloc(struct rvl_arena *a, size_t bytes);
void *__wrap_rvl_arena_array(struct rvl_arena *a, size_t n, size_t size);
char *__wrap_rvl_arena_strndup(struct rvl_arena *a, const char *s, size_t len);

static bool refused(void)
{
	after += refuse_at >= 0 && asked > refuse_at;
	return asked++ == refuse_at;
}

/* No arena has that much memory, so the arena refuses the request itself. */
void *__wrap_rvl_arena_alloc(struct rvl_arena *a, size_t bytes)
{
	return __real_rvl_arena_alloc(a, refused() ? SIZE_MAX : bytes);
}

void *__wrap_rvl_arena_array(struct rvl_arena *a, size_t n, size_t size)
{
	return refused() ? __real_rvl_arena_array(a, SIZE_MAX, 2) :
			   __real_rvl_arena_array(a, n, size);
}

char *__wrap_rvl_arena_strndup(struct rvl_arena *a, const char *s, size_t len)
{
	return __real_rvl_arena_strndup(a, s, refused() ? SIZE_MAX - 1 : len);
}

static struct rivulet_board board;
static struct rvl_err err;

static void load_board(void)
{
	char why[256];

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
}

/* ---- models ---- */

struct model {
	uint8_t *p;
	size_t n;
};

static const char *const recorded[] = {
	"add_const_u8",	   "batch_norm_s8", "clip_binding_s8", "conv_float_bias_u8",
	"conv_grouped_s8", "conv_relu_u8",  "gap_gemm_s8",     "matmul_s8",
	"mlp_u8",	   "pools_u8",	    "qlinear_s8",      "relu_any_zero_point_u8",
	"residual_u8",	   "transpose_s8",
};

#define RECORDED ((int)(sizeof(recorded) / sizeof(recorded[0])))

static struct model read_model(int i)
{
	struct model m;
	char path[256];

	snprintf(path, sizeof(path), "tests/data/qdq/%s/model.onnx", recorded[i]);
	m.p = read_file(path, &m.n);
	return m;
}

#define F32	  1
#define S64	  7
#define DIMS(...) ((const int64_t[]){ __VA_ARGS__, -1 })

static void put_floats(struct pb *g, const char *name, const int64_t *dims)
{
	float v[256];
	int64_t n = 1;
	struct pb t;

	for (const int64_t *d = dims; *d >= 0; d++)
		n *= *d;
	for (int64_t i = 0; i < n; i++)
		v[i] = (float)(i * 7 % 11 + 1) / 16;
	t = pb_tensor(name, F32, dims, v, (size_t)n * sizeof(*v));
	pb_msg(g, 5, &t);
}

static void put_node(struct pb *g, const char *op, const char *in, const char *out)
{
	struct pb n = pb_node(op, in, out);

	pb_msg(g, 1, &n);
}

static void put_window(struct pb *g, const char *op, const char *in, const char *out)
{
	struct pb n = pb_node(op, in, out);

	pb_attr_ints(&n, "kernel_shape", DIMS(2, 2), 2);
	pb_attr_ints(&n, "strides", DIMS(2, 2), 2);
	pb_msg(g, 1, &n);
}

/* A float network: folding, normalisation, clamps, pools, constants, a second output, float on the
 * CPU at the end. */
static struct model float_model(void)
{
	struct pb g = { .p = NULL }, v = pb_value("x", F32, DIMS(1, 2, 8, 8)), n, m;

	put_node(&g, "Identity", "x", "x1");
	put_node(&g, "Conv", "x1 w1 b1", "c1");
	put_node(&g, "BatchNormalization", "c1 gamma beta mean var", "n1");
	put_node(&g, "Clip", "n1 lo hi", "r1");
	put_window(&g, "MaxPool", "r1", "p1");
	put_node(&g, "Relu", "p1", "p2");
	put_node(&g, "Conv", "p2 w2", "c2");
	put_node(&g, "Add", "c2 p2", "s1");
	put_node(&g, "Mul", "s1 half", "s2");
	put_window(&g, "AveragePool", "s2", "p3");
	put_node(&g, "Flatten", "p3", "f1");
	put_node(&g, "Gemm", "f1 w3 b3", "g1");
	n = pb_node("Constant", "", "three");
	pb_attr_ints(&n, "value_ints", DIMS(1, 3), 2);
	pb_msg(&g, 1, &n);
	put_node(&g, "Reshape", "g1 three", "g2");
	put_node(&g, "Softmax", "g2", "y");
	put_node(&g, "GlobalAveragePool", "s2", "z");
	put_floats(&g, "w1", DIMS(4, 2, 3, 3));
	put_floats(&g, "b1", DIMS(4));
	put_floats(&g, "gamma", DIMS(4));
	put_floats(&g, "beta", DIMS(4));
	put_floats(&g, "mean", DIMS(4));
	put_floats(&g, "var", DIMS(4));
	put_floats(&g, "lo", DIMS(1));
	put_floats(&g, "hi", DIMS(1));
	put_floats(&g, "half", DIMS(1));
	put_floats(&g, "w2", DIMS(4, 4, 1, 1));
	put_floats(&g, "w3", DIMS(4, 3));
	put_floats(&g, "b3", DIMS(3));
	pb_msg(&g, 11, &v);
	v = pb_value("y", F32, DIMS(1, 3));
	pb_msg(&g, 12, &v);
	v = pb_value("z", F32, DIMS(1, 4, 1, 1));
	pb_msg(&g, 12, &v);
	m = pb_model(&g, 8, 13);
	return (struct model){ m.p, m.n };
}

/* ---- reading and optimising ---- */

static int infer(struct rvl_graph *g, struct rvl_err *e)
{
	return rvl_shape_infer(g, e);
}

/*
 * A stage must make no further request after a refused one. Requests that it made together with the
 * refused one are checked together; there are at most four.
 */
static void check_stage(const char *name, int rc)
{
	if (refuse_at < 0 || asked <= refuse_at)
		return;
	ck_assert_msg(rc == -ENOMEM, "%s: request %ld is refused: %d, %s", name, refuse_at, rc,
		      err.msg);
	ck_assert_msg(err.msg[0], "%s: request %ld is refused without a text", name, refuse_at);
	ck_assert_msg(after <= 3, "%s: request %ld is refused, %ld more follow", name, refuse_at,
		      after);
}

/*
 * Whether a pass succeeds when a request was refused, because a pattern without memory for its
 * parameters looks like one that does not apply. rvl_optimise() asks the arena after each pass.
 */
static bool goes_on(const char *pass)
{
	static const char *const passes[] = { "fuse", "fold-bn", "blend", "binary", "slopes" };

	for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++)
		if (!strcmp(pass, passes[i]))
			return true;
	return false;
}

static void read_and_optimise(const struct model *m)
{
	struct rvl_graph *g = NULL, *copy = NULL;
	int rc = rvl_onnx_load(m->p, m->n, NULL, &g, &err);

	check_stage("load", rc);
	if (!rc) {
		rc = infer(g, &err);
		if (!rvl_arena_failed(g->arena))
			ck_assert_msg(!rc, "%s", err.msg);
		else
			rc = -ENOMEM;
	}
	if (!rc)
		g->reconstruct = true;
	for (unsigned int i = 0; i < rvl_n_passes && !rc; i++) {
		rc = rvl_passes[i].run(g, &err);
		if (!rc && rvl_arena_failed(g->arena) && goes_on(rvl_passes[i].name))
			rc = -ENOMEM;
		else
			check_stage(rvl_passes[i].name, rc);
	}
	if (!rc) {
		rc = rvl_graph_clone(g, &copy, &err);
		check_stage("clone", rc);
	}
	rvl_graph_free(copy);
	rvl_graph_free(g);
}

static void refuse_each(const struct model *m, void (*call)(const struct model *m))
{
	asked = 0;
	call(m);
	ck_assert_int_gt(asked, 50);
	for (refuse_at = 0; !refuse_at || asked >= refuse_at; refuse_at++) {
		asked = after = 0;
		err.msg[0] = '\0';
		call(m);
	}
	refuse_at = -1;
}

START_TEST(no_pass_asks_again)
{
	struct model m = _i < RECORDED ? read_model(_i) : float_model();

	refuse_each(&m, read_and_optimise);
	free(m.p);
}
END_TEST

/* ---- all of the compiler ---- */

static void expect_no_memory(int rc)
{
	bool reached = refuse_at >= 0 && asked > refuse_at;

	ck_assert_msg(rc == (reached ? -ENOMEM : 0), "request %ld is refused: %d, %s", refuse_at,
		      rc, err.msg);
	ck_assert_msg(!rc || err.msg[0], "request %ld is refused without a text", refuse_at);
}

static void optimise(const struct model *m)
{
	struct rvl_graph *g = NULL;
	int rc = rvl_onnx_load(m->p, m->n, NULL, &g, &err);

	if (!rc)
		rc = rvl_optimise(g, &err);
	expect_no_memory(rc);
	rvl_graph_free(g);
}

static void compile_with(const struct model *m, const struct rivulet_compile_options *o)
{
	struct rivulet_blob out = { 0 };
	struct rivulet_explain e = { .n_rows = 1 };
	int rc = rivulet_compile(m->p, m->n, &board, o, &out, &e, &err);

	expect_no_memory(rc);
	ck_assert_int_eq(!rc, out.data != NULL);
	ck_assert_int_eq(!rc, e.n_rows > 0);
	rivulet_blob_free(&out);
	rivulet_explain_free(&e);
}

static void compile(const struct model *m)
{
	compile_with(m, NULL);
}

static void compile_calibrated(const struct model *m)
{
	float data[2 * 128];
	const struct rivulet_examples e = { .data = data, .size = sizeof(data) };
	struct rivulet_compile_options o = { .quantise = { .examples = &e, .n_examples = 1,
							   .range = RIVULET_RANGE_MIN_MAX } };

	for (int i = 0; i < 2 * 128; i++)
		data[i] = (float)(i * 37 % 64) / 32 - 1;
	compile_with(m, &o);
}

START_TEST(every_refusal_is_an_error)
{
	struct model m = _i < RECORDED ? read_model(_i) : float_model();

	refuse_each(&m, optimise);
	refuse_each(&m, compile);
	free(m.p);
}
END_TEST

START_TEST(calibration_reports_every_refusal)
{
	struct model m = float_model();

	refuse_each(&m, compile_calibrated);
	free(m.p);
}
END_TEST

/* ---- the arena itself ---- */

START_TEST(an_arena_keeps_its_limit)
{
	struct rvl_arena *a = rvl_arena_new(200 << 10);
	uint8_t *first = rvl_arena_alloc(a, 1), *second = rvl_arena_alloc(a, 0), *large;

	ck_assert(first && second && !rvl_arena_failed(a));
	ck_assert_uint_eq((uintptr_t)first % 64, 0);
	ck_assert_ptr_eq(second, first + 64);
	ck_assert_uint_eq(rvl_arena_held(a), 64 << 10);
	/* A large request has a chunk of its own; the rest of the first chunk stays in use. */
	large = rvl_arena_alloc(a, 100 << 10);
	ck_assert_ptr_nonnull(large);
	ck_assert_uint_eq(rvl_arena_held(a), 164 << 10);
	ck_assert_ptr_eq(rvl_arena_alloc(a, 64), second + 64);
	ck_assert_uint_eq(rvl_arena_held(a), 164 << 10);
	for (int i = 0; i < 100 << 10; i++)
		ck_assert_uint_eq(large[i], 0);
	ck_assert(!rvl_arena_failed(a));
	ck_assert_ptr_null(rvl_arena_alloc(a, 64 << 10));
	ck_assert(rvl_arena_failed(a));
	ck_assert_ptr_nonnull(rvl_arena_alloc(a, 36 << 10));
	ck_assert_uint_eq(rvl_arena_held(a), 164 << 10);
	/* A piece of a shared chunk stays; a large one is freed, and its bytes can be requested again. */
	rvl_arena_release(a, second, 64);
	rvl_arena_release(a, first, 100 << 10);
	ck_assert_uint_eq(rvl_arena_held(a), 164 << 10);
	rvl_arena_release(a, large, 100 << 10);
	ck_assert_uint_eq(rvl_arena_held(a), 64 << 10);
	ck_assert_ptr_nonnull(rvl_arena_alloc(a, 120 << 10));
	rvl_arena_free(a);
	a = rvl_arena_new(32 << 10);
	ck_assert_ptr_nonnull(rvl_arena_alloc(a, 32 << 10));
	ck_assert_uint_eq(rvl_arena_held(a), 32 << 10);
	ck_assert_ptr_null(rvl_arena_alloc(a, 1));
	rvl_arena_free(a);
	a = rvl_arena_new((32 << 10) - 1);
	ck_assert_ptr_null(rvl_arena_alloc(a, 32 << 10));
	ck_assert_uint_eq(rvl_arena_held(a), 0);
	rvl_arena_free(a);
	rvl_arena_free(NULL);
}
END_TEST

/* Requests above a quarter of a chunk do not share a chunk. */
START_TEST(an_arena_shares_chunks)
{
	struct rvl_arena *a = rvl_arena_new(1 << 20);
	uint8_t *p = rvl_arena_alloc(a, 16 << 10);

	ck_assert_uint_eq(rvl_arena_held(a), 64 << 10);
	for (int i = 1; i < 4; i++)
		ck_assert_ptr_eq(rvl_arena_alloc(a, 16 << 10), p + i * (16 << 10));
	ck_assert_uint_eq(rvl_arena_held(a), 64 << 10);
	ck_assert_ptr_nonnull(rvl_arena_alloc(a, 64));
	ck_assert_uint_eq(rvl_arena_held(a), 128 << 10);
	rvl_arena_free(a);
	a = rvl_arena_new(1 << 20);
	ck_assert_ptr_nonnull(rvl_arena_alloc(a, (16 << 10) + 1));
	ck_assert_uint_eq(rvl_arena_held(a), (16 << 10) + 64);
	rvl_arena_free(a);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 63, SIZE_MAX - 64, SIZE_MAX / 2 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct rvl_arena *a = rvl_arena_new(RVL_MAX_GRAPH_BYTES);

		ck_assert_ptr_null(rvl_arena_alloc(a, sizes[i]));
		ck_assert(rvl_arena_failed(a));
		rvl_arena_free(a);
		a = rvl_arena_new(1 << 20);
		ck_assert_ptr_null(rvl_arena_array(a, sizes[i], 3));
		ck_assert(rvl_arena_failed(a));
		rvl_arena_free(a);
		a = rvl_arena_new(1 << 20);
		ck_assert_ptr_null(rvl_arena_strndup(a, "x", sizes[i]));
		ck_assert(rvl_arena_failed(a));
		rvl_arena_free(a);
	}
}
END_TEST

START_TEST(copied_texts_end)
{
	struct rvl_arena *a = rvl_arena_new(1 << 20);
	char *s = rvl_arena_strndup(a, "abcdef", 3);
	int32_t *list = rvl_arena_array(a, 3, sizeof(*list));

	ck_assert_str_eq(s, "abc");
	ck_assert_str_eq(rvl_arena_strndup(a, "", 0), "");
	ck_assert(list && !list[0] && !list[2]);
	rvl_arena_free(a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("starved");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, load_board, NULL);
	tcase_add_loop_test(t, no_pass_asks_again, 0, RECORDED + 1);
	tcase_add_loop_test(t, every_refusal_is_an_error, 0, RECORDED + 1);
	tcase_add_test(t, calibration_reports_every_refusal);
	tcase_add_test(t, an_arena_keeps_its_limit);
	tcase_add_test(t, an_arena_shares_chunks);
	tcase_add_test(t, sizes_that_overflow_are_refused);
	tcase_add_test(t, copied_texts_end);
	suite_add_tcase(s, t);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/*
 * Random graphs, and graphs that once gave wrong results, with the results of onnxruntime
 * (tests/graphs/record.py). Each runs by the interpreter, as a program for the CPU, and as a
 * program for a board, with views and without. Boards alternate.
 */
#include <check.h>
#include <math.h>

#include "files.h"
#include "graphs/graph_run.h"
#include "suite.h"

#define PARTS 8	/* tests by which a file is cut up */

static const char *const board_name[] = {
	"zu3eg-64", "zu3eg-128", "zu3eg-256", "cyclonev-64", "dense-16x16", "zcu102-binary",
	"cyclonev-64-nodsp",
};

#define BOARDS (sizeof(board_name) / sizeof(*board_name))

static const struct {
	const char *path;
	uint32_t least;	/* graphs, and of these such that use the NPU, and its sparse mode */
	uint32_t least_npu, least_sparse;
} files[] = {
	{ "tests/data/graphs/random.bin", 340, 100, 40 },
	{ "tests/data/graphs/wrong_once.bin", 3, 2, 0 },
	{ "tests/data/graphs/forms.bin", 40, 20, 4 }, /* transposed, 1-D, means, PRelu */
};

struct reader {
	const uint8_t *p, *end;
};

struct want {
	char kind;
	uint8_t bytes, slack;
	struct rvl_shape shape;
	const void *data;
};

struct recorded {
	char name[48];
	struct graph_run run;
	bool interpreted;
	struct want want[GRAPH_MOST_IO];
	uint16_t n_want;
	uint16_t at;		/* results compared so far */
	uint32_t npu_steps;
	uint32_t modes;		/* that any of the programs uses */
};

static void take(struct reader *r, void *to, size_t n)
{
	ck_assert_uint_le(n, (size_t)(r->end - r->p));
	memcpy(to, r->p, n);
	r->p += n;
}

/* A copy that begins at a multiple of 64, as programs expect of buffers. */
static void take_buffer(struct reader *r, struct graph_buffer *b)
{
	take(r, &b->size, sizeof(b->size));
	b->data = aligned_alloc(64, ((size_t)b->size + 127) / 64 * 64);
	ck_assert_ptr_nonnull(b->data);
	take(r, b->data, b->size);
}

static void take_want(struct reader *r, struct want *w)
{
	uint32_t bytes;
	uint8_t rank;

	take(r, &w->kind, 1);
	take(r, &w->bytes, 1);
	take(r, &w->slack, 1);
	take(r, &rank, 1);
	w->shape.rank = rank;
	for (int d = 0; d < rank; d++) {
		int32_t dim;

		take(r, &dim, sizeof(dim));
		w->shape.dim[d] = dim;
	}
	take(r, &bytes, sizeof(bytes));
	ck_assert_uint_le(bytes, (size_t)(r->end - r->p));
	w->data = r->p;
	r->p += bytes;
}

static void take_graph(struct reader *r, struct recorded *g)
{
	uint8_t interpreted;

	memset(g, 0, sizeof(*g));
	take(r, g->name, sizeof(g->name));
	take(r, &interpreted, 1);
	g->interpreted = interpreted;
	take_buffer(r, &g->run.model);
	take(r, &g->run.n_in, 2);
	ck_assert_uint_le(g->run.n_in, GRAPH_MOST_IO);
	for (uint32_t i = 0; i < g->run.n_in; i++)
		take_buffer(r, &g->run.in[i]);
	take(r, &g->n_want, 2);
	ck_assert_uint_le(g->n_want, GRAPH_MOST_IO);
	for (uint32_t i = 0; i < g->n_want; i++)
		take_want(r, &g->want[i]);
}

static void free_graph(struct recorded *g)
{
	free(g->run.model.data);
	for (uint32_t i = 0; i < g->run.n_in; i++)
		free(g->run.in[i].data);
}

/* Elements in the order of the file, which need not be aligned. */
static double wanted(const struct want *w, enum rvl_type t, int64_t i)
{
	uint8_t element[8];

	memcpy(element, (const uint8_t *)w->data + i * w->bytes, w->bytes);
	return rvl_element(t, element, 0);
}

/* Distance that a float result may have: 1e-5 of the largest magnitude. */
static double tolerance(const struct want *w, enum rvl_type t, int64_t n)
{
	double top = 0;

	if (w->kind != 'f')
		return w->slack;
	for (int64_t i = 0; i < n; i++)
		if (isfinite(wanted(w, t, i)))
			top = fmax(top, fabs(wanted(w, t, i)));
	return 1e-5 * top + 1e-30;
}

static void compare(void *arg, const struct rvl_value *v)
{
	struct recorded *g = arg;
	const struct want *w = &g->want[g->at++];
	int64_t n = rvl_shape_count(&v->shape), bad = 0;
	double allowed;

	ck_assert_msg(rvl_shape_equal(&v->shape, &w->shape) && rvl_type_size(v->type) == w->bytes,
		      "%s, way %u: output %u has another shape or type", g->name, g->run.how, g->at - 1u);
	allowed = tolerance(w, v->type, n);
	for (int64_t i = 0; i < n; i++) {
		double is = rvl_element(v->type, v->data, i), want = wanted(w, v->type, i);

		bad += !(is == want || (isnan(is) && isnan(want)) || fabs(is - want) <= allowed);
	}
	ck_assert_msg(!bad, "%s, way %u: output %u differs in %lld of %lld elements", g->name, g->run.how,
		      g->at - 1u, (long long)bad, (long long)n);
}

static void begin(void *arg, const struct graph_parts *parts)
{
	struct recorded *g = arg;

	ck_assert_uint_eq(parts->outputs, g->n_want);
	g->npu_steps += parts->npu_steps;
	g->modes |= parts->modes;
	g->at = 0;
}

static void run_all_ways(struct recorded *g)
{
	g->run.head = begin;
	g->run.value = compare;
	g->run.arg = g;
	for (uint8_t how = g->interpreted ? HOW_INTERPRETED : HOW_CPU; how <= HOW_NPU_COPIES; how++) {
		struct rvl_err err = { "" };

		g->run.how = how;
		ck_assert_msg(!graph_run(&g->run, &err), "%s, way %u: %s", g->name, how, err.msg);
	}
}

struct count {
	uint32_t graphs, npu, sparse;
};

static struct count run_part(const char *path, uint32_t part)
{
	struct rivulet_board board[BOARDS];
	struct rvl_core *core[BOARDS];
	struct count n = { 0 };
	struct recorded g;
	struct reader r;
	char why[256];
	size_t size;
	uint8_t *file = read_file(path, &size);

	for (size_t i = 0; i < BOARDS; i++) {
		ck_assert_msg(!rivulet_board_load(&board[i], board_name[i], why, sizeof(why)), "%s", why);
		core[i] = rvl_core_new(&board[i]);
		ck_assert_ptr_nonnull(core[i]);
	}
	r = (struct reader){ file + 4, file + size };
	ck_assert(size > 4 && !memcmp(file, "RVGR", 4));
	for (; r.p < r.end; n.graphs++) {
		take_graph(&r, &g);
		g.run.board = &board[n.graphs % BOARDS];
		g.run.core = core[n.graphs % BOARDS];
		if (n.graphs % PARTS == part)
			run_all_ways(&g);
		n.npu += g.npu_steps > 0;
		n.sparse += g.modes >> RIVULET_MODE_SPARSE & 1;
		free_graph(&g);
	}
	for (size_t i = 0; i < BOARDS; i++)
		rvl_core_free(core[i]);
	free(file);
	return n;
}

START_TEST(as_onnxruntime)
{
	struct count n = run_part(files[_i / PARTS].path, _i % PARTS);

	ck_assert_uint_ge(n.graphs, files[_i / PARTS].least);
	if (files[_i / PARTS].least <= PARTS)
		return;
	ck_assert_uint_ge(n.npu, files[_i / PARTS].least_npu / PARTS / 2);
	ck_assert_uint_ge(n.sparse, files[_i / PARTS].least_sparse / PARTS / 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("graphs");
	TCase *t = tcase_create("recorded");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, as_onnxruntime, 0, PARTS * (int)(sizeof(files) / sizeof(*files)));
	suite_add_tcase(s, t);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/*
 * The backend tests of ONNX itself. Each directory has a model, its inputs and the expected outputs.
 *
 * A test is eligible when every input, output, initializer and attribute tensor of its model,
 * subgraphs included, is of a type that rivulet computes with or converts (float16, 32 and 64,
 * bfloat16, bool, integers of 8 to 64 bits), and its operators are of ai.onnx, not random, not
 * preview, and none of ImageDecoder, TfIdfVectorizer and the losses.
 *
 * It runs with all inputs at run time, and with all but the first frozen into the model, which is
 * how weights reach the NPU; both by the interpreter (the frozen one after every pass) and as a
 * compiled program whose NPU steps run on the linked model. It has passed when one of the two ways
 * gives the expected outputs and neither gives others. It counts as folded when every way that gave
 * them left no node to run, as unsupported when the compiler names node, operator and reason or when
 * the recorded float64 exceed float32, and as wrong when it ran and the result differs, or if anything
 * else went wrong.
 *
 * Two kinds of recorded data are read as they are meant: old files hold the bits of bfloat16 as
 * uint16, and an input that is there for its type alone may have another shape than declared.
 *
 *   check_onnx [-a] [-v] [-p PREFIX] DIRECTORY [PATTERN]
 *
 * With -a every test is eligible: those of com.microsoft's operators are made that way.
 */
#include <dirent.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "graph/interp.h"
#include "npu/partition.h"
#include "onnx/onnx.h"
#include "pass/passes.h"
#include "eligible.h"
#include "prog_exec.h"
#include "rivulet_compiler.h"

enum verdict { INELIGIBLE, PASSED, FOLDED, UNSUPPORTED, WRONG, VERDICTS };

struct file {
	void *data;
	size_t size;
};

#define MAX_VALUES 40

/* One test: the model and its recorded inputs and outputs, tensors of a graph of their own. */
struct test {
	const char *name;
	struct file model;
	struct rvl_graph *data;
	struct rvl_tensor *in[MAX_VALUES];
	uint32_t n_in;
	struct rvl_tensor *want[MAX_VALUES];
	uint32_t n_want;
	struct file files[2 * MAX_VALUES];
	uint32_t n_files;
	const struct rivulet_board *board;
	bool all;		/* the test is eligible, whatever its operators */
	bool on_npu;		/* the frozen program has an NPU step */
	/* a program that passed has a step other than copies of constants */
	bool computes;
	struct rvl_err err;
};

static int read_file(const char *path, struct file *f)
{
	FILE *fp = fopen(path, "rb");
	long size;

	if (!fp)
		return -errno;
	fseek(fp, 0, SEEK_END);
	size = ftell(fp);
	rewind(fp);
	f->data = malloc(size > 0 ? (size_t)size : 1);
	f->size = f->data ? fread(f->data, 1, (size_t)size, fp) : 0;
	fclose(fp);
	return f->data && f->size == (size_t)size ? 0 : -EIO;
}

/* Whether no node reads the values of an input: nodes use at most its type. */
static bool type_alone(const struct rvl_tensor *t)
{
	/* A conversion at the edge may make an output of the model at once. */
	const struct rvl_tensor *read = t->computed && t->n_users ? t->users[0]->out[0] : t;

	if (read->is_output)
		return false;
	for (uint32_t i = 0; i < read->n_users; i++)
		if (strcmp(read->users[i]->op_type, "CastLike") || read->users[i]->in[0] == read)
			return false;
	return true;
}

static bool close_enough(const struct rvl_tensor *t, double got, double want)
{
	if (t->type != RVL_TYPE_F32 && t->type != RVL_TYPE_F16 && t->type != RVL_TYPE_BF16 &&
	    t->type != RVL_TYPE_F64)
		return got == want;
	if (isnan(want))
		return isnan(got);
	/*
	 * One unit in the last place of bfloat16 is more than the tolerance, and the reference rounds
	 * to it after every step of a composite operator, so two units are allowed.
	 */
	return got == want || fabs(got - want) <= 1e-5 + 1e-3 * fabs(want) ||
	       (t->type == RVL_TYPE_BF16 && fabs(got - want) <= fabs(want) / 64);
}

static int compare(struct test *t, const char *name, const struct rvl_value *got,
		   const struct rvl_tensor *want)
{
	int64_t n = rvl_shape_count(&want->shape);

	struct rvl_tensor bits = *want;

	if (got->type == RVL_TYPE_BF16 && want->type == RVL_TYPE_U16) {
		bits.type = RVL_TYPE_BF16;
		want = &bits;
	}
	if (got->type != want->type)
		return rvl_fail(&t->err, -EINVAL, "output '%s' is %s, not %s", name,
				rvl_type_name(got->type), rvl_type_name(want->type));
	if (!rvl_shape_equal(&got->shape, &want->shape))
		return rvl_fail(&t->err, -EINVAL, "output '%s' has another shape", name);
	for (int64_t i = 0; i < n; i++) {
		double a = rvl_element(got->type, got->data, i);
		double b = rvl_element(want->type, want->data, i);

		if (!close_enough(want, a, b))
			return rvl_fail(&t->err, -EINVAL, "output '%s' element %lld is %g, not %g",
					name, (long long)i, a, b);
	}
	return 0;
}

/* Runs a prepared graph on the recorded inputs that are not frozen. */
static int run_and_compare(struct test *t, const struct rvl_graph *g, uint32_t first_input)
{
	struct rvl_interp *it;
	int rc = rvl_interp_new(g, false, &it, &t->err);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < g->n_inputs && !rc && first_input + i < t->n_in; i++) {
		const struct rvl_tensor *v = t->in[first_input + i];

		if (type_alone(g->inputs[i]))
			continue;
		rc = rvl_interp_set(it, i, v->data, (size_t)rvl_tensor_bytes(v), &t->err);
	}
	if (!rc)
		rc = rvl_interp_run(it, &t->err);
	if (!rc && t->n_want != g->n_outputs)
		rc = rvl_fail(&t->err, -EINVAL, "%u outputs, %u expected", g->n_outputs, t->n_want);
	for (uint32_t i = 0; i < t->n_want && !rc; i++) {
		const struct rvl_tensor *y = g->outputs[i];
		struct rvl_value got = { .type = y->type, .shape = *rvl_interp_shape(it, y),
					 .data = (void *)(uintptr_t)rvl_interp_data(it, y) };

		rc = compare(t, y->name, &got, t->want[i]);
	}
	rvl_interp_free(it);
	return rc;
}

static int freeze_all_but_first(struct test *t, struct rvl_graph *g)
{
	int rc = 0;

	for (uint32_t i = 1, at = 1; i < t->n_in && at < g->n_inputs && !rc; i++) {
		if (type_alone(g->inputs[at])) {
			at++;
			continue;
		}
		rc = rvl_graph_freeze(g, g->inputs[at]->name, t->in[i]->data,
				      (size_t)rvl_tensor_bytes(t->in[i]), &t->err);
	}
	return rc;
}

static int interpreted_way(struct test *t, bool frozen)
{
	struct rvl_graph *g;
	int rc = rvl_onnx_load(t->model.data, t->model.size, NULL, &g, &t->err);

	if (rc)
		return rc;
	if (frozen)
		rc = freeze_all_but_first(t, g);
	if (!rc)
		rc = frozen ? rvl_optimise(g, &t->err) : rvl_shape_infer(g, &t->err);
	if (!rc)
		rc = rvl_graph_check_supported(g, &t->err);
	if (!rc && frozen)
		rc = rvl_pass_partition(g, NULL, NULL, &t->err);
	if (!rc)
		rc = run_and_compare(t, g, 0);
	rvl_graph_free(g);
	return rc;
}

/* Inputs 1 and on, as options of the compiler. */
static uint32_t frozen_inputs(const struct test *t, const struct rvl_graph *g,
			      struct rivulet_frozen *f)
{
	uint32_t n = 0;

	for (uint32_t i = 1; i < t->n_in && i < g->n_inputs; i++)
		if (!type_alone(g->inputs[i]))
			f[n++] = (struct rivulet_frozen) {
			.name = g->inputs[i]->name, .data = t->in[i]->data,
			.size = (size_t)rvl_tensor_bytes(t->in[i]),
		};
	return n;
}

static void *copy_of(const void *data, size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

	if (p && data && bytes)
		memcpy(p, data, bytes);
	return p;
}

/* Binds the caller's buffers: first the inputs that are not frozen, then the outputs. */
static int bind(struct test *t, struct prog_exec *x)
{
	for (uint32_t i = 0; i < x->p->inputs; i++)
		x->io[i] = copy_of(t->in[i]->data, (size_t)rvl_tensor_bytes(t->in[i]));
	for (uint32_t i = 0; i < x->p->outputs; i++)
		x->io[x->p->inputs + i] =
			copy_of(NULL, (size_t)rivulet_program_tensors(x->p)[x->p->inputs + i].size);
	return 0;
}

/* Steps that do more than copy a constant to an output. */
static void count_steps(struct test *t, const struct rivulet_program *p)
{
	const struct rivulet_tensor *tensor = rivulet_program_tensors(p);

	for (uint32_t i = 0; i < p->steps; i++) {
		const struct rivulet_step *s = &rivulet_program_steps(p)[i];

		t->on_npu |= s->kind == RIVULET_STEP_NPU;
		t->computes |= s->kind == RIVULET_STEP_NPU || s->op != RVL_OP_IDENTITY ||
			       tensor[s->read[0]].place != RIVULET_PLACE_CONST;
	}
}

static int run_program(struct test *t, const struct rivulet_program *p)
{
	struct prog_exec x;
	int rc = prog_open(&x, t->board, NULL, p);

	if (!rc)
		rc = bind(t, &x);
	if (!rc && (rc = prog_run(&x)))
		rvl_fail(&t->err, rc, "program: %.200s", x.err);
	for (uint32_t i = 0; i < t->n_want && !rc; i++) {
		struct rvl_value got = prog_value(&x, p->inputs + i);

		rc = compare(t, rivulet_program_string(p, rivulet_program_tensors(p)[p->inputs + i].name),
			     &got, t->want[i]);
	}
	count_steps(t, p);
	for (uint32_t i = 0; i < p->inputs + p->outputs; i++)
		free(x.io[i]);
	prog_close(&x, true);
	return rc;
}

static int compiled_way(struct test *t, bool frozen)
{
	struct rivulet_frozen list[MAX_VALUES];
	struct rivulet_compile_options opt = { .frozen = list };
	struct rivulet_blob program = { .data = NULL };
	struct rvl_graph *g;
	char why[200] = "";
	int rc = rvl_onnx_load(t->model.data, t->model.size, NULL, &g, &t->err);

	if (rc)
		return rc;
	opt.n_frozen = frozen ? frozen_inputs(t, g, list) : 0;
	rc = rivulet_compile(t->model.data, t->model.size, t->board, &opt, &program, NULL, &t->err);
	if (!rc && (rc = rivulet_program_check(program.data, program.size, why, sizeof(why))))
		rvl_fail(&t->err, rc, "program: %s", why);
	if (!rc)
		rc = run_program(t, program.data);
	rivulet_blob_free(&program);
	rvl_graph_free(g);
	return rc;
}

static int load_values(struct test *t, const char *dir, const char *kind,
		       struct rvl_tensor **list, uint32_t *n)
{
	for (*n = 0; *n < MAX_VALUES; (*n)++) {
		char path[1024], name[32];
		struct file *f = &t->files[t->n_files];
		int rc;

		snprintf(path, sizeof(path), "%s/test_data_set_0/%s_%u.pb", dir, kind, *n);
		if (read_file(path, f))
			return 0;
		t->n_files++;
		snprintf(name, sizeof(name), "%s_%u", kind, *n);
		rc = rvl_onnx_load_tensor(t->data, f->data, f->size, name, &list[*n], &t->err);
		if (rc)
			return rc;
	}
	return 0;
}

/* Tries one of the two ways. Returns 0, -EOPNOTSUPP, or another error if a result differs. */
static int one_way(struct test *t, bool frozen)
{
	int rc = interpreted_way(t, frozen);

	return rc ? rc : compiled_way(t, frozen);
}

static enum verdict verdict_of(struct test *t)
{
	struct rvl_err first;
	int a, b;

	a = one_way(t, false);
	first = t->err;
	t->on_npu = false;
	b = t->n_in > 1 ? one_way(t, true) : a;
	if (a && a != -EOPNOTSUPP)
		t->err = first;
	if ((a && a != -EOPNOTSUPP) || (b && b != -EOPNOTSUPP))
		return WRONG;
	if (!a || !b)
		return t->computes ? PASSED : FOLDED;
	t->err = first;
	return UNSUPPORTED;
}

/* Whether the model computes float64 tensors as such. */
static bool computes_float64(struct test *t)
{
	struct rvl_graph *g = NULL;
	bool wide = !rvl_onnx_load(t->model.data, t->model.size, NULL, &g, NULL) && g->float64;

	rvl_graph_free(g);
	return wide;
}

/* Whether recorded float64 data, which are computed in float32, exceed the range of float32. */
static bool exceeds_float32(struct test *t, struct rvl_tensor *const *list, uint32_t n)
{
	if (computes_float64(t))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		if (list[i]->type != RVL_TYPE_F64)
			continue;
		for (int64_t k = 0; k < rvl_shape_count(&list[i]->shape); k++) {
			double v = rvl_element(RVL_TYPE_F64, list[i]->data, k);

			if (!isinf(v) && fabs(v) > FLT_MAX) {
				rvl_fail(&t->err, -EOPNOTSUPP, "%s has %g, and float64 is computed in float32",
					 list[i]->name, v);
				return true;
			}
		}
	}
	return false;
}

static enum verdict run_test(struct test *t, const char *dir)
{
	char path[1024];
	int rc;

	snprintf(path, sizeof(path), "%s/model.onnx", dir);
	if (read_file(path, &t->model) || (!t->all && !test_is_eligible(t->model.data, t->model.size)))
		return INELIGIBLE;
	t->data = rvl_graph_new();
	rc = t->data ? load_values(t, dir, "input", t->in, &t->n_in) : -ENOMEM;
	if (!rc)
		rc = load_values(t, dir, "output", t->want, &t->n_want);
	if (!rc && !t->n_want)
		rc = rvl_fail(&t->err, -ENOENT, "no recorded output");
	if (!rc && (exceeds_float32(t, t->in, t->n_in) || exceeds_float32(t, t->want, t->n_want)))
		return UNSUPPORTED;
	return rc ? WRONG : verdict_of(t);
}

static void free_test(struct test *t)
{
	rvl_graph_free(t->data);
	free(t->model.data);
	for (uint32_t i = 0; i < t->n_files; i++)
		free(t->files[i].data);
}

static int only_tests(const struct dirent *d)
{
	return !strncmp(d->d_name, "test_", 5);
}

struct run {
	const char *root;
	const char *pattern;	/* part of a test's name, or NULL */
	const char *prefix;	/* of the figures */
	bool verbose;
	bool all;		/* every test is eligible */
	struct rivulet_board board;
	unsigned int count[VERDICTS];
	unsigned int npu;
};

static void one_directory(struct run *r, const char *name)
{
	static const char *const word[] = { "ineligible", "passed", "folded", "unsupported", "wrong" };
	struct test t = { .name = name, .board = &r->board, .all = r->all };
	char dir[900];
	enum verdict v;

	snprintf(dir, sizeof(dir), "%.500s/%.300s", r->root, name);
	v = run_test(&t, dir);
	r->count[v]++;
	r->npu += v == PASSED && t.on_npu;
	if (v == WRONG || v == UNSUPPORTED)
		printf("%-12s %s: %s\n", word[v], name, t.err.msg);
	else if (r->verbose)
		printf("%-12s %s%s\n", word[v], name, t.on_npu ? " (NPU)" : "");
	fflush(stdout);
	free_test(&t);
}

static int run_all(struct run *r)
{
	struct dirent **list;
	int n = scandir(r->root, &list, only_tests, alphasort);

	if (n < 0) {
		fprintf(stderr, "check_onnx: %s: %s\n", r->root, strerror(errno));
		return 2;
	}
	for (int i = 0; i < n; i++) {
		if (!r->pattern || strstr(list[i]->d_name, r->pattern))
			one_directory(r, list[i]->d_name);
		free(list[i]);
	}
	free(list);
	return 0;
}

static void print_figures(const struct run *r)
{
	unsigned int eligible = r->count[PASSED] + r->count[UNSUPPORTED] + r->count[WRONG];

	printf("figure %s.eligible %u tests\n", r->prefix, eligible);
	printf("figure %s.passed %u tests\n", r->prefix, r->count[PASSED]);
	printf("figure %s.folded %u tests\n", r->prefix, r->count[FOLDED]);
	printf("figure %s.unsupported %u tests\n", r->prefix, r->count[UNSUPPORTED]);
	printf("figure %s.wrong %u tests\n", r->prefix, r->count[WRONG]);
	printf("figure %s.npu %u tests\n", r->prefix, r->npu);
	printf("figure %s.score %.1f %%\n", r->prefix,
	       eligible ? 100.0 * r->count[PASSED] / eligible : 0.0);
}

int main(int argc, char **argv)
{
	struct run r = { .root = "/usr/share/libonnx-testdata/data/node", .prefix = "onnx.node" };
	char why[256];
	int opt, rc;

	while ((opt = getopt(argc, argv, "avp:")) != -1) {
		if (opt == 'a')
			r.all = true;
		else if (opt == 'v')
			r.verbose = true;
		else if (opt == 'p')
			r.prefix = optarg;
		else
			return 2;
	}
	if (optind < argc)
		r.root = argv[optind];
	if (optind + 1 < argc)
		r.pattern = argv[optind + 1];
	if (rivulet_board_load(&r.board, "zu3eg-64", why, sizeof(why))) {
		fprintf(stderr, "check_onnx: %s\n", why);
		return 2;
	}
	rc = run_all(&r);
	if (rc)
		return rc;
	print_figures(&r);
	return r.count[WRONG] > 0 || !r.count[PASSED];
}

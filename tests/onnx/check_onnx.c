/* SPDX-License-Identifier: MIT */
/*
 * ONNX's own node tests, from Debian's libonnx-testdata: every one-node model whose operator is in
 * the list below. Each test runs twice: with all inputs given at run time, and with all but the
 * first frozen into the model, which is how weights reach the NPU. Both run in the interpreter (the
 * frozen one after every pass) and as a compiled program whose NPU steps run on the linked model.
 *
 * A test counts as unsupported only if the compiler names node, operator and reason. It counts as
 * wrong if it ran and the result differs, or if anything else failed.
 *
 *   check_onnx [-v] DIRECTORY
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "prog_exec.h"
#include "rivulet_compiler.h"

static const char * const operators[] = {
	"Add", "AveragePool", "BatchNormalization", "Clip", "Conv", "DequantizeLinear",
	"QuantizeLinear", "Flatten", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "MatMul",
	"MaxPool", "QLinearConv", "QLinearMatMul", "Relu", "Reshape", "Softmax", "Transpose",
	"Mul", "Identity", "Constant",
};

enum verdict { SKIPPED, PASSED, UNSUPPORTED, WRONG, ON_NPU };

struct file {
	void *data;
	size_t size;
};

#define MAX_VALUES 16

/* One test: the model, and its recorded inputs and outputs as tensors of a second graph. */
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
	bool on_npu;		/* the frozen program has an NPU step */
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

static bool listed(const char *op)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (!strcmp(op, operators[i]))
			return true;
	return false;
}

static double value_at(const struct rvl_tensor *t, const void *data, int64_t i)
{
	switch (t->type) {
	case RVL_TYPE_F32:
		return (double)((const float *)data)[i];
	case RVL_TYPE_U8:
	case RVL_TYPE_BOOL:
		return ((const uint8_t *)data)[i];
	case RVL_TYPE_S8:
		return ((const int8_t *)data)[i];
	case RVL_TYPE_S32:
		return ((const int32_t *)data)[i];
	default:
		return (double)((const int64_t *)data)[i];
	}
}

static bool close_enough(const struct rvl_tensor *t, double got, double want)
{
	if (t->type != RVL_TYPE_F32)
		return got == want;
	if (isnan(want))
		return isnan(got);
	return got == want || fabs(got - want) <= 1e-5 + 1e-3 * fabs(want);
}

static int compare(struct test *t, const struct rvl_tensor *got, const void *data,
		   const struct rvl_tensor *want)
{
	int64_t n = rvl_shape_count(&want->shape);

	if (got->type != want->type || !rvl_shape_equal(&got->shape, &want->shape))
		return rvl_fail(&t->err, -EINVAL, "output '%s' has another type or shape",
				got->name);
	for (int64_t i = 0; i < n; i++) {
		double a = value_at(got, data, i), b = value_at(want, want->data, i);

		if (!close_enough(want, a, b))
			return rvl_fail(&t->err, -EINVAL, "output '%s' element %lld is %g, not %g",
					got->name, (long long)i, a, b);
	}
	return 0;
}

/* Runs a prepared graph on those recorded inputs that are not frozen. */
static int run_and_compare(struct test *t, const struct rvl_graph *g, uint32_t first_input)
{
	struct rvl_interp *it;
	int rc = rvl_interp_new(g, false, &it, &t->err);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < g->n_inputs && !rc; i++)
		rc = rvl_interp_set(it, i, t->in[first_input + i]->data,
				    (size_t)rvl_tensor_bytes(t->in[first_input + i]), &t->err);
	if (!rc)
		rc = rvl_interp_run(it, &t->err);
	for (uint32_t i = 0; i < t->n_want && !rc; i++)
		rc = compare(t, g->outputs[i], rvl_interp_data(it, g->outputs[i]), t->want[i]);
	rvl_interp_free(it);
	return rc;
}

static int freeze_all_but_first(struct test *t, struct rvl_graph *g)
{
	int rc = 0;

	for (uint32_t i = 1; i < t->n_in && !rc; i++)
		rc = rvl_graph_freeze(g, g->inputs[1]->name, t->in[i]->data,
				      (size_t)rvl_tensor_bytes(t->in[i]), &t->err);
	return rc;
}

static int check_interpreted(struct test *t, bool frozen)
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

/* Passes all inputs but the first as options of the compiler. */
static uint32_t frozen_inputs(const struct test *t, const struct rvl_graph *g,
			      struct rivulet_frozen *f)
{
	uint32_t n = 0;

	for (uint32_t i = 1; i < t->n_in && i < g->n_inputs; i++)
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

/* Binds the caller's buffers: the inputs that are not frozen, then the outputs. */
static int bind(struct test *t, struct prog_exec *x)
{
	for (uint32_t i = 0; i < x->p->inputs; i++)
		x->io[i] = copy_of(t->in[i]->data, (size_t)rvl_tensor_bytes(t->in[i]));
	for (uint32_t i = 0; i < x->p->outputs; i++)
		x->io[x->p->inputs + i] =
			copy_of(NULL, (size_t)rivulet_program_tensors(x->p)[x->p->inputs + i].size);
	return 0;
}

/* The description of an output in the program, as a tensor of a graph. */
static struct rvl_tensor output_of(const struct rivulet_program *p, uint32_t i)
{
	const struct rivulet_tensor *pt = &rivulet_program_tensors(p)[p->inputs + i];
	struct rvl_tensor t = {
		.name = rivulet_program_string(p, pt->name), .type = (enum rvl_type)pt->dtype,
		.shaped = true, .shape = { .rank = (int32_t)pt->ndim },
	};

	for (uint32_t k = 0; k < pt->ndim; k++)
		t.shape.dim[k] = (int64_t)pt->dim[k];
	return t;
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
		struct rvl_tensor got = output_of(p, i);

		rc = compare(t, &got, x.io[p->inputs + i], t->want[i]);
	}
	for (uint32_t i = 0; i < p->steps; i++)
		t->on_npu |= rivulet_program_steps(p)[i].kind == RIVULET_STEP_NPU;
	for (uint32_t i = 0; i < p->inputs + p->outputs; i++)
		free(x.io[i]);
	prog_close(&x, true);
	return rc;
}

static int check_compiled(struct test *t, bool frozen)
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

/* Returns whether this is a test of one of the listed operators. */
static bool is_listed_test(struct test *t)
{
	struct rvl_graph *g;
	bool yes;

	if (rvl_onnx_load(t->model.data, t->model.size, NULL, &g, NULL))
		return false;
	yes = (g->n_nodes == 1 && listed(g->nodes[0]->op_type)) ||
	      (g->n_nodes == 0 && !strcmp(t->name, "test_constant"));
	rvl_graph_free(g);
	return yes;
}

/* Called first, because data that is not a tensor cannot be read. */
static int supported(struct test *t)
{
	struct rvl_graph *g;
	int rc = rvl_onnx_load(t->model.data, t->model.size, NULL, &g, &t->err);

	if (rc)
		return rc;
	rc = rvl_shape_infer(g, &t->err);
	if (!rc)
		rc = rvl_graph_check_supported(g, &t->err);
	rvl_graph_free(g);
	return rc;
}

static enum verdict run_test(struct test *t, const char *dir)
{
	char path[1024];
	int rc;

	snprintf(path, sizeof(path), "%s/model.onnx", dir);
	if (read_file(path, &t->model) || !is_listed_test(t))
		return SKIPPED;
	rc = supported(t);
	t->data = rvl_graph_new();
	if (!rc)
		rc = t->data ? load_values(t, dir, "input", t->in, &t->n_in) : -ENOMEM;
	if (!rc)
		rc = load_values(t, dir, "output", t->want, &t->n_want);
	if (!rc)
		rc = check_interpreted(t, false);
	if (!rc)
		rc = check_interpreted(t, true);
	if (!rc)
		rc = check_compiled(t, false);
	t->on_npu = false;
	if (!rc)
		rc = check_compiled(t, true);
	if (!rc && !t->n_want)
		rc = rvl_fail(&t->err, -ENOENT, "no recorded output");
	if (rc == -EOPNOTSUPP)
		return UNSUPPORTED;
	return rc ? WRONG : PASSED;
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

static void check_directory(const char *root, const char *name, bool verbose,
			  const struct rivulet_board *board, unsigned int *count)
{
	struct test t = { .name = name, .board = board };
	char dir[900];
	enum verdict v;

	snprintf(dir, sizeof(dir), "%.500s/%.300s", root, name);
	v = run_test(&t, dir);
	count[v]++;
	if (v == WRONG)
		printf("wrong        %s: %s\n", name, t.err.msg);
	else if (v == UNSUPPORTED)
		printf("unsupported  %s: %s\n", name, t.err.msg);
	else if (v == PASSED && verbose)
		printf("passed       %s%s\n", name, t.on_npu ? " (NPU)" : "");
	count[ON_NPU] += v == PASSED && t.on_npu;
	free_test(&t);
}

int main(int argc, char **argv)
{
	bool verbose = argc > 2 && !strcmp(argv[1], "-v");
	const char *root = argc > 1 ? argv[argc - 1] : "/usr/share/libonnx-testdata/data/node";
	unsigned int count[5] = { 0 };
	struct rivulet_board board;
	char why[256];
	struct dirent **list;
	int n = scandir(root, &list, only_tests, alphasort);

	if (n < 0) {
		fprintf(stderr, "check_onnx: %s: %s (package libonnx-testdata)\n", root,
			strerror(errno));
		return 2;
	}
	if (rivulet_board_load(&board, "zu3eg-64", why, sizeof(why))) {
		fprintf(stderr, "check_onnx: %s\n", why);
		return 2;
	}
	for (int i = 0; i < n; i++) {
		check_directory(root, list[i]->d_name, verbose, &board, count);
		free(list[i]);
	}
	free(list);
	printf("figure onnx.node.passed %u tests\n", count[PASSED]);
	printf("figure onnx.node.unsupported %u tests\n", count[UNSUPPORTED]);
	printf("figure onnx.node.wrong %u tests\n", count[WRONG]);
	printf("figure onnx.node.npu %u tests\n", count[ON_NPU]);
	return count[WRONG] || count[PASSED] < 90 || !count[ON_NPU];
}

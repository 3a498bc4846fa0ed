/* SPDX-License-Identifier: MIT */
/*
 * check_zoo MODEL.onnx [BOARD]: every pass of the compiler keeps what the graph interpreter computes,
 * the program on the device model computes the same bytes, and the quantised tensors use their range.
 * A float model is quantised first, with the picture that it runs on as its only example; its ranges
 * hold all values, so that none is saturated.
 */
#include <inttypes.h>

#include "graph/interp.h"
#include "onnx/onnx.h"
#include "pass/passes.h"
#include "program/program.h"
#include "quant/calibrate.h"
#include "picture.h"
#include "prog_exec.h"
#include "rivulet_snr.h"

#define MOST_OUTPUTS   8
#define LEAST_SNR      25.0 /* dB; fusion replaces float sums by integers, and depth adds the errors */
#define BINARY_SNR     10.0 /* dB; the same in a network of signs, some of which change; a wrong layer has < 0 */
#define FLOAT_SNR      50.0 /* dB; kernels of other layouts add floats in other orders */
#define LEAST_DISTINCT 64
#define MOST_SATURATED 1.0 /* % */
#define COUNTED	       1024 /* values of the smallest tensor that is measured */

struct output {
	void *data;
	size_t bytes;
	enum rvl_type type;
};

struct outputs {
	uint32_t n;
	struct output o[MOST_OUTPUTS];
};

static void outputs_free(struct outputs *all)
{
	for (uint32_t i = 0; i < all->n; i++)
		free(all->o[i].data);
	all->n = 0;
}

/* ---- runs ---- */

static int keep_output(struct rvl_interp *it, const struct rvl_tensor *t, struct output *o)
{
	o->type = t->type;
	o->bytes = (size_t)rvl_shape_count(rvl_interp_shape(it, t)) * rvl_type_size(t->type);
	o->data = malloc(o->bytes + 1);
	if (!o->data)
		return -ENOMEM;
	memcpy(o->data, rvl_interp_data(it, t), o->bytes);
	return 0;
}

typedef void (*look_fn)(const struct rvl_graph *g, struct rvl_interp *it, void *arg);

static int interpret(const struct rvl_graph *g, const float *in, size_t bytes, struct outputs *out,
		     look_fn look, void *arg, struct rvl_err *err)
{
	struct rvl_interp *it;
	int rc = rvl_interp_new(g, false, &it, err);

	out->n = 0;
	if (rc)
		return rc;
	rc = rvl_interp_set(it, 0, in, bytes, err);
	if (!rc)
		rc = rvl_interp_run(it, err);
	for (uint32_t i = 0; i < g->n_outputs && i < MOST_OUTPUTS && !rc; i++, out->n++)
		rc = keep_output(it, g->outputs[i], &out->o[i]);
	if (!rc && look)
		look(g, it, arg);
	rvl_interp_free(it);
	return rc;
}

/* ---- comparison ---- */

static bool same_bytes(const struct output *a, const struct output *b)
{
	return a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes);
}

static double snr_of(const struct output *want, const struct output *got)
{
	struct rvl_snr s = { 0 };

	if (want->bytes != got->bytes || want->type != RVL_TYPE_F32)
		return -1;
	rvl_snr_add(&s, want->data, got->data, want->bytes / sizeof(float));
	return rvl_snr_db(&s);
}

/*
 * Returns the number of outputs that differ. @least: SNR that float outputs must have. Below
 * FLOAT_SNR, selections among them may differ, too.
 */
static int differences(const char *model, const char *stage, const struct outputs *want,
		       const struct outputs *got, double least)
{
	int bad = want->n != got->n;

	for (uint32_t i = 0; i < want->n && i < got->n; i++) {
		double snr;

		if (same_bytes(&want->o[i], &got->o[i]))
			continue;
		if (least < FLOAT_SNR && want->o[i].type != RVL_TYPE_F32)
			continue;
		snr = snr_of(&want->o[i], &got->o[i]);
		printf("%s: %s: output %u has an SNR of %.1f dB\n", model, stage, i, snr);
		bad += !(snr >= least);
	}
	return bad;
}

/* ---- ranges ---- */

struct ranges {
	bool measured; /* ranges are those of the values */
	uint32_t tensors, distinct;
	double saturated; /* % of the worst tensor */
	char least[64], most[64];
};

static void count_values(const struct rvl_tensor *t, const uint8_t *v, uint32_t count[256])
{
	int64_t n = rvl_shape_count(&t->shape);

	memset(count, 0, 256 * sizeof(*count));
	for (int64_t i = 0; i < n; i++)
		count[v[i]]++;
}

/*
 * Sums that end at an end of the type are saturated, but not those at the zero point, which Relu makes.
 * Functions by table have ranges with ends of their own.
 */
static double saturated(const struct rvl_tensor *t, const uint32_t count[256])
{
	enum rvl_op op = t->producer->op;
	uint8_t lo = t->type == RVL_TYPE_U8 ? 0 : 0x80, hi = lo ^ 0xff, zp = (uint8_t)t->quant.zp[0];
	uint64_t n = (lo == zp ? 0 : count[lo]) + (hi == zp ? 0 : count[hi]);

	if (op != RVL_OP_Q_CONV && op != RVL_OP_Q_MATMUL && op != RVL_OP_Q_ADD)
		return 0;
	return 100.0 * (double)n / (double)rvl_shape_count(&t->shape);
}

static void look_at_ranges(const struct rvl_graph *g, struct rvl_interp *it, void *arg)
{
	struct ranges *r = arg;

	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct rvl_tensor *t = g->tensors[i];
		uint32_t count[256], distinct = 0;
		double share;

		if (!t->producer || (t->type != RVL_TYPE_U8 && t->type != RVL_TYPE_S8) ||
		    !t->quant.zp || rvl_shape_count(&t->shape) < COUNTED || !rvl_interp_data(it, t))
			continue;
		count_values(t, rvl_interp_data(it, t), count);
		for (int v = 0; v < 256; v++)
			distinct += count[v] > 0;
		share = saturated(t, count);
		if (!r->tensors++ || distinct < r->distinct) {
			r->distinct = distinct;
			snprintf(r->least, sizeof(r->least), "%.60s", t->name);
		}
		if (share >= r->saturated) {
			r->saturated = share;
			snprintf(r->most, sizeof(r->most), "%.60s", t->name);
		}
	}
}

static int judge_ranges(const char *model, const struct ranges *r)
{
	bool bad = !r->tensors || r->distinct < LEAST_DISTINCT ||
		   (!r->measured && r->saturated > MOST_SATURATED);

	printf("%s: %u quantised tensors, at least %u distinct values (%s), at most %.2f %% saturated "
	       "(%s)%s\n", model, r->tensors, r->distinct, r->least, r->saturated, r->most,
	       bad ? ": beyond the bar" : "");
	return bad;
}

/* ---- the program ---- */

static int keep_results(const struct prog_exec *x, struct outputs *out)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(x->p) + x->p->inputs;

	for (out->n = 0; out->n < x->p->outputs && out->n < MOST_OUTPUTS; out->n++) {
		struct output *o = &out->o[out->n];
		struct rvl_value v = prog_value(x, x->p->inputs + out->n);

		o->type = (enum rvl_type)t[out->n].dtype;
		o->bytes = (size_t)rvl_shape_count(&v.shape) * rvl_type_size(o->type);
		o->data = malloc(o->bytes + 1);
		if (!o->data)
			return -ENOMEM;
		memcpy(o->data, v.data, o->bytes);
	}
	return 0;
}

static int run_program(const struct rivulet_board *b, const void *program, const float *in,
		       struct outputs *out)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(program);
	struct prog_exec x;
	int rc = prog_open(&x, b, NULL, program);
	uint32_t n = x.p->outputs;

	x.io[0] = (void *)(uintptr_t)in;
	for (uint32_t i = 0; i < n && !rc; i++) {
		x.io[1 + i] = calloc(1, t[1 + i].size + 1);
		rc = x.io[1 + i] ? 0 : -ENOMEM;
	}
	if (!rc)
		rc = prog_run(&x);
	if (rc)
		fprintf(stderr, "check_zoo: %s\n", x.err);
	else
		rc = keep_results(&x, out);
	for (uint32_t i = 0; i < n; i++)
		free(x.io[1 + i]);
	prog_close(&x, true);
	return rc;
}

/* ---- one model ---- */

struct model {
	const char *name;
	void *file;
	size_t size;
	float *in;
	size_t in_bytes;
	struct rivulet_examples example;
	struct rivulet_compile_options opt;
};

static bool is_float(const struct rvl_graph *g)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i]->op == RVL_OP_QUANTIZE)
			return false;
	return true;
}

/* Reads the model and makes its input; quantises it if it is float. */
static int prepare(struct model *m, struct rvl_graph **g, struct rvl_err *err)
{
	int rc = rvl_onnx_load(m->file, m->size, NULL, g, err);

	if (!rc)
		rc = rvl_shape_infer(*g, err);
	if (rc)
		return rc;
	m->in = zoo_picture(&(*g)->inputs[0]->shape, &m->in_bytes);
	if (!m->in)
		return -ENOMEM;
	if (!is_float(*g))
		return 0;
	m->example = (struct rivulet_examples){ .data = m->in, .size = m->in_bytes };
	m->opt.quantise = (struct rivulet_quantise){ .examples = &m->example, .n_examples = 1,
						     .range = RIVULET_RANGE_MIN_MAX, .threads = 1 };
	rc = rvl_calibrate(*g, &m->opt.quantise, err);
	return rc ? rc : rvl_shape_infer(*g, err);
}

/* The SNR that the results must have behind a pass. */
static double least_snr(const struct rvl_graph *g, const struct rvl_pass *pass)
{
	if (strcmp(pass->name, "fuse"))
		return RVL_SNR_EXACT;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i]->op == RVL_OP_B_CONV)
			return BINARY_SNR;
	return LEAST_SNR;
}

static int after_every_pass(const struct model *m, struct rvl_graph *g, struct outputs *last,
			    struct rvl_err *err)
{
	int bad = 0, rc = 0;

	for (unsigned int i = 0; i < rvl_n_passes && !rc; i++) {
		struct outputs now;

		rc = rvl_passes[i].run(g, err);
		if (!rc)
			rc = rvl_graph_verify(g, err);
		if (!rc)
			rc = interpret(g, m->in, m->in_bytes, &now, NULL, NULL, err);
		if (rc)
			break;
		bad += differences(m->name, rvl_passes[i].name, last, &now,
				   least_snr(g, &rvl_passes[i]));
		outputs_free(last);
		*last = now;
	}
	return rc ? rc : bad;
}

static int compiled(const struct model *m, const struct rivulet_board *b, const struct outputs *want,
		    struct rvl_err *err)
{
	struct rivulet_blob program = { 0 };
	struct outputs got = { 0 };
	int bad = 0, rc = rivulet_compile(m->file, m->size, b, &m->opt, &program, NULL, err);

	if (!rc)
		rc = run_program(b, program.data, m->in, &got);
	if (!rc)
		bad = differences(m->name, "the device", want, &got, FLOAT_SNR);
	outputs_free(&got);
	rivulet_blob_free(&program);
	return rc ? rc : bad;
}

/* Returns the number of findings, or a negative errno. */
static int check(struct model *m, const struct rivulet_board *b, struct rvl_err *err)
{
	struct ranges ranges = { 0 };
	struct outputs last = { 0 }, again = { 0 };
	struct rvl_graph *g = NULL;
	int rc = prepare(m, &g, err), bad = 0;

	if (!rc)
		rc = interpret(g, m->in, m->in_bytes, &last, NULL, NULL, err);
	if (!rc)
		rc = bad = after_every_pass(m, g, &last, err);
	if (rc >= 0)
		rc = interpret(g, m->in, m->in_bytes, &again, look_at_ranges, &ranges, err);
	ranges.measured = m->opt.quantise.n_examples;
	if (rc >= 0) {
		bad += judge_ranges(m->name, &ranges);
		rc = compiled(m, b, &last, err);
	}
	outputs_free(&last);
	outputs_free(&again);
	free(m->in);
	rvl_graph_free(g);
	return rc < 0 ? rc : bad + rc;
}

int main(int argc, char **argv)
{
	struct model m = { .name = argc > 1 ? argv[1] : "" };
	struct rvl_err err = { "" };
	struct rivulet_board b;
	char text[256];
	int bad;

	if (argc < 2 || rivulet_board_load(&b, argc > 2 ? argv[2] : "zu3eg-256", text, sizeof(text))) {
		fprintf(stderr, "usage: check_zoo MODEL.onnx [BOARD]\n");
		return 2;
	}
	m.file = zoo_read(argv[1], &m.size);
	bad = m.file ? check(&m, &b, &err) : -errno;
	if (bad < 0)
		fprintf(stderr, "check_zoo: %s: %s\n", m.name, *err.msg ? err.msg : strerror(-bad));
	free(m.file);
	return bad != 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * A float model beside what the quantiser makes of it: both graphs run the same examples, and the
 * values of each quantised tensor are compared with those of the float tensor that it stands for.
 */
#include "pass/pass.h"
#include "pass/passes.h"
#include "quant/calibrate.h"
#include "quant/insert.h"
#include "quant/measure.h"
#include "program/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of the quantised graph and its counterpart. */
struct pair {
	const struct rvl_tensor *want, *got;
};

struct comparison {
	struct rvl_graph *f, *q; /* float and quantised */
	struct rvl_samples samples; /* of @f */
	struct pair *pair;
	uint32_t n;
	struct pair dumped; /* of --dump, or NULL */
	uint64_t runs;
	struct rvl_snr *snr;	   /* by run, then by pair */
	struct rvl_interp **of_thread; /* of @q */
	const struct rivulet_compile_options *opt;
	const struct rivulet_board *board;
	struct rivulet_blob *program;
	struct rivulet_compare *out;
	_Atomic int rc; /* of a run of @q */
	struct rvl_err *err;
};

/* ---- values ---- */

/*
 * The values of a quantised tensor as real numbers, or those of a float32 tensor. NULL without
 * memory.
 */
static float *values(const struct rvl_tensor *t, const void *data)
{
	int64_t n = rvl_shape_count(&t->shape);
	float *v = malloc(((size_t)n + 1) * sizeof(*v));

	for (int64_t i = 0; v && i < n; i++) {
		int32_t q = t->type == RVL_TYPE_U8 ? ((const uint8_t *)data)[i] : ((const int8_t *)data)[i];

		v[i] = t->type == RVL_TYPE_F32 ? ((const float *)data)[i] :
						 (float)(q - t->quant.zp[0]) * t->quant.scale[0];
	}
	return v;
}

/* Room for the values of the runs that are kept. */
static int new_values(const struct comparison *c, const struct rvl_tensor *t, const char *name,
		      struct rivulet_compare_tensor *out)
{
	size_t n = (size_t)rvl_shape_count(&t->shape) * c->out->kept + 1;

	out->ndim = (uint32_t)t->shape.rank;
	for (int32_t i = 0; i < t->shape.rank; i++)
		out->dim[i] = (uint64_t)t->shape.dim[i];
	out->name = strdup(name);
	out->want = calloc(n, sizeof(float));
	out->got = calloc(n, sizeof(float));
	return out->name && out->want && out->got ?
		       0 : rvl_fail(c->err, -ENOMEM, "no memory for the values of %llu runs",
					(unsigned long long)c->out->kept);
}

/* The values of one run into their place. */
static int keep_values(const struct pair *p, const struct rvl_interp *f, const struct rvl_interp *q,
		       uint64_t run, struct rivulet_compare_tensor *out)
{
	size_t n = (size_t)rvl_shape_count(&p->want->shape);
	float *got = values(p->got, rvl_interp_data(q, p->got));

	if (!got)
		return -ENOMEM;
	memcpy(out->want + run * n, rvl_interp_data(f, p->want), n * sizeof(float));
	memcpy(out->got + run * n, got, n * sizeof(float));
	free(got);
	return 0;
}

/* ---- runs ---- */

static void compare_run(struct comparison *c, const struct rvl_interp *f, const struct rvl_interp *q,
			uint64_t run)
{
	for (uint32_t i = 0; i < c->n; i++) {
		const struct pair *p = &c->pair[i];
		float *got = values(p->got, rvl_interp_data(q, p->got));

		if (!got) {
			c->rc = -ENOMEM;
			return;
		}
		rvl_snr_add(&c->snr[run * c->n + i], rvl_interp_data(f, p->want), got,
			    (uint64_t)rvl_shape_count(&p->want->shape));
		free(got);
	}
}

/* Outputs, and the tensor that --dump names. */
static int keep_run(struct comparison *c, const struct rvl_interp *f, const struct rvl_interp *q,
		    uint64_t run)
{
	struct rivulet_compare *o = c->out;
	int rc = 0;

	if (run >= o->kept)
		return 0;
	for (uint32_t i = 0; i < o->n_outputs && !rc; i++) {
		const struct pair p = { .want = c->f->outputs[i], .got = c->q->outputs[i] };

		if (o->output[i].name)
			rc = keep_values(&p, f, q, run, &o->output[i]);
	}
	return !rc && c->dumped.want ? keep_values(&c->dumped, f, q, run, &o->dump) : rc;
}

static void see(void *arg, const struct rvl_interp *f, uint32_t thread, uint64_t run)
{
	struct comparison *c = arg;
	int rc = 0;

	if (!c->of_thread[thread])
		rc = rvl_interp_new(c->q, false, &c->of_thread[thread], NULL);
	if (!rc)
		rc = rvl_samples_feed(&c->samples, c->of_thread[thread], run, NULL);
	if (!rc)
		rc = rvl_interp_run(c->of_thread[thread], NULL);
	if (!rc)
		compare_run(c, f, c->of_thread[thread], run);
	if (!rc)
		rc = keep_run(c, f, c->of_thread[thread], run);
	if (rc)
		c->rc = rc;
}

static int run(struct comparison *c)
{
	int rc;

	c->snr = calloc(c->runs * c->n + 1, sizeof(*c->snr));
	c->of_thread = calloc(c->samples.threads, sizeof(*c->of_thread));
	if (!c->snr || !c->of_thread)
		return rvl_fail(c->err, -ENOMEM, "out of memory");
	rc = rvl_samples_run(&c->samples, c->f, c->runs, see, c, c->err);
	if (!rc && c->rc)
		rc = rvl_fail(c->err, c->rc, "the quantised model could not be run");
	return rc;
}

/* ---- graphs ---- */

/* The float tensor to which a quantised tensor belongs: its name is the same without the suffix. */
static const struct rvl_tensor *counterpart(const struct comparison *c, const struct rvl_tensor *t)
{
	size_t n = strlen(t->name), k = strlen(RVL_QUANTISED_SUFFIX);
	char name[RVL_MAX_NAME + 1];
	const struct rvl_tensor *f;

	if (!rvl_is_quant8_tensor(t) || n <= k || n > RVL_MAX_NAME ||
	    strcmp(t->name + n - k, RVL_QUANTISED_SUFFIX) || (!t->producer && !t->is_input))
		return NULL;
	memcpy(name, t->name, n - k);
	name[n - k] = '\0';
	f = rvl_tensor_find(c->f, name);
	return f && f->type == RVL_TYPE_F32 && (f->producer || f->is_input) &&
	       rvl_shape_equal(&f->shape, &t->shape) ? f : NULL;
}

static void add_pair(struct comparison *c, const struct rvl_tensor *want, const struct rvl_tensor *got)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->pair[i].want == want)
			return;
	c->pair[c->n++] = (struct pair) { .want = want, .got = got };
}

/* What moves values keeps its name, but its result is bytes of the name that commuting gave. */
static void pair_moved(struct comparison *c, const struct rvl_node *q)
{
	for (uint32_t i = 0; i < c->f->n_nodes; i++) {
		const struct rvl_node *f = c->f->nodes[i];

		if (f->op != q->op || f->def != q->def || f->n_out != q->n_out || strcmp(f->name, q->name))
			continue;
		for (uint32_t k = 0; k < f->n_out; k++)
			if (f->out[k] && q->out[k] && f->out[k]->type == RVL_TYPE_F32 &&
			    rvl_is_quant8_tensor(q->out[k]) &&
			    rvl_shape_equal(&f->out[k]->shape, &q->out[k]->shape))
				add_pair(c, f->out[k], q->out[k]);
		return;
	}
}

/* The pair of --dump: a compared tensor, or one that is float in both graphs. */
static int find_dumped(struct comparison *c, const char *name)
{
	const struct rvl_tensor *f = rvl_tensor_find(c->f, name), *q = rvl_tensor_find(c->q, name);

	for (uint32_t i = 0; i < c->n; i++)
		if (!strcmp(c->pair[i].want->name, name))
			c->dumped = c->pair[i];
	if (!c->dumped.want && f && q && f->type == RVL_TYPE_F32 && q->type == RVL_TYPE_F32 &&
	    (f->producer || f->is_input) && (q->producer || q->is_input) &&
	    rvl_shape_equal(&f->shape, &q->shape))
		c->dumped = (struct pair) { .want = f, .got = q };
	return c->dumped.want ? 0 : rvl_fail(c->err, -ENOENT,
					     "no tensor \"%s\" of both the float and the quantised model", name);
}

static int pair_up(struct comparison *c)
{
	c->pair = calloc(c->f->n_tensors + c->q->n_tensors + 1u, sizeof(*c->pair));
	if (!c->pair)
		return rvl_fail(c->err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < c->q->n_tensors; i++) {
		const struct rvl_tensor *t = c->q->tensors[i], *f = counterpart(c, t);

		if (f)
			c->pair[c->n++] = (struct pair) { .want = f, .got = t };
	}
	for (uint32_t i = 0; i < c->q->n_nodes; i++)
		if (rvl_op_moves(c->q->nodes[i]) || rvl_op_joins(c->q->nodes[i]))
			pair_moved(c, c->q->nodes[i]);
	return 0;
}

static bool is_kept(const struct comparison *c, uint32_t output)
{
	return c->f->outputs[output]->type == RVL_TYPE_F32 && c->q->outputs[output]->type == RVL_TYPE_F32;
}

/* As many of the first runs as @most bytes hold: each value is kept in both forms. */
static int limit_kept(struct comparison *c, uint64_t most)
{
	uint64_t values = c->dumped.want ? (uint64_t)rvl_shape_count(&c->dumped.want->shape) : 0;
	uint64_t bytes, fit;

	for (uint32_t i = 0; i < c->f->n_outputs; i++)
		if (is_kept(c, i))
			values += (uint64_t)rvl_shape_count(&c->f->outputs[i]->shape);
	bytes = 2 * sizeof(float) * values;
	fit = bytes ? most / bytes : c->runs;
	c->out->kept = fit < c->runs ? fit : c->runs;
	return c->out->kept ? 0 :
	       rvl_fail(c->err, -E2BIG, "the outputs of one run take %llu bytes, more than the %llu that are kept",
			(unsigned long long)bytes, (unsigned long long)most);
}

/* Room for the outputs and for the tensor of --dump. */
static int allocate(struct comparison *c, uint64_t most)
{
	struct rivulet_compare *o = c->out;
	int rc = o->dump_name ? find_dumped(c, o->dump_name) : 0;

	o->n_outputs = c->f->n_outputs;
	o->output = calloc(o->n_outputs + 1u, sizeof(*o->output));
	if (!rc && !o->output)
		rc = rvl_fail(c->err, -ENOMEM, "out of memory");
	if (!rc)
		rc = limit_kept(c, most);
	for (uint32_t i = 0; i < o->n_outputs && !rc; i++)
		if (is_kept(c, i))
			rc = new_values(c, c->f->outputs[i], c->f->outputs[i]->name, &o->output[i]);
	return !rc && c->dumped.want ? new_values(c, c->dumped.want, o->dump_name, &o->dump) : rc;
}

/* The program of the quantised graph; its compilation owns a copy. */
static int compile(struct comparison *c)
{
	struct rivulet_compile_options o = *c->opt;
	struct rvl_graph *copy = NULL;
	int rc = rvl_graph_clone(c->q, &copy, c->err);

	o.quantise = (struct rivulet_quantise) { .n_examples = 0 };
	return rc ? rc : rvl_compile_graph(copy, c->board, &o, c->program, NULL, c->err);
}

static int make_graphs(struct comparison *c, const void *onnx, size_t size)
{
	int rc = rvl_read_model(onnx, size, c->opt, &c->f, c->err);

	if (!rc)
		rc = rvl_calibrate_prepare(c->f, &c->opt->quantise, c->err);
	if (!rc)
		rc = rvl_samples_bind(c->f, &c->opt->quantise, &c->samples, c->err);
	if (!rc)
		rc = rvl_read_model(onnx, size, c->opt, &c->q, c->err);
	if (!rc)
		rc = rvl_calibrate(c->q, &c->opt->quantise, c->err);
	if (!rc)
		rc = compile(c);
	if (!rc) /* the forms that the passes make for the board are those of which the device has the bits */
		c->q->word = c->board && !c->opt->cpu_only ? c->board->tn : 0;
	if (!rc)
		rc = rvl_optimise(c->q, c->err);
	return rc ? rc : pair_up(c);
}

/* ---- result ---- */

static double snr_of(const struct comparison *c, uint32_t i)
{
	struct rvl_snr sum = { 0 };

	for (uint64_t r = 0; r < c->runs; r++) {
		const struct rvl_snr *s = &c->snr[r * c->n + i];

		sum.n += s->n;
		sum.sum += s->sum;
		sum.square += s->square;
		sum.noise += s->noise;
	}
	return rvl_snr_db(&sum);
}

static int worst_first(const void *a, const void *b)
{
	const struct rivulet_compare_row *x = a, *y = b;

	if (x->snr_db < y->snr_db || x->snr_db > y->snr_db)
		return x->snr_db < y->snr_db ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static const char *op_name(const struct rvl_node *n)
{
	return n->op == RVL_OP_GENERAL ? n->def->name : rvl_op_name(n->op);
}

static int fill_rows(struct comparison *c)
{
	struct rivulet_compare *o = c->out;

	o->rows = calloc(c->n + 1u, sizeof(*o->rows));
	if (!o->rows)
		return rvl_fail(c->err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < c->n; i++) {
		const struct rvl_tensor *t = c->pair[i].got;
		const struct rvl_node *n = t->producer;
		struct rivulet_compare_row *r = &o->rows[o->n_rows++];

		*r = (struct rivulet_compare_row) { .tensor = strdup(c->pair[i].want->name),
			.node = strdup(n ? n->name : ""), .op = n ? op_name(n) : "input",
			.snr_db = snr_of(c, i), .scale = t->quant.scale[0],
			.zero_point = t->quant.zp[0], .order = i };
		if (!r->tensor || !r->node)
			return rvl_fail(c->err, -ENOMEM, "out of memory");
	}
	qsort(o->rows, o->n_rows, sizeof(*o->rows), worst_first);
	return 0;
}

static void release(struct comparison *c)
{
	for (uint32_t i = 0; c->of_thread && i < c->samples.threads; i++)
		rvl_interp_free(c->of_thread[i]);
	free(c->of_thread);
	free(c->snr);
	free(c->pair);
	rvl_graph_free(c->f);
	rvl_graph_free(c->q);
}

void rivulet_compare_free(struct rivulet_compare *o)
{
	for (uint32_t i = 0; o->rows && i < o->n_rows; i++) {
		free(o->rows[i].tensor);
		free(o->rows[i].node);
	}
	for (uint32_t i = 0; o->output && i <= o->n_outputs; i++) {
		struct rivulet_compare_tensor *t = i < o->n_outputs ? &o->output[i] : &o->dump;

		free(t->name);
		free(t->want);
		free(t->got);
	}
	free(o->rows);
	free(o->output);
	*o = (struct rivulet_compare) { 0 };
}

int rivulet_compare(const void *onnx, size_t size, const struct rivulet_board *board,
		    const struct rivulet_compile_options *opt, uint64_t runs, uint64_t keep, const char *dump,
		    struct rivulet_blob *program, struct rivulet_compare *out, struct rvl_err *err)
{
	struct comparison c = { .opt = opt, .board = opt->cpu_only ? NULL : board, .program = program,
				.out = out, .err = err };
	int rc;

	*out = (struct rivulet_compare) { .dump_name = dump };
	rc = make_graphs(&c, onnx, size);
	if (!rc) {
		c.runs = runs && runs < c.samples.runs ? runs : c.samples.runs;
		out->runs = c.runs;
		rc = allocate(&c, keep);
	}
	if (!rc)
		rc = run(&c);
	if (!rc)
		rc = fill_rows(&c);
	release(&c);
	if (rc) {
		rivulet_compare_free(out);
		rivulet_blob_free(program);
	}
	return rc;
}

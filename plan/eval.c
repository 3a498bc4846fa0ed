/* SPDX-License-Identifier: MIT */
/* Accuracy of a model over a data set, on the CPU operators. */
#include "eval.h"
#include "graph/interp.h"
#include "program/program.h"
#include "pass/passes.h"
#include "quant/calibrate.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BATCH 50
#define MAX_THREADS   64

struct rivulet_eval *rivulet_eval_free(struct rivulet_eval *e)
{
	if (!e)
		return NULL;
	rvl_graph_free(e->g);
	free(e->onnx);
	free(e);
	return NULL;
}

/* One input, examples along its first dimension and that of the first output. */
static int measure(struct rivulet_eval *e, struct rvl_err *err)
{
	const struct rvl_tensor *in = e->g->n_inputs ? e->g->inputs[0] : NULL;
	const struct rvl_tensor *out = e->g->n_outputs ? e->g->outputs[0] : NULL;

	if (!in || !out || e->g->n_inputs != 1)
		return rvl_fail(err, -EINVAL, "a model with one input and an output is needed");
	if ((in->type != RVL_TYPE_F32 && in->type != RVL_TYPE_U8) || in->shape.rank < 1 ||
	    in->shape.dim[0] < 1)
		return rvl_fail(err, -EINVAL, "input \"%s\" is not float32 or uint8 examples", in->name);
	if ((out->type != RVL_TYPE_F32 && out->type != RVL_TYPE_U8 && out->type != RVL_TYPE_S8) ||
	    out->shape.rank < 1 || out->shape.dim[0] != in->shape.dim[0])
		return rvl_fail(err, -EINVAL, "output \"%s\" is not one row of scores for each example",
				out->name);
	e->batch = (uint64_t)in->shape.dim[0];
	e->elements = (uint64_t)rvl_shape_count(&in->shape) / e->batch;
	e->score_bytes = (uint64_t)rvl_tensor_bytes(out) / e->batch;
	return 0;
}

static int load(struct rivulet_eval *e, const void *onnx, size_t size,
		const struct rivulet_compile_options *opt, struct rvl_err *err)
{
	struct rivulet_compile_options o = *opt;
	int rc;

	o.batch = opt->batch ? opt->batch : DEFAULT_BATCH;
	e->onnx = malloc(size ? size : 1);
	if (!e->onnx)
		return rvl_fail(err, -ENOMEM, "out of memory");
	memcpy(e->onnx, onnx, size);
	rc = rvl_read_model(e->onnx, size, &o, &e->g, err);
	if (!rc && opt->quantise.n_examples)
		rc = rvl_calibrate(e->g, &opt->quantise, err);
	if (!rc)
		rc = rvl_optimise(e->g, err);
	if (!rc)
		rc = rvl_graph_check_supported(e->g, err);
	if (!rc && opt->stochastic)
		rc = rvl_sc_mark(e->g, opt->keep_int8, opt->n_keep_int8, err);
	return rc ? rc : measure(e, err);
}

int rivulet_eval_new(const void *onnx, size_t size, const struct rivulet_compile_options *opt,
		     struct rivulet_eval **out, struct rvl_err *err)
{
	struct rivulet_eval *e = calloc(1, sizeof(*e));
	int rc = e ? load(e, onnx, size, opt, err) : rvl_fail(err, -ENOMEM, "out of memory");

	if (rc)
		rivulet_eval_free(e);
	else
		*out = e;
	return rc;
}

uint64_t rivulet_eval_score_bytes(const struct rivulet_eval *e)
{
	return e->score_bytes;
}

uint64_t rivulet_eval_macs(const struct rivulet_eval *e, uint64_t *streams)
{
	uint64_t all = 0;

	*streams = 0;
	for (uint32_t i = 0; i < e->g->n_nodes; i++) {
		const struct rvl_node *n = e->g->nodes[i];

		if (!rvl_is_quant_product(n))
			continue;
		all += rvl_node_macs(n) / e->batch;
		*streams += n->stochastic ? rvl_node_macs(n) / e->batch : 0;
	}
	return all;
}

int rvl_eval_prepare(struct rivulet_eval *e, const struct rivulet_eval_spec *s, struct rvl_err *err)
{
	if ((s->length && (s->length < RIVULET_SC_MIN || s->length > RIVULET_SC_MAX)) ||
	    s->circuit >= RIVULET_SC_CIRCUIT_COUNT || s->blocks > RIVULET_SC_BLOCKS_MAX)
		return rvl_fail(err, -EINVAL, "no bitstreams of %u bits by circuit %u in %u blocks",
				s->length, s->circuit, s->blocks);
	for (uint32_t i = 0; i < e->g->n_nodes; i++) {
		struct rvl_node *n = e->g->nodes[i];

		if (!n->stochastic)
			continue;
		n->attr.sc_length = (int32_t)s->length;
		n->attr.sc_circuit = (int32_t)s->circuit;
		n->attr.sc_blocks = (int32_t)s->blocks;
	}
	return 0;
}

int rvl_eval_feed(const struct rivulet_eval *e, struct rvl_interp *it,
		  const struct rivulet_eval_data *d, uint64_t first, struct rvl_err *err)
{
	bool f32 = e->g->inputs[0]->type == RVL_TYPE_F32;
	uint64_t n = d->count - first < e->batch ? d->count - first : e->batch;
	uint64_t have = n * e->elements, all = e->batch * e->elements;
	size_t bytes = all * (f32 ? sizeof(float) : 1);
	void *buf = calloc(1, bytes);
	int rc;

	if (!buf)
		return rvl_fail(err, -ENOMEM, "out of memory");
	if (f32 && d->f32)
		memcpy(buf, d->f32 + first * e->elements, have * sizeof(float));
	else if (f32)
		for (uint64_t i = 0; i < have; i++)
			((float *)buf)[i] = (float)d->u8[first * e->elements + i] / 255.0f;
	else
		memcpy(buf, d->u8 + first * e->elements, have);
	rc = rvl_interp_set(it, 0, buf, bytes, err);
	free(buf);
	return rc;
}

static double score(const struct rvl_tensor *t, const void *p, uint64_t i)
{
	if (t->type == RVL_TYPE_F32)
		return (double)((const float *)p)[i];
	return t->type == RVL_TYPE_S8 ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

static uint64_t largest(const struct rvl_tensor *t, const void *p, uint64_t n)
{
	uint64_t best = 0;

	for (uint64_t i = 1; i < n; i++)
		if (score(t, p, i) > score(t, p, best))
			best = i;
	return best;
}

/* What the threads share: batches are taken by number. */
struct sweep {
	const struct rivulet_eval *e;
	const struct rivulet_eval_data *d;
	_Atomic uint64_t next, right;
	_Atomic int rc;
};

static int run_batch(struct sweep *s, struct rvl_interp *it, uint64_t first, struct rvl_err *err)
{
	const struct rvl_tensor *out = s->e->g->outputs[0];
	uint64_t n = (uint64_t)rvl_shape_count(&out->shape) / s->e->batch, right = 0;
	int rc = rvl_eval_feed(s->e, it, s->d, first, err);
	const uint8_t *p;

	if (!rc)
		rc = rvl_interp_run(it, err);
	if (rc)
		return rc;
	p = rvl_interp_data(it, out);
	for (uint64_t i = 0; i < s->e->batch && first + i < s->d->count; i++)
		right += largest(out, p + i * s->e->score_bytes, n) == s->d->labels[first + i];
	atomic_fetch_add(&s->right, right);
	return 0;
}

static void *sweep_thread(void *arg)
{
	struct sweep *s = arg;
	struct rvl_interp *it = NULL;
	struct rvl_err err;
	int rc = rvl_interp_new(s->e->g, false, &it, &err);

	while (!rc && !atomic_load(&s->rc)) {
		uint64_t first = atomic_fetch_add(&s->next, s->e->batch);

		if (first >= s->d->count)
			break;
		rc = run_batch(s, it, first, &err);
	}
	if (rc)
		atomic_store(&s->rc, rc);
	rvl_interp_free(it);
	return NULL;
}

static int check_data(const struct rivulet_eval *e, const struct rivulet_eval_data *d,
		      struct rvl_err *err)
{
	if (d->size != e->elements)
		return rvl_fail(err, -EINVAL, "the model takes %llu values an example, the data has %llu",
				(unsigned long long)e->elements, (unsigned long long)d->size);
	if (!d->count)
		return rvl_fail(err, -EINVAL, "no examples");
	if (d->f32 && e->g->inputs[0]->type != RVL_TYPE_F32)
		return rvl_fail(err, -EINVAL, "the model takes bytes, the data is float");
	return 0;
}

int rivulet_eval_accuracy(struct rivulet_eval *e, const struct rivulet_eval_spec *spec,
			  const struct rivulet_eval_data *d, uint32_t threads, uint64_t *right,
			  struct rvl_err *err)
{
	struct sweep s = { .e = e, .d = d };
	pthread_t thread[MAX_THREADS];
	uint32_t n = 0;
	int rc = check_data(e, d, err);

	if (!rc)
		rc = rvl_eval_prepare(e, spec, err);
	if (rc)
		return rc;
	while (n + 1 < threads && n < MAX_THREADS &&
	       !pthread_create(&thread[n], NULL, sweep_thread, &s))
		n++;
	sweep_thread(&s);
	while (n)
		pthread_join(thread[--n], NULL);
	*right = atomic_load(&s.right);
	rc = atomic_load(&s.rc);
	return rc ? rvl_fail(err, rc, "the operators refuse %u bits by this circuit", spec->length) : 0;
}

int64_t rivulet_eval_scores(struct rivulet_eval *e, const struct rivulet_eval_spec *s,
			    const struct rivulet_eval_data *d, uint64_t first, void *out,
			    struct rvl_err *err)
{
	struct rvl_interp *it = NULL;
	uint64_t n = d->count - first < e->batch ? d->count - first : e->batch;
	int rc = check_data(e, d, err);

	if (!rc)
		rc = rvl_eval_prepare(e, s, err);
	if (!rc)
		rc = rvl_interp_new(e->g, false, &it, err);
	if (!rc)
		rc = rvl_eval_feed(e, it, d, first, err);
	if (!rc)
		rc = rvl_interp_run(it, err);
	if (!rc)
		memcpy(out, rvl_interp_data(it, e->g->outputs[0]), n * e->score_bytes);
	rvl_interp_free(it);
	return rc ? rc : (int64_t)n;
}

/* SPDX-License-Identifier: MIT */
#include "quant/samples.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 8

/* ---- examples and inputs ---- */

static const struct rivulet_examples *examples_of(const struct rvl_graph *g, uint32_t i,
						  const struct rivulet_quantise *q)
{
	for (uint32_t k = 0; k < q->n_examples; k++) {
		const char *name = q->examples[k].input;

		if (name ? !strcmp(name, g->inputs[i]->name) : g->n_inputs == 1)
			return &q->examples[k];
	}
	return NULL;
}

static int bind_input(struct rvl_samples *s, uint32_t i, const struct rivulet_examples *e,
		      struct rvl_err *err)
{
	const struct rvl_tensor *t = s->g->inputs[i];
	int64_t bytes = rvl_tensor_bytes(t);
	struct rvl_sample_input *in = &s->in[i];
	uint64_t runs;

	in->per_run = t->shape.rank > 1 && t->shape.dim[0] > 0 ? (uint64_t)t->shape.dim[0] : 1;
	in->bytes = bytes > 0 ? (uint64_t)bytes / in->per_run : 0;
	in->data = e->data;
	in->count = in->bytes ? e->size / in->bytes : 0;
	if (!e->size)
		return rvl_fail(err, -EINVAL, "there are no calibration data of input \"%s\"", t->name);
	if (!in->count || e->size % in->bytes)
		return rvl_fail(err, -EINVAL,
				"%zu bytes of calibration data are no multiple of an example's %llu of input \"%s\"",
				e->size, (unsigned long long)in->bytes, t->name);
	runs = (in->count + in->per_run - 1) / in->per_run;
	if (s->runs && runs != s->runs)
		return rvl_fail(err, -EINVAL,
				"calibration has %llu runs of input \"%s\" but %llu of \"%s\"",
				(unsigned long long)s->runs, s->g->inputs[0]->name,
				(unsigned long long)runs, t->name);
	s->runs = runs;
	return 0;
}

static int unknown_input(const struct rvl_graph *g, const struct rivulet_quantise *q,
			 struct rvl_err *err)
{
	for (uint32_t k = 0; k < q->n_examples; k++) {
		const char *name = q->examples[k].input;
		uint32_t i = 0;

		while (name && i < g->n_inputs && strcmp(name, g->inputs[i]->name))
			i++;
		if (name && i == g->n_inputs)
			return rvl_fail(err, -EINVAL,
					"calibration has examples of \"%s\", which is no input of the model",
					name);
	}
	return 0;
}

static uint32_t threads_of(const struct rivulet_quantise *q)
{
	long n = q->threads ? (long)q->threads : sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (uint32_t)n;
}

int rvl_samples_bind(struct rvl_graph *g, const struct rivulet_quantise *q, struct rvl_samples *s,
		     struct rvl_err *err)
{
	int rc = unknown_input(g, q, err);

	*s = (struct rvl_samples) { .g = g, .threads = threads_of(q) };
	s->in = rvl_arena_array(g->arena, g->n_inputs + 1u, sizeof(*s->in));
	if (!s->in)
		return rvl_fail(err, -ENOMEM, "no memory for calibration");
	for (uint32_t i = 0; i < g->n_inputs && !rc; i++) {
		const struct rivulet_examples *e = examples_of(g, i, q);

		rc = e ? bind_input(s, i, e, err) :
			 rvl_fail(err, -EINVAL, "calibration has no examples of input \"%s\"",
				  g->inputs[i]->name);
	}
	if (!rc && !s->runs)
		rc = rvl_fail(err, -EINVAL, "calibration needs a model with inputs");
	return rc;
}

/* One input of one run. Behind the last example the first ones follow again. */
static int feed_input(const struct rvl_samples *s, struct rvl_interp *it, uint32_t i, uint64_t run,
		      struct rvl_err *err)
{
	const struct rvl_sample_input *in = &s->in[i];
	uint64_t first = run * in->per_run;
	uint8_t *row;
	int rc;

	if (first + in->per_run <= in->count)
		return rvl_interp_set(it, i, in->data + first * in->bytes, in->per_run * in->bytes,
				      err);
	row = malloc(in->per_run * in->bytes);
	if (!row)
		return rvl_fail(err, -ENOMEM, "no memory for calibration");
	for (uint64_t k = 0; k < in->per_run; k++)
		memcpy(row + k * in->bytes, in->data + (first + k) % in->count * in->bytes,
		       in->bytes);
	rc = rvl_interp_set(it, i, row, in->per_run * in->bytes, err);
	free(row);
	return rc;
}

int rvl_samples_feed(const struct rvl_samples *s, struct rvl_interp *it, uint64_t run,
		     struct rvl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < s->g->n_inputs && !rc; i++)
		rc = feed_input(s, it, i, run, err);
	return rc;
}

/* ---- runs on several threads ---- */

struct run_queue {
	const struct rvl_samples *s;
	const struct rvl_graph *g;
	void (*see)(void *arg, const struct rvl_interp *it, uint32_t thread, uint64_t run);
	void *arg;
	uint64_t runs;
	pthread_mutex_t lock; /* protects the fields below */
	uint64_t next;
	uint64_t failed; /* the earliest failing run, @runs while there is none */
	int rc;
	struct rvl_err err;
};

struct worker {
	struct run_queue *queue;
	uint32_t number;
	pthread_t thread;
	bool started;
};

static bool take(struct run_queue *q, uint64_t *run)
{
	bool any;

	pthread_mutex_lock(&q->lock);
	any = q->next < q->failed;
	*run = any ? q->next++ : 0;
	pthread_mutex_unlock(&q->lock);
	return any;
}

static void note_failure(struct run_queue *q, uint64_t run, int rc, const struct rvl_err *err)
{
	pthread_mutex_lock(&q->lock);
	if (!q->rc || run < q->failed) {
		q->failed = run;
		q->rc = rc;
		q->err = *err;
	}
	pthread_mutex_unlock(&q->lock);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct run_queue *q = w->queue;
	struct rvl_interp *it = NULL;
	struct rvl_err err = { "" };
	uint64_t run = 0;
	int rc = rvl_interp_new(q->g, false, &it, &err);

	if (rc)
		note_failure(q, 0, rc, &err);
	while (!rc && take(q, &run)) {
		rc = rvl_samples_feed(q->s, it, run, &err);
		if (!rc)
			rc = rvl_interp_run(it, &err);
		if (rc)
			note_failure(q, run, rc, &err);
		else
			q->see(q->arg, it, w->number, run);
	}
	rvl_interp_free(it);
	return NULL;
}

int rvl_samples_run(const struct rvl_samples *s, const struct rvl_graph *g, uint64_t runs,
		    void (*see)(void *arg, const struct rvl_interp *it, uint32_t thread, uint64_t run),
		    void *arg, struct rvl_err *err)
{
	struct run_queue q = { .s = s, .g = g, .see = see, .arg = arg, .runs = runs, .failed = runs };
	struct worker w[MAX_THREADS];

	pthread_mutex_init(&q.lock, NULL);
	for (uint32_t i = 0; i < s->threads; i++)
		w[i] = (struct worker) { .queue = &q, .number = i };
	/* The calling thread takes runs too, so that all runs are done even where no thread can be created. */
	for (uint32_t i = 1; i < s->threads && i < runs; i++)
		w[i].started = !pthread_create(&w[i].thread, NULL, work, &w[i]);
	work(&w[0]);
	for (uint32_t i = 1; i < s->threads; i++)
		if (w[i].started)
			pthread_join(w[i].thread, NULL);
	pthread_mutex_destroy(&q.lock);
	return q.rc ? rvl_fail(err, q.rc, "%s", q.err.msg) : 0;
}

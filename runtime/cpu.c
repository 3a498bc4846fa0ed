// SPDX-License-Identifier: MIT
/* CPU steps: from tensors to pointers, on a worker or in place. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* CPU address of a tensor's first element. */
static void *tensor_host(const struct rivulet_exec *x, uint32_t tensor)
{
	const struct rivulet_program *p = x->img->prog;
	const struct rivulet_tensor *t = &rivulet_program_tensors(p)[tensor];
	uint64_t first = rivulet_tensor_first(t);

	switch (t->place) {
	case RIVULET_PLACE_INPUT:
		return (char *)x->bind[t->offset].mem.host + t->at + first;
	case RIVULET_PLACE_OUTPUT:
		return (char *)x->bind[p->inputs + t->offset].mem.host + t->at + first;
	case RIVULET_PLACE_ARENA:
		return (char *)x->arena.host + t->offset + first;
	default:
		return (char *)x->img->mem.host + t->offset + first;
	}
}

#define SCRATCH_KEPT (16u << 20)

/* Workspace of this thread, kept from step to step; the thread frees it when it ends. */
static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

struct scratch {
	size_t size;
	char pad[56];
	char bytes[] __attribute__((aligned(64)));
};

static void make_key(void)
{
	pthread_key_create(&scratch_key, free);
}

/* A large workspace is freed with its step, so that a thread does not keep it after the model. */
static void drop_large_scratch(void)
{
	struct scratch *s = pthread_getspecific(scratch_key);

	if (s && s->size > SCRATCH_KEPT) {
		free(s);
		pthread_setspecific(scratch_key, NULL);
	}
}

static void *get_scratch(size_t size)
{
	struct scratch *s;

	pthread_once(&scratch_once, make_key);
	s = pthread_getspecific(scratch_key);
	if (s && s->size >= size)
		return s->bytes;
	free(s);
	pthread_setspecific(scratch_key, NULL);
	if (posix_memalign((void **)&s, 64, sizeof(*s) + size))
		return NULL;
	s->size = size;
	pthread_setspecific(scratch_key, s);
	return s->bytes;
}

/* An operand, in the shape of the step's parameters unless the run has determined it. */
static struct rvl_value operand(const struct rivulet_exec *x, uint32_t tensor)
{
	const struct rivulet_tensor *t;

	if (tensor == UINT32_MAX)
		return (struct rvl_value) { .type = RVL_TYPE_NONE };
	t = &rivulet_program_tensors(x->img->prog)[tensor];
	return (struct rvl_value) {
		.type = (enum rvl_type)t->dtype,
		.shape = t->flags & RIVULET_TENSOR_BOUNDED ? x->shape[tensor] :
			 (struct rvl_shape) { .rank = RVL_RANK_COMPILED },
		.data = tensor_host(x, tensor),
	};
}

static void keep_shapes(struct rivulet_exec *x, const struct rvl_rt_cpu_step *c,
			const struct rvl_value *out)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(x->img->prog);

	for (uint32_t i = 0; i < c->n_out; i++)
		if (c->out[i] != UINT32_MAX && t[c->out[i]].flags & RIVULET_TENSOR_BOUNDED)
			x->shape[c->out[i]] = out[i].shape;
}

/* A kernel owns nothing while it runs, so it can be left at any instruction. */
static int run_kernel(struct rvl_rt_task *t, const struct rvl_value *in, struct rvl_value *out,
		      void *scratch)
{
	struct rvl_rt_exit leave = { .stop = &t->x->abandoned };
	int r;

	if (setjmp(leave.to))
		return -ECANCELED;
	rvl_rt_workers_exit(&leave);
	r = rvl_kernel_run_values(t->x->img->cpu[t->step].kernel, in, out, scratch,
				  rvl_rt_workers_kernel(t->x->img->rt->pool), t->why);
	rvl_rt_workers_exit(NULL);
	return r;
}

void rvl_rt_cpu_run(struct rvl_rt_task *t)
{
	const struct rvl_rt_cpu_step *c = &t->x->img->cpu[t->step];
	struct rvl_value in[RVL_MAX_IN], out[RVL_MAX_OUT];
	void *scratch = get_scratch(c->scratch);

	t->report.worker = rvl_rt_worker();
	t->report.start_ns = (uint64_t)rvl_rt_now();
	*t->why = '\0';
	for (uint32_t i = 0; i < c->n_in; i++)
		in[i] = operand(t->x, c->in[i]);
	for (uint32_t i = 0; i < c->n_out; i++)
		out[i] = operand(t->x, c->out[i]);
	t->error = scratch ? run_kernel(t, in, out, scratch) : -ENOMEM;
	if (!t->error)
		keep_shapes(t->x, c, out);
	drop_large_scratch();
	t->report.end_ns = (uint64_t)rvl_rt_now();
}

int rivulet_exec_shape(const struct rivulet_exec *x, uint32_t tensor, uint64_t *dim)
{
	const struct rivulet_tensor *t;

	if (tensor >= x->img->prog->tensors)
		return -ERANGE;
	t = &rivulet_program_tensors(x->img->prog)[tensor];
	for (uint32_t i = 0; i < t->ndim; i++)
		dim[i] = t->flags & RIVULET_TENSOR_BOUNDED ? (uint64_t)x->shape[tensor].dim[i] :
							     t->dim[i];
	return (int)t->ndim;
}

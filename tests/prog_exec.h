/* SPDX-License-Identifier: MIT */
/*
 * A minimal executor of program files. It runs the steps in order: CPU steps by their kernels, NPU
 * steps on the linked compute core. Tests of the compiler use it, because they must not depend on
 * the runtime.
 */
#ifndef RVL_TEST_PROG_EXEC_H
#define RVL_TEST_PROG_EXEC_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "rivulet_kernels.h"
#include "rivulet_program.h"

struct prog_exec {
	const struct rivulet_board *board;
	struct rvl_core *core;
	const struct rivulet_program *p;
	uint32_t level; /* of the variants that run */
	uint8_t *arena;
	struct rvl_shape *shape; /* by tensor, as the run found it */
	void *io[64]; /* inputs, then outputs; owned by the caller */
	uint8_t *slot[RIVULET_SLOTS]; /* host memory of each slot of the job */
	uint8_t *prof;
	uint64_t prof_size;
	uint64_t cycles; /* of all NPU steps of the last run */
	char err[256];
};

#define PROG_SLOT_SHIFT 40

/*
 * Slot s begins at bus address (s + 1) << 40, so that the cycles do not depend on where the host has
 * the memory. Only the region table limits what the device accesses.
 */
static inline void *prog_map(void *ctx, uint64_t addr, uint64_t len, bool write)
{
	struct prog_exec *x = ctx;
	uint64_t slot = (addr >> PROG_SLOT_SHIFT) - 1;

	(void)len;
	(void)write;
	return x->slot[slot] + (addr & ((UINT64_C(1) << PROG_SLOT_SHIFT) - 1));
}

static inline void *prog_tensor(const struct prog_exec *x, uint32_t i)
{
	const struct rivulet_tensor *t = &rivulet_program_tensors(x->p)[i];
	uint64_t first = rivulet_tensor_first(t);

	switch (t->place) {
	case RIVULET_PLACE_INPUT:
		return x->io[t->offset] + t->at + first;
	case RIVULET_PLACE_OUTPUT:
		return x->io[x->p->inputs + t->offset] + t->at + first;
	case RIVULET_PLACE_ARENA:
		return x->arena + t->offset + first;
	default:
		return (uint8_t *)(uintptr_t)x->p + t->offset + first;
	}
}

/* A tensor with its shape: the one that the run found where the program has a bound only. */
static inline struct rvl_value prog_value(const struct prog_exec *x, uint32_t tensor)
{
	const struct rivulet_tensor *t = &rivulet_program_tensors(x->p)[tensor];
	struct rvl_value v = { .type = (enum rvl_type)t->dtype, .data = prog_tensor(x, tensor) };

	v.shape.rank = (int32_t)t->ndim;
	for (uint32_t d = 0; d < t->ndim; d++)
		v.shape.dim[d] = (int64_t)t->dim[d];
	if (t->flags & RIVULET_TENSOR_BOUNDED)
		v.shape = x->shape[tensor];
	return v;
}

/* An operand of a step. Another tensor of the same store may have another shape or layout. */
static inline struct rvl_value prog_operand(const struct prog_exec *x, uint32_t tensor,
					    const struct rvl_kernel_arg *a)
{
	struct rvl_value v = prog_value(x, tensor);

	if (!(rivulet_program_tensors(x->p)[tensor].flags & RIVULET_TENSOR_BOUNDED))
		v.shape = a->shape;
	return v;
}

static inline void prog_pitches(const struct prog_exec *x, uint32_t tensor, struct rvl_kernel_arg *a)
{
	const struct rivulet_tensor *t = &rivulet_program_tensors(x->p)[tensor];

	a->pitched = t->flags & RIVULET_TENSOR_PITCHED;
	memcpy(a->pitch, t->pitch, sizeof(a->pitch));
}

/* The operator of a step and its operands. */
static inline int prog_cpu_operands(const struct prog_exec *x, const struct rivulet_step *s,
				    struct rvl_kernel_desc *d, struct rvl_value *in,
				    struct rvl_value *out)
{
	uint32_t r = 0, w = 0;
	int rc = rvl_desc_unpack((const uint8_t *)x->p + x->p->params_off + s->params,
				 s->params_size, d);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < d->n_in; i++) {
		if (d->in[i].type == RVL_TYPE_NONE)
			continue;
		if (rivulet_program_tensors(x->p)[s->read[r]].place == RIVULET_PLACE_CONST)
			d->in[i].data = prog_tensor(x, s->read[r]);
		prog_pitches(x, s->read[r], &d->in[i]);
		in[i] = prog_operand(x, s->read[r++], &d->in[i]);
	}
	for (uint32_t i = 0; i < d->n_out; i++)
		if (d->out[i].type != RVL_TYPE_NONE) {
			prog_pitches(x, s->write[w], &d->out[i]);
			out[i] = prog_operand(x, s->write[w++], &d->out[i]);
		}
	return 0;
}

static inline int prog_cpu_step(struct prog_exec *x, const struct rivulet_step *s)
{
	struct rvl_value in[RVL_MAX_IN] = { { .type = RVL_TYPE_NONE } };
	struct rvl_value out[RVL_MAX_OUT] = { { .type = RVL_TYPE_NONE } };
	struct rvl_kernel_desc d;
	struct rvl_kernel *k;
	uint32_t w = 0;
	void *scratch;
	int rc = prog_cpu_operands(x, s, &d, in, out);

	if (!rc)
		rc = rvl_kernel_new(&d, true, &k, x->err);
	if (rc)
		return rc;
	scratch = aligned_alloc(64, (rvl_kernel_scratch(k) + 127) / 64 * 64);
	rc = scratch ? rvl_kernel_run_values(k, in, out, scratch, NULL, x->err) : -ENOMEM;
	w = 0;
	for (uint32_t i = 0; i < d.n_out && !rc; i++)
		if (d.out[i].type != RVL_TYPE_NONE)
			x->shape[s->write[w++]] = out[i].shape;
	free(scratch);
	rvl_kernel_free(k);
	return rc;
}

static inline void prog_bind(struct prog_exec *x, struct rvl_job *j, uint32_t slots, uint32_t written,
			     uint32_t slot, void *p, uint64_t size)
{
	x->slot[slot] = p;
	if (slots >> slot & 1)
		j->regions.region[slot] = (struct rivulet_region){
			.addr = (uint64_t)(slot + 1) << PROG_SLOT_SHIFT,
			.limit = size,
			.flags = RIVULET_REGION_VALID |
				 (written >> slot & 1 ? RIVULET_REGION_WRITE : 0)
		};
}

static inline int prog_npu_step(struct prog_exec *x, const struct rivulet_step *s)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(x->p);
	struct rvl_bus bus = { .map = prog_map, .ctx = x };
	const struct rivulet_step_variant *v = &s->variant[x->level];
	struct rvl_job job = { .variant = { v->offset, v->length, 0 } };
	struct rivulet_status st = { 0 };

	job.regions.bus = &bus;
	prog_bind(x, &job, s->slots, s->writes_mask, RIVULET_SLOT_PROGRAM, (void *)(uintptr_t)x->p,
		  x->p->size);
	prog_bind(x, &job, s->slots, s->writes_mask, RIVULET_SLOT_ARENA, x->arena, x->p->arena_size);
	prog_bind(x, &job, s->slots, s->writes_mask, RIVULET_SLOT_PROF, x->prof, x->prof_size);
	for (uint32_t i = 0; i < x->p->inputs + x->p->outputs && i < RIVULET_MAX_IO; i++)
		prog_bind(x, &job, s->slots, s->writes_mask, RIVULET_SLOT_IO + i, x->io[i], t[i].size);
	rvl_core_run(x->core, &job, &st);
	x->cycles += st.cycles;
	if (st.state == RIVULET_STATE_DONE)
		return 0;
	snprintf(x->err, sizeof(x->err), "state %u fault %u slot %u offset %llu instruction %u",
		 st.state, st.fault, st.fault_slot, (unsigned long long)st.fault_offset, st.insn);
	return -EIO;
}

/** Runs all steps. The caller fills io[]. Returns 0, or a negative errno with x->err set. */
static inline int prog_run(struct prog_exec *x)
{
	const struct rivulet_step *s = rivulet_program_steps(x->p);
	int rc = 0;

	x->cycles = 0;
	x->err[0] = '\0';
	for (uint32_t i = 0; i < x->p->steps && !rc; i++)
		rc = s[i].kind == RIVULET_STEP_NPU ? prog_npu_step(x, &s[i]) :
						     prog_cpu_step(x, &s[i]);
	return rc;
}

/** @core: NULL creates one. The program must have passed rivulet_program_check(). */
static inline int prog_open(struct prog_exec *x, const struct rivulet_board *b,
			    struct rvl_core *core, const void *program)
{
	memset(x, 0, sizeof(*x));
	x->board = b;
	x->core = core ? core : rvl_core_new(b);
	x->p = program;
	x->prof_size = x->p->cmd_size / 16 * 24 + 8;
	x->arena = aligned_alloc(64, (x->p->arena_size + 127) / 64 * 64);
	x->prof = malloc(x->prof_size);
	x->shape = calloc(x->p->tensors + 1, sizeof(*x->shape));
	if (!x->core || !x->arena || !x->prof || !x->shape)
		return -ENOMEM;
	memset(x->arena, 0x5a, x->p->arena_size); /* no result may depend on the initial contents */
	return 0;
}

static inline void prog_close(struct prog_exec *x, bool core)
{
	if (core)
		rvl_core_free(x->core);
	free(x->arena);
	free(x->shape);
	free(x->prof);
}

#endif

/* SPDX-License-Identifier: MIT */
/* The CPU steps of a program, with kernels that are made once, as the runtime makes them. */
#ifndef RVL_BENCH_STEPS_H
#define RVL_BENCH_STEPS_H

#include <stdlib.h>

#include "prog_exec.h"

/* A step that is ready to run many times. */
struct step {
	struct rvl_kernel *k;
	struct rvl_value in[RVL_MAX_IN], out[RVL_MAX_OUT];
};

/** *steps: one for each step of the program. *scratch: bytes of the largest workspace. */
static inline int steps_make(const struct prog_exec *x, struct step **steps, size_t *scratch)
{
	const struct rivulet_step *all = rivulet_program_steps(x->p);
	struct step *s = calloc(x->p->steps, sizeof(*s));
	int rc = s ? 0 : -ENOMEM;

	*steps = s;
	*scratch = 0;
	for (uint32_t i = 0; i < x->p->steps && !rc; i++) {
		struct rvl_kernel_desc d;

		rc = prog_cpu_operands(x, &all[i], &d, s[i].in, s[i].out);
		if (!rc)
			rc = rvl_kernel_new(&d, false, &s[i].k, (char *)x->err);
		if (!rc && rvl_kernel_scratch(s[i].k) > *scratch)
			*scratch = rvl_kernel_scratch(s[i].k);
	}
	return rc;
}

static inline void steps_free(const struct prog_exec *x, struct step *s)
{
	for (uint32_t i = 0; s && i < x->p->steps; i++)
		rvl_kernel_free(s[i].k);
	free(s);
}

#endif

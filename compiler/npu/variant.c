/* SPDX-License-Identifier: MIT */
/*
 * Variants of a program: one set of command streams for each bitstream length that a level asks for,
 * int8 being one of them. They share tiling, weights and tensors, so that a variant costs its commands,
 * and biases and factors of the layers whose products are streams.
 */
#include "npu/backend.h"
#include "pass/passes.h"
#include "rivulet_sc.h"

#include <errno.h>

static uint32_t levels_of(const struct rvl_backend *be)
{
	return be->board ? be->board->levels : 1;
}

static int check_length(const struct rvl_backend *be, uint32_t level)
{
	uint32_t n = be->opt->length[level];

	if (!n || n == RIVULET_NO_VARIANT || (n >= RIVULET_SC_MIN && n <= RIVULET_SC_MAX))
		return 0;
	return rvl_fail(be->err, -EINVAL, "level %u: a bitstream of %u bits, not %u to %u", level, n,
			RIVULET_SC_MIN, RIVULET_SC_MAX);
}

/* The variant of that length, made where there is none. */
static uint32_t variant_of(struct rvl_backend *be, uint32_t length)
{
	for (uint32_t v = 0; v < be->n_variants; v++)
		if (be->length[v] == length)
			return v;
	be->length[be->n_variants] = length;
	return be->n_variants++;
}

/* From the slowest level on; the highest level with a variant comes last by exchange. */
static void number_variants(struct rvl_backend *be)
{
	uint32_t n = levels_of(be), top = RVL_NONE, last, length;

	for (uint32_t l = 0; l < n; l++) {
		be->of_level[l] = RVL_NONE;
		if (be->opt->stochastic && be->opt->length[l] == RIVULET_NO_VARIANT)
			continue;
		be->of_level[l] = variant_of(be, be->opt->stochastic ? be->opt->length[l] : 0);
		top = be->of_level[l];
	}
	if (top == RVL_NONE)
		return;
	last = be->n_variants - 1;
	length = be->length[top];
	be->length[top] = be->length[last];
	be->length[last] = length;
	for (uint32_t l = 0; l < n; l++) {
		uint32_t v = be->of_level[l];

		be->of_level[l] = v == top ? last : v == last ? top : v;
	}
}

int rvl_variants_choose(struct rvl_backend *be)
{
	int rc = 0;

	for (uint32_t l = 0; be->opt->stochastic && l < levels_of(be) && !rc; l++)
		rc = check_length(be, l);
	if (rc)
		return rc;
	number_variants(be);
	if (!be->n_variants)
		return rvl_fail(be->err, -EINVAL, "no level has a variant");
	for (uint32_t v = 0; v < be->n_variants; v++)
		be->g->sc_longest = rvl_max(be->g->sc_longest, be->length[v]);
	return !be->opt->stochastic ? 0 :
				      rvl_sc_mark(be->g, be->opt->keep_int8, be->opt->n_keep_int8,
						  be->err);
}

int rvl_variants_of_cpu(const struct rvl_backend *be, const struct rvl_node *n, uint32_t *length)
{
	*length = be->length[0];
	if (be->n_variants == 1)
		return 0;
	return rvl_fail(be->err, -EOPNOTSUPP,
			"node \"%s\" (%s) runs on the CPU (%s), which has no levels: all levels must have one length",
			n->name, n->op_type, n->reason ? n->reason : "no reason given");
}

uint64_t rvl_layer_cycles(const struct rvl_backend *be, const struct rvl_layer *l)
{
	uint32_t length = be->g->sc_longest;
	const struct rvl_mode *mode = rvl_mode_at(l, length);

	return l->t.cost + (mode && mode->int8 ? mode->cycles(be->board, l->p.macs, length) : 0);
}

bool rvl_mode_used(const struct rvl_backend *be, const struct rvl_layer *l,
		   const struct rvl_mode *mode)
{
	for (uint32_t v = 0; mode && v < be->n_variants; v++)
		if (rvl_mode_at(l, be->length[v]) == mode)
			return true;
	return false;
}

bool rvl_step_varies(const struct rvl_backend *be, const struct rvl_bstep *s)
{
	for (uint32_t i = 0; i < s->layers; i++) {
		const struct rvl_mode *mode = be->layer[s->layer0 + i]->mode;

		if (mode && mode->int8)
			return true;
	}
	return false;
}

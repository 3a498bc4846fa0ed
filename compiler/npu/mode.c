/* SPDX-License-Identifier: MIT */
/* The table of modes: make adds an entry for each file mode_NAME.c. */
#include "npu/mode.h"

#define RVL_MODE(name) extern const struct rvl_mode rvl_mode_##name;
#include "npu_modes.inc"
#undef RVL_MODE

static const struct rvl_mode *const modes[] = {
#define RVL_MODE(name) &rvl_mode_##name,
#include "npu_modes.inc"
#undef RVL_MODE
};

#define MODES ((uint32_t)(sizeof(modes) / sizeof(modes[0])))

const struct rvl_mode *rvl_mode_number(uint32_t i)
{
	return i < MODES ? modes[i] : NULL;
}

const struct rvl_mode *rvl_mode_asked(const struct rvl_node *n)
{
	for (uint32_t i = 0; i < MODES; i++)
		if (modes[i]->takes && modes[i]->takes(n))
			return modes[i];
	return NULL;
}

const struct rvl_mode *rvl_mode_of(const struct rvl_node *n)
{
	const struct rvl_mode *asked = rvl_mode_asked(n);

	return asked ? asked : &rvl_mode_dense;
}

/* Variants may run a layer in its own mode and in the int8 mode that replaces it. */
const char *rvl_mode_missing(const struct rivulet_board *b, const struct rvl_mode *mode)
{
	if (mode->int8 && !(b->modes >> mode->int8->isa & 1))
		return mode->int8->missing;
	return b->modes >> mode->isa & 1 ? NULL : mode->missing;
}

bool rvl_mode_replaces(struct rvl_graph *g, const struct rivulet_board *b,
		       const struct rvl_mode *mode, struct rvl_layer *l)
{
	if (!mode->form || rvl_mode_asked(l->node) || rvl_mode_missing(b, mode))
		return false;
	l->mode = mode;
	return mode->form(g, b, l);
}

double rvl_modes_energy(const struct rivulet_board *b, uint32_t level, const struct rivulet_work *w)
{
	uint32_t counted = 0;
	double fj = 0;

	for (uint32_t i = 0; i < MODES; i++) {
		if (counted >> modes[i]->isa & 1)
			continue;
		counted |= 1u << modes[i]->isa;
		fj += modes[i]->energy(b, level, w);
	}
	return fj;
}

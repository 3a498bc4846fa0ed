// SPDX-License-Identifier: MIT
/*
 * Dependencies between steps. The memory plan reuses bytes, so dependencies are between byte
 * ranges, not between tensors: a step waits for every earlier step that writes a range it uses, or
 * that uses a range it writes. Only the RVL_RT_WINDOW steps before it are compared; it waits for
 * every step before those. This bounds the time for a program of 65,536 steps to milliseconds.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

bool rvl_rt_overlap(const struct rivulet_tensor *a, const struct rivulet_tensor *b)
{
	if (a->place != b->place || a->place == RIVULET_PLACE_CONST || !a->size || !b->size)
		return false;
	if (a->place != RIVULET_PLACE_ARENA)
		return a->offset == b->offset && a->at < b->at + b->size && b->at < a->at + a->size;
	return a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

static bool any_overlap(const struct rivulet_tensor *t, const uint32_t *a, uint32_t na,
			const uint32_t *b, uint32_t nb)
{
	for (uint32_t i = 0; i < na; i++)
		for (uint32_t j = 0; j < nb; j++)
			if (rvl_rt_overlap(&t[a[i]], &t[b[j]]))
				return true;
	return false;
}

static bool conflict(const struct rivulet_tensor *t, const struct rivulet_step *late,
		     const struct rivulet_step *early)
{
	return any_overlap(t, early->write, early->nwrite, late->read, late->nread) ||
	       any_overlap(t, early->write, early->nwrite, late->write, late->nwrite) ||
	       any_overlap(t, early->read, early->nread, late->write, late->nwrite);
}

int rvl_rt_deps(struct rivulet_image *img)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(img->prog);
	const struct rivulet_step *s = rivulet_program_steps(img->prog);

	img->deps = calloc(img->prog->steps + 1, sizeof(*img->deps));
	if (!img->deps)
		return -ENOMEM;
	for (uint32_t i = 0; i < img->prog->steps; i++)
		for (uint32_t b = 0; b < RVL_RT_WINDOW && b < i; b++)
			if (conflict(t, &s[i], &s[i - 1 - b]))
				img->deps[i][b / 64] |= 1ull << b % 64;
	return 0;
}

bool rvl_rt_depends(const struct rivulet_image *img, uint32_t i, uint32_t j)
{
	uint32_t b = i - 1 - j;

	return b >= RVL_RT_WINDOW || img->deps[i][b / 64] >> b % 64 & 1;
}

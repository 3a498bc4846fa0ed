/* SPDX-License-Identifier: MIT */
/*
 * Small planes under windows. A plane is copied with its border, divided by the strides into phases,
 * so that every tap of all results reads one run of adjacent elements. The rows of the results lie
 * @pitch apart in such a run; what is between them is computed and not used.
 */
#ifndef RVL_FLOAT_PLANE_H
#define RVL_FLOAT_PLANE_H

#include "float/rows.h"

#define RVL_F32_PLANE 4608	/* most floats of a copied plane */
#define RVL_F32_PLANE_TAPS 81	/* most taps of a window */
#define RVL_F32_PLANE_MEMORY (RVL_F32_PLANE + 80)	/* floats of a copy, or of a run of results */

struct rvl_f32_plane {
	struct rvl_window_axis y, x;
	int64_t pitch;		/* floats between rows of a phase, and of results */
	int64_t phase;		/* floats of a phase */
	int64_t run;		/* from the first result to the last one */
	int64_t piece;		/* of a quarter of the run: a multiple of the vector */
	int64_t off[RVL_F32_PLANE_TAPS];	/* of the first element under each tap */
};

/** Whether planes under these windows are small enough, and then where everything lies. */
bool rvl_f32_plane_of(const struct rvl_window *w, struct rvl_f32_plane *p);

/** Copies plane @x. @mem: RVL_F32_PLANE_MEMORY floats. Elements of the border are @border. */
void rvl_f32_plane_copy(const struct rvl_f32_plane *p, const float *x, float border, float *mem);

/** A run of results from a copied plane: clamped bias + sum of weights by elements, tap by tap. */
void rvl_f32_plane_sum(const struct rvl_f32_plane *p, const float *mem, const float *weights,
		       float bias, float lo, float hi, float *run);

/** A run of the largest elements; what is not a number is none. */
void rvl_f32_plane_max(const struct rvl_f32_plane *p, const float *mem, float *run);

/** The rows of a run of results, one behind the other. */
void rvl_f32_plane_rows(const struct rvl_f32_plane *p, const float *run, float *y);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Small planes under windows. A plane is copied with its border, divided by the strides into phases,
 * so that every tap of all results reads one run of adjacent elements. The rows of the results lie
 * @pitch apart in such a run; what is between them is computed and not used. Planes that are copied to
 * the same memory one after the other have one border.
 */
#ifndef RVL_FLOAT_PLANE_H
#define RVL_FLOAT_PLANE_H

#include "float/rows.h"

#define RVL_F32_PLANE 4608	/* most floats of a copied plane */
#define RVL_F32_PLANE_TAPS 81	/* most taps of a window */
#define RVL_F32_PLANE_MEMORY (RVL_F32_PLANE + 80)	/* floats of a copy, or of a run of results */
#define RVL_F32_PLANE_PHASES 16

/* The rectangle of a phase that lies inside the image. */
struct rvl_f32_phase {
	int64_t from, to;	/* its first element in the image and in the copy */
	int64_t rows, cols;
};

struct rvl_f32_plane {
	struct rvl_window_axis y, x;
	int64_t pitch;		/* floats between rows of a phase, and of results */
	int64_t phase;		/* floats of a phase */
	int64_t run;		/* from the first result to the last one */
	int64_t piece;		/* of a quarter of the run: a multiple of the vector */
	int64_t off[RVL_F32_PLANE_TAPS];	/* of the first element under each tap */
	int phases;				/* that a tap reads */
	struct rvl_f32_phase in[RVL_F32_PLANE_PHASES];
};

/** Whether planes under these windows are small enough, and then where everything lies. */
bool rvl_f32_plane_of(const struct rvl_window *w, struct rvl_f32_plane *p);

/** Fills @mem, RVL_F32_PLANE_MEMORY floats, with @border, before the first plane is copied to it. */
void rvl_f32_plane_border(const struct rvl_f32_plane *p, float border, float *mem);

/** Copies what lies inside plane @x. */
void rvl_f32_plane_copy(const struct rvl_f32_plane *p, const float *x, float *mem);

/** A run of results from a copied plane: clamped bias + sum of weights by elements, tap by tap. */
void rvl_f32_plane_sum(const struct rvl_f32_plane *p, const float *mem, const float *weights,
		       float bias, float lo, float hi, float *run);

/** A run of the largest elements; what is not a number is none. */
void rvl_f32_plane_max(const struct rvl_f32_plane *p, const float *mem, float *run);

/** The rows of a run of results, one behind the other. */
void rvl_f32_plane_rows(const struct rvl_f32_plane *p, const float *run, float *y);

#endif

/* SPDX-License-Identifier: MIT */
/* The files of the networks of tools/zoo, and an input for them. */
#ifndef RVL_ZOO_PICTURE_H
#define RVL_ZOO_PICTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "graph/graph.h"

/* A whole file, which the caller frees; NULL if it cannot be read. */
static inline void *zoo_read(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rbe");
	struct stat st;
	void *p = f && !fstat(fileno(f), &st) ? malloc((size_t)st.st_size + 1) : NULL;

	*size = p ? fread(p, 1, (size_t)st.st_size, f) : 0;
	if (f)
		fclose(f);
	return p;
}

/* A smooth picture with noise, which the caller frees; the values are multiples of 1/255. */
static inline float *zoo_picture(const struct rvl_shape *shape, size_t *bytes)
{
	int64_t n = rvl_shape_count(shape), wide = shape->dim[shape->rank - 1];
	float *v = malloc((size_t)n * sizeof(*v));
	uint64_t state = 1;

	*bytes = (size_t)n * sizeof(*v);
	for (int64_t i = 0; v && i < n; i++) {
		double wave = sin(0.05 * (double)(i % wide)) * cos(0.03 * (double)(i / wide));

		state = state * 6364136223846793005u + 1442695040888963407u;
		v[i] = (float)((int)(110 + 80 * wave) + (int)(state >> 58)) / 255.0f;
	}
	return v;
}

#endif

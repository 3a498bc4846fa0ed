// SPDX-License-Identifier: MIT
#include "model/dims.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A whole number of at most INT32_MAX that ends with @end; *past is behind it. */
static bool whole(const char *s, char end, int64_t *out, const char **past)
{
	char *stop;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	*out = strtoll(s, &stop, 10);
	*past = stop;
	return !errno && *out <= INT32_MAX && (*stop == end || !*stop);
}

/* The name before the last '=', which the caller frees. */
static char *name_of(const char *value, const char **rest)
{
	const char *eq = strrchr(value, '=');

	*rest = eq ? eq + 1 : value;
	return eq && eq != value ? strndup(value, (size_t)(eq - value)) : NULL;
}

int rvl_dims_shape(void *member, const char *value)
{
	struct rvl_dims *d = member;
	struct rivulet_input_shape s = { .rank = 0 };
	const char *p;
	bool good = d->n_shapes < RVL_DIMS_MAX;

	s.name = name_of(value, &p);
	for (; good && *p; p += *p == ',') {
		good = s.rank < RIVULET_MAX_DIMS && whole(p, ',', &s.dim[s.rank], &p) &&
		       (*p != ',' || p[1]);
		s.rank++;
	}
	if (!good || !s.name) {
		free((char *)(uintptr_t)s.name);
		return rvl_tool_fail(RVL_EXIT_USAGE, "--shape takes NAME=D0,D1,..., not \"%s\"", value);
	}
	d->shape[d->n_shapes++] = s;
	return 0;
}

int rvl_dims_symbol(void *member, const char *value)
{
	struct rvl_dims *d = member;
	bool named = strchr(value, '=');
	const char *p;
	char *name = name_of(value, &p);
	int64_t n;

	if (!whole(p, 0, &n, &p) || *p || !n || (named && !name) || d->n_names == RVL_DIMS_MAX) {
		free(name);
		return rvl_tool_fail(RVL_EXIT_USAGE, "--symbol takes N or NAME=N with N from 1, not \"%s\"",
				     value);
	}
	if (name)
		d->name[d->n_names++] = (struct rivulet_dimension) { name, n };
	else
		d->symbol = (uint64_t)n;
	return 0;
}

bool rvl_dims_named(const struct rvl_dims *d)
{
	return d->n_shapes || d->n_names;
}

bool rvl_dims_given(const struct rvl_dims *d)
{
	return d->symbol || rvl_dims_named(d);
}

void rvl_dims_fill(const struct rvl_dims *d, struct rivulet_compile_options *o)
{
	o->symbol = (int64_t)d->symbol;
	o->shapes = d->shape;
	o->n_shapes = d->n_shapes;
	o->dimensions = d->name;
	o->n_dimensions = d->n_names;
}

void rvl_dims_clear(struct rvl_dims *d)
{
	for (uint32_t i = 0; i < d->n_shapes; i++)
		free((char *)(uintptr_t)d->shape[i].name);
	for (uint32_t i = 0; i < d->n_names; i++)
		free((char *)(uintptr_t)d->name[i].name);
}

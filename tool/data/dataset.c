// SPDX-License-Identifier: MIT
/* Labelled examples from files, and lists of bitstream lengths, for eval and plan. */
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "data/image.h"
#include "verb.h"

static bool is_npy(const char *path)
{
	size_t n = strlen(path);

	return n > 4 && !strcmp(path + n - 4, ".npy");
}

static int read_labels(const char *path, struct rvl_dataset *d)
{
	const struct rvl_array *a = &d->answers;
	int r = is_npy(path) ? rvl_array_read(path, &d->answers) : rvl_idx_read(path, 1, &d->answers);

	if (r)
		return r;
	if (a->ndim != 1 || (a->dtype != RIVULET_U8 && a->dtype != RIVULET_S64))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: labels are one row of uint8 or int64", path);
	d->label = malloc(a->dim[0] + 1);
	if (!d->label)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (uint64_t i = 0; i < a->dim[0]; i++)
		d->label[i] = a->dtype == RIVULET_U8 ? ((const uint8_t *)a->data)[i] :
						       (uint8_t)((const int64_t *)a->data)[i];
	return 0;
}

int rvl_dataset_read(const char *data, const char *labels, uint64_t first, uint64_t count,
		     struct rvl_dataset *d)
{
	struct rivulet_eval_data *s = &d->set;
	const struct rvl_array *a = &d->examples;
	int r = is_npy(data) ? rvl_array_read(data, &d->examples) : rvl_idx_read(data, 3, &d->examples);

	if (!r)
		r = read_labels(labels, d);
	if (r)
		return r;
	if (a->ndim < 2 || !a->dim[0] || (a->dtype != RIVULET_U8 && a->dtype != RIVULET_F32))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: examples are uint8 or float32, one in each row",
				     data);
	if (a->dim[0] != d->answers.dim[0])
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%llu examples but %llu labels",
				     (unsigned long long)a->dim[0],
				     (unsigned long long)d->answers.dim[0]);
	if (first >= a->dim[0] || !count)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--first and --count leave no examples of %llu",
				     (unsigned long long)a->dim[0]);
	s->size = a->size / a->dim[0] / rvl_dtype_size(a->dtype);
	s->count = a->dim[0] - first < count ? a->dim[0] - first : count;
	s->labels = d->label + first;
	if (a->dtype == RIVULET_F32)
		s->f32 = (const float *)a->data + first * s->size;
	else
		s->u8 = (const uint8_t *)a->data + first * s->size;
	return 0;
}

void rvl_dataset_clear(struct rvl_dataset *d)
{
	rvl_array_clear(&d->examples);
	rvl_array_clear(&d->answers);
	free(d->label);
	*d = (struct rvl_dataset) { 0 };
}

int rvl_lengths_parse(const char *s, bool *lengths)
{
	for (;;) {
		char *end;
		unsigned long lo = strtoul(s, &end, 10), hi = lo;

		if (*end == '-')
			hi = strtoul(end + 1, &end, 10);
		if (*s < '0' || *s > '9' || (*end && *end != ',') || lo < RIVULET_SC_MIN ||
		    hi > RIVULET_SC_MAX || lo > hi)
			return rvl_tool_fail(RVL_EXIT_USAGE, "--length: \"%s\" is no length of 8 to 256, "
					     "range, or list of these", s);
		for (unsigned long l = lo; l <= hi; l++)
			lengths[l] = true;
		if (!*end)
			return 0;
		s = end + 1;
	}
}

// SPDX-License-Identifier: MIT
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/examples.h"
#include "data/npz.h"
#include "verb.h"

#define MAX_DEPTH 4	/* folders in folders */
#define NO_INPUT UINT32_MAX

int rvl_examples_init(struct rvl_examples *x, const struct rvl_picture_options *picture,
		      struct rivulet_model_input *input, uint32_t n)
{
	*x = (struct rvl_examples) { .picture = picture, .input = input, .n = n };
	x->list = calloc(n + 1u, sizeof(*x->list));
	x->room = calloc(n + 1u, sizeof(*x->room));
	if (!x->list || !x->room)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (uint32_t i = 0; i < n; i++)
		x->list[i].input = input[i].name;
	return 0;
}

void rvl_examples_clear(struct rvl_examples *x)
{
	for (uint32_t i = 0; x->list && i < x->n; i++)
		free((void *)(uintptr_t)x->list[i].data);
	free(x->list);
	free(x->room);
	*x = (struct rvl_examples) { .n = 0 };
}

static int no_memory(const char *path)
{
	return rvl_tool_fail(RVL_EXIT_FAILED, "%s: out of memory", path);
}

/* Room for @bytes more at the end of an input's examples. */
static int grow(struct rvl_examples *x, uint32_t i, size_t bytes, const char *path, uint8_t **out)
{
	struct rivulet_examples *e = &x->list[i];
	size_t want = e->size + bytes;
	uint8_t *p = (uint8_t *)(uintptr_t)e->data;

	if (bytes > RVL_ARRAY_MAX || want > RVL_ARRAY_MAX)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: more than %llu bytes of examples: give fewer",
				     path, (unsigned long long)RVL_ARRAY_MAX);
	if (want > x->room[i]) {
		size_t room = want > 2 * x->room[i] ? want : 2 * x->room[i];

		p = realloc(p, room);
		if (!p)
			return no_memory(path);
		e->data = p;
		x->room[i] = room;
	}
	*out = p + e->size;
	e->size = want;
	return 0;
}

static int which(const struct rvl_examples *x, uint32_t i, const char *path)
{
	if (i != NO_INPUT)
		return 0;
	return rvl_tool_fail(RVL_EXIT_USAGE, "%s: the model has %u inputs, so name one: --calibrate "
			     "\"%s=%s\"", path, x->n, x->n ? x->input[0].name : "NAME", path);
}

/* ---- arrays ---- */

/* Dimensions of one example: without the first one, unless that is all there is. */
static uint32_t example_dims(const struct rivulet_model_input *in, const uint64_t **dim)
{
	uint32_t skip = in->ndim > 1;

	*dim = in->dim + skip;
	return in->ndim - skip;
}

static bool fits(const struct rivulet_model_input *in, const struct rvl_array *a)
{
	const uint64_t *dim;
	uint32_t n = example_dims(in, &dim);

	return a->size && a->ndim >= n && !memcmp(a->dim + a->ndim - n, dim, n * sizeof(*dim));
}

static int refuse(const struct rivulet_model_input *in, const struct rvl_array *a, const char *path)
{
	char is[128], want[128];

	return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: the array is %s %s, input \"%s\" takes %s %s", path,
			     rvl_dtype_name(a->dtype), rvl_shape_text(is, a->ndim, a->dim), in->name,
			     rvl_dtype_name(in->dtype), rvl_shape_text(want, in->ndim, in->dim));
}

static int target_of(const struct rvl_examples *x, uint32_t i, struct rvl_picture_target *t)
{
	const struct rivulet_model_input *in = &x->input[i];

	*t = (struct rvl_picture_target) { .name = in->name, .dtype = in->dtype, .ndim = in->ndim };
	memcpy(t->dim, in->dim, sizeof(t->dim));
	if (t->ndim)
		t->dim[0] = 1;	/* one of the examples of a run */
	return rvl_picture_target_set(x->picture, t);
}

/* Bytes as samples of pictures, which are in the layout of the input already. */
static int add_samples(struct rvl_examples *x, uint32_t i, const struct rvl_array *a, const char *path)
{
	const struct rvl_picture_options *o = x->picture;
	struct rvl_picture_target t;
	uint64_t plane;
	uint8_t *to;
	int r = target_of(x, i, &t);

	if (!r)
		r = grow(x, i, a->size * sizeof(float), path, &to);
	plane = (uint64_t)t.h * t.w;
	for (uint64_t k = 0; k < a->size && !r; k++) {
		uint64_t c = t.nhwc ? k % t.c : k / plane % t.c;
		float f = ((float)((const uint8_t *)a->data)[k] / 255.0f - o->mean[c]) / o->std[c];

		memcpy(to + k * sizeof(f), &f, sizeof(f));
	}
	return r;
}

static int add_array(struct rvl_examples *x, uint32_t i, const struct rvl_array *a, const char *path)
{
	const struct rivulet_model_input *in;
	uint8_t *to;
	int r = which(x, i, path);

	if (r)
		return r;
	in = &x->input[i];
	if (fits(in, a) && a->dtype == RIVULET_U8 && in->dtype == RIVULET_F32)
		return add_samples(x, i, a, path);
	if (!fits(in, a) || a->dtype != in->dtype)
		return refuse(in, a, path);
	r = grow(x, i, a->size, path, &to);
	if (!r)
		memcpy(to, a->data, a->size);
	return r;
}

static int add_array_file(struct rvl_examples *x, uint32_t i, const char *path)
{
	struct rvl_array a = { 0 };
	int r = rvl_array_read(path, &a);

	if (!r)
		r = add_array(x, i, &a, path);
	rvl_array_clear(&a);
	return r;
}

/* ---- .npz ---- */

struct archive {
	struct rvl_examples *x;
	uint32_t input;		/* that the user named, or NO_INPUT */
	const char *path;
};

static uint32_t find_input(const struct rvl_examples *x, const char *name, size_t len)
{
	for (uint32_t i = 0; i < x->n; i++)
		if (strlen(x->input[i].name) == len && !memcmp(x->input[i].name, name, len))
			return i;
	return NO_INPUT;
}

static int add_member(void *arg, const char *name, struct rvl_array *a)
{
	const struct archive *z = arg;
	uint32_t i = find_input(z->x, name, strlen(name));
	char path[1400];
	int r;

	if (i == NO_INPUT)
		i = z->input != NO_INPUT ? z->input : z->x->n == 1 ? 0 : NO_INPUT;
	snprintf(path, sizeof(path), "%s: %s", z->path, name);
	r = i == NO_INPUT ? rvl_tool_fail(RVL_EXIT_REFUSED, "%s: the model has no input of that name", path) :
			    add_array(z->x, i, a, path);
	rvl_array_clear(a);
	return r;
}

static int add_npz(struct rvl_examples *x, uint32_t i, const char *path)
{
	struct archive z = { x, i, path };
	struct rvl_blob b;
	char why[160] = "";
	int r = rvl_read_file(path, RVL_ARRAY_MAX, &b);

	if (r)
		return r;
	r = rvl_npz_each(b.data, b.size, add_member, &z, why);
	rvl_blob_clear(&b);
	return r < 0 ? rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, *why ? why : strerror(-r)) : r;
}

/* ---- pictures ---- */

static int add_picture(struct rvl_examples *x, uint32_t i, const char *path)
{
	struct rvl_picture_target t;
	struct rvl_image img;
	size_t bytes;
	uint8_t *to;
	int r = which(x, i, path);

	if (!r)
		r = target_of(x, i, &t);
	if (!r)
		r = rvl_image_read(path, &img);
	if (r)
		return r;
	bytes = (size_t)t.c * t.h * t.w * rvl_dtype_size(t.dtype);
	r = grow(x, i, bytes, path, &to);
	if (!r)
		r = rvl_picture_put(x->picture, &t, &img, path, to);
	free(img.data);
	return r;
}

/* ---- files and folders ---- */

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n > k && !strcmp(s + n - k, end);
}

/* input_N.pb and input_N.npy, as ONNX's test data has them, are of input N. */
static uint32_t input_of_name(const struct rvl_examples *x, const char *path, uint32_t input)
{
	const char *name = strrchr(path, '/');
	unsigned int i;
	int used = 0;

	if (sscanf(name ? name + 1 : path, "input_%9u%n", &i, &used) == 1 && i < x->n)
		return i;
	return input;
}

static int add_file(struct rvl_examples *x, uint32_t i, const char *path)
{
	static const char *const pictures[] = { ".png", ".ppm", ".pgm", ".PNG", ".PPM", ".PGM" };

	for (size_t k = 0; k < sizeof(pictures) / sizeof(pictures[0]); k++)
		if (ends_with(path, pictures[k]))
			return add_picture(x, i, path);
	if (ends_with(path, ".npz"))
		return add_npz(x, i, path);
	if (ends_with(path, ".npy") || ends_with(path, ".pb"))
		return add_array_file(x, input_of_name(x, path, i), path);
	return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: no example: .png, .ppm, .pgm, .npy, .npz and .pb are",
			     path);
}

static int visible(const struct dirent *d)
{
	return d->d_name[0] != '.' && strncmp(d->d_name, "output_", 7);
}

/* Not alphasort(), whose order depends on the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_path(struct rvl_examples *x, uint32_t i, const char *path, int depth);

static int add_folder(struct rvl_examples *x, uint32_t i, const char *path, int depth)
{
	struct dirent **list;
	int n = scandir(path, &list, visible, by_name), r = 0;

	if (n < 0)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, strerror(errno));
	if (!n)
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: no examples in this folder", path);
	for (int k = 0; k < n; k++) {
		char name[4096];

		if (!r && (size_t)snprintf(name, sizeof(name), "%s/%s", path, list[k]->d_name) >=
		    sizeof(name))
			r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: the path is too long", path);
		if (!r)
			r = add_path(x, i, name, depth + 1);
		free(list[k]);
	}
	free(list);
	return r;
}

static int add_path(struct rvl_examples *x, uint32_t i, const char *path, int depth)
{
	struct stat st;

	if (stat(path, &st))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return add_file(x, i, path);
	if (depth >= MAX_DEPTH)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: folders deeper than %d", path, MAX_DEPTH);
	return add_folder(x, i, path, depth);
}

int rvl_examples_add(struct rvl_examples *x, const char *value)
{
	const char *eq = strchr(value, '=');
	uint32_t i = x->n == 1 ? 0 : NO_INPUT;

	for (; eq; eq = strchr(eq + 1, '=')) {
		uint32_t named = find_input(x, value, (size_t)(eq - value));

		if (named != NO_INPUT)
			return add_path(x, named, eq + 1, 0);
	}
	return add_path(x, i, value, 0);
}

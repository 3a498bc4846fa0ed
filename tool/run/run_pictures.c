// SPDX-License-Identifier: MIT
/* rivulet run over pictures: into the input tensor, scores out, label, comparison with the record. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/image.h"
#include "output.h"
#include "progress.h"
#include "run/run.h"

#define MAX_NAMES_FILE 65536
#define MAX_CLASSES 65536u

/** struct input - the one input, as pictures see it */
struct input {
	const struct rivulet_tensor_info *t;
	uint32_t c, h, w;
	void *memory;
};

static int find_input(struct rvl_run *r, struct input *in)
{
	const struct rivulet_tensor_info *t;
	char shape[128];

	if (rvl_engine_inputs(r->engine) != 1)
		return rvl_tool_fail(RVL_EXIT_USAGE, "pictures need a model of one input, this has %u",
				     rvl_engine_inputs(r->engine));
	t = rvl_engine_tensor(r->engine, 0);
	*in = (struct input) { .t = t, .memory = rvl_engine_memory(r->engine, 0, 0) };
	if (t->ndim == 4 && t->dim[0] == 1 && (t->dim[1] == 1 || t->dim[1] == 3) &&
	    t->dim[2] <= 16384 && t->dim[3] <= 16384 &&
	    (t->dtype == RIVULET_F32 || t->dtype == RIVULET_U8 || t->dtype == RIVULET_S8)) {
		in->c = (uint32_t)t->dim[1];
		in->h = (uint32_t)t->dim[2];
		in->w = (uint32_t)t->dim[3];
		return 0;
	}
	return rvl_tool_fail(RVL_EXIT_USAGE, "input %s is %s %s; pictures go into [1, 1 or 3, H, W] of "
			     "float32, uint8 or int8", t->name, rvl_dtype_name(t->dtype),
			     rvl_shape_text(shape, t->ndim, t->dim));
}

/* A sample of 0..255: float32(sample) / float32(255), quantised where the input is a quantised one. */
static void put_sample(const struct input *in, size_t at, uint8_t v)
{
	const struct rivulet_tensor_info *t = in->t;
	float f = (float)v / 255.0f;

	if (t->dtype == RIVULET_F32) {
		((float *)in->memory)[at] = f;
		return;
	}
	if (t->scale > 0) {
		float lo = t->dtype == RIVULET_U8 ? 0 : -128, hi = lo + 255;

		f = rintf(f / t->scale) + (float)t->zero_point;
		((uint8_t *)in->memory)[at] = (uint8_t)(int)fminf(fmaxf(f, lo), hi);
		return;
	}
	((uint8_t *)in->memory)[at] = t->dtype == RIVULET_U8 ? v : (uint8_t)(v - 128);
}

static uint8_t grey_of(const uint8_t *rgb)
{
	return (uint8_t)((299u * rgb[0] + 587u * rgb[1] + 114u * rgb[2] + 500) / 1000);
}

static int put_picture(const struct input *in, const struct rvl_image *img, const char *what)
{
	size_t plane = (size_t)in->h * in->w;

	if (img->w != in->w || img->h != in->h)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %u x %u pixels, the model takes %u x %u: "
				     "scale it first", what, img->w, img->h, in->w, in->h);
	for (size_t i = 0; i < plane; i++) {
		const uint8_t *s = img->data + i * img->channels;

		for (uint32_t c = 0; c < in->c; c++)
			put_sample(in, c * plane + i,
				   img->channels == 1 ? *s : in->c == 3 ? s[c] : grey_of(s));
	}
	return 0;
}

/* ---- answers ---- */

static int read_scores(struct rvl_run *r, float *out, uint32_t *n)
{
	uint32_t t = rvl_engine_inputs(r->engine);
	const struct rivulet_tensor_info *info = rvl_engine_tensor(r->engine, t);
	const void *m = rvl_engine_memory(r->engine, 0, t);
	uint64_t count = 1;

	for (uint32_t i = 0; i < info->ndim; i++)
		count *= info->dim[i];
	if (!count || count > MAX_CLASSES ||
	    (info->dtype != RIVULET_F32 && info->dtype != RIVULET_U8 && info->dtype != RIVULET_S8))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "output %s is no list of scores", info->name);
	*n = (uint32_t)count;
	for (uint32_t i = 0; i < *n; i++) {
		float scale = info->scale > 0 ? info->scale : 1;

		if (info->dtype == RIVULET_F32)
			out[i] = ((const float *)m)[i];
		else if (info->dtype == RIVULET_U8)
			out[i] = (float)(((const uint8_t *)m)[i] - info->zero_point) * scale;
		else
			out[i] = (float)(((const int8_t *)m)[i] - info->zero_point) * scale;
	}
	return 0;
}

/* The first maximum, and its share of a softmax (of scores that are none yet). */
static uint32_t best(const float *s, uint32_t n, double *confidence)
{
	uint32_t top = 0;
	double sum = 0, plain = 0;
	bool is_softmax = true;

	for (uint32_t i = 1; i < n; i++)
		top = s[i] > s[top] ? i : top;
	for (uint32_t i = 0; i < n; i++) {
		sum += exp((double)s[i] - (double)s[top]);
		plain += (double)s[i];
		is_softmax &= s[i] >= 0;
	}
	*confidence = is_softmax && fabs(plain - 1) < 1e-3 ? (double)s[top] : 1 / sum;
	return top;
}

/* Bytes of the last quantised tensor against the record of picture @index. */
static int compare(struct rvl_run *r, const struct rvl_expect *x, uint64_t index, bool *same)
{
	uint32_t t = rvl_engine_inputs(r->engine);
	const struct rivulet_tensor_info *info = rvl_engine_tensor(r->engine, t);
	const void *m = rvl_engine_memory(r->engine, 0, t);
	uint64_t elements = info->bytes / rvl_dtype_size(info->dtype);
	struct rvl_quant_params q;

	if (elements != x->classes)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "--expect has %u classes, output %s %llu", x->classes,
				     info->name, (unsigned long long)elements);
	*same = true;
	if (info->dtype == RIVULET_U8 || info->dtype == RIVULET_S8) {
		*same = !memcmp(m, x->q + index * x->classes, x->classes);
		return 0;
	}
	if (!rvl_last_quantised(rvl_engine_program(r->engine), 0, &q) || q.is_signed != x->is_signed)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "output %s is not a dequantised %s tensor, as --expect "
				     "recorded", info->name, x->is_signed ? "int8" : "uint8");
	for (uint32_t i = 0; i < x->classes; i++)
		*same &= rvl_requantise(((const float *)m)[i], &q) == x->q[index * x->classes + i];
	return 0;
}

static void name_of(const struct rvl_run *r, uint32_t class, char *out, size_t size)
{
	if (class < r->n_names)
		snprintf(out, size, "%s", r->class_name[class]);
	else
		snprintf(out, size, "class %u", class);
}

static void show(struct rvl_run *r, const struct rvl_image *img, uint32_t class, double confidence,
		 int truth)
{
	struct rvl_shown *s = &r->shown[r->n_shown];
	size_t n = (size_t)img->w * img->h;
	char name[40];

	if (r->n_shown && (img->w != r->shown_w || img->h != r->shown_h))
		return;
	s->grey = malloc(n);
	if (!s->grey)
		return;
	for (size_t i = 0; i < n; i++)
		s->grey[i] = img->channels == 1 ? img->data[i] : grey_of(img->data + 3 * i);
	name_of(r, class, name, sizeof(name));
	snprintf(s->label, sizeof(s->label), "%s %.0f %%%s", name, 100 * confidence,
		 truth < 0 ? "" : (uint32_t)truth == class ? ", right" : ", WRONG");
	r->shown_w = img->w;
	r->shown_h = img->h;
	r->n_shown++;
}

/* ---- sources of pictures ---- */

static uint32_t want_shown(const struct rvl_run *r)
{
	unsigned long n = r->pictures ? strtoul(r->pictures, NULL, 10) : 4;

	return n > RVL_RUN_SHOWN ? RVL_RUN_SHOWN : (uint32_t)n;
}

/* Runs what is in the input and looks at the answer. @truth: label or -1. */
static int answer(struct rvl_run *r, const struct rvl_image *img, int truth,
		  const struct rvl_expect *expect, uint64_t index, const char *what)
{
	static float score[MAX_CLASSES];
	double confidence;
	uint32_t n = 0, class;
	bool same = true;
	int e = rvl_run_once(r);

	if (!e)
		e = read_scores(r, score, &n);
	if (!e && expect)
		e = compare(r, expect, index, &same);
	if (e)
		return e;
	class = best(score, n, &confidence);
	r->have_scores = true;
	r->right += truth >= 0 && (uint32_t)truth == class;
	if (expect && !same && r->exact == r->runs - 1)
		r->first_wrong = index;
	r->exact += expect && same;
	if (r->n_shown < want_shown(r))
		show(r, img, class, confidence, truth);
	if (what && !rvl_tool_json) {
		char name[64];

		name_of(r, class, name, sizeof(name));
		printf("%s: %s, %.1f %%\n", what, name, 100 * confidence);
	}
	return 0;
}

static int load_names(struct rvl_run *r, const char *path)
{
	char *save = NULL, *line;
	int e = rvl_read_file(path, MAX_NAMES_FILE, &r->names_blob);
	uint8_t *p;

	if (e)
		return e;
	p = realloc(r->names_blob.data, r->names_blob.size + 1);
	if (!p)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	r->names_blob.data = p;
	p[r->names_blob.size] = 0;
	for (line = strtok_r((char *)p, "\r\n", &save); line && r->n_names < 256;
	     line = strtok_r(NULL, "\r\n", &save))
		r->class_name[r->n_names++] = line;
	return 0;
}

static int run_files(struct rvl_run *r, const struct input *in)
{
	int e = 0;

	for (uint32_t i = 0; !e && i < r->n_files; i++) {
		struct rvl_image img;

		e = rvl_image_read(r->file[i], &img);
		if (e)
			return e;
		e = put_picture(in, &img, r->file[i]);
		if (!e)
			e = answer(r, &img, -1, NULL, i, r->file[i]);
		if (!e)
			e = rvl_run_keep(r, i, r->n_files);
		free(img.data);
	}
	return e;
}

/** struct set - an IDX file with its labels and its record */
struct set {
	struct rvl_array images, labels;
	struct rvl_expect expect;
};

static void clear_set(struct set *s)
{
	rvl_array_clear(&s->images);
	rvl_array_clear(&s->labels);
	rvl_blob_clear(&s->expect.blob);
}

static int load_set(struct rvl_run *r, struct set *s)
{
	int e = rvl_idx_read(r->images, 3, &s->images);

	if (!e && r->labels)
		e = rvl_idx_read(r->labels, 1, &s->labels);
	if (!e && r->expect)
		e = rvl_expect_read(r->expect, &s->expect);
	if (e)
		return e;
	r->have_labels = r->labels;
	r->have_expect = r->expect;
	if (s->images.dim[1] > 16384 || s->images.dim[2] > 16384)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: pictures of more than 16384 a side", r->images);
	if (r->first >= s->images.dim[0])
		return rvl_tool_fail(RVL_EXIT_USAGE, "--first %llu: %s has %llu pictures",
				     (unsigned long long)r->first, r->images,
				     (unsigned long long)s->images.dim[0]);
	if (r->count > s->images.dim[0] - r->first)
		r->count = s->images.dim[0] - r->first;
	if (r->labels && s->labels.dim[0] != s->images.dim[0])
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s has %llu labels for %llu pictures", r->labels,
				     (unsigned long long)s->labels.dim[0],
				     (unsigned long long)s->images.dim[0]);
	if (r->expect && r->first + r->count > s->expect.images)
		return rvl_tool_fail(RVL_EXIT_USAGE, "%s records %u pictures: --count %llu", r->expect,
				     s->expect.images, (unsigned long long)(s->expect.images -
				     (r->first < s->expect.images ? r->first : s->expect.images)));
	return 0;
}

static int run_set(struct rvl_run *r, const struct input *in, const struct set *s)
{
	size_t bytes = (size_t)s->images.dim[1] * s->images.dim[2];
	struct rvl_progress progress = { 0 };
	int e = 0;

	rvl_progress_start(&progress, r->count, "pictures", "pictures");
	rvl_interrupt_catch();
	for (uint64_t i = 0; !e && i < r->count && !rvl_interrupted(); i++) {
		uint64_t index = r->first + i;
		struct rvl_image img = { .w = (uint32_t)s->images.dim[2],
			.h = (uint32_t)s->images.dim[1], .channels = 1,
			.data = (uint8_t *)s->images.data + index * bytes };

		e = put_picture(in, &img, r->images);
		if (!e)
			e = answer(r, &img, r->labels ? ((uint8_t *)s->labels.data)[index] : -1,
				   r->expect ? &s->expect : NULL, index, NULL);
		if (!e)
			e = rvl_run_keep(r, i, r->count);
		rvl_progress_at(&progress, i + 1);
	}
	rvl_progress_end(&progress);
	return e;
}

int rvl_run_pictures(struct rvl_run *r)
{
	struct set s = { 0 };
	struct input in;
	int e = find_input(r, &in);

	if (!e && r->names)
		e = load_names(r, r->names);
	if (!e && r->n_files && r->labels)
		e = load_names(r, r->labels);
	if (!e && r->n_files)
		return run_files(r, &in);
	if (!e)
		e = load_set(r, &s);
	if (!e)
		e = run_set(r, &in, &s);
	clear_set(&s);
	return e;
}

// SPDX-License-Identifier: MIT
/*
 * rivulet run on pictures: each one is put into the input, run, ranked, and compared with its label
 * and record.
 */
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

/* ---- answers ---- */

static int read_scores(struct rvl_run *r, float *out, uint32_t *n)
{
	uint32_t t = rvl_engine_inputs(r->engine);
	const struct rivulet_tensor_info *info = rvl_engine_tensor(r->engine, t);
	const void *m = rvl_engine_memory(r->engine, r->instance, t);
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

/* Whether the scores are probabilities already. */
static bool is_softmax(const float *s, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!(s[i] >= 0))
			return false;
		sum += (double)s[i];
	}
	return fabs(sum - 1) < 1e-3;
}

/* The best score that is worse than @last; of equal ones the first. */
static uint32_t next_best(const float *s, uint32_t n, const struct rvl_class *last)
{
	uint32_t best = n;

	for (uint32_t i = 0; i < n; i++) {
		bool taken = last && (s[i] > s[last->class] || (!(s[i] < s[last->class]) && i <= last->class));

		if (!taken && (best == n || s[i] > s[best]))
			best = i;
	}
	return best < n ? best : 0;
}

int rvl_run_rank(const float *s, uint32_t n, uint32_t count, struct rvl_class **out)
{
	bool shares = is_softmax(s, n);
	struct rvl_class *top = calloc(count, sizeof(*top));
	double sum = 0;

	if (!top)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (uint32_t k = 0; k < count; k++)
		top[k].class = next_best(s, n, k ? &top[k - 1] : NULL);
	for (uint32_t i = 0; i < n; i++)
		sum += exp((double)s[i] - (double)s[top[0].class]);
	for (uint32_t k = 0; k < count; k++) {
		double v = (double)s[top[k].class];

		top[k].confidence = shares ? v : exp(v - (double)s[top[0].class]) / sum;
	}
	*out = top;
	return 0;
}

static int rank(struct rvl_run *r, const float *s, uint32_t n, struct rvl_answer *a)
{
	a->n = r->top < n ? (uint32_t)r->top : n;
	return rvl_run_rank(s, n, a->n, &a->top);
}

/* Compares the last quantised tensor with the record of picture @index. */
static int compare(struct rvl_run *r, const struct rvl_expect *x, uint64_t index, bool *same)
{
	uint32_t t = rvl_engine_inputs(r->engine);
	const struct rivulet_tensor_info *info = rvl_engine_tensor(r->engine, t);
	const void *m = rvl_engine_memory(r->engine, r->instance, t);
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

const char *rvl_run_name(const struct rvl_run *r, uint32_t class, char *out, size_t size)
{
	if (class < r->n_names)
		snprintf(out, size, "%s", r->class_name[class]);
	else
		snprintf(out, size, "class %u", class);
	return out;
}

void rvl_run_answers_clear(struct rvl_run *r)
{
	for (uint32_t i = 0; i < r->n_answers; i++) {
		free(r->answer[i].top);
		free(r->answer[i].reference);
	}
	free(r->answer);
	r->answer = NULL;
	r->n_answers = 0;
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
		s->grey[i] = img->channels == 1 ? img->data[i] : rvl_grey_of(img->data + 3 * i);
	rvl_run_name(r, class, name, sizeof(name));
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

/* Keeps the answer for the report, or frees it. */
static int keep_answer(struct rvl_run *r, struct rvl_answer *a)
{
	struct rvl_answer *p = NULL;

	if (a->file || r->top > 1)
		p = reallocarray(r->answer, r->n_answers + 1, sizeof(*p));
	if (!p)
		free(a->top);
	if (!p && (a->file || r->top > 1))
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	if (!p)
		return 0;
	r->answer = p;
	r->answer[r->n_answers++] = *a;
	return 0;
}

static void count_right(struct rvl_run *r, const struct rvl_answer *a)
{
	for (uint32_t k = 0; k < a->n; k++)
		if (a->truth >= 0 && a->top[k].class == (uint32_t)a->truth) {
			r->right += !k;
			r->right_top++;
		}
}

/* Ranks the classes of the picture that was taken, and compares with the record. */
static int answer(struct rvl_run *r, const struct rvl_image *img, struct rvl_answer *a,
		  const struct rvl_expect *expect)
{
	static float score[MAX_CLASSES];
	uint32_t n = 0;
	bool same = true;
	int e = read_scores(r, score, &n);

	if (!e && expect)
		e = compare(r, expect, a->index, &same);
	if (!e)
		e = rank(r, score, n, a);
	if (e)
		return e;
	r->have_scores = true;
	count_right(r, a);
	if (expect && !same && r->exact == r->runs - 1)
		r->first_wrong = a->index;
	r->exact += expect && same;
	if (r->n_shown < want_shown(r))
		show(r, img, a->top[0].class, a->top[0].confidence, a->truth);
	return keep_answer(r, a);
}

static int load_names(struct rvl_run *r, const char *path)
{
	char *save = NULL, *line;
	struct rvl_blob b;
	int e = rvl_read_file(path, MAX_NAMES_FILE, &b);

	if (e)
		return e;
	r->names_text = strndup((const char *)b.data, b.size);
	rvl_blob_clear(&b);
	if (!r->names_text)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (line = strtok_r(r->names_text, "\r\n", &save); line && r->n_names < 256;
	     line = strtok_r(NULL, "\r\n", &save))
		r->class_name[r->n_names++] = line;
	return 0;
}

/* ---- tensors ---- */

int rvl_run_classes(struct rvl_run *r)
{
	const struct rivulet_tensor_info *t = rvl_engine_tensor(r->engine, rvl_engine_inputs(r->engine));
	struct rvl_answer a = { .file = strrchr(r->input[0], '=') + 1, .truth = -1 };
	static float score[MAX_CLASSES];
	uint32_t n = 0;
	int e = r->names ? load_names(r, r->names) : 0;

	if (!e)
		e = read_scores(r, score, &n);
	if (!e && n != t->dim[t->ndim ? t->ndim - 1 : 0])
		e = rvl_tool_fail(RVL_EXIT_REFUSED, "output %s is no single list of scores, as --top and --names need",
				  t->name);
	if (!e)
		e = rank(r, score, n, &a);
	return e ? e : keep_answer(r, &a);
}

/* ---- pictures ---- */

/* The one input of the model, as pictures see it. */
static int find_input(struct rvl_run *r, struct rvl_picture_target *in)
{
	const struct rivulet_tensor_info *t;
	int e;

	if (rvl_engine_inputs(r->engine) != 1)
		return rvl_tool_fail(RVL_EXIT_USAGE, "pictures need a model of one input, this has %u",
				     rvl_engine_inputs(r->engine));
	t = rvl_engine_tensor(r->engine, 0);
	*in = (struct rvl_picture_target) { .name = t->name, .dtype = t->dtype, .ndim = t->ndim,
		.scale = t->scale, .zero_point = t->zero_point };
	for (uint32_t i = 0; i < t->ndim; i++)
		in->dim[i] = t->dim[i];
	e = rvl_picture_target_set(&r->mode.quantise.picture, in);
	r->want_w = in->w;
	r->want_h = in->h;
	return e;
}

static int put_picture(struct rvl_run *r, const struct rvl_picture_target *in,
		       const struct rvl_image *img, const char *what, uint32_t instance)
{
	return rvl_picture_put(&r->mode.quantise.picture, in, img, what,
			       rvl_engine_memory(r->engine, instance, 0));
}

/** struct files - the pictures of --image; those in flight are in memory, by instance */
struct files {
	const struct rvl_picture_target *in;
	struct rvl_image img[RVL_RUN_DEPTH];
};

static void clear_image(struct rvl_image *img)
{
	free(img->data);
	*img = (struct rvl_image) { 0 };
}

static int feed_file(struct rvl_run *r, void *ctx, uint64_t frame, uint32_t instance)
{
	struct files *f = ctx;
	int e = rvl_image_read(r->file[frame], &f->img[instance]);

	return e ? e : put_picture(r, f->in, &f->img[instance], r->file[frame], instance);
}

static int take_file(struct rvl_run *r, void *ctx, uint64_t frame)
{
	struct files *f = ctx;
	struct rvl_image *img = &f->img[r->instance];
	struct rvl_answer a = { .file = r->file[frame], .index = frame, .truth = -1, .w = img->w,
				.h = img->h };
	int e = answer(r, img, &a, NULL);

	clear_image(img);
	return e ? e : rvl_run_keep(r, frame, r->n_files);
}

static int run_files(struct rvl_run *r, const struct rvl_picture_target *in)
{
	struct files f = { .in = in };
	struct rvl_series s = { .count = r->n_files, .feed = feed_file, .take = take_file, .ctx = &f };
	int e = rvl_run_series(r, &s);

	for (uint32_t i = 0; i < RVL_RUN_DEPTH; i++)
		clear_image(&f.img[i]);
	return e;
}

/** struct set - an IDX file with its labels and its record */
struct set {
	const struct rvl_picture_target *in;
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

/* Picture @frame of those that --first and --count select. */
static struct rvl_image picture(const struct rvl_run *r, const struct set *s, uint64_t frame)
{
	size_t bytes = (size_t)s->images.dim[1] * s->images.dim[2];

	return (struct rvl_image) { .w = (uint32_t)s->images.dim[2], .h = (uint32_t)s->images.dim[1],
				    .channels = 1,
				    .data = (uint8_t *)s->images.data + (r->first + frame) * bytes };
}

static int feed_picture(struct rvl_run *r, void *ctx, uint64_t frame, uint32_t instance)
{
	const struct set *s = ctx;
	struct rvl_image img = picture(r, s, frame);

	return put_picture(r, s->in, &img, r->images, instance);
}

static int take_picture(struct rvl_run *r, void *ctx, uint64_t frame)
{
	const struct set *s = ctx;
	struct rvl_image img = picture(r, s, frame);
	uint64_t index = r->first + frame;
	struct rvl_answer a = { .index = index, .w = img.w, .h = img.h,
		.truth = r->labels ? ((const uint8_t *)s->labels.data)[index] : -1 };
	int e = answer(r, &img, &a, r->expect ? &s->expect : NULL);

	return e ? e : rvl_run_keep(r, frame, r->count);
}

static int run_set(struct rvl_run *r, struct set *set)
{
	struct rvl_progress progress = { 0 };
	struct rvl_series s = { .count = r->count, .feed = feed_picture, .take = take_picture,
				.ctx = set, .progress = &progress };
	int e;

	rvl_progress_start(&progress, r->count, "pictures", "pictures");
	rvl_interrupt_catch();
	e = rvl_run_series(r, &s);
	rvl_progress_end(&progress);
	return e;
}

int rvl_run_pictures(struct rvl_run *r)
{
	struct rvl_picture_target in;
	struct set s = { .in = &in };
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
		e = run_set(r, &s);
	clear_set(&s);
	return e;
}

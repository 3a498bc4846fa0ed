// SPDX-License-Identifier: MIT
/*
 * rivulet run: runs a model on pictures, tensors or random input, one inference after the other,
 * and reports the answers and their cost.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "progress.h"
#include "run/run.h"

#define MAX_INPUTS 64
#define DEFAULT_SEED 1

static int add_input(void *member, const char *value)
{
	struct rvl_run *r = member;

	if (!strchr(value, '=') || r->n_inputs == RVL_RUN_INPUTS)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--input takes NAME=FILE, not \"%s\"", value);
	r->input[r->n_inputs++] = value;
	return 0;
}

static int add_image(void *member, const char *value)
{
	struct rvl_run *r = member;

	if (r->n_files == RVL_RUN_FILES)
		return rvl_tool_fail(RVL_EXIT_USAGE, "at most %d --image", RVL_RUN_FILES);
	r->file[r->n_files++] = value;
	return 0;
}

/*
 * Options that only pictures use are refused without pictures, because they would have no effect.
 */
static int check_pictures(const struct rvl_run *r)
{
	if (r->images || r->n_files)
		return r->reference ? rvl_tool_fail(RVL_EXIT_USAGE, "--reference needs --input") : 0;
	if (r->labels || r->pictures || (!rvl_quantise_given(&r->mode.quantise) &&
	     rvl_picture_options_given(&r->mode.quantise.picture)))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--labels, --pictures, --resize, --layout, --mean and "
				     "--std need --image or --images");
	if (!r->n_inputs && (r->classes || r->reference))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--names and --top need --image, --images or --input, "
				     "and --reference needs --input");
	return 0;
}

static int check_args(struct rvl_run *r)
{
	int sources = !!r->images + !!r->n_files + !!r->n_inputs;

	if (sources > 1)
		return rvl_tool_fail(RVL_EXIT_USAGE, "give one of --images, --image, --input");
	if (sources && r->seed != UINT64_MAX)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--seed is for random input, which a run has without "
				     "--images, --image and --input");
	if (r->priority && strcmp(r->priority, "low") && strcmp(r->priority, "high") &&
	    strcmp(r->priority, "normal"))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--priority is low, normal or high");
	if (r->expect && !r->images)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--expect needs --images");
	if (r->frames && (r->images || r->n_files))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--frames is for tensors and random input; pictures are "
				     "frames already");
	if (!r->frames)
		r->frames = 1;
	r->random = !sources;
	r->tensors = r->random || r->n_inputs;
	r->classes = r->names || r->top;
	if (!r->top)
		r->top = 1;
	if (r->seed == UINT64_MAX)
		r->seed = DEFAULT_SEED;
	return check_pictures(r) ? RVL_EXIT_USAGE : rvl_picture_options_check(&r->mode.quantise.picture);
}

/* ---- outputs as .npy ---- */

void rvl_run_output_path(char *out, size_t size, const char *dir, const char *tensor)
{
	int n = snprintf(out, size, "%s/", dir);

	for (const char *p = tensor; *p && (size_t)n < size - 5; p++)
		out[n++] = *p == '/' || (unsigned char)*p < 0x20 ? '_' : *p;
	strcpy(out + n, ".npy");
}

/* Several runs are stacked along a new first dimension. */
static int keep_output(struct rvl_run *r, uint32_t output, uint64_t run, uint64_t runs)
{
	uint32_t t = rvl_engine_inputs(r->engine) + output;
	const struct rivulet_tensor_info *info = rvl_engine_tensor(r->engine, t);
	struct rvl_array *a = &r->kept[output];
	bool stack = runs > 1 && info->ndim < RIVULET_MAX_DIMS;

	if (runs > 1 && info->bounded)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "output %s has another shape in each run, so --output "
				     "takes one input at a time", info->name);
	if (!a->data) {
		*a = (struct rvl_array) { .dtype = info->dtype, .ndim = info->ndim + stack };
		memcpy(a->dim + stack, info->dim, info->ndim * sizeof(info->dim[0]));
		if (stack)
			a->dim[0] = runs;
		if (rvl_array_alloc(a))
			return rvl_tool_fail(RVL_EXIT_FAILED, "no memory for %llu outputs",
					     (unsigned long long)runs);
	}
	memcpy((char *)a->data + (stack ? run : 0) * info->bytes,
	       rvl_engine_memory(r->engine, r->instance, t), info->bytes);
	return 0;
}

int rvl_run_keep(struct rvl_run *r, uint64_t run, uint64_t runs)
{
	uint32_t n = rvl_engine_outputs(r->engine);
	int e = 0;

	if (!r->output)
		return 0;
	if (!r->kept)
		r->kept = calloc(n + 1, sizeof(*r->kept));
	if (!r->kept)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (uint32_t i = 0; !e && i < n; i++)
		e = keep_output(r, i, run, runs);
	return e;
}

static int write_outputs(struct rvl_run *r)
{
	char path[4096];
	int e = 0;

	if (!r->output || !r->kept)
		return 0;
	if (mkdir(r->output, 0777) && errno != EEXIST)
		return rvl_tool_fail(RVL_EXIT_FAILED, "%s: %s", r->output, strerror(errno));
	for (uint32_t i = 0; !e && i < rvl_engine_outputs(r->engine); i++) {
		uint32_t t = rvl_engine_inputs(r->engine) + i;

		if (rvl_interrupted() && r->kept[i].dim[0] > r->runs) {
			r->kept[i].size = r->kept[i].size / r->kept[i].dim[0] * r->runs;
			r->kept[i].dim[0] = r->runs;
		}
		rvl_run_output_path(path, sizeof(path), r->output, rvl_engine_tensor(r->engine, t)->name);
		e = rvl_npy_write(path, &r->kept[i]);
	}
	return e;
}

/* ---- tensors ---- */

static bool same_shape(const struct rivulet_tensor_info *t, const struct rvl_array *a)
{
	return t->dtype == a->dtype && t->ndim == a->ndim &&
	       !memcmp(t->dim, a->dim, t->ndim * sizeof(t->dim[0]));
}

static int feed_tensor(struct rvl_run *r, const char *spec)
{
	const char *eq = strrchr(spec, '=');
	char name[1024], want[128], have[128];
	struct rvl_array a;
	int i, e;

	snprintf(name, sizeof(name), "%.*s", (int)(eq - spec), spec);
	i = rvl_engine_find_input(r->engine, name);
	if (i < 0)
		return RVL_EXIT_USAGE;
	if (r->fed >> i & 1)
		return rvl_tool_fail(RVL_EXIT_USAGE, "input %s is given twice", name);
	e = rvl_array_read(eq + 1, &a);
	if (e)
		return e;
	if (same_shape(rvl_engine_tensor(r->engine, (uint32_t)i), &a)) {
		memcpy(rvl_engine_memory(r->engine, 0, (uint32_t)i), a.data, a.size);
		r->fed |= 1ull << i;
	} else {
		const struct rivulet_tensor_info *t = rvl_engine_tensor(r->engine, (uint32_t)i);

		e = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s %s, input %s is %s %s", eq + 1,
				  rvl_dtype_name(a.dtype), rvl_shape_text(have, a.ndim, a.dim), name,
				  rvl_dtype_name(t->dtype), rvl_shape_text(want, t->ndim, t->dim));
	}
	rvl_array_clear(&a);
	return e;
}

/* Every frame has the same inputs. */
static void share_inputs(struct rvl_run *r)
{
	for (uint32_t i = 0; i < rvl_engine_inputs(r->engine); i++)
		for (uint32_t k = 1; k < rvl_engine_instances(r->engine); k++)
			memcpy(rvl_engine_memory(r->engine, k, i), rvl_engine_memory(r->engine, 0, i),
			       rvl_engine_tensor(r->engine, i)->bytes);
}

static int keep_frame(struct rvl_run *r, void *ctx, uint64_t frame)
{
	(void)ctx;
	return rvl_run_keep(r, frame, r->frames);
}

/*
 * A single run that fails is the error of the command. In a series each frame is alone: the command
 * fails in the end, with the error of the first such frame, and reports the others.
 */
static int run_frames(struct rvl_run *r,
		      int (*feed)(struct rvl_run *r, void *ctx, uint64_t frame, uint32_t instance))
{
	struct rvl_progress progress = { 0 };
	struct rvl_series s = { .count = r->frames, .feed = feed, .take = keep_frame,
				.each_alone = r->frames > 1 };
	int e;

	if (r->frames > 1) {
		rvl_progress_start(&progress, r->frames, "frames", "frames");
		rvl_interrupt_catch();
		s.progress = &progress;
	}
	e = rvl_run_series(r, &s);
	rvl_progress_end(&progress);
	return e || r->runs || !r->failed ? e : RVL_EXIT_FAILED;
}

static int run_tensors(struct rvl_run *r)
{
	int e = 0;

	if (rvl_engine_inputs(r->engine) > MAX_INPUTS)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "more than %d inputs", MAX_INPUTS);
	for (uint32_t i = 0; !e && i < r->n_inputs; i++)
		e = feed_tensor(r, r->input[i]);
	for (uint32_t i = 0; !e && i < rvl_engine_inputs(r->engine); i++)
		if (!(r->fed >> i & 1))
			e = rvl_tool_fail(RVL_EXIT_USAGE, "input \"%s\" is missing: --input %s=FILE",
					  rvl_engine_tensor(r->engine, i)->name,
					  rvl_engine_tensor(r->engine, i)->name);
	share_inputs(r);
	if (!e)
		e = run_frames(r, NULL);
	if (!e && r->classes)
		e = rvl_run_classes(r);
	if (!e && r->reference)
		e = rvl_run_reference(r);
	return e;
}

/* ---- random input ---- */

static int feed_random(struct rvl_run *r, void *ctx, uint64_t frame, uint32_t instance)
{
	(void)ctx;
	rvl_engine_randomise(r->engine, instance, r->seed + frame);
	return 0;
}

/* ---- all ---- */

/* Frames in flight, at most as many as there are frames. */
static uint32_t in_flight(const struct rvl_run *r)
{
	uint64_t frames = r->images ? r->count : r->n_files ? r->n_files : r->frames;

	return (uint32_t)(r->depth < frames ? r->depth : frames);
}

static int open_engine(struct rvl_run *r, const char *model)
{
	struct rvl_engine_options o = { .device = r->device, .require_npu = r->require_npu,
					.batch = (uint32_t)r->batch, .dims = &r->dims,
					.mode = &r->mode, .instances = in_flight(r), .fewer = true };
	int e = rvl_engine_open(model, &o, &r->engine);

	if (!e && r->level != UINT64_MAX)
		e = rvl_engine_set_level(r->engine, r->level > UINT32_MAX ? UINT32_MAX : (uint32_t)r->level);
	return e;
}

static void clear(void *args)
{
	struct rvl_run *r = args;

	for (uint32_t i = 0; r->kept && i < rvl_engine_outputs(r->engine); i++)
		rvl_array_clear(&r->kept[i]);
	free(r->kept);
	free(r->wall);
	free(r->snr);
	rvl_run_answers_clear(r);
	rvl_engine_close(r->engine);
	free(r->names_text);
	rvl_mode_clear(&r->mode);
	rvl_dims_clear(&r->dims);
}

static int run_run(void *args, int n, char **operand)
{
	struct rvl_run *r = args;
	int e = check_args(r);

	(void)n;
	r->model = operand[0];
	r->wall = calloc(RVL_RUN_WALLS, sizeof(*r->wall));
	if (!e && !r->wall)
		e = rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	if (!e)
		e = open_engine(r, r->model);
	if (!e)
		e = r->random ? run_frames(r, feed_random) : r->n_inputs ? run_tensors(r) :
									   rvl_run_pictures(r);
	if (!e)
		e = write_outputs(r);
	return e ? e : rvl_run_report(r);
}

static const struct rvl_option options[] = {
	{ "device", 'd', "WHERE", "daemon, /dev/accel/accelN, sim:BOARD, or cpu",
	  RVL_MEMBER(struct rvl_run, device) },
	{ "input", 'i', "NAME=FILE", "an input, .npy or ONNX tensor; repeatable",
	  .kind = RVL_VALUE_CALL, .call = add_input },
	{ "image", 0, "FILE", "a PNG, PGM or PPM; repeatable",
	  .kind = RVL_VALUE_CALL, .call = add_image },
	{ "images", 0, "FILE", "an IDX file of pictures (Fashion-MNIST), plain or .gz",
	  RVL_MEMBER(struct rvl_run, images) },
	{ "labels", 0, "FILE", "its labels, or with --image one class name a line",
	  RVL_MEMBER(struct rvl_run, labels) },
	{ "names", 0, "FILE", "class names, one a line", RVL_MEMBER(struct rvl_run, names) },
	{ "top", 0, "K", "best classes to report (1)", RVL_MEMBER(struct rvl_run, top),
	  .least = 1, .most = 1000 },
	{ "seed", 0, "N", "of the random input that a run without pictures and tensors gets (1)",
	  RVL_MEMBER(struct rvl_run, seed), .most = UINT32_MAX },
	{ "first", 0, "N", "first picture of --images (0)", RVL_MEMBER(struct rvl_run, first) },
	{ "count", 'n', "N", "pictures of --images (all)", RVL_MEMBER(struct rvl_run, count), .least = 1 },
	{ "frames", 0, "N", "run the tensors, or N random inputs, so many times (1)",
	  RVL_MEMBER(struct rvl_run, frames), .least = 1, .most = UINT32_MAX },
	{ "depth", 0, "N", "frames or pictures in flight (3)", RVL_MEMBER(struct rvl_run, depth),
	  .least = 1, .most = RVL_RUN_DEPTH },
	{ "output", 'o', "DIR", "write every output there as NAME.npy",
	  RVL_MEMBER(struct rvl_run, output) },
	{ "reference", 0, "DIR", "outputs of another run (--output) to compare with those of --input",
	  RVL_MEMBER(struct rvl_run, reference) },
	{ "expect", 0, "FILE", "recorded outputs to equal bit for bit", RVL_MEMBER(struct rvl_run, expect) },
	{ "level", 0, "N", "V/F level (sim:BOARD only)", RVL_MEMBER(struct rvl_run, level) },
	{ "deadline", 0, "MS", "give a run up after so many ms", RVL_MEMBER(struct rvl_run, deadline_ms),
	  .least = 1, .most = INT32_MAX },
	{ "priority", 0, "low|normal|high", "of the runs, with the daemon (normal)",
	  RVL_MEMBER(struct rvl_run, priority) },
	{ "pictures", 0, "N", "pictures to show (4); in colour also when piped",
	  RVL_MEMBER(struct rvl_run, pictures) },
	{ "figures", 0, "PREFIX", "print `figure PREFIX.NAME VALUE UNIT` lines",
	  RVL_MEMBER(struct rvl_run, figures) },
	{ "require-npu", 0, NULL, "refuse a model with steps on the CPU",
	  RVL_MEMBER(struct rvl_run, require_npu) },
	{ "batch", 0, "N", RVL_BATCH_HELP, RVL_MEMBER(struct rvl_run, batch), .least = 1, .most = INT32_MAX },
	RVL_DIMS_OPTIONS(struct rvl_run, dims),
	RVL_MODE_OPTIONS(struct rvl_run, mode),
	{ 0 }
};

const struct rvl_verb rvl_verb_run = {
	.name = "run", .summary = "classify pictures or run tensors through a model", .order = 10,
	.operands = "MODEL [options]: MODEL is ONNX or a compiled program", .least = 1, .most = 1,
	.takes = "one model", .options = options, .args_size = sizeof(struct rvl_run),
	.defaults = &(const struct rvl_run) { .level = UINT64_MAX, .count = UINT64_MAX,
					      .deadline_ms = UINT64_MAX,
					      .seed = UINT64_MAX, .depth = 3 },
	.run = run_run, .clear = clear,
};

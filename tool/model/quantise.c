// SPDX-License-Identifier: MIT
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/quantise.h"

int rvl_list_add(void *member, const char *value)
{
	struct rvl_list *l = member;

	if (l->n == RVL_QUANTISE_KEEP)
		return rvl_tool_fail(RVL_EXIT_USAGE, "at most %d times one option", RVL_QUANTISE_KEEP);
	l->value[l->n++] = value;
	return 0;
}

int rvl_percentile_parse(void *member, const char *value)
{
	uint64_t *p = member;
	char *end;
	double v = strtod(value, &end);

	if (end == value || *end || !(v >= 50 && v <= 100))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--percentile is a number of 50 to 100, not \"%s\"", value);
	*p = (uint64_t)llrint(v * 1e4);
	return 0;
}

static int parse_range(const char *name, enum rivulet_range *out)
{
#define RANGE_NAME(id, name, doc) name,
	static const char *const names[] = { RIVULET_RANGES(RANGE_NAME) };
#undef RANGE_NAME

	for (uint32_t i = 0; i < RIVULET_RANGE_COUNT; i++) {
		if (!name || !strcmp(name, names[i])) {
			*out = (enum rivulet_range)i;
			return 0;
		}
	}
	return rvl_tool_fail(RVL_EXIT_USAGE, "--range is auto, min-max, percentile, entropy or mse, not \"%s\"",
			     name);
}

bool rvl_quantise_given(const struct rvl_quantise_args *a)
{
	return a->path.n;
}

/* Options of the quantiser without --calibrate would have no effect. */
static int check_use(const struct rvl_quantise_args *a)
{
	if (a->path.n || !(a->range || a->correct || a->mixed || a->bits || a->bits_loss || a->equalise || a->wide || a->activations || a->percentile || a->keep_float.n))
		return 0;
	return rvl_tool_fail(RVL_EXIT_USAGE, "--range, --percentile, --activations, --bias-correction, "
			     "--equalise, --wide-binary, --mixed, --bits, --bits-loss and --keep-float need --calibrate");
}

enum choice { CHOICE_AUTO, CHOICE_YES, CHOICE_NO };

/* Auto where the option is not given. */
static int parse_choice(const char *option, const char *s, enum choice *out)
{
	static const char *const names[] = { "auto", "yes", "no" };

	for (int i = 0; i < 3; i++) {
		if (!s || !strcmp(s, names[i])) {
			*out = (enum choice)i;
			return 0;
		}
	}
	return rvl_tool_fail(RVL_EXIT_USAGE, "--%s is auto, yes or no, not \"%s\"", option, s);
}

static int parse_choices(const struct rvl_quantise_args *a, struct rivulet_quantise *q)
{
	static const enum rivulet_correct correct[] = { RIVULET_CORRECT_AUTO, RIVULET_CORRECT_YES,
							RIVULET_CORRECT_NO };
	static const enum rivulet_wide wide[] = { RIVULET_WIDE_AUTO, RIVULET_WIDE_YES, RIVULET_WIDE_NO };
	enum choice c = CHOICE_AUTO;
	int r = parse_choice("bias-correction", a->correct, &c);

	q->correct = correct[c];
	if (!r)
		r = parse_choice("wide-binary", a->wide, &c);
	q->wide = wide[c];
	return r;
}

/* A number from @least to @most; 0 where the option is not given. */
static bool parse_number(const char *s, double least, double most, double *out)
{
	char *end = NULL;

	*out = s ? strtod(s, &end) : 0;
	return !s || (end != s && !*end && *out >= least && *out <= most);
}

static int parse_mixed(const char *s, double *out)
{
	if (parse_number(s, 0x1p-20, 150, out))
		return 0;
	return rvl_tool_fail(RVL_EXIT_USAGE, "--mixed is an SNR of up to 150 dB, not \"%s\"", s);
}

static int parse_bits(const struct rvl_quantise_args *a, struct rivulet_quantise *q)
{
	if (a->bits && a->bits_loss)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--bits and --bits-loss exclude each other");
	if (!parse_number(a->bits, 1, 8, &q->bits))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--bits is a mean of 1 to 8 bits, not \"%s\"", a->bits);
	if (!parse_number(a->bits_loss, 0x1p-20, 100, &q->bits_loss))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--bits-loss is a percentage above 0, up to 100, not \"%s\"",
				     a->bits_loss);
	return 0;
}

int rvl_quantise_check(struct rvl_quantise_args *a, struct rivulet_quantise *q)
{
	int r = check_use(a);

	if (!r)
		r = parse_range(a->range, &q->range);
	if (!r)
		r = parse_choices(a, q);
	if (!r)
		r = parse_mixed(a->mixed, &q->mixed);
	if (!r)
		r = parse_bits(a, q);
	if (r)
		return r;
	if (a->percentile && q->range != RIVULET_RANGE_PERCENTILE && q->range != RIVULET_RANGE_AUTO)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--percentile is for --range percentile");
	if (a->activations && strcmp(a->activations, "uint8") && strcmp(a->activations, "int8"))
		return rvl_tool_fail(RVL_EXIT_USAGE, "--activations is uint8 or int8, not \"%s\"",
				     a->activations);
	q->percentile = (double)a->percentile / 1e4;
	q->s8 = a->activations && !strcmp(a->activations, "int8");
	q->equalise = a->equalise;
	q->keep_float = a->keep_float.value;
	q->n_keep_float = a->keep_float.n;
	return rvl_picture_options_check(&a->picture);
}

static int read_examples(struct rvl_quantise_args *a, const char *path, const struct rvl_blob *onnx,
			 const struct rivulet_compile_options *o)
{
	struct rvl_err err = { "" };
	int r = 0;

	if (a->input)
		return 0;
	if (rivulet_model_inputs_of(onnx->data, onnx->size, o, &a->input, &a->inputs, &err))
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, err.msg);
	r = rvl_examples_init(&a->examples, &a->picture, a->input, a->inputs);
	for (uint32_t i = 0; i < a->path.n && !r; i++)
		r = rvl_examples_add(&a->examples, a->path.value[i]);
	return r;
}

int rvl_quantise_fill(struct rvl_quantise_args *a, const char *path, const struct rvl_blob *onnx,
		      struct rivulet_compile_options *o)
{
	int r = rvl_quantise_check(a, &o->quantise);

	if (r || !a->path.n)
		return r;
	r = read_examples(a, path, onnx, o);
	o->quantise.examples = a->examples.list;
	o->quantise.n_examples = a->examples.n;
	return r;
}

void rvl_quantise_clear(struct rvl_quantise_args *a)
{
	rvl_examples_clear(&a->examples);
	rivulet_model_inputs_free(a->input, a->inputs);
	a->input = NULL;
	a->inputs = 0;
}

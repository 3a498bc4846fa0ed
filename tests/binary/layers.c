// SPDX-License-Identifier: MIT
#include "binary/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/guarded.h"
#include "rivulet_bits.h"

unsigned long binary_ties;

struct layer {
	struct rvl_kernel_desc d;
	int64_t n, c, h, w, m, oh, ow;
	struct test_guarded in[RVL_B_INPUTS], y, bits, y_again, bits_again;
	float *x, *weights;	/* +1 and -1: [n][c][h][w] and [m][c / group][kh][kw] */
	bool values, has_bits;
	float scale[2];
	int32_t zero[2];
};

/* ---- a random layer ---- */

static struct test_guarded constant(struct rvl_kernel_arg *a, enum rvl_type t, int rank, int64_t d0,
				    int64_t d1)
{
	struct test_guarded g;

	*a = (struct rvl_kernel_arg) { .type = t, .shape = { rank, { d0, d1 } } };
	g = test_guarded(test_bytes(a), 4);
	a->data = g.p;
	return g;
}

/* Small multiples of 1/4, so that sums are exact and ties frequent; some with all bits of a float. */
static float coarse(void)
{
	return (float)((int)test_rnd(17) - 8) / 4;
}

static float number(bool exact)
{
	return exact ? coarse() : coarse() + (float)test_rnd(1 << 20) / 1048576.0f / 3;
}

static void fill_floats(struct test_guarded *g, bool exact)
{
	for (size_t i = 0; i < g->size / 4; i++) {
		float v = number(exact);

		memcpy(g->p + 4 * i, &v, 4);
	}
}

/* What is no number that an integer result has: its least integer, or its last one. */
static void add_odd_floats(struct test_guarded *g)
{
	static const float odd[] = { NAN, INFINITY, -INFINITY, 3e38f, -3e38f };

	for (size_t i = test_rnd(3); i < g->size / 4; i += 1 + test_rnd(9))
		memcpy(g->p + 4 * i, &odd[test_rnd(5)], 4);
}

static void set_bit(struct test_guarded *g, int64_t word, int64_t c, bool bit)
{
	g->p[word * 8 + c / 8] |= (uint8_t)(bit << c % 8);
}

static void make_bits(struct layer *l)
{
	const struct rvl_attr *a = &l->d.attr;
	int64_t cg = l->c / a->group, words = rvl_b_words(l->c), gw = rvl_b_words(cg);
	int64_t taps = (int64_t)a->kernel[0] * a->kernel[1];

	memset(l->in[RVL_B_X].p, 0, l->in[RVL_B_X].size);
	memset(l->in[RVL_B_W].p, 0, l->in[RVL_B_W].size);
	for (int64_t i = 0; i < l->n * l->c * l->h * l->w; i++) {
		int64_t pixel = i / (l->c * l->h * l->w) * l->h * l->w + i % (l->h * l->w);
		bool bit = test_rnd(2);

		l->x[i] = bit ? 1 : -1;
		set_bit(&l->in[RVL_B_X], pixel * words, i / (l->h * l->w) % l->c, bit);
	}
	for (int64_t i = 0; i < l->m * cg * taps; i++) {
		bool bit = test_rnd(2);

		l->weights[i] = bit ? 1 : -1;
		set_bit(&l->in[RVL_B_W], (i / (cg * taps) * taps + i % taps) * gw, i / taps % cg, bit);
	}
}

static void quantise(struct layer *l, struct rvl_kernel_arg *a, int which)
{
	l->scale[which] = test_rnd(2) ? 0.25f : 0.01f + (float)test_rnd(1000) / 1000;
	l->zero[which] = a->type == RVL_TYPE_U8 ? (int32_t)test_rnd(256) :
			 a->type == RVL_TYPE_S8 ? (int32_t)test_rnd(256) - 128 : 0;
	a->quant = (struct rvl_kernel_quant) { .n = 1, .scale = &l->scale[which], .zp = &l->zero[which] };
}

static void random_image(struct layer *l, struct rvl_kernel_arg *a, enum rvl_type t, int which)
{
	test_image(a, t, l->n, l->m, l->oh, l->ow);
	if (test_rnd(4) && rvl_op_traits(RVL_OP_B_CONV) && l->m > 1 && l->oh * l->ow > 1)
		a->layout = RIVULET_LAYOUT_NHWC;
	if (t != RVL_TYPE_F32)
		quantise(l, a, which);
}

static enum rvl_type random_type(bool with_float)
{
	static const enum rvl_type types[] = { RVL_TYPE_S16, RVL_TYPE_S8, RVL_TYPE_U8, RVL_TYPE_F32 };

	return types[test_rnd(with_float ? 4 : 3)];
}

static void random_shortcut(struct layer *l, bool exact)
{
	struct rvl_kernel_arg *s = &l->d.in[RVL_B_SHORTCUT];

	random_image(l, s, random_type(true), 1);
	l->in[RVL_B_SHORTCUT] = test_guarded(test_bytes(s), 4);
	if (s->type == RVL_TYPE_F32)
		fill_floats(&l->in[RVL_B_SHORTCUT], exact);
	if (s->type == RVL_TYPE_F32 && l->d.out[0].type != RVL_TYPE_F32)
		add_odd_floats(&l->in[RVL_B_SHORTCUT]);
	if (!test_rnd(3)) {
		l->in[RVL_B_SHORTCUT_SCALE] =
			constant(&l->d.in[RVL_B_SHORTCUT_SCALE], RVL_TYPE_F32, 1, l->m, 0);
		fill_floats(&l->in[RVL_B_SHORTCUT_SCALE], exact);
	}
}

static void random_values(struct layer *l)
{
	struct rvl_kernel_desc *d = &l->d;
	bool exact = test_rnd(3);

	random_image(l, &d->out[0], random_type(true), 0);
	for (uint32_t i = RVL_B_SCALE; i <= RVL_B_BIAS; i++) {
		l->in[i] = constant(&d->in[i], RVL_TYPE_F32, 1, l->m, 0);
		fill_floats(&l->in[i], exact);
	}
	if (test_rnd(2))
		random_shortcut(l, exact);
	if (!test_rnd(3)) {
		l->in[RVL_B_PRELU] = constant(&d->in[RVL_B_PRELU], RVL_TYPE_F32, 2, 2, l->m);
		fill_floats(&l->in[RVL_B_PRELU], exact);
	}
	if (d->out[0].type != RVL_TYPE_F32 && test_rnd(2)) {
		d->attr.q_lo = l->zero[0];
		d->attr.q_hi = l->zero[0] + (int32_t)test_rnd(100);
	}
}

static void random_thresholds(struct layer *l)
{
	bool floats = l->values && l->d.out[0].type == RVL_TYPE_F32;
	struct test_guarded *g = &l->in[RVL_B_THRESHOLD];

	*g = constant(&l->d.in[RVL_B_THRESHOLD], floats ? RVL_TYPE_F32 : RVL_TYPE_S32, 1, l->m, 0);
	fill_floats(g, true);
	for (int64_t m = 0; m < l->m && !floats; m++) {
		int32_t t = (int32_t)test_rnd(21) - 10;

		t = !test_rnd(10) ? INT32_MIN : !test_rnd(10) ? INT32_MAX : t;
		memcpy(g->p + 4 * m, &t, 4);
	}
}

static void random_sizes(struct layer *l)
{
	struct rvl_attr *a = &l->d.attr;
	int64_t group = test_rnd(4) ? 1 : 1 + test_rnd(5);
	int64_t cg = test_rnd(2) ? 1 + test_rnd(80) : (int64_t[]) { 64, 128, 63, 65, 192 }[test_rnd(5)];
	int64_t mg = test_rnd(2) ? 1 + test_rnd(70) : (int64_t[]) { 8, 16, 32, 64, 33 }[test_rnd(5)];

	if (group > 1) {
		cg = 1 + cg / 3;
		mg = 1 + mg / 3;
	}
	a->group = (int32_t)group;
	l->n = 1 + !test_rnd(8);
	l->c = cg * group;
	l->m = mg * group;
	l->h = 1 + test_rnd(7);
	l->w = 1 + test_rnd(11);
	l->oh = test_axis(a, 0, l->h, 4);
	l->ow = test_axis(a, 1, l->w, 4);
	a->block = (int32_t)l->c;
	a->count_include_pad = (int32_t)test_rnd(3) - 1;
}

static void random_layer(struct layer *l)
{
	struct rvl_kernel_desc *d = &l->d;
	const struct rvl_attr *a = &d->attr;
	struct rvl_kernel_arg *b;

	d->op = RVL_OP_B_CONV;
	rvl_attr_init(&d->attr);
	random_sizes(l);
	l->values = test_rnd(4);
	l->has_bits = !l->values || test_rnd(2);
	d->in[RVL_B_X] = (struct rvl_kernel_arg) {
		.type = RVL_TYPE_U64, .shape = { 3, { l->n, l->h, l->w * rvl_b_words(l->c) } },
	};
	l->in[RVL_B_X] = test_guarded(test_bytes(&d->in[RVL_B_X]), 8);
	test_image(&d->in[RVL_B_W], RVL_TYPE_U64, l->m, a->kernel[0], a->kernel[1],
		   rvl_b_words(l->c / a->group));
	l->in[RVL_B_W] = test_guarded(test_bytes(&d->in[RVL_B_W]), 8);
	d->in[RVL_B_W].data = l->in[RVL_B_W].p;
	l->x = malloc((size_t)(l->n * l->c * l->h * l->w) * sizeof(float));
	l->weights = malloc((size_t)(l->m * l->c) * (size_t)(a->kernel[0] * a->kernel[1]) * sizeof(float));
	make_bits(l);
	if (!test_rnd(4))
		d->attr.f_lo = 0;
	if (l->values)
		random_values(l);
	if (l->has_bits)
		random_thresholds(l);
	d->n_in = RVL_B_INPUTS;
	while (d->in[d->n_in - 1].type == RVL_TYPE_NONE)
		d->n_in--;
	b = &d->out[l->values];
	if (l->has_bits)
		*b = (struct rvl_kernel_arg) {
			.type = RVL_TYPE_U64, .shape = { 3, { l->n, l->oh, l->ow * rvl_b_words(l->m) } },
		};
	d->n_out = (uint32_t)l->values + l->has_bits;
	l->y = test_guarded(l->values ? test_bytes(&d->out[0]) : 0, 4);
	l->y_again = test_guarded(l->y.size, 4);
	l->bits = test_guarded(l->has_bits ? test_bytes(b) : 0, 8);
	l->bits_again = test_guarded(l->bits.size, 8);
}

static void drop(struct layer *l)
{
	struct test_guarded *all[] = { &l->y, &l->y_again, &l->bits, &l->bits_again };

	for (int i = 0; i < RVL_B_INPUTS; i++)
		if (l->in[i].map)
			test_drop(&l->in[i]);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		test_drop(all[i]);
	free(l->x);
	free(l->weights);
}

/* ---- the oracle: floats, one result at a time ---- */

static float float_at(const struct layer *l, uint32_t i, int64_t at)
{
	float v;

	memcpy(&v, l->in[i].p + 4 * at, 4);
	return v;
}

/* Elements are in the order of the operand's layout. */
static int64_t index_of(const struct rvl_kernel_arg *a, int64_t n, int64_t m, int64_t y, int64_t x)
{
	const int64_t *d = a->shape.dim;

	if (a->layout == RIVULET_LAYOUT_NHWC)
		return ((n * d[2] + y) * d[3] + x) * d[1] + m;
	return ((n * d[1] + m) * d[2] + y) * d[3] + x;
}

static int32_t integer_at(enum rvl_type t, const uint8_t *p, int64_t at)
{
	int16_t h;

	if (t == RVL_TYPE_S16) {
		memcpy(&h, p + 2 * at, 2);
		return h;
	}
	return t == RVL_TYPE_S8 ? (int8_t)p[at] : p[at];
}

static float oracle_sum(const struct layer *l, int64_t n, int64_t m, int64_t oy, int64_t ox)
{
	const struct rvl_attr *a = &l->d.attr;
	int64_t cg = l->c / a->group, first = m / (l->m / a->group) * cg;
	float sum = 0;

	for (int64_t c = 0; c < cg; c++)
		for (int64_t ky = 0; ky < a->kernel[0]; ky++)
			for (int64_t kx = 0; kx < a->kernel[1]; kx++) {
				int64_t y = oy * a->stride[0] + ky * a->dilation[0] - a->pad[0];
				int64_t x = ox * a->stride[1] + kx * a->dilation[1] - a->pad[1];
				float v = (float)a->count_include_pad;

				if (y >= 0 && y < l->h && x >= 0 && x < l->w)
					v = l->x[((n * l->c + first + c) * l->h + y) * l->w + x];
				sum += v * l->weights[((m * cg + c) * a->kernel[0] + ky) * a->kernel[1] + kx];
			}
	return fmaxf(sum, a->f_lo);
}

static float oracle_value(const struct layer *l, float sum, int64_t n, int64_t m, int64_t y, int64_t x)
{
	const struct rvl_kernel_arg *s = &l->d.in[RVL_B_SHORTCUT], *out = &l->d.out[0];
	float unit = out->type == RVL_TYPE_F32 ? 1 : l->scale[0];
	float u = fmaf(sum, float_at(l, RVL_B_SCALE, m) / unit, float_at(l, RVL_B_BIAS, m) / unit);

	if (s->type) {
		float r = 1, v, step = s->type == RVL_TYPE_F32 ? 1 : l->scale[1];

		if (l->in[RVL_B_SHORTCUT_SCALE].map)
			r = float_at(l, RVL_B_SHORTCUT_SCALE, m);
		v = s->type == RVL_TYPE_F32 ? float_at(l, RVL_B_SHORTCUT, index_of(s, n, m, y, x)) :
		    (float)(integer_at(s->type, l->in[RVL_B_SHORTCUT].p, index_of(s, n, m, y, x)) - l->zero[1]);
		u = fmaf(v, r * (step / unit), u);
	}
	if (l->in[RVL_B_PRELU].map) {
		if (u < 0)
			u *= float_at(l, RVL_B_PRELU, m);
		u += float_at(l, RVL_B_PRELU, l->m + m) / unit;
	}
	return u;
}

static int32_t oracle_round(const struct layer *l, float u)
{
	enum rvl_type t = l->d.out[0].type;
	int32_t lo = t == RVL_TYPE_U8 ? 0 : t == RVL_TYPE_S8 ? -128 : -32768, hi = lo + (t == RVL_TYPE_S16 ? 65535 : 255);

	lo = l->d.attr.q_lo > lo ? l->d.attr.q_lo < hi ? l->d.attr.q_lo : hi : lo;
	hi = l->d.attr.q_hi < hi ? l->d.attr.q_hi > lo ? l->d.attr.q_hi : lo : hi;
	return (int32_t)rintf(fminf(fmaxf(u, (float)(lo - l->zero[0])), (float)(hi - l->zero[0]))) + l->zero[0];
}

static bool reaches(const struct layer *l, float value, int64_t m)
{
	int32_t t;

	memcpy(&t, l->in[RVL_B_THRESHOLD].p + 4 * m, 4);
	if (l->values && l->d.out[0].type == RVL_TYPE_F32) {
		binary_ties += value == float_at(l, RVL_B_THRESHOLD, m);
		return value >= float_at(l, RVL_B_THRESHOLD, m);
	}
	binary_ties += (int32_t)value == t;
	return (int32_t)value >= t;
}

/* One result, into the first buffers. */
static void oracle_one(const struct layer *l, int64_t n, int64_t m, int64_t y, int64_t x)
{
	const struct rvl_kernel_arg *out = &l->d.out[0];
	int64_t at = l->values ? index_of(out, n, m, y, x) : 0;
	float v = oracle_sum(l, n, m, y, x);

	if (l->values)
		v = oracle_value(l, v, n, m, y, x);
	if (l->values && out->type == RVL_TYPE_F32)
		memcpy(l->y.p + 4 * at, &v, 4);
	else if (l->values) {
		int32_t q = oracle_round(l, v);

		v = (float)q;
		memcpy(l->y.p + at * (int64_t)rvl_type_size(out->type), &q, rvl_type_size(out->type));
	}
	if (l->has_bits && reaches(l, v, m))
		l->bits.p[(((n * l->oh + y) * l->ow + x) * rvl_b_words(l->m)) * 8 + m / 8] |= (uint8_t)(1 << m % 8);
}

static void oracle(const struct layer *l)
{
	memset(l->bits.p, 0, l->bits.size);
	for (int64_t i = 0; i < l->n * l->m * l->oh * l->ow; i++)
		oracle_one(l, i / (l->m * l->oh * l->ow), i / (l->oh * l->ow) % l->m, i / l->ow % l->oh,
			   i % l->ow);
}

/* ---- the comparison ---- */

static void run_all(struct layer *l, bool reference, uint32_t threads)
{
	const void *in[RVL_B_INPUTS];

	for (int i = 0; i < RVL_B_INPUTS; i++)
		in[i] = l->in[i].map ? l->in[i].p : NULL;
	memset(l->y_again.p, 0xa5, l->y_again.size);
	memset(l->bits_again.p, 0xa5, l->bits_again.size);
	test_run_outputs(&l->d, reference, in,
			 (void *[]) { l->values ? l->y_again.p : l->bits_again.p, l->bits_again.p }, threads);
}

static bool same(const struct layer *l)
{
	return !memcmp(l->y.p, l->y_again.p, l->y.size) && !memcmp(l->bits.p, l->bits_again.p, l->bits.size);
}

static bool differs(void *arg)
{
	run_all(arg, false, test_rnd(3));
	return !same(arg);
}

const char *binary_compare(long i)
{
	struct layer l = { .n = 0 };
	const char *name;

	test_seed(i);
	random_layer(&l);
	oracle(&l);
	run_all(&l, true, 0);
	name = same(&l) ? test_each_set(differs, &l) : "the reference";
	drop(&l);
	return name;
}

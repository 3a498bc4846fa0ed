// SPDX-License-Identifier: MIT
#include "binary/signs.h"

#include <math.h>
#include <string.h>

#include "kernels/guarded.h"
#include "rivulet_bits.h"

unsigned long sign_ties;

struct sign {
	struct rvl_kernel_desc d;
	int64_t n, c, h, w;
	int64_t step[4];	/* elements between images, channels, rows and pixels */
	struct test_guarded x, t, y, y_again;
};

/* Few values, so that many are equal to a threshold; @whole: any of the type. */
static int32_t random_integer(enum rvl_type t, bool whole)
{
	uint32_t v = whole ? test_rnd(1 << 16) << 16 | test_rnd(1 << 16) : test_rnd(9) - 4;

	if (t == RVL_TYPE_S16)
		return (int16_t)v;
	return t == RVL_TYPE_S8 ? (int8_t)v : t == RVL_TYPE_U8 ? (uint8_t)v : (int32_t)v;
}

static float random_float(void)
{
	static const float odd[] = { NAN, INFINITY, -INFINITY, -0.0f, 0x1p-149f, -0x1p-149f, 0x1.fffffep127f };

	return test_rnd(4) ? (float)((int)test_rnd(9) - 4) / 4 : odd[test_rnd(sizeof(odd) / sizeof(odd[0]))];
}

static void fill(struct test_guarded *g, enum rvl_type t, enum rvl_type values, bool whole)
{
	size_t size = rvl_type_size(t);

	for (size_t i = 0; i < g->size / size; i++) {
		float f = random_float();
		int32_t v = random_integer(test_rnd(8) ? values : t, whole);

		memcpy(g->p + i * size, t == RVL_TYPE_F32 ? (void *)&f : &v, size);
	}
}

static void random_layout(struct sign *s, struct rvl_kernel_arg *a)
{
	int64_t nhwc[4] = { s->h * s->w * s->c, 1, s->w * s->c, s->c };
	int64_t plain[4] = { s->c * s->h * s->w, s->h * s->w, s->w, 1 };

	if (test_rnd(2) && s->c > 1 && s->h * s->w > 1)
		a->layout = RIVULET_LAYOUT_NHWC;
	memcpy(s->step, a->layout == RIVULET_LAYOUT_NHWC ? nhwc : plain, sizeof(s->step));
}

static void random_sign(struct sign *s)
{
	static const enum rvl_type types[] = { RVL_TYPE_F32, RVL_TYPE_S8, RVL_TYPE_U8, RVL_TYPE_S16, RVL_TYPE_S32 };
	struct rvl_kernel_arg *a = &s->d.in[0];
	enum rvl_type type = types[test_rnd(5)], of_t = type == RVL_TYPE_F32 ? type : RVL_TYPE_S32;
	bool whole = !test_rnd(4);

	s->d = (struct rvl_kernel_desc) { .op = RVL_OP_B_SIGN, .n_in = 2, .n_out = 1 };
	rvl_attr_init(&s->d.attr);
	s->n = 1 + test_rnd(3);
	s->c = test_rnd(2) ? 1 + test_rnd(200) : (int64_t[]) { 64, 128, 63, 65, 16 }[test_rnd(5)];
	s->h = 1 + test_rnd(6);
	s->w = 1 + test_rnd(40);
	test_image(a, type, s->n, s->c, s->h, s->w);
	random_layout(s, a);
	if (!test_rnd(6)) { /* a matrix */
		s->h = s->w = 1;
		*a = (struct rvl_kernel_arg) { .type = type, .shape = { 2, { s->n, s->c } } };
		memcpy(s->step, (const int64_t[4]) { s->c, 1, s->c, s->c }, sizeof(s->step));
	}
	s->x = test_guarded((size_t)(s->n * s->step[0]) * rvl_type_size(type), 4);
	fill(&s->x, type, type, whole);
	s->d.in[1] = (struct rvl_kernel_arg) { .type = of_t, .shape = { 1, { s->c } } };
	s->t = test_guarded((size_t)s->c * 4, 4);
	fill(&s->t, of_t, type, whole);
	s->d.in[1].data = s->t.p;
	s->d.out[0] = (struct rvl_kernel_arg) {
		.type = RVL_TYPE_U64, .shape = { 3, { s->n, s->h, s->w * rvl_b_words(s->c) } },
	};
	s->y = test_guarded(test_bytes(&s->d.out[0]), 8);
	s->y_again = test_guarded(s->y.size, 8);
}

static double number_at(enum rvl_type t, const uint8_t *p, int64_t at)
{
	int16_t half;
	int32_t word;
	float f;

	switch (t) {
	case RVL_TYPE_F32:
		memcpy(&f, p + at * 4, sizeof(f));
		return f;
	case RVL_TYPE_S32:
		memcpy(&word, p + at * 4, sizeof(word));
		return word;
	case RVL_TYPE_S16:
		memcpy(&half, p + at * 2, sizeof(half));
		return half;
	default:
		return t == RVL_TYPE_S8 ? (int8_t)p[at] : p[at];
	}
}

static void oracle(struct sign *s)
{
	memset(s->y.p, 0, s->y.size);
	for (int64_t i = 0; i < s->n * s->h * s->w * s->c; i++) {
		int64_t c = i % s->c, pixel = i / s->c, w = pixel % s->w, h = pixel / s->w % s->h;
		int64_t at = pixel / s->w / s->h * s->step[0] + c * s->step[1] + h * s->step[2] + w * s->step[3];
		double x = number_at(s->d.in[0].type, s->x.p, at), t = number_at(s->d.in[1].type, s->t.p, c);

		sign_ties += x == t;
		s->y.p[pixel * rvl_b_words(s->c) * 8 + c / 8] |= (uint8_t)((x >= t) << c % 8);
	}
}

static bool run_differs(struct sign *s, bool reference)
{
	const void *in[] = { s->x.p, s->t.p };

	memset(s->y_again.p, 0xa5, s->y_again.size);
	test_run_outputs(&s->d, reference, in, (void *[]) { s->y_again.p }, test_rnd(3));
	return memcmp(s->y.p, s->y_again.p, s->y.size);
}

static bool differs(void *arg)
{
	return run_differs(arg, false);
}

const char *sign_compare(long i)
{
	struct sign s;
	const char *name;

	test_seed(i);
	random_sign(&s);
	oracle(&s);
	name = run_differs(&s, true) ? "the reference" : test_each_set(differs, &s);
	test_drop(&s.x);
	test_drop(&s.t);
	test_drop(&s.y);
	test_drop(&s.y_again);
	return name;
}

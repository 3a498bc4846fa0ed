// SPDX-License-Identifier: MIT
/*
 * Chains of operators in stripes of rows give the bytes of the operators one after the other, for any
 * height of the stripes, number of threads and instruction set, and touch no byte outside their
 * operands and their scratch memory. Damaged chains are refused.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa.h"
#include "kernels/guarded.h"
#include "suite.h"

#define MOST 6
#define CHANNELS 64
#define NHWC RIVULET_LAYOUT_NHWC

/* One operator, and memory of its constants and of its result. */
struct step {
	struct rvl_kernel_desc d;
	uint32_t in[RVL_CHAIN_IN];
	float scale[CHANNELS];
	int32_t zp[CHANNELS];
	struct test_guarded w, b, y;
};

/* Input 0 is an image; inputs 1 and 2 of a chain are read by an addition; the others are constants. */
struct chain {
	struct rvl_kernel_desc d;
	struct step step[MOST];
	uint32_t n;
	struct test_guarded x, y;
	const void *in[RVL_MAX_IN];
	void *parts;
	uint32_t threads;
};

static const float unit_scale[1] = { 0.04f };
static const int32_t zero_point[1] = { 7 };

static void quantise(struct rvl_kernel_arg *a)
{
	a->quant = (struct rvl_kernel_quant) { .n = 1, .scale = unit_scale, .zp = zero_point };
}

static enum rvl_type byte_type(void)
{
	return test_rnd(2) ? RVL_TYPE_U8 : RVL_TYPE_S8;
}

static uint32_t add_input(struct chain *c, const struct rvl_kernel_arg *a, const void *data, bool constant)
{
	struct rvl_kernel_arg *to = &c->d.in[c->d.n_in];

	*to = *a;
	to->data = constant ? data : NULL;
	c->in[c->d.n_in] = data;
	return c->d.n_in++;
}

/* An image in NHWC, unless both layouts are the same bytes. */
static void image(struct rvl_kernel_arg *a, enum rvl_type t, int64_t n, int64_t m, int64_t h, int64_t w)
{
	test_image(a, t, n, m, h, w);
	a->layout = NHWC;
	quantise(a);
}

/* Half of the weights have few bits, for kernels with tables. */
static void narrow(struct test_guarded *w)
{
	uint32_t bits = test_rnd(2) ? 8 : 1 + test_rnd(4);

	for (size_t i = 0; i < w->size; i++)
		w->p[i] = (uint8_t)((int8_t)w->p[i] >> (8 - bits));
}

static void constant_operands(struct chain *c, struct step *s, int64_t m)
{
	struct rvl_kernel_arg *w = &s->d.in[1], *b = &s->d.in[2];

	for (int64_t i = 0; i < m; i++) {
		s->scale[i] = 0.002f + 0.01f * (float)test_rnd(1000) / 1000;
		s->zp[i] = 0;
	}
	w->quant = (struct rvl_kernel_quant) { .n = (uint32_t)m, .scale = s->scale, .zp = s->zp };
	s->w = test_guarded(test_bytes(w), 1);
	narrow(&s->w);
	s->b = test_guarded((size_t)m * 4, 4);
	for (int64_t i = 0; i < m; i++)
		((int32_t *)(void *)s->b.p)[i] = (int32_t)test_rnd(2000) - 1000;
	w->data = s->w.p;
	*b = (struct rvl_kernel_arg) { .type = RVL_TYPE_S32, .data = s->b.p, .shape = { 1, { m } } };
	s->in[1] = add_input(c, w, s->w.p, true);
	s->in[2] = add_input(c, b, s->b.p, true);
	s->d.n_in = 3;
}

/* The windows of an axis. Few have no row of the image under them. */
static int64_t axis(struct rvl_attr *a, int i, int64_t n)
{
	int64_t out = test_axis(a, i, n, 4), most = (n + a->pad[i] - 1) / a->stride[i] + 1;

	return out < most ? out : most;
}

static void window(struct chain *c, struct step *s)
{
	const int64_t *dim = s->d.in[0].shape.dim;
	bool depthwise = test_rnd(2), pool = !test_rnd(4);
	int64_t m = depthwise || pool ? dim[1] : 2 + test_rnd(40), oh, ow;
	enum rvl_type t = byte_type();

	oh = axis(&s->d.attr, 0, dim[2]);
	ow = axis(&s->d.attr, 1, dim[3]);
	s->d.op = !pool ? RVL_OP_Q_CONV : test_rnd(2) ? RVL_OP_MAX_POOL : RVL_OP_Q_AVERAGE_POOL;
	image(&s->d.out[0], s->d.op == RVL_OP_MAX_POOL ? s->d.in[0].type : t, dim[0], m, oh, ow);
	if (pool)
		return;
	s->d.attr.group = depthwise ? (int32_t)m : 1;
	test_image(&s->d.in[1], RVL_TYPE_S8, m, depthwise ? 1 : dim[1], s->d.attr.kernel[0],
		   s->d.attr.kernel[1]);
	constant_operands(c, s, m);
}

/* A product of each pixel, a table, or a sum with an image that an operator or the caller made. */
static void same_rows(struct chain *c, struct step *s, uint32_t n)
{
	const struct rvl_kernel_arg *x = &s->d.in[0];
	const int64_t *dim = x->shape.dim;

	if (test_rnd(2)) {
		int64_t m = 2 + test_rnd(40);

		s->d.op = RVL_OP_Q_CONV;
		image(&s->d.out[0], byte_type(), dim[0], m, dim[2], dim[3]);
		test_image(&s->d.in[1], RVL_TYPE_S8, m, dim[1], 1, 1);
		constant_operands(c, s, m);
		return;
	}
	s->d.out[0] = *x;
	s->d.out[0].type = byte_type();
	s->d.op = test_rnd(3) ? RVL_OP_Q_ADD : RVL_OP_Q_RESCALE;
	if (s->d.op == RVL_OP_Q_RESCALE)
		return;
	s->d.n_in = 2;
	for (uint32_t i = 0; i + 1 < n; i++)
		if (c->step[i].d.out[0].layout == NHWC && rvl_shape_equal(&c->step[i].d.out[0].shape, &x->shape)) {
			s->d.in[1] = c->step[i].d.out[0];
			s->in[1] = RVL_CHAIN_MADE + i;
			return;
		}
	if (rvl_shape_equal(&c->d.in[0].shape, &x->shape) && c->d.in[0].layout == NHWC)
		s->d.in[1] = c->d.in[0];
	else {
		s->d.in[1] = *x;
		s->w = test_guarded(test_bytes(x), 1);
		s->in[1] = add_input(c, x, s->w.p, false);
	}
}

static bool has_image(const struct rvl_kernel_arg *a)
{
	return rvl_layout_matters(&a->shape);
}

/* Appends an operator; false if its result is no image of several channels and pixels. */
static bool add_step(struct chain *c)
{
	struct step *s = &c->step[c->n];
	const struct rvl_kernel_arg *x = c->n ? &c->step[c->n - 1].d.out[0] : &c->d.in[0];
	uint32_t inputs = c->d.n_in;

	memset(s, 0, sizeof(*s));
	rvl_attr_init(&s->d.attr);
	s->d.n_in = s->d.n_out = 1;
	s->d.in[0] = *x;
	s->in[0] = c->n ? RVL_CHAIN_MADE + c->n - 1 : 0;
	if (x->layout != NHWC || test_rnd(3))
		window(c, s);
	else
		same_rows(c, s, c->n);
	if (!has_image(&s->d.out[0]) || (s->d.op != RVL_OP_Q_CONV && x->layout != NHWC)) {
		c->d.n_in = inputs;
		test_drop(&s->w);
		test_drop(&s->b);
		return false;
	}
	s->y = test_guarded(test_bytes(&s->d.out[0]), 1);
	c->n++;
	return true;
}

static void finish(struct chain *c)
{
	struct rvl_chain_part part[MOST];
	int64_t size;

	for (uint32_t i = 0; i < c->n; i++) {
		part[i].d = &c->step[i].d;
		memcpy(part[i].in, c->step[i].in, sizeof(part[i].in));
	}
	size = rvl_chain_pack(part, c->n, NULL, 0);
	ck_assert_int_gt(size, 0);
	c->parts = malloc((size_t)size);
	ck_assert_int_eq(rvl_chain_pack(part, c->n, c->parts, (size_t)size), size);
	c->d.op = RVL_OP_CHAIN;
	rvl_attr_init(&c->d.attr);
	c->d.attr.block = (int32_t)test_rnd(5);
	c->d.n_out = 1;
	c->d.out[0] = c->step[c->n - 1].d.out[0];
	c->d.parts = c->parts;
	c->d.parts_size = (uint32_t)size;
	c->y = test_guarded(test_bytes(&c->d.out[0]), 1);
	c->threads = test_rnd(7);
}

/* The chain's image is one of floats, that the first operator quantises; often with few channels. */
static void add_front(struct chain *c)
{
	struct step *s = &c->step[0];
	struct rvl_kernel_arg *x = &c->d.in[0], one = { .type = RVL_TYPE_F32, .shape = { 1, { 1 } } };

	memset(s, 0, sizeof(*s));
	if (test_rnd(2))
		x->shape.dim[1] = 1 + 2 * test_rnd(2);
	rvl_attr_init(&s->d.attr);
	s->d.op = RVL_OP_QUANTIZE;
	s->d.n_in = 3;
	s->d.n_out = 1;
	s->d.out[0] = *x;
	*x = (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = x->shape };
	s->d.in[0] = *x;
	c->x = test_guarded(test_bytes(x), 4);
	for (int64_t i = 0; i < rvl_shape_count(&x->shape); i++)
		((float *)(void *)c->x.p)[i] = (float)test_rnd(4000) / 200 - 10;
	c->in[0] = c->x.p;
	s->w = test_guarded(sizeof(float), 4);
	*(float *)(void *)s->w.p = 0.01f + (float)test_rnd(100) / 1000;
	s->d.in[1] = one;
	s->d.in[1].data = s->w.p;
	s->in[1] = add_input(c, &one, s->w.p, true);
	s->b = test_guarded(1, 1);
	one.type = s->d.out[0].type;
	s->d.in[2] = one;
	s->d.in[2].data = s->b.p;
	s->in[2] = add_input(c, &one, s->b.p, true);
	s->y = test_guarded(test_bytes(&s->d.out[0]), 1);
	c->n = 1;
}

static bool has_front(const struct chain *c)
{
	return c->step[0].d.op == RVL_OP_QUANTIZE;
}

static void drop(struct chain *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		test_drop(&c->step[i].w);
		test_drop(&c->step[i].b);
		test_drop(&c->step[i].y);
	}
	test_drop(&c->x);
	test_drop(&c->y);
	free(c->parts);
}

/* Between 2 and MOST operators on an image of up to 40 rows, in a batch of one or two. */
static void make(struct chain *c, long seed)
{
	uint32_t want, tries = 0;

	test_seed(seed);
	do {
		memset(c, 0, sizeof(*c));
		image(&c->d.in[0], byte_type(), 1 + !test_rnd(4), 2 + test_rnd(30), 3 + test_rnd(38),
		      3 + test_rnd(20));
		if (!test_rnd(4))
			c->d.in[0].layout = RIVULET_LAYOUT_PLAIN;
		c->d.n_in = 1;
		if (c->d.in[0].layout != NHWC && test_rnd(3)) {
			add_front(c);
		} else {
			c->x = test_guarded(test_bytes(&c->d.in[0]), 1);
			c->in[0] = c->x.p;
		}
		want = 2 + test_rnd(MOST - 1);
		while (c->n < want && tries++ % 20 < 19)
			add_step(c);
		if (c->n < 2)
			drop(c);
	} while (c->n < 2);
	if (has_front(c) && c->n == 2 && test_rnd(2))	/* stripes are in NHWC */
		c->step[1].d.out[0].layout = RIVULET_LAYOUT_PLAIN;
	finish(c);
}

static void make_with_front(struct chain *c, uint32_t operators)
{
	make(c, 0);
	for (long seed = 1; !has_front(c) || c->n != operators; seed++) {
		drop(c);
		make(c, seed);
	}
}

/* Every operator for all its rows, by the scalar reference. */
static void run_steps(const struct chain *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		const struct step *s = &c->step[i];
		const void *in[RVL_CHAIN_IN] = { NULL };

		for (uint32_t j = 0; j < s->d.n_in; j++)
			in[j] = s->in[j] >= RVL_CHAIN_MADE ? c->step[s->in[j] - RVL_CHAIN_MADE].y.p :
							     c->in[s->in[j]];
		test_run(&s->d, true, in, &s->y, 0);
	}
}

static bool differs(void *arg)
{
	struct chain *c = arg;

	memset(c->y.p, 0x5a, c->y.size);
	test_run(&c->d, false, c->in, &c->y, c->threads);
	return memcmp(c->y.p, c->step[c->n - 1].y.p, c->y.size);
}

/* Results inside a chain that only the caller would read make it another chain. */
static bool is_chain(struct chain *c)
{
	struct rvl_kernel *k;
	char why[RVL_WHY_MAX] = "";
	int rc = rvl_kernel_new(&c->d, false, &k, why);

	if (!rc)
		rvl_kernel_free(k);
	else
		ck_assert_msg(strstr(why, "two paces"), "%s", why);
	return !rc;
}

START_TEST(chains_equal_their_operators)
{
	int chains = 0, fronts = 0;

	for (long i = 0; i < random_cases(400); i++) {
		struct chain c;
		const char *set;

		make(&c, i);
		rvl_tables_force(i % 2 ? RVL_TABLES_ALWAYS : RVL_TABLES_MEASURED);
		if (is_chain(&c)) {
			chains++;
			fronts += has_front(&c);
			run_steps(&c);
			set = test_each_set(differs, &c);
			ck_assert_msg(!set, "chain %ld of %u operators differs with %s", i, c.n, set);
		}
		drop(&c);
	}
	ck_assert_int_gt(chains, random_cases(400) / 2);
	ck_assert_int_gt(fronts, random_cases(400) / 20);
	rvl_cpu_force(NULL, NULL);
	rvl_tables_force(RVL_TABLES_MEASURED);
}
END_TEST

/*
 * A row of 7 pixels takes two tiles of 4 with AVX2, which together need more memory than a full one of 6
 * where that alone takes more than half of the memory of tiles.
 */
START_TEST(tiles_of_a_short_row_have_their_memory)
{
	struct chain c = { .n = 2 };
	struct step *conv = &c.step[0];

	test_seed(1);
	image(&c.d.in[0], RVL_TYPE_U8, 1, 1024, 7, 7);
	c.x = test_guarded(test_bytes(&c.d.in[0]), 1);
	c.in[0] = c.x.p;
	c.d.n_in = 1;
	for (int i = 0; i < 2; i++) {
		struct step *s = &c.step[i];

		s->d.op = i ? RVL_OP_Q_RESCALE : RVL_OP_Q_CONV;
		rvl_attr_init(&s->d.attr);
		s->d.n_in = s->d.n_out = 1;
		s->in[0] = i ? RVL_CHAIN_MADE : 0;
		s->d.in[0] = i ? conv->d.out[0] : c.d.in[0];
		image(&s->d.out[0], RVL_TYPE_U8, 1, CHANNELS, 7, 7);
		s->y = test_guarded(test_bytes(&s->d.out[0]), 1);
	}
	memcpy(conv->d.attr.kernel, (int32_t[]) { 3, 3 }, 2 * sizeof(int32_t));
	memcpy(conv->d.attr.pad, (int32_t[]) { 1, 1, 1, 1 }, 4 * sizeof(int32_t));
	test_image(&conv->d.in[1], RVL_TYPE_S8, CHANNELS, 1024, 3, 3);
	constant_operands(&c, conv, CHANNELS);
	finish(&c);
	c.d.attr.block = 1;
	run_steps(&c);
	ck_assert_ptr_null(test_each_set(differs, &c));
	drop(&c);
	rvl_cpu_force(NULL, NULL);
}
END_TEST

START_TEST(descriptors_keep_chains)
{
	struct rvl_kernel_desc back;
	struct chain c;
	int64_t size;
	void *bytes;

	make(&c, 3);
	size = rvl_desc_pack(&c.d, NULL, 0);
	ck_assert_int_gt(size, 0);
	bytes = malloc((size_t)size);
	ck_assert_int_eq(rvl_desc_pack(&c.d, bytes, (size_t)size), size);
	ck_assert_int_eq(rvl_desc_unpack(bytes, (size_t)size, &back), 0);
	ck_assert_uint_eq(back.parts_size, c.d.parts_size);
	ck_assert(!memcmp(back.parts, c.d.parts, c.d.parts_size));
	for (int64_t cut = 1; cut < size; cut++)
		ck_assert_int_ne(rvl_desc_unpack(bytes, (size_t)(size - cut), &back), 0);
	free(bytes);
	drop(&c);
}
END_TEST

/* The kernel of damaged bytes says what is wrong. */
static void check_refused(struct chain *c, const char *error)
{
	struct rvl_kernel *k;
	char why[RVL_WHY_MAX] = "";

	ck_assert_int_ne(rvl_kernel_new(&c->d, false, &k, why), 0);
	ck_assert_msg(strstr(why, error), "%s", why);
}

/* What is quantised must be an image of floats that lies as it is described, by constants that are known. */
START_TEST(fronts_are_checked)
{
	struct rvl_kernel_arg *arg;
	struct chain c;
	const void *data;

	make_with_front(&c, 2);
	arg = c.d.in;
	data = arg[1].data;
	arg[1].data = NULL;
	check_refused(&c, "by constants");
	arg[1].data = data;
	arg[0].pitched = true;
	check_refused(&c, "pitches that the kernel does not address");
	arg[0].pitched = false;
	arg[0].layout = NHWC;
	check_refused(&c, "operand 0 of operator 0 is not what the chain has");
	arg[0].layout = RIVULET_LAYOUT_PLAIN;
	arg[0].type = RVL_TYPE_S32;
	check_refused(&c, "operand 0 of operator 0 is not what the chain has");
	drop(&c);
}
END_TEST

static void finish_again(struct chain *c)
{
	free(c->parts);
	test_drop(&c->y);
	finish(c);
}

/* A front that nothing reads, and one that a second operator reads. */
START_TEST(only_a_first_operator_reads_a_front)
{
	struct test_guarded other;
	struct chain c;

	make_with_front(&c, 3);
	other = test_guarded(test_bytes(&c.step[1].d.in[0]), 1);
	c.step[1].in[0] = add_input(&c, &c.step[1].d.in[0], other.p, false);
	finish_again(&c);
	check_refused(&c, "operator 1 does not quantise its operand");
	test_drop(&other);
	drop(&c);
	make_with_front(&c, 3);
	c.step[2].in[0] = RVL_CHAIN_MADE;
	c.step[2].d.in[0] = c.step[0].d.out[0];
	finish_again(&c);
	check_refused(&c, "operator 2 does not quantise its operand");
	drop(&c);
}
END_TEST

/* Every bit of a chain is inverted once: the kernel is refused, or runs within its memory. */
START_TEST(damaged_chains_stay_in_their_memory)
{
	struct chain c;

	if (_i)
		make_with_front(&c, 1 + (uint32_t)_i);
	else
		make(&c, 5);
	for (uint32_t i = 0; i < c.d.parts_size; i++) {
		uint8_t *p = (uint8_t *)c.parts + i;
		struct rvl_kernel *k;
		char why[RVL_WHY_MAX] = "";

		*p ^= (uint8_t)(1u << i % 8);
		if (!rvl_kernel_new(&c.d, false, &k, why)) {
			rvl_kernel_free(k);
			test_run(&c.d, false, c.in, &c.y, 2);
		}
		*p ^= (uint8_t)(1u << i % 8);
	}
	drop(&c);
}
END_TEST

/* Of a window of 3 rows by steps of 1, two rows are kept; the memory does not grow with the image. */
START_TEST(memory_is_that_of_a_stripe)
{
	size_t scratch[2];

	for (int i = 0; i < 2; i++) {
		struct chain c = { .n = 0 };
		struct rvl_kernel *k;

		test_seed(1);
		image(&c.d.in[0], RVL_TYPE_U8, 1, 16, i ? 2000 : 200, 100);
		c.d.n_in = 1;
		for (c.n = 0; c.n < 2; c.n++) {
			struct step *s = &c.step[c.n];

			rvl_attr_init(&s->d.attr);
			s->d.op = RVL_OP_MAX_POOL;
			s->d.n_in = s->d.n_out = 1;
			s->d.in[0] = s->d.out[0] = c.d.in[0];
			s->in[0] = c.n ? RVL_CHAIN_MADE : 0;
			for (int j = 0; j < 4; j++) {
				s->d.attr.pad[j] = 1;
				s->d.attr.kernel[j % 2] = 3;
			}
		}
		finish(&c);
		c.d.attr.block = 0;
		ck_assert(!rvl_kernel_new(&c.d, false, &k, NULL));
		ck_assert_int_gt(rvl_chain_height(k), 8);
		scratch[i] = rvl_kernel_scratch(k);
		rvl_kernel_free(k);
		drop(&c);
	}
	ck_assert_uint_eq(scratch[0], scratch[1]);
	ck_assert_uint_le(scratch[0], 4 * (RVL_CHAIN_BYTES + 4096));
}
END_TEST

/* ---- elements ---- */

static struct rvl_kernel_arg floats(int64_t n)
{
	return (struct rvl_kernel_arg) { .type = RVL_TYPE_F32, .shape = { 3, { 1, n, 1 } } };
}

static struct test_guarded values(int64_t n)
{
	struct test_guarded g = test_guarded((size_t)n * sizeof(float), 4);

	for (int64_t i = 0; i < n; i++)
		((float *)(void *)g.p)[i] = (float)test_rnd(2000) / 400.0f - 2.5f;
	return g;
}

static void add_element_step(struct chain *c, enum rvl_op op, uint32_t a, uint32_t b, int64_t n)
{
	struct step *s = &c->step[c->n++];
	uint32_t in[] = { a, b };

	rvl_attr_init(&s->d.attr);
	s->d.op = op;
	s->d.n_in = op == RVL_OP_GENERAL ? 1 : 2;
	s->d.n_out = 1;
	if (op == RVL_OP_GENERAL)
		s->d.def = rvl_op_find(NULL, "Sigmoid", 13);
	for (uint32_t i = 0; i < s->d.n_in; i++) {
		s->in[i] = in[i];
		s->d.in[i] = in[i] < RVL_CHAIN_MADE ? c->d.in[in[i]] : floats(n);
	}
	s->d.out[0] = floats(n);
	s->y = test_guarded(test_bytes(&s->d.out[0]), 4);
}

/* (min(max(x * sigmoid(x) + one, lo), hi) * constant) + x * sigmoid(x) */
static void make_elements(struct chain *c, int64_t n)
{
	struct rvl_kernel_arg one = floats(1), all = floats(n);

	memset(c, 0, sizeof(*c));
	c->d.in[0] = all;
	c->x = values(n);
	c->in[0] = c->x.p;
	c->d.n_in = 1;
	c->step[0].w = values(1);
	add_input(c, &one, c->step[0].w.p, true);
	c->step[0].b = values(n);
	add_input(c, &all, c->step[0].b.p, true);
	add_element_step(c, RVL_OP_GENERAL, 0, 0, n);
	add_element_step(c, RVL_OP_MUL, 0, RVL_CHAIN_MADE, n);
	add_element_step(c, RVL_OP_ADD, RVL_CHAIN_MADE + 1, 1, n);
	c->step[2].d.attr.f_lo = -0.25f;
	c->step[2].d.attr.f_hi = 1.5f;
	add_element_step(c, RVL_OP_MUL, 2, RVL_CHAIN_MADE + 2, n);
	add_element_step(c, RVL_OP_ADD, RVL_CHAIN_MADE + 3, RVL_CHAIN_MADE + 1, n);
	finish(c);
}

/* Blocks have 4,096 elements. */
START_TEST(chains_of_elements_equal_their_operators)
{
	static const int64_t counts[] = { 2, 4095, 4096, 4097, 3 * 4096, 5 * 4096 + 17 };

	test_seed(_i);
	for (uint32_t threads = 0; threads < 4; threads++) {
		struct chain c;
		const char *set;

		make_elements(&c, counts[_i]);
		c.threads = threads;
		run_steps(&c);
		set = test_each_set(differs, &c);
		ck_assert_msg(!set, "%lld elements differ with %s", (long long)counts[_i], set);
		drop(&c);
	}
	rvl_cpu_force(NULL, NULL);
}
END_TEST

/* A bit of every byte of a chain of elements is inverted: the kernel is refused, or runs within its memory. */
START_TEST(damaged_elements_stay_in_their_memory)
{
	static const int64_t counts[] = { 33, 4096 + 1 };
	uint32_t refused = 0;
	struct chain c;

	test_seed(7);
	make_elements(&c, counts[_i]);
	for (uint32_t i = 0; i < c.d.parts_size; i++) {
		uint8_t *p = (uint8_t *)c.parts + i, bit = (uint8_t)(1u << i % 8);
		struct rvl_kernel *k;

		*p ^= bit;
		if (rvl_kernel_new(&c.d, false, &k, NULL)) {
			refused++;
		} else {
			rvl_kernel_free(k);
			test_run(&c.d, false, c.in, &c.y, 2);
		}
		*p ^= bit;
	}
	ck_assert_uint_gt(refused, c.d.parts_size / 4);
	drop(&c);
}
END_TEST

/* An operand that is broadcast along an axis has no block of elements. */
START_TEST(broadcast_operands_are_refused)
{
	struct rvl_kernel *k;
	struct chain c;

	test_seed(1);
	make_elements(&c, 60);
	ck_assert(rvl_desc_joins_elements(&c.step[1].d));
	c.step[1].d.in[1].shape = (struct rvl_shape) { 3, { 1, 6, 10 } };
	c.step[1].d.out[0].shape = c.step[1].d.in[0].shape = (struct rvl_shape) { 3, { 1, 6, 1 } };
	ck_assert(!rvl_desc_joins_elements(&c.step[1].d));
	c.d.in[0].shape.dim[0] = 2;
	ck_assert(rvl_kernel_new(&c.d, false, &k, NULL));
	drop(&c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("chain");
	TCase *t = add_case(s, "chain", 60, NULL, NULL);

	tcase_add_test(t, chains_equal_their_operators);
	tcase_add_test(t, tiles_of_a_short_row_have_their_memory);
	tcase_add_test(t, descriptors_keep_chains);
	tcase_add_test(t, fronts_are_checked);
	tcase_add_test(t, only_a_first_operator_reads_a_front);
	tcase_add_loop_test(t, damaged_chains_stay_in_their_memory, 0, 3);
	tcase_add_test(t, memory_is_that_of_a_stripe);
	tcase_add_loop_test(t, chains_of_elements_equal_their_operators, 0, 6);
	tcase_add_loop_test(t, damaged_elements_stay_in_their_memory, 0, 2);
	tcase_add_test(t, broadcast_operands_are_refused);
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
/*
 * Operators that copy or reduce one large image: threads share the work, and the bytes of the result
 * do not depend on their number or on the order of the pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "rivulet_kernels.h"
#include "suite.h"

/* Pieces of the last loop, run from the last to the first. */
static uint32_t pieces;

static void backwards(void *ctx, uint32_t lanes, uint32_t n, rvl_part_fn fn, void *arg)
{
	(void)ctx;
	pieces = n;
	while (n-- > 0)
		fn(arg, n % lanes, n);
}

#define PLAIN RIVULET_LAYOUT_PLAIN
#define NHWC RIVULET_LAYOUT_NHWC
#define IMAGE { 4, { 1, 66, 90, 90 } }
#define BLOCKS { 4, { 1, 96, 90, 90 } }
#define CHANNELS { 4, { 1, 66, 1, 1 } }
#define MANY { 4, { 1, 1030, 20, 20 } }
#define MANY_CHANNELS { 4, { 1, 1030, 1, 1 } }

static const float scale[1] = { 0.25f };
static const int32_t zero[1] = { 3 };

struct split_case {
	const char *name;
	enum rvl_op op;
	enum rvl_type type;
	struct rvl_shape x, y;
	enum rivulet_layout x_layout, y_layout;
	int32_t perm[4];
};

static const struct split_case cases[] = {
	{ "to NHWC", RVL_OP_REORDER, RVL_TYPE_U8, IMAGE, IMAGE, PLAIN, NHWC, { 0 } },
	{ "to NCHW", RVL_OP_REORDER, RVL_TYPE_F32, IMAGE, IMAGE, NHWC, PLAIN, { 0 } },
	{ "no reorder", RVL_OP_REORDER, RVL_TYPE_F32, IMAGE, IMAGE, PLAIN, PLAIN, { 0 } },
	{ "copy", RVL_OP_IDENTITY, RVL_TYPE_F32, IMAGE, IMAGE, PLAIN, PLAIN, { 0 } },
	{ "transpose", RVL_OP_TRANSPOSE, RVL_TYPE_U8, IMAGE, { 4, { 90, 66, 1, 90 } }, PLAIN, PLAIN,
	  { 3, 1, 0, 2 } },
	{ "transpose rows", RVL_OP_TRANSPOSE, RVL_TYPE_F32, IMAGE, { 4, { 90, 66, 1, 90 } }, PLAIN,
	  PLAIN, { 2, 1, 0, 3 } },
	{ "pack", RVL_OP_PACK_BLOCKED, RVL_TYPE_U8, IMAGE, BLOCKS, PLAIN, PLAIN, { 0 } },
	{ "unpack", RVL_OP_UNPACK_BLOCKED, RVL_TYPE_U8, BLOCKS, IMAGE, PLAIN, PLAIN, { 0 } },
	{ "max", RVL_OP_GLOBAL_MAX_POOL, RVL_TYPE_F32, IMAGE, CHANNELS, PLAIN, PLAIN, { 0 } },
	{ "max of bytes", RVL_OP_GLOBAL_MAX_POOL, RVL_TYPE_S8, MANY, MANY_CHANNELS, NHWC, PLAIN, { 0 } },
	{ "mean", RVL_OP_GLOBAL_AVERAGE_POOL, RVL_TYPE_F32, IMAGE, CHANNELS, PLAIN, PLAIN, { 0 } },
	{ "mean of bytes", RVL_OP_Q_GLOBAL_AVERAGE_POOL, RVL_TYPE_U8, IMAGE, CHANNELS, PLAIN, PLAIN,
	  { 0 } },
	{ "mean of pixels", RVL_OP_Q_GLOBAL_AVERAGE_POOL, RVL_TYPE_U8, MANY, MANY_CHANNELS, NHWC, PLAIN,
	  { 0 } },
};

static struct rvl_kernel_arg operand(const struct split_case *c, struct rvl_shape s,
				     enum rivulet_layout layout)
{
	struct rvl_kernel_arg a = { .type = c->type, .shape = s, .layout = layout };

	if (c->type != RVL_TYPE_F32)
		a.quant = (struct rvl_kernel_quant) { .n = 1, .scale = scale, .zp = zero };
	return a;
}

static size_t bytes_of(const struct split_case *c, const struct rvl_shape *s)
{
	return (size_t)rvl_shape_count(s) * rvl_type_size(c->type);
}

/* Bytes of all values; floats that are finite and whose sums are rounded. */
static void *input(const struct split_case *c)
{
	int64_t n = rvl_shape_count(&c->x);
	void *x = malloc(bytes_of(c, &c->x));
	uint32_t seed = 1;

	for (int64_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		if (c->type == RVL_TYPE_F32)
			((float *)x)[i] = (float)(int32_t)seed * 1e-7f;
		else
			((uint8_t *)x)[i] = (uint8_t)(seed >> 24);
	}
	return x;
}

START_TEST(threads_share_one_image)
{
	const struct split_case *c = &cases[_i];
	struct rvl_pool pool = { .parallel = backwards };
	struct rvl_kernel_desc d = {
		.op = c->op, .n_in = 1, .n_out = 1, .in = { operand(c, c->x, c->x_layout) },
		.out = { operand(c, c->y, c->y_layout) },
	};
	size_t size = bytes_of(c, &c->y);
	void *x = input(c), *one = malloc(size), *many = malloc(size);
	char why[RVL_WHY_MAX] = "";
	struct rvl_kernel *k;

	rvl_attr_init(&d.attr);
	memcpy(d.attr.perm, c->perm, sizeof(c->perm));
	d.attr.perm_rank = 4;
	d.attr.block = 32;
	ck_assert_msg(!rvl_kernel_new(&d, false, &k, why), "%s: %s", c->name, why);
	ck_assert_uint_eq(rvl_kernel_scratch(k), 0);
	memset(one, 0x5a, size);
	ck_assert(!rvl_kernel_run(k, (const void *const[]) { x }, (void *const[]) { one }, NULL, NULL));
	for (pool.threads = 2; pool.threads < 9; pool.threads += 3) {
		memset(many, 0xa5, size);
		pieces = 0;
		ck_assert(!rvl_kernel_run(k, (const void *const[]) { x }, (void *const[]) { many },
					  NULL, &pool));
		ck_assert_msg(pieces > 1, "%s: %u pieces for %u threads", c->name, pieces,
			      pool.threads);
		ck_assert_msg(!memcmp(one, many, size), "%s: another result with %u threads", c->name,
			      pool.threads);
	}
	rvl_kernel_free(k);
	free(x);
	free(one);
	free(many);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("split");
	TCase *t = add_case(s, "all", 20, NULL, NULL);

	tcase_add_loop_test(t, threads_share_one_image, 0, sizeof(cases) / sizeof(cases[0]));
	return run_suite(s);
}

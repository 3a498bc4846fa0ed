/* SPDX-License-Identifier: MIT */
/*
 * The binary mode: layers on bits run on the array with the results of the interpreter bit for bit,
 * and the bits of a result are written beside it.
 */
#include <check.h>

#include "mode_rig.h"
#include "npu/layer.h"
#include "pass/pass.h"
#include "pass/passes.h"
#include "qbinary.h"
#include "rivulet_isa.h"
#include "suite.h"

static struct rivulet_board board;

static struct qb_conv plain_binary(int64_t c, int64_t m, int64_t k)
{
	return (struct qb_conv){ .c = c, .m = m, .kh = k, .kw = k,
				 .pad = { k / 2, k / 2, k / 2, k / 2 }, .type = RVL_TYPE_U8 };
}

static bool is_binary(const struct rivulet_explain *e, const char *node)
{
	return strstr(row_of(e, node)->reason, " tap") && strstr(row_of(e, node)->reason, "binary: ");
}

/* As int8 products of +1 and -1, because that takes fewer cycles. */
static bool is_dense(const struct rivulet_explain *e, const char *node)
{
	return strstr(row_of(e, node)->reason, "dense: int8 products");
}

/* Of thousands of layers most are small; each is computed product by product, too. */
#define SMALL_FROM 1000

/* Whether the CPU computes on bits. */
static bool cpu_bits(const struct rivulet_explain *e)
{
	for (uint32_t i = 0; i < e->n_rows; i++)
		if (!strcmp(e->rows[i].where, "cpu") && strstr(e->rows[i].reason, "binary: "))
			return true;
	return false;
}

/* All but what makes floats for the caller, and the order of the image that it reads. */
static bool all_on_npu(const struct rivulet_explain *e)
{
	for (uint32_t i = 0; i < e->n_rows; i++)
		if (!strcmp(e->rows[i].where, "cpu") && strcmp(e->rows[i].op, "Reorder") &&
		    strcmp(e->rows[i].op, "DequantizeLinear"))
			return false;
	return true;
}

static struct rvl_tensor *random_input(struct qg *q, uint64_t seed, int64_t channels)
{
	bool small = seed >= SMALL_FROM;
	struct rvl_shape s = { 4, { qg_range(q, 1, 2), channels, qg_range(q, 4, small ? 8 : 15),
				    qg_range(q, 4, small ? 9 : 20) } };
	struct rvl_tensor *x = qg_tensor(q, "x", qg_range(q, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8, s, 0.02f, 3);

	qg_input(q, x);
	return x;
}

static struct qb_conv random_conv(struct qg *q, int64_t c, int64_t m)
{
	struct qb_conv b = plain_binary(c, m, qg_range(q, 1, 4));

	b.kw = qg_range(q, 1, 5);
	b.sy = qg_range(q, 1, 3);
	b.sx = qg_range(q, 1, 3);
	b.dy = b.kh < 3 ? qg_range(q, 1, 2) : 1;
	b.dx = b.kw < 3 ? qg_range(q, 1, 2) : 1;
	for (int i = 0; i < 4; i++)
		b.pad[i] = qg_range(q, 0, 2);
	b.padding = (int32_t)qg_range(q, -1, 1);
	b.type = qg_range(q, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
	b.prelu = qg_range(q, 0, 1);
	b.relu = qg_range(q, 0, 1);
	return b;
}

/* A sign and a layer of any shape. */
static void single(struct qg *q, uint64_t seed)
{
	struct qb_conv c;
	struct rvl_tensor *x;

	qg_open(q, seed);
	x = random_input(q, seed, qg_range(q, 0, 1) ? 64 * qg_range(q, 1, 4) : qg_range(q, 1, 270));
	c = random_conv(q, x->shape.dim[1], qg_range(q, 1, 100));
	if (x->shape.dim[3] + c.pad[1] + c.pad[3] < c.kw) /* the window fits */
		c.pad[1] = 2;
	if (qg_range(q, 0, 3) == 0) { /* groups of whole rows of the array, on any channels */
		c.group = qg_range(q, 2, 4);
		c.c = x->shape.dim[1] -= x->shape.dim[1] % c.group;
		c.m = c.group * 16 * qg_range(q, 1, 3);
	}
	if (!c.c)
		c.c = x->shape.dim[1] = c.group;
	qg_output(q, qb_conv(q, "layer", qb_sign(q, "sign", x), &c, NULL));
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

/* Residual layers: each has the image and its bits as results, and the image before as shortcut. */
static void residual(struct qg *q, uint64_t seed)
{
	int64_t channels;
	struct rvl_tensor *x, *bits;
	struct qb_conv c;

	qg_open(q, seed);
	channels = qg_range(q, 0, 1) ? 64 * qg_range(q, 1, 3) : qg_range(q, 1, 200);
	x = random_input(q, seed, channels);
	c = plain_binary(channels, channels, 3);
	c.shortcut = x;
	c.bits = true;
	x = qb_conv(q, "layer", qb_sign(q, "sign", x), &c, &bits);
	c.shortcut = x;
	c.prelu = qg_range(q, 0, 1);
	c.type = RVL_TYPE_S8;
	x = qb_conv(q, "second", bits, &c, &bits);
	c = plain_binary(channels, qg_range(q, 1, 40), qg_range(q, 1, 3));
	c.sy = c.sx = 2;
	qg_output(q, qb_conv(q, "last", bits, &c, NULL));
	if (qg_range(q, 0, 1)) {
		struct qg_conv after = plain_conv(20, 1);

		q->g->n_outputs = 0;
		qg_output(q, qg_conv(q, "after", x, &after));
	}
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

/* Layers that give bits alone, as in a network without residuals; some are read from memory. */
static void chain(struct qg *q, uint64_t seed)
{
	struct rvl_tensor *x;
	struct qb_conv c;

	qg_open(q, seed);
	x = qb_sign(q, "sign", random_input(q, seed, 64));
	c = random_conv(q, 64, qg_range(q, 0, 1) ? 64 * qg_range(q, 1, 3) : qg_range(q, 1, 200));
	c.only = true;
	c.prelu = false;
	for (int i = 0; i < 4; i++)
		c.pad[i] = 2;
	x = qb_conv(q, "layer", x, &c, NULL);
	c = plain_binary(c.m, qg_range(q, 1, 70), 3);
	qg_output(q, seed % 3 ? qb_conv(q, "last", x, &c, NULL) : x);
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

/* The sign is a result of the convolution or pool before it, which others read or not. */
static void after_bytes(struct qg *q, uint64_t seed)
{
	struct qg_conv first = plain_conv(32 * (1 + (int64_t)seed % 4), 3);
	struct rvl_tensor *x = open_image(q, seed, 3, 16, 24);
	struct qb_conv c;

	x = qg_conv(q, "first", x, &first);
	if (seed % 3)
		x = qg_max_pool(q, "pool", x, 3, 2, 1);
	c = plain_binary(first.m, first.m, 3);
	c.shortcut = seed % 5 ? x : NULL;
	qg_output(q, qb_conv(q, "layer", qb_sign(q, "sign", x), &c, NULL));
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

/* So few channels that patches of bytes fill the array better than a word of bits. */
static void few(struct qg *q, uint64_t seed)
{
	struct rvl_shape s = { 4, { 1, 0, 20, 24 } };
	struct rvl_tensor *x, *bits;
	struct qb_conv c;

	qg_open(q, seed);
	s.dim[1] = qg_range(q, 1, 3);
	x = qg_tensor(q, "x", seed % 2 ? RVL_TYPE_U8 : RVL_TYPE_S8, s, 0.02f, 3);
	qg_input(q, x);
	c = plain_binary(s.dim[1], 64, 5);
	c.padding = (int32_t)qg_range(q, -1, 1);
	c.prelu = qg_range(q, 0, 1);
	c.bits = seed % 3 == 0;
	c.only = seed % 3 == 1;
	if (c.only)
		c.prelu = false;
	x = qb_conv(q, "layer", qb_sign(q, "sign", x), &c, &bits);
	if (seed % 3 < 2) {
		struct qb_conv last = plain_binary(64, 32, 3);

		x = qb_conv(q, "last", c.only ? x : bits, &last, NULL);
	}
	qg_output(q, x);
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

/* Few channels, and a step of the CPU between the sign and its layer: it makes the shortcut. */
static void few_across_segments(struct qg *q, uint64_t seed)
{
	static const int32_t turned[4] = { 0, 1, 3, 2 };
	struct rvl_shape s = { 4, { 1, 0, 20, 20 } };
	struct rvl_tensor *x, *y, *first;
	struct rvl_node *n;
	struct qg_conv c = plain_conv(0, 1);
	struct qb_conv layer;

	qg_open(q, seed);
	s.dim[1] = qg_range(q, 1, 3);
	c.m = s.dim[1];
	x = qg_tensor(q, "x", RVL_TYPE_U8, s, 0.02f, 3);
	qg_input(q, x);
	first = qg_conv(q, "first", x, &c);
	y = qg_tensor(q, NULL, first->type, s, first->quant.scale[0], first->quant.zp[0]);
	n = qg_node(q, RVL_OP_TRANSPOSE, "turn", 1, &first, y);
	memcpy(n->attr.perm, turned, sizeof(turned));
	n->attr.perm_rank = 4;
	layer = plain_binary(s.dim[1], s.dim[1], 5);
	layer.shortcut = y;
	qg_output(q, qb_conv(q, "layer", qb_sign(q, "sign", first), &layer, NULL));
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

static struct rvl_tensor *pool_bits(struct qg *q, struct rvl_tensor *x, int64_t channels, int64_t k, int64_t s,
				    int64_t pad)
{
	const int64_t *d = x->shape.dim;
	int64_t w = d[2] / qb_words(channels);
	struct rvl_tensor *y = qb_bits(q, d[0], channels, qg_out_dim(d[1], k, s, 1, pad, pad),
				       qg_out_dim(w, k, s, 1, pad, pad));
	struct rvl_node *n = qg_node(q, RVL_OP_B_MAX_POOL, "pool", 1, &x, y);

	if (q->rc)
		return y;
	n->attr.block = (int32_t)channels;
	for (int i = 0; i < 4; i++) {
		n->attr.kernel[i % 2] = (int32_t)k;
		n->attr.stride[i % 2] = (int32_t)s;
		n->attr.pad[i] = (int32_t)pad;
	}
	return y;
}

/* A pool of the bits of an image, which is the input or that of a layer, or of the bits of sums. */
static void pooled(struct qg *q, uint64_t seed)
{
	struct rvl_tensor *x, *bits;
	struct qb_conv c;

	qg_open(q, seed);
	x = random_input(q, seed, qg_range(q, 0, 1) ? 64 : qg_range(q, 1, 100));
	c = plain_binary(x->shape.dim[1], x->shape.dim[1], 3);
	bits = qb_sign(q, "sign", x);
	if (seed % 3 == 1) {
		c.bits = true;
		qb_conv(q, "first", bits, &c, &bits);
		c.bits = false;
	} else if (seed % 3 == 2) {
		c.only = true;
		c.relu = qg_range(q, 0, 1);
		bits = qb_conv(q, "first", bits, &c, NULL);
		c.only = c.relu = false;
	}
	bits = pool_bits(q, bits, c.c, qg_range(q, 2, 3), qg_range(q, 1, 2), qg_range(q, 0, 1));
	qg_output(q, qb_conv(q, "layer", bits, &c, NULL));
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

/* One QRescale of an image to bytes, as another reader of an image of int16 gets them. */
static struct rvl_tensor *narrow(struct qg *q, struct rvl_tensor *x)
{
	enum rvl_type type = qg_range(q, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
	struct rvl_tensor *y = qg_tensor(q, NULL, type, x->shape, 0.0301f, qg_zp(q, type));

	qg_node(q, RVL_OP_Q_RESCALE, "narrow", 1, &x, y);
	return y;
}

static struct rvl_tensor *floats_of(struct qg *q, struct rvl_tensor *x)
{
	const struct rvl_shape one = { 0, { 0 } };
	int16_t zp = (int16_t)x->quant.zp[0];
	struct rvl_tensor *y = qg_float_tensor(q, x->shape);
	struct rvl_tensor *in[3] = { x, qg_const(q, RVL_TYPE_F32, one, x->quant.scale),
				     qg_const(q, RVL_TYPE_S16, one, &zp) };

	qg_node(q, RVL_OP_DEQUANTIZE, "floats", 3, in, y);
	return y;
}

/*
 * Residual layers of int16 from an image of bytes: signs that are the second result of a layer or not,
 * two widths in one addition, another reader that gets bytes, and an image that the CPU reads.
 */
static void wide(struct qg *q, uint64_t seed)
{
	int64_t channels;
	struct rvl_tensor *x, *bits;
	struct qb_conv c;

	qg_open(q, seed);
	channels = qg_range(q, 0, 1) ? 64 * qg_range(q, 1, 3) : qg_range(q, 1, 200);
	x = random_input(q, seed, channels);
	c = plain_binary(channels, channels, 3);
	c.shortcut = x;
	c.bits = seed % 2;
	c.type = RVL_TYPE_S16;
	x = qb_conv(q, "layer", qb_sign(q, "sign", x), &c, &bits);
	if (!c.bits)
		bits = qb_sign(q, "second sign", x);
	c.bits = false;
	c.shortcut = x;
	c.prelu = qg_range(q, 0, 1);
	x = qb_conv(q, "second", bits, &c, NULL);
	if (seed % 3 == 0)
		x = floats_of(q, x);
	if (seed % 3 == 1) {
		struct qg_conv after = plain_conv(20, 1);

		x = qg_conv(q, "after", narrow(q, x), &after);
	}
	if (seed % 3 == 2) {
		c.m = qg_range(q, 1, 40);
		c.shortcut = NULL;
		c.type = RVL_TYPE_U8;
		x = qb_conv(q, "last", qb_sign(q, "last sign", x), &c, NULL);
	}
	qg_output(q, x);
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

/* An image of int16 that one segment of the NPU makes and another reads: the CPU pools its bits. */
static void wide_across_segments(struct qg *q, uint64_t seed)
{
	int64_t channels;
	struct rvl_tensor *x, *bits;
	struct qb_conv c;

	qg_open(q, seed);
	channels = qg_range(q, 1, 100);
	x = random_input(q, seed, channels);
	c = plain_binary(channels, channels, 3);
	c.type = RVL_TYPE_S16;
	x = qb_conv(q, "layer", qb_sign(q, "sign", x), &c, NULL);
	bits = pool_bits(q, qb_sign(q, "second sign", x), channels, 3, 1, 1);
	c.shortcut = x;
	qg_output(q, narrow(q, qb_conv(q, "second", bits, &c, NULL)));
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

/* An image of int16 that is an output, or one of two parts of a Concat. */
static void wide_in_place(struct qg *q, uint64_t seed)
{
	const struct rvl_named_value axis = { "axis", { .given = true, .i = 1 } };
	struct qb_conv c = plain_binary(32, 32, 3);
	struct rvl_tensor *x[2], *y, *bits;
	struct rvl_node *n;

	qg_open(q, seed);
	bits = qb_sign(q, "sign", random_input(q, seed, 32));
	c.type = RVL_TYPE_S16;
	x[0] = y = qb_conv(q, "layer", bits, &c, NULL);
	if (seed % 2 == 0) {
		x[1] = qb_conv(q, "second", bits, &c, NULL);
		x[1]->quant = x[0]->quant;
		y = qg_tensor(q, NULL, RVL_TYPE_S16, y->shape, y->quant.scale[0], y->quant.zp[0]);
		y->shape.dim[1] = 64;
		q->rc = rvl_node_of_role(q->g, rvl_op_find(NULL, "Concat", 13), &axis, 1, y, &n, &q->err);
		for (uint32_t i = 0; i < 2 && !q->rc; i++)
			q->rc = rvl_node_set_in(q->g, n, i, x[i], &q->err);
		y = floats_of(q, y);
	}
	qg_output(q, y);
	ck_assert_msg(!q->rc, "%s", q->err.msg);
}

static const struct {
	void (*build)(struct qg *q, uint64_t seed);
	uint32_t n;
} kinds[] = { { single, 60 }, { residual, 20 }, { chain, 20 }, { after_bytes, 30 }, { pooled, 24 },
	      { wide, 24 }, { few, 12 }, { wide_across_segments, 6 },
	      { few_across_segments, 6 } };

/* Pools of bits of images leave none for the CPU. */
static bool is_taken(const struct rivulet_explain *e, int kind)
{
	if (kinds[kind].build == wide && !all_on_npu(e))
		return false;
	return (is_binary(e, "layer") || is_dense(e, "layer")) && (kinds[kind].build != pooled || !cpu_bits(e));
}

#define KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

/* RVL_BINARY_LAYERS, if set, is the number of single layers. */
static uint32_t count_of(int kind)
{
	const char *more = kind ? NULL : getenv("RVL_BINARY_LAYERS");

	return more ? (uint32_t)strtoul(more, NULL, 10) : (uint32_t)random_cases((int)kinds[kind].n);
}

START_TEST(layers_equal_the_interpreter)
{
	uint32_t taken = 0, n = count_of(_i);

	load_board(&board, "zcu102-binary");
	for (uint64_t seed = 0; seed < n; seed++) {
		struct rivulet_explain e;
		struct qg q;

		kinds[_i].build(&q, seed + 100);
		check(&q, &board, NULL, &e);
		taken += is_taken(&e, _i);
		if (!is_taken(&e, _i))
			fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, row_of(&e, "layer")->reason);
		rivulet_explain_free(&e);
		rvl_graph_free(q.g);
	}
	ck_assert_uint_eq(taken, n);
}
END_TEST

/* Explain says why an image of int16 keeps a layer on the CPU. */
START_TEST(wide_layers_of_the_cpu_have_a_reason)
{
	static const struct {
		void (*build)(struct qg *q, uint64_t seed);
		uint64_t seed;
		const char *node, *why;
	} of[] = {
		{ wide_in_place, 1, "layer", "an input, an output or a constant lies in planes" },
		{ wide_in_place, 2, "layer", "a view or has views lies in planes" },
		{ wide_across_segments, 1, "pool", "pools the bits of an image of int16" },
	};
	struct rivulet_explain e;
	struct qg q;

	load_board(&board, "zcu102-binary");
	of[_i].build(&q, of[_i].seed);
	check(&q, &board, NULL, &e);
	ck_assert_str_eq(row_of(&e, of[_i].node)->where, "cpu");
	ck_assert_msg(strstr(row_of(&e, of[_i].node)->reason, of[_i].why), "%s", row_of(&e, of[_i].node)->reason);
	rivulet_explain_free(&e);
	rvl_graph_free(q.g);
}
END_TEST

/* Bytes are taken for three channels, which fill 3 of 64 bits, and bits for 64. */
START_TEST(the_cheaper_form_is_taken)
{
	load_board(&board, "zcu102-binary");
	for (uint64_t seed = 2; seed < 12; seed += 3) {
		struct rivulet_explain e;
		struct qg q;

		few(&q, seed);
		check(&q, &board, NULL, &e);
		ck_assert_msg(is_dense(&e, "layer"), "seed %d: %s", (int)seed, row_of(&e, "layer")->reason);
		ck_assert(!is_binary(&e, "layer"));
		rivulet_explain_free(&e);
		rvl_graph_free(q.g);
		chain(&q, seed);
		check(&q, &board, NULL, &e);
		ck_assert_msg(is_binary(&e, "layer"), "seed %d: %s", (int)seed, row_of(&e, "layer")->reason);
		rivulet_explain_free(&e);
		rvl_graph_free(q.g);
	}
}
END_TEST

/* Words of INP and of ACC of other numbers of channels: arrays that are no board's, with bits. */
START_TEST(other_arrays_equal_the_interpreter)
{
	static const char *const names[] = { "zu3eg-128", "zu3eg-256" };

	load_board(&board, names[_i % 2]);
	board.modes |= 1u << RIVULET_MODE_BINARY;
	for (uint64_t seed = 0; seed < (uint64_t)random_cases(6); seed++) {
		struct rivulet_explain e;
		struct qg q;

		(_i < 2 ? residual : wide)(&q, seed + 300);
		check(&q, &board, NULL, &e);
		ck_assert(is_binary(&e, "layer"));
		rivulet_explain_free(&e);
		rvl_graph_free(q.g);
	}
}
END_TEST

static struct rvl_tensor *plain_bytes(struct qg *q, const struct rvl_tensor *like)
{
	struct rvl_tensor *t = qg_float_tensor(q, like->shape);

	t->type = RVL_TYPE_U8;
	return t;
}

START_TEST(boards_keep_layers_in_int8)
{
	load_board(&board, "zcu102-binary");
	ck_assert_ptr_null(rvl_binary_keeps_int8(&board, 40, 1));
	ck_assert_ptr_null(rvl_binary_keeps_int8(&board, 2 * board.tm, 2));
	ck_assert_ptr_nonnull(strstr(rvl_binary_keeps_int8(&board, 40, 40), "rows"));
	load_board(&board, "zu3eg-64");
	ck_assert_ptr_nonnull(strstr(rvl_binary_keeps_int8(&board, 40, 1), "no binary mode"));
}
END_TEST

/*
 * Quantisation around a sign and a layer with a shortcut goes into them: the bits of the sign are
 * equal for every byte, also where the value of a byte is the threshold; the layer computes in steps
 * of its result and so may differ by one.
 */
START_TEST(takes_quantisation_in)
{
	struct rvl_tensor *x, *f, *bits, *y;
	struct qb_conv c = plain_binary(64, 64, 3);
	uint8_t *in, want[64 * 5 * 6], got[64 * 5 * 6];
	uint64_t *words;
	struct qg q;

	qg_open(&q, 77 + (uint64_t)_i);
	x = qg_float_tensor(&q, (struct rvl_shape){ 4, { 1, 64, 5, 6 } });
	x->type = RVL_TYPE_U8;
	qg_input(&q, x);
	f = qg_convert(&q, RVL_OP_DEQUANTIZE, x, qg_float_tensor(&q, x->shape), 1.0f / 128, 120);
	bits = qb_sign(&q, "sign", f);
	c.type = RVL_TYPE_F32;
	c.shortcut = f;
	y = qb_conv(&q, "layer", bits, &c, NULL);
	y = qg_convert(&q, RVL_OP_QUANTIZE, y, plain_bytes(&q, y), 0.05f, 100);
	qg_output(&q, y);
	qg_output(&q, bits);
	ck_assert_msg(!q.rc, "%s", q.err.msg);
	in = bytes_of(x);
	words = calloc(2 * 30, sizeof(*words));
	fill(&q, in);
	for (int after = 0; after < 2; after++) {
		struct rvl_interp *it;

		ck_assert_msg(!after || !rvl_optimise(q.g, &q.err), "%s", q.err.msg);
		ck_assert(!rvl_interp_new(q.g, true, &it, &q.err));
		ck_assert(!rvl_interp_set(it, 0, in, sizeof(want), NULL));
		ck_assert(!rvl_interp_run(it, &q.err));
		memcpy(after ? got : want, rvl_interp_data(it, q.g->outputs[0]), sizeof(want));
		memcpy(words + 30 * after, rvl_interp_data(it, q.g->outputs[1]), 30 * sizeof(*words));
		rvl_interp_free(it);
	}
	ck_assert_mem_eq(words, words + 30, 30 * sizeof(*words));
	for (size_t i = 0; i < sizeof(want); i++)
		ck_assert_int_le(abs(want[i] - got[i]), 1);
	ck_assert_uint_eq(q.g->n_nodes, 2);
	ck_assert_int_eq(q.g->outputs[0]->producer->op, RVL_OP_B_CONV);
	ck_assert_ptr_eq(q.g->outputs[0]->producer->in[5], q.g->inputs[0]);
	free(in);
	free(words);
	rvl_graph_free(q.g);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mode_binary");
	TCase *t = add_case(s, "binary", 3000, NULL, NULL);

	tcase_add_loop_test(t, layers_equal_the_interpreter, 0, KINDS);
	tcase_add_loop_test(t, wide_layers_of_the_cpu_have_a_reason, 0, 3);
	tcase_add_test(t, the_cheaper_form_is_taken);
	tcase_add_loop_test(t, other_arrays_equal_the_interpreter, 0, 4);
	tcase_add_test(t, boards_keep_layers_in_int8);
	tcase_add_loop_test(t, takes_quantisation_in, 0, 5);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/*
 * The sparse mode: weights with zeros are packed as (value, index) pairs without being told, results
 * are those of the dense mode bit for bit, and the mode is taken where it is faster.
 */
#include <check.h>

#include "mode_rig.h"
#include "rivulet_isa.h"
#include "suite.h"

static const char *const names[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256" };

#define BOARDS 3

static struct rivulet_board board;

/* Of every @unit channels of a row and tap of the weights of @y, sets all but @kept to zero. */
static void prune(struct qg *q, struct rvl_tensor *y, int64_t unit, int64_t kept)
{
	struct rvl_tensor *w = y->producer->in[1];
	const int64_t *d = w->shape.dim;
	int64_t taps = d[2] * d[3];
	uint8_t *data = (uint8_t *)w->data;

	for (int64_t row = 0; row < d[0] * taps; row++) {
		for (int64_t c = 0; c < d[1]; c += unit) {
			int64_t left = rvl_min(unit, d[1] - c), keep = kept;

			for (int64_t i = c; i < rvl_min(c + unit, d[1]); i++, left--) {
				bool stays = qg_range(q, 0, left - 1) < keep;

				keep -= stays;
				if (!stays)
					data[row / taps * d[1] * taps + i * taps + row % taps] =
						w->quant.zp[0];
			}
		}
	}
}

/* Any convolution, grouped or not, with weights of any zero point. */
static struct qg_conv any_conv(struct qg *q, int64_t channels)
{
	struct qg_conv c = plain_conv(qg_range(q, 1, 70), qg_range(q, 1, 3));

	c.kw = qg_range(q, 1, 5);
	c.sy = qg_range(q, 1, 2);
	c.sx = qg_range(q, 1, 2);
	c.dy = qg_range(q, 1, 2);
	c.wtype = qg_range(q, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
	c.wzp = qg_range(q, 0, 1) ? qg_zp(q, c.wtype) : 0;
	c.relu = qg_range(q, 0, 1);
	c.per_channel = !c.wzp && qg_range(q, 0, 1);
	if (!qg_range(q, 0, 4))
		c.group = c.m = channels;
	else if (!qg_range(q, 0, 3) && channels % 4 == 0)
		c.m = (c.group = channels / 4) * qg_range(q, 1, 3);
	for (int i = 0; i < 4; i++)
		c.pad[i] = qg_range(q, 0, 2);
	return c;
}

/* Two layers; at most @kept of 16 weights of the first are not zero. */
static void random_layers(struct qg *q, uint64_t seed)
{
	int64_t channels = 0;
	struct rvl_tensor *x, *y;
	struct qg_conv c;

	qg_open(q, seed);
	channels = qg_range(q, 1, 90);
	x = qg_tensor(q, "x", RVL_TYPE_U8,
		      (struct rvl_shape){ 4, { qg_range(q, 1, 2), channels, qg_range(q, 3, 14),
					       qg_range(q, 6, 14) } }, 0.02f, qg_range(q, 0, 255));
	qg_input(q, x);
	c = any_conv(q, channels);
	y = qg_conv(q, "first", x, &c);
	ck_assert_msg(!q->rc, "%s", q->err.msg);
	prune(q, y, 16, qg_range(q, 0, 9));
	c = plain_conv(20, 1);
	y = qg_conv(q, "second", y, &c);
	ck_assert_msg(!q->rc, "%s", q->err.msg);
	prune(q, y, 16, 4);
	qg_output(q, y);
}

static bool is_sparse(const struct rivulet_explain *e)
{
	return reason_has(e, "conv", "sparse");
}

START_TEST(random_layers_equal_the_interpreter)
{
	load_board(&board, names[_i]);
	ck_assert_uint_ge(check_random(&board, NULL, random_layers, 1000, 60, "first", "sparse"), random_cases(20));
}
END_TEST

/* Four of sixteen is eight of thirty-two: one pass on each board, a quarter of the dense products. */
START_TEST(one_model_for_all_boards)
{
	const struct rivulet_compile_options off = { .without_modes = 1u << RIVULET_MODE_SPARSE };
	struct qg_conv c = plain_conv(64, 3);
	struct rivulet_explain sparse, dense;
	struct rvl_tensor *y;
	struct qg q;

	load_board(&board, names[_i]);
	y = qg_conv(&q, "conv", open_image(&q, 5, 64, 28, 28), &c);
	prune(&q, y, 16, 4);
	qg_output(&q, y);
	check(&q, &board, NULL, &sparse);
	check(&q, &board, &off, &dense);
	ck_assert(is_sparse(&sparse) && !is_sparse(&dense));
	ck_assert_uint_eq(4 * row_of(&sparse, "conv")->array_macs, row_of(&dense, "conv")->array_macs);
	ck_assert_uint_ge(row_of(&dense, "conv")->cycles, 3 * row_of(&sparse, "conv")->cycles);
	ck_assert_uint_lt(row_of(&sparse, "conv")->read_bytes, row_of(&dense, "conv")->read_bytes);
	ck_assert(sparse.level[0].joule < dense.level[0].joule);
	rivulet_explain_free(&sparse);
	rivulet_explain_free(&dense);
	rvl_graph_free(q.g);
}
END_TEST

/* One weight too many in one row of the layer makes another pass of all blocks. */
START_TEST(fullest_row_decides)
{
	static const struct {
		int64_t kept;
		uint32_t passes; /* of the four of a dense block */
	} cases[] = { { 1, 1 }, { 4, 1 }, { 5, 2 }, { 8, 2 }, { 12, 3 }, { 13, 4 }, { 16, 4 } };
	struct qg_conv c = plain_conv(64, 1);

	load_board(&board, "zu3eg-64");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rivulet_explain e;
		struct rvl_tensor *y;
		struct qg q;

		y = qg_conv(&q, "conv", open_image(&q, i, 64, 28, 28), &c);
		prune(&q, y, 16, cases[i].kept < 4 ? 1 : 4);
		for (int64_t n = 0; n < 16; n++) /* the last block of the last row */
			((int8_t *)y->producer->in[1]->data)[63 * 64 + 48 + n] =
				n < cases[i].kept ? n + 1 : 0;
		qg_output(&q, y);
		check(&q, &board, NULL, &e);
		ck_assert_int_eq(is_sparse(&e), cases[i].passes < 4);
		ck_assert_uint_eq(row_of(&e, "conv")->array_macs,
				  row_of(&e, "conv")->macs * cases[i].passes / 4);
		rivulet_explain_free(&e);
		rvl_graph_free(q.g);
	}
}
END_TEST

/*
 * The last block of the input channels has passes of its own, although all weights of the layer
 * are not zero: 24 channels are a dense block of 16 and half a block. The last block keeps 11 pairs where
 * each patch of 3 x 3 x 3 is gathered; they take more bytes than the dense block.
 */
START_TEST(tail_has_fewer_passes)
{
	static const struct {
		int64_t channels, kernel;
		uint32_t passes; /* of all blocks and taps */
	} cases[] = { { 24, 1, 6 },  { 24, 3, 54 }, { 36, 1, 9 },
		      { 44, 1, 11 }, { 3, 3, 7 },   { 16, 1, 4 } };

	load_board(&board, "zu3eg-64");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct qg_conv c = plain_conv(64, cases[i].kernel);
		struct rivulet_explain e;
		struct qg q;

		qg_output(&q, qg_conv(&q, "conv", open_image(&q, i, cases[i].channels, 28, 28),
				      &c));
		check(&q, &board, NULL, &e);
		ck_assert_int_eq(is_sparse(&e), cases[i].channels != 16);
		ck_assert_uint_eq(row_of(&e, "conv")->array_macs,
				  UINT64_C(28) * 28 * 64 * board.dn * cases[i].passes);
		rivulet_explain_free(&e);
		rvl_graph_free(q.g);
	}
}
END_TEST

/* A diagonal block has one weight in each row, which is the fastest without tap lanes. */
START_TEST(depthwise_is_sparse)
{
	const struct rivulet_compile_options off = { .without_modes = 1u << RIVULET_MODE_TAPS };
	struct qg_conv c = plain_conv(96, 3);
	struct rivulet_explain e;
	struct qg q;

	load_board(&board, names[_i]);
	c.group = 96;
	qg_output(&q, qg_conv(&q, "conv", open_image(&q, 6, 96, 28, 28), &c));
	check(&q, &board, &off, &e);
	ck_assert(is_sparse(&e));
	ck_assert_uint_eq(row_of(&e, "conv")->array_macs,
			  row_of(&e, "conv")->macs * (board.dn * (board.tm / board.tn)));
	rivulet_explain_free(&e);
	rvl_graph_free(q.g);
}
END_TEST

/* Consumes the graph, whose output is @y. A layer "conv" is sparse. */
static void check_sparse(struct qg *q, struct rvl_tensor *y)
{
	struct rivulet_explain e;

	qg_output(q, y);
	check(q, &board, NULL, &e);
	ck_assert(is_sparse(&e));
	rivulet_explain_free(&e);
	rvl_graph_free(q->g);
}

/*
 * Weights that load early take the words of WGT that are free. Where these are odd in number, the blocks of the
 * next layer begin at an even word all the same: those of two words have to.
 */
START_TEST(blocks_behind_early_weights)
{
	struct qg_conv window = { .m = 192, .kh = 8, .kw = 8, .bias = true, .wscale = 0.005f, .yscale = 0.05f,
				  .wtype = RVL_TYPE_S8, .ytype = RVL_TYPE_U8 };
	struct qg_conv conv = plain_conv(32, 3), product = plain_conv(64, 1);
	struct rvl_tensor *x;
	struct qg q;

	load_board(&board, "zu3eg-256");
	board.wgt_bytes = board.wgt_bytes / 2 + RIVULET_WGT_WORD;
	x = qg_conv(&q, NULL, open_image(&q, 9, 16, 8, 8), &conv);
	x = qg_conv(&q, NULL, x, &window);
	x = qg_conv(&q, "conv", x, &product);
	prune(&q, x, 16, 2);
	check_sparse(&q, x);
}
END_TEST

static struct rvl_tensor *sigmoid(struct qg *q, struct rvl_tensor *x)
{
	static const struct rvl_attr_value none[RVL_MAX_ATTRS];
	struct rvl_tensor *y = qg_tensor(q, NULL, RVL_TYPE_U8, x->shape, 1.0f / 256, 0);
	struct rvl_node *n = qg_node(q, RVL_OP_Q_TABLE, NULL, 1, &x, y);

	n->def = rvl_op_find(NULL, "Sigmoid", 13);
	n->value = none;
	return y;
}

/*
 * Arrays whose words of INP are no power of two bytes: blocks begin at every third, fifth or seventh word of
 * WGT. The tables between the weights of the layers have 16 words.
 */
START_TEST(blocks_behind_tables)
{
	static const uint32_t sizes[][3] = {
		{ 12, 12, 4 }, { 24, 24, 8 }, { 48, 24, 12 }, { 40, 20, 4 }, { 28, 28, 4 }, { 36, 36, 12 },
	};
	const struct qg_conv conv = plain_conv(40, 3);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct rvl_tensor *x;
		struct qg q;

		load_board(&board, "zu3eg-64");
		board.tm = sizes[i][0];
		board.tn = sizes[i][1];
		board.dn = sizes[i][2];
		x = sigmoid(&q, qg_conv(&q, NULL, open_image(&q, 20 + i, 8, 20, 20), &conv));
		for (int k = 0; k < 3; k++) {
			x = qg_conv(&q, k < 2 ? NULL : "conv", x, &conv);
			prune(&q, x, board.tn, board.dn / 2);
			x = sigmoid(&q, x);
		}
		check_sparse(&q, x);
	}
}
END_TEST

/* Consumes the graph. */
static const struct rivulet_program *compile_for(struct qg *q, struct rivulet_blob *out)
{
	struct rvl_err err = { "" };

	ck_assert_msg(!rvl_compile_graph(q->g, &board, NULL, out, NULL, &err), "%s", err.msg);
	return (const void *)out->data;
}

START_TEST(device_without_the_engine_refuses_the_program)
{
	struct qg_conv c = plain_conv(64, 3);
	struct rivulet_target without;
	struct rivulet_blob out = { 0 };
	struct rvl_tensor *y;
	char err[256] = "";
	struct qg q;

	load_board(&board, "zu3eg-64");
	y = qg_conv(&q, "conv", open_image(&q, 7, 64, 28, 28), &c);
	prune(&q, y, 16, 4);
	qg_output(&q, y);
	rivulet_target_of(&board, &without);
	without.modes = 1 << RIVULET_MODE_DENSE;
	ck_assert_int_eq(rivulet_program_fits(compile_for(&q, &out), &without, err, sizeof(err)),
			 -ENOEXEC);
	ck_assert_str_eq(err, "the program was compiled for CONV modes 2; the device has 1");
	rivulet_blob_free(&out);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sparse");
	TCase *t = add_case(s, "sparse", 300, NULL, NULL);

	tcase_add_loop_test(t, random_layers_equal_the_interpreter, 0, BOARDS);
	tcase_add_loop_test(t, one_model_for_all_boards, 0, BOARDS);
	tcase_add_test(t, fullest_row_decides);
	tcase_add_test(t, tail_has_fewer_passes);
	tcase_add_loop_test(t, depthwise_is_sparse, 0, BOARDS);
	tcase_add_test(t, blocks_behind_early_weights);
	tcase_add_test(t, blocks_behind_tables);
	tcase_add_test(t, device_without_the_engine_refuses_the_program);
	return run_suite(s);
}

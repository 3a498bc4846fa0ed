/* SPDX-License-Identifier: MIT */
/* What the planner of the NPU chooses by cost, and that results stay the same bits. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>

#include "bench/nets.h"
#include "files.h"
#include "graph/interp.h"
#include "prog_exec.h"
#include "program/program.h"
#include "suite.h"

static struct rivulet_board board;

static void setup(void)
{
	char err[256];

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", err, sizeof(err)), "%s", err);
}

static void *bytes_of(const struct rvl_tensor *t)
{
	void *p = calloc(1, rvl_tensor_bytes(t));

	ck_assert_ptr_nonnull(p);
	return p;
}

struct io {
	void *data[8];
};

/* Random inputs, and the outputs of the scalar reference. */
static void interpret(struct qg *q, struct io *io)
{
	struct rvl_interp *it;

	ck_assert_msg(!q->rc && !rvl_shape_infer(q->g, &q->err), "%s", q->err.msg);
	ck_assert_msg(!rvl_interp_new(q->g, true, &it, &q->err), "%s", q->err.msg);
	for (uint32_t i = 0; i < q->g->n_inputs; i++) {
		size_t size = rvl_tensor_bytes(q->g->inputs[i]);

		io->data[i] = bytes_of(q->g->inputs[i]);
		for (size_t j = 0; j < size; j++)
			((uint8_t *)io->data[i])[j] = qg_random(q);
		ck_assert(!rvl_interp_set(it, i, io->data[i], size, NULL));
	}
	ck_assert_msg(!rvl_interp_run(it, &q->err), "%s", q->err.msg);
	for (uint32_t i = 0; i < q->g->n_outputs; i++) {
		io->data[q->g->n_inputs + i] = bytes_of(q->g->outputs[i]);
		memcpy(io->data[q->g->n_inputs + i], rvl_interp_data(it, q->g->outputs[i]),
		       rvl_tensor_bytes(q->g->outputs[i]));
	}
	rvl_interp_free(it);
}

/* Compiles a copy of the graph, runs it and compares its outputs; @e is the caller's to free. */
static void run(const struct qg *q, const struct rivulet_compile_options *opt, const struct io *io,
		struct rivulet_explain *e)
{
	uint32_t ins = q->g->n_inputs;
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	struct rvl_graph *g;
	struct prog_exec x;

	ck_assert(!rvl_graph_clone(q->g, &g, &err));
	ck_assert_msg(!rvl_compile_graph(g, &board, opt, &program, e, &err), "%s", err.msg);
	ck_assert(!prog_open(&x, &board, NULL, program.data));
	for (uint32_t i = 0; i < ins; i++)
		x.io[i] = io->data[i];
	for (uint32_t i = 0; i < q->g->n_outputs; i++)
		x.io[ins + i] = bytes_of(q->g->outputs[i]);
	ck_assert_msg(!prog_run(&x), "%s", x.err);
	for (uint32_t i = 0; i < q->g->n_outputs; i++) {
		ck_assert_mem_eq(x.io[ins + i], io->data[ins + i],
				 rvl_tensor_bytes(q->g->outputs[i]));
		free(x.io[ins + i]);
	}
	prog_close(&x, true);
	rivulet_blob_free(&program);
}

static void finish_test(struct qg *q, struct io *io)
{
	for (uint32_t i = 0; i < q->g->n_inputs + q->g->n_outputs; i++)
		free(io->data[i]);
	rvl_graph_free(q->g);
}

static uint64_t cycles_of(const struct rivulet_explain *e)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < e->n_segments; i++)
		sum += e->segments[i].cycles;
	return sum;
}

/*
 * The sum of two inputs moves PLAIN bytes only. As one row of words they take bursts of 256 bytes;
 * by rows of channels, each of 28 bytes would be a burst of its own.
 */
START_TEST(plain_bytes_move_in_long_bursts)
{
	struct rvl_shape s = { 4, { 1, 64, 28, 28 } };
	uint64_t beats = 3 * 64 * 28 * 28 / 16;
	struct rvl_tensor *in[2], *y;
	struct rivulet_explain e;
	struct io io = { 0 };
	struct qg q;

	qg_open(&q, 5);
	for (int i = 0; i < 2; i++) {
		in[i] = qg_tensor(&q, i ? "b" : "a", RVL_TYPE_U8, s, 0.02f, 100 + i);
		qg_input(&q, in[i]);
	}
	y = qg_tensor(&q, NULL, RVL_TYPE_U8, s, 0.03f, 90);
	qg_node(&q, RVL_OP_Q_ADD, "sum", 2, in, y);
	qg_output(&q, y);
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	ck_assert_uint_eq(e.n_segments, 1);
	ck_assert_uint_lt(cycles_of(&e), 2 * beats);
	ck_assert_str_eq(e.rows[0].out, "1x64x28x28");
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/* The halves of a split that a join takes unchanged are copied, and these copies cost little. */
START_TEST(views_cost_few_cycles)
{
	uint64_t cycles[2];

	for (int views = 0; views < 2; views++) {
		const struct rivulet_compile_options opt = { .no_views = !views };
		struct rivulet_explain e;
		struct rvl_err err = { "" };

		ck_assert_msg(!rvl_compile_graph(make_shufflenet(), &board, &opt, NULL, &e, &err),
			      "%s", err.msg);
		cycles[views] = cycles_of(&e);
		rivulet_explain_free(&e);
	}
	ck_assert_uint_lt(cycles[1] * 100, cycles[0] * 102);
}
END_TEST

/* A chain of convolutions with many weights for few pixels. */
static void make_chain(struct qg *q, uint64_t seed)
{
	struct rvl_tensor *x;

	qg_open(q, seed);
	x = qg_tensor(q, "x", RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, 32, 4, 4 } }, 0.02f, 100);
	qg_input(q, x);
	for (int i = 0; i < 6; i++)
		x = conv(q, x, qg_range(q, 2, 16) * 16, qg_range(q, 0, 1) ? 3 : 1, 1, 1);
	qg_output(q, x);
}

/* Where weights load first: their offset in the program, and the CONV instructions before them. */
struct first_loads {
	uint32_t n, convs;
	uint64_t bytes;
	struct { uint64_t offset, past; uint32_t convs; } load[4096];
};

static void note_load(struct first_loads *f, uint64_t offset, uint64_t bytes)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->load[i].offset == offset)
			return;
	ck_assert_uint_lt(f->n, 4096);
	f->load[f->n].offset = offset;
	f->load[f->n].past = offset + bytes;
	f->load[f->n++].convs = f->convs;
	f->bytes += bytes;
}

/* The loads of weights in the only step of the graph's program. */
static void find_loads(const struct qg *q, const struct rivulet_compile_options *opt,
		       struct first_loads *f)
{
	struct rivulet_blob program = { 0 };
	const struct rivulet_step_variant *v;
	const struct rivulet_insn *in;
	struct rvl_err err = { "" };
	struct rivulet_decoded d;
	struct rvl_graph *g;

	f->n = f->convs = 0;
	f->bytes = 0;
	ck_assert(!rvl_graph_clone(q->g, &g, &err));
	ck_assert_msg(!rvl_compile_graph(g, &board, opt, &program, NULL, &err), "%s", err.msg);
	ck_assert_uint_eq(((const struct rivulet_program *)program.data)->steps, 1);
	v = &rivulet_program_steps(program.data)->variant[0];
	in = (const void *)((const char *)program.data + v->offset);
	for (uint32_t i = 0; i < v->length / sizeof(*in); i++) {
		ck_assert_int_eq(rivulet_decode(&in[i], &d), 0);
		f->convs += d.form == RIVULET_FORM_conv;
		if (d.form == RIVULET_FORM_load && d.load.mem == RIVULET_MEM_WGT)
			note_load(f, d.load.offset, d.load.cols * RIVULET_WGT_WORD);
	}
	rivulet_blob_free(&program);
}

/*
 * Proves that the weights of at least @layers layers load before CONV instructions of the layer
 * before, which they follow without it, and that no weights load later.
 */
static void load_earlier(const struct qg *q, const struct rivulet_compile_options *on,
			 const struct rivulet_compile_options *off, uint32_t layers)
{
	static struct first_loads with, without;
	uint32_t earlier = 0;

	find_loads(q, on, &with);
	find_loads(q, off, &without);
	ck_assert_uint_eq(with.convs, without.convs);
	ck_assert_uint_eq(with.bytes, without.bytes);
	for (uint32_t i = 0; i < with.n; i++) {
		uint32_t j = 0;

		/* of a load, what comes first can be a load of its own */
		while (j < without.n && (with.load[i].offset < without.load[j].offset ||
					 with.load[i].offset >= without.load[j].past))
			j++;
		ck_assert_uint_lt(j, without.n);
		ck_assert_uint_le(with.load[i].convs, without.load[j].convs);
		earlier += with.load[i].convs < without.load[j].convs;
	}
	ck_assert_uint_ge(earlier, layers);
	ck_assert(layers || !earlier);
}

/*
 * Weights that load before the last tiles of the layer before: the same bits, in fewer cycles. The
 * layers of a cascade load their weights at the same time, so there is none here.
 */
START_TEST(weights_load_ahead)
{
	const struct rivulet_compile_options on = { .no_cascade = true };
	const struct rivulet_compile_options off = { .no_cascade = true, .no_prefetch = true };
	uint32_t layers = 0;
	char err[256];

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-256", err, sizeof(err)), "%s", err);
	for (uint64_t seed = 0; seed < (uint64_t)random_cases(80); seed++) {
		struct rivulet_explain e;
		uint64_t cycles[2];
		struct io io = { 0 };
		uint32_t n = 0;
		struct qg q;

		make_chain(&q, seed);
		interpret(&q, &io);
		for (int i = 0; i < 2; i++) {
			run(&q, i ? &on : &off, &io, &e);
			ck_assert_uint_eq(e.n_segments, 1);
			cycles[i] = cycles_of(&e);
			n = e.prefetches;
			ck_assert(i || !n);
			rivulet_explain_free(&e);
		}
		ck_assert_msg(n ? cycles[1] < cycles[0] : cycles[1] == cycles[0],
			      "seed %" PRIu64 ": %" PRIu64 " cycles in place of %" PRIu64, seed,
			      cycles[1], cycles[0]);
		load_earlier(&q, &on, &off, n);
		layers += n;
		finish_test(&q, &io);
	}
	ck_assert_uint_ge(layers, 3);
}
END_TEST

/* Convolutions that keep the array busy, and then a product of the image with many weights. */
static void make_tail(struct qg *q, uint64_t seed, int64_t results)
{
	struct rvl_shape s = { 4, { 1, 16, 32, 32 } };
	struct rvl_tensor *x;

	qg_open(q, seed);
	x = qg_tensor(q, "x", RVL_TYPE_U8, s, 0.02f, 100);
	qg_input(q, x);
	for (int i = 0; i < 3; i++)
		x = qg_max_pool(q, NULL, conv(q, x, i ? 32 : 16, 3, 1, 1), 2, 2, 0);
	x = qg_conv(q, NULL, x, &(struct qg_conv){ .m = results, .kh = 4, .kw = 4, .bias = true, .wscale = 0.005f,
						   .yscale = 0.05f, .wtype = RVL_TYPE_S8, .ytype = RVL_TYPE_U8 });
	qg_output(q, conv(q, x, 16, 1, 1, 1));
}

/*
 * The weights of a layer load while the layers long before it compute, as far as WGT has room: most of
 * the port's time for them, in which the array would wait, is gained.
 */
START_TEST(weights_load_beside_earlier_layers)
{
	const struct rivulet_compile_options on = { .no_cascade = true };
	const struct rivulet_compile_options off = { .no_cascade = true, .no_prefetch = true };

	for (int64_t results = 192; results <= 320; results += 64) {
		uint64_t words = results * 32 * 16 / RIVULET_WGT_WORD, all = board.wgt_bytes / RIVULET_WGT_WORD, cycles[2];
		struct rivulet_explain e;
		struct io io = { 0 };
		struct qg q;

		make_tail(&q, results, results);
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		interpret(&q, &io);
		for (int i = 0; i < 2; i++) {
			run(&q, i ? &on : &off, &io, &e);
			cycles[i] = cycles_of(&e);
			rivulet_explain_free(&e);
		}
		ck_assert_msg(cycles[1] + rvl_min(words, all) / 2 < cycles[0],
			      "%" PRId64 " results: %" PRIu64 " cycles, without %" PRIu64, results, cycles[1], cycles[0]);
		finish_test(&q, &io);
	}
}
END_TEST

/* An inverted residual block: 1x1, depthwise, 1x1, and the sum with its operand. */
static void make_block(struct qg *q, int64_t channels, int64_t side)
{
	int64_t inner = 6 * channels;
	struct rvl_tensor *x, *y;

	qg_open(q, channels);
	x = qg_tensor(q, "x", RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, channels, side, side } },
		      0.02f, 100);
	qg_input(q, x);
	x = conv(q, x, channels, 1, 1, 1);
	y = conv(q, x, inner, 1, 1, 1);
	y = conv(q, y, inner, 3, 1, inner);
	qg_output(q, add(q, conv(q, y, channels, 1, 1, 1), x));
}

/*
 * A block whose inner values are larger than INP is one cascade: neither of them is moved, so that
 * fewer cycles pass than with all in memory, and the results are the same bits.
 */
START_TEST(block_is_one_cascade)
{
	const struct rivulet_compile_options off = { .no_cascade = true };
	struct rivulet_explain with, without;
	struct io io = { 0 };
	char err[256];
	struct qg q;

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-256", err, sizeof(err)), "%s", err);
	board.port_bytes = 4; /* the port bounds the layers in memory */
	make_block(&q, 24, 56);
	interpret(&q, &io);
	run(&q, NULL, &io, &with);
	run(&q, &off, &io, &without);
	ck_assert_uint_ge(with.cascades, 2);
	ck_assert_uint_eq(without.cascades, 0);
	ck_assert_uint_eq(with.rows[1].write_bytes, 0);
	ck_assert_uint_eq(with.rows[2].write_bytes, 0);
	ck_assert_int_ge(with.cascade_bytes, 4 * 144 * 56 * 56);
	ck_assert_uint_lt(cycles_of(&with), cycles_of(&without));
	rivulet_explain_free(&with);
	rivulet_explain_free(&without);
	finish_test(&q, &io);
}
END_TEST

/*
 * Depthwise layers take the ALU longer than the array, the 1 x 1 layers behind them the other way round. Tiles
 * of the cascade are such that one works beside the other, although ACC has two halves only.
 */
START_TEST(tiles_balance_array_and_alu)
{
	struct rivulet_explain e;
	struct io io = { 0 };
	struct rvl_tensor *x;
	char err[256];
	struct qg q;

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-256", err, sizeof(err)), "%s", err);
	qg_open(&q, 31);
	x = qg_tensor(&q, "x", RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, 256, 38, 38 } }, 0.02f, 100);
	qg_input(&q, x);
	for (int i = 0; i < 2; i++) {
		x = conv(&q, x, 256, 3, 1, 256);
		x = conv(&q, x, 256, 1, 1, 1);
	}
	qg_output(&q, x);
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	ck_assert_uint_ge(e.cascades, 2);
	ck_assert_msg(cycles_of(&e) * 100 < e.segments[0].busy[RIVULET_Q_CONV] * 105,
		      "%" PRIu64 " cycles for %" PRIu64 " of the array", cycles_of(&e),
		      e.segments[0].busy[RIVULET_Q_CONV]);
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/* A convolution, a pool and two more convolutions: the clock of the engines decides whose tile is next. */
static struct rvl_tensor *make_pooled(struct qg *q)
{
	struct rvl_tensor *x;

	qg_open(q, 3);
	x = conv(q, input(q, (struct rvl_shape){ 4, { 1, 16, 32, 32 } }), 32, 3, 1, 1);
	return conv(q, conv(q, qg_max_pool(q, NULL, x, 3, 2, 1), 64, 3, 1, 1), 32, 1, 1, 1);
}

/*
 * The order of a cascade's tiles is searched: the array waits for less than 7 % of its time. With the tile
 * that is best at the moment it waits for more than 10 %.
 */
START_TEST(order_looks_ahead)
{
	struct rivulet_explain e;
	struct io io = { 0 };
	char err[256];
	struct qg q;

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-256", err, sizeof(err)), "%s", err);
	qg_output(&q, make_pooled(&q));
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	ck_assert_msg(cycles_of(&e) * 100 < e.segments[0].busy[RIVULET_Q_CONV] * 107,
		      "%" PRIu64 " cycles for %" PRIu64 " of the array", cycles_of(&e),
		      e.segments[0].busy[RIVULET_Q_CONV]);
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/* Convolutions of a small image with pools between them, and a product of what is left of it, or none. */
static struct rvl_tensor *make_short(struct qg *q, bool product)
{
	struct rvl_tensor *x;

	qg_open(q, 3);
	x = conv(q, input(q, (struct rvl_shape){ 4, { 1, 3, 24, 24 } }), product ? 32 : 28, 3, 1, 1);
	x = conv(q, qg_max_pool(q, NULL, x, 3, 2, 1), 48, 3, 1, 1);
	x = conv(q, qg_max_pool(q, NULL, x, 3, 2, 1), 64, 3, product ? 2 : 1, 1);
	if (!product)
		return x;
	return qg_conv(q, NULL, x, &(struct qg_conv){ .m = 128, .kh = 3, .kw = 3, .bias = true, .wscale = 0.005f,
						      .yscale = 0.05f, .wtype = RVL_TYPE_S8,
						      .ytype = RVL_TYPE_U8 });
}

/*
 * Steps of few layers with an ALU that is slow are cut again as the whole step is then fastest. The bars
 * are missed without pools row by row, without rings of whole values, without other cuts of single layers,
 * if chunks whose weights are in WGT are not joined, and if the next operand loads behind early weights.
 */
START_TEST(short_steps_are_cut_again)
{
	static const uint64_t bar[] = { 52000, 46200 };
	struct rivulet_explain e;
	struct io io = { 0 };
	struct qg q;

	board.alu_lanes = 4;
	qg_output(&q, make_short(&q, _i));
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	ck_assert_msg(cycles_of(&e) < bar[_i], "%" PRIu64 " cycles", cycles_of(&e));
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/* The rows of the first CONV of the only step, and of the highest one. */
static void find_rows(const struct qg *q, uint32_t *first, uint32_t *most)
{
	struct rivulet_blob program = { 0 };
	const struct rivulet_step_variant *v;
	const struct rivulet_insn *in;
	struct rvl_err err = { "" };
	struct rivulet_decoded d;
	struct rvl_graph *g;

	ck_assert(!rvl_graph_clone(q->g, &g, &err));
	ck_assert_msg(!rvl_compile_graph(g, &board, NULL, &program, NULL, &err), "%s", err.msg);
	v = &rivulet_program_steps(program.data)->variant[0];
	in = (const void *)((const char *)program.data + v->offset);
	*first = *most = 0;
	for (uint32_t i = 0; i < v->length / sizeof(*in); i++) {
		ck_assert_int_eq(rivulet_decode(&in[i], &d), 0);
		if (d.form != RIVULET_FORM_conv)
			continue;
		*first = *first ? *first : d.conv.rows;
		*most = rvl_max(*most, d.conv.rows);
	}
	rivulet_blob_free(&program);
}

/*
 * The array begins with the first row of a step's first tile, while the others load: gathered patches, an
 * operand that a tile has to itself, and one in a ring. The results are the same bits.
 */
START_TEST(array_begins_with_a_piece)
{
	static const struct { int64_t channels, kernel, side; } net[] = { { 3, 3, 32 }, { 16, 1, 48 }, { 16, 3, 48 } };
	uint32_t first, most;
	struct rivulet_explain e;
	struct io io = { 0 };
	struct rvl_tensor *x;
	struct qg q;

	qg_open(&q, 17);
	x = input(&q, (struct rvl_shape){ 4, { 1, net[_i].channels, net[_i].side, net[_i].side } });
	qg_output(&q, conv(&q, x, 32, net[_i].kernel, 1, 1));
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	find_rows(&q, &first, &most);
	ck_assert_uint_lt(first, most);
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/*
 * Windows that are further apart than they are high leave rows between the pieces of the first tile. They are
 * loaded as well, because the other groups of output blocks take the tile's operand as a whole.
 */
START_TEST(pieces_load_rows_between_windows)
{
	static const struct { const char *board; int64_t results, side; } net[] = {
		{ "zu3eg-64", 256, 33 }, { "zu3eg-128", 128, 25 }, { "zu3eg-256", 128, 33 }, { "cyclonev-64-nodsp", 256, 25 },
	};
	struct rivulet_explain e;
	struct io io = { 0 };
	struct rvl_tensor *x;
	char err[256];
	struct qg q;

	ck_assert_msg(!rivulet_board_load(&board, net[_i].board, err, sizeof(err)), "%s", err);
	qg_open(&q, 3);
	x = input(&q, (struct rvl_shape){ 4, { 1, 16, net[_i].side, net[_i].side } });
	qg_output(&q, conv(&q, conv(&q, x, net[_i].results, 1, 2, 1), 64, 3, 1, 1));
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/*
 * A pool whose windows overlap follows a convolution: the ALU pools rows in the ring while the array
 * makes the next ones. The ring is shorter than the value, so that windows cross its end.
 */
START_TEST(pool_reads_the_ring)
{
	const struct rivulet_compile_options off = { .no_cascade = true };
	struct rivulet_explain with, without;
	struct io io = { 0 };
	struct qg q;

	qg_open(&q, 7);
	qg_output(&q, qg_max_pool(&q, NULL, conv(&q, input(&q, (struct rvl_shape){ 4, { 1, 3, 96, 80 } }),
						  64, 7, 2, 1), 3, 2, 1));
	interpret(&q, &io);
	run(&q, NULL, &io, &with);
	run(&q, &off, &io, &without);
	ck_assert_uint_eq(with.cascades, 1);
	ck_assert_uint_eq(with.rows[0].write_bytes, 0);
	ck_assert_int_ge(with.cascade_bytes, 2 * 64 * 48 * 40 * 99 / 100);
	ck_assert_uint_ge(with.rows[0].cycles * rivulet_board_peak(&board), with.rows[0].array_macs);
	ck_assert_uint_lt(cycles_of(&with), cycles_of(&without));
	rivulet_explain_free(&with);
	rivulet_explain_free(&without);
	finish_test(&q, &io);
}
END_TEST

/* The mean of each channel, or its maximum. */
static struct rvl_tensor *global(struct qg *q, struct rvl_tensor *x, bool mean)
{
	struct rvl_shape s = { 4, { x->shape.dim[0], x->shape.dim[1], 1, 1 } };
	struct rvl_tensor *y = qg_tensor(q, NULL, x->type, s, x->quant.scale[0], x->quant.zp[0]);

	qg_node(q, mean ? RVL_OP_Q_GLOBAL_AVERAGE_POOL : RVL_OP_GLOBAL_MAX_POOL, NULL, 1, &x, y);
	return y;
}

/* Layers of which `explain` says @what. */
static uint32_t noted(const struct rivulet_explain *e, const char *what)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->n_rows; i++)
		n += e->rows[i].reason && strstr(e->rows[i].reason, what);
	return n;
}

static uint32_t taken_by_blocks(const struct rivulet_explain *e)
{
	return noted(e, "taken by blocks");
}

/*
 * The end of a classifier: a convolution, the mean of its channels, and a product with more weights
 * than WGT holds. The product begins with the channels that are there, so that its weights load
 * while the array computes the other ones.
 */
START_TEST(classifier_takes_blocks)
{
	static const char *const boards[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256" };
	const struct rivulet_compile_options off = { .no_cascade = true };
	struct rivulet_explain with, without;
	struct io io = { 0 };
	char err[256];
	struct qg q;

	ck_assert_msg(!rivulet_board_load(&board, boards[_i], err, sizeof(err)), "%s", err);
	qg_open(&q, 11);
	qg_output(&q, conv(&q,
			   global(&q,
				  conv(&q, input(&q, (struct rvl_shape){ 4, { 1, 320, 7, 7 } }),
				       1280, 1, 1, 1),
				  true),
			   1000, 1, 1, 1));
	interpret(&q, &io);
	run(&q, NULL, &io, &with);
	run(&q, &off, &io, &without);
	ck_assert_uint_eq(taken_by_blocks(&with), 1);
	/* The port takes 18 cycles for each 256 bytes of weights; a third of them is hidden. */
	ck_assert_uint_ge(cycles_of(&without), cycles_of(&with) + 1280 * 1000 / 256 * 18 / 3);
	rivulet_explain_free(&with);
	rivulet_explain_free(&without);
	finish_test(&q, &io);
}
END_TEST

/*
 * A product of all pixels of a small image, with more weights than WGT holds, behind two convolutions:
 * it takes the rows of its window as they are made, so that its weights load beside the array's work.
 * The window may be dilated or reach into the padding.
 */
START_TEST(product_takes_rows)
{
	static const struct {
		int64_t side;
		struct qg_conv product;
	} t[] = {
		{ 4, { .m = 256, .kh = 4, .kw = 4 } },
		{ 5, { .m = 256, .kh = 3, .kw = 3, .dy = 2, .dx = 2 } },
		{ 4, { .m = 200, .kh = 5, .kw = 4, .pad = { 1, 0, 0, 0 } } },
		{ 4, { .m = 256, .kh = 4, .kw = 4, .sy = 9 } },
	};
	const struct rivulet_compile_options off = { .no_cascade = true };
	const int64_t side = t[_i].side;
	struct qg_conv product = t[_i].product;
	struct rivulet_explain with, without;
	struct io io = { 0 };
	char err[256];
	struct qg q;

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", err, sizeof(err)), "%s", err);
	product.wtype = RVL_TYPE_S8;
	product.ytype = RVL_TYPE_U8;
	product.wscale = 1 / 4096.0f;
	product.yscale = 1 / 64.0f;
	qg_open(&q, 12);
	qg_output(&q, qg_conv(&q, NULL,
			      conv(&q,
				   conv(&q, input(&q, (struct rvl_shape){ 4, { 1, 64, 2 * side, 2 * side } }),
					128, 3, 2, 1),
				   128, 3, 1, 1),
			      &product));
	interpret(&q, &io);
	run(&q, NULL, &io, &with);
	run(&q, &off, &io, &without);
	ck_assert_uint_eq(noted(&with, "taken by rows"), 1);
	/* The port takes 18 cycles for each 256 bytes of weights; a sixth of them is hidden. */
	ck_assert_uint_ge(cycles_of(&without), cycles_of(&with) + 128 * product.m * product.kh *
									product.kw / 256 * 18 / 6);
	rivulet_explain_free(&with);
	rivulet_explain_free(&without);
	finish_test(&q, &io);
}
END_TEST

#define WINDOWS 24

/* Windows and images of any size on all boards, whose results are those of the interpreter. */
START_TEST(rows_of_any_window)
{
	static const char *const boards[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256", "dense-16x16" };
	uint32_t taken = 0;
	char err[256];

	ck_assert_msg(!rivulet_board_load(&board, boards[_i], err, sizeof(err)), "%s", err);
	for (uint32_t seed = 0; seed < WINDOWS; seed++) {
		struct rivulet_explain e;
		struct io io = { 0 };
		struct qg_conv c = { .wtype = RVL_TYPE_S8,
				     .ytype = RVL_TYPE_U8,
				     .wscale = 1 / 4096.0f,
				     .yscale = 1 / 64.0f };
		struct rvl_tensor *x;
		struct qg q;
		int64_t h, w;

		qg_open(&q, 100 + seed);
		h = qg_range(&q, 2, 6);
		w = qg_range(&q, 1, 5);
		c.m = qg_range(&q, 16, 415);
		c.relu = qg_range(&q, 0, 1);
		c.bias = qg_range(&q, 0, 1);
		c.per_channel = qg_range(&q, 0, 1);
		c.dy = h > 4 ? 2 : 1;
		c.kh = (h + c.dy - 1) / c.dy;
		c.kw = qg_range(&q, 1, w);
		c.pad[0] = c.dy == 1 && qg_range(&q, 0, 1);
		c.kh += c.pad[0];
		c.sy = h;
		x = input(&q, (struct rvl_shape){ 4, { 1, 32, h, w } });
		x = conv(&q, conv(&q, x, qg_range(&q, 64, 127), 3, 1, 1),
			 qg_range(&q, 17, 136), 3, 1, 1);
		qg_output(&q, qg_conv(&q, NULL, x, &c));
		interpret(&q, &io);
		run(&q, NULL, &io, &e);
		taken += noted(&e, "taken by rows");
		rivulet_explain_free(&e);
		finish_test(&q, &io);
	}
	ck_assert_uint_ge(taken, 1);
}
END_TEST

/* A window, or its dilation, that the fields of one instruction do not hold is no such product's. */
START_TEST(window_beyond_the_fields)
{
	static const struct qg_conv long_window[] = {
		{ .m = 16, .kh = 4, .kw = 40 }, { .m = 16, .kh = 40, .kw = 1 }, { .m = 16, .kh = 2, .kw = 1, .dy = 70 },
	};
	struct rivulet_explain e;
	struct io io = { 0 };
	struct qg_conv c = long_window[_i];
	struct rvl_tensor *x;
	char err[256];
	struct qg q;

	ck_assert_msg(!rivulet_board_load(&board, "dense-16x16", err, sizeof(err)), "%s", err);
	c.wtype = RVL_TYPE_S8;
	c.ytype = RVL_TYPE_U8;
	c.wscale = 0.002f;
	c.yscale = 0.03f;
	qg_open(&q, 12 + _i);
	x = input(&q, (struct rvl_shape){ 4, { 1, 16, c.dy ? 71 : c.kh, c.kw } });
	qg_output(&q, qg_conv(&q, NULL, conv(&q, x, 48, 1, 1, 1), &c));
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	ck_assert_uint_eq(taken_by_blocks(&e), 0);
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/*
 * Random layers at the end of such cascades give the bits of the reference. Where weights load early, few
 * layers take blocks.
 */
START_TEST(sums_of_blocks_are_exact)
{
	static const char *const boards[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256" };
	const struct rivulet_compile_options opt = { .no_prefetch = true };
	int64_t most = random_cases(12);
	uint32_t taken = 0;
	char err[256];

	ck_assert_msg(!rivulet_board_load(&board, boards[_i], err, sizeof(err)), "%s", err);
	for (int64_t i = 0; i < most; i++) {
		struct rvl_tensor *x, *y;
		struct rivulet_explain e;
		struct io io = { 0 };
		struct qg q;
		int64_t side;

		qg_open(&q, 1000 * _i + i);
		side = qg_range(&q, 1, 4);
		x = input(&q, (struct rvl_shape){ 4, { 1, qg_range(&q, 4, 12) * 16, side, side } });
		x = conv(&q, x, qg_range(&q, 100, 400), 1, 1, 1);
		if (qg_range(&q, 0, 1))
			x = global(&q, x, qg_range(&q, 0, 1));
		y = conv(&q, x, qg_range(&q, 20, 500), qg_range(&q, 0, 3) ? 1 : 3,
			 qg_range(&q, 1, 2), 1);
		if (qg_range(&q, 0, 1))
			y = conv(&q, y, 40, 1, 1, 1);
		qg_output(&q, y);
		interpret(&q, &io);
		run(&q, &opt, &io, &e);
		taken += taken_by_blocks(&e);
		rivulet_explain_free(&e);
		finish_test(&q, &io);
	}
	ck_assert(most < 12 || taken * 8 >= most); /* sanitizers run few cases, of which none may take blocks */
}
END_TEST

/*
 * Blocks that add their operand: the value between two of them stays in INP, and each sum takes the
 * place of its second operand. Only the first value is loaded, and only the last one is stored.
 */
START_TEST(sums_stay_in_place)
{
	struct rivulet_explain e;
	struct io io = { 0 };
	struct rvl_tensor *x;
	char err[256];
	struct qg q;

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-256", err, sizeof(err)), "%s", err);
	qg_open(&q, 12);
	x = conv(&q, input(&q, (struct rvl_shape){ 4, { 1, 64, 14, 14 } }), 64, 1, 1, 1);
	for (int i = 0; i < 3; i++)
		x = inverted(&q, x, 6, 64, 1);
	qg_output(&q, conv(&q, x, 32, 1, 1, 1));
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	ck_assert_uint_eq(noted(&e, "second operand kept in INP"), 3);
	ck_assert_uint_ge(noted(&e, "result kept in INP"), 3);
	for (uint32_t i = 0; i + 1 < e.n_rows; i++)
		ck_assert_msg(!e.rows[i].write_bytes, "layer %u stores %" PRIu64 " bytes", i,
			      e.rows[i].write_bytes);
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/*
 * The rows that two tiles of a cascade have in common are loaded once: of an image that is larger
 * than INP, each byte is read once, beside the weights and the stream.
 */
START_TEST(rows_load_once)
{
	const uint64_t image = 64 * 56 * 56, weights = 64 * 64 * 9;
	struct rivulet_explain e;
	struct io io = { 0 };
	struct rvl_tensor *x;
	struct qg q;

	qg_open(&q, 13);
	x = input(&q, (struct rvl_shape){ 4, { 1, 64, 56, 56 } });
	qg_output(&q, conv(&q, conv(&q, x, 64, 3, 1, 1), 64, 3, 1, 1));
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	ck_assert_uint_eq(noted(&e, "result stays in INP"), 1);
	ck_assert_uint_ge(e.rows[0].read_bytes, image + weights);
	ck_assert_uint_lt(e.rows[0].read_bytes, image + weights + image / 8);
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/*
 * A tile of a depthwise layer loads an operand for each group of output blocks. The operand that loads
 * before weights of later layers is that of the next group: it is not replaced before it is read, and is
 * not loaded once more.
 */
START_TEST(operands_of_groups_load_once)
{
	const uint64_t image = 64 * 32 * 32;
	struct rivulet_explain e;
	struct io io = { 0 };
	struct rvl_tensor *x;
	char err[256];
	struct qg q;

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-256", err, sizeof(err)), "%s", err);
	qg_open(&q, 3);
	x = conv(&q, input(&q, (struct rvl_shape){ 4, { 1, 64, 32, 32 } }), 64, 3, 1, 64);
	qg_output(&q, conv(&q, conv(&q, x, 64, 3, 2, 64), 256, 3, 1, 1));
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	ck_assert_msg(e.rows[0].read_bytes < image + image / 8, "%" PRIu64 " bytes are read", e.rows[0].read_bytes);
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/*
 * Chunks of a reduction that lie one behind another are one CONV, up to the most blocks that its field holds:
 * a value of more channels on a board whose WGT holds all their weights.
 */
START_TEST(joined_chunks_fit_the_field)
{
	struct rivulet_explain e;
	struct io io = { 0 };
	struct rvl_tensor *x;
	struct qg q;

	board.modes = 1u << RIVULET_MODE_DENSE;
	board.tn = board.tm = 8;
	board.inp_bytes = 480000;
	board.wgt_bytes = 1 << 20;
	qg_open(&q, 3);
	x = conv(&q, input(&q, (struct rvl_shape){ 4, { 1, 4, 1, 1 } }), 4100 * 8, 1, 1, 1);
	qg_output(&q, conv(&q, x, 8, 1, 1, 1));
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/*
 * The first layers of a ResNet, whose result fills most of INP: it is kept there, because the layer
 * that gathers patches makes its rows in pieces, and because the pool takes no long passes of the
 * ALU.
 */
START_TEST(pieces_of_rows_leave_room)
{
	struct rivulet_explain e;
	struct io io = { 0 };
	struct rvl_tensor *x;
	char err[256];
	struct qg q;

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-256", err, sizeof(err)), "%s", err);
	board.inp_bytes = 80 * 1024;
	qg_open(&q, 14);
	x = conv(&q, input(&q, (struct rvl_shape){ 4, { 1, 3, 112, 112 } }), 64, 7, 2, 1);
	x = qg_max_pool(&q, NULL, x, 3, 2, 1);
	x = add(&q, conv(&q, conv(&q, x, 64, 3, 1, 1), 64, 3, 1, 1), x);
	qg_output(&q, conv(&q, x, 64, 3, 1, 1));
	interpret(&q, &io);
	run(&q, NULL, &io, &e);
	ck_assert_uint_ge(noted(&e, "result kept in INP"), 1);
	ck_assert_uint_eq(noted(&e, "second operand kept in INP"), 1);
	ck_assert_uint_eq(e.rows[1].write_bytes, 0);
	rivulet_explain_free(&e);
	finish_test(&q, &io);
}
END_TEST

/* A network of sums, strides and pools, whose values have several readers. */
static void make_branches(struct qg *q, uint64_t seed)
{
	struct rvl_tensor *x, *y;
	int64_t c, side;

	qg_open(q, seed);
	c = qg_range(q, 8, 70);
	side = qg_range(q, 5, 16);
	x = input(q, (struct rvl_shape){ 4, { 1, c, side, side + qg_range(q, 0, 3) } });
	x = qg_range(q, 0, 3) ? conv(q, x, c, 1, 1, 1) : qg_max_pool(q, NULL, x, 3, 1, 1);
	for (int i = 0; i < 5; i++) {
		switch (qg_range(q, 0, 4)) {
		case 0: /* both operands are made here */
			y = conv(q, x, c, 3, 1, 1);
			x = add(q, y, conv(q, x, c, 1, 1, 1));
			break;
		case 1:
			x = inverted(q, x, qg_range(q, 1, 4), c, 1);
			break;
		case 2:
			x = add(q, conv(q, conv(q, x, c, 3, 1, 1), c, 3, 1, 1), x);
			break;
		case 3:
			x = qg_max_pool(q, NULL, x, 3, qg_range(q, 1, 2), 1);
			break;
		default:
			c = qg_range(q, 8, 70);
			x = conv(q, x, c, 3, qg_range(q, 1, 2), 1);
		}
	}
	qg_output(q, conv(q, x, 20, 1, 1, 1));
}

START_TEST(kept_values_are_exact)
{
	static const char *const boards[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256" };
	int64_t most = random_cases(8);
	uint32_t kept = 0, second = 0;
	char err[256];

	ck_assert_msg(!rivulet_board_load(&board, boards[_i], err, sizeof(err)), "%s", err);
	for (int64_t i = 0; i < most; i++) {
		struct rivulet_explain e;
		struct io io = { 0 };
		struct qg q;

		make_branches(&q, 5000 + 100 * _i + i);
		interpret(&q, &io);
		run(&q, NULL, &io, &e);
		kept += noted(&e, "result kept");
		second += noted(&e, "second operand kept");
		rivulet_explain_free(&e);
		finish_test(&q, &io);
	}
	ck_assert_uint_ge(kept, most / 2);
	ck_assert_uint_ge(second, most / 4);
}
END_TEST

static uint64_t model_cycles(const char *name, const char *on,
			     const struct rivulet_compile_options *opt)
{
	struct rivulet_explain e;
	struct rivulet_board b;
	struct rvl_err err = { "" };
	uint64_t cycles;
	char path[64];
	void *onnx;
	size_t size;

	snprintf(path, sizeof(path), "models/%s.onnx", name);
	onnx = read_file(path, &size);
	ck_assert_msg(!rivulet_board_load(&b, on, err.msg, sizeof(err.msg)), "%s", err.msg);
	ck_assert_msg(!rivulet_explain_model(onnx, size, &b, opt, &e, &err), "%s", err.msg);
	cycles = cycles_of(&e);
	rivulet_explain_free(&e);
	free(onnx);
	return cycles;
}

/*
 * No model of models/ is slower than with a choice of the planner excluded, up to 0.1 %: a layer is
 * timed behind the layer before it, and the layer behind it may wait for some cycles more.
 */
START_TEST(choices_never_cost)
{
	static const char *const models[] = { "lenet", "lenet20", "lenet540", "mlp", "mlp20",
					      "resnet" };
	static const char *const boards[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256" };
	static const struct rivulet_compile_options without[] = {
		{ .without_modes = 1u << RIVULET_MODE_SPARSE },
		{ .no_cascade = true },
		{ .no_prefetch = true },
		{ .without_modes = 1u << RIVULET_MODE_SPARSE, .no_cascade = true },
	};

	for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
		uint64_t all = model_cycles(models[m], boards[_i], NULL);

		for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
			uint64_t less = model_cycles(models[m], boards[_i], &without[i]);

			ck_assert_msg(all * 1000 <= less * 1001,
				      "%s on %s: %" PRIu64 " cycles, %" PRIu64 " without choice %zu",
				      models[m], boards[_i], all, less, i);
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("planner");
	TCase *t = add_case(s, "planner", 120, setup, NULL);

	tcase_add_test(t, plain_bytes_move_in_long_bursts);
	tcase_add_test(t, views_cost_few_cycles);
	tcase_add_test(t, weights_load_ahead);
	tcase_add_test(t, weights_load_beside_earlier_layers);
	tcase_add_test(t, block_is_one_cascade);
	tcase_add_test(t, tiles_balance_array_and_alu);
	tcase_add_test(t, order_looks_ahead);
	tcase_add_loop_test(t, short_steps_are_cut_again, 0, 2);
	tcase_add_loop_test(t, array_begins_with_a_piece, 0, 3);
	tcase_add_loop_test(t, pieces_load_rows_between_windows, 0, 4);
	tcase_add_test(t, pool_reads_the_ring);
	tcase_add_loop_test(t, classifier_takes_blocks, 0, 3);
	tcase_add_loop_test(t, product_takes_rows, 0, 4);
	tcase_add_loop_test(t, rows_of_any_window, 0, 4);
	tcase_add_loop_test(t, window_beyond_the_fields, 0, 3);
	tcase_add_loop_test(t, sums_of_blocks_are_exact, 0, 3);
	tcase_add_test(t, sums_stay_in_place);
	tcase_add_test(t, rows_load_once);
	tcase_add_test(t, operands_of_groups_load_once);
	tcase_add_test(t, joined_chunks_fit_the_field);
	tcase_add_test(t, pieces_of_rows_leave_room);
	tcase_add_loop_test(t, kept_values_are_exact, 0, 3);
	tcase_add_loop_test(t, choices_never_cost, 0, 3);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/*
 * Compares the compiler's back end bit for bit with the reference interpreter, on random graphs and
 * on boards from tiny to large. Tiny scratchpads cause every kind of split, and odd geometries
 * every kind of padding. The total cost of each test's programs is compared with
 * tests/data/costs.txt. After an intended change of the compiler, run this program with
 * RIVULET_COSTS=write and review the difference.
 */
#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "graph/interp.h"
#include "program/program.h"
#include "files.h"
#include "prog_exec.h"
#include "qgraph.h"
#include "suite.h"

/* tm, tn, dn, scratchpads in bytes, latency, depth */
struct geometry {
	uint32_t tm, tn, dn, inp, wgt, acc, latency, depth;
};

static const struct geometry geometries[] = {
	{ 16, 16, 4, 98304, 98304, 65536, 64, 64 },    { 32, 16, 4, 98304, 196608, 131072, 64, 64 },
	{ 32, 32, 8, 262144, 212992, 131072, 64, 64 }, { 16, 16, 16, 98304, 98304, 65536, 0, 4 },
	{ 16, 16, 4, 2048, 2048, 1024, 64, 2 }, /* 128 INP, 128 WGT, 16 ACC words */
	{ 32, 16, 4, 1024, 4096, 1024, 10, 3 },	       { 8, 8, 8, 1024, 1024, 1024, 200, 64 },
	{ 64, 4, 1, 4096, 8192, 4096, 64, 64 },	       { 4, 4, 2, 1024, 1024, 1024, 64, 8 },
};

#define GEOMETRIES ((int)(sizeof(geometries) / sizeof(geometries[0])))

static struct rivulet_board board_of(int i)
{
	const struct geometry *g = &geometries[i];

	return (struct rivulet_board){ .name = "test",
				       .tm = g->tm,
				       .tn = g->tn,
				       .dn = g->dn,
				       .inp_bytes = g->inp,
				       .wgt_bytes = g->wgt,
				       .acc_bytes = g->acc,
				       .port_bytes = 16,
				       .mem_latency = g->latency,
				       RIVULET_BOARD_COST_KEYS(RIVULET_BOARD_COST_INIT)
				       .queue_depth = g->depth,
				       .modes = 1,
				       .cycle_cap = 16384,
				       .levels = 1,
				       .level = { { .hz = 100000000, .microvolt = 850000 } } };
}

/* ---- running a graph on the interpreter and on the device ---- */

struct io {
	void *data[16];
	size_t size[16];
};

static void fill_inputs(struct qg *q, struct io *io)
{
	for (uint32_t i = 0; i < q->g->n_inputs; i++) {
		io->size[i] = rvl_tensor_bytes(q->g->inputs[i]);
		io->data[i] = malloc(io->size[i] + 1);
		for (size_t j = 0; j < io->size[i]; j++)
			((uint8_t *)io->data[i])[j] = qg_random(q);
	}
}

/* Fills @io with random inputs and the outputs of the scalar reference. */
static void interpret(struct qg *q, struct io *io)
{
	struct rvl_interp *it;
	struct rvl_graph *g = q->g;
	uint32_t n = g->n_inputs;

	fill_inputs(q, io);
	ck_assert_msg(!rvl_shape_infer(g, &q->err), "%s", q->err.msg);
	ck_assert_msg(!rvl_interp_new(g, true, &it, &q->err), "%s", q->err.msg);
	for (uint32_t i = 0; i < n; i++)
		ck_assert(!rvl_interp_set(it, i, io->data[i], io->size[i], NULL));
	ck_assert_msg(!rvl_interp_run(it, &q->err), "%s", q->err.msg);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		io->size[n + i] = rvl_tensor_bytes(g->outputs[i]);
		io->data[n + i] = malloc(io->size[n + i] + 1);
		memcpy(io->data[n + i], rvl_interp_data(it, g->outputs[i]), io->size[n + i]);
	}
	rvl_interp_free(it);
}

struct outcome {
	uint64_t cycles, bytes;
	uint32_t cascades;
	uint32_t npu_steps, cpu_steps, instructions;
	uint32_t kept; /* results that stay in INP for other cascades */
};

static void count_steps(const struct rivulet_program *p, struct outcome *o)
{
	for (uint32_t i = 0; i < p->steps; i++) {
		if (rivulet_program_steps(p)[i].kind == RIVULET_STEP_NPU)
			o->npu_steps++;
		else
			o->cpu_steps++;
	}
}

static int tolerance; /* maximum difference, 0 unless a test sets it */

/* ---- the costs of a test's programs ---- */

#define RECORD "tests/data/costs.txt"

static struct {
	uint64_t programs, cycles, insns, busy[4], port, read, write, bytes, arena;
} costs;

static void no_costs(void)
{
	memset(&costs, 0, sizeof(costs));
}

static bool recording(void)
{
	const char *record = getenv("RIVULET_COSTS");

	return record && !strcmp(record, "write");
}

/* Every cycle, byte and product of an NPU step belongs to one layer. */
static void check_shares(const struct rivulet_explain *e, const char *what)
{
	uint64_t cycles = 0, bytes = 0, macs = 0;

	for (uint32_t i = 0; i < e->n_rows; i++) {
		if (strcmp(e->rows[i].where, "npu"))
			continue;
		cycles += e->rows[i].cycles;
		bytes += e->rows[i].read_bytes + e->rows[i].write_bytes;
		macs += e->rows[i].macs;
	}
	for (uint32_t i = 0; i < e->n_segments; i++) {
		cycles -= e->segments[i].cycles;
		bytes -= e->segments[i].read_bytes + e->segments[i].write_bytes;
		macs -= e->segments[i].macs;
	}
	ck_assert_msg(!cycles && !bytes && !macs, "%s: layers do not add up to their steps", what);
}

static void add_costs(const struct rivulet_explain *e)
{
	costs.programs++;
	costs.bytes += e->program_bytes;
	costs.arena += e->arena_bytes;
	for (uint32_t i = 0; i < e->n_segments; i++) {
		const struct rivulet_explain_segment *s = &e->segments[i];

		costs.cycles += s->cycles;
		costs.insns += s->instructions;
		costs.port += s->port_busy;
		costs.read += s->read_bytes;
		costs.write += s->write_bytes;
		for (int q = 0; q < 4; q++)
			costs.busy[q] += s->busy[q];
	}
}

static void compare_costs(const char *heading, const char *line)
{
	size_t size, n = strlen(heading);
	char *all = read_file(RECORD, &size);
	const char *at = strstr(all, heading);

	ck_assert_msg(at && (at == all || at[-1] == '\n'),
		      "%s has no \"%s\": run this with RIVULET_COSTS=write", RECORD, heading);
	ck_assert_msg(!strncmp(at, line, strlen(line)), "have %swant %.*s", line,
		      (int)(n + strcspn(at + n, "\n")), at);
	free(all);
}

/* Called at the end of a test; @i is the index of its loop. The record is of all cases. */
static void check_costs(const char *test, int i)
{
	char heading[64], line[512];
	FILE *f;

	if (!all_cases())
		return;
	snprintf(heading, sizeof(heading), "%s %d: ", test, i);
	snprintf(line, sizeof(line),
		 "%s%" PRIu64 " programs, %" PRIu64 " cycles, %" PRIu64 " instructions, busy %" PRIu64
		 " %" PRIu64 " %" PRIu64 " %" PRIu64 ", port %" PRIu64 ", read %" PRIu64
		 ", written %" PRIu64 ", files %" PRIu64 ", arenas %" PRIu64 "\n",
		 heading, costs.programs, costs.cycles, costs.insns, costs.busy[0], costs.busy[1],
		 costs.busy[2], costs.busy[3], costs.port, costs.read, costs.write, costs.bytes,
		 costs.arena);
	if (!recording()) {
		compare_costs(heading, line);
		return;
	}
	f = fopen(RECORD, "ae");
	ck_assert_msg(f && fputs(line, f) >= 0 && !fclose(f), "%s: %s", RECORD, strerror(errno));
}

static void compare(const struct prog_exec *x, const struct io *io, uint32_t ins, uint32_t outs,
		    const char *what)
{
	for (uint32_t i = 0; i < outs; i++) {
		const uint8_t *have = x->io[ins + i], *want = io->data[ins + i];

		for (size_t j = 0; j < io->size[ins + i]; j++)
			if (abs((int8_t)(have[j] - want[j])) > tolerance)
				ck_abort_msg("%s: output %u element %zu is %u, expected %u", what, i, j,
					     have[j], want[j]);
	}
}

/* Compiles a copy of the graph, checks and runs the program, and compares all outputs. */
static struct outcome run(const struct qg *q, const struct io *io, const struct rivulet_board *b,
			  const struct rivulet_compile_options *opt, const char *what)
{
	uint32_t ins = q->g->n_inputs, outs = q->g->n_outputs;
	struct rivulet_blob program = { 0 };
	struct rivulet_estimate_row row[RIVULET_LEVELS];
	struct rivulet_target target;
	struct outcome o = { 0 };
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	struct rvl_graph *g;
	struct prog_exec x;
	char why[256] = "";

	ck_assert(!rvl_graph_clone(q->g, &g, &err));
	ck_assert_msg(!rvl_compile_graph(g, b, opt, &program, &e, &err), "%s: %s", what, err.msg);
	check_shares(&e, what);
	add_costs(&e);
	o.cascades = e.cascades;
	for (uint32_t i = 0; i < e.n_rows; i++)
		o.kept += e.rows[i].reason && strstr(e.rows[i].reason, "result kept in INP");
	for (uint32_t i = 0; i < e.n_segments; i++)
		o.instructions = e.segments[i].instructions > o.instructions ?
					 e.segments[i].instructions : o.instructions;
	for (uint32_t i = 0; i < e.n_segments; i++)
		o.bytes += e.segments[i].read_bytes + e.segments[i].write_bytes;
	rivulet_explain_free(&e);
	ck_assert_msg(!rivulet_program_check(program.data, program.size, why, sizeof(why)),
		      "%s: %s", what, why);
	rivulet_target_of(b, &target);
	ck_assert_msg(!rivulet_program_fits(program.data, &target, why, sizeof(why)), "%s: %s",
		      what, why);
	ck_assert(!prog_open(&x, b, NULL, program.data));
	for (uint32_t i = 0; i < ins; i++)
		x.io[i] = io->data[i];
	for (uint32_t i = 0; i < outs; i++)
		x.io[ins + i] = calloc(1, io->size[ins + i] + 1);
	ck_assert_msg(!prog_run(&x), "%s: %s", what, x.err);
	compare(&x, io, ins, outs, what);
	o.cycles = x.cycles;
	count_steps(program.data, &o);
	ck_assert_int_eq(rivulet_estimate(program.data, b, row, &err), 1);
	ck_assert_uint_eq(row[0].cycles, x.cycles);
	for (uint32_t i = 0; i < outs; i++)
		free(x.io[ins + i]);
	prog_close(&x, true);
	rivulet_blob_free(&program);
	return o;
}

static void finish(struct qg *q, struct io *io)
{
	for (uint32_t i = 0; i < q->g->n_inputs + q->g->n_outputs; i++)
		free(io->data[i]);
	rvl_graph_free(q->g);
}

/* ---- random parts ---- */

static enum rvl_type any_type(struct qg *q)
{
	return qg_range(q, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;
}

static struct rvl_tensor *any_input(struct qg *q, const char *name, int64_t c, int64_t h, int64_t w)
{
	enum rvl_type type = any_type(q);
	struct rvl_shape s = { 4, { qg_range(q, 0, 5) ? 1 : 2, c, h, w } };
	struct rvl_tensor *t = qg_tensor(q, name, type, s, 0.02f, qg_zp(q, type));

	qg_input(q, t);
	return t;
}

static void any_dim(struct qg *q, int64_t in, int64_t *k, int64_t *s, int64_t *d, int64_t *p0,
		    int64_t *p1)
{
	do {
		*k = qg_range(q, 1, 5);
		*s = qg_range(q, 1, 3);
		*d = qg_range(q, 0, 3) ? 1 : qg_range(q, 1, 4);
		*p0 = qg_range(q, 0, *k);
		*p1 = qg_range(q, 0, *k);
	} while (in + *p0 + *p1 < *d * (*k - 1) + 1);
}

static struct qg_conv any_conv(struct qg *q, const struct rvl_tensor *x)
{
	struct qg_conv c = {
		.m = qg_range(q, 1, 70), .ytype = any_type(q), .wtype = any_type(q),
		.per_channel = qg_range(q, 0, 1), .bias = qg_range(q, 0, 1),
		.relu = qg_range(q, 0, 1), .wscale = 0.002f, .yscale = 0.03f,
	};

	any_dim(q, x->shape.dim[2], &c.kh, &c.sy, &c.dy, &c.pad[0], &c.pad[2]);
	any_dim(q, x->shape.dim[3], &c.kw, &c.sx, &c.dx, &c.pad[1], &c.pad[3]);
	c.wzp = qg_range(q, 0, 2) ? 0 : qg_zp(q, c.wtype);
	if (!qg_range(q, 0, 3)) { /* grouped, and often depthwise */
		int64_t ch = x->shape.dim[1];

		for (c.group = qg_range(q, 0, 1) ? ch : qg_range(q, 1, ch); ch % c.group;)
			c.group--;
		c.m = c.group * qg_range(q, 1, 2);
	}
	return c;
}

START_TEST(random_convolutions)
{
	for (int i = 0; i < random_cases(60); i++) {
		struct rivulet_board b = board_of(_i);
		struct io io = { 0 };
		struct qg q;
		struct qg_conv c;
		struct rvl_tensor *x;
		char what[64];

		qg_open(&q, _i * 1000 + i);
		x = any_input(&q, "x", qg_range(&q, 1, 40), qg_range(&q, 1, 20),
			      qg_range(&q, 1, 20));
		c = any_conv(&q, x);
		qg_output(&q, qg_conv(&q, "conv", x, &c));
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		snprintf(what, sizeof(what), "seed %d", _i * 1000 + i);
		interpret(&q, &io);
		ck_assert_uint_eq(run(&q, &io, &b, NULL, what).npu_steps, 1);
		finish(&q, &io);
	}
	check_costs("random_convolutions", _i);
}
END_TEST

/*
 * Random boards within the limits of profiles, because the compiler must not depend on the boards
 * that exist.
 */
START_TEST(random_boards)
{
	for (int i = 0; i < random_cases(60); i++) {
		struct qg q, pick = { .seed = 31337 + _i * 100 + i };
		struct rivulet_board b = board_of(0);
		struct io io = { 0 };
		struct qg_conv c;
		struct rvl_tensor *x;
		char what[96];

		b.tn = 4 << qg_range(&pick, 0, 4);
		b.tm = rvl_min(64, b.tn << qg_range(&pick, 0, 3));
		b.dn = b.tn >> qg_range(&pick, 0, 2);
		b.inp_bytes = b.tn * qg_range(&pick, 24, 3000);
		b.wgt_bytes = 2 * b.tm * b.tn + 16 * b.tm + 16 * qg_range(&pick, 0, 4000);
		b.acc_bytes = 4 * b.tm * qg_range(&pick, 2, 700);
		b.port_bytes = 1 << qg_range(&pick, 0, 6);
		b.mem_latency = qg_range(&pick, 0, 300);
		b.queue_depth = qg_range(&pick, 2, 70);
		b.bursts = qg_range(&pick, 1, 20);
		b.burst_gap = qg_range(&pick, 1, 9);
		b.alu_lanes = qg_range(&pick, 1, 64);
		qg_open(&q, 7000 + _i * 100 + i);
		x = any_input(&q, "x", qg_range(&q, 1, 90), qg_range(&q, 1, 16),
			      qg_range(&q, 1, 30));
		c = any_conv(&q, x);
		x = qg_max_pool(&q, "pool", qg_conv(&q, "conv", x, &c), 1, 1, 0);
		c = any_conv(&q, x);
		qg_output(&q, qg_conv(&q, "conv2", x, &c));
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		snprintf(what, sizeof(what), "%d: tm %u tn %u dn %u inp %u wgt %u acc %u", i, b.tm,
			 b.tn, b.dn, b.inp_bytes, b.wgt_bytes, b.acc_bytes);
		interpret(&q, &io);
		run(&q, &io, &b, NULL, what);
		finish(&q, &io);
	}
	check_costs("random_boards", _i);
}
END_TEST

/* Every operation leaves a record with times within the run and the tag of its layer. */
START_TEST(profile_records)
{
	struct rivulet_compile_options prof = { .prof = true };
	struct rivulet_board b = board_of(0);
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	const struct rivulet_prof *r;
	struct prog_exec x;
	uint8_t in[6 * 14 * 14 * 2], out[64 * 14 * 14 * 2];
	uint32_t seen = 0, convs = 0;
	struct qg q;
	struct qg_conv c;

	qg_open(&q, 12);
	c = (struct qg_conv){
		.m = 30, .kh = 3, .kw = 3, .wtype = RVL_TYPE_S8, .ytype = RVL_TYPE_U8,
		.wscale = 0.01f, .yscale = 0.1f,
	};
	qg_output(&q, qg_conv(&q, "b", qg_conv(&q, "a", any_input(&q, "x", 6, 14, 14), &c), &c));
	ck_assert_msg(!q.rc, "%s", q.err.msg);
	ck_assert_msg(!rvl_compile_graph(q.g, &b, &prof, &program, NULL, &err), "%s", err.msg);
	ck_assert(!prog_open(&x, &b, NULL, program.data));
	memset(in, 1, sizeof(in));
	memset(x.prof, 0, x.prof_size);
	x.io[0] = in;
	x.io[1] = out;
	ck_assert_msg(!prog_run(&x), "%s", x.err);
	r = (const void *)x.prof;
	for (; seen < x.prof_size / sizeof(*r) && r[seen].end; seen++) {
		ck_assert_uint_lt(r[seen].start, r[seen].end);
		ck_assert_uint_le(r[seen].end, x.cycles);
		ck_assert_uint_le(r[seen].tag, 1);
		convs += r[seen].queue == RIVULET_Q_CONV;
	}
	ck_assert_uint_ge(seen, 8);
	ck_assert_uint_ge(convs, 2);
	prog_close(&x, true);
	rivulet_blob_free(&program);
}
END_TEST

/*
 * Convolution, convolution with addition, pool, second branch: everything that is fused, with both
 * orders of the addition's operands.
 */
static void residual_block(struct qg *q, int flavour)
{
	struct rvl_tensor *x =
		any_input(q, "x", qg_range(q, 1, 24), qg_range(q, 4, 14), qg_range(q, 4, 14));
	struct qg_conv c = {
		.m = qg_range(q, 1, 40), .kh = 3, .kw = 3, .pad = { 1, 1, 1, 1 },
		.wtype = RVL_TYPE_S8, .per_channel = true, .bias = true, .relu = true,
		.ytype = any_type(q), .wscale = 0.002f, .yscale = 0.03f,
	};
	struct rvl_tensor *a = qg_conv(q, "first", x, &c), *b, *in[2], *y;

	c.ytype = any_type(q);
	b = qg_conv(q, "second", a, &c);
	in[flavour & 1] = a;
	in[!(flavour & 1)] = b;
	y = qg_tensor(q, NULL, any_type(q), a->shape, 0.04f, 0);
	ck_assert_msg(!q->rc, "%s", q->err.msg);
	qg_node(q, flavour & 2 ? RVL_OP_Q_MUL : RVL_OP_Q_ADD, "join", 2, in, y);
	if (flavour & 4)
		y = qg_max_pool(q, "pool", y, 3, 2, 1);
	c.ytype = any_type(q);
	c.relu = false;
	y = qg_conv(q, "third", y, &c);
	y = qg_max_pool(q, "pool2", y, 2, 2, 0);
	if (flavour & 8)
		/* the second convolution is an output, so it must not be fused away */
		qg_output(q, b);
	qg_output(q, y);
}

START_TEST(random_blocks)
{
	/* Each of the four bits is set in half of the flavours 0, 5, 10 and 15, too. */
	for (int flavour = 0; flavour < 16; flavour += all_cases() ? 1 : 5) {
		struct rivulet_board b = board_of(_i);
		struct rivulet_compile_options serial = { .serial = true }, prof = { .prof = true };
		struct outcome fast, slow;
		struct io io = { 0 };
		struct qg q;
		char what[64];

		qg_open(&q, 500000 + _i * 100 + flavour);
		residual_block(&q, flavour);
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		snprintf(what, sizeof(what), "flavour %d", flavour);
		interpret(&q, &io);
		fast = run(&q, &io, &b, NULL, what);
		slow = run(&q, &io, &b, &serial, what);
		run(&q, &io, &b, &prof, what);
		ck_assert_uint_le(fast.cycles, slow.cycles);
		finish(&q, &io);
	}
	check_costs("random_blocks", _i);
}
END_TEST

static struct rvl_tensor *flat(struct qg *q, struct rvl_tensor *x)
{
	struct rvl_shape s = {
		2, { x->shape.dim[0], x->shape.dim[1] * x->shape.dim[2] * x->shape.dim[3] }
	};
	struct rvl_tensor *y = qg_tensor(q, NULL, x->type, s, x->quant.scale[0], x->quant.zp[0]);
	struct rvl_node *n = qg_node(q, RVL_OP_FLATTEN, "flatten", 1, &x, y);

	if (n)
		n->attr.axis = 1;
	return y;
}

static struct rvl_tensor *matmul(struct qg *q, struct rvl_tensor *x, int64_t n, bool trans)
{
	int64_t k = x->shape.dim[1];
	struct rvl_shape ws = { 2, { trans ? n : k, trans ? k : n } };
	struct rvl_tensor *in[3] = { x, qg_weights(q, RVL_TYPE_S8, ws, n, trans ? 0 : 1, 0.002f, 0),
				     qg_bias(q, n, 5000) };
	struct rvl_tensor *y = qg_tensor(q, NULL, x->type,
					 (struct rvl_shape){ 2, { x->shape.dim[0], n } }, 0.05f, 3);
	struct rvl_node *node = qg_node(q, RVL_OP_Q_MATMUL, NULL, 3, in, y);

	if (node)
		node->attr.trans_b = trans;
	return y;
}

/*
 * A whole small classifier: gather for few channels, pool on drain, flatten, two matrix products.
 */
START_TEST(classifier)
{
	for (int i = 0; i < random_cases(12); i++) {
		struct rivulet_board b = board_of(_i);
		struct qg_conv c = {
			.m = i & 1 ? 16 : 6, .kh = 5, .kw = 5, .pad = { 2, 2, 2, 2 },
			.wtype = RVL_TYPE_S8, .per_channel = true, .bias = true, .relu = true,
			.ytype = i & 2 ? RVL_TYPE_U8 : RVL_TYPE_S8, .wscale = 0.002f,
			.yscale = 0.03f,
		};
		struct io io = { 0 };
		struct rvl_tensor *t;
		struct qg q;
		char what[64];

		qg_open(&q, 900000 + _i * 100 + i);
		t = any_input(&q, "image", i & 4 ? 3 : 1, 14, 14);
		t = qg_max_pool(&q, NULL, qg_conv(&q, NULL, t, &c), 2, 2, 0);
		c.m = i & 1 ? 32 : 16;
		t = qg_max_pool(&q, NULL, qg_conv(&q, NULL, t, &c), 2, 2, 0);
		t = matmul(&q, flat(&q, t), 40, i & 1);
		t = matmul(&q, t, 10, !(i & 1));
		qg_output(&q, t);
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		snprintf(what, sizeof(what), "classifier %d", i);
		interpret(&q, &io);
		ck_assert_uint_eq(run(&q, &io, &b, NULL, what).cpu_steps, 0);
		finish(&q, &io);
	}
	check_costs("classifier", _i);
}
END_TEST

/*
 * A product over what another product made, flattened: its channels are innermost, whereas those of
 * an image are planes, so that it is no convolution whose kernel is the image.
 */
START_TEST(flattened_rows)
{
	for (int i = 0; i < random_cases(8); i++) {
		struct rivulet_board b = board_of(_i);
		struct rvl_shape in = { 2, { 2 + i, 14 } }, rows = { 2, { 1, 0 } };
		struct io io = { 0 };
		struct rvl_tensor *t, *y;
		struct qg q;

		qg_open(&q, 960000 + _i * 100 + i);
		t = qg_tensor(&q, "x", RVL_TYPE_S8, in, 0.02f, 5);
		qg_input(&q, t);
		t = matmul(&q, t, i & 1 ? 2 * b.tn : 20, i & 2);
		rows.dim[1] = t->shape.dim[0] * t->shape.dim[1];
		y = qg_tensor(&q, NULL, t->type, rows, t->quant.scale[0], t->quant.zp[0]);
		qg_node(&q, RVL_OP_FLATTEN, "flatten", 1, &t, y);
		qg_output(&q, matmul(&q, y, 5, i & 4));
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		interpret(&q, &io);
		run(&q, &io, &b, NULL, "flattened rows");
		finish(&q, &io);
	}
}
END_TEST

static struct rvl_tensor *global(struct qg *q, struct rvl_tensor *x, enum rvl_op op)
{
	struct rvl_shape s = { 4, { x->shape.dim[0], x->shape.dim[1], 1, 1 } };
	bool mean = op == RVL_OP_Q_GLOBAL_AVERAGE_POOL;
	struct rvl_tensor *y = qg_tensor(q, NULL, x->type, s, mean ? 0.011f : x->quant.scale[0],
					 mean ? qg_zp(q, x->type) : x->quant.zp[0]);

	qg_node(q, op, NULL, 1, &x, y);
	return y;
}

static struct rvl_tensor *rescale(struct qg *q, struct rvl_tensor *x)
{
	enum rvl_type type = any_type(q);
	struct rvl_tensor *y = qg_tensor(q, NULL, type, x->shape, 0.013f, qg_zp(q, type));

	qg_node(q, RVL_OP_Q_RESCALE, NULL, 1, &x, y);
	return y;
}

/* Pools and tables that are not fused into a convolution, and average pools that are. */
START_TEST(pools_and_tables)
{
	for (int i = 0; i < random_cases(10); i++) {
		struct rivulet_board b = board_of(_i);
		struct qg_conv c = {
			.m = 20, .wtype = RVL_TYPE_S8, .ytype = i & 1 ? RVL_TYPE_U8 : RVL_TYPE_S8,
			.wscale = 0.002f, .yscale = 0.03f,
		};
		struct rvl_tensor *x, *t, *in[2];
		struct io io = { 0 };
		struct qg q;

		qg_open(&q, 700000 + _i * 100 + i);
		x = any_input(&q, "x", qg_range(&q, 1, 33), 5, 6);
		qg_output(&q, global(&q, x, RVL_OP_Q_GLOBAL_AVERAGE_POOL));
		qg_output(&q, global(&q, x, RVL_OP_GLOBAL_MAX_POOL));
		t = qg_max_pool(&q, NULL, rescale(&q, x), 3, 1, 1);
		in[0] = t;
		in[1] = x;
		qg_node(&q, RVL_OP_Q_ADD, NULL, 2, in,
			t = qg_tensor(&q, NULL, any_type(&q), x->shape, 0.05f, 9));
		qg_output(&q, t);
		qg_output(&q, global(&q, qg_conv(&q, NULL, t, &c), RVL_OP_Q_GLOBAL_AVERAGE_POOL));
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		interpret(&q, &io);
		ck_assert_uint_ge(run(&q, &io, &b, NULL, "pools").npu_steps, 1);
		finish(&q, &io);
	}
	check_costs("pools_and_tables", _i);
}
END_TEST

/*
 * Average pools alone and on drain differ by at most 1 from the reference's float sums, also where
 * the last windows hang over the padding that counts.
 */
START_TEST(averages_within_one)
{
	struct rivulet_compile_options opt = { .average_within_1 = true };

	for (int i = 0; i < random_cases(12); i++) {
		struct rivulet_board b = board_of(_i);
		struct qg_conv c = {
			.m = 9, .wtype = RVL_TYPE_S8, .ytype = any_type(&(struct qg){ .seed = i }),
			.wscale = 0.002f, .yscale = 0.03f,
		};
		struct rvl_tensor *x, *y;
		struct rvl_shape s;
		struct rvl_node *n;
		struct io io = { 0 };
		struct qg q;

		qg_open(&q, 800000 + _i * 100 + i);
		x = any_input(&q, "x", qg_range(&q, 1, 33), 9, 8);
		if (i & 1)
			x = qg_conv(&q, NULL, x, &c);
		s = x->shape;
		s.dim[2] = i & 2 ? 3 : 9;
		s.dim[3] = i & 2 ? 4 + (i >> 2 & 1) : 8;
		y = qg_tensor(&q, NULL, x->type, s, 0.02f, 5);
		n = qg_node(&q, RVL_OP_Q_AVERAGE_POOL, "average", 1, &x, y);
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		n->attr.count_include_pad = i >> 2 & 1;
		n->attr.ceil_mode = i >> 2 & 1;
		n->attr.kernel[0] = n->attr.kernel[1] = 3;
		n->attr.stride[0] = i & 2 ? 3 : 1;
		n->attr.stride[1] = i & 2 ? 2 : 1;
		for (int k = 0; k < 4; k++)
			n->attr.pad[k] = i & 2 && !(k & 1) ? 0 : 1;
		qg_output(&q, y);
		interpret(&q, &io);
		tolerance = 1;
		ck_assert_uint_eq(run(&q, &io, &b, &opt, "average").npu_steps, 1);
		tolerance = 0;
		finish(&q, &io);
	}
	check_costs("averages_within_one", _i);
}
END_TEST

/* Kernels, strides and dilations beyond the instruction's fields. */
START_TEST(beyond_the_fields)
{
	static const struct qg_conv odd[] = {
		{ .m = 3, .kh = 34, .kw = 33, .sy = 2, .sx = 2, .pad = { 4, 6, 9, 3 } },
		{ .m = 5, .kh = 2, .kw = 3, .sy = 40, .sx = 33, .pad = { 0, 1, 0, 1 } },
		{ .m = 17, .kh = 3, .kw = 2, .dx = 70, .pad = { 1, 40, 1, 9 } },
		{ .m = 4, .kh = 3, .sy = 2, .dy = 64, .pad = { 60, 0, 64, 0 } },
	};
	struct rivulet_board b = board_of(_i);

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		struct qg_conv c = odd[i];
		struct io io = { 0 };
		struct rvl_tensor *x;
		struct qg q;
		char what[32];

		c.group = 1;
		c.wtype = RVL_TYPE_U8;
		c.wzp = 100;
		c.ytype = RVL_TYPE_U8;
		c.wscale = 0.0005f;
		c.yscale = 0.05f;
		qg_open(&q, 40 + i);
		x = any_input(&q, "x", 5, _i < 4 ? 90 : 50, _i < 4 ? 85 : 45);
		qg_output(&q, qg_conv(&q, "odd", x, &c));
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		snprintf(what, sizeof(what), "odd %zu", i);
		interpret(&q, &io);
		ck_assert_uint_eq(run(&q, &io, &b, NULL, what).npu_steps, 1);
		finish(&q, &io);
	}
	check_costs("beyond_the_fields", _i);
}
END_TEST

/* An operator that fits in no tile runs on the CPU with a reason and gives the same bits. */
START_TEST(too_large_for_the_board)
{
	struct rivulet_board b = board_of(4);
	struct rivulet_compile_options must = { .require_npu = true };
	struct io io = { 0 };
	struct rvl_err err = { "" };
	struct rivulet_blob program = { 0 };
	struct rvl_graph *g;
	struct rvl_tensor *x;
	struct outcome o;
	struct qg q;

	qg_open(&q, 5);
	x = any_input(&q, "x", 16, 40, 40);
	qg_output(&q, global(&q, x, RVL_OP_Q_GLOBAL_AVERAGE_POOL));
	interpret(&q, &io);
	o = run(&q, &io, &b, NULL, "large");
	ck_assert_uint_eq(o.npu_steps, 0);
	ck_assert_uint_eq(o.cpu_steps, 1);
	ck_assert(!rvl_graph_clone(q.g, &g, &err));
	ck_assert_int_eq(rvl_compile_graph(g, &b, &must, &program, NULL, &err), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.msg, "scratchpads"));
	finish(&q, &io);
}
END_TEST

/*
 * Sums and tables of values other than images: a matrix, a vector, a number, an image without
 * batch.
 */
START_TEST(fewer_dimensions)
{
	static const struct rvl_shape shapes[] = {
		{ 3, { 5, 3, 7 } }, { 2, { 3, 20 } }, { 2, { 37, 2 } }, { 1, { 50 } }, { 0, { 0 } },
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct rivulet_board b = board_of(_i);
		struct rvl_tensor *in[2], *y;
		struct io io = { 0 };
		struct qg q;

		qg_open(&q, 60 + i);
		for (int k = 0; k < 2; k++) {
			in[k] = qg_tensor(&q, k ? "b" : "a", RVL_TYPE_U8, shapes[i], 0.02f, 9 * k);
			qg_input(&q, in[k]);
		}
		y = qg_tensor(&q, NULL, RVL_TYPE_S8, shapes[i], 0.03f, 3);
		qg_node(&q, RVL_OP_Q_ADD, "sum", 2, in, y);
		qg_output(&q, rescale(&q, y));
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		interpret(&q, &io);
		ck_assert_uint_eq(run(&q, &io, &b, NULL, "fewer dimensions").npu_steps, 1);
		finish(&q, &io);
	}
}
END_TEST

/* A board whose array cannot multiply int8 still runs the model, on the CPU. */
START_TEST(board_without_dense_mode)
{
	struct rivulet_board b = board_of(0);
	struct io io = { 0 };
	struct outcome o;
	struct qg q;

	b.modes = 4;
	qg_open(&q, 6);
	residual_block(&q, 0);
	interpret(&q, &io);
	o = run(&q, &io, &b, NULL, "binary board");
	ck_assert_uint_ge(o.cpu_steps, 3);
	finish(&q, &io);
}
END_TEST

/* ---- cascades ---- */

static const char *const sold[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256", "cyclonev-64" };

#define CASCADE_BOARDS ((int)(sizeof(sold) / sizeof(sold[0])) + GEOMETRIES)

static struct rivulet_board cascade_board(int i)
{
	int boards = sizeof(sold) / sizeof(sold[0]);
	struct rivulet_board b;
	char why[256];

	if (i >= boards)
		return board_of(i - boards);
	ck_assert_msg(!rivulet_board_load(&b, sold[i], why, sizeof(why)), "%s", why);
	b.levels = 1; /* run() compares one level's cycles */
	return b;
}

/*
 * Two convolutions, or three, of any size, stride, padding and grouping; in some chains a pool
 * follows.
 */
static void conv_chain(struct qg *q)
{
	struct rvl_tensor *x = any_input(q, "x", qg_range(q, 1, 70), qg_range(q, 1, 30),
					 qg_range(q, 1, 30));
	int64_t layers = qg_range(q, 2, 3);
	struct rvl_tensor *y = x;

	for (int64_t i = 0; i < layers && !q->rc; i++) {
		struct qg_conv c = any_conv(q, y);

		if (!qg_range(q, 0, 2)) /* 1x1 */
			c = (struct qg_conv){ .m = c.m, .ytype = c.ytype, .wtype = c.wtype,
					      .wscale = c.wscale, .yscale = c.yscale };
		y = qg_conv(q, NULL, y, &c);
	}
	if (!qg_range(q, 0, 3) && !q->rc) {
		int64_t k = qg_range(q, 1, 3), side = rvl_min(y->shape.dim[2], y->shape.dim[3]);

		k = rvl_min(k, side);
		y = qg_max_pool(q, NULL, y, k, qg_range(q, 1, 2), qg_range(q, 0, k / 2));
	}
	qg_output(q, y);
}

/* Cycles, and a 64th of the bytes: they cost energy. */
static uint64_t cost_of(const struct outcome *o)
{
	return o->cycles + o->bytes / 64;
}

/*
 * Values that stay in INP have the same bytes as through memory. Such programs never cost more,
 * because the compiler would not have chosen the cascade otherwise. What else shortens a stream is
 * chosen after the cascades, and is off here.
 */
START_TEST(random_cascades)
{
	const struct rivulet_compile_options on = { .no_prefetch = true };
	const struct rivulet_compile_options off = { .no_cascade = true, .no_prefetch = true };
	const struct rivulet_compile_options serial = { .serial = true };
	struct rivulet_board b = cascade_board(_i);
	uint32_t cascades = 0;

	for (int i = 0; i < random_cases(40); i++) {
		struct outcome with, without;
		struct io io = { 0 };
		struct qg q;
		char what[64];

		qg_open(&q, 900000 + _i * 1000 + i);
		conv_chain(&q);
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		snprintf(what, sizeof(what), "chain %d on %s", i, b.name);
		interpret(&q, &io);
		with = run(&q, &io, &b, &on, what);
		without = run(&q, &io, &b, &off, what);
		run(&q, &io, &b, &serial, what);
		ck_assert_uint_eq(without.cascades, 0);
		ck_assert_msg(cost_of(&with) < cost_of(&without) ||
				      (!with.cascades && with.cycles == without.cycles),
			      "%s: %u cascades cost %" PRIu64 ", %" PRIu64 " without", what,
			      with.cascades, cost_of(&with), cost_of(&without));
		cascades += with.cascades;
		finish(&q, &io);
	}
	ck_assert_msg(!all_cases() || cascades >= 3, "only %u cascades on %s", cascades, b.name);
	check_costs("random_cascades", _i);
}
END_TEST

/*
 * The streams that the compiler tries are often longer than the one that it chooses. A trial beyond
 * the limit of instructions is rejected and does not end the compilation. The limit in this test is
 * just enough for the stream that is best without a limit, and for that without cascades and prefetch.
 */
START_TEST(trials_beyond_the_limit)
{
	const struct rivulet_compile_options off = { .no_cascade = true, .no_prefetch = true };
	struct rivulet_board b = cascade_board(_i);

	for (int i = 0; i < random_cases(12); i++) {
		struct rivulet_compile_options tight = { 0 };
		struct outcome free, plain, bounded;
		struct io io = { 0 };
		struct qg q;
		char what[64];

		qg_open(&q, 910000 + _i * 1000 + i);
		conv_chain(&q);
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		snprintf(what, sizeof(what), "limited chain %d on %s", i, b.name);
		interpret(&q, &io);
		free = run(&q, &io, &b, NULL, what);
		plain = run(&q, &io, &b, &off, what);
		tight.most_instructions = rvl_max(free.instructions, plain.instructions);
		bounded = run(&q, &io, &b, &tight, what);
		ck_assert_uint_le(bounded.instructions, tight.most_instructions);
		finish(&q, &io);
	}
}
END_TEST

/*
 * A value larger than INP passes through a ring, for several images, too. Its bytes are not in the
 * arena, and `explain` reports what stays in INP.
 */
START_TEST(cascade_of_stripes)
{
	const struct rivulet_compile_options off = { .no_cascade = true };
	struct qg_conv wide = { .m = 32, .kh = 3, .kw = 3, .pad = { 1, 1, 1, 1 }, .bias = true,
				.ytype = RVL_TYPE_U8, .wtype = RVL_TYPE_S8, .wscale = 0.002f,
				.yscale = 0.03f };
	struct qg_conv thin = { .m = 16, .ytype = RVL_TYPE_U8, .wtype = RVL_TYPE_S8,
				.wscale = 0.002f, .yscale = 0.03f };
	struct rivulet_board b = board_of(3); /* the port, not the array, bounds a 1x1 layer */
	struct rivulet_blob program, text;
	struct outcome with, without;
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	struct rvl_tensor *x;
	struct rvl_graph *g;
	struct io io = { 0 };
	struct qg q;

	qg_open(&q, 31);
	x = qg_tensor(&q, "x", RVL_TYPE_U8, (struct rvl_shape){ 4, { 2, 16, 120, 80 } }, 0.02f, 100);
	qg_input(&q, x);
	qg_output(&q, qg_conv(&q, "thin", qg_conv(&q, "wide", qg_conv(&q, "first", x, &thin), &wide),
			      &thin));
	ck_assert_msg(!q.rc, "%s", q.err.msg);
	interpret(&q, &io);
	with = run(&q, &io, &b, NULL, "stripes");
	without = run(&q, &io, &b, &off, "stripes");
	ck_assert_uint_ge(with.cascades, 1);
	ck_assert_uint_lt(with.cycles, without.cycles);
	ck_assert_uint_lt(with.bytes + 2 * 2 * 16 * 120 * 80 - 1, without.bytes);
	ck_assert(!rvl_graph_clone(q.g, &g, &err));
	ck_assert(!rvl_compile_graph(g, &b, NULL, &program, &e, &err));
	ck_assert(!rivulet_explain_text(&e, &text));
	ck_assert_ptr_nonnull(strstr(text.data, "result stays in INP"));
	ck_assert_ptr_nonnull(strstr(text.data, "operand stays in INP"));
	ck_assert_ptr_nonnull(strstr(text.data, "kept in the NPU between layers"));
	rivulet_blob_free(&text);
	rivulet_blob_free(&program);
	rivulet_explain_free(&e);
	finish(&q, &io);
}
END_TEST

/*
 * A pool whose windows begin several rows above those by which they advance reads rows that several
 * tiles of the convolution before it make: on small boards a tile has one row.
 */
START_TEST(pool_over_short_tiles)
{
	struct rivulet_board b = board_of(_i);
	uint32_t cascades = 0;

	for (int i = 0; i < random_cases(24); i++) {
		struct qg_conv c = { .kh = 3, .kw = 3, .pad = { 1, 1, 1, 1 }, .ytype = RVL_TYPE_U8,
				     .wtype = RVL_TYPE_S8, .wscale = 0.002f, .yscale = 0.03f };
		struct rvl_tensor *x;
		struct io io = { 0 };
		int64_t pad, k;
		struct qg q;
		char what[64];

		qg_open(&q, 980000 + _i * 1000 + i);
		x = any_input(&q, "x", qg_range(&q, 1, 20), qg_range(&q, 12, 40), qg_range(&q, 4, 40));
		c.m = qg_range(&q, 1, 40);
		pad = qg_range(&q, 2, 3);
		k = qg_range(&q, pad + 1, 2 * pad + 1);
		qg_output(&q, qg_max_pool(&q, NULL, qg_conv(&q, NULL, x, &c), k,
					  qg_range(&q, 1, pad + 1), pad));
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		snprintf(what, sizeof(what), "pool %d on board %d", i, _i);
		interpret(&q, &io);
		cascades += run(&q, &io, &b, NULL, what).cascades;
		finish(&q, &io);
	}
	ck_assert_msg(!all_cases() || _i > 4 || cascades, "no cascade on board %d", _i);
}
END_TEST

/* A maximum of @y with a window that its image has. */
static struct rvl_tensor *any_max_pool(struct qg *q, struct rvl_tensor *y)
{
	int64_t k = rvl_min(qg_range(q, 1, 4), rvl_min(y->shape.dim[2], y->shape.dim[3]));

	return qg_max_pool(q, NULL, y, k, qg_range(q, 1, 3), qg_range(q, 0, k / 2));
}

/* Convolutions with a pool between each two. */
static void pooled_chain(struct qg *q)
{
	struct rvl_tensor *y =
		any_input(q, "x", qg_range(q, 1, 70), qg_range(q, 8, 40), qg_range(q, 8, 20));

	for (int64_t i = qg_range(q, 1, 2); i >= 0 && !q->rc; i--) {
		struct qg_conv c = { .m = qg_range(q, 1, 70), .kh = 3, .kw = 3, .pad = { 1, 1, 1, 1 },
				     .ytype = RVL_TYPE_U8, .wtype = RVL_TYPE_S8, .wscale = 0.002f,
				     .yscale = 0.03f };

		y = any_max_pool(q, qg_conv(q, NULL, y, &c));
	}
	qg_output(q, y);
}

/* Pools that read rows in INP and leave rows there give the bytes of the CPU and of memory. */
START_TEST(random_pools_in_cascades)
{
	const struct rivulet_compile_options off = { .no_cascade = true }, cpu = { .cpu_only = true };
	struct rivulet_board b = cascade_board(_i);

	for (int i = 0; i < random_cases(4); i++) {
		struct io io = { 0 };
		struct qg q;
		char what[64];

		qg_open(&q, 990000 + _i * 1000 + i);
		pooled_chain(&q);
		ck_assert_msg(!q.rc, "%s", q.err.msg);
		snprintf(what, sizeof(what), "pools %d on %s", i, b.name);
		interpret(&q, &io);
		run(&q, &io, &b, NULL, what);
		run(&q, &io, &b, &off, what);
		run(&q, &io, &b, &cpu, what);
		finish(&q, &io);
	}
}
END_TEST

/*
 * A pool between two convolutions reads its rows in INP and leaves its result there, whether its
 * windows begin above the rows by which they advance, or end below them.
 */
START_TEST(cascade_through_a_pool)
{
	const struct rivulet_compile_options off = { .no_cascade = true };
	static const struct qg_conv conv = { .m = 32, .kh = 3, .kw = 3, .pad = { 1, 1, 1, 1 },
					     .ytype = RVL_TYPE_U8, .wtype = RVL_TYPE_S8, .wscale = 0.002f,
					     .yscale = 0.03f };
	struct rivulet_board b = board_of(3);
	struct outcome with, without;
	struct io io = { 0 };
	struct rvl_tensor *x;
	struct qg q;

	qg_open(&q, 35);
	x = qg_tensor(&q, "x", RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, 16, 47, 46 } }, 0.02f, 100);
	qg_input(&q, x);
	x = qg_max_pool(&q, "pool", qg_conv(&q, "above", x, &conv), 3, 2, _i);
	qg_output(&q, qg_conv(&q, "below", x, &conv));
	ck_assert_msg(!q.rc, "%s", q.err.msg);
	interpret(&q, &io);
	with = run(&q, &io, &b, NULL, "pool");
	without = run(&q, &io, &b, &off, "pool");
	ck_assert_uint_eq(with.cascades, 2);
	ck_assert_uint_lt(with.cycles, without.cycles);
	finish(&q, &io);
}
END_TEST

/*
 * Depthwise and 1x1 convolutions in turn: INP has room for one of the values between the pairs, and the
 * result of each pair takes the place of what the pair reads.
 */
START_TEST(results_in_place_of_operands)
{
	static const struct qg_conv point = { .m = 256, .kh = 1, .kw = 1, .ytype = RVL_TYPE_U8,
					      .wtype = RVL_TYPE_S8, .wscale = 0.002f, .yscale = 0.03f };
	static const struct qg_conv deep = { .m = 256, .kh = 3, .kw = 3, .group = 256, .pad = { 1, 1, 1, 1 },
				.ytype = RVL_TYPE_U8, .wtype = RVL_TYPE_S8, .wscale = 0.01f, .yscale = 0.03f };
	struct rivulet_board b = cascade_board(2);
	struct io io = { 0 };
	struct rvl_tensor *x;
	struct qg q;

	ck_assert_str_eq(b.name, "zu3eg-256");
	b.inp_bytes = 4600 * b.tn;
	b.wgt_bytes = 65536;
	qg_open(&q, 36);
	x = qg_tensor(&q, "x", RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, 256, 19, 19 } }, 0.02f, 100);
	qg_input(&q, x);
	x = qg_conv(&q, NULL, x, &point);
	for (int i = 0; i < 3; i++)
		x = qg_conv(&q, NULL, qg_conv(&q, NULL, x, &deep), &point);
	qg_output(&q, x);
	ck_assert_msg(!q.rc, "%s", q.err.msg);
	interpret(&q, &io);
	ck_assert_uint_eq(run(&q, &io, &b, NULL, "pairs").kept, 3);
	finish(&q, &io);
}
END_TEST

/* cpu_only and the NPU give the same bytes, and explain names where each layer runs. */
START_TEST(explain_says_where)
{
	struct rivulet_board b = board_of(0);
	struct rivulet_compile_options cpu = { .cpu_only = true };
	struct rivulet_explain e;
	struct rivulet_blob text, json;
	struct rvl_err err = { "" };
	struct rvl_graph *g;
	struct io io = { 0 };
	struct qg q;

	qg_open(&q, 77);
	residual_block(&q, 0);
	interpret(&q, &io);
	ck_assert_uint_eq(run(&q, &io, &b, &cpu, "cpu").npu_steps, 0);
	ck_assert(!rvl_graph_clone(q.g, &g, &err));
	ck_assert(!rvl_compile_graph(g, &b, NULL, &text, &e, &err));
	rivulet_blob_free(&text);
	ck_assert_uint_eq(e.n_segments, 1);
	ck_assert_uint_eq(e.segments[0].macs, e.rows[0].macs + e.rows[1].macs + e.rows[2].macs);
	ck_assert_str_eq(e.rows[1].fused, "join");
	ck_assert(!rivulet_explain_text(&e, &text));
	ck_assert(!rivulet_explain_json(&e, &json));
	ck_assert_ptr_nonnull(strstr(text.data, "with join"));
	ck_assert_ptr_nonnull(strstr(json.data, "\"fused\": \"join\""));
	rivulet_blob_free(&text);
	rivulet_blob_free(&json);
	rivulet_explain_free(&e);
	finish(&q, &io);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lower");
	TCase *t = tcase_create("bits");

	if (recording())
		unlink(RECORD);
	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, no_costs, NULL);
	tcase_add_loop_test(t, random_convolutions, 0, GEOMETRIES);
	tcase_add_loop_test(t, random_boards, 0, 8);
	tcase_add_test(t, profile_records);
	tcase_add_loop_test(t, random_blocks, 0, GEOMETRIES);
	tcase_add_loop_test(t, classifier, 0, GEOMETRIES);
	tcase_add_loop_test(t, pools_and_tables, 0, GEOMETRIES);
	tcase_add_loop_test(t, averages_within_one, 0, GEOMETRIES);
	tcase_add_loop_test(t, beyond_the_fields, 0, GEOMETRIES);
	tcase_add_loop_test(t, fewer_dimensions, 0, GEOMETRIES);
	tcase_add_test(t, too_large_for_the_board);
	tcase_add_test(t, board_without_dense_mode);
	tcase_add_loop_test(t, random_cascades, 0, CASCADE_BOARDS);
	tcase_add_loop_test(t, trials_beyond_the_limit, 0, CASCADE_BOARDS);
	tcase_add_test(t, cascade_of_stripes);
	tcase_add_test(t, explain_says_where);
	suite_add_tcase(s, t);
	t = add_case(s, "flattened", 60, no_costs, NULL);
	tcase_add_loop_test(t, flattened_rows, 0, GEOMETRIES);
	t = tcase_create("pools");
	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, pool_over_short_tiles, 0, GEOMETRIES);
	tcase_add_loop_test(t, random_pools_in_cascades, 0, CASCADE_BOARDS);
	tcase_add_loop_test(t, cascade_through_a_pool, 0, 2);
	suite_add_tcase(s, t);
	t = tcase_create("kept");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, results_in_place_of_operands);
	suite_add_tcase(s, t);
	return run_suite(s);
}

/* SPDX-License-Identifier: MIT */
/*
 * Whole graphs: random mixtures of NPU segments and CPU steps run in every order that their data
 * dependencies allow, so that the memory plan must hold for each. Also the edge cases of inputs,
 * outputs and names.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "graph/interp.h"
#include "program/program.h"
#include "files.h"
#include "prog_exec.h"
#include "qgraph.h"
#include "suite.h"
#include "unit/onnx_text.h"

#define MAX_LIVE 64
#ifndef MUTANTS
#define MUTANTS 300
#endif

static struct rivulet_board board;

static void load_board(void)
{
	char why[256];

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
}

/* ---- random graphs ---- */

struct pool {
	struct qg q;
	struct rvl_tensor *t[MAX_LIVE];
	uint32_t n;
	bool moving; /* joins, slices and splits, too */
};

static struct rvl_tensor *pick(struct pool *p)
{
	return p->t[qg_range(&p->q, 0, p->n - 1)];
}

static struct rvl_tensor *like(struct pool *p, const struct rvl_tensor *x, struct rvl_shape shape,
			       bool same)
{
	enum rvl_type type = same ? x->type : qg_range(&p->q, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8;

	return qg_tensor(&p->q, NULL, type, shape, same ? x->quant.scale[0] : 0.03f,
			 same ? x->quant.zp[0] : qg_zp(&p->q, type));
}

static struct rvl_tensor *add_conv(struct pool *p, struct rvl_tensor *x)
{
	struct qg_conv c = {
		.m = qg_range(&p->q, 1, 24), .kh = 3, .kw = 3, .pad = { 1, 1, 1, 1 },
		.wtype = RVL_TYPE_S8, .bias = true, .per_channel = true,
		.ytype = qg_range(&p->q, 0, 1) ? RVL_TYPE_U8 : RVL_TYPE_S8, .wscale = 0.003f,
		.yscale = 0.03f,
	};

	if (qg_range(&p->q, 0, 1)) {
		c.kh = c.kw = 1;
		memset(c.pad, 0, sizeof(c.pad));
		/* the same channels, so that additions find an operand of the same shape */
		c.m = x->shape.dim[1];
	}
	if (p->moving && qg_range(&p->q, 0, 2)) { /* whole blocks of channels, of one type */
		c.m = 16 * qg_range(&p->q, 1, 3);
		c.ytype = RVL_TYPE_U8;
	}
	return qg_conv(&p->q, NULL, x, &c);
}

static struct rvl_tensor *add_binary(struct pool *p, struct rvl_tensor *x, enum rvl_op op)
{
	struct rvl_tensor *in[2] = { x, x }, *y;

	for (int i = 0; i < 20; i++) {
		struct rvl_tensor *other = pick(p);

		if (other != x && rvl_shape_equal(&other->shape, &x->shape)) {
			in[qg_range(&p->q, 0, 1)] = other;
			break;
		}
	}
	y = like(p, x, x->shape, false);
	qg_node(&p->q, op, NULL, 2, in, y);
	return y;
}

/*
 * Adds an operator with a broadcast operand: a constant or another value, with one element or one
 * for each channel.
 */
static struct rvl_tensor *add_broadcast(struct pool *p, struct rvl_tensor *x, enum rvl_op op)
{
	int64_t c = x->shape.dim[1];
	struct rvl_shape shapes[] = {
		{ 4, { 1, c, 1, 1 } }, { 3, { c, 1, 1 } },    { 1, { 1 } },
		{ 0, { 0 } },	       { 4, { 1, 1, 1, 1 } },
	};
	struct rvl_tensor *in[2], *b, *y;
	bool first = qg_range(&p->q, 0, 1);

	if (qg_range(&p->q, 0, 1)) {
		b = qg_weights(&p->q, RVL_TYPE_U8, shapes[qg_range(&p->q, 0, 4)], 1, 0, 0.02f, 130);
	} else {
		b = like(p, x, shapes[0], true);
		qg_node(&p->q, RVL_OP_GLOBAL_MAX_POOL, NULL, 1, &x, b);
	}
	in[first] = b;
	in[!first] = x;
	y = like(p, x, x->shape, false);
	qg_node(&p->q, op, NULL, 2, in, y);
	return y;
}

/* Adds an average pool, which runs on the CPU because the graph does not accept the NPU's. */
static struct rvl_tensor *add_average(struct pool *p, struct rvl_tensor *x, bool same)
{
	struct rvl_tensor *y = like(p, x, x->shape, same);
	struct rvl_node *n = qg_node(&p->q, RVL_OP_Q_AVERAGE_POOL, NULL, 1, &x, y);

	if (!n)
		return NULL;
	n->attr.kernel[0] = n->attr.kernel[1] = 3;
	for (int i = 0; i < 4; i++)
		n->attr.pad[i] = 1;
	return y;
}

static struct rvl_tensor *add_transpose(struct pool *p, struct rvl_tensor *x)
{
	static const int perm[3][4] = { { 0, 1, 3, 2 }, { 0, 2, 3, 1 }, { 0, 3, 1, 2 } };
	const int *how = perm[qg_range(&p->q, 0, 2)];
	struct rvl_shape s = x->shape;
	struct rvl_tensor *y;
	struct rvl_node *n;

	for (int i = 0; i < 4; i++)
		s.dim[i] = x->shape.dim[how[i]];
	y = like(p, x, s, true);
	n = qg_node(&p->q, RVL_OP_TRANSPOSE, NULL, 1, &x, y);
	if (!n)
		return NULL;
	n->attr.perm_rank = 4;
	for (int i = 0; i < 4; i++)
		n->attr.perm[i] = how[i];
	return y;
}

static struct rvl_tensor *add_reshape(struct pool *p, struct rvl_tensor *x)
{
	struct rvl_shape one = { 1, { 4 } }, s = x->shape;
	int64_t dim[4] = { s.dim[0], s.dim[2], s.dim[1], s.dim[3] };
	struct rvl_tensor *in[2] = { x, NULL }, *y;

	memcpy(s.dim, dim, sizeof(dim));
	y = like(p, x, s, true);
	if (!p->q.rc)
		p->q.rc =
			rvl_tensor_const(p->q.g, NULL, RVL_TYPE_S64, &one, dim, &in[1], &p->q.err);
	qg_node(&p->q, RVL_OP_RESHAPE, NULL, 2, in, y);
	return y;
}

/* A node of the table of descriptors whose attributes are numbers and lists. */
struct moved {
	const char *op, *attr[2];
	struct rvl_attr_value value[2];
};

static struct rvl_node *add_moved(struct pool *p, const struct moved *m, uint32_t n_in,
				  struct rvl_tensor **in)
{
	const struct rvl_op_def *def = rvl_op_find(NULL, m->op, 13);
	struct rvl_attr_value *v;
	struct rvl_node *n;

	ck_assert_ptr_nonnull(def);
	v = rvl_arena_array(p->q.g->arena, rvl_op_attrs(def) + 1, sizeof(*v));
	ck_assert_ptr_nonnull(v);
	for (uint32_t i = 0; i < rvl_op_attrs(def); i++)
		for (int k = 0; k < 2; k++)
			if (m->attr[k] && !strcmp(def->attrs[i].name, m->attr[k]))
				v[i] = m->value[k];
	ck_assert(!rvl_node_general(p->q.g, def, v, NULL, &n, &p->q.err));
	for (uint32_t i = 0; i < n_in; i++)
		ck_assert(!rvl_node_set_in(p->q.g, n, i, in[i], &p->q.err));
	return n;
}

static struct rvl_tensor *numbers(struct pool *p, uint32_t n, const int64_t *list)
{
	const struct rvl_shape s = { 1, { n } };
	struct rvl_tensor *t;

	ck_assert(!rvl_tensor_const(p->q.g, NULL, RVL_TYPE_S64, &s, list, &t, &p->q.err));
	return t;
}

/* Joins two to four values of the same type and, but along one axis, the same shape. */
static struct rvl_tensor *add_concat(struct pool *p, struct rvl_tensor *x)
{
	struct moved m = { "Concat", { "axis" }, { { .given = true, .i = qg_range(&p->q, 0, 3) } } };
	uint32_t n = 1, most = qg_range(&p->q, 2, 4);
	struct rvl_tensor *in[4] = { x }, *y;
	int axis = m.value[0].i < 3 ? 1 : (int)qg_range(&p->q, 0, 3);
	struct rvl_shape sum = x->shape;

	m.value[0].i = axis;
	for (int i = 0; i < 60 && n < most; i++) {
		struct rvl_tensor *other = pick(p);
		struct rvl_shape s = other->shape;

		s.dim[axis] = x->shape.dim[axis];
		if (other->type != x->type || !rvl_shape_equal(&s, &x->shape))
			continue;
		sum.dim[axis] += other->shape.dim[axis];
		in[n++] = other;
	}
	y = like(p, x, sum, true);
	rvl_node_set_out(add_moved(p, &m, n, in), 0, y);
	return y;
}

/* A part of one axis, sometimes backwards. */
static struct rvl_tensor *add_slice(struct pool *p, struct rvl_tensor *x)
{
	const struct moved m = { .op = "Slice" };
	int64_t axis = qg_range(&p->q, 0, 3) ? 1 : qg_range(&p->q, 0, 3), dim = x->shape.dim[axis];
	int64_t from = qg_range(&p->q, 0, dim - 1), to = qg_range(&p->q, from + 1, dim), step = 1;
	struct rvl_tensor *in[5] = { x }, *y;
	struct rvl_shape s = x->shape;

	s.dim[axis] = to - from;
	if (!qg_range(&p->q, 0, 5)) {
		int64_t first = from;

		step = -1;
		from = to - 1;
		to = first ? first - 1 : INT64_MIN + 1;
	}
	in[1] = numbers(p, 1, &from);
	in[2] = numbers(p, 1, &to);
	in[3] = numbers(p, 1, &axis);
	in[4] = numbers(p, 1, &step);
	y = like(p, x, s, true);
	rvl_node_set_out(add_moved(p, &m, 5, in), 0, y);
	return y;
}

/* Two parts along an axis; the first goes into the pool beside the second. */
static struct rvl_tensor *add_split(struct pool *p, struct rvl_tensor *x)
{
	int64_t axis = qg_range(&p->q, 0, 3) ? 1 : qg_range(&p->q, 0, 3), size[2];
	const struct moved m = { "Split", { "axis" }, { { .given = true, .i = axis } } };
	struct rvl_tensor *in[2] = { x, NULL }, *y[2];
	struct rvl_shape s = x->shape;
	struct rvl_node *n;

	if (x->shape.dim[axis] < 2)
		return add_slice(p, x);
	size[0] = qg_range(&p->q, 1, x->shape.dim[axis] - 1);
	size[1] = x->shape.dim[axis] - size[0];
	in[1] = numbers(p, 2, size);
	n = add_moved(p, &m, 2, in);
	for (uint32_t i = 0; i < 2; i++) {
		s.dim[axis] = size[i];
		y[i] = like(p, x, s, true);
		rvl_node_set_out(n, i, y[i]);
	}
	p->t[p->n++] = y[0];
	return y[1];
}

static void grow(struct pool *p)
{
	struct rvl_tensor *x = pick(p), *y;

	switch (qg_range(&p->q, 0, p->moving ? 20 : 11)) {
	case 12:
	case 13:
	case 14:
	case 15:
		y = add_concat(p, x);
		break;
	case 16:
	case 17:
		y = add_slice(p, x);
		break;
	case 18:
	case 19:
		y = add_split(p, x);
		break;
	case 10:
		y = add_broadcast(p, x, RVL_OP_Q_ADD);
		break;
	case 11:
		y = add_broadcast(p, x, RVL_OP_Q_MUL);
		break;
	case 0:
		y = add_average(p, x, false);
		break;
	case 1:
		y = add_transpose(p, x);
		break;
	case 2:
		y = add_reshape(p, x);
		break;
	case 3:
	case 4:
		y = add_binary(p, x, RVL_OP_Q_ADD);
		break;
	case 5:
		y = add_binary(p, x, RVL_OP_Q_MUL);
		break;
	case 6:
		y = x->shape.dim[2] > 2 && x->shape.dim[3] > 2 ?
			    qg_max_pool(&p->q, NULL, x, 2, 1, 0) :
			    add_conv(p, x);
		break;
	default:
		y = add_conv(p, x);
		break;
	}
	ck_assert_msg(!p->q.rc, "%s", p->q.err.msg);
	p->t[p->n++] = y;
}

/* Builds a graph of @nodes operators. Every value without a reader is an output. */
static void random_graph(struct pool *p, uint64_t seed, uint32_t nodes)
{
	uint32_t inputs;

	p->n = 0;
	qg_open(&p->q, seed);
	inputs = qg_range(&p->q, 1, 2);
	for (uint32_t i = 0; i < inputs; i++) {
		struct rvl_shape s = { 4,
				       { 1, qg_range(&p->q, 1, 20), qg_range(&p->q, 3, 9),
					 qg_range(&p->q, 3, 9) } };

		p->t[p->n] =
			qg_tensor(&p->q, i ? "b" : "a", i ? RVL_TYPE_S8 : RVL_TYPE_U8, s, 0.03f, 3);
		qg_input(&p->q, p->t[p->n++]);
	}
	for (uint32_t i = 0; i < nodes; i++)
		grow(p);
	for (uint32_t i = inputs; i < p->n; i++)
		if (!p->t[i]->n_users || !qg_range(&p->q, 0, 9))
			qg_output(&p->q, p->t[i]);
	ck_assert_msg(!p->q.rc, "%s", p->q.err.msg);
}

/* ---- running in any order ---- */

struct io {
	void *data[MAX_LIVE];
	size_t size[MAX_LIVE];
};

static void reference(struct qg *q, struct io *io)
{
	struct rvl_graph *g = q->g;
	struct rvl_interp *it;

	memset(io, 0, sizeof(*io));
	ck_assert_msg(!rvl_shape_infer(g, &q->err), "%s", q->err.msg);
	ck_assert_msg(!rvl_interp_new(g, true, &it, &q->err), "%s", q->err.msg);
	for (uint32_t i = 0; i < g->n_inputs; i++) {
		io->size[i] = rvl_tensor_bytes(g->inputs[i]);
		io->data[i] = malloc(io->size[i]);
		for (size_t j = 0; j < io->size[i]; j++)
			((uint8_t *)io->data[i])[j] = qg_random(q);
		ck_assert(!rvl_interp_set(it, i, io->data[i], io->size[i], NULL));
	}
	ck_assert_msg(!rvl_interp_run(it, &q->err), "%s", q->err.msg);
	for (uint32_t i = 0; i < g->n_outputs; i++) {
		uint32_t o = g->n_inputs + i;

		io->size[o] = rvl_tensor_bytes(g->outputs[i]);
		io->data[o] = malloc(io->size[o]);
		memcpy(io->data[o], rvl_interp_data(it, g->outputs[i]), io->size[o]);
	}
	rvl_interp_free(it);
}

/* Bytes of a memory: an input, an output or the arena. */
struct bytes {
	uint64_t memory, lo, hi;
};

static struct bytes bytes_of(const struct rivulet_program *p, uint32_t tensor)
{
	const struct rivulet_tensor *t = &rivulet_program_tensors(p)[tensor];
	bool io = t->place == RIVULET_PLACE_INPUT || t->place == RIVULET_PLACE_OUTPUT;
	uint64_t lo = io ? t->at : t->offset;

	return (struct bytes){ (uint64_t)t->place << 32 | (io ? t->offset : 0), lo, lo + t->size };
}

static struct bytes common(struct bytes a, struct bytes b)
{
	if (a.memory != b.memory)
		return (struct bytes){ 0 };
	return (struct bytes){ a.memory, a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi };
}

/*
 * Whether a step after @j and before @i writes all of @b, so that @i does not read what @j wrote. A
 * tensor with pitches may have gaps.
 */
static bool written_again(const struct rivulet_program *p, uint32_t j, uint32_t i, struct bytes b)
{
	const struct rivulet_step *s = rivulet_program_steps(p);
	const struct rivulet_tensor *t = rivulet_program_tensors(p);

	for (uint32_t k = j + 1; k < i; k++)
		for (uint32_t w = 0; w < s[k].nwrite; w++) {
			struct bytes c = common(b, bytes_of(p, s[k].write[w]));

			if (!(t[s[k].write[w]].flags & RIVULET_TENSOR_PITCHED) && c.memory && c.lo == b.lo && c.hi == b.hi)
				return true;
		}
	return false;
}

/* Whether step @i reads bytes that step @j makes: nothing else orders steps here. */
static bool reads_from(const struct rivulet_program *p, uint32_t i, uint32_t j)
{
	const struct rivulet_step *s = rivulet_program_steps(p);

	for (uint32_t w = 0; w < s[j].nwrite; w++)
		for (uint32_t r = 0; r < s[i].nread; r++) {
			struct bytes b = common(bytes_of(p, s[j].write[w]), bytes_of(p, s[i].read[r]));

			if (b.lo < b.hi && !written_again(p, j, i, b))
				return true;
		}
	return false;
}

static bool ready(const struct rivulet_program *p, uint32_t i, const bool *done)
{
	for (uint32_t j = 0; j < i; j++)
		if (!done[j] && reads_from(p, i, j))
			return false;
	return true;
}

/* Runs the steps in a random order among those whose operands are ready. */
static int run_shuffled(struct prog_exec *x, struct qg *q)
{
	const struct rivulet_step *s = rivulet_program_steps(x->p);
	bool done[256] = { false };
	int rc = 0;

	ck_assert_uint_le(x->p->steps, 256);
	for (uint32_t left = x->p->steps; left && !rc; left--) {
		uint32_t i;

		do {
			i = qg_range(q, 0, x->p->steps - 1);
		} while (done[i] || !ready(x->p, i, done));
		rc = s[i].kind == RIVULET_STEP_NPU ? prog_npu_step(x, &s[i]) :
						     prog_cpu_step(x, &s[i]);
		done[i] = true;
	}
	return rc;
}

static void check_program(struct qg *q, const struct io *io, const struct rivulet_blob *program,
			  uint64_t seed)
{
	uint32_t ins = q->g->n_inputs, outs = q->g->n_outputs;
	struct prog_exec x;

	for (int turn = 0; turn < 3; turn++) {
		ck_assert(!prog_open(&x, &board, NULL, program->data));
		for (uint32_t i = 0; i < ins; i++)
			x.io[i] = io->data[i];
		for (uint32_t i = 0; i < outs; i++)
			x.io[ins + i] = calloc(1, io->size[ins + i]);
		ck_assert_msg(!(turn ? run_shuffled(&x, q) : prog_run(&x)), "seed %llu: %s",
			      (unsigned long long)seed, x.err);
		for (uint32_t i = 0; i < outs; i++) {
			ck_assert_msg(!memcmp(x.io[ins + i], io->data[ins + i], io->size[ins + i]),
				      "seed %llu turn %d: output %u differs",
				      (unsigned long long)seed, turn, i);
			free(x.io[ins + i]);
		}
		prog_close(&x, true);
	}
}

static uint64_t compile_with(struct qg *q, uint64_t seed, const struct io *io,
			     const struct rivulet_compile_options *opt)
{
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	struct rvl_graph *g;
	uint64_t arena;
	char why[256] = "";

	ck_assert(!rvl_graph_clone(q->g, &g, &err));
	ck_assert_msg(!rvl_compile_graph(g, &board, opt, &program, NULL, &err), "seed %llu: %s",
		      (unsigned long long)seed, err.msg);
	ck_assert_msg(!rivulet_program_check(program.data, program.size, why, sizeof(why)),
		      "seed %llu: %s", (unsigned long long)seed, why);
	check_program(q, io, &program, seed);
	arena = ((const struct rivulet_program *)program.data)->arena_size;
	rivulet_blob_free(&program);
	return arena;
}

/*
 * For the board and for the CPU alone, with layouts and without. Returns the bytes of the arena of the
 * board's program with layouts.
 */
static uint64_t compile_and_check(struct qg *q, uint64_t seed)
{
	const struct rivulet_compile_options cpu = { .cpu_only = true };
	const struct rivulet_compile_options off[] = { { .no_layouts = true },
						       { .no_layouts = true, .cpu_only = true } };
	struct io io;
	uint64_t arena;

	reference(q, &io);
	arena = compile_with(q, seed, &io, NULL);
	compile_with(q, seed, &io, &cpu);
	compile_with(q, seed, &io, &off[seed % 2]);
	for (uint32_t i = 0; i < q->g->n_inputs + q->g->n_outputs; i++)
		free(io.data[i]);
	rvl_graph_free(q->g);
	return arena;
}

/*
 * The results are right in every order of the steps, so that no arena is too small. Values that may
 * share bytes do so: the arenas of all graphs together stay within a budget, which a better plan may
 * lower.
 */
START_TEST(random_graphs)
{
	static const uint64_t most[] = { 47680, 57408, 47680, 49792, 44352,
					 54336, 63104, 61184, 64704, 49280 };
	uint64_t arenas = 0;

	for (int i = 0; i < random_cases(30); i++) {
		uint64_t seed = _i * 1000 + i;
		struct pool p = { .moving = false };

		random_graph(&p, seed, 3 + seed % 20);
		arenas += compile_and_check(&p.q, seed);
	}
	ck_assert_uint_le(arenas, most[_i]);
}
END_TEST

/*
 * The same with joins, slices and splits between the layers: parts of values lie where they belong,
 * written and read by CPU and NPU, and their stores live as long as any part.
 */
START_TEST(random_views)
{
	for (int i = 0; i < random_cases(30); i++) {
		uint64_t seed = 100000 + _i * 1000 + i;
		struct pool p = { .moving = true };

		random_graph(&p, seed, 3 + seed % 22);
		compile_and_check(&p.q, seed);
	}
}
END_TEST

static struct rvl_tensor *sized_input(struct pool *p, const char *name, int64_t channels)
{
	struct rvl_tensor *t = qg_tensor(&p->q, name, RVL_TYPE_U8,
					 (struct rvl_shape){ 4, { 1, channels, 6, 6 } }, 0.03f, 7);

	qg_input(&p->q, t);
	return t;
}

/* A step on the CPU with a result of the same type. */
static struct rvl_tensor *cpu_step(struct pool *p, struct rvl_tensor *x)
{
	return add_average(p, x, true);
}

/* The first 8 channels. */
static struct rvl_tensor *head(struct pool *p, struct rvl_tensor *x)
{
	const int64_t first = 0, past = 8, axis = 1;
	struct rvl_tensor *in[4] = { x, numbers(p, 1, &first), numbers(p, 1, &past),
				     numbers(p, 1, &axis) };
	const struct moved m = { .op = "Slice" };
	struct rvl_tensor *y = like(p, x, (struct rvl_shape){ 4, { 1, 8, 6, 6 } }, true);

	rvl_node_set_out(add_moved(p, &m, 4, in), 0, y);
	return y;
}

/*
 * A joined value has two writers; the value before the first of them is no ancestor of the second.
 * So its bytes are not those of the joined value, whichever writer the runtime starts first.
 */
START_TEST(parts_of_two_makers)
{
	const struct moved m = { "Concat", { "axis" }, { { .given = true, .i = 1 } } };
	struct rvl_tensor *before, *in[2], *both, *other;
	struct pool p = { .n = 0 };

	qg_open(&p.q, 100 + _i);
	before = cpu_step(&p, sized_input(&p, "a", 16));
	other = sized_input(&p, "b", 8);
	in[0] = cpu_step(&p, cpu_step(&p, head(&p, before)));
	in[1] = cpu_step(&p, other);
	both = like(&p, before, (struct rvl_shape){ 4, { 1, 16, 6, 6 } }, true);
	rvl_node_set_out(add_moved(&p, &m, 2, in), 0, both);
	qg_output(&p.q, cpu_step(&p, both));
	ck_assert_msg(!p.q.rc, "%s", p.q.err.msg);
	compile_and_check(&p.q, 100 + _i);
}
END_TEST

/* Two convolutions and a join of their results, of which @halves says whether one is split first. */
static void join(struct pool *p, bool halves, bool twice)
{
	const struct moved concat = { "Concat", { "axis" }, { { .given = true, .i = 1 } } };
	const struct moved split = { "Split", { "axis" }, { { .given = true, .i = 1 } } };
	const struct qg_conv c = { .m = 32, .kh = 1, .kw = 1, .wtype = RVL_TYPE_S8, .bias = true,
				   .ytype = RVL_TYPE_U8, .wscale = 0.003f, .yscale = 0.03f };
	struct rvl_tensor *x = sized_input(p, "a", 16), *in[3], *y, *whole = qg_conv(&p->q, NULL, x, &c);
	struct rvl_shape s = { 4, { 1, 16, 6, 6 } };
	struct rvl_node *n;

	in[0] = in[1] = whole;
	in[2] = qg_conv(&p->q, NULL, x, &c);
	if (halves) {
		n = add_moved(p, &split, 1, &whole);
		for (int i = 0; i < 2; i++) {
			in[i] = like(p, whole, s, true);
			rvl_node_set_out(n, i, in[i]);
		}
	}
	if (twice)
		in[1] = in[0];
	s.dim[1] = in[0]->shape.dim[1] + in[1]->shape.dim[1] + 32;
	y = like(p, whole, s, true);
	rvl_node_set_out(add_moved(p, &concat, 3, in), 0, y);
	qg_output(&p->q, qg_conv(&p->q, NULL, y, &c));
	ck_assert_msg(!p->q.rc, "%s", p->q.err.msg);
}

/*
 * Convolutions store into the joined value, also where one is split before: nothing is copied, and all
 * is one step of the NPU. What occurs twice is copied once. Without views every operator is a step.
 */
START_TEST(joins_without_copies)
{
	static const struct {
		bool halves, twice;
		uint32_t copies, steps;
		uint64_t bytes;
	} want[] = { { false, true, 1, 1, 32 * 36 }, { true, false, 0, 1, 0 }, { true, true, 2, 1, 2 * 16 * 36 } };
	const struct rivulet_compile_options off = { .no_views = true };
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	struct pool p = { .n = 0 };

	qg_open(&p.q, 5);
	join(&p, want[_i].halves, want[_i].twice);
	compile_and_check(&p.q, 5);
	for (int views = 0; views < 2; views++) {
		struct rivulet_blob program = { 0 };

		qg_open(&p.q, 5);
		join(&p, want[_i].halves, want[_i].twice);
		ck_assert_msg(!rvl_compile_graph(p.q.g, &board, views ? NULL : &off, &program, &e, &err),
			      "%s", err.msg);
		if (views) {
			ck_assert_uint_eq(e.copies, want[_i].copies);
			ck_assert_uint_eq(e.copy_bytes, want[_i].bytes);
			ck_assert_uint_eq(((const struct rivulet_program *)program.data)->steps,
					  want[_i].steps);
			ck_assert_uint_ge(e.views, 2);
		} else {
			ck_assert_uint_eq(e.copies, 1 + want[_i].halves);
			ck_assert_uint_eq(e.views, 0);
		}
		rivulet_explain_free(&e);
		rivulet_blob_free(&program);
	}
}
END_TEST

/*
 * Joins within joins, whose parts the CPU and the NPU make: the operands that only the joins name are
 * more than a step can read. The convolution before them waits for none of them, and each step
 * writes its own part of the joined value.
 */
static void wide_join(struct pool *p)
{
	const struct moved m = { "Concat", { "axis" }, { { .given = true, .i = 1 } } };
	const struct qg_conv c = { .m = 16, .kh = 1, .kw = 1, .wtype = RVL_TYPE_S8, .bias = true,
				   .ytype = RVL_TYPE_U8, .wscale = 0.003f, .yscale = 0.03f };
	struct rvl_tensor *x, *y, *in[20];

	x = cpu_step(p, sized_input(p, "a", 16));
	y = qg_conv(&p->q, NULL, x, &c);
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < 19; i++)
			in[i] = cpu_step(p, x);
		in[19] = y;
		y = like(p, x, (struct rvl_shape){ 4, { 1, 16 * (1 + 19 * (turn + 1)), 6, 6 } }, true);
		rvl_node_set_out(add_moved(p, &m, 20, in), 0, y);
	}
	qg_output(&p->q, cpu_step(p, y));
	ck_assert_msg(!p->q.rc, "%s", p->q.err.msg);
}

START_TEST(joins_of_many_makers)
{
	struct rivulet_blob program = { 0 };
	const struct rivulet_program *f;
	const struct rivulet_step *s;
	struct rvl_err err = { "" };
	struct pool p = { .n = 0 };
	uint32_t npu = 0;

	qg_open(&p.q, 6);
	wide_join(&p);
	ck_assert_msg(!rvl_compile_graph(p.q.g, &board, NULL, &program, NULL, &err), "%s", err.msg);
	f = program.data;
	s = rivulet_program_steps(f);
	for (uint32_t i = 0; i < f->steps; i++) {
		if (s[i].kind != RIVULET_STEP_NPU)
			continue;
		npu++;
		ck_assert_uint_eq(s[i].nread, 1);
		ck_assert_uint_eq(s[i].nwrite, 1);
		ck_assert_uint_eq(bytes_of(f, s[i].write[0]).hi - bytes_of(f, s[i].write[0]).lo, 16 * 36);
	}
	ck_assert_uint_eq(npu, 1);
	rivulet_blob_free(&program);
	qg_open(&p.q, 6);
	wide_join(&p);
	compile_and_check(&p.q, 6);
}
END_TEST

/* ---- edge cases ---- */

static struct rvl_tensor *small_input(struct qg *q, const char *name)
{
	struct rvl_tensor *t =
		qg_tensor(q, name, RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, 5, 4, 3 } }, 0.03f, 7);

	qg_input(q, t);
	return t;
}

/* An input that is an output, an output that is requested twice, and a value with both names. */
START_TEST(outputs_without_a_maker)
{
	struct pool p = { .n = 0 };
	struct rvl_tensor *x, *y;

	qg_open(&p.q, 1);
	x = small_input(&p.q, "x");
	y = add_conv(&p, x);
	qg_output(&p.q, x);
	qg_output(&p.q, y);
	qg_output(&p.q, add_reshape(&p, y));
	qg_output(&p.q, add_reshape(&p, x));
	ck_assert_msg(!p.q.rc, "%s", p.q.err.msg);
	compile_and_check(&p.q, 1);
}
END_TEST

/* Inputs and outputs keep the model's names, even where the compiler inserts a copy. */
START_TEST(names_survive)
{
	struct rivulet_blob program = { 0 };
	const struct rivulet_program *f;
	struct rvl_err err = { "" };
	struct pool p = { .n = 0 };

	qg_open(&p.q, 1);
	qg_output(&p.q, small_input(&p.q, "both"));
	ck_assert_msg(!rvl_compile_graph(p.q.g, &board, NULL, &program, NULL, &err), "%s", err.msg);
	f = program.data;
	ck_assert_str_eq(rivulet_program_string(f, rivulet_program_tensors(f)[0].name), "both");
	ck_assert_str_eq(rivulet_program_string(f, rivulet_program_tensors(f)[1].name), "both");
	rivulet_blob_free(&program);
}
END_TEST

/* More inputs than the device has slots, and more operands than a step can name. */
START_TEST(many_inputs)
{
	struct pool p = { .n = 0 };

	qg_open(&p.q, 3);
	for (int i = 0; i < 20; i++) {
		char name[16];

		snprintf(name, sizeof(name), "in%d", i);
		p.t[p.n++] = small_input(&p.q, name);
	}
	for (int i = 0; i < 20; i++)
		qg_output(&p.q, add_conv(&p, p.t[i]));
	ck_assert_msg(!p.q.rc, "%s", p.q.err.msg);
	compile_and_check(&p.q, 3);
}
END_TEST

START_TEST(many_values_between_segments)
{
	struct pool p = { .n = 0 };
	struct rvl_tensor *x, *sum;

	qg_open(&p.q, 4);
	x = small_input(&p.q, "x");
	sum = add_average(&p, x, false);
	for (int i = 0; i < 20; i++) /* twenty convolutions in one segment, each read by the CPU */
		p.t[p.n++] = add_average(&p, add_conv(&p, x), false);
	for (int i = 0; i < 20; i++) {
		struct rvl_tensor *in[2] = { sum, p.t[i] };

		if (!rvl_shape_equal(&sum->shape, &p.t[i]->shape)) {
			qg_output(&p.q, p.t[i]);
			continue;
		}
		sum = like(&p, sum, sum->shape, false);
		qg_node(&p.q, RVL_OP_Q_ADD, NULL, 2, in, sum);
	}
	qg_output(&p.q, sum);
	ck_assert_msg(!p.q.rc, "%s", p.q.err.msg);
	compile_and_check(&p.q, 4);
}
END_TEST

/* ---- the public entry ---- */

START_TEST(garbage_is_one_error)
{
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	uint8_t junk[256];

	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = i * 37;
	ck_assert_int_lt(rivulet_compile(junk, sizeof(junk), &board, NULL, &program, NULL, &err),
			 0);
	ck_assert_uint_gt(strlen(err.msg), 5);
	ck_assert_ptr_null(program.data);
	ck_assert_int_lt(rivulet_explain_model(junk, sizeof(junk), &board, NULL, &e, &err), 0);
}
END_TEST

/* onnxruntime computes these in float (docs/numerics.md 6), so results may differ by 1. */
static int allowed(const char *name)
{
	return !strncmp(name, "relu_any", 8) || !strncmp(name, "clip_binding", 12) ||
	       !strncmp(name, "batch_norm", 10);
}

static void compare_bytes(const char *name, const char *where, const uint8_t *have,
			  const uint8_t *want, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(abs((int8_t)(have[i] - want[i])) <= allowed(name),
			      "%s on %s: byte %zu is %u, expected %u", name, where, i, have[i],
			      want[i]);
}

/* Compares one model of tests/data/qdq on one board with onnxruntime's recorded result. */
static void run_recorded(const char *name, const char *where)
{
	static const char *const part[] = { "model.onnx", "input_0.npy", "expected_0.npy" };
	size_t size[3], in_bytes, want_bytes;
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	const uint8_t *want;
	struct rivulet_board b;
	struct prog_exec x;
	uint8_t *file[3];
	char path[256];

	ck_assert(!rivulet_board_load(&b, where, path, sizeof(path)));
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "tests/data/qdq/%s/%s", name, part[i]);
		file[i] = read_file(path, &size[i]);
	}
	ck_assert_msg(!rivulet_compile(file[0], size[0], &b, NULL, &program, NULL, &err), "%s: %s",
		      name, err.msg);
	ck_assert(!prog_open(&x, &b, NULL, program.data));
	x.io[0] = (void *)(uintptr_t)npy_data(file[1], size[1], &in_bytes);
	want = npy_data(file[2], size[2], &want_bytes);
	ck_assert_uint_eq(rivulet_program_tensors(x.p)[0].size, in_bytes);
	ck_assert_uint_eq(rivulet_program_tensors(x.p)[1].size, want_bytes);
	x.io[1] = calloc(1, want_bytes);
	ck_assert_msg(!prog_run(&x), "%s: %s", name, x.err);
	compare_bytes(name, where, x.io[1], want, want_bytes);
	free(x.io[1]);
	prog_close(&x, true);
	rivulet_blob_free(&program);
	for (int i = 0; i < 3; i++)
		free(file[i]);
}

START_TEST(recorded_models_equal_onnxruntime)
{
	static const char *const names[] = {
		"add_const_u8",
		"batch_norm_s8",
		"clip_binding_s8",
		"conv_dilated_s8",
		"conv_float_bias_u8",
		"conv_grouped_s8",
		"conv_large_u8",
		"conv_relu_u8",
		"conv_strided_s8",
		"depthwise_clip_u8",
		"gap_gemm_s8",
		"matmul_s8",
		"mlp_u8",
		"pools_u8",
		"qlinear_s8",
		"qlinear_u8",
		"relu_any_zero_point_u8",
		"residual_s8",
		"residual_u8",
		"transpose_s8",
	};
	static const char *const boards[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		run_recorded(names[i], boards[_i]);
}
END_TEST

/* A model with a few changed bytes gives one error or a valid program. */
static void compile_mutant(struct qg *q, const uint8_t *model, size_t size)
{
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	uint8_t *m = malloc(size);
	char why[256] = "";
	int rc;

	memcpy(m, model, size);
	for (int64_t n = qg_range(q, 1, 4); n; n--)
		m[qg_range(q, 0, size - 1)] ^= 1u << qg_range(q, 0, 7);
	rc = rivulet_compile(m, size - (qg_range(q, 0, 9) ? 0 : qg_range(q, 0, size - 1)), &board,
			     NULL, &program, NULL, &err);
	if (rc)
		ck_assert_uint_gt(strlen(err.msg), 5);
	else
		ck_assert_msg(!rivulet_program_check(program.data, program.size, why, sizeof(why)),
			      "%s", why);
	rivulet_blob_free(&program);
	free(m);
}

START_TEST(mutants_are_refused_or_sound)
{
	static const char *const names[] = { "residual_u8", "pools_u8",	       "mlp_u8",
					     "qlinear_s8",  "conv_grouped_s8", "transpose_s8" };
	struct qg q = { .seed = 99 };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[256];
		size_t size;
		void *model;

		snprintf(path, sizeof(path), "tests/data/qdq/%s/model.onnx", names[i]);
		model = read_file(path, &size);
		for (int k = 0; k < random_cases(MUTANTS); k++)
			compile_mutant(&q, model, size);
		free(model);
	}
}
END_TEST

/*
 * Every board gets a program of both demo models with one NPU step, and compiling twice gives the
 * same account.
 */
START_TEST(every_board_compiles_the_demo_models)
{
	static const char *const boards[] = { "zu3eg-64", "zu3eg-128", "zu3eg-256", "cyclonev-64",
					      "sc-edge", "dense-16x16", "zcu102-binary",
					      "cyclonev-64-nodsp", "zu3eg-64-planes" };
	static const char *const models[] = { "models/lenet.onnx", "models/resnet.onnx" };

	for (int m = 0; m < 2; m++) {
		size_t size;
		void *onnx = read_file(models[m], &size);

		for (int i = 0; i < 9; i++) {
			struct rivulet_blob program = { 0 }, text, json;
			struct rivulet_explain e, f;
			struct rivulet_board b;
			struct rvl_err err = { "" };
			char why[256];

			ck_assert(!rivulet_board_load(&b, boards[i], why, sizeof(why)));
			ck_assert_msg(!rivulet_compile(onnx, size, &b, NULL, &program, &e, &err),
				      "%s", err.msg);
			ck_assert_msg(!rivulet_program_check(program.data, program.size, why, 256),
				      "%s", why);
			ck_assert_uint_eq(e.n_segments, 1);
			ck_assert(!rivulet_explain_model(onnx, size, &b, NULL, &f, &err));
			ck_assert_uint_eq(f.segments[0].cycles, e.segments[0].cycles);
			ck_assert(!rivulet_explain_text(&e, &text) &&
				  !rivulet_explain_json(&e, &json));
			rivulet_blob_free(&text);
			rivulet_blob_free(&json);
			rivulet_explain_free(&e);
			rivulet_explain_free(&f);
			rivulet_blob_free(&program);
		}
		free(onnx);
	}
}
END_TEST

static uint64_t products(const char *path, const struct rivulet_compile_options *opt)
{
	struct rivulet_blob program;
	struct rivulet_board b;
	struct rvl_err err = { "" };
	uint64_t sum = 0;
	char why[256];
	size_t size;
	void *onnx = read_file(path, &size);

	ck_assert_msg(!rivulet_board_load(&b, "zu3eg-64", why, sizeof(why)), "%s", why);
	ck_assert_msg(!rivulet_compile(onnx, size, &b, opt, &program, NULL, &err), "%s", err.msg);
	for (uint32_t i = 0; i < ((struct rivulet_program *)program.data)->steps; i++)
		sum += rivulet_program_steps(program.data)[i].macs;
	rivulet_blob_free(&program);
	free(onnx);
	return sum;
}

/* The runtime executes small steps on the CPU. Their products are counted like those of the NPU. */
START_TEST(cpu_steps_know_their_products)
{
	const struct rivulet_compile_options cpu = { .cpu_only = true };

	ck_assert_uint_eq(products("models/lenet.onnx", NULL), 416520);
	ck_assert_uint_eq(products("models/lenet.onnx", &cpu), 416520);
}
END_TEST

/* Bytes that the model only moves have no scale in the program, wherever they are moved. */
START_TEST(moved_bytes_have_no_scale)
{
	struct pb model = ot_model("in x u8 1,3,4,4; out y u8 1,48; Flatten x -> y", 13);
	struct rivulet_blob program = { 0 };
	const struct rivulet_tensor *t;
	struct rvl_err err;

	ck_assert_msg(!rivulet_compile(model.p, model.n, &board, NULL, &program, NULL, &err), "%s",
		      err.msg);
	t = rivulet_program_tensors(program.data);
	ck_assert_float_eq(t[0].scale, 0);
	ck_assert_float_eq(t[1].scale, 0);
	rivulet_blob_free(&program);
	free(model.p);
}
END_TEST

/* The same model and options give the same file, byte for byte, because caches depend on it. */
START_TEST(compiling_is_deterministic)
{
	struct rivulet_blob a = { 0 }, b = { 0 };
	struct rvl_err err = { "" };
	size_t size;
	void *onnx = read_file("models/lenet.onnx", &size);

	ck_assert(!rivulet_compile(onnx, size, &board, NULL, &a, NULL, &err));
	ck_assert(!rivulet_compile(onnx, size, &board, NULL, &b, NULL, &err));
	ck_assert_uint_eq(a.size, b.size);
	ck_assert_mem_eq(a.data, b.data, a.size);
	rivulet_blob_free(&a);
	rivulet_blob_free(&b);
	free(onnx);
}
END_TEST

/* The explanation of a model that cannot be compiled names the operator and the reason. */
START_TEST(unsupported_is_named)
{
	struct rivulet_explain e;
	struct rvl_backend be = { .board = &board, .opt = &(struct rivulet_compile_options){ 0 } };
	struct rivulet_blob text;
	struct pool p = { .n = 0 };
	struct rvl_tensor *x;
	struct rvl_node *n;

	qg_open(&p.q, 1);
	x = small_input(&p.q, "x");
	n = qg_node(&p.q, RVL_OP_UNSUPPORTED, "strange", 1, &x, like(&p, x, x->shape, true));
	ck_assert_ptr_nonnull(n);
	n->op_type = "Wobble";
	n->reason = "nobody knows it";
	n->name = "a\x1b[31m\xff\xc3\xa4\xed\xa0\x80\"";
	qg_output(&p.q, add_conv(&p, n->out[0]));
	be.g = p.q.g;
	ck_assert(!rvl_explain_nodes(&be, &e));
	ck_assert_uint_eq(e.n_rows, 2);
	ck_assert_str_eq(e.rows[0].where, "none");
	ck_assert_str_eq(e.rows[0].node, "a?[31m?\xc3\xa4???\"");
	ck_assert_str_eq(e.rows[0].op, "Wobble");
	ck_assert_str_eq(e.rows[0].reason, "nobody knows it");
	ck_assert_str_eq(e.rows[1].where, "npu");
	ck_assert(!rivulet_explain_text(&e, &text));
	ck_assert_ptr_nonnull(strstr(text.data, "nobody knows it"));
	rivulet_blob_free(&text);
	rivulet_explain_free(&e);
	rvl_graph_free(p.q.g);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("compile");
	TCase *t = tcase_create("graphs");

	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, load_board, NULL);
	tcase_add_loop_test(t, random_graphs, 0, 10);
	tcase_add_loop_test(t, random_views, 0, 10);
	tcase_add_loop_test(t, parts_of_two_makers, 0, 8);
	tcase_add_loop_test(t, joins_without_copies, 0, 3);
	tcase_add_test(t, joins_of_many_makers);
	tcase_add_test(t, cpu_steps_know_their_products);
	tcase_add_test(t, outputs_without_a_maker);
	tcase_add_test(t, names_survive);
	tcase_add_test(t, many_inputs);
	tcase_add_test(t, many_values_between_segments);
	tcase_add_test(t, garbage_is_one_error);
	tcase_add_loop_test(t, recorded_models_equal_onnxruntime, 0, 3);
	tcase_add_test(t, mutants_are_refused_or_sound);
	tcase_add_test(t, every_board_compiles_the_demo_models);
	tcase_add_test(t, moved_bytes_have_no_scale);
	tcase_add_test(t, compiling_is_deterministic);
	tcase_add_test(t, unsupported_is_named);
	suite_add_tcase(s, t);
	return run_suite(s);
}

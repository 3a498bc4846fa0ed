/* SPDX-License-Identifier: MIT */
/*
 * Float operators that read the results of quantised ones. With and without reconstruction, a model
 * has the same bytes behind every QuantizeLinear. What a float operator reads of a product is rounded to
 * steps that the model names, or that the clamp in front of it implies; of other operators it is exact. The
 * NPU gets every convolution whose result has such steps.
 */
#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "chance.h"
#include "prog_exec.h"
#include "program/program.h"
#include "suite.h"
#include "unit/onnx_text.h"

#define MAX_VALUES 24
#define MAX_OUT 11 /* with the input, what the device reaches */

/* What is known of an output of the model. */
struct output {
	bool bytes;	/* else -x of a float x */
	float step, lo, hi; /* of x, if a step is known; else 0 */
};

/* A float value behind DequantizeLinear, 4 dimensions. */
struct value {
	char name[16];
	int c, h, w;
	int bytes; /* number of its bytes' name; 0: the input's */
	bool used;
};

struct model {
	char text[1 << 17];
	size_t n;
	uint64_t seed;
	struct value v[MAX_VALUES];
	int values, names;
	struct output out[MAX_OUT];
	int outputs;
	int convs;   /* of the model */
	int unknown; /* convolutions whose results have no steps */
	int clamped; /* convolutions whose steps are implied by a clamp */
};

__attribute__((format(printf, 2, 3))) static void say(struct model *m, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	m->n += (size_t)vsnprintf(m->text + m->n, sizeof(m->text) - m->n, fmt, ap);
	va_end(ap);
	ck_assert_uint_lt(m->n, sizeof(m->text));
}

static int within(struct model *m, int lo, int hi)
{
	return lo + (int)(splitmix(&m->seed) % (uint64_t)(hi - lo + 1));
}

static struct value named(struct model *m, int c, int h, int w)
{
	struct value v = { .c = c, .h = h, .w = w };

	snprintf(v.name, sizeof(v.name), "v%d", m->names++);
	return v;
}

static void open_model(struct model *m, uint64_t seed)
{
	struct value x = { .name = "x", .c = 4, .h = 6, .w = 5 };

	memset(m, 0, sizeof(*m));
	m->seed = seed;
	say(m, "in xq u8 1,4,6,5; const xs f32 - 0.02; const xz u8 - 117;"
	       "DequantizeLinear xq xs xz -> x;");
	m->v[m->values++] = x;
}

/* ---- consumers ---- */

static void add_output(struct model *m, struct output o)
{
	ck_assert_int_lt(m->outputs, MAX_OUT);
	m->out[m->outputs++] = o;
}

/* The float consumer. */
static void negate(struct model *m, const struct value *t, float step, int zp)
{
	int k = m->names++;

	say(m, "Neg %s -> n%d; out n%d;", t->name, k, k);
	add_output(m, (struct output){ .step = step, .lo = step > 0 ? step * (float)(0 - zp) : -INFINITY,
				       .hi = step > 0 ? step * (float)(255 - zp) : INFINITY });
}

/* QuantizeLinear and DequantizeLinear; the value joins the pool. */
static void quantise(struct model *m, const struct value *t, float step, int zp)
{
	struct value v = named(m, t->c, t->h, t->w);
	int k = m->names++;

	v.bytes = k;
	say(m, "const s%d f32 - %.9g; const z%d u8 - %d; QuantizeLinear %s s%d z%d -> q%d;", k,
	    (double)step, k, zp, t->name, k, k, k);
	say(m, "DequantizeLinear q%d s%d z%d -> %s;", k, k, k, v.name);
	ck_assert_int_lt(m->values, MAX_VALUES);
	m->v[m->values++] = v;
}

static struct value transposed(struct model *m, const struct value *t)
{
	struct value v = named(m, t->h, t->w, t->c);

	say(m, "Transpose %s -> %s perm=[0,2,3,1];", t->name, v.name);
	return v;
}

/* ---- operators ---- */

static struct value clamped(struct model *m, const struct value *t)
{
	struct value v = named(m, t->c, t->h, t->w);
	int k = m->names++;

	say(m, "const lo%d f32 - -1.5; const hi%d f32 - 6; Clip %s lo%d hi%d -> %s;", k, k, t->name,
	    k, k, v.name);
	return v;
}

static const struct value *operand(struct model *m)
{
	struct value *v = &m->v[within(m, 0, m->values - 1)];

	v->used = true;
	return v;
}

static struct value conv(struct model *m)
{
	const struct value *x = operand(m);
	int k = m->names++, c = within(m, 1, 6), taps = within(m, 0, 1) ? 3 : 1;
	struct value y = named(m, c, x->h, x->w);

	m->convs++;
	say(m, "const w%d s8 %d,%d,%d,%d", k, c, x->c, taps, taps);
	for (int i = 0; i < c * x->c * taps * taps; i++)
		say(m, " %d", within(m, -100, 100));
	say(m, "; const ws%d f32 - 0.0078125; const wz%d s8 - 0;"
	       "DequantizeLinear w%d ws%d wz%d -> wf%d;", k, k, k, k, k, k);
	say(m, "Conv %s wf%d -> %s pads=[%d,%d,%d,%d];", x->name, k, y.name, taps / 2, taps / 2,
	    taps / 2, taps / 2);
	return y;
}

static struct value sum(struct model *m)
{
	const struct value *a = operand(m);
	struct value y = named(m, a->c, a->h, a->w);

	say(m, "Add %s %s -> %s;", a->name, a->name, y.name);
	return y;
}

/* A result that nothing quantises: alone, or behind a clamp. */
static void float_only(struct model *m, struct value t)
{
	bool clamp = within(m, 0, 1);

	if (clamp)
		t = clamped(m, &t);
	m->clamped += clamp;
	m->unknown += !clamp;
	/* -1.5 to 6 in 255 steps: -1.5 is not on a step, zero is */
	negate(m, &t, clamp ? 7.5f / 255 : 0, clamp ? 51 : 0);
}

static void add_operator(struct model *m)
{
	/* In no simple ratio to other steps, so that no result is in the middle of two steps. */
	float step = 0.01f + 1e-8f * (float)within(m, 0, 11000000);
	int zp = within(m, 1, 254), how = within(m, 0, 5);
	struct value t, moved;
	bool product;

	if (how == 5) {
		float_only(m, conv(m));
		return;
	}
	product = within(m, 0, 3);
	t = product ? conv(m) : sum(m);
	moved = how == 3 ? transposed(m, &t) : t;
	if (how >= 1) /* single path if 0, multi path if not */
		negate(m, how == 4 ? &t : &moved, product ? step : 0, zp);
	quantise(m, &moved, step, zp);
	if (how == 1)
		quantise(m, &t, step, zp);
	if (how == 2)
		quantise(m, &t, step * 1.5f, 128);
}

/* Outputs that the model may have beside those of its values, of which an unused one is an output. */
static int outputs_left(const struct model *m)
{
	return MAX_OUT - m->outputs - (m->values - 1);
}

static void random_model(struct model *m, uint64_t seed)
{
	int operators;

	open_model(m, seed);
	operators = within(m, 2, 7);
	for (int i = 0; i < operators && outputs_left(m) >= 3; i++)
		add_operator(m);
	for (int i = 1; i < m->values; i++) {
		if (m->v[i].used && within(m, 0, 2))
			continue;
		say(m, "out q%d;", m->v[i].bytes);
		add_output(m, (struct output){ .bytes = true });
	}
}

/* ---- before and after ---- */

struct outcome {
	int npu, cpu; /* convolutions */
	int bytes;    /* operators between bytes */
	uint32_t segments;
	void *out[MAX_OUT];
	size_t size[MAX_OUT];
};

static struct rivulet_board board;

static void load_board(void)
{
	char why[256];

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
}

static void count(const struct rivulet_explain *e, struct outcome *o)
{
	o->segments = e->n_segments;
	for (uint32_t i = 0; i < e->n_rows; i++) {
		const struct rivulet_explain_row *r = &e->rows[i];

o->bytes += r->op[0] == 'Q' && strcmp(r->op, "QuantizeLinear") != 0;
		if (!strcmp(r->op, "QConv") || !strcmp(r->op, "Conv"))
			++*(strcmp(r->where, "npu") ? &o->cpu : &o->npu);
	}
}

static void execute(const struct rivulet_blob *p, const void *x, struct outcome *o)
{
	const struct rivulet_program *h = p->data;
	const struct rivulet_tensor *t = rivulet_program_tensors(h);
	struct prog_exec run;

	ck_assert_int_eq(prog_open(&run, &board, NULL, p->data), 0);
	run.io[0] = (void *)(uintptr_t)x;
	for (uint32_t i = 0; i < h->outputs; i++) {
		o->size[i] = t[h->inputs + i].size;
		o->out[i] = calloc(1, o->size[i] + 1);
		run.io[h->inputs + i] = o->out[i];
	}
	ck_assert_msg(!prog_run(&run), "%s", run.err);
	prog_close(&run, true);
}

static void compile_and_run(const struct model *m, const struct rivulet_compile_options *opt,
			    const void *x, struct outcome *o)
{
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	struct pb onnx = ot_model(m->text, 13);

	memset(o, 0, sizeof(*o));
	ck_assert_msg(!rivulet_compile(onnx.p, onnx.n, &board, opt, &program, &e, &err), "%s: %s",
		      err.msg, m->text);
	count(&e, o);
	if (x)
		execute(&program, x, o);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	free(onnx.p);
}

static void release(struct outcome *o)
{
	for (int i = 0; i < MAX_OUT; i++)
		free(o->out[i]);
}

/* Whether -@after is -@before limited to the steps' range and rounded to a step. */
static bool rounded(const struct output *o, float before, float after)
{
	float x = fminf(fmaxf(-before, o->lo), o->hi);

	return fabsf(-after - x) <= 0.501f * o->step + 1e-5f * fabsf(x);
}

/* The first wrong element of output @i, or -1. */
static long first_wrong(const struct model *m, const struct outcome *a, const struct outcome *b, int i)
{
	const struct output *o = &m->out[i];

	ck_assert_uint_eq(a->size[i], b->size[i]);
	if (o->bytes)
		return memcmp(a->out[i], b->out[i], a->size[i]) ? 0 : -1;
	for (size_t k = 0; k < a->size[i] / sizeof(float); k++)
		if (!rounded(o, ((float *)a->out[i])[k], ((float *)b->out[i])[k]))
			return (long)k;
	return -1;
}

static void compare(struct model *m, uint64_t seed)
{
	const struct rivulet_compile_options off = { .no_reconstruct = true }, on = { 0 };
	struct outcome before, after;
	uint8_t x[4 * 6 * 5];

	random_model(m, seed);
	for (size_t i = 0; i < sizeof(x); i++)
		x[i] = (uint8_t)splitmix(&m->seed);
	compile_and_run(m, &off, x, &before);
	compile_and_run(m, &on, x, &after);
	for (int i = 0; i < m->outputs; i++) {
		long at = first_wrong(m, &before, &after, i);

		if (at >= 0)
			ck_abort_msg("graph %llu: output %d of step %g, %g to %g, differs at %ld (%g, %g): %s",
				     (unsigned long long)seed, i, (double)m->out[i].step, (double)m->out[i].lo,
				     (double)m->out[i].hi, at, (double)((float *)before.out[i])[at],
				     (double)((float *)after.out[i])[at], m->text);
	}
	ck_assert_msg(after.npu >= before.npu && after.cpu == m->unknown,
		      "graph %llu: %d, then %d convolutions on the NPU; %d on the CPU, not %d: %s",
		      (unsigned long long)seed, before.npu, after.npu, after.cpu, m->unknown, m->text);
	release(&before);
	release(&after);
}

START_TEST(random_graphs_are_equal_before_and_after)
{
	const char *n = getenv("RIVULET_GRAPHS"); /* make check-reconstruct */
	uint64_t graphs = n ? strtoull(n, NULL, 10) : 60;
	struct model *m = malloc(sizeof(*m));

	load_board();
	for (uint64_t seed = 1; seed <= graphs; seed++)
		compare(m, seed);
	free(m);
}
END_TEST

/*
 * @op makes @result of the signed x; a QuantizeLinear with steps of 0.05 from @zero on and a float
 * consumer read it. The bytes are the same with and without reconstruction. Returns by how much the
 * consumer's values change at most, and in *after what the model becomes; its results are gone.
 */
static float float_change(const char *op, const char *result, int zero, struct outcome *after)
{
	const struct rivulet_compile_options off = { .no_reconstruct = true }, on = { 0 };
	struct model *m = calloc(1, sizeof(*m));
	struct outcome before;
	uint8_t x[4 * 6 * 5];
	float worst = 0;

	open_model(m, 1);
	say(m, "%s const s f32 - 0.05; const z u8 - %d; QuantizeLinear %s s z -> q; out q; Neg %s -> n; out n;",
	    op, zero, result, result);
	for (size_t i = 0; i < sizeof(x); i++)
		x[i] = (uint8_t)splitmix(&m->seed);
	compile_and_run(m, &off, x, &before);
	compile_and_run(m, &on, x, after);
	for (size_t i = 0; i < before.size[1] / sizeof(float); i++)
		worst = fmaxf(worst, fabsf(((float *)before.out[1])[i] - ((float *)after->out[1])[i]));
	ck_assert_mem_eq(before.out[0], after->out[0], before.size[0]);
	release(&before);
	release(after);
	free(m);
	return worst;
}

/*
 * A QuantizeLinear whose range ends at zero is a Relu, too. A float consumer in front of it reads
 * negative values, so that the convolution stays float, unless its own clamp leaves none of them.
 */
static void compare_one_sided(const char *clamp, const char *result, bool on_npu)
{
	struct outcome after;
	char text[512];
	float worst;

	snprintf(text, sizeof(text),
		 "const w s8 2,4,1,1 90 -80 70 60 -50 40 30 -20; const ws f32 - 0.01; const wz s8 - 0;"
		 "DequantizeLinear w ws wz -> wf; Conv x wf -> c; %s", clamp);
	worst = float_change(text, result, 0, &after);
	ck_assert_msg(worst <= 0.0251f, "the float consumer's value changes by %g", (double)worst);
	ck_assert_int_eq(after.npu, on_npu);
}

START_TEST(one_sided_steps_are_no_range_of_a_signed_value)
{
	load_board();
	compare_one_sided("", "c", false);
	compare_one_sided("Relu c -> r;", "r", true);
}
END_TEST

/* @op makes r of the signed x, exactly for the float consumer; whether it makes bytes of bytes, too. */
static void compare_exact(const char *op, int zero, bool bytes)
{
	struct outcome after;
	float worst = float_change(op, "r", zero, &after);

	ck_assert_msg(worst == 0, "%s: the float consumer's value changes by %g", op, (double)worst);
	ck_assert_msg((after.bytes > 0) == bytes, "%s: %d operators between bytes", op, after.bytes);
}

/* Functions of x, up to their result, and where steps begin that cover what they make, or do not. */
static const struct {
	const char *op;
	int zero;
} functions[] = {
	{ "const k f32 4,1,1 -0.5 -0.25 0 -0.1; PRelu x k ->", 0 },
	{ "Elu x ->", 0 },
	{ "Tanh x ->", 128 },
	{ "Neg x ->", 255 },
	{ "const lo f32 - 0; const hi f32 - 1; Clip x lo hi ->", 0 },
	{ "const lo f32 - 0; const hi f32 - 2; Clip x lo hi ->", 230 }, /* steps up to 1.25 */
	{ "const h f32 - 0.3; Mul x h ->", 200 },
};

#define FUNCTIONS ((int)(sizeof(functions) / sizeof(functions[0])))

/* A float consumer has the values of a copy of the function, also behind moving operators. */
START_TEST(functions_are_exact_for_float_consumers)
{
	static const char *const moves[] = {
		"%s r;",
		"%s p; Transpose p -> r perm=[0,1,3,2];",
		"%s p; Transpose p -> t perm=[0,1,3,2]; Concat t t -> r axis=1;",
	};
	char text[256];

	load_board();
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), moves[i], functions[_i].op);
		compare_exact(text, functions[_i].zero, true);
	}
}
END_TEST

/*
 * Each QuantizeLinear has the bytes of the exact value, and so have the floats: @op makes p, which is
 * split, joined and read by QuantizeLinear nodes with two pairs of parameters at all these places.
 */
static void compare_many_readers(const char *op, bool exact)
{
	const struct rivulet_compile_options off = { .no_reconstruct = true }, on = { 0 };
	struct model *m = calloc(1, sizeof(*m));
	struct outcome before, after;
	uint8_t x[4 * 6 * 5];

	open_model(m, 1);
	say(m, "const s f32 - 0.05; const z u8 - 128; const s2 f32 - 0.037; const z2 u8 - 120; %s "
	       "Transpose p -> t perm=[0,2,3,1]; Concat t t -> j axis=3; const n s64 2 2 4; Split t n -> a b axis=1;"
	       "QuantizeLinear p s2 z2 -> q0; QuantizeLinear t s z -> q1; QuantizeLinear j s2 z2 -> q2;"
	       "QuantizeLinear a s z -> q3; QuantizeLinear b s2 z2 -> q4; QuantizeLinear j s z -> q5;"
	       "out q0; out q1; out q2; out q3; out q4; out q5; out a; out j;", op);
	for (size_t i = 0; i < sizeof(x); i++)
		x[i] = (uint8_t)splitmix(&m->seed);
	compile_and_run(m, &off, x, &before);
	compile_and_run(m, &on, x, &after);
	for (int i = 0; i < (exact ? 8 : 6); i++)
		ck_assert_msg(!memcmp(before.out[i], after.out[i], before.size[i]), "output %d differs: %s", i, op);
	ck_assert_int_gt(after.bytes, before.bytes);
	release(&before);
	release(&after);
	free(m);
}

START_TEST(all_quantised_readers_have_the_bytes_of_the_exact_value)
{
	load_board();
	compare_many_readers("Tanh x -> p;", true);
	compare_many_readers("Add x x -> p;", true);
	compare_many_readers("const w s8 4,4,1,1 90 -80 70 60 -50 40 30 -20; const ws f32 - 0.01; const wz s8 - 0;"
			     "DequantizeLinear w ws wz -> wf; Conv x wf -> p;", false);
}
END_TEST

/* QuantizeLinear nodes with equal parameters, some of whose results are outputs of the model. */
static void compare_names(const char *op, const char *outputs)
{
	const struct rivulet_compile_options opt = { 0 };
	struct model *m = calloc(1, sizeof(*m));
	struct rivulet_blob program = { 0 };
	const struct rivulet_program *p;
	struct rvl_err err = { "" };
	struct pb onnx;

	open_model(m, 1);
	say(m, "const s f32 - 0.05; const z u8 - 128; %s QuantizeLinear p s z -> q0; QuantizeLinear p s z -> q1;"
	       "QuantizeLinear p s z -> q2; DequantizeLinear q0 s z -> d0; Neg d0 -> n0; DequantizeLinear q1 s z -> d1;"
	       "Exp d1 -> n1; Neg p -> n2; out n0; out n1; out n2;", op);
	for (const char *q = outputs; *q; q++)
		say(m, "out q%c;", *q);
	onnx = ot_model(m->text, 13);
	ck_assert_msg(!rivulet_compile(onnx.p, onnx.n, &board, &opt, &program, NULL, &err), "%s", err.msg);
	p = program.data;
	ck_assert_uint_eq(p->outputs, 3 + strlen(outputs));
	for (uint32_t i = 0; outputs[i]; i++) {
		const struct rivulet_tensor *t = &rivulet_program_tensors(p)[p->inputs + 3 + i];
		const char name[] = { 'q', outputs[i], 0 };

		ck_assert_str_eq(rivulet_program_string(p, t->name), name);
	}
	rivulet_blob_free(&program);
	free(onnx.p);
	free(m);
}

START_TEST(outputs_keep_their_names)
{
	static const char *const outputs[] = { "", "0", "1", "2", "01", "12", "02", "201" };

	load_board();
	for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
		compare_names("Tanh x -> p;", outputs[i]);
		compare_names("const w s8 4,4,1,1 90 -80 70 60 -50 40 30 -20; const ws f32 - 0.01; const wz s8 - 0;"
			      "DequantizeLinear w ws wz -> wf; Conv x wf -> p;", outputs[i]);
	}
}
END_TEST

/* Second operands: the largest of each column of x, which the NPU does not spread, and of each channel. */
static const struct {
	const char *op, *window;
	bool on_npu;
} pairs[] = {
	{ "Add", "6,1", false }, { "Mul", "6,1", false }, { "Add", "6,5", true }, { "Mul", "6,5", true },
};

START_TEST(operands_that_the_npu_does_not_combine_stay_float)
{
	char text[400];

	load_board();
	snprintf(text, sizeof(text),
		 "MaxPool x -> p kernel_shape=[%s]; QuantizeLinear p xs xz -> b; "
		 "DequantizeLinear b xs xz -> v; %s x v -> r;", pairs[_i].window, pairs[_i].op);
	compare_exact(text, 128, pairs[_i].on_npu);
}
END_TEST

START_TEST(operators_of_several_values_are_exact_for_float_consumers)
{
	struct outcome after;

	load_board();
	ck_assert(float_change("const f f32 4 1 1 2 2; Resize x _ f -> r mode='linear';", "r", 0, &after) == 0);
	compare_exact("Relu x -> p; QuantizeLinear p xs xz -> pq; DequantizeLinear pq xs xz -> pf;"
		      "Sub x pf -> r;", 0, true);
}
END_TEST

/* The epilogue of a matrix product makes rows, not the image whose channels a Transpose moves last. */
START_TEST(rows_of_a_product_are_no_image)
{
	const struct rivulet_compile_options off = { .no_layouts = true }, on = { 0 };
	struct model *m = calloc(1, sizeof(*m));
	struct outcome before, after;
	uint8_t x[4 * 6 * 5];

	load_board();
	open_model(m, 1);
	say(m, "const w u8 5,3 80 199 139 63 101 94 110 185; const s f32 - 0.04; const o u8 - 120; const z u8 - 0;"
	       "const t f32 - 0.05; DequantizeLinear w s o -> wf; MatMul x wf -> a; QuantizeLinear a s o -> b;"
	       "DequantizeLinear b s o -> c; Relu c -> d; QuantizeLinear d t z -> e; DequantizeLinear e t z -> f;"
	       "Transpose f -> h perm=[0,2,3,1]; QuantizeLinear h t z -> y; out y;");
	for (size_t i = 0; i < sizeof(x); i++)
		x[i] = (uint8_t)splitmix(&m->seed);
	compile_and_run(m, &off, x, &before);
	compile_and_run(m, &on, x, &after);
	ck_assert_mem_eq(before.out[0], after.out[0], before.size[0]);
	release(&before);
	release(&after);
	free(m);
}
END_TEST

/* ---- the model of the paper ---- */

/*
 * A convolution of @in channels to @out; @group 1 or @in. Its quantised result, or if @reader names a
 * float consumer, what that one reads too.
 */
static void ssd_conv(struct model *m, const char *x, const char *y, int in, int out, int group, int taps,
		     int stride)
{
	int k = m->names++;

	say(m, "const w%d s8 %d,%d,%d,%d", k, out, in / group, taps, taps);
	for (int i = 0; i < out * in / group * taps * taps; i++)
		say(m, " %d", within(m, -100, 100));
	say(m, "; const ws%d f32 - 0.01; const wz%d s8 - 0; DequantizeLinear w%d ws%d wz%d -> wf%d;", k,
	    k, k, k, k, k);
	say(m, "Conv %s wf%d -> c%d group=%d strides=[%d,%d] pads=[%d,%d,%d,%d]; Relu c%d -> %s;", x, k, k,
	    group, stride, stride, taps / 2, taps / 2, taps / 2, taps / 2, k, y);
	m->convs++;
}

static void ssd_quantised(struct model *m, const char *x, const char *y)
{
	say(m, "QuantizeLinear %s xs xz -> q_%s; DequantizeLinear q_%s xs xz -> %s;", x, y, y, y);
}

/* The two heads of a feature map, whose results are never quantised, and a float reader of the map. */
static void ssd_heads(struct model *m, const char *raw, const char *x, int map)
{
	static const char *const head[] = { "loc", "conf" };
	char y[32];

	say(m, "ReduceMax %s -> prior%d axes=[1,2,3] keepdims=1; out prior%d;", raw, map, map);
	for (int i = 0; i < 2; i++) {
		snprintf(y, sizeof(y), "%s%d", head[i], map);
		ssd_conv(m, x, y, 8, 4 + 2 * i, 1, 1, 1);
		say(m, "Transpose %s -> t_%s perm=[0,2,3,1]; Flatten t_%s -> %s_flat; out %s_flat;", y, y,
		    y, y, y);
	}
}

/*
 * MobileNetV1 with the heads of SSD: 1 + 13 x 2 convolutions of the backbone, 4 x 2 behind it, and 2
 * for each of six feature maps. The readers of the maps are 6 float operators and the heads.
 */
static void ssd(struct model *m)
{
	char x[32] = "x", y[32], raw[32];
	int map = 0;

	memset(m, 0, sizeof(*m));
	m->seed = 1;
	say(m, "in xq u8 1,3,16,16; out q_d34; const xs f32 - 0.05; const xz u8 - 0; DequantizeLinear xq xs xz -> x;");
	for (int i = 0; i < 35; i++) {
		bool depthwise = i >= 1 && i < 27 && i % 2, feature = i == 22 || i == 26 || (i > 26 && i % 2 == 0);

		snprintf(raw, sizeof(raw), "r%d", i);
		snprintf(y, sizeof(y), "d%d", i);
		ssd_conv(m, x, raw, i ? 8 : 3, 8, depthwise ? 8 : 1, depthwise || !i ? 3 : 1,
			 i == 0 || i == 9 ? 2 : 1);
		ssd_quantised(m, raw, y);
		if (feature)
			ssd_heads(m, raw, y, map++);
		strcpy(x, y);
	}
	ck_assert_int_eq(m->convs, 47);
	ck_assert_int_eq(map, 6);
}

/* Examples give the heads their scales, which nothing in the model does. */
START_TEST(ssd_becomes_one_segment)
{
	static uint8_t x[2 * 3 * 16 * 16];
	const struct rivulet_examples examples = { "xq", x, sizeof(x) };
	struct rivulet_compile_options off = { .no_reconstruct = true }, on = { 0 };
	struct model *m = malloc(sizeof(*m));
	struct outcome o;

	load_board();
	ssd(m);
	for (size_t i = 0; i < sizeof(x); i++)
		x[i] = (uint8_t)splitmix(&m->seed);
	compile_and_run(m, &off, NULL, &o);
	ck_assert_uint_eq(o.segments, 6);
	ck_assert_int_eq(o.cpu, 18);
	ck_assert_int_eq(o.npu, 29);
	compile_and_run(m, &on, NULL, &o);
	ck_assert_uint_eq(o.segments, 1);
	ck_assert_int_eq(o.cpu, 12);
	on.quantise = (struct rivulet_quantise){ .examples = &examples, .n_examples = 1,
						 .range = RIVULET_RANGE_MIN_MAX, .threads = 1 };
	compile_and_run(m, &on, NULL, &o);
	ck_assert_uint_eq(o.segments, 1);
	ck_assert_int_eq(o.cpu, 0);
	ck_assert_int_eq(o.npu, 47);
	free(m);
}
END_TEST

/* ---- --require-npu ---- */

START_TEST(unsupported_operator_in_the_middle_is_named)
{
	static const char text[] =
		"in xq u8 1,4,6,6; const s f32 - 0.05; const z u8 - 0; DequantizeLinear xq s z -> x;"
		"const w s8 4,4,1,1 3 -5 7 2 4; const zw s8 - 0; DequantizeLinear w s zw -> wf;"
		"Conv x wf -> a; QuantizeLinear a s z -> aq; DequantizeLinear aq s z -> af;"
		"Softmax af -> b axis=1; QuantizeLinear b s z -> bq; DequantizeLinear bq s z -> bf;"
		"Conv bf wf -> c; QuantizeLinear c s z -> cq; out cq;";
	const struct rivulet_compile_options npu = { .require_npu = true };
	struct rivulet_blob program = { 0 };
	struct pb onnx = ot_model(text, 13);
	struct rivulet_explain e;
	struct rvl_err err = { "" };
	uint32_t named = 0;

	load_board();
	ck_assert_int_eq(rivulet_compile(onnx.p, onnx.n, &board, &npu, &program, NULL, &err), -EOPNOTSUPP);
	ck_assert_msg(strstr(err.msg, "cannot run on the NPU") != NULL, "%s", err.msg);
	ck_assert_int_eq(rivulet_compile(onnx.p, onnx.n, &board, NULL, &program, &e, &err), 0);
	ck_assert_uint_eq(e.n_segments, 2);
	for (uint32_t i = 0; i < e.n_rows; i++)
		named += !strcmp(e.rows[i].op, "Softmax") && !strcmp(e.rows[i].where, "cpu") &&
			 !strcmp(e.rows[i].reason, "the NPU has no such arithmetic");
	ck_assert_uint_eq(named, 1);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	free(onnx.p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("reconstruct");
	TCase *t = add_case(s, "reconstruct", 300, NULL, NULL);

	tcase_add_test(t, random_graphs_are_equal_before_and_after);
	tcase_add_test(t, one_sided_steps_are_no_range_of_a_signed_value);
	tcase_add_loop_test(t, operands_that_the_npu_does_not_combine_stay_float, 0,
			     sizeof(pairs) / sizeof(pairs[0]));
	tcase_add_loop_test(t, functions_are_exact_for_float_consumers, 0, FUNCTIONS);
	tcase_add_test(t, all_quantised_readers_have_the_bytes_of_the_exact_value);
	tcase_add_test(t, outputs_keep_their_names);
	tcase_add_test(t, operators_of_several_values_are_exact_for_float_consumers);
	tcase_add_test(t, rows_of_a_product_are_no_image);
	tcase_add_test(t, ssd_becomes_one_segment);
	tcase_add_test(t, unsupported_operator_in_the_middle_is_named);
	return run_suite(s);
}

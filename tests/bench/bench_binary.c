/* SPDX-License-Identifier: MIT */
/*
 * bench_binary DIR: BiRealNet-18 on zcu102-binary against the same network in int8, from the models
 * that scripts/bench-binary writes to DIR; the time that bits take; ReActNet-A and QuickNet; and a
 * layer of each kind by the cycle-stepped model. Cycles are those of the timeline. A value beyond its bar makes the exit
 * status 1.
 */
#include "bench/zoo_run.h"
#include "prog_exec.h"
#include "qbinary.h"

#define OUTPUTS 1000

static struct rivulet_board board;
static float *picture;
static struct rivulet_examples example;
static enum rivulet_wide width; /* of the images between binary layers */

/* Both arms average in integers: the bench counts cycles. */
static struct rivulet_compile_options options(bool quantise)
{
	struct rivulet_compile_options o = { .average_within_1 = true };

	if (quantise)
		o.quantise = (struct rivulet_quantise){ .examples = &example, .n_examples = 1,
							.wide = width, .threads = 1 };
	return o;
}

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "bench_binary: %s: %s\n", what, why);
	exit(1);
}

/* ---- the networks ---- */

static void show(const char *name, const struct run *r)
{
	char suffix[64];

	snprintf(suffix, sizeof(suffix), ".%s", name);
	figure("binary", strcat(suffix, ".cycles"), (double)r->cycles, "cycles");
	snprintf(suffix, sizeof(suffix), ".%s.layers", name);
	figure("binary", suffix, (double)r->large_cycles, "cycles");
	snprintf(suffix, sizeof(suffix), ".%s.mj", name);
	figure("binary", suffix, r->joule * 1e3, "mJ");
	snprintf(suffix, sizeof(suffix), ".%s.stepped", name);
	at_most("binary", suffix, fabs(r->stepped), "%", STEPPED_BAR);
}

static void bench_networks(void)
{
	struct rivulet_compile_options int8 = options(false), binary = options(true);
	struct rivulet_compile_options whole = int8, apart = binary;
	struct run a = compile("birealnet18-int8", &board, &int8, true);
	struct run b = compile("birealnet18", &board, &binary, true), plain, first;

	whole.no_gather = true;
	apart.no_gather = true;
	plain = compile("birealnet18-int8", &board, &whole, false);
	first = compile("birealnet18", &board, &apart, false);
	show("birealnet18.int8", &a);
	show("birealnet18", &b);
	at_least("binary.birealnet18.layers.ratio", "", (double)a.large_cycles / (double)b.large_cycles,
		 "x", 6.8);
	at_least("binary.birealnet18.ratio", "", (double)a.cycles / (double)b.cycles, "x", 4.5);
	at_least("binary.birealnet18.ratio", ".ungathered", (double)plain.cycles / (double)b.cycles, "x",
		 5.8);
	at_least("binary.birealnet18.first.ratio", "",
		 (double)first.first_cycles / (double)b.first_cycles, "x", 4.5);
	at_most("binary.birealnet18.cpu_convs", "", b.cpu_convs, "convolutions", 0);
}

/* ---- what bits cost ---- */

struct stream {
	const struct rivulet_insn *code;
	uint32_t count;
	bool without_bits;
};

/* Without bits, an ALU instruction writes its results alone. */
static int fetch(void *ctx, uint32_t index, struct rivulet_insn *out)
{
	const struct stream *s = ctx;
	struct rivulet_decoded d;

	if (index >= s->count)
		return 1;
	*out = s->code[index];
	if (!s->without_bits || rivulet_decode(out, &d) || d.form != RIVULET_FORM_alu || !d.alu.pack)
		return 0;
	d.alu.pack = 0;
	return rivulet_encode(&d, out, NULL);
}

static uint64_t time_stream(struct stream *s)
{
	struct rivulet_timeline *t = rivulet_timeline_new(&board, fetch, s);
	const struct rivulet_event *e;
	uint64_t cycles;
	int rc = t ? 1 : -ENOMEM;

	while (rc == 1)
		rc = rivulet_timeline_next(t, &e);
	if (rc)
		fail("timeline", "a stream without bits has a fault");
	cycles = rivulet_timeline_stats(t)->cycles;
	rivulet_timeline_free(t);
	return cycles;
}

static uint64_t time_program(const struct rivulet_program *p, bool without_bits)
{
	const struct rivulet_step *step = rivulet_program_steps(p);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->steps; i++) {
		const struct rivulet_step_variant *v = &step[i].variant[board.levels - 1];
		struct stream s = { (const void *)((const uint8_t *)p + v->offset),
				    v->length / sizeof(struct rivulet_insn), without_bits };

		if (step[i].kind == RIVULET_STEP_NPU)
			sum += time_stream(&s);
	}
	return sum;
}

/* One run on the device model; @out is OUTPUTS floats. */
static void execute(const struct rivulet_blob *program, float *out)
{
	struct prog_exec x;

	if (prog_open(&x, &board, NULL, program->data))
		fail("birealnet18", "no memory");
	x.io[0] = picture;
	x.io[1] = out;
	if (prog_run(&x))
		fail("birealnet18", x.err);
	prog_close(&x, true);
}

static struct rivulet_blob program_of(const char *name, const struct rivulet_board *b)
{
	struct rivulet_compile_options o = options(true);
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	size_t size;
	void *model = read_model(name, &size);

	if (!model || rivulet_compile(model, size, b, &o, &program, NULL, &err))
		fail(name, err.msg);
	free(model);
	return program;
}

/* The results of the array and of the CPU's operators, of the same quantised network. */
static void bench_results(const char *name, const char *label, const struct rivulet_blob *npu)
{
	struct rivulet_blob cpu = program_of(name, NULL);
	float *out = calloc(2 * OUTPUTS, sizeof(*out));
	uint32_t differ = 0;
	char suffix[64];

	if (!out)
		fail(name, "no memory");
	execute(npu, out);
	execute(&cpu, out + OUTPUTS);
	for (int i = 0; i < OUTPUTS; i++)
		differ += out[i] != out[OUTPUTS + i];
	snprintf(suffix, sizeof(suffix), ".%s.differ", label);
	at_most("binary", suffix, differ, "outputs", 0);
	free(out);
	rivulet_blob_free(&cpu);
}

static void bench_bits(void)
{
	struct rivulet_blob program = program_of("birealnet18", &board);
	double with = (double)time_program(program.data, false);
	double without = (double)time_program(program.data, true);

	at_most("binary.birealnet18.pack.share", "", 100.0 * (with - without) / with, "%", 1);
	bench_results("birealnet18", "birealnet18", &program);
	rivulet_blob_free(&program);
}

/* The images between the layers in int16. */
static void bench_wide(void)
{
	struct rivulet_compile_options o;
	struct rivulet_blob program;
	struct run r;

	width = RIVULET_WIDE_YES;
	o = options(true);
	r = compile("birealnet18", &board, &o, true);
	program = program_of("birealnet18", &board);
	show("birealnet18.wide", &r);
	at_most("binary.birealnet18.wide.cpu_convs", "", r.cpu_convs, "convolutions", 0);
	bench_results("birealnet18", "birealnet18.wide", &program);
	rivulet_blob_free(&program);
	width = RIVULET_WIDE_AUTO;
}

/* The other networks, which have no twin in int8. */
static void bench_others(void)
{
	static const char *const names[] = { "reactnet-a", "quicknet" };
	struct rivulet_compile_options o = options(true);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct run r = compile(names[i], &board, &o, true);
		struct rivulet_blob program = program_of(names[i], &board);
		char suffix[64];

		show(names[i], &r);
		snprintf(suffix, sizeof(suffix), ".%s.cpu_convs", names[i]);
		figure("binary", suffix, r.cpu_convs, "convolutions");
		bench_results(names[i], names[i], &program);
		rivulet_blob_free(&program);
	}
}

/* ---- a layer of each kind ---- */

struct kind {
	const char *name;
	int64_t c, m, k, stride, side;
	bool shortcut, bits, only;
};

static const struct kind kinds[] = {
	{ "64", 64, 64, 3, 1, 56, true, true, false },
	{ "64.stride2", 64, 128, 3, 2, 56, false, true, false },
	{ "128", 128, 128, 3, 1, 28, true, true, false },
	{ "256", 256, 256, 3, 1, 14, true, true, false },
	{ "512", 512, 512, 3, 1, 7, true, true, false },
	{ "5x5", 64, 64, 5, 1, 28, false, false, false },
	{ "1x1", 256, 512, 1, 1, 14, false, false, false },
	{ "bits", 128, 128, 3, 1, 28, false, false, true },
};

static struct rvl_graph *graph_of(const struct kind *k)
{
	const struct rvl_shape shape = { 4, { 1, k->c, k->side, k->side } };
	int64_t pad = k->k / 2;
	struct qb_conv c = { .c = k->c, .m = k->m, .kh = k->k, .kw = k->k, .sy = k->stride,
			     .sx = k->stride, .pad = { pad, pad, pad, pad }, .type = RVL_TYPE_U8,
			     .bits = k->bits, .only = k->only };
	struct rvl_tensor *x, *bits = NULL, *y;
	struct qg q;

	qg_open(&q, 3);
	x = qg_tensor(&q, "x", RVL_TYPE_U8, shape, 0.02f, 100);
	qg_input(&q, x);
	c.shortcut = k->shortcut ? x : NULL;
	y = qb_conv(&q, "layer", qb_sign(&q, "sign", x), &c, &bits);
	qg_output(&q, y);
	if (bits)
		qg_output(&q, bits);
	if (q.rc)
		fail(k->name, q.err.msg);
	return q.g;
}

static void bench_kinds(void)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct rivulet_blob program = { 0 };
		struct rivulet_explain e = { 0 };
		struct rvl_err err = { "" };
		struct run r = { 0 };
		char name[64];

		if (rvl_compile_graph(graph_of(&kinds[i]), &board, NULL, &program, &e, &err))
			fail(kinds[i].name, err.msg);
		take_rows(&e, &r);
		take_segments(&e, &r);
		if (r.cpu_convs || step_cycles(&board, program.data, &r))
			fail(kinds[i].name, "the array does not compute it");
		snprintf(name, sizeof(name), "binary.kind.%s", kinds[i].name);
		figure(name, ".cycles", (double)r.cycles, "cycles");
		at_most(name, ".stepped", fabs(r.stepped), "%", STEPPED_BAR);
		rivulet_explain_free(&e);
		rivulet_blob_free(&program);
	}
}

int main(int argc, char **argv)
{
	const struct rvl_shape shape = { 4, { 1, 3, 224, 224 } };

	if (argc != 2) {
		fprintf(stderr, "usage: bench_binary DIR\n");
		return 2;
	}
	folder = argv[1];
	board = board_of("zcu102-binary");
	picture = zoo_picture(&shape, &example.size);
	if (!picture)
		fail("picture", "no memory");
	example.data = picture;
	bench_networks();
	bench_bits();
	bench_wide();
	bench_others();
	bench_kinds();
	free(picture);
	printf("%d beyond their bars\n", missed);
	return missed != 0;
}

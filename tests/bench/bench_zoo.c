/* SPDX-License-Identifier: MIT */
/*
 * bench_zoo DIR: the networks that scripts/bench-npu writes to DIR, compiled for the boards: cycles,
 * shares of the array's peak, ratios of a sparse to a dense array of equal MACs, bytes. Cycles are
 * those of the timeline, which the device model has, too; the cycle-stepped model of tests/cycle is
 * run beside it. A value beyond its bar makes the exit status 1.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cycle.h"
#include "picture.h"
#include "program/program.h"

#define HZ	       333.333333e6
#define KEPT	       0.25  /* of the weights that are pruned */
#define STEPPED_BAR    2.0   /* % */
#define BURST_BYTES    256.0 /* of the port, and its cycles with the gap behind it */
#define BURST_CYCLES   18.0

/* One network compiled for one board. */
struct run {
	uint64_t macs, cycles, bytes, read_bytes; /* on the NPU */
	uint64_t first_macs, first_cycles; /* of the first convolution */
	uint32_t segments, convs, cpu_convs;
	double stepped; /* % by which the cycle-stepped model differs */
};

static const char *folder;
static int missed;

/* ---- figures ---- */

static void figure(const char *name, const char *suffix, double value, const char *unit)
{
	printf("figure %s%s %.3f %s\n", name, suffix, value, unit);
}

static void judge(const char *name, const char *suffix, double value, const char *unit, double bar,
		  bool least)
{
	bool good = least ? value >= bar : value <= bar;

	figure(name, suffix, value, unit);
	printf("bar %s%s %s %g: %s\n", name, suffix, least ? "at least" : "at most", bar,
	       good ? "met" : "MISSED");
	missed += !good;
}

static void at_least(const char *name, const char *suffix, double value, const char *unit, double bar)
{
	judge(name, suffix, value, unit, bar, true);
}

static void at_most(const char *name, const char *suffix, double value, const char *unit, double bar)
{
	judge(name, suffix, value, unit, bar, false);
}

/* ---- compilation ---- */

static void *read_model(const char *name, size_t *size)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.onnx", folder, name);
	return zoo_read(path, size);
}

static void take_rows(const struct rivulet_explain *e, struct run *r)
{
	for (uint32_t i = 0; i < e->n_rows; i++) {
		const struct rivulet_explain_row *row = &e->rows[i];
		bool conv = strstr(row->op, "Conv"), cpu = !strcmp(row->where, "cpu");

		if (conv && !r->convs) {
			r->first_macs = row->macs;
			r->first_cycles = row->cycles;
		}
		r->convs += conv;
		r->cpu_convs += conv && cpu;
		r->macs += row->macs;
	}
}

static void take_segments(const struct rivulet_explain *e, struct run *r)
{
	r->segments = e->n_segments;
	for (uint32_t i = 0; i < e->n_segments; i++) {
		r->cycles += e->segments[i].cycles;
		r->bytes += e->segments[i].read_bytes + e->segments[i].write_bytes;
		r->read_bytes += e->segments[i].read_bytes;
	}
}

/* The difference of the cycle-stepped model from @cycles, over all NPU steps of a program. */
static int step_cycles(const struct rivulet_board *b, const struct rivulet_program *p, struct run *r)
{
	const struct rivulet_step *s = rivulet_program_steps(p);
	uint64_t sum = 0;
	int rc = 0;

	for (uint32_t i = 0; i < p->steps && !rc; i++) {
		const struct rivulet_step_variant *v = &s[i].variant[b->levels - 1];
		struct cyc_result m = { 0 };

		if (s[i].kind != RIVULET_STEP_NPU)
			continue;
		rc = cyc_run(b, (const void *)((const uint8_t *)p + v->offset),
			     v->length / sizeof(struct rivulet_insn), v->offset % 4096, &m, NULL);
		sum += m.cycles;
	}
	r->stepped = sum ? 100.0 * ((double)r->cycles - (double)sum) / (double)sum : 100.0;
	return rc;
}

/* @stepped: the cycle-stepped model runs, too. A failure ends the program. */
static struct run compile(const char *name, const struct rivulet_board *b,
			  const struct rivulet_compile_options *opt, bool stepped)
{
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	struct run r = { 0 };
	size_t size;
	void *model = read_model(name, &size);
	int rc = model ? rivulet_compile(model, size, b, opt, &program, &e, &err) : -ENOENT;

	free(model);
	if (!rc) {
		take_rows(&e, &r);
		take_segments(&e, &r);
	}
	if (!rc && stepped)
		rc = step_cycles(b, program.data, &r);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	if (!rc)
		return r;
	fprintf(stderr, "bench_zoo: %s on %s: %s\n", name, b->name, *err.msg ? err.msg : strerror(-rc));
	exit(1);
}

static void show_stepped(const char *name, const char *suffix, const struct run *r)
{
	char figure_name[96];

	snprintf(figure_name, sizeof(figure_name), "npu.%s.stepped", name);
	at_most(figure_name, suffix, fabs(r->stepped), "%", STEPPED_BAR);
}

static struct rivulet_board board_of(const char *name)
{
	struct rivulet_board b;
	char err[256];

	if (!rivulet_board_load(&b, name, err, sizeof(err)))
		return b;
	fprintf(stderr, "bench_zoo: %s\n", err);
	exit(1);
}

/* The dense array of as many MACs as zu3eg-64: eight rows of eight, all else equal. */
static struct rivulet_board dense_arm(void)
{
	struct rivulet_board b = board_of("zu3eg-64");

	snprintf(b.name, sizeof(b.name), "dense-8x8");
	b.tm = b.tn = b.dn = 8;
	b.modes &= ~(1u << RIVULET_MODE_SPARSE);
	return b;
}

static const struct {
	const char *board, *suffix;
} family[] = { { "zu3eg-64", ".64" }, { "zu3eg-128", ".128" }, { "zu3eg-256", ".256" } };

#define FAMILY (sizeof(family) / sizeof(family[0]))

/* ---- sparse against dense ---- */

struct ratio {
	const char *name, *dense, *sparse;
	double layers, whole, arm; /* bars; layers 0: none */
};

static const struct ratio ratios[] = {
	{ "vgg16", "vgg16-features-0", "vgg16-features-75", 3.95, 3.85, 98.0 },
	{ "resnet18", "resnet18-0", "resnet18-75", 3.9, 3.25, 98.0 },
	{ "mobilenetv1", "mobilenetv1-0", "mobilenetv1-75", 0, 3.1, 97.5 },
};

static void bench_ratio(const struct ratio *t)
{
	struct rivulet_board arm = dense_arm(), b = board_of("zu3eg-64");
	struct run dense = compile(t->dense, &arm, NULL, true), sparse = compile(t->sparse, &b, NULL, true);
	char name[64];

	snprintf(name, sizeof(name), "npu.%s", t->name);
	if (t->layers)
		at_least(name, ".ratio.layers", (double)(dense.cycles - dense.first_cycles) /
			 (double)(sparse.cycles - sparse.first_cycles), "x", t->layers);
	at_least(name, ".ratio.whole", (double)dense.cycles / (double)sparse.cycles, "x", t->whole);
	at_least(name, ".arm.share", 100.0 * (double)dense.macs / (64.0 * (double)dense.cycles), "%",
		 t->arm);
	show_stepped(t->name, ".arm", &dense);
	show_stepped(t->name, ".sparse.64", &sparse);
}

/* ---- shares of the peak ---- */

static void bench_vgg16(void)
{
	static const double bars[FAMILY] = { 97, 96, 95 };

	for (size_t i = 0; i < FAMILY; i++) {
		struct rivulet_board b = board_of(family[i].board);
		struct run r = compile("vgg16-features-75", &b, NULL, false);

		at_least("npu.vgg16.sparse.share", family[i].suffix,
			 100.0 * (double)r.macs / ((double)b.tm * b.tn * (double)r.cycles), "%", bars[i]);
	}
}

/* Fully connected layers read each weight once, so that the port bounds them. */
static void bench_classifier(void)
{
	for (size_t i = 0; i < FAMILY; i++) {
		struct rivulet_board b = board_of(family[i].board);
		struct run r = compile("vgg16-classifier-75", &b, NULL, i == 0);
		double bound = (double)r.read_bytes / BURST_BYTES * BURST_CYCLES;

		at_least("npu.vgg16.classifier.share", family[i].suffix, 100.0 * bound / (double)r.cycles,
			 "%", 95);
		if (i == 0)
			show_stepped("vgg16.classifier", family[i].suffix, &r);
	}
}

static void bench_resnet18(void)
{
	static const double bars[FAMILY] = { 97, 96, 94 }, mb[FAMILY] = { 9.2, 0, 6.2 };

	for (size_t i = 0; i < FAMILY; i++) {
		struct rivulet_board b = board_of(family[i].board);
		struct run r = compile("resnet18-75", &b, NULL, i == 2);
		double kept = (double)r.first_macs + KEPT * (double)(r.macs - r.first_macs);

		at_least("npu.resnet18.sparse.share", family[i].suffix,
			 100.0 * kept / ((double)rivulet_board_peak(&b) * (double)r.cycles), "%", bars[i]);
		figure("npu.resnet18.sparse.cycles", family[i].suffix, (double)r.cycles, "cycles");
		if (mb[i] > 0)
			at_most("npu.resnet18.sparse.mb", family[i].suffix, (double)r.bytes / 1e6, "MB", mb[i]);
		if (i == 2)
			show_stepped("resnet18.sparse", family[i].suffix, &r);
	}
}

static void bench_mobilenetv2(void)
{
	static const struct {
		const char *board, *suffix;
		double cycles, mb;
	} rows[] = { { "dense-16x16", ".dense16", 1.6e6, 0 },
		     { "zu3eg-256", ".256", 1.6e6, 4.6 },
		     { "zu3eg-64", ".64", 5.0e6, 5.9 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rivulet_board b = board_of(rows[i].board);
		struct run r = compile("mobilenetv2-0", &b, NULL, true);

		at_most("npu.mobilenetv2.whole.cycles", rows[i].suffix, (double)r.cycles, "cycles",
			rows[i].cycles);
		if (rows[i].mb > 0)
			at_most("npu.mobilenetv2.mb", rows[i].suffix, (double)r.bytes / 1e6, "MB",
				rows[i].mb);
		show_stepped("mobilenetv2", rows[i].suffix, &r);
	}
}

/* ---- SSD, with the CPU of seed 001's board ---- */

#define CPU_MACS 4.1e9	/* of convolutions on four Cortex-A53, a second */
#define TAIL	 14.5	/* ms, of what follows the heads */
#define REORDER	 3.1	/* ms, with one segment */
#define FRAMES	 200

static double ms_of(const struct run *r)
{
	return (double)r->cycles / HZ * 1e3;
}

/*
 * Frames a second where the CPU brings frame i + 1 to the NPU and works on the result of frame i - 1
 * while the NPU runs frame i.
 */
static double pipelined(double npu)
{
	double cpu_free = 0, npu_free = 0, ready = 0, done = 0;

	for (int i = 0; i <= FRAMES; i++) {
		if (i < FRAMES) {
			cpu_free += REORDER;
			ready = cpu_free;
		}
		if (i > 0)
			cpu_free = fmax(cpu_free, done) + TAIL;
		if (i < FRAMES)
			done = npu_free = fmax(npu_free, ready) + npu;
	}
	return FRAMES / cpu_free * 1e3;
}

static void bench_ssd(void)
{
	static const struct rivulet_compile_options as_is = { .no_reconstruct = true };
	const struct rvl_shape shape = { 4, { 1, 3, 300, 300 } };
	struct rivulet_examples example = { 0 };
	const struct rivulet_compile_options rebuilt = {
		.quantise = { .examples = &example, .n_examples = 1, .threads = 1 }
	};
	float *picture = zoo_picture(&shape, &example.size);
	static const double bars[FAMILY] = { 2.8, 3.3, 3.75 }, reorder[FAMILY] = { 5.1, 4.7, 4.9 };

	example.data = picture;
	for (size_t i = 0; i < FAMILY && picture; i++) {
		struct rivulet_board b = board_of(family[i].board);
		struct run before = compile("ssd-mobilenetv1-75", &b, &as_is, false);
		struct run after = compile("ssd-mobilenetv1-75", &b, &rebuilt, i == 0);
		double cpu = (double)(after.macs - before.macs) / CPU_MACS * 1e3;

		figure("npu.ssd.ms", family[i].suffix, ms_of(&after), "ms");
		at_least("npu.ssd.ratio", family[i].suffix, (ms_of(&before) + cpu + TAIL + reorder[i]) /
			 (ms_of(&after) + TAIL + REORDER), "x", bars[i]);
		if (i)
			continue;
		at_least("npu.ssd.segments", ".before", before.segments, "segments", 6);
		at_least("npu.ssd.cpu_convs", ".before", before.cpu_convs, "convolutions", 18);
		at_most("npu.ssd.segments", "", after.segments, "segments", 1);
		at_most("npu.ssd.cpu_convs", "", after.cpu_convs, "convolutions", 0);
		at_least("npu.ssd.fps", "", pipelined(ms_of(&after)), "1/s", 50);
		show_stepped("ssd", ".64", &after);
	}
	free(picture);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: bench_zoo DIR\n");
		return 2;
	}
	folder = argv[1];
	for (size_t i = 0; i < sizeof(ratios) / sizeof(ratios[0]); i++)
		bench_ratio(&ratios[i]);
	bench_vgg16();
	bench_classifier();
	bench_resnet18();
	bench_mobilenetv2();
	bench_ssd();
	printf("%d beyond their bars\n", missed);
	return missed != 0;
}

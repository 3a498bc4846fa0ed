/* SPDX-License-Identifier: MIT */
/*
 * bench_zoo DIR [PART...]: the networks that scripts/bench-npu writes to DIR, compiled for the
 * boards: cycles, shares of the array's peak, ratios of a sparse to a dense array of equal MACs,
 * bytes. Cycles are those of the timeline, which the device model has, too; the cycle-stepped model
 * of tests/cycle is run beside it. A value beyond its bar makes the exit status 1. Parts are those
 * of the table at the end; without one, all of them.
 */
#include "bench/zoo_run.h"

#define HZ	       333.333333e6
#define KEPT	       0.25  /* of the weights that are pruned */
#define BURST_BYTES    256.0 /* of the port, and its cycles with the gap behind it */
#define BURST_CYCLES   18.0

static void show_stepped(const char *name, const char *suffix, const struct run *r)
{
	char figure_name[96];

	snprintf(figure_name, sizeof(figure_name), "npu.%s.stepped", name);
	at_most(figure_name, suffix, fabs(r->stepped), "%", STEPPED_BAR);
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
	figure(name, ".arm.bound", 100.0 * (double)dense.macs / (double)dense.array_macs, "%");
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

static void bench_ratios(void)
{
	for (size_t i = 0; i < sizeof(ratios) / sizeof(ratios[0]); i++)
		bench_ratio(&ratios[i]);
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
	{ "ratios", bench_ratios },	      { "vgg16", bench_vgg16 },
	{ "classifier", bench_classifier },   { "resnet18", bench_resnet18 },
	{ "mobilenetv2", bench_mobilenetv2 }, { "ssd", bench_ssd },
};

#define PARTS (sizeof(parts) / sizeof(parts[0]))

/* The number of the part @name, or PARTS. */
static size_t part_of(const char *name)
{
	size_t i = 0;

	while (i < PARTS && strcmp(parts[i].name, name))
		i++;
	return i;
}

int main(int argc, char **argv)
{
	bool valid = argc > 1;

	for (int i = 2; i < argc; i++)
		valid &= part_of(argv[i]) < PARTS;
	if (!valid) {
		fprintf(stderr, "usage: bench_zoo DIR [PART...]\nparts:");
		for (size_t i = 0; i < PARTS; i++)
			fprintf(stderr, " %s", parts[i].name);
		fprintf(stderr, "\n");
		return 2;
	}
	folder = argv[1];
	for (size_t i = 0; i < (argc > 2 ? (size_t)argc - 2 : PARTS); i++)
		parts[argc > 2 ? part_of(argv[i + 2]) : i].run();
	printf("%d beyond their bars\n", missed);
	return missed != 0;
}

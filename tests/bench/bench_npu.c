/* SPDX-License-Identifier: MIT */
/*
 * Share of the array's peak that dense int8 networks with random weights reach. VGG16's thirteen
 * 3x3 layers (pools on drain) are compiled and run on the model, once more with the memory latency
 * doubled. The run also gives the error of the compiler's estimate. For ResNet18 and MobileNetV2,
 * whose layers use less of the array, only the estimate is computed. bench_npu [BOARD]: VGG16 on
 * that board only.
 */
#include <inttypes.h>

#include "program/program.h"
#include "bench/nets.h"
#include "prog_exec.h"

struct layer {
	const char *name;
	int64_t m;
	bool pool;
};

static const struct layer vgg16[] = {
	{ "conv1_1", 64, false }, { "conv1_2", 64, true },   { "conv2_1", 128, false },
	{ "conv2_2", 128, true }, { "conv3_1", 256, false }, { "conv3_2", 256, false },
	{ "conv3_3", 256, true }, { "conv4_1", 512, false }, { "conv4_2", 512, false },
	{ "conv4_3", 512, true }, { "conv5_1", 512, false }, { "conv5_2", 512, false },
	{ "conv5_3", 512, true },
};

#define NO_SPARSE	     .without_modes = 1u << RIVULET_MODE_SPARSE
#define LAYERS	     (sizeof(vgg16) / sizeof(vgg16[0]))
#define INPUT_BYTES  (3u * 224 * 224)
#define OUTPUT_BYTES (512u * 7 * 7)

static struct rvl_graph *make_vgg16(void)
{
	struct rvl_tensor *t;
	struct qg q;

	qg_open(&q, 16);
	t = image(&q);
	for (size_t i = 0; i < LAYERS; i++) {
		t = conv(&q, t, vgg16[i].m, 3, 1, 1);
		if (vgg16[i].pool)
			t = qg_max_pool(&q, NULL, t, 2, 2, 0);
	}
	return finish(&q, t);
}

struct result {
	uint64_t macs, estimate, simulated;
	uint64_t wait, weight_wait; /* of the array, at the first work of layers */
	uint64_t slow; /* the same program at twice the memory latency, estimated */
};

static int simulate(const struct rivulet_board *b, const struct rivulet_blob *program,
		    struct result *r)
{
	struct prog_exec x;
	uint8_t *in = malloc(INPUT_BYTES), *out = malloc(OUTPUT_BYTES);
	struct qg q = { .seed = 7 };
	int rc = in && out ? prog_open(&x, b, NULL, program->data) : -ENOMEM;

	for (size_t i = 0; in && i < INPUT_BYTES; i++)
		in[i] = qg_random(&q);
	if (!rc) {
		x.io[0] = in;
		x.io[1] = out;
		rc = prog_run(&x);
		if (rc)
			fprintf(stderr, "bench_npu: %s\n", x.err);
		r->simulated = x.cycles;
		prog_close(&x, true);
	}
	free(in);
	free(out);
	return rc;
}

static int show(const struct rivulet_explain *e)
{
	struct rivulet_blob text;
	int rc = rivulet_explain_text(e, &text);

	if (rc)
		return rc;
	fputs(text.data, stdout);
	fflush(stdout);
	rivulet_blob_free(&text);
	return 0;
}

static int at_twice_latency(const struct rivulet_board *b, const void *program, struct result *r)
{
	struct rivulet_estimate_row rows[RIVULET_LEVELS];
	struct rivulet_board slow = *b;
	struct rvl_err err = { "" };
	int rc;

	slow.mem_latency *= 2;
	rc = rivulet_estimate(program, &slow, rows, &err);
	if (rc < 0)
		return rc;
	r->slow = rows[rc - 1].cycles;
	return 0;
}

/*
 * Compiles a network and reports the estimate. With @run it is also simulated, and its layers are
 * listed.
 */
static int measure(const struct rivulet_board *b, struct rvl_graph *g, bool run, bool table,
		   struct result *r)
{
	const struct rivulet_compile_options dense = { NO_SPARSE };
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	int rc = g ? rvl_compile_graph(g, b, &dense, &program, &e, &err) : -ENOMEM;

	if (rc) {
		fprintf(stderr, "bench_npu: %s\n", err.msg);
		return rc;
	}
	for (uint32_t i = 0; i < e.n_segments; i++) {
		r->macs += e.segments[i].macs;
		r->estimate += e.segments[i].cycles;
		r->wait += e.segments[i].layer_wait;
		r->weight_wait += e.segments[i].weight_wait;
	}
	if (table)
		rc = show(&e);
	if (!rc)
		rc = at_twice_latency(b, (const void *)program.data, r);
	if (!rc && run)
		rc = simulate(b, &program, r);
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	return rc;
}

static double error_of(const struct result *r)
{
	double d = (double)r->estimate - (double)r->simulated;

	return r->simulated ? 100.0 * (d < 0 ? -d : d) / (double)r->simulated : 100.0;
}

static double share_of(const struct rivulet_board *b, uint64_t macs, uint64_t cycles)
{
	return cycles ? 100.0 * (double)macs / ((double)cycles * rivulet_board_peak(b)) : 0;
}

static int load_board(struct rivulet_board *b, const char *name)
{
	char err[256];

	if (!rivulet_board_load(b, name, err, sizeof(err)))
		return 0;
	fprintf(stderr, "bench_npu: %s\n", err);
	return -EINVAL;
}

/*
 * VGG16 on one board, and on the same board with twice the latency. Returns 1 if a figure is beyond
 * its bar.
 */
static int bench_vgg16(const char *board)
{
	struct result r = { 0 }, slow = { 0 };
	struct rivulet_board b;
	double share, error, error2;

	if (load_board(&b, board) || measure(&b, make_vgg16(), true, true, &r))
		return 1;
	b.mem_latency *= 2;
	if (measure(&b, make_vgg16(), true, false, &slow))
		return 1;
	share = share_of(&b, r.macs, r.simulated);
	error = error_of(&r);
	error2 = error_of(&slow);
	printf("figure npu.vgg16.dense.share %.2f %%\n", share);
	printf("figure npu.vgg16.dense.share.latency2x %.2f %%\n",
	       share_of(&b, slow.macs, slow.simulated));
	printf("figure npu.vgg16.macs %" PRIu64 " MACs\n", r.macs);
	printf("figure npu.vgg16.cycles %" PRIu64 " cycles\n", r.simulated);
	printf("figure npu.vgg16.cycles.latency2x %" PRIu64 " cycles\n", slow.simulated);
	printf("figure npu.estimate.cycles %" PRIu64 " cycles\n", r.estimate);
	printf("figure npu.estimate.cycles.latency2x %" PRIu64 " cycles\n", slow.estimate);
	printf("figure npu.estimate.error %.3f %%\n", error);
	printf("figure npu.estimate.error.latency2x %.3f %%\n", error2);
	return share < 95.0 || error > 2.0 || error2 > 2.0 || r.slow <= r.estimate;
}

static const struct {
	const char *board, *suffix;
	double bar; /* of VGG16 */
} boards[] = { { "zu3eg-64", "64", 99.0 }, { "zu3eg-128", "128", 99.0 }, { "zu3eg-256", "256", 98.5 } };

/*
 * Cycles that cascades save, in per cent of the cycles without them; 0 if the network does not
 * compile.
 */
static double gain_of(const struct rivulet_board *b, struct rvl_graph *g, const struct result *with)
{
	const struct rivulet_compile_options off = { .no_cascade = true, NO_SPARSE };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	uint64_t cycles = 0;

	if (!g || rvl_compile_graph(g, b, &off, NULL, &e, &err))
		return 0;
	for (uint32_t i = 0; i < e.n_segments; i++)
		cycles += e.segments[i].cycles;
	rivulet_explain_free(&e);
	return 100.0 * ((double)cycles - (double)with->estimate) / (double)cycles;
}

/*
 * The cycles for which the array waits at the first work of the layers of a network: in total, for
 * weights, and for weights that no layer loads ahead.
 */
static void show_waits(const struct rivulet_board *b, const char *net, const char *suffix,
		       struct rvl_graph *g, const struct result *with)
{
	const struct rivulet_compile_options off = { .no_prefetch = true, NO_SPARSE };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	uint64_t wait = 0, cycles = 0;

	if (!g || rvl_compile_graph(g, b, &off, NULL, &e, &err))
		return;
	for (uint32_t i = 0; i < e.n_segments; i++) {
		wait += e.segments[i].weight_wait;
		cycles += e.segments[i].cycles;
	}
	rivulet_explain_free(&e);
	printf("figure npu.%s.wait.%s %" PRIu64 " cycles\n", net, suffix, with->wait);
	printf("figure npu.%s.wait.weights.%s %" PRIu64 " cycles\n", net, suffix, with->weight_wait);
	printf("figure npu.%s.wait.weights.off.%s %" PRIu64 " cycles\n", net, suffix, wait);
	printf("figure npu.%s.prefetch.gain.%s %.3f %%\n", net, suffix,
	       100.0 * ((double)cycles - (double)with->estimate) / (double)cycles);
}

/* The networks on the three boards of one family. Returns 1 if VGG16 is beyond its bar. */
static int bench_networks(void)
{
	int missed = 0;

	for (size_t i = 0; i < sizeof(boards) / sizeof(boards[0]); i++) {
		struct result vgg = { 0 }, res = { 0 }, mobile = { 0 };
		struct rivulet_board b;
		double share;

		if (load_board(&b, boards[i].board) ||
		    measure(&b, make_vgg16(), true, false, &vgg) ||
		    measure(&b, make_resnet18(), false, false, &res) ||
		    measure(&b, make_mobilenetv2(), false, false, &mobile))
			return 1;
		share = share_of(&b, vgg.macs, vgg.simulated);
		printf("figure npu.vgg16.dense.share.%s %.2f %%\n", boards[i].suffix, share);
		printf("figure npu.resnet18.dense.share.%s %.2f %%\n", boards[i].suffix,
		       share_of(&b, res.macs, res.estimate));
		printf("figure npu.resnet18.cycles.%s %" PRIu64 " cycles\n", boards[i].suffix,
		       res.estimate);
		printf("figure npu.mobilenetv2.dense.share.%s %.2f %%\n", boards[i].suffix,
		       share_of(&b, mobile.macs, mobile.estimate));
		printf("figure npu.mobilenetv2.cycles.%s %" PRIu64 " cycles\n", boards[i].suffix,
		       mobile.estimate);
		printf("figure npu.resnet18.cascade.gain.%s %.2f %%\n", boards[i].suffix,
		       gain_of(&b, make_resnet18(), &res));
		printf("figure npu.mobilenetv2.cascade.gain.%s %.2f %%\n", boards[i].suffix,
		       gain_of(&b, make_mobilenetv2(), &mobile));
		show_waits(&b, "vgg16", boards[i].suffix, make_vgg16(), &vgg);
		show_waits(&b, "resnet18", boards[i].suffix, make_resnet18(), &res);
		show_waits(&b, "mobilenetv2", boards[i].suffix, make_mobilenetv2(), &mobile);
		missed |= share < boards[i].bar;
	}
	return missed;
}

/* Estimated cycles of the first layer of ResNets, or 0. */
static uint64_t first_layer(const struct rivulet_board *b, bool no_gather)
{
	const struct rivulet_compile_options opt = { .no_gather = no_gather };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	struct rvl_graph *g;
	uint64_t cycles = 0;
	struct qg q;

	qg_open(&q, 7);
	g = finish(&q, conv(&q, image(&q), 64, 7, 2, 1));
	if (!g || rvl_compile_graph(g, b, &opt, NULL, &e, &err))
		return 0;
	for (uint32_t i = 0; i < e.n_segments; i++)
		cycles += e.segments[i].cycles;
	rivulet_explain_free(&e);
	return cycles;
}

/* A kernel of 7 x 7 over three channels, gathered and not. Returns 1 if it is beyond its bar. */
static int bench_first_layer(void)
{
	uint64_t gathered, direct;
	struct rivulet_board b;

	if (load_board(&b, "dense-16x16"))
		return 1;
	gathered = first_layer(&b, false);
	direct = first_layer(&b, true);
	if (!gathered || !direct)
		return 1;
	printf("figure npu.first.cycles %" PRIu64 " cycles\n", gathered);
	printf("figure npu.first.gather.ratio %.2f x\n", (double)direct / (double)gathered);
	return 10 * direct < 45 * gathered;
}

int main(int argc, char **argv)
{
	int missed;

	if (argc > 1)
		return bench_vgg16(argv[1]);
	missed = bench_vgg16("zu3eg-64") | bench_first_layer();
	return bench_networks() | missed;
}

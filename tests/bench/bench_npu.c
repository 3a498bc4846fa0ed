/* SPDX-License-Identifier: MIT */
/*
 * bench_npu [BOARD]: compiles VGG16's thirteen 3x3 layers with random weights in dense int8 as one
 * network (pools on drain) and runs it on the model. Reports the share of the array's peak and the
 * error of the compiler's estimate, also with doubled memory latency.
 */
#include <inttypes.h>

#include "backend.h"
#include "prog_exec.h"
#include "qgraph.h"

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

#define LAYERS	     (sizeof(vgg16) / sizeof(vgg16[0]))
#define INPUT_BYTES  (3u * 224 * 224)
#define OUTPUT_BYTES (512u * 7 * 7)

static struct rvl_graph *make_vgg16(void)
{
	struct qg q;
	struct rvl_tensor *t;

	qg_open(&q, 16);
	t = qg_tensor(&q, "image", RVL_TYPE_U8, (struct rvl_shape){ 4, { 1, 3, 224, 224 } },
		      1 / 64.0f, 128);
	qg_input(&q, t);
	for (size_t i = 0; i < LAYERS; i++) {
		struct qg_conv c = {
			.m = vgg16[i].m, .kh = 3, .kw = 3, .pad = { 1, 1, 1, 1 },
			.wtype = RVL_TYPE_S8, .per_channel = true, .bias = true, .relu = true,
			.ytype = RVL_TYPE_U8, .wscale = 1 / 4096.0f, .yscale = 1 / 64.0f,
		};

		t = qg_conv(&q, vgg16[i].name, t, &c);
		if (vgg16[i].pool)
			t = qg_max_pool(&q, NULL, t, 2, 2, 0);
	}
	qg_output(&q, t);
	if (!q.rc)
		return q.g;
	fprintf(stderr, "bench_npu: %s\n", q.err.msg);
	rvl_graph_free(q.g);
	return NULL;
}

struct result {
	uint64_t macs, estimate, simulated;
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

static int measure(const struct rivulet_board *b, bool table, struct result *r)
{
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	struct rvl_graph *g = make_vgg16();
	int rc = g ? rvl_compile_graph(g, b, NULL, &program, &e, &err) : -ENOMEM;

	if (rc) {
		fprintf(stderr, "bench_npu: %s\n", err.msg);
		return rc;
	}
	for (uint32_t i = 0; i < e.n_segments; i++) {
		r->macs += e.segments[i].macs;
		r->estimate += e.segments[i].cycles;
	}
	if (table)
		rc = show(&e);
	if (!rc)
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

static double share_of(const struct rivulet_board *b, const struct result *r)
{
	return r->simulated ?
		       100.0 * (double)r->macs / ((double)r->simulated * rivulet_board_peak(b)) :
		       0;
}

int main(int argc, char **argv)
{
	struct rivulet_board b;
	struct result r = { 0 }, slow = { 0 };
	double share, error, error2;
	char err[256];

	if (rivulet_board_load(&b, argc > 1 ? argv[1] : "zu3eg-64", err, sizeof(err)))
		return fprintf(stderr, "bench_npu: %s\n", err), 1;
	if (measure(&b, true, &r))
		return 1;
	b.mem_latency *= 2;
	if (measure(&b, false, &slow))
		return 1;
	share = share_of(&b, &r);
	error = error_of(&r);
	error2 = error_of(&slow);
	printf("figure npu.vgg16.dense.share %.2f %%\n", share);
	printf("figure npu.vgg16.dense.share.latency2x %.2f %%\n", share_of(&b, &slow));
	printf("figure npu.vgg16.macs %" PRIu64 " MACs\n", r.macs);
	printf("figure npu.vgg16.cycles %" PRIu64 " cycles\n", r.simulated);
	printf("figure npu.vgg16.cycles.latency2x %" PRIu64 " cycles\n", slow.simulated);
	printf("figure npu.estimate.cycles %" PRIu64 " cycles\n", r.estimate);
	printf("figure npu.estimate.cycles.latency2x %" PRIu64 " cycles\n", slow.estimate);
	printf("figure npu.estimate.error %.3f %%\n", error);
	printf("figure npu.estimate.error.latency2x %.3f %%\n", error2);
	return share < 95.0 || error > 2.0 || error2 > 2.0 || slow.simulated <= r.simulated ||
	       slow.estimate <= r.estimate;
}

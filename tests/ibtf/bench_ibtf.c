// SPDX-License-Identifier: MIT
/*
 * The layers of VGG-11 with dense random weights of 4 bits on cyclonev-64-nodsp, layer by layer:
 * cycles beside those of a bit-serial array of as many adders, which adds one input by one bit of a
 * weight in each of them in a cycle and never waits for memory; with all bits, and with those that
 * are 1. The cycle-stepped model runs a layer of each kind.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cycle.h"
#include "program/program.h"
#include "qgraph.h"

#define BITS	    4
#define BAR	    0.25
#define STEPPED_BAR 2.0 /* per cent */

static const struct layer {
	const char *name;
	int64_t channels, kernels, size, k;
	const char *kind; /* the cycle-stepped model runs it, too */
} layers[] = {
	{ "conv1_1", 3, 64, 224, 3, "first" },	{ "conv2_1", 64, 128, 112, 3, NULL },
	{ "conv3_1", 128, 256, 56, 3, NULL },	{ "conv3_2", 256, 256, 56, 3, NULL },
	{ "conv4_1", 256, 512, 28, 3, NULL },	{ "conv4_2", 512, 512, 28, 3, NULL },
	{ "conv5_1", 512, 512, 14, 3, "3x3" },	{ "conv5_2", 512, 512, 14, 3, NULL },
	{ "fc6", 25088, 4096, 1, 1, NULL },	{ "fc7", 4096, 4096, 1, 1, NULL },
	{ "fc8", 4096, 1000, 1, 1, "product" },
};

#define LAYERS (sizeof(layers) / sizeof(layers[0]))

struct result {
	uint64_t cycles;
	double all, ones; /* cycles of the bit-serial array */
	double stepped;	  /* error of the timeline, per cent */
};

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "bench_ibtf: %s: %s\n", what, why);
	exit(1);
}

static void build(const struct layer *l, struct qg *q)
{
	struct qg_conv c = { .m = l->kernels,
			     .kh = l->k,
			     .kw = l->k,
			     .wtype = RVL_TYPE_S8,
			     .ytype = RVL_TYPE_U8,
			     .bias = true,
			     .relu = true,
			     .pad = { l->k / 2, l->k / 2, l->k / 2, l->k / 2 },
			     .wscale = 1 / 4096.0f,
			     .yscale = 1 / 64.0f };
	struct rvl_tensor *x;

	qg_open(q, (uint64_t)l->channels * 1000 + (uint64_t)l->kernels);
	x = qg_tensor(q, "x", RVL_TYPE_U8,
		      (struct rvl_shape){ 4, { 1, l->channels, l->size, l->size } }, 0.02f, 128);
	qg_input(q, x);
	qg_output(q, qg_conv(q, l->name, x, &c));
	if (q->rc)
		fail(l->name, q->err.msg);
	qg_narrow(q, BITS);
}

/* Bits that are 1 in two's complement, over all weights. */
static double ones_of(const struct rvl_tensor *w)
{
	const uint8_t *v = w->data;
	uint64_t ones = 0;

	for (int64_t i = 0; i < rvl_tensor_bytes(w); i++)
		for (uint32_t bit = 0; bit < BITS; bit++)
			ones += v[i] >> bit & 1;
	return (double)ones;
}

static double stepped(const struct rivulet_board *b, const struct rivulet_program *p,
		      uint64_t cycles)
{
	const struct rivulet_step *s = rivulet_program_steps(p);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->steps; i++) {
		const struct rivulet_step_variant *v = &s[i].variant[b->levels - 1];
		struct cyc_result r;

		if (s[i].kind != RIVULET_STEP_NPU)
			continue;
		if (cyc_run(b, (const void *)((const uint8_t *)p + v->offset),
			    (uint32_t)(v->length / sizeof(struct rivulet_insn)), v->offset % 4096,
			    &r, NULL))
			fail("the cycle-stepped model", "the program does not end");
		sum += r.cycles;
	}
	return 100 * ((double)cycles / (double)sum - 1);
}

static struct result measure(const struct rivulet_board *b, const struct layer *l)
{
	double pixels = (double)(l->size * l->size),
	       weights = (double)(l->channels * l->kernels * l->k * l->k);
	double adders = b->tm * b->dn;
	struct rivulet_compile_options opt = { .require_npu = true };
	struct rivulet_blob program = { 0 };
	struct rivulet_explain e = { 0 };
	struct rvl_err err = { "" };
	struct result r = { 0 };
	struct qg q;

	build(l, &q);
	r.all = pixels * weights * BITS / adders;
	r.ones = pixels * ones_of(q.g->nodes[0]->in[1]) / adders;
	if (rvl_compile_graph(q.g, b, &opt, &program, &e, &err))
		fail(l->name, err.msg);
	for (uint32_t i = 0; i < e.n_segments; i++)
		r.cycles += e.segments[i].cycles;
	if (l->kind)
		r.stepped = stepped(b, program.data, r.cycles);
	printf("%-8s %11llu cycles, bit-serial %11.0f (%.3f), its ones %11.0f (%.3f); %s\n",
	       l->name, (unsigned long long)r.cycles, r.all, (double)r.cycles / r.all, r.ones,
	       (double)r.cycles / r.ones, e.n_rows ? e.rows[0].reason : "");
	rivulet_explain_free(&e);
	rivulet_blob_free(&program);
	return r;
}

int main(void)
{
	struct result sum = { 0 };
	struct rivulet_board b;
	char why[256];
	double ratio;
	int rc = 0;

	if (rivulet_board_load(&b, "cyclonev-64-nodsp", why, sizeof(why)))
		fail("cyclonev-64-nodsp", why);
	for (size_t i = 0; i < LAYERS; i++) {
		struct result r = measure(&b, &layers[i]);

		sum.cycles += r.cycles;
		sum.all += r.all;
		sum.ones += r.ones;
		if (!layers[i].kind)
			continue;
		printf("figure ibtf.stepped.%s %.3f %%\n", layers[i].kind, fabs(r.stepped));
		rc |= fabs(r.stepped) > STEPPED_BAR;
	}
	ratio = (double)sum.cycles / sum.all;
	printf("figure ibtf.cycles.vgg11 %llu cycles\n", (unsigned long long)sum.cycles);
	printf("figure ibtf.cycles.bitserial %.3f x\n", ratio);
	printf("figure ibtf.cycles.bitserial.ones %.3f x\n", (double)sum.cycles / sum.ones);
	return rc || ratio > BAR;
}

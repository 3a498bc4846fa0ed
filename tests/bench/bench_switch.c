// SPDX-License-Identifier: MIT
/*
 * bench_switch [SWITCHES]: keeps the driver's queue full with runs of a stochastic network whose
 * bitstreams have a different length at every level, while it changes the level by devfreq as the
 * daemon's policy does. Each result is compared with the CPU operators at the length of the level
 * that the status reports, and the cycles with that length. Runs in the VM as root, without other
 * users of the device.
 */
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/interp.h"
#include "pass/passes.h"
#include "program/program.h"
#include "../qgraph.h"
#include "clock.h"
#include "power.h"
#include "rivulet.h"
#include "rivulet_eval.h"
#include "rivulet_runtime.h"

#define IN_FLIGHT	8		/* two in the device, the rest in the scheduler */
#define WINDOW		64		/* jobs whose ends may be reported out of order */
#define BYTES		4096		/* of a tensor, at most */
#define LENGTH(l)	(8u + 8u * (l))	/* bits of level l */
#define SEED		7
#define WAIT_MS		60000

struct bench;

struct run {
	struct bench *b;
	struct rivulet_exec *exec;
	uint8_t in[BYTES], out[BYTES];
	uint32_t seq;			/* of its job */
};

struct switching {
	uint32_t level;			/* requested */
	uint32_t current;		/* the job that ran at the request */
	bool requested, reached;	/* reached: a job has run at the level */
};

struct bench {
	struct rivulet_runtime *rt;
	struct rivulet_image *image;
	struct rivulet_board board;
	struct rvl_devfreq devfreq;
	struct run run[IN_FLIGHT];
	uint8_t want[IN_FLIGHT][RIVULET_LEVELS][BYTES];
	uint64_t cycles[RIVULET_LEVELS];
	size_t in_size, out_size;
	uint32_t under_way;
	bool stop;

	struct switching now;
	/* by seq; a status is kept until those of earlier jobs have arrived */
	struct rivulet_status log[WINDOW];
	bool logged[WINDOW];
	uint32_t next_seq;
	uint32_t last_seq;			/* of the job that was submitted last */
	bool begun;				/* the seqs are known */
	uint64_t jobs, wrong, count, full;
	uint32_t last_level;
	uint64_t last_end;
	/* of each switch: microseconds, jobs, microseconds */
	double *gap, *boundaries, *call;
	uint64_t gaps;
	char registers[300];			/* of debugfs */
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_switch: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

static void check(int r, const char *what, const char *why)
{
	if (r < 0)
		die(what, why && *why ? why : strerror(-r));
}

/* ---- the network, and its results at each length ---- */

static struct rvl_graph *network(void)
{
	struct qg_conv c = {
		.m = 4, .kh = 3, .kw = 3, .pad = { 1, 1, 1, 1 }, .wtype = RVL_TYPE_S8, .bias = true,
		.per_channel = true, .relu = true, .ytype = RVL_TYPE_U8, .wscale = 0.02f,
		.yscale = 0.02f,
	};
	struct rvl_shape s = { 4, { 1, 1, 6, 6 } };
	struct rvl_tensor *x, *y;
	struct qg q;

	qg_open(&q, SEED);
	x = qg_tensor(&q, "x", RVL_TYPE_U8, s, 0.02f, 0);
	qg_input(&q, x);
	y = qg_conv(&q, NULL, x, &c);
	if (y)
		*(int32_t *)(uintptr_t)y->quant.zp = 0;
	qg_output(&q, y);
	check(q.rc ? -EINVAL : 0, "network", q.err.msg);
	return q.g;
}

static void on_the_cpu(uint32_t length, const uint8_t *x, uint8_t *y)
{
	struct rvl_graph *g = network();
	struct rvl_interp *it;
	struct rvl_err err;
	size_t size;

	check(rvl_optimise(g, &err), "optimise", err.msg);
	check(rvl_sc_mark(g, NULL, 0, &err), "streams", err.msg);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i]->stochastic)
			g->nodes[i]->attr.sc_length = (int32_t)length;
	check(rvl_interp_new(g, false, &it, &err), "interpreter", err.msg);
	check(rvl_interp_set(it, 0, x, (size_t)rvl_tensor_bytes(g->inputs[0]), &err), "input",
	      err.msg);
	check(rvl_interp_run(it, &err), "interpreter", err.msg);
	size = (size_t)rvl_tensor_bytes(g->outputs[0]);
	memcpy(y, rvl_interp_data(it, g->outputs[0]), size);
	rvl_interp_free(it);
	rvl_graph_free(g);
}

/* The results of different lengths must differ, or the test would prove nothing. */
static void make_answers(struct bench *b)
{
	struct qg random = { .seed = SEED + 1 };

	for (uint32_t r = 0; r < IN_FLIGHT; r++) {
		for (size_t i = 0; i < b->in_size; i++)
			b->run[r].in[i] = (uint8_t)qg_random(&random);
		for (uint32_t l = 0; l < b->board.levels; l++) {
			on_the_cpu(LENGTH(l), b->run[r].in, b->want[r][l]);
			for (uint32_t k = 0; k < l; k++)
				if (!memcmp(b->want[r][k], b->want[r][l], b->out_size))
					die("answers", "two lengths give the same");
		}
	}
}

static void load(struct bench *b)
{
	struct rivulet_compile_options o = { .stochastic = true };
	struct rivulet_estimate_row row[RIVULET_LEVELS];
	struct rivulet_runtime_error why = { .text = "" };
	const struct rivulet_program *p;
	struct rivulet_blob blob = { 0 };
	struct rvl_err err;

	for (uint32_t l = 0; l < RIVULET_LEVELS; l++)
		o.length[l] = LENGTH(l);
	check(rvl_compile_graph(network(), &b->board, &o, &blob, NULL, &err), "compile", err.msg);
	check(rivulet_estimate(blob.data, &b->board, row, &err), "estimate", err.msg);
	for (uint32_t l = 0; l < b->board.levels; l++)
		b->cycles[l] = row[l].cycles;
	check(rivulet_image_load(b->rt, blob.data, blob.size, &b->image, &why), "load", why.text);
	rivulet_blob_free(&blob);
	p = rivulet_image_program(b->image);
	b->in_size = rivulet_program_tensors(p)[0].size;
	b->out_size = rivulet_program_tensors(p)[1].size;
	if (p->steps != 1 || b->in_size > BYTES || b->out_size > BYTES)
		die("network", "it is not one step of small tensors");
}

/* ---- jobs that have ended ---- */

/* Called in the order in which the device ran the jobs. */
static void in_turn(struct bench *b, const struct rivulet_status *s)
{
	struct switching *w = &b->now;

	if (s->start < b->last_end)
		die("order", "a job ran before one that was submitted earlier");
	if (b->last_end && s->level != b->last_level)
		b->gap[b->gaps++] = (double)(s->start - b->last_end) / 1e3;
	b->last_level = s->level;
	b->last_end = s->end;
	if (!w->requested || w->reached || s->level != w->level ||
	    (int32_t)(s->seq - w->current) <= 0)
		return;
	w->reached = true;
	b->boundaries[b->count] = s->seq - w->current;
}

static void put_in_order(struct bench *b, uint32_t seq, const struct rivulet_status *s)
{
	if (seq - b->next_seq >= WINDOW)
		die("order", "a job came twice, or far out of its turn");
	b->log[seq % WINDOW] = *s;
	b->log[seq % WINDOW].seq = seq;
	b->logged[seq % WINDOW] = true;
	for (; b->logged[b->next_seq % WINDOW]; b->next_seq++) {
		b->logged[b->next_seq % WINDOW] = false;
		in_turn(b, &b->log[b->next_seq % WINDOW]);
	}
}

static void judge(struct bench *b, const struct run *r, const struct rivulet_status *s)
{
	uint32_t l = s->level;

	b->jobs++;
	if (l >= b->board.levels || s->variant != l || s->cycles != b->cycles[l] ||
	    memcmp(r->out, b->want[r - b->run][l], b->out_size)) {
		if (!b->wrong++)
			fprintf(stderr, "bench_switch: job %llu: level %u variant %u cycles %llu\n",
				(unsigned long long)b->jobs, l, s->variant,
					(unsigned long long)s->cycles);
	}
	if (b->begun)
		put_in_order(b, r->seq, s);
}

static void go(struct run *r);

static void on_done(struct rivulet_exec *x, void *data)
{
	struct run *r = data;
	struct bench *b = r->b;
	const struct rivulet_exec_result *res = rivulet_exec_result(x);

	check(res->error, "run", res->text);
	b->under_way--;
	judge(b, r, &rivulet_exec_step(x, 0)->status);
	if (!b->stop)
		go(r);
}

static void go(struct run *r)
{
	struct rivulet_exec_params params = { .done = on_done, .data = r };
	struct rivulet_runtime_error why = { .text = "" };

	memset(r->out, 0x77, r->b->out_size);
	r->seq = ++r->b->last_seq;
	check(rivulet_exec_start(r->exec, &params, &why), "start", why.text);
	r->b->under_way++;
}

/* ---- the bench ---- */

static void open_device(struct bench *b)
{
	struct rivulet_runtime_error why = { .text = "" };
	struct rivulet_device *dev;
	struct rvl_text err;
	glob_t g;

	check(rivulet_device_open(NULL, &dev), "device", rivulet_last_error());
	check(rivulet_runtime_new_device(dev, NULL, &b->rt, &why), "runtime", why.text);
	rivulet_device_unref(dev);
	b->board = *rivulet_runtime_board(b->rt);
	if (glob("/sys/bus/pci/drivers/rivulet/0000:*/accel/accel*", 0, NULL, &g))
		die("devfreq", "no device is bound");
	check(rvl_devfreq_open(&b->devfreq, g.gl_pathv[0], &err), "devfreq", err.s);
	globfree(&g);
	if (glob("/sys/kernel/debug/accel/*/registers", 0, NULL, &g))
		die("registers", "no debugfs, or no device in it");
	snprintf(b->registers, sizeof(b->registers), "%s", g.gl_pathv[0]);
	globfree(&g);
}

static void make_runs(struct bench *b)
{
	struct rivulet_runtime_error why = { .text = "" };

	for (uint32_t i = 0; i < IN_FLIGHT; i++) {
		struct run *r = &b->run[i];

		r->b = b;
		check(rivulet_exec_new(b->image, &r->exec, &why), "exec", why.text);
		check(rivulet_exec_bind_memory(r->exec, 0, r->in, b->in_size, &why), "bind",
		      why.text);
		check(rivulet_exec_bind_memory(r->exec, 1, r->out, b->out_size, &why), "bind",
		      why.text);
	}
}

/* The device publishes CURRENT_SEQ before it reads another level request. */
static uint32_t current_seq(const struct bench *b)
{
	FILE *f = fopen(b->registers, "re");
	char line[128];
	uint32_t seq;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*x CURRENT_SEQ %x", &seq) == 1) {
			fclose(f);
			return seq;
		}
	die(b->registers, "no CURRENT_SEQ in it");
	return 0;
}

/*
 * Makes a single run, after which the seq of each later job is known. A job's report does not
 * contain it, but the bench is the device's only client, and its queue runs the jobs in the order
 * of the submits.
 */
static void first_run(struct bench *b)
{
	b->stop = true;
	go(&b->run[0]);
	check(rivulet_exec_wait(b->run[0].exec, WAIT_MS), "wait", "the first run");
	b->last_seq = current_seq(b);
	b->next_seq = b->last_seq + 1;
	b->begun = true;
	b->stop = false;
	b->gaps = b->jobs = 0;
}

static void switch_to(struct bench *b, uint32_t level)
{
	uint64_t asked = clock_ns(), end;
	struct rvl_text err;

	b->now = (struct switching){ .level = level };
	check(rvl_devfreq_pin(&b->devfreq, b->board.level[level].hz, &err), "devfreq", err.s);
	b->call[b->count] = (double)(clock_ns() - asked) / 1e3;
	b->now.current = current_seq(b);
	b->now.requested = true;
	b->full += b->under_way == IN_FLIGHT;
	for (end = clock_ns() + WAIT_MS * 1000000ull; !b->now.reached;) {
		struct pollfd p = { .fd = rivulet_runtime_fd(b->rt), .events = POLLIN };

		if (clock_ns() > end)
			die("switch", "no job ran at the requested level");
		poll(&p, 1, 1000);
		check(rivulet_runtime_dispatch(b->rt), "dispatch", NULL);
	}
	b->count++;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void figure(const char *name, double *v, uint64_t n, const char *unit)
{
	qsort(v, n, sizeof(*v), ascending);
	printf("figure switch.cost.%s.median %.3f %s\n", name, n ? v[n / 2] : 0, unit);
	printf("figure switch.cost.%s.p99 %.3f %s\n", name, n ? v[n - 1 - n / 100] : 0, unit);
}

static int report(struct bench *b, uint64_t wanted)
{
	bool good;

	printf("figure switch.count %llu switches\n", (unsigned long long)b->count);
	printf("figure switch.wrong %llu jobs\n", (unsigned long long)b->wrong);
	printf("figure switch.jobs %llu jobs\n", (unsigned long long)b->jobs);
	figure("boundaries", b->boundaries, b->count, "boundaries");
	printf("figure switch.cost.boundaries.max %.0f boundaries\n", b->boundaries[b->count - 1]);
	figure("gap", b->gap, b->gaps, "us");
	figure("call", b->call, b->count, "us");
	/* Two if the request arrived between two jobs. */
	good = b->count == wanted && !b->wrong && b->full == wanted &&
	       b->boundaries[wanted - 1] <= 2;
	if (b->full != wanted)
		fprintf(stderr, "bench_switch: the queue was full at %llu switches only\n",
			(unsigned long long)b->full);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
	static struct bench b;
	struct qg random = { .seed = SEED + 2 };
	struct rvl_text err;
	uint32_t level = 0;

	if (!wanted)
		die("usage", "bench_switch [SWITCHES], one at least");
	b.gap = calloc(wanted * IN_FLIGHT + 256, sizeof(double));
	b.boundaries = calloc(wanted + 1, sizeof(double));
	b.call = calloc(wanted + 1, sizeof(double));
	if (!b.gap || !b.boundaries || !b.call)
		die("memory", "none");
	open_device(&b);
	load(&b);
	make_answers(&b);
	make_runs(&b);
	first_run(&b);
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		go(&b.run[i]);
	while (b.count < wanted) {
		level = (level + 1 + (uint32_t)qg_range(&random, 0,
							b.board.levels - 2)) % b.board.levels;
		switch_to(&b, level);
	}
	b.stop = true;
	for (uint32_t i = 0; i < IN_FLIGHT; i++) {
		check(rivulet_exec_wait(b.run[i].exec, WAIT_MS), "wait", "the last runs");
		rivulet_exec_unref(b.run[i].exec);
	}
	check(rvl_devfreq_restore(&b.devfreq, &err), "devfreq", err.s);
	rivulet_image_unref(b.image);
	rivulet_runtime_unref(b.rt);
	return report(&b, wanted);
}

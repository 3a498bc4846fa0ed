// SPDX-License-Identifier: MIT
/*
 * Cancellation of CPU steps. A client chooses the amount of work, so the models of this test would
 * compute for minutes: on one thread or on all of them, in one loop or in many.
 */
#include <check.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "onnx_text.h"
#include "rivulet_board.h"
#include "rivulet_compiler.h"
#include "rivulet_runtime.h"
#include "suite.h"

#define MS	1000000ll
/*
 * Processor time of all threads from the cancellation to the end of the run. It takes less than a
 * millisecond, and other load of the machine does not count.
 */
#define BOUND	(200 * MS)
#define TIMES	6
#define MOST_IO	3

static const struct {
	const char *model;
	int opset;
} slow[] = {
	/* One result, which is a single part of the kernel's only loop, of 10^12 products. */
	{ "in x f32 1000; Einsum x x x x -> y equation='a,b,c,d->'; out y f32 -", 13 },
	/* Many parts, each of which takes long. */
	{ "in x f32 64,64,64; Einsum x x x -> y equation='abc,dec,fgc->adf'; out y f32 64,64,64", 13 },
	/* Each part is several whole rows. */
	{ "in x f32 4096,4096; MatMul x x -> y; out y f32 4096,4096", 13 },
	/* Two passes, each of which uses a table. */
	{ "in x f32 1,64,256,256; const r f32 0; const s f32 4 1 1 2 2;"
	  "Resize x r s -> y mode='cubic'; out y f32 1,64,512,512", 13 },
	/* No parallel loop, because each time step needs the one before. */
	{ "in x f32 20000,1,64; const w f32 1,512,64 0.5; const r f32 1,512,512 0.5;"
	  "RNN x w r -> y hidden_size=512; out y f32 20000,1,1,512", 14 },
};

struct rig {
	struct rivulet_workers *workers;
	struct rivulet_runtime *rt;
	struct rivulet_exec *x;
	void *io[MOST_IO];
};

static int64_t time_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void compile(const struct rig *g, const char *text, int opset, struct rivulet_blob *out)
{
	struct rivulet_compile_options o = { .cpu_only = true };
	struct pb model = ot_model(text, opset);
	struct rvl_err e = { "" };

	ck_assert_msg(!rivulet_compile(model.p, model.n, rivulet_runtime_board(g->rt), &o, out, NULL, &e),
		      "%s", e.msg);
	free(model.p);
}

static void bind_all(struct rig *g, const struct rivulet_program *p)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(p);
	struct rivulet_runtime_error err;

	ck_assert_uint_le(p->inputs + p->outputs, MOST_IO);
	for (uint32_t i = 0; i < p->inputs + p->outputs; i++) {
		g->io[i] = calloc(1, t[i].size);
		ck_assert_msg(!rivulet_exec_bind_memory(g->x, i, g->io[i], t[i].size, &err), "%s", err.text);
	}
}

static void rig_runtime(struct rig *g, uint32_t threads)
{
	struct rivulet_runtime_error err;
	struct rivulet_board b;
	char text[256];

	memset(g, 0, sizeof(*g));
	ck_assert_msg(!rivulet_board_load(&b, "zu3eg-64", text, sizeof(text)), "%s", text);
	ck_assert_int_eq(rivulet_workers_new(threads, &g->workers), 0);
	ck_assert_msg(!rivulet_runtime_new_sim(&b, g->workers, &g->rt, &err), "%s", err.text);
	rivulet_runtime_set_offload(g->rt, true);
}

static void rig_model(struct rig *g, const char *model, int opset)
{
	struct rivulet_runtime_error err;
	struct rivulet_image *img;
	struct rivulet_blob blob;

	compile(g, model, opset, &blob);
	ck_assert_msg(!rivulet_image_load(g->rt, blob.data, blob.size, &img, &err), "%s", err.text);
	ck_assert_msg(!rivulet_exec_new(img, &g->x, &err), "%s", err.text);
	bind_all(g, rivulet_image_program(img));
	rivulet_image_unref(img);
	free(blob.data);
}

static void rig_close(struct rig *g)
{
	rivulet_exec_unref(g->x);
	rivulet_runtime_unref(g->rt);
	rivulet_workers_unref(g->workers);
	for (int i = 0; i < MOST_IO; i++)
		free(g->io[i]);
}

static void start(struct rig *g)
{
	struct rivulet_runtime_error err;

	ck_assert_msg(!rivulet_exec_start(g->x, NULL, &err), "%s", err.text);
}

/*
 * Proves that a kernel stops within BOUND, at whatever instruction it is when its run is cancelled,
 * on one worker and on two; that nothing leaks (with the sanitizer); and that the workers remain
 * usable: the same run starts again and is cancelled again.
 */
START_TEST(left_anywhere)
{
	struct rig g;
	int64_t from;

	rig_runtime(&g, 1 + _i % 2);
	rig_model(&g, slow[_i / 2].model, slow[_i / 2].opset);
	for (int i = 0; i < TIMES; i++) {
		start(&g);
		ck_assert_int_eq(rivulet_exec_wait(g.x, 10 * i), -ETIMEDOUT);
		rivulet_exec_cancel(g.x);
		from = time_of(CLOCK_PROCESS_CPUTIME_ID);
		ck_assert_int_eq(rivulet_exec_wait(g.x, 60000), -ECANCELED);
		ck_assert_int_lt(time_of(CLOCK_PROCESS_CPUTIME_ID) - from, BOUND);
	}
	rig_close(&g);
}
END_TEST

/* Proves that a hard deadline ends a kernel as a cancellation does. */
START_TEST(left_at_deadline)
{
	struct rivulet_exec_params p = { .deadline = 0 };
	struct rivulet_runtime_error err;
	struct rig g;
	int64_t from;

	rig_runtime(&g, 1);
	rig_model(&g, slow[0].model, slow[0].opset);
	from = time_of(CLOCK_MONOTONIC);
	p.deadline = from + 100 * MS;
	ck_assert_int_eq(rivulet_exec_start(g.x, &p, &err), 0);
	ck_assert_int_eq(rivulet_exec_wait(g.x, 60000), -ETIME);
	ck_assert_int_ge(time_of(CLOCK_MONOTONIC) - from, 100 * MS);
	rig_close(&g);
}
END_TEST

#define N 300

static void cancel_often(struct rig *g)
{
	for (int i = 0; i < 5; i++) {
		start(g);
		rivulet_exec_wait(g->x, 1);
		rivulet_exec_cancel(g->x);
		ck_assert_int_eq(rivulet_exec_wait(g->x, 60000), -ECANCELED);
	}
}

/*
 * Proves that only the kernel of the cancelled run stops: another run on the same workers ends with
 * the right result while the first one is cancelled repeatedly.
 */
START_TEST(neighbour_unharmed)
{
	struct rig g, n = { .io = { NULL } };
	float *x, *y;
	int at;

	rig_runtime(&g, 2);
	rig_model(&g, slow[1].model, slow[1].opset);
	n.rt = rivulet_runtime_ref(g.rt);
	n.workers = rivulet_workers_ref(g.workers);
	rig_model(&n, "in x f32 300,300; MatMul x x -> y; out y f32 300,300", 13);
	x = n.io[0];
	y = n.io[1];
	for (int i = 0; i < N * N; i++)
		x[i] = 1;
	for (int round = 0; round < 30; round++) {
		memset(y, 0, N * N * sizeof(*y));
		start(&n);
		cancel_often(&g);
		ck_assert_int_eq(rivulet_exec_wait(n.x, 60000), 0);
		/* One assertion, because check writes a message to /tmp for each. */
		for (at = 0; at < N * N && y[at] == N; at++)
			;
		ck_assert_msg(at == N * N, "element %d is %g", at, (double)y[at % (N * N)]);
	}
	rig_close(&n);
	rig_close(&g);
}
END_TEST

/* Whether the dynamic section of a program at @path says that all symbols are bound at its start. */
static bool binds_at_start(const char *path)
{
	size_t size;
	char *file = read_file(path, &size);
	const Elf64_Ehdr *e = (const void *)file;
	const Elf64_Phdr *p = (const void *)(file + e->e_phoff);
	bool now = false;

	ck_assert_mem_eq(e->e_ident, ELFMAG, SELFMAG);
	for (int i = 0; i < e->e_phnum; i++) {
		const Elf64_Dyn *d = (const void *)(file + p[i].p_offset);

		for (; p[i].p_type == PT_DYNAMIC && d->d_tag != DT_NULL; d++)
			now |= (d->d_tag == DT_FLAGS && d->d_un.d_val & DF_BIND_NOW) ||
			       (d->d_tag == DT_FLAGS_1 && d->d_un.d_val & DF_1_NOW);
	}
	free(file);
	return now;
}

/*
 * Proves that the programs that leave kernels by longjmp() bind no symbol later, which would be left
 * half done.
 */
START_TEST(no_lazy_binding)
{
	static const char *const names[] = { "unit/test_cancel", "rivuletd", "rivulet" };
	char self[512], path[600];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	ck_assert_int_gt(n, 0);
	self[n] = 0;
	*strrchr(self, '/') = 0;	/* the folder unit */
	*strrchr(self, '/') = 0;	/* the build's folder */
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", self, names[i]);
		ck_assert_msg(binds_at_start(path), "%s", path);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cancel");
	TCase *t = add_case(s, "cpu", 120, NULL, NULL);

	tcase_add_loop_test(t, left_anywhere, 0, 2 * (int)(sizeof(slow) / sizeof(slow[0])));
	tcase_add_test(t, left_at_deadline);
	tcase_add_test(t, neighbour_unharmed);
	tcase_add_test(t, no_lazy_binding);
	return run_suite(s);
}

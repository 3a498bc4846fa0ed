// SPDX-License-Identifier: MIT
/*
 * The runtime on the linked model, with program files built by the test, which can have any steps,
 * and with files made by the compiler.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../runtime/internal.h"
#include "made_program.h"
#include "npu/estimate.h"
#include "rivulet_compiler.h"
#include "rivulet_isa.h"
#include "suite.h"

#define BOARD "zu3eg-64"

static struct rivulet_workers *workers;
static struct rivulet_runtime *rt;
static struct rivulet_runtime_error err;

static void setup(void)
{
	struct rivulet_board b;
	char text[256];

	ck_assert_msg(!rivulet_board_load(&b, BOARD, text, sizeof(text)), "%s", text);
	ck_assert(!rivulet_workers_new(2, &workers));
	ck_assert_msg(!rivulet_runtime_new_sim(&b, workers, &rt, &err), "%s", err.text);
}

static void teardown(void)
{
	ck_assert_ptr_null(rivulet_runtime_unref(rt));
	ck_assert_ptr_null(rivulet_workers_unref(workers));
}

static struct rivulet_exec *exec_of(const void *file, size_t size)
{
	struct rivulet_image *img;
	struct rivulet_exec *x;

	ck_assert_msg(!rivulet_image_load(rt, file, size, &img, &err), "%s", err.text);
	ck_assert_msg(!rivulet_exec_new(img, &x, &err), "%s", err.text);
	rivulet_image_unref(img);
	return x;
}

static void bind(struct rivulet_exec *x, uint32_t tensor, void *p, size_t size)
{
	ck_assert_msg(!rivulet_exec_bind_memory(x, tensor, p, size, &err), "%s", err.text);
}

static int run(struct rivulet_exec *x, const struct rivulet_exec_params *params)
{
	int r = rivulet_exec_start(x, params, &err);

	return r ? r : rivulet_exec_wait(x, 60000);
}

#define BIG 8192	/* floats; more than a step that runs inline may touch */

/*
 * A chain longer than the look-ahead window that reuses its arena: y = 600 * x only if it runs in
 * order.
 */
START_TEST(long_chain)
{
	struct made *m = calloc(1, sizeof(*m));
	uint32_t n = _i ? BIG : 8, in, out, last;
	float *x = calloc(n, 4), *y = calloc(n, 4);
	struct rivulet_exec *e;

	in = add_tensor(m, RIVULET_PLACE_INPUT, 0, n);
	out = add_tensor(m, RIVULET_PLACE_OUTPUT, 0, n);
	last = in;
	for (uint32_t i = 0; i < 599; i++) {
		uint32_t to = i == 598 ? out : add_tensor(m, RIVULET_PLACE_ARENA,
							  4ull * n * (i % 2), n);

		add_step(m, last, in, to);
		last = to;
	}
	make_file(m);
	e = exec_of(m->file, m->size);
	for (uint32_t i = 0; i < n; i++)
		x[i] = (float)(i % 100);
	bind(e, 0, x, 4 * n);
	bind(e, 1, y, 4 * n);
	for (int again = 0; again < 2; again++) {
		ck_assert_int_eq(run(e, NULL), 0);
		for (uint32_t i = 0; i < n; i++)
			ck_assert_float_eq(y[i], 600 * x[i]);
		memset(y, 0, 4 * n);
	}
	ck_assert_uint_eq(rivulet_exec_result(e)->cpu_steps, 599);
	rivulet_exec_unref(e);
	free(m->file);
	free(m);
	free(x);
	free(y);
}
END_TEST

/* Proves that a worker runs CPU steps one after the other: this thread dispatches once, at the end. */
START_TEST(steps_in_one_go)
{
	struct made *m = calloc(1, sizeof(*m));
	float *x = calloc(BIG, 4), *y = calloc(BIG, 4);
	struct pollfd p = { .events = POLLIN };
	uint32_t in = add_tensor(m, RIVULET_PLACE_INPUT, 0, BIG);
	uint32_t out = add_tensor(m, RIVULET_PLACE_OUTPUT, 0, BIG), last = in;
	struct rivulet_exec *e;

	for (uint32_t i = 0; i < 9; i++) {
		uint32_t to = i == 8 ? out : add_tensor(m, RIVULET_PLACE_ARENA,
							4ull * BIG * (i % 2), BIG);

		add_step(m, last, in, to);
		last = to;
	}
	make_file(m);
	e = exec_of(m->file, m->size);
	x[1] = 2;
	bind(e, 0, x, 4 * BIG);
	bind(e, 1, y, 4 * BIG);
	ck_assert_int_eq(rivulet_exec_start(e, NULL, &err), 0);
	p.fd = rivulet_runtime_fd(rt);
	ck_assert_int_eq(poll(&p, 1, 60000), 1);
	ck_assert_int_eq(rivulet_runtime_dispatch(rt), 1);
	ck_assert_float_eq(y[1], 20);
	ck_assert_uint_eq(rivulet_exec_result(e)->cpu_steps, 9);
	rivulet_exec_unref(e);
	free(m->file);
	free(m);
	free(x);
	free(y);
}
END_TEST

/* Blocks the workers until the test unlocks it. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(struct rvl_rt_task *t)
{
	(void)t;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

#define ATTEMPTS 8 /* to start a run before its deadline */

/*
 * While both workers wait at the gate, a run whose caller waits for it runs on that thread. It can be
 * cancelled or released before, and one with a deadline is left to the workers.
 */
START_TEST(waiting_threads_run_steps)
{
	struct made *m = calloc(1, sizeof(*m));
	float *x = calloc(BIG, 4), *y = calloc(BIG, 4);
	struct rivulet_exec_params p = { .waits = true };
	struct rvl_rt_task block[2] = { { .work = wait_at_gate }, { .work = wait_at_gate } };
	struct rivulet_exec *e;

	add_tensor(m, RIVULET_PLACE_INPUT, 0, BIG);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, BIG);
	add_tensor(m, RIVULET_PLACE_ARENA, 0, BIG);
	add_step(m, 0, 0, 2);
	add_step(m, 2, 0, 1);
	make_file(m);
	e = exec_of(m->file, m->size);
	x[1] = 2;
	bind(e, 0, x, 4 * BIG);
	bind(e, 1, y, 4 * BIG);
	pthread_mutex_lock(&gate);
	rvl_rt_workers_push(workers, &block[0]);
	rvl_rt_workers_push(workers, &block[1]);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(rivulet_exec_start(e, &p, &err), 0);
		ck_assert_int_eq(rivulet_exec_wait(e, -1), 0);
		ck_assert_float_eq(y[1], 6);
		ck_assert_uint_eq(rivulet_exec_step(e, 1)->worker, 0);
		y[1] = 0;
		ck_assert_int_eq(rivulet_exec_start(e, &p, &err), 0);
		rivulet_exec_cancel(e);
		ck_assert_int_eq(rivulet_exec_wait(e, -1), -ECANCELED);
		ck_assert_float_eq(y[1], 0);
	}
	pthread_mutex_unlock(&gate);
	p.deadline = rvl_rt_now() + 60000000000ll;
	ck_assert_int_eq(rivulet_exec_start(e, &p, &err), 0);
	ck_assert_int_eq(rivulet_exec_wait(e, -1), 0);
	ck_assert_uint_gt(rivulet_exec_step(e, 1)->worker, 0);
	p.deadline = 0;
	ck_assert_int_eq(rivulet_exec_start(e, &p, &err), 0);
	rivulet_exec_unref(e);
	free(m->file);
	free(m);
	free(x);
	free(y);
}
END_TEST

/*
 * Starts a run whose deadline is to come while its first step is queued behind the closed gate. On a
 * loaded machine the thread may sleep past the deadline before the start: such a run is repeated with
 * four times the time. @block: two for each attempt, because those of an earlier one may still run.
 */
static void start_at_gate(struct rivulet_exec *e, struct rivulet_exec_params *p, struct rvl_rt_task *block)
{
	int64_t ns = 50000000;

	for (int i = 0; i < ATTEMPTS; i++, ns *= 4) {
		pthread_mutex_lock(&gate);
		rvl_rt_workers_push(workers, &block[2 * i]);
		rvl_rt_workers_push(workers, &block[2 * i + 1]);
		p->deadline = rvl_rt_now() + ns;
		ck_assert_int_eq(rivulet_exec_start(e, p, &err), 0);
		if (rvl_rt_now() < p->deadline)
			return;
		pthread_mutex_unlock(&gate);
		ck_assert_int_ne(rivulet_exec_wait(e, 60000), -ETIMEDOUT);
	}
	ck_abort_msg("no run was started before its deadline");
}

START_TEST(deadline_and_cancel)
{
	struct made *m = calloc(1, sizeof(*m));
	float *x = calloc(BIG, 4), *y = calloc(BIG, 4);
	struct rvl_rt_task block[2 * ATTEMPTS + 2];
	struct rivulet_exec_params p = { 0 };
	struct rivulet_exec *e;

	for (int i = 0; i < 2 * ATTEMPTS + 2; i++)
		block[i] = (struct rvl_rt_task) { .work = wait_at_gate };
	add_tensor(m, RIVULET_PLACE_INPUT, 0, BIG);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, BIG);
	add_tensor(m, RIVULET_PLACE_ARENA, 0, BIG);
	add_step(m, 0, UINT32_MAX, 2);
	add_step(m, 2, UINT32_MAX, 1);
	make_file(m);
	e = exec_of(m->file, m->size);
	bind(e, 0, x, 4 * BIG);
	bind(e, 1, y, 4 * BIG);
	p.deadline = 1;
	ck_assert_int_eq(run(e, &p), -ETIME);
	/*
	 * Both workers wait at the gate, so the first step is still queued when the deadline
	 * passes.
	 */
	start_at_gate(e, &p, block);
	ck_assert_int_eq(rivulet_exec_start(e, &p, &err), -EBUSY);
	ck_assert_int_eq(rivulet_exec_bind_memory(e, 0, x, 4 * BIG, &err), -EBUSY);
	while (rivulet_exec_result(e)->error != -ETIME)
		ck_assert_int_eq(rivulet_exec_wait(e, 100), -ETIMEDOUT);
	pthread_mutex_unlock(&gate);
	ck_assert_int_eq(rivulet_exec_wait(e, 60000), -ETIME);
	ck_assert_uint_eq(rivulet_exec_result(e)->cpu_steps, 1);
	ck_assert(!rivulet_exec_step(e, 1)->ran);
	/* A missed soft deadline does not end the run. */
	p.soft = true;
	p.deadline = 1;
	ck_assert_int_eq(run(e, &p), 0);
	/* A run that is cancelled while its step is queued. */
	pthread_mutex_lock(&gate);
	rvl_rt_workers_push(workers, &block[2 * ATTEMPTS]);
	rvl_rt_workers_push(workers, &block[2 * ATTEMPTS + 1]);
	ck_assert_int_eq(rivulet_exec_start(e, NULL, &err), 0);
	rivulet_exec_cancel(e);
	pthread_mutex_unlock(&gate);
	ck_assert_int_eq(rivulet_exec_wait(e, 60000), -ECANCELED);
	/* Releasing the run in progress waits for it, leaks nothing and calls no callback. */
	ck_assert_int_eq(rivulet_exec_start(e, NULL, &err), 0);
	rivulet_exec_unref(e);
	free(m->file);
	free(m);
	free(x);
	free(y);
}
END_TEST

/*
 * Steps that overlap in the arena depend on each other; steps that do not overlap are independent.
 */
START_TEST(dependencies)
{
	struct made *m = calloc(1, sizeof(*m));
	struct rivulet_exec *e;
	struct rivulet_image *img;

	add_tensor(m, RIVULET_PLACE_INPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_ARENA, 0, 16);
	add_tensor(m, RIVULET_PLACE_ARENA, 64, 16);
	add_tensor(m, RIVULET_PLACE_ARENA, 32, 16);
	add_step(m, 0, UINT32_MAX, 2);		/* 0: writes [0, 64) */
	add_step(m, 0, UINT32_MAX, 3);		/* 1: writes [64, 128): apart from 0 */
	add_step(m, 2, 3, 1);			/* 2: reads both */
	/* 3: writes [32, 96): after 0, 1 (WAW) and 2 (WAR) */
	add_step(m, 0, UINT32_MAX, 4);
	add_step(m, 4, UINT32_MAX, 1);		/* 4: after 3, and after 2 (the output again) */
	make_file(m);
	e = exec_of(m->file, m->size);
	img = rivulet_exec_image(e);
	ck_assert(!rvl_rt_depends(img, 1, 0));
	ck_assert(rvl_rt_depends(img, 2, 0) && rvl_rt_depends(img, 2, 1));
	ck_assert(rvl_rt_depends(img, 3, 0) && rvl_rt_depends(img, 3, 1) &&
		  rvl_rt_depends(img, 3, 2));
	ck_assert(rvl_rt_depends(img, 4, 3) && rvl_rt_depends(img, 4, 2));
	rivulet_exec_unref(e);
	free(m->file);
	free(m);
}
END_TEST

START_TEST(binding)
{
	struct made *m = calloc(1, sizeof(*m));
	float x[16] = { 1, -2, 3 }, y[17];
	struct rivulet_exec *e;
	int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipefd[2];
	float *map;

	add_tensor(m, RIVULET_PLACE_INPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, 16);
	add_step(m, 0, UINT32_MAX, 1);
	make_file(m);
	e = exec_of(m->file, m->size);
	ck_assert_int_eq(rivulet_exec_start(e, NULL, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "input"));
	ck_assert_int_eq(rivulet_exec_bind_memory(e, 2, x, sizeof(x), &err), -ERANGE);
	ck_assert_int_eq(rivulet_exec_bind_memory(e, 0, x, 63, &err), -EINVAL);
	ck_assert_int_eq(rivulet_exec_bind_memory(e, 0, (char *)x + 1, 64, &err), -EINVAL);
	bind(e, 0, x, sizeof(x));
	ck_assert_int_eq(rivulet_exec_start(e, NULL, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "output"));
	/*
	 * A memfd must be sealed, long enough and aligned. The output is visible through the
	 * descriptor.
	 */
	ck_assert(!ftruncate(fd, 8192));
	ck_assert_int_eq(rivulet_exec_bind_fd(e, 1, fd, 4096, &err), -EPERM);
	ck_assert(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	ck_assert_int_eq(rivulet_exec_bind_fd(e, 1, fd, 8160, &err), -EINVAL);
	ck_assert_int_eq(rivulet_exec_bind_fd(e, 1, fd, 8192, &err), -EINVAL);
	ck_assert_int_eq(rivulet_exec_bind_fd(e, 1, fd, 32, &err), -EINVAL);
	ck_assert_int_eq(rivulet_exec_bind_fd(e, 1, fd, UINT64_MAX - 63, &err), -EINVAL);
	ck_assert_msg(!rivulet_exec_bind_fd(e, 1, fd, 4096 + 64, &err), "%s", err.text);
	ck_assert_int_eq(run(e, NULL), 0);
	map = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert(map[1040] == 1 && map[1041] == 0 && map[1042] == 3);
	munmap(map, 8192);
	ck_assert(!pipe(pipefd));
	ck_assert_int_eq(rivulet_exec_bind_fd(e, 1, pipefd[0], 0, &err), -EOPNOTSUPP);
	bind(e, 1, y, sizeof(y));
	ck_assert_int_eq(run(e, NULL), 0);
	ck_assert_float_eq(y[2], 3);
	rivulet_exec_unref(e);
	close(fd);
	close(pipefd[0]);
	close(pipefd[1]);
	free(m->file);
	free(m);
}
END_TEST

/*
 * The second input and the second output. The offset of such a tensor is its number, not an
 * address.
 */
/* 8 of the 16 elements of input 0 or output 0, from @first on. */
static uint32_t add_part(struct made *m, enum rivulet_place place, uint64_t first)
{
	uint32_t t = m->tensors++;

	m->t[t] = (struct rivulet_tensor){ .dtype = RIVULET_F32, .place = place, .at = 4 * first,
					   .size = 32, .ndim = 1, .dim = { 8 } };
	return t;
}

/*
 * Parts of an input are read, and parts of an output written, where they lie. The step that reads the
 * whole output waits for both writers, which are independent. Parts that leave their memory or their
 * elements' alignment, and parts of memory that a tensor names by offset, are refused.
 */
START_TEST(views)
{
	struct made *m = calloc(1, sizeof(*m));
	struct rivulet_exec *e;
	struct rivulet_image *img;
	struct rivulet_tensor *t;
	float a[16], y[2][16];

	add_tensor(m, RIVULET_PLACE_INPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 1, 16);
	add_tensor(m, RIVULET_PLACE_ARENA, 0, 16);
	add_part(m, RIVULET_PLACE_INPUT, 0);	/* 4 */
	add_part(m, RIVULET_PLACE_INPUT, 8);	/* 5 */
	add_part(m, RIVULET_PLACE_OUTPUT, 8);	/* 6 */
	add_part(m, RIVULET_PLACE_OUTPUT, 0);	/* 7 */
	add_step(m, 4, UINT32_MAX, 6);
	add_step(m, 5, 4, 7);
	add_step(m, 1, 0, 2);
	make_file(m);
	t = (void *)(m->file + ((struct rivulet_program *)(void *)m->file)->tensors_off);
	switch (_i) {
	case 1: t[6].at = 36; break;			/* beyond the output */
	case 2: t[4].at = UINT64_MAX - 3; break;
	case 3: t[5].at = 30; break;			/* not aligned */
	case 4: t[1].at = 4; break;			/* an output is all of its memory */
	case 5: t[0].at = 4; break;
	case 6: t[3].at = 4; break;			/* of the arena */
	case 7:			/* an image in NHWC, where the step's parameters say PLAIN */
		t[6].layout = RIVULET_LAYOUT_NHWC;
		t[6].ndim = 4;
		memcpy(t[6].dim, (uint64_t[]){ 1, 2, 2, 2 }, 4 * sizeof(uint64_t));
		break;
	}
	seal(m->file, m->size);
	if (_i) {
		ck_assert_int_eq(rivulet_image_load(rt, m->file, m->size, &img, &err), -EINVAL);
		ck_assert(_i < 7 || strstr(err.text, "its operands are not what its parameters say"));
	} else {
		for (int i = 0; i < 16; i++)
			a[i] = (float)(i % 2 ? i : -i);
		e = exec_of(m->file, m->size);
		img = rivulet_exec_image(e);
		ck_assert(!rvl_rt_depends(img, 1, 0));
		ck_assert(rvl_rt_depends(img, 2, 0) && rvl_rt_depends(img, 2, 1));
		bind(e, 0, a, sizeof(a));
		bind(e, 1, y[0], sizeof(y[0]));
		bind(e, 2, y[1], sizeof(y[1]));
		ck_assert_int_eq(run(e, NULL), 0);
		for (int i = 0; i < 8; i++) {
			ck_assert(y[0][i] == a[i] + a[i + 8]);
			ck_assert(y[0][i + 8] == (a[i] > 0 ? a[i] : 0));
			ck_assert(y[1][i] == y[0][i] + a[i]);
		}
		rivulet_exec_unref(e);
	}
	free(m->file);
	free(m);
}
END_TEST

START_TEST(second_of_each)
{
	struct made *m = calloc(1, sizeof(*m));
	float a[16] = { 1, 2 }, b[16] = { 10, -20 }, y[2][16];
	struct rivulet_exec *e;

	add_tensor(m, RIVULET_PLACE_INPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_INPUT, 1, 16);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 1, 16);
	add_step(m, 0, 1, 2);
	add_step(m, 1, UINT32_MAX, 3);
	make_file(m);
	e = exec_of(m->file, m->size);
	bind(e, 0, a, sizeof(a));
	bind(e, 1, b, sizeof(b));
	bind(e, 2, y[0], sizeof(y[0]));
	bind(e, 3, y[1], sizeof(y[1]));
	ck_assert_int_eq(run(e, NULL), 0);
	ck_assert(y[0][0] == 11 && y[0][1] == -18 && y[1][0] == 10 && y[1][1] == 0);
	rivulet_exec_unref(e);
	free(m->file);
	free(m);
}
END_TEST

/* Parameters and tensors that contradict each other are detected at load. */
START_TEST(contradictions)
{
	struct made *m = calloc(1, sizeof(*m));
	struct rivulet_image *img;
	struct rivulet_program *p;
	struct rivulet_tensor *t;
	struct rivulet_step *s;

	add_tensor(m, RIVULET_PLACE_INPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, 16);
	add_tensor(m, RIVULET_PLACE_ARENA, 0, 8);
	add_step(m, 0, UINT32_MAX, 1);
	make_file(m);
	p = (void *)m->file;
	t = (void *)(m->file + p->tensors_off);
	s = (void *)(m->file + p->steps_off);
	switch (_i) {
	case 0: s->write[0] = 2; break;			/* 16 elements into 8 */
	case 1: s->nread = 0; break;
	case 2: s->op = RVL_OP_ADD; break;
	case 3: m->file[p->params_off + 20] ^= 0x7f; s->params_size -= 8; break;
	case 4: t[2].offset = 4; s->nwrite = 2; break;	/* beyond the arena */
	case 5: s->write[0] = 0; break;			/* writes an input */
	case 6: t[1].dtype = RIVULET_S32; break;
	case 7: t[1].size = 1ull << 40; t[1].dim[0] = 1ull << 38; break;
	case 8:						/* as many elements, but in other dimensions */
		t[1].flags = RIVULET_TENSOR_BOUNDED;
		t[1].ndim = 2;
		t[1].dim[0] = t[1].dim[1] = 4;
		break;
	}
	seal(m->file, m->size);
	ck_assert_int_eq(rivulet_image_load(rt, m->file, m->size, &img, &err), -EINVAL);
	ck_assert_uint_gt(strlen(err.text), 10);
	free(m->file);
	free(m);
}
END_TEST

/*
 * One matrix product of @rows x 32768 by a constant column. The workspace of a @stochastic one holds
 * the whole matrix.
 */
static void make_product(struct made *m, uint64_t rows, bool stochastic)
{
	static const float scale = 0.1f;
	static const int32_t zp;
	struct rvl_kernel_desc d = { .op = RVL_OP_Q_MATMUL, .n_in = 2, .n_out = 1 };
	struct rvl_kernel_arg *arg[] = { &d.in[0], &d.in[1], &d.out[0] };
	const uint64_t dim[3][2] = { { rows, 32768 }, { 32768, 1 }, { rows, 1 } };

	rvl_attr_init(&d.attr);
	d.attr.sc_length = stochastic ? 64 : 0;
	add_tensor(m, RIVULET_PLACE_INPUT, 0, 1);
	add_tensor(m, RIVULET_PLACE_OUTPUT, 0, 1);
	add_tensor(m, RIVULET_PLACE_CONST, 0, 1);
	for (int i = 0; i < 3; i++) {
		struct rivulet_tensor *t = &m->t[i == 2 ? 1 : i == 1 ? 2 : 0];

		*arg[i] = (struct rvl_kernel_arg) { .type = i == 1 ? RVL_TYPE_S8 : RVL_TYPE_U8, .shape = { .rank = 2,
			.dim = { (int64_t)dim[i][0], (int64_t)dim[i][1] } },
			.quant = { .n = 1, .scale = &scale, .zp = &zp } };
		*t = (struct rivulet_tensor) { .dtype = i == 1 ? RIVULET_S8 : RIVULET_U8, .place = t->place, .ndim = 2,
			.size = dim[i][0] * dim[i][1], .dim = { dim[i][0], dim[i][1] } };
	}
	m->params_size = (uint64_t)rvl_desc_pack(&d, m->params, sizeof(m->params));
	m->s[m->steps++] = (struct rivulet_step) { .kind = RIVULET_STEP_CPU, .op = d.op,
		.params_size = m->params_size, .nread = 2, .nwrite = 1, .read = { 0, 2 },
			.write = { 1 } };
	m->const_size = 32768;
	make_file(m);
}

/*
 * A file of 40 KiB must not need gigabytes, and its memory must be included in the reported size.
 */
START_TEST(packed_memory)
{
	struct made *m = calloc(1, sizeof(*m));
	struct rivulet_image *img;

	make_product(m, _i ? 32768 : 8, _i);
	if (_i) {
		ck_assert_int_eq(rivulet_image_load(rt, m->file, m->size, &img, &err), -E2BIG);
		ck_assert_ptr_nonnull(strstr(err.text, "MiB of workspace, at most 1024 MiB are allowed"));
	} else {
		ck_assert_msg(!rivulet_image_load(rt, m->file, m->size, &img, &err), "%s",
			      err.text);
		/* Weights are packed in tiles of at least eight columns. */
		ck_assert_uint_ge(rivulet_image_bytes(img), 32768 * 8);
		ck_assert_uint_lt(rivulet_image_bytes(img), 4 << 20);
		ck_assert_uint_lt(rivulet_image_exec_bytes(img), 1 << 20);
		rivulet_image_unref(img);
	}
	free(m->file);
	free(m);
}
END_TEST

/* ---- the compiler's programs ---- */

static void compile_with(const char *model, const struct rivulet_compile_options *o,
			 struct rivulet_blob *out)
{
	struct rvl_err e = { "" };
	FILE *f = fopen(model, "rbe");
	static char data[1 << 20];
	size_t n;

	ck_assert_msg(f != NULL, "%s: run from the top of the tree", model);
	n = fread(data, 1, sizeof(data), f);
	fclose(f);
	ck_assert_msg(!rivulet_compile(data, n, rivulet_runtime_board(rt), o, out, NULL, &e), "%s",
		      e.msg);
}

static void compile(const char *model, bool cpu_only, struct rivulet_blob *out)
{
	compile_with(model, &(struct rivulet_compile_options) { .cpu_only = cpu_only }, out);
}

#define PIXELS 784
#define SCORES 10

static void picture(float *x, uint32_t seed)
{
	for (int i = 0; i < PIXELS; i++) {
		seed = seed * 1664525 + 1013904223;
		x[i] = (float)(seed >> 24) / 255.0f;
	}
}

static const char *const models[] = { "models/lenet.onnx", "models/resnet.onnx" };

/*
 * Device and CPU kernels give the same bits, and several runs in flight do not affect each other.
 */
START_TEST(many_in_flight)
{
	struct rivulet_blob npu = { 0 }, cpu = { 0 };
	float (*x)[PIXELS] = calloc(8, sizeof(*x)), y[8][SCORES], want[SCORES];
	struct rivulet_exec *e[8], *c;

	compile(models[_i], false, &npu);
	compile(models[_i], true, &cpu);
	c = exec_of(cpu.data, cpu.size);
	for (int i = 0; i < 8; i++) {
		picture(x[i], (uint32_t)i);
		e[i] = exec_of(npu.data, npu.size);
		bind(e[i], 0, x[i], sizeof(x[i]));
		bind(e[i], 1, y[i], sizeof(y[i]));
	}
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(rivulet_exec_start(e[i], NULL, &err), 0);
	for (int i = 7; i >= 0; i--) {
		ck_assert_int_eq(rivulet_exec_wait(e[i], 60000), 0);
		bind(c, 0, x[i], sizeof(x[i]));
		bind(c, 1, want, sizeof(want));
		ck_assert_int_eq(run(c, NULL), 0);
		ck_assert_mem_eq(y[i], want, sizeof(want));
		ck_assert_uint_gt(rivulet_exec_result(e[i])->npu_steps, 0);
		ck_assert_uint_gt(rivulet_exec_result(e[i])->cycles, 10000);
		rivulet_exec_unref(e[i]);
	}
	ck_assert_uint_eq(rivulet_exec_result(c)->npu_steps, 0);
	rivulet_exec_unref(c);
	rivulet_blob_free(&npu);
	rivulet_blob_free(&cpu);
	free(x);
}
END_TEST

/* Returns the records of the first NPU step. */
static const void *prof_of(struct rivulet_exec *e, const struct rivulet_program *p, size_t *count)
{
	uint32_t i = 0;

	while (rivulet_program_steps(p)[i].kind != RIVULET_STEP_NPU)
		i++;
	return rivulet_exec_prof(e, i, count);
}

/*
 * A program compiled with records leaves them in every run, within its cycles; one without leaves
 * none.
 */
START_TEST(profile)
{
	struct rivulet_compile_options o = { .prof = true };
	struct rivulet_blob with = { 0 }, without = { 0 };
	float x[PIXELS], y[SCORES];
	const struct rivulet_prof *p;
	struct rivulet_exec *e;
	size_t count, used;

	compile_with(models[0], &o, &with);
	e = exec_of(with.data, with.size);
	picture(x, 1);
	bind(e, 0, x, sizeof(x));
	bind(e, 1, y, sizeof(y));
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(run(e, NULL), 0);
		p = prof_of(e, with.data, &count);
		ck_assert_ptr_nonnull(p);
		for (used = 0; used < count && p[used].end; used++) {
			ck_assert_uint_lt(p[used].start, p[used].end);
			ck_assert_uint_le(p[used].end, rivulet_exec_result(e)->cycles);
		}
		ck_assert_uint_gt(used, 20);
	}
	rivulet_exec_unref(e);
	compile(models[0], false, &without);
	e = exec_of(without.data, without.size);
	ck_assert_ptr_null(prof_of(e, without.data, &count));
	ck_assert_uint_eq(count, 0);
	rivulet_exec_unref(e);
	rivulet_blob_free(&with);
	rivulet_blob_free(&without);
}
END_TEST

static int callbacks;

static void count_callback(struct rivulet_exec *x, void *data)
{
	ck_assert_ptr_eq(data, &callbacks);
	ck_assert_int_eq(rivulet_exec_result(x)->error, 0);
	callbacks++;
}

/* An event loop polls the descriptor and dispatches. The callback is called once. */
START_TEST(event_loop)
{
	struct rivulet_exec_params p = { .done = count_callback, .data = &callbacks };
	struct pollfd pfd = { .fd = rivulet_runtime_fd(rt), .events = POLLIN };
	struct rivulet_blob npu = { 0 };
	float x[PIXELS], y[SCORES];
	struct rivulet_exec *e;

	compile(models[0], false, &npu);
	e = exec_of(npu.data, npu.size);
	picture(x, 7);
	bind(e, 0, x, sizeof(x));
	bind(e, 1, y, sizeof(y));
	ck_assert_int_eq(rivulet_runtime_dispatch(rt), 0);
	ck_assert_int_eq(poll(&pfd, 1, 0), 0);
	ck_assert_int_eq(rivulet_exec_start(e, &p, &err), 0);
	ck_assert_int_eq(callbacks, 0);
	while (!callbacks) {
		ck_assert_int_eq(poll(&pfd, 1, 60000), 1);
		ck_assert_int_ge(rivulet_runtime_dispatch(rt), 0);
	}
	ck_assert_int_eq(rivulet_runtime_dispatch(rt), 0);
	ck_assert_int_eq(callbacks, 1);
	rivulet_exec_unref(e);
	rivulet_blob_free(&npu);
}
END_TEST

START_TEST(levels)
{
	struct rivulet_blob npu = { 0 };
	float x[PIXELS], y[SCORES];
	const struct rivulet_board *b = rivulet_runtime_board(rt);
	struct rivulet_exec *e;
	uint64_t cycles = 0;

	compile(models[0], false, &npu);
	e = exec_of(npu.data, npu.size);
	picture(x, 1);
	bind(e, 0, x, sizeof(x));
	bind(e, 1, y, sizeof(y));
	ck_assert_int_eq(rivulet_runtime_set_level(rt, b->levels), -EINVAL);
	ck_assert_int_eq(rivulet_runtime_monitor(rt, NULL), -EOPNOTSUPP);
	for (uint32_t l = 0; l < b->levels; l++) {
		const struct rivulet_exec_result *r = rivulet_exec_result(e);
		struct rvl_err why = { "" };
		struct rivulet_work w;

		ck_assert_int_eq(rivulet_runtime_set_level(rt, l), 0);
		ck_assert_int_eq(run(e, NULL), 0);
		ck_assert_uint_eq(r->level_min, l);
		ck_assert_uint_eq(r->level_max, l);
		ck_assert(!cycles || cycles == r->cycles);
		cycles = r->cycles;
		ck_assert_double_eq_tol((double)r->device_ns,
					1e9 * (double)cycles / (double)b->level[l].hz, 2);
		ck_assert_int_eq(rvl_work_at((const void *)npu.data, b, l, &w, &why), 0);
		ck_assert_uint_eq(w.macs, r->macs);
		ck_assert_uint_eq(w.cycles, r->cycles);
		ck_assert_uint_eq(r->energy_pj, rivulet_board_energy_pj(b, l, &w));
		ck_assert_uint_eq(rivulet_runtime_totals(rt)[l].jobs, 1);
		ck_assert_uint_eq(rivulet_runtime_totals(rt)[l].cycles, cycles);
		ck_assert_uint_eq(rivulet_exec_step(e, 1)->status.level, l);
	}
	ck_assert_ptr_null(rivulet_exec_step(e, 100));
	rivulet_exec_unref(e);
	rivulet_blob_free(&npu);
}
END_TEST

/*
 * A paced model ends a run no earlier than its device time has passed; one without pace ends it at
 * once.
 */
START_TEST(paced)
{
	struct rivulet_board b = *rivulet_runtime_board(rt);
	struct rivulet_blob npu = { 0 };
	const struct rivulet_exec_result *r;
	float x[PIXELS], y[SCORES];
	struct rivulet_exec *e;

	/* The clock is so slow that the device time is far above the time to compute a run. */
	for (uint32_t l = 0; l < b.levels; l++)
		b.level[l].hz = 50000;
	compile(models[0], false, &npu);
	rivulet_runtime_unref(rt);
	ck_assert_int_eq(rivulet_runtime_new_sim(&b, workers, &rt, &err), 0);
	e = exec_of(npu.data, npu.size);
	picture(x, 1);
	bind(e, 0, x, sizeof(x));
	bind(e, 1, y, sizeof(y));
	r = rivulet_exec_result(e);
	ck_assert_int_eq(run(e, NULL), 0);
	ck_assert_uint_lt(r->end_ns - r->start_ns, r->device_ns);
	ck_assert_int_eq(rivulet_runtime_set_paced(rt, true), 0);
	ck_assert_int_eq(run(e, NULL), 0);
	ck_assert_uint_ge(r->end_ns - r->start_ns, r->device_ns);
	rivulet_exec_unref(e);
	rivulet_blob_free(&npu);
}
END_TEST

/* Makes the first LOAD of the program read far outside slot 0. */
static void break_load(struct rivulet_blob *p)
{
	const struct rivulet_program *h = p->data;

	for (uint32_t i = 0; i < h->steps; i++) {
		const struct rivulet_step *s = &rivulet_program_steps(h)[i];
		struct rivulet_insn *in = (void *)((char *)p->data + s->variant[0].offset);

		for (uint32_t k = 0; s->kind == RIVULET_STEP_NPU &&
		     k < s->variant[0].length / 16; k++) {
			struct rivulet_decoded d;

			if (rivulet_decode(&in[k], &d) || d.form != RIVULET_FORM_load)
				continue;
			d.load.offset = 0x7fffffff;
			ck_assert_int_eq(rivulet_encode(&d, &in[k], NULL), 0);
			seal(p->data, p->size);
			return;
		}
	}
	ck_abort_msg("no LOAD in the program");
}

/* A fault gives step, layer, code, slot and offset. The next run of another program succeeds. */
START_TEST(fault)
{
	struct rivulet_blob bad = { 0 }, good = { 0 };
	const struct rivulet_exec_result *r;
	float x[PIXELS], y[SCORES];
	struct rivulet_exec *e, *g;

	compile(models[0], false, &bad);
	compile(models[0], false, &good);
	break_load(&bad);
	e = exec_of(bad.data, bad.size);
	g = exec_of(good.data, good.size);
	picture(x, 3);
	for (int i = 0; i < 2; i++) {
		bind(i ? g : e, 0, x, sizeof(x));
		bind(i ? g : e, 1, y, sizeof(y));
	}
	ck_assert_int_eq(run(e, NULL), -EIO);
	r = rivulet_exec_result(e);
	ck_assert_uint_eq(r->status.state, RIVULET_STATE_FAULT);
	ck_assert_uint_eq(r->status.fault, RIVULET_FAULT_SLOT_LIMIT);
	ck_assert_uint_eq(r->status.fault_slot, RIVULET_SLOT_PROGRAM);
	ck_assert_uint_eq(r->step, 1);
	ck_assert_ptr_nonnull(strstr(r->text, "SLOT_LIMIT"));
	ck_assert_ptr_nonnull(strstr(r->text, "slot 0, offset 0x7fffffff"));
	ck_assert_ptr_nonnull(strstr(r->text, "c1 .. f3"));
	ck_assert_int_eq(run(g, NULL), 0);
	rivulet_exec_unref(e);
	rivulet_exec_unref(g);
	rivulet_blob_free(&bad);
	rivulet_blob_free(&good);
}
END_TEST

/*
 * Random changes of files with a corrected checksum. Most are refused; the others run to some end.
 * The sanitizers check that nothing is accessed out of bounds.
 */
START_TEST(hostile)
{
	struct rivulet_blob p = { 0 };
	float x[PIXELS], y[SCORES];
	uint32_t seed = 12345u + (uint32_t)_i, taken = 0, refused = 0;
	char *copy;

	compile(models[0], false, &p);
	copy = aligned_alloc(64, (p.size + 63) / 64 * 64);
	picture(x, 3);
	for (int round = 0; round < 150; round++) {
		struct rivulet_image *img;
		struct rivulet_exec *e;

		memcpy(copy, p.data, p.size);
		for (int k = 0; k < 1 + round % 3; k++) {
			/*
			 * Tables and commands, where a byte has an effect. Most of the file is
			 * weights.
			 */
			uint32_t at;

			seed = seed * 1664525 + 1013904223;
			at = (seed >> 8) % (round % 2 ? 4096 : (uint32_t)p.size);
			if (at < 24)
				continue;
			seed = seed * 1664525 + 1013904223;
			copy[at] ^= (char)(1u << (seed >> 29));
		}
		seal(copy, p.size);
		if (rivulet_image_load(rt, copy, p.size, &img, &err)) {
			ck_assert_uint_gt(strlen(err.text), 5);
			refused++;
			continue;
		}
		if (!rivulet_exec_new(img, &e, &err)) {
			for (uint32_t i = 0; i < rivulet_image_program(img)->inputs +
						 rivulet_image_program(img)->outputs; i++)
				rivulet_exec_bind_memory(e, i, i ? (void *)y : (void *)x,
							 i ? sizeof(y) : sizeof(x), &err);
			if (!rivulet_exec_start(e, NULL, &err))
				ck_assert_int_ne(rivulet_exec_wait(e, 60000), -ETIMEDOUT);
			rivulet_exec_unref(e);
			taken++;
		}
		rivulet_image_unref(img);
	}
	ck_assert_uint_gt(refused, 20);
	ck_assert_uint_gt(taken, 20);
	/* Every truncation is refused. */
	for (size_t n = 0; n < p.size; n += 97) {
		struct rivulet_image *img;

		ck_assert_int_eq(rivulet_image_load(rt, p.data, n, &img, &err), -EINVAL);
	}
	free(copy);
	rivulet_blob_free(&p);
}
END_TEST

START_TEST(other_target)
{
	struct rivulet_blob p = { 0 };
	struct rivulet_image *img;

	compile(models[0], false, &p);
	((struct rivulet_program *)p.data)->target.tm = 32;
	seal(p.data, p.size);
	ck_assert_int_eq(rivulet_image_load(rt, p.data, p.size, &img, &err), -ENOEXEC);
	ck_assert_msg(strstr(err.text, "tm") && strstr(err.text, "32"), "%s", err.text);
	rivulet_blob_free(&p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("runtime");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, long_chain, 0, 2);
	tcase_add_test(t, steps_in_one_go);
	tcase_add_test(t, deadline_and_cancel);
	tcase_add_test(t, dependencies);
	tcase_add_loop_test(t, views, 0, 8);
	tcase_add_test(t, binding);
	tcase_add_test(t, second_of_each);
	tcase_add_loop_test(t, packed_memory, 0, 2);
	tcase_add_loop_test(t, contradictions, 0, 9);
	tcase_add_loop_test(t, many_in_flight, 0, 2);
	tcase_add_test(t, profile);
	tcase_add_test(t, event_loop);
	tcase_add_test(t, levels);
	tcase_add_test(t, paced);
	tcase_add_test(t, fault);
	tcase_add_loop_test(t, hostile, 0, 2);
	tcase_add_test(t, other_target);
	tcase_add_test(t, waiting_threads_run_steps);
	suite_add_tcase(s, t);
	return run_suite(s);
}

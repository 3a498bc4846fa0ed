// SPDX-License-Identifier: MIT
/*
 * Frames a second of a model with CPU steps around its NPU steps, one frame at a time and three in
 * flight. The runtime, its worker and its order of steps are the real ones. Time is counted: a device
 * that computes nothing is occupied by a job as long as the compiler's timeline says, one processor is
 * occupied by a CPU step as long as below, and both are slept for, so that the order is that of real
 * time. Delays of a loaded machine do not count.
 *
 *   bench_pipeline MODEL BOARD a53   CPU steps last as on the Cortex-A53 of the seed: head 3.1 ms,
 *                                    tail 14.5 ms, convolutions 4.1 GMAC/s; nothing is computed
 *   bench_pipeline MODEL BOARD host  CPU steps run here, and count their processor time
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "../../runtime/internal.h"
#include "rivulet_compiler.h"
#include "rivulet_crc32c.h"

#define FRAMES	  200
#define DEPTH	  3
#define SLOWER	  10
#define HEAD_NS	  3.1e6
#define TAIL_NS	  14.5e6
#define NS_PER_MAC (1 / 4.1)

/* A run, and when its next step may begin at the earliest, by the clocks that the bench keeps. */
struct frame {
	struct rivulet_exec *x;
	int64_t ready;
};

static struct {
	struct rivulet_board board;
	struct rivulet_explain explain;
	struct rivulet_image *img;
	struct frame frame[DEPTH];
	bool a53;
	double *cpu_ns; /* by step, of the A53 */
	/* The device. */
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_t thread;
	struct rvl_rt_task *first, **last;
	bool stop;
	int64_t npu_idle, cpu_idle; /* when their last work ends */
	int64_t ended;		    /* the latest end of a frame that was taken */
	int64_t began;		    /* of a measurement, when counted and real time are equal */
} b = { .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .last = &b.first };

static void demand(bool holds, const char *what, const char *why)
{
	if (holds)
		return;
	fprintf(stderr, "bench_pipeline: %s: %s\n", what, why);
	exit(1);
}

/* @ns: counted time. */
static void sleep_until(int64_t ns)
{
	int64_t real = b.a53 ? ns : b.began + SLOWER * (ns - b.began);
	struct timespec t = { .tv_sec = real / 1000000000, .tv_nsec = real % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static struct frame *frame_of(const struct rivulet_exec *x)
{
	for (int i = 0; i < DEPTH; i++)
		if (b.frame[i].x == x)
			return &b.frame[i];
	return NULL;
}

/* Occupies a resource for @ns from when it is idle and the frame is ready. The end is waited for. */
static void occupy(int64_t *idle, struct frame *f, int64_t ns)
{
	int64_t end;

	pthread_mutex_lock(&b.lock);
	end = (*idle > f->ready ? *idle : f->ready) + ns;
	*idle = f->ready = end;
	pthread_mutex_unlock(&b.lock);
	sleep_until(end);
}

/* ---- the device ---- */

static uint64_t cycles_of(uint32_t step)
{
	for (uint32_t i = 0; i < b.explain.n_segments; i++)
		if (b.explain.segments[i].step == step)
			return b.explain.segments[i].cycles;
	return 0;
}

static int64_t npu_ns(uint32_t step)
{
	return (int64_t)(1e9 * (double)cycles_of(step) / (double)b.board.level[b.board.levels - 1].hz);
}

static void run_job(struct rvl_rt_task *t)
{
	struct frame *f = frame_of(t->x);
	struct rivulet_status st = { .state = RIVULET_STATE_DONE, .cycles = cycles_of(t->step) };

	occupy(&b.npu_idle, f, npu_ns(t->step));
	st.end = (uint64_t)npu_ns(t->step);
	st.crc = rivulet_crc32c(0, &st, offsetof(struct rivulet_status, crc));
	memcpy((uint8_t *)t->x->reports.host + (size_t)t->x->img->report[t->step] * RVL_RT_REPORT, &st, sizeof(st));
	t->error = 0;
	rvl_rt_complete(t->x->img->rt, t);
}

static void *device(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&b.lock);
	for (;;) {
		struct rvl_rt_task *t;

		while (!b.first && !b.stop)
			pthread_cond_wait(&b.work, &b.lock);
		t = b.first;
		if (!t)
			break;
		b.first = t->next;
		b.last = b.first ? b.last : &b.first;
		pthread_mutex_unlock(&b.lock);
		run_job(t);
		pthread_mutex_lock(&b.lock);
	}
	pthread_mutex_unlock(&b.lock);
	return NULL;
}

static int alloc(struct rivulet_runtime *rt, uint64_t size, struct rvl_rt_mem *out,
		 struct rivulet_runtime_error *err)
{
	void *p = aligned_alloc(4096, (size + 4096) / 4096 * 4096);

	(void)rt;
	if (!p)
		return rvl_rt_fail(err, ENOMEM, "out of memory");
	memset(p, 0, size);
	*out = (struct rvl_rt_mem){ .host = p, .size = size, .heap = p };
	return 0;
}

static int submit(struct rivulet_runtime *rt, const struct rvl_rt_npu_job *job, struct rvl_rt_task *t,
		  struct rivulet_runtime_error *err)
{
	(void)rt;
	(void)job;
	(void)err;
	pthread_mutex_lock(&b.lock);
	t->next = NULL;
	*b.last = t;
	b.last = &t->next;
	pthread_cond_signal(&b.work);
	pthread_mutex_unlock(&b.lock);
	return 0;
}

static void synced(struct rivulet_runtime *rt, struct rvl_rt_task *t)
{
	(void)rt;
	(void)t;
}

static void destroy(struct rivulet_runtime *rt)
{
	(void)rt;
	pthread_mutex_lock(&b.lock);
	b.stop = true;
	pthread_cond_signal(&b.work);
	pthread_mutex_unlock(&b.lock);
	pthread_join(b.thread, NULL);
}

static const struct rvl_rt_backend backend = { .mem_alloc = alloc, .submit = submit, .synced = synced,
					       .destroy = destroy, .plain_memory = true };

/* ---- CPU steps ---- */

static int64_t processor_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

void __real_rvl_rt_cpu_run(struct rvl_rt_task *t);
void __wrap_rvl_rt_cpu_run(struct rvl_rt_task *t);
void __wrap_rvl_rt_cpu_run(struct rvl_rt_task *t)
{
	int64_t ns = (int64_t)b.cpu_ns[t->step];

	t->error = 0;
	if (!b.a53) {
		int64_t from = processor_ns();

		__real_rvl_rt_cpu_run(t);
		ns = processor_ns() - from;
	}
	occupy(&b.cpu_idle, frame_of(t->x), ns);
}

static uint64_t elements(const struct rivulet_tensor *t)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < t->ndim; i++)
		n *= t->dim[i];
	return n;
}

/* The head's and the tail's time is spread over their steps; convolutions take theirs. */
static void model_cpu(const struct rivulet_program *p)
{
	const struct rivulet_step *s = rivulet_program_steps(p);
	const struct rivulet_tensor *t = rivulet_program_tensors(p);
	uint32_t first = p->steps, last = 0;

	for (uint32_t i = 0; i < p->steps; i++) {
		if (s[i].kind != RIVULET_STEP_NPU)
			continue;
		first = i < first ? i : first;
		last = i;
	}
	b.cpu_ns = calloc(p->steps + 1, sizeof(*b.cpu_ns));
	demand(b.cpu_ns, "memory", "none");
	for (uint32_t i = 0; i < p->steps; i++) {
		const struct rivulet_tensor *w = s[i].nread > 1 ? &t[s[i].read[1]] : NULL;

		if (i < first)
			b.cpu_ns[i] = HEAD_NS / first;
		else if (i > last)
			b.cpu_ns[i] = TAIL_NS / (p->steps - 1 - last);
		if (s[i].kind == RIVULET_STEP_CPU && (s[i].op == RVL_OP_CONV || s[i].op == RVL_OP_Q_CONV) && w)
			b.cpu_ns[i] += NS_PER_MAC * (double)elements(&t[s[i].write[0]]) *
				       (double)(elements(w) / w->dim[0]);
	}
}

/* ---- frames ---- */

static void add_frame(struct frame *f, const struct rivulet_program *p)
{
	struct rivulet_runtime_error err = { "" };
	const struct rivulet_tensor *t = rivulet_program_tensors(p);

	demand(!rivulet_exec_new(b.img, &f->x, &err), "exec", err.text);
	for (uint32_t i = 0; i < p->inputs + p->outputs; i++) {
		uint8_t *m = aligned_alloc(64, (t[i].size + 64) / 64 * 64);

		demand(m != NULL, "memory", "none");
		for (uint64_t k = 0; k < t[i].size; k++)
			m[k] = t[i].dtype == RIVULET_F32 ? 0 : (uint8_t)(k * 37);
		demand(!rivulet_exec_bind_memory(f->x, i, m, t[i].size, &err), "bind", err.text);
	}
}

static void start(struct frame *f)
{
	struct rivulet_runtime_error err = { "" };

	f->ready = b.ended;
	demand(!rivulet_exec_start(f->x, NULL, &err), "start", err.text);
}

/* Frames a second with @depth of them in flight, taken in order. */
static double measure(uint32_t depth, uint32_t frames)
{
	int64_t began = rvl_rt_now();
	uint32_t started = 0;

	b.began = b.ended = b.npu_idle = b.cpu_idle = began;

	for (uint32_t taken = 0; taken < frames; taken++) {
		while (started < frames && started < taken + depth)
			start(&b.frame[started++ % depth]);
		demand(!rivulet_exec_wait(b.frame[taken % depth].x, -1), "run",
		       rivulet_exec_result(b.frame[taken % depth].x)->text);
		if (b.frame[taken % depth].ready > b.ended)
			b.ended = b.frame[taken % depth].ready;
	}
	return frames * 1e9 / (double)(b.ended - began);
}

static const void *map_file(const char *path, size_t *size)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *p = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, &st))
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	demand(p != MAP_FAILED, path, strerror(errno));
	*size = (size_t)st.st_size;
	return p;
}

static struct rivulet_runtime *open_model(const char *path)
{
	struct rivulet_runtime_error err = { "" };
	struct rivulet_workers *pool;
	struct rivulet_runtime *rt;
	struct rivulet_blob program;
	struct rvl_err why = { "" };
	size_t size;
	const void *onnx = map_file(path, &size);

	demand(!rivulet_compile(onnx, size, &b.board, NULL, &program, &b.explain, &why), path, why.msg);
	/* One worker is the one processor. */
	demand(!rivulet_workers_new(1, &pool), "workers", "cannot start");
	demand(!rvl_rt_new(pool, &backend, &rt, &err), "runtime", err.text);
	rt->board = b.board;
	rivulet_runtime_set_offload(rt, true);
	demand(!pthread_create(&b.thread, NULL, device, NULL), "thread", "cannot start");
	demand(!rivulet_image_load(rt, program.data, program.size, &b.img, &err), path, err.text);
	model_cpu(rivulet_image_program(b.img));
	for (int i = 0; i < DEPTH; i++)
		add_frame(&b.frame[i], rivulet_image_program(b.img));
	rivulet_blob_free(&program);
	rivulet_workers_unref(pool);
	return rt;
}

/* Milliseconds of a run alone on its slower resource: the least time between frames. */
static double bound_ms(double npu)
{
	double cpu = 0;

	for (uint32_t i = 0; i < rivulet_image_program(b.img)->steps; i++)
		cpu += 1e-6 * b.cpu_ns[i];
	return b.a53 && cpu > npu ? cpu : npu;
}

static double npu_ms(void)
{
	double sum = 0;

	for (uint32_t i = 0; i < b.explain.n_segments; i++)
		sum += (double)npu_ns(b.explain.segments[i].step);
	return 1e-6 * sum;
}

int main(int argc, char **argv)
{
	struct rivulet_runtime *rt;
	char err[256];
	double alone, together;

	demand(argc == 4 && (!strcmp(argv[3], "a53") || !strcmp(argv[3], "host")), "usage", "MODEL BOARD a53|host");
	demand(!rivulet_board_load(&b.board, argv[2], err, sizeof(err)), argv[2], err);
	b.a53 = !strcmp(argv[3], "a53");
	rt = open_model(argv[1]);
	measure(1, 4); /* packs weights, warms caches */
	alone = measure(1, FRAMES);
	together = measure(DEPTH, FRAMES);
	printf("%s on %s, %u frames, CPU steps of %s\n", argv[1], argv[2], FRAMES,
	       b.a53 ? "the Cortex-A53 model" : "this machine");
	printf("figure pipeline.%s.npu %.2f ms\n", argv[3], npu_ms());
	printf("figure pipeline.%s.bound %.1f frames/s\n", argv[3], 1e3 / bound_ms(npu_ms()));
	printf("figure pipeline.%s.serial %.1f frames/s\n", argv[3], alone);
	printf("figure pipeline.%s.fps %.1f frames/s\n", argv[3], together);
	for (int i = 0; i < DEPTH; i++)
		rivulet_exec_unref(b.frame[i].x);
	rivulet_image_unref(b.img);
	rivulet_runtime_unref(rt);
	return 0;
}

// SPDX-License-Identifier: MIT
/*
 * Back end: the linked device model. One thread runs the jobs in the order of submission, as one
 * device does. Regions are spans of the process's own memory; the model checks every access against
 * them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "rivulet_sim.h"

struct sim_job {
	struct sim_job *next;
	struct rvl_rt_task *task;
	struct rvl_job job;
	uint32_t level;
	int64_t submitted;		/* CLOCK_MONOTONIC, ns */
	struct rivulet_status *report;	/* NULL: none wanted */
};

struct rvl_rt_sim {
	struct rivulet_runtime *rt;
	struct rivulet_sim *sim;
	struct rvl_bus bus;
	uint8_t window[RIVULET_WINDOW_SIZE] __attribute__((aligned(64)));
	uint32_t level;			/* for jobs submitted from now on */
	atomic_bool paced;		/* completions wait for device time */
	int64_t idle;			/* when the last paced job ended; the model's thread only */
	bool started;
	pthread_t thread;
	pthread_mutex_t lock;		/* the queue and @stop */
	pthread_cond_t work;
	struct sim_job *first, **last;
	bool stop;
};

/*
 * A region's address is the host address; its limit, which the model checks, is the memory's size.
 */
static void *map_host(void *ctx, uint64_t addr, uint64_t len, bool write)
{
	(void)ctx;
	(void)len;
	(void)write;
	return (void *)(uintptr_t)addr;
}

/* A job that was queued behind another one starts, in device time, when that one ended. */
static void wait_for_device_time(struct rvl_rt_sim *s, int64_t start, uint64_t device_ns)
{
	struct timespec due;

	s->idle = (start > s->idle ? start : s->idle) + (int64_t)device_ns;
	due = (struct timespec){ .tv_sec = s->idle / 1000000000, .tv_nsec = s->idle % 1000000000 };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
		;
}

static void run_job(struct rvl_rt_sim *s, struct sim_job *j)
{
	struct rivulet_status *st = &j->task->report.status;

	rivulet_sim_run(s->sim, &j->job, 1, j->level, st);
	if (atomic_load(&s->paced))
		wait_for_device_time(s, j->submitted, st->end - st->start);
	if (j->report)
		*j->report = *st;
	j->task->error = 0;
	rvl_rt_complete(s->rt, j->task);
	free(j);
}

static void *sim_thread(void *arg)
{
	struct rvl_rt_sim *s = arg;
	struct sim_job *j;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (!s->first && !s->stop)
			pthread_cond_wait(&s->work, &s->lock);
		j = s->first;
		if (!j)
			break;
		s->first = j->next;
		if (!s->first)
			s->last = &s->first;
		pthread_mutex_unlock(&s->lock);
		run_job(s, j);
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/*
 * The variant of the level in force, as the device picks it at promotion. -EOPNOTSUPP: none, which
 * the device would retire as NO_VARIANT.
 */
static int pick_variant(const struct rivulet_step *step, uint32_t level, struct rivulet_variant *v)
{
	if (!step->variant[level].length)
		return -EOPNOTSUPP;
	*v = (struct rivulet_variant) { .offset = step->variant[level].offset,
					.length = step->variant[level].length,
					.slot = RIVULET_SLOT_PROGRAM };
	return 0;
}

static void fill_regions(struct rvl_rt_sim *s, const struct rvl_rt_npu_job *job, struct rvl_job *out)
{
	out->regions.bus = &s->bus;
	for (uint32_t i = 0; i < RIVULET_SLOTS; i++) {
		const struct rvl_rt_mem *m = job->slot[i];
		bool write = job->step->writes_mask >> i & 1 || i == RIVULET_SLOT_REPORT;

		if (!m || !m->size)
			continue;
		out->regions.region[i] = (struct rivulet_region) {
			.addr = (uintptr_t)m->host, .limit = m->size,
			.flags = RIVULET_REGION_VALID | (write ? RIVULET_REGION_WRITE : 0) };
	}
}

static void enqueue(struct rvl_rt_sim *s, struct sim_job *j)
{
	pthread_mutex_lock(&s->lock);
	*s->last = j;
	s->last = &j->next;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
}

static int sim_submit(struct rivulet_runtime *rt, const struct rvl_rt_npu_job *job,
		      struct rvl_rt_task *t, struct rivulet_runtime_error *err)
{
	struct rvl_rt_sim *s = rt->sim;
	struct sim_job *j = calloc(1, sizeof(*j));

	if (!j)
		return rvl_rt_fail(err, ENOMEM, "out of memory");
	/* As on the device, a level below the job's minimum is deferred until the job has run. */
	j->level = s->level < job->min_level ? job->min_level : s->level;
	if (pick_variant(job->step, j->level, &j->job.variant)) {
		rvl_rt_fail(err, EOPNOTSUPP, "no command stream for level %u", j->level);
		free(j);
		return -EOPNOTSUPP;
	}
	fill_regions(s, job, &j->job);
	j->task = t;
	j->submitted = rvl_rt_now();
	if (job->slot[RIVULET_SLOT_REPORT])
		j->report = (void *)((char *)job->slot[RIVULET_SLOT_REPORT]->host +
				     job->report_offset);
	enqueue(s, j);
	return 0;
}

static void sim_synced(struct rivulet_runtime *rt, struct rvl_rt_task *t)
{
	(void)rt;
	(void)t;
}

static int sim_set_level(struct rivulet_runtime *rt, uint32_t level)
{
	rt->sim->level = level;
	return 0;
}

int rivulet_runtime_set_paced(struct rivulet_runtime *rt, bool paced)
{
	if (!rt->sim)
		return -EOPNOTSUPP;
	atomic_store(&rt->sim->paced, paced);
	return 0;
}

static void sim_destroy(struct rivulet_runtime *rt)
{
	struct rvl_rt_sim *s = rt->sim;

	if (!s)
		return;
	if (s->started) {
		pthread_mutex_lock(&s->lock);
		s->stop = true;
		pthread_cond_signal(&s->work);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->thread, NULL);
	}
	rivulet_sim_free(s->sim);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->work);
	free(s);
}

static const struct rvl_rt_backend sim_backend = {
	.mem_alloc = rvl_rt_heap_alloc,
	.submit = sim_submit,
	.synced = sim_synced,
	.set_level = sim_set_level,
	.destroy = sim_destroy,
	.plain_memory = true,
};

static int start_model(struct rivulet_runtime *rt)
{
	struct rvl_rt_sim *s;
	struct rivulet_sim_ops ops = { .bus = { .map = map_host } };
	struct rivulet_board board = rt->board;

	if (posix_memalign((void **)&s, 64, sizeof(*s)))
		return -ENOMEM;
	memset(s, 0, sizeof(*s));
	rt->sim = s;
	s->rt = rt;
	s->bus = ops.bus;
	s->level = rt->board.levels - 1;
	s->last = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	/*
	 * The linked model masters host addresses, which are wider than the buses of some boards.
	 */
	board.dma_bits = 64;
	s->sim = rivulet_sim_new(&board, s->window, &ops);
	if (!s->sim)
		return -ENOMEM;
	if (pthread_create(&s->thread, NULL, sim_thread, s))
		return -EAGAIN;
	s->started = true;
	return 0;
}

int rivulet_runtime_new_sim(const struct rivulet_board *board, struct rivulet_workers *pool,
			    struct rivulet_runtime **out, struct rivulet_runtime_error *err)
{
	struct rivulet_runtime *rt;
	int r = rvl_rt_new(pool, &sim_backend, &rt, err);

	if (r)
		return r;
	rt->board = *board;
	r = start_model(rt);
	if (r) {
		rivulet_runtime_unref(rt);
		return rvl_rt_fail(err, -r, "the device model does not start: %s", strerror(-r));
	}
	*out = rt;
	return 0;
}

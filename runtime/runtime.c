// SPDX-License-Identifier: MIT
/* A runtime: the events of its back end, deadlines, completions, callbacks. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "rivulet.h"
#include "rivulet_accel.h"
#include "rivulet_isa.h"

#define EVENTS 64

int rvl_rt_fail(struct rivulet_runtime_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		va_start(ap, fmt);
		vsnprintf(err->text, sizeof(err->text), fmt, ap);
		va_end(ap);
	}
	return -code;
}

int64_t rvl_rt_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

void rvl_rt_mem_free(struct rvl_rt_mem *m)
{
	if (m->map)
		munmap(m->map, m->map_size);
	free(m->heap);
	rivulet_buffer_unref(m->buf);
	*m = (struct rvl_rt_mem) { 0 };
}

int rvl_rt_heap_alloc(struct rivulet_runtime *rt, uint64_t size, struct rvl_rt_mem *out,
		      struct rivulet_runtime_error *err)
{
	void *p;

	(void)rt;
	if (posix_memalign(&p, RIVULET_PAGE_SIZE, size ? size : 1))
		return rvl_rt_fail(err, ENOMEM, "out of memory: %llu bytes",
				   (unsigned long long)size);
	memset(p, 0, size);
	*out = (struct rvl_rt_mem) { .host = p, .size = size, .heap = p };
	return 0;
}

/* The data of an event is a pointer to its source: &rt->event, &rt->timer, or a task. */
static int watch(struct rivulet_runtime *rt, int fd, void *what)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = what };

	return epoll_ctl(rt->epoll, EPOLL_CTL_ADD, fd, &e);
}

int rvl_rt_new(struct rivulet_workers *pool, const struct rvl_rt_backend *b,
	       struct rivulet_runtime **out, struct rivulet_runtime_error *err)
{
	struct rivulet_runtime *rt = calloc(1, sizeof(*rt));

	if (!rt)
		return rvl_rt_fail(err, ENOMEM, "out of memory");
	atomic_init(&rt->refs, 1);
	rt->backend = b;
	rt->pool = rivulet_workers_ref(pool);
	pthread_mutex_init(&rt->lock, NULL);
	rt->epoll = epoll_create1(EPOLL_CLOEXEC);
	rt->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rt->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (rt->epoll < 0 || rt->event < 0 || rt->timer < 0 || watch(rt, rt->event, &rt->event) ||
	    watch(rt, rt->timer, &rt->timer)) {
		int code = errno;

		rivulet_runtime_unref(rt);
		return rvl_rt_fail(err, code, "no event descriptors: %s", strerror(code));
	}
	*out = rt;
	return 0;
}

struct rivulet_runtime *rivulet_runtime_ref(struct rivulet_runtime *rt)
{
	if (rt)
		atomic_fetch_add(&rt->refs, 1);
	return rt;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

struct rivulet_runtime *rivulet_runtime_unref(struct rivulet_runtime *rt)
{
	if (!rt || atomic_fetch_sub(&rt->refs, 1) != 1)
		return NULL;
	rt->backend->destroy(rt);
	close_fd(rt->epoll);
	close_fd(rt->event);
	close_fd(rt->timer);
	pthread_mutex_destroy(&rt->lock);
	rivulet_workers_unref(rt->pool);
	free(rt);
	return NULL;
}

int rivulet_runtime_fd(const struct rivulet_runtime *rt)
{
	return rt->epoll;
}

void rvl_rt_complete(struct rivulet_runtime *rt, struct rvl_rt_task *t)
{
	pthread_mutex_lock(&rt->lock);
	t->next = rt->completed;
	rt->completed = t;
	/* Inside the lock: once it is dropped, the owner may free the runtime. */
	eventfd_write(rt->event, 1);
	pthread_mutex_unlock(&rt->lock);
}

/* The tasks of a list that was built from its end. */
static struct rvl_rt_task *reversed(struct rvl_rt_task *t)
{
	struct rvl_rt_task *first = NULL, *next;

	for (; t; t = next) {
		next = t->next;
		t->next = first;
		first = t;
	}
	return first;
}

/* In the order of completion, so that the step after an earlier run's task is issued first. */
static void take_completed(struct rivulet_runtime *rt)
{
	struct rvl_rt_task *t, *next;
	eventfd_t n;

	eventfd_read(rt->event, &n);
	pthread_mutex_lock(&rt->lock);
	t = rt->completed;
	rt->completed = NULL;
	pthread_mutex_unlock(&rt->lock);
	for (t = reversed(t); t; t = next) {
		next = t->next;
		rvl_rt_exec_done(t);
	}
}

void rvl_rt_arm(struct rivulet_runtime *rt)
{
	struct itimerspec it = { 0 };
	int64_t first = INT64_MAX;

	for (struct rivulet_exec *x = rt->active; x; x = x->next)
		if (x->params.deadline && !x->params.soft && !x->stopping &&
		    x->params.deadline < first)
			first = x->params.deadline;
	if (first != INT64_MAX) {
		it.it_value.tv_sec = first / 1000000000;
		it.it_value.tv_nsec = first % 1000000000;
	}
	timerfd_settime(rt->timer, TFD_TIMER_ABSTIME, &it, NULL);
}

static void deadlines(struct rivulet_runtime *rt)
{
	struct rivulet_exec *x, *next;
	int64_t now = rvl_rt_now();
	uint64_t n;

	if (read(rt->timer, &n, sizeof(n)) < 0)
		return;
	for (x = rt->active; x; x = next) {
		next = x->next;
		if (x->params.deadline && !x->params.soft && x->params.deadline <= now)
			rvl_rt_exec_stop(x, -ETIME, "the deadline passed");
	}
	rvl_rt_arm(rt);
}

int rvl_rt_poll(struct rivulet_runtime *rt, int timeout_ms)
{
	struct epoll_event e[EVENTS];
	int n = epoll_wait(rt->epoll, e, EVENTS, timeout_ms);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		struct rvl_rt_task *t = e[i].data.ptr;

		if (e[i].data.ptr == &rt->event) {
			take_completed(rt);
		} else if (e[i].data.ptr == &rt->timer) {
			deadlines(rt);
		} else {
			rt->backend->synced(rt, t);
			rvl_rt_exec_done(t);
		}
	}
	return n;
}

int rvl_rt_deliver(struct rivulet_runtime *rt)
{
	struct rivulet_exec *x;
	int n = 0;

	while ((x = rt->finished)) {
		void (*done)(struct rivulet_exec *, void *) = x->params.done;

		rt->finished = x->next;
		if (x->next)
			x->next->link = &rt->finished;
		x->next = NULL;
		x->link = NULL;
		x->busy = false;
		n++;
		if (done)
			done(x, x->params.data);
	}
	return n;
}

int rivulet_runtime_dispatch(struct rivulet_runtime *rt)
{
	int r, n;

	rivulet_runtime_ref(rt);
	r = rvl_rt_poll(rt, 0);
	n = rvl_rt_deliver(rt);
	rivulet_runtime_unref(rt);
	return r < 0 ? r : n;
}

const struct rivulet_board *rivulet_runtime_board(const struct rivulet_runtime *rt)
{
	return &rt->board;
}

void rivulet_runtime_target(const struct rivulet_runtime *rt, struct rivulet_target *t)
{
	const struct rivulet_board *b = &rt->board;

	*t = (struct rivulet_target) { .isa_version = RIVULET_ISA_VERSION, .tm = b->tm, .tn = b->tn,
		.dn = b->dn, .inp_bytes = b->inp_bytes, .wgt_bytes = b->wgt_bytes,
		.acc_bytes = b->acc_bytes, .modes = b->modes, .queue_depth = b->queue_depth };
	if (rt->dev)
		t->isa_version = rivulet_device_info(rt->dev)->isa_version;
}

void rivulet_runtime_set_offload(struct rivulet_runtime *rt, bool offload)
{
	rt->offload = offload;
}

int rivulet_runtime_set_level(struct rivulet_runtime *rt, uint32_t level)
{
	if (level >= rt->board.levels)
		return -EINVAL;
	return rt->backend->set_level(rt, level);
}

const struct rivulet_level_total *rivulet_runtime_totals(const struct rivulet_runtime *rt)
{
	return rt->total;
}

int rivulet_runtime_monitor(struct rivulet_runtime *rt, struct rivulet_perfmon *mon)
{
	if (!rt->dev)
		return -EOPNOTSUPP;
	rivulet_perfmon_ref(mon);
	rivulet_perfmon_unref(rt->mon);
	rt->mon = mon;
	return 0;
}

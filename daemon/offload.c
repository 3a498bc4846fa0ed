// SPDX-License-Identifier: MIT
#include "offload.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define ACTIVE_MAX 256

/* With the lock. The first item of an idle owner that was served least recently, or NULL. */
static struct rvl_work *next_work(struct rvl_offload *o)
{
	struct rvl_work *w, *best = NULL;

	rvl_list_each(w, &o->queue, link) {
		if (!w->owner)
			return w;
		if (w->owner->busy)
			continue;
		if (!best || w->owner->served < best->owner->served)
			best = w;
	}
	return best;
}

/* With the lock, which is dropped while the item runs. */
static void run_work(struct rvl_offload *o, struct rvl_work *w)
{
	struct rvl_work_owner *owner = w->owner;
	bool returns = w->done;

	rvl_list_del(&w->link);
	if (owner) {
		owner->busy = true;
		owner->served = ++o->served;
	}
	pthread_mutex_unlock(&o->lock);
	w->run(w);
	pthread_mutex_lock(&o->lock);
	if (owner)
		owner->busy = false;
	if (returns) {
		rvl_list_add_tail(&o->finished, &w->link);
		eventfd_write(o->event, 1);
	} else {
		o->active--;
	}
	/* The owner's next item may have waited for this one. */
	pthread_cond_broadcast(&o->queued);
}

static void *thread_main(void *arg)
{
	struct rvl_offload *o = arg;
	struct rvl_work *w;

	pthread_mutex_lock(&o->lock);
	while (!o->stop) {
		w = next_work(o);
		if (w)
			run_work(o, w);
		else
			pthread_cond_wait(&o->queued, &o->lock);
	}
	pthread_mutex_unlock(&o->lock);
	return NULL;
}

static struct rvl_work *take_finished(struct rvl_offload *o)
{
	struct rvl_work *w = NULL;

	pthread_mutex_lock(&o->lock);
	if (o->finished.next != &o->finished) {
		w = rvl_container(o->finished.next, struct rvl_work, link);
		rvl_list_del(&w->link);
		o->active--;
	}
	pthread_mutex_unlock(&o->lock);
	return w;
}

static int on_finished(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct rvl_offload *o = data;
	struct rvl_work *w;
	eventfd_t n;

	(void)source;
	(void)events;
	eventfd_read(fd, &n);
	while ((w = take_finished(o)))
		w->done(w);
	return 0;
}

int rvl_offload_start(struct rvl_offload *o, sd_event *event, uint32_t threads)
{
	int r;

	pthread_mutex_init(&o->lock, NULL);
	pthread_cond_init(&o->queued, NULL);
	rvl_list_init(&o->queue);
	rvl_list_init(&o->finished);
	o->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = o->event < 0 ? -errno : sd_event_add_io(event, &o->source, o->event, EPOLLIN, on_finished, o);
	for (uint32_t i = 0; r >= 0 && i < threads; i++) {
		r = -pthread_create(&o->thread[i], NULL, thread_main, o);
		o->threads += !r;
	}
	return r < 0 ? r : 0;
}

void rvl_offload_submit(struct rvl_offload *o, struct rvl_work *w)
{
	pthread_mutex_lock(&o->lock);
	o->active++;
	rvl_list_add_tail(&o->queue, &w->link);
	pthread_cond_broadcast(&o->queued);
	pthread_mutex_unlock(&o->lock);
}

bool rvl_offload_has_room(struct rvl_offload *o)
{
	bool room;

	if (!o->threads)
		return false;
	pthread_mutex_lock(&o->lock);
	room = o->active < ACTIVE_MAX;
	pthread_mutex_unlock(&o->lock);
	return room;
}

static bool is_idle(struct rvl_offload *o)
{
	bool idle;

	pthread_mutex_lock(&o->lock);
	idle = !o->active;
	pthread_mutex_unlock(&o->lock);
	return idle;
}

bool rvl_offload_drain(struct rvl_offload *o, uint64_t deadline)
{
	struct pollfd p = { .fd = o->event, .events = POLLIN };

	if (!o->threads)
		return true;
	do {
		on_finished(o->source, o->event, EPOLLIN, o);
		if (is_idle(o))
			return true;
		/* Items without done() are not announced, hence the short wait. */
		poll(&p, 1, 5);
	} while (rvl_now() < deadline);
	return is_idle(o);
}

void rvl_offload_stop(struct rvl_offload *o)
{
	if (!o->source)
		return;
	pthread_mutex_lock(&o->lock);
	o->stop = true;
	pthread_cond_broadcast(&o->queued);
	pthread_mutex_unlock(&o->lock);
	for (uint32_t i = 0; i < o->threads; i++)
		pthread_join(o->thread[i], NULL);
	o->threads = 0;
	o->source = sd_event_source_disable_unref(o->source);
	o->event = rvl_close(o->event);
	pthread_mutex_destroy(&o->lock);
	pthread_cond_destroy(&o->queued);
}

struct closing {
	struct rvl_work work;
	int fd;
};

static void close_work(struct rvl_work *w)
{
	struct closing *c = rvl_container(w, struct closing, work);

	close(c->fd);
	free(c);
}

int rvl_offload_close(struct rvl_offload *o, int fd)
{
	struct closing *c = fd < 0 || !rvl_offload_has_room(o) ? NULL : malloc(sizeof(*c));

	if (!c)
		return rvl_close(fd);
	*c = (struct closing){ .work = { .run = close_work }, .fd = fd };
	rvl_offload_submit(o, &c->work);
	return -1;
}

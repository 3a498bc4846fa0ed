// SPDX-License-Identifier: MIT
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "log.h"

#define BACKOFF_MIN_US 50000
#define BACKOFF_MAX_US 2000000

static void open_reserve(struct rvl_listener *l)
{
	if (l->reserve < 0)
		l->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Uses the reserved descriptor to answer the peer that has waited longest with the reason. */
static void refuse_one(struct rvl_listener *l, int listen_fd, int error)
{
	int sock;

	if (l->reserve < 0)
		return;
	l->reserve = rvl_close(l->reserve);
	sock = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock >= 0)
		l->refuse(sock, error, l->data);
	open_reserve(l);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *data)
{
	struct rvl_listener *l = data;

	(void)source;
	(void)usec;
	open_reserve(l);
	sd_event_source_set_enabled(l->io, SD_EVENT_ON);
	return 0;
}

static void pause_listener(struct rvl_listener *l, int error)
{
	uint64_t suppressed;

	if (rvl_rate_allows(&l->rate, &suppressed))
		rvl_log(LOG_ERR, RVL_LOG_EXHAUSTED, NULL,
			"%s: accepting connections pauses for %llu ms: %s (%llu earlier pauses were not logged)",
			l->name, (unsigned long long)l->backoff / 1000, strerror(error),
			(unsigned long long)suppressed);
	l->pauses++;
	/* Without the timer the listener could never resume, so it then keeps on trying. */
	if (sd_event_source_set_time_relative(l->timer, l->backoff) >= 0 &&
	    sd_event_source_set_enabled(l->timer, SD_EVENT_ONESHOT) >= 0)
		sd_event_source_set_enabled(l->io, SD_EVENT_OFF);
	l->backoff = l->backoff * 2 > BACKOFF_MAX_US ? BACKOFF_MAX_US : l->backoff * 2;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct rvl_listener *l = data;
	int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), error = errno;

	(void)source;
	(void)events;
	if (sock >= 0) {
		l->backoff = BACKOFF_MIN_US;
		l->accepted(sock, l->data);
	} else if (error != EAGAIN && error != ECONNABORTED && error != EINTR) {
		refuse_one(l, fd, error);
		pause_listener(l, error);
	}
	return 0;
}

int rvl_listener_start(struct rvl_listener *l, sd_event *event, int fd, int64_t priority)
{
	int r;

	l->reserve = -1;
	l->backoff = BACKOFF_MIN_US;
	l->rate = RVL_RATE(1, 10 * NSEC_PER_SEC);
	open_reserve(l);
	r = sd_event_add_time(event, &l->timer, CLOCK_MONOTONIC, 0, 1000, on_timer, l);
	r = r < 0 ? r : sd_event_source_set_enabled(l->timer, SD_EVENT_OFF);
	r = r < 0 ? r : sd_event_add_io(event, &l->io, fd, EPOLLIN, on_io, l);
	r = r < 0 ? r : sd_event_source_set_priority(l->io, priority);
	r = r < 0 ? r : sd_event_source_set_io_fd_own(l->io, true);
	if (r < 0)
		rvl_listener_stop(l);
	return r < 0 ? r : 0;
}

void rvl_listener_stop(struct rvl_listener *l)
{
	l->io = sd_event_source_disable_unref(l->io);
	l->timer = sd_event_source_disable_unref(l->timer);
	if (l->accepted)
		l->reserve = rvl_close(l->reserve);
}

// SPDX-License-Identifier: MIT
/* The connection to the daemon: made, made again, waited for, dispatched. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "session.h"
#include "sized.h"

#define MS		1000000ll	/* ns */
#define RETRY_ABSENT	(100 * MS)	/* between attempts while no daemon listens */
#define RETRY_BUSY	(10 * MS)	/* between attempts while its backlog is full */

int64_t rvl_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? RVL_NEVER : rvl_lib_now() + timeout_ms * MS;
}

void rvl_client_notify(struct rivulet_client *c)
{
	eventfd_write(c->event, 1);
}

void rvl_client_changed(struct rivulet_client *c)
{
	c->changed = true;
	rvl_client_notify(c);
}

/* ---- making a connection ---- */

static int connect_to(const char *path, int *out)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd, err;

	if (strlen(path) >= sizeof(a.sun_path))
		return rvl_lib_fail(ENAMETOOLONG, "%s: too long for a socket", path);
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return rvl_lib_fail(errno, "socket: %s", strerror(errno));
	if (!connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		*out = fd;
		return 0;
	}
	err = errno;
	rvl_lib_close(fd);
	if (err == ENOENT || err == ECONNREFUSED)
		return rvl_lib_fail(err, "%s: no daemon listens here: %s", path, strerror(err));
	if (err == EACCES)
		return rvl_lib_fail(err, "%s: permission denied: is this user in the socket's group?",
				    path);
	return rvl_lib_fail(err, "%s: %s", path, strerror(err));
}

static int watch(int epoll, int fd)
{
	struct epoll_event e = { .events = EPOLLIN };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static void keep_info(struct rivulet_client *c, const struct rivulet_msg_hello_reply *h)
{
	struct rivulet_daemon_info *i = &c->info;

	*i = (struct rivulet_daemon_info) { .size = sizeof(*i), .protocol = h->version,
		.features = (uint32_t)h->features, .levels = h->levels,
		.present = h->device_state == RIVULET_DEVICE_PRESENT,
		.max_model = h->max_model, .max_bytes = h->max_bytes,
		.max_models = h->max_models, .max_requests = h->max_instances,
		.max_runs = h->max_runs };
	memcpy(i->version, h->daemon, sizeof(i->version));
	memcpy(i->device, h->device, sizeof(i->device));
	memcpy(i->board, h->board, sizeof(i->board));
}

/* Errors after which another attempt may succeed: there is no daemon yet, or it has just ended. */
static bool is_temporary(int error)
{
	return error == -ENOENT || error == -ECONNREFUSED || error == -ECONNRESET ||
	       error == -ETIMEDOUT;
}

static void hello_done(struct rvl_call *call, int result, union rivulet_packet *reply, int fd)
{
	struct rivulet_client *c = call->owner;
	char why[256];

	rvl_lib_close(fd);
	if (result) {
		snprintf(why, sizeof(why), "%s", rivulet_last_error());
		c->reconnecting = c->reconnecting && is_temporary(result);
		rvl_session_close(c, result == -EPROTONOSUPPORT ? -EPROTO : result, why);
	} else if (reply->hello_reply.version < RIVULET_PROTO_MIN ||
		   reply->hello_reply.version > RIVULET_PROTO_MAX) {
		snprintf(why, sizeof(why), "the daemon chose protocol version %u, this library speaks %u to %u",
			 reply->hello_reply.version, RIVULET_PROTO_MIN, RIVULET_PROTO_MAX);
		rvl_session_close(c, -EPROTO, why);
	} else {
		/* An event in this version may follow in the next packet. */
		c->version = (uint16_t)reply->hello_reply.version;
		keep_info(c, &reply->hello_reply);
		c->link = RVL_LINK_UP;
		c->error = 0;
		c->reconnecting = false;
		rvl_client_changed(c);
	}
}

/* HELLO has no other answer than itself or an ERROR before it: version 0 until then. */
static int greet(struct rivulet_client *c)
{
	union rivulet_packet req;

	rvl_session_init(c, &req, RIVULET_MSG_HELLO);
	req.hello.min_version = RIVULET_PROTO_MIN;
	req.hello.max_version = RIVULET_PROTO_MAX;
	req.hello.features = RIVULET_FEATURE_POLICY;
	rivulet_proto_name(req.hello.name, sizeof(req.hello.name), program_invocation_short_name);
	c->hello.owner = c;
	c->hello.done = hello_done;
	return rvl_call_start(c, &c->hello, &req, -1, RVL_CALL_TIMEOUT);
}

/* A full backlog means that the daemon exists and is slow, so the connection is tried again. */
static int busy(struct rivulet_client *c)
{
	int64_t now = rvl_lib_now();

	if (!c->busy_until)
		c->busy_until = now + RVL_CALL_TIMEOUT * MS;
	if (now >= c->busy_until) {
		c->busy_until = 0;
		return rvl_lib_fail(ETIMEDOUT, "%s: the daemon accepts no connection", c->path);
	}
	c->retry_at = now + RETRY_BUSY;
	return -EINPROGRESS;
}

static int attempt(struct rivulet_client *c)
{
	int fd = -1, r = connect_to(c->path, &fd);

	if (r == -EAGAIN)
		return busy(c);
	c->busy_until = 0;
	if (r)
		return r;
	if (watch(c->epoll, fd)) {
		r = rvl_lib_fail(errno, "epoll: %s", strerror(errno));
		rvl_lib_close(fd);
		return r;
	}
	c->sock = fd;
	c->version = 0;
	c->connection++;
	c->epoch++;
	c->link = RVL_LINK_GREETING;
	r = greet(c);
	return r ? r : -EINPROGRESS;
}

/* A daemon that broke the protocol is not asked again, because it would break it again. */
static bool is_final(int error)
{
	return error == -EBADMSG || error == -EPROTO;
}

int rvl_client_connect(struct rivulet_client *c)
{
	int r;

	if (c->link != RVL_LINK_DOWN)
		return c->link == RVL_LINK_UP ? 0 : -EINPROGRESS;
	if (is_final(c->error))
		return rvl_session_error(c);
	if (c->busy_until && rvl_lib_now() < c->retry_at)
		return -EINPROGRESS;
	r = attempt(c);
	if (r && r != -EINPROGRESS) {
		c->error = r;
		snprintf(c->why, sizeof(c->why), "%s", rivulet_last_error());
	}
	return r;
}

/* ---- making it again in the background ---- */

static void reconnect_step(struct rivulet_client *c)
{
	int64_t now = rvl_lib_now();
	int r;

	if (!(c->reconnecting || c->busy_until) || c->link != RVL_LINK_DOWN || now < c->retry_at)
		return;
	r = rvl_client_connect(c);
	/* A full backlog has set its own. */
	if (!c->busy_until)
		c->retry_at = now + RETRY_ABSENT;
	if (!r || r == -EINPROGRESS)
		return;
	if (c->reconnecting && is_temporary(r) && now < c->reconnect_until)
		return;
	c->reconnecting = false;
	rvl_client_changed(c);
}

int rivulet_client_connect_start(struct rivulet_client *c, int timeout_ms)
{
	rvl_client_pump(c);
	if (c->link == RVL_LINK_UP)
		return 0;
	if (is_final(c->error))
		return rvl_session_error(c);
	c->reconnecting = true;
	c->reconnect_until = rvl_deadline(timeout_ms);
	c->retry_at = 0;
	reconnect_step(c);
	rvl_client_started(c);
	return 0;
}

int rivulet_client_result(const struct rivulet_client *c)
{
	if (c->link == RVL_LINK_UP)
		return 0;
	if (c->link == RVL_LINK_GREETING || c->reconnecting || c->busy_until)
		return -EINPROGRESS;
	return rvl_session_error(c);
}

/* ---- the loop: receive, expire, step; or wait for that ---- */

void rvl_client_step(struct rivulet_client *c)
{
	reconnect_step(c);
	if (c->preparing) {
		rvl_models_step(c);
		rvl_requests_step(c);
		rvl_questions_step(c);
	}
}

/* Sets the timer to the first time limit or attempt to connect that is due. */
void rvl_client_started(struct rivulet_client *c)
{
	int64_t first = rvl_session_expire(c), asked = rvl_questions_expire(c);
	struct itimerspec t = { 0 };

	first = asked < first ? asked : first;

	if (c->link == RVL_LINK_DOWN && (c->reconnecting || c->busy_until) && c->retry_at < first)
		first = c->retry_at;
	if (c->again)
		rvl_client_notify(c);
	if (first == c->armed)
		return;
	c->armed = first;
	if (first != RVL_NEVER) {
		t.it_value.tv_sec = first / 1000000000;
		t.it_value.tv_nsec = first % 1000000000 + !first;
	}
	timerfd_settime(c->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

void rvl_client_pump(struct rivulet_client *c)
{
	c->again = false;
	rvl_session_receive(c);
	rvl_session_expire(c);
	rvl_questions_expire(c);
	rvl_client_step(c);
	rvl_client_started(c);
}

int rvl_milliseconds(int64_t ns)
{
	int64_t ms = ns <= 0 ? 0 : ns / MS + (ns % MS != 0);

	return ms > INT_MAX ? INT_MAX : (int)ms;
}

bool rvl_client_poll(struct rivulet_client *c, int64_t deadline)
{
	struct pollfd p = { .fd = c->sock, .events = POLLIN | (c->out ? POLLOUT : 0) };
	int64_t until = c->armed < deadline ? c->armed : deadline, now = rvl_lib_now();

	if (now >= deadline)
		return false;
	/* Not the program's fd: what waits there for dispatch must not wake this loop. */
	poll(&p, 1, c->again ? 0 : until == RVL_NEVER ? -1 : rvl_milliseconds(until - now));
	rvl_client_pump(c);
	return true;
}

int rvl_client_ready(struct rivulet_client *c, int64_t deadline)
{
	int r;

	/* A connection that was cut while it was idle is noticed by reading from it. */
	rvl_client_pump(c);
	r = rvl_client_connect(c);
	rvl_client_started(c);
	/* One attempt: a daemon that refuses HELLO is not asked again. */
	while (r == -EINPROGRESS && rvl_client_poll(c, deadline))
		r = rivulet_client_result(c);
	return r == -EINPROGRESS ? rvl_lib_fail(ETIMEDOUT, "the daemon did not answer in time") : r;
}

int rivulet_client_wait_device(struct rivulet_client *c, int timeout_ms)
{
	int64_t deadline = rvl_deadline(timeout_ms);

	for (bool asked = false;; asked = true) {
		int64_t retry = rvl_lib_now() + RETRY_ABSENT;
		int r;

		rvl_client_pump(c);
		if (asked && c->link == RVL_LINK_DOWN && !is_temporary(c->error))
			return rvl_session_error(c);
		r = rvl_client_connect(c);
		rvl_client_started(c);
		if (!r && c->info.present)
			return 0;
		if (r && r != -EINPROGRESS && !is_temporary(r))
			return r;
		if (rvl_lib_now() >= deadline)
			return rvl_lib_fail(ETIMEDOUT, "no device in %d ms", timeout_ms);
		rvl_client_poll(c, retry < deadline ? retry : deadline);
	}
}

/* ---- the object ---- */

static int client_new(const char *path, struct rivulet_client **out)
{
	struct rivulet_client *c = calloc(1, sizeof(*c));
	int err;

	if (c)
		c->path = strdup(path);
	if (!c || !c->path) {
		free(c);
		return rvl_lib_fail(ENOMEM, "out of memory");
	}
	c->refs = 1;
	c->sock = -1;
	c->out_end = &c->out;
	c->armed = RVL_NEVER;
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	c->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (c->epoll < 0 || c->event < 0 || c->timer < 0 || watch(c->epoll, c->event) ||
	    watch(c->epoll, c->timer)) {
		err = errno;
		rivulet_client_unref(c);
		return rvl_lib_fail(err, "epoll: %s", strerror(err));
	}
	*out = c;
	return 0;
}

int rivulet_open_start(const char *socket, struct rivulet_client **out)
{
	struct rivulet_client *c = NULL;
	int r;

	if (!socket)
		socket = secure_getenv(RIVULET_SOCKET_ENV);
	if (!socket || !*socket)
		socket = RIVULET_SOCKET_PATH;
	r = client_new(socket, &c);
	if (r)
		return r;
	r = rvl_client_connect(c);
	if (r && r != -EINPROGRESS) {
		rivulet_client_unref(c);
		return r;
	}
	rvl_client_started(c);
	*out = c;
	return 0;
}

int rivulet_open(const char *socket, struct rivulet_client **out)
{
	struct rivulet_client *c;
	int r = rivulet_open_start(socket, &c);

	if (r)
		return r;
	r = rvl_client_ready(c, rvl_deadline(RVL_CALL_TIMEOUT));
	if (r) {
		rivulet_client_unref(c);
		return r;
	}
	*out = c;
	return 0;
}

struct rivulet_client *rivulet_client_ref(struct rivulet_client *c)
{
	if (c)
		c->refs++;
	return c;
}

struct rivulet_client *rivulet_client_unref(struct rivulet_client *c)
{
	if (!c || --c->refs)
		return NULL;
	rvl_questions_drop(c);
	rvl_session_drop(c);
	rvl_lib_close(c->epoll);
	rvl_lib_close(c->event);
	rvl_lib_close(c->timer);
	free(c->path);
	free(c);
	return NULL;
}

int rivulet_client_fd(const struct rivulet_client *c)
{
	return c->epoll;
}

/* ---- dispatch ---- */

static void deliver_state(struct rivulet_client *c)
{
	struct rivulet_level_state l = c->level;
	bool changed = c->changed, level = c->level_changed;

	c->changed = c->level_changed = false;
	if (changed && c->on_change)
		c->on_change(c, c->on_change_data);
	if (level && c->on_level)
		c->on_level(c, &l, c->on_level_data);
}

int rivulet_client_dispatch(struct rivulet_client *c)
{
	uint64_t expirations;
	eventfd_t unused;
	int n, r;

	eventfd_read(c->event, &unused);
	if (read(c->timer, &expirations, sizeof(expirations)) > 0)
		c->armed = RVL_NEVER;
	rvl_client_pump(c);
	rivulet_client_ref(c);
	deliver_state(c);
	n = rvl_models_deliver(c);
	n += rvl_requests_deliver(c);
	n += rvl_questions_deliver(c);
	r = rivulet_client_result(c);
	rivulet_client_unref(c);
	/* Runs that a closed connection ended are reported first; the next call says why. */
	return n || !r || r == -EINPROGRESS ? n : r;
}

void rivulet_client_on_change(struct rivulet_client *c,
			      void (*fn)(struct rivulet_client *c, void *data), void *data)
{
	c->on_change = fn;
	c->on_change_data = data;
}

int rivulet_client_info(const struct rivulet_client *c, struct rivulet_daemon_info *info)
{
	return RVL_WRITE(info, &c->info, rivulet_daemon_info, board);
}

// SPDX-License-Identifier: MIT
/*
 * Packets of the daemon's socket. A request is sent at once, or queued while the socket is full. An
 * answer is matched to its call by serial; one without a call is discarded with its descriptor, and
 * the object that it announces is released again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "session.h"

/** struct rvl_out - a packet that waits until the socket takes it */
struct rvl_out {
	struct rvl_out *next;
	int fd;				/* to send along, owned; or -1 */
	uint32_t length;
	union rivulet_packet packet;
};

/* ---- the end of a connection ---- */

int rvl_session_error(const struct rivulet_client *c)
{
	return rvl_lib_fail(-c->error, "no connection to the daemon: %s", c->why);
}

static void fail_call(struct rivulet_client *c, struct rvl_call *call, int error, const char *text)
{
	rvl_call_drop(c, call);
	rvl_lib_fail(-error, "%s", text);
	call->done(call, error, NULL, -1);
}

static void drop_output(struct rivulet_client *c)
{
	while (c->out) {
		struct rvl_out *o = c->out;

		c->out = o->next;
		rvl_lib_close(o->fd);
		free(o);
	}
	c->out_end = &c->out;
}

void rvl_session_drop(struct rivulet_client *c)
{
	c->sock = rvl_lib_close(c->sock);
	drop_output(c);
}

int rvl_session_close(struct rivulet_client *c, int error, const char *why)
{
	if (c->link != RVL_LINK_DOWN) {
		c->link = RVL_LINK_DOWN;
		c->error = error;
		snprintf(c->why, sizeof(c->why), "%s", why);
		c->sock = rvl_lib_close(c->sock);	/* leaves the epoll with it */
		drop_output(c);
		while (c->calls)
			fail_call(c, c->calls, error, c->why);
		rvl_models_closed(c, error);
		rvl_requests_closed(c, error);
		rvl_questions_closed(c, error);
		rvl_client_changed(c);
	}
	return rvl_session_error(c);
}

/* ---- sending ---- */

void rvl_session_init(struct rivulet_client *c, union rivulet_packet *req, uint16_t type)
{
	memset(req, 0, sizeof(*req));
	if (!++c->serial)
		c->serial = 1;
	rivulet_proto_init(req, type, c->version, c->serial);
}

/* The program's fd also becomes readable when the socket takes packets again. */
static void watch_output(struct rivulet_client *c, bool on)
{
	struct epoll_event e = { .events = EPOLLIN | (on ? EPOLLOUT : 0) };

	epoll_ctl(c->epoll, EPOLL_CTL_MOD, c->sock, &e);
}

static int enqueue(struct rivulet_client *c, const union rivulet_packet *req, int fd)
{
	struct rvl_out *o = malloc(sizeof(*o));

	if (!o)
		return rvl_lib_fail(ENOMEM, "out of memory");
	o->next = NULL;
	o->length = req->h.length;
	o->packet = *req;
	o->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0 && o->fd < 0) {
		free(o);
		return rvl_lib_fail(errno, "dup: %s", strerror(errno));
	}
	if (!c->out)
		watch_output(c, true);
	*c->out_end = o;
	c->out_end = &o->next;
	return 0;
}

/* A hang-up of the peer is reported as the same error by every call that finds it. */
static int cut(struct rivulet_client *c, int error)
{
	return rvl_session_close(c, error == EPIPE ? -ECONNRESET : -error,
				 error == EPIPE ? "the daemon closed it" : strerror(error));
}

static void flush(struct rivulet_client *c)
{
	while (c->out) {
		struct rvl_out *o = c->out;

		int r = rivulet_proto_send(c->sock, &o->packet, o->length, o->fd, MSG_DONTWAIT);

		if (r) {
			if (r != -EAGAIN)
				cut(c, -r);
			return;
		}
		c->out = o->next;
		if (!c->out) {
			c->out_end = &c->out;
			watch_output(c, false);
		}
		rvl_lib_close(o->fd);
		free(o);
	}
}

int rvl_session_post(struct rivulet_client *c, union rivulet_packet *req, int fd)
{
	int r;

	if (c->link == RVL_LINK_DOWN)
		return rvl_session_error(c);
	if (c->out)
		return enqueue(c, req, fd);
	r = rivulet_proto_send(c->sock, req, req->h.length, fd, MSG_DONTWAIT);
	if (r == -EAGAIN)
		return enqueue(c, req, fd);
	return r ? cut(c, -r) : 0;
}

int rvl_call_start(struct rivulet_client *c, struct rvl_call *call, union rivulet_packet *req,
		   int fd, int timeout_ms)
{
	int r = rvl_session_post(c, req, fd);

	if (r)
		return r;
	call->serial = req->h.serial;
	call->type = req->h.type;
	call->deadline = rvl_deadline(timeout_ms);
	call->active = true;
	call->next = c->calls;
	c->calls = call;
	return 0;
}

void rvl_call_drop(struct rivulet_client *c, struct rvl_call *call)
{
	struct rvl_call **p = &c->calls;

	if (!call->active)
		return;
	while (*p != call)
		p = &(*p)->next;
	*p = call->next;
	call->active = false;
}

/* ---- receiving ---- */

/* Takes the descriptors of a packet: at most one is kept, *nfds counts all. */
static int take_fds(struct msghdr *msg, int *nfds)
{
	int kept = -1;

	*nfds = 0;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++, ++*nfds) {
			rvl_lib_close(kept);
			memcpy(&kept, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
		}
	}
	return kept;
}

/*
 * One packet without waiting: true with @p and @fd. Closes the connection on what no daemon sends.
 */
static bool receive(struct rivulet_client *c, union rivulet_packet *p, int *fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * RIVULET_MSG_FDS)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = p, .iov_len = sizeof(*p) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	char why[200] = "packet longer than any message";
	int nfds, r = -EPROTO;
	ssize_t n;

	do {
		n = recvmsg(c->sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		cut(c, n ? errno : EPIPE);
		return false;
	}
	*fd = take_fds(&msg, &nfds);
	if (!(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		r = rivulet_proto_check(p, (size_t)n, nfds, false, c->version, why, sizeof(why));
	/*
	 * -EINVAL: a field that this version of the library does not know; older clients ignore it.
	 */
	if (!r || r == -EINVAL)
		return true;
	*fd = rvl_lib_close(*fd);
	rvl_session_close(c, -EBADMSG, why);
	return false;
}

static void device_event(struct rivulet_client *c, const struct rivulet_msg_device *d)
{
	c->epoch++;
	c->info.present = d->device_state == RIVULET_DEVICE_PRESENT;
	c->info.levels = d->levels;
	memcpy(c->info.device, d->device, sizeof(c->info.device));
	memcpy(c->info.board, d->board, sizeof(c->info.board));
	if (!c->info.present)
		c->have_level = c->level_changed = false;
	rvl_client_changed(c);
}

static void level_event(struct rivulet_client *c, const struct rivulet_msg_level *l)
{
	c->level = (struct rivulet_level_state) { .size = sizeof(c->level), .level = l->level,
		.reason = l->reason, .flags = l->flags, .charge = l->charge, .hz = l->hz };
	c->have_level = true;
	c->level_changed = c->on_level;
	if (c->level_changed)
		rvl_client_notify(c);
}

/*
 * The answer to a call that timed out or was dropped. The daemon would keep what it created until
 * the connection ends.
 */
static void release_orphan(struct rivulet_client *c, const union rivulet_packet *p)
{
	union rivulet_packet req;

	if (p->h.type == (RIVULET_MSG_LOAD | RIVULET_REPLY)) {
		rvl_session_init(c, &req, RIVULET_MSG_UNLOAD);
		req.model.model = p->load_reply.model;
		rvl_session_post(c, &req, -1);
	} else if (p->h.type == (RIVULET_MSG_OPEN | RIVULET_REPLY)) {
		rvl_session_init(c, &req, RIVULET_MSG_CLOSE);
		req.instance.instance = p->instance.instance;
		rvl_session_post(c, &req, -1);
	}
}

static void answer(struct rivulet_client *c, union rivulet_packet *p, int fd)
{
	struct rvl_call *call = c->calls;

	while (call && call->serial != p->h.serial)
		call = call->next;
	if (!call) {
		rvl_lib_close(fd);
		release_orphan(c, p);
	} else if (p->h.type == RIVULET_MSG_ERROR) {
		rvl_lib_close(fd);
		fail_call(c, call, p->h.error < 0 ? p->h.error : -EPROTO, p->error.text);
	} else if (p->h.type != (call->type | RIVULET_REPLY)) {
		rvl_lib_close(fd);
		rvl_session_close(c, -EBADMSG, "the answer has the type of another request");
	} else {
		rvl_call_drop(c, call);
		call->done(call, 0, p, fd);
	}
}

static void handle(struct rivulet_client *c, union rivulet_packet *p, int fd)
{
	if (p->h.serial) {
		answer(c, p, fd);
		return;
	}
	rvl_lib_close(fd);
	if (p->h.type == RIVULET_MSG_DEVICE)
		device_event(c, &p->device);
	else if (p->h.type == RIVULET_MSG_LEVEL)
		level_event(c, &p->level);
	else if (p->h.type == RIVULET_MSG_ERROR)
		rvl_session_close(c, p->h.error < 0 ? p->h.error : -EPROTO, p->error.text);
}

void rvl_session_receive(struct rivulet_client *c)
{
	union rivulet_packet p;
	int fd = -1;

	if (c->link != RVL_LINK_DOWN)
		flush(c);
	while (c->link != RVL_LINK_DOWN && receive(c, &p, &fd))
		handle(c, &p, fd);
}

int64_t rvl_session_expire(struct rivulet_client *c)
{
	int64_t now = rvl_lib_now(), first = RVL_NEVER;
	struct rvl_call *call = c->calls;

	while (call) {
		if (call->deadline <= now) {
			fail_call(c, call, -ETIMEDOUT, "the daemon did not answer in time");
			call = c->calls;	/* the handler may have changed the list */
			first = RVL_NEVER;
			continue;
		}
		first = call->deadline < first ? call->deadline : first;
		call = call->next;
	}
	return first;
}

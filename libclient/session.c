// SPDX-License-Identifier: MIT
/*
 * Packets of the daemon's socket. A call sends its request and pumps the socket until the answer with
 * its serial is there; runs that end meanwhile are noted in their requests. An answer that nobody waits
 * for (a call that timed out, a request that was dropped) is discarded with its descriptor.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "session.h"

int rvl_session_close(struct rivulet_client *c, int err, const char *why)
{
	if (!c->lost) {
		c->lost = err;
		snprintf(c->why, sizeof(c->why), "%s", why);
		epoll_ctl(c->epoll, EPOLL_CTL_DEL, c->sock, NULL);
		shutdown(c->sock, SHUT_RDWR);
		rvl_request_lost(c);
	}
	return rvl_lib_fail(-c->lost, "connection to the daemon is gone: %s", c->why);
}

void rvl_session_init(struct rivulet_client *c, union rivulet_packet *req, uint16_t type)
{
	memset(req, 0, sizeof(*req));
	if (!++c->serial)
		c->serial = 1;
	rivulet_proto_init(req, type, c->version, c->serial);
}

static bool wait_for(int fd, short events, int64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	int r;

	do {
		int64_t left = deadline - rvl_lib_now();

		r = poll(&p, 1, left <= 0 ? 0 : (int)((left + 999999) / 1000000));
	} while (r < 0 && errno == EINTR);
	return r > 0;
}

int rvl_session_post(struct rivulet_client *c, union rivulet_packet *req, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { .iov_base = req, .iov_len = req->h.length };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (c->lost)
		return rvl_session_close(c, c->lost, c->why);
	if (fd >= 0) {
		struct cmsghdr *h;

		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		h = CMSG_FIRSTHDR(&msg);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	}
	for (int64_t deadline = rvl_lib_now() + RVL_CALL_TIMEOUT * 1000000ll;;) {
		if (sendmsg(c->sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return rvl_session_close(c, -errno, strerror(errno));
		if (!wait_for(c->sock, POLLOUT, deadline))
			return rvl_lib_fail(ETIMEDOUT, "the daemon reads nothing");
	}
}

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

/* One packet without waiting: 1 with @p and @fd, 0 when there is none, negative when the connection ends. */
static int receive(struct rivulet_client *c, union rivulet_packet *p, int *fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * RIVULET_MSG_FDS)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = p, .iov_len = sizeof(*p) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	char why[200];
	int nfds, r;
	ssize_t n;

	do {
		n = recvmsg(c->sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return rvl_session_close(c, n ? -errno : -ECONNRESET,
					 n ? strerror(errno) : "it closed the connection");
	*fd = take_fds(&msg, &nfds);
	r = -EPROTO;
	snprintf(why, sizeof(why), "packet longer than any message");
	if (!(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		r = rivulet_proto_check(p, (size_t)n, nfds, false, c->version, why, sizeof(why));
	/* -EINVAL: a field this version of the library does not know; older clients ignore it. */
	if (!r || r == -EINVAL)
		return 1;
	*fd = rvl_lib_close(*fd);
	return rvl_session_close(c, -EBADMSG, why);
}

static void device_event(struct rivulet_client *c, const struct rivulet_msg_device *d)
{
	c->epoch++;
	c->info.present = d->device_state == RIVULET_DEVICE_PRESENT;
	c->info.levels = d->levels;
	memcpy(c->info.device, d->device, sizeof(c->info.device));
	memcpy(c->info.board, d->board, sizeof(c->info.board));
	if (!c->info.present)
		c->have_level = c->level_untold = false;
}

/* Told by dispatch, which the eventfd calls for, like the end of a run. */
static void level_event(struct rivulet_client *c, const struct rivulet_msg_level *l)
{
	c->level = (struct rivulet_level_state) { .size = sizeof(c->level), .level = l->level, .reason = l->reason,
		.flags = l->flags, .charge = l->charge, .hz = l->hz };
	c->have_level = true;
	c->level_untold = c->on_level;
	if (c->level_untold)
		eventfd_write(c->event, 1);
}

static void handle(struct rivulet_client *c, const union rivulet_packet *p, int fd)
{
	if (c->answer && p->h.serial == c->awaited) {
		*c->answer = *p;
		c->answer = NULL;
		/* An event may follow at once, in the version that was just agreed on. */
		if (p->h.type == (RIVULET_MSG_HELLO | RIVULET_REPLY) &&
		    p->hello_reply.version <= RIVULET_PROTO_MAX)
			c->version = (uint16_t)p->hello_reply.version;
		if (c->answer_fd) {
			*c->answer_fd = fd;
			return;
		}
	} else if (p->h.type == RIVULET_MSG_DEVICE) {
		device_event(c, &p->device);
	} else if (p->h.type == RIVULET_MSG_LEVEL) {
		level_event(c, &p->level);
	} else if (p->h.type == RIVULET_MSG_ERROR && !p->h.serial) {
		rvl_session_close(c, p->h.error < 0 ? p->h.error : -EPROTO, p->error.text);
	} else {
		rvl_request_answer(c, p);
	}
	rvl_lib_close(fd);
}

int rvl_session_pump(struct rivulet_client *c, int timeout_ms)
{
	union rivulet_packet p;
	int fd = -1, r;

	if (c->lost)
		return rvl_session_close(c, c->lost, c->why);
	if (timeout_ms && !wait_for(c->sock, POLLIN, timeout_ms < 0 ? INT64_MAX :
				    rvl_lib_now() + timeout_ms * 1000000ll))
		return 0;
	while ((r = receive(c, &p, &fd)) > 0)
		handle(c, &p, fd);
	return r;
}

/* The answer has the type that belongs to the request, or is an error about it. */
static int judge(struct rivulet_client *c, const union rivulet_packet *req,
		 const union rivulet_packet *reply)
{
	if (reply->h.type == RIVULET_MSG_ERROR)
		return rvl_lib_fail(reply->h.error < 0 ? -reply->h.error : EPROTO, "%s",
				    reply->error.text);
	if (reply->h.type != (req->h.type | RIVULET_REPLY))
		return rvl_session_close(c, -EBADMSG, "an answer to another question");
	return 0;
}

int rvl_session_call(struct rivulet_client *c, union rivulet_packet *req, int fd, int timeout_ms,
		     union rivulet_packet *reply, int *reply_fd)
{
	int64_t deadline = rvl_lib_now() + timeout_ms * 1000000ll;
	union rivulet_packet discard;
	int r;

	reply = reply ? reply : &discard;
	if (reply_fd)
		*reply_fd = -1;
	c->awaited = req->h.serial;
	c->answer = reply;
	c->answer_fd = reply_fd;
	r = rvl_session_post(c, req, fd);
	while (!r && c->answer) {
		int64_t left = (deadline - rvl_lib_now() + 999999) / 1000000;

		if (left <= 0)
			r = rvl_lib_fail(ETIMEDOUT, "no answer from the daemon in %d ms", timeout_ms);
		else
			r = rvl_session_pump(c, (int)left);
		/* An answer and the end of the connection may come together: the answer counts. */
		if (!c->answer)
			r = 0;
	}
	c->answer = NULL;
	c->awaited = 0;
	return r ? r : judge(c, req, reply);
}

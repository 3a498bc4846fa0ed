// SPDX-License-Identifier: MIT
/* Packets over a session's socket. Sending never blocks, and never frees the session. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "connection.h"
#include "rivulet_proto.h"
#include "util.h"

#define OUT_MAX 4096	/* queued answers; the limits on runs and LOADs keep them below it */

/*
 * Without room for control data the kernel gives no descriptor to this process, but says by
 * MSG_CTRUNC that there was one. A look leaves it in the socket; if it were taken out there, this
 * thread would close the file, which may block. Nobody else reads, so what is taken out is what
 * was looked at.
 */
ssize_t rvl_receive(int sock, void *data, size_t room, bool *carries)
{
	struct iovec iov = { .iov_base = data, .iov_len = room };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n = recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT);

	*carries = false;
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	*carries = msg.msg_flags & MSG_CTRUNC;
	if (!*carries && recv(sock, data, (size_t)n, MSG_DONTWAIT) < 0)
		return -errno;
	return msg.msg_flags & MSG_TRUNC ? -EPROTO : n;
}

/*
 * Takes out the next packet if it carries no descriptor. A packet, unlike a part of a stream, may
 * be empty; but with SO_PASSCRED each one has control data, and the end has none. The room is too
 * small for descriptors to follow.
 */
static bool drain_one(int sock, bool packets, bool *carries)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
	union rivulet_packet p;
	struct iovec iov = { .iov_base = &p, .iov_len = sizeof(p) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT);

	*carries = n >= 0 && msg.msg_flags & MSG_CTRUNC;
	if (n < 0 || *carries || (packets ? !msg.msg_controllen : !n))
		return false;
	return recv(sock, &p, (size_t)n, MSG_DONTWAIT) == n;
}

bool rvl_drain(int sock)
{
	const int on = 1;
	int type = SOCK_STREAM;
	socklen_t len = sizeof(type);
	bool carries;

	getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &len);
	setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	/* When a socket is closed with unread packets, its peer loses what was sent to it. */
	shutdown(sock, SHUT_RD);
	while (drain_one(sock, type == SOCK_SEQPACKET, &carries))
		;
	return !carries;
}

static void packet_free(struct rvl_session *s, struct rvl_packet *q)
{
	rvl_list_del(&q->link);
	rvl_close(q->fd);
	free(q);
	s->queued_out--;
}

static void drop_out(struct rvl_session *s)
{
	struct rvl_packet *q;

	rvl_list_each(q, &s->out, link)
		packet_free(s, q);
}

/*
 * A session that does not read its answers is not read either, which bounds the answers that wait.
 * A hang-up is always reported.
 */
void rvl_update_events(struct rvl_session *s)
{
	if (s->source)
		sd_event_source_set_io_events(s->source, s->queued_out ? EPOLLOUT :
							 s->pending    ? 0 : EPOLLIN);
}

/*
 * Callers may still use the session, so it is only shut down here. The loop then reports the
 * hang-up and ends the session.
 */
static void break_off(struct rvl_session *s)
{
	drop_out(s);
	if (s->fd >= 0)
		shutdown(s->fd, SHUT_RDWR);
	rvl_update_events(s);
}

int rvl_flush(struct rvl_session *s)
{
	struct rvl_packet *q;
	int r = 0;

	rvl_list_each(q, &s->out, link) {
		r = rivulet_proto_send(s->fd, &q->p, q->size, q->fd, MSG_DONTWAIT);
		if (r)
			break;
		packet_free(s, q);
	}
	rvl_update_events(s);
	return r == -EAGAIN ? 0 : r;
}

static void enqueue(struct rvl_session *s, const void *packet, size_t size, int fd)
{
	struct rvl_packet *q = s->queued_out < OUT_MAX ? calloc(1, sizeof(*q)) : NULL;

	if (!q) {
		break_off(s);
		return;
	}
	q->size = size;
	memcpy(&q->p, packet, size);
	q->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	rvl_list_add_tail(&s->out, &q->link);
	s->queued_out++;
	if (fd >= 0 && q->fd < 0)
		break_off(s);
	rvl_update_events(s);
}

void rvl_send(struct rvl_session *s, const void *packet, int fd)
{
	struct rivulet_msg h;
	int r = -EAGAIN;

	if (s->fd < 0)
		return;
	memcpy(&h, packet, sizeof(h));
	if (!s->queued_out)
		r = rivulet_proto_send(s->fd, packet, h.length, fd, MSG_DONTWAIT);
	if (r == -EAGAIN)
		enqueue(s, packet, h.length, fd);
	else if (r)
		break_off(s);
}

void rvl_send_error(struct rvl_session *s, uint16_t type, uint32_t serial, int error,
		    const char *text)
{
	struct rivulet_msg_error e;

	rivulet_proto_init(&e, RIVULET_MSG_ERROR, s->version, serial);
	e.h.error = error;
	e.request = type;
	rivulet_proto_name(e.text, sizeof(e.text), text);
	rvl_send(s, &e, -1);
}

// SPDX-License-Identifier: MIT
/* A connection: its user, its limits, and the dispatch of its messages. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "manager.h"

/* Budget of one dispatch of a session. */
#define PACKETS_PER_TURN 16
#define TURN_NS (2 * NSEC_PER_MSEC)
/*
 * The socket buffer. It holds some twenty answers, each of which may carry a descriptor that stays
 * open until the client reads it.
 */
#define SEND_BYTES 16384

struct rvl_about rvl_session_about(const struct rvl_session *s)
{
	struct rvl_about a = { .device = s->m->device.node, .client = s->name, .pid = s->pid,
			       .uid = s->user->uid, .rate = &s->user->log };

	return a;
}

void rvl_session_reap(struct rvl_session *s)
{
	if (s->fd >= 0 || s->pending || s->instances.next != &s->instances ||
	    s->models.next != &s->models)
		return;
	rvl_list_del(&s->link);
	s->m->n_sessions--;
	s->user->sessions--;
	rvl_user_put(s->user);
	rvl_engine_put(s->engine);
	free(s);
}

void rvl_session_end(struct rvl_session *s)
{
	struct rvl_model *model;
	struct rvl_packet *q;

	rvl_list_each(q, &s->out, link) {
		rvl_close(q->fd);
		free(q);
	}
	rvl_list_init(&s->out);
	s->source = sd_event_source_disable_unref(s->source);
	s->hello = sd_event_source_disable_unref(s->hello);
	/* Unread packets may hold the last references to memory of any size. */
	s->fd = rvl_offload_close(&s->m->closer, s->fd);
	rvl_compile_abandon(s->m, s);
	rvl_list_each(model, &s->models, link)
		rvl_model_unload(model);
	rvl_session_reap(s);
}

/* Ends a session in a way that the client can read the last answer. */
static void hang_up(struct rvl_session *s)
{
	s->source = sd_event_source_disable_unref(s->source);
	rvl_close_socket(&s->m->closer, s->fd);
	s->fd = -1;
	rvl_session_end(s);
}

void rvl_session_acknowledge(struct rvl_session *s, const struct rivulet_msg *h)
{
	struct rivulet_msg_empty e;

	if (s->pending) {
		s->ack = *h;
		return;
	}
	rivulet_proto_init(&e, h->type | RIVULET_REPLY, s->version, h->serial);
	rvl_send(s, &e, -1);
}

void rvl_session_unblock(struct rvl_session *s)
{
	struct rivulet_msg ack = s->ack;

	if (--s->pending)
		return;
	if (ack.type) {
		s->ack.type = 0;
		rvl_session_acknowledge(s, &ack);
	}
	if (s->fd < 0)
		rvl_session_reap(s);
	else
		rvl_update_events(s);
}

/* Ends a session for a protocol violation, and tells the client and the journal why. */
static void violation(struct rvl_session *s, const char *text)
{
	struct rvl_about a = rvl_session_about(s);

	s->m->protocol_errors++;
	rvl_log(LOG_NOTICE, RVL_LOG_PROTOCOL, &a, "disconnected: %s", text);
	rvl_send_error(s, 0, 0, -EPROTO, text);
	hang_up(s);
}

/* Serves one packet. Returns 1 if the next may be read, 0 if the session is blocked or was ended. */
static int serve_one(struct rvl_session *s)
{
	union rivulet_packet p;
	struct rvl_text err;
	int fd, nfds, r;
	ssize_t n = rvl_receive(s->fd, &p, &fd, &nfds, &s->m->closer);

	if (n == -EAGAIN)
		return 0;
	if (n == -EPROTO) {
		rvl_offload_close(&s->m->closer, fd);
		violation(s, "a packet larger than any message");
		return 0;
	}
	if (n <= 0) {
		rvl_offload_close(&s->m->closer, fd);
		rvl_session_end(s);
		return 0;
	}
	r = rivulet_proto_check(&p, (size_t)n, nfds, true, s->version, err.s, sizeof(err.s));
	if (r == -EPROTO) {
		rvl_offload_close(&s->m->closer, fd);
		violation(s, err.s);
		return 0;
	}
	if (r)
		rvl_offload_close(&s->m->closer, fd);
	else
		r = rvl_request(s, &p, fd, &err);
	if (r)
		rvl_send_error(s, p.h.type, p.h.serial, r, err.s);
	/* A failed HELLO ends the connection. */
	if (!s->version) {
		hang_up(s);
		return 0;
	}
	rvl_update_events(s);
	return !s->queued_out && !s->pending;
}

static int on_socket(sd_event_source *source, int fd, uint32_t events, void *data)
{
	uint64_t end = rvl_now() + TURN_NS;
	struct rvl_session *s = data;

	(void)source;
	(void)fd;
	if (events & EPOLLOUT && rvl_flush(s)) {
		rvl_session_end(s);
		return 0;
	}
	if (events & EPOLLIN) {
		for (int i = 0; i < PACKETS_PER_TURN && rvl_now() < end; i++)
			if (!serve_one(s))
				return 0;
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		rvl_session_end(s);
	}
	return 0;
}

static int peer_of_socket(int fd, struct ucred *peer)
{
	socklen_t len = sizeof(*peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len) ? -errno : 0;
}

int (*rvl_session_peer)(int fd, struct ucred *peer) = peer_of_socket;

/* ---- connections above a limit: their first message is answered with the reason ---- */

#define REFUSALS_MAX 32

struct refusal {
	struct rvl_list link;
	struct rvl_manager *m;
	int fd;
	sd_event_source *source, *timer;
	int error;
	struct rvl_text why;
};

static void refusal_free(struct refusal *l)
{
	rvl_list_del(&l->link);
	l->m->n_refusals--;
	sd_event_source_disable_unref(l->source);
	sd_event_source_disable_unref(l->timer);
	rvl_close_socket(&l->m->closer, l->fd);
	free(l);
}

void rvl_refusals_clear(struct rvl_manager *m)
{
	struct refusal *l;

	rvl_list_each(l, &m->refusals, link)
		refusal_free(l);
}

static int on_refused(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct refusal *l = data;
	struct rivulet_msg_error e;
	union rivulet_packet p;
	int got, nfds;

	(void)source;
	(void)events;
	if (rvl_receive(fd, &p, &got, &nfds, &l->m->closer) >= (ssize_t)sizeof(p.h)) {
		rivulet_proto_init(&e, RIVULET_MSG_ERROR, 0, p.h.serial);
		e.h.error = l->error;
		e.request = p.h.type;
		rivulet_proto_name(e.text, sizeof(e.text), l->why.s);
		send(fd, &e, sizeof(e), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	rvl_offload_close(&l->m->closer, got);
	refusal_free(l);
	return 0;
}

static int on_refusal_timeout(sd_event_source *source, uint64_t usec, void *data)
{
	(void)source;
	(void)usec;
	refusal_free(data);
	return 0;
}

/*
 * Takes over the socket. At most REFUSALS_MAX of these connections are kept; beyond that the one that
 * was accepted first is closed.
 */
static void refuse_later(struct rvl_manager *m, int fd, int error, const struct rvl_text *why)
{
	struct refusal *l = calloc(1, sizeof(*l));

	m->refused_sessions++;
	if (!l || sd_event_add_io(m->event, &l->source, fd, EPOLLIN, on_refused, l) < 0 ||
	    sd_event_add_time_relative(m->event, &l->timer, CLOCK_MONOTONIC,
				       m->cfg.hello_timeout / 1000, 0, on_refusal_timeout, l) < 0) {
		close(fd);
		if (l)
			sd_event_source_disable_unref(l->source);
		free(l);
		return;
	}
	l->m = m;
	l->fd = fd;
	l->error = error;
	l->why = *why;
	rvl_list_add_tail(&m->refusals, &l->link);
	if (++m->n_refusals > REFUSALS_MAX)
		refusal_free(rvl_container(m->refusals.next, struct refusal, link));
}

static int count_session(struct rvl_manager *m, struct rvl_user *u, struct rvl_text *err)
{
	int r = rvl_user_count(&m->n_sessions, m->cfg.sessions, "Sessions", err);

	if (r)
		return r;
	r = rvl_user_count(&u->sessions, m->cfg.user_sessions, "SessionsPerUser", err);
	if (r)
		m->n_sessions--;
	return r;
}

static int on_hello_timeout(sd_event_source *source, uint64_t usec, void *data)
{
	struct rvl_session *s = data;

	(void)source;
	(void)usec;
	violation(s, "no HELLO within HelloTimeout=");
	return 0;
}

static struct rvl_session *make(struct rvl_manager *m, struct rvl_user *u, pid_t pid, int fd)
{
	struct rvl_session *s = calloc(1, sizeof(*s));
	const int send_bytes = SEND_BYTES;

	if (!s)
		return NULL;
	s->m = m;
	s->user = u;
	s->pid = pid;
	s->next_id = 1;
	rvl_list_init(&s->models);
	rvl_list_init(&s->instances);
	rvl_list_init(&s->out);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes));
	if (sd_event_add_io(m->event, &s->source, fd, EPOLLIN, on_socket, s) < 0 ||
	    sd_event_add_time_relative(m->event, &s->hello, CLOCK_MONOTONIC,
				       m->cfg.hello_timeout / 1000, 0, on_hello_timeout, s) < 0) {
		sd_event_source_disable_unref(s->source);
		free(s);
		return NULL;
	}
	s->fd = fd;
	return s;
}

int rvl_session_new(struct rvl_manager *m, int sock)
{
	_cleanup_close_ int fd = sock;
	struct rvl_session *s;
	struct rvl_user *u;
	struct rvl_text err;
	struct ucred peer;
	int r = rvl_session_peer(fd, &peer);

	if (r)
		return r;
	u = rvl_user_get(m, peer.uid);
	if (!u)
		return -ENOMEM;
	r = count_session(m, u, &err);
	if (r) {
		refuse_later(m, rvl_take_fd(&fd), r, &err);
		rvl_user_put(u);
		return 0;
	}
	s = make(m, u, peer.pid, fd);
	if (!s) {
		m->n_sessions--;
		u->sessions--;
		rvl_user_put(u);
		return -ENOMEM;
	}
	rvl_take_fd(&fd);
	rvl_list_add_tail(&m->sessions, &s->link);
	return 0;
}

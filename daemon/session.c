// SPDX-License-Identifier: MIT
/* A connection: its user, its limits, and the dispatch of its messages. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "accel.h"
#include "compile.h"
#include "connection.h"
#include "instance.h"
#include "intake.h"
#include "log.h"
#include "manager.h"
#include "offload.h"
#include "receiver.h"
#include "rivulet_proto.h"
#include "user.h"
#include "util.h"

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
	rvl_intake_settle(s->user);
	rvl_user_put(s->user);
	rvl_engine_put(s->engine);
	free(s);
}

/* The session counts against SessionsPerUser= until its connection is closed. */
static void on_discarded(struct rvl_receipt *r, int error, const char *text,
			 const struct rvl_receiver_report *report, struct rvl_sent *sent)
{
	(void)error;
	(void)text;
	(void)report;
	(void)sent;
	rvl_session_unblock(rvl_container(r, struct rvl_session, receipt));
}

static void close_connection(struct rvl_session *s, int sock)
{
	if (rvl_drain(sock)) {
		close(sock);
		return;
	}
	s->pending++;
	s->receipt = (struct rvl_receipt){ .order = RVL_DISCARD, .sock = sock, .done = on_discarded };
	rvl_intake_submit(s->user, &s->receipt, NULL);
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
	rvl_compile_abandon(s->m, s);
	rvl_list_each(model, &s->models, link)
		rvl_model_unload(model);
	/* A receiver that has the socket reads from it, so it is closed after that. */
	if (!s->receiving && s->fd >= 0)
		close_connection(s, s->fd);
	s->fd = -1;
	rvl_session_reap(s);
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

/* Ends a session for a protocol violation, with the reason to the client and the journal. */
static void violation(struct rvl_session *s, const char *text)
{
	struct rvl_about a = rvl_session_about(s);

	s->m->protocol_errors++;
	rvl_log(LOG_NOTICE, RVL_LOG_PROTOCOL, &a, "disconnected: %s", text);
	rvl_send_error(s, 0, 0, -EPROTO, text);
	rvl_session_end(s);
}

/* Serves a packet. Returns 1 if the next may be read, 0 if the session is blocked or was ended. */
static int serve(struct rvl_session *s, const union rivulet_packet *p, ssize_t n, int nfds,
		 struct rvl_sent *sent)
{
	struct rvl_text err;
	int r;

	if (n == -EPROTO) {
		violation(s, "a packet larger than any message");
		return 0;
	}
	if (n <= 0) {
		rvl_session_end(s);
		return 0;
	}
	r = rivulet_proto_check(p, (size_t)n, nfds, true, s->version, err.s, sizeof(err.s));
	if (r == -EPROTO) {
		violation(s, err.s);
		return 0;
	}
	r = r ?: rvl_request(s, p, sent, &err);
	if (r)
		rvl_send_error(s, p->h.type, p->h.serial, r, err.s);
	/* A failed HELLO ends the connection. */
	if (!s->version) {
		rvl_session_end(s);
		return 0;
	}
	rvl_update_events(s);
	return !s->queued_out && !s->pending;
}

/* ---- packets that carry descriptors ---- */

static void refuse_packet(struct rvl_session *s, int error, const char *text)
{
	rvl_send_error(s, s->received.type, s->received.serial, error, text);
	rvl_session_end(s);
}

static void on_received(struct rvl_receipt *r, int error, const char *text,
			const struct rvl_receiver_report *report, struct rvl_sent *sent)
{
	struct rvl_session *s = rvl_container(r, struct rvl_session, receipt);
	int sock = r->sock;

	s->receiving = false;
	if (s->fd < 0)
		close_connection(s, sock);
	else if (error)
		refuse_packet(s, error, text);
	else
		serve(s, &report->p, report->size, (int)report->nfds, sent);
	if (sent)
		rvl_offload_close(&s->m->closer, sent->fd);
	rvl_session_unblock(s);
}

/*
 * The packet stays in the socket until the user's receiver takes it out. Meanwhile the session is
 * blocked.
 */
static void receive_elsewhere(struct rvl_session *s, const union rivulet_packet *p, ssize_t n)
{
	struct rvl_text err;
	int r = -EPROTO;

	if (n > 0)
		r = rivulet_proto_check(p, (size_t)n, 1, true, s->version, err.s, sizeof(err.s));
	else
		rvl_say(&err, 0, "a packet that is empty or larger than any message");
	if (r == -EPROTO) {
		violation(s, err.s);
		return;
	}
	s->received = p->h;
	s->receipt = (struct rvl_receipt){ .order = RVL_RECEIVE, .sock = s->fd, .done = on_received };
	s->receiving = true;
	s->pending++;
	rvl_update_events(s);
	r = rvl_intake_submit(s->user, &s->receipt, &err);
	if (!r)
		return;
	s->receiving = false;
	refuse_packet(s, r, err.s);
	rvl_session_unblock(s);
}

static int serve_one(struct rvl_session *s)
{
	struct rvl_sent none = { .fd = -1 };
	union rivulet_packet p;
	bool carries;
	ssize_t n = rvl_receive(s->fd, &p, sizeof(p), &carries);

	if (n == -EAGAIN)
		return 0;
	if (!carries)
		return serve(s, &p, n, 0, &none);
	receive_elsewhere(s, &p, n);
	return 0;
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
	uid_t uid;
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
	rvl_intake_dispose(l->m, l->uid, l->fd);
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
	bool carries;

	(void)source;
	(void)events;
	if (rvl_receive(fd, &p, sizeof(p), &carries) >= (ssize_t)sizeof(p.h)) {
		rivulet_proto_init(&e, RIVULET_MSG_ERROR, 0, p.h.serial);
		e.h.error = l->error;
		e.request = p.h.type;
		rivulet_proto_name(e.text, sizeof(e.text), l->why.s);
		send(fd, &e, sizeof(e), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
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
 * Takes over the socket. At most REFUSALS_MAX of these connections are
 * kept; beyond that the one that was accepted first is closed.
 */
static void refuse_later(struct rvl_manager *m, uid_t uid, int fd, int error,
			 const struct rvl_text *why)
{
	struct refusal *l = calloc(1, sizeof(*l));

	m->refused_sessions++;
	if (!l || sd_event_add_io(m->event, &l->source, fd, EPOLLIN, on_refused, l) < 0 ||
	    sd_event_add_time_relative(m->event, &l->timer, CLOCK_MONOTONIC,
				       m->cfg.hello_timeout / 1000, 0, on_refusal_timeout, l) < 0) {
		rvl_intake_dispose(m, uid, fd);
		if (l)
			sd_event_source_disable_unref(l->source);
		free(l);
		return;
	}
	l->m = m;
	l->uid = uid;
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

uid_t rvl_session_uid(int fd)
{
	struct ucred peer;

	return rvl_session_peer(fd, &peer) ? (uid_t)-1 : peer.uid;
}

int rvl_session_new(struct rvl_manager *m, int fd)
{
	struct rvl_session *s;
	struct rvl_user *u;
	struct rvl_text err;
	struct ucred peer;
	int r = rvl_session_peer(fd, &peer);

	u = r ? NULL : rvl_user_get(m, peer.uid);
	if (!u) {
		rvl_intake_dispose(m, (uid_t)-1, fd);
		return r ?: -ENOMEM;
	}
	r = count_session(m, u, &err);
	if (r) {
		refuse_later(m, peer.uid, fd, r, &err);
		rvl_user_put(u);
		return 0;
	}
	s = make(m, u, peer.pid, fd);
	if (!s) {
		m->n_sessions--;
		u->sessions--;
		rvl_intake_dispose(m, peer.uid, fd);
		rvl_user_put(u);
		return -ENOMEM;
	}
	rvl_list_add_tail(&m->sessions, &s->link);
	return 0;
}

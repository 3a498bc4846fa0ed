// SPDX-License-Identifier: MIT
/* A connection: who it is, what it may have, and the way of its messages. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "manager.h"

#define PACKETS_PER_TURN 16	/* then the others have theirs */

struct rvl_about rvl_session_about(const struct rvl_session *s)
{
	struct rvl_about a = { .device = s->m->device.node, .client = s->name, .pid = s->pid,
			       .uid = s->user->uid };

	return a;
}

void rvl_session_reap(struct rvl_session *s)
{
	if (s->fd >= 0 || s->instances.next != &s->instances || s->models.next != &s->models)
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
	s->fd = rvl_close(s->fd);
	rvl_compile_abandon(s->m, s);
	rvl_list_each(model, &s->models, link)
		rvl_model_unload(model);
	rvl_session_reap(s);
}

/* The connection is no more; the reason goes to both the client and the journal. */
static void violation(struct rvl_session *s, const char *text)
{
	struct rvl_about a = rvl_session_about(s);

	s->m->protocol_errors++;
	rvl_log(LOG_NOTICE, RVL_LOG_PROTOCOL, &a, "disconnected: %s", text);
	rvl_send_error(s, 0, 0, -EPROTO, text);
	rvl_session_end(s);
}

/* One packet. Returns 1 when there may be more, 0 when the session waits or is closed. */
static int serve_one(struct rvl_session *s)
{
	union rivulet_packet p;
	struct rvl_text err;
	int fd, nfds, r;
	ssize_t n = rvl_receive(s->fd, &p, &fd, &nfds);

	if (n == -EAGAIN)
		return 0;
	if (n == -EPROTO) {
		rvl_close(fd);
		violation(s, "a packet larger than any message");
		return 0;
	}
	if (n <= 0) {
		rvl_close(fd);
		rvl_session_end(s);
		return 0;
	}
	r = rivulet_proto_check(&p, (size_t)n, nfds, true, s->version, err.s, sizeof(err.s));
	if (r == -EPROTO) {
		rvl_close(fd);
		violation(s, err.s);
		return 0;
	}
	if (r)
		rvl_close(fd);
	else
		r = rvl_request(s, &p, fd, &err);
	if (r)
		rvl_send_error(s, p.h.type, p.h.serial, r, err.s);
	/* Without an agreed version there is nothing more to say. */
	if (!s->version) {
		rvl_session_end(s);
		return 0;
	}
	return !s->queued_out;
}

static int on_socket(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct rvl_session *s = data;

	(void)source;
	(void)fd;
	if (events & EPOLLOUT && rvl_flush(s)) {
		rvl_session_end(s);
		return 0;
	}
	if (events & EPOLLIN) {
		for (int i = 0; i < PACKETS_PER_TURN; i++)
			if (!serve_one(s))
				return 0;
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		rvl_session_end(s);
	}
	return 0;
}

static int identify(int fd, struct ucred *peer)
{
	socklen_t len = sizeof(*peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len) ? -errno : 0;
}

/* A refusal before there is a session. */
static void turn_away(struct rvl_manager *m, int fd, int error, const char *text)
{
	struct rivulet_msg_error e;
	size_t size = rivulet_proto_init(&e, RIVULET_MSG_ERROR, 0, 0);

	m->refused_sessions++;
	e.h.error = error;
	rivulet_proto_name(e.text, sizeof(e.text), text);
	send(fd, &e, size, MSG_DONTWAIT | MSG_NOSIGNAL);
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

static struct rvl_session *make(struct rvl_manager *m, struct rvl_user *u, pid_t pid, int fd)
{
	struct rvl_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->m = m;
	s->user = u;
	s->pid = pid;
	s->next_id = 1;
	rvl_list_init(&s->models);
	rvl_list_init(&s->instances);
	rvl_list_init(&s->out);
	if (sd_event_add_io(m->event, &s->source, fd, EPOLLIN, on_socket, s) < 0) {
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
	int r = identify(fd, &peer);

	if (r)
		return r;
	u = rvl_user_get(m, peer.uid);
	if (!u)
		return -ENOMEM;
	r = count_session(m, u, &err);
	if (r) {
		turn_away(m, fd, r, err.s);
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

// SPDX-License-Identifier: MIT
/* The connection to the daemon: open, agree on a version, ask for its state, dispatch. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "session.h"
#include "sized.h"

#define RVL_RETRY_MS 100	/* between two looks for a daemon that is away */

static int connect_to(const char *path, int *out)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd, err;

	if (strlen(path) >= sizeof(a.sun_path))
		return rvl_lib_fail(ENAMETOOLONG, "%s: too long for a socket", path);
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
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

static int add(int epoll, int fd)
{
	struct epoll_event e = { .events = EPOLLIN };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

/* Everything of a client but the greeting; the fd is taken in any case. */
static int client_new(int sock, const char *path, struct rivulet_client **out)
{
	struct rivulet_client *c = calloc(1, sizeof(*c));

	if (c)
		c->path = strdup(path);
	if (!c || !c->path) {
		free(c);
		rvl_lib_close(sock);
		return rvl_lib_fail(ENOMEM, "out of memory");
	}
	c->refs = 1;
	c->sock = sock;
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	c->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->epoll < 0 || c->event < 0 || add(c->epoll, sock) || add(c->epoll, c->event)) {
		int err = errno;

		rivulet_client_unref(c);
		return rvl_lib_fail(err, "epoll: %s", strerror(err));
	}
	*out = c;
	return 0;
}

static void keep_info(struct rivulet_client *c, const struct rivulet_msg_hello_reply *h)
{
	struct rivulet_daemon_info *i = &c->info;

	c->version = (uint16_t)h->version;
	*i = (struct rivulet_daemon_info) { .protocol = h->version,
		.features = (uint32_t)h->features, .levels = h->levels,
		.present = h->device_state == RIVULET_DEVICE_PRESENT,
		.max_model = h->max_model, .max_bytes = h->max_bytes,
		.max_models = h->max_models, .max_requests = h->max_instances,
		.max_runs = h->max_runs };
	memcpy(i->version, h->daemon, sizeof(i->version));
	memcpy(i->device, h->device, sizeof(i->device));
	memcpy(i->board, h->board, sizeof(i->board));
}

static int hello(struct rivulet_client *c)
{
	union rivulet_packet req, reply;
	int r;

	rvl_session_init(c, &req, RIVULET_MSG_HELLO);
	req.hello.min_version = RIVULET_PROTO_MIN;
	req.hello.max_version = RIVULET_PROTO_MAX;
	req.hello.features = RIVULET_FEATURE_POLICY;
	rivulet_proto_name(req.hello.name, sizeof(req.hello.name), program_invocation_short_name);
	r = rvl_session_call(c, &req, -1, RVL_CALL_TIMEOUT, &reply, NULL);
	if (r)
		return r;
	if (reply.hello_reply.version < RIVULET_PROTO_MIN ||
	    reply.hello_reply.version > RIVULET_PROTO_MAX)
		return rvl_lib_fail(EPROTO, "the daemon chose protocol version %u, this library speaks "
				    "%u to %u", reply.hello_reply.version, RIVULET_PROTO_MIN,
				    RIVULET_PROTO_MAX);
	keep_info(c, &reply.hello_reply);
	return 0;
}

int rivulet_open(const char *socket, struct rivulet_client **out)
{
	struct rivulet_client *c = NULL;
	int fd = -1, r;

	if (!socket)
		socket = secure_getenv(RIVULET_SOCKET_ENV);
	if (!socket || !*socket)
		socket = RIVULET_SOCKET_PATH;
	r = connect_to(socket, &fd);
	if (!r)
		r = client_new(fd, socket, &c);
	if (r)
		return r;
	r = hello(c);
	if (r) {
		rivulet_client_unref(c);
		return r;
	}
	*out = c;
	return 0;
}

static bool was_cut(const struct rivulet_client *c)
{
	return c->lost == -ECONNRESET || c->lost == -EPIPE;
}

/* The new socket takes the place of the old one, also in what the caller polls. */
static int replace_socket(struct rivulet_client *c)
{
	int fd, r = connect_to(c->path, &fd);

	if (r)
		return r;
	if (add(c->epoll, fd)) {
		r = rvl_lib_fail(errno, "epoll: %s", strerror(errno));
		rvl_lib_close(fd);
		return r;
	}
	rvl_lib_close(c->sock);
	c->sock = fd;
	c->lost = 0;
	c->version = 0;
	c->connection++;
	c->epoch++;
	return 0;
}

int rvl_client_revive(struct rivulet_client *c)
{
	int r = 0;

	/* A connection that was cut while nothing was asked of it has not said so yet. */
	if (!c->lost)
		rvl_session_pump(c, 0);
	if (!c->lost)
		return 0;
	if (!was_cut(c))
		return rvl_session_close(c, c->lost, c->why);
	r = replace_socket(c);
	r = r ? r : hello(c);
	/* Half greeted is not connected. */
	if (r && !c->lost)
		rvl_session_close(c, -ECONNRESET, "the daemon did not answer HELLO");
	return r;
}

/* Errors that time may mend: no daemon yet, or one that just went. */
static bool may_come(int error)
{
	return error == -ENOENT || error == -ECONNREFUSED || error == -ECONNRESET ||
	       error == -EPIPE || error == -ETIMEDOUT;
}

int rivulet_client_wait_device(struct rivulet_client *c, int timeout_ms)
{
	int64_t deadline = timeout_ms < 0 ? INT64_MAX : rvl_lib_now() + timeout_ms * 1000000ll;

	for (;;) {
		int64_t left = deadline == INT64_MAX ? RVL_RETRY_MS :
			       (deadline - rvl_lib_now() + 999999) / 1000000;
		int r = rvl_client_revive(c);

		if (!r && c->info.present)
			return 0;
		if (r && !may_come(r))
			return r;
		if (left <= 0)
			return rvl_lib_fail(ETIMEDOUT, "no device in %d ms", timeout_ms);
		left = left < RVL_RETRY_MS ? left : RVL_RETRY_MS;
		if (r)
			poll(NULL, 0, (int)left);
		else
			rvl_session_pump(c, (int)left);
	}
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
	rvl_lib_close(c->sock);
	rvl_lib_close(c->epoll);
	rvl_lib_close(c->event);
	free(c->path);
	free(c);
	return NULL;
}

int rivulet_client_fd(const struct rivulet_client *c)
{
	return c->epoll;
}

static void deliver_level(struct rivulet_client *c)
{
	struct rivulet_level_state l = c->level;

	if (!c->level_untold)
		return;
	c->level_untold = false;
	if (c->on_level)
		c->on_level(c, &l, c->on_level_data);
}

int rivulet_client_dispatch(struct rivulet_client *c)
{
	int r = rvl_session_pump(c, 0), n;

	rivulet_client_ref(c);
	deliver_level(c);
	n = rvl_request_deliver(c);
	rivulet_client_unref(c);

	/* The runs that a lost connection ended are told first; the next call says why. */
	return r < 0 && !n ? r : n;
}

int rivulet_client_info(const struct rivulet_client *c, struct rivulet_daemon_info *info)
{
	return RVL_WRITE(info, &c->info, rivulet_daemon_info, board);
}

int rivulet_client_level(const struct rivulet_client *c, struct rivulet_level_state *out)
{
	if (!c->have_level)
		return rvl_lib_fail(ENODATA, "the daemon told no level: it has no device, or no policy");
	return RVL_WRITE(out, &c->level, rivulet_level_state, hz);
}

void rivulet_client_on_level(struct rivulet_client *c,
			     void (*fn)(struct rivulet_client *c, const struct rivulet_level_state *l,
					void *data), void *data)
{
	c->on_level = fn;
	c->on_level_data = data;
	c->level_untold = c->level_untold && fn;
}

static void keep_policy(const struct rivulet_msg_policy_reply *p, struct rivulet_policy_state *out)
{
	*out = (struct rivulet_policy_state) { .size = sizeof(*out), .mode = p->mode, .fixed = p->fixed,
		.source = p->source, .flags = p->flags, .level = p->level, .levels = p->levels,
		.reason = p->reason, .allowed = p->allowed, .charge = p->charge,
		.drain = p->drain, .temperature = p->temperature, .hysteresis = p->hysteresis,
		.reserve = p->reserve, .used = p->used, .dwell = p->dwell, .changed = p->changed };
	_Static_assert(sizeof(out->use) == sizeof(p->use) && sizeof(out->hz) == sizeof(p->hz),
		       "arrays of levels");
	memcpy(out->use, p->use, sizeof(out->use));
	memcpy(out->threshold, p->threshold, sizeof(out->threshold));
	memcpy(out->hz, p->hz, sizeof(out->hz));
	memcpy(out->residency, p->residency, sizeof(out->residency));
	memcpy(out->entries, p->entries, sizeof(out->entries));
}

int rivulet_client_policy(struct rivulet_client *c, uint32_t mode, uint32_t level,
			  struct rivulet_policy_state *out)
{
	struct rivulet_policy_state state;
	union rivulet_packet req, reply;
	int r;

	/* A daemon that does not know the request would end the connection. */
	if (!(c->info.features & RIVULET_FEATURE_POLICY))
		return rvl_lib_fail(EOPNOTSUPP, "this daemon has no power policy");
	rvl_session_init(c, &req, RIVULET_MSG_POLICY);
	req.policy.mode = mode;
	req.policy.level = level;
	r = rvl_session_call(c, &req, -1, RVL_CALL_TIMEOUT, &reply, NULL);
	if (r)
		return r;
	if (reply.policy_reply.levels > RIVULET_LEVELS ||
	    reply.policy_reply.used > RIVULET_LEVELS || reply.policy_reply.level >= RIVULET_LEVELS)
		return rvl_session_close(c, -EBADMSG, "a policy with more levels than there are");
	keep_policy(&reply.policy_reply, &state);
	return out ? RVL_WRITE(out, &state, rivulet_policy_state, entries) : 0;
}

int rivulet_client_ping(struct rivulet_client *c, int timeout_ms)
{
	union rivulet_packet req;
	int r = rvl_client_revive(c);

	if (r)
		return r;
	rvl_session_init(c, &req, RIVULET_MSG_PING);
	return rvl_session_call(c, &req, -1, timeout_ms, NULL, NULL);
}

int rivulet_client_status(struct rivulet_client *c, int *fd, uint64_t *size)
{
	union rivulet_packet req, reply;
	int r = rvl_client_revive(c);

	if (r)
		return r;
	rvl_session_init(c, &req, RIVULET_MSG_STATUS);
	r = rvl_session_call(c, &req, -1, RVL_CALL_TIMEOUT, &reply, fd);
	if (!r)
		*size = reply.status_reply.size;
	return r;
}

/* SPDX-License-Identifier: MIT */
/*
 * The client side of the daemon's socket, as the other files of the library use it.
 *
 * Nothing here blocks but rvl_client_poll(). An operation (a load, a run, a connection) is a small
 * state machine in its object. Progress is pulled: rvl_client_step() asks each operation under way
 * for its next request whenever something arrived. Failure is pushed: the answer's handler, or the
 * end of the connection, ends every operation that depended on it. Handlers of answers only change
 * state; they never send and never call back into the program.
 */
#ifndef RVL_LIBCLIENT_SESSION_H
#define RVL_LIBCLIENT_SESSION_H

#include "priv.h"
#include "rivulet_proto.h"

#define RVL_CALL_TIMEOUT 30000	/* ms for an answer that needs no compiling */
#define RVL_NEVER	 INT64_MAX

/**
 * struct rvl_call - one request whose answer is awaited; lives in its owner
 * @done: @result 0 with @reply, and @fd or -1, which the handler takes over; or a negative errno
 * with its text in rivulet_last_error(), @reply NULL and @fd -1. @active is false by then.
 */
struct rvl_call {
	struct rvl_call *next;
	bool active;			/* in the client's list */
	uint32_t serial;
	uint16_t type;			/* of the request */
	int64_t deadline;		/* CLOCK_MONOTONIC ns */
	void *owner;
	void (*done)(struct rvl_call *call, int result, union rivulet_packet *reply, int fd);
};

enum rvl_link {
	RVL_LINK_DOWN,			/* no connection; @error says why */
	RVL_LINK_GREETING,		/* connected, HELLO not answered */
	RVL_LINK_UP,
};

struct rvl_out;
struct rvl_question;

/** struct rivulet_client - one connection. Models hold a reference, requests hold their model's */
struct rivulet_client {
	int refs;
	int epoll;			/* what the program polls: the three below */
	int sock;			/* -1 when the link is down */
	int event;			/* eventfd: dispatch has something to deliver or to continue */
	int timer;			/* timerfd: the earliest of the deadlines and @retry_at */
	int64_t armed;			/* what @timer is set to */
	char *path;			/* of the socket, to connect again */
	enum rvl_link link;
	int error;			/* of the link that is down, or 0 before the first attempt */
	char why[256];			/* its text */
	uint16_t version;		/* agreed by HELLO; 0 before */
	uint32_t serial;		/* of the last request */
	uint32_t connection;		/* counts connections: ids belong to one of them */
	uint32_t epoch;			/* counts device events and connections: instances belong to one */
	int64_t retry_at;		/* when to try connecting again, or RVL_NEVER */
	int64_t busy_until;		/* a full backlog is tried again until then; 0: none was met */
	bool reconnecting;		/* rivulet_client_connect_start() is under way ... */
	int64_t reconnect_until;	/* ... until then */
	bool again;			/* an operation can continue without anything arriving */
	struct rvl_call hello;
	struct rvl_call *calls;
	struct rvl_out *out, **out_end;	/* packets that the socket did not take yet */
	struct rivulet_daemon_info info;
	struct rivulet_model *models;
	struct rivulet_request *requests;
	struct rvl_question *questions;
	uint32_t preparing;		/* requests, models and questions with work for rvl_client_step() */
	bool changed;			/* link or device changed, not delivered yet */
	void (*on_change)(struct rivulet_client *c, void *data);
	void *on_change_data;
	bool have_level;
	bool level_changed;		/* not delivered yet */
	struct rivulet_level_state level;
	void (*on_level)(struct rivulet_client *c, const struct rivulet_level_state *l, void *data);
	void *on_level_data;
};

/* ---- session.c: packets ---- */

/** rvl_session_init() - a zeroed request with a fresh serial */
void rvl_session_init(struct rivulet_client *c, union rivulet_packet *req, uint16_t type);
/** rvl_session_post() - send a request whose answer is discarded; @fd: to send along, or -1 */
int rvl_session_post(struct rivulet_client *c, union rivulet_packet *req, int fd);
/**
 * rvl_call_start() - send a request, @done of @call handles its answer
 * Returns 0, or the error that ended the connection; @call is not active then.
 */
int rvl_call_start(struct rivulet_client *c, struct rvl_call *call, union rivulet_packet *req,
		   int fd, int timeout_ms);
/** rvl_call_drop() - forget a call: its answer is discarded, what it created is released */
void rvl_call_drop(struct rivulet_client *c, struct rvl_call *call);
/** rvl_session_receive() - handle everything that has arrived, send what waited. Never blocks */
void rvl_session_receive(struct rivulet_client *c);
/** rvl_session_expire() - end calls whose deadline has passed. Returns the earliest that is left */
int64_t rvl_session_expire(struct rivulet_client *c);
/** rvl_session_close() - end the connection with this reason, and with it all that is under way */
int rvl_session_close(struct rivulet_client *c, int error, const char *why);
/** rvl_session_drop() - the client is freed: close the socket, drop what was not sent */
void rvl_session_drop(struct rivulet_client *c);
/** rvl_session_error() - the error of a link that is down, with its text */
int rvl_session_error(const struct rivulet_client *c);

/* ---- client.c: the connection ---- */

/**
 * rvl_client_connect() - a connection to work with; every request of the library comes through here
 * 0: the link is up. -EINPROGRESS: it is being made; rvl_client_step() follows. Else the reason why
 * there is none. A link that was cut is made again; one on which a side broke the protocol is not.
 */
int rvl_client_connect(struct rivulet_client *c);
/** rvl_client_step() - let every operation under way send its next request */
void rvl_client_step(struct rivulet_client *c);
/** rvl_client_pump() - receive, expire, step. Never blocks, never calls back */
void rvl_client_pump(struct rivulet_client *c);
/** rvl_client_poll() - wait for an event or @deadline, then pump. False: the time has passed */
bool rvl_client_poll(struct rivulet_client *c, int64_t deadline);
/** rvl_client_ready() - rvl_client_connect(), waiting until @deadline */
int rvl_client_ready(struct rivulet_client *c, int64_t deadline);
/** rvl_client_started() - an operation has begun: the timer must cover its deadlines */
void rvl_client_started(struct rivulet_client *c);
/** rvl_client_notify() - make the program's fd readable, so that it calls dispatch */
void rvl_client_notify(struct rivulet_client *c);
/** rvl_client_changed() - link or device changed: on_change is called from dispatch */
void rvl_client_changed(struct rivulet_client *c);
/** rvl_milliseconds() - of @ns, for poll(): not negative, rounded up */
int rvl_milliseconds(int64_t ns);
/** rvl_deadline() - @timeout_ms from now, RVL_NEVER when negative */
int64_t rvl_deadline(int timeout_ms);

/* ---- ask.c, called by the two above ---- */

/** rvl_questions_step() - send the questions that wait for the connection */
void rvl_questions_step(struct rivulet_client *c);
/** rvl_questions_closed() - the connection ended with @error and c->why */
void rvl_questions_closed(struct rivulet_client *c, int error);
/**
 * rvl_questions_expire() - end those whose deadline passed unsent. Returns the earliest that is
 * left
 */
int64_t rvl_questions_expire(struct rivulet_client *c);
/** rvl_questions_deliver() - call back for those that ended. Returns how many */
int rvl_questions_deliver(struct rivulet_client *c);
/** rvl_questions_drop() - the client is freed: forget all */
void rvl_questions_drop(struct rivulet_client *c);

/* ---- model.c and request.c, called by session.c and client.c ---- */

/** rvl_models_step(), rvl_requests_step() - next step of loads, and of requests being prepared */
void rvl_models_step(struct rivulet_client *c);
void rvl_requests_step(struct rivulet_client *c);
/** rvl_models_closed(), rvl_requests_closed() - the connection ended with @error and c->why */
void rvl_models_closed(struct rivulet_client *c, int error);
void rvl_requests_closed(struct rivulet_client *c, int error);
/**
 * rvl_models_deliver(), rvl_requests_deliver() - call back for what ended. Return how many ended
 */
int rvl_models_deliver(struct rivulet_client *c);
int rvl_requests_deliver(struct rivulet_client *c);

#endif

/* SPDX-License-Identifier: MIT */
/* The client side of the socket, as models and requests use it. */
#ifndef RVL_LIBCLIENT_SESSION_H
#define RVL_LIBCLIENT_SESSION_H

#include "priv.h"
#include "rivulet_proto.h"

#define RVL_CALL_TIMEOUT 30000	/* ms for an answer that needs no compiling */

/** struct rivulet_client - one connection. Models hold a reference, requests hold their model's */
struct rivulet_client {
	int refs;
	int sock;
	int epoll;			/* what the caller polls: sock, and @event */
	int event;			/* eventfd: runs ended that dispatch has not told yet */
	uint16_t version;		/* agreed; 0 before HELLO */
	char *path;			/* of the socket, to connect again */
	uint32_t serial;		/* last one used */
	uint32_t connection;		/* counts them: ids of an earlier one mean nothing */
	uint32_t epoch;			/* counts devices' comings and goings, and connections */
	int lost;			/* 0, or the negative errno that ended the connection */
	char why[256];			/* and its line */
	uint32_t awaited;		/* serial whose answer a call waits for, or 0 */
	union rivulet_packet *answer;	/* where it goes; NULL once it has arrived */
	int *answer_fd;
	struct rivulet_daemon_info info;
	struct rivulet_request *requests;
	bool have_level;
	bool level_untold;		/* changed, not yet told by dispatch */
	struct rivulet_level_state level;
	void (*on_level)(struct rivulet_client *c, const struct rivulet_level_state *l, void *data);
	void *on_level_data;
};

/**
 * rvl_session_call() - send a request and wait for its answer; runs that end meanwhile are noted
 * @req: header filled by rvl_session_init(); @fd: to send along, or -1
 * @reply: receives the answer; @reply_fd: its descriptor or -1; NULL when none is expected
 * Returns 0 or the daemon's errno (with its text), -ETIMEDOUT, or what ended the connection.
 */
int rvl_session_call(struct rivulet_client *c, union rivulet_packet *req, int fd, int timeout_ms,
		     union rivulet_packet *reply, int *reply_fd);
/** rvl_session_post() - send a request and return; its answer is taken by serial, or dropped */
int rvl_session_post(struct rivulet_client *c, union rivulet_packet *req, int fd);
/** rvl_session_init() - a zeroed request with a fresh serial */
void rvl_session_init(struct rivulet_client *c, union rivulet_packet *req, uint16_t type);
/** rvl_session_pump() - take what has arrived, waiting up to @timeout_ms for something. Negative: lost */
int rvl_session_pump(struct rivulet_client *c, int timeout_ms);
/**
 * rvl_client_revive() - a connection to work with: connects again if the last one was cut
 * What the daemon knew of us is gone then; models and requests bring it back when they are used. Not where
 * one side broke the protocol: that would only happen again. Returns 0 or why there is no connection.
 */
int rvl_client_revive(struct rivulet_client *c);
/** rvl_session_close() - end the connection with this reason; every run in flight ends with it */
int rvl_session_close(struct rivulet_client *c, int err, const char *why);

/* ---- request.c, called by the session ---- */

/** rvl_request_answer() - an answer for a run: true when @p was one of @c's requests */
bool rvl_request_answer(struct rivulet_client *c, const union rivulet_packet *p);
/** rvl_request_lost() - the connection is gone: all runs in flight end */
void rvl_request_lost(struct rivulet_client *c);
/** rvl_request_deliver() - call back for runs that ended. Returns how many ended */
int rvl_request_deliver(struct rivulet_client *c);

#endif

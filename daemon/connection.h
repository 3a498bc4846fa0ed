/* SPDX-License-Identifier: MIT */
/* Connections: their requests, and the packets that answer them (session.c, conn.c, request.c). */
#ifndef RVL_CONNECTION_H
#define RVL_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "intake.h"
#include "log.h"
#include "rivulet_proto.h"
#include "util.h"

struct rvl_engine;
struct rvl_manager;
struct rvl_user;

/** struct rvl_packet - an answer that waits for room in the socket buffer */
struct rvl_packet {
	struct rvl_list link;
	size_t size;
	int fd;
	union rivulet_packet p;
};

struct rvl_session {
	struct rvl_list link;
	struct rvl_manager *m;
	struct rvl_user *user;
	int fd;			/* -1: closed; the object waits for runs and pending works */
	sd_event_source *source;
	pid_t pid;
	uint16_t version;	/* 0 before HELLO */
	uint64_t features;	/* enum rivulet_feature that the client knows */
	char name[RIVULET_NAME_MAX];
	uint32_t next_id;
	struct rvl_engine *engine;
	uint32_t engine_epoch;
	struct rvl_list models, instances, out;
	uint32_t queued_out;
	/*
	 * Works of threads for this session. While there are any, its next request is not read, so
	 * requests take effect in the order in which they came.
	 */
	uint32_t pending;
	struct rivulet_msg ack;	/* to be acknowledged when @pending is 0; type 0: none */
	sd_event_source *hello;	/* ends a connection that says no HELLO */
	struct rvl_receipt receipt;	/* RECEIVE, or at the end DISCARD; counted in @pending */
	bool receiving;			/* the receiver has the socket */
	struct rivulet_msg received;	/* header of the packet that it takes */
};

struct ucred;
/** rvl_session_peer - SO_PEERCRED of the peer; a test that plays several users replaces it */
extern int (*rvl_session_peer)(int fd, struct ucred *peer);
/** rvl_session_uid() - of the peer */
uid_t rvl_session_uid(int fd);
/**
 * rvl_session_new() - @fd: an accepted socket, taken over. Above a limit, HELLO is answered by an
 * error
 */
int rvl_session_new(struct rvl_manager *m, int fd);
/** rvl_refusals_clear() - close all connections above a limit */
void rvl_refusals_clear(struct rvl_manager *m);
/**
 * rvl_session_end() - close the connection; the object is freed after its last run and pending work
 */
void rvl_session_end(struct rvl_session *s);
/** rvl_session_reap() - free a closed session once nothing of it is under way */
void rvl_session_reap(struct rvl_session *s);
/** rvl_session_unblock() - one pending work is done; after the last one, requests are read again */
void rvl_session_unblock(struct rvl_session *s);
/**
 * rvl_session_acknowledge() - send the reply without a body to request @h when no work is pending
 */
void rvl_session_acknowledge(struct rvl_session *s, const struct rivulet_msg *h);
/** rvl_session_about() - the fields of a journal entry about this session */
struct rvl_about rvl_session_about(const struct rvl_session *s);

/** rvl_send() - queue a packet that rivulet_proto_init() began; @fd (or -1) stays the caller's */
void rvl_send(struct rvl_session *s, const void *packet, int fd);
/** rvl_send_error() - answer request @type, @serial by ERROR */
void rvl_send_error(struct rvl_session *s, uint16_t type, uint32_t serial, int error,
		    const char *text);
/** rvl_flush() - send queued answers; 0, or a negative errno if the connection is broken */
int rvl_flush(struct rvl_session *s);
/**
 * rvl_update_events() - poll for writing while answers are queued, for reading unless work is
 * pending
 */
void rvl_update_events(struct rvl_session *s);
/**
 * rvl_receive() - one packet, or bytes of a stream, if no descriptor came with it
 * @carries: becomes true if one did; the packet is then copied, but left in the socket.
 * Returns its size, 0 at the end, -EAGAIN, -EPROTO if it is larger than @room.
 */
ssize_t rvl_receive(int sock, void *data, size_t room, bool *carries);
/**
 * rvl_drain() - read what is left in a socket that is to be closed; nothing can be added
 * Returns false if a packet with a descriptor is there. Closing the socket may then block.
 */
bool rvl_drain(int sock);

/**
 * rvl_request() - serve a checked request; 0, or negative errno to be answered
 * @sent: the descriptor that came with it; what is left in it is the caller's to close
 */
int rvl_request(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		struct rvl_text *err);
/** rvl_device_event() - send DEVICE to all sessions, after the device was added or removed */
void rvl_device_event(struct rvl_manager *m);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A listening socket on the event loop. A level-triggered listener whose accept() fails for want of a
 * file descriptor would be dispatched again at once and for ever. This one pauses instead, with
 * exponential backoff, and keeps one descriptor in reserve, by which it answers a waiting peer with
 * the reason.
 */
#ifndef RVL_LISTENER_H
#define RVL_LISTENER_H

#include <systemd/sd-event.h>

#include "util.h"

struct rvl_listener {
	const char *name;		/* for the journal */
	sd_event_source *io;
	sd_event_source *timer;		/* ends a pause */
	int reserve;			/* open while the process has a descriptor to spare, else -1 */
	uint64_t backoff;		/* us, of the next pause */
	uint64_t pauses;
	struct rvl_rate rate;
	void (*accepted)(int sock, void *data);	/* takes over @sock */
	void (*refuse)(int sock, int error, void *data);	/* takes over @sock, and answers it */
	void *data;
};

/**
 * rvl_listener_start() - accept connections on @fd from now on
 * @l: name, accepted, refuse and data are set, the rest is zero
 * @fd: a listening, non-blocking socket, taken over when this succeeds
 * @priority: of the event source
 */
int rvl_listener_start(struct rvl_listener *l, sd_event *event, int fd, int64_t priority);
void rvl_listener_stop(struct rvl_listener *l);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that users pass, the daemon's side of receiver.h. The loop only peeks at a packet, to
 * find out whether descriptors came with it. If some did, it lends the connection to the receiver
 * of the user, or hands it over when the connection ends. The receiver takes one connection at a
 * time.
 *
 * A receiver that is not done within RVL_INTAKE_NS is stuck in a call on a file of the user. It
 * is killed, which takes effect when that call returns, and replaced. With RVL_INTAKE_STUCK of
 * them left, messages of that user that carry a descriptor are refused, until one has ended.
 * Other users are not affected.
 */
#ifndef RVL_INTAKE_H
#define RVL_INTAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "receiver.h"
#include "util.h"

#define RVL_INTAKE_NS		(5 * NSEC_PER_SEC)
#define RVL_INTAKE_STUCK	2

struct rvl_manager;
struct rvl_user;
struct rvl_receiver;

/** struct rvl_sent - the descriptor of a request; fd -1: none, or of a kind that is not accepted */
struct rvl_sent {
	int fd;
	struct rvl_file file;
};

/** struct rvl_receipt - one job of a receiver */
struct rvl_receipt {
	struct rvl_list link;
	enum rvl_receiver_order order;
	int sock;	/* RVL_RECEIVE: lent until done(); RVL_DISCARD: taken over */
	/*
	 * Called once, from the loop. @error: 0 or a negative errno, with @text. Of RVL_RECEIVE
	 * without an error, @report is what arrived, and @sent->fd, if any, the callee's.
	 */
	void (*done)(struct rvl_receipt *r, int error, const char *text,
		     const struct rvl_receiver_report *report, struct rvl_sent *sent);
};

/** struct rvl_intake - of one user */
struct rvl_intake {
	struct rvl_list queue;		/* receipts that wait for the receiver */
	struct rvl_receipt *current;	/* that the receiver works on */
	struct rvl_receiver *receiver;	/* NULL: none that can be used */
	uint32_t stuck;			/* receivers that were killed and have not ended */
	uint32_t disposals;		/* RVL_DISCARD of connections without a session */
	sd_event_source *retry;		/* starts a receiver again */
};

/**
 * rvl_intake_submit() - hand a job to the user's receiver, which is started if there is none
 * An RVL_DISCARD is always accepted. An RVL_RECEIVE may be refused with an errno and its text;
 * its done() is then not called, and the packet is still in the socket.
 */
int rvl_intake_submit(struct rvl_user *u, struct rvl_receipt *r, struct rvl_text *err);
/** rvl_intake_settle() - end the receiver of a user who has no session and no job */
void rvl_intake_settle(struct rvl_user *u);
/**
 * rvl_intake_stop() - the daemon ends: kill all receivers, end all jobs, wait for none that is
 * stuck
 */
void rvl_intake_stop(struct rvl_manager *m);

/**
 * rvl_intake_dispose() - close a connection of @uid that has no session, whatever is still in it
 */
void rvl_intake_dispose(struct rvl_manager *m, uid_t uid, int sock);

/** rvl_intake_end_main() - main() of `rivuletd --end`, whose end closes a connection */
int rvl_intake_end_main(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The receiver's process: `rivuletd --receiver`, one per user. It alone receives what users pass
 * by SCM_RIGHTS, because almost any system call on such a file, close() included, can block for
 * as long as its owner decides: a FUSE server that does not answer, a socket that lingers, a lock
 * of the file's inode or offset. It hands memfds and dma-bufs on to the daemon, on which only the
 * owner's device or the amount of memory takes time, and closes all else itself. The daemon
 * replaces a receiver that is stuck (intake.h).
 *
 *   daemon                                  receiver
 *   struct rvl_receiver_job + the socket ->
 *                                        <- struct rvl_receiver_report + the descriptor, if RECEIVE
 *                                        <- struct rvl_receiver_done: everything else is closed
 */
#ifndef RVL_RECEIVER_H
#define RVL_RECEIVER_H

#include <stdint.h>
#include <sys/types.h>

#include "rivulet_proto.h"

#define RVL_RECEIVER_CONTROL_FD 3	/* SOCK_SEQPACKET to the daemon */

enum rvl_receiver_order {
	RVL_RECEIVE,	/* one packet, and what came with it */
	RVL_DISCARD,	/* all packets; this is the last reference to the socket */
};

struct rvl_receiver_job {
	uint32_t order;
	uint32_t rsvd;
};

enum rvl_file_kind {
	RVL_FILE_OTHER,	/* not handed on */
	RVL_FILE_MEMFD,	/* on tmpfs */
	RVL_FILE_DMABUF,
};

/**
 * struct rvl_file - what the receiver found out about a descriptor, so that the daemon need not
 * ask
 */
struct rvl_file {
	uint32_t kind;		/* enum rvl_file_kind */
	uint32_t seals;		/* F_SEAL_*, of a memfd */
	uint32_t writable;	/* opened O_RDWR */
	uint32_t rsvd;
	uint64_t size;		/* bytes */
};

struct rvl_receiver_report {
	int32_t size;		/* of the packet, or a negative errno of recvmsg() */
	uint32_t nfds;		/* that came with it; more than one is more than any message has */
	struct rvl_file file;	/* the first of them */
	union rivulet_packet p;
};

struct rvl_receiver_done {
	uint32_t order;		/* of the job */
};

/** rvl_receiver_main() - main() of the receiver; returns its exit status */
int rvl_receiver_main(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Threads for work whose amount a client decides: checking and mapping programs, preparing models,
 * mapping memory, releasing all of these. The event loop only hands work over and takes it back.
 *
 * A work item is part of an object of the loop, which must keep that object alive until done() was
 * called. Items of one owner, a user, run one at a time; among owners, the one served least
 * recently is next. So the works of a user delay only works of the same user, if there is more than
 * one thread.
 */
#ifndef RVL_OFFLOAD_H
#define RVL_OFFLOAD_H

#include <pthread.h>
#include <systemd/sd-event.h>

#include "util.h"

/** struct rvl_work_owner - state of one owner, under the lock of struct rvl_offload */
struct rvl_work_owner {
	bool busy;
	uint64_t served;	/* counts up over all owners */
};

struct rvl_work {
	struct rvl_list link;
	struct rvl_work_owner *owner;			/* NULL: no order, served first */
	void (*run)(struct rvl_work *w);		/* on a thread */
	void (*done)(struct rvl_work *w);		/* on the loop; NULL: run() released the item */
};

#define RVL_OFFLOAD_THREADS 4

struct rvl_offload {
	pthread_mutex_t lock;		/* all that follows but @source */
	pthread_cond_t queued;
	struct rvl_list queue, finished;
	uint64_t served;
	uint32_t active;		/* items queued, running or not taken back */
	bool stop;
	uint32_t threads;
	pthread_t thread[RVL_OFFLOAD_THREADS];
	int event;			/* eventfd: @finished is not empty */
	sd_event_source *source;
};

/** rvl_offload_start() - 0 or a negative errno; @threads: up to RVL_OFFLOAD_THREADS */
int rvl_offload_start(struct rvl_offload *o, sd_event *event, uint32_t threads);
/** rvl_offload_submit() - hand @w over; done() is called from the loop, never from in here */
void rvl_offload_submit(struct rvl_offload *o, struct rvl_work *w);
/**
 * rvl_offload_has_room() - whether an item that only releases something should be handed over
 * Beyond some backlog the loop does it itself, or clients could make descriptors faster than a
 * thread closes them.
 */
bool rvl_offload_has_room(struct rvl_offload *o);
/** rvl_offload_drain() - until @deadline take finished items back. Returns whether none is left */
bool rvl_offload_drain(struct rvl_offload *o, uint64_t deadline);
/** rvl_offload_stop() - after a drain that left nothing: end the threads */
void rvl_offload_stop(struct rvl_offload *o);
/**
 * rvl_offload_close() - close a descriptor that a client sent
 * The last close of a memfd or dma-buf frees its pages, which takes time in proportion to its size.
 * -1 is allowed. Returns -1 for assignment.
 */
int rvl_offload_close(struct rvl_offload *o, int fd);

#endif

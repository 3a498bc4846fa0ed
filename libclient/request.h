/* SPDX-License-Identifier: MIT */
#ifndef RVL_LIBCLIENT_REQUEST_H
#define RVL_LIBCLIENT_REQUEST_H

#include "model.h"

/**
 * struct rvl_binding - the memory of one tensor of a request
 *
 * One of three kinds: a buffer, a dma-buf, or plain memory, which travels through a memfd that is
 * mapped here. @fd is what BIND sends; it is made again when the tensor must be bound again.
 */
struct rvl_binding {
	struct rvl_call call;		/* BIND */
	struct rivulet_request *request;
	bool bound;			/* by the program */
	bool sent;			/* to the instance that the request has */
	bool output;
	int fd;				/* owned, or -1 */
	uint64_t offset;
	struct rivulet_buffer *buf;	/* referenced; NULL for the other kinds */
	bool dmabuf;			/* @fd is the program's dma-buf and is kept */
	void *user;			/* plain memory, the program's */
	void *shared;			/* map of the memfd behind @user, of the tensor's size */
};

enum rvl_phase {
	RVL_IDLE,
	RVL_PREPARING,			/* model, instance and bindings are brought to the daemon */
	RVL_RUNNING,			/* RUN was sent */
	RVL_MEASURING,			/* the run ended well; the shapes that it found are asked for */
};

/** struct rvl_found - the shape that a run found of an output */
struct rvl_found {
	uint32_t ndim;
	uint64_t dim[RIVULET_MAX_DIMS];
	uint64_t bytes;
};

struct rivulet_request {
	int refs;
	struct rivulet_model *model;	/* referenced */
	struct rivulet_request *next;	/* of the client's list */
	enum rvl_phase phase;
	bool prepare_only;		/* the operation under way ends before RUN */
	bool reloaded;			/* the model was loaded again for this operation */
	struct rivulet_run_options options;
	struct rvl_call call;		/* OPEN, then RUN, then TENSOR after TENSOR */
	uint32_t pending;		/* OPEN and BINDs that are not answered */
	uint32_t id;			/* instance, or 0 */
	uint32_t connection;		/* client's connection, device epoch and model's load ... */
	uint32_t epoch;			/* ... that the instance belongs to */
	uint32_t generation;
	bool undelivered;		/* an operation ended, the program was not called back yet */
	int64_t ended_at;		/* CLOCK_MONOTONIC ns */
	int result;
	bool have_stats;
	uint32_t measured;		/* outputs whose shape is known, of those of the last run */
	struct rvl_found *found;	/* one for each output */
	struct rivulet_run_stats stats;
	char error[512];
	void (*done)(struct rivulet_request *r, void *data);
	void *data;
	struct rvl_binding *bind;	/* one for each tensor */
};

/** rvl_bind_send() - send BIND for tensor @i. 0, or the error of making its memory available */
int rvl_bind_send(struct rivulet_request *r, uint32_t i);
/**
 * rvl_bind_copy() - copy plain memory: inputs to the memfd, or outputs, as large as they are found,
 * from it
 */
void rvl_bind_copy(struct rivulet_request *r, bool outputs);
/** rvl_bind_release() - what a binding holds is released; its tensor has no memory then */
void rvl_bind_release(struct rivulet_request *r, uint32_t i);
/**
 * rvl_request_failed() - bind.c: the operation under way cannot go on; text in rivulet_last_error()
 */
void rvl_request_failed(struct rivulet_request *r, int error);

#endif

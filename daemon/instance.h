/* SPDX-License-Identifier: MIT */
/* Models as sessions loaded them, and their instances: bindings and working memory. */
#ifndef RVL_INSTANCE_H
#define RVL_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "rivulet_proto.h"
#include "util.h"

struct rivulet_exec;
struct rivulet_image;
struct rvl_compile;
struct rvl_engine;
struct rvl_program;
struct rvl_sent;
struct rvl_session;

/** struct rvl_model - a program as a session loaded it */
struct rvl_model {
	struct rvl_list link;
	struct rvl_session *session;
	uint32_t id, refs;	/* the session's, and its instances' */
	bool dead;		/* unloaded; freed when refs is 0 */
	char name[RIVULET_NAME_MAX];
	struct rvl_program *program;
	struct rivulet_image *image;	/* NULL until the first instance on this device */
	uint32_t epoch;			/* of the device it is for */
	uint64_t charged;		/* for the program */
	uint64_t image_bytes;		/* charged for the image */
};

struct rvl_run;

/** struct rvl_instance - bindings of a model */
struct rvl_instance {
	struct rvl_list link;
	struct rvl_session *session;
	struct rvl_model *model;
	uint32_t id;
	bool dead;		/* closed while a run or a preparation was under way */
	bool shapes;		/* the client asks for shapes that are known at run time only */
	bool ran;		/* the last run ended well, so these shapes are known */
	bool preparing;		/* a thread works on it: OPEN or BIND */
	uint32_t epoch;
	struct rvl_engine *engine;
	struct rivulet_exec *exec;
	struct rvl_run *run;	/* queued or under way, or NULL */
	uint64_t arena_bytes;	/* charged */
	uint32_t tensors;
	uint64_t *bound;	/* bytes charged per tensor; 0: not bound */
};

/** rvl_model_add() - give a program to a session and answer its LOAD */
void rvl_model_add(struct rvl_session *s, const struct rvl_compile *c, struct rvl_program *p);
void rvl_model_unload(struct rvl_model *model);
/** rvl_instance_open() - OPEN; 0: a thread prepares the instance, and it is answered later */
int rvl_instance_open(struct rvl_model *model, const struct rivulet_msg_open *req, struct rvl_text *err);
/** rvl_instance_bind() - BIND; the same. @sent: its descriptor is taken over if this succeeds */
int rvl_instance_bind(struct rvl_instance *x, const struct rivulet_msg_bind *req,
		      struct rvl_sent *sent, struct rvl_text *err);
/**
 * rvl_instance_shape() - the dimensions of a tensor as the last run left it; @dim: RIVULET_MAX_DIMS
 * @tensor: number in the program. Returns their number, -EBUSY during a run, -ENODATA unless the last
 * run has ended well, -ENODEV: the shape went with the device.
 */
int rvl_instance_shape(const struct rvl_instance *x, uint32_t tensor, uint64_t *dim,
		       struct rvl_text *err);
void rvl_instance_close(struct rvl_instance *x);
/**
 * rvl_session_detach() - the device was removed: end runs with -ENODEV and release all of the
 * device
 */
void rvl_session_detach(struct rvl_session *s);
/** rvl_instance_run_ended() - the scheduler has freed the instance's run */
void rvl_instance_run_ended(struct rvl_instance *x);

#endif

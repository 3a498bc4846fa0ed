/* SPDX-License-Identifier: MIT */
/* LOAD: models on their way to a program, and the worker processes that compile them. */
#ifndef RVL_COMPILE_H
#define RVL_COMPILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "cache.h"
#include "offload.h"
#include "rivulet_proto.h"
#include "util.h"
#include "worker.h"

struct rvl_manager;
struct rvl_sent;
struct rvl_session;
struct rvl_user;

enum rvl_compile_state {
	RVL_COMPILE_WAITING,	/* for a worker */
	RVL_COMPILE_WORKING,	/* in a worker process */
	RVL_COMPILE_CHECKING,	/* its program is read by a thread */
};

/** struct rvl_compile - one LOAD under way */
struct rvl_compile {
	struct rvl_list link;
	struct rvl_manager *m;
	struct rvl_session *session;	/* NULL: the session ended */
	struct rvl_user *user;
	uint32_t serial;		/* of the request */
	struct rivulet_msg_load req;
	struct rvl_key key;
	enum rvl_compile_state state;
	int model_fd, program_fd, control_fd;
	pid_t pid;			/* 0: no worker */
	uint64_t started;
	bool hashed, timed_out;
	struct rvl_program *hit;
	struct rvl_worker_result result;
	bool have_result;
	sd_event_source *child, *control, *timer;
	struct rvl_work work;		/* CHECKING: program_fd becomes program, or error */
	struct rvl_program *program;
	int error;
	struct rvl_text text;
};

struct rvl_compiler {
	struct rvl_list queue;		/* waiting and working */
	uint32_t working;
	const char *exe;		/* what to start as worker */
	uint64_t compiled, refused, died;
};

/**
 * rvl_compile_submit() - queue a LOAD, which is answered when it is done
 * @sent: its descriptor is taken over if this succeeds; the caller answers an error
 */
int rvl_compile_submit(struct rvl_session *s, const struct rivulet_msg_load *req,
		       struct rvl_sent *sent, struct rvl_text *err);
/** rvl_compile_abandon() - a session ends: kill its worker, drop its waiting LOADs */
void rvl_compile_abandon(struct rvl_manager *m, struct rvl_session *s);
/** rvl_compile_kill() - kill all workers; rvl_compile_stop() - reap them and free what no thread works on */
void rvl_compile_kill(struct rvl_manager *m);
void rvl_compile_stop(struct rvl_manager *m);

#endif

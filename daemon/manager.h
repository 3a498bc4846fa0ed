/* SPDX-License-Identifier: MIT */
/*
 * Who owns what in the daemon:
 *
 *   manager ─┬─ device      accel.h: the accel node or the linked model, as it comes and goes
 *            ├─ users       user.h: one per uid with something open: what it uses of its limits
 *            ├─ cache       cache.h: compiled programs, shared by content
 *            ├─ compiler    compile.h: models being loaded, and the processes that do it
 *            ├─ sched       scheduler.h: runs queued and under way
 *            └─ sessions    connection.h ────────┬─ engine     a runtime: one DRM file
 *                                               ├─ models     a program and its image in the engine
 *                                               └─ instances  instance.h: bindings, working memory ── run
 *
 * One thread runs all of this on one sd-event loop. It never blocks, and it does no work whose amount
 * a client decides: worker processes compile, the runtime's workers execute, and the threads of
 * offload.h prepare and release. All of them only hand their results to the loop. An object that is
 * dropped while work for it is under way is marked dead, and the completion of that work frees it.
 */
#ifndef RVL_MANAGER_H
#define RVL_MANAGER_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "accel.h"
#include "cache.h"
#include "compile.h"
#include "config.h"
#include "listener.h"
#include "loop.h"
#include "offload.h"
#include "power.h"
#include "scheduler.h"
#include "util.h"

struct rvl_metrics;

struct rvl_manager {
	sd_event *event;
	struct rvl_config cfg;
	const char *config_root;
	const char *node;	/* of the command line, instead of Node= */
	uint64_t started;
	uint64_t refused_sessions, protocol_errors;
	struct rvl_list users;
	struct rvl_list sessions;
	uint32_t n_sessions;
	struct rvl_list refusals;	/* connections above a limit */
	uint32_t n_refusals;
	struct rvl_list receivers;	/* of all users; see intake.h */
	struct rvl_list endings;	/* processes that end with a connection; see intake.c */
	uint32_t n_endings;
	bool stopping;
	struct rvl_listener listen;
	struct rvl_device device;
	struct rvl_cache cache;
	struct rvl_compiler compiler;
	struct rvl_sched sched;
	struct rvl_power power;
	struct rvl_metrics *metrics;
	struct rvl_loop loop;
	struct rvl_offload loader;	/* prepares programs, models and bindings, user by user */
	struct rvl_offload closer;	/* releases them, and what clients sent */
};

/** struct rvl_options - of the command line */
struct rvl_options {
	const char *config_root;	/* "" or a directory that stands for / */
	const char *node;		/* NULL: as configured */
	const char *exe;		/* this program, to start workers */
	const char *sys;		/* NULL: /sys */
};

/** rvl_manager_block_signals() - block the signals that the loop handles, before any thread is created */
int rvl_manager_block_signals(void);
/**
 * rvl_manager_new() - configuration read, device looked for, loop ready
 * @listen_fd: a listening SOCK_SEQPACKET socket, taken over
 */
int rvl_manager_new(const struct rvl_options *opt, int listen_fd, struct rvl_manager **out,
		    struct rvl_text *err);
/** rvl_manager_run() - until SIGTERM or SIGINT */
int rvl_manager_run(struct rvl_manager *m);
/**
 * rvl_manager_free() - end all that is under way, within StopTimeout=
 * A step of a run, or a work of a thread, cannot be interrupted. If one takes longer, this logs it and
 * ends the process, after the device's limits were restored.
 */
struct rvl_manager *rvl_manager_free(struct rvl_manager *m);
/** rvl_manager_notify() - update STATUS= in systemd */
void rvl_manager_notify(struct rvl_manager *m);

#endif

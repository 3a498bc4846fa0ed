/* SPDX-License-Identifier: MIT */
/*
 * Who owns what in the daemon:
 *
 *   manager ─┬─ device      the accel node or the linked model, as it comes and goes
 *            ├─ users       one per uid with something open: what it uses of its limits
 *            ├─ cache       compiled programs, shared by content
 *            ├─ compiler    models being loaded, and the processes that do it
 *            ├─ sched       runs queued and under way
 *            └─ sessions    one per connection ─┬─ engine     a runtime: one DRM file
 *                                               ├─ models     a program and its image in the engine
 *                                               └─ instances  bindings and working memory ── run
 *
 * One thread runs all of this on one sd-event loop. It never blocks, and it does no work whose amount
 * a client decides: worker processes compile, the runtime's workers execute, and the threads of
 * offload.h prepare and release. All of them only hand their results to the loop. An object that is
 * dropped while work for it is under way is marked dead, and the completion of that work frees it.
 */
#ifndef RVL_MANAGER_H
#define RVL_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-device.h>
#include <systemd/sd-event.h>

#include "config.h"
#include "fair.h"
#include "intake.h"
#include "listener.h"
#include "log.h"
#include "loop.h"
#include "offload.h"
#include "peak.h"
#include "power.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"
#include "rivulet_runtime.h"
#include "util.h"
#include "worker.h"

struct rvl_manager;
struct rvl_session;

/* ---- users (user.c) ---- */

/**
 * struct rvl_user - what one uid uses
 * Freed when refs is 0, but kept while its share is in debt: a user that closes its connections and
 * opens new ones must not start anew.
 */
struct rvl_user {
	struct rvl_list link;
	struct rvl_manager *m;
	uid_t uid;
	uint32_t refs;	/* sessions and LOADs under way */
	uint32_t sessions, models, instances, runs, compiles;
	uint32_t under_way;	/* runs that take a slot of ParallelRuns= */
	uint32_t overdue;	/* runs that were cancelled by MaxRunSec= and have not ended */
	bool compiling;	/* a worker process runs for this user, or its program is checked */
	uint64_t compiled;	/* when the last worker process for this user started */
	uint64_t bytes;
	struct rvl_rate log;	/* journal entries that its clients cause */
	struct rvl_share share;	/* of the device's time */
	struct rvl_work_owner work;	/* of the loader */
	struct rvl_work_owner release;	/* of the closer */
	struct rvl_intake intake;
};

/** rvl_user_get() - find or create a user and take a reference; NULL: out of memory */
struct rvl_user *rvl_user_get(struct rvl_manager *m, uid_t uid);
struct rvl_user *rvl_user_put(struct rvl_user *u);
/** rvl_users_clear() - forget also those that are kept for their debts; the daemon ends */
void rvl_users_clear(struct rvl_manager *m);
/** rvl_user_charge() - take @bytes of MemoryPerUser=, or -EDQUOT with both numbers in @err */
int rvl_user_charge(struct rvl_manager *m, struct rvl_user *u, uint64_t bytes, const char *what,
		    struct rvl_text *err);
/** rvl_user_count() - increment @counter, or return -EDQUOT if it has reached @limit, which @key names */
int rvl_user_count(uint32_t *counter, uint64_t limit, const char *key, struct rvl_text *err);

/* ---- programs (cache.c) ---- */

/** struct rvl_key - all inputs of a compilation; compared as bytes, so it is zeroed before it is filled */
struct rvl_key {
	uint8_t sha256[32];
	struct rivulet_target target;
	struct rivulet_board board;	/* input of the compiler's cost model; padding is zero */
	uint64_t batch, symbol;
	uint32_t flags;	/* of LOAD, without WANT_FD */
	uint32_t rsvd;
};

/** struct rvl_totals - sums over runs */
struct rvl_totals {
	uint64_t runs, failed, cancelled, late, refused;
	uint64_t queue_ns, run_ns, npu_ns, cpu_ns;
	uint64_t cycles, energy_pj, macs;
};

/** struct rvl_level_stat - runs of one model whose slowest job was at one level */
struct rvl_level_stat {
	uint64_t runs, late;
	uint64_t run_ns, npu_ns, energy_pj;
	uint64_t measured_ns;	/* moving average of start to end; 0: never ran here */
	struct rvl_peak longest;	/* ns that a run kept the device; epochs of RVL_PEAK_RUNS */
};

#define RVL_PEAK_RUNS 64

/** struct rvl_program - a compiled model; immutable but for its statistics */
struct rvl_program {
	struct rvl_list link;	/* in the cache, most recently used last */
	struct rvl_work work;	/* of its release */
	uint32_t refs;		/* models that use it; 0: idle */
	struct rvl_cache *cache;
	struct rvl_key key;
	int fd;			/* sealed memfd, opened read only */
	const struct rivulet_program *file;	/* mapped */
	size_t size;
	char name[RIVULET_NAME_MAX];	/* of the first LOAD */
	uid_t owner;			/* who loaded it last */
	bool visible;			/* see rvl_status_mark() */
	struct rvl_holding *holding;	/* of the owner, while it is idle */
	uint32_t npu_steps, cpu_steps;
	uint64_t macs, cycles;	/* cycles at the highest level */
	uint64_t compile_ns;
	uint32_t levels;	/* bit n: can run at level n */
	uint64_t cycles_at[RIVULET_LEVELS];	/* estimated */
	struct rvl_level_stat at[RIVULET_LEVELS];
	struct rvl_totals totals;
};

/** struct rvl_holding - the idle programs of one user, the last who had them loaded */
struct rvl_holding {
	struct rvl_list link;
	uid_t uid;
	uint64_t bytes;
	uint32_t programs;
};

/*
 * Idle programs, those with refs 0, stay within a number of bytes and a number of programs, since
 * each of them also costs a file descriptor and a mapping. When one has to go, it is the least
 * recently used one of the user who holds the largest share, so a user who loads many models evicts
 * only their own.
 */
struct rvl_cache {
	struct rvl_list programs;	/* loaded and idle, least recently used first */
	struct rvl_list holdings;
	uint64_t idle_bytes;		/* whole pages */
	uint32_t idle_programs;
	uint64_t max_bytes, max_programs;
	uint64_t hits, misses, evictions;
	struct rvl_offload *closer;	/* releases programs; NULL: the caller's thread does */
};

void rvl_cache_init(struct rvl_cache *c, uint64_t max_bytes, uint64_t max_programs);
void rvl_cache_clear(struct rvl_cache *c);
/** rvl_cache_limit() - new limits of idle programs; evicts at once */
void rvl_cache_limit(struct rvl_cache *c, uint64_t max_bytes, uint64_t max_programs);
/** rvl_cache_find() - look up a program and take a reference; NULL: not cached */
struct rvl_program *rvl_cache_find(struct rvl_cache *c, const struct rvl_key *key);
/**
 * rvl_program_read() - check and seal what a worker wrote; the caller gets the only reference
 * May be called by any thread. @memfd: taken over, also on error. -EINVAL: not a valid program (a
 * worker is not trusted).
 */
int rvl_program_read(const struct rvl_key *key, const char *name, int memfd,
		     struct rvl_program **out, struct rvl_text *err);
/**
 * rvl_cache_insert() - keep a program; returns it, or the one that the cache has for this key
 * @p: taken over
 */
struct rvl_program *rvl_cache_insert(struct rvl_cache *c, struct rvl_program *p);
/** rvl_cache_forget_times() - another board arrived: times measured on the last one are void */
void rvl_cache_forget_times(struct rvl_cache *c);
struct rvl_program *rvl_program_put(struct rvl_program *p);
/* ---- times and levels of a program (estimate.c) ---- */

/** struct rvl_override - 1 + the level whose variant or clock is used at all levels; 0: each level's own */
struct rvl_override {
	uint32_t variant, clock;
};
/**
 * rvl_program_expected_ns() - the usual time of one run at @level of @board
 * As measured there; else as measured elsewhere, with what the compiler reckons the level costs;
 * else as the compiler reckons. 0: @board has no such level (no device).
 */
uint64_t rvl_program_expected_ns(const struct rvl_program *p, const struct rivulet_board *board,
				 uint32_t level, struct rvl_override over);
/**
 * rvl_program_worst_ns() - the time that one run takes at most at @level of @board
 * An eighth more than the longest of the recent runs there; else than the expected time.
 */
uint64_t rvl_program_worst_ns(const struct rvl_program *p, const struct rivulet_board *board,
			      uint32_t level, struct rvl_override over);
/**
 * rvl_program_promised_ns() - the time that admission counts for one run at @level of @board
 * The worst time. A program that has run at no level has only the estimate of its user's file, and
 * counts at least @any, the longest recent run of any program.
 */
uint64_t rvl_program_promised_ns(const struct rvl_program *p, const struct rivulet_board *board,
				 uint32_t level, struct rvl_override over, uint64_t any);
/**
 * rvl_program_accurate() - levels from which on upward the program's expected accuracy is @ppm
 * Returns a mask within @p->levels; 0: no level reaches it, or it is not known.
 */
uint32_t rvl_program_accurate(const struct rvl_program *p, uint32_t ppm);

/* ---- device (device.c) ---- */

/** struct rvl_engine - a runtime on the event loop; one per session, or one for all on the model */
struct rvl_engine {
	uint32_t refs;
	struct rvl_device *device;
	struct rivulet_runtime *rt;
	sd_event_source *source;
};

struct rvl_device {
	struct rvl_manager *m;
	struct rvl_node wanted;		/* Node= */
	bool present, sim;
	uint32_t epoch;			/* number of arrivals; engines of earlier epochs are stale */
	char node[RIVULET_NAME_MAX];	/* "" when absent */
	char syspath[256];
	struct rivulet_board board;
	struct rivulet_target target;
	struct rivulet_workers *pool;
	struct rvl_engine *shared;	/* the model's */
	sd_device_monitor *monitor;
	sd_event_source *retry;		/* enumerates again after a node could not be opened */
	unsigned int tries;
	struct rivulet_level_total past[RIVULET_LEVELS];	/* of engines that are gone */
};

/** rvl_device_start() - enumerate and monitor devices; it is no error if there is none */
int rvl_device_start(struct rvl_manager *m, struct rvl_text *err);
void rvl_device_stop(struct rvl_device *d);
/** rvl_device_lost() - the driver reported -ENODEV before udev announced the removal */
void rvl_device_lost(struct rvl_device *d);
/** rvl_device_engine() - a runtime for one session; -ENODEV without a device */
int rvl_device_engine(struct rvl_device *d, struct rvl_engine **out, struct rvl_text *err);
struct rvl_engine *rvl_engine_put(struct rvl_engine *e);
/** rvl_device_key() - the parts of a program's key that the device decides */
void rvl_device_key(const struct rvl_device *d, struct rvl_key *key);
/** rvl_device_expected_ns() - of one run at the highest level; 0 without a device */
uint64_t rvl_device_expected_ns(const struct rvl_device *d, const struct rvl_program *p);

/* ---- compiler (compile.c) ---- */

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

/* ---- sessions (session.c, conn.c, request.c, instance.c) ---- */

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
	bool shapes;		/* the client asks for shapes that only a run knows */
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
/** rvl_session_peer - who is at the other end: SO_PEERCRED; tests without two users pretend them */
extern int (*rvl_session_peer)(int fd, struct ucred *peer);
/** rvl_session_uid() - of the user at the other end */
uid_t rvl_session_uid(int fd);
/** rvl_session_new() - @fd: an accepted socket, taken over. Above a limit its first message is refused */
int rvl_session_new(struct rvl_manager *m, int fd);
/** rvl_refusals_clear() - close all connections above a limit */
void rvl_refusals_clear(struct rvl_manager *m);
/** rvl_session_end() - close the connection; the object is freed after its last run and pending work */
void rvl_session_end(struct rvl_session *s);
/** rvl_session_reap() - free a closed session once nothing of it is under way */
void rvl_session_reap(struct rvl_session *s);
/** rvl_session_unblock() - one pending work is done; after the last one, requests are read again */
void rvl_session_unblock(struct rvl_session *s);
/** rvl_session_acknowledge() - send the reply without a body to request @h when no work is pending */
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
/** rvl_update_events() - poll for writing while answers are queued, for reading unless work is pending */
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
/** rvl_device_event() - tell every session that the device came or went */
void rvl_device_event(struct rvl_manager *m);

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
 * run has ended well.
 */
int rvl_instance_shape(const struct rvl_instance *x, uint32_t tensor, uint64_t *dim,
		       struct rvl_text *err);
void rvl_instance_close(struct rvl_instance *x);
/** rvl_session_detach() - the device was removed: end runs with -ENODEV and release all of the device */
void rvl_session_detach(struct rvl_session *s);
/** rvl_instance_run_ended() - the scheduler has freed the instance's run */
void rvl_instance_run_ended(struct rvl_instance *x);

/* ---- scheduler (sched.c; fair.h has the order) ---- */

struct rvl_run {
	struct rvl_list link;	/* among those under way, or ended */
	struct rvl_instance *instance;
	struct rvl_user *user;
	uint32_t serial;
	uint32_t levels;	/* that it can run at */
	bool demands;		/* of a user of PolicyUsers=: the level is one of these while it is admitted */
	uint32_t min_level;	/* lower ones wait in the device until it has run */
	uint32_t variant;	/* 1 + level whose commands it runs; 0: the device's level's */
	struct rvl_slot slot;
	bool running, ended;
	int error;		/* 0: as the runtime says; or why it was given up */
	struct rvl_text text;	/* with @error */
	uint64_t started;
	uint64_t end_by;	/* MaxRunSec= after @started */
	bool overdue;		/* was cancelled at @end_by; takes no slot */
};

struct rvl_sched {
	struct rvl_fair fair;		/* queued runs, in it by their slots */
	struct rvl_list running;
	struct rvl_list ended;		/* called back, not yet answered */
	uint32_t queued;
	uint32_t n_running;		/* without those that are overdue */
	uint32_t gone_epoch;		/* a run ended with -ENODEV on this one; 0: none did */
	uint64_t last_end;		/* when a run ended last */
	struct rvl_peak longest;	/* ns that any run kept the device, by minutes */
	sd_event_source *kick;		/* answers and starts runs, not in the runtime's callbacks */
	sd_event_source *timer;		/* kicks when an idle device has waited for a user long enough */
	sd_event_source *limit;		/* at the earliest end_by */
	struct rvl_totals totals;
};

/** rvl_sched_submit() - queue a run, or say why not */
int rvl_sched_submit(struct rvl_instance *x, const struct rivulet_msg_run *req,
		     struct rvl_text *err);
/** rvl_sched_cancel() - end a run by @why, -ECANCELED or -ENODEV; it is answered and freed later */
void rvl_sched_cancel(struct rvl_run *run, int why, const char *text);
int rvl_sched_start(struct rvl_manager *m);
/** rvl_sched_stop() - cancel all runs and wait for them until @deadline; whether all have ended */
bool rvl_sched_stop(struct rvl_manager *m, uint64_t deadline);

/** rvl_power_event() - tell one session the level, if it wants to know */
void rvl_power_event(const struct rvl_power *pw, struct rvl_session *s);

/* ---- the whole (manager.c, status.c, metrics.c) ---- */

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

/** rvl_status_fd() - JSON in a sealed memfd; users other than root see only their own sessions */
int rvl_status_fd(struct rvl_manager *m, uid_t uid, int *fd, uint64_t *size);
/** rvl_status_mark() - set visible in the programs that STATUS and metrics show to @uid */
void rvl_status_mark(struct rvl_manager *m, uid_t uid);
/** rvl_level_total() - work at one level, of engines that are there and that were */
struct rivulet_level_total rvl_level_total(const struct rvl_manager *m, uint32_t level);

/** rvl_metrics_start() - OpenMetrics on a Unix socket; NULL: switched off, or it cannot be made */
struct rvl_metrics *rvl_metrics_start(struct rvl_manager *m);
struct rvl_metrics *rvl_metrics_stop(struct rvl_metrics *x);

#endif

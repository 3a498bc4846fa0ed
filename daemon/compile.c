// SPDX-License-Identifier: MIT
/*
 * LOAD: a queue of models and a few worker processes, at most one per user. A worker is not
 * trusted, with one exception: the hash of the file, which it sends before it has parsed any of its
 * bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "accel.h"
#include "cache.h"
#include "child.h"
#include "compile.h"
#include "config.h"
#include "connection.h"
#include "instance.h"
#include "intake.h"
#include "log.h"
#include "manager.h"
#include "offload.h"
#include "receiver.h"
#include "rivulet_proto.h"
#include "user.h"
#include "util.h"
#include "worker.h"

#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static void kick(struct rvl_manager *m);

/* Releases all that belongs to a worker process, so that the compile can start again. */
static void drop_worker(struct rvl_compile *c)
{
	c->child = sd_event_source_disable_unref(c->child);
	c->control = sd_event_source_disable_unref(c->control);
	c->timer = sd_event_source_disable_unref(c->timer);
	c->program_fd = rvl_offload_close(&c->m->closer, c->program_fd);
	c->control_fd = rvl_close(c->control_fd);
	c->hit = rvl_program_put(c->hit);
	c->pid = 0;
	c->hashed = c->have_result = c->timed_out = false;
}

static void compile_free(struct rvl_compile *c)
{
	drop_worker(c);
	rvl_offload_close(&c->m->closer, c->model_fd);
	rvl_list_del(&c->link);
	c->user->compiles--;
	c->user->bytes -= c->req.size;
	rvl_user_put(c->user);
	free(c);
}

static struct rvl_about about(const struct rvl_compile *c)
{
	struct rvl_about a = { 0 };

	if (c->session)
		a = rvl_session_about(c->session);
	a.model = c->req.name;
	return a;
}

static void refuse(struct rvl_compile *c, enum rvl_log_id id, int error, const char *text)
{
	struct rvl_about a = about(c);

	c->m->compiler.refused++;
	rvl_log(id == RVL_LOG_COMPILER_DIED ? LOG_WARNING : LOG_INFO, id, &a,
		"model \"%s\" refused: %s", c->req.name, text);
	if (c->session)
		rvl_send_error(c->session, RIVULET_MSG_LOAD, c->serial, error, text);
}

/* ---- the end of a worker ---- */

static void kill_worker(struct rvl_compile *c)
{
	if (c->pid > 0)
		kill(c->pid, SIGKILL);
}

static void explain_death(const struct rvl_compile *c, const siginfo_t *si, struct rvl_text *t)
{
	const struct rvl_config *cfg = &c->m->cfg;

	if (si->si_code == CLD_EXITED)
		rvl_say(t, 0, "the compiler ended with status %d without an answer", si->si_status);
	else if (c->timed_out || si->si_status == SIGXCPU)
		rvl_say(t, 0, "compiling took more than TimeMax=%llu s",
			(unsigned long long)cfg->worker_seconds);
	else if (si->si_status == SIGXFSZ)
		rvl_say(t, 0, "the program is larger than ProgramSizeMax=%llu",
			(unsigned long long)cfg->program_size);
	else if (si->si_status == SIGSYS)
		rvl_say(t, 0, "the compiler made a forbidden system call and was stopped");
	else
		rvl_say(t, 0, "the compiler crashed (signal %d, %s)", si->si_status,
			strsignal(si->si_status));
}

static int death_errno(const struct rvl_compile *c, const siginfo_t *si)
{
	if (c->timed_out || si->si_status == SIGXCPU)
		return -ETIMEDOUT;
	return si->si_status == SIGXFSZ ? -E2BIG : -EFAULT;
}

/* Takes over c->program. */
static void accept_program(struct rvl_compile *c)
{
	struct rvl_manager *m = c->m;
	struct rvl_about a = about(c);
	struct rvl_program *p;

	m->compiler.compiled++;
	c->program->compile_ns = rvl_now() - c->started;
	p = rvl_cache_insert(&m->cache, c->program);
	rvl_log(LOG_INFO, RVL_LOG_MODEL_LOADED, &a,
		"model \"%s\" compiled in %llu ms: %zu bytes, %u NPU steps, %u CPU steps",
		c->req.name, (unsigned long long)(p->compile_ns / NSEC_PER_MSEC), p->size,
		p->npu_steps, p->cpu_steps);
	if (c->session)
		rvl_model_add(c->session, c, p);
	rvl_program_put(p);
}

static void check_work(struct rvl_work *w)
{
	struct rvl_compile *c = rvl_container(w, struct rvl_compile, work);

	c->error = rvl_program_read(&c->key, c->req.name, c->program_fd, &c->program, &c->text);
}

static void check_done(struct rvl_work *w)
{
	struct rvl_compile *c = rvl_container(w, struct rvl_compile, work);
	struct rvl_manager *m = c->m;

	c->program_fd = -1;
	c->user->compiling = false;
	if (!c->error) {
		accept_program(c);
	} else {
		m->compiler.died++;
		refuse(c, RVL_LOG_COMPILER_DIED, c->error, c->text.s);
	}
	compile_free(c);
	kick(m);
}

static void check_program(struct rvl_compile *c)
{
	c->state = RVL_COMPILE_CHECKING;
	/*
	 * The user's next load may be of the same model, and then finds the program in the cache.
	 */
	c->user->compiling = true;
	c->work = (struct rvl_work){ .owner = &c->user->work, .run = check_work, .done = check_done };
	rvl_offload_submit(&c->m->loader, &c->work);
}

static void take_result(struct rvl_compile *c, const struct rvl_worker_result *res)
{
	char text[sizeof(res->text)];

	c->result = *res;
	c->have_result = true;
	memcpy(text, res->text, sizeof(text));
	text[sizeof(text) - 1] = 0;
	rivulet_proto_name(c->result.text, sizeof(c->result.text), text);
}

/* The first message of a worker. If the cache has the program, the worker is killed. */
static void take_hash(struct rvl_compile *c, const struct rvl_worker_hash *hash)
{
	const uint32_t go = RVL_WORKER_GO;

	c->hashed = true;
	memcpy(c->key.sha256, hash->sha256, sizeof(c->key.sha256));
	c->hit = rvl_cache_find(&c->m->cache, &c->key);
	if (c->hit || send(c->control_fd, &go, sizeof(go), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		kill_worker(c);
}

/* Reads one message. Its length is its type. A worker that breaks the order is killed. */
static void read_control(struct rvl_compile *c)
{
	union {
		struct rvl_worker_hash hash;
		struct rvl_worker_result result;
	} u;
	ssize_t n = recv(c->control_fd, &u, sizeof(u), MSG_DONTWAIT | MSG_TRUNC);

	if (n == sizeof(u.result) && !c->have_result)
		take_result(c, &u.result);
	else if (n == sizeof(u.hash) && !c->hashed)
		take_hash(c, &u.hash);
	else if (n > 0)
		kill_worker(c);
}

/* Whether the program is for the board that is present. */
static bool is_current(const struct rvl_compile *c)
{
	struct rvl_key now = c->key;

	rvl_device_key(&c->m->device, &now);
	return c->m->device.present && !memcmp(&now, &c->key, sizeof(now));
}

/*
 * Returns false if the compile goes on: its program is checked, or it starts again for another
 * board.
 */
static bool finish(struct rvl_compile *c, const siginfo_t *si)
{
	struct rvl_text t;

	/* The worker's last message may still be in the socket. */
	if (!c->have_result && !c->hit)
		read_control(c);
	if ((c->hit || c->have_result) && !is_current(c)) {
		drop_worker(c);
		c->state = RVL_COMPILE_WAITING;
		return false;
	}
	if (c->hit) {
		rvl_model_add(c->session, c, c->hit);
	} else if (!c->have_result) {
		c->m->compiler.died++;
		explain_death(c, si, &t);
		refuse(c, RVL_LOG_COMPILER_DIED, death_errno(c, si), t.s);
	} else if (c->result.error) {
		refuse(c, RVL_LOG_MODEL_REFUSED,
		       c->result.error < 0 && c->result.error >= -4095 ? c->result.error : -EINVAL,
		       c->result.text);
	} else {
		check_program(c);
		return false;
	}
	return true;
}

static int on_child(sd_event_source *source, const siginfo_t *si, void *data)
{
	struct rvl_compile *c = data;
	struct rvl_manager *m = c->m;

	(void)source;
	m->compiler.working--;
	c->user->compiling = false;
	c->pid = 0;
	if (!c->session || finish(c, si))
		compile_free(c);
	kick(m);
	return 0;
}

/* ---- a worker at work ---- */

static int on_timer(sd_event_source *source, uint64_t usec, void *data)
{
	struct rvl_compile *c = data;

	(void)source;
	(void)usec;
	c->timed_out = true;
	kill_worker(c);
	return 0;
}

static int on_control(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct rvl_compile *c = data;

	(void)fd;
	if (events & EPOLLIN)
		read_control(c);
	/* No further message is expected; the source of the child reports the end. */
	if (c->hit || c->have_result || events & (EPOLLHUP | EPOLLERR))
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

static void fill_job(const struct rvl_compile *c, struct rvl_worker_job *job)
{
	const struct rvl_config *cfg = &c->m->cfg;

	memset(job, 0, sizeof(*job));
	job->board = c->m->device.board;
	job->model_size = c->req.size;
	job->batch = c->req.batch;
	job->symbol = c->req.symbol;
	job->flags = c->req.flags;
	job->memory = cfg->worker_memory;
	job->seconds = cfg->worker_seconds;
	job->program_max = cfg->program_size;
}

static int watch_worker(struct rvl_compile *c)
{
	sd_event *ev = c->m->event;
	uint64_t usec = c->m->cfg.worker_seconds * USEC_PER_SEC;
	int r = sd_event_add_child(ev, &c->child, c->pid, WEXITED, on_child, c);

	if (r < 0)
		return r;
	r = sd_event_add_io(ev, &c->control, c->control_fd, EPOLLIN, on_control, c);
	if (r >= 0)
		r = sd_event_add_time_relative(ev, &c->timer, CLOCK_MONOTONIC, usec, 0, on_timer,
					       c);
	/* The source of the child exists, so the killed worker is reaped by it. */
	if (r < 0)
		kill_worker(c);
	return 0;
}

static int spawn(struct rvl_compile *c, int control)
{
	const int fd[] = { c->model_fd, c->program_fd, control };
	int r = rvl_child_start(c->m->compiler.exe, "--worker", fd, ARRAY_SIZE(fd), &c->pid);

	if (r)
		c->pid = 0;
	return r;
}

static int start(struct rvl_compile *c)
{
	struct rvl_worker_job job;
	int pair[2] = { -1, -1 }, r;

	if (!c->m->device.present)
		return -ENODEV;
	rvl_device_key(&c->m->device, &c->key);
	fill_job(c, &job);
	c->program_fd = memfd_create("rivulet-program", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (c->program_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	c->control_fd = pair[0];
	r = send(pair[0], &job, sizeof(job), MSG_NOSIGNAL) == sizeof(job) ? 0 : -errno;
	r = r ?: spawn(c, pair[1]);
	close(pair[1]);
	if (r)
		return r;
	r = watch_worker(c);
	if (r < 0) {
		kill_worker(c);
		waitpid(c->pid, NULL, 0);
		return r;
	}
	c->started = rvl_now();
	c->state = RVL_COMPILE_WORKING;
	c->user->compiling = true;
	c->user->compiled = c->started;
	c->m->compiler.working++;
	return 0;
}

/*
 * The next load to start: the first one of the user whose last compilation started longest ago, so
 * that a user who queues many loads does not delay the others' by more than one.
 */
static struct rvl_compile *next_load(const struct rvl_manager *m)
{
	struct rvl_compile *c, *next = NULL;

	rvl_list_each(c, &m->compiler.queue, link) {
		if (c->state != RVL_COMPILE_WAITING || c->user->compiling)
			continue;
		if (!next || c->user->compiled < next->user->compiled)
			next = c;
	}
	return next;
}

static void kick(struct rvl_manager *m)
{
	struct rvl_compile *c;
	struct rvl_text t;
	int r;

	while (m->compiler.working < m->cfg.workers && (c = next_load(m))) {
		r = start(c);
		if (!r)
			continue;
		rvl_say(&t, 0, "cannot start the compiler: %s", strerror(-r));
		refuse(c, RVL_LOG_COMPILER_DIED, r, t.s);
		compile_free(c);
	}
}

/* ---- requests ---- */

static int check_file(const struct rvl_file *f, const struct rivulet_msg_load *req,
		      const struct rvl_config *cfg, struct rvl_text *err)
{
	if (f->kind != RVL_FILE_MEMFD || (f->seals & SEALS_NEEDED) != SEALS_NEEDED)
		return rvl_say(err, -EPERM,
			       "a model comes as a memfd sealed F_SEAL_SHRINK|GROW|WRITE");
	if (req->size > cfg->model_size)
		return rvl_say(err, -E2BIG, "the model has %llu bytes, ModelSizeMax=%llu",
			       (unsigned long long)req->size, (unsigned long long)cfg->model_size);
	if (!req->size || req->size > f->size)
		return rvl_say(err, -EINVAL, "the model shall have %llu bytes, the file has %llu",
			       (unsigned long long)req->size, (unsigned long long)f->size);
	return 0;
}

static int check_request(struct rvl_manager *m, const struct rivulet_msg_load *req,
			 struct rvl_text *err)
{
	if (req->flags & ~RIVULET_LOAD_FLAGS)
		return rvl_say(err, -EINVAL, "unknown flags 0x%x", req->flags);
	if (req->batch > INT32_MAX || req->symbol > INT32_MAX)
		return rvl_say(err, -EINVAL, "batch %llu or symbol %llu is above %d",
			       (unsigned long long)req->batch, (unsigned long long)req->symbol,
			       INT32_MAX);
	if (!m->device.present)
		return rvl_say(err, -ENODEV, "no device is there to compile for");
	return 0;
}

/* start() adds the board, which may be exchanged while the LOAD waits. */
static void make_key(struct rvl_compile *c)
{
	memset(&c->key, 0, sizeof(c->key));
	c->key.batch = c->req.batch;
	c->key.symbol = c->req.symbol;
	c->key.flags = c->req.flags & ~RIVULET_LOAD_WANT_FD;
}

static int charge(struct rvl_session *s, const struct rivulet_msg_load *req, struct rvl_text *err)
{
	struct rvl_user *u = s->user;
	int r = rvl_user_count(&u->compiles, s->m->cfg.user_compiles, "CompilesPerUser", err);

	if (r)
		return r;
	r = rvl_user_charge(s->m, u, req->size, "the model file", err);
	if (r)
		u->compiles--;
	return r;
}

int rvl_compile_submit(struct rvl_session *s, const struct rivulet_msg_load *req,
		       struct rvl_sent *sent, struct rvl_text *err)
{
	struct rvl_manager *m = s->m;
	struct rvl_compile *c = calloc(1, sizeof(*c));
	int r = c ? 0 : rvl_say(err, -ENOMEM, "out of memory");

	r = r ?: check_request(m, req, err);
	r = r ?: check_file(&sent->file, req, &m->cfg, err);
	r = r ?: charge(s, req, err);
	if (r) {
		free(c);
		return r;
	}
	c->m = m;
	c->session = s;
	c->user = s->user;
	c->user->refs++;
	c->serial = req->h.serial;
	c->req = *req;
	c->model_fd = rvl_take_fd(&sent->fd);
	c->program_fd = c->control_fd = -1;
	make_key(c);
	rvl_list_add_tail(&m->compiler.queue, &c->link);
	kick(m);
	return 0;
}

void rvl_compile_abandon(struct rvl_manager *m, struct rvl_session *s)
{
	struct rvl_compile *c;

	rvl_list_each(c, &m->compiler.queue, link) {
		if (c->session != s)
			continue;
		c->session = NULL;
		if (c->state == RVL_COMPILE_WORKING)
			kill_worker(c);
		else if (c->state == RVL_COMPILE_WAITING)
			compile_free(c);
	}
}

void rvl_compile_kill(struct rvl_manager *m)
{
	struct rvl_compile *c;

	rvl_list_each(c, &m->compiler.queue, link)
		kill_worker(c);
}

void rvl_compile_stop(struct rvl_manager *m)
{
	struct rvl_compile *c;

	rvl_list_each(c, &m->compiler.queue, link) {
		if (c->pid)
			waitpid(c->pid, NULL, 0);
		compile_free(c);
	}
}

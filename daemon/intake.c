// SPDX-License-Identifier: MIT
#include "child.h"
#include "connection.h"
#include "intake.h"
#include "log.h"
#include "manager.h"
#include "offload.h"
#include "receiver.h"
#include "rivulet_proto.h"
#include "user.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>


#define RETRY_US	USEC_PER_SEC	/* until a receiver that did not start is tried again */
#define DISPOSALS_MAX	32	/* of one user; further connections end with a process each */
#define ENDINGS_MAX	16	/* of these processes; a thread closes further connections */
#define KILL_NS		NSEC_PER_SEC	/* most that a receiver takes to end */

struct rvl_receiver {
	struct rvl_list link;
	struct rvl_user *user;		/* referenced */
	pid_t pid;
	int control;
	bool busy;			/* with a job */
	bool stuck;			/* counted in the user's intake */
	sd_event_source *io, *child, *timer;
};

int rvl_intake_end_main(void)
{
	char none;

	/* Until the daemon has closed its reference. */
	return read(RVL_CHILD_FD + 1, &none, 1) ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void pump(struct rvl_user *u);
static void forget_endings(struct rvl_manager *m);

/* ---- the end of jobs ---- */

static void end_current(struct rvl_user *u, int error, const char *text,
			const struct rvl_receiver_report *report, struct rvl_sent *sent)
{
	struct rvl_receipt *r = u->intake.current;

	u->intake.current = NULL;
	if (r)
		r->done(r, error, text, report, sent);
	else if (sent)
		rvl_close(sent->fd);
}

/* A connection that was sent to the receiver is closed by it, so its job has not failed. */
static void fail_current(struct rvl_user *u, int error, const char *text)
{
	bool given = u->intake.current && u->intake.current->order == RVL_DISCARD;

	end_current(u, given ? 0 : error, text, NULL, NULL);
}

static int refuse_stuck(const struct rvl_user *u, struct rvl_text *err)
{
	return rvl_say(err, -EDQUOT,
		       "%u processes that received descriptors of user %u wait for these files, "
		       "and no more may: close the files, or end what serves them",
		       u->intake.stuck, u->uid);
}

/* ---- the end of a receiver ---- */

static void receiver_free(struct rvl_receiver *x)
{
	struct rvl_user *u = x->user;

	sd_event_source_disable_unref(x->io);
	sd_event_source_disable_unref(x->child);
	sd_event_source_disable_unref(x->timer);
	rvl_close(x->control);
	rvl_list_del(&x->link);
	u->intake.stuck -= x->stuck;
	if (u->intake.receiver == x)
		u->intake.receiver = NULL;
	free(x);
	rvl_user_put(u);
}

/* From here on only the end of the process is awaited. */
static void leave(struct rvl_receiver *x)
{
	x->io = sd_event_source_disable_unref(x->io);
	x->timer = sd_event_source_disable_unref(x->timer);
	x->control = rvl_close(x->control);
	if (x->user->intake.receiver == x)
		x->user->intake.receiver = NULL;
}

static int on_child(sd_event_source *source, const siginfo_t *si, void *data)
{
	struct rvl_receiver *x = data;
	struct rvl_user *u = x->user;
	bool current = u->intake.receiver == x;

	(void)source;
	(void)si;
	u->refs++;
	receiver_free(x);
	if (current)
		fail_current(u, -EIO, "the process that receives descriptors ended");
	pump(u);
	rvl_user_put(u);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *data)
{
	struct rvl_receiver *x = data;
	struct rvl_user *u = x->user;
	struct rvl_about a = { .uid = u->uid, .rate = &u->log };

	(void)source;
	(void)usec;
	rvl_log(LOG_NOTICE, RVL_LOG_NONE, &a,
		"process %d, which receives descriptors of user %u, waits for a file and is killed",
		x->pid, u->uid);
	kill(x->pid, SIGKILL);
	x->stuck = true;
	u->intake.stuck++;
	leave(x);
	fail_current(u, -ETIMEDOUT, "the process that receives descriptors waits for this file "
		     "or an earlier one");
	pump(u);
	return 0;
}

/* ---- a receiver at work ---- */

static void take_report(struct rvl_user *u, struct rvl_receiver_report *report, int fd)
{
	struct rvl_sent sent = { .fd = fd, .file = report->file };

	end_current(u, 0, "", report, &sent);
}

static void take_done(struct rvl_receiver *x)
{
	struct rvl_user *u = x->user;

	x->busy = false;
	sd_event_source_set_enabled(x->timer, SD_EVENT_OFF);
	if (u->intake.current)
		end_current(u, 0, "", NULL, NULL);
	pump(u);
}

static int on_control(sd_event_source *source, int fd, uint32_t events, void *data)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct rvl_receiver_report report;
	struct iovec iov = { .iov_base = &report, .iov_len = sizeof(report) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct rvl_receiver *x = data;
	struct cmsghdr *c;
	int sent = -1;
	ssize_t n;

	(void)events;
	n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (c)
		memcpy(&sent, CMSG_DATA(c), sizeof(sent));
	if (n == sizeof(report))
		take_report(x->user, &report, sent);
	else if (n == sizeof(struct rvl_receiver_done))
		take_done(x);
	else if (n >= 0 || errno != EAGAIN)	/* its end is reported by on_child() */
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

static int watch(struct rvl_receiver *x)
{
	sd_event *e = x->user->m->event;
	int r = sd_event_add_child(e, &x->child, x->pid, WEXITED, on_child, x);

	r = r < 0 ? r : sd_event_add_io(e, &x->io, x->control, EPOLLIN, on_control, x);
	r = r < 0 ? r : sd_event_add_time(e, &x->timer, CLOCK_MONOTONIC, 0, 1000, on_timer, x);
	/* After a stall of the loop, what the receiver has reported meanwhile counts first. */
	r = r < 0 ? r : sd_event_source_set_priority(x->timer, SD_EVENT_PRIORITY_NORMAL + 5);
	return r < 0 ? r : sd_event_source_set_enabled(x->timer, SD_EVENT_OFF);
}

static int start(struct rvl_user *u)
{
	struct rvl_receiver *x = calloc(1, sizeof(*x));
	int pair[2] = { -1, -1 }, r;

	if (u->m->stopping) {
		free(x);
		return -ESHUTDOWN;
	}
	if (!x || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		free(x);
		return -errno;
	}
	x->user = u;
	u->refs++;
	x->control = pair[0];
	rvl_list_add_tail(&u->m->receivers, &x->link);
	r = rvl_child_start(u->m->compiler.exe, "--receiver", &pair[1], 1, &x->pid);
	close(pair[1]);
	if (!r) {
		r = watch(x);
		if (r < 0) {
			kill(x->pid, SIGKILL);
			waitpid(x->pid, NULL, 0);
		}
	}
	if (r < 0)
		receiver_free(x);
	else
		u->intake.receiver = x;
	return r < 0 ? r : 0;
}

/* A socket that the receiver takes over is closed here; the packet holds another reference. */
static void send_job(struct rvl_receiver *x, struct rvl_receipt *r)
{
	struct rvl_receiver_job job = { .order = r->order };

	rvl_list_del(&r->link);
	x->user->intake.current = r;
	x->busy = true;
	/* A receiver that takes no job has died, which on_child() reports. */
	rivulet_proto_send(x->control, &job, sizeof(job), r->sock, MSG_DONTWAIT);
	if (r->order == RVL_DISCARD)
		r->sock = rvl_close(r->sock);
	sd_event_source_set_time_relative(x->timer, RVL_INTAKE_NS / 1000);
	sd_event_source_set_enabled(x->timer, SD_EVENT_ONESHOT);
}

static struct rvl_receipt *next_receipt(struct rvl_user *u)
{
	struct rvl_list *l = u->intake.queue.next;

	return l == &u->intake.queue ? NULL : rvl_container(l, struct rvl_receipt, link);
}

static struct rvl_receipt *next_of(struct rvl_user *u, enum rvl_receiver_order order)
{
	struct rvl_receipt *r;

	rvl_list_each(r, &u->intake.queue, link)
		if (r->order == order)
			return r;
	return NULL;
}

/* Those who wait for an answer get one. done() may submit further jobs, and so call this again. */
static void end_queued(struct rvl_user *u, enum rvl_receiver_order order, int error,
		       const char *text)
{
	struct rvl_receipt *r;

	while ((r = next_of(u, order))) {
		rvl_list_del(&r->link);
		r->done(r, error, text, NULL, NULL);
	}
}

static int get_receiver(struct rvl_user *u, struct rvl_text *err)
{
	int r;

	if (u->intake.receiver)
		return 0;
	if (u->intake.stuck >= RVL_INTAKE_STUCK)
		return refuse_stuck(u, err);
	r = start(u);
	if (!r)
		return 0;
	return rvl_say(err, r, "starting the process that receives descriptors: %s", strerror(-r));
}

static int on_retry(sd_event_source *source, uint64_t usec, void *data)
{
	struct rvl_user *u = data;

	(void)source;
	(void)usec;
	u->intake.retry = sd_event_source_disable_unref(u->intake.retry);
	pump(u);
	return 0;
}

/* Connections that are to be closed wait until there is a receiver again. */
static void retry_later(struct rvl_user *u)
{
	if (!u->intake.retry && next_receipt(u))
		sd_event_add_time_relative(u->m->event, &u->intake.retry, CLOCK_MONOTONIC, RETRY_US, 0,
					   on_retry, u);
}

static void pump(struct rvl_user *u)
{
	struct rvl_text err;
	int r;

	u->refs++;
	r = next_receipt(u) ? get_receiver(u, &err) : -ENOENT;
	if (!r && !u->intake.receiver->busy)
		send_job(u->intake.receiver, next_receipt(u));
	if (r && r != -ENOENT) {
		end_queued(u, RVL_RECEIVE, r, err.s);
		retry_later(u);
	}
	rvl_intake_settle(u);
	rvl_user_put(u);
}

/* ---- what the other files use ---- */

int rvl_intake_submit(struct rvl_user *u, struct rvl_receipt *r, struct rvl_text *err)
{
	int error = r->order == RVL_RECEIVE ? get_receiver(u, err) : 0;

	if (error)
		return error;
	rvl_list_add_tail(&u->intake.queue, &r->link);
	pump(u);
	return 0;
}

void rvl_intake_settle(struct rvl_user *u)
{
	struct rvl_receiver *x = u->intake.receiver;

	if (x && !x->busy && !u->sessions && !next_receipt(u))
		leave(x);
}

/* Waits for those that can end, and forgets those that cannot. */
static void reap_all(struct rvl_manager *m)
{
	uint64_t deadline = rvl_now() + KILL_NS;
	struct rvl_receiver *x;

	rvl_list_each(x, &m->receivers, link)
		kill(x->pid, SIGKILL);
	rvl_list_each(x, &m->receivers, link) {
		while (!waitpid(x->pid, NULL, WNOHANG) && rvl_now() < deadline)
			usleep(1000);
		receiver_free(x);
	}
}

void rvl_intake_stop(struct rvl_manager *m)
{
	struct rvl_user *u;

	reap_all(m);
	forget_endings(m);
	rvl_list_each(u, &m->users, link) {
		u->refs++;
		u->intake.retry = sd_event_source_disable_unref(u->intake.retry);
		fail_current(u, -ECANCELED, "the daemon ends");
		end_queued(u, RVL_RECEIVE, -ECANCELED, "the daemon ends");
		/*
		 * These sockets are left to the end of the process, where closing them does not
		 * wait.
		 */
		end_queued(u, RVL_DISCARD, 0, "");
		u->refs--;
	}
}

/* ---- connections without a session ---- */

struct disposal {
	struct rvl_receipt receipt;
	struct rvl_user *user;	/* referenced */
};

static void disposed(struct rvl_receipt *r, int error, const char *text,
		     const struct rvl_receiver_report *report, struct rvl_sent *sent)
{
	struct disposal *d = rvl_container(r, struct disposal, receipt);

	(void)error;
	(void)text;
	(void)report;
	(void)sent;
	d->user->intake.disposals--;
	rvl_user_put(d->user);
	free(d);
}

static int dispose(struct rvl_user *u, int sock)
{
	struct disposal *d = u->intake.disposals < DISPOSALS_MAX ? calloc(1, sizeof(*d)) : NULL;

	if (!d)
		return -ENOBUFS;
	d->receipt = (struct rvl_receipt){ .order = RVL_DISCARD, .sock = sock, .done = disposed };
	d->user = u;
	u->refs++;
	u->intake.disposals++;
	return rvl_intake_submit(u, &d->receipt, NULL);
}

/*
 * A process that ends at once, with a connection as its only descriptor. A socket among the unread
 * ones does not linger then, unlike on a thread that calls close().
 */
struct ending {
	struct rvl_list link;
	struct rvl_manager *m;
	sd_event_source *child;
	pid_t pid;
};

static void ending_free(struct ending *e)
{
	sd_event_source_disable_unref(e->child);
	rvl_list_del(&e->link);
	e->m->n_endings--;
	free(e);
}

static int on_ended(sd_event_source *source, const siginfo_t *si, void *data)
{
	(void)source;
	(void)si;
	ending_free(data);
	return 0;
}

static void forget_endings(struct rvl_manager *m)
{
	struct ending *e;

	rvl_list_each(e, &m->endings, link) {
		waitpid(e->pid, NULL, WNOHANG);
		ending_free(e);
	}
}

static int end_with_process(struct rvl_manager *m, int sock)
{
	struct ending *e = m->n_endings < ENDINGS_MAX && !m->stopping ? calloc(1, sizeof(*e)) : NULL;
	int hold[2] = { -1, -1 }, r = e ? 0 : -ENOBUFS;

	if (!r && pipe2(hold, O_CLOEXEC))
		r = -errno;
	r = r ?: rvl_child_start(m->compiler.exe, "--end", (const int[]){ sock, hold[0] }, 2, &e->pid);
	rvl_close(hold[0]);
	if (r) {
		rvl_close(hold[1]);
		free(e);
		return r;
	}
	e->m = m;
	rvl_list_add_tail(&m->endings, &e->link);
	m->n_endings++;
	if (sd_event_add_child(m->event, &e->child, e->pid, WEXITED, on_ended, e) < 0)
		ending_free(e);
	/*
	 * The process waits for the end of the pipe, so its reference to the socket is the last
	 * one.
	 */
	close(sock);
	close(hold[1]);
	return 0;
}

void rvl_intake_dispose(struct rvl_manager *m, uid_t uid, int sock)
{
	struct rvl_user *u;

	if (rvl_drain(sock)) {
		close(sock);
		return;
	}
	u = rvl_user_get(m, uid);
	if ((!u || dispose(u, sock)) && end_with_process(m, sock))
		rvl_offload_close(&m->closer, sock);
	rvl_user_put(u);
}

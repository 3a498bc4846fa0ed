// SPDX-License-Identifier: MIT
/*
 * Questions that the daemon answers at once: alive, state, power policy. A question waits for the
 * connection, is sent, and ends by its answer, its time limit or the end of the connection. The
 * blocking calls wait for a question of their own, which dispatch does not report.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "sized.h"

#define LATE "the daemon did not answer in time"

/** struct rvl_question - in the list of its client until it has been reported */
struct rvl_question {
	struct rvl_question *next;
	struct rivulet_client *client;
	struct rvl_call call;
	bool sent;
	int64_t deadline;		/* CLOCK_MONOTONIC ns */
	union rivulet_packet packet;	/* the request, then its reply */
	int result;			/* -EINPROGRESS until it has ended */
	int fd;				/* of the reply, or -1 */
	char text[512];
	/* Calls the program's function below; NULL: a blocking call waits. It takes @fd over. */
	void (*report)(struct rvl_question *q);
	union {
		void (*ping)(struct rivulet_client *c, int result, void *data);
		void (*status)(struct rivulet_client *c, int result, int fd, uint64_t size, void *data);
		void (*policy)(struct rivulet_client *c, int result,
			       const struct rivulet_policy_state *state, void *data);
	} done;
	void *data;
};

/* ---- the end ---- */

static void end(struct rvl_question *q, int result, const char *text)
{
	if (!q->sent)
		q->client->preparing--;
	q->sent = true;
	q->result = result;
	snprintf(q->text, sizeof(q->text), "%s", text);
	if (q->report)
		rvl_client_notify(q->client);
}

/* A daemon with more levels than there are breaks the protocol. */
static bool is_sound(const union rivulet_packet *reply)
{
	const struct rivulet_msg_policy_reply *p = &reply->policy_reply;

	return reply->h.type != (RIVULET_MSG_POLICY | RIVULET_REPLY) ||
	       (p->levels <= RIVULET_LEVELS && p->used <= RIVULET_LEVELS && p->level < RIVULET_LEVELS);
}

static void answered(struct rvl_call *call, int result, union rivulet_packet *reply, int fd)
{
	struct rvl_question *q = call->owner;

	q->fd = fd;
	if (!result && !is_sound(reply))
		result = rvl_session_close(q->client, -EBADMSG, "the policy has more levels than there are");
	else if (!result)
		q->packet = *reply;
	end(q, result, result ? rivulet_last_error() : "");
}

void rvl_questions_closed(struct rivulet_client *c, int error)
{
	for (struct rvl_question *q = c->questions; q; q = q->next)
		if (!q->sent)
			end(q, error, c->why);
}

int64_t rvl_questions_expire(struct rivulet_client *c)
{
	int64_t now = rvl_lib_now(), first = RVL_NEVER;

	for (struct rvl_question *q = c->questions; q; q = q->next) {
		if (q->sent)
			continue;
		if (q->deadline <= now)
			end(q, -ETIMEDOUT, LATE);
		else if (q->deadline < first)
			first = q->deadline;
	}
	return first;
}

static void forget(struct rvl_question *q)
{
	struct rvl_question **p = &q->client->questions;

	while (*p != q)
		p = &(*p)->next;
	*p = q->next;
	if (!q->sent)
		q->client->preparing--;
	rvl_call_drop(q->client, &q->call);
	rvl_lib_close(q->fd);
	free(q);
}

void rvl_questions_drop(struct rivulet_client *c)
{
	while (c->questions)
		forget(c->questions);
}

static struct rvl_question *next_report(struct rivulet_client *c)
{
	struct rvl_question *q = c->questions;

	while (q && !(q->report && q->result != -EINPROGRESS))
		q = q->next;
	return q;
}

/* A function that is called may ask again. */
int rvl_questions_deliver(struct rivulet_client *c)
{
	struct rvl_question *q;
	int n = 0;

	while ((q = next_report(c))) {
		void (*report)(struct rvl_question *q) = q->report;

		q->report = NULL;
		if (q->result)
			rvl_lib_fail(-q->result, "%s", q->text);
		report(q);
		forget(q);
		n++;
	}
	return n;
}

/* ---- the beginning ---- */

/* The daemon would end the connection on a request that it does not know. */
static int check_feature(const struct rvl_question *q)
{
	if (q->packet.h.type == RIVULET_MSG_POLICY && !(q->client->info.features & RIVULET_FEATURE_POLICY))
		return rvl_lib_fail(EOPNOTSUPP, "this daemon has no power policy");
	return 0;
}

static int time_left(const struct rvl_question *q)
{
	return q->deadline == RVL_NEVER ? -1 : rvl_milliseconds(q->deadline - rvl_lib_now());
}

/* 0: the question was sent; -EINPROGRESS: the connection is being made; else its end. */
static int send_question(struct rvl_question *q)
{
	struct rivulet_client *c = q->client;
	union rivulet_packet header;
	int r = rvl_client_connect(c);

	r = r ? r : check_feature(q);
	if (r)
		return r;
	rvl_session_init(c, &header, q->packet.h.type);
	q->packet.h = header.h;
	r = rvl_call_start(c, &q->call, &q->packet, -1, time_left(q));
	if (r)
		return r;
	c->preparing--;
	q->sent = true;
	return 0;
}

void rvl_questions_step(struct rivulet_client *c)
{
	for (struct rvl_question *q = c->questions; q; q = q->next) {
		int r = q->sent ? 0 : send_question(q);

		if (r && r != -EINPROGRESS && !q->sent)
			end(q, r, rivulet_last_error());
	}
}

static void append(struct rivulet_client *c, struct rvl_question *q)
{
	struct rvl_question **p = &c->questions;

	while (*p)
		p = &(*p)->next;
	*p = q;
	c->preparing++;
}

/* @from: has the type of the request in its packet's header, the body, and what to report to. */
static int start(struct rivulet_client *c, const struct rvl_question *from, int timeout_ms,
		 struct rvl_question **out)
{
	struct rvl_question *q = malloc(sizeof(*q));
	int r;

	if (!q)
		return rvl_lib_fail(ENOMEM, "out of memory");
	*q = *from;
	q->client = c;
	q->call = (struct rvl_call) { .owner = q, .done = answered };
	q->deadline = rvl_deadline(timeout_ms);
	q->result = -EINPROGRESS;
	q->fd = -1;
	/* A connection that was cut while it was idle is noticed by reading from it. */
	rvl_client_pump(c);
	append(c, q);
	r = send_question(q);
	if (r && r != -EINPROGRESS) {
		forget(q);
		return r;
	}
	rvl_client_started(c);
	*out = q;
	return 0;
}

static int wait_for(struct rvl_question *q)
{
	while (q->result == -EINPROGRESS && rvl_client_poll(q->client, RVL_NEVER))
		;
	return q->result ? rvl_lib_fail(-q->result, "%s", q->text) : 0;
}

static struct rvl_question question(uint16_t type)
{
	struct rvl_question q;

	memset(&q, 0, sizeof(q));
	q.packet.h.type = type;
	return q;
}

/* ---- alive, state ---- */

static void report_ping(struct rvl_question *q)
{
	if (q->done.ping)
		q->done.ping(q->client, q->result, q->data);
}

int rivulet_client_ping_start(struct rivulet_client *c, int timeout_ms,
			      void (*done)(struct rivulet_client *c, int result, void *data), void *data)
{
	struct rvl_question q = question(RIVULET_MSG_PING), *started;

	q.report = report_ping;
	q.done.ping = done;
	q.data = data;
	return start(c, &q, timeout_ms, &started);
}

int rivulet_client_ping(struct rivulet_client *c, int timeout_ms)
{
	struct rvl_question from = question(RIVULET_MSG_PING), *q;
	int r = start(c, &from, timeout_ms, &q);

	if (r)
		return r;
	r = wait_for(q);
	forget(q);
	return r;
}

static void report_status(struct rvl_question *q)
{
	int fd = q->fd;

	if (!q->done.status)
		return;
	q->fd = -1;
	q->done.status(q->client, q->result, fd, q->result ? 0 : q->packet.status_reply.size, q->data);
}

int rivulet_client_status_start(struct rivulet_client *c,
				void (*done)(struct rivulet_client *c, int result, int fd, uint64_t size,
					     void *data), void *data)
{
	struct rvl_question q = question(RIVULET_MSG_STATUS), *started;

	q.report = report_status;
	q.done.status = done;
	q.data = data;
	return start(c, &q, RVL_CALL_TIMEOUT, &started);
}

int rivulet_client_status(struct rivulet_client *c, int *fd, uint64_t *size)
{
	struct rvl_question from = question(RIVULET_MSG_STATUS), *q;
	int r = start(c, &from, RVL_CALL_TIMEOUT, &q);

	if (r)
		return r;
	r = wait_for(q);
	if (!r) {
		*fd = q->fd;
		*size = q->packet.status_reply.size;
		q->fd = -1;
	}
	forget(q);
	return r;
}

/* ---- levels and the power policy ---- */

int rivulet_client_level(const struct rivulet_client *c, struct rivulet_level_state *out)
{
	if (!c->have_level)
		return rvl_lib_fail(ENODATA, "the daemon reported no level: it has no device, or no policy");
	return RVL_WRITE(out, &c->level, rivulet_level_state, hz);
}

void rivulet_client_on_level(struct rivulet_client *c,
			     void (*fn)(struct rivulet_client *c, const struct rivulet_level_state *l,
					void *data), void *data)
{
	c->on_level = fn;
	c->on_level_data = data;
	c->level_changed = c->level_changed && fn;
}

static void keep_policy(const struct rivulet_msg_policy_reply *p, struct rivulet_policy_state *out)
{
	*out = (struct rivulet_policy_state) { .size = sizeof(*out), .mode = p->mode,
		.fixed = p->fixed, .source = p->source, .flags = p->flags, .level = p->level,
		.levels = p->levels, .reason = p->reason, .allowed = p->allowed,
		.charge = p->charge, .drain = p->drain, .temperature = p->temperature,
		.hysteresis = p->hysteresis, .reserve = p->reserve, .used = p->used,
		.dwell = p->dwell, .changed = p->changed };
	_Static_assert(sizeof(out->use) == sizeof(p->use) && sizeof(out->hz) == sizeof(p->hz),
		       "arrays of levels");
	memcpy(out->use, p->use, sizeof(out->use));
	memcpy(out->threshold, p->threshold, sizeof(out->threshold));
	memcpy(out->hz, p->hz, sizeof(out->hz));
	memcpy(out->residency, p->residency, sizeof(out->residency));
	memcpy(out->entries, p->entries, sizeof(out->entries));
}

static void report_policy(struct rvl_question *q)
{
	struct rivulet_policy_state state;

	if (!q->done.policy)
		return;
	if (!q->result)
		keep_policy(&q->packet.policy_reply, &state);
	q->done.policy(q->client, q->result, q->result ? NULL : &state, q->data);
}

static struct rvl_question policy_question(uint32_t mode, uint32_t level)
{
	struct rvl_question q = question(RIVULET_MSG_POLICY);

	q.packet.policy.mode = mode;
	q.packet.policy.level = level;
	return q;
}

int rivulet_client_policy_start(struct rivulet_client *c, uint32_t mode, uint32_t level,
				void (*done)(struct rivulet_client *c, int result,
					     const struct rivulet_policy_state *state, void *data),
				void *data)
{
	struct rvl_question q = policy_question(mode, level), *started;

	q.report = report_policy;
	q.done.policy = done;
	q.data = data;
	return start(c, &q, RVL_CALL_TIMEOUT, &started);
}

int rivulet_client_policy(struct rivulet_client *c, uint32_t mode, uint32_t level,
			  struct rivulet_policy_state *out)
{
	struct rvl_question from = policy_question(mode, level), *q;
	struct rivulet_policy_state state;
	int r = start(c, &from, RVL_CALL_TIMEOUT, &q);

	if (r)
		return r;
	r = wait_for(q);
	if (!r)
		keep_policy(&q->packet.policy_reply, &state);
	forget(q);
	return r || !out ? r : RVL_WRITE(out, &state, rivulet_policy_state, entries);
}

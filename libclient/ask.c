// SPDX-License-Identifier: MIT
/* Questions that the daemon answers at once: alive, state, power policy. These calls block. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "session.h"
#include "sized.h"

/** struct question - a call that a blocking function waits for, on its stack */
struct question {
	struct rvl_call call;
	int result;			/* -EINPROGRESS until it is answered */
	union rivulet_packet *reply;
	int fd;				/* of the reply, or -1 */
	char text[512];
};

static void answered(struct rvl_call *call, int result, union rivulet_packet *reply, int fd)
{
	struct question *q = call->owner;

	q->result = result;
	q->fd = fd;
	if (result)
		snprintf(q->text, sizeof(q->text), "%s", rivulet_last_error());
	else
		*q->reply = *reply;
}

/*
 * Connects where that is needed, sends @type with the body of @req, and waits for the answer, which
 * replaces @req. @features: what the daemon must know, or it would end the connection.
 */
static int ask(struct rivulet_client *c, uint16_t type, uint32_t features, union rivulet_packet *req,
	       int *fd, int timeout_ms)
{
	struct question q = { .call = { .done = answered }, .result = -EINPROGRESS, .fd = -1,
			      .reply = req };
	int64_t deadline = rvl_deadline(timeout_ms);
	union rivulet_packet packet;
	int r = rvl_client_ready(c, deadline);

	if (r)
		return r;
	if ((c->info.features & features) != features)
		return rvl_lib_fail(EOPNOTSUPP, "this daemon has no power policy");
	rvl_session_init(c, &packet, type);
	memcpy((char *)req, &packet, sizeof(packet.h));
	q.call.owner = &q;
	r = rvl_call_start(c, &q.call, req, -1, timeout_ms);
	if (r)
		return r;
	rvl_client_started(c);
	while (q.result == -EINPROGRESS && rvl_client_poll(c, RVL_NEVER))
		;
	if (q.result)
		return rvl_lib_fail(-q.result, "%s", q.text);
	if (fd)
		*fd = q.fd;
	else
		rvl_lib_close(q.fd);
	return 0;
}

int rivulet_client_ping(struct rivulet_client *c, int timeout_ms)
{
	union rivulet_packet p;

	memset(&p, 0, sizeof(p));
	return ask(c, RIVULET_MSG_PING, 0, &p, NULL, timeout_ms);
}

int rivulet_client_status(struct rivulet_client *c, int *fd, uint64_t *size)
{
	union rivulet_packet p;
	int r;

	memset(&p, 0, sizeof(p));
	r = ask(c, RIVULET_MSG_STATUS, 0, &p, fd, RVL_CALL_TIMEOUT);
	if (!r)
		*size = p.status_reply.size;
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

int rivulet_client_policy(struct rivulet_client *c, uint32_t mode, uint32_t level,
			  struct rivulet_policy_state *out)
{
	struct rivulet_policy_state state;
	union rivulet_packet p;
	int r;

	memset(&p, 0, sizeof(p));
	p.policy.mode = mode;
	p.policy.level = level;
	r = ask(c, RIVULET_MSG_POLICY, RIVULET_FEATURE_POLICY, &p, NULL, RVL_CALL_TIMEOUT);
	if (r)
		return r;
	if (p.policy_reply.levels > RIVULET_LEVELS || p.policy_reply.used > RIVULET_LEVELS ||
	    p.policy_reply.level >= RIVULET_LEVELS)
		return rvl_session_close(c, -EBADMSG, "the policy has more levels than there are");
	keep_policy(&p.policy_reply, &state);
	return out ? RVL_WRITE(out, &state, rivulet_policy_state, entries) : 0;
}

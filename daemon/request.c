// SPDX-License-Identifier: MIT
/* The handler of each request. An error is returned with its text. */
#include <errno.h>
#include <string.h>

#include "accel.h"
#include "cache.h"
#include "compile.h"
#include "config.h"
#include "connection.h"
#include "instance.h"
#include "intake.h"
#include "log.h"
#include "manager.h"
#include "policy.h"
#include "power.h"
#include "rivulet_ops.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"
#include "scheduler.h"
#include "status.h"
#include "user.h"
#include "util.h"

static int no_such(struct rvl_text *err, const char *what, uint32_t id)
{
	return rvl_say(err, -ENOENT, "no %s %u in this session", what, id);
}

static struct rvl_model *find_model(struct rvl_session *s, uint32_t id)
{
	struct rvl_model *model;

	rvl_list_each(model, &s->models, link)
		if (model->id == id && !model->dead)
			return model;
	return NULL;
}

static struct rvl_instance *find_instance(struct rvl_session *s, uint32_t id)
{
	struct rvl_instance *x;

	rvl_list_each(x, &s->instances, link)
		if (x->id == id && !x->dead)
			return x;
	return NULL;
}

static uint64_t features(const struct rvl_device *d)
{
	uint64_t f = RIVULET_FEATURE_MEMFD | RIVULET_FEATURE_PROGRAM | RIVULET_FEATURE_DEADLINE |
		     RIVULET_FEATURE_POLICY;

	/* The linked device model cannot import a dma-buf. */
	f |= d->sim ? RIVULET_FEATURE_SIM : RIVULET_FEATURE_DMABUF;
	return d->present ? f | RIVULET_FEATURE_NPU : f;
}

static void fill_hello(const struct rvl_session *s, struct rivulet_msg_hello_reply *r)
{
	const struct rvl_device *d = &s->m->device;
	const struct rvl_config *c = &s->m->cfg;

	r->version = s->version;
	r->device_state = d->present ? RIVULET_DEVICE_PRESENT : RIVULET_DEVICE_ABSENT;
	r->features = features(d);
	r->max_model = c->model_size;
	r->max_bytes = c->user_bytes;
	r->max_models = (uint32_t)c->user_models;
	r->max_instances = (uint32_t)c->user_instances;
	r->max_runs = (uint32_t)c->user_runs;
	r->levels = d->present ? d->board.levels : 0;
	rivulet_proto_name(r->daemon, sizeof(r->daemon), RIVULET_VERSION);
	rivulet_proto_name(r->device, sizeof(r->device), d->present ? d->node : "");
	rivulet_proto_name(r->board, sizeof(r->board), d->present ? d->board.name : "");
}

static int do_hello(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		    struct rvl_text *err)
{
	const struct rivulet_msg_hello *q = &p->hello;
	struct rivulet_msg_hello_reply reply;

	(void)sent;
	if (q->min_version > q->max_version || q->min_version > RIVULET_PROTO_MAX ||
	    q->max_version < RIVULET_PROTO_MIN)
		return rvl_say(err, -EPROTONOSUPPORT,
			       "the client speaks versions %u to %u, this daemon %u to %u",
			       q->min_version, q->max_version, RIVULET_PROTO_MIN,
			       RIVULET_PROTO_MAX);
	s->features = q->features;
	s->version = q->max_version < RIVULET_PROTO_MAX ? (uint16_t)q->max_version :
							  RIVULET_PROTO_MAX;
	s->hello = sd_event_source_disable_unref(s->hello);
	rivulet_proto_name(s->name, sizeof(s->name), q->name);
	rivulet_proto_init(&reply, RIVULET_MSG_HELLO | RIVULET_REPLY, 0, q->h.serial);
	fill_hello(s, &reply);
	rvl_send(s, &reply, -1);
	rvl_power_event(&s->m->power, s);
	return 0;
}

static int do_ping(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		   struct rvl_text *err)
{
	(void)sent;
	(void)err;
	rvl_session_acknowledge(s, &p->h);
	return 0;
}

static int do_load(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		   struct rvl_text *err)
{
	return rvl_compile_submit(s, &p->load, sent, err);
}

static uint64_t dense_bytes(const struct rivulet_msg_tensor_reply *t)
{
	uint64_t n = rvl_type_size((enum rvl_type)t->dtype);

	for (uint32_t i = 0; i < t->ndim; i++)
		n *= t->dim[i];
	return n;
}

/* Puts the shape that the last run of instance @id left into @reply. @tensor: number in the program */
static int run_shape(struct rvl_session *s, const struct rvl_model *model, uint32_t id, uint32_t tensor,
		     struct rivulet_msg_tensor_reply *reply, struct rvl_text *err)
{
	struct rvl_instance *x = find_instance(s, id);
	int n;

	if (!x)
		return no_such(err, "instance", id);
	if (x->model != model)
		return rvl_say(err, -EINVAL, "instance %u is not of model %u", id, model->id);
	n = rvl_instance_shape(x, tensor, reply->dim, err);
	if (n < 0)
		return n;
	reply->ndim = (uint32_t)n;
	reply->size = dense_bytes(reply);
	return 0;
}

static void fill_tensor(const struct rivulet_program *prog, uint32_t tensor,
			struct rivulet_msg_tensor_reply *r)
{
	const struct rivulet_tensor *t = &rivulet_program_tensors(prog)[tensor];

	r->size = t->size;
	r->ndim = t->ndim;
	memcpy(r->dim, t->dim, sizeof(r->dim));
	r->dtype = t->dtype;
	r->scale = t->scale;
	r->zero_point = t->zero_point;
	r->flags = t->flags;
	rivulet_proto_name(r->name, sizeof(r->name), rivulet_program_string(prog, t->name));
}

static int do_tensor(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		     struct rvl_text *err)
{
	const struct rivulet_msg_tensor *q = &p->tensor;
	struct rvl_model *model = find_model(s, q->model);
	const struct rivulet_program *prog;
	struct rivulet_msg_tensor_reply reply;
	uint32_t count, tensor;
	int r = 0;

	(void)sent;
	if (!model)
		return no_such(err, "model", q->model);
	prog = model->program->file;
	count = q->dir == RIVULET_DIR_INPUT ? prog->inputs : prog->outputs;
	if (q->dir > RIVULET_DIR_OUTPUT || q->index >= count)
		return rvl_say(err, -ERANGE, "model %u has %u inputs and %u outputs", q->model,
			       prog->inputs, prog->outputs);
	tensor = q->dir == RIVULET_DIR_INPUT ? q->index : prog->inputs + q->index;
	rivulet_proto_init(&reply, RIVULET_MSG_TENSOR | RIVULET_REPLY, s->version, q->h.serial);
	fill_tensor(prog, tensor, &reply);
	if (q->instance)
		r = run_shape(s, model, q->instance, tensor, &reply, err);
	if (!r)
		rvl_send(s, &reply, -1);
	return r;
}

static int do_open(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		   struct rvl_text *err)
{
	struct rvl_model *model = find_model(s, p->open.model);

	(void)sent;
	return model ? rvl_instance_open(model, &p->open, err) : no_such(err, "model", p->open.model);
}

static int do_bind(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		   struct rvl_text *err)
{
	struct rvl_instance *x = find_instance(s, p->bind.instance);

	return x ? rvl_instance_bind(x, &p->bind, sent, err) :
		   no_such(err, "instance", p->bind.instance);
}

static int do_run(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		  struct rvl_text *err)
{
	struct rvl_instance *x = find_instance(s, p->run.instance);

	(void)sent;
	return x ? rvl_sched_submit(x, &p->run, err) : no_such(err, "instance", p->run.instance);
}

static int do_cancel(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		     struct rvl_text *err)
{
	struct rvl_instance *x;

	(void)sent;
	rvl_list_each(x, &s->instances, link) {
		if (x->dead || !x->run || x->run->serial != p->cancel.run)
			continue;
		rvl_session_acknowledge(s, &p->h);
		rvl_sched_cancel(x->run, -ECANCELED, "cancelled by the client");
		return 0;
	}
	return rvl_say(err, -ENOENT, "no run with serial %u is queued or under way", p->cancel.run);
}

static int do_close(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		    struct rvl_text *err)
{
	struct rvl_instance *x = find_instance(s, p->instance.instance);

	(void)sent;
	if (!x)
		return no_such(err, "instance", p->instance.instance);
	rvl_instance_close(x);
	rvl_session_acknowledge(s, &p->h);
	return 0;
}

static int do_unload(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		     struct rvl_text *err)
{
	struct rvl_model *model = find_model(s, p->model.model);

	(void)sent;
	if (!model)
		return no_such(err, "model", p->model.model);
	rvl_model_unload(model);
	rvl_session_acknowledge(s, &p->h);
	return 0;
}

static int do_status(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		     struct rvl_text *err)
{
	struct rivulet_msg_status_reply reply;
	int fd, r;

	(void)sent;
	rivulet_proto_init(&reply, RIVULET_MSG_STATUS | RIVULET_REPLY, s->version, p->h.serial);
	r = rvl_status_fd(s->m, s->user->uid, &fd, &reply.size);
	if (r)
		return rvl_say(err, r, "writing the status: %s", strerror(-r));
	rvl_send(s, &reply, fd);
	close(fd);
	return 0;
}

static void fill_policy(const struct rvl_power *pw, struct rivulet_msg_policy_reply *r)
{
	const struct rvl_policy *p = &pw->policy;
	const struct rvl_device *d = &pw->m->device;

	r->mode = rvl_power_mode(pw, &r->fixed, &r->source);
	r->flags = rvl_power_flags(pw);
	r->charge = pw->gauge.charge;
	r->drain = pw->gauge.drain;
	r->temperature = pw->zones.temp == RVL_NO_VALUE ? INT32_MIN : (int32_t)pw->zones.temp;
	if (!pw->ready)
		return;
	r->level = p->level;
	r->levels = d->board.levels;
	r->reason = p->reason;
	r->allowed = rvl_power_allowed(pw);
	r->hysteresis = p->cfg.hysteresis;
	r->reserve = p->cfg.reserve;
	r->dwell = p->cfg.dwell;
	r->changed = p->changed;
	r->used = p->cfg.n;
	memcpy(r->use, p->cfg.level, p->cfg.n * sizeof(*r->use));
	memcpy(r->threshold, p->cfg.threshold, (p->cfg.n - 1) * sizeof(*r->threshold));
	memcpy(r->entries, p->entries, sizeof(r->entries));
	for (uint32_t l = 0; l < d->board.levels; l++) {
		r->hz[l] = d->board.level[l].hz;
		r->residency[l] = rvl_policy_residency(p, l, rvl_now());
	}
}

static int set_policy(struct rvl_session *s, const struct rivulet_msg_policy *q,
		      struct rvl_text *err)
{
	struct rvl_about a = rvl_session_about(s);
	int r;

	if (!rvl_users_have(&s->m->cfg.policy_users, s->user->uid))
		return rvl_say(err, -EPERM, "the policy's mode is for PolicyUsers= to change");
	r = rvl_power_set_mode(&s->m->power, q->mode, q->level, err);
	if (!r)
		rvl_log(LOG_NOTICE, RVL_LOG_POLICY_MODE, &a, "policy mode %s",
			rvl_policy_mode_name(q->mode));
	return r;
}

static int do_policy(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		     struct rvl_text *err)
{
	struct rivulet_msg_policy_reply reply;
	int r = 0;

	(void)sent;
	if (p->policy.mode != RIVULET_POLICY_KEEP)
		r = set_policy(s, &p->policy, err);
	if (r)
		return r;
	rivulet_proto_init(&reply, RIVULET_MSG_POLICY | RIVULET_REPLY, s->version, p->h.serial);
	fill_policy(&s->m->power, &reply);
	rvl_send(s, &reply, -1);
	return 0;
}

int rvl_request(struct rvl_session *s, const union rivulet_packet *p, struct rvl_sent *sent,
		struct rvl_text *err)
{
	static int (*const handler[])(struct rvl_session *, const union rivulet_packet *,
				      struct rvl_sent *, struct rvl_text *) = {
		[RIVULET_MSG_HELLO] = do_hello, [RIVULET_MSG_PING] = do_ping,
		[RIVULET_MSG_LOAD] = do_load, [RIVULET_MSG_TENSOR] = do_tensor,
		[RIVULET_MSG_OPEN] = do_open, [RIVULET_MSG_BIND] = do_bind,
		[RIVULET_MSG_RUN] = do_run, [RIVULET_MSG_CANCEL] = do_cancel,
		[RIVULET_MSG_CLOSE] = do_close, [RIVULET_MSG_UNLOAD] = do_unload,
		[RIVULET_MSG_STATUS] = do_status, [RIVULET_MSG_POLICY] = do_policy,
	};

	/* rivulet_proto_check() lets only requests pass; a test checks that each has a handler. */
	return handler[p->h.type](s, p, sent, err);
}

static void fill_device(const struct rvl_device *d, struct rivulet_msg_device *e)
{
	e->device_state = d->present ? RIVULET_DEVICE_PRESENT : RIVULET_DEVICE_ABSENT;
	e->levels = d->present ? d->board.levels : 0;
	rivulet_proto_name(e->device, sizeof(e->device), d->present ? d->node : "");
	rivulet_proto_name(e->board, sizeof(e->board), d->present ? d->board.name : "");
}

void rvl_device_event(struct rvl_manager *m)
{
	struct rivulet_msg_device e;
	struct rvl_session *s;

	rvl_list_each(s, &m->sessions, link) {
		if (!m->device.present)
			rvl_session_detach(s);
		if (!s->version || s->fd < 0)
			continue;
		rivulet_proto_init(&e, RIVULET_MSG_DEVICE, s->version, 0);
		fill_device(&m->device, &e);
		rvl_send(s, &e, -1);
	}
	rvl_power_device(&m->power);
	rvl_manager_notify(m);
}

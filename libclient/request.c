// SPDX-License-Identifier: MIT
/* Requests: an instance on the daemon, made when it is needed, and its runs. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "request.h"
#include "sized.h"

/* ---- the end of an operation ---- */

/* Whether the operation has requests to send, for rvl_client_step(). */
static bool has_steps(const struct rivulet_request *r)
{
	return r->phase == RVL_PREPARING || r->phase == RVL_MEASURING;
}

/* Callbacks are called by dispatch, for which the client's fd becomes readable. */
static void finish(struct rivulet_request *r, int result, const char *text)
{
	if (has_steps(r))
		r->model->client->preparing--;
	r->phase = RVL_IDLE;
	r->result = result;
	r->undelivered = true;
	r->ended_at = rvl_lib_now();
	snprintf(r->error, sizeof(r->error), "%s", text);
	rvl_client_notify(r->model->client);
}

void rvl_request_failed(struct rivulet_request *r, int error)
{
	if (r->phase != RVL_IDLE)
		finish(r, error, rivulet_last_error());
}

void rvl_requests_closed(struct rivulet_client *c, int error)
{
	for (struct rivulet_request *r = c->requests; r; r = r->next)
		if (r->phase != RVL_IDLE)
			finish(r, error, c->why);
}

void rvl_requests_model_failed(struct rivulet_model *m, int error, const char *text)
{
	for (struct rivulet_request *r = m->client->requests; r; r = r->next)
		if (r->model == m && r->phase == RVL_PREPARING)
			finish(r, error, text);
}

/* ---- preparing: model, instance, bindings ---- */

static bool has_instance(const struct rivulet_request *r)
{
	const struct rivulet_client *c = r->model->client;

	return r->id && r->connection == c->connection && r->epoch == c->epoch &&
	       r->generation == r->model->generation;
}

static void close_instance(struct rivulet_request *r)
{
	struct rivulet_client *c = r->model->client;
	union rivulet_packet req;

	if (r->id && c->link == RVL_LINK_UP && r->connection == c->connection) {
		rvl_session_init(c, &req, RIVULET_MSG_CLOSE);
		req.instance.instance = r->id;
		rvl_session_post(c, &req, -1);
	}
	r->id = 0;
}

static void open_done(struct rvl_call *call, int result, union rivulet_packet *reply, int fd)
{
	struct rivulet_request *r = call->owner;

	rvl_lib_close(fd);
	r->pending--;
	if (!result) {
		r->id = reply->instance.instance;
	} else if (result == -ENOEXEC && !r->reloaded) {
		/*
		 * The device has another geometry than the program. One load serves all requests.
		 */
		r->reloaded = true;
		if (r->generation == r->model->generation)
			rvl_model_reload(r->model);
	} else {
		rvl_request_failed(r, result);
	}
}

static int open_instance(struct rivulet_request *r)
{
	struct rivulet_client *c = r->model->client;
	union rivulet_packet req;
	int e;

	close_instance(r);
	for (uint32_t i = 0; i < r->model->count; i++)
		r->bind[i].sent = false;
	rvl_session_init(c, &req, RIVULET_MSG_OPEN);
	req.open.model = r->model->id;
	/* A daemon that describes bounded outputs supports the flag. */
	req.open.flags = r->model->bounded ? RIVULET_OPEN_SHAPES : 0;
	r->call.done = open_done;
	e = rvl_call_start(c, &r->call, &req, -1, RVL_CALL_TIMEOUT);
	if (e)
		return e;
	r->pending++;
	r->connection = c->connection;
	r->epoch = c->epoch;
	r->generation = r->model->generation;
	return -EINPROGRESS;
}

/* 0: the daemon has all that a run needs, on the device that is there. */
static int prepare(struct rivulet_request *r)
{
	int e;

	if (r->pending)
		return -EINPROGRESS;
	e = rvl_model_ready(r->model);
	if (e)
		return e;
	if (!has_instance(r))
		return open_instance(r);
	for (uint32_t i = 0; !e && i < r->model->count; i++)
		if (r->bind[i].bound && !r->bind[i].sent)
			e = rvl_bind_send(r, i);
	return e || !r->pending ? e : -EINPROGRESS;
}

/* ---- running ---- */

static void keep_stats(struct rivulet_request *r, const struct rivulet_msg_run_reply *p)
{
	r->stats = (struct rivulet_run_stats) { .size = sizeof(r->stats), .start = p->start,
		.end = p->end, .queue_ns = p->queue_ns, .npu_ns = p->npu_ns, .cpu_ns = p->cpu_ns,
		.expected_ns = p->expected_ns, .cycles = p->cycles, .macs = p->macs,
		.conv_busy = p->conv_busy, .read_bytes = p->read_bytes,
		.write_bytes = p->write_bytes, .energy_pj = p->energy, .npu_steps = p->npu_jobs,
		.cpu_steps = p->cpu_steps, .level_min = p->level_min, .level_max = p->level_max,
		.length = p->length, .accuracy = p->accuracy,
		.late = p->flags & RIVULET_RAN_LATE };
}

/* The run ended well, and the shapes of its outputs are known. */
static int succeed(struct rivulet_request *r)
{
	rvl_bind_copy(r, true);
	r->have_stats = true;
	return 0;
}

/* The shape of every output that needs no question. */
static void found_as_described(struct rivulet_request *r)
{
	for (uint32_t i = r->model->inputs; i < r->model->count; i++) {
		const struct rivulet_tensor_info *t = &r->model->tensor[i].info;
		struct rvl_found *f = &r->found[i - r->model->inputs];

		f->ndim = t->ndim;
		f->bytes = t->bytes;
		memcpy(f->dim, t->dim, sizeof(f->dim));
	}
}

static void run_done(struct rvl_call *call, int result, union rivulet_packet *reply, int fd)
{
	struct rivulet_request *r = call->owner;

	rvl_lib_close(fd);
	if (result) {
		finish(r, result, rivulet_last_error());
		return;
	}
	keep_stats(r, &reply->run_reply);
	found_as_described(r);
	if (!r->model->bounded) {
		finish(r, succeed(r), "");
		return;
	}
	r->phase = RVL_MEASURING;
	r->measured = 0;
	r->model->client->preparing++;
}

static int send_run(struct rivulet_request *r)
{
	const struct rivulet_run_options *o = &r->options;
	union rivulet_packet req;
	int e;

	rvl_session_init(r->model->client, &req, RIVULET_MSG_RUN);
	req.run.instance = r->id;
	req.run.flags = o->hard ? RIVULET_RUN_HARD : 0;
	req.run.priority = (uint32_t)(o->priority + (int)RIVULET_PRIO_NORMAL);
	req.run.min_accuracy = o->min_accuracy;
	req.run.deadline = (uint64_t)o->deadline;
	r->call.done = run_done;
	e = rvl_call_start(r->model->client, &r->call, &req, -1, -1);
	if (e)
		return e;
	r->model->client->preparing--;
	r->phase = RVL_RUNNING;
	return -EINPROGRESS;
}

/* ---- the shapes that a run found ---- */

static int keep_shape(struct rivulet_request *r, const struct rivulet_msg_tensor_reply *t)
{
	const struct rivulet_tensor_info *most = &r->model->tensor[r->model->inputs + r->measured].info;
	struct rvl_found *f = &r->found[r->measured];

	if (rvl_check_tensor(t) || t->dtype != most->dtype || t->size > most->bytes)
		return -EBADMSG;
	f->ndim = t->ndim;
	f->bytes = t->size;
	memcpy(f->dim, t->dim, sizeof(f->dim));
	r->measured++;
	return 0;
}

static void shape_done(struct rvl_call *call, int result, union rivulet_packet *reply, int fd)
{
	struct rivulet_request *r = call->owner;

	rvl_lib_close(fd);
	if (result)
		rvl_request_failed(r, result);
	else if (keep_shape(r, &reply->tensor_reply))
		rvl_session_close(r->model->client, -EBADMSG, "the daemon reported an impossible shape");
}

static int ask_shape(struct rivulet_request *r)
{
	union rivulet_packet req;
	int e;

	rvl_session_init(r->model->client, &req, RIVULET_MSG_TENSOR);
	req.tensor.model = r->model->id;
	req.tensor.dir = RIVULET_DIR_OUTPUT;
	req.tensor.index = r->measured;
	req.tensor.instance = r->id;
	r->call.done = shape_done;
	e = rvl_call_start(r->model->client, &r->call, &req, -1, RVL_CALL_TIMEOUT);
	return e ? e : -EINPROGRESS;
}

static int measure(struct rivulet_request *r)
{
	uint32_t outputs = r->model->count - r->model->inputs;

	if (r->call.active)
		return -EINPROGRESS;
	while (r->measured < outputs && !r->model->tensor[r->model->inputs + r->measured].info.bounded)
		r->measured++;
	return r->measured < outputs ? ask_shape(r) : succeed(r);
}

/* One step of the operation under way: -EINPROGRESS, or its end. */
static int step(struct rivulet_request *r)
{
	int e;

	if (r->phase == RVL_MEASURING)
		return measure(r);
	e = prepare(r);
	return e || r->prepare_only ? e : send_run(r);
}

void rvl_requests_step(struct rivulet_client *c)
{
	for (struct rivulet_request *r = c->requests; r; r = r->next) {
		int e = has_steps(r) ? step(r) : -EINPROGRESS;

		/* A step that closed the connection has ended the operation already. */
		if (e != -EINPROGRESS && has_steps(r))
			finish(r, e, e ? rivulet_last_error() : "");
	}
}

static int check_options(const struct rivulet_run_options *o)
{
	if (o->deadline < 0 || o->priority < -1 || o->priority > 1)
		return rvl_lib_fail(EINVAL, "a deadline is not negative, a priority is -1, 0 or 1");
	return 0;
}

static int check_bound(const struct rivulet_request *r)
{
	for (uint32_t i = 0; i < r->model->count; i++)
		if (!r->bind[i].bound)
			return rvl_lib_fail(EINVAL, "%s %s is not bound",
					    r->bind[i].output ? "output" : "input",
					    r->model->tensor[i].name);
	return 0;
}

/* Begins an operation. An error that is known at once is returned, and nothing is called back. */
static int start(struct rivulet_request *r, bool prepare_only)
{
	struct rivulet_client *c = r->model->client;
	int e;

	rvl_client_pump(c);
	r->phase = RVL_PREPARING;
	c->preparing++;
	r->prepare_only = prepare_only;
	r->reloaded = r->undelivered = r->have_stats = false;
	r->result = -EINPROGRESS;
	r->error[0] = 0;
	e = step(r);
	if (e == -EINPROGRESS) {
		rvl_client_started(c);
		return 0;
	}
	if (r->phase == RVL_PREPARING)
		finish(r, e, e ? rivulet_last_error() : "");
	r->undelivered = !e;
	return e;
}

int rivulet_request_start(struct rivulet_request *r, const struct rivulet_run_options *opts)
{
	struct rivulet_run_options o;
	int e = RVL_READ(&o, opts, rivulet_run_options, min_accuracy);

	if (!e && r->phase != RVL_IDLE)
		e = rvl_lib_fail(EBUSY, "a run of this request is in flight");
	e = e ? e : check_options(&o);
	e = e ? e : check_bound(r);
	if (e)
		return e;
	r->options = o;
	rvl_bind_copy(r, false);
	return start(r, false);
}

int rivulet_request_prepare_start(struct rivulet_request *r)
{
	if (r->phase != RVL_IDLE)
		return rvl_lib_fail(EBUSY, "a run of this request is in flight");
	return start(r, true);
}

/* ---- waiting ---- */

/* Reports the end of @r alone; others stay for dispatch. */
static int deliver_one(struct rivulet_request *r)
{
	int result = r->result;

	if (r->undelivered) {
		r->undelivered = false;
		rivulet_request_ref(r);
		if (r->done)
			r->done(r, r->data);
		if (result < 0)
			rvl_lib_fail(-result, "%s", r->error);
		rivulet_request_unref(r);
	} else if (result < 0) {
		rvl_lib_fail(-result, "%s", r->error[0] ? r->error : "nothing was run yet");
	}
	return result;
}

int rivulet_request_wait(struct rivulet_request *r, int timeout_ms)
{
	int64_t deadline = rvl_deadline(timeout_ms);

	while (r->phase != RVL_IDLE && rvl_client_poll(r->model->client, deadline))
		;
	if (r->phase != RVL_IDLE)
		return rvl_lib_fail(ETIMEDOUT, "the run did not end in %d ms", timeout_ms);
	return deliver_one(r);
}

int rivulet_request_run(struct rivulet_request *r, const struct rivulet_run_options *opts)
{
	int e = rivulet_request_start(r, opts);

	return e ? e : rivulet_request_wait(r, -1);
}

int rivulet_request_prepare(struct rivulet_request *r)
{
	int e = rivulet_request_prepare_start(r);

	return e ? e : rivulet_request_wait(r, -1);
}

/* The request that ended first and was not reported yet, or -1; @busy: whether any is under way. */
static int first_ended(struct rivulet_request *const *r, uint32_t count, bool *busy)
{
	int64_t when = INT64_MAX;
	int found = -1;

	*busy = false;
	for (uint32_t i = 0; i < count; i++) {
		if (!r[i])
			continue;
		*busy |= r[i]->phase != RVL_IDLE;
		if (r[i]->undelivered && r[i]->ended_at < when) {
			when = r[i]->ended_at;
			found = (int)i;
		}
	}
	return found;
}

/* Waits on all clients of the requests at once, then pumps each. */
static void poll_clients(struct rivulet_request *const *r, uint32_t count, struct pollfd *p,
			 int64_t deadline)
{
	int64_t now = rvl_lib_now(), until = deadline;
	nfds_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct rivulet_client *c = r[i] ? r[i]->model->client : NULL;
		nfds_t k = 0;

		if (!c || r[i]->phase == RVL_IDLE)
			continue;
		until = c->again ? 0 : c->armed < until ? c->armed : until;
		while (k < n && p[k].fd != c->sock)
			k++;
		p[k] = (struct pollfd) { .fd = c->sock, .events = POLLIN | (c->out ? POLLOUT : 0) };
		n += k == n;
	}
	poll(p, n, until == RVL_NEVER ? -1 : rvl_milliseconds(until - now));
	for (uint32_t i = 0; i < count; i++)
		if (r[i])
			rvl_client_pump(r[i]->model->client);
}

int rivulet_request_wait_any(struct rivulet_request *const *requests, uint32_t count, int timeout_ms)
{
	int64_t deadline = rvl_deadline(timeout_ms);
	struct pollfd *p;
	bool busy;
	int found;

	if (count > INT_MAX)
		return rvl_lib_fail(EINVAL, "%u requests are too many", count);
	p = calloc(count + 1ul, sizeof(*p));
	if (!p)
		return rvl_lib_fail(ENOMEM, "out of memory");
	for (;;) {
		found = first_ended(requests, count, &busy);
		if (found >= 0 || !busy || rvl_lib_now() >= deadline)
			break;
		poll_clients(requests, count, p, deadline);
	}
	free(p);
	if (found < 0 && !busy)
		return rvl_lib_fail(ENODATA, "none of these requests is under way");
	if (found < 0)
		return rvl_lib_fail(ETIMEDOUT, "no run ended in %d ms", timeout_ms);
	deliver_one(requests[found]);
	return found;
}

/* ---- reporting ---- */

int rvl_requests_deliver(struct rivulet_client *c)
{
	struct rivulet_request *r = c->requests;
	int n = 0;

	/*
	 * A callback may start, bind or release any request, so that the search starts again after
	 * each.
	 */
	while (r) {
		if (!r->undelivered) {
			r = r->next;
			continue;
		}
		r->undelivered = false;
		n++;
		if (r->done) {
			r->done(r, r->data);
			r = c->requests;
		}
	}
	return n;
}

int rivulet_request_cancel(struct rivulet_request *r)
{
	union rivulet_packet req;

	if (r->phase == RVL_IDLE)
		return rvl_lib_fail(EALREADY, "no run is in flight");
	if (r->phase == RVL_PREPARING) {
		finish(r, -ECANCELED, "cancelled before the daemon had the run");
		return 0;
	}
	/* The run has ended, so the cancellation comes too late. */
	if (r->phase == RVL_MEASURING)
		return 0;
	rvl_session_init(r->model->client, &req, RIVULET_MSG_CANCEL);
	req.cancel.run = r->call.serial;
	return rvl_session_post(r->model->client, &req, -1);
}

int rivulet_request_result(const struct rivulet_request *r)
{
	return r->result;
}

const char *rivulet_request_error(const struct rivulet_request *r)
{
	return r->error;
}

void rivulet_request_on_done(struct rivulet_request *r,
			     void (*fn)(struct rivulet_request *r, void *data), void *data)
{
	r->done = fn;
	r->data = data;
}

int rivulet_request_stats(const struct rivulet_request *r, struct rivulet_run_stats *stats)
{
	if (!r->have_stats)
		return rvl_lib_fail(ENODATA, "no run of this request has ended well");
	return RVL_WRITE(stats, &r->stats, rivulet_run_stats, late);
}

int rivulet_request_tensor(const struct rivulet_request *r, uint32_t tensor,
			   struct rivulet_tensor_info *info)
{
	struct rivulet_tensor_info t;

	if (tensor >= r->model->count)
		return rvl_lib_fail(ERANGE, "tensor %u of %u", tensor, r->model->count);
	t = r->model->tensor[tensor].info;
	if (t.bounded) {
		const struct rvl_found *f = &r->found[tensor - r->model->inputs];

		if (!r->have_stats)
			return rvl_lib_fail(ENODATA, "no run of this request has ended well");
		t.ndim = f->ndim;
		t.bytes = f->bytes;
		memcpy(t.dim, f->dim, sizeof(t.dim));
	}
	return RVL_WRITE(info, &t, rivulet_tensor_info, zero_point);
}

/* ---- the object ---- */

int rivulet_request_new(struct rivulet_model *m, struct rivulet_request **out)
{
	struct rivulet_request *r;

	if (m->result)
		return rvl_lib_fail(-m->result, "%s", m->loading ? "the model is not loaded yet" : m->error);
	r = calloc(1, sizeof(*r));
	if (r) {
		r->bind = calloc(m->count + 1, sizeof(*r->bind));
		r->found = calloc(m->count - m->inputs + 1, sizeof(*r->found));
	}
	if (!r || !r->bind || !r->found) {
		if (r)
			free(r->bind);
		free(r);
		return rvl_lib_fail(ENOMEM, "out of memory");
	}
	r->refs = 1;
	r->model = rivulet_model_ref(m);
	r->call.owner = r;
	r->result = -ENODATA;
	for (uint32_t i = 0; i < m->count; i++)
		r->bind[i] = (struct rvl_binding) { .fd = -1, .request = r, .output = i >= m->inputs };
	r->next = m->client->requests;
	m->client->requests = r;
	*out = r;
	return 0;
}

struct rivulet_request *rivulet_request_ref(struct rivulet_request *r)
{
	if (r)
		r->refs++;
	return r;
}

struct rivulet_request *rivulet_request_unref(struct rivulet_request *r)
{
	struct rivulet_request **p;

	if (!r || --r->refs)
		return NULL;
	if (has_steps(r))
		r->model->client->preparing--;
	r->phase = RVL_IDLE;
	for (p = &r->model->client->requests; *p != r; p = &(*p)->next)
		;
	*p = r->next;
	/* Sending CLOSE may end the connection, which fails every call that is still active. */
	rvl_call_drop(r->model->client, &r->call);
	for (uint32_t i = 0; i < r->model->count; i++)
		rvl_bind_release(r, i);
	close_instance(r);
	rivulet_model_unref(r->model);
	free(r->bind);
	free(r->found);
	free(r);
	return NULL;
}

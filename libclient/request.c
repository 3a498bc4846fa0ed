// SPDX-License-Identifier: MIT
/* Requests: an instance on the daemon, what is bound to it, and its runs. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model.h"
#include "sized.h"

/* One tensor of a request. Plain memory travels through a memfd that is made once. */
struct binding {
	bool bound;
	bool sent;			/* to the instance that is there now */
	struct rivulet_buffer *buf;	/* referenced, so that the handle lives while the daemon uses it */
	int dmabuf;			/* ours, or -1 */
	uint64_t offset;		/* in either */
	void *user;			/* plain memory, the caller's */
	void *shared;			/* map of the memfd, tensor's size; kept for the next bind */
	bool shared_bound;		/* the daemon has the memfd bound now */
};

struct rivulet_request {
	int refs;
	struct rivulet_model *model;	/* referenced */
	struct rivulet_request *next;	/* of the client's list */
	uint32_t id;			/* instance */
	uint32_t connection;		/* that @id belongs to */
	uint32_t epoch;			/* of the client when it was opened: a device may have gone since */
	uint32_t run;			/* serial of the RUN in flight, or 0 */
	bool untold;			/* ended, not yet delivered */
	int result;
	bool have_stats;
	struct rivulet_run_stats stats;
	char error[512];
	void (*done)(struct rivulet_request *r, void *data);
	void *data;
	struct binding *bind;
};

static void close_instance(struct rivulet_request *q)
{
	struct rivulet_client *c = q->model->client;
	union rivulet_packet req;

	if (q->id && !c->lost && q->connection == c->connection) {
		rvl_session_init(c, &req, RIVULET_MSG_CLOSE);
		req.instance.instance = q->id;
		rvl_session_post(c, &req, -1);
	}
	q->id = 0;
}

static int open_instance(struct rivulet_request *q)
{
	struct rivulet_client *c = q->model->client;
	union rivulet_packet req, reply;
	uint32_t epoch = c->epoch;
	int r;

	rvl_session_init(c, &req, RIVULET_MSG_OPEN);
	req.model.model = q->model->id;
	r = rvl_session_call(c, &req, -1, RVL_CALL_TIMEOUT, &reply, NULL);
	if (r)
		return r;
	q->id = reply.instance.instance;
	q->connection = c->connection;
	q->epoch = epoch;
	return 0;
}

/* An instance on the device that is there now; bindings are sent anew when they are needed. */
static int instance_ready(struct rivulet_request *q)
{
	struct rivulet_model *m = q->model;
	int r = rvl_model_ready(m, false);

	if (r || (q->id && q->epoch == m->client->epoch))
		return r;
	close_instance(q);
	for (uint32_t i = 0; i < m->count; i++)
		q->bind[i].sent = q->bind[i].shared_bound = false;
	r = open_instance(q);
	/* A device of another kind needs other commands. */
	if (r == -ENOEXEC) {
		r = rvl_model_ready(m, true);
		r = r ? r : open_instance(q);
	}
	return r;
}

int rivulet_request_new(struct rivulet_model *m, struct rivulet_request **out)
{
	struct rivulet_request *q = calloc(1, sizeof(*q));
	int r;

	if (q)
		q->bind = calloc(m->count + 1, sizeof(*q->bind));
	if (!q || !q->bind) {
		free(q);
		return rvl_lib_fail(ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < m->count; i++)
		q->bind[i].dmabuf = -1;
	q->refs = 1;
	q->model = m;
	r = instance_ready(q);
	if (r) {
		free(q->bind);
		free(q);
		return r;
	}
	rivulet_model_ref(m);
	q->result = -ENODATA;
	q->next = m->client->requests;
	m->client->requests = q;
	*out = q;
	return 0;
}

struct rivulet_request *rivulet_request_ref(struct rivulet_request *r)
{
	if (r)
		r->refs++;
	return r;
}

static void request_free(struct rivulet_request *q)
{
	struct rivulet_request **p = &q->model->client->requests;

	while (*p != q)
		p = &(*p)->next;
	*p = q->next;
	for (uint32_t i = 0; i < q->model->count; i++) {
		rivulet_buffer_unref(q->bind[i].buf);
		rvl_lib_close(q->bind[i].dmabuf);
		if (q->bind[i].shared)
			munmap(q->bind[i].shared, q->model->tensor[i].info.bytes);
	}
	rivulet_model_unref(q->model);
	free(q->bind);
	free(q);
}

struct rivulet_request *rivulet_request_unref(struct rivulet_request *r)
{
	if (!r || --r->refs)
		return NULL;
	close_instance(r);
	request_free(r);
	return NULL;
}

static int check_bind(struct rivulet_request *r, uint32_t tensor)
{
	if (tensor >= r->model->count)
		return rvl_lib_fail(ERANGE, "tensor %u of %u", tensor, r->model->count);
	if (r->run)
		return rvl_lib_fail(EBUSY, "tensor %s cannot be bound during a run",
				    r->model->tensor[tensor].name);
	return instance_ready(r);
}

static int send_bind(struct rivulet_request *r, uint32_t tensor, int fd, uint64_t offset)
{
	const struct rivulet_tensor_info *t = &r->model->tensor[tensor].info;
	union rivulet_packet req;

	rvl_session_init(r->model->client, &req, RIVULET_MSG_BIND);
	req.bind.instance = r->id;
	req.bind.dir = t->output ? RIVULET_DIR_OUTPUT : RIVULET_DIR_INPUT;
	req.bind.index = t->output ? tensor - r->model->inputs : tensor;
	req.bind.offset = offset;
	req.bind.size = t->bytes;
	return rvl_session_call(r->model->client, &req, fd, RVL_CALL_TIMEOUT, NULL, NULL);
}

/* What @fresh holds is taken over. */
static void set_binding(struct binding *b, const struct binding *fresh)
{
	rivulet_buffer_unref(b->buf);
	rvl_lib_close(b->dmabuf);
	b->buf = fresh->buf;
	b->dmabuf = fresh->dmabuf;
	b->offset = fresh->offset;
	b->user = fresh->user;
	b->shared_bound = fresh->user != NULL;
	b->bound = b->sent = true;
}

int rivulet_bind_dmabuf(struct rivulet_request *r, uint32_t tensor, int dmabuf, uint64_t offset)
{
	struct binding fresh = { .dmabuf = -1, .offset = offset };
	int e = check_bind(r, tensor);

	if (e)
		return e;
	fresh.dmabuf = fcntl(dmabuf, F_DUPFD_CLOEXEC, 3);
	if (fresh.dmabuf < 0)
		return rvl_lib_fail(errno, "dma-buf %d: %s", dmabuf, strerror(errno));
	e = send_bind(r, tensor, fresh.dmabuf, offset);
	if (e)
		rvl_lib_close(fresh.dmabuf);
	else
		set_binding(&r->bind[tensor], &fresh);
	return e;
}

static int send_buffer(struct rivulet_request *r, uint32_t tensor, struct rivulet_buffer *buf,
		       uint64_t offset)
{
	bool output = r->model->tensor[tensor].info.output;
	int fd, e = rivulet_buffer_export(buf, output, &fd);

	/* Another exporter's memory keeps the rights it came with. */
	if (e == -EOPNOTSUPP && !output)
		e = rivulet_buffer_export(buf, true, &fd);
	if (e)
		return e;
	e = send_bind(r, tensor, fd, offset);
	rvl_lib_close(fd);
	return e;
}

int rivulet_bind_buffer(struct rivulet_request *r, uint32_t tensor, struct rivulet_buffer *buf,
			uint64_t offset)
{
	struct binding fresh = { .dmabuf = -1, .offset = offset };
	int e = check_bind(r, tensor);

	e = e ? e : send_buffer(r, tensor, buf, offset);
	if (e)
		return e;
	fresh.buf = rivulet_buffer_ref(buf);
	set_binding(&r->bind[tensor], &fresh);
	return 0;
}

/* A memfd of the tensor's size, sealed against shrinking as the daemon demands, mapped here. */
static int make_shared(struct binding *b, uint64_t size, int *out)
{
	int fd = memfd_create("rivulet-tensor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, (off_t)size) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		rvl_lib_close(fd);
		return rvl_lib_fail(errno, "shared memory of %llu bytes: %s",
				    (unsigned long long)size, strerror(errno));
	}
	b->shared = p;
	*out = fd;
	return 0;
}

static int bind_shared(struct rivulet_request *r, uint32_t tensor)
{
	struct binding *b = &r->bind[tensor];
	uint64_t size = r->model->tensor[tensor].info.bytes;
	int fd = -1, e;

	if (b->shared && b->shared_bound)
		return 0;
	if (b->shared) {
		munmap(b->shared, size);
		b->shared = NULL;
	}
	e = make_shared(b, size, &fd);
	if (e)
		return e;
	e = send_bind(r, tensor, fd, 0);
	rvl_lib_close(fd);
	if (e) {
		munmap(b->shared, size);
		b->shared = NULL;
	}
	return e;
}

int rivulet_bind_memory(struct rivulet_request *r, uint32_t tensor, void *data, size_t size)
{
	struct binding fresh = { .dmabuf = -1, .user = data };
	const struct rivulet_tensor_info *t;
	int e = check_bind(r, tensor);

	if (e)
		return e;
	t = &r->model->tensor[tensor].info;
	if (!data || !t->bytes || size < t->bytes)
		return rvl_lib_fail(EINVAL, "tensor %s has %llu bytes, the memory %zu", t->name,
				    (unsigned long long)t->bytes, size);
	e = bind_shared(r, tensor);
	if (!e)
		set_binding(&r->bind[tensor], &fresh);
	return e;
}

static int bind_again(struct rivulet_request *r, uint32_t tensor)
{
	struct binding *b = &r->bind[tensor];
	int e;

	if (b->user)
		e = bind_shared(r, tensor);
	else if (b->buf)
		e = send_buffer(r, tensor, b->buf, b->offset);
	else
		e = send_bind(r, tensor, b->dmabuf, b->offset);
	if (e == -ENODEV && b->buf)
		return rvl_lib_fail(ENODEV, "tensor %s is bound to a buffer of a device that is gone: "
				    "bind it again", r->model->tensor[tensor].name);
	b->sent = !e;
	b->shared_bound = !e && b->user;
	return e;
}

/* All that a run needs is with the daemon, on the device that is there. */
static int make_ready(struct rivulet_request *r)
{
	int e = instance_ready(r);

	for (uint32_t i = 0; !e && i < r->model->count; i++)
		if (!r->bind[i].sent)
			e = bind_again(r, i);
	return e;
}

/* Copies plain memory in (inputs) or out (outputs). */
static void copy_plain(struct rivulet_request *r, bool outputs)
{
	for (uint32_t i = 0; i < r->model->count; i++) {
		struct binding *b = &r->bind[i];
		const struct rivulet_tensor_info *t = &r->model->tensor[i].info;

		if (!b->user || t->output != outputs)
			continue;
		if (outputs)
			memcpy(b->user, b->shared, t->bytes);
		else
			memcpy(b->shared, b->user, t->bytes);
	}
}

static int check_start(const struct rivulet_request *r, const struct rivulet_run_options *o)
{
	if (r->run)
		return rvl_lib_fail(EBUSY, "a run of this request is in flight");
	if (o->deadline < 0 || o->priority < -1 || o->priority > 1)
		return rvl_lib_fail(EINVAL, "deadline is not negative, priority is -1, 0 or 1");
	for (uint32_t i = 0; i < r->model->count; i++)
		if (!r->bind[i].bound)
			return rvl_lib_fail(EINVAL, "%s %s is not bound",
					    r->model->tensor[i].info.output ? "output" : "input",
					    r->model->tensor[i].name);
	return 0;
}

int rivulet_request_start(struct rivulet_request *r, const struct rivulet_run_options *opts)
{
	struct rivulet_client *c = r->model->client;
	struct rivulet_run_options o;
	union rivulet_packet req;
	int e = RVL_READ(&o, opts, rivulet_run_options, min_accuracy);

	e = e ? e : check_start(r, &o);
	e = e ? e : make_ready(r);
	if (e)
		return e;
	copy_plain(r, false);
	rvl_session_init(c, &req, RIVULET_MSG_RUN);
	req.run.instance = r->id;
	req.run.flags = o.hard ? RIVULET_RUN_HARD : 0;
	req.run.priority = (uint32_t)(o.priority + (int)RIVULET_PRIO_NORMAL);
	req.run.min_accuracy = o.min_accuracy;
	req.run.deadline = (uint64_t)o.deadline;
	e = rvl_session_post(c, &req, -1);
	if (e)
		return e;
	r->run = req.h.serial;
	r->untold = false;
	r->result = -EINPROGRESS;
	r->have_stats = false;
	r->error[0] = 0;
	return 0;
}

/* The run ended; the callback waits for dispatch, which the eventfd calls for. */
static void finish(struct rivulet_request *r, int result, const char *text)
{
	r->run = 0;
	r->result = result;
	r->untold = true;
	snprintf(r->error, sizeof(r->error), "%s", text);
	eventfd_write(r->model->client->event, 1);
}

static void keep_stats(struct rivulet_request *r, const struct rivulet_msg_run_reply *p)
{
	r->stats = (struct rivulet_run_stats) { .start = p->start, .end = p->end,
		.queue_ns = p->queue_ns, .npu_ns = p->npu_ns, .cpu_ns = p->cpu_ns,
		.expected_ns = p->expected_ns, .cycles = p->cycles, .macs = p->macs,
		.conv_busy = p->conv_busy, .read_bytes = p->read_bytes,
		.write_bytes = p->write_bytes, .energy_pj = p->energy, .npu_steps = p->npu_jobs,
		.cpu_steps = p->cpu_steps, .level_min = p->level_min, .level_max = p->level_max,
		.length = p->length, .accuracy = p->accuracy,
		.late = p->flags & RIVULET_RAN_LATE };
	r->have_stats = true;
}

bool rvl_request_answer(struct rivulet_client *c, const union rivulet_packet *p)
{
	struct rivulet_request *r = c->requests;

	while (r && (!r->run || r->run != p->h.serial))
		r = r->next;
	if (!r)
		return false;
	if (p->h.type == RIVULET_MSG_ERROR) {
		finish(r, p->h.error < 0 ? p->h.error : -EPROTO, p->error.text);
	} else if (p->h.type != (RIVULET_MSG_RUN | RIVULET_REPLY)) {
		rvl_session_close(c, -EBADMSG, "an answer to another question");
	} else {
		keep_stats(r, &p->run_reply);
		copy_plain(r, true);
		finish(r, 0, "");
	}
	return true;
}

void rvl_request_lost(struct rivulet_client *c)
{
	for (struct rivulet_request *r = c->requests; r; r = r->next)
		if (r->run)
			finish(r, c->lost, c->why);
}

/* A callback may start, bind, or drop any request: look from the start again after each. */
int rvl_request_deliver(struct rivulet_client *c)
{
	struct rivulet_request *r;
	eventfd_t unused;
	int n = 0;

	eventfd_read(c->event, &unused);
	rivulet_client_ref(c);
	for (r = c->requests; r; r = r ? r->next : c->requests) {
		if (!r->untold)
			continue;
		r->untold = false;
		n++;
		if (r->done) {
			r->done(r, r->data);
			r = NULL;
		}
	}
	rivulet_client_unref(c);
	return n;
}

/* Tells @r's own end; others stay for dispatch. */
static int deliver_one(struct rivulet_request *r)
{
	int result = r->result;

	if (result < 0)
		rvl_lib_fail(-result, "%s", r->error);
	if (r->untold) {
		r->untold = false;
		if (r->done)
			r->done(r, r->data);
	}
	return result;
}

int rivulet_request_wait(struct rivulet_request *r, int timeout_ms)
{
	int64_t deadline = timeout_ms < 0 ? INT64_MAX : rvl_lib_now() + timeout_ms * 1000000ll;

	while (r->run) {
		int64_t left = deadline == INT64_MAX ? -1 :
			       (deadline - rvl_lib_now() + 999999) / 1000000;
		int e;

		if (deadline != INT64_MAX && left <= 0)
			return rvl_lib_fail(ETIMEDOUT, "the run did not end in %d ms", timeout_ms);
		e = rvl_session_pump(r->model->client, (int)left);
		if (e < 0 && r->run)
			return e;
	}
	return deliver_one(r);
}

int rivulet_request_run(struct rivulet_request *r, const struct rivulet_run_options *opts)
{
	int e = rivulet_request_start(r, opts);

	return e ? e : rivulet_request_wait(r, -1);
}

int rivulet_request_cancel(struct rivulet_request *r)
{
	union rivulet_packet req;

	if (!r->run)
		return rvl_lib_fail(EALREADY, "no run is in flight");
	rvl_session_init(r->model->client, &req, RIVULET_MSG_CANCEL);
	req.cancel.run = r->run;
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

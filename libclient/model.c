// SPDX-License-Identifier: MIT
/*
 * Models. The file is sent to the daemon as a sealed memfd, and the daemon describes its tensors. On
 * a new connection or for another device the model is loaded again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model.h"
#include "sized.h"

#define LOAD_TIMEOUT 120000
#define MAX_GRAPH_IO 65536u

/* ---- what the daemon says about a model ---- */

/* A tensor that the daemon described is believed only if its size is what shape and type say. */
int rvl_check_tensor(const struct rivulet_msg_tensor_reply *t)
{
#define DTYPE_BYTES(name, value, text, size, npy, onnx) [RIVULET_##name] = (size),
	static const uint8_t bytes[] = { RIVULET_DTYPES(DTYPE_BYTES) };
#undef DTYPE_BYTES
	uint64_t size;

	if (t->ndim > RIVULET_MAX_DIMS || t->dtype >= sizeof(bytes) || !bytes[t->dtype])
		return -EBADMSG;
	size = bytes[t->dtype];
	for (uint32_t i = 0; i < t->ndim; i++)
		if (__builtin_mul_overflow(size, t->dim[i], &size))
			return -EBADMSG;
	return size == t->size ? 0 : -EBADMSG;
}

static void keep_tensor(struct rvl_model_tensor *t, bool output,
			const struct rivulet_msg_tensor_reply *r)
{
	memcpy(t->name, r->name, sizeof(t->name));
	t->info = (struct rivulet_tensor_info) { .size = sizeof(t->info), .name = t->name,
		.output = output, .dtype = r->dtype, .ndim = r->ndim, .bytes = r->size,
		.scale = r->scale, .zero_point = r->zero_point,
		.bounded = output && r->flags & RIVULET_TENSOR_BOUNDED };
	memcpy(t->info.dim, r->dim, sizeof(t->info.dim));
}

static void keep_model_info(struct rivulet_model *m, const struct rivulet_msg_load_reply *r)
{
	m->info = (struct rivulet_model_info) { .size = sizeof(m->info), .npu_steps = r->npu_steps,
		.cpu_steps = r->cpu_steps, .cached = r->cached, .program_size = r->program_size,
		.arena_size = r->arena_size, .compile_ns = r->compile_ns, .macs = r->macs,
		.cycles = r->cycles, .expected_ns = r->expected_ns };
	memcpy(m->info.hash, r->hash, sizeof(m->info.hash));
}

/* ---- the end of a load ---- */

static void finish(struct rivulet_model *m, int result, const char *text)
{
	m->loading = false;
	m->client->preparing--;
	m->result = result;
	m->undelivered = true;
	snprintf(m->error, sizeof(m->error), "%s", text);
	rvl_client_notify(m->client);
}

/* Ends the first load, or what waits for a later one. */
static void failed(struct rivulet_model *m, int error)
{
	char text[512];

	snprintf(text, sizeof(text), "%s", rivulet_last_error());
	if (m->loading)
		finish(m, error, text);
	rvl_requests_model_failed(m, error, text);
}

void rvl_models_closed(struct rivulet_client *c, int error)
{
	for (struct rivulet_model *m = c->models; m; m = m->next)
		if (m->loading)
			finish(m, error, c->why);
}

/* ---- the requests of a load, one after the other ---- */

static void tensor_done(struct rvl_call *call, int result, union rivulet_packet *reply, int fd)
{
	struct rivulet_model *m = call->owner;

	rvl_lib_close(fd);
	if (result) {
		failed(m, result);
	} else if (rvl_check_tensor(&reply->tensor_reply)) {
		rvl_session_close(m->client, -EBADMSG, "the daemon described an impossible tensor");
	} else {
		keep_tensor(&m->tensor[m->described], m->described >= m->inputs, &reply->tensor_reply);
		m->bounded |= m->tensor[m->described].info.bounded;
		m->described++;
	}
}

static int ask_tensor(struct rivulet_model *m)
{
	bool output = m->described >= m->inputs;
	union rivulet_packet req;
	int r;

	rvl_session_init(m->client, &req, RIVULET_MSG_TENSOR);
	req.tensor.model = m->id;
	req.tensor.dir = output ? RIVULET_DIR_OUTPUT : RIVULET_DIR_INPUT;
	req.tensor.index = output ? m->described - m->inputs : m->described;
	m->call.done = tensor_done;
	r = rvl_call_start(m->client, &m->call, &req, -1, RVL_CALL_TIMEOUT);
	return r ? r : -EINPROGRESS;
}

/* The number of tensors is known after the first load, and stays. */
static bool take_counts(struct rivulet_model *m, const struct rivulet_msg_load_reply *r)
{
	const char *why = NULL;

	if (r->inputs > MAX_GRAPH_IO || r->outputs > MAX_GRAPH_IO)
		why = "the model has too many tensors";
	else if (m->tensor && (m->inputs != r->inputs || m->count != r->inputs + r->outputs))
		why = "the model has other tensors than when it was loaded before";
	if (why) {
		rvl_session_close(m->client, -EBADMSG, why);
		return false;
	}
	m->inputs = r->inputs;
	m->count = r->inputs + r->outputs;
	if (!m->tensor)
		m->tensor = calloc(m->count + 1, sizeof(*m->tensor));
	if (m->tensor)
		return true;
	rvl_lib_fail(ENOMEM, "out of memory");
	failed(m, -ENOMEM);
	return false;
}

static void load_done(struct rvl_call *call, int result, union rivulet_packet *reply, int fd)
{
	struct rivulet_model *m = call->owner;

	if (result) {
		failed(m, result);
		return;
	}
	rvl_lib_close(m->program);
	m->program = fd;
	if (!take_counts(m, &reply->load_reply))
		return;
	m->id = reply->load_reply.model;
	m->connection = m->client->connection;
	m->generation++;
	keep_model_info(m, &reply->load_reply);
}

static int ask_load(struct rivulet_model *m)
{
	union rivulet_packet req;
	int r;

	rvl_session_init(m->client, &req, RIVULET_MSG_LOAD);
	m->load.h = req.h;
	req.load = m->load;
	m->call.done = load_done;
	r = rvl_call_start(m->client, &m->call, &req, m->file.memfd, m->timeout_ms);
	return r ? r : -EINPROGRESS;
}

static bool is_loaded(const struct rivulet_model *m)
{
	return m->id && m->connection == m->client->connection;
}

int rvl_model_ready(struct rivulet_model *m)
{
	int r = rvl_client_connect(m->client);

	if (r)
		return r;
	if (m->call.active)
		return -EINPROGRESS;
	if (is_loaded(m))
		return m->described < m->count ? ask_tensor(m) : 0;
	if (m->file.size > m->client->info.max_model)
		return rvl_lib_fail(EFBIG, "%s: %llu bytes; the daemon takes 1 to %llu", m->load.name,
				    (unsigned long long)m->file.size,
				    (unsigned long long)m->client->info.max_model);
	r = rvl_file_continue(&m->file);
	if (r == -EINPROGRESS)
		m->client->again = true;
	return r ? r : ask_load(m);
}

static void unload(struct rivulet_model *m)
{
	union rivulet_packet req;

	if (is_loaded(m) && m->client->link == RVL_LINK_UP) {
		rvl_session_init(m->client, &req, RIVULET_MSG_UNLOAD);
		req.model.model = m->id;
		rvl_session_post(m->client, &req, -1);
	}
	m->id = 0;
}

void rvl_model_reload(struct rivulet_model *m)
{
	unload(m);
}

void rvl_models_step(struct rivulet_client *c)
{
	for (struct rivulet_model *m = c->models; m; m = m->next) {
		int r = m->loading ? rvl_model_ready(m) : -EINPROGRESS;

		/* A step that closed the connection has ended the load already. */
		if (r != -EINPROGRESS && m->loading)
			finish(m, r, r ? rivulet_last_error() : "");
	}
}

int rvl_models_deliver(struct rivulet_client *c)
{
	struct rivulet_model *m = c->models;
	int n = 0;

	/* A callback may release any model, so that the search starts again after each. */
	while (m) {
		if (!m->undelivered) {
			m = m->next;
			continue;
		}
		m->undelivered = false;
		n++;
		if (m->done) {
			m->done(m, m->data);
			m = c->models;
		}
	}
	return n;
}

/* ---- starting and waiting ---- */

static void fill_load(struct rivulet_model *m, const char *name, const struct rivulet_load_options *o)
{
	m->load.size = m->file.size;
	m->load.batch = o->batch;
	m->load.symbol = o->symbol;
	m->load.flags = (o->program ? RIVULET_LOAD_PROGRAM : 0) |
			(o->require_npu ? RIVULET_LOAD_REQUIRE_NPU : 0) |
			(o->keep_program ? RIVULET_LOAD_WANT_FD : 0);
	rivulet_proto_name(m->load.name, sizeof(m->load.name), o->name ? o->name : name);
	m->timeout_ms = o->timeout_ms ? (int)o->timeout_ms : LOAD_TIMEOUT;
}

/* Takes the file in any case. */
static int start(struct rivulet_client *c, struct rvl_file *file, const char *name,
		 const struct rivulet_load_options *o, struct rivulet_model **out)
{
	struct rivulet_model *m = calloc(1, sizeof(*m));
	int r;

	if (!m) {
		rvl_file_close(file);
		return rvl_lib_fail(ENOMEM, "out of memory");
	}
	m->refs = 1;
	m->client = rivulet_client_ref(c);
	m->next = c->models;
	c->models = m;
	m->file = *file;
	m->program = -1;
	m->call.owner = m;
	m->result = -EINPROGRESS;
	fill_load(m, name, o);
	rvl_client_pump(c);
	r = rvl_model_ready(m);
	if (r != -EINPROGRESS) {
		rivulet_model_unref(m);
		return r;
	}
	m->loading = true;
	c->preparing++;
	rvl_client_started(c);
	*out = m;
	return 0;
}

int rivulet_model_load_start(struct rivulet_client *c, const char *path,
			     const struct rivulet_load_options *opts, struct rivulet_model **out)
{
	const char *base = strrchr(path, '/');
	struct rivulet_load_options o;
	struct rvl_file f;
	int r = RVL_READ(&o, opts, rivulet_load_options, timeout_ms);

	r = r ? r : rvl_file_open(&f, path);
	return r ? r : start(c, &f, base ? base + 1 : path, &o, out);
}

int rivulet_model_load_memory_start(struct rivulet_client *c, const void *data, size_t size,
				    const struct rivulet_load_options *opts,
				    struct rivulet_model **out)
{
	struct rivulet_load_options o;
	struct rvl_file f;
	int r = RVL_READ(&o, opts, rivulet_load_options, timeout_ms);

	r = r ? r : rvl_file_memory(&f, data, size);
	return r ? r : start(c, &f, "model", &o, out);
}

int rivulet_model_wait(struct rivulet_model *m, int timeout_ms)
{
	int64_t deadline = rvl_deadline(timeout_ms);
	int result;

	while (m->loading && rvl_client_poll(m->client, deadline))
		;
	if (m->loading)
		return rvl_lib_fail(ETIMEDOUT, "the model is not loaded after %d ms", timeout_ms);
	/* The callback may release the model. */
	rivulet_model_ref(m);
	if (m->undelivered) {
		m->undelivered = false;
		if (m->done)
			m->done(m, m->data);
	}
	result = m->result;
	if (result)
		rvl_lib_fail(-result, "%s", m->error);
	rivulet_model_unref(m);
	return result;
}

/* The blocking forms: what was started is waited for, and released when it failed. */
static int complete(int r, struct rivulet_model *m, struct rivulet_model **out)
{
	r = r ? r : rivulet_model_wait(m, -1);
	if (!r) {
		*out = m;
	} else if (m) {
		char text[512];

		snprintf(text, sizeof(text), "%s", rivulet_last_error());
		rivulet_model_unref(m);
		rvl_lib_fail(-r, "%s", text);
	}
	return r;
}

int rivulet_model_load(struct rivulet_client *c, const char *path,
		       const struct rivulet_load_options *opts, struct rivulet_model **out)
{
	struct rivulet_model *m = NULL;
	int r = rivulet_model_load_start(c, path, opts, &m);

	return complete(r, m, out);
}

int rivulet_model_load_memory(struct rivulet_client *c, const void *data, size_t size,
			      const struct rivulet_load_options *opts, struct rivulet_model **out)
{
	struct rivulet_model *m = NULL;
	int r = rivulet_model_load_memory_start(c, data, size, opts, &m);

	return complete(r, m, out);
}

int rivulet_model_result(const struct rivulet_model *m)
{
	return m->result;
}

const char *rivulet_model_error(const struct rivulet_model *m)
{
	return m->error;
}

void rivulet_model_on_loaded(struct rivulet_model *m,
			     void (*fn)(struct rivulet_model *m, void *data), void *data)
{
	m->done = fn;
	m->data = data;
}

struct rivulet_model *rivulet_model_ref(struct rivulet_model *m)
{
	if (m)
		m->refs++;
	return m;
}

struct rivulet_model *rivulet_model_unref(struct rivulet_model *m)
{
	struct rivulet_model **p;

	if (!m || --m->refs)
		return NULL;
	for (p = &m->client->models; *p != m; p = &(*p)->next)
		;
	*p = m->next;
	if (m->loading)
		m->client->preparing--;
	rvl_call_drop(m->client, &m->call);
	unload(m);
	rvl_lib_close(m->program);
	rvl_file_close(&m->file);
	rivulet_client_unref(m->client);
	free(m->tensor);
	free(m);
	return NULL;
}

/* ---- properties ---- */

int rivulet_model_info(const struct rivulet_model *m, struct rivulet_model_info *info)
{
	return RVL_WRITE(info, &m->info, rivulet_model_info, hash);
}

uint32_t rivulet_model_inputs(const struct rivulet_model *m)
{
	return m->result ? 0 : m->inputs;
}

uint32_t rivulet_model_outputs(const struct rivulet_model *m)
{
	return m->result ? 0 : m->count - m->inputs;
}

int rivulet_model_tensor(const struct rivulet_model *m, uint32_t index,
			 struct rivulet_tensor_info *info)
{
	if (m->result || index >= m->count)
		return rvl_lib_fail(ERANGE, "tensor %u of %u", index, m->result ? 0 : m->count);
	return RVL_WRITE(info, &m->tensor[index].info, rivulet_tensor_info, zero_point);
}

int rivulet_model_find(const struct rivulet_model *m, const char *name)
{
	for (uint32_t i = 0; !m->result && i < m->count; i++)
		if (!strcmp(m->tensor[i].name, name))
			return (int)i;
	return rvl_lib_fail(ENOENT, "the model has no input or output \"%s\"", name);
}

int rivulet_model_program(struct rivulet_model *m, int *fd)
{
	if (m->program < 0)
		return rvl_lib_fail(ENODATA, "the model was loaded without keep_program");
	*fd = fcntl(m->program, F_DUPFD_CLOEXEC, 3);
	return *fd < 0 ? rvl_lib_fail(errno, "dup: %s", strerror(errno)) : 0;
}

// SPDX-License-Identifier: MIT
/* Models: a sealed memfd to the daemon, its tensors back. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model.h"
#include "sized.h"

#define LOAD_TIMEOUT 120000
#define MAX_GRAPH_IO 65536u
#define COPY_PIECE (1u << 20)

/* A tensor that the daemon described is believed only if its size is what shape and type say. */
static int check_tensor(const struct rivulet_msg_tensor_reply *t)
{
	static const uint8_t bytes[] = { [RIVULET_F32] = 4, [RIVULET_U8] = 1, [RIVULET_S8] = 1,
					 [RIVULET_S32] = 4, [RIVULET_S64] = 8, [RIVULET_BOOL] = 1 };
	uint64_t size;

	if (t->ndim > RIVULET_MAX_DIMS || t->dtype >= sizeof(bytes) || !bytes[t->dtype])
		return -EBADMSG;
	size = bytes[t->dtype];
	for (uint32_t i = 0; i < t->ndim; i++)
		if (__builtin_mul_overflow(size, t->dim[i], &size))
			return -EBADMSG;
	return size == t->size ? 0 : -EBADMSG;
}

static int fetch_tensor(struct rivulet_model *m, uint32_t index)
{
	struct rvl_model_tensor *t = &m->tensor[index];
	union rivulet_packet req, reply;
	bool output = index >= m->inputs;
	int r;

	rvl_session_init(m->client, &req, RIVULET_MSG_TENSOR);
	req.tensor.model = m->id;
	req.tensor.dir = output ? RIVULET_DIR_OUTPUT : RIVULET_DIR_INPUT;
	req.tensor.index = output ? index - m->inputs : index;
	r = rvl_session_call(m->client, &req, -1, RVL_CALL_TIMEOUT, &reply, NULL);
	if (r)
		return r;
	if (check_tensor(&reply.tensor_reply))
		return rvl_session_close(m->client, -EBADMSG, "a tensor that contradicts itself");
	memcpy(t->name, reply.tensor_reply.name, sizeof(t->name));
	t->info = (struct rivulet_tensor_info) { .size = sizeof(t->info), .name = t->name, .output = output,
		.dtype = reply.tensor_reply.dtype, .ndim = reply.tensor_reply.ndim,
		.bytes = reply.tensor_reply.size, .scale = reply.tensor_reply.scale,
		.zero_point = reply.tensor_reply.zero_point };
	memcpy(t->info.dim, reply.tensor_reply.dim, sizeof(t->info.dim));
	return 0;
}

static void keep_model_info(struct rivulet_model *m, const struct rivulet_msg_load_reply *r)
{
	m->info = (struct rivulet_model_info) { .npu_steps = r->npu_steps,
		.cpu_steps = r->cpu_steps, .cached = r->cached, .program_size = r->program_size,
		.arena_size = r->arena_size, .compile_ns = r->compile_ns, .macs = r->macs,
		.cycles = r->cycles, .expected_ns = r->expected_ns };
	memcpy(m->info.hash, r->hash, sizeof(m->info.hash));
}

static void forget_id(struct rivulet_model *m)
{
	union rivulet_packet req;

	if (m->id && !m->client->lost && m->connection == m->client->connection) {
		rvl_session_init(m->client, &req, RIVULET_MSG_UNLOAD);
		req.model.model = m->id;
		rvl_session_post(m->client, &req, -1);
	}
	m->id = 0;
}

/* The daemon has the model; what does it say of its tensors? */
static int describe(struct rivulet_model *m, const struct rivulet_msg_load_reply *r)
{
	int e = 0;

	if (r->inputs > MAX_GRAPH_IO || r->outputs > MAX_GRAPH_IO)
		return rvl_session_close(m->client, -EBADMSG, "a model of too many tensors");
	m->inputs = r->inputs;
	m->count = r->inputs + r->outputs;
	m->tensor = calloc(m->count + 1, sizeof(*m->tensor));
	if (!m->tensor)
		return rvl_lib_fail(ENOMEM, "out of memory");
	for (uint32_t i = 0; !e && i < m->count; i++)
		e = fetch_tensor(m, i);
	return e;
}

/* LOAD as it was asked for, for the first time or again. */
static int load(struct rivulet_model *m)
{
	struct rivulet_client *c = m->client;
	union rivulet_packet req, reply;
	int program, r;

	rvl_session_init(c, &req, RIVULET_MSG_LOAD);
	m->load.h = req.h;
	req.load = m->load;
	r = rvl_session_call(c, &req, m->file, m->timeout_ms, &reply, &program);
	if (r) {
		rvl_lib_close(program);
		return r;
	}
	rvl_lib_close(m->program);
	m->program = program;
	m->id = reply.load_reply.model;
	m->connection = c->connection;
	if (!m->tensor)
		r = describe(m, &reply.load_reply);
	else if (m->inputs != reply.load_reply.inputs ||
		 m->count != m->inputs + reply.load_reply.outputs)
		r = rvl_session_close(c, -EBADMSG, "a model loaded again has other tensors");
	keep_model_info(m, &reply.load_reply);
	return r;
}

int rvl_model_ready(struct rivulet_model *m, bool anew)
{
	int r = rvl_client_revive(m->client);

	if (r || (m->id && !anew && m->connection == m->client->connection))
		return r;
	forget_id(m);
	return load(m);
}

static void fill_load(struct rivulet_model *m, uint64_t size, const char *name,
		      const struct rivulet_load_options *o)
{
	m->load.size = size;
	m->load.batch = o->batch;
	m->load.symbol = o->symbol;
	m->load.flags = (o->program ? RIVULET_LOAD_PROGRAM : 0) |
			(o->require_npu ? RIVULET_LOAD_REQUIRE_NPU : 0) |
			(o->keep_program ? RIVULET_LOAD_WANT_FD : 0);
	rivulet_proto_name(m->load.name, sizeof(m->load.name), o->name ? o->name : name);
	m->timeout_ms = o->timeout_ms ? (int)o->timeout_ms : LOAD_TIMEOUT;
}

/* Seals and sends a memfd, which is taken in any case. */
static int load_sealed(struct rivulet_client *c, int fd, uint64_t size, const char *name,
		       const struct rivulet_load_options *opts, struct rivulet_model **out)
{
	struct rivulet_model *m = calloc(1, sizeof(*m));
	struct rivulet_load_options o;
	int r;

	if (!m) {
		rvl_lib_close(fd);
		return rvl_lib_fail(ENOMEM, "out of memory");
	}
	m->refs = 1;
	m->client = rivulet_client_ref(c);
	m->file = fd;
	m->program = -1;
	r = RVL_READ(&o, opts, rivulet_load_options, timeout_ms);
	fill_load(m, size, name, &o);
	if (r)
		goto out;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
		r = rvl_lib_fail(errno, "sealing a memfd: %s", strerror(errno));
	else
		r = rvl_model_ready(m, true);
out:
	if (r) {
		rivulet_model_unref(m);
		return r;
	}
	*out = m;
	return 0;
}

static int new_memfd(struct rivulet_client *c, uint64_t size, const char *name, int *out)
{
	int fd;

	if (!size || size > c->info.max_model)
		return rvl_lib_fail(size ? EFBIG : EINVAL, "%s: %llu bytes; the daemon takes 1 to %llu",
				    name, (unsigned long long)size,
				    (unsigned long long)c->info.max_model);
	fd = memfd_create("rivulet-model", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return rvl_lib_fail(errno, "memfd: %s", strerror(errno));
	*out = fd;
	return 0;
}

static int write_all(int fd, const void *data, size_t size)
{
	const char *p = data;

	while (size) {
		ssize_t n = write(fd, p, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return rvl_lib_fail(errno, "writing a memfd: %s", strerror(errno));
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

int rivulet_model_load_memory(struct rivulet_client *c, const void *data, size_t size,
			      const struct rivulet_load_options *opts, struct rivulet_model **out)
{
	int fd = -1, r = new_memfd(c, size, "model", &fd);

	if (r)
		return r;
	r = write_all(fd, data, size);
	if (r) {
		rvl_lib_close(fd);
		return r;
	}
	return load_sealed(c, fd, size, "model", opts, out);
}

/* Copies exactly @size bytes; a file that shrinks meanwhile is an error, not a short model. */
static int copy_file(int from, int to, uint64_t size, const char *path)
{
	char *piece = malloc(COPY_PIECE);
	int r = piece ? 0 : rvl_lib_fail(ENOMEM, "out of memory");

	while (!r && size) {
		ssize_t n = read(from, piece, size < COPY_PIECE ? size : COPY_PIECE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			r = rvl_lib_fail(n ? errno : EIO, "%s: %s", path,
					 n ? strerror(errno) : "the file became shorter");
		else
			r = write_all(to, piece, (size_t)n);
		size -= r ? 0 : (uint64_t)n;
	}
	free(piece);
	return r;
}

static int copy_to_memfd(struct rivulet_client *c, const char *path, int *out, uint64_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	int mem = -1, r;

	if (fd < 0 || fstat(fd, &st)) {
		rvl_lib_close(fd);
		return rvl_lib_fail(errno, "%s: %s", path, strerror(errno));
	}
	if (!S_ISREG(st.st_mode))
		r = rvl_lib_fail(EINVAL, "%s: not a regular file", path);
	else
		r = new_memfd(c, (uint64_t)st.st_size, path, &mem);
	if (!r) {
		r = copy_file(fd, mem, (uint64_t)st.st_size, path);
		if (r)
			rvl_lib_close(mem);
	}
	rvl_lib_close(fd);
	*out = r ? -1 : mem;
	*size = (uint64_t)st.st_size;
	return r;
}

int rivulet_model_load(struct rivulet_client *c, const char *path,
		       const struct rivulet_load_options *opts, struct rivulet_model **out)
{
	const char *base = strrchr(path, '/');
	uint64_t size = 0;
	int fd = -1, r = copy_to_memfd(c, path, &fd, &size);

	return r ? r : load_sealed(c, fd, size, base ? base + 1 : path, opts, out);
}

struct rivulet_model *rivulet_model_ref(struct rivulet_model *m)
{
	if (m)
		m->refs++;
	return m;
}

struct rivulet_model *rivulet_model_unref(struct rivulet_model *m)
{
	if (!m || --m->refs)
		return NULL;
	forget_id(m);
	rvl_lib_close(m->program);
	rvl_lib_close(m->file);
	rivulet_client_unref(m->client);
	free(m->tensor);
	free(m);
	return NULL;
}

int rivulet_model_info(const struct rivulet_model *m, struct rivulet_model_info *info)
{
	return RVL_WRITE(info, &m->info, rivulet_model_info, hash);
}

uint32_t rivulet_model_inputs(const struct rivulet_model *m)
{
	return m->inputs;
}

uint32_t rivulet_model_outputs(const struct rivulet_model *m)
{
	return m->count - m->inputs;
}

int rivulet_model_tensor(const struct rivulet_model *m, uint32_t index,
			 struct rivulet_tensor_info *info)
{
	if (index >= m->count)
		return rvl_lib_fail(ERANGE, "tensor %u of %u", index, m->count);
	return RVL_WRITE(info, &m->tensor[index].info, rivulet_tensor_info, zero_point);
}

int rivulet_model_find(const struct rivulet_model *m, const char *name)
{
	for (uint32_t i = 0; i < m->count; i++)
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

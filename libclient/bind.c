// SPDX-License-Identifier: MIT
/*
 * Bindings: which memory a tensor of a request has. BIND is sent when the request is
 * prepared.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "request.h"

/* ---- memory ---- */

/* A memfd of the tensor's size, sealed against shrinking as the daemon demands, mapped here. */
static int make_shared(uint64_t size, int *out, void **map)
{
	int fd = memfd_create("rivulet-tensor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, (off_t)size) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		int err = errno;

		rvl_lib_close(fd);
		return rvl_lib_fail(err, "shared memory of %llu bytes: %s", (unsigned long long)size,
				    strerror(err));
	}
	*out = fd;
	*map = p;
	return 0;
}

/*
 * A fresh memfd with the same bytes. The daemon of an earlier connection, or a run that was
 * dropped, may still write the old one.
 */
static int renew_shared(struct rvl_binding *b, uint64_t size)
{
	void *map;
	int r = make_shared(size, &b->fd, &map);

	if (r)
		return r;
	memcpy(map, b->shared, size);
	munmap(b->shared, size);
	b->shared = map;
	return 0;
}

static int export_buffer(struct rivulet_buffer *buf, bool output, int *fd)
{
	int r = rivulet_buffer_export(buf, output, fd);

	/* Another exporter's memory keeps the rights that it came with. */
	return r == -EOPNOTSUPP && !output ? rivulet_buffer_export(buf, true, fd) : r;
}

/* The descriptor that BIND sends; for a binding that was sent before it is made again. */
static int have_fd(struct rivulet_request *r, struct rvl_binding *b, uint32_t i)
{
	const struct rivulet_tensor_info *t = &r->model->tensor[i].info;
	int e;

	if (b->fd >= 0)
		return 0;
	if (!b->buf)
		return renew_shared(b, t->bytes);
	e = export_buffer(b->buf, b->output, &b->fd);
	if (e == -ENODEV)
		return rvl_lib_fail(ENODEV, "tensor %s is bound to a buffer of a device that is gone: "
				    "bind it again", t->name);
	return e;
}

/* ---- BIND ---- */

static void bind_done(struct rvl_call *call, int result, union rivulet_packet *reply, int fd)
{
	struct rvl_binding *b = call->owner;

	(void)reply;
	rvl_lib_close(fd);
	b->request->pending--;
	if (result) {
		b->sent = false;
		rvl_request_failed(b->request, result);
	}
}

int rvl_bind_send(struct rivulet_request *r, uint32_t i)
{
	struct rvl_binding *b = &r->bind[i];
	union rivulet_packet req;
	int e = have_fd(r, b, i);

	if (e)
		return e;
	rvl_session_init(r->model->client, &req, RIVULET_MSG_BIND);
	req.bind.instance = r->id;
	req.bind.dir = b->output ? RIVULET_DIR_OUTPUT : RIVULET_DIR_INPUT;
	req.bind.index = b->output ? i - r->model->inputs : i;
	req.bind.offset = b->offset;
	req.bind.size = r->model->tensor[i].info.bytes;
	b->call.owner = b;
	b->call.done = bind_done;
	e = rvl_call_start(r->model->client, &b->call, &req, b->fd, RVL_CALL_TIMEOUT);
	if (e)
		return e;
	/* The socket holds its own reference. */
	if (!b->dmabuf)
		b->fd = rvl_lib_close(b->fd);
	b->sent = true;
	r->pending++;
	return 0;
}

void rvl_bind_copy(struct rivulet_request *r, bool outputs)
{
	for (uint32_t i = 0; i < r->model->count; i++) {
		struct rvl_binding *b = &r->bind[i];
		uint64_t bytes = outputs && b->output ? r->found[i - r->model->inputs].bytes :
					    r->model->tensor[i].info.bytes;

		if (!b->user || b->output != outputs)
			continue;
		if (outputs)
			memcpy(b->user, b->shared, bytes);
		else
			memcpy(b->shared, b->user, bytes);
	}
}

/* ---- what the program binds ---- */

void rvl_bind_release(struct rivulet_request *r, uint32_t i)
{
	struct rvl_binding *b = &r->bind[i];

	if (b->call.active)
		r->pending--;
	rvl_call_drop(r->model->client, &b->call);
	rivulet_buffer_unref(b->buf);
	rvl_lib_close(b->fd);
	if (b->shared)
		munmap(b->shared, r->model->tensor[i].info.bytes);
	*b = (struct rvl_binding) { .fd = -1, .request = r, .output = i >= r->model->inputs };
}

static int check_bind(const struct rivulet_request *r, uint32_t tensor)
{
	if (tensor >= r->model->count)
		return rvl_lib_fail(ERANGE, "tensor %u of %u", tensor, r->model->count);
	if (r->phase != RVL_IDLE)
		return rvl_lib_fail(EBUSY, "tensor %s cannot be bound during a run",
				    r->model->tensor[tensor].name);
	return 0;
}

static int check_offset(const struct rivulet_request *r, uint32_t tensor, uint64_t offset)
{
	if (offset % RIVULET_PROGRAM_ALIGN)
		return rvl_lib_fail(EINVAL, "tensor %s: offset %llu is no multiple of %u",
				    r->model->tensor[tensor].name, (unsigned long long)offset,
				    RIVULET_PROGRAM_ALIGN);
	return 0;
}

int rivulet_bind_dmabuf(struct rivulet_request *r, uint32_t tensor, int dmabuf, uint64_t offset)
{
	int fd, e = check_bind(r, tensor);

	e = e ? e : check_offset(r, tensor, offset);
	if (e)
		return e;
	fd = fcntl(dmabuf, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return rvl_lib_fail(errno, "dma-buf %d: %s", dmabuf, strerror(errno));
	rvl_bind_release(r, tensor);
	r->bind[tensor].fd = fd;
	r->bind[tensor].dmabuf = r->bind[tensor].bound = true;
	r->bind[tensor].offset = offset;
	return 0;
}

int rivulet_bind_buffer(struct rivulet_request *r, uint32_t tensor, struct rivulet_buffer *buf,
			uint64_t offset)
{
	int fd, e = check_bind(r, tensor);

	e = e ? e : check_offset(r, tensor, offset);
	e = e ? e : export_buffer(buf, r->bind[tensor].output, &fd);
	if (e)
		return e;
	rivulet_buffer_ref(buf);
	rvl_bind_release(r, tensor);
	r->bind[tensor].fd = fd;
	r->bind[tensor].buf = buf;
	r->bind[tensor].bound = true;
	r->bind[tensor].offset = offset;
	return 0;
}

int rivulet_bind_memory(struct rivulet_request *r, uint32_t tensor, void *data, size_t size)
{
	const struct rivulet_tensor_info *t;
	struct rvl_binding *b;
	void *map;
	int fd, e = check_bind(r, tensor);

	if (e)
		return e;
	b = &r->bind[tensor];
	t = &r->model->tensor[tensor].info;
	if (!data || !t->bytes || size < t->bytes)
		return rvl_lib_fail(EINVAL, "tensor %s has %llu bytes, the memory %zu", t->name,
				    (unsigned long long)t->bytes, size);
	/* The daemon has the memfd already: only the program's side of the copy changes. */
	if (b->shared) {
		b->user = data;
		return 0;
	}
	e = make_shared(t->bytes, &fd, &map);
	if (e)
		return e;
	rvl_bind_release(r, tensor);
	b->fd = fd;
	b->shared = map;
	b->user = data;
	b->bound = true;
	return 0;
}

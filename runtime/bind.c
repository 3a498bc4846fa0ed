// SPDX-License-Identifier: MIT
/*
 * Inputs and outputs: plain memory, buffers, dma-bufs, memfds.
 *
 * Another process may change the memory behind a descriptor at any time. Where a CPU step uses data
 * as an address, an index that was checked could be another one when it is used, so such a tensor
 * is copied: inputs before the run, outputs after it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "rivulet.h"
#include "rivulet_accel.h"

static const struct rivulet_tensor *io_tensor(const struct rivulet_exec *x, uint32_t i)
{
	return &rivulet_program_tensors(x->img->prog)[i];
}

static bool is_output(const struct rivulet_exec *x, uint32_t tensor)
{
	return tensor >= x->img->prog->inputs;
}

static int check_bind(const struct rivulet_exec *x, uint32_t tensor, uint64_t offset, uint64_t have,
		      struct rivulet_runtime_error *err)
{
	const struct rivulet_program *p = x->img->prog;
	const struct rivulet_tensor *t = io_tensor(x, tensor);

	if (tensor >= p->inputs + p->outputs)
		return rvl_rt_fail(err, ERANGE, "tensor %u of %u", tensor, p->inputs + p->outputs);
	if (x->busy)
		return rvl_rt_fail(err, EBUSY, "tensor %s cannot be bound during a run",
				   rivulet_program_string(p, t->name));
	if (offset % 64)
		return rvl_rt_fail(err, EINVAL, "tensor %s: offset %llu is no multiple of 64",
				   rivulet_program_string(p, t->name), (unsigned long long)offset);
	if (offset > have || t->size > have - offset)
		return rvl_rt_fail(err, EINVAL,
				   "tensor %s has %llu bytes; the memory has %llu from offset %llu on",
				   rivulet_program_string(p, t->name), (unsigned long long)t->size,
				   (unsigned long long)have, (unsigned long long)offset);
	return 0;
}

/* Whether an NPU step uses this tensor, so that the back end needs it in its own memory. */
static bool npu_sees(const struct rivulet_exec *x, uint32_t tensor)
{
	return tensor < RIVULET_MAX_IO && x->img->io_slots >> (RIVULET_SLOT_IO + tensor) & 1;
}

void rvl_rt_unbind(struct rvl_rt_binding *b)
{
	rvl_rt_mem_free(&b->mem);
	rivulet_buffer_unref(b->from);
	b->from = NULL;
}

static void set_binding(struct rivulet_exec *x, uint32_t tensor, const struct rvl_rt_mem *m, void *user)
{
	struct rvl_rt_binding *b = &x->bind[tensor];

	rvl_rt_unbind(b);
	*b = (struct rvl_rt_binding) { .bound = true, .mem = *m, .user = user };
}

/*
 * Plain memory, which @m may own. NPU steps on the kernel driver need a copy of it in a buffer.
 * @shared: another process may change it.
 */
static int bind_plain(struct rivulet_exec *x, uint32_t tensor, struct rvl_rt_mem *m, bool shared,
		      struct rivulet_runtime_error *err)
{
	struct rivulet_runtime *rt = x->img->rt;
	struct rvl_rt_mem copy;
	int r;

	if (!(shared && x->img->addresses[tensor]) &&
	    (rt->backend->plain_memory || !npu_sees(x, tensor))) {
		set_binding(x, tensor, m, NULL);
		return 0;
	}
	r = rt->backend->mem_alloc(rt, m->size, &copy, err);
	if (r)
		return r;
	/* The binding owns the mapping of a memfd, whose bytes it copies from and to. */
	copy.map = m->map;
	copy.map_size = m->map_size;
	set_binding(x, tensor, &copy, m->host);
	return 0;
}

int rivulet_exec_bind_memory(struct rivulet_exec *x, uint32_t tensor, void *data, size_t size,
			     struct rivulet_runtime_error *err)
{
	int r = check_bind(x, tensor, 0, size, err);
	struct rvl_rt_mem m = { .host = data };

	if (r)
		return r;
	m.size = io_tensor(x, tensor)->size;
	if ((uintptr_t)data % 8)
		return rvl_rt_fail(err, EINVAL, "tensor %s: memory is not aligned to 8 bytes",
				   rivulet_program_string(x->img->prog, io_tensor(x, tensor)->name));
	return bind_plain(x, tensor, &m, false, err);
}

/* Takes a reference to @buf. @shared: another process may change it. */
static int bind_buffer(struct rivulet_exec *x, uint32_t tensor, struct rivulet_buffer *buf,
		       uint64_t offset, bool shared, struct rivulet_runtime_error *err)
{
	struct rvl_rt_mem m = { .offset = offset };
	void *base;
	int r = check_bind(x, tensor, offset, rivulet_buffer_size(buf), err);

	if (r)
		return r;
	if (!x->img->rt->dev)
		return rvl_rt_fail(err, EOPNOTSUPP, "the model has no buffers; bind memory");
	if (is_output(x, tensor) && rivulet_buffer_flags(buf) & DRM_RIVULET_BO_READONLY)
		return rvl_rt_fail(err, EACCES, "output %s: the buffer is read-only",
				   rivulet_program_string(x->img->prog, io_tensor(x, tensor)->name));
	if (rivulet_buffer_map(buf, &base))
		return rvl_rt_fail(err, EIO, "%s", rivulet_last_error());
	m.host = (char *)base + offset;
	m.size = io_tensor(x, tensor)->size;
	if (shared && x->img->addresses[tensor]) {
		r = bind_plain(x, tensor, &m, true, err);
	} else {
		m.buf = rivulet_buffer_ref(buf);
		set_binding(x, tensor, &m, NULL);
	}
	if (!r && shared && x->img->on_cpu[tensor]) {
		x->bind[tensor].from = rivulet_buffer_ref(buf);
		x->bind[tensor].from_offset = offset;
	}
	return r;
}

int rivulet_exec_bind_buffer(struct rivulet_exec *x, uint32_t tensor, struct rivulet_buffer *buf,
			     uint64_t offset, struct rivulet_runtime_error *err)
{
	return bind_buffer(x, tensor, buf, offset, false, err);
}

/* -ENOTTY: not a memfd. The seal keeps it from shrinking while a step uses it. */
static int map_memfd(struct rivulet_exec *x, uint32_t tensor, int fd, uint64_t offset,
		     struct rvl_rt_mem *m, struct rivulet_runtime_error *err)
{
	int seals = fcntl(fd, F_GET_SEALS);
	int prot = PROT_READ | (is_output(x, tensor) ? PROT_WRITE : 0);
	struct stat st;
	int r;

	if (seals < 0)
		return -ENOTTY;
	if (!(seals & F_SEAL_SHRINK))
		return rvl_rt_fail(err, EPERM, "tensor %s: the memfd is not sealed against shrinking",
				   rivulet_program_string(x->img->prog, io_tensor(x, tensor)->name));
	if (fstat(fd, &st))
		return rvl_rt_fail(err, errno, "memfd: %s", strerror(errno));
	r = check_bind(x, tensor, offset, (uint64_t)st.st_size, err);
	if (r)
		return r;
	m->size = io_tensor(x, tensor)->size;
	m->map_size = offset % RIVULET_PAGE_SIZE + (m->size ? m->size : 1);
	m->map = mmap(NULL, m->map_size, prot, MAP_SHARED, fd,
		      (off_t)(offset - offset % RIVULET_PAGE_SIZE));
	if (m->map == MAP_FAILED)
		return rvl_rt_fail(err, errno, "tensor %s: mapping the memfd: %s",
				   rivulet_program_string(x->img->prog, io_tensor(x, tensor)->name),
				   strerror(errno));
	m->host = (char *)m->map + offset % RIVULET_PAGE_SIZE;
	return 0;
}

int rivulet_exec_bind_fd(struct rivulet_exec *x, uint32_t tensor, int fd, uint64_t offset,
			 struct rivulet_runtime_error *err)
{
	struct rvl_rt_mem m = { 0 };
	struct rivulet_buffer *buf;
	int r = check_bind(x, tensor, offset, UINT64_MAX, err);

	if (!r)
		r = map_memfd(x, tensor, fd, offset, &m, err);
	if (!r) {
		r = bind_plain(x, tensor, &m, true, err);
		if (r)
			rvl_rt_mem_free(&m);
		return r;
	}
	if (r != -ENOTTY)
		return r;
	if (!x->img->rt->dev)
		return rvl_rt_fail(err, EOPNOTSUPP, "fd %d is no memfd, and the model takes no dma-buf",
				   fd);
	r = rivulet_buffer_import(x->img->rt->dev, fd, &buf);
	if (r)
		return rvl_rt_fail(err, -r, "%s", rivulet_last_error());
	r = bind_buffer(x, tensor, buf, offset, true, err);
	rivulet_buffer_unref(buf);
	return r;
}

/* ---- memory at the start and the end of a run ---- */

/* Whether steps use bytes of both bindings in place. Copies have memory of their own. */
static bool shares_bytes(const struct rvl_rt_binding *a, const struct rvl_rt_binding *b)
{
	uintptr_t at = (uintptr_t)a->mem.host, other = (uintptr_t)b->mem.host;

	return a->mem.size && b->mem.size && at < other + b->mem.size && other < at + a->mem.size;
}

int rvl_rt_check_bound(const struct rivulet_exec *x, struct rivulet_runtime_error *err)
{
	const struct rivulet_program *p = x->img->prog;

	for (uint32_t i = 0; i < p->inputs; i++) {
		for (uint32_t o = p->inputs; o < p->inputs + p->outputs; o++) {
			if (!shares_bytes(&x->bind[i], &x->bind[o]))
				continue;
			return rvl_rt_fail(err, EINVAL, "output %s shares bytes with input %s",
					   rivulet_program_string(p, io_tensor(x, o)->name),
					   rivulet_program_string(p, io_tensor(x, i)->name));
		}
	}
	return 0;
}

/*
 * A wait ends after this time to see whether the run was stopped, because a producer may take as
 * long as it wants.
 */
#define WAIT_SLICE_NS 10000000

static struct drm_rivulet_range range_of(const struct rvl_rt_binding *b)
{
	return (struct drm_rivulet_range) { .offset = b->from_offset, .size = b->mem.size };
}

/* The access of the CPU to a dma-buf. Steps may read what other steps have written to an output. */
static uint32_t access_to(const struct rivulet_exec *x, uint32_t tensor)
{
	return DRM_RIVULET_ACCESS_READ | (is_output(x, tensor) ? DRM_RIVULET_ACCESS_WRITE : 0);
}

static int wait_for_fences(const struct rivulet_exec *x, uint32_t tensor)
{
	int r = -ETIME;

	while (r == -ETIME) {
		if (atomic_load(&x->abandoned))
			return -ECANCELED;
		r = rivulet_buffer_wait(x->bind[tensor].from, access_to(x, tensor),
					rvl_rt_now() + WAIT_SLICE_NS);
	}
	return r;
}

/*
 * An NPU step waits for the fences of its buffers in the kernel. Copies and CPU steps wait here. An
 * output waits for its readers before the run and not after it, because no step may write
 * before they are done.
 */
static int begin_access(struct rivulet_exec *x, uint32_t tensor)
{
	struct rvl_rt_binding *b = &x->bind[tensor];
	struct drm_rivulet_range range = range_of(b);
	int r = wait_for_fences(x, tensor);

	if (!r)
		r = rivulet_buffer_sync(b->from, DRM_RIVULET_SYNC_FOR_CPU, access_to(x, tensor),
					&range, range.size > 0);
	b->open = !r;
	return r;
}

static int end_access(struct rivulet_exec *x, uint32_t tensor)
{
	struct rvl_rt_binding *b = &x->bind[tensor];
	struct drm_rivulet_range range = range_of(b);

	b->open = false;
	return rivulet_buffer_end(b->from, access_to(x, tensor), &range, range.size > 0);
}

/*
 * Notes the first error of the copy task, whose text is of this thread. The library knows nothing of
 * a wait that ended because the run was stopped: its text is of an earlier call.
 */
static void note(struct rivulet_exec *x, uint32_t tensor, int error)
{
	const struct rivulet_program *p = x->img->prog;

	if (!error || x->copy.error)
		return;
	x->copy.error = error;
	snprintf(x->copy.why, sizeof(x->copy.why), "tensor %s: %s",
		 rivulet_program_string(p, io_tensor(x, tensor)->name),
		 error == -ECANCELED ? "the run was stopped" : rivulet_last_error());
}

void rvl_rt_begin_bound(struct rivulet_exec *x)
{
	const struct rivulet_program *p = x->img->prog;

	x->copy.error = 0;
	for (uint32_t i = 0; i < p->inputs + p->outputs && !x->copy.error; i++) {
		struct rvl_rt_binding *b = &x->bind[i];

		if (b->from)
			note(x, i, begin_access(x, i));
		if (!b->user || is_output(x, i) || x->copy.error)
			continue;
		memcpy(b->mem.host, b->user, b->mem.size);
		if (b->open)
			note(x, i, end_access(x, i));
	}
}

void rvl_rt_end_bound(struct rivulet_exec *x, bool succeeded)
{
	const struct rivulet_program *p = x->img->prog;

	for (uint32_t i = 0; i < p->inputs + p->outputs; i++) {
		struct rvl_rt_binding *b = &x->bind[i];

		if (succeeded && b->user && is_output(x, i))
			memcpy(b->user, b->mem.host, b->mem.size);
		if (b->open)
			note(x, i, end_access(x, i));
	}
}

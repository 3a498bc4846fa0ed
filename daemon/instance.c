// SPDX-License-Identifier: MIT
/* What a session has loaded: models, and instances with their bindings. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "manager.h"

#define BIND_ALIGN 64

/* ---- models ---- */

static void drop_image(struct rvl_model *model)
{
	model->image = rivulet_image_unref(model->image);
	model->session->user->bytes -= model->image_bytes;
	model->image_bytes = 0;
}

static void model_put(struct rvl_model *model)
{
	struct rvl_user *u = model->session->user;

	if (--model->refs)
		return;
	drop_image(model);
	rvl_program_put(model->program);
	u->models--;
	u->bytes -= model->charged;
	rvl_list_del(&model->link);
	free(model);
}

static int model_new(struct rvl_session *s, const char *name, struct rvl_program *p,
		     struct rvl_model **out, struct rvl_text *err)
{
	struct rvl_model *model = calloc(1, sizeof(*model));
	struct rvl_user *u = s->user;
	int r;

	if (!model)
		return rvl_say(err, -ENOMEM, "out of memory");
	r = rvl_user_count(&u->models, s->m->cfg.user_models, "ModelsPerUser", err);
	if (!r) {
		r = rvl_user_charge(s->m, u, rvl_pages(p->size), "the program", err);
		u->models -= r != 0;
	}
	if (r) {
		free(model);
		return r;
	}
	model->session = s;
	model->refs = 1;
	model->id = s->next_id++;
	model->program = p;
	model->charged = rvl_pages(p->size);
	p->refs++;
	p->owner = u->uid;
	rivulet_proto_name(model->name, sizeof(model->name), name);
	rvl_list_add_tail(&s->models, &model->link);
	*out = model;
	return 0;
}

void rvl_model_add(struct rvl_session *s, const struct rvl_compile *c, struct rvl_program *p)
{
	struct rivulet_msg_load_reply reply;
	struct rvl_model *model = NULL;
	struct rvl_text err;
	int r = model_new(s, c->req.name, p, &model, &err);

	if (r) {
		rvl_send_error(s, RIVULET_MSG_LOAD, c->serial, r, err.s);
		return;
	}
	rivulet_proto_init(&reply, RIVULET_MSG_LOAD | RIVULET_REPLY, s->version, c->serial);
	reply.model = model->id;
	reply.inputs = p->file->inputs;
	reply.outputs = p->file->outputs;
	reply.cached = c->hit == p;
	reply.npu_steps = p->npu_steps;
	reply.cpu_steps = p->cpu_steps;
	reply.program_size = p->size;
	reply.arena_size = p->file->arena_size;
	reply.compile_ns = c->hit == p ? 0 : p->compile_ns;
	reply.macs = p->macs;
	reply.cycles = p->cycles;
	reply.expected_ns = rvl_device_expected_ns(&s->m->device, p);
	memcpy(reply.hash, p->key.sha256, sizeof(reply.hash));
	rvl_send(s, &reply, c->req.flags & RIVULET_LOAD_WANT_FD ? p->fd : -1);
}

void rvl_model_unload(struct rvl_model *model)
{
	struct rvl_instance *x;

	if (model->dead)
		return;
	model->dead = true;
	rvl_list_each(x, &model->session->instances, link)
		if (x->model == model)
			rvl_instance_close(x);
	model_put(model);
}

/* The session's runtime on the device that is there now. */
static int session_engine(struct rvl_session *s, struct rvl_text *err)
{
	struct rvl_device *d = &s->m->device;

	if (s->engine && s->engine_epoch == d->epoch && d->present)
		return 0;
	s->engine = rvl_engine_put(s->engine);
	s->engine_epoch = d->epoch;
	return rvl_device_engine(d, &s->engine, err);
}

static int model_image(struct rvl_model *model, struct rvl_text *err)
{
	struct rvl_session *s = model->session;
	struct rivulet_runtime_error why = { .text = "" };
	int r = session_engine(s, err);
	uint64_t bytes;

	if (r || (model->image && model->epoch == s->engine_epoch))
		return r;
	drop_image(model);
	model->epoch = s->engine_epoch;
	r = rivulet_image_load(s->engine->rt, model->program->file, model->program->size,
			       &model->image, &why);
	if (r)
		return rvl_say(err, r, "%.500s", why.text);
	bytes = rivulet_image_bytes(model->image);
	r = rvl_user_charge(s->m, s->user, bytes, "what the CPU steps pack", err);
	if (r)
		model->image = rivulet_image_unref(model->image);
	else
		model->image_bytes = bytes;
	return r;
}

/* ---- instances ---- */

static void detach(struct rvl_instance *x)
{
	struct rvl_user *u = x->session->user;

	x->exec = rivulet_exec_unref(x->exec);
	x->engine = rvl_engine_put(x->engine);
	for (uint32_t i = 0; i < x->tensors; i++) {
		u->bytes -= x->bound[i];
		x->bound[i] = 0;
	}
	u->bytes -= x->arena_bytes;
	x->arena_bytes = 0;
}

static void instance_free(struct rvl_instance *x)
{
	struct rvl_user *u = x->session->user;

	detach(x);
	u->instances--;
	rvl_list_del(&x->link);
	model_put(x->model);
	free(x->bound);
	free(x);
}

static struct rvl_instance *instance_new(struct rvl_model *model)
{
	const struct rivulet_program *prog = model->program->file;
	struct rvl_instance *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->tensors = prog->inputs + prog->outputs;
	x->bound = calloc(x->tensors + 1u, sizeof(*x->bound));
	if (!x->bound) {
		free(x);
		return NULL;
	}
	x->session = model->session;
	x->model = model;
	model->refs++;
	x->id = x->session->next_id++;
	rvl_list_add_tail(&x->session->instances, &x->link);
	return x;
}

static int charge_instance(struct rvl_instance *x, struct rvl_text *err)
{
	struct rvl_user *u = x->session->user;
	uint64_t bytes = rivulet_image_exec_bytes(x->model->image);
	int r = rvl_user_charge(x->session->m, u, bytes, "the working memory", err);

	if (!r)
		x->arena_bytes = bytes;
	return r;
}

static int make_exec(struct rvl_instance *x, struct rvl_text *err)
{
	struct rivulet_runtime_error why = { .text = "" };
	int r;

	x->engine = x->session->engine;
	x->engine->refs++;
	x->epoch = x->session->engine_epoch;
	r = rivulet_exec_new(x->model->image, &x->exec, &why);
	return r ? rvl_say(err, r, "%.500s", why.text) : 0;
}

int rvl_instance_open(struct rvl_model *model, uint32_t *id, struct rvl_text *err)
{
	struct rvl_session *s = model->session;
	struct rvl_instance *x;
	int r;

	r = rvl_user_count(&s->user->instances, s->m->cfg.user_instances, "InstancesPerUser", err);
	if (r)
		return r;
	x = instance_new(model);
	if (!x) {
		s->user->instances--;
		return rvl_say(err, -ENOMEM, "out of memory");
	}
	r = model_image(model, err);
	r = r ?: charge_instance(x, err);
	r = r ?: make_exec(x, err);
	if (r) {
		instance_free(x);
		return r;
	}
	*id = x->id;
	return 0;
}

void rvl_instance_close(struct rvl_instance *x)
{
	if (x->dead)
		return;
	x->dead = true;
	if (x->run)
		rvl_sched_cancel(x->run, -ECANCELED, "its instance was closed");
	else
		instance_free(x);
}

void rvl_instance_run_ended(struct rvl_instance *x)
{
	const struct rvl_device *d = &x->session->m->device;

	x->run = NULL;
	if (x->dead)
		instance_free(x);
	else if (!d->present || x->epoch != d->epoch)
		detach(x);
}

/* Lets go of the device, so that it can be unplugged and its driver unloaded. */
void rvl_session_detach(struct rvl_session *s)
{
	struct rvl_instance *x;
	struct rvl_model *model;

	rvl_list_each(x, &s->instances, link) {
		if (x->run)
			rvl_sched_cancel(x->run, -ENODEV, "the device went away");
		else
			detach(x);
	}
	rvl_list_each(model, &s->models, link)
		drop_image(model);
	s->engine = rvl_engine_put(s->engine);
}

/* ---- bindings ---- */

/*
 * Only memory that its owner can neither take away nor make slow to touch may be mapped here: a
 * dma-buf, or a memfd sealed against shrinking. A file of a stranger's file system could block the
 * daemon in a page fault or kill it by SIGBUS.
 */
static int check_memory(int fd, bool writable, struct rvl_text *err)
{
	int flags = fcntl(fd, F_GETFL), seals;
	struct statfs fs;

	if (flags < 0 || fstatfs(fd, &fs))
		return rvl_say(err, -errno, "the file descriptor: %m");
	if (writable && (flags & O_ACCMODE) != O_RDWR)
		return rvl_say(err, -EACCES, "an output needs a descriptor opened for writing");
	if ((unsigned long)fs.f_type == 0x444d4142ul)	/* DMA_BUF_MAGIC */
		return 0;
	seals = (unsigned long)fs.f_type == TMPFS_MAGIC ? fcntl(fd, F_GET_SEALS) : -1;
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return rvl_say(err, -EPERM,
			       "neither a dma-buf nor a memfd with F_SEAL_SHRINK");
	return 0;
}

static int check_size(const struct rivulet_msg_bind *req, const struct rivulet_tensor *t, int fd,
		      struct rvl_text *err)
{
	off_t size = lseek(fd, 0, SEEK_END);

	if (req->offset % BIND_ALIGN)
		return rvl_say(err, -EINVAL, "offset %llu is no multiple of %d",
			       (unsigned long long)req->offset, BIND_ALIGN);
	if (req->size < t->size)
		return rvl_say(err, -EINVAL, "%llu bytes for a tensor of %llu",
			       (unsigned long long)req->size, (unsigned long long)t->size);
	if (size < 0 || req->size > (uint64_t)size || req->offset > (uint64_t)size - req->size)
		return rvl_say(err, -EINVAL, "offset %llu + %llu bytes is beyond the memory's %lld",
			       (unsigned long long)req->offset, (unsigned long long)req->size,
			       (long long)size);
	return 0;
}

/* Number of the tensor in the program, or -ERANGE. */
static int tensor_index(const struct rvl_instance *x, const struct rivulet_msg_bind *req,
			struct rvl_text *err)
{
	const struct rivulet_program *prog = x->model->program->file;
	uint32_t count = req->dir == RIVULET_DIR_INPUT ? prog->inputs : prog->outputs;

	if (req->dir > RIVULET_DIR_OUTPUT || req->index >= count)
		return rvl_say(err, -ERANGE, "the model has %u inputs and %u outputs",
			       prog->inputs, prog->outputs);
	return (int)(req->dir == RIVULET_DIR_INPUT ? req->index : prog->inputs + req->index);
}

static int bind_checked(struct rvl_instance *x, uint32_t tensor, uint64_t offset, uint64_t size,
			int fd, struct rvl_text *err)
{
	struct rivulet_runtime_error why = { .text = "" };
	struct rvl_user *u = x->session->user;
	int r = rvl_user_charge(x->session->m, u, size, "the binding", err);

	if (r)
		return r;
	r = rivulet_exec_bind_fd(x->exec, tensor, fd, offset, &why);
	if (r) {
		u->bytes -= size;
		return rvl_say(err, r, "%.500s", why.text);
	}
	u->bytes -= x->bound[tensor];
	x->bound[tensor] = size;
	return 0;
}

int rvl_instance_bind(struct rvl_instance *x, const struct rivulet_msg_bind *req, int fd,
		      struct rvl_text *err)
{
	const struct rivulet_tensor *tensors = rivulet_program_tensors(x->model->program->file);
	int t = tensor_index(x, req, err), r;

	if (t < 0)
		return t;
	if (x->run)
		return rvl_say(err, -EBUSY, "instance %u has a run under way", x->id);
	if (!x->exec)
		return rvl_say(err, -ENODEV, "the device of instance %u went away: open it anew",
			       x->id);
	r = check_memory(fd, req->dir == RIVULET_DIR_OUTPUT, err);
	r = r ?: check_size(req, &tensors[t], fd, err);
	return r ?: bind_checked(x, (uint32_t)t, req->offset, req->size, fd, err);
}

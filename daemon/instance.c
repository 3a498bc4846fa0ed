// SPDX-License-Identifier: MIT
/* Models and instances of a session: OPEN, BIND, CLOSE, UNLOAD. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "accel.h"
#include "cache.h"
#include "compile.h"
#include "connection.h"
#include "instance.h"
#include "intake.h"
#include "manager.h"
#include "offload.h"
#include "receiver.h"
#include "rivulet_program.h"
#include "rivulet_proto.h"
#include "rivulet_runtime.h"
#include "scheduler.h"
#include "user.h"
#include "util.h"

#define BIND_ALIGN 64

/* ---- releasing ---- */

/*
 * Memory of a session that a thread releases. Until then it stays charged and the session blocked:
 * otherwise a user could exceed MemoryPerUser= by opening and closing faster than pages are freed.
 */
struct release {
	struct rvl_work work;
	struct rvl_session *session;
	struct rvl_engine *engine;	/* or NULL */
	struct rivulet_exec *exec;	/* or NULL */
	struct rivulet_image *image;	/* or NULL */
	uint64_t bytes;
};

static void release_work(struct rvl_work *w)
{
	struct release *g = rvl_container(w, struct release, work);

	rivulet_exec_unref(g->exec);
	rivulet_image_unref(g->image);
}

static void release_done(struct rvl_work *w)
{
	struct release *g = rvl_container(w, struct release, work);
	struct rvl_session *s = g->session;

	s->user->bytes -= g->bytes;
	rvl_engine_put(g->engine);
	free(g);
	rvl_session_unblock(s);
}

/* Takes over the engine, exec and image of @what. */
static void release_later(const struct release *what)
{
	bool any = what->exec || what->image;
	struct release *g = any ? malloc(sizeof(*g)) : NULL;
	struct rvl_session *s = what->session;

	if (!g) {
		rivulet_exec_unref(what->exec);
		rivulet_image_unref(what->image);
		rvl_engine_put(what->engine);
		s->user->bytes -= what->bytes;
		return;
	}
	*g = *what;
	g->work = (struct rvl_work){ .owner = &s->user->release, .run = release_work,
				     .done = release_done };
	s->pending++;
	rvl_update_events(s);
	rvl_offload_submit(&s->m->closer, &g->work);
}

/* ---- models ---- */

static void drop_image(struct rvl_model *model)
{
	if (!model->image)
		return;
	release_later(&(struct release){ .session = model->session, .image = model->image,
			      .bytes = model->image_bytes });
	model->image = NULL;
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

/* Makes sure that the session has a runtime on the present device. */
static int session_engine(struct rvl_session *s, struct rvl_text *err)
{
	struct rvl_device *d = &s->m->device;

	if (s->engine && s->engine_epoch == d->epoch && d->present)
		return 0;
	s->engine = rvl_engine_put(s->engine);
	s->engine_epoch = d->epoch;
	return rvl_device_engine(d, &s->engine, err);
}

/* ---- instances ---- */

static void detach(struct rvl_instance *x)
{
	uint64_t bytes = x->arena_bytes;

	for (uint32_t i = 0; i < x->tensors; i++) {
		bytes += x->bound[i];
		x->bound[i] = 0;
	}
	if (x->exec || x->engine)
		release_later(&(struct release){ .session = x->session, .engine = x->engine, .exec = x->exec,
				      .bytes = bytes });
	x->exec = NULL;
	x->engine = NULL;
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

/* ---- OPEN ---- */

struct opening {
	struct rvl_work work;
	struct rvl_instance *x;
	uint32_t serial, epoch;
	struct rvl_engine *engine;	/* referenced */
	struct rivulet_image *image;	/* referenced; NULL: to be loaded */
	bool loaded;
	struct rivulet_exec *exec;
	uint64_t limit;			/* bytes that the user had left before @charged */
	uint64_t charged;		/* of @image_bytes and @exec_bytes, in advance */
	uint64_t image_bytes, exec_bytes;
	int error;
	struct rivulet_runtime_error why;
};

static int refuse_memory(struct opening *o, uint64_t bytes)
{
	snprintf(o->why.text, sizeof(o->why.text),
		 "the instance needs %llu bytes, of MemoryPerUser= %llu are left",
		 (unsigned long long)bytes, (unsigned long long)o->limit);
	return -EDQUOT;
}

/* A client that does not ask for shapes would take the bound for the shape of a result. */
static int refuse_bounded(struct opening *o)
{
	const struct rivulet_program *p = rivulet_image_program(o->image);
	const struct rivulet_tensor *t = rivulet_program_tensors(p);

	for (uint32_t i = p->inputs; !o->x->shapes && i < p->inputs + p->outputs; i++) {
		if (!(t[i].flags & RIVULET_TENSOR_BOUNDED))
			continue;
		snprintf(o->why.text, sizeof(o->why.text),
			 "output %.80s: its shape is known at run time only, and OPEN does not have the flag SHAPES",
			 rivulet_program_string(p, t[i].name));
		return -EOPNOTSUPP;
	}
	return 0;
}

static int open_image(struct opening *o)
{
	const struct rvl_program *p = o->x->model->program;
	int r;

	if (o->image)
		return refuse_bounded(o);
	r = rivulet_image_load_within(o->engine->rt, p->file, p->size, o->limit, &o->image, &o->why);
	o->loaded = !r;
	if (!r)
		o->image_bytes = rivulet_image_bytes(o->image) + rvl_pages(p->size);
	return r ? r : refuse_bounded(o);
}

static void open_work(struct rvl_work *w)
{
	struct opening *o = rvl_container(w, struct opening, work);

	o->error = open_image(o);
	if (o->error)
		return;
	o->exec_bytes = rivulet_image_exec_bytes(o->image);
	if (o->image_bytes > o->limit || o->exec_bytes > o->limit - o->image_bytes)
		o->error = refuse_memory(o, o->image_bytes + o->exec_bytes);
	else
		o->error = rivulet_exec_new(o->image, &o->exec, &o->why);
}

/*
 * Charges the user for the result. Meanwhile the session may have ended, or the device been
 * removed.
 */
static int adopt(struct opening *o, struct rvl_text *err)
{
	struct rvl_instance *x = o->x;
	struct rvl_session *s = x->session;
	const struct rvl_device *d = &s->m->device;
	int r;

	if (o->error)
		return rvl_say(err, o->error, "%.500s", o->why.text);
	if (x->dead || !d->present || o->epoch != d->epoch)
		return rvl_say(err, -ENODEV, "the device went away");
	r = rvl_user_charge(s->m, s->user, o->image_bytes + o->exec_bytes - o->charged, "the instance",
			    err);
	if (r)
		return r;
	o->charged = 0;
	if (o->loaded) {
		x->model->image = o->image;
		x->model->image_bytes = o->image_bytes;
		x->model->epoch = o->epoch;
		o->image = NULL;
	}
	x->exec = o->exec;
	x->engine = o->engine;
	x->epoch = o->epoch;
	x->arena_bytes = o->exec_bytes;
	o->exec = NULL;
	o->engine = NULL;
	return 0;
}

/* What was refused stays charged until it is released, with the memory that it really takes. */
static void charge_refused(struct opening *o)
{
	uint64_t held = (o->loaded ? o->image_bytes : 0) + (o->exec ? o->exec_bytes : 0);

	o->x->session->user->bytes += held - o->charged;
	o->charged = held;
}

static void send_opened(struct rvl_session *s, uint32_t serial, uint32_t id)
{
	struct rivulet_msg_instance reply;

	rivulet_proto_init(&reply, RIVULET_MSG_OPEN | RIVULET_REPLY, s->version, serial);
	reply.instance = id;
	rvl_send(s, &reply, -1);
}

static void open_done(struct rvl_work *w)
{
	struct opening *o = rvl_container(w, struct opening, work);
	struct rvl_instance *x = o->x;
	struct rvl_session *s = x->session;
	struct rvl_text err;
	int r = adopt(o, &err);

	x->preparing = false;
	if (r)
		charge_refused(o);
	if (r)
		rvl_send_error(s, RIVULET_MSG_OPEN, o->serial, r, err.s);
	else
		send_opened(s, o->serial, x->id);
	/* The model keeps its own reference, so this one is not the last and costs nothing. */
	if (o->image && o->image == x->model->image)
		o->image = rivulet_image_unref(o->image);
	release_later(&(struct release){ .session = s, .engine = o->engine, .exec = o->exec, .image = o->image,
				      .bytes = o->charged });
	if (r)
		instance_free(x);
	free(o);
	rvl_session_unblock(s);
}

/*
 * The user is charged before the memory is taken, as openings of its other sessions may be waiting.
 * What prepared CPU steps take is known, and charged, when the image has been loaded.
 */
static int charge_opening(struct opening *o, struct rvl_text *err)
{
	const struct rvl_program *p = o->x->model->program;
	struct rvl_session *s = o->x->session;
	uint64_t need = rvl_pages(p->size);

	if (o->image)
		need = rivulet_image_exec_bytes(o->image);
	else
		need = p->file->arena_size < UINT64_MAX - need ? p->file->arena_size + need : UINT64_MAX;
	o->limit = s->m->cfg.user_bytes > s->user->bytes ? s->m->cfg.user_bytes - s->user->bytes : 0;
	o->charged = need;
	return rvl_user_charge(s->m, s->user, need, "the instance", err);
}

/* Loading takes time in proportion to the program, so a thread does it. */
static int begin_opening(struct rvl_instance *x, uint32_t serial, struct rvl_text *err)
{
	struct rvl_model *model = x->model;
	struct rvl_session *s = x->session;
	struct opening *o;
	int r = session_engine(s, err);

	if (r)
		return r;
	o = calloc(1, sizeof(*o));
	if (!o)
		return rvl_say(err, -ENOMEM, "out of memory");
	if (model->image && model->epoch != s->engine_epoch)
		drop_image(model);
	*o = (struct opening){ .work = { .owner = &s->user->work, .run = open_work, .done = open_done },
			       .x = x, .serial = serial, .epoch = s->engine_epoch,
			       .engine = s->engine, .image = model->image };
	r = charge_opening(o, err);
	if (r) {
		free(o);
		return r;
	}
	rivulet_image_ref(o->image);
	o->engine->refs++;
	x->preparing = true;
	s->pending++;
	rvl_offload_submit(&s->m->loader, &o->work);
	return 0;
}

int rvl_instance_open(struct rvl_model *model, const struct rivulet_msg_open *req, struct rvl_text *err)
{
	struct rvl_session *s = model->session;
	struct rvl_instance *x;
	int r;

	if (req->flags & ~RIVULET_OPEN_FLAGS)
		return rvl_say(err, -EINVAL, "unknown flags 0x%x", req->flags);
	r = rvl_user_count(&s->user->instances, s->m->cfg.user_instances, "InstancesPerUser", err);
	if (r)
		return r;
	x = instance_new(model);
	if (!x) {
		s->user->instances--;
		return rvl_say(err, -ENOMEM, "out of memory");
	}
	x->shapes = req->flags & RIVULET_OPEN_SHAPES;
	r = begin_opening(x, req->h.serial, err);
	if (r)
		instance_free(x);
	return r;
}

int rvl_instance_shape(const struct rvl_instance *x, uint32_t tensor, uint64_t *dim,
		       struct rvl_text *err)
{
	if (x->run)
		return rvl_say(err, -EBUSY, "instance %u has a run under way", x->id);
	if (!x->ran)
		return rvl_say(err, -ENODATA, "the last run of instance %u has not ended well", x->id);
	if (!x->exec)
		return rvl_say(err, -ENODEV, "the device of instance %u went away: open it again", x->id);
	return rivulet_exec_shape(x->exec, tensor, dim);
}

void rvl_instance_close(struct rvl_instance *x)
{
	if (x->dead)
		return;
	x->dead = true;
	if (x->run)
		rvl_sched_cancel(x->run, -ECANCELED, "its instance was closed");
	else if (!x->preparing)
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

/* Releases all of the device, so that its driver can be unloaded. */
void rvl_session_detach(struct rvl_session *s)
{
	struct rvl_instance *x;
	struct rvl_model *model;

	rvl_list_each(x, &s->instances, link) {
		if (x->run)
			rvl_sched_cancel(x->run, -ENODEV, "the device went away");
		else if (!x->preparing)
			detach(x);
	}
	rvl_list_each(model, &s->models, link)
		drop_image(model);
	s->engine = rvl_engine_put(s->engine);
}

/* ---- bindings ---- */

/*
 * Only a dma-buf, or a memfd sealed against shrinking, may be mapped. A page fault on another file
 * could block on a file system of the client (FUSE), or raise SIGBUS after a truncation.
 */
static int check_memory(const struct rvl_file *f, bool writable, struct rvl_text *err)
{
	bool fixed = f->kind == RVL_FILE_MEMFD && f->seals & F_SEAL_SHRINK;

	if (f->kind != RVL_FILE_DMABUF && !fixed)
		return rvl_say(err, -EPERM,
			       "neither a dma-buf nor a memfd with F_SEAL_SHRINK");
	if (writable && !f->writable)
		return rvl_say(err, -EACCES, "an output needs a descriptor opened for writing");
	return 0;
}

static int check_size(const struct rivulet_msg_bind *req, const struct rivulet_tensor *t,
		      uint64_t size, struct rvl_text *err)
{
	if (req->offset % BIND_ALIGN)
		return rvl_say(err, -EINVAL, "offset %llu is no multiple of %d",
			       (unsigned long long)req->offset, BIND_ALIGN);
	if (req->size < t->size)
		return rvl_say(err, -EINVAL, "%llu bytes for a tensor of %llu",
			       (unsigned long long)req->size, (unsigned long long)t->size);
	if (req->size > size || req->offset > size - req->size)
		return rvl_say(err, -EINVAL, "offset %llu + %llu bytes is beyond the memory's %llu",
			       (unsigned long long)req->offset, (unsigned long long)req->size,
			       (unsigned long long)size);
	return 0;
}

/* Index of the tensor in the program, or -ERANGE. */
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

struct binding {
	struct rvl_work work;
	struct rvl_instance *x;
	uint32_t serial, tensor;
	uint64_t offset, size;
	int fd;
	int error;
	struct rivulet_runtime_error why;
};

/* Importing pins every page, and replacing a binding unmaps the previous memory. */
static void bind_work(struct rvl_work *w)
{
	struct binding *b = rvl_container(w, struct binding, work);

	b->error = rivulet_exec_bind_fd(b->x->exec, b->tensor, b->fd, b->offset, &b->why);
	close(b->fd);
}

static void bind_done(struct rvl_work *w)
{
	struct binding *b = rvl_container(w, struct binding, work);
	struct rvl_instance *x = b->x;
	struct rvl_session *s = x->session;
	const struct rvl_device *d = &s->m->device;
	struct rivulet_msg h = { .type = RIVULET_MSG_BIND, .serial = b->serial };

	x->preparing = false;
	if (b->error) {
		s->user->bytes -= b->size;
		rvl_send_error(s, RIVULET_MSG_BIND, b->serial, b->error, b->why.text);
	} else {
		s->user->bytes -= x->bound[b->tensor];
		x->bound[b->tensor] = b->size;
		s->ack = h;
	}
	if (x->dead)
		instance_free(x);
	else if (!d->present || x->epoch != d->epoch)
		detach(x);
	free(b);
	rvl_session_unblock(s);
}

static int begin_binding(struct rvl_instance *x, uint32_t tensor, const struct rivulet_msg_bind *req,
			 struct rvl_sent *sent, struct rvl_text *err)
{
	struct rvl_session *s = x->session;
	struct binding *b = calloc(1, sizeof(*b));
	int r = b ? 0 : rvl_say(err, -ENOMEM, "out of memory");

	r = r ?: rvl_user_charge(s->m, s->user, req->size, "the binding", err);
	if (r) {
		free(b);
		return r;
	}
	*b = (struct binding){ .work = { .owner = &s->user->work, .run = bind_work, .done = bind_done },
			       .x = x, .serial = req->h.serial, .tensor = tensor,
			       .offset = req->offset, .size = req->size,
			       .fd = rvl_take_fd(&sent->fd) };
	x->preparing = true;
	s->pending++;
	rvl_offload_submit(&s->m->loader, &b->work);
	return 0;
}

int rvl_instance_bind(struct rvl_instance *x, const struct rivulet_msg_bind *req,
		      struct rvl_sent *sent, struct rvl_text *err)
{
	const struct rivulet_tensor *tensors = rivulet_program_tensors(x->model->program->file);
	int t = tensor_index(x, req, err), r;

	if (t < 0)
		return t;
	if (x->run)
		return rvl_say(err, -EBUSY, "instance %u has a run under way", x->id);
	if (!x->exec)
		return rvl_say(err, -ENODEV, "the device of instance %u went away: open it again",
			       x->id);
	r = check_memory(&sent->file, req->dir == RIVULET_DIR_OUTPUT, err);
	r = r ?: check_size(req, &tensors[t], sent->file.size, err);
	return r ?: begin_binding(x, (uint32_t)t, req, sent, err);
}

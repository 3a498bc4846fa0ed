// SPDX-License-Identifier: MIT
/*
 * Where a model runs, behind one interface: locally, where this process compiles and the runtime
 * drives a node or the linked device model, or in the daemon, which compiles, schedules and runs.
 */
#include <endian.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rivulet_isa.h"
#include "rivulet_kernels.h"
#include "rivulet_ops.h"
#include "rivulet_runtime.h"
#include "device/engine.h"
#include "json.h"
#include "model/beside.h"
#include "model/explain_program.h"
#include "output.h"

struct instance {
	struct rivulet_exec *exec;
	struct rivulet_request *req;
	void **memory;		/* by tensor */
	uint64_t started;
	bool in_flight;
};

struct rvl_engine {
	char name[160];
	bool sim;
	bool have_board;
	struct rivulet_board board;
	struct rivulet_workers *workers;
	struct rivulet_device *dev;
	struct rivulet_perfmon *mon;
	struct rivulet_runtime *rt;
	struct rivulet_image *img;
	struct rivulet_client *client;
	struct rivulet_model *model;
	void *program_map;	/* of the daemon's program */
	size_t program_size;
	const struct rivulet_program *prog;
	uint32_t inputs, count;
	struct rivulet_tensor_info *tensor;
	uint32_t instances;
	struct instance *inst;
	struct rivulet_estimate_row *level;	/* computed on first use */
};

enum rvl_exit rvl_exit_of(int error)
{
	switch (-error) {
	case ENOENT: case ENODEV: case EACCES: case EPERM: case ECONNREFUSED: case EPROTO:
		return RVL_EXIT_ABSENT;
	case EINVAL: case EOPNOTSUPP: case EBADMSG: case E2BIG: case EFBIG: case ENOEXEC:
		return RVL_EXIT_REFUSED;
	default:
		return RVL_EXIT_FAILED;
	}
}

static int fail_lib(int error)
{
	return rvl_tool_fail(rvl_exit_of(error), "%s", rivulet_last_error());
}

int rvl_daemon_status(struct rivulet_client *c, struct json_object **out)
{
	uint64_t size = 0, at = 0;
	int fd = -1, r = rivulet_client_status(c, &fd, &size);
	char *text;

	if (r)
		return rvl_tool_fail(rvl_exit_of(r), "%s", rivulet_last_error());
	text = size > 1u << 24 ? NULL : malloc(size + 1);
	while (text && at < size) {
		ssize_t n = pread(fd, text + at, size - at, (off_t)at);

		if (n <= 0)
			break;
		at += (uint64_t)n;
	}
	close(fd);
	if (text)
		text[at] = 0;
	*out = text && at == size ? rvl_json_parse(text) : NULL;
	free(text);
	return *out ? 0 : rvl_tool_fail(RVL_EXIT_FAILED, "the daemon's status cannot be read, or is not valid JSON");
}

/* ---- boards ---- */

static int board_of_node(const char *path, struct rivulet_board *b)
{
	struct rivulet_runtime_error err;
	struct rivulet_workers *w = NULL;
	struct rivulet_runtime *rt = NULL;
	struct rivulet_device *dev;
	int r = rivulet_device_open(path, &dev);

	if (r)
		return fail_lib(r);
	r = rivulet_workers_new(1, &w);
	if (!r)
		r = rivulet_runtime_new_device(dev, w, &rt, &err);
	if (!r)
		*b = *rivulet_runtime_board(rt);
	rivulet_runtime_unref(rt);
	rivulet_workers_unref(w);
	rivulet_device_unref(dev);
	return r ? rvl_tool_fail(RVL_EXIT_FAILED, "%s: %s", path, strerror(-r)) : 0;
}

int rvl_board_of(const char *device, struct rivulet_board *b)
{
	char err[512];
	int r;

	if (!strncmp(device, "/dev/", 5))
		return board_of_node(device, b);
	r = rivulet_board_load(b, !strncmp(device, "sim:", 4) ? device + 4 : device, err, sizeof(err));
	return r ? rvl_tool_fail(RVL_EXIT_REFUSED, "%s", err) : 0;
}

/* ---- local ---- */

static struct rivulet_compile_options compile_options(const struct rvl_engine_options *o,
						      const struct rvl_beside *beside)
{
	struct rivulet_compile_options c = { .batch = o->batch, .require_npu = o->require_npu,
					     .prof = o->prof, .files = &beside->files };

	if (o->dims)
		rvl_dims_fill(o->dims, &c);
	return c;
}

/* For the engine's board, with the files beside the model. */
static int compile_here(struct rvl_engine *e, const char *path, const struct rvl_blob *b,
			const struct rvl_engine_options *o, struct rivulet_blob *program)
{
	struct rvl_beside beside = { 0 };
	struct rivulet_compile_options c;
	struct rvl_err err = { "" };
	int r = rvl_beside_open(&beside, path);

	c = compile_options(o, &beside);
	c.cpu_only = !e->have_board;
	if (!r && o->mode)
		r = rvl_mode_fill(o->mode, e->board.levels, &c);
	if (!r && o->mode)
		r = rvl_quantise_fill(&o->mode->quantise, path, b, &c);
	if (!r && rivulet_compile(b->data, b->size, e->have_board ? &e->board : NULL, &c, program, o->explain, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, err.msg);
	rvl_beside_clear(&beside);
	return r;
}

static int load_image(struct rvl_engine *e, const char *path, const void *data, size_t size)
{
	struct rivulet_runtime_error err;
	int r = rivulet_image_load(e->rt, data, size, &e->img, &err);

	if (r)
		return rvl_tool_fail(rvl_exit_of(r), "%s: %s", path, err.text);
	e->prog = rivulet_image_program(e->img);
	return 0;
}

static int load_local(struct rvl_engine *e, const char *path, const struct rvl_engine_options *o)
{
	struct rivulet_blob program = { 0 };
	struct rvl_blob b;
	int r;

	if (o->program)
		return load_image(e, path, o->program, o->program_size);
	r = rvl_read_file(path, RIVULET_PROGRAM_MAX, &b);
	if (r)
		return r;
	if (rvl_is_program(&b) && ((o->mode && rvl_mode_given(o->mode)) ||
				   (o->dims && rvl_dims_named(o->dims)))) {
		r = rvl_tool_fail(RVL_EXIT_USAGE, "%s is compiled already: --mode and --shape are for models",
				  path);
	} else if (rvl_is_program(&b)) {
		r = load_image(e, path, b.data, b.size);
	} else {
		r = compile_here(e, path, &b, o, &program);
		if (!r)
			r = load_image(e, path, program.data, program.size);
		rivulet_blob_free(&program);
	}
	rvl_blob_clear(&b);
	return r;
}

static int describe_local(struct rvl_engine *e)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(e->prog);

	e->inputs = e->prog->inputs;
	e->count = e->prog->inputs + e->prog->outputs;
	e->tensor = calloc(e->count + 1, sizeof(*e->tensor));
	if (!e->tensor)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (uint32_t i = 0; i < e->count; i++) {
		e->tensor[i] = (struct rivulet_tensor_info) { .size = sizeof(*e->tensor),
			.name = rivulet_program_string(e->prog, t[i].name), .dtype = t[i].dtype,
			.output = i >= e->inputs, .ndim = t[i].ndim, .bytes = t[i].size,
			.scale = t[i].scale, .zero_point = t[i].zero_point,
			.bounded = t[i].flags & RIVULET_TENSOR_BOUNDED };
		memcpy(e->tensor[i].dim, t[i].dim, sizeof(t[i].dim));
	}
	return 0;
}

static int new_exec(struct rvl_engine *e, struct instance *in)
{
	struct rivulet_runtime_error err;
	int r = rivulet_exec_new(e->img, &in->exec, &err);

	for (uint32_t i = 0; !r && i < e->count; i++)
		r = rivulet_exec_bind_memory(in->exec, i, in->memory[i], e->tensor[i].bytes, &err);
	return r ? rvl_tool_fail(rvl_exit_of(r), "%s", err.text) : 0;
}

/* ---- daemon ---- */

static int map_program(struct rvl_engine *e)
{
	struct stat st;
	int fd, r = rivulet_model_program(e->model, &fd);
	void *p = MAP_FAILED;

	if (r)
		return fail_lib(r);
	if (!fstat(fd, &st))
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return rvl_tool_fail(RVL_EXIT_FAILED, "the daemon's program cannot be mapped");
	e->program_map = p;
	e->program_size = (size_t)st.st_size;
	r = rivulet_check_program(NULL, p, e->program_size);
	if (r)
		return fail_lib(r);
	e->prog = p;
	return 0;
}

/*
 * Whether the daemon cannot compile the model: LOAD has no shapes and no named dimensions, and the
 * daemon opens no file for a client.
 */
static int compiles_here(const char *path, const struct rvl_blob *b, const struct rvl_engine_options *o,
			 bool *here)
{
	/* The key under which a tensor names its file. */
	static const char key[] = "location";
	struct rivulet_model_input *inputs = NULL;
	struct rvl_beside beside = { 0 };
	struct rivulet_compile_options c;
	struct rvl_err err = { "" };
	uint32_t n = 0;
	int r;

	*here = o->dims && rvl_dims_named(o->dims);
	if (*here || !memmem(b->data, b->size, key, sizeof(key) - 1))
		return 0;
	r = rvl_beside_open(&beside, path);
	c = compile_options(o, &beside);
	if (!r && rivulet_model_inputs_of(b->data, b->size, &c, &inputs, &n, &err))
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, err.msg);
	*here = beside.n;
	rivulet_model_inputs_free(inputs, n);
	rvl_beside_clear(&beside);
	return r;
}

/* Compiles for the daemon's board, and has the daemon load the program. */
static int load_compiled(struct rvl_engine *e, const char *path, const struct rvl_blob *b,
			 const struct rvl_engine_options *o, struct rivulet_load_options *l)
{
	const char *base = strrchr(path, '/');
	struct rivulet_blob program = { 0 };
	int r;

	if (!e->have_board)
		return rvl_tool_fail(RVL_EXIT_REFUSED, "%s: the board of the daemon's device is unknown here: make "
				     "a program with rivulet compile --board, and run that", path);
	r = compile_here(e, path, b, o, &program);
	if (r)
		return r;
	l->program = true;
	l->name = base ? base + 1 : path;
	r = rivulet_model_load_memory(e->client, program.data, program.size, l, &e->model);
	rivulet_blob_free(&program);
	return r ? rvl_tool_fail(rvl_exit_of(r), "%s: %s", path, rivulet_last_error()) : 0;
}

static int load_by_daemon(struct rvl_engine *e, const char *path, struct rivulet_load_options *l)
{
	int r = rivulet_model_load(e->client, path, l, &e->model);

	return r ? rvl_tool_fail(rvl_exit_of(r), "%s: %s", path, rivulet_last_error()) : 0;
}

static int load_daemon(struct rvl_engine *e, const char *path, const struct rvl_engine_options *o)
{
	struct rivulet_load_options l = { .size = sizeof(l), .require_npu = o->require_npu,
					  .batch = o->batch, .keep_program = true,
					  .symbol = o->dims ? o->dims->symbol : 0 };
	bool here = false;
	struct rvl_blob b;
	int r;

	if (o->mode && rvl_mode_given(o->mode))
		return rvl_tool_fail(RVL_EXIT_USAGE, "the daemon compiles models to int8 only: name a local "
				     "--device, or make a program with rivulet compile --mode and run that");
	r = rvl_read_file(path, RIVULET_PROGRAM_MAX, &b);
	if (r)
		return r;
	l.program = rvl_is_program(&b);
	if (!l.program)
		r = compiles_here(path, &b, o, &here);
	if (!r)
		r = here ? load_compiled(e, path, &b, o, &l) : load_by_daemon(e, path, &l);
	rvl_blob_clear(&b);
	return r ? r : map_program(e);
}

static int describe_daemon(struct rvl_engine *e)
{
	e->inputs = rivulet_model_inputs(e->model);
	e->count = e->inputs + rivulet_model_outputs(e->model);
	e->tensor = calloc(e->count + 1, sizeof(*e->tensor));
	if (!e->tensor)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (uint32_t i = 0; i < e->count; i++) {
		e->tensor[i].size = sizeof(e->tensor[i]);
		rivulet_model_tensor(e->model, i, &e->tensor[i]);
	}
	return 0;
}

static int new_request(struct rvl_engine *e, struct instance *in)
{
	int r = rivulet_request_new(e->model, &in->req);

	for (uint32_t i = 0; !r && i < e->count; i++)
		r = rivulet_bind_memory(in->req, i, in->memory[i], e->tensor[i].bytes);
	return r ? fail_lib(r) : 0;
}

/* The board of the daemon's device, if this process may open its node or has its profile. */
static void daemon_board(struct rvl_engine *e, const struct rivulet_daemon_info *info)
{
	struct rivulet_device *dev;
	char err[256];

	if (info->device[0] == '/' && !rivulet_device_open(info->device, &dev)) {
		struct rivulet_runtime *rt;
		struct rivulet_runtime_error e2;

		if (!rivulet_workers_new(1, &e->workers) &&
		    !rivulet_runtime_new_device(dev, e->workers, &rt, &e2)) {
			e->board = *rivulet_runtime_board(rt);
			e->have_board = true;
			rivulet_runtime_unref(rt);
		}
		rivulet_device_unref(dev);
	} else if (*info->board && !strchr(info->board, '/')) {
		e->have_board = !rivulet_board_load(&e->board, info->board, err, sizeof(err));
	}
}

/* ---- both ---- */

static int open_local(struct rvl_engine *e, const char *device, uint32_t threads)
{
	struct rivulet_runtime_error err = { "out of memory" };
	int r = rivulet_workers_new(threads, &e->workers);

	e->sim = !strncmp(device, "sim:", 4);
	if (e->sim) {
		r = r ? r : rvl_board_of(device, &e->board);
		if (r > 0)
			return r;
		r = r ? r : rivulet_runtime_new_sim(&e->board, e->workers, &e->rt, &err);
		snprintf(e->name, sizeof(e->name), "linked model of %s", e->board.name);
	} else {
		int d = rivulet_device_open(*device ? device : NULL, &e->dev);

		if (d)
			return fail_lib(d);
		r = r ? r : rivulet_runtime_new_device(e->dev, e->workers, &e->rt, &err);
		if (!r)
			e->board = *rivulet_runtime_board(e->rt);
		snprintf(e->name, sizeof(e->name), "%s (%s)", rivulet_device_path(e->dev), e->board.name);
	}
	e->have_board = !r;
	return r ? rvl_tool_fail(rvl_exit_of(r), "%s", err.text) : 0;
}

static int open_daemon(struct rvl_engine *e)
{
	struct rivulet_daemon_info info = { .size = sizeof(info) };
	int r = rivulet_open(NULL, &e->client);

	if (r)
		return fail_lib(r);
	rivulet_client_info(e->client, &info);
	snprintf(e->name, sizeof(e->name), "daemon, %s%s%s%s", *info.device ? info.device : "no device",
		 *info.board ? " (" : "", info.board, *info.board ? ")" : "");
	daemon_board(e, &info);
	return 0;
}

static const char *set_in_use(void)
{
	struct rvl_cpu_set s = { .used = false };

	for (uint32_t i = 0; !s.used && rvl_cpu_set(i, &s); i++)
		;
	return s.used ? s.name : "";
}

/* Every step on the CPU. */
static int open_cpu(struct rvl_engine *e, uint32_t threads)
{
	struct rivulet_runtime_error err = { "out of memory" };
	char why[RVL_WHY_MAX];
	int r;

	if (rvl_cpu_check(why))
		return rvl_tool_fail(RVL_EXIT_USAGE, "%s", why);
	r = rivulet_workers_new(threads, &e->workers);
	if (!r)
		r = rivulet_runtime_new_cpu(e->workers, &e->rt, &err);
	snprintf(e->name, sizeof(e->name), "CPU (%s)", set_in_use());
	return r ? rvl_tool_fail(rvl_exit_of(r), "%s", err.text) : 0;
}

/* Without --device: the daemon if one answers, else the first node, but never the device model. */
static int open_device(struct rvl_engine *e, const struct rvl_engine_options *o)
{
	if (o->prof && o->device && !strcmp(o->device, "daemon"))
		return rvl_tool_fail(RVL_EXIT_USAGE, "the daemon keeps the PROF records of its jobs: name a node "
				     "or the linked model by --device");
	if (o->device && !strcmp(o->device, "daemon"))
		return open_daemon(e);
	if (o->device && (!strncmp(o->device, "sim:", 4) || o->device[0] == '/'))
		return open_local(e, o->device, o->threads);
	if (o->device && !strcmp(o->device, "cpu"))
		return open_cpu(e, o->threads);
	if (o->device)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--device is \"daemon\", \"cpu\", a node below /dev, or "
				     "sim:BOARD, not \"%s\"", o->device);
	if (!o->prof && !rivulet_open(NULL, &e->client)) {
		e->client = rivulet_client_unref(e->client);
		return open_daemon(e);
	}
	return open_local(e, "", o->threads);
}

static int new_instance(struct rvl_engine *e, struct instance *in)
{
	in->memory = calloc(e->count + 1, sizeof(*in->memory));
	for (uint32_t i = 0; in->memory && i < e->count; i++) {
		uint64_t size = (e->tensor[i].bytes + 127) / 64 * 64;

		in->memory[i] = aligned_alloc(64, size);
		if (!in->memory[i])
			return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
		memset(in->memory[i], 0, size);
	}
	if (!in->memory)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	return e->client ? new_request(e, in) : new_exec(e, in);
}

static void instance_clear(struct rvl_engine *e, struct instance *in)
{
	rivulet_exec_unref(in->exec);
	rivulet_request_unref(in->req);
	for (uint32_t i = 0; in->memory && i < e->count; i++)
		free(in->memory[i]);
	free(in->memory);
	*in = (struct instance) { 0 };
}

/*
 * The instances after the first one with @fewer. The daemon is asked for their memory at once,
 * because MemoryPerUser= and InstancesPerUser= may allow fewer.
 */
static void add_instances(struct rvl_engine *e, uint32_t count)
{
	while (e->instances < count) {
		struct instance *in = &e->inst[e->instances];

		if (new_instance(e, in) || (in->req && rivulet_request_prepare(in->req))) {
			instance_clear(e, in);
			rvl_tool_error_clear();
			return;
		}
		e->instances++;
	}
}

int rvl_engine_open(const char *path, const struct rvl_engine_options *o, struct rvl_engine **out)
{
	struct rvl_engine *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	r = open_device(e, o);
	if (!r)
		r = e->client ? load_daemon(e, path, o) : load_local(e, path, o);
	if (!r)
		r = e->client ? describe_daemon(e) : describe_local(e);
	if (!r)
		e->inst = calloc(o->instances ? o->instances : 1, sizeof(*e->inst));
	for (uint32_t i = 0; !r && i < (o->instances && !o->fewer ? o->instances : 1); i++) {
		e->instances++;
		r = e->inst ? new_instance(e, &e->inst[i]) :
		    rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	}
	if (!r && o->fewer)
		add_instances(e, o->instances);
	if (r) {
		rvl_engine_close(e);
		return r;
	}
	*out = e;
	return 0;
}

void rvl_engine_close(struct rvl_engine *e)
{
	if (!e)
		return;
	for (uint32_t i = 0; e->inst && i < e->instances; i++)
		instance_clear(e, &e->inst[i]);
	free(e->inst);
	free(e->tensor);
	free(e->level);
	if (e->program_map)
		munmap(e->program_map, e->program_size);
	rivulet_model_unref(e->model);
	rivulet_client_unref(e->client);
	rivulet_image_unref(e->img);
	rivulet_runtime_unref(e->rt);
	rivulet_workers_unref(e->workers);
	rivulet_perfmon_unref(e->mon);
	rivulet_device_unref(e->dev);
	free(e);
}

const char *rvl_engine_name(const struct rvl_engine *e)
{
	return e->name;
}

const struct rivulet_board *rvl_engine_board(const struct rvl_engine *e)
{
	return e->have_board ? &e->board : NULL;
}

const struct rivulet_estimate_row *rvl_engine_level(struct rvl_engine *e, uint32_t level)
{
	struct rvl_err err;

	if (!e->have_board || level >= e->board.levels)
		return NULL;
	if (!e->level) {
		e->level = calloc(RIVULET_LEVELS, sizeof(*e->level));
		if (e->level && rivulet_estimate(e->prog, &e->board, e->level, &err) < 0)
			memset(e->level, 0, RIVULET_LEVELS * sizeof(*e->level));
	}
	return e->level && e->level[level].cycles ? &e->level[level] : NULL;
}

const struct rivulet_program *rvl_engine_program(const struct rvl_engine *e)
{
	return e->prog;
}

uint32_t rvl_engine_instances(const struct rvl_engine *e)
{
	return e->instances;
}

uint32_t rvl_engine_inputs(const struct rvl_engine *e)
{
	return e->inputs;
}

uint32_t rvl_engine_outputs(const struct rvl_engine *e)
{
	return e->count - e->inputs;
}

const struct rivulet_tensor_info *rvl_engine_tensor(const struct rvl_engine *e, uint32_t i)
{
	return &e->tensor[i];
}

int rvl_engine_find_input(const struct rvl_engine *e, const char *name)
{
	for (uint32_t i = 0; i < e->inputs; i++)
		if (!strcmp(e->tensor[i].name, name))
			return (int)i;
	rvl_tool_fail(RVL_EXIT_USAGE, "the model has no input \"%s\"; its first is \"%s\"", name,
		      e->inputs ? e->tensor[0].name : "(none)");
	return -1;
}

void *rvl_engine_memory(struct rvl_engine *e, uint32_t instance, uint32_t tensor)
{
	return e->inst[instance].memory[tensor];
}

/* xorshift64*, by Vigna: the upper bits are good. */
static uint32_t next_random(uint64_t *x)
{
	*x ^= *x >> 12;
	*x ^= *x << 25;
	*x ^= *x >> 27;
	return (uint32_t)(*x * 0x2545f4914f6cdd1dull >> 32);
}

static void random_tensor(const struct rivulet_tensor_info *t, uint8_t *p, uint64_t *state)
{
	if (t->dtype == RIVULET_F32) {
		for (uint64_t k = 0; k < t->bytes / 4; k++)
			((float *)(void *)p)[k] = (float)(next_random(state) >> 8) / 16777216.0f;
		return;
	}
	for (uint64_t k = 0; k < t->bytes; k++) {
		if (t->dtype == RIVULET_U8 || t->dtype == RIVULET_S8)
			p[k] = (uint8_t)(next_random(state) >> 24);
		else
			p[k] = t->dtype == RIVULET_BOOL ? next_random(state) >> 31 : 0;
	}
}

void rvl_engine_randomise(struct rvl_engine *e, uint32_t instance, uint64_t seed)
{
	uint64_t state = (seed + 1) * 0x9e3779b97f4a7c15ull; /* not 0 for any seed below 2^64 - 1 */

	state += !state;
	for (uint32_t i = 0; i < e->inputs; i++)
		random_tensor(&e->tensor[i], e->inst[instance].memory[i], &state);
}

const struct rivulet_exec *rvl_engine_exec(const struct rvl_engine *e, uint32_t instance)
{
	return e->inst[instance].exec;
}

static int by_queue_and_start(const void *a, const void *b)
{
	const struct rivulet_prof *x = a, *y = b;
	uint32_t p = le32toh(x->queue), q = le32toh(y->queue);
	uint64_t s = le64toh(x->start), t = le64toh(y->start);

	return p != q ? (p < q ? -1 : 1) : s < t ? -1 : s > t;
}

int rvl_prof_of_step(const struct rivulet_exec *x, uint32_t step, struct rivulet_prof **out, size_t *n)
{
	size_t room;
	const struct rivulet_prof *from = rivulet_exec_prof(x, step, &room);

	*n = 0;
	*out = from ? calloc(room + 1, sizeof(**out)) : NULL;
	if (!from)
		return 0;
	if (!*out)
		return rvl_tool_fail(RVL_EXIT_FAILED, "out of memory");
	for (size_t i = 0; i < room; i++)
		if (from[i].end)
			(*out)[(*n)++] = from[i];
	qsort(*out, *n, sizeof(**out), by_queue_and_start);
	return 0;
}

bool rvl_engine_is_sim(const struct rvl_engine *e)
{
	return e->sim;
}

int rvl_engine_set_level(struct rvl_engine *e, uint32_t level)
{
	int r = e->rt ? rivulet_runtime_set_level(e->rt, level) : -EOPNOTSUPP;

	if (r == -EINVAL)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--level %u: %s has levels 0 to %u", level,
				     e->board.name, e->board.levels - 1);
	return r ? rvl_tool_fail(RVL_EXIT_USAGE, "--level is for sim:BOARD; a device's level is set by "
				 "its devfreq files, see rivulet info") : 0;
}

int rvl_engine_monitor(struct rvl_engine *e)
{
	int r;

	if (!e->dev)
		return rvl_tool_fail(RVL_EXIT_USAGE, "--counters needs --device /dev/accel/accelN: the jobs "
				     "of %s are not this program's", e->name);
	r = rivulet_perfmon_new(e->dev, &e->mon);
	if (!r)
		r = rivulet_runtime_monitor(e->rt, e->mon);
	return r ? fail_lib(r) : 0;
}

int rvl_engine_counted(struct rvl_engine *e, uint64_t *values)
{
	int r = rivulet_perfmon_read(e->mon, true, values, RIVULET_PERF_VALUES);

	return r ? fail_lib(r) : 0;
}

/* @waits: rvl_engine_wait() follows at once. */
static int start_run(struct rvl_engine *e, uint32_t instance, uint64_t timeout_ns, int priority, bool waits)
{
	struct instance *in = &e->inst[instance];
	int r;

	in->started = rvl_tool_now();
	in->in_flight = true;
	if (e->client) {
		struct rivulet_run_options o = { .size = sizeof(o), .priority = priority };

		o.deadline = timeout_ns ? (int64_t)(in->started + timeout_ns) : 0;
		r = rivulet_request_start(in->req, &o);
		return r ? fail_lib(r) : 0;
	}
	{
		struct rivulet_exec_params p = { .waits = waits };
		struct rivulet_runtime_error err;

		p.deadline = timeout_ns ? (int64_t)(in->started + timeout_ns) : 0;
		r = rivulet_exec_start(in->exec, &p, &err);
		return r ? rvl_tool_fail(rvl_exit_of(r), "%s", err.text) : 0;
	}
}

int rvl_engine_start(struct rvl_engine *e, uint32_t instance, uint64_t timeout_ns, int priority)
{
	return start_run(e, instance, timeout_ns, priority, false);
}

/* Puts the shapes that the instance's run found into the descriptions of the bounded outputs. */
static void take_shapes(struct rvl_engine *e, const struct instance *in)
{
	for (uint32_t i = e->inputs; i < e->count; i++) {
		struct rivulet_tensor_info *t = &e->tensor[i];

		if (!t->bounded)
			continue;
		if (e->client) {
			rivulet_request_tensor(in->req, i, t);
			continue;
		}
		rivulet_exec_shape(in->exec, i, t->dim);
		t->bytes = rvl_dtype_size(t->dtype);
		for (uint32_t d = 0; d < t->ndim; d++)
			t->bytes *= t->dim[d];
	}
}

static void daemon_stats(const struct instance *in, struct rvl_run_stats *s)
{
	struct rivulet_run_stats d = { .size = sizeof(d) };

	rivulet_request_stats(in->req, &d);
	*s = (struct rvl_run_stats) { .npu_ns = d.npu_ns, .cpu_ns = d.cpu_ns,
		.cycles = d.cycles, .macs = d.macs,
		.energy_pj = d.energy_pj, .npu_steps = d.npu_steps, .cpu_steps = d.cpu_steps,
		.level_min = d.level_min, .level_max = d.level_max };
}

static void local_stats(const struct instance *in, struct rvl_run_stats *s)
{
	const struct rivulet_exec_result *d = rivulet_exec_result(in->exec);

	*s = (struct rvl_run_stats) { .npu_ns = d->device_ns, .cpu_ns = d->cpu_ns,
		.cycles = d->cycles, .macs = d->macs,
		.energy_pj = d->energy_pj, .npu_steps = d->npu_steps, .cpu_steps = d->cpu_steps,
		.level_min = d->level_min, .level_max = d->level_max };
}

int rvl_engine_wait(struct rvl_engine *e, uint32_t instance, struct rvl_run_stats *stats)
{
	struct instance *in = &e->inst[instance];
	int r = e->client ? rivulet_request_wait(in->req, -1) : rivulet_exec_wait(in->exec, -1);

	in->in_flight = false;
	if (r && e->client)
		return rvl_tool_fail(RVL_EXIT_FAILED, "%s", rivulet_last_error());
	if (r)
		return rvl_tool_fail(RVL_EXIT_FAILED, "%s", rivulet_exec_result(in->exec)->text);
	take_shapes(e, in);
	if (!stats)
		return 0;
	if (e->client)
		daemon_stats(in, stats);
	else
		local_stats(in, stats);
	stats->wall_ns = rvl_tool_now() - in->started;
	return 0;
}

int rvl_engine_run(struct rvl_engine *e, uint32_t instance, struct rvl_run_stats *stats)
{
	int r = start_run(e, instance, 0, 0, true);

	return r ? r : rvl_engine_wait(e, instance, stats);
}

static bool ended(const struct rvl_engine *e, const struct instance *in)
{
	if (!in->in_flight)
		return false;
	return e->client ? rivulet_request_result(in->req) != -EINPROGRESS :
	       rivulet_exec_result(in->exec)->error != -EINPROGRESS;
}

int rvl_engine_any(struct rvl_engine *e)
{
	struct pollfd p = { .events = POLLIN };

	p.fd = e->client ? rivulet_client_fd(e->client) : rivulet_runtime_fd(e->rt);
	for (;;) {
		int r;

		for (uint32_t i = 0; i < e->instances; i++)
			if (ended(e, &e->inst[i]))
				return (int)i;
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			return -rvl_tool_fail(RVL_EXIT_FAILED, "poll: %s", strerror(errno));
		r = e->client ? rivulet_client_dispatch(e->client) : rivulet_runtime_dispatch(e->rt);
		if (r < 0)
			return -(e->client ? fail_lib(r) :
				 rvl_tool_fail(RVL_EXIT_FAILED, "dispatch: %s", strerror(-r)));
	}
}

/* ---- the last quantised tensor ---- */

static const struct rivulet_step *writer_of(const struct rivulet_program *p, uint32_t tensor)
{
	const struct rivulet_step *s = rivulet_program_steps(p);

	for (uint32_t i = 0; i < p->steps; i++)
		for (uint32_t k = 0; k < s[i].nwrite; k++)
			if (s[i].write[k] == tensor)
				return &s[i];
	return NULL;
}

bool rvl_last_quantised(const struct rivulet_program *p, uint32_t output, struct rvl_quant_params *q)
{
	const struct rivulet_step *s = writer_of(p, p->inputs + output);
	const struct rivulet_tensor *t;

	if (!s || s->kind != RIVULET_STEP_CPU || s->op != RVL_OP_DEQUANTIZE || !s->nread)
		return false;
	t = &rivulet_program_tensors(p)[s->read[0]];
	if (!(t->scale > 0) || (t->dtype != RIVULET_U8 && t->dtype != RIVULET_S8))
		return false;
	*q = (struct rvl_quant_params) { .scale = t->scale, .zero_point = t->zero_point,
					 .is_signed = t->dtype == RIVULET_S8 };
	return true;
}

uint8_t rvl_requantise(float f, const struct rvl_quant_params *q)
{
	float v = rintf(f / q->scale);

	/*
	 * A value that no byte can produce becomes a wrong byte: the conversion would be undefined.
	 */
	if (!(fabsf(v) <= 512))
		return (uint8_t)(q->zero_point ^ 0x80);
	return (uint8_t)((int32_t)v + q->zero_point);
}

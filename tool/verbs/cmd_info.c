// SPDX-License-Identifier: MIT
/*
 * rivulet info: describes the daemon, a device with levels and counters, the processor, or the
 * tensors of a model.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/sysfs.h"
#include "data/array.h"
#include "device/engine.h"
#include "json.h"
#include "model/dims.h"
#include "rivulet_kernels.h"
#include "output.h"
#include "verb.h"

static const struct { const char *name, *unit, *doc; size_t at; } counters[] = {
#define COUNTER(name, unit, doc) \
	{ #name, unit, doc, offsetof(struct drm_rivulet_counters, name) },
	RIVULET_COUNTERS(COUNTER)
#undef COUNTER
};

#define COUNTERS (sizeof(counters) / sizeof(counters[0]))

/* ---- boards and devices ---- */

static const struct { const char *name, *unit, *doc; size_t at; } keys[] = {
#define KEY(key, lo, hi, unit, doc) { #key, unit, doc, offsetof(struct rivulet_board, key) },
	RIVULET_BOARD_KEYS(KEY)
#undef KEY
};

static uint32_t key_value(const struct rivulet_board *b, size_t i)
{
	return *(const uint32_t *)((const char *)b + keys[i].at);
}

static void text_board(const struct rivulet_board *b)
{
	static const char *const heads[] = { "", ">", "", "" };
	static const char *const level_heads[] = { ">level", ">clock", ">supply", ">per MAC",
						   ">per DMA byte", ">static", ">peak" };
	struct rvl_table t;
	char u[3][32];

	rvl_table_init(&t, 4, heads);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		rvl_table_cell(&t, "%s", keys[i].name);
		rvl_table_cell(&t, "%u", key_value(b, i));
		rvl_table_cell(&t, "%s", keys[i].unit);
		rvl_table_cell(&t, "%s", keys[i].doc);
	}
	rvl_table_print(&t, 2);
	printf("\n");
	rvl_table_init(&t, 7, level_heads);
	for (uint32_t i = 0; i < b->levels; i++) {
		const struct rivulet_board_level *l = &b->level[i];

		rvl_table_cell(&t, "%u", i);
		rvl_table_cell(&t, "%s", rvl_unit(u[0], (double)l->hz, "Hz"));
		rvl_table_cell(&t, "%u mV", l->microvolt / 1000);
		rvl_table_cell(&t, "%u fJ", l->fj_per_mac);
		rvl_table_cell(&t, "%u fJ", l->fj_per_byte);
		rvl_table_cell(&t, "%s", rvl_unit(u[1], l->static_uw * 1e-6, "W"));
		rvl_table_cell(&t, "%s", rvl_unit(u[2], (double)l->hz * rivulet_board_peak(b), "MAC/s"));
	}
	rvl_table_print(&t, 2);
}

static void json_board(const struct rivulet_board *b)
{
	rvl_json_open("board", '{');
	rvl_json_str("name", b->name);
	/* Energies and powers follow by level, in SI units. */
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(keys[i].unit, "fJ") && strcmp(keys[i].unit, "uW"))
			rvl_json_u64(keys[i].name, key_value(b, i));
	rvl_json_str("pace", b->pace_real ? "real" : "fast");
	rvl_json_open("levels", '[');
	for (uint32_t i = 0; i < b->levels; i++) {
		rvl_json_open(NULL, '{');
		rvl_json_u64("hz", b->level[i].hz);
		rvl_json_num("volt", b->level[i].microvolt * 1e-6);
		rvl_json_num("joule_per_mac", b->level[i].fj_per_mac * 1e-15);
		rvl_json_num("joule_per_byte", b->level[i].fj_per_byte * 1e-15);
		rvl_json_num("static_watt", b->level[i].static_uw * 1e-6);
		rvl_json_close();
	}
	rvl_json_close();
	rvl_json_close();
}

static uint64_t counter_value(const struct drm_rivulet_counters *c, size_t i)
{
	return *(const uint64_t *)((const char *)c + counters[i].at);
}

/* @c: NULL when this user may not read the counters, which count the work of all clients. */
static void text_counters(const struct drm_rivulet_counters *c)
{
	static const char *const heads[] = { "", ">", "", "" };
	struct rvl_table t;

	if (!c) {
		printf("\ncounters since power on: needs privilege (CAP_PERFMON)\n");
		return;
	}
	printf("\nsince power on, %llu resets:\n", (unsigned long long)c->resets);
	rvl_table_init(&t, 4, heads);
	for (size_t i = 0; i < COUNTERS; i++) {
		rvl_table_cell(&t, "%s", counters[i].name);
		rvl_table_cell(&t, "%llu", (unsigned long long)counter_value(c, i));
		rvl_table_cell(&t, "%s", counters[i].unit);
		rvl_table_cell(&t, "%s", counters[i].doc);
	}
	rvl_table_print(&t, 2);
}

static void json_counters(const struct drm_rivulet_counters *c)
{
	if (!c) {
		rvl_json_str("counters", "needs privilege");
		return;
	}
	rvl_json_open("counters", '{');
	rvl_json_u64("resets", c->resets);
	for (size_t i = 0; i < COUNTERS; i++)
		rvl_json_u64(counters[i].name, counter_value(c, i));
	rvl_json_close();
}

/* devfreq chooses the level: print its state, and the directory of the files that control it. */
static void show_devfreq(const char *path)
{
	static const char *const files[] = { "governor", "cur_freq", "min_freq", "max_freq",
					     "available_frequencies" };
	const char *node = strrchr(path, '/');
	char name[128], text[256];

	if (!node || !rvl_sys_devfreq(node + 1, name, sizeof(name)))
		return;
	if (rvl_tool_json)
		rvl_json_open("devfreq", '{');
	else
		printf("\nlevel control: /sys/class/devfreq/%s\n", name);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (!rvl_sys_read(text, sizeof(text), "sys/class/devfreq/%s/%s", name, files[i]))
			continue;
		if (rvl_tool_json)
			rvl_json_str(files[i], text);
		else
			printf("  %-22s %s\n", files[i], text);
	}
	if (rvl_tool_json)
		rvl_json_close();
}

/* What info shows of a device node; @c as of text_counters(). */
static void show_node(struct rivulet_device *dev, const struct rivulet_board *b, uint32_t level,
		      const struct drm_rivulet_counters *c)
{
	const struct drm_rivulet_device *d = rivulet_device_info(dev);

	if (rvl_tool_json) {
		rvl_json_begin("info/2");
		rvl_json_str("device", rivulet_device_path(dev));
		rvl_json_u64("level", level);
		json_board(b);
		json_counters(c);
		show_devfreq(rivulet_device_path(dev));
		rvl_json_end();
		return;
	}
	printf("%s: board %s, device %u.%u, instructions %u, at level %u, %s\n",
	       rivulet_device_path(dev), b->name, d->dev_version >> 16, d->dev_version & 0xffff,
	       d->isa_version, level, b->pace_real ? "paced to real time" : "not paced");
	text_board(b);
	text_counters(c);
	show_devfreq(rivulet_device_path(dev));
}

static int info_node(const char *path)
{
	struct drm_rivulet_counters c;
	struct drm_rivulet_clock clock;
	struct rivulet_device *dev;
	struct rivulet_board b;
	int denied = 0, r = rivulet_device_open(*path ? path : NULL, &dev);

	if (r)
		return rvl_tool_fail(rvl_exit_of(r), "%s", rivulet_last_error());
	r = rvl_board_of(rivulet_device_path(dev), &b);
	if (!r) {
		denied = rivulet_device_counters(dev, &c);
		if ((denied && denied != -EACCES) || rivulet_device_clock(dev, &clock))
			r = rvl_tool_fail(RVL_EXIT_FAILED, "%s", rivulet_last_error());
	}
	if (!r)
		show_node(dev, &b, clock.level, denied ? NULL : &c);
	rivulet_device_unref(dev);
	return r;
}

static int info_sim(const char *device)
{
	struct rivulet_board b;
	int r = rvl_board_of(device, &b);

	if (r)
		return r;
	if (rvl_tool_json) {
		rvl_json_begin("info/2");
		rvl_json_str("device", device);
		json_board(&b);
		rvl_json_end();
		return 0;
	}
	printf("board %s, peak %u MACs a cycle\n", b.name, rivulet_board_peak(&b));
	text_board(&b);
	return 0;
}

/* ---- daemon ---- */

static void text_daemon(const struct rivulet_daemon_info *i, struct json_object *status)
{
	char u[2][32];

	printf("rivuletd %s, protocol %u\n", i->version, i->protocol);
	printf("  device     %s %s\n", i->present ? i->device : "absent", i->board);
	printf("  levels     %u\n", i->levels);
	printf("  limits     %u models of %s, %u requests, %u runs, %s of bound memory a user\n",
	       i->max_models, rvl_bytes(u[0], i->max_model), i->max_requests, i->max_runs,
	       rvl_bytes(u[1], i->max_bytes));
	printf("  serving    %zu models, %zu connections; rivulet status has more\n",
	       json_object_array_length(rvl_json_member(status, "models")),
	       json_object_array_length(rvl_json_member(status, "sessions")));
}

static void json_daemon(const struct rivulet_daemon_info *i, struct json_object *status)
{
	struct json_object *si = rvl_json_si(status);

	rvl_json_begin("info/2");
	rvl_json_str("device", "daemon");
	rvl_json_str("version", i->version);
	rvl_json_u64("protocol", i->protocol);
	rvl_json_bool("present", i->present);
	rvl_json_str("node", i->device);
	rvl_json_str("board", i->board);
	rvl_json_put("status", si);
	rvl_json_end();
	json_object_put(si);
}

static int info_client(struct rivulet_client *c)
{
	struct rivulet_daemon_info i = { .size = sizeof(i) };
	struct json_object *status;
	int r = rvl_daemon_status(c, &status);

	if (r)
		return r;
	rivulet_client_info(c, &i);
	(rvl_tool_json ? json_daemon : text_daemon)(&i, status);
	json_object_put(status);
	return 0;
}

/* @only: do not fall back to the first node if no daemon answers. */
static int info_daemon(bool only)
{
	struct rivulet_client *c;
	int r = rivulet_open(NULL, &c);

	if (r && !only)
		return info_node("");
	if (r)
		return rvl_tool_fail(rvl_exit_of(r), "%s", rivulet_last_error());
	r = info_client(c);
	rivulet_client_unref(c);
	return r;
}

/* ---- the processor ---- */

static const char *reason(const struct rvl_cpu_set *s)
{
	if (!s->available)
		return "not on this processor";
	if (!s->used)
		return "";
	return s->forced ? "in use: RIVULET_ISA forces it" : "in use: the best one of this processor";
}

static void text_cpu(void)
{
	static const char *const heads[] = { "set", "what", "" };
	struct rvl_cpu_set s;
	struct rvl_table t;

	printf("instruction sets of the CPU operators:\n");
	rvl_table_init(&t, 3, heads);
	for (uint32_t i = 0; rvl_cpu_set(i, &s); i++) {
		rvl_table_cell(&t, "%s", s.name);
		rvl_table_cell(&t, "%s", s.doc);
		rvl_table_cell(&t, "%s", reason(&s));
	}
	rvl_table_print(&t, 2);
}

static void json_cpu(void)
{
	struct rvl_cpu_set s;

	rvl_json_begin("cpu");
	rvl_json_open("sets", '[');
	for (uint32_t i = 0; rvl_cpu_set(i, &s); i++) {
		rvl_json_open(NULL, '{');
		rvl_json_str("name", s.name);
		rvl_json_str("what", s.doc);
		rvl_json_bool("available", s.available);
		rvl_json_bool("used", s.used);
		rvl_json_bool("forced", s.used && s.forced);
		rvl_json_close();
	}
	rvl_json_close();
	rvl_json_end();
}

/* ---- models ---- */

static void show_tensors(const char *path, const struct rivulet_program *p)
{
	static const char *const heads[] = { "", "name", "type", "shape", ">scale", ">zero point", ">bytes" };
	const struct rivulet_tensor *t = rivulet_program_tensors(p);
	struct rvl_table table;
	char shape[128];

	if (!rvl_tool_json)
		printf("%s: model \"%s\"\n", path, rivulet_program_string(p, p->model_name));
	rvl_table_init(&table, 7, heads);
	for (uint32_t i = 0; i < p->inputs + p->outputs; i++) {
		rvl_table_cell(&table, i < p->inputs ? "input" : "output");
		rvl_table_cell(&table, "%s", rivulet_program_string(p, t[i].name));
		rvl_table_cell(&table, "%s", rvl_dtype_name(t[i].dtype));
		rvl_table_cell(&table, "%s", rvl_shape_text(shape, t[i].ndim, t[i].dim));
		rvl_table_cell(&table, t[i].scale > 0 ? "%g" : "", (double)t[i].scale);
		rvl_table_cell(&table, t[i].scale > 0 ? "%d" : "", t[i].zero_point);
		rvl_table_cell(&table, "%llu", (unsigned long long)t[i].size);
	}
	rvl_table_print(&table, 2);
}

static void json_tensors(const char *path, const struct rivulet_program *p)
{
	const struct rivulet_tensor *t = rivulet_program_tensors(p);

	rvl_json_begin("model");
	rvl_json_str("file", path);
	rvl_json_str("model", rivulet_program_string(p, p->model_name));
	rvl_json_open("tensors", '[');
	for (uint32_t i = 0; i < p->inputs + p->outputs; i++) {
		rvl_json_open(NULL, '{');
		rvl_json_str("name", rivulet_program_string(p, t[i].name));
		rvl_json_bool("output", i >= p->inputs);
		rvl_json_str("type", rvl_dtype_name(t[i].dtype));
		rvl_json_open("shape", '[');
		for (uint32_t d = 0; d < t[i].ndim; d++)
			rvl_json_u64(NULL, t[i].dim[d]);
		rvl_json_close();
		rvl_json_num("scale", (double)t[i].scale);
		rvl_json_i64("zero_point", t[i].zero_point);
		rvl_json_close();
	}
	rvl_json_close();
	rvl_json_end();
}

struct info_args {
	const char *device;
	bool cpu;
	uint64_t batch;
	struct rvl_dims dims;
};

static int info_model(const struct info_args *a, const char *path)
{
	struct rivulet_compile_options o = { .cpu_only = true, .batch = (int64_t)a->batch };
	struct rivulet_blob program = { 0 };
	struct rvl_err err = { "" };
	struct rvl_blob b;
	const void *p;
	char why[256];
	int r = rvl_read_file(path, RIVULET_PROGRAM_MAX, &b);

	if (r)
		return r;
	rvl_dims_fill(&a->dims, &o);
	p = b.data;
	if (b.size >= 4 && *(uint32_t *)b.data == RIVULET_PROGRAM_MAGIC) {
		if (rivulet_program_check(b.data, b.size, why, sizeof(why)))
			r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, why);
	} else if (rivulet_compile(b.data, b.size, NULL, &o, &program, NULL, &err)) {
		r = rvl_tool_fail(RVL_EXIT_REFUSED, "%s: %s", path, err.msg);
	} else {
		p = program.data;
	}
	if (!r)
		(rvl_tool_json ? json_tensors : show_tensors)(path, p);
	rivulet_blob_free(&program);
	rvl_blob_clear(&b);
	return r;
}

static int run_info(void *args, int n, char **operand)
{
	const struct info_args *a = args;

	if (!!n + !!a->device + a->cpu > 1)
		return rvl_tool_fail(RVL_EXIT_USAGE, "rivulet info takes one model, or --device, or --cpu");
	if (a->cpu) {
		(rvl_tool_json ? json_cpu : text_cpu)();
		return 0;
	}
	if (n)
		return info_model(a, operand[0]);
	if (!a->device || !strcmp(a->device, "daemon"))
		return info_daemon(a->device);
	return !strncmp(a->device, "sim:", 4) ? info_sim(a->device) : info_node(a->device);
}

static void clear(void *args)
{
	struct info_args *a = args;

	rvl_dims_clear(&a->dims);
}

static const struct rvl_option options[] = {
	{ "device", 'd', "WHERE", "daemon, /dev/accel/accelN, or sim:BOARD (the daemon, else the first node)",
	  RVL_MEMBER(struct info_args, device) },
	{ "cpu", 0, NULL, "which instruction set the CPU operators use, and why",
	  RVL_MEMBER(struct info_args, cpu) },
	{ "batch", 0, "N", "of a model: value of a symbolic first dimension (1)",
	  RVL_MEMBER(struct info_args, batch), .least = 1, .most = INT32_MAX },
	RVL_DIMS_OPTIONS(struct info_args, dims),
	{ 0 }
};

const struct rvl_verb rvl_verb_info = {
	.name = "info", .summary = "the device, its levels and counters, or a model's tensors", .order = 80,
	.operands = "[MODEL or PROGRAM]", .most = 1, .takes = "one model, or --device, or --cpu",
	.options = options, .args_size = sizeof(struct info_args), .run = run_info,
	.clear = clear,
};

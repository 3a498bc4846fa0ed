// SPDX-License-Identifier: MIT
/* Discovery and hot-plug of the NPU by its driver's name, and the runtimes of sessions on it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "accel.h"
#include "cache.h"
#include "config.h"
#include "connection.h"
#include "estimate.h"
#include "log.h"
#include "manager.h"
#include "rivulet.h"
#include "rivulet_board.h"
#include "rivulet_proto.h"
#include "rivulet_runtime.h"
#include "util.h"

#define DRIVER "rivulet"

/* The kernel announces a node before it can be opened; on a busy machine the gap may be long. */
#define RETRIES 50
#define RETRY_US 100000

static int on_runtime(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct rvl_engine *e = data;
	int r = rivulet_runtime_dispatch(e->rt);

	(void)fd;
	(void)events;
	if (r >= 0)
		return 0;
	/*
	 * The descriptor is level triggered, so the source is disabled. Runs of this engine end by
	 * their own errors or by the device's removal.
	 */
	rvl_log(LOG_ERR, RVL_LOG_NONE, &(struct rvl_about){ .device = e->device->node },
		"the runtime of %s failed: %s", e->device->node, strerror(-r));
	sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

static void add_past(struct rivulet_level_total *sum, const struct rivulet_level_total *t)
{
	for (int i = 0; i < RIVULET_LEVELS; i++) {
		sum[i].jobs += t[i].jobs;
		sum[i].cycles += t[i].cycles;
		sum[i].device_ns += t[i].device_ns;
		sum[i].energy_pj += t[i].energy_pj;
		sum[i].macs += t[i].macs;
		sum[i].conv_busy += t[i].conv_busy;
		sum[i].read_bytes += t[i].read_bytes;
		sum[i].write_bytes += t[i].write_bytes;
	}
}

struct rvl_engine *rvl_engine_put(struct rvl_engine *e)
{
	if (!e || --e->refs)
		return NULL;
	add_past(e->device->past, rivulet_runtime_totals(e->rt));
	sd_event_source_disable_unref(e->source);
	rivulet_runtime_unref(e->rt);
	free(e);
	return NULL;
}

/* Takes over @rt. */
static int engine_new(struct rvl_device *d, struct rivulet_runtime *rt, struct rvl_engine **out)
{
	struct rvl_engine *e = calloc(1, sizeof(*e));
	int r = -ENOMEM;

	if (e) {
		e->refs = 1;
		e->device = d;
		e->rt = rt;
		rivulet_runtime_set_offload(rt, true);
		r = sd_event_add_io(d->m->event, &e->source, rivulet_runtime_fd(rt), EPOLLIN,
				    on_runtime, e);
	}
	if (r < 0) {
		rivulet_runtime_unref(rt);
		free(e);
		return r;
	}
	*out = e;
	return 0;
}

static int open_runtime(struct rvl_device *d, const char *node, struct rivulet_runtime **out,
			struct rvl_text *err)
{
	struct rivulet_runtime_error why = { .text = "" };
	struct rivulet_device *dev;
	int r = rivulet_device_open(node, &dev);

	if (r)
		return rvl_say(err, r, "%s: %.400s", node, rivulet_last_error());
	r = rivulet_runtime_new_device(dev, d->pool, out, &why);
	rivulet_device_unref(dev);
	return r ? rvl_say(err, r, "%s: %.400s", node, why.text) : 0;
}

int rvl_device_engine(struct rvl_device *d, struct rvl_engine **out, struct rvl_text *err)
{
	struct rivulet_runtime *rt;
	int r;

	if (!d->present)
		return rvl_say(err, -ENODEV, "no device with driver " DRIVER " is there");
	if (d->shared) {
		d->shared->refs++;
		*out = d->shared;
		return 0;
	}
	r = open_runtime(d, d->node, &rt, err);
	if (r)
		return r;
	r = engine_new(d, rt, out);
	return r ? rvl_say(err, r, "event loop: %s", strerror(-r)) : 0;
}

/* Field by field into zeroes, so that keys can be compared as bytes. */
void rvl_device_key(const struct rvl_device *d, struct rvl_key *key)
{
	const struct rivulet_board *from = &d->board;
	struct rivulet_board *to = &key->board;

	memset(to, 0, sizeof(*to));
	memcpy(to->name, from->name, strnlen(from->name, sizeof(to->name)));
#define COPY_KEY(key, lo, hi, unit, doc) to->key = from->key;
	RIVULET_BOARD_KEYS(COPY_KEY)
	memcpy(to->stream, from->stream, sizeof(to->stream));
	to->levels = from->levels;
	memcpy(to->level, from->level, sizeof(to->level));
	key->target = d->target;
}

static void device_added(struct rvl_device *d, const struct rivulet_runtime *rt, const char *node)
{
	struct rvl_key last = { 0 }, key = { 0 };

	rvl_device_key(d, &last);
	d->board = *rivulet_runtime_board(rt);
	rivulet_runtime_target(rt, &d->target);
	rvl_device_key(d, &key);
	if (memcmp(&last.board, &key.board, sizeof(key.board)))
		rvl_cache_forget_times(&d->m->cache);
	rivulet_proto_name(d->node, sizeof(d->node), node);
	d->present = true;
	d->epoch++;
	rvl_log(LOG_NOTICE, RVL_LOG_DEVICE_ADDED, &(struct rvl_about){ .device = d->node },
		"serving %s: board %s, %u x %u array, %u MACs per cycle, %u levels", d->node,
		d->board.name, d->board.tm, d->board.tn, rivulet_board_peak(&d->board),
		d->board.levels);
	rvl_device_event(d->m);
}

static void device_removed(struct rvl_device *d)
{
	rvl_log(LOG_NOTICE, RVL_LOG_DEVICE_REMOVED, &(struct rvl_about){ .device = d->node },
		"%s is gone; runs fail until it comes back", d->node);
	d->present = false;
	d->node[0] = d->syspath[0] = 0;
	rvl_device_event(d->m);
}

uint64_t rvl_device_expected_ns(const struct rvl_device *d, const struct rvl_program *p)
{
	return d->present && d->board.levels ?
		       rvl_program_expected_ns(p, &d->board, d->board.levels - 1,
					       (struct rvl_override){ 0 }) : 0;
}

void rvl_device_removed(struct rvl_device *d)
{
	if (d->present && !d->sim)
		device_removed(d);
}

/* ---- discovery ---- */

static const char *const subsystems[] = { "accel", "drm" };

static bool is_rivulet(sd_device *dev)
{
	const char *driver, *node;
	sd_device *parent;

	return sd_device_get_parent(dev, &parent) >= 0 &&
	       sd_device_get_driver(parent, &driver) >= 0 && !strcmp(driver, DRIVER) &&
	       sd_device_get_devname(dev, &node) >= 0 &&
	       (!strncmp(node, "/dev/accel/", 11) || strstr(node, "/renderD"));
}

static void enumerate(struct rvl_device *d, const char *except);

static int on_retry(sd_event_source *source, uint64_t usec, void *data)
{
	(void)source;
	(void)usec;
	enumerate(data, "");
	return 0;
}

/* Schedules another enumeration. Returns false after RETRIES of them, or if the timer failed. */
static bool retry(struct rvl_device *d)
{
	if (d->tries++ >= RETRIES)
		return false;
	d->retry = sd_event_source_disable_unref(d->retry);
	return sd_event_add_time_relative(d->m->event, &d->retry, CLOCK_MONOTONIC, RETRY_US, 0,
					  on_retry, d) >= 0;
}

static void adopt(struct rvl_device *d, sd_device *dev)
{
	const char *node, *syspath;
	struct rivulet_runtime *rt;
	struct rvl_text err;

	if (d->present || !is_rivulet(dev) || sd_device_get_devname(dev, &node) < 0 ||
	    sd_device_get_syspath(dev, &syspath) < 0)
		return;
	if (strcmp(d->wanted.s, "auto") && strcmp(d->wanted.s, node))
		return;
	if (open_runtime(d, node, &rt, &err)) {
		if (retry(d))
			return;
		rvl_log(LOG_WARNING, RVL_LOG_NONE, &(struct rvl_about){ .device = node },
			"cannot serve %s", err.s);
		return;
	}
	d->retry = sd_event_source_disable_unref(d->retry);
	snprintf(d->syspath, sizeof(d->syspath), "%s", syspath);
	device_added(d, rt, node);
	rivulet_runtime_unref(rt);
}

/* Skips @except: a device that is being removed may still be in sysfs. */
static void enumerate(struct rvl_device *d, const char *except)
{
	sd_device_enumerator *e = NULL;
	const char *syspath;
	int r = sd_device_enumerator_new(&e);

	if (r >= 0)
		r = sd_device_enumerator_allow_uninitialized(e);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(subsystems); i++)
		r = sd_device_enumerator_add_match_subsystem(e, subsystems[i], true);
	if (r < 0)
		rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL, "cannot list devices: %s", strerror(-r));
	else
		for (sd_device *dev = sd_device_enumerator_get_device_first(e); dev;
		     dev = sd_device_enumerator_get_device_next(e))
			if (sd_device_get_syspath(dev, &syspath) >= 0 && strcmp(syspath, except))
				adopt(d, dev);
	sd_device_enumerator_unref(e);
}

static int on_uevent(sd_device_monitor *monitor, sd_device *dev, void *data)
{
	sd_device_action_t action;
	struct rvl_device *d = data;
	const char *syspath;

	(void)monitor;
	if (sd_device_get_action(dev, &action) < 0 || sd_device_get_syspath(dev, &syspath) < 0)
		return 0;
	d->tries = 0;
	if (action != SD_DEVICE_REMOVE) {
		adopt(d, dev);
	} else if (d->present && !strcmp(syspath, d->syspath)) {
		device_removed(d);
		enumerate(d, syspath);	/* another device may be present */
	}
	return 0;
}

static int watch(struct rvl_device *d)
{
	int r = sd_device_monitor_new(&d->monitor);

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(subsystems); i++)
		r = sd_device_monitor_filter_add_match_subsystem_devtype(d->monitor, subsystems[i],
									 NULL);
	r = r < 0 ? r : sd_device_monitor_attach_event(d->monitor, d->m->event);
	return r < 0 ? r : sd_device_monitor_start(d->monitor, on_uevent, d);
}

/* sim:BOARD completes a job when it is computed, sim:BOARD,pace=real when its time has passed. */
static int start_sim(struct rvl_device *d, struct rvl_text *err)
{
	static const char real[] = ",pace=real";
	struct rivulet_runtime_error why = { .text = "" };
	struct rvl_node name = d->wanted;
	char *pace = strstr(name.s, real);
	struct rivulet_runtime *rt;
	struct rivulet_board board;
	bool paced = pace && !pace[strlen(real)];
	int r;

	if (paced)
		*pace = 0;
	r = rivulet_board_load(&board, name.s + strlen("sim:"), err->s, sizeof(err->s));
	if (r)
		return r;
	r = rivulet_runtime_new_sim(&board, d->pool, &rt, &why);
	if (r)
		return rvl_say(err, r, "%s: %.400s", d->wanted.s, why.text);
	rivulet_runtime_set_paced(rt, paced);
	r = engine_new(d, rt, &d->shared);
	if (r)
		return rvl_say(err, r, "event loop: %s", strerror(-r));
	d->sim = true;
	device_added(d, rt, d->wanted.s);
	return 0;
}

int rvl_device_start(struct rvl_manager *m, struct rvl_text *err)
{
	struct rvl_device *d = &m->device;
	int r;

	d->m = m;
	d->wanted = m->cfg.node;
	if (m->node)
		snprintf(d->wanted.s, sizeof(d->wanted.s), "%s", m->node);
	r = rivulet_workers_new((uint32_t)m->cfg.threads, &d->pool);
	if (r)
		return rvl_say(err, r, "starting worker threads: %s", strerror(-r));
	if (!strncmp(d->wanted.s, "sim:", 4))
		return start_sim(d, err);
	/*
	 * Monitor before enumerating: a device that appears in between is then seen twice, not
	 * missed.
	 */
	r = watch(d);
	if (r < 0)
		return rvl_say(err, r, "cannot watch devices by netlink: %s", strerror(-r));
	enumerate(d, "");
	return 0;
}

void rvl_device_stop(struct rvl_device *d)
{
	sd_device_monitor_unref(d->monitor);
	d->monitor = NULL;
	d->retry = sd_event_source_disable_unref(d->retry);
	d->shared = rvl_engine_put(d->shared);
	d->pool = rivulet_workers_unref(d->pool);
}

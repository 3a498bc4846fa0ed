// SPDX-License-Identifier: MIT
#include "accel.h"
#include "cache.h"
#include "compile.h"
#include "config.h"
#include "connection.h"
#include "intake.h"
#include "listener.h"
#include "log.h"
#include "loop.h"
#include "manager.h"
#include "metrics.h"
#include "offload.h"
#include "power.h"
#include "rivulet_proto.h"
#include "scheduler.h"
#include "user.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

/* Threads of the loader. Each serves one user at a time, so one of them stays for other users. */
#define LOADERS 2

static void warn_line(enum rvl_config_skipped what, const char *text, void *data)
{
	(void)what;
	(void)data;
	rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL, "%s", text);
}

void rvl_manager_notify(struct rvl_manager *m)
{
	const struct rvl_device *d = &m->device;

	if (d->present)
		sd_notifyf(0, "STATUS=Serving board %s on %s.", d->board.name, d->node);
	else
		sd_notify(0, "STATUS=Waiting for a device.");
}

/* The configuration in force keeps these keys, so that each further reload names them again. */
static void keep_fixed(struct rvl_config *fresh, const struct rvl_config *old)
{
	struct rvl_text names;

	rvl_config_keep_fixed(fresh, old, &names);
	if (names.s[0])
		rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL,
			"%s changed: this takes effect when rivuletd is restarted", names.s);
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *si, void *data)
{
	struct rvl_manager *m = data;
	struct rvl_config fresh = m->cfg;
	struct rvl_text err;

	(void)source;
	(void)si;
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)rvl_now() / 1000);
	if (rvl_config_load(&fresh, m->config_root, warn_line, NULL, &err)) {
		rvl_log(LOG_ERR, RVL_LOG_CONFIG_REFUSED, NULL,
			"reload refused, the old configuration stays: %s", err.s);
	} else {
		keep_fixed(&fresh, &m->cfg);
		m->cfg = fresh;
		rvl_cache_limit(&m->cache, fresh.cache_bytes, fresh.cache_programs);
		rvl_power_reload(&m->power);
		rvl_log(LOG_NOTICE, RVL_LOG_CONFIG_RELOADED, NULL, "configuration reloaded");
	}
	sd_notify(0, "READY=1");
	return 0;
}

static void on_connection(int sock, void *data)
{
	struct rvl_manager *m = data;
	int r = rvl_session_new(m, sock);

	if (r)
		rvl_log(LOG_ERR, RVL_LOG_NONE, NULL, "new connection: %s", strerror(-r));
}

static void refuse_connection(int sock, int error, void *data)
{
	struct rvl_manager *m = data;
	struct rivulet_msg_error e;
	struct rvl_text text;

	rvl_say(&text, 0, "the daemon cannot take another connection: %s", strerror(error));
	rivulet_proto_init(&e, RIVULET_MSG_ERROR, 0, 0);
	e.h.error = -error;
	rivulet_proto_name(e.text, sizeof(e.text), text.s);
	send(sock, &e, sizeof(e), MSG_DONTWAIT | MSG_NOSIGNAL);
	rvl_intake_dispose(m, rvl_session_uid(sock), sock);
}

int rvl_manager_block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	return sigprocmask(SIG_BLOCK, &set, NULL) ? -errno : 0;
}

static int add_sources(struct rvl_manager *m, int listen_fd)
{
	int r = sd_event_add_signal(m->event, NULL, SIGTERM, NULL, NULL);

	r = r < 0 ? r : sd_event_add_signal(m->event, NULL, SIGINT, NULL, NULL);
	r = r < 0 ? r : sd_event_add_signal(m->event, NULL, SIGHUP, on_reload, m);
	/* New connections wait until the requests of the open ones are served. */
	r = r < 0 ? r : rvl_listener_start(&m->listen, m->event, listen_fd,
					   SD_EVENT_PRIORITY_NORMAL + 10);
	return r < 0 ? r : sd_event_set_watchdog(m->event, true);
}

static int set_up(struct rvl_manager *m, int listen_fd, struct rvl_text *err)
{
	int r = rvl_config_load(&m->cfg, m->config_root, warn_line, NULL, err);

	if (r)
		return r;
	rvl_cache_init(&m->cache, m->cfg.cache_bytes, m->cfg.cache_programs);
	m->cache.closer = &m->closer;
	r = sd_event_new(&m->event);
	r = r < 0 ? r : rvl_offload_start(&m->closer, m->event, 1);
	r = r < 0 ? r : rvl_offload_start(&m->loader, m->event, LOADERS);
	r = r < 0 ? r : add_sources(m, listen_fd);
	r = r < 0 ? r : rvl_sched_start(m);
	if (r < 0)
		return rvl_say(err, r, "event loop: %s", strerror(-r));
	r = rvl_device_start(m, err);
	r = r ?: rvl_power_start(m, err);
	if (!r)
		m->metrics = rvl_metrics_start(m);
	return r;
}

int rvl_manager_new(const struct rvl_options *opt, int listen_fd, struct rvl_manager **out,
		    struct rvl_text *err)
{
	struct rvl_manager *m = calloc(1, sizeof(*m));
	int r;

	if (!m) {
		close(listen_fd);
		return rvl_say(err, -ENOMEM, "out of memory");
	}
	m->config_root = opt->config_root;
	m->node = opt->node;
	m->power.sys = opt->sys ? opt->sys : "/sys";
	m->power.m = m;
	m->started = rvl_now();
	m->compiler.exe = opt->exe;
	m->device.m = m;
	m->listen = (struct rvl_listener){ .name = "rivuletd.sock", .accepted = on_connection,
					   .refuse = refuse_connection, .data = m, .reserve = -1 };
	rvl_list_init(&m->users);
	rvl_list_init(&m->sessions);
	rvl_list_init(&m->refusals);
	rvl_list_init(&m->receivers);
	rvl_list_init(&m->endings);
	rvl_list_init(&m->compiler.queue);
	rvl_list_init(&m->cache.programs);
	r = set_up(m, listen_fd, err);
	if (r) {
		if (!m->listen.io)
			close(listen_fd);
		rvl_manager_free(m);
		return r;
	}
	*out = m;
	return 0;
}

int rvl_manager_run(struct rvl_manager *m)
{
	rvl_log(LOG_INFO, RVL_LOG_STARTED, &(struct rvl_about){ .device = m->device.node },
		"rivuletd " RIVULET_VERSION " is ready, protocol %u", RIVULET_PROTO_MAX);
	/* A waiter for READY=1 may query the status at once, so STATUS= is sent first. */
	rvl_manager_notify(m);
	sd_notify(0, "READY=1");
	return rvl_loop_run(&m->loop, m->event);
}

/* Ends the work of threads, workers and the device. Returns whether all of it ended by StopTimeout=. */
static bool end_work(struct rvl_manager *m)
{
	uint64_t deadline = rvl_now() + m->cfg.stop_timeout;

	rvl_compile_kill(m);
	if (!rvl_offload_drain(&m->loader, deadline))
		return false;
	rvl_compile_stop(m);
	return rvl_sched_stop(m, deadline) && rvl_offload_drain(&m->closer, deadline);
}

struct rvl_manager *rvl_manager_free(struct rvl_manager *m)
{
	struct rvl_session *s;
	bool ended;

	if (!m)
		return NULL;
	sd_notify(0, "STOPPING=1");
	m->stopping = true;
	rvl_listener_stop(&m->listen);
	rvl_refusals_clear(m);
	rvl_list_each(s, &m->sessions, link)
		rvl_session_end(s);
	m->metrics = rvl_metrics_stop(m->metrics);
	rvl_intake_stop(m);
	ended = end_work(m);
	rvl_power_stop(&m->power);
	if (!ended) {
		rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL,
			"work under way did not end within StopTimeout=; stopping without it");
		_exit(EXIT_SUCCESS);
	}
	rvl_device_stop(&m->device);
	rvl_cache_clear(&m->cache);
	rvl_offload_drain(&m->closer, UINT64_MAX);
	rvl_offload_stop(&m->loader);
	rvl_offload_stop(&m->closer);
	rvl_users_clear(m);
	sd_event_unref(m->event);
	free(m);
	return NULL;
}

// SPDX-License-Identifier: MIT
/*
 * OpenMetrics on a Unix stream socket. A connection gets one answer: an HTTP/1.0 response to a GET, or
 * the text alone if the peer shuts down its side without a request. As with STATUS, users other than
 * root see totals and the models that they have loaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "cache.h"
#include "connection.h"
#include "intake.h"
#include "listener.h"
#include "log.h"
#include "manager.h"
#include "metrics.h"
#include "policy.h"
#include "power.h"
#include "rivulet_board.h"
#include "rivulet_crc32c.h"
#include "rivulet_runtime.h"
#include "status.h"
#include "util.h"

#define PEERS_MAX	16
#define REQUEST_MAX	4096
#define TIMEOUT_US	(5 * USEC_PER_SEC)	/* of a connection */

/* ---- the text ---- */

static void head(FILE *f, const char *name, const char *type, const char *unit, const char *help)
{
	fprintf(f, "# TYPE rivulet_%s %s\n", name, type);
	if (unit)
		fprintf(f, "# UNIT rivulet_%s %s\n", name, unit);
	fprintf(f, "# HELP rivulet_%s %s\n", name, help);
}

static void label(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '\\' || *s == '"')
			fprintf(f, "\\%c", *s);
		else if (*s == '\n')
			fputs("\\n", f);
		else
			fputc(*s, f);
	}
}

static void put_loop(FILE *f, const struct rvl_manager *m)
{
	head(f, "loop_stall_seconds", "gauge", "seconds", "Longest callback of the event loop so far.");
	fprintf(f, "rivulet_loop_stall_seconds %.9f\n", (double)m->loop.stall_ns / 1e9);
	head(f, "loop_busy_seconds", "counter", "seconds", "Time in callbacks of the event loop.");
	fprintf(f, "rivulet_loop_busy_seconds_total %.9f\n", (double)m->loop.busy_ns / 1e9);
}

static void put_power(FILE *f, const struct rvl_manager *m)
{
	const struct rvl_power *pw = &m->power;
	uint32_t fixed, source, mode = rvl_power_mode(pw, &fixed, &source);

	head(f, "policy_mode", "stateset", NULL, "Mode of the power policy.");
#define MODE_LINE(name, value, text, doc)                                                          \
	fprintf(f, "rivulet_policy_mode{rivulet_policy_mode=\"%s\"} %d\n", text, mode == (value));
	RIVULET_POLICY_MODES(MODE_LINE)
	head(f, "power_readings", "counter", NULL, "Readings of power supplies and thermal zones.");
	fprintf(f, "rivulet_power_readings_total %" PRIu64 "\n", pw->readings);
	head(f, "power_uevents", "counter", NULL, "Uevents of power supplies, thermal zones and devfreq.");
	fprintf(f, "rivulet_power_uevents_total %" PRIu64 "\n", pw->uevents);
	if (pw->gauge.known) {
		head(f, "battery_charge_ratio", "gauge", "ratio", "Charge of all batteries by energy.");
		fprintf(f, "rivulet_battery_charge_ratio %.6f\n", pw->gauge.charge / 1e6);
	}
	head(f, "power_external", "gauge", NULL, "1 while power comes from outside.");
	fprintf(f, "rivulet_power_external %d\n", pw->gauge.external);
	head(f, "policy_reserve", "gauge", NULL, "1 while the reserve or heat keeps runs out.");
	fprintf(f, "rivulet_policy_reserve %d\n", pw->policy.reserve || pw->policy.emergency);
	if (pw->zones.temp != RVL_NO_VALUE) {
		head(f, "temperature_celsius", "gauge", "celsius", "Hottest thermal zone.");
		fprintf(f, "rivulet_temperature_celsius %.3f\n", (double)pw->zones.temp / 1e3);
	}
}

/* L(metric, type, unit, help, printf format, value of level l) */
#define LEVEL_METRICS(L)                                                                           \
	L("level_hertz", "gauge", "hertz", "Clock.", "%.0f", (double)b->level[l].hz)               \
	L("level_current", "gauge", NULL, "1 for the level that the policy chose.", "%.0f",        \
	  (double)(m->power.policy.level == l))                                                    \
	L("level_residency_seconds", "counter", "seconds", "Time at the level.", "%.9f",           \
	  (double)rvl_policy_residency(&m->power.policy, l, rvl_now()) / 1e9)                                              \
	L("level_entries", "counter", NULL, "Changes to the level.", "%.0f",                       \
	  (double)m->power.policy.entries[l])                                                      \
	L("level_jobs", "counter", NULL, "Jobs of the device.", "%.0f", (double)t[l].jobs)         \
	L("level_busy_seconds", "counter", "seconds", "Device time of jobs.", "%.9f",              \
	  (double)t[l].device_ns / 1e9)                                                            \
	L("level_energy_joules", "counter", "joules", "Energy of jobs.", "%.12f",                  \
	  (double)t[l].energy_pj / 1e12)

static void put_levels(FILE *f, const struct rvl_manager *m)
{
	const struct rivulet_board *b = &m->device.board;
	struct rivulet_level_total t[RIVULET_LEVELS];
	uint32_t levels = m->device.present ? b->levels : 0;

	head(f, "device_present", "gauge", NULL, "1 while there is a device.");
	fprintf(f, "rivulet_device_present %d\n", m->device.present);
	for (uint32_t l = 0; l < levels; l++)
		t[l] = rvl_level_total(m, l);
#define LEVEL_LINES(name, type, unit, help, format, value)                                         \
	if (levels)                                                                                \
		head(f, name, type, unit, help);                                                   \
	for (uint32_t l = 0; l < levels; l++)                                                      \
		fprintf(f, "rivulet_%s%s{level=\"%u\"} " format "\n", name,                        \
			*type == 'c' ? "_total" : "", l, value);
	LEVEL_METRICS(LEVEL_LINES)
}

/* T(metric, unit, help, format, value of totals t) */
#define MODEL_METRICS(T)                                                                           \
	T("model_runs", NULL, "Runs that ended.", "%.0f", (double)t->runs)                         \
	T("model_runs_failed", NULL, "Of these, failed.", "%.0f", (double)t->failed)               \
	T("model_runs_cancelled", NULL, "Of these, cancelled.", "%.0f", (double)t->cancelled)      \
	T("model_runs_refused", NULL, "Given up before their start.", "%.0f", (double)t->refused)  \
	T("model_deadline_misses", NULL, "Ended after their deadline.", "%.0f", (double)t->late)   \
	T("model_queue_seconds", "seconds", "Waiting.", "%.9f", (double)t->queue_ns / 1e9)         \
	T("model_run_seconds", "seconds", "First step to last.", "%.9f", (double)t->run_ns / 1e9)  \
	T("model_npu_seconds", "seconds", "Device time.", "%.9f", (double)t->npu_ns / 1e9)         \
	T("model_cpu_seconds", "seconds", "CPU steps.", "%.9f", (double)t->cpu_ns / 1e9)           \
	T("model_energy_joules", "joules", "Of the device.", "%.12f", (double)t->energy_pj / 1e12)

static void put_model_labels(FILE *f, const struct rvl_program *p)
{
	fputs("{model=\"", f);
	label(f, p->name);
	/* Distinguishes programs of the same name. */
	fprintf(f, "\",program=\"%08x\"", rivulet_crc32c(0, &p->key, sizeof(p->key)));
}

static void put_models(FILE *f, const struct rvl_manager *m)
{
	const struct rvl_totals *t;
	struct rvl_program *p;

#define MODEL_LINES(name, unit, help, format, value)                                               \
	head(f, name, "counter", unit, help);                                                      \
	rvl_list_each(p, &m->cache.programs, link) {                                               \
		t = &p->totals;                                                                    \
		if (!p->visible)                                                                   \
			continue;                                                                  \
		fprintf(f, "rivulet_%s_total", name);                                              \
		put_model_labels(f, p);                                                            \
		fprintf(f, "} " format "\n", value);                                               \
	}
	MODEL_METRICS(MODEL_LINES)
}

/* A(metric, type, unit, help, format, value of level l with statistics at) */
#define MODEL_LEVEL_METRICS(A)                                                                     \
	A("model_level_length_bits", "gauge", "bits", "Bitstream length; 0: no stochastic layer.", \
	  "%.0f", (double)p->file->level[l].length)                                                \
	A("model_level_accuracy_ratio", "gauge", "ratio", "Expected accuracy; 0: unknown.",        \
	  "%.6f", p->file->level[l].accuracy / 1e6)                                                \
	A("model_level_runs", "counter", NULL, "Runs.", "%.0f", (double)at->runs)                  \
	A("model_level_deadline_misses", "counter", NULL, "Late runs.", "%.0f", (double)at->late)  \
	A("model_level_npu_seconds", "counter", "seconds", "Device time.", "%.9f",                 \
	  (double)at->npu_ns / 1e9)                                                                \
	A("model_level_energy_joules", "counter", "joules", "Of the device.", "%.12f",             \
	  (double)at->energy_pj / 1e12)                                                            \
	A("model_level_latency_seconds", "gauge", "seconds", "Moving average.", "%.9f",            \
	  (double)at->measured_ns / 1e9)

static void put_model_levels(FILE *f, const struct rvl_manager *m)
{
	uint32_t levels = m->device.present ? m->device.board.levels : 0;
	struct rvl_program *p;

#define MODEL_LEVEL_LINES(name, type, unit, help, format, value)                                   \
	head(f, name, type, unit, help);                                                           \
	rvl_list_each(p, &m->cache.programs, link) {                                               \
		for (uint32_t l = 0; p->visible && l < levels; l++) {                              \
			const struct rvl_level_stat *at = &p->at[l];                               \
                                                                                                   \
			fprintf(f, "rivulet_%s%s", name, *type == 'c' ? "_total" : "");            \
			put_model_labels(f, p);                                                    \
			(void)at;                                                                  \
			fprintf(f, ",level=\"%u\"} " format "\n", l, value);                       \
		}                                                                                  \
	}
	MODEL_LEVEL_METRICS(MODEL_LEVEL_LINES)
}

/* The text for @uid, which the caller frees; NULL: out of memory. */
static char *metrics_text(struct rvl_manager *m, uid_t uid, size_t *size)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, size);

	if (!f)
		return NULL;
	head(f, "build", "info", NULL, "The daemon.");
	fputs("rivulet_build_info{version=\"" RIVULET_VERSION "\"} 1\n", f);
	put_loop(f, m);
	put_power(f, m);
	put_levels(f, m);
	rvl_status_mark(m, uid);
	put_models(f, m);
	put_model_levels(f, m);
	fputs("# EOF\n", f);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- connections ---- */

struct rvl_metrics {
	struct rvl_manager *m;
	struct rvl_list peers;
	uint32_t n_peers;
	char path[108];
	struct rvl_listener listen;
};

struct peer {
	struct rvl_list link;
	struct rvl_metrics *x;
	int fd;
	uid_t uid;
	char request[REQUEST_MAX];
	size_t got;
	char *answer;
	size_t size, sent;
	sd_event_source *source, *timer;
};

static void peer_free(struct peer *p)
{
	rvl_list_del(&p->link);
	p->x->n_peers--;
	sd_event_source_disable_unref(p->source);
	sd_event_source_disable_unref(p->timer);
	rvl_intake_dispose(p->x->m, p->uid, p->fd);
	free(p->answer);
	free(p);
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *data)
{
	(void)source;
	(void)usec;
	peer_free(data);
	return 0;
}

#define HEADER "HTTP/1.0 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n"
#define METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

static int wrap(struct peer *p, const char *status, const char *type, const char *body, size_t size)
{
	int n = asprintf(&p->answer, HEADER, status, type, size);
	char *all = n < 0 ? NULL : realloc(p->answer, (size_t)n + size);

	if (!all)
		return -ENOMEM;
	memcpy(all + n, body, size);
	p->answer = all;
	p->size = (size_t)n + size;
	return 0;
}

static int make_answer(struct peer *p, bool http)
{
	static const char no[] = "only GET is served here\n";
	_cleanup_free_ char *text = NULL;
	size_t size;

	if (http && strncmp(p->request, "GET ", 4))
		return wrap(p, "405 Method Not Allowed", "text/plain", no, sizeof(no) - 1);
	text = metrics_text(p->x->m, p->uid, &size);
	if (!text)
		return -ENOMEM;
	if (http)
		return wrap(p, "200 OK", METRICS_TYPE, text, size);
	p->answer = text;
	p->size = size;
	text = NULL;
	return 0;
}

/* Returns 1 to wait for more, 0 when the request is complete, a negative errno to close. */
static int read_request(struct peer *p, bool *http)
{
	bool carries;
	ssize_t n = rvl_receive(p->fd, p->request + p->got, sizeof(p->request) - 1 - p->got, &carries);

	if (carries)
		return -EPROTO;
	if (n < 0)
		return n == -EAGAIN ? 1 : (int)n;
	p->got += (size_t)n;
	p->request[p->got] = 0;
	*http = p->got > 0;
	if (!n || strstr(p->request, "\r\n\r\n") || strstr(p->request, "\n\n"))
		return 0;
	return p->got < sizeof(p->request) - 1 ? 1 : -E2BIG;
}

/* Returns 1 to wait for the socket, 0 or a negative errno when the connection is over. */
static int serve_peer(struct peer *p)
{
	bool http = false;
	ssize_t n;
	int r;

	if (!p->answer) {
		r = read_request(p, &http);
		r = r ?: make_answer(p, http);
		if (r)
			return r;
		sd_event_source_set_io_events(p->source, EPOLLOUT);
	}
	n = send(p->fd, p->answer + p->sent, p->size - p->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -errno;
	p->sent += (size_t)n;
	return p->sent < p->size;
}

static int on_peer(sd_event_source *source, int fd, uint32_t events, void *data)
{
	(void)source;
	(void)fd;
	(void)events;
	if (serve_peer(data) <= 0)
		peer_free(data);
	return 0;
}

/* Takes over @fd. */
static int peer_new(struct rvl_metrics *x, int fd)
{
	struct peer *p = calloc(1, sizeof(*p));
	sd_event *e = x->m->event;
	int r;

	if (!p) {
		rvl_intake_dispose(x->m, rvl_session_uid(fd), fd);
		return -ENOMEM;
	}
	p->x = x;
	p->fd = fd;
	p->uid = rvl_session_uid(fd);
	rvl_list_add_tail(&x->peers, &p->link);
	x->n_peers++;
	r = sd_event_add_io(e, &p->source, fd, EPOLLIN, on_peer, p);
	r = r < 0 ? r : sd_event_add_time_relative(e, &p->timer, CLOCK_MONOTONIC, TIMEOUT_US, 0,
						   on_timeout, p);
	if (r < 0)
		peer_free(p);
	return r;
}

static uint32_t peers_of(const struct rvl_metrics *x, uid_t uid)
{
	struct peer *p;
	uint32_t n = 0;

	rvl_list_each(p, &x->peers, link)
		n += p->uid == uid;
	return n;
}

/*
 * The peer that makes room: of the user with the most connections, the one that was connected
 * longest. So a user who connects again and again ends only connections of its own.
 */
static struct peer *eviction(const struct rvl_metrics *x)
{
	struct peer *p, *first = NULL;
	uint32_t most = 0;

	rvl_list_each(p, &x->peers, link) {
		uint32_t n = peers_of(x, p->uid);

		if (n <= most)
			continue;
		first = p;
		most = n;
	}
	return first;
}

static void on_connection(int sock, void *data)
{
	struct rvl_metrics *x = data;

	if (x->n_peers == PEERS_MAX)
		peer_free(eviction(x));
	peer_new(x, sock);
}

static void refuse_connection(int sock, int error, void *data)
{
	struct rvl_metrics *x = data;

	(void)error;
	rvl_intake_dispose(x->m, rvl_session_uid(sock), sock);
}

static bool find_path(struct rvl_metrics *x)
{
	const char *path = x->m->cfg.metrics.s, *dir = getenv("RUNTIME_DIRECTORY");
	int n;

	if (!strcmp(path, "off") || (!strcmp(path, "auto") && (!dir || *dir != '/')))
		return false;
	n = strcmp(path, "auto") ? snprintf(x->path, sizeof(x->path), "%s", path) :
				   snprintf(x->path, sizeof(x->path), "%s/metrics.sock", dir);
	return n > 0 && n < (int)sizeof(x->path);
}

static int listen_at(const char *path)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct stat st;

	if (fd < 0)
		return -errno;
	strcpy(a.sun_path, path);
	if (!lstat(path, &st) && !S_ISSOCK(st.st_mode))
		return -EEXIST;
	unlink(path);
	/* Everybody may connect; the peer's uid decides what is shown. */
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || chmod(path, 0666) || listen(fd, 16))
		return -errno;
	return rvl_take_fd(&fd);
}

struct rvl_metrics *rvl_metrics_start(struct rvl_manager *m)
{
	struct rvl_metrics *x = calloc(1, sizeof(*x));
	int fd, r;

	if (!x)
		return NULL;
	x->m = m;
	rvl_list_init(&x->peers);
	if (!find_path(x))
		return rvl_metrics_stop(x);
	fd = listen_at(x->path);
	x->listen = (struct rvl_listener){ .name = "metrics.sock", .accepted = on_connection,
					   .refuse = refuse_connection, .data = x, .reserve = -1 };
	r = fd < 0 ? fd : rvl_listener_start(&x->listen, m->event, fd, SD_EVENT_PRIORITY_NORMAL + 10);
	if (r < 0) {
		rvl_log(LOG_WARNING, RVL_LOG_NONE, NULL, "no metrics at %s: %s", x->path,
			strerror(-r));
		rvl_close(fd);
		return rvl_metrics_stop(x);
	}
	return x;
}

struct rvl_metrics *rvl_metrics_stop(struct rvl_metrics *x)
{
	struct peer *p;

	if (!x)
		return NULL;
	rvl_list_each(p, &x->peers, link)
		peer_free(p);
	if (x->listen.io)
		unlink(x->path);
	rvl_listener_stop(&x->listen);
	free(x);
	return NULL;
}

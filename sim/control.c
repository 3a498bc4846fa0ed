// SPDX-License-Identifier: MIT
/*
 * The control socket. A command is a line; the last line of its answer is "ok" or "error: ...".
 *
 *   inject SPEC   as --inject, at run time
 *   temp MDEG     sets the reading of the temperature sensor, millidegree Celsius
 *   consume JOULE adds to the energy counter
 *   battery SPEC  charge=PERCENT[,factor=X] of --battery
 *   hurry         ends the delay of the running job by the injection "slow"
 *   stall MS      serves no request and retires no job for MS; 0 ends a stall
 *   unplug        fills the window with ones and ignores doorbells
 *   power         switches the device off and on; only on a platform
 *   stat          "NAME VALUE" lines: state, hits of each injection, counters
 */
#include "serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void close_control(struct rvl_control *c)
{
	close(c->fd);
	*c = (struct rvl_control){ .fd = -1 };
}

static void print_stat(struct rvl_server *s, FILE *f)
{
	struct rivulet_sim *d = s->sim;

	fprintf(f, "board %s\npace %s\nconnected %d\n", s->opt.board.name,
		s->opt.board.pace_real ? "real" : "fast", d != NULL);
	rvl_server_drain(s);
	if (s->battery.on)
		fprintf(f, "battery_full_mwh %u\nbattery_left_mwh %.6f\nbattery_factor %.9g\n"
			"battery_taken_pj %.0f\n", s->battery.full, rvl_battery_left(&s->battery),
			s->battery.factor, s->battery.taken * 1e12);
	if (!d)
		return;
	fprintf(f, "unplugged %d\nstarted %llu\nfollowed %llu\nclient %u\n", d->unplugged,
		(unsigned long long)d->started, (unsigned long long)d->followed, d->client);
	fprintf(f, "done_seq %u\ncurrent_seq %u\nfrozen %d\nheld %d\nlevel %u\n", d->queue.done,
		d->queue.current, d->queue.frozen, d->queue.held, d->queue.level);
#define HITS(name, max_arg, doc)                                                                   \
	fprintf(f, "hits_" #name " %llu\n", (unsigned long long)d->inject.hits[RVL_INJECT_##name]);
	RVL_INJECTIONS(HITS)
#undef HITS
#define COUNTER(name, unit, doc) fprintf(f, #name " %llu\n", (unsigned long long)d->count.name);
	RIVULET_COUNTERS(COUNTER)
#undef COUNTER
}

static int inject(struct rvl_server *s, const char *spec, char *err, size_t errsize)
{
	if (s->sim)
		return rvl_inject_add(&s->sim->inject, spec, s->sim->started, err, errsize);
	return rvl_inject_add(&s->opt.inject, spec, 0, err, errsize);
}

static void power(struct rvl_server *s, FILE *f)
{
	int r = rvl_server_power(s);

	if (r == -EOPNOTSUPP)
		fprintf(f, "error: on ivshmem, a new connection is a power on\n");
	else if (r)
		fprintf(f, "error: no window: %s\n", strerror(-r));
	else
		fprintf(f, "ok\n");
}

static void temperature(struct rvl_server *s, const char *arg, FILE *f)
{
	char *end;
	long mdeg = strtol(arg, &end, 10);

	if (end == arg || *end || mdeg < -273150 || mdeg > 1000000) {
		fprintf(f, "error: temp \"%.40s\": expected -273150 to 1000000\n", arg);
	} else if (!s->sim) {
		fprintf(f, "error: no machine is connected\n");
	} else {
		rvl_device_temperature(s->sim, mdeg);
		fprintf(f, "ok\n");
	}
}

static void consume(struct rvl_server *s, const char *arg, FILE *f)
{
	char *end;
	unsigned long joule = strtoul(arg, &end, 10);

	if (*arg < '0' || *arg > '9' || *end || joule > RVL_CONSUME_MAX_J) {
		fprintf(f, "error: consume \"%.40s\": expected 0 to %u J\n", arg, RVL_CONSUME_MAX_J);
	} else if (!s->sim) {
		fprintf(f, "error: no machine is connected\n");
	} else {
		rvl_device_consume(s->sim, joule * RVL_PJ_PER_J);
		fprintf(f, "ok\n");
	}
}

static void battery(struct rvl_server *s, const char *spec, FILE *f)
{
	char err[160] = "";

	/* Energy that was used before the change is taken from the old charge. */
	rvl_server_drain(s);
	if (!s->battery.on)
		fprintf(f, "error: there is no battery: --battery\n");
	else if (rvl_battery_change(&s->battery, spec, err, sizeof(err)))
		fprintf(f, "error: %s\n", err);
	else
		fprintf(f, "ok\n");
	rvl_server_drain(s);
}

static void stall(struct rvl_server *s, const char *arg, FILE *f)
{
	char *end;
	unsigned long ms = strtoul(arg, &end, 10);

	if (*arg < '0' || *arg > '9' || *end || ms > RVL_STALL_MAX_MS) {
		fprintf(f, "error: stall \"%.40s\": expected 0 to %u ms\n", arg, RVL_STALL_MAX_MS);
	} else if (!s->sim) {
		fprintf(f, "error: no machine is connected\n");
	} else {
		s->step_due = true;
		rvl_device_stall(s->sim, (uint32_t)ms);
		fprintf(f, "ok\n");
	}
}

/* A polled device is stepped only when DOORBELL changed, so this requests a step. */
static void hurry(struct rvl_server *s, FILE *f)
{
	s->step_due = true;
	if (s->sim && rvl_device_hurry(s->sim))
		fprintf(f, "ok\n");
	else
		fprintf(f, "error: no job runs\n");
}

static void command(struct rvl_server *s, const char *line, FILE *f)
{
	char err[160] = "";

	rvl_server_log(s, "control: %s", line);
	if (!strncmp(line, "inject ", 7)) {
		if (inject(s, line + 7, err, sizeof(err)))
			fprintf(f, "error: %s\n", err);
		else
			fprintf(f, "ok\n");
	} else if (!strncmp(line, "temp ", 5)) {
		temperature(s, line + 5, f);
	} else if (!strncmp(line, "consume ", 8)) {
		consume(s, line + 8, f);
	} else if (!strncmp(line, "battery ", 8)) {
		battery(s, line + 8, f);
	} else if (!strcmp(line, "hurry")) {
		hurry(s, f);
	} else if (!strncmp(line, "stall ", 6)) {
		stall(s, line + 6, f);
	} else if (!strcmp(line, "unplug") && s->sim) {
		rvl_device_unplug(s->sim);
		fprintf(f, "ok\n");
	} else if (!strcmp(line, "power")) {
		power(s, f);
	} else if (!strcmp(line, "unplug")) {
		fprintf(f, "error: no machine is connected\n");
	} else if (!strcmp(line, "stat")) {
		print_stat(s, f);
		fprintf(f, "ok\n");
	} else {
		fprintf(f, "error: \"%.40s\": expected inject SPEC, temp MDEG, consume JOULE, "
			   "battery SPEC, hurry, stall MS, unplug, power or stat\n", line);
	}
}

/* Answers one command. An answer that the client does not read is dropped. */
static int answer(struct rvl_server *s, struct rvl_control *c)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	ssize_t n;

	if (!f)
		return -errno;
	command(s, c->line, f);
	fclose(f);
	n = send(c->fd, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	free(text);
	return n < 0 ? -errno : 0;
}

void rvl_control_accept(struct rvl_server *s)
{
	int fd = accept4(s->control_listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	for (int i = 0; fd >= 0 && i < RVL_CONTROLS; i++) {
		if (s->control[i].fd < 0) {
			s->control[i] = (struct rvl_control){ .fd = fd };
			return;
		}
	}
	if (fd >= 0)
		close(fd);
}

void rvl_control_read(struct rvl_server *s, struct rvl_control *c)
{
	ssize_t n = recv(c->fd, c->line + c->len, sizeof(c->line) - 1 - c->len, 0);
	char *end;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close_control(c);
		return;
	}
	c->len += n;
	c->line[c->len] = 0;
	while ((end = memchr(c->line, '\n', c->len))) {
		*end = 0;
		if (answer(s, c)) {
			close_control(c);
			return;
		}
		c->len -= end + 1 - c->line;
		memmove(c->line, end + 1, c->len + 1);
	}
	if (c->len == sizeof(c->line) - 1)
		close_control(c);
}

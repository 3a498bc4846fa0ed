// SPDX-License-Identifier: MIT
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define REFRESH_NS 250000000ull /* maximum age of the counters */
#define NAP_NS	   20000	/* shorter sleeps last longer than requested: the server polls */

void rvl_server_log(struct rvl_server *s, const char *fmt, ...)
{
	va_list ap;

	if (!s->opt.log)
		return;
	va_start(ap, fmt);
	fputs("rivulet-sim: ", s->opt.log);
	vfprintf(s->opt.log, fmt, ap);
	fputc('\n', s->opt.log);
	fflush(s->opt.log);
	va_end(ap);
}

static const char *reg_name(uint32_t reg)
{
	switch (reg) {
#define NAME(name, off, writer, doc)                                                               \
	case off:                                                                                  \
		return #name;
		RIVULET_REGS(NAME)
#undef NAME
	}
	return "?";
}

static void trace(void *ctx, uint32_t reg, uint32_t value)
{
	rvl_server_log(ctx, "%s = 0x%x", reg_name(reg), value);
}

void rvl_server_drain(struct rvl_server *s)
{
	struct rvl_battery *b = &s->battery;

	if (!b->on || !s->sim)
		return;
	if (rvl_battery_follow(b, &s->mem, rvl_device_energy(s->sim)) || b->unmapped)
		return;
	b->unmapped = true;
	rvl_server_log(s, "no battery: 0x%llx is outside the machine's memory",
		       (unsigned long long)b->at);
}

/* The battery is updated before the interrupt, because its handler may read the battery. */
static void raise_irq(void *ctx)
{
	struct rvl_server *s = ctx;

	rvl_server_drain(s);
	if (s->opt.trace)
		rvl_server_log(s, "interrupt");
	if (s->opt.platform.on)
		rvl_platform_raise(s);
	else
		eventfd_write(s->irq_fd, 1);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/*
 * The machine has disconnected. Its program is stopped before its memory and window are unmapped.
 */
static void power_off(struct rvl_server *s)
{
	if (s->sim) {
		atomic_store(&s->sim->exec.abort, true);
		rvl_worker_wait(&s->worker);
	}
	s->sim = rivulet_sim_free(s->sim);
	if (s->window && !s->opt.platform.on)
		munmap(s->window, RIVULET_WINDOW_SIZE);
	s->window = NULL;
	rvl_memory_drop(&s->mem);
	close_fd(&s->client_fd);
	close_fd(&s->window_fd);
	close_fd(&s->doorbell_fd);
	close_fd(&s->irq_fd);
}

static int open_window(struct rvl_server *s)
{
	void *p;

	s->window_fd = memfd_create("rivulet-window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (s->window_fd < 0 || ftruncate(s->window_fd, RIVULET_WINDOW_SIZE) ||
	    fcntl(s->window_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	p = mmap(NULL, RIVULET_WINDOW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, s->window_fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	s->window = p;
	s->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->irq_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return s->doorbell_fd < 0 || s->irq_fd < 0 ? -errno : 0;
}

static int power_on(struct rvl_server *s)
{
	struct rivulet_sim_ops ops = {
		.bus = { .map = rvl_memory_map, .ctx = &s->mem },
		.irq = raise_irq,
		.ctx = s,
	};
	struct rvl_runner runner = { .start = rvl_worker_start, .ctx = &s->worker };
	int r = s->opt.platform.on ? rvl_platform_power(s) : open_window(s);

	if (r)
		return r;
	s->sim = rivulet_sim_new(&s->opt.board, s->window, &ops);
	if (!s->sim)
		return -ENOMEM;
	rvl_battery_restart(&s->battery);
	rvl_device_run_by(s->sim, &runner);
	/* peer 0, vector 0 */
	if (!s->opt.platform.on)
		rvl_device_doorbell(s->sim, 0);
	s->doorbell = 0;
	s->step_due = true;
	s->sim->inject = s->opt.inject;
	if (s->opt.trace) {
		s->sim->window.trace = trace;
		s->sim->window.ctx = s;
	}
	return 0;
}

int rvl_server_power(struct rvl_server *s)
{
	if (!s->opt.platform.on)
		return -EOPNOTSUPP;
	power_off(s);
	return power_on(s);
}

/* A new machine may replace an unplugged device, but not one in use. */
static void accept_client(struct rvl_server *s)
{
	int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), r;

	if (fd < 0)
		return;
	if (s->sim && !s->sim->unplugged) {
		rvl_server_log(s, "refused a second machine: one is connected");
		close(fd);
		return;
	}
	power_off(s);
	s->client_fd = fd;
	/* Ids are 16 bits; 0 is the model's. */
	s->client_id = s->client_id == UINT16_MAX ? 1 : s->client_id + 1;
	r = power_on(s);
	if (!r)
		r = rvl_ivshmem_greet(fd, s->client_id, s->window_fd, s->doorbell_fd, s->irq_fd);
	if (r)
		power_off(s);
	rvl_server_log(s, r ? "machine %u: %s" : "machine %u connected", s->client_id,
		       strerror(-r));
}

/* The machine has ended. The next machine gets a device in its state after power on. */
static void read_platform(struct rvl_server *s)
{
	int r;

	if (rvl_platform_read(s))
		return;
	r = rvl_server_power(s);
	rvl_server_log(s, "the machine disconnected%s%s", r ? ": " : "", r ? strerror(-r) : "");
}

/* QEMU never sends anything. */
static void read_client(struct rvl_server *s)
{
	char buf[64];
	ssize_t n = recv(s->client_fd, buf, sizeof(buf), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	rvl_server_log(s, "machine %u disconnected%s", s->client_id, n > 0 ? ": it sent data" : "");
	power_off(s);
}

int rvl_listen(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd, r;
	mode_t mask;

	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	strcpy(a.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* A socket on which no process listens was left behind by a server that was killed. */
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) && errno == ECONNREFUSED)
		unlink(path);
	close(fd);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	mask = umask(0177);
	r = bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 4) ? -errno : 0;
	umask(mask);
	if (!r)
		return fd;
	close(fd);
	return r;
}

static int open_socket(const char *path, int *fd, char *err, size_t errsize)
{
	int r = rvl_listen(path);

	*fd = r < 0 ? -1 : r;
	if (r < 0)
		snprintf(err, errsize, "cannot listen on %s: %s", path, strerror(-r));
	return r < 0 ? r : 0;
}

static int open_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* A machine may boot later and must find the device, so the page is mapped at once. */
static int open_platform(struct rvl_server *s, char *err, size_t errsize)
{
	int r = power_on(s);

	if (r)
		snprintf(err, errsize, "no window at 0x%llx of %s: %s",
			 (unsigned long long)s->opt.platform.window, s->opt.mem, strerror(-r));
	return r;
}

int rvl_server_open(struct rvl_server *s, const struct rvl_server_options *opt, char *err,
		    size_t errsize)
{
	int r;

	*s = (struct rvl_server){ .opt = *opt,
				  .mem.path = opt->mem,
				  .battery = opt->battery,
				  .listen_fd = -1,
				  .control_listen_fd = -1,
				  .client_fd = -1,
				  .window_fd = -1,
				  .doorbell_fd = -1,
				  .irq_fd = -1 };
	for (int i = 0; i < RVL_CONTROLS; i++)
		s->control[i].fd = -1;
	s->signal_fd = open_signals();
	r = s->signal_fd < 0 ? s->signal_fd : rvl_worker_open(&s->worker);
	if (r) {
		snprintf(err, errsize, "cannot start: %s", strerror(-r));
		close_fd(&s->signal_fd);
		return r;
	}
	if (opt->platform.on)
		r = open_platform(s, err, errsize);
	else
		r = open_socket(opt->socket, &s->listen_fd, err, errsize);
	if (!r && opt->control)
		r = open_socket(opt->control, &s->control_listen_fd, err, errsize);
	if (r)
		rvl_server_close(s);
	return r;
}

void rvl_server_close(struct rvl_server *s)
{
	power_off(s);
	for (int i = 0; i < RVL_CONTROLS; i++)
		close_fd(&s->control[i].fd);
	if (s->control_listen_fd >= 0)
		unlink(s->opt.control);
	if (s->listen_fd >= 0)
		unlink(s->opt.socket);
	close_fd(&s->control_listen_fd);
	close_fd(&s->listen_fd);
	close_fd(&s->signal_fd);
	rvl_worker_close(&s->worker);
}

enum {
	P_SIGNAL,
	P_LISTEN,
	P_CLIENT,
	P_DOORBELL,
	P_WORKER,
	P_CONTROL,
	P_COUNT = P_CONTROL + 1 + RVL_CONTROLS
};

/* poll() ignores negative descriptors. */
static int wait_events(struct rvl_server *s, struct pollfd *p, uint64_t ns)
{
	struct timespec ts = { .tv_sec = ns / 1000000000,
			       .tv_nsec = ns < NAP_NS ? 0 : ns % 1000000000 };
	int fds[P_COUNT] = { s->signal_fd,   s->listen_fd,	s->client_fd,
			     s->doorbell_fd, s->worker.done_fd, s->control_listen_fd };

	for (int i = 0; i < RVL_CONTROLS; i++)
		fds[P_CONTROL + 1 + i] = s->control[i].fd;
	for (int i = 0; i < P_COUNT; i++)
		p[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	if (ppoll(p, P_COUNT, ns == UINT64_MAX ? NULL : &ts, NULL) < 0)
		return errno == EINTR ? 0 : -errno;
	return 0;
}

/* Doorbells and ends of programs only wake the loop. The step after this serves them. */
static void drain(int fd)
{
	eventfd_t n;

	eventfd_read(fd, &n);
}

static void handle(struct rvl_server *s, const struct pollfd *p)
{
	s->step_due |= p[P_WORKER].revents;
	if (p[P_DOORBELL].revents)
		drain(s->doorbell_fd);
	if (p[P_WORKER].revents)
		drain(s->worker.done_fd);
	for (int i = 0; i < RVL_CONTROLS; i++)
		if (p[P_CONTROL + 1 + i].revents)
			rvl_control_read(s, &s->control[i]);
	if (p[P_CONTROL].revents)
		rvl_control_accept(s);
	if (p[P_CLIENT].revents && s->opt.platform.on)
		read_platform(s);
	else if (p[P_CLIENT].revents)
		read_client(s);
	if (p[P_LISTEN].revents)
		accept_client(s);
}

/* Returns the time that the loop may sleep. The counters also change while the device is idle. */
static uint64_t step(struct rvl_server *s)
{
	uint64_t due = s->sim ? rivulet_sim_step(s->sim) : UINT64_MAX;

	if (s->sim && !s->sim->unplugged && s->opt.board.pace_real && due > REFRESH_NS)
		due = REFRESH_NS;
	rvl_server_drain(s);
	return due;
}

/*
 * As step(), for a window whose writes are not reported: DOORBELL is polled, and the device is
 * stepped only when it changed, so that a driver that does not ring the doorbell fails.
 */
static uint64_t step_platform(struct rvl_server *s)
{
	uint64_t now, due, slice;

	if (!s->sim)
		return UINT64_MAX;
	now = rvl_pace_host(s->sim);
	if (s->step_due || now >= s->due || (!s->sim->unplugged && rvl_platform_rang(s))) {
		s->step_due = false;
		due = step(s);
		s->due = due < UINT64_MAX - now ? now + due : UINT64_MAX;
	}
	slice = rvl_platform_slice(s, now);
	return s->due <= now ? 0 : s->due - now < slice ? s->due - now : slice;
}

int rvl_server_run(struct rvl_server *s)
{
	struct signalfd_siginfo signal;
	struct pollfd p[P_COUNT];
	int r;

	/* pace=real needs precise wake-ups */
	prctl(PR_SET_TIMERSLACK, 1);
	for (;;) {
		r = wait_events(s, p, s->opt.platform.on ? step_platform(s) : step(s));
		if (r)
			return r;
		if (p[P_SIGNAL].revents && read(s->signal_fd, &signal, sizeof(signal)) > 0)
			return 0;
		handle(s, p);
	}
}

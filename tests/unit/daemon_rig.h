/* SPDX-License-Identifier: MIT */
/*
 * A daemon for a test: the manager in a process of its own, on the linked model, with a socket and
 * a configuration in a scratch directory. Also a client that encodes the protocol itself, so that
 * it can violate it.
 */
#ifndef RVL_DAEMON_RIG_H
#define RVL_DAEMON_RIG_H

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "connection.h"
#include "files.h"
#include "intake.h"
#include "log.h"
#include "manager.h"
#include "receiver.h"
#include "rivulet.h"
#include "rivulet_proto.h"
#include "util.h"

#define WAIT_MS 60000	/* timeout of an answer, with sanitizers on a busy machine */

struct rig {
	char dir[SCRATCH_MAX];
	char sock[96];
	pid_t pid;
};

static struct rig rig;

static inline void rig_config(const char *text)
{
	put_file(rig.dir, "etc/rivuletd/rivuletd.conf", text);
}

static inline int rig_listen(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", rig.sock);
	ck_assert(fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof(a)) && !listen(fd, 128));
	return fd;
}

/* A test that is not root simulates users: DIR/uid has the uid of the next connection. */
static inline int rig_peer(int fd, struct ucred *peer)
{
	socklen_t len = sizeof(*peer);
	char path[96], text[16] = "";
	int file;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len))
		return -errno;
	snprintf(path, sizeof(path), "%s/uid", rig.dir);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file >= 0 && read(file, text, sizeof(text) - 1) > 0)
		peer->uid = (uid_t)strtoul(text, NULL, 10);
	if (file >= 0)
		close(file);
	return 0;
}

/*
 * Makes later connections those of user @uid: by the effective uid if the test is root, else by
 * rig_peer().
 */
static inline void rig_as(uid_t uid)
{
	char text[16];

	if (geteuid() && !getuid())
		ck_assert_int_eq(seteuid(0), 0);
	if (!getuid()) {
		chmod(rig.dir, 0755);
		chmod(rig.sock, 0777);
		if (!seteuid(uid))
			return;
	}
	snprintf(text, sizeof(text), "%u", uid);
	put_file(rig.dir, "uid", text);
}

/* Makes later connections those of the user who runs the test. */
static inline void rig_as_self(void)
{
	char path[96];

	if (geteuid() && !getuid())
		ck_assert_int_eq(seteuid(0), 0);
	snprintf(path, sizeof(path), "%s/uid", rig.dir);
	unlink(path);
}

/* The daemon's process. It ends by exit(), so that sanitizers and coverage write their results. */
static inline void rig_serve(int fd, const char *node)
{
	struct rvl_options opt = { .config_root = rig.dir, .node = node, .exe = "/proc/self/exe" };
	char sys[80];
	struct rvl_manager *m;
	struct rvl_text err;

	/* The sysfs of the test, so that the battery of the machine has no effect. */
	snprintf(sys, sizeof(sys), "%s/sys", rig.dir);
	opt.sys = getenv("RIG_SYS") ? getenv("RIG_SYS") : strdupa(sys);
	/* A low limit lets a test exhaust the descriptors quickly. */
	if (getenv("RIG_NOFILE")) {
		struct rlimit files = { .rlim_cur = (rlim_t)atoi(getenv("RIG_NOFILE")) };

		files.rlim_max = files.rlim_cur;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	rvl_session_peer = rig_peer;
	rvl_manager_block_signals();
	rvl_log_init(getenv("RIG_VERBOSE") ? LOG_DEBUG : LOG_EMERG);
	/* Tests of the log and the metrics read DIR/log and DIR/metrics.sock. */
	if (getenv("RIG_LOG")) {
		snprintf(sys, sizeof(sys), "%s/log", rig.dir);
		dup2(open(sys, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), 2);
		setenv("RUNTIME_DIRECTORY", rig.dir, 1);
		rvl_log_init(LOG_INFO);
	}
	if (rvl_manager_new(&opt, fd, &m, &err)) {
		fprintf(stderr, "manager: %s\n", err.s);
		exit(3);
	}
	if (rvl_manager_run(m) < 0)
		exit(4);
	rvl_manager_free(m);
	exit(0);
}

/*
 * Executes the test program as the daemon, with a socket that listens. A fork would run code of this process while locks may be held by
 * threads that the child lacks, such as those of umockdev: with sanitizers it sometimes never got to exec.
 */
static inline void rig_spawn(const char *node)
{
	char number[16];
	char *argv[] = { "rivuletd", "--daemon", number, rig.dir, strdupa(node ? node : ""), NULL };
	posix_spawn_file_actions_t actions;
	int fd = rig_listen();

	snprintf(number, sizeof(number), "%d", fd);
	ck_assert_int_eq(posix_spawn_file_actions_init(&actions), 0);
	/* Keeps the descriptor open. */
	ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, fd, fd), 0);
	ck_assert_int_eq(posix_spawn(&rig.pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(fd);
}

/* Called first by main(): runs the daemon, its worker or a receiver if the program was executed as one. */
static inline void rig_main(int argc, char **argv, int (*worker)(void))
{
	int fd;

	/* The daemon under test starts this program as its compiler. */
	if (argc == 2 && !strcmp(argv[1], "--worker"))
		exit(worker());
	if (argc == 2 && !strcmp(argv[1], "--receiver"))
		exit(rvl_receiver_main());
	if (argc == 2 && !strcmp(argv[1], "--end"))
		_exit(rvl_intake_end_main());
	if (argc != 5 || strcmp(argv[1], "--daemon"))
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = atoi(argv[2]);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	snprintf(rig.dir, sizeof(rig.dir), "%s", argv[3]);
	rig_serve(fd, *argv[4] ? argv[4] : NULL);
}

static inline void rig_dir(void)
{
	make_scratch(rig.dir);
	snprintf(rig.sock, sizeof(rig.sock), "%s/sock", rig.dir);
	setenv(RIVULET_SOCKET_ENV, rig.sock, 1);
}

static inline void rig_start_on(const char *config, const char *node)
{
	rig_dir();
	rig_config(config);
	rig_spawn(node);
}

static inline void rig_start(const char *config)
{
	rig_start_on(config, "sim:zu3eg-64");
}

/* Stops the daemon and asserts that it exits with 0: no crash, no leak, no error. */
static inline void rig_stop(void)
{
	int status;

	ck_assert_int_eq(kill(rig.pid, SIGTERM), 0);
	ck_assert_int_eq(waitpid(rig.pid, &status, 0), rig.pid);
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "the daemon ended with 0x%x",
		      status);
	remove_scratch(rig.dir);
}

/* Counts the file descriptors that the daemon has open. */
static inline int rig_fds(void)
{
	char path[64];
	int n = -2;	/* . and .. */
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", rig.pid);
	d = opendir(path);
	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/*
 * Waits until the number is stable, because a thread closes the descriptors of clients. Returns the
 * number.
 */
static inline int rig_quiet_fds(void)
{
	int n = rig_fds(), same = 0;

	while (same < 20) {
		int now = rig_fds();

		same = now == n ? same + 1 : 0;
		n = now;
		usleep(10000);
	}
	return n;
}

/*
 * Waits until the daemon has at most @want descriptors open, because it notices a hang-up
 * asynchronously. One that @want counts may be closed late, too, so that fewer are no fault.
 */
static inline void rig_settle(int want)
{
	for (int i = 0; rig_fds() > want; i++) {
		ck_assert_msg(i < WAIT_MS / 10, "%d descriptors open instead of %d", rig_fds(),
			      want);
		usleep(10000);
	}
}

/*
 * The daemon is stopped between rig_hold() and rig_go(). When it continues, it reads up to RIG_TURN
 * packets that one connection sent meanwhile before it starts any work. The first request is
 * therefore still in progress when the daemon reads the others.
 */
#define RIG_TURN 15

static inline void rig_hold(void)
{
	int status;

	ck_assert_int_eq(kill(rig.pid, SIGSTOP), 0);
	ck_assert_int_eq(waitpid(rig.pid, &status, WUNTRACED), rig.pid);
	ck_assert(WIFSTOPPED(status));
}

static inline void rig_go(void)
{
	ck_assert_int_eq(kill(rig.pid, SIGCONT), 0);
}

/* ---- a client without the library ---- */

static uint32_t raw_serial = 1000;

static inline int raw_connect(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", rig.sock);
	ck_assert(fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)));
	return fd;
}

/* Returns bytes sent, or negative errno. */
static inline ssize_t raw_send(int sock, const void *p, size_t size, const int *fds, int nfds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (void *)p, .iov_len = size };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (nfds) {
		struct cmsghdr *c;

		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, (size_t)nfds * sizeof(int));
	}
	n = sendmsg(sock, &m, MSG_NOSIGNAL);
	return n < 0 ? -errno : n;
}

/* Receives a packet. Returns 0 at the end of the connection, -ETIMEDOUT if none arrives. */
static inline ssize_t raw_recv(int sock, union rivulet_packet *p, int *fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { .iov_base = p, .iov_len = sizeof(*p) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct pollfd pfd = { .fd = sock, .events = POLLIN };
	struct cmsghdr *c;
	ssize_t n;

	if (poll(&pfd, 1, WAIT_MS) <= 0)
		return -ETIMEDOUT;
	n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	c = CMSG_FIRSTHDR(&m);
	if (c && fd)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return n;
}

/* Receives the reply to @serial and drops events before it. Returns 0 or the errno of an ERROR. */
static inline int raw_answer(int sock, uint32_t serial, union rivulet_packet *p, int *fd)
{
	char err[256];

	for (;;) {
		int got = -1;
		ssize_t n = raw_recv(sock, p, &got);

		ck_assert_msg(n > 0, "no answer: %zd", n);
		if (p->h.type != (RIVULET_MSG_HELLO | RIVULET_REPLY))
			ck_assert_msg(!rivulet_proto_check(p, (size_t)n, got >= 0, false, 1, err,
							   sizeof(err)),
				      "%s", err);
		if (p->h.serial != serial) {
			ck_assert_uint_eq(p->h.type, RIVULET_MSG_DEVICE);
			continue;
		}
		if (fd)
			*fd = got;
		else if (got >= 0)
			close(got);
		return p->h.type == RIVULET_MSG_ERROR ? p->h.error : 0;
	}
}

/* Sends a request, whose body the caller filled after raw_init(), and receives the reply. */
static inline int raw_call(int sock, union rivulet_packet *p, int fd, int *reply_fd)
{
	uint32_t serial = p->h.serial;

	ck_assert_int_eq(raw_send(sock, p, p->h.length, &fd, fd >= 0), p->h.length);
	return raw_answer(sock, serial, p, reply_fd);
}

static inline void raw_init(union rivulet_packet *p, uint16_t type)
{
	rivulet_proto_init(p, type, type == RIVULET_MSG_HELLO ? 0 : 1, ++raw_serial);
}

static inline void hello_init(union rivulet_packet *p)
{
	raw_init(p, RIVULET_MSG_HELLO);
	p->hello.min_version = 1;
	p->hello.max_version = 1;
	rivulet_proto_name(p->hello.name, sizeof(p->hello.name), "test");
}

static inline int raw_hello(int sock)
{
	union rivulet_packet p;

	hello_init(&p);
	return raw_call(sock, &p, -1, NULL);
}

static inline int raw_open(void)
{
	int sock = raw_connect();

	ck_assert_int_eq(raw_hello(sock), 0);
	return sock;
}

/* Connects when there is room: a connection counts until the descriptors in it have been closed. */
static inline int raw_open_in_time(void)
{
	int sock = raw_connect();

	for (int i = 0; raw_hello(sock); i++) {
		ck_assert_int_lt(i, WAIT_MS / 10);
		close(sock);
		usleep(10000);
		sock = raw_connect();
	}
	return sock;
}

static inline int raw_ping(int sock)
{
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_PING);
	return raw_call(sock, &p, -1, NULL);
}

/*
 * Returns when the daemon has handled all earlier events of all connections. The daemon handles the
 * oldest event first, and a limited number of packets of a connection at a time.
 */
static inline void raw_barrier(int sock)
{
	for (int i = 0; i < 2 * (RIG_TURN + 1); i++)
		ck_assert_int_eq(raw_ping(sock), 0);
}

static inline int memfd_of(const void *data, size_t size, unsigned int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	if (data)
		ck_assert_int_eq(pwrite(fd, data, size, 0), size);
	if (seals)
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

#define MODEL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* Sends LOAD with a model in memory; @p receives the reply. */
static inline int raw_load(int sock, const void *data, size_t size, uint32_t flags,
			   union rivulet_packet *p, int *program)
{
	int fd = memfd_of(data, size, MODEL_SEALS), r;

	raw_init(p, RIVULET_MSG_LOAD);
	p->load.size = size;
	p->load.flags = flags;
	rivulet_proto_name(p->load.name, sizeof(p->load.name), "m");
	r = raw_call(sock, p, fd, program);
	close(fd);
	return r;
}

static inline uint32_t load_lenet(int sock)
{
	union rivulet_packet p;
	size_t size;
	void *onnx = read_file("models/lenet.onnx", &size);

	ck_assert_msg(!raw_load(sock, onnx, size, 0, &p, NULL), "%s", p.error.text);
	free(onnx);
	return p.load_reply.model;
}

/* A connection with LeNet loaded and an instance whose input and output are bound. */
struct ready {
	int sock, in, out;
	uint32_t model, instance;
};

static inline uint32_t open_instance(int sock, uint32_t model)
{
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_OPEN);
	p.model.model = model;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
	return p.instance.instance;
}

static inline int bind_fd(int sock, uint32_t instance, uint32_t dir, int fd, uint64_t offset,
		   uint64_t size)
{
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_BIND);
	p.bind.instance = instance;
	p.bind.dir = dir;
	p.bind.offset = offset;
	p.bind.size = size;
	return raw_call(sock, &p, fd, NULL);
}

static inline void make_ready(struct ready *r)
{
	r->sock = raw_open();
	r->model = load_lenet(r->sock);
	r->instance = open_instance(r->sock, r->model);
	r->in = memfd_of(NULL, 4096, F_SEAL_SHRINK);
	r->out = memfd_of(NULL, 4096, F_SEAL_SHRINK);
	ck_assert_int_eq(bind_fd(r->sock, r->instance, RIVULET_DIR_INPUT, r->in, 0, 4096), 0);
	ck_assert_int_eq(bind_fd(r->sock, r->instance, RIVULET_DIR_OUTPUT, r->out, 64, 1024), 0);
}

static inline void init_run(union rivulet_packet *p, uint32_t instance)
{
	raw_init(p, RIVULET_MSG_RUN);
	p->run.instance = instance;
	p->run.priority = RIVULET_PRIO_NORMAL;
}

/* Returns max_models of the HELLO reply. */
static inline uint32_t hello_models(void)
{
	union rivulet_packet p;
	int sock = raw_connect();

	raw_init(&p, RIVULET_MSG_HELLO);
	p.hello.max_version = 1;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
	close(sock);
	return p.hello_reply.max_models;
}

/* Returns the number of the first "key": behind @where in STATUS. */
static inline uint64_t status_number(const char *where, const char *key)
{
	static char text[1 << 20];
	int sock = raw_open(), fd = -1;
	union rivulet_packet p;
	char quoted[64], *at;
	ssize_t n;

	raw_init(&p, RIVULET_MSG_STATUS);
	ck_assert_int_eq(raw_call(sock, &p, -1, &fd), 0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	ck_assert_int_eq(n, p.status_reply.size);
	text[n] = 0;
	close(fd);
	close(sock);
	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	at = strstr(text, where);
	ck_assert_msg(at && (at = strstr(at, quoted)), "no %s %s in %s", where, key, text);
	return strtoull(at + strlen(quoted), NULL, 10);
}

/*
 * Waits until no memory is charged. Threads release the memory of clients that have disconnected.
 */
static inline void rig_settle_charges(void)
{
	for (int i = 0; status_number("\"users\"", "bytes"); i++) {
		ck_assert_msg(i < WAIT_MS / 10, "memory is still charged");
		usleep(10000);
	}
}

#endif

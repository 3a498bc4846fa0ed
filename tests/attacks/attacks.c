// SPDX-License-Identifier: MIT
/*
 * Attacks on rivuletd by a user who may only connect to its socket, while a bystander of another
 * user continuously requests runs of 20 ms. An attack succeeds if the daemon ends, if runs of the
 * bystander fail, if a third user cannot connect, load and open, or if root cannot read the status.
 *
 * The variable ATTACK names a single kind to try.
 *
 * The program rivuletd serves the linked device model at the pace of the device. Users are real
 * uids, which a user namespace provides if the test is not root.
 */
#include <json-c/json.h>

#include "fuse_rig.h"
#include "pbuild.h"
#include "share_rig.h"
#include "suite.h"

#define ATTACKER	3001u
#define BYSTANDER	3002u
#define NEWCOMER	3003u
#define RUN_US		20000
#define RUNS		120	/* number of the bystander's runs beside each attack */
#define RUNS_ALONE	100	/* the same before each attack */
#define PINGS		2000
#define SESSIONS	16	/* SessionsPerUser= by default */
#define HUGE_BYTES	(240u << 20)

/* ---- the daemon ---- */

static struct { void *data; size_t size; } relu, lenet;

static void read_models(void)
{
	if (relu.data)
		return;
	relu.data = read_file("/usr/share/libonnx-testdata/data/node/test_relu/model.onnx",
			      &relu.size);
	lenet.data = read_file("models/lenet.onnx", &lenet.size);
}

static void start(void)
{
	char self[320], node[160], log[96];

	read_models();
	rig_dir();
	chmod(rig.dir, 0755);
	rig_config("");
	put_slow_board(RUN_US);
	snprintf(node, sizeof(node), "sim:%s/slow.board,pace=real", rig.dir);
	snprintf(log, sizeof(log), "%s/log", rig.dir);
	program_path(self, sizeof(self), "rivuletd");
	rig.pid = fork();
	ck_assert_int_ge(rig.pid, 0);
	if (!rig.pid) {
		struct rlimit files = { 1024, 1024 };	/* an eighth of the unit's LimitNOFILE= */

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setrlimit(RLIMIT_NOFILE, &files);
		setenv("RUNTIME_DIRECTORY", rig.dir, 1);
		dup2(open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), 2);
		execl(self, self, "--socket", rig.sock, "--device", node, "--config-root", rig.dir,
		      NULL);
		_exit(127);
	}
	for (int i = 0; access(rig.sock, F_OK); i++) {
		ck_assert_int_lt(i, 1000);
		usleep(10000);
	}
	usleep(50000);	/* time between bind() and listen() */
	chmod(rig.sock, 0777);
}

/* ---- the attacker: a process that makes no assertions and ignores errors ---- */

static pid_t attacker;

static int try_connect(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", rig.sock);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * Sends a request and drops events that arrive before the answer. Returns the answer's type, or 0
 * if there is none.
 */
static uint16_t request(int sock, union rivulet_packet *p, int fd, int *got)
{
	uint32_t serial = p->h.serial;
	int spare = -1;

	if (raw_send(sock, p, p->h.length, &fd, fd >= 0) < 0)
		return 0;
	do {
		if (spare >= 0)
			close(spare);
		spare = -1;
		if (raw_recv(sock, p, &spare) <= 0)
			return 0;
	} while (p->h.serial != serial && p->h.serial);
	if (got)
		*got = spare;
	else if (spare >= 0)
		close(spare);
	return p->h.serial ? p->h.type : 0;
}

static int try_open(const char *name)
{
	union rivulet_packet p;
	int sock = try_connect();

	raw_init(&p, RIVULET_MSG_HELLO);
	p.hello.max_version = 1;
	snprintf(p.hello.name, sizeof(p.hello.name), "%s", name);
	if (sock >= 0 && request(sock, &p, -1, NULL) == (RIVULET_MSG_HELLO | RIVULET_REPLY))
		return sock;
	if (sock >= 0)
		close(sock);
	return -1;
}

static void open_sessions(int *sock, int n)
{
	for (int i = 0; i < n; i++)
		sock[i] = try_open("attacker");
}

static void begin_load(union rivulet_packet *p, size_t size, uint64_t batch, uint32_t flags)
{
	raw_init(p, RIVULET_MSG_LOAD);
	p->load.size = size;
	p->load.batch = batch;
	p->load.flags = flags;
}

/*
 * Loads a model of one node. Each @batch gives a different program. Returns the id, or 0 if it was
 * refused.
 */
static uint32_t load_small(int sock, uint64_t batch, uint32_t flags)
{
	int fd = memfd_of(relu.data, relu.size, MODEL_SEALS), program = -1;
	union rivulet_packet p;
	uint16_t type;

	begin_load(&p, relu.size, batch, flags);
	type = request(sock, &p, fd, &program);
	close(fd);
	if (program >= 0)
		close(program);
	return type == (RIVULET_MSG_LOAD | RIVULET_REPLY) ? p.load_reply.model : 0;
}

static void drop_model(int sock, uint32_t model)
{
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_UNLOAD);
	p.model.model = model;
	request(sock, &p, -1, NULL);
}

/* Repeatedly opens as many connections as the process may have and sends nothing. */
static void attack_fds(void)
{
	int fd[400];

	for (;;) {
		for (int i = 0; i < 400; i++)
			fd[i] = try_connect();
		usleep(200000);
		for (int i = 0; i < 400; i++)
			if (fd[i] >= 0)
				close(fd[i]);
	}
}

static void attack_sessions(void)
{
	int sock[SESSIONS];

	for (;;) {
		open_sessions(sock, SESSIONS);
		for (int i = 0; i < SESSIONS; i++)
			if (sock[i] >= 0)
				close(sock[i]);
	}
}

/* One-node models beyond all limits, alternately kept and unloaded. */
static void attack_models(void)
{
	int sock[SESSIONS];
	uint64_t n = 0;

	open_sessions(sock, SESSIONS);
	for (;;)
		for (int i = 0; i < SESSIONS; i++) {
			uint32_t flags = n % 2 ? RIVULET_LOAD_WANT_FD : 0;
			uint32_t model = sock[i] >= 0 ? load_small(sock[i], n, flags) : 0;

			if (model && n % 8)
				drop_model(sock[i], model);
			n++;
		}
}

static void attack_names(void)
{
	static const char *const bad[] = { "\xff\xfe", "a\n<0>rivuletd: forged", "\x1b]0;x\a",
					   "\"}],", "\\u0000", "x\",model=\"y" };

	for (uint32_t n = 0;; n++) {
		union rivulet_packet p;
		int fd = memfd_of(relu.data, relu.size, MODEL_SEALS), sock;

		sock = try_open(bad[n % ARRAY_SIZE(bad)]);
		if (sock < 0)
			sock = try_open("names");
		begin_load(&p, relu.size, n % 50, 0);
		snprintf(p.load.name, sizeof(p.load.name), "%s", bad[(n / 7) % ARRAY_SIZE(bad)]);
		if (sock >= 0)
			request(sock, &p, fd, NULL);
		close(fd);
		if (sock >= 0)
			close(sock);
	}
}

static uint64_t seed = 0x9e3779b97f4a7c15ull;

static uint32_t chance(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 16) % below;
}

/* Packets that are truncated, too long or random, or carry up to 60 descriptors. */
static void attack_packets(void)
{
	for (;;) {
		int sock = try_open("packets"), fds[60];
		static union rivulet_packet p[2];

		for (int i = 0; i < 60; i++)
			fds[i] = sock;
		for (int k = 0; k < 8 && sock >= 0; k++) {
			const struct rivulet_proto_info *info = rivulet_proto_list((int)chance(27));
			size_t size = chance(3) ? info->size : chance(sizeof(p));

			raw_init(&p[0], info->type);
			for (uint32_t j = chance(6); j; j--)
				((unsigned char *)p)[chance(info->size)] =
					(unsigned char)chance(256);
			if (raw_send(sock, p, size ? size : 1, fds,
				     chance(4) ? info->max_fds : chance(60)) < 0)
				break;
		}
		if (sock >= 0)
			close(sock);
	}
}

/* PING and STATUS over all sessions at once. Every answer is read. */
static void attack_flood(void)
{
	int sock[SESSIONS];
	union rivulet_packet p;

	open_sessions(sock, SESSIONS);
	for (uint32_t n = 0;; n++) {
		int s = sock[n % SESSIONS], fd = -1;

		if (s < 0)
			continue;
		for (int i = 0; i < 16; i++) {
			raw_init(&p, i % 2 ? RIVULET_MSG_PING : RIVULET_MSG_STATUS);
			raw_send(s, &p, p.h.length, NULL, 0);
		}
		for (int i = 0; i < 16 && raw_recv(s, &p, &fd) > 0; i++, fd = -1)
			if (fd >= 0)
				close(fd);
	}
}

/* As attack_flood(), but no answer is read. Each answer to STATUS has a descriptor. */
static void attack_slow_reader(void)
{
	int sock[SESSIONS];
	union rivulet_packet p;

	for (;;) {
		open_sessions(sock, SESSIONS);
		for (int i = 0; i < SESSIONS * 400; i++) {
			int s = sock[i % SESSIONS];

			if (s < 0)
				continue;
			fcntl(s, F_SETFL, O_NONBLOCK);
			raw_init(&p, RIVULET_MSG_STATUS);
			raw_send(s, &p, p.h.length, NULL, 0);
		}
		sleep(1);
		for (int i = 0; i < SESSIONS; i++)
			if (sock[i] >= 0)
				close(sock[i]);
	}
}

/* y = x + W, with W of HUGE_BYTES, so that the file is nearly all weights. */
static struct pb huge_model(void)
{
	const int64_t one[] = { 1, -1 }, dims[] = { HUGE_BYTES / 4, -1 };
	struct pb g = { .p = NULL }, n, t, v;
	void *w = calloc(1, HUGE_BYTES);

	n = pb_node("Add", "x w", "y");
	pb_msg(&g, 1, &n);
	pb_str(&g, 2, "huge");
	t = pb_tensor("w", 1, dims, w, HUGE_BYTES);
	free(w);
	pb_msg(&g, 5, &t);
	v = pb_value("x", 1, one);
	pb_msg(&g, 11, &v);
	v = pb_value("y", 1, dims);
	pb_msg(&g, 12, &v);
	return pb_model(&g, 8, 13);
}

static void open_and_drop(int sock, uint32_t model)
{
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_OPEN);
	p.model.model = model;
	request(sock, &p, -1, NULL);
	drop_model(sock, model);
}

static void attack_huge_loads(void)
{
	struct pb m = huge_model();
	int fd = memfd_of(m.p, m.n, MODEL_SEALS), sock = try_open("huge");
	union rivulet_packet p;

	free(m.p);
	for (uint64_t n = 0;; n++) {
		/* every fourth load is compiled again */
		begin_load(&p, m.n, n / 4 + 1, 0);
		if (request(sock, &p, fd, NULL) == (RIVULET_MSG_LOAD | RIVULET_REPLY))
			open_and_drop(sock, p.load_reply.model);
	}
}

/*
 * Large memfds whose last reference is the daemon's: unused, refused, and replaced by later
 * bindings.
 */
static void attack_memory(void)
{
	int sock = try_open("memory"), fd = memfd_of(lenet.data, lenet.size, MODEL_SEALS);
	union rivulet_packet p;
	uint32_t instance = 0;

	begin_load(&p, lenet.size, 0, 0);
	if (request(sock, &p, fd, NULL) == (RIVULET_MSG_LOAD | RIVULET_REPLY)) {
		raw_init(&p, RIVULET_MSG_OPEN);
		p.model.model = 1;
		if (request(sock, &p, -1, NULL) == (RIVULET_MSG_OPEN | RIVULET_REPLY))
			instance = p.instance.instance;
	}
	for (uint32_t n = 0;; n++) {
		int other = try_open("memory");
		size_t size = 100u << 20;

		fd = memfd_of(NULL, size, F_SEAL_SHRINK);
		for (size_t at = 0; at < size; at += 4096)
			pwrite(fd, "x", 1, (off_t)at);
		raw_init(&p, n % 2 ? RIVULET_MSG_BIND : RIVULET_MSG_PING);
		if (n % 2) {
			p.bind.instance = instance;
			p.bind.size = size;
		}
		raw_send(n % 2 ? sock : other, &p, p.h.length, &fd, 1);
		close(fd);
		if (n % 2)
			raw_recv(sock, &p, NULL);
		if (other >= 0)
			close(other);
	}
}

/* LeNet with @n instances, all bound to the same memory. */
static void open_many(struct competitor *c, uint32_t n)
{
	int fd = memfd_of(lenet.data, lenet.size, MODEL_SEALS);
	int memory = memfd_of(NULL, 8192, F_SEAL_SHRINK);
	union rivulet_packet p;
	uint32_t model;

	c->sock = try_open("deadlines");
	begin_load(&p, lenet.size, 0, 0);
	request(c->sock, &p, fd, NULL);
	model = p.load_reply.model;
	for (c->depth = 0; c->depth < n; c->depth++) {
		raw_init(&p, RIVULET_MSG_OPEN);
		p.model.model = model;
		request(c->sock, &p, -1, NULL);
		c->instance[c->depth] = p.instance.instance;
		for (uint32_t dir = 0; dir < 2; dir++) {
			raw_init(&p, RIVULET_MSG_BIND);
			p.bind.instance = c->instance[c->depth];
			p.bind.dir = dir;
			p.bind.offset = dir * 4096;
			p.bind.size = 4096;
			request(c->sock, &p, memory, NULL);
		}
	}
}

/* Keeps 40 runs in flight, each with an expired deadline. */
static void attack_deadlines(void)
{
	struct competitor c = { .priority = RIVULET_PRIO_NORMAL, .deadline = 1 };
	union rivulet_packet p;

	open_many(&c, 40);
	competitor_send_all(&c);
	while (raw_recv(c.sock, &p, NULL) > 0)
		for (uint32_t i = 0; i < c.depth; i++)
			if (c.serial[i] == p.h.serial)
				competitor_send(&c, i);
}

/* Sends @type with @fd on a new connection, which is dropped with a second packet that nobody has read. */
static void send_and_drop(uint16_t type, int fd)
{
	int sock = try_open("fuse"), fds[20];
	union rivulet_packet p;

	for (int i = 0; i < 20; i++)
		fds[i] = fd;
	raw_init(&p, type);
	if (type == RIVULET_MSG_LOAD)
		p.load.size = 1000;
	if (sock < 0)
		return;
	fcntl(sock, F_SETFL, O_NONBLOCK);
	raw_send(sock, &p, p.h.length, fds, p.h.serial % 3 ? 1 : 20);
	p.h.serial = ++raw_serial;
	raw_send(sock, &p, p.h.length, fds, 1);
	usleep(5000);
	close(sock);
}

/* Descriptors whose close() blocks, with messages that have one and with messages that have none. */
static void attack_fuse(void)
{
	static const uint16_t types[] = { RIVULET_MSG_LOAD, RIVULET_MSG_BIND, RIVULET_MSG_PING, RIVULET_MSG_STATUS };
	int file = fuse_rig_open(getppid());

	if (file < 0)
		_exit(1);
	for (uint32_t n = 0;; n++) {
		int fd = n % 8 == 7 ? linger_rig_open() : file;

		send_and_drop(types[n % 4], fd);
		if (fd != file)
			close(fd);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
	bool device_time;	/* the attack uses device time, which the bystander must share */
} attacks[] = {
	{ "descriptors", attack_fds, false }, { "sessions", attack_sessions, false },
	{ "models", attack_models, false }, { "names", attack_names, false },
	{ "packets", attack_packets, false }, { "flood", attack_flood, false },
	{ "slow reader", attack_slow_reader, false }, { "huge loads", attack_huge_loads, false },
	{ "memory", attack_memory, false }, { "fuse", attack_fuse, false },
	{ "deadlines", attack_deadlines, true },
};

static void start_attack(void (*run)(void))
{
	attacker = fork();
	ck_assert_int_ge(attacker, 0);
	if (attacker)
		return;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	if (setgid(ATTACKER) || setuid(ATTACKER))
		_exit(1);
	run();
	_exit(0);
}

/* ---- the other users ---- */

static double alone[ARRAY_SIZE(attacks) * RUNS_ALONE], beside[ARRAY_SIZE(attacks) * RUNS];
static size_t n_alone, n_beside;
static double ping_ms, stall_ms;
static int tried, withstood;

static int by_size(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return d < 0 ? -1 : d > 0;
}

static double percentile(double *v, size_t n, double p)
{
	qsort(v, n, sizeof(*v), by_size);
	return v[(size_t)((double)(n - 1) * p)];
}

static double one_run(struct competitor *c)
{
	uint64_t from = rvl_now();
	union rivulet_packet p;

	competitor_send(c, 0);
	while (competitor_receive(c, &p) < 0)
		;
	return (double)(rvl_now() - from) / 1e6;
}

/* Proves that a third user who connects during the attack is served in time. */
static void newcomer(uint64_t batch)
{
	uint64_t from = rvl_now();
	union rivulet_packet p;
	uint32_t model;
	int sock;

	rig_as(NEWCOMER);
	sock = raw_open();
	rig_as_self();
	model = load_small(sock, batch, 0);
	ck_assert_uint_ne(model, 0);
	raw_init(&p, RIVULET_MSG_OPEN);
	p.model.model = model;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
	close(sock);
	ck_assert_uint_lt(rvl_now() - from, 10 * NSEC_PER_SEC);
}

/* Reads the status as root and parses it strictly. Returns the longest callback of the loop. */
static double read_status(void)
{
	static char text[1 << 22];
	struct json_tokener *t = json_tokener_new();
	struct json_object *o, *loop, *stall;
	int sock = raw_open(), fd = -1;
	union rivulet_packet p;
	ssize_t n;
	double ms;

	raw_init(&p, RIVULET_MSG_STATUS);
	ck_assert_int_eq(raw_call(sock, &p, -1, &fd), 0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	ck_assert_int_gt(n, 0);
	text[n] = 0;
	close(fd);
	close(sock);
	json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(t, text, (int)n + 1);
	json_tokener_free(t);
	ck_assert_msg(o != NULL, "the status is not JSON: %.200s", text);
	ck_assert(json_object_object_get_ex(o, "loop", &loop) &&
		  json_object_object_get_ex(loop, "stall_max_ns", &stall));
	ms = json_object_get_double(stall) / 1e6;
	json_object_put(o);
	return ms;
}

static void read_log(void)
{
	char path[96];
	size_t size;
	char *log;

	snprintf(path, sizeof(path), "%s/log", rig.dir);
	log = read_file(path, &size);
	ck_assert_uint_lt(size, 100000);
	ck_assert_uint_eq(rivulet_proto_text(log, strcspn(log, "\n")), strcspn(log, "\n"));
	for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n"))
		ck_assert_msg(!strncmp(line, "<", 1) && strncmp(line + 3, "rivuletd: forged", 16),
			      "%s", line);
	free(log);
}

static void ping_beside(void)
{
	static double ms[PINGS];
	int sock;

	rig_as(BYSTANDER);
	sock = raw_open();
	rig_as_self();
	for (int i = 0; i < PINGS; i++) {
		uint64_t from = rvl_now();

		ck_assert_int_eq(raw_ping(sock), 0);
		ms[i] = (double)(rvl_now() - from) / 1e6;
		usleep(1000);
	}
	close(sock);
	ping_ms = percentile(ms, PINGS, 0.99);
	stall_ms = read_status();
}

/* Proves that the daemon stops within the unit's TimeoutStopSec= while the attack goes on. */
static void stop_under_attack(void)
{
	int status, waited = 0;

	ck_assert_int_eq(kill(rig.pid, SIGTERM), 0);
	while (!waitpid(rig.pid, &status, WNOHANG)) {
		ck_assert_msg(waited++ < 200, "the daemon has not stopped after 20 s");
		usleep(100000);
	}
	rig.pid = 0;
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "the daemon ended with 0x%x", status);
}

/* Proves that during this attack a second user's runs succeed and a third user can start. */
START_TEST(attack)
{
	const char *only = getenv("ATTACK");
	struct competitor c;
	double ms, longest = 0;

	if (only && strcmp(only, attacks[_i].name))
		return;
	if (attacks[_i].run == attack_fuse && !fuse_rig_works()) {
		printf("untried attack-fuse users cannot serve a file here (/dev/fuse, user namespaces)\n");
		return;
	}
	tried++;
	competitor_open(&c, BYSTANDER, 1);
	/*
	 * Measured right before each attack, so that other load of the machine affects both
	 * measurements.
	 */
	for (int i = 0; i < RUNS_ALONE; i++)
		alone[n_alone++] = one_run(&c);
	start_attack(attacks[_i].run);
	usleep(300000);
	newcomer(1u << 20);
	for (int i = 0; i < RUNS; i++) {
		ms = one_run(&c);
		longest = ms > longest ? ms : longest;
		if (!attacks[_i].device_time)
			beside[n_beside++] = ms;
	}
	newcomer(1u << 21);
	if (attacks[_i].run == attack_huge_loads)
		ping_beside();
	read_status();
	read_log();
	ck_assert_msg(longest < 1000, "a run of 20 ms took %.0f ms", longest);
	ck_assert_int_eq(waitpid(attacker, NULL, WNOHANG), 0);
	close(c.sock);
	stop_under_attack();
	withstood++;
}
END_TEST

static void end(void)
{
	if (attacker > 0)
		fuse_rig_kill(attacker);
	attacker = 0;
	if (rig.pid)
		rig_stop();
	else
		remove_scratch(rig.dir);
}

static void report(void)
{
	double usual = percentile(alone, n_alone, 0.99);
	double attacked = n_beside ? percentile(beside, n_beside, 0.99) : 0;

	printf("figure daemon.stop.attempts %d kinds\n", tried);
	printf("figure daemon.stop.succeeded %d kinds\n", tried - withstood);
	printf("figure daemon.bystander.runs %zu runs\n", n_beside);
	printf("figure daemon.bystander.alone %.2f ms\n", usual);
	printf("figure daemon.bystander.ratio %.2f x\n", attacked / usual);
	printf("figure daemon.ping.p99 %.2f ms\n", ping_ms);
	printf("figure daemon.loop.stall %.2f ms\n", stall_ms);
}

/* Proves both bars on the samples of all attacks. */
START_TEST(bars)
{
	double usual = percentile(alone, n_alone, 0.99), attacked;

	if (getenv("ATTACK"))
		return;
	ck_assert_uint_ge(n_beside, 1000);
	attacked = percentile(beside, n_beside, 0.99);
	ck_assert_msg(attacked <= 1.5 * usual, "p99 of a run: %.2f ms alone, %.2f ms attacked",
		      usual, attacked);
	ck_assert_msg(ping_ms <= 5, "p99 of a ping beside huge loads: %.2f ms", ping_ms);
}
END_TEST

/* A test that is not root enters a user namespace that maps the other users' uids. */
static void become_root(char **argv)
{
	if (!getuid())
		return;
	if (!getenv("RIVULET_ATTACKS"))	{
		setenv("RIVULET_ATTACKS", "1", 1);
		execlp("unshare", "unshare", "--user", "--map-root-user", "--map-auto", argv[0],
		       NULL);
	}
	fprintf(stderr, "check-attacks: several users need root, or unshare with subordinate uids "
			"(uidmap)\n");
	exit(EXIT_FAILURE);
}

static bool only_bars_failed(SRunner *r)
{
	TestResult **failures = srunner_failures(r);
	bool only = true;

	for (int i = 0; i < srunner_ntests_failed(r); i++)
		only &= !strcmp(tr_tcname(failures[i]), "bars");
	free(failures);
	return only;
}

int main(int argc, char **argv)
{
	Suite *s = suite_create("attacks");
	TCase *t = tcase_create("attacks"), *last = tcase_create("bars");
	SRunner *r;
	int failed;

	(void)argc;
	become_root(argv);
	tcase_add_checked_fixture(t, start, end);
	tcase_add_loop_test(t, attack, 0, (int)ARRAY_SIZE(attacks));
	suite_add_tcase(s, t);
	tcase_add_test(last, bars);
	suite_add_tcase(s, last);
	r = srunner_create(s);
	/* One process, so that the samples of all attacks are evaluated together. */
	srunner_set_fork_status(r, CK_NOFORK);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	/*
	 * Other load of the machine may have affected one of the two measurements, so a missed bar
	 * is measured once more.
	 */
	if (failed && only_bars_failed(r) && !getenv("RIVULET_ATTACKS_AGAIN")) {
		setenv("RIVULET_ATTACKS_AGAIN", "1", 1);
		printf("# measured again: at first %.2f ms alone and %.2f ms beside attacks\n",
		       percentile(alone, n_alone, 0.99), percentile(beside, n_beside, 0.99));
		fflush(stdout);
		execv("/proc/self/exe", argv);
	}
	srunner_free(r);
	report();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

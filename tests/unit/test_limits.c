// SPDX-License-Identifier: MIT
/* The resources that a client can exhaust, and that the daemon keeps serving others meanwhile. */
#include "daemon_rig.h"
#include "fuse_rig.h"
#include "rivulet_crc32c.h"
#include "rivulet_program.h"
#include "suite.h"

/*
 * Loads a model of one node. Each @batch gives a different program. Returns 0 or the ERROR's errno.
 */
static int load_one_node(int sock, uint64_t batch, uint32_t *model)
{
	size_t size;
	void *onnx = read_file("/usr/share/libonnx-testdata/data/node/test_relu/model.onnx", &size);
	int fd = memfd_of(onnx, size, MODEL_SEALS), r;
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_LOAD);
	p.load.size = size;
	p.load.batch = batch;
	rivulet_proto_name(p.load.name, sizeof(p.load.name), "one node");
	r = raw_call(sock, &p, fd, NULL);
	ck_assert_msg(!r || p.error.text[0], "an error without a text");
	*model = r ? 0 : p.load_reply.model;
	close(fd);
	free(onnx);
	return r;
}

static void unload(int sock, uint32_t model)
{
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_UNLOAD);
	p.model.model = model;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
}

/* Proves that loading and unloading many models does not exhaust the daemon's descriptors. */
START_TEST(many_programs)
{
	int sock = raw_open(), other;
	uint32_t model;

	for (uint64_t i = 1; i <= 150; i++) {
		ck_assert_int_eq(load_one_node(sock, i, &model), 0);
		unload(sock, model);
	}
	ck_assert_uint_le(status_number("\"cache\"", "idle_programs"), 32);
	other = raw_open();
	ck_assert_int_eq(load_one_node(other, 1000, &model), 0);
}
END_TEST

/* Callbacks of the daemon's event loop since its start. */
static uint64_t loop_turns(void)
{
	return status_number("\"loop\"", "turns");
}

/*
 * The daemon answers @bystander for a second. After each answer the daemon runs. A loop that spins
 * then makes hundreds of turns before the kernel schedules another process, however busy the
 * machine is.
 */
static void ping_for_a_second(int bystander)
{
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(raw_ping(bystander), 0);
		usleep(50000);
	}
}

/*
 * Proves that the daemon does not spin either while it cannot accept the waiting client even by its
 * reserved descriptor, and that it serves that client once descriptors are free.
 */
START_TEST(no_reserve)
{
	int first = raw_open(), waiting;
	uint64_t turns = loop_turns();
	struct rlimit old, none;
	union rivulet_packet p;

	ck_assert_int_eq(prlimit(rig.pid, RLIMIT_NOFILE, NULL, &old), 0);
	none = (struct rlimit){ .rlim_cur = 3, .rlim_max = old.rlim_max };
	ck_assert_int_eq(prlimit(rig.pid, RLIMIT_NOFILE, &none, NULL), 0);
	waiting = raw_connect();
	raw_barrier(first);
	ping_for_a_second(first);
	ck_assert_int_eq(prlimit(rig.pid, RLIMIT_NOFILE, &old, NULL), 0);
	raw_init(&p, RIVULET_MSG_HELLO);
	p.hello.min_version = p.hello.max_version = 1;
	rivulet_proto_name(p.hello.name, sizeof(p.hello.name), "test");
	raw_send(waiting, &p, p.h.length, NULL, 0);
	ck_assert_int_gt(raw_recv(waiting, &p, NULL), 0);
	ck_assert_uint_eq(p.h.type, RIVULET_MSG_HELLO | RIVULET_REPLY);
	/* Each ping is a turn, and so is each attempt to accept. A loop that spins made 40,000. */
	ck_assert_uint_lt(loop_turns() - turns, 20 + 1000);
	close(waiting);
	close(first);
}
END_TEST

/*
 * Proves that without free descriptors the daemon neither spins nor stops serving open connections,
 * that a waiting client gets the reason, and that new connections are served once descriptors are
 * free.
 */
START_TEST(no_descriptors)
{
	int sock[64], bystander = raw_open(), refused = 0;
	uint64_t turns = loop_turns();
	union rivulet_packet p;

	for (int i = 0; i < 64; i++) {
		sock[i] = raw_connect();
		raw_init(&p, RIVULET_MSG_HELLO);
		p.hello.min_version = p.hello.max_version = 1;
		rivulet_proto_name(p.hello.name, sizeof(p.hello.name), "test");
		raw_send(sock[i], &p, p.h.length, NULL, 0);
	}
	raw_barrier(bystander);
	ping_for_a_second(bystander);
	for (int i = 0; i < 64; i++) {
		struct pollfd pfd = { .fd = sock[i], .events = POLLIN };

		if (poll(&pfd, 1, 0) != 1 || raw_recv(sock[i], &p, NULL) <= 0)
			continue;
		if (p.h.type == (RIVULET_MSG_HELLO | RIVULET_REPLY))
			continue;
		ck_assert_uint_eq(p.h.type, RIVULET_MSG_ERROR);
		ck_assert_int_eq(p.h.error, -EMFILE);
		refused++;
	}
	ck_assert_int_gt(refused, 0);
	for (int i = 0; i < 64; i++)
		close(sock[i]);
	close(raw_open());
	ck_assert_int_eq(raw_ping(bystander), 0);
	ck_assert_uint_lt(loop_turns() - turns, 20 + 1000);
}
END_TEST

static int open_one(int sock, uint32_t model)
{
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_OPEN);
	p.model.model = model;
	return raw_call(sock, &p, -1, NULL);
}

/*
 * Proves that a refused OPEN leaves nothing charged, and that UNLOAD releases all charges of the
 * openings of several sessions, the advance ones included.
 */
START_TEST(openings_are_charged)
{
	int sock[4], opened = 0, r = 0;
	uint32_t model[4];
	uint64_t full;

	for (int i = 0; i < 4; i++) {
		sock[i] = raw_open();
		ck_assert_int_eq(load_one_node(sock[i], 1, &model[i]), 0);
	}
	for (; !r && opened < 4000; opened++)
		r = open_one(sock[opened % 4], model[opened % 4]);
	ck_assert_int_eq(r, -EDQUOT);
	ck_assert_int_gt(opened, 4);
	ck_assert_uint_le(status_number("\"users\"", "bytes"), 256 << 10);
	for (int i = 0; i < 4; i++)
		while (!open_one(sock[i], model[i]))
			;
	full = status_number("\"users\"", "bytes");
	for (int i = 0; i < 50; i++)
		ck_assert_int_eq(open_one(sock[i % 4], model[i % 4]), -EDQUOT);
	ck_assert_uint_eq(status_number("\"users\"", "bytes"), full);
	for (int i = 0; i < 4; i++) {
		unload(sock[i], model[i]);
		ck_assert_int_eq(raw_ping(sock[i]), 0);
	}
	ck_assert_uint_eq(status_number("\"users\"", "bytes"), 0);
}
END_TEST

/* Sends LOAD with a file that is not a memfd, on a new connection. Returns the ERROR's errno. */
static int load_file(int file)
{
	int sock = raw_open_in_time(), r;
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_LOAD);
	p.load.size = 1000;
	r = raw_call(sock, &p, file, NULL);
	close(sock);
	return r;
}

/*
 * A user whose files block every process that closes them. That includes this process when it ends,
 * so it only stops. @answer receives the answers to four LOADs.
 */
static void pass_blocking_files(int *answer)
{
	int file = fuse_rig_open(getppid());

	for (int i = 0; i < 4; i++)
		answer[i] = load_file(file);
	raise(SIGSTOP);
}

/*
 * Proves that files of one user whose close() blocks for ever neither delay another user nor the end of
 * the daemon, and that the user is told when no more of them are received.
 */
START_TEST(blocking_files)
{
	uint64_t end = rvl_now() + 60 * NSEC_PER_SEC, from, longest = 0;
	int *answer = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	siginfo_t child = { .si_pid = 0 };
	uint32_t model;
	pid_t pid;
	int sock;

	if (!fuse_rig_works()) {
		printf("untried blocking-files users cannot serve a file here (/dev/fuse, user namespaces)\n");
		return;
	}
	/*
	 * The first connection is accepted before the others, because a rig that is not root gives
	 * all connections of a moment to one user.
	 */
	rig_as(1001);
	sock = raw_open();
	rig_as_self();
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		setpgid(0, 0);
		pass_blocking_files(answer);
	}
	for (uint64_t n = 1; !child.si_pid; n++) {
		from = rvl_now();
		ck_assert_uint_lt(from, end);
		ck_assert_int_eq(raw_ping(sock), 0);
		ck_assert_int_eq(load_one_node(sock, n, &model), 0);
		unload(sock, model);
		longest = rvl_now() - from > longest ? rvl_now() - from : longest;
		ck_assert_int_eq(waitid(P_PID, (id_t)pid, &child, WEXITED | WSTOPPED | WNOHANG), 0);
		usleep(100000);
	}
	/* Where fstatfs() also asks the FUSE server, the receiver never answers. */
	for (int i = 0; i < 4; i++)
		ck_assert_msg(i < RVL_INTAKE_STUCK ? answer[i] == -EPERM || answer[i] == -ETIMEDOUT :
						     answer[i] == -EDQUOT, "answer %d is %d", i, answer[i]);
	ck_assert_uint_lt(longest, 15 * NSEC_PER_SEC);
	from = rvl_now();
	kill(rig.pid, SIGTERM);
	while (!waitpid(rig.pid, NULL, WNOHANG)) {
		ck_assert_uint_lt(rvl_now() - from, 15 * NSEC_PER_SEC);
		usleep(10000);
	}
	fuse_rig_kill(pid);
	remove_scratch(rig.dir);
	/* The fixture stops this daemon. */
	rig_start("");
	close(raw_open());
}
END_TEST

/*
 * Leaves a connection with a descriptor that no receiver reads. The caller keeps the daemon stopped
 * meanwhile.
 */
static void leave_unread(int file)
{
	int sock = raw_connect();
	union rivulet_packet p;

	raw_init(&p, RIVULET_MSG_LOAD);
	p.load.size = 1000;
	raw_send(sock, &p, p.h.length, &file, 1);
	close(sock);
	close(file);
}

/* A user with as many stuck receivers as it may have, whose connections above the limit linger. */
static void leave_lingering_sockets(void)
{
	int file = fuse_rig_open(getppid());

	for (int i = 0; i < 3; i++)
		load_file(file);
	/* The daemon's reference to each file must become the last one. */
	kill(rig.pid, SIGSTOP);
	usleep(100000);
	for (int i = 0; i < 32; i++)
		leave_unread(open("/dev/null", O_RDONLY | O_CLOEXEC));
	for (int i = 0; i < 4; i++)
		leave_unread(linger_rig_open());
	kill(rig.pid, SIGCONT);
	/*
	 * When this connection is answered, the daemon has accepted all earlier ones for this user.
	 */
	raw_hello(raw_connect());
	raise(SIGSTOP);
}

/*
 * Proves that descriptors in connections above SessionsPerUser= are not closed by the thread that
 * releases the memory of all users, when the receivers of their user are stuck.
 */
START_TEST(lingering_refusals)
{
	siginfo_t child = { .si_pid = 0 };
	uint32_t model;
	int sock;
	pid_t pid;

	if (!fuse_rig_works()) {
		printf("untried lingering-refusals users cannot serve a file here (/dev/fuse, user namespaces)\n");
		return;
	}
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		setpgid(0, 0);
		leave_lingering_sockets();
	}
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &child, WEXITED | WSTOPPED), 0);
	ck_assert_int_eq(child.si_code, CLD_STOPPED);
	rig_as(1001);
	sock = raw_open();
	rig_as_self();
	raw_barrier(sock);
	ck_assert_int_eq(load_one_node(sock, 1, &model), 0);
	ck_assert_int_eq(open_one(sock, model), 0);
	unload(sock, model);
	fuse_rig_kill(pid);
}
END_TEST

static void one_session(void)
{
	rig_start("[Limits]\nSessionsPerUser=1\n");
}

static void default_limits(void)
{
	rig_start("");
}

static void little_memory(void)
{
	rig_start("[Limits]\nMemoryPerUser=256K\nInstancesPerUser=4096\n");
}

static void few_files(void)
{
	setenv("RIG_NOFILE", "96", 1);
	rig_start("[Cache]\nProgramsMax=32\n");
}

static void fewer_files(void)
{
	setenv("RIG_NOFILE", "40", 1);
	rig_start("[Limits]\nSessions=4096\nSessionsPerUser=4096\n");
}

/* A client that does not ask for the shapes of a run cannot open a model that needs it. */
START_TEST(bounded_outputs)
{
	union rivulet_packet p;
	size_t size, onnx_size;
	void *onnx = read_file("models/lenet.onnx", &onnx_size);
	int sock = raw_open(), fd = -1;
	struct rivulet_program *h;
	struct rivulet_tensor *t;
	uint32_t model;
	char *copy;

	ck_assert_int_eq(raw_load(sock, onnx, onnx_size, RIVULET_LOAD_WANT_FD, &p, &fd), 0);
	size = p.load_reply.program_size;
	copy = malloc(size);
	ck_assert_int_eq(pread(fd, copy, size, 0), size);
	h = (struct rivulet_program *)copy;
	t = (struct rivulet_tensor *)(copy + h->tensors_off) + h->inputs;
	t->flags = RIVULET_TENSOR_BOUNDED;
	h->crc = 0;
	h->crc = rivulet_crc32c(0, copy, size);
	ck_assert_int_eq(raw_load(sock, copy, size, RIVULET_LOAD_PROGRAM, &p, NULL), 0);
	model = p.load_reply.model;
	raw_init(&p, RIVULET_MSG_OPEN);
	p.model.model = model;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), -EOPNOTSUPP);
	ck_assert_msg(strstr(p.error.text, "its shape is known at run time only"), "%s", p.error.text);
	close(fd);
	free(copy);
	free(onnx);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s;

	rig_main(argc, argv, rvl_worker_main);
	s = suite_create("limits");
	tcase_add_test(add_case(s, "programs", 240, few_files, rig_stop), many_programs);
	tcase_add_test(add_case(s, "descriptors", 240, fewer_files, rig_stop), no_descriptors);
	tcase_add_test(add_case(s, "no reserve", 240, default_limits, rig_stop), no_reserve);
	tcase_add_test(add_case(s, "memory", 240, little_memory, rig_stop), openings_are_charged);
	tcase_add_test(add_case(s, "files", 240, default_limits, rig_stop), blocking_files);
	tcase_add_test(add_case(s, "refusals", 240, one_session, rig_stop), lingering_refusals);
	tcase_add_test(add_case(s, "shapes", 240, default_limits, rig_stop), bounded_outputs);
	return run_suite(s);
}

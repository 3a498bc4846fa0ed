// SPDX-License-Identifier: MIT
/*
 * The compiler's process with hostile models. The daemon under test starts this program as its
 * worker, and the first bytes of the "model" select what it does. Attempts from inside the sandbox
 * are made after the real sandbox was entered.
 */
#include "daemon_rig.h"
#include "suite.h"

#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* ---- in the worker ---- */

static struct rvl_worker_job job;

static void send_hash(const char *model)
{
	struct rvl_worker_hash hash;
	uint32_t go;

	memset(&hash, 0, sizeof(hash));
	memcpy(&hash, model, 16);
	send(RVL_WORKER_CONTROL_FD, &hash, sizeof(hash), 0);
	if (recv(RVL_WORKER_CONTROL_FD, &go, sizeof(go), 0) != sizeof(go))
		_exit(1);
}

static void send_result(int error, const char *text, uint64_t size)
{
	struct rvl_worker_result res = { .error = error, .size = size };

	snprintf(res.text, sizeof(res.text), "%s", text);
	send(RVL_WORKER_CONTROL_FD, &res, sizeof(res), 0);
}

static void write_garbage(size_t size)
{
	static char block[4096];

	memset(block, 0x5a, sizeof(block));
	for (size_t at = 0; at < size; at += sizeof(block))
		if (pwrite(RVL_WORKER_PROGRAM_FD, block, sizeof(block), (off_t)at) < 0)
			_exit(9);
}

static void invalid_error(void)
{
	struct rvl_worker_result res = { .error = 12345 };

	memset(res.text, '\n', sizeof(res.text));
	send(RVL_WORKER_CONTROL_FD, &res, sizeof(res), 0);
}

static void use_time(void)
{
	for (volatile unsigned long i = 0;; i++)
		;
}

static void use_memory(void)
{
	size_t got = 0;

	for (;;) {
		char *p = malloc(1 << 20);

		if (!p) {
			send_result(-ENOMEM, "out of memory", got);
			_exit(0);
		}
		memset(p, 1, 1 << 20);
		got += 1 << 20;
	}
}

/* System calls that the filter must stop. Each returns if the filter allows it. */
static void forbidden(int which)
{
	switch (which) {
	case 0:
		syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
		break;
	case 1:
		syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
		break;
	case 2:
		syscall(SYS_execve, "/bin/true", NULL, NULL);
		break;
	case 3:
		syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		break;
	case 4:
		syscall(SYS_kill, getppid(), 0);
		break;
	case 5:
		syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
		break;
	case 6:
		syscall(SYS_ptrace, 0, 0, 0, 0);
		break;
	case 7:
		syscall(SYS_prlimit64, 0, RLIMIT_AS, NULL, NULL);
		break;
	case 8:
		syscall(SYS_memfd_create, "x", 0);
		break;
	default:
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGKILL);
	}
}

static void act(const char *model)
{
	if (!strncmp(model, "!crash", 6))
		raise(SIGABRT);	/* a sanitizer turns other signals into an exit */
	else if (!strncmp(model, "!exit", 5))
		_exit(7);
	else if (!strncmp(model, "!hang", 5))
		pause();
	else if (!strncmp(model, "!time", 5) && !rvl_worker_sandbox(&job))
		use_time();
	else if (!strncmp(model, "!memory", 7) && !rvl_worker_sandbox(&job))
		use_memory();
	else if (!strncmp(model, "!big", 4) && !rvl_worker_sandbox(&job))
		write_garbage(1 << 20);
	else if (!strncmp(model, "!lie", 4))
		write_garbage(8192), send_result(0, "", 8192);
	else if (!strncmp(model, "!empty", 6))
		send_result(0, "", 8192);
	else if (!strncmp(model, "!chatter", 8))
		send(RVL_WORKER_CONTROL_FD, "?", 1, 0), pause();
	else if (!strncmp(model, "!text", 5))
		invalid_error();
	else if (!strncmp(model, "!call", 5) && !rvl_worker_sandbox(&job))
		forbidden(model[5] - '0'), send_result(-EALREADY, "it came back", 0);
	_exit(0);
}

static int worker(void)
{
	const char *model;

	if (recv(RVL_WORKER_CONTROL_FD, &job, sizeof(job), MSG_PEEK) != sizeof(job))
		return 1;
	model = mmap(NULL, 4096, PROT_READ, MAP_SHARED, RVL_WORKER_MODEL_FD, 0);
	if (model == MAP_FAILED)
		return 1;
	if (*model != '!')
		return rvl_worker_main();
	recv(RVL_WORKER_CONTROL_FD, &job, sizeof(job), 0);
	send_hash(model);
	act(model);
	return 0;
}

/* ---- in the client ---- */

static int load(int sock, const char *what, union rivulet_packet *p)
{
	char model[4096] = { 0 };

	snprintf(model, sizeof(model), "%s", what);
	return raw_load(sock, model, sizeof(model), 0, p, NULL);
}

static const struct {
	const char *model;
	int error;
	const char *says;
} ends[] = {
	{ "!crash", -EFAULT, "crashed (signal 6" },
	{ "!exit", -EFAULT, "ended with status 7 without an answer" },
	{ "!none", -EFAULT, "ended with status 0 without an answer" },
	{ "!hang", -ETIMEDOUT, "more than TimeMax=1 s" },
	{ "!time", -ETIMEDOUT, "more than TimeMax=1 s" },
	{ "!big", -E2BIG, "larger than ProgramSizeMax=65536" },
	{ "!lie", -EINVAL, "" },
	{ "!empty", -EINVAL, "a program of 0 bytes" },
	{ "!chatter", -EFAULT, "crashed (signal 9" },
	{ "!text", -EINVAL, "????" },
};

#define HOSTILE_CONFIG							\
	"[Compiler]\nTimeMax=%d\nMemoryMax=128M\nProgramSizeMax=64K\n"	\
	"[Limits]\nCompilesPerUser=3\nModelsPerUser=%d\n"
#define NO_TIMEOUT 600	/* s, longer than any test */

static void time_limit(int seconds)
{
	char text[256];

	snprintf(text, sizeof(text), HOSTILE_CONFIG, seconds, seconds);
	rig_config(text);
	ck_assert_int_eq(kill(rig.pid, SIGHUP), 0);
	while (hello_models() != (uint32_t)seconds)
		usleep(1000);
}

/* Proves that each end of a worker gives one ERROR with its reason and affects no other client. */
START_TEST(ending)
{
	int sock = raw_open(), bystander = raw_open();
	union rivulet_packet p;

	if (ends[_i].error == -ETIMEDOUT)
		time_limit(1);
	ck_assert_int_eq(load(sock, ends[_i].model, &p), ends[_i].error);
	ck_assert_msg(strstr(p.error.text, ends[_i].says), "said: %s", p.error.text);
	ck_assert_int_eq(raw_ping(bystander), 0);
	ck_assert_uint_eq(status_number("\"compiler\"", "refused"), 1);
	ck_assert_uint_eq(status_number("\"compiler\"", "working"), 0);
	ck_assert_uint_eq(status_number("\"users\"", "bytes"), 0);
	ck_assert_uint_eq(status_number("\"cache\"", "programs"), 0);
	/* A valid model compiles right afterwards. */
	time_limit(NO_TIMEOUT);
	ck_assert_int_eq(load(sock, "no model, but a worker that says so", &p), -EBADMSG);
}
END_TEST

/* Proves that the worker's memory is limited by MemoryMax=. */
START_TEST(memory)
{
	int sock = raw_open();
	union rivulet_packet p;

	if (SANITIZED)
		return;	/* there is no limit of address space with a sanitizer */
	ck_assert_int_eq(load(sock, "!memory", &p), -ENOMEM);
}
END_TEST

/* Proves that the filter stops each of these calls, and the error that the client gets. */
START_TEST(system_call)
{
	int sock = raw_open(), r;
	union rivulet_packet p;
	char model[8];

	snprintf(model, sizeof(model), "!call%d", _i);
	r = load(sock, model, &p);
	/* With a sanitizer the calls fail with an errno, so that it can print its report. */
	if (SANITIZED) {
		ck_assert_int_eq(r, -EALREADY);
		return;
	}
	ck_assert_int_eq(r, -EFAULT);
	ck_assert_ptr_nonnull(strstr(p.error.text, "forbidden system call"));
}
END_TEST

/*
 * Loads every model.onnx one level below @dir, or one of case_step(), each in a session of its own. Returns
 * how many there are.
 */
static int load_all(const char *dir)
{
	union rivulet_packet p;
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512];
	int n = 0, sock;

	while (d && (e = readdir(d))) {
		size_t size;
		void *onnx;

		snprintf(path, sizeof(path), "%s/%s/model.onnx", dir, e->d_name);
		if (*e->d_name == '.' || access(path, R_OK))
			continue;
		if (n++ % case_step())
			continue;
		sock = raw_open();
		onnx = read_file(path, &size);
		raw_load(sock, onnx, size, 0, &p, NULL);
		free(onnx);
		close(sock);
	}
	if (d)
		closedir(d);
	return n;
}

/*
 * Proves that the filter allows what the compiler needs: with a thousand valid models, no worker is
 * killed.
 */
START_TEST(valid_models)
{
	int n = load_all("tests/data/qdq");

	n += load_all("/usr/share/libonnx-testdata/data/node");
	n += load_all("/usr/share/libonnx-testdata/data/pytorch-converted");
	ck_assert_int_gt(n, 5);
	ck_assert_uint_eq(status_number("\"compiler\"", "died"), 0);
	ck_assert_uint_gt(status_number("\"compiler\"", "compiled"), 5);
}
END_TEST

/*
 * Sends LOAD of a model that hangs its worker. Returns the serial without waiting for the answer.
 */
static uint32_t send_hang(int sock)
{
	int fd = memfd_of(NULL, 4096, 0);
	union rivulet_packet p;

	ck_assert_int_eq(pwrite(fd, "!hang", 5, 0), 5);
	fcntl(fd, F_ADD_SEALS, MODEL_SEALS);
	raw_init(&p, RIVULET_MSG_LOAD);
	p.load.size = 4096;
	ck_assert_int_eq(raw_send(sock, &p, p.h.length, &fd, 1), p.h.length);
	close(fd);
	return p.h.serial;
}

static void await_working(uint64_t n)
{
	uint64_t deadline = rvl_now() + 60 * NSEC_PER_SEC;

	while (status_number("\"compiler\"", "working") != n)
		ck_assert_uint_lt(rvl_now(), deadline);
}

/*
 * Proves that a hanging worker delays no request, and delays the same user's next LOAD by at most
 * TimeMax=.
 */
START_TEST(hanging_worker)
{
	int sock = raw_open(), other = raw_open();
	union rivulet_packet p;
	uint32_t serial;

	send_hang(other);
	await_working(1);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(raw_ping(other), 0);
	ck_assert_uint_eq(status_number("\"compiler\"", "working"), 1);
	close(other);
	await_working(0);
	time_limit(1);
	other = raw_open();
	serial = send_hang(sock);
	raw_barrier(sock);
	/* The same user's next model waits for the end of the first. */
	time_limit(NO_TIMEOUT);
	ck_assert_int_eq(load(other, "!exit", &p), -EFAULT);
	ck_assert_int_eq(raw_answer(sock, serial, &p, NULL), -ETIMEDOUT);
}
END_TEST

/* Proves that the worker of a session that ends is killed. */
START_TEST(session_ends)
{
	int sock = raw_open();

	send_hang(sock);
	await_working(1);
	close(sock);
	/* This happens long before TimeMax= would end the worker. */
	await_working(0);
	ck_assert_uint_eq(status_number("\"users\"", "compiles"), 0);
}
END_TEST

/* Proves that models above CompilesPerUser= are refused while others wait. */
START_TEST(too_many)
{
	int sock = raw_open();
	union rivulet_packet p;

	for (int i = 0; i < 5; i++)
		send_hang(sock);
	/* None of the three workers ends during this test. */
	for (int i = 0; i < 2; i++) {
		ck_assert_int_gt(raw_recv(sock, &p, NULL), 0);
		ck_assert_uint_eq(p.h.type, RIVULET_MSG_ERROR);
		ck_assert_int_eq(p.h.error, -EDQUOT);
		ck_assert_ptr_nonnull(strstr(p.error.text, "CompilesPerUser=3"));
	}
	ck_assert_uint_eq(status_number("\"users\"", "compiles"), 3);
}
END_TEST

static void start(void)
{
	char text[256];

	snprintf(text, sizeof(text), HOSTILE_CONFIG, NO_TIMEOUT, NO_TIMEOUT);
	rig_start(text);
}

static void start_plain(void)
{
	rig_start("");
}

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t;

	rig_main(argc, argv, worker);
	s = suite_create("worker");
	t = tcase_create("hostile");
	tcase_set_timeout(t, 240);
	tcase_add_checked_fixture(t, start, rig_stop);
	tcase_add_loop_test(t, ending, 0, (int)ARRAY_SIZE(ends));
	tcase_add_test(t, memory);
	tcase_add_loop_test(t, system_call, 0, 10);
	tcase_add_test(t, hanging_worker);
	tcase_add_test(t, session_ends);
	tcase_add_test(t, too_many);
	suite_add_tcase(s, t);
	t = tcase_create("decent");
	tcase_set_timeout(t, 240);
	tcase_add_checked_fixture(t, start_plain, rig_stop);
	tcase_add_test(t, valid_models);
	suite_add_tcase(s, t);
	return run_suite(s);
}

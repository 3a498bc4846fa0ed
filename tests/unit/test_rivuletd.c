// SPDX-License-Identifier: MIT
/*
 * The program rivuletd without systemd: its options and their errors; and the work of a worker
 * without its sandbox.
 */
#include "daemon_rig.h"

#include "rivulet_compiler.h"
#include "rivulet_crc32c.h"
#include "suite.h"

/* ---- the program ---- */

/*
 * Runs build/rivuletd with the arguments of a shell. @out receives its output. Returns the exit
 * status.
 */
static int program(const char *args, char *out, size_t size)
{
	return run_program("rivuletd", args, out, size);
}

#define NAME_50 "12345678901234567890123456789012345678901234567890"

static const struct {
	const char *args;	/* %s: a scratch directory */
	int status;
	const char *says;
} lines[] = {
	{ "--help", 0, "usage: rivuletd" },
	{ "--version", 0, "rivuletd " RIVULET_VERSION },
	{ "--no-such-option", 1, "usage: rivuletd" },
	{ "more", 1, "unexpected argument \"more\"" },
	{ "", 1, "no socket: start rivuletd.socket, or give --socket PATH" },
	{ "--socket /dev/null", 1, "/dev/null is there and no socket" },
	{ "--socket /no/such/dir/s", 1, "/no/such/dir/s: No such file or directory" },
	{ "--socket %s/" NAME_50 NAME_50 NAME_50, 1, "longer than" },
	{ "--socket %s/s --device sim:none", 1, "no board \"none\"" },
	{ "--show-config", 0, "\nSessions=" },
	{ "--reload 1", 1, "cannot make process" },
	{ "--reload x", 1, "cannot make process" },
	{ "--reload 99999999999", 1, "cannot make process" },
	{ "--reload 2147483647x", 1, "cannot make process" },
};

/* Proves that the daemon and the tool refuse an instruction set with an unknown name. */
START_TEST(unknown_instruction_set)
{
	static const char *const programs[] = { "rivulet", "rivuletd" };
	char out[1024];

	setenv("RIVULET_ISA", "z80", 1);
	ck_assert_int_ne(run_program(programs[_i], _i ? "" : "info", out, sizeof(out)), 0);
	ck_assert_msg(strstr(out, "RIVULET_ISA: z80 is no instruction set of this build; this "
				  "processor has: scalar"), "said: %s", out);
	unsetenv("RIVULET_ISA");
	setenv("RIVULET_TABLES", "maybe", 1);
	ck_assert_int_ne(run_program(programs[_i], _i ? "" : "info", out, sizeof(out)), 0);
	ck_assert_msg(strstr(out, "RIVULET_TABLES: maybe is not \"off\""), "said: %s", out);
}
END_TEST

/* Proves that each wrong invocation prints its one line. */
START_TEST(command_line)
{
	static char out[8192];
	char args[300];

	rig_dir();
	snprintf(args, sizeof(args), lines[_i].args, rig.dir);
	ck_assert_int_eq(program(args, out, sizeof(out)), lines[_i].status);
	ck_assert_msg(strstr(out, lines[_i].says), "said: %s", out);
	remove_scratch(rig.dir);
}
END_TEST

/*
 * Proves --check-config: it prints nothing for a valid configuration, otherwise the first error by
 * file and line, and warnings.
 */
START_TEST(check_config)
{
	static char out[4096];
	char args[128];

	rig_dir();
	snprintf(args, sizeof(args), "--check-config --config-root %s", rig.dir);
	rig_config("[Limits]\nSessions=3\n");
	ck_assert_int_eq(program(args, out, sizeof(out)), 0);
	ck_assert_str_eq(out, "");
	rig_config("[Limits]\nSession=3\n");
	ck_assert_int_eq(program(args, out, sizeof(out)), 0);
	ck_assert_ptr_nonnull(strstr(out, "rivuletd.conf:2: unknown key \"Session\", ignored"));
	/* With a different spelling of the heading, every key below it would be ignored. */
	rig_config("[POWER]\nMode=performance\n");
	ck_assert_int_eq(program(args, out, sizeof(out)), 1);
	ck_assert_ptr_nonnull(strstr(out, "rivuletd.conf:1: unknown section \"POWER\""));
	ck_assert_ptr_nonnull(strstr(out, "unknown sections in the configuration: 1"));
	rig_config("[Limits]\nSessions=none\n");
	ck_assert_int_eq(program(args, out, sizeof(out)), 1);
	ck_assert_ptr_nonnull(strstr(out, "<3>rivuletd: "));
	ck_assert_ptr_nonnull(strstr(out, "rivuletd.conf:2: Sessions=none is no number"));
	remove_scratch(rig.dir);
}
END_TEST

/* The socket's name exists shortly before the daemon listens. */
static int await_daemon(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", rig.sock);
	for (int i = 0; connect(fd, (struct sockaddr *)&a, sizeof(a)); i++) {
		ck_assert(errno == ENOENT || errno == ECONNREFUSED);
		ck_assert_int_lt(i, WAIT_MS / 10);
		usleep(10000);
	}
	return fd;
}

/* Proves that the program serves without systemd, reloads by --reload, and removes its socket. */
START_TEST(stand_alone)
{
	static char out[8192];
	char args[400];
	union rivulet_packet p;
	int sock, fd;
	pid_t pid;

	rig_dir();
	rig_config("[Limits]\nModelsPerUser=9\n");
	pid = fork();
	if (!pid) {
		char self[320];

		program_path(self, sizeof(self), "rivuletd");
		fd = open("/dev/null", O_RDWR);
		dup2(fd, 2);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(self, self, "--socket", rig.sock, "--device", "sim:zu3eg-128",
		      "--config-root", rig.dir, "--verbose", NULL);
		_exit(9);
	}
	sock = await_daemon();
	raw_init(&p, RIVULET_MSG_HELLO);
	p.hello.max_version = 1;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
	ck_assert_str_eq(p.hello_reply.board, "zu3eg-128");
	ck_assert_uint_eq(p.hello_reply.max_models, 9);
	load_lenet(sock);
	rig_config("[Limits]\nModelsPerUser=8\n");
	snprintf(args, sizeof(args), "--config-root %s --reload %d", rig.dir, pid);
	ck_assert_int_eq(program(args, out, sizeof(out)), 0);
	for (int i = 0; hello_models() != 8; i++) {
		ck_assert_int_lt(i, WAIT_MS / 10);
		usleep(10000);
	}
	kill(pid, SIGTERM);
	ck_assert_int_eq(waitpid(pid, &fd, 0), pid);
	ck_assert(WIFEXITED(fd) && !WEXITSTATUS(fd));
	ck_assert_int_eq(access(rig.sock, F_OK), -1);
	remove_scratch(rig.dir);
}
END_TEST

/* ---- the worker without its sandbox ---- */

static void translate(const void *model, size_t size, uint32_t flags, uint64_t program_max, int fd,
		      struct rvl_worker_result *res)
{
	struct rvl_worker_job job = { .model_size = size, .flags = flags,
				      .program_max = program_max };
	char err[256];

	ck_assert_int_eq(rivulet_board_load(&job.board, "zu3eg-64", err, sizeof(err)), 0);
	rvl_worker_translate(&job, model, fd, res);
}

/*
 * Proves that a worker makes a program or one line of error, accepts programs for its board only,
 * and respects its limit.
 */
START_TEST(translation)
{
	struct rvl_worker_result res;
	size_t size;
	void *onnx = read_file("models/lenet.onnx", &size), *prog;
	int fd = memfd_of(NULL, 0, 0), full = open("/dev/full", O_WRONLY);
	struct rivulet_program *p;

	translate(onnx, size, 0, 1 << 20, fd, &res);
	ck_assert_msg(!res.error, "%s", res.text);
	prog = malloc(res.size);
	ck_assert_int_eq(pread(fd, prog, res.size, 0), res.size);
	size_t prog_size = res.size;

	translate(prog, prog_size, RIVULET_LOAD_PROGRAM, 1 << 20, fd, &res);
	ck_assert_msg(!res.error, "%s", res.text);
	translate(prog, prog_size - 8, RIVULET_LOAD_PROGRAM, 1 << 20, fd, &res);
	ck_assert_int_eq(res.error, -EINVAL);
	translate(onnx, size, 0, 1000, fd, &res);
	ck_assert_int_eq(res.error, -E2BIG);
	ck_assert_ptr_nonnull(strstr(res.text, "above ProgramSizeMax=1000"));
	translate(onnx, size, RIVULET_LOAD_REQUIRE_NPU, 1 << 20, fd, &res);
	ck_assert_int_eq(res.error, -EOPNOTSUPP);
	translate("x", 1, 0, 1 << 20, fd, &res);
	ck_assert_int_eq(res.error, -EBADMSG);
	translate(onnx, size, 0, 1 << 20, full, &res);
	ck_assert_int_eq(res.error, -ENOSPC);
	/* Another geometry gives a valid program, but not for this board. */
	p = prog;
	p->target.tm *= 2;
	p->crc = 0;
	p->crc = rivulet_crc32c(0, p, prog_size);
	translate(prog, prog_size, RIVULET_LOAD_PROGRAM, 1 << 20, fd, &res);
	ck_assert_int_eq(res.error, -ENOEXEC);
	close(full);
	close(fd);
	free(prog);
	free(onnx);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rivuletd");
	TCase *t = tcase_create("program");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, command_line, 0, (int)ARRAY_SIZE(lines));
	tcase_add_loop_test(t, unknown_instruction_set, 0, 2);
	tcase_add_test(t, check_config);
	tcase_add_test(t, stand_alone);
	tcase_add_test(t, translation);
	suite_add_tcase(s, t);
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
#include "worker.h"

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rivulet_compiler.h"
#include "rivulet_proto.h"
#include "rivulet_sha256.h"
#include "util.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1	/* terabytes of shadow memory, and a report at the end that opens files */
#else
#define SANITIZED 0
#endif

static int set_limit(int what, uint64_t soft, uint64_t hard)
{
	struct rlimit r = { .rlim_cur = soft, .rlim_max = hard };

	return setrlimit(what, &r) ? -errno : 0;
}

static int set_limits(const struct rvl_worker_job *job)
{
	int r = 0;

	if (!SANITIZED)
		r = set_limit(RLIMIT_AS, job->memory, job->memory);
	/*
	 * SIGXCPU at the soft limit shows the parent the reason. SIGKILL at the hard limit does
	 * not.
	 */
	r = r ?: set_limit(RLIMIT_CPU, job->seconds, job->seconds + 5);
	r = r ?: set_limit(RLIMIT_FSIZE, job->program_max, job->program_max);
	r = r ?: set_limit(RLIMIT_CORE, 0, 0);
	r = r ?: set_limit(RLIMIT_MEMLOCK, 0, 0);
	r = r ?: set_limit(RLIMIT_NOFILE, RVL_WORKER_CONTROL_FD + 1, RVL_WORKER_CONTROL_FD + 1);
	if (!r && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)))
		r = -errno;
	return r;
}

/*
 * What computing needs: memory, the three descriptors, time, and the end. glibc's qsort() asks
 * sysinfo() how much memory there is.
 */
static const int allowed[] = {
	SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
	SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(pwrite64), SCMP_SYS(sendto), SCMP_SYS(recvfrom),
	SCMP_SYS(close), SCMP_SYS(clock_gettime), SCMP_SYS(getrandom), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigprocmask), SCMP_SYS(gettid), SCMP_SYS(getpid), SCMP_SYS(exit),
	SCMP_SYS(exit_group), SCMP_SYS(sysinfo),
};

/* abort() raises SIGABRT by tgkill(); without it the parent would report a forbidden call. */
static int allow_abort(scmp_filter_ctx ctx)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				SCMP_A2(SCMP_CMP_EQ, SIGABRT));
}

/* Memory must not become executable. */
static int allow_data_only(scmp_filter_ctx ctx, int syscall)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, syscall, 1,
				SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

static int filter_system_calls(void)
{
	/*
	 * A sanitizer's report opens files and walks /proc: it may fail there, but must be heard.
	 */
	scmp_filter_ctx ctx = seccomp_init(SANITIZED ? SCMP_ACT_ERRNO(EPERM) :
						       SCMP_ACT_KILL_PROCESS);
	int r = ctx ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < ARRAY_SIZE(allowed); i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed[i], 0);
	r = r ?: allow_data_only(ctx, SCMP_SYS(mmap));
	r = r ?: allow_data_only(ctx, SCMP_SYS(mprotect));
	r = r ?: allow_abort(ctx);
	if (SANITIZED && !r)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(sigaltstack), 0);
	r = r ?: seccomp_load(ctx);
	seccomp_release(ctx);
	return r;
}

static int write_all(int fd, const void *data, size_t size)
{
	const char *p = data;

	for (size_t at = 0; at < size;) {
		ssize_t n = pwrite(fd, p + at, size - at, (off_t)at);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static void deliver(const struct rvl_worker_job *job, const void *data, size_t size, int fd,
		    struct rvl_worker_result *res)
{
	if (size > job->program_max) {
		res->error = -E2BIG;
		snprintf(res->text, sizeof(res->text),
			 "the program has %zu bytes, above ProgramSizeMax=%llu", size,
			 (unsigned long long)job->program_max);
		return;
	}
	res->size = size;
	res->error = write_all(fd, data, size);
	if (res->error)
		snprintf(res->text, sizeof(res->text), "writing %zu bytes of program: %s", size,
			 strerror(-res->error));
}

static void check_program(const struct rvl_worker_job *job, const void *program, int fd,
			  struct rvl_worker_result *res)
{
	struct rivulet_target target;

	res->error = rivulet_program_check(program, job->model_size, res->text, sizeof(res->text));
	if (res->error)
		return;
	rivulet_target_of(&job->board, &target);
	res->error = rivulet_program_fits(program, &target, res->text, sizeof(res->text));
	if (!res->error)
		deliver(job, program, job->model_size, fd, res);
}

static void compile(const struct rvl_worker_job *job, const void *model, int fd,
		    struct rvl_worker_result *res)
{
	struct rivulet_compile_options opt = {
		.batch = (int64_t)job->batch,
		.symbol = (int64_t)job->symbol,
		.require_npu = job->flags & RIVULET_LOAD_REQUIRE_NPU,
	};
	struct rivulet_blob program = { .data = NULL };
	struct rvl_err err = { .msg = "" };

	res->error = rivulet_compile(model, job->model_size, &job->board, &opt, &program, NULL,
				     &err);
	if (res->error)
		snprintf(res->text, sizeof(res->text), "%s", err.msg);
	else
		deliver(job, program.data, program.size, fd, res);
	rivulet_blob_free(&program);
}

void rvl_worker_translate(const struct rvl_worker_job *job, const void *model, int program_fd,
			  struct rvl_worker_result *res)
{
	memset(res, 0, sizeof(*res));
	if (job->flags & RIVULET_LOAD_PROGRAM)
		check_program(job, model, program_fd, res);
	else
		compile(job, model, program_fd, res);
}

int rvl_worker_sandbox(const struct rvl_worker_job *job)
{
	int r = set_limits(job);

	return r ?: filter_system_calls();
}

static bool hash_and_wait(const void *model, size_t size)
{
	struct rvl_worker_hash hash;
	uint32_t go = 0;

	rivulet_sha256(model, size, hash.sha256);
	return send(RVL_WORKER_CONTROL_FD, &hash, sizeof(hash), MSG_NOSIGNAL) == sizeof(hash) &&
	       recv(RVL_WORKER_CONTROL_FD, &go, sizeof(go), 0) == sizeof(go) && go == RVL_WORKER_GO;
}

static int fail(struct rvl_worker_result *res, int error, const char *what)
{
	res->error = error;
	snprintf(res->text, sizeof(res->text), "%s: %s", what, strerror(-error));
	send(RVL_WORKER_CONTROL_FD, res, sizeof(*res), MSG_NOSIGNAL);
	return EXIT_FAILURE;
}

int rvl_worker_main(void)
{
	struct rvl_worker_result res = { .error = 0 };
	struct rvl_worker_job job;
	void *model;
	int r;

	if (recv(RVL_WORKER_CONTROL_FD, &job, sizeof(job), 0) != sizeof(job))
		return EXIT_FAILURE;
	model = mmap(NULL, job.model_size, PROT_READ, MAP_SHARED, RVL_WORKER_MODEL_FD, 0);
	if (model == MAP_FAILED)
		return fail(&res, -errno, "mapping the model");
	r = rvl_worker_sandbox(&job);
	if (r)
		return fail(&res, r, "locking the compiler in");
	if (!hash_and_wait(model, job.model_size))
		_exit(EXIT_FAILURE);
	rvl_worker_translate(&job, model, RVL_WORKER_PROGRAM_FD, &res);
	send(RVL_WORKER_CONTROL_FD, &res, sizeof(res), MSG_NOSIGNAL);
	_exit(EXIT_SUCCESS);	/* atexit handlers could make calls that the filter forbids */
}

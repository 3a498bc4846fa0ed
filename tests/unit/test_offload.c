// SPDX-License-Identifier: MIT
/*
 * Which thread of the daemon does work whose amount a client decides: never the one of the event
 * loop. The functions that do the work are wrapped in the daemon's process; the wrappers count the
 * calls by thread in a file that the test maps too.
 */
#include "daemon_rig.h"
#include "../../runtime/internal.h"

#include "cache.h"
#include "rivulet_runtime.h"
#include "suite.h"
#include "worker.h"

/* W(name, type, params, args): a function that takes time in proportion to a client's data */
#define WORK(W)                                                                                    \
	W(rvl_program_read, int,                                                                   \
	  (const struct rvl_key *key, const char *name, int memfd, struct rvl_program **out,       \
	   struct rvl_text *err), (key, name, memfd, out, err))                                    \
	W(rivulet_image_load_within, int,                                                          \
	  (struct rivulet_runtime *rt, const void *data, size_t size, uint64_t limit,              \
	   struct rivulet_image **out, struct rivulet_runtime_error *err),                         \
	  (rt, data, size, limit, out, err))                                                       \
	W(rivulet_exec_new, int,                                                                   \
	  (struct rivulet_image *img, struct rivulet_exec **out,                                   \
	   struct rivulet_runtime_error *err), (img, out, err))                                    \
	W(rivulet_exec_bind_fd, int,                                                               \
	  (struct rivulet_exec *x, uint32_t tensor, int fd, uint64_t offset,                       \
	   struct rivulet_runtime_error *err), (x, tensor, fd, offset, err))                       \
	W(rvl_rt_cpu_run, void, (struct rvl_rt_task *t), (t))                                      \
	W(rvl_rt_mem_free, void, (struct rvl_rt_mem *m), (m))

enum work {
#define WORK_ENUM(name, type, params, args) WORK_##name,
	WORK(WORK_ENUM)
	WORKS
};

static const char *const work_name[] = {
#define WORK_NAME(name, type, params, args) #name,
	WORK(WORK_NAME)
};

struct calls {
	atomic_uint on_loop, elsewhere;
};

static struct calls *calls;	/* WORKS of them, shared by the test and the daemon */

/* The loop is on the first thread of the daemon's process. */
static void count(enum work what)
{
	if (!calls)
		return;
	if (getpid() == gettid())
		calls[what].on_loop++;
	else
		calls[what].elsewhere++;
}

#define WORK_WRAP(name, type, params, args)                                                        \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		count(WORK_##name);                                                                \
		return __real_##name args;                                                         \
	}
WORK(WORK_WRAP)

static void map_calls(const char *dir)
{
	char path[SCRATCH_MAX + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/calls", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, WORKS * sizeof(*calls)))
		return;
	calls = mmap(NULL, WORKS * sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
}

/*
 * Proves that a model is checked, an instance prepared, memory bound, a CPU step computed and all
 * of it released by other threads than the loop's.
 */
START_TEST(off_the_loop)
{
	union rivulet_packet p;
	struct ready r;
	size_t size;
	void *onnx = read_file("models/resnet.onnx", &size);

	map_calls(rig.dir);
	ck_assert(calls && calls != MAP_FAILED);
	r.sock = raw_open();
	ck_assert_msg(!raw_load(r.sock, onnx, size, 0, &p, NULL), "%s", p.error.text);
	ck_assert_uint_gt(p.load_reply.cpu_steps, 0);
	r.instance = open_instance(r.sock, p.load_reply.model);
	r.in = memfd_of(NULL, 4096, F_SEAL_SHRINK);
	r.out = memfd_of(NULL, 4096, F_SEAL_SHRINK);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, RIVULET_DIR_INPUT, r.in, 0, 4096), 0);
	ck_assert_int_eq(bind_fd(r.sock, r.instance, RIVULET_DIR_OUTPUT, r.out, 64, 1024), 0);
	init_run(&p, r.instance);
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), 0);
	raw_init(&p, RIVULET_MSG_CLOSE);
	p.instance.instance = r.instance;
	ck_assert_int_eq(raw_call(r.sock, &p, -1, NULL), 0);
	for (int i = 0; i < WORKS; i++) {
		ck_assert_msg(!calls[i].on_loop, "the loop called %s %u times", work_name[i],
			      calls[i].on_loop);
		ck_assert_msg(calls[i].elsewhere, "%s was not called", work_name[i]);
	}
	close(r.sock);
	close(r.in);
	close(r.out);
	free(onnx);
}
END_TEST

static void setup(void)
{
	rig_start("");
}

int main(int argc, char **argv)
{
	Suite *s;

	if (argc == 5 && !strcmp(argv[1], "--daemon"))
		map_calls(argv[3]);
	rig_main(argc, argv, rvl_worker_main);
	s = suite_create("offload");
	tcase_add_test(add_case(s, "threads", 240, setup, rig_stop), off_the_loop);
	return run_suite(s);
}

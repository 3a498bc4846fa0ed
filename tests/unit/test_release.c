/* SPDX-License-Identifier: MIT */
/*
 * What the runtime releases. After the last reference is dropped, a process has the same threads,
 * file descriptors and mappings as before the first call, whatever was bound and whether it ran.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"
#include "rivulet_compiler.h"
#include "rivulet_runtime.h"
#include "suite.h"

#define IN_BYTES 3136
#define OUT_BYTES 40

static struct rivulet_board board;
static struct rivulet_blob program;
static struct rivulet_runtime_error err;

static void setup(void)
{
	struct rvl_err e = { "" };
	char why[256];
	size_t size;
	void *onnx = read_file("models/lenet.onnx", &size);

	ck_assert_msg(!rivulet_board_load(&board, "zu3eg-64", why, sizeof(why)), "%s", why);
	ck_assert_msg(!rivulet_compile(onnx, size, &board, NULL, &program, NULL, &e), "%s", e.msg);
	free(onnx);
}

static void teardown(void)
{
	rivulet_blob_free(&program);
}

struct held {
	int threads, fds, mappings;
};

static int entries(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/*
 * Counts mappings of the test's memfds only. Those of the allocator and of libraries are not the
 * runtime's.
 */
static int mapped_memfds(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:tensor") != NULL;
	fclose(f);
	return n;
}

/*
 * pthread_join() returns before the kernel removes the thread from /proc, so they are counted until
 * the calling thread is alone. One that stays is counted after a second.
 */
static int threads(void)
{
	int n = entries("/proc/self/task") - 2; /* without "." and ".." */

	for (int i = 0; n > 1 && i < 1000; i++) {
		usleep(1000);
		n = entries("/proc/self/task") - 2;
	}
	return n;
}

static struct held count(void)
{
	return (struct held){ threads(), entries("/proc/self/fd"), mapped_memfds() };
}

static void same(const struct held *a, const struct held *b)
{
	ck_assert_int_eq(a->threads, 1);
	ck_assert_int_eq(b->threads, 1);
	ck_assert_int_eq(a->fds, b->fds);
	ck_assert_int_eq(a->mappings, b->mappings);
}

static int tensor_memfd(off_t size)
{
	int fd = memfd_create("tensor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, size), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

/*
 * Binds input and output by descriptor @times times, so that later bindings replace earlier ones.
 */
static void bind_fds(struct rivulet_exec *x, int times)
{
	for (int i = 0; i < times; i++) {
		int in = tensor_memfd(IN_BYTES), out = tensor_memfd(OUT_BYTES);

		ck_assert_msg(!rivulet_exec_bind_fd(x, 0, in, 0, &err), "%s", err.text);
		ck_assert_msg(!rivulet_exec_bind_fd(x, 1, out, 0, &err), "%s", err.text);
		close(in);
		close(out);
	}
}

/* Creates everything that a run needs, runs if @runs, and releases it. */
static void run_and_release(uint32_t threads, int times, bool runs)
{
	struct rivulet_workers *pool;
	struct rivulet_runtime *rt;
	struct rivulet_image *img;
	struct rivulet_exec *x;

	ck_assert_int_eq(rivulet_workers_new(threads, &pool), 0);
	ck_assert_msg(!rivulet_runtime_new_sim(&board, pool, &rt, &err), "%s", err.text);
	ck_assert_msg(!rivulet_image_load(rt, program.data, program.size, &img, &err), "%s",
		      err.text);
	ck_assert_msg(!rivulet_exec_new(img, &x, &err), "%s", err.text);
	bind_fds(x, times);
	ck_assert_int_eq(mapped_memfds(), times ? 2 : 0);
	if (runs) {
		ck_assert_msg(!rivulet_exec_start(x, NULL, &err), "%s", err.text);
		ck_assert_int_eq(rivulet_exec_wait(x, 60000), 0);
	}
	ck_assert_ptr_null(rivulet_exec_unref(x));
	ck_assert_ptr_null(rivulet_image_unref(img));
	ck_assert_ptr_null(rivulet_runtime_unref(rt));
	ck_assert_ptr_null(rivulet_workers_unref(pool));
}

START_TEST(all_is_given_back)
{
	struct held before, after;

	/* Libraries keep what they allocate at first use, so this call precedes the count. */
	run_and_release(1, 1, true);
	before = count();
	for (uint32_t threads = 1; threads < 4; threads++) {
		run_and_release(threads, 0, false);
		run_and_release(threads, 2, false);
		run_and_release(threads, 3, true);
		after = count();
		same(&before, &after);
	}
}
END_TEST

/* References keep the objects they refer to, so owners may release theirs in any order. */
START_TEST(a_reference_is_enough)
{
	struct held before = count(), after;
	struct rivulet_workers *pool, *more;
	struct rivulet_runtime *rt;
	struct rivulet_image *img;
	struct rivulet_exec *x, *again;

	ck_assert_int_eq(rivulet_workers_new(2, &pool), 0);
	more = rivulet_workers_ref(pool);
	ck_assert_ptr_eq(more, pool);
	ck_assert_msg(!rivulet_runtime_new_sim(&board, pool, &rt, &err), "%s", err.text);
	rivulet_workers_unref(pool);
	rivulet_workers_unref(more);
	ck_assert_msg(!rivulet_image_load(rt, program.data, program.size, &img, &err), "%s",
		      err.text);
	rivulet_runtime_unref(rt);
	ck_assert_msg(!rivulet_exec_new(img, &x, &err), "%s", err.text);
	rivulet_image_unref(img);
	again = rivulet_exec_ref(x);
	ck_assert_ptr_eq(again, x);
	ck_assert_ptr_null(rivulet_exec_ref(NULL));
	rivulet_exec_unref(x);
	bind_fds(again, 1);
	ck_assert_msg(!rivulet_exec_start(again, NULL, &err), "%s", err.text);
	ck_assert_int_eq(rivulet_exec_wait(again, 60000), 0);
	rivulet_exec_unref(again);
	after = count();
	same(&before, &after);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("release");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, all_is_given_back);
	tcase_add_test(t, a_reference_is_enough);
	suite_add_tcase(s, t);
	return run_suite(s);
}

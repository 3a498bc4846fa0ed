// SPDX-License-Identifier: MIT
/*
 * Memory that another process may change during a run: a kernel that uses data as an address works
 * on a copy of it. Otherwise an index could be changed after it was checked.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../runtime/internal.h"
#include "onnx_text.h"
#include "rivulet_board.h"
#include "rivulet_compiler.h"
#include "rivulet_crc32c.h"
#include "suite.h"

#define N 8192	/* elements: a worker computes the step */

static struct rivulet_workers *workers;
static struct rivulet_runtime *rt;
static struct rivulet_runtime_error err;

static void setup(void)
{
	struct rivulet_board b;
	char text[256];

	ck_assert_msg(!rivulet_board_load(&b, "zu3eg-64", text, sizeof(text)), "%s", text);
	ck_assert(!rivulet_workers_new(1, &workers));
	ck_assert_msg(!rivulet_runtime_new_sim(&b, workers, &rt, &err), "%s", err.text);
}

static void teardown(void)
{
	ck_assert_ptr_null(rivulet_runtime_unref(rt));
	ck_assert_ptr_null(rivulet_workers_unref(workers));
}

static struct rivulet_blob compiled(const char *text)
{
	struct rivulet_compile_options o = { .cpu_only = true };
	struct rivulet_blob blob = { .data = NULL };
	struct pb model = ot_model(text, 13);
	struct rvl_err e = { "" };

	ck_assert_msg(!rivulet_compile(model.p, model.n, rivulet_runtime_board(rt), &o, &blob, NULL, &e),
		      "%s", e.msg);
	free(model.p);
	return blob;
}

static struct rivulet_exec *exec_of(const char *text)
{
	struct rivulet_blob blob = compiled(text);
	struct rivulet_image *img;
	struct rivulet_exec *x;

	ck_assert_msg(!rivulet_image_load(rt, blob.data, blob.size, &img, &err), "%s", err.text);
	ck_assert_msg(!rivulet_exec_new(img, &x, &err), "%s", err.text);
	rivulet_image_unref(img);
	rivulet_blob_free(&blob);
	return x;
}

/* Binds a tensor to a memfd. Returns the mapping that the other process would have. */
static void *share(struct rivulet_exec *x, uint32_t tensor, size_t size)
{
	int fd = memfd_create("shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	ck_assert(fd >= 0 && !ftruncate(fd, (off_t)size));
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_msg(!rivulet_exec_bind_fd(x, tensor, fd, 0, &err), "%s", err.text);
	close(fd);
	return p;
}

static sem_t busy, go;

static void block(struct rvl_rt_task *t)
{
	(void)t;
	sem_post(&busy);
	while (sem_wait(&go) && errno == EINTR)
		;
}

/* Starts a run whose step waits for the only worker; it is computed after release(). */
static void start_held(struct rivulet_exec *x)
{
	static struct rvl_rt_task t;

	sem_init(&busy, 0, 0);
	sem_init(&go, 0, 0);
	t = (struct rvl_rt_task) { .work = block };
	rvl_rt_workers_push(workers, &t);
	while (sem_wait(&busy) && errno == EINTR)
		;
	ck_assert_msg(!rivulet_exec_start(x, NULL, &err), "%s", err.text);
}

static int release(struct rivulet_exec *x)
{
	sem_post(&go);
	return rivulet_exec_wait(x, -1);
}

/*
 * Proves that an index that is changed after the start of the run has no effect, and that the next
 * run sees it.
 */
START_TEST(indices)
{
	struct rivulet_exec *x = exec_of("in x f32 8192; in i s64 8192; Gather x i -> y axis=0; out y f32 8192");
	float *in = share(x, 0, N * sizeof(float)), *out = share(x, 2, N * sizeof(float));
	int64_t *index = share(x, 1, N * sizeof(int64_t));

	for (int i = 0; i < N; i++) {
		in[i] = (float)i;
		index[i] = N - 1 - i;
	}
	start_held(x);
	index[5] = INT64_MAX / 8;
	ck_assert_msg(!release(x), "%s", rivulet_exec_result(x)->text);
	for (int i = 0; i < N; i++)
		ck_assert_msg(out[i] == (float)(N - 1 - i), "place %d", i);
	ck_assert_int_eq(rivulet_exec_start(x, NULL, &err), 0);
	ck_assert_int_eq(rivulet_exec_wait(x, -1), -EINVAL);
	ck_assert_ptr_null(rivulet_exec_unref(x));
	munmap(in, N * sizeof(float));
	munmap(out, N * sizeof(float));
	munmap(index, N * sizeof(int64_t));
}
END_TEST

/* Proves that a step that uses the output of another one as indices reads them from a copy. */
START_TEST(outputs_as_indices)
{
	struct rivulet_exec *x = exec_of("in x f32 64,128; const k s64 1 64; TopK x k -> v i axis=1;"
					 "GatherElements x i -> y axis=1;"
					 "out i s64 64,64; out y f32 64,64");
	const struct rivulet_program *p = rivulet_image_program(rivulet_exec_image(x));
	float *in = share(x, 0, 64 * 128 * sizeof(float)), *y = share(x, 2, 64 * 64 * sizeof(float));
	int64_t *i = share(x, 1, 64 * 64 * sizeof(int64_t));

	ck_assert_uint_eq(p->outputs, 2);
	ck_assert_ptr_ne(x->bind[1].mem.host, x->bind[1].user);
	ck_assert_ptr_nonnull(x->bind[1].user);
	for (int k = 0; k < 64 * 128; k++)
		in[k] = (float)(k * 37 % 128);
	ck_assert_int_eq(rivulet_exec_start(x, NULL, &err), 0);
	ck_assert_msg(!rivulet_exec_wait(x, -1), "%s", rivulet_exec_result(x)->text);
	for (int k = 0; k < 64 * 64; k++)
		ck_assert_msg(y[k] == in[k / 64 * 128 + i[k]], "place %d", k);
	ck_assert_ptr_null(rivulet_exec_unref(x));
	munmap(in, 64 * 128 * sizeof(float));
	munmap(y, 64 * 64 * sizeof(float));
	munmap(i, 64 * 64 * sizeof(int64_t));
}
END_TEST

#define QUANTISED "const s f32 - 0.5; const z u8 - 3;"

/* Models of which each has steps of one operator only, and the name of that operator. */
static const struct {
	const char *text, *op;
} plain[] = {
	{ "in x f32 8192; Add x x -> y; out y f32 8192", "Add" },
	{ "in x u8 1,2,64,64; MaxPool x -> y kernel_shape=[2,2]; out y u8 1,2,63,63", "MaxPool" },
	{ "in x f32 1,2,64,64; AveragePool x -> y kernel_shape=[2,2]; out y f32 1,2,63,63", "AveragePool" },
	{ "in x f32 1,2,64,64; GlobalMaxPool x -> y; out y f32 1,2,1,1", "GlobalMaxPool" },
	{ "in x f32 1,2,64,64; GlobalAveragePool x -> y; out y f32 1,2,1,1", "GlobalAveragePool" },
	{ "in x u8 64,64; const n s64 1 4096; Reshape x n -> y; out y u8 4096", "Reshape" },
	{ "in x u8 64,64; Identity x -> y; out y u8 64,64", "Identity" },
	{ "in x u8 64,64; in w u8 64,64;" QUANTISED "QLinearMatMul x s z w s z s z -> y; out y u8 64,64",
	  "QMatMul" },
	{ "in x u8 64,64; in w u8 64,64;" QUANTISED
	  "QLinearAdd@com.microsoft x s z w s z s z -> y; out y u8 64,64", "QAdd" },
	{ "in x u8 64,64; in w u8 64,64;" QUANTISED
	  "QLinearMul@com.microsoft x s z w s z s z -> y; out y u8 64,64", "QMul" },
};

/* Proves that steps with places of their shapes alone work in the shared memory itself. */
START_TEST(plain_steps_copy_nothing)
{
	struct rivulet_exec *x = exec_of(plain[_i].text);
	const struct rivulet_image *img = rivulet_exec_image(x);
	const struct rivulet_program *p = rivulet_image_program(img);
	const struct rivulet_step *s = rivulet_program_steps(p);

	ck_assert_uint_eq(p->steps, 1);
	ck_assert_str_eq(rvl_desc_op_name((const char *)img->mem.host + p->params_off + s->params,
					  s->params_size), plain[_i].op);
	for (uint32_t i = 0; i < p->inputs + p->outputs; i++) {
		uint64_t size = rivulet_program_tensors(p)[i].size;
		void *bytes = share(x, i, size);

		ck_assert_msg(!x->bind[i].user, "tensor %u is copied", i);
		munmap(bytes, size);
	}
	ck_assert_uint_lt(rivulet_image_exec_bytes(img), 4096);
	ck_assert_int_eq(rivulet_exec_start(x, NULL, &err), 0);
	ck_assert_msg(!rivulet_exec_wait(x, -1), "%s", rivulet_exec_result(x)->text);
	ck_assert_ptr_null(rivulet_exec_unref(x));
}
END_TEST

/* A CPU step of a program file, its tensors, and the file. */
struct file_step {
	struct rivulet_blob blob;
	struct rivulet_tensor *t;
	struct rivulet_step *s;
};

static struct file_step file_step(const char *text, const char *op)
{
	struct file_step f = { .blob = compiled(text) };
	const struct rivulet_program *p = f.blob.data;

	f.t = (struct rivulet_tensor *)rivulet_program_tensors(p);
	for (uint32_t i = 0; i < p->steps; i++) {
		f.s = (struct rivulet_step *)&rivulet_program_steps(p)[i];
		if (!strcmp(rvl_desc_op_name((const char *)p + p->params_off + f.s->params,
					     f.s->params_size), op))
			return f;
	}
	ck_abort_msg("no step of %s", op);
	return f;
}

static int load(struct file_step *f)
{
	struct rivulet_program *p = f->blob.data;
	struct rivulet_image *img = NULL;
	int rc;

	p->crc = 0;
	p->crc = rivulet_crc32c(0, p, f->blob.size);
	rc = rivulet_image_load(rt, p, f->blob.size, &img, &err);
	rivulet_image_unref(img);
	return rc;
}

/*
 * Proves that a step is refused whose result overlaps its indices, which would change them after
 * they were checked, or whose results overlap.
 */
START_TEST(results_over_indices)
{
	struct file_step f = file_step("in x f32 64; in i s64 64; const one s64 1 1; Add i one -> j;"
				       "Gather x j -> v axis=0; Neg v -> y; out y f32 64", "Gather");

	ck_assert_msg(!load(&f), "%s", err.text);
	f.t[f.s->write[0]].offset = f.t[f.s->read[1]].offset + 64;
	ck_assert_int_eq(load(&f), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "writes bytes that it reads"));
	rivulet_blob_free(&f.blob);
	f = file_step("in x f32 64,128; const k s64 1 64; TopK x k -> v i axis=1; Neg v -> a; Neg i -> b;"
		      "out a f32 64,64; out b s64 64,64", "TopK");
	ck_assert_msg(!load(&f), "%s", err.text);
	f.t[f.s->write[0]].offset = f.t[f.s->write[1]].offset;
	ck_assert_int_eq(load(&f), -EINVAL);
	rivulet_blob_free(&f.blob);
}
END_TEST

/* Proves that a step may read some channels of a buffer and write others, but not one of them. */
START_TEST(parts_of_one_buffer)
{
	struct file_step f = file_step("in x f32 4,64; const h s64 2 32 32; Split x h -> a b axis=1;"
				       "Neg a -> c; Concat c b -> d axis=1; Exp d -> y;"
				       "out y f32 4,64", "Neg");
	struct rivulet_tensor *from = &f.t[f.s->read[0]], *to = &f.t[f.s->write[0]];

	from->place = to->place = RIVULET_PLACE_ARENA;
	from->offset = to->offset = from->at = to->at = 0;
	for (int i = 0; i < 2; i++) {
		struct rivulet_tensor *t = i ? to : from;

		t->flags |= RIVULET_TENSOR_PITCHED;
		t->pitch[0] = 64 * sizeof(float);
		t->pitch[1] = sizeof(float);
		t->size = (3 * 64 + 32) * sizeof(float);
		t->offset = i * 32 * sizeof(float);
	}
	((struct rivulet_program *)f.blob.data)->arena_size = 1 << 16;
	ck_assert_msg(!load(&f), "%s", err.text);
	to->offset -= sizeof(float);
	ck_assert_int_eq(load(&f), -EINVAL);
	rivulet_blob_free(&f.blob);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("untrusted");
	TCase *t = add_case(s, "shared memory", 60, setup, teardown);

	tcase_add_test(t, indices);
	tcase_add_test(t, outputs_as_indices);
	tcase_add_test(t, results_over_indices);
	tcase_add_test(t, parts_of_one_buffer);
	tcase_add_loop_test(t, plain_steps_copy_nothing, 0, (int)(sizeof(plain) / sizeof(plain[0])));
	return run_suite(s);
}

// SPDX-License-Identifier: MIT
/*
 * Outputs whose shape each run finds: on the socket, by the client library with a detector, and by
 * `rivulet run`, against a daemon.
 */
#include <check.h>

#include "daemon_rig.h"
#include "middle.h"
#include "onnx_text.h"
#include "program.h"
#include "rivulet.h"
#include "suite.h"

#define CELLS	16
#define CLASSES	2
#define MOST	8	/* boxes of one class */

/*
 * A detector: a convolution gives each of 16 cells of a picture a score in each of two classes, which
 * are the first two channels. NonMaxSuppression selects at most 8 cells of each class whose score is
 * above 0.7. The boxes are constants that do not overlap.
 */
static const char detector[] =
	"in x f32 1,3,8,8;"
	"const w f32 2,3,1,1 1 0 0 0 1 0;"
	"const shape s64 3 1 2 16;"
	"const boxes f32 1,16,4 0 0 1 1 0 1 1 2 0 2 1 3 0 3 1 4 1 0 2 1 1 1 2 2 1 2 2 3 1 3 2 4"
	" 2 0 3 1 2 1 3 2 2 2 3 3 2 3 3 4 3 0 4 1 3 1 4 2 3 2 4 3 3 3 4 4;"
	"const most s64 - 8; const overlap f32 - 0.5; const least f32 - 0.7;"
	"const two s64 - 2; const flat s64 2 16 4;"
	"Conv x w -> grid strides=[2,2] kernel_shape=[1,1];"
	"Reshape grid shape -> scores;"
	"NonMaxSuppression boxes scores most overlap least -> found;"
	"Gather found two -> cell axis=1;"
	"Reshape boxes flat -> table;"
	"Gather table cell -> where axis=0;"
	"out found; out where";

static void send_run(int sock, uint32_t instance, uint32_t *serial)
{
	union rivulet_packet p;

	init_run(&p, instance);
	*serial = p.h.serial;
	ck_assert_int_eq(raw_send(sock, &p, p.h.length, NULL, 0), p.h.length);
}

static int tensor(int sock, uint32_t model, uint32_t instance, uint32_t index, union rivulet_packet *p)
{
	raw_init(p, RIVULET_MSG_TENSOR);
	p->tensor.model = model;
	p->tensor.dir = RIVULET_DIR_OUTPUT;
	p->tensor.index = index;
	p->tensor.instance = instance;
	return raw_call(sock, p, -1, NULL);
}

static uint32_t load_text(int sock, const char *text)
{
	struct pb model = ot_model(text, 13);
	union rivulet_packet p;

	ck_assert_msg(!raw_load(sock, model.p, model.n, 0, &p, NULL), "%s", p.error.text);
	free(model.p);
	return p.load_reply.model;
}

static int open_with(int sock, uint32_t model, uint32_t flags, uint32_t *instance, char *why)
{
	union rivulet_packet p;
	int r;

	raw_init(&p, RIVULET_MSG_OPEN);
	p.open.model = model;
	p.open.flags = flags;
	r = raw_call(sock, &p, -1, NULL);
	if (r)
		strcpy(why, p.error.text);
	*instance = p.instance.instance;
	return r;
}

/* Proves what TENSOR and OPEN answer about an output whose shape each run finds. */
START_TEST(on_the_socket)
{
	static const float data[3][6] = { { 0, 1, 0, 0, 2, 3 }, { 0 }, { 1, 1, 1, 1, 1, 1 } };
	uint32_t serial, model, other, x, y, found[] = { 3, 0, 6 };
	int sock = raw_open(), in, out;
	union rivulet_packet p;
	int64_t at[12];
	char why[512];

	model = load_text(sock, "in x f32 2,3; NonZero x -> y; out y");
	ck_assert_int_eq(tensor(sock, model, 0, 0, &p), 0);
	ck_assert_uint_eq(p.tensor_reply.flags, RIVULET_TENSOR_BOUNDED);
	ck_assert(p.tensor_reply.ndim == 2 && p.tensor_reply.dim[0] == 2 && p.tensor_reply.dim[1] == 6);
	/* Refused twice: before the program is loaded to the device, and after that. */
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(open_with(sock, model, 0, &x, why), -EOPNOTSUPP);
		ck_assert_msg(strstr(why, "output y: its shape is known at run time only"), "%s", why);
		ck_assert_int_eq(open_with(sock, model, RIVULET_OPEN_SHAPES, &y, why), 0);
	}
	ck_assert_int_eq(open_with(sock, model, 2, &x, why), -EINVAL);
	ck_assert_int_eq(open_with(sock, model, RIVULET_OPEN_SHAPES, &x, why), 0);
	in = memfd_of(NULL, sizeof(data[0]), F_SEAL_SHRINK);
	out = memfd_of(NULL, sizeof(at), F_SEAL_SHRINK);
	ck_assert_int_eq(bind_fd(sock, x, RIVULET_DIR_INPUT, in, 0, sizeof(data[0])), 0);
	ck_assert_int_eq(bind_fd(sock, x, RIVULET_DIR_OUTPUT, out, 0, sizeof(at)), 0);
	ck_assert_int_eq(tensor(sock, model, x, 0, &p), -ENODATA);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(pwrite(in, data[i], sizeof(data[i]), 0), sizeof(data[i]));
		send_run(sock, x, &serial);
		ck_assert_int_eq(raw_answer(sock, serial, &p, NULL), 0);
		ck_assert_int_eq(tensor(sock, model, x, 0, &p), 0);
		ck_assert(p.tensor_reply.ndim == 2 && p.tensor_reply.dim[0] == 2);
		ck_assert_uint_eq(p.tensor_reply.dim[1], found[i]);
		ck_assert_uint_eq(p.tensor_reply.size, 2 * found[i] * sizeof(int64_t));
	}
	ck_assert_int_eq(pread(out, at, sizeof(at), 0), sizeof(at));
	ck_assert(at[0] == 0 && at[5] == 1 && at[6] == 0 && at[11] == 2);
	ck_assert_int_eq(tensor(sock, model, x + 100, 0, &p), -ENOENT);
	ck_assert_int_eq(tensor(sock, model, y, 0, &p), -ENODATA);
	other = load_lenet(sock);
	ck_assert_int_eq(tensor(sock, other, x, 0, &p), -EINVAL);
	close(in);
	close(out);
	close(sock);
}
END_TEST

/* Proves that a run in progress has no shape, and neither has a cancelled run. */
START_TEST(not_of_a_cancelled_run)
{
	uint32_t serial, model, x;
	int sock = raw_open(), fd;
	union rivulet_packet p;
	char why[512];

	model = load_text(sock, "in x f32 1000; Einsum x x x x -> e equation='a,b,c,d->'; NonZero x -> y;"
				"Cast y -> z to=1; ReduceSum z -> r; Add r e -> s; out y; out s f32 1,1");
	ck_assert_int_eq(open_with(sock, model, RIVULET_OPEN_SHAPES, &x, why), 0);
	fd = memfd_of(NULL, 8192, F_SEAL_SHRINK);
	ck_assert_int_eq(bind_fd(sock, x, RIVULET_DIR_INPUT, fd, 0, 4000), 0);
	ck_assert_int_eq(bind_fd(sock, x, RIVULET_DIR_OUTPUT, fd, 0, 8000), 0);
	raw_init(&p, RIVULET_MSG_BIND);
	p.bind.instance = x;
	p.bind.dir = RIVULET_DIR_OUTPUT;
	p.bind.index = 1;
	p.bind.size = 4;
	ck_assert_int_eq(raw_call(sock, &p, fd, NULL), 0);
	send_run(sock, x, &serial);
	ck_assert_int_eq(tensor(sock, model, x, 0, &p), -EBUSY);
	raw_init(&p, RIVULET_MSG_CANCEL);
	p.cancel.run = serial;
	ck_assert_int_eq(raw_call(sock, &p, -1, NULL), 0);
	ck_assert_int_eq(raw_answer(sock, serial, &p, NULL), -ECANCELED);
	ck_assert_int_eq(tensor(sock, model, x, 0, &p), -ENODATA);
	close(fd);
	close(sock);
}
END_TEST

/* ---- a detector ---- */

struct detection {
	struct rivulet_client *c;
	struct rivulet_request *q;
	float x[3 * 64];
	int64_t found[CLASSES * MOST][3];
	float where[CLASSES * MOST][4];
};

static void detector_open(struct detection *d)
{
	struct pb model = ot_model(detector, 13);
	struct rivulet_tensor_info t = { .size = sizeof(t) };
	struct rivulet_model *m;

	ck_assert_int_eq(rivulet_open(rig.sock, &d->c), 0);
	ck_assert_msg(!rivulet_model_load_memory(d->c, model.p, model.n, NULL, &m), "%s",
		      rivulet_last_error());
	free(model.p);
	ck_assert_int_eq(rivulet_model_tensor(m, 0, &t), 0);
	ck_assert(!t.bounded);
	ck_assert_int_eq(rivulet_model_tensor(m, 1, &t), 0);
	ck_assert(t.bounded && t.bytes == sizeof(d->found));
	ck_assert_int_eq(rivulet_model_tensor(m, 2, &t), 0);
	ck_assert(t.bounded && t.bytes == sizeof(d->where));
	ck_assert_int_eq(rivulet_request_new(m, &d->q), 0);
	ck_assert_int_eq(rivulet_bind_memory(d->q, 0, d->x, sizeof(d->x)), 0);
	ck_assert_int_eq(rivulet_bind_memory(d->q, 1, d->found, sizeof(d->found)), 0);
	ck_assert_int_eq(rivulet_bind_memory(d->q, 2, d->where, sizeof(d->where)), 0);
	ck_assert_int_eq(rivulet_request_tensor(d->q, 1, &t), -ENODATA);
	ck_assert_int_eq(rivulet_request_tensor(d->q, 0, &t), 0);
	ck_assert_uint_eq(t.bytes, sizeof(d->x));
	ck_assert_int_eq(rivulet_request_tensor(d->q, 3, &t), -ERANGE);
	rivulet_model_unref(m);
}

static void set_cell(struct detection *d, int class, int cell, float score)
{
	d->x[class * 64 + cell / 4 * 16 + cell % 4 * 2] = score;
}

/* Runs by @loop: a poll loop that never blocks in the library. */
static void detect(struct detection *d, bool loop)
{
	struct pollfd p = { .fd = rivulet_client_fd(d->c), .events = POLLIN };

	memset(d->found, 0xee, sizeof(d->found));
	memset(d->where, 0xee, sizeof(d->where));
	if (!loop) {
		ck_assert_msg(!rivulet_request_run(d->q, NULL), "%s", rivulet_last_error());
		return;
	}
	ck_assert_int_eq(rivulet_request_start(d->q, NULL), 0);
	while (rivulet_request_result(d->q) == -EINPROGRESS) {
		ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
		rivulet_client_dispatch(d->c);
	}
	ck_assert_msg(!rivulet_request_result(d->q), "%s", rivulet_request_error(d->q));
}

static void check_found(struct detection *d, uint64_t count)
{
	struct rivulet_tensor_info t = { .size = sizeof(t) };
	unsigned char *bytes = (unsigned char *)d->found;

	ck_assert_int_eq(rivulet_request_tensor(d->q, 1, &t), 0);
	ck_assert(t.ndim == 2 && t.dim[0] == count && t.dim[1] == 3);
	ck_assert_uint_eq(t.bytes, count * sizeof(d->found[0]));
	/* Memory behind the result is not touched. */
	for (size_t i = t.bytes; i < sizeof(d->found); i++)
		ck_assert_uint_eq(bytes[i], 0xee);
	ck_assert_int_eq(rivulet_request_tensor(d->q, 2, &t), 0);
	ck_assert(t.ndim == 2 && t.dim[0] == count && t.dim[1] == 4);
	ck_assert_uint_eq(t.bytes, count * sizeof(d->where[0]));
}

/*
 * Proves that the library gives the shape that each run of a detector found, blocking and in an event
 * loop, also after the connection was lost between two runs, and that a failed run has none.
 */
START_TEST(by_the_library)
{
	struct rivulet_run_options hard = { .size = sizeof(hard), .deadline = 1, .hard = true };
	struct rivulet_tensor_info t = { .size = sizeof(t) };
	struct detection *d = calloc(1, sizeof(*d));

	detector_open(d);
	detect(d, _i);
	check_found(d, 0);
	set_cell(d, 0, 3, 0.75f);
	set_cell(d, 0, 9, 0.875f);
	set_cell(d, 1, 14, 1);
	set_cell(d, 1, 2, 0.25f);	/* below the least score */
	detect(d, _i);
	check_found(d, 3);
	ck_assert(d->found[0][1] == 0 && d->found[0][2] == 9);
	ck_assert(d->found[1][1] == 0 && d->found[1][2] == 3);
	ck_assert(d->found[2][1] == 1 && d->found[2][2] == 14);
	ck_assert_float_eq(d->where[0][0], 2);
	ck_assert_float_eq(d->where[1][3], 4);
	ck_assert_float_eq(d->where[2][1], 2);
	for (int i = 0; i < CELLS; i++)
		set_cell(d, 1, i, 1);
	detect(d, _i);
	check_found(d, 2 + MOST);
	ck_assert_int_eq(rivulet_request_run(d->q, &hard), -ETIME);
	ck_assert_int_eq(rivulet_request_tensor(d->q, 1, &t), -ENODATA);
	detect(d, _i);
	check_found(d, 2 + MOST);
	rivulet_request_unref(d->q);
	rivulet_client_unref(d->c);
	free(d);
}
END_TEST

/*
 * Proves that a client that requires the NPU is refused a model with an operator in the middle that the
 * NPU lacks, with the node's name and reason, and that other clients get a CPU step for it.
 */
START_TEST(npu_required)
{
	struct rivulet_load_options must = { .size = sizeof(must), .require_npu = true };
	struct rivulet_model_info info = { .size = sizeof(info) };
	struct pb onnx = ot_model(MIDDLE("CumSum ad one -> b;"), 13);
	struct rivulet_client *c;
	struct rivulet_model *m;

	ck_assert(!rivulet_open(NULL, &c));
	ck_assert_int_eq(rivulet_model_load_memory(c, onnx.p, onnx.n, &must, &m), -EOPNOTSUPP);
	ck_assert_msg(strstr(rivulet_last_error(), "(CumSum) cannot run on the NPU: "), "%s",
		      rivulet_last_error());
	ck_assert_int_eq(rivulet_model_load_memory(c, onnx.p, onnx.n, NULL, &m), 0);
	ck_assert_int_eq(rivulet_model_info(m, &info), 0);
	ck_assert(info.npu_steps == 2 && info.cpu_steps >= 1);
	rivulet_model_unref(m);
	rivulet_client_unref(c);
	free(onnx.p);
}
END_TEST

/* ---- rivulet run ---- */

static void run_tool(const char *words, char *out, size_t size)
{
	struct program p;
	int status;

	program_start(&p, words);
	status = program_end(&p, out, size);
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "%s: status 0x%x: %s", words, status,
		      p.seen);
}

/*
 * Proves that `rivulet run` reports the shape that the run found, the same through the daemon as on
 * the model in its own process, and that --output writes an array of this shape.
 */
START_TEST(by_the_tool)
{
	char words[1024], out[2][8192], path[256], npy[256];
	struct pb model = ot_model(detector, 13);
	const char *shape[2], *header;
	size_t size;
	int fd;

	snprintf(path, sizeof(path), "%s/detector.onnx", rig.dir);
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	ck_assert_int_eq(write(fd, model.p, model.n), model.n);
	close(fd);
	free(model.p);
	for (int i = 0; i < 2; i++) {
		snprintf(words, sizeof(words), "run %s --json --seed 1 --output %s%s", path, rig.dir,
			 i ? " --device sim:zu3eg-64" : "");
		run_tool(words, out[i], sizeof(out[i]));
		shape[i] = strstr(out[i], "\"outputs\"");
		ck_assert_msg(shape[i], "%s", out[i]);
		ck_assert_msg(!strstr(shape[i], "[16,3]") && !strstr(shape[i], "[0,3]"), "%s", shape[i]);
	}
	ck_assert_str_eq(shape[0], shape[1]);
	snprintf(npy, sizeof(npy), "%s/found.npy", rig.dir);
	header = read_file(npy, &size);
	ck_assert_msg(!strstr(header + 10, "(16, 3)"), "%s", header + 10);
	ck_assert_uint_lt(size, 128 + CLASSES * MOST * 3 * sizeof(int64_t));
	free((void *)(uintptr_t)header);
}
END_TEST

static void start_default(void)
{
	rig_start("");
}

int main(int argc, char **argv)
{
	Suite *s;
	TCase *t;

	rig_main(argc, argv, rvl_worker_main);
	s = suite_create("found");
	t = add_case(s, "daemon", 120, start_default, rig_stop);
	tcase_add_test(t, on_the_socket);
	tcase_add_test(t, not_of_a_cancelled_run);
	tcase_add_loop_test(t, by_the_library, 0, 2);
	tcase_add_test(t, npu_required);
	tcase_add_test(t, by_the_tool);
	return run_suite(s);
}
